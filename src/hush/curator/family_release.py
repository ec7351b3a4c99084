"""``curator.synth_children``: synthetic parents with synthetic children, from two releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hush.core import InvalidValueError, Number, positive
from hush.core.optional import optional
from hush.curator.access import Access, PlannedRows
from hush.curator.synthetic_release import (
    SyntheticExplanation,
    SyntheticRelease,
    planned_synthesis,
    release_synthetic,
)
from hush.synth.families import deal
from hush.synth.model import Draws


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
    request: str | None,
    progress: Callable[[str, float], None] | None,
) -> FamilyRelease:
    """Release parents and children, each for half of the price."""
    (parent, child), shared = planned_family(access, parents, children, number, epsilon, max_rows, data)
    return FamilyRelease(
        parents=release_synthetic(access, *parent, None if request is None else f"{request}: parents", progress),
        children=release_synthetic(access, *child, None if request is None else f"{request}: children", progress),
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
    if number not in names[0] or number in names[1]:
        raise InvalidValueError("number", got=number, allowed=f"a column of the parents alone: {', '.join(names[0])}")
    shared = tuple(name for name in names[0] if name in names[1])
    if not shared or len(shared) == len(names[1]):
        raise InvalidValueError(
            "children", got=children, allowed="rows with some columns of the parents, and some of their own"
        )
    plans = [
        planned_synthesis(access, sql, epsilon=Fraction(half), certify="0.05", max_rows=rows, data=data)
        for sql, rows in ((parents, 1), (children, max_rows))
    ]
    return plans, shared


def _names(access: Access, sql: str, data: str | None) -> Sequence[str]:
    return [column.name for column in access.plan_rows(sql, data=data).plan.columns]
