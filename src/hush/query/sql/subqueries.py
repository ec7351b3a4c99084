"""Subqueries inside conditions and expressions: EXISTS, IN (SELECT …), and one value for a row.

Each becomes a join of the rows around it with the rows of the subquery, so the invariant of `hush.query.relations` is
kept by the join: where both are private it is on the unit. A subquery over private rows must therefore say that its
rows are the same unit's: by the unit, ``WHERE o.customer = c.customer``, or by a foreign key that leads to it. One over
other units' rows is refused. One over public tables may say anything.

* A condition of WHERE that is EXISTS or IN keeps rows with a partner (SEMI join), NOT EXISTS and NOT IN those without
  (ANTI join). ``x NOT IN (SELECT y …)`` is true if x = y is false for every y: so a row has a partner where x = y is
  true or NULL. Of an uncorrelated list of a public table the numbers of all y, and of those that are not NULL, decide.
* Elsewhere, as in CASE or beside OR, the subquery's rows are made one for each unit and key, and joined (LEFT JOIN):
  a row has a partner, or none.
* An aggregate, ``(SELECT COUNT(*) FROM orders o WHERE o.customer = c.customer)``, is computed for each unit and key,
  exactly, and joined likewise.
* An aggregate of all units, ``(SELECT AVG(price) FROM orders)``, is a question of its own. Its answer is released
  first, and is a constant for the rows.

None of these makes several rows of one. This module is the `Subqueries` of `hush.query.sql.names`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from hush.query.answers.tree import AnswerTable, columns_of
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Literal, Op
from hush.query.functions import all_of, call, constant
from hush.query.relations import (
    Constants,
    ExactAggregate,
    ExactKind,
    Filter,
    Join,
    JoinKind,
    Named,
    PerUnit,
    Project,
    Relation,
    columns,
    exact_type,
)
from hush.query.sql.allow_list import NO_WAY, column_name, has, identifier, only, refuse, shown
from hush.query.sql.answers import row_keys
from hush.query.sql.expressions import Rows, has_aggregate
from hush.query.sql.from_clause import check_select, derived, filtered, from_items, with_parts
from hush.query.sql.group_by import WithinUnit, projections
from hush.query.sql.joins import Condition, owners, sorted_conditions
from hush.query.sql.names import Answers, Binding, Context, Derived, Parts, Scope, UnitName, named_source
from hush.query.sql.select import answer_item, answers_of, is_finished
from hush.query.types import Kind, Type, Value

_WHOLE = 2**53
"""Whole numbers up to this are doubles."""


@dataclass(slots=True)
class _Inner:
    """The rows of a subquery, and the condition that connects them with the outer rows."""

    scope: Scope
    condition: Condition
    tested: int
    """The number of equalities, at the end of the list, that come from IN."""


def partners(scope: Scope, node: exp.Expr, *, negated: bool, context: Context) -> Scope:
    """Return the rows of a scope that have a partner in EXISTS or IN (SELECT …), or (``negated``) have none."""
    inner = _inner(scope, node, context)
    if inner.scope.private:
        context.join_private()
    context.grow()
    kind, condition = JoinKind.ANTI if negated else JoinKind.SEMI, inner.condition
    start = len(condition.equalities) - inner.tested
    tested = condition.equalities[start:] if negated else []
    unsure = any(mine.type.nullable or theirs.type.nullable for mine, theirs in tested)
    if unsure and not inner.scope.private and len(condition.equalities) == 1 and not condition.further:
        # of the rows that equal nothing in a public list, those for which NOT IN is true
        rows = Rows(context, scope)
        holds = call(Op.NOT, _has_partner(rows, node, inner))
        return replace(rows.scope, relation=Filter(source=rows.scope.relation, condition=holds))
    if unsure:
        same = all_of([call(Op.EQUAL, *pair) for pair in tested])
        # x NOT IN (…, NULL) is not true, so a comparison that is NULL counts as a partner
        partner = call(Op.COALESCE, same, constant(True))
        condition = replace(condition, equalities=condition.equalities[:start], further=[*condition.further, partner])
    return replace(scope, relation=condition.relation(scope.relation, inner.scope.relation, kind))


def value(rows: Rows, node: exp.Expr) -> Expression:
    """Return the value of a subquery inside an expression for a row: whether there is a partner, or an aggregate."""
    if rows.scope.settled:
        raise refuse(node)
    if isinstance(node, exp.Subquery):
        return _aggregate(rows, node)
    return _has_partner(rows, node, _inner(rows.scope, node, rows.context))


def numbers(node: exp.Expr, context: Context, parts: Parts) -> Scope | None:
    """Return an item of FROM that is an answer of one row, as constants; None for any other item."""
    if not is_finished(node, context, parts):
        return None
    table, source = answer_item(node, context, parts)
    if row_keys(table) != frozenset():
        raise QuestionError(
            f"Rows of units cannot meet answers of several rows; got {shown(node)}.",
            "Join the tables in the question itself, before it aggregates; or ask for the answers first, and write "
            "them: CASE key WHEN 'a' THEN 42 WHEN 'b' THEN 43 END.",
        )
    names: dict[str, tuple[str, Binding]] = {}
    relation: Relation | None = None
    for key, (name, unique) in source.names.items():
        cell = _awaited(table, str(unique), context)
        if cell is not None:
            names[key] = (name, cell.columns[0][0])
            relation = cell if relation is None else Join(left=relation, right=cell, kind=JoinKind.INNER, on=())
    return None if relation is None else Scope(relation, [replace(source, names=names)])


def answer(node: exp.Subquery, context: Context, parts: Parts) -> Answers:
    """Return the one number that a subquery beside answers asks for, as a table of answers."""
    answers = answers_of(node, context, parts)
    if len(answers.names) != 1 or row_keys(answers.table) != frozenset():
        raise QuestionError(
            f"A subquery that stands for a value has one result and one row; got {shown(node)}.",
            "Aggregate all rows in it, without GROUP BY; or join it on its keys: FROM (SELECT …) AS a JOIN "
            "(SELECT …) AS b ON a.key = b.key.",
        )
    return answers


def _awaited(table: AnswerTable, unique: str, context: Context) -> Constants | None:
    """Return the answer to a question about all units as a constant; None unless it is a number or a date.

    It is released first, with noise, and paid for. So rows meet a public number, and what becomes of a unit's rows
    still depends on that unit's rows and on public facts alone.
    """
    kind = next(column.type.kind for column in columns_of(table) if column.name == unique)
    if not kind.ranged:
        return None
    moment: Value = dt.datetime(2000, 1, 1)  # noqa: DTZ001 - as they are stored
    value = Fraction(0) if kind.numeric else dt.date(2000, 1, 1) if kind is Kind.DATE else moment
    type_ = Type(Kind.DECIMAL if kind.numeric else kind)
    context.awaited.append((table, unique))
    context.grow(2)
    cell = (Literal(value, type_),)
    return Constants(columns=((context.fresh("answer"), type_),), rows=(cell,), awaits=len(context.awaited) - 1)


def _has_partner(rows: Rows, node: exp.Expr, inner: _Inner) -> Expression:
    """Return whether a row has a partner, from a LEFT JOIN with one row for each unit and key."""
    context, condition = rows.context, inner.condition
    if condition.further:
        raise QuestionError(
            f"Beside OR, and inside CASE, a subquery is connected by equalities alone; got {shown(node)}.",
            "Let it stand as a condition of its own, joined by AND.",
        )
    unsure = isinstance(node, exp.In) and any(a.type.nullable or b.type.nullable for a, b in condition.equalities)
    if unsure and (inner.scope.private or len(condition.equalities) > 1):
        raise QuestionError(
            f"{shown(node)} may meet a NULL, and then is neither true nor false.",
            "Let it stand as a condition of its own, joined by AND; or write EXISTS (SELECT … WHERE …).",
        )
    keys = [(context.fresh("key"), _unique_key(*pair)) for pair in condition.equalities]
    mark = context.fresh("partner")
    marked: tuple[Named, ...] = (*((name, Column(name, key.type)) for name, key in keys), (mark, constant(True)))
    grouped = PerUnit(source=inner.scope.relation, keys=tuple(keys), aggregates=())
    _attach(rows, inner, Project(source=grouped, columns=marked), keys)
    present = call(Op.NOT, call(Op.IS_NULL, Column(mark, rows.types[mark])))
    if not unsure:
        return present
    mine, theirs = condition.equalities[0]
    # how many rows the list has, and in how many of them the value is not NULL
    aggregates = []
    for name, argument in (("every", None), ("known", theirs)):
        type_ = exact_type(ExactKind.COUNT, argument, empty=True)
        aggregate = ExactAggregate(kind=ExactKind.COUNT, argument=argument, type=type_)
        aggregates.append((context.fresh(name), aggregate))
    counts = PerUnit(source=inner.scope.relation, keys=(), aggregates=tuple(aggregates))
    every, known = (Column(name, aggregate.type) for name, aggregate in aggregates)
    rows.scope.relation = Join(left=rows.scope.relation, right=counts, kind=JoinKind.INNER, on=())
    rows.types = {**columns(counts), **rows.types}
    empty = call(Op.EQUAL, every, constant(Fraction(0)))
    missing = call(Op.OR, call(Op.IS_NULL, mine), call(Op.NOT_EQUAL, every, known))
    return call(Op.CASE, present, constant(True), empty, constant(False), missing, constant(None), constant(False))


def _aggregate(rows: Rows, node: exp.Subquery) -> Expression:
    """Return the value of an aggregate over the partners of a row, from a LEFT JOIN with one row for each key.

    Where there is no partner, there is nothing to aggregate: a count is 0, and everything else is NULL.
    """
    scope, context = rows.scope, rows.context
    if scope.private and is_finished(node, context, scope.parts):  # about all units: its answer is a constant
        answers = answer(node, context, scope.parts)
        cell = _awaited(answers.table, answers.names[0][1], context)
        if cell is None:
            raise QuestionError(
                f"Rows are compared with numbers and dates; got {shown(node)}.", "Write the value itself."
            )
        scope.relation = Join(left=scope.relation, right=cell, kind=JoinKind.INNER, on=())
        rows.types = {**columns(cell), **rows.types}
        return Column(*cell.columns[0])
    select = node.unnest()
    if len(select.expressions) != 1:
        raise QuestionError(f"A subquery that stands for a value has one result; got {shown(node)}.")
    if not has_aggregate(select.expressions[0]) or has(select, "group"):
        raise QuestionError(
            f"A subquery that stands for a value is one aggregate, such as SELECT MAX(x); got {shown(node)}.",
            "A table with one row for each key is joined: LEFT JOIN … ON key = key.",
        )
    inner = _inner(scope, node, context)
    if inner.condition.further:
        raise QuestionError(
            f"An aggregate is connected with the rows around it by equalities alone; got {shown(node)}.",
            "Join the rows, and aggregate them within the unit.",
        )
    keys = [(context.fresh("key"), _unique_key(*pair)) for pair in inner.condition.equalities]
    outside = WithinUnit(Rows(context, inner.scope), keys, outside=True)
    result = outside.convert(select.expressions[0].unalias())
    _attach(rows, inner, outside.relation(inner.scope.relation), keys)
    return result


def _unique_key(mine: Expression, theirs: Expression) -> Expression:
    """Return the key by which partners are grouped: a double meets one double, but many whole numbers beyond 2⁵³."""
    exact = all(end is not None and abs(end) <= _WHOLE for end in (theirs.type.lower, theirs.type.upper))
    kinds = (mine.type.kind, theirs.type.kind)
    return theirs if exact or kinds != (Kind.DECIMAL, Kind.INTEGER) else call(Op.TO_DECIMAL, theirs)


def _attach(rows: Rows, inner: _Inner, right: Project | PerUnit, keys: list[Named]) -> None:
    """Join one row for each unit and key to the outer rows: LEFT JOIN, so no outer row is lost or made twice."""
    scope, context = rows.scope, rows.context
    context.grow(3)
    if inner.scope.private:
        context.join_private()
    pairs = zip(inner.condition.equalities, keys, strict=True)
    on = tuple((mine, Column(name, key.type)) for (mine, _), (name, key) in pairs)
    scope.relation = Join(left=scope.relation, right=right, kind=JoinKind.LEFT, on=on)
    rows.types = {**columns(scope.relation), **rows.types}


def _inner(scope: Scope, node: exp.Expr, context: Context) -> _Inner:
    """Resolve a subquery: its own rows, and the conditions that name outer columns."""
    is_in = isinstance(node, exp.In)
    query = node.args["query"] if is_in else node.this
    only(node, "this", *(["query"] if is_in else []))
    while isinstance(query, exp.Subquery):
        only(query, "this")
        query = query.this
    is_union = is_in and isinstance(query, exp.SetOperation)
    if not isinstance(query, exp.Select) and not is_union:
        raise refuse(query)
    aggregated = not is_union and any(map(has_aggregate, query.expressions))
    rows: Derived | None = None
    outside: list[exp.Expr] = []
    if is_union or (is_in and (query.args.get("group") or query.args.get("having") or aggregated)):
        rows = derived(query, context, scope.parts)
        inner = Scope(rows.relation, [named_source(rows.names, None)], parts=scope.parts)
    else:
        check_select(query, "distinct")
        if has(query, "having", "order", "limit", "offset"):
            raise QuestionError(
                f"ORDER BY, LIMIT and HAVING have no place here: {shown(query)}.",
                "For HAVING compare the number itself: (SELECT COUNT(*) FROM … WHERE …) > 2. Without them it is "
                "another question.",
            )
        if isinstance(node, exp.Exists) and aggregated and not query.args.get("group"):
            raise QuestionError(
                f"{shown(node)} is always true: an aggregate of nothing is a row, too.",
                "Compare the number itself: (SELECT COUNT(*) FROM … WHERE …) > 0, which is another question.",
            )
        inner, conditions = from_items(query, context, with_parts(query, context, scope.parts))
        own: list[exp.Expr] = []
        for condition in conditions:
            children = condition.walk(prune=lambda child: isinstance(child, exp.Query))
            columns_named = filter(None, map(column_name, children))
            (own if all(owners(column, [inner]) for column in columns_named) else outside).append(condition)
        inner = filtered(inner, own, context)
    for condition in outside:  # refuse a name that several of the tables around have
        for column in condition.find_all(exp.Column):
            if isinstance(column.this, exp.Identifier) and not has(column, "table"):
                scope.find(identifier(column.this))
    names = _BothNames(context, inner, scope)
    connection = sorted_conditions(
        names,
        outside,
        (scope.relation, inner.relation),
        lambda equality: names.inside(equality.this) != names.inside(equality.expression),
    )
    correlated = len(connection.equalities)
    if is_in:
        own_rows = Rows(context, replace(inner, settled=True))
        if rows is not None:
            results = [own_rows.result(binding) for _, binding in rows.names]
        else:
            results = [own_rows.unit(item.node) or own_rows.convert(item.node) for item in projections(query)]
        _equate_tested(connection, node.this, query, results, Rows(context, replace(scope, settled=True)))
    if inner.private and not (scope.private and connection.on_unit):
        raise _of_other_units(scope, node, context)
    return _Inner(inner, connection, len(connection.equalities) - correlated)


def _equate_tested(
    connection: Condition, left: exp.Expr, query: exp.Expr, results: Sequence[Expression | UnitName], outer: Rows
) -> None:
    """Add that each value which IN tests equals the subquery's result; a unit equals a unit alone."""
    values = list(left.expressions) if isinstance(left, exp.Tuple) else [left]
    if len(results) != len(values):
        raise QuestionError(f"IN compares {len(values)} with {len(results)} results of {shown(query)}.")
    for tested, theirs in zip(values, results, strict=True):
        mine = outer.unit(tested) or outer.convert(tested)
        if isinstance(mine, UnitName) and isinstance(theirs, UnitName):
            connection.on_unit = True
        elif isinstance(mine, UnitName) or isinstance(theirs, UnitName):
            raise QuestionError(
                f"IN compares the unit with something else: {shown(tested)}.", "Select the unit in the subquery."
            )
        else:
            first, second = call(Op.EQUAL, mine, theirs).arguments
            connection.equate(first, second, outer.context)


class _BothNames(Rows):
    """Name lookup in a subquery: first its own names, then those of the outer rows."""

    def __init__(self, context: Context, inner: Scope, outer: Scope) -> None:
        super().__init__(context, replace(inner, settled=True))
        self.outer = Rows(context, replace(outer, settled=True))
        self.types = {**self.outer.types, **self.types}

    def column(self, node: exp.Column) -> Expression:
        """Return a column of the subquery, or of the outer rows."""
        return super().column(node) if self.inside(node) else self.outer.column(node)

    def binding(self, node: object) -> Binding | None:
        """Return the binding of a name, in the subquery or around it."""
        return super().binding(node) if self.inside(node) else self.outer.binding(node)

    def inside(self, node: object) -> bool:
        """Return whether a name is one of the subquery's."""
        name = column_name(node)
        return bool(owners(name, [self.scope]))


def _of_other_units(scope: Scope, node: exp.Expr, context: Context) -> QuestionError:
    """Return the refusal of a subquery over rows of other units, which would let one unit change the numbers of others.

    So would one beside rows of a public table, which belong to no unit.
    """
    unit = context.schema.unit
    if not scope.private:
        return QuestionError(
            f"Rows of a public table would be kept by what a private table holds: {shown(node)}.",
            "Count the private rows of each, and choose by the noisy number: SELECT key FROM (SELECT p.key, "
            "COUNT(v.x) AS n FROM public AS p LEFT JOIN private AS v ON v.key = p.key GROUP BY p.key) AS t WHERE n > "
            "0.5, or n < 0.5 for NOT.",
        )
    own = unit or "unit"
    hint = f"Only rows of the same unit can be looked for, WHERE inner.{own} = outer.{own}: that is another question."
    if isinstance(node, exp.Subquery):
        hint = (
            "Ask for the numbers first, with GROUP BY key, and write them: WHERE x > CASE key WHEN 'a' THEN 42 WHEN "
            f"'b' THEN 43 END. {hint}"
        )
    elif unit is None:
        hint = NO_WAY
    return QuestionError(
        f"A subquery over other units' rows would let one unit change what others count for; got {shown(node)}.", hint
    )
