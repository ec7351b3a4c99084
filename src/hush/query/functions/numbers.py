"""Arithmetic: where results lie, on which grid, whether they can be NULL, and how NumPy computes them.

The step of a result is what it would be in exact arithmetic; the engine rounds what it sums to that grid. Only for
whole numbers does float64 keep the step by itself, so only there may a rule rely on it (a divisor that is a whole
number and not zero is at least 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Literal, Op
from hush.query.functions.logic import alike
from hush.query.functions.record import (
    ANY_NUMBER,
    ONE,
    Arguments,
    Array,
    Function,
    Reading,
    Rewrite,
    Rising,
    as_array,
    objects,
    of_floats,
)
from hush.query.functions.rules import (
    MAX_VALUES,
    common_step,
    describe,
    interval,
    literal_integer,
    literal_number,
    need_numeric,
    number,
    refuse,
    shown_number,
    spelled,
    step_of,
)
from hush.query.ranges import INFINITY, Interval, round_down, round_up
from hush.query.types import Kind, Type


def _kind(*types: Type) -> Kind:
    return Kind.INTEGER if all(type_.kind is Kind.INTEGER for type_ in types) else Kind.DECIMAL


def _add(op: Op, arguments: Arguments) -> Type:
    """ADD, SUBTRACT, MULTIPLY."""
    need_numeric(op, arguments)
    a, b = (argument.type for argument in arguments)
    left, right = interval(a), interval(b)
    if op is Op.MULTIPLY:
        span = _square(left) if arguments[0] == arguments[1] else left * right
        one, other = step_of(a), step_of(b)
        step = one * other or None if one is not None and other is not None else None
    else:
        span = left + right if op is Op.ADD else left - right
        step = common_step((step_of(a), step_of(b)))
    return number(_kind(a, b), span, nullable=a.nullable or b.nullable or not span.bounded, step=step)


def _square(span: Interval) -> Interval:
    side = abs(span)
    return side * side


def _divide(op: Op, arguments: Arguments) -> Type:
    """DIVIDE: NULL by zero; a whole divisor is never nearer to zero than one."""
    need_numeric(op, arguments)
    a, b = (argument.type for argument in arguments)
    by_zero = interval(b).holds_zero()
    span = _quotient(a, b)
    nullable = a.nullable or b.nullable or by_zero or not span.bounded
    return number(Kind.DECIMAL, span, nullable=nullable)


def _divide_whole(op: Op, arguments: Arguments) -> Type:
    """DIVIDE_WHOLE: NULL by zero, and of numbers that do not fit 64 bits."""
    need_numeric(op, arguments)
    a, b = (argument.type for argument in arguments)
    for argument in arguments:
        if argument.type.kind is not Kind.INTEGER:
            raise refuse(op, argument, "whole numbers", "Write FLOOR(a / b).")
    exact = all(interval(type_).magnitude < 2**63 for type_ in (a, b))
    nullable = a.nullable or b.nullable or interval(b).holds_zero() or not exact
    return number(Kind.INTEGER, _quotient(a, b).monotone(lambda x: Fraction(math.trunc(x))), nullable=nullable)


def _quotient(a: Type, b: Type) -> Interval:
    over = interval(b)
    by_zero = over.holds_zero()
    if b.kind is Kind.INTEGER and by_zero:
        parts = [
            interval(a) / part
            for part in (over.meet(Interval(Fraction(1), INFINITY)), over.meet(Interval(-INFINITY, Fraction(-1))))
            if part is not None
        ]
        span = parts[0] if parts else Interval(Fraction(0), Fraction(0))
        for part in parts[1:]:
            span = span.hull(part)
    else:
        span = interval(a) / over
    return span


def _modulo(op: Op, arguments: Arguments) -> Type:
    """MODULO: NULL by zero, else smaller than the divisor, with the sign of the dividend."""
    need_numeric(op, arguments)
    a, b = (argument.type for argument in arguments)
    dividend, divisor = interval(a), interval(b)
    kind = _kind(a, b)
    most = divisor.magnitude
    if kind is Kind.INTEGER and isinstance(most, Fraction):
        most = max(most - 1, Fraction(0))
    span = Interval(
        Fraction(0) if dividend.lower >= 0 else max(-most, dividend.lower),
        Fraction(0) if dividend.upper <= 0 else min(most, dividend.upper),
    )
    step = common_step((step_of(a), step_of(b))) if kind is Kind.INTEGER else None
    nullable = a.nullable or b.nullable or divisor.holds_zero()
    return number(kind, span, nullable=nullable or not span.bounded, step=step)


def _unary(op: Op, arguments: Arguments) -> Type:
    """NEGATE, ABS, SIGN."""
    need_numeric(op, arguments)
    (a,) = (argument.type for argument in arguments)
    span = interval(a)
    if op is Op.SIGN:
        ends = (Fraction((end > 0) - (end < 0)) for end in (span.lower, span.upper))
        return number(Kind.INTEGER, Interval(*ends), nullable=a.nullable)
    return number(a.kind, -span if op is Op.NEGATE else abs(span), nullable=a.nullable, step=step_of(a) or None)


def _whole(op: Op, arguments: Arguments) -> Type:
    """FLOOR, CEIL and TRUNC."""
    need_numeric(op, arguments)
    (a,) = (argument.type for argument in arguments)
    rounding: dict[Op, Callable[[Fraction], int]] = {
        Op.FLOOR: math.floor, Op.CEIL: math.ceil, Op.TRUNC: math.trunc,
    }  # fmt: skip
    step = rounding[op]
    return number(Kind.INTEGER, interval(a).monotone(lambda x: Fraction(step(x))), nullable=a.nullable)


def rounded(op: Op, arguments: Arguments) -> Type:
    """ROUND to a number of decimal digits: at most half a step away, ties either way."""
    need_numeric(op, arguments)
    a = arguments[0].type
    digits = literal_integer(op, arguments[1], "digits", -15, 15) if len(arguments) > 1 else 0
    step = Fraction(1, 10**digits) if digits >= 0 else Fraction(10**-digits)
    span = interval(a)
    lower = math.ceil((span.lower - step / 2) / step) * step if isinstance(span.lower, Fraction) else span.lower
    upper = math.floor((span.upper + step / 2) / step) * step if isinstance(span.upper, Fraction) else span.upper
    kind = Kind.INTEGER if step >= 1 or a.kind is Kind.INTEGER else Kind.DECIMAL
    if a.kind is Kind.INTEGER and step < 1:
        return number(kind, span, nullable=a.nullable, step=step_of(a) or None)
    span = Interval(lower, upper)
    # an engine may scale by 10**digits on the way, which overflows for the largest numbers
    return number(kind, span, nullable=a.nullable or not span.bounded, step=step)


def _to_fixed(op: Op, arguments: Arguments) -> Type:
    """CAST AS DECIMAL(width, digits): NULL where the number has more digits before the point."""
    digits = literal_integer(op, arguments[1], "digits", 0, 15)
    width = literal_integer(op, arguments[2], "width", 1, 38)
    if digits > width:
        raise QuestionError(
            f"DECIMAL({width}, {digits}) has more digits after the point than in all.", "Write DECIMAL(18, 3)."
        )
    most = Fraction(10) ** (width - digits) - Fraction(1, 10**digits)
    if arguments[0].type.kind is Kind.TEXT:
        kind = Kind.DECIMAL if digits else Kind.INTEGER
        return number(kind, Interval(-most, most), nullable=True, step=Fraction(1, 10**digits))
    a = rounded(op, arguments[:2])
    inside = interval(a).meet(Interval(-most, most)) or Interval(Fraction(0), Fraction(0))
    fits = a.lower is not None and a.upper is not None and -most <= a.lower and a.upper <= most
    return number(a.kind, inside, nullable=a.nullable or not fits, step=a.step)


def _library(op: Op, arguments: Arguments) -> Type:
    """SQRT, EXP and LN: NULL where undefined."""
    need_numeric(op, arguments)
    (a,) = (argument.type for argument in arguments)
    span = interval(a)
    defined = span
    if op is not Op.EXP:
        meet = span.meet(Interval(Fraction(0), INFINITY))
        defined = meet or Interval(Fraction(1), Fraction(1))
    image = defined.library({Op.SQRT: math.sqrt, Op.EXP: math.exp, Op.LN: math.log}[op])
    if op is not Op.LN:
        image = Interval(max(image.lower, Fraction(0)), image.upper)
    undefined = (op is Op.SQRT and span.lower < 0) or (op is Op.LN and span.lower <= 0) or not image.bounded
    return number(Kind.DECIMAL, image, nullable=a.nullable or undefined)


def _logarithm(op: Op, arguments: Arguments) -> Type:
    """LOG(base, x) to a constant base above 1: NULL where it is undefined."""
    need_numeric(op, arguments)
    base = literal_number(op, arguments[0], "base")
    if base <= 1:
        raise QuestionError(
            f"LOG needs a constant base above 1; got {shown_number(base)}.", "Write LN(x), LOG10(x) or LOG(2, x)."
        )
    a = arguments[1].type
    span = interval(a)
    defined = span.meet(Interval(Fraction(0), INFINITY)) or Interval(Fraction(1), Fraction(1))
    # a library's logarithms of x and of the base, one over the other: each has the slack of one function
    image = defined.library(math.log) / Interval.at(base).library(math.log)
    return number(Kind.DECIMAL, image, nullable=a.nullable or span.lower <= 0 or not image.bounded)


def _power(op: Op, arguments: Arguments) -> Type:
    """POWER: a range is known for constant exponents."""
    need_numeric(op, arguments)
    a, b = (argument.type for argument in arguments)
    base, exponent = interval(a), arguments[1]
    span, undefined, kind, step = Interval(), True, Kind.DECIMAL, None
    if isinstance(exponent, Literal) and isinstance(exponent.value, Fraction):
        value = exponent.value
        if value.denominator == 1 and 0 <= value <= 64:
            span, undefined = base.power(value.numerator), False
            if a.kind is Kind.INTEGER:
                kind = Kind.INTEGER
            elif (unit := step_of(a)) and value <= 4:
                step = unit**value.numerator if value else Fraction(1)
        elif base.lower > 0 or (value > 0 and base.lower >= 0):
            rising = base.library(lambda x: math.pow(x, abs(float(value))) if x != INFINITY else x)
            rising = Interval(max(rising.lower, Fraction(0)), rising.upper)
            span = rising if value > 0 else Interval(Fraction(1), Fraction(1)) / rising
            if value < 0:  # two roundings of a library instead of one
                span = span.library(lambda x: x)
            undefined = False
    return number(kind, span, nullable=a.nullable or b.nullable or undefined or not span.bounded, step=step)


def _extreme(op: Op, arguments: Arguments) -> Type:
    """LEAST and GREATEST of numbers or dates; NULLs are ignored."""
    types = [argument.type for argument in arguments]
    spans = [interval(type_) for type_ in types]
    # NULLs are ignored: only an argument that is never NULL bounds LEAST from above, or GREATEST from below
    sure = [span for span, type_ in zip(spans, types, strict=True) if not type_.nullable]
    if op is Op.LEAST:
        upper = min(span.upper for span in sure) if sure else max(span.upper for span in spans)
        span = Interval(min(span.lower for span in spans), upper)
    else:
        lower = max(span.lower for span in sure) if sure else min(span.lower for span in spans)
        span = Interval(lower, max(span.upper for span in spans))
    kind = types[0].kind if not types[0].kind.numeric else _kind(*types)
    return number(kind, span, nullable=not sure, step=common_step(map(step_of, types)))


def _clip(op: Op, arguments: Arguments) -> Type:
    """CLIP(x, lower, upper): gives bounds to an expression without bounds."""
    need_numeric(op, arguments)
    a = arguments[0].type
    lower, upper = _bounds(op, arguments)
    low = lower if a.lower is None else min(max(a.lower, lower), upper)
    high = upper if a.upper is None else max(min(a.upper, upper), lower)
    kind = a.kind if lower.denominator == upper.denominator == 1 else Kind.DECIMAL
    steps = [step_of(a)]
    # a clipped value is the bound itself, which may lie off the grid of x
    steps += [lower] if a.lower is None or a.lower < lower else []
    steps += [upper] if a.upper is None or a.upper > upper else []
    return number(
        kind,
        Interval(low, high),
        nullable=a.nullable,
        step=common_step(abs(s) if s is not None else None for s in steps),
    )


def _binned(op: Op, arguments: Arguments) -> Type:
    """BIN(x, lower, upper, n): the lower edges of n bins of equal width."""
    need_numeric(op, arguments)
    lower, upper = _bounds(op, arguments)
    count = literal_integer(op, arguments[3], "number of bins", 1, 2**20)
    width = (upper - lower) / count
    if width == 0:
        raise QuestionError(
            f"BIN needs an upper bound above the lower one; got {shown_number(lower)} twice.",
            "Write for instance BIN(x, 0, 100, 20).",
        )
    kind = Kind.INTEGER if lower.denominator == width.denominator == 1 else Kind.DECIMAL
    values = tuple(lower + k * width for k in range(count)) if count <= MAX_VALUES else None
    step = common_step((abs(lower), width))
    return Type(kind, arguments[0].type.nullable, lower, upper - width, step, values)


def _bucket(op: Op, arguments: Arguments) -> Type:
    """WIDTH_BUCKET(x, lower, upper, n): the number of the bin, 0 below the bounds and n + 1 from the upper one on."""
    need_numeric(op, arguments)
    lower, upper = _bounds(op, arguments)
    count = literal_integer(op, arguments[3], "number of bins", 1, 2**20)
    if lower == upper:
        raise QuestionError(
            f"WIDTH_BUCKET needs an upper bound above the lower one; got {shown_number(lower)} twice.",
            "Write for instance WIDTH_BUCKET(x, 0, 100, 20).",
        )
    span = interval(arguments[0].type)
    first = 0 if span.lower < round_up(lower) else 1
    last = count + 1 if span.upper >= round_down(upper) else count
    values = tuple(map(Fraction, range(first, last + 1))) if last - first < MAX_VALUES else None
    return Type(Kind.INTEGER, arguments[0].type.nullable, Fraction(first), Fraction(last), Fraction(1), values)


def _bounds(op: Op, arguments: Arguments) -> tuple[Fraction, Fraction]:
    lower = literal_number(op, arguments[1], "lower bound")
    upper = literal_number(op, arguments[2], "upper bound")
    if lower > upper:
        raise QuestionError(
            f"{spelled(op)}({describe(arguments[0])}, …) needs a lower bound that is not above the upper one; "
            f"got {shown_number(lower)} and {shown_number(upper)}.",
            "Write the lower one first.",
        )
    return lower, upper


def round_half_away(x: Array, digits: Array | None = None) -> Array:
    """Round to digits after the point, ties away from zero."""
    scale = 10.0 ** (np.zeros(1) if digits is None else digits)
    size = np.abs(x) * scale
    whole = np.floor(size)
    return np.asarray(np.where(x < 0, -1, 1) * (whole + (size - whole >= 0.5)) / scale)


def _lower_edges(x: Array, low: Array, high: Array, count: Array) -> Array:
    width = (high - low) / count
    return np.asarray(low + width * np.minimum(np.floor((np.clip(x, low, high) - low) / width), count - 1))


def _buckets(x: Array, low: Array, high: Array, count: Array) -> Array:
    inside = np.clip(np.floor((x - low) / ((high - low) / count)), 0, count - 1) + 1
    return np.where(np.isnan(x), np.nan, np.where(x < low, 0, np.where(x >= high, count + 1, inside)))


def _extremes(expression: Call, arguments: list[Array]) -> Array:
    pick = np.fmin if expression.op is Op.LEAST else np.fmax
    if all(argument.dtype == np.float64 for argument in arguments):
        result = arguments[0]
        for argument in arguments[1:]:
            result = pick(result, argument)
        return result
    choose = min if expression.op is Op.LEAST else max
    together = np.broadcast_arrays(*(objects(argument) for argument in arguments))
    rows = zip(*(array.ravel() for array in together), strict=True)
    chosen = [choose((value for value in row if value is not None), default=None) for row in rows]
    return as_array(chosen, expression.type.kind).reshape(together[0].shape)


def _numbers_or_times(op: Op, arguments: Arguments) -> Arguments:
    """Return arguments of one kind that has an order."""
    arguments = alike(op, arguments)
    if not arguments[0].type.kind.ranged:
        need_numeric(op, arguments)
    return arguments


_ALL_OF = ("this", "*expressions")

NUMBERS = (
    Function(
        op=Op.ADD, rule=_add, arity=(2, 2), evaluate=of_floats(lambda a, b: a + b), rising=Rising.ALL
    ),  # read with intervals of time
    Function(op=Op.SUBTRACT, rule=_add, arity=(2, 2), evaluate=of_floats(lambda a, b: a - b)),
    Function(op=Op.MULTIPLY, rule=_add, arity=(2, 2), reads=(Reading("Mul"),), evaluate=of_floats(lambda a, b: a * b)),
    Function(
        op=Op.DIVIDE,
        rule=_divide,
        arity=(2, 2),
        reads=(Reading("Div", ignored=("typed", "safe")),),
        evaluate=of_floats(lambda a, b: a / b),
    ),
    Function(
        op=Op.DIVIDE_WHOLE,
        rule=_divide_whole,
        arity=(2, 2),
        reads=(Reading("IntDiv"),),
        evaluate=of_floats(lambda a, b: np.trunc(a / b)),
    ),
    Function(
        op=Op.MODULO, rule=_modulo, arity=(2, 2), names=("MOD",), reads=(Reading("Mod"),), evaluate=of_floats(np.fmod)
    ),
    Function(op=Op.NEGATE, rule=_unary, arity=(1, 1), evaluate=of_floats(np.negative)),
    Function(
        op=Op.ABS, rule=_unary, arity=(1, 1), names=("ABS",), reads=(Reading("Abs", ONE),), evaluate=of_floats(np.abs)
    ),
    Function(
        op=Op.SIGN,
        rule=_unary,
        arity=(1, 1),
        names=("SIGN",),
        reads=(Reading("Sign", ONE),),
        evaluate=of_floats(np.sign),
        rising=Rising.ALL,
    ),
    *(
        Function(
            op=op,
            rule=rule,
            arity=(1, 1),
            names=(op.value,),
            reads=(Reading(op.value.capitalize(), ONE),),
            evaluate=of_floats(function),
            rising=Rising.ALL,
        )
        for op, rule, function in (
            (Op.FLOOR, _whole, np.floor),
            (Op.CEIL, _whole, np.ceil),
            (Op.TRUNC, _whole, np.trunc),
            (Op.SQRT, _library, np.sqrt),
            (Op.EXP, _library, np.exp),
            (Op.LN, _library, np.log),
        )
    ),
    Function(
        op=Op.ROUND,
        rule=rounded,
        arity=(1, 2),
        names=("ROUND",),
        reads=(Reading("Round", slots=("this", "decimals")),),
        evaluate=of_floats(round_half_away),
        rising=Rising.FIRST,
    ),
    Function(
        op=Op.LOG,
        rule=_logarithm,
        arity=(2, 2),
        names=("LOG", "LOG10"),
        evaluate=of_floats(lambda base, a: np.log(a) / np.log(base)),
    ),
    Function(
        op=Op.POWER,
        rule=_power,
        arity=(2, 2),
        names=("POWER",),
        reads=(Reading("Pow"),),
        evaluate=of_floats(lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, np.power(a, b))),
    ),
    *(
        Function(
            op=op,
            rule=_extreme,
            arity=(1, ANY_NUMBER),
            names=(op.value,),
            reads=(Reading(op.value.capitalize(), slots=_ALL_OF, ignored=("ignore_nulls",)),),
            prepare=_numbers_or_times,
            evaluate=_extremes,
            rising=Rising.ALL,
            per_character=2,
        )
        for op in (Op.LEAST, Op.GREATEST)
    ),
    Function(op=Op.CLIP, rule=_clip, arity=(3, 3), names=("CLIP",), evaluate=of_floats(np.clip), rising=Rising.FIRST),
    Function(
        op=Op.BIN, rule=_binned, arity=(4, 4), names=("BIN",), evaluate=of_floats(_lower_edges), rising=Rising.FIRST
    ),
    Function(
        op=Op.WIDTH_BUCKET,
        rule=_bucket,
        arity=(4, 4),
        names=("WIDTH_BUCKET",),
        reads=(Reading("WidthBucket", slots=("this", "min_value", "max_value", "num_buckets")),),
        evaluate=of_floats(_buckets),
        rising=Rising.FIRST,
    ),
    Function(
        op=Op.TO_FIXED,
        rule=_to_fixed,
        arity=(3, 3),
        evaluate=of_floats(lambda values, digits, _: round_half_away(values, digits)),
        by_engine=True,
        rising=Rising.FIRST,
    ),
)

REWRITES = (
    Rewrite(names=("PI",), node="Pi", parameters=(), text="CAST(3.141592653589793 AS DOUBLE)"),
    Rewrite(names=("ATANH",), node="Atanh", parameters=("x",), text="LN((1 + x) / (1 - x)) / 2"),
)
