"""Half-widths from plausible truths: released numbers minus fresh noise from the known distribution.

A plausible truth is what was released less fresh noise. The half-width of an output is the least distance from the
answer that leaves few enough of its plausible truths outside (`least_widths`). Two kinds of expressions need more.

**Folds** (`folds`, `parts`, `beyond`). Where an expression turns back, as ABS does at 0, plausible truths on the other
side of the fold lie too close together.

>>> from hush.query.types import Kind
>>> size = Call(Op.ABS, (Released("aggregate", 0, Type(Kind.DECIMAL)),), Type(Kind.DECIMAL))
>>> beyond(size, [], [np.array([6.0])], [np.array([[5.0], [-7.0]])])
array([[False],
       [ True]])

**Divisors.** Let a and b be released, a₀ and b₀ the truths, and r = a₀/b₀. Whatever r is, W = a - r·b is noise of a
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
from collections.abc import Sequence

import numpy as np

from hush.query.expressions import Call, Expression, Op, Released
from hush.query.released import Array, aggregates_in, evaluate
from hush.query.types import Type

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
    both, on_a_side = allowed(moved.shape[1], outside)
    undefined = np.isnan(moved)
    if undefined.any():
        anywhere = np.count_nonzero(undefined, axis=1)
        widths = np.full(len(moved), np.inf)
        defined = anywhere < both
        widths[defined] = _reach(
            np.where(undefined[defined], np.inf, moved[defined]), anywhere[defined], both, on_a_side
        )
        return widths
    return _reach(moved, np.zeros(len(moved), dtype=np.int64), both, on_a_side)


def allowed(draws: int, outside: float) -> tuple[int, int]:
    """Return the numbers of draws outside an interval that are too many: on both sides together, on one side."""
    both, on_a_side = (draws - math.ceil((1 - share) * (draws - 1)) for share in (outside, SIDE * outside))
    return both, on_a_side


def _reach(moved: Array, anywhere: Array, both: int, on_a_side: int) -> Array:
    """Return the least distance that fewer than ``both`` draws exceed, and fewer than ``on_a_side`` on a side.

    Where the truth may be ``anywhere`` it lies infinitely far above, and counts as far below as well.
    """
    draws = moved.shape[1]
    moved.sort(axis=1)  # all of it: processors sort quicker than they find the ends
    below, above = -moved[:, :both], moved[:, draws - both :]
    farthest = np.abs(moved) if 2 * both > draws else np.concatenate([below, above], axis=1)
    farthest.partition(farthest.shape[1] - both, axis=1)
    lower = np.where(
        anywhere < on_a_side, below[np.arange(len(moved)), np.maximum(on_a_side - 1 - anywhere, 0)], np.inf
    )
    return np.asarray(np.maximum(np.maximum(farthest[:, -both], above[:, both - on_a_side]), lower) + 0.0)  # never -0.0


_AT_ZERO = {Op.ABS, Op.MULTIPLY, Op.POWER, Op.SIGN}
"""Functions that are possibly not monotone where an argument changes its sign."""
_DIVISIONS = {Op.DIVIDE, Op.DIVIDE_WHOLE, Op.MODULO}
_FOLDS = _AT_ZERO | {Op.LEAST, Op.GREATEST, Op.MODULO, Op.CASE}


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
    result = np.zeros(1, dtype=bool)
    if not isinstance(expression, Call):
        return result
    for argument in expression.arguments:
        result = result | beyond(argument, keys, answers, truths)
    if _turns(expression):
        for side_of_answer, sides_of_truths in _sides(expression, keys, answers, truths):
            result = result | (side_of_answer != sides_of_truths)
    return result


def _turns(expression: Call) -> bool:
    noisy = [bool(aggregates_in(argument)) for argument in expression.arguments]
    # times a public number is monotone; only a product of two noisy ones turns back
    if expression.op is Op.MULTIPLY:
        return all(noisy)
    if expression.op is Op.CASE:
        return any(noisy[:-1:2])
    return expression.op in _FOLDS and any(noisy)


def _sides(
    expression: Call, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]
) -> list[tuple[Array, Array]]:
    """Return on which sides of its folds an expression is, in the answers and in plausible truths."""
    sides = []
    results = [evaluate(expression, keys, values) for values in (answers, truths)]
    for index, argument in enumerate(expression.arguments):
        if expression.op is Op.CASE and (index % 2 or index == len(expression.arguments) - 1):
            continue
        parts = [evaluate(argument, keys, values) for values in (answers, truths)]
        match expression.op:
            case Op.CASE:
                side_of_answer, sides_of_truths = (value == 1 for value in parts)
            case Op.LEAST | Op.GREATEST:
                side_of_answer, sides_of_truths = (
                    value == values for value, values in zip(parts, results, strict=True)
                )
            case Op.MODULO:
                divisors = (evaluate(expression.arguments[1], keys, values) for values in (answers, truths))
                side_of_answer, sides_of_truths = (
                    np.trunc(value / divisor) for value, divisor in zip(parts, divisors, strict=True)
                )
            case _:
                side_of_answer, sides_of_truths = (np.sign(value) for value in parts)
        sides.append((side_of_answer, sides_of_truths))
    return sides


def unsettled(
    expression: Expression, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]
) -> Array:
    """Return the plausible truths in which a divisor that matters has another sign than in the answers."""
    if not isinstance(expression, Call):
        return np.zeros(1, dtype=bool)
    reasons = [unsettled(argument, keys, answers, truths) for argument in expression.arguments]
    if expression.op is Op.CASE:
        return _unsettled_case(expression, keys, truths, reasons)
    result = reasons[0] if reasons else np.zeros(1, dtype=bool)
    for reason in reasons[1:]:
        result = result | reason
    if expression.op in _DIVISIONS:
        divisor = expression.arguments[1]
        sign, signs = (np.sign(evaluate(divisor, keys, values)) for values in (answers, truths))
        result = result | (sign != signs)  # NULL is unlike everything
    return result


def _unsettled_case(expression: Call, keys: Sequence[Array], truths: Sequence[Array], reasons: list[Array]) -> Array:
    """Return `unsettled` for a CASE: that of the branch taken, or of a condition before it."""
    result = reasons[-1]
    for index in range(len(expression.arguments) - 3, -1, -2):
        holds = evaluate(expression.arguments[index], keys, truths) == 1
        result = np.where(holds, reasons[index + 1], result) | reasons[index]
    return result
