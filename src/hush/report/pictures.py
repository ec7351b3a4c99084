"""Pictures of answers in SVG. How they look is in ``chart.css``; nothing but the standard library is needed.

What is drawn follows from the keys (`plot`):

* no key: a single number, a dot on a scale of its own;
* a key of dates, times or more than forty numbers: a line with a band;
* a key of numbers: a histogram, its bars side by side;
* any other key: bars with whiskers; or dots on an axis of their own, where whiskers could not be seen on one from 0;
* a second key: colours side by side, or a map where it has more than six values.

Other kinds can be chosen (`kinds`).

Bars and whiskers end where the truth must end (`AnswerColumn.limits`). Points of which nothing is known are drawn
faintly, and the axis is chosen without them: those that say nothing (`AnswerColumn.tells`) and whose error bar is not
short either, on the axis that the others need. So a count of 2 ± 3 beside one of 900 is drawn as what it is: small.

>>> from hush.query.types import Kind
>>> from hush.report.columns import AnswerColumn
>>> disease = AnswerColumn(name="disease", kind=Kind.TEXT, values=("Flu", "HIV"))
>>> n = AnswerColumn(name="n", kind=Kind.INTEGER, values=(28, 5), errors=(3.0, 3.0), counts=True)
>>> svg = picture([disease, n], subtitle="price ε=0.5; ± at 95% confidence").page()
>>> "n by disease" in svg, "28 ± 3" in svg, "style" in svg
(True, True, False)
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Any

from hush.core import HushError
from hush.core.chart import (
    DAY,
    LINE,
    MARGIN,
    Chart,
    ChartAxis,
    ChartBar,
    Scale,
    cut,
    seconds,
    text_width,
    tick_text,
    time_ticks,
    wrapped,
)
from hush.core.format import visible
from hush.query.errors import did_you_mean
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, shown, shown_error

_WIDTH, _HEIGHT = 640.0, 258.0
_SHADES = 7
_UNSEEN, _SEEN = 1 / 80, 1 / 12
"""An error bar below the first share of the axis cannot be seen; one from the second share on can."""
_DECADES = 20.0
"""The ratio of the greatest number to the least from which on dots have a logarithmic axis."""
MANY = 40
"""More numbers than these are a line, not a histogram."""
COLOURS = 6
"""More values of a second key than these are a map, not colours."""
_SHORT = 0.25
"""An error bar is short if it takes no more of the axis than this."""
TIMES = {Kind.DATE, Kind.TIMESTAMP}


class PlotKind(Enum):
    """How an answer is drawn."""

    NUMBER = "number"
    BARS = "bars"
    HISTOGRAM = "histogram"
    DOTS = "dots"
    LINE = "line"
    MAP = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One noisy number and where it belongs."""

    keys: tuple[Any, ...]
    labels: tuple[str, ...]
    """The keys as they are written at an axis, with empty texts in place of missing ones."""
    value: float
    end: float
    """Where a bar or dot ends: at the value, or where the truth must end if noise carried it further."""
    bar: tuple[float, float] | None
    """From where to where the error bar reaches; None where it has no end."""
    tells: bool
    text: str
    """The number with its error, as tables show it."""

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where the point extends, error bar included."""
        return self.bar or (self.value, self.value)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A chart before it is drawn."""

    kind: PlotKind
    column: AnswerColumn
    keys: tuple[AnswerColumn, ...]
    points: tuple[Point, ...]
    title: str
    aside: tuple[str, ...] = ()
    """Numbers without a place on a line: their key is NULL."""

    def labels(self, key: int) -> list[str]:
        """Return the values of a key in their order, each once, as they are written at an axis."""
        return list(dict.fromkeys(point.labels[key] for point in self.points))

    @cached_property
    def groups(self) -> list[str]:
        """The values of the second key, as they are written; an empty text where there is no second key."""
        return self.labels(1)

    def extent(self) -> tuple[float, float]:
        """Return the least and the greatest number that the axis has to show: of points that say something, if any."""
        telling = [point for point in self.points if point.tells] or self.points
        ends = [end for point in telling for end in (*point.reach, point.end)]
        return min(ends, default=0.0), max(ends, default=1.0)


def measures(columns: Sequence[AnswerColumn]) -> list[str]:
    """Return the names of the noisy numbers, which can be drawn."""
    return [column.name for column in columns if column.noisy and column.kind.numeric]


def kinds(columns: Sequence[AnswerColumn]) -> list[PlotKind]:
    """Return the kinds of chart that an answer can have, the usual one first."""
    keys = tuple(column for column in columns if not column.noisy)[:2]
    if not keys:
        return [PlotKind.NUMBER]
    numeric, times = keys[0].kind.numeric, keys[0].kind in TIMES
    coloured = len(keys) < 2 or len(set(keys[1].values)) <= COLOURS
    many = len(set(keys[0].values)) > MANY
    usual = PlotKind.HISTOGRAM if numeric else PlotKind.BARS
    if not coloured:
        usual = PlotKind.MAP
    elif times or (numeric and many):
        usual = PlotKind.LINE
    few, ordered = coloured and not many, times or numeric
    possible = {
        PlotKind.BARS: few and usual is not PlotKind.HISTOGRAM,
        PlotKind.DOTS: few,
        PlotKind.LINE: ordered and coloured,
        PlotKind.MAP: len(keys) > 1,
    }
    return list(dict.fromkeys([usual, *(kind for kind, fits in possible.items() if fits)]))


def plot(columns: Sequence[AnswerColumn], *, column: str = "", title: str = "", kind: PlotKind | None = None) -> Plot:
    """Return the chart of a noisy column over the first two keys: the first noisy column unless one is named."""
    names = measures(columns)
    if not names:
        raise HushError("there is nothing to draw: the answer has no noisy number")
    if column and column not in names:
        hint = did_you_mean(column, names, otherwise=", ".join(names))
        raise HushError(f"there is no noisy number {column!r} to draw; {hint}")
    values = next(other for other in columns if other.name == (column or names[0]))
    keys = tuple(other for other in columns if not other.noisy)[:2]
    possible = kinds(columns)
    if kind is not None and kind not in possible:
        fitting = ", ".join(other.value for other in possible)
        raise HushError(f"this answer cannot be drawn as {kind.value}; take one of: {fitting}")
    chosen, kind = kind, kind or possible[0]
    rows = {row: values.interval(row) for row, value in enumerate(values.values) if value is not None}
    # bars begin at 0, so the axis holds it too
    ends = [end for row, bar in rows.items() if bar is not None and values.tells(row) for end in (*bar, 0.0)]
    short = math.inf if kind is PlotKind.NUMBER else _SHORT * (max(ends) - min(ends)) if ends else 0.0
    points, aside = [], []
    for row, bar in rows.items():
        value, error = values.values[row], None if values.errors is None else values.errors[row]
        cells = tuple(key.values[row] for key in keys)
        point = Point(
            keys=cells,
            labels=(*map(label, cells), "", ""),
            value=value,
            end=values.possible(value),
            bar=bar,
            tells=values.tells(row) or (bar is not None and bar[1] - bar[0] <= short),
            text=f"{shown(value, error)} ± {shown_error(error)}",
        )
        if kind is PlotKind.LINE and point.keys[0] is None:
            aside.append(f"{visible(keys[0].name)} NULL: {point.text}")
        else:
            points.append(point)
    if chosen is None and kind in {PlotKind.BARS, PlotKind.HISTOGRAM} and _unseen(points):
        kind = PlotKind.DOTS
    said = title or " by ".join([values.name, " and ".join(key.name for key in keys)] if keys else [values.name])
    return Plot(kind=kind, column=values, keys=keys, points=tuple(points), title=said, aside=tuple(aside))


def label(value: Any) -> str:
    """Return a key as it is written at an axis."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ", timespec="minutes")
    return "NULL" if value is None else visible(str(value))


def places(key: AnswerColumn) -> list[Any]:
    """Return the places of a histogram's bars, those without a bar between them too; none if keys are not in order."""
    known = list(dict.fromkeys(value for value in key.values if value is not None))
    if len(known) < 2 or known != sorted(known):
        return []
    step = min(after - before for before, after in pairwise(known))
    even = [known[0] + place * step for place in range(min(round((known[-1] - known[0]) / step), MANY) + 1)]
    if isinstance(step, float):
        # Sums of float steps miss the keys by a rounding error: the key itself takes the place.
        nearest = {round((value - known[0]) / step): value for value in known}
        even = [nearest.get(index, place) for index, place in enumerate(even)]
    if not set(known) <= set(even):
        return []
    return [*even, *([None] if None in key.values else [])]


def _unseen(points: list[Point]) -> bool:
    """Return whether error bars are too short to be seen on an axis that begins at 0, and not on one of their own."""
    reaches = [point.reach for point in points if point.tells]
    if not reaches:
        return False
    low, high = min(low for low, _ in reaches), max(high for _, high in reaches)
    longest = max(above - below for below, above in reaches)
    return 0 < longest < _UNSEEN * (max(high, 0.0) - min(low, 0.0)) and longest >= _SEEN * (high - low)


def picture(
    columns: Sequence[AnswerColumn],
    *,
    title: str = "",
    subtitle: str = "",
    column: str = "",
    width: float = _WIDTH,
    dummy: str = "",
    heading: bool = True,
    kind: PlotKind | None = None,
) -> Chart:
    """Return a picture, ``width`` pixels wide, of a noisy number over the first two keys.

    ``column`` names the number, else it is the first one; ``kind`` is one of `kinds`, else the usual one. ``subtitle``
    says price and confidence; without a ``heading`` a page writes title and subtitle itself. ``dummy`` is an id, unique
    in its page, of the hatching that says that values are made up; whiskers then carry their values, so that a script
    can move them.
    """
    # made-up bars stay bars, however short their whiskers are
    drawn = plot(columns, column=column, title=title, kind=kind or (kinds(columns)[0] if dummy else None))
    said = "; ".join(part for part in (subtitle, *drawn.aside) if part)
    few = "; ".join(_words(point) for point in drawn.points[:20])
    chart = Chart(width=width, title=drawn.title, subtitle=said, details=few)
    top = chart.heading() if heading else MARGIN
    if dummy:  # the hatching
        chart.parts.append(
            f'<defs><pattern id="{dummy}" width="6" height="6" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><rect class="ground" width="6" height="6"/>'
            '<line class="stripe" x1="1" y1="0" x2="1" y2="6"/></pattern></defs>'
        )
    drawing = {PlotKind.LINE: _line, PlotKind.MAP: _map}.get(drawn.kind, _bars)
    chart.height = drawing(chart, drawn, top, dummy) if drawn.points else chart.nothing(top)
    return chart


def _legend(chart: Chart, drawn: Plot, top: float) -> float:
    """Write the values of the second key beside their colours."""
    if len(drawn.keys) < 2:
        return top
    colour = "d" if drawn.kind in {PlotKind.LINE, PlotKind.DOTS} else "c"
    entries = [(text, f"{colour}{index % COLOURS}") for index, text in enumerate(drawn.labels(1))]
    return chart.legend(top, f"{drawn.keys[1].name}:", entries)


# bars and histograms


def _bars(chart: Chart, drawn: Plot, top: float, dummy: str) -> float:
    top = _legend(chart, drawn, top)
    labels = drawn.labels(0)
    if drawn.kind is PlotKind.HISTOGRAM and (even := places(drawn.keys[0])):
        labels = [label(value) for value in even]
    # made-up bars keep their axis however long their whiskers become
    low, high = (0.0, 1.2 * max(point.value for point in drawn.points)) if dummy else drawn.extent()
    if drawn.kind in {PlotKind.DOTS, PlotKind.NUMBER}:
        around = _close_up if drawn.keys else ChartAxis.around
        return _lying(chart, drawn, top, around(drawn.column.name, low, high), labels)
    axis = ChartAxis.around(drawn.column.name, min(low, 0.0), max(high, 0.0))
    slot = (chart.width - axis.room() - MARGIN) / len(labels)
    rows = [wrapped(text, slot - 6, lines=3) for text in labels]
    narrow = slot < 12 * len(drawn.groups)
    if drawn.kind is not PlotKind.HISTOGRAM and not dummy and (narrow or None in rows):
        return _lying(chart, drawn, top, axis, labels)
    names = [] if None in rows else [row for row in rows if row is not None]
    return _upright(chart, drawn, top, axis, labels, names, dummy)


def _close_up(name: str, low: float, high: float) -> ChartAxis:
    """Return an axis for dots: around the drawn numbers, logarithmic where the numbers are of very different size."""
    if low <= 0 or high < _DECADES * low:
        return ChartAxis.around(name, low, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high < 1000 * low else (1,)
    round_numbers = [step * 10.0**power for power in powers for step in steps]
    first = max(tick for tick in round_numbers if tick <= low)
    last = min((tick for tick in round_numbers if tick >= high), default=round_numbers[-1])
    ticks = [(tick, tick_text(tick)) for tick in round_numbers if first <= tick <= last]
    return ChartAxis(name=f"{name}, logarithmic", low=first, high=last, ticks=ticks, logarithmic=True)


def _upright(
    chart: Chart, drawn: Plot, top: float, axis: ChartAxis, labels: list[str], names: list[list[str]], dummy: str
) -> float:
    left, bottom = axis.room(), top + _HEIGHT
    y = chart.ordinate(axis, top, bottom)
    slot = (chart.width - left - MARGIN) / len(labels)
    groups = drawn.groups
    gap = 0.06 if drawn.kind is PlotKind.HISTOGRAM else 0.28
    bar = min(slot * (1 - gap), 90 * len(groups)) / len(groups)
    zero = y(0.0)
    for point in drawn.points:
        group = drawn.groups.index(point.labels[1])
        middle = left + slot * (labels.index(point.labels[0]) + 0.5) + bar * (group - (len(groups) - 1) / 2)
        end = y(point.end)
        box = {"x": middle - bar / 2 + 0.5, "y": min(end, zero), "width": max(bar - 1, 0.5), "height": abs(end - zero)}
        fill: dict[str, str] = {"fill": f"url(#{dummy})"} if dummy else {}
        classes = "dummy" if dummy else _faint(f"c{group % COLOURS}", point)
        chart.add("rect", classes, _words(point), **box, rx=1.5, **fill)
        _whisker(chart, point, y, middle, min(8.0, bar * 0.4), live=bool(dummy))
    chart.add("line", "axis", x1=left, x2=chart.width - MARGIN, y1=zero, y2=zero)
    if dummy:
        chart.data["scale"] = f"{axis.low:.10g} {axis.high:.10g} {y.start:.1f} {y.end:.1f}"
    # the keys under their bars: wrapped, else every second, third … of numbers, else cut
    depth, thin = 4 + LINE * max(map(len, names), default=1), drawn.kind is PlotKind.HISTOGRAM
    for index, rows in enumerate(names):
        chart.lines(left + slot * (index + 0.5), bottom + 16, rows, whole=labels[index])
    every = int((max(map(text_width, labels)) + 10) / slot) + 1 if thin else 1
    for index in () if names else range(0, len(labels), every):
        text = labels[index] if thin else cut(labels[index], slot - 4)
        chart.text(left + slot * (index + 0.5), bottom + 16, text, anchor="middle", whole=labels[index])
    chart.text((left + chart.width - MARGIN) / 2, bottom + depth + 18, drawn.keys[0].name, "name", anchor="middle")
    return bottom + depth + 30


def _lying(chart: Chart, drawn: Plot, top: float, axis: ChartAxis, labels: list[str]) -> float:
    bars = []
    dots = drawn.kind in {PlotKind.DOTS, PlotKind.NUMBER}
    for point in drawn.points:
        group = drawn.groups.index(point.labels[1])
        bar = ChartBar(
            row=labels.index(point.labels[0]),
            lane=group,
            start=point.end if dots else 0.0,
            end=point.end,
            dot=dots,
            classes=_faint(f"{'d' if dots else 'c'}{group % COLOURS}", point),
            reach=point.bar,
            text="" if point.keys else point.text,
            tooltip=_words(point),
        )
        bars.append(bar)
    return chart.lying_bars(labels, bars, axis, top)


def _words(point: Point) -> str:
    return ": ".join(filter(None, [", ".join(point.labels[: len(point.keys)]), point.text]))


def _whisker(chart: Chart, point: Point, y: Scale, middle: float, cap: float, *, live: bool = False) -> None:
    if point.bar is None:
        return
    low, high = map(y, point.bar)
    left, across = f"M{middle - cap:.1f}", f"h{2 * cap:.1f}"
    path = f"{left} {low:.1f}{across}{left} {high:.1f}{across}M{middle:.1f} {low:.1f}V{high:.1f}"
    data: dict[str, str] = {"data_x": f"{middle:.1f}", "data_cap": f"{cap:.1f}", "data_value": f"{point.value:.10g}"}
    chart.add("path", "whisker" if live else _faint("whisker", point), d=path, **(data if live else {}))


def _faint(classes: str, point: Point) -> str:
    return classes if point.tells else f"{classes} faint"


# lines


def _line(chart: Chart, drawn: Plot, top: float, _dummy: str) -> float:
    top = _legend(chart, drawn, top)
    low, high = drawn.extent()
    ordinate = ChartAxis.around(drawn.column.name, min(low, 0.0) if low < 0.6 * abs(high) else low, max(high, 0.0))
    bottom = top + _HEIGHT
    key, about = drawn.keys[0], max(3, int(chart.width / 105))
    times = [seconds(point.keys[0]) for point in drawn.points]
    first, last = min(times), max(times)
    if key.kind in TIMES:
        ticks = [(first, drawn.points[0].labels[0])]
        if first < last:
            ticks = time_ticks(first, last, about=about, least=DAY if key.kind is Kind.DATE else 0)
        abscissa = ChartAxis(name=key.name, low=first, high=last, ticks=ticks)
    else:
        abscissa = ChartAxis.between(key.name, first, last, about=about)
    y, x = chart.ordinate(ordinate, top, bottom), chart.abscissa(abscissa, ordinate.room(), bottom)
    for index in range(len(drawn.groups)):
        points = [point for point in drawn.points if drawn.groups.index(point.labels[1]) == index]
        _series(chart, sorted(points, key=lambda point: seconds(point.keys[0])), index % COLOURS, x, y)
    return bottom + 48


def _series(chart: Chart, points: Sequence[Point], colour: int, x: Scale, y: Scale) -> None:
    """Draw one line with its band; of points that say nothing, a hollow dot alone."""
    run: list[Point] = []
    for point in [*points, None]:
        if point is not None and point.tells:
            run.append(point)
            continue
        if len(run) > 1:
            moments = [x(seconds(member.keys[0])) for member in run]
            upper = [(moment, y(member.reach[1])) for moment, member in zip(moments, run, strict=True)]
            lower = [(moment, y(member.reach[0])) for moment, member in zip(moments, run, strict=True)]
            chart.path(f"band d{colour}", [*upper, *reversed(lower)], end="Z")
            middle = [(moment, y(member.end)) for moment, member in zip(moments, run, strict=True)]
            chart.path(f"line s{colour}", middle)
        elif run:
            _whisker(chart, run[0], y, x(seconds(run[0].keys[0])), 4)
        run = []
    if len(points) <= 2 * MANY:
        for point in points:
            place = {"cx": x(seconds(point.keys[0])), "cy": y(point.end), "r": 3.0}
            chart.add("circle", f"d{colour}" if point.tells else f"hollow s{colour} faint", _words(point), **place)


# maps


def _map(chart: Chart, drawn: Plot, top: float, _dummy: str) -> float:
    """Draw a cell for each pair of keys, the darker the greater; of cells that say nothing, the outline alone."""
    across, down = drawn.labels(1), drawn.labels(0)
    widest = max(text_width(drawn.keys[0].name, 12), *map(text_width, down))
    left = MARGIN + min(widest, chart.width * 0.3) + 8
    slot = (chart.width - left - MARGIN) / len(across)
    height = min(max(22.0, 360 / len(down)), 30.0)
    straight = all(text_width(text) <= slot - 4 for text in across)
    depth = 20.0 if straight else min(max(map(text_width, across)) * 0.64 + 18, 100)
    chart.text(left, top + 12, drawn.keys[1].name, "name")
    head = top + 16 + depth
    chart.text(left - 8, head - 6, cut(drawn.keys[0].name, left - MARGIN), "name", anchor="end")
    every = int(14 / slot) + 1
    for index in range(0, len(across), every):
        place, text = left + slot * (index + 0.5), across[index]
        if straight:
            chart.text(place, head - 6, text, anchor="middle")
        else:
            room = min(130, (chart.width - place - 8) / 0.77)  # the cosine of 40 degrees
            chart.text(place, head - 6, cut(text, room), turn=-40, whole=text)
    for index, text in enumerate(down):
        written = cut(text, left - MARGIN - 6)
        chart.text(left - 8, head + height * (index + 0.5) + 4, written, anchor="end", whole=text)
    values = [point.end for point in drawn.points if point.tells]
    low, high = (min(values), max(values)) if values else drawn.extent()
    axis = ChartAxis.around(drawn.column.name, min(low, 0.0) if low < 0.6 * high else low, high)
    shade = Scale(axis=axis, start=0, end=_SHADES - 0.001)
    for point in drawn.points:
        x, y = left + slot * across.index(point.labels[1]), head + height * down.index(point.labels[0])
        step = int(shade(point.end))
        box = {"x": x + 1, "y": y + 1, "width": max(slot - 2, 0.5), "height": height - 2}
        chart.add("rect", f"h{step}" if point.tells else "unknown", _words(point), **box, rx=2)
        text = point.text.split(" ± ")[0] if point.tells else "?"
        if text_width(text, 11) <= slot - 6:
            classes = f"on{step} number" if point.tells else ""
            chart.text(x + slot / 2, y + height / 2 + 4, text, classes, anchor="middle")
    # the legend of the shades
    y = head + height * len(down) + 16
    chart.text(left, y + 10, axis.name, "name")
    begin = left + text_width(axis.name, 12) + 14
    for step in range(_SHADES):
        chart.add("rect", f"h{step}", x=begin + 22 * step, y=y, width=22, height=12)
    first, last = tick_text(axis.low), tick_text(axis.high)
    chart.text(begin, y + 26, first, "number", anchor="middle")
    chart.text(begin + 22 * _SHADES, y + 26, last, "number", anchor="middle")
    if any(not point.tells for point in drawn.points):
        place, words = begin + 22 * _SHADES + 30, "says nothing at this price"
        if place + 26 + text_width(words) > chart.width:
            place, y = left, y + 34
        chart.add("rect", "unknown", x=place, y=y + 0.5, width=20, height=11, rx=2)
        chart.text(place + 26, y + 10, words)
    return y + 36
