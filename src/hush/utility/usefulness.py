r"""(α, β)-usefulness, and planning for it: with probability above 1-β no answer is off by more than α (THEORY item 19).

Four readings, one definition:

* **one query**: the half-width of its mechanism at confidence 1-β is at most α;
* **a set of queries**: the largest of all errors is at most α. The noises are independent, so each must hold at
  (1-β)^(1/m), which is `error(confidence, count=m)`, exactly; the whole set's ℓ₁ (or ℓ₂) sensitivity is what the
  mechanism was made for;
* **a synthetic data set**: the largest error over a set of queries, answered on it instead of the data,
  `largest_error`;
* **an analysis**: whatever a program makes of the data. That is measured: run it again and again, and bound the
  chance of a failure by Clopper and Pearson, `measure`. It reads the true answer, so it is for the owner.

Clopper and Pearson's bounds on a probability are exact: after s successes in n tosses the upper bound is the p at which
s or fewer successes have probability β, the lower bound the p at which s or more have. The binomial tail is the
regularised incomplete beta function, P[Bin(n, p) ≥ s] = I_p(s, n-s+1), in ball arithmetic, and the search ends on the
outer side.

>>> lower_bound(0, 100, miss=0.01), upper_bound(100, 100, miss=0.01)
(0.0, 1.0)
>>> 0.0294 < upper_bound(0, 100, miss=0.05) < 0.0296           # 1 - 0.05^(1/100)
True

Both directions: `alpha_at` and `beta_at` from a mechanism, `laplace_for` from a wanted (α, β).

>>> from hush.mechanisms.laplace import Laplace
>>> noisy = Laplace(sensitivity=1, epsilon="0.1")
>>> round(alpha_at(noisy, beta=0.01), 2), useful(noisy, alpha=47, beta=0.01), useful(noisy, alpha=40, beta=0.01)
(46.05, True, False)
>>> needed = laplace_for(alpha=10, beta=0.05, queries=20)
>>> useful(needed, alpha=10, beta=0.05, queries=20), float(needed.epsilon) < 12
(True, True)

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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hush.accounting import theorems
from hush.core import InvalidValueError, Number, exact, fraction_between, integer, nonnegative, positive
from hush.core.balls import Ball, flint, precision
from hush.core.errors import members
from hush.core.values import assign
from hush.mechanisms.base import Additive
from hush.mechanisms.laplace import Laplace


def alpha_at(mechanism: Additive, *, beta: Number, queries: int = 1) -> float:
    """Return the α with which ``queries`` answers of this mechanism are (α, β)-useful."""
    return mechanism.error(1 - fraction_between(beta, "beta"), count=queries)


def useful(mechanism: Additive, *, alpha: Number, beta: Number, queries: int = 1) -> bool:
    """Say whether the answers to a set of queries are (α, β)-useful."""
    return exact(alpha_at(mechanism, beta=beta, queries=queries), "alpha") <= nonnegative(alpha, "alpha")


def beta_at(mechanism: Additive, *, alpha: Number, queries: int = 1) -> float:
    """Return the smallest β, to 30 bits, at which the answers are (α, β)-useful; 1 if there is none.

    >>> import hush
    >>> round(beta_at(hush.Laplace(sensitivity=1, epsilon="0.1"), alpha=30), 2)
    0.05
    """
    low, high = Fraction(0), Fraction(1)
    for _ in range(60):
        middle = (low + high) / 2 if low else high / 16
        if useful(mechanism, alpha=alpha, beta=middle, queries=queries):
            high = middle
        else:
            low = middle
        if low and high - low < low / 2**30:
            break
    return float(high)


def laplace_for(
    *, alpha: Number, beta: Number, queries: int = 1, sensitivity: Number | None = None, step: Number | None = None
) -> Laplace:
    """Return the Laplace mechanism of the smallest ε with (α, β)-useful answers to a set of queries.

    ``sensitivity`` is the set's ℓ₁ sensitivity; by default each query has sensitivity 1, and they add up.
    """
    count = integer(queries, "queries", minimum=1)
    return Laplace.for_error(
        positive(alpha, "alpha"),
        confidence=1 - fraction_between(beta, "beta"),
        sensitivity=count if sensitivity is None else sensitivity,
        step=step,
        count=count,
    )


def largest_error(queries: Iterable[Callable[[Any], Any]], data: Any, synthetic: Any) -> float:
    """Return max |f(data) - f(synthetic)| over the queries: the α of a synthetic data set. Private: for the owner.

    >>> largest_error([len, sum], [1, 2, 3], [1, 2, 4])
    1.0
    """
    return max((abs(float(query(data)) - float(query(synthetic))) for query in queries), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The errors of repeated runs of an analysis, and a bound of their failure probability.

    >>> measure(lambda: 10.0, truth=10, alpha=1, runs=50).runs
    50
    """

    alpha: float
    runs: int
    failures: int
    beta: float
    """The chance of an error above α is at most this, with the confidence asked for."""
    errors: tuple[float, ...]

    @property
    def mean_error(self) -> float:
        """The mean of all errors."""
        return sum(self.errors) / len(self.errors)


def measure(
    analysis: Callable[[], Any], *, truth: float, alpha: Number, runs: int = 200, confidence: Number = Fraction(99, 100)
) -> Measured:
    """Run an analysis again and again and bound the chance that it is off by more than α.

    >>> measure(lambda: 10.0, truth=10, alpha=1, runs=50).failures
    0
    """
    repetitions = integer(runs, "runs", minimum=1)
    limit = float(nonnegative(alpha, "alpha"))
    errors = tuple(abs(float(analysis()) - truth) for _ in range(repetitions))
    failures = sum(error > limit for error in errors)
    beta = upper_bound(failures, repetitions, miss=1 - fraction_between(confidence, "confidence"))
    return Measured(alpha=limit, runs=repetitions, failures=failures, beta=beta, errors=errors)


_BISECTIONS = 14


def _at_least(successes: int, tosses: int, p: Fraction) -> Ball:
    """Return P[Bin(n, p) ≥ s] as a ball, for 1 ≤ s ≤ n."""
    with precision(128):
        x = flint().arb(p.numerator) / p.denominator  # P[Bin(n, p) ≥ s] = I_p(s, n-s+1), the incomplete beta function
        return flint().arb(x).beta_lower(flint().arb(successes), flint().arb(tosses - successes + 1), 1)


def lower_bound(successes: int, tosses: int, *, miss: Number) -> float:
    """Return p₀: the true probability is at least p₀, with confidence 1 - miss."""
    s, n, beta = _read(successes, tosses, miss)
    if s == 0:
        return 0.0
    # A bracket from the normal approximation; its lower end counts only if it is certified.
    share = s / n
    width = 3 * math.sqrt(share * (1 - share) * -2 * math.log(float(beta)) / n) + 10 * -math.log(float(beta)) / n
    low, high = Fraction(max(share - width, 0.0)), Fraction(s, n)
    if low and not _at_least(s, n, low) < _ball(beta):
        low = Fraction(0)
    for _ in range(_BISECTIONS):
        middle = Fraction(float((low + high) / 2))
        # The lower end moves only where the tail is certainly below β.
        low, high = (middle, high) if _at_least(s, n, middle) < _ball(beta) else (low, middle)
    return float(low)


def upper_bound(successes: int, tosses: int, *, miss: Number) -> float:
    """Return p₁: the true probability is at most p₁, with confidence 1 - miss."""
    s, n, _ = _read(successes, tosses, miss)
    # Failures are the successes of 1 - p; one float up covers the rounding of the difference.
    return min(1.0, math.nextafter(1.0 - lower_bound(n - s, n, miss=miss), 2.0))


def _ball(value: Fraction) -> Ball:
    return flint().arb(value.numerator) / value.denominator


def _read(successes: int, tosses: int, miss: Number) -> tuple[int, int, Fraction]:
    n = integer(tosses, "tosses", minimum=1)
    return integer(successes, "successes", minimum=0, maximum=n), n, fraction_between(miss, "miss")


_SHARES_IN_ALL = 10**9


@dataclass(frozen=True, slots=True, init=False)
class Question:
    """One question of a plan: its sensitivity and the public guess of its answer's size."""

    sensitivity: Fraction
    size: Fraction

    def __init__(self, *, sensitivity: Number, size: Number = 1) -> None:
        assign(self, sensitivity=positive(sensitivity, "sensitivity"), size=positive(size, "size"))


def split(questions: Sequence[Question], *, epsilon: Number, objective: str = "total") -> list[Fraction]:
    """Return an ε for every question, adding up to ``epsilon``, of least total or maximum relative error."""
    budget = positive(epsilon, "epsilon")
    if objective not in {"total", "maximum"}:
        raise InvalidValueError("objective", got=objective, allowed="'total' or 'maximum'")
    questions = members(questions, "questions", allowed="a list of hush.utility.Question", of=Question)
    if not questions:
        raise InvalidValueError("questions", got=questions, allowed="a non-empty list of questions")
    largest = max(question.sensitivity / question.size for question in questions)
    relative = [float(question.sensitivity / question.size / largest) for question in questions]
    wishes = [math.sqrt(w) if objective == "total" else w for w in relative]
    shares = [
        max(Fraction(int(_SHARES_IN_ALL * wish / math.fsum(wishes)), _SHARES_IN_ALL), Fraction(1, _SHARES_IN_ALL))
        for wish in wishes
    ]
    # Each share was rounded down, or raised to the smallest one; the largest takes the difference, so they add up to 1.
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
    # k coordinates: Laplace has the variance 2k²/ε², Gauss k·σ₁². The former is larger for k > (σ₁ε)²/2.
    return int((sigma * positive(epsilon, "epsilon")) ** 2 / 2) + 1
