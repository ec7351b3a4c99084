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
from collections.abc import Mapping
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


def narrowed(types: Types, condition: Expression, *, outcome: bool = True) -> dict[str, Type]:
    """Return the columns' types for the rows on which ``condition`` is true (or false)."""
    found = dict(types)
    match condition:
        case Call(op=Op.AND | Op.OR as op):
            parts = conjuncts(condition, op)
            if (op is Op.AND) is outcome:
                for part in parts:
                    found = narrowed(found, part, outcome=outcome)
                return found
            ways = [narrowed(found, part, outcome=outcome) for part in parts]
            return {
                name: type_ if all(way[name] is type_ for way in ways) else _any_of([way[name] for way in ways], type_)
                for name, type_ in found.items()
            }
        case Call(op=Op.NOT, arguments=(inner,)):
            return narrowed(found, inner, outcome=not outcome)
        case Call(op=Op.COALESCE, arguments=(inner, Literal(value=False))) if outcome:
            return narrowed(found, inner)
        case Call(op=Op.IS_NULL, arguments=(Column(name=name),)):
            if not outcome and name in found:
                found[name] = replace(found[name], nullable=False)
        case Call(op=op, arguments=(left, right)) if op in _OPPOSITE:
            _compare(found, op if outcome else _OPPOSITE[op], left, right)
        case Call(op=Op.IN, arguments=(Column(name=name), *items)):
            if name in found:
                listed = [item.value for item in items if isinstance(item, Literal)]
                found[name] = _among(found[name], listed) if outcome else _without(found[name], listed)
        case Call(op=Op.IN, arguments=(Call(op=Op.YEAR, arguments=(Column(name=name),)), *items)):
            if name in found and outcome:
                years = _among(_YEAR, [item.value for item in items if isinstance(item, Literal)])
                found[name] = _in_years(found[name], years)
        case Call(op=op, arguments=(Column(name=name), *_)) if FUNCTIONS[op].evaluate is None:  # NULL of NULL
            if name in found:
                found[name] = replace(found[name], nullable=False)
        case Column(name=name):
            if name in found:
                found[name] = replace(found[name], nullable=False, values=(outcome,))
        case _:
            pass
    return found


def narrowed_unless(types: Types, condition: Expression, *, outcome: bool = True) -> dict[str, Type]:
    """Return the columns' types for the rows on which ``condition`` is not true (or not false), but perhaps NULL."""
    found = dict(types)
    match condition:
        case _ if not condition.type.nullable:
            return narrowed(types, condition, outcome=not outcome)
        case Call(op=Op.NOT, arguments=(inner,)):
            return narrowed_unless(types, inner, outcome=not outcome)
        case Call(op=Op.AND | Op.OR as op) if (op is Op.OR) is outcome:  # neither part has the outcome
            for part in conjuncts(condition, op):
                found = narrowed_unless(found, part, outcome=outcome)
        case Call(op=op, arguments=(Column(name=name), Literal()) | (Literal(), Column(name=name))) if (
            op in _OPPOSITE and name in types
        ):
            cut = narrowed(types, condition, outcome=not outcome)
            found[name] = replace(cut[name], nullable=types[name].nullable)
        case _:
            pass
    return found


def _any_of(ways: list[Type], before: Type) -> Type:
    """Return the union of several narrowed types of a column."""
    if all(way == ways[0] for way in ways):
        return ways[0]
    joined = either([Column("", way) for way in ways], nullable=any(way.nullable for way in ways))
    return replace(joined, kind=before.kind, step=before.step, values=joined.values or before.values)


def _compare(found: dict[str, Type], op: Op, left: Expression, right: Expression) -> None:
    """Narrow the columns on both sides of a comparison that is true."""
    for side, other, as_read in ((left, right, op), (right, left, _MIRRORED.get(op, op))):
        if isinstance(side, Call) and side.op is Op.YEAR and other.type.kind.numeric:
            (day,) = side.arguments
            if isinstance(day, Column) and day.name in found:
                years = _YEAR if as_read is Op.NOT_EQUAL else _within(_YEAR, as_read, other.type)
                found[day.name] = _in_years(found[day.name], years)
        if not isinstance(side, Column) or side.name not in found:
            continue
        type_ = replace(found[side.name], nullable=False)
        if isinstance(other, Literal) and as_read is Op.EQUAL:
            type_ = _among(type_, [other.value])
        elif isinstance(other, Literal) and as_read is Op.NOT_EQUAL:
            type_ = _without(type_, [other.value])
        elif as_read is not Op.NOT_EQUAL and type_.kind.ranged and other.type.kind.ranged:
            known = found.get(other.name, other.type) if isinstance(other, Column) else other.type
            type_ = _within(type_, as_read, known)
        found[side.name] = type_


def _in_years(type_: Type, years: Type) -> Type:
    """Narrow a date or timestamp to the days of some years."""
    assert years.lower is not None and years.upper is not None  # noqa: S101, PT018 - years have both
    first, last = dt.date(math.ceil(years.lower), 1, 1), dt.date(math.floor(years.upper), 12, 31)
    if type_.kind is not Kind.DATE:
        first, last = dt.datetime.combine(first, dt.time.min), dt.datetime.combine(last, dt.time.max)
    return _cut(replace(type_, nullable=False), Interval(position(first), position(last)))


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
