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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from hush.core import integer
from hush.core.values import dataclass
from hush.query.composed import Composed
from hush.query.errors import QuestionError
from hush.query.question import Question
from hush.query.schema import Schema
from hush.query.steps import Fragment, Item, JoinStep, Steps

_HOW = ("inner", "left", "cross")

Written = str | tuple[Any, ...]
"""A SQL expression, or one with the values of its ``?``: ``("COUNT_IF(age > ?)", 30)``."""


class Asker(Protocol):
    """Whoever answers: a curator."""

    @property
    def ask(self) -> Callable[..., Any]:
        """Answer a question: its first argument, then options by name."""

    @property
    def explain(self) -> Callable[..., Any]:
        """Say what a question would cost."""


@dataclass(frozen=True, slots=True)
class Builder:
    """A question in the making; start with `table`."""

    steps: Steps
    asker: Asker | None = field(default=None, compare=False, repr=False)

    def where(self, condition: str, *values: Any) -> Builder:
        """Keep the rows for which a condition is true; several are joined by AND."""
        here = self.steps.rows()
        return self._with(replace(here, where=(*here.where, _fragment((condition, *values)))))

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
        here = self.steps.rows()
        if here.where or here.keys:
            here = here.wrapped()
        step = JoinStep(
            source=other.steps if isinstance(other, Builder) else other,
            alias=alias,
            how=how,
            on=None if on is None else _fragment((on, *values)),
            using=(using,) if isinstance(using, str) else tuple(using),
        )
        return self._with(replace(here, joins=(*here.joins, step)))

    def derive(self, **columns: Written) -> Builder:
        """Add columns computed from a row; of two tables' columns with one name, x, the second is x_1 from there on."""
        here = self.steps.rows()
        here = here.wrapped() if here.keys else here
        return self._with(replace(here, select=((None, Fragment("*")), *_items((), columns))))

    def select(self, *columns: Written, **named: Written) -> Builder:
        """Keep these columns of a row, and no others."""
        return self._with(replace(self.steps.rows(), select=_items(columns, named)))

    def union_all(self, *others: Builder) -> Builder:
        """Add the rows of others, which have the same columns."""
        return self._with(replace(self.steps, also=(*self.steps.also, *(other.steps for other in others))))

    def group_by(self, *keys: Written, **named: Written) -> Builder:
        """Group by expressions; a keyword names one: ``group_by(decade="FLOOR(age / 10) * 10")``."""
        here = self.steps.rows()
        return self._with(replace(here, keys=(*here.keys, *_items(keys, named))))

    def agg(self, **aggregates: Written) -> Builder:
        """Ask for aggregates of each group; the results are the keys and these."""
        if not aggregates:
            raise QuestionError("agg needs at least one aggregate.", "Write for instance agg(n='COUNT(*)').")
        here = self.steps.rows()
        return self._with(replace(here, select=(*here.keys, *_items((), aggregates)), grouped=True))

    def having(self, condition: str, *values: Any) -> Builder:
        """Keep the groups whose noisy answers satisfy a condition."""
        here = self._answers("having")
        return self._with(replace(here, having=(*here.having, _fragment((condition, *values)))))

    def order_by(self, *items: str) -> Builder:
        """Sort the answers: ``order_by("n DESC", "disease")``."""
        here = self._answers("order_by")
        return self._with(replace(here, order=(*here.order, *(_fragment(item) for item in items))))

    def limit(self, count: int, offset: int = 0) -> Builder:
        """Keep the first answers."""
        count, offset = integer(count, "count", minimum=0), integer(offset, "offset", minimum=0)
        return self._with(replace(self._answers("limit"), limit=count, offset=offset))

    def question(self, schema: Schema) -> Question | Composed:
        """Return the question, with all names resolved."""
        from hush.query.sql import resolve
        from hush.query.sql.building import tree

        node, values = tree(self.steps)
        return resolve(node, schema, values, str(self))

    def ask(self, **options: Any) -> Any:
        """Ask the curator this was started from."""
        return self._asked().ask(self, **options)

    def explain(self, **options: Any) -> Any:
        """Let the curator this was started from say what it would cost."""
        return self._asked().explain(self, **options)

    def __str__(self) -> str:
        from hush.query.sql.building import tree

        return tree(self.steps)[0].sql(dialect="duckdb")

    def _with(self, steps: Steps) -> Builder:
        return replace(self, steps=steps)

    def _asked(self) -> Asker:
        if self.asker is None:
            raise QuestionError("This question belongs to no curator.", "Start with curator.table(…).")
        return self.asker

    def _answers(self, step: str) -> Steps:
        if not self.steps.grouped:
            raise QuestionError(f"{step} comes after agg.")
        return self.steps


def table(name: str, alias: str | None = None, *, asker: Asker | None = None) -> Builder:
    """Start a question about a table."""
    if not isinstance(name, str):
        raise QuestionError(f"A table is named by text; got {name!r}.")
    return Builder(Steps(source=name, alias=alias), asker)


def _items(plain: Sequence[Written], named: Mapping[str, Written]) -> tuple[Item, ...]:
    items: list[tuple[str | None, Written]] = [*((None, written) for written in plain), *named.items()]
    return tuple((name, _fragment(written)) for name, written in items)


def _fragment(written: Written) -> Fragment:
    if not isinstance(written, str | tuple) or not written:
        raise QuestionError(f"An expression is SQL as text, or a tuple of it and its values; got {written!r}.")
    from hush.query.sql.reading import count_parameters

    text, *values = (written,) if isinstance(written, str) else written
    marks = count_parameters(text)
    if marks != len(values):
        raise QuestionError(f"{text[:60]!r} has {marks} ? but {len(values)} values were given.")
    return Fragment(text, tuple(values))
