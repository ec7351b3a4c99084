"""Answers as Vega-Lite charts: bars with error bars, lines over time or along a number, a single bar for one group.

>>> from hush.query.types import Kind
>>> from hush.report.columns import Column
>>> disease = Column(name="disease", kind=Kind.TEXT, values=("Flu", "HIV"))
>>> n = Column(name="n", kind=Kind.INTEGER, values=(28, 5), errors=(3.0, 3.0))
>>> specification([disease, n])["layer"][0]["mark"]["type"]
'bar'
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from hush.core import HushError
from hush.query.types import Kind
from hush.report.columns import Column

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_MANY = 40


def specification(columns: Sequence[Column], *, title: str = "") -> dict[str, Any]:
    """Return a Vega-Lite chart of the first noisy column over the first key, coloured by the second key."""
    values = next((column for column in columns if column.noisy and column.kind.numeric), None)
    if values is None:
        raise HushError("there is nothing to draw: the answer has no noisy number")
    keys = [column for column in columns if not column.noisy]
    assert values.errors is not None  # noqa: S101 - chosen because it is noisy
    data = []
    for at, (value, error) in enumerate(zip(values.values, values.errors, strict=True)):
        if value is None:
            continue
        low, high = (value, value) if error is None else (value - error, value + error)
        row = {"value": value, "low": low, "high": high}
        row |= {f"key{index}": _plain(column.values[at]) for index, column in enumerate(keys[:2])}
        data.append(row)
    kind = keys[0].kind if keys else Kind.TEXT
    along = kind in {Kind.DATE, Kind.TIMESTAMP} or (kind.numeric and len(data) > _MANY)
    encoding: dict[str, Any] = {
        "y": {"field": "value", "type": "quantitative", "title": values.name},
    }
    if keys:
        scale = {"temporal": along and not kind.numeric}["temporal"]
        encoding["x"] = {
            "field": "key0",
            "type": "temporal" if scale else "quantitative" if along else "nominal",
            "title": keys[0].name,
            **({} if along else {"sort": None}),
        }
    if len(keys) > 1:
        encoding["color"] = {"field": "key1", "type": "nominal", "title": keys[1].name}
        if not along:
            encoding["xOffset"] = {"field": "key1"}
    bar = {"mark": {"type": "line", "point": True} if along else {"type": "bar", "opacity": 0.8}, "encoding": encoding}
    whisker_encoding = {
        **{key: value for key, value in encoding.items() if key in {"x", "xOffset"}},
        "y": {"field": "low", "type": "quantitative", "title": values.name},
        "y2": {"field": "high"},
    }
    whisker = {"mark": {"type": "errorbar", "ticks": True}, "encoding": whisker_encoding}
    return {
        "$schema": _SCHEMA,
        **({"title": title} if title else {}),
        "data": {"values": data},
        "layer": [bar, whisker],
        "width": "container" if not keys else 480,
        "height": 280,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    return "NULL" if value is None else value
