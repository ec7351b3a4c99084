"""Randomized response: the truth often enough to be useful, a lie often enough to be deniable.

**The law.** The true category with probability p = e^ε/(e^ε + k-1), each other with q = 1/(e^ε + k-1): their ratio is
e^ε, so the answer is ε-DP for the person who gives it, whoever collects it. Warner's survey (1965) is k = 2 in other
words: the truth with probability t, else a fair coin. For k categories, with a uniform category instead of the coin,

    ε = ln(1 + k·t/(1-t))        (k = 2: ln(1 + 2t/(1-t)), THEORY item 11).

**Exactness.** p is irrational for a rational ε: the coin is Bernoulli(e^{-x}) with x = ln(1 + (k-1)e^{-ε}), decided
in ball arithmetic. With a rational t (``with_truth``) the coin is that t, and ε is the logarithm, rounded up.

**Total.** An answer that is none of the categories is reported as a uniformly random one, which is as private as any.

>>> coin = RandomizedResponse.with_truth("1/2")
>>> round(float(coin.epsilon), 4)                        # ln 3
1.0986
>>> RandomizedResponse(epsilon=10**4, categories=["no", "yes"]).release("yes")
'yes'
>>> RandomizedResponse(epsilon=2, categories=4).probabilities(0).round(4).tolist()
[0.7112, 0.0963, 0.0963, 0.0963]
>>> RandomizedResponse.for_error("0.05", count=10_000).error(count=10_000) <= 0.05
True

**Estimating frequencies.** All local oracles share this. In a local protocol every person reports through a mechanism
of their own. For each category v a report either *supports* v or not: with probability p if the person's answer is v,
with probability q if it is not. So with N_v supports among n

    f̂_v = (N_v/n - q)/(p - q),      Var f̂_v = [f p(1-p) + (1-f) q(1-q)] / n(p-q)²,

is unbiased (Wang, Blocki, Li, Jha 2017). N_v is a sum of n independent coins of variance at most σ² = max(p(1-p),
q(1-q)), so Bernstein's inequality P(|N/n - E| ≥ t) ≤ 2·exp(-nt²/(2σ² + 2t/3)) gives a half-width that holds for every
n, and Hoeffding's √(ln(2/β)/2n) another; the smaller is reported. Both fall as ε grows, but not to 0: they
bound the coins, not the truth.

>>> round(support_variance(0.75, 0.25, count=100), 4)
0.0075
>>> support_error(0.75, 0.25, count=10**4, confidence=0.95) < 0.03
True
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import RandomizedResponseEvent
from hush.core import InvalidValueError, Number, fraction_between, integer
from hush.core.balls import ball, fraction_up
from hush.core.columns import any_array, is_scalar
from hush.core.rounding import certified, short_up
from hush.core.values import dataclass
from hush.mechanisms.base import Setter, confidence_level, least, ordinary


class FrequencyOracle(Setter):
    """What reports of people have in common: each supports the true category with probability p, each other with q.

    A subclass says how a report is drawn (``release``), how many reports support each category (``estimate``), and p
    and q (``support``). Variance and error follow from these.
    """

    __slots__ = ()

    epsilon: Fraction
    categories: tuple[Any, ...]

    def __init__(self, *, epsilon: Number, categories: Any) -> None:
        self._set(epsilon=ordinary(epsilon, "epsilon"), categories=read_categories(categories))

    @classmethod
    def for_error(
        cls, error: Number, *, confidence: Number = Fraction(19, 20), count: int, categories: Any = 2, at_once: int = 1
    ) -> Self:
        """Return the oracle with the smallest ε, to 12 digits, whose `error` is at most this.

        ``at_once`` is of how many frequencies the half-width shall hold at once.
        """
        names = read_categories(categories)

        def half_width(oracle: FrequencyOracle) -> float:
            return oracle.error(confidence, count=count, categories=at_once)

        floor = Fraction(half_width(cls(epsilon=_CERTAIN, categories=names)))
        why = "what so few reports allow even without noise: ask more people"
        return least(lambda epsilon: cls(epsilon=epsilon, categories=names), half_width, error, floor=floor, why=why)

    @property
    def support(self) -> tuple[float, float]:
        """The probabilities p that a report supports the true category, and q that it supports each other."""
        raise NotImplementedError

    def variance(self, *, count: int, frequency: float = 0.0) -> float:
        """Return the variance of an estimated frequency from ``count`` reports."""
        return support_variance(*self.support, count=count, frequency=frequency)

    @property
    def bias(self) -> float:
        """Zero: the estimate is unbiased (by local hashing, up to the hash family's 10⁻⁵)."""
        return 0.0

    def error(self, confidence: Number = Fraction(19, 20), *, count: int, categories: int = 1) -> float:
        """Return a half-width of estimated frequencies that holds with at least this probability."""
        return support_error(*self.support, count=count, confidence=confidence, categories=categories)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RandomizedResponse(FrequencyOracle):
    """One category among k, reported privately; and the frequencies behind many reports.

    ``categories`` is a number k (the answers are 0 … k-1) or a list of names.

    >>> import hush
    >>> hush.RandomizedResponse(epsilon=10**4, categories=["no", "yes"]).release("yes")
    'yes'
    """

    epsilon: Fraction
    categories: tuple[Any, ...]
    truth: Fraction | None

    def __init__(self, *, epsilon: Number, categories: Any = 2) -> None:
        self._set(epsilon=ordinary(epsilon, "epsilon"), categories=read_categories(categories), truth=None)

    @classmethod
    def with_truth(cls, truth: Number, *, categories: Any = 2) -> RandomizedResponse:
        """Return the mechanism that tells the truth with this probability, else a uniformly random category."""
        share, names = fraction_between(truth, "truth"), read_categories(categories)
        odds = 1 + len(names) * share / (1 - share)
        made = cls(epsilon=short_up(fraction_up(certified(lambda: ball(odds).log()))), categories=names)
        made._set(truth=share)
        return made

    @classmethod
    def with_noise(cls, noise: Number, *, categories: Any = 2) -> RandomizedResponse:
        """Return the mechanism that answers a uniformly random category with this probability, else the truth."""
        return cls.with_truth(1 - fraction_between(noise, "noise"), categories=categories)

    @property
    def support(self) -> tuple[float, float]:
        """The probabilities p of the true category and q of each other, as floats."""
        k = len(self.categories)
        if self.truth is not None:
            return float(self.truth + (1 - self.truth) / k), float((1 - self.truth) / k)
        odds = shares(self.epsilon)
        return (1.0, 0.0) if odds == float("inf") else (odds / (odds + k - 1), 1 / (odds + k - 1))

    @property
    def event(self) -> RandomizedResponseEvent:
        """One response among k."""
        return RandomizedResponseEvent(epsilon=self.epsilon, choices=len(self.categories))

    def release(self, answer: Any) -> Any:
        """Return one report, or an array of independent reports for a column of answers."""
        if is_scalar(answer):
            return self.categories[int(self._report(codes([answer], self.categories))[0])]
        reports = self._report(codes(answer, self.categories))
        return np.array([self.categories[code] for code in reports.tolist()])

    def _report(self, true: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        k, count = len(self.categories), len(true)
        if self.truth is not None:
            # With a uniform category instead of the coin; it may be the true one.
            honest, other = noise.bernoulli(self.truth, count), noise.uniform_integer(k, count)
        else:
            epsilon = self.epsilon
            honest = noise.bernoulli_exp(lambda _bits: ((k - 1) * (-ball(epsilon)).exp() + 1).log(), count)
            # One of the k-1 others, each equally likely.
            other = (true + 1 + noise.uniform_integer(k - 1, count)) % k
        reports = np.where(honest, true, other)
        unknown = true < 0
        return np.where(unknown, noise.uniform_integer(k, count), reports)

    def probabilities(self, answer: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each report for this true answer."""
        k, code = len(self.categories), int(codes([answer], self.categories)[0])
        if code < 0:
            return np.full(k, 1 / k)
        p, q = self.support
        row = np.full(k, q)
        row[code] = p
        return row

    def estimate(self, reports: Any) -> npt.NDArray[np.float64]:
        """Return the unbiased estimate of every category's frequency among the true answers."""
        reported = codes(reports, self.categories)
        supports = np.bincount(reported[reported >= 0], minlength=len(self.categories))
        p, q = self.support
        return unbiased(supports, len(reported), p, q)


_CERTAIN = 1000  # an ε at which every report is the truth, to the last bit of a float


def unbiased(supports: npt.NDArray[np.int64], count: int, p: float, q: float) -> npt.NDArray[np.float64]:
    """Return f̂ for every category; nan-free: without reports every frequency is estimated as 0."""
    if count == 0:
        return np.zeros(len(supports))
    return np.asarray((supports / count - q) / (p - q), dtype=np.float64)


def support_variance(p: float, q: float, *, count: int, frequency: float = 0.0) -> float:
    """Return Var f̂ for a category of this true frequency among ``count`` reports."""
    reports = integer(count, "count", minimum=1)
    return (frequency * p * (1 - p) + (1 - frequency) * q * (1 - q)) / (reports * (p - q) ** 2)


def support_error(p: float, q: float, *, count: int, confidence: Number, categories: int = 1) -> float:
    """Return a half-width that holds for f̂ of ``categories`` categories at once with at least this probability."""
    miss = float((1 - confidence_level(confidence)) / integer(categories, "categories", minimum=1))
    reports = integer(count, "count", minimum=1)
    spread, log = max(p * (1 - p), q * (1 - q)), math.log(2 / miss)
    # n t² - (2/3) log·t - 2 σ² log = 0
    bernstein = (log / 3 + math.sqrt(log * log / 9 + 2 * reports * spread * log)) / reports
    return min(bernstein, math.sqrt(log / (2 * reports))) / (p - q) * (1 + 1e-12)


def codes(answers: object, categories: tuple[object, ...]) -> npt.NDArray[np.int64]:
    """Return each answer's position among the categories, -1 for an answer that is none of them; total."""
    position = {category: code for code, category in enumerate(categories)}
    flat = any_array(answers, "answers").ravel().tolist() if not isinstance(answers, (list, tuple)) else list(answers)

    def find(answer: object) -> int:
        try:
            return position.get(answer, -1)
        except Exception:  # noqa: BLE001 - any object may be an answer; whether this fails must depend on none
            return -1

    return np.array([find(answer) for answer in flat], dtype=np.int64)


def read_categories(categories: object) -> tuple[object, ...]:
    """Return the categories: a number k stands for 0 … k-1, a collection for itself."""
    if isinstance(categories, (int, np.integer)) and not isinstance(categories, bool):
        return tuple(range(integer(categories, "categories", minimum=2, maximum=2**24)))
    if not isinstance(categories, (list, tuple, range)):
        raise InvalidValueError("categories", got=categories, allowed="a number of at least 2, or a list of names")
    try:
        distinct = len(set(categories))
    except TypeError:
        distinct = -1
    if distinct != len(categories) or distinct < 2:
        raise InvalidValueError("categories", got=categories, allowed="at least two different names")
    return tuple(categories)


def shares(epsilon: Fraction) -> float:
    """Return e^ε as a float; what is too large for one is infinite."""
    try:
        return math.exp(float(epsilon))
    except OverflowError:
        return math.inf
