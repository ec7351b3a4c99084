"""Subqueries inside conditions and expressions: EXISTS, IN (SELECT …), and one value for a row.

Each becomes a join of the rows around it with the rows of the subquery, so the invariant of `hush.query.relations` is
kept by the join: where both are private it is on the unit. A subquery over private rows must therefore say that its
rows are the same unit's: by the unit, ``WHERE o.customer = c.customer``, or by a foreign key that leads to it. One over
other units' rows is refused. One over public tables may say anything.

* A condition of WHERE that is EXISTS or IN keeps rows with a partner (SEMI join), NOT EXISTS and NOT IN those without
  (ANTI join). ``x NOT IN (SELECT y …)`` is true if no y equals x and neither x nor a y is NULL, or if there is no y:
  the numbers of all y and of those that are not NULL decide, which are one row of a public table.
* Elsewhere, as in CASE or beside OR, the subquery's rows are made one for each unit and key, and joined (LEFT JOIN):
  a row has a partner, or none.
* An aggregate, ``(SELECT COUNT(*) FROM orders o WHERE o.customer = c.customer)``, is computed for each unit and key,
  exactly, and joined likewise.

None of these makes several rows of one.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from hush.core.values import dataclass
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Op
from hush.query.functions import call, constant
from hush.query.relations import (
    ExactAggregate,
    ExactKind,
    Filter,
    Join,
    JoinKind,
    Named,
    PerUnit,
    Project,
    columns,
    exact_type,
)
from hush.query.sql.expressions import Rows, has_aggregate
from hush.query.sql.grouping import projections
from hush.query.sql.joins import Condition, same_key
from hush.query.sql.nodes import identifier, is_set, only, refuse, shown
from hush.query.sql.per_unit import WithinUnit
from hush.query.sql.reading import size
from hush.query.sql.scope import Context, Scope, UnitName
from hush.query.sql.sources import Derived, check_select, derived, filtered, from_items, with_parts

OTHERS = "A subquery over other units' rows would let one unit change what others count for"
_WAY = "Say whose rows: WHERE inner.{unit} = outer.{unit}; or ask for that number first, and pass it as a parameter."


@dataclass(slots=True)
class Inner:
    """A subquery's rows, and what connects them with the rows around."""

    scope: Scope
    condition: Condition
    select: exp.Select


class ResolvedSubqueries:
    """Resolves subqueries inside conditions and expressions."""

    def kept(self, scope: Scope, node: exp.Expr, *, negated: bool, context: Context) -> Scope:
        """Return the rows that have a partner in EXISTS or IN (SELECT …), or have none."""
        return _kept(scope, node, negated=negated, context=context)

    def value(self, rows: Rows, node: exp.Expr) -> Expression:
        """Return what a subquery is for a row."""
        return _value_of(rows, node)


def _kept(scope: Scope, node: exp.Expr, *, negated: bool, context: Context) -> Scope:
    """Return the rows of a scope that have a partner in a subquery, or (``negated``) those that have none."""
    inner = _inner(scope, node, context)
    _check(scope, inner, node, context)
    if inner.scope.private:
        context.join_private()
    context.grow()
    kind = JoinKind.ANTI if negated else JoinKind.SEMI
    rows = scope.over(inner.condition.relation(scope.relation, inner.scope.relation, kind))
    if negated and isinstance(node, exp.In) and inner.condition.equalities and not inner.scope.private:
        return _without_null(rows, scope, inner, node, context)
    return rows


def _without_null(rows: Scope, scope: Scope, inner: Inner, node: exp.In, context: Context) -> Scope:
    """Return the rows for which NOT IN is true, of those that equal nothing in the list."""
    mine, theirs = inner.condition.equalities[-1]
    if not mine.type.nullable and not theirs.type.nullable:
        return rows
    if len(inner.condition.equalities) > 1 or inner.condition.rest:
        raise QuestionError(
            f"{shown(node)} names columns of the rows around it, and may meet a NULL.", "Write NOT EXISTS (SELECT …)."
        )
    every, known = context.fresh("every"), context.fresh("known")
    counts = _counted(inner, {every: None, known: theirs})
    context.grow(2)
    relation = Join(left=rows.relation, right=counts, kind=JoinKind.INNER, on=())
    types = columns(relation)
    none = call(Op.EQUAL, Column(every, types[every]), constant(Fraction(0)))
    all_known = call(Op.EQUAL, Column(every, types[every]), Column(known, types[known]))
    here = call(Op.NOT, call(Op.IS_NULL, mine))
    condition = call(Op.OR, none, call(Op.AND, all_known, here))
    return scope.over(Filter(source=relation, condition=condition))


def _counted(inner: Inner, wanted: dict[str, Expression | None]) -> PerUnit:
    kinds = [(name, argument, exact_type(ExactKind.COUNT, argument, empty=True)) for name, argument in wanted.items()]
    made = [(n, ExactAggregate(kind=ExactKind.COUNT, argument=a, type=t)) for n, a, t in kinds]
    return PerUnit(source=inner.scope.relation, keys=(), aggregates=tuple(made))


def _value_of(rows: Rows, node: exp.Expr) -> Expression:
    """Return what a subquery inside an expression is for a row: whether there is a partner, or an aggregate."""
    if rows.scope.settled:
        raise refuse(node)
    if isinstance(node, exp.Subquery):
        return _aggregate(rows, node)
    return _marked(rows, node)


def _marked(rows: Rows, node: exp.Expr) -> Expression:
    """Return whether a row has a partner, from a LEFT JOIN with one row for each unit and key."""
    scope, context = rows.scope, rows.context
    inner = _inner(scope, node, context)
    _check(scope, inner, node, context)
    if inner.condition.rest:
        raise QuestionError(
            f"Beside OR, and inside CASE, a subquery is connected by equalities alone; got {shown(node)}.",
            "Let it stand as a condition of its own, joined by AND.",
        )
    unsure = isinstance(node, exp.In) and any(a.type.nullable or b.type.nullable for a, b in inner.condition.equalities)
    if unsure and (inner.scope.private or len(inner.condition.equalities) > 1):
        raise QuestionError(
            f"{shown(node)} may meet a NULL, and then is neither true nor false.",
            "Let it stand as a condition of its own, joined by AND; or write EXISTS (SELECT … WHERE …).",
        )
    keys = _keys(inner, context)
    mark = context.fresh("partner")
    grouped = PerUnit(source=inner.scope.relation, keys=tuple(keys), aggregates=())
    marks: tuple[Named, ...] = (*((name, Column(name, key.type)) for name, key in keys), (mark, constant(True)))
    right = Project(source=grouped, columns=marks)
    _attach(rows, inner, right, keys)
    found = call(Op.NOT, call(Op.IS_NULL, Column(mark, rows.types[mark])))
    if not unsure:
        return found
    mine, theirs = inner.condition.equalities[0]
    every, known = context.fresh("every"), context.fresh("known")
    rows.scope.relation = Join(
        left=rows.scope.relation,
        right=_counted(inner, {every: None, known: theirs}),
        kind=JoinKind.INNER,
        on=(),
    )
    types = columns(rows.scope.relation)
    rows.types = {**rows.types, every: types[every], known: types[known]}
    total, listed = Column(every, types[every]), Column(known, types[known])
    none = call(Op.EQUAL, total, constant(Fraction(0)))
    missing = call(Op.OR, call(Op.IS_NULL, mine), call(Op.NOT_EQUAL, total, listed))
    return call(Op.CASE, found, constant(True), none, constant(False), missing, constant(None), constant(False))


def _aggregate(rows: Rows, node: exp.Subquery) -> Expression:
    """Return the value of an aggregate over the partners of a row, from a LEFT JOIN with one row for each key.

    Where there is no partner, there is nothing to aggregate: a count is 0, and everything else is NULL.
    """
    scope, context = rows.scope, rows.context
    inner = _inner(scope, node, context)
    if len(inner.select.expressions) != 1:
        raise QuestionError(f"A subquery that stands for a value has one result; got {shown(node)}.")
    if not has_aggregate(inner.select.expressions[0]) or inner.select.args.get("group"):
        raise QuestionError(
            f"A subquery that stands for a value is one aggregate, such as SELECT MAX(x); got {shown(node)}.",
            "A table with one row for each key is joined: LEFT JOIN … ON key = key.",
        )
    _check(scope, inner, node, context)
    if inner.condition.rest:
        raise QuestionError(
            f"An aggregate is connected with the rows around it by equalities alone; got {shown(node)}.",
            "Join the rows, and aggregate them within the unit.",
        )
    keys = _keys(inner, context)
    outside = _Outside(Rows(context, inner.scope), keys, empty=not keys and not inner.scope.private)
    value = outside.convert(projections(inner.select)[0].node)
    made = tuple((name, exact) for exact, name in outside.aggregates.items())
    _attach(rows, inner, PerUnit(source=inner.scope.relation, keys=tuple(keys), aggregates=made), keys)
    return value


class _Outside(WithinUnit):
    """Aggregates of a subquery as the rows around it see them."""

    def aggregate(self, node: exp.Expr) -> Expression:
        """Return an aggregate, 0 or NULL where there is nothing."""
        found = super().aggregate(node)
        assert isinstance(found, Column)  # noqa: S101 - aggregates within a unit are columns
        exact = next(exact for exact, name in self.aggregates.items() if name == found.name)
        value = Column(self.aggregates[exact], exact.type.or_null(named=True))
        counts = exact.kind in {ExactKind.COUNT, ExactKind.COUNT_DISTINCT}
        return call(Op.COALESCE, value, constant(Fraction(0))) if counts else value


def _attach(rows: Rows, inner: Inner, right: Project | PerUnit, keys: list[Named]) -> None:
    """Join one row for each unit and key to the rows around."""
    scope, context = rows.scope, rows.context
    context.grow(3)
    if inner.scope.private:
        context.join_private()
    pairs = inner.condition.equalities
    on = tuple((mine, Column(name, key.type)) for (mine, _), (name, key) in zip(pairs, keys, strict=True))
    scope.relation = Join(left=scope.relation, right=right, kind=JoinKind.LEFT, on=on)
    known = columns(scope.relation)
    rows.types = {**rows.types, **{name: type_ for name, type_ in known.items() if name not in rows.types}}


def _keys(inner: Inner, context: Context) -> list[Named]:
    return [(context.fresh("key"), theirs) for _, theirs in inner.condition.equalities]


def _inner(scope: Scope, node: exp.Expr, context: Context) -> Inner:
    """Resolve a subquery: its own rows, and the conditions that name columns of the rows around."""
    query = node.args["query"] if isinstance(node, exp.In) else node.this
    only(node, "this", "query") if isinstance(node, exp.In) else only(node, "this")
    while isinstance(query, exp.Subquery):
        only(query, "this")
        query = query.this
    tested = [] if not isinstance(node, exp.In) else [node.this]
    if not isinstance(query, exp.Select):
        raise refuse(query)
    context.spend(size(query))
    if isinstance(node, exp.In) and (query.args.get("group") or query.args.get("having") or _plain_list(query)):
        found = derived(query, context, scope.parts)
        inner = Scope(found.relation, [found.source(None)], parts=scope.parts)
        outcome: list[exp.Expr] = []
    else:
        check_select(query, distinct=True)
        if any(is_set(query.args.get(clause)) for clause in ("having", "order", "limit", "offset")):
            raise QuestionError(f"ORDER BY, LIMIT and HAVING have no place here: {shown(query)}.", "Leave them out.")
        inner, conditions = from_items(query, context, with_parts(query, context, scope.parts))
        own = [part for part in conditions if not _names_outside(part, inner)]
        inner = filtered(inner, own, context)
        outcome = [part for part in conditions if part not in own]
        found = None
    check_outer(outcome, scope)
    condition = _connection(scope, inner, outcome, context)
    if tested:
        _equate(scope, inner, tested[0], query, found, condition, context)
    return Inner(inner, condition, query)


def _plain_list(query: exp.Select) -> bool:
    """Return whether an IN's subquery aggregates rows."""
    return any(has_aggregate(item) for item in query.expressions)


def check_outer(parts: list[exp.Expr], scope: Scope) -> None:
    """Refuse names that neither the subquery nor the rows around it have."""
    for part in parts:
        for column in part.find_all(exp.Column):
            if isinstance(column.this, exp.Identifier) and not is_set(column.args.get("table")):
                scope.find(identifier(column.this))


def _names_outside(node: exp.Expr, inner: Scope) -> bool:
    """Return whether a condition names something that the subquery's own tables do not have."""
    return any(
        isinstance(part, exp.Column) and isinstance(part.this, exp.Identifier) and not _has(inner, part)
        for part in node.walk(prune=lambda part: isinstance(part, exp.Query))
    )


def _has(inner: Scope, node: exp.Column) -> bool:
    name, table = identifier(node.this).casefold(), node.args.get("table")
    alias = None if table is None else identifier(table).casefold()
    return any(name in source.names and alias in {None, (source.alias or "").casefold()} for source in inner.sources)


class _Both(Rows):
    """Names of a subquery, and where it has none of that name, of the rows around it."""

    def __init__(self, context: Context, inner: Scope, outer: Scope) -> None:
        super().__init__(context, replace(inner, settled=True))
        self.outer = Rows(context, replace(outer, settled=True))
        self.types = {**self.outer.types, **self.types}

    def column(self, node: exp.Column) -> Expression:
        """Return a column of the subquery, or of the rows around it."""
        return super().column(node) if _has(self.scope, node) else self.outer.column(node)

    def assuming(self, _condition: Expression, *, outcome: bool = True) -> Rows:  # noqa: ARG002
        """Return the same: what a condition says is not carried further here."""
        return self

    def unit(self, node: object) -> UnitName | None:
        """Return whether a node names the unit, here or around."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        return super().unit(node) if _has(self.scope, node) else self.outer.unit(node)

    def inside(self, node: exp.Expr) -> bool:
        """Return whether a name is one of the subquery's."""
        while isinstance(node, exp.Paren):
            node = node.this
        return isinstance(node, exp.Column) and _has(self.scope, node)


def _connection(scope: Scope, inner: Scope, parts: list[exp.Expr], context: Context) -> Condition:
    """Sort the conditions that name columns of both."""
    rows = _Both(context, inner, scope)
    found = Condition()
    sides = frozenset(columns(scope.relation)), frozenset(columns(inner.relation))
    for part in parts:
        if isinstance(part, exp.EQ) and rows.unit(part.this) and rows.unit(part.expression):
            only(part, "this", "expression")
            if rows.inside(part.this) != rows.inside(part.expression):
                found.on_unit = True
            continue
        found.add(rows.condition(part), sides, context)
    return found


def _equate(
    scope: Scope, inner: Scope, tested: exp.Expr, query: exp.Select, derived: object, found: Condition, context: Context
) -> None:
    """Add the equality that IN stands for: of each tested value and the subquery's result."""
    values = list(tested.expressions) if isinstance(tested, exp.Tuple) else [tested]
    outer, own = Rows(context, replace(scope, settled=True)), Rows(context, replace(inner, settled=True))
    results: list[Expression | UnitName]
    if isinstance(derived, Derived):
        types = columns(derived.relation)
        results = [Column(b, types[b]) if isinstance(b, str) else b for _, b in derived.names]
    else:
        nodes = [item.node for item in projections(query)]
        results = [own.unit(item) or own.convert(item) for item in nodes]
    if len(results) != len(values):
        raise QuestionError(f"IN compares {len(values)} with {len(results)} results of {shown(query)}.")
    for value, theirs in zip(values, results, strict=True):
        mine = outer.unit(value) or outer.convert(value)
        if isinstance(mine, UnitName) and isinstance(theirs, UnitName):
            found.on_unit = True
        elif isinstance(mine, UnitName) or isinstance(theirs, UnitName):
            raise QuestionError(
                f"IN compares the unit with something else: {shown(value)}.", "Select the unit in the subquery."
            )
        else:
            pair = call(Op.EQUAL, mine, theirs)
            first, second = pair.arguments
            found.equalities.append((first, second))
            found.on_unit = found.on_unit or same_key(first, second, context)


def _check(scope: Scope, inner: Inner, node: exp.Expr, context: Context) -> None:
    """Refuse a subquery over rows of other units."""
    if not inner.scope.private:
        return
    unit = context.schema.unit
    if not scope.private:
        raise QuestionError(
            f"Rows of a public table would be kept by what a private table holds: {shown(node)}.",
            "Read the private table in FROM, and join the public one.",
        )
    if inner.condition.on_unit:
        return
    if unit is None:
        raise QuestionError(f"{OTHERS}; got {shown(node)}.", "Ask for that number first, and pass it as a parameter.")
    raise QuestionError(f"{OTHERS}; got {shown(node)}.", _WAY.format(unit=unit))
