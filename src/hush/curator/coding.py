"""A release's columns: codes of the policy's grid, neighbours grouped where there are too many, and their values again.

A column on a line may have millions of codes, such as amounts in cents. For a release its neighbours are put into
groups of one public width, so that there are at most `MAX_GROUPED`. Values are drawn uniformly within a group, on the
grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError
from hush.core.optional import optional
from hush.engines.base import CodedRows
from hush.query.plan.rows import CodedColumn, RowPlan
from hush.query.types import Kind
from hush.report import files
from hush.report.columns import AnswerColumn, uniform
from hush.synth import CodedTable, Domain
from hush.synth.model import Draws

MAX_GROUPED = 256
MAX_LISTED = 2**16


@dataclass(frozen=True)
class ReleaseColumn:
    """One column of a release."""

    coded: CodedColumn
    width: int
    """How many neighbouring codes are one code here."""

    @classmethod
    def of(cls, coded: CodedColumn) -> ReleaseColumn:
        """Return a column, grouped if it lies on a line with many points."""
        if coded.factor is None:
            if coded.levels > MAX_LISTED:
                raise InvalidValueError(
                    "column", got=f"{coded.name} with {coded.levels:,} values", allowed=f"at most {MAX_LISTED:,} values"
                )
            return cls(coded, 1)
        return cls(coded, -(-coded.levels // MAX_GROUPED) if coded.levels > MAX_GROUPED else 1)

    @property
    def name(self) -> str:
        """The column's name."""
        return self.coded.name

    @property
    def groups(self) -> int:
        """How many codes stand for values."""
        return -(-self.coded.levels // self.width)

    @property
    def size(self) -> int:
        """How many codes there are, with that of NULL."""
        return self.groups + self.coded.null

    def grouped(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the release's codes of the engine's codes."""
        if self.width == 1:
            return codes.astype(np.int64)
        missing = codes >= self.coded.levels
        return np.where(missing, self.groups, codes.astype(np.int64) // self.width)

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """The value of each code; of a group of neighbours the first."""
        first = [self.coded.value(code * self.width) for code in range(self.groups)]
        return uniform([*first, *([None] if self.coded.null else [])], self.coded.type.kind)

    def drawn(self, codes: npt.NDArray[np.int64], draws: Draws) -> Any:
        """Return a value for each code, as an Arrow array; within a group any point of the grid is as likely."""
        pa = optional("pyarrow", "arrow")
        if self.width == 1:
            listed = files.arrow([AnswerColumn(name=self.name, kind=self.coded.type.kind, values=self.values)])
            return listed.column(0).take(pa.array(codes)).combine_chunks()
        factor, kind = self.coded.factor, self.coded.type.kind
        assert factor is not None  # noqa: S101 - only columns on a line are grouped
        inside = (draws.words(len(codes)) % np.uint64(self.width)).astype(np.int64)
        places = np.minimum(codes * self.width + inside, self.coded.levels - 1) + factor.first
        missing = codes >= self.groups
        above, below = factor.step.numerator, factor.step.denominator
        if kind is Kind.DATE:
            return pa.array((places * above // below).astype(np.int32), mask=missing).cast(pa.date32())
        if kind is Kind.TIMESTAMP:
            return pa.array(places * above // below, type=pa.timestamp("us"), mask=missing)
        # i·p/q as one division of integers below 2⁵³ is the nearest float, as everywhere
        return pa.array(places * above if below == 1 else places * above / below, mask=missing)

    def key(self, codes: Sequence[int]) -> AnswerColumn:
        """Return the column of an answer that shows these codes."""
        chosen = tuple(self.values[code] for code in codes)
        return AnswerColumn(name=self.name, kind=self.coded.type.kind, values=chosen)


@dataclass(frozen=True)
class Coding:
    """All columns of a release, and the domain that they make."""

    columns: tuple[ReleaseColumn, ...]

    @classmethod
    def of(cls, plan: RowPlan) -> Coding:
        """Return the coding of a plan's rows."""
        return cls(tuple(ReleaseColumn.of(column) for column in plan.columns))

    @cached_property
    def domain(self) -> Domain:
        """The public domain."""
        return Domain.of(
            {column.name: column.size for column in self.columns},
            ordered=[column.name for column in self.columns if column.coded.ordered],
            nulls=[column.name for column in self.columns if column.coded.null],
        )

    def table(self, rows: CodedRows) -> CodedTable:
        """Return an engine's rows with the release's codes."""
        return CodedTable.of(
            self.domain, {column.name: column.grouped(rows.codes[column.name]) for column in self.columns}
        )

    def column(self, name: str) -> ReleaseColumn:
        """Return a column by its name."""
        return self.columns[self.domain.place(name)]


__all__ = ["Coding", "ReleaseColumn"]
