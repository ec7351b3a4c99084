"""Drawing quantiles and modes: the exponential mechanism over exact histograms, one a group, all groups at once.

The scores, and what the points of a quantile mean, are in `hush.query.plan.choices`. A histogram is sparse, so
candidates for a point are few: each occupied bin near the target, each run of empty points between two of them, and all
that lies beyond on either side, where the score is cut; the points of each share one score. Of the candidates, tuples
of such points, `hush.curator.boxes` draws one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.curator.boxes import Kind, draw
from hush.engines.base import Histograms, Sparse
from hush.noise import select_each, uniform_integers
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
        found = pick_listed(plan.rate, Histograms.of(histograms), len(plan.choice.histogram.values))
        return Picked(index=found, half=np.full(len(found), None))
    line = plan.choice.histogram
    return _interval(Lines(plan, histograms).draw(), line.points - 1, line.cell)


def pick_listed(rate: Fraction, every: Histograms, size: int) -> npt.NDArray[np.int64]:
    """Draw of each group one of ``size`` values, with a probability proportional to e^(rate·weight).

    Of many values a group has few. All others have the score 0, so they run as one candidate that counts as often as
    they are: it wins with probability n/Z, for n values without weight and Z = n + Σ e^(rate·weight) over the k
    occupied ones. If it does, one of the n is drawn, all equally likely: each has 1/n·n/Z = e⁰/Z, and a value with
    weight w has e^(rate·w)/Z, as if all had run. The race is as long as the bins and the groups together, however many
    values there are. Where k is ``size`` the further candidate counts 0 times and does not run.

    Of ascending bins b₀, b₁, … the j-th has b_j - j values without weight below it. So the value without weight that
    has r others below it comes after those bins with b_j - j ≤ r, and is r plus their number.
    """
    groups, bins, many = every.groups, every.joined.bins, np.diff(every.edges)
    others = every.edges[1:] + np.arange(len(every))  # of each group the last candidate
    scores, times = np.zeros((2, len(bins) + len(every)), dtype=np.int64)
    at = np.arange(len(bins)) + groups
    scores[at], times[at], times[others] = every.joined.weights, 1, size - many
    won = select_each(scores, rate, weights=times, sizes=many + 1)
    absent = won == others
    found = np.zeros(len(every), dtype=np.int64)
    found[~absent] = bins[won[~absent] - np.flatnonzero(~absent)]
    drawn = np.flatnonzero(absent)
    rank = uniform_integers(size - many[drawn])
    below = bins - (np.arange(len(bins)) - every.edges[groups]) + groups * size  # ascending over all groups
    found[drawn] = rank + np.searchsorted(below, rank + drawn * size, side="right") - every.edges[drawn]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The points of each group; -1 is below all of them, their number above all."""

    low: Integers
    high: Integers
    middle: Integers | None = None
    far: npt.NDArray[np.bool_] | None = None
    """Which groups have far points, and so a middle one."""


def _interval(drawn: Drawn, last: int, cell: int) -> Picked:
    """Return what the points of each group say. Where in its cell a value lies is not known."""
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
    return Picked(index=index, half=np.minimum(np.maximum(half + cell - 1, 1), last))


class Lines:
    """Histograms on a line, one a group, with the scores of one pick.

    Every group's points form *runs* of one score each: the bins that lie below a target, each with the empty points
    above it, the one the target lies in, the bins above, each with the empty points below it, and what lies below and
    above all bins. Bins that do not reach within C of a target are part of these outer runs.
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
        # The weight below a bin and up to it, less the target:
        below, above = (upto[part] - (upto[edges[:-1]] + self.targets)[group] for part in (slice(-1), slice(1, None)))
        self._least = self._floors(below, above, edges)
        reach = plan.cut + (plan.spread if plan.ties is None else plan.ties.spread)
        near = (above > -reach) & (below < reach)
        self._lay(group[near], start[near], stop[near], below[near], above[near], reach)

    @cached_property
    def targets(self) -> Integers:
        """Each group's target t, in the scores' own unit."""
        choice = self._plan.choice
        if choice.kind is ChoiceKind.QUANTILE:
            assert choice.fraction is not None  # noqa: S101 - a quantile has a fraction
            return self._whole // choice.denominator * choice.fraction.numerator  # a multiple of the denominator
        inside: Integers = np.minimum(self._whole // 2, self._plan.rank)
        return inside if choice.kind is ChoiceKind.MIN else self._whole - inside

    def _floors(self, below: Integers, above: Integers, edges: Integers) -> tuple[Integers, Integers]:
        """Return the least distances of each group's near pairs, and of its far ones, by its ties."""
        ties, nothing = self._plan.ties, np.zeros(len(self._whole), dtype=self._whole.dtype)
        if ties is None:
            return nothing, nothing
        within = np.minimum(above, ties.window) - np.maximum(below, -ties.window)
        upto = np.append(np.zeros(1, self._whole.dtype), np.cumsum(np.maximum(within - ties.harmless, 0)))
        more = upto[edges[1:]] - upto[edges[:-1]] - ties.doubt
        a, b, cut = ties.part.numerator, ties.part.denominator, self._plan.cut
        return np.clip(more * a // b, 0, cut), np.clip(-more * a // b, 0, cut)

    def _lay(
        self, group: Integers, start: Integers, stop: Integers, below: Integers, above: Integers, reach: int
    ) -> None:
        """Lay out the runs: of each group what lies below all bins, one run a bin, and what lies above all."""
        runs = np.bincount(group, minlength=len(self._whole)) + 2
        self._group = np.repeat(np.arange(len(runs)), runs)
        self._last = np.cumsum(runs) - 1
        self._first = self._last - runs + 1
        at = np.arange(1, len(group) + 1) + 2 * group
        most = 2 * (END_WEIGHT + 2) * self._points * len(runs)  # of one side: its points, and what counts as such
        self._start, self._stop = np.zeros((2, len(self._group)), dtype=np.int64 if most < _FIT else object)
        self._start[at], self._start[self._last] = start, self._points
        self._stop[at + 1] = stop  # of the bin before
        self._below, self._upto = np.zeros((2, len(self._group)), dtype=self._whole.dtype)
        self._below[at], self._below[at + 1], self._below[self._first] = below, above, -reach
        self._upto[at], self._upto[at - 1], self._upto[self._last] = above, below, reach

    def runs(self, shift: int | Integers) -> tuple[Integers, Integers, Integers, Integers]:
        """Return each run's group, where it begins and ends, and its points' distance from target t + shift.

        For a column of shifts, all but the group have a row for each.
        """
        distance = np.maximum(np.maximum(self._below - shift, shift - self._upto), 0)
        begin = np.where(self._below <= shift, self._start, self._stop)
        end = np.concatenate([begin[..., 1:], begin[..., :1]], axis=-1)
        end[..., self._last] = self._points
        return self._group, begin, end, np.minimum(distance, self._plan.cut)

    def draw(self) -> Drawn:
        """Draw each group's points."""
        ties, near, ends = self._plan.ties, self._plan.spread, END_WEIGHT * self._points // 2  # half of it is even
        few = max(self._points // FEW, 1)
        pairs = self._tuples([-near, near], self._least[0], 2 * ends)
        kinds = [
            Kind(distance=pairs.distance, begin=(pairs.begin + 1) >> 1, end=(pairs.end + 1) >> 1, times=few),
            Kind(distance=pairs.distance, begin=pairs.begin >> 1, end=pairs.end >> 1, times=few),
        ]
        if ties is not None:
            kinds.append(self._tuples([-ties.spread, ties.spread, 0], self._least[1], few))
        kind, points = draw(self._group, kinds, self._plan.rate)
        far = kind == 2  # after the even and the odd pairs
        low, high, *middle = (np.where(far, number, 2 * number + kind) for number in points)
        low, high = np.maximum(low, -1), np.minimum(high, self._points)
        return Drawn(low=low, high=high, middle=middle[0] if middle else None, far=far if middle else None)

    def _tuples(self, shifts: Sequence[int], least: Integers, beyond: int) -> Kind:
        """Return the runs of points for targets t + shift, the lower, the upper and others, ``least`` away at least.

        What lies below all points, for the first side, and above all, for the second one, counts as so many further
        points in the outer run: no weight is on the other side of either, so their distance is the same.
        """
        _, begin, end, distance = self.runs(np.array(shifts, dtype=self._whole.dtype)[:, None])
        begin[0, self._first] -= beyond
        end[1, self._last] += beyond
        return Kind(distance=np.maximum(distance, least[self._group]), begin=begin, end=end)
