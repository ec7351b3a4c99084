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
    Asked,
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
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released
from hush.query.functions import constant
from hush.query.question import Ordering, Question
from hush.query.relations import Named, Scan
from hush.query.released import noisy
from hush.query.sql.expressions import Converter, Rows
from hush.query.sql.finished import (
    Finished,
    check_outputs,
    counted,
    finished,
    ordered,
    pruned_question,
    qualified,
)
from hush.query.sql.grouping import Grouped, Projection, group_items, projections
from hush.query.sql.matching import Answers, aggregates_outside_windows, from_answers, from_items, is_finished, trial
from hush.query.sql.nodes import STATEMENTS, identifier, is_set, only, refuse
from hush.query.sql.reading import size
from hush.query.sql.reduction import for_engine
from hush.query.sql.scope import Context, Scope, Source, UnitName
from hush.query.sql.sources import Parts, check_select, derived, with_parts
from hush.query.sql.windows import Windows, fold
from hush.query.types import Type

NO_ROWS = Scan(table="answers", public=True, columns=())


# answers


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
    return _of_rows(finished(node, context, parts), context)


def check_unused_parts(context: Context) -> None:
    """Resolve parts of WITH that nothing used, so that nothing stands in a question that was not understood."""
    for part in context.parts:
        if not part.used:
            with trial(context):
                if is_finished(part.query, context, part.parts):
                    answers_of(part.query, context, part.parts)
                else:
                    derived(part.query, context, part.parts).source("WITH", part.columns)


def _of_rows(made: Finished, context: Context) -> Answers:
    """Return the answers of a finished question."""
    question = made.question
    table, known = _levels(made, context) if made.sets is not None else _level(question, context)

    def over(expression: Expression) -> Expression:
        return _replaced(expression, known)

    if question.having is not None:
        table = Qualified(source=table, condition=over(question.having))
    if made.windows:
        windows = [
            (
                name,
                replace(
                    window,
                    argument=None if window.argument is None else over(window.argument),
                    partition=tuple(map(over, window.partition)),
                    order=tuple(replace(item, by=over(item.by)) for item in window.order),
                ),
            )
            for name, window in made.windows
        ]
        table = Windowed(source=table, windows=tuple(windows))
    if made.qualify is not None:
        table = Qualified(source=table, condition=over(made.qualify))
    order = tuple(replace(item, by=over(item.by)) for item in question.order)
    outputs = [(name, over(one)) for name, one in question.outputs]
    return _shown(table, outputs, order, (question.limit, question.offset), context, distinct=made.distinct)


def _shown(
    table: AnswerTable,
    outputs: Sequence[Named],
    order: tuple[Ordering, ...],
    cut: tuple[int | None, int],
    context: Context,
    *,
    distinct: bool,
) -> Answers:
    """Return the results of a SELECT: ORDER BY and LIMIT, and equal rows once if DISTINCT says so."""
    limit, offset = cut
    names = [(name, context.fresh(name)) for name, _ in outputs]
    columns = tuple((unique, one) for (_, unique), (_, one) in zip(names, outputs, strict=True))
    if distinct:
        table = Computed(source=table, columns=columns)
        keys = tuple(
            (context.fresh(label), Column(unique, one.type))
            for (label, unique), (_, one) in zip(names, columns, strict=True)
        )
        table = Regrouped(source=table, keys=keys, folds=())
        renamed = {one: Column(unique, key.type) for (_, one), (unique, key) in zip(columns, keys, strict=True)}
        if any(item.by not in renamed for item in order):
            raise QuestionError("With DISTINCT, ORDER BY names results alone.", "Add what it names to SELECT.")
        order = tuple(replace(item, by=renamed[item.by]) for item in order)
        names = [(label, unique) for (label, _), (unique, _) in zip(names, keys, strict=True)]
    if order or limit is not None or offset:
        table = Sorted(source=table, order=order, limit=limit, offset=offset)
    return Answers(table if distinct else Computed(source=table, columns=columns), names)


def _level(question: Question, context: Context) -> tuple[AnswerTable, dict[Released, Expression]]:
    """Return what a question releases, and which column stands for each key and aggregate."""
    sources = [Released("key", at, one.type) for at, (_, one) in enumerate(question.keys)]
    sources += [Released("aggregate", at, one.type) for at, one in enumerate(question.aggregates)]
    labels = [name for name, _ in question.keys] + [one.kind.name.lower() for one in question.aggregates]
    names = [context.fresh(label) for label in labels]
    bare = replace(
        question, outputs=tuple(zip(names, sources, strict=True)), having=None, order=(), limit=None, offset=0
    )
    number = next((at for at, other in enumerate(context.questions) if _same(other, bare)), len(context.questions))
    if number == len(context.questions):
        context.questions.append(bare)
    else:
        names = [name for name, _ in context.questions[number].outputs]
    columns = tuple(
        AnswerColumnName(name=name, type=one.type, noisy=one.source == "aggregate")
        for name, one in zip(names, sources, strict=True)
    )
    table = Asked(question=number, columns=columns)
    return table, {one: Column(name, one.type) for name, one in zip(names, sources, strict=True)}


def _same(one: Question, other: Question) -> bool:
    """Return whether two questions release the same, whatever their outputs are called."""
    return (one.relation, one.keys, one.aggregates) == (other.relation, other.keys, other.aggregates)


def _levels(made: Finished, context: Context) -> tuple[AnswerTable, dict[Released, Expression]]:
    """Return the levels of ROLLUP, CUBE or GROUPING SETS, one below the other."""
    question = made.question
    assert made.sets is not None  # noqa: S101 - the caller looked
    keys = [Released("key", at, one.type) for at, (_, one) in enumerate(question.keys)]
    aggregates = [Released("aggregate", at, one.type) for at, one in enumerate(question.aggregates)]
    parts = _engine_parts(made)
    stacked = [context.fresh(label) for label in (*("key" for _ in keys), *("aggregate" for _ in aggregates))]
    names = [*stacked, *made.grouping, *(context.fresh("part") for _ in parts)]
    types = [*(one.type.or_null() for one in keys), *(one.type for one in aggregates)]
    types += [*(constant(Fraction(0)).type for _ in made.grouping), *(part.type.or_null() for part in parts)]
    sources: list[AnswerTable] = []
    for kept in made.sets:
        level = pruned_question(question, tuple(question.keys[place] for place in kept))
        table, known = _level(level, context)
        meaning: dict[Released, Expression] = {one: Literal(None, one.type.or_null()) for one in keys}
        meaning |= {keys[place]: known[replace_key(keys[place], at)] for at, place in enumerate(kept)}
        meaning |= {one: known[one] for one in aggregates}
        bits = [constant(Fraction(int(place not in kept))) for place in range(len(keys) if made.grouping else 0)]
        computed = [*(meaning[one] for one in (*keys, *aggregates)), *bits]
        computed += [_replaced(part, meaning) for part in parts]
        unique = [context.fresh(name) for name in names]
        sources.append(Computed(source=table, columns=tuple(zip(unique, computed, strict=True))))
    noise = (
        [False] * len(keys) + [True] * len(aggregates) + [False] * len(made.grouping) + [noisy(part) for part in parts]
    )
    columns = tuple(
        AnswerColumnName(name=name, type=type_, noisy=flag)
        for name, type_, flag in zip(names, types, noise, strict=True)
    )
    known_columns: dict[Released, Expression] = {}
    for name, one, type_ in zip(stacked, [*keys, *aggregates], types, strict=False):
        known_columns[one] = Column(name, type_)
    stack = Stacked(sources=tuple(sources), columns=columns, levels=True)
    known_parts = {
        part: Column(name, part.type)
        for part, name in zip(parts, names[len(stacked) + len(made.grouping) :], strict=True)
    }
    return stack, _Known(known_columns, known_parts)


def replace_key(key: Released, place: int) -> Released:
    """Return a key at its place in a list of fewer keys."""
    return Released("key", place, key.type)


class _Known(dict[Released, Expression]):
    """Which column stands for what was released, and for some expressions over it."""

    def __init__(self, known: dict[Released, Expression], parts: dict[Call, Column]) -> None:
        super().__init__(known)
        self.parts = parts


def _engine_parts(made: Finished) -> list[Call]:
    """Return the expressions over what is released that an engine computes, each once."""
    question = made.question
    expressions = [one for _, one in question.outputs] + [item.by for item in question.order]
    expressions += [one for one in (question.having, made.qualify) if one is not None]
    for _, window in made.windows:
        expressions += [*window.partition, *(item.by for item in window.order)]
        expressions += [] if window.argument is None else [window.argument]
    found: dict[Call, None] = {}
    stack = list(expressions)
    while stack:
        one = stack.pop()
        if isinstance(one, Call):
            if for_engine(one):
                found[one] = None
            else:
                stack.extend(one.arguments)
    return list(found)


def _replaced(expression: Expression, known: dict[Released, Expression]) -> Expression:
    """Return an expression with columns in the place of what was released."""
    if isinstance(known, _Known) and expression in known.parts:
        return known.parts[expression]
    if isinstance(expression, Released):
        return known[expression]
    if isinstance(expression, Call):
        arguments = tuple(_replaced(argument, known) for argument in expression.arguments)
        strict = for_engine(expression) and expression.op not in {Op.LEAST, Op.GREATEST}
        if strict and any(_is_null(argument) for argument in arguments):
            return Literal(None, expression.type.or_null())  # all of these are NULL of NULL
        return Call(expression.op, arguments, expression.type)
    return expression


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


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
    return _shown(table, outputs, order, cut, converter.context, distinct=distinct)


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
    return _shown(table, outputs, order, cut, context, distinct=distinct)


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
