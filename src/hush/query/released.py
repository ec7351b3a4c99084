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

**Half-widths** come from plausible truths. A plausible truth is what was released less fresh noise. The half-width of
an output is the least distance from the answer that leaves few enough of its plausible truths outside (`least_widths`).
Two kinds of expressions need more.

*Folds* (`folds`, `parts`, `beyond`): where an expression turns back, as ABS does at 0, plausible truths on the other
side of the fold lie too close together.

>>> from hush.query.types import Kind
>>> size = Call(Op.ABS, (Released("aggregate", 0, Type(Kind.DECIMAL)),), Type(Kind.DECIMAL))
>>> beyond(size, [], [np.array([6.0])], [np.array([[5.0], [-7.0]])])
array([[False],
       [ True]])

*Divisors*: let a and b be released, a₀ and b₀ the truths, and r = a₀/b₀. Whatever r is, W = a - r·b is noise of a
known law, free of the unknown a₀ and b₀ (Fieller 1954). A plausible truth (a', b') is what was released less fresh
noise, so that a' > r·b' as often as a fresh W lies below the one that happened. As long as b' > 0 that is the same as
a'/b' > r: the share of plausible ratios above r is uniform, and a limit that leaves a share α of them above it is
passed by r in a share α of cases at most. Where b' ≤ 0 < b, dividing turns the comparison round, and ratios that should
lie above the limit are found below. So such draws count as lying above *and* below every limit: the share above r is
then no less than that of a' > r·b', and the limits hold however small the divisor is. Where so many draws are of that
kind that no limit is left, nothing is known of the ratio, which Fieller's intervals say as well: they are unbounded
then.

>>> over, under = (Released("aggregate", at, Type(Kind.DECIMAL)) for at in range(2))
>>> ratio = Call(Op.DIVIDE, (over, under), Type(Kind.DECIMAL))
>>> unsettled(ratio, [], [np.array([6.0]), np.array([3.0])], [np.array([[5.0], [7.0]]), np.array([[4.0], [-1.0]])])
array([[False],
       [ True]])
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import or_
from typing import NamedTuple

import numpy as np

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released, pieces, substituted
from hush.query.functions import FUNCTIONS, constant
from hush.query.functions.record import Array, as_array, unknown
from hush.query.question import Question
from hush.query.types import Type


def noisy(expression: Expression) -> bool:
    """Return whether an expression reads a noisy aggregate."""
    return bool(aggregates_in(expression))


def aggregates_in(expression: Expression) -> set[int]:
    """Return which aggregates an expression reads."""
    return {piece.index for piece in pieces(expression) if isinstance(piece, Released) and piece.source == "aggregate"}


class Shown(NamedTuple):
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
    conditions = [] if question.having is None else [question.having]
    conditions += [ordering.by for ordering in question.order]
    public: list[Call] = []
    mixed: list[Call] = []
    for _, output in question.outputs:
        computed = _parts(output)
        public += [part for part in computed if not noisy(part)]
        if isinstance(output, Call) and any(map(noisy, computed)):
            mixed.append(output)
    for condition in conditions:
        public += _parts(condition)
    parts = tuple(dict.fromkeys([*public, *mixed]))
    if not parts:
        return Shown(question=question, parts=(), values={})
    first = len(question.keys)
    keys = {part: Released("key", first + index, part.type) for index, part in enumerate(parts)}
    plain = {part: key for part, key in keys.items() if not noisy(part)}

    def replaced(expression: Expression, by: Mapping[Call, Released] = plain) -> Expression:
        return substituted(expression, lambda piece: by.get(piece) if isinstance(piece, Call) else None)

    return Shown(
        question=replace(
            question,
            keys=(*question.keys, *(("", part) for part in parts)),
            outputs=tuple((name, replaced(output)) for name, output in question.outputs),
            having=None if question.having is None else replaced(question.having),
            order=tuple(replace(ordering, by=replaced(ordering.by)) for ordering in question.order),
        ),
        parts=parts,
        values={replaced(expression): replaced(expression, keys) for expression in (*mixed, *conditions)},
    )


def for_engine(expression: Expression) -> bool:
    """Return whether an engine computes an expression even over released answers."""
    if not isinstance(expression, Call):
        return False
    record = FUNCTIONS[expression.op]
    ordered = expression.op in {Op.LEAST, Op.GREATEST} and not expression.type.kind.numeric
    return ordered or record.by_engine or record.evaluate is None


def _parts(expression: Expression) -> list[Call]:
    """Return the largest parts that an engine computes."""
    if not isinstance(expression, Call):
        return []
    if for_engine(expression) or not noisy(expression):
        return [expression]
    return [part for argument in expression.arguments for part in _parts(argument)]


def released_in(expressions: Iterable[Expression]) -> tuple[Released, ...]:
    """Return the keys and aggregates that expressions read, each once."""
    released = {piece for expression in expressions for piece in pieces(expression) if isinstance(piece, Released)}
    return tuple(sorted(released, key=lambda each: (each.source, each.index)))


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


Ends = tuple[Array, Array]

_LOGICAL = {Op.AND, Op.OR, Op.NOT}
_COMPARED = {Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL}
_STRAIGHT = {Op.NEGATE, Op.NOT, Op.SUBTRACT, Op.MULTIPLY, *_COMPARED}
"""Functions that rise or fall in each argument, so that their extremes are at corners."""
_TURNING = {Op.ABS, Op.DIVIDE, Op.POWER}
"""Functions that may turn back where an argument is 0, or are undefined there."""


def enclose(expression: Expression, keys: Sequence[Array], aggregates: Sequence[Ends], size: int) -> Ends:
    """Return the ends of an expression in each of ``size`` groups."""
    if not aggregates_in(expression):
        values = evaluate(expression, keys, [])
        number = np.broadcast_to(values if values.dtype == np.float64 else np.nan, (size,))
        return _defined((number, number))
    if isinstance(expression, Released):
        return aggregates[expression.index]
    assert isinstance(expression, Call)  # noqa: S101 - columns and literals hold no aggregates
    if expression.op is Op.CASE:
        return _case(expression, keys, aggregates, size)
    arguments = [enclose(argument, keys, aggregates, size) for argument in expression.arguments]
    with np.errstate(all="ignore"):
        return _defined(_ends_of(expression, arguments, size))


def _ends_of(expression: Call, arguments: list[Ends], size: int) -> Ends:
    """Return the ends of a function's value, from those of its arguments; NaN where one is not known."""
    op = expression.op
    if op in _LOGICAL:  # NULL is not true, and neither is anything made of it surely so
        arguments = [(np.clip(low, 0, 1), np.clip(high, 0, 1)) for low, high in arguments]
    lows, highs = [low for low, _ in arguments], [high for _, high in arguments]
    if FUNCTIONS[op].rising:
        return _of(expression, lows), _of(expression, highs)
    if op is Op.COALESCE:  # what has ends is not NULL
        return arguments[0]
    if op in {Op.EQUAL, Op.NOT_EQUAL, Op.NULL_IF}:
        apart, outcome = (lows[0] > highs[1]) | (highs[0] < lows[1]), op is Op.NOT_EQUAL
        if op is Op.NULL_IF:
            return np.where(apart, lows[0], np.nan), highs[0]
        return np.where(apart, outcome, 0), np.where(apart, outcome, 1)
    if op not in _STRAIGHT | _TURNING:
        return np.full(size, np.nan), np.full(size, np.nan)
    square = op is Op.MULTIPLY and expression.arguments[0] == expression.arguments[1]
    points = [[*ends, np.clip(0, *ends)] if square or op in _TURNING else [*ends] for ends in arguments]
    corners = zip(*points, strict=True) if square else product(*points)
    values = [_of(expression, [*corner]) for corner in corners]
    low, high = np.minimum.reduce(values), np.maximum.reduce(values)
    if op is Op.POWER:  # between whole exponents lie those of which a negative number has no power
        low = np.where((lows[1] == highs[1]) | (lows[0] > 0), low, np.nan)
    return low, high


def _case(expression: Call, keys: Sequence[Array], aggregates: Sequence[Ends], size: int) -> Ends:
    """Return the ends of all branches that may be taken."""
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    may = np.ones(size, dtype=bool)
    *cases, otherwise = expression.arguments
    for condition, value in [*zip(cases[::2], cases[1::2], strict=True), (constant(True), otherwise)]:
        holds, ends = (enclose(each, keys, aggregates, size) for each in (condition, value))
        possible = may & (holds[1] > 0)
        low = np.where(possible, np.minimum(low, ends[0]), low)
        high = np.where(possible, np.maximum(high, ends[1]), high)
        # after a condition that surely holds, no later branch is reached
        may = may & (holds[0] < 1)
    return low, high


def _of(expression: Call, arguments: list[Array]) -> Array:
    """Return a function's values; infinite ends stay infinite."""
    places = tuple(Released("aggregate", index, argument.type) for index, argument in enumerate(expression.arguments))
    values = evaluate(
        Call(expression.op, places, expression.type), [], [np.clip(each, -_FAR, _FAR) for each in arguments]
    )
    return np.where(np.abs(values) >= _FAR / 2, np.copysign(np.inf, values), values)


_FAR = 1e150  # a finite stand-in for ∞, which functions would turn into NULL


def _defined(ends: Ends) -> Ends:
    """Return the ends, infinite where either is not known."""
    unknown = np.isnan(ends[0]) | np.isnan(ends[1])
    return np.where(unknown, -np.inf, ends[0]), np.where(unknown, np.inf, ends[1])


SIDE = 0.6
"""The largest share of the truths outside an interval that may lie on one side."""


def possible_widths(widths: Array, answer: Array, type_: Type) -> list[float | None]:
    """Return the half-widths, limited by the public range; None where they are infinite."""
    lower, upper = type_.lower, type_.upper
    if lower is not None and upper is not None:
        widths = np.minimum(widths, np.maximum(answer - float(lower), float(upper) - answer))
    return [width if math.isfinite(width) else None for width in widths.tolist()]


def least_widths(moved: Array, outside: float) -> Array:
    """Return, for every row of distances, the least width that leaves few enough outside, on both sides and on each.

    How far the farthest few lie on either side is all that matters. Where the truth is undefined it lies anywhere: as
    far as can be, on both sides.
    """
    draws = moved.shape[1]
    # so many draws outside are too many: on both sides together, on one side
    both = draws - math.ceil((1 - outside) * (draws - 1))
    on_a_side = draws - math.ceil((1 - SIDE * outside) * (draws - 1))
    undefined = np.isnan(moved)
    anywhere = np.count_nonzero(undefined, axis=1)
    if anywhere.any():  # counted as infinitely far above, and below as well
        moved = np.where(undefined, np.inf, moved)
    moved.sort(axis=1)  # all of it: processors sort quicker than they find the ends
    below, above = -moved[:, :both], moved[:, draws - both :]
    farthest = np.abs(moved) if 2 * both > draws else np.concatenate([below, above], axis=1)
    farthest.partition(farthest.shape[1] - both, axis=1)
    rank = np.maximum(on_a_side - 1 - anywhere, 0)
    lower = np.where(anywhere < on_a_side, below[np.arange(len(moved)), rank], np.inf)
    widths = np.maximum(np.maximum(farthest[:, -both], above[:, both - on_a_side]), lower)
    return np.where(anywhere < both, widths, np.inf) + 0.0  # never -0.0


_DIVISIONS = {Op.DIVIDE, Op.DIVIDE_WHOLE, Op.MODULO}
_CHOICES = {Op.LEAST, Op.GREATEST}
_FOLDS = {Op.ABS, Op.MULTIPLY, Op.POWER, Op.SIGN, Op.LEAST, Op.GREATEST, Op.MODULO, Op.CASE}
"""Functions that are possibly not monotone; the first four where an argument changes its sign."""


def folds(expression: Expression) -> bool:
    """Return whether an output may be non-monotone in an aggregate."""
    if not isinstance(expression, Call):
        return False
    return _turns(expression) or any(map(folds, expression.arguments))


def parts(expression: Expression) -> tuple[Expression, list[Expression]]:
    """Return an output with its monotone parts in the place of aggregates, and these parts."""
    smooth: list[Expression] = []

    def replaced(piece: Expression) -> Expression:
        if not aggregates_in(piece):
            return piece
        if isinstance(piece, Call) and (folds(piece) or not piece.type.kind.numeric):
            return Call(piece.op, tuple(map(replaced, piece.arguments)), piece.type)
        if piece not in smooth:
            smooth.append(piece)
        return Released("aggregate", smooth.index(piece), piece.type)

    return replaced(expression), smooth


def beyond(expression: Expression, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]) -> Array:
    """Return which plausible truths lie beyond a fold, seen from the answers."""
    if not isinstance(expression, Call):
        return np.zeros(1, dtype=bool)
    result = reduce(or_, (beyond(argument, keys, answers, truths) for argument in expression.arguments))
    if not _turns(expression):
        return np.asarray(result)
    op, arguments = expression.op, expression.arguments
    chosen = [evaluate(expression, keys, values) for values in (answers, truths)] if op in _CHOICES else []
    for argument in arguments[:-1:2] if op is Op.CASE else arguments:
        values, further = (evaluate(argument, keys, numbers) for numbers in (answers, truths))
        match op:
            case Op.CASE:
                beyond_fold = (values == 1) != (further == 1)
            case Op.LEAST | Op.GREATEST:
                beyond_fold = (values == chosen[0]) != (further == chosen[1])
            case Op.MODULO:
                divisor, divisors = (evaluate(arguments[1], keys, numbers) for numbers in (answers, truths))
                beyond_fold = np.trunc(values / divisor) != np.trunc(further / divisors)
            case _:
                beyond_fold = np.sign(values) != np.sign(further)
        result = result | beyond_fold
    return result


def _turns(expression: Call) -> bool:
    noisy = [bool(aggregates_in(argument)) for argument in expression.arguments]
    # times a public number is monotone; only a product of two noisy ones turns back
    if expression.op is Op.MULTIPLY:
        return all(noisy)
    if expression.op is Op.CASE:
        return any(noisy[:-1:2])
    return expression.op in _FOLDS and any(noisy)


def unsettled(
    expression: Expression, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]
) -> Array:
    """Return the plausible truths in which a divisor that matters has another sign than in the answers."""
    if not isinstance(expression, Call):
        return np.zeros(1, dtype=bool)
    reasons = [unsettled(argument, keys, answers, truths) for argument in expression.arguments]
    if expression.op is Op.CASE:  # that of the branch taken, or of a condition before it
        result = reasons[-1]
        for index in range(len(reasons) - 3, -1, -2):
            holds = evaluate(expression.arguments[index], keys, truths) == 1
            result = np.where(holds, reasons[index + 1], result) | reasons[index]
        return result
    if expression.op in _DIVISIONS:
        divisor = expression.arguments[1]
        sign, signs = (np.sign(evaluate(divisor, keys, values)) for values in (answers, truths))
        reasons.append(sign != signs)  # NULL is unlike everything
    return np.asarray(reduce(or_, reasons))
