"""Releases of counts. ``curator.marginals``: all tables of a set of columns at once, each cell with its error bar.

``curator.ranges``: every interval, the distribution function and all quantiles of one column, from one release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from html import escape
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import synth
from hush.core import InvalidValueError, integer
from hush.core.storage import writing
from hush.curator.answer import Answer, paid_json
from hush.curator.catalogue import in_quotes
from hush.curator.coding import Coding, ReleaseColumn, masks
from hush.curator.kept_release import Fact, ReleaseExplanation, WholeRelease, head_of, plan_rows, price_of, release
from hush.curator.session import AnalystSession
from hush.curator.terms import MarginalOrder, MarginalTerms, RangeOrder, RangeTerms
from hush.engines.protocol import CodedRows
from hush.query.errors import QuestionError
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, shown, uniform
from hush.synth import MarginalPlan, Marginals, Price, Ranges
from hush.synth.marginals import all_marginals
from hush.synth.measurements import pack, quantile, unpack
from hush.synth.ranges import MAX_RANGE_CELLS, RangePlan

MAX_TABLES = 20_000
_CONFIDENCE = 0.95
"""How often the error bars of ranges hold."""
_PAGE = (
    "<!doctype html><meta charset='utf-8'><title>Release of tables</title><style>"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:left}"
    "</style><h1>Release of tables</h1>"
)


def rows_of(table: str, by: Sequence[str] | None) -> str:
    """Return SQL for the rows of a table's columns, or the SQL that was given."""
    if not isinstance(table, str):
        raise InvalidValueError("table", got=table, allowed="the name of a table, or SQL for its rows")
    words = table.split(None, 1)
    if words and words[0].upper().lstrip("(") in {"SELECT", "WITH"}:
        if by is not None:
            raise InvalidValueError("by", got=list(by), allowed="left out where the rows are given as SQL")
        return table
    if not by or isinstance(by, str) or not isinstance(by, Iterable):
        raise InvalidValueError("by", got=by, allowed="the columns of the tables, such as ['age', 'sex']")
    *columns, quoted = (in_quotes(str(name)) for name in (*by, table))
    return f"SELECT {', '.join(columns)} FROM {quoted}"  # noqa: S608 - parsed, never run


@dataclass(frozen=True, kw_only=True, eq=False)
class MarginalRelease(WholeRelease):
    """All marginals of a workload. ``release["age", "sex"]`` returns one table, as an answer."""

    @cached_property
    def marginals(self) -> Marginals:
        """The measurements, ready to be computed with."""
        return Marginals.from_bytes(self.kept, confidence=self.confidence)

    @property
    def confidence(self) -> float:
        """How often an error bar holds."""
        return float(self.head.details["confidence"])

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each table."""
        return self.marginals.workload

    def __getitem__(self, columns: str | Iterable[str]) -> Answer:
        """Return one table: its keys and ``n`` with ``n_error``, unbiased; some small counts may be negative."""
        marginal = self.marginals[columns]
        return self._answer(marginal.columns, marginal.values, marginal.error)

    def nonnegative(self, *columns: str) -> Answer:
        """Return one table without negative counts, in agreement with the others; small counts are biased."""
        names = self.coding.domain.columns(columns)
        for table_columns, values in self._nonnegative.items():
            if set(names) <= set(table_columns):
                axes = tuple(axis for axis, name in enumerate(table_columns) if name not in names)
                return self._answer(names, values.sum(axis=axes), None)
        return self[columns]

    @cached_property
    def _nonnegative(self) -> dict[tuple[str, ...], npt.NDArray[np.float64]]:
        return self.marginals.nonnegative()

    def count(self, condition: str) -> Answer:
        """Return how many rows a condition on columns of one table holds for, with its own error bar.

        Where the condition cuts a group of neighbouring values, the error bar covers all that it may hold for.
        """
        cells = masks(self.coding, condition)
        count = cells.counted(
            lambda mask, confidence: replace(self.marginals, confidence=confidence).sum_of(cells.columns, mask),
            self.confidence,
        )
        return self._counts((), (count.value,), (count.error,), self.confidence)

    def rolled_up(self, columns: Sequence[str], groups: Mapping[str, Mapping[Any, Any]]) -> Answer:
        """Return a table over coarser keys: ``groups`` says for some columns which group each value belongs to."""
        names = self.coding.domain.columns(columns)
        labels: list[list[Any]] = []
        numbers: dict[str, list[int]] = {}
        for name in names:
            values = self.coding.column(name).values
            if name not in groups:
                labels.append(list(values))
                continue
            belongs = [groups[name].get(value) for value in values]
            group_names = list(dict.fromkeys(belongs))
            labels.append(group_names)
            numbers[name] = [group_names.index(group) for group in belongs]
        totals, errors = self.marginals.rolled_up(names, numbers)
        keys = list(zip(*product(*labels), strict=True)) if names else []
        shown_columns = []
        for name, values in zip(names, keys, strict=True):
            kind = self.coding.column(name).coded.type.kind
            if name in groups:
                texts = all(value is None or isinstance(value, str) for value in values)
                kind = Kind.TEXT if texts else Kind.DECIMAL
            shown_columns.append(AnswerColumn(name=name, kind=kind, values=tuple(values)))
        return self._counts(shown_columns, totals.ravel().tolist(), errors.ravel().tolist(), self.confidence)

    def _answer(self, columns: Sequence[str], values: npt.NDArray[Any], error: float | None) -> Answer:
        codes = np.unravel_index(np.arange(values.size), values.shape) if columns else ()
        keys = [self.coding.column(name).key(code.tolist()) for name, code in zip(columns, codes, strict=True)]
        errors = None if error is None else [error] * values.size
        return self._counts(keys, values.ravel().tolist(), errors, self.confidence)

    # as files

    def to_json(self) -> dict[str, Any]:
        """Return the release as plain JSON values, table by table."""
        return {
            "tables": [
                {
                    "columns": [*columns, "n"],
                    "cells": self.coding.domain.cells(columns),
                    "error": self.marginals[columns].error,
                }
                for columns in self.tables
            ],
            "confidence": self.confidence,
            **paid_json(self),
        }

    def save(self, directory: str | Path, *, suffix: str = ".csv") -> list[Path]:
        """Write one file for each table (.csv or .parquet), the measurements, and a report; return their paths."""
        if suffix not in {".csv", ".parquet"}:
            raise InvalidValueError("suffix", got=suffix, allowed="'.csv' or '.parquet'")
        folder = Path(directory)
        paths = []
        with writing(str(folder)):
            folder.mkdir(parents=True, exist_ok=True)
            for number, columns in enumerate(self.tables, start=1):
                name = "-".join("".join(c if c.isalnum() else "_" for c in column) for column in columns)[:80]
                paths.append(folder / f"{number:03d}-{name}{suffix}")
                self[columns].save(paths[-1])
            report, measurements = folder / "report.html", folder / "measurements.hush"
            report.write_text(self.report(), encoding="utf-8")
            measurements.write_bytes(self.kept)
        return [*paths, report, measurements]

    def report(self, limit: int = 12) -> str:
        """Return an HTML page with the released tables, their half-widths, the price and the receipt."""
        total = self.marginals.count({})
        summary = (
            f"{len(self.tables)} tables of <code>{escape(self.question)}</code>, which agree with each other. "
            f"They cost {escape(str(self.price))}. Each count is unbiased and lies within its ± of the truth "
            f"{self.confidence:.0%} of the time. About {escape(shown(total.value, total.error))} rows "
            f"(±{escape(shown(total.error))}). Receipt {escape(self.receipt)}."
        )
        rows = "".join(
            f"<tr><td>{escape(' × '.join(columns))}</td><td>{self.coding.domain.cells(columns):,}</td>"
            f"<td>±{escape(shown(self.marginals[columns].error))}</td></tr>"
            for columns in self.tables
        )
        names = list(dict.fromkeys(name for columns in self.tables for name in columns))[:limit]
        return "\n".join(
            [
                _PAGE,
                *(f"<p>{paragraph}</p>" for paragraph in (summary, *map(escape, self.caveats))),
                f"<table><tr><th>table</th><th>cells</th><th>each cell</th></tr>{rows}</table>",
                *(f"<h2>{escape(name)}</h2>{self[name]._repr_html_()}" for name in names),
            ]
        )

    def largest_error(self) -> Fact:
        """Return the number of tables, the largest half-width of a cell, and the price."""
        largest = max(self.marginals[columns].error for columns in self.tables)
        after = f" ({self.confidence:.0%}), at {self.price}"
        return Fact(words=f"{len(self.tables)} tables, each cell within ±", error=largest, after=after)

    def __str__(self) -> str:
        return str(self.largest_error())


def plan_marginals(session: AnalystSession, terms: MarginalTerms) -> ReleaseExplanation[MarginalPlan]:
    """Plan a release of marginals without reading anything."""
    sql = rows_of(terms.table, terms.by)
    planned = plan_rows(session, sql, max_rows=terms.max_rows, data=terms.data)
    epsilon, price = price_of(planned.accounts, terms.epsilon)
    if not 0 < terms.confidence < 1:
        raise InvalidValueError("confidence", got=terms.confidence, allowed="a number between 0 and 1")
    coding = Coding.of(planned.plan)
    degree = integer(terms.degree, "degree", minimum=1, maximum=len(coding.domain))
    if (count := comb(len(coding.domain), degree)) > MAX_TABLES:
        raise InvalidValueError(
            "degree", got=f"{terms.degree}, which makes {count:,} tables", allowed=f"at most {MAX_TABLES:,}"
        )
    limits = planned.plan.limits
    plan = synth.plan_marginals(
        coding.domain,
        all_marginals(coding.domain, degree),
        rho=price.amount if price.law == "gaussian" else None,
        epsilon=price.amount if price.law == "laplace" else None,
        optimise=terms.optimise,
        rows=limits.rows,
        touched=limits.touched,
    )
    head = head_of("marginals", planned, "all tables", epsilon, price, coding, confidence=terms.confidence)
    errors, cells = {columns: plan.error(columns, terms.confidence) for columns in plan.workload}, coding.domain.cells
    facts = [Fact(words=f"{len(errors)} tables at {head.price}, noise: {plan.law}")]
    facts += [
        Fact(label=" × ".join(columns), words=f"{cells(columns)} cells, each ±", error=error)
        for columns, error in list(errors.items())[:20]
    ]
    if len(errors) > 20:
        facts.append(Fact(words=f"… and {len(errors) - 20} more; the largest is ±", error=max(errors.values())))
    tables = [{"columns": list(columns), "cells": cells(columns), "error": error} for columns, error in errors.items()]
    return ReleaseExplanation(
        head=head,
        rows=planned,
        plan=plan,
        events=plan.events,
        text=f"MARGINALS of degree {terms.degree}, least {terms.optimise}: {sql}",
        details={"noise": plan.law, "tables": tables, "confidence": terms.confidence},
        facts=tuple(facts),
    )


def release_marginals(session: AnalystSession, order: MarginalOrder) -> MarginalRelease:
    """Release marginals, and charge them."""
    explained = plan_marginals(session, order)

    def measure(rows: CodedRows) -> bytes:
        return explained.plan.measure(explained.coding.table(rows)).to_bytes()

    return release(session, explained, measure, MarginalRelease.made, order)


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
            **paid_json(self),
        }

    def _answer(self, keys: list[Any], values: list[float], errors: list[float]) -> Answer:
        kind = self.column.coded.type.kind
        key = AnswerColumn(name=self.column.name, kind=kind, values=uniform(keys, kind))
        return self._counts((key,), values, errors, self.ranges.confidence)


def plan_ranges(session: AnalystSession, terms: RangeTerms) -> ReleaseExplanation[RangePlan]:
    """Plan all ranges of the one column that SQL names, without reading anything."""
    planned = plan_rows(session, terms.question, max_rows=terms.max_rows, data=terms.data)
    if len(planned.plan.columns) != 1:
        raise QuestionError("Ranges are released of one column.", "Write SELECT age FROM …")
    coded = planned.plan.columns[0]
    if coded.factor is None:
        raise InvalidValueError("column", got=coded.name, allowed="a column with bounds, whose values lie on a line")
    # the least width at which neighbouring values fit into the largest number of cells
    column = ReleaseColumn(coded, -(-coded.levels // MAX_RANGE_CELLS))
    epsilon, price = price_of(planned.accounts, terms.epsilon)
    limits = planned.plan.limits
    plan = synth.plan_ranges(column.groups, price, rows=limits.rows, touched=limits.touched)
    noise = {"law": price.law, "amount": str(price.amount), "rows": plan.rows, "touched": plan.touched}
    head = head_of("ranges", planned, "all ranges", epsilon, price, Coding((column,)), **noise)
    cells, certain = plan.cells, quantile(price.law, _CONFIDENCE)
    lengths = {"one cell": 1, "half of the cells": max(1, cells // 2), "all cells": cells}
    # the variance of a sum of cells is the sum of their covariances
    errors = {name: certain * float(plan.covariance[:n, :n].sum()) ** 0.5 for name, n in lengths.items()}
    headline = f"all ranges of {column.name}, {cells} cells, at {head.price}, noise: {price.law}"
    half_widths = [Fact(label=name, words="±", error=error, after=" rows") for name, error in errors.items()]
    described = {"noise": price.law, "column": column.name, "cells": cells, "errors": errors, "confidence": _CONFIDENCE}
    return ReleaseExplanation(
        head=head,
        rows=planned,
        plan=plan,
        events=plan.events,
        text=f"RANGES: {terms.question}",
        details=described,
        facts=(Fact(words=headline), *half_widths),
    )


def release_ranges(session: AnalystSession, order: RangeOrder) -> RangeRelease:
    """Release all ranges of the one column that SQL names, and charge them."""
    explained = plan_ranges(session, order)
    column, plan = explained.coding.columns[0], explained.plan

    def measure(rows: CodedRows) -> bytes:
        codes = column.grouped(rows.codes[column.name])
        # the code of NULL is the last one: it lies on no line, so it is cut off
        counts = np.bincount(codes, minlength=column.size)[: column.groups]
        return pack({"release": "ranges", "cells": column.groups}, [plan.measure(counts).measurement])

    return release(session, explained, measure, RangeRelease.made, order)
