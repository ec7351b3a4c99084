"""Half-widths of a sum of several groups' noises, each times a factor.

Counts, sums and their linear combinations have the noise Σ factor·X, with independent X on whole numbers. Its law is
public. This module computes half-widths of it, and the share of answers that may have a half-width one step shorter.

>>> float(sum_error([(Fraction(1), GroupedLaplace(scale=Fraction(10)))] * 2, 0.95))
41.0
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from hush.mechanisms.grouped.noise import Floats, GroupedGaussian, GroupedLaplace, middles, shuffled
from hush.noise import bernoulli

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

    def error(self, confidence: float | Fraction = 0.95) -> int:
        """Return a t with P[|X| ≤ t] ≥ confidence."""
        if self.times <= _MOST_EXACT_NOISES:
            return math.ceil(sum_error([(Fraction(1), self.law)] * self.times, float(confidence)))
        missing = float(1 - confidence)
        if missing < _RAREST_MISS:
            return math.ceil(self._chernoff(missing))
        # Cornish, Fisher: z + (z³ - 3z)·κ₄/24. Laplace noise has the excess 3, a sum of n of them 3/n; Gaussian none.
        z = NormalDist().inv_cdf(1 - missing / 2)
        excess = 3 / self.times if isinstance(self.law, GroupedLaplace) else 0.0
        return math.ceil(math.sqrt(self.variance) * (z + (z**3 - 3 * z) * excess / 24) + 0.5)

    def _chernoff(self, missing: float) -> float:
        """Return min over θ of (n·ln E[e^θX] + ln(2/missing))/θ: P[|X| > t] ≤ 2·E[e^θX]ⁿ·e^(-θt)."""
        target = math.log(2 / missing)
        if isinstance(self.law, GroupedGaussian):  # E[e^θX] ≤ e^(θ²σ²/2) (Canonne, Kamath, Steinke 2020)
            return math.sqrt(2 * target * self.times) * float(self.law.sigma)
        scale = float(self.law.scale)  # E[e^θX] ≤ 1/(1 - θ²·scale²), as of the continuous law
        shares = [step / 200 for step in range(1, 200)]
        return min((target - self.times * math.log1p(-share * share)) * scale / share for share in shares)

    def falls_to(self, share: float) -> int:
        """Return a distance beyond which less than a share of the law lies on either side."""
        return self.error(1 - share / 4)

    def imagine(self, size: int) -> Floats:
        """Return ``size`` imagined noises, spread over the law's quantiles; never to protect anything."""
        if self.times <= _MOST_EXACT_NOISES:
            return np.asarray(np.add.reduce([self.law.imagine(size) for _ in range(self.times)]))
        return shuffled(np.array([_normal_quantile(middle) for middle in middles(size)]) * math.sqrt(self.variance))


def _normal_quantile(middle: float) -> float:
    return NormalDist().inv_cdf((middle + 1) / 2)


def sum_error(parts: Sequence[tuple[Fraction, GroupedNoise | SummedNoise]], confidence: float) -> Fraction:
    """Return the least t with P[|Σ factor·X| ≤ t] ≥ confidence, for independent noises of a kind.

    Gaussians add up to one, but for their lattices, for which half a step of each is added. Of Laplace noises the
    widest has a known tail, and the others are summed over, y being what they add up to:

    P[aX + y > t] = Σ_y P[y] P[X > ⌊(t - y)/a⌋]
    """
    parts = [(abs(factor), law) for factor, law in parts if factor]
    if len(parts) == 1:
        (factor, law), *_ = parts
        return law.error(confidence) * factor
    sums = [law for _, law in parts if isinstance(law, SummedNoise)]
    if sums and sum(law.times for law in sums) + len(parts) - len(sums) > _MOST_EXACT_NOISES:
        return _normal_half_width(parts, confidence)
    parts = [(factor, single) for factor, law in parts for single in _one_by_one(law)]
    if all(isinstance(law, GroupedGaussian) for _, law in parts):
        spread = math.hypot(
            *(float(factor) * float(law.sigma) for factor, law in parts if isinstance(law, GroupedGaussian))
        )
        return (
            Fraction(NormalDist().inv_cdf((1 + confidence) / 2) * spread)
            + sum((factor for factor, _ in parts), Fraction(0)) / 2
        )
    if 1 - confidence < _RAREST_MISS:  # masses are not known that far out: a union bound over the noises
        certain = 1 - (1 - confidence) / len(parts)
        return sum((law.error(certain) * factor for factor, law in parts), Fraction(0))
    scales = [(float(law.scale), float(factor)) for factor, law in parts if isinstance(law, GroupedLaplace)]
    return Fraction(_laplace_half_width(tuple(sorted(scales, key=math.prod)), confidence))


def _one_by_one(law: GroupedNoise | SummedNoise) -> list[GroupedNoise]:
    return [law.law] * law.times if isinstance(law, SummedNoise) else [law]


def _normal_half_width(parts: Sequence[tuple[Fraction, GroupedNoise | SummedNoise]], confidence: float) -> Fraction:
    """Return the half-width of a sum of many noises: Cornish and Fisher's, or a union bound for a rare miss."""
    if 1 - confidence < _RAREST_MISS:
        certain = 1 - (1 - confidence) / len(parts)
        return sum((law.error(certain) * factor for factor, law in parts), Fraction(0))
    variance = fourth = 0.0
    for factor, law in parts:
        variance_of_law = float(factor) ** 2 * law.variance
        times = law.times if isinstance(law, SummedNoise) else 1
        laplace = any(isinstance(single, GroupedLaplace) for single in _one_by_one(law)[:1])
        variance, fourth = variance + variance_of_law, fourth + (3 * variance_of_law**2 / times if laplace else 0.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
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

    >>> step, share = exact_share([(Fraction(1), GroupedLaplace(scale=Fraction(1)))], 0.95)
    >>> step, round(float(share), 3)
    (Fraction(1, 1), 0.505)
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
    """Return ``size`` half-widths; each is shorter by ``less`` with probability ``share``.

    >>> with_shorter(3.0, 1.0, Fraction(1), 2), with_shorter(3.0, 1.0, Fraction(0), 2)
    ([2.0, 2.0], [3.0, 3.0])
    """
    short = bernoulli(share, size=size) if share else [False] * size
    return [width - less if drawn else width for drawn in short]


@lru_cache(maxsize=256)
def _laplace_half_width(scales: tuple[tuple[float, float], ...], confidence: float) -> float:
    rate, step = 1 / scales[-1][0], scales[-1][1]
    points: Floats = np.zeros(1)
    masses: Floats = np.ones(1)
    slack = 0.0
    for (scale, factor), repeats in Counter(scales[:-1]).items():
        further, weights = _points(scale, repeats)
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

    low, high = (
        0.0,
        sum(
            weight * (scale_of_law * math.log(2 * len(scales) / (1 - confidence)) + 1)
            for scale_of_law, weight in scales
        ),
    )
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if outside(middle) <= 1 - confidence else (middle, high)
    return float(f"{high + slack:.9g}")


def _points(scale: float, repeats: int) -> tuple[Floats, Floats]:
    """Return points, multiples of a stride, and the masses of a sum of ``repeats`` noises of one scale there.

    Beyond 16 scales lies 1e-7 of the mass of one.
    """
    stride = max(1, math.ceil(_SCALES_KEPT * scale / _POINTS_OF_A_LAW))
    last = math.ceil(_SCALES_KEPT * scale / stride) + 1
    single: Floats = np.exp(-np.abs(np.arange(-last, last + 1, dtype=np.float64)) * (stride / scale))
    single /= single.sum()
    masses = single
    for _ in range(repeats - 1):
        masses = np.convolve(masses, single)
    return np.arange(-repeats * last, repeats * last + 1, dtype=np.float64) * stride, masses
