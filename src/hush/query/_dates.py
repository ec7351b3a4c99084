"""Typing rules of dates, timestamps and casts."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction

from hush.query._moments import UNITS, between, shifted
from hush.query._support import MAX_VALUES, interval, literal_integer, literal_text, need, number, refuse, step_of
from hush.query.errors import QuestionError
from hush.query.expressions import Expression, Op
from hush.query.ranges import Interval
from hush.query.types import Kind, Type, at_position, position

Arguments = tuple[Expression, ...]

DATE_UNITS = ("year", "quarter", "month", "week", "day")
_DAY = 86_400_000_000
_PARTS = {Op.QUARTER: (1, 4), Op.MONTH: (1, 12), Op.DAY: (1, 31), Op.DAY_OF_WEEK: (0, 6), Op.HOUR: (0, 23)}
_DATES = (position(dt.date.min), position(dt.date.max))
_MOMENTS = (_DATES[0] * _DAY, (_DATES[1] + 1) * _DAY - 1)
_LAST_MOMENT = (_DATES[1] + 1) * _DAY - 10**6
_MONTHS = 120_000
"""The longest interval: twelve times the calendar, and far less than what an engine's timestamps hold."""


def _days(type_: Type) -> tuple[Fraction | None, Fraction | None]:
    """Return the first and last day of a date or timestamp."""
    scale = _DAY if type_.kind is Kind.TIMESTAMP else 1
    return (
        None if type_.lower is None else Fraction(math.floor(type_.lower / scale)),
        None if type_.upper is None else Fraction(math.floor(type_.upper / scale)),
    )


def _calendar(day: Fraction | None) -> dt.date | None:
    if day is None or not _DATES[0] <= day <= _DATES[1]:
        return None
    value = at_position(Kind.DATE, day)
    return value if isinstance(value, dt.date) else None


def part(op: Op, arguments: Arguments) -> Type:
    """YEAR, QUARTER, MONTH, DAY, DAY_OF_WEEK, HOUR."""
    need(op, arguments, Kind.DATE, Kind.TIMESTAMP)
    type_ = arguments[0].type
    first, last = (_calendar(day) for day in _days(type_))
    if op is Op.YEAR:
        span = Interval.of(Fraction(first.year) if first else None, Fraction(last.year) if last else None)
        return number(Kind.INTEGER, span, nullable=type_.nullable)
    low, high = _PARTS[op]
    if op is Op.HOUR and type_.kind is Kind.DATE:
        high = 0
    if first and last and first.year == last.year and op in {Op.QUARTER, Op.MONTH}:
        months = (first.month, last.month)
        low, high = months if op is Op.MONTH else ((months[0] + 2) // 3, (months[1] + 2) // 3)
    return number(Kind.INTEGER, Interval(Fraction(low), Fraction(high)), nullable=type_.nullable)


def truncate(day: dt.date, unit: str) -> dt.date:
    """Return the first day of the year, quarter, month or (Monday) week of a day.

    >>> truncate(dt.date(2024, 5, 17), "quarter"), truncate(dt.date(2024, 5, 17), "week")
    (datetime.date(2024, 4, 1), datetime.date(2024, 5, 13))
    """
    if unit == "week":
        return dt.date.fromordinal(max(day.toordinal() - day.weekday(), 1))
    month = {"year": 1, "quarter": (day.month - 1) // 3 * 3 + 1}.get(unit, day.month)
    return day if unit == "day" else day.replace(month=month, day=1)


def truncated(op: Op, arguments: Arguments) -> Type:
    """TRUNCATE_DATE: a date, with all dates there can be listed if they are few."""
    need(op, arguments[1:], Kind.DATE, Kind.TIMESTAMP)
    unit = literal_text(op, arguments[0], "unit")
    if unit not in DATE_UNITS:
        raise QuestionError(f"A date is truncated to {', '.join(DATE_UNITS)}; got {unit[:40]!r}.")
    type_ = arguments[1].type
    first, last = (_calendar(day) for day in _days(type_))
    low = position(truncate(first, unit)) if first else None
    high = position(truncate(last, unit)) if last else None
    values = None
    span = {"day": 1, "week": 7, "month": 28, "quarter": 90, "year": 365}[unit]
    if first and last and (last - first).days // span < MAX_VALUES:
        found: list[dt.date] = []
        day = truncate(first, unit)
        while day <= last and len(found) <= MAX_VALUES:
            found.append(day)
            after = day.toordinal() + {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}[unit]
            if after > dt.date.max.toordinal():
                break
            day = truncate(dt.date.fromordinal(after), unit)
        values = tuple(found) if len(found) <= MAX_VALUES else None
    return Type(Kind.DATE, type_.nullable, low, high, Fraction(1), values)


def _moments(type_: Type) -> tuple[dt.datetime | None, dt.datetime | None]:
    """Return the first and last moment of a date or timestamp, where they are known."""
    scale = 1 if type_.kind is Kind.TIMESTAMP else _DAY
    ends = []
    for place in (type_.lower, type_.upper):
        inside = place is not None and _MOMENTS[0] <= place * scale <= _MOMENTS[1]
        found = at_position(Kind.TIMESTAMP, place * scale) if inside and place is not None else None
        ends.append(found if isinstance(found, dt.datetime) else None)
    return ends[0], ends[1]


def difference(op: Op, arguments: Arguments) -> Type:
    """DATE_DIFF(unit, from, to): units of time between them, which rise with one and fall with the other."""
    unit = literal_text(op, arguments[0], "unit")
    if unit not in UNITS:
        raise QuestionError(f"Between dates are counted {', '.join(f'{one}s' for one in UNITS)}; got {unit[:40]!r}.")
    need(op, arguments[1:], Kind.DATE, Kind.TIMESTAMP)
    (first, last), (start, end) = (_moments(argument.type) for argument in arguments[1:])
    lower = Fraction(between(unit, last, start)) if last and start else None
    upper = Fraction(between(unit, first, end)) if first and end else None
    nullable = any(argument.type.nullable for argument in arguments)
    span = Interval.of(lower, upper)
    if unit == "week":  # some engines count Mondays instead, which is at most one more
        span = span + Interval(Fraction(-1), Fraction(1))
    return number(Kind.INTEGER, span, nullable=nullable)


def moved(op: Op, arguments: Arguments) -> Type:
    """ADD_INTERVAL(x, months, days, microseconds): a timestamp, NULL outside the years 1 to 9999.

    Days rise with days, but with the last of a month times of a day may fall: the 30th at night and the 31st in the
    morning become the same day. So a range of timestamps is widened to whole days before months are added.
    """
    need(op, arguments[:1], Kind.DATE, Kind.TIMESTAMP)
    months = literal_integer(op, arguments[1], "months", -_MONTHS, _MONTHS)
    days = literal_integer(op, arguments[2], "days", -31 * _MONTHS, 31 * _MONTHS)
    time = literal_integer(op, arguments[3], "microseconds", -31 * _MONTHS * _DAY, 31 * _MONTHS * _DAY)
    type_ = arguments[0].type
    first, last = _moments(type_)
    if months and type_.kind is Kind.TIMESTAMP:
        first = first and dt.datetime.combine(first, dt.time.min)
        last = last and dt.datetime.combine(last, dt.time.max)
    lower, upper = (_shifted(end, months, days, time) for end in (first, last))
    inside = lower is not None and upper is not None and upper <= _LAST_MOMENT
    return Type(Kind.TIMESTAMP, type_.nullable or not inside, lower, upper, Fraction(1))


def _shifted(moment: dt.datetime | None, months: int, days: int, time: int) -> Fraction | None:
    try:
        return None if moment is None else position(shifted(moment, months, days, time))
    except (OverflowError, ValueError):
        return None


def cast(op: Op, arguments: Arguments) -> Type:
    """Convert to another kind; what has no sensible result becomes NULL."""
    type_ = arguments[0].type
    sources = {
        Op.TO_INTEGER: {Kind.INTEGER, Kind.DECIMAL, Kind.TEXT, Kind.BOOLEAN},
        Op.TO_DECIMAL: {Kind.INTEGER, Kind.DECIMAL, Kind.TEXT, Kind.BOOLEAN},
        Op.TO_TEXT: set(Kind),
        Op.TO_BOOLEAN: {Kind.BOOLEAN, Kind.TEXT, Kind.INTEGER},
        Op.TO_DATE: {Kind.DATE, Kind.TIMESTAMP, Kind.TEXT},
        Op.TO_TIMESTAMP: {Kind.DATE, Kind.TIMESTAMP, Kind.TEXT},
    }[op]
    if type_.kind not in sources:
        raise refuse(op, arguments[0], " or ".join(sorted(kind.value for kind in sources)))
    match op:
        case Op.TO_INTEGER | Op.TO_DECIMAL:
            return _to_number(Kind.INTEGER if op is Op.TO_INTEGER else Kind.DECIMAL, type_)
        case Op.TO_TEXT:
            return Type(Kind.TEXT, type_.nullable, values=type_.values if type_.kind is Kind.TEXT else None)
        case Op.TO_BOOLEAN:
            return Type(Kind.BOOLEAN, type_.nullable or type_.kind is Kind.TEXT, values=(False, True))
        case _:
            return _to_time(Kind.DATE if op is Op.TO_DATE else Kind.TIMESTAMP, type_)


def _to_number(kind: Kind, type_: Type) -> Type:
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


def _to_time(kind: Kind, type_: Type) -> Type:
    if type_.kind is Kind.TEXT:
        return Type(kind, step=Fraction(1))
    if type_.kind is kind:
        return type_
    if kind is Kind.DATE:
        low, high = _days(type_)
    else:
        low = None if type_.lower is None else type_.lower * _DAY
        high = None if type_.upper is None else type_.upper * _DAY
    return Type(kind, type_.nullable, low, high, Fraction(1))
