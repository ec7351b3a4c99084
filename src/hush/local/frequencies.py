"""Frequencies of categories from local reports: two oracles, and which one to use.

**Which local frequency oracle to use: the one with the smallest variance whose reports stay small.**

Randomized response while a report of one category is best, subset selection up to 256 categories, projective geometry
response beyond.

>>> type(frequency(epsilon=3, categories=4)).__name__
'RandomizedResponse'
>>> type(frequency(epsilon=1, categories=100)).__name__
'SubsetSelection'
>>> type(frequency(epsilon=1, categories=10**5)).__name__
'ProjectiveGeometry'

**Subset selection: a report is a set of categories that probably holds the true one.**

Ye, Barg 2018; Wang et al. 2016. Report a set of w ≈ k/(e^ε + 1) categories that holds the true one with probability p =
w·e^ε/(w·e^ε + k - w); given that, the others are uniform. For sets S ∋ v and S' ∌ v the ratio of probabilities is
[p/C(k-1,w-1)]/[(1-p)/C(k-1,w)] = e^ε. Its variance is the smallest known; w = 1 is randomized response. A report has w
numbers, so that it suits small domains.

>>> SubsetSelection(epsilon=1, categories=100).size
27

**Optimised local hashing: a report is three small numbers, whatever the domain.**

Wang, Blocki, Li, Jha 2017. Hash the category into g ≈ e^ε + 1 cells by a function drawn for each person, and answer the
cell by randomized response among g. Hash functions are (a·v + b mod P) mod g, P = 2³¹-1: two different categories meet
with probability 1/g up to g/P < 10⁻⁵. Estimating takes a pass over all reports per category;
`hush.local.projective_geometry` is as accurate and decodes at once.

>>> LocalHashing(epsilon=1, categories=1000).cells
4
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import ApproximateDPEvent, RandomizedResponseEvent
from hush.core import InvalidValueError, Number
from hush.core.balls import ball
from hush.local.projective_geometry import ProjectiveGeometry
from hush.mechanisms.base import ordinary
from hush.mechanisms.randomized_response import (
    FrequencyOracle,
    RandomizedResponse,
    read_categories,
    shares,
    unbiased,
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
        p = 1.0 if odds == float("inf") else w * odds / (w * odds + k - w)
        return p, (p * (w - 1) + (1 - p) * w) / (k - 1)

    @property
    def event(self) -> ApproximateDPEvent:
        """Pure ε."""
        return ApproximateDPEvent(epsilon=self.epsilon, delta=0)

    def _report(self, true: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        k, w, epsilon = len(self.categories), self.size, self.epsilon
        holds = noise.bernoulli_exp(
            lambda _bits: (ball(Fraction(k - w, w)) * (-ball(epsilon)).exp() + 1).log(), len(true)
        )
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

    def estimate(self, reports: Any) -> npt.NDArray[np.float64]:
        """Return the unbiased estimate of every category's frequency."""
        sets = list(reports)
        flat = np.concatenate(sets) if sets else np.zeros(0, dtype=np.int64)
        p, q = self.support
        return unbiased(np.bincount(flat, minlength=len(self.categories)), len(sets), p, q)


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
        return (1.0 if odds == float("inf") else odds / (odds + g - 1)), 1 / g

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

    def estimate(self, reports: Any) -> npt.NDArray[np.float64]:
        """Return the estimate of every category's frequency, unbiased up to the hash family's 10⁻⁵."""
        rows = np.asarray(reports, dtype=np.int64)
        if rows.ndim != 2 or rows.shape[1] != 3:
            raise InvalidValueError("reports", got=f"shape {rows.shape}", allowed="one row (a, b, cell) a report")
        supports = np.zeros(len(self.categories), dtype=np.int64)
        a, b, cell = rows.T
        for v in range(len(self.categories)):
            supports[v] = np.count_nonzero((a * v + b) % _PRIME % self.cells == cell)
        p, q = self.support
        return unbiased(supports, len(rows), p, q)
