"""Finished questions as tables of answers, and back.

There: what a finished question releases becomes a table, with the levels of ROLLUP, CUBE and GROUPING SETS one below
the other, and what SELECT says of it is done to that table. Back: where everything is done row by row, a question alone
is left; else a table remains.

Functions of texts and dates, and casts, are computed by an engine (`hush.query.released`). Where they are functions of
one question's keys they become outputs of that question, so that its engine computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hush.query.composed import (
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
)
from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released, with_columns
from hush.query.functions import FUNCTIONS, all_of, constant
from hush.query.question import Ordering, Question
from hush.query.relations import Named
from hush.query.released import noisy
from hush.query.sql.finished import Finished, pruned_question
from hush.query.sql.matching import Answers
from hush.query.sql.scope import Context


def asked(made: Answers, context: Context) -> Question | Composed:
    """Return what a table of answers asks: a question alone where it is done row by row."""
    flat = _flattened(made, context.questions)
    if flat is not None:
        return flat
    table = _with_engine_parts(made.table, context)
    return Composed(
        data=context.schema.data, questions=tuple(context.questions), table=table, outputs=tuple(made.names)
    )


def for_engine(expression: Expression) -> bool:
    """Return whether an engine computes a function, also over what was released."""
    if not isinstance(expression, Call):
        return False
    ordered = expression.op in {Op.LEAST, Op.GREATEST} and not expression.type.kind.numeric
    return ordered or FUNCTIONS[expression.op].computed_by_engine


def _flattened(made: Answers, questions: Sequence[Question]) -> Question | None:
    """Return the one question that everything can be put into; None if rows are compared or cut before the end."""
    table = made.table
    steps: list[AnswerTable] = []
    while isinstance(table, Computed | Qualified | Sorted):
        steps.append(table)
        table = table.source
    if not isinstance(table, Asked):
        return None
    question = questions[table.question]
    known: dict[str, Expression] = {
        one.name: output for one, (_, output) in zip(table.columns, question.outputs, strict=True)
    }
    conditions: list[Expression] = []
    order: tuple[Ordering, ...] = ()
    limit, offset = None, 0
    for step in reversed(steps):
        match step:
            case Computed():
                known = {name: with_columns(one, known) for name, one in step.columns}
            case Qualified():
                if limit is not None or offset:
                    return None
                conditions.append(with_columns(step.condition, known))
            case Sorted():
                if limit is not None or offset:
                    return None
                order = tuple(replace(item, by=with_columns(item.by, known)) for item in step.order) or order
                limit, offset = step.limit, step.offset
    having = None if not conditions else conditions[0] if len(conditions) == 1 else all_of(conditions)
    outputs = tuple((label, known[unique]) for label, unique in made.names)
    return replace(question, outputs=outputs, having=having, order=order, limit=limit, offset=offset)


def _with_engine_parts(table: AnswerTable, context: Context) -> AnswerTable:
    """Return a table in which functions of texts and dates, and casts, are outputs of the questions themselves."""
    return _Pushing(context).table(table)[0]


_Meaning = dict[str, tuple[int, Expression]]
"""Of which question a column is an expression over what it releases."""


class _Pushing:
    """Moves what an engine computes into the questions that release what it is computed from."""

    def __init__(self, context: Context) -> None:
        self._questions = context.questions
        self._fresh = context.fresh

    def table(self, table: AnswerTable) -> tuple[AnswerTable, _Meaning]:
        """Return a table, and what its columns mean."""
        match table:
            case Asked():
                outputs = self._questions[table.question].outputs
                return table, {
                    one.name: (table.question, output) for one, (_, output) in zip(table.columns, outputs, strict=False)
                }
            case Stacked():
                return replace(table, sources=tuple(self.table(one)[0] for one in table.sources)), {}
            case Matched():
                (left, one), (right, other) = self.table(table.left), self.table(table.right)
                both = {number for number, _ in one.values()} & {number for number, _ in other.values()}
                meaning = {name: found for name, found in (one | other).items() if found[0] not in both}
                return replace(table, left=left, right=right), meaning
            case Qualified():
                source, meaning = self.table(table.source)
                return Qualified(source=source, condition=self._pushed(table.condition, meaning)), meaning
            case Sorted():
                source, meaning = self.table(table.source)
                order = tuple(replace(item, by=self._pushed(item.by, meaning)) for item in table.order)
                return replace(table, source=source, order=order), meaning
            case Computed():
                source, meaning = self.table(table.source)
                columns = tuple((name, self._pushed(one, meaning)) for name, one in table.columns)
                return Computed(source=source, columns=columns), self._meanings(table.columns, meaning)
            case Windowed():
                source, meaning = self.table(table.source)
                windows = tuple(
                    (
                        name,
                        replace(
                            one,
                            argument=None if one.argument is None else self._pushed(one.argument, meaning),
                            partition=tuple(self._pushed(part, meaning) for part in one.partition),
                            order=tuple(replace(item, by=self._pushed(item.by, meaning)) for item in one.order),
                        ),
                    )
                    for name, one in table.windows
                )
                return Windowed(source=source, windows=windows), meaning
            case Regrouped():
                source, meaning = self.table(table.source)
                keys = tuple((name, self._pushed(one, meaning)) for name, one in table.keys)
                folds = tuple(
                    (name, replace(one, argument=None if one.argument is None else self._pushed(one.argument, meaning)))
                    for name, one in table.folds
                )
                return replace(table, source=source, keys=keys, folds=folds), {}

    def _meanings(self, columns: tuple[Named, ...], meaning: _Meaning) -> _Meaning:
        found = {name: self._meaning(one, meaning) for name, one in columns}
        return {name: one for name, one in found.items() if one is not None}

    def _meaning(self, expression: Expression, meaning: _Meaning) -> tuple[int, Expression] | None:
        if isinstance(expression, Column):
            return meaning.get(expression.name)
        if not isinstance(expression, Call):
            return None
        parts = [self._meaning(one, meaning) for one in expression.arguments if not isinstance(one, Literal)]
        numbers = {part[0] for part in parts if part is not None}
        if None in parts or len(numbers) != 1:
            return None
        known = iter(part[1] for part in parts if part is not None)
        arguments = tuple(one if isinstance(one, Literal) else next(known) for one in expression.arguments)
        return numbers.pop(), Call(expression.op, arguments, expression.type)

    def _pushed(self, expression: Expression, meaning: _Meaning) -> Expression:
        if not isinstance(expression, Call):
            return expression
        if not for_engine(expression):
            return Call(
                expression.op, tuple(self._pushed(one, meaning) for one in expression.arguments), expression.type
            )
        found = self._meaning(expression, meaning)
        if found is None or noisy(found[1]):
            raise QuestionError(
                "A function of texts or dates, or a cast, of what was computed from several answers is not supported.",
                "Compute it in the inner question, from its keys.",
            )
        number, output = found
        question = self._questions[number]
        name = next((name for name, known in question.outputs if known == output), None)
        if name is None:
            name = self._fresh("output")
            self._questions[number] = replace(question, outputs=(*question.outputs, (name, output)))
        return Column(name, expression.type)


def answers_of_question(made: Finished, context: Context) -> Answers:
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
    return select_results(table, outputs, order, (question.limit, question.offset), context, distinct=made.distinct)


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
        meaning |= {keys[place]: known[_renumbered(keys[place], at)] for at, place in enumerate(kept)}
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


def _renumbered(key: Released, place: int) -> Released:
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
