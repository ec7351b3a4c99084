"""Expressions over one row as SQL that no row can make fail.

Arithmetic is IEEE float64, where division by zero, logarithms of negative numbers and overflow give infinities and NaN
instead of errors. Those stand for NULL, and are turned into it where it would otherwise show: in comparisons, choices,
casts, keys, and functions that map an infinity to a number.

A cast to an integer rounds as DuckDB's own does: of a DOUBLE half to even, of a DECIMAL and of text half away from 0.
Decimals are computed as DOUBLE here, so each value carries which of the two it would be (`Value.fixed`): stored columns
of type DECIMAL, constants with a point, CAST AS DECIMAL, and what is added, multiplied and chosen from those and whole
numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hush.engines.sql.arguments import TIMES, alike, as_text, condition_of
from hush.engines.sql.build import Operator, Sql, binary, call, case, cast, is_null, negated, null, one_of, try_cast
from hush.engines.sql.forms import Form, Value, constant
from hush.engines.sql.lengths import weighed
from hush.engines.sql.numbers import NUMBERS
from hush.engines.sql.patterns import like
from hush.engines.sql.texts import TEXTS, moment
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released
from hush.query.plan.errors import UnplannableError
from hush.query.types import Kind

_COMPARISONS: Mapping[Op, Operator] = {
    Op.EQUAL: "=",
    Op.NOT_EQUAL: "<>",
    Op.LESS: "<",
    Op.LESS_EQUAL: "<=",
    Op.GREATER: ">",
    Op.GREATER_EQUAL: ">=",
}
_KEEPING = frozenset(
    {
        Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.MODULO, Op.NEGATE, Op.ABS, Op.ROUND, Op.LEAST, Op.GREATEST,
        Op.CASE, Op.COALESCE, Op.NULL_IF, Op.TO_FIXED,
    }
)  # fmt: skip
"""What makes a DECIMAL of DECIMALs."""


def render(expression: Expression, columns: Mapping[str, Value]) -> Value:
    """Return an expression over the given columns as SQL."""
    match expression:
        case Column():
            return columns[expression.name]
        case Literal():
            return constant(expression.value, expression.type)
        case Call():
            arguments = [render(argument, columns) for argument in expression.arguments]
            value = weighed(expression, arguments, _OPS[expression.op](expression, arguments))
            return replace(value, fixed=True) if _is_fixed(expression, arguments, value) else value
        case Released():
            raise UnplannableError(
                "a noisy answer cannot be used inside a row's expression; use it in the outer SELECT"
            )


def _is_fixed(expression: Call, arguments: list[Value], value: Value) -> bool:
    """Return whether the engine's own type of a call would be DECIMAL."""
    if value.form is not Form.DOUBLE or expression.op not in _KEEPING:
        return False
    if expression.op is Op.TO_FIXED:
        return True
    parts = [
        given.fixed
        for given, argument in zip(arguments, expression.arguments, strict=True)
        if argument.type.kind is Kind.DECIMAL and given.form is Form.DOUBLE
    ]
    return bool(parts) and all(parts)


def condition(expression: Expression, columns: Mapping[str, Value]) -> Sql:
    """Return a boolean expression as SQL."""
    return condition_of(render(expression, columns))


def _compare(expression: Call, arguments: list[Value]) -> Value:
    left, right = (value.finite() for value in alike(arguments))
    return Value(binary(_COMPARISONS[expression.op], left.sql, right.sql), Form.BOOLEAN)


def _logic(expression: Call, arguments: list[Value]) -> Value:
    kind: Operator = "AND" if expression.op is Op.AND else "OR"
    result = condition_of(arguments[0])
    for argument in arguments[1:]:
        result = binary(kind, result, condition_of(argument))
    return Value(result, Form.BOOLEAN)


def _not(_: Call, arguments: list[Value]) -> Value:
    return Value(negated(condition_of(arguments[0])), Form.BOOLEAN)


def _is_null(_: Call, arguments: list[Value]) -> Value:
    return Value(is_null(arguments[0].finite().sql), Form.BOOLEAN)


def _in(_: Call, arguments: list[Value]) -> Value:
    first, *others = (value.finite() for value in alike(arguments))
    return Value(one_of(first.sql, [other.sql for other in others]), Form.BOOLEAN)


def _case(expression: Call, arguments: list[Value]) -> Value:
    results = alike([*arguments[1:-1:2], arguments[-1]])
    pairs = [
        (condition_of(test), result.finite().sql) for test, result in zip(arguments[:-1:2], results[:-1], strict=True)
    ]
    form = results[0].form
    if all(result.form is form for result in results):
        return Value(case(*pairs, otherwise=results[-1].finite().sql), form)
    raise UnplannableError(f"the branches of {expression.op.name} have different types")


def _coalesce(_: Call, arguments: list[Value]) -> Value:
    first, *others = (value.finite() for value in alike(arguments))
    return Value(call("coalesce", first.sql, *(other.sql for other in others)), first.form)


def _null_if(_: Call, arguments: list[Value]) -> Value:
    left, right = (value.finite() for value in alike(arguments))
    same = binary("=", left.sql, right.sql)
    return Value(case((same, null(left.form.value)), otherwise=left.sql), left.form)


def _to_integer(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form is Form.INTEGER:
        return value
    if value.form is Form.BOOLEAN:
        return Value(cast(value.sql, "BIGINT"), Form.INTEGER)
    if value.form in TIMES:
        return Value(null("BIGINT"), Form.INTEGER)
    # the engine's cast rounds text half away from zero, and a DOUBLE half to even
    number = call("round", value.sql) if value.fixed else value.sql
    return Value(try_cast(number, "BIGINT"), Form.INTEGER)


def _to_decimal(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form in TIMES:
        return Value(null("DOUBLE"), Form.DOUBLE)
    return value.double()


def _to_text(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form is Form.DOUBLE and expression.arguments[0].type.kind is Kind.INTEGER:
        # a whole number is written as one, 3 and not 3.0, however it was computed
        return Value(try_cast(try_cast(value.finite().sql, "HUGEINT"), "VARCHAR"), Form.TEXT)
    return Value(as_text(value), Form.TEXT)


def _to_boolean(_: Call, arguments: list[Value]) -> Value:
    if arguments[0].form in TIMES:
        return Value(null("BOOLEAN"), Form.BOOLEAN)
    return Value(condition_of(arguments[0]), Form.BOOLEAN)


def _to_time(expression: Call, arguments: list[Value]) -> Value:
    form = Form.DATE if expression.op is Op.TO_DATE else Form.TIMESTAMP
    value = arguments[0]
    if value.form is form:
        return value
    if value.form not in {*TIMES, Form.TEXT}:
        return Value(null(form.value), form)
    when = moment(value)
    return Value(try_cast(when.sql, form.value), form)


_OPS: dict[Op, Callable[[Call, list[Value]], Value]] = {
    **NUMBERS,
    **TEXTS,
    Op.EQUAL: _compare,
    Op.NOT_EQUAL: _compare,
    Op.LESS: _compare,
    Op.LESS_EQUAL: _compare,
    Op.GREATER: _compare,
    Op.GREATER_EQUAL: _compare,
    Op.AND: _logic,
    Op.OR: _logic,
    Op.NOT: _not,
    Op.IS_NULL: _is_null,
    Op.IN: _in,
    Op.LIKE: like,
    Op.CASE: _case,
    Op.COALESCE: _coalesce,
    Op.NULL_IF: _null_if,
    Op.TO_INTEGER: _to_integer,
    Op.TO_DECIMAL: _to_decimal,
    Op.TO_FIXED: NUMBERS[Op.ROUND],
    Op.TO_TEXT: _to_text,
    Op.TO_BOOLEAN: _to_boolean,
    Op.TO_DATE: _to_time,
    Op.TO_TIMESTAMP: _to_time,
}
