r"""Release a quantile of one column, with its interval: the mechanism of `SELECT MEDIAN(x)`, for a single group.

Values are clamped to public bounds and put on a public grid, and a `GroupedQuantile` draws the answer and its interval
together (`hush.mechanisms.grouped.quantile` has the law, its proof and its error). Every grid point between the bounds
is a candidate, 2³⁰ of them by default. Under add/remove a row moves the rank of a median by ½, so that the price is
that of half a rank; under replace n is public, and a row moves ranks by 1 (``fixed_size``). q = 0 is the least value
and q = 1 the greatest: a value so many ranks inside that the empty part of the range hardly ever wins.

**Few candidates.** Only values within the mechanism's reach of the target rank matter one by one. They are selected in
O(n) without sorting, and, rounding being monotone, only they are put on the grid; all others are two counts.

NaN counts as missing. Of no data at all every grid point is as good as another: the answer is the middle of the bounds,
and the interval is everything.

>>> Quantile(q="0.5", bounds=(0, 100), epsilon=1).interval([])
(50.0, 50.0)
>>> round(Quantile(q="0.5", bounds=(-1000, 1000), epsilon=1).error(0.95), 1)       # ranks, however many rows
4.5
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting import Event
from hush.core import Grid, InvalidValueError, Neighbours, Number, probability
from hush.core.grid import on_grid, present
from hush.core.numbers import assign
from hush.mechanisms.base import ReadableRepr, confidence_level, ordinary
from hush.mechanisms.grouped.base import Sparse
from hush.mechanisms.grouped.quantile import FINEST, GroupedQuantile
from hush.sensitivity.statistics import read_bounds

_LARGEST_CONFIDENCE = 1 - Fraction(1, 10**12)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Quantile(ReadableRepr):
    """Releases a grid point near the q-quantile of data within public bounds.

    Parameters
    ----------
    q
        Which quantile: 0.5 for the median, 0 for the least value and 1 for the greatest.
    bounds, step
        The public range, and its grid; by default at least 2³⁰ points.
    confidence
        How often the interval holds. It is drawn with the answer, so it is chosen beforehand.

    Examples
    --------
    >>> import hush
    >>> hush.Quantile(q="0.5", bounds=(0, 100), epsilon=10**6, step=1).release([1, 50, 50, 50, 99])
    50
    """

    q: Fraction
    lower: Fraction
    upper: Fraction
    epsilon: Fraction
    neighbours: Neighbours
    step: Fraction
    confidence: Fraction

    def __init__(
        self,
        *,
        q: Number = Fraction(1, 2),
        bounds: tuple[Number, Number],
        epsilon: Number,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        step: Number | None = None,
        confidence: Number = Fraction(19, 20),
    ) -> None:
        lower, upper = read_bounds(bounds)
        grid = Grid.for_bounds(lower=lower, upper=upper) if step is None else Grid(ordinary(step, "step"))
        grid.integers([], lower=lower, upper=upper)  # refuses a step without a point between the bounds
        assign(
            self,
            q=probability(q, "q"),
            lower=lower,
            upper=upper,
            step=grid.step,
            epsilon=ordinary(epsilon, "epsilon"),
            neighbours=Neighbours.parse(neighbours),
            confidence=_level(confidence),
        )

    @property
    def ends(self) -> tuple[int, int]:
        """The first and last grid point, in steps."""
        return Grid(self.step).ends(self.lower, self.upper)

    @property
    def mechanism(self) -> GroupedQuantile:
        """The mechanism that draws, as in a question with a single group."""
        (first, last), q = self.ends, self.q
        if q.denominator > FINEST:  # a fraction of 30 decimals next to q, which is 0 or 1 only if q is
            q = Fraction(min(max(round(q * FINEST), 1), FINEST - 1), FINEST)
        return GroupedQuantile(
            fraction=q,
            points=last - first + 1,
            epsilon=self.epsilon,
            confidence=float(self.confidence),
            fixed_size=self.neighbours is Neighbours.REPLACE,
        )

    @property
    def event(self) -> Event:
        """One exponential mechanism."""
        return self.mechanism.event

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """Return the approximate error of the answer in ranks, for densely lying values."""
        return self.mechanism.error(float(_level(confidence)))

    def release(self, data: Any) -> Any:
        """Return a grid point: int for a whole step, else float."""
        return self.interval(data)[0]

    def interval(self, data: Any) -> tuple[Any, float]:
        """Return a grid point, and the half-width of its interval in units of the value."""
        mechanism = self.mechanism
        drawn = mechanism.release([self.histogram(present(data), mechanism)])
        return on_grid(self.ends[0] + int(drawn.index[0]), self.step), float(int(drawn.half[0]) * self.step)

    def draw_point(self, values: npt.NDArray[Any]) -> int:
        """Return a grid point in steps that aims at the quantile itself, without an interval, at the same price.

        It takes half as many rows as an interval does.
        """
        mechanism = self.mechanism
        return self.ends[0] + int(mechanism.release_points([self.histogram(values, mechanism)])[0])

    def histogram(self, values: npt.NDArray[Any], mechanism: GroupedQuantile) -> Sparse:
        """Return the exact histogram; values beyond the mechanism's reach are counted at either end.

        A bin at least ``reach`` from the target is part of the runs below or above all bins, wherever its values lie.
        """
        grid, (first, last), lower, upper = Grid(self.step), self.ends, self.lower, self.upper
        if values.dtype == object:  # numbers of any kinds need not compare with one another; their grid points do
            values, grid = grid.integers(values, lower=lower, upper=upper), Grid(1)
            lower, upper = Fraction(first), Fraction(last)
        target, rank, n = int(mechanism.target(len(values))), mechanism.fraction.denominator, len(values)
        # Ranks within the mechanism's reach of the target; their values alone need exact bins.
        low = max(0, (target - mechanism.reach) // rank)
        high = min(n, -(-(target + mechanism.reach) // rank))
        if high <= low:
            values = values[:0]
        elif low > 0 or high < n:  # the values of ranks low+1 … high, without sorting the others
            values = np.partition(values, [low, high - 1])[low:high]
        near = grid.integers(values, lower=lower, upper=upper)
        bins, weights = np.unique(near - first, return_counts=True)
        before, after = [0] * (low > 0), [last - first] * (high < n)
        return Sparse(
            bins=np.concatenate([np.array(before, bins.dtype), bins, np.array(after, bins.dtype)]),
            weights=np.concatenate([[low] * len(before), weights, [n - high] * len(after)]).astype(np.int64),
        )


def _level(confidence: Number) -> Fraction:
    level: Fraction = confidence_level(confidence)
    if level > _LARGEST_CONFIDENCE:
        raise InvalidValueError(
            "confidence", got=confidence, allowed="at most 1 - 1e-12, for an interval that is drawn"
        )
    return level
