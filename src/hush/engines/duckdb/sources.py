"""Where a table's rows come from, and how they are read without any row being able to make it fail.

Parquet files and frames bring their own column types, which are part of the schema and public. All others store no
reliable types, so all their columns are read as text and forced into the declared types by total casts: guessing types
from the rows, as readers like to do, would let one row change every other row's reading. CSV files and lines of JSON
are read by `hush.engines.duckdb.text_files`; any other JSON file is read once, where it is opened, and refused there if
it is none.

**Several files as one table.** A folder, or a pattern such as ``visits/*.parquet``, is all its files, which must be of
one format (parquet, CSV, JSON lines) and have the same columns. Folders named ``year=2024`` are a column ``year`` of
texts. The files are listed once, in the order of their names, when the source is opened.

**Files of other programs** (Excel, Stata, SPSS, SAS). Dates are written as ISO 8601, whole numbers without a point,
missing values are NULL, and a 1 with a label is 1. A sheet's first row names its columns.

**Two names for one file are one file** (`overlap`). A file is known by its device and inode: another spelling of its
path, a symbolic link and a hard link are the same. A table of a database is known by its file and its name, a view by
the tables that it is made of, and a frame in memory by the object. Copies are other files, and nothing here can tell
them.

>>> import pyarrow as pa
>>> frame = pa.table({"x": [1]})
>>> one, same, copy = Source.of(frame), Source.of(frame), Source.of(pa.table({"x": [1]}))
>>> overlap(one, "a", same, "b"), overlap(one, "a", copy, "b")
(True, False)
"""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import gzip
import io
import json
import math
import re
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from hush.core.storage import DECIMALS, ENCODINGS, SEPARATORS, text_encoding
from hush.engines.errors import SourceError, log
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.nodes import EVERYTHING, TableName, column, select
from hush.engines.sql.render import text_of
from hush.query.schema import Schema

_READERS = {
    ".dta": "read_dta",
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
_DATABASES = {"duckdb", "sqlite", "excel"}
TABLES_AND_VIEWS = """
SELECT table_name FROM information_schema.tables WHERE table_catalog = $1 AND table_schema = 'main' ORDER BY table_name
"""
_WHOLE_PLANS = "PRAGMA disable_optimizer"
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows with NULL in a partition column, as Hive, Spark and DuckDB name it."""
FIRST_RECORD = 2**20
"""The largest number of characters in the first record of a file."""
_BY_LINE = (".ndjson", ".jsonl")
_ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "json": (".json", *_BY_LINE),
    "arrow": (".arrow", ".feather", ".ipc"),
    "duckdb": (".duckdb", ".ddb"),
    "sqlite": (".sqlite", ".sqlite3", ".db"),
    "excel": (".xlsx", ".xlsm"),
    "stata": (".dta",),
    "spss": (".sav", ".zsav"),
    "sas": (".sas7bdat", ".xpt"),
}
_SUFFIXES = {ending: file_format for file_format, endings in _ENDINGS.items() for ending in endings}
"""The format of a file by the ending of its name."""
_TEXTS = {"csv", "tsv", "json"}
_SEVERAL = {"parquet", "csv", "tsv"}
"""Formats of tables in several files; JSON only with a record on each line."""
_PATTERN = re.compile(r"[*?\[]")
_PARTITION = re.compile(r"([^=/\\]+)=([^=/\\]*)")
CSV = {"csv", "tsv"}
_QUOTED_NAME = re.compile('"[^"]*"')
_NAME = re.compile(r'"(?:[^"]|"")*"|[^."]+')
"""One part of a name such as ``base.main."a.b"``."""
_PROGRAMS = {"excel": "an Excel file", "stata": "a Stata file", "spss": "a SPSS file", "sas": "a SAS file"}
"""The names of other programs, by the formats of their files."""
_DUCKDB_TABLES = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'"
SQLITE_TABLES = "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')"
_SQLITE_COLUMNS = "SELECT name, type FROM pragma_table_info(?)"
UNREADABLE = (OSError, EOFError, zlib.error)
"""Errors of reading a file, compressed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One table's rows: a file (and a table in it, for databases), or a frame in memory."""

    path: Path | None = None
    """The file; the first one of several."""
    files: tuple[Path, ...] = ()
    """All files of a table that is in several."""
    folder: Path | None = None
    """Where they are."""
    frame: Any = None
    table: str | None = None
    format: str = ""
    separator: str = ","
    """The separator of a CSV file's fields."""
    encoding: str = "utf-8"
    """How a CSV file's characters are stored."""
    decimal: str = "."
    """The decimal mark of a CSV file's numbers."""
    quotes: bool = True
    """Whether quotes around a CSV file's field may hold separators and line breaks; else they are characters."""
    timezone: str | None = None
    """Where the clocks are that show the times of a column with a time zone, or of texts with an offset."""

    @classmethod
    def of(
        cls,
        origin: object,
        *,
        separator: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        quotes: bool | None = None,
        timezone: str | None = None,
    ) -> Source:
        """Return the source that a path, or ``base.duckdb#table``, names, or a pandas, Polars or Arrow frame."""
        source = cls._of(origin)
        if separator is None and source.format == "tsv":
            source = replace(source, separator="\t")
        options: dict[str, Any] = {"separator": separator, "encoding": encoding, "decimal": decimal, "quotes": quotes}
        settings = {key: value for key, value in options.items() if value is not None}
        if settings and source.format not in CSV:
            name = next(iter(settings))
            raise SourceError(f"{'an' if name == 'encoding' else 'a'} {name} is for CSV files; leave it out")
        if separator is not None and separator not in SEPARATORS:
            choices = " ".join(map(repr, SEPARATORS))
            raise SourceError(f"fields can be separated by one of {choices}; got {separator!r}")
        if encoding is not None:
            settings["encoding"] = text_encoding(encoding)
        if encoding is not None and settings["encoding"] is None:
            raise SourceError(f"an encoding is a name such as {ENCODINGS}; got {encoding!r}")
        if decimal is not None and decimal not in DECIMALS:
            raise SourceError(f"a decimal mark is one of {' '.join(map(repr, DECIMALS))}; got {decimal!r}")
        if decimal is not None and decimal == settings.get("separator", source.separator) and quotes is False:
            raise SourceError(f"fields and decimals cannot both be separated by {decimal!r} where nothing is quoted")
        if quotes is not None and not isinstance(quotes, bool):
            raise SourceError(f"quotes is true or false; got {quotes!r}")
        if timezone is not None and (not isinstance(timezone, str) or not timezone.strip()):
            raise SourceError(f"a time zone is a name such as 'Europe/Berlin'; got {timezone!r}")
        return replace(source, **settings, timezone=timezone or source.timezone)

    @classmethod
    def _of(cls, origin: object) -> Source:
        if isinstance(origin, Source):
            return origin
        if isinstance(origin, str) and "://" in origin:
            raise SourceError(f"{origin!r} is an address, and only files are read; fetch it, and name the file")
        if isinstance(origin, str | Path):
            path, table = Path(origin), ""
            # a file with * or [ in its own name is meant itself, if it is there
            if path.is_dir() or (_PATTERN.search(str(origin)) and not path.exists()):
                return cls._of_several(path)
            name, _, inner = path.name.partition("#")
            # in the name of any other file # is a character
            if inner and _SUFFIXES.get(Path(name).suffix.lower()) in {"duckdb", "sqlite", "excel"}:
                path, table = path.parent / name, inner
            file_format = format_of(path)
            if file_format is None:
                endings = ", ".join(sorted(_SUFFIXES))
                raise SourceError(
                    f"cannot tell what {str(origin)!r} is; its name should end in one of {endings}; texts also in .gz"
                )
            if not path.is_file():
                raise SourceError(f"there is no file {str(path)!r}; check the path")
            return cls(path=path.resolve(), table=table or None, format=file_format)
        if type(origin).__name__ == "LazyFrame" and hasattr(origin, "collect"):
            try:
                return cls._of(origin.collect())
            except Exception as error:  # whatever the frame's own steps raise, as the owner should read it
                raise SourceError(f"the lazy frame cannot be collected: {error}") from error
        library = type(origin).__module__.split(".")[0]
        if library == "pandas" or hasattr(origin, "__arrow_c_stream__"):
            if hasattr(origin, "columns") or hasattr(origin, "schema"):
                return cls(frame=origin, format="frame")
            raise SourceError(f"a {type(origin).__name__} is one column; give a frame, as its to_frame() is")
        raise SourceError(f"cannot read rows from a {type(origin).__name__}; give a path or a frame")

    @classmethod
    def _of_several(cls, pattern_path: Path) -> Source:
        """Return the source that a folder or a pattern names."""
        folder, pattern = pattern_path, "**/*"
        if not pattern_path.is_dir():  # the folder above the first part that is a pattern
            folder = Path(*takewhile(lambda name: not _PATTERN.search(name), pattern_path.parts))
            pattern = str(pattern_path.relative_to(folder))
        # a dot or an underscore marks what is no part of a table
        paths = sorted(
            path
            for path in folder.glob(pattern)
            if path.is_file() and not any(name.startswith((".", "_")) for name in path.relative_to(folder).parts)
        )
        if not paths:
            raise SourceError(f"there are no files in {str(pattern_path)!r}; check the path")
        file_formats = {_SUFFIXES.get(_ending(path)) or _ending(path) for path in paths}
        if len(file_formats) > 1:
            endings = ", ".join(sorted({_ending(path) or "none" for path in paths}))
            raise SourceError(
                f"the files of {str(pattern_path)!r} are of several kinds ({endings}); name those of one, such as "
                f"{str(folder / ('*' + _ending(paths[0])))!r}"
            )
        file_format = file_formats.pop()
        if file_format not in _SEVERAL and not (
            file_format == "json" and all(_ending(path) in _BY_LINE for path in paths)
        ):
            raise SourceError(
                f"files ending in {_ending(paths[0]) or 'nothing'} are read one by one; several files are one table "
                "where they are parquet, CSV or JSON lines (.ndjson)"
            )
        inodes = {(status.st_dev, status.st_ino) for status in (path.stat() for path in paths)}
        if len(inodes) < len(paths):
            raise SourceError(
                f"two of the files of {str(pattern_path)!r} are one, so its rows would count twice; remove one"
            )
        files = tuple(path.resolve() for path in paths)
        source = cls(path=files[0], files=files, folder=folder.resolve(), format=file_format)
        names = {tuple(source.partitions(path)) for path in files}
        if len(names) > 1:
            raise SourceError(f"the folders of {str(pattern_path)!r} do not all have the same names before =")
        return source

    @property
    def file(self) -> Path:
        """The file, or the first one of several. A frame has none, and its reader asks for none."""
        if self.path is None:
            raise TypeError("a frame is no file")
        return self.path

    @property
    def every_file(self) -> tuple[Path, ...]:
        """The files: several, one, or none of a frame."""
        return self.files or (() if self.path is None else (self.path,))

    def one_by_one(self) -> list[Source]:
        """Return a source for each file."""
        return [replace(self, path=path, files=()) for path in self.every_file]

    def partitions(self, path: Path) -> dict[str, str | None]:
        """Return the columns that the names of folders give, with their texts in one file; None for NULL's folder."""
        if self.folder is None or self.folder not in path.parents:
            return {}
        parts = [_PARTITION.fullmatch(name) for name in path.relative_to(self.folder).parent.parts]
        labels = {unquote(name[1]): unquote(name[2]) for name in parts if name is not None}
        return {label: None if word == _NULL_FOLDER else word for label, word in labels.items()}

    @property
    def lines(self) -> bool:
        """Whether this is CSV, or JSON with a record on each line, which is read where a question needs it."""
        return self.format in CSV or (self.format == "json" and _ending(self.file) in _BY_LINE)

    @property
    def copied(self) -> bool:
        """Whether the engine holds the rows in memory; parquet and DuckDB files are read by each question."""
        return self.format not in {"parquet", "duckdb"}

    @property
    def untyped(self) -> bool:
        """Whether the file keeps no types at all, so that every column is text."""
        return self.format in _TEXTS or self.format in _PROGRAMS

    def declared_types(self, usual: str) -> dict[str, str]:
        """Return the column types that a SQLite file declares, which it does not enforce; of any other source, none."""
        if self.format != "sqlite" or self.path is None:
            return {}
        return sqlite_columns(self.path, self.table, usual)[1]

    def stamp(self) -> tuple[Any, ...]:
        """Return a value that changes with the file."""
        if self.path is None:
            return (id(self.frame),)
        try:
            statuses = [(str(path), path.stat()) for path in self.every_file]
        except OSError:
            raise SourceError(
                "the file of a table is gone or cannot be read now; tell the owner (nothing was charged)"
            ) from None
        # programs can set the time of modification back, but not the time at which the inode changed
        stamps = [
            (path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) for path, status in statuses
        ]
        return stamps[0] if len(stamps) == 1 else tuple(stamps)


def format_of(path: Path) -> str | None:
    """Return the format of a table file, as its name says it; None for other files."""
    file_format = _SUFFIXES.get(_ending(path))
    return None if compressed(path) and file_format not in _TEXTS else file_format


def compressed(path: Path) -> bool:
    """Return whether a file's name says that it is compressed."""
    return path.suffix.lower() == ".gz"


def table_name(path: Path) -> str:
    """Return the default name of a file's table: the file's name without endings."""
    return path.with_suffix("").stem if compressed(path) else path.stem


def _ending(path: Path) -> str:
    """Return the ending of a file's name, before .gz if it is compressed."""
    return (path.with_suffix("") if compressed(path) else path).suffix.lower()


def opened(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """Open a file, compressed or not."""
    return gzip.open(path, "rb") if compressed(path) else path.open("rb")


def opened_text(path: Path, encoding: str = "utf-8-sig", newline: str | None = "") -> io.TextIOWrapper:
    """Return a file's text, compressed or not, with U+FFFD for bytes that are not in the encoding."""
    return io.TextIOWrapper(opened(path), newline=newline, encoding=encoding, errors="replace")


def _lines(source: Source) -> io.TextIOWrapper:
    """Open a CSV file's text, to read a few lines."""
    return opened_text(source.file, "utf-8-sig" if source.encoding == "utf-8" else source.encoding, None)


def csv_header(source: Source) -> list[str]:
    """Return the names in a CSV file's first line."""
    line = ""
    try:
        with _lines(source) as lines:
            # limited, or a file without line breaks would be read whole
            line = lines.readline(FIRST_RECORD).removeprefix("\ufeff").rstrip("\n")
        rows = csv.reader([line], delimiter=source.separator) if source.quotes else [line.split(source.separator)]
        header = [label or f"column_{number}" for number, label in enumerate(next(iter(rows), []), start=1)]
    except (*UNREADABLE, csv.Error, UnicodeError):
        header = []
    broken = source.quotes and line.count('"') % 2 == 1  # a name with a line break in it
    if not header or broken or not line.strip() or len({label.casefold() for label in header}) != len(header):
        raise SourceError(
            f"{source.file.name} needs a first line with a distinct name for each column; capitals do not count"
        )
    return header


def proposed_encoding(path: Path) -> str:
    """Return the encoding that a CSV file's first line suggests, which is no row.

    A mark of the byte order is certain. A header that is not UTF-8 is most often in the encoding of Windows.
    """
    try:
        with opened(path) as file:
            line = file.readline(FIRST_RECORD)
    except UNREADABLE:
        return "utf-8"
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        line.decode()
    except UnicodeDecodeError:
        return "windows-1252"
    return "utf-8"


def proposed_separator(source: Source) -> str:
    """Return the separator that a CSV file's first line suggests, which is no row; a comma if none stands in it."""
    line = ""
    with suppress(*UNREADABLE, UnicodeError), _lines(source) as lines:
        line = _QUOTED_NAME.sub("", lines.readline(FIRST_RECORD))
    # of a colon nobody can tell whether it is part of a name
    return max((mark for mark in SEPARATORS if mark != ":"), key=line.count)


def first_lines(source: Source, count: int) -> list[list[str]]:
    """Return the fields of a CSV file's first lines after its header. For the owner alone, who has the file."""
    try:
        with _lines(source) as lines:
            texts = [lines.readline(FIRST_RECORD) for _ in range(count + 1)][1:]
        # a line at a time, as a quote that somebody left open must not hide what follows
        return [next(csv.reader([text], delimiter=source.separator)) for text in texts if text.strip()]
    except (*UNREADABLE, csv.Error, UnicodeError):
        return []


def proposed_timezone(source: Source) -> str:
    """Return the time zone that a parquet file's schema names for all its times, where it names one; else UTC."""
    zones: set[str] = set()
    with suppress(ImportError, OSError, ValueError):
        from pyarrow import parquet, types

        schema = parquet.read_schema(source.path) if source.format == "parquet" else ()
        zones = {field.type.tz for field in schema if types.is_timestamp(field.type) and field.type.tz}
    return zones.pop() if len(zones) == 1 else "UTC"


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    """Refuse a file that is broken: each format's reader has errors of its own."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        log.debug("%s cannot be read: %s", path.name, error)
        raise SourceError(f"{path.name} is not {kind} that can be read") from error


def inner_tables(path: Path) -> list[str]:
    """Return the tables of a DuckDB or SQLite file; of any other file, none."""
    with _readable(path, "a database"):
        match _SUFFIXES.get(path.suffix.lower()):
            case "duckdb":
                import duckdb

                with duckdb.connect(str(path), read_only=True) as connection:
                    return sorted(row[0] for row in connection.execute(_DUCKDB_TABLES).fetchall())
            case "sqlite":
                with sqlite_file(path) as base:
                    rows = base.execute(SQLITE_TABLES).fetchall()
                return sorted(name for name, kind in rows if kind == "table" and not name.startswith("sqlite_"))
    return []


def inner_table(path: Path, names: Sequence[str], table: str | None, usual: str, kind: str = "table") -> str:
    """Return which table or sheet of a file is meant; without a name, the usual one or the only one there is."""
    target = table or (names[0] if len(names) == 1 else usual)
    for name in names:
        if name.casefold() == target.casefold():
            return name
    choices = ", ".join(names) or "(none)"
    raise SourceError(f"{path.name} has the {kind}s {choices}; name one: '{path.name}#{kind.upper()}'")


def sqlite_file(path: Path) -> closing[sqlite3.Connection]:
    """Open a SQLite file for reading."""
    return closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True))


def sqlite_columns(path: Path, table: str | None, usual: str) -> tuple[str, dict[str, str]]:
    """Return a table's name and its columns with their declared types; without a name, of the usual or only one."""
    with _readable(path, "a SQLite file"), sqlite_file(path) as connection:
        names = [row[0] for row in connection.execute(SQLITE_TABLES)]
        table = inner_table(path, names, table, usual)
        return table, {name: str(kind) for name, kind in connection.execute(_SQLITE_COLUMNS, [table])}


def sqlite_rows(path: Path, table: str | None, usual: str) -> Mapping[str, list[str | None]]:
    """Return all rows as columns of text."""
    inner, columns = sqlite_columns(path, table, usual)
    # SQLite enforces no types: a column of numbers may hold texts, too
    query = select([column(label).cast("TEXT") for label in columns], TableName(inner))
    with sqlite_file(path) as connection:
        # by default Python raises for a text that is not UTF-8, and SQLite stores any bytes
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        rows = connection.execute(text_of(query)).fetchall()
    return {label: [row[index] for row in rows] for index, label in enumerate(columns)}


def declared_columns(schema: Schema, table: str) -> list[str]:
    """Return the columns of a private table that the policy reads; a file without a schema is read by these.

    The names in a first record are data: whether a question can be asked must not depend on them.
    """
    described = schema.tables[table]
    return [] if described.public else list(dict.fromkeys(described.columns) | schema.identifying(table))


def overlap(first: Source, first_name: str, second: Source, second_name: str) -> bool:
    """Return whether two sources read the same rows; the names are the defaults for their tables."""
    if first.path is None or second.path is None:
        return first.frame is not None and first.frame is second.frame
    if set(map(_inode, first.every_file)).isdisjoint(map(_inode, second.every_file)):
        return False
    # a file that is no database is one table, so the same file is the same rows
    if first.format not in _DATABASES or second.format not in _DATABASES:
        return True
    mine, theirs = _tables(first, first_name), _tables(second, second_name)
    # what cannot be told counts as the same rows, to be on the safe side
    return mine is None or theirs is None or bool(mine & theirs)


def _inode(path: Path) -> tuple[int, int] | str:
    try:
        status = path.stat()
    except OSError:
        return str(path)
    return status.st_dev, status.st_ino


def _tables(source: Source, usual: str) -> frozenset[str] | None:
    """Return the stored tables that a source reads, in lower case; None if that cannot be told."""
    if source.format == "excel":
        with closing(_book(source.file)) as book:
            sheet = inner_table(source.file, book.sheetnames, source.table, usual, "sheet")
        return frozenset({sheet.casefold()})
    read = _duckdb_tables if source.format == "duckdb" else _sqlite_tables
    with _readable(source.file, "a database"):
        return read(source.file, source.table, usual)


def _sqlite_tables(path: Path, table: str | None, usual: str) -> frozenset[str]:
    """Return the stored tables that SQLite reads for a table or view."""
    read: set[str] = set()

    def note(action: int, name: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_READ and name is not None:
            read.add(name.casefold())
        return sqlite3.SQLITE_OK

    with sqlite_file(path) as connection:
        tables = dict(connection.execute(SQLITE_TABLES).fetchall())
        target = inner_table(path, list(tables), table, usual)
        # SQLite calls it for every table that a statement reads, when it is compiled: LIMIT 0 runs nothing
        connection.set_authorizer(note)
        connection.execute(text_of(replace(select([EVERYTHING], TableName(target)), limit=0)))
    views = {name.casefold() for name, kind in tables.items() if kind == "view"}
    return frozenset({*read, target.casefold()} - views)


def _duckdb_tables(path: Path, table: str | None, usual: str) -> frozenset[str] | None:
    """Return the stored tables that DuckDB scans for a table or view; None if it calls a function for its rows."""
    import duckdb

    with duckdb.connect(":memory:") as base:
        base.execute(DUCKDB.attached(str(path), "base"))  # others in this process may have it open
        target = inner_table(
            path, [row[0] for row in base.execute(TABLES_AND_VIEWS, ["base"]).fetchall()], table, usual
        )
        # an optimiser leaves out a table of which no row can be needed
        base.execute(_WHOLE_PLANS)
        rows = text_of(select([EVERYTHING], TableName(("base", "main", target))))
        waiting = json.loads(base.execute(DUCKDB.explained(rows)).fetchall()[0][1])
    stored: set[str] = set()
    while waiting:
        step = waiting.pop()
        waiting += step["children"]
        # a step that scans says what: a table, or a function, which may read anything
        if "Function" in step["extra_info"]:
            return None
        if "Table" in step["extra_info"]:
            # with its database and schema, quoted where it must be; older versions say the bare name
            scanned = step["extra_info"]["Table"]
            stored.add((_NAME.findall(scanned)[-1] if scanned.startswith("base.") else scanned).casefold())
    return frozenset(stored)


def package(name: str, extra: str, files: str) -> Any:
    """Return a package that an extra of hush brings; where it is missing, say how to install it.

    >>> package("json", "files", "JSON files").__name__
    'json'
    >>> package("no_such_package", "files", "Excel files")
    Traceback (most recent call last):
        ...
    hush.engines.errors.SourceError: to read Excel files, no_such_package is needed: pip install 'hush[files]'
    """
    try:
        return import_module(name)
    except ImportError:
        raise SourceError(f"to read {files}, {name} is needed: pip install 'hush[{extra}]'") from None


def program_columns(path: Path, file_format: str, table: str | None, usual: str) -> list[str]:
    """Return the names of the columns, which are schema: a sheet's first row, or the names of variables."""
    if file_format != "excel":
        _, meta = _statistics(path, file_format, metadataonly=True)
        return _distinct_names(path, meta.column_names)
    with closing(_book(path)) as book:
        sheet = book[inner_table(path, book.sheetnames, table, usual, "sheet")]
        rows = sheet.iter_rows(max_row=1, values_only=True)
        return _distinct_names(path, [_cell_text(cell) or "" for cell in next(iter(rows), ())])


def program_rows(path: Path, file_format: str, table: str | None, usual: str) -> Mapping[str, list[str | None]]:
    """Return all rows as columns of text."""
    names = program_columns(path, file_format, table, usual)
    if file_format != "excel":
        columns, _ = _statistics(path, file_format)
        return {name: [_cell_text(cell) for cell in columns[name]] for name in names}
    with closing(_book(path)) as book, _readable(path, _PROGRAMS[file_format]):
        sheet = book[inner_table(path, book.sheetnames, table, usual, "sheet")]
        rows = sheet.iter_rows(min_row=2, max_col=len(names), values_only=True)
        texts = [[_cell_text(cell) for cell in row] for row in rows]
    filled = [row + [None] * (len(names) - len(row)) for row in texts if any(cell is not None for cell in row)]
    return {name: [row[index] for row in filled] for index, name in enumerate(names)}


def _book(path: Path) -> Any:
    openpyxl = package("openpyxl", "files", "Excel files")
    with _readable(path, _PROGRAMS["excel"]):
        return openpyxl.load_workbook(path, read_only=True, data_only=True)


def _statistics(path: Path, file_format: str, *, metadataonly: bool = False) -> tuple[Any, Any]:
    pyreadstat = package("pyreadstat", "files", f"{_PROGRAMS[file_format].removeprefix('a ')}s")
    read = getattr(pyreadstat, _READERS[path.suffix.lower()])
    with _readable(path, _PROGRAMS[file_format]):
        columns, meta = read(str(path), metadataonly=metadataonly, output_format="dict")
    return columns, meta


def _distinct_names(path: Path, names: Sequence[str]) -> list[str]:
    """Return names of columns, those that are empty by their number; refuse two that are one."""
    labels = [name.strip() or f"column_{number}" for number, name in enumerate(names, start=1)]
    if not labels or len({label.casefold() for label in labels}) != len(labels):
        raise SourceError(f"{path.name} needs a distinct name for each column; capitals do not count")
    return labels


def _cell_text(cell: Any) -> str | None:
    """Return the text of a spreadsheet's cell; None, which becomes NULL, where there is no value.

    >>> [_cell_text(cell) for cell in (3.0, 0.25, float("nan"), True, dt.datetime(2024, 5, 1), " ")]
    ['3', '0.25', None, 'true', '2024-05-01', ' ']
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, dt.datetime):
        midnight = cell.time() == dt.time() and cell.tzinfo is None
        return cell.date().isoformat() if midnight else cell.isoformat(sep=" ")
    if isinstance(cell, dt.date | dt.time):
        return cell.isoformat()
    if hasattr(cell, "item"):
        return _cell_text(cell.item())
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell).encode("utf-8", "replace").decode() or None
