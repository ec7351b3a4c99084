"""Drawing quantiles and modes: the exponential mechanism over exact histograms, one a group, all groups at once.

The scores, and what the two points of a quantile mean, are in `hush.query.plan.choices`. A histogram is sparse, so
candidates for a point are few: each occupied bin near the target, each run of empty points between two of them, and all
that lies beyond on either side, where the score is cut; the points of each share one score.

A pair of points, both of even or both of odd number, of distances d₁ and d₂ from their targets, has the probability
proportional to m₁·m₂·e^(-rate·max(d₁, d₂)). Put the even points (each as often as its m) in the order of their distance
from the one target and from the other, and let A and B of them lie within d, A₀ and B₀ nearer than d. The pairs whose
larger distance is d are then two rectangles: the lower point one of A₀ … A, the upper one of the first B; and the lower
one of the first A₀, the upper one of B₀ … B. Likewise the odd points. So a race over these rectangles, for all
distances d that occur, each weighted by how many pairs it has, picks one, and a uniform number on either side a pair of
it: exactly the exponential mechanism over all such pairs. No number is larger than that of all groups' points together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.engines.base import Histograms, Sparse
from hush.noise import select_each, uniform_integers
from hush.query.plan.choices import END_WEIGHT, ChoiceKind, LineHistogram, ValueHistogram
from hush.query.plan.plan import Pick

Integers = npt.NDArray[Any]
"""Of 64 bits, or of any size where that may not do."""
_FIT = 2**60


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """What was picked in each group: a grid point (or the number of a listed value)."""

    index: Integers
    half: Integers
    """Half-widths in grid points; None for listed values."""


def pick(plan: Pick, histograms: Sequence[Sparse]) -> Picked:
    """Draw each group's answer, and for values on a line its interval."""
    if not len(histograms):
        return Picked(index=np.zeros(0, dtype=np.int64), half=np.zeros(0, dtype=np.int64))
    if isinstance(plan.choice.histogram, ValueHistogram):
        every, size = Histograms.of(histograms), len(plan.choice.histogram.values)
        weights = np.zeros((len(every), size), dtype=np.int64)
        weights[every.groups, every.joined.bins] = every.joined.weights
        found = select_each(
            weights.ravel(), plan.rate, weights=np.ones(weights.size, np.int64), sizes=np.full(len(every), size)
        )
        return Picked(index=found % size, half=np.full(len(every), None))
    return _interval(*Lines(plan, histograms).draw(), plan.choice.histogram.points - 1)


def _interval(low: Integers, high: Integers, last: int) -> Picked:
    """Return what pairs of points say; -1 is below all of them, and last + 1 above."""
    index = (low + high) // 2
    half = np.maximum(low, high) - index  # among many rows they seldom cross
    below, above = low < 0, high > last
    index = np.where(below, high, np.where(above, low, index))  # the other one is nearer to the truth
    half = np.where(below, index, np.where(above, last - index, half))
    neither = below & above  # too few rows to tell anything
    index, half = np.where(neither, last // 2, index), np.where(neither, last - last // 2, half)
    return Picked(index=index, half=np.maximum(half, min(1, last)))


class Lines:
    """Histograms on a line, one a group, with the scores of one pick.

    Every group's points form *runs* of one score each: the empty points below its first bin, the bin, the empty points
    up to the next bin, and so on. Bins that do not reach within C of a target are part of the outer runs.
    """

    def __init__(self, plan: Pick, histograms: Sequence[Sparse]) -> None:
        line = plan.choice.histogram
        assert isinstance(line, LineHistogram)  # noqa: S101 - the caller looked
        self._plan = plan
        self._points = line.points
        every = Histograms.of(histograms)
        group, weights, edges = every.groups, every.joined.weights, every.edges
        start = every.joined.bins * line.cell
        wide = line.cell if every.joined.cells is None else every.joined.cells * line.cell
        stop = np.minimum(start + wide, self._points)
        most = max(float(weights.sum(dtype=np.float64)) * plan.choice.denominator, plan.cut, plan.spread)
        weights = (weights if most < _FIT else weights.astype(object)) * plan.choice.denominator
        upto = np.concatenate([np.zeros(1, weights.dtype), np.cumsum(weights)])
        self._whole: Integers = upto[edges[1:]] - upto[edges[:-1]]
        below, above = (upto[part] - upto[edges[group]] for part in (slice(-1), slice(1, None)))
        reach = plan.cut + plan.spread
        near = (above > self.targets[group] - reach) & (below < self.targets[group] + reach)
        self._lay(group[near], start[near], stop[near], below[near], above[near])

    @cached_property
    def targets(self) -> Integers:
        """Each group's target t, in the scores' own unit."""
        choice = self._plan.choice
        if choice.kind is ChoiceKind.QUANTILE:
            assert choice.fraction is not None  # noqa: S101 - a quantile has a fraction
            return self._whole // choice.denominator * choice.fraction.numerator  # a multiple of the denominator
        inside: Integers = np.minimum(self._whole // 2, self._plan.rank)
        return inside if choice.kind is ChoiceKind.MIN else self._whole - inside

    def _lay(self, group: Integers, start: Integers, stop: Integers, below: Integers, above: Integers) -> None:
        """Lay out the runs: of each group one for every bin, one between two bins, and the outer ones."""
        bins = np.bincount(group, minlength=len(self._whole))
        self._edges = np.concatenate([[0], np.cumsum(2 * bins + 1)])
        self._group = np.repeat(np.arange(len(bins)), 2 * bins + 1)
        at = self._edges[group] + 2 * (np.arange(len(group)) - (np.cumsum(bins) - bins)[group]) + 1
        outer = self._edges[1:] - 1
        self._begin = np.zeros(self._edges[-1], dtype=np.int64)
        self._begin[at], self._begin[at + 1] = start, stop
        self._end = self._begin.copy()
        self._end[at], self._end[at - 1], self._end[outer] = stop, start, self._points
        self._below: Integers = np.zeros(self._edges[-1], dtype=self._whole.dtype)
        self._below[at], self._below[at - 1] = below, below  # an empty run has as much below as below its next bin
        self._below[at + 1] = above
        self._upto = self._below.copy()
        self._upto[at] = above

    def runs(self, shift: int) -> tuple[Integers, Integers, Integers, Integers]:
        """Return each run's group, where it begins and ends, and its points' distance from target t + shift."""
        target = (self.targets + shift)[self._group]
        distance = np.maximum(np.maximum(self._below - target, target - self._upto), 0)
        return self._group, self._begin, self._end, np.minimum(distance, self._plan.cut)

    def draw(self) -> tuple[Integers, Integers]:
        """Draw a pair of grid points for each group; -1 is below all of them, their number above all."""
        spread, groups = self._plan.spread, len(self._whole)
        rank = np.stack([self.runs(-spread)[-1], self.runs(spread)[-1]])
        many, levels = self._plan.cut + 1, None
        if groups * many < _FIT:
            rank = rank.astype(np.int64)  # no distance is larger than the cut
        else:  # distances by their number among those that occur
            levels, ranks = np.unique(rank, return_inverse=True)
            rank, many = ranks.reshape(rank.shape), len(levels)
        lower, upper = self._side(rank[0], many, -1), self._side(rank[1], many, self._points)
        places = np.sort(np.append(lower.places, upper.places), kind="stable")  # two that are sorted: merged
        places = places[np.append(True, places[1:] != places[:-1])]
        group = places // many
        first = np.append(True, group[1:] != group[:-1])
        a, b = lower.within(places, group), upper.within(places, group)
        a0, b0 = (np.where(first, 0, np.roll(upto, 1, axis=1)) for upto in (a, b))
        # rectangles of pairs: two of even points and two of odd ones for each place, one after the other
        nothing = np.zeros_like(a)
        corner, size = (
            [np.concatenate(pair).T.ravel() for pair in pairs]
            for pairs in (((a0, nothing), (nothing, b0)), ((a - a0, a0), (b, b - b0)))
        )
        some = np.flatnonzero((size[0] > 0) & (size[1] > 0))
        place = some // 4
        distance = places[place] - group[place] * many
        chosen = select_each(
            -distance if levels is None else -levels[distance],
            self._plan.rate,
            weights=size[0][some],
            times=size[1][some],
            sizes=np.bincount(group[place], minlength=groups),
        )
        at = some[chosen]
        inside = uniform_integers(np.append(size[0][at], size[1][at])).reshape(2, -1)
        low, high = (begin[at] + number for begin, number in zip(corner, inside, strict=True))
        return lower.points(at % 2, low), upper.points(at % 2, high)

    def _side(self, rank: Integers, levels: int, end: int) -> Side:
        """Return the points of even number, and the odd ones, in the order of their distance from one target."""
        groups = len(self._whole)
        begin, many = self._parities
        beyond = rank[self._edges[:-1] if end < 0 else self._edges[1:] - 1]  # as far as the outer run
        places = np.append(self._group, np.arange(groups)) * levels + np.append(rank, beyond)
        order = np.argsort(places, kind="stable")
        extra = np.full((2, groups), END_WEIGHT * self._points // 2, dtype=many.dtype)  # half of it is even
        return Side(
            begin=np.append(begin, np.full((2, groups), end), axis=1)[:, order].ravel(),
            single=order >= len(rank),
            places=places[order],
            upto=np.append(np.zeros(1, many.dtype), np.cumsum(np.append(many, extra, axis=1)[:, order])),
            edges=self._edges[:-1] + np.arange(groups),
        )

    @cached_property
    def _parities(self) -> tuple[Integers, Integers]:
        """Each run's first even point and the number of its even points; in a second row those of the odd ones."""
        begin = self._begin + ((self._begin + np.array([[0], [1]])) & 1)
        fits = 2 * (END_WEIGHT + 1) * self._points * len(self._whole) < _FIT  # as many as all together, and more
        return begin, np.maximum(0, (self._end - begin + 1) // 2).astype(np.int64 if fits else object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Points of even number, then those of odd: group after group, in the order of their distance from one target."""

    begin: Integers
    """Where each run begins: of the even points, then of the odd ones."""
    single: npt.NDArray[np.bool_]
    """Whether a run stands for all that lies beyond."""
    places: Integers
    """Its group, times the number of distances, plus the number of its distance: ascending."""
    upto: Integers
    """How many points all runs before have: runs of even points, then of odd ones."""
    edges: Integers
    """The first run of each group."""

    def within(self, places: Integers, group: Integers) -> Integers:
        """Return how many points of a group lie within these distances: a row of even ones, a row of odd ones."""
        odd = np.array([[0], [len(self.places)]])
        found = np.searchsorted(self.places, places, side="right")
        return np.asarray(self.upto[found + odd] - self.upto[self.edges[group] + odd])

    def points(self, odd: Integers, number: Integers) -> Integers:
        """Return each group's even or odd point of this number."""
        number = number + self.upto[self.edges + odd * len(self.places)]
        run = np.searchsorted(self.upto, number, side="right") - 1
        inside = np.where(self.single[run % len(self.places)], 0, number - self.upto[run])
        return np.asarray(self.begin[run] + 2 * inside)
