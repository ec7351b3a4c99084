"""Drawing quantiles and modes: the exponential mechanism over an exact histogram.

A histogram is sparse, so candidates are few: each occupied bin, and each run of empty bins between two of them, whose
grid points all have one score. A race weighted by the number of points picks one of these, and a uniform draw one of
its points: together exactly the exponential mechanism over all grid points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.engines.base import Sparse
from hush.noise import select, uniform_integer
from hush.query.plan.choices import FLANK_SCALES, Choice, ChoiceKind, LineHistogram, ValueHistogram
from hush.query.plan.plan import CONFIDENCE, Pick

Integers = npt.NDArray[Any]
_WIDTHS = -math.log(1 - CONFIDENCE)
"""Half-widths are this many scales."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """One group's pick: a grid point (or the number of a listed value), and the scale of its error in grid points."""

    index: int
    scale: float | None


def pick(plan: Pick, histogram: Sparse) -> Picked:
    """Draw one group's answer, and for values on a line its error scale."""
    choice = plan.choice
    if isinstance(choice.histogram, ValueHistogram):
        weights = np.zeros(len(choice.histogram.values), dtype=np.int64)
        weights[histogram.bins] = histogram.weights
        return Picked(index=select(weights, plan.rate), scale=None)
    runs = _Runs(choice.histogram, histogram)
    shift = math.ceil(FLANK_SCALES / float(plan.flank_rate)) if plan.flank_rate else 0
    answer = runs.draw(runs.scores(plan, 0), plan.rate)
    if not plan.flank_rate:
        return Picked(index=answer, scale=None)
    high = runs.draw(runs.scores(plan, shift), plan.flank_rate)
    low = runs.draw(runs.scores(plan, -shift), plan.flank_rate) if choice.flanks == 2 else answer
    scale = abs(high - low) / (choice.flanks * shift * float(plan.rate))
    return Picked(index=answer, scale=max(scale, _doubt(choice, low, answer, high) / _WIDTHS))


def _doubt(choice: Choice, low: int, answer: int, high: int) -> int:
    """Return the least half-width, in grid points, that draws which hardly saw any rows allow; 0 if they did see some.

    The flanks lie ten of their scales from the answer. If they come out in the wrong order, or both far away, there are
    not that many rows, so nothing says that the answer is near any. This looks at the draws alone, hence is free.
    """
    assert isinstance(choice.histogram, LineHistogram)  # noqa: S101 - listed values have no width
    points, slack = choice.histogram.points, choice.histogram.width
    if choice.kind is ChoiceKind.MAX:
        low, high = high, answer
    if not low - slack <= answer <= high + slack:
        return points
    return high - low if 5 * min(answer - low, high - answer) > points else 0


class _Runs:
    """Occupied bins and the empty runs between them, in order."""

    def __init__(self, histogram: LineHistogram, sparse: Sparse) -> None:
        width, last = histogram.width, histogram.points
        starts = sparse.bins * width
        stops = np.minimum(starts + width, last)
        count = len(starts)
        begin: Integers = np.empty(2 * count + 1, dtype=np.int64)
        end: Integers = np.empty(2 * count + 1, dtype=np.int64)
        begin[1::2], end[1::2] = starts, stops
        begin[0], begin[2::2] = 0, stops
        end[0:-1:2], end[-1] = starts, last
        weight: Integers = np.zeros(2 * count + 1, dtype=object)
        weight[1::2] = sparse.weights.tolist()
        self._begin, self._points, self._weight = begin, end - begin, weight
        self._below = np.concatenate([np.zeros(1, dtype=object), np.cumsum(weight)[:-1]]) if count else weight
        self._total = int(weight.sum()) if count else 0

    def scores(self, plan: Pick, shift: int) -> Integers:
        """Return every run's score, the target moved inwards by ``shift`` (for quantiles: upwards)."""
        choice = plan.choice
        if choice.kind is ChoiceKind.MAX:
            above = self._total - self._below - self._weight
            target, first, second = choice.rank_offset(plan.rate) + shift, above, above + self._weight
        elif choice.kind is ChoiceKind.MIN:
            target = choice.rank_offset(plan.rate) + shift
            first, second = self._below, self._below + self._weight
        else:
            assert choice.fraction is not None  # noqa: S101 - a quantile has a fraction
            a, b = choice.fraction.numerator, choice.fraction.denominator
            target, first, second = a * self._total + shift, b * self._below, b * (self._below + self._weight)
        score = -np.maximum(np.maximum(first - target, target - second), 0)
        fits = len(score) == 0 or max(abs(int(score.min())), abs(int(score.max()))) < 2**61
        return np.asarray(score.astype(np.int64) if fits else score)

    def draw(self, scores: Integers, rate: Any) -> int:
        """Draw a grid point, counted from the first."""
        run = select(scores, rate, weights=self._points)
        return int(self._begin[run]) + uniform_integer(int(self._points[run]))
