"""Pieces of SQL that engines spell differently, with what they cost: arithmetic, hashes, texts, dates and times.

Each is one primitive of the dialect in force (`hush.engines.sql.dialect`, which says what it must mean). The rest of
SQL, which is spelt alike everywhere, is in `hush.engines.sql.build`.

>>> from hush.engines.sql.build import column
>>> quotient = wide_quotient(column("s"), column("n"))
>>> quotient, quotient.work
('("s" // "n")', 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from hush.engines.sql.build import CALLS, OPERATION, Sql, integer, text, work_of
from hush.engines.sql.dialect import Span, dialect

# numbers, where engines differ


def wide_quotient(left: Sql, right: Sql) -> Sql:
    """Return a truncated quotient of HUGEINT."""
    return Sql(dialect().quotient(left, right, wide=True), OPERATION + left.work + right.work)


FloatOperator = Literal["+", "-", "*", "/", "%"]


def float_operation(operator: FloatOperator, left: Sql, right: Sql, *spans: Span | None) -> Sql:
    """Return arithmetic of floats whose magnitudes lie in the spans, in every row, if anything is known of them."""
    return Sql(dialect().float_operation(operator, left, right, spans), OPERATION + left.work + right.work)


def power(base: Sql, exponent: Sql, number: Fraction | None = None) -> Sql:
    """Return a power of finite floats; ``number`` is the exponent, if it is written out."""
    return Sql(dialect().power(base, exponent, number), CALLS["pow"] + base.work + exponent.work)


def logarithm(base: Sql, value: Sql) -> Sql:
    """Return a logarithm of a positive float."""
    return Sql(dialect().logarithm(base, value), OPERATION + base.work + value.work)


def finite(value: Sql) -> Sql:
    """Return whether a float is neither NaN nor infinite."""
    return Sql(dialect().finite(value), OPERATION + value.work)


def nan(value: Sql) -> Sql:
    """Return whether a float is NaN."""
    return Sql(dialect().nan(value), OPERATION + value.work)


def rounded(value: Sql, digits: int | None = None) -> Sql:
    """Return a float rounded to whole numbers, or to digits after the point; ties go away from zero."""
    return Sql(dialect().rounded(value, digits), CALLS["round"] + value.work)


def scaled_to(value: Sql, inverse: Sql | None, step: Sql | None, most: Fraction | None) -> Sql:
    """Return a float divided by a step, or times its inverse, and rounded; none is larger than ``most``, if known."""
    own = CALLS["round"] + (0 if inverse is None and step is None else OPERATION)
    return Sql(dialect().scaled(value, inverse, step, most), own + value.work)


def row_hash(values: Sequence[Sql], salt: int) -> Sql:
    """Return a keyed hash of a row's values."""
    return Sql(dialect().row_hash(values, integer(salt)), CALLS["hash"] + work_of(values))


def unit_number(key: str, unit: Sql) -> Sql:
    """Return a number of 64 bits that a unit has wherever it is read with the same key."""
    return Sql(dialect().unit_number(text(key), unit), 3 * OPERATION + unit.work)


def weighted_down(total_: Sql, rows: int, many: Sql, *, floor: bool) -> Sql:
    """Return total · rows / many, truncated; of a sum that is never positive, rounded down."""
    work = (3 + 2 * floor) * OPERATION + total_.work + (1 + floor) * many.work
    return Sql(dialect().weighted_down(total_, integer(rows), many, floor=floor), work)


# texts, dates and times, where engines differ


def substring(value: Sql, start: int, size: int) -> Sql:
    """Return characters of a text from a place on."""
    return Sql(dialect().substring(value, start, size), OPERATION + value.work)


def like(value: Sql, pattern: Sql) -> Sql:
    """Return whether a text matches a pattern, without an escape character."""
    return Sql(dialect().like(value, pattern), OPERATION + value.work + pattern.work)


def like_escaped(value: Sql, characters: Sequence[tuple[str, bool]], expression: str) -> Sql:
    """Return LIKE for a pattern whose characters stand for themselves or not; ``expression`` is its regular one."""
    return Sql(dialect().like_escaped(value, characters, expression), OPERATION + value.work)


def days(value: Sql) -> Sql:
    """Return a date as days since 1970."""
    return Sql(dialect().days(value), CALLS["date_diff"] + OPERATION + value.work)


def microseconds(value: Sql) -> Sql:
    """Return a timestamp as microseconds since 1970."""
    return Sql(dialect().microseconds(value), CALLS["epoch_us"] + value.work)


def date_part(part: str, value: Sql) -> Sql:
    """Return a part of a date."""
    return Sql(dialect().date_part(part, value), CALLS[part] + value.work)


def date_trunc(unit: str, value: Sql, form: str) -> Sql:
    """Return the start of the unit that a date or timestamp, as ``form`` says, lies in."""
    return Sql(dialect().date_trunc(unit, value, form), CALLS["date_trunc"] + value.work)


def date_diff(unit: str, first: Sql, second: Sql) -> Sql:
    """Return how many borders of a unit lie between two dates or timestamps."""
    return Sql(dialect().date_diff(unit, first, second), CALLS["date_diff"] + first.work + second.work)


_MOVES = {"months": "to_months", "days": "to_days", "microseconds": "to_microseconds"}


def moved(value: Sql, **sizes: int) -> Sql:
    """Return a timestamp moved by months, days and microseconds."""
    work = sum(CALLS[_MOVES[unit]] + OPERATION for unit, size in sizes.items() if size)
    whole = {unit: sizes.get(unit, 0) for unit in _MOVES}
    return Sql(dialect().moved(value, **whole), work + value.work)
