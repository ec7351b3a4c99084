"""Where a table's rows come from, and how they are read without any row being able to make it fail.

Parquet files and frames bring their own column types, which are part of the schema and public. CSV, JSON and SQLite
store no reliable types, so all their columns are read as text and forced into the declared types by total casts; every
record of a CSV file is a row, whatever its cells hold (`hush.engines.duckdb.delimited`), and so is every line of a file
whose name says that it has a JSON record on each (.ndjson, .jsonl). How a CSV file is written (its separator, encoding,
decimal mark) is said by the owner and never found out from the lines. Any other JSON file is read once, where it is
opened, and refused there if it is none. Guessing types from the rows, as readers like to do, would let one row change
every other row's reading.

**Several files as one table.** A folder, or a pattern such as ``visits/*.parquet``, is all its files, which must be of
one format (parquet, CSV, JSON lines) and have the same columns. Folders named ``year=2024`` are a column ``year`` of
texts. The files are listed once, in the order of their names, when the source is opened; a file that comes later is
seen when it is opened again. One file under two names would count its rows twice, and is refused.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from hush.core.storage import DECIMALS, ENCODINGS, SEPARATORS, text_encoding
from hush.core.values import dataclass
from hush.engines.duckdb.delimited import opened
from hush.engines.duckdb.other_programs import PROGRAMS
from hush.engines.errors import SourceError
from hush.query.schema import Schema

FIRST_RECORD = 2**20
"""So many characters may the first record of a file have."""
_BY_LINE = {".ndjson", ".jsonl"}
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
    **PROGRAMS,
}
_TEXTS = {"csv", "tsv", "json"}
_SEVERAL = {"parquet", "csv", "tsv"}
"""What may lie in several files; of JSON, records on lines."""
_PATTERN = re.compile(r"[*?\[]")
_PARTITION = re.compile(r"([^=/\\]+)=([^=/\\]*)")
CSV = {"csv", "tsv"}
_PROGRAMS = set(PROGRAMS.values())
UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading a file may raise, compressed or not."""


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
    """What stands between the fields of a CSV file."""
    encoding: str = "utf-8"
    """How a CSV file's characters are stored."""
    decimal: str = "."
    """What stands before the decimals of a CSV file's numbers."""
    quotes: bool = True
    """Whether quotes around a CSV file's field may hold separators and line breaks; else they are characters."""
    timezone: str | None = None
    """Where the clocks are that show the times of a column with a time zone, or of texts with an offset."""
    keep: Path | None = None
    """The directory in which a copy of a text file may be kept (`hush.engines.duckdb.kept_copies`)."""

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
        keep: Path | None = None,
    ) -> Source:
        """Return the source that a path, or ``base.duckdb#table``, names, or a pandas, Polars or Arrow frame."""
        source = cls._of(origin)
        if separator is None and source.format == "tsv":
            source = replace(source, separator="\t")
        given: dict[str, Any] = {"separator": separator, "encoding": encoding, "decimal": decimal, "quotes": quotes}
        said = {key: value for key, value in given.items() if value is not None}
        if said and source.format not in CSV:
            article = "an" if next(iter(said)) == "encoding" else "a"
            raise SourceError(f"{article} {next(iter(said))} is for CSV files; leave it out")
        if separator is not None and separator not in SEPARATORS:
            listed = " ".join(map(repr, SEPARATORS))
            raise SourceError(f"fields can be separated by one of {listed}; got {separator!r}")
        if encoding is not None:
            said["encoding"] = text_encoding(encoding)
            if said["encoding"] is None:
                raise SourceError(f"an encoding is a name such as {ENCODINGS}; got {encoding!r}")
        if decimal is not None and decimal not in DECIMALS:
            raise SourceError(f"a decimal mark is one of {' '.join(map(repr, DECIMALS))}; got {decimal!r}")
        if decimal is not None and decimal == said.get("separator", source.separator) and quotes is False:
            raise SourceError(f"fields and decimals cannot both be separated by {decimal!r} where nothing is quoted")
        if quotes is not None and not isinstance(quotes, bool):
            raise SourceError(f"quotes is true or false; got {quotes!r}")
        if timezone is not None and (not isinstance(timezone, str) or not timezone.strip()):
            raise SourceError(f"a time zone is a name such as 'Europe/Berlin'; got {timezone!r}")
        if keep is not None and not source.lines:
            raise SourceError("only CSV and JSON files are kept, since reading them takes long; leave keep out")
        return replace(source, **said, timezone=timezone or source.timezone, keep=keep or source.keep)

    @classmethod
    def _of(cls, origin: object) -> Source:
        if isinstance(origin, Source):
            return origin
        if isinstance(origin, str) and "://" in origin:
            raise SourceError(f"{origin!r} is an address, and only files are read; fetch it, and name the file")
        if isinstance(origin, str | Path):
            path, table = Path(origin), ""
            if path.is_dir() or (_PATTERN.search(str(origin)) and not path.exists()):
                return cls._of_several(path)
            name, _, inner = path.name.partition("#")
            if inner and _SUFFIXES.get(Path(name).suffix.lower()) in {"duckdb", "sqlite", "excel"}:
                path, table = path.parent / name, inner
            form = _SUFFIXES.get(_ending(path))
            if form is None or (compressed(path) and form not in _TEXTS):
                known = ", ".join(sorted(_SUFFIXES))
                raise SourceError(
                    f"cannot tell what {str(origin)!r} is; its name should end in one of {known}; texts also in .gz"
                )
            if not path.is_file():
                raise SourceError(f"there is no file {str(path)!r}; check the path")
            return cls(path=path.resolve(), table=table or None, format=form)
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
    def _of_several(cls, place: Path) -> Source:
        """Return the source that a folder or a pattern names."""
        folder = place if place.is_dir() else _before_pattern(place)
        pattern = "**/*" if place.is_dir() else str(place.relative_to(folder))
        listed = sorted(path for path in folder.glob(pattern) if path.is_file() and not _hidden(path, folder))
        if not listed:
            raise SourceError(f"there are no files in {str(place)!r}; check the path")
        forms = {_SUFFIXES.get(_ending(path)) or _ending(path) for path in listed}
        if len(forms) > 1:
            endings = ", ".join(sorted({_ending(path) or "none" for path in listed}))
            raise SourceError(
                f"the files of {str(place)!r} are of several kinds ({endings}); name those of one, such as "
                f"{str(folder / ('*' + _ending(listed[0])))!r}"
            )
        form = forms.pop()
        if form not in _SEVERAL and not (form == "json" and all(_ending(path) in _BY_LINE for path in listed)):
            raise SourceError(
                f"files ending in {_ending(listed[0]) or 'nothing'} are read one by one; several files are one table "
                "where they are parquet, CSV or JSON lines (.ndjson)"
            )
        inodes = {(status.st_dev, status.st_ino) for status in (path.stat() for path in listed)}
        if len(inodes) < len(listed):
            raise SourceError(f"two of the files of {str(place)!r} are one, so its rows would count twice; remove one")
        files = tuple(path.resolve() for path in listed)
        source = cls(path=files[0], files=files, folder=folder.resolve(), format=form)
        names = {tuple(source.partitions(path)) for path in files}
        if len(names) > 1:
            raise SourceError(f"the folders of {str(place)!r} do not all have the same names before =")
        return source

    @property
    def every_file(self) -> tuple[Path, ...]:
        """The files: several, one, or none of a frame."""
        return self.files or (() if self.path is None else (self.path,))

    def one_by_one(self) -> list[Source]:
        """Return a source for each file."""
        return [replace(self, path=path, files=()) for path in self.every_file]

    def partitions(self, path: Path) -> dict[str, str]:
        """Return the columns that the names of folders give, with their texts in one file."""
        if self.folder is None or self.folder not in path.parents:
            return {}
        parts = [_PARTITION.fullmatch(part) for part in path.relative_to(self.folder).parent.parts]
        return {unquote(part[1]): unquote(part[2]) for part in parts if part is not None}

    @property
    def by_line(self) -> bool:
        """Whether the file's name says that it has one JSON record on each line."""
        return self.path is not None and _ending(self.path) in _BY_LINE

    @property
    def lines(self) -> bool:
        """Whether this is a text file of one record after the other, which is read where a question needs it."""
        return self.format in CSV or (self.format == "json" and self.by_line)

    @property
    def untyped(self) -> bool:
        """Whether the file keeps no types at all, so that every column is text."""
        return self.format in _TEXTS or self.format in _PROGRAMS

    def declared_types(self, usual: str) -> dict[str, str]:
        """Return the column types that a SQLite file declares, which it does not enforce; of any other source, none."""
        if self.format != "sqlite" or self.path is None:
            return {}
        return sqlite_columns(self.path, self.table, usual)[1]

    @property
    def size(self) -> float:
        """How many bytes there are to read; infinite if that cannot be told without reading."""
        if self.path is None:
            return _frame_bytes(self.frame)
        try:
            return sum(path.stat().st_size for path in self.every_file)
        except OSError:
            return math.inf

    def stamp(self) -> tuple[Any, ...]:
        """Return what changes when the file changes."""
        if self.path is None:
            return (id(self.frame),)
        try:
            statuses = [(str(path), path.stat()) for path in self.every_file]
        except OSError:
            raise SourceError(
                "the file of a table is gone or cannot be read now; tell the owner (nothing was charged)"
            ) from None
        stamps = [
            (path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) for path, status in statuses
        ]
        return stamps[0] if len(stamps) == 1 else tuple(stamps)


def _frame_bytes(frame: Any) -> float:
    """Return about how many bytes an Arrow, Polars or pandas frame takes; of pandas' texts what points to them."""
    if hasattr(frame, "nbytes"):
        return float(frame.nbytes)
    if hasattr(frame, "estimated_size"):
        return float(frame.estimated_size())
    return float(frame.memory_usage(index=False).sum()) if hasattr(frame, "memory_usage") else math.inf


def compressed(path: Path) -> bool:
    """Return whether a file's name says that it is compressed."""
    return path.suffix.lower() == ".gz"


def table_name(path: Path) -> str:
    """Return what a file's table is called where nobody says: its name without endings."""
    return path.with_suffix("").stem if compressed(path) else path.stem


def _before_pattern(place: Path) -> Path:
    """Return the folder above the first part of a path that is a pattern."""
    parts = list(place.parts)
    first = next(number for number, part in enumerate(parts) if _PATTERN.search(part))
    return Path(*parts[:first]) if first else Path()


def _hidden(path: Path, folder: Path) -> bool:
    """Return whether a file is not part of a table: programs mark such by a dot or an underscore."""
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def _ending(path: Path) -> str:
    """Return what a file's name says it is, compressed or not."""
    return (path.with_suffix("") if compressed(path) else path).suffix.lower()


def opened_text(path: Path, encoding: str = "utf-8-sig", newline: str | None = "") -> io.TextIOWrapper:
    """Return a file's text, compressed or not; what its encoding cannot say is replaced."""
    return io.TextIOWrapper(opened(path), newline=newline, encoding=encoding, errors="replace")


def csv_header(source: Source) -> list[str]:
    """Return the names in a CSV file's first line."""
    assert source.path is not None  # noqa: S101 - a file has a path
    line = ""
    encoding = "utf-8-sig" if source.encoding == "utf-8" else source.encoding
    try:
        with opened_text(source.path, encoding, None) as lines:
            line = lines.readline(FIRST_RECORD).removeprefix("\ufeff").rstrip("\n")
        rows = csv.reader([line], delimiter=source.separator) if source.quotes else [line.split(source.separator)]
        header = [label or f"column_{at}" for at, label in enumerate(next(iter(rows), []), start=1)]
    except (*UNREADABLE, csv.Error, UnicodeError):
        header = []
    broken = source.quotes and line.count('"') % 2 == 1  # a name with a line break in it
    if not header or broken or not line.strip() or len({label.casefold() for label in header}) != len(header):
        raise SourceError(
            f"{source.path.name} needs a first line with a distinct name for each column; capitals do not count"
        )
    return header


def proposed_encoding(path: Path) -> str:
    """Return what a CSV file's first bytes and its first line, which are no rows, say of its encoding.

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


def proposed_timezone(source: Source) -> str:
    """Return the time zone that a parquet file's schema names for all its times, where it names one; else UTC."""
    zones: set[str] = set()
    with suppress(ImportError, OSError, ValueError):
        from pyarrow import parquet, types

        schema = parquet.read_schema(source.path) if source.format == "parquet" else ()
        zones = {field.type.tz for field in schema if types.is_timestamp(field.type) and field.type.tz}
    return zones.pop() if len(zones) == 1 else "UTC"


def inner_tables(path: Path) -> list[str]:
    """Return the tables of a DuckDB or SQLite file; of any other file, none."""
    form = _SUFFIXES.get(path.suffix.lower())
    try:
        if form == "duckdb":
            import duckdb

            with duckdb.connect(str(path), read_only=True) as connection:
                rows = connection.execute(
                    "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'"
                ).fetchall()
        elif form == "sqlite":
            base = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            try:
                rows = base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            finally:
                base.close()
        else:
            return []
    except Exception as error:  # both raise errors of their own
        raise SourceError(f"{path.name} is not a database that can be read") from error
    return sorted(row[0] for row in rows if not row[0].startswith("sqlite_"))


def inner_table(path: Path, names: Sequence[str], table: str | None, usual: str) -> str:
    """Return which table of a database is meant; without a name, the usual one or the only one there is."""
    wanted = table or (names[0] if len(names) == 1 else usual)
    for name in names:
        if name.casefold() == wanted.casefold():
            return name
    raise SourceError(f"{path.name} has the tables {', '.join(names) or '(none)'}; name one: '{path.name}#TABLE'")


def sqlite_columns(path: Path, table: str | None, usual: str) -> tuple[str, dict[str, str]]:
    """Return a table's name and its columns with their declared types; without a name, of the usual or only one."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        listed = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        names: list[str] = [row[0] for row in listed]
        table = inner_table(path, names, table, usual)
        columns = {row[1]: str(row[2]) for row in connection.execute(f"PRAGMA table_info({_quoted(table)})")}
    except sqlite3.DatabaseError as error:
        raise SourceError(f"{path.name} is not a SQLite file that can be read") from error
    finally:
        connection.close()
    return table, columns


def sqlite_rows(path: Path, table: str, columns: Sequence[str]) -> Mapping[str, list[str | None]]:
    """Return all rows as columns of text."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        cells = ", ".join(f"CAST({_quoted(column)} AS TEXT)" for column in columns)
        rows = connection.execute(f"SELECT {cells} FROM {_quoted(table)}").fetchall()  # noqa: S608 - quoted names
    finally:
        connection.close()
    return {column: [row[at] for row in rows] for at, column in enumerate(columns)}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def declared_columns(schema: Schema, table: str) -> list[str]:
    """Return the columns of a private table that the policy reads; a file without a schema is read by these.

    The names in a first record are data: whether a question can be asked must not depend on them.
    """
    found = schema.tables[table]
    if found.public:
        return []
    names = dict.fromkeys(found.columns)
    for other in schema.tables.values():
        if other.unit is None:
            continue
        holder = other.name
        for hop in other.unit.hops:
            names |= dict.fromkeys([hop.column] if holder == table else [])
            names |= dict.fromkeys([hop.key] if hop.table == table else [])
            holder = hop.table
        names |= dict.fromkeys([other.unit.column] if holder == table else [])
    return list(names)
