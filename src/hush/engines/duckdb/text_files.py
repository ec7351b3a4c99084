r"""CSV files and JSON lines, as they are found: every record is a row, with any cells.

Real files have quotes in the middle of a cell, rows with too few or too many fields, bytes that are not in their
encoding, and texts with line breaks. Readers drop such rows, or give up. Both would let one person's row decide what
is answered, so this module defines a reading that is total: every byte sequence has records, and no record is lost.

**What a record is.** RFC 4180: fields between separators, a field with quotes around it may hold separators, line
breaks and doubled quotes. What the RFC does not allow is read locally:

    bytes that are not in the encoding     become U+FFFD
    a quote inside a bare field            is a character like any other
    a quoted field that does not end       where a separator or the end of a line follows: the quote is a character, and
                                           its line is a row of its own
    too few fields                         the rest is NULL
    too many                               the rest is left out
    a line without a character             is no row

Fields with line breaks are believed only where the record then has exactly as many fields as there are columns and is
not larger than 2²⁴ bytes. Records end with LF or CRLF; with CR if the first line, which is the header and public, does.

**How it is done quickly.** `CsvRewriter` rewrites a file into one that any reader takes in the same way: UTF-8, fields
separated by U+001F, records by LF, no quotes; line breaks inside a field stand as U+001E and U+001D, and where the file
itself holds one of these three characters it becomes U+FFFD. Blocks without irregularities are rewritten with NumPy. In
a block that obeys the RFC a byte is inside quotes exactly if an odd number of quotes precedes it, so it suffices to
check that every odd quote stands at the start of a field, or directly behind a quote, and every even one before its
end, or directly before a quote. All other blocks go record by record, to the same effect.

>>> writer = CsvRewriter(columns=2, separator=",")
>>> b"".join(writer.lines([b'id,text\n1,"a, b"\n2\n3,c"d,e\n4,"open\n'])).split(b"\n")[:-1]
[b'1\x1fa, b', b'2\x1f', b'3\x1fc"d', b'4\x1f"open']
>>> writer.tally
Tally(rows=4, short=1, long=1, broken=1, replaced=0)

**Loading.** A text file is read whole, once, before a question is charged, every record a row of texts. A question
never reads such a file itself: an engine's reader that meets a cell or a line it does not like drops the row, or fails,
and newer engines hand it a question's own casts, so that a cell which does not parse drops its row only if somebody
asks about that column. Numbers, dates and booleans of private tables are forced into their declared types once, where
they are loaded (`kept_types`), by the same total casts that a question would use; to force them again changes nothing.

The engine's reader is still the quickest way from a file into a table. It gets the file itself if every line is a row
of plain text, else one that `CsvRewriter` has rewritten. Either way the rows are counted twice, by the engine and here,
and a file whose counts differ is rewritten; so none is lost, whichever version of the engine reads it.

How decimal commas, offsets of times and lines of JSON are read is for owners, too, and in docs/policy.md.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.engines.duckdb.sources import FIRST_RECORD, UNREADABLE, Source, compressed, opened, opened_text
from hush.engines.errors import SourceError
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.forcing import force
from hush.engines.sql.nodes import (
    FALSE,
    NULL,
    TRUE,
    From,
    Scalar,
    Select,
    TableFunction,
    TableName,
    array,
    call,
    case,
    column,
    count,
    primitive,
    select,
    text,
)
from hush.engines.sql.render import text_of
from hush.engines.sql.values import SQL_TYPES, digits
from hush.engines.unread import Tally
from hush.query.schema import Table
from hush.query.types import Kind, Type

if TYPE_CHECKING:
    import duckdb


BLOCK = 2**22
RECORD = 2**24
"""How many bytes a record with line breaks may have."""
LONG = 2**20
"""About how many bytes of a row are kept; its cells are cut to their share of that."""
FIELD, BREAK, RETURN = b"\x1f", b"\x1e", b"\x1d"
_RESERVED = re.compile(rb"[\x1d-\x1f]")
_UNKNOWN = "\ufffd".encode()
# a CR at the end of a block may be half of a CRLF, so it waits for what follows
_FIRST_END = re.compile(rb"\n|\r\n|\r(?=.)", re.DOTALL)
_QUOTED = re.compile(rb'"(?:[^"]++|"")*+"')


def utf8_blocks(path: Path, encoding: str = "utf-8", tally: Tally | None = None) -> Iterator[bytes]:
    """Yield a file's text as UTF-8, without a byte order mark, with U+FFFD for bytes that are not in its encoding."""
    utf8 = encoding in {"utf-8", "utf-8-sig"}
    decoder = codecs.getincrementaldecoder("utf-8-sig" if utf8 else encoding)("replace")
    begun = False
    with opened(path) as file:
        while block := file.read(BLOCK):
            # ASCII is UTF-8 as it is, unless the last block ended inside of a character; the first may have a mark
            if begun and utf8 and block.isascii() and not decoder.getstate()[0]:
                yield block
                continue
            begun = True
            yield _encoded(decoder.decode(block), block, tally)
        yield _encoded(decoder.decode(b"", final=True), b"", tally)


def _encoded(text: str, block: bytes, tally: Tally | None) -> bytes:
    if tally is not None and "\ufffd" in text:
        # those that stand in the file itself were not put there by the decoder
        tally.replaced += max(0, text.count("\ufffd") - block.count(_UNKNOWN))
    return text.encode("utf-8", "replace")


def plain_rows(path: Path) -> int | None:
    """Return how many rows a UTF-8 file has in which every line is one; None where that takes more than counting."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    breaks, last = 0, b""
    with opened(path) as file:
        while block := file.read(BLOCK):
            # an empty line is no row, also where it lies between two blocks
            if b'"' in block or b"\r" in block or b"\n\n" in last + block:
                return None
            try:
                if not block.isascii() or decoder.getstate()[0]:
                    decoder.decode(block)
            except UnicodeDecodeError:
                return None
            breaks += block.count(b"\n")
            last = block[-1:]
    # the file ends in the middle of a character
    if decoder.getstate()[0]:
        return None
    # one line is the header, and a last line without its break is a row all the same
    return breaks - (last == b"\n")


class CsvRewriter:
    """Rewrites one CSV file's text, as `utf8_blocks` yields it, into lines that every reader takes in the same way."""

    def __init__(self, *, columns: int, separator: str, quotes: bool = True) -> None:
        self.tally = Tally()
        self.breaks = False
        """Whether a line break, or a carriage return, stands inside a field."""
        self._columns = columns
        self._separator = separator.encode()
        mark = re.escape(self._separator)
        self._field = re.compile(rb'(?:"((?:[^"]++|"")*+)"|([^%b\n]*))(%b|\r?\n|\r?\Z)' % (mark, mark))
        self._quotes = quotes
        # a row of one empty field would be a line without a character
        self._end = FIELD + b"\n" if columns == 1 else b"\n"
        self._share = max(64, LONG // columns)

    def lines(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the rewritten lines, several at once."""
        pending, started, carriage = b"", False, False
        for block in blocks:
            data = pending + (block.replace(b"\r", b"\n") if carriage else block)
            if not started:  # the header
                end = _FIRST_END.search(data)
                if end is None:
                    pending = data
                    continue
                started, carriage = True, end.group() == b"\r"
                body = data[end.end() :]
                data = body.replace(b"\r", b"\n") if carriage else body
            rewritten, used = self._rewritten(data, final=False)
            yield rewritten
            pending = data[used:]
        if started and pending:
            yield self._rewritten(pending, final=True)[0]

    def _rewritten(self, data: bytes, *, final: bool) -> tuple[bytes, int]:
        """Return the lines of the records that end in the data, and how far they go."""
        quick = None
        if self._columns > 1 and not _RESERVED.search(data):
            quick = self._regular(data + b"\n" if final and not data.endswith(b"\n") else data, final=final)
        return quick or self._each(data, final=final)

    def _fits(self, ends: np.ndarray, separators: np.ndarray) -> bool:
        """Return whether records with these ends all have as many fields as there are columns, and none is long."""
        counts = np.diff(np.searchsorted(separators, ends), prepend=0)
        return bool((counts == self._columns - 1).all() and (np.diff(ends, prepend=-1) < LONG - 2).all())

    def _regular(self, data: bytes, *, final: bool) -> tuple[bytes, int] | None:
        """Rewrite records that obey the RFC; None if one does not, or has another number of fields."""
        cells = np.frombuffer(data, np.uint8)
        quotes = (cells == 34) & self._quotes
        # only the parity counts, so it does no harm that 8 bits overflow
        inside = (np.cumsum(quotes, dtype=np.uint8) & 1).astype(bool)
        breaks = cells == 10
        ends = np.flatnonzero(breaks & ~inside)
        if not len(ends):
            return (b"", 0) if len(data) <= RECORD and not final else None
        end = int(ends[-1]) + 1
        if final and end < len(data):
            return None
        cells, quotes, inside, breaks = cells[:end], quotes[:end], inside[:end], breaks[:end]
        places = np.flatnonzero(quotes)
        opening, closing = places[0::2], places[1::2]  # as many of each: an end is outside
        # data begins where a record does, as if a line break came before it
        before = np.where(opening > 0, cells[opening - 1], 10)
        mark = self._separator[0]
        after, then = cells[closing + 1], cells[np.minimum(closing + 2, end - 1)]
        starts = (before == mark) | (before == 10) | (before == 34)
        stops = (after == mark) | (after == 10) | (after == 34) | ((after == 13) & (then == 10))
        if not (starts.all() and stops.all()):
            return None
        returns = cells == 13
        line_ends = np.zeros(end, bool)
        line_ends[:-1] = returns[:-1] & ~inside[:-1] & (cells[1:] == 10)
        drop = quotes | line_ends
        drop[opening[before == 34]] = False  # the second of two stands for itself
        starts_at = np.concatenate(([0], ends[:-1] + 1))
        empty = (ends == starts_at) | ((ends == starts_at + 1) & line_ends[starts_at])
        drop[ends[empty]] = True
        separators = np.flatnonzero((cells == mark) & ~inside)
        if not self._fits(ends[~empty], separators):
            return None
        output = cells.copy()
        output[separators] = FIELD[0]
        output[breaks & inside] = BREAK[0]
        output[returns] = RETURN[0]
        self.breaks |= bool((breaks & inside).any() or (returns & ~line_ends).any())
        self.tally.rows += len(ends) - int(empty.sum())
        return output[~drop].tobytes(), end

    # record by record

    def _each(self, data: bytes, *, final: bool) -> tuple[bytes, int]:
        rows: list[bytes] = []
        start, size = 0, len(data)
        while start < size:
            stop = data.find(b"\n", start)
            if stop < 0 and not final:
                break
            stop = size if stop < 0 else stop
            line, following = data[start:stop], stop + 1
            if line in {b"", b"\r"}:
                start = following
                continue
            if self._quotes and b'"' in line:
                fields, end = self._fields(data, start, final=final)
                # its end may come with the next block; for one that is too large already nobody waits
                if end < 0 and size - start <= RECORD:
                    break
                if fields and end - start <= RECORD + 1 and (end == following or len(fields) == self._columns):
                    following = end
                else:
                    self.tally.broken += 1
                    fields, _ = self._fields(line, 0, final=True, bare_quotes=True)
            else:
                fields = line.removesuffix(b"\r").split(self._separator)
            rows.append(self._row(fields))
            start = following
        return b"".join(rows), min(start, size)

    def _fields(self, data: bytes, start: int, *, final: bool, bare_quotes: bool = False) -> tuple[list[bytes], int]:
        """Return a record's fields and where the next one begins: -1 if that lies further on.

        There are no fields if it is no record, since a quote opens a field that does not end: with ``bare_quotes`` that
        quote is a character.
        """
        fields: list[bytes] = []
        while True:
            field = self._field.match(data, start)
            assert field is not None  # noqa: S101 - any bytes are a bare field
            quoted, bare, end = field.groups()
            if quoted is None and not bare_quotes and data.startswith(b'"', start):
                return [], 0 if final or _QUOTED.match(data, start) else -1
            is_last = end != self._separator
            if is_last and not final and not end.endswith(b"\n"):
                return [], -1
            if quoted is not None:
                fields.append(quoted.replace(b'""', b'"'))
            else:
                fields.append(bare.removesuffix(b"\r") if is_last else bare)
            if is_last:
                return fields, field.end() + (not end.endswith(b"\n"))
            start = field.end()

    def _row(self, fields: list[bytes]) -> bytes:
        self.tally.rows += 1
        lacking = self._columns - len(fields)
        self.tally.short += lacking > 0
        self.tally.long += lacking < 0
        cut = sum(map(len, fields)) + len(fields) > LONG
        fields = [self._cell(field, cut=cut) for field in fields[: self._columns]] + [b""] * lacking
        return FIELD.join(fields) + self._end

    def _cell(self, field: bytes, *, cut: bool) -> bytes:
        if cut and len(field) > self._share:
            # a character through which the cut goes is dropped as a whole
            field = field[: self._share].decode("utf-8", "ignore").encode()
        if _RESERVED.search(field):
            field = _RESERVED.sub(_UNKNOWN, field)
        if b"\n" in field or b"\r" in field:
            self.breaks = True
            field = field.replace(b"\n", BREAK).replace(b"\r", RETURN)
        return field


_OFFSET = r":[0-9]{2}(\.[0-9]*)?\s*(Z|z|UTC|[+-][0-9]{2}(:?[0-9]{2})?)\s*$"
_TRIES = 3


def kept_types(table: Table, source: Source) -> dict[str, tuple[str, Type]]:
    """Return which columns of a text file are kept as something else than text, the engine's type and the declared one.

    A declared value that is read twice must be what it is when it is read once. So decimals with a step are kept as
    DECIMAL, of as many digits as the step and the bounds have, which is what a question takes them for; lists of values
    stay texts, as do public tables, whose bounds are found out from what is stored.
    """
    partitions = source.partitions(source.file)
    types: dict[str, tuple[str, Type]] = {}
    for label, type_ in table.columns.items():
        if table.public or label in partitions or type_.values is not None or type_.kind is Kind.TEXT:
            continue
        if type_.kind is Kind.INTEGER and not (type_.bounded and _fits(type_, 63)):
            continue
        physical = SQL_TYPES[type_.kind].value
        if type_.kind is Kind.DECIMAL and type_.step is not None:
            scale = digits(type_.lower, type_.upper, type_.step)
            if scale is None or not type_.bounded or not _fits(type_, 49) or scale > 3:
                continue
            physical = f"DECIMAL(18,{scale})"
        types[label] = physical, type_
    return types


def _fits(type_: Type, bits: int) -> bool:
    return all(end is not None and abs(end) < 2**bits for end in (type_.lower, type_.upper))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A text file, or several, that become a table of an engine."""

    connection: duckdb.DuckDBPyConnection
    source: Source
    scratch: Path
    """A file that the engine may read as well."""
    names: Sequence[str]
    """All columns of the file, in its order."""
    columns: Sequence[str]
    """The columns that are read."""
    types: Mapping[str, Type]
    """Their declared types."""
    kept: Mapping[str, tuple[str, Type]] = field(default_factory=dict)
    """Columns that are not stored as texts: the engine's type and the declared type of each."""

    def load(self, table: str) -> Tally:
        """Read the file into a table of the engine."""
        for _ in range(_TRIES):
            # a file that somebody writes meanwhile would be read half as it was and half as it is
            before = self.source.stamp()
            try:
                tally = self._loaded(table)
            except (*UNREADABLE, UnicodeError):
                raise SourceError(f"{self.source.file.name} cannot be read, or not be unpacked") from None
            finally:
                with suppress(OSError):
                    self.scratch.unlink()
            if self.source.stamp() == before:
                return tally
        raise SourceError("the file of a table changes while it is read; ask again later (nothing was charged)")

    def _loaded(self, table: str) -> Tally:
        """Read one file into a table, or several one after the other, with the columns that folders' names give."""
        if not self.source.files:
            return self.load_file(table)
        tallies = []
        for number, file in enumerate(self.source.one_by_one()):
            partitions, part = self.source.partitions(file.file), f"{table}_{number}"
            names = [label for label in self.names if label not in partitions]
            columns = [label for label in self.columns if label not in partitions] or names
            tallies.append(replace(self, source=file, names=names, columns=columns).load_file(part))
            cells = []
            for label in self.columns:
                word = partitions.get(label)
                constant = (NULL if word is None else text(word)).cast("VARCHAR")
                cells.append((constant if label in partitions else column(label)).alias(label))
            rows = text_of(select(cells, TableName(part)))
            self.connection.execute(DUCKDB.inserted(table, rows) if number else DUCKDB.created(_NEW_TABLE, table, rows))
            self.connection.execute(DUCKDB.dropped(part))
        return Tally(*(sum(figures) for figures in zip(*map(astuple, tallies), strict=True)))

    def load_file(self, table: str) -> Tally:
        """Read the one file into a table."""
        source, names = self.source, self.names
        if source.format == "json":
            tally = Tally(rows=_write_json(source.file, self.scratch, self.columns))
            texts = self._json_rows()
        else:
            if len(names) > 1 and source.encoding == "utf-8" and (plain := plain_rows(source.file)) is not None:
                texts = self._cells(_reader(source.file, names, source.separator, header=True))
                if self.create(table, texts, at_once=True) == plain:
                    return Tally(rows=plain)
            writer = CsvRewriter(columns=len(names), separator=source.separator, quotes=source.quotes)
            with self.scratch.open("wb") as file:
                file.writelines(writer.lines(utf8_blocks(source.file, source.encoding, writer.tally)))
            # a line of one column ends with a separator, behind which the reader sees another, empty field
            names = [*names, "end"] if len(names) == 1 else names
            tally = writer.tally
            texts = self._cells(_reader(self.scratch, names, FIELD.decode(), header=False), breaks=writer.breaks)
        if self.create(table, texts) != tally.rows:
            raise SourceError("the engine does not read this file as it is; store it as parquet")
        return tally

    def create(self, table: str, texts: Select, *, at_once: bool = False) -> int:
        """Create a table and return its number of rows: of texts first, so that no cast comes near the engine's reader.

        Of a plain file it is created ``at_once``, in one pass: a text that is put together is none that a reader could
        cast itself. Whoever calls this counts the rows: if a reader took the casts nevertheless, and dropped what they
        cannot read, the table is created again, of texts first.
        """
        source: Select | TableName = texts
        if self.kept and not at_once:
            source = TableName(f"{table}_texts", "t")
            self.connection.execute(DUCKDB.created(_NEW_TABLE, f"{table}_texts", text_of(texts)))
        cells = []
        for label in self.columns:
            cell: Scalar = column(label, "t")
            if label in self.kept:  # forced into its declared type
                physical, type_ = self.kept[label]
                value = force(cell.operation("||", text("")) if at_once else cell, "VARCHAR", type_)
                form = value.form.value
                cell = value.sql.cast(physical) if form == physical else value.sql.try_cast(physical, form)
            cells.append(cell.alias(label))
        self.connection.execute(DUCKDB.created(_NEW_TABLE, table, text_of(select(cells, source))))
        self.connection.execute(DUCKDB.dropped(f"{table}_texts"))
        return int(self.connection.execute(text_of(select([count()], TableName(table)))).fetchall()[0][0])

    def _cells(self, origin: From, *, breaks: bool = False) -> Select:
        cells = []
        for label in self.columns:
            cell: Scalar = column(f"c{self.names.index(label)}")
            if breaks:
                cell = call("replace", cell, text(BREAK.decode()), text("\n"))
                cell = call("replace", cell, text(RETURN.decode()), text("\r"))
            cells.append(normalised(cell, self.source, self.types.get(label)).alias(label))
        return select(cells, origin)

    def _json_rows(self) -> Select:
        """Return the records, each line's for itself: one that is no JSON is a row of NULLs."""
        line, spec = column("c0"), text(json.dumps(dict.fromkeys(self.columns, "VARCHAR")))
        # CASE, and not WHERE: conditions may be tested in any order
        record = case((call("json_valid", line), call("json_transform", line, spec)))
        records = select([record.alias("record")], _reader(self.scratch, ["line"], FIELD.decode(), header=False))
        cells = []
        for label in self.columns:
            cell = call("struct_extract", column("record", "t"), text(label))
            cells.append(normalised(cell, self.source, self.types.get(label)).alias(label))
        return select(cells, records)


def _reader(path: Path, columns: Sequence[str], delimiter: str, *, header: bool) -> From:
    """Return a call of the engine's reader, without any notion of quotes, types or guesses."""
    # by number: names of a header may be anything
    labels = tuple(f"c{number}" for number in range(len(columns)))
    texts = primitive("struct", *(text("VARCHAR") for _ in labels), labels=labels)
    options: dict[str, Scalar] = {
        "columns": texts,
        "auto_detect": FALSE,
        "header": TRUE if header else FALSE,
        "delim": text(delimiter),
        "quote": text(""),
        "escape": text(""),
        # a line that the reader drops shows in the number of rows
        "ignore_errors": TRUE,
        "strict_mode": TRUE,
    }
    if compressed(path):
        options["compression"] = text("gzip")
    return reader("read_csv", str(path), options)


def normalised(cell: Scalar, source: Source, type_: Type | None) -> Scalar:
    """Return a text with its number or time in the engine's notation, where the owner says how the file writes them."""
    if type_ is None or type_.format:  # no format has an offset
        return cell
    if type_.kind.numeric and source.decimal != ".":
        pointed = call("contains", cell, text("."))
        return case((pointed, NULL), otherwise=call("replace", cell, text(source.decimal), text(".")))
    if type_.kind in {Kind.DATE, Kind.TIMESTAMP} and source.timezone is not None:
        instant = cell.try_cast("TIMESTAMPTZ")
        clock = primitive("formatted", local(instant, source.timezone), pattern="%Y-%m-%d %H:%M:%S.%f")
        offset = call("regexp_matches", cell, text(_OFFSET))
        # CASE, and not AND: an instant far outside the calendar has no local time, and would be an error
        return case((offset & _in_calendar(instant), clock), otherwise=cell)
    return cell


def local(instant: Scalar, timezone: str) -> Scalar:
    """Return the local time of a time zone at an instant; NULL outside of the years 1 to 9999."""
    return case((_in_calendar(instant), call("timezone", text(timezone), instant)))


def _in_calendar(instant: Scalar) -> Scalar:
    # a day or two within the calendar, so that clocks of all time zones are in it, too
    first, last = (text(f"{day} 00:00:00+00").cast("TIMESTAMPTZ") for day in ("0001-01-03", "9999-12-30"))
    return instant.between(first, last)


# JSON lines


def _write_json(path: Path, scratch: Path, columns: Sequence[str]) -> int:
    """Write the lines of a file of JSON records, and return how many they are; blank ones are none.

    Control characters, which JSON does not allow inside of texts, become blanks.
    """
    rows, pending, blanks = 0, b"", bytes.maketrans(b"\r" + FIELD, b"  ")
    with scratch.open("wb") as file:
        for block in chain(utf8_blocks(path), [b"\n"]):
            *lines, pending = (pending + block).split(b"\n")
            records = [record for record in (line.translate(blanks) for line in lines) if record.strip()]
            rows += len(records)
            file.writelines([_short(record, columns) + b"\n" for record in records])
    return rows


def _short(line: bytes, columns: Sequence[str]) -> bytes:
    """Return a line no longer than the engine's reader takes; of a longer record the wanted cells, cut."""
    if len(line) < LONG:
        return line
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        return b"null"
    share = LONG // (8 * max(1, len(columns)))  # a character takes up to six bytes when it is escaped
    cells = {label: record[label] for label in columns if label in record}
    cut = {label: cell[:share] if isinstance(cell, str) else cell for label, cell in cells.items()}
    return json.dumps({label: cell for label, cell in cut.items() if len(json.dumps(cell)) <= 8 * share}).encode()


def reader(function: str, path: str | Sequence[str], options: Mapping[str, Scalar]) -> From:
    """Return files to select from; the function and the options' names are words of this package's own source."""
    files = text(path) if isinstance(path, str) else array([text(file) for file in path])
    return TableFunction(function, (files,), tuple(options.items()))


_NEW_TABLE = "OR REPLACE TABLE"
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
        position = _skipped(text, 0)
        array = text.startswith("[", position)
        position = _skipped(text, position + array)
        while position < len(text) and not (array and text[position] == "]"):
            try:
                record, end = decoder.raw_decode(text, position)
                row = [_as_text(record.get(name)) if isinstance(record, dict) else None for name in columns]
            except RecursionError:
                row, end = [None] * len(columns), _end_of_nested(text, position)
            for name, cell in zip(columns, row, strict=True):
                cells[name].append(cell)
            position = _skipped(text, end)
        complete = text[position:].rstrip() == ("]" if array else "")
    except (*UNREADABLE, ValueError, RecursionError):
        complete = False
    if not complete:
        raise SourceError(f"{path.name} is not JSON that can be read; if it has a record on each line, name it .ndjson")
    return cells


def _end_of_nested(text: str, position: int) -> int:
    """Return where a record ends, by counting brackets outside of texts, however deep they are."""
    depth = 0
    for token in _BRACKETS.finditer(text, position):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    raise ValueError("a bracket is left open")


def _skipped(text: str, position: int) -> int:
    """Return where the next record begins."""
    blank = _BETWEEN.match(text, position)
    return position if blank is None else blank.end()


def _as_text(value: Any) -> str | None:
    """Return a JSON value as text, with replacements for half of a surrogate pair."""
    if value is None:
        return None
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else json.dumps(value)


def json_columns(path: Path, declared: Sequence[str]) -> list[str]:
    """Return the columns of a JSON file: those that the owner names, and the others of its first record.

    For the owner alone, who has the file. Named columns are there whatever the first record is, and where one differs
    from a name of the record in capitals only, it is the one that counts.
    """
    try:
        recorded = json_names(path)
    except SourceError:
        if not declared:
            raise
        recorded = []
    declared_names = {name.casefold() for name in declared}
    further = {name.casefold(): name for name in reversed(recorded) if name.casefold() not in declared_names}
    columns = [name for name in recorded if name in declared or further.get(name.casefold()) == name]
    return [*columns, *(name for name in declared if name not in recorded)]
