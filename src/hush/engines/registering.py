"""How an engine's connection gets to see the owner's sources, each as a view or a table of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.engines.errors import SourceError, log
from hush.engines.sources import (
    Source,
    compressed,
    csv_header,
    declared_columns,
    holds_any,
    inner_table,
    json_names,
    json_rows,
    sqlite_columns,
    sqlite_rows,
)
from hush.engines.sql.build import (
    EVERYTHING,
    FALSE,
    TRUE,
    Query,
    Sql,
    alias,
    binary,
    call,
    case,
    collated,
    column,
    integer,
    name,
    negated,
    not_null,
    reader,
    select,
    struct,
    text,
    where,
    within,
)
from hush.engines.sql.relations import Catalogue
from hush.query.schema import Schema

if TYPE_CHECKING:
    import duckdb


def register(connection: duckdb.DuckDBPyConnection, schema: Schema, sources: Mapping[str, Source]) -> Catalogue:
    """Make every source readable under a name of its own; nothing else may be read from then on."""
    import duckdb

    files = [str(source.path) for source in sources.values() if source.path is not None]
    if files:
        listed = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
        connection.execute(f"SET allowed_paths = [{listed}]")
    tables, types = {}, {}
    for index, (table, source) in enumerate(sources.items()):
        if table not in schema.tables:
            raise SourceError(f"a source is given for table {table!r}, which the policy does not describe")
        place = f"table_{index}"
        try:
            _add(connection, place, table, source, declared_columns(schema, table))
            rows = connection.execute(f'DESCRIBE "{place}"').fetchall()
        except SourceError as error:
            raise SourceError(str(error), table=table) from None
        except duckdb.Error as error:
            log.debug("the source of table %r cannot be read: %s", table, error)
            raise SourceError(
                f"the source of table {table!r} cannot be read as {source.format}; hush init tells the owner why",
                table=table,
            ) from None
        tables[table] = place
        types[table] = {row[0]: str(row[1]) for row in rows}
    return Catalogue(schema, tables, types)


def renew(connection: duckdb.DuckDBPyConnection, place: str, source: Source) -> None:
    """Look again at a text file that has changed: how it is read depends on which characters are in it."""
    origin = _reading(connection, source, ())
    connection.execute(f"CREATE OR REPLACE VIEW {name(place)} AS {_all_of(origin).text}")


def _add(
    connection: duckdb.DuckDBPyConnection, place: str, table: str, source: Source, declared: Sequence[str]
) -> None:
    frame = f"frame_{place}"
    origin: Sql | Query = name(frame)
    copied = True
    match source.format:
        case "frame":
            connection.register(frame, _arrow(source.frame))
        case "arrow":
            connection.register(frame, _feather(source))
        case "sqlite":
            connection.register(frame, _sqlite(source, table))
        case "json" if not source.by_line:
            connection.register(frame, _records(source, declared))
        case "duckdb":
            origin = _attached(connection, f"base_{place}", table, source)
            copied = False
        case _:
            origin = _reading(connection, source, declared)
            copied = False
    # a frame is copied: it cannot change between a plan and its answer, and every thread sees it
    kind = "TABLE" if copied else "VIEW"
    rows = _as_they_are(connection, origin) if source.format == "duckdb" else _all_of(origin)
    connection.execute(f"CREATE {kind} {name(place)} AS {rows.text}")
    if copied:
        connection.unregister(frame)


def _all_of(origin: Sql | Query) -> Query:
    return select([EVERYTHING], origin)


def _as_they_are(connection: duckdb.DuckDBPyConnection, origin: Sql | Query) -> Query:
    """Return all columns of a source, texts compared by their bytes.

    A table of a database may say otherwise (COLLATE NOCASE). Then 'smith' and 'SMITH' would be one key, shown as
    whichever was stored first, and one row would fall under both where both are listed.
    """
    described = connection.execute(f"DESCRIBE {_all_of(origin).text}").fetchall()
    columns: list[Sql] = []
    for row in described:
        cell: Sql = column(row[0])
        if row[1] == "VARCHAR":
            cell = collated(cell, "binary")
        columns.append(alias(cell, row[0]))
    return select(columns, origin)


def _attached(connection: duckdb.DuckDBPyConnection, base: str, table: str, source: Source) -> Sql:
    """Return a table of a DuckDB file, for reading only."""
    assert source.path is not None  # noqa: S101 - a file has a path
    path = str(source.path).replace("'", "''")
    connection.execute(f"ATTACH '{path}' AS {base} (READ_ONLY)")
    rows = connection.execute(
        "SELECT table_name FROM information_schema.tables "
        "WHERE table_catalog = $1 AND table_schema = 'main' ORDER BY table_name",
        [base],
    ).fetchall()
    inner = inner_table(source.path, [row[0] for row in rows], source.table, table)
    return within(base, "main", inner)


def _reading(connection: duckdb.DuckDBPyConnection, source: Source, declared: Sequence[str]) -> Sql | Query:
    """Return the call that reads a file, in which no row can spoil the others."""
    assert source.path is not None  # noqa: S101 - a file has a path
    if source.format == "parquet":
        return _parquet(connection, source.path)
    if source.format == "json":
        if compressed(source.path):
            holds_any(source.path, b"")  # one that cannot be unpacked is refused now, and not by a question
        return _by_line(source.path, declared or json_names(source.path))
    delimiter = source.separator
    columns = csv_header(source.path, delimiter)
    plain = len(columns) > 1 and not holds_any(source.path, b'"\r\x1f')
    return (_plain if plain else _separated)(source.path, columns, delimiter)


def _by_line(path: Path, columns: Sequence[str]) -> Query:
    """Return the records of a JSON file that has one on each line, all cells as text.

    A line is read for itself, whatever is in the others: one that is no JSON, or too long, is left out. (The engine's
    own reader gives up the whole file over a record that is longer than its buffer.)
    """
    line = column("line")
    spec = text(json.dumps(dict.fromkeys(columns, "VARCHAR")))
    # CASE, and not WHERE alone: conditions of a question may be tested in any order
    record = case((call("json_valid", line), call("json_transform", line, spec)))
    records = select([alias(record, "record")], _lines(path, header=False))
    found = column("record", "t")
    cells = [alias(call("struct_extract", found, text(label)), label) for label in columns]
    return where(select(cells, records), not_null(found))


def _lines(path: Path, *, header: bool) -> Sql:
    """Return the lines of a text file as one column, ``line``; those that are not UTF-8, or too long, are left out."""
    # strict mode refuses a stray carriage return
    options = _options("\x1f", header=header)
    return _reader("read_csv", path, columns=_texts(["line"]), **options, strict_mode=FALSE)


def _plain(path: Path, columns: Sequence[str], delimiter: str) -> Sql:
    """Return the rows of a CSV file without quotes, all as text: the engine's own reader, with no notion of quotes.

    It reads the same rows as `_separated`, eight times as fast, so a quote in one row changes nothing for the others.
    """
    return _reader("read_csv", path, columns=_texts(columns), **_options(delimiter, header=True), strict_mode=TRUE)


def _options(delimiter: str, *, header: bool) -> dict[str, Sql]:
    """Return the options of a reader that looks at one line at a time."""
    nothing, given = text(""), text(delimiter)
    return {
        "auto_detect": FALSE,
        "header": TRUE if header else FALSE,
        "delim": given,
        "quote": nothing,
        "escape": nothing,
        "ignore_errors": TRUE,
    }


def _separated(path: Path, columns: Sequence[str], delimiter: str) -> Query:
    """Return the rows of a CSV file, line by line, all as text.

    Every line is a row of its own, whatever is in the others: a quote that one row leaves open must not swallow the
    rows after it, as it would if quoted fields could contain line breaks. So lines are read whole and taken apart here:
    a line without quotes at its delimiters, one with quotes into fields that have a pair around them or none inside.
    Lines of which that leaves a rest, or another number of fields than there are columns, are left out, but for
    delimiters at the end with nothing between them.
    """
    split = text(delimiter)
    clean = call("trim", column("line"), text("\r\n"))
    whole = select([alias(binary("||", split, clean), "line")], _lines(path, header=True))
    line = column("line", "t")
    mark = "\\|" if delimiter == "|" else delimiter
    pattern = text(f'{mark}(?:"(?:[^"]|"")*"|[^"{delimiter}]*)')
    quoted = call("contains", line, text('"'))
    found = case(
        (quoted, call("regexp_extract_all", line, pattern)),
        otherwise=call("string_split", line, split),
    )
    fields = select([line, alias(quoted, "quoted"), alias(found, "fields")], whole)
    list_, marked = column("fields", "t"), column("quoted", "t")
    rest = binary("<>", call("array_to_string", list_, text("")), line)
    # the line begins with a delimiter, so a line without quotes has an empty field before its first
    size = binary("+", integer(len(columns)), case((marked, integer(0)), otherwise=integer(1)))
    many, nothing = call("len", list_), text("")
    surplus = call("list_slice", list_, binary("+", size, integer(1)), many)
    bare = call("replace", call("array_to_string", surplus, nothing), split, nothing)
    fits = binary("AND", binary(">=", many, size), binary("=", bare, nothing))
    cells = []
    for at, label in enumerate(columns, start=1):
        raw = call("substring", call("list_extract", list_, integer(at)), integer(2))
        inner = call("substring", raw, integer(2), binary("-", call("length", raw), integer(2)))
        bare = call("replace", inner, text('""'), text('"'))
        taken = case((call("starts_with", raw, text('"')), bare), otherwise=raw)
        plain = call("list_extract", list_, integer(at + 1))
        value = case((marked, taken), otherwise=plain)
        cells.append(alias(call("nullif", value, text("")), label))
    odd = binary("AND", marked, rest)
    return where(where(select(cells, fields), fits), negated(odd))


def _parquet(connection: duckdb.DuckDBPyConnection, path: Path) -> Sql:
    """Return the call that reads a parquet file.

    Its statistics leave NaN out, so the engine must be told not to conclude from them that there is none; and a text
    that is not UTF-8 is mended rather than refused. An engine that cannot mend it reads all texts once, now.
    """
    if _mends_texts(connection):
        return _reader("read_parquet", path, can_have_nan=TRUE, utf8_validation=text("replace"))
    origin = _reader("read_parquet", path, can_have_nan=TRUE)
    _check_texts(connection, origin)
    return origin


def _mends_texts(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether this engine can read a parquet text that is not UTF-8 as something else than an error."""
    found = connection.execute(
        "SELECT bool_or(list_contains(parameters, 'utf8_validation')) FROM duckdb_functions() "
        "WHERE function_name = 'read_parquet'"
    ).fetchall()
    return bool(found[0][0])


def _check_texts(connection: duckdb.DuckDBPyConnection, origin: Sql) -> None:
    """Read all texts once, so that one that is not UTF-8 is found now and not by a question."""
    described = connection.execute(f"DESCRIBE {_all_of(origin).text}").fetchall()
    texts = [call("max", call("length", column(row[0]))) for row in described if row[1] == "VARCHAR"]
    if texts:
        connection.execute(select(texts, origin).text).fetchall()


def _reader(function: str, path: Path, **options: Sql) -> Sql:
    """Return a call of a file reader; the options' names are this module's own words."""
    if compressed(path):
        options["compression"] = text("gzip")
    return reader(function, str(path), options)


def _texts(columns: Sequence[str]) -> Sql:
    """Return the value of the option that takes every column as text."""
    return struct({label: text("VARCHAR") for label in columns})


def _arrow(frame: Any) -> Any:
    """Return a frame as something DuckDB reads with fixed column types."""
    try:
        import pyarrow as pa
    except ImportError:
        return frame
    try:
        table = _table(frame)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        log.debug("a frame cannot be read: %s", error)
        raise SourceError(_why_not(frame)) from None
    for at, field in enumerate(table.schema):
        if pa.types.is_float16(field.type):  # which DuckDB does not have
            table = table.set_column(at, field.name, table.column(at).cast(pa.float32()))
        elif pa.types.is_decimal256(field.type):
            raise SourceError(_UNREADABLE.format(f"column {field.name!r}", f"has the type {field.type}"))
    return _distinct(table)


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

    for at, label in enumerate(getattr(frame, "columns", ())):
        try:
            part = frame.iloc[:, [at]] if hasattr(frame, "iloc") else frame.select(label)
            _table(part)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            kind = getattr(part, "dtypes", [""])
            kind = kind.iloc[0] if hasattr(kind, "iloc") else kind[0]
            mixed = " that mixes values" if str(kind) == "object" else ""
            return _UNREADABLE.format(f"column {str(label)!r}", f"has the type {kind}{mixed}")
    return _UNREADABLE.format("a column", "has a type that Arrow does not know, or no name of its own")


def _distinct(table: Any) -> Any:
    """Return an Arrow table whose columns have different names, in an engine that ignores case."""
    names = [label.casefold() for label in table.column_names]
    if not names:
        raise SourceError("there are no columns in it")
    if len(set(names)) != len(names):
        raise SourceError("two columns have one name, where capitals do not count; rename one of them")
    return table


def _feather(source: Source) -> Any:
    from pyarrow import ArrowException, feather

    try:
        return _distinct(feather.read_table(source.path))
    except (ArrowException, OSError) as error:
        log.debug("an Arrow file cannot be read: %s", error)
        raise SourceError(f"{source.path.name if source.path else ''} is not an Arrow file that can be read") from None


def _sqlite(source: Source, table: str) -> Any:
    assert source.path is not None  # noqa: S101 - a file has a path
    inner, columns = sqlite_columns(source.path, source.table, table)
    return _all_text(sqlite_rows(source.path, inner, list(columns)))


def _records(source: Source, declared: Sequence[str]) -> Any:
    assert source.path is not None  # noqa: S101 - a file has a path
    return _all_text(json_rows(source.path, declared or json_names(source.path)))


def _all_text(cells: Mapping[str, list[str | None]]) -> Any:
    import pyarrow as pa

    return pa.table({label: pa.array(cell, pa.string()) for label, cell in cells.items()})
