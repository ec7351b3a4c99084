"""What is left of a question about answers: a question alone, where everything is done row by row; else a table.

Functions of texts and dates, and casts, are computed by an engine (`hush.query.released`). Where they are functions of
one question's keys they become outputs of that question, so that its engine computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hush.query.composed import (
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
from hush.query.expressions import Call, Column, Expression, Literal, Op
from hush.query.functions import FUNCTIONS, all_of
from hush.query.question import Ordering, Question
from hush.query.relations import Named
from hush.query.released import noisy
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
                known = {name: _by_names(one, known) for name, one in step.columns}
            case Qualified():
                if limit is not None or offset:
                    return None
                conditions.append(_by_names(step.condition, known))
            case Sorted():
                if limit is not None or offset:
                    return None
                order = tuple(replace(item, by=_by_names(item.by, known)) for item in step.order) or order
                limit, offset = step.limit, step.offset
    having = None if not conditions else conditions[0] if len(conditions) == 1 else all_of(conditions)
    outputs = tuple((label, known[unique]) for label, unique in made.names)
    return replace(question, outputs=outputs, having=having, order=order, limit=limit, offset=offset)


def _by_names(expression: Expression, known: dict[str, Expression]) -> Expression:
    if isinstance(expression, Column):
        return known[expression.name]
    if isinstance(expression, Call):
        return Call(expression.op, tuple(_by_names(one, known) for one in expression.arguments), expression.type)
    return expression


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
