"""Subqueries that aggregate within one unit: ``SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id``.

Their results are facts about one unit, exact and not yet released. How many rows a unit has is not known, so a count
or sum has no upper bound of its own: CLIP it, or filter with WHERE or HAVING.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Op
from hush.query.functions import call, constant
from hush.query.question import AggregateKind
from hush.query.refine import narrowed
from hush.query.relations import ExactAggregate, ExactKind, Filter, Named, PerUnit, columns, exact_type
from hush.query.sql.aggregates import Written, read
from hush.query.sql.expressions import Rows
from hush.query.sql.grouping import Grouped, group_items, projections
from hush.query.sql.nodes import is_set, only, shown
from hush.query.sql.scope import Context, Scope
from hush.query.sql.sources import Derived, finish
from hush.query.types import Type

_EXACT = {
    AggregateKind.COUNT: ExactKind.COUNT,
    AggregateKind.COUNT_DISTINCT: ExactKind.COUNT_DISTINCT,
    AggregateKind.SUM: ExactKind.SUM,
    AggregateKind.AVG: ExactKind.AVG,
    AggregateKind.MIN: ExactKind.MIN,
    AggregateKind.MAX: ExactKind.MAX,
}


class WithinUnit(Grouped):
    """Expressions over the keys and exact aggregates of one unit."""

    def __init__(self, rows: Rows, keys: Sequence[Named], *, empty: bool = False) -> None:
        super().__init__(rows, [expression for _, expression in keys])
        self.named_keys = list(keys)
        self.empty = empty
        """Whether there may be no row to aggregate: of a public table without keys, for a unit has a row."""
        self.aggregates: dict[ExactAggregate, str] = {}
        self.known: dict[str, Type] = {}
        """Types that HAVING narrowed."""

    def key(self, index: int) -> Expression:
        """Return the column that holds a key."""
        name, expression = self.named_keys[index]
        return Column(name, self.known.get(name, expression.type))

    def aggregate(self, node: exp.Expr) -> Expression:
        """Return the column that holds an aggregate."""
        exact = _exact(read(node, self.rows), node, empty=self.empty)
        if exact not in self.aggregates:
            self.aggregates[exact] = self.context.fresh(exact.kind.name.lower())
            if exact.argument is not None:
                self.context.copies[self.aggregates[exact]] = self.context.text_copies(exact.argument)
        name = self.aggregates[exact]
        return Column(name, self.known.get(name, exact.type))


def per_unit(select: exp.Select, scope: Scope, context: Context, names: Sequence[str] | None) -> Derived:
    """Return a subquery that groups by the unit."""
    rows = Rows(context, scope)
    items = projections(select)
    nodes = [item.node for item in items] if is_set(select.args.get("distinct")) else group_items(select, items, rows)
    keys: list[Named] = []
    grouped_by_unit = not scope.private
    for node in nodes:
        if rows.unit(node):
            grouped_by_unit = True
            continue
        expression = rows.convert(node)
        if expression not in [known for _, known in keys]:
            name = expression.name if isinstance(expression, Column) else "key"
            keys.append((context.fresh(name), expression))
            context.copies[keys[-1][0]] = context.text_copies(expression)
            if isinstance(expression, Column) and expression.name in context.links:
                context.links[keys[-1][0]] = context.links[expression.name]
                grouped_by_unit = True  # a key on the way to the unit belongs to one
    if not grouped_by_unit:
        unit = context.schema.unit or "the unit"
        if is_set(select.args.get("distinct")):
            raise QuestionError(
                "SELECT DISTINCT would make one row of rows of different units.",
                f"To count different values write COUNT(DISTINCT x); for one row per unit add {unit} to the results."
                if context.schema.unit
                else "To count different values write COUNT(DISTINCT x).",
            )
        raise QuestionError(
            "A subquery over rows may aggregate only within one unit; answers can be joined with answers alone.",
            f"Add {unit} to its GROUP BY."
            if context.schema.unit
            else "Here every row is a unit, so nothing is left to group.",
        )
    grouped = WithinUnit(rows, keys, empty=not keys and not scope.private)
    having = select.args.get("having")
    if having is not None:
        only(having, "this")
        grouped.aliases = {i.name.casefold(): i.node for i in items if i.named}
        condition = grouped.condition(having.this)
        grouped.aliases = {}
    outcomes = [(item.name, rows.unit(item.node) or grouped.convert(item.node)) for item in items]
    context.grow()
    relation: PerUnit | Filter = PerUnit(
        source=scope.relation,
        keys=tuple(keys),
        aggregates=tuple((name, exact) for exact, name in grouped.aggregates.items()),
    )
    if having is not None:
        context.grow()
        grouped.known = narrowed(columns(relation), condition)
        relation = Filter(source=relation, condition=condition)
        outcomes = [(item.name, rows.unit(item.node) or grouped.convert(item.node)) for item in items]
    return finish(relation, outcomes, context, names)


def _exact(written: Written, node: exp.Expr, *, empty: bool) -> ExactAggregate:
    """Return an aggregate within one unit; FILTER becomes CASE."""
    if written.kind is AggregateKind.COUNT_UNITS:
        raise QuestionError("Within one unit there is one unit.", "Count rows: COUNT(*).")
    if written.kind not in _EXACT:
        raise QuestionError(
            f"{shown(node)} is not available within a unit.",
            "There are COUNT, COUNT(DISTINCT x), SUM, AVG, MIN and MAX.",
        )
    kind = _EXACT[written.kind]
    argument = written.arguments[0] if written.arguments else None
    if written.where is not None:
        argument = call(Op.CASE, written.where, constant(True) if argument is None else argument, constant(None))
    if argument is not None and kind in {ExactKind.SUM, ExactKind.AVG} and not argument.type.kind.numeric:
        raise QuestionError(f"{shown(node)} needs numbers; got {argument.type.kind.value}.")
    if argument is not None and kind in {ExactKind.MIN, ExactKind.MAX} and not argument.type.kind.ranged:
        raise QuestionError(f"{shown(node)} needs numbers or dates; got {argument.type.kind.value}.")
    return ExactAggregate(kind=kind, argument=argument, type=exact_type(kind, argument, empty=empty))
