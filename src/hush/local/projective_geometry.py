r"""Projective geometry response: a frequency oracle for large domains that is nearly optimal and quick to decode.

Feldman, Nelson, Nguyen, Talwar (ICML 2022). Take a prime r near e^ε+1 and the smallest t such that the projective space
over the field of r elements has K = (r^t-1)/(r-1) ≥ k points. A category is a point v; so is a report y. With
probability p the report is uniform among the s = (r^(t-1)-1)/(r-1) points orthogonal to v, else uniform among the
others, with

    p = s·e^ε/(s·e^ε + K - s):

each orthogonal point is e^ε times as likely as each other one. Sets of any two categories have i = (r^(t-2)-1)/(r-1)
points in common, so that all pairs are alike: a report supports another category with probability q = (i·e^ε + s -
i)/(s·e^ε + K - s), and `hush.mechanisms.randomized_response` gives estimates and their errors. s/K is about 1/r, where
1/(e^ε+1) would be optimal: among primes the variance is within 2.5 % of the optimum for ε up to 4. Beyond, a transform
of at most 2²⁵ numbers may not allow the best field: for 10⁵ categories 14 % above the optimum at ε = 5, 2 % at ε = 6.

**Decoding.** The number of reports orthogonal to v, for all v at once, is a Fourier transform over the vectors of
length t. Let h count the reports on each nonzero vector, every report on all r-1 multiples of its point. Then

    Σ_y h(y)·ω^⟨y,v⟩ = Σ_reports Σ_{c≠0} ω^(c⟨y,v⟩) = r·N_v - n,     ω = e^(2πi/r),

which is one FFT of r^t numbers. N_v is a whole number, so rounding removes the float error (below 10⁻³ while n·log(r^t)
< 10¹²).

A report is a number below K: ⌈log₂ K⌉ bits.

>>> oracle = ProjectiveGeometry(epsilon=2, categories=100_000)
>>> oracle.field, oracle.length, oracle.points
(7, 7, 137257)
>>> reports = oracle.release([5] * 2000)
>>> int(oracle.estimate(reports).argmax())
5
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import ApproximateDPEvent
from hush.core import InvalidValueError, Number
from hush.core.balls import ball
from hush.core.values import assign
from hush.mechanisms.base import ordinary
from hush.mechanisms.randomized_response import (
    FrequencyOracle,
    read_categories,
    shares,
    unbiased,
)

__all__ = ["ProjectiveGeometry"]

_MOST_TRANSFORMED = 2**25


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ProjectiveGeometry(FrequencyOracle):
    """Reports a point that is probably orthogonal to the category's own."""

    field: int
    """r, the number of the field's elements: a prime."""
    length: int
    """t, the length of the vectors."""

    def __init__(self, *, epsilon: Number, categories: Any) -> None:
        names, budget = read_categories(categories), ordinary(epsilon, "epsilon")
        field, length = _best_field(shares(budget), len(names))
        assign(self, epsilon=budget, categories=names, field=field, length=length)

    @property
    def points(self) -> int:
        """K, the number of points, and so of different reports."""
        return _points(self.field, self.length)

    @property
    def support(self) -> tuple[float, float]:
        """The probabilities that a report is orthogonal to the true category, and to each other."""
        return _support(self.field, self.length, shares(self.epsilon))

    @property
    def event(self) -> ApproximateDPEvent:
        """Pure ε."""
        return ApproximateDPEvent(epsilon=self.epsilon, delta=0)

    def _report(self, true: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        r, t, count, epsilon = self.field, self.length, len(true), self.epsilon
        total, orthogonal = self.points, _points(r, t - 1)
        odds = Fraction(total - orthogonal, orthogonal)
        holds = noise.bernoulli_exp(lambda _bits: (ball(odds) * (-ball(epsilon)).exp() + 1).log(), count)
        truth = _vectors(np.maximum(true, 0), r, t)
        pivots = (truth != 0).argmax(axis=1)  # where the first 1 stands
        rows = np.arange(count)
        reports = np.empty(count, dtype=np.int64)
        open_rows = rows
        while len(open_rows):
            drawn = noise.uniform_integer(r, (len(open_rows), t)).astype(np.int64)
            # The inner product is to be 0, or uniform and nonzero: the pivot's coordinate is set accordingly.
            product = np.where(holds[open_rows], 0, 1 + noise.uniform_integer(r - 1, len(open_rows)))
            drawn[np.arange(len(open_rows)), pivots[open_rows]] = 0
            partial = (drawn * truth[open_rows]).sum(axis=1) % r
            drawn[np.arange(len(open_rows)), pivots[open_rows]] = (product - partial) % r
            nonzero = drawn.any(axis=1)
            reports[open_rows[nonzero]] = _numbers(drawn[nonzero], r)
            open_rows = open_rows[~nonzero]
        unknown = true < 0
        return np.where(unknown, noise.uniform_integer(total, count), reports)

    def estimate(self, reports: Any) -> npt.NDArray[np.float64]:
        """Return the unbiased estimate of every category's frequency."""
        numbers = np.asarray(reports, dtype=np.int64).ravel()
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < self.points):
            raise InvalidValueError(
                "reports", got="other numbers", allowed=f"whole numbers from 0 to {self.points - 1}"
            )
        p, q = self.support
        return unbiased(self._supports(numbers), len(numbers), p, q)

    def _supports(self, reports: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return for each category the number of reports orthogonal to it, by one Fourier transform."""
        r, t = self.field, self.length
        counts = np.bincount(reports, minlength=self.points)
        reported = np.flatnonzero(counts)
        points = _vectors(reported, r, t)
        weights = r ** np.arange(t - 1, -1, -1)
        cube = np.zeros(r**t)
        # Every nonzero multiple of a point is the same point: h counts the reports at each vector.
        for multiple in range(1, r):
            cube[(points * multiple % r) @ weights] = counts[reported]
        # h is even (y and -y count alike), so its transform is real, and half of it is enough.
        waves = np.fft.rfftn(cube.reshape((r,) * t)).real
        vectors = _vectors(np.arange(len(self.categories)), r, t)
        vectors = np.where(vectors[:, -1:] > r // 2, -vectors % r, vectors)  # v and -v have the same orthogonal points
        supports: npt.NDArray[np.int64] = np.rint((waves[tuple(vectors.T)] + len(reports)) / r).astype(np.int64)
        return supports


def _points(r: int, t: int) -> int:
    return int((r**t - 1) // (r - 1))


def _support(r: int, t: int, odds: float) -> tuple[float, float]:
    total, orthogonal, common = _points(r, t), _points(r, t - 1), _points(r, t - 2)
    if odds == float("inf"):
        return 1.0, common / orthogonal
    scale = orthogonal * odds + total - orthogonal
    return orthogonal * odds / scale, (common * odds + orthogonal - common) / scale


@lru_cache(maxsize=256)
def _best_field(odds: float, categories: int) -> tuple[int, int]:
    """Return the prime r and the length t, at least 3, with the smallest variance."""
    sizes = []
    for r in _primes(4 * min(odds, 2000.0) + 8):
        t = 3
        while _points(r, t) < categories:
            t += 1
        if r**t <= _MOST_TRANSFORMED or r == 2:
            p, q = _support(r, t, odds)
            sizes.append((q * (1 - q) / (p - q) ** 2, r, t))
    _, field, length = min(sizes)
    return field, length


def _primes(limit: float) -> list[int]:
    return [r for r in range(2, int(limit) + 1) if all(r % d for d in range(2, int(r**0.5) + 1))]


def _vectors(numbers: npt.NDArray[np.int64], r: int, t: int) -> npt.NDArray[np.int64]:
    """Return points as vectors; the first nonzero coordinate of each is 1.

    Point number m + (r^j-1)/(r-1), m < r^j, has its 1 before the last j coordinates, which are the digits of m.
    """
    tails = np.array([_points(r, j) if j else 0 for j in range(t + 1)])
    digits = np.searchsorted(tails, numbers, side="right") - 1
    positions = numbers - tails[digits] + np.asarray(r, dtype=np.int64) ** digits
    return np.asarray(positions[:, None] // r ** np.arange(t - 1, -1, -1) % r)


def _numbers(vectors: npt.NDArray[np.int64], r: int) -> npt.NDArray[np.int64]:
    """Return the number of the point that each nonzero vector is a multiple of."""
    t = vectors.shape[1]
    pivots = (vectors != 0).argmax(axis=1)
    inverses = np.array([0, *(pow(c, -1, r) for c in range(1, r))])
    leading = vectors[np.arange(len(vectors)), pivots]
    scaled = vectors * inverses[leading][:, None] % r
    digits = t - 1 - pivots
    tails = np.array([_points(r, j) if j else 0 for j in range(t + 1)])
    positions = scaled @ (r ** np.arange(t - 1, -1, -1))
    return np.asarray(positions - np.asarray(r, dtype=np.int64) ** digits + tails[digits])
