"""The content of a chart: its kind, its points with their error bars, and the words around the points.

The kind follows from the keys, the same for every way of drawing:

* no key: a single number on a scale of its own;
* a key of dates, times or more than forty numbers: a line with a band;
* a key of numbers: a histogram, its bars side by side;
* any other key: bars with whiskers;
* a second key: colours side by side, or a map where it has more than six values.

Bars and whiskers end where the truth must end (`AnswerColumn.limits`). Points of which nothing is known are drawn
faintly, and the axis is chosen without them: those that say nothing (`AnswerColumn.tells`) and whose error bar is not
short either, on the axis that the others need. So a count of 2 ± 3 beside one of 900 is drawn as what it is: small.

>>> from hush.query.types import Kind
>>> disease = AnswerColumn(name="disease", kind=Kind.TEXT, values=("Flu", "HIV"))
>>> n = AnswerColumn(name="n", kind=Kind.INTEGER, values=(28, 2), errors=(3.0, 90.0), counts=True)
>>> shown_plot = plot([disease, n])
>>> shown_plot.kind.name, shown_plot.title, [(point.low, point.tells) for point in shown_plot.points]
('BARS', 'n by disease', [(25.0, True), (0.0, False)])
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Any

from hush.core import HushError
from hush.core.format import visible
from hush.query.errors import did_you_mean
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, shown, shown_error

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
    LINE = "line"
    MAP = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One noisy number and where it belongs."""

    keys: tuple[Any, ...]
    value: float
    low: float | None
    high: float | None
    tells: bool
    text: str
    """The number with its error, as tables show it."""

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where the point extends, error bar included."""
        ends = [end for end in (self.low, self.high) if end is not None] or [self.value]
        return min(ends), max(ends)


@dataclass(frozen=True, slots=True, kw_only=True)
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
        return list(dict.fromkeys(label(point.keys[key]) for point in self.points))

    def extent(self) -> tuple[float, float]:
        """Return the least and the greatest number that the axis has to show: of points that say something, if any.

        >>> n = AnswerColumn(name="n", kind=Kind.INTEGER, values=(28, 2), errors=(3.0, 900.0))
        >>> plot([AnswerColumn(name="k", kind=Kind.TEXT, values=("a", "b")), n]).extent()
        (25.0, 31.0)
        """
        telling = [point.reach for point in self.points if point.tells] or [point.reach for point in self.points]
        values = [point.value for point in self.points if point.tells]
        lows, highs = [low for low, _ in telling], [high for _, high in telling]
        return min([*lows, *self._possible(values)], default=0.0), max([*highs, *self._possible(values)], default=1.0)

    def shown_value(self, point: Point) -> float:
        """Return where a bar or dot ends: at the value, or where the truth must end if noise carried it further."""
        return next(iter(self._possible([point.value])))

    def _possible(self, values: Sequence[float]) -> list[float]:
        lower, upper = self.column.limits
        moved = [value if lower is None else max(value, lower) for value in values]
        return [value if upper is None else min(value, upper) for value in moved]


def plot(columns: Sequence[AnswerColumn], *, column: str = "", title: str = "") -> Plot:
    """Return the chart of a noisy column over the first two keys: the first noisy column unless one is named."""
    values = _noisy_number(columns, column)
    keys = tuple(other for other in columns if not other.noisy)[:2]
    kind = _kind(keys)
    points, aside = [], []
    for row, value in enumerate(values.values):
        if value is None:
            continue
        point = _point(values, keys, row)
        if kind is PlotKind.LINE and point.keys[0] is None:
            aside.append(f"{visible(keys[0].name)} NULL: {point.text}")
        else:
            points.append(point)
    points = _compared(points, single=kind is PlotKind.NUMBER)
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


def _noisy_number(columns: Sequence[AnswerColumn], name: str) -> AnswerColumn:
    numbers = [column for column in columns if column.noisy and column.kind.numeric]
    if not numbers:
        raise HushError("there is nothing to draw: the answer has no noisy number")
    named = [column for column in numbers if column.name == name] if name else numbers
    if not named:
        known = [column.name for column in numbers]
        raise HushError(f"there is no noisy number {name!r} to draw; {did_you_mean(name, known) or ', '.join(known)}")
    return named[0]


def _kind(keys: Sequence[AnswerColumn]) -> PlotKind:
    if not keys:
        return PlotKind.NUMBER
    first = keys[0]
    if len(keys) > 1 and len(set(keys[1].values)) > COLOURS:
        return PlotKind.MAP
    if first.kind in TIMES or (first.kind.numeric and len(set(first.values)) > MANY):
        return PlotKind.LINE
    return PlotKind.HISTOGRAM if first.kind.numeric else PlotKind.BARS


def _compared(points: list[Point], *, single: bool) -> list[Point]:
    """Return points that know whether they say something beside the others."""
    # Bars begin at 0, so the axis holds it too.
    ends = [end for point in points if point.tells for end in (*point.reach, 0.0)]
    short = math.inf if single else _SHORT * (max(ends) - min(ends)) if ends else 0.0
    return [
        point
        if point.tells or point.low is None or point.high is None
        else replace(point, tells=point.high - point.low <= short)
        for point in points
    ]


def _point(values: AnswerColumn, keys: Sequence[AnswerColumn], row: int) -> Point:
    value, error = values.values[row], None if values.errors is None else values.errors[row]
    low, high = values.interval(row) or (None, None)
    return Point(
        keys=tuple(key.values[row] for key in keys),
        value=value,
        low=low,
        high=high,
        tells=values.tells(row),
        text=f"{shown(value, error)} ± {shown_error(error)}",
    )
