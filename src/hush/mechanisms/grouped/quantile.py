r"""Draw a quantile, the least or the greatest value of every group, together with its interval: exponential mechanism.

Of each group the exact *histogram* is given: how much weight falls on each public bin. A row weighs ⌊W·min(1,
rows/n)⌋ for a unit with n rows in the group, so a unit's weight in a group is at most M = W·rows, whatever its rows
are (n·⌊W·rows/n⌋ ≤ W·rows).

With L the weight below a candidate y, U the weight up to and on it and T all of it, candidate y has the score

    -max(b·L - t, t - b·U, 0), at least -C:

how far y is from the target t. It is drawn with probability proportional to m(y)·e^{rate·score(y)}; m is 1 for a grid
point.

* **quantile** p = a/b: t = a·T. A unit of weight w ≤ M moves the first term by (b-a)·w or -a·w, the second by a·w or
  -(b-a)·w or less, so the score changes by at most max(a, b-a)·M, up or down;
* **MIN** is the value of a low rank r, or of the middle rank if there are fewer than 2r: b = 1, t = min(r, ⌊T/2⌋). A
  unit moves t between 0 and w, as L and U: the score changes by at most M. **MAX** likewise, t = T - min(r, ⌊T/2⌋).
  r is chosen from ε and the number of grid points alone, so large that the empty part of the range hardly ever wins.

If scores change within an interval of length S when one unit comes or goes, log-probabilities change within an
interval of length rate·S: the mechanism has *bounded range* ε = rate·S (Durfee, Rogers 2019), hence is ε-DP. S is
2·max(a, b-a)·M; MIN is written as the quantile 0/1 and MAX as 1/1, so that this holds for them too. At most ``cells``
groups differ between neighbours (`Contribution`), so rate = ε/(S·cells).

**A public number of rows.** Where neighbours replace one row by another of the same group, T and t are fixed, and L and
U move by at most M: S = 2·b·M (``fixed_size``), instead of twice what it is when a unit comes or goes. The rows between
the two move by one rank. So of the weight within the window of ties, below, at most b·M goes out and at most b·M comes
in, and X changes by no more, up or down.

**One draw of two points.** The error bar of a quantile depends on the density of the data, which is private. So a
*pair* of points is drawn, the lower one meant for target t - k, the upper one for t + k; with d₁ and d₂ their
distances from these targets, the negatives of the scores above, the pair's score is -max(d₁, d₂). Both change within
the same interval when a unit comes or goes, and so does their maximum: the pair costs what one point would, where two
draws would have to share ε. The answer is the middle between the two, half their distance the half-width, but at least
one grid point: where many rows share one value both points fall on it, or both on its neighbour.

The candidates are the pairs whose middle is a grid point, for where many rows share one value the other pairs would do
harm. Let the target lie well inside one value's rows, with k reaching into the next: the pair of the two is then as
good as any, and its middle errs by half a step, while a single point hardly ever errs; of the pairs around a grid point
those around the right one win, if its neighbours have about as many rows. Where values are many it does not matter.

Let v be the weight of a row in scores, s = 1/(rate·v), and let there be about as many grid points between any two
neighbouring values around the target. In rows the errors of the two points, beyond k, then have a density proportional
to e^{-max(|x|, |y|)/s}. With m = (x+y)/2 and h = (y-x)/2 that is e^{-|m|/s}·e^{-|h|/s}: the middle and the distance are
independent, and the middle errs as a single point drawn at the same price does. The interval misses if |m| > |h + k|,
which has probability (1 + κ)/2·e^{-κ} with κ = k/(v·s): 1/20 at κ = 3.890.

Where s is few rows, the gaps between these rows matter. In a sample from any density they are independent and
exponential, nearly, and for such data intervals hold as often as they say if the points aim min(1/s, 2)/3 rows further
out; where s is below a row, more often. This is an average over samples. For one of them the probability that an
interval misses depends on the handful of gaps around the target, which no private mechanism can know; one in twenty
samples has twice as many misses. Where s is so small that not even all points of a gap 1/b of a row away could win,
both points aim at t itself: the answer is a p-quantile, of which there may be many.

**Ties.** All this is for values that lie about as dense as the grid allows, or denser. Where they lie on a coarser
lattice (whole numbers in a column of decimals, salaries in thousands), the empty points between two neighbouring
values, N of them at most, win against the values themselves if a target comes within ln(N)/rate of the next value's
rows: then both points fall between the same two values, anywhere, and their interval has nothing to do with the truth.
It would hold for any data if the points aimed much further out. That is honest, and wasteful where there are no ties.
So there are candidates of two kinds, near pairs as above and *far triples*: one point each for the targets t - k', t
and t + k'; the middle one is the answer, and the half-width how far the further one of the others is from it. Their
scores say which are meant. Let X be the weight of the ties around the target: the sum, over all grid points, of b times
their weight as far as it lies within R of t, less c, where it is more. (A point whose rows have the ranks r₁ … r₂
covers b·r₁ - t to b·r₂ - t.) With γ = max(a, b-a)/b and θ public, the scores are

    near: -max(d₁, d₂, γ·(X - θ)),        far: -max(d₁, d₂, d₃, γ·(θ - X)).

*A unit changes X by at most b·M:* it adds b·w ≤ b·M within the window, or less, and pushes as much out of it, a·w and
(b-a)·w at the two ends, or less; what a point has within the window, less c and not below 0, changes by no more than
what it has there. What comes in raises X, what goes out lowers it. So γ·X changes by at most max(a, b-a)·M, as the
distances do; ⌊γ·X⌋ too, for that bound is whole. The scores of all candidates, near and far, change within the same
interval as before, and the price is the same.

With k' = k + (3·ln(N) + 2)/rate intervals of far triples hold for any data: an outer point on the wrong side of the
truth is k' or more from its target, so all triples with one weigh less than e^(-rate·k) of the triple at the targets.
A near pair counts N/10⁴ times. So far triples win as soon as X exceeds θ, where values are at most some ten thousand
over the rate of a row; with many more values near pairs that are as good as any within γ·(X - θ) of their targets, and
look too sure, win a little longer. Where there are no ties, θ = 22/(rate·γ) makes far triples so unlikely that neither
answers nor half-widths suffer. R is so large that near pairs weigh e^(-3·ln(N) - 3) or less once ties are half of the
weight within it, provided that there are so many rows; and c, 4/rate and at least a row, lets pass what does no harm.
Fewer ties than θ are not told, and where they pile up beside the target intervals hold less often than they say. On
lines of fewer than 2¹¹ points, where values often fill the grid and the waste would be felt, and for MIN and MAX, there
are near pairs only; there a lattice coarser than the grid needs a declared step.

**The cut.** max(·, -C) moves no score by more than it moved before. C is public, and so large that all candidates with
a point beyond weigh e⁻²⁰ of one at the targets. What lies that far off need not be known exactly: an engine counts in
at most 2²⁰ bins, and counts again, in cells 2²⁰ times finer (single grid points, if there are no more than 2⁴⁰), only
in bins that reach within C of a target. So the law is that of the whole grid, from one statement that returns few rows.

**Few rows.** One further candidate for the lower point stands for "below all points", one for the upper point for
"above all points", each with m = 10 times the number of points in near pairs, and N/10⁴ in far triples. Their
distances are max(t - k, 0) and max(b·T - t - k, 0): how far the target is from having no weight below it, or above; a
unit moves them by no more than the others. Where there are too few rows for the score to matter the points fall on
these, not anywhere, and the interval is everything. If only one of a pair does, the other is the answer, and the
interval reaches to the further end of the range: where rows are too few for one point, the other may lie beyond them.

>>> middle = GroupedQuantile(fraction=Fraction(1, 2), points=101, epsilon=Fraction(1000))
>>> import numpy as np
>>> ages = Sparse(bins=np.array([3, 50, 99]), weights=np.array([1, 30, 1]))
>>> middle.release([ages]).index.tolist()
[50]
>>> round(GroupedQuantile(fraction=Fraction(1, 2), points=101, epsilon=Fraction(1)).error(0.95), 2)       # rows
4.5

**Draws** are made from exact histograms, one in each group, for all groups at once. A histogram is sparse, so
candidates for a point are few: each occupied bin near the target, each run of empty points between two of them, and all
that lies beyond on either side, where the score is cut; the points of each share one score. Of the candidates, tuples
of points, `draw_tuples` draws one.

**Tuples** of points have probabilities that fall with the largest of their distances. A tuple (y₁, …, y_s) of points
with distances d₁, …, d_s, each from a target of its own, is to have the probability proportional to e^(-rate·max dᵢ).
For each target, its *side*, the points form runs that share a distance. Put the runs of all sides in one order by their
distance, those that tie in any order that is kept to. One of the s runs a tuple's points lie in is then its last, and
its distance is the largest. So the tuples are parted into *boxes*, one a run: the point of this run's side is any of
the run, the points of the other sides are any of their sides' runs before it. A race over the boxes, each weighted by
how many tuples it has, picks one, and a uniform number on every side a tuple of it. There may be tuples of several
kinds, each with boxes of its own, in one race. No number is larger than that of a side's points in all groups and kinds
together: the products, which would be, are never formed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError
from hush.core.numbers import assign
from hush.mechanisms.grouped.base import DrawnByWeight, Histograms, Integers, Sparse
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
class DrawnIntervals:
    """The draw of each group: a grid point, and the half-width of its interval in grid points."""

    index: Integers
    half: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPoints:
    """The drawn points of each group: from 0 to points - 1, -1 for "below all", ``points`` for "above all"."""

    low: Integers
    high: Integers
    middle: Integers
    far: npt.NDArray[np.bool_]
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
    further = np.maximum(drawn.middle - np.maximum(low, 0), np.minimum(high, last) - drawn.middle)
    index, half = np.where(drawn.far, drawn.middle, index), np.where(drawn.far, further, half)
    return DrawnIntervals(index=index, half=np.minimum(np.maximum(half + cell - 1, 1), last))


class PointRuns:
    """Histograms on a line, one in each group, with the scores of one mechanism.

    Every group's points form *runs* of one score each: the bins that lie below a target, each with the empty points
    above it, the one the target lies in, the bins above, each with the empty points below it, and what lies below and
    above all bins. Bins that do not reach within C of a target are part of these outer runs.
    """

    def __init__(self, law: GroupedQuantile, histograms: Sequence[Sparse]) -> None:
        self._law = law
        self._points = law.points
        every, b = Histograms.of(histograms), law.fraction.denominator
        group, weights, edges = every.groups, every.joined.weights, every.edges
        start = every.joined.bins * law.cell
        wide = law.cell if every.joined.cells is None else every.joined.cells * law.cell
        stop = np.minimum(start + wide, self._points)
        # Exact integers throughout: of the machine where all sums fit, else Python's own.
        largest = max(float(weights.sum(dtype=np.float64)) * b, law.reach * b)  # and times γ
        weights = (weights if largest < _LARGEST_MACHINE_SUM else weights.astype(object)) * b
        upto = np.concatenate([np.zeros(1, weights.dtype), np.cumsum(weights)])
        self._totals: Integers = upto[edges[1:]] - upto[edges[:-1]]
        self.targets: Integers = law.target(self._totals // b)
        # The weight below a bin and up to it, less the target:
        below, above = (upto[ends] - (upto[edges[:-1]] + self.targets)[group] for ends in (slice(-1), slice(1, None)))
        self._least = self._floors(below, above, edges)
        # Bins beyond the cut join the outer runs: their score is -C either way.
        radius = law.cut + (law.spread if law.ties is None else law.ties.spread)
        near = (above > -radius) & (below < radius)
        group, start, stop, below, above = (column[near] for column in (group, start, stop, below, above))
        # The runs of each group: the points below all bins, a run for each bin, the points above all bins.
        runs = np.bincount(group, minlength=len(self._totals)) + 2
        self._group = np.repeat(np.arange(len(runs)), runs)
        self._last = np.cumsum(runs) - 1
        self._first = self._last - runs + 1
        inner = np.arange(1, len(group) + 1) + 2 * group
        # The points of one side, and the ends that count as points, of all groups together:
        largest = 2 * (END_WEIGHT + 2) * self._points * len(runs)
        form = np.int64 if largest < _LARGEST_MACHINE_SUM else object
        self._start, self._stop = np.zeros((2, len(self._group)), dtype=form)
        self._start[inner], self._start[self._last] = start, self._points
        self._stop[inner + 1] = stop  # of the bin before
        self._below, self._upto = np.zeros((2, len(self._group)), dtype=self._totals.dtype)
        self._below[inner], self._below[inner + 1], self._below[self._first] = below, above, -radius
        self._upto[inner], self._upto[inner - 1], self._upto[self._last] = above, below, radius

    def _floors(self, below: Integers, above: Integers, edges: Integers) -> tuple[Integers, Integers]:
        """Return the least distances of each group's near pairs and of its far triples, by the weight of its ties."""
        ties, nothing = self._law.ties, np.zeros(len(self._totals), dtype=self._totals.dtype)
        if ties is None:
            return nothing, nothing
        # X: the weight of each grid point within the window, as far as it exceeds c.
        within = np.minimum(above, ties.window) - np.maximum(below, -ties.window)
        upto = np.append(np.zeros(1, self._totals.dtype), np.cumsum(np.maximum(within - ties.harmless, 0)))
        more = upto[edges[1:]] - upto[edges[:-1]] - ties.doubt
        a, b, cut = ties.gamma.numerator, ties.gamma.denominator, self._law.cut
        # ⌊γ·(X - θ)⌋ for near pairs and ⌊γ·(θ - X)⌋ for far triples, as whole distances.
        return np.clip(more * a // b, 0, cut), np.clip(-more * a // b, 0, cut)

    def runs(self, shift: int | Integers) -> tuple[Integers, Integers, Integers, Integers]:
        """Return each run's group, its first point, its end, and the distance of its points from target t + shift.

        For a column of shifts, all but the group have a row for each.
        """
        distance = np.maximum(np.maximum(self._below - shift, shift - self._upto), 0)
        begin = np.where(self._below <= shift, self._start, self._stop)
        end = np.concatenate([begin[..., 1:], begin[..., :1]], axis=-1)
        end[..., self._last] = self._points
        return self._group, begin, end, np.minimum(distance, self._law.cut)

    def draw(self) -> DrawnPoints:
        """Draw each group's points."""
        ties, near, ends = self._law.ties, self._law.spread, END_WEIGHT * self._points // 2  # half of it is even
        few = max(self._points // POINTS_PER_WEIGHT, 1)
        pairs = self._tuples([-near, near], self._least[0], 2 * ends)
        # Even and odd pairs: both points have the same parity, so that their middle is a grid point.
        kinds = [
            TupleKind(distance=pairs.distance, begin=(pairs.begin + 1) >> 1, end=(pairs.end + 1) >> 1, times=few),
            TupleKind(distance=pairs.distance, begin=pairs.begin >> 1, end=pairs.end >> 1, times=few),
        ]
        if ties is not None:
            kinds.append(self._tuples([-ties.spread, ties.spread, 0], self._least[1], few))
        kind, points = draw_tuples(self._group, kinds, self._law.rate)
        far = kind == 2  # after the even and the odd pairs
        low, high, *middle = (np.where(far, number, 2 * number + kind) for number in points)
        low, high = np.maximum(low, -1), np.minimum(high, self._points)
        return DrawnPoints(low=low, high=high, middle=middle[0] if middle else low, far=far)

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
    order = np.lexsort((distance, race))
    run_sizes, begin = (end - begin)[order], begin[order]
    runs = np.outer(np.bincount(group), rows).ravel()  # of each place: a group and a kind
    sides = np.arange(max(rows))[:, None]
    own = np.repeat(np.concatenate([np.arange(count) for count in rows]), len(group))[order] == sides
    # How many points of each side come up to each run, in the order of all runs, and before each place.
    upto = np.cumsum(np.where(own, run_sizes, 0), axis=1)
    before = np.roll(upto[:, np.cumsum(runs) - 1], 1, axis=1)
    before[:, 0] = 0
    # A place that lacks a side has `times` points of it before it, nobody's: so the number of tuples that a point is in
    # follows from its kind, and not from the data.
    lacking = np.where(sides < rows, 0, [kind.times for kind in kinds])
    start = before - np.tile(lacking, len(runs) // len(kinds))
    sizes = np.where(own, run_sizes, upto - np.repeat(start, runs, axis=1))  # of each side in each run's box
    of_group = runs.reshape(-1, len(kinds)).sum(axis=1)
    boxes = select_each(-distance[order], rate, weights=sizes[0], times=[*sizes[1:]], sizes=of_group)
    inside = uniform_integers(sizes[:, boxes].ravel()).reshape(len(sides), -1)
    where = np.searchsorted(np.cumsum(runs), boxes, side="right")
    number = inside + np.where(own[:, boxes], upto[:, boxes] - run_sizes[boxes], start[:, where])
    points = []
    for side, wanted in zip(upto, number, strict=True):
        run = np.searchsorted(side, wanted, side="right")
        points.append(begin[run] + wanted - side[run] + run_sizes[run])
    return where % len(kinds), points


_CUT_EXPONENT = 20.0
_GAP_SHARE, _LARGEST_ROW_RATE = 1 / 3, 2
"""Gaps are uneven, so points aim 1/3 of a row further out for each unit of a row's rate, which counts as 2 at most."""
_CERTAINTY = 20.0
"""Points aim at the target itself where even the smallest miss has a probability of at most e⁻²⁰."""
FINEST = 10**30
"""The largest denominator of a fraction; ranks stay within the range of floats."""
_FEWEST_POINTS_WITH_TIES = 2**11
_DOUBT_EXPONENT = 22.0
_HARMLESS_EXPONENT = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedQuantile(DrawnByWeight):
    """Draws a quantile of every group's values on a line of grid points, and an interval around it."""

    fraction: Fraction
    """Which quantile; 0 for the least value and 1 for the greatest."""
    points: int
    """The number of grid points of the line."""
    confidence: float = 0.95
    """The probability with which intervals hold."""
    cell: int = 1
    """The number of neighbouring points that share one cell of a histogram."""
    fixed_size: bool = False
    """Whether neighbours replace one row by another of the same group, so that the number of rows is public."""
    spread: int = field(init=False)
    """k: the distance below and above the target at which the two points aim."""
    cut: int = field(init=False)
    """C: scores end at -C."""
    rank: int = field(init=False)
    """r: the least and the greatest value are those of the r-th rank; 0 for quantiles."""
    ties: Ties | None = field(init=False)
    """When the outer points aim further away; None if they never do."""

    def __post_init__(self) -> None:
        if not 0 <= self.fraction <= 1 or self.fraction.denominator > FINEST:
            allowed = "a probability from 0 to 1, of 30 decimals at most"
            raise InvalidValueError("fraction", got=float(self.fraction), allowed=allowed)
        if self.fixed_size and self.contribution.cells > 1:
            raise InvalidValueError("fixed_size", got=True, allowed="False where a unit counts in several groups")
        spread, rate, points, a, b = (
            self._spread(self.confidence),
            float(self.rate),
            math.log(self.points),
            self.fraction.numerator,
            self.fraction.denominator,
        )
        # C: at this distance all candidates together weigh e⁻²⁰. Pairs have two points, far triples three, each
        # anywhere among the points and the ends.
        anywhere = math.log(END_WEIGHT + 1) + points
        cut = math.ceil(((2 if self._extreme else 3) * anywhere + _CUT_EXPONENT) / rate)
        # r: candidates beyond all points then hardly ever win. Of a pair at the targets, one with the outer point
        # beyond all rows weighs w·e^(-rate·(r - k)), w being the weight of all that may lie there, and one with both
        # points beyond, of which the inner one has no other place there than points, w·points·e^(-rate·(r + k)): each
        # is at most half of what the confidence leaves.
        outer = anywhere + math.log(2 / (1 - self.confidence))
        inside = max(math.ceil(outer / rate) + spread, math.ceil((outer + points) / rate) - spread)
        # Near pairs only, on short lines, at the ends, and where both points aim at the target itself.
        ties = None
        if not self._extreme and spread and self.points >= _FEWEST_POINTS_WITH_TIES:
            gamma = Fraction(max(a, b - a), b)
            wrong = 3 * points  # the logarithm of the number of triples: each of three points may lie anywhere
            ties = Ties(
                spread=spread + math.ceil((wrong + 2) / rate),
                window=math.ceil((wrong + 3 + _DOUBT_EXPONENT) / (rate * float(gamma))),
                harmless=max(self._row, math.ceil(_HARMLESS_EXPONENT / rate)),
                doubt=math.ceil(_DOUBT_EXPONENT / (rate * float(gamma))),
                gamma=gamma,
            )
        assign(self, spread=spread, cut=cut, rank=inside if self._extreme else 0, ties=ties)

    @property
    def span(self) -> int:
        """S: the length of the interval in which all scores change when one unit comes or goes, or is replaced."""
        a, b = self.fraction.numerator, self.fraction.denominator
        return 2 * (b if self.fixed_size else max(a, b - a)) * self.row_weight * self.rows

    @property
    def reach(self) -> int:
        """The distance from the target up to which the histogram must be known point by point."""
        near = self.cut + self.spread
        return near if self.ties is None else max(near, self.cut + self.ties.spread, self.ties.window)

    def release(self, histograms: Sequence[Sparse]) -> DrawnIntervals:
        """Draw the quantile of every group, as a grid point, and the half-width of its interval."""
        if not len(histograms):
            return DrawnIntervals(index=np.zeros(0, dtype=np.int64), half=np.zeros(0, dtype=np.int64))
        return interval(PointRuns(self, histograms).draw(), self.points - 1, self.cell)

    def release_points(self, histograms: Sequence[Sparse]) -> Integers:
        """Draw of every group a single point that aims at the target itself, at the same price.

        Nothing is known of its interval, but it takes half as many rows (`rows_needed`).
        """
        if not len(histograms):
            return np.zeros(0, dtype=np.int64)
        runs = PointRuns(self, histograms)
        group, begin, end, distance = runs.runs(np.zeros((1, 1), dtype=np.int64))
        return draw_tuples(group, [TupleKind(distance=distance, begin=begin, end=end)], self.rate)[1][0]

    def error(self, confidence: float = 0.95) -> float:
        """Return the distance, in rows, at which the interval's points aim: about the error of the quantile.

        That is for values that lie dense; the interval that is drawn with the answer knows how they lie.
        """
        return (self._spread(confidence) + self.rank) / self._row

    def target(self, weight: Any) -> Any:
        """Return the target t of groups of this weight, in units of scores; as private as the weight."""
        if not self._extreme:
            return weight * self.fraction.numerator
        inside = np.minimum(self.rank, weight // 2)
        return weight - inside if self.fraction else inside

    def rows_needed(self) -> float:
        """Return the number of rows with which a quantile is known for any data; with fewer it may be any value.

        A point at each target, at the least, stands against all points and what counts as such beyond them, on both
        sides: a target must lie so many rows inside that e^(rate·distance) exceeds the square of their number.
        """
        against = 2 * (math.log(END_WEIGHT + 1) + math.log(self.points))
        inside = (self.spread + against / float(self.rate)) / self._row
        return inside / float(min(self.fraction, 1 - self.fraction))

    @property
    def _extreme(self) -> bool:
        return self.fraction.denominator == 1

    @property
    def _row(self) -> int:
        """The weight of a row in scores."""
        return self.fraction.denominator * self.row_weight

    def _spread(self, confidence: float) -> int:
        """Return k, the distance from the target at which the two points aim."""
        speed = float(self.rate * self._row)
        if speed >= self.fraction.denominator * (2 * math.log(self.points) + _CERTAINTY):
            # At a miss of 1/b of a row all pairs together weigh points²·e^(-speed/b) of the right one: e⁻²⁰ here.
            return 0
        # κ = k·rate solves (1 + κ)/2·e^(-κ) = 1 - confidence (module docstring); rounded up.
        rows = _far_enough(1 - confidence) / speed + min(speed, _LARGEST_ROW_RATE) * _GAP_SHARE
        return math.ceil(rows * self._row)


@lru_cache(maxsize=256)
def _far_enough(missing: float) -> float:
    """Return κ ≥ 0 with (1 + κ)/2·e^(-κ) = missing, which is at most 1/2."""
    # At the upper end the left side is below `missing` for all values up to 1/2.
    low, high = 0.0, 2 - 2 * math.log(missing)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + middle) / 2 * math.exp(-middle) > missing else (low, middle)
    # The upper end of the bracket: points never aim too near.
    return high
