r"""The statement that computes a plan's exact integers; `hush.engines.sql.other_statements` has the rest.

**Keys.** Public keys are numbered 0 … N-1. A key on a line is numbered by arithmetic, round(x/step) - first; others by
joining a list of the values. Rows with other keys fall out there, before anything is counted. Private keys are kept as
they are in the main statement; the others run once keys are chosen, over rows whose keys are numbers of chosen ones.

**Bounding** (the proof is in `hush.query.plan.limits`)::

    rows   one row each of the relation: unit u, key k, populations p0 …, integers v0 …
    kept   rows whose key is among the unit's first `groups`, by dense_rank() over hash(u, k, salt), k
    pairs  one row for each (u, k): n rows, sums s_j over those in population j
    answer one row for each k: Σ min(n, rows), Σ (s if n ≤ rows else s·rows // n), number of units

So every row has one weight, whatever a statistic runs over: parts add up, and shares are shares.

A sum of x - c is taken as Σx - c·(number of x that are not NULL): the same integer, with the subtraction done once.
Where the rows were bounded before (`hush.engines.sql.rows`), those of pairs with no more than ``rows`` rows need no
weights and hence no pairs: Σ over pairs of a sum is the sum over rows.
Units are counted this way where a pair has one row.

``//`` truncates towards zero; a sum that is never positive is rounded down instead (`statistics.Halves`). Nothing
overflows: a row's integer is below 2⁶², a sum of fewer than 2⁴⁰ rows below 2¹⁰², times rows ≤ 2²⁰ below 2¹²². Where one
row is one unit, `rows` is aggregated directly.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hush.engines.sql.build import (
    ColumnName,
    Named,
    Sql,
    alias,
    binary,
    call,
    case,
    cast,
    column,
    count,
    distinct,
    integer,
    summed,
    total,
    weighted_down,
)
from hush.engines.sql.dialect import dialect
from hush.engines.sql.grid import grid_index, times_finer
from hush.engines.sql.keys import key_value
from hush.engines.sql.queries import Query, grouped, select
from hush.engines.sql.rendered import UNIT
from hush.engines.sql.rows import Cells, Fresh, Rows, condition_in, tested, together
from hush.engines.sql.values import Form, Value
from hush.query.plan.limits import Units
from hush.query.plan.plan import Extraction
from hush.query.plan.statistics import (
    Count,
    Distinct,
    DistinctCount,
    DistinctTotal,
    Factor,
    Others,
    Population,
    Total,
    UnitCount,
)

_NARROW = 2**23
KEPT = "kept"
"""How many rows of each group are kept: an extra column, by which the engine knows what storing them would take."""


class MainWriter:
    """Writes the main statement of one extraction over its rows: all statistics but those of distinct values.

    Where every row is a unit, distinct values are counted here.
    """

    def __init__(self, extraction: Extraction, rows: Rows) -> None:
        self._extraction = extraction
        self._rows = rows
        self._alone = extraction.limits.units is Units.ALONE
        self._chosen = [
            (index, item)
            for index, item in enumerate(extraction.statistics)
            if not isinstance(item, DistinctTotal if self._alone else Distinct)
        ]

    @property
    def _keys(self) -> list[Sql]:
        return [column(label, "t") for label in self._rows.keys]

    def _index(self, factor: Factor) -> Sql:
        """Return a factor's integer on its grid; small ones as 32 bits, which are quicker to add."""
        carried = self._rows.index(factor.expression)
        if carried is not None and carried.step is not None and carried.step != factor.step:
            carried = times_finer(carried, carried.step, factor.step)
        if carried is None:
            index = grid_index(self._rows.known[factor.expression], factor)
        elif carried.within is None or carried.within[0] < factor.first or carried.within[1] > factor.last:
            index = grid_index(Value(carried.sql, Form.INTEGER), replace(factor, step=Fraction(1)))
        else:
            index = carried.sql  # clamped to the declared bounds already
        return index if isinstance(index, ColumnName) or not _small(factor) else cast(index, "INTEGER")

    def _counted(self, population: Population, cells: Cells) -> Sql:
        """Return how many rows are in a population; a single test for NULL is a COUNT of that column.

        If its integers are summed they are what is counted: they are NULL where the column is, and there anyway.
        """
        if population.where is None and len(population.not_null) == 1:
            (one,) = population.not_null
            for _, item in self._chosen:
                if isinstance(item, Total) and item.population == population and item.factors[0].expression == one:
                    return call("count", self._cell(item.factors[0], population, cells))
            return call("count", cells.add(tested(self._rows, one)))
        test = condition_in(self._rows, population)
        return count(None if test is None else cells.add(test))

    def _cell(self, factor: Factor, population: Population, cells: Cells) -> Sql:
        """Return the column that holds a factor's integer, NULL outside the population."""

        def make() -> Sql:
            index, test = self._index(factor), None
            if population.where is not None or not set(population.not_null) <= {factor.expression}:
                test = condition_in(self._rows, population)
            return index if test is None else case((test, index))

        return cells.once((factor, population), make)

    def _summed(self, item: Total, cells: Cells) -> Sql:
        """Return the sum over a population, of integers that are NULL outside it.

        With c the centre and n the number of summands, Σ(x - c) is Σx - c·n and Σ(x - c)² is Σx² - 2c·Σx + c²·n. A
        factor lies within ±2⁵² and a product within ±2⁵⁸, so nothing can overflow.
        """
        inner = [self._cell(factor, item.population, cells) for factor in item.factors]
        first, centre = item.factors[0], item.factors[0].centre
        if len(inner) == 1:
            narrow = self._narrow(item)
            return _less(total(inner[0], narrow=narrow), (centre + item.offset, call("count", inner[0])), narrow=narrow)
        if item.factors[0] == item.factors[1] and _small(first):
            wide = cast(inner[0], "BIGINT")
            constant = item.offset - centre * centre
            return _less(
                total(binary("*", wide, wide)), (2 * centre, total(inner[0])), (constant, call("count", inner[0]))
            )
        left, right = (
            cast(binary("-", value, integer(factor.centre)), "BIGINT")
            for value, factor in zip(inner, item.factors, strict=True)
        )
        product = binary("*", left, right)
        return _less(total(product), (item.offset, call("count", product)))

    def _others(self, item: Others, cells: Cells) -> Sql:
        """Return how many rows are in the wider population alone, each counted several times."""
        whole = Population() if item.population.within is None else item.population.within
        rest = binary("-", self._counted(whole, cells), self._counted(item.population, cells))
        return _times(rest, item.times, narrow=self._narrow(item))

    def statement(self) -> Query | None:
        """Return the main statement: keys, the number of units if wanted, and every statistic but distinct values.

        Its columns are the key columns, ``units`` if asked for, s0, s1, … by the statistic's position, and, where rows
        are bounded, `KEPT`. None if there is nothing to compute.
        """
        if not self._chosen and not self._extraction.count_units:
            return None
        if isinstance(self._rows, Fresh):
            return self._direct(self._rows) if self._alone else self._by_pairs(self._rows)
        # pairs in which nothing is weighted down, and units counted, row by row; then the others
        by_unit = self._extraction.count_units or any(isinstance(item, UnitCount) for _, item in self._chosen)
        most = 1 if by_unit else self._extraction.limits.rows
        light = self._by_rows(self._rows.part(most=most))
        heavy = self._by_pairs(self._rows.part(above=most))
        labels = heavy.labels[len(self._rows.keys) :]
        sums = [alias(total(column(label, "t"), wide=True), label) for label in labels]
        return grouped(select([*self._keys, *sums], together(light, heavy)), self._keys)

    def _direct(self, rows: Fresh) -> Query:
        """One row, one unit: aggregate the rows as they are, by their own keys, and number the groups."""
        cells = Cells()
        answers = self._answers(cells)
        if not rows.axes:
            return grouped(select([*self._keys, *answers], rows.plain(cells.named)), self._keys)
        raw = [column(f"r{index}", "t") for index in range(len(self._extraction.keys))]
        groups = grouped(select([*raw, *answers], rows.raw(cells.named)), raw)
        return rows.renumbered(groups, [item.label for item in answers])

    def _by_rows(self, rows: Rows) -> Query:
        """Return the sums over rows none of which is weighted down."""
        cells = Cells()
        answers = [*self._answers(cells), alias(count(), KEPT)]
        return grouped(select([*self._keys, *answers], rows.kept(cells.named)), self._keys)

    def _answers(self, cells: Cells) -> list[Named]:
        """Return the statistics as aggregates over rows."""
        answers: list[Named] = [alias(count(), "units")] if self._extraction.count_units else []
        for index, item in self._chosen:
            match item:
                case Count() | Total() | Others():
                    value = self._statistic(item, cells)
                case UnitCount():
                    value = self._counted(item.population, cells)
                case DistinctCount():
                    seen = cells.add(key_value(self._rows.known[item.expression], item.expression.type).sql)
                    test = condition_in(self._rows, item.population)
                    shown = seen if test is None else case((cells.add(test), seen))
                    value = call("count", distinct(shown))
                case DistinctTotal():
                    continue
            answers.append(alias(value, f"s{index}"))
        return answers

    def _by_pairs(self, rows: Rows) -> Query:
        """Return the statistics over pairs (unit, group), each weighted down to the bound."""
        most = integer(self._extraction.limits.rows)
        cells = Cells()
        pairs: list[Sql] = [alias(count(), KEPT)]
        answers: list[Named] = [alias(count(), "units")] if self._extraction.count_units else []
        many = column(KEPT, "t")
        for index, item in self._chosen:
            match item:
                case Count() if item.population.everything:
                    value: Sql = self._over_pairs(call("least", many, most), narrow=True)
                case UnitCount():
                    pairs.append(alias(self._counted(item.population, cells), f"s{index}"))
                    value = count(binary(">", column(f"s{index}", "t"), integer(0)))
                case Count() | Total() | Others():
                    pairs.append(alias(self._statistic(item, cells), f"s{index}"))
                    pair = column(f"s{index}", "t")
                    floor = isinstance(item, Total) and item.range[1] <= 0
                    narrow = self._narrow(item)
                    down = weighted_down(pair, self._extraction.limits.rows, many, floor=floor, narrow=narrow)
                    value = self._over_pairs(case((binary("<=", many, most), pair), otherwise=down), narrow=narrow)
                case DistinctCount() | DistinctTotal():
                    continue
            answers.append(alias(value, f"s{index}"))
        answers.append(alias(self._over_pairs(many, narrow=True), KEPT))
        together = grouped(select([*self._by(), *pairs], rows.kept(cells.named)), self._by())
        return grouped(select([*self._keys, *answers], together), self._keys)

    def _over_pairs(self, value: Sql, *, narrow: bool = False) -> Sql:
        """Return the sum of what no pair lacks: a group has pairs, but over all of them there may be none."""
        return (summed if self._keys else total)(value, wide=True, narrow=narrow)

    def _narrow(self, item: Count | Total | Others) -> bool:
        """Return whether 64 bits hold a sum over 2⁴⁰ rows, and all on the way there, for what a row adds is below 2²³.

        A pair of n rows adds no more than min(n, rows) of them, so the sum over pairs is not larger.
        """
        if not dialect().narrows:
            return False
        if not isinstance(item, Total):
            return item.times < _NARROW
        if len(item.factors) > 1:
            return False
        (factor,) = item.factors
        return max(abs(factor.first), abs(factor.last)) + abs(factor.centre + item.offset) < _NARROW

    def _statistic(self, item: Count | Total | Others, cells: Cells) -> Sql:
        """Return a statistic over rows, before anything is weighted down."""
        match item:
            case Count():
                return _times(self._counted(item.population, cells), item.times, narrow=self._narrow(item))
            case Total():
                return self._summed(item, cells)
            case Others():
                return self._others(item, cells)

    def _by(self) -> list[Sql]:
        return [column(UNIT, "t"), *self._keys]


def _small(factor: Factor) -> bool:
    """Return whether 32 bits hold the factor's integers, and 64 bits their squares."""
    return max(abs(factor.first), abs(factor.last)) < 2**30


def _less(value: Sql, *parts: tuple[int, Sql], narrow: bool = False) -> Sql:
    """Return the value less multiples of others, all below 2¹²⁰ in magnitude, or, if it is ``narrow``, below 2⁶³."""
    for constant, other in parts:
        if constant:
            wide = cast(other, "BIGINT" if narrow else "HUGEINT")
            value = binary("-", value, binary("*", wide, integer(constant)))
    return value


def _times(value: Sql, times: int, *, narrow: bool = False) -> Sql:
    """Return a number of rows, each counted several times."""
    return value if times == 1 else binary("*", cast(value, "BIGINT" if narrow else "HUGEINT"), integer(times))
