"""Expressions as SQL: in whole numbers where they surely fit, else in float64; undefined is not finite, or NULL.

**Whole numbers.** The range of the result is computed from the ranges of the operands (`Value.within`). Those hold in
every row; the ranges of types may hold only for rows that a condition leaves. If the result's range fits 64 bits, these
are used; else 128 bits, if the result has at most 38 digits (`WIDEST`). Where it may have more, it is a DOUBLE.

**Decimals.** Let a and b be the floats nearest to decimals, and let the exact result have s digits after the point. A
float operation errs relatively by 2⁻⁵³, as a and b do, and so does the product with 10ˢ. If |a|, |b| and the result,
all times 10ˢ, are below 2⁵⁰, the scaled result is off by less than 4·2⁵⁰/2⁵³ = 1/2. So ROUND makes it the exact whole
number, and dividing by 10ˢ, which rounds once, the float nearest to the exact decimal. Larger ones are left alone.

**Nothing fails.** Arithmetic is IEEE float64, where division by zero, logarithms of negative numbers and overflow give
infinities and NaN instead of errors. Those stand for NULL, and are turned into it where it would otherwise show: in
comparisons, choices, casts, keys, and functions that map an infinity to a number.

A cast to an integer rounds as DuckDB's own does: of a DOUBLE half to even, of a DECIMAL and of text half away from 0.
Which of them a number stands for, `hush.engines.sql.values` says.
"""

from __future__ import annotations

import operator
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from hush.engines.sql.forcing import date_in_text
from hush.engines.sql.nodes import (
    FALSE,
    Constant,
    Double,
    Operator,
    Scalar,
    call,
    case,
    float_operation,
    huge,
    integer,
    null,
    primitive,
)
from hush.engines.sql.texts import COMPUTED, computes, engine_name, moment, weighed
from hush.engines.sql.values import (
    EXACT,
    LONG,
    MAX_SCALE,
    SQL_TYPES,
    TIMES,
    WHOLE,
    WIDEST,
    ZERO_SPAN,
    OwnName,
    SqlType,
    Value,
    alike,
    as_text,
    common,
    condition_of,
    constant,
    fits_long,
    hull,
    narrow,
    number_at,
    own_type,
    rounded_whole,
    span_of_any,
    span_of_number,
    span_of_result,
    span_of_rounded,
)
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released
from hush.query.types import Kind, Type

_FLOWING: dict[Op, typing.Literal["+", "-", "*"]] = {Op.ADD: "+", Op.SUBTRACT: "-", Op.MULTIPLY: "*"}
# below the largest float64 and float32, with room for what is rounded on the way
_SAFE = Fraction(10) ** 300
_SINGLE = Fraction(10) ** 38
_ROUNDED = 2**50


def _most(type_: Type) -> Fraction | None:
    """Return the largest magnitude; None if there is none."""
    return None if type_.lower is None or type_.upper is None else max(abs(type_.lower), abs(type_.upper))


def _whole(expression: Call, ends: tuple[int, int], make: Callable[..., Scalar], *operands: Value) -> Value | None:
    """Return arithmetic of whole numbers with a result between the ends; None if it has to be a DOUBLE."""
    if fits_long(*ends, *(end for value in operands for end in value.ends)):
        return Value(make(*(value.sql.cast("BIGINT") for value in operands)), SqlType.INTEGER, within=ends)
    if max(map(abs, ends)) > WIDEST:
        return None
    value = Value(make(*(value.wide().sql for value in operands)), SqlType.WIDE, within=ends)
    greatest = _most(expression.type)
    if greatest is not None and greatest < 2**63:  # in all rows that a condition leaves
        return Value(value.sql.try_cast("BIGINT", "HUGEINT"), SqlType.INTEGER)
    return narrow(value)


@computes(Op.ADD, Op.SUBTRACT, Op.MULTIPLY)
def _flow(expression: Call, arguments: list[Value]) -> Value:
    op = expression.op
    if all(value.form in WHOLE for value in arguments):
        (a, b), (c, d) = (value.ends for value in arguments)
        if op is Op.MULTIPLY:
            # whatever the signs are, a product is extreme where both factors are
            corners = [a * c, a * d, b * c, b * d]
            ends = min(corners), max(corners)
        else:
            ends = (a + c, b + d) if op is Op.ADD else (a - d, b - c)
        exact = _whole(expression, ends, lambda x, y: x.operation(_FLOWING[op], y), *arguments)
        if exact is not None:
            return exact
    left, right = _operands(arguments)
    # two finite operands may still overflow together
    greatest = _most(expression.type)
    clean = left.clean and right.clean and greatest is not None and greatest < _SAFE
    sql = float_operation(_FLOWING[op], left.sql, right.sql, left.span, right.span)
    result = Value(sql, SqlType.DOUBLE, clean=clean, span=span_of_result(_FLOWING[op], left.span, right.span))
    scale = None if left.scale is None or right.scale is None else left.scale + right.scale
    return _typed(expression, arguments, result, scale if op is Op.MULTIPLY else None)


def _operands(arguments: list[Value]) -> list[Value]:
    """Return numbers as DOUBLE; beside a FLOAT, those that are no DOUBLE as FLOAT, as the engine takes them."""
    single = common(arguments)[1]
    return [argument.as_single() if single else argument.double() for argument in arguments]


def _typed(expression: Call, arguments: list[Value], result: Value, scale: int | None = None) -> Value:
    """Return the result of an operation in the type that the engine's own types give; see the module."""
    digits, single = common(arguments)
    if single:
        greatest = _most(expression.type)
        # rounded to a float32 it could be NULL, so it stays a DOUBLE
        if greatest is not None and greatest >= _SINGLE:
            return result
        return Value(result.sql, SqlType.DOUBLE, clean=False, single=True, span=result.span)
    digits = digits if scale is None else scale
    if digits is None or digits > MAX_SCALE:
        return result
    sizes = [_most(type_) for type_ in (expression.type, *(argument.type for argument in expression.arguments))]
    small = all(size is None or size * 10**digits < _ROUNDED for size in sizes)
    if digits and small:
        span = span_of_rounded(result.span, Fraction(1, 10**digits))
        return Value(result.sql.rounded(digits), SqlType.DOUBLE, clean=result.clean, scale=digits, span=span)
    return Value(result.sql, SqlType.DOUBLE, clean=result.clean, scale=digits, span=result.span)


@computes(Op.DIVIDE)
def _divide(_: Call, arguments: list[Value]) -> Value:
    left, right = _operands(arguments)
    # x divided by an infinity would be 0, although the infinity stands for NULL
    right = right.finite()
    sql = float_operation("/", left.sql, right.sql, left.span, right.span)
    span = span_of_result("/", left.span, right.span)
    return Value(sql, SqlType.DOUBLE, clean=False, single=common(arguments)[1], span=span)


@computes(Op.MODULO)
def _modulo(_: Call, arguments: list[Value]) -> Value:
    """Return the rest of a division; of decimals, of their digits as whole numbers."""
    left, right = arguments
    if left.form in WHOLE and right.form in WHOLE:
        (a, b), (c, d) = left.ends, right.ends
        greatest = max(abs(c), abs(d))
        # the rest has the sign of the dividend, and is no larger than either operand
        ends = (max(min(a, 0), -greatest), min(max(b, 0), greatest))
        safe = a > LONG[0] or not c <= -1 <= d  # the least number over -1 is one too large
        form = "BIGINT" if safe and left.form is right.form is SqlType.INTEGER else "HUGEINT"
        divisor = right.sql.cast(form)
        # NULL by zero: in whole numbers an engine may raise an error
        if c <= 0 <= d:
            divisor = case((divisor.operation("<>", 0), divisor))
        residue = left.sql.cast(form) % divisor
        if not fits_long(*ends):
            return Value(residue, SqlType.WIDE, within=ends)
        return Value(residue.cast("BIGINT"), SqlType.INTEGER, within=ends)
    dividend = left if left.form in WHOLE and 10 ** (right.scale or 0) * max(map(abs, left.ends)) <= WIDEST else None
    left, right = _operands(arguments)
    # x modulo an infinity would be x, although the infinity stands for NULL
    right = right.finite()
    scale, single = common(arguments)
    if scale and dividend is not None:  # which may have more digits than a float
        unit = Double(10**scale)
        below = float_operation("*", right.sql, unit).rounded().try_cast("HUGEINT", "DOUBLE")
        above = dividend.sql.cast("HUGEINT") * huge(10**scale)
        residue = above % case((below.operation("<>", 0), below))
        return Value(residue.cast("DOUBLE") / unit, SqlType.DOUBLE, clean=False, scale=scale)
    if scale:
        unit = Double(10**scale)
        above, below = (float_operation("*", value.sql, unit).rounded() for value in (left, right))
        residue = float_operation("%", above, below)
        return Value(float_operation("/", residue, unit), SqlType.DOUBLE, clean=False, scale=scale)
    residue = float_operation("%", left.sql, right.sql)
    return Value(residue, SqlType.DOUBLE, clean=False, scale=scale, single=single)


@computes(Op.DIVIDE_WHOLE)
def _divide_whole(_: Call, arguments: list[Value]) -> Value:
    """Divide in 128 bits, where the quotient of two 64-bit numbers always fits; NULL by zero."""
    numbers = (value if value.form in WHOLE else value.finite().to(SqlType.INTEGER) for value in arguments)
    left, right = (value.wide() for value in numbers)
    divisor = case((right.sql.operation("<>", 0), right.sql))
    greatest = max(map(abs, left.ends))
    ends = (min(left.ends[0], 0), greatest) if right.ends[0] >= 0 else (-greatest, greatest)
    result = left.sql.quotient(divisor, wide=True)
    if greatest <= 2**63:
        # a cast that may refuse: -2⁶³ over -1 is one too large for 64 bits
        return Value(result.try_cast("BIGINT", "HUGEINT"), SqlType.INTEGER)
    return Value(result, SqlType.WIDE, within=ends)


@computes(Op.NEGATE)
def _negate(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form in WHOLE:
        low, high = value.ends
        exact = _whole(expression, (-high, -low), operator.neg, value)
        if exact is not None:
            return exact
    value = value.double()
    return replace(value, sql=-value.sql, literal=None)


@computes(Op.ABS, Op.FLOOR, Op.CEIL, Op.TRUNC)
def _steady(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form in WHOLE:
        if expression.op is not Op.ABS:
            return value
        low, high = value.ends
        # the least magnitude is 0 if the ends have different signs, else that of the nearer end
        ends = (max(low, -high, 0), max(-low, high))
        exact = _whole(expression, ends, lambda x: call("abs", x), value)
        if exact is not None:
            return exact
    value = value.double()
    scale = value.scale if expression.op is Op.ABS or value.scale is None else 0
    span = value.span if expression.op is Op.ABS else span_of_rounded(value.span, Fraction(1))
    sql = call(engine_name(expression), value.sql)
    return Value(sql, SqlType.DOUBLE, clean=value.clean, scale=scale, single=value.single, span=span)


@computes(Op.ROUND)
def _round(expression: Call, arguments: list[Value]) -> Value:
    """Round to digits after the point, ties away from zero; of a decimal, by its digits."""
    argument, digits = arguments[0], 0
    if len(arguments) > 1:
        digits = max(-15, min(15, int(number_at(expression, 1))))
    if argument.form in WHOLE and digits >= 0:
        return argument
    if argument.form in WHOLE and max(map(abs, argument.ends)) > _ROUNDED:
        exact = rounded_whole(argument, 10**-digits)
        if exact is not None:
            return exact
    value = argument.double()
    if value.scale is None:
        span = span_of_rounded(value.span, Fraction(10) ** -digits)
        return Value(value.sql.rounded(digits), SqlType.DOUBLE, clean=False, single=value.single, span=span)
    if digits >= value.scale:
        return value
    # a tie is a whole number and a half, which a float holds; nothing else is so near to one that it rounds to it
    greatest = None if value.span is None else value.span[1]
    index = value.sql
    if value.scale:
        index = primitive("scaled", index, times=10**value.scale, over=None, most=greatest)
    above = None if greatest is None else greatest * 10**value.scale + 1
    index = primitive("scaled", index, times=None, over=10 ** (value.scale - digits), most=above)
    span = span_of_rounded(value.span, Fraction(10) ** -digits)
    if digits:
        unit = 10 ** abs(digits)
        spans = span_of_rounded(value.span, Fraction(1)), span_of_number(Fraction(unit))
        index = float_operation("/" if digits > 0 else "*", index, Double(unit), *spans)
    return Value(index, SqlType.DOUBLE, clean=False, scale=max(digits, 0), span=span)


@computes(Op.TO_FIXED)
def _fixed(expression: Call, arguments: list[Value]) -> Value:
    """CAST AS DECIMAL(width, digits): the engine's own cast, and back to the float nearest to the decimal."""
    digits, width = (int(number_at(expression, position)) for position in (1, 2))
    if arguments[0].form in WHOLE and not digits:
        value, largest = arguments[0], 10**width - 1
        ends = (max(value.ends[0], -largest), min(value.ends[1], largest))
        if ends == value.ends:
            return value
        if ends[0] <= ends[1]:
            inside = value.wide().sql.between(huge(-largest), huge(largest))
            return Value(case((inside, value.sql)), value.form, within=ends)
    (sql, own_name), fixed = own_type(arguments[0]), f"DECIMAL({width},{digits})"
    return Value(sql.try_cast(fixed, own_name).try_cast("DOUBLE", fixed), SqlType.DOUBLE, scale=digits)


@computes(Op.LOG, Op.LN, Op.SQRT)
def _undefined_below(expression: Call, arguments: list[Value]) -> Value:
    """Return the logarithm of a positive number, or the root of one that is not negative: of others engines raise."""
    number, is_log = arguments[-1].double().finite().sql, expression.op is Op.LOG
    if is_log and (base := number_at(expression, 0)) != 10:
        sql = call("log", Double(base), number)
    else:
        sql = call("log10" if is_log else engine_name(expression), number)
    inside = number >= Double(0) if expression.op is Op.SQRT else number > Double(0)
    return Value(case((inside, sql)), SqlType.DOUBLE, clean=not is_log)


@computes(Op.POWER)
def _power(_: Call, arguments: list[Value]) -> Value:
    left, right = (argument.double().finite() for argument in arguments)
    return Value(primitive("power", left.sql, right.sql, number=right.literal), SqlType.DOUBLE, clean=False)


@computes(Op.SIGN)
def _sign(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0].double().finite()
    pairs = [
        (value.sql > Double(0), Double(1)),
        (value.sql < Double(0), Double(-1)),
        # otherwise NULL would fall through to 0
        (value.sql.is_null(), null("DOUBLE")),
    ]
    return Value(case(*pairs, otherwise=Double(0)), SqlType.DOUBLE, span=ZERO_SPAN)


@computes(Op.LEAST, Op.GREATEST, Op.COALESCE)
def _one_of_several(expression: Call, arguments: list[Value]) -> Value:
    """Return the least, the greatest or the first of the arguments that are not NULL."""
    values = [value.finite() for value in alike(arguments)]
    return hull(call(engine_name(expression), *(value.sql for value in values)), values)


@computes(Op.CLIP)
def _clip(expression: Call, arguments: list[Value]) -> Value:
    low, high = number_at(expression, 1), number_at(expression, 2)
    operand = arguments[0]
    if operand.form in WHOLE and low.denominator == high.denominator == 1 and max(abs(low), abs(high)) <= WIDEST:
        limits = (int(low), int(high))
        form = SqlType.INTEGER if operand.form is SqlType.INTEGER and fits_long(*limits) else SqlType.WIDE
        sql = operand.sql.cast(form.value).clamped(*(integer(end).cast(form.value) for end in limits))
        return narrow(Value(sql, form, within=limits))
    value = operand.double().finite()
    ends = Double(low), Double(high)
    pairs = [(value.sql < ends[0], ends[0]), (value.sql > ends[1], ends[1])]
    scale, single = common([value, *(argument.double() for argument in arguments[1:])])
    least = Fraction(1, 2**1074) if value.span is None else value.span[0]
    span = span_of_any(*map(span_of_number, (low, high)), (least, abs(low)))
    sql = case(*pairs, otherwise=value.sql)
    return Value(sql, SqlType.DOUBLE, clean=not single, scale=scale, single=single, span=span)


@computes(Op.BIN)
def _bin(expression: Call, arguments: list[Value]) -> Value:
    """Return the lower edge of the bin: lower + width·min(n-1, ⌊(clamped - lower)/width⌋)."""
    low, high, bins = (number_at(expression, position) for position in (1, 2, 3))
    width = (high - low) / bins
    span = span_of_any(*map(span_of_number, (low, high, width)))
    # an edge that is no whole number is counted in parts of 1, of which there must not be too many either
    edges_fit = width.denominator == 1 or width.denominator * max(abs(low), abs(high)) <= WIDEST
    if edges_fit and _far(arguments[0], low, high, bins):
        index = _bin_number(arguments[0], low, high, int(bins))
        edge = index * huge(width.numerator) + huge(int(low) * width.denominator)
        if width.denominator == 1:
            return narrow(Value(edge, SqlType.WIDE, within=(int(low), int(high - width))))
        # as below: one correctly rounded division
        return Value(edge.cast("DOUBLE") / Double(width.denominator), SqlType.DOUBLE, span=span)
    offset = _clip(expression, arguments).double().sql - Double(low)
    which = call("floor", float_operation("/", offset, Double(width), None, span_of_number(width)))
    # NULL must stay NULL, and LEAST would skip it
    last = Double(bins - 1)
    index = case((which > last, last), otherwise=which)
    if width.denominator == 1 and low.denominator == 1:
        edge = index * Double(width) + Double(low)
    else:
        # one correctly rounded division, so that the edge is the float nearest to the exact one
        unit = Fraction(1, (width.denominator * low.denominator))
        edge = (index * Double(width / unit) + Double(low / unit)) / Double(1 / unit)
    return Value(edge, SqlType.DOUBLE, span=span)


def _far(value: Value, low: Fraction, high: Fraction, count: Fraction) -> bool:
    """Return whether bins are counted in whole numbers, because floats do not tell all values from their edges."""
    if value.form not in WHOLE or low.denominator != 1 or high.denominator != 1:
        return False
    return max(abs(low), abs(high)) > _ROUNDED and max(abs(low), abs(high), (high - low) * count) <= WIDEST


def _bin_number(value: Value, low: Fraction, high: Fraction, count: int) -> Scalar:
    """Return min(n-1, ⌊(x - lower)·n / (upper - lower)⌋) of a value moved between the bounds."""
    ends = [huge(int(end)) for end in (low, high)]
    offset = value.wide().sql.clamped(*ends) - ends[0]
    bins, width, last = (huge(number) for number in (count, int(high - low), count - 1))
    index = (offset * bins).quotient(width, wide=True)
    return case((index > last, last), otherwise=index)


@computes(Op.WIDTH_BUCKET)
def _bucket(expression: Call, arguments: list[Value]) -> Value:
    """Return the number of a bin: 1 + min(n-1, ⌊(x - lower)/width⌋) within the bounds, 0 below, n + 1 from upper on."""
    low, high, count = (number_at(expression, position) for position in (1, 2, 3))
    if _far(arguments[0], low, high, count):
        operand, ends = arguments[0].wide().sql, [huge(int(end)) for end in (low, high)]
        inside = _bin_number(arguments[0], low, high, int(count)) + 1
        outside = [
            (operand.is_null(), null("HUGEINT")),
            (operand < ends[0], huge(0)),
            (operand >= ends[1], huge(int(count) + 1)),
        ]
        return narrow(Value(case(*outside, otherwise=inside), SqlType.WIDE, within=(0, int(count) + 1)))
    value = arguments[0].double().finite()
    which = call("floor", (value.sql - Double(low)) / Double((high - low) / count))
    pairs = [
        (value.sql.is_null(), null("DOUBLE")),
        (value.sql < Double(low), Double(0)),
        (value.sql >= Double(high), Double(count + 1)),
        # rounding may carry a value that is inside the bounds past the last bin, or before the first
        (which > Double(count - 1), Double(count)),
        (which < Double(0), Double(1)),
    ]
    number = case(*pairs, otherwise=which + Double(1))
    return Value(number.cast("BIGINT"), SqlType.INTEGER, within=(0, int(count) + 1))


_COMPARISONS: Mapping[Op, Operator] = {
    Op.EQUAL: "=",
    Op.NOT_EQUAL: "<>",
    Op.LESS: "<",
    Op.LESS_EQUAL: "<=",
    Op.GREATER: ">",
    Op.GREATER_EQUAL: ">=",
}


def value_of(expression: Expression, columns: Mapping[str, Value]) -> Value:
    """Return an expression over the given columns as SQL."""
    match expression:
        case Column():
            return columns[expression.name]
        case Literal():
            return constant(expression.value, expression.type)
        case Call():
            arguments = [value_of(argument, columns) for argument in expression.arguments]
            return weighed(expression, arguments, COMPUTED.get(expression.op, _by_name)(expression, arguments))
        case Released() if name_of(expression) in columns:
            return columns[name_of(expression)]
        case Released():
            raise UnplannableError(
                "a noisy answer cannot be used inside a row's expression; use it in the outer SELECT"
            )


def _by_name(expression: Call, arguments: list[Value]) -> Value:
    """Return a call of the engine's function of this name, which is total; arguments that are not finite are NULL."""
    form, parts = SQL_TYPES[expression.type.kind], []
    for argument, value in zip(expression.arguments, arguments, strict=True):
        if argument.type.kind is Kind.TEXT:
            parts.append(as_text(value))
        else:
            parts.append((value.double() if form is SqlType.DOUBLE else value).finite().sql)
    result = call(engine_name(expression), *parts)
    result = result.try_cast(form.value, "BIGINT") if form is SqlType.INTEGER else result
    return Value(result, form, clean=form is not SqlType.DOUBLE)


def name_of(released: Released) -> OwnName:
    """Return the name of a released key or aggregate among the columns."""
    return OwnName(f"{released.source} {released.index}")


def condition(expression: Expression, columns: Mapping[str, Value]) -> Scalar:
    """Return a boolean expression as SQL."""
    return condition_of(value_of(expression, columns))


_MIRRORED = {Op.LESS: Op.GREATER, Op.GREATER: Op.LESS, Op.LESS_EQUAL: Op.GREATER_EQUAL, Op.GREATER_EQUAL: Op.LESS_EQUAL}


@computes(Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL)
def _compare(expression: Call, arguments: list[Value]) -> Value:
    first, second = arguments
    # as floats, whole numbers beyond 2⁵³ would be rounded before they are compared
    for value, constant_side, op in (
        (first, second, expression.op),
        (second, first, _MIRRORED.get(expression.op, expression.op)),
    ):
        if value.form in WHOLE and constant_side.form is SqlType.DOUBLE and constant_side.literal is not None:
            return Value(_with_fraction(op, value, constant_side.literal), SqlType.BOOLEAN)
    _check_digits(arguments)
    left, right = (value.finite() for value in alike(arguments))
    return Value(left.sql.operation(_COMPARISONS[expression.op], right.sql), SqlType.BOOLEAN)


def _check_digits(values: Sequence[Value]) -> None:
    """Refuse to compare a decimal with a constant of too many digits: two numbers could become the same float.

    Below 2⁵³ in its last digit a decimal is told from all others by its float (`hush.engines.sql.values`).
    """
    for value in values:
        if value.form is not SqlType.DOUBLE or value.scale is None or value.literal is not None:
            continue
        for operand in values:
            number = abs(operand.literal or Fraction(0))
            if number * 10**value.scale >= EXACT and (value.greatest is None or value.greatest >= number / 2):
                raise UnplannableError(
                    f"a constant has more digits than decimals are compared by, which is {MAX_SCALE}; "
                    "compare with a shorter one, or compare as floats with CAST(x AS DOUBLE)"
                )


def _with_fraction(op: Op, operand: Value, number: Fraction) -> Scalar:
    """Compare a whole number, which may be no float, with a constant that is none or that its form does not hold."""
    below = number // 1
    largest = 2**63 if operand.form is SqlType.INTEGER else WIDEST
    if op in {Op.EQUAL, Op.NOT_EQUAL}:
        # the constant is no whole number of this form, so none equals it
        truth = op is Op.NOT_EQUAL
    elif -largest <= below < largest:
        # x < 2.5 and x <= 2.5 both are x <= 2, and the other two are x > 2
        return operand.sql.operation("<=" if op in {Op.LESS, Op.LESS_EQUAL} else ">", below)
    else:
        truth = (op in {Op.LESS, Op.LESS_EQUAL}) is (below > 0)
    # a comparison with NULL is NULL, whatever the constant
    return case((operand.sql.not_null(), Constant(truth)))


@computes(Op.AND, Op.OR)
def _logic(expression: Call, arguments: list[Value]) -> Value:
    kind: Operator = "AND" if expression.op is Op.AND else "OR"
    result = condition_of(arguments[0])
    for argument in arguments[1:]:
        result = result.operation(kind, condition_of(argument))
    return Value(result, SqlType.BOOLEAN)


@computes(Op.NOT)
def _not(_: Call, arguments: list[Value]) -> Value:
    return Value(~condition_of(arguments[0]), SqlType.BOOLEAN)


@computes(Op.IS_NULL)
def _is_null(_: Call, arguments: list[Value]) -> Value:
    return Value(arguments[0].finite().sql.is_null(), SqlType.BOOLEAN)


@computes(Op.IN)
def _in(_: Call, arguments: list[Value]) -> Value:
    if arguments[0].form in WHOLE:  # no constant but a whole number can equal it
        arguments = [value for value in arguments if value.form in WHOLE or value.literal is None]
        if len(arguments) == 1:
            # no option is left: false, but NULL IN … is NULL
            return Value(case((arguments[0].sql.not_null(), FALSE)), SqlType.BOOLEAN)
    _check_digits(arguments)
    first, *options = (value.finite() for value in alike(arguments))
    return Value(first.sql.one_of([option.sql for option in options]), SqlType.BOOLEAN)


@computes(Op.CASE)
def _case(expression: Call, arguments: list[Value]) -> Value:
    results = alike([*arguments[1:-1:2], arguments[-1]])
    pairs = [
        (condition_of(test), result.finite().sql) for test, result in zip(arguments[:-1:2], results[:-1], strict=True)
    ]
    form = results[0].form
    if all(result.form is form for result in results):
        return hull(case(*pairs, otherwise=results[-1].finite().sql), results)
    raise UnplannableError(f"the branches of {expression.op.name} have different types")


@computes(Op.NULL_IF)
def _null_if(_: Call, arguments: list[Value]) -> Value:
    left, right = (value.finite() for value in alike(arguments))
    equal = left.sql.equals(right.sql)
    return hull(case((equal, null(left.form.value)), otherwise=left.sql), [left])


@computes(Op.TO_INTEGER)
def _to_integer(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form is SqlType.INTEGER:
        return value
    if value.form is SqlType.BOOLEAN:
        return Value(value.sql.cast("BIGINT", "BOOLEAN"), SqlType.INTEGER, within=(0, 1))
    if value.form in TIMES:
        return Value(null("BIGINT"), SqlType.INTEGER)
    # the engine's cast rounds text half away from zero, and a DOUBLE half to even
    number = value.sql.rounded() if value.scale is not None else value.sql
    return Value(number.try_cast("BIGINT", value.form.value), SqlType.INTEGER)


@computes(Op.TO_DECIMAL)
def _to_decimal(_: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form in TIMES:
        return Value(null("DOUBLE"), SqlType.DOUBLE)
    return replace(value.finite().double(), scale=None, single=False)


@computes(Op.TO_TEXT)
def _to_text(expression: Call, arguments: list[Value]) -> Value:
    value = arguments[0]
    if value.form is SqlType.DOUBLE and expression.arguments[0].type.kind is Kind.INTEGER:
        # a whole number is written as one, 3 and not 3.0, however it was computed
        return Value(value.finite().sql.try_cast("HUGEINT", "DOUBLE").try_cast("VARCHAR", "HUGEINT"), SqlType.TEXT)
    return Value(as_text(value), SqlType.TEXT)


@computes(Op.TO_BOOLEAN)
def _to_boolean(_: Call, arguments: list[Value]) -> Value:
    if arguments[0].form in TIMES:
        return Value(null("BOOLEAN"), SqlType.BOOLEAN)
    return Value(condition_of(arguments[0]), SqlType.BOOLEAN)


@computes(Op.TO_DATE, Op.TO_TIMESTAMP)
def _to_time(expression: Call, arguments: list[Value]) -> Value:
    form = SqlType.DATE if expression.op is Op.TO_DATE else SqlType.TIMESTAMP
    value = arguments[0]
    if value.form is form:
        return value
    if value.form not in {*TIMES, SqlType.TEXT}:
        return Value(null(form.value), form)
    if value.form is SqlType.TEXT and form is SqlType.DATE:
        return Value(date_in_text(value.sql), form)
    return moment(value).to(form)
