"""Randomized response: the truth often enough to be useful, a lie often enough to be deniable.

**The law.** The true category with probability p = e^ε/(e^ε + k-1), each other with q = 1/(e^ε + k-1): their ratio is
e^ε, so the answer is ε-DP for the person who gives it, whoever collects it. Warner's survey (1965) is k = 2 in other
words: the truth with probability t, else a fair coin. For k categories, with a uniform category instead of the coin,

    ε = ln(1 + k·t/(1-t))        (k = 2: ln(1 + 2t/(1-t)), THEORY item 11).

**Exactness.** p is irrational for a rational ε: the coin is Bernoulli(e^{-x}) with x = ln(1 + (k-1)e^{-ε}), decided
in ball arithmetic. With a rational t (``with_truth``) the coin is that t, and ε is the logarithm, rounded up.

**Total.** An answer outside the categories is reported as a uniformly random one: no other report is more private.

>>> coin = RandomizedResponse.with_truth("1/2")
>>> round(float(coin.epsilon), 4)                        # ln 3
1.0986
>>> RandomizedResponse(epsilon=2, categories=4).probabilities(0).round(4).tolist()
[0.7112, 0.0963, 0.0963, 0.0963]

**Estimating frequencies.** All local oracles share this. In a local protocol every person reports through a mechanism
of their own. For each category v a report either *supports* v or not: with probability p if the person's answer is v,
with probability q if it is not. So with N_v supports among n

    f̂_v = (N_v/n - q)/(p - q),      Var f̂_v = [f p(1-p) + (1-f) q(1-q)] / n(p-q)²,

is unbiased (Wang, Blocki, Li, Jha 2017). f is the share among those who reported: half-widths tell of coins, not of a
sample.

**After the reports** (`errors`) the half-width is that of the interval of Clopper and Pearson (1934) for this
law. Of m people who hold v, N_v is the sum of two binomials, Bin(m, p) + Bin(n-m, q), and grows with m. Every m is
ruled out for which so many supports, or more, have probability at most β/2; and likewise so few. What is left covers
the true m with probability 1-β at least, for every n and f: a true m is ruled out with probability β/2 on either side.
It is as narrow as discrete reports allow: within some per cent of the normal half-width z·√Var f̂ at the true f once n
coins flip twenty times. A category that nobody holds has q(1-q) for its variance, which is far below p(1-p) at large ε.

**Before the reports** (`error`) no f is known, and the half-width is the larger one of f = 0 and f = 1. The
generating function of N's deviation is ψ_p^m·ψ_q^(n-m), so what bounds both ends bounds what is between. The tail of a
binomial law is interpolated between whole numbers, above the true one, so that the half-width is continuous in ε.

>>> coin.support, coin.variance(count=100), round(coin.error(count=10**4), 4)          # 1.96·√0.000075 = 0.0170
((0.75, 0.25), 0.0075, 0.0171)
>>> many = RandomizedResponse.with_truth("0.499", categories=501)                         # p = 0.5, q = 0.001
>>> many.errors([0.0, 0.5], count=10**4).round(4)                                      # normal: 0.0012, 0.0139
array([0.0014, 0.0142])
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import ApproximateDPEvent, Event, RandomizedResponseEvent
from hush.core import InvalidValueError, Number, fraction_between, integer
from hush.core.grid import any_array, is_scalar
from hush.core.numbers import assign
from hush.core.rounding import ball, certified, fraction_up, short_up
from hush.mechanisms.base import ReadableRepr, confidence_level, least, ordinary


@dataclass(frozen=True, slots=True, init=False, repr=False)
class FrequencyOracle(ReadableRepr):
    """A local mechanism for categories: a report supports the true one with probability p, each other one with q.

    A subclass says how reports are drawn (``_report``), how many reports support each category (``_supports``), and p
    and q (``support``). Estimate, variance and error follow from these.
    """

    epsilon: Fraction
    categories: tuple[Any, ...]

    def __init__(self, *, epsilon: Number, categories: Any = 2) -> None:
        assign(self, epsilon=ordinary(epsilon, "epsilon"), categories=tuple(read_categories(categories)))

    @classmethod
    def for_error(
        cls, error: Number, *, confidence: Number = Fraction(19, 20), count: int, categories: Any = 2, at_once: int = 1
    ) -> Self:
        """Return the oracle of the smallest ε, to 12 digits, with a half-width of at most ``error``.

        The half-width holds for ``at_once`` frequencies at once.
        """
        names = read_categories(categories)

        def half_width(oracle: FrequencyOracle) -> float:
            return oracle.error(confidence, count=count, categories=at_once)

        why = "what so few reports allow even without noise: ask more people"
        return least(lambda epsilon: cls(epsilon=epsilon, categories=names), half_width, error, why=why)

    @property
    def event(self) -> Event:
        """Pure ε."""
        return ApproximateDPEvent(epsilon=self.epsilon, delta=0)

    @property
    def support(self) -> tuple[float, float]:
        """The probabilities p that a report supports the true category, and q that it supports each other."""
        raise NotImplementedError

    def _report(self, true: npt.NDArray[np.int64]) -> Any:
        """Return a report for each answer, given as a category's number; -1 for an answer of no category."""
        raise NotImplementedError

    def _supports(self, reports: Any) -> tuple[npt.NDArray[np.int64], int]:
        """Return the number of reports that support each category, and that of all reports."""
        raise NotImplementedError

    def release(self, answer: Any) -> Any:
        """Return one report, or a report each for a column of answers."""
        if not is_scalar(answer):
            return self._report(codes(answer, self.categories))
        report = self._report(codes([answer], self.categories))[0]
        return report if isinstance(report, np.ndarray) else int(report)

    def estimate(self, reports: Any) -> npt.NDArray[np.float64]:
        """Return the unbiased estimate of every category's frequency among the true answers; zeros without reports."""
        (supports, count), (p, q) = self._supports(reports), self.support
        return np.asarray((supports / count - q) / (p - q) if count else np.zeros(len(supports)), dtype=np.float64)

    @property
    def bias(self) -> float:
        """Zero: the estimate is unbiased (by local hashing, up to the hash family's 10⁻⁵)."""
        return 0.0

    def variance(self, *, count: int, frequency: float = 0.0) -> float:
        """Return the variance of an estimate from ``count`` reports, for a category of this true frequency."""
        (p, q), reports = self.support, integer(count, "count", minimum=1)
        return (frequency * p * (1 - p) + (1 - frequency) * q * (1 - q)) / (reports * (p - q) ** 2)

    def error(self, confidence: Number = Fraction(19, 20), *, count: int, categories: int = 1) -> float:
        """Return a half-width that holds for ``categories`` frequencies at once, for all true frequencies."""
        (p, q), side, reports = self.support, _side(confidence, categories), integer(count, "count", minimum=1)
        # No frequency is known yet: the half-widths of f = 0 and f = 1, on both sides, bound those between (see above).
        largest = 0.0
        for coin in (p, 1 - p, q, 1 - q):
            # d with P[X > mean + d] ≤ side for a binomial X: the least one, plus an interpolated part of a step. The
            # tail is constant between whole numbers, at the height of the next one; a line between logarithms is above.
            start, law = _binomial(reports, coin)
            tails = _tails(law)
            index = int(np.argmax(tails <= side))
            certain = tails[index] <= 0
            part = 0.0 if certain else math.log(tails[index - 1] / side) / math.log(tails[index - 1] / tails[index])
            largest = max(largest, start + index - 1 + part - reports * coin)
        return largest / (reports * (p - q)) * (1 + 1e-12)  # raised by more than the float error

    def errors(
        self, estimates: Any, confidence: Number = Fraction(19, 20), *, count: int, categories: int = 1
    ) -> npt.NDArray[np.float64]:
        """Return a half-width for each estimate, smaller ones for rare categories; for ``categories`` at once."""
        values = np.asarray(estimates, dtype=np.float64)
        (p, q), side, n = self.support, _side(confidence, categories), integer(count, "count", minimum=1)
        supports = np.rint(n * (q + values * (p - q))).astype(np.int64)
        # Limits grow with the support and change slowly: they are computed for few supports, rounded to the safe side.
        step = max(1, int(math.sqrt(n * min(p * (1 - p), q * (1 - q))) / 16))
        below, above = supports // step * step, np.minimum(-(-supports // step) * step, n)
        lower = {least: _fewest(least, n, p, q, side) for least in set(below.tolist())}
        upper = {bound: n - _fewest(n - bound, n, 1 - q, 1 - p, side) for bound in set(above.tolist())}
        down = values - np.array([lower[least] for least in below.tolist()]) / n
        up = np.array([upper[bound] for bound in above.tolist()]) / n - values
        return np.maximum(up, down) * (1 + 1e-12)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RandomizedResponse(FrequencyOracle):
    """One category among k, reported privately; and the frequencies behind many reports.

    ``categories`` is a number k (the answers are 0 … k-1) or a list of names.

    >>> import hush
    >>> hush.RandomizedResponse(epsilon=10**4, categories=["no", "yes"]).release("yes")
    'yes'
    """

    truth: Fraction | None

    def __init__(self, *, epsilon: Number, categories: Any = 2) -> None:
        FrequencyOracle.__init__(self, epsilon=epsilon, categories=categories)
        assign(self, truth=None)

    @classmethod
    def with_truth(cls, truth: Number, *, categories: Any = 2) -> RandomizedResponse:
        """Return the mechanism that tells the truth with this probability, else a uniformly random category."""
        share, names = fraction_between(truth, "truth"), read_categories(categories)
        # p/q = (t + (1-t)/k) / ((1-t)/k) = e^ε; ε is rounded up.
        odds = 1 + len(names) * share / (1 - share)
        mechanism = cls(epsilon=short_up(fraction_up(certified(lambda: ball(odds).log()))), categories=names)
        assign(mechanism, truth=share)
        return mechanism

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
        return odds / (odds + k - 1), 1 / (odds + k - 1)

    @property
    def event(self) -> RandomizedResponseEvent:
        """One response among k."""
        return RandomizedResponseEvent(epsilon=self.epsilon, choices=len(self.categories))

    def release(self, answer: Any) -> Any:
        """Return one report, or an array of independent reports for a column of answers."""
        reports = FrequencyOracle.release(self, answer)
        if is_scalar(answer):
            return self.categories[reports]
        return np.array([self.categories[code] for code in reports.tolist()])

    def _report(self, true: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        k, count = len(self.categories), len(true)
        if self.truth is not None:
            # Else a uniform category of all k, which may be the true one.
            honest, lie = noise.bernoulli(self.truth, count), noise.uniform_integer(k, count)
        else:
            honest = coins(self.epsilon, Fraction(k - 1), count)
            # One of the k-1 others, each equally likely.
            lie = (true + 1 + noise.uniform_integer(k - 1, count)) % k
        reports = np.where(honest, true, lie)
        # An answer outside the categories is reported uniformly: it costs no more than any other.
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

    def _supports(self, reports: Any) -> tuple[npt.NDArray[np.int64], int]:
        reported = codes(reports, self.categories)
        return np.bincount(reported[reported >= 0], minlength=len(self.categories)), len(reported)


def coins(epsilon: Fraction, against: Fraction, size: int) -> npt.NDArray[np.bool_]:
    """Toss coins that come up with probability e^ε/(e^ε + against) = exp(-ln(1 + against·e^(-ε))): exact, no float."""
    return noise.bernoulli_exp(lambda _bits: (ball(against) * (-ball(epsilon)).exp() + 1).log(), size)


def _side(confidence: Number, categories: int) -> float:
    """Return the probability left for a miss on one side of one category."""
    return float((1 - confidence_level(confidence)) / integer(categories, "categories", minimum=1)) / 2


def _binomial(count: int, p: float) -> tuple[int, npt.NDArray[np.float64]]:
    """Return the first value and the probabilities of a binomial law around its mean; the rest is below 10⁻¹⁷."""
    if count == 0 or not 0 < p < 1:
        return (count if p >= 1 else 0), np.ones(1)
    radius = 9 * math.sqrt(count * p * (1 - p)) + 40
    low, high = max(0, math.floor(count * p - radius)), min(count, math.ceil(count * p + radius))
    values = np.arange(low, high)
    # P(j+1)/P(j) = (n-j)/(j+1) · p/(1-p)
    logs = np.append(0.0, np.cumsum(np.log((count - values) / (values + 1.0)) + (math.log(p) - math.log1p(-p))))
    weights = np.exp(logs - logs.max())
    return low, weights / weights.sum()


def _tails(law: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return P[X ≥ x] for each value x of a law, and a final 0."""
    return np.append(np.cumsum(law[::-1])[::-1], 0.0)


def _fewest(least: int, n: int, p: float, q: float, side: float) -> int:
    """Return the fewest true answers m with P[at least ``least`` supports] > ``side``; n if there is none."""

    def likely(m: int) -> bool:
        first, true_supports = _binomial(m, p)
        second, false_supports = _binomial(n - m, q)
        # P[A + B ≥ least] = Σ_a P[A = a]·P[B ≥ least - a], with A of the m true answers and B of the others.
        lacking = np.clip(least - first - second - np.arange(len(true_supports)), 0, len(false_supports))
        return bool(true_supports @ _tails(false_supports)[lacking] > side)

    return bisect_left(range(n), True, key=likely)


def codes(answers: object, categories: tuple[object, ...]) -> npt.NDArray[np.int64]:
    """Return each answer's position among the categories, -1 for any other answer. Never fails."""
    position = {category: code for code, category in enumerate(categories)}
    flat = any_array(answers, "answers").ravel().tolist() if not isinstance(answers, (list, tuple)) else list(answers)

    def find(answer: object) -> int:
        try:
            return position.get(answer, -1)
        except Exception:  # noqa: BLE001 - any object may be an answer; whether this fails must depend on none
            return -1

    return np.array([find(answer) for answer in flat], dtype=np.int64)


def read_categories(categories: object, *, least: int = 2, hint: str = "") -> tuple[object, ...] | range:
    """Return the categories: a number k stands for 0 … k-1, a list of different names for itself."""
    if isinstance(categories, (int, np.integer)) and not isinstance(categories, bool):
        return range(integer(categories, "categories", minimum=least, maximum=2**24, hint=hint))
    try:
        distinct = isinstance(categories, (list, tuple, range)) and len(set(categories)) == len(categories) >= least
    except TypeError:  # a name that is no name: a list, a dictionary
        distinct = False
    if not distinct:
        allowed = f"a number of at least {least}, or a list of at least {least} different names"
        raise InvalidValueError("categories", got=categories, allowed=allowed, hint=hint)
    return categories if isinstance(categories, range) else tuple(categories)  # type: ignore[arg-type]


def shares(epsilon: Fraction) -> float:
    """Return e^ε as a float; beyond ε = 600, where every report is the truth to the last bit, that of 600."""
    return math.exp(min(float(epsilon), 600.0))
