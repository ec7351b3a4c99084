"""Arithmetic as SQL: in whole numbers where they surely fit, else in float64. What is undefined is not finite, or NULL.

**Whole numbers.** From the integers between which the operands lie in every row (`Value.within`, not the type: that may
hold only for the rows that a condition leaves) follows between which the result lies. If 64 bits hold it, they are
used; else 128 bits, if the result has at most 38 digits (`WIDEST`). Where it may have more, it is a DOUBLE.

**Decimals.** Let a and b be the floats nearest to decimals, and let the exact result have s digits after the point. A
float operation errs relatively by 2⁻⁵³, as a and b do, and so does the product with 10ˢ. If |a|, |b| and the result,
all times 10ˢ, are below 2⁵⁰, the scaled result is off by less than 4·2⁵⁰/2⁵³ = 1/2. So ROUND makes it the exact whole
number, and dividing by 10ˢ, which rounds once, the float nearest to the exact decimal. Larger ones are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from hush.engines.sql import spans
from hush.engines.sql.build import (
    FloatOperator,
    Sql,
    between,
    binary,
    call,
    case,
    cast,
    clamped,
    double,
    float_operation,
    integer,
    is_null,
    logarithm,
    negative,
    null,
    power,
    rounded,
    scaled_to,
    try_cast,
    wide_quotient,
)
from hush.engines.sql.values import (
    LONG,
    MAX_SCALE,
    WHOLE,
    WIDEST,
    Form,
    Value,
    alike,
    common,
    hull,
    number_at,
    own_type,
)
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Op
from hush.query.types import Type

_FLOWING: dict[Op, FloatOperator] = {Op.ADD: "+", Op.SUBTRACT: "-", Op.MULTIPLY: "*"}
_STEADY = {Op.ABS: "abs", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.TRUNC: "trunc"}
_SAFE = Fraction(10) ** 300
_SINGLE = Fraction(10) ** 38
_ROUNDED = 2**50


def _most(type_: Type) -> Fraction | None:
    """Return the largest magnitude; None if there is none."""
    return None if type_.lower is None or type_.upper is None else max(abs(type_.lower), abs(type_.upper))


def _bounded(expression: Call) -> bool:
    most = _most(expression.type)
    return most is not None and most < _SAFE


def _fit(*ends: int) -> bool:
    return LONG[0] <= min(ends) and max(ends) <= LONG[1]


def _whole(expression: Call, ends: tuple[int, int], make: Callable[..., Sql], *operands: Value) -> Value | None:
    """Return whole-number arithmetic whose result lies between the ends; None if it has to be a DOUBLE."""
    if _fit(*ends, *(end for value in operands for end in value.ends)):
        return Value(make(*(cast(value.sql, "BIGINT") for value in operands)), Form.INTEGER, within=ends)
    if max(map(abs, ends)) > WIDEST:
        return None
    value = Value(make(*(value.wide().sql for value in operands)), Form.WIDE, within=ends)
    most = _most(expression.type)
    if most is not None and most < 2**63:  # in all rows that a condition leaves
        return Value(try_cast(value.sql, "BIGINT", "HUGEINT"), Form.INTEGER)
    return narrow(value)


def narrow(value: Value) -> Value:
    """Return a WIDE value that 64 bits hold in every row as BIGINT, and any other as it is."""
    if value.form is Form.WIDE and _fit(*value.ends):
        return Value(cast(value.sql, "BIGINT", "HUGEINT"), Form.INTEGER, within=value.within)
    return value


def rounded_whole(value: Value, step: int) -> Value | None:
    """Return a whole number rounded to multiples of a step, ties away from zero: sgn(x)·⌊(2|x| + s) / 2s⌋·s.

    None if it has to be a DOUBLE.
    """
    low, high = ((2 * abs(end) + step) // (2 * step) * step * (1 if end > 0 else -1) for end in value.ends)
    if 2 * max(map(abs, value.ends)) + step > WIDEST:
        return None
    number = value.wide().sql
    double_step = cast(integer(2 * step), "HUGEINT")
    half = cast(integer(step), "HUGEINT")
    above = binary("+", binary("*", call("abs", number), cast(integer(2), "HUGEINT")), half)
    size = binary("*", wide_quotient(above, double_step), half)
    sql = case((binary("<", number, integer(0)), negative(size)), otherwise=size)
    return narrow(Value(sql, Form.WIDE, within=(low, high)))


def _flow(expression: Call, arguments: list[Value]) -> Value:
    op = expression.op
    if all(value.form in WHOLE for value in arguments):
        (a, b), (c, d) = (value.ends for value in arguments)
        if op is Op.MULTIPLY:
            corners = [a * c, a * d, b * c, b * d]
            ends = min(corners), max(corners)
        else:
            ends = (a + c, b + d) if op is Op.ADD else (a - d, b - c)
        whole = _whole(expression, ends, lambda x, y: binary(_FLOWING[op], x, y), *arguments)
        if whole is not None:
            return whole
    left, right = _operands(arguments)
    clean = left.clean and right.clean and _bounded(expression)
    make = spans.multiplied if op is Op.MULTIPLY else spans.added
    sql = float_operation(_FLOWING[op], left.sql, right.sql, left.span, right.span)
    found = Value(sql, Form.DOUBLE, clean=clean, span=make(left.span, right.span))
    scale = None if left.scale is None or right.scale is None else left.scale + right.scale
    return _typed(expression, arguments, found, scale if op is Op.MULTIPLY else None)


def _operands(arguments: list[Value]) -> list[Value]:
    """Return numbers as DOUBLE; beside a FLOAT, those that are no DOUBLE as FLOAT, as the engine takes them."""
    single = common(arguments)[1]
    return [argument.as_single() if single else argument.double() for argument in arguments]


def _typed(expression: Call, arguments: list[Value], found: Value, scale: int | None = None) -> Value:
    """Return the result of an operation as what the engine's own types make of it; see the module."""
    digits, single = common(arguments)
    if single:
        most = _most(expression.type)
        if most is not None and most >= _SINGLE:
            return found
        return Value(found.sql, Form.DOUBLE, clean=False, single=True, span=found.span)
    digits = digits if scale is None else scale
    if digits is None or digits > MAX_SCALE:
        return found
    sizes = [_most(type_) for type_ in (expression.type, *(argument.type for argument in expression.arguments))]
    small = all(size is None or size * 10**digits < _ROUNDED for size in sizes)
    if digits and small:
        span = spans.rounded_to(found.span, Fraction(1, 10**digits))
        return Value(rounded(found.sql, digits), Form.DOUBLE, clean=found.clean, scale=digits, span=span)
    return Value(found.sql, Form.DOUBLE, clean=found.clean, scale=digits, span=found.span)


def _divide(_: Call, arguments: list[Value]) -> Value:
    left, right = _operands(arguments)
    right = right.finite()
    sql = float_operation("/", left.sql, right.sql, left.span, right.span)
    span = spans.divided(left.span, right.span)
    return Value(sql, Form.DOUBLE, clean=False, single=common(arguments)[1], span=span)


def _modulo(_: Call, arguments: list[Value]) -> Value:
    """Return the rest of a division; of decimals, of their digits as whole numbers."""
    left, right = arguments
    if left.form in WHOLE and right.form in WHOLE:
        (a, b), (c, d) = left.ends, right.ends
        most = max(abs(c), abs(d))
        ends = (max(min(a, 0), -most), min(max(b, 0), most))
        safe = a > LONG[0] or not c <= -1 <= d  # the least number over -1 is one too large
        form = "BIGINT" if safe and left.form is right.form is Form.INTEGER else "HUGEINT"
        divisor = cast(right.sql, form)
        if c <= 0 <= d:
            divisor = case((binary("<>", divisor, integer(0)), divisor))
        rest = binary("%", cast(left.sql, form), divisor)
        if not _fit(*ends):
            return Value(rest, Form.WIDE, within=ends)
        return Value(cast(rest, "BIGINT"), Form.INTEGER, within=ends)
    whole = left if left.form in WHOLE and 10 ** (right.scale or 0) * max(map(abs, left.ends)) <= WIDEST else None
    left, right = _operands(arguments)
    right = right.finite()
    scale, single = common(arguments)
    if scale and whole is not None:  # which may have more digits than a float
        unit = double(10**scale)
        below = try_cast(rounded(float_operation("*", right.sql, unit)), "HUGEINT", "DOUBLE")
        above = binary("*", cast(whole.sql, "HUGEINT"), cast(integer(10**scale), "HUGEINT"))
        rest = binary("%", above, case((binary("<>", below, integer(0)), below)))
        return Value(binary("/", cast(rest, "DOUBLE"), unit), Form.DOUBLE, clean=False, scale=scale)
    if scale:
        unit = double(10**scale)
        above, below = (rounded(float_operation("*", value.sql, unit)) for value in (left, right))
        rest = float_operation("%", above, below)
        return Value(float_operation("/", rest, unit), Form.DOUBLE, clean=False, scale=scale)
    rest = float_operation("%", left.sql, right.sql)
    return Value(rest, Form.DOUBLE, clean=False, scale=scale, single=single)


def _divide_whole(_: Call, arguments: list[Value]) -> Value:
    """Divide in 128 bits, where the quotient of two 64-bit numbers always fits; NULL by zero."""
    numbers = (
        value if value.form in WHOLE else Value(try_cast(value.finite().sql, "BIGINT", value.form.value), Form.INTEGER)
        for value in arguments
    )
    left, right = (value.wide() for value in numbers)
    divisor = case((binary("<>", right.sql, integer(0)), right.sql))
    most = max(map(abs, left.ends))
    ends = (min(left.ends[0], 0), most) if right.ends[0] >= 0 else (-most, most)
    quotient = wide_quotient(left.sql, divisor)
    if most <= 2**63:
        return Value(try_cast(quotient, "BIGINT", "HUGEINT"), Form.INTEGER)
    return Value(quotient, Form.WIDE, within=ends)


def _negate(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form in WHOLE:
        low, high = value.ends
        whole = _whole(expression, (-high, -low), negative, value)
        if whole is not None:
            return whole
    value = value.double()
    return replace(value, sql=negative(value.sql), literal=None)


def _steady(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form in WHOLE:
        if expression.op is not Op.ABS:
            return value
        low, high = value.ends
        ends = (max(low, -high, 0), max(-low, high))
        whole = _whole(expression, ends, lambda x: call("abs", x), value)
        if whole is not None:
            return whole
    value = value.double()
    scale = value.scale if expression.op is Op.ABS or value.scale is None else 0
    span = value.span if expression.op is Op.ABS else spans.rounded_to(value.span, Fraction(1))
    sql = call(_STEADY[expression.op], value.sql)
    return Value(sql, Form.DOUBLE, clean=value.clean, scale=scale, single=value.single, span=span)


def _round(expression: Call, arguments: list[Value]) -> Value:
    """Round to digits after the point, ties away from zero; of a decimal, by its digits."""
    given, digits = arguments[0], 0
    if len(arguments) > 1:
        digits = max(-15, min(15, int(number_at(expression, 1))))
    if given.form in WHOLE and digits >= 0:
        return given
    if given.form in WHOLE and max(map(abs, given.ends)) > _ROUNDED:
        whole = rounded_whole(given, 10**-digits)
        if whole is not None:
            return whole
    value = given.double()
    if value.scale is None:
        span = spans.rounded_to(value.span, Fraction(10) ** -digits)
        return Value(rounded(value.sql, digits), Form.DOUBLE, clean=False, single=value.single, span=span)
    if digits >= value.scale:
        return value
    # a tie is a whole number and a half, which a float holds; nothing else is so near to one that it rounds to it
    step, most = Fraction(10) ** -digits, None if value.span is None else value.span[1]
    index = value.sql if not value.scale else scaled_to(value.sql, double(10**value.scale), None, most)
    above = None if most is None else most * 10**value.scale + 1
    index = scaled_to(index, None, double(10 ** (value.scale - digits)), above)
    span = spans.rounded_to(value.span, step)
    parts = (
        index,
        double(10 ** abs(digits)),
        spans.rounded_to(value.span, Fraction(1)),
        spans.of_number(Fraction(10) ** abs(digits)),
    )
    sql = float_operation("/" if digits > 0 else "*", *parts)
    return Value(sql if digits else index, Form.DOUBLE, clean=False, scale=max(digits, 0), span=span)


def _fixed(expression: Call, arguments: list[Value]) -> Value:
    """CAST AS DECIMAL(width, digits): the engine's own cast, and back to the float nearest to the decimal."""
    digits, width = (int(number_at(expression, at)) for at in (1, 2))
    if arguments[0].form in WHOLE and not digits:
        value, most = arguments[0], 10**width - 1
        ends = (max(value.ends[0], -most), min(value.ends[1], most))
        if ends == value.ends:
            return value
        if ends[0] <= ends[1]:
            inside = between(value.wide().sql, cast(integer(-most), "HUGEINT"), cast(integer(most), "HUGEINT"))
            return Value(case((inside, value.sql)), value.form, within=ends)
    (sql, own), fixed = own_type(arguments[0]), f"DECIMAL({width},{digits})"
    return Value(try_cast(try_cast(sql, fixed, own), "DOUBLE", fixed), Form.DOUBLE, scale=digits)


def _logarithm(expression: Call, arguments: list[Value]) -> Value:
    base, value = number_at(expression, 0), arguments[1].double().finite()
    sql = call("log10", value.sql) if base == 10 else logarithm(double(base), value.sql)
    return Value(case((binary(">", value.sql, double(0)), sql)), Form.DOUBLE, clean=False)


def _power(_: Call, arguments: list[Value]) -> Value:
    left, right = (argument.double().finite() for argument in arguments)
    return Value(power(left.sql, right.sql, right.literal), Form.DOUBLE, clean=False)


def _sign(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double().finite()
    pairs = [
        (binary(">", value.sql, double(0)), double(1)),
        (binary("<", value.sql, double(0)), double(-1)),
        (is_null(value.sql), null("DOUBLE")),
    ]
    return Value(case(*pairs, otherwise=double(0)), Form.DOUBLE, span=spans.NOTHING)


def _extreme(expression: Call, arguments: list[Value]) -> Value:
    """LEAST and GREATEST of what is not NULL."""
    values = [value.finite() for value in alike(arguments)]
    function = "least" if expression.op is Op.LEAST else "greatest"
    return hull(call(function, *(value.sql for value in values)), values)


def _clip(expression: Call, arguments: list[Value]) -> Value:
    low, high = number_at(expression, 1), number_at(expression, 2)
    given = arguments[0]
    if given.form in WHOLE and low.denominator == high.denominator == 1 and max(abs(low), abs(high)) <= WIDEST:
        whole = (int(low), int(high))
        form = "BIGINT" if given.form is Form.INTEGER and _fit(*whole) else "HUGEINT"
        sql = clamped(cast(given.sql, form), *(cast(integer(end), form) for end in whole))
        return (
            Value(sql, Form.INTEGER, within=whole) if form == "BIGINT" else narrow(Value(sql, Form.WIDE, within=whole))
        )
    value = given.double().finite()
    ends = double(low), double(high)
    pairs = [(binary("<", value.sql, ends[0]), ends[0]), (binary(">", value.sql, ends[1]), ends[1])]
    scale, single = common([value, *(argument.double() for argument in arguments[1:])])
    least = Fraction(1, 2**1074) if value.span is None else value.span[0]
    span = spans.either(*map(spans.of_number, (low, high)), (least, abs(low)))
    return Value(
        case(*pairs, otherwise=value.sql), Form.DOUBLE, clean=not single, scale=scale, single=single, span=span
    )


def _bin(expression: Call, arguments: list[Value]) -> Value:
    """Return the lower edge of the bin: lower + width·min(n-1, ⌊(clamped - lower)/width⌋)."""
    low, high, many = (number_at(expression, at) for at in (1, 2, 3))
    width = (high - low) / max(many, Fraction(1))
    if width <= 0:
        raise UnplannableError("BIN(x, lower, upper, n) needs lower < upper and n of at least 1")
    # an edge that is no whole number is counted in parts of 1, of which there must not be too many either
    edges_fit = width.denominator == 1 or width.denominator * max(abs(low), abs(high)) <= WIDEST
    if edges_fit and _far(arguments[0], low, high, many):
        index = _bin_number(arguments[0], low, high, int(many))
        if width.denominator == 1:
            sized = binary("*", index, cast(integer(int(width)), "HUGEINT"))
            edge = binary("+", sized, cast(integer(int(low)), "HUGEINT"))
            return narrow(Value(edge, Form.WIDE, within=(int(low), int(high - width))))
        # as below: one correctly rounded division
        parts = (int(width * width.denominator), int(low) * width.denominator)
        edge = binary("+", binary("*", index, cast(integer(parts[0]), "HUGEINT")), cast(integer(parts[1]), "HUGEINT"))
        edge = binary("/", cast(edge, "DOUBLE"), double(width.denominator))
        return Value(edge, Form.DOUBLE, span=spans.either(*(spans.of_number(end) for end in (low, high, width))))
    clipped = _clip(expression, arguments).double()
    offset = binary("-", clipped.sql, double(low))
    which = call("floor", float_operation("/", offset, double(width), None, spans.of_number(width)))
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
    return Value(edge, Form.DOUBLE, span=spans.either(*(spans.of_number(end) for end in (low, high, width))))


def _far(value: Value, low: Fraction, high: Fraction, count: Fraction) -> bool:
    """Return whether bins are counted in whole numbers, because floats do not tell all values from their edges."""
    if value.form not in WHOLE or low.denominator != 1 or high.denominator != 1:
        return False
    return max(abs(low), abs(high)) > _ROUNDED and max(abs(low), abs(high), (high - low) * count) <= WIDEST


def _bin_number(value: Value, low: Fraction, high: Fraction, count: int) -> Sql:
    """Return min(n-1, ⌊(x - lower)·n / (upper - lower)⌋) of a value moved between the bounds."""
    ends = [cast(integer(int(end)), "HUGEINT") for end in (low, high)]
    offset = binary("-", clamped(value.wide().sql, *ends), ends[0])
    many, width, last = (cast(integer(number), "HUGEINT") for number in (count, int(high - low), count - 1))
    index = wide_quotient(binary("*", offset, many), width)
    return case((binary(">", index, last), last), otherwise=index)


def _bucket(expression: Call, arguments: list[Value]) -> Value:
    """Return the number of a bin: 1 + min(n-1, ⌊(x - lower)/width⌋) within the bounds, 0 below, n + 1 from upper on."""
    low, high, count = (number_at(expression, at) for at in (1, 2, 3))
    if _far(arguments[0], low, high, count):
        whole, ends = arguments[0].wide().sql, [cast(integer(int(end)), "HUGEINT") for end in (low, high)]
        inside = binary("+", _bin_number(arguments[0], low, high, int(count)), integer(1))
        outside = [
            (is_null(whole), null("HUGEINT")),
            (binary("<", whole, ends[0]), cast(integer(0), "HUGEINT")),
            (binary(">=", whole, ends[1]), cast(integer(int(count) + 1), "HUGEINT")),
        ]
        return narrow(Value(case(*outside, otherwise=inside), Form.WIDE, within=(0, int(count) + 1)))
    value = arguments[0].double().finite()
    which = call("floor", binary("/", binary("-", value.sql, double(low)), double((high - low) / count)))
    pairs = [
        (is_null(value.sql), null("DOUBLE")),
        (binary("<", value.sql, double(low)), double(0)),
        (binary(">=", value.sql, double(high)), double(count + 1)),
        (binary(">", which, double(count - 1)), double(count)),
        (binary("<", which, double(0)), double(1)),
    ]
    number = case(*pairs, otherwise=binary("+", which, double(1)))
    return Value(cast(number, "BIGINT"), Form.INTEGER, within=(0, int(count) + 1))


NUMBERS: dict[Op, Callable[[Call, list[Value]], Value]] = {
    Op.ADD: _flow,
    Op.SUBTRACT: _flow,
    Op.MULTIPLY: _flow,
    Op.DIVIDE: _divide,
    Op.DIVIDE_WHOLE: _divide_whole,
    Op.MODULO: _modulo,
    Op.NEGATE: _negate,
    Op.ABS: _steady,
    Op.FLOOR: _steady,
    Op.CEIL: _steady,
    Op.TRUNC: _steady,
    Op.ROUND: _round,
    Op.LOG: _logarithm,
    Op.POWER: _power,
    Op.SIGN: _sign,
    Op.LEAST: _extreme,
    Op.GREATEST: _extreme,
    Op.CLIP: _clip,
    Op.BIN: _bin,
    Op.WIDTH_BUCKET: _bucket,
    Op.TO_FIXED: _fixed,
}
