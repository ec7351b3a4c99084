"""Draw tuples of points whose probability falls with the largest of their distances: exactly, for all groups at once.

A tuple (y₁, …, y_s) of points with distances d₁, …, d_s, each from a target of its own, is to have the probability
proportional to e^(-rate·max dᵢ). For each target, its *side*, the points form runs that share a distance. Put the runs
of all sides in one order by their distance, those that tie in any order that is kept to. One of the s runs a tuple's
points lie in is then its last, and its distance is the largest. So the tuples are parted into *boxes*, one a run: the
point of this run's side is any of the run, the points of the other sides are any of their sides' runs before it. A race
over the boxes, each weighted by how many tuples it has, picks one, and a uniform number on every side a tuple of it.
There may be tuples of several kinds, each with boxes of its own, in one race. No number is larger than that of a side's
points in all groups and kinds together: the products, which would be, are never formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.mechanisms.grouped.integers import Integers
from hush.noise import select_each, uniform_integers


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleKind:
    """Tuples of one kind: runs of points, group after group, in a row for each of their sides."""

    distance: Integers
    begin: Integers
    """The number of a run's first point."""
    end: Integers
    """And of what follows its last one."""
    times: int = 1
    """How often each tuple counts, where it lacks one of the sides that other kinds have."""


def draw_tuples(group: Integers, kinds: Sequence[TupleKind], rate: Fraction) -> tuple[Integers, list[Integers]]:
    """Draw each group's tuple: its kind, and the numbers of its points, side by side; any numbers for sides it lacks.

    ``group`` is that of each run, alike for all sides. Every group has runs.
    """
    rows = [len(kind.distance) for kind in kinds]
    place = np.concatenate([np.tile(group * len(kinds) + at, count) for at, count in enumerate(rows)])
    distance, begin, end = (
        np.concatenate([part.ravel() for part in parts])
        for parts in zip(*((kind.distance, kind.begin, kind.end) for kind in kinds), strict=True)
    )
    order = in_order(place, distance)
    many = (end - begin)[order]
    origin = np.repeat(np.concatenate([np.arange(count, dtype=np.int8) for count in rows]), len(group))[order]
    runs = np.outer(np.bincount(group), rows).ravel()  # of each place: a group and a kind
    sides = []
    for at in range(max(rows)):
        lacking = [0 if at < count else kind.times for count, kind in zip(rows, kinds, strict=True)]
        sides.append(_Side(many, origin == at, runs, np.tile(lacking, len(runs) // len(kinds))))
    weights, *times = (side.size for side in sides)
    chosen = select_each(
        -distance[order], rate, weights=weights, times=times, sizes=runs.reshape(-1, len(kinds)).sum(axis=1)
    )
    inside = uniform_integers(np.concatenate([side.size[chosen] for side in sides])).reshape(len(sides), -1)
    where = np.searchsorted(np.cumsum(runs), chosen, side="right")
    points = []
    for side, number in zip(sides, inside, strict=True):
        run, rest = side.find(chosen, where, number)
        points.append(begin[order[run]] + rest)
    return where % len(kinds), points


def in_order(place: Integers, distance: Integers) -> Integers:
    """Return the order of runs by their place and distance."""
    span = int(distance.max()) + 1
    if distance.dtype != object and (int(place.max()) + 1) * span < 2**63:
        return np.argsort(place * span + distance, kind="stable")  # the quickest for rows that are in order of place
    order = np.argsort(distance, kind="stable")
    return order[np.argsort(place[order], kind="stable")]


class _Side:
    """The points of one side, in the order of all runs."""

    def __init__(self, many: Integers, own: npt.NDArray[np.bool_], runs: Integers, lacking: Integers) -> None:
        self._many, self._own = many, own
        self._upto = np.cumsum(np.where(own, many, 0))
        before = np.append(np.zeros(1, many.dtype), self._upto[np.cumsum(runs) - 1])[:-1]
        # A place that lacks this side has as many points of it as its tuples count, as if they came before: nobody's.
        self._start = before - lacking
        self.size: Integers = np.where(own, many, self._upto - np.repeat(self._start, runs))
        """How many points of this side each run's box has."""

    def find(self, chosen: Integers, place: Integers, inside: Integers) -> tuple[Integers, Integers]:
        """Return the run of a point of each chosen box, in its place, and which of the run's points it is."""
        number = inside + np.where(self._own[chosen], self._upto[chosen] - self._many[chosen], self._start[place])
        run = np.searchsorted(self._upto, number, side="right")
        return run, number - self._upto[run] + self._many[run]
