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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any

from hush.core import InvalidValueError, Neighbours, integer
from hush.core.values import dataclass
from hush.sensitivity.metrics import Metric, distance

Data = tuple[Any, ...]
_MOST = 200_000


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
        members, most = tuple(sorted(set(universe))), integer(size, "size", minimum=0)
        if not members or math.comb(len(members) + most, most) > _MOST:
            raise InvalidValueError("universe", got=f"{len(members)} members", allowed="small enough to list all data")
        for name, value in {
            "function": function,
            "universe": members,
            "size": most,
            "neighbours": Neighbours.parse(neighbours),
            "metric": distance(metric),
            "_value": lru_cache(maxsize=None)(function),
        }.items():
            object.__setattr__(self, name, value)

    def data_sets(self) -> Iterator[Data]:
        """Yield every data set."""
        sizes = [self.size] if self.neighbours is Neighbours.REPLACE else range(self.size + 1)
        for size in sizes:
            yield from combinations_with_replacement(self.universe, size)

    def around(self, data: Sequence[Any]) -> set[Data]:
        """Return the neighbours of a data set, within the size."""
        rows = tuple(sorted(data))
        smaller = {rows[:at] + rows[at + 1 :] for at in range(len(rows))}
        if self.neighbours is Neighbours.REPLACE:
            return {tuple(sorted((*rest, member))) for rest in smaller for member in self.universe} - {rows}
        larger = {tuple(sorted((*rows, member))) for member in self.universe} if len(rows) < self.size else set()
        return smaller | larger

    def local_sensitivity(self, data: Sequence[Any]) -> Any:
        """Return the largest change that a neighbour of ``data`` makes."""
        here = self._value(tuple(sorted(data)))
        return max((self.metric(here, self._value(near)) for near in self.around(data)), default=0)

    def global_sensitivity(self) -> Any:
        """Return the largest local sensitivity."""
        return max(self.local_sensitivity(data) for data in self.data_sets())

    def distances(self, data: Sequence[Any]) -> dict[Data, int]:
        """Return every data set's distance from ``data``: the number of steps between neighbours."""
        start = tuple(sorted(data))
        found, edge, steps = {start: 0}, {start}, 0
        while edge:
            steps += 1
            edge = {near for rows in edge for near in self.around(rows)} - found.keys()
            found.update(dict.fromkeys(edge, steps))
        return found

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
