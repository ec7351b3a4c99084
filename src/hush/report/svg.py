"""A sheet of SVG with axes: texts, lines and boxes that carry classes and no colours of their own.

Colours stand in ``chart.css``, light and dark. A page that has this style sheet shows the bare SVG, which holds neither
``style`` attributes nor a ``<style>`` element, so that a strict content security policy lets it pass. `Sheet.file` puts
the style sheet inside, for notebooks and files.

Texts are escaped, and control characters in them are shown as escapes: keys are whatever somebody wrote into a row.

>>> sheet = Sheet(width=100, height=40)
>>> sheet.text(5, 20, "<b>", "title")
>>> "&lt;b&gt;" in sheet.page("a title") and "style" not in sheet.page("a title")
True
>>> "<style>" in sheet.file("a title")
True

Ticks of an axis are multiples of 1, 2 or 5 times a power of ten, or whole days, weeks, months and years.

>>> number_ticks(0, 1943, about=5)
[0.0, 500.0, 1000.0, 1500.0, 2000.0]
>>> [tick_text(value) for value in (0.25, 1500.0, 2.5e6)]
['0.25', '1,500', '2.5M']
"""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import field
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from hush.core.format import visible
from hush.core.values import dataclass

_LETTER = dict.fromkeys("iljI|", 0.3) | dict.fromkeys("tfr .,:;()'", 0.4) | dict.fromkeys("mwMW", 0.95)
"""How wide letters are, as parts of the type's size, in the wider of the usual fonts."""
_WIDE = {"W", "F"}
_ELLIPSIS = "…"


@cache
def style_sheet() -> str:
    """Return the colours of charts, light and dark, for a page that shows them."""
    return (files("hush.report") / "chart.css").read_text(encoding="utf-8")


def text_width(text: str, size: float = 11.5) -> float:
    """Return about how wide a text is drawn, in pixels; rather too wide than too narrow."""
    return sum(map(_letter_width, text)) * size


def _letter_width(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in _WIDE:
        return 1.0
    return _LETTER.get(letter, 0.74 if letter.isupper() else 0.62)


def cut(text: str, width: float, size: float = 11.5) -> str:
    """Return a text that fits, its end left out where it is too long.

    >>> cut("Hypercholesterolaemia", 60)
    'Hyperch…'
    """
    if text_width(text, size) <= width:
        return text
    room = width - text_width(_ELLIPSIS, size)
    kept, used = [], 0.0
    for letter in text:
        used += _letter_width(letter) * size
        if used > room:
            break
        kept.append(letter)
    return "".join(kept).rstrip() + _ELLIPSIS


def wrapped(text: str, width: float, *, lines: int, size: float = 11.5) -> list[str] | None:
    """Return a text in at most so many lines that fit, broken between words; None if it does not fit.

    >>> wrapped("chronic heart failure", 60, lines=3)
    ['chronic', 'heart', 'failure']
    >>> wrapped("chronic heart failure", 60, lines=2) is None
    True
    """
    rows: list[str] = []
    for word in text.split() or [text]:
        if rows and text_width(f"{rows[-1]} {word}", size) <= width:
            rows[-1] += f" {word}"
        else:
            rows.append(word)
    fits = len(rows) <= lines and all(text_width(row, size) <= width for row in rows)
    return rows if fits else None


def number(value: float) -> str:
    """Return a coordinate, to a tenth of a pixel."""
    return f"{round(value, 1):g}"


@dataclass(slots=True, kw_only=True)
class Sheet:
    """An SVG picture while it is drawn."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)
    """Attributes ``data-…`` of the picture, for a script that moves its parts."""

    def add(self, name: str, classes: str, tooltip: str = "", **attributes: float | str) -> None:
        """Draw one element; its ``tooltip`` is shown where a pointer rests on it."""
        written = "".join(
            f' {key.replace("_", "-")}="{escape(value) if isinstance(value, str) else number(value)}"'
            for key, value in attributes.items()
        )
        inner = f"><title>{escape(visible(tooltip))}</title></{name}>" if tooltip else "/>"
        self.parts.append(f'<{name} class="{classes}"{written}{inner}')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        classes: str = "",
        *,
        anchor: str = "start",
        turn: float = 0,
        whole: str = "",
    ) -> None:
        """Write a text; ``whole`` is what was cut short."""
        place = f' transform="rotate({number(turn)} {number(x)} {number(y)})"' if turn else ""
        css = f' class="{classes}"' if classes else ""
        tooltip = f"<title>{escape(visible(whole))}</title>" if whole and whole != text else ""
        end = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(
            f'<text x="{number(x)}" y="{number(y)}"{css}{end}{place}>{tooltip}{escape(visible(text))}</text>'
        )

    def lines(self, x: float, y: float, rows: Sequence[str], *, anchor: str = "middle", whole: str = "") -> None:
        """Write a text in several lines; ``whole`` is what may have been cut short."""
        whole = "" if " ".join(rows) == whole else whole
        for index, row in enumerate(rows):
            self.text(x, y + 14 * index, row, anchor=anchor, whole=whole)

    def page(self, title: str, *, classes: str = "") -> str:
        """Return the picture for a page that has the style sheet."""
        return self._svg(title, "".join(self.parts), classes=classes)

    def file(self, title: str) -> str:
        """Return the picture with its style sheet inside, on paper of its own, for notebooks and files."""
        paper = f'<style>{style_sheet()}</style><rect class="paper" width="100%" height="100%"/>'
        size = f' width="{number(self.width)}" height="{number(self.height)}"'
        return self._svg(title, paper + "".join(self.parts), size)

    def _svg(self, title: str, inner: str, size: str = "", *, classes: str = "") -> str:
        data = "".join(f' data-{name}="{escape(value)}"' for name, value in self.data.items())
        css = f"hush-chart {classes}".strip()
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{css}" role="img" aria-label="{escape(visible(title))}"'
            f' viewBox="0 0 {number(self.width)} {number(self.height)}"{size}{data}>{inner}</svg>'
        )


DAY = 86_400.0
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times of an answer have no zone
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
_SECONDS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY, 2 * DAY, 7 * DAY, 14 * DAY)


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
        return (value - _EPOCH.date()).days * DAY
    return float(value)


def time_ticks(low: float, high: float, *, about: int = 6, least: float = 0) -> list[tuple[float, str]]:
    """Return round times between two, with their texts; at least so many seconds apart, as dates are by a day.

    >>> [text for _, text in time_ticks(seconds(dt.date(2024, 1, 1)), seconds(dt.date(2024, 6, 1)))]
    ['2024', 'Feb', 'Mar', 'Apr', 'May', 'Jun']
    """
    span = high - low
    for step in _SECONDS:
        if step >= least and span / step <= about and step * about < 60 * DAY:
            first = (
                math.ceil((low + 3 * DAY) / step) * step - 3 * DAY if step >= 7 * DAY else math.ceil(low / step) * step
            )
            count = max(0, math.floor((high - first) / step + 1e-9)) + 1
            times = [first + index * step for index in range(count) if first + index * step <= high]
            return _with_texts(times, step)
    months = next((step for step in _MONTHS if span / (step * 30.44 * DAY) <= about), _MONTHS[-1])
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
        if step >= DAY:
            text = f"{date} {moment.year}" if before is None or before.year != moment.year else date
        else:
            text = f"{date} {clock}" if before is None or before.date() != moment.date() else clock
        ticks.append((time, text))
        before = moment
    return ticks
