"""Draw the points that a quantile mechanism aims at: from exact histograms, one in each group, all groups at once.

The scores, and what the points of a quantile mean, are in `hush.mechanisms.grouped.quantile`. A histogram is sparse, so
candidates for a point are few: each occupied bin near the target, each run of empty points between two of them, and all
that lies beyond on either side, where the score is cut; the points of each share one score. Of the candidates, tuples
of such points, `draw_tuples` draws one.

**Draw tuples of points whose probability falls with the largest of their distances: exactly, for all groups at
once.**

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
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hush.core.values import dataclass
from hush.mechanisms.grouped.base import Histograms, Integers, Sparse
from hush.noise import select_each, uniform_integers

END_WEIGHT = 10
"""How many times as much as all points together "below all" and "above all" weigh in near pairs."""
FEW = 10**4
"""How many points count as one, where a near pair meets far triples and in what lies beyond these."""
_FIT = 2**60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ties:
    """How the ties around a quantile decide between near pairs and far triples."""

    spread: int
    """k': the outer points of far triples aim so far below and above the target."""
    window: int
    """R: ties count within this distance of the target."""
    harmless: int
    """c: so much weight on one grid point is no tie."""
    doubt: int
    """θ: with more ties than this, far triples win."""
    part: Fraction
    """γ: what a tie counts in scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """What the points of a quantile aim at, and how steeply their probability falls. All of it is public."""

    fraction: Fraction
    """Which quantile; 0 for the least value and 1 for the greatest."""
    points: int
    """How many grid points the line has."""
    cell: int
    """How many neighbouring points a histogram does not tell apart, at least."""
    rate: Fraction
    spread: int
    """k: the two points aim so far below and above the target."""
    cut: int
    """C: scores end at -C."""
    rank: int
    """r: the least and the greatest value are those of the r-th rank; 0 for quantiles."""
    ties: Ties | None
    """When the outer points aim further away; None if they never do."""

    @property
    def reach(self) -> int:
        """How far from the target the histogram must be known point by point."""
        near = self.cut + self.spread
        return near if self.ties is None else max(near, self.cut + self.ties.spread, self.ties.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnIntervals:
    """What was drawn in each group: a grid point, and the half-width of its interval in grid points."""

    index: Integers
    half: Integers


def draw_quantiles(aims: Aims, histograms: Sequence[Sparse]) -> DrawnIntervals:
    """Draw each group's answer and its interval."""
    if not len(histograms):
        return DrawnIntervals(index=np.zeros(0, dtype=np.int64), half=np.zeros(0, dtype=np.int64))
    return interval(PointRuns(aims, histograms).draw(), aims.points - 1, aims.cell)


def draw_points(aims: Aims, histograms: Sequence[Sparse]) -> Integers:
    """Draw of each group a single point, without an interval."""
    if not len(histograms):
        return np.zeros(0, dtype=np.int64)
    return PointRuns(aims, histograms).draw_single()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPoints:
    """The points of each group; -1 is below all of them, their number above all."""

    low: Integers
    high: Integers
    middle: Integers | None = None
    far: npt.NDArray[np.bool_] | None = None
    """Which groups have far points, and so a middle one."""


def interval(drawn: DrawnPoints, last: int, cell: int) -> DrawnIntervals:
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
    return DrawnIntervals(index=index, half=np.minimum(np.maximum(half + cell - 1, 1), last))


class PointRuns:
    """Histograms on a line, one in each group, with the scores of one mechanism.

    Every group's points form *runs* of one score each: the bins that lie below a target, each with the empty points
    above it, the one the target lies in, the bins above, each with the empty points below it, and what lies below and
    above all bins. Bins that do not reach within C of a target are part of these outer runs.
    """

    def __init__(self, aims: Aims, histograms: Sequence[Sparse]) -> None:
        self._aims = aims
        self._points = aims.points
        every, b = Histograms.of(histograms), aims.fraction.denominator
        group, weights, edges = every.groups, every.joined.weights, every.edges
        start = every.joined.bins * aims.cell
        wide = aims.cell if every.joined.cells is None else every.joined.cells * aims.cell
        stop = np.minimum(start + wide, self._points)
        largest = max(float(weights.sum(dtype=np.float64)) * b, aims.reach * b)  # and times γ
        weights = (weights if largest < _FIT else weights.astype(object)) * b
        upto = np.concatenate([np.zeros(1, weights.dtype), np.cumsum(weights)])
        self._whole: Integers = upto[edges[1:]] - upto[edges[:-1]]
        # The weight below a bin and up to it, less the target:
        below, above = (upto[part] - (upto[edges[:-1]] + self.targets)[group] for part in (slice(-1), slice(1, None)))
        self._least = self._floors(below, above, edges)
        reach = aims.cut + (aims.spread if aims.ties is None else aims.ties.spread)
        near = (above > -reach) & (below < reach)
        self._lay(group[near], start[near], stop[near], below[near], above[near], reach)

    @cached_property
    def targets(self) -> Integers:
        """Each group's target t, in the scores' own unit."""
        fraction = self._aims.fraction
        if 0 < fraction < 1:
            return self._whole // fraction.denominator * fraction.numerator  # a multiple of the denominator
        inside: Integers = np.minimum(self._whole // 2, self._aims.rank)
        return inside if fraction == 0 else self._whole - inside

    def _floors(self, below: Integers, above: Integers, edges: Integers) -> tuple[Integers, Integers]:
        """Return the least distances of each group's near pairs, and of its far ones, by its ties."""
        ties, nothing = self._aims.ties, np.zeros(len(self._whole), dtype=self._whole.dtype)
        if ties is None:
            return nothing, nothing
        within = np.minimum(above, ties.window) - np.maximum(below, -ties.window)
        upto = np.append(np.zeros(1, self._whole.dtype), np.cumsum(np.maximum(within - ties.harmless, 0)))
        more = upto[edges[1:]] - upto[edges[:-1]] - ties.doubt
        a, b, cut = ties.part.numerator, ties.part.denominator, self._aims.cut
        return np.clip(more * a // b, 0, cut), np.clip(-more * a // b, 0, cut)

    def _lay(
        self, group: Integers, start: Integers, stop: Integers, below: Integers, above: Integers, reach: int
    ) -> None:
        """Lay out the runs: of each group what lies below all bins, one run for each bin, and what lies above all."""
        runs = np.bincount(group, minlength=len(self._whole)) + 2
        self._group = np.repeat(np.arange(len(runs)), runs)
        self._last = np.cumsum(runs) - 1
        self._first = self._last - runs + 1
        own = np.arange(1, len(group) + 1) + 2 * group
        largest = 2 * (END_WEIGHT + 2) * self._points * len(runs)  # of one side: its points, and what counts as such
        self._start, self._stop = np.zeros((2, len(self._group)), dtype=np.int64 if largest < _FIT else object)
        self._start[own], self._start[self._last] = start, self._points
        self._stop[own + 1] = stop  # of the bin before
        self._below, self._upto = np.zeros((2, len(self._group)), dtype=self._whole.dtype)
        self._below[own], self._below[own + 1], self._below[self._first] = below, above, -reach
        self._upto[own], self._upto[own - 1], self._upto[self._last] = above, below, reach

    def runs(self, shift: int | Integers) -> tuple[Integers, Integers, Integers, Integers]:
        """Return each run's group, where it begins and ends, and its points' distance from target t + shift.

        For a column of shifts, all but the group have a row for each.
        """
        distance = np.maximum(np.maximum(self._below - shift, shift - self._upto), 0)
        begin = np.where(self._below <= shift, self._start, self._stop)
        end = np.concatenate([begin[..., 1:], begin[..., :1]], axis=-1)
        end[..., self._last] = self._points
        return self._group, begin, end, np.minimum(distance, self._aims.cut)

    def draw(self) -> DrawnPoints:
        """Draw each group's points."""
        ties, near, ends = self._aims.ties, self._aims.spread, END_WEIGHT * self._points // 2  # half of it is even
        few = max(self._points // FEW, 1)
        pairs = self._tuples([-near, near], self._least[0], 2 * ends)
        kinds = [
            TupleKind(distance=pairs.distance, begin=(pairs.begin + 1) >> 1, end=(pairs.end + 1) >> 1, times=few),
            TupleKind(distance=pairs.distance, begin=pairs.begin >> 1, end=pairs.end >> 1, times=few),
        ]
        if ties is not None:
            kinds.append(self._tuples([-ties.spread, ties.spread, 0], self._least[1], few))
        kind, points = draw_tuples(self._group, kinds, self._aims.rate)
        far = kind == 2  # after the even and the odd pairs
        low, high, *middle = (np.where(far, number, 2 * number + kind) for number in points)
        low, high = np.maximum(low, -1), np.minimum(high, self._points)
        return DrawnPoints(low=low, high=high, middle=middle[0] if middle else None, far=far if middle else None)

    def draw_single(self) -> Integers:
        """Draw each group's point for the target itself, with a probability proportional to e^(rate·score)."""
        _, begin, end, distance = self.runs(np.zeros((1, 1), dtype=self._whole.dtype))
        _, (points,) = draw_tuples(self._group, [TupleKind(distance=distance, begin=begin, end=end)], self._aims.rate)
        return points

    def _tuples(self, shifts: Sequence[int], least: Integers, beyond: int) -> TupleKind:
        """Return the runs of points for targets t + shift, the lower, the upper and others, ``least`` away at least.

        What lies below all points, for the first side, and above all, for the second one, counts as so many further
        points in the outer run: no weight is on the other side of either, so their distance is the same.
        """
        _, begin, end, distance = self.runs(np.array(shifts, dtype=self._whole.dtype)[:, None])
        begin[0, self._first] -= beyond
        end[1, self._last] += beyond
        return TupleKind(distance=np.maximum(distance, least[self._group]), begin=begin, end=end)


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
    race = np.concatenate([np.tile(group * len(kinds) + at, count) for at, count in enumerate(rows)])
    distance, begin, end = (
        np.concatenate([part.ravel() for part in parts])
        for parts in zip(*((kind.distance, kind.begin, kind.end) for kind in kinds), strict=True)
    )
    order = in_order(race, distance)
    run_sizes = (end - begin)[order]
    origin = np.repeat(np.concatenate([np.arange(count, dtype=np.int8) for count in rows]), len(group))[order]
    runs = np.outer(np.bincount(group), rows).ravel()  # of each place: a group and a kind
    sides = []
    for at in range(max(rows)):
        lacking = [0 if at < count else kind.times for count, kind in zip(rows, kinds, strict=True)]
        sides.append(_Side(run_sizes, origin == at, runs, np.tile(lacking, len(runs) // len(kinds))))
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


def in_order(race: Integers, distance: Integers) -> Integers:
    """Return the order of runs by their place and distance."""
    span = int(distance.max()) + 1
    if distance.dtype != object and (int(race.max()) + 1) * span < 2**63:
        return np.argsort(race * span + distance, kind="stable")  # the quickest for rows that are in order of place
    order = np.argsort(distance, kind="stable")
    return order[np.argsort(race[order], kind="stable")]


class _Side:
    """The points of one side, in the order of all runs."""

    def __init__(self, run_sizes: Integers, own: npt.NDArray[np.bool_], runs: Integers, lacking: Integers) -> None:
        self._many, self._own = run_sizes, own
        self._upto = np.cumsum(np.where(own, run_sizes, 0))
        before = np.append(np.zeros(1, run_sizes.dtype), self._upto[np.cumsum(runs) - 1])[:-1]
        # A place that lacks this side has as many points of it as its tuples count, as if they came before: nobody's.
        self._start = before - lacking
        self.size: Integers = np.where(own, run_sizes, self._upto - np.repeat(self._start, runs))
        """How many points of this side each run's box has."""

    def find(self, chosen: Integers, race: Integers, inside: Integers) -> tuple[Integers, Integers]:
        """Return the run of a point of each chosen box, in its place, and which of the run's points it is."""
        number = inside + np.where(self._own[chosen], self._upto[chosen] - self._many[chosen], self._start[race])
        run = np.searchsorted(self._upto, number, side="right")
        return run, number - self._upto[run] + self._many[run]
