"""What functions do with their arguments: bring them to one form, read a number that the question writes out."""

from __future__ import annotations

from fractions import Fraction

from hush.engines.sql.build import Sql, try_cast
from hush.engines.sql.forms import Form, Value
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
    if len(forms) == 1:
        return values
    if forms <= _NUMBERS:
        return [value.double() for value in values]
    if forms <= TIMES:
        return [Value(try_cast(value.sql, "TIMESTAMP"), Form.TIMESTAMP) for value in values]
    return [Value(try_cast(value.sql, "VARCHAR"), Form.TEXT) for value in values]


def as_text(value: Value) -> Sql:
    """Return a value as text."""
    if value.form is Form.TEXT:
        return value.sql
    return try_cast(value.finite().sql, "VARCHAR")


def number_at(expression: Call, at: int) -> Fraction:
    """Return the number that an argument is, if the question writes it out."""
    argument = expression.arguments[at]
    if isinstance(argument, Literal) and isinstance(argument.value, Fraction | int):
        return Fraction(argument.value)
    if isinstance(argument, Call) and argument.op is Op.NEGATE:
        return -number_at(argument, 0)
    raise UnplannableError(f"argument {at + 1} of {expression.op.name} must be a number written out")
