"""What every engine offers: a plan's exact integers, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
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
    """The group keys: all public ones in order, or those that occur."""
    units: npt.NDArray[np.int64] | None
    """How many units each group has, where keys are chosen privately."""
    statistics: dict[Statistic, list[int]]
    histograms: tuple[list[Sparse], ...]
    """For each of the plan's picks, a histogram a group."""


class Engine(Protocol):
    """Where data lives."""

    def run(self, plan: Plan) -> Exact:
        """Compute the plan's exact integers."""

    def close(self) -> None:
        """Give back what the engine holds."""


__all__ = ["Engine", "Exact", "Extraction", "Sparse"]
