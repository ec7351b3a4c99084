"""The rows of one question: each with its unit, its key, and what the statistics read of it.

`Fresh` rows come from the tables. `Stored` rows were bounded before and lie in a table of their own (`table_of`): the
unit ``u``, the key columns, ``n``, which is how many rows the unit has in the group, and the columns that questions
read. Both give the same rows, so whatever is computed from them is the same integers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TypeVar

from hush.core.values import dataclass
from hush.engines.sql.build import (
    EVERYTHING,
    FALSE,
    PEERS,
    ColumnName,
    Named,
    Sql,
    alias,
    binary,
    both,
    call,
    cast,
    column,
    double,
    everything_of,
    integer,
    not_null,
    row_hash,
    window,
)
from hush.engines.sql.keys import Axis, Lists, code, key_value, numbered, size
from hush.engines.sql.queries import Query, joined, qualified, read, select, union, where
from hush.engines.sql.relations import UNBOUNDED, Bounds, Catalogue, RelationWriter, index_of
from hush.engines.sql.rendered import UNIT, Rendered, finish, names_in, referenced, staged
from hush.engines.sql.values import Form, Value, condition_of, unscaled
from hush.query.expressions import Column, Expression
from hush.query.plan.choices import Choice, Histogram, LineHistogram
from hush.query.plan.limits import MAX_ROWS, Units
from hush.query.plan.plan import Extraction
from hush.query.plan.statistics import Distinct, Factor, Population, Statistic, Total
from hush.query.types import Kind

MANY = "n"
"""How many rows of its unit and group a row stands among."""
_KEY = "\0key "


@dataclass(frozen=True, slots=True)
class Reads:
    """What the statistics of a question read in every row."""

    expressions: tuple[Expression, ...]
    summed: frozenset[str]
    """Columns that are summed on their own grid or a finer one, and better carried as integers of their own."""

    @classmethod
    def of(cls, extraction: Extraction, choices: Sequence[Choice]) -> Reads:
        """Return what an extraction's statistics and the plan's choices read."""
        found: list[Expression] = []
        direct: list[Expression] = []
        for item in extraction.statistics:
            found += _expressions(item)
            if isinstance(item, Total):
                direct += [one.expression for one in item.factors if _refines(one)]
        for choice in choices:
            found += cls.by(choice).expressions
        return cls(tuple(found), frozenset(item.name for item in direct if isinstance(item, Column)))

    @classmethod
    def by(cls, what: Choice | Statistic) -> Reads:
        """Return what one choice or statistic reads."""
        if not isinstance(what, Choice):
            return cls(tuple(_expressions(what)), frozenset())
        return cls((*_of_population(what.histogram.population), _axis(what.histogram)), frozenset())

    @property
    def names(self) -> frozenset[str]:
        """The columns that occur."""
        return frozenset(label for item in self.expressions for label in names_in(item))


class Fresh:
    """Rows of the relation. ``axes`` are the values of the public keys, None for private keys.

    ``known`` is what the statistics read, in terms of the columns of ``t``.
    """

    def __init__(
        self,
        extraction: Extraction,
        catalogue: Catalogue,
        axes: Sequence[Axis] | None,
        salt: int,
        reads: Reads,
        *,
        lists: Lists,
        bounds: Bounds = UNBOUNDED,
    ) -> None:
        self._extraction = extraction
        self.bounds = bounds
        self._catalogue = catalogue
        self._reads = reads
        self.axes = axes
        self.salt = salt
        self.looked_up = 0
        """How many columns come from lists."""
        self._lists = lists
        self._alone = extraction.limits.units is Units.ALONE
        read = {label for item in referenced(extraction.relation) for label in names_in(item)} | reads.names
        keys = [value for _, value in extraction.keys]
        words = [value for value in keys if isinstance(value, Column) and value.type.kind is Kind.TEXT]
        words = [value for value in words if not value.type.null_is_key]  # there other values count as NULL
        loose = frozenset(value.name for value in words if axes and value.name not in read)
        wanted = frozenset(read | {label for item in keys for label in names_in(item)})
        writer = RelationWriter(catalogue, wanted, loose=loose, indexed=reads.summed, bounds=bounds)
        source = writer.write(extraction.relation, alone=self._alone)
        self.source, self.known = staged(source, [*keys, *reads.expressions])
        self.counted, self.carried = writer.counted, writer.carried
        self.joined, self.texts = writer.joined, writer.texts
        self.keys = ["k"] if axes else [f"k{index}" for index in range(len(extraction.keys))]

    def reading(self, reads: Reads) -> Fresh:
        """Return the same rows for statistics that read no more than this."""
        if reads == self._reads:
            return self
        return Fresh(
            self._extraction, self._catalogue, self.axes, self.salt, reads, lists=self._lists, bounds=self.bounds
        )

    @property
    def private_keys(self) -> Mapping[str, Form]:
        """The columns of private keys, with their forms."""
        if self.axes:
            return {}
        keys = zip(self.keys, self._extraction.keys, strict=True)
        return {label: key_value(self.known[value], value.type).form for label, (_, value) in keys}

    def index(self, expression: Expression) -> Value | None:
        """Return a column's integer on its declared grid, if it is carried along."""
        return self.source.columns.get(index_of(expression.name)) if isinstance(expression, Column) else None

    def plain(self, cells: Sequence[Named]) -> Query:
        """Return all rows: u, the key (numbered, if it is public), and the given cells."""
        query = select([], self.source.query)
        named: list[Named] = [] if self._alone else [column(UNIT, "t")]
        if self.axes:
            parts: list[Sql] = []
            for index, ((_, expression), axis) in enumerate(zip(self._extraction.keys, self.axes, strict=True)):
                query, part = numbered(query, self.known[expression], axis, f"d{index}", self._lists)
                parts.append(part)
            named.append(alias(code(parts, self.axes), "k"))
        else:
            for label, (_, expression) in zip(self.keys, self._extraction.keys, strict=True):
                named.append(alias(key_value(self.known[expression], expression.type).sql, label))
        return query.showing([*named, *cells] or [alias(integer(1), "one")])

    def raw(self, cells: Sequence[Named]) -> Query:
        """Return all rows with their keys r0, r1, … as they are; only those on a line are numbered already."""
        query = select([], self.source.query)
        named: list[Named] = []
        for index, ((_, expression), axis) in enumerate(zip(self._extraction.keys, self.axes or (), strict=True)):
            if axis.line() is not None:
                query, part = numbered(query, self.known[expression], axis, f"d{index}", self._lists)
            else:
                part = key_value(self.known[expression], expression.type).sql
            named.append(alias(part, f"r{index}"))
        return query.showing([*named, *cells])

    def renumbered(self, groups: Query, labels: Sequence[str]) -> Query:
        """Return groups of raw rows with their number k and the columns named: fewer lookups than rows."""
        query = select([], groups)
        parts: list[Sql] = []
        axes = self.axes or ()
        for index, ((_, expression), axis) in enumerate(zip(self._extraction.keys, axes, strict=True)):
            part: Sql = column(f"r{index}", "t")
            if axis.line() is None:
                key = Value(part, key_value(self.known[expression], expression.type).form)
                query, part = numbered(query, key, axis, f"d{index}", self._lists)
            parts.append(part)
        return query.showing([alias(code(parts, axes), "k"), *(column(label, "t") for label in labels)])

    def kept(self, cells: Sequence[Named], counted: str | None = None) -> Query:
        """Return the rows of each unit's first groups.

        With the name of a cell that is ``counted``, each row also has `MANY`: in how many rows of its unit and group
        that cell is not NULL. Rows of one group are peers in the order of the groups, so one sort does for both.
        """
        rows, mixed = self.plain(cells), self.order()
        if mixed is None:
            return rows if counted is None else with_counts(rows, [UNIT, *self.keys], counted)
        shown: list[Named] = [column(label, "t") for label in rows.labels]
        keys = [column(label, "t") for label in self.keys]
        rank = window("dense_rank", [column(UNIT, "t")], [mixed, *keys])
        if counted is not None:
            many = window("count", [column(UNIT, "t")], [mixed, *keys], column(counted, "t"), frame=PEERS)
            shown.append(alias(many, MANY))
        return qualified(select(shown, rows), rank, self._extraction.limits.groups)

    def order(self) -> Sql | None:
        """Return the hash of a row of `plain` in whose order, and then in that of its key, its unit's groups come.

        None if no unit can have more groups than are kept.
        """
        limits = self._extraction.limits
        if self._alone or not self._extraction.keys or (self.axes and size(self.axes) <= limits.groups):
            return None
        ordered = [] if limits.units is Units.NUMBERED else [column(UNIT, "t")]
        return row_hash([*ordered, *(column(label, "t") for label in self.keys)], self.salt)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns a table of bounded rows has, by their names in the question tree."""

    columns: Mapping[str, tuple[str, Value]]
    """The stored column's name and what is known of it; a number on a grid is stored as its index."""
    keys: Sequence[str]

    @classmethod
    def of(cls, rows: Fresh, labels: Iterable[str]) -> Layout:
        """Return the layout that stores the named columns of fresh rows."""
        found: dict[str, tuple[str, Value]] = {}
        for label in sorted(labels):
            indexed = rows.source.columns.get(index_of(label))
            found[label] = (f"c{len(found)}", indexed or rows.source.columns[label])
        return cls(found, rows.keys)

    def table_of(self, rows: Fresh) -> Query:
        """Return the statement whose result is stored."""
        kept = rows.kept([alias(value.sql, stored) for stored, value in self.columns.values()])
        by = [column(label, "t") for label in (UNIT, *self.keys)]
        many = window("count", by, (), EVERYTHING)
        # beyond every limit on rows it does not matter how many there are
        short = cast(call("least", many, integer(MAX_ROWS + 1)), "INTEGER")
        return select([*by, *(column(stored, "t") for stored, _ in self.columns.values()), alias(short, MANY)], kept)

    def rendered(self, place: str) -> Rendered:
        """Return the stored table as a relation."""
        cells = {_KEY + label: Value(column(label, "s"), Form.TEXT) for label in self.keys}
        cells[MANY] = Value(column(MANY, "s"), Form.INTEGER)
        for label, (stored, value) in self.columns.items():
            plain = replace(value, sql=column(stored, "s"))
            if value.step is None:
                cells[label] = plain
                continue
            # exactly what the column is where it is read: the index as DOUBLE, times the step, without a negative zero
            number = unscaled(cast(column(stored, "s"), "DOUBLE"), value.step)
            cells[label] = Value(binary("+", number, double(0)), Form.DOUBLE, scale=value.scale)
            cells[index_of(label)] = plain
        return finish(select([], read(place, "s")), cells, column(UNIT, "s"))


class Stored:
    """Bounded rows of an earlier question, some or all of them."""

    def __init__(self, layout: Layout, place: str, reads: Reads, salt: int) -> None:
        self.salt = salt
        self.looked_up = 0
        self.source, self.known = staged(layout.rendered(place), reads.expressions)
        self.keys = list(layout.keys)
        self.private_keys = dict.fromkeys(self.keys, Form.TEXT)  # of whatever form: they are compared in DuckDB
        self.above: int | None = None
        self.most: int | None = None

    def index(self, expression: Expression) -> Value | None:
        """Return a column's integer on its declared grid, if it is carried along."""
        return self.source.columns.get(index_of(expression.name)) if isinstance(expression, Column) else None

    def reading(self, _: Reads) -> Stored:
        """Return the same rows for statistics that read no more than this."""
        return self

    def part(self, *, most: int | None = None, above: int | None = None) -> Stored:
        """Return the rows of pairs (unit, group) with at most, or with more than, so many rows."""
        other = copy(self)
        other.most, other.above = most, above
        return other

    def kept(self, cells: Sequence[Named], counted: str | None = None) -> Query:
        """Return the rows; with `MANY` if a cell is counted, as those of `Fresh`."""
        keys = [alias(self.source.columns[_KEY + label].sql, label) for label in self.keys]
        query = select([column(UNIT, "t"), *keys, *cells], self.source.query)
        many = self.source.columns[MANY]
        if self.most is not None:
            query = where(query, binary("<=", many.sql, integer(self.most)))
        if self.above is not None:
            query = where(query, binary(">", many.sql, integer(self.above)))
        return query if counted is None else with_counts(query, [UNIT, *self.keys], counted)


class Cells:
    """Expressions over one row, each computed once."""

    def __init__(self) -> None:
        self._labels: dict[Sql, str] = {}
        self._made: dict[Hashable, ColumnName] = {}
        self.named: list[Named] = []

    def add(self, value: Sql) -> ColumnName:
        """Return the column of ``t`` that holds a value."""
        if value not in self._labels:
            self._labels[value] = f"v{len(self._labels)}"
            self.named.append(alias(value, self._labels[value]))
        return column(self._labels[value], "t")

    def once(self, what: Hashable, make: Callable[[], Sql]) -> Sql:
        """Return the column of ``t`` that holds a value, which is written at most once."""
        if what not in self._made:
            self._made[what] = self.add(make())
        return self._made[what]


def with_counts(rows: Query, by: Sequence[str], counted: str) -> Query:
    """Return rows with `MANY`: in how many of the rows that agree in some columns a cell is not NULL."""
    many = window("count", [column(label, "t") for label in by], (), column(counted, "t"))
    return select([*(column(label, "t") for label in rows.labels), alias(many, MANY)], rows)


Rows = Fresh | Stored
"""Rows with their unit ``u``, their key columns and any cells: what statistics are computed from."""
AnyRows = TypeVar("AnyRows", bound=Rows)


def looked_up(rows: AnyRows, value: Value, listed: Sql) -> tuple[AnyRows, Sql]:
    """Return the rows with a further column, and that column: the number of a value in a list called m, or NULL.

    They are the same rows: none goes, so a unit has the groups, and in each the rows, that it has without the list, and
    what bounds them stays as it is; and none comes twice, for a list's table has every value once
    (floats that are equal are one).
    """
    other, label = copy(rows), f"m{rows.looked_up}"  # beside what it had, which are u, c0, c1, …
    found = select([everything_of("t"), alias(column("c", "m"), label)], rows.source.query)
    found = joined(found, listed, "left", binary("=", value.sql, column("k", "m")))
    other.source, other.looked_up = replace(rows.source, query=found), rows.looked_up + 1
    return other, column(label, "t")


def condition_in(rows: Rows, population: Population) -> Sql | None:
    """Return a population's condition, NULL counting as false; None if it is every row."""
    tests = [not_null(tested(rows, item)) for item in population.not_null]
    if population.where is not None:
        tests.insert(0, call("coalesce", condition_of(rows.known[population.where]), FALSE))
    return both(tests) if tests else None


def tested(rows: Rows, expression: Expression) -> Sql:
    """Return something that is NULL exactly where the expression is."""
    indexed = rows.index(expression)
    return indexed.sql if indexed is not None else rows.known[expression].finite().sql


def together(one: Query, other: Query) -> Query:
    """Return SELECT * FROM (one UNION ALL other) AS t, ready to be aggregated."""
    return select([EVERYTHING], union([one, other]))


def _refines(factor: Factor) -> bool:
    """Return whether a factor's grid is that of its type, or has it among its points."""
    own = factor.expression.type.step
    return own is not None and own % factor.step == 0


def _of_population(population: Population) -> list[Expression]:
    return [*population.not_null, *([] if population.where is None else [population.where])]


def _axis(histogram: Histogram) -> Expression:
    return histogram.factor.expression if isinstance(histogram, LineHistogram) else histogram.expression


def _expressions(statistic: Statistic) -> list[Expression]:
    """Return what a statistic evaluates in every row."""
    found = _of_population(statistic.population)
    if isinstance(statistic, Total):
        found += [factor.expression for factor in statistic.factors]
    if isinstance(statistic, Distinct):
        found.append(statistic.expression)
    return found
