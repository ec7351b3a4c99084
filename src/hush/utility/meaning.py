r"""The meaning of ε and δ: in plain words, and by the definition itself on laws of finitely many outcomes.

**ε as odds.** Whatever is released, the odds of a suspicion about one person change by a factor of at most e^ε: a
suspicion of p becomes at most e^ε·p/(1 - p + e^ε·p). At ε = 1 that takes 1 in 2 to 74 in 100 at most, and 1 in 100 to
3 in 100.

**δ as an accident.** A mechanism that publishes each row outright with probability δ is (0, δ)-DP. Among n people it
exposes somebody with probability 1-(1-δ)ⁿ, so δ must be far below 1/n.

>>> print(plain(1))
With ε = 1, a suspicion of 50 in 100 about one person becomes at most 74 in 100
and at least 26 in 100, whatever is published.
>>> print(plain(0.1, delta="1e-3", size=1000))
With ε = 0.1, a suspicion of 50 in 100 about one person becomes at most 53 in 100
and at least 47 in 100, whatever is published.
With δ = 0.001 this may fail: at worst somebody among 1000 people is exposed with a chance of 64 in 100.
δ should be below 1/1000; 0.0005 is a good choice.
>>> round(posterior(1, prior="0.01"), 4)
0.0267

**The definition** (THEORY items 1 and 3). M is (ε, δ)-DP if for neighbours P[M(D) ∈ S] ≤ e^ε·P[M(D') ∈ S] + δ for
every set S. The worst S holds the outcomes with p > e^ε·q, so that is the same as a *hockey-stick divergence* of at
most δ, in both directions:

    E_{e^ε}(P‖Q) = Σ (p - e^ε·q)₊.

The *privacy loss* of an outcome is Z = ln(p/q). With Y drawn from P the exact δ(ε) is E[(1 - e^{ε-Z})₊], which is the
same sum; P(|Z| ≤ ε) ≥ 1-δ is sufficient for (ε, δ)-DP, not necessary. This is for laws that can be written down: small
examples, tests, teaching. For mechanisms there are events and `hush.accounting`, which certify their figures.

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
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, fraction_between, integer, nonnegative, probability
from hush.core.balls import ball, fraction_up
from hush.core.rounding import certified, float_up
from hush.mechanisms.estimators.base import propose_delta


def posterior(epsilon: Number, *, prior: Number = Fraction(1, 2)) -> float:
    """Return the largest probability that a suspicion of ``prior`` can become, rounded up."""
    p, exact_epsilon = fraction_between(prior, "prior"), nonnegative(epsilon, "epsilon")
    return min(
        1.0, float_up(fraction_up(certified(lambda: 1 / (1 + ball((1 - p) / p) * (-ball(exact_epsilon)).exp()))))
    )


def exposure(delta: Number, size: int) -> float:
    """Return 1-(1-δ)ⁿ, rounded up: the chance that name-and-shame exposes somebody.

    >>> round(exposure("1e-6", 1000), 6)
    0.001
    """
    slip, n = probability(delta, "delta"), integer(size, "size", minimum=1)
    if slip in {0, 1}:
        return float(slip)
    return float_up(fraction_up(certified(lambda: -((1 - ball(slip)).log() * n).expm1())))


def plain(epsilon: Number, *, delta: Number = 0, size: int | None = None, prior: Number = Fraction(1, 2)) -> str:
    """Return the meaning of ε, and of δ among ``size`` people, for one person in plain words.

    >>> import hush
    >>> print(hush.plain(1))
    With ε = 1, a suspicion of 50 in 100 about one person becomes at most 74 in 100
    and at least 26 in 100, whatever is published.
    """
    exact_epsilon, slip, p = (
        nonnegative(epsilon, "epsilon"),
        probability(delta, "delta"),
        fraction_between(prior, "prior"),
    )
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
