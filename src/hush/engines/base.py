"""What every engine offers: a plan's exact integers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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
class Exact:
    """Exact answers, one entry a group. Private: they leave the curator only through noise."""

    keys: Sequence[tuple[Any, ...]]
    """The group keys: all public ones in order, or those of the groups that were wanted, in any order."""
    units: npt.NDArray[np.int64] | None
    """How many units each group has, where keys are chosen privately."""
    statistics: dict[Statistic, list[int]]
    histograms: tuple[list[Sparse], ...]
    """For each of the plan's picks, a histogram a group."""


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


__all__ = ["Choose", "Engine", "Exact", "Extraction", "Sparse"]
