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

from hush.core.format import visible
from hush.core.values import dataclass
from hush.query.types import Kind
from hush.report.columns import AnswerColumn
from hush.report.plots import COLOURS, MANY, TIMES, Plot, PlotKind, Point, label, places, plot
from hush.report.svg import DAY, Scale, Sheet, cut, number_ticks, seconds, text_width, tick_text, time_ticks, wrapped

_WIDTH, _HEIGHT = 640.0, 240.0
_MARGIN = 14.0
_LINE = 14.0
_SHADES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawn chart, for a page or for a file."""

    sheet: Sheet
    words: str

    def page(self, *, classes: str = "") -> str:
        """Return SVG for a page that has the style sheet: no colours and no style of its own."""
        return self.sheet.page(self.words, classes=classes)

    def file(self) -> str:
        """Return SVG that stands alone."""
        return self.sheet.file(self.words)


def picture(
    columns: Sequence[AnswerColumn],
    *,
    title: str = "",
    subtitle: str = "",
    column: str = "",
    width: float = _WIDTH,
    dummy: str = "",
    heading: bool = True,
) -> Picture:
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
    sheet = Sheet(width=width, height=0)
    said = "; ".join(part for part in (subtitle, *shown.aside) if part)
    top = _heading(sheet, shown.title, said) if heading else _MARGIN
    if dummy:
        _hatching(sheet, dummy)
    drawing = {
        PlotKind.NUMBER: _number,
        PlotKind.BARS: _bars,
        PlotKind.HISTOGRAM: _bars,
        PlotKind.LINE: _line,
        PlotKind.MAP: _map,
    }[shown.kind]
    sheet.height = drawing(sheet, shown, top, dummy) if shown.points else _nothing(sheet, top)
    words = f"{shown.title}. {said}. " if said else f"{shown.title}. "
    few = [f"{', '.join(map(label, point.keys))}: {point.text}" for point in shown.points[:20]]
    return Picture(sheet=sheet, words=words + "; ".join(few))


def _heading(sheet: Sheet, title: str, subtitle: str) -> float:
    """Write title and subtitle, and return where the drawing begins."""
    y, room = 26.0, sheet.width - 2 * _MARGIN
    for line in visible(title, lines=True).split("\n"):
        for row in wrapped(line, room, lines=3, size=15) or [cut(line, room, 15)]:
            sheet.text(_MARGIN, y, row, "title", whole=line)
            y += 19
    for row in wrapped(subtitle, room, lines=4, size=12) or [cut(subtitle, room, 12)]:
        if row:
            sheet.text(_MARGIN, y, row, "subtitle", whole=subtitle)
            y += 16
    return y


def _nothing(sheet: Sheet, top: float) -> float:
    sheet.text(sheet.width / 2, top + 40, "nothing to show: no row has a number", anchor="middle")
    return top + 70


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
    x, y = _MARGIN, top + 4
    name = f"{shown.keys[1].name}:"
    sheet.text(x, y + 9, name, "name")
    x += text_width(name, 12) + 8
    for index, text in enumerate(shown.labels(1)):
        written = cut(text, 160)
        if x + text_width(written) + 20 > sheet.width - _MARGIN:
            x, y = _MARGIN, y + 17
        sheet.add(
            "rect",
            f"{'d' if shown.kind is PlotKind.LINE else 'c'}{index % COLOURS}",
            x=x,
            y=y,
            width=10,
            height=10,
            rx=2,
        )
        sheet.text(x + 14, y + 9, written, whole=text)
        x += text_width(written) + 30
    return y + 22


def _ends(shown: Plot, *, zero: bool = True) -> list[float]:
    """Return the ticks of the axis of numbers."""
    low, high = shown.extent()
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    return number_ticks(low, high)


# bars and histograms


def _bars(sheet: Sheet, shown: Plot, top: float, dummy: str) -> float:
    top = _legend(sheet, shown, top)
    labels = shown.labels(0)
    if shown.kind is PlotKind.HISTOGRAM and (even := places(shown.keys[0])):
        labels = [label(value) for value in even]
    # made-up bars keep their axis however long their whiskers become
    ticks = number_ticks(0.0, 1.2 * max(point.value for point in shown.points)) if dummy else _ends(shown)
    left = _MARGIN + max(text_width(tick_text(tick)) for tick in ticks) + 8
    slot = (sheet.width - left - _MARGIN) / len(labels)
    rows = [wrapped(text, slot - 6, lines=3) for text in labels]
    narrow = slot < 12 * max(1, len(shown.labels(1)) if len(shown.keys) > 1 else 1)
    if shown.kind is PlotKind.BARS and not dummy and (narrow or None in rows):
        return _lying(sheet, shown, top, ticks, labels)
    names = [] if None in rows else [row for row in rows if row is not None]
    return _upright(sheet, shown, top, ticks, labels, names, left, dummy)


def _upright(
    sheet: Sheet,
    shown: Plot,
    top: float,
    ticks: list[float],
    labels: list[str],
    names: list[list[str]],
    left: float,
    dummy: str,
) -> float:
    bottom = top + _HEIGHT
    y = Scale(low=ticks[0], high=ticks[-1], start=bottom, end=top + 12)
    for tick in ticks:
        sheet.add("line", "grid", x1=left, x2=sheet.width - _MARGIN, y1=y(tick), y2=y(tick))
        sheet.text(left - 6, y(tick) + 4, tick_text(tick), "number", anchor="end")
    slot = (sheet.width - left - _MARGIN) / len(labels)
    groups = shown.labels(1) if len(shown.keys) > 1 else [""]
    gap = 0.06 if shown.kind is PlotKind.HISTOGRAM else 0.28
    bar = min(slot * (1 - gap), 90 * len(groups)) / len(groups)
    zero = y(min(max(0.0, ticks[0]), ticks[-1]))
    for point in shown.points:
        group = groups.index(label(point.keys[1])) if len(shown.keys) > 1 else 0
        middle = left + slot * (labels.index(label(point.keys[0])) + 0.5) + bar * (group - (len(groups) - 1) / 2)
        end = y(shown.shown_value(point))
        _box(sheet, point, group, dummy, middle - bar / 2 + 0.5, min(end, zero), bar - 1, abs(end - zero))
        _whisker(sheet, point, y, middle, min(8.0, bar * 0.4), live=bool(dummy))
    sheet.add("line", "axis", x1=left, x2=sheet.width - _MARGIN, y1=zero, y2=zero)
    if dummy:
        sheet.data["scale"] = f"{ticks[0]:.10g} {ticks[-1]:.10g} {bottom:.1f} {top + 12:.1f}"
    depth = _names(sheet, labels, names, left, slot, bottom, thin=shown.kind is PlotKind.HISTOGRAM)
    sheet.text((left + sheet.width - _MARGIN) / 2, bottom + depth + 18, shown.keys[0].name, "name", anchor="middle")
    return bottom + depth + 30


def _names(
    sheet: Sheet, labels: list[str], names: list[list[str]], left: float, slot: float, bottom: float, *, thin: bool
) -> float:
    """Write the keys under their bars: straight or wrapped, else every second, third … of numbers, else turned."""
    if names:
        for index, rows in enumerate(names):
            sheet.lines(left + slot * (index + 0.5), bottom + 16, rows, whole=labels[index])
        return 4 + _LINE * max(map(len, names))
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
    return 14 + min(widest, 120) * 0.65 if turned else 4 + _LINE


def _lying(sheet: Sheet, shown: Plot, top: float, ticks: list[float], labels: list[str]) -> float:
    """Draw bars from left to right, so that long keys can be read."""
    room = min(sheet.width * 0.42, 300)
    texts = [wrapped(text, room, lines=2) or [cut(text, room)] for text in labels]
    left = _MARGIN + max(text_width(row) for rows in texts for row in rows) + 8
    groups = shown.labels(1) if len(shown.keys) > 1 else [""]
    slot = max(20.0, 11.0 * len(groups) + 8, _LINE * max(map(len, texts)) + 6)
    top += 6
    bottom = top + slot * len(labels)
    x = Scale(low=ticks[0], high=ticks[-1], start=left, end=sheet.width - _MARGIN - 10)
    every = int(max(text_width(tick_text(tick)) for tick in ticks) + 12) // max(int(x(ticks[1]) - x(ticks[0])), 1) + 1
    for index, tick in enumerate(ticks):
        sheet.add("line", "grid", x1=x(tick), x2=x(tick), y1=top, y2=bottom)
        if index % every == 0:
            sheet.text(x(tick), bottom + 16, tick_text(tick), "number", anchor="middle")
    bar = slot * 0.72 / len(groups)
    zero = x(min(max(0.0, ticks[0]), ticks[-1]))
    for index, rows in enumerate(texts):
        first = top + slot * (index + 0.5) + 4 - _LINE * (len(rows) - 1) / 2
        sheet.lines(left - 8, first, rows, anchor="end", whole=labels[index])
    for point in shown.points:
        group = groups.index(label(point.keys[1])) if len(shown.keys) > 1 else 0
        middle = top + slot * (labels.index(label(point.keys[0])) + 0.5) + bar * (group - (len(groups) - 1) / 2)
        end = x(shown.shown_value(point))
        _box(sheet, point, group, "", min(end, zero), middle - bar / 2 + 0.5, abs(end - zero), bar - 1)
        if point.low is not None and point.high is not None:
            low, high, cap = x(point.low), x(point.high), min(4.0, bar * 0.3)
            path = f"M{low:.1f} {middle - cap:.1f}v{2 * cap:.1f}M{high:.1f} {middle - cap:.1f}v{2 * cap:.1f}"
            sheet.add("path", _faint("whisker", point), d=f"{path}M{low:.1f} {middle:.1f}H{high:.1f}")
    sheet.add("line", "axis", x1=zero, x2=zero, y1=top, y2=bottom)
    sheet.text((left + sheet.width - _MARGIN) / 2, bottom + 34, shown.column.name, "name", anchor="middle")
    return bottom + 46


def _box(sheet: Sheet, point: Point, group: int, dummy: str, x: float, y: float, width: float, height: float) -> None:
    tooltip = f"{', '.join(map(label, point.keys))}: {point.text}"
    fill: dict[str, str] = {"fill": f"url(#{dummy})"} if dummy else {}
    classes = "dummy" if dummy else _faint(f"c{group % COLOURS}", point)
    sheet.add("rect", classes, tooltip, x=x, y=y, width=max(width, 0.5), height=height, rx=1.5, **fill)


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
    ticks = number_ticks(min(low, 0.0) if low < 0.6 * abs(high) else low, max(high, 0.0))
    left = _MARGIN + max(text_width(tick_text(tick)) for tick in ticks) + 8
    bottom = top + _HEIGHT
    y = Scale(low=ticks[0], high=ticks[-1], start=bottom, end=top + 12)
    for tick in ticks:
        sheet.add("line", "grid", x1=left, x2=sheet.width - _MARGIN, y1=y(tick), y2=y(tick))
        sheet.text(left - 6, y(tick) + 4, tick_text(tick), "number", anchor="end")
    times = [seconds(point.keys[0]) for point in shown.points]
    x = Scale(low=min(times), high=max(times), start=left + 8, end=sheet.width - _MARGIN - 8)
    for place, text in _along(shown, min(times), max(times), about=max(3, int(sheet.width / 105))):
        sheet.add("line", "axis", x1=x(place), x2=x(place), y1=bottom, y2=bottom + 5)
        beyond = x(place) + text_width(text) / 2 > sheet.width
        sheet.text(sheet.width if beyond else x(place), bottom + 18, text, anchor="end" if beyond else "middle")
    sheet.add("line", "axis", x1=left, x2=sheet.width - _MARGIN, y1=bottom, y2=bottom)
    groups = shown.labels(1) if len(shown.keys) > 1 else [""]
    for index, group in enumerate(groups):
        points = [point for point in shown.points if len(shown.keys) < 2 or label(point.keys[1]) == group]
        _series(sheet, shown, sorted(points, key=lambda point: seconds(point.keys[0])), index % COLOURS, x, y)
    sheet.text((left + sheet.width - _MARGIN) / 2, bottom + 36, shown.keys[0].name, "name", anchor="middle")
    return bottom + 48


def _along(shown: Plot, first: float, last: float, *, about: int) -> list[tuple[float, str]]:
    if shown.keys[0].kind in TIMES:
        if first == last:
            return [(first, label(shown.points[0].keys[0]))]
        return time_ticks(first, last, about=about, least=DAY if shown.keys[0].kind is Kind.DATE else 0)
    return [(tick, tick_text(tick)) for tick in number_ticks(first, last, about=about) if first <= tick <= last]


def _series(sheet: Sheet, shown: Plot, points: Sequence[Point], colour: int, x: Scale, y: Scale) -> None:
    """Draw one line with its band; of points that say nothing, a hollow dot alone."""
    run: list[Point] = []
    for point in [*points, None]:
        if point is not None and point.tells:
            run.append(point)
            continue
        if len(run) > 1:
            upper = [f"{x(seconds(p.keys[0])):.1f} {y(p.reach[1]):.1f}" for p in run]
            lower = [f"{x(seconds(p.keys[0])):.1f} {y(p.reach[0]):.1f}" for p in reversed(run)]
            sheet.add("path", f"band d{colour}", d=f"M{'L'.join([*upper, *lower])}Z")
            middle = [f"{x(seconds(p.keys[0])):.1f} {y(shown.shown_value(p)):.1f}" for p in run]
            sheet.add("path", f"line s{colour}", d=f"M{'L'.join(middle)}")
        elif run:
            _whisker(sheet, run[0], y, x(seconds(run[0].keys[0])), 4)
        run = []
    if len(points) <= 2 * MANY:
        for point in points:
            tooltip = f"{', '.join(map(label, point.keys))}: {point.text}"
            place = {"cx": x(seconds(point.keys[0])), "cy": y(shown.shown_value(point)), "r": 3.0}
            sheet.add("circle", f"d{colour}" if point.tells else f"hollow s{colour} faint", tooltip, **place)


# maps


def _map(sheet: Sheet, shown: Plot, top: float, _dummy: str) -> float:
    """Draw a cell for each pair of keys, the darker the greater; of cells that say nothing, the outline alone."""
    across, down = shown.labels(1), shown.labels(0)
    widest = max(text_width(shown.keys[0].name, 12), *map(text_width, down))
    left = _MARGIN + min(widest, sheet.width * 0.3) + 8
    slot = (sheet.width - left - _MARGIN) / len(across)
    height = min(max(22.0, 360 / len(down)), 30.0)
    straight = all(text_width(text) <= slot - 4 for text in across)
    depth = 20.0 if straight else min(max(map(text_width, across)) * 0.64 + 18, 100)
    sheet.text(left, top + 12, shown.keys[1].name, "name")
    head = top + 16 + depth
    sheet.text(left - 8, head - 6, cut(shown.keys[0].name, left - _MARGIN), "name", anchor="end")
    every = int(14 / slot) + 1
    for index in range(0, len(across), every):
        place, text = left + slot * (index + 0.5), across[index]
        if straight:
            sheet.text(place, head - 6, text, anchor="middle")
        else:
            room = min(130, (sheet.width - place - 8) / 0.77)  # the cosine of 40 degrees
            sheet.text(place, head - 6, cut(text, room), turn=-40, whole=text)
    for index, text in enumerate(down):
        written = cut(text, left - _MARGIN - 6)
        sheet.text(left - 8, head + height * (index + 0.5) + 4, written, anchor="end", whole=text)
    low, high = shown.extent()
    values = [shown.shown_value(point) for point in shown.points if point.tells]
    low, high = (min(values), max(values)) if values else (low, high)
    ticks = number_ticks(min(low, 0.0) if low < 0.6 * high else low, high)
    shade = Scale(low=ticks[0], high=ticks[-1], start=0, end=_SHADES - 0.001)
    for point in shown.points:
        _cell(sheet, shown, point, shade, left + slot * across.index(label(point.keys[1])), slot, head, height, down)
    return _shades(sheet, left, head + height * len(down) + 16, ticks, shown)


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
    tooltip = f"{', '.join(map(label, point.keys))}: {point.text}"
    classes = f"h{step}" if point.tells else "unknown"
    sheet.add("rect", classes, tooltip, x=x + 1, y=y + 1, width=max(slot - 2, 0.5), height=height - 2, rx=2)
    text = point.text.split(" ± ")[0] if point.tells else "?"
    if text_width(text, 11) <= slot - 6:
        sheet.text(x + slot / 2, y + height / 2 + 4, text, f"on{step} number" if point.tells else "", anchor="middle")


def _shades(sheet: Sheet, left: float, y: float, ticks: list[float], shown: Plot) -> float:
    """Draw what the shades mean."""
    sheet.text(left, y + 10, shown.column.name, "name")
    begin = left + text_width(shown.column.name, 12) + 14
    for step in range(_SHADES):
        sheet.add("rect", f"h{step}", x=begin + 22 * step, y=y, width=22, height=12)
    low, high = tick_text(ticks[0]), tick_text(ticks[-1])
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
    x = Scale(low=ticks[0], high=ticks[-1], start=_MARGIN + 30, end=sheet.width - _MARGIN - 30)
    middle, axis = top + 52, top + 78
    place = x(shown.shown_value(point))
    near = min(
        max(place, text_width(point.text, 20) / 2 + _MARGIN), sheet.width - text_width(point.text, 20) / 2 - _MARGIN
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
