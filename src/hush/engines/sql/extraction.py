r"""The statements that compute a plan's exact integers.

**Keys.** Public keys are numbered 0 … N-1. A key on a line is numbered by arithmetic, round(x/step) - first; others by
joining a list of the values. Rows with other keys fall out there, before anything is counted. Private keys are kept as
they are.

**Bounding** (the proof is in `hush.query.plan.limits`)::

    rows   one row each of the relation: unit u, key k, populations p0 …, integers v0 …
    kept   rows whose key is among the unit's first `groups`, by dense_rank() over hash(u, k, salt), k
    pairs  one row for each (u, k): n_i rows in population i, sums s_j
    answer one row for each k: Σ min(n, rows), Σ (s if n ≤ rows else s·rows // n), number of units

``//`` truncates towards zero. Nothing overflows: a row's integer is below 2⁶², a sum of fewer than 2⁴⁰ rows below 2¹⁰²,
times rows ≤ 2²⁰ below 2¹²². Where one row is one unit, `rows` is aggregated directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from hush.engines.sql.build import (
    Sql,
    alias,
    binary,
    both,
    call,
    case,
    cast,
    column,
    count,
    grouped,
    integer,
    not_null,
    select,
    total,
    where,
    window,
)
from hush.engines.sql.expressions import condition_of
from hush.engines.sql.forms import Form, Value
from hush.engines.sql.keys import Axis, Lists, code, key_value, listed, numbered, size
from hush.engines.sql.refining import refined
from hush.engines.sql.relations import (
    UNIT,
    Catalogue,
    RelationWriter,
    grid_index,
    index_of,
    names_in,
    referenced,
    staged,
)
from hush.query.expressions import Column, Expression
from hush.query.plan.choices import Choice, Histogram, LineHistogram
from hush.query.plan.domains import expression_name
from hush.query.plan.limits import Units
from hush.query.plan.plan import Extraction, Pick
from hush.query.plan.statistics import Count, DistinctCount, Population, Statistic, Total, UnitCount
from hush.query.types import Kind

_LARGEST = 2**62


class ExtractionWriter:
    """Writes the statements of one extraction. ``axes`` are the values of the public keys, None for private keys."""

    def __init__(
        self,
        extraction: Extraction,
        catalogue: Catalogue,
        axes: Sequence[Axis] | None,
        salt: int,
        choices: Sequence[Choice] = (),
        *,
        lists: Lists,
    ) -> None:
        self._extraction = extraction
        self._axes = axes
        self._lists = lists
        self._salt = salt
        self._alone = extraction.limits.units is Units.ALONE
        used: list[Expression] = []
        direct: list[Expression] = []
        for item in extraction.statistics:
            used += _expressions(item)
            direct += [factor.expression for factor in item.factors] if isinstance(item, Total) else []
        for choice in choices:
            histogram = choice.histogram
            used += _of_population(histogram.population)
            used.append(histogram.factor.expression if isinstance(histogram, LineHistogram) else histogram.expression)
        read = {label for item in [*used, *referenced(extraction.relation)] for label in names_in(item)}
        keys = [value for _, value in extraction.keys]
        words = [value for value in keys if isinstance(value, Column) and value.type.kind is Kind.TEXT]
        loose = frozenset(value.name for value in words if axes and value.name not in read)
        indexed = frozenset(item.name for item in direct if isinstance(item, Column))
        wanted = frozenset(read | {label for item in keys for label in names_in(item)})
        writer = RelationWriter(catalogue, wanted, loose=loose, indexed=indexed)
        source = writer.write(extraction.relation, alone=self._alone)
        self._source, self._known = staged(source, [*keys, *used])
        self.keys = ["k"] if axes else [f"k{index}" for index in range(len(extraction.keys))]

    # rows

    def _rows(self, cells: Sequence[Sql]) -> exp.Select:
        """Return the relation's rows: u, the key (numbered, if it is public), and the given cells."""
        query = select([], self._source.query.copy())
        named: list[Sql] = [] if self._alone else [alias(column(UNIT, "t"), UNIT)]
        if self._axes:
            parts: list[Sql] = []
            for index, ((_, expression), axis) in enumerate(zip(self._extraction.keys, self._axes, strict=True)):
                query, part = numbered(query, self._known[expression], axis, f"d{index}", self._lists)
                parts.append(part)
            named.append(alias(code(parts, self._axes), "k"))
        else:
            for label, (_, expression) in zip(self.keys, self._extraction.keys, strict=True):
                named.append(alias(key_value(self._known[expression], expression.type).copy(), label))
        query.set("expressions", [*named, *cells] or [alias(integer(1), "one")])
        return query

    def _raw_rows(self, cells: Sequence[Sql]) -> exp.Select:
        """Return the rows with their keys as they are, key by key; only those on a line are numbered already."""
        query = select([], self._source.query.copy())
        named: list[Sql] = []
        for index, ((_, expression), axis) in enumerate(zip(self._extraction.keys, self._axes or (), strict=True)):
            if axis.line() is not None:
                query, part = numbered(query, self._known[expression], axis, f"d{index}", self._lists)
            else:
                part = key_value(self._known[expression], expression.type).copy()
            named.append(alias(part, f"r{index}"))
        query.set("expressions", [*named, *cells])
        return query

    def _key_columns(self, table: str = "t") -> list[Sql]:
        return [column(label, table) for label in self.keys]

    def _kept(self, rows: exp.Select, cells: Sequence[str]) -> exp.Select:
        """Return the rows of each unit's first groups."""
        limits = self._extraction.limits
        if not self._extraction.keys or (self._axes and size(self._axes) <= limits.groups):
            return rows
        named = [alias(column(label, "t"), label) for label in (UNIT, *self.keys, *cells)]
        ordered = [] if limits.units is Units.NUMBERED else [column(UNIT, "t")]
        mixed = call("hash", *ordered, *self._key_columns(), integer(self._salt))
        rank = window("dense_rank", [column(UNIT, "t")], [mixed, *self._key_columns()])
        ranked = select([*named, alias(rank, "rank")], rows)
        within = binary(exp.LTE, column("rank", "t"), integer(limits.groups))
        return where(select([column(label, "t") for label in (UNIT, *self.keys, *cells)], ranked), within)

    def _population(self, population: Population) -> Sql | None:
        """Return the population's condition, NULL counting as false; None if it is every row."""
        tests = [not_null(self._tested(item)) for item in population.not_null]
        if population.where is not None:
            held = condition_of(self._known[population.where])
            tests.insert(0, exp.Coalesce(this=held, expressions=[exp.false()]))
        return both(tests) if tests else None

    def _integer(self, statistic: Total) -> Sql:
        """Return one row's integer."""
        parts = []
        for factor in statistic.factors:
            carried = self._indexed(factor.expression)
            if carried is not None and factor.step == factor.expression.type.step:
                index = carried  # clamped to the declared bounds; further bounds are applied here
                declared = self._source.columns[index_of(expression_name(factor.expression))].within
                if declared is None or declared[0] < factor.first or declared[1] > factor.last:
                    index = grid_index(Value(carried, Form.INTEGER), replace(factor, step=Fraction(1)))
            else:
                index = grid_index(self._known[factor.expression], factor)
            parts.append(binary(exp.Sub, index, integer(factor.centre)) if factor.centre else index)
        if len(parts) == 2:
            parts = [cast(part, "BIGINT") for part in parts]
        result = parts[0] if len(parts) == 1 else binary(exp.Mul, parts[0], parts[1])
        result = binary(exp.Sub, result, integer(statistic.offset)) if statistic.offset else result
        # a factor lies within ±2⁵², a product within ±2⁵⁸, so neither arithmetic nor this cast can fail
        return cast(result, "INTEGER") if statistic.bound < 2**30 else result

    # statements

    def statement(self) -> exp.Select | None:
        """Return the main statement: keys, the number of units if wanted, and every statistic but distinct values.

        Its columns are the key columns, ``units`` if asked for, and s0, s1, … by the statistic's position. None if
        there is nothing to compute.
        """
        chosen = [
            (index, item)
            for index, item in enumerate(self._extraction.statistics)
            if self._alone or not isinstance(item, DistinctCount)
        ]
        if not chosen and not self._extraction.count_units:
            return None
        return self._direct(chosen) if self._alone else self._bounded(chosen)

    def _direct(self, chosen: list[tuple[int, Statistic]]) -> exp.Select:
        """One row, one unit: aggregate the rows as they are.

        Rows are grouped by their own keys first, and the groups are numbered: fewer lookups than rows.
        """
        flags: dict[Population, str | None] = {}
        cells: list[Sql] = []
        answers: list[Sql] = [alias(count(), "units")] if self._extraction.count_units else []
        for index, item in chosen:
            match item:
                case Count() | UnitCount():
                    value = self._counted(item.population, flags, cells)
                case Total():
                    value = self._summed(index, item, flags, cells)
                case DistinctCount():
                    flag = self._flag(item.population, flags, cells)
                    seen = key_value(self._known[item.expression], item.expression.type)
                    cells.append(alias(seen.copy(), f"v{index}"))
                    inner: Sql = column(f"v{index}", "t")
                    shown = inner if flag is None else case((column(flag, "t"), inner))
                    value = exp.Count(this=exp.Distinct(expressions=[shown]))
            answers.append(alias(value, f"s{index}"))
        if not self._axes:
            rows = self._rows(cells)
            return grouped(select([*self._key_columns(), *answers], rows), self._key_columns())
        raw = [column(f"r{index}", "t") for index in range(len(self._axes))]
        groups = grouped(select([*raw, *answers], self._raw_rows(cells)), [item.copy() for item in raw])
        query = select([], groups)
        parts: list[Sql] = []
        for index, ((_, expression), axis) in enumerate(zip(self._extraction.keys, self._axes, strict=True)):
            if axis.line() is not None:
                parts.append(raw[index].copy())
            else:
                known = self._known[expression]
                key = Value(raw[index].copy(), key_value(known, expression.type).form)
                query, part = numbered(query, key, axis, f"d{index}", self._lists)
                parts.append(part)
        labels = [item.alias for item in answers]
        query.set("expressions", [alias(code(parts, self._axes), "k"), *(alias(column(x, "t"), x) for x in labels)])
        return query

    def _counted(self, population: Population, flags: dict[Population, str | None], cells: list[Sql]) -> Sql:
        """Return how many rows are in a population; a single test for NULL is a COUNT of that column."""
        if population.where is None and len(population.not_null) == 1:
            label = f"q{len(cells)}"
            cells.append(alias(self._tested(population.not_null[0]), label))
            return exp.Count(this=column(label, "t"))
        flag = self._flag(population, flags, cells)
        return count(None if flag is None else column(flag, "t"))

    def _summed(self, index: int, item: Total, flags: dict[Population, str | None], cells: list[Sql]) -> Sql:
        """Return the sum over a population; if its only tests are that the factors are not NULL, SUM makes them."""
        cells.append(alias(self._integer(item), f"v{index}"))
        inner: Sql = column(f"v{index}", "t")
        factors = {factor.expression for factor in item.factors}
        if item.population.where is None and set(item.population.not_null) <= factors:
            return total(inner)
        flag = self._flag(item.population, flags, cells)
        return total(inner if flag is None else case((column(flag, "t"), inner)))

    def _tested(self, expression: Expression) -> Sql:
        """Return something that is NULL exactly where the expression is."""
        return self._indexed(expression) or self._known[expression].finite().copy()

    def _indexed(self, expression: Expression) -> Sql | None:
        """Return a column's integer on its declared grid, if it is carried along."""
        if isinstance(expression, Column) and index_of(expression.name) in self._source.columns:
            return self._source.columns[index_of(expression.name)].copy()
        return None

    def _flag(self, population: Population, flags: dict[Population, str | None], cells: list[Sql]) -> str | None:
        """Return the name of the cell that says whether a row is in the population."""
        if population not in flags:
            test = self._population(population)
            flags[population] = None if test is None else f"p{len(flags)}"
            if test is not None:
                cells.append(alias(test, f"p{len(flags) - 1}"))
        return flags[population]

    def _bounded(self, chosen: list[tuple[int, Statistic]]) -> exp.Select:
        most = integer(self._extraction.limits.rows)
        flags: dict[Population, str | None] = {}
        cells: list[Sql] = []
        pairs: list[Sql] = []
        answers: list[Sql] = [alias(count(), "units")] if self._extraction.count_units else []
        counted: dict[Population, str] = {}
        for index, item in chosen:
            if item.population not in counted:
                counted[item.population] = f"n{len(counted)}"
                pairs.append(alias(self._counted(item.population, flags, cells), counted[item.population]))
            many = column(counted[item.population], "t")
            match item:
                case Count():
                    value: Sql = total(call("least", many, most.copy()))
                case UnitCount():
                    value = count(binary(exp.GT, many, integer(0)))
                case Total():
                    pairs.append(alias(self._summed(index, item, flags, cells), f"s{index}"))
                    summed = column(f"s{index}", "t")
                    scaled_down = binary(exp.IntDiv, binary(exp.Mul, cast(summed, "HUGEINT"), most.copy()), many.copy())
                    value = total(case((binary(exp.LTE, many, most.copy()), summed.copy()), otherwise=scaled_down))
                case DistinctCount():
                    continue
            answers.append(alias(value, f"s{index}"))
        names = [cell.alias for cell in cells]
        kept = self._kept(self._rows(cells), names)
        by = [column(UNIT, "t"), *self._key_columns()]
        together = grouped(select([*(_same(item) for item in by), *pairs], kept), by)
        return grouped(select([*self._key_columns(), *answers], together), self._key_columns())

    def distinct(self, index: int) -> exp.Select:
        """Return the statement for one count of distinct values: the key columns and ``s``."""
        item = self._extraction.statistics[index]
        assert isinstance(item, DistinctCount)  # noqa: S101 - the caller chose it
        value = key_value(self._known[item.expression], item.expression.type)
        test = self._population(item.population)
        cell = value.copy() if test is None else case((test, value.copy()))
        kept = self._kept(self._rows([alias(cell, "v")]), ["v"])
        by = [column(UNIT, "t"), *self._key_columns()]
        seen = where(select([*(_same(part) for part in by), column("v", "t")], kept), not_null(column("v", "t")))
        seen = grouped(seen, [*(part.copy() for part in by), column("v", "t")])
        mixed = call("hash", column(UNIT, "t"), column("v", "t"), integer(self._salt + 1))
        order = [column("v", "t")] if self._extraction.limits.units is Units.NUMBERED else [mixed, column("v", "t")]
        rank = window("row_number", [part.copy() for part in by], order)
        ranked = select([*self._key_columns(), column("v", "t"), alias(rank, "rank")], seen)
        shown = where(
            select(
                [*self._key_columns(), alias(exp.Count(this=exp.Distinct(expressions=[column("v", "t")])), "s")], ranked
            ),
            binary(exp.LTE, column("rank", "t"), integer(self._extraction.limits.rows)),
        )
        return grouped(shown, self._key_columns())

    def histogram(self, pick: Pick) -> exp.Select:
        """Return the statement for a histogram: the key columns, ``bin`` and ``w``, an exact weight below 2⁶².

        A refined one has ``cells`` between them, how many cells the bin has: bins near the target are counted cell by
        cell, and the others (`hush.query.plan.choices`) as a whole. ``bin`` is the number of the first cell.
        """
        histogram = pick.choice.histogram
        cell, test = self._bin(histogram), self._population(histogram.population)
        rows = self._rows([alias(cell if test is None else case((test, cell)), "bin")])
        if self._alone:
            each = select([*self._key_columns(), column("bin", "t"), alias(integer(1), "w")], rows)
            weighed = where(each, not_null(column("bin", "t")))
        else:
            weighed = self._unit_weighed(rows, pick.choice)
        weight = alias(_small(exp.Sum(this=column("w", "t"))), "w")
        if isinstance(histogram, LineHistogram) and histogram.refined:
            many = histogram.width // histogram.cell
            mixed = refined(weighed, self.keys, pick, many, keep=not self._alone)
            by = [*self._key_columns(), column("bin", "t"), column("cells", "t")]
            return grouped(select([*by, weight], mixed), [part.copy() for part in by])
        by = [*self._key_columns(), column("bin", "t")]
        return grouped(select([*by, weight], weighed), [part.copy() for part in by])

    def _unit_weighed(self, rows: exp.Select, choice: Choice) -> exp.Select:
        """Return keys, bins and weights of each unit, weighted down to what one unit may weigh."""
        limits = self._extraction.limits
        kept = self._kept(rows, ["bin"])
        by = [column(UNIT, "t"), *self._key_columns()]
        cells = [*by, column("bin", "t")]
        each = select([*(_same(part) for part in cells), alias(count(), "c")], kept)
        each = where(each, not_null(column("bin", "t")))
        each = grouped(each, [part.copy() for part in cells])
        whole = window("sum", [part.copy() for part in by], (), column("c", "t"))
        summed = select([*self._key_columns(), column("bin", "t"), column("c", "t"), alias(whole, "n")], each)
        full = choice.weight(limits)
        weight = case(
            (binary(exp.LTE, column("n", "t"), integer(limits.rows)), integer(full)),
            otherwise=binary(exp.IntDiv, integer(full * limits.rows), column("n", "t")),
        )
        value = binary(exp.Mul, cast(column("c", "t"), "HUGEINT"), weight)
        return select([*self._key_columns(), column("bin", "t"), alias(value, "w")], summed)

    def _bin(self, histogram: Histogram) -> Sql:
        """Return the number of the bin that a row falls into; NULL for none."""
        if isinstance(histogram, LineHistogram):
            index = grid_index(self._known[histogram.factor.expression], histogram.factor)
            offset = binary(exp.Sub, index, integer(histogram.factor.first))
            return binary(exp.IntDiv, offset, integer(histogram.cell)) if histogram.cell > 1 else offset
        value = key_value(self._known[histogram.expression], histogram.expression.type)
        pairs = [
            (binary(exp.EQ, value.copy(), listed(item, histogram.expression.type, value)), integer(at))
            for at, item in enumerate(histogram.values)
        ]
        return case(*pairs)


def _of_population(population: Population) -> list[Expression]:
    return [*population.not_null, *([] if population.where is None else [population.where])]


def _expressions(statistic: Statistic) -> list[Expression]:
    """Return what a statistic evaluates in every row."""
    found = _of_population(statistic.population)
    if isinstance(statistic, Total):
        found += [factor.expression for factor in statistic.factors]
    if isinstance(statistic, DistinctCount):
        found.append(statistic.expression)
    return found


def _same(item: Sql) -> Sql:
    return item.copy()


def _small(weight: Sql) -> Sql:
    """Clamp at a public 2⁶² so that 64 bits hold it; a clamp never increases a sensitivity."""
    return cast(call("least", weight, integer(_LARGEST)), "BIGINT")
