"""Schedules: the public moments at which something is due, known beforehand for its whole life.

A schedule is a first moment, a step and a number of slots. Slot i is computed from the first moment, never from the
slot before it, so months do not drift: a schedule that begins on 31 January has slots on 28 February and 31 March. All
moments are in UTC. A slot is at least a day after the one before it, so its date names it.

>>> schedule = Schedule(first="2026-01-31", every="month", slots=4)
>>> [schedule.period(number) for number in range(4)]
['2026-01-31', '2026-02-28', '2026-03-31', '2026-04-30']
>>> schedule.passed("2026-03-15T09:00:00.000000Z")
2
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from typing import Any

from hush.core import InvalidValueError, integer
from hush.core.values import dataclass

MOST_SLOTS = 10_000
_STEP = re.compile(r"(?:(\d{1,3}) +)?(day|week|month|year)s?")
_EVERY = "day, week, month or year, or several of them such as 14 days or 3 months"
_FIRST_YEAR, _LAST_YEAR = 1000, 9000
"""Between them a moment is written with four digits of its year, so that moments compare as their texts do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Slots of time: the first one, how far apart they are, and how many there are."""

    first: str
    """A date, which begins at midnight, or a date and time with its offset; kept as a moment in UTC."""
    every: str
    """``day``, ``week``, ``month`` or ``year``, or several of them such as ``14 days``."""
    slots: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", _moment(self.first))
        if (
            not isinstance(self.every, str)
            or (step := _STEP.fullmatch(self.every.strip())) is None
            or int(step[1] or 1) == 0
        ):
            raise InvalidValueError("every", got=self.every, allowed=_EVERY)
        count = int(step[1] or 1)
        object.__setattr__(self, "every", step[2] if count == 1 else f"{count} {step[2]}s")
        integer(self.slots, "releases", minimum=1, maximum=MOST_SLOTS)
        days = count * {"day": 1, "week": 7, "month": 31, "year": 366}[step[2]]
        if int(self.first[:4]) + days * self.slots // 365 > _LAST_YEAR:
            raise InvalidValueError("releases", got=self.slots, allowed=f"so few that they end before {_LAST_YEAR}")

    def slot(self, number: int) -> str:
        """Return the moment of a slot, the first one being number 0; beyond the last one, when it would have been."""
        step = _STEP.fullmatch(self.every)
        assert step is not None  # noqa: S101 - checked when it was made
        first, count = dt.datetime.fromisoformat(self.first), number * int(step[1] or 1)
        if step[2] in {"day", "week"}:
            return _written(first + dt.timedelta(days=count * (7 if step[2] == "week" else 1)))
        months = first.year * 12 + first.month - 1 + count * (12 if step[2] == "year" else 1)
        year, month = months // 12, months % 12 + 1
        return _written(first.replace(year=year, month=month, day=min(first.day, calendar.monthrange(year, month)[1])))

    def period(self, number: int) -> str:
        """Return the name of a slot: its date."""
        return self.slot(number)[:10]

    def number(self, period: str) -> int | None:
        """Return which slot has a name; None if there is none."""
        number = min(self.passed(f"{period}T23:59:59.999999Z"), self.slots) - 1
        return number if number >= 0 and self.period(number) == period else None

    def passed(self, clock: str) -> int:
        """Return how many slots have come at a moment; at most one more than there are, if the next would have too."""
        low, high = 0, self.slots + 1
        while low < high:  # slots come one after the other
            middle = (low + high) // 2
            if self.slot(middle) <= clock:
                low = middle + 1
            else:
                high = middle
        return low

    def to_json(self) -> dict[str, Any]:
        """Return the schedule as plain JSON values."""
        return {"first": self.first, "every": self.every, "releases": self.slots}

    @classmethod
    def from_json(cls, content: Any) -> Schedule:
        """Return the schedule that was written."""
        return cls(first=content["first"], every=content["every"], slots=content["releases"])


def _moment(value: object) -> str:
    """Return a date, or a date and time with an offset, as a moment in UTC."""
    allowed = "a date such as 2026-11-16, or a time with its offset such as 2026-11-16T06:00:00Z"
    text = value.isoformat() if isinstance(value, dt.date) else value
    try:
        moment = dt.datetime.fromisoformat(text) if isinstance(text, str) and text.isascii() else None
        if moment is not None and len(str(text)) == len("2026-11-16"):
            moment = moment.replace(tzinfo=dt.UTC)
        if moment is not None and moment.tzinfo is not None and moment.year > _FIRST_YEAR:
            return _written(moment.astimezone(dt.UTC))
    except (ValueError, OverflowError):
        pass
    raise InvalidValueError("first", got=value, allowed=allowed)


def _written(moment: dt.datetime) -> str:
    """Return a moment as the ledger writes its own."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
