"""Add Laplace noise to a whole number in every group, for all groups at once: pure ε, drawn exactly.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting import ApproximateDPEvent, DiscreteLaplaceEvent, Event
from hush.mechanisms.grouped.contribution import ONE_GROUP, Contribution
from hush.mechanisms.grouped.imagined_noise import Floats, middles, shuffled
from hush.mechanisms.grouped.integers import Integers, exact_sum
from hush.noise import discrete_laplace


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedLaplace:
    """Adds independent discrete Laplace noise of one scale to the whole numbers of all groups."""

    scale: Fraction
    sensitivity: int = 1
    """What one unit changes in one group, in ℓ₁ over the numbers that are noised together."""
    contribution: Contribution = ONE_GROUP

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
        """What an accountant needs."""
        if self.contribution.units > 1:
            return ApproximateDPEvent(epsilon=self.epsilon)
        return self.contribution.in_each_group(DiscreteLaplaceEvent(scale=self.scale, sensitivity=self.sensitivity))

    def release(self, integers: Integers) -> Integers:
        """Return one number of every group with noise."""
        return exact_sum(integers, self.draw(len(integers)))

    def draw(self, size: int) -> npt.NDArray[Any]:
        """Draw the noise of ``size`` groups."""
        return discrete_laplace(self.scale, size=size)

    def imagine(self, size: int) -> Floats:
        """Return the middles of ``size`` equally likely ranges in random order; never to protect anything."""
        return shuffled(_laplace_quantiles(float(self.scale), size))

    @property
    def variance(self) -> float:
        """2r/(1-r)², r = e^(-1/scale)."""
        half = 1 / (2 * float(self.scale))
        return 0.0 if half > 350 else 0.5 / math.sinh(half) ** 2

    def error(self, confidence: float | Fraction = 0.95) -> int:
        """Return the least t with P[|X| ≤ t] ≥ confidence, from P[|X| > t] = 2r^(t+1)/(1+r)."""
        rate = 1 / float(self.scale)
        tail = float(1 - confidence) * (1 + math.exp(-rate)) / 2
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


@lru_cache(maxsize=256)
def _laplace_quantiles(scale: float, size: int) -> Floats:
    """Return them like `GroupedLaplace.error`."""
    places = middles(size)
    tails = (1 - np.abs(places)) * ((1 + math.exp(-1 / scale)) / 2)
    return np.asarray(np.sign(places) * np.maximum(np.ceil(-np.log(tails) * scale - 1e-12) - 1, 0))
