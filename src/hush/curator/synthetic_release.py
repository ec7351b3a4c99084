"""``curator.synth``: synthetic rows on the policy's grid, with counts, quality and more rows for nothing.

``curator.synth_children`` makes synthetic parents with synthetic children of two such releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import comb
from pathlib import Path
from typing import Any, Self

import numpy as np

from hush.core import InvalidValueError, exact, positive
from hush.core.on_demand import optional
from hush.core.storage import writing
from hush.curator.answer import Money, paid_json
from hush.curator.coding import Coding, masks
from hush.curator.kept_release import (
    Fact,
    ReleaseExplanation,
    ReleaseHead,
    WholeRelease,
    head_of,
    plan_rows,
    price_of,
    release,
)
from hush.curator.session import AnalystSession
from hush.curator.terms import FamilyOrder, FamilyTerms, SynthesisOrder, SynthesisTerms
from hush.engines.protocol import CodedRows
from hush.query.types import Kind
from hush.report import files
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

SyntheticPlan = ReleaseExplanation[SynthesisPlan]
"""The price of synthetic rows, and the noise of their measurements."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticRelease(WholeRelease):
    """Synthetic rows, made of kept measurements."""

    synthetic: Synthetic

    @property
    def caveats(self) -> tuple[str, ...]:
        """The facts that a reader of the release must know, in words."""
        fitted = self.synthetic.fitted
        estimate = f"{fitted.total:.3g} ± {1.96 * fitted.total_deviation:.2g} rows"
        cut = f"at this price {estimate} were estimated, of which {fitted.most:,} were made, the most at once"
        return (*self.head.caveats, cut) if fitted.total > fitted.most else self.head.caveats

    @classmethod
    def made(cls, head: ReleaseHead, measurements: bytes, *, synthetic: Synthetic | None = None, **paid: Any) -> Self:
        """Return the release that measurements make; ``synthetic`` is the fitted model, where it is known already."""
        return cls(head=head, synthetic=synthetic or Synthetic.from_bytes(measurements), kept=measurements, **paid)

    @cached_property
    def table(self) -> Any:
        """The synthetic rows as a pyarrow.Table; their number is a private estimate of the number of real rows."""
        return self._drawn(self.synthetic.table, 0)

    def to_pandas(self) -> Any:
        """Return the synthetic rows as a pandas.DataFrame."""
        return self.table.to_pandas()

    def rows(self, count: int, *, seed: int = 0) -> Any:
        """Return ``count`` rows of the same model as a pyarrow.Table; free, and the same for the same seed."""
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
        count: CountAnswer = cells.counted(
            lambda mask, certain: self.synthetic.count_where(cells.columns, mask, confidence=certain), confidence
        )
        if count.error is not None:
            note = "" if cells.exact else "; the condition cuts a group of neighbours"
            return replace(count, source=f"{count.source}{note}")
        row_total = max(self.synthetic.fitted.total, 1.0)
        # 3/ε is about the 95 % half-width of Laplace noise of scale 1/ε: ln 20 ≈ 3
        price = 3 / (0.01 * row_total)
        advice = f"{count.source}; ask directly: COUNT(*) to within ±1 % of all rows costs about ε={shown(price)}"
        return replace(count, source=advice)

    @property
    def quality(self) -> Certificate | None:
        """The certified distance of every pair of columns from the data; None if no certificate was bought."""
        return self.synthetic.quality

    def save(self, path: str | Path, *, rows: int | None = None, seed: int = 0) -> None:
        """Write the rows as .csv or .parquet."""
        target, table = Path(path), self.table if rows is None else self.rows(rows, seed=seed)
        match target.suffix.lower():
            case ".parquet":
                pq = optional("pyarrow.parquet", "arrow")
                with writing(str(target)):
                    pq.write_table(table, target)
            case ".csv":
                arrow_csv = optional("pyarrow.csv", "arrow")
                # without quotes around the names, which Arrow's own header has
                header = ",".join(map(files.cell, table.column_names)) + "\n"
                with writing(str(target)), target.open("wb") as file:
                    file.write(header.encode())
                    arrow_csv.write_csv(table, file, arrow_csv.WriteOptions(include_header=False))
            case _:
                raise InvalidValueError("path", got=str(path), allowed="a name that ends in .csv or .parquet")

    def to_json(self) -> dict[str, Any]:
        """Return rows, columns, quality and receipt of the release as plain JSON values."""
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
            **paid_json(self),
        }

    def __str__(self) -> str:
        words = f"{len(self.synthetic.table):,} synthetic rows of {len(self.coding.columns)} columns at {self.price}"
        if self.quality is not None:
            words += (
                f"; certified distance of pairs {self.quality.mean:.3g} ± {self.quality.mean_error:.2g} in the mean"
            )
        return words


def plan_synthetic(session: AnalystSession, terms: SynthesisTerms) -> SyntheticPlan:
    """Plan synthetic rows without reading anything."""
    planned = plan_rows(session, terms.question, max_rows=terms.max_rows, data=terms.data)
    epsilon, price = price_of(planned.accounts, terms.epsilon)
    share = exact(terms.certify, "certify")
    if not 0 <= share <= Fraction(1, 2):
        raise InvalidValueError("certify", got=terms.certify, allowed="a share of the price from 0 to 0.5")
    coding = Coding.of(planned.plan)
    limits = planned.plan.limits
    settings = Settings(certificate=share)
    plan = plan_synthesis(coding.domain, price, rows=limits.rows, touched=limits.touched, settings=settings)
    head = head_of("synthetic", planned, "synthetic rows", epsilon, price, coding)
    text = f"SYNTHETIC rows, {share} of the price for a certificate: {terms.question}"
    # the noise on each column's own counts, and on the certificate, in rows
    measured = [(column.name, f"{column.size} values, each counted") for column in coding.columns]
    deviations = {name: plan.deviation(plan.parameter(part)) for name, part in plan.one_way_shares().items()}
    if share and len(coding.columns) > 1:
        measured.append(("certificate", "each pair's distance"))
        deviations["certificate"] = plan.deviation(plan.score_parameter(share, comb(len(coding.columns), 2)))
    facts = [Fact(words=f"synthetic rows of {len(coding.columns)} columns at {head.price}, noise: {price.law}")]
    facts += [
        Fact(label=name, words=f"{words} with a deviation of ", error=deviations[name], after=" rows")
        for name, words in measured
    ]
    sizes = {column.name: column.size for column in coding.columns}
    return ReleaseExplanation(
        head=head,
        rows=planned,
        plan=plan,
        events=plan.events,
        text=text,
        details={"noise": price.law, "columns": sizes, "deviations": deviations},
        facts=tuple(facts),
    )


def release_synthetic(session: AnalystSession, order: SynthesisOrder) -> SyntheticRelease:
    """Release synthetic rows, and charge them."""
    explained = plan_synthetic(session, order)
    fitted: list[Synthetic] = []  # so that it is not fitted a second time from its measurements

    def measure(rows: CodedRows) -> bytes:
        fitted.append(synthesise(explained.plan, explained.coding.table(rows), progress=order.progress))
        return fitted[0].to_bytes()

    def made(head: ReleaseHead, measurements: bytes, **paid: Any) -> SyntheticRelease:
        return SyntheticRelease.made(head, measurements, **paid, synthetic=fitted[0] if fitted else None)

    return release(session, explained, measure, made, order)


@dataclass(frozen=True, kw_only=True, eq=False)
class FamilyRelease(WholeRelease):
    """Synthetic parents and their children, one release; each child names the row of its parent."""

    parents: SyntheticRelease
    children: SyntheticRelease

    @classmethod
    def made(cls, head: ReleaseHead, measurements: bytes, **paid: Any) -> Self:
        """Return the release that measurements make."""
        begin = 8 + int.from_bytes(measurements[:8], "big")
        both: dict[str, Any] = {
            role: SyntheticRelease.made(ReleaseHead.from_json(head.details[role]), content, **paid)
            for role, content in (("parents", measurements[8:begin]), ("children", measurements[begin:]))
        }
        return cls(head=head, kept=measurements, **paid, **both)

    @property
    def number(self) -> str:
        """The parents' column that says how many children there are."""
        return str(self.head.details["number"])

    @property
    def shared(self) -> tuple[str, ...]:
        """The columns that parents and children share."""
        return tuple(self.head.details["shared"])

    def to_json(self) -> dict[str, Any]:
        """Return the parents, the children and the receipt as plain JSON values."""
        parts = {"parents": self.parents.to_json(), "children": self.children.to_json()}
        return {"number": self.number, "shared": list(self.shared), **parts, **paid_json(self)}

    def tables(self, *, seed: int = 0) -> tuple[Any, Any]:
        """Return both tables: parents, and children with ``parent``, the number of their parent's row, from 0."""
        parents, children = self.parents.synthetic.table, self.children.synthetic.table
        column = self.parents.coding.column(self.number)
        values = np.array([0 if value is None else int(value) for value in column.values], dtype=np.int64)
        draws = Draws(bytes.fromhex(self.children.synthetic.seed) + b"family" + seed.to_bytes(8, "big"))
        owners, rows = deal(parents, values[parents.column(self.number)], children, self.shared, draws)
        pa = optional("pyarrow", "arrow")
        drawn = self.children.table
        # a child has the shared columns of its parent, so its own copies are dropped
        child_rows = drawn.select([name for name in drawn.column_names if name not in self.shared]).take(pa.array(rows))
        return self.parents.table, child_rows.add_column(0, "parent", pa.array(owners))


def plan_family(session: AnalystSession, terms: FamilyTerms) -> tuple[SyntheticPlan, SyntheticPlan, tuple[str, ...]]:
    """Plan parents and children, each for half of the price, and return them with the columns they share."""
    half = positive(terms.epsilon, "epsilon") / 2
    parents, children = (
        plan_synthetic(session, SynthesisTerms(sql, epsilon=half, max_rows=rows, data=terms.data))
        for sql, rows in ((terms.parents, 1), (terms.children, terms.max_rows))
    )
    shared = shared_columns(parents.coding.domain.names, children.coding.domain.names, terms.number, terms.children)
    data_set = parents.rows.data_set
    if data_set is not children.rows.data_set:
        allowed = f"rows of the data set of their parents, {data_set.schema.data!r}"
        raise InvalidValueError("children", got=terms.children, allowed=allowed)
    number = parents.coding.column(terms.number)
    if number.coded.type.kind is not Kind.INTEGER or number.width > 1:
        allowed = "a column of at most 256 whole numbers"
        raise InvalidValueError("number", got=terms.number, allowed=allowed, hint="CLIP it.")
    for name in shared:
        if parents.coding.column(name).values != children.coding.column(name).values:
            allowed = f"rows whose column {name!r} has the same values as that of the parents"
            raise InvalidValueError("children", got=terms.children, allowed=allowed)
    return parents, children, shared


def release_family(session: AnalystSession, order: FamilyOrder) -> FamilyRelease:
    """Release parents and children, each for half of the price, which is charged at once: both are made, or neither."""
    parents, children, shared = plan_family(session, order)
    engine, child_rows = children.rows.data_set.engine, children.rows.plan
    prepared = engine.prepare_rows(child_rows)

    def measure(rows: CodedRows) -> bytes:
        first = synthesise(parents.plan, parents.coding.table(rows), progress=order.progress).to_bytes()
        table = children.coding.table(engine.rows(prepared))
        second = synthesise(children.plan, table, progress=order.progress).to_bytes()
        # the length says where the measurements of the parents end
        return len(first).to_bytes(8, "big") + first + second

    half = parents.price.epsilon
    items = (("parents", half, Fraction(0)), ("children", half, Fraction(0)))
    parts = {"parents": parents.head.to_json(), "children": children.head.to_json()}
    head = ReleaseHead(
        kind="family",
        price=Money(epsilon=2 * half, delta=Fraction(0), items=items),
        caveats=(),
        question=parents.question,
        details={"number": order.number, "shared": list(shared), **parts},
    )
    text = f"{parents.text} -- with children: {children.question}"
    # one charge for both, so that never one is paid without the other
    events = (*parents.plan.events, *children.plan.events)
    explained = ReleaseExplanation(head=head, rows=parents.rows, plan=None, text=text, events=events)
    options = (child_rows.question, child_rows.limits)
    return release(session, explained, measure, FamilyRelease.made, order, options=options)


def shared_columns(parents: Sequence[str], own: Sequence[str], number: str, children: str) -> tuple[str, ...]:
    """Return the columns that parents and children share; refuse columns by which children cannot find parents."""
    if number not in parents or number in own:
        raise InvalidValueError("number", got=number, allowed=f"a column of the parents alone: {', '.join(parents)}")
    shared = tuple(name for name in parents if name in own)
    if not shared or len(shared) == len(own):
        allowed = "rows with some columns of the parents, and some of their own"
        raise InvalidValueError("children", got=children, allowed=allowed)
    return shared
