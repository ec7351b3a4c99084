"""What functions do with their arguments: bring them to one form, read a number that the question writes out."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hush.engines.sql.build import Sql, try_cast
from hush.engines.sql.forms import Form, Value, common
from hush.query.expressions import Call, Literal, Op
from hush.query.plan.errors import UnplannableError

TIMES = frozenset({Form.DATE, Form.TIMESTAMP})
_NUMBERS = {Form.INTEGER, Form.DOUBLE}


def condition_of(value: Value) -> Sql:
    """Return a value as a condition."""
    return value.sql if value.form is Form.BOOLEAN else try_cast(value.finite().sql, "BOOLEAN")


def alike(values: list[Value]) -> list[Value]:
    """Return values of one form, so that the engine never casts by itself."""
    forms = {value.form for value in values}
    if forms == {Form.DOUBLE}:
        return _numbers(values)
    if len(forms) == 1:
        return values
    if forms <= _NUMBERS:
        return _numbers(values)
    if forms <= TIMES:
        return [Value(try_cast(value.sql, "TIMESTAMP"), Form.TIMESTAMP) for value in values]
    return [Value(try_cast(value.sql, "VARCHAR"), Form.TEXT) for value in values]


def _numbers(values: list[Value]) -> list[Value]:
    """Return numbers as the engine compares them: as FLOAT, if there is one and no DOUBLE, else as DOUBLE."""
    return [value.as_single() if common(values)[1] else value.double() for value in values]


def hull(sql: Sql, values: Sequence[Value]) -> Value:
    """Return something that is one of several values, which are `alike`."""
    form = values[0].form
    if form is Form.INTEGER and all(value.within is not None for value in values):
        ends = [value.within for value in values if value.within is not None]
        return Value(sql, form, within=(min(low for low, _ in ends), max(high for _, high in ends)))
    scale, single = common(values) if form is Form.DOUBLE else (None, False)
    most = max(value.chars for value in values) if form is Form.TEXT else None
    return Value(sql, form, scale=scale, single=single, most=most)


def own_type(value: Value) -> Sql:
    """Return a value in the engine's own type, before a cast: what stands for a DECIMAL or a FLOAT as such."""
    sql = value.finite().sql
    if value.form is not Form.DOUBLE:
        return sql
    if value.scale is not None:
        return try_cast(sql, f"DECIMAL(38,{value.scale})")
    return try_cast(sql, "FLOAT") if value.single else sql


def as_text(value: Value) -> Sql:
    """Return a value as text, as its own type is written: 1.50 of a DECIMAL with two digits."""
    return value.sql if value.form is Form.TEXT else try_cast(own_type(value), "VARCHAR")


def number_at(expression: Call, at: int) -> Fraction:
    """Return the number that an argument is, if the question writes it out."""
    argument = expression.arguments[at]
    if isinstance(argument, Literal) and isinstance(argument.value, Fraction | int):
        return Fraction(argument.value)
    if isinstance(argument, Call) and argument.op is Op.NEGATE:
        return -number_at(argument, 0)
    raise UnplannableError(f"argument {at + 1} of {expression.op.name} must be a number written out")
