"""From statements' rows to exact integers by group: the first column of a row is the number of its group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from hush.engines.base import Exact, Histograms, Sparse
from hush.engines.sql.keys import Axis
from hush.engines.statements import Statement, Statements
from hush.query.plan.statistics import Statistic

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The groups of an answer: all public ones in order, the chosen ones, or, without keys, everything."""

    keys: list[Row]
    grouped: bool

    @classmethod
    def public(cls, axes: Sequence[Axis] | None) -> Groups:
        """Return all combinations of public keys."""
        return cls(keys=list(product(*(axis.values for axis in axes or ()))), grouped=bool(axes))

    def column(self, columns: Sequence[Row], at: int) -> list[int]:
        """Return a column of a statement's results by group, 0 for groups that it does not report."""
        values = [0] * len(self.keys)
        found = columns[at] if columns else ()
        for place, value in zip(columns[0] if self.grouped and columns else range(len(found)), found, strict=True):
            values[place] = value
        return values

    def histograms(self, statement: Statement, rows: Sequence[Row]) -> Histograms:
        """Return each group's histogram."""
        at = int(self.grouped)  # then come the bin, its number of cells where bins differ, and the weight
        table = np.array(rows, dtype=np.int64).reshape(-1, len(statement.labels))
        group = table[:, 0] if self.grouped else np.zeros(len(table), dtype=np.int64)
        order = np.lexsort((table[:, at], group))
        cells = table[order, at + 1] if "cells" in statement.labels else None
        return Histograms(
            joined=Sparse(bins=table[order, at], weights=table[order, -1], cells=cells),
            edges=np.searchsorted(group[order], np.arange(len(self.keys) + 1)),
        )

    def exact(
        self, compiled: Statements, labels: Sequence[str], main: Sequence[Row], others: Iterator[Sequence[Row]]
    ) -> Exact:
        """Return the exact integers: from the main statement's rows, with the names of their columns, and the rest."""
        statistics: dict[Statistic, list[int]] = {}
        wanted, columns = compiled.plan.extraction.statistics, _columns(main)
        for index, item in enumerate(wanted):
            if f"s{index}" in labels:
                statistics[item] = self.column(columns, labels.index(f"s{index}"))
        for index, statement in compiled.distinct:
            statistics[wanted[index]] = self.column(_columns(next(others)), statement.labels.index("s"))
        units = np.array(self.column(columns, labels.index("units")), dtype=np.int64) if "units" in labels else None
        histograms = tuple(self.histograms(item, next(others)) for item in compiled.histograms)
        return Exact(keys=self.keys, units=units, statistics=statistics, histograms=histograms)


def _columns(rows: Sequence[Row]) -> list[Row]:
    return list(zip(*rows, strict=True))
