"""Finished questions as tables of answers, and back to one question where every step works row by row.

A finished question releases its keys and aggregates. All that its SELECT says further, and whatever is selected from
it, is a tree of steps over the table of what was released (`hush.query.answers.tree`). At the end the steps are put
into the question itself, of which nothing else is left then; or, where rows are compared with each other or cut before
the end, the question is composed of several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from hush.query.answers.tree import (
    AnswerColumnName,
    AnswerTable,
    Asked,
    Composed,
    Computed,
    Matched,
    Qualified,
    Regrouped,
    Sorted,
    Stacked,
    Windowed,
    columns_of,
    null_of_null,
)
from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released, columns_in, with_columns
from hush.query.functions import all_of, constant
from hush.query.functions.record import is_null
from hush.query.question import Ordering, Question
from hush.query.relations import Named, pruned, used, with_sources
from hush.query.released import for_engine, noisy
from hush.query.sql.dialects import collation_notes
from hush.query.sql.names import Answers, Context


def level(question: Question, named: Sequence[Column], context: Context) -> AnswerTable:
    """Return the answer table of a question without outputs: its keys and aggregates, in columns of these names.

    The question reads no other columns than it needs.
    """
    names = [column.name for column in named]
    expressions: list[Expression | None] = [key for _, key in question.keys]
    released = [Released("key", index, key.type) for index, (_, key) in enumerate(question.keys)]
    for index, aggregate in enumerate(question.aggregates):
        expressions += [*aggregate.arguments, aggregate.where]
        released.append(Released("aggregate", index, aggregate.type))
    relation, outputs = pruned(question.relation, used(expressions)), tuple(zip(names, released, strict=True))
    question = replace(question, relation=relation, outputs=outputs)
    if context.dialect == "tsql":
        question = replace(question, notes=collation_notes(question))
    columns = [AnswerColumnName(name=name, type=r.type, noisy=r.source == "aggregate") for name, r in outputs]
    for number, known in enumerate(context.questions):
        # equal questions are asked, and paid for, once; names of outputs may differ
        if (known.relation, known.keys, known.aggregates) == (relation, question.keys, question.aggregates):
            columns = [replace(column, name=n) for column, (n, _) in zip(columns, known.outputs, strict=False)]
            renamed = zip(names, (column.column for column in columns), strict=True)
            return Computed(source=Asked(question=number, columns=tuple(columns)), columns=tuple(renamed))
    context.questions.append(question)
    return Asked(question=len(context.questions) - 1, columns=tuple(columns))


def levels(
    question: Question,
    sets: Sequence[tuple[int, ...]],
    columns: Sequence[Column],
    grouping: Sequence[str],
    context: Context,
) -> AnswerTable:
    """Return the levels of ROLLUP, CUBE or GROUPING SETS, one below the other.

    ``sets`` are the keys of each level, ``columns`` those of all keys and aggregates, and ``grouping`` for each key the
    column that says whether a row lacks it.
    """
    keys = len(question.keys)
    bits = [Column(name, constant(Fraction(0)).type) for name in grouping]
    stacked = [
        AnswerColumnName(name=each.name, type=each.type, noisy=each in columns[keys:]) for each in (*columns, *bits)
    ]
    sources: list[AnswerTable] = []
    for key_set in sets:
        own = [columns[place] for place in (*key_set, *range(keys, len(columns)))]
        fresh = [Column(context.fresh(column.name), column.type) for column in own]
        table = level(replace(question, keys=tuple(question.keys[key] for key in key_set)), fresh, context)
        # keys that are not in this level are NULL, as ROLLUP says
        meaning: dict[str, Expression] = {column.name: Literal(None, column.type) for column in columns[:keys]}
        meaning |= {column.name: column_here for column, column_here in zip(own, fresh, strict=True)}
        meaning |= {name: constant(Fraction(int(key not in key_set))) for key, name in enumerate(grouping)}
        sources.append(Computed(source=table, columns=tuple((context.fresh(n), each) for n, each in meaning.items())))
    return Stacked(sources=tuple(sources), columns=tuple(stacked), levels=True)


def select_results(
    table: AnswerTable,
    outputs: Sequence[Named],
    context: Context,
    *,
    order: tuple[Ordering, ...] = (),
    limit: int | None = None,
    offset: int = 0,
    distinct: bool,
) -> Answers:
    """Return the results of a SELECT: ORDER BY and LIMIT, and equal rows once if DISTINCT says so."""
    names: list[tuple[str, str]] = []
    columns: list[Named] = []
    for label, output in outputs:
        names.append((label, context.fresh(label)))
        columns.append((names[-1][1], output))
    if distinct:
        triples = [(label, unique, output.type) for (label, unique), (_, output) in zip(names, columns, strict=True)]
        keys = tuple((context.fresh(label), Column(unique, type_)) for label, unique, type_ in triples)
        table = Regrouped(source=Computed(source=table, columns=tuple(columns)), keys=keys, folds=())
        renamed = {output: Column(unique, key.type) for (_, output), (unique, key) in zip(columns, keys, strict=True)}
        if any(ordering.by not in renamed for ordering in order):
            raise QuestionError("With DISTINCT, ORDER BY names results alone.", "Add what it names to SELECT.")
        order = tuple(replace(ordering, by=renamed[ordering.by]) for ordering in order)
        names = [(label, unique) for (label, _), (unique, _) in zip(names, keys, strict=True)]
    if order or limit is not None or offset:
        table = Sorted(source=table, order=order, limit=limit, offset=offset)
    return Answers(table if distinct else Computed(source=table, columns=tuple(columns)), names)


def row_keys(table: AnswerTable) -> frozenset[str] | None:
    """Return columns that are a key of the table (no two rows agree on all); None if no key is known."""
    match table:
        case Asked():
            return frozenset(column.name for column in table.columns if not column.noisy)
        case Qualified() | Sorted() | Windowed():
            return row_keys(table.source)
        case Regrouped():
            return frozenset(name for name, _ in table.keys)
        case Computed():
            before = row_keys(table.source)
            renamed = {column.name: name for name, column in table.columns if isinstance(column, Column)}
            known = before is not None and before <= renamed.keys()
            return frozenset(renamed[name] for name in before) if known and before is not None else None
        case Matched():
            left, right = row_keys(table.left), row_keys(table.right)
            return None if left is None or right is None else left | right
        case Stacked():
            return None


# One question, or several


def asked(answers: Answers, context: Context) -> Question | Composed:
    """Return the question of a table of answers: a plain one if all steps work row by row, else a composed one.

    All steps are put into one question, unless rows are compared with each other, or cut before the end.
    """
    table, steps = answers.table, list[Computed | Qualified | Sorted]()
    chosen = cut_early = False
    while isinstance(table, Computed | Qualified | Sorted):  # those that look at one row at a time, the last one first
        steps.append(table)
        # of the steps that choose or sort rows, the last one alone may cut
        cut_early |= chosen and isinstance(table, Sorted) and (table.limit is not None or table.offset > 0)
        chosen |= not isinstance(table, Computed)
        table = table.source
    if context.awaited or cut_early or not isinstance(table, Asked):
        table = _pushed_down(answers.table, context)
        awaited = tuple((_pushed_down(each, context), column) for each, column in context.awaited)
        return Composed(
            data=context.schema.data,
            questions=tuple(context.questions),
            table=table,
            outputs=tuple(answers.names),
            awaited=awaited,
        )
    question = context.questions[table.question]
    meaning = dict(question.outputs)
    conditions: list[Expression] = []
    order: tuple[Ordering, ...] = ()
    limit, offset = None, 0
    for step in reversed(steps):
        if isinstance(step, Computed):
            meaning = {name: with_columns(each, meaning) for name, each in step.columns}
        elif isinstance(step, Qualified):
            conditions.append(with_columns(step.condition, meaning))
        else:
            if step.order:
                order = tuple(replace(ordering, by=with_columns(ordering.by, meaning)) for ordering in step.order)
            limit, offset = step.limit, step.offset
    outputs = tuple([(label, meaning[unique]) for label, unique in answers.names])
    having = None if not conditions else conditions[0] if len(conditions) == 1 else all_of(conditions)
    return replace(question, outputs=outputs, having=having, order=order, limit=limit, offset=offset)


def _pushed_down(table: AnswerTable, context: Context) -> AnswerTable:
    """Return a table in which functions of texts and dates, and casts, are outputs of the questions themselves."""
    table = with_sources(table, lambda source: _pushed_down(source, context))
    if isinstance(table, Asked | Matched | Stacked):
        return table
    source: AnswerTable = table.source
    columns: dict[Expression, Expression] = {}

    def pushed(expression: Expression) -> Expression:
        """Return an expression over columns with functions for the engine replaced by columns of the source."""
        nonlocal source
        if not isinstance(expression, Call):
            return expression
        if not for_engine(expression):
            return Call(expression.op, tuple(map(pushed, expression.arguments)), expression.type)
        if expression not in columns:
            source, columns[expression] = _with_column(source, expression, context)
        return columns[expression]

    match table:
        case Qualified():
            table = replace(table, condition=pushed(table.condition))
        case Sorted():
            table = replace(table, order=tuple(replace(each, by=pushed(each.by)) for each in table.order))
        case Computed():
            table = replace(table, columns=tuple((name, pushed(each)) for name, each in table.columns))
        case Windowed():
            table = replace(table, windows=tuple((name, each.mapped(pushed)) for name, each in table.windows))
        case Regrouped():
            keys = tuple((name, pushed(key)) for name, key in table.keys)
            table = replace(table, keys=keys, folds=tuple((name, fold.mapped(pushed)) for name, fold in table.folds))
    return replace(table, source=source)


def _with_column(table: AnswerTable, expression: Expression, context: Context) -> tuple[AnswerTable, Column]:
    """Return a table with a further column, which a question computes from its keys."""
    match table:
        case Asked():
            question = context.questions[table.question]
            output = with_columns(expression, dict(question.outputs))
            if not noisy(output):
                name = next((name for name, known in question.outputs if known == output), context.fresh("output"))
                if name not in dict(question.outputs):
                    question = replace(question, outputs=(*question.outputs, (name, output)))
                    context.questions[table.question] = question
                computed = AnswerColumnName(name=name, type=expression.type, noisy=False)
                others = tuple(other for other in table.columns if other != computed)
                return replace(table, columns=(*others, computed)), computed.column
        case Computed():
            source, inner = table.source, _put_in(expression, dict(table.columns))
            if isinstance(inner, Call):
                source, inner = _with_column(source, inner, context)
            column = Column(context.fresh("output"), expression.type)
            return replace(table, source=source, columns=(*table.columns, (column.name, inner))), column
        case Qualified() | Sorted() | Windowed():
            # a window's own column is not there before the window is computed
            if columns_in(expression) <= {column.name for column in columns_of(table.source)}:
                source, column = _with_column(table.source, expression, context)
                return replace(table, source=source), column
        case Stacked():
            sources_with, names = [], [column.name for column in table.columns]
            for source in table.sources:
                own = dict(zip(names, (column.column for column in columns_of(source)), strict=True))
                sources_with.append(_with_column(source, with_columns(expression, own), context)[0])
            computed = AnswerColumnName(name=context.fresh("output"), type=expression.type.or_null(), noisy=False)
            return replace(table, sources=tuple(sources_with), columns=(*table.columns, computed)), computed.column
        case Matched():
            left, right = ({column.name for column in columns_of(side)} for side in (table.left, table.right))
            # where an outer join leaves a row out, its columns are NULL, and so must be what is made of them
            if columns_in(expression) <= left and (table.how != "full" or null_of_null(expression)):
                source, column = _with_column(table.left, expression, context)
                return replace(table, left=source), column
            if columns_in(expression) <= right and (table.how == "inner" or null_of_null(expression)):
                source, column = _with_column(table.right, expression, context)
                return replace(table, right=source), column
    raise QuestionError(
        "A function of texts or dates, or a cast, of what was computed from several answers is not supported.",
        "Compute it in the inner question, from its keys.",
    )


def _put_in(expression: Expression, meaning: Mapping[str, Expression]) -> Expression:
    """Return an expression with the meaning of all columns in it, of which some may be NULL."""
    if isinstance(expression, Column):
        return meaning[expression.name]
    if not isinstance(expression, Call):
        return expression
    arguments = tuple(_put_in(argument, meaning) for argument in expression.arguments)
    strict = for_engine(expression) and expression.op not in {Op.LEAST, Op.GREATEST}
    if strict and any(map(is_null, arguments)):
        return Literal(None, expression.type.or_null())  # all of these are NULL of NULL
    return Call(expression.op, arguments, expression.type)
