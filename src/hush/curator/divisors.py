"""Where a ratio may be anything: plausible truths in which a divisor has not the sign it was released with.

Let a and b be released, a₀ and b₀ the truths, and r = a₀/b₀. Whatever r is, W = a - r·b is noise of a known law, free
of the unknown a₀ and b₀ (Fieller 1954). A plausible truth (a', b') is what was released less fresh noise, so that
a' > r·b' as often as a fresh W lies below the one that happened. As long as b' > 0 that is the same as a'/b' > r: the
share of plausible ratios above r is uniform, and a limit that leaves a share α of them above it is passed by r in a
share α of cases at most. Where b' ≤ 0 < b, dividing turns the comparison round, and ratios that should lie above the
limit are found below. So such draws count as lying above *and* below every limit: the share above r is then no less
than that of a' > r·b', and the limits hold however small the divisor is. Where so many draws are of that kind that no
limit is left, nothing is known of the ratio, which Fieller's intervals say as well: they are unbounded then.

>>> from hush.query.expressions import Released
>>> from hush.query.types import Kind, Type
>>> over, under = (Released("aggregate", at, Type(Kind.DECIMAL)) for at in range(2))
>>> ratio = Call(Op.DIVIDE, (over, under), Type(Kind.DECIMAL))
>>> unsettled(ratio, [], [np.array([6.0]), np.array([3.0])], [np.array([[5.0], [7.0]]), np.array([[4.0], [-1.0]])])
array([[False],
       [ True]])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hush.query.evaluate import Array, evaluate
from hush.query.expressions import Call, Expression, Op

_DIVISIONS = {Op.DIVIDE, Op.DIVIDE_WHOLE, Op.MODULO}


def unsettled(
    expression: Expression, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]
) -> Array:
    """Return in which plausible truths a divisor that counts has another sign than in the answers, or none."""
    if not isinstance(expression, Call):
        return np.zeros(1, dtype=bool)
    found = [unsettled(argument, keys, answers, truths) for argument in expression.arguments]
    if expression.op is Op.CASE:
        return _of_case(expression, keys, truths, found)
    result = found[0] if found else np.zeros(1, dtype=bool)
    for one in found[1:]:
        result = result | one
    if expression.op in _DIVISIONS:
        divisor = expression.arguments[1]
        here, there = (np.sign(evaluate(divisor, keys, values)) for values in (answers, truths))
        result = result | (here != there)  # NULL is unlike everything
    return result


def _of_case(expression: Call, keys: Sequence[Array], truths: Sequence[Array], found: list[Array]) -> Array:
    """Return it of the branch that is taken, and of the conditions."""
    result = found[-1]
    for at in range(len(expression.arguments) - 3, -1, -2):
        taken = evaluate(expression.arguments[at], keys, truths) == 1
        result = np.where(taken, found[at + 1], result) | found[at]
    return result
