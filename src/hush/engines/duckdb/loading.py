"""Text files as tables of an engine: read whole, once, before a question is charged, every record a row of texts.

A question never reads a CSV file or a file of JSON lines itself. An engine's reader that meets a cell or a line it does
not like drops the row, or fails, and newer engines hand it a question's own casts, so that a cell which does not parse
drops its row only if somebody asks about that column. A table of texts has none of that: what a cast cannot read is
NULL, and the row stays. A file that changes is read again before the next question; one that cannot be read then is
refused, and nothing is charged.

The engine's reader is still the quickest way from a file into a table. It gets the file itself if every line is a row
of plain text, else one that `hush.engines.duckdb.delimited` has rewritten. Either way the rows are counted twice, by
the engine and here, and a file whose counts differ is rewritten; so none is lost, whichever version of the engine reads
it.

**Decimal commas.** In a numeric column of a file with ``decimal = ","`` the comma is read as the point; a number with a
point in it is then none.

**Time zones.** A time with an offset (``2024-03-01 23:30:00+01:00``, or with ``Z``) is an instant. Where the owner
declares a ``timezone`` it is read as what the clocks there showed; otherwise the clock is taken as it is written, and
its offset dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hush.engines.duckdb.delimited import BREAK, FIELD, LONG, RETURN, Tally, Writer, json_lines, plain_rows, utf8_blocks
from hush.engines.duckdb.sources import UNREADABLE, Source, compressed
from hush.engines.errors import SourceError
from hush.engines.sql.build import (
    FALSE,
    NULL,
    TRUE,
    Query,
    Sql,
    alias,
    between,
    binary,
    call,
    case,
    column,
    name,
    select,
    text,
    try_cast,
    whole,
)
from hush.query.types import Kind

if TYPE_CHECKING:
    import duckdb

_OFFSET = r":[0-9]{2}(\.[0-9]*)?\s*(Z|z|UTC|[+-][0-9]{2}(:?[0-9]{2})?)\s*$"
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be read of a text file: all the columns it has, which of them, and of what kind they are declared."""

    names: Sequence[str]
    columns: Sequence[str]
    kinds: Mapping[str, Kind]


def load(connection: duckdb.DuckDBPyConnection, place: str, source: Source, wanted: Wanted, scratch: Path) -> Tally:
    """Read a text file into a table of the engine; ``scratch`` is a file that the engine may read as well."""
    for _ in range(_TRIES):
        before = source.stamp()
        try:
            tally = _loaded(connection, place, source, wanted, scratch)
        except (*UNREADABLE, UnicodeError):
            assert source.path is not None  # noqa: S101 - a file has a path
            raise SourceError(f"{source.path.name} cannot be read, or not be unpacked") from None
        finally:
            with suppress(OSError):
                scratch.unlink()
        if source.stamp() == before:
            return tally
    raise SourceError("the file of a table changes while it is read; ask again later (nothing was charged)")


def _loaded(connection: duckdb.DuckDBPyConnection, place: str, source: Source, wanted: Wanted, scratch: Path) -> Tally:
    if not source.files:
        return _loaded_file(connection, place, source, wanted, scratch)
    tallies, parts = [], []
    for number, part in enumerate(source.one_by_one()):
        assert part.path is not None  # noqa: S101 - a file has a path
        given = source.partitions(part.path)
        held = replace(wanted, names=[label for label in wanted.names if label not in given])
        held = replace(held, columns=[label for label in wanted.columns if label not in given] or held.names)
        parts.append(f"{place}_{number}")
        tallies.append(_loaded_file(connection, parts[-1], part, held, scratch))
        cells = [alias(text(given[label]) if label in given else column(label), label) for label in wanted.columns]
        rows = select(cells, name(parts[-1]))
        words = f"CREATE OR REPLACE TABLE {name(place)} AS" if number == 0 else f"INSERT INTO {name(place)}"
        connection.execute(f"{words} {rows.text}")
        connection.execute(f"DROP TABLE {name(parts[-1])}")
    return Tally(*(sum(figures) for figures in zip(*map(astuple, tallies), strict=True)))


def _loaded_file(
    connection: duckdb.DuckDBPyConnection, place: str, source: Source, wanted: Wanted, scratch: Path
) -> Tally:
    assert source.path is not None  # noqa: S101 - a file has a path
    if source.format == "json":
        rows = _write_json(source.path, scratch, wanted.columns)
        made = _made(connection, place, _json_rows(scratch, source, wanted))
        return _counted(Tally(rows=rows), made)
    if len(wanted.names) > 1 and source.encoding == "utf-8":
        plain = plain_rows(source.path)
        if plain is not None:
            origin = _reader(source.path, wanted.names, source.separator, header=True)
            if _made(connection, place, _cells(origin, source, wanted, breaks=False)) == plain:
                return Tally(rows=plain)
    writer = Writer(columns=len(wanted.names), separator=source.separator, quotes=source.quotes)
    with scratch.open("wb") as file:
        for lines in writer.lines(utf8_blocks(source.path, source.encoding, writer.tally)):
            file.write(lines)
    names = [*wanted.names, "end"] if len(wanted.names) == 1 else wanted.names
    origin = _reader(scratch, names, FIELD.decode(), header=False)
    made = _made(connection, place, _cells(origin, source, wanted, breaks=writer.breaks))
    return _counted(writer.tally, made)


def _counted(tally: Tally, rows: int) -> Tally:
    if tally.rows != rows:
        raise SourceError("the engine does not read this file as it is; store it as parquet")
    return tally


def _made(connection: duckdb.DuckDBPyConnection, place: str, rows: Query) -> int:
    """Make a table, and return how many rows it has."""
    connection.execute(f"CREATE OR REPLACE TABLE {name(place)} AS {rows.text}")
    found = connection.execute(f"SELECT count(*) FROM {name(place)}").fetchall()  # noqa: S608 - our own name
    return int(found[0][0])


def _reader(path: Path, columns: Sequence[str], delimiter: str, *, header: bool) -> Sql:
    """Return a call of the engine's reader, without any notion of quotes, types or guesses."""
    # by number: names of a header may be anything
    texts = struct({f"c{at}": text("VARCHAR") for at in range(len(columns))})
    options: dict[str, Sql] = {
        "columns": texts,
        "auto_detect": FALSE,
        "header": TRUE if header else FALSE,
        "delim": text(delimiter),
        "quote": text(""),
        "escape": text(""),
        "ignore_errors": TRUE,
        "strict_mode": TRUE,
    }
    if compressed(path):
        options["compression"] = text("gzip")
    return reader("read_csv", str(path), options)


def _cells(origin: Sql, source: Source, wanted: Wanted, *, breaks: bool) -> Query:
    cells = []
    for label in wanted.columns:
        cell: Sql = column(f"c{wanted.names.index(label)}")
        if breaks:
            cell = call("replace", cell, text(BREAK.decode()), text("\n"))
            cell = call("replace", cell, text(RETURN.decode()), text("\r"))
        cells.append(alias(said(cell, source, wanted.kinds.get(label)), label))
    return select(cells, origin)


def said(cell: Sql, source: Source, kind: Kind | None) -> Sql:
    """Return a text as the engine's casts understand it, where the owner says how numbers and times are written."""
    if kind is None:
        return cell
    if kind.numeric and source.decimal != ".":
        pointed = call("contains", cell, text("."))
        return case((pointed, NULL), otherwise=call("replace", cell, text(source.decimal), text(".")))
    if kind in {Kind.DATE, Kind.TIMESTAMP} and source.timezone is not None:
        instant = try_cast(cell, "TIMESTAMPTZ")
        clock = call("strftime", local(instant, source.timezone), text("%Y-%m-%d %H:%M:%S.%f"))
        offset = call("regexp_matches", cell, text(_OFFSET))
        # CASE, and not AND: an instant far outside the calendar has no local time, and would be an error
        return case((binary("AND", offset, _in_calendar(instant)), clock), otherwise=cell)
    return cell


def local(instant: Sql, timezone: str) -> Sql:
    """Return what the clocks of a time zone show at an instant; NULL outside of the years 1 to 9999."""
    return case((_in_calendar(instant), call("timezone", text(timezone), instant)))


def _in_calendar(instant: Sql) -> Sql:
    ends = [Sql(f"TIMESTAMPTZ '{day} 00:00:00+00'") for day in ("0001-01-03", "9999-12-30")]
    return between(instant, *ends)


# JSON lines


def _write_json(path: Path, scratch: Path, columns: Sequence[str]) -> int:
    rows = 0
    with scratch.open("wb") as file:
        for lines, count in json_lines(utf8_blocks(path)):
            file.write(b"".join(_short(lines, columns)))
            rows += count
    return rows


def _short(lines: bytes, columns: Sequence[str]) -> Iterator[bytes]:
    """Yield lines no longer than the engine's reader takes; of a longer record the wanted cells, cut."""
    if max(map(len, lines.split(b"\n"))) <= LONG:
        yield lines
        return
    for line in lines.splitlines(keepends=True):
        if len(line) <= LONG:
            yield line
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        cells = {label: record[label] for label in columns if label in record} if isinstance(record, dict) else None
        share = LONG // (8 * max(1, len(columns)))  # a character takes up to six bytes when it is escaped
        cut = {label: cell[:share] if isinstance(cell, str) else cell for label, cell in (cells or {}).items()}
        short = json.dumps({label: cell for label, cell in cut.items() if len(json.dumps(cell)) <= 8 * share})
        yield short.encode() + b"\n" if cells is not None else b"null\n"


def _json_rows(scratch: Path, source: Source, wanted: Wanted) -> Query:
    """Return the records, each line's for itself: one that is no JSON is a row of NULLs."""
    line = column("c0")
    spec = text(json.dumps(dict.fromkeys(wanted.columns, "VARCHAR")))
    # CASE, and not WHERE: conditions may be tested in any order
    record = case((call("json_valid", line), call("json_transform", line, spec)))
    records = select([alias(record, "record")], _reader(scratch, ["line"], FIELD.decode(), header=False))
    cells = []
    for label in wanted.columns:
        cell = call("struct_extract", column("record", "t"), text(label))
        cells.append(alias(said(cell, source, wanted.kinds.get(label)), label))
    return select(cells, records)


# words for files and other databases, which DuckDB alone reads


def collated(value: Sql, by: str) -> Sql:
    """Return a text that is compared in a given way."""
    return Sql(f"{value} COLLATE {name(by)}", value.work)


def struct(fields: Mapping[str, Sql]) -> Sql:
    """Return a record."""
    return whole(f"{{{', '.join(f'{name(label)}: {value}' for label, value in fields.items())}}}")


def within(*path: str) -> Sql:
    """Return a table to select from, in a schema of a database."""
    return Sql(".".join(name(part) for part in path))


def reader(function: str, path: str | Sequence[str], options: Mapping[str, Sql]) -> Sql:
    """Return files to select from; the function and the options' names are words of this package's own source."""
    named = [f"{label} = {value}" for label, value in options.items()]
    files = text(path) if isinstance(path, str) else f"[{', '.join(str(text(file)) for file in path)}]"
    return whole(f"{function.upper()}({', '.join([str(files), *named])})")
