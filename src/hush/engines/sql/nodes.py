"""SQL as a tree: the meaning of a statement, without its spelling in an engine, and how much work it is.

Writers (`hush.engines.sql.values` and the modules above it) build these nodes and nothing else. Text is made once, at
the end, by `hush.engines.sql.render`, in an engine's `Dialect`. So no SQL is ever taken from a text, and names and
constants are escaped in one place.

Nodes are values: they are frozen, and equal if their parts are. Expressions share branches, and may double with every
step; so a hash is computed once for each node, and so is its cost, when it is made.

**What a row costs** (`Node.cost`): nanoseconds for each stored row, and rather too many. A node costs what it does
itself, and what all nodes in it cost, each as often as it is written there. A query costs what its clauses cost for
each row that they look at, whatever is nested in it. That bounds the time that one unit's rows can take
(`hush.engines.work`), before the charge and without a look at any row.

The methods of nodes and the functions below them are short names for what writers build most.

>>> from hush.engines.sql.dialect import DUCKDB
>>> from hush.engines.sql.render import render
>>> rows = select([column("x", "t")], TableName("people", "t")).where(column("x", "t").not_null())
>>> render(rows, DUCKDB).text
'SELECT "t"."x" FROM "people" AS "t" WHERE ("t"."x" IS NOT NULL)'
>>> column("s").quotient(column("n"), wide=True).cost
3
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partialmethod
from typing import Any, Literal, dataclass_transform

Span = tuple[Fraction, Fraction]
"""Between which magnitudes a float lies in every row, if it is not 0."""


@dataclass_transform(frozen_default=True, eq_default=False)
class Node:
    """A part of a statement. Every kind of node is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False)(cls)

    fields: tuple[Any, ...]
    """The values of its fields."""
    children: tuple[Node, ...]
    """The nodes that it is made of, as they come in its text."""
    cost: int
    """The nanoseconds that it takes for one row; a source or a query, for one stored row."""

    def __post_init__(self) -> None:
        own = self.__dict__  # frozen nodes take no attribute but have a dictionary, and in it their fields in order
        fields = tuple(own.values())
        children: list[Node] = []
        inside, waiting = 0, [*fields[::-1]]
        while waiting:
            component = waiting.pop()
            if isinstance(component, Node):
                children.append(component)
                inside += component.cost
            elif type(component) is tuple:
                waiting += component[::-1]
        own["fields"], own["children"], own["cost"] = fields, tuple(children), _cost(self, inside)

    def __hash__(self) -> int:
        hashed: int | None = self.__dict__.get("hash")
        if hashed is None:
            hashed = self.__dict__["hash"] = hash((type(self), *self.fields))
        return hashed

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and hash(self) == hash(other) and self.fields == other.fields


# Expressions over one row, and aggregates


class Scalar(Node):
    """A value of each row, or of each group; arithmetic, order and logic are written with Python's operators.

    Of whole numbers ``%`` is the rest of a truncated division, with the sign of the dividend.
    """

    def operation(self, operator: Operator, other: Scalar | int) -> Scalar:
        """Return a binary operation; of floats `float_operation` does arithmetic."""
        return Operation(operator, (self, integer(other) if isinstance(other, int) else other))

    __add__, __sub__ = partialmethod(operation, "+"), partialmethod(operation, "-")
    __mul__, __truediv__ = partialmethod(operation, "*"), partialmethod(operation, "/")
    __and__, __or__ = partialmethod(operation, "AND"), partialmethod(operation, "OR")
    __lt__, __le__ = partialmethod(operation, "<"), partialmethod(operation, "<=")
    __gt__, __ge__ = partialmethod(operation, ">"), partialmethod(operation, ">=")
    __mod__ = partialmethod(operation, "%")

    def __neg__(self) -> Scalar:
        return Operation("NEGATIVE", (self,))

    def __invert__(self) -> Scalar:
        return Operation("NOT", (self,))

    def equals(self, other: Scalar | int) -> Scalar:
        """Return whether two values are equal; ``==`` compares nodes."""
        return self.operation("=", other)

    def matches(self, other: Scalar, form: str) -> Scalar:
        """Return whether two values of a type are equal, or both NULL."""
        return primitive("matches", self, other, form=form)

    def is_null(self) -> Scalar:
        """Return value IS NULL."""
        return Operation("IS NULL", (self,))

    def not_null(self) -> Scalar:
        """Return value IS NOT NULL."""
        return Operation("IS NOT NULL", (self,))

    def between(self, low: Scalar, high: Scalar) -> Scalar:
        """Return whether the value lies between two others, both included."""
        return Operation("BETWEEN", (self, low, high))

    def one_of(self, values: Sequence[Scalar]) -> Scalar:
        """Return value IN (values), FALSE if there are none."""
        return Operation("IN", (self, *values)) if values else FALSE

    def clamped(self, low: Scalar | None, high: Scalar | None) -> Scalar:
        """Return the value moved into [low, high]; NULL stays NULL, and NaN, which sorts above all, becomes high.

        With both ends, values inside come first: an engine that finds a whole batch there evaluates nothing more.
        """
        pairs: list[tuple[Scalar, Scalar]] = []
        inside = None if low is None or high is None else self.between(low, high)
        if inside is not None:
            pairs.append((inside, self))
        if low is not None:
            pairs.append((self < low, low))
        if high is not None:
            pairs.append((self > high, high))
        return case(*pairs, otherwise=None if inside is not None else self) if pairs else self

    def cast(self, to: str, of: str | None = None) -> Scalar:
        """Return a cast that the caller has shown to succeed; ``of`` is the type of the value, where it matters."""
        return Cast(self, to, of, safe=False)

    def try_cast(self, to: str, of: str | None = None) -> Scalar:
        """Return a cast that gives NULL where it fails; ``of`` is the type of the value, which some engines need."""
        return Cast(self, to, of, safe=True)

    def rounded(self, digits: int | None = None) -> Scalar:
        """Return a float rounded to whole numbers, or to digits after the point; ties go away from zero."""
        return primitive("rounded", self, digits=digits)

    def quotient(self, divisor: Scalar, *, wide: bool = False) -> Scalar:
        """Return a quotient of whole numbers, truncated; ``wide`` ones may be HUGEINT. The divisor is not 0."""
        return primitive("quotient", self, divisor, wide=wide)

    def distinct(self) -> Scalar:
        """Return the argument of an aggregate that looks at every value once."""
        return Operation("DISTINCT", (self,))

    def alias(self, name: str) -> Named:
        """Return value AS name."""
        return self if isinstance(self, ColumnName) and self.name == name else Alias(self, name)

    def costing(self, work: int) -> Scalar:
        """Return the value with an additional cost, which depends on the length of texts."""
        return Costed(self, work) if work and not isinstance(self, ColumnName) else self


class ColumnName(Scalar):
    """A column, of the table with an alias or of the only one."""

    name: str
    table: str | None = None


class Star(Scalar):
    """All columns, of the table with an alias or of all."""

    table: str | None = None


class Constant(Scalar):
    """NULL, a boolean, a text, or a whole number of 64 bits."""

    value: bool | int | str | None


class Double(Scalar):
    """The float64 nearest to a number; an infinity beyond their range."""

    value: Fraction | int


class FunctionCall(Scalar):
    """A function that engines know by name: one of this package's own, or of `hush.query.functions`."""

    function: str
    arguments: tuple[Scalar, ...]


class Primitive(Scalar):
    """An operation that engines spell differently: a method of `Dialect`, with arguments and options."""

    name: str
    arguments: tuple[Scalar, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()


Direction = Literal["ASC NULLS LAST", "ASC NULLS FIRST", "DESC NULLS LAST", "DESC NULLS FIRST"]
DIRECTIONS: Mapping[tuple[bool, bool], Direction] = {
    (False, False): "ASC NULLS LAST",
    (False, True): "ASC NULLS FIRST",
    (True, False): "DESC NULLS LAST",
    (True, True): "DESC NULLS FIRST",
}
"""The directions of an order, by whether it descends and whether NULLs come first."""
_TERMS = frozenset(DIRECTIONS.values())
Operator = Literal["+", "-", "*", "/", "%", "||", "=", "<>", "<", "<=", ">", ">=", "AND", "OR"]
Word = Literal["NEGATIVE", "NOT", "IS NULL", "IS NOT NULL", "BETWEEN", "IN", "DISTINCT"]


class Operation(Scalar):
    """An operation that all engines spell alike: an operator between operands, from left to right, or a word."""

    operator: Operator | Word | Direction
    operands: tuple[Scalar, ...]


class Cast(Scalar):
    """A cast that the writer has shown to succeed, or, if it is ``safe``, one that gives NULL where it fails."""

    value: Scalar
    to: str
    of: str | None
    safe: bool


class Case(Scalar):
    """CASE WHEN … THEN … ELSE … END."""

    pairs: tuple[tuple[Scalar, Scalar], ...]
    otherwise: Scalar | None


class WindowCall(Scalar):
    """A function OVER (PARTITION BY … ORDER BY …): over all rows up to the current one, or over a frame."""

    call: FunctionCall
    partition: tuple[Scalar, ...]
    order: tuple[Scalar, ...]
    frame: str = ""


class Costed(Scalar):
    """A value that costs more than its parts, or another price."""

    value: Scalar
    work: int
    only: bool = False
    """Whether this is the whole cost: that of a column where an engine computes it anew."""


class Alias(Scalar):
    """A value AS a name."""

    value: Scalar
    name: str


Named = Alias | ColumnName
"""A column of a SELECT, which has a name."""


# Sources to select from


class TableName(Node):
    """A table or view of the engine; it may have several rows for each that is stored."""

    place: str | tuple[str, ...] | int
    """Its name, with its schema and database before it if they must be said; or the number of a view of each question.
    """
    label: str | None = None
    rows: int = 1


class TableFunction(Node):
    """A function that returns rows: words of this package's own source, and options by name."""

    function: str
    arguments: tuple[Scalar, ...]
    options: tuple[tuple[str, Scalar], ...] = ()


class ParameterRows(Node):
    """Lists that are handed over when the statement runs, side by side as columns."""

    lists: tuple[tuple[int, str], ...]
    """The number of each list, which is the question's own, and the type of its values."""
    label: str
    columns: tuple[str, ...]


class ConstantRows(Node):
    """Rows that are written out."""

    rows: tuple[tuple[Scalar, ...], ...]
    label: str
    columns: tuple[str, ...]


class Subquery(Node):
    """The rows of a query, or of several, one after the other."""

    queries: tuple[Select, ...]
    label: str
    stored: bool = False
    """Whether the query only reads a table, which counts as no work of its own."""


From = TableName | TableFunction | ParameterRows | ConstantRows | Subquery
"""A source of rows, under an alias."""


class JoinClause(Node):
    """A join with another source."""

    kind: str
    """``inner``, ``left``, ``semi``, ``anti`` or ``cross``."""
    source: From
    on: Scalar | None


class Select(Node):
    """A SELECT statement. Its methods return it with a further clause."""

    before: tuple[tuple[str, Select], ...] = ()
    """Queries that are computed before, once, each under a name."""
    columns: tuple[Scalar, ...] = ()
    source: From | None = None
    joins: tuple[JoinClause, ...] = ()
    conditions: tuple[Scalar, ...] = ()
    group: tuple[Scalar, ...] = ()
    having: Scalar | None = None
    qualify: tuple[Scalar, int] | None = None
    """A window over the rows, and how large it may be at most."""
    order: tuple[Scalar, ...] = ()
    limit: int | None = None
    distinct: bool = False

    @property
    def labels(self) -> list[str]:
        """The names of the columns; every column must have one."""
        return [selected.name for selected in self.columns]  # type: ignore[attr-defined]

    def showing(self, columns: Sequence[Scalar]) -> Select:
        """Return the query with other columns."""
        return replace(self, columns=tuple(columns))

    def joined(self, source: From, kind: str, on: Scalar | None = None) -> Select:
        """Return the query joined with another source."""
        return replace(self, joins=(*self.joins, JoinClause(kind, source, on)))

    def where(self, condition: Scalar) -> Select:
        """Return the query with a further condition."""
        return replace(self, conditions=(*self.conditions, condition))

    def grouped(self, keys: Sequence[Scalar], having: Scalar | None = None) -> Select:
        """Return the query with GROUP BY, where there are keys."""
        return replace(self, group=tuple(keys), having=having)

    def qualified(self, rank: Scalar, limit: int) -> Select:
        """Return the rows in which a window over them is at most so large."""
        return replace(self, qualify=(rank, limit))

    def first_rows(self, limit: int, *order: Scalar) -> Select:
        """Return the first of the distinct rows, in order."""
        return replace(self, distinct=True, order=order, limit=limit)

    def with_before(self, label: str, subquery: Select) -> Select:
        """Return the query with another one computed before, once, under a name."""
        return replace(self, before=(*self.before, (label, subquery)))


# What a row costs

MADE = 3
"""Nanoseconds, at least, for each character of a text that is made: it is also held in memory, with other rows'."""
OPERATION = 3
"""Nanoseconds for an operator, a comparison, a branch or a plain function."""
_CAST, _LISTED, _LIST, _DISTINCT, _WINDOW = 15, 4, 60, 100, 250
"""Nanoseconds for a cast, a value of a list, a row from a list, a distinct value, and a row of a window."""
_PLAIN = (
    "abs", "ceil", "coalesce", "contains", "count", "count_if", "ends_with", "floor", "greatest", "isfinite", "isnan",
    "least", "left", "length", "log", "log10", "lower", "ltrim", "max", "min", "regexp_matches", "replace", "right",
    "rtrim", "split_part", "starts_with", "strlen", "strpos", "sum", "trim", "trunc", "unnest", "upper",
)  # fmt: skip
CALLS = dict.fromkeys(_PLAIN, OPERATION) | {
    "ln": 25, "exp": 25, "pow": 60, "sqrt": 10, "round": 20, "hash": 20, "apart": _LIST, "row_id": _WINDOW,
    "date_diff": 80, "date_trunc": 80, "year": 30, "quarter": 30, "month": 30, "day": 30, "dayofweek": 30, "hour": 30,
    "week": 60, "dayofyear": 30, "minute": 30, "second": 30, "try_strptime": 800, "strftime": 800,
    "to_months": 60, "to_days": 30, "to_microseconds": 30, "epoch_us": 10, "epoch_days": 80 + OPERATION,
    "stored_text": OPERATION, "stored_instant": OPERATION, "stored_decimal": OPERATION, "stored_numeric": OPERATION,
    "stored_digits": OPERATION,
}  # fmt: skip
"""Nanoseconds for a function, without its characters of text; one that is not here costs as much as the dearest."""
_DEAREST = max(CALLS.values())
_SELECT, _GROUP, _JOIN = 20, 100, 100
"""Nanoseconds for a row of a SELECT, in groups, and in a join."""
_PRIMITIVES = {
    "power": CALLS["pow"], "rounded": CALLS["round"], "row_hash": CALLS["hash"], "unit_number": 3 * OPERATION,
    "date_trunc": CALLS["date_trunc"], "date_diff": CALLS["date_diff"], "formatted": CALLS["strftime"], "struct": 0,
}  # fmt: skip
"""Those of primitives that cost more than an operation, or nothing."""
_MOVES = {"months": "to_months", "days": "to_days", "microseconds": "to_microseconds"}


def _cost(node: Node, inside: int) -> int:
    """Return the cost of a node; ``inside`` are the costs of its children together."""
    match node:
        case ColumnName() | Constant() | Alias():
            return inside
        case Operation(operator="IN"):
            return inside + _LISTED * (len(node.operands) - 1)
        case Operation(operator="DISTINCT"):
            return inside + _DISTINCT
        case Operation() if node.operator not in _TERMS:
            return inside + OPERATION * max(len(node.operands) - 1, 1)
        case FunctionCall():
            return inside + CALLS.get(node.function, _DEAREST)
        case Cast():
            return inside + (_CAST if node.safe else OPERATION)
        case Case():
            return inside + OPERATION * len(node.pairs)
        case Costed():
            return node.work if node.only else inside + node.work
        case Primitive():
            options: dict[str, Any] = dict(node.options)
            match node.name:
                case "moved":
                    own = sum([CALLS[call] + OPERATION for unit, call in _MOVES.items() if options[unit]])
                case "scaled":
                    own = CALLS["round"] + (0 if options["times"] is None and options["over"] is None else OPERATION)
                case "weighted_down":  # a sum that is rounded down names its count twice
                    own = 5 * OPERATION + node.arguments[1].cost if options["floor"] else 3 * OPERATION
                case name:
                    own = _PRIMITIVES.get(name, OPERATION)
            return inside + own
        case WindowCall():  # in place of what the function costs as an aggregate
            return inside + _WINDOW - CALLS.get(node.call.function, _DEAREST)
        case Subquery(stored=True):
            return 0
        case JoinClause():
            return inside + _JOIN
        case Select():
            sources = 0 if node.source is None else node.source.cost
            for _, query in node.before:
                sources += query.cost
            clauses = inside - sources + (0 if node.qualify is None else OPERATION)
            per_row = _SELECT + (_GROUP if node.group or node.distinct or node.order else 0)
            return rows_of(node) * (per_row + clauses) + sources
        case TableFunction() | ConstantRows():  # made once, not for every row
            return 0
        case _:
            return inside


def rows_of(source: Select | From | None) -> int:
    """Return how many rows a source makes of a stored row; a query, but for its joins."""
    match source:
        case Select():
            return rows_of(source.source)
        case TableName():
            return source.rows
        case Subquery() if not source.stored:
            return sum(map(rows_of, source.queries))
        case _:
            return 1


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


def integer(value: int) -> Scalar:
    """Return an integer constant; beyond 64 bits it must be cast by name, from text that is all digits."""
    return text(str(value)).cast("HUGEINT") if abs(value) >= 2**63 else Constant(value)


def huge(value: int) -> Scalar:
    """Return a whole number as HUGEINT."""
    return integer(value).cast("HUGEINT")


def text(value: str) -> Scalar:
    """Return a text constant; NUL characters, which engines refuse, are dropped."""
    return Constant(value.replace("\0", ""))


def date(value: dt.date) -> Scalar:
    """Return a date constant."""
    return text(value.isoformat()).cast("DATE")


def timestamp(value: dt.datetime) -> Scalar:
    """Return a timestamp constant."""
    return text(value.replace(tzinfo=None).isoformat(sep=" ")).cast("TIMESTAMP")


def null(of: str) -> Scalar:
    """Return a NULL of a type."""
    return NULL.cast(of)


def array(values: Sequence[Scalar]) -> Scalar:
    """Return a list of constants of one type, which is made once and not for every row."""
    return Costed(Primitive("array", tuple(values)), 0, only=True)


def case(*pairs: tuple[Scalar, Scalar], otherwise: Scalar | None = None) -> Scalar:
    """Return CASE WHEN … THEN … ELSE … END."""
    return Case(pairs, otherwise)


def both(conditions: Sequence[Scalar]) -> Scalar:
    """Return the conjunction, TRUE if there is nothing to join."""
    if not conditions:
        return TRUE
    return conditions[0] if len(conditions) == 1 else Operation("AND", tuple(conditions))


def count(condition: Scalar | None = None) -> Scalar:
    """Return COUNT(*), or how often a condition holds."""
    return call("count", EVERYTHING) if condition is None else call("count_if", condition)


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


FloatOperator = Literal["+", "-", "*", "/", "%"]


def float_operation(operator: FloatOperator, left: Scalar, right: Scalar, *spans: Span | None) -> Scalar:
    """Return arithmetic of floats; the spans bound their magnitudes in every row, where they are known."""
    return primitive("float_operation", left, right, operator=operator, spans=spans)


def select(columns: Sequence[Scalar], source: Select | From | None = None, label: str = "t") -> Select:
    """Return SELECT columns FROM source; a query AS t."""
    return Select(columns=tuple(columns), source=Subquery((source,), label) if isinstance(source, Select) else source)


def read(place: str | Select, label: str, rows: int = 1) -> From:
    """Return a table to select from under another name, or the query by which it is read."""
    return TableName(place, label, rows) if isinstance(place, str) else Subquery((place,), label, stored=True)
