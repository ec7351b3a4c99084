r"""One run for costly pipelines: many canaries, a coin for each, and the number of right guesses.

Of m canaries each is included by a fair coin. The pipeline runs once, and a score for each canary says how likely it
was included. Three theorems turn the number of right guesses into a bound.

**(ε, δ), any mechanism.** The number of right guesses among r exceeds Binomial(r, e^ε/(1 + e^ε)) hardly: T. Steinke,
M. Nasr, M. Jagielski, *Privacy auditing with one (1) training run*, NeurIPS 2023, theorem 5.2. It is loose for δ > 0.

**Trade-off curves.** Let C be the number of right guesses of all m, r_k = P[C ≥ k and a random guess is right] and
h_k = P[C ≥ k and it is wrong]. Fix all coins but one. "C ≥ k without this canary, and the guess is b" is an event of
the output, so under a trade-off curve a probability r for coin b means at least g(r) for the other. g is convex, so
averaging over canaries and coins gives h_k ≥ g(r_{k+1}). With r_k − r_{k+1} = (k/m)·P[C=k] and
h_k − h_{k+1} = ((m−k)/m)·P[C=k] a tail P[C ≥ c] = τ forces mass below c, step by step; if it adds up to more than 1
then P[C ≥ c] < τ (S. Mahloujifar, L. Melis, K. Chaudhuri, *Auditing f-differential privacy in one run*, ICML 2025).
For μ-GDP g(r) = Φ(Φ⁻¹(r) − μ); for a claimed profile g(r) = max over its points of (r − δ)/e^ε and
1 − δ − e^ε·(1 − r). It holds for every mechanism with that curve, also for one that now and then reveals all canaries
at once, and is therefore loose.

**Canaries that do not share noise.** Where scores are independent given the coins (a sum, a histogram or a gradient in
which each canary has a coordinate of its own) a guess is right with probability at most (1 + TV)/2 by Neyman and
Pearson, so that C is at most Binomial(m, (1 + TV)/2). TV is Φ(μ/2) − Φ(−μ/2) for μ-GDP, and at most
(e^ε − 1 + 2δ)/(e^ε + 1) for a point of a claim. With ``independent=True`` this counts; it is a fact about how the
canaries were made, and nothing in the run can show it.

>>> import hush, numpy as np
>>> noise = hush.Laplace(sensitivity=1, epsilon=4)
>>> report = one_run(lambda coins: noise.release(np.array(coins, dtype=int)), epsilon="1", canaries=400)
>>> isinstance(report, OneRun), report.violation, report.epsilon > 2
(True, True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from hush.accounting import GaussianEvent, Guarantee, compose
from hush.audit.black_box import claim_words, claimed_points
from hush.core import InvalidValueError, Number, fraction_between, integer
from hush.core.format import ToldInLines, figure
from hush.noise import uniform_integer
from hush.utility import lower_bound

_SHARES = (1, 2, 4, 10)
"""All canaries are guessed, or the surest half, quarter or tenth; each guess has its part of the level."""
_SMALLEST_DELTA = "1e-5"
"""The δ at which μ is told as an ε where the claim has none."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OneRun(ToldInLines):
    """The bounds that one run proves."""

    canaries: int
    right: int
    """Right guesses of all canaries."""
    points: tuple[tuple[float, float], ...]
    level: float
    violation: bool
    epsilon: float
    """A lower bound of ε at the claim's δ, for any mechanism."""
    mu: float
    """A lower bound of μ, for any μ-GDP mechanism or for one with independent canaries."""
    gaussian_epsilon: float
    """The ε of that μ at ``delta``."""
    delta: str
    independent: bool

    def lines(self) -> list[str]:
        """Return the report in lines."""
        verdict = "is not as private as claimed" if self.violation else "no violation found"
        confidence = figure(100 * (1 - self.level), digits=8)
        return [
            f"one run: {verdict}; claimed {claim_words(self.points)}",
            f"  {self.right} of {self.canaries} canaries guessed right, confidence {confidence} %",
            f"  ε ≥ {figure(self.epsilon, digits=3)}, for any mechanism",
            f"  μ ≥ {figure(self.mu, digits=3)} if it is Gaussian{', canaries independent' * self.independent}",
            f"    that is ε ≥ {figure(self.gaussian_epsilon, digits=3)} at δ = {self.delta}",
        ]

    def told(self) -> str:
        """Return the report in one line, for tables."""
        return f"ε ≥ {figure(self.epsilon, digits=3)}"

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        names = ("canaries", "right", "violation", "epsilon", "mu", "gaussian_epsilon", "delta")
        return {name: getattr(self, name) for name in names} | {"confidence": 1 - self.level}


def one_run(
    train: Callable[[list[bool]], Sequence[float]],
    *,
    canaries: int = 1000,
    epsilon: Number | None = None,
    delta: Number = 0,
    guarantee: Guarantee | None = None,
    independent: bool = False,
    level: Number = "0.05",
) -> OneRun:
    """Run a pipeline once with random canaries; ``train`` takes their coins and returns a score for each.

    >>> one_run(lambda coins: [0] * len(coins), epsilon="1", canaries=100).violation
    False
    """
    m, alpha = integer(canaries, "canaries", minimum=10), float(fraction_between(level, "level"))
    points = claimed_points(epsilon, delta, guarantee)
    coins = np.asarray(uniform_integer(2, m)).astype(bool)
    scores = np.asarray(train(coins.tolist()), dtype=np.float64)
    if scores.shape != (m,):
        raise InvalidValueError("train", got=f"scores of shape {scores.shape}", allowed=f"{m} scores, one per canary")
    # Ranks: the upper half is guessed to be in, the lower out; the surest guesses are at both ends. Ties at random.
    order = np.lexsort((np.asarray(uniform_integer(2**60, m)), np.nan_to_num(scores)))
    guesses = np.zeros(m, dtype=bool)
    guesses[order[m // 2 :]] = True
    hits = (guesses == coins)[order]
    right = int(hits.sum())
    loss = 0.0
    for share in _SHARES:  # half of the level is theirs, the other half is the trade-off curve's
        surest = max(m // share // 2, 1)
        guessed = int(hits[:surest].sum() + hits[-surest:].sum())
        loss = max(loss, _epsilon_bound(m, 2 * surest, guessed, points[0][1], alpha / 2 / len(_SHARES)))
    normal = NormalDist()
    if independent:
        often = lower_bound(right, m, miss=alpha / 2)
        # (1 + TV)/2 = Φ(μ/2) for μ-GDP, solved for μ at the lower bound of the share of right guesses.
        mu = max(0.0, 2 * normal.inv_cdf(often)) if 0 < often < 1 else 0.0
        refuted = often > (1 + min((math.expm1(e) + 2 * d) / (math.exp(e) + 1) for e, d in points)) / 2
    else:

        def gaussian(mu: float) -> Callable[[float], float]:
            return lambda r: normal.cdf(normal.inv_cdf(r) - mu) if 0 < r < 1 else float(r >= 1)

        def claimed(r: float) -> float:
            return max(0.0, *(max((r - d) / math.exp(e), 1 - d - math.exp(e) * (1 - r)) for e, d in points))

        mu = _largest(lambda mu: curve_refuted(m, right, gaussian(mu), alpha / 2), 20.0)
        refuted = curve_refuted(m, right, claimed, alpha / 2)
    told = str(delta) if guarantee is None and float(points[0][1]) > 0 else _SMALLEST_DELTA
    return OneRun(
        canaries=m, right=right, points=tuple(points), level=alpha, epsilon=loss, mu=mu,
        violation=loss > points[0][0] or refuted, independent=independent,
        gaussian_epsilon=compose([GaussianEvent(sigma=1 / mu)]).epsilon(told).lower if mu > 0 else 0.0, delta=told,
    )  # fmt: skip


def curve_refuted(m: int, right: int, least: Callable[[float], float], level: float) -> bool:
    """Return whether ``right`` right guesses of m have a probability below ``level`` under a trade-off curve.

    >>> curve_refuted(100, 75, lambda r: r, 0.05), curve_refuted(100, 55, lambda r: r, 0.05)
    (True, False)
    """
    r, h = level * right / m, level * (m - right) / m
    for k in range(right - 1, -1, -1):
        more = max(h, least(r))
        # r_k - r_{k+1} = (k/m)·P[C=k], and h_k - h_{k+1} = ((m-k)/m)·P[C=k]: one step forces the other.
        r += k / (m - k) * (more - h)
        h = more
        if r + h > 1:
            return True
    return False


def _epsilon_bound(m: int, r: int, v: int, delta: float, level: float) -> float:
    """Return the largest ε that v right guesses of r refute (Steinke, Nasr & Jagielski, theorem 5.2)."""
    logs = np.array([math.lgamma(r + 1) - math.lgamma(k + 1) - math.lgamma(r - k + 1) for k in range(r + 1)])
    counts = np.arange(r + 1)

    def refuted(epsilon: float) -> bool:
        q = 1 / (1 + math.exp(-epsilon))
        mass = np.exp(logs + counts * math.log(q) + (r - counts) * math.log1p(-q))
        # The term with δ: 2mδ times the largest mean probability of the i counts just below v, over all i.
        below = np.cumsum(mass[:v][::-1]) / np.arange(1, v + 1) if v else np.zeros(1)
        return float(mass[v:].sum() + 2 * m * delta * below.max()) < level

    return _largest(refuted, 30.0)


def _largest(refuted: Callable[[float], bool], top: float) -> float:
    """Return the largest parameter that is refuted, 0 if none."""
    low, high = 0.0, top
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    # The lower end of the bracket: every lower end was refuted.
    return low
