"""Noise laws on the integers: how large the noise is, and how it is drawn.

Both laws are symmetric around 0 and drawn exactly by `hush.noise`.

>>> Laplace(scale=Fraction(10)).half_width(0.95)
30
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy.typing as npt

from hush.noise import discrete_gaussian, discrete_laplace


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace:
    """P[k] ∝ e^(-|k|/scale)."""

    scale: Fraction

    def draw(self, size: int) -> npt.NDArray[Any]:
        """Draw ``size`` independent integers."""
        return discrete_laplace(self.scale, size=size)

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

    @property
    def variance(self) -> float:
        """σ², which the discrete law never exceeds."""
        return float(self.sigma) ** 2

    def half_width(self, confidence: float) -> int:
        """Return the least t with P[|X| ≤ t] ≥ confidence."""
        return _gaussian_half_width(float(self.sigma), confidence)


Law = Laplace | Gaussian


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
