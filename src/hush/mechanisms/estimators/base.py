r"""The result of an estimator, helpers that all share, and post-processing of released numbers, which costs nothing.

An `Estimate` is the released value with its price and its error. Everything in it is released or public: keep it,
print it, send it on.

**Non-negative counts with a total.** Setting negative counts to 0 makes their sum too large. The nearest point of the
simplex {x ≥ 0, Σx = total}, by ℓ₂ distance, subtracts one constant from all and cuts at 0 (Duchi, Shalev-Shwartz,
Singer, Chandra 2008).

**Repeated answers.** Independent unbiased answers y_i of variances v_i are best averaged with weights 1/v_i; the
result has variance 1/Σ(1/v_i).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting import Event
from hush.core import Grid, InvalidValueError, Neighbours, Number, exact, fraction_between, integer, positive
from hush.core.grid import as_array, as_column, on_grid, present, row_grid, whole_steps
from hush.core.rounding import ball, certified, flint, fraction_down, short_down
from hush.mechanisms.base import confidence_level, ordinary
from hush.mechanisms.propose_test_release import Refused
from hush.sensitivity.statistics import read_bounds

USUAL = Fraction(19, 20)
WIDE = 2**48
"""Steps to either side of zero that stand for "no bounds"."""
Bounds = tuple[Number, Number] | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Estimate:
    """A private answer.

    >>> import hush
    >>> estimate = hush.mean([40] * 1000, bounds=(0, 120), epsilon=10**4)
    >>> round(float(estimate)), estimate.error(0.95) < 1
    (40, True)
    """

    value: Any
    event: Event
    method: str
    half_width: Callable[[Fraction], Any] = field(compare=False)
    unit: str = "value"
    """The unit of `error`: "value", "ranks" (of quantiles) or "count" (of a chosen category)."""

    def error(self, confidence: Number = USUAL) -> Any:
        """Return a half-width around the value that holds with at least this probability."""
        return self.half_width(confidence_level(confidence))

    @property
    def refused(self) -> bool:
        """Whether the mechanism looked and chose not to answer."""
        return self.value is Refused

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        if self.refused:
            return f"Estimate(Refused, {self.method})"
        if isinstance(self.value, (int, float)):
            error, unit = float(self.error()), "" if self.unit == "value" else f" {self.unit}"
            error_text = "error not public" if math.isnan(error) else f"± {error:.3g}{unit} at 95 %"
            return f"Estimate({self.value:.6g} {error_text}, {self.method})"
        return f"Estimate({self.value!r}, {self.method})"


def estimated(
    law: Any, value: Any, method: str, half_width: Callable[[Fraction], Any], *, unit: str = "value"
) -> Estimate:
    """Return a private answer at the price of the mechanism that gave it."""
    return Estimate(value=value, event=law.event, method=method, half_width=half_width, unit=unit)


def propose_delta(size: int | None = None) -> Fraction:
    """Return a δ: n^{-1.1} for a public n, rounded down to two digits, else 10⁻⁶ (THEORY item 4).

    >>> propose_delta(10**5), propose_delta()
    (Fraction(31, 10000000), Fraction(1, 1000000))
    """
    if size is None:
        return Fraction(1, 10**6)
    rows = integer(size, "size", minimum=2)
    return short_down(
        fraction_down(certified(lambda: flint().arb.exp(ball(rows).log() * ball(Fraction(-11, 10))))), digits=2
    )


def read_delta(delta: Number | None, size: int, neighbours: Neighbours) -> Fraction:
    """Return δ; where n is public, refuse δ ≥ 1/n, at which exposing one random row would be allowed."""
    public = neighbours is Neighbours.REPLACE
    if delta is None:
        return propose_delta(max(size, 2) if public else None)
    slip = fraction_between(delta, "delta")
    if public and size and slip >= Fraction(1, size):
        raise InvalidValueError(
            "delta", got=delta, allowed=f"below 1/n = 1/{size}",
            hint=f"At 1/n one row may be published outright; take {float(propose_delta(max(size, 2))):g}.",
        )  # fmt: skip
    return slip


def wide_bounds(bounds: Bounds, step: Number | None) -> tuple[tuple[Fraction, Fraction], Fraction | None]:
    """Return bounds and step; without bounds, ±2⁴⁸ steps of 2⁻¹⁶ or of the declared step."""
    unit = None if step is None else ordinary(step, "step")
    if bounds is not None:
        return read_bounds(bounds), unit
    unit = Fraction(1, 2**16) if unit is None else unit
    return (-WIDE * unit, WIDE * unit), unit


def read_column(
    data: Any,
    bounds: tuple[Fraction, Fraction],
    step: Fraction | None,
    relation: Neighbours,
    *,
    missing: Number | None = None,
    halvings: int = 30,
    machine: bool = False,
) -> tuple[npt.NDArray[Any], Grid, int, int]:
    """Return the rows in steps of a fine grid, the grid, and the bounds in steps.

    Under replace the number of rows is public: a missing value counts as ``missing``, by default the middle of the
    bounds, and its row stays. ``machine`` refuses a grid of too many points for sums and gaps of machine integers:
    otherwise it would be for the rows to decide whether a number overflows.
    """
    lower, upper = bounds
    grid = row_grid(lower, upper, step, halvings=halvings)
    if machine and max(abs(lower), abs(upper)) / grid.step >= 2**61:
        raise InvalidValueError("step", got=grid.step, allowed="so large that the bounds are below 2⁶¹ steps")
    column = present(data) if relation is Neighbours.ADD_REMOVE else as_column(data)
    blank = (lower + upper) / 2 if missing is None else missing
    x = grid.integers(column, lower=lower, upper=upper, missing=blank)
    return x, grid, *grid.ends(lower, upper)


def total(values: Any, largest: int) -> int:
    """Return an exact sum of whole numbers of at most this size."""
    if values.dtype != object and len(values) * largest < 2**62:
        return int(values.sum(dtype=np.int64))
    return int(sum(values.tolist()))


def require_bounds(bounds: Any, statistic: str, instead: str) -> None:
    """Refuse a question of unbounded sensitivity, with the reason and a remedy."""
    if bounds is None:
        raise InvalidValueError(
            "bounds", got=None, allowed="a pair (lower, upper) chosen without looking at the data",
            hint=f"One person can change {statistic} of unbounded values without limit, so no noise hides them. "
            f"{instead}",
        )  # fmt: skip


def rounded(values: Any, *, step: Number = 1) -> npt.NDArray[Any]:
    """Round released values to multiples of a step.

    >>> import hush
    >>> hush.rounded([1.26, 2.5], step="0.5").tolist()
    [1.5, 2.5]
    """
    unit = positive(step, "step")
    return np.asarray(on_grid(whole_steps(as_array(values, "values"), unit), unit))


def nonnegative(values: Any, *, total: Number | None = None) -> npt.NDArray[np.float64]:
    """Return the nearest non-negative values with this total (by default the values' own, if that is not negative).

    >>> import hush
    >>> hush.nonnegative([5, -2, 3], total=6).tolist()
    [4.0, 0.0, 2.0]
    """
    array = np.nan_to_num(as_array(values, "values").astype(np.float64))
    flat = array.ravel()
    if not flat.size:
        return array
    goal = max(float(flat.sum()), 0.0) if total is None else float(exact(total, "total"))
    if goal < 0:
        raise InvalidValueError("total", got=total, allowed="a number of at least 0")
    # The k largest stay positive; they share the excess of their sum over the goal equally (Duchi et al. 2008).
    ordered = np.sort(flat)[::-1]
    excess = (np.cumsum(ordered) - goal) / np.arange(1, flat.size + 1)
    # With a goal of 0 none stays positive: the largest value itself is taken from all.
    last_positive = int(np.flatnonzero(ordered > excess)[-1]) if np.any(ordered > excess) else 0
    return np.asarray(np.maximum(array - excess[last_positive], 0.0))


def average(values: Any, *, variances: Any) -> tuple[float, float]:
    """Return the inverse-variance average of independent answers, and its variance.

    >>> import hush
    >>> hush.average([10, 14], variances=[1, 3])
    (11.0, 0.75)
    """
    answers, spreads = as_array(values, "values").ravel(), as_array(variances, "variances").ravel()
    if answers.size != spreads.size or not answers.size:
        raise InvalidValueError(
            "variances", got=f"{spreads.size} numbers", allowed=f"one for each of {answers.size} values"
        )
    weights = [1 / positive(v, "variances") for v in spreads.tolist()]
    mass = sum(weights, Fraction(0))
    middle = sum((w * exact(y, "values") for w, y in zip(weights, answers.tolist(), strict=True)), Fraction(0)) / mass
    return float(middle), float(1 / mass)
