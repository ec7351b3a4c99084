"""Draw the points that a quantile mechanism aims at: from exact histograms, one in each group, all groups at once.

The scores and the meaning of the points are in `hush.mechanisms.grouped.quantile`. A histogram is sparse, so
candidates for a point are few: each occupied bin near the target, each run of empty points between two of them, and all
that lies beyond on either side, where the score is cut; the points of each share one score. Of the candidates, tuples
of points, `draw_tuples` draws one.

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
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hush.mechanisms.grouped.base import Histograms, Integers, Sparse
from hush.noise import select_each, uniform_integers

END_WEIGHT = 10
"""The weight of "below all" and of "above all" in near pairs, as a multiple of all points together."""
POINTS_PER_WEIGHT = 10**4
"""A near pair, against far triples, and an end of a far triple weigh the number of points divided by this."""
_LARGEST_MACHINE_SUM = 2**60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ties:
    """The parameters by which ties around a quantile decide between near pairs and far triples."""

    spread: int
    """k': the distance from the target at which the outer points of far triples aim."""
    window: int
    """R: ties count within this distance of the target."""
    harmless: int
    """c: a weight of up to c on one grid point is no tie."""
    doubt: int
    """θ: with more ties than this, far triples win."""
    gamma: Fraction
    """γ: the factor of the weight of ties in scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """The public parameters of a draw: the targets of the points, and the rate at which probabilities fall."""

    fraction: Fraction
    """Which quantile; 0 for the least value and 1 for the greatest."""
    points: int
    """The number of grid points of the line."""
    cell: int
    """The number of neighbouring points that share one cell of a histogram, at least."""
    rate: Fraction
    spread: int
    """k: the distance below and above the target at which the two points aim."""
    cut: int
    """C: scores end at -C."""
    rank: int
    """r: the least and the greatest value are those of the r-th rank; 0 for quantiles."""
    ties: Ties | None
    """When the outer points aim further away; None if they never do."""

    @property
    def reach(self) -> int:
        """The distance from the target up to which the histogram must be known point by point."""
        near = self.cut + self.spread
        return near if self.ties is None else max(near, self.cut + self.ties.spread, self.ties.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnIntervals:
    """The draw of each group: a grid point, and the half-width of its interval in grid points."""

    index: Integers
    half: Integers


def draw_quantiles(aims: Aims, histograms: Sequence[Sparse]) -> DrawnIntervals:
    """Draw each group's answer and its interval."""
    if not len(histograms):
        return DrawnIntervals(index=np.zeros(0, dtype=np.int64), half=np.zeros(0, dtype=np.int64))
    return interval(PointRuns(aims, histograms).draw(), aims.points - 1, aims.cell)


def draw_points(aims: Aims, histograms: Sequence[Sparse]) -> Integers:
    """Draw a single point in each group, without an interval."""
    if not len(histograms):
        return np.zeros(0, dtype=np.int64)
    return PointRuns(aims, histograms).draw_single()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPoints:
    """The drawn points of each group: from 0 to points - 1, -1 for "below all", ``points`` for "above all"."""

    low: Integers
    high: Integers
    middle: Integers | None = None
    far: npt.NDArray[np.bool_] | None = None
    """Which groups have far points, and so a middle one."""


def interval(drawn: DrawnPoints, last: int, cell: int) -> DrawnIntervals:
    """Return each group's answer and half-width, from its drawn points; the half-width includes the cell."""
    low, high = drawn.low, drawn.high
    index = (low + high) // 2
    half = np.maximum(low, high) - index  # among many rows they seldom cross
    below, above = low < 0, high > last
    index = np.where(below, high, np.where(above, low, index))  # the other one is nearer to the truth
    # There are too few rows on that side: the other point may lie on the wrong side of them, far off.
    half = np.where(below | above, np.maximum(index, last - index), half)
    neither = below & above  # too few rows to tell anything
    index, half = np.where(neither, last // 2, index), np.where(neither, last - last // 2, half)
    if drawn.far is not None and drawn.middle is not None:
        further = np.maximum(drawn.middle - np.maximum(low, 0), np.minimum(high, last) - drawn.middle)
        index, half = np.where(drawn.far, drawn.middle, index), np.where(drawn.far, further, half)
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
        # Exact integers throughout: of the machine where all sums fit, else Python's own.
        largest = max(float(weights.sum(dtype=np.float64)) * b, aims.reach * b)  # and times γ
        weights = (weights if largest < _LARGEST_MACHINE_SUM else weights.astype(object)) * b
        upto = np.concatenate([np.zeros(1, weights.dtype), np.cumsum(weights)])
        self._totals: Integers = upto[edges[1:]] - upto[edges[:-1]]
        # The weight below a bin and up to it, less the target:
        below, above = (upto[ends] - (upto[edges[:-1]] + self.targets)[group] for ends in (slice(-1), slice(1, None)))
        self._least = self._floors(below, above, edges)
        radius = aims.cut + (aims.spread if aims.ties is None else aims.ties.spread)
        # Bins beyond the cut join the outer runs: their score is -C either way.
        near = (above > -radius) & (below < radius)
        self._lay(group[near], start[near], stop[near], below[near], above[near], radius)

    @cached_property
    def targets(self) -> Integers:
        """Each group's target t, in the scores' own unit."""
        fraction = self._aims.fraction
        if 0 < fraction < 1:
            return self._totals // fraction.denominator * fraction.numerator  # a multiple of the denominator
        inside: Integers = np.minimum(self._totals // 2, self._aims.rank)
        return inside if fraction == 0 else self._totals - inside

    def _floors(self, below: Integers, above: Integers, edges: Integers) -> tuple[Integers, Integers]:
        """Return the least distances of each group's near pairs and of its far triples, by the weight of its ties."""
        ties, nothing = self._aims.ties, np.zeros(len(self._totals), dtype=self._totals.dtype)
        if ties is None:
            return nothing, nothing
        # X: the weight of each grid point within the window, as far as it exceeds c.
        within = np.minimum(above, ties.window) - np.maximum(below, -ties.window)
        upto = np.append(np.zeros(1, self._totals.dtype), np.cumsum(np.maximum(within - ties.harmless, 0)))
        more = upto[edges[1:]] - upto[edges[:-1]] - ties.doubt
        a, b, cut = ties.gamma.numerator, ties.gamma.denominator, self._aims.cut
        # ⌊γ·(X - θ)⌋ for near pairs and ⌊γ·(θ - X)⌋ for far triples, as whole distances.
        return np.clip(more * a // b, 0, cut), np.clip(-more * a // b, 0, cut)

    def _lay(
        self, group: Integers, start: Integers, stop: Integers, below: Integers, above: Integers, radius: int
    ) -> None:
        """Lay out the runs of each group: the points below all bins, a run for each bin, the points above all bins."""
        runs = np.bincount(group, minlength=len(self._totals)) + 2
        self._group = np.repeat(np.arange(len(runs)), runs)
        self._last = np.cumsum(runs) - 1
        self._first = self._last - runs + 1
        inner = np.arange(1, len(group) + 1) + 2 * group
        largest = (
            2 * (END_WEIGHT + 2) * self._points * len(runs)
        )  # the points of one side, and the ends that count as points
        self._start, self._stop = np.zeros(
            (2, len(self._group)), dtype=np.int64 if largest < _LARGEST_MACHINE_SUM else object
        )
        self._start[inner], self._start[self._last] = start, self._points
        self._stop[inner + 1] = stop  # of the bin before
        self._below, self._upto = np.zeros((2, len(self._group)), dtype=self._totals.dtype)
        self._below[inner], self._below[inner + 1], self._below[self._first] = below, above, -radius
        self._upto[inner], self._upto[inner - 1], self._upto[self._last] = above, below, radius

    def runs(self, shift: int | Integers) -> tuple[Integers, Integers, Integers, Integers]:
        """Return each run's group, its first point, its end, and the distance of its points from target t + shift.

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
        few = max(self._points // POINTS_PER_WEIGHT, 1)
        pairs = self._tuples([-near, near], self._least[0], 2 * ends)
        # Even and odd pairs: both points have the same parity, so that their middle is a grid point.
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
        _, begin, end, distance = self.runs(np.zeros((1, 1), dtype=self._totals.dtype))
        _, (points,) = draw_tuples(self._group, [TupleKind(distance=distance, begin=begin, end=end)], self._aims.rate)
        return points

    def _tuples(self, shifts: Sequence[int], least: Integers, beyond: int) -> TupleKind:
        """Return the runs of points for the targets t + shift, one side a shift, with distances of at least ``least``.

        What lies below all points, for the first side, and above all, for the second one, counts as so many further
        points in the outer run: no weight is on the other side of either, so their distance is the same.
        """
        _, begin, end, distance = self.runs(np.array(shifts, dtype=self._totals.dtype)[:, None])
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
    """The number that follows a run's last point."""
    times: int = 1
    """The weight of each tuple, for a kind that lacks a side that other kinds have."""


def draw_tuples(group: Integers, kinds: Sequence[TupleKind], rate: Fraction) -> tuple[Integers, list[Integers]]:
    """Draw each group's tuple: its kind, and the numbers of its points, side by side; any numbers for sides it lacks.

    ``group`` is that of each run, alike for all sides. Every group has runs.
    """
    rows = [len(kind.distance) for kind in kinds]
    race = np.concatenate(
        [np.tile(group * len(kinds) + number_of_side, count) for number_of_side, count in enumerate(rows)]
    )
    distance, begin, end = (
        np.concatenate([rows_of_kind.ravel() for rows_of_kind in parts])
        for parts in zip(*((kind.distance, kind.begin, kind.end) for kind in kinds), strict=True)
    )
    order = in_order(race, distance)
    run_sizes = (end - begin)[order]
    origin = np.repeat(np.concatenate([np.arange(count, dtype=np.int8) for count in rows]), len(group))[order]
    runs = np.outer(np.bincount(group), rows).ravel()  # of each place: a group and a kind
    sides = []
    for number_of_side in range(max(rows)):
        lacking = [0 if number_of_side < count else kind.times for count, kind in zip(rows, kinds, strict=True)]
        sides.append(_Side(run_sizes, origin == number_of_side, runs, np.tile(lacking, len(runs) // len(kinds))))
    weights, *times = (side.size for side in sides)
    boxes = select_each(
        -distance[order], rate, weights=weights, times=times, sizes=runs.reshape(-1, len(kinds)).sum(axis=1)
    )
    inside = uniform_integers(np.concatenate([side.size[boxes] for side in sides])).reshape(len(sides), -1)
    where = np.searchsorted(np.cumsum(runs), boxes, side="right")
    points = []
    for side, number in zip(sides, inside, strict=True):
        run, offset = side.find(boxes, where, number)
        points.append(begin[order[run]] + offset)
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

    def __init__(self, run_sizes: Integers, mine: npt.NDArray[np.bool_], runs: Integers, lacking: Integers) -> None:
        self._run_sizes, self._mine = run_sizes, mine
        self._upto = np.cumsum(np.where(mine, run_sizes, 0))
        before = np.append(np.zeros(1, run_sizes.dtype), self._upto[np.cumsum(runs) - 1])[:-1]
        # A place that lacks this side has as many points of it as its tuples count, as if they came before: nobody's.
        self._start = before - lacking
        self.size: Integers = np.where(mine, run_sizes, self._upto - np.repeat(self._start, runs))
        """The number of points of this side in each run's box."""

    def find(self, boxes: Integers, race: Integers, inside: Integers) -> tuple[Integers, Integers]:
        """Return the run of the point with number ``inside`` in each chosen box, and its index within the run."""
        number = inside + np.where(self._mine[boxes], self._upto[boxes] - self._run_sizes[boxes], self._start[race])
        run = np.searchsorted(self._upto, number, side="right")
        return run, number - self._upto[run] + self._run_sizes[run]
