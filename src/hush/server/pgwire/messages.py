r"""The bytes of PostgreSQL's protocol 3.0: messages of a type, a length and a content.

>>> message(b"Z", b"I")
b'Z\x00\x00\x00\x05I'
>>> Reader(b"abc\x00\x00\x05").text(), Reader(b"\x00\x05").short()
('abc', 5)
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hush.core import exact
from hush.query.types import Kind
from hush.server.pgwire.types import ARRAYS, BY_OID

LONGEST = 64 * 1024
"""The longest message that is read, in bytes, as for every request of the service."""
BOOLEAN, WHOLE, TEXT, FLOAT, DATE, TIMESTAMP, INSTANT, NUMERIC = 16, 20, 25, 701, 1082, 1114, 1184, 1700
"""The numbers of the types of results and parameters, as PostgreSQL numbers them."""
BY_KIND = {
    Kind.BOOLEAN: BOOLEAN,
    Kind.INTEGER: WHOLE,
    Kind.DECIMAL: FLOAT,
    Kind.TEXT: TEXT,
    Kind.DATE: DATE,
    Kind.TIMESTAMP: TIMESTAMP,
}
_INTEGERS = {20: "!q", 21: "!h", 23: "!i", 26: "!I"}
_FLOATS = {700: "!f", 701: "!d"}
_FORMS = {**_INTEGERS, **_FLOATS, BOOLEAN: "!?"}
"""The binary forms of values."""
_ELEMENT = re.compile(
    r"""\s*+(?:(?P<null>NULL)(?=\s*+[,}])|"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<plain>[^",{}\\]++))\s*+(?P<end>[,}])""",
    re.IGNORECASE | re.DOTALL,
)
_DAY = re.compile(
    r"\s*+(\d{4}-\d\d-\d\d)(?:[ T]+[\d:.]+)?+\s*+(?:Z|UTC|[+-]\d\d(?::?\d\d){0,2})?\s*+", re.IGNORECASE | re.ASCII
)
_TRUTHS = dict.fromkeys(("t", "true", "y", "yes", "on", "1"), True) | dict.fromkeys(
    ("f", "false", "n", "no", "off", "0"), False
)
_LARGEST = 400
"""How many digits a number in binary form may have on either side of its point."""
_START = dt.datetime(2000, 1, 1)  # noqa: DTZ001 - the protocol's times have no zone


class MessageError(Exception):
    """The bytes do not follow the protocol. The connection ends."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result: its name, and the number of its type."""

    name: str
    oid: int

    @classmethod
    def of(cls, name: str, kind: Kind) -> ResultColumn:
        """Return the column of an answer."""
        return cls(name, BY_KIND.get(kind, TEXT))


class Reader:
    """Reads the fields of a message, one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def bytes(self, count: int) -> bytes:
        """Read ``count`` bytes."""
        if count < 0 or self._place + count > len(self._content):
            raise MessageError
        content = self._content[self._place : self._place + count]
        self._place += count
        return content

    def short(self) -> int:
        """Read a number of 16 bits."""
        return int(struct.unpack("!H", self.bytes(2))[0])

    def long(self) -> int:
        """Read a number of 32 bits, with a sign."""
        return int(struct.unpack("!i", self.bytes(4))[0])

    def text(self) -> str:
        """Read a text that ends with a zero."""
        content = self.bytes(self._content.find(b"\0", self._place) - self._place)
        self._place += 1
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise MessageError from None

    @property
    def more(self) -> bool:
        """Whether something is left."""
        return self._place < len(self._content)


def message(kind: bytes, content: bytes = b"") -> bytes:
    """Return a message to the client."""
    return kind + struct.pack("!i", len(content) + 4) + content


def texts(*values: str) -> bytes:
    """Return texts, each with its ending zero; zeros inside are left out."""
    return b"".join(value.replace("\0", "").encode("utf-8", "replace") + b"\0" for value in values)


def error(text: str, *, code: str, severity: str = "ERROR") -> bytes:
    """Return an error, or a notice."""
    fields = (("S", severity), ("V", severity), ("C", code), ("M", text))
    content = b"".join(key.encode() + texts(value) for key, value in fields)
    return message(b"N" if severity == "NOTICE" else b"E", content + b"\0")


def row_description(fields: Sequence[ResultColumn], formats: Sequence[int] = ()) -> bytes:
    """Return the columns of a result."""
    parts = [struct.pack("!H", len(fields))]
    for number, field in enumerate(fields):
        # The zeros: the column belongs to no stored table. The -1: its type has no modifier.
        size = BY_OID[field.oid].size
        parts.append(texts(field.name) + struct.pack("!iHihiH", 0, 0, field.oid, size, -1, chosen(formats, number)))
    return message(b"T", b"".join(parts))


def chosen(formats: Sequence[int], number: int) -> int:
    """Return the format of one value: none given means text, one given means all."""
    if not formats:
        return 0
    return formats[0] if len(formats) == 1 else formats[number] if number < len(formats) else 0


def data_row(values: Sequence[Any], fields: Sequence[ResultColumn], formats: Sequence[int] = ()) -> bytes:
    """Return a row."""
    parts = [struct.pack("!H", len(values))]
    for number, (value, field) in enumerate(zip(values, fields, strict=True)):
        if value is None:
            parts.append(struct.pack("!i", -1))
            continue
        content = binary(value, field.oid) if chosen(formats, number) else written(value).encode("utf-8", "replace")
        parts.append(struct.pack("!i", len(content)) + content)
    return message(b"D", b"".join(parts))


def written(value: Any) -> str:
    """Return a value as PostgreSQL writes it.

    >>> written(True), written(1.5), written(float("inf")), written(Fraction(1, 4)), written("a")
    ('t', '1.5', 'Infinity', '0.25', 'a')
    """
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, (float, Fraction)):
        number = float(value)
        if math.isfinite(number):
            return repr(number)
        return "NaN" if math.isnan(number) else f"{'-' * (number < 0)}Infinity"
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value).replace("\0", "")


def binary(value: Any, oid: int) -> bytes:
    """Return a value in the protocol's binary form."""
    if oid in {BOOLEAN, WHOLE, FLOAT}:
        try:
            return struct.pack(_FORMS[oid], {BOOLEAN: bool, WHOLE: int, FLOAT: float}[oid](value))
        except struct.error:  # a whole number beyond 64 bits
            raise MessageError from None
    if oid == DATE:
        return struct.pack("!i", (value - _START.date()).days)
    if oid == TIMESTAMP:
        return struct.pack("!q", (value - _START) // dt.timedelta(microseconds=1))
    return written(value).encode("utf-8", "replace")


def parameter(content: bytes | None, oid: int, form: int) -> Any:
    """Return the value of a parameter, as Python knows it.

    >>> parameter(b"12", 23, 0), parameter(b"0.5", 701, 0), parameter(b"t", 16, 0), parameter(b"12", 0, 0)
    (12, Fraction(1, 2), True, '12')
    """
    if content is None:
        return None
    try:
        return _binary_parameter(content, oid) if form == 1 else _text_parameter(content.decode(), oid)
    except (ValueError, KeyError, struct.error, ZeroDivisionError, OverflowError):
        raise MessageError from None


def _text_parameter(text: str, oid: int) -> Any:
    if oid in ARRAYS:
        return [None if element is None else _text_parameter(element, ARRAYS[oid]) for element in elements(text)]
    if oid in _INTEGERS or oid in _FLOATS or oid == NUMERIC:
        if not math.isfinite(number := float(text)):
            return number
        fraction = exact(text, "parameter")  # which refuses 1e-999999999 instead of writing it out
        return int(fraction) if fraction.denominator == 1 and oid in _INTEGERS else fraction
    if oid == BOOLEAN:
        return _TRUTHS[text.strip().lower()]
    if oid == DATE:
        day = _DAY.fullmatch(text)
        return dt.date.fromisoformat(text if day is None else day[1])
    if oid in {TIMESTAMP, INSTANT}:
        # Of a timestamp the zone is left out, as PostgreSQL does; others are in UTC.
        moment = dt.datetime.fromisoformat(text.strip())
        moment = moment.astimezone(dt.UTC) if oid == INSTANT and moment.tzinfo is not None else moment
        return moment.replace(tzinfo=None)
    return text


def elements(text: str) -> list[str | None]:
    r"""Return the elements of a list in PostgreSQL's notation.

    >>> elements('{a, "b \\"c\\"",NULL,""}'), elements("{}")
    (['a', 'b "c"', None, ''], [])
    """
    values: list[str | None] = []
    position = 1
    while not re.fullmatch(r"\{\s*+\}", text):
        match = _ELEMENT.match(text, position)
        if match is None or not text.startswith("{"):
            raise ValueError(text)
        if match["quoted"] is not None:
            values.append(re.sub(r"\\(.)", r"\1", match["quoted"], flags=re.DOTALL))
        else:
            values.append(None if match["null"] else match["plain"].strip())
        position = match.end()
        if match["end"] == "}":
            if position < len(text):
                raise ValueError(text)
            break
    return values


def _binary_parameter(content: bytes, oid: int) -> Any:
    if oid in _FORMS:
        (value,) = struct.unpack(_FORMS[oid], content)
        return value
    if oid == DATE:
        return _START.date() + dt.timedelta(days=struct.unpack("!i", content)[0])
    if oid in {TIMESTAMP, INSTANT}:
        return _START + dt.timedelta(microseconds=struct.unpack("!q", content)[0])
    if oid == NUMERIC:  # digits of base 10,000: how many, the first one's weight, sign, scale
        count, weight, sign, _ = struct.unpack("!HhHH", content[:8])
        # Refuses NaN and infinity, which have other signs, and numbers that would take long as fractions.
        if sign not in {0, 0x4000} or count > _LARGEST // 4 or abs(weight) > _LARGEST // 4:
            raise ValueError(sign)
        digits = struct.unpack(f"!{count}H", content[8:])
        number = sum((digit * Fraction(10_000) ** (weight - index) for index, digit in enumerate(digits)), Fraction())
        return -number if sign else number
    if oid in ARRAYS:  # a list of one dimension
        reader = Reader(content)
        dimensions, _, element = reader.long(), reader.long(), reader.long()
        if dimensions == 0:
            return []
        count, _ = reader.long(), reader.long()
        if dimensions != 1 or element in ARRAYS or not 0 <= count <= len(content):
            raise ValueError(dimensions)
        lengths = (reader.long() for _ in range(count))  # each before its value
        return [None if length < 0 else _binary_parameter(reader.bytes(length), element) for length in lengths]
    if oid in {0, TEXT, 1043, 1042, 19, 705}:
        return content.decode()
    raise ValueError(oid)
