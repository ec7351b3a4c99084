"""Values as whole numbers: keys are numbered, and numbers are indices on a public grid.

A public key that lies on a line is numbered by arithmetic; others are looked up in a list of their values, which is a
parameter of the statement (`Lists`). Rows with other keys fall out where the number is given.

Private keys become numbers once they are chosen, and rows of other groups fall out. This happens *after* the rows were
bounded: which groups of a unit are kept depends on that unit's rows alone, and never on which keys were chosen. The
chosen keys and their numbers are parameters of the statements that read them.

**Grids.** What leaves the engine of a number is its index on the grid that the plan declares, clamped there
(`grid_index`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count
from math import prod
from typing import Any, NamedTuple

from hush.engines.sql.dialect import Dialect
from hush.engines.sql.nodes import (
    Double,
    From,
    ParameterRows,
    Scalar,
    Select,
    both,
    case,
    column,
    columns_of,
    integer,
    select,
)
from hush.engines.sql.values import LONG, WHOLE, SqlType, Value, on_line, scaled, unscaled
from hush.query.errors import UnplannableError
from hush.query.plan.keys import Points
from hush.query.plan.stability import Factor
from hush.query.types import Kind, Type
from hush.query.types import Value as Constant

_SAME = 2**50


class Axis(NamedTuple):
    """One public key's values, numbered."""

    values: Sequence[Constant]
    type: Type

    def line(self) -> tuple[Fraction, int] | None:
        """Return (step, first index) if the values are consecutive points of a grid, then NULL or not; else None."""
        if not self.type.kind.numeric:
            return None
        if isinstance(self.values, Points):
            far = max(abs(self.values.first), abs(self.values.first + self.values.many - 1)) > 2**51
            return None if far or not self.values.many else (self.values.step, self.values.first)
        values = self.values[:-1] if self.values and self.values[-1] is None else self.values
        numbers = [value for value in values if isinstance(value, Fraction)]
        if len(numbers) != len(values) or len(numbers) < 2:
            return None
        step = numbers[1] - numbers[0]
        # round(x/step) - first is a value's place only if the grid runs through 0 and the values rise
        if step <= 0 or (numbers[0] / step).denominator != 1:
            return None
        first, p, q = int(numbers[0] / step), step.numerator, step.denominator
        if max(abs(first), abs(first + len(numbers) - 1)) > 2**51:
            return None
        # in integers: there may be a million of them
        if any(number.numerator * q != index * p * number.denominator for index, number in enumerate(numbers, first)):
            return None
        return step, first


_QUESTIONS = count(1)


class Lists:
    """The lists of public keys that one question's statements read: two parameters each, of values and their numbers.

    Numbers that are one to the engine are one value of a list, with the first of their numbers: a row must never fall
    into two groups.
    """

    def __init__(self) -> None:
        self.views = f"hush_{next(_QUESTIONS)}"
        """How the names of the question's views begin."""
        self.parameters: dict[int, list[Any]] = {}
        self.known: dict[tuple[Sequence[Constant], SqlType], int] = {}
        """The number of each list's first parameter, by its values and their form."""

    def __call__(self, axis: Axis, form: SqlType, label: str) -> From:
        """Return the source of an axis's values k, in a form, and their numbers c, under a name."""
        first = self.known.get((axis.values, form))
        if first is None:
            numbers: dict[Any, int] = {}
            for number, value in enumerate(axis.values):
                held = _in_form(value, form)
                # None for a value that the form cannot hold: no row has it, and it must not stand for NULL
                if held is not None or value is None:
                    numbers.setdefault(held, number)
            first = self.known[axis.values, form] = len(self.parameters) + 1
            self.parameters[first], self.parameters[first + 1] = as_parameter(numbers, form), list(numbers.values())
        return ParameterRows(((first, form.value), (first + 1, "INTEGER")), label, ("k", "c"))


def _in_form(value: Constant, form: SqlType) -> Any:
    """Return a value as the engine holds it in a form, None where it cannot."""
    if not isinstance(value, Fraction):
        return value
    if form in WHOLE:
        fits = value.denominator == 1 and (form is SqlType.WIDE or LONG[0] <= value <= LONG[1])
        return int(value) if fits else None
    try:
        return float(value)
    except OverflowError:
        return None


def as_parameter(values: Iterable[Any], form: SqlType) -> list[Any]:
    """Return values as a list for the driver: wide ones as texts, for it would hand over some as floats."""
    return [str(value) if form is SqlType.WIDE and value is not None else value for value in values]


def key_value(value: Value, type_: Type, dialect: Dialect) -> Value:
    """Return a value fit to group by and to hand out: whole numbers as BIGINT, numbers finite without negative zero."""
    value = value.finite()
    if value.form is SqlType.WIDE:
        numbers = [float(listed) for listed in type_.values or () if isinstance(listed, Fraction)]
        if 0 < len(numbers) == len(set(numbers)) and dialect.wide_keys:
            return value  # still different as the floats that an answer shows
        ends = [end for end in (type_.lower, type_.upper) if end is not None]
        if any(not LONG[0] <= end <= LONG[1] for end in ends):
            raise UnplannableError(
                "whole numbers beyond 64 bits are neither keys nor counted apart; write CAST(… AS VARCHAR), "
                "or limit them with CLIP(x, lower, upper)"
            )
        # the type may hold only for the rows that a condition leaves: elsewhere NULL, and no error
        return Value(value.sql.try_cast("BIGINT", "HUGEINT"), SqlType.INTEGER)
    if value.form is SqlType.DOUBLE and type_.kind is Kind.INTEGER:
        return Value(value.sql.try_cast("BIGINT", "DOUBLE"), SqlType.INTEGER)
    if value.form is SqlType.DOUBLE:
        # -0.0 + 0.0 is 0.0: both zeros are one key
        return replace(value, sql=value.sql + Double(0))
    return value


def shown_value(value: Value, type_: Type, dialect: Dialect) -> Value:
    """Return an answer's output as Python reads it; unlike a key, it may be a whole number beyond 64 bits."""
    return value if value.form is SqlType.WIDE else key_value(value, type_, dialect)


def numbered(
    query: Select, value: Value, axis: Axis, label: str, lists: Lists, dialect: Dialect
) -> tuple[Select, Scalar]:
    """Return the number of each row's key on an axis, and the query without rows that have another key."""
    on_grid = axis.line()
    if on_grid is not None:
        step, first = on_grid
        number = on_line(value)
        if number.form is SqlType.INTEGER and step == 1:
            index: Scalar = number.sql
        else:
            index = scaled(number.double().finite().sql, step).try_cast("BIGINT", "DOUBLE")
        last = len(axis.values) - 1
        null = axis.values[last] is None
        inside: Scalar = index.between(integer(first), integer(first + last - null))
        offset = index - first if first else index
        if null:
            # NULL, the last of the values, is also the key of what is not finite
            missing = key_value(value, axis.type, dialect).sql.is_null()
            inside = missing | inside
            offset = case((missing, integer(last)), otherwise=offset)
        return query.where(inside), offset
    key = key_value(value, axis.type, dialect)
    test: Scalar = key.sql.equals(column("k", label))
    # an equality never finds NULL
    if None in axis.values:
        test = key.sql.matches(column("k", label), key.form.value)
    return query.joined(lists(axis, key.form, label), "inner", test), column("c", label)


def place(value: Value, axis: Axis) -> Scalar | None:
    """Return the number of an axis's value that equals a value, NULL for none; None if arithmetic cannot find it.

    As `key_value` gives it, the value is whole, or a float that is compared with the floats nearest to the points i·p/q
    of a grid of step p/q:

    * they are (i·p)/q, correctly rounded, for i·p and q are floats up to 2⁵³;
    * a float that equals one of them has a relative error of at most 2⁻⁵³ (with q ≤ 2⁵³ none but 0 is so small that it
      has fewer bits), and `scaled` adds at most 2·2⁻⁵³. So for |i| < 2⁵⁰ it is within 3/8 of i, or hardly more, before
      it is rounded, and rounded to i.

    Hence x is the float of a point if and only if it is that of the point i = scaled(x).
    """
    line = axis.line()
    if line is None or axis.values[-1] is None:
        return None
    (step, first), last = line, line[1] + len(axis.values) - 1
    p, q, greatest = step.numerator, step.denominator, max(-first, last)
    if value.form is SqlType.INTEGER:
        # the values at both ends are written as 64-bit constants
        if q != 1 or greatest * p >= 2**63:
            return None
        inside: Scalar = value.sql.between(integer(first * p), integer(last * p))
        index = value.sql
        if p != 1:
            inside = inside & (value.sql % p).equals(0)
            # exact where `inside` holds, so it does not matter how the engine rounds
            index = value.sql.quotient(integer(p))
    elif value.form is SqlType.DOUBLE and q <= 2**53 and greatest < 2**50 and greatest * p <= 2**53:
        nearest = scaled(value.sql, step, value.greatest)
        is_point = value.sql.equals(unscaled(nearest, step))
        inside = nearest.between(Double(first), Double(last)) & is_point
        index = nearest.cast("BIGINT")
    else:
        return None
    return case((inside, index - first if first else index))


def code(parts: list[Scalar], axes: Sequence[Axis]) -> Scalar:
    """Return the number of a combination of keys, in the smallest type that holds all numbers."""
    number = parts[0]
    for key_number, axis in zip(parts[1:], axes[1:], strict=True):
        # in 64 bits: the parts may have a smaller type, which the product would exceed
        number = number.cast("BIGINT") * len(axis.values) + key_number
    return number.try_cast("SMALLINT" if size(axes) < 2**15 else "INTEGER", "BIGINT")


def size(axes: Sequence[Axis]) -> int:
    """Return how many combinations of keys there are."""
    return prod([len(axis.values) for axis in axes])


CHOSEN = 10**6
"""The parameters of chosen keys: their numbers, and after it the key columns; every key is there once."""


def numbered_by_choice(rows: Select, keys: Mapping[str, SqlType]) -> Select:
    """Return the rows with a chosen key, which is now the number ``k``, and all their other columns."""
    # not an equality, because NULL may be a chosen key
    is_chosen = both([column(key, "t").matches(column(key, "c"), form.value) for key, form in keys.items()])
    cells = columns_of([label for label in rows.labels if label not in keys])
    lists = tuple(enumerate(("BIGINT", *(form.value for form in keys.values())), CHOSEN))
    chosen = ParameterRows(lists, "c", ("number", *keys))
    return select([column("number", "c").alias("k"), *cells], rows).joined(chosen, "inner", is_chosen)


def times_finer(index: Value, own: Fraction, step: Fraction) -> Value | None:
    """Return an index on a grid of step ``own`` as that on one of ``step``, m times as fine; None if that is not safe.

    Below 2⁵⁰ it is the integer that the grid's own rounding gives of the float x nearest to i·own: x and x·m/own are
    each rounded once, so the product is within m·|i|·2⁻⁵¹ < 1/2 of m·i.
    """
    times = own / step
    if index.within is None or times.denominator != 1:
        return None
    first, last = index.within[0] * times.numerator, index.within[1] * times.numerator
    if max(abs(first), abs(last)) >= _SAME:
        return None
    wide = index.sql.cast("BIGINT")
    return Value(wide * times.numerator, SqlType.INTEGER, within=(first, last))


def grid_index(given: Value, factor: Factor) -> Scalar:
    """Return a value as its integer on the factor's grid, clamped in every row; NULL stays NULL.

    On a grid m times as fine as its own a whole number is multiplied by m, which is what its float would give: that,
    too, is exact below 2⁵³. Of floats, comparisons clamp infinities, and NaN, which the engine sorts above everything,
    becomes the last index. So the cast cannot fail: the bounds are below 2⁵³.
    """
    value, first, last = on_line(given), factor.first, factor.last
    index = value if factor.step == 1 else times_finer(value, Fraction(1), factor.step)
    if value.form is SqlType.INTEGER and index is not None:
        if index.within is not None and first <= index.within[0] and index.within[1] <= last:
            return index.sql
        return index.sql.clamped(integer(first), integer(last)).cast("BIGINT")
    number = value.double().finite()
    return scaled(number.sql, factor.step, number.greatest).clamped(Double(first), Double(last)).cast("BIGINT")
