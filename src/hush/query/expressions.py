"""Expressions over one row: columns, literals and calls of total functions.

There are four kinds of node and no others, so that whoever walks a tree (typing, SQL generation, evaluation over
noisy answers) handles everything there is. Each function is an `Op`; whatever is not an `Op` does not exist here.
All are total: division by zero, a logarithm of a negative number, a cast that fails, an overflow give NULL, so that
no row can make a question fail.

Null logic is SQL's, three-valued.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from hush.query.hashing import Hashed, hashed_once
from hush.query.types import Type, Value


class Op(Enum):
    """Every function an expression may call."""

    # arithmetic; all in float64 with NULL for what is undefined or not finite
    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    DIVIDE = auto()
    DIVIDE_WHOLE = auto()  # of whole numbers, towards zero
    MODULO = auto()  # with the sign of the first argument
    NEGATE = auto()
    ABS = auto()
    FLOOR = auto()
    CEIL = auto()
    ROUND = auto()  # (x) or (x, digits literal); ties away from zero
    SQRT = auto()
    EXP = auto()
    LN = auto()
    LOG = auto()  # (base literal, x)
    POWER = auto()
    SIGN = auto()
    LEAST = auto()  # of the arguments that are not NULL
    GREATEST = auto()  # likewise
    CLIP = auto()  # (x, lower literal, upper literal); NULL stays NULL
    BIN = auto()  # (x, lower literal, upper literal, n literal): lower + k·(upper - lower)/n, x clamped into the range
    # comparison and logic
    EQUAL = auto()
    NOT_EQUAL = auto()
    LESS = auto()
    LESS_EQUAL = auto()
    GREATER = auto()
    GREATER_EQUAL = auto()
    AND = auto()  # of two; chains lean to the left
    OR = auto()  # likewise
    NOT = auto()
    IS_NULL = auto()
    IN = auto()  # (x, literal, literal, …)
    LIKE = auto()  # (x, pattern literal) or (x, pattern literal, escape literal)
    # choice
    CASE = auto()  # (condition, value, condition, value, …, otherwise)
    COALESCE = auto()
    NULL_IF = auto()
    # text
    LOWER = auto()
    UPPER = auto()
    TRIM = auto()  # of blanks
    LTRIM = auto()
    RTRIM = auto()
    LENGTH = auto()
    SUBSTRING = auto()  # (x, start literal, length literal)
    CONCAT = auto()  # NULL if any argument is NULL, as ||
    LEFT = auto()
    RIGHT = auto()
    REPLACE = auto()
    STARTS_WITH = auto()
    CONTAINS = auto()
    # dates
    YEAR = auto()
    QUARTER = auto()
    MONTH = auto()
    DAY = auto()
    DAY_OF_WEEK = auto()  # 0 is Sunday
    HOUR = auto()
    TRUNCATE_DATE = auto()  # (unit literal: 'year' | 'quarter' | 'month' | 'week' | 'day', x); gives a DATE
    DATE_DIFF = auto()  # (unit literal, from, to): units of time between them, see _moments
    ADD_INTERVAL = auto()  # (x, months literal, days literal, microseconds literal); gives a TIMESTAMP
    # casts; NULL where there is no sensible result
    TO_INTEGER = auto()  # to the nearest; ties to even, but of text and of exact decimals away from zero
    TO_DECIMAL = auto()
    TO_FIXED = auto()  # (x, digits literal, width literal): rounded to so many digits, which are exact from there on
    TO_TEXT = auto()
    TO_BOOLEAN = auto()
    TO_DATE = auto()
    TO_TIMESTAMP = auto()


@hashed_once
@dataclass(frozen=True, slots=True)
class Column(Hashed):
    """A column of the relation underneath, by its unique name there."""

    name: str
    type: Type


@hashed_once
@dataclass(frozen=True, slots=True)
class Literal(Hashed):
    """A constant that the analyst wrote or passed as a parameter."""

    value: Value
    type: Type


@hashed_once
@dataclass(frozen=True, slots=True)
class Call(Hashed):
    """A total function applied to arguments."""

    op: Op
    arguments: tuple[Expression, ...]
    type: Type


@hashed_once
@dataclass(frozen=True, slots=True)
class Released(Hashed):
    """What a question releases, in post-processing only: group key or noisy aggregate number ``index``."""

    source: str
    """"key" or "aggregate"."""
    index: int
    type: Type


Expression = Column | Literal | Call | Released
