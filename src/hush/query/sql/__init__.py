"""SQL front end: text → sqlglot's tree → our own question, by an allow-list.

The analyst's text is never executed and never written out again: it is read into a tree, each node of which is either
understood or refused by name with the nearest supported form, and a `Question` is built from what was understood.

>>> from hush.query.schema import Schema, Table, UnitPath
>>> from hush.query.types import Kind, Type
>>> visits = Table(name="visits", columns={"disease": Type(Kind.TEXT)}, unit=UnitPath(column="patient_id"))
>>> schema = Schema(data="clinic", tables={"visits": visits}, unit="patient_id")
>>> [name for name, _ in parse("SELECT disease, COUNT(*) AS n FROM visits GROUP BY 1", schema).outputs]
['disease', 'n']
>>> parse("SELECT disease FROM visits", schema)
Traceback (most recent call last):
...
hush.query.errors.QuestionError: The question has no aggregate, so it would return the rows of individuals. Ask for \
instance SELECT COUNT(*), AVG(x) FROM …
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from hush.core import HushError
from hush.query.composed import Composed
from hush.query.errors import QuestionError
from hush.query.expressions import Column
from hush.query.parameters import Binder, Parameters
from hush.query.question import Question, RowQuestion
from hush.query.relations import columns as columns_of
from hush.query.relations import private
from hush.query.schema import Schema
from hush.query.sql.dialects import DEFAULT, notes_of
from hush.query.sql.finished import MAX_OUTPUTS, check_rows_as_units
from hush.query.sql.left_joins import with_plain_joins
from hush.query.sql.migration import intervals, within_units
from hush.query.sql.over_answers import answers_of, check_unused_parts
from hush.query.sql.reading import numbered, read_query
from hush.query.sql.reduction import asked
from hush.query.sql.scope import Context, unqualified
from hush.query.sql.sources import NO_PARTS, check_unused, derived
from hush.query.sql.subqueries import ResolvedSubqueries

__all__ = ["parse", "parse_rows", "resolve"]


def parse(text: str, schema: Schema, parameters: Parameters = (), dialect: str = DEFAULT) -> Question | Composed:
    """Return the question that SQL text asks of a data set; ``parameters`` are the values of ``?`` or ``$name``."""
    with _showing(text):
        question = resolve(read_query(text, dialect), schema, parameters, text)
    if isinstance(question, Composed):
        parts = tuple(replace(part, notes=notes_of(part, dialect)) for part in question.questions)
        return replace(question, questions=parts)
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
    with _showing(text):
        return resolve_rows(read_query(text), schema, parameters, text)


@contextlib.contextmanager
def _showing(text: str) -> Iterator[None]:
    """Let a refusal that knows its place know the text as well."""
    try:
        yield
    except QuestionError as error:
        if error.place is not None and not error.text:
            error.text = numbered(text)
        raise


def resolve(node: exp.Expr, schema: Schema, parameters: Parameters = (), text: str = "") -> Question | Composed:
    """Return the question that a tree asks."""
    context = Context(schema=schema, binder=Binder(parameters), subqueries=ResolvedSubqueries())
    with _refusing():
        node, ends = intervals(within_units(with_plain_joins(unqualified(node, schema), schema), schema.unit))
        made = answers_of(node, context, NO_PARTS)
        check_unused_parts(context)
        question = asked(made, context)
    context.binder.check_all_used()
    return replace(question, intervals=ends, text=text + context.binder.written())


def resolve_rows(node: exp.Expr, schema: Schema, parameters: Parameters = (), text: str = "") -> RowQuestion:
    """Return the rows that a tree names; the unit's own name among the results of ``*`` is left out."""
    context = Context(schema=schema, binder=Binder(parameters), subqueries=ResolvedSubqueries())
    with _refusing():
        table = derived(with_plain_joins(unqualified(node, schema), schema), context, NO_PARTS)
        check_unused(context)
        check_rows_as_units(table.relation, schema)
    context.binder.check_all_used()
    if not private(table.relation):
        raise QuestionError("The question reads public tables only, which need no protection.", "Read them directly.")
    types = columns_of(table.relation)
    shown_columns = [(label, unique) for label, unique in table.names if isinstance(unique, str)]
    if not shown_columns:
        raise QuestionError("The question names no columns beside the unit.", "Write SELECT age, city FROM …")
    if len(shown_columns) > MAX_OUTPUTS:
        raise QuestionError(f"The question has {len(shown_columns)} columns; the limit is {MAX_OUTPUTS}.")
    repeated = {label for label, _ in shown_columns if sum(label == other for other, _ in shown_columns) > 1}
    if repeated:
        raise QuestionError(f"Two columns are called '{min(repeated)}'.", "Give each its own name: SELECT x AS y.")
    return RowQuestion(
        data=schema.data,
        relation=table.relation,
        columns=tuple((label, Column(unique, types[unique])) for label, unique in shown_columns),
        text=text + context.binder.written(),
    )


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Refuse a tree of a shape nobody has met like all that is not understood. The tests check that none is known."""
    try:
        yield
    except HushError:
        raise
    except RecursionError:
        raise QuestionError("The question is nested too deeply.", "Name its parts with WITH.") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise QuestionError("The question could not be understood.") from error
