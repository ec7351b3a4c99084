"""Whole SELECTs, built part by part from pieces of SQL (`hush.engines.sql.build`).

A query stays a value until nothing is added to it any more: what it selects, from where, which rows, in which groups.
It knows what a stored row costs, through all that is nested in it. Queries contain one another once, and are measured
when they are complete (`Query.measured`), if they are a question's: one that reads a file is as long as the file is
wide, and a table must not be refused for its number of columns.

>>> from hush.engines.sql.build import not_null
>>> rows = where(select([column("x", "t")], read("people", "t")), not_null(column("x", "t")))
>>> rows.text
'SELECT "t"."x" FROM "people" AS "t" WHERE ("t"."x" IS NOT NULL)'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from hush.core.values import dataclass
from hush.engines.sql.build import TRUE, Named, Sql, alias, binary, column, integer, name, whole, work_of
from hush.engines.sql.dialect import dialect

_SELECT, _GROUP, _JOIN = 20, 100, 100
"""Nanoseconds for a row of a SELECT, in groups, and in a join."""
_PLAIN = 60
"""A column of so many characters is cheap to compute wherever it is named."""


@dataclass(frozen=True)
class Query:
    """A SELECT, part by part."""

    columns: tuple[Sql, ...]
    source: Sql | None = None
    joins: tuple[Sql, ...] = ()
    where: tuple[Sql, ...] = ()
    group: tuple[Sql, ...] = ()
    having: Sql | None = None
    qualify: tuple[Sql, int] | None = None
    """A window over the rows, and how large it may be at most."""
    order: tuple[Sql, ...] = ()
    limit: int | None = None
    distinct: bool = False
    before: tuple[Sql, ...] = ()
    """What WITH names."""

    def showing(self, columns: Sequence[Sql]) -> Query:
        """Return the query with other columns."""
        return replace(self, columns=tuple(columns))

    @property
    def labels(self) -> list[str]:
        """The names of the columns, each of which must have one."""
        return [item.label for item in self.columns if isinstance(item, Named)]

    @cached_property
    def text(self) -> Sql:
        """The statement."""
        if self.qualify is not None and not dialect().qualifies:
            rank, most = self.qualify
            ranked = replace(self, columns=(*self.columns, alias(rank, "rank")), qualify=None)
            shown = select([column(label, "t") for label in self.labels], ranked)
            return whole(where(shown, binary("<=", column("rank", "t"), integer(most))).text, self.work, self.rows)
        parts = [f"WITH {', '.join(self.before)}"] if self.before else []
        parts += ["SELECT DISTINCT" if self.distinct else "SELECT", ", ".join(self.columns)]
        if self.source is not None:
            parts.append(f"FROM {self.source}")
        parts += self.joins
        if self.where:
            parts.append(f"WHERE {' AND '.join(self.where)}")
        if self.group:
            parts.append(f"GROUP BY {', '.join(self.group)}")
        if self.having is not None:
            parts.append(f"HAVING {self.having}")
        if self.qualify is not None:
            parts.append(f"QUALIFY {binary('<=', self.qualify[0], integer(self.qualify[1]))}")
        if self.order:
            parts.append(f"ORDER BY {', '.join(map(dialect().ascending, self.order))}")
        if self.limit is not None:
            parts.append(f"LIMIT {self.limit}")
        return whole(" ".join(parts), self.work, self.rows)

    @cached_property
    def work(self) -> int:
        """Nanoseconds that a stored row takes, through all that is nested."""
        ranked = None if self.qualify is None else binary("<=", self.qualify[0], integer(self.qualify[1]))
        pieces = (*self.columns, *self.joins, *self.where, *self.group, *self.order, self.having, ranked)
        own = _SELECT + (_GROUP if self.group or self.distinct or self.order else 0)
        return self.rows * (own + work_of(pieces)) + work_of((self.source, *self.before))

    @property
    def rows(self) -> int:
        """How many rows it makes of a stored row, but for its joins."""
        return 1 if self.source is None else self.source.rows

    @property
    def measured(self) -> Sql:
        """The statement, if it is not too long."""
        return Sql(self.text, self.work)


def select(columns: Sequence[Sql], source: Query | Sql | None = None, as_: str = "t") -> Query:
    """Return SELECT columns FROM source; a query AS t."""
    return Query(tuple(columns), subquery(source, as_) if isinstance(source, Query) else source)


def read(place: str, as_: str, rows: int = 1) -> Sql:
    """Return a table to select from, under another name; it may have several rows for each that is stored."""
    return whole(f"{dialect().table(place)} AS {name(as_)}", rows=rows)


def subquery(query: Query, as_: str) -> Sql:
    """Return a query to select from."""
    fence = dialect().fence if any(len(item) > _PLAIN for item in query.columns) else ""
    return whole(f"({query.text}{fence}) AS {name(as_)}", query.work, query.rows)


def union(queries: Sequence[Query], as_: str = "t") -> Sql:
    """Return the rows of several queries to select from."""
    text_, rows = " UNION ALL ".join(query.text for query in queries), sum(query.rows for query in queries)
    return whole(f"({text_}) AS {name(as_)}", sum(query.work for query in queries), rows)


_JOINS = {"inner": "INNER JOIN", "left": "LEFT JOIN", "semi": "SEMI JOIN", "anti": "ANTI JOIN", "cross": "CROSS JOIN"}


_LOOKUPS = {"semi": "EXISTS", "anti": "NOT EXISTS"}


def joined(query: Query, other: Sql, kind: str, on: Sql | None = None) -> Query:
    """Return the query joined with a table or a subquery."""
    work = _JOIN + work_of((other, on))
    if kind in _LOOKUPS and not dialect().anti_joins:
        partner = f"{_LOOKUPS[kind]} (SELECT 1 FROM {other} WHERE {on or TRUE})"  # noqa: S608 - pieces of this module
        return where(query, whole(partner, work))
    join = whole(f"{_JOINS[kind]} {other}" if on is None else f"{_JOINS[kind]} {other} ON {on}", work)
    return replace(query, joins=(*query.joins, join))


def where(query: Query, condition: Sql) -> Query:
    """Return the query with a further condition."""
    return replace(query, where=(*query.where, condition))


def grouped(query: Query, keys: Sequence[Sql], having: Sql | None = None) -> Query:
    """Return the query with GROUP BY, where there are keys."""
    return replace(query, group=tuple(keys), having=having)


def qualified(query: Query, rank: Sql, most: int) -> Query:
    """Return the rows of a query in which a window over them is at most so large."""
    return replace(query, qualify=(rank, most))


def first_rows(query: Query, most: int, *order: Sql) -> Query:
    """Return so many of the query's distinct rows, in order."""
    return replace(query, distinct=True, order=order, limit=most)


def once(query: Query) -> Query:
    """Return the query's distinct rows."""
    return replace(query, distinct=True)


def ordered(query: Query, *order: Sql) -> Query:
    """Return the query's rows in order."""
    return replace(query, order=order)


def up_to(query: Query, most: int) -> Query:
    """Return no more than so many of the query's rows."""
    return replace(query, limit=most)


def with_before(query: Query, label: str, other: Query) -> Query:
    """Return the query with another one computed before, once, under a name."""
    return replace(query, before=(*query.before, whole(dialect().once(name(label), other.text), other.work)))
