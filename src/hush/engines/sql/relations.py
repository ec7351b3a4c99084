"""Relations as SELECTs that carry the unit along, and expressions over them that are computed once.

Each relation has the columns c0, c1, … and, if the question needs it, the unit u. A unit is read where its table is
read, following the foreign keys; rows without one are dropped there. Units of tables that store them in different types
are compared as text, so that no value can make a comparison fail.

Engines put the expression of a column in place of its name, wherever a condition over a subquery names it (filter
pushdown): an expression that is written once may be computed many times. So a column's cost in conditions is that of
its expression (`RelationQuery.in_place`), through all subqueries; and an expensive expression that is needed more than
once becomes a column that no condition is put through (`Dialect.apart`).

>>> from hush.engines.sql.dialect import DUCKDB
>>> from hush.engines.sql.nodes import read
>>> from hush.engines.sql.render import render
>>> cells = {"age": Value(column("age", "s"), SqlType.INTEGER)}
>>> render(finish(select([], read("people", "s")), cells, column("id", "s")).query, DUCKDB).text
'SELECT "s"."id" AS "u", "s"."age" AS "c0" FROM "people" AS "s"'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from hush.engines.errors import SourceError
from hush.engines.sql.cost import cost, rows_of
from hush.engines.sql.dialect import DUCKDB, Dialect
from hush.engines.sql.forcing import force, force_index
from hush.engines.sql.grid import compared, exact, settled, windowed
from hush.engines.sql.nodes import (
    EVERYTHING,
    MADE,
    ArrayOf,
    ColumnName,
    ConstantRows,
    Costed,
    DistinctArgument,
    From,
    Named,
    Scalar,
    Select,
    Star,
    Subquery,
    Union,
    alias,
    binary,
    both,
    call,
    case,
    cast,
    column,
    costing,
    count,
    double,
    grouped,
    integer,
    joined,
    not_null,
    null,
    primitive,
    read,
    select,
    summed,
    try_cast,
    where,
    with_before,
)
from hush.engines.sql.scalars import condition, value_of
from hush.engines.sql.values import MAX_TEXT, SQL_TYPES, WHOLE, OwnName, SqlType, Value, alike, constant, hull
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Column, Expression, Op, pieces, substituted
from hush.query.relations import (
    Constants,
    Filter,
    Join,
    PerUnit,
    Project,
    Relation,
    Scan,
    UnionAll,
    WithWindows,
    relations_in,
    window_expressions,
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
    inlined: Mapping[str, int] = field(default_factory=dict)
    """Nanoseconds that a column takes where the engine puts its expression in place of its name, as in conditions."""

    @property
    def in_place(self) -> Mapping[str, Value]:
        """The columns, with the cost that they have in a condition."""
        return priced(self.columns, self.inlined)


def finish(query: Select, cells: Mapping[str, Value], unit: Scalar | None) -> RelationQuery:
    """Name the cells c0, c1, … and return the relation with these columns."""
    columns: list[Named] = []
    if unit is not None:
        columns.append(alias(unit, UNIT))
    outside = {}
    for index, (label, value) in enumerate(cells.items()):
        columns.append(alias(value.sql, f"c{index}"))
        outside[label] = replace(value, sql=column(f"c{index}", "t"))
    # a SELECT needs a column, also where nothing but its rows counts
    if not columns:
        columns.append(alias(integer(1), "c0"))
    return RelationQuery(query.showing(columns), outside, unit is not None)


def staged(source: RelationQuery, expressions: Iterable[Expression]) -> tuple[RelationQuery, dict[Expression, Value]]:
    """Compute expressions once, as columns of their own, so that statements that name them stay short."""
    items = list(dict.fromkeys(expressions))
    source, simpler = computed_once(source, items)
    values = {expression: value_of(value, source.columns) for expression, value in zip(items, simpler, strict=True)}
    # a column's name is short already, and needs no place of its own
    plain = {expression: value for expression, value in values.items() if isinstance(value.sql, ColumnName)}
    longer = {
        OwnName(f"expression {index}"): expression for index, expression in enumerate(values) if expression not in plain
    }
    if not longer:
        return source, plain
    cells = dict(source.columns)
    for label, expression in longer.items():
        cells[label] = _apart(values[expression]) if cost(values[expression].sql) > _DEAR else values[expression]
    wrapped = wrapped_in(source, cells)
    staged_values = {expression: wrapped.columns[label] for label, expression in longer.items()}
    for expression in plain:
        staged_values[expression] = value_of(expression, wrapped.columns)
    return wrapped, staged_values


def computed_once(source: RelationQuery, expressions: Sequence[Expression]) -> tuple[RelationQuery, list[Expression]]:
    """Return a relation with columns for repeated parts of expressions, and the expressions over these columns.

    These are texts, such as LOWER(t) in many ILIKE, what CLIP moves into its bounds, and columns that the engine would
    compute wherever a condition names them; if they are dear.
    """
    source, expressions = _with_columns(source, expressions, repeated_texts(expressions))
    return _with_columns(source, expressions, clipped(expressions))


def _with_columns(
    source: RelationQuery, expressions: Sequence[Expression], calls: Sequence[Call]
) -> tuple[RelationQuery, list[Expression]]:
    values = {piece: value_of(piece, source.columns) for piece in calls}
    values = {piece: value for piece, value in values.items() if cost(value.sql) > _DEAR}
    names = (OwnName(f"computed {len(source.columns) + number}") for number in range(len(values)))
    replacements = {piece: Column(name, piece.type) for piece, name in zip(values, names, strict=True)}
    simpler = [with_known(expression, replacements) for expression in expressions]
    often = Counter(label for expression in simpler for label in names_in(expression))
    dear = {label for label, work in source.inlined.items() if work > _DEAR and often[label] > 1}
    if not replacements and not dear:
        return source, simpler
    cells = {label: _apart(value) if label in dear else value for label, value in source.columns.items()}
    cells |= {name.name: _apart(values[piece]) for piece, name in replacements.items()}
    inlined = {label: 0 if label in dear else work for label, work in source.inlined.items()}
    return replace(wrapped_in(source, cells), inlined=inlined), simpler


def _apart(value: Value) -> Value:
    return replace(
        value, sql=costing(primitive("apart", value.sql), MADE * value.chars if value.form is SqlType.TEXT else 0)
    )


def works_of(cells: Mapping[str, Value]) -> dict[str, int]:
    """Return the cost of each cell."""
    return {label: cost(value.sql) for label, value in cells.items()}


def priced(columns: Mapping[str, Value], inlined: Mapping[str, int]) -> Mapping[str, Value]:
    """Return columns with the cost of their expressions, which the engine may put in place of their names."""
    return {
        label: replace(value, sql=Costed(value.sql, inlined.get(label, 0), only=True))
        for label, value in columns.items()
    }


def wrapped_in(source: RelationQuery, cells: Mapping[str, Value]) -> RelationQuery:
    """Return a SELECT from a relation, with other columns."""
    return finish(select([], source.query), cells, column(UNIT, "t") if source.unit else None)


def referenced(relation: Relation) -> Iterator[Expression]:
    """Yield every expression that a relation evaluates, and those of the relations that it is made of."""
    for inner in relations_in(relation):
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
                    yield from window_expressions(window)
            case PerUnit():
                yield from (value for _, value in inner.keys)
                yield from (aggregate.argument for _, aggregate in inner.aggregates if aggregate.argument is not None)


def names_in(expression: Expression) -> Iterator[str]:
    """Yield the names of the columns that an expression reads."""
    return (piece.name for piece in pieces(expression) if isinstance(piece, Column))


def repeated_texts(expressions: Iterable[Expression]) -> list[Call]:
    """Return the texts that expressions compute more than once, without those inside of larger ones."""
    roots = list(expressions)
    often = Counter(piece for expression in roots for piece in pieces(expression))

    def largest(expression: Expression) -> Iterator[Call]:
        if not isinstance(expression, Call):
            return
        text = expression.type.kind is Kind.TEXT and any(True for _ in names_in(expression))
        if text and often[expression] > 1:
            yield expression
            return
        for argument in expression.arguments:
            yield from largest(argument)

    return list(dict.fromkeys(call for expression in roots for call in largest(expression)))


def clipped(expressions: Iterable[Expression]) -> list[Call]:
    """Return the arguments of CLIP, which are named three times: in two comparisons and as the result."""
    calls = [
        piece
        for expression in expressions
        for piece in pieces(expression)
        if isinstance(piece, Call) and piece.op is Op.CLIP
    ]
    return list(dict.fromkeys(call.arguments[0] for call in calls if isinstance(call.arguments[0], Call)))


def with_known(expression: Expression, replacements: Mapping[Call, Column]) -> Expression:
    """Return an expression with columns in place of calls."""
    if not replacements:
        return expression
    return substituted(expression, lambda piece: replacements.get(piece) if isinstance(piece, Call) else None)


MOST_PAIRS = 10**6
"""The most rows of a unit after a join; a unit with more is left out. Fewer, where a row costs much."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the work for one unit's rows (`hush.engines.work`)."""

    text: int = MAX_TEXT
    """How many characters of a text are read."""
    pairs: int = MOST_PAIRS
    """How many rows a unit may have after a join."""
    checked: frozenset[int] = frozenset()
    """The joins with public tables, by their number, in which a unit might have more."""


UNBOUNDED = Bounds()
"""For public tables, which have no units."""


@dataclass(frozen=True, slots=True)
class Catalogue:
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
                return _constants(relation, self._catalogue.dialect)

    def _filter(self, relation: Filter, *, alone: bool) -> RelationQuery:
        source = self.write(relation.source, alone=alone)
        wider, (test,) = computed_once(source, [relation.condition])
        query = where(select([EVERYTHING], wider.query), condition(test, wider.in_place))
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
        places = source.in_place
        inlined = {label: cost(value_of(value, places).sql) for label, value in zip(labels, values, strict=True)}
        cells = {label: value_of(value, source.columns) for label, value in zip(labels, values, strict=True)}
        return replace(wrapped_in(source, cells), inlined=inlined)

    def _scan(self, relation: Scan, *, alone: bool) -> RelationQuery:
        schema, stored_table = self._catalogue.schema, self._catalogue.tables[relation.table]
        table = schema.tables[relation.table]
        stored = {}
        for label, source, type_ in relation.columns:
            physical = self._catalogue.stored(relation.table, source)
            if self._wanted is None or label in self._wanted:
                promised = replace(type_, values=None) if label in self._loose else type_
                self.texts += type_.kind is Kind.TEXT and type_.values is None and not relation.public
                stored[label] = force(column(source, "s"), physical, promised, self._bounds.text)
            if label in self._indexed:
                index = force_index(column(source, "s"), physical, type_)
                if index is not None:
                    stored[index_of(label)] = index
        query = select([], read(stored_table, "s"))
        unit: Scalar | None = None
        if not relation.public and not alone:
            if table.unit is None:
                unit = self._numbered()
            else:
                query, unit = self._owned(query, "s", relation.table, table.unit)
                # a row without a unit is nobody's, and no limit of a unit would bound what it adds
                query = where(query, not_null(unit))
        return replace(finish(query, stored, unit), inlined=works_of(stored))

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
        owners = where(through, not_null(owner)).showing([alias(sides[1], "k"), alias(owner, UNIT)])
        owners = replace(owners, distinct=True)
        query = joined(query, Subquery(owners, "h"), "inner", binary("=", sides[0], column("k", "h")))
        return query, column(UNIT, "h")

    def _numbered(self) -> Scalar:
        """Return a number that tells rows apart, within a table and between tables; never used to order anything."""
        self._scans += 1
        number = primitive("row_number")
        # the number of the scan, in the low 20 bits, keeps rows of two scans apart
        return cast(number, "HUGEINT") * 2**20 + self._scans

    def _join(self, relation: Join) -> RelationQuery:
        number = self._joins
        self._joins += 1
        left, right = self.write(relation.left), self.write(relation.right)
        columns_left = {label: _at(value, "l") for label, value in left.columns.items()}
        columns_right = {label: _at(value, "r") for label, value in right.columns.items()}
        tests = []
        if left.unit and right.unit:
            # rows of two units never meet, so a joined row belongs to one unit
            tests.append(binary("=", column(UNIT, "l"), column(UNIT, "r")))
        for first, second in relation.on:
            tests.append(_equal(value_of(first, columns_left), value_of(second, columns_right)))
        together = {**columns_left, **columns_right}
        inlined = {**left.inlined, **right.inlined}
        if relation.where is not None:
            tests.append(condition(relation.where, priced(together, inlined)))
        kind = relation.kind.value
        # the rows that it keeps would be public ones, which have no unit
        if kind != "inner" and not left.unit and right.unit:
            raise UnplannableError(f"a {kind.upper()} JOIN needs its private side on the left; swap the tables")
        if (left.unit and right.unit) or number in self._bounds.checked:
            query = self._within_units(left, right, relation, both(tests))
        else:
            sides = Subquery(left.query, "l"), Subquery(right.query, "r")
            if _looks_up(relation, self._catalogue.dialect):
                query = _looked_up(*sides, kind, both(tests), f"numbered_{number}")
            else:
                query = joined(select([], sides[0]), sides[1], kind, both(tests))
        unit = column(UNIT, "l") if left.unit else column(UNIT, "r") if right.unit else None
        if not relation.kind.widens:
            together, inlined = columns_left, dict(left.inlined)
        return replace(finish(query, together, unit), inlined=inlined)

    def _within_units(self, left: RelationQuery, right: RelationQuery, relation: Join, on: Scalar) -> Select:
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
        self.carried = max(self.carried, _held(_characters(owned), _characters(looked_at)))
        sides = [f"left_{self.counted}", f"right_{self.counted}"]

        def counted(side: str, source: RelationQuery, on_: Sequence[Expression], as_: str) -> tuple[From, list[Value]]:
            columns = {label: _at(value, "t") for label, value in source.columns.items()}
            values = [value_of(expression, columns) for expression in on_]
            cells = [alias(value.sql, f"j{index}") for index, value in enumerate(values)]
            unit = [column(UNIT, "t")] if source.unit else []
            counting = select([*unit, *cells, alias(count(), "n")], read(side, "t", rows_of(source.query)))
            query = grouped(counting, [*unit, *(value.sql for value in values)])
            return Subquery(query, as_), [
                replace(value, sql=column(f"j{index}", as_)) for index, value in enumerate(values)
            ]

        left_counts, first = counted(sides[0], left, [key for key, _ in relation.on], "a")
        right_counts, second = counted(sides[1], right, [key for _, key in relation.on], "b")
        owner, side_alias = ("a", "l") if left.unit else ("b", "r")
        tests = [binary("=", column(UNIT, "a"), column(UNIT, "b"))] if left.unit and right.unit else []
        tests += [_equal(mine, theirs) for mine, theirs in zip(first, second, strict=True)]
        heavy = joined(select([column(UNIT, owner)], left_counts), right_counts, "inner", both(tests))
        # in 128 bits, since the product of two counts may be larger than 64 hold
        pairs = summed(cast(column("n", "a"), "HUGEINT") * column("n", "b"), wide=True)
        heavy = grouped(heavy, [column(UNIT, owner)], having=pairs > self._bounds.pairs)
        apart = binary("=", column(UNIT, side_alias), column(UNIT, "heavy"))
        places, names = (sides, "lr") if left.unit else (sides[::-1], "rl")  # a left join has its private side there
        light = select([Star(side_alias)], read(places[0], side_alias, rows_of(owned.query)))
        light = joined(light, Subquery(heavy, "heavy"), "anti", apart)
        label, looked = f"light_{self.counted}", None
        query = select([], read(label, names[0]))
        if _looks_up(relation, self._catalogue.dialect):
            looked = _looked_up(read(label, "l"), read(places[1], "r"), kind, on, f"counted_{self.counted}")
            query = replace(looked, before=())
        else:
            query = joined(query, read(places[1], names[1]), kind, on)
        for side, source in zip(sides, (left, right), strict=True):
            query = with_before(query, side, source.query)
        query = with_before(query, label, light)
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
            finish(
                select([], source.query),
                {label: values[index] for label, values in cells.items()},
                column(UNIT, "t") if source.unit else None,
            )
            for index, source in enumerate(sources)
        ]
        outer = {label: hull(value.sql, cells[label]) for label, value in parts[0].columns.items()}
        together = select([], Union(tuple(branch.query for branch in parts), "t"))
        inlined = {
            label: max(source.inlined[label] + cost(value.sql) for source, value in zip(sources, values, strict=True))
            for label, values in cells.items()
        }
        result = finish(together, outer, column(UNIT, "t") if parts[0].unit else None)
        return replace(result, inlined=inlined)

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
            forced[label] = self._within(rendered.columns[label], window_.type)
        inlined = {**source.inlined, **{label: cost(forced[label].sql) for label in cells}}
        return replace(wrapped_in(rendered, forced), inlined=inlined)

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
        rendered = replace(rendered, query=grouped(rendered.query, groups))
        forced = dict(rendered.columns)
        for label, aggregate in relation.aggregates:
            forced[label] = self._within(rendered.columns[label], aggregate.type)
        places = source.in_place
        inlined = works_of(forced) | {
            label: cost(settled(value_of(value, places)).sql) for label, value in relation.keys
        }  # a condition on an aggregate stays behind it, one on a key does not
        return replace(wrapped_in(rendered, forced), inlined=inlined)

    def _within(self, value: Value, type_: Type) -> Value:
        """Return an aggregate of one unit's rows, forced into its type."""
        # it has ends of its own, and the type has none to clamp it to
        if value.form is SqlType.WIDE and not type_.bounded:
            return value
        within = force(value.sql, value.form.value, type_, self._bounds.text)
        return replace(within, scale=value.scale, single=value.single) if within.form is SqlType.DOUBLE else within


def _looks_up(relation: Join, dialect: Dialect) -> bool:
    """Return whether a join keeps rows by more than equalities, so that pairs have to be looked at."""
    return not relation.kind.widens and relation.where is not None and dialect.looks_up


def _looked_up(rows: From, partners: From, kind: str, on: Scalar, label: str) -> Select:
    """Return the rows ``l`` with a partner in another source, or those without one, by numbers of rows.

    Engines err where SEMI and ANTI joins have conditions beside equalities: DuckDB 1.4 looks at one partner of several.
    So the pairs are made by an inner join, and rows are kept by a number that is given to them before.
    """
    numbered = select([Star("l"), alias(primitive("row_number"), "number")], rows)
    pairs = joined(select([column("number", "l")], read(label, "l")), partners, "inner", on)
    same_number = binary("=", column("number", "l"), column("number", "p"))
    query = joined(select([], read(label, "l")), Subquery(replace(pairs, distinct=True), "p"), kind, same_number)
    return with_before(query, label, numbered)


def _constants(relation: Constants, dialect: Dialect) -> RelationQuery:
    """Return rows that the question writes out: one list for each column, read side by side, or row by row."""
    cells, columns = {}, []
    together = dialect.unnests_together
    for index, (label, type_) in enumerate(relation.columns):
        values = [constant(row[index].value, type_) for row in relation.rows]
        if relation.awaits is not None and type_.kind.numeric:
            # a released number has one form, whole or not: none of them makes a statement that could be refused
            number = relation.rows[0][index].value
            values = [Value(double(number) if isinstance(number, Fraction) else null("DOUBLE"), SqlType.DOUBLE)]
        alike_values = alike(values)
        wide = alike_values[0].form is SqlType.WIDE
        form = SqlType.WIDE if wide else SQL_TYPES[type_.kind]
        columns.append([_as(value, form).sql for value in alike_values])
        source = call("unnest", ArrayOf(tuple(columns[-1]))) if together else column(f"x{index}", "l")
        cell = hull(source, [_as(value, form) for value in alike_values])
        cells[label] = cell if wide else replace(cell, within=None)
    names = tuple(f"x{index}" for index in range(len(columns)))
    rows = None if together else ConstantRows(tuple(zip(*columns, strict=True)), "l", names)
    return replace(finish(select([], rows), cells, None), inlined=dict.fromkeys(cells, 0))


def _characters(source: RelationQuery) -> int:
    """Return how many characters of text a row has at most."""
    return sum(value.chars for value in source.columns.values() if value.form is SqlType.TEXT)


def _held(owned: int, second: int) -> int:
    """Return half of the characters that a join holds for each row: `hush.engines.work` counts two copies.

    A counted join holds both sides, those rows of the private side that stay, and the side that it looks up.
    """
    return -(-(2 * owned + second + max(owned, second)) // 2)


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
        units = call("count", DistinctArgument(column(onwards, "t")))
        rows = where(select([alias(integer(1), "n")], read(catalogue.tables[table], "t")), not_null(column(key, "t")))
        shared = grouped(rows, [column(key, "t")], having=units > 1)
        queries.append(select([count()], shared))
    return queries


def identity_text(value: Scalar, physical: str) -> Scalar:
    """Return an identifier as text that does not depend on its stored type: 7 and 7.0 are one unit, not two."""
    plain = try_cast(value, "VARCHAR", physical)
    if physical not in {"FLOAT", "DOUBLE"} and not physical.startswith("DECIMAL"):
        return plain
    rounded = try_cast(value, "BIGINT", physical)
    is_whole = binary("=", try_cast(rounded, "DOUBLE", "BIGINT"), try_cast(value, "DOUBLE", physical))
    return case((is_whole, try_cast(rounded, "VARCHAR", "BIGINT")), otherwise=plain)


def index_of(label: str) -> OwnName:
    """Return the name of the column that carries another's integer on its grid."""
    return OwnName(f"index {label}")


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
    equal = binary("=", left.sql, right.sql)
    return costing(equal, MADE * (left.chars + right.chars)) if left.form is SqlType.TEXT else equal
