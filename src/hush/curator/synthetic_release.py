"""``curator.synth``: synthetic rows on the policy's grid, with counts, quality and more rows for nothing.

``curator.synth_children`` makes synthetic parents with synthetic children of two such releases.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from hush.core import InvalidValueError, Number, exact, positive
from hush.core.on_demand import optional
from hush.core.storage import writing
from hush.core.values import dataclass
from hush.curator.access import Access, Order, PlannedRows
from hush.curator.answer import Money
from hush.curator.coding import Coding, Masks, masks
from hush.curator.kept_release import ReleaseHead, WholeRelease, noted, price_of, release, release_caveats
from hush.engines.base import CodedRows
from hush.report.columns import shown
from hush.synth import (
    Certificate,
    CodedTable,
    CountAnswer,
    Settings,
    SynthesisPlan,
    Synthetic,
    plan_synthesis,
    synthesise,
)
from hush.synth.model import Draws
from hush.synth.synthesis import deal


@dataclass(frozen=True, kw_only=True)
class SyntheticExplanation:
    """What synthetic rows would cost and what is known of their errors beforehand. Nothing was read or charged."""

    coding: Coding
    plan: SynthesisPlan
    price: Money
    caveats: tuple[str, ...]
    text: str

    def errors(self) -> dict[str, float]:
        """Return the standard deviation of the noise on each column's own counts, and of the certificate, in rows."""
        plan = self.plan
        found = {}
        for name, share in plan.one_way_shares().items():
            found[name] = plan.deviation(plan.parameter(share))
        pairs = len(self.coding.columns) * (len(self.coding.columns) - 1) // 2
        if pairs and plan.settings.certificate:
            found["certificate"] = plan.deviation(plan.score_parameter(plan.settings.certificate, pairs))
        return found

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "price": self.price.to_json(),
            "noise": self.plan.price.law,
            "columns": {column.name: column.size for column in self.coding.columns},
            "deviations": self.errors(),
            "caveats": list(self.caveats),
        }

    def __str__(self) -> str:
        lines = [f"synthetic rows of {len(self.coding.columns)} columns at {self.price}, noise: {self.plan.price.law}"]
        errors = self.errors()
        lines += [
            f"  {column.name}: {column.size} values, each counted with a deviation of {shown(errors[column.name])} rows"
            for column in self.coding.columns
        ]
        if "certificate" in errors:
            lines.append(f"  certificate: each pair's distance with a deviation of {shown(errors['certificate'])} rows")
        return noted(lines, self.caveats)


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticRelease(WholeRelease):
    """Synthetic rows, made of kept measurements."""

    synthetic: Synthetic

    @classmethod
    def made(
        cls,
        head: ReleaseHead,
        measurements: bytes,
        *,
        receipt: str,
        remaining: Money | None,
        synthetic: Synthetic | None = None,
    ) -> Self:
        """Return the release that measurements make; ``synthetic`` is what they make, where it is known already."""
        rows = synthetic or Synthetic.from_bytes(measurements)
        return cls(head=head, synthetic=rows, receipt=receipt, remaining=remaining, kept=measurements)

    @cached_property
    def table(self) -> Any:
        """The synthetic rows as a pyarrow.Table: about as many as there are, by a private count."""
        return self._drawn(self.synthetic.table, 0)

    def rows(self, count: int, *, seed: int = 0) -> Any:
        """Return so many rows of the same model as a pyarrow.Table; free, and the same for the same seed."""
        return self._drawn(self.synthetic.rows(count, seed=seed), seed)

    def _drawn(self, rows: CodedTable, seed: int) -> Any:
        pa = optional("pyarrow", "arrow")
        draws = Draws(bytes.fromhex(self.synthetic.seed) + b"values" + seed.to_bytes(8, "big"))
        arrays = {
            column.name: column.drawn(rows.column(column.name).astype(np.int64), draws)
            for column in self.coding.columns
        }
        return pa.table(arrays).replace_schema_metadata({"hush.receipt": self.receipt})

    def count(self, condition: str, *, confidence: float = 0.95) -> CountAnswer:
        """Return for how many rows a condition holds, its ±, and where both come from.

        Over one column noisy counts answer, or the table with its certificate, whichever is surer; over two the table
        with its certificate; over more there is no bound, and a direct question would give one.
        """
        cells = masks(self.coding, condition)
        if cells.exact:
            found = self.synthetic.count_where(cells.columns, cells.surely, confidence=confidence)
        else:
            found = self._between(cells, confidence)
        if found.error is not None:
            return found
        whole = max(self.synthetic.fitted.total, 1.0)
        price = 3 / (0.01 * whole)
        advice = f"{found.source}; ask directly: COUNT(*) to within ±1 % of all rows costs about ε={shown(price)}"
        return CountAnswer(value=found.value, error=None, source=advice)

    def _between(self, cells: Masks, confidence: float) -> CountAnswer:
        """Return a count that lies between two others, each of which may miss half as often."""
        low, high = (
            self.synthetic.count_where(cells.columns, mask, confidence=(1 + confidence) / 2)
            for mask in (cells.surely, cells.maybe)
        )
        value = (low.value + high.value) / 2
        if low.error is None or high.error is None:
            return CountAnswer(value=value, error=None, source=high.source)
        error = max(value - (low.value - low.error), high.value + high.error - value)
        return CountAnswer(value=value, error=error, source=f"{high.source}; the condition cuts a group of neighbours")

    @property
    def quality(self) -> Certificate | None:
        """The certified distance of every pair of columns from the data; None if no certificate was bought."""
        return self.synthetic.quality

    @property
    def measurements(self) -> bytes:
        """What was measured, as it is stored with the receipt."""
        return self.kept

    def save(self, path: str | Path, *, rows: int | None = None, seed: int = 0) -> None:
        """Write the rows as .csv or .parquet."""
        target = Path(path)
        if target.suffix.lower() == ".parquet":
            pq = optional("pyarrow.parquet", "arrow")
            with writing(str(target)):
                pq.write_table(self.table if rows is None else self.rows(rows, seed=seed), target)
            return
        if target.suffix.lower() != ".csv":
            raise InvalidValueError("path", got=str(path), allowed="a name that ends in .csv or .parquet")
        arrow_csv = optional("pyarrow.csv", "arrow")
        chosen = self.table if rows is None else self.rows(rows, seed=seed)
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(chosen.column_names)
        with writing(str(target)), target.open("wb") as file:
            file.write(header.getvalue().encode())
            arrow_csv.write_csv(chosen, file, arrow_csv.WriteOptions(include_header=False))

    def to_json(self) -> dict[str, Any]:
        """Return what is known of the release as plain JSON values."""
        quality = self.quality
        return {
            "rows": len(self.synthetic.table),
            "rows_error": 1.96 * self.synthetic.fitted.total_deviation,
            "columns": [column.name for column in self.coding.columns],
            "quality": None
            if quality is None
            else {
                "mean_l1_2": quality.mean,
                "mean_error": quality.mean_error,
                "worst": {"columns": list(quality.worst.columns), "l1": quality.worst.distance},
                "pair_error": quality.worst.error,
                "confidence": quality.confidence,
            },
            **self._receipt_json(),
        }

    def __str__(self) -> str:
        said = f"{len(self.synthetic.table):,} synthetic rows of {len(self.coding.columns)} columns at {self.price}"
        if self.quality is not None:
            said += f"; certified distance of pairs {self.quality.mean:.3g} ± {self.quality.mean_error:.2g} in the mean"
        return said


def planned_synthesis(
    access: Access,
    question: str,
    *,
    epsilon: Number | None = None,
    certify: Number = "0.05",
    max_rows: int | None = None,
    data: str | None = None,
) -> tuple[PlannedRows, SyntheticExplanation]:
    """Plan synthetic rows without reading anything."""
    planned = access.plan_rows(question, max_rows=max_rows, data=data)
    asked, price = price_of(planned, epsilon)
    share = exact(certify, "certify")
    if not 0 <= share <= Fraction(1, 2):
        raise InvalidValueError("certify", got=certify, allowed="a share of the price from 0 to 0.5")
    coding = Coding.of(planned.plan)
    limits = planned.plan.limits
    settings = Settings(certificate=share)
    plan = plan_synthesis(coding.domain, price, rows=limits.rows, touched=limits.touched, settings=settings)
    explanation = SyntheticExplanation(
        coding=coding,
        plan=plan,
        price=Money(epsilon=asked, delta=Fraction(0), items=(("synthetic rows", asked, Fraction(0)),)),
        caveats=release_caveats(planned, coding, price),
        text=f"SYNTHETIC rows, {share} of the price for a certificate: {question}",
    )
    return planned, explanation


def release_synthetic(
    access: Access,
    planned: PlannedRows,
    explanation: SyntheticExplanation,
    order: Order,
    progress: Callable[[str, float], None] | None,
) -> SyntheticRelease:
    """Charge, measure, fit."""
    plan, coding = explanation.plan, explanation.coding
    fitted: list[Synthetic] = []

    def measure(rows: CodedRows) -> bytes:
        fitted.append(synthesise(plan, coding.table(rows), progress=progress))
        return fitted[0].to_bytes()

    def made(head: ReleaseHead, measurements: bytes, *, receipt: str, remaining: Money | None) -> SyntheticRelease:
        synthetic = fitted[0] if fitted else None
        return SyntheticRelease.made(head, measurements, receipt=receipt, remaining=remaining, synthetic=synthetic)

    head = ReleaseHead(
        kind="synthetic",
        price=explanation.price,
        caveats=explanation.caveats,
        question=planned.plan.question.text,
        coding=coding,
    )
    return release(access, planned, plan.events, measure, made, head=head, text=explanation.text, order=order)


@dataclass(frozen=True, kw_only=True, eq=False)
class FamilyRelease:
    """Synthetic parents and their children; each child names the row of its parent."""

    parents: SyntheticRelease
    children: SyntheticRelease
    number: str
    shared: tuple[str, ...]

    def tables(self, *, seed: int = 0) -> tuple[Any, Any]:
        """Return both tables: parents, and children with ``parent``, the number of their parent's row, from 0."""
        parents, children = self.parents.synthetic.table, self.children.synthetic.table
        column = self.parents.coding.column(self.number)
        values = np.array([0 if value is None else int(value) for value in column.values], dtype=np.int64)
        draws = Draws(bytes.fromhex(self.children.synthetic.seed) + b"family" + seed.to_bytes(8, "big"))
        owners, rows = deal(parents, values[parents.column(self.number)], children, self.shared, draws)
        pa = optional("pyarrow", "arrow")
        drawn = self.children.table
        own = drawn.select([name for name in drawn.column_names if name not in self.shared]).take(pa.array(rows))
        return self.parents.table, own.add_column(0, "parent", pa.array(owners))


def synth_children(
    access: Access,
    parents: str,
    children: str,
    *,
    number: str,
    epsilon: Number | None,
    max_rows: int,
    data: str | None,
    order: Order,
    progress: Callable[[str, float], None] | None,
) -> FamilyRelease:
    """Release parents and children, each for half of the price."""
    (parent, child), shared = planned_family(access, parents, children, number, epsilon, max_rows, data)
    return FamilyRelease(
        parents=release_synthetic(access, *parent, _part(order, "parents"), progress),
        children=release_synthetic(access, *child, _part(order, "children"), progress),
        number=number,
        shared=shared,
    )


def planned_family(
    access: Access,
    parents: str,
    children: str,
    number: str,
    epsilon: Number | None,
    max_rows: int,
    data: str | None,
) -> tuple[list[tuple[PlannedRows, SyntheticExplanation]], tuple[str, ...]]:
    """Plan parents and children, each for half of the price, and say which columns they share; reads nothing."""
    half = positive(epsilon, "epsilon") / 2
    names = [_names(access, sql, data) for sql in (parents, children)]
    shared = shared_columns(names[0], names[1], number, children)
    plans = [
        planned_synthesis(access, sql, epsilon=Fraction(half), certify="0.05", max_rows=rows, data=data)
        for sql, rows in ((parents, 1), (children, max_rows))
    ]
    return plans, shared


def shared_columns(parents: Sequence[str], own: Sequence[str], number: str, children: str) -> tuple[str, ...]:
    """Return the columns that parents and children share; refuse what makes no family."""
    if number not in parents or number in own:
        raise InvalidValueError("number", got=number, allowed=f"a column of the parents alone: {', '.join(parents)}")
    shared = tuple(name for name in parents if name in own)
    if not shared or len(shared) == len(own):
        raise InvalidValueError(
            "children", got=children, allowed="rows with some columns of the parents, and some of their own"
        )
    return shared


def _names(access: Access, sql: str, data: str | None) -> Sequence[str]:
    return [column.name for column in access.plan_rows(sql, data=data).plan.columns]


def _part(order: Order, name: str) -> Order:
    return order._replace(request=None if order.request is None else f"{order.request}: {name}")
