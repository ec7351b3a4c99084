"""SELECT over answers: FROM names finished questions, and everything that follows is free.

A derived table or a part of WITH is a finished question if it aggregates rows without grouping by the unit. Whatever is
selected from one reads what was released: WHERE, GROUP BY, window functions, ORDER BY, LIMIT, joins on keys, UNION ALL.
Where all of that is done row by row it is put into the question itself, of which nothing else is left then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from hush.query.composed import (
    AnswerColumnName,
    AnswerTable,
    Computed,
    Fold,
    Qualified,
    Regrouped,
    Sorted,
    Stacked,
    Windowed,
    columns_of,
)
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression
from hush.query.functions import constant
from hush.query.relations import Named, Scan
from hush.query.sql.expressions import Converter, Rows
from hush.query.sql.finished import (
    check_outputs,
    counted,
    finished,
    ordered,
    qualified,
)
from hush.query.sql.grouping import Grouped, Projection, group_items, projections
from hush.query.sql.matching import Answers, aggregates_outside_windows, from_answers, from_items, is_finished, trial
from hush.query.sql.nodes import STATEMENTS, identifier, is_set, only, refuse
from hush.query.sql.reading import size
from hush.query.sql.reduction import answers_of_question, select_results
from hush.query.sql.scope import Context, Scope, Source, UnitName
from hush.query.sql.sources import Parts, check_select, derived, with_parts
from hush.query.sql.windows import Windows, fold
from hush.query.types import Type

NO_ROWS = Scan(table="answers", public=True, columns=())


def answers_of(node: exp.Expr, context: Context, parts: Parts) -> Answers:
    """Return the answers of a query that is, or is made of, finished questions."""
    if isinstance(node, exp.Subquery):
        only(node, "this", "with_")
        return answers_of(node.this, context, with_parts(node, context, parts))
    if isinstance(node, exp.SetOperation):
        return _stacked(node, context, with_parts(node, context, parts))
    if not isinstance(node, exp.Select):
        raise QuestionError(f"{type(node).__name__} is not a question. {STATEMENTS}")
    context.spend(size(node))
    parts = with_parts(node, context, parts)
    if any(is_finished(item, context, parts) for item in from_items(node)):
        return _over(node, context, parts)
    return answers_of_question(finished(node, context, parts), context)


def check_unused_parts(context: Context) -> None:
    """Resolve parts of WITH that nothing used, so that nothing stands in a question that was not understood."""
    for part in context.parts:
        if not part.used:
            with trial(context):
                if is_finished(part.query, context, part.parts):
                    answers_of(part.query, context, part.parts)
                else:
                    derived(part.query, context, part.parts).source("WITH", part.columns)


# SELECT … FROM answers


class _OverRows(Rows):
    """Expressions over rows of answers, in which results may be called by their names."""

    def __init__(self, context: Context, scope: Scope, windows: Windows | None) -> None:
        super().__init__(context, scope)
        self.windows = windows
        self.aliases: dict[str, exp.Expr] = {}
        self.aliases_first = False

    def convert(self, node: object) -> Expression:
        """Return our expression for a node; nothing is remembered, because names may change their meaning."""
        if isinstance(node, exp.Window):
            if self.windows is None:
                raise QuestionError("Window functions come after WHERE and GROUP BY.", "Use QUALIFY, or two SELECTs.")
            return self.windows.column(node, self.convert)
        return Converter.convert(self, node)

    def assuming(self, _condition: Expression, *, outcome: bool = True) -> Rows:  # noqa: ARG002
        """Return the same: what a condition says of noisy numbers narrows nothing."""
        return self

    def column(self, node: exp.Column) -> Expression:
        """Return a column of the answers, or the result of that name."""
        if isinstance(node.this, exp.Identifier) and not is_set(node.args.get("table")):
            name = identifier(node.this)
            alias = self.aliases.get(name.casefold())
            if alias is not None and (self.aliases_first or self.scope.find(name) is None):
                aliases, self.aliases = self.aliases, {}
                try:
                    return self.convert(alias)
                finally:
                    self.aliases = aliases
        return super().column(node)


class _Regrouping(Grouped):
    """Expressions over keys and aggregates of answers."""

    def __init__(self, rows: Rows, keys: Sequence[Named], windows: Windows) -> None:
        super().__init__(rows, [expression for _, expression in keys])
        self._names = [name for name, _ in keys]
        self._windows = windows
        self.folds: dict[Fold, str] = {}

    def key(self, index: int) -> Expression:
        return Column(self._names[index], self.keys[index].type)

    def convert(self, node: object) -> Expression:
        if isinstance(node, exp.Window):
            return self._windows.column(node, self.convert)
        return super().convert(node)

    def aggregate(self, node: exp.Expr) -> Expression:
        kind, argument = fold(node, self.rows.convert)
        made = Fold(kind=kind, argument=argument)
        name = self.folds.get(made) or self.context.fresh(kind)
        self.folds[made] = name
        return Column(name, made.type)


def _over(select: exp.Select, context: Context, parts: Parts) -> Answers:
    """Return a SELECT over answers."""
    distinct, windows = _distinct(select), Windows(select, context)
    plain = select.copy()
    for extra in ("distinct", "qualify", "windows"):
        plain.set(extra, None)
    check_select(plain)
    check_outputs(select, stars=True)
    table, sources, merged = from_answers(select, context, parts, answers_of)
    scope = Scope(_scan(table), sources, merged, settled=True)
    where = select.args.get("where")
    if where is not None:
        only(where, "this")
        table = Qualified(source=table, condition=_OverRows(context, scope, None).condition(where.this))
    items = _results(select, scope)
    if (
        any(aggregates_outside_windows(item.node) for item in items)
        or is_set(select.args.get("group"))
        or (select.args.get("having") is not None)
    ):
        return _regrouped(select, table, items, _OverRows(context, scope, None), windows, distinct=distinct)
    rows = _OverRows(context, scope, windows)
    rows.aliases = {item.name.casefold(): item.node for item in items if item.named}
    outputs = [(item.name, rows.convert(item.node)) for item in items]
    return _finish(select, table, items, outputs, rows, windows, distinct=distinct)


def _finish(
    select: exp.Select,
    table: AnswerTable,
    items: Sequence[Projection],
    outputs: list[Named],
    converter: _OverRows | _Regrouping,
    windows: Windows,
    *,
    distinct: bool,
) -> Answers:
    qualify = qualified(select, converter)
    converter.aliases_first = True
    order = ordered(select, items, converter)
    cut = counted(select, "limit", converter), counted(select, "offset", converter) or 0
    if windows.made:
        table = Windowed(source=table, windows=tuple((name, window) for window, name in windows.made.items()))
    if qualify is not None:
        table = Qualified(source=table, condition=qualify)
    return select_results(table, outputs, order, cut, converter.context, distinct=distinct)


def _regrouped(
    select: exp.Select,
    table: AnswerTable,
    items: Sequence[Projection],
    rows: _OverRows,
    windows: Windows,
    *,
    distinct: bool,
) -> Answers:
    context = rows.context
    keys: list[Named] = []
    for node in group_items(select, items, rows):
        expression = rows.convert(node)
        if expression not in [known for _, known in keys]:
            keys.append((context.fresh("key"), expression))
    converter = _Regrouping(rows, keys, windows)
    outputs = [(item.name, converter.convert(item.node)) for item in items]
    converter.aliases = {item.name.casefold(): item.node for item in items if item.named}
    having = select.args.get("having")
    condition = None
    if having is not None:
        only(having, "this")
        condition = converter.condition(having.this)
    qualify = qualified(select, converter)
    converter.aliases_first = True
    order = ordered(select, items, converter)
    cut = counted(select, "limit", converter), counted(select, "offset", converter) or 0
    folds = tuple((name, made) for made, name in converter.folds.items())
    table = Regrouped(source=table, keys=tuple(keys), folds=folds, whole=not keys)
    if condition is not None:
        table = Qualified(source=table, condition=condition)
    if windows.made:
        table = Windowed(source=table, windows=tuple((name, window) for window, name in windows.made.items()))
    if qualify is not None:
        table = Qualified(source=table, condition=qualify)
    return select_results(table, outputs, order, cut, context, distinct=distinct)


def _distinct(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    if distinct is None:
        return False
    if not isinstance(distinct, exp.Distinct):
        raise refuse(distinct)
    if is_set(distinct.args.get("on")):
        raise QuestionError("DISTINCT ON is not supported.", "Write QUALIFY ROW_NUMBER() OVER (…) = 1.")
    return True


def _scan(table: AnswerTable) -> Scan:
    """Return a stand-in for the relation of answers, which knows the types of their columns."""
    return replace(NO_ROWS, columns=tuple((one.name, one.name, one.type) for one in columns_of(table)))


def _results(select: exp.Select, scope: Scope) -> list[Projection]:
    """Return the results of a SELECT, with * written out."""
    if not any(_star(node) for node in select.expressions):
        return projections(select)
    plain = select.copy()
    written: list[exp.Expr] = []
    for node in plain.expressions:
        if not _star(node):
            written.append(node)
            continue
        star = node.this if isinstance(node, exp.Column) else node
        only(star)
        table = identifier(node.args["table"]).casefold() if isinstance(node, exp.Column) else None
        for source in scope.sources:
            if table is None or (source.alias or "").casefold() == table:
                written += [
                    exp.column(
                        exp.to_identifier(name, quoted=True),
                        table=source.alias and exp.to_identifier(source.alias, quoted=True),
                    )
                    for key, (name, binding) in source.names.items()
                    if not isinstance(binding, UnitName) and (table is not None or key not in source.merged)
                ]
    plain.set("expressions", written)
    check_outputs(plain)
    return projections(plain)


def _star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _stacked(query: exp.SetOperation, context: Context, parts: Parts) -> Answers:
    """Return UNION ALL of answers."""
    if not isinstance(query, exp.Union):
        raise QuestionError(f"{type(query).__name__.upper()} of answers is not supported.", "Only UNION ALL is.")
    if is_set(query.args.get("distinct")):
        raise QuestionError("UNION of answers compares noisy numbers.", "Write UNION ALL.")
    only(query, "this", "expression", "distinct", "with_", "order", "limit", "offset")
    members: list[exp.Expr] = []
    stack: list[exp.Expr] = [query]
    while stack:
        node = stack.pop()
        plain = isinstance(node, exp.Union) and not is_set(node.args.get("distinct"))
        if plain and (node is query or not any(is_set(node.args.get(name)) for name in ("with_", "order", "limit"))):
            stack += [node.expression, node.this]
        else:
            members.append(node)
    made = [answers_of(member, context, parts) for member in members]
    widths = {len(one.names) for one in made}
    if len(widths) > 1:
        raise QuestionError("The parts of UNION ALL have different numbers of results.", "Name as many in each.")
    tables, columns = [], []
    for place, (label, _) in enumerate(made[0].names):
        found = [{one.name: one for one in columns_of(part.table)}[part.names[place][1]] for part in made]
        kinds = {one.type.kind for one in found}
        if len(kinds) > 1 and not all(kind.numeric for kind in kinds):
            raise QuestionError(
                f"In UNION ALL, {label} is {' here and '.join(sorted(kind.value for kind in kinds))} there.",
                "Cast one of them.",
            )
        widest = next((one.type for one in found if one.type.kind is not found[0].type.kind), found[0].type)
        type_ = Type(widest.kind if len(kinds) == 1 or not widest.kind.numeric else _DECIMAL.kind)
        columns.append(AnswerColumnName(name=context.fresh(label), type=type_, noisy=any(one.noisy for one in found)))
    for part in made:
        types = {one.name: one.type for one in columns_of(part.table)}
        renamed = tuple((context.fresh(label), Column(unique, types[unique])) for label, unique in part.names)
        tables.append(Computed(source=part.table, columns=renamed))
    labels = [label for label, _ in made[0].names]
    if len({label.casefold() for label in labels}) < len(labels):
        raise QuestionError("Two results have one name.", "Give one another name with AS.")
    table: AnswerTable = Stacked(sources=tuple(tables), columns=tuple(columns))
    names = [(label, one.name) for label, one in zip(labels, columns, strict=True)]
    if any(is_set(query.args.get(name)) for name in ("order", "limit", "offset")):
        source = Source(None, {label.casefold(): (label, unique) for label, unique in names})
        rows = _OverRows(context, Scope(_scan(table), [source], settled=True), None)
        items = [Projection(label, exp.column(exp.to_identifier(label, quoted=True)), named=True) for label in labels]
        order = ordered(query, items, rows)
        cut = counted(query, "limit", rows), counted(query, "offset", rows) or 0
        table = Sorted(source=table, order=order, limit=cut[0], offset=cut[1])
    return Answers(table, names)


_DECIMAL = constant(Fraction(1, 2)).type
