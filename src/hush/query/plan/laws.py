"""Noise laws on the integers: how large the noise is, and how it is drawn.

Both laws are symmetric around 0 and drawn exactly by `hush.noise`.

>>> Laplace(scale=Fraction(10)).half_width(0.95)
30
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.noise import discrete_gaussian, discrete_laplace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace:
    """P[k] ∝ e^(-|k|/scale)."""

    scale: Fraction

    def draw(self, size: int) -> npt.NDArray[Any]:
        """Draw ``size`` independent integers."""
        return discrete_laplace(self.scale, size=size)

    def imagine(self, size: int) -> npt.NDArray[np.float64]:
        """Draw numbers of nearly this law, to find out how far answers may be off; never to protect anything."""
        unit = _unit(self.scale)
        return np.asarray(discrete_laplace(self.scale / unit, size=size), dtype=np.float64) * unit

    @property
    def variance(self) -> float:
        """2r/(1-r)², r = e^(-1/scale)."""
        half = 1 / (2 * float(self.scale))
        return 0.0 if half > 350 else 0.5 / math.sinh(half) ** 2

    def half_width(self, confidence: float) -> int:
        """Return the least t with P[|X| ≤ t] ≥ confidence, from P[|X| > t] = 2r^(t+1)/(1+r)."""
        rate = 1 / float(self.scale)
        tail = (1 - confidence) * (1 + math.exp(-rate)) / 2
        return max(0, math.ceil(-math.log(tail) / rate - 1e-12) - 1) if tail < 1 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """P[k] ∝ e^(-k²/2σ²)."""

    sigma: Fraction

    def draw(self, size: int) -> npt.NDArray[Any]:
        """Draw ``size`` independent integers."""
        return discrete_gaussian(self.sigma, size=size)

    def imagine(self, size: int) -> npt.NDArray[np.float64]:
        """Draw numbers of nearly this law, to find out how far answers may be off; never to protect anything."""
        unit = _unit(self.sigma)
        return np.asarray(discrete_gaussian(self.sigma / unit, size=size), dtype=np.float64) * unit

    @property
    def variance(self) -> float:
        """σ², which the discrete law never exceeds."""
        return float(self.sigma) ** 2

    def half_width(self, confidence: float) -> int:
        """Return the least t with P[|X| ≤ t] ≥ confidence."""
        return _gaussian_half_width(float(self.sigma), confidence)


Law = Laplace | Gaussian


def _unit(scale: Fraction) -> int:
    """Return a power of two that leaves 20 bits of a scale: numbers of that size are drawn quickest."""
    return int(2 ** max(0, int(scale).bit_length() - 20))


def half_width(parts: Sequence[tuple[Fraction, Law]], confidence: float) -> Fraction:
    """Return the least t with P[|Σ factor·X| ≤ t] ≥ confidence, for independent noises of a kind.

    Gaussians add up to one, but for their lattices, for which half a step of each is added. Of Laplace noises the
    widest has a known tail, and the others are summed over, y being what they add up to:

    P[aX + y > t] = Σ_y P[y] P[X > ⌊(t - y)/a⌋]

    >>> float(half_width([(Fraction(1), Laplace(scale=Fraction(10)))] * 2, 0.95))
    41.0
    """
    parts = [(abs(factor), law) for factor, law in parts if factor]
    if len(parts) == 1:
        (factor, law), *_ = parts
        return law.half_width(confidence) * factor
    if all(isinstance(law, Gaussian) for _, law in parts):
        spread = math.hypot(*(float(factor) * float(law.sigma) for factor, law in parts if isinstance(law, Gaussian)))
        return (
            Fraction(NormalDist().inv_cdf((1 + confidence) / 2) * spread)
            + sum((factor for factor, _ in parts), Fraction(0)) / 2
        )
    scales = [(float(law.scale), float(factor)) for factor, law in parts if isinstance(law, Laplace)]
    return Fraction(_laplace_half_width(tuple(sorted(scales, key=math.prod)), confidence))


_POINTS = 512
_FAR = 16


@lru_cache(maxsize=256)
def _laplace_half_width(scales: tuple[tuple[float, float], ...], confidence: float) -> float:
    rate, step = 1 / scales[-1][0], scales[-1][1]
    points: Floats = np.zeros(1)
    masses: Floats = np.ones(1)
    slack = 0.0
    for (scale, factor), many in Counter(scales[:-1]).items():
        further, weights = _points(scale, many)
        points = np.add.outer(points, further * factor).ravel()
        masses = np.multiply.outer(masses, weights).ravel()
        if len(points) > 16 * _POINTS:  # move them to fewer places, by half the distance of two at most
            width = (points.max() - points.min()) / (16 * _POINTS)
            places = np.rint((points - points.min()) / width).astype(np.int64)
            masses = np.bincount(places, masses).astype(np.float64)
            points = np.arange(len(masses)) * width + points.min()
            slack += width / 2

    def outside(t: float) -> float:
        beyond = np.floor((t - points) / step)
        tail = np.exp(-rate * (np.abs(beyond + 0.5) + 0.5)) / (1 + math.exp(-rate))  # P[X > k], or P[X ≤ k] for k < 0
        return 2 * float(masses @ np.where(beyond >= 0, tail, 1 - tail))

    low, high = 0.0, sum(weight * (one * math.log(2 * len(scales) / (1 - confidence)) + 1) for one, weight in scales)
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if outside(middle) <= 1 - confidence else (middle, high)
    return float(f"{high + slack:.9g}")


def _points(scale: float, many: int) -> tuple[Floats, Floats]:
    """Return whole numbers, or some of them, and the masses of a sum of ``many`` noises of one scale there.

    Beyond 16 scales lies 1e-7 of the mass of one.
    """
    stride = max(1, math.ceil(_FAR * scale / _POINTS))
    last = math.ceil(_FAR * scale / stride) + 1
    one: Floats = np.exp(-np.abs(np.arange(-last, last + 1, dtype=np.float64)) * (stride / scale))
    one /= one.sum()
    masses = one
    for _ in range(many - 1):
        masses = np.convolve(masses, one)
    return np.arange(-many * last, many * last + 1, dtype=np.float64) * stride, masses


@lru_cache(maxsize=256)
def _gaussian_half_width(sigma: float, confidence: float) -> int:
    if sigma > 100:
        return math.ceil(NormalDist().inv_cdf((1 + confidence) / 2) * sigma)
    masses = [math.exp(-k * k / (2 * sigma * sigma)) for k in range(int(12 * sigma) + 2)]
    whole = masses[0] + 2 * sum(masses[1:])
    inside = 0.0
    for k, mass in enumerate(masses):
        inside += mass if k == 0 else 2 * mass
        if inside >= confidence * whole:
            return k
    return len(masses)
