"""Expressions over released keys and noisy aggregates: outputs, HAVING and ORDER BY.

They see only what is already released, so nothing here can cost privacy or fail differently for different rows.

**Who computes them** (`shown`). Whatever is made of keys and constants alone, and every function of texts and dates and
every cast, is computed by the engine that computes them over rows, in its own types: from public values, after the
noise. So every function has one meaning. The results stand beside the keys, as further keys. What is left is
arithmetic, comparison and choice over noisy numbers.

**Values** (`evaluate`) of what is left come from NumPy, as the function's record in `hush.query.functions` says. They
are simulated too, to find out how far off an output may be.

>>> from fractions import Fraction
>>> from hush.query.types import Kind, Type
>>> total = Released("aggregate", 0, Type(Kind.DECIMAL))
>>> half = Call(Op.DIVIDE, (total, Literal(Fraction(2), Type(Kind.INTEGER))), Type(Kind.DECIMAL))
>>> evaluate(half, [], [np.array([3.0, 5.0])])
array([1.5, 2.5])

**Enclosures** (`enclose`): between which two numbers an expression lies, if each aggregate lies between two numbers.
Interval arithmetic (Moore 1966): every function is given the ends that hold for whatever lies between those of its
arguments. The result may be wider than need be, never narrower. What is not known, or may be NULL, lies between -∞ and
∞; a condition that surely holds has both ends 1.

>>> square = Call(Op.MULTIPLY, (total, total), Type(Kind.DECIMAL))
>>> enclose(square, [], [(np.array([-1.0, 2.0]), np.array([1.0, 3.0]))], 2)
(array([0., 4.]), array([1., 9.]))
>>> above = Call(Op.GREATER, (total, Literal(Fraction(1), Type(Kind.DECIMAL))), Type(Kind.BOOLEAN))
>>> enclose(above, [], [(np.array([-1.0, 2.0]), np.array([1.5, 3.0]))], 2)
(array([0., 1.]), array([1., 1.]))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released, pieces, substituted
from hush.query.functions import FUNCTIONS
from hush.query.functions.record import Array, as_array, key_array, unknown
from hush.query.question import Question


def noisy(expression: Expression) -> bool:
    """Return whether an expression reads a noisy aggregate."""
    return any(isinstance(piece, Released) and piece.source == "aggregate" for piece in pieces(expression))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A question with the parts that an engine computes added as further keys."""

    question: Question
    parts: tuple[Call, ...]
    """The expressions of the further keys, in their order."""
    values: Mapping[Expression, Expression]
    """For expressions with noisy parts that the engine computes: the expression to evaluate for their values.

    Half-widths, and what noise may have decided, follow from the expressions themselves.
    """


def shown(question: Question) -> Shown:
    """Return a question with all parts that an engine computes moved to further keys."""
    outputs = [expression for _, expression in question.outputs]
    conditions = [
        *([] if question.having is None else [question.having]),
        *(ordering.by for ordering in question.order),
    ]
    mixed = [
        expression for expression in outputs if isinstance(expression, Call) and any(map(noisy, _parts(expression)))
    ]
    public = [part_call for expression in outputs for part_call in _parts(expression) if not noisy(part_call)]
    public += [part_call for expression in conditions for part_call in _parts(expression)]
    parts = tuple(dict.fromkeys([*public, *mixed]))
    if not parts:
        return Shown(question=question, parts=(), values={})
    first = len(question.keys)
    keys_by_part = {part_call: Released("key", first + index, part_call.type) for index, part_call in enumerate(parts)}
    plain = {part_call: key for part_call, key in keys_by_part.items() if not noisy(part_call)}
    evaluated = [*mixed, *conditions]
    return Shown(
        question=replace(
            question,
            keys=(*question.keys, *(("", part_call) for part_call in parts)),
            outputs=tuple((name, _replaced(expression, plain)) for name, expression in question.outputs),
            having=None if question.having is None else _replaced(question.having, plain),
            order=tuple(replace(ordering, by=_replaced(ordering.by, plain)) for ordering in question.order),
        ),
        parts=parts,
        values={_replaced(expression, plain): _replaced(expression, keys_by_part) for expression in evaluated},
    )


def for_engine(expression: Expression) -> bool:
    """Return whether an engine computes an expression even over released answers."""
    if not isinstance(expression, Call):
        return False
    ordered = expression.op in {Op.LEAST, Op.GREATEST} and not expression.type.kind.numeric
    return ordered or FUNCTIONS[expression.op].computed_by_engine


def _parts(expression: Expression) -> Iterator[Call]:
    """Yield the largest parts that an engine computes."""
    if not isinstance(expression, Call):
        return
    if for_engine(expression) or not noisy(expression):
        yield expression
    else:
        for argument in expression.arguments:
            yield from _parts(argument)


def released_in(expressions: Iterable[Expression]) -> tuple[Released, ...]:
    """Return the keys and aggregates that expressions read, each once."""
    released = {piece for expression in expressions for piece in pieces(expression) if isinstance(piece, Released)}
    return tuple(sorted(released, key=lambda each: (each.source, each.index)))


def _replaced(expression: Expression, keys: Mapping[Call, Released]) -> Expression:
    """Return an expression with known parts replaced by keys."""
    return substituted(expression, lambda piece: keys.get(piece) if isinstance(piece, Call) else None)


__all__ = ["Array", "as_array", "evaluate", "key_array"]


def evaluate(expression: Expression, keys: Sequence[Array], aggregates: Sequence[Array]) -> Array:
    """Return the expression's values for all groups."""
    match expression:
        case Released():
            return (keys if expression.source == "key" else aggregates)[expression.index]
        case Literal():
            return as_array([expression.value], expression.type.kind)
        case Call():
            arguments = [evaluate(argument, keys, aggregates) for argument in expression.arguments]
            with np.errstate(all="ignore"):
                result = (FUNCTIONS[expression.op].evaluate or unknown)(expression, arguments)
            if result.dtype == np.float64 and not np.isfinite(result).all():
                result = np.where(np.isfinite(result), result, np.nan)
            return result
        case Column():
            raise QuestionError("a row's column stands outside an aggregate.", "Aggregate it, or add it to GROUP BY.")


def aggregates_in(expression: Expression) -> set[int]:
    """Return which aggregates an expression reads."""
    return {piece.index for piece in pieces(expression) if isinstance(piece, Released) and piece.source == "aggregate"}


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
        apart, outcome = (lows[0] > highs[1]) | (highs[0] < lows[1]), 0 if op is Op.EQUAL else 1
        return np.where(apart, outcome, 0), np.where(apart, outcome, 1)
    if op is Op.NULL_IF:
        apart = (lows[0] > highs[1]) | (highs[0] < lows[1])
        return np.where(apart, lows[0], np.nan), highs[0]
    if op is Op.MODULO:  # with the sign of the first argument, and no larger than either
        largest = np.minimum(np.maximum(-lows[0], highs[0]), np.maximum(-lows[1], highs[1]))
        divides = (lows[1] > 0) | (highs[1] < 0)
        return np.where(divides, np.where(lows[0] >= 0, 0, -largest), np.nan), np.where(highs[0] <= 0, 0, largest)
    if op is Op.MULTIPLY or op is Op.DIVIDE:
        # a product or quotient of intervals has its extremes at corners
        corners = [_of(expression, [x, y]) for x in arguments[0] for y in arguments[1]]
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        # a divisor that may be 0 leaves nothing known
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
        holds, ends = (enclose(each, keys, aggregates, size) for each in (condition, value))
        possible = may & (holds[1] > 0)
        low, high = (
            np.where(possible, np.minimum(low, ends[0]), low),
            np.where(possible, np.maximum(high, ends[1]), high),
        )
        # after a condition that surely holds, no later branch is reached
        may = may & (holds[0] < 1)
    ends = enclose(otherwise, keys, aggregates, size)
    return np.where(may, np.minimum(low, ends[0]), low), np.where(may, np.maximum(high, ends[1]), high)


def _even(at_low: Array, at_high: Array, low: Array, high: Array) -> Ends:
    """Return the ends of an even function with minimum 0 at 0, from its values at both ends."""
    return np.where((low < 0) & (high > 0), 0.0, np.minimum(at_low, at_high)), np.maximum(at_low, at_high)


def _power(expression: Call, arguments: list[Ends]) -> Ends:
    """Return the ends of a power with a constant exponent."""
    (low, high), (exponent, exponent_high) = arguments
    at_low, at_high = (_of(expression, [base, exponent]) for base in (low, high))
    even = _even(at_low, at_high, low, high)
    is_whole = (exponent == exponent_high) & (exponent == np.rint(exponent)) & (exponent >= 0)
    one_way = (exponent == exponent_high) & (low > 0) | is_whole & ((low >= 0) | (exponent % 2 == 1))
    ordered = np.minimum(at_low, at_high), np.maximum(at_low, at_high)
    defined = one_way | is_whole
    return np.where(defined, np.where(one_way, ordered[0], even[0]), np.nan), np.where(one_way, ordered[1], even[1])


def _of(expression: Call, arguments: list[Array]) -> Array:
    """Return a function's values; infinite ends stay infinite."""
    places = tuple(Released("aggregate", index, argument.type) for index, argument in enumerate(expression.arguments))
    values = evaluate(
        Call(expression.op, places, expression.type), [], [np.clip(each, -_FAR, _FAR) for each in arguments]
    )
    return np.where(np.abs(values) >= _FAR / 2, np.copysign(np.inf, values), values)


_FAR = 1e150
"""A finite stand-in for ∞, which functions would turn into NULL."""


def _defined(ends: Ends) -> Ends:
    """Return the ends, infinite where either is not known."""
    unknown = np.isnan(ends[0]) | np.isnan(ends[1])
    return np.where(unknown, -np.inf, ends[0]), np.where(unknown, np.inf, ends[1])


def _unknown(size: int) -> Ends:
    return np.full(size, -np.inf), np.full(size, np.inf)
