"""LEFT JOINs that say in their own way what other joins say.

**Who has no partner.** ``c LEFT JOIN o ON … WHERE o.customer_id IS NULL``, where customer_id is the unit, asks for the
rows of c that have no partner. A row of a private table always has a unit, so the unit of the optional side is NULL
where there is no partner, and nowhere else. That is an ANTI JOIN, and with IS NOT NULL a JOIN. Two things must hold.
The column is the unit, not another one with its name (``SELECT name AS customer_id``). And no RIGHT or FULL JOIN comes
after: its own rows without a partner would have met the condition, too.

**Every row of a public table.** ``regions r LEFT JOIN visits v ON … GROUP BY r.name`` has, beside the rows of a JOIN,
one for each region without a visit. Such a row would belong to no unit. But aggregates of what visits hold ignore it:
COUNT(v.x), SUM(v.x), AVG(v.x) of NULL alone. And its key is listed anyway, since all keys of a public table are. So
where nothing else is asked, JOIN is the same question. COUNT(*) is something else: it counts that row.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hush.query.schema import Schema, Table
from hush.query.sql.nodes import is_set

_STRICT = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Paren,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Distinct,
)
"""What is NULL, or nothing, if one of its columns is."""


def with_plain_joins(tree: exp.Expr, schema: Schema) -> exp.Expr:
    """Return a tree in which LEFT JOINs that mean other joins are these."""
    if not any(str(join.args.get("side") or "").upper() == "LEFT" for join in tree.find_all(exp.Join)):
        return tree
    tree = tree.copy()
    parts = list(tree.find_all(exp.CTE))
    named = {part.alias_or_name.casefold() for part in parts}
    tables = {name.casefold(): table for name, table in schema.tables.items() if name.casefold() not in named}
    units = _Units(tables, parts, schema)
    for select in list(tree.find_all(exp.Select)):
        joins = select.args.get("joins") or []
        for place, join in enumerate(joins):
            if str(join.args.get("side") or "").upper() == "LEFT" and not is_set(join.args.get("method")):
                if not any(str(later.args.get("side") or "").upper() in {"RIGHT", "FULL"} for later in joins[place:]):
                    _without_partner(select, join, units)
                _of_public_rows(select, join, tables)
    return tree


class _Units:
    """Which columns of a part of FROM are the unit, as far as its text says so."""

    def __init__(self, tables: dict[str, Table], parts: list[exp.CTE], schema: Schema) -> None:
        self.tables = tables
        self.schema = schema
        self._parts = {part.alias_or_name.casefold(): part for part in parts}
        if len(self._parts) < len(parts):  # of two with one name, who knows which is meant
            self._parts = {}

    def shown(self, node: object, name: str) -> bool:
        """Return whether a column of a table, a named part or a subquery is certainly the unit."""
        if isinstance(node, exp.Table | exp.Subquery | exp.CTE) and is_set(node.args.get("alias")):
            alias = node.args["alias"]
            if isinstance(alias, exp.TableAlias) and alias.columns:
                return False
        match node:
            case exp.Table() if (table := _table(node, self.tables)) is not None:
                return name in _unit_names(table, self.schema)
            case exp.Table() if not node.args.get("db"):
                return self.shown(self._parts.get(node.name.casefold()), name)
            case exp.Subquery() | exp.CTE():
                return self.shown(node.this, name)
            case exp.SetOperation():
                return self.shown(node.this, name) and self.shown(node.expression, name)
            case exp.Select():
                return self._selected(node, name)
            case _:
                return False

    def _selected(self, select: exp.Select, name: str) -> bool:
        """Return whether a result of a SELECT is the unit."""
        source = select.args.get("from_")
        sources = [] if source is None else [source.this, *(join.this for join in select.args.get("joins") or ())]
        for result in select.expressions:
            column = result.unalias()
            if column.is_star:
                return bool(sources) and all(self.shown(part, name) for part in sources)
            if result.alias_or_name.casefold() == name:
                owner = column.table.casefold() if isinstance(column, exp.Column) else ""
                owners = [part for part in sources if not owner or part.alias_or_name.casefold() == owner]
                inner = column.name.casefold()
                return isinstance(column, exp.Column) and any(self.shown(part, inner) for part in owners)
        return False


def _table(node: object, tables: dict[str, Table]) -> Table | None:
    """Return the table that a part of FROM reads, if it is one."""
    return tables.get(node.name.casefold()) if isinstance(node, exp.Table) else None


def _without_partner(select: exp.Select, join: exp.Join, units: _Units) -> None:
    """Turn a LEFT JOIN whose optional unit is, or is not, NULL into an ANTI JOIN, or a JOIN."""
    table, alias = _table(join.this, units.tables), join.alias_or_name.casefold()
    where = select.args.get("where")
    conditions = [] if where is None else _conjuncts(where.this)
    for condition in conditions:
        test = condition.this if isinstance(condition, exp.Not) else condition
        column = test.this if isinstance(test, exp.Is) and isinstance(test.expression, exp.Null) else None
        if not isinstance(column, exp.Column) or column.table.casefold() != alias:
            continue
        if not units.shown(join.this, column.name.casefold()):
            continue
        negated = isinstance(condition, exp.Not) != bool(test.args.get("negate"))
        if not negated and _read_elsewhere(select, join, condition, table):
            continue
        join.set("side", None)
        join.set("kind", None if negated else "ANTI")
        others = [other for other in conditions if other is not condition]
        select.set("where", exp.Where(this=exp.and_(*others)) if others else None)
        return


def _unit_names(table: Table, schema: Schema) -> set[str]:
    """Return what the unit may be called in a table: its own column, or its public name where no column has that."""
    if table.public or table.unit is None:
        return set()
    names = set() if table.unit.hops else {table.unit.column.casefold()}
    others = {name.casefold() for name in (*table.columns, *table.keys)}
    return names if schema.unit is None or schema.unit.casefold() in others else {*names, schema.unit.casefold()}


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.And):
        return [*_conjuncts(node.this), *_conjuncts(node.expression)]
    return [node]


def _read_elsewhere(select: exp.Select, join: exp.Join, condition: exp.Expr, table: Table | None) -> bool:
    """Return whether anything but the join and a condition may read the side that a join adds."""
    alias = join.alias_or_name.casefold()
    known = {name.casefold() for name in (table.columns if table is not None else join.this.named_selects)}
    apart = {id(node) for place in (join, condition) for node in place.find_all(exp.Column)}
    for column in select.find_all(exp.Column):
        named = column.table.casefold() == alias or (not column.table and column.name.casefold() in known)
        if id(column) not in apart and named:
            return True
    return any(not isinstance(star.parent, exp.Count) for star in select.find_all(exp.Star))


def _of_public_rows(select: exp.Select, join: exp.Join, tables: dict[str, Table]) -> None:
    """Turn a LEFT JOIN from a public table to a private one into a JOIN, where all that is asked ignores other rows."""
    source = select.args.get("from_")
    if source is None:
        return
    public, private = _table(source.this, tables), _table(join.this, tables)
    if public is None or private is None or not public.public or private.public or len(select.args["joins"]) > 1:
        return
    of_private = {join.alias_or_name.casefold(): private, source.this.alias_or_name.casefold(): public}

    def reads_private(node: exp.Expr) -> bool:
        return any(of_private.get(table, public) is private for table in _owners(node, of_private))

    group = select.args.get("group")
    where = select.args.get("where")
    if group is None or not group.expressions or any(map(reads_private, group.expressions)):
        return
    if where is not None and reads_private(where) and where.find(exp.Is, exp.Coalesce, exp.Case, exp.Or, exp.Not):
        return
    aggregates = [found for found in select.find_all(exp.AggFunc) if not isinstance(found.this, exp.Star)]
    counted = [found for found in select.find_all(exp.Count) if found.this is None or isinstance(found.this, exp.Star)]
    if counted or not aggregates or select.find(exp.Filter, exp.Window):
        return
    for aggregate in aggregates:
        strict = all(isinstance(part, _STRICT) for part in aggregate.this.walk())
        if not strict or not reads_private(aggregate):
            return
    join.set("side", None)


def _owners(node: exp.Expr, tables: dict[str, Table]) -> Iterator[str]:
    """Yield the aliases of the tables that the columns of a node belong to; of one that is not known, all."""
    for column in node.find_all(exp.Column):
        if column.table:
            yield column.table.casefold()
            continue
        name = column.name.casefold()
        yield from (alias for alias, table in tables.items() if name in {known.casefold() for known in _names(table)})


def _names(table: Table) -> list[str]:
    unit = [] if table.unit is None else [table.unit.column]
    return [*table.columns, *unit]
