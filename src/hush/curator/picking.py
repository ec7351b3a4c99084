"""Drawing quantiles and modes: the exponential mechanism over exact histograms, one a group, all groups at once.

The scores, and what the points of a quantile mean, are in `hush.query.plan.choices`. A histogram is sparse, so
candidates for a point are few: each occupied bin near the target, each run of empty points between two of them, and all
that lies beyond on either side, where the score is cut; the points of each share one score. Of the candidates, tuples
of such points, `hush.curator.boxes` draws one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.curator.boxes import Boxes, Side, draw, draw_either
from hush.engines.base import Histograms, Sparse
from hush.noise import select_each
from hush.query.plan.choices import END_WEIGHT, FEW, ChoiceKind, LineHistogram, ValueHistogram
from hush.query.plan.picks import Pick

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
    return _interval(Lines(plan, histograms).draw(), plan.choice.histogram.points - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The points of each group; -1 is below all of them, their number above all."""

    low: Integers
    high: Integers
    middle: Integers | None = None
    far: npt.NDArray[np.bool_] | None = None
    """Which groups have far points, and so a middle one."""


def _interval(drawn: Drawn, last: int) -> Picked:
    """Return what the points of each group say."""
    low, high = drawn.low, drawn.high
    index = (low + high) // 2
    half = np.maximum(low, high) - index  # among many rows they seldom cross
    below, above = low < 0, high > last
    index = np.where(below, high, np.where(above, low, index))  # the other one is nearer to the truth
    half = np.where(below, index, np.where(above, last - index, half))
    neither = below & above  # too few rows to tell anything
    index, half = np.where(neither, last // 2, index), np.where(neither, last - last // 2, half)
    if drawn.far is not None and drawn.middle is not None:
        reach = np.maximum(drawn.middle - np.maximum(low, 0), np.minimum(high, last) - drawn.middle)
        index, half = np.where(drawn.far, drawn.middle, index), np.where(drawn.far, reach, half)
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
        every, b = Histograms.of(histograms), plan.choice.denominator
        group, weights, edges = every.groups, every.joined.weights, every.edges
        start = every.joined.bins * line.cell
        wide = line.cell if every.joined.cells is None else every.joined.cells * line.cell
        stop = np.minimum(start + wide, self._points)
        most = max(float(weights.sum(dtype=np.float64)) * b, plan.reach * b)  # and times γ
        weights = (weights if most < _FIT else weights.astype(object)) * b
        upto = np.concatenate([np.zeros(1, weights.dtype), np.cumsum(weights)])
        self._whole: Integers = upto[edges[1:]] - upto[edges[:-1]]
        below, above = (upto[part] - upto[edges[group]] for part in (slice(-1), slice(1, None)))
        self._least = self._floors(group, below, above, edges)
        reach = plan.cut + (plan.spread if plan.ties is None else plan.ties.spread)
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

    def _floors(self, group: Integers, below: Integers, above: Integers, edges: Integers) -> tuple[Integers, Integers]:
        """Return the least distances of each group's near pairs, and of its far ones, by its ties."""
        ties, nothing = self._plan.ties, np.zeros(len(self._whole), dtype=self._whole.dtype)
        if ties is None:
            return nothing, nothing
        target = self.targets[group]
        within = np.minimum(above, target + ties.window) - np.maximum(below, target - ties.window)
        upto = np.append(np.zeros(1, self._whole.dtype), np.cumsum(np.maximum(within - ties.harmless, 0)))
        more = upto[edges[1:]] - upto[edges[:-1]] - ties.doubt
        a, b, cut = ties.part.numerator, ties.part.denominator, self._plan.cut
        return np.clip(more * a // b, 0, cut), np.clip(-more * a // b, 0, cut)

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

    def draw(self) -> Drawn:
        """Draw each group's points."""
        ties, near, ends = self._plan.ties, self._plan.spread, END_WEIGHT * self._points // 2  # half of it is even
        pairs = Boxes(
            [
                self._side(-near, self._least[0], 2, beyond=(-1, ends)),
                self._side(near, self._least[0], 2, beyond=(self._points, ends)),
            ]
        )
        if ties is None:
            low, high = draw(pairs, self._plan.rate)
            return Drawn(low=low, high=high)
        far, few = ties.spread, max(self._points // FEW, 1)
        triples = Boxes(
            [
                self._side(-far, self._least[1], 1, beyond=(-1, few)),
                self._side(far, self._least[1], 1, beyond=(self._points, few)),
                self._side(0, self._least[1], 1),
            ]
        )
        (low, high), (lower, upper, middle), which = draw_either(pairs, triples, few, self._plan.rate)
        return Drawn(
            low=np.where(which, lower, low),
            high=np.where(which, upper, high),
            middle=middle,
            far=which,
        )

    def _side(self, shift: int, least: Integers, parts: int, beyond: tuple[int, int] | None = None) -> Side:
        """Return the points in the order of their distance from target t + shift, which is ``least`` at least.

        There are one or two parts: all points, or the even and the odd ones. What lies ``beyond`` all points, below or
        above as its number says, is one more point of every part, with a weight of its own.
        """
        groups = np.arange(len(self._whole))
        distance, where, begin, many = self.runs(shift)[-1], self._group, *self._parts(parts)
        single = np.zeros(len(where), dtype=np.bool_)
        if beyond is not None:
            end, weight = beyond
            away = self.targets + shift if end < 0 else self._whole - self.targets - shift
            distance, where = np.append(distance, np.clip(away, 0, self._plan.cut)), np.append(where, groups)
            begin = np.append(begin, np.full((parts, len(groups)), end), axis=1)
            many = np.append(many, np.full((parts, len(groups)), weight, dtype=many.dtype), axis=1)
            single = np.append(single, np.ones(len(groups), dtype=np.bool_))
        return Side.of(where, np.maximum(distance, least[where]), begin, many, single)

    def _parts(self, parts: int) -> tuple[Integers, Integers]:
        """Return each run's first point and the number of its points; or those of its even points, then of its odd."""
        begin = self._begin + ((self._begin + np.arange(parts)[:, None]) & (parts - 1))
        fits = 2 * (END_WEIGHT + 1) * self._points * len(self._whole) < _FIT  # as many as all together, and more
        return begin, np.maximum(0, (self._end - begin + parts - 1) // parts).astype(np.int64 if fits else object)
