r"""The statements of a plan, and their rows as exact integers by group.

Keys are numbered before anything is counted, or kept as they are until they are chosen (`hush.engines.sql.keys`).

**Bounding** (the proof is in `hush.query.plan.stability`)::

    rows   one row each of the relation: unit u, key k, populations p0 …, integers v0 …
    kept   rows whose key is among the unit's first `groups`, by dense_rank() over hash(u, k, salt), k
    pairs  one row for each (u, k): n rows, sums s_j over those in population j
    answer one row for each k: Σ min(n, rows), Σ (s if n ≤ rows else s·rows // n), number of units

So every row has one weight, whatever a statistic runs over: parts add up, and shares are shares.

Where the rows were bounded before (`hush.engines.sql.bounding`), those of pairs with no more than ``rows`` rows need no
weights and hence no pairs: Σ over pairs of a sum is the sum over rows. Units are counted this way where a pair has one
row.

``//`` truncates towards zero; a sum that is never positive is rounded down instead (`Halves`). Nothing overflows:
a row's integer is below 2⁶², a sum of fewer than 2⁴⁰ rows below 2¹⁰², times rows ≤ 2²⁰ below 2¹²². Where one
row is one unit, `rows` is aggregated directly.

**The other statements**, counts of distinct values and histograms for quantiles and modes, run over the same bounded
rows, but each reads no more columns than it needs. Where keys are private, they run once keys are chosen.

**Histograms that are fine where it matters.** Bins near a draw's target are counted cell by cell, the others as a
whole. What is near, and why the rest need not be known more exactly, is in `hush.mechanisms.grouped.quantile`. A first
pass counts the bins of every group and ranks them; the second joins the bins found near with the rows, and counts
again. Both are one statement, so they see the same rows.

**In which bin a row falls** (`binned`). The bins of a line are numbered by arithmetic (`hush.engines.sql.keys`), and so
are listed values that are consecutive points of a grid, where that finds just the rows whose value is one of them
(`place`). A handful of other values is compared one by one. More of them are looked up in a list: a
statement with a branch for each would take a time that grows faster than their number, and from some ten thousand on
be too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hush.engines.protocol import Effort, Exact, Histograms, Sparse
from hush.engines.sql.bounding import (
    MANY,
    AnyRows,
    FreshRows,
    Reads,
    Rows,
    StoredRows,
    carried_index,
    condition_in,
    looked_up,
    tested,
    together,
)
from hush.engines.sql.dialect import DUCKDB, Dialect
from hush.engines.sql.keys import (
    CHOSEN,
    Axis,
    Lists,
    as_parameter,
    grid_index,
    key_value,
    numbered_by_choice,
    place,
    shown_value,
    times_finer,
)
from hush.engines.sql.nodes import (
    ColumnName,
    Named,
    ParameterRows,
    Scalar,
    Select,
    Subquery,
    both,
    call,
    case,
    column,
    columns_of,
    count,
    huge,
    integer,
    null,
    primitive,
    read,
    select,
    summed,
    total,
    window,
)
from hush.engines.sql.relations import UNBOUNDED, UNIT, Bounds, Catalogue, identity_text
from hush.engines.sql.render import Statement, render
from hush.engines.sql.scalars import name_of, value_of
from hush.engines.sql.values import SQL_TYPES, SqlType, Value, constant
from hush.mechanisms import grouped
from hush.mechanisms.grouped.base import Integers, integer_array
from hush.query.expressions import Released
from hush.query.plan.draws import Draw, Histogram, LineHistogram, ValueHistogram
from hush.query.plan.plan import ExactQuery, Plan
from hush.query.plan.stability import (
    Count,
    Distinct,
    Factor,
    Population,
    Statistic,
    Total,
    UnitCount,
    Units,
)
from hush.query.question import Question
from hush.query.released import released_in, shown

if TYPE_CHECKING:
    from hush.query.plan.rows import RowPlan

_NARROW = 2**23
ROW_COUNT = "row_count"
"""How many rows of each group are within the bounds: an extra column, from which the size of a stored table follows."""


class MainWriter:
    """Writes the main statement of one exact_query over its rows: all statistics but those of distinct values.

    Where every row is a unit, distinct values are counted here.
    """

    def __init__(self, exact_query: ExactQuery, rows: Rows) -> None:
        self._exact_query = exact_query
        self._rows = rows
        self._alone = exact_query.limits.units is Units.ALONE
        self._keys = columns_of(rows.keys)
        self._cells: dict[Scalar, ColumnName] = {}
        """Expressions over one row, each computed once, as a column of ``t``."""
        self._named: list[Named] = []
        self._chosen = [
            (index, statistic)
            for index, statistic in enumerate(exact_query.statistics)
            if not isinstance(statistic, Distinct) or (self._alone and statistic.factor is None)
        ]

    def statement(self) -> Select | None:
        """Return the main statement: keys, the number of units if wanted, and every statistic but distinct values.

        Its columns are the key columns, ``units`` if asked for, s0, s1, … by the statistic's position, and, where rows
        are bounded, `ROW_COUNT`. None if there is nothing to compute.
        """
        if not self._chosen and not self._exact_query.count_units:
            return None
        if isinstance(self._rows, FreshRows):
            return self._direct(self._rows) if self._alone else self.by_pairs()
        # pairs in which nothing is weighted down, and units counted, row by row; then the others
        by_unit = self._exact_query.count_units or any(isinstance(chosen, UnitCount) for _, chosen in self._chosen)
        # to count rows as units, each pair has to have one row
        light_rows = 1 if by_unit else self._exact_query.limits.rows
        light = MainWriter(self._exact_query, self._rows.part(most=light_rows)).by_rows()
        heavy = MainWriter(self._exact_query, self._rows.part(above=light_rows)).by_pairs()
        sums = [total(column(label, "t"), wide=True).alias(label) for label in heavy.labels[len(self._keys) :]]
        return select([*self._keys, *sums], together(light, heavy)).grouped(self._keys)

    def _direct(self, rows: FreshRows) -> Select:
        """One row, one unit: aggregate the rows as they are, by their own keys, and number the groups."""
        answers = self._answers()
        if not rows.axes:
            return select([*self._keys, *answers], rows.plain(self._named)).grouped(self._keys)
        raw = columns_of([f"k{index}" for index in range(len(self._exact_query.keys))])
        groups = select([*raw, *answers], rows.plain(self._named, numbered=False)).grouped(raw)
        return rows.renumbered(groups, [answer.name for answer in answers])

    def by_rows(self) -> Select:
        """Return the sums over rows of light pairs, which need no weights."""
        answers = [*self._answers(), count().alias(ROW_COUNT)]
        return select([*self._keys, *answers], self._rows.kept(self._named)).grouped(self._keys)

    def _answers(self) -> list[Named]:
        """Return the statistics as aggregates over rows."""
        answers: list[Named] = [count().alias("units")] if self._exact_query.count_units else []
        for index, statistic in self._chosen:
            if isinstance(statistic, Distinct):
                value, type_ = self._rows.known[statistic.expression], statistic.expression.type
                key: Scalar = self._cell(key_value(value, type_, self._rows.dialect).sql)
                test = condition_in(self._rows, statistic.population)
                key = key if test is None else case((self._cell(test), key))
                answer = call("count", key.distinct())
            else:
                answer = self._statistic(statistic)
            answers.append(answer.alias(f"s{index}"))
        return answers

    def by_pairs(self) -> Select:
        """Return the statistics over pairs (unit, group), each weighted down to the bound."""
        row_limit = self._exact_query.limits.rows
        row_count, limit = column(ROW_COUNT, "t"), integer(row_limit)
        pairs: list[Scalar] = [count().alias(ROW_COUNT)]
        answers: list[Named] = [count().alias("units")] if self._exact_query.count_units else []
        # without keys there may be no pair at all, and the sum is 0
        over_pairs = summed if self._keys else total
        for index, statistic in self._chosen:
            pair = column(f"s{index}", "t")
            if isinstance(statistic, Count) and statistic.population.everything and statistic.without is None:
                # the pair's sum is its number of rows n, of which n·rows // n is `rows`: no division is needed
                value = over_pairs(call("least", row_count, limit), wide=True, narrow=True)
            else:
                pairs.append(self._statistic(statistic).alias(pair.name))
                if isinstance(statistic, UnitCount):
                    value = count(pair > 0)
                else:
                    floor, narrow = isinstance(statistic, Total) and statistic.range[1] <= 0, self._narrow(statistic)
                    down = primitive("weighted_down", pair, row_count, rows=row_limit, floor=floor, narrow=narrow)
                    value = over_pairs(case((row_count <= limit, pair), otherwise=down), wide=True, narrow=narrow)
            answers.append(value.alias(pair.name))
        answers.append(over_pairs(row_count, wide=True, narrow=True).alias(ROW_COUNT))
        by = [column(UNIT, "t"), *self._keys]
        weighed = select([*by, *pairs], self._rows.kept(self._named)).grouped(by)
        return select([*self._keys, *answers], weighed).grouped(self._keys)

    def _cell(self, value: Scalar) -> ColumnName:
        """Return the column of ``t`` that holds a value."""
        if value not in self._cells:
            self._cells[value] = column(f"v{len(self._cells)}", "t")
            self._named.append(value.alias(f"v{len(self._named)}"))
        return self._cells[value]

    def _statistic(self, statistic: Statistic) -> Scalar:
        """Return a statistic over rows, before anything is weighted down.

        With c the centre and n the number of summands, Σ(x - c) is Σx - c·n and Σ(x - c)² is Σx² - 2c·Σx + c²·n. A
        factor lies within ±2⁵² and a product within ±2⁵⁸, so nothing can overflow.
        """
        population, narrow = statistic.population, self._narrow(statistic)
        if not isinstance(statistic, Total):
            number = self._counted(population)
            if isinstance(statistic, Count) and statistic.without is not None:
                number = number - self._counted(statistic.without)
            times = statistic.bound
            return number if times == 1 else number.cast("BIGINT" if narrow else "HUGEINT") * times
        inner = [self._integers(factor, population) for factor in statistic.factors]
        (first, *_), centre = statistic.factors, statistic.factors[0].centre
        if len(inner) == 1:
            rows = call("count", inner[0])
            return _minus(total(inner[0], narrow=narrow), (centre + statistic.offset, rows), narrow=narrow)
        if statistic.factors[0] == statistic.factors[1] and _small(first):
            wide = inner[0].cast("BIGINT")  # the square of a 32-bit integer needs 64
            offset = statistic.offset - centre * centre
            return _minus(total(wide * wide), (2 * centre, total(inner[0])), (offset, call("count", inner[0])))
        left, right = (
            (value - factor.centre).cast("BIGINT") for value, factor in zip(inner, statistic.factors, strict=True)
        )
        return _minus(total(left * right), (statistic.offset, call("count", left * right)))

    def _counted(self, population: Population) -> Scalar:
        """Return how many rows are in a population; a single test for NULL is a COUNT of that column.

        If its integers are summed they are what is counted: they are NULL where the column is, and there alone. So the
        rows that `Halves` counts and those that they sum are the same by construction.
        """
        if population.where is None and len(population.not_null) == 1:
            (expression,) = population.not_null
            for _, statistic in self._chosen:
                if isinstance(statistic, Total) and statistic.population == population:
                    factor = statistic.factors[0]
                    if factor.expression == expression:
                        return call("count", self._integers(factor, population))
            return call("count", self._cell(tested(self._rows, expression)))
        test = condition_in(self._rows, population)
        return count(None if test is None else self._cell(test))

    def _integers(self, factor: Factor, population: Population) -> Scalar:
        """Return the column of a factor's integers on its grid, NULL outside the population.

        Small ones have 32 bits, which are quicker to add.
        """
        carried = carried_index(self._rows, factor.expression)
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
        if _small(factor) and not isinstance(index, ColumnName):
            index = index.cast("INTEGER")
        # no test for the factor's own NULL: its integer is NULL there, too
        if population.where is not None or not set(population.not_null) <= {factor.expression}:
            test = condition_in(self._rows, population)
            index = index if test is None else case((test, index))
        return self._cell(index)

    def _narrow(self, statistic: Statistic) -> bool:
        """Return whether 64 bits hold a sum over 2⁴⁰ rows and all intermediate sums: a row adds less than 2²³.

        A pair of n rows adds no more than min(n, rows) of them, so the sum over pairs is not larger.
        """
        if not self._rows.dialect.narrows:
            return False
        match statistic:
            case Count():
                return statistic.bound < _NARROW
            case Total(factors=(factor,)):
                return max(abs(factor.first), abs(factor.last)) + abs(factor.centre + statistic.offset) < _NARROW
        return False


def _small(factor: Factor) -> bool:
    """Return whether 32 bits hold the factor's integers, and 64 bits their squares."""
    return max(abs(factor.first), abs(factor.last)) < 2**30


def _minus(value: Scalar, *parts: tuple[int, Scalar], narrow: bool = False) -> Scalar:
    """Return the value less multiples of others, all below 2¹²⁰ in magnitude, or, if it is ``narrow``, below 2⁶³."""
    for times, factor in parts:
        if times:
            value = value - factor.cast("BIGINT" if narrow else "HUGEINT") * times
    return value


_LARGEST_WEIGHT = 2**62
_FAR = 2**120


def distinct_values(exact_query: ExactQuery, rows: Rows, statistic: Distinct) -> Select:
    """Return the statement for one count or sum of distinct values: the key columns and ``s``."""
    value = key_value(rows.known[statistic.expression], statistic.expression.type, rows.dialect)
    test, v = condition_in(rows, statistic.population), column("v", "t")
    cells = [(value.sql if test is None else case((test, value.sql))).alias("v")]
    integers: list[Scalar] = []
    if statistic.factor is not None:
        cells.append(grid_index(rows.known[statistic.expression], statistic.factor).alias("i"))
        # rows with one value have one integer, so any will do
        integers.append(call("min", column("i", "t")).alias("i"))
    bounded, keys = _chosen(exact_query, rows, rows.kept(cells))
    if exact_query.limits.units is Units.ALONE:  # a row is a unit, and has one value: there is nothing to bound
        values = select([], bounded).where(v.not_null())
    else:
        by = [column(UNIT, "t"), *keys]
        different = select([*by, v, *integers], bounded).where(v.not_null()).grouped([*by, v])
        # another salt than that of the groups, so that the two orders have nothing to do with each other
        mixed = primitive("row_hash", column(UNIT, "t"), v, salt=rows.salt + 1)
        # the number of a unit shifts when a row goes, so no order may depend on it
        order = [v] if exact_query.limits.units is Units.NUMBERED else [mixed, v]
        carried = [column("i", "t")] if integers else []
        ranked = select([*keys, v, *carried, window("row_number", by, order).alias("rank")], different)
        values = select([], ranked).where(column("rank", "t") <= exact_query.limits.rows)
    # the number or the sum of the values that occur in a group's rows
    if statistic.factor is None:
        return values.showing([*keys, call("count", v.distinct()).alias("s")]).grouped(keys)
    once = values.showing([*keys, v, *integers]).grouped([*keys, v])
    centre = statistic.factor.centre
    value_sum = total(column("i", "t") - centre if centre else column("i", "t"))
    return select([*keys, value_sum.alias("s")], once).grouped(keys)


def _chosen(exact_query: ExactQuery, rows: Rows, bounded: Select) -> tuple[Select, list[Scalar]]:
    """Return bounded rows and their key columns; where keys are private, those of chosen groups with their numbers."""
    if exact_query.count_units:
        return numbered_by_choice(bounded, rows.private_keys), columns_of(["k"])
    return bounded, columns_of(rows.keys)


def histogram_of(exact_query: ExactQuery, rows: Rows, draw: Draw, lists: Lists) -> Select:
    """Return the statement for a histogram: the key columns, ``bin`` and ``w``, an exact weight below 2⁶².

    A refined one has ``cells`` between them, how many cells the bin has: bins near the target are counted cell by
    cell, and the others (`hush.mechanisms.grouped.quantile`) as a whole. ``bin`` is the number of the first cell.
    """
    histogram, limits = draw.histogram, exact_query.limits
    rows, number = binned(rows, histogram, lists)
    test, bin_ = condition_in(rows, histogram.population), column("bin", "t")
    cell, full = (number if test is None else case((test, number))).alias("bin"), draw.choices[0].weight(limits)

    def light(light_rows: Select) -> Select:
        """Return the weight of each bin over rows of light pairs, which need no weights."""
        bounded, keys = _chosen(exact_query, rows, light_rows)
        weight = count().cast("HUGEINT") * full if full > 1 else count().cast("HUGEINT")
        return select([*keys, bin_, weight.alias("w")], bounded).where(bin_.not_null()).grouped([*keys, bin_])

    def heavy(heavy_rows: Rows) -> Select:
        """Return the weight of each row in its bin, weighted down to the bound over its pair (unit, group)."""
        bounded, keys = _chosen(exact_query, rows, heavy_rows.kept([cell], counted="bin"))
        row_count, share = column(MANY, "t"), integer(full * limits.rows)
        weight = case((row_count <= limits.rows, integer(full)), otherwise=share.quotient(row_count))
        return select([*keys, bin_, weight.alias("w")], bounded).where(bin_.not_null())

    alone = limits.units is Units.ALONE
    if not isinstance(rows, FreshRows):
        weighed = together(light(rows.part(most=limits.rows).kept([cell])), heavy(rows.part(above=limits.rows)))
    else:
        weighed = light(rows.plain([cell])) if alone else heavy(rows)
    labels = ["k"] if exact_query.count_units else rows.keys
    by = [*columns_of(labels), bin_]
    if isinstance(histogram, LineHistogram) and histogram.refined:
        weighed = refined(weighed, labels, draw, histogram.width // histogram.cell, keep=not alone)
        by.append(column("cells", "t"))
    # clamped at a public 2⁶² so that 64 bits hold it; a clamp never increases a sensitivity
    weight = call("least", summed(column("w", "t"), wide=True), integer(_LARGEST_WEIGHT)).cast("BIGINT")
    return select([*by, weight.alias("w")], weighed).grouped(by)


def refined(weighed: Select, keys: Sequence[str], draw: Draw, cells: int, *, keep: bool) -> Select:
    """Return the key columns, ``bin``, ``cells`` and ``w`` from key columns, ``bin`` (a cell's number) and ``w``.

    A bin has ``cells`` cells; in the result ``bin`` is the first of its ``cells`` cells. ``keep`` the weighed rows
    between the passes where they cost more to compute than to store.
    """
    rows = read("weighed", "t") if keep else weighed
    whole_bin: Scalar = column("bin", "t").quotient(integer(cells))
    coarse = select([*columns_of(keys), whole_bin.alias("bin"), summed(column("w", "t"), wide=True).alias("w")], rows)
    coarse = coarse.grouped([*columns_of(keys), whole_bin])
    upto = window("sum", columns_of(keys), [column("bin", "t")], column("w", "t"))
    total_weight = window("sum", columns_of(keys), (), column("w", "t"))
    ranked = select(
        [*columns_of(keys), column("bin", "t"), column("w", "t"), upto.alias("upto"), total_weight.alias("whole")],
        coarse,
    )
    near = select([*columns_of(keys), column("bin", "t")], ranked).where(_near(draw))
    tests = [column(label, "t").matches(column(label, "near"), "BIGINT") for label in keys]
    tests.append(whole_bin.equals(column("bin", "near")))
    is_near = column("bin", "near").not_null()
    first = whole_bin * cells
    query = select(
        [
            *columns_of(keys),
            case((is_near, column("bin", "t")), otherwise=first).alias("bin"),
            case((is_near, integer(1)), otherwise=integer(cells)).alias("cells"),
            column("w", "t"),
        ],
        rows,
    )
    query = query.joined(Subquery((near,), "near"), "left", both(tests))
    return query.with_before("weighed", weighed) if keep else query


def _near(draw: Draw) -> Scalar:
    """Return whether a bin of weight ``w``, ``upto`` with all before it and ``whole`` in its group, may matter.

    It does if it comes within the draw's reach h of the target t: b·L < t + h and b·U > t - h. All weights together are
    below 2¹⁰², b below 2¹⁴: 128 bits hold the products, and a larger h still lets in everything.
    """
    assert isinstance(draw.mechanism, grouped.GroupedQuantile)  # noqa: S101 - only lines are refined
    law = draw.mechanism
    total_weight, upto, weight = (column(label, "t").cast("HUGEINT") for label in ("whole", "upto", "w"))
    target: Scalar
    if law.fraction.denominator > 1:
        target = total_weight * law.fraction.numerator
    else:
        half = total_weight.quotient(integer(2), wide=True)
        target = call("least", huge(min(law.rank, _FAR)), half)
        if law.fraction == 1:
            target = total_weight - target
    distance, times = huge(min(law.reach, _FAR)), law.fraction.denominator
    return both([(upto - weight) * times < (target + distance), upto * times > (target - distance)])


_HANDFUL = 8


def binned(rows: AnyRows, histogram: Histogram, lists: Lists) -> tuple[AnyRows, Scalar]:
    """Return the rows, perhaps with a further column, and the number of the bin that each falls into; NULL for none."""
    if isinstance(histogram, LineHistogram):
        index = grid_index(rows.known[histogram.factor.expression], histogram.factor)
        offset = index - histogram.factor.first
        return rows, offset.quotient(integer(histogram.cell)) if histogram.cell > 1 else offset
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
        (value.sql.equals(constant(listed, type_).to(value.form).sql), integer(at))
        for at, listed in enumerate(histogram.values)
        if value.form is not SqlType.INTEGER or not isinstance(listed, Fraction) or listed.denominator == 1
    ]
    return rows, case(*pairs) if pairs else null("INTEGER")


_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_TYPES = ((2**8, "UTINYINT"), (2**16, "USMALLINT"), (2**31, "INTEGER"))


def coded_statement(
    plan: RowPlan,
    catalogue: Catalogue,
    salt: int,
    lists: Lists,
    unit_type: str | None,
    bounds: Bounds = UNBOUNDED,
    unit_key: str | None = None,
) -> tuple[Select, FreshRows]:
    """Return the statement of the plan's coded rows, and these rows; ``unit_type`` is the engine's type of units.

    Its columns are the codes c0, c1, … and, unless every row is a unit of its own, an integer u that tells units apart.
    All that depends on one row alone comes first: its unit and its codes. Then the first rows of each unit
    are kept, in the order of a keyed hash of its unit and codes; where rows are told apart by numbers alone the hash
    leaves the unit out, because those numbers shift when a row goes. With a ``unit_key`` units are told apart by a
    keyed hash that is the same at any time and on any version.
    """
    exact_query = ExactQuery(
        relation=plan.question.relation, keys=(), domains=None, limits=plan.limits, statistics=(), count_units=False
    )
    reads = Reads(tuple(coded.expression for coded in plan.columns), frozenset())
    rows = FreshRows(exact_query, catalogue, None, salt, reads, lists=lists, bounds=bounds)
    cells: list[Named] = []
    for index, coded in enumerate(plan.columns):
        if coded.factor is not None:
            code = grid_index(rows.known[coded.expression], coded.factor)
            code = code - coded.factor.first if coded.factor.first else code
        else:
            histogram = ValueHistogram(population=Population(), expression=coded.expression, values=coded.values)
            rows, code = binned(rows, histogram, lists)
        if coded.null:
            # NULL has the code that follows the last value's
            code = call("coalesce", code, integer(coded.levels))
        narrow = next((name for size, name in _TYPES if coded.size <= size), "BIGINT")
        cells.append(code.cast(narrow).alias(f"c{index}"))
    codes = [column(cell.name, "t") for cell in cells]
    alone = plan.limits.units is Units.ALONE
    coded_rows = select([*([] if alone else [column(UNIT, "t")]), *codes], rows.plain(cells))
    for cell, coded in zip(codes, plan.columns, strict=True):
        # rows without a code go before a unit's first rows are kept, so they take nobody's place
        if not coded.null:
            coded_rows = coded_rows.where(cell.not_null())
    if alone:
        return coded_rows, rows
    unit = column(UNIT, "t")
    hashed = [] if plan.limits.units is Units.NUMBERED else [unit]
    # rows that still tie have equal codes, so it does not matter which of them is kept
    order = [primitive("row_hash", *hashed, *codes, salt=salt), *codes]
    bounded = select([unit, *codes], coded_rows).qualified(window("row_number", [unit], order), plan.limits.rows)
    if unit_key is not None and plan.limits.units is Units.COLUMN:
        identity = unit if unit_type is None else identity_text(unit, unit_type)  # as text, whatever stores it by then
        unit_cell: Named = primitive("unit_number", identity, key=unit_key).alias(UNIT)
    elif plan.limits.units is Units.NUMBERED and catalogue.dialect.numbers_closely:
        unit_cell = unit.try_cast("BIGINT", "HUGEINT").alias(UNIT)
    elif unit_type in _INTEGERS and plan.limits.units is Units.COLUMN:
        unit_cell = unit.cast("BIGINT").alias(UNIT)
    else:
        # any other unit is told by its rank, which is an integer whatever the unit is
        unit_cell = window("dense_rank", [], [unit]).alias(UNIT)
    return select([unit_cell, *codes], bounded), rows


def queries_of(plan: Plan, rows: Rows, lists: Lists) -> tuple[Select | None, dict[int, Select], list[Select]]:
    """Return the main query, those of distinct values that it lacks by the place of the statistic, and histograms."""
    exact_query = plan.exact_query
    main = MainWriter(exact_query, rows).statement()
    done = () if main is None else main.labels
    distinct: dict[int, Select] = {}
    for index, statistic in enumerate(exact_query.statistics):
        if isinstance(statistic, Distinct) and f"s{index}" not in done:
            distinct[index] = distinct_values(exact_query, rows.reading(Reads.of([statistic])), statistic)
    histograms = [
        histogram_of(exact_query, rows.reading(Reads.of([draw.choices[0]])), draw, lists) for draw in plan.draws
    ]
    return main, distinct, histograms


class Statements(NamedTuple):
    """A plan's statements, those that any number of rows need.

    All of them are written, and measured, when this is made, which is before the charge: whether a question can be
    written must depend on the question alone, and not on how many rows there are, nor on what was asked before.
    """

    plan: Plan
    rows: FreshRows
    """The rows that the statements add up."""
    main: Statement | None
    """All statistics but distinct values."""
    others: list[Statement]
    """Counts of distinct values that the main statement lacks, then a histogram for each draw."""
    distinct: list[int]
    """The place in the plan of the statistic of each count of distinct values, in their order."""
    released: ReleasedStatement | None
    """The statement for functions of released values; None if there are none."""
    shown: list[int] | None
    """Which combinations of public keys are answered; None for all."""
    notes: tuple[str, ...]
    """Notes on bounds of texts and joins, which keep the time of a question independent of its rows."""
    effort: Effort
    """How much there is to do, by public figures."""

    @property
    def statements(self) -> list[Statement]:
        """All statements, in an order that depends on the plan alone."""
        return [*([] if self.main is None else [self.main]), *self.others]

    def chosen(self, rows: list[Row], fetch: Callable[[Statement, Mapping[int, list[Any]]], list[Row]]) -> Exact:
        """Return the exact integers of chosen groups, from their rows of the main statement, in the order of keys."""
        assert self.main is not None  # noqa: S101 - it counts the units by which keys are chosen
        key_lists: dict[int, list[Any]] = {CHOSEN: list(range(len(rows)))}
        for index, form in enumerate(self.rows.private_keys.values()):
            key_lists[CHOSEN + 1 + index] = as_parameter((row[index] for row in rows), form)
        parameters = {**self.rows.lists.parameters, **key_lists}
        # fetched one by one, in the transaction that the groups came from
        results = (fetch(statement, parameters) for statement in self.others)
        groups = Groups(keys=[row[: len(self.rows.keys)] for row in rows], grouped=True)
        return groups.exact(
            self, ["k", *self.main.query.labels], [(number, *row) for number, row in enumerate(rows)], results
        )

    def over(self, stored: StoredRows) -> list[Statement]:
        """Return statements that compute the same as `statements` from stored rows."""
        main, distinct, histograms = queries_of(self.plan, stored, self.rows.lists)
        queries = [*([] if main is None else [main]), *distinct.values(), *histograms]
        return [render(query, stored.dialect, views=self.rows.lists.views) for query in queries]


_LARGEST = 2**63 - 1


Columns = Sequence[Sequence[Any]]
"""Released values: a sequence for each key or aggregate, with an entry for each group."""


class ReleasedStatement(NamedTuple):
    """A statement that returns a column for each part, and a row for each group."""

    statement: Statement
    """In DuckDB's dialect."""
    reads: tuple[tuple[Released, SqlType], ...]
    """The released values in its parameters, after the numbers of the groups."""

    def parameters(self, keys: Columns, aggregates: Columns) -> dict[int, list[Any]]:
        """Return the lists it reads: from each key's and each aggregate's values by group."""
        size = len((keys or aggregates)[0]) if keys or aggregates else 1
        # the statement sorts by these numbers, so its rows come in the order of the groups
        lists: dict[int, list[Any]] = {1: list(range(size))}
        for number, (released, form) in enumerate(self.reads, start=2):
            values = (keys if released.source == "key" else aggregates)[released.index]
            lists[number] = [_in_form(value, form) for value in values]
        return lists


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
    reads = tuple((released, SQL_TYPES[released.type.kind]) for released in released_in(parts))
    for number, (released, form) in enumerate(reads, start=2):
        value = Value(column(f"v{number}", "t"), form)
        if released.source == "key":
            key = key_value(keys[released.index], released.type, dialect)
            if key.single:  # a listed key of float32 numbers is the decimal that they stand for
                value = value.as_single()
            elif key.form is form:
                value = replace(key, sql=value.sql, within=None, step=None, literal=None)
        columns[name_of(released)] = value
    values = [shown_value(value_of(output, columns), output.type, DUCKDB) for output in parts]
    results = [value.sql.alias(f"o{number}") for number, value in enumerate(values)]
    lists = enumerate(("BIGINT", *(form.value for _, form in reads)), start=1)
    rows = ParameterRows(tuple(lists), "t", ("i", *(f"v{number}" for number, _ in enumerate(reads, start=2))))
    return ReleasedStatement(render(replace(select(results, rows), order=(column("i", "t"),)), DUCKDB), reads)


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


class Groups(NamedTuple):
    """The groups of an answer: all public ones in order, the chosen ones, or, without keys, everything."""

    keys: list[Row]
    grouped: bool

    def column(self, columns: Sequence[Row], index: int) -> Integers:
        """Return a column of a statement's results by group, 0 for groups that it does not report."""
        integers = integer_array(columns[index] if columns else ())
        values = np.zeros(len(self.keys), dtype=integers.dtype)
        values[list(columns[0]) if self.grouped and columns else slice(len(integers))] = integers
        return values

    def histograms(self, statement: Statement, rows: Sequence[Row]) -> Histograms:
        """Return each group's histogram."""
        bin_column = int(self.grouped)  # then come the bin, its number of cells where bins differ, and the weight
        table = np.array(rows, dtype=np.int64).reshape(-1, len(statement.query.labels))
        group = table[:, 0] if self.grouped else np.zeros(len(table), dtype=np.int64)
        # engines return groups in any order, and the edges are found by a binary search
        order = np.lexsort((table[:, bin_column], group))
        cells = table[order, bin_column + 1] if "cells" in statement.query.labels else None
        return Histograms(
            joined=Sparse(bins=table[order, bin_column], weights=table[order, -1], cells=cells),
            edges=np.searchsorted(group[order], np.arange(len(self.keys) + 1)),
        )

    def exact(
        self, prepared: Statements, labels: Sequence[str], main: Sequence[Row], others: Iterator[Sequence[Row]]
    ) -> Exact:
        """Return the exact integers: from the main statement's rows, with the names of their columns, and the rest."""
        statistics: dict[Statistic, Integers] = {}
        planned, columns = prepared.plan.exact_query.statistics, list(zip(*main, strict=True))
        for index, statistic in enumerate(planned):
            if f"s{index}" in labels:
                statistics[statistic] = self.column(columns, labels.index(f"s{index}"))
        for index in prepared.distinct:  # the key columns and ``s``
            statistics[planned[index]] = self.column(list(zip(*next(others), strict=True)), -1)
        units = self.column(columns, labels.index("units")) if "units" in labels else None
        draws = prepared.others[len(prepared.distinct) :]
        histograms = tuple([self.histograms(statement, next(others)) for statement in draws])
        return Exact(keys=self.keys, units=units, statistics=statistics, histograms=histograms)
