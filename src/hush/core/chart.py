"""Charts: a title and an SVG picture, which shows itself in notebooks and saves itself to files.

Curves and bars are drawn here with the standard library alone; answers, by `hush.report.pictures`. PNG is made of the
SVG by the optional ``resvg-py``.

>>> square = ChartLine(name="square", points=[(0, 0), (1, 1), (2, 4)])
>>> line_chart([square], ChartAxis.between("x", 0, 2), ChartAxis.around("y", 0, 4), title="A curve")
<Chart: A curve>

**A chart** holds texts, lines and boxes of SVG that carry classes and no colours of their own. Colours stand in
``chart.css``, light and dark. A page that has this style sheet shows the bare SVG, which holds neither ``style``
attributes nor a ``<style>`` element, so that a strict content security policy lets it pass. `Chart.svg` has the style
sheet inside, for notebooks and files.

Texts are escaped, and control characters in them are shown as escapes: a key is any text of a row.

Ticks of an axis are multiples of 1, 2 or 5 times a power of ten, or whole days, weeks, months and years.

>>> number_ticks(0, 1943, about=5)
[0.0, 500.0, 1000.0, 1500.0, 2000.0]
>>> [tick_text(value) for value in (0.25, 1500.0, 2.5e6)]
['0.25', '1,500', '2.5M']
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from hush.core.errors import HushError, InvalidValueError
from hush.core.format import visible
from hush.core.storage import writing

_LETTER = dict.fromkeys("iljI|", 0.3) | dict.fromkeys("tfr .,:;()'", 0.4) | dict.fromkeys("mwMW", 0.95)
"""The widths of letters as fractions of the type's size, in the wider of the usual fonts."""
_WIDE = {"W", "F"}
_ELLIPSIS = "…"
MARGIN = 14.0
LINE = 14.0
"""The height of a line of text, in pixels."""


@cache
def style_sheet() -> str:
    """Return the colours of charts, light and dark, for a page that shows them."""
    return Path(__file__).with_name("chart.css").read_text(encoding="utf-8")


def text_width(text: str, size: float = 11.5) -> float:
    """Return an estimate of a text's width in pixels; rather too wide than too narrow."""
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
    """Return a text in at most ``lines`` rows, broken between words; None if a row is too wide or there are too many.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartAxis:
    """One side of a chart: the range of its numbers, and its ticks with their texts."""

    name: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    logarithmic: bool = False

    def room(self) -> float:
        """Return the x at which a drawing begins, right of the texts of this upright axis."""
        return MARGIN + max(text_width(text) for _, text in self.ticks) + 8

    @classmethod
    def between(cls, name: str, low: float, high: float, *, about: int = 5) -> ChartAxis:
        """Return an axis from one number to another, with ticks at round numbers between them."""
        ticks = [(tick, tick_text(tick)) for tick in number_ticks(low, high, about=about) if low <= tick <= high]
        return cls(name=name, low=low, high=high, ticks=ticks)

    @classmethod
    def around(cls, name: str, low: float, high: float) -> ChartAxis:
        """Return an axis that begins and ends at round numbers, which enclose the numbers given."""
        ticks = number_ticks(low, high)
        return cls(name=name, low=ticks[0], high=ticks[-1], ticks=[(tick, tick_text(tick)) for tick in ticks])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The map from an axis's numbers to coordinates; a number beyond an end is drawn at the end."""

    axis: ChartAxis
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a number."""
        low, high = self.axis.low, self.axis.high
        value = min(max(value, low), high)
        if self.axis.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBar:
    """A bar, or a dot at the end of a line, in a row of a chart; several side by side have a lane each."""

    row: int
    end: float
    start: float = 0.0
    lane: int = 0
    classes: str = "c0"
    dot: bool = False
    reach: tuple[float, float] | None = None
    """The ends of the error bar."""
    text: str = ""
    tooltip: str = ""


class MissingChartsError(HushError):
    """A PNG picture was asked for, but the package that makes it is not installed, or has no font to write with."""


@dataclass(slots=True, kw_only=True, repr=False)
class Chart:
    """An SVG picture with its title."""

    width: float
    height: float = 0
    title: str = ""
    subtitle: str = ""
    details: str = ""
    """A description of the chart in words, for screen readers."""
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
        """Write a text; ``whole`` is the full text, shown as a tooltip if this one was cut short."""
        place = f' transform="rotate({number(turn)} {number(x)} {number(y)})"' if turn else ""
        css = f' class="{classes}"' if classes else ""
        tooltip = f"<title>{escape(visible(whole))}</title>" if whole and whole != text else ""
        end = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(
            f'<text x="{number(x)}" y="{number(y)}"{css}{end}{place}>{tooltip}{escape(visible(text))}</text>'
        )

    def lines(self, x: float, y: float, rows: Sequence[str], *, anchor: str = "middle", whole: str = "") -> None:
        """Write a text in several lines; ``whole`` is the full text, shown as a tooltip if the lines were cut short."""
        whole = "" if " ".join(rows) == whole else whole
        for index, row in enumerate(rows):
            self.text(x, y + 14 * index, row, anchor=anchor, whole=whole)

    @property
    def words(self) -> str:
        """The text alternative that a screen reader reads out."""
        return ". ".join(part for part in (self.title, self.subtitle, self.details) if part)

    def heading(self) -> float:
        """Write title and subtitle, and return the y at which the drawing begins."""
        y, room = 26.0, self.width - 2 * MARGIN
        for line in visible(self.title, lines=True).split("\n"):
            for row in wrapped(line, room, lines=3, size=15) or [cut(line, room, 15)]:
                self.text(MARGIN, y, row, "title", whole=line)
                y += 19
        for row in wrapped(self.subtitle, room, lines=4, size=12) or [cut(self.subtitle, room, 12)]:
            if row:
                self.text(MARGIN, y, row, "subtitle", whole=self.subtitle)
                y += 16
        return y

    def legend(self, top: float, name: str, entries: Sequence[tuple[str, str]]) -> float:
        """Write texts beside the colours, given as classes, that they explain, and return where the drawing begins."""
        x, y = MARGIN, top + 4
        if name:
            self.text(x, y + 9, name, "name")
            x += text_width(name, 12) + 8
        for text, classes in entries:
            written = cut(text, 160)
            if x + text_width(written) + 20 > self.width - MARGIN:
                x, y = MARGIN, y + 17
            self.add("rect", classes, x=x, y=y, width=10, height=10, rx=2)
            self.text(x + 14, y + 9, written, whole=text)
            x += text_width(written) + 30
        return y + 22

    def ordinate(self, axis: ChartAxis, top: float, bottom: float) -> Scale:
        """Draw the upright axis, right of its texts and under its name, with its grid, and return the scale."""
        left = axis.room()
        y = Scale(axis=axis, start=bottom, end=top + 30)
        self.text(MARGIN, top + 12, cut(axis.name, self.width - 2 * MARGIN, 12), "name", whole=axis.name)
        for tick, text in axis.ticks:
            self.add("line", "grid", x1=left, x2=self.width - MARGIN, y1=y(tick), y2=y(tick))
            self.text(left - 6, y(tick) + 4, text, "number", anchor="end")
        return y

    def abscissa(self, axis: ChartAxis, left: float, bottom: float) -> Scale:
        """Draw the axis at the bottom with its name, 48 pixels high, and return the scale."""
        x = Scale(axis=axis, start=left + 8, end=self.width - MARGIN - 8)
        for tick, text in axis.ticks:
            self.add("line", "axis", x1=x(tick), x2=x(tick), y1=bottom, y2=bottom + 5)
            beyond = x(tick) + text_width(text) / 2 > self.width
            self.text(self.width if beyond else x(tick), bottom + 18, text, anchor="end" if beyond else "middle")
        self.add("line", "axis", x1=left, x2=self.width - MARGIN, y1=bottom, y2=bottom)
        self.text((left + self.width - MARGIN) / 2, bottom + 36, axis.name, "name", anchor="middle")
        return x

    def path(self, classes: str, places: Sequence[tuple[float, float]], *, tooltip: str = "", end: str = "") -> None:
        """Draw a line through places; with ``end="Z"`` it returns to the first."""
        self.add("path", classes, tooltip, d=f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in places)}{end}")

    def lying_bars(self, labels: Sequence[str], bars: Sequence[ChartBar], axis: ChartAxis, top: float) -> float:
        """Draw bars from left to right, so that long labels can be read, and return where the drawing ends."""
        room = min(self.width * 0.42, 300)
        names = [wrapped(text, room, lines=2) or [cut(text, room)] for text in labels]
        # the text of the first tick is centred below it, and must not leave the paper
        widest = max((text_width(text) for _, text in axis.ticks), default=0.0)
        left = max(MARGIN + max(text_width(row) for rows in names for row in rows) + 8, widest / 2)
        lanes = 1 + max(bar.lane for bar in bars)
        slot = max(20.0, 11.0 * lanes + 8, LINE * max(map(len, names)) + 6)
        top += 6
        bottom = top + slot * len(labels)
        x = Scale(axis=axis, start=left, end=self.width - MARGIN - 10 - max(text_width(bar.text) for bar in bars))
        spaces = [x(after) - x(before) for (before, _), (after, _) in pairwise(axis.ticks)]
        every = int((widest + 12) / max(min(spaces, default=self.width), 1)) + 1
        for index, (tick, text) in enumerate(axis.ticks):
            self.add("line", "grid", x1=x(tick), x2=x(tick), y1=top, y2=bottom)
            if index % every == 0:
                self.text(x(tick), bottom + 16, text, "number", anchor="middle")
        for index, rows in enumerate(names):
            y = top + slot * (index + 0.5) + 4 - LINE * (len(rows) - 1) / 2
            self.lines(left - 8, y, rows, anchor="end", whole=labels[index])
        height = slot * 0.72 / lanes
        for bar in bars:
            middle = top + slot * (bar.row + 0.5) + height * (bar.lane - (lanes - 1) / 2)
            start, end = x(bar.start), x(bar.end)
            if bar.dot:
                self.add("line", "stripe", x1=start, x2=end, y1=middle, y2=middle)
                self.add("circle", bar.classes, bar.tooltip, cx=end, cy=middle, r=5)
            else:
                box = {"x": min(start, end), "y": middle - height / 2 + 0.5, "height": height - 1}
                self.add("rect", bar.classes, bar.tooltip, **box, width=max(abs(end - start), 0.5), rx=1.5)
            if bar.reach is not None:
                low, high, cap = x(bar.reach[0]), x(bar.reach[1]), min(4.0, height * 0.3)
                caps = "".join(f"M{place:.1f} {middle - cap:.1f}v{2 * cap:.1f}" for place in (low, high))
                faint = " faint" if "faint" in bar.classes else ""
                self.add("path", f"whisker{faint}", d=f"{caps}M{low:.1f} {middle:.1f}H{high:.1f}")
            if bar.text:
                beyond = end if bar.reach is None else x(bar.reach[1])
                self.text(beyond + (9 if bar.dot else 5), middle + 4, bar.text, "number")
        zero = x(min(max(0.0, axis.low), axis.high))
        self.add("line", "axis", x1=zero, x2=zero, y1=top, y2=bottom)
        self.text((left + self.width - MARGIN) / 2, bottom + 34, axis.name, "name", anchor="middle")
        return bottom + 46

    def nothing(self, top: float) -> float:
        """Say that there is nothing to draw, and return where the drawing ends."""
        self.text(self.width / 2, top + 40, "nothing to show", anchor="middle")
        return top + 70

    def page(self, *, classes: str = "") -> str:
        """Return the picture for a page that has the style sheet: no colours and no style of its own."""
        return self._svg("".join(self.parts), classes=classes)

    @property
    def svg(self) -> str:
        """The picture with its style sheet inside, on paper of its own, for notebooks and files."""
        paper = f'<style>{style_sheet()}</style><rect class="paper" width="100%" height="100%"/>'
        size = f' width="{number(self.width)}" height="{number(self.height)}"'
        return self._svg(paper + "".join(self.parts), size)

    def _svg(self, inner: str, size: str = "", *, classes: str = "") -> str:
        data = "".join(f' data-{name}="{escape(value)}"' for name, value in self.data.items())
        css = f"hush-chart {classes}".strip()
        words = escape(visible(self.words))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{css}" role="img" aria-label="{words}"'
            f' viewBox="0 0 {number(self.width)} {number(self.height)}"{size}{data}>{inner}</svg>'
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the picture as notebooks keep it: SVG, and PNG for readers that show no SVG where it can be made."""
        bundle = {"text/plain": repr(self), "image/svg+xml": self.svg}
        try:
            return bundle | {"image/png": base64.b64encode(_png(self.svg)).decode()}
        except MissingChartsError:
            return bundle

    def save(self, path: str | Path) -> Path:
        """Write the chart as .svg, .png or .html, by the path's ending."""
        target = Path(path)
        match target.suffix.lower():
            case ".svg":
                content = self.svg.encode()
            case ".png":
                content = _png(self.svg)
            case ".html":
                title = escape(visible(self.title))
                page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>{self.svg}</html>'
                content = page.encode()
            case _:
                raise InvalidValueError("path", got=str(path), allowed="a file name ending in .svg, .png or .html")
        with writing(target):
            target.write_bytes(content)
        return target

    def __repr__(self) -> str:
        return f"<Chart: {visible(self.title)}>"


def _png(svg: str) -> bytes:
    try:
        import resvg_py
    except ImportError:
        raise MissingChartsError("PNG needs resvg-py: pip install 'hush[charts]'. SVG needs nothing.") from None
    letter = Chart(width=20, height=20)
    blank = resvg_py.svg_to_bytes(letter.svg)
    letter.text(2, 15, "a")
    if resvg_py.svg_to_bytes(letter.svg) == blank:
        # the converter leaves out words for which it finds no font, and says nothing
        raise MissingChartsError("PNG needs a font, such as Liberation Sans or DejaVu Sans. SVG needs none.")
    return resvg_py.svg_to_bytes(svg, zoom=2)


DAY = 86_400.0
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times of an answer have no zone
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
_SECONDS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY, 2 * DAY, 7 * DAY, 14 * DAY)


def number_ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Return about ``about`` round numbers that enclose a range."""
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
    """Return round times from ``low`` to ``high`` with their texts, at least ``least`` seconds apart (dates: a day).

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
            ticks, before = list[tuple[float, str]](), None
            for time in (first + index * step for index in range(count) if first + index * step <= high):
                moment = _EPOCH + dt.timedelta(seconds=time)
                # the first of a day or year says which one
                text, date = f"{moment:%H:%M:%S}" if step < 60 else f"{moment:%H:%M}", f"{moment.day} {moment:%b}"
                if step >= DAY:
                    text = f"{date} {moment.year}" if before is None or before.year != moment.year else date
                elif before is None or before.date() != moment.date():
                    text = f"{date} {text}"
                ticks.append((time, text))
                before = moment
            return ticks
    months = next((step for step in _MONTHS if span / (step * 30.44 * DAY) <= about), _MONTHS[-1])
    begin = _EPOCH + dt.timedelta(seconds=low)
    first = (begin.year * 12 + begin.month - 1) // months * months
    indices = range(first, min(first + months * (2 * about + 3), 12 * dt.MAXYEAR + 12), months)
    days = [day for index in indices if low <= seconds(day := dt.date(max(index // 12, 1), index % 12 + 1, 1)) <= high]
    texts = [str(day.year) if day.month == 1 else f"{day:%b %Y}" if day is days[0] else f"{day:%b}" for day in days]
    return list(zip(map(seconds, days), texts, strict=True))


_COLOURS = 5
_GREY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """A line of a chart; one to compare with is dashed."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    dot: tuple[float, float] | None = None


def line_chart(
    curves: Sequence[ChartLine], x: ChartAxis, y: ChartAxis, *, title: str, subtitle: str = "", width: float = 640
) -> Chart:
    """Return curves over one axis, each in its colour, with a legend if there are several; 320 pixels high."""
    chart = Chart(width=width, title=title, subtitle=subtitle, details="; ".join(curve.name for curve in curves))
    top = chart.heading()
    colours = [_GREY if curve.dashed else index % _COLOURS for index, curve in enumerate(curves)]
    if len(curves) > 1:
        entries = [(curve.name, f"d{colour}") for curve, colour in zip(curves, colours, strict=True)]
        top = chart.legend(top, "", entries)
    bottom = top + 320
    upwards, along = chart.ordinate(y, top, bottom), chart.abscissa(x, y.room(), bottom)
    for curve, colour in zip(curves, colours, strict=True):
        places = [(along(across), upwards(up)) for across, up in curve.points]
        chart.path(f"line s{colour}{' dashed' if curve.dashed else ''}", places, tooltip=curve.name)
        if curve.dot is not None:
            chart.add("circle", f"d{colour}", curve.name, cx=along(curve.dot[0]), cy=upwards(curve.dot[1]), r=4)
    chart.height = bottom + 48
    return chart


def bar_chart(
    labels: Sequence[str],
    bars: Sequence[ChartBar],
    axis: ChartAxis,
    *,
    title: str,
    subtitle: str = "",
    legend: Sequence[tuple[str, str]] = (),
) -> Chart:
    """Return bars from left to right, a row for each label; the legend gives texts with the classes of their bars."""
    chart = Chart(width=560, title=title, subtitle=subtitle, details="; ".join(bar.tooltip for bar in bars[:20]))
    top = chart.heading()
    if legend:
        top = chart.legend(top, "", legend)
    chart.height = chart.lying_bars(labels, bars, axis, top) if bars else chart.nothing(top)
    return chart
