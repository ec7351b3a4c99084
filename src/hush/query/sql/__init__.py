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

from dataclasses import replace

from sqlglot import exp

from hush.query.answers.tree import Composed
from hush.query.errors import QuestionError
from hush.query.expressions import Column
from hush.query.parameters import Binder, Parameters
from hush.query.question import Question, RowQuestion
from hush.query.relations import columns as columns_of
from hush.query.relations import private
from hush.query.schema import Schema
from hush.query.sql.allow_list import has
from hush.query.sql.answers import asked
from hush.query.sql.dialects import intervals, translated, within_units
from hush.query.sql.from_clause import derived, without_pivots
from hush.query.sql.joins import with_plain_joins
from hush.query.sql.names import NO_PARTS, Context, Subqueries, named_source, without_qualifiers
from hush.query.sql.select import MAX_OUTPUTS, answers_of, is_finished
from hush.query.sql.text import DEFAULT, DIALECTS, read_query, refusals

__all__ = ["parse", "parse_rows", "resolve"]


def parse(text: str, schema: Schema, parameters: Parameters = (), dialect: str = DEFAULT) -> Question | Composed:
    """Return the question that SQL text asks of a data set; ``parameters`` are the values of ``?`` or ``$name``."""
    if (name := str(dialect).lower()) not in DIALECTS:
        raise QuestionError(f"There is no dialect {str(dialect)[:40]!r}.", f"There are {', '.join(DIALECTS)}.")
    with refusals(text):
        tree = read_query(text, name)
        return resolve(tree if name == DEFAULT else translated(tree, name), schema, parameters, text, name)


@refusals()
def resolve(
    tree: exp.Expr, schema: Schema, parameters: Parameters = (), text: str = "", dialect: str = DEFAULT
) -> Question | Composed:
    """Return the question that a tree asks; the tree is changed."""
    context = Context(schema=schema, binder=Binder(parameters), subqueries=_subqueries, dialect=dialect)
    ends: tuple[tuple[str, str], ...] = ()
    classes = set(map(type, tree.walk()))
    # each rewriting runs only where its node occurs; most questions have none of them
    if exp.Pivot in classes:
        without_pivots(tree)
    if any(has(node, "db") for node in tree.find_all(exp.Column, exp.Table)):
        without_qualifiers(tree, schema)
    if exp.Join in classes:
        with_plain_joins(tree, schema)
    if exp.Anonymous in classes:
        within_units(tree, schema.unit)
        ends = intervals(tree)
    answers = answers_of(tree, context, NO_PARTS)
    if context.parts:
        _check_unused_parts(context)
    question = asked(answers, context)
    return replace(question, intervals=ends, text=text + context.binder.written())


def parse_rows(text: str, schema: Schema, parameters: Parameters = ()) -> RowQuestion:
    """Return the rows that SQL text names for a whole release: SELECT over private rows, without aggregates of units.

    The unit's own name among the results of ``*`` is left out.

    >>> from hush.query.schema import Table
    >>> from hush.query.types import Kind, Type
    >>> answers = Table(name="answers", columns={"city": Type(Kind.TEXT, values=("a", "b"))})
    >>> poll = Schema(data="poll", tables={"answers": answers})
    >>> rows = parse_rows("SELECT city FROM answers WHERE city <> 'a'", poll)
    >>> [name for name, _ in rows.columns]
    ['city']
    """
    context = Context(schema=schema, binder=Binder(parameters), subqueries=_subqueries)
    with refusals(text):
        tree = read_query(text)
        without_qualifiers(tree, schema)
        with_plain_joins(tree, schema)
        table = derived(tree, context, NO_PARTS)
        _check_unused_parts(context)
        if context.awaited:
            raise QuestionError(
                "Rows of a release cannot be compared with an answer.", "Ask for it first, and write it."
            )
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


def _subqueries() -> Subqueries:
    from hush.query.sql import subqueries  # no plain question needs it

    return subqueries


def _check_unused_parts(context: Context) -> None:
    """Resolve unused parts of WITH, so that every part of a question is checked."""
    for part in context.parts:
        if not part.used:
            trial = context.trial()
            if is_finished(part.query, trial, part.parts):
                answers_of(part.query, trial, part.parts)
            else:
                named_source(derived(part.query, trial, part.parts).names, "WITH", part.columns)
