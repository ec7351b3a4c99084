"""What every engine offers: a plan's exact integers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from hush.query.plan.plan import Extraction, Plan
from hush.query.plan.statistics import Statistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """A histogram of one group: bins in order, and their weights.

    For values of a list the bin is the value's number; on a line it is the number of the first cell of the bin, and
    ``cells`` says how many cells each bin has, where that is not 1.
    """

    bins: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]
    cells: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Histograms(Sequence[Sparse]):
    """Histograms of many groups: as a sequence one a group, and in arrays all of them, group after group."""

    joined: Sparse
    edges: npt.NDArray[np.int64]
    """The first bin of each group, and the number of all."""

    @classmethod
    def of(cls, histograms: Sequence[Sparse]) -> Histograms:
        """Return any sequence of histograms as one of these."""
        if isinstance(histograms, Histograms):
            return histograms
        none = np.zeros(0, dtype=np.int64)
        cells = [np.ones(len(one.bins), np.int64) if one.cells is None else one.cells for one in histograms]
        joined = Sparse(
            bins=np.concatenate([none, *(one.bins for one in histograms)]),
            weights=np.concatenate([none, *(one.weights for one in histograms)]),
            cells=np.concatenate([none, *cells]),
        )
        return cls(joined=joined, edges=_edges([len(one.bins) for one in histograms]))

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """The number of each bin's group."""
        return np.repeat(np.arange(len(self)), np.diff(self.edges))

    def take(self, groups: Sequence[int] | npt.NDArray[np.int64]) -> Histograms:
        """Return the histograms of some groups, in this order."""
        at = np.asarray(groups, dtype=np.int64)
        sizes = np.diff(self.edges)[at]
        edges = _edges(sizes)
        return Histograms(
            joined=self._part(np.arange(edges[-1]) + np.repeat(self.edges[at] - edges[:-1], sizes)), edges=edges
        )

    def _part(self, bins: slice | npt.NDArray[np.int64]) -> Sparse:
        cells = None if self.joined.cells is None else self.joined.cells[bins]
        return Sparse(bins=self.joined.bins[bins], weights=self.joined.weights[bins], cells=cells)

    def __len__(self) -> int:
        return len(self.edges) - 1

    @overload
    def __getitem__(self, group: int) -> Sparse: ...
    @overload
    def __getitem__(self, group: slice) -> Histograms: ...
    def __getitem__(self, group: int | slice) -> Sparse | Histograms:
        if isinstance(group, slice):
            return self.take(range(len(self))[group])
        at = range(len(self))[group]
        return self._part(slice(int(self.edges[at]), int(self.edges[at + 1])))


def _edges(sizes: npt.ArrayLike) -> npt.NDArray[np.int64]:
    return np.append(0, np.cumsum(sizes, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Exact answers, one entry a group. Private: they leave the curator only through noise."""

    keys: Sequence[tuple[Any, ...]]
    """The group keys: all public ones in order, or those of the groups that were wanted, in any order."""
    units: npt.NDArray[np.int64] | None
    """How many units each group has, where keys are chosen privately."""
    statistics: dict[Statistic, list[int]]
    histograms: tuple[Sequence[Sparse], ...]
    """For each of the plan's picks, a histogram a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedRows:
    """The bounded rows of a question as integer codes. Private: nothing of them leaves the curator but through noise.

    Rows come in no particular order, so only what does not depend on their order may be computed from them.
    """

    codes: dict[str, npt.NDArray[Any]]
    """Each column's codes, in the smallest integers that hold them."""
    units: npt.NDArray[np.int64] | None
    """Which rows are one unit's: equal numbers. None where every row is a unit of its own."""

    def __len__(self) -> int:
        return len(next(iter(self.codes.values())))

    def table(self) -> npt.NDArray[Any]:
        """Return the codes as one array, a column for each of the question's."""
        return np.column_stack(list(self.codes.values()))


Choose = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]
"""Says which groups are wanted, given how many units each has. Groups come in parts, each of them once."""


class Engine(Protocol):
    """Where data lives."""

    def run(self, plan: Plan, choose: Choose | None = None) -> Exact:
        """Compute the plan's exact integers; where keys are private, of the groups that are wanted.

        Without ``choose`` these are all that occur, which no answer may show.
        """

    def close(self) -> None:
        """Give back what the engine holds."""


__all__ = ["Choose", "CodedRows", "Engine", "Exact", "Extraction", "Histograms", "Sparse"]
