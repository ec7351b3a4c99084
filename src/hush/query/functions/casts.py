"""Casts to numbers, texts, booleans and times; values without a sensible result become NULL.

CAST AS DECIMAL(width, digits) is a rounding, in `hush.query.functions.numbers`.
"""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction

import numpy as np

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Expression, Op
from hush.query.functions.record import Arguments, Array, Function, Rising, floats, of_floats
from hush.query.functions.rules import interval, number, refuse, step_of, strict
from hush.query.ranges import Interval
from hush.query.types import Kind, Type, Value

MICROSECONDS = 86_400_000_000
"""Microseconds in a day."""
_NUMBERS = {Kind.INTEGER, Kind.DECIMAL, Kind.TEXT, Kind.BOOLEAN}
_TIMES = {Kind.DATE, Kind.TIMESTAMP, Kind.TEXT}


def _check(op: Op, argument: Expression, kinds: set[Kind]) -> Type:
    if argument.type.kind not in kinds:
        raise refuse(op, argument, " or ".join(sorted(kind.value for kind in kinds)))
    return argument.type


def days(type_: Type) -> tuple[Fraction | None, Fraction | None]:
    """Return the first and last day of a date or timestamp."""
    scale = MICROSECONDS if type_.kind is Kind.TIMESTAMP else 1
    return (
        None if type_.lower is None else Fraction(math.floor(type_.lower / scale)),
        None if type_.upper is None else Fraction(math.floor(type_.upper / scale)),
    )


def _to_number(op: Op, arguments: Arguments) -> Type:
    type_ = _check(op, arguments[0], _NUMBERS)
    kind = Kind.INTEGER if op is Op.TO_INTEGER else Kind.DECIMAL
    if type_.kind is Kind.TEXT:
        return Type(kind, step=Fraction(1) if kind is Kind.INTEGER else None)
    if type_.kind is Kind.BOOLEAN:
        return number(kind, Interval(Fraction(0), Fraction(1)), nullable=type_.nullable, step=Fraction(1))
    span = interval(type_)
    if kind is Kind.DECIMAL:
        return number(kind, span, nullable=type_.nullable, step=step_of(type_) or None)
    whole = type_.kind is Kind.INTEGER
    span = span if whole else span.nearest()
    fits = span.bounded and span.magnitude < 2**63  # NULL beyond, also for a whole number such as 1e300
    return number(
        kind, span, nullable=type_.nullable or not fits, step=(step_of(type_) or None) if whole else Fraction(1)
    )


def _to_text(op: Op, arguments: Arguments) -> Type:
    type_ = _check(op, arguments[0], set(Kind))
    return Type(Kind.TEXT, type_.nullable, values=type_.values if type_.kind is Kind.TEXT else None)


def _to_boolean(op: Op, arguments: Arguments) -> Type:
    type_ = _check(op, arguments[0], {Kind.BOOLEAN, Kind.TEXT, Kind.INTEGER})
    return Type(Kind.BOOLEAN, type_.nullable or type_.kind is Kind.TEXT, values=(False, True))


def _to_time(op: Op, arguments: Arguments) -> Type:
    type_ = _check(op, arguments[0], _TIMES)
    kind = Kind.DATE if op is Op.TO_DATE else Kind.TIMESTAMP
    if type_.kind is Kind.TEXT:
        return Type(kind, step=Fraction(1))
    if type_.kind is kind:
        return type_
    if kind is Kind.DATE:
        low, high = days(type_)
    else:
        low = None if type_.lower is None else type_.lower * MICROSECONDS
        high = None if type_.upper is None else type_.upper * MICROSECONDS
    return Type(kind, type_.nullable, low, high, Fraction(1))


def to_timestamp(argument: Expression) -> Call:
    """Return a date as the timestamp of its midnight."""
    return strict(Op.TO_TIMESTAMP, (argument,), _to_time(Op.TO_TIMESTAMP, (argument,)))


def read_time(text: str, kind: Kind) -> Value:
    """Return the date or timestamp that constant text stands for."""
    try:
        if kind is Kind.DATE:
            return dt.date.fromisoformat(text.strip())
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        form = "'2024-12-31'" if kind is Kind.DATE else "'2024-12-31 23:59:59'"
        raise QuestionError(f"{text[:40]!r} is not a {kind.value}.", f"Write it as {form}.") from None
    if moment.tzinfo is not None:
        raise QuestionError(f"{text[:40]!r} has a time zone; timestamps here have none.", "Leave the zone out.")
    return moment


def _as_integers(_: Call, arguments: list[Array]) -> Array:
    values = floats(arguments[0])
    return np.asarray(np.where(np.abs(values) < 2.0**63, np.rint(values), np.nan), dtype=np.float64)


def _as_booleans(_: Call, arguments: list[Array]) -> Array:
    values = floats(arguments[0])
    return np.asarray(np.where(np.isnan(values), np.nan, (values != 0).astype(float)), dtype=np.float64)


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UTINYINT", "USMALLINT", "UINT", "UBIGINT")
CASTS = (
    Function(op=Op.TO_INTEGER, rule=_to_number, arity=(1, 1), types=_INTEGERS, evaluate=_as_integers, by_engine=True),
    Function(
        op=Op.TO_DECIMAL,
        rule=_to_number,
        arity=(1, 1),
        types=("FLOAT", "DOUBLE", "DECIMAL"),
        evaluate=of_floats(lambda values: values),
        rising=Rising.ALL,
    ),
    Function(op=Op.TO_TEXT, rule=_to_text, arity=(1, 1), types=("VARCHAR", "TEXT"), per_character=0),
    Function(
        op=Op.TO_BOOLEAN, rule=_to_boolean, arity=(1, 1), types=("BOOLEAN",), evaluate=_as_booleans, by_engine=True
    ),
    Function(op=Op.TO_DATE, rule=_to_time, arity=(1, 1), types=("DATE",)),
    Function(op=Op.TO_TIMESTAMP, rule=_to_time, arity=(1, 1), types=("TIMESTAMP", "TIMESTAMPNTZ")),
)
