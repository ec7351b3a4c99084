"""Expressions over one row: columns, literals and calls of total functions.

There are four kinds of node and no others, so that code that walks a tree (typing, SQL generation, evaluation
over noisy answers) can handle all of them. Each function is an `Op`; functions without an `Op` do not exist here.
All are total: division by zero, a logarithm of a negative number, a cast that fails, an overflow give NULL, so that
no row can make a question fail.

Null logic is SQL's, three-valued.

Expressions are trees of frozen dataclasses, and keys of many dictionaries. A tree never changes, so the hash of a call
is found once. It is in no copy, comparison or representation.

>>> from hush.query.types import Kind
>>> column = Column("age", Type(Kind.INTEGER))
>>> len({column, Column("age", Type(Kind.INTEGER))})
1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from hush.core.work import spend
from hush.query.errors import QuestionError
from hush.query.types import Type, Value

MOST_PIECES = 20_000
"""How many pieces an expression may have, each counted as often as it is there."""


class Op(Enum):
    """Every function an expression may call, by the sign or name that analysts know it by.

    What each means, how it is read, typed and evaluated, is one record in `hush.query.functions`.
    """

    # arithmetic; all in float64 with NULL for what is undefined or not finite
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    DIVIDE_WHOLE = "//"  # of whole numbers, towards zero
    MODULO = "%"  # with the sign of the first argument
    NEGATE = "-x"
    ABS = "ABS"
    FLOOR = "FLOOR"
    CEIL = "CEIL"
    TRUNC = "TRUNC"  # towards zero
    ROUND = "ROUND"  # (x) or (x, digits literal); ties away from zero
    SQRT = "SQRT"
    EXP = "EXP"
    LN = "LN"
    LOG = "LOG"  # (base literal, x)
    POWER = "POWER"
    SIGN = "SIGN"
    LEAST = "LEAST"  # of the arguments that are not NULL
    GREATEST = "GREATEST"  # likewise
    CLIP = "CLIP"  # (x, lower literal, upper literal); NULL stays NULL
    BIN = "BIN"  # (x, lower literal, upper literal, n literal): lower + k·(upper - lower)/n, x clamped into the range
    WIDTH_BUCKET = "WIDTH_BUCKET"  # (x, lower literal, upper literal, n literal): 1 … n; 0 below, n + 1 from upper on
    # comparison and logic
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    AND = "AND"  # of two; chains lean to the left
    OR = "OR"  # likewise
    NOT = "NOT"
    IS_NULL = "IS NULL"
    IN = "IN"  # (x, literal, literal, …)
    REGEXP_MATCHES = "REGEXP_MATCHES"  # (x, pattern literal, flags literal): whether a part of x matches
    LIKE = "LIKE"  # (x, pattern literal) or (x, pattern literal, escape literal)
    # choice
    CASE = "CASE"  # (condition, value, condition, value, …, otherwise)
    COALESCE = "COALESCE"
    NULL_IF = "NULLIF"
    # text
    LOWER = "LOWER"
    UPPER = "UPPER"
    TRIM = "TRIM"  # of blanks
    LTRIM = "LTRIM"
    RTRIM = "RTRIM"
    LENGTH = "LENGTH"
    SUBSTRING = "SUBSTRING"  # (x, start literal, length literal)
    CONCAT = "||"  # NULL if any argument is NULL, as ||
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    REPLACE = "REPLACE"
    STARTS_WITH = "STARTS_WITH"
    ENDS_WITH = "ENDS_WITH"
    CONTAINS = "CONTAINS"
    POSITION = "STRPOS"  # (x, text): where it first begins, from 1; 0 if nowhere
    STRLEN = "STRLEN"  # in bytes of UTF-8
    SPLIT_PART = "SPLIT_PART"  # (x, separator literal, number literal from 1); empty where there are fewer
    # dates
    YEAR = "YEAR"
    QUARTER = "QUARTER"
    MONTH = "MONTH"
    DAY = "DAY"
    DAY_OF_WEEK = "DAYOFWEEK"  # 0 is Sunday
    WEEK = "WEEK"  # ISO 8601
    DAY_OF_YEAR = "DAYOFYEAR"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"
    MAKE_DATE = "MAKE_DATE"  # (year, month, day); NULL where there is no such day
    STRFTIME = "STRFTIME"  # (x, format literal)
    STRPTIME = "STRPTIME"  # (text, format literal); gives a TIMESTAMP
    TRUNCATE_TIME = "DATE_TRUNC "  # (unit literal: 'hour' | 'minute' | 'second', x); gives a TIMESTAMP
    TRUNCATE_DATE = "DATE_TRUNC"  # (unit literal: 'year' | 'quarter' | 'month' | 'week' | 'day', x); gives a DATE
    DATE_DIFF = "DATE_DIFF"  # (unit literal, from, to): units of time between them, see hush.query.functions.dates
    ADD_INTERVAL = "INTERVAL"  # (x, months literal, days literal, microseconds literal); gives a TIMESTAMP
    # casts; NULL where there is no sensible result
    TO_INTEGER = "CAST AS INTEGER"  # to the nearest; ties to even, but of text and of exact decimals away from zero
    TO_DECIMAL = "CAST AS DOUBLE"
    TO_FIXED = "CAST AS DECIMAL"  # (x, digits literal, width literal): rounded to digits that are exact from there on
    TO_TEXT = "CAST AS VARCHAR"
    TO_BOOLEAN = "CAST AS BOOLEAN"
    TO_DATE = "CAST AS DATE"
    TO_TIMESTAMP = "CAST AS TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the relation underneath, by its unique name there."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant that the analyst wrote or passed as a parameter."""

    value: Value
    type: Type


class _Derived:
    """Has places for a hash and for the number of pieces, which are no fields: no copy or comparison has them."""

    __slots__ = ("_hash", "size")
    _hash: int
    size: int


@dataclass(frozen=True, slots=True)
class Call(_Derived):
    """A total function applied to arguments."""

    op: Op
    arguments: tuple[Expression, ...]
    type: Type

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.op, self.arguments, self.type)))
            return self._hash

    def __post_init__(self) -> None:
        # A part that is named once and used twice, by parts that are used twice, would grow without end.
        size = 1 + sum(one.size if isinstance(one, Call) else 1 for one in self.arguments)
        if size > MOST_PIECES:
            raise QuestionError(
                f"An expression has more than {MOST_PIECES:,} parts once what WITH names is put in.",
                "Ask for less at once.",
            )
        object.__setattr__(self, "size", size)


@dataclass(frozen=True, slots=True)
class Released:
    """A released value, for post-processing only: the group key or noisy aggregate number ``index``."""

    source: str
    """"key" or "aggregate"."""
    index: int
    type: Type


Expression = Column | Literal | Call | Released


def pieces(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all that is in it, from left to right, as often as it is there."""
    if isinstance(expression, Call):
        spend(expression.size)
    left = [expression]
    while left:
        one = left.pop()
        yield one
        if isinstance(one, Call):
            # reversed, because a stack returns the last one first
            left.extend(reversed(one.arguments))


def substituted(expression: Expression, known: Callable[[Expression], Expression | None]) -> Expression:
    """Return an expression with each piece replaced by ``known(piece)``; None keeps a piece."""
    found = known(expression)
    if found is not None:
        return found
    if not isinstance(expression, Call):
        return expression
    return Call(expression.op, tuple(substituted(one, known) for one in expression.arguments), expression.type)


def with_columns(expression: Expression, known: Mapping[str, Expression]) -> Expression:
    """Return an expression with other expressions in the place of all its columns."""
    return substituted(expression, lambda piece: known[piece.name] if isinstance(piece, Column) else None)


def columns_in(expression: Expression) -> frozenset[str]:
    """Return the names of all columns in an expression."""
    return frozenset(piece.name for piece in pieces(expression) if isinstance(piece, Column))
