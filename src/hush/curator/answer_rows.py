"""Rows of answers: columns of noisy cells, and rows that are shown or that a truth may show.

What the nodes of a composed question work on (`hush.curator.answer_tables`): a column knows its values, what they mean
in terms of what was released, plausible truths and certain ends; a table knows which rows are shown and which might be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from hush.core.values import dataclass
from hush.curator.across_rows import (
    Flags,
    Membership,
    Places,
    Structure,
    combined,
    order_codes,
    value_of,
)
from hush.curator.outputs import ReadGroups
from hush.query.composed import Matched, Regrouped
from hush.query.expressions import Expression, with_columns
from hush.query.question import Ordering
from hush.query.released import Array, Ends, as_array
from hush.query.types import Type


@dataclass(slots=True, eq=False)
class AnswerCells:
    """A column: its values, what they mean, and how far off they may be."""

    type: Type
    noisy: bool
    values: Array
    raw: Sequence[Any] | None = None
    """The values as they were released; whole numbers are exact."""
    meaning: Mapping[int, tuple[int, Expression]] = field(default_factory=dict)
    """By the source of a row: a part, and the expression over what it released that the column is, if it is one."""
    truths: Callable[[], Array | None] = lambda: None
    """Plausible truths, a row for each draw; None where there are none."""
    ends: Callable[[], Ends] | None = None

    def take(self, rows: Places, *, missing: Flags | None = None) -> AnswerCells:
        """Return some rows of it; NULL where they are ``missing``."""
        values, raw = self.values[rows], None if self.raw is None else [self.raw[row] for row in rows.tolist()]
        if missing is not None and missing.any():
            values = values.copy()
            values[missing] = np.nan if values.dtype == np.float64 else None
            gone = missing.tolist()
            raw = None if raw is None else [None if lost else one for one, lost in zip(raw, gone, strict=True)]

        def truths() -> Array | None:
            found = self.truths()
            if found is None:
                return None
            return found[:, rows] if missing is None else np.where(missing, np.nan, found[:, rows])

        def ends() -> Ends:
            low, high = self.known_ends
            if missing is None:
                return low[rows], high[rows]
            return np.where(missing, -np.inf, low[rows]), np.where(missing, np.inf, high[rows])

        return AnswerCells(self.type, self.noisy, values, raw, self.meaning, truths, ends)

    @property
    def known_ends(self) -> Ends:
        """Between which numbers the truth lies; at the value where it is public."""
        if not self.noisy and self.values.dtype == np.float64:
            return self.values, self.values
        if self.ends is None or not self.noisy:
            return np.full(len(self.values), -np.inf), np.full(len(self.values), np.inf)
        return self.ends()


@dataclass(slots=True, eq=False)
class AnswerPart:
    """What a question released, or its groups added up to fewer."""

    read: ReadGroups
    columns: dict[str, AnswerCells]


@dataclass(slots=True, eq=False)
class AnswerRows:
    """Rows of answers: those that are shown, and those that a truth may show."""

    columns: dict[str, AnswerCells]
    source: Places
    """A number for what a row is made of: groups of one part, or of several."""
    places: dict[int, Places]
    """For each part, by its number, the group that a row comes from; -1 for none."""
    shown: Flags
    surely: Flags
    maybe: Flags
    order: Places
    """The rows that are shown, in order."""
    level: float = 1.0
    """Which share of the rows that might have been shown noise has left."""
    gaps: bool = False
    """Whether rows that a truth may have are not here any more."""

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.shown)

    @property
    def certain(self) -> bool:
        """Whether no noise has a part in which rows there are."""
        return not self.gaps and bool((self.surely == self.maybe).all() and (self.shown == self.maybe).all())

    def only_shown(self) -> AnswerRows:
        """Return the rows that are shown, in order."""
        if len(self.order) == self.size and (self.order == np.arange(self.size)).all():
            return self
        rows = self.order
        every = np.ones(len(rows), dtype=bool)
        return AnswerRows(
            columns={name: cells.take(rows) for name, cells in self.columns.items()},
            source=self.source[rows],
            places={part: found[rows] for part, found in self.places.items()},
            shown=every,
            surely=self.surely[rows],
            maybe=every,
            order=np.arange(len(rows)),
            level=self.level,
            gaps=self.gaps or bool((self.maybe & ~self.shown).any()),
        )


def share_left(table: AnswerRows, left: int) -> float:
    """Return which share of the rows noise has left, if it left any."""
    return table.level * left / len(table.order) if 0 < left < len(table.order) else table.level


def meaning_of(expression: Expression, used: Mapping[str, AnswerCells]) -> dict[int, tuple[int, Expression]]:
    """Return, for each source, the expression over what one part released that this is."""
    if not used:
        return {}
    found: dict[int, tuple[int, Expression]] = {}
    for source in set.intersection(*(set(cells.meaning) for cells in used.values())):
        parts = {cells.meaning[source][0] for cells in used.values()}
        if len(parts) == 1:
            over = {name: cells.meaning[source][1] for name, cells in used.items()}
            found[source] = parts.pop(), with_columns(expression, over)
    return found


def order_of_rows(values: Sequence[Array], order: Sequence[Ordering], size: int) -> Places:
    """Return codes of rows that sort as an ORDER BY sorts their values."""
    return combined(
        [
            order_codes(one, descending=item.descending, nulls_first=item.nulls_first)
            for one, item in zip(values, order, strict=True)
        ],
        size,
    )


def spread(values: Array, rows: Places, size: int) -> Array:
    """Return values of the rows that are shown, at their places among all rows."""
    if values.dtype == np.float64:
        found = np.full((*values.shape[:-1], size), np.nan)
    else:
        found = np.full((*values.shape[:-1], size), None, dtype=object)
    found[..., rows] = values
    return found


def any_of_groups(by: Places, flags: Flags, groups: int) -> Flags:
    """Return which groups have a row that is flagged."""
    found = np.zeros(groups, dtype=bool)
    found[by[flags]] = True
    return found


def first_of_groups(by: Places, rows: Places, groups: int) -> Places:
    """Return a row of each group: the first that is shown, or any."""
    found = np.zeros(groups, dtype=np.int64)
    found[by[::-1]] = np.arange(len(by))[::-1]
    found[by[rows][::-1]] = rows[::-1]
    return found


def value_of_groups(values: Array, by: Places, groups: int, *, empty: bool = False) -> Array:
    """Return one value for each group, which all of its rows have."""
    if values.dtype == np.float64:
        found = np.full((*values.shape[:-1], groups), 0.0 if empty else np.nan)
    else:
        found = np.full(groups, None, dtype=object)
    found[..., by] = values
    return found


def nulls(cells: AnswerCells, size: int) -> AnswerCells:
    """Return a column of the same type without a value."""
    numeric = cells.values.dtype == np.float64
    return AnswerCells(cells.type, cells.noisy, np.full(size, np.nan) if numeric else np.full(size, None, dtype=object))


def stacked_cells(cells: Sequence[AnswerCells], type_: Type, *, noisy: bool) -> AnswerCells:
    """Return columns under one another."""
    sizes = [len(one.values) for one in cells]
    values = np.concatenate([as_type(one.values, type_) for one in cells])
    raw = [value for one in cells for value in (one.values.tolist() if one.raw is None else one.raw)]
    meaning = {source: found for one in cells for source, found in one.meaning.items()}

    def truths() -> Array | None:
        found = [one.truths() if one.noisy else None for one in cells]
        draws = next((len(one) for one in found if one is not None), 0)
        if not draws or any(
            one is None and cell.noisy and size for one, cell, size in zip(found, cells, sizes, strict=True)
        ):
            return None
        public = [
            np.broadcast_to(as_type(cell.values, type_), (draws, size)) for cell, size in zip(cells, sizes, strict=True)
        ]
        return np.concatenate([plain if one is None else one for one, plain in zip(found, public, strict=True)], axis=1)

    def ends() -> Ends:
        low, high = zip(*(one.known_ends for one in cells), strict=True)
        return np.concatenate(low), np.concatenate(high)

    return AnswerCells(type_, noisy, values, raw, meaning, truths, ends)


def as_type(values: Array, type_: Type) -> Array:
    """Return values as floats, where the type is a number's."""
    if type_.kind.numeric and values.dtype != np.float64:
        return as_array(values.tolist(), type_.kind)
    return values


def matched_rows(left: AnswerRows, right: AnswerRows, node: Matched) -> list[tuple[int, int]]:
    """Return the rows that belong together; -1 stands for no row."""
    names = [(left.columns[one].values.tolist(), right.columns[other].values.tolist()) for one, other in node.on]
    index: dict[tuple[Any, ...], list[int]] = {}
    for row in range(right.size):
        key = tuple(_comparable(values[row]) for _, values in names)
        if None not in key:
            index.setdefault(key, []).append(row)
    pairs, used = [], set()
    for row in range(left.size):
        key = tuple(_comparable(values[row]) for values, _ in names)
        matches = index.get(key, [])
        used.update(matches)
        pairs += [(row, other) for other in matches]
        if not matches and node.how in {"left", "full"}:
            pairs.append((row, -1))
    if node.how == "full":
        pairs += [(-1, row) for row in range(right.size) if row not in used]
    return pairs


def _comparable(value: Any) -> Any:
    """Return a value as a key; NULL, which equals nothing, as None."""
    return None if isinstance(value, float) and math.isnan(value) else value


def set_fold_bars(
    found: AnswerCells,
    table: AnswerRows,
    kind: str,
    argument: AnswerCells | None,
    grouped: tuple[Places, Places, Places, int],
    at: Structure,
) -> None:
    """Set the truths and the ends of a column that was folded over groups of rows."""
    by, rows, first, groups = grouped
    if table.certain and argument is not None and kind in {"sum", "avg"}:

        def truths() -> Array | None:
            simulated = argument.truths()
            if simulated is None:
                return None
            return value_of_groups(value_of(kind, at, simulated[:, rows]), by[rows], groups)

        found.truths = truths

    def ends() -> Ends:
        member = Membership(by, table.surely, table.maybe)
        inner = None if argument is None else argument.known_ends
        if kind == "avg" and table.certain and inner is not None:
            low, high = (value_of_groups(value_of(kind, at, end[rows]), by[rows], groups) for end in inner)
            return np.nan_to_num(low, nan=-np.inf, neginf=-np.inf), np.nan_to_num(high, nan=np.inf, posinf=np.inf)
        low, high = member.ends(kind, inner, whole=True)
        return low[first], high[first]

    found.ends = ends


def row_of_nothing(node: Regrouped, source: int) -> AnswerRows:
    """Return the one row that folds over no rows have."""
    columns = {
        name: AnswerCells(one.type, noisy=True, values=np.array([0.0 if one.kind.startswith("count") else np.nan]))
        for name, one in node.folds
    }
    one = np.ones(1, dtype=bool)
    return AnswerRows(columns, np.array([source]), {}, one, one, one, np.zeros(1, dtype=np.int64), gaps=True)
