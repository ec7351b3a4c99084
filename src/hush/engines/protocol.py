"""The results of an engine (`hush.engines.sql_engine.SqlEngine`), and how much there is to do for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hush.mechanisms.grouped.base import Histograms, Integers, Sparse
from hush.query.plan.stability import Statistic


class Exact(NamedTuple):
    """Exact answers, one entry a group. Private: they leave the curator only through noise."""

    keys: Sequence[tuple[Any, ...]]
    """The group keys: all public ones in order, or those of the groups that were wanted, in any order."""
    units: npt.NDArray[np.int64] | None
    """How many units each group has, where keys are chosen privately."""
    statistics: dict[Statistic, Integers]
    """An array for each, as it goes on into the noise: of 64 bits, or of Python's integers where those do not do."""
    histograms: tuple[Sequence[Sparse], ...]
    """For each of the plan's picks, a histogram a group."""

    def only(self, shown: Sequence[int] | None) -> Exact:
        """Return the public groups that are answered; None for all."""
        if shown is None:
            return self
        places = np.array(shown, dtype=np.int64)
        return Exact(
            keys=[self.keys[place] for place in shown],
            units=None,
            statistics={statistic: values[places] for statistic, values in self.statistics.items()},
            histograms=tuple(Histograms.of(bins).take(places) for bins in self.histograms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedRows:
    """The bounded rows of a question as integer codes. Private: they leave the curator only through noise.

    Rows come in no particular order, so only what does not depend on their order may be computed from them.
    """

    codes: dict[str, npt.NDArray[Any]]
    """Each column's codes, in the smallest integers that hold them."""
    units: npt.NDArray[np.int64] | None
    """Which rows are one unit's: equal numbers. None where every row is a unit of its own."""

    def __len__(self) -> int:
        return len(next(iter(self.codes.values())))


Choose = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]
"""Chooses groups by their numbers of units. Groups come in batches, each group once."""


TIMEOUT = 600.0
"""Seconds that a statement may take unless somebody says otherwise."""


class Pace(NamedTuple):
    """How fast an engine is, rather too slow than too fast."""

    statement: float = 0.02
    """Seconds that a statement takes however few rows there are."""
    row: int = 1
    """How many times as long as the embedded engine it takes for a row."""


class Effort(NamedTuple):
    """How much there is to do for a question, by public figures alone: a service answers when that time is over.

    The figures are generous, because an answer that is not ready then shows it. Measured on 2 cores of an AMD EPYC,
    `hush.engines.work` bounds 4 to 20 times what rows of numbers took, and up to 250 times what rows with short texts
    took: it has the longest texts in it. So half of it counts, and no more than a microsecond for each row and
    statement, and a quarter for each statistic. Without rows, it is about four times what questions on 1,000 rows took
    (`benchmarks/small.py`).
    """

    work: int
    """Nanoseconds for a row, in all statements."""
    statements: int
    rows: Callable[[Mapping[str, int]], float]
    """Says how many rows there are after all joins, if each table has the given number."""
    pace: Pace
    statistics: int = 0
    """How many numbers are computed for a group."""
    picks: int = 0
    """How many numbers are drawn from a histogram, which the engine returns."""
    groups: int = 1

    def seconds(self, sizes: Mapping[str, int]) -> float:
        """Return after how many seconds the answer should be there, if each table has the given number of rows.

        >>> small = Effort(work=284, statements=1, rows=lambda sizes: sizes["t"], pace=Pace(), statistics=1)
        >>> [round(small.seconds({"t": size}), 3) for size in (1000, 10**6)]
        [0.06, 0.202]
        """
        rows = self.rows(sizes)
        each = min(self.work // 2, 1000 * max(self.statements, 1) + 250 * self.statistics)
        inside = self.pace.statement * self.statements + 1e-9 * self.pace.row * each * rows
        bins = min(rows, _BINS * self.groups)
        return (
            _LEAST + inside + _NUMBER * self.groups * self.statistics + self.picks * (_PICK * self.groups + _BIN * bins)
        )


_LEAST, _NUMBER, _PICK, _BIN = 0.04, 2e-5, 5e-4, 6e-6
"""Seconds for a question, a noisy number, a number that is picked, and a bin of its histogram."""
_BINS = 2**12
DEFAULT_ROWS = 10**5
"""The number of rows that is assumed for a table without a declared one."""


__all__ = ["Choose", "CodedRows", "Effort", "Exact", "Histograms", "Pace", "Sparse"]
