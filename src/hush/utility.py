r"""The quality of answers, (α, β) both ways, and the meaning of ε and δ.

**(α, β)-usefulness** (THEORY item 19): with probability above 1-β no answer is off by more than α.

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

>>> lower_bound(0, 100, miss=0.05), 0.0294 < upper_bound(0, 100, miss=0.05) < 0.0296           # 1 - 0.05^(1/100)
(0.0, True)

Both directions: `alpha_at` and `beta_at` from a mechanism, `laplace_for` from a wanted (α, β).

>>> needed = laplace_for(alpha=10, beta=0.05, queries=20)
>>> alpha_at(needed, beta=0.05, queries=20) <= 10, useful(needed, alpha=10, beta=0.05, queries=20)
(True, True)

**Splitting ε.** A question of sensitivity Δ whose answer is of size s has a relative error of w/ε_i with w = Δ/s, up
to a constant. Under Σε_i = ε the *total* Σw_i/ε_i is least for ε_i ∝ √w_i (Cauchy and Schwarz), the *maximum* for ε_i
∝ w_i, which makes all equal. Shares are rounded down to whole parts in 10⁹ and the last takes the rest, so that they
add up to ε exactly.

>>> [round(float(e), 6) for e in split([Question(sensitivity=1), Question(sensitivity=4)], epsilon=3)]
[1.0, 2.0]
>>> both = [Question(sensitivity=1), Question(sensitivity=3)]
>>> [round(float(e), 6) for e in split(both, epsilon=1, objective="maximum")]
[0.25, 0.75]
>>> crossover(epsilon=1, delta="1e-6")
9

**In plain words.** Whatever is released, the odds of a suspicion about one person change by a factor of at most e^ε: a
suspicion of p becomes at most e^ε·p/(1 - p + e^ε·p). A mechanism that publishes each row outright with probability δ is
(0, δ)-DP. Among n people it exposes somebody with probability 1-(1-δ)ⁿ, so δ must be far below 1/n.

>>> round(posterior(1, prior="0.01"), 4)
0.0267

**The definition** (docs/theory.md, 1 and 3), for laws that can be written down: small examples, tests, teaching. For
mechanisms there are events and `hush.accounting`, which certify their figures.

>>> from hush.mechanisms import RandomizedResponse
>>> coin = RandomizedResponse.with_truth("0.5")
>>> yes, no = coin.probabilities(1), coin.probabilities(0)
>>> privacy_loss(yes, no).round(4).tolist()
[-1.0986, 1.0986]
>>> round(hockey_stick(yes, no, 0), 4), round(hockey_stick(yes, no, 1), 4), is_private(yes, no, epsilon=1.0987)
(0.5, 0.0704, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting import theorems
from hush.core import InvalidValueError, Number, exact, fraction_between, integer, nonnegative, positive, probability
from hush.core.errors import members
from hush.core.numbers import assign
from hush.core.rounding import ball, certified, precision, smallest_decimal, up
from hush.mechanisms.base import Additive, choose
from hush.mechanisms.estimators.base import propose_delta
from hush.mechanisms.estimators.numeric import vector_noise as vector_noise  # noqa: PLC0414 - offered here too
from hush.mechanisms.laplace import Laplace


def posterior(epsilon: Number, *, prior: Number = Fraction(1, 2)) -> float:
    """Return the largest probability that a suspicion of ``prior`` can become, rounded up."""
    p, exact_epsilon = fraction_between(prior, "prior"), nonnegative(epsilon, "epsilon")
    return min(1.0, up(certified(lambda: 1 / (1 + ball((1 - p) / p) * (-ball(exact_epsilon)).exp()))))


def exposure(delta: Number, size: int) -> float:
    """Return 1-(1-δ)ⁿ, rounded up: the chance that name-and-shame exposes somebody.

    >>> round(exposure("1e-6", 1000), 6)
    0.001
    """
    slip, n = probability(delta, "delta"), integer(size, "size", minimum=1)
    if slip in {0, 1}:
        return float(slip)
    return up(certified(lambda: -((1 - ball(slip)).log() * n).expm1()))


def plain(epsilon: Number, *, delta: Number = 0, size: int | None = None, prior: Number = Fraction(1, 2)) -> str:
    """Return the meaning of ε, and of δ among ``size`` people, for one person in plain words.

    >>> import hush
    >>> print(hush.plain(1))
    With ε = 1, a suspicion of 50 in 100 about one person becomes at most 74 in 100
    and at least 26 in 100, whatever is published.
    """
    exact_epsilon, slip = nonnegative(epsilon, "epsilon"), probability(delta, "delta")
    p = fraction_between(prior, "prior")
    if exact_epsilon > 10**300:
        raise InvalidValueError("epsilon", got=epsilon, allowed="at most 1e300")
    highest, lowest = posterior(exact_epsilon, prior=p), 1 - posterior(exact_epsilon, prior=1 - p)
    text = (
        f"With ε = {float(exact_epsilon):g}, a suspicion of {_share(float(p))} about one person becomes at most "
        f"{_share(highest)}\nand at least {_share(lowest, down=True)}, whatever is published."
    )
    if not slip:
        return text
    if size is None:
        return (
            f"{text}\nWith δ = {float(slip):g} this may fail with a chance of {float(slip):g}. "
            "δ should be far below one in the number of people; 1e-6 where that is private."
        )
    n = integer(size, "size", minimum=1)
    text += (
        f"\nWith δ = {float(slip):g} this may fail: at worst somebody among {n} people is exposed with a "
        f"chance of {_share(exposure(slip, n))}."
    )
    if slip * n >= 1:
        text += f"\nδ should be below 1/{n}; {float(propose_delta(max(n, 2))):g} is a good choice."
    return text


def _share(p: float, *, down: bool = False) -> str:
    """Return "x in 100", rounded up (or down); "x in 1000" and so on for a share that is nearly 0 or 1."""
    parts = 100
    while True:
        x = math.floor(p * parts + 1e-9) if down else math.ceil(p * parts - 1e-9)
        if 0 < x < parts or parts >= 10**9 or p in {0.0, 1.0}:
            return f"{x} in {parts}"
        parts *= 10


def hockey_stick(p: Any, q: Any, epsilon: Number) -> float:
    """Return Σ (p - e^ε·q)₊: the smallest δ with P(S) ≤ e^ε·Q(S) + δ for every set S."""
    first, second = _laws(p, q)
    exponent = float(nonnegative(epsilon, "epsilon"))
    with np.errstate(over="ignore", invalid="ignore"):
        # e^ε may overflow to infinity; times q = 0 it counts as 0, as in the definition.
        grown = np.where(second > 0, np.exp(exponent) * second, 0.0)
    return math.fsum(np.maximum(first - grown, 0.0))


def privacy_loss(p: Any, q: Any) -> npt.NDArray[np.float64]:
    """Return ln(p/q) of every outcome: infinite where only P is possible, minus infinity where only Q is."""
    first, second = _laws(p, q)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(first) - np.log(second)
    return np.where((first == 0) & (second == 0), 0.0, losses)


def is_private(p: Any, q: Any, *, epsilon: Number, delta: Number = 0) -> bool:
    """Say whether two laws are (ε, δ)-indistinguishable, up to the rounding of their sums (10⁻¹²)."""
    slip = float(probability(delta, "delta")) + 1e-12
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= slip


def _laws(p: Any, q: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    laws = []
    for law, name in ((p, "p"), (q, "q")):
        try:
            array = np.asarray(law, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            array = np.full(1, np.nan)
        if array.ndim != 1 or not np.all(array >= 0) or not abs(float(array.sum()) - 1) <= 1e-6:
            raise InvalidValueError(name, got=law, allowed="probabilities of finitely many outcomes, adding up to 1")
        laws.append(array)
    if len(laws[0]) != len(laws[1]):
        raise InvalidValueError("q", got=f"{len(laws[1])} outcomes", allowed=f"of as many outcomes, {len(laws[0])}")
    return laws[0], laws[1]


def alpha_at(mechanism: Additive, *, beta: Number, queries: int = 1) -> float:
    """Return the α with which ``queries`` answers of this mechanism are (α, β)-useful."""
    return mechanism.error(1 - fraction_between(beta, "beta"), count=queries)


def useful(mechanism: Additive, *, alpha: Number, beta: Number, queries: int = 1) -> bool:
    """Say whether the answers to a set of queries are (α, β)-useful."""
    return exact(alpha_at(mechanism, beta=beta, queries=queries), "alpha") <= nonnegative(alpha, "alpha")


def beta_at(mechanism: Additive, *, alpha: Number, queries: int = 1) -> float:
    """Return the smallest β, to 9 digits, at which the answers are (α, β)-useful; 1 if there is none.

    >>> import hush
    >>> round(beta_at(hush.Laplace(sensitivity=1, epsilon="0.1"), alpha=30), 2)
    0.05
    """

    def enough(beta: Fraction) -> bool:
        return beta >= 1 or useful(mechanism, alpha=alpha, beta=beta, queries=queries)

    return min(float(smallest_decimal(enough, digits=9)), 1.0)


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

    >>> Measured(alpha=1.0, runs=2, failures=0, beta=0.9, errors=(0.5, 0.25)).mean_error
    0.375
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


def _below(successes: int, tosses: int, p: Fraction, limit: Fraction) -> bool:
    """Return whether certainly P[Bin(n, p) ≥ s] = I_p(s, n-s+1) is below the limit, for 1 ≤ s ≤ n."""
    with precision(128):
        tail = ball(p).beta_lower(ball(successes), ball(tosses - successes + 1), 1)
        return bool(tail < ball(limit))


def lower_bound(successes: int, tosses: int, *, miss: Number) -> float:
    """Return p₀: the true probability is at least p₀, with confidence 1 - miss."""
    n = integer(tosses, "tosses", minimum=1)
    s, beta = integer(successes, "successes", minimum=0, maximum=n), fraction_between(miss, "miss")
    if s == 0:
        return 0.0
    # A bracket from the normal approximation; its lower end counts only if it is certified.
    share = s / n
    width = 3 * math.sqrt(share * (1 - share) * -2 * math.log(float(beta)) / n) + 10 * -math.log(float(beta)) / n
    low, high = Fraction(max(share - width, 0.0)), Fraction(s, n)
    if low and not _below(s, n, low, beta):
        low = Fraction(0)
    for _ in range(_BISECTIONS):
        middle = Fraction(float((low + high) / 2))
        # The lower end moves only where the tail is certainly below β.
        low, high = (middle, high) if _below(s, n, middle, beta) else (low, middle)
    return float(low)


def upper_bound(successes: int, tosses: int, *, miss: Number) -> float:
    """Return p₁: the true probability is at most p₁, with confidence 1 - miss."""
    n = integer(tosses, "tosses", minimum=1)
    failures = n - integer(successes, "successes", minimum=0, maximum=n)
    # Failures are the successes of 1 - p; one float up covers the rounding of the difference.
    return min(1.0, math.nextafter(1.0 - lower_bound(failures, n, miss=miss), 2.0))


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
    choose(objective, ("total", "maximum"), "objective")
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
