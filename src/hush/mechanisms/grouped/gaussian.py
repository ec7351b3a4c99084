r"""Add Gaussian noise to a whole number in every group, for all groups at once: zero-concentrated DP, drawn exactly.

Noise k has probability ∝ e^(-k²/2σ²). A unit changes a statistic by ``sensitivity`` = b in one group, so neighbours
differ by at most Δ₂ = units·√groups·b in ℓ₂, whatever the shape of the change. Discrete Gaussian noise is Δ₂²/2σ²-zCDP
on vectors of integers (Canonne, Kamath, Steinke 2020, Theorem 4 and composition over coordinates), and ρ-zCDP implies
(ε,δ) for

    δ = e^{(α-1)(αρ-ε)}·(1-1/α)^α/(α-1),     any α > 1

(their Corollary 13). Where a single number changes, the event is the discrete law itself.

>>> noise = GroupedGaussian.for_rho(zcdp_budget(Fraction(1), Fraction(1, 10**6)), contribution=Contribution(groups=4))
>>> round(float(noise.sigma), 2), noise.error(0.95)
(9.06, 18)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting import DiscreteGaussianEvent, Event, ZCDPEvent
from hush.mechanisms.grouped.contribution import ONE_GROUP, Contribution
from hush.mechanisms.grouped.imagined_noise import Floats, middles, shuffled
from hush.mechanisms.grouped.integers import Integers, exact_sum
from hush.noise import discrete_gaussian

_WIDE = 100
"""From this σ on the continuous law stands for the discrete one in error bars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedGaussian:
    """Adds independent discrete Gaussian noise of one σ to the whole numbers of all groups."""

    sigma: Fraction
    sensitivity: int = 1
    """What one unit changes in one group, in ℓ₂ over the numbers that are noised together."""
    contribution: Contribution = ONE_GROUP
    numbers: int = 1
    """How many numbers of a group are noised together."""

    @classmethod
    def for_rho(
        cls, rho: Fraction, *, sensitivity: int = 1, contribution: Contribution = ONE_GROUP, numbers: int = 1
    ) -> GroupedGaussian:
        """Return the noise at which all groups together are ρ-zCDP; σ is rounded up at twelve digits."""
        variance = Fraction(squared_sensitivity(sensitivity, contribution)) / (2 * rho)
        scale = 10 ** max(0, 13 - len(str(int(variance))) // 2)
        root = math.isqrt(math.ceil(variance * scale * scale) - 1) + 1
        return cls(sigma=Fraction(root, scale), sensitivity=sensitivity, contribution=contribution, numbers=numbers)

    @property
    def event(self) -> Event:
        """What an accountant needs."""
        if self.contribution.cells == self.numbers == 1:
            return DiscreteGaussianEvent(sigma=self.sigma, sensitivity=self.sensitivity)
        return ZCDPEvent(rho=squared_sensitivity(self.sensitivity, self.contribution) / (2 * self.sigma**2))

    def release(self, integers: Integers) -> Integers:
        """Return one number of every group with noise."""
        return exact_sum(integers, self.draw(len(integers)))

    def draw(self, size: int) -> npt.NDArray[Any]:
        """Draw the noise of ``size`` groups."""
        return discrete_gaussian(self.sigma, size=size)

    def imagine(self, size: int) -> Floats:
        """Return the middles of ``size`` equally likely ranges in random order; never to protect anything."""
        return shuffled(_gaussian_quantiles(float(self.sigma), size))

    @property
    def variance(self) -> float:
        """σ², which the discrete law never exceeds."""
        return float(self.sigma) ** 2

    def error(self, confidence: float = 0.95) -> int:
        """Return the least t with P[|X| ≤ t] ≥ confidence."""
        sigma = float(self.sigma)
        if sigma > _WIDE:
            return math.ceil(NormalDist().inv_cdf((1 + confidence) / 2) * sigma)
        return bisect_left(_within(sigma), confidence)

    def within(self, t: int) -> float:
        """Return P[|X| ≤ t]; where σ > 100 that of the continuous law half a step further, which is within 1e-5."""
        sigma = float(self.sigma)
        if sigma > _WIDE:
            return 2 * NormalDist().cdf((t + 0.5) / sigma) - 1
        within = _within(sigma)
        return within[min(t, len(within) - 1)]

    def falls_to(self, share: float) -> int:
        """Return where the law has fallen to a share of its maximum."""
        return math.ceil(float(self.sigma) * math.sqrt(-2 * math.log(share)))


def squared_sensitivity(sensitivity: int, contribution: Contribution) -> int:
    """Return Δ₂², the square of how far neighbours' vectors over all groups are apart."""
    return contribution.units**2 * contribution.groups * sensitivity**2


@lru_cache(maxsize=256)
def zcdp_budget(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a ρ, rounded down, such that ρ-zCDP implies (ε,δ)-DP; 0 if none was found."""
    target, log_delta = float(epsilon), math.log(delta.numerator) - math.log(delta.denominator)

    def rho(alpha: float) -> float:
        cost = math.log(alpha - 1) - alpha * math.log1p(-1 / alpha)
        return (target + (log_delta + cost) / (alpha - 1)) / alpha

    # any order gives a valid ρ; the best lies near 1 + ln(1/δ)/ε
    middle = 1 + 2 * max(1.0, -log_delta) / target
    orders = [1 + (middle - 1) * 2 ** (step / 32) for step in range(-160, 65)]
    best = max(map(rho, orders))
    if best <= 0:
        return Fraction(0)
    digits = 10 - math.floor(math.log10(best))
    return Fraction(math.floor(best * (1 - 1e-9) * 10**digits), 10**digits)


@lru_cache(maxsize=256)
def _within(sigma: float) -> tuple[float, ...]:
    """Return P[|X| ≤ t] for t = 0, 1, … up to twelve σ."""
    masses = [math.exp(-k * k / (2 * sigma * sigma)) for k in range(int(12 * sigma) + 2)]
    inside = list(accumulate([masses[0], *(2 * mass for mass in masses[1:])]))
    return tuple(mass / inside[-1] for mass in inside)


@lru_cache(maxsize=256)
def _gaussian_quantiles(sigma: float, size: int) -> Floats:
    """Return those of the discrete law; where σ > 100 those of the continuous one, moved to whole numbers."""
    if sigma > _WIDE:
        return np.asarray(np.rint(_normal_quantiles(size) * sigma))
    places = middles(size)
    return np.asarray(np.sign(places) * np.searchsorted(_within(sigma), np.abs(places)))


@lru_cache(maxsize=16)
def _normal_quantiles(size: int) -> Floats:
    return np.array([NormalDist().inv_cdf((place + 1) / 2) for place in middles(size).tolist()])
