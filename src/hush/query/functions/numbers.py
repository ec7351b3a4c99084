"""Arithmetic and casts to numbers: where results lie, on which grid, whether they can be NULL, NumPy's formulas.

The step of a result is what it would be in exact arithmetic; the engine rounds what it sums to that grid. Only for
whole numbers does float64 keep the step by itself, so only there may a rule rely on it (a divisor that is a whole
number and not zero is at least 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Literal, Op
from hush.query.functions.logic import alike
from hush.query.functions.record import (
    ANY_NUMBER,
    MAX_VALUES,
    NUMERIC,
    ONE,
    Arguments,
    Array,
    Function,
    Reading,
    Rewrite,
    Rule,
    common_step,
    describe,
    floats,
    interval,
    literal_integer,
    literal_number,
    need,
    number,
    of_floats,
    of_kinds,
    refuse,
    shown_number,
    spelled,
    step_of,
    unknown,
)
from hush.query.types import INFINITY, Interval, Kind, Type, round_down, round_up


def _kind(*types: Type) -> Kind:
    return Kind.INTEGER if all(type_.kind is Kind.INTEGER for type_ in types) else Kind.DECIMAL


def _add(op: Op, arguments: Arguments) -> Type:
    """ADD, SUBTRACT, MULTIPLY."""
    a, b = need(op, arguments, *NUMERIC)
    left, right = interval(a), interval(b)
    if op is Op.MULTIPLY:
        square = arguments[0] == arguments[1]  # never negative, whatever lies in between
        span = abs(left) * abs(left) if square else left * right
        one, other = step_of(a), step_of(b)
        step = one * other or None if one is not None and other is not None else None
    else:
        span = left + right if op is Op.ADD else left - right
        step = common_step((step_of(a), step_of(b)))
    return number(_kind(a, b), span, nullable=a.nullable or b.nullable or not span.bounded, step=step)


def _divide(op: Op, arguments: Arguments) -> Type:
    """DIVIDE and DIVIDE_WHOLE: NULL by zero; a whole divisor is never nearer to zero than one.

    DIVIDE_WHOLE is NULL of numbers that do not fit 64 bits, too.
    """
    a, b = need(op, arguments, *NUMERIC)
    over = interval(b)
    if b.kind is not Kind.INTEGER or not over.holds_zero():
        span = interval(a) / over
    else:
        sides = (over.meet(Interval(Fraction(1), INFINITY)), over.meet(Interval(-INFINITY, Fraction(-1))))
        spans = [interval(a) / side for side in sides if side is not None]
        span = spans[0].hull(spans[-1]) if spans else Interval(Fraction(0), Fraction(0))
    nullable = a.nullable or b.nullable or over.holds_zero()
    if op is Op.DIVIDE:
        return number(Kind.DECIMAL, span, nullable=nullable or not span.bounded)
    for argument in arguments:
        if argument.type.kind is not Kind.INTEGER:
            raise refuse(op, argument, "whole numbers", "Write FLOOR(a / b).")
    exact = all(interval(type_).magnitude < 2**63 for type_ in (a, b))
    return number(Kind.INTEGER, span.monotone(lambda x: Fraction(math.trunc(x))), nullable=nullable or not exact)


def _modulo(op: Op, arguments: Arguments) -> Type:
    """MODULO: NULL by zero, else smaller than the divisor, with the sign of the dividend."""
    a, b = need(op, arguments, *NUMERIC)
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
    """Return the type of NEGATE, ABS, SIGN, FLOOR, CEIL or TRUNC of a number."""
    (a,) = need(op, arguments, *NUMERIC)
    span = interval(a)
    if op in {Op.NEGATE, Op.ABS}:
        return number(a.kind, -span if op is Op.NEGATE else abs(span), nullable=a.nullable, step=step_of(a) or None)
    if op is Op.SIGN:
        span = Interval(*(Fraction((end > 0) - (end < 0)) for end in (span.lower, span.upper)))
    elif op is Op.TRUNC:
        span = span.monotone(lambda x: Fraction(math.trunc(x)))
    else:
        span = span.floor() if op is Op.FLOOR else span.ceil()
    return number(Kind.INTEGER, span, nullable=a.nullable)


def rounded(op: Op, arguments: Arguments) -> Type:
    """ROUND to a number of decimal digits: at most half a step away, ties either way."""
    a, *_ = need(op, arguments, *NUMERIC)
    digits = literal_integer(op, arguments[1], "digits", -15, 15) if len(arguments) > 1 else 0
    step = Fraction(1, 10**digits) if digits >= 0 else Fraction(10**-digits)
    span = interval(a)
    kind = Kind.INTEGER if step >= 1 or a.kind is Kind.INTEGER else Kind.DECIMAL
    if a.kind is Kind.INTEGER and step < 1:
        return number(kind, span, nullable=a.nullable, step=step_of(a) or None)
    span = span.nearest(step)
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


def _to_number(op: Op, arguments: Arguments) -> Type:
    type_ = of_kinds(op, arguments[0], {Kind.INTEGER, Kind.DECIMAL, Kind.TEXT, Kind.BOOLEAN})
    kind = Kind.INTEGER if op is Op.TO_INTEGER else Kind.DECIMAL
    if type_.kind is Kind.TEXT:
        return Type(kind, step=Fraction(1) if kind is Kind.INTEGER else None)
    if type_.kind is Kind.BOOLEAN:
        return number(kind, Interval(Fraction(0), Fraction(1)), nullable=type_.nullable, step=Fraction(1))
    span = interval(type_)
    if kind is Kind.DECIMAL:
        return number(kind, span, nullable=type_.nullable, step=step_of(type_) or None)
    whole = type_.kind is Kind.INTEGER
    span = span if whole else span.nearest()
    fits = span.bounded and span.magnitude < 2**63  # NULL beyond, also for a whole number such as 1e300
    return number(
        kind, span, nullable=type_.nullable or not fits, step=(step_of(type_) or None) if whole else Fraction(1)
    )


def _library(op: Op, arguments: Arguments) -> Type:
    """SQRT, EXP, LN, and LOG to a constant base above 1; the value is NULL where the function is not defined."""
    *_, a = need(op, arguments, *NUMERIC)
    span = interval(a)
    defined = span
    if op is not Op.EXP:
        defined = span.meet(Interval(Fraction(0), INFINITY)) or Interval(Fraction(1), Fraction(1))
    image = defined.library({Op.SQRT: math.sqrt, Op.EXP: math.exp}.get(op, math.log))
    if op is Op.LOG:
        base = literal_number(op, arguments[0], "base")
        if base <= 1:
            raise QuestionError(
                f"LOG needs a constant base above 1; got {shown_number(base)}.", "Write LN(x), LOG10(x) or LOG(2, x)."
            )
        # a library's logarithms of x and of the base, one over the other: each has the slack of one function
        image = image / Interval.at(base).library(math.log)
    if op in {Op.SQRT, Op.EXP}:
        image = Interval(max(image.lower, Fraction(0)), image.upper)
    undefined = span.lower < 0 if op is Op.SQRT else op is not Op.EXP and span.lower <= 0
    return number(Kind.DECIMAL, image, nullable=a.nullable or undefined or not image.bounded)


def _power(op: Op, arguments: Arguments) -> Type:
    """POWER: a range is known for constant exponents."""
    a, b = need(op, arguments, *NUMERIC)
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
            undefined = value < 0 and rising.upper == 0  # too small a power to divide 1 by
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
    a, *_ = need(op, arguments, *NUMERIC)
    lower, upper = _bounds(op, arguments)
    low = lower if a.lower is None else min(max(a.lower, lower), upper)
    high = upper if a.upper is None else max(min(a.upper, upper), lower)
    kind = a.kind if lower.denominator == upper.denominator == 1 else Kind.DECIMAL
    steps = [step_of(a)]
    # a clipped value is the bound itself, which may lie off the grid of x
    steps += [abs(lower)] if a.lower is None or a.lower < lower else []
    steps += [abs(upper)] if a.upper is None or a.upper > upper else []
    return number(kind, Interval(low, high), nullable=a.nullable, step=common_step(steps))


def _binned(op: Op, arguments: Arguments) -> Type:
    """BIN and WIDTH_BUCKET(x, lower, upper, n): of n bins of equal width the lower edges, or the numbers.

    A bucket has the number 0 below the bounds, and n + 1 from the upper one on.
    """
    a, *_ = need(op, arguments, *NUMERIC)
    lower, upper = _bounds(op, arguments)
    count = literal_integer(op, arguments[3], "number of bins", 1, 2**20)
    if lower == upper:
        raise QuestionError(
            f"{op.value} needs an upper bound above the lower one; got {shown_number(lower)} twice.",
            f"Write for instance {op.value}(x, 0, 100, 20).",
        )
    if op is Op.WIDTH_BUCKET:
        span = interval(a)
        first = 0 if span.lower < round_up(lower) else 1
        last = count + 1 if span.upper >= round_down(upper) else count
        values = tuple(map(Fraction, range(first, last + 1))) if last - first < MAX_VALUES else None
        return Type(Kind.INTEGER, a.nullable, Fraction(first), Fraction(last), Fraction(1), values)
    width = (upper - lower) / count
    kind = Kind.INTEGER if lower.denominator == width.denominator == 1 else Kind.DECIMAL
    values = tuple(lower + k * width for k in range(count)) if count <= MAX_VALUES else None
    return Type(kind, a.nullable, lower, upper - width, common_step((abs(lower), width)), values)


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


def _powers(a: Array, b: Array) -> Array:
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.power(a, b))  # to NumPy 1 to the power of NaN is 1


def _lower_edges(x: Array, low: Array, high: Array, count: Array) -> Array:
    width = (high - low) / count
    return np.asarray(low + width * np.minimum(np.floor((np.clip(x, low, high) - low) / width), count - 1))


def _buckets(x: Array, low: Array, high: Array, count: Array) -> Array:
    inside = np.clip(np.floor((x - low) / ((high - low) / count)), 0, count - 1) + 1
    return np.where(np.isnan(x), np.nan, np.where(x < low, 0, np.where(x >= high, count + 1, inside)))


def _extremes(expression: Call, arguments: list[Array]) -> Array:
    if not expression.type.kind.numeric:  # an engine chooses among times
        return unknown(expression, arguments)
    return reduce(np.fmin if expression.op is Op.LEAST else np.fmax, map(floats, arguments))


def _numbers_or_times(op: Op, arguments: Arguments) -> Arguments:
    """Return arguments of one kind that has an order."""
    arguments = alike(op, arguments)
    if not arguments[0].type.kind.ranged:
        need(op, arguments, *NUMERIC)
    return arguments


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UTINYINT", "USMALLINT", "UINT", "UBIGINT")
_FLOATS = ("FLOAT", "DOUBLE", "DECIMAL")
_BUCKET = ("this", "min_value", "max_value", "num_buckets")
Formula = Callable[..., Any]
"""Computes a function over float64 arrays."""
_OPERATIONS: tuple[tuple[Op, Rule, tuple[str, ...], tuple[Reading, ...], Formula], ...] = (
    (Op.SUBTRACT, _add, (), (), lambda a, b: a - b),  # read with intervals of time, as ADD is
    (Op.MULTIPLY, _add, (), (Reading("Mul"),), lambda a, b: a * b),
    (Op.DIVIDE, _divide, (), (Reading("Div", ignored=("typed", "safe")),), lambda a, b: a / b),
    (Op.DIVIDE_WHOLE, _divide, (), (Reading("IntDiv"),), lambda a, b: np.trunc(a / b)),
    (Op.MODULO, _modulo, ("MOD",), (Reading("Mod"),), np.fmod),
    (Op.LOG, _library, ("LOG", "LOG10"), (), lambda base, a: np.log(a) / np.log(base)),
    (Op.POWER, _power, ("POWER",), (Reading("Pow"),), _powers),
)
"""Functions of two numbers: names, classes that are plain calls to each, and formulas."""
_RISING: tuple[tuple[Op, Rule, tuple[int, int], tuple[Reading, ...], Formula], ...] = (
    *(
        (op, rule, (1, 1), (Reading(op.value.capitalize(), ONE),), ufunc)
        for op, rule, ufunc in (
            (Op.SIGN, _unary, np.sign),
            (Op.FLOOR, _unary, np.floor),
            (Op.CEIL, _unary, np.ceil),
            (Op.TRUNC, _unary, np.trunc),
            (Op.SQRT, _library, np.sqrt),
            (Op.EXP, _library, np.exp),
            (Op.LN, _library, np.log),
        )
    ),
    (Op.ROUND, rounded, (1, 2), (Reading("Round", ("this", "decimals")),), round_half_away),
    (Op.CLIP, _clip, (3, 3), (), np.clip),
    (Op.BIN, _binned, (4, 4), (), _lower_edges),
    (Op.WIDTH_BUCKET, _binned, (4, 4), (Reading("WidthBucket", _BUCKET),), _buckets),
)
"""Functions of a number, and perhaps of constants, that rise with it and are called by their own name."""

NUMBERS = (
    Function(Op.ADD, _add, (2, 2), evaluate=of_floats(lambda a, b: a + b), rising=True),
    *(Function(op, rule, (2, 2), names, reads, evaluate=of_floats(f)) for op, rule, names, reads, f in _OPERATIONS),
    Function(Op.NEGATE, _unary, (1, 1), evaluate=of_floats(np.negative)),
    Function(Op.ABS, _unary, (1, 1), ("ABS",), (Reading("Abs", ONE),), evaluate=of_floats(np.abs)),
    *(
        Function(op, rule, arity, (op.value,), reads, evaluate=of_floats(formula), rising=True)
        for op, rule, arity, reads, formula in _RISING
    ),
    *(
        Function(
            op,
            _extreme,
            (1, ANY_NUMBER),
            (op.value,),
            (Reading(op.value.capitalize(), ("this", "*expressions"), ignored=("ignore_nulls",)),),
            prepare=_numbers_or_times,
            evaluate=_extremes,
            rising=True,
            per_character=2,
        )
        for op in (Op.LEAST, Op.GREATEST)
    ),
    Function(
        Op.TO_INTEGER,
        _to_number,
        (1, 1),
        types=_INTEGERS,
        evaluate=of_floats(lambda values: np.where(np.abs(values) < 2.0**63, np.rint(values), np.nan)),
        by_engine=True,
    ),
    Function(Op.TO_DECIMAL, _to_number, (1, 1), types=_FLOATS, evaluate=of_floats(lambda values: values), rising=True),
    Function(
        Op.TO_FIXED,
        _to_fixed,
        (3, 3),
        evaluate=of_floats(lambda values, digits, _: round_half_away(values, digits)),
        by_engine=True,
        rising=True,
    ),
)

REWRITES = (
    Rewrite(names=("PI",), node="Pi", parameters=(), text="CAST(3.141592653589793 AS DOUBLE)"),
    Rewrite(names=("ATANH",), node="Atanh", parameters=("x",), text="LN((1 + x) / (1 - x)) / 2"),
)
