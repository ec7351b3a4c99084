"""Enclosures: between which two numbers an expression lies, if each aggregate lies between two numbers.

Interval arithmetic (Moore 1966): every function is given the ends that hold for whatever lies between those of its
arguments. The result may be wider than need be, never narrower. What is not known, or may be NULL, lies between -∞ and
∞; a condition that surely holds has both ends 1.

>>> from fractions import Fraction
>>> from hush.query.expressions import Literal
>>> from hush.query.types import Kind, Type
>>> number = Released("aggregate", 0, Type(Kind.DECIMAL))
>>> square = Call(Op.MULTIPLY, (number, number), Type(Kind.DECIMAL))
>>> enclose(square, [], [(np.array([-1.0, 2.0]), np.array([1.0, 3.0]))], 2)
(array([0., 4.]), array([1., 9.]))
>>> above = Call(Op.GREATER, (number, Literal(Fraction(1), Type(Kind.DECIMAL))), Type(Kind.BOOLEAN))
>>> enclose(above, [], [(np.array([-1.0, 2.0]), np.array([1.5, 3.0]))], 2)
(array([0., 1.]), array([1., 1.]))
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hush.query.evaluate import Array, evaluate
from hush.query.expressions import Call, Expression, Op, Released
from hush.query.functions import FUNCTIONS
from hush.query.plan.winners import aggregates_in

Ends = tuple[Array, Array]

_FALLING = {Op.NEGATE, Op.NOT}
_LOGICAL = {Op.AND, Op.OR, Op.NOT}
_COMPARED = {Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL}


def enclose(expression: Expression, keys: Sequence[Array], aggregates: Sequence[Ends], size: int) -> Ends:
    """Return the ends of an expression in each of ``size`` groups."""
    if not aggregates_in(expression):
        values = np.broadcast_to(evaluate(expression, keys, []), (size,))
        return _defined((values, values)) if values.dtype == np.float64 else _unknown(size)
    if isinstance(expression, Released):
        return aggregates[expression.index]
    assert isinstance(expression, Call)  # noqa: S101 - columns and literals hold no aggregates
    if expression.op is Op.CASE:
        return _case(expression, keys, aggregates, size)
    arguments = [enclose(argument, keys, aggregates, size) for argument in expression.arguments]
    with np.errstate(all="ignore"):
        return _defined(_apply(expression, arguments, size))


def _apply(expression: Call, arguments: list[Ends], size: int) -> Ends:
    op = expression.op
    if op in _LOGICAL:  # NULL is not true, and neither is anything made of it surely so
        arguments = [(np.clip(low, 0, 1), np.clip(high, 0, 1)) for low, high in arguments]
    lows, highs = [low for low, _ in arguments], [high for _, high in arguments]
    if FUNCTIONS[op].rising:
        return _of(expression, lows), _of(expression, highs)
    if op in _FALLING:
        return _of(expression, highs), _of(expression, lows)
    if op in _COMPARED:
        mixed = [lows[0], highs[1]], [highs[0], lows[1]]
        ends = tuple(_of(expression, values) for values in mixed)
        return np.minimum(*ends), np.maximum(*ends)
    if op is Op.SUBTRACT:
        return lows[0] - highs[1], highs[0] - lows[1]
    if op is Op.MULTIPLY and expression.arguments[0] == expression.arguments[1]:
        return _even(_of(expression, [lows[0]] * 2), _of(expression, [highs[0]] * 2), *arguments[0])
    if op is Op.POWER:
        return _power(expression, arguments)
    if op in {Op.EQUAL, Op.NOT_EQUAL}:
        apart, known = (lows[0] > highs[1]) | (highs[0] < lows[1]), 0 if op is Op.EQUAL else 1
        return np.where(apart, known, 0), np.where(apart, known, 1)
    if op is Op.NULL_IF:
        apart = (lows[0] > highs[1]) | (highs[0] < lows[1])
        return np.where(apart, lows[0], np.nan), highs[0]
    if op is Op.MODULO:  # with the sign of the first argument, and no larger than either
        most = np.minimum(np.maximum(-lows[0], highs[0]), np.maximum(-lows[1], highs[1]))
        divides = (lows[1] > 0) | (highs[1] < 0)
        return np.where(divides, np.where(lows[0] >= 0, 0, -most), np.nan), np.where(highs[0] <= 0, 0, most)
    if op is Op.MULTIPLY or op is Op.DIVIDE:
        corners = [_of(expression, [x, y]) for x in arguments[0] for y in arguments[1]]
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        settled = True if op is Op.MULTIPLY else (lows[1] > 0) | (highs[1] < 0)
        return np.where(settled, low, np.nan), high
    if op is Op.ABS:
        return _even(np.abs(lows[0]), np.abs(highs[0]), *arguments[0])
    if op is Op.COALESCE:  # what has ends is not NULL
        return _defined(arguments[0])
    return _unknown(size)


def _case(expression: Call, keys: Sequence[Array], aggregates: Sequence[Ends], size: int) -> Ends:
    """Return the ends of all branches that may be taken."""
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    may = np.ones(size, dtype=bool)
    *cases, otherwise = expression.arguments
    for condition, value in zip(cases[::2], cases[1::2], strict=True):
        holds, ends = (enclose(one, keys, aggregates, size) for one in (condition, value))
        taken = may & (holds[1] > 0)
        low, high = np.where(taken, np.minimum(low, ends[0]), low), np.where(taken, np.maximum(high, ends[1]), high)
        may = may & (holds[0] < 1)
    ends = enclose(otherwise, keys, aggregates, size)
    return np.where(may, np.minimum(low, ends[0]), low), np.where(may, np.maximum(high, ends[1]), high)


def _even(at_low: Array, at_high: Array, low: Array, high: Array) -> Ends:
    """Return the ends of what falls to 0 at 0 and rises again, from its values at two ends."""
    return np.where((low < 0) & (high > 0), 0.0, np.minimum(at_low, at_high)), np.maximum(at_low, at_high)


def _power(expression: Call, arguments: list[Ends]) -> Ends:
    """Return the ends of a power with a constant exponent."""
    (low, high), (exponent, other) = arguments
    at_low, at_high = (_of(expression, [base, exponent]) for base in (low, high))
    even = _even(at_low, at_high, low, high)
    whole = (exponent == other) & (exponent == np.rint(exponent)) & (exponent >= 0)
    one_way = (exponent == other) & (low > 0) | whole & ((low >= 0) | (exponent % 2 == 1))
    ordered = np.minimum(at_low, at_high), np.maximum(at_low, at_high)
    known = one_way | whole
    return np.where(known, np.where(one_way, ordered[0], even[0]), np.nan), np.where(one_way, ordered[1], even[1])


def _of(expression: Call, arguments: list[Array]) -> Array:
    """Return a function's values; infinite ends stay infinite."""
    places = tuple(Released("aggregate", at, part.type) for at, part in enumerate(expression.arguments))
    found = evaluate(Call(expression.op, places, expression.type), [], [np.clip(one, -_FAR, _FAR) for one in arguments])
    return np.where(np.abs(found) >= _FAR / 2, np.copysign(np.inf, found), found)


_FAR = 1e150
"""Stands for ∞ where functions are evaluated, which take that for NULL."""


def _defined(ends: Ends) -> Ends:
    """Return the ends, infinite where either is not known."""
    unknown = np.isnan(ends[0]) | np.isnan(ends[1])
    return np.where(unknown, -np.inf, ends[0]), np.where(unknown, np.inf, ends[1])


def _unknown(size: int) -> Ends:
    return np.full(size, -np.inf), np.full(size, np.inf)
