"""Distances between answers and between data sets.

A sensitivity is a largest distance, so it needs a metric on answers; neighbours are data sets at distance 1 in a
metric on data. Any function of two arguments that returns a number may stand for a metric; the usual ones have names.

>>> distance("l1")([1, 2], [3, 5]), distance("l2")([0, 0], [3, 4]), distance("linf")([1, 2], [3, 5])
(5, 5.0, 3)
>>> distance("hamming")("karolin", "kathrin")
3
>>> distance(lambda a, b: abs(a - b) % 12)(1, 11)
10
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hush.core import InvalidValueError

Metric = Callable[[Any, Any], Any]


def _pairs(a: Any, b: Any) -> list[tuple[Any, Any]]:
    left = list(a) if isinstance(a, Sequence) or hasattr(a, "__len__") else [a]
    right = list(b) if isinstance(b, Sequence) or hasattr(b, "__len__") else [b]
    if len(left) != len(right):
        raise InvalidValueError("b", got=f"{len(right)} numbers", allowed=f"as long as the other, {len(left)} numbers")
    return list(zip(left, right, strict=True))


def l1(a: Any, b: Any) -> Any:
    """Return Σ|aᵢ - bᵢ|; exact for exact numbers."""
    return sum(abs(x - y) for x, y in _pairs(a, b))


def l2(a: Any, b: Any) -> float:
    """Return √Σ(aᵢ - bᵢ)²."""
    return math.sqrt(sum((x - y) ** 2 for x, y in _pairs(a, b)))


def linf(a: Any, b: Any) -> Any:
    """Return max|aᵢ - bᵢ|; exact for exact numbers."""
    return max((abs(x - y) for x, y in _pairs(a, b)), default=0)


def hamming(a: Any, b: Any) -> int:
    """Return in how many places two sequences of one length differ."""
    return sum(x != y for x, y in _pairs(a, b))


METRICS: dict[str, Metric] = {"l1": l1, "l2": l2, "linf": linf, "hamming": hamming}


def distance(metric: str | Metric) -> Metric:
    """Return the metric of this name, or the function itself."""
    if callable(metric):
        return metric
    if metric not in METRICS:
        raise InvalidValueError("metric", got=metric, allowed=f"{', '.join(map(repr, METRICS))} or a function")
    return METRICS[metric]
