"""Small constructors for sqlglot's expression objects.

Every piece of SQL that hush runs is built from these: names are always quoted, constants are literals that are escaped
where they are written (`hush.engines.sql.writing`), and there is no function here that takes SQL text. A node may stand
in several places, and names, columns and numbers, of which there are many alike, are made once: none of these is ever
changed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from sqlglot import exp

Sql = exp.Expression

_EPOCH = dt.date(1970, 1, 1)


@lru_cache(maxsize=4096)
def name(text: str) -> exp.Identifier:
    """Return a quoted identifier."""
    return exp.Identifier(this=text, quoted=True)


@lru_cache(maxsize=4096)
def column(text: str, table: str | None = None) -> exp.Column:
    """Return a quoted column."""
    return exp.Column(this=name(text), table=name(table) if table else None)


def call(function: str, *arguments: Sql) -> Sql:
    """Return a call of one of the engine's functions; ``function`` is a name in this package's own source."""
    return exp.Anonymous(this=function, expressions=list(arguments))


@lru_cache(maxsize=64)
def _type(text: str) -> exp.DataType:
    return exp.DataType.build(text, dialect="duckdb")


def cast(value: Sql, to: str) -> Sql:
    """Return a cast that the caller has shown to succeed."""
    return exp.Cast(this=value, to=_type(to))


def try_cast(value: Sql, to: str) -> Sql:
    """Return a cast that gives NULL where it fails."""
    return exp.TryCast(this=value, to=_type(to))


@lru_cache(maxsize=4096)
def integer(value: int) -> Sql:
    """Return an integer constant; beyond 64 bits it must be cast by name, from text that is all digits."""
    if abs(value) >= 2**63:
        return cast(exp.Literal.string(str(value)), "HUGEINT")
    literal = exp.Literal(this=str(abs(value)), is_string=False)
    return exp.Neg(this=literal) if value < 0 else literal


@lru_cache(maxsize=4096)
def double(value: Fraction | int) -> Sql:
    """Return the nearest float64 as a constant; the exponent makes the engine read it as DOUBLE."""
    try:
        number = value.numerator / value.denominator
    except OverflowError:
        return cast(exp.Literal.string("inf" if value > 0 else "-inf"), "DOUBLE")
    digits = repr(abs(number))
    literal = exp.Literal(this=digits if "e" in digits else f"{digits}e0", is_string=False)
    return exp.Paren(this=exp.Neg(this=literal)) if number < 0 else literal


def text(value: str) -> Sql:
    """Return a text constant; NUL characters, which engines refuse, are dropped."""
    return exp.Literal.string(value.replace("\0", ""))


def boolean(value: bool) -> Sql:
    """Return TRUE or FALSE."""
    return exp.true() if value else exp.false()


def date(value: dt.date) -> Sql:
    """Return a date constant."""
    return cast(exp.Literal.string(value.isoformat()), "DATE")


def timestamp(value: dt.datetime) -> Sql:
    """Return a timestamp constant."""
    return cast(exp.Literal.string(value.replace(tzinfo=None).isoformat(sep=" ")), "TIMESTAMP")


def null(of: str) -> Sql:
    """Return a NULL of a type."""
    return cast(exp.null(), of)


def case(*pairs: tuple[Sql, Sql], otherwise: Sql | None = None) -> Sql:
    """Return CASE WHEN … THEN … ELSE … END."""
    return exp.Case(ifs=[exp.If(this=condition, true=value) for condition, value in pairs], default=otherwise)


def between(value: Sql, low: Sql, high: Sql) -> Sql:
    """Return value BETWEEN low AND high."""
    return exp.Between(this=value, low=low, high=high)


def clamped(value: Sql, low: Sql | None, high: Sql | None) -> Sql:
    """Return the value moved into [low, high]; NULL stays NULL, and NaN, which sorts above all, becomes high.

    With both ends, values inside come first: an engine that finds a whole batch there evaluates nothing more.
    """
    pairs: list[tuple[Sql, Sql]] = []
    inside = None if low is None or high is None else between(value, low, high)
    if inside is not None:
        pairs.append((inside, value))
    if low is not None:
        pairs.append((binary(exp.LT, value, low), low))
    if high is not None:
        pairs.append((binary(exp.GT, value, high), high))
    return case(*pairs, otherwise=None if inside is not None else value) if pairs else value


def binary(kind: type[exp.Binary], left: Sql, right: Sql) -> Sql:
    """Return a binary operation, in parentheses."""
    return exp.Paren(this=kind(this=left, expression=right))


def both(conditions: Sequence[Sql]) -> Sql:
    """Return the conjunction, TRUE if there is nothing to join."""
    if not conditions:
        return exp.true()
    result = conditions[0]
    for condition in conditions[1:]:
        result = binary(exp.And, result, condition)
    return result


def is_null(value: Sql) -> Sql:
    """Return value IS NULL."""
    return exp.Paren(this=exp.Is(this=value, expression=exp.null()))


def not_null(value: Sql) -> Sql:
    """Return value IS NOT NULL."""
    return exp.Paren(this=exp.Not(this=is_null(value)))


def alias(value: Sql, as_: str) -> Sql:
    """Return value AS name."""
    return exp.Alias(this=value, alias=name(as_))


def filtered(aggregate: Sql, condition: Sql | None) -> Sql:
    """Return an aggregate with FILTER (WHERE …)."""
    if condition is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=condition))


def count(condition: Sql | None = None) -> Sql:
    """Return COUNT(*), or how often a condition holds."""
    return filtered(exp.Count(this=exp.Star()), condition)


def total(value: Sql) -> Sql:
    """Return SUM, 0 over nothing."""
    return exp.Coalesce(this=exp.Sum(this=value), expressions=[exp.Literal.number(0)])


def window(
    function: str, partition: Sequence[Sql], order: Sequence[Sql] = (), *arguments: Sql, peers: bool = False
) -> Sql:
    """Return function(…) OVER (PARTITION BY … ORDER BY …); over ``peers``, those alone that the order does not part."""
    ordering = exp.Order(expressions=[exp.Ordered(this=item, nulls_first=False) for item in order]) if order else None
    spec = exp.WindowSpec(kind="RANGE", start="CURRENT ROW", end="CURRENT ROW") if peers else None
    return exp.Window(this=call(function, *arguments), partition_by=list(partition), order=ordering, spec=spec)


def select(columns: Sequence[Sql], source: exp.Select | Sql, as_: str = "t") -> exp.Select:
    """Return SELECT columns FROM source AS t."""
    origin = source.subquery(name(as_), copy=False) if isinstance(source, exp.Select | exp.Union) else source
    return exp.Select(expressions=list(columns)).from_(origin, copy=False)


_JOINS = {"inner": {"kind": "INNER"}, "left": {"side": "LEFT"}, "anti": {"kind": "ANTI"}, "cross": {"kind": "CROSS"}}


def joined(query: exp.Select, table: Sql, kind: str, on: Sql | None = None) -> exp.Select:
    """Return the query joined with a table (sqlglot's own method parses the kind of join each time)."""
    query.append("joins", exp.Join(this=table, on=on, **_JOINS[kind]))
    return query


def where(query: exp.Select, condition: Sql) -> exp.Select:
    """Return the query with a further condition."""
    return query.where(condition, copy=False)


def grouped(query: exp.Select, keys: Sequence[Sql]) -> exp.Select:
    """Return the query with GROUP BY, where there are keys."""
    return query.group_by(*keys, copy=False) if keys else query


def days(value: Fraction | int) -> dt.date | None:
    """Return the date that many days after 1970-01-01, if there is one."""
    try:
        return _EPOCH + dt.timedelta(days=int(value))
    except OverflowError:
        return None


def instant(value: Fraction | int) -> dt.datetime | None:
    """Return the timestamp that many microseconds after 1970-01-01, if there is one."""
    try:
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(value))  # noqa: DTZ001 - naive, like the column
    except OverflowError:
        return None
