"""Any function on a small finite universe: every sensitivity by looking at every data set.

Nothing here is fast and nothing is clever: it is the oracle against which the formulas are tested, and the honest way
to learn the sensitivity of a function that has no formula. Data sets are sorted tuples (multisets) of universe
members with at most ``size`` of them under add/remove, and exactly ``size`` under replace.

>>> total = FiniteFunction(sum, universe=[0, 1, 5], size=3)
>>> total.global_sensitivity()
5
>>> spread = FiniteFunction(lambda d: max(d) - min(d), universe=[0, 1, 5], size=3, neighbours="replace")
>>> spread.local_sensitivity((0, 0, 1)), spread.global_sensitivity()
(4, 5)

**Distances between answers and between data sets.**

A sensitivity is a largest distance, so it needs a metric on answers; neighbours are data sets at distance 1 in a
metric on data. Any function of two arguments that returns a number may stand for a metric; the usual ones have names.

>>> l1([1, 2], [3, 5]), l2([0, 0], [3, 4]), linf([1, 2], [3, 5]), hamming("karolin", "kathrin")
(5, 5.0, 3, 3)
>>> distance(lambda a, b: abs(a - b) % 12)(1, 11)
10
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any

from hush.core import InvalidValueError, Neighbours, integer
from hush.core.numbers import assign

Data = tuple[Any, ...]
_MOST_DATA_SETS = 200_000


@dataclass(frozen=True, slots=True, init=False, eq=False)
class FiniteFunction:
    """A function of data sets over a finite universe, with all its sensitivities by brute force."""

    function: Callable[[Data], Any] = field(repr=False)
    universe: Data
    size: int
    neighbours: Neighbours
    metric: Metric = field(repr=False)
    _value: Callable[[Data], Any] = field(repr=False)

    def __init__(
        self,
        function: Callable[[Data], Any],
        *,
        universe: Sequence[Any],
        size: int,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        metric: str | Metric = "l1",
    ) -> None:
        members, largest = tuple(sorted(set(universe))), integer(size, "size", minimum=0)
        if not members or math.comb(len(members) + largest, largest) > _MOST_DATA_SETS:
            raise InvalidValueError("universe", got=f"{len(members)} members", allowed="small enough to list all data")
        assign(
            self,
            function=function,
            universe=members,
            size=largest,
            neighbours=Neighbours.parse(neighbours),
            metric=distance(metric),
            _value=lru_cache(maxsize=None)(function),
        )

    def data_sets(self) -> Iterator[Data]:
        """Yield every data set."""
        sizes = [self.size] if self.neighbours is Neighbours.REPLACE else range(self.size + 1)
        for size in sizes:
            yield from combinations_with_replacement(self.universe, size)

    def around(self, data: Sequence[Any]) -> set[Data]:
        """Return the neighbours of a data set, within the size."""
        rows = tuple(sorted(data))
        smaller = {rows[:index] + rows[index + 1 :] for index in range(len(rows))}
        if self.neighbours is Neighbours.REPLACE:
            return {tuple(sorted((*remaining, member))) for remaining in smaller for member in self.universe} - {rows}
        larger = {tuple(sorted((*rows, member))) for member in self.universe} if len(rows) < self.size else set()
        return smaller | larger

    def local_sensitivity(self, data: Sequence[Any]) -> Any:
        """Return the largest change that a neighbour of ``data`` makes."""
        value = self._value(tuple(sorted(data)))
        return max((self.metric(value, self._value(near)) for near in self.around(data)), default=0)

    def global_sensitivity(self) -> Any:
        """Return the largest local sensitivity."""
        return max(self.local_sensitivity(data) for data in self.data_sets())

    def distances(self, data: Sequence[Any]) -> dict[Data, int]:
        """Return every data set's distance from ``data``: the number of steps between neighbours."""
        start = tuple(sorted(data))
        reached, edge, steps = {start: 0}, {start}, 0
        while edge:
            steps += 1
            # Breadth first: the neighbours of the last edge that were not reached in fewer steps.
            edge = {near for rows in edge for near in self.around(rows)} - reached.keys()
            reached.update(dict.fromkeys(edge, steps))
        return reached

    def smooth_sensitivity(self, data: Sequence[Any], beta: float) -> float:
        """Return max over D' of e^(-β·d(D, D'))·LS(D')."""
        return max(
            math.exp(-beta * steps) * float(self.local_sensitivity(rows))
            for rows, steps in self.distances(data).items()
        )

    def distance_to_instability(self, data: Sequence[Any], eta: Any) -> float:
        """Return the smallest distance at which a data set has local sensitivity above η; infinite if none has."""
        return min(
            (steps for rows, steps in self.distances(data).items() if self.local_sensitivity(rows) > eta),
            default=math.inf,
        )


Metric = Callable[[Any, Any], Any]


def _pairs(a: Any, b: Any) -> list[tuple[Any, Any]]:
    first, second = (list(x) if hasattr(x, "__len__") else [x] for x in (a, b))
    if len(first) != len(second):
        raise InvalidValueError(
            "b", got=f"{len(second)} numbers", allowed=f"as long as the other, {len(first)} numbers"
        )
    return list(zip(first, second, strict=True))


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
    """Return the number of positions at which two sequences of one length differ."""
    return sum(x != y for x, y in _pairs(a, b))


METRICS: dict[str, Metric] = {"l1": l1, "l2": l2, "linf": linf, "hamming": hamming}


def distance(metric: str | Metric) -> Metric:
    """Return the metric of this name, or the function itself."""
    if callable(metric):
        return metric
    if metric not in METRICS:
        raise InvalidValueError("metric", got=metric, allowed=f"{', '.join(map(repr, METRICS))} or a function")
    return METRICS[metric]
