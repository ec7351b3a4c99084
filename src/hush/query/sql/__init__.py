"""SQL front end: text → sqlglot's tree → our own question, by an allow-list.

The analyst's text is never executed and never written out again. It is read into a tree, each node is either understood
or refused by name with the nearest supported form, and a `Question` is built from the understood nodes. Modules are
named after the clauses of a SELECT.

>>> from hush.query.schema import Schema, Table, UnitPath
>>> from hush.query.types import Kind, Type
>>> visits = Table(name="visits", columns={"disease": Type(Kind.TEXT)}, unit=UnitPath(column="patient_id"))
>>> schema = Schema(data="clinic", tables={"visits": visits}, unit="patient_id")
>>> [name for name, _ in parse("SELECT disease, COUNT(*) AS n FROM visits GROUP BY 1", schema).outputs]
['disease', 'n']
>>> parse("SELECT disease FROM visits", schema)
Traceback (most recent call last):
...
hush.query.errors.QuestionError: The question has no aggregate, so it would show single rows. Rows \
are never shown. Ask for instance SELECT COUNT(*), AVG(x) FROM …
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from hush.core import HushError
from hush.query.answers.tree import Composed
from hush.query.errors import QuestionError
from hush.query.expressions import Column
from hush.query.parameters import Binder, Parameters
from hush.query.question import Question, RowQuestion
from hush.query.relations import columns as columns_of
from hush.query.relations import private
from hush.query.schema import Schema
from hush.query.sql import subqueries
from hush.query.sql.answers import answers_of, asked, check_unused_parts
from hush.query.sql.dialects import intervals, notes_of, translated, within_units
from hush.query.sql.from_clause import derived, without_pivots
from hush.query.sql.joins import with_plain_joins
from hush.query.sql.names import NO_PARTS, Context, unqualified
from hush.query.sql.select import MAX_OUTPUTS, check_rows_as_units
from hush.query.sql.text import DEFAULT, check_dialect, numbered, read_query

__all__ = ["parse", "parse_rows", "resolve"]


def parse(text: str, schema: Schema, parameters: Parameters = (), dialect: str = DEFAULT) -> Question | Composed:
    """Return the question that SQL text asks of a data set; ``parameters`` are the values of ``?`` or ``$name``."""
    dialect = check_dialect(dialect)
    with _with_text(text):
        question = resolve(translated(read_query(text, dialect), dialect), schema, parameters, text, dialect)
    if isinstance(question, Composed):
        questions = tuple(replace(part, notes=notes_of(part, dialect)) for part in question.questions)
        return replace(question, questions=questions)
    return replace(question, notes=notes_of(question, dialect))


def parse_rows(text: str, schema: Schema, parameters: Parameters = ()) -> RowQuestion:
    """Return the rows that SQL text names for a whole release: SELECT over private rows, without aggregates of units.

    >>> from hush.query.schema import Table
    >>> from hush.query.types import Kind, Type
    >>> answers = Table(name="answers", columns={"city": Type(Kind.TEXT, values=("a", "b"))})
    >>> poll = Schema(data="poll", tables={"answers": answers})
    >>> rows = parse_rows("SELECT city FROM answers WHERE city <> 'a'", poll)
    >>> [name for name, _ in rows.columns]
    ['city']
    """
    with _with_text(text):
        return _resolve_rows(translated(read_query(text), DEFAULT), schema, parameters, text)


def resolve(
    tree: exp.Expr, schema: Schema, parameters: Parameters = (), text: str = "", dialect: str = DEFAULT
) -> Question | Composed:
    """Return the question that a tree asks."""
    context = Context(schema=schema, binder=Binder(parameters), subqueries=subqueries, dialect=dialect)
    with _unknown_shapes():
        tree = with_plain_joins(unqualified(without_pivots(tree), schema), schema)
        tree, ends = intervals(within_units(tree, schema.unit))
        answers = answers_of(tree, context, NO_PARTS)
        check_unused_parts(context)
        question = asked(answers, context)
    context.binder.check_all_used()
    return replace(question, intervals=ends, text=text + context.binder.written())


def _resolve_rows(tree: exp.Expr, schema: Schema, parameters: Parameters, text: str) -> RowQuestion:
    """Return the rows that a tree names; the unit's own name among the results of ``*`` is left out."""
    context = Context(schema=schema, binder=Binder(parameters), subqueries=subqueries)
    with _unknown_shapes():
        table = derived(with_plain_joins(unqualified(tree, schema), schema), context, NO_PARTS)
        check_unused_parts(context)
        check_rows_as_units(table.relation, schema)
    if context.awaited:
        raise QuestionError("Rows of a release cannot be compared with an answer.", "Ask for it first, and write it.")
    context.binder.check_all_used()
    if not private(table.relation):
        raise QuestionError("The question reads public tables only, which need no protection.", "Read them directly.")
    types = columns_of(table.relation)
    results = [(name, unique) for name, unique in table.names if isinstance(unique, str)]
    if not results:
        raise QuestionError("The question names no columns beside the unit.", "Write SELECT age, city FROM …")
    if len(results) > MAX_OUTPUTS:
        raise QuestionError(f"The question has {len(results)} columns; the limit is {MAX_OUTPUTS}.")
    names = [name for name, _ in results]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise QuestionError(f"Two columns are called '{min(repeated)}'.", "Give each its own name: SELECT x AS y.")
    return RowQuestion(
        data=schema.data,
        relation=table.relation,
        columns=tuple((name, Column(unique, types[unique])) for name, unique in results),
        text=text + context.binder.written(),
    )


@contextlib.contextmanager
def _with_text(text: str) -> Iterator[None]:
    """Give a refusal that has a place the text in which it is counted."""
    try:
        yield
    except QuestionError as error:
        if error.place is not None and not error.text:
            error.text = numbered(text)
        raise


@contextlib.contextmanager
def _unknown_shapes() -> Iterator[None]:
    """Refuse a tree of an unknown shape like anything that is not understood. The tests check that none is known."""
    try:
        yield
    except HushError:
        raise
    except RecursionError:
        raise QuestionError("The question is nested too deeply.", "Name its parts with WITH.") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise QuestionError("The question could not be understood.") from error
