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

from hush.query.composed import Composed
from hush.query.errors import QuestionError
from hush.query.question import Question, RowQuestion
from hush.query.schema import Schema
from hush.query.sql.dialects import DEFAULT
from hush.query.sql.parameters import Parameters
from hush.query.sql.reading import numbered, read_query
from hush.query.sql.select import resolve, resolve_rows

__all__ = ["parse", "parse_rows"]


def parse(text: str, schema: Schema, parameters: Parameters = (), dialect: str = DEFAULT) -> Question | Composed:
    """Return the question that SQL text asks of a data set; ``parameters`` are the values of ``?`` or ``$name``."""
    with _showing(text):
        return resolve(read_query(text, dialect), schema, parameters, text)


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
