"""``curator.ranges``: every interval, the distribution function and all quantiles of one column, from one release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hush import synth
from hush.core import InvalidValueError
from hush.curator.answer import Answer
from hush.curator.coding import Coding, ReleaseColumn
from hush.curator.kept_release import ReleaseExplanation, WholeRelease, head_of, plan_rows, price_of, release
from hush.curator.pipeline import Outlet
from hush.curator.session import Session
from hush.curator.terms import RangeOrder, RangeTerms
from hush.engines.protocol import CodedRows
from hush.query.errors import QuestionError
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, shown, uniform
from hush.synth import Price, Ranges
from hush.synth.measurements import pack, quantile, unpack
from hush.synth.ranges import MAX_RANGE_CELLS, RangePlan


@dataclass(frozen=True, kw_only=True)
class RangeExplanation(ReleaseExplanation):
    """The price of all ranges of a column, and their half-widths. Nothing was read or charged."""

    plan: RangePlan
    confidence: float = 0.95

    @property
    def column(self) -> ReleaseColumn:
        """The column."""
        return self.coding.columns[0]

    def errors(self) -> dict[str, float]:
        """Return the half-widths, in rows, of one cell, of half of the cells and of all cells."""
        cells, certain = self.plan.cells, quantile(self.plan.price.law, self.confidence)
        lengths = {"one cell": 1, "half of the cells": max(1, cells // 2), "all cells": cells}
        covariance = self.plan.covariance
        # the variance of a sum of cells is the sum of their covariances
        return {name: certain * float(covariance[:n, :n].sum()) ** 0.5 for name, n in lengths.items()}

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            **self._price_json(),
            "noise": self.plan.price.law,
            "column": self.column.name,
            "cells": self.plan.cells,
            "errors": self.errors(),
            "confidence": self.confidence,
            "caveats": list(self.caveats),
        }

    def lines(self) -> list[str]:
        """Return the price and the half-widths line by line."""
        headline = f"all ranges of {self.column.name}, {self.plan.cells} cells, at {self.price}"
        errors = [f"  {name}: ±{shown(error)} rows" for name, error in self.errors().items()]
        return [f"{headline}, noise: {self.plan.price.law}", *errors]


@dataclass(frozen=True, kw_only=True, eq=False)
class RangeRelease(WholeRelease):
    """All ranges of one column."""

    @property
    def column(self) -> ReleaseColumn:
        """The column."""
        return self.coding.columns[0]

    @cached_property
    def ranges(self) -> Ranges:
        """The measurements, ready to be computed with; their noise is planned again from the head."""
        details = self.head.details
        price = Price(law=details["law"], amount=Fraction(details["amount"]))
        plan = synth.plan_ranges(self.column.groups, price, rows=details["rows"], touched=details["touched"])
        return Ranges(plan=plan, measurement=unpack(self.kept)[1][0])

    def histogram(self, edges: Sequence[int] | None = None, *, bins: int = 20) -> Answer:
        """Return counts of neighbouring cells: between cell numbers, or in about ``bins`` equal bins."""
        cells = self.ranges.plan.cells
        if edges is None:
            step = max(1, -(-cells // bins))
            edges = [*range(0, cells, step), cells]
        counts = self.ranges.histogram(list(edges))
        return self._answer(
            [self.column.values[edge] for edge in edges[:-1]],
            [count.value for count in counts],
            [count.error for count in counts],
        )

    def distribution(self) -> Answer:
        """Return the number of rows up to each value: never decreasing, with one error bar for all values at once."""
        totals = self.ranges.totals.tolist()
        return self._answer(list(self.column.values[: len(totals)]), totals, [self.ranges.band] * len(totals))

    def quantiles(self, parts: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9)) -> list[dict[str, Any]]:
        """Return quantiles with the lowest and the highest value that each may have."""
        quantiles = []
        for level in parts:
            middle, low, high = (self.column.values[cell] for cell in self.ranges.quantile(level))
            quantiles.append({"part": level, "value": middle, "low": low, "high": high})
        return quantiles

    def to_json(self) -> dict[str, Any]:
        """Return the column, its quantiles and histogram, and the receipt as plain JSON values."""
        return {
            "column": self.column.name,
            "quantiles": self.quantiles(),
            "histogram": self.histogram().to_json()["rows"],
            "confidence": float(self.ranges.confidence),
            **self._receipt_json(),
        }

    def _answer(self, keys: list[Any], values: list[float], errors: list[float]) -> Answer:
        kind = self.column.coded.type.kind
        key = AnswerColumn(name=self.column.name, kind=kind, values=uniform(keys, kind))
        counts = AnswerColumn(name="n", kind=Kind.DECIMAL, values=tuple(values), errors=tuple(errors), counts=True)
        return self._table((key, counts), self.ranges.confidence)


def plan_ranges(session: Session, terms: RangeTerms) -> RangeExplanation:
    """Plan all ranges of the one column that SQL names, without reading anything."""
    planned = plan_rows(session, terms.question, max_rows=terms.max_rows, data=terms.data)
    if len(planned.plan.columns) != 1:
        raise QuestionError("Ranges are released of one column.", "Write SELECT age FROM …")
    coded = planned.plan.columns[0]
    if coded.factor is None:
        raise InvalidValueError("column", got=coded.name, allowed="a column with bounds, whose values lie on a line")
    # the least width at which neighbouring values fit into the largest number of cells
    column = ReleaseColumn(coded, -(-coded.levels // MAX_RANGE_CELLS))
    epsilon, price = price_of(planned, terms.epsilon)
    limits = planned.plan.limits
    plan = synth.plan_ranges(column.groups, price, rows=limits.rows, touched=limits.touched)
    noise = {"law": price.law, "amount": str(price.amount), "rows": plan.rows, "touched": plan.touched}
    head = head_of("ranges", planned, "all ranges", epsilon, price, Coding((column,)), **noise)
    return RangeExplanation(head=head, rows=planned, plan=plan, text=f"RANGES: {terms.question}", events=plan.events)


def release_ranges(session: Session, outlet: Outlet, order: RangeOrder) -> RangeRelease:
    """Release all ranges of the one column that SQL names, and charge them."""
    explained = plan_ranges(session, order)
    column, plan = explained.column, explained.plan

    def measure(rows: CodedRows) -> bytes:
        codes = column.grouped(rows.codes[column.name])
        # the code of NULL is the last one: it lies on no line, so it is cut off
        counts = np.bincount(codes, minlength=column.size)[: column.groups]
        return pack({"release": "ranges", "cells": column.groups}, [plan.measure(counts).measurement])

    return release(session, outlet, explained, measure, RangeRelease.made, order)
