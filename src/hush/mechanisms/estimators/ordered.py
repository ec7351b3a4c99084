r"""Medians, quantiles, smallest and largest values.

The default is the exponential mechanism over the grid (`hush.mechanisms.rank`), the best known here. On request
medians go by smooth sensitivity (`hush.mechanisms.smooth`) or by propose–test–release (`hush.mechanisms.propose`),
which may refuse.

**Several quantiles** share ε evenly and are put in order afterwards, which is free and moves none of them further
from its target rank. (Halving, as of Kaplan, Schnapp and Stemmer 2022, splits ε by levels but adds up their errors,
and goes wrong among ties.)

**Without bounds** a median is taken over 2⁴⁹ grid points, ±2⁴⁸ steps: the price of not knowing is only a logarithm.
The largest value of unbounded data is refused: one person could be arbitrarily rich.

>>> median([1, 2, 3, 4, 100], bounds=(0, 1000), epsilon=10**6, step=1).value
3
>>> max([3, 4, 5])
Traceback (most recent call last):
...
TypeError: max() missing 1 required keyword-only argument: 'epsilon'
>>> max([3, 4, 5], epsilon=1)
Traceback (most recent call last):
...
hush.core.errors.InvalidValueError: The 'bounds' parameter must be a pair (lower, upper)... private quantile...
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting import ComposedEvent
from hush.core import Grid, InvalidValueError, Neighbours, Number, probability
from hush.core.balls import ball, fraction_down
from hush.core.rounding import certified, short_down
from hush.mechanisms.base import choose, ordinary
from hush.mechanisms.columns import as_column, row_grid, row_steps
from hush.mechanisms.estimators.base import Estimate, read_delta, require_bounds
from hush.mechanisms.propose import ProposeTestRelease
from hush.mechanisms.rank import Quantile, present
from hush.mechanisms.smooth import SmoothNoise
from hush.sensitivity.order import instability, rank, smooth_gap
from hush.sensitivity.statistics import read_bounds

ADD_REMOVE = Neighbours.ADD_REMOVE
WIDE = 2**48
"""Steps to either side of zero that stand for "no bounds"."""
_DEFAULT_STEP = Fraction(1, 2**16)
_HALF = Fraction(1, 2)
Bounds = tuple[Number, Number] | None


def wide_bounds(bounds: Bounds, step: Number | None) -> tuple[tuple[Fraction, Fraction], Fraction | None]:
    """Return bounds and step; without bounds, ±2⁴⁸ steps of 2⁻¹⁶ or of the declared step."""
    if bounds is not None:
        return read_bounds(bounds), None if step is None else ordinary(step, "step")
    unit = _DEFAULT_STEP if step is None else ordinary(step, "step")
    return (-WIDE * unit, WIDE * unit), unit


def machine_steps(
    data: Any, lower: Fraction, upper: Fraction, step: Fraction | None, relation: Neighbours
) -> tuple[npt.NDArray[Any], Grid]:
    """Return rows in steps of a fine grid; refuse one of too many points for sums and gaps of machine integers.

    Otherwise it would be for the rows to decide whether a number overflows.
    """
    grid = row_grid(lower, upper, step)
    if builtins.max(abs(lower), abs(upper)) / grid.step >= 2**61:
        raise InvalidValueError("step", got=grid.step, allowed="so large that the bounds are below 2⁶¹ steps")
    column = present(data) if relation is ADD_REMOVE else as_column(data)
    return row_steps(column, grid, lower=lower, upper=upper, missing=(lower + upper) / 2), grid


def median(
    data: Any,
    *,
    bounds: Bounds = None,
    epsilon: Number,
    delta: Number | None = None,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
    method: str = "exponential",
    noise: str | None = None,
    eta: Number | None = None,
) -> Estimate:
    """Estimate the median.

    Parameters
    ----------
    method
        "exponential" (default); "smooth", with ``noise`` "polynomial" (the default), "cauchy", "laplace" or "gaussian";
        or "propose-test-release", with a proposed sensitivity ``eta``, which may answer `Refused`.
    """
    choose(method, ("exponential", "smooth", "propose-test-release"))
    if method == "exponential":
        return quantile(data, q=_HALF, bounds=bounds, epsilon=epsilon, neighbours=neighbours, step=step)
    relation = Neighbours.parse(neighbours)
    (lower, upper), unit = wide_bounds(bounds, step)
    rows, grid = machine_steps(data, lower, upper, unit, relation)
    x = np.sort(rows)
    first, last = -((-lower) // grid.step), upper // grid.step
    position = rank(len(x), _HALF)
    here = int(x[position - 1]) if len(x) else first
    if method == "smooth":
        require_bounds(bounds, "a median", "Declare bounds, or leave method at 'exponential'.")
        pure = noise is None or choose(noise, ("polynomial", "cauchy", "laplace", "gaussian"), "noise") in {
            "polynomial",
            "cauchy",
        }
        law = SmoothNoise(
            epsilon=epsilon,
            delta=None if pure else read_delta(delta, len(x), relation),
            noise=noise or "polynomial",
            step=grid.step if unit is None else unit,
        )
        reach = smooth_gap(x, position, first, last, law.beta) * grid.step
        value = law.release(here * grid.step, reach)
        shown = builtins.min(builtins.max(value, float(lower)), float(upper))
        # How wide the noise was is itself private, so there is no half-width to show.
        return Estimate(
            value=shown, event=law.event, method=f"smooth {law.noise}", unit="value", half_width=lambda _: math.nan
        )
    slip = read_delta(delta, len(x), relation)
    return propose_median(x, grid.step, epsilon, slip, eta, "laplace" if noise is None else noise, answers=unit)


def propose_median(
    x: npt.NDArray[Any],
    step: Fraction,
    epsilon: Number,
    delta: Fraction,
    eta: Number | None,
    noise: str = "laplace",
    *,
    answers: Fraction | None,
) -> Estimate:
    """Release the median of sorted whole numbers of steps by propose–test–release.

    ε and δ are those of both steps together; ``answers`` is the grid of the answer, if it is another than that of rows.
    """
    if eta is None:
        raise InvalidValueError(
            "eta", got=None, allowed="a proposed sensitivity for propose-test-release, such as a hundredth of a spread"
        )
    # Rounded down: a smaller η refuses more and noises less than is proposed.
    proposed = builtins.min(ordinary(eta, "eta") // step, 2**62)
    if proposed < 1:
        raise InvalidValueError("eta", got=eta, allowed=f"at least one step, {step}")
    half, slip = ordinary(epsilon, "epsilon") / 2, delta
    if (
        choose(noise, ("laplace", "gaussian"), "noise") == "gaussian"
    ):  # δ is the total too: 2e^ε·δ' + δ'² ≤ δ for each step's δ' = δ/(2e^ε + δ)
        slip = short_down(fraction_down(certified(lambda: ball(delta) / (2 * ball(half).exp() + ball(delta)))))
    law = ProposeTestRelease(epsilon=half, delta=slip, eta=proposed * step, noise=noise, step=answers or step)
    position = rank(len(x), _HALF)
    here = int(x[position - 1]) if len(x) else 0
    value = law.release(here * step, instability(x, position, proposed))
    return Estimate(
        value=value,
        event=law.event,
        method=f"propose-test-release {noise}",
        unit="value",
        half_width=lambda c: law.error(c) + float(step),  # rows have moved by at most a step
    )


def quantile(
    data: Any,
    *,
    q: Number,
    bounds: Bounds = None,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
) -> Estimate:
    """Estimate the q-quantile; the error is in ranks, among the values as they are on the grid of answers."""
    ends, unit = wide_bounds(bounds, step)
    law = Quantile(q=q, bounds=ends, epsilon=epsilon, neighbours=neighbours, step=unit)
    return _ranked(law, data)


def quantiles(
    data: Any,
    *,
    qs: Sequence[Number],
    bounds: Bounds = None,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
) -> Estimate:
    """Estimate several quantiles at once, in increasing order; ``epsilon`` is for all of them."""
    if not isinstance(qs, (list, tuple)) or not qs:
        raise InvalidValueError("qs", got=qs, allowed="a non-empty list of probabilities")
    wanted = [probability(q, "qs") for q in qs]
    if wanted != sorted(set(wanted)):
        raise InvalidValueError("qs", got=qs, allowed="in increasing order, without repetitions")
    ends, unit = wide_bounds(bounds, step)
    share = ordinary(epsilon, "epsilon") / len(wanted)
    laws = [Quantile(q=q, bounds=ends, epsilon=share, neighbours=neighbours, step=unit) for q in wanted]
    values = np.sort(np.array([_ranked(law, data).value for law in laws]))
    return Estimate(
        value=values,
        event=ComposedEvent(parts=[(law.event, 1) for law in laws]),
        method="exponential",
        unit="ranks",
        half_width=lambda c: builtins.max(law.error(1 - (1 - c) / len(laws)) for law in laws),
    )


def min(  # noqa: A001 - the name the user expects, in a namespace of its own
    data: Any,
    *,
    bounds: Bounds = None,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
) -> Estimate:
    """Estimate the smallest value: a low value, so many ranks inside that noise does not fall off the data."""
    return _extreme("min", data, bounds, epsilon, neighbours, step)


def max(  # noqa: A001 - the name the user expects, in a namespace of its own
    data: Any,
    *,
    bounds: Bounds = None,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
) -> Estimate:
    """Estimate the largest value: a high value, so many ranks inside that noise does not fall off the data."""
    return _extreme("max", data, bounds, epsilon, neighbours, step)


def _extreme(
    which: str, data: Any, bounds: Bounds, epsilon: Number, neighbours: Neighbours | str, step: Number | None
) -> Estimate:
    require_bounds(bounds, f"the {which}imum", "Declare bounds, or ask for a private quantile such as q=0.99.")
    law = Quantile.extreme(which, bounds=read_bounds(bounds), epsilon=epsilon, neighbours=neighbours, step=step)
    return _ranked(law, data)


def _ranked(law: Quantile, data: Any) -> Estimate:
    if law.neighbours is ADD_REMOVE:
        value = law.release(data)
    else:  # n is public: a missing row counts as the middle of the bounds
        column = as_column(data)
        grid = Grid(law.step)
        filled = row_steps(column, grid, lower=law.lower, upper=law.upper, missing=(law.lower + law.upper) / 2)
        value = law.release(grid.values(filled)) if _has_missing(column) else law.release(column)
    return Estimate(
        value=value,
        event=law.event,
        method="exponential",
        unit="ranks",
        half_width=lambda c: law.error(c) + law.inward,
    )


def _has_missing(column: npt.NDArray[Any]) -> bool:
    return column.dtype.kind == "O" or (column.dtype.kind == "f" and bool(np.isnan(column).any()))
