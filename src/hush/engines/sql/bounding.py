"""The rows of one question: each with its unit, its key, and the columns that statistics read.

`FreshRows` come from the tables. `StoredRows` were bounded before and lie in a table of their own (`StoredTable`): the
unit ``u``, the key columns, ``n``, which is how many rows the unit has in the group, and the columns that questions
read. Both give the same rows, so statistics of them are the same integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple, TypeVar

from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.keys import Axis, Lists, code, key_value, numbered, size
from hush.engines.sql.nodes import (
    EVERYTHING,
    FALSE,
    PEERS,
    From,
    Named,
    Scalar,
    Select,
    Star,
    Subquery,
    both,
    call,
    column,
    columns_of,
    integer,
    primitive,
    read,
    select,
    window,
)
from hush.engines.sql.relations import (
    UNBOUNDED,
    UNIT,
    Bounds,
    Catalogue,
    RelationWriter,
    finish,
    index_of,
    referenced,
    staged,
)
from hush.engines.sql.values import OwnName, SqlType, Value, condition_of
from hush.query.expressions import Column, Expression
from hush.query.plan.draws import DrawnAggregate
from hush.query.plan.plan import ExactQuery
from hush.query.plan.stability import MAX_ROWS, Distinct, Population, Statistic, Total, Units
from hush.query.relations import Relation, pruned, used
from hush.query.types import Kind

MANY = "n"
"""How many rows of its unit and group a row stands among."""


class Reads(NamedTuple):
    """The expressions that the statistics of a question read in every row."""

    expressions: tuple[Expression, ...]
    summed: frozenset[str]
    """Columns that are summed on their own grid or a finer one, and better carried as integers of their own."""

    @classmethod
    def of(cls, readers: Iterable[Statistic | DrawnAggregate]) -> Reads:
        """Return the expressions of statistics and drawn aggregates."""
        expressions: list[Expression] = []
        summed: set[str] = set()
        for reader in readers:
            population = reader.histogram.population if isinstance(reader, DrawnAggregate) else reader.population
            expressions += population.not_null
            if population.where is not None:
                expressions.append(population.where)
            if isinstance(reader, Total):
                for factor in reader.factors:
                    expressions.append(factor.expression)
                    step = factor.expression.type.step  # on the grid of the column's type, or on a finer one
                    if isinstance(factor.expression, Column) and step is not None and step % factor.step == 0:
                        summed.add(factor.expression.name)
            elif isinstance(reader, Distinct):
                expressions.append(reader.expression)
            elif isinstance(reader, DrawnAggregate):
                expressions.append(reader.histogram.expression)
        return cls(tuple(expressions), frozenset(summed))

    @property
    def names(self) -> frozenset[str]:
        """The columns that occur."""
        return used(self.expressions)


class FreshRows:
    """Rows of the relation. ``axes`` are the values of the public keys, None for private keys.

    ``known`` is what the statistics read, in terms of the columns of ``t``.
    """

    def __init__(
        self,
        exact_query: ExactQuery,
        catalogue: Catalogue,
        axes: Sequence[Axis] | None,
        salt: int,
        reads: Reads,
        *,
        lists: Lists,
        bounds: Bounds = UNBOUNDED,
    ) -> None:
        self.exact_query = exact_query
        self.bounds = bounds
        self._catalogue = catalogue
        self.dialect = catalogue.dialect
        self.reads = reads
        self.axes = axes
        self.salt = salt
        self.looked_up = 0
        """How many columns come from lists."""
        self.lists = lists
        self._alone = exact_query.limits.units is Units.ALONE
        read = used([*referenced(exact_query.relation), *reads.expressions])
        keys = [value for _, value in exact_query.keys]
        words = set()
        for value in keys:
            # the join with the list of keys drops other values anyway, but what else reads the column would see them,
            # and where NULL is a key other values count as NULL
            if axes and isinstance(value, Column) and value.type.kind is Kind.TEXT and not value.type.null_is_key:
                words.add(value.name)
        wanted, loose = read | used(keys), frozenset(words - read)
        writer = RelationWriter(catalogue, wanted, loose=loose, indexed=reads.summed, bounds=bounds)
        source = writer.write(exact_query.relation, alone=self._alone)
        self.source, self.known = staged(source, [*keys, *reads.expressions])
        self.counted, self.carried = writer.counted, writer.carried
        self.texts = writer.texts
        self.keys = ["k"] if axes else [f"k{index}" for index in range(len(exact_query.keys))]

    def reading(self, reads: Reads, relation: Relation | None = None) -> FreshRows:
        """Return the same rows for statistics that read no more than this, perhaps of a relation with more columns."""
        if reads == self.reads and relation is None:
            return self
        exact_query = self.exact_query if relation is None else replace(self.exact_query, relation=relation)
        return FreshRows(
            exact_query, self._catalogue, self.axes, self.salt, reads, lists=self.lists, bounds=self.bounds
        )

    @property
    def private_keys(self) -> Mapping[str, SqlType]:
        """The columns of private keys, with their forms."""
        return {} if self.axes else {f"k{index}": key.form for index, key in enumerate(self._raw_keys())}

    def _raw_keys(self) -> list[Value]:
        """Return the keys as they are, fit to group by."""
        return [key_value(self.known[key], key.type, self.dialect) for _, key in self.exact_query.keys]

    def plain(self, cells: Sequence[Named], *, numbered: bool = True) -> Select:
        """Return all rows: u, the key (numbered, if it is public, or k0, k1, … as it is), and the given cells."""
        query = select([], self.source.query)
        # where every row is a unit of its own, nobody asks which
        columns: list[Named] = [] if self._alone else [column(UNIT, "t")]
        if self.axes and numbered:
            query, number = self._numbered([self.known[key] for _, key in self.exact_query.keys], query)
            columns.append(number)
        else:
            columns += [key.sql.alias(f"k{index}") for index, key in enumerate(self._raw_keys())]
        # rows that are only counted need some column all the same
        return query.showing([*columns, *cells] or [integer(1).alias("one")])

    def renumbered(self, groups: Select, labels: Sequence[str]) -> Select:
        """Return groups by keys as they are with their number k and the columns named: fewer lookups than rows."""
        keys = [replace(key, sql=column(f"k{index}", "t")) for index, key in enumerate(self._raw_keys())]
        query, number = self._numbered(keys, select([], groups))
        return query.showing([number, *columns_of(labels)])

    def _numbered(self, keys: Sequence[Value], query: Select) -> tuple[Select, Named]:
        """Return rows without those that have other keys than the public ones, and the number k of their keys."""
        parts, axes = [], self.axes or ()
        for index, (key, axis) in enumerate(zip(keys, axes, strict=True)):
            query, part = numbered(query, key, axis, f"d{index}", self.lists, self.dialect)
            parts.append(part)
        return query, code(parts, axes).alias("k")

    def kept(self, cells: Sequence[Named], counted: str | None = None) -> Select:
        """Return the rows of each unit's first groups.

        With the name of a cell that is ``counted``, each row also has `MANY`: in how many rows of its unit and group
        that cell is not NULL. Rows of one group are peers in the order of the groups, so one sort does for both.
        """
        rows, limits, keys = self.plain(cells), self.exact_query.limits, columns_of(self.keys)
        # no unit can have more groups than are kept
        if self._alone or not keys or (self.axes and size(self.axes) <= limits.groups):
            return rows if counted is None else with_counts(rows, [UNIT, *self.keys], counted)
        columns: list[Scalar] = columns_of(rows.labels)
        # numbers of units shift when a row goes, and would change which groups other units keep
        hashed = keys if limits.units is Units.NUMBERED else [column(UNIT, "t"), *keys]
        mixed = primitive("row_hash", *hashed, salt=self.salt)
        # the keys follow the hash, so that groups whose hashes are equal still have different ranks
        rank = window("dense_rank", [column(UNIT, "t")], [mixed, *keys])
        if counted is not None:
            row_count = window("count", [column(UNIT, "t")], [mixed, *keys], column(counted, "t"), frame=PEERS)
            columns.append(row_count.alias(MANY))
        return select(columns, rows).qualified(rank, limits.groups)


class StoredTable(NamedTuple):
    """A table of the bounded rows of a relation, and its columns by their names in the question tree."""

    place: str
    relation: Relation
    columns: Mapping[str, tuple[str, Value]]
    """The stored column's name and its value."""
    keys: Mapping[str, SqlType]
    """The key columns, with their forms."""

    @classmethod
    def of(cls, place: str, relation: Relation, rows: FreshRows, labels: Iterable[str]) -> StoredTable:
        """Return a description of the stored table: rows of this kind, with the columns that are named."""
        # sorted, so that names of stored columns do not depend on the order of a set
        columns = {label: (f"c{index}", rows.source.columns[label]) for index, label in enumerate(sorted(labels))}
        return cls(place, relation, columns, rows.private_keys or dict.fromkeys(rows.keys, SqlType.INTEGER))

    def query(self, rows: FreshRows) -> Select:
        """Return the statement that selects the rows to be stored."""
        bounded = rows.kept([value.sql.alias(stored) for stored, value in self.columns.values()])
        by = columns_of((UNIT, *self.keys))
        row_count = window("count", by, (), EVERYTHING)
        # beyond every limit on rows it does not matter how many there are
        short = call("least", row_count, integer(MAX_ROWS + 1)).cast("INTEGER")
        return select([*by, *(column(stored, "t") for stored, _ in self.columns.values()), short.alias(MANY)], bounded)

    def has(self, relation: Relation, names: frozenset[str], keys: frozenset[str]) -> bool:
        """Return whether all columns that a question reads are there: those columns of the same relation."""
        needed = names | keys
        return names <= self.columns.keys() and pruned(self.relation, needed) == pruned(relation, needed)


class StoredRows:
    """Bounded rows of an earlier question: all, or those of light or heavy pairs."""

    def __init__(self, table: StoredTable, reads: Reads, salt: int) -> None:
        self.salt = salt
        # whatever the question's engine is, only DuckDB keeps such tables (`hush.engines.duckdb.cache`)
        self.dialect = DUCKDB
        self.looked_up = 0
        # names of their own, since a column of the question may be called k0 or n
        cells: dict[str, Value] = {
            OwnName(f"key {label}"): Value(column(label, "s"), form) for label, form in table.keys.items()
        }
        cells[MANY] = Value(column(MANY, "s"), SqlType.INTEGER)
        cells |= {
            label: replace(value, sql=column(stored, "s"), inlined=0)
            for label, (stored, value) in table.columns.items()
        }
        stored_rows = finish(select([], read(table.place, "s")), cells, column(UNIT, "s"))
        self.source, self.known = staged(stored_rows, reads.expressions)
        self.keys, self.private_keys = list(table.keys), table.keys
        self.above: int | None = None
        self.most: int | None = None

    def reading(self, _: Reads) -> StoredRows:
        """Return the same rows for statistics that read no more than this."""
        return self

    def part(self, *, most: int | None = None, above: int | None = None) -> StoredRows:
        """Return the rows of pairs (unit, group) with at most ``most``, or with more than ``above``, rows."""
        # a shallow copy: both parts read the same table, and differ in their limits alone
        part_rows = copy(self)
        part_rows.most, part_rows.above = most, above
        return part_rows

    def kept(self, cells: Sequence[Named], counted: str | None = None) -> Select:
        """Return the rows; with `MANY` if a cell is counted, as those of `FreshRows`."""
        keys = [self.source.columns[OwnName(f"key {label}")].sql.alias(label) for label in self.keys]
        query = select([column(UNIT, "t"), *keys, *cells], self.source.query)
        row_count = self.source.columns[MANY]
        if self.most is not None:
            query = query.where(row_count.sql <= self.most)
        if self.above is not None:
            query = query.where(row_count.sql > self.above)
        return query if counted is None else with_counts(query, [UNIT, *self.keys], counted)


def with_counts(rows: Select, by: Sequence[str], counted: str) -> Select:
    """Return rows with `MANY`: in how many of the rows that agree in some columns a cell is not NULL."""
    row_count = window("count", columns_of(by), (), column(counted, "t"))
    return select([*columns_of(rows.labels), row_count.alias(MANY)], rows)


Rows = FreshRows | StoredRows
"""Rows with their unit ``u``, their key columns and any cells: statistics are computed from them."""
AnyRows = TypeVar("AnyRows", bound=Rows)


def looked_up(rows: AnyRows, value: Value, key_list: From) -> tuple[AnyRows, Scalar]:
    """Return the rows with a further column, and that column: the number of a value in a list called m, or NULL.

    They are the same rows: none goes, so a unit has the groups, and in each the rows, that it has without the list, and
    what bounds them stays as it is; and none comes twice, for a list has every value once
    (floats that are equal are one).
    """
    widened, label = copy(rows), f"m{rows.looked_up}"  # beside what it had, which are u, c0, c1, …
    query = select([Star("t"), column("c", "m").alias(label)], rows.source.query)
    query = query.joined(key_list, "left", value.sql.equals(column("k", "m")))
    widened.source, widened.looked_up = replace(rows.source, query=query), rows.looked_up + 1
    return widened, column(label, "t")


def condition_in(rows: Rows, population: Population) -> Scalar | None:
    """Return a population's condition, NULL counting as false; None if it is every row."""
    tests = [tested(rows, expression).not_null() for expression in population.not_null]
    if population.where is not None:
        tests.insert(0, call("coalesce", condition_of(rows.known[population.where]), FALSE))
    return both(tests) if tests else None


def carried_index(rows: Rows, expression: Expression) -> Value | None:
    """Return a column's integer on its declared grid, if it is carried along."""
    return rows.source.columns.get(index_of(expression.name)) if isinstance(expression, Column) else None


def tested(rows: Rows, expression: Expression) -> Scalar:
    """Return something that is NULL exactly where the expression is."""
    indexed = carried_index(rows, expression)
    return indexed.sql if indexed is not None else rows.known[expression].finite().sql


def together(first: Select, second: Select) -> Select:
    """Return SELECT * FROM (one UNION ALL other) AS t, ready to be aggregated."""
    return select([EVERYTHING], Subquery((first, second), "t"))
