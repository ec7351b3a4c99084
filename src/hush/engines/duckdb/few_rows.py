r"""Exact integers from few rows, added up here; `few_rows_statement` says when, and how the rows come.

What is computed is what the statements over many rows compute (`hush.engines.sql.main_statement` has it in words), and
the proof of what one unit can change is the same (`hush.query.plan.limits`): of a unit's groups the first in the order
of their hashes are kept, and of a pair (unit, group) with n > rows rows each sum s becomes s·rows // n.

**Exactness.** A row's integer is below 2⁶² in magnitude, and there are at most 2¹⁶ rows. Sums are taken by counting
with weights in float64, which is exact while all partial sums are whole and below 2⁵³; integers for which that is not
sure are cut into v = h·2³¹ + l with 0 ≤ l < 2³¹ and |h| ≤ 2³¹, whose sums stay below 2⁴⁷. What may leave 64 bits after
that is computed in Python's integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from sys import getsizeof
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core.values import dataclass
from hush.engines.base import Choose, Exact, Histograms, Sparse
from hush.engines.duckdb.few_rows_statement import FEW, GROUP, LONG, ORDER, Flat
from hush.engines.sql.rendered import UNIT
from hush.engines.sql.values import Form
from hush.mechanisms.grouped.base import integer_array
from hush.query.plan.choices import Choice, LineHistogram
from hush.query.plan.limits import Limits, Units
from hush.query.plan.plan import Plan
from hush.query.plan.statistics import (
    Count,
    Distinct,
    DistinctCount,
    DistinctTotal,
    Factor,
    Others,
    Population,
    Statistic,
    Total,
    UnitCount,
)

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Columns = dict[str, Any]
"""What numpy makes of an engine's columns: arrays, masked where something is NULL."""
_SAFE = 2**53
_TABLE = 2**20
"""Values within a span below this are numbered by a table, which is quicker than to sort them."""
_HALF = 31


def too_many(flat: Flat, columns: Columns) -> bool:
    """Return whether these are not all rows of the question, or not all of each."""
    some = next(iter(columns.values()))
    return len(some) > FEW or (flat.long and bool(np.any(columns[LONG])))


def size(flat: Flat, columns: Columns) -> int:
    """Return about how many bytes the columns take."""
    texts = [columns[label].tolist() for label, form in flat.keys if form is Form.TEXT]
    lengths = sum(getsizeof(value) for values in texts for value in values)
    return sum(int(column.nbytes) for column in columns.values()) + lengths


def exact(
    plan: Plan, flat: Flat, columns: Columns, public: Sequence[tuple[Any, ...]] | None, choose: Choose | None
) -> Exact:
    """Return a plan's exact integers, from all its rows.

    ``public`` are all combinations of public keys; None if keys are private: then of the groups that are wanted.
    """
    rows = _Rows.of(plan, flat, columns, None if public is None else len(public))
    statistics = {item: rows.statistic(item) for item in plan.extraction.statistics}
    histograms = [rows.histogram(pick.choice) for pick in plan.picks]
    if public is not None:
        return Exact(keys=public, units=None, statistics=statistics, histograms=tuple(histograms))
    there = np.flatnonzero(rows.units)  # not groups that the bounds took from all their units
    wanted = there if choose is None else there[choose(rows.units[there])]
    return Exact(
        keys=_private_keys(flat, columns, wanted),
        units=rows.units[wanted],
        statistics={item: values[wanted] for item, values in statistics.items()},
        histograms=tuple(item.take(wanted) for item in histograms),
    )


def _private_keys(flat: Flat, columns: Columns, wanted: Integers) -> list[tuple[Any, ...]]:
    """Return the keys of some groups, by the numbers of these: each from a row of the group."""
    row_of = np.zeros(int(columns[GROUP].max(initial=0)), dtype=np.int64)
    row_of[columns[GROUP] - 1] = np.arange(len(columns[GROUP]))
    parts = [_values(columns[label][row_of[wanted]], form) for label, form in flat.keys]
    return list(zip(*parts, strict=True))


def _values(column: Any, form: Form) -> list[Any]:
    """Return the engine's values as Python has them, None for NULL."""
    if form in {Form.DATE, Form.TIMESTAMP}:
        column = column.astype("datetime64[D]" if form is Form.DATE else "datetime64[us]")
    found: list[Any] = column.tolist()
    return found


@dataclass(frozen=True)
class _Rows:
    """The rows that are kept, each with its group and its pair (unit, group)."""

    flat: Flat
    columns: Columns
    limits: Limits
    size: int
    """How many groups there are."""
    kept: Flags | None
    """Which of all rows are kept; None for all."""
    group: Integers
    pair: Integers
    pairs: Integers
    """The group of each pair."""
    _known: dict[tuple[Factor, Population], tuple[Integers, Flags | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, flat: Flat, columns: Columns, public: int | None) -> _Rows:
        """Return the rows within the bounds."""
        limits = plan.extraction.limits
        many = len(next(iter(columns.values())))
        if GROUP in columns:
            group = np.asarray(columns[GROUP], dtype=np.int64) - (public is None)
            size = int(group.max(initial=-1)) + 1 if public is None else public
        else:
            group, size = np.zeros(many, dtype=np.int64), 1
        kept: Flags | None = None
        if limits.units is Units.ALONE:
            pair, pairs = np.arange(many), group
        else:
            unit = _numbered(np.asarray(columns[UNIT]))
            pair = unit if size == 1 else _numbered(unit * size + group)
            some = np.empty(int(pair.max(initial=-1)) + 1, dtype=np.int64)  # a row of each pair
            some[pair] = np.arange(many)
            pairs = group[some]
            if flat.ordered:
                chosen = _first(unit[some], np.asarray(columns[ORDER])[some], pairs, limits.groups)
                if not chosen.all():
                    kept = chosen[pair]
                    pair = (np.cumsum(chosen) - 1)[pair[kept]]
                    group, pairs = group[kept], pairs[chosen]
        return cls(flat=flat, columns=columns, limits=limits, size=size, kept=kept, group=group, pair=pair, pairs=pairs)

    @property
    def _alone(self) -> bool:
        return self.limits.units is Units.ALONE

    def _cut(self, values: Any) -> Any:
        return values if self.kept is None else values[self.kept]

    @cached_property
    def units(self) -> Integers:
        """How many units each group has."""
        return np.bincount(self.pairs, minlength=self.size)

    @cached_property
    def _many(self) -> Integers:
        """How many rows each pair has."""
        return np.bincount(self.pair, minlength=len(self.pairs))

    @cached_property
    def _heavy(self) -> Integers | None:
        """Which pairs are weighted down; None if none is."""
        if self._alone:
            return None
        found = np.flatnonzero(self._many > self.limits.rows)
        return found if len(found) else None

    def _members(self, population: Population) -> Flags | None:
        """Return which rows are in a population; None for all."""
        label = self.flat.populations[population]
        return None if label is None else np.asarray(self._cut(self.columns[label]), dtype=np.bool_)

    def _inside(self, column: Any, population: Population) -> tuple[npt.NDArray[Any], Flags | None]:
        """Return a column's numbers, and which of them are in the population and not NULL; None for all."""
        values, inside = self._cut(column), self._members(population)
        missing = np.ma.getmask(values)
        if missing is not np.ma.nomask:
            inside = ~missing if inside is None else inside & ~missing
        return np.ma.getdata(values), inside

    def _placed(self, factor: Factor, population: Population) -> tuple[Integers, Flags | None]:
        """Return a factor's integers, clamped whatever the rows hold; NaN, as in the engine, is above everything."""
        what = replace(factor, centre=0), population  # a sum and one around the middle have the same integers
        if what not in self._known:
            values, inside = self._inside(self.columns[self.flat.factors[factor]], population)
            self._known[what] = np.fmax(np.fmin(values, factor.last), factor.first).astype(np.int64), inside
        return self._known[what]

    # sums

    def statistic(self, item: Statistic) -> npt.NDArray[Any]:
        """Return a statistic of every group."""
        match item:
            case Count():
                members = self._members(item.population)
                values = np.full(len(self.group), item.times)
                return self._weighed(values if members is None else np.where(members, values, 0), down=False)
            case Others():
                whole = self._members(item.population.within or Population())
                rest = np.ones(len(self.group), dtype=np.int64) if whole is None else whole.astype(np.int64)
                members = self._members(item.population)
                rest -= 1 if members is None else members.astype(np.int64)
                return self._weighed(rest * item.times, down=False)
            case Total():
                return self._weighed(self._product(item), down=item.range[1] <= 0)
            case UnitCount():
                members = self._members(item.population)
                seen = self.pair if members is None else self.pair[members]
                return np.bincount(self.pairs[np.unique(seen)], minlength=self.size)
            case DistinctCount() | DistinctTotal():
                return self._different(item)

    def _product(self, item: Total) -> Integers:
        """Return each row's integer, 0 outside the population."""
        product, inside = np.ones(len(self.group), dtype=np.int64), None
        for factor in item.factors:
            values, here = self._placed(factor, item.population)
            product = product * (values - factor.centre)
            inside = here if inside is None else inside if here is None else inside & here
        product = product - item.offset
        return product if inside is None else np.where(inside, product, 0)

    def _weighed(self, values: Integers, *, down: bool) -> npt.NDArray[Any]:
        """Return the sums of all groups, of pairs with many rows weighted down; a sum never positive rounded ``down``.

        Others are rounded towards zero.
        """
        if self._heavy is None:
            return _added(values, self.group, self.size)
        at = np.full(len(self.pairs), -1)
        at[self._heavy] = np.arange(len(self._heavy))
        here = at[self.pair]
        light = here < 0
        found = _added(values[light], self.group[light], self.size).astype(object)
        sums = _added(values[~light], here[~light], len(self._heavy))
        places = zip(sums.tolist(), self._many[self._heavy].tolist(), self.pairs[self._heavy].tolist(), strict=True)
        for one, many, group in places:
            scaled = one * self.limits.rows
            found[group] += scaled // many if down or scaled >= 0 else -(-scaled // many)
        return integer_array(found)

    def _different(self, item: Distinct) -> npt.NDArray[Any]:
        """Return how many values each group shows, or their sum; a unit shows some of its own in each."""
        number, mixed = self.flat.distinct[item]
        values, inside = self._inside(self.columns[number], item.population)
        rows = np.arange(len(values)) if inside is None else np.flatnonzero(inside)
        most = int(values.max(initial=0)) + 1
        if not self._alone:
            pairs, first = np.unique(self.pair[rows] * most + values[rows], return_index=True)
            rows = rows[first]
            # rows that are told apart by numbers alone have no hash of their own
            hashed = self.limits.units is not Units.NUMBERED
            order = np.asarray(self._cut(self.columns[mixed]))[rows] if hashed else values[rows]
            rows = rows[_first(pairs // most, order, values[rows], self.limits.rows)]
        shown, first = np.unique(self.group[rows] * most + values[rows], return_index=True)
        if isinstance(item, DistinctCount):
            return np.bincount(shown // most, minlength=self.size)
        places, _ = self._placed(item.factor, item.population)
        return _added(places[rows[first]] - item.factor.centre, shown // most, self.size)

    # histograms

    def histogram(self, choice: Choice) -> Histograms:
        """Return the histograms of all groups, in single cells: what is picked has the same law as from wider bins."""
        histogram = choice.histogram
        if isinstance(histogram, LineHistogram):
            index, inside = self._placed(histogram.factor, histogram.population)
            bins = (index - histogram.factor.first) // histogram.cell
        else:
            bins, inside = self._inside(self.columns[self.flat.bins[choice]], histogram.population)
        group, pair = self.group, self.pair
        if inside is not None:
            bins, group, pair = bins[inside], group[inside], pair[inside]
        full = choice.weight(self.limits)
        weights = np.full(len(bins), full)
        if not self._alone:
            many = np.bincount(pair, minlength=len(self.pairs))[pair]
            weights = np.where(many <= self.limits.rows, full, full * self.limits.rows // many)
        order = np.lexsort((bins, group))
        bins, group, weights = bins[order], group[order], weights[order]
        new = np.ones(len(bins), dtype=np.bool_)
        new[1:] = (bins[1:] != bins[:-1]) | (group[1:] != group[:-1])
        starts = np.flatnonzero(new)
        return Histograms(
            joined=Sparse(bins=bins[starts], weights=np.add.reduceat(weights, starts) if len(starts) else weights),
            edges=np.searchsorted(group[starts], np.arange(self.size + 1)),
        )


def _numbered(values: npt.NDArray[Any]) -> Integers:
    """Return the number of each value among all that occur, in their order."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    span = int(values.max()) - int(values.min())
    if span >= _TABLE:
        return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    wide = values.astype(np.int64)  # unsigned ones beyond 2⁶³ wrap around, and their differences back again
    places = wide - wide[values.argmin()]
    there = np.zeros(span + 1, dtype=np.bool_)
    there[places] = True
    return np.asarray((np.cumsum(there) - 1)[places])


def _first(within: Integers, hashes: npt.NDArray[Any], ties: Integers, most: int) -> Flags:
    """Return which are among the first of those alike in ``within``: in the order of hashes, then of ``ties``."""
    order = np.lexsort((ties, hashes, within))
    ordered = within[order]
    begins = np.searchsorted(ordered, ordered)
    found = np.empty(len(order), dtype=np.bool_)
    found[order] = np.arange(len(order)) - begins < most
    return found


def _added(values: Integers, at: Integers, size: int) -> npt.NDArray[Any]:
    """Return the exact sums of values by place."""
    most = max(int(values.max(initial=0)), -int(values.min(initial=0))) * int(np.bincount(at, minlength=1).max())
    if most < _SAFE:
        return _counted(values, at, size)
    high, low = _counted(values >> _HALF, at, size), _counted(values & (2**_HALF - 1), at, size)
    if most < 2**62:
        return (high << _HALF) + low
    return np.asarray(high.astype(object) * 2**_HALF + low.astype(object))


def _counted(values: Integers, at: Integers, size: int) -> Integers:
    return np.bincount(at, weights=values, minlength=size).astype(np.int64)
