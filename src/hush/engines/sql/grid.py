"""Values as integers on a public grid, and the exact aggregates of one unit that are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from hush.engines.sql.build import Sql, binary, call, case, cast, clamped, count, distinct, double, integer
from hush.engines.sql.expressions import render
from hush.engines.sql.forms import Form, Value, on_line, scaled, unscaled
from hush.query.plan.statistics import Factor
from hush.query.relations import ExactAggregate, ExactKind


def settled(value: Value) -> Value:
    """Return a value fit to group by: finite, and without a negative zero."""
    value = value.finite()
    if value.form is Form.DOUBLE:
        return Value(binary("+", value.sql, double(0)), Form.DOUBLE)
    return value


def exact(aggregate: ExactAggregate, columns: Mapping[str, Value]) -> Value:
    """Return an exact aggregate of one unit's rows."""
    if aggregate.argument is None:
        return Value(count(), Form.INTEGER)
    value = settled(render(aggregate.argument, columns))
    match aggregate.kind:
        case ExactKind.COUNT:
            return Value(call("count", value.sql), Form.INTEGER)
        case ExactKind.COUNT_DISTINCT:
            return Value(call("count", distinct(value.sql)), Form.INTEGER)
        case ExactKind.MIN:
            return Value(call("min", value.sql), value.form)
        case ExactKind.MAX:
            return Value(call("max", value.sql), value.form)
        case ExactKind.SUM | ExactKind.AVG:
            factor = Factor.raw(aggregate.argument)
            index = grid_index(render(aggregate.argument, columns), factor)
            summed = cast(call("sum", index), "DOUBLE")
            if aggregate.kind is ExactKind.AVG:
                many = call("count", index)
                summed = case((binary(">", many, integer(0)), binary("/", summed, cast(many, "DOUBLE"))))
            return Value(unscaled(summed, factor.step), Form.DOUBLE)


def on_grid(given: Value, step: Fraction) -> Value:
    """Return a value as its number on a grid, not clamped: BIGINT, or a whole DOUBLE, an infinity or NaN."""
    value = on_line(given)
    if value.form is Form.INTEGER and step == 1:
        return value
    return Value(scaled(value.double().finite().sql, step), Form.DOUBLE, clean=False)


def grid_index(given: Value, factor: Factor) -> Sql:
    """Return a value as its integer on the factor's grid, clamped whatever the row holds; NULL stays NULL.

    Comparisons clamp infinities, and NaN, which the engine sorts above everything, becomes the last index. So the cast
    cannot fail: the bounds are below 2⁵³.
    """
    value, first, last = on_grid(given, factor.step), factor.first, factor.last
    if value.form is Form.INTEGER:
        if value.within is not None and first <= value.within[0] and value.within[1] <= last:
            return value.sql
        return cast(clamped(value.sql, integer(first), integer(last)), "BIGINT")
    return cast(clamped(value.sql, double(first), double(last)), "BIGINT")
