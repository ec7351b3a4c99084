"""The owner's sources, opened: which columns each has, and how an engine gets to see it as a view or a table."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from hush.core.storage import DECIMALS, reading
from hush.engines.duckdb.sources import (
    CSV,
    TABLES_AND_VIEWS,
    Source,
    csv_header,
    declared_columns,
    first_lines,
    inner_table,
    package,
    program_columns,
    program_rows,
    sqlite_columns,
    sqlite_rows,
)
from hush.engines.duckdb.text_files import (
    TextTable,
    json_names,
    json_rows,
    kept_types,
    local,
    normalised,
    reader,
    utf8_blocks,
)
from hush.engines.errors import SourceError, log
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.nodes import (
    EVERYTHING,
    FALSE,
    TRUE,
    From,
    Scalar,
    Select,
    TableName,
    call,
    column,
    null,
    select,
    text,
)
from hush.engines.sql.relations import Catalogue
from hush.engines.sql.render import text_of
from hush.engines.unread import Tally, Unread, count_cells
from hush.query.schema import Schema, Table
from hush.query.types import Kind, Type

if TYPE_CHECKING:
    import duckdb


_TIMEZONE = "SELECT name FROM pg_timezone_names() WHERE name = $1"
_MENDS_TEXTS = """
SELECT bool_or(list_contains(parameters, 'utf8_validation')) FROM duckdb_functions()
WHERE function_name = 'read_parquet'
"""

_FIRST_OF_SEVERAL = 0xC0
"""The least byte with which a character of several bytes begins in UTF-8."""


class OpenSources:
    """Sources on a connection of their own, and the columns of each: an engine is made over them.

    Opening looks at schemas and headers, not at rows. ``declared`` names the columns of files that have no schema
    (JSON); of others it is not needed. ``memory`` and ``threads`` limit the connection. An engine closes its sources.

    >>> import pyarrow as pa
    >>> with OpenSources({"people": pa.table({"id": [1], "name": ["x"]})}) as opened:
    ...     opened.types["people"]
    {'id': 'BIGINT', 'name': 'VARCHAR'}
    """

    def __init__(
        self,
        sources: Mapping[str, object],
        declared: Mapping[str, Sequence[str]] | None = None,
        *,
        memory: str = "",
        threads: int | None = None,
    ) -> None:
        import duckdb

        self.sources = {table: Source.of(origin) for table, origin in sources.items()}
        self.types: dict[str, dict[str, str]] = {}
        """The columns of each table, with the engine's types, which never change."""
        self.places = {table: f"table_{index}" for index, table in enumerate(self.sources)}
        self._bases: dict[Path, tuple[str, object]] = {}
        self._parquets: dict[str, tuple[object, From]] = {}
        self._zones: dict[str, Mapping[str, str]] = {}
        """Frames that are registered, and the time zones that each gives its columns."""
        # a new directory, which goes with this object, or with the process
        spill = tempfile.mkdtemp(prefix="hush-spill-")
        self._scratch, self._clear = Path(spill), weakref.finalize(self, _remove, spill, os.getpid())
        config: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
            "temp_directory": spill,
        }
        if memory:
            config["memory_limit"] = memory
        if threads:
            config["threads"] = threads
        self.connection: duckdb.DuckDBPyConnection = duckdb.connect(":memory:", config=config)
        try:
            self.connection.execute("SET TimeZone = 'UTC'")
            for table in self.sources:
                with self._reported(table):
                    self.types[table] = self._described(table, (declared or {}).get(table, ()))
        except BaseException:
            self.close()
            raise

    def register(self, schema: Schema) -> Catalogue:
        """Make all sources readable as the schema says, and return the catalogue of their tables.

        Text files are read where a question first needs them (`hush.engines.duckdb.text_files`), everything else here.
        Nothing but the sources and the scratch files may be read from then on.
        """
        files = [str(path) for source in self.sources.values() for path in source.every_file]
        # text files that were rewritten are read from there
        files += [str(self._scratch / f"{place}.lines") for place in self.places.values()]
        self.connection.execute(f"SET allowed_paths = {DUCKDB.array(*map(DUCKDB.text, files))}")
        for table in self.sources:
            if table not in schema.tables:
                raise SourceError(f"a source is given for table {table!r}, which the policy does not describe")
            if self.sources[table].lines:
                kept = kept_types(schema.tables[table], self.sources[table])
                self.types[table] |= {
                    label: physical for label, (physical, _) in kept.items() if label in self.types[table]
                }
            with self._reported(table):
                self._made(table, schema)
        return Catalogue(schema, self.places, self.types)

    def close(self) -> None:
        """Close the connection and remove its temporary files."""
        self.connection.close()
        self._clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def renew(self, table: str, schema: Schema) -> Tally | None:
        """Read a source again, or for the first time; refuse one that has other columns now.

        Of text files, return how they were read.
        """
        source = self.sources[table]
        if not source.lines:
            self._made(table, schema)
            return None
        declared = declared_columns(schema, table)
        names = list(self.types[table])
        if source.format in CSV and _header_of_all(source) != names:
            raise SourceError("the first line is another")
        columns = [label for label in names if not declared or label in declared] or names
        place, described = self.places[table], schema.tables[table]
        text_table = TextTable(
            connection=self.connection,
            source=source,
            scratch=self._scratch / f"{place}.lines",
            names=names,
            columns=columns,
            types=described.columns,
            kept=kept_types(described, source),
        )
        size = 0
        with suppress(OSError):  # a file that has gone is told by what reads it
            size = sum(path.stat().st_size for path in source.every_file)
        with reading((source.folder or source.file).name, size):
            self.connection.execute("BEGIN")  # who asks meanwhile sees the rows of before, all of them
            try:
                tally = text_table.load(place)
            except BaseException:
                self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")
            return tally

    @contextmanager
    def _reported(self, table: str) -> Iterator[None]:
        import duckdb

        try:
            yield
        except SourceError as error:
            raise SourceError(str(error), table=table) from None
        except (duckdb.Error, sqlite3.Error) as error:
            log.debug("the source of table %r cannot be read: %s", table, error)
            file_format = self.sources[table].format
            raise SourceError(
                f"the source of table {table!r} cannot be read as {file_format}; hush init tells the owner why",
                table=table,
            ) from None

    def _described(self, table: str, declared: Sequence[str]) -> dict[str, str]:
        """Return the columns of a source, with the engine's types."""
        source = self.sources[table]
        if (zone := source.timezone) is not None and not self.connection.execute(_TIMEZONE, [zone]).fetchall():
            raise SourceError(f"there is no time zone {zone!r}; write for instance 'Europe/Berlin' or 'UTC'")
        match source.format:
            case "csv" | "tsv":
                names: Iterable[str] = _header_of_all(source)
            case "json":
                names = [*(declared or json_names(source.file)), *source.partitions(source.file)]
            case "sqlite":
                names = sqlite_columns(source.file, source.table, table)[1]
            case "excel" | "stata" | "spss" | "sas":
                names = program_columns(source.file, source.format, source.table, table)
            case _:
                return _types(self.connection, self._as_they_are(self._origin(table), source, None))
        return dict.fromkeys(names, "VARCHAR")

    def _origin(self, table: str, declared: Sequence[str] = ()) -> From | Select:
        """Return the origin of a source's rows, to select from; frames are registered until they are copied."""
        source, frame = self.sources[table], f"frame_{self.places[table]}"
        if source.format == "duckdb":
            return self._attached(table, source)
        if source.format == "parquet":
            stamp = source.stamp()
            if self._parquets.get(table, (None, None))[0] != stamp:
                self._parquets[table] = stamp, _parquet(self.connection, source)
            return self._parquets[table][1]
        if frame not in self._zones:
            zones: Mapping[str, str] = {}
            match source.format:
                case "frame":
                    rows, zones = _arrow(source.frame)
                case "arrow":
                    rows = _feather(source.file)
                case "sqlite":
                    rows = _all_text(sqlite_rows(source.file, source.table, table))
                case "json":
                    rows = _all_text(json_rows(source.file, declared or json_names(source.file)))
                case _:
                    rows = _all_text(program_rows(source.file, source.format, source.table, table))
            self.connection.register(frame, rows)
            self._zones[frame] = zones
        return TableName(frame)

    def _made(self, table: str, schema: Schema) -> None:
        """Make a source readable under its name; refuse one that has other columns now."""
        source, place = self.sources[table], self.places[table]
        if source.lines:
            cells = [null(of).alias(label) for label, of in self.types[table].items()]
            self.connection.execute(DUCKDB.created("TABLE", place, text_of(select(cells).where(FALSE))))
            return
        frame = f"frame_{place}"
        try:
            rows = self._as_they_are(self._origin(table, list(self.types[table])), source, schema.tables[table])
            if _types(self.connection, rows) != self.types[table]:
                raise SourceError("the columns are others")
            # a frame is copied: it cannot change between a plan and its answer, and every thread sees it
            kind = "TABLE" if frame in self._zones else "VIEW"
            self.connection.execute(DUCKDB.created(f"OR REPLACE {kind}", place, text_of(rows)))
        finally:
            if self._zones.pop(frame, None) is not None:
                self.connection.unregister(frame)

    def _attached(self, table: str, source: Source) -> From:
        """Return a table of a DuckDB file, for reading only; the file is attached once, and again when it changes."""
        stamp = source.stamp()
        base, known_stamp = self._bases.get(source.file, (f"base_{len(self._bases)}", None))
        if known_stamp != stamp:
            if known_stamp is not None:
                self.connection.execute(DUCKDB.detached(base))
                # if it cannot be attached now, the next try must not detach it once more
                self._bases[source.file] = base, None
            self.connection.execute(DUCKDB.attached(str(source.file), base))
            self._bases[source.file] = base, stamp
        rows = self.connection.execute(TABLES_AND_VIEWS, [base]).fetchall()
        inner = inner_table(source.file, [row[0] for row in rows], source.table, table)
        return TableName((base, "main", inner))

    def _as_they_are(self, origin: From | Select, source: Source, table: Table | None) -> Select:
        """Return all columns of a source: texts compared by their bytes, times as clocks of its time zone show them.

        A table of a database may say otherwise (COLLATE NOCASE). Then 'smith' and 'SMITH' would be one key, shown as
        whichever was stored first, and one row would fall under both where both are listed.
        """
        zones = self._zones.get(str(origin.place), {}) if isinstance(origin, TableName) else {}
        types = {} if table is None else table.columns
        columns: list[Scalar] = []
        for label, physical in _types(self.connection, select([EVERYTHING], origin)).items():
            cell: Scalar = column(label)
            timezone = source.timezone or zones.get(label)
            if physical == "VARCHAR" and source.format == "duckdb":
                cell = call("collated", cell)
            elif physical == "VARCHAR" and (source.untyped or source.format == "sqlite") and label in types:
                cell = normalised(cell, source, types[label])
            elif physical == "TIMESTAMP WITH TIME ZONE" and timezone is not None:
                cell = local(cell, timezone)
            columns.append(cell.alias(label))
        return select(columns, origin)


def first_rows(source: Source, table: str, number: int) -> list[list[str]]:
    """Return the first rows of a source as texts. For the owner alone, who has the file."""
    if source.format in CSV:
        return first_lines(source, number)
    with OpenSources({table: source}) as opened:
        columns = {label: Type(Kind.TEXT) for label in opened.types[table]}
        schema = Schema(data=table, tables={table: Table(name=table, columns=columns)})
        opened.register(schema)
        opened.renew(table, schema)
        rows = replace(select([EVERYTHING], TableName(opened.places[table])), limit=number)
        fetched = opened.connection.execute(text_of(rows)).fetchall()
    return [["" if cell is None else str(cell) for cell in row] for row in fetched]


def _types(connection: duckdb.DuckDBPyConnection, rows: Select) -> dict[str, str]:
    """Return the columns of a query with the engine's types."""
    return {row[0]: str(row[1]) for row in connection.execute(f"DESCRIBE {text_of(rows)}").fetchall()}


def _header_of_all(source: Source) -> list[str]:
    """Return the columns of a CSV file, or of several with the same first line, and those that folders name."""
    header = csv_header(source)
    for file in source.one_by_one()[1:]:
        if csv_header(file) != header:
            raise SourceError("the files of a table must have the same first line, and one has another")
    return _with_partitions(header, source)


def _with_partitions(names: list[str], source: Source) -> list[str]:
    further = list(source.partitions(source.file))
    both = {name.casefold() for name in names} & {name.casefold() for name in further}
    if both:
        raise SourceError(f"a folder and a column are both called {min(both)!r}; rename one")
    return [*names, *further]


def _parquet(connection: duckdb.DuckDBPyConnection, source: Source) -> From:
    """Return the call that reads a parquet file, or several of the same columns; folders' names are columns of text.

    Its statistics leave NaN out, so the engine must be told not to conclude from them that there is none; and a text
    that is not UTF-8 is mended rather than refused. An engine that cannot mend it reads all texts once, now.
    """
    options: dict[str, Scalar] = {"can_have_nan": TRUE}
    schemas: list[dict[str, str]] = []
    for path in source.files:
        rows = reader("read_parquet", [str(path)], {"hive_partitioning": FALSE})
        schemas.append(_types(connection, select([EVERYTHING], rows)))
        # a cast from one type to another could fail, or not, by the rows
        if list(schemas[-1].items()) != list(schemas[0].items()):
            raise SourceError(f"the files of a table must have the same columns and types, and {path.name} has others")
    if schemas:
        _with_partitions(list(schemas[0]), source)
        hive = bool(source.partitions(source.files[0]))
        # folders unit=1 and unit=01 are two units, so their names stay texts
        options |= {"hive_partitioning": TRUE if hive else FALSE, "hive_types_autocast": FALSE, "union_by_name": FALSE}
    paths = [str(path) for path in source.every_file]
    if _mends_texts(connection):
        return reader("read_parquet", paths, {**options, "utf8_validation": text("replace")})
    origin = reader("read_parquet", paths, options)
    types = _types(connection, select([EVERYTHING], origin))
    texts = [call("max", call("length", column(label))) for label, physical in types.items() if physical == "VARCHAR"]
    if texts:
        connection.execute(text_of(select(texts, origin))).fetchall()
    return origin


def _mends_texts(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether this engine can read a parquet text that is not UTF-8 as something else than an error."""
    return bool(connection.execute(_MENDS_TEXTS).fetchall()[0][0])


def _arrow(frame: Any) -> tuple[Any, Mapping[str, str]]:
    """Return a frame as something DuckDB reads with fixed column types, and the time zones of its columns."""
    try:
        import pyarrow as pa
    except ImportError:
        return frame, {}
    try:
        table = _table(frame)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        log.debug("a frame cannot be read: %s", error)
        raise SourceError(_why_not(frame)) from None
    for index, field in enumerate(table.schema):
        if pa.types.is_float16(field.type):  # which DuckDB does not have
            table = table.set_column(index, field.name, table.column(index).cast(pa.float32()))
        elif pa.types.is_decimal256(field.type):
            raise SourceError(_UNREADABLE.format(f"column {field.name!r}", f"has the type {field.type}"))
    zones = {field.name: field.type.tz for field in table.schema if pa.types.is_timestamp(field.type) and field.type.tz}
    return _distinct(table), zones


_UNREADABLE = (
    "{} of the frame {}, which cannot be read; drop it, or make it of one type: whole numbers of up to 64 bits, "
    "decimals, text, booleans, dates or times, as .astype('float64') or .astype(str) do in pandas, .cast(…) in Polars"
)


def _table(frame: Any) -> Any:
    import pyarrow as pa

    if type(frame).__module__.split(".")[0] == "pandas":
        return pa.Table.from_pandas(frame, preserve_index=False)
    return pa.table(frame)


def _why_not(frame: Any) -> str:
    """Return which column of a pandas or Polars frame Arrow does not take, by its name and type alone."""
    import pyarrow as pa

    for label in getattr(frame, "columns", ()):
        try:
            _table(frame[[label]])
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            kind = next(iter(frame[[label]].dtypes))
            mixed = " that mixes values" if str(kind) == "object" else ""
            return _UNREADABLE.format(f"column {str(label)!r}", f"has the type {kind}{mixed}")
    return _UNREADABLE.format("a column", "has a type that Arrow does not know, or no name of its own")


def _distinct(table: Any) -> Any:
    """Return an Arrow table; refuse one in which two names differ by case alone."""
    names = [label.casefold() for label in table.column_names]
    if not names:
        raise SourceError("there are no columns in it")
    # to the engine names that differ by case alone are one
    if len(set(names)) != len(names):
        raise SourceError("two columns have one name, where capitals do not count; rename one of them")
    return table


def _feather(path: Path) -> Any:
    package("pyarrow", "arrow", "Arrow files")
    from pyarrow import ArrowException, feather

    try:
        return _distinct(feather.read_table(path))
    except (ArrowException, OSError) as error:
        log.debug("an Arrow file cannot be read: %s", error)
        raise SourceError(f"{path.name} is not an Arrow file that can be read") from None


def _all_text(cells: Mapping[str, list[str | None]]) -> Any:
    pa = package("pyarrow", "arrow", "files of this kind")
    return pa.table({label: pa.array(cell, pa.string()) for label, cell in cells.items()})


def _remove(folder: str, pid: int) -> None:
    if pid == os.getpid():  # a fork ends earlier, and is not the owner
        shutil.rmtree(folder, ignore_errors=True)


def count_unread(schema: Schema, name: str, source: Source) -> Unread:
    """Read a whole table, and count the rows and cells that cannot be read."""
    table = schema.tables[name]
    # as texts, so that a cell that cannot be read is told from one that is empty
    raw = replace(table, columns=dict.fromkeys(table.columns, Type(Kind.TEXT)))
    plain = replace(schema, tables={**schema.tables, name: raw})

    def normalise(cell: Scalar, type_: Type, decimal: str | None) -> Scalar:
        return normalised(cell, source if decimal is None else replace(source, decimal=decimal), type_)

    with OpenSources({name: source}, {name: declared_columns(plain, name)}) as opened:

        def fetch(query: Select) -> Sequence[Any]:
            return cast("Sequence[Any]", opened.connection.execute(text_of(query)).fetchall()[0])

        catalogue = opened.register(plain)
        lines = opened.renew(name, plain) if source.lines else None
        decimals = [mark for mark in DECIMALS if mark != source.decimal] if source.format in CSV else []
        counted = count_cells(table, catalogue, fetch, normalise=normalise, decimals=decimals)
    return counted._replace(lines=lines, encoding=_other_encoding(source, lines))


def _other_encoding(source: Source, lines: Tally | None) -> str:
    """Return the encoding that a CSV file seems to have, if it is not the declared one; else nothing.

    Hardly any text of another encoding is UTF-8 by chance. So a file whose characters beyond ASCII are mostly not UTF-8
    was not written as UTF-8, and one of which all are was.
    """
    declared_utf8 = source.encoding in {"utf-8", "utf-8-sig"}
    if source.format not in CSV or lines is None or (declared_utf8 and not lines.replaced):
        return ""
    tally, foreign = Tally(), 0
    for path in source.every_file:
        for block in utf8_blocks(path, tally=tally):
            foreign += int(np.count_nonzero(np.frombuffer(block, np.uint8) >= _FIRST_OF_SEVERAL))
    if declared_utf8:
        return "windows-1252" if 2 * tally.replaced > foreign else ""
    return "utf-8" if foreign and not tally.replaced else ""
