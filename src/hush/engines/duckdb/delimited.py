r"""CSV files as they are found: every record is a row, whatever its cells hold.

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
not larger than 2²⁴ bytes. A quote that somebody left open is therefore a matter of its own line, and swallows others
only if a later quote happens to close it in the place of a field's end. An owner whose file was written without any
quoting says ``quotes = false``: then every line is a row, and a quote is a character.

Records end with LF or CRLF; with CR if the first line, which is the header and public, does.

**How it is done quickly.** `Writer` rewrites a file into one that any reader takes in the same way: UTF-8, fields
separated by U+001F, records by LF, no quotes; line breaks inside a field stand as U+001E and U+001D, and where the file
itself holds one of these three characters it becomes U+FFFD. Blocks without irregularities are rewritten with NumPy. In
a block that obeys the RFC a byte is inside quotes exactly if an odd number of quotes precedes it, so it suffices to
check that every odd quote stands at the start of a field, or directly behind a quote, and every even one before its
end, or directly before a quote. All other blocks go record by record, to the same effect.

>>> writer = Writer(columns=2, separator=",")
>>> b"".join(writer.lines([b'id,text\n1,"a, b"\n2\n3,c"d,e\n4,"open\n'])).split(b"\n")[:-1]
[b'1\x1fa, b', b'2\x1f', b'3\x1fc"d', b'4\x1f"open']
>>> writer.tally
Tally(rows=4, short=1, long=1, broken=1, replaced=0)
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from hush.core.values import dataclass

BLOCK = 2**22
RECORD = 2**24
"""How many bytes a record with line breaks may have."""
LONG = 2**20
"""About how many bytes of a row are kept; its cells are cut to their share of that."""
FIELD, BREAK, RETURN = b"\x1f", b"\x1e", b"\x1d"
_RESERVED = re.compile(rb"[\x1d-\x1f]")
_UNKNOWN = "\ufffd".encode()
_FIRST_END = re.compile(rb"\n|\r\n|\r(?=.)", re.DOTALL)
_QUOTED = re.compile(rb'"((?:[^"]++|"")*+)"')


@dataclass(slots=True)
class Tally:
    """How a file was read. Exact facts about rows, so for the owner alone."""

    rows: int = 0
    short: int = 0
    """Rows with fewer fields than there are columns."""
    long: int = 0
    """Rows with more."""
    broken: int = 0
    """Lines with a quote that opens a field and does not close it."""
    replaced: int = 0
    """Characters that the encoding does not have."""


def opened(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """Open a file, compressed or not."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def utf8_blocks(path: Path, encoding: str = "utf-8", tally: Tally | None = None) -> Iterator[bytes]:
    """Yield a file's text as UTF-8, without a mark of its byte order; what its encoding does not know as U+FFFD."""
    utf8 = encoding in {"utf-8", "utf-8-sig"}
    decoder = codecs.getincrementaldecoder("utf-8-sig" if utf8 else encoding)("replace")
    begun = False
    with opened(path) as file:
        while block := file.read(BLOCK):
            if begun and utf8 and block.isascii() and not decoder.getstate()[0]:
                yield block
                continue
            begun = True
            yield _encoded(decoder.decode(block), block, tally)
        yield _encoded(decoder.decode(b"", final=True), b"", tally)


def _encoded(text: str, block: bytes, tally: Tally | None) -> bytes:
    if tally is not None and "\ufffd" in text:
        tally.replaced += max(0, text.count("\ufffd") - block.count(_UNKNOWN))
    return text.encode("utf-8", "replace")


def plain_rows(path: Path) -> int | None:
    """Return how many rows a UTF-8 file has in which every line is one; None where that takes more than counting."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    breaks, last = 0, b""
    with opened(path) as file:
        while block := file.read(BLOCK):
            if b'"' in block or b"\r" in block or b"\n\n" in last + block:
                return None
            try:
                if not block.isascii() or decoder.getstate()[0]:
                    decoder.decode(block)
            except UnicodeDecodeError:
                return None
            breaks += block.count(b"\n")
            last = block[-1:]
    if decoder.getstate()[0]:
        return None
    return breaks - (last == b"\n")


class Writer:
    """Rewrites one file's text, as `utf8_blocks` yields it, into lines that every reader takes in the same way."""

    def __init__(self, *, columns: int, separator: str, quotes: bool = True, header: bool = True) -> None:
        self.tally = Tally()
        self.breaks = False
        """Whether a line break, or a carriage return, stands inside a field."""
        self._columns = columns
        self._separator = separator.encode()
        self._quotes = quotes
        self._header = header
        # a row of one empty field would be a line without a character
        self._end = FIELD + b"\n" if columns == 1 else b"\n"
        self._share = max(64, LONG // columns)

    def lines(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the rewritten lines, several at once."""
        held, carriage = b"", False
        started = not self._header
        for block in blocks:
            data = held + (block.replace(b"\r", b"\n") if carriage else block)
            if not started:
                end = _FIRST_END.search(data)
                if end is None:
                    held = data
                    continue
                started, carriage = True, end.group() == b"\r"
                rest = data[end.end() :]
                data = rest.replace(b"\r", b"\n") if carriage else rest
            written, used = self._rewritten(data, final=False)
            yield written
            held = data[used:]
        if started and held:
            yield self._rewritten(held, final=True)[0]

    def _rewritten(self, data: bytes, *, final: bool) -> tuple[bytes, int]:
        """Return the lines of the records that end in the data, and how far they go."""
        whole = data + b"\n" if final and not data.endswith(b"\n") else data
        quick = None
        if self._columns > 1 and not _RESERVED.search(data):
            quoted = self._quotes and b'"' in data
            quick = self._regular(whole, final=final) if quoted else self._bare(whole)
        return self._each(data, final=final) if quick is None else quick

    def _bare(self, data: bytes) -> tuple[bytes, int] | None:
        """Rewrite lines without quotes; None unless all have as many fields as there are columns."""
        end = data.rfind(b"\n") + 1
        lines = data[:end]
        if b"\r" in lines:
            lines = lines.replace(b"\r\n", b"\n")
            self.breaks |= b"\r" in lines
        while b"\n\n" in lines:
            lines = lines.replace(b"\n\n", b"\n")
        lines = lines.removeprefix(b"\n")
        cells = np.frombuffer(lines, np.uint8)
        ends, separators = np.flatnonzero(cells == 10), np.flatnonzero(cells == self._separator[0])
        if not self._fits(ends, separators):
            return None
        self.tally.rows += len(ends)
        return lines.translate(bytes.maketrans(self._separator + b"\r", FIELD + RETURN)), end

    def _fits(self, ends: np.ndarray, separators: np.ndarray) -> bool:
        """Return whether records with these ends all have as many fields as there are columns, and none is long."""
        counts = np.diff(np.searchsorted(separators, ends), prepend=0)
        return bool((counts == self._columns - 1).all() and (np.diff(ends, prepend=-1) < LONG - 2).all())

    def _regular(self, data: bytes, *, final: bool) -> tuple[bytes, int] | None:
        """Rewrite records that obey the RFC; None if one does not, or has another number of fields."""
        cells = np.frombuffer(data, np.uint8)
        quotes = cells == 34
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
        written = cells.copy()
        written[separators] = FIELD[0]
        written[breaks & inside] = BREAK[0]
        written[returns] = RETURN[0]
        self.breaks |= bool((breaks & inside).any() or (returns & ~line_ends).any())
        self.tally.rows += len(ends) - int(empty.sum())
        return written[~drop].tobytes(), end

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
            if not line or line == b"\r":
                start = following
                continue
            fields: list[bytes] | None = None
            if self._quotes and b'"' in line:
                record = self._record(data, start, final=final)
                if record is None and size - start <= RECORD:
                    break
                fields, following = record or ([], 0)
                spans = following > stop + 1
                if following - start > RECORD + 1 or (spans and len(fields) != self._columns):
                    fields = []
                if not fields:
                    following = stop + 1
                    fields = self._of_line(line.removesuffix(b"\r"))
            else:
                fields = line.removesuffix(b"\r").split(self._separator)
            rows.append(self._row(fields))
            start = following
        return b"".join(rows), min(start, size)

    def _record(self, data: bytes, start: int, *, final: bool) -> tuple[list[bytes], int] | None:
        """Return a record's fields and where the next begins; no fields if it is none, None if that lies further on."""
        fields: list[bytes] = []
        size = len(data)
        while True:
            if data.startswith(b'"', start):
                quoted = _QUOTED.match(data, start)
                if quoted is None:
                    return ([], 0) if final else None
                stop = quoted.end()
                if not final and (stop == size or data[stop:] == b"\r"):
                    return None  # what follows the quote is not there yet
                fields.append(quoted.group(1).replace(b'""', b'"'))
                if data.startswith((b"\r\n", b"\r"), stop) and data[stop + 1 : stop + 2] in {b"\n", b""}:
                    stop += 1
            else:
                line_end = data.find(b"\n", start)
                line_end = size if line_end < 0 else line_end
                stop = data.find(self._separator, start, line_end)
                if stop < 0:
                    stop = line_end
                    if stop == size and not final:
                        return None
                    fields.append(data[start:stop].removesuffix(b"\r"))
                else:
                    fields.append(data[start:stop])
            if stop >= size or data[stop] == 10:
                return fields, stop + 1
            if data[stop : stop + 1] != self._separator:
                return [], 0
            start = stop + 1

    def _of_line(self, line: bytes) -> list[bytes]:
        """Return the fields of a line whose quotes do not pair up; a pair around a field still does."""
        self.tally.broken += 1
        fields: list[bytes] = []
        start = 0
        while True:
            quoted = _QUOTED.match(line, start)
            if quoted is not None and line[quoted.end() : quoted.end() + 1] in {b"", self._separator}:
                stop = quoted.end()
                fields.append(quoted.group(1).replace(b'""', b'"'))
            else:
                stop = line.find(self._separator, start)
                stop = len(line) if stop < 0 else stop
                fields.append(line[start:stop])
            if stop >= len(line):
                return fields
            start = stop + 1

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
            field = field[: self._share].decode("utf-8", "ignore").encode()
        if _RESERVED.search(field):
            field = _RESERVED.sub(_UNKNOWN, field)
        if b"\n" in field or b"\r" in field:
            self.breaks = True
            field = field.replace(b"\n", BREAK).replace(b"\r", RETURN)
        return field


def json_lines(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the lines of a file of JSON records, several at once, and how many they are; blank ones are none.

    Control characters, which JSON does not allow inside of texts, become blanks.
    """
    table = bytes.maketrans(b"\r" + FIELD, b"  ")
    held = b""
    for block in blocks:
        data = held + block
        end = data.rfind(b"\n") + 1
        held = data[end:]
        yield _json_block(data[:end].translate(table))
    yield _json_block(held.translate(table))


def _json_block(data: bytes) -> tuple[bytes, int]:
    lines = [line for line in data.split(b"\n") if line.strip()]
    return b"".join(line + b"\n" for line in lines), len(lines)
