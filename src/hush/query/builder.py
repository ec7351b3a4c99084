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
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

from hush.core import integer
from hush.query.answers.tree import Composed
from hush.query.errors import QuestionError
from hush.query.question import Question
from hush.query.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

_HOW = ("inner", "left", "cross")
_ORDER = re.compile(r"(?is)^(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*$")

Written = str | tuple[Any, ...]
"""A SQL expression, or one with the values of its ``?``: ``("COUNT_IF(age > ?)", 30)``."""


Fragment = tuple[str, tuple[Any, ...]]
"""A SQL expression, and the values of its ``?``."""
Item = tuple[str | None, Fragment]
"""The name of a result, if it has one, and its expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStep:
    """A join with another table or question."""

    source: str | Builder
    alias: str | None
    how: str
    on: Fragment | None
    using: tuple[str, ...]


def tree(builder: Builder) -> tuple[exp.Expr, list[Any]]:
    """Return the syntax tree of a question, as from SQL text, and the values of its parameters in order."""
    from sqlglot import exp

    from hush.query.sql.text import read_expression

    values: list[Any] = []

    def read(fragment: Fragment) -> exp.Expr:
        node = read_expression(fragment[0], len(values) + 1)
        values.extend(fragment[1])
        return node

    def source(table: str | Builder, alias: str | None) -> exp.Expr:
        name = None if alias is None else exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
        if isinstance(table, Builder):
            return exp.Subquery(this=select(table), alias=name)
        return exp.Table(this=exp.to_identifier(table, quoted=True), alias=name)

    def result(item: Item) -> exp.Expr:
        name, fragment = item
        node = read(fragment)
        return node if name is None else exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))

    def join(step: JoinStep) -> exp.Expr:
        node = exp.Join(this=source(step.source, step.alias))
        if step.how != "inner":
            node.set("side" if step.how == "left" else "kind", step.how.upper())
        if step.on is not None:
            node.set("on", read(step.on))
        if step.using:
            node.set("using", [exp.to_identifier(name, quoted=True) for name in step.using])
        return node

    def conjunction(fragments: Sequence[Fragment]) -> exp.Expr:
        conditions = [read(fragment) for fragment in fragments]
        if len(conditions) > 1:
            conditions = [exp.Paren(this=each) if isinstance(each, exp.Or) else each for each in conditions]
        return reduce(lambda one, other: exp.And(this=one, expression=other), conditions)

    def ordered(fragment: Fragment) -> exp.Expr:
        match = _ORDER.match(fragment[0])
        text, direction, nulls = match.groups() if match else (fragment[0], None, None)
        descending = (direction or "").lower() == "desc"
        first = (nulls or "").lower() == "first"
        return exp.Ordered(this=read((text, ())), desc=descending or None, nulls_first=first)

    def select(steps: Builder) -> exp.Expr:
        """Return the tree of a SELECT, in the order in which SQL is written, and collect its values."""
        query = exp.Select(expressions=[result(item) for item in steps.results] or [exp.Star()])
        query.set("from_", exp.From(this=source(steps.source, steps.alias)))
        if steps.joins:
            query.set("joins", [join(step) for step in steps.joins])
        if steps.conditions:
            query.set("where", exp.Where(this=conjunction(steps.conditions)))
        if steps.grouped and steps.keys:
            query.set("group", exp.Group(expressions=[read(fragment) for _, fragment in steps.keys]))
        if steps.kept:
            query.set("having", exp.Having(this=conjunction(steps.kept)))
        if steps.order:
            query.set("order", exp.Order(expressions=[ordered(fragment) for fragment in steps.order]))
        if steps.most is not None:
            query.set("limit", exp.Limit(expression=exp.Literal.number(steps.most)))
        if steps.skipped:
            query.set("offset", exp.Offset(expression=exp.Literal.number(steps.skipped)))
        union: exp.Expr = query
        for member in steps.also:
            union = exp.Union(this=union, expression=select(member), distinct=False)
        return union

    return select(builder), values


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

    source: str | Builder
    alias: str | None = None
    joins: tuple[JoinStep, ...] = ()
    conditions: tuple[Fragment, ...] = ()
    keys: tuple[Item, ...] = ()
    results: tuple[Item, ...] = ()
    """Keys and aggregates, or columns of rows; nothing means all columns."""
    grouped: bool = False
    kept: tuple[Fragment, ...] = ()
    """The conditions of HAVING."""
    order: tuple[Fragment, ...] = ()
    most: int | None = None
    skipped: int = 0
    also: tuple[Builder, ...] = ()
    """Further parts of a UNION ALL."""
    asker: Asker | None = field(default=None, compare=False, repr=False)

    def where(self, condition: str, *values: Any) -> Builder:
        """Keep the rows for which a condition is true; several are joined by AND."""
        rows = self._rows()
        return replace(rows, conditions=(*rows.conditions, _fragment((condition, *values))))

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
        rows = self._rows(apart=bool(self.conditions or self.keys))
        step = JoinStep(
            source=other,
            alias=alias,
            how=how,
            on=None if on is None else _fragment((on, *values)),
            using=(using,) if isinstance(using, str) else tuple(using),
        )
        return replace(rows, joins=(*rows.joins, step))

    def derive(self, **columns: Written) -> Builder:
        """Add columns computed from a row; of two tables' columns with one name, x, the second is x_1 from there on."""
        return replace(self._rows(apart=bool(self.keys)), results=((None, ("*", ())), *_items((), columns)))

    def select(self, *columns: Written, **named: Written) -> Builder:
        """Keep these columns of a row, and no others."""
        return replace(self._rows(), results=_items(columns, named))

    def union_all(self, *others: Builder) -> Builder:
        """Add the rows of others, which have the same columns."""
        return replace(self, also=(*self.also, *others))

    def group_by(self, *keys: Written, **named: Written) -> Builder:
        """Group by expressions; a keyword names one: ``group_by(decade="FLOOR(age / 10) * 10")``."""
        rows = self._rows()
        return replace(rows, keys=(*rows.keys, *_items(keys, named)))

    def agg(self, **aggregates: Written) -> Builder:
        """Ask for aggregates of each group; the results are the keys and these."""
        if not aggregates:
            raise QuestionError("agg needs at least one aggregate.", "Write for instance agg(n='COUNT(*)').")
        rows = self._rows()
        return replace(rows, results=(*rows.keys, *_items((), aggregates)), grouped=True)

    def having(self, condition: str, *values: Any) -> Builder:
        """Keep the groups with noisy answers that satisfy a condition."""
        self._check_grouped("having")
        return replace(self, kept=(*self.kept, _fragment((condition, *values))))

    def order_by(self, *items: str) -> Builder:
        """Sort the answers: ``order_by("n DESC", "disease")``."""
        self._check_grouped("order_by")
        return replace(self, order=(*self.order, *map(_fragment, items)))

    def limit(self, count: int, offset: int = 0) -> Builder:
        """Keep the first answers."""
        self._check_grouped("limit")
        return replace(self, most=integer(count, "count", minimum=0), skipped=integer(offset, "offset", minimum=0))

    def question(self, schema: Schema) -> Question | Composed:
        """Return the question, with all names resolved."""
        from hush.query.sql import resolve

        node, values = tree(self)
        return resolve(node, schema, values, str(self))

    def ask(self, **options: Any) -> Any:
        """Ask the curator this was started from."""
        return self._asked().ask(self, **options)

    def explain(self, **options: Any) -> Any:
        """Explain the price of the question without asking it; the curator is the one that started it."""
        return self._asked().explain(self, **options)

    def __str__(self) -> str:
        return tree(self)[0].sql(dialect="duckdb")

    def _asked(self) -> Asker:
        if self.asker is None:
            raise QuestionError("This question belongs to no curator.", "Start with curator.table(…).")
        return self.asker

    def _check_grouped(self, step: str) -> None:
        if not self.grouped:
            raise QuestionError(f"{step} comes after agg.")

    def _rows(self, *, apart: bool = False) -> Builder:
        """Return a question that can still be added to: one that is finished, or stands ``apart``, becomes a table.

        The table keeps the name of a single one.
        """
        if not (apart or self.grouped or self.results or self.also):
            return self
        single = isinstance(self.source, str) and not (self.joins or self.grouped or self.also)
        name = self.alias or (self.source if single and isinstance(self.source, str) else "t")
        return Builder(source=self, alias=name, asker=self.asker)


def table(name: str, alias: str | None = None, *, asker: Asker | None = None) -> Builder:
    """Start a question about a table."""
    if not isinstance(name, str):
        raise QuestionError(f"A table is named by text; got {name!r}.")
    return Builder(source=name, alias=alias, asker=asker)


def _items(plain: Sequence[Written], named: Mapping[str, Written]) -> tuple[Item, ...]:
    items: list[tuple[str | None, Written]] = [*((None, written) for written in plain), *named.items()]
    return tuple((name, _fragment(written)) for name, written in items)


def _fragment(written: Written) -> Fragment:
    if not isinstance(written, str | tuple) or not written:
        raise QuestionError(f"An expression is SQL as text, or a tuple of it and its values; got {written!r}.")
    from hush.query.sql.text import count_parameters

    text, *values = (written,) if isinstance(written, str) else written
    marks = count_parameters(text)
    if marks != len(values):
        raise QuestionError(f"{text[:60]!r} has {marks} ? but {len(values)} values were given.")
    return text, tuple(values)
