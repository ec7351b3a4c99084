"""Drawing quantiles and modes: the exponential mechanism over an exact histogram.

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

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.engines.base import Sparse
from hush.noise import select, uniform_integer
from hush.query.plan.choices import END_WEIGHT, ChoiceKind, LineHistogram, ValueHistogram
from hush.query.plan.plan import Pick

Integers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """One group's pick: a grid point (or the number of a listed value), and its half-width in grid points."""

    index: int
    half: int | None = None


def pick(plan: Pick, histogram: Sparse) -> Picked:
    """Draw one group's answer, and for values on a line its interval."""
    if isinstance(plan.choice.histogram, ValueHistogram):
        weights = np.zeros(len(plan.choice.histogram.values), dtype=np.int64)
        weights[histogram.bins] = histogram.weights
        return Picked(index=select(weights, plan.rate))
    line = Line(plan, histogram)
    low, high = line.draw()
    last = plan.choice.histogram.points - 1
    if low < 0 and high > last:  # too few rows to tell anything
        return Picked(index=last // 2, half=last - last // 2)
    if low < 0 or high > last:  # the other one is nearer to the truth
        index = high if low < 0 else low
        return Picked(index=index, half=max(index if low < 0 else last - index, min(1, last)))
    low, high = min(low, high), max(low, high)  # among many rows they seldom cross
    middle = (low + high) // 2
    return Picked(index=middle, half=max(high - middle, min(1, last)))


class Line:
    """One group's histogram on a line, with the scores of one pick."""

    def __init__(self, plan: Pick, sparse: Sparse) -> None:
        histogram = plan.choice.histogram
        assert isinstance(histogram, LineHistogram)  # noqa: S101 - the caller looked
        self._plan = plan
        self._points = histogram.points
        self._start: Integers = sparse.bins * histogram.cell
        wide = histogram.cell if sparse.cells is None else sparse.cells * histogram.cell
        self._stop: Integers = np.minimum(self._start + wide, self._points)
        most = max(float(sparse.weights.sum(dtype=np.float64)) * plan.choice.denominator, plan.cut, plan.spread)
        small = most < 2**60
        weights = sparse.weights if small else sparse.weights.astype(object)
        self._upto: Integers = np.concatenate([weights[:0], [0], np.cumsum(weights)]) * plan.choice.denominator

    @property
    def target(self) -> int:
        """The target t, in the scores' own unit."""
        choice, whole = self._plan.choice, int(self._upto[-1])
        if choice.kind is ChoiceKind.QUANTILE:
            assert choice.fraction is not None  # noqa: S101 - a quantile has a fraction
            return choice.fraction.numerator * whole // choice.denominator  # whole is a multiple of the denominator
        inside = min(self._plan.rank, whole // 2)
        return inside if choice.kind is ChoiceKind.MIN else whole - inside

    def candidates(self, shift: int) -> tuple[Integers, Integers, Integers]:
        """Return where each run of points begins, how many points it has, and its score for target t + shift.

        Only bins that reach within C of the target are told apart.
        """
        target, cut = self.target + shift, self._plan.cut
        below, upto = self._upto[:-1], self._upto[1:]
        first = int(np.searchsorted(upto, target - cut, side="right"))
        last = max(first, int(np.searchsorted(below, target + cut, side="left")))
        starts, stops = self._start[first:last], self._stop[first:last]
        count = last - first
        begin: Integers = np.zeros(2 * count + 2, dtype=np.int64)
        begin[1:-1:2], begin[2:-1:2], begin[-1] = starts, stops, self._points
        low: Integers = np.repeat(self._upto[first : last + 1], 2)
        # run 2i has no rows: L = U; run 2i+1 is a bin: its L and U are those of the runs beside it
        left, right = low[:-1], low[1:]
        score = -np.minimum(np.maximum(np.maximum(left - target, target - right), 0), cut)
        return begin[:-1], np.diff(begin), score

    def draw(self) -> tuple[int, int]:
        """Draw a pair of grid points, counted from the first; -1 is below all of them, their number above all."""
        below, above = self._sides(-self._plan.spread, -1), self._sides(self._plan.spread, self._points)
        distances = np.union1d(below[0].distances, above[0].distances)
        within = [(lower.within(distances), upper.within(distances)) for lower, upper in zip(below, above, strict=True)]
        pairs = [np.diff(a * b, prepend=0) for a, b in within]  # of even points, and of odd ones
        at = select(-distances, self._plan.rate, weights=pairs[0] + pairs[1])
        number = uniform_integer(int(pairs[0][at] + pairs[1][at]))
        odd = number >= int(pairs[0][at])
        if odd:
            number -= int(pairs[0][at])
        (a, b), lower, upper = within[odd], below[odd], above[odd]
        a1, b1 = int(a[at]), int(b[at])
        a0, b0 = (int(a[at - 1]), int(b[at - 1])) if at else (0, 0)
        # of pairs whose larger distance is this one: first those where it is the lower point's, then the others
        first = (a1 - a0) * b1
        if number < first:
            return lower.point(a0 + number // b1), upper.point(number % b1)
        one, other = divmod(number - first, b1 - b0)
        return lower.point(one), upper.point(b0 + other)

    def _sides(self, shift: int, end: int) -> tuple[Side, Side]:
        """Return the even points and the odd ones, as they lie around target t + shift; ``end`` lies beyond them."""
        begin, points, score = self.candidates(shift)
        # the outer runs, even if they have no points, have the scores of what lies beyond
        distance = -np.concatenate([score, score[[0 if end < 0 else -1]]])
        order = np.argsort(distance, kind="stable")
        extra = END_WEIGHT * self._points // 2  # of what lies beyond, half is even
        small = ((END_WEIGHT + 1) * self._points) ** 2 < 2**62  # all pairs
        sides = []
        for parity in (0, 1):
            first = begin + (begin + parity) % 2
            many = np.append(
                np.maximum(0, (begin + points - first + 1) // 2).astype(np.int64 if small else object), extra
            )
            upto = np.concatenate([many[:1] * 0, np.cumsum(many[order])])
            sides.append(Side(np.append(first, end), order, distance[order], upto))
        return sides[0], sides[1]


@dataclass(frozen=True, slots=True)
class Side:
    """All points of even number, or all of odd, in the order of their distance from one target: run after run."""

    begin: Integers
    """Where each run begins; what stands for all that lies beyond comes last."""
    order: Integers
    distances: Integers
    """Of the runs in their order, ascending."""
    upto: Integers
    """How many points the runs before have."""

    def within(self, distances: Integers) -> Integers:
        """Return how many points lie within these distances."""
        return self.upto[np.searchsorted(self.distances, distances, side="right")]

    def point(self, number: int) -> int:
        """Return the point of this number."""
        at = int(np.searchsorted(self.upto, number, side="right")) - 1
        run = int(self.order[at])
        begin = int(self.begin[run])
        return begin if run == len(self.begin) - 1 else begin + 2 * (number - int(self.upto[at]))
