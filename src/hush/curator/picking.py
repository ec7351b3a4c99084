"""Drawing quantiles and modes: the exponential mechanism over exact histograms, one a group, all groups at once.

The scores, and what the two points of a quantile mean, are in `hush.query.plan.choices`. A histogram is sparse, so
candidates for a point are few: each occupied bin near the target, each run of empty points between two of them, and all
that lies beyond on either side, where the score is cut; the points of each share one score.

A pair of points, both of even or both of odd number, of distances d₁ and d₂ from their targets, has the probability
proportional to m₁·m₂·e^(-rate·max(d₁, d₂)). With A(d) and B(d) how many even points (each as often as its m) lie within
d of the one target and of the other, A'(d) and B'(d) how many odd ones, there are A(d)·B(d) + A'(d)·B'(d) pairs whose
larger distance is d or less. So a race over the distances d that occur, weighted by how many pairs have exactly d,
picks d, and a uniform number one of these pairs: exactly the exponential mechanism over all such pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.engines.base import Sparse
from hush.noise import select_each, uniform_integer
from hush.query.plan.choices import END_WEIGHT, ChoiceKind, LineHistogram, ValueHistogram
from hush.query.plan.plan import Pick

Integers = npt.NDArray[Any]
"""Of 64 bits, or of any size where that may not do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """One group's pick: a grid point (or the number of a listed value), and its half-width in grid points."""

    index: int
    half: int | None = None


def pick(plan: Pick, histograms: Sequence[Sparse]) -> list[Picked]:
    """Draw each group's answer, and for values on a line its interval."""
    if not histograms:
        return []
    if isinstance(plan.choice.histogram, ValueHistogram):
        size = len(plan.choice.histogram.values)
        weights = np.zeros((len(histograms), size), dtype=np.int64)
        for row, histogram in zip(weights, histograms, strict=True):
            row[histogram.bins] = histogram.weights
        found = select_each(
            weights.ravel(), plan.rate, weights=np.ones(weights.size, np.int64), sizes=[size] * len(weights)
        )
        return [Picked(index=int(at)) for at in found % size]
    last = plan.choice.histogram.points - 1
    return [_interval(low, high, last) for low, high in Lines(plan, histograms).draw()]


def _interval(low: int, high: int, last: int) -> Picked:
    """Return what a pair of points says; -1 is below all of them, and last + 1 above."""
    if low < 0 and high > last:  # too few rows to tell anything
        return Picked(index=last // 2, half=last - last // 2)
    if low < 0 or high > last:  # the other one is nearer to the truth
        index = high if low < 0 else low
        return Picked(index=index, half=max(index if low < 0 else last - index, min(1, last)))
    low, high = min(low, high), max(low, high)  # among many rows they seldom cross
    middle = (low + high) // 2
    return Picked(index=middle, half=max(high - middle, min(1, last)))


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
        sizes = np.array([len(one.bins) for one in histograms])
        group = np.repeat(np.arange(len(histograms)), sizes)
        weights = np.concatenate([one.weights for one in histograms])
        start = np.concatenate([one.bins for one in histograms]) * line.cell
        cells = [np.ones(len(one.bins), np.int64) if one.cells is None else one.cells for one in histograms]
        stop = np.minimum(start + np.concatenate(cells) * line.cell, self._points)
        most = max(float(weights.sum(dtype=np.float64)) * plan.choice.denominator, plan.cut, plan.spread)
        weights = (weights if most < 2**60 else weights.astype(object)) * plan.choice.denominator
        upto = np.concatenate([np.zeros(1, weights.dtype), np.cumsum(weights)])
        edges = np.concatenate([[0], np.cumsum(sizes)])
        self._whole: Integers = upto[edges[1:]] - upto[edges[:-1]]
        below, above = (upto[part] - np.repeat(upto[edges[:-1]], sizes) for part in (slice(-1), slice(1, None)))
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

    def draw(self) -> list[tuple[int, int]]:
        """Draw a pair of grid points for each group; -1 is below all of them, their number above all."""
        spread = self._plan.spread
        shifted = [self.runs(-spread)[-1], self.runs(spread)[-1]]
        levels, ranks = np.unique(np.concatenate(shifted), return_inverse=True)
        rank = ranks.reshape(2, -1)
        lower = [self._side(rank[0], len(levels), -1, odd) for odd in (0, 1)]
        upper = [self._side(rank[1], len(levels), self._points, odd) for odd in (0, 1)]
        places = np.union1d(lower[0].places, upper[0].places)
        group = places // len(levels)
        first = np.concatenate([[True], group[1:] != group[:-1]])
        within = [(a.within(places, group), b.within(places, group)) for a, b in zip(lower, upper, strict=True)]
        pairs = []  # of even points, and of odd ones
        for a, b in within:
            products = a * b
            products[1:] -= np.where(first[1:], 0, products[:-1])
            pairs.append(products)
        sizes = np.diff(np.flatnonzero(np.append(first, True)))
        scores = -levels[places % len(levels)]
        chosen = select_each(scores, self._plan.rate, weights=pairs[0] + pairs[1], sizes=sizes.tolist())
        found = []
        for one, at in enumerate(chosen.tolist()):
            even = int(pairs[0][at])
            number = uniform_integer(even + int(pairs[1][at]))
            odd = int(number >= even)
            (a, b), number = within[odd], number - odd * even
            a1, b1 = int(a[at]), int(b[at])
            a0, b0 = (0, 0) if first[at] else (int(a[at - 1]), int(b[at - 1]))
            # of pairs whose larger distance is this one: first those where it is the lower point's, then the others
            if number < (a1 - a0) * b1:
                low, high = a0 + number // b1, number % b1
            else:
                low, high = divmod(number - (a1 - a0) * b1, b1 - b0)
                high += b0
            found.append((lower[odd].point(one, low), upper[odd].point(one, high)))
        return found

    def _side(self, rank: Integers, levels: int, end: int, odd: int) -> Side:
        """Return the points of even number, or the odd ones, in the order of their distance from one target."""
        groups = len(self._whole)
        extra = END_WEIGHT * self._points // 2  # of what lies beyond, half is even
        small = ((END_WEIGHT + 1) * self._points) ** 2 * groups < 2**62  # all pairs
        begin = self._begin + (self._begin + odd) % 2
        many = np.maximum(0, (self._end - begin + 1) // 2).astype(np.int64 if small else object)
        beyond = rank[self._edges[:-1] if end < 0 else self._edges[1:] - 1]  # as far as the outer run
        places = np.concatenate([self._group, np.arange(groups)]) * levels + np.concatenate([rank, beyond])
        order = np.argsort(places, kind="stable")
        many = np.append(many, np.full(groups, extra, dtype=many.dtype))[order]
        return Side(
            begin=np.append(begin, np.full(groups, end))[order],
            single=order >= len(rank),
            places=places[order],
            upto=np.concatenate([np.zeros(1, many.dtype), np.cumsum(many)]),
            edges=self._edges + np.arange(groups + 1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Points of even number, or of odd: group after group, in the order of their distance from one target."""

    begin: Integers
    """Where each run begins."""
    single: npt.NDArray[np.bool_]
    """Whether a run stands for all that lies beyond."""
    places: Integers
    """Its group, times the number of distances, plus the number of its distance: ascending."""
    upto: Integers
    """How many points all runs before have."""
    edges: Integers
    """The first run of each group."""

    def within(self, places: Integers, group: Integers) -> Integers:
        """Return how many points of a group lie within these distances."""
        found = self.upto[np.searchsorted(self.places, places, side="right")] - self.upto[self.edges[group]]
        return np.asarray(found)

    def point(self, group: int, number: int) -> int:
        """Return the point of this number in a group."""
        first, last = int(self.edges[group]), int(self.edges[group + 1])
        number += int(self.upto[first])
        run = first + int(np.searchsorted(self.upto[first : last + 1], number, side="right")) - 1
        begin = int(self.begin[run])
        return begin if self.single[run] else begin + 2 * (number - int(self.upto[run]))
