"""What every engine offers: a plan's exact integers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hush.mechanisms.grouped.histograms import Histograms, Sparse
from hush.query.plan.plan import Extraction, Plan
from hush.query.plan.statistics import Statistic


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
