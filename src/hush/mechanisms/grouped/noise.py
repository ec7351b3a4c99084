"""Laplace and Gaussian noise for a number of every group, and noise that is imagined to find errors.

**Add Laplace noise to a whole number in every group, for all groups at once: pure ε, drawn exactly.**

Noise k has probability ∝ e^(-|k|/scale). A unit changes ``sensitivity`` in ℓ₁ in one group, and at most ``cells``
groups differ between neighbours (`Contribution`), so a scale of cells·sensitivity/ε makes all groups together ε-DP.

**The event.** Where one unit comes or goes, it changes at most ``groups`` groups, which are independently noised: the
composition of ``groups`` scalar mechanisms, which is never worse than pure ε and better in Rényi terms. Where one unit
replaces another, one group may change twice as much or two groups once each; the pure ε covers all.

**Several numbers that share one change.** Numbers of a group that change by i and j with i + j ≤ b (the two halves of a
sum, which give the number of rows as well; the cells of a histogram) are charged as one that changes by b, which is at
least as revealing. Proof: with r = e^{-1/scale}, clamping x to [0, s] loses nothing about centre 0 against s = i + j;
T, the clamped number, has under centre 0 the masses 1/(1+r), then r^t·(1-r)/(1+r), and r^s/(1+r) at its ends. Of two
numbers, clamped to [0, i] and [0, j], the sum V says all: both T and V = t mean a likelihood ratio of r^{2t-s}. V has
less mass than T at 0 and s, by a factor 1+r, and at least as much between: each 0 < t < s has two pairs or more with
one number at an end, of mass r^t·(1-r)/(1+r)² or more each, and 2/(1+r)² ≥ 1/(1+r). So the likelihood ratio of T has
the same mean, 1, and more spread: a difference of masses with signs +, -, + makes every convex function's mean larger
(Karlin, Novikoff 1963), and with it every divergence. Of three numbers with i + j + k ≤ b the first two are in this way
less revealing than one that changes by i + j (beside whatever is independent of them), and this one and the third than
one that changes by b; and so on.

>>> counts = GroupedLaplace.for_epsilon(Fraction(1, 10))
>>> counts.scale, counts.error(0.95), counts.event
(Fraction(10, 1), 30, DiscreteLaplaceEvent(parameter=1/10, sensitivity=1))
>>> GroupedLaplace.for_epsilon(Fraction(10**9)).release(np.array([3, 1, 4])).tolist()
[3, 1, 4]

**Add Gaussian noise to a whole number in every group, for all groups at once: zero-concentrated DP, drawn exactly.**

Noise k has probability ∝ e^(-k²/2σ²). A unit changes a statistic by ``sensitivity`` = b in one group, so neighbours
differ by at most Δ₂ = units·√groups·b in ℓ₂, whatever the shape of the change. Discrete Gaussian noise is Δ₂²/2σ²-zCDP
on vectors of integers (Canonne, Kamath, Steinke 2020, Theorem 4 and composition over coordinates), and ρ-zCDP implies
(ε,δ) for

    δ = e^{(α-1)(αρ-ε)}·(1-1/α)^α/(α-1),     any α > 1

(their Corollary 13). Where a single number changes, the event is the discrete law itself.

>>> noise = GroupedGaussian.for_rho(zcdp_budget(Fraction(1), Fraction(1, 10**6)), contribution=Contribution(groups=4))
>>> round(float(noise.sigma), 2), noise.error(0.95)
(9.06, 18)

**Noise that is imagined, to find out how far answers may be off; it never protects anything.**

Of each of n equally likely ranges of a law the middle is taken, and they are put in random order. Several noises
imagined together are as if independent, but each has the quantiles of its law (a Latin hypercube; McKay, Beckman,
Conover 1979), so what is found varies less than with independent draws: at n = 400 an interval's true coverage has a
standard deviation of 0.9 % where two noises of a size matter, and next to none where one does, instead of 1.1 %.

**Half-widths of a sum of several groups' noises, each times a factor.**

Counts, sums and their linear combinations have the noise Σ factor·X, with independent X on whole numbers. Its law is
public: its half-widths are computed, and the share of answers that may have a half-width one step shorter.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import ApproximateDPEvent, DiscreteGaussianEvent, DiscreteLaplaceEvent, Event, ZCDPEvent
from hush.core.grid import add
from hush.mechanisms.grouped.base import ONE_GROUP, Contribution, Integers


class _GroupedNoise:
    """Independent noise of one law for the whole numbers of all groups."""

    __slots__ = ()
    times: ClassVar[int] = 1
    excess: ClassVar[float]
    """The fourth cumulant of the law over its squared variance."""

    @abstractmethod
    def draw(self, size: int) -> npt.NDArray[Any]:
        """Draw the noise of ``size`` groups."""

    def release(self, integers: Integers) -> Integers:
        """Return one number of every group with noise."""
        return add(integers, self.draw(len(integers)))

    @abstractmethod
    def imagine(self, size: int) -> Floats:
        """Return the middles of ``size`` equally likely ranges in random order; never to protect anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedLaplace(_GroupedNoise):
    """Adds independent discrete Laplace noise of one scale to the whole numbers of all groups."""

    scale: Fraction
    sensitivity: int = 1
    """The largest change by one unit in one group, in ℓ₁ over the numbers that are noised together."""
    contribution: Contribution = ONE_GROUP
    excess: ClassVar[float] = 3.0

    @classmethod
    def for_epsilon(
        cls, epsilon: Fraction, *, sensitivity: int = 1, contribution: Contribution = ONE_GROUP
    ) -> GroupedLaplace:
        """Return the noise at which all groups together are ε-DP."""
        return cls(scale=contribution.cells * sensitivity / epsilon, sensitivity=sensitivity, contribution=contribution)

    @property
    def epsilon(self) -> Fraction:
        """The pure ε of all groups together."""
        return self.contribution.cells * self.sensitivity / self.scale

    @property
    def event(self) -> Event:
        """The privacy event of all groups together."""
        if self.contribution.units > 1:
            return ApproximateDPEvent(epsilon=self.epsilon)
        return self.contribution.in_each_group(DiscreteLaplaceEvent(scale=self.scale, sensitivity=self.sensitivity))

    def draw(self, size: int) -> npt.NDArray[Any]:
        """Draw the noise of ``size`` groups."""
        return noise.discrete_laplace(self.scale, size=size)

    @property
    def variance(self) -> float:
        """2r/(1-r)², r = e^(-1/scale)."""
        half = 1 / (2 * float(self.scale))  # 2r/(1-r)² = 1/(2·sinh²(1/2s)), which keeps its digits for large s
        return 0.0 if half > 350 else 0.5 / math.sinh(half) ** 2

    def imagine(self, size: int) -> Floats:  # noqa: D102 - as the base says
        scale, places = float(self.scale), middles(size)[noise.permutation(size)]
        tails = (1 - np.abs(places)) * ((1 + math.exp(-1 / scale)) / 2)  # as in `error`
        return np.asarray(np.sign(places) * np.maximum(np.ceil(-np.log(tails) * scale - 1e-12) - 1, 0))

    def error(self, confidence: float | Fraction = 0.95) -> int:
        """Return the least t with P[|X| ≤ t] ≥ confidence, from P[|X| > t] = 2r^(t+1)/(1+r)."""
        rate = 1 / float(self.scale)
        tail = float(1 - confidence) * (1 + math.exp(-rate)) / 2
        # Without the 1e-12 a rounding error just above a whole number would cost a whole step.
        return max(0, math.ceil(-math.log(tail) / rate - 1e-12) - 1) if tail < 1 else 0

    def within(self, t: int) -> float:
        """Return P[|X| ≤ t]."""
        rate = 1 / float(self.scale)
        return 1 - 2 * math.exp(-rate * (t + 1)) / (1 + math.exp(-rate))

    def falls_to(self, share: float) -> int:
        """Return where the law has fallen to a share of its maximum.

        >>> GroupedLaplace(scale=Fraction(10)).falls_to(0.05)
        30
        """
        return math.ceil(float(self.scale) * -math.log(share))


_CONTINUOUS_FROM = 100
"""From this σ on the continuous law stands for the discrete one in error bars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedGaussian(_GroupedNoise):
    """Adds independent discrete Gaussian noise of one σ to the whole numbers of all groups."""

    sigma: Fraction
    sensitivity: int = 1
    """The largest change by one unit in one group, in ℓ₂ over the numbers that are noised together."""
    contribution: Contribution = ONE_GROUP
    numbers: int = 1
    """The length of a group's vector that is noised together."""
    excess: ClassVar[float] = 0.0

    @classmethod
    def for_rho(
        cls, rho: Fraction, *, sensitivity: int = 1, contribution: Contribution = ONE_GROUP, numbers: int = 1
    ) -> GroupedGaussian:
        """Return the noise at which all groups together are ρ-zCDP; σ is rounded up at twelve digits."""
        variance = Fraction(squared_sensitivity(sensitivity, contribution)) / (2 * rho)
        scale = 10 ** max(0, 13 - len(str(int(variance))) // 2)
        # ⌈√v⌉ in whole multiples of 1/scale: σ is rounded up, to the safe side.
        root = math.isqrt(math.ceil(variance * scale * scale) - 1) + 1
        return cls(sigma=Fraction(root, scale), sensitivity=sensitivity, contribution=contribution, numbers=numbers)

    @property
    def event(self) -> Event:
        """The privacy event of all groups together."""
        if self.contribution.cells == self.numbers == 1:
            return DiscreteGaussianEvent(sigma=self.sigma, sensitivity=self.sensitivity)
        return ZCDPEvent(rho=squared_sensitivity(self.sensitivity, self.contribution) / (2 * self.sigma**2))

    def draw(self, size: int) -> npt.NDArray[Any]:
        """Draw the noise of ``size`` groups."""
        return noise.discrete_gaussian(self.sigma, size=size)

    @property
    def variance(self) -> float:
        """σ², which the discrete law never exceeds."""
        return float(self.sigma) ** 2

    def imagine(self, size: int) -> Floats:  # noqa: D102 - as the base says
        sigma, order = float(self.sigma), noise.permutation(size)
        if sigma > _CONTINUOUS_FROM:  # the quantiles of the continuous law, rounded
            return np.asarray(np.rint(_normal_quantiles(size)[order] * sigma))
        places = middles(size)[order]
        return np.asarray(np.sign(places) * np.searchsorted(_within(sigma), np.abs(places)), dtype=np.float64)

    def error(self, confidence: float | Fraction = 0.95) -> int:
        """Return the least t with P[|X| ≤ t] ≥ confidence."""
        sigma = float(self.sigma)
        if sigma > _CONTINUOUS_FROM:
            return math.ceil(-NormalDist().inv_cdf(float(1 - confidence) / 2) * sigma)
        return bisect_left(_within(sigma), confidence)

    def within(self, t: int) -> float:
        """Return P[|X| ≤ t]; where σ > 100 that of the continuous law half a step further, which is within 1e-5."""
        sigma = float(self.sigma)
        if sigma > _CONTINUOUS_FROM:
            return 2 * NormalDist().cdf((t + 0.5) / sigma) - 1
        within = _within(sigma)
        return within[min(t, len(within) - 1)]

    def falls_to(self, share: float) -> int:
        """Return where the law has fallen to a share of its maximum."""
        return math.ceil(float(self.sigma) * math.sqrt(-2 * math.log(share)))


def squared_sensitivity(sensitivity: int, contribution: Contribution) -> int:
    """Return Δ₂², the squared ℓ₂ distance of neighbours' vectors over all groups, at most."""
    return contribution.units**2 * contribution.groups * sensitivity**2


@lru_cache(maxsize=256)
def zcdp_budget(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a ρ, rounded down, with which ρ-zCDP implies (ε,δ)-DP; 0 if none was found."""
    target, log_delta = float(epsilon), math.log(delta.numerator) - math.log(delta.denominator)

    def rho(alpha: float) -> float:
        cost = math.log(alpha - 1) - alpha * math.log1p(-1 / alpha)
        return (target + (log_delta + cost) / (alpha - 1)) / alpha

    # δ = e^{(α-1)(αρ-ε)}·(1-1/α)^α/(α-1), solved for ρ. Every order α gives a valid ρ; the best is near 1 + ln(1/δ)/ε.
    middle = 1 + 2 * max(1.0, -log_delta) / target
    orders = [1 + (middle - 1) * 2 ** (step / 32) for step in range(-160, 65)]
    best = max(map(rho, orders))
    if best <= 0:
        return Fraction(0)
    # Lowered by more than the float error, then rounded down to eleven digits.
    digits = 10 - math.floor(math.log10(best))
    return Fraction(math.floor(best * (1 - 1e-9) * 10**digits), 10**digits)


@lru_cache(maxsize=256)
def _within(sigma: float) -> tuple[float, ...]:
    """Return P[|X| ≤ t] for t = 0, 1, … up to twelve σ."""
    # Beyond twelve σ lies less than e⁻⁷¹ of the mass, which floats cannot tell beside 1.
    masses = [math.exp(-k * k / (2 * sigma * sigma)) for k in range(int(12 * sigma) + 2)]
    inside = list(accumulate([masses[0], *(2 * mass for mass in masses[1:])]))
    return tuple(mass / inside[-1] for mass in inside)


@lru_cache(maxsize=16)
def _normal_quantiles(size: int) -> Floats:
    return np.array([NormalDist().inv_cdf((middle + 1) / 2) for middle in middles(size).tolist()])


Floats = npt.NDArray[np.float64]


def middles(size: int) -> Floats:
    """Return 2u-1 for the middles u of ``size`` equal ranges of [0, 1]: P[|X| ≤ t] is asked to be its magnitude."""
    return np.arange(1 - size, size, 2) / size


def shuffled_middles(size: int) -> Floats:
    """Return the middles of ``size`` equal ranges of [-1, 1] in random order."""
    return np.asarray(middles(size)[noise.permutation(size)])


def own_orders(rows: int, draws: int) -> npt.NDArray[np.int64]:
    """Return a random order of the draws for each row: rows that share their draws become nearly independent.

    Row by row it is a·d + b modulo their number, which must be a prime, with random a and b: at each place any draw of
    a row is as likely as any other, whatever those of the other rows are.

    >>> sorted(own_orders(1, 3)[0].tolist())
    [0, 1, 2]
    """
    times, shift = noise.uniform_integer(draws - 1, size=rows) + 1, noise.uniform_integer(draws, size=rows)
    places = times[:, None].astype(np.int32) * np.arange(draws, dtype=np.int32) + shift[:, None].astype(np.int32)
    return np.asarray(places % np.int32(draws), dtype=np.int64)  # draws are few thousand, so products fit


# -- sums of noises ----------------------------------------------------------------------------------------------------

GroupedNoise = GroupedLaplace | GroupedGaussian
_SMALLEST_VARIANCE = 1e-100
_MOST_EXACT_NOISES = 16
"""Up to this number of noises the law of the sum is computed; beyond, it is nearly normal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedNoise:
    """The sum of ``times`` independent noises of one law: that of groups which are added up to one.

    Of many noises the sum is nearly normal. Its quantiles are those of Cornish and Fisher (1938) with the fourth
    cumulant, and far out, where these are not to be trusted, Chernoff's bound.

    >>> SummedNoise(law=GroupedLaplace(scale=Fraction(10)), times=2).error(0.95)
    41
    >>> SummedNoise(law=GroupedLaplace(scale=Fraction(10)), times=100).error(0.95)
    278
    """

    law: GroupedNoise
    times: int

    @property
    def variance(self) -> float:
        """The variance of the sum: ``times`` that of the law."""
        return self.times * self.law.variance

    @property
    def excess(self) -> float:
        """The fourth cumulant of the sum over its squared variance."""
        return self.law.excess / self.times

    def error(self, confidence: float | Fraction = 0.95) -> int:
        """Return a t with P[|X| ≤ t] ≥ confidence."""
        return math.ceil(_sum_error([(Fraction(1), self)], confidence))

    def falls_to(self, share: float) -> int:
        """Return a distance beyond which less than a share of the law lies on either side."""
        return self.error(1 - share / 4)

    def imagine(self, size: int) -> Floats:
        """Return ``size`` imagined noises, spread over the law's quantiles; never to protect anything."""
        if self.times <= _MOST_EXACT_NOISES:
            return np.asarray(np.add.reduce([self.law.imagine(size) for _ in range(self.times)]))
        return np.asarray(_normal_quantiles(size)[noise.permutation(size)] * math.sqrt(self.variance))


def sum_error(parts: Sequence[tuple[Fraction, GroupedNoise | SummedNoise]], confidence: float | Fraction) -> Fraction:
    """Return the least t with P[|Σ factor·X| ≤ t] ≥ confidence, for independent noises of a kind.

    Gaussians add up to one, but for their lattices, for which half a step of each is added. Of Laplace noises the
    widest has a known tail, and the others are summed over, y being what they add up to:

    P[aX + y > t] = Σ_y P[y] P[X > ⌊(t - y)/a⌋]
    """
    parts = [(abs(factor), law) for factor, law in parts if factor]
    if len(parts) == 1:
        (factor, law), *_ = parts
        return law.error(confidence) * factor
    return _sum_error(parts, confidence)


def _sum_error(parts: Sequence[tuple[Fraction, GroupedNoise | SummedNoise]], confidence: float | Fraction) -> Fraction:
    missing = float(1 - confidence)  # exact before it is a float: next to 1 no float could tell the confidence
    laws = [(float(factor), law.law if isinstance(law, SummedNoise) else law, law.times) for factor, law in parts]
    widths = [(float(law.scale), factor, times) for factor, law, times in laws if isinstance(law, GroupedLaplace)]
    if not widths and missing < _RAREST_MISS:  # Chernoff: E[e^θX] ≤ e^(θ²σ²/2) (Canonne, Kamath and Steinke 2020)
        sigmas = [(float(law.sigma), factor, times) for factor, law, times in laws if isinstance(law, GroupedGaussian)]
        squares = [(sigma * factor) ** 2 * times for sigma, factor, times in sigmas]
        return Fraction(math.sqrt(2 * math.log(2 / missing) * math.fsum(squares)))
    if missing < _RAREST_MISS:
        # Chernoff: P[|S| > t] ≤ 2·E[e^θS]·e^(-θt), so t = min over θ of (ln E[e^θS] + ln(2/missing))/θ. The factor of
        # a Laplace noise of width w is at most 1/(1 - θ²w²), as of the continuous law.
        target, widest = math.log(2 / missing), max(scale * factor for scale, factor, _ in widths)
        half_widths = []
        for share in (step / 200 for step in range(1, 200)):  # θ in units of 1/widest
            logarithms = [times * -math.log1p(-((share * scale * f / widest) ** 2)) for scale, f, times in widths]
            half_widths.append((target + math.fsum(logarithms)) * widest / share)
        return Fraction(min(half_widths))
    repeats = [times for *_, times in widths]
    if widths and (sum(repeats) <= _MOST_EXACT_NOISES or max(repeats) == 1):
        scales = [(scale, factor) for scale, factor, times in widths for _ in range(times)]
        return Fraction(_laplace_half_width(tuple(sorted(scales, key=math.prod)), 1 - missing))
    # The half-width of Cornish and Fisher; that of Gaussians has no excess.
    spreads = [float(factor) ** 2 * law.variance for factor, law in parts]
    variance, z = math.fsum(spreads), -NormalDist().inv_cdf(missing / 2)
    fourth = math.fsum(law.excess * spread**2 for (_, law), spread in zip(parts, spreads, strict=True))
    excess = fourth / variance**2 if variance > _SMALLEST_VARIANCE else 0.0
    # Half a step of each lattice is added: the normal law is continuous.
    half = math.sqrt(variance) * (z + (z**3 - 3 * z) * excess / 24)
    return Fraction(half) + sum((factor for factor, _ in parts), Fraction(0)) / 2


_RAREST_MISS = 1e-4
_POINTS_OF_A_LAW = 512
_SCALES_KEPT = 16


def exact_share(
    parts: Sequence[tuple[Fraction, GroupedNoise | SummedNoise]], confidence: float, grid: Fraction = Fraction(1)
) -> tuple[Fraction, Fraction]:
    """Return a shorter half-width's difference, and the share of answers that may use it without missing too often.

    Noise on whole numbers cannot always do so: at scale 1 it keeps within ± 3 in 97.3 % of cases, within ± 2 in 92.7 %.
    Where more than a third of what the confidence leaves is not used up, every other ± 3 or so can be a ± 2. Never ± 0.
    Finer noise, with which an answer is moved to the nearest multiple of the ``grid``, moves it k steps away or less if
    it is below k + 1/2 steps.

    >>> step, share = exact_share([(Fraction(1, 1000), GroupedLaplace(scale=Fraction(1000)))], 0.95)
    >>> step, round(float(share), 3)
    (Fraction(1, 1), 0.381)
    """
    parts = [(abs(factor), law) for factor, law in parts if factor]
    if len(parts) != 1:
        return Fraction(0), Fraction(0)
    (factor, law), *_ = parts
    if isinstance(law, SummedNoise):  # which has small steps beside its spread
        return Fraction(0), Fraction(0)
    on_grid, half = (factor / grid).denominator == 1, Fraction(1, 2)
    t = law.error(confidence) if on_grid else int(law.error(confidence) * factor / grid + half)
    if t < 2:
        return Fraction(0), Fraction(0)
    more, less = (law.within(k if on_grid else math.ceil((k + half) * grid / factor) - 1) for k in (t, t - 1))
    if more - confidence < (1 - confidence) / 3:
        return Fraction(0), Fraction(0)
    return factor if on_grid else grid, Fraction(min(1.0, (more - confidence) / (more - less)))


def with_shorter(width: float, less: float, share: Fraction, size: int) -> list[float]:
    """Return ``size`` half-widths; each is shorter by ``less`` with probability ``share``."""
    short = noise.bernoulli(share, size=size) if share else np.zeros(size, dtype=np.bool_)
    widths: list[float] = np.where(short, width - less, width).tolist()
    return widths


@lru_cache(maxsize=256)
def _laplace_half_width(scales: tuple[tuple[float, float], ...], confidence: float) -> float:
    rate, step = 1 / scales[-1][0], scales[-1][1]
    points: Floats = np.zeros(1)
    masses: Floats = np.ones(1)
    slack = 0.0
    for (scale, factor), repeats in Counter(scales[:-1]).items():
        # The law of so many noises of a scale, at multiples of a stride. Beyond 16 scales lies 1e-7 of the mass of one.
        stride = max(1, math.ceil(_SCALES_KEPT * scale / _POINTS_OF_A_LAW))
        last = math.ceil(_SCALES_KEPT * scale / stride) + 1
        single: Floats = np.exp(-np.abs(np.arange(-last, last + 1, dtype=np.float64)) * (stride / scale))
        single /= single.sum()
        weights = single
        for _ in range(repeats - 1):
            weights = np.convolve(weights, single)
        further = np.arange(-repeats * last, repeats * last + 1, dtype=np.float64) * stride
        points = np.add.outer(points, further * factor).ravel()
        masses = np.multiply.outer(masses, weights).ravel()
        if len(points) > 16 * _POINTS_OF_A_LAW:  # move them to fewer places, by half the distance of two at most
            width = (points.max() - points.min()) / (16 * _POINTS_OF_A_LAW)
            places = np.rint((points - points.min()) / width).astype(np.int64)
            masses = np.bincount(places, masses).astype(np.float64)
            points = np.arange(len(masses)) * width + points.min()
            slack += width / 2

    def outside(t: float) -> float:
        # P[aX + y > t] over the points y of the other noises; symmetric, so both sides are twice that.
        beyond = np.floor((t - points) / step)
        tail = np.exp(-rate * (np.abs(beyond + 0.5) + 0.5)) / (1 + math.exp(-rate))  # P[X > k], or P[X ≤ k] for k < 0
        return 2 * float(masses @ np.where(beyond >= 0, tail, 1 - tail))

    low = 0.0
    high = sum(weight * (scale * math.log(2 * len(scales) / (1 - confidence)) + 1) for scale, weight in scales)
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if outside(middle) <= 1 - confidence else (middle, high)
    return float(f"{high + slack:.9g}")
