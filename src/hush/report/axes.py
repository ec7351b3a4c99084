"""Axes: round numbers and round dates to write beside a chart, and where a value lies on it.

Ticks are multiples of 1, 2 or 5 times a power of ten, or whole days, weeks, months and years.

>>> number_ticks(0, 1943, about=5)
[0.0, 500.0, 1000.0, 1500.0, 2000.0]
>>> [tick_text(value) for value in (0.25, 1500.0, 2.5e6)]
['0.25', '1,500', '2.5M']
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

_DAY = 86_400.0
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times of an answer have no zone
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
_SECONDS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Where numbers lie between two places; what is beyond the ends is drawn at the end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a number."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def number_ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Return round numbers that enclose a range, about so many."""
    span = high - low
    if not span > max(abs(low), abs(high)) * 1e-12:
        span = abs(high) or 1.0
        low, high = low - span / 2, high + span / 2
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power * about >= span * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(index * step, digits) for index in range(first, last + 1)]


def tick_text(value: float) -> str:
    """Return a round number as it is written at an axis."""
    size = abs(value)
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if size >= unit:
            return f"{value / unit:,.6g}{letter}" if size < 1e15 else f"{value:.3g}"
    if size and size < 1e-4:
        return f"{value:.2g}"
    return f"{value:,.10g}".replace("-", "−")


def seconds(value: Any) -> float:
    """Return a date or time as seconds since 1970, a number as it is."""
    if isinstance(value, dt.datetime):
        return (value - _EPOCH).total_seconds()
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days * _DAY
    return float(value)


def time_ticks(low: float, high: float, *, about: int = 6) -> list[tuple[float, str]]:
    """Return round times between two, with their texts.

    >>> [text for _, text in time_ticks(seconds(dt.date(2024, 1, 1)), seconds(dt.date(2024, 6, 1)))]
    ['2024', 'Feb', 'Mar', 'Apr', 'May', 'Jun']
    """
    span = high - low
    for step in _SECONDS:
        if span / step <= about and step * about < 60 * _DAY:
            first = (
                math.ceil((low + 3 * _DAY) / step) * step - 3 * _DAY
                if step >= 7 * _DAY
                else math.ceil(low / step) * step
            )
            count = max(0, math.floor((high - first) / step + 1e-9)) + 1
            times = [first + index * step for index in range(count) if first + index * step <= high]
            return _with_texts(times, step)
    months = next((step for step in _MONTHS if span / (step * 30.44 * _DAY) <= about), _MONTHS[-1])
    begin = _EPOCH + dt.timedelta(seconds=low)
    index = (begin.year * 12 + begin.month - 1) // months * months
    ticks: list[tuple[float, str]] = []
    while len(ticks) < 2 * about + 2 and index // 12 <= dt.MAXYEAR:
        day = dt.date(max(index // 12, 1), index % 12 + 1, 1)
        if low <= seconds(day) <= high:
            text = str(day.year) if day.month == 1 else f"{day:%b}"
            ticks.append((seconds(day), text if ticks or day.month == 1 else f"{day:%b %Y}"))
        elif seconds(day) > high:
            break
        index += months
    return ticks


def _with_texts(times: list[float], step: float) -> list[tuple[float, str]]:
    """Return times with texts; the first of a day or month says which one."""
    ticks, before = [], None
    for time in times:
        moment = _EPOCH + dt.timedelta(seconds=time)
        date = f"{moment.day} {moment:%b}"
        clock = f"{moment:%H:%M:%S}" if step < 60 else f"{moment:%H:%M}"
        if step >= _DAY:
            text = f"{date} {moment.year}" if before is None or before.year != moment.year else date
        else:
            text = f"{date} {clock}" if before is None or before.date() != moment.date() else clock
        ticks.append((time, text))
        before = moment
    return ticks
