"""Relations as SELECTs that carry the unit along.

Each rendered relation has the columns c0, c1, … and, if the question needs it, the unit u. A unit is read where its
table is read, following the foreign keys; rows without one are dropped there. Units of tables that store them in
different types are compared as text, so that no value can make a comparison fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hush.core.values import dataclass
from hush.engines.sql.build import (
    EVERYTHING,
    MADE,
    ColumnName,
    Sql,
    alias,
    array,
    binary,
    both,
    call,
    case,
    cast,
    column,
    constant_rows,
    costing,
    count,
    everything_of,
    integer,
    not_null,
    row_number,
    summed,
    try_cast,
)
from hush.engines.sql.dialect import dialect
from hush.engines.sql.expressions import condition, render
from hush.engines.sql.forcing import force, force_index
from hush.engines.sql.grid import compared, exact, settled, windowed
from hush.engines.sql.queries import Query, grouped, joined, once, read, select, subquery, union, where, with_before
from hush.engines.sql.rendered import UNIT, Rendered, computed_once, finish, priced, works_of, wrapped_in
from hush.engines.sql.values import FORMS, MAX_TEXT, WHOLE, Form, Value, alike, constant, hull
from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
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
)
from hush.query.schema import Schema, UnitPath
from hush.query.types import Kind, Type

MOST_PAIRS = 10**6
"""A unit whose rows would make more of them in a join is left out of it; fewer, where a row costs much."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What bounds the work of one unit's rows (`hush.engines.work`)."""

    text: int = MAX_TEXT
    """How many characters of a text are read."""
    pairs: int = MOST_PAIRS
    """How many rows a unit may have after a join."""
    checked: frozenset[int] = frozenset()
    """The joins with public tables, by their number, in which a unit might have more."""


UNBOUNDED = Bounds()
"""For public tables, which have no units."""
_MOST = 2**51


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Where tables are in the engine, and in which types it stores their columns."""

    schema: Schema
    tables: Mapping[str, str]
    """The engine's name of each table."""
    types: Mapping[str, Mapping[str, str]]
    """The engine's type of each stored column, by table."""

    def stored(self, table: str, column_: str) -> str:
        """Return the engine's type of a stored column."""
        found = self.types.get(table, {})
        if column_ not in found:
            raise UnplannableError(f"table {table!r} has no stored column {column_!r}; correct the policy")
        return found[column_]


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
        """Texts whose declared values are enforced later, by whoever looks them up."""
        self._indexed = indexed
        """Numbers that are also wanted as integers on their declared grid, under the name `index_of`."""
        self._unit_type = unit_type(catalogue)
        self._scans = 0
        self._joins = 0
        self.texts = 0
        """How many texts are read of which nothing is declared."""
        self.joined = False
        """Whether there are more rows than those of the tables that are read."""
        self.counted = 0
        """In how many joins the rows of every unit are counted."""
        self.carried = 0
        """How many characters of text such a join holds for every row."""

    def write(self, relation: Relation, *, alone: bool = False) -> Rendered:
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

    def _filter(self, relation: Filter, *, alone: bool) -> Rendered:
        source = self.write(relation.source, alone=alone)
        wider, (test,) = computed_once(source, [relation.condition])
        kept = where(select([EVERYTHING], wider.query), condition(test, wider.in_place))
        if wider is source:
            return replace(source, query=kept)
        shown = {label: wider.columns[label] for label in source.columns}
        names = [value.sql for value in shown.values()]
        return replace(wider, query=kept.showing([column(UNIT, "t"), *names] if wider.unit else names), columns=shown)

    def _project(self, relation: Project, *, alone: bool) -> Rendered:
        source = self.write(relation.source, alone=alone)
        labels = [label for label, _ in relation.columns]
        source, values = computed_once(source, [value for _, value in relation.columns])
        places = source.in_place
        inlined = {label: render(value, places).sql.work for label, value in zip(labels, values, strict=True)}
        cells = {label: render(value, source.columns) for label, value in zip(labels, values, strict=True)}
        return replace(wrapped_in(source, cells), inlined=inlined)

    def _scan(self, relation: Scan, *, alone: bool) -> Rendered:
        schema, place = self._catalogue.schema, self._catalogue.tables[relation.table]
        table = schema.tables[relation.table]
        stored = {}
        for label, source, type_ in relation.columns:
            physical = self._catalogue.stored(relation.table, source)
            if self._wanted is None or label in self._wanted:
                promised = replace(type_, values=None) if label in self._loose else type_
                self.texts += type_.kind is Kind.TEXT and type_.values is None and not relation.public
                stored[label] = force(column(source, "s"), physical, promised, self._bounds.text)
            if label in self._indexed:
                whole = force_index(column(source, "s"), physical, type_)
                if whole is not None:
                    stored[index_of(label)] = whole
        query = select([], read(place, "s"))
        unit: Sql | None = None
        if not relation.public and not alone:
            if table.unit is None:
                unit = self._numbered()
            else:
                query, unit = self._owned(query, "s", relation.table, table.unit)
                query = where(query, not_null(unit))
        return replace(finish(query, stored, unit), inlined=works_of(stored))

    def _owned(self, query: Query, holder: str, table: str, path: UnitPath) -> tuple[Query, Sql]:
        """Return the rows of a table, and the unit of each where a path leads to it.

        Of the table that a path goes through, each key is taken once for each of its units. A key that is not unique
        would give a unit a row for every pair, which nothing bounds; so no unit has more rows than the table stores.
        """
        if not path.hops:
            unit, physical = column(path.column, holder), self._catalogue.stored(table, path.column)
            return query, unit if self._unit_type is not None else _identity(unit, physical)
        hop, *rest = path.hops
        types = self._catalogue.stored(table, hop.column), self._catalogue.stored(hop.table, hop.key)
        sides: list[Sql] = [column(hop.column, holder), column(hop.key, "s")]
        if types[0] != types[1]:
            sides = [_identity(side, physical) for side, physical in zip(sides, types, strict=True)]
        through = select([], read(self._catalogue.tables[hop.table], "s"))
        through, whose = self._owned(through, "s", hop.table, replace(path, hops=tuple(rest)))
        owners = once(where(through, not_null(whose)).showing([alias(sides[1], "k"), alias(whose, UNIT)]))
        query = joined(query, subquery(owners, "h"), "inner", binary("=", sides[0], column("k", "h")))
        return query, column(UNIT, "h")

    def _numbered(self) -> Sql:
        """Return a number that tells rows apart, within a table and between tables; never used to order anything."""
        self._scans += 1
        number = row_number()
        return binary("+", binary("*", cast(number, "HUGEINT"), integer(2**20)), integer(self._scans))

    def _join(self, relation: Join) -> Rendered:
        number = self._joins
        self._joins += 1
        self.joined = True
        left, right = self.write(relation.left), self.write(relation.right)
        columns_left = {label: _at(value, "l") for label, value in left.columns.items()}
        columns_right = {label: _at(value, "r") for label, value in right.columns.items()}
        tests = []
        if left.unit and right.unit:
            tests.append(binary("=", column(UNIT, "l"), column(UNIT, "r")))
        for first, second in relation.on:
            tests.append(_equal(render(first, columns_left), render(second, columns_right)))
        together = {**columns_left, **columns_right}
        inlined = {**left.inlined, **right.inlined}
        if relation.where is not None:
            tests.append(condition(relation.where, priced(together, inlined)))
        kind = relation.kind.value
        if kind != "inner" and not left.unit and right.unit:
            raise UnplannableError(f"a {kind.upper()} JOIN needs its private side on the left; swap the tables")
        if (left.unit and right.unit) or number in self._bounds.checked:
            query = self._within_units(left, right, relation, both(tests))
        else:
            sides = subquery(left.query, "l"), subquery(right.query, "r")
            if _looks_up(relation):
                query = _looked_up(*sides, kind, both(tests), f"numbered_{number}")
            else:
                query = joined(select([], sides[0]), sides[1], kind, both(tests))
        unit = column(UNIT, "l") if left.unit else column(UNIT, "r") if right.unit else None
        if not relation.kind.widens:
            together, inlined = columns_left, dict(left.inlined)
        return replace(finish(query, together, unit), inlined=inlined)

    def _within_units(self, left: Rendered, right: Rendered, relation: Join, on: Sql) -> Query:
        """Return a join without the units whose rows would make more than so many; at least one side is private.

        A unit with many rows is left out before its rows are paired, so that the work, too, is bounded for each unit:
        whether a question is answered must not depend on one of them. Its pairs are those with equal keys, from how
        often each key occurs on either side. Both sides are computed once.

        The rows of the units that stay are a table of their own: engines move an anti join behind an inner one that
        they expect to make few rows, and then all pairs of a heavy unit would be made before it is left out.
        """
        self.counted += 1
        kind = relation.kind.value
        owned, other = (left, right) if left.unit else (right, left)
        self.carried = max(self.carried, _held(_characters(owned), _characters(other)))
        sides = [f"left_{self.counted}", f"right_{self.counted}"]

        def counted(side: str, source: Rendered, on_: Sequence[Expression], as_: str) -> tuple[Sql, list[Value]]:
            columns = {label: _at(value, "t") for label, value in source.columns.items()}
            values = [render(expression, columns) for expression in on_]
            cells = [alias(value.sql, f"j{at}") for at, value in enumerate(values)]
            unit = [column(UNIT, "t")] if source.unit else []
            counting = select([*unit, *cells, alias(count(), "n")], read(side, "t", source.query.rows))
            query = grouped(counting, [*unit, *(value.sql for value in values)])
            return subquery(query, as_), [replace(value, sql=column(f"j{at}", as_)) for at, value in enumerate(values)]

        one, first = counted(sides[0], left, [key for key, _ in relation.on], "a")
        two, second = counted(sides[1], right, [key for _, key in relation.on], "b")
        owner, whose = ("a", "l") if left.unit else ("b", "r")
        same = [binary("=", column(UNIT, "a"), column(UNIT, "b"))] if left.unit and right.unit else []
        same += [_equal(mine, theirs) for mine, theirs in zip(first, second, strict=True)]
        heavy = joined(select([column(UNIT, owner)], one), two, "inner", both(same))
        pairs = summed(binary("*", cast(column("n", "a"), "HUGEINT"), column("n", "b")), wide=True)
        heavy = grouped(heavy, [column(UNIT, owner)], having=binary(">", pairs, integer(self._bounds.pairs)))
        apart = binary("=", column(UNIT, whose), column(UNIT, "heavy"))
        places, names = (sides, "lr") if left.unit else (sides[::-1], "rl")  # a left join has its private side there
        light = select([everything_of(whose)], read(places[0], whose, owned.query.rows))
        light = joined(light, subquery(heavy, "heavy"), "anti", apart)
        label, looked = f"light_{self.counted}", None
        query = select([], read(label, names[0]))
        if _looks_up(relation):
            looked = _looked_up(read(label, "l"), read(places[1], "r"), kind, on, f"counted_{self.counted}")
            query = replace(looked, before=())
        else:
            query = joined(query, read(places[1], names[1]), kind, on)
        for side, source in zip(sides, (left, right), strict=True):
            query = with_before(query, side, source.query)
        query = with_before(query, label, light)
        return query if looked is None else replace(query, before=(*query.before, *looked.before))

    def _union(self, relation: UnionAll, *, alone: bool) -> Rendered:
        self.joined = True
        sources = [self.write(source, alone=alone) for source in relation.sources]
        cells: dict[str, list[Value]] = {}
        for label, type_ in relation.columns:
            given = alike([source.columns[label] for source in sources])
            form = FORMS[type_.kind]
            if type_.kind.numeric and given[0].form in WHOLE:  # all are alike
                form = given[0].form
            elif form is Form.INTEGER:
                form = Form.DOUBLE
            cells[label] = [_as(value, form) for value in given]
        parts = [
            finish(
                select([], source.query),
                {label: values[at] for label, values in cells.items()},
                column(UNIT, "t") if source.unit else None,
            )
            for at, source in enumerate(sources)
        ]
        outer = {label: hull(value.sql, cells[label]) for label, value in parts[0].columns.items()}
        together = select([], union([part.query for part in parts]))
        inlined = {
            label: max(source.inlined[label] + value.sql.work for source, value in zip(sources, values, strict=True))
            for label, values in cells.items()
        }
        whole = finish(together, outer, column(UNIT, "t") if parts[0].unit else None)
        return replace(whole, inlined=inlined)

    def _with_windows(self, relation: WithWindows) -> Rendered:
        """Return rows with windows over those of the same unit, whatever else parts them."""
        source = self.write(relation.source)
        self.carried = max(self.carried, 2 * _characters(source))
        unit = [column(UNIT, "t")] if source.unit else []
        ties = [compared(value) for value in source.columns.values()]
        cells = {label: windowed(item, source.columns, unit, ties) for label, item in relation.windows}
        rendered = wrapped_in(source, {**source.columns, **cells})
        forced = dict(rendered.columns)
        for label, item in relation.windows:
            forced[label] = self._within(rendered.columns[label], item.type)
        inlined = {**source.inlined, **{label: forced[label].sql.work for label in cells}}
        return replace(wrapped_in(rendered, forced), inlined=inlined)

    def _per_unit(self, relation: PerUnit, *, alone: bool) -> Rendered:
        """One row a unit and combination of keys; sums run over grid integers, so no order of rows can matter."""
        source = self.write(relation.source)
        keys = {label: settled(render(value, source.columns)) for label, value in relation.keys}
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
            label: settled(render(value, places)).sql.work for label, value in relation.keys
        }  # a condition on an aggregate stays behind it, one on a key does not
        return replace(wrapped_in(rendered, forced), inlined=inlined)

    def _within(self, value: Value, type_: Type) -> Value:
        """Return what was computed of one unit's rows, forced into its type."""
        if value.form is Form.WIDE and not type_.bounded:
            return value
        within = force(value.sql, value.form.value, type_, self._bounds.text)
        return replace(within, scale=value.scale, single=value.single) if within.form is Form.DOUBLE else within


def _looks_up(relation: Join) -> bool:
    """Return whether a join keeps rows by more than equalities, so that pairs have to be looked at."""
    return not relation.kind.widens and relation.where is not None and dialect().looks_up


def _looked_up(rows: Sql, other: Sql, kind: str, on: Sql, label: str) -> Query:
    """Return the rows ``l`` that have a partner in another source, or have none, by the numbers of those that have.

    Engines err where SEMI and ANTI joins have conditions beside equalities: DuckDB 1.4 looks at one partner of several.
    So the pairs are made by an inner join, and rows are kept by a number that is given to them before.
    """
    numbered = select([everything_of("l"), alias(row_number(), "number")], rows)
    pairs = joined(select([column("number", "l")], read(label, "l")), other, "inner", on)
    same = binary("=", column("number", "l"), column("number", "p"))
    query = joined(select([], read(label, "l")), subquery(once(pairs), "p"), kind, same)
    return with_before(query, label, numbered)


def _constants(relation: Constants) -> Rendered:
    """Return rows that the question writes out: one list for each column, read side by side, or row by row."""
    cells, written = {}, []
    together = dialect().unnests_together
    for at, (label, type_) in enumerate(relation.columns):
        values = [constant(row[at].value, type_) for row in relation.rows]
        alike_values = alike(values)
        wide = alike_values[0].form is Form.WIDE
        form = Form.WIDE if wide else FORMS[type_.kind]
        written.append([_as(value, form).sql for value in alike_values])
        source = call("unnest", array(written[-1])) if together else column(f"x{at}", "l")
        found = hull(source, [_as(value, form) for value in alike_values])
        cells[label] = found if wide else replace(found, within=None)
    names = [f"x{at}" for at in range(len(written))]
    rows = None if together else constant_rows(list(zip(*written, strict=True)), "l", names)
    return replace(finish(select([], rows), cells, None), inlined=dict.fromkeys(cells, 0))


def _characters(source: Rendered) -> int:
    """Return how many characters of text a row has at most."""
    return sum(value.chars for value in source.columns.values() if value.form is Form.TEXT)


def _held(owned: int, other: int) -> int:
    """Return the characters that a join holds for each row, of which `hush.engines.work` counts two copies.

    A counted join holds both sides, those rows of the private side that stay, and the side that it looks up.
    """
    return -(-(2 * owned + other + max(owned, other)) // 2)


def unit_type(catalogue: Catalogue) -> str | None:
    """Return the one type in which all tables store their units, or None if they differ."""
    found = set()
    for table in catalogue.schema.tables.values():
        if table.unit is not None and not table.public:
            holder = table.unit.hops[-1].table if table.unit.hops else table.name
            found.add(catalogue.types.get(holder, {}).get(table.unit.column))
    return found.pop() if len(found) == 1 else None


def _identity(value: Sql, physical: str) -> Sql:
    """Return an identifier as text that does not depend on its stored type: 7 and 7.0 are one unit, not two."""
    plain = try_cast(value, "VARCHAR", physical)
    if physical not in {"FLOAT", "DOUBLE"} and not physical.startswith("DECIMAL"):
        return plain
    whole = try_cast(value, "BIGINT", physical)
    same = binary("=", try_cast(whole, "DOUBLE", "BIGINT"), try_cast(value, "DOUBLE", physical))
    return case((same, try_cast(whole, "VARCHAR", "BIGINT")), otherwise=plain)


def index_of(label: str) -> str:
    """Return the name under which a column's integer on its grid is carried."""
    return f"{label}\0index"


def _at(value: Value, table: str) -> Value:
    """Return an outside column under another alias."""
    assert isinstance(value.sql, ColumnName)  # noqa: S101 - outside columns are plain columns
    return replace(value, sql=column(value.sql.label, table))


def _as(value: Value, form: Form) -> Value:
    value = value.finite()
    if value.form is form:
        return replace(value, literal=None)
    if form is Form.DOUBLE and value.form in WHOLE:
        return value.double()
    return Value(try_cast(value.sql, form.value, value.form.value), form)


def _equal(left: Value, right: Value) -> Sql:
    left, right = left.finite(), right.finite()
    if left.form is not right.form:
        forms = {left.form, right.form}
        if forms <= WHOLE:
            left, right = left.wide(), right.wide()
        elif forms <= {*WHOLE, Form.DOUBLE}:
            left, right = left.double(), right.double()
        else:
            left, right = (Value(try_cast(side.sql, "VARCHAR", side.form.value), Form.TEXT) for side in (left, right))
    same = binary("=", left.sql, right.sql)
    return costing(same, MADE * (left.chars + right.chars)) if left.form is Form.TEXT else same
