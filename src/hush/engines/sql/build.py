"""Small constructors for SQL, in the words of the dialect in force (`hush.engines.sql.dialect`).

Every piece of SQL that hush runs is made by these: names are always quoted, constants are escaped, and there is no
function here that takes SQL as plain text. A piece is text already, of a type of its own (`Sql`), so that what was not
made here is not taken for one; whole queries stay apart (`Query`) until nothing is added to them any more.

**Work.** A piece knows what it costs to evaluate for one row, in nanoseconds and rather too many: its own cost and that
of all pieces in it, each as often as it is written there. So does a query, whatever is nested in it, for each stored
row. That is what bounds the time that one unit's rows can take (`hush.engines.work`), before the charge and without a
look at any row.

Expressions can double with every step, so no piece may be longer than `MOST`. Queries contain one another once, and are
measured when they are complete (`measured`), if they are a question's: one that reads a file is as long as the file is
wide, and a table must not be refused, or refused once a row has a quote in it, for its number of columns.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal, Self

from hush.engines.sql.dialect import Dialect, dialect
from hush.query.errors import UnplannableError

MOST = 500_000
"""A question with longer SQL than this many characters is refused; the length depends on the question alone."""


OPERATION = 3
"""Nanoseconds for an operator, a comparison, a branch or a plain function."""
CALLS = {
    "ln": 25, "exp": 25, "pow": 60, "sqrt": 10, "round": 20, "hash": 20,
    "date_diff": 80, "date_trunc": 80, "year": 30, "quarter": 30, "month": 30, "day": 30, "dayofweek": 30, "hour": 30,
    "week": 60, "dayofyear": 30, "minute": 30, "second": 30, "try_strptime": 800, "strftime": 800,
    "to_months": 60, "to_days": 30, "to_microseconds": 30, "epoch_us": 10,
}  # fmt: skip
_CAST, _LISTED, _SELECT, _LIST, _GROUP, _JOIN, _WINDOW = 15, 4, 20, 60, 100, 100, 250
"""Nanoseconds for a cast, a value of a list, a row of a SELECT, from a list, in groups, in a join, and in a window."""
_PLAIN = 60
"""A column of so many characters is cheap to compute wherever it is named."""
MADE = 3
"""Nanoseconds, at least, for each character of a text that is made: it is also held in memory, with other rows'."""


class Sql(str):
    """A piece of SQL."""

    __slots__ = ("rows", "work")
    work: int
    """Nanoseconds that it takes to evaluate for one row; of something to select from, for one stored row."""
    rows: int
    """How many rows something to select from makes of a stored row."""

    def __new__(cls, text: str, work: int = 0) -> Self:
        """Take a text that one of this module's functions wrote."""
        if len(text) > MOST:
            raise UnplannableError("the question is too large; split it or simplify its expressions")
        made = str.__new__(cls, text)
        made.work, made.rows = work, 1
        return made


def whole(text: str, work: int = 0, rows: int = 1) -> Sql:
    """Return a query or a part of one, of any length."""
    made = str.__new__(Sql, text)
    made.work, made.rows = work, rows
    return made


def work_of(parts: Iterable[Sql | None]) -> int:
    """Return what several pieces cost."""
    return sum(part.work for part in parts if part is not None)


def costing(value: Sql, work: int) -> Sql:
    """Return a piece that costs so much more: what it does with texts depends on their length."""
    return value if not work or isinstance(value, Named) else whole(value, value.work + work)


class Named(Sql):
    """A piece of SQL that is known by a name: value AS name."""

    label: str

    @staticmethod
    def of(text: str, label: str, work: int = 0) -> Named:
        """Return a text and its name."""
        made = Named(text, work)
        made.label = label
        return made


class ColumnName(Named):
    """A column, known by its own name."""


NULL, TRUE, FALSE = Sql("NULL"), Sql("TRUE"), Sql("FALSE")
EVERYTHING = Named.of("*", "*")


def name(text: str) -> Sql:
    """Return a quoted identifier."""
    return _name(dialect(), text)


@lru_cache(maxsize=4096)
def _name(words: Dialect, text: str) -> Sql:
    return Sql(words.quoted(text))


def column(text: str, table: str | None = None) -> ColumnName:
    """Return a quoted column."""
    return _column(dialect(), text, table)


@lru_cache(maxsize=4096)
def _column(words: Dialect, text: str, table: str | None) -> ColumnName:
    made = ColumnName(_name(words, text) if table is None else f"{_name(words, table)}.{_name(words, text)}")
    made.label = text
    return made


def everything_of(table: str) -> Sql:
    """Return all columns of a table."""
    return Sql(f"{name(table)}.*")


def call(function: str, *arguments: Sql) -> Sql:
    """Return a call of one of the engine's functions; ``function`` is a name in this package's own source."""
    own = CALLS.get(function, OPERATION)
    return Sql(dialect().call(function, arguments), own + work_of(arguments))


def cast(value: Sql, to: str, of: str | None = None) -> Sql:
    """Return a cast that the caller has shown to succeed; ``of`` is what it is cast from, where that matters."""
    return Sql(dialect().cast(value, to, of), value.work + OPERATION)


def try_cast(value: Sql, to: str, of: str | None = None) -> Sql:
    """Return a cast that gives NULL where it fails. Say what is cast ``of``: some engines need to know."""
    return Sql(dialect().try_cast(value, to, of), value.work + _CAST)


def integer(value: int) -> Sql:
    """Return an integer constant; beyond 64 bits it must be cast by name, from text that is all digits."""
    return cast(text(str(value)), "HUGEINT") if abs(value) >= 2**63 else Sql(str(value))


def double(value: Fraction | int) -> Sql:
    """Return the nearest float64 as a constant; the exponent makes the engine read it as DOUBLE."""
    return _double(dialect(), value)


@lru_cache(maxsize=4096)
def _double(words: Dialect, value: Fraction | int) -> Sql:
    try:
        number = value.numerator / value.denominator
    except OverflowError:
        return Sql(words.double("inf" if value > 0 else "-inf"), OPERATION)
    return Sql(words.double(repr(number) if "e" in repr(number) else f"{number!r}e0"))


def text(value: str) -> Sql:
    """Return a text constant; NUL characters, which engines refuse, are dropped."""
    return Sql(dialect().text(value.replace("\0", "")))


def boolean(value: bool) -> Sql:
    """Return TRUE or FALSE."""
    return TRUE if value else FALSE


def date(value: dt.date) -> Sql:
    """Return a date constant."""
    return cast(text(value.isoformat()), "DATE")


def timestamp(value: dt.datetime) -> Sql:
    """Return a timestamp constant."""
    return cast(text(value.replace(tzinfo=None).isoformat(sep=" ")), "TIMESTAMP")


def null(of: str) -> Sql:
    """Return a NULL of a type."""
    return cast(NULL, of)


def parameter(number: int) -> Sql:
    """Return a value that is handed over when the statement runs."""
    return Sql(dialect().parameter(number))


def array(values: Sequence[Sql]) -> Sql:
    """Return a list of values."""
    return Sql(dialect().array(values))


def case(*pairs: tuple[Sql, Sql], otherwise: Sql | None = None) -> Sql:
    """Return CASE WHEN … THEN … ELSE … END."""
    parts = [f"WHEN {condition} THEN {value}" for condition, value in pairs]
    if otherwise is not None:
        parts.append(f"ELSE {otherwise}")
    work = sum(condition.work + value.work + OPERATION for condition, value in pairs)
    return Sql(f"CASE {' '.join(parts)} END", work + (0 if otherwise is None else otherwise.work))


def between(value: Sql, low: Sql, high: Sql) -> Sql:
    """Return value BETWEEN low AND high."""
    return Sql(f"{value} BETWEEN {low} AND {high}", 2 * OPERATION + value.work + low.work + high.work)


def one_of(value: Sql, values: Sequence[Sql]) -> Sql:
    """Return value IN (values), FALSE if there are none."""
    if not values:
        return FALSE
    return Sql(f"({value} IN ({', '.join(values)}))", value.work + _LISTED * len(values) + work_of(values))


def clamped(value: Sql, low: Sql | None, high: Sql | None) -> Sql:
    """Return the value moved into [low, high]; NULL stays NULL, and NaN, which sorts above all, becomes high.

    With both ends, values inside come first: an engine that finds a whole batch there evaluates nothing more.
    """
    pairs: list[tuple[Sql, Sql]] = []
    inside = None if low is None or high is None else between(value, low, high)
    if inside is not None:
        pairs.append((inside, value))
    if low is not None:
        pairs.append((binary("<", value, low), low))
    if high is not None:
        pairs.append((binary(">", value, high), high))
    return case(*pairs, otherwise=None if inside is not None else value) if pairs else value


Operator = Literal["+", "-", "*", "/", "//", "%", "||", "=", "<>", "<", "<=", ">", ">=", "AND", "OR"]


def binary(operator: Operator, left: Sql, right: Sql) -> Sql:
    """Return a binary operation, in parentheses; of floats `float_operation` does arithmetic."""
    work = OPERATION + left.work + right.work
    if operator == "//":
        return Sql(dialect().quotient(left, right), work)
    if operator == "%":
        return Sql(dialect().remainder(left, right), work)
    return Sql(f"({left} {operator} {right})", work)


def negative(value: Sql) -> Sql:
    """Return -value, in parentheses."""
    return Sql(f"(-({value}))", OPERATION + value.work)


def negated(value: Sql) -> Sql:
    """Return NOT value, in parentheses."""
    return Sql(f"(NOT ({value}))", OPERATION + value.work)


def matches(left: Sql, right: Sql, form: str) -> Sql:
    """Return whether two values of a type are equal, or both NULL."""
    return Sql(dialect().matches(left, right, form), OPERATION + left.work + right.work)


def both(conditions: Sequence[Sql]) -> Sql:
    """Return the conjunction, TRUE if there is nothing to join."""
    if not conditions:
        return TRUE
    result = conditions[0]
    for condition in conditions[1:]:
        result = binary("AND", result, condition)
    return result


def is_null(value: Sql) -> Sql:
    """Return value IS NULL."""
    return Sql(f"({value} IS NULL)", OPERATION + value.work)


def not_null(value: Sql) -> Sql:
    """Return value IS NOT NULL."""
    return Sql(f"({value} IS NOT NULL)", OPERATION + value.work)


def alias(value: Sql, as_: str) -> Named:
    """Return value AS name."""
    if isinstance(value, ColumnName) and value.label == as_:
        return value
    return Named.of(f"{value} AS {name(as_)}", as_, value.work)


def distinct(value: Sql) -> Sql:
    """Return what an aggregate takes that looks at every value once."""
    return Sql(f"DISTINCT {value}", _GROUP + value.work)


def count(condition: Sql | None = None) -> Sql:
    """Return COUNT(*), or how often a condition holds."""
    if condition is None:
        return Sql("COUNT(*)", OPERATION)
    return Sql(dialect().count_if(condition), OPERATION + condition.work)


def summed(value: Sql, *, wide: bool = False) -> Sql:
    """Return the exact SUM of whole numbers of 64 bits, or of ``wide`` ones; NULL over nothing."""
    return Sql(dialect().total(value, wide=wide), OPERATION + value.work)


def total(value: Sql, *, wide: bool = False) -> Sql:
    """Return the exact SUM of whole numbers, 0 over nothing."""
    return call("coalesce", summed(value, wide=wide), integer(0))


class Directed(Sql):
    """What to order by, and in which direction."""


def directed(value: Sql, *, descending: bool, nulls_first: bool) -> Directed:
    """Return what to order by, in a direction."""
    way = "DESC" if descending else "ASC"
    return Directed(f"{value} {way} NULLS {'FIRST' if nulls_first else 'LAST'}", value.work)


def window(
    function: str, partition: Sequence[Sql], order: Sequence[Sql] = (), *arguments: Sql, peers: bool = False
) -> Sql:
    """Return function(…) OVER (PARTITION BY … ORDER BY …); over ``peers``, those alone that the order does not part."""
    parts = []
    if partition:
        parts.append(f"PARTITION BY {', '.join(partition)}")
    if order:
        ways = (item if isinstance(item, Directed) else dialect().ascending(item) for item in order)
        parts.append(f"ORDER BY {', '.join(ways)}")
    if peers:
        parts.append("RANGE BETWEEN CURRENT ROW AND CURRENT ROW")
    work = _WINDOW + work_of((*partition, *order, *arguments))
    return Sql(f"{call(function, *arguments)} OVER ({' '.join(parts)})", work)


def apart(value: Sql) -> Sql:
    """Return a value that is computed once and then has a column of its own.

    Engines replace a column in a condition by the expression that it names, as often as the condition names it. They
    cannot do so across the making of rows from a list, here of one value.
    """
    return Sql(dialect().apart(value), value.work + _LIST)


def byte_length(value: Sql) -> Sql:
    """Return how many bytes a text has."""
    return Sql(dialect().byte_length(value), OPERATION + value.work)


def shortened(value: Sql, most: int) -> Sql:
    """Return a text's first characters; one without that many bytes is not looked at.

    >>> shortened(column("t", "s"), 100)
    'CASE WHEN (STRLEN("s"."t") <= 100) THEN "s"."t" ELSE LEFT("s"."t", 100) END'
    """
    left = call("left", value, integer(most))
    return costing(case((binary("<=", byte_length(value), integer(most)), value), otherwise=left), MADE * most)


# queries


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
            parts.append(f"ORDER BY {', '.join(self.order)}")
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


def joined(query: Query, other: Sql, kind: str, on: Sql | None = None) -> Query:
    """Return the query joined with a table or a subquery."""
    work = _JOIN + work_of((other, on))
    if kind == "anti" and not dialect().anti_joins:
        missing = f"NOT EXISTS (SELECT 1 FROM {other} WHERE {on})"  # noqa: S608 - pieces of this module
        return where(query, whole(missing, work))
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
