"""Answers as Vega-Lite charts, for notebooks and Altair: what `hush.report.plots` says, as plain data.

Few keys are upright bars; many, or long texts, lie, so that labels can be read. A line has error bars or, where these
would run together, a band. A point that says nothing is pale, and the axis is chosen without it.

>>> from hush.query.types import Kind
>>> from hush.report.columns import AnswerColumn
>>> disease = AnswerColumn(name="disease", kind=Kind.TEXT, values=("Flu", "HIV"))
>>> n = AnswerColumn(name="n", kind=Kind.INTEGER, values=(28, 5), errors=(3.0, 3.0))
>>> specification([disease, n])["layer"][0]["mark"]["type"]
'bar'
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from hush.core.format import visible
from hush.report.columns import AnswerColumn
from hush.report.plots import MANY, Plot, PlotKind, places, plot

_WIDTH, _HEIGHT, _ROW = 480, 280, 16
_LETTER = 7.5
"""About how wide a letter of a label is; all in pixels."""
_PLAIN = "#7fa6d1"
_ALONG: dict[str, Any] = {"type": "quantitative"}
_IN_TIME: dict[str, Any] = {"type": "temporal", "scale": {"type": "utc"}}
"""Times have no zone, so they are written and drawn as those of one: that of the reader would move them."""
_FAINT = 0.35


def specification(
    columns: Sequence[AnswerColumn], *, title: str = "", column: str = "", subtitle: str = ""
) -> dict[str, Any]:
    """Return a chart of a noisy column, the first unless named, over the first two keys."""
    shown = plot(columns, column=column, title=title)
    drawing = {PlotKind.NUMBER: _single, PlotKind.LINE: _line, PlotKind.MAP: _map}.get(shown.kind, _bars)
    small = "; ".join(text for text in (subtitle, *shown.aside) if text)
    words = {"text": visible(shown.title, lines=True), **({"subtitle": small} if small else {})}
    return {"title": words, "data": {"values": _rows(shown)}, **drawing(shown)}


def _rows(shown: Plot) -> list[dict[str, Any]]:
    rows = []
    for point in shown.points:
        row: dict[str, Any] = {"value": shown.shown_value(point), "text": point.text, "tells": point.tells}
        if point.low is not None:
            row |= {"low": point.low, "high": point.high}
        rows.append(row | {f"key{index}": _plain(key) for index, key in enumerate(point.keys)})
    return rows


def _bars(shown: Plot) -> dict[str, Any]:
    labels = shown.labels(0)
    groups = len(shown.labels(1)) if len(shown.keys) > 1 else 1
    histogram = shown.kind is PlotKind.HISTOGRAM
    fits = sum(len(text) + 1 for text in labels) * _LETTER < _WIDTH
    lying = not fits and not histogram
    scale: dict[str, Any] = {"paddingInner": 0.04} if histogram and groups == 1 else {}
    if histogram and (even := places(shown.keys[0])):
        scale |= {"domain": [_plain(place) for place in even]}
    key: dict[str, Any] = {
        "field": "key0",
        "type": "nominal",
        "title": visible(shown.keys[0].name),
        "sort": None,
        "axis": {"labelAngle": 0, "labelOverlap": True, "labelLimit": 240},
        **({"scale": scale} if scale else {}),
    }
    place, offset, length = ("y", "yOffset", "x") if lying else ("x", "xOffset", "y")
    shared = {place: key}
    colour: dict[str, Any] = {}
    if len(shown.keys) > 1:
        shared[offset] = {"field": "key1", "sort": None}
        colour = {"color": _colour(shown.keys[1])}
    mark: dict[str, Any] = {"type": "bar", "clip": True, **({"opacity": 0.75} if colour else {"color": _PLAIN})}
    pale = {"condition": {"test": "datum.tells", "value": 0.75 if colour else 1}, "value": _FAINT}
    number = _number("value", shown) | ({"axis": {"tickCount": 6}} if lying else {})
    bar = {"mark": mark, "encoding": {**shared, length: number, **colour, "opacity": pale}}
    size = {"height": {"step": _ROW}} if lying else {"height": _HEIGHT}
    return {"layer": [bar, _whiskers(shared, length, shown)], "width": _WIDTH, **size}


def _line(shown: Plot) -> dict[str, Any]:
    kind = shown.keys[0].kind
    shared = {
        "x": {"field": "key0", "title": visible(shown.keys[0].name), **(_ALONG if kind.numeric else _IN_TIME)},
        **({"color": _colour(shown.keys[1])} if len(shown.keys) > 1 else {}),
    }
    dense = len(shown.labels(0)) > MANY
    line = {
        "mark": {"type": "line", "point": not dense, "strokeWidth": 1.5 if dense else 2},
        "encoding": {**shared, "y": _number("value", shown)},
    }
    band = {
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": {"type": "area", "opacity": 0.25},
        "encoding": {**shared, "y": _number("low", shown), "y2": {"field": "high"}},
    }
    errors = band if dense else _whiskers(shared, "y", shown, coloured=len(shown.keys) > 1)
    return {"layer": [errors, line], "width": _WIDTH, "height": _HEIGHT}


def _map(shown: Plot) -> dict[str, Any]:
    axis = {"labelLimit": 160, "labelOverlap": True}
    across = {"field": "key1", "type": "ordinal", "title": visible(shown.keys[1].name), "sort": None, "axis": axis}
    down = {"field": "key0", "type": "ordinal", "title": visible(shown.keys[0].name), "sort": None, "axis": axis}
    pale = {"condition": {"test": "datum.tells", "value": 1}, "value": _FAINT}
    colour = _number("value", shown) | {"scale": {"scheme": "blues", **_number("value", shown).get("scale", {})}}
    cells = {
        "mark": {"type": "rect"},
        "encoding": {
            "x": across,
            "y": down,
            "color": colour,
            "opacity": pale,
            "tooltip": [{"field": "key0"}, {"field": "key1"}, {"field": "text", "title": visible(shown.column.name)}],
        },
    }
    return {"layer": [cells], "width": _WIDTH, "height": {"step": _ROW + 4}}


def _single(shown: Plot) -> dict[str, Any]:
    scale = _number("value", shown) | {
        "scale": {"zero": False, "padding": 40},
        "axis": {"tickCount": 5, "grid": False},
    }
    whiskers = _whiskers({}, "x", shown)
    whiskers["encoding"]["x"] |= {"scale": scale["scale"], "axis": scale["axis"]}
    return {
        "layer": [
            whiskers,
            {"mark": {"type": "point", "filled": True, "size": 90, "color": "#1f5fa8"}, "encoding": {"x": scale}},
            {
                "mark": {"type": "text", "dy": -18, "fontSize": 13},
                "encoding": {"x": scale, "text": {"field": "text"}},
            },
        ],
        "width": _WIDTH,
        "height": 80,
    }


def _whiskers(shared: dict[str, Any], length: str, shown: Plot, *, coloured: bool = False) -> dict[str, Any]:
    """Return error bars, of rows that say something: parts of an error bar know no row, so they cannot be paler."""
    ticks = {"size": 8} if coloured else {"size": 8, "color": "black"}
    return {
        "transform": [{"filter": "isValid(datum.low) && datum.tells"}],
        "mark": {"type": "errorbar", "ticks": ticks, **({} if coloured else {"color": "black"})},
        "encoding": {**shared, length: _number("low", shown), f"{length}2": {"field": "high"}},
    }


def _number(field: str, shown: Plot) -> dict[str, Any]:
    """Return the axis of numbers; where points that say nothing would reach further, it ends before them."""
    encoding: dict[str, Any] = {"field": field, "type": "quantitative", "title": visible(shown.column.name)}
    low, high = shown.extent()
    reaches = [point.reach for point in shown.points]
    if any(start < low or end > high for start, end in reaches):
        encoding |= {"scale": {"domain": [min(low, 0.0), max(high, 0.0)], "clamp": True}}
    return encoding


def _colour(key: AnswerColumn) -> dict[str, Any]:
    return {"field": "key1", "type": "nominal", "title": visible(key.name), "sort": None}


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat() + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return visible(value)
    return "NULL" if value is None else value
