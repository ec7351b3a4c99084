"""Tuples of points whose probability falls with the largest of their distances, drawn exactly, for all groups at once.

A tuple (y₁, …, y_s) of points with multiplicities m and distances d₁, …, d_s, each from a target of its own, is to have
the probability proportional to m₁·…·m_s·e^(-rate·max dᵢ). For each target, put the points (each as often as its m) in
the order of their distance, and let nᵢ of them lie within d, zᵢ nearer than d. The tuples whose largest distance is d
are then s boxes: in box j the points before the j-th are nearer than d, the j-th is one of zⱼ … nⱼ, those after it lie
within d. So a race over these boxes, for all distances d that occur, each weighted by how many tuples it has, picks
one, and a uniform number on every side a tuple of it. Where points come in two parts, the even and the odd ones, all
points of a tuple are of one part, and there are twice as many boxes. No number is larger than that of all groups'
points together: the products, which would be, are never formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.noise import select_each, uniform_integers

Integers = npt.NDArray[Any]
"""Of 64 bits, or of any size where that may not do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Points in the order of their distance from one target: part after part, in each group after group."""

    group: Integers
    distance: Integers
    """Of each run of points, and its group; alike for all parts."""
    begin: Integers
    """Where each run begins, in every part."""
    single: npt.NDArray[np.bool_]
    """Whether a run is one point of a large multiplicity."""
    upto: Integers
    """How many points all runs before have."""
    edges: Integers
    """The first run of each group."""
    parts: int

    @classmethod
    def of(
        cls, group: Integers, distance: Integers, begin: Integers, many: Integers, single: npt.NDArray[np.bool_]
    ) -> Side:
        """Put runs in order. ``begin`` and ``many``, the number of their points, have a row for each part."""
        order = _in_order(group, distance)
        group = group[order]
        return cls(
            group=group,
            distance=distance[order],
            begin=begin[:, order].ravel(),
            single=single[order],
            upto=np.append(np.zeros(1, many.dtype), np.cumsum(many[:, order])),
            edges=np.append(0, np.flatnonzero(group[1:] != group[:-1]) + 1),
            parts=len(begin),
        )

    def within(self, last: Integers, group: Integers) -> Integers:
        """Return how many points of a group lie in its runs up to one (not included): a row for each part."""
        part = len(self.group) * np.arange(self.parts)[:, None]
        return np.asarray(self.upto[last + part] - self.upto[self.edges[group] + part])

    def points(self, part: Integers, number: Integers) -> Integers:
        """Return each group's point of this number in one of the parts."""
        number = number + self.upto[self.edges + part * len(self.group)]
        run = np.searchsorted(self.upto, number, side="right") - 1
        inside = np.where(self.single[run % len(self.group)], 0, number - self.upto[run])
        return np.asarray(self.begin[run] + self.parts * inside)


def _in_order(group: Integers, distance: Integers) -> Integers:
    """Return the order of runs by their group and distance."""
    if distance.dtype != object:
        return np.lexsort((distance, group))
    order = np.argsort(distance, kind="stable")
    return order[np.argsort(group[order], kind="stable")]


class Boxes:
    """All boxes of some sides, group after group."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self._sides = sides
        parts, count = sides[0].parts, len(sides)
        group = np.concatenate([side.group for side in sides])
        distance = np.concatenate([side.distance for side in sides])
        order = _in_order(group, distance)
        group, distance = group[order], distance[order]
        new = np.append(True, (group[1:] != group[:-1]) | (distance[1:] != distance[:-1]))
        last = np.append(np.flatnonzero(new)[1:], len(order))  # a place is a group and a distance
        group, distance = group[new], distance[new]
        first = np.append(True, group[1:] != group[:-1])
        origin = np.repeat(np.arange(count), [len(side.group) for side in sides])[order]
        within = [side.within(np.cumsum(origin == at)[last - 1], group) for at, side in enumerate(sides)]
        nearer = [np.where(first, 0, np.roll(upto, 1, axis=1)) for upto in within]
        shape = (len(group), count, parts)
        lows, sizes = (np.empty((count, *shape), dtype=within[0].dtype) for _ in range(2))
        for box in range(count):  # (side, place, box, part)
            for at in range(count):
                lows[at, :, box] = nearer[at].T if at == box else 0
                sizes[at, :, box] = (within[at] - nearer[at] if at == box else (nearer if at < box else within)[at]).T
        low, size = lows.reshape(count, -1), sizes.reshape(count, -1)
        some = np.flatnonzero(np.all(size > 0, axis=0))
        place = some // (count * parts)
        self.group, self.distance = group[place], distance[place]
        self._low, self.size = low[:, some], size[:, some]
        self._part = some % parts

    def points(self, at: Integers, inside: Integers) -> list[Integers]:
        """Return the points of one box a group, the ``inside``-th on every side."""
        return [
            side.points(self._part[at], low[at] + number)
            for side, low, number in zip(self._sides, self._low, inside, strict=True)
        ]


def draw(boxes: Boxes, rate: Fraction) -> list[Integers]:
    """Draw each group's tuple: its points, side by side."""
    groups = np.bincount(boxes.group)
    chosen = select_each(-boxes.distance, rate, weights=boxes.size[0], times=list(boxes.size[1:]), sizes=groups)
    return boxes.points(chosen, _inside(boxes, chosen))


def draw_either(
    pairs: Boxes, triples: Boxes, times: int, rate: Fraction
) -> tuple[list[Integers], list[Integers], npt.NDArray[np.bool_]]:
    """Draw each group's pair, each of which counts so many ``times``, or its triple; and say in which groups a triple.

    Both are returned for all groups, at random where the other was drawn.
    """
    group = np.append(pairs.group, triples.group)
    order = np.argsort(group, kind="stable")
    third = np.full((1, len(pairs.group)), times, dtype=pairs.size.dtype)
    size = np.append(np.append(pairs.size, third, axis=0), triples.size, axis=1)[:, order]
    distance = np.append(pairs.distance, triples.distance)[order]
    chosen = order[select_each(-distance, rate, weights=size[0], times=list(size[1:]), sizes=np.bincount(group))]
    far = chosen >= len(pairs.group)
    first = np.searchsorted(pairs.group, np.arange(len(chosen))), np.searchsorted(triples.group, np.arange(len(chosen)))
    at = np.where(far, first[0], chosen), np.where(far, chosen - len(pairs.group), first[1])
    return pairs.points(at[0], _inside(pairs, at[0])), triples.points(at[1], _inside(triples, at[1])), far


def _inside(boxes: Boxes, chosen: Integers) -> Integers:
    sizes = boxes.size[:, chosen]
    return uniform_integers(sizes.ravel()).reshape(sizes.shape)
