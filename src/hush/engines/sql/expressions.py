"""Expressions over one row as SQL that no row can make fail.

Arithmetic is IEEE float64, where division by zero, logarithms of negative numbers and overflow give infinities and NaN
instead of errors. Those stand for NULL, and are turned into it where it would otherwise show: in comparisons, choices,
casts, keys, and functions that map an infinity to a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from sqlglot import exp

from hush.engines.sql.build import (
    Sql,
    binary,
    boolean,
    call,
    case,
    cast,
    double,
    integer,
    is_null,
    null,
    text,
    try_cast,
)
from hush.engines.sql.forms import FORMS, Form, Value, constant, within_calendar
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released
from hush.query.plan.errors import UnplannableError
from hush.query.types import Kind

MAX_TEXT = 10_000
"""Texts that functions make are cut at this many characters."""
_SIZES = (MAX_TEXT, MAX_TEXT, 100)

_FLOWING = {Op.ADD: exp.Add, Op.SUBTRACT: exp.Sub, Op.MULTIPLY: exp.Mul}
_COMPARISONS: Mapping[Op, type[exp.Binary]] = {
    Op.EQUAL: exp.EQ,
    Op.NOT_EQUAL: exp.NEQ,
    Op.LESS: exp.LT,
    Op.LESS_EQUAL: exp.LTE,
    Op.GREATER: exp.GT,
    Op.GREATER_EQUAL: exp.GTE,
}
_STEADY = {Op.ABS: "abs", Op.FLOOR: "floor", Op.CEIL: "ceil"}
_PARTS = {
    Op.YEAR: "year",
    Op.QUARTER: "quarter",
    Op.MONTH: "month",
    Op.DAY: "day",
    Op.DAY_OF_WEEK: "dayofweek",
    Op.HOUR: "hour",
}
_TEXTS = {Op.LOWER: "lower", Op.UPPER: "upper", Op.TRIM: "trim"}
_NUMBERS = {Form.INTEGER, Form.DOUBLE}
_TIMES = {Form.DATE, Form.TIMESTAMP}
_SAFE = Fraction(10) ** 300


def render(expression: Expression, columns: Mapping[str, Value]) -> Value:
    """Return an expression over the given columns as SQL."""
    match expression:
        case Column():
            return columns[expression.name]
        case Literal():
            return constant(expression.value, expression.type)
        case Call():
            arguments = [render(argument, columns) for argument in expression.arguments]
            return _OPS[expression.op](expression, arguments)
        case Released():
            raise UnplannableError(
                "a noisy answer cannot be used inside a row's expression; use it in the outer SELECT"
            )


def condition(expression: Expression, columns: Mapping[str, Value]) -> Sql:
    """Return a boolean expression as SQL."""
    return condition_of(render(expression, columns))


def condition_of(value: Value) -> Sql:
    """Return a value as a condition."""
    return value.copy() if value.form is Form.BOOLEAN else try_cast(value.finite().copy(), "BOOLEAN")


def _bounded(expression: Call) -> bool:
    low, high = expression.type.lower, expression.type.upper
    return low is not None and high is not None and max(abs(low), abs(high)) < _SAFE


def _flow(expression: Call, arguments: list[Value]) -> Value:
    left, right = (argument.double() for argument in arguments)
    clean = left.clean and right.clean and _bounded(expression)
    return Value(binary(_FLOWING[expression.op], left.copy(), right.copy()), Form.DOUBLE, clean=clean)


def _divide(expression: Call, arguments: list[Value]) -> Value:
    left, right = arguments[0].double(), arguments[1].double().finite()
    kind = exp.Div if expression.op is Op.DIVIDE else exp.Mod
    return Value(binary(kind, left.copy(), right.copy()), Form.DOUBLE, clean=False)


def _negate(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double()
    return Value(exp.Paren(this=exp.Neg(this=exp.Paren(this=value.copy()))), Form.DOUBLE, clean=value.clean)


def _steady(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double()
    return Value(call(_STEADY[expression.op], value.copy()), Form.DOUBLE, clean=value.clean)


def _round(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double()
    digits = 0
    if len(arguments) > 1:
        digits = max(-15, min(15, int(_number(expression, 1))))
    return Value(call("round", value.copy(), integer(digits)), Form.DOUBLE, clean=False)


def _root(expression: Call, arguments: list[Value]) -> Value:
    function = {Op.SQRT: "sqrt", Op.LN: "ln", Op.EXP: "exp"}[expression.op]
    return Value(call(function, arguments[0].double().finite().copy()), Form.DOUBLE, clean=False)


def _power(_: Call, arguments: list[Value]) -> Value:
    left, right = (argument.double().finite() for argument in arguments)
    return Value(call("pow", left.copy(), right.copy()), Form.DOUBLE, clean=False)


def _sign(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double().finite()
    pairs = [
        (binary(exp.GT, value.copy(), double(0)), double(1)),
        (binary(exp.LT, value.copy(), double(0)), double(-1)),
        (is_null(value.copy()), null("DOUBLE")),
    ]
    return Value(case(*pairs, otherwise=double(0)), Form.DOUBLE)


def _extreme(expression: Call, arguments: list[Value]) -> Value:
    """LEAST and GREATEST of what is not NULL."""
    values = [value.finite() for value in _alike(arguments)]
    function = "least" if expression.op is Op.LEAST else "greatest"
    return Value(call(function, *(value.copy() for value in values)), values[0].form)


def _clip(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double().finite()
    low, high = double(_number(expression, 1)), double(_number(expression, 2))
    pairs = [(binary(exp.LT, value.copy(), low), low.copy()), (binary(exp.GT, value.copy(), high), high.copy())]
    return Value(case(*pairs, otherwise=value.copy()), Form.DOUBLE)


def _bin(expression: Call, arguments: list[Value]) -> Value:
    """Return the lower edge of the bin: lower + width·min(n-1, ⌊(clamped - lower)/width⌋)."""
    low, high, many = (_number(expression, at) for at in (1, 2, 3))
    width = (high - low) / max(many, Fraction(1))
    if width <= 0:
        raise UnplannableError("BIN(x, lower, upper, n) needs lower < upper and n of at least 1")
    clipped = _clip(expression, arguments)
    offset = binary(exp.Sub, clipped.copy(), double(low))
    which = call("floor", binary(exp.Div, offset, double(width)))
    # NULL must stay NULL, and LEAST would skip it
    last = double(many - 1)
    index = case((binary(exp.GT, which.copy(), last), last.copy()), otherwise=which)
    if width.denominator == 1 and low.denominator == 1:
        edge = binary(exp.Add, binary(exp.Mul, index, double(width)), double(low))
    else:
        # one correctly rounded division, so that the edge is the float nearest to the exact one
        unit = Fraction(1, (width.denominator * low.denominator))
        edge = binary(
            exp.Div,
            binary(exp.Add, binary(exp.Mul, index, double(width / unit)), double(low / unit)),
            double(1 / unit),
        )
    return Value(edge, Form.DOUBLE)


def _number(expression: Call, at: int) -> Fraction:
    argument = expression.arguments[at]
    if isinstance(argument, Literal) and isinstance(argument.value, Fraction | int):
        return Fraction(argument.value)
    if isinstance(argument, Call) and argument.op is Op.NEGATE:
        return -_number(argument, 0)
    raise UnplannableError(f"argument {at + 1} of {expression.op.name} must be a number written out")


def _alike(values: list[Value]) -> list[Value]:
    """Return values of one form, so that the engine never casts by itself."""
    forms = {value.form for value in values}
    if len(forms) == 1:
        return values
    if forms <= _NUMBERS:
        return [value.double() for value in values]
    if forms <= _TIMES:
        return [Value(try_cast(value.copy(), "TIMESTAMP"), Form.TIMESTAMP) for value in values]
    return [Value(try_cast(value.copy(), "VARCHAR"), Form.TEXT) for value in values]


def _compare(expression: Call, arguments: list[Value]) -> Value:
    left, right = (value.finite() for value in _alike(arguments))
    return Value(binary(_COMPARISONS[expression.op], left.copy(), right.copy()), Form.BOOLEAN)


def _logic(expression: Call, arguments: list[Value]) -> Value:
    kind = exp.And if expression.op is Op.AND else exp.Or
    result = condition_of(arguments[0])
    for argument in arguments[1:]:
        result = binary(kind, result, condition_of(argument))
    return Value(result, Form.BOOLEAN)


def _not(_: Call, arguments: list[Value]) -> Value:
    return Value(exp.Paren(this=exp.Not(this=exp.Paren(this=condition_of(arguments[0])))), Form.BOOLEAN)


def _is_null(_: Call, arguments: list[Value]) -> Value:
    return Value(is_null(arguments[0].finite().copy()), Form.BOOLEAN)


def _in(_: Call, arguments: list[Value]) -> Value:
    first, *others = (value.finite() for value in _alike(arguments))
    return Value(
        exp.Paren(this=exp.In(this=first.copy(), expressions=[other.copy() for other in others])), Form.BOOLEAN
    )


def _like(_: Call, arguments: list[Value]) -> Value:
    return Value(exp.Paren(this=exp.Like(this=_text(arguments[0]), expression=_text(arguments[1]))), Form.BOOLEAN)


def _case(expression: Call, arguments: list[Value]) -> Value:
    results = _alike([*arguments[1:-1:2], arguments[-1]])
    pairs = [
        (condition_of(test), result.finite().copy())
        for test, result in zip(arguments[:-1:2], results[:-1], strict=True)
    ]
    form = results[0].form
    if all(result.form is form for result in results):
        return Value(case(*pairs, otherwise=results[-1].finite().copy()), form)
    raise UnplannableError(f"the branches of {expression.op.name} have different types")


def _coalesce(_: Call, arguments: list[Value]) -> Value:
    first, *others = (value.finite() for value in _alike(arguments))
    return Value(exp.Coalesce(this=first.copy(), expressions=[other.copy() for other in others]), first.form)


def _null_if(_: Call, arguments: list[Value]) -> Value:
    left, right = (value.finite() for value in _alike(arguments))
    same = binary(exp.EQ, left.copy(), right.copy())
    return Value(case((same, null(left.form.value)), otherwise=left.copy()), left.form)


def _text(value: Value) -> Sql:
    if value.form is Form.TEXT:
        return value.copy()
    return try_cast(value.finite().copy(), "VARCHAR")


def _simple_text(expression: Call, arguments: list[Value]) -> Value:
    return Value(call(_TEXTS[expression.op], _text(arguments[0])), Form.TEXT)


def _length(_: Call, arguments: list[Value]) -> Value:
    return Value(call("length", _text(arguments[0])), Form.INTEGER)


def _substring(expression: Call, arguments: list[Value]) -> Value:
    start, size = (_small(_number(expression, at)) for at in (1, 2))
    return Value(call("substring", _text(arguments[0]), integer(start), integer(max(0, size))), Form.TEXT)


def _small(value: Fraction) -> int:
    return max(-(2**31) + 1, min(2**31 - 1, int(value)))


def _side(expression: Call, arguments: list[Value]) -> Value:
    size = max(0, _small(_number(expression, 1)))
    function = "left" if expression.op is Op.LEFT else "right"
    return Value(call(function, _text(arguments[0]), integer(size)), Form.TEXT)


def _concat(_: Call, arguments: list[Value]) -> Value:
    """Text joined by ||, NULL if a part is NULL."""
    result = _text(arguments[0])
    for argument in arguments[1:]:
        result = binary(exp.DPipe, result, _text(argument))
    return Value(_short(result), Form.TEXT)


def _short(value: Sql) -> Sql:
    """Cut a text that was made longer, so that no row can grow without bound and exhaust the memory."""
    return call("left", value, integer(MAX_TEXT))


def _replace(_: Call, arguments: list[Value]) -> Value:
    first, *others = (
        call("left", _text(argument), integer(size)) for argument, size in zip(arguments, _SIZES, strict=True)
    )
    return Value(_short(call("replace", first, *others)), Form.TEXT)


def _holds(expression: Call, arguments: list[Value]) -> Value:
    function = "starts_with" if expression.op is Op.STARTS_WITH else "contains"
    return Value(call(function, *(_text(argument) for argument in arguments)), Form.BOOLEAN)


def _time(value: Value) -> Value:
    if value.form in _TIMES:
        return value
    inside = try_cast(value.finite().copy(), "TIMESTAMP") if value.form is Form.TEXT else null("TIMESTAMP")
    return Value(case((within_calendar(inside.copy()), inside)), Form.TIMESTAMP)


def _part(expression: Call, arguments: list[Value]) -> Value:
    return Value(call(_PARTS[expression.op], _time(arguments[0]).copy()), Form.INTEGER)


def _hour(expression: Call, arguments: list[Value]) -> Value:
    return _part(expression, [Value(try_cast(_time(arguments[0]).copy(), "TIMESTAMP"), Form.TIMESTAMP)])


def _truncate(expression: Call, arguments: list[Value]) -> Value:
    unit = expression.arguments[0]
    if not (isinstance(unit, Literal) and unit.value in {"year", "quarter", "month", "week", "day"}):
        raise UnplannableError("dates are truncated to 'year', 'quarter', 'month', 'week' or 'day'")
    value = _time(arguments[1])
    form = FORMS[expression.type.kind]
    kept = form if form in _TIMES else value.form
    return Value(try_cast(call("date_trunc", text(str(unit.value)), value.copy()), kept.value), kept)


def _between(_: Call, arguments: list[Value]) -> Value:
    first, second = (try_cast(_time(value).copy(), "DATE") for value in arguments)
    return Value(call("date_diff", text("day"), first, second), Form.INTEGER)


def _to_integer(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form is Form.INTEGER:
        return value
    if value.form is Form.BOOLEAN:
        return Value(cast(value.copy(), "BIGINT"), Form.INTEGER)
    number = try_cast(value.copy(), "DOUBLE") if value.form is Form.TEXT else value.copy()
    if value.form in _TIMES:
        return Value(null("BIGINT"), Form.INTEGER)
    return Value(try_cast(call("trunc", number), "BIGINT"), Form.INTEGER)


def _to_decimal(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form in _TIMES:
        return Value(null("DOUBLE"), Form.DOUBLE)
    return value.double()


def _to_text(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form is Form.DOUBLE and expression.arguments[0].type.kind is Kind.INTEGER:
        # a whole number is written as one, 3 and not 3.0, however it was computed
        return Value(try_cast(try_cast(value.finite().copy(), "HUGEINT"), "VARCHAR"), Form.TEXT)
    return Value(_text(value), Form.TEXT)


def _to_boolean(_: Call, arguments: list[Value]) -> Value:
    if arguments[0].form in _TIMES:
        return Value(null("BOOLEAN"), Form.BOOLEAN)
    return Value(condition_of(arguments[0]), Form.BOOLEAN)


def _to_time(expression: Call, arguments: list[Value]) -> Value:
    form = Form.DATE if expression.op is Op.TO_DATE else Form.TIMESTAMP
    value = arguments[0]
    if value.form is form:
        return value
    if value.form not in {*_TIMES, Form.TEXT}:
        return Value(null(form.value), form)
    moment = _time(value)
    return Value(try_cast(moment.copy(), form.value), form)


_OPS: dict[Op, Callable[[Call, list[Value]], Value]] = {
    Op.ADD: _flow,
    Op.SUBTRACT: _flow,
    Op.MULTIPLY: _flow,
    Op.DIVIDE: _divide,
    Op.MODULO: _divide,
    Op.NEGATE: _negate,
    Op.ABS: _steady,
    Op.FLOOR: _steady,
    Op.CEIL: _steady,
    Op.ROUND: _round,
    Op.SQRT: _root,
    Op.EXP: _root,
    Op.LN: _root,
    Op.POWER: _power,
    Op.SIGN: _sign,
    Op.LEAST: _extreme,
    Op.GREATEST: _extreme,
    Op.CLIP: _clip,
    Op.BIN: _bin,
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
    Op.LIKE: _like,
    Op.CASE: _case,
    Op.COALESCE: _coalesce,
    Op.NULL_IF: _null_if,
    Op.LOWER: _simple_text,
    Op.UPPER: _simple_text,
    Op.TRIM: _simple_text,
    Op.LENGTH: _length,
    Op.SUBSTRING: _substring,
    Op.CONCAT: _concat,
    Op.LEFT: _side,
    Op.RIGHT: _side,
    Op.REPLACE: _replace,
    Op.STARTS_WITH: _holds,
    Op.CONTAINS: _holds,
    Op.YEAR: _part,
    Op.QUARTER: _part,
    Op.MONTH: _part,
    Op.DAY: _part,
    Op.DAY_OF_WEEK: _part,
    Op.HOUR: _hour,
    Op.TRUNCATE_DATE: _truncate,
    Op.DAYS_BETWEEN: _between,
    Op.TO_INTEGER: _to_integer,
    Op.TO_DECIMAL: _to_decimal,
    Op.TO_TEXT: _to_text,
    Op.TO_BOOLEAN: _to_boolean,
    Op.TO_DATE: _to_time,
    Op.TO_TIMESTAMP: _to_time,
}

__all__ = ["boolean", "condition", "render"]
