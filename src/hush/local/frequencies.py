r"""Frequencies of categories from local reports: three oracles, and which one to use.

The one with the smallest variance whose reports stay small. Randomized response while a report of one category is best,
subset selection up to 256 categories, projective geometry response beyond.

>>> [type(frequency(epsilon=1, categories=k)).__name__ for k in (3, 100, 10**5)]
['RandomizedResponse', 'SubsetSelection', 'ProjectiveGeometry']

**Subset selection**: a report is a set of categories that probably holds the true one. Ye, Barg 2018; Wang et al. 2016.
Report a set of w ≈ k/(e^ε + 1) categories that holds the true one with probability p = w·e^ε/(w·e^ε + k - w); given
that, the others are uniform. For sets S ∋ v and S' ∌ v the ratio of probabilities is [p/C(k-1,w-1)]/[(1-p)/C(k-1,w)] =
e^ε. Its variance is the smallest known; w = 1 is randomized response. A report has w numbers, so that it suits small
domains.

**Optimised local hashing**: a report is three small numbers, whatever the domain. Wang, Blocki, Li, Jha 2017. Hash the
category into g ≈ e^ε + 1 cells by a function drawn for each person, and answer the cell by randomized response among g.
Hash functions are (a·v + b mod P) mod g, P = 2³¹-1: two different categories meet with probability 1/g up to g/P <
10⁻⁵. Estimating takes a pass over all reports per category; projective geometry response is as accurate and decodes at
once.

**Projective geometry response**, for large domains, is nearly optimal and quick to decode. Feldman, Nelson, Nguyen,
Talwar (ICML 2022). Take a prime r near e^ε+1 and the smallest t such that the projective space over the field of r
elements has K = (r^t-1)/(r-1) ≥ k points. A category is a point v; so is a report y. With probability p the report is
uniform among the s = (r^(t-1)-1)/(r-1) points orthogonal to v, else uniform among the others, with

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
from hush.accounting import ApproximateDPEvent, RandomizedResponseEvent
from hush.core import InvalidValueError, Number
from hush.core.numbers import assign
from hush.mechanisms.base import ordinary
from hush.mechanisms.randomized_response import (
    FrequencyOracle,
    RandomizedResponse,
    coins,
    read_categories,
    shares,
)

_MOST_TRANSFORMED = 2**25


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ProjectiveGeometry(FrequencyOracle):
    """Reports a point that is probably orthogonal to the category's own."""

    field: int
    """r, the number of the field's elements: a prime."""
    length: int
    """t, the length of the vectors."""

    def __init__(self, *, epsilon: Number, categories: Any) -> None:
        names, budget = tuple(read_categories(categories)), ordinary(epsilon, "epsilon")
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

    def _report(self, true: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        r, t, count = self.field, self.length, len(true)
        total, orthogonal = self.points, _points(r, t - 1)
        holds = coins(self.epsilon, Fraction(total - orthogonal, orthogonal), count)
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

    def _supports(self, reports: Any) -> tuple[npt.NDArray[np.int64], int]:
        """Return for each category the number of reports orthogonal to it, by one Fourier transform."""
        numbers, r, t = report_numbers(reports, self.points), self.field, self.length
        counts = np.bincount(numbers, minlength=self.points)
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
        return np.rint((waves[tuple(vectors.T)] + len(numbers)) / r).astype(np.int64), len(numbers)


def report_numbers(reports: Any, limit: int) -> npt.NDArray[np.int64]:
    """Return reports as an array of whole numbers below a limit."""
    numbers = np.asarray(reports, dtype=np.int64).ravel()
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < limit):
        raise InvalidValueError("reports", got="other numbers", allowed=f"whole numbers from 0 to {limit - 1}")
    return numbers


def _points(r: int, t: int) -> int:
    return int((r**t - 1) // (r - 1))


def _support(r: int, t: int, odds: float) -> tuple[float, float]:
    total, orthogonal, common = _points(r, t), _points(r, t - 1), _points(r, t - 2)
    scale = orthogonal * odds + total - orthogonal
    return orthogonal * odds / scale, (common * odds + orthogonal - common) / scale


@lru_cache(maxsize=256)
def _best_field(odds: float, categories: int) -> tuple[int, int]:
    """Return the prime r and the length t, at least 3, with the smallest variance."""
    sizes = []
    for r in range(2, int(4 * min(odds, 2000.0) + 8) + 1):
        if not all(r % d for d in range(2, int(r**0.5) + 1)):  # no prime
            continue
        t = 3
        while _points(r, t) < categories:
            t += 1
        if r**t <= _MOST_TRANSFORMED or r == 2:
            p, q = _support(r, t, odds)
            sizes.append((q * (1 - q) / (p - q) ** 2, r, t))
    _, field, length = min(sizes)
    return field, length


def _vectors(numbers: npt.NDArray[np.int64], r: int, t: int) -> npt.NDArray[np.int64]:
    """Return points as vectors; the first nonzero coordinate of each is 1.

    Point number m + (r^j-1)/(r-1), m < r^j, has its 1 before the last j coordinates, which are the digits of m.
    """
    tails = np.array([_points(r, j) for j in range(t + 1)])
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
    positions = scaled @ (r ** np.arange(t - 1, -1, -1))
    return np.asarray(
        positions - np.asarray(r, dtype=np.int64) ** digits + np.array([_points(r, j) for j in range(t)])[digits]
    )


_MOST_CATEGORIES_OF_SUBSETS = 256


def frequency(*, epsilon: Number, categories: Any) -> RandomizedResponse | SubsetSelection | ProjectiveGeometry:
    """Return the local oracle for the frequencies of categories.

    ``categories`` is a number k (the answers are 0 … k-1) or a list of names. A person's device calls ``release``;
    whoever collects the reports calls ``estimate`` and ``error``.

    >>> import hush
    >>> type(hush.frequency_oracle(epsilon=5, categories=3)).__name__
    'RandomizedResponse'
    """
    names, budget = read_categories(categories), ordinary(epsilon, "epsilon")
    if subset_size(budget, len(names)) == 1:
        return RandomizedResponse(epsilon=budget, categories=names)
    if len(names) <= _MOST_CATEGORIES_OF_SUBSETS:
        return SubsetSelection(epsilon=budget, categories=names)
    return ProjectiveGeometry(epsilon=budget, categories=names)


def subset_size(epsilon: Fraction, k: int) -> int:
    """Return w, the whole number nearest to k/(e^ε+1), at least 1 and below k. Any w is private."""
    return min(max(1, round(k / (shares(epsilon) + 1))), k - 1)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SubsetSelection(FrequencyOracle):
    """Reports a random set of categories that probably holds the true one.

    >>> import hush
    >>> hush.SubsetSelection(epsilon=1, categories=100).size
    27
    """

    @property
    def size(self) -> int:
        """The number of categories in a report."""
        return subset_size(self.epsilon, len(self.categories))

    @property
    def support(self) -> tuple[float, float]:
        """The probabilities that a report holds the true category, and each other."""
        k, w, odds = len(self.categories), self.size, shares(self.epsilon)
        p = w * odds / (w * odds + k - w)
        return p, (p * (w - 1) + (1 - p) * w) / (k - 1)

    def _report(self, true: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        k, w = len(self.categories), self.size
        holds = coins(self.epsilon, Fraction(k - w, w), len(true))
        # The true category is in the set with probability w·e^ε/(w·e^ε + k - w); the other members are uniform.
        reports = []
        for code, included in zip(true.tolist(), holds.tolist(), strict=True):
            order = noise.permutation(k)
            if code < 0:
                # An unknown answer: a uniform set is the mean of all categories' laws, so no ratio exceeds e^ε.
                members = order[:w]
            else:
                rivals = order[order != code]
                members = np.append(rivals[: w - 1], code) if included else rivals[:w]
            reports.append(np.sort(members))
        return reports

    def _supports(self, reports: Any) -> tuple[npt.NDArray[np.int64], int]:
        sets = list(reports)
        flat = np.concatenate(sets) if sets else np.zeros(0, dtype=np.int64)
        return np.bincount(flat, minlength=len(self.categories)), len(sets)


_PRIME = 2**31 - 1
_MOST_CELLS = 2**14


@dataclass(frozen=True, slots=True, init=False, repr=False)
class LocalHashing(FrequencyOracle):
    """Reports a randomly hashed category: (a, b, cell), the same size for every domain.

    >>> import hush
    >>> hush.LocalHashing(epsilon=1, categories=1000).cells
    4
    """

    @property
    def cells(self) -> int:
        """g, the whole number nearest to e^ε + 1, from 2 to 16384. Any g is private."""
        return int(min(max(2, round(min(shares(self.epsilon), 1e9)) + 1), _MOST_CELLS))

    @property
    def support(self) -> tuple[float, float]:
        """The probabilities that a report's cell is that of the true category, and of each other."""
        odds, g = shares(self.epsilon), self.cells
        return odds / (odds + g - 1), 1 / g

    @property
    def event(self) -> RandomizedResponseEvent | ApproximateDPEvent:
        """One response among g: the hash function is public and independent of the answer.

        With two cells this is pure ε, not a binary response: shuffled reports with a hash function each show more than
        how many cells were 1.
        """
        if self.cells == 2:
            return ApproximateDPEvent(epsilon=self.epsilon, delta=0)
        return RandomizedResponseEvent(epsilon=self.epsilon, choices=self.cells)

    def _report(self, true: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        count = len(true)
        # h(v) = (a·v + b mod p) mod g: a public hash function of the family of Carter and Wegman, drawn anew.
        a = 1 + noise.uniform_integer(_PRIME - 1, count)
        b = noise.uniform_integer(_PRIME, count)
        hashed = (a * np.maximum(true, 0) + b) % _PRIME % self.cells
        hashed[true < 0] = -1
        cell = RandomizedResponse(epsilon=self.epsilon, categories=self.cells).release(hashed)
        return np.stack([a, b, cell], axis=1).astype(np.int64)

    def _supports(self, reports: Any) -> tuple[npt.NDArray[np.int64], int]:
        rows = np.asarray(reports, dtype=np.int64)
        if rows.ndim != 2 or rows.shape[1] != 3:
            raise InvalidValueError("reports", got=f"shape {rows.shape}", allowed="one row (a, b, cell) a report")
        a, b, cell = rows.T
        hashed = ((a * v + b) % _PRIME % self.cells for v in range(len(self.categories)))
        return np.array([np.count_nonzero(cells == cell) for cells in hashed]), len(rows)
