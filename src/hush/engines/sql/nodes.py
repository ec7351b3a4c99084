"""SQL as a tree: the meaning of a statement, without its spelling in an engine.

Writers (`hush.engines.sql.values` and the modules above it) build these nodes and nothing else. Text is made once, at
the end, by `hush.engines.sql.render`, in an engine's `Dialect`. What a row costs is computed from the same tree
(`hush.engines.sql.cost`). So no SQL is ever taken from a text, and names and constants are escaped in one place.

Nodes are values: they are frozen, and equal if their parts are. Expressions share branches, and may double with every
step; a hash is therefore computed once for each node, and visitors (`bottom_up`) remember what they found.

The functions below the nodes are short names for what writers build most.

>>> from hush.engines.sql.dialect import DUCKDB
>>> from hush.engines.sql.render import render
>>> rows = where(select([column("x", "t")], TableName("people", "t")), not_null(column("x", "t")))
>>> render(rows, DUCKDB).text
'SELECT "t"."x" FROM "people" AS "t" WHERE ("t"."x" IS NOT NULL)'
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

Span = tuple[Fraction, Fraction]
"""Between which magnitudes a float lies in every row, if it is not 0."""


class Node:
    """A part of a statement."""

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), *self._parts()))

    def _parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)  # type: ignore[attr-defined]

    @cached_property
    def children(self) -> tuple[Node, ...]:
        """The nodes that this one is made of, as they come in its text."""
        nodes: list[Node] = []
        _collect(self._parts(), nodes)
        return tuple(nodes)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        return self._parts() == other._parts()


def _collect(parts: tuple[Any, ...], nodes: list[Node]) -> None:
    for component in parts:
        if isinstance(component, Node):
            nodes.append(component)
        elif type(component) is tuple:
            _collect(component, nodes)


def bottom_up(root: Node, known: Callable[[Node], bool]) -> Iterator[Node]:
    """Yield a node and all nodes in it, parts first, without known nodes and those inside of known ones.

    Trees are as deep as questions are nested, times the steps that each function takes: no recursion could follow them.
    """
    stack = [root]
    while stack:
        last = stack[-1]
        waiting = () if known(last) else [child for child in last.children if not known(child)]
        if waiting:
            stack.extend(reversed(waiting))
            continue
        stack.pop()
        if not known(last):
            yield last


# Expressions over one row, and aggregates


class Scalar(Node):
    """A value of each row, or of each group; arithmetic, order and logic are written with Python's operators."""

    def __add__(self, other: Scalar | int) -> Scalar:
        return binary("+", self, other)

    def __sub__(self, other: Scalar | int) -> Scalar:
        return binary("-", self, other)

    def __mul__(self, other: Scalar | int) -> Scalar:
        return binary("*", self, other)

    def __truediv__(self, other: Scalar) -> Scalar:
        return binary("/", self, other)

    def __lt__(self, other: Scalar | int) -> Scalar:
        return binary("<", self, other)

    def __le__(self, other: Scalar | int) -> Scalar:
        return binary("<=", self, other)

    def __gt__(self, other: Scalar | int) -> Scalar:
        return binary(">", self, other)

    def __ge__(self, other: Scalar | int) -> Scalar:
        return binary(">=", self, other)

    def __and__(self, other: Scalar) -> Scalar:
        return binary("AND", self, other)

    def __or__(self, other: Scalar) -> Scalar:
        return binary("OR", self, other)

    def __neg__(self) -> Scalar:
        return Prefixed("-", self)

    def __invert__(self) -> Scalar:
        return Prefixed("NOT ", self)


@dataclass(frozen=True, eq=False)
class ColumnName(Scalar):
    """A column, of the table with an alias or of the only one."""

    name: str
    table: str | None = None


@dataclass(frozen=True, eq=False)
class Star(Scalar):
    """All columns, of the table with an alias or of all."""

    table: str | None = None


@dataclass(frozen=True, eq=False)
class Constant(Scalar):
    """NULL, a boolean, a text, or a whole number of 64 bits."""

    value: bool | int | str | None


@dataclass(frozen=True, eq=False)
class Double(Scalar):
    """The float64 nearest to a number; an infinity beyond their range."""

    value: Fraction | int


@dataclass(frozen=True, eq=False)
class Parameter(Scalar):
    """A list of values that is handed over when the statement runs, under a number of the question's own."""

    number: int


@dataclass(frozen=True, eq=False)
class ArrayOf(Scalar):
    """A list of values of one type, written out."""

    values: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class FunctionCall(Scalar):
    """A function that engines know by name: one of this package's own, or of `hush.query.functions`."""

    function: str
    arguments: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class Primitive(Scalar):
    """An operation that engines spell differently: a method of `Dialect`, with arguments and options."""

    name: str
    arguments: tuple[Scalar, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, eq=False)
class Cast(Scalar):
    """A cast that the writer has shown to succeed, or, if it is ``safe``, one that gives NULL where it fails."""

    value: Scalar
    to: str
    of: str | None
    safe: bool


@dataclass(frozen=True, eq=False)
class Case(Scalar):
    """CASE WHEN … THEN … ELSE … END."""

    pairs: tuple[tuple[Scalar, Scalar], ...]
    otherwise: Scalar | None


@dataclass(frozen=True, eq=False)
class Between(Scalar):
    """Whether a value lies between two others, both included."""

    value: Scalar
    low: Scalar
    high: Scalar


@dataclass(frozen=True, eq=False)
class InList(Scalar):
    """Whether a value is one of a list, which is not empty."""

    value: Scalar
    values: tuple[Scalar, ...]


Operator = Literal["+", "-", "*", "/", "||", "=", "<>", "<", "<=", ">", ">=", "AND", "OR"]


@dataclass(frozen=True, eq=False)
class Operation(Scalar):
    """An operator between two operands, or between several from left to right."""

    operator: Operator
    operands: tuple[Scalar, ...]


@dataclass(frozen=True, eq=False)
class Prefixed(Scalar):
    """NOT or a minus sign before a value."""

    operator: Literal["NOT ", "-"]
    value: Scalar


@dataclass(frozen=True, eq=False)
class IsNull(Scalar):
    """Whether a value is NULL, or, if it is ``negated``, is not."""

    value: Scalar
    negated: bool = False


@dataclass(frozen=True, eq=False)
class DistinctArgument(Scalar):
    """The argument of an aggregate that looks at every value once."""

    value: Scalar


@dataclass(frozen=True, eq=False)
class Directed(Scalar):
    """Something to order by, in a direction."""

    value: Scalar
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, eq=False)
class WindowCall(Scalar):
    """A function OVER (PARTITION BY … ORDER BY …): over all rows up to the current one, or over a frame."""

    call: FunctionCall
    partition: tuple[Scalar, ...]
    order: tuple[Scalar, ...]
    frame: str = ""


@dataclass(frozen=True, eq=False)
class Costed(Scalar):
    """A value that costs more than its parts, or another price (`hush.engines.sql.cost`)."""

    value: Scalar
    work: int
    only: bool = False
    """Whether this is the whole cost: that of a column where an engine computes it anew."""


@dataclass(frozen=True, eq=False)
class Alias(Scalar):
    """A value AS a name."""

    value: Scalar
    name: str


Named = Alias | ColumnName | Star
"""A column of a SELECT, which has a name."""


def label_of(selected: Scalar) -> str:
    """Return the name of a column of a SELECT."""
    assert isinstance(selected, Alias | ColumnName)  # noqa: S101 - other columns are never looked up by name
    return selected.name


# Sources to select from


class From(Node):
    """A source of rows, under an alias."""


@dataclass(frozen=True, eq=False)
class TableName(From):
    """A table or view of the engine; it may have several rows for each that is stored."""

    place: str | tuple[str, ...]
    """Its name, with its schema and database before it if they must be said."""
    label: str | None = None
    rows: int = 1


@dataclass(frozen=True, eq=False)
class TableFunction(From):
    """A function that returns rows: words of this package's own source, and options by name."""

    function: str
    arguments: tuple[Scalar, ...]
    options: tuple[tuple[str, Scalar], ...] = ()


@dataclass(frozen=True, eq=False)
class SourceView(From):
    """A view that each question makes of a table, by its number."""

    number: int


@dataclass(frozen=True, eq=False)
class ParameterRows(From):
    """Lists that are handed over when the statement runs, side by side as columns."""

    lists: tuple[tuple[int, str], ...]
    """The number of each `Parameter`, and the type of its values."""
    label: str
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ConstantRows(From):
    """Rows that are written out."""

    rows: tuple[tuple[Scalar, ...], ...]
    label: str
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Subquery(From):
    """The rows of a query."""

    query: Select
    label: str
    stored: bool = False
    """Whether the query only reads a table, which counts as no work of its own."""


@dataclass(frozen=True, eq=False)
class Union(From):
    """The rows of several queries, one after the other."""

    queries: tuple[Select, ...]
    label: str


@dataclass(frozen=True, eq=False)
class JoinClause(Node):
    """A join with another source."""

    kind: str
    """``inner``, ``left``, ``semi``, ``anti`` or ``cross``."""
    source: From
    on: Scalar | None


@dataclass(frozen=True, eq=False)
class WithClause(Node):
    """A query that is computed before, once, under a name."""

    label: str
    query: Select


@dataclass(frozen=True, eq=False)
class Select(Node):
    """A SELECT statement."""

    before: tuple[WithClause, ...] = ()
    columns: tuple[Scalar, ...] = ()
    source: From | None = None
    joins: tuple[JoinClause, ...] = ()
    where: tuple[Scalar, ...] = ()
    group: tuple[Scalar, ...] = ()
    having: Scalar | None = None
    qualify: tuple[Scalar, int] | None = None
    """A window over the rows, and how large it may be at most."""
    order: tuple[Scalar, ...] = ()
    limit: int | None = None
    distinct: bool = False

    def showing(self, columns: Sequence[Scalar]) -> Select:
        """Return the query with other columns."""
        return replace(self, columns=tuple(columns))

    @property
    def labels(self) -> list[str]:
        """The names of the columns; every column must have one."""
        return [label_of(selected) for selected in self.columns]


# Short names for what writers build


NULL, TRUE, FALSE = Constant(None), Constant(value=True), Constant(value=False)
EVERYTHING = Star()
PEERS = "RANGE BETWEEN CURRENT ROW AND CURRENT ROW"
"""The rows alone that the order does not part."""


@lru_cache(maxsize=4096)
def column(name: str, table: str | None = None) -> ColumnName:
    """Return a column."""
    return ColumnName(name, table)


def columns_of(labels: Iterable[str]) -> list[Scalar]:
    """Return columns of ``t``."""
    return [column(label, "t") for label in labels]


def call(function: str, *arguments: Scalar) -> Scalar:
    """Return a call of a function that engines know by name."""
    return FunctionCall(function, arguments)


def primitive(name: str, *arguments: Scalar, **options: Any) -> Scalar:
    """Return a call of the dialect's method of this name."""
    return Primitive(name, arguments, tuple(options.items()))


def cast(value: Scalar, to: str, of: str | None = None) -> Scalar:
    """Return a cast that the caller has shown to succeed; ``of`` is the type of the value, where it matters."""
    return Cast(value, to, of, safe=False)


def try_cast(value: Scalar, to: str, of: str | None = None) -> Scalar:
    """Return a cast that gives NULL where it fails; ``of`` is the type of the value, which some engines need."""
    return Cast(value, to, of, safe=True)


def integer(value: int) -> Scalar:
    """Return an integer constant; beyond 64 bits it must be cast by name, from text that is all digits."""
    return cast(text(str(value)), "HUGEINT") if abs(value) >= 2**63 else Constant(value)


def huge(value: int) -> Scalar:
    """Return a whole number as HUGEINT."""
    return cast(integer(value), "HUGEINT")


def double(value: Fraction | int) -> Scalar:
    """Return the nearest float64 as a constant."""
    return Double(value)


def text(value: str) -> Scalar:
    """Return a text constant; NUL characters, which engines refuse, are dropped."""
    return Constant(value.replace("\0", ""))


def boolean(value: bool) -> Scalar:
    """Return TRUE or FALSE."""
    return TRUE if value else FALSE


def date(value: dt.date) -> Scalar:
    """Return a date constant."""
    return cast(text(value.isoformat()), "DATE")


def timestamp(value: dt.datetime) -> Scalar:
    """Return a timestamp constant."""
    return cast(text(value.replace(tzinfo=None).isoformat(sep=" ")), "TIMESTAMP")


def null(of: str) -> Scalar:
    """Return a NULL of a type."""
    return cast(NULL, of)


def case(*pairs: tuple[Scalar, Scalar], otherwise: Scalar | None = None) -> Scalar:
    """Return CASE WHEN … THEN … ELSE … END."""
    return Case(pairs, otherwise)


def one_of(value: Scalar, values: Sequence[Scalar]) -> Scalar:
    """Return value IN (values), FALSE if there are none."""
    return InList(value, tuple(values)) if values else FALSE


def clamped(value: Scalar, low: Scalar | None, high: Scalar | None) -> Scalar:
    """Return the value moved into [low, high]; NULL stays NULL, and NaN, which sorts above all, becomes high.

    With both ends, values inside come first: an engine that finds a whole batch there evaluates nothing more.
    """
    pairs: list[tuple[Scalar, Scalar]] = []
    inside = None if low is None or high is None else Between(value, low, high)
    if inside is not None:
        pairs.append((inside, value))
    if low is not None:
        pairs.append((value < low, low))
    if high is not None:
        pairs.append((value > high, high))
    return case(*pairs, otherwise=None if inside is not None else value) if pairs else value


def binary(operator: Operator, left: Scalar, right: Scalar | int) -> Scalar:
    """Return a binary operation; of floats `float_operation` does arithmetic."""
    return Operation(operator, (left, integer(right) if isinstance(right, int) else right))


def both(conditions: Sequence[Scalar]) -> Scalar:
    """Return the conjunction, TRUE if there is nothing to join."""
    if not conditions:
        return TRUE
    return conditions[0] if len(conditions) == 1 else Operation("AND", tuple(conditions))


def is_null(value: Scalar) -> Scalar:
    """Return value IS NULL."""
    return IsNull(value)


def not_null(value: Scalar) -> Scalar:
    """Return value IS NOT NULL."""
    return IsNull(value, negated=True)


def alias(value: Scalar, name: str) -> Named:
    """Return value AS name."""
    return value if isinstance(value, ColumnName) and value.name == name else Alias(value, name)


def costing(value: Scalar, work: int) -> Scalar:
    """Return a value with an additional cost, which depends on the length of texts."""
    return Costed(value, work) if work and not isinstance(value, ColumnName) else value


def count(condition: Scalar | None = None) -> Scalar:
    """Return COUNT(*), or how often a condition holds."""
    return call("count", EVERYTHING) if condition is None else primitive("count_if", condition)


def summed(value: Scalar, *, wide: bool = False, narrow: bool = False) -> Scalar:
    """Return the exact SUM of whole numbers of 64 bits, or of ``wide`` ones; NULL over nothing.

    A ``narrow`` sum is proved to fit 64 bits, and is BIGINT where that is quicker.
    """
    return primitive("total", value, wide=wide, narrow=narrow)


def total(value: Scalar, *, wide: bool = False, narrow: bool = False) -> Scalar:
    """Return the exact SUM of whole numbers, 0 over nothing."""
    return call("coalesce", summed(value, wide=wide, narrow=narrow), integer(0))


def window(
    function: str, partition: Sequence[Scalar], order: Sequence[Scalar] = (), *arguments: Scalar, frame: str = ""
) -> Scalar:
    """Return function(…) OVER (PARTITION BY … ORDER BY …)."""
    return WindowCall(FunctionCall(function, arguments), tuple(partition), tuple(order), frame)


def shortened(value: Scalar, limit: int) -> Scalar:
    """Return a text's first characters; one without that many bytes is not looked at."""
    short = primitive("byte_length", value) <= limit
    first = call("left", value, integer(limit))
    return costing(case((short, value), otherwise=first), MADE * limit)


MADE = 3
"""Nanoseconds, at least, for each character of a text that is made: it is also held in memory, with other rows'."""


def quotient(left: Scalar, right: Scalar, *, wide: bool = False) -> Scalar:
    """Return a quotient of whole numbers, truncated; ``wide`` ones may be HUGEINT. The divisor is not 0."""
    return primitive("quotient", left, right, wide=wide)


def remainder(left: Scalar, right: Scalar) -> Scalar:
    """Return the rest of a truncated division of whole numbers, with the sign of the dividend."""
    return primitive("remainder", left, right)


FloatOperator = Literal["+", "-", "*", "/", "%"]


def float_operation(operator: FloatOperator, left: Scalar, right: Scalar, *spans: Span | None) -> Scalar:
    """Return arithmetic of floats; the spans bound their magnitudes in every row, where they are known."""
    return primitive("float_operation", left, right, operator=operator, spans=spans)


def rounded(value: Scalar, digits: int | None = None) -> Scalar:
    """Return a float rounded to whole numbers, or to digits after the point; ties go away from zero."""
    return primitive("rounded", value, digits=digits)


def row_hash(values: Sequence[Scalar], salt: int) -> Scalar:
    """Return a keyed hash of a row's values."""
    return primitive("row_hash", *values, salt=salt)


def matches(left: Scalar, right: Scalar, form: str) -> Scalar:
    """Return whether two values of a type are equal, or both NULL."""
    return primitive("matches", left, right, form=form)


# Queries, built part by part


def select(columns: Sequence[Scalar], source: Select | From | None = None, label: str = "t") -> Select:
    """Return SELECT columns FROM source; a query AS t."""
    return Select(columns=tuple(columns), source=Subquery(source, label) if isinstance(source, Select) else source)


def read(place: str | Select, label: str, rows: int = 1) -> From:
    """Return a table to select from under another name, or the query by which it is read."""
    return TableName(place, label, rows) if isinstance(place, str) else Subquery(place, label, stored=True)


def joined(query: Select, source: From, kind: str, on: Scalar | None = None) -> Select:
    """Return the query joined with another source."""
    return replace(query, joins=(*query.joins, JoinClause(kind, source, on)))


def where(query: Select, condition: Scalar) -> Select:
    """Return the query with a further condition."""
    return replace(query, where=(*query.where, condition))


def grouped(query: Select, keys: Sequence[Scalar], having: Scalar | None = None) -> Select:
    """Return the query with GROUP BY, where there are keys."""
    return replace(query, group=tuple(keys), having=having)


def qualified(query: Select, rank: Scalar, limit: int) -> Select:
    """Return the rows of a query in which a window over them is at most so large."""
    return replace(query, qualify=(rank, limit))


def first_rows(query: Select, limit: int, *order: Scalar) -> Select:
    """Return the first of the query's distinct rows, in order."""
    return replace(query, distinct=True, order=order, limit=limit)


def with_before(query: Select, label: str, subquery: Select) -> Select:
    """Return the query with another one computed before, once, under a name."""
    return replace(query, before=(*query.before, WithClause(label, subquery)))


def table_function(function: str, *arguments: Scalar, options: Mapping[str, Scalar]) -> TableFunction:
    """Return a function that returns rows, to select from."""
    return TableFunction(function, arguments, tuple(options.items()))
