"""Arithmetic as SQL: float64 throughout, where what is undefined is not finite and stands for NULL."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from hush.engines.sql.arguments import alike, number_at
from hush.engines.sql.build import (
    Operator,
    binary,
    call,
    case,
    cast,
    double,
    integer,
    is_null,
    negative,
    null,
    try_cast,
)
from hush.engines.sql.forms import Form, Value
from hush.query.expressions import Call, Op
from hush.query.plan.errors import UnplannableError

_FLOWING: dict[Op, Operator] = {Op.ADD: "+", Op.SUBTRACT: "-", Op.MULTIPLY: "*"}
_STEADY = {Op.ABS: "abs", Op.FLOOR: "floor", Op.CEIL: "ceil"}
_SAFE = Fraction(10) ** 300


def _bounded(expression: Call) -> bool:
    low, high = expression.type.lower, expression.type.upper
    return low is not None and high is not None and max(abs(low), abs(high)) < _SAFE


def _flow(expression: Call, arguments: list[Value]) -> Value:
    left, right = (argument.double() for argument in arguments)
    clean = left.clean and right.clean and _bounded(expression)
    return Value(binary(_FLOWING[expression.op], left.sql, right.sql), Form.DOUBLE, clean=clean)


def _divide(expression: Call, arguments: list[Value]) -> Value:
    left, right = arguments[0].double(), arguments[1].double().finite()
    return Value(binary("/" if expression.op is Op.DIVIDE else "%", left.sql, right.sql), Form.DOUBLE, clean=False)


def _divide_whole(_: Call, arguments: list[Value]) -> Value:
    """Divide in 128 bits, where the quotient of two 64-bit numbers always fits; NULL by zero."""
    left, right = (cast(try_cast(value.finite().sql, "BIGINT"), "HUGEINT") for value in arguments)
    divisor = case((binary("<>", right, integer(0)), right))
    return Value(try_cast(binary("//", left, divisor), "BIGINT"), Form.INTEGER)


def _negate(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double()
    return Value(negative(value.sql), Form.DOUBLE, clean=value.clean)


def _steady(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double()
    return Value(call(_STEADY[expression.op], value.sql), Form.DOUBLE, clean=value.clean)


def _round(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double()
    digits = 0
    if len(arguments) > 1:
        digits = max(-15, min(15, int(number_at(expression, 1))))
    return Value(call("round", value.sql, integer(digits)), Form.DOUBLE, clean=False)


def _root(expression: Call, arguments: list[Value]) -> Value:
    function = {Op.SQRT: "sqrt", Op.LN: "ln", Op.EXP: "exp"}[expression.op]
    return Value(call(function, arguments[0].double().finite().sql), Form.DOUBLE, clean=False)


def _power(_: Call, arguments: list[Value]) -> Value:
    left, right = (argument.double().finite() for argument in arguments)
    return Value(call("pow", left.sql, right.sql), Form.DOUBLE, clean=False)


def _sign(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double().finite()
    pairs = [
        (binary(">", value.sql, double(0)), double(1)),
        (binary("<", value.sql, double(0)), double(-1)),
        (is_null(value.sql), null("DOUBLE")),
    ]
    return Value(case(*pairs, otherwise=double(0)), Form.DOUBLE)


def _extreme(expression: Call, arguments: list[Value]) -> Value:
    """LEAST and GREATEST of what is not NULL."""
    values = [value.finite() for value in alike(arguments)]
    function = "least" if expression.op is Op.LEAST else "greatest"
    return Value(call(function, *(value.sql for value in values)), values[0].form)


def _clip(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double().finite()
    low, high = double(number_at(expression, 1)), double(number_at(expression, 2))
    pairs = [(binary("<", value.sql, low), low), (binary(">", value.sql, high), high)]
    return Value(case(*pairs, otherwise=value.sql), Form.DOUBLE)


def _bin(expression: Call, arguments: list[Value]) -> Value:
    """Return the lower edge of the bin: lower + width·min(n-1, ⌊(clamped - lower)/width⌋)."""
    low, high, many = (number_at(expression, at) for at in (1, 2, 3))
    width = (high - low) / max(many, Fraction(1))
    if width <= 0:
        raise UnplannableError("BIN(x, lower, upper, n) needs lower < upper and n of at least 1")
    clipped = _clip(expression, arguments)
    offset = binary("-", clipped.sql, double(low))
    which = call("floor", binary("/", offset, double(width)))
    # NULL must stay NULL, and LEAST would skip it
    last = double(many - 1)
    index = case((binary(">", which, last), last), otherwise=which)
    if width.denominator == 1 and low.denominator == 1:
        edge = binary("+", binary("*", index, double(width)), double(low))
    else:
        # one correctly rounded division, so that the edge is the float nearest to the exact one
        unit = Fraction(1, (width.denominator * low.denominator))
        edge = binary(
            "/",
            binary("+", binary("*", index, double(width / unit)), double(low / unit)),
            double(1 / unit),
        )
    return Value(edge, Form.DOUBLE)


NUMBERS: dict[Op, Callable[[Call, list[Value]], Value]] = {
    Op.ADD: _flow,
    Op.SUBTRACT: _flow,
    Op.MULTIPLY: _flow,
    Op.DIVIDE: _divide,
    Op.DIVIDE_WHOLE: _divide_whole,
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
}
