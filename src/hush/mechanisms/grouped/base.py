"""The inputs of mechanisms for groups: whole numbers, sparse histograms, and the contribution of one unit.

**The number of groups in which neighbours differ: every mechanism for groups is calibrated to it.**

A question answers in groups. One unit counts in at most ``groups`` of them, because its other rows are left out before
anything is computed (`hush.query.plan.stability`), and neighbours differ by ``units``: one that comes or goes, or two
where one is replaced by another. So at most groups·units groups differ between neighbours, its *cells*.

>>> Contribution(groups=3, units=2).cells
6

**Whole numbers of all groups in one array: of 64 bits, or Python's own where 64 bits are too few.**

>>> integer_array([2**62, 1]).dtype, integer_array([2**63]).dtype
(dtype('int64'), dtype('O'))

**Exact sparse histograms of all groups at once: quantiles and modes are drawn from them.**

>>> pair = [Sparse(bins=np.array([2, 5]), weights=np.array([3, 1])), Sparse(bins=np.array([4]), weights=np.array([7]))]
>>> joined = Histograms.of(pair)
>>> joined.joined.bins.tolist(), joined.edges.tolist(), joined[1].weights.tolist()
([2, 5, 4], [0, 2, 3], [7])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting import BoundedRangeEvent, ComposedEvent, Event
from hush.core import integer


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The number of groups that a unit counts in, and the number of units that neighbours differ by."""

    groups: int = 1
    units: int = 1

    def __post_init__(self) -> None:
        integer(self.groups, "groups", minimum=1)
        integer(self.units, "units", minimum=1, maximum=2)

    @property
    def cells(self) -> int:
        """The largest number of groups that differ between neighbours."""
        return self.groups * self.units

    def in_each_group(self, event: Event) -> Event:
        """Return the event of one release in each of a unit's groups."""
        return event if self.groups == 1 else ComposedEvent(parts=[(event, self.groups)])


ONE_GROUP = Contribution()
"""One unit comes or goes, and counts in one group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfHistograms:
    """A mechanism that reads the histograms of all groups: how much the rows of a unit weigh in them."""

    row_weight: int = 1
    """W, the weight of a row of a unit with no more than ``rows`` rows."""
    rows: int = 1
    """The number of rows that one unit counts for in one group, at most."""
    contribution: Contribution = ONE_GROUP

    @property
    def span(self) -> int:
        """M: the most that all weights of a group together change when one unit comes or goes."""
        return self.row_weight * self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnByWeight(OfHistograms):
    """A draw in every group, with probabilities that are exponential in scores."""

    epsilon: Fraction

    @property
    def rate(self) -> Fraction:
        """The factor of scores in the exponent, at which all groups together are ε-DP."""
        return self.epsilon / (self.span * self.contribution.cells)

    @property
    def event(self) -> Event:
        """The privacy event of the draws in all groups: each has bounded range, and ε is that of all together.

        A unit that comes or goes changes at most ``groups`` groups, each within ε/groups. One that replaces another
        changes a group within ε/groups if both are in it, or two groups within half of that each. Two draws of bounded
        range η have, together, bounded range 2η, so the former is the worst.
        """
        return self.contribution.in_each_group(BoundedRangeEvent(epsilon=self.epsilon / self.contribution.groups))


Integers = npt.NDArray[Any]
"""Integers of 64 bits, or Python's own where 64 bits are too few."""


def integer_array(values: Sequence[int] | Integers) -> Integers:
    """Return whole numbers as an array."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array(values, dtype=object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """A histogram of one group: bins in order, and their weights.

    For values of a list the bin is the value's number; on a line it is the number of the first cell of the bin, and
    ``cells`` says how many cells each bin has, where that is not 1.
    """

    bins: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]
    cells: npt.NDArray[np.int64] | None = None

    @classmethod
    def counted(cls, bins: npt.ArrayLike) -> Sparse:
        """Return the histogram of a column of bins.

        >>> Sparse.counted([4, 1, 4]).weights.tolist()
        [1, 2]
        """
        distinct, weights = np.unique(np.asarray(bins), return_counts=True)
        return cls(bins=distinct, weights=weights.astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Histograms(Sequence[Sparse]):
    """Histograms of many groups: a sequence of one histogram a group, stored in joint arrays, group after group."""

    joined: Sparse
    edges: npt.NDArray[np.int64]
    """The first bin of each group, and the number of all."""

    @classmethod
    def of(cls, histograms: Sequence[Sparse]) -> Histograms:
        """Return `Histograms` of any sequence of histograms."""
        if isinstance(histograms, Histograms):
            return histograms
        none = np.zeros(0, dtype=np.int64)
        cells = [np.ones(len(group.bins), np.int64) if group.cells is None else group.cells for group in histograms]
        joined = Sparse(
            bins=np.concatenate([none, *(group.bins for group in histograms)]),
            weights=np.concatenate([none, *(group.weights for group in histograms)]),
            cells=np.concatenate([none, *cells]),
        )
        return cls(joined=joined, edges=_edges([len(group.bins) for group in histograms]))

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """The number of each bin's group."""
        return np.repeat(np.arange(len(self)), np.diff(self.edges))

    def take(self, groups: Sequence[int] | npt.NDArray[np.int64]) -> Histograms:
        """Return the histograms of the numbered groups, in this order."""
        numbers = np.asarray(groups, dtype=np.int64)
        sizes = np.diff(self.edges)[numbers]
        edges = _edges(sizes)
        return Histograms(
            joined=self._select(np.arange(edges[-1]) + np.repeat(self.edges[numbers] - edges[:-1], sizes)), edges=edges
        )

    def _select(self, bins: slice | npt.NDArray[np.int64]) -> Sparse:
        cells = None if self.joined.cells is None else self.joined.cells[bins]
        return Sparse(bins=self.joined.bins[bins], weights=self.joined.weights[bins], cells=cells)

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __getitem__(self, group: Any) -> Any:
        number = range(len(self))[group]  # negative numbers count from the end
        return self._select(slice(int(self.edges[number]), int(self.edges[number + 1])))


def _edges(sizes: npt.ArrayLike) -> npt.NDArray[np.int64]:
    return np.append(0, np.cumsum(sizes, dtype=np.int64))
