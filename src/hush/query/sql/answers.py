"""SELECT over answers: FROM names finished questions, and everything that follows is free.

A derived table or a part of WITH is a finished question if it aggregates rows without grouping by the unit. Whatever is
selected from one reads what was released: WHERE, GROUP BY, window functions, ORDER BY, LIMIT, joins on keys, UNION ALL.
Where all of that is done row by row it is put into the question itself, of which nothing else is left then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from hush.query.answers.tree import (
    AnswerColumnName,
    AnswerTable,
    Asked,
    Composed,
    Computed,
    Fold,
    Matched,
    Qualified,
    Regrouped,
    Sorted,
    Stacked,
    Windowed,
    columns_of,
    noisy_names,
    walk,
    with_sources,
)
from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released, with_columns
from hush.query.functions import all_of, call, constant
from hush.query.question import Ordering, Question
from hush.query.relations import Named, Scan
from hush.query.released import for_engine, noisy
from hush.query.sql.allow_list import (
    STATEMENTS,
    children,
    count_nodes,
    identifier,
    is_set,
    is_star,
    only,
    refuse,
    shown,
)
from hush.query.sql.expressions import Converter, Rows
from hush.query.sql.from_clause import (
    alias_of,
    check_select,
    derived,
    from_clause,
    from_item,
    members_of,
    with_parts,
)
from hush.query.sql.functions import is_aggregate
from hush.query.sql.group_by import Grouped, Projection, group_items, grouping_sets, projections
from hush.query.sql.joins import conjuncts, is_cross
from hush.query.sql.names import Answers, Binding, Context, FromSource, Part, Parts, Scope, UnitName, named_source
from hush.query.sql.select import (
    Finished,
    check_outputs,
    counted,
    finished,
    ordered,
    pruned_question,
)
from hush.query.sql.windows import Windows, fold, spread
from hush.query.types import Kind, Type, written_in

NO_ROWS = Scan(table="answers", public=True, columns=())


Read = Callable[[exp.Expr, Context, Parts], Answers]
"""Resolves a query that is made of finished questions."""


def is_finished(node: object, context: Context, parts: Parts) -> bool:
    """Return whether an item of FROM is made of finished questions."""
    if isinstance(node, exp.Table):
        definition = part_of(node, parts)
        return definition is not None and is_finished(definition.query, context, definition.parts)
    if not isinstance(node, exp.Query):
        return False
    if id(node) not in context.finished:
        with context.trial():
            finished = _is_finished(node, context, parts)
        context.finished[id(node)] = finished, node  # the node too, so that its id stays its own
    return context.finished[id(node)][0]


def _is_finished(node: exp.Query, context: Context, parts: Parts) -> bool:
    try:
        parts = with_parts(node, context, parts)
        if isinstance(node, exp.Subquery):
            return is_finished(node.this, context, parts)
        if isinstance(node, exp.SetOperation):
            return is_finished(node.this, context, parts) or is_finished(node.expression, context, parts)
        if not isinstance(node, exp.Select):
            return False
        if reads_answers(node, context, parts):
            return True
        grouped = is_set(node.args.get("group")) or is_set(node.args.get("having"))
        if not grouped and not any(map(aggregates_outside_windows, node.expressions)):
            return False
        scope = from_clause(node, context, parts)
        rows = Rows(context, scope)
        lists = grouping_sets(node, projections(node), rows)
        return scope.private and not any(_of_one_unit(rows, key) for keys in lists for key in keys)
    except QuestionError:
        return False  # said where it is resolved


def reads_answers(select: exp.Select, context: Context, parts: Parts) -> bool:
    """Return whether a SELECT reads answers, perhaps beside public tables, and no rows of units."""
    items = from_items(select)
    finished = [is_finished(source, context, parts) for source in items]
    if not any(finished) or all(finished):
        return any(finished)
    with context.trial():
        rows = [source for source, answers in zip(items, finished, strict=True) if not answers]
        return not any(from_item(source, context, parts).private for source in rows)


def _of_one_unit(rows: Rows, node: exp.Expr) -> bool:
    """Return whether a key of GROUP BY is the unit, or belongs to one."""
    if rows.unit(node):
        return True
    expression = rows.convert(node)
    return isinstance(expression, Column) and expression.name in rows.context.links


def from_items(select: exp.Select) -> list[exp.Expr]:
    """Return the items of FROM and its joins."""
    clause = select.args.get("from_")
    first = [] if clause is None else [clause.this]
    return [*first, *(join.this for join in select.args.get("joins") or ())]


def part_of(node: exp.Table, parts: Parts) -> Part | None:
    """Return the part of WITH that an item of FROM names."""
    if not isinstance(node.this, exp.Identifier) or is_set(node.args.get("db")):
        return None
    return parts.get(identifier(node.this).casefold())


def aggregates_outside_windows(node: exp.Expr) -> bool:
    """Return whether a node has aggregates that are not window functions themselves."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        aggregate = node.this
        outside = [child for child in children(node) if child is not aggregate]
        if isinstance(aggregate, exp.Filter):
            outside.append(aggregate.expression)
            aggregate = aggregate.this
        return any(map(aggregates_outside_windows, (*outside, *children(aggregate))))
    return is_aggregate(node) or any(map(aggregates_outside_windows, children(node)))


# FROM


def from_answers(
    select: exp.Select, context: Context, parts: Parts, read: Read
) -> tuple[AnswerTable, list[FromSource], dict[str, Binding]]:
    """Return the answers that a SELECT reads: the table, its names, and the names that USING joined."""
    clause = select.args["from_"]
    only(clause, "this")
    table, source = answer_item(clause.this, context, parts, read)
    sources: list[FromSource] = [source]
    merged: dict[str, Binding] = {}
    for join in select.args.get("joins") or ():
        if not isinstance(join, exp.Join):
            raise refuse(join)
        joined, source = answer_item(join.this, context, parts, read)
        if is_cross(join) and select.args.get("where") is not None:  # FROM a, b WHERE a.key = b.key
            join = _on(join, conjuncts(select.args["where"].this), [*sources, source])  # noqa: PLW2901
        table, source, merged = _joined(join, (table, sources, merged), (joined, source), context)
        sources.append(source)
    return table, sources, merged


def answer_item(node: exp.Expr, context: Context, parts: Parts, read: Read) -> tuple[AnswerTable, FromSource]:
    """Return an item of FROM as a table of answers (a public table as a list of keys), with its column names."""
    if not is_finished(node, context, parts):
        node = _public_rows(node, context, parts)
    if isinstance(node, exp.Table):
        only(node, "this", "alias")
        definition = part_of(node, parts)
        assert definition is not None  # noqa: S101 - only parts of WITH are finished
        definition.used = True
        earlier = definition.answers
        answers = read(definition.query, context, definition.parts) if earlier is None else earlier
        names = list(named_source(answers.names, "WITH", definition.columns).names.values())
        table = answers.table
        if earlier is not None:  # read twice: each has names of its own
            columns = columns_of(table)
            fresh = {column.name: context.fresh(column.name) for column in columns}
            table = Computed(source=table, columns=tuple((fresh[column.name], column.column) for column in columns))
            names = [(name, fresh[str(unique)]) for name, unique in names]
        definition.answers = answers
        default: str | None = identifier(node.this)
    elif isinstance(node, exp.Subquery):
        only(node, "this", "alias", "with_")
        bare = node.copy()
        bare.set("alias", None)
        answers = read(bare, context, parts)
        names, table, default = list(answers.names), answers.table, None
    else:
        raise refuse(node)
    alias, renamed = alias_of(node)
    return table, named_source(names, alias or default, renamed)


def _on(join: exp.Join, conditions: list[exp.Expr], sources: list[FromSource]) -> exp.Join:
    """Return a cross join as a join ON the equalities of WHERE between the new source and an earlier one."""
    names_by_alias = {(source.alias or "").casefold(): source.names.keys() for source in sources}
    last = (sources[-1].alias or "").casefold()

    def owner(node: exp.Expr) -> str | None:
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        name, table = node.name.casefold(), node.table.casefold()
        owners = [alias for alias, names in names_by_alias.items() if name in names and table in {"", alias}]
        return owners[0] if len(owners) == 1 else None

    equal = [condition for condition in conditions if isinstance(condition, exp.EQ)]
    sides = [(condition, {owner(condition.this), owner(condition.expression)}) for condition in equal]
    joined = [condition.copy() for condition, both in sides if None not in both and last in both and len(both) == 2]
    return exp.Join(this=join.this, on=exp.and_(*joined)) if joined else join


def _public_rows(node: exp.Expr, context: Context, parts: Parts) -> exp.Expr:
    """Return a public table as a question that asks for its rows as keys: they are listed, and cost nothing."""
    with context.trial():
        scope = from_item(node, context, parts)
    if scope.private:
        raise QuestionError(
            f"{shown(node)} has rows of units, which cannot meet noisy answers.",
            "Ask for the number first, and write it, or pass it as a parameter. Where the answer has keys, join the "
            "tables in the question itself, before it aggregates.",
        )
    if not isinstance(scope.relation, Scan):
        raise QuestionError(
            f"Answers are joined with answers, and with public tables as they are stored; got {shown(node)}.",
            "Join the public table itself, and put its conditions into WHERE.",
        )
    names = [name for source in scope.sources for key, (name, _) in source.names.items() if key not in source.hidden]
    alias = exp.to_identifier(scope.sources[0].alias or "_public", quoted=True)
    columns = [exp.column(exp.to_identifier(name, quoted=True), table=alias.copy()) for name in names]
    # a question needs a private table; with public keys alone it costs nothing (`at_price`)
    private = next(table.name for table in context.schema.tables.values() if not table.public)
    rows = exp.Table(
        this=exp.to_identifier(private, quoted=True), alias=exp.TableAlias(this=exp.to_identifier("_rows"))
    )
    # all columns, so that rows which agree on those that are read stay apart; after LEFT JOIN NULL is a key, too, and
    # the row of NULLs alone that it adds is left out
    keys = exp.Select(expressions=columns, group=exp.Group(expressions=[column.copy() for column in columns]))
    keys.set("from_", exp.From(this=rows))
    public = node.copy()
    public.set("alias", exp.TableAlias(this=alias.copy()))
    keys.set("joins", [exp.Join(this=public, side="LEFT", on=exp.true())])
    keys.set("having", exp.Having(this=exp.or_(*(column.copy().is_(exp.null()).not_() for column in columns))))
    return exp.Subquery(this=keys, alias=exp.TableAlias(this=alias))


def _joined(
    join: exp.Join,
    before: tuple[AnswerTable, list[FromSource], dict[str, Binding]],
    after: tuple[AnswerTable, FromSource],
    context: Context,
) -> tuple[AnswerTable, FromSource, dict[str, Binding]]:
    only(join, "this", "side", "kind", "on", "using")
    (table, sources, merged), (joined, source) = before, after
    how = str(join.args.get("side") or "inner").lower()
    kind = str(join.args.get("kind") or "").upper()
    if how not in {"inner", "left", "right", "full"} or kind not in {"", "INNER", "OUTER", "CROSS"}:
        raise QuestionError(f"{shown(join)} is not supported over answers.", "Use JOIN, LEFT JOIN or FULL JOIN.")
    pairs: list[tuple[str, str]] = []
    conditions: list[Expression] = []
    names: dict[str, Binding] = {}
    if is_set(join.args.get("using")):
        used = [identifier(node) for node in join.args["using"]]
        scope = Scope(_scan(table), sources, merged)
        inner = Scope(_scan(joined), [source])
        pairs += [(str(scope.require(name)), str(inner.require(name))) for name in used]
        side = 1 if how == "right" else 0
        names = {name.casefold(): pair[side] for name, pair in zip(used, pairs, strict=True)}
        if how == "full":
            raise QuestionError(
                "FULL JOIN over answers needs ON.", "Write ON a.key = b.key, and COALESCE(a.key, b.key)."
            )
        source = FromSource(source.alias, source.names, merged=frozenset(names))
    elif is_set(join.args.get("on")):
        both = {
            **{column.name: column.type for column in columns_of(table)},
            **{column.name: column.type for column in columns_of(joined)},
        }
        scan = Scan(table="answers", public=True, columns=tuple((name, name, type_) for name, type_ in both.items()))
        condition = Rows(context, Scope(scan, [*sources, source], merged, settled=True)).condition(join.args["on"])
        pairs, conditions = _equalities(condition, {column.name for column in columns_of(table)})
    elif how != "inner":
        raise QuestionError(f"{shown(join)} needs ON or USING.", "Write ON a.key = b.key.")
    if conditions and how != "inner":
        raise QuestionError("An outer join over answers is on equal keys alone.", "Move other conditions to WHERE.")
    noise = {name for pair in pairs for name in pair} & (noisy_names(table) | noisy_names(joined))
    if noise:
        raise QuestionError("Answers are joined on keys; noisy numbers are equal by chance.", "Join on the keys.")
    _check_few(table, joined, pairs, shown(join))
    if how == "right":
        # a RIGHT JOIN is a LEFT JOIN with its sides exchanged
        table, joined, pairs, how = joined, table, [(b, a) for a, b in pairs], "left"
    result: AnswerTable = Matched(left=table, right=joined, on=tuple(pairs), how=how)
    for condition in conditions:
        result = Qualified(source=result, condition=condition)
    return result, source, merged | names


def _equalities(condition: Expression, left_names: set[str]) -> tuple[list[tuple[str, str]], list[Expression]]:
    """Return the pairs of equal columns in ON, left and right, and all other conditions."""
    pairs: list[tuple[str, str]] = []
    conditions: list[Expression] = []
    stack = [condition]
    while stack:
        term = stack.pop()
        arguments: Sequence[Expression] = getattr(term, "arguments", ())
        op = getattr(term, "op", None)
        if op is Op.AND:
            stack.extend(reversed(arguments))
        elif op is Op.EQUAL and all(isinstance(argument, Column) for argument in arguments):
            a, b = (argument.name for argument in arguments if isinstance(argument, Column))
            # an equality within one side is a filter, not a join condition
            if (a in left_names) is not (b in left_names):
                pairs.append((a, b) if a in left_names else (b, a))
            else:
                conditions.append(call(Op.EQUAL, *arguments))
        else:
            conditions.append(term)
    return pairs, conditions


def _check_few(first: AnswerTable, second: AnswerTable, pairs: list[tuple[str, str]], join: str) -> None:
    """Refuse a join that may make more rows than one of its sides has."""
    # if the pairs cover a key of one side, each row of the other meets one row at most
    for side, index in ((second, 1), (first, 0)):
        keys = row_keys(side)
        if keys is not None and keys <= {pair[index] for pair in pairs}:
            return
    raise QuestionError(
        f"{join} could make many rows of one: it is not on all keys of either side.",
        "Join on all keys of one of the two answers, or with an answer that has one row.",
    )


def row_keys(table: AnswerTable) -> frozenset[str] | None:
    """Return columns that are a key of the table (no two rows agree on all); None if no key is known."""
    match table:
        case Asked():
            return frozenset(one.name for one in table.columns if not one.noisy)
        case Qualified() | Sorted() | Windowed():
            return row_keys(table.source)
        case Regrouped():
            return frozenset(name for name, _ in table.keys)
        case Computed():
            before = row_keys(table.source)
            renamed = {one.name: name for name, one in table.columns if isinstance(one, Column)}
            return (
                None if before is None or not before <= renamed.keys() else frozenset(renamed[name] for name in before)
            )
        case Matched():
            one, right_keys = row_keys(table.left), row_keys(table.right)
            return None if one is None or right_keys is None else one | right_keys
        case Stacked():
            return None


# finished questions as tables

_Columns = Mapping[Expression, Expression]
"""The column of each key and aggregate, and of the expressions over them that an engine computes."""


def asked(answers: Answers, context: Context) -> Question | Composed:
    """Return the question of a table of answers: a plain one if all steps work row by row, else a composed one."""
    flat = None if context.awaited else _flattened(answers, context.questions)
    if flat is not None:
        return flat
    table = _with_engine_parts(answers.table, context)
    awaited = tuple((_with_engine_parts(awaited_table, context), column) for awaited_table, column in context.awaited)
    return Composed(
        data=context.schema.data,
        questions=tuple(context.questions),
        table=table,
        outputs=tuple(answers.names),
        awaited=awaited,
    )


def _flattened(answers: Answers, questions: Sequence[Question]) -> Question | None:
    """Return the one question that everything can be put into; None if rows are compared or cut before the end."""
    table = answers.table
    steps: list[AnswerTable] = []
    while isinstance(table, Computed | Qualified | Sorted):
        steps.append(table)
        table = table.source
    if not isinstance(table, Asked):
        return None
    question = questions[table.question]
    meaning: dict[str, Expression] = {
        each.name: output for each, (_, output) in zip(table.columns, question.outputs, strict=True)
    }
    conditions: list[Expression] = []
    order: tuple[Ordering, ...] = ()
    limit, offset = None, 0
    for step in reversed(steps):
        match step:
            case Computed():
                meaning = {name: with_columns(each, meaning) for name, each in step.columns}
            case Qualified():
                if limit is not None or offset:
                    return None
                conditions.append(with_columns(step.condition, meaning))
            case Sorted():
                if limit is not None or offset:
                    return None
                order = (
                    tuple(replace(ordering, by=with_columns(ordering.by, meaning)) for ordering in step.order) or order
                )
                limit, offset = step.limit, step.offset
    having = None if not conditions else conditions[0] if len(conditions) == 1 else all_of(conditions)
    outputs = tuple((label, meaning[unique]) for label, unique in answers.names)
    return replace(question, outputs=outputs, having=having, order=order, limit=limit, offset=offset)


def _with_engine_parts(table: AnswerTable, context: Context) -> AnswerTable:
    """Return a table in which functions of texts and dates, and casts, are outputs of the questions themselves."""
    return _Pushing(context).table(table)[0]


_Meaning = dict[str, tuple[int, Expression]]
"""For each column, a question and the column as an expression over its outputs."""


class _Pushing:
    """Moves expressions that an engine computes into the outputs of the questions that they read."""

    def __init__(self, context: Context) -> None:
        self._questions = context.questions
        self._fresh = context.fresh

    def table(self, table: AnswerTable) -> tuple[AnswerTable, _Meaning]:
        """Return a table, and the meaning of its columns."""
        match table:
            case Asked():
                outputs = self._questions[table.question].outputs
                pairs = zip(table.columns, outputs, strict=False)
                return table, {column.name: (table.question, output) for column, (_, output) in pairs}
            case Stacked():
                return with_sources(table, lambda source: self.table(source)[0]), {}
            case Matched():
                (first, of_first), (second, of_second) = self.table(table.left), self.table(table.right)
                both = {number for number, _ in of_first.values()} & {number for number, _ in of_second.values()}
                # where both sides read one question, a row has two of its groups, and a name would not say which
                meaning = {name: each for name, each in (of_first | of_second).items() if each[0] not in both}
                return replace(table, left=first, right=second), meaning
        source, meaning = self.table(table.source)

        def pushed(expression: Expression) -> Expression:
            return self._pushed(expression, meaning)

        match table:
            case Qualified():
                return Qualified(source=source, condition=pushed(table.condition)), meaning
            case Sorted():
                order = tuple(replace(ordering, by=pushed(ordering.by)) for ordering in table.order)
                return replace(table, source=source, order=order), meaning
            case Computed():
                columns = tuple((name, pushed(expression)) for name, expression in table.columns)
                return Computed(source=source, columns=columns), self._meanings(table.columns, meaning)
            case Windowed():
                windows = tuple((name, window.mapped(pushed)) for name, window in table.windows)
                return Windowed(source=source, windows=windows), meaning
            case Regrouped():
                keys = tuple((name, pushed(key)) for name, key in table.keys)
                folds = tuple((name, fold_over_rows.mapped(pushed)) for name, fold_over_rows in table.folds)
                return replace(table, source=source, keys=keys, folds=folds), {}

    def _meanings(self, columns: tuple[Named, ...], meaning: _Meaning) -> _Meaning:
        meanings = {name: self._meaning(expression, meaning) for name, expression in columns}
        return {name: expression for name, expression in meanings.items() if expression is not None}

    def _meaning(self, expression: Expression, meaning: _Meaning) -> tuple[int, Expression] | None:
        if isinstance(expression, Column):
            return meaning.get(expression.name)
        if not isinstance(expression, Call):
            return None
        parts = [
            self._meaning(argument, meaning) for argument in expression.arguments if not isinstance(argument, Literal)
        ]
        numbers = {each[0] for each in parts if each is not None}
        if None in parts or len(numbers) != 1:
            return None
        meanings = iter(each[1] for each in parts if each is not None)
        arguments = tuple(
            argument if isinstance(argument, Literal) else next(meanings) for argument in expression.arguments
        )
        return numbers.pop(), Call(expression.op, arguments, expression.type)

    def _pushed(self, expression: Expression, meaning: _Meaning) -> Expression:
        if not isinstance(expression, Call):
            return expression
        if not for_engine(expression):
            return Call(
                expression.op,
                tuple(self._pushed(argument, meaning) for argument in expression.arguments),
                expression.type,
            )
        known_as = self._meaning(expression, meaning)
        if known_as is None or noisy(known_as[1]):
            raise QuestionError(
                "A function of texts or dates, or a cast, of what was computed from several answers is not supported.",
                "Compute it in the inner question, from its keys.",
            )
        number, output = known_as
        question = self._questions[number]
        name = next((name for name, known in question.outputs if known == output), None)
        if name is None:
            name = self._fresh("output")
            self._questions[number] = replace(question, outputs=(*question.outputs, (name, output)))
        return Column(name, expression.type)


def answers_of_question(query: Finished, context: Context) -> Answers:
    """Return the answers of a finished question."""
    question = query.question
    table, columns = _levels(query, context) if query.sets is not None else _level(question, context)
    table = query.beside(table)

    def over(expression: Expression) -> Expression:
        return _replaced(expression, columns)

    if question.having is not None:
        table = Qualified(source=table, condition=over(question.having))
    if query.windows:
        windows = tuple((name, window.mapped(over)) for name, window in query.windows)
        table = Windowed(source=table, windows=windows)
    if query.qualify is not None:
        table = Qualified(source=table, condition=over(query.qualify))
    order = tuple(replace(ordering, by=over(ordering.by)) for ordering in question.order)
    outputs = [(name, _written_as(output, over(output))) for name, output in question.outputs]
    return select_results(table, outputs, order, (question.limit, question.offset), context, distinct=query.distinct)


def _written_as(expression: Expression, column: Expression) -> Expression:
    """Return a column that replaces an expression, with the expression's type in the question's dialect."""
    name = expression.type.written
    return replace(column, type=replace(column.type, written=name)) if name else column


def select_results(
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
    columns = tuple((unique, output) for (_, unique), (_, output) in zip(names, outputs, strict=True))
    if distinct:
        table = Computed(source=table, columns=columns)
        keys = tuple(
            (context.fresh(label), Column(unique, output.type))
            for (label, unique), (_, output) in zip(names, columns, strict=True)
        )
        table = Regrouped(source=table, keys=keys, folds=())
        renamed = {output: Column(unique, key.type) for (_, output), (unique, key) in zip(columns, keys, strict=True)}
        if any(ordering.by not in renamed for ordering in order):
            raise QuestionError("With DISTINCT, ORDER BY names results alone.", "Add what it names to SELECT.")
        order = tuple(replace(ordering, by=renamed[ordering.by]) for ordering in order)
        names = [(label, unique) for (label, _), (unique, _) in zip(names, keys, strict=True)]
    if order or limit is not None or offset:
        table = Sorted(source=table, order=order, limit=limit, offset=offset)
    return Answers(table if distinct else Computed(source=table, columns=columns), names)


def _level(question: Question, context: Context) -> tuple[AnswerTable, _Columns]:
    """Return the answer table of a question, and the column of each key and aggregate."""
    keys, aggregates = _released(question)
    sources = [*keys, *aggregates]
    labels = [name for name, _ in question.keys] + [each.kind.name.lower() for each in question.aggregates]
    names = [context.fresh(label) for label in labels]
    bare = replace(
        question, outputs=tuple(zip(names, sources, strict=True)), having=None, order=(), limit=None, offset=0
    )
    # equal questions are asked, and paid for, once
    number = next(
        (index for index, known in enumerate(context.questions) if _same(known, bare)), len(context.questions)
    )
    if number == len(context.questions):
        context.questions.append(bare)
    else:
        names = [name for name, _ in context.questions[number].outputs]
    columns = tuple(
        AnswerColumnName(name=name, type=each.type, noisy=each.source == "aggregate")
        for name, each in zip(names, sources, strict=True)
    )
    table = Asked(question=number, columns=columns)
    return table, {each: Column(name, each.type) for name, each in zip(names, sources, strict=True)}


def _same(first: Question, second: Question) -> bool:
    """Return whether two questions have equal relations, keys and aggregates; names of outputs may differ."""
    return (first.relation, first.keys, first.aggregates) == (second.relation, second.keys, second.aggregates)


def _levels(query: Finished, context: Context) -> tuple[AnswerTable, _Columns]:
    """Return the levels of ROLLUP, CUBE or GROUPING SETS, one below the other."""
    question = query.question
    assert query.sets is not None  # noqa: S101 - the caller looked
    keys, aggregates = _released(question)
    parts = _engine_parts(query)
    columns = [
        *(AnswerColumnName(name=context.fresh("key"), type=key.type.or_null(), noisy=False) for key in keys),
        *(AnswerColumnName(name=context.fresh("aggregate"), type=each.type, noisy=True) for each in aggregates),
    ]
    meanings: dict[Expression, Expression] = {
        each: column.column for each, column in zip([*keys, *aggregates], columns, strict=True)
    }
    bit = constant(Fraction(0)).type
    columns += [AnswerColumnName(name=name, type=bit, noisy=False) for name in query.grouping]
    names = [context.fresh("part") for _ in parts]
    meanings |= {part: Column(name, part.type) for name, part in zip(names, parts, strict=True)}
    columns += [
        AnswerColumnName(name=name, type=part.type.or_null(), noisy=noisy(part))
        for name, part in zip(names, parts, strict=True)
    ]
    sources: list[AnswerTable] = []
    for key_set in query.sets:
        level = pruned_question(question, tuple(question.keys[key] for key in key_set))
        table, released = _level(level, context)
        # keys that are not in this level are NULL, as ROLLUP says
        meaning: dict[Expression, Expression] = {each: Literal(None, each.type.or_null()) for each in keys}
        meaning |= {keys[key]: released[replace(keys[key], index=index)] for index, key in enumerate(key_set)}
        meaning |= {each: released[each] for each in aggregates}
        bits = [constant(Fraction(int(key not in key_set))) for key in range(len(keys) if query.grouping else 0)]
        computed = [*meaning.values(), *bits, *(_replaced(part, meaning) for part in parts)]
        unique = [context.fresh(column.name) for column in columns]
        sources.append(Computed(source=table, columns=tuple(zip(unique, computed, strict=True))))
    stack = Stacked(sources=tuple(sources), columns=tuple(columns), levels=True)
    return stack, meanings


def _released(question: Question) -> tuple[list[Released], list[Released]]:
    """Return the keys and the aggregates of a question, as it releases them."""
    keys = [Released("key", index, each.type) for index, (_, each) in enumerate(question.keys)]
    return keys, [Released("aggregate", index, each.type) for index, each in enumerate(question.aggregates)]


def _engine_parts(query: Finished) -> list[Call]:
    """Return the expressions over keys and aggregates that an engine computes, each once."""
    question = query.question
    expressions = [expression for _, expression in question.outputs] + [ordering.by for ordering in question.order]
    expressions += [expression for expression in (question.having, query.qualify) if expression is not None]
    for _, window in query.windows:
        expressions += [*window.partition, *(ordering.by for ordering in window.order)]
        expressions += [] if window.argument is None else [window.argument]
    calls: dict[Call, None] = {}
    stack = list(expressions)
    while stack:
        expression = stack.pop()
        if isinstance(expression, Call):
            if for_engine(expression):
                calls[expression] = None
            else:
                stack.extend(expression.arguments)
    return list(calls)


def _replaced(expression: Expression, columns: _Columns) -> Expression:
    """Return an expression with everything that is a column replaced by it."""
    if expression in columns:
        return columns[expression]
    if isinstance(expression, Call):
        arguments = tuple(_replaced(argument, columns) for argument in expression.arguments)
        strict = for_engine(expression) and expression.op not in {Op.LEAST, Op.GREATEST}
        if strict and any(_is_null(argument) for argument in arguments):
            return Literal(None, expression.type.or_null())  # all of these are NULL of NULL
        return Call(expression.op, arguments, expression.type)
    return expression


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


# SELECT over answers

_MOST_TABLES = 2000
"""How many tables of answers UNION ALL may put together, each counted as often as it is used."""


def answers_of(node: exp.Expr, context: Context, parts: Parts) -> Answers:
    """Return the answers of a query that is, or is made of, finished questions."""
    if isinstance(node, exp.Subquery):
        only(node, "this", "with_")
        return answers_of(node.this, context, with_parts(node, context, parts))
    if isinstance(node, exp.SetOperation):
        return _stacked(node, context, with_parts(node, context, parts))
    if not isinstance(node, exp.Select):
        raise QuestionError(f"{type(node).__name__} is not a question. {STATEMENTS}")
    context.spend(count_nodes(node))
    parts = with_parts(node, context, parts)
    node = _from_first(node)
    if reads_answers(node, context, parts):
        return _over(node, context, parts)
    return answers_of_question(finished(node, context, parts), context)


def _from_first(select: exp.Select) -> exp.Select:
    """Return ``SELECT (SELECT …) / (SELECT …)``, which has no FROM, with the first subquery there."""
    if is_set(select.args.get("from_")) or select.find(exp.Subquery) is None:
        return select
    plain = select.copy()
    first = plain.find(exp.Subquery)
    assert first is not None  # noqa: S101 - there is one
    alias = exp.TableAlias(this=exp.to_identifier("_first"), columns=[exp.to_identifier("_value")])
    plain.set("from_", exp.From(this=exp.Subquery(this=first.this.copy(), alias=alias)))
    column: exp.Expr = exp.column("_value")
    if first.parent is plain and not first.alias:
        column = exp.alias_(column, "value")
    first.replace(column)
    return plain


def check_unused_parts(context: Context) -> None:
    """Resolve unused parts of WITH, so that every part of a question is checked."""
    for definition in context.parts:
        if not definition.used:
            with context.trial():
                if is_finished(definition.query, context, definition.parts):
                    answers_of(definition.query, context, definition.parts)
                else:
                    derived(definition.query, context, definition.parts).source("WITH", definition.columns)


# SELECT … FROM answers


class _OverRows(Rows):
    """Expressions over rows of answers, in which results may be called by their names."""

    def __init__(self, context: Context, scope: Scope, windows: Windows | None, values: Windows | None = None) -> None:
        super().__init__(context, scope)
        self.windows = windows
        self.values = values or windows
        self.aliases: dict[str, exp.Expr] = {}
        self.aliases_first = False

    def convert(self, node: object) -> Expression:
        """Return our expression for a node; nothing is remembered, because names may change their meaning."""
        if isinstance(node, exp.Window):
            if self.windows is None:
                raise QuestionError("Window functions come after WHERE and GROUP BY.", "Use QUALIFY, or two SELECTs.")
            return self.windows.column(node, self.convert)
        if isinstance(node, exp.Subquery) and self.values is not None:
            return self.values.value(node)
        return Converter.convert(self, node)

    def assuming(self, _condition: Expression, *, outcome: bool = True) -> Rows:  # noqa: ARG002
        """Return this object: a condition on noisy numbers does not narrow the types of columns."""
        return self

    def column(self, node: exp.Column) -> Expression:
        """Return a column of the answers, or the result of that name."""
        if isinstance(node.this, exp.Identifier) and not is_set(node.args.get("table")):
            name = identifier(node.this)
            alias = self.aliases.get(name.casefold())
            if alias is not None and (self.aliases_first or self.scope.find(name) is None):
                # inside an alias, names are columns: an alias cannot name itself
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
        self._named = tuple(keys)
        self._windows = windows
        self._folds: dict[Fold, str] = {}

    def regrouped(self, table: AnswerTable) -> Regrouped:
        """Return the groups of a table with all folds that were asked for."""
        folds = tuple((name, fold_over_rows) for fold_over_rows, name in self._folds.items())
        return Regrouped(source=table, keys=self._named, folds=folds, whole=not self._named)

    def key(self, index: int) -> Expression:
        return Column(self._named[index][0], self.keys[index].type)

    def convert(self, node: object) -> Expression:
        if isinstance(node, exp.Window):
            return self._windows.column(node, self.convert)
        if isinstance(node, exp.Subquery):
            return self._windows.value(node)
        return super().convert(node)

    def aggregate(self, node: exp.Expr) -> Expression:
        if (parts := spread(node)) is not None:
            return self.convert(parts)
        kind, argument = fold(node, self.rows.convert)
        fold_over_rows = Fold(kind=kind, argument=argument)
        name = self._folds.get(fold_over_rows) or self.context.fresh(kind)
        self._folds[fold_over_rows] = name
        return Column(name, fold_over_rows.type)


def _over(select: exp.Select, context: Context, parts: Parts) -> Answers:
    """Return a SELECT over answers."""
    distinct, windows = _distinct(select), Windows(select, context, parts)
    plain = select.copy()
    for extra in ("distinct", "qualify", "windows"):
        plain.set(extra, None)
    check_select(plain)
    check_outputs(select, stars=True)
    table, sources, merged = from_answers(select, context, parts, answers_of)
    scope = Scope(_scan(table), sources, merged, settled=True)
    first = Windows(select, context, parts)  # what WHERE asks for is beside the rows before they are grouped
    where = _OverRows(context, scope, None, first).condition_of(select, "where")
    if where is not None:
        table = Qualified(source=first.beside(table), condition=where)
    items = _results(select, scope)
    aliases = {projection.name.casefold(): projection.node for projection in items if projection.named}
    grouped = any(is_set(select.args.get(name)) for name in ("group", "having"))
    if grouped or any(aggregates_outside_windows(projection.node) for projection in items):
        converter: _OverRows | _Regrouping = _regrouping(select, items, _OverRows(context, scope, None), windows)
    else:
        converter = _OverRows(context, scope, windows)
        converter.aliases = aliases
    outputs = [(projection.name, converter.convert(projection.node)) for projection in items]
    converter.aliases = aliases
    having = converter.condition_of(select, "having")
    qualify = converter.condition_of(select, "qualify")
    converter.aliases_first = True
    order = ordered(select, items, converter)
    cut = counted(select, "limit", converter), counted(select, "offset", converter) or 0
    table = windows.beside(converter.regrouped(table) if isinstance(converter, _Regrouping) else table)
    if having is not None:
        table = Qualified(source=table, condition=having)
    if windows.made:
        table = Windowed(source=table, windows=tuple((name, window) for window, name in windows.made.items()))
    if qualify is not None:
        table = Qualified(source=table, condition=qualify)
    return select_results(table, outputs, order, cut, context, distinct=distinct)


def _regrouping(select: exp.Select, items: Sequence[Projection], rows: _OverRows, windows: Windows) -> _Regrouping:
    """Return the expressions over the groups of a SELECT."""
    keys: list[Named] = []
    for node in group_items(select, items, rows):
        expression = rows.convert(node)
        if expression not in [earlier for _, earlier in keys]:
            keys.append((rows.context.fresh("key"), expression))
    return _Regrouping(rows, keys, windows)


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
    return replace(NO_ROWS, columns=tuple((column.name, column.name, column.type) for column in columns_of(table)))


def _results(select: exp.Select, scope: Scope) -> list[Projection]:
    """Return the results of a SELECT, with * written out."""
    if not any(is_star(node) for node in select.expressions):
        return projections(select)
    plain = select.copy()
    columns: list[exp.Expr] = []
    for node in plain.expressions:
        if not is_star(node):
            columns.append(node)
            continue
        star = node.this if isinstance(node, exp.Column) else node
        only(star)
        table = identifier(node.args["table"]).casefold() if isinstance(node, exp.Column) else None
        for source in scope.sources:
            if table is None or (source.alias or "").casefold() == table:
                columns += [
                    exp.column(
                        exp.to_identifier(name, quoted=True),
                        table=source.alias and exp.to_identifier(source.alias, quoted=True),
                    )
                    for key, (name, binding) in source.names.items()
                    if not isinstance(binding, UnitName) and (table is not None or key not in source.merged)
                ]
    plain.set("expressions", columns)
    check_outputs(plain)
    return projections(plain)


def _stacked(query: exp.SetOperation, context: Context, parts: Parts) -> Answers:
    """Return UNION ALL of answers, or UNION: equal rows once."""
    only(query, "this", "expression", "distinct", "by_name", "with_", "order", "limit", "offset")
    if not isinstance(query, exp.Union):
        raise QuestionError(
            f"{type(query).__name__.upper()} of answers is not supported: noisy numbers are equal by chance.",
            "Join them on their keys: FROM (SELECT …) AS a JOIN (SELECT …) AS b ON a.key = b.key, or for what the "
            "second has not LEFT JOIN … WHERE b.key IS NULL.",
        )
    members = members_of(query)
    if is_set(query.args.get("distinct")):
        members = [_once(member) for member in members]
    answers = [answers_of(member, context, parts) for member in members]
    widths = {len(each.names) for each in answers}
    if len(widths) > 1:
        raise QuestionError("The parts of UNION ALL have different numbers of results.", "Name as many in each.")
    tables, columns = [], []
    for index, (label, _) in enumerate(answers[0].names):
        matching = [
            {each.name: each for each in columns_of(member.table)}[member.names[index][1]] for member in answers
        ]
        kinds = {each.type.kind for each in matching}
        if len(kinds) > 1 and not all(kind.numeric for kind in kinds):
            raise QuestionError(
                f"In UNION ALL, {label} is {' here and '.join(sorted(kind.value for kind in kinds))} there.",
                "Cast one of them.",
            )
        widest = next((each.type for each in matching if each.type.kind is not matching[0].type.kind), matching[0].type)
        kind = widest.kind if len(kinds) == 1 or not widest.kind.numeric else Kind.DECIMAL
        type_ = Type(kind, written=written_in(each.type for each in matching))
        columns.append(
            AnswerColumnName(name=context.fresh(label), type=type_, noisy=any(each.noisy for each in matching))
        )
    for member in answers:
        types = {each.name: each.type for each in columns_of(member.table)}
        renamed = tuple((context.fresh(label), Column(unique, types[unique])) for label, unique in member.names)
        tables.append(Computed(source=member.table, columns=renamed))
    if sum(1 for each in tables for _ in walk(each)) > _MOST_TABLES:
        raise QuestionError(
            f"UNION ALL puts more than {_MOST_TABLES:,} tables of answers together.", "Ask for less at once."
        )
    labels = [label for label, _ in answers[0].names]
    if len({label.casefold() for label in labels}) < len(labels):
        raise QuestionError("Two results have one name.", "Give one another name with AS.")
    table: AnswerTable = Stacked(sources=tuple(tables), columns=tuple(columns))
    names = [(label, each.name) for label, each in zip(labels, columns, strict=True)]
    if is_set(query.args.get("distinct")):
        once = select_results(
            table,
            [(label, each.column) for label, each in zip(labels, columns, strict=True)],
            (),
            (None, 0),
            context,
            distinct=True,
        )
        table, names = once.table, once.names
    if any(is_set(query.args.get(name)) for name in ("order", "limit", "offset")):
        source = FromSource(None, {label.casefold(): (label, unique) for label, unique in names})
        rows = _OverRows(context, Scope(_scan(table), [source], settled=True), None)
        items = [Projection(label, exp.column(exp.to_identifier(label, quoted=True)), named=True) for label in labels]
        order = ordered(query, items, rows)
        cut = counted(query, "limit", rows), counted(query, "offset", rows) or 0
        table = Sorted(source=table, order=order, limit=cut[0], offset=cut[1])
    return Answers(table, names)


def _once(member: exp.Expr) -> exp.Expr:
    """Return ``SELECT a FROM …`` as ``SELECT DISTINCT a FROM …``, which is the same in a UNION."""
    if not isinstance(member, exp.Select) or any(is_set(member.args.get(name)) for name in ("group", "distinct")):
        return member
    keys = member.copy()
    keys.set("distinct", exp.Distinct())
    return keys
