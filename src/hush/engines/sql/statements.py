r"""The statements of a plan, and their rows as exact integers by group.

Keys are numbered before anything is counted, or kept as they are until they are chosen (`hush.engines.sql.keys`).

**Bounding** (the proof is in `hush.query.plan.stability`)::

    rows   one row each of the relation: unit u, key k, populations p0 …, integers v0 …
    kept   rows whose key is among the unit's first `groups`, by dense_rank() over hash(u, k, salt), k
    pairs  one row for each (u, k): n rows, sums s_j over those in population j
    answer one row for each k: Σ min(n, rows), Σ (s if n ≤ rows else s·rows // n), number of units

So every row has one weight, whatever a statistic runs over: parts add up, and shares are shares.

A sum of x - c is taken as Σx - c·(number of x that are not NULL): the same integer, with the subtraction done once.
Where the rows were bounded before (`hush.engines.sql.bounding`), those of pairs with no more than ``rows`` rows need no
weights and hence no pairs: Σ over pairs of a sum is the sum over rows. Units are counted this way where a pair has one
row.

``//`` truncates towards zero; a sum that is never positive is rounded down instead (`Halves`). Nothing overflows:
a row's integer is below 2⁶², a sum of fewer than 2⁴⁰ rows below 2¹⁰², times rows ≤ 2²⁰ below 2¹²². Where one
row is one unit, `rows` is aggregated directly.

**The other statements** are counts of distinct values, and histograms for quantiles and modes. They run over the same
bounded rows, but each reads no more columns than it needs. Where keys are private, they run once keys are chosen, over
rows with the numbers of chosen keys.

**Histograms that are fine where it matters.** Bins near a draw's target are counted cell by cell, the others as a
whole. What is near, and why the rest need not be known more exactly, is in `hush.mechanisms.grouped.quantile`. A first
pass counts the bins of every group and ranks them; the second joins the bins found near with the rows, and counts
again. Both are one statement, so they see the same rows.

**In which bin a row falls** (`binned`). The bins of a line are numbered by arithmetic (`hush.engines.sql.grid`), and so
are listed values that are consecutive points of a grid, where that finds just the rows whose value is one of them
(`place`). A handful of other values is compared one by one. More of them are looked up in a table of the engine: a
statement with a branch for each would take a time that grows faster than their number, and from some ten thousand on
be too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any, Self

import numpy as np

from hush.engines.protocol import NO_EFFORT, Effort, Exact, Histograms, Sparse
from hush.engines.sql.bounding import (
    MANY,
    AnyRows,
    Cells,
    FreshRows,
    Reads,
    Rows,
    StoredRows,
    condition_in,
    looked_up,
    tested,
    together,
)
from hush.engines.sql.dialect import DUCKDB, Dialect
from hush.engines.sql.grid import grid_index, times_finer
from hush.engines.sql.keys import Axis, Lists, key_value, listed, numbered_by_choice, place, shown_value
from hush.engines.sql.nodes import (
    ColumnName,
    DistinctArgument,
    Named,
    Parameter,
    Scalar,
    Select,
    Subquery,
    alias,
    binary,
    both,
    call,
    case,
    cast,
    column,
    columns_of,
    count,
    grouped,
    huge,
    integer,
    joined,
    label_of,
    matches,
    not_null,
    null,
    primitive,
    qualified,
    quotient,
    read,
    row_hash,
    select,
    summed,
    total,
    try_cast,
    where,
    window,
    with_before,
)
from hush.engines.sql.relations import UNBOUNDED, UNIT, Bounds, Catalogue, identity_text
from hush.engines.sql.render import Statement, render
from hush.engines.sql.scalars import name_of, value_of
from hush.engines.sql.values import SQL_TYPES, SqlType, Value
from hush.mechanisms.grouped import GroupedQuantile
from hush.mechanisms.grouped.base import Integers, integer_array
from hush.query.expressions import Released
from hush.query.plan.draws import Draw, DrawnAggregate, Histogram, LineHistogram, ValueHistogram
from hush.query.plan.plan import ExactQuery, Plan
from hush.query.plan.rows import CodedColumn, RowPlan
from hush.query.plan.stability import (
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
    Units,
)
from hush.query.question import Question
from hush.query.released import released_in, shown

_NARROW = 2**23
KEPT = "kept"
"""The rows of each group within the bounds: an extra column, from which the size of a stored table follows."""


class MainWriter:
    """Writes the main statement of one exact_query over its rows: all statistics but those of distinct values.

    Where every row is a unit, distinct values are counted here.
    """

    def __init__(self, exact_query: ExactQuery, rows: Rows) -> None:
        self._exact_query = exact_query
        self._rows = rows
        self._alone = exact_query.limits.units is Units.ALONE
        self._chosen = [
            (index, statistic)
            for index, statistic in enumerate(exact_query.statistics)
            if not isinstance(statistic, DistinctTotal if self._alone else Distinct)
        ]

    @property
    def _keys(self) -> list[Scalar]:
        return columns_of(self._rows.keys)

    def _index(self, factor: Factor) -> Scalar:
        """Return a factor's integer on its grid; small ones as 32 bits, which are quicker to add."""
        carried = self._rows.index(factor.expression)
        if carried is not None and carried.step is not None and carried.step != factor.step:
            # None where it might not be the integer that the column itself has on the finer grid
            carried = times_finer(carried, carried.step, factor.step)
        if carried is None:
            index = grid_index(self._rows.known[factor.expression], factor)
        elif carried.within is None or carried.within[0] < factor.first or carried.within[1] > factor.last:
            # it is an index already: on a grid of step 1 only the clamp is left to do
            index = grid_index(Value(carried.sql, SqlType.INTEGER), replace(factor, step=Fraction(1)))
        else:
            index = carried.sql  # clamped to the declared bounds already
        return index if isinstance(index, ColumnName) or not _small(factor) else cast(index, "INTEGER")

    def _counted(self, population: Population, cells: Cells) -> Scalar:
        """Return how many rows are in a population; a single test for NULL is a COUNT of that column.

        If its integers are summed they are what is counted: they are NULL where the column is, and there anyway.
        """
        if population.where is None and len(population.not_null) == 1:
            (expression,) = population.not_null
            for _, statistic in self._chosen:
                if (
                    isinstance(statistic, Total)
                    and statistic.population == population
                    and statistic.factors[0].expression == expression
                ):
                    return call("count", self._cell(statistic.factors[0], population, cells))
            return call("count", cells.add(tested(self._rows, expression)))
        test = condition_in(self._rows, population)
        return count(None if test is None else cells.add(test))

    def _cell(self, factor: Factor, population: Population, cells: Cells) -> Scalar:
        """Return the column that holds a factor's integer, NULL outside the population."""

        def make() -> Scalar:
            index, test = self._index(factor), None
            # no test for the factor's own NULL: its integer is NULL there, too
            if population.where is not None or not set(population.not_null) <= {factor.expression}:
                test = condition_in(self._rows, population)
            return index if test is None else case((test, index))

        return cells.once((factor, population), make)

    def _summed(self, statistic: Total, cells: Cells) -> Scalar:
        """Return the sum over a population, of integers that are NULL outside it.

        With c the centre and n the number of summands, Σ(x - c) is Σx - c·n and Σ(x - c)² is Σx² - 2c·Σx + c²·n. A
        factor lies within ±2⁵² and a product within ±2⁵⁸, so nothing can overflow.
        """
        inner = [self._cell(factor, statistic.population, cells) for factor in statistic.factors]
        first, centre = statistic.factors[0], statistic.factors[0].centre
        if len(inner) == 1:
            narrow = self._narrow(statistic)
            return _less(
                total(inner[0], narrow=narrow), (centre + statistic.offset, call("count", inner[0])), narrow=narrow
            )
        if statistic.factors[0] == statistic.factors[1] and _small(first):
            # the square of a 32-bit integer needs 64
            wide = cast(inner[0], "BIGINT")
            constant = statistic.offset - centre * centre
            return _less(total(wide * wide), (2 * centre, total(inner[0])), (constant, call("count", inner[0])))
        left, right = (
            cast(value - factor.centre, "BIGINT") for value, factor in zip(inner, statistic.factors, strict=True)
        )
        product = left * right
        return _less(total(product), (statistic.offset, call("count", product)))

    def _others(self, statistic: Others, cells: Cells) -> Scalar:
        """Return how many rows are in the wider population alone, each counted several times."""
        wider = Population() if statistic.population.within is None else statistic.population.within
        difference = self._counted(wider, cells) - self._counted(statistic.population, cells)
        return _times(difference, statistic.times, narrow=self._narrow(statistic))

    def statement(self) -> Select | None:
        """Return the main statement: keys, the number of units if wanted, and every statistic but distinct values.

        Its columns are the key columns, ``units`` if asked for, s0, s1, … by the statistic's position, and, where rows
        are bounded, `KEPT`. None if there is nothing to compute.
        """
        if not self._chosen and not self._exact_query.count_units:
            return None
        if isinstance(self._rows, FreshRows):
            return self._direct(self._rows) if self._alone else self._by_pairs(self._rows)
        # pairs in which nothing is weighted down, and units counted, row by row; then the others
        by_unit = self._exact_query.count_units or any(
            isinstance(statistic, UnitCount) for _, statistic in self._chosen
        )
        # to count rows as units, each pair has to have one row
        light_rows = 1 if by_unit else self._exact_query.limits.rows
        light = self._by_rows(self._rows.part(most=light_rows))
        heavy = self._by_pairs(self._rows.part(above=light_rows))
        labels = heavy.labels[len(self._rows.keys) :]
        sums = [alias(total(column(label, "t"), wide=True), label) for label in labels]
        return grouped(select([*self._keys, *sums], together(light, heavy)), self._keys)

    def _direct(self, rows: FreshRows) -> Select:
        """One row, one unit: aggregate the rows as they are, by their own keys, and number the groups."""
        cells = Cells()
        answers = self._answers(cells)
        if not rows.axes:
            return grouped(select([*self._keys, *answers], rows.plain(cells.named)), self._keys)
        raw = [column(f"r{index}", "t") for index in range(len(self._exact_query.keys))]
        groups = grouped(select([*raw, *answers], rows.raw(cells.named)), raw)
        return rows.renumbered(groups, [label_of(answer) for answer in answers])

    def _by_rows(self, rows: Rows) -> Select:
        """Return the sums over rows of light pairs, which need no weights."""
        cells = Cells()
        answers = [*self._answers(cells), alias(count(), KEPT)]
        return grouped(select([*self._keys, *answers], rows.kept(cells.named)), self._keys)

    def _answers(self, cells: Cells) -> list[Named]:
        """Return the statistics as aggregates over rows."""
        answers: list[Named] = [alias(count(), "units")] if self._exact_query.count_units else []
        for index, statistic in self._chosen:
            match statistic:
                case Count() | Total() | Others():
                    value = self._statistic(statistic, cells)
                case UnitCount():
                    value = self._counted(statistic.population, cells)
                case DistinctCount():
                    key = cells.add(
                        key_value(
                            self._rows.known[statistic.expression], statistic.expression.type, self._rows.dialect
                        ).sql
                    )
                    test = condition_in(self._rows, statistic.population)
                    counted = key if test is None else case((cells.add(test), key))
                    value = call("count", DistinctArgument(counted))
                case DistinctTotal():
                    continue
            answers.append(alias(value, f"s{index}"))
        return answers

    def _by_pairs(self, rows: Rows) -> Select:
        """Return the statistics over pairs (unit, group), each weighted down to the bound."""
        limit = integer(self._exact_query.limits.rows)
        cells = Cells()
        pairs: list[Scalar] = [alias(count(), KEPT)]
        answers: list[Named] = [alias(count(), "units")] if self._exact_query.count_units else []
        row_count = column(KEPT, "t")
        for index, statistic in self._chosen:
            match statistic:
                # the pair's sum is its number of rows n, of which n·rows // n is `rows`: no division is needed
                case Count() if statistic.population.everything:
                    value: Scalar = self._over_pairs(call("least", row_count, limit), narrow=True)
                case UnitCount():
                    pairs.append(alias(self._counted(statistic.population, cells), f"s{index}"))
                    value = count(column(f"s{index}", "t") > 0)
                case Count() | Total() | Others():
                    pairs.append(alias(self._statistic(statistic, cells), f"s{index}"))
                    pair = column(f"s{index}", "t")
                    floor = isinstance(statistic, Total) and statistic.range[1] <= 0
                    narrow = self._narrow(statistic)
                    most_rows = self._exact_query.limits.rows
                    down = primitive("weighted_down", pair, row_count, rows=most_rows, floor=floor, narrow=narrow)
                    value = self._over_pairs(case((row_count <= limit, pair), otherwise=down), narrow=narrow)
                case DistinctCount() | DistinctTotal():
                    continue
            answers.append(alias(value, f"s{index}"))
        answers.append(alias(self._over_pairs(row_count, narrow=True), KEPT))
        together = grouped(select([*self._by(), *pairs], rows.kept(cells.named)), self._by())
        return grouped(select([*self._keys, *answers], together), self._keys)

    def _over_pairs(self, value: Scalar, *, narrow: bool = False) -> Scalar:
        """Return a sum over pairs; without keys there may be no pair at all, and the sum is 0."""
        return (summed if self._keys else total)(value, wide=True, narrow=narrow)

    def _narrow(self, statistic: Count | Total | Others) -> bool:
        """Return whether 64 bits hold a sum over 2⁴⁰ rows and all intermediate sums: a row adds less than 2²³.

        A pair of n rows adds no more than min(n, rows) of them, so the sum over pairs is not larger.
        """
        if not self._rows.dialect.narrows:
            return False
        if not isinstance(statistic, Total):
            return statistic.times < _NARROW
        if len(statistic.factors) > 1:
            return False
        (factor,) = statistic.factors
        return max(abs(factor.first), abs(factor.last)) + abs(factor.centre + statistic.offset) < _NARROW

    def _statistic(self, statistic: Count | Total | Others, cells: Cells) -> Scalar:
        """Return a statistic over rows, before anything is weighted down."""
        match statistic:
            case Count():
                return _times(
                    self._counted(statistic.population, cells), statistic.times, narrow=self._narrow(statistic)
                )
            case Total():
                return self._summed(statistic, cells)
            case Others():
                return self._others(statistic, cells)

    def _by(self) -> list[Scalar]:
        return [column(UNIT, "t"), *self._keys]


def _small(factor: Factor) -> bool:
    """Return whether 32 bits hold the factor's integers, and 64 bits their squares."""
    return max(abs(factor.first), abs(factor.last)) < 2**30


def _less(value: Scalar, *parts: tuple[int, Scalar], narrow: bool = False) -> Scalar:
    """Return the value less multiples of others, all below 2¹²⁰ in magnitude, or, if it is ``narrow``, below 2⁶³."""
    for constant, factor in parts:
        if constant:
            wide = cast(factor, "BIGINT" if narrow else "HUGEINT")
            value = value - (wide * constant)
    return value


def _times(value: Scalar, times: int, *, narrow: bool = False) -> Scalar:
    """Return a number of rows, each counted several times."""
    return value if times == 1 else cast(value, "BIGINT" if narrow else "HUGEINT") * times


_LARGEST_WEIGHT = 2**62
_FAR = 2**120


def _place(statistic: Distinct) -> list[Named]:
    """Return the integer of a value, if it is summed: rows with one value have one integer, so any will do."""
    return [alias(call("min", column("i", "t")), "i")] if isinstance(statistic, DistinctTotal) else []


class OtherWriter:
    """Writes one of the other statements, over rows with the expressions of ``reads``."""

    def __init__(self, exact_query: ExactQuery, rows: Rows, reads: Reads, lists: Lists) -> None:
        self._exact_query = exact_query
        self._rows = rows.reading(reads)
        self._lists = lists
        self._alone = exact_query.limits.units is Units.ALONE
        self._numbered = exact_query.count_units

    def _only(self, rows: Select) -> Select:
        """Return the rows, bounded before, of groups that were chosen."""
        return numbered_by_choice(rows, self._rows.private_keys, self._rows.dialect) if self._numbered else rows

    @property
    def _labels(self) -> list[str]:
        return ["k"] if self._numbered else self._rows.keys

    @property
    def _keys(self) -> list[Scalar]:
        return columns_of(self._labels)

    def _by(self) -> list[Scalar]:
        return [column(UNIT, "t"), *self._keys]

    def distinct(self, statistic: Distinct) -> Select:
        """Return the statement for one count or sum of distinct values: the key columns and ``s``."""
        value = key_value(self._rows.known[statistic.expression], statistic.expression.type, self._rows.dialect)
        test = condition_in(self._rows, statistic.population)
        cell = value.sql if test is None else case((test, value.sql))
        cells = [alias(cell, "v")]
        if isinstance(statistic, DistinctTotal):
            cells.append(alias(grid_index(self._rows.known[statistic.expression], statistic.factor), "i"))
        bounded = self._only(self._rows.kept(cells))
        # a row is a unit, and has one value: there is nothing to bound
        if self._alone:
            return self._over_values(statistic, where(select([], bounded), not_null(column("v", "t"))))
        by = self._by()
        values = where(select([*by, column("v", "t"), *_place(statistic)], bounded), not_null(column("v", "t")))
        values = grouped(values, [*by, column("v", "t")])
        # another salt than that of the groups, so that the two orders have nothing to do with each other
        mixed = row_hash([column(UNIT, "t"), column("v", "t")], self._rows.salt + 1)
        # the number of a unit shifts when a row goes, so no order may depend on it
        order = [column("v", "t")] if self._exact_query.limits.units is Units.NUMBERED else [mixed, column("v", "t")]
        rank = window("row_number", by, order)
        carried = [column("i", "t")] if isinstance(statistic, DistinctTotal) else []
        ranked = select([*self._keys, column("v", "t"), *carried, alias(rank, "rank")], values)
        few = column("rank", "t") <= self._exact_query.limits.rows
        return self._over_values(statistic, where(select([], ranked), few))

    def _over_values(self, statistic: Distinct, rows: Select) -> Select:
        """Return the number or the sum of the values v that occur in a group's rows."""
        if isinstance(statistic, DistinctCount):
            counted = alias(call("count", DistinctArgument(column("v", "t"))), "s")
            return grouped(rows.showing([*self._keys, counted]), self._keys)
        once = grouped(
            rows.showing([*self._keys, column("v", "t"), *_place(statistic)]), [*self._keys, column("v", "t")]
        )
        value = column("i", "t") - statistic.factor.centre if statistic.factor.centre else column("i", "t")
        return grouped(select([*self._keys, alias(total(value), "s")], once), self._keys)

    def histogram(self, draw: Draw) -> Select:
        """Return the statement for a histogram: the key columns, ``bin`` and ``w``, an exact weight below 2⁶².

        A refined one has ``cells`` between them, how many cells the bin has: bins near the target are counted cell by
        cell, and the others (`hush.mechanisms.grouped.quantile`) as a whole. ``bin`` is the number of the first cell.
        """
        weighed, histogram = self._weighed(draw.choice), draw.choice.histogram
        by = [*self._keys, column("bin", "t")]
        if isinstance(histogram, LineHistogram) and histogram.refined:
            weighed = refined(weighed, self._labels, draw, histogram.width // histogram.cell, keep=not self._alone)
            by.append(column("cells", "t"))
        # clamped at a public 2⁶² so that 64 bits hold it; a clamp never increases a sensitivity
        weight = alias(
            cast(call("least", summed(column("w", "t"), wide=True), integer(_LARGEST_WEIGHT)), "BIGINT"), "w"
        )
        return grouped(select([*by, weight], weighed), by)

    def _weighed(self, choice: DrawnAggregate) -> Select:
        """Return the key columns, ``bin`` and ``w``; the sum of ``w`` over a bin is its weight."""
        rows, number = binned(self._rows, choice.histogram, self._lists)
        test = condition_in(rows, choice.histogram.population)
        cell = alias(number if test is None else case((test, number)), "bin")
        if isinstance(rows, FreshRows):
            return (self._rows_in_bins if self._alone else self._pairs_in_bins)(choice, rows, cell)
        limit = self._exact_query.limits.rows
        light = self._rows_in_bins(choice, rows.part(most=limit), cell)
        return together(light, self._pairs_in_bins(choice, rows.part(above=limit), cell))

    def _rows_in_bins(self, choice: DrawnAggregate, rows: Rows, cell: Named) -> Select:
        """Return the weight of each bin over rows of light pairs, which need no weights."""
        source = self._only(rows.plain([cell]) if isinstance(rows, FreshRows) else rows.kept([cell]))
        by = [*self._keys, column("bin", "t")]
        full = choice.weight(self._exact_query.limits)
        weight = cast(count(), "HUGEINT") * full if full > 1 else cast(count(), "HUGEINT")
        query = where(select([*by, alias(weight, "w")], source), not_null(column("bin", "t")))
        return grouped(query, by)

    def _pairs_in_bins(self, choice: DrawnAggregate, rows: Rows, cell: Named) -> Select:
        """Return the weight of each row in its bin, weighted down to the bound over its pair (unit, group)."""
        limits, row_count = self._exact_query.limits, column(MANY, "t")
        bounded = self._only(rows.kept([cell], counted="bin"))
        full = choice.weight(limits)
        weight = case(
            (row_count <= limits.rows, integer(full)),
            otherwise=quotient(integer(full * limits.rows), row_count),
        )
        query = select([*self._keys, column("bin", "t"), alias(weight, "w")], bounded)
        return where(query, not_null(column("bin", "t")))


def refined(weighed: Select, keys: Sequence[str], draw: Draw, cells: int, *, keep: bool) -> Select:
    """Return the key columns, ``bin``, ``cells`` and ``w`` from key columns, ``bin`` (a cell's number) and ``w``.

    A bin has ``cells`` cells; in the result ``bin`` is the first of its ``cells`` cells. ``keep`` the weighed rows
    between the passes where they cost more to compute than to store.
    """
    rows = read("weighed", "t") if keep else weighed
    whole_bin: Scalar = quotient(column("bin", "t"), integer(cells))
    coarse = select([*columns_of(keys), alias(whole_bin, "bin"), alias(summed(column("w", "t"), wide=True), "w")], rows)
    coarse = grouped(coarse, [*columns_of(keys), whole_bin])
    upto = window("sum", columns_of(keys), [column("bin", "t")], column("w", "t"))
    total_weight = window("sum", columns_of(keys), (), column("w", "t"))
    ranked = select(
        [*columns_of(keys), column("bin", "t"), column("w", "t"), alias(upto, "upto"), alias(total_weight, "whole")],
        coarse,
    )
    near = where(select([*columns_of(keys), column("bin", "t")], ranked), _near(draw))
    tests = [matches(column(label, "t"), column(label, "near"), "BIGINT") for label in keys]
    tests.append(binary("=", whole_bin, column("bin", "near")))
    is_near = not_null(column("bin", "near"))
    first = whole_bin * cells
    query = select(
        [
            *columns_of(keys),
            alias(case((is_near, column("bin", "t")), otherwise=first), "bin"),
            alias(case((is_near, integer(1)), otherwise=integer(cells)), "cells"),
            column("w", "t"),
        ],
        rows,
    )
    query = joined(query, Subquery(near, "near"), "left", both(tests))
    return with_before(query, "weighed", weighed) if keep else query


def _near(draw: Draw) -> Scalar:
    """Return whether a bin of weight ``w``, ``upto`` with all before it and ``whole`` in its group, may matter.

    It does if it comes within the draw's reach h of the target t: b·L < t + h and b·U > t - h. All weights together are
    below 2¹⁰², b below 2¹⁴: 128 bits hold the products, and a larger h still lets in everything.
    """
    assert isinstance(draw.mechanism, GroupedQuantile)  # noqa: S101 - only lines are refined
    aims = draw.mechanism.aims
    total_weight, upto, weight = (cast(column(label, "t"), "HUGEINT") for label in ("whole", "upto", "w"))
    target: Scalar
    if aims.fraction.denominator > 1:
        target = _multiplied(total_weight, aims.fraction.numerator)
    else:
        half = quotient(total_weight, integer(2), wide=True)
        target = call("least", huge(min(aims.rank, _FAR)), half)
        if aims.fraction == 1:
            target = total_weight - target
    distance = huge(min(aims.reach, _FAR))
    below = _multiplied(upto - weight, aims.fraction.denominator)
    return both(
        [
            below < (target + distance),
            _multiplied(upto, aims.fraction.denominator) > (target - distance),
        ]
    )


def _multiplied(value: Scalar, times: int) -> Scalar:
    return value if times == 1 else value * times


_HANDFUL = 8


def binned(rows: AnyRows, histogram: Histogram, lists: Lists) -> tuple[AnyRows, Scalar]:
    """Return the rows, perhaps with a further column, and the number of the bin that each falls into; NULL for none."""
    if isinstance(histogram, LineHistogram):
        index = grid_index(rows.known[histogram.factor.expression], histogram.factor)
        offset = index - histogram.factor.first
        return rows, quotient(offset, integer(histogram.cell)) if histogram.cell > 1 else offset
    type_ = histogram.expression.type
    value = key_value(rows.known[histogram.expression], type_, rows.dialect)
    axis = Axis(histogram.values, type_)
    on_grid = place(value, axis)
    if on_grid is not None:
        return rows, on_grid
    if len(histogram.values) > _HANDFUL:
        return looked_up(rows, value, lists(axis, value.form, "m"))
    # a constant with a fraction equals no whole number, and a cast to the key's form would round it
    pairs = [
        (binary("=", value.sql, listed(constant, type_, value)), integer(at))
        for at, constant in enumerate(histogram.values)
        if value.form is not SqlType.INTEGER or not isinstance(constant, Fraction) or constant.denominator == 1
    ]
    return rows, case(*pairs) if pairs else null("INTEGER")


_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_TYPES = ((2**8, "UTINYINT"), (2**16, "USMALLINT"), (2**31, "INTEGER"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedStatement:
    """The statement, and the names of its columns."""

    query: Select
    rows: FreshRows
    """The rows that are coded."""
    codes: tuple[str, ...]
    """One for each column of the plan, in order."""
    unit: str | None
    """An integer that tells units apart; None where every row is a unit of its own."""


def coded_statement(
    plan: RowPlan,
    catalogue: Catalogue,
    salt: int,
    lists: Lists,
    unit_type: str | None,
    bounds: Bounds = UNBOUNDED,
    unit_key: str | None = None,
) -> CodedStatement:
    """Return the statement of the plan's coded rows; ``unit_type`` is the engine's type of units.

    All that depends on one row alone comes first: its unit and its codes c0, c1, …. Then the first rows of each unit
    are kept, in the order of a keyed hash of its unit and codes; where rows are told apart by numbers alone the hash
    leaves the unit out, because those numbers shift when a row goes. With a ``unit_key`` units are told apart by a
    keyed hash that is the same at any time and on any version.
    """
    exact_query = ExactQuery(
        relation=plan.relation, keys=(), domains=None, limits=plan.limits, statistics=(), count_units=False
    )
    reads = Reads(tuple(coded.expression for coded in plan.columns), frozenset())
    rows = FreshRows(exact_query, catalogue, None, salt, reads, lists=lists, bounds=bounds)
    cells: list[Named] = []
    for index, coded in enumerate(plan.columns):
        rows, code = _code(rows, coded, lists)
        cells.append(alias(code, f"c{index}"))
    codes = [column(label_of(cell), "t") for cell in cells]
    alone = plan.limits.units is Units.ALONE
    coded_rows = select([*([] if alone else [column(UNIT, "t")]), *codes], rows.plain(cells))
    for code, coded in zip(codes, plan.columns, strict=True):
        # rows without a code go before a unit's first rows are kept, so they take nobody's place
        if not coded.null:
            coded_rows = where(coded_rows, not_null(code))
    if alone:
        return CodedStatement(query=coded_rows, rows=rows, codes=tuple(code.name for code in codes), unit=None)
    unit = column(UNIT, "t")
    hashed = [] if plan.limits.units is Units.NUMBERED else [unit]
    # rows that still tie have equal codes, so it does not matter which of them is kept
    order = [row_hash([*hashed, *codes], salt), *codes]
    bounded = qualified(select([unit, *codes], coded_rows), window("row_number", [unit], order), plan.limits.rows)
    if unit_key is not None and plan.limits.units is Units.COLUMN:
        identity = unit if unit_type is None else identity_text(unit, unit_type)  # as text, whatever stores it by then
        unit_cell: Named = alias(primitive("unit_number", identity, key=unit_key), UNIT)
    elif plan.limits.units is Units.NUMBERED and catalogue.dialect.numbers_closely:
        unit_cell = alias(try_cast(unit, "BIGINT", "HUGEINT"), UNIT)
    elif unit_type in _INTEGERS and plan.limits.units is Units.COLUMN:
        unit_cell = alias(cast(unit, "BIGINT"), UNIT)
    else:
        # any other unit is told by its rank, which is an integer whatever the unit is
        unit_cell = alias(window("dense_rank", [], [unit]), UNIT)
    query = select([unit_cell, *codes], bounded)
    return CodedStatement(query=query, rows=rows, codes=tuple(code.name for code in codes), unit=UNIT)


def _code(rows: FreshRows, coded: CodedColumn, lists: Lists) -> tuple[FreshRows, Scalar]:
    """Return the rows, perhaps with a further column, and a column's code; NULL where there is none."""
    if coded.factor is not None:
        index = grid_index(rows.known[coded.expression], coded.factor)
        code: Scalar = index - coded.factor.first if coded.factor.first else index
    else:
        histogram = ValueHistogram(population=Population(), expression=coded.expression, values=coded.values)
        rows, code = binned(rows, histogram, lists)
    if coded.null:
        # NULL has the code that follows the last value's
        code = call("coalesce", code, integer(coded.levels))
    narrow = next((name for size, name in _TYPES if coded.size <= size), "BIGINT")
    return rows, cast(code, narrow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """A plan's statements, those that any number of rows need.

    All of them are written, and measured, when this is made, which is before the charge: whether a question can be
    written must depend on the question alone, and not on how many rows there are, nor on what was asked before.
    """

    plan: Plan
    rows: FreshRows
    """The rows that the statements add up."""
    main: Statement | None
    """All statistics but distinct values."""
    distinct: tuple[tuple[int, Statement], ...]
    """Counts of distinct values that the main statement lacks, by the place of the statistic."""
    histograms: tuple[Statement, ...]
    """One for each draw."""
    released: ReleasedStatement | None
    """The statement for functions of released values; None if there are none."""
    shown: list[int] | None
    """Which combinations of public keys are answered; None for all."""
    notes: tuple[str, ...] = ()
    """Notes on bounds of texts and joins, which keep the time of a question independent of its rows."""
    effort: Effort = field(default=NO_EFFORT, repr=False)
    """How much there is to do, by public figures."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        rows: FreshRows,
        *,
        shown: list[int] | None,
        released: ReleasedStatement | None,
        stored: StoredRows | None = None,
    ) -> Self:
        """Write all statements over fresh rows, or over stored ones that equal them; refuse those that are too long."""
        exact_query, lists, source = plan.exact_query, rows.lists, stored or rows

        def other(reader: DrawnAggregate | Distinct) -> OtherWriter:
            return OtherWriter(exact_query, source, Reads.by(reader), lists)

        first = MainWriter(exact_query, source).statement()
        main = None if first is None else render(first, source.dialect, views=lists.views)
        done = frozenset() if main is None else frozenset(main.labels)
        distinct = tuple(
            (index, render(other(statistic).distinct(statistic), source.dialect, views=lists.views))
            for index, statistic in enumerate(exact_query.statistics)
            if isinstance(statistic, Distinct) and f"s{index}" not in done
        )
        histograms = tuple(
            render(other(draw.choice).histogram(draw), source.dialect, views=lists.views) for draw in plan.draws
        )
        return cls(
            plan=plan, rows=rows, main=main, distinct=distinct, histograms=histograms, released=released, shown=shown
        )

    def over(self, stored: StoredRows) -> list[Statement]:
        """Return statements that compute the same as `statements` from stored rows."""
        return self.of(self.plan, self.rows, shown=self.shown, released=self.released, stored=stored).statements

    @property
    def others(self) -> list[Statement]:
        """All but the main one."""
        return [*(statement for _, statement in self.distinct), *self.histograms]

    @property
    def statements(self) -> list[Statement]:
        """All statements, in an order that depends on the plan alone."""
        return [*([] if self.main is None else [self.main]), *self.others]


_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedStatement:
    """A statement that returns a column for each part, and a row for each group."""

    query: Select
    text: str
    """The query in DuckDB's dialect."""
    parts: int
    """How many columns it returns."""
    reads: tuple[tuple[Released, SqlType], ...]
    """The released values in its parameters, after the numbers of the groups."""

    def parameters(self, keys: Sequence[Sequence[Any]], aggregates: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the lists it reads: from each key's and each aggregate's values by group."""
        size = len((keys or aggregates)[0]) if keys or aggregates else 1
        # the statement sorts by these numbers, so its rows come in the order of the groups
        columns: list[list[Any]] = [list(range(size))]
        for released, form in self.reads:
            values = (keys if released.source == "key" else aggregates)[released.index]
            columns.append([_in_form(value, form) for value in values])
        return columns


def released_statement(question: Question, keys: Sequence[Value], dialect: Dialect) -> ReleasedStatement | None:
    """Return the statement for a question's outputs; None if there is nothing to compute.

    Released values come as parameters, one list each: the statement's length depends on the question alone, and it is
    written before the charge. They are computed in the engine's own types (`hush.query.released`).
    ``keys`` says what is known of each key's values, such as how many digits a decimal has.
    """
    parts = shown(question).parts
    if not parts:
        return None
    columns: dict[str, Value] = {}
    cells = [alias(call("unnest", cast(Parameter(1), "BIGINT[]")), "i")]
    reads: list[tuple[Released, SqlType]] = []
    for number, released in enumerate(released_in(parts), start=2):
        form = SQL_TYPES[released.type.kind]
        value = Value(column(f"v{number}", "t"), form)
        if released.source == "key":
            key = key_value(keys[released.index], released.type, dialect)
            if key.single:  # a listed key of float32 numbers is the decimal that they stand for
                value = value.as_single()
            elif key.form is form:
                value = replace(key, sql=value.sql, within=None, step=None, literal=None)
        cells.append(alias(call("unnest", cast(Parameter(number), f"{form.value}[]")), f"v{number}"))
        columns[name_of(released)] = value
        reads.append((released, form))
    values = [shown_value(value_of(output, columns), output.type, DUCKDB) for output in parts]
    results = [alias(value.sql, f"o{number}") for number, value in enumerate(values)]
    query = replace(select(results, select(cells)), order=(column("i", "t"),))
    return ReleasedStatement(query=query, text=render(query, DUCKDB).text, parts=len(parts), reads=tuple(reads))


def _in_form(value: Any, form: SqlType) -> Any:
    """Return a released value as the engine takes it; NaN is NULL."""
    if value is None or form not in {SqlType.INTEGER, SqlType.DOUBLE}:
        return value
    if form is SqlType.INTEGER:
        # noise has no bound, but the parameter is a list of BIGINT
        return None if value != value else max(-_LARGEST, min(_LARGEST, int(value)))  # noqa: PLR0124 - NaN
    try:
        return float(value) if isinstance(value, Fraction | int) else value
    except OverflowError:
        return None


Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The groups of an answer: all public ones in order, the chosen ones, or, without keys, everything."""

    keys: list[Row]
    grouped: bool

    @classmethod
    def public(cls, axes: Sequence[Axis] | None) -> Groups:
        """Return all combinations of public keys."""
        return cls(keys=list(product(*(axis.values for axis in axes or ()))), grouped=bool(axes))

    def column(self, columns: Sequence[Row], index: int) -> Integers:
        """Return a column of a statement's results by group, 0 for groups that it does not report."""
        integers = integer_array(columns[index] if columns else ())
        values = np.zeros(len(self.keys), dtype=integers.dtype)
        values[list(columns[0]) if self.grouped and columns else slice(len(integers))] = integers
        return values

    def histograms(self, statement: Statement, rows: Sequence[Row]) -> Histograms:
        """Return each group's histogram."""
        bin_column = int(self.grouped)  # then come the bin, its number of cells where bins differ, and the weight
        table = np.array(rows, dtype=np.int64).reshape(-1, len(statement.labels))
        group = table[:, 0] if self.grouped else np.zeros(len(table), dtype=np.int64)
        # engines return groups in any order, and the edges are found by a binary search
        order = np.lexsort((table[:, bin_column], group))
        cells = table[order, bin_column + 1] if "cells" in statement.labels else None
        return Histograms(
            joined=Sparse(bins=table[order, bin_column], weights=table[order, -1], cells=cells),
            edges=np.searchsorted(group[order], np.arange(len(self.keys) + 1)),
        )

    def exact(
        self, prepared: Statements, labels: Sequence[str], main: Sequence[Row], others: Iterator[Sequence[Row]]
    ) -> Exact:
        """Return the exact integers: from the main statement's rows, with the names of their columns, and the rest."""
        statistics: dict[Statistic, Integers] = {}
        planned, columns = prepared.plan.exact_query.statistics, _columns(main)
        for index, statistic in enumerate(planned):
            if f"s{index}" in labels:
                statistics[statistic] = self.column(columns, labels.index(f"s{index}"))
        for index, statement in prepared.distinct:
            statistics[planned[index]] = self.column(_columns(next(others)), statement.labels.index("s"))
        units = self.column(columns, labels.index("units")) if "units" in labels else None
        histograms = tuple(self.histograms(statistic, next(others)) for statistic in prepared.histograms)
        return Exact(keys=self.keys, units=units, statistics=statistics, histograms=histograms)


def _columns(rows: Sequence[Row]) -> list[Row]:
    return list(zip(*rows, strict=True))
