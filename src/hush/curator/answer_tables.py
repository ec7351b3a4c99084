"""Tables made of answers: what a `Composed` question does with what its questions released, and how far off it is.

A row of such a table comes from groups of the questions. A column's half-widths are found in one of three ways, the
first that applies:

1. It is a function of what one question released of one group, such as n or 100 * n / m. Then it is an output of that
   question, and has the half-width that `hush.curator.half_widths` gives it.
2. It is a smooth function of several groups' numbers, whose rows and order are public: a share, a running sum, a
   difference to the month before. Plausible truths of all groups are simulated, each group's noise apart, and the whole
   table is computed from them once more for each draw.
3. Noise decides about order, rank or which rows there are, or a function turns back (ABS, CASE): all numbers of all
   groups lie within wider bars at once, as often as the confidence says (each misses with a probability of α over their
   number), and whatever is made of them lies between the ends that follow (`hush.curator.across_rows`).

Where noise had a part in which R of H rows are shown, 1 and 2 use the level α·R/H: of the rows shown, a share of α at
most misses on average (Benjamini and Yekutieli 2005). Bars of the third way hold for all rows at once, so for those
shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hush.curator.across_rows import (
    Membership,
    Structure,
    codes,
    combined,
    distinct_counts,
    order_codes,
    rank_interval,
    value_of,
)
from hush.curator.answer_rows import (
    AnswerCells,
    AnswerPart,
    AnswerRows,
    any_of_groups,
    first_of_groups,
    matched_rows,
    meaning_of,
    nulls,
    order_of_rows,
    row_of_nothing,
    set_fold_bars,
    share_left,
    spread,
    stacked_cells,
    value_of_groups,
)
from hush.curator.half_widths import folds, least_widths, possible_widths, unsettled
from hush.curator.outputs import ReadGroups, is_count
from hush.query.composed import (
    RANKS,
    AnswerTable,
    Asked,
    Computed,
    Matched,
    Qualified,
    Regrouped,
    Sorted,
    Stacked,
    Window,
    Windowed,
)
from hush.query.expressions import Column, Expression, Released, columns_in, with_columns
from hush.query.plan.composed import ComposedPlan
from hush.query.plan.estimators import Picked
from hush.query.plan.expected import errs
from hush.query.relations import Frame
from hush.query.released import Array, Ends, as_array, enclose, evaluate
from hush.query.released import noisy as made_of_aggregates
from hush.report.columns import AnswerColumn, uniform

DRAWS = 2003
"""How many truths are simulated; a prime, so that multiples of any number run through all of them."""
_FEW_DRAWS = 401
_CELLS = 4_000_000
_NEEDED = 20
"""So many draws must lie outside an interval, for its ends to be known."""


class Composer:
    """Makes the table of a composed question."""

    def __init__(self, plan: ComposedPlan, read: Mapping[int, ReadGroups]) -> None:
        self._plan, self._read = plan, read
        self._parts: list[AnswerPart] = []
        self._sources = 0
        cells = [len(one.released.keys) * max(len(one.plan.estimators), 1) for one in read.values()]
        groups = max([len(one.released.keys) for one in read.values()], default=1)
        outside = 1 - plan.confidence
        self._each = outside / max(sum(cells), 1)
        """How often the wider bar of one number may miss, so that all hold at once."""
        affordable = _CELLS // max(groups, 1)
        self._draws = DRAWS if affordable >= DRAWS * 4 else _FEW_DRAWS if affordable >= _FEW_DRAWS else 0

    def columns(self) -> tuple[AnswerColumn, ...]:
        """Return the answer."""
        table = self._table(self._plan.question.table).only_shown()
        return tuple(self._shown(table, name, table.columns[unique]) for name, unique in self._plan.question.outputs)

    # one node after the other

    def _table(self, node: AnswerTable) -> AnswerRows:
        match node:
            case Asked():
                return self._asked(node)
            case Computed():
                table = self._table(node.source)
                return replace(table, columns={name: self._cells(table, one) for name, one in node.columns})
            case Qualified():
                return self._kept(self._table(node.source), node.condition)
            case Sorted():
                return self._sorted(self._table(node.source), node)
            case Windowed():
                table = self._table(node.source)
                more = {name: self._window(table, one) for name, one in node.windows}
                return replace(table, columns=table.columns | more)
            case Regrouped():
                return self._regrouped(self._table(node.source), node)
            case Matched():
                return self._matched(self._table(node.left).only_shown(), self._table(node.right).only_shown(), node)
            case Stacked():
                return self._stacked([self._table(one) for one in node.sources], node)

    def _asked(self, node: Asked) -> AnswerRows:
        read = self._read[node.question]
        if node.added_up is not None:
            read = read.added_up(node.added_up)
        size, number, source = len(read.released.keys), len(self._parts), self._fresh()
        names = [name for name, _ in self._plan.question.questions[node.question].outputs]
        part = AnswerPart(read, {})
        if node.added_up is None:
            part.columns = {
                name: self._released(part, source, number, one) for name, one in zip(names, read.outputs, strict=True)
            }
        self._parts.append(part)
        kept = range(len(names)) if node.added_up is None else node.added_up
        released: list[Expression] = [
            Released("key", at, read.plan.question.keys[at][1].type)
            for at in (kept if node.added_up is not None else ())
        ]
        released += [Released("aggregate", at, one.type) for at, one in enumerate(read.plan.question.aggregates)]
        if node.added_up is None:
            columns = {one.name: part.columns[one.name] for one in node.columns}
        else:
            columns = {
                one.name: self._released(part, source, number, expression)
                for one, expression in zip(node.columns, released, strict=True)
            }
            part.columns = {
                name: self._released(part, source, number, one)
                for name, one in zip(names, read.outputs, strict=True)
                if not made_of_aggregates(one)
            }
        every = np.ones(size, dtype=bool)
        return AnswerRows(
            columns, np.full(size, source), {number: np.arange(size)}, every, every, every, np.arange(size)
        )

    def _fresh(self) -> int:
        self._sources += 1
        return self._sources

    def _released(self, part: AnswerPart, source: int, number: int, expression: Expression) -> AnswerCells:
        read = part.read
        raw = read.values(expression)
        meaning = {source: (number, expression)}
        noisy = made_of_aggregates(expression)
        cells = AnswerCells(expression.type, noisy, as_array(raw, expression.type.kind), raw, meaning)
        if noisy and isinstance(expression, Released):
            cells.truths = lambda: self._truths(read).get(expression.index)
            cells.ends = lambda: self._base_ends(read, expression)
        return cells

    def _truths(self, read: ReadGroups) -> Mapping[int, Array]:
        return read.truths(self._draws)

    def _base_ends(self, read: ReadGroups, expression: Released) -> Ends:
        size = len(read.released.keys)
        lower, upper = expression.type.lower, expression.type.upper
        low = np.full(size, -np.inf if lower is None else float(lower))
        high = np.full(size, np.inf if upper is None else float(upper))
        if not expression.type.kind.numeric or isinstance(read.plan.estimators[expression.index], Picked):
            return low, high
        return read.rows().ends(expression, missing=self._each, settled=self._each)

    # expressions over a row

    def _find(self, table: AnswerRows, name: str) -> AnswerCells:
        """Return a column, or what a part computed of its keys."""
        if name in table.columns:
            return table.columns[name]
        for number, places in table.places.items():
            known = self._parts[number].columns.get(name)
            if known is not None:
                return known.take(np.maximum(places, 0), missing=places < 0)
        raise KeyError(name)

    def _cells(self, table: AnswerRows, expression: Expression) -> AnswerCells:
        if isinstance(expression, Column):
            return self._find(table, expression.name)
        used = {name: self._find(table, name) for name in sorted(columns_in(expression))}
        noisy = {name: cells for name, cells in used.items() if cells.noisy}
        public = {name: cells for name, cells in used.items() if not cells.noisy}
        over: dict[str, Expression] = {
            name: Released("aggregate" if name in noisy else "key", at, cells.type)
            for named in (noisy, public)
            for at, (name, cells) in enumerate(named.items())
        }
        plain, size = with_columns(expression, over), table.size
        keys = [cells.values for cells in public.values()]
        values = np.array(np.broadcast_to(evaluate(plain, keys, [cells.values for cells in noisy.values()]), (size,)))
        found = AnswerCells(expression.type, bool(noisy), values, meaning=meaning_of(expression, used))
        if not noisy:
            return found
        answers = [cells.values for cells in noisy.values()]

        def truths() -> Array | None:
            if folds(plain) or not expression.type.kind.numeric:
                return None
            simulated = [cells.truths() for cells in noisy.values()]
            if any(one is None for one in simulated):
                return None
            draws = [one for one in simulated if one is not None]
            with np.errstate(all="ignore"):
                others = np.broadcast_to(evaluate(plain, keys, draws), (len(draws[0]), size))
                anything = unsettled(plain, keys, answers, draws)
            return np.where(anything, np.nan, others) if anything.any() else np.asarray(others)

        found.truths = truths
        found.ends = lambda: enclose(plain, keys, [cells.known_ends for cells in noisy.values()], size)
        return found

    # rows

    def _kept(self, table: AnswerRows, condition: Expression) -> AnswerRows:
        cells = self._cells(table, condition)
        passed = table.shown & (cells.values == 1)
        order = table.order[passed[table.order]]
        if not cells.noisy:
            holds = cells.values == 1
            return replace(table, shown=passed, surely=table.surely & holds, maybe=table.maybe & holds, order=order)
        low, high = cells.known_ends
        surely, maybe = table.surely & (low >= 1), table.maybe & ((high > 0) | passed)
        level = share_left(table, len(order))
        return replace(table, shown=passed, surely=surely, maybe=maybe, order=order, level=level)

    def _sorted(self, table: AnswerRows, node: Sorted) -> AnswerRows:
        cells = [self._cells(table, item.by) for item in node.order]
        rows = table.order
        for item, one in zip(reversed(node.order), reversed(cells), strict=True):
            by = order_codes(one.values[rows], descending=item.descending, nulls_first=item.nulls_first)
            rows = rows[np.argsort(by, kind="stable")]
        stop = len(rows) if node.limit is None else node.offset + node.limit
        left = rows[node.offset : stop]
        if len(left) == len(rows):
            return replace(table, order=rows)
        shown = np.zeros(table.size, dtype=bool)
        shown[left] = True
        noisy = any(one.noisy for one in cells)
        if not noisy and table.certain:
            return replace(table, shown=shown, surely=shown, maybe=shown, order=left)
        member = Membership(np.zeros(table.size, dtype=np.int64), table.surely, table.maybe)
        first = node.order[0] if node.order else None
        known = cells[0].known_ends if cells and cells[0].type.kind.numeric else None
        least, most = member.rank_ends(known, descending=first is not None and first.descending)
        surely = table.surely & (most < stop) & (least >= node.offset)
        maybe = (table.maybe & (least < stop) & (most >= node.offset)) | shown
        level = share_left(table, len(left)) if noisy else table.level
        return replace(table, shown=shown, surely=surely, maybe=maybe, order=left, level=level)

    # across rows

    def _window(self, table: AnswerRows, window: Window) -> AnswerCells:
        partition = [self._cells(table, one) for one in window.partition]
        order = [self._cells(table, item.by) for item in window.order]
        argument = None if window.argument is None else self._cells(table, window.argument)
        rows = table.order
        by = combined([codes(one.values[rows]) for one in partition], len(rows))
        ordered = order_of_rows([one.values[rows] for one in order], window.order, len(rows))
        at = Structure.of(by, ordered, frame=window.frame, ordered=bool(order))
        given = None if argument is None else argument.values[rows]
        values = spread(value_of(window.kind, at, given, window.number), rows, table.size)
        noisy = not table.certain or any(one.noisy for one in (*partition, *order, *([argument] if argument else [])))
        found = AnswerCells(window.type, noisy, values)
        if not noisy:
            return found
        public = table.certain and not any(one.noisy for one in (*partition, *order))
        if public and argument is not None:

            def truths() -> Array | None:
                simulated = argument.truths()
                if simulated is None or window.kind in {"min", "max"}:  # these turn back, like GREATEST
                    return None
                return spread(value_of(window.kind, at, simulated[:, rows], window.number), rows, table.size)

            def ends() -> Ends:
                low, high = (
                    spread(value_of(window.kind, at, end[rows], window.number), rows, table.size)
                    for end in argument.known_ends
                )
                return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)

            found.truths, found.ends = truths, ends
        elif not table.gaps and not any(one.noisy for one in partition):
            found.ends = lambda: self._uncertain(table, window, partition, order, argument)
        return found

    def _uncertain(
        self,
        table: AnswerRows,
        window: Window,
        partition: list[AnswerCells],
        order: list[AnswerCells],
        argument: AnswerCells | None,
    ) -> Ends:
        """Return the ends of a window whose order, or whose rows, noise has decided."""
        by = combined([codes(one.values) for one in partition], table.size)
        member = Membership(by, table.surely, table.maybe)
        if window.kind in RANKS:
            known = order[0].known_ends if order and order[0].type.kind.numeric else None
            before = member.rank_ends(known, descending=bool(order) and window.order[0].descending)
            return rank_interval(window, before, member.ends("count", None, whole=True)[1])
        whole = not window.order and window.frame in {None, Frame(first=None, last=None)}
        ends = None if argument is None else argument.known_ends
        return member.ends(window.kind, ends, whole=whole)

    def _regrouped(self, table: AnswerRows, node: Regrouped) -> AnswerRows:
        keys = [self._cells(table, one) for _, one in node.keys]
        arguments = [None if one.argument is None else self._cells(table, one.argument) for _, one in node.folds]
        by = combined([codes(one.values) for one in keys], table.size)
        groups = int(by.max(initial=-1)) + 1
        noisy_keys = any(one.noisy for one in keys)
        shown, surely, maybe = (any_of_groups(by, flags, groups) for flags in (table.shown, table.surely, table.maybe))
        if node.whole and not groups:  # of no rows there is one row still
            return row_of_nothing(node, self._fresh())
        if node.whole:
            shown = surely = maybe = np.ones(1, dtype=bool)
        rows = table.order
        at = Structure.of(by[rows], np.zeros(len(rows), dtype=np.int64), frame=None, ordered=False)
        first = first_of_groups(by, rows, groups)
        columns = {name: one.take(first) for (name, _), one in zip(node.keys, keys, strict=True)}
        for (name, one), argument in zip(node.folds, arguments, strict=True):
            if one.kind == "count_distinct":
                assert argument is not None  # noqa: S101 - it counts something
                values = distinct_counts(by, argument.values, table.shown)[first]
            else:
                given = None if argument is None else argument.values[rows]
                values = value_of_groups(value_of(one.kind, at, given), by[rows], groups, empty=one.kind == "count")
            noisy = noisy_keys or not table.certain or (argument is not None and argument.noisy)
            found = AnswerCells(one.type, noisy, values)
            columns[name] = found
            if noisy and not noisy_keys and not table.gaps:
                set_fold_bars(found, table, one.kind, argument, (by, rows, first, groups), at)
        order = np.array(list(dict.fromkeys(by[rows].tolist())), dtype=np.int64) if not node.whole else np.zeros(1, int)
        return AnswerRows(
            columns=columns,
            source=np.full(groups, self._fresh()),
            places={},
            shown=shown,
            surely=surely,
            maybe=maybe,
            order=order,
            level=table.level,
            gaps=table.gaps or noisy_keys,
        )

    # several tables

    def _matched(self, left: AnswerRows, right: AnswerRows, node: Matched) -> AnswerRows:
        pairs = matched_rows(left, right, node)
        one, other = (np.array([pair[at] for pair in pairs], dtype=np.int64) for at in (0, 1))
        sides = ((left, one), (right, other))
        sources = combined(
            [np.where(rows < 0, -1, table.source[np.maximum(rows, 0)] if table.size else -1) for table, rows in sides],
            len(pairs),
        )
        numbers = {source: self._fresh() for source in np.unique(sources).tolist()}
        columns: dict[str, AnswerCells] = {}
        for table, rows in sides:
            if not table.size:
                columns |= {name: nulls(cells, len(rows)) for name, cells in table.columns.items()}
                continue
            gone = rows < 0
            here = table.source[np.maximum(rows, 0)]
            for name, cells in table.columns.items():
                taken = cells.take(np.maximum(rows, 0), missing=gone)
                meanings: dict[int, tuple[int, Expression]] = {}
                for source, number in numbers.items():
                    at = (sources == source) & ~gone
                    before = here[at][0] if at.any() else -1
                    if before in cells.meaning:
                        meanings[number] = cells.meaning[before]
                taken.meaning = meanings
                columns[name] = taken
        places = {
            part: np.where(rows < 0, -1, found[np.maximum(rows, 0)] if len(found) else -1)
            for table, rows in sides
            for part, found in table.places.items()
        }
        every = np.ones(len(pairs), dtype=bool)
        surely = every.copy()
        for table, rows in sides:
            if table.size:
                surely &= np.where(rows < 0, not table.gaps, table.surely[np.maximum(rows, 0)])
        return AnswerRows(
            columns=columns,
            source=np.array([numbers[source] for source in sources.tolist()], dtype=np.int64),
            places=places,
            shown=every,
            surely=surely,
            maybe=every,
            order=np.arange(len(pairs)),
            level=left.level * right.level,
            gaps=left.gaps or right.gaps,
        )

    def _stacked(self, tables: list[AnswerRows], node: Stacked) -> AnswerRows:
        sizes = [table.size for table in tables]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        columns = {}
        for place, column in enumerate(node.columns):
            cells = [list(table.columns.values())[place] for table in tables]
            columns[column.name] = stacked_cells(cells, column.type, noisy=column.noisy)
        parts = {part for table in tables for part in table.places}
        places = {
            part: np.concatenate([table.places.get(part, np.full(table.size, -1)) for table in tables])
            for part in sorted(parts)
        }
        candidates = sum(int(table.shown.sum()) / max(table.level, 1e-12) for table in tables)
        return AnswerRows(
            columns=columns,
            source=np.concatenate([table.source for table in tables]),
            places=places,
            shown=np.concatenate([table.shown for table in tables]),
            surely=np.concatenate([table.surely for table in tables]),
            maybe=np.concatenate([table.maybe for table in tables]),
            order=np.concatenate([table.order + start for table, start in zip(tables, starts, strict=False)]),
            level=min(1.0, sum(int(table.shown.sum()) for table in tables) / candidates) if candidates else 1.0,
            gaps=any(table.gaps for table in tables),
        )

    # the end

    def _shown(self, table: AnswerRows, name: str, cells: AnswerCells) -> AnswerColumn:
        raw = cells.values.tolist() if cells.raw is None else cells.raw
        errors: tuple[float | None, ...] | None = None
        counts = False
        if cells.noisy and (cells.type.kind.numeric or self._errs(cells)):
            errors = tuple(self._widths(table, cells))
        meanings = list(cells.meaning.values())
        if cells.noisy and len(meanings) == len(set(table.source.tolist())):
            counts = bool(meanings) and all(is_count(one, self._parts[part].read.plan) for part, one in meanings)
        return AnswerColumn(
            name=name, kind=cells.type.kind, values=uniform(raw, cells.type.kind), errors=errors, counts=counts
        )

    def _errs(self, cells: AnswerCells) -> bool:
        """Return whether values that are no numbers have half-widths, as quantiles of dates do."""
        return any(errs(self._parts[part].read.plan, one) for part, one in cells.meaning.values())

    def _widths(self, table: AnswerRows, cells: AnswerCells) -> list[float | None]:
        outside = (1 - self._plan.confidence) * table.level
        widths: list[float | None] = [None] * table.size
        left = np.ones(table.size, dtype=bool)
        for source, (part, expression) in cells.meaning.items():
            rows = np.flatnonzero((table.source == source) & (table.places.get(part, np.full(table.size, -1)) >= 0))
            if len(rows):
                found = self._parts[part].read.widths(expression, table.places[part][rows], 1 - outside)
                for row, width in zip(rows.tolist(), found, strict=True):
                    widths[row] = width
                left[rows] = False
        rows = np.flatnonzero(left)
        if not len(rows) or not cells.type.kind.numeric:
            return widths
        answers = cells.values[rows]
        truths = cells.truths()
        if truths is not None and outside * len(truths) >= _NEEDED:
            far = least_widths((truths[:, rows] - answers).T, outside)
        else:
            low, high = cells.known_ends
            far = np.maximum(answers - low[rows], high[rows] - answers)
        for row, width in zip(rows.tolist(), possible_widths(far, answers, cells.type), strict=True):
            widths[row] = width
        return widths
