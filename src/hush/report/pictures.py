"""Pictures of answers in SVG: bars with whiskers, histograms, lines with bands, maps of two keys, single numbers.

What is drawn follows from `hush.report.plots`; how it looks, from ``chart.css``. Nothing but the standard library is
needed.

>>> from hush.query.types import Kind
>>> from hush.report.columns import AnswerColumn
>>> disease = AnswerColumn(name="disease", kind=Kind.TEXT, values=("Flu", "HIV"))
>>> n = AnswerColumn(name="n", kind=Kind.INTEGER, values=(28, 5), errors=(3.0, 3.0), counts=True)
>>> svg = picture([disease, n], subtitle="price ε=0.5; ± at 95% confidence").page()
>>> "n by disease" in svg, "28 ± 3" in svg, "style" in svg
(True, True, False)
"""

from __future__ import annotations

from collections.abc import Sequence

from hush.core.svg import (
    DAY,
    LINE,
    MARGIN,
    ChartAxis,
    ChartBar,
    Scale,
    Sheet,
    cut,
    number_ticks,
    seconds,
    text_width,
    tick_text,
    time_ticks,
    wrapped,
)
from hush.query.types import Kind
from hush.report.columns import AnswerColumn
from hush.report.plots import COLOURS, MANY, TIMES, Plot, PlotKind, Point, label, places, plot

_WIDTH, _HEIGHT = 640.0, 240.0
_SHADES = 7


def picture(
    columns: Sequence[AnswerColumn],
    *,
    title: str = "",
    subtitle: str = "",
    column: str = "",
    width: float = _WIDTH,
    dummy: str = "",
    heading: bool = True,
) -> Sheet:
    """Return a picture of a noisy number over the first two keys.

    Parameters
    ----------
    columns
        The columns of an answer.
    title, subtitle
        What is shown, and its price and confidence; the title says the column and its keys unless given.
    column
        Which noisy number, the first unless named.
    width
        In pixels.
    dummy
        An id, unique in its page, of the hatching that says that values are made up; whiskers then carry their values,
        so that a script can move them.
    heading
        Whether the title and subtitle are drawn; a page may write them itself.
    """
    shown = plot(columns, column=column, title=title)
    said = "; ".join(part for part in (subtitle, *shown.aside) if part)
    few = "; ".join(_words(point) for point in shown.points[:20])
    sheet = Sheet(width=width, title=shown.title, subtitle=said, details=few)
    top = sheet.heading() if heading else MARGIN
    if dummy:
        _hatching(sheet, dummy)
    drawing = {
        PlotKind.NUMBER: _number,
        PlotKind.BARS: _bars,
        PlotKind.HISTOGRAM: _bars,
        PlotKind.LINE: _line,
        PlotKind.MAP: _map,
    }[shown.kind]
    sheet.height = drawing(sheet, shown, top, dummy) if shown.points else sheet.nothing(top)
    return sheet


def _hatching(sheet: Sheet, name: str) -> None:
    sheet.parts.append(
        f'<defs><pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="ground" width="6" height="6"/>'
        '<line class="stripe" x1="1" y1="0" x2="1" y2="6"/></pattern></defs>'
    )


def _legend(sheet: Sheet, shown: Plot, top: float) -> float:
    """Write the values of the second key beside their colours."""
    if len(shown.keys) < 2:
        return top
    colour = "d" if shown.kind is PlotKind.LINE else "c"
    entries = [(text, f"{colour}{index % COLOURS}") for index, text in enumerate(shown.labels(1))]
    return sheet.legend(top, f"{shown.keys[1].name}:", entries)


# bars and histograms


def _bars(sheet: Sheet, shown: Plot, top: float, dummy: str) -> float:
    top = _legend(sheet, shown, top)
    labels = shown.labels(0)
    if shown.kind is PlotKind.HISTOGRAM and (even := places(shown.keys[0])):
        labels = [label(value) for value in even]
    # made-up bars keep their axis however long their whiskers become
    low, high = (0.0, 1.2 * max(point.value for point in shown.points)) if dummy else shown.extent()
    axis = ChartAxis.around(shown.column.name, min(low, 0.0), max(high, 0.0))
    slot = (sheet.width - axis.room() - MARGIN) / len(labels)
    rows = [wrapped(text, slot - 6, lines=3) for text in labels]
    narrow = slot < 12 * max(1, len(shown.labels(1)) if len(shown.keys) > 1 else 1)
    if shown.kind is PlotKind.BARS and not dummy and (narrow or None in rows):
        return _lying(sheet, shown, top, axis, labels)
    names = [] if None in rows else [row for row in rows if row is not None]
    return _upright(sheet, shown, top, axis, labels, names, dummy)


def _upright(
    sheet: Sheet, shown: Plot, top: float, axis: ChartAxis, labels: list[str], names: list[list[str]], dummy: str
) -> float:
    left, bottom = axis.room(), top + _HEIGHT
    y = sheet.ordinate(axis, top, bottom)
    slot = (sheet.width - left - MARGIN) / len(labels)
    groups = shown.labels(1) if len(shown.keys) > 1 else [""]
    gap = 0.06 if shown.kind is PlotKind.HISTOGRAM else 0.28
    bar = min(slot * (1 - gap), 90 * len(groups)) / len(groups)
    zero = y(0.0)
    for point in shown.points:
        group = groups.index(label(point.keys[1])) if len(shown.keys) > 1 else 0
        middle = left + slot * (labels.index(label(point.keys[0])) + 0.5) + bar * (group - (len(groups) - 1) / 2)
        end = y(shown.shown_value(point))
        box = {"x": middle - bar / 2 + 0.5, "y": min(end, zero), "width": max(bar - 1, 0.5), "height": abs(end - zero)}
        fill: dict[str, str] = {"fill": f"url(#{dummy})"} if dummy else {}
        classes = "dummy" if dummy else _faint(f"c{group % COLOURS}", point)
        sheet.add("rect", classes, _words(point), **box, rx=1.5, **fill)
        _whisker(sheet, point, y, middle, min(8.0, bar * 0.4), live=bool(dummy))
    sheet.add("line", "axis", x1=left, x2=sheet.width - MARGIN, y1=zero, y2=zero)
    if dummy:
        sheet.data["scale"] = f"{axis.low:.10g} {axis.high:.10g} {bottom:.1f} {top + 12:.1f}"
    depth = _names(sheet, labels, names, left, slot, bottom, thin=shown.kind is PlotKind.HISTOGRAM)
    sheet.text((left + sheet.width - MARGIN) / 2, bottom + depth + 18, shown.keys[0].name, "name", anchor="middle")
    return bottom + depth + 30


def _names(
    sheet: Sheet, labels: list[str], names: list[list[str]], left: float, slot: float, bottom: float, *, thin: bool
) -> float:
    """Write the keys under their bars: straight or wrapped, else every second, third … of numbers, else turned."""
    if names:
        for index, rows in enumerate(names):
            sheet.lines(left + slot * (index + 0.5), bottom + 16, rows, whole=labels[index])
        return 4 + LINE * max(map(len, names))
    widest = max(map(text_width, labels))
    every = int((widest + 10) / slot) + 1
    turned = every > 8 or not thin
    if turned:
        every = int(16 / slot) + 1
    for index in range(0, len(labels), every):
        place = left + slot * (index + 0.5)
        if turned:
            sheet.text(place + 4, bottom + 14, cut(labels[index], 120), anchor="end", turn=-40, whole=labels[index])
        else:
            sheet.text(place, bottom + 16, labels[index], anchor="middle")
    return 14 + min(widest, 120) * 0.65 if turned else 4 + LINE


def _lying(sheet: Sheet, shown: Plot, top: float, axis: ChartAxis, labels: list[str]) -> float:
    groups = shown.labels(1) if len(shown.keys) > 1 else [""]
    bars = []
    for point in shown.points:
        group = groups.index(label(point.keys[1])) if len(shown.keys) > 1 else 0
        bar = ChartBar(
            row=labels.index(label(point.keys[0])),
            lane=group,
            end=shown.shown_value(point),
            classes=_faint(f"c{group % COLOURS}", point),
            reach=None if point.low is None else point.reach,
            tooltip=_words(point),
        )
        bars.append(bar)
    return sheet.lying_bars(labels, bars, axis, top)


def _words(point: Point) -> str:
    return f"{', '.join(map(label, point.keys))}: {point.text}"


def _whisker(sheet: Sheet, point: Point, y: Scale, middle: float, cap: float, *, live: bool = False) -> None:
    if point.low is None or point.high is None:
        return
    low, high = y(point.low), y(point.high)
    left, across = f"M{middle - cap:.1f}", f"h{2 * cap:.1f}"
    path = f"{left} {low:.1f}{across}{left} {high:.1f}{across}M{middle:.1f} {low:.1f}V{high:.1f}"
    data: dict[str, str] = {"data_x": f"{middle:.1f}", "data_cap": f"{cap:.1f}", "data_value": f"{point.value:.10g}"}
    sheet.add("path", "whisker" if live else _faint("whisker", point), d=path, **(data if live else {}))


def _faint(classes: str, point: Point) -> str:
    return classes if point.tells else f"{classes} faint"


# lines


def _line(sheet: Sheet, shown: Plot, top: float, _dummy: str) -> float:
    top = _legend(sheet, shown, top)
    low, high = shown.extent()
    ordinate = ChartAxis.around(shown.column.name, min(low, 0.0) if low < 0.6 * abs(high) else low, max(high, 0.0))
    bottom = top + _HEIGHT
    times = [seconds(point.keys[0]) for point in shown.points]
    abscissa = _along(shown, min(times), max(times), about=max(3, int(sheet.width / 105)))
    y, x = sheet.ordinate(ordinate, top, bottom), sheet.abscissa(abscissa, ordinate.room(), bottom)
    groups = shown.labels(1) if len(shown.keys) > 1 else [""]
    for index, group in enumerate(groups):
        points = [point for point in shown.points if len(shown.keys) < 2 or label(point.keys[1]) == group]
        _series(sheet, shown, sorted(points, key=lambda point: seconds(point.keys[0])), index % COLOURS, x, y)
    return bottom + 48


def _along(shown: Plot, first: float, last: float, *, about: int) -> ChartAxis:
    key = shown.keys[0]
    if key.kind not in TIMES:
        return ChartAxis.between(key.name, first, last, about=about)
    ticks = [(first, label(shown.points[0].keys[0]))]
    if first < last:
        ticks = time_ticks(first, last, about=about, least=DAY if key.kind is Kind.DATE else 0)
    return ChartAxis(name=key.name, low=first, high=last, ticks=ticks)


def _series(sheet: Sheet, shown: Plot, points: Sequence[Point], colour: int, x: Scale, y: Scale) -> None:
    """Draw one line with its band; of points that say nothing, a hollow dot alone."""
    run: list[Point] = []
    for point in [*points, None]:
        if point is not None and point.tells:
            run.append(point)
            continue
        if len(run) > 1:
            places = [x(seconds(member.keys[0])) for member in run]
            upper = [(place, y(member.reach[1])) for place, member in zip(places, run, strict=True)]
            lower = [(place, y(member.reach[0])) for place, member in zip(places, run, strict=True)]
            sheet.path(f"band d{colour}", [*upper, *reversed(lower)], end="Z")
            middle = [(place, y(shown.shown_value(member))) for place, member in zip(places, run, strict=True)]
            sheet.path(f"line s{colour}", middle)
        elif run:
            _whisker(sheet, run[0], y, x(seconds(run[0].keys[0])), 4)
        run = []
    if len(points) <= 2 * MANY:
        for point in points:
            place = {"cx": x(seconds(point.keys[0])), "cy": y(shown.shown_value(point)), "r": 3.0}
            sheet.add("circle", f"d{colour}" if point.tells else f"hollow s{colour} faint", _words(point), **place)


# maps


def _map(sheet: Sheet, shown: Plot, top: float, _dummy: str) -> float:
    """Draw a cell for each pair of keys, the darker the greater; of cells that say nothing, the outline alone."""
    across, down = shown.labels(1), shown.labels(0)
    widest = max(text_width(shown.keys[0].name, 12), *map(text_width, down))
    left = MARGIN + min(widest, sheet.width * 0.3) + 8
    slot = (sheet.width - left - MARGIN) / len(across)
    height = min(max(22.0, 360 / len(down)), 30.0)
    straight = all(text_width(text) <= slot - 4 for text in across)
    depth = 20.0 if straight else min(max(map(text_width, across)) * 0.64 + 18, 100)
    sheet.text(left, top + 12, shown.keys[1].name, "name")
    head = top + 16 + depth
    sheet.text(left - 8, head - 6, cut(shown.keys[0].name, left - MARGIN), "name", anchor="end")
    every = int(14 / slot) + 1
    for index in range(0, len(across), every):
        place, text = left + slot * (index + 0.5), across[index]
        if straight:
            sheet.text(place, head - 6, text, anchor="middle")
        else:
            room = min(130, (sheet.width - place - 8) / 0.77)  # the cosine of 40 degrees
            sheet.text(place, head - 6, cut(text, room), turn=-40, whole=text)
    for index, text in enumerate(down):
        written = cut(text, left - MARGIN - 6)
        sheet.text(left - 8, head + height * (index + 0.5) + 4, written, anchor="end", whole=text)
    low, high = shown.extent()
    values = [shown.shown_value(point) for point in shown.points if point.tells]
    low, high = (min(values), max(values)) if values else (low, high)
    axis = ChartAxis.around(shown.column.name, min(low, 0.0) if low < 0.6 * high else low, high)
    shade = Scale(axis=axis, start=0, end=_SHADES - 0.001)
    for point in shown.points:
        _cell(sheet, shown, point, shade, left + slot * across.index(label(point.keys[1])), slot, head, height, down)
    return _shades(sheet, left, head + height * len(down) + 16, axis, shown)


def _cell(
    sheet: Sheet,
    shown: Plot,
    point: Point,
    shade: Scale,
    x: float,
    slot: float,
    head: float,
    height: float,
    down: list[str],
) -> None:
    y = head + height * down.index(label(point.keys[0]))
    step = int(shade(shown.shown_value(point)))
    classes = f"h{step}" if point.tells else "unknown"
    sheet.add("rect", classes, _words(point), x=x + 1, y=y + 1, width=max(slot - 2, 0.5), height=height - 2, rx=2)
    text = point.text.split(" ± ")[0] if point.tells else "?"
    if text_width(text, 11) <= slot - 6:
        sheet.text(x + slot / 2, y + height / 2 + 4, text, f"on{step} number" if point.tells else "", anchor="middle")


def _shades(sheet: Sheet, left: float, y: float, axis: ChartAxis, shown: Plot) -> float:
    """Draw the legend of the shades."""
    sheet.text(left, y + 10, axis.name, "name")
    begin = left + text_width(axis.name, 12) + 14
    for step in range(_SHADES):
        sheet.add("rect", f"h{step}", x=begin + 22 * step, y=y, width=22, height=12)
    low, high = tick_text(axis.low), tick_text(axis.high)
    sheet.text(begin, y + 26, low, "number", anchor="middle")
    sheet.text(begin + 22 * _SHADES, y + 26, high, "number", anchor="middle")
    if any(not point.tells for point in shown.points):
        place, words = begin + 22 * _SHADES + 30, "says nothing at this price"
        if place + 26 + text_width(words) > sheet.width:
            place, y = left, y + 34
        sheet.add("rect", "unknown", x=place, y=y + 0.5, width=20, height=11, rx=2)
        sheet.text(place + 26, y + 10, words)
    return y + 36


# a single number


def _number(sheet: Sheet, shown: Plot, top: float, _dummy: str) -> float:
    point = shown.points[0]
    low, high = point.reach
    pad = (high - low) * 0.35 or abs(point.value) * 0.1 or 1.0
    ticks = number_ticks(low - pad, high + pad, about=5)
    if (least := shown.column.limits[0]) is not None:
        ticks = [tick for tick in ticks if tick >= least] or ticks
    ends = ChartAxis(name=shown.column.name, low=ticks[0], high=ticks[-1], ticks=[])
    x = Scale(axis=ends, start=MARGIN + 30, end=sheet.width - MARGIN - 30)
    middle, axis = top + 52, top + 78
    place = x(shown.shown_value(point))
    near = min(
        max(place, text_width(point.text, 20) / 2 + MARGIN), sheet.width - text_width(point.text, 20) / 2 - MARGIN
    )
    sheet.text(near, top + 30, point.text, "big number", anchor="middle")
    for tick in ticks:
        sheet.add("line", "axis", x1=x(tick), x2=x(tick), y1=axis, y2=axis + 5)
        sheet.text(x(tick), axis + 18, tick_text(tick), "number", anchor="middle")
    sheet.add("line", "axis", x1=x(ticks[0]), x2=x(ticks[-1]), y1=axis, y2=axis)
    if point.low is not None and point.high is not None:
        start, end = x(point.low), x(point.high)
        path = f"M{start:.1f} {middle - 6:.1f}v12M{end:.1f} {middle - 6:.1f}v12M{start:.1f} {middle:.1f}H{end:.1f}"
        sheet.add("path", _faint("whisker", point), d=path)
    sheet.add("circle", "d0" if point.tells else "hollow s0", point.text, cx=place, cy=middle, r=5)
    sheet.text(sheet.width / 2, axis + 36, shown.column.name, "name", anchor="middle")
    return axis + 48
