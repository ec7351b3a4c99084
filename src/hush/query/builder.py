"""Questions in Python: the same meaning as SQL, built step by step from SQL expressions and Python values.

Each step returns a new `Builder`. Expressions are SQL and are read by the SQL front end, one by one, so none can
reach out of its place; values are parameters and never become text. What comes out is the very `Question` that the SQL
would give.

>>> question = (
...     table("visits").where("age >= ?", 30).group_by("disease").agg(n="COUNT(*)", cost="AVG(cost)")
... )
>>> print(question)
SELECT disease, COUNT(*) AS "n", AVG(cost) AS "cost" FROM "visits" WHERE age >= $1 GROUP BY disease

A step that comes after ``agg`` asks about its results, which is how to aggregate within the unit first:

>>> print(table("visits").group_by("patient_id").agg(n="COUNT(*)").agg(mean="AVG(CLIP(n, 0, 20))"))
SELECT AVG(CLIP(n, 0, 20)) AS "mean" FROM (SELECT patient_id, COUNT(*) AS "n" FROM "visits" GROUP BY patient_id) AS "t"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlglot import exp

from hush.core import integer
from hush.query.answers.tree import Composed
from hush.query.errors import QuestionError
from hush.query.question import Question
from hush.query.schema import Schema
from hush.query.sql import resolve
from hush.query.sql.text import count_parameters, read_expression

_HOW = ("inner", "left", "cross")
_ORDER = re.compile(r"(?is)^(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*$")

Written = str | tuple[Any, ...]
"""A SQL expression, or one with the values of its ``?``: ``("COUNT_IF(age > ?)", 30)``."""


class Asker(Protocol):
    """The curator that answers."""

    @property
    def ask(self) -> Callable[..., Any]:
        """Answer a question: its first argument, then options by name."""

    @property
    def explain(self) -> Callable[..., Any]:
        """Explain the price of a question without asking it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """A question in the making, one SELECT; start with `table`."""

    query: Any
    """The syntax tree, as from SQL text, in which parameters are ``$1``, ``$2``, …"""
    values: tuple[Any, ...] = ()
    """The values of the parameters."""
    keys: tuple[exp.Expr, ...] = ()
    """What the next aggregates are grouped by, with the names of results."""
    grouped: bool = False
    """Whether the results are keys and aggregates."""
    asker: Asker | None = field(default=None, compare=False, repr=False)

    def where(self, condition: str, *values: Any) -> Builder:
        """Keep the rows for which a condition is true; several are joined by AND."""
        rows, (test,) = _read(self._rows(), (condition, *values))
        return replace(rows, query=rows.query.where(test))

    def join(
        self,
        other: str | Builder,
        *values: Any,
        on: str | None = None,
        using: str | Sequence[str] = (),
        how: str = "inner",
        alias: str | None = None,
    ) -> Builder:
        """Join another table: private ones on the unit, public ones on anything; ``values`` are those of ``on``."""
        if how not in _HOW:
            raise QuestionError(f"A join is one of {', '.join(_HOW)}; got {how!r}.")
        if how != "cross" and on is None and not using:
            raise QuestionError("join needs on= or using=.", "how='cross' pairs every row with every row.")
        rows = self._rows(apart=bool(self.query.args.get("where") or self.keys))
        if isinstance(other, Builder):
            rows, query = _beside(rows, other)
            source: exp.Expr = query.subquery(_alias(alias), copy=False)
        else:
            source = exp.Table(this=exp.to_identifier(other, quoted=True), alias=_alias(alias))
        rows, condition = (rows, []) if on is None else _read(rows, (on, *values))
        names = [
            exp.to_identifier(name, quoted=True) for name in ([using] if isinstance(using, str) else using) if name
        ]
        kind = "" if how == "inner" else how
        return replace(rows, query=rows.query.join(source, on=condition, using=names, join_type=kind))

    def derive(self, **columns: Written) -> Builder:
        """Add columns computed from a row; of two tables' columns with one name, x, the second is x_1 from there on."""
        rows, results = _named(self._rows(apart=bool(self.keys)), (), columns)
        return replace(rows, query=rows.query.select(exp.Star(), *results, append=False))

    def select(self, *columns: Written, **named: Written) -> Builder:
        """Keep these columns of a row, and no others."""
        rows, results = _named(self._rows(), columns, named)
        return replace(rows, query=rows.query.select(*results, append=False))

    def union_all(self, *others: Builder) -> Builder:
        """Add the rows of others, which have the same columns."""
        union = self
        for other in others:
            union, query = _beside(union, other)
            union = replace(union, query=union.query.union(query, distinct=False))
        return union

    def group_by(self, *keys: Written, **named: Written) -> Builder:
        """Group by expressions; a keyword names one: ``group_by(decade="FLOOR(age / 10) * 10")``."""
        rows, nodes = _named(self._rows(), keys, named)
        return replace(rows, keys=(*rows.keys, *nodes))

    def agg(self, **aggregates: Written) -> Builder:
        """Ask for aggregates of each group; the results are the keys and these."""
        if not aggregates:
            raise QuestionError("agg needs at least one aggregate.", "Write for instance agg(n='COUNT(*)').")
        rows, results = _named(self._rows(), (), aggregates)
        query = rows.query.select(*rows.keys, *results, append=False)
        return replace(rows, query=query.group_by(*(key.unalias() for key in rows.keys)), grouped=True)

    def having(self, condition: str, *values: Any) -> Builder:
        """Keep the groups with noisy answers that satisfy a condition."""
        if isinstance(self.query, exp.Union):
            raise QuestionError("having comes before union_all.")
        rows, (test,) = _read(self._after_agg("having"), (condition, *values))
        return replace(rows, query=rows.query.having(test))

    def order_by(self, *items: str) -> Builder:
        """Sort the answers: ``order_by("n DESC", "disease")``."""
        query = self._after_agg("order_by").query
        for item in items:
            match = _ORDER.match(item)
            text, direction, nulls = match.groups() if match else (item, None, None)
            _, (by,) = _read(self, text)
            descending, first = (direction or "").lower() == "desc", (nulls or "").lower() == "first"
            query = query.order_by(exp.Ordered(this=by, desc=descending or None, nulls_first=first))
        return replace(self, query=query)

    def limit(self, count: int, offset: int = 0) -> Builder:
        """Keep the first answers."""
        query = self._after_agg("limit").query.limit(integer(count, "count", minimum=0))
        skipped = integer(offset, "offset", minimum=0)
        return replace(self, query=query.offset(skipped) if skipped else query)

    def question(self, schema: Schema) -> Question | Composed:
        """Return the question, with all names resolved."""
        return resolve(self.query.copy(), schema, self.values, str(self))

    def ask(self, **options: Any) -> Any:
        """Ask the curator this was started from."""
        return self._asked().ask(self, **options)

    def explain(self, **options: Any) -> Any:
        """Explain the price of the question without asking it; the curator is the one that started it."""
        return self._asked().explain(self, **options)

    def __str__(self) -> str:
        return str(self.query.sql(dialect="duckdb"))

    def _asked(self) -> Asker:
        if self.asker is None:
            raise QuestionError("This question belongs to no curator.", "Start with curator.table(…).")
        return self.asker

    def _after_agg(self, step: str) -> Builder:
        if not self.grouped:
            raise QuestionError(f"{step} comes after agg.")
        return self

    def _rows(self, *, apart: bool = False) -> Builder:
        """Return a question that can still be added to: one that is finished, or stands ``apart``, becomes a table.

        The table keeps the name of a single one.
        """
        finished = self.grouped or isinstance(self.query, exp.Union) or self.query.expressions != [exp.Star()]
        if not (apart or finished):
            return self
        single = not (isinstance(self.query, exp.Union) or self.grouped or self.query.args.get("joins"))
        table = self.query.subquery(_alias(self.query.args["from_"].this.alias_or_name if single else "t"))
        return Builder(query=exp.select("*").from_(table), values=self.values, asker=self.asker)


def table(name: str, alias: str | None = None, *, asker: Asker | None = None) -> Builder:
    """Start a question about a table."""
    if not isinstance(name, str):
        raise QuestionError(f"A table is named by text; got {name!r}.")
    source = exp.Table(this=exp.to_identifier(name, quoted=True), alias=_alias(alias))
    return Builder(query=exp.select("*").from_(source), asker=asker)


def _alias(name: str | None) -> exp.TableAlias | None:
    return None if name is None else exp.TableAlias(this=exp.to_identifier(name, quoted=True))


def _read(rows: Builder, *written: Written) -> tuple[Builder, list[exp.Expr]]:
    """Return the question with further values, and the expressions that they belong to."""
    nodes, values = [], list(rows.values)
    for each in written:
        if not isinstance(each, str | tuple) or not each:
            raise QuestionError(f"An expression is SQL as text, or a tuple of it and its values; got {each!r}.")
        text, *own = (each,) if isinstance(each, str) else each
        node, marks = read_expression(text, len(values) + 1), count_parameters(text)
        if marks != len(own):
            raise QuestionError(f"{text[:60]!r} has {marks} ? but {len(own)} values were given.")
        nodes.append(node)
        values += own
    return replace(rows, values=tuple(values)), nodes


def _named(rows: Builder, plain: Sequence[Written], named: Mapping[str, Written]) -> tuple[Builder, list[exp.Expr]]:
    rows, nodes = _read(rows, *plain, *named.values())
    unnamed = len(plain)
    aliased = [
        exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))
        for name, node in zip(named, nodes[unnamed:], strict=True)
    ]
    return rows, [*nodes[:unnamed], *aliased]


def _beside(rows: Builder, other: Builder) -> tuple[Builder, exp.Query]:
    """Return the question with the values of another one, too, and the tree of that one with their new numbers."""
    query = other.query.copy()
    for parameter in query.find_all(exp.Placeholder):
        parameter.set("this", str(int(parameter.this) + len(rows.values)))
    return replace(rows, values=(*rows.values, *other.values)), query
