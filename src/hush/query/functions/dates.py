"""Functions of dates and timestamps: casts, parts, the calendar's arithmetic, and where results lie.

An interval has months, days and microseconds, added in this order; a day that its new month does not have becomes the
last of that month. Between two moments are counted: years, quarters, months, days, hours, minutes and seconds by how
often a new one begins on the way, weeks as whole sevens of days.

>>> shifted(dt.datetime(2024, 1, 31), 1, 0, 0), between("month", dt.date(2024, 1, 31), dt.date(2024, 2, 1))
(datetime.datetime(2024, 2, 29, 0, 0), 1)
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Expression, Op
from hush.query.functions.record import (
    MAX_VALUES,
    ONE,
    Arguments,
    Function,
    Reading,
    Rewrite,
    literal_integer,
    literal_text,
    need,
    number,
    of_kinds,
    refuse,
    strict,
)
from hush.query.types import Interval, Kind, Type, Value, at_position, position

MICROSECONDS = 86_400_000_000
"""Microseconds in a day."""
UNITS = {
    "year": (0, 12), "quarter": (0, 3), "month": (0, 1), "week": (1, 7), "day": (1, 1),
    "hour": (2, 3_600_000_000), "minute": (2, 60_000_000), "second": (2, 1_000_000),
}  # fmt: skip
"""For each unit of time its component of an interval (months, days, microseconds), and its size there."""

DATE_UNITS = {"year": 365, "quarter": 90, "month": 28, "week": 7, "day": 1}
"""Units to which a date may be truncated, with the days of the shortest."""
TIME_UNITS = {unit: size for unit, (component, size) in UNITS.items() if component == 2}
"""Further units to which a timestamp may be truncated, in microseconds."""
_PARTS = {
    Op.QUARTER: (1, 4), Op.MONTH: (1, 12), Op.WEEK: (1, 53), Op.DAY_OF_YEAR: (1, 366), Op.DAY: (1, 31),
    Op.DAY_OF_WEEK: (0, 6), Op.HOUR: (0, 23), Op.MINUTE: (0, 59), Op.SECOND: (0, 59),
}  # fmt: skip
_TIMES = (Kind.DATE, Kind.TIMESTAMP)
_DATES = (position(dt.date.min), position(dt.date.max))
_MOMENTS = (_DATES[0] * MICROSECONDS, (_DATES[1] + 1) * MICROSECONDS - 1)
_LAST_MOMENT = (_DATES[1] + 1) * MICROSECONDS - 10**6
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MONTHS = 120_000
"""The longest interval in months: all years of the calendar, far within the range of an engine's timestamps."""


def _to_time(op: Op, arguments: Arguments) -> Type:
    type_ = of_kinds(op, arguments[0], {Kind.DATE, Kind.TIMESTAMP, Kind.TEXT})
    kind = Kind.DATE if op is Op.TO_DATE else Kind.TIMESTAMP
    if type_.kind is Kind.TEXT:
        return Type(kind, step=Fraction(1))
    if type_.kind is kind:
        return type_
    if kind is Kind.DATE:
        low, high = (None if end is None else Fraction(end // MICROSECONDS) for end in (type_.lower, type_.upper))
    else:
        low, high = (None if end is None else end * MICROSECONDS for end in (type_.lower, type_.upper))
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


def as_moment(value: dt.date) -> dt.datetime:
    """Return a date as its midnight."""
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def shifted(value: dt.date, months: int, days: int, microseconds: int) -> dt.datetime:
    """Return a moment moved by an interval; an OverflowError or ValueError outside the years 1 to 9999."""
    moment = as_moment(value)
    if months:
        year, month = divmod(12 * moment.year + moment.month - 1 + months, 12)
        if not dt.MINYEAR <= year <= dt.MAXYEAR:
            raise OverflowError(year)
        last = calendar.monthrange(year, month + 1)[1]
        moment = moment.replace(year=year, month=month + 1, day=min(moment.day, last))
    return moment + dt.timedelta(days=days, microseconds=microseconds)


def between(unit: str, first: dt.date, last: dt.date) -> int:
    """Return how many units of time lie between two moments; it never falls with ``last``, nor rises with ``first``."""
    component, size = UNITS[unit]
    if component == 1:
        days = last.toordinal() - first.toordinal()
        return abs(days) // size * (1 if days > 0 else -1)
    if component == 0:
        begun = [(12 * moment.year + moment.month - 1) // size for moment in (first, last)]
    else:
        begun = [position(as_moment(moment)) // size for moment in (first, last)]
    return begun[1] - begun[0]


def _moments(type_: Type) -> tuple[dt.datetime | None, dt.datetime | None]:
    """Return the first and last moment of a date or timestamp, where they are known."""
    scale = 1 if type_.kind is Kind.TIMESTAMP else MICROSECONDS
    ends = []
    for place in (type_.lower, type_.upper):
        inside = place is not None and _MOMENTS[0] <= place * scale <= _MOMENTS[1]
        moment = at_position(Kind.TIMESTAMP, place * scale) if inside and place is not None else None
        ends.append(moment if isinstance(moment, dt.datetime) else None)
    return ends[0], ends[1]


def _days(type_: Type) -> tuple[dt.date | None, dt.date | None]:
    """Return the first and last day of a date or timestamp, where they are known."""
    first, last = _moments(type_)
    return first and first.date(), last and last.date()


def _part(op: Op, arguments: Arguments) -> Type:
    """Return the type of a part of a date, as YEAR(d) or DAYOFWEEK(d): a whole number within its bounds."""
    (type_,) = need(op, arguments, *_TIMES)
    first, last = _days(type_)
    if op is Op.YEAR:
        span = Interval.of(Fraction(first.year) if first else None, Fraction(last.year) if last else None)
        return number(Kind.INTEGER, span, nullable=type_.nullable)
    low, high = _PARTS[op]
    if op in {Op.HOUR, Op.MINUTE, Op.SECOND} and type_.kind is Kind.DATE:
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


def _truncated(op: Op, arguments: Arguments) -> Type:
    """TRUNCATE_DATE: a date, with all dates there can be listed if they are few."""
    (type_,) = need(op, arguments[1:], *_TIMES)
    unit = literal_text(op, arguments[0], "unit")
    if unit not in DATE_UNITS:
        raise QuestionError(f"A date is truncated to {', '.join(DATE_UNITS)}; got {unit[:40]!r}.")
    first, last = _days(type_)
    low = position(truncate(first, unit)) if first else None
    high = position(truncate(last, unit)) if last else None
    values, shortest = None, DATE_UNITS[unit]
    if first and last and (last - first).days // shortest < MAX_VALUES:
        # each has a day among these
        ordinals = [*range(first.toordinal(), last.toordinal(), shortest), last.toordinal()]
        starts = dict.fromkeys(truncate(dt.date.fromordinal(ordinal), unit) for ordinal in ordinals)
        values = tuple(starts) if len(starts) <= MAX_VALUES else None
    return Type(Kind.DATE, type_.nullable, low, high, Fraction(1), values)


def _truncated_time(op: Op, arguments: Arguments) -> Type:
    """TRUNCATE_TIME: a timestamp, with all there can be listed if they are few."""
    (type_,) = need(op, arguments[1:], *_TIMES)
    name = literal_text(op, arguments[0], "unit")
    if name not in TIME_UNITS:
        raise QuestionError(f"A time is truncated to {', '.join(TIME_UNITS)}; got {name[:40]!r}.")
    unit = TIME_UNITS[name]
    scale = 1 if type_.kind is Kind.TIMESTAMP else MICROSECONDS
    low, high = (None if end is None else Fraction(end * scale // unit * unit) for end in (type_.lower, type_.upper))
    values = None
    if low is not None and high is not None and (high - low) // unit < MAX_VALUES:
        values = tuple(at_position(Kind.TIMESTAMP, Fraction(at)) for at in range(int(low), int(high) + 1, unit))
    return Type(Kind.TIMESTAMP, type_.nullable, low, high, Fraction(1), values)


def _made(op: Op, arguments: Arguments) -> Type:
    """MAKE_DATE(year, month, day): NULL where the calendar of the years 1 to 9999 lacks that day."""
    for argument in arguments:
        if argument.type.kind is not Kind.INTEGER:
            raise refuse(op, argument, "whole numbers", "Write CAST(… AS INTEGER).")
    year = arguments[0].type
    first = 1 if year.lower is None else min(max(int(year.lower), 1), 9999)
    last = 9999 if year.upper is None else min(max(int(year.upper), first), 9999)
    return Type(Kind.DATE, True, position(dt.date(first, 1, 1)), position(dt.date(last, 12, 31)), Fraction(1))


_NAMED: dict[str, Callable[[dt.datetime], str]] = {
    "Y": lambda moment: f"{moment.year:04d}",
    "G": lambda moment: f"{moment.isocalendar()[0]:04d}",
    "A": lambda moment: WEEKDAYS[moment.weekday()],
    "a": lambda moment: WEEKDAYS[moment.weekday()][:3],
    "B": lambda moment: MONTHS[moment.month - 1],
    "b": lambda moment: MONTHS[moment.month - 1][:3],
    "p": lambda moment: "AM" if moment.hour < 12 else "PM",
}
"""Marks that Python writes otherwise in other locales and on other platforms: years have four digits."""
_WRITTEN = frozenset("YymdjHIpMSfAaBbuwGV%")
"""The marks of a format."""
_READABLE = frozenset("YymdjHIpMSfAaBb%")
_WITHIN_DAY = frozenset("HIpMSf")
_LONGEST_FORMAT = 100
_MOST_DAYS = 40_000
_OF_YEARS = frozenset("YyG")
_CYCLE = (dt.date(2000, 1, 1), dt.date(2027, 12, 31))
"""28 years in which every combination of weekday and leap year occurs, so formats without a year repeat."""


def _format(op: Op, argument: Expression, marks: Iterable[str]) -> str:
    """Return a constant format that is made of known marks."""
    text = literal_text(op, argument, "format")
    used = re.findall(r"%(.?)", text, re.DOTALL)
    unknown = [mark for mark in used if mark not in set(marks)]
    if unknown or not 1 <= len(text) <= _LONGEST_FORMAT:  # on an empty format DuckDB fails, after the charge
        raise QuestionError(
            f"{op.value} takes a format of 1 to {_LONGEST_FORMAT} characters with "
            f"{', '.join(f'%{mark}' for mark in sorted(marks))}; got {text[:40]!r}.",
            f"Write for instance {op.value}(x, '%Y-%m-%d').",
        )
    return text


def written(moment: dt.date, form: str) -> str:
    """Return a moment as a format has it.

    >>> written(dt.date(2024, 3, 9), "%d %B %Y, %H:%M")
    '09 March 2024, 00:00'
    """
    whole = as_moment(moment)

    def text(mark: re.Match[str]) -> str:
        return _NAMED[mark[1]](whole) if mark[1] in _NAMED else whole.strftime(mark[0])

    return re.sub("%(.)", text, form)


def _formatted(op: Op, arguments: Arguments) -> Type:
    """STRFTIME(x, format): a text; all there can be, if it is of days alone and they are not too many."""
    (type_,) = need(op, arguments[:1], *_TIMES)
    form = _format(op, arguments[1], _WRITTEN)
    marks = set(re.findall(r"%(.)", form))
    first, last = _days(type_)
    values = None
    if type_.kind is Kind.DATE or not marks & _WITHIN_DAY:
        if first and last and (last - first).days <= _MOST_DAYS:
            values = _all_written(first, last, form)
        elif not marks & _OF_YEARS:
            values = _all_written(*_CYCLE, form)
    return Type(Kind.TEXT, type_.nullable, values=values)


@lru_cache(maxsize=256)
def _all_written(first: dt.date, last: dt.date, form: str) -> tuple[str, ...] | None:
    """Return the different texts of a format for all days between two; None if there are too many."""
    texts: dict[str, None] = {}
    for ordinal in range(first.toordinal(), last.toordinal() + 1):
        texts[written(dt.date.fromordinal(ordinal), form)] = None
        if len(texts) > MAX_VALUES:
            return None
    return tuple(texts)


def _parsed(op: Op, arguments: Arguments) -> Type:
    """STRPTIME(text, format): a timestamp; NULL where the text is not of this form."""
    need(op, arguments[:1], Kind.TEXT)
    _format(op, arguments[1], _READABLE)
    return Type(Kind.TIMESTAMP, step=Fraction(1))


def _difference(op: Op, arguments: Arguments) -> Type:
    """DATE_DIFF(unit, from, to): units of time between them, which rise with one and fall with the other."""
    unit = literal_text(op, arguments[0], "unit")
    if unit not in UNITS:
        raise QuestionError(f"Between dates are counted {', '.join(f'{name}s' for name in UNITS)}; got {unit[:40]!r}.")
    begin, stop = need(op, arguments[1:], *_TIMES)
    (first, last), (start, end) = _moments(begin), _moments(stop)
    lower = Fraction(between(unit, last, start)) if last and start else None
    upper = Fraction(between(unit, first, end)) if first and end else None
    span = Interval.of(lower, upper)
    if unit == "week":  # some engines count Mondays instead, which is at most one more
        span = span + Interval(Fraction(-1), Fraction(1))
    return number(Kind.INTEGER, span, nullable=begin.nullable or stop.nullable)


def _moved(op: Op, arguments: Arguments) -> Type:
    """ADD_INTERVAL(x, months, days, microseconds): a timestamp, NULL outside the years 1 to 9999.

    Days rise with days, but with the last of a month times of a day may fall: the 30th at night and the 31st in the
    morning become the same day. So a range of timestamps is widened to whole days before months are added.
    """
    (type_,) = need(op, arguments[:1], *_TIMES)
    months = literal_integer(op, arguments[1], "months", -_MONTHS, _MONTHS)
    days = literal_integer(op, arguments[2], "days", -31 * _MONTHS, 31 * _MONTHS)
    time = literal_integer(op, arguments[3], "microseconds", -31 * _MONTHS * MICROSECONDS, 31 * _MONTHS * MICROSECONDS)
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


DATES = (
    *(
        Function(op, _part, (1, 1), (op.value,), tuple(Reading(node, ONE) for node in nodes), fields=fields)
        for op, nodes, fields in (
            (Op.YEAR, ("Year",), ("year",)),
            (Op.QUARTER, ("Quarter",), ("quarter",)),
            (Op.MONTH, ("Month",), ("month",)),
            (Op.DAY, ("Day", "DayOfMonth"), ("day",)),
            (Op.DAY_OF_WEEK, ("DayOfWeek",), ("dow", "dayofweek")),
            (Op.WEEK, ("Week", "WeekOfYear"), ("week",)),
            (Op.DAY_OF_YEAR, ("DayOfYear",), ("doy", "dayofyear")),
            (Op.HOUR, ("Hour",), ("hour",)),
            (Op.MINUTE, ("Minute",), ("minute",)),
            (Op.SECOND, ("Second",), ("second",)),
        )
    ),
    Function(Op.MAKE_DATE, _made, (3, 3), ("MAKE_DATE",), (Reading("DateFromParts", ("year", "month", "day")),)),
    Function(Op.STRFTIME, _formatted, (2, 2), ("STRFTIME",), (Reading("TimeToStr", ("this", "format")),), lengthens=5),
    Function(Op.STRPTIME, _parsed, (2, 2), ("STRPTIME", "TRY_STRPTIME"), (Reading("StrToTime", ("this", "format")),)),
    Function(Op.TRUNCATE_TIME, _truncated_time, (2, 2)),
    Function(Op.TRUNCATE_DATE, _truncated, (2, 2), ("DATE_TRUNC",)),
    Function(Op.DATE_DIFF, _difference, (3, 3), ("DATE_DIFF",)),
    Function(Op.ADD_INTERVAL, _moved, (4, 4), ("DATE_ADD",)),
    Function(Op.TO_DATE, _to_time, (1, 1), types=("DATE",)),
    Function(Op.TO_TIMESTAMP, _to_time, (1, 1), types=("TIMESTAMP", "TIMESTAMPNTZ")),
)

REWRITES = (
    Rewrite(names=("DATE",), node="Date", parameters=("x",), text="CAST(x AS DATE)"),
    Rewrite(names=("ISODOW",), node="DayOfWeekIso", parameters=("d",), text="(DAYOFWEEK(d) + 6) % 7 + 1"),
    Rewrite(names=("DAYNAME",), node="Dayname", parameters=("d",), text="STRFTIME(d, '%A')"),
    Rewrite(names=("MONTHNAME",), node="Monthname", parameters=("d",), text="STRFTIME(d, '%B')"),
    Rewrite(names=("DOY",), parameters=("d",), text="DAYOFYEAR(d)"),
    *(
        Rewrite(names=(f"TO{part}",), parameters=("d",), text=f"{part}(d)")
        for part in ("YEAR", "QUARTER", "MONTH", "HOUR", "MINUTE", "SECOND")
    ),
)
