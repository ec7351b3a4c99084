"""Relations as SELECTs that carry the unit along, and expressions over them that are computed once.

Each relation has the columns c0, c1, … and, if the question needs it, the unit u. A unit is read where its table is
read, following the foreign keys; rows without one are dropped there. Units of tables that store them in different types
are compared as text, so that no value can make a comparison fail.

Engines put the expression of a column in place of its name, wherever a condition over a subquery names it (filter
pushdown): an expression that is written once may be computed many times. So a column's cost in conditions is that of
its expression (`in_place`), through all subqueries; and an expensive expression that is needed more than
once becomes a column that no condition is put through (`Dialect.apart`).

>>> from hush.engines.sql.dialect import DUCKDB
>>> from hush.engines.sql.nodes import read
>>> from hush.engines.sql.render import render
>>> cells = {"age": Value(column("age", "s"), SqlType.INTEGER)}
>>> render(finish(select([], read("people", "s")), cells, column("id", "s")).query, DUCKDB).text
'SELECT "s"."id" AS "u", "s"."age" AS "c0" FROM "people" AS "s"'
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from hush.engines.errors import SourceError
from hush.engines.sql.dialect import DUCKDB, FLOATS, Dialect
from hush.engines.sql.forcing import force, force_index
from hush.engines.sql.keys import grid_index
from hush.engines.sql.nodes import (
    DIRECTIONS,
    EVERYTHING,
    MADE,
    ColumnName,
    ConstantRows,
    Costed,
    Double,
    From,
    Named,
    Operation,
    Scalar,
    Select,
    Star,
    Subquery,
    both,
    call,
    case,
    column,
    count,
    huge,
    integer,
    null,
    read,
    rows_of,
    select,
    summed,
    window,
)
from hush.engines.sql.scalars import condition, value_of
from hush.engines.sql.values import (
    MAX_TEXT,
    SQL_TYPES,
    WHOLE,
    WIDEST,
    OwnName,
    SqlType,
    Value,
    alike,
    constant,
    hull,
    scaled,
    unscaled,
)
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Column, Expression, Op, pieces, substituted
from hush.query.plan.stability import Factor, line
from hush.query.relations import (
    Constants,
    ExactAggregate,
    ExactKind,
    Filter,
    Join,
    OwnWindow,
    PerUnit,
    Project,
    Relation,
    Scan,
    UnionAll,
    WindowKind,
    WithWindows,
    used,
    walk,
)
from hush.query.schema import Schema, UnitPath
from hush.query.types import Kind, Type

UNIT = "u"
_DEAR = 1000
"""Nanoseconds from which on an expression is computed once, in a column that no condition is put through."""


@dataclass(frozen=True, slots=True)
class RelationQuery:
    """A SELECT, its columns by their names in the question tree, and whether it has a unit."""

    query: Select
    columns: Mapping[str, Value]
    """As seen from outside: columns of an alias ``t``."""
    unit: bool


def finish(query: Select, cells: Mapping[str, Value], unit: Scalar | None) -> RelationQuery:
    """Name the cells c0, c1, … and return the relation with these columns."""
    columns: list[Named] = [] if unit is None else [unit.alias(UNIT)]
    outside = {}
    for index, (label, value) in enumerate(cells.items()):
        columns.append(value.sql.alias(f"c{index}"))
        outside[label] = replace(value, sql=column(f"c{index}", "t"))
    # a SELECT needs a column, also where nothing but its rows counts
    query = query.showing(columns or [integer(1).alias("c0")])
    return RelationQuery(query, outside, unit is not None)


def wrapped_in(source: RelationQuery, cells: Mapping[str, Value]) -> RelationQuery:
    """Return a SELECT from a relation, with other columns."""
    return finish(select([], source.query), cells, column(UNIT, "t") if source.unit else None)


def staged(source: RelationQuery, expressions: Iterable[Expression]) -> tuple[RelationQuery, dict[Expression, Value]]:
    """Compute expressions once, as columns of their own, so that statements that name them stay short."""
    items = list(dict.fromkeys(expressions))
    source, simpler = computed_once(source, items)
    cells, labels = dict(source.columns), {}
    for index, (expression, simple) in enumerate(zip(items, simpler, strict=True)):
        value = value_of(simple, source.columns)
        # a column's name is short already, and needs no place of its own
        if not isinstance(value.sql, ColumnName):
            label = labels[expression] = OwnName(f"expression {index}")
            cells[label] = _apart(value) if value.sql.cost > _DEAR else value
    wrapped = wrapped_in(source, cells) if labels else source
    values = {}
    for expression, simple in zip(items, simpler, strict=True):
        own = labels.get(expression)
        values[expression] = value_of(simple, wrapped.columns) if own is None else wrapped.columns[own]
    return wrapped, values


def computed_once(source: RelationQuery, expressions: Sequence[Expression]) -> tuple[RelationQuery, list[Expression]]:
    """Return a relation with columns for repeated parts of expressions, and the expressions over these columns.

    These are texts, such as LOWER(t) in many ILIKE, what CLIP moves into its bounds, and columns that the engine would
    compute wherever a condition names them; if they are dear.
    """
    simpler = list(expressions)
    for repeated in (repeated_texts, clipped):
        replacements: dict[Expression, Column] = {}
        further: dict[str, Value] = {}
        for piece in repeated(simpler):
            value = value_of(piece, source.columns)
            if value.sql.cost > _DEAR:
                name = OwnName(f"computed {len(source.columns) + len(further)}")
                replacements[piece], further[name] = Column(name, piece.type), _apart(value)
        if replacements:
            simpler = [substituted(expression, replacements.get) for expression in simpler]
        named = [piece for expression in simpler for piece in pieces(expression) if isinstance(piece, Column)]
        often = Counter([piece.name for piece in named])
        columns = source.columns
        dear = {label for label, value in columns.items() if value.inlined > _DEAR and often[label] > 1}
        if replacements or dear:
            cells = {label: _apart(value) if label in dear else value for label, value in columns.items()}
            source = wrapped_in(source, cells | further)
    return source, simpler


def _apart(value: Value) -> Value:
    work = MADE * value.chars if value.form is SqlType.TEXT else 0
    return replace(value, sql=call("apart", value.sql).costing(work), inlined=0)


def in_place(columns: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return columns with the cost of their expressions, which the engine may put in place of their names."""
    return {label: replace(value, sql=Costed(value.sql, value.inlined, only=True)) for label, value in columns.items()}


def referenced(relation: Relation) -> Iterator[Expression]:
    """Yield every expression that a relation evaluates, and those of the relations that it is made of."""
    for inner in walk(relation):
        match inner:
            case Scan() | Constants():
                continue
            case Filter():
                yield inner.condition
            case Project():
                yield from (value for _, value in inner.columns)
            case Join():
                for pair in inner.on:
                    yield from pair
                if inner.where is not None:
                    yield inner.where
            case UnionAll():
                yield from (Column(label, type_) for label, type_ in inner.columns)
            case WithWindows():
                for _, window in inner.windows:
                    yield from filter(None, window.expressions)
            case PerUnit():
                yield from (value for _, value in inner.keys)
                yield from (aggregate.argument for _, aggregate in inner.aggregates if aggregate.argument is not None)


def repeated_texts(expressions: Sequence[Expression]) -> dict[Call, None]:
    """Return the texts that expressions compute more than once, without those inside of larger ones."""
    often = Counter([piece for expression in expressions for piece in pieces(expression)])
    texts: dict[Call, None] = {}
    waiting = [*reversed(expressions)]
    while waiting:
        piece = waiting.pop()
        if not isinstance(piece, Call):
            continue
        if piece.type.kind is Kind.TEXT and often[piece] > 1 and used([piece]):
            texts[piece] = None
        else:
            waiting += reversed(piece.arguments)
    return texts


def clipped(expressions: Sequence[Expression]) -> dict[Call, None]:
    """Return the arguments of CLIP, which are named three times: in two comparisons and as the result."""
    arguments: dict[Call, None] = {}
    for expression in expressions:
        for piece in pieces(expression):
            if isinstance(piece, Call) and piece.op is Op.CLIP and isinstance(piece.arguments[0], Call):
                arguments[piece.arguments[0]] = None
    return arguments


MOST_PAIRS = 10**6
"""The most rows of a unit after a join; a unit with more is left out. Fewer, where a row costs much."""


class Bounds(NamedTuple):
    """Bounds of the work for one unit's rows (`hush.engines.work`)."""

    text: int = MAX_TEXT
    """How many characters of a text are read."""
    pairs: int = MOST_PAIRS
    """How many rows a unit may have after a join."""
    checked: frozenset[int] = frozenset()
    """The joins with public tables, by their number, in which a unit might have more."""


UNBOUNDED = Bounds()
"""For public tables, which have no units."""


class Catalogue(NamedTuple):
    """Where tables are in the engine, and in which types it stores their columns."""

    schema: Schema
    tables: Mapping[str, str | Select]
    """The engine's name of each table, or the query by which it is read."""
    types: Mapping[str, Mapping[str, str]]
    """The engine's type of each stored column, by table."""
    dialect: Dialect = DUCKDB
    """How the engine spells SQL."""

    def stored(self, table: str, column_: str) -> str:
        """Return the engine's type of a stored column."""
        types = self.types.get(table, {})
        if column_ not in types:
            raise UnplannableError(f"table {table!r} has no stored column {column_!r}; correct the policy")
        return types[column_]

    def check_formats(self) -> None:
        """Refuse formats of dates for columns that are neither texts nor dates: all their cells would be NULL."""
        for table, described in self.schema.tables.items():
            for label, type_ in described.columns.items():
                stored = self.types.get(table, {}).get(label, "VARCHAR")
                if type_.format and not stored.startswith(("VARCHAR", "DATE", "TIMESTAMP")):
                    raise SourceError(
                        f"column {label!r} of table {table!r} has the format {type_.format!r} of dates in texts, but "
                        f"its type is {stored}; leave the format out, or store the dates as texts",
                        table=table,
                    )


class RelationWriter:
    """Writes one question's relations."""

    def __init__(
        self,
        catalogue: Catalogue,
        wanted: frozenset[str] | None = None,
        *,
        loose: frozenset[str] = frozenset(),
        indexed: frozenset[str] = frozenset(),
        bounds: Bounds = UNBOUNDED,
    ) -> None:
        self._catalogue = catalogue
        self._bounds = bounds
        self._wanted = wanted
        """The columns that are read; None for all."""
        self._loose = loose
        """Texts with declared values that are enforced later, by a lookup of keys."""
        self._indexed = indexed
        """Numbers that are also wanted as integers on their declared grid, under the name `index_of`."""
        self._unit_type = unit_type(catalogue)
        self._scans = 0
        self._joins = 0
        self.texts = 0
        """The number of texts that are read without declared values."""
        self.counted = 0
        """In how many joins the rows of every unit are counted."""
        self.carried = 0
        """The characters of text that a counted join holds for every row."""

    def write(self, relation: Relation, *, alone: bool = False) -> RelationQuery:
        """Return the SELECT of a relation; ``alone`` says that no unit is needed above."""
        match relation:
            case Scan():
                return self._scan(relation, alone=alone)
            case Filter():
                return self._filter(relation, alone=alone)
            case Project():
                return self._project(relation, alone=alone)
            case Join():
                return self._join(relation)
            case UnionAll():
                return self._union(relation, alone=alone)
            case PerUnit():
                return self._per_unit(relation, alone=alone)
            case WithWindows():
                return self._with_windows(relation)
            case Constants():
                return _constants(relation)

    def _filter(self, relation: Filter, *, alone: bool) -> RelationQuery:
        source = self.write(relation.source, alone=alone)
        wider, (test,) = computed_once(source, [relation.condition])
        query = select([EVERYTHING], wider.query).where(condition(test, in_place(wider.columns)))
        if wider is source:
            return replace(source, query=query)
        # what was computed for the condition alone is not carried on
        columns = {label: wider.columns[label] for label in source.columns}
        names = [value.sql for value in columns.values()]
        return replace(
            wider, query=query.showing([column(UNIT, "t"), *names] if wider.unit else names), columns=columns
        )

    def _project(self, relation: Project, *, alone: bool) -> RelationQuery:
        source = self.write(relation.source, alone=alone)
        labels = [label for label, _ in relation.columns]
        source, values = computed_once(source, [value for _, value in relation.columns])
        places, cells = in_place(source.columns), {}
        for label, value in zip(labels, values, strict=True):
            cells[label] = replace(value_of(value, source.columns), inlined=value_of(value, places).sql.cost)
        return wrapped_in(source, cells)

    def _scan(self, relation: Scan, *, alone: bool) -> RelationQuery:
        schema, stored_table = self._catalogue.schema, self._catalogue.tables[relation.table]
        table = schema.tables[relation.table]
        stored = {}
        for label, source, type_ in relation.columns:
            physical = self._catalogue.stored(relation.table, source)
            if self._wanted is None or label in self._wanted:
                promised, longest = type_, self._bounds.text
                if label in self._loose and type_.values is not None:
                    # a character more than the longest value has: a longer text is none of them, and cut it is none
                    words = [len(value) for value in type_.values if isinstance(value, str)]
                    promised, longest = replace(type_, values=None), max(words, default=0) + 1
                self.texts += type_.kind is Kind.TEXT and type_.values is None and not relation.public
                stored[label] = force(column(source, "s"), physical, promised, longest)
            if label in self._indexed:
                index = force_index(column(source, "s"), physical, type_)
                if index is not None:
                    stored[index_of(label)] = index
        query = select([], read(stored_table, "s"))
        unit: Scalar | None = None
        if not relation.public and not alone:
            if table.unit is None:
                # a number that tells rows apart, never used to order anything: that of the scan is in the low 20 bits
                self._scans += 1
                unit = call("row_id").cast("HUGEINT") * 2**20 + self._scans
            else:
                query, unit = self._owned(query, "s", relation.table, table.unit)
                # a row without a unit is nobody's, and no limit of a unit would bound what it adds
                query = query.where(unit.not_null())
        return finish(query, {label: _inlined(value) for label, value in stored.items()}, unit)

    def _owned(self, query: Select, holder: str, table: str, path: UnitPath) -> tuple[Select, Scalar]:
        """Return the rows of a table, and the unit of each where a path leads to it.

        Of the table that a path goes through, each key is taken once for each of its units. A key that is not unique
        would give a unit a row for every pair, which nothing bounds; so no unit has more rows than the table stores.
        """
        if not path.hops:
            unit, physical = column(path.column, holder), self._catalogue.stored(table, path.column)
            return query, unit if self._unit_type is not None else identity_text(unit, physical)
        hop, *further = path.hops
        types = self._catalogue.stored(table, hop.column), self._catalogue.stored(hop.table, hop.key)
        sides: list[Scalar] = [column(hop.column, holder), column(hop.key, "s")]
        # of different types both are compared as texts: no cast of one to the other can fail
        if types[0] != types[1]:
            sides = [identity_text(side, physical) for side, physical in zip(sides, types, strict=True)]
        through = select([], read(self._catalogue.tables[hop.table], "s"))
        through, owner = self._owned(through, "s", hop.table, replace(path, hops=tuple(further)))
        owners = through.where(owner.not_null()).showing([sides[1].alias("k"), owner.alias(UNIT)])
        owners = replace(owners, distinct=True)
        query = query.joined(Subquery((owners,), "h"), "inner", sides[0].equals(column("k", "h")))
        return query, column(UNIT, "h")

    def _join(self, relation: Join) -> RelationQuery:
        number = self._joins
        self._joins += 1
        left, right = self.write(relation.left), self.write(relation.right)
        columns_left = {label: _at(value, "l") for label, value in left.columns.items()}
        columns_right = {label: _at(value, "r") for label, value in right.columns.items()}
        tests = []
        if left.unit and right.unit:
            # rows of two units never meet, so a joined row belongs to one unit
            tests.append(column(UNIT, "l").equals(column(UNIT, "r")))
        for first, second in relation.on:
            tests.append(_equal(value_of(first, columns_left), value_of(second, columns_right)))
        together = {**columns_left, **columns_right}
        if relation.where is not None:
            tests.append(condition(relation.where, in_place(together)))
        kind = relation.kind.value
        # it keeps rows by more than equalities, so that pairs have to be looked at
        looks_up = not relation.kind.widens and relation.where is not None and self._catalogue.dialect.looks_up
        # the rows that it keeps would be public ones, which have no unit
        if kind != "inner" and not left.unit and right.unit:
            raise UnplannableError(f"a {kind.upper()} JOIN needs its private side on the left; swap the tables")
        if (left.unit and right.unit) or number in self._bounds.checked:
            query = self._within_units(left, right, relation, both(tests), looks_up=looks_up)
        else:
            sides = Subquery((left.query,), "l"), Subquery((right.query,), "r")
            if looks_up:
                query = _looked_up(*sides, kind, both(tests), f"numbered_{number}")
            else:
                query = select([], sides[0]).joined(sides[1], kind, both(tests))
        unit = column(UNIT, "l") if left.unit else column(UNIT, "r") if right.unit else None
        if not relation.kind.widens:
            together = columns_left
        return finish(query, together, unit)

    def _within_units(
        self, left: RelationQuery, right: RelationQuery, relation: Join, on: Scalar, *, looks_up: bool
    ) -> Select:
        """Return a join without units that would have too many rows after it; at least one side is private.

        A unit with many rows is left out before its rows are paired, so that the work, too, is bounded for each unit:
        whether a question is answered must not depend on one of them. Its pairs are those with equal keys, from how
        often each key occurs on either side. Both sides are computed once.

        The rows of the units that stay are a table of their own: engines move an anti join behind an inner one that
        they expect to make few rows, and then all pairs of a heavy unit would be made before it is left out.
        """
        self.counted += 1
        kind = relation.kind.value
        owned, looked_at = (left, right) if left.unit else (right, left)
        # half of what a join holds for each row, since `hush.engines.work` counts two copies: both sides, those rows of
        # the private side that stay, and the side that it looks up
        mine, theirs = _characters(owned), _characters(looked_at)
        self.carried = max(self.carried, -(-(2 * mine + theirs + max(mine, theirs)) // 2))
        sides = [f"left_{self.counted}", f"right_{self.counted}"]

        def counted(side: str, source: RelationQuery, on_: Sequence[Expression], as_: str) -> tuple[From, list[Value]]:
            columns = {label: _at(value, "t") for label, value in source.columns.items()}
            values = [value_of(expression, columns) for expression in on_]
            cells = [value.sql.alias(f"j{index}") for index, value in enumerate(values)]
            unit = [column(UNIT, "t")] if source.unit else []
            counting = select([*unit, *cells, count().alias("n")], read(side, "t", rows_of(source.query)))
            query = counting.grouped([*unit, *(value.sql for value in values)])
            return Subquery((query,), as_), [
                replace(value, sql=column(f"j{index}", as_)) for index, value in enumerate(values)
            ]

        left_counts, first = counted(sides[0], left, [key for key, _ in relation.on], "a")
        right_counts, second = counted(sides[1], right, [key for _, key in relation.on], "b")
        owner, side_alias = ("a", "l") if left.unit else ("b", "r")
        tests = [column(UNIT, "a").equals(column(UNIT, "b"))] if left.unit and right.unit else []
        tests += [_equal(mine, theirs) for mine, theirs in zip(first, second, strict=True)]
        heavy = select([column(UNIT, owner)], left_counts).joined(right_counts, "inner", both(tests))
        # in 128 bits, since the product of two counts may be larger than 64 hold
        pairs = summed(column("n", "a").cast("HUGEINT") * column("n", "b"), wide=True)
        heavy = heavy.grouped([column(UNIT, owner)], having=pairs > self._bounds.pairs)
        apart = column(UNIT, side_alias).equals(column(UNIT, "heavy"))
        places, names = (sides, "lr") if left.unit else (sides[::-1], "rl")  # a left join has its private side there
        light = select([Star(side_alias)], read(places[0], side_alias, rows_of(owned.query)))
        light = light.joined(Subquery((heavy,), "heavy"), "anti", apart)
        label, looked = f"light_{self.counted}", None
        query = select([], read(label, names[0]))
        if looks_up:
            looked = _looked_up(read(label, "l"), read(places[1], "r"), kind, on, f"counted_{self.counted}")
            query = replace(looked, before=())
        else:
            query = query.joined(read(places[1], names[1]), kind, on)
        for side, source in zip(sides, (left, right), strict=True):
            query = query.with_before(side, source.query)
        query = query.with_before(label, light)
        return query if looked is None else replace(query, before=(*query.before, *looked.before))

    def _union(self, relation: UnionAll, *, alone: bool) -> RelationQuery:
        sources = [self.write(source, alone=alone) for source in relation.sources]
        cells: dict[str, list[Value]] = {}
        for label, type_ in relation.columns:
            alike_values = alike([source.columns[label] for source in sources])
            form = SQL_TYPES[type_.kind]
            if type_.kind.numeric and alike_values[0].form in WHOLE:  # all are alike
                form = alike_values[0].form
            elif form is SqlType.INTEGER:
                form = SqlType.DOUBLE
            cells[label] = [_as(value, form) for value in alike_values]
        parts = [
            wrapped_in(source, {label: values[index] for label, values in cells.items()})
            for index, source in enumerate(sources)
        ]
        outer = {label: hull(value.sql, cells[label]) for label, value in parts[0].columns.items()}
        together = select([], Subquery(tuple(branch.query for branch in parts), "t"))
        for label, values in cells.items():
            places = zip(sources, values, strict=True)
            work = max(source.columns[label].inlined + value.sql.cost for source, value in places)
            outer[label] = replace(outer[label], inlined=work)
        return finish(together, outer, column(UNIT, "t") if parts[0].unit else None)

    def _with_windows(self, relation: WithWindows) -> RelationQuery:
        """Return rows with windows, which are always partitioned by the unit."""
        source = self.write(relation.source)
        self.carried = max(self.carried, 2 * _characters(source))
        unit = [column(UNIT, "t")] if source.unit else []
        # rows that tie in all columns are equal, so their order cannot show
        ties = [compared(value) for value in source.columns.values()]
        cells = {label: windowed(window_, source.columns, unit, ties) for label, window_ in relation.windows}
        rendered = wrapped_in(source, {**source.columns, **cells})
        forced = dict(rendered.columns)
        for label, window_ in relation.windows:
            forced[label] = _inlined(self._within(rendered.columns[label], window_.type))
        return wrapped_in(rendered, forced)

    def _per_unit(self, relation: PerUnit, *, alone: bool) -> RelationQuery:
        """One row a unit and combination of keys; sums run over grid integers, so no order of rows can matter."""
        source = self.write(relation.source)
        keys = {label: settled(value_of(value, source.columns)) for label, value in relation.keys}
        cells = dict(keys)
        for label, aggregate in relation.aggregates:
            cells[label] = exact(aggregate, source.columns)
        query = select([], source.query)
        unit = [column(UNIT, "t")] if source.unit else []
        rendered = finish(query, cells, None if alone or not unit else unit[0])
        groups = [*unit, *(key.sql for key in keys.values())]
        rendered = replace(rendered, query=rendered.query.grouped(groups))
        forced = dict(rendered.columns)
        for label, aggregate in relation.aggregates:
            forced[label] = self._within(rendered.columns[label], aggregate.type)
        places, forced = in_place(source.columns), {label: _inlined(value) for label, value in forced.items()}
        for label, value in relation.keys:  # a condition on an aggregate stays behind it, one on a key does not
            forced[label] = replace(forced[label], inlined=settled(value_of(value, places)).sql.cost)
        return wrapped_in(rendered, forced)

    def _within(self, value: Value, type_: Type) -> Value:
        """Return an aggregate of one unit's rows, forced into its type."""
        # it has ends of its own, and the type has none to clamp it to
        if value.form is SqlType.WIDE and not type_.bounded:
            return value
        within = force(value.sql, value.form.value, type_, self._bounds.text)
        return replace(within, scale=value.scale, single=value.single) if within.form is SqlType.DOUBLE else within


def _looked_up(rows: From, partners: From, kind: str, on: Scalar, label: str) -> Select:
    """Return the rows ``l`` with a partner in another source, or those without one, by numbers of rows.

    Engines err where SEMI and ANTI joins have conditions beside equalities: DuckDB 1.4 looks at one partner of several.
    So the pairs are made by an inner join, and rows are kept by a number that is given to them before.
    """
    numbered = select([Star("l"), call("row_id").alias("number")], rows)
    pairs = select([column("number", "l")], read(label, "l")).joined(partners, "inner", on)
    same_number = column("number", "l").equals(column("number", "p"))
    query = select([], read(label, "l")).joined(Subquery((replace(pairs, distinct=True),), "p"), kind, same_number)
    return query.with_before(label, numbered)


def _constants(relation: Constants) -> RelationQuery:
    """Return rows that the question writes out."""
    cells, columns = {}, []
    for index, (label, type_) in enumerate(relation.columns):
        values = [constant(row[index].value, type_) for row in relation.rows]
        if relation.awaits is not None and type_.kind.numeric:
            # a released number has one form, whole or not: none of them makes a statement that could be refused
            number = relation.rows[0][index].value
            values = [Value(Double(number) if isinstance(number, Fraction) else null("DOUBLE"), SqlType.DOUBLE)]
        alike_values = alike(values)
        wide = alike_values[0].form is SqlType.WIDE
        form = SqlType.WIDE if wide else SQL_TYPES[type_.kind]
        columns.append([_as(value, form).sql for value in alike_values])
        cell = hull(column(f"x{index}", "l"), [_as(value, form) for value in alike_values])
        cells[label] = cell if wide else replace(cell, within=None)
    names = tuple(f"x{index}" for index in range(len(columns)))
    return finish(select([], ConstantRows(tuple(zip(*columns, strict=True)), "l", names)), cells, None)


def _characters(source: RelationQuery) -> int:
    """Return how many characters of text a row has at most."""
    return sum(value.chars for value in source.columns.values() if value.form is SqlType.TEXT)


def unit_type(catalogue: Catalogue) -> str | None:
    """Return the one type in which all tables store their units, or None if they differ."""
    types = set()
    for table in catalogue.schema.tables.values():
        if table.unit is not None and not table.public:
            holder = table.unit.hops[-1].table if table.unit.hops else table.name
            types.add(catalogue.types.get(holder, {}).get(table.unit.column))
    return types.pop() if len(types) == 1 else None


def shared_key_counts(catalogue: Catalogue, table: str) -> list[Select]:
    """Return queries that count the keys of a table that lead to several units, or to several rows on the way there.

    Other tables find their unit by these keys (``via``). A row behind a key of several units counts for each of them,
    which no declared bound covers.
    """
    paths = [described.unit for described in catalogue.schema.tables.values() if described.unit is not None]
    leads = {
        (hop.key, path.hops[step].column if step < len(path.hops) else path.column)
        for path in paths
        for step, hop in enumerate(path.hops, 1)
        if hop.table == table
    }
    queries = []
    for key, onwards in sorted(leads):
        if not {key, onwards} <= catalogue.types[table].keys():
            continue  # reported as a column that is missing
        units = call("count", column(onwards, "t").distinct())
        rows = select([integer(1).alias("n")], read(catalogue.tables[table], "t")).where(column(key, "t").not_null())
        shared = rows.grouped([column(key, "t")], having=units > 1)
        queries.append(select([count()], shared))
    return queries


def identity_text(value: Scalar, physical: str) -> Scalar:
    """Return an identifier as text that does not depend on its stored type: 7 and 7.0 are one unit, not two."""
    plain = value.try_cast("VARCHAR", physical)
    if physical not in FLOATS and not physical.startswith("DECIMAL"):
        return plain
    rounded = value.try_cast("BIGINT", physical)
    is_whole = rounded.try_cast("DOUBLE", "BIGINT").equals(value.try_cast("DOUBLE", physical))
    return case((is_whole, rounded.try_cast("VARCHAR", "BIGINT")), otherwise=plain)


def index_of(label: str) -> OwnName:
    """Return the name of the column that carries another's integer on its grid."""
    return OwnName(f"index {label}")


def _inlined(value: Value) -> Value:
    """Return a value that costs as a column what it costs itself."""
    return replace(value, inlined=value.sql.cost)


def _at(value: Value, table: str) -> Value:
    """Return an outside column under another alias."""
    assert isinstance(value.sql, ColumnName)  # noqa: S101 - outside columns are plain columns
    return replace(value, sql=column(value.sql.name, table))


def _as(value: Value, form: SqlType) -> Value:
    value = value.finite()
    if value.form is form:
        return replace(value, literal=None)
    if form is SqlType.DOUBLE and value.form in WHOLE:
        return value.double()
    return value.to(form)


def _equal(left: Value, right: Value) -> Scalar:
    left, right = left.finite(), right.finite()
    if left.form is not right.form:
        forms = {left.form, right.form}
        if forms <= WHOLE:
            left, right = left.wide(), right.wide()
        elif forms <= {*WHOLE, SqlType.DOUBLE}:
            left, right = left.double(), right.double()
        else:
            left, right = (side.to(SqlType.TEXT) for side in (left, right))
    equal = left.sql.equals(right.sql)
    return equal.costing(MADE * (left.chars + right.chars)) if left.form is SqlType.TEXT else equal


# exact aggregates and windows over the rows of one unit

_ROWS = (0, 2**53)
# decimals are counted in their own last digit below this, and a finer grid is safe below the next
_INDICES = 2**51
_BITS = 79


def settled(value: Value) -> Value:
    """Return a value fit to group by: finite, and without a negative zero."""
    value = value.finite()
    return replace(value, sql=value.sql + Double(0)) if value.form is SqlType.DOUBLE else value


def exact(
    aggregate: ExactAggregate, columns: Mapping[str, Value], over: Callable[[str, Scalar], Scalar] = call
) -> Value:
    """Return an exact aggregate of one unit's rows in a group, or over the window that ``over`` makes."""
    if aggregate.argument is None:
        return Value(count() if over is call else over("count", integer(1)), SqlType.INTEGER, within=_ROWS)
    # NaN must be NULL before it is counted or compared, and -0.0 must not be a value beside 0.0
    value = settled(value_of(aggregate.argument, columns))
    match aggregate.kind:
        case ExactKind.COUNT:
            return Value(over("count", value.sql), SqlType.INTEGER, within=_ROWS)
        case ExactKind.COUNT_DISTINCT:
            return Value(over("count", value.sql.distinct()), SqlType.INTEGER, within=_ROWS)
        case ExactKind.MIN:
            return replace(value, sql=over("min", value.sql))
        case ExactKind.MAX:
            return replace(value, sql=over("max", value.sql))
        case ExactKind.SUM | ExactKind.AVG:
            index, step = _exact_index(aggregate.argument, value)
            ends = _whole_ends(aggregate.argument, value)
            if ends is not None and aggregate.kind is ExactKind.SUM:
                return Value(over("sum", index).cast("HUGEINT"), SqlType.WIDE, within=ends)
            summed = over("sum", index).cast("DOUBLE")
            scale = value.double().scale
            if aggregate.kind is ExactKind.AVG:
                row_count = over("count", index)
                # without a summand the average is NULL, and nothing is divided by zero
                summed = case((row_count > 0, summed / row_count.cast("DOUBLE")))
                # a quotient has no fixed number of digits
                scale = None
            return Value(unscaled(summed, step), SqlType.DOUBLE, scale=scale)


def _whole_ends(expression: Expression, value: Value) -> tuple[int, int] | None:
    """Return the ends of a sum of one unit's whole numbers; None if they are not summed as whole numbers."""
    lower, upper, step = line(expression.type, expression)
    if value.form not in WHOLE or step.denominator != 1:
        return None
    # there may be any number of rows, so a positive least value, or a negative greatest one, counts as 0
    ends = (min(math.ceil(lower), 0) * _ROWS[1], max(math.floor(upper), 0) * _ROWS[1])
    return ends if max(map(abs, ends)) <= WIDEST else None


def _exact_index(expression: Expression, value: Value) -> tuple[Scalar, Fraction]:
    """Return a value as a whole number of steps, and the step: one unit's values are added up exactly.

    Nothing is released here, so the grid need not be coarse. Decimals count in their own last digit, floats without a
    declared step in a power of two that leaves 80 bits below the largest: 2⁴⁷ of those fit into 128 bits.
    """
    type_ = expression.type
    lower, upper, step = line(type_, expression)
    greatest = max(abs(lower), abs(upper))
    if _whole_ends(expression, value) is not None:
        first, last = math.ceil(lower), math.floor(upper)
        if first <= value.ends[0] and value.ends[1] <= last:
            return value.sql, Fraction(1)
        return value.wide().sql.clamped(*(huge(end) for end in (first, last))), Fraction(1)
    if value.form is not SqlType.DOUBLE or type_.step is not None:
        factor = Factor.raw(expression)
        return grid_index(value, factor), factor.step
    if value.scale is not None and greatest * 10**value.scale < _INDICES:
        step = Fraction(1, 10**value.scale)
        factor = Factor.raw(Column("", replace(type_, step=step)))
        return grid_index(value, factor), factor.step
    if greatest:  # the first power of two that leaves so many bits; where nothing but 0 can be, any step will do
        step /= 2 ** (math.ceil(step * 2**_BITS / greatest) - 1).bit_length()
    ends = (Double(math.floor(lower / step)), Double(math.ceil(upper / step)))
    return scaled(value.finite().sql, step, value.greatest).clamped(*ends).cast("HUGEINT", "DOUBLE"), step


_FRAMED = 10
"""Nanoseconds for each row of a frame that an engine adds up anew."""
_NUMBERS = {WindowKind.ROW_NUMBER, WindowKind.RANK, WindowKind.DENSE_RANK}
_BY_PLACE = {WindowKind.ROW_NUMBER, WindowKind.LAG, WindowKind.LEAD, WindowKind.FIRST_VALUE}
"""Windows that depend on the place of a row: ties in their order are broken by all columns."""


def compared(value: Value) -> Scalar:
    """Return a value to sort by, with the cost of comparing it: a text is compared character by character."""
    return value.sql.costing(MADE * value.chars) if value.form is SqlType.TEXT else value.sql


def windowed(window_: OwnWindow, columns: Mapping[str, Value], unit: Sequence[Scalar], ties: Sequence[Scalar]) -> Value:
    """Return a window over the rows of one unit."""
    partition = [*unit, *(compared(settled(value_of(expression, columns))) for expression in window_.partition)]
    keys = [(order, compared(settled(value_of(order.by, columns)))) for order in window_.order]
    order: list[Scalar] = [Operation(DIRECTIONS[o.descending, o.nulls_first], (key,)) for o, key in keys]
    frame = None if window_.frame is None else (window_.frame.first, window_.frame.last)
    # a frame of rows may end between two that tie, so there, too, the result depends on their order
    if window_.kind in _BY_PLACE or (frame not in {None, (None, None)}):
        order += ties
    kind = window_.kind
    if kind in _NUMBERS:
        return Value(window(kind.value, partition, order), SqlType.INTEGER, within=(1, 2**53))
    if kind in _BY_PLACE:
        assert window_.argument is not None  # noqa: S101 - all but ROW_NUMBER have one
        value = settled(value_of(window_.argument, columns))
        offset = [] if kind is WindowKind.FIRST_VALUE else [integer(window_.offset)]
        result = window(kind.value, partition, order, value.sql, *offset)
        # LAG and LEAD of a constant are NULL at an end of the partition: it is no constant any more
        return replace(value, sql=result, literal=None)
    aggregate = ExactAggregate(kind=ExactKind[kind.name], argument=window_.argument, type=window_.type)
    frame_clause = (
        "" if frame is None else f"ROWS BETWEEN {_end(frame[0], 'PRECEDING')} AND {_end(frame[1], 'FOLLOWING')}"
    )
    value = exact(aggregate, columns, lambda f, argument: window(f, partition, order, argument, frame=frame_clause))
    if frame is None or frame[0] is None or frame[1] is None:
        return value
    return replace(value, sql=value.sql.costing(_FRAMED * (frame[1] - frame[0] + 1)))


def _end(rows: int | None, way: str) -> str:
    """Return one end of a frame: rows relative to the current one, or UNBOUNDED in a direction."""
    if rows is None:
        return f"UNBOUNDED {way}"
    if not rows:
        return "CURRENT ROW"
    return f"{abs(rows)} {'PRECEDING' if rows < 0 else 'FOLLOWING'}"
