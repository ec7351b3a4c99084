"""Where an output does not go one way: plausible truths beyond a fold, or beyond a divisor's zero.

**Folds.** The simulated half-width of f(θ) is right where f goes one way as far as the noise tells. ABS does not: of a
sum whose noise hides its sign, the plausible |θ| are folded upon each other, so that they lie closer together than the
sum's errors do, and a truth of 0, at the end of what can be, is missed too often (SQRT(ABS(s)) held in 63 % of cases).
So where more than a tenth of what may miss lies beyond a fold, another interval is taken, which is right for every f: f
is made of k parts that have no folds, such as SUM(x) - SUM(y) in ABS(SUM(x) - SUM(y)). If each lies in its own
interval, at a level of α/k, then f lies between the ends that `hush.query.plan.winners` finds for them, and that
fails with a probability of α at most.

>>> from hush.query.types import Kind, Type
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

from collections.abc import Sequence

import numpy as np

from hush.query.expressions import Call, Expression, Op, Released
from hush.query.released import Array, aggregates_in, evaluate

_AT_ZERO = {Op.ABS, Op.MULTIPLY, Op.POWER, Op.SIGN}
"""What turns back, or may, where an argument changes its sign."""
_DIVISIONS = {Op.DIVIDE, Op.DIVIDE_WHOLE, Op.MODULO}
_FOLDS = _AT_ZERO | {Op.LEAST, Op.GREATEST, Op.MODULO, Op.CASE}


def folds(expression: Expression) -> bool:
    """Return whether an output may turn back somewhere."""
    if not isinstance(expression, Call):
        return False
    return _turns(expression) or any(map(folds, expression.arguments))


def parts(expression: Expression) -> tuple[Expression, list[Expression]]:
    """Return an output as an expression over parts without folds, which stand in the place of aggregates, and these."""
    found: list[Expression] = []

    def replaced(one: Expression) -> Expression:
        if not aggregates_in(one):
            return one
        if isinstance(one, Call) and (folds(one) or not one.type.kind.numeric):
            return Call(one.op, tuple(map(replaced, one.arguments)), one.type)
        if one not in found:
            found.append(one)
        return Released("aggregate", found.index(one), one.type)

    return replaced(expression), found


def beyond(expression: Expression, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]) -> Array:
    """Return which plausible truths lie beyond a fold, seen from the answers."""
    result = np.zeros(1, dtype=bool)
    if not isinstance(expression, Call):
        return result
    for argument in expression.arguments:
        result = result | beyond(argument, keys, answers, truths)
    if _turns(expression):
        for here, there in _sides(expression, keys, answers, truths):
            result = result | (here != there)
    return result


def _turns(expression: Call) -> bool:
    noisy = [bool(aggregates_in(argument)) for argument in expression.arguments]
    if expression.op is Op.MULTIPLY:
        return all(noisy)
    if expression.op is Op.CASE:
        return any(noisy[:-1:2])
    return expression.op in _FOLDS and any(noisy)


def _sides(
    expression: Call, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]
) -> list[tuple[Array, Array]]:
    """Return on which sides of its folds an expression is, in the answers and in plausible truths."""
    found = []
    whole = [evaluate(expression, keys, values) for values in (answers, truths)]
    for place, argument in enumerate(expression.arguments):
        if expression.op is Op.CASE and (place % 2 or place == len(expression.arguments) - 1):
            continue
        parts = [evaluate(argument, keys, values) for values in (answers, truths)]
        match expression.op:
            case Op.CASE:
                here, there = (part == 1 for part in parts)
            case Op.LEAST | Op.GREATEST:
                here, there = (part == values for part, values in zip(parts, whole, strict=True))
            case Op.MODULO:
                divisors = (evaluate(expression.arguments[1], keys, values) for values in (answers, truths))
                here, there = (np.trunc(part / divisor) for part, divisor in zip(parts, divisors, strict=True))
            case _:
                here, there = (np.sign(part) for part in parts)
        found.append((here, there))
    return found


def unsettled(
    expression: Expression, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]
) -> Array:
    """Return in which plausible truths a divisor that counts has another sign than in the answers, or none."""
    if not isinstance(expression, Call):
        return np.zeros(1, dtype=bool)
    found = [unsettled(argument, keys, answers, truths) for argument in expression.arguments]
    if expression.op is Op.CASE:
        return _unsettled_case(expression, keys, truths, found)
    result = found[0] if found else np.zeros(1, dtype=bool)
    for one in found[1:]:
        result = result | one
    if expression.op in _DIVISIONS:
        divisor = expression.arguments[1]
        here, there = (np.sign(evaluate(divisor, keys, values)) for values in (answers, truths))
        result = result | (here != there)  # NULL is unlike everything
    return result


def _unsettled_case(expression: Call, keys: Sequence[Array], truths: Sequence[Array], found: list[Array]) -> Array:
    """Return it of the branch that is taken, and of the conditions."""
    result = found[-1]
    for at in range(len(expression.arguments) - 3, -1, -2):
        taken = evaluate(expression.arguments[at], keys, truths) == 1
        result = np.where(taken, found[at + 1], result) | found[at]
    return result
