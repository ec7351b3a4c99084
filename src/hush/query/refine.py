"""Narrower types from conditions: rows that pass ``age BETWEEN 18 AND 65`` have ages from 18 to 65.

A condition is true, false or NULL. From *true* follows: of AND, that both parts are true; of OR, that one of them is;
of NOT, that the part is false. From *false*: of AND, that one part is false; of OR, that both are. A comparison that
is true or false has no NULL operand. The year of a column says between which days it lies. Everything else is left
alone, so a narrowed type is true of every row for which the condition is.

A later branch of CASE is for rows on which a condition is *not true*: false, or NULL. A column that is compared with a
constant is then NULL, or it compares the other way: its range is narrowed, and NULL stays possible. So ``CASE WHEN
x < 0 THEN 0 WHEN x > 9 THEN 9 ELSE x END`` lies between 0 and 9.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from hush.query.expressions import Call, Column, Expression, Literal, Op
from hush.query.functions import FUNCTIONS
from hush.query.functions.logic import conjuncts, either
from hush.query.functions.record import interval
from hush.query.types import INFINITY, Interval, Kind, Type, Value, position

Types = Mapping[str, Type]

_OPPOSITE = {
    Op.EQUAL: Op.NOT_EQUAL,
    Op.NOT_EQUAL: Op.EQUAL,
    Op.LESS: Op.GREATER_EQUAL,
    Op.GREATER_EQUAL: Op.LESS,
    Op.GREATER: Op.LESS_EQUAL,
    Op.LESS_EQUAL: Op.GREATER,
}
_MIRRORED = {Op.LESS: Op.GREATER, Op.GREATER: Op.LESS, Op.LESS_EQUAL: Op.GREATER_EQUAL, Op.GREATER_EQUAL: Op.LESS_EQUAL}
_YEAR = Type(Kind.INTEGER, False, Fraction(1), Fraction(9999), Fraction(1))


def narrowed(types: Types, condition: Expression, *, outcome: bool = True, or_null: bool = False) -> dict[str, Type]:
    """Return the columns' types for the rows on which ``condition`` is true (or false), or else perhaps NULL."""
    found = dict(types)
    or_null = or_null and condition.type.nullable
    match condition:
        case Call(op=Op.AND | Op.OR as op):
            parts = conjuncts(condition, op)
            if (op is Op.AND) is outcome:
                for part in parts:
                    found = narrowed(found, part, outcome=outcome, or_null=or_null)
            elif not or_null:
                ways = [narrowed(found, part, outcome=outcome) for part in parts]
                for name, type_ in found.items():
                    if any(way[name] is not type_ for way in ways):
                        found[name] = _any_of([way[name] for way in ways], type_)
        case Call(op=Op.NOT, arguments=(inner,)):
            return narrowed(found, inner, outcome=not outcome, or_null=or_null)
        case Call(op=op, arguments=(left, right)) if op in _OPPOSITE:
            _compare(found, op if outcome else _OPPOSITE[op], left, right)
            if or_null and {type(left), type(right)} == {Column, Literal}:
                return {name: replace(type_, nullable=types[name].nullable) for name, type_ in found.items()}
            return dict(types) if or_null else found
        case _ if or_null:
            pass
        case Call(op=Op.COALESCE, arguments=(inner, Literal(value=False))) if outcome:
            return narrowed(found, inner)
        case Call(op=Op.IS_NULL, arguments=(Column() as column,)):
            if not outcome:
                _narrow(found, column, lambda type_: type_)
        case Call(op=Op.IN, arguments=(side, *items)):
            listed = [item.value for item in items if isinstance(item, Literal)]
            _narrow(found, side, lambda type_: _among(type_, listed) if outcome else _without(type_, listed))
        case Call(op=op, arguments=(Column() as column, *_)) if FUNCTIONS[op].evaluate is None:  # NULL of NULL
            _narrow(found, column, lambda type_: type_)
        case Column():
            _narrow(found, condition, lambda type_: replace(type_, values=(outcome,)))
        case _:
            pass
    return found


def _narrow(found: dict[str, Type], side: Expression, change: Callable[[Type], Type]) -> None:
    """Narrow the type of a column that is not NULL, or of one with a year that is not."""
    of_year = isinstance(side, Call) and side.op is Op.YEAR
    column = side.arguments[0] if isinstance(side, Call) and of_year else side
    if isinstance(column, Column) and column.name in found:
        type_ = replace(found[column.name], nullable=False)
        found[column.name] = _in_years(type_, change(_YEAR)) if of_year else change(type_)


def _any_of(ways: list[Type], before: Type) -> Type:
    """Return the union of several narrowed types of a column."""
    if all(way == ways[0] for way in ways):
        return ways[0]
    joined = either([Column("", way) for way in ways], nullable=any(way.nullable for way in ways))
    return replace(joined, kind=before.kind, step=before.step, values=joined.values or before.values)


def _compare(found: dict[str, Type], op: Op, left: Expression, right: Expression) -> None:
    """Narrow the columns on both sides of a comparison that is true."""
    for side, other, as_read in ((left, right, op), (right, left, _MIRRORED.get(op, op))):
        known = found.get(other.name, other.type) if isinstance(other, Column) else other.type

        def change(type_: Type, other: Expression = other, as_read: Op = as_read, known: Type = known) -> Type:
            if isinstance(other, Literal) and as_read in {Op.EQUAL, Op.NOT_EQUAL}:
                return (_among if as_read is Op.EQUAL else _without)(type_, [other.value])
            ordered = type_.kind.ranged and known.kind.ranged and as_read is not Op.NOT_EQUAL
            return _within(type_, as_read, known) if ordered else type_

        _narrow(found, side, change)


def _in_years(type_: Type, years: Type) -> Type:
    """Narrow a date or timestamp to the days of some years."""
    assert years.lower is not None and years.upper is not None  # noqa: S101, PT018 - years have both
    first, last = dt.date(math.ceil(years.lower), 1, 1), dt.date(math.floor(years.upper), 12, 31)
    if type_.kind is not Kind.DATE:
        first, last = dt.datetime.combine(first, dt.time.min), dt.datetime.combine(last, dt.time.max)
    return _cut(type_, Interval(position(first), position(last)))


def _within(type_: Type, op: Op, other: Type) -> Type:
    """Narrow a type by a comparison with a value of another type."""
    span = interval(other)
    lower = -INFINITY if op in {Op.LESS, Op.LESS_EQUAL} else span.lower
    upper = INFINITY if op in {Op.GREATER, Op.GREATER_EQUAL} else span.upper
    if type_.kind is not Kind.DECIMAL and op in {Op.LESS, Op.GREATER}:
        # of whole numbers, days and microseconds what is below 10 is at most 9
        lower = Fraction(math.floor(lower) + 1) if isinstance(lower, Fraction) else lower
        upper = Fraction(math.ceil(upper) - 1) if isinstance(upper, Fraction) else upper
    return _cut(type_, Interval(lower, upper))


def _cut(type_: Type, allowed: Interval) -> Type:
    """Cut a range; where nothing would be left no row passes, and the type stays as it was."""
    declared = (-INFINITY if type_.lower is None else type_.lower, INFINITY if type_.upper is None else type_.upper)
    meet = Interval(*declared).meet(allowed)
    if meet is not None and type_.kind is not Kind.DECIMAL:  # whole numbers, days, microseconds: none equals 2.5
        meet = Interval(meet.ceil().lower, meet.floor().upper)
    if meet is None or meet.lower > meet.upper:
        return type_
    lower, upper = meet.ends
    values = type_.values
    if values is not None:
        places = [(value, interval_of(value)) for value in values]
        values = tuple(value for value, place in places if place is None or place.meet(meet) is not None) or values
    return replace(type_, lower=lower, upper=upper, values=values)


def interval_of(value: Value) -> Interval | None:
    """Return the floats a value may be read as; None for text and booleans."""
    if value is None or isinstance(value, (str, bool)):
        return None
    return Interval.at(position(value))


def _among(type_: Type, listed: list[Value]) -> Type:
    """Narrow to a list of constants."""
    type_ = replace(type_, nullable=False)
    if type_.values is not None:
        kept = tuple(value for value in type_.values if value in listed)
        if not kept:
            return type_
        type_ = replace(type_, values=kept)
    elif not type_.kind.ranged:
        return replace(type_, values=tuple(dict.fromkeys(listed)))
    places = {value: position(value) for value in listed if value is not None and not isinstance(value, str | bool)}
    if not type_.kind.ranged or not places:
        return type_
    if type_.values is None and type_.kind is not Kind.DECIMAL:
        # no whole number equals 1.5
        type_ = replace(type_, values=tuple(value for value, at in places.items() if at.denominator == 1) or None)
    return _cut(type_, Interval(min(places.values()), max(places.values())).outward())


def _without(type_: Type, listed: list[Value]) -> Type:
    """Narrow to everything but a list of constants."""
    kept = tuple(value for value in type_.values or () if value not in listed)
    return replace(type_, nullable=False, values=kept or type_.values)
