"""Expressions over one row as SQL that no row can make fail.

Arithmetic is IEEE float64, where division by zero, logarithms of negative numbers and overflow give infinities and NaN
instead of errors. Those stand for NULL, and are turned into it where it would otherwise show: in comparisons, choices,
casts, keys, and functions that map an infinity to a number.

A cast to an integer rounds as DuckDB's own does: of a DOUBLE half to even, of a DECIMAL and of text half away from 0.
Which of them a number stands for, `hush.engines.sql.values` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from hush.engines.sql.build import (
    FALSE,
    Operator,
    Sql,
    binary,
    boolean,
    call,
    case,
    cast,
    integer,
    is_null,
    negated,
    not_null,
    null,
    one_of,
    rounded,
    try_cast,
)
from hush.engines.sql.forcing import date_in_text
from hush.engines.sql.numbers import NUMBERS
from hush.engines.sql.texts import TEXTS, like, moment, regular, weighed
from hush.engines.sql.values import (
    FORMS,
    MAX_SCALE,
    TIMES,
    WHOLE,
    WIDEST,
    Form,
    Value,
    alike,
    as_text,
    condition_of,
    constant,
    hull,
)
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released
from hush.query.functions import FUNCTIONS
from hush.query.types import Kind

_COMPARISONS: Mapping[Op, Operator] = {
    Op.EQUAL: "=",
    Op.NOT_EQUAL: "<>",
    Op.LESS: "<",
    Op.LESS_EQUAL: "<=",
    Op.GREATER: ">",
    Op.GREATER_EQUAL: ">=",
}

_EXACT = 2**53


def render(expression: Expression, columns: Mapping[str, Value]) -> Value:
    """Return an expression over the given columns as SQL."""
    match expression:
        case Column():
            return columns[expression.name]
        case Literal():
            return constant(expression.value, expression.type)
        case Call():
            arguments = [render(argument, columns) for argument in expression.arguments]
            return weighed(expression, arguments, _OPS.get(expression.op, _by_name)(expression, arguments))
        case Released() if name_of(expression) in columns:
            return columns[name_of(expression)]
        case Released():
            raise UnplannableError(
                "a noisy answer cannot be used inside a row's expression; use it in the outer SELECT"
            )


def _by_name(expression: Call, arguments: list[Value]) -> Value:
    """Return a call of the engine's function of this name, which is total; arguments that are not finite are NULL."""
    name = FUNCTIONS[expression.op].names[0].lower()
    form = FORMS[expression.type.kind]
    parts = []
    for argument, value in zip(expression.arguments, arguments, strict=True):
        if argument.type.kind is Kind.TEXT:
            parts.append(as_text(value))
        else:
            parts.append((value.double() if form is Form.DOUBLE else value).finite().sql)
    made = call(name, *parts)
    return Value(
        try_cast(made, form.value, "BIGINT") if form is Form.INTEGER else made, form, clean=form is not Form.DOUBLE
    )


def name_of(released: Released) -> str:
    """Return the name under which something that was released stands among columns."""
    return f"\0{released.source} {released.index}"


def condition(expression: Expression, columns: Mapping[str, Value]) -> Sql:
    """Return a boolean expression as SQL."""
    return condition_of(render(expression, columns))


_MIRRORED = {Op.LESS: Op.GREATER, Op.GREATER: Op.LESS, Op.LESS_EQUAL: Op.GREATER_EQUAL, Op.GREATER_EQUAL: Op.LESS_EQUAL}


def _compare(expression: Call, arguments: list[Value]) -> Value:
    first, second = arguments
    for value, other, op in (
        (first, second, expression.op),
        (second, first, _MIRRORED.get(expression.op, expression.op)),
    ):
        if value.form in WHOLE and other.form is Form.DOUBLE and other.literal is not None:
            return Value(_with_fraction(op, value, other.literal), Form.BOOLEAN)
    _check_digits(arguments)
    left, right = (value.finite() for value in alike(arguments))
    return Value(binary(_COMPARISONS[expression.op], left.sql, right.sql), Form.BOOLEAN)


def _check_digits(values: Sequence[Value]) -> None:
    """Refuse to compare a decimal with a constant of so many digits that their floats may be equal where they differ.

    Below 2⁵³ in its last digit a decimal is told from all others by its float (`hush.engines.sql.values`).
    """
    for value in values:
        if value.form is not Form.DOUBLE or value.scale is None or value.literal is not None:
            continue
        for other in values:
            number = abs(other.literal or Fraction(0))
            if number * 10**value.scale >= _EXACT and (value.greatest is None or value.greatest >= number / 2):
                raise UnplannableError(
                    f"a constant has more digits than decimals are compared by, which is {MAX_SCALE}; "
                    "compare with a shorter one, or compare as floats with CAST(x AS DOUBLE)"
                )


def _with_fraction(op: Op, whole: Value, number: Fraction) -> Sql:
    """Compare a whole number, which may be no float, with a constant that is none or that its form does not hold."""
    below = number // 1
    most = 2**63 if whole.form is Form.INTEGER else WIDEST
    if op in {Op.EQUAL, Op.NOT_EQUAL}:
        truth = op is Op.NOT_EQUAL
    elif -most <= below < most:
        return binary("<=" if op in {Op.LESS, Op.LESS_EQUAL} else ">", whole.sql, integer(below))
    else:
        truth = (op in {Op.LESS, Op.LESS_EQUAL}) is (below > 0)
    return case((not_null(whole.sql), boolean(truth)))


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
    if arguments[0].form in WHOLE:  # no constant but a whole number can equal it
        arguments = [value for value in arguments if value.form in WHOLE or value.literal is None]
        if len(arguments) == 1:
            return Value(case((not_null(arguments[0].sql), FALSE)), Form.BOOLEAN)
    _check_digits(arguments)
    first, *others = (value.finite() for value in alike(arguments))
    return Value(one_of(first.sql, [other.sql for other in others]), Form.BOOLEAN)


def _case(expression: Call, arguments: list[Value]) -> Value:
    results = alike([*arguments[1:-1:2], arguments[-1]])
    pairs = [
        (condition_of(test), result.finite().sql) for test, result in zip(arguments[:-1:2], results[:-1], strict=True)
    ]
    form = results[0].form
    if all(result.form is form for result in results):
        return hull(case(*pairs, otherwise=results[-1].finite().sql), results)
    raise UnplannableError(f"the branches of {expression.op.name} have different types")


def _coalesce(_: Call, arguments: list[Value]) -> Value:
    first, *others = (value.finite() for value in alike(arguments))
    return hull(call("coalesce", first.sql, *(other.sql for other in others)), [first, *others])


def _null_if(_: Call, arguments: list[Value]) -> Value:
    left, right = (value.finite() for value in alike(arguments))
    same = binary("=", left.sql, right.sql)
    return hull(case((same, null(left.form.value)), otherwise=left.sql), [left])


def _to_integer(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form is Form.INTEGER:
        return value
    if value.form is Form.BOOLEAN:
        return Value(cast(value.sql, "BIGINT", "BOOLEAN"), Form.INTEGER, within=(0, 1))
    if value.form in TIMES:
        return Value(null("BIGINT"), Form.INTEGER)
    # the engine's cast rounds text half away from zero, and a DOUBLE half to even
    number = rounded(value.sql) if value.scale is not None else value.sql
    return Value(try_cast(number, "BIGINT", value.form.value), Form.INTEGER)


def _to_decimal(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form in TIMES:
        return Value(null("DOUBLE"), Form.DOUBLE)
    return replace(value.finite().double(), scale=None, single=False)


def _to_text(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form is Form.DOUBLE and expression.arguments[0].type.kind is Kind.INTEGER:
        # a whole number is written as one, 3 and not 3.0, however it was computed
        return Value(try_cast(try_cast(value.finite().sql, "HUGEINT", "DOUBLE"), "VARCHAR", "HUGEINT"), Form.TEXT)
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
    if value.form is Form.TEXT and form is Form.DATE:
        return Value(date_in_text(value.sql), form)
    held = moment(value)
    return Value(try_cast(held.sql, form.value, held.form.value), form)


_OPS: Mapping[Op, Callable[[Call, list[Value]], Value]] = {
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
    Op.REGEXP_MATCHES: regular,
    Op.CASE: _case,
    Op.COALESCE: _coalesce,
    Op.NULL_IF: _null_if,
    Op.TO_INTEGER: _to_integer,
    Op.TO_DECIMAL: _to_decimal,
    Op.TO_TEXT: _to_text,
    Op.TO_BOOLEAN: _to_boolean,
    Op.TO_DATE: _to_time,
    Op.TO_TIMESTAMP: _to_time,
}
"""How functions are written whose SQL is more than a call by name."""
