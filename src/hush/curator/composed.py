"""Values and half-widths of a question over answers, from the numbers that its questions released.

A row of such a table comes from groups of the questions. A column's half-widths are found in one of three ways, the
first that applies:

1. It is a function of what one question released of one group, such as n or 100 * n / m. Then it is an output of that
   question, and has the half-width that `hush.curator.estimates` gives it.
2. It is a smooth function of several groups' numbers, whose rows and order are public: a share, a running sum, a
   difference to the month before. Plausible truths of all groups are simulated, each group's noise apart, and the whole
   table is computed from them once more for each draw.
3. Noise decides about order, rank or which rows there are, or a function turns back (ABS, CASE): all numbers of all
   groups lie within wider bars at once, as often as the confidence says (each misses with a probability of α over their
   number), and all that is made of them lies between the ends that follow (`hush.query.answers.windows`).

Where noise had a part in which R of H rows are shown, 1 and 2 use the level α·R/H: of the rows shown, a share of α at
most misses on average (Benjamini and Yekutieli 2005). Bars of the third way hold for all rows at once, so for those
shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hush.curator.estimates import GroupColumns
from hush.query.answers.plan import ComposedPlan
from hush.query.answers.tree import (
    RANKS,
    AnswerTable,
    Asked,
    Computed,
    Matched,
    Meaning,
    Qualified,
    Regrouped,
    Sorted,
    Stacked,
    Window,
    Windowed,
    meanings,
    released_columns,
)
from hush.query.answers.windows import (
    Flags,
    Membership,
    Places,
    Structure,
    codes,
    combined,
    distinct_counts,
    order_codes,
    rank_interval,
    unknown_as_infinite,
    value_of,
)
from hush.query.expressions import Column, Expression, Released, columns_in, with_columns
from hush.query.functions.record import Array, as_array, key_array, nulls, objects
from hush.query.plan import errs, is_count
from hush.query.plan.draws import DrawnAggregate
from hush.query.relations import Frame
from hush.query.released import Ends, enclose, evaluate, folds, least_widths, possible_widths, unsettled
from hush.query.released import noisy as made_of_aggregates
from hush.query.types import Type
from hush.report.columns import AnswerColumn, uniform

DRAWS = 2003
"""The number of simulated truths; a prime, so that multiples of any number visit every draw."""
_FEW_DRAWS = 401
_CELLS = 4_000_000
_NEEDED = 20  # the least number of draws outside an interval from which its ends can be estimated


@dataclass(slots=True, eq=False)
class AnswerCells:
    """A column of a table of answers: values, definition and possible errors."""

    type: Type
    noisy: bool
    values: Array
    raw: Sequence[Any] | None = None
    """The values as they were released; whole numbers are exact."""
    truths: Callable[[], Array | None] = lambda: None
    """Plausible truths, a row for each draw; None where there are none."""
    ends: Callable[[], Ends] | None = None

    def take(self, rows: Places, *, missing: Flags | None = None) -> AnswerCells:
        """Return the cells of ``rows``; NULL where they are ``missing``."""
        if not len(self.values):
            return AnswerCells(self.type, self.noisy, as_array([None] * len(rows), self.type.kind))
        values, raw = self.values[rows], None if self.raw is None else [self.raw[row] for row in rows.tolist()]
        lost = np.zeros(len(rows), dtype=bool) if missing is None else missing
        if lost.any():
            values[lost] = np.nan if values.dtype == np.float64 else None
            raw = None if raw is None else [None if gone else v for v, gone in zip(raw, lost.tolist(), strict=True)]

        def truths() -> Array | None:
            simulated = self.truths()
            return None if simulated is None else np.where(lost, np.nan, simulated[:, rows])

        def ends() -> Ends:
            low, high = self.known_ends
            # NULL stands for any value, so its ends are infinite
            return np.where(lost, -np.inf, low[rows]), np.where(lost, np.inf, high[rows])

        return AnswerCells(self.type, self.noisy, values, raw, truths, ends)

    @property
    def known_ends(self) -> Ends:
        """The ends between which the truth lies: both at the value where it is public, infinite where unknown."""
        if not self.noisy and self.values.dtype == np.float64:
            return self.values, self.values
        if self.noisy and self.ends is not None:
            return self.ends()
        return np.full(len(self.values), -np.inf), np.full(len(self.values), np.inf)

    @property
    def present(self) -> tuple[Flags, Flags]:
        """The rows in which the truth is surely not NULL, and those in which it is possibly not NULL."""
        if not self.noisy:
            full = ~nulls(self.values)
            return full, full
        low, high = self.known_ends  # where NULL is possible, both are infinite (`hush.query.released.enclose`)
        return np.isfinite(low) | np.isfinite(high), np.ones(len(low), dtype=bool)


@dataclass(slots=True, eq=False)
class AnswerRows:
    """Rows of answers: the rows shown, and all rows that could be shown without noise."""

    columns: dict[str, AnswerCells]
    places: dict[int, Places]
    """For each part, by its number, the group that a row comes from; -1 for none."""
    surely: Flags
    maybe: Flags
    order: Places
    """The rows that are shown, in order."""
    level: float = 1.0
    """The share of the candidates that noise has left among the rows shown."""
    gaps: bool = False
    """Whether rows that could be shown without noise are missing in this table."""

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.maybe)

    @property
    def shown(self) -> Flags:
        """Whether each row is shown."""
        shown = np.zeros(self.size, dtype=bool)
        shown[self.order] = True
        return shown

    @property
    def certain(self) -> bool:
        """Whether the set of rows is independent of noise."""
        return not self.gaps and bool((self.surely == self.maybe).all() and (self.shown == self.maybe).all())

    def only_shown(self) -> AnswerRows:
        """Return the rows that are shown, in order."""
        rows = self.order
        if len(rows) == self.size and (rows == np.arange(self.size)).all():
            return self
        return AnswerRows(
            columns={name: cells.take(rows) for name, cells in self.columns.items()},
            places={part: groups[rows] for part, groups in self.places.items()},
            surely=self.surely[rows],
            maybe=np.ones(len(rows), dtype=bool),
            order=np.arange(len(rows)),
            level=self.level,
            gaps=self.gaps or bool((self.maybe & ~self.shown).any()),
        )

    def level_with(self, shown: int) -> float:
        """Return the level after noise has reduced the rows shown to ``shown`` rows."""
        before = len(self.order)
        return self.level * shown / before if 0 < shown < before else self.level

    def member(self, partition: Places, argument: AnswerCells | None = None) -> Membership:
        """Return the sure and possible rows by partition; with an argument, only rows where it is not NULL."""
        if argument is None:
            return Membership(partition, self.surely, self.maybe)
        surely, maybe = argument.present
        return Membership(partition, self.surely & surely, self.maybe & maybe)


class Composer:
    """Makes the table of a question over answers."""

    def __init__(self, plan: ComposedPlan, groups: Mapping[int, GroupColumns]) -> None:
        self._plan, self._groups = plan, groups
        self._parts: list[GroupColumns] = []
        """The groups that `Asked` nodes read."""
        numbers = sum(len(each) * max(len(each.plan.estimators), 1) for each in groups.values())
        self._missing = (1 - plan.confidence) / max(numbers, 1)
        """The error probability of each number's wider interval; with it all hold at once (Bonferroni)."""
        # simulated truths are kept in memory: draws times groups
        affordable = _CELLS // max([len(each) for each in groups.values()] + [1])
        self._draws = DRAWS if affordable >= DRAWS * 4 else _FEW_DRAWS if affordable >= _FEW_DRAWS else 0

    def columns(self) -> tuple[AnswerColumn, ...]:
        """Return the columns of the answer."""
        table = self._table(self._plan.question.table).only_shown()
        meant = meanings(self._plan.question.table, {number: self._outputs(number) for number in self._groups})
        columns = []
        for name, unique in self._plan.question.outputs:
            cells = table.columns[unique]
            meaning = meant.get(unique, {})
            read = [(self._parts[part].plan, each.expression) for part, each in meaning.items() if each is not None]
            # values that are no numbers have half-widths too if they are quantiles of dates
            has_widths = cells.type.kind.numeric or any(errs(plan, expression) for plan, expression in read)
            columns.append(
                AnswerColumn(
                    name=name,
                    kind=cells.type.kind,
                    values=uniform(cells.values.tolist() if cells.raw is None else cells.raw, cells.type.kind),
                    errors=tuple(self._widths(table, cells, meaning)) if cells.noisy and has_widths else None,
                    counts=cells.noisy and 0 < len(read) == len(meaning) and all(is_count(e, plan) for plan, e in read),
                )
            )
        return tuple(columns)

    def _table(self, node: AnswerTable) -> AnswerRows:
        match node:
            case Asked():
                return self._asked(node)
            case Computed():
                table = self._table(node.source)
                return replace(table, columns={name: self._cells(table, each) for name, each in node.columns})
            case Qualified():
                return self._qualified(self._table(node.source), node.condition)
            case Sorted():
                return self._sorted(self._table(node.source), node)
            case Windowed():
                table = self._table(node.source)
                windows = {name: self._window(table, window) for name, window in node.windows}
                return replace(table, columns=table.columns | windows)
            case Regrouped():
                return self._regrouped(self._table(node.source), node)
            case Matched():
                return self._matched(self._table(node.left).only_shown(), self._table(node.right).only_shown(), node)
            case Stacked():
                return self._stacked([self._table(source) for source in node.sources], node)

    def _asked(self, node: Asked) -> AnswerRows:
        """Return the released groups of a question, summed to coarser groups where the node says so."""
        groups, number = self._groups[node.question], len(self._parts)
        if node.added_up is not None:
            groups = groups.added_up(node.added_up)
        expressions = released_columns(node, self._outputs(node.question))
        columns = {name: self._released(groups, expression) for name, expression in expressions.items()}
        self._parts.append(groups)
        every, rows = np.ones(len(groups), dtype=bool), np.arange(len(groups))
        return AnswerRows(columns, {number: rows}, every, every, rows)

    def _outputs(self, number: int) -> dict[str, Expression]:
        """Return the outputs of a question by their names."""
        return dict(self._groups[number].plan.question.outputs)

    def _released(self, groups: GroupColumns, expression: Expression) -> AnswerCells:
        raw, noisy = groups.values(expression), made_of_aggregates(expression)
        values = (as_array if noisy else key_array)(raw, expression.type.kind)
        cells = AnswerCells(expression.type, noisy, values, raw)
        if noisy and isinstance(expression, Released):
            cells.truths = lambda: groups.truths(self._draws).get(expression.index)
            if expression.type.kind.numeric and not isinstance(
                groups.plan.estimators[expression.index], DrawnAggregate
            ):
                cells.ends = lambda: groups.ends(expression, self._missing)
            else:
                # of a draw nothing is known but the public range of its values
                lower, upper = expression.type.lower, expression.type.upper
                low = np.full(len(groups), -np.inf if lower is None else float(lower))
                high = np.full(len(groups), np.inf if upper is None else float(upper))
                cells.ends = lambda: (low, high)
        return cells

    # expressions over a row

    def _cells(self, table: AnswerRows, expression: Expression) -> AnswerCells:
        """Return an expression over the columns of a table, with its truths and ends."""
        if isinstance(expression, Column):
            return table.columns[expression.name]
        used = {name: table.columns[name] for name in sorted(columns_in(expression))}
        noisy = {name: cells for name, cells in used.items() if cells.noisy}
        public = {name: cells for name, cells in used.items() if not cells.noisy}
        # noisy columns stand as aggregates and public ones as keys, so that `hush.query.released` evaluates it
        over: dict[str, Expression] = {
            name: Released("aggregate" if name in noisy else "key", index, cells.type)
            for side in (noisy, public)
            for index, (name, cells) in enumerate(side.items())
        }
        plain, size = with_columns(expression, over), table.size
        keys, answers = ([cells.values for cells in side.values()] for side in (public, noisy))
        values = np.array(np.broadcast_to(evaluate(plain, keys, answers), (size,)))
        result = AnswerCells(expression.type, bool(noisy), values)
        if not noisy:
            return result

        def truths() -> Array | None:
            if folds(plain) or not expression.type.kind.numeric:
                return None
            draws = [simulated for cells in noisy.values() if (simulated := cells.truths()) is not None]
            if len(draws) < len(noisy):
                return None
            with np.errstate(all="ignore"):
                computed = np.broadcast_to(evaluate(plain, keys, draws), (len(draws[0]), size))
                undefined = unsettled(plain, keys, answers, draws)
            return np.where(undefined, np.nan, computed) if undefined.any() else np.asarray(computed)

        result.truths = truths
        result.ends = lambda: enclose(plain, keys, [cells.known_ends for cells in noisy.values()], size)
        return result

    # rows

    def _qualified(self, table: AnswerRows, condition: Expression) -> AnswerRows:
        cells = self._cells(table, condition)
        holds = cells.values == 1
        order = table.order[holds[table.order]]
        if not cells.noisy:
            return replace(table, surely=table.surely & holds, maybe=table.maybe & holds, order=order)
        low, high = cells.known_ends
        # a condition is 0 or 1: surely true if its lower end is 1, possibly true if its upper end is above 0
        surely, maybe = table.surely & (low >= 1), table.maybe & ((high > 0) | (table.shown & holds))
        return replace(table, surely=surely, maybe=maybe, order=order, level=table.level_with(len(order)))

    def _sorted(self, table: AnswerRows, node: Sorted) -> AnswerRows:
        by = [self._cells(table, ordering.by) for ordering in node.order]
        rows = table.order
        # stable sorts by the last key first give the order by all keys
        for ordering, cells in zip(reversed(node.order), reversed(by), strict=True):
            ranks = order_codes(cells.values[rows], descending=ordering.descending, nulls_first=ordering.nulls_first)
            rows = rows[np.argsort(ranks, kind="stable")]
        stop = len(rows) if node.limit is None else node.offset + node.limit
        order = rows[node.offset : stop]
        if len(order) == len(rows):
            return replace(table, order=rows)
        limited, noisy = replace(table, order=order), any(cells.noisy for cells in by)
        shown = limited.shown
        if not noisy and table.certain:
            return replace(limited, surely=shown, maybe=shown)
        # a row is surely among those from OFFSET to LIMIT if even its extreme ranks by the first ORDER BY are
        ends = by[0].known_ends if by and by[0].type.kind.numeric else None
        member = table.member(np.zeros(table.size, dtype=np.int64))
        least, largest = member.rank_ends(ends, descending=bool(by) and node.order[0].descending)
        surely = table.surely & (largest < stop) & (least >= node.offset)
        maybe = (table.maybe & (least < stop) & (largest >= node.offset)) | shown
        level = table.level_with(len(order)) if noisy else table.level
        return replace(limited, surely=surely, maybe=maybe, level=level)

    # across rows

    def _window(self, table: AnswerRows, window: Window) -> AnswerCells:
        """Return a window function over the frames of the rows that are shown."""
        partition = [self._cells(table, each) for each in window.partition]
        order = [self._cells(table, ordering.by) for ordering in window.order]
        rows = table.order
        ranks = [
            order_codes(cells.values[rows], descending=each.descending, nulls_first=each.nulls_first)
            for cells, each in zip(order, window.order, strict=True)
        ]
        by = combined([codes(cells.values[rows]) for cells in partition], len(rows))
        frames = Structure.of(by, combined(ranks, len(rows)), frame=window.frame, ordered=bool(order))
        argument = None if window.argument is None else self._cells(table, window.argument)

        def over_frames(values: Array | None, kind: str = window.kind) -> Array:
            """Return the window's values of the rows that are shown, at their places among all rows."""
            of_shown = value_of(kind, frames, None if values is None else values[..., rows], window.number)
            numeric = of_shown.dtype == np.float64
            spread = np.full((*of_shown.shape[:-1], table.size), np.nan if numeric else None, dtype=of_shown.dtype)
            spread[..., rows] = of_shown
            return spread

        def partitions() -> Places:
            return combined([codes(cells.values) for cells in partition], table.size)

        noisy_frames = not table.certain or any(cells.noisy for cells in (*partition, *order))
        noisy = noisy_frames or (argument is not None and argument.noisy)
        if argument is not None and window.kind == "count_distinct":
            values = distinct_counts(partitions(), argument.values, table.shown)
        else:
            values = over_frames(None if argument is None else argument.values)
        result = AnswerCells(window.type, noisy, values)
        if not noisy_frames and argument is not None and window.kind != "count_distinct":

            def truths() -> Array | None:
                simulated = argument.truths()
                if simulated is None or window.kind in {"min", "max"}:  # these turn back, like GREATEST
                    return None
                return over_frames(simulated)

            def ends() -> Ends:
                if window.kind == "count":  # NULL is not counted, and of no rows there are 0
                    low, high = (np.nan_to_num(over_frames(full.astype(float), "sum")) for full in argument.present)
                else:
                    low, high = map(over_frames, argument.known_ends)
                return unknown_as_infinite(low, high)

            result.truths, result.ends = truths, ends
        elif noisy and not table.gaps and not any(cells.noisy for cells in partition):

            def uncertain() -> Ends:
                """Return the ends of a window over rows, or in an order, that noise has decided."""
                if window.kind in RANKS:
                    member = table.member(partitions())
                    ends = order[0].known_ends if order and order[0].type.kind.numeric else None
                    before = member.rank_ends(ends, descending=bool(order) and window.order[0].descending)
                    return rank_interval(window, before, member.ends("count", None, whole=True)[1])
                unframed = not window.order and window.frame in {None, Frame(first=None, last=None)}
                member = table.member(partitions(), argument if window.kind == "count" else None)
                return member.ends(window.kind, None if argument is None else argument.known_ends, whole=unframed)

            result.ends = uncertain
        return result

    def _regrouped(self, table: AnswerRows, node: Regrouped) -> AnswerRows:
        keys = [self._cells(table, key) for _, key in node.keys]
        by = combined([codes(cells.values) for cells in keys], table.size)
        groups = int(by.max(initial=-1)) + 1
        if node.whole and not groups:  # of no rows there is one row still
            columns = {
                name: AnswerCells(fold.type, True, np.array([0.0 if fold.kind.startswith("count") else np.nan]))
                for name, fold in node.folds
            }
            single = np.ones(1, dtype=bool)
            return AnswerRows(columns, {}, single, single, np.zeros(1, dtype=np.int64), gaps=True)
        rows = table.order
        first = np.zeros(groups, dtype=np.int64)  # a row of each group: the first that is shown, or any
        first[by[::-1]] = np.arange(table.size)[::-1]
        first[by[rows][::-1]] = rows[::-1]
        columns = {name: cells.take(first) for (name, _), cells in zip(node.keys, keys, strict=True)}
        for name, fold in node.folds:  # a window over the whole group has its value in every row
            cells = self._window(table, fold).take(first)
            if fold.kind == "count":  # of a group without a row that is shown
                cells.values = np.nan_to_num(cells.values)
            if fold.kind not in {"sum", "avg"}:
                cells.truths = lambda: None
            columns[name] = cells
        surely, maybe = (node.whole | (np.bincount(by, flags) > 0) for flags in (table.surely, table.maybe))
        # groups in the order of their first rows that are shown
        order = [0] if node.whole else list(dict.fromkeys(by[rows].tolist()))
        return AnswerRows(
            columns=columns,
            places={},
            surely=surely,
            maybe=maybe,
            order=np.array(order, dtype=np.int64),
            level=table.level,
            gaps=table.gaps or any(cells.noisy for cells in keys),
        )

    # several tables

    def _matched(self, left: AnswerRows, right: AnswerRows, node: Matched) -> AnswerRows:
        sides = tuple(zip((left, right), _matched_rows(left, right, node), strict=True))
        size = len(sides[0][1])
        columns: dict[str, AnswerCells] = {}
        surely = np.ones(size, dtype=bool)
        for table, rows in sides:
            missing, present = rows < 0, np.maximum(rows, 0)
            surely &= np.where(missing, not table.gaps, table.surely[present] if table.size else False)
            columns |= {name: cells.take(present, missing=missing) for name, cells in table.columns.items()}
        return AnswerRows(
            columns=columns,
            places={
                part: np.where(rows < 0, -1, groups[np.maximum(rows, 0)] if len(groups) else -1)
                for table, rows in sides
                for part, groups in table.places.items()
            },
            surely=surely,
            maybe=np.ones(size, dtype=bool),
            order=np.arange(size),
            # a pair is shown if noise left both of its rows: the shares multiply
            level=left.level * right.level,
            gaps=left.gaps or right.gaps,
        )

    def _stacked(self, tables: list[AnswerRows], node: Stacked) -> AnswerRows:
        starts = np.concatenate([[0], np.cumsum([table.size for table in tables])]).astype(np.int64)
        parts = sorted({part for table in tables for part in table.places})
        candidates = sum(len(table.order) / max(table.level, 1e-12) for table in tables)
        lists = [list(table.columns.values()) for table in tables]
        return AnswerRows(
            columns={
                column.name: _stacked_cells([cells[index] for cells in lists], column.type, noisy=column.noisy)
                for index, column in enumerate(node.columns)
            },
            places={
                part: np.concatenate([table.places.get(part, np.full(table.size, -1)) for table in tables])
                for part in parts
            },
            surely=np.concatenate([table.surely for table in tables]),
            maybe=np.concatenate([table.maybe for table in tables]),
            order=np.concatenate([table.order + start for table, start in zip(tables, starts, strict=False)]),
            level=min(1.0, sum(len(table.order) for table in tables) / candidates) if candidates else 1.0,
            gaps=any(table.gaps for table in tables),
        )

    def _widths(
        self, table: AnswerRows, cells: AnswerCells, meaning: Mapping[int, Meaning | None]
    ) -> list[float | None]:
        outside = (1 - self._plan.confidence) * table.level
        widths = np.full(table.size, None, dtype=object)
        unknown = np.ones(table.size, dtype=bool)
        # 1. functions of one group of one question
        for part, each in meaning.items():
            groups = table.places.get(part, np.full(table.size, -1))
            rows = np.flatnonzero(groups >= 0)
            if len(rows) and each is not None:
                widths[rows] = self._parts[part].widths(each.expression, groups[rows], 1 - outside)
                unknown[rows] = False
        rows = np.flatnonzero(unknown)
        if not len(rows) or not cells.type.kind.numeric:
            return widths.tolist()
        answers = cells.values[rows]
        truths = cells.truths()
        if truths is not None and outside * len(truths) >= _NEEDED:  # 2. smooth functions of several groups
            far = least_widths((truths[:, rows] - answers).T, outside)
        else:  # 3. everything else lies between ends
            low, high = cells.known_ends
            far = np.maximum(answers - low[rows], high[rows] - answers)
        widths[rows] = possible_widths(far, answers, cells.type)
        return widths.tolist()


def _stacked_cells(cells: Sequence[AnswerCells], type_: Type, *, noisy: bool) -> AnswerCells:
    """Return one column from several, stacked as by UNION ALL."""
    values = [
        as_array(each.values.tolist(), type_.kind)
        if type_.kind.numeric and each.values.dtype != np.float64
        else each.values
        for each in cells
    ]
    raw = [value for each in cells for value in (each.values.tolist() if each.raw is None else each.raw)]

    def truths() -> Array | None:
        simulated = [each.truths() if each.noisy else None for each in cells]
        draws = next((len(each) for each in simulated if each is not None), 0)
        columns = []
        for truth, each, public in zip(simulated, cells, values, strict=True):
            if truth is None and each.noisy and len(public):
                return None
            columns.append(np.broadcast_to(public, (draws, len(public))) if truth is None else truth)
        return np.concatenate(columns, axis=1) if draws else None

    def ends() -> Ends:
        low, high = zip(*(each.known_ends for each in cells), strict=True)
        return np.concatenate(low), np.concatenate(high)

    return AnswerCells(type_, noisy, np.concatenate(values), raw, truths, ends)


def _matched_rows(left: AnswerRows, right: AnswerRows, node: Matched) -> tuple[Places, Places]:
    """Return the rows of both sides that belong together; -1 stands for no row."""

    def keys(table: AnswerRows, side: int) -> list[tuple[Any, ...]]:
        columns = [objects(table.columns[names[side]].values).tolist() for names in node.on]
        return list(zip(*columns, strict=True)) if columns else [()] * table.size

    index: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(keys(right, 1)):
        if None not in key:  # NULL equals nothing
            index.setdefault(key, []).append(row)
    pairs: list[tuple[int, int]] = []
    for row, key in enumerate(keys(left, 0)):
        matches = index.get(key, [-1] if node.how in {"left", "full"} else [])
        pairs += [(row, match) for match in matches]
    if node.how == "full":
        used = {match for _, match in pairs}
        pairs += [(-1, row) for row in range(right.size) if row not in used]
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]
