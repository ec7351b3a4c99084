"""Arithmetic of the calendar, as DuckDB has it: intervals added to a moment, and units of time between two.

An interval has months, days and microseconds, added in this order; a day that its new month does not have becomes the
last of that month. Between two moments are counted: years, quarters, months, days, hours, minutes and seconds by how
often a new one begins on the way, weeks as whole sevens of days.

>>> shifted(dt.datetime(2024, 1, 31), 1, 0, 0), between("month", dt.date(2024, 1, 31), dt.date(2024, 2, 1))
(datetime.datetime(2024, 2, 29, 0, 0), 1)
"""

from __future__ import annotations

import calendar
import datetime as dt

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""What is counted between two moments."""

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - moments here are without a zone
_LENGTHS = {"hour": 3600, "minute": 60, "second": 1}


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
    match unit:
        case "year" | "quarter" | "month":
            size = {"year": 12, "quarter": 3, "month": 1}[unit]
            return _months(last) // size - _months(first) // size
        case "week" | "day":
            days = last.toordinal() - first.toordinal()
            return days if unit == "day" else (abs(days) // 7) * (1 if days > 0 else -1)
        case _:
            step = dt.timedelta(seconds=_LENGTHS[unit])
            return (as_moment(last) - _EPOCH) // step - (as_moment(first) - _EPOCH) // step


def _months(value: dt.date) -> int:
    return 12 * value.year + value.month - 1
