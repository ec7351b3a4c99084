r"""Private quantiles by the exponential mechanism over a whole grid, at the cost of finding a median.

**The law.** For n values and a target t = qn a grid point y, with L values below it and U at or below it, has the score

    -max(L - t, t - U, 0):

how far, in ranks, y is from being a q-quantile. Adding or removing a row moves L, U by 0 or 1 and t by q, so each of
L - t and t - U by at most max(q, 1-q): Δ = max(q, 1-q), only ½ for the median. Replacing a row moves L and U by at
most 1: Δ = 1. Every grid point between the bounds is a candidate (2³⁰ of them by default), y is drawn with
probability ∝ e^(ε·score/2Δ), exactly.

**Few candidates.** Points between two neighbouring values share a score, so gaps and values are raced with their
numbers of points as multiplicities, and a uniform point of the winning gap is the answer. Only values within w ranks
of t are looked at, with e^(rate·w) ≥ e²⁰ times the number of points. All points beyond are one competitor on each
side, entered with the highest score they could have; if it wins (probability below e⁻²⁰) a uniform point y beyond is
drawn and accepted with probability e^(-rate·(what its score falls short)), else the race is run anew: rejection
sampling, so the law stays exact. Selecting the values around t takes O(n); nothing is sorted, and rounding being
monotone only the selected values are put on the grid.

**Error**, in ranks: some point has score 0, so P[score < -(ln(points) + ln(1/β))/rate] ≤ β.

NaN counts as missing. Of no data at all every grid point is as good as another, and one is drawn.

>>> middle = Quantile(q="0.5", bounds=(0, 100), epsilon=10**6, step=1)
>>> middle.release([1, 50, 50, 50, 99, float("nan")])
50
>>> round(Quantile(q="0.5", bounds=(-1000, 1000), epsilon=1).error(0.95), 1)       # ranks, however many rows
23.8
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import BoundedRangeEvent
from hush.core import Grid, InvalidValueError, Neighbours, Number, integer, probability
from hush.core.balls import ball, fraction_up
from hush.core.rounding import certified, float_up
from hush.mechanisms.base import Setter, confidence_level, ordinary
from hush.mechanisms.columns import as_column, on_grid, rational
from hush.sensitivity.statistics import read_bounds

_MARGIN = 20.0
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, init=False)
class Quantile(Setter):
    """Releases a grid point near the q-quantile of data within public bounds.

    ``inward`` moves the target by so many ranks towards the middle, at most to the other end, for q = 0 or 1: there
    t moves by 0 or 1 with a row, as L and U do, and Δ = 1 holds. For any other q it would not, and is refused.
    """

    q: Fraction
    lower: Fraction
    upper: Fraction
    epsilon: Fraction
    neighbours: Neighbours
    step: Fraction
    inward: int

    def __init__(
        self,
        *,
        q: Number = Fraction(1, 2),
        bounds: tuple[Number, Number],
        epsilon: Number,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        step: Number | None = None,
        inward: int = 0,
    ) -> None:
        lower, upper = read_bounds(bounds)
        grid = Grid.for_bounds(lower=lower, upper=upper) if step is None else Grid(ordinary(step, "step"))
        grid.integers([], lower=lower, upper=upper)  # refuses a step without a point between the bounds
        self._set(q=probability(q, "q"), lower=lower, upper=upper, step=grid.step)
        self._set(epsilon=ordinary(epsilon, "epsilon"), neighbours=Neighbours.parse(neighbours))
        self._set(inward=integer(inward, "inward", minimum=0))
        if self.inward and 0 < self.q < 1:
            raise InvalidValueError("inward", got=inward, allowed="0 unless q is 0 or 1")

    @classmethod
    def extreme(
        cls,
        which: str,
        *,
        bounds: tuple[Number, Number],
        epsilon: Number,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        step: Number | None = None,
    ) -> Quantile:
        """Return the mechanism for "min" or "max": a value so many ranks inside that all points beyond weigh no more.

        Every point beyond the maximum would suit t = n, and there are up to 2³⁰ of them; at t = n - ln(points)/rate
        they weigh together what one point at the target weighs.
        """
        make = partial(
            cls, q=0 if which == "min" else 1, bounds=bounds, epsilon=epsilon, neighbours=neighbours, step=step
        )
        plain = make()
        first, last = plain.ends
        return make(inward=math.ceil(math.log(last - first + 1) / float(plain.rate)))

    @property
    def rate(self) -> Fraction:
        """The factor of a rank in the exponent: ε/2Δ."""
        moved = max(self.q, 1 - self.q) if self.neighbours is Neighbours.ADD_REMOVE else Fraction(1)
        return self.epsilon / (2 * moved)

    @property
    def ends(self) -> tuple[int, int]:
        """The first and last grid point, in steps."""
        return -((-self.lower) // self.step), self.upper // self.step

    @property
    def event(self) -> BoundedRangeEvent:
        """One exponential mechanism."""
        return BoundedRangeEvent(epsilon=self.epsilon)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """Return by how many ranks the answer misses the quantile at most, with at least this probability."""
        miss, (first, last) = 1 - confidence_level(confidence), self.ends
        return float_up(
            fraction_up(certified(lambda: ball((last - first + 1) / miss).log() / ball(self.rate), bits=40))
        )

    def release(self, data: Any) -> Any:
        """Return a grid point: int for a whole step, else float."""
        return on_grid(self.index(present(data)), self.step)

    def index(self, values: npt.NDArray[Any]) -> int:
        """Return the released grid point in steps, for values without missing ones."""
        return _draw(values, self)


def present(data: Any, parameter: str = "data") -> npt.NDArray[Any]:
    """Return a column's values in one dimension, without those that are missing."""
    array = as_column(data, parameter)
    if array.dtype.kind == "f":
        missing = np.isnan(array)
        return array[~missing] if missing.any() else array
    if array.dtype.kind == "O":
        kept = [value for value in array.tolist() if _is_number(value)]
        array = np.empty(len(kept), dtype=object)
        array[:] = kept
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def _is_number(value: Any) -> bool:
    try:
        return (value is not None and value in {float("inf"), float("-inf")}) or rational(value) is not None
    except Exception:  # noqa: BLE001 - a row may hold any object; whether a release fails must depend on no row
        return False


def _draw(values: npt.NDArray[Any], law: Quantile) -> int:
    grid, (first, last), rate, n = Grid(law.step), law.ends, law.rate, len(values)
    if values.dtype == object:  # numbers of any kinds need not compare with one another; their grid points do
        values, grid = grid.integers(values, lower=law.lower, upper=law.upper), Grid(1)
        lower, upper = Fraction(first), Fraction(last)
    else:
        lower, upper = law.lower, law.upper
    target = law.q * n
    target = max(target - law.inward, Fraction(0)) if law.q > _HALF else min(target + law.inward, Fraction(n))
    reach = math.ceil((math.log(last - first + 1) + _MARGIN) / max(float(rate), 1e-300)) + 2
    low, high = max(0, math.floor(target) - reach), min(n, math.ceil(target) + reach)
    middle = grid.integers(_ranked(values, low, high), lower=lower, upper=upper)
    points, counts = np.unique(middle, return_counts=True)
    upto = low + np.cumsum(counts)  # U at each value; L is U of the value before
    edges = np.concatenate([[first - 1], points, [last + 1]])
    gaps = np.diff(edges) - 1  # points before the first value, between values, after the last
    in_gap = np.concatenate([[low], upto]).astype(np.int64)
    # Items: the gaps (L = U), then the values. The outer gaps stand for all that lies beyond, with their best score.
    left_of = np.concatenate([in_gap, in_gap[:-1]])
    right_of = np.concatenate([in_gap, in_gap[1:]])
    denominator, numerator = target.denominator, target.numerator
    if max(n, 1) * denominator >= 2**60:
        left_of, right_of = left_of.astype(object), right_of.astype(object)
    scores = -np.maximum(np.maximum(left_of * denominator - numerator, numerator - right_of * denominator), 0)
    weights = np.concatenate([gaps, np.ones(len(points), dtype=np.int64)])
    while True:
        item = noise.select(scores, rate / denominator, weights=weights)
        if item >= len(gaps):
            return int(points[item - len(gaps)])
        chosen = int(edges[item]) + 1 + noise.uniform_integer(int(gaps[item]))
        if (item > 0 or low == 0) and (item < len(gaps) - 1 or high == n):
            return chosen
        everything = grid.integers(values, lower=lower, upper=upper)
        # On the left U counts, on the right L: the ranks by which the point misses the target.
        actual = int(np.count_nonzero(everything <= chosen if item == 0 else everything < chosen))
        if noise.bernoulli_exp(rate * abs(actual - int(in_gap[item]))):
            return chosen


def _ranked(values: npt.NDArray[Any], low: int, high: int) -> npt.NDArray[Any]:
    """Return the values of ranks low+1 … high, without sorting the others."""
    if high <= low:
        return values[:0]
    if low == 0 and high == len(values):
        return values
    return np.partition(values, [low, high - 1])[low:high]
