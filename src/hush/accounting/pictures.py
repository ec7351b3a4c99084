"""Charts of guarantees."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hush.accounting.guarantee import Guarantee
from hush.core import InvalidValueError
from hush.core.chart import Chart

_POINTS = 80
_DEEPEST = 1e-12


def curves(guarantees: Sequence[Guarantee], *, names: Sequence[str] | None = None) -> Chart:
    """Return the (ε, δ) curves of several guarantees in one picture, δ on a logarithmic scale."""
    if names is None:
        names = ["this"] if len(guarantees) == 1 else [f"guarantee {i + 1}" for i in range(len(guarantees))]
    if len(names) != len(guarantees):
        raise InvalidValueError("names", got=list(names), allowed=f"one name for each of {len(guarantees)} guarantees")
    tops = [
        guarantee.epsilon(max(_DEEPEST, min(0.5, 2 * guarantee.delta_infinite)), strict=False).upper
        for guarantee in guarantees
    ]
    widest = max((top for top in tops if math.isfinite(top)), default=1.0) or 1.0
    rows = []
    for guarantee, name in zip(guarantees, names, strict=True):
        for i in range(_POINTS + 1):
            epsilon = widest * i / _POINTS
            delta = guarantee.delta(epsilon, strict=False).upper
            if delta < _DEEPEST * 1e-6:
                break
            rows.append({"guarantee": name, "epsilon": epsilon, "delta": delta})
    several = len(guarantees) > 1
    encoding = {
        "x": {"field": "epsilon", "type": "quantitative", "title": "ε", "scale": {"nice": False}},
        "y": {
            "field": "delta",
            "type": "quantitative",
            "title": "δ",
            "scale": {"type": "log", "domain": [_DEEPEST, 1]},
            "axis": {"format": ".0e", "values": [10.0**-k for k in range(0, 13, 2)]},
        },
        "tooltip": [
            {"field": "epsilon", "type": "quantitative", "title": "ε", "format": ".4g"},
            {"field": "delta", "type": "quantitative", "title": "δ", "format": ".4g"},
        ],
    }
    if several:
        encoding["color"] = {
            "field": "guarantee",
            "type": "nominal",
            "title": None,
            "sort": list(names),
            "legend": {"orient": "top-right", "fillColor": "white", "padding": 6},
        }
    return Chart(
        {
            "title": {"text": "What is promised", "subtitle": "every point (ε, δ) on or above a curve holds"},
            "width": 520,
            "height": 300,
            "data": {"values": rows},
            "mark": {"type": "line", "strokeWidth": 2, "clip": True, "interpolate": "linear"},
            "encoding": encoding,
        }
    )
