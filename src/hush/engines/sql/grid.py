"""Values as integers on a public grid; exact aggregates and windows over the rows of one unit.

Sums of one unit run over whole numbers (`exact`), so no order of its rows can matter; a window over them does, too
(`windowed`). What leaves the engine is an index on the grid that the plan declares (`grid_index`), clamped there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from hush.engines.sql.nodes import (
    MADE,
    Directed,
    DistinctArgument,
    Scalar,
    call,
    case,
    cast,
    clamped,
    costing,
    count,
    double,
    huge,
    integer,
    window,
)
from hush.engines.sql.scalars import value_of
from hush.engines.sql.values import WHOLE, WIDEST, SqlType, Value, on_line, scaled, unscaled
from hush.query.expressions import Column, Expression
from hush.query.plan.stability import Factor, line
from hush.query.relations import ExactAggregate, ExactKind, OwnWindow, WindowKind

_ROWS = (0, 2**53)
# decimals are counted in their own last digit below this, and a finer grid is safe below the next
_INDICES = 2**51
_SAME = 2**50
_BITS = 79


def settled(value: Value) -> Value:
    """Return a value fit to group by: finite, and without a negative zero."""
    value = value.finite()
    return replace(value, sql=value.sql + double(0)) if value.form is SqlType.DOUBLE else value


def exact(
    aggregate: ExactAggregate, columns: Mapping[str, Value], over: Callable[[str, Scalar], Scalar] = call
) -> Value:
    """Return an exact aggregate of one unit's rows in a group, or over the window that ``over`` makes."""
    if aggregate.argument is None:
        return Value(count() if over is call else over("count", integer(1)), SqlType.INTEGER, within=_ROWS)
    # NaN must be NULL before it is counted or compared, and -0.0 must not be a value beside 0.0
    value = settled(value_of(aggregate.argument, columns))
    match aggregate.kind:
        case ExactKind.COUNT:
            return Value(over("count", value.sql), SqlType.INTEGER, within=_ROWS)
        case ExactKind.COUNT_DISTINCT:
            return Value(over("count", DistinctArgument(value.sql)), SqlType.INTEGER, within=_ROWS)
        case ExactKind.MIN:
            return replace(value, sql=over("min", value.sql))
        case ExactKind.MAX:
            return replace(value, sql=over("max", value.sql))
        case ExactKind.SUM | ExactKind.AVG:
            index, step = _exact_index(aggregate.argument, value)
            ends = _whole_ends(aggregate.argument, value)
            if ends is not None and aggregate.kind is ExactKind.SUM:
                return Value(cast(over("sum", index), "HUGEINT"), SqlType.WIDE, within=ends)
            summed = cast(over("sum", index), "DOUBLE")
            scale = value.double().scale
            if aggregate.kind is ExactKind.AVG:
                row_count = over("count", index)
                # without a summand the average is NULL, and nothing is divided by zero
                summed = case((row_count > 0, summed / cast(row_count, "DOUBLE")))
                # a quotient has no fixed number of digits
                scale = None
            return Value(unscaled(summed, step), SqlType.DOUBLE, scale=scale)


def _whole_ends(expression: Expression, value: Value) -> tuple[int, int] | None:
    """Return the ends of a sum of one unit's whole numbers; None if they are not summed as whole numbers."""
    lower, upper, step = line(expression.type, expression)
    if value.form not in WHOLE or step.denominator != 1:
        return None
    # there may be any number of rows, so a positive least value, or a negative greatest one, counts as 0
    ends = (min(math.ceil(lower), 0) * _ROWS[1], max(math.floor(upper), 0) * _ROWS[1])
    return ends if max(map(abs, ends)) <= WIDEST else None


def _exact_index(expression: Expression, value: Value) -> tuple[Scalar, Fraction]:
    """Return a value as a whole number of steps, and the step: one unit's values are added up exactly.

    Nothing is released here, so the grid need not be coarse. Decimals count in their own last digit, floats without a
    declared step in a power of two that leaves 80 bits below the largest: 2⁴⁷ of those fit into 128 bits.
    """
    type_ = expression.type
    lower, upper, step = line(type_, expression)
    greatest = max(abs(lower), abs(upper))
    if _whole_ends(expression, value) is not None:
        first, last = math.ceil(lower), math.floor(upper)
        if first <= value.ends[0] and value.ends[1] <= last:
            return value.sql, Fraction(1)
        return clamped(value.wide().sql, *(huge(end) for end in (first, last))), Fraction(1)
    if value.form is not SqlType.DOUBLE or type_.step is not None:
        factor = Factor.raw(expression)
        return grid_index(value, factor), factor.step
    if value.scale is not None and greatest * 10**value.scale < _INDICES:
        step = Fraction(1, 10**value.scale)
        factor = Factor.raw(Column("", replace(type_, step=step)))
        return grid_index(value, factor), factor.step
    if greatest:  # the first power of two that leaves so many bits; where nothing but 0 can be, any step will do
        step /= 2 ** (math.ceil(step * 2**_BITS / greatest) - 1).bit_length()
    ends = (double(math.floor(lower / step)), double(math.ceil(upper / step)))
    return cast(clamped(scaled(value.finite().sql, step, value.greatest), *ends), "HUGEINT", "DOUBLE"), step


def on_grid(given: Value, step: Fraction) -> Value:
    """Return a value as its number on a grid, not clamped: BIGINT, or a whole DOUBLE, an infinity or NaN.

    On a grid m times as fine as its own a whole number is multiplied by m, which is what its float would give: that,
    too, is exact below 2⁵³.
    """
    value = on_line(given)
    if value.form is SqlType.INTEGER and step == 1:
        return value
    finer = times_finer(value, Fraction(1), step)
    if value.form is SqlType.INTEGER and finer is not None:
        return finer
    number = value.double().finite()
    return Value(scaled(number.sql, step, number.greatest), SqlType.DOUBLE, clean=False)


def times_finer(index: Value, own: Fraction, step: Fraction) -> Value | None:
    """Return an index on a grid of step ``own`` as that on one of ``step``, m times as fine; None if that is not safe.

    Below 2⁵⁰ it is the integer that the grid's own rounding gives of the float x nearest to i·own: x and x·m/own are
    each rounded once, so the product is within m·|i|·2⁻⁵¹ < 1/2 of m·i.
    """
    times = own / step
    if index.within is None or times.denominator != 1:
        return None
    first, last = (end * times.numerator for end in index.within)
    if max(abs(first), abs(last)) >= _SAME:
        return None
    wide = cast(index.sql, "BIGINT")
    return Value(wide * times.numerator, SqlType.INTEGER, within=(first, last))


def grid_index(given: Value, factor: Factor) -> Scalar:
    """Return a value as its integer on the factor's grid, clamped in every row; NULL stays NULL.

    Comparisons clamp infinities, and NaN, which the engine sorts above everything, becomes the last index. So the cast
    cannot fail: the bounds are below 2⁵³.
    """
    value, first, last = on_grid(given, factor.step), factor.first, factor.last
    if value.form is SqlType.INTEGER:
        if value.within is not None and first <= value.within[0] and value.within[1] <= last:
            return value.sql
        return cast(clamped(value.sql, integer(first), integer(last)), "BIGINT")
    return cast(clamped(value.sql, double(first), double(last)), "BIGINT")


_FRAMED = 10
"""Nanoseconds for each row of a frame that an engine adds up anew."""
_NUMBERS = {WindowKind.ROW_NUMBER, WindowKind.RANK, WindowKind.DENSE_RANK}
_BY_PLACE = {WindowKind.ROW_NUMBER, WindowKind.LAG, WindowKind.LEAD, WindowKind.FIRST_VALUE}
"""Windows that depend on the place of a row: ties in their order are broken by all columns."""


def compared(value: Value) -> Scalar:
    """Return a value to sort by, with the cost of comparing it: a text is compared character by character."""
    return costing(value.sql, MADE * value.chars) if value.form is SqlType.TEXT else value.sql


def windowed(window_: OwnWindow, columns: Mapping[str, Value], unit: Sequence[Scalar], ties: Sequence[Scalar]) -> Value:
    """Return a window over the rows of one unit."""
    partition = [*unit, *(compared(settled(value_of(expression, columns))) for expression in window_.partition)]
    keys = [(order, compared(settled(value_of(order.by, columns)))) for order in window_.order]
    order: list[Scalar] = [Directed(k, descending=o.descending, nulls_first=o.nulls_first) for o, k in keys]
    frame = None if window_.frame is None else (window_.frame.first, window_.frame.last)
    # a frame of rows may end between two that tie, so there, too, the result depends on their order
    if window_.kind in _BY_PLACE or (frame not in {None, (None, None)}):
        order += ties
    kind = window_.kind
    if kind in _NUMBERS:
        return Value(window(kind.value, partition, order), SqlType.INTEGER, within=(1, 2**53))
    if kind in _BY_PLACE:
        assert window_.argument is not None  # noqa: S101 - all but ROW_NUMBER have one
        value = settled(value_of(window_.argument, columns))
        offset = [] if kind is WindowKind.FIRST_VALUE else [integer(window_.offset)]
        result = window(kind.value, partition, order, value.sql, *offset)
        # LAG and LEAD of a constant are NULL at an end of the partition: it is no constant any more
        return replace(value, sql=result, literal=None)
    aggregate = ExactAggregate(kind=ExactKind[kind.name], argument=window_.argument, type=window_.type)
    frame_clause = (
        "" if frame is None else f"ROWS BETWEEN {_end(frame[0], 'PRECEDING')} AND {_end(frame[1], 'FOLLOWING')}"
    )
    value = exact(aggregate, columns, lambda f, argument: window(f, partition, order, argument, frame=frame_clause))
    if frame is None or frame[0] is None or frame[1] is None:
        return value
    return replace(value, sql=costing(value.sql, _FRAMED * (frame[1] - frame[0] + 1)))


def _end(rows: int | None, way: str) -> str:
    """Return one end of a frame: rows relative to the current one, or UNBOUNDED in a direction."""
    if rows is None:
        return f"UNBOUNDED {way}"
    if not rows:
        return "CURRENT ROW"
    return f"{abs(rows)} {'PRECEDING' if rows < 0 else 'FOLLOWING'}"
