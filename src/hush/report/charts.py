"""Answers as Vega-Lite charts: bars, histograms and lines with error bars, a point for a single number.

* few keys: upright bars; many, or long texts: lying bars, so that labels can be read;
* numbers as keys: a histogram, its bars side by side; more than forty of them, dates and times: a line, with error bars
  or, where these would run together, a band;
* a second key: colours side by side;
* no key: a point on a scale of its own.

An answer whose error is not known has no error bar, and is pale.

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
from itertools import pairwise
from typing import Any

from hush.core import HushError
from hush.core.visible import visible
from hush.query.errors import did_you_mean
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, shown, shown_error

_MANY = 40
_WIDTH, _HEIGHT, _ROW = 480, 280, 16
_LETTER = 7.5
"""About how wide a letter of a label is; all in pixels."""
_PLAIN = "#7fa6d1"
_SMALL = {"fontSize": 11, "fontWeight": "normal", "color": "#555555"}
_TIMES = {Kind.DATE, Kind.TIMESTAMP}
_ALONG: dict[str, Any] = {"type": "quantitative"}
_IN_TIME: dict[str, Any] = {"type": "temporal", "scale": {"type": "utc"}}
"""Times have no zone, so they are written and drawn as those of one: that of the reader would move them."""


def specification(
    columns: Sequence[AnswerColumn], *, title: str = "", column: str = "", confidence: float | None = None
) -> dict[str, Any]:
    """Return a chart of a noisy column, the first unless named, over the first key, coloured by the second key.

    ``confidence`` says how often the error bars hold.
    """
    values = _drawn(columns, column)
    said = [] if confidence is None else [f"± at {100 * confidence:.6g}% confidence"]
    keys = [item for item in columns if not item.noisy][:2]
    if not keys:
        return _with_title(_single(values), title, said)
    kind = keys[0].kind
    along = kind in _TIMES or (kind.numeric and len(set(keys[0].values)) > _MANY)
    data, without = _rows(values, keys, along=along)
    chart = _line(values, keys, data) if along else _bars(values, keys, data)
    return _with_title({"data": {"values": data}, **chart}, title, [*said, *([without] if without else [])])


def _drawn(columns: Sequence[AnswerColumn], name: str) -> AnswerColumn:
    numbers = [item for item in columns if item.noisy and item.kind.numeric]
    if not numbers:
        raise HushError("there is nothing to draw: the answer has no noisy number")
    named = [item for item in numbers if item.name == name] if name else numbers
    if not named:
        known = [item.name for item in numbers]
        raise HushError(f"there is no noisy number {name!r} to draw; {did_you_mean(name, known) or ', '.join(known)}")
    return named[0]


def _rows(values: AnswerColumn, keys: Sequence[AnswerColumn], *, along: bool) -> tuple[list[dict[str, Any]], str]:
    """Return the rows to draw, and words for those that have no place on a line."""
    rows, without = [], ""
    for at, value in enumerate(values.values):
        if value is None:
            continue
        error = None if values.errors is None else values.errors[at]
        if along and keys[0].values[at] is None:
            without = f"{visible(keys[0].name)} NULL: {shown(value, error)} ± {shown_error(error)}"
            continue
        row: dict[str, Any] = {"value": value}
        if error is not None:
            row |= {"low": value - error, "high": value + error}
        rows.append(row | {f"key{index}": _plain(key.values[at]) for index, key in enumerate(keys)})
    return rows, without


def _bars(values: AnswerColumn, keys: Sequence[AnswerColumn], data: list[dict[str, Any]]) -> dict[str, Any]:
    labels = list(dict.fromkeys(str(row["key0"]) for row in data))
    groups = len({row.get("key1") for row in data})
    histogram = keys[0].kind.numeric
    fits = sum(len(label) + 1 for label in labels) * _LETTER < _WIDTH
    lying = not fits and not histogram
    scale: dict[str, Any] = {"paddingInner": 0.04} if histogram and groups == 1 else {}
    if histogram and (places := _with_gaps(keys[0])):
        scale |= {"domain": places}
    key: dict[str, Any] = {
        "field": "key0",
        "type": "nominal",
        "title": visible(keys[0].name),
        "sort": None,
        "axis": {"labelAngle": 0, "labelOverlap": True, "labelLimit": 240},
        **({"scale": scale} if scale else {}),
    }
    place, offset, length = ("y", "yOffset", "x") if lying else ("x", "xOffset", "y")
    shared = {place: key}
    colour: dict[str, Any] = {}
    if len(keys) > 1:
        shared[offset] = {"field": "key1", "sort": None}
        colour = {"color": _colour(keys[1])}
    mark = {"type": "bar", "opacity": 0.75} if colour else {"type": "bar", "color": _PLAIN}
    pale = {"condition": {"test": "isValid(datum.low)", "value": 0.75 if colour else 1}, "value": 0.35}
    number = _number("value", values) | ({"axis": {"tickCount": 6}} if lying else {})
    bar = {"mark": mark, "encoding": {**shared, length: number, **colour, "opacity": pale}}
    size = {"height": {"step": _ROW}} if lying else {"height": _HEIGHT}
    return {"layer": [bar, _whiskers(shared, length, values)], "width": _WIDTH, **size}


def _with_gaps(key: AnswerColumn) -> list[Any]:
    """Return the places of a histogram's bars, those without a bar between them too; none if keys are not in order."""
    known = list(dict.fromkeys(value for value in key.values if value is not None))
    if len(known) < 2 or known != sorted(known):
        return []
    step = min(after - before for before, after in pairwise(known))
    places = [known[0] + at * step for at in range(min(round((known[-1] - known[0]) / step), _MANY) + 1)]
    if isinstance(step, float):
        nearest = {round((value - known[0]) / step): value for value in known}
        places = [nearest.get(at, place) for at, place in enumerate(places)]
    if not set(known) <= set(places):
        return []
    return [*places, *(["NULL"] if None in key.values else [])]


def _line(values: AnswerColumn, keys: Sequence[AnswerColumn], data: list[dict[str, Any]]) -> dict[str, Any]:
    kind = keys[0].kind
    shared = {
        "x": {"field": "key0", "title": visible(keys[0].name), **(_ALONG if kind.numeric else _IN_TIME)},
        **({"color": _colour(keys[1])} if len(keys) > 1 else {}),
    }
    dense = len({row["key0"] for row in data}) > _MANY
    line = {
        "mark": {"type": "line", "point": not dense, "strokeWidth": 1.5 if dense else 2},
        "encoding": {**shared, "y": _number("value", values)},
    }
    band = {
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": {"type": "area", "opacity": 0.25},
        "encoding": {**shared, "y": _number("low", values), "y2": {"field": "high"}},
    }
    errors = band if dense else _whiskers(shared, "y", values, coloured=len(keys) > 1)
    return {"layer": [errors, line], "width": _WIDTH, "height": _HEIGHT}


def _single(values: AnswerColumn) -> dict[str, Any]:
    value, error = values.values[0], (values.errors or (None,))[0]
    row = {"value": value, "text": f"{shown(value, error)} ± {shown_error(error)}"}
    if value is not None and error is not None:
        row |= {"low": value - error, "high": value + error}
    scale = _number("value", values) | {
        "scale": {"zero": False, "padding": 40},
        "axis": {"tickCount": 5, "grid": False},
    }
    whiskers = _whiskers({}, "x", values)
    whiskers["encoding"]["x"] |= {"scale": scale["scale"], "axis": scale["axis"]}
    return {
        "data": {"values": [] if value is None else [row]},
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


def _whiskers(shared: dict[str, Any], length: str, values: AnswerColumn, *, coloured: bool = False) -> dict[str, Any]:
    """Return error bars, for rows whose error is known."""
    ticks = {"size": 8} if coloured else {"size": 8, "color": "black"}
    return {
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": {"type": "errorbar", "ticks": ticks, **({} if coloured else {"color": "black"})},
        "encoding": {**shared, length: _number("low", values), f"{length}2": {"field": "high"}},
    }


def _number(field: str, values: AnswerColumn) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": visible(values.name)}


def _colour(key: AnswerColumn) -> dict[str, Any]:
    return {"field": "key1", "type": "nominal", "title": visible(key.name), "sort": None}


def _with_title(chart: dict[str, Any], title: str, said: Sequence[str]) -> dict[str, Any]:
    if not (title or said):
        return chart
    small = "; ".join(said)
    if not title:  # a subtitle alone would not be drawn
        return {"title": {"text": small, **_SMALL}, **chart}
    return {"title": {"text": visible(str(title), lines=True), **({"subtitle": small} if small else {})}, **chart}


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
