"""Values inside an engine: a piece of SQL, with its form and its bounds in every row.

A `Value` carries what is known of it: its form, whether a number may still be NaN or infinite (which stands for NULL
and is settled wherever it would make a difference), and between which integers a whole number lies whatever the row.

**Numbers with a point** are DOUBLE here, whatever the engine would compute in, for DOUBLE never fails. So that they
mean what the engine's own types mean, a value remembers which of three it stands for:

* *DECIMAL*, of `scale` digits after the point. The value is the float nearest to the exact decimal: such floats are
  equal if and only if the decimals are, and in the same order, as long as a decimal has no more than 15 digits.
  Arithmetic rounds its result to the digits that it has exactly (`hush.engines.sql.scalars`), so 0.1 + 0.2 is 0.3.
* *FLOAT* (`single`): computed as DOUBLE and rounded to a float32 where it is compared, grouped by or shown. What it is
  compared with is rounded to a float32, too: a stored 0.1 equals the constant 0.1.
* *DOUBLE*, which is what it says. A constant that it is compared with is rounded once, to the nearest float.

**Whole numbers** are BIGINT where 64 bits hold them in every row, else HUGEINT (*WIDE*), which is exact up to 38 digits
on every engine. A wide value always says between which integers it lies, so that no operation on it can overflow.

**Spans of floats** (`Value.span`): the least and the greatest magnitude of a float in every row, if it is not 0; None
if nothing is known. Engines whose floats raise beyond their range need them, so that no row can make arithmetic fail.
A span holds for every row there could be, also for those that a condition is about to drop: it comes from columns that
were clamped where they were read, and from constants, and not from types. With floats x and y of spans (l, m) and
(l', m'):

* x ± y is at most m + m'. If it is not 0 it is at least min(l, l')·2⁻⁵³: both are whole multiples of the last place of
  the smaller one, and so is their exact sum (Sterbenz); rounding keeps it.
* x·y lies within l·l' and m·m', and x/y within l/m' and m/l', each up to a rounding, for which a factor of 2 is spare.

>>> span_of_result("+", (Fraction(1), Fraction(8)), (Fraction(2), Fraction(2)))[1]
Fraction(10, 1)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hush.engines.sql.nodes import (
    Constant,
    Double,
    Scalar,
    Span,
    call,
    case,
    date,
    huge,
    integer,
    null,
    primitive,
    text,
    timestamp,
)
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Literal, Op
from hush.query.types import Kind, Type

MAX_TEXT = 10_000
"""No text is longer, in characters: it is cut where it is read, and where a function makes it."""
MAX_SCALE = 15
"""Numbers of more digits after the point are DOUBLE."""
WIDEST = 10**38 - 1
"""The largest magnitude of a WIDE value."""
LONG = (-(2**63), 2**63 - 1)
"""The ends of 64 bits."""
EXACT = 2**53
"""Up to here every whole number is a float."""


class OwnName(str):
    """The name of a column that statements add to the question's own columns; it equals no name of the question.

    >>> OwnName("age") == "age", OwnName("age") in {"age": 1}, OwnName("age") == OwnName("age")
    (False, False, True)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnName) and str.__eq__(self, other)

    def __hash__(self) -> int:
        return hash((OwnName, str(self)))


class SqlType(Enum):
    """The engine's type of a value."""

    INTEGER = "BIGINT"
    WIDE = "HUGEINT"
    DOUBLE = "DOUBLE"
    TEXT = "VARCHAR"
    BOOLEAN = "BOOLEAN"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"


SQL_TYPES = {
    Kind.INTEGER: SqlType.INTEGER,
    Kind.DECIMAL: SqlType.DOUBLE,
    Kind.TEXT: SqlType.TEXT,
    Kind.BOOLEAN: SqlType.BOOLEAN,
    Kind.DATE: SqlType.DATE,
    Kind.TIMESTAMP: SqlType.TIMESTAMP,
}


@dataclass(frozen=True)
class Value:
    """A piece of SQL, its form and its bounds."""

    sql: Scalar
    form: SqlType
    clean: bool = True
    """A number that is never NaN or infinite."""
    within: tuple[int, int] | None = None
    """Integers between which an INTEGER lies in every row, also in those that a condition is about to drop."""
    step: Fraction | None = None
    """The step of the grid, if this is the index of a decimal column on it."""
    most: int | None = None
    """The largest number of characters of a text; None for numbers and dates, which are short."""
    scale: int | None = None
    """How many digits after the point a DOUBLE has that stands for a DECIMAL; None for one that does not."""
    single: bool = False
    """Whether a DOUBLE stands for a FLOAT."""
    literal: Fraction | None = None
    """The number itself, if the question writes it out."""
    span: Span | None = None
    """The span of a DOUBLE: its least and greatest magnitude in every row."""
    inlined: int = 0
    """Nanoseconds that a column takes where the engine puts its expression in place of its name, as in conditions."""

    SHORT: ClassVar[int] = 64
    """How many characters a number, a date or a boolean has at most."""

    @property
    def chars(self) -> int:
        """How many characters it has at most, as a text."""
        return self.SHORT if self.most is None else self.most

    @property
    def greatest(self) -> Fraction | None:
        """The largest magnitude of a DOUBLE in any row, if it is known."""
        return None if self.span is None else self.span[1]

    @property
    def ends(self) -> tuple[int, int]:
        """Integers between which a whole number lies in every row."""
        return self.within or LONG

    def wide(self) -> Value:
        """Return a whole number of any form as WIDE."""
        if self.form is SqlType.WIDE:
            return self
        return Value(self.sql.cast("HUGEINT"), SqlType.WIDE, within=self.ends, literal=self.literal)

    def finite(self) -> Value:
        """Return the value with NULL in place of NaN and infinities, and as a float32 if it stands for one."""
        if self.clean or self.form is not SqlType.DOUBLE:
            return self
        finite_value = replace(self, sql=case((call("isfinite", self.sql), self.sql)), clean=True)
        return replace(finite_value, sql=_single(finite_value.sql)) if self.single else finite_value

    def to(self, form: SqlType) -> Value:
        """Return the value in another form; NULL where it has none."""
        return self if self.form is form else Value(self.sql.try_cast(form.value, self.form.value), form)

    def double(self) -> Value:
        """Return a number as DOUBLE; text and others as their best cast."""
        if self.form is SqlType.DOUBLE:
            return self
        scale = 0 if self.form in WHOLE else None
        clean = self.form is not SqlType.TEXT
        number = self.sql.try_cast("DOUBLE", self.form.value)
        span = WHOLE_SPAN if self.form is SqlType.INTEGER else None
        if self.form is SqlType.WIDE:
            span = (Fraction(1), Fraction(2 * max(1, *map(abs, self.ends))))
        return Value(number, SqlType.DOUBLE, clean=clean, scale=scale, literal=self.literal, span=span)

    def as_single(self) -> Value:
        """Return a number as a FLOAT, for a comparison with one; a constant is rounded once."""
        if self.single:
            return self
        if self.literal is not None:
            number = nearest_single(self.literal)
            return Value(Double(number), SqlType.DOUBLE, single=True, span=span_of_number(number))
        value = self.double().finite()
        span = span_of_result("*", value.span, span_of_number(Fraction(1)))
        return Value(_single(value.sql), SqlType.DOUBLE, single=True, span=span)


def _single(sql: Scalar) -> Scalar:
    """Return a DOUBLE rounded to a float32; NULL beyond those."""
    return sql.try_cast("FLOAT", "DOUBLE").try_cast("DOUBLE", "FLOAT")


def nearest_single(number: Fraction) -> Fraction:
    """Return the float32 nearest to a number, which is then rounded once; beyond those the number itself.

    >>> float(nearest_single(Fraction(1, 10)))
    0.10000000149011612
    """
    # by way of a float64 it was rounded twice, so the nearest may be a neighbour
    with np.errstate(over="ignore"):
        near = np.float32(float(number))
        around = [near, *(np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf))]
    if not np.isfinite(near):
        return number
    singles = [Fraction(float(single)) for single in around if np.isfinite(single)]
    return min(singles, key=lambda single: abs(single - number))


def digits(*numbers: Fraction | None) -> int | None:
    """Return how many digits after the point are needed to write all numbers; None if there are too many.

    >>> digits(Fraction(1, 4), Fraction(3)), digits(Fraction(1, 3))
    (2, None)
    """
    scale = 0
    for number in numbers:
        while number is not None and 10**scale % number.denominator:
            scale += 1
            if scale > MAX_SCALE:
                return None
    return scale


def common(values: Sequence[Value]) -> tuple[int | None, bool]:
    """Return the `scale` of the common type of numbers, and whether it is `single`, as the engine has it.

    Whole numbers and DECIMALs make a DECIMAL, with a FLOAT a FLOAT, and with a DOUBLE a DOUBLE. A constant has the type
    of what it meets, however many digits it is written with.
    """
    parts = [value for value in values if value.form is SqlType.DOUBLE]
    unscaled_parts = [value for value in parts if value.scale is None and not value.single]
    if any(value.literal is None for value in unscaled_parts):
        return None, False
    if any(value.single for value in parts):
        return None, True
    if unscaled_parts:
        return None, False
    scale = max((value.scale or 0 for value in parts), default=0)
    return (scale, False) if scale <= MAX_SCALE else (None, False)


def scaled(number: Scalar, step: Fraction, most: Fraction | None = None) -> Scalar:
    """Return round(number/step) as DOUBLE: a whole number, or NULL, or not finite if the number was not.

    No number is larger than ``most`` in magnitude, in any row, if that is known.
    """
    inverse = 1 / step
    # a whole inverse is a float, while a step such as 0.01 is none: the product rounds once
    if inverse.denominator == 1 and inverse.numerator <= EXACT:
        return primitive("scaled", number, times=None if inverse == 1 else inverse, over=None, most=most)
    return primitive("scaled", number, times=None, over=step, most=most)


def unscaled(index: Scalar, step: Fraction) -> Scalar:
    """Return index·step as DOUBLE."""
    p, q = step.numerator, step.denominator
    if max(p, q) > EXACT:
        return index * Double(step)
    above = index if p == 1 else index * Double(p)  # whole, so that only the division rounds
    return above if q == 1 else above / Double(q)


def within_calendar(value: Scalar) -> Scalar:
    """Return whether a timestamp lies in the years 1 to 9999; infinities do not."""
    first = timestamp(dt.datetime(1, 1, 1))  # noqa: DTZ001 - naive, like the column
    last = timestamp(dt.datetime(9999, 12, 31, 23, 59, 59))  # noqa: DTZ001
    return value.between(first, last)


def constant(value: object, type_: Type) -> Value:
    """Return a literal of the question as SQL."""
    match value:
        case None:
            if type_.kind.numeric:  # which takes the form of those beside it
                return Value(null("BIGINT"), SqlType.INTEGER, within=(0, 0))
            return Value(null(SQL_TYPES[type_.kind].value), SQL_TYPES[type_.kind])
        case bool():
            return Value(Constant(value), SqlType.BOOLEAN)
        case Fraction() | int():
            number = Fraction(value)
            if number.denominator == 1 and -(2**63) <= number < 2**63:
                ends = (number.numerator, number.numerator)
                return Value(integer(ends[0]).cast("BIGINT"), SqlType.INTEGER, within=ends, literal=number)
            if number.denominator == 1 and abs(number) <= WIDEST:
                ends = (number.numerator, number.numerator)
                return Value(huge(ends[0]), SqlType.WIDE, within=ends, literal=number)
            span = span_of_number(number)
            return Value(Double(number), SqlType.DOUBLE, scale=digits(number), literal=number, span=span)
        case str():
            return Value(text(value), SqlType.TEXT, most=len(value))
        case dt.datetime():
            return Value(timestamp(value), SqlType.TIMESTAMP)
        case dt.date():
            return Value(date(value), SqlType.DATE)
    raise TypeError(type(value))


def on_line(value: Value) -> Value:
    """Return a number, date or timestamp as a number: days or microseconds since 1970."""
    match value.form:
        case SqlType.DATE:
            return Value(call("epoch_days", value.sql), SqlType.INTEGER)
        case SqlType.TIMESTAMP:
            return Value(call("epoch_us", value.sql), SqlType.INTEGER)
        case SqlType.BOOLEAN:
            return Value(value.sql.cast("BIGINT", "BOOLEAN"), SqlType.INTEGER, within=(0, 1))
        case SqlType.TEXT:
            return value.double()
        case _:
            return value


# what functions do with their arguments: bring them to one form, read a number that the question writes out


TIMES = frozenset({SqlType.DATE, SqlType.TIMESTAMP})
WHOLE = frozenset({SqlType.INTEGER, SqlType.WIDE})


def condition_of(value: Value) -> Scalar:
    """Return a value as a condition."""
    return value.finite().to(SqlType.BOOLEAN).sql


def alike(values: list[Value]) -> list[Value]:
    """Return values of one form, so that the engine never casts by itself."""
    forms = {value.form for value in values}
    if SqlType.DOUBLE in forms <= {*WHOLE, SqlType.DOUBLE}:
        # as the engine compares them: as FLOAT, if there is one and no DOUBLE, else as DOUBLE
        single = common(values)[1]
        return [value.as_single() if single else value.double() for value in values]
    if len(forms) == 1:
        return values
    if forms <= WHOLE:
        return [value.wide() for value in values]
    if forms <= TIMES:
        return [value.to(SqlType.TIMESTAMP) for value in values]
    return [value.to(SqlType.TEXT) for value in values]


def hull(sql: Scalar, values: Sequence[Value]) -> Value:
    """Return something that is one of several values, which are `alike`."""
    form = values[0].form
    if form is SqlType.WIDE or (form is SqlType.INTEGER and all(value.within is not None for value in values)):
        ends = [value.ends for value in values]
        return Value(sql, form, within=(min(low for low, _ in ends), max(high for _, high in ends)))
    scale, single = common(values) if form is SqlType.DOUBLE else (None, False)
    length = max(value.chars for value in values) if form is SqlType.TEXT else None
    span = span_of_any(*(value.span for value in values)) if form is SqlType.DOUBLE else None
    return Value(sql, form, scale=scale, single=single, most=length, span=span)


def own_type(value: Value) -> tuple[Scalar, str]:
    """Return a value in the engine's own type, DECIMAL and FLOAT included, and the name of that type."""
    sql = value.finite().sql
    if value.form is not SqlType.DOUBLE:
        return sql, value.form.value
    if value.scale is not None:
        fixed = f"DECIMAL(38,{value.scale})"
        return sql.try_cast(fixed, "DOUBLE"), fixed
    return (sql.try_cast("FLOAT", "DOUBLE"), "FLOAT") if value.single else (sql, "DOUBLE")


def as_text(value: Value) -> Scalar:
    """Return a value as text, as its own type is written: 1.50 of a DECIMAL with two digits."""
    if value.form is SqlType.TEXT:
        return value.sql
    sql, physical = own_type(value)
    return sql.try_cast("VARCHAR", physical)


def number_at(expression: Call, position: int) -> Fraction:
    """Return the number that an argument is, if the question writes it out."""
    argument = expression.arguments[position]
    if isinstance(argument, Literal) and isinstance(argument.value, Fraction | int):
        return Fraction(argument.value)
    if isinstance(argument, Call) and argument.op is Op.NEGATE:
        return -number_at(argument, 0)
    raise UnplannableError(f"argument {position + 1} of {expression.op.name} must be a number written out")


def fits_long(*ends: int) -> bool:
    """Return whether 64 bits hold all of some integers."""
    return LONG[0] <= min(ends) and max(ends) <= LONG[1]


def narrow(value: Value) -> Value:
    """Return a WIDE value that 64 bits hold in every row as BIGINT, and any other as it is."""
    if value.form is SqlType.WIDE and fits_long(*value.ends):
        return Value(value.sql.cast("BIGINT", "HUGEINT"), SqlType.INTEGER, within=value.within)
    return value


def rounded_whole(value: Value, step: int) -> Value | None:
    """Return a whole number rounded to multiples of a step, ties away from zero: sgn(x)·⌊(2|x| + s) / 2s⌋·s.

    None if it has to be a DOUBLE.
    """
    low, high = ((2 * abs(end) + step) // (2 * step) * step * (1 if end > 0 else -1) for end in value.ends)
    # 2|x| + s is the largest number on the way
    if 2 * max(map(abs, value.ends)) + step > WIDEST:
        return None
    number = value.wide().sql
    double_step = huge(2 * step)
    half = huge(step)
    above = (call("abs", number) * huge(2)) + half
    size = above.quotient(double_step, wide=True) * half
    sql = case((number < 0, -size), otherwise=size)
    return narrow(Value(sql, SqlType.WIDE, within=(low, high)))


# spans: between which magnitudes a float lies in every row, if it is not 0; None if nothing is known

_PLACE = Fraction(1, 2**53)
_BEYOND = Fraction(2**1200)
"""No float is as large, nor as small as its reciprocal."""
WHOLE_SPAN: Span = (Fraction(1), Fraction(2**63))
"""Of whole numbers of 64 bits."""
ZERO_SPAN: Span = (Fraction(1), Fraction(1))
"""Of 0, for which any span is true."""


def span_of_number(number: Fraction) -> Span:
    """Return the span of a constant, as the nearest float."""
    return (abs(number) / 2, abs(number) * 2) if number else ZERO_SPAN


def span_of_result(operator: str, first: Span | None, second: Span | None) -> Span | None:
    """Return the span of a sum, difference, product or quotient of two floats."""
    if first is None or second is None:
        return None
    match operator:
        case "*":
            least, greatest = first[0] * second[0] / 2, first[1] * second[1] * 2
        case "/":
            least, greatest = first[0] / second[1] / 2, first[1] / second[0] * 2
        case _:
            least, greatest = min(first[0], second[0]) * _PLACE, first[1] + second[1]
    # None beyond the floats; x·x·x·… would otherwise have ends of any length
    return (least, greatest) if least > 1 / _BEYOND and greatest < _BEYOND else None


def span_of_rounded(span: Span | None, step: Fraction) -> Span | None:
    """Return the span of a number that is rounded, in any direction, to multiples of a step."""
    return None if span is None else (step / 2, span[1] + step)


def span_of_any(*spans: Span | None) -> Span | None:
    """Return the span of something that is one of several."""
    known_spans = [span for span in spans if span is not None]
    if not known_spans or len(known_spans) < len(spans):
        return None
    least, greatest = zip(*known_spans, strict=True)
    return min(least), max(greatest)
