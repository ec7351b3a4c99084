"""Text files as tables of an engine: read whole, once, before a question is charged, every record a row of texts.

A question never reads a CSV file or a file of JSON lines itself. An engine's reader that meets a cell or a line it does
not like drops the row, or fails, and newer engines hand it a question's own casts, so that a cell which does not parse
drops its row only if somebody asks about that column. A table of texts has none of that: what a cast cannot read is
NULL, and the row stays. Numbers, dates and booleans of private tables are forced into their declared types once, where
they are loaded (`kept_types`), by the same total casts that a question would use; to force them again changes nothing.
A file that changes is read again before the next question; one that cannot be read then is refused, and nothing is
charged.

The engine's reader is still the quickest way from a file into a table. It gets the file itself if every line is a row
of plain text, else one that `hush.engines.duckdb.delimited` has rewritten. Either way the rows are counted twice, by
the engine and here, and a file whose counts differ is rewritten; so none is lost, whichever version of the engine reads
it.

**Decimal commas.** In a numeric column of a file with ``decimal = ","`` the comma is read as the point; a number with a
point in it is then none.

**Time zones.** A time with an offset (``2024-03-01 23:30:00+01:00``, or with ``Z``) is an instant. Where the owner
declares a ``timezone`` it is read as what the clocks there showed; otherwise the clock is taken as it is written, and
its offset dropped.

**JSON files**, an array of records or one record after the other, are read as columns of text by `json_rows`: JSON
stores no reliable types, so every value becomes the text that stands for it. Where a record ends can be told only by
reading it: a file that is no JSON is refused as a whole, where the owner opens it, and no question fails by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.core.values import dataclass
from hush.engines.duckdb.delimited import BREAK, FIELD, LONG, RETURN, Tally, Writer, json_lines, plain_rows, utf8_blocks
from hush.engines.duckdb.sources import FIRST_RECORD, UNREADABLE, Source, compressed, opened_text
from hush.engines.errors import SourceError
from hush.engines.sql.build import (
    FALSE,
    NULL,
    TRUE,
    Sql,
    alias,
    between,
    binary,
    call,
    case,
    cast,
    column,
    name,
    text,
    try_cast,
    whole,
)
from hush.engines.sql.forcing import force
from hush.engines.sql.queries import Query, select
from hush.engines.sql.values import FORMS, digits
from hush.query.schema import Table
from hush.query.types import Kind, Type

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
    kept: Mapping[str, tuple[str, Type]] = field(default_factory=dict)
    """Columns that are not kept as texts: as what the engine keeps them, and what is declared of them."""


def kept_types(table: Table, source: Source) -> dict[str, tuple[str, Type]]:
    """Return which columns of a text file are kept as something else than text, the engine's type and the declared one.

    A declared value that is read twice must be what it is when it is read once. So decimals with a step are kept as
    DECIMAL, of as many digits as the step and the bounds have, which is what a question takes them for; lists of values
    stay texts, as do public tables, whose bounds are found out from what is stored.
    """
    named = source.partitions(source.path) if source.path is not None else {}
    types: dict[str, tuple[str, Type]] = {}
    for label, type_ in table.columns.items():
        if table.public or label in named or type_.values is not None or type_.kind is Kind.TEXT:
            continue
        if type_.kind is Kind.INTEGER and not (type_.bounded and _fits(type_, 63)):
            continue
        physical = FORMS[type_.kind].value
        if type_.kind is Kind.DECIMAL and type_.step is not None:
            scale = digits(type_.lower, type_.upper, type_.step)
            if scale is None or not type_.bounded or not _fits(type_, 49) or scale > 3:
                continue
            physical = f"DECIMAL(18,{scale})"
        types[label] = physical, type_
    return types


def _fits(type_: Type, bits: int) -> bool:
    return all(end is not None and abs(end) < 2**bits for end in (type_.lower, type_.upper))


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
        made = _made(connection, place, _json_rows(scratch, source, wanted), wanted)
        return _counted(Tally(rows=rows), made)
    if len(wanted.names) > 1 and source.encoding == "utf-8":
        plain = plain_rows(source.path)
        if plain is not None:
            origin = _reader(source.path, wanted.names, source.separator, header=True)
            if _made_at_once(connection, place, _cells(origin, source, wanted, breaks=False), wanted) == plain:
                return Tally(rows=plain)
    writer = Writer(columns=len(wanted.names), separator=source.separator, quotes=source.quotes)
    with scratch.open("wb") as file:
        for lines in writer.lines(utf8_blocks(source.path, source.encoding, writer.tally)):
            file.write(lines)
    names = [*wanted.names, "end"] if len(wanted.names) == 1 else wanted.names
    origin = _reader(scratch, names, FIELD.decode(), header=False)
    made = _made(connection, place, _cells(origin, source, wanted, breaks=writer.breaks), wanted)
    return _counted(writer.tally, made)


def _counted(tally: Tally, rows: int) -> Tally:
    if tally.rows != rows:
        raise SourceError("the engine does not read this file as it is; store it as parquet")
    return tally


def _made(connection: duckdb.DuckDBPyConnection, place: str, texts: Query, wanted: Wanted) -> int:
    """Make a table, and return how many rows it has: of texts first, so that no cast comes near the engine's reader."""
    held = f"{place}_texts" if wanted.kept else place
    connection.execute(f"CREATE OR REPLACE TABLE {name(held)} AS {texts.text}")
    if wanted.kept:
        cells = [alias(_kept(column(label), label, wanted), label) for label in wanted.columns]
        connection.execute(f"CREATE OR REPLACE TABLE {name(place)} AS {select(cells, name(held)).text}")
        connection.execute(f"DROP TABLE {name(held)}")
    return _rows_of(connection, place)


def _made_at_once(connection: duckdb.DuckDBPyConnection, place: str, texts: Query, wanted: Wanted) -> int:
    """Make a table in one pass over a plain file; a text that is put together is none that a reader could cast itself.

    Whoever calls this counts the rows: if a reader took the casts nevertheless, and dropped what they cannot read, the
    table is made again, of texts first.
    """
    cells = []
    for label in wanted.columns:
        cell: Sql = column(label, "t")
        if label in wanted.kept:
            cell = _kept(binary("||", cell, text("")), label, wanted)
        cells.append(alias(cell, label))
    connection.execute(f"CREATE OR REPLACE TABLE {name(place)} AS {select(cells, texts).text}")
    return _rows_of(connection, place)


def _rows_of(connection: duckdb.DuckDBPyConnection, place: str) -> int:
    counted = connection.execute(f"SELECT count(*) FROM {name(place)}").fetchall()  # noqa: S608 - our own name
    return int(counted[0][0])


def _kept(cell: Sql, label: str, wanted: Wanted) -> Sql:
    """Return a text as it is kept: itself, or forced into its declared type."""
    if label not in wanted.kept:
        return cell
    physical, type_ = wanted.kept[label]
    value = force(cell, "VARCHAR", type_)
    held = value.form.value
    return cast(value.sql, physical) if held == physical else try_cast(value.sql, physical, held)


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


_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_BETWEEN = re.compile(r"[\s,]*")


def json_names(path: Path) -> list[str]:
    """Return the names in a JSON file's first record; the file is an array, or records one after the other."""
    try:
        with opened_text(path) as lines:
            start = lines.read(FIRST_RECORD).lstrip().removeprefix("[").lstrip()
        record, _ = json.JSONDecoder().raw_decode(start)
    except (*UNREADABLE, ValueError, RecursionError):
        record = None
    names = [name for name in record if name.strip() and name.isprintable()] if isinstance(record, dict) else []
    if not names:
        raise SourceError(f"{path.name} must hold JSON records, the first within its first megabyte")
    return names


def json_rows(path: Path, columns: Sequence[str]) -> Mapping[str, list[str | None]]:
    """Return the records of a JSON file, an array or one after the other, as columns of text.

    Where a record ends can be told only by reading it, so a file that is no JSON is refused as a whole; the owner
    learns that here, where the file is opened, and no question fails by it. What is JSON is read whatever it holds:
    half of a surrogate pair, control characters, numbers of any length, records nested too deep to be read, which are
    rows of NULL. Numbers keep their own words.
    """
    decoder = json.JSONDecoder(strict=False, parse_float=str, parse_int=str, parse_constant=str)
    cells: dict[str, list[str | None]] = {name: [] for name in columns}
    try:
        with opened_text(path) as file:
            text = file.read()
        at = _skipped(text, 0)
        array = text.startswith("[", at)
        at = _skipped(text, at + array)
        while at < len(text) and not (array and text[at] == "]"):
            row, at = _record(decoder, text, at, columns)
            for name, cell in zip(columns, row, strict=True):
                cells[name].append(cell)
            at = _skipped(text, at)
        complete = text[at:].rstrip() == ("]" if array else "")
    except (*UNREADABLE, ValueError, RecursionError):
        complete = False
    if not complete:
        raise SourceError(f"{path.name} is not JSON that can be read; if it has a record on each line, name it .ndjson")
    return cells


def _record(decoder: json.JSONDecoder, text: str, at: int, columns: Sequence[str]) -> tuple[Sequence[str | None], int]:
    """Return the cells of the record that begins at a place, and where it ends."""
    try:
        record, end = decoder.raw_decode(text, at)
        return [_as_text(record.get(name)) if isinstance(record, dict) else None for name in columns], end
    except RecursionError:
        return [None] * len(columns), _end_of_nested(text, at)


def _end_of_nested(text: str, at: int) -> int:
    """Return where a record ends, by counting brackets outside of texts, however deep they are."""
    depth = 0
    for token in _BRACKETS.finditer(text, at):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    raise ValueError("a bracket is left open")


def _skipped(text: str, at: int) -> int:
    """Return where the next record begins."""
    blank = _BETWEEN.match(text, at)
    return at if blank is None else blank.end()


def _as_text(value: Any) -> str | None:
    """Return a JSON value as the text that stands for it; what UTF-8 cannot say is replaced."""
    if value is None:
        return None
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else json.dumps(value)


def json_columns(path: Path, named: Sequence[str]) -> list[str]:
    """Return the columns of a JSON file: those that the owner names, and what else its first record has.

    For the owner alone, who has the file. Named columns are there whatever the first record is, and where one differs
    from a name of the record in capitals only, it is the one that counts.
    """
    try:
        held = json_names(path)
    except SourceError:
        if not named:
            raise
        held = []
    taken = {name.casefold() for name in named}
    others = {name.casefold(): name for name in reversed(held) if name.casefold() not in taken}
    columns = [name for name in held if name in named or others.get(name.casefold()) == name]
    return [*columns, *(name for name in named if name not in held)]
