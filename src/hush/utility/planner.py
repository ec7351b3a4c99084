r"""Splitting a budget over several questions, and from how many coordinates on Gaussian noise wins.

**Splitting ε.** A question of sensitivity Δ whose answer is of size s has a relative error of w/ε_i with w = Δ/s, up
to a constant. Under Σε_i = ε the *total* Σw_i/ε_i is least for ε_i ∝ √w_i (Cauchy and Schwarz), the *maximum* for ε_i
∝ w_i, which makes all equal. Shares are rounded down to whole parts in 10⁹ and the last takes the rest, so that they
add up to ε exactly.

**Laplace or Gaussian.** `crossover` says from how many coordinates on Gaussian noise is the smaller one, and
`hush.mechanisms.estimators.means` takes whichever is.

>>> [round(float(e), 6) for e in split([Question(sensitivity=1), Question(sensitivity=4)], epsilon=3)]
[1.0, 2.0]
>>> both = [Question(sensitivity=1), Question(sensitivity=3)]
>>> [round(float(e), 6) for e in split(both, epsilon=1, objective="maximum")]
[0.25, 0.75]
>>> crossover(epsilon=1, delta="1e-6")
9
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from hush.accounting import theorems
from hush.core import InvalidValueError, Number, positive
from hush.core.values import dataclass

_PARTS = 10**9


@dataclass(frozen=True, slots=True, init=False)
class Question:
    """One question of a plan: its sensitivity and the public guess of its answer's size."""

    sensitivity: Fraction
    size: Fraction

    def __init__(self, *, sensitivity: Number, size: Number = 1) -> None:
        object.__setattr__(self, "sensitivity", positive(sensitivity, "sensitivity"))
        object.__setattr__(self, "size", positive(size, "size"))


def split(questions: Sequence[Question], *, epsilon: Number, objective: str = "total") -> list[Fraction]:
    """Return an ε for every question, adding up to ``epsilon``, of least total or maximum relative error."""
    budget = positive(epsilon, "epsilon")
    if objective not in {"total", "maximum"}:
        raise InvalidValueError("objective", got=objective, allowed="'total' or 'maximum'")
    if not questions:
        raise InvalidValueError("questions", got=questions, allowed="a non-empty list of questions")
    largest = max(question.sensitivity / question.size for question in questions)
    relative = [float(question.sensitivity / question.size / largest) for question in questions]
    wishes = [math.sqrt(w) if objective == "total" else w for w in relative]
    shares = [max(Fraction(int(_PARTS * wish / math.fsum(wishes)), _PARTS), Fraction(1, _PARTS)) for wish in wishes]
    shares[shares.index(max(shares))] += 1 - sum(shares, Fraction(0))
    return [share * budget for share in shares]


def expected_errors(questions: Sequence[Question], shares: Sequence[Fraction]) -> list[float]:
    """Return each question's expected relative error |noise|/size under Laplace noise of its share.

    >>> questions = [Question(sensitivity=1), Question(sensitivity=4)]
    >>> [round(error, 2) for error in expected_errors(questions, split(questions, epsilon=3))][0] > 0
    True
    """
    return [float(q.sensitivity / share / q.size) for q, share in zip(questions, shares, strict=True)]


def crossover(*, epsilon: Number, delta: Number) -> int:
    """Return the least number of coordinates for which Gaussian noise has a smaller variance than Laplace noise."""
    sigma = theorems.gaussian.analytic(epsilon, delta)
    return int((sigma * positive(epsilon, "epsilon")) ** 2 / 2) + 1
