r"""Medians, quantiles, smallest and largest values.

The default is the exponential mechanism over the grid (`hush.mechanisms.column_quantile`), which also answers a
question's `MEDIAN(x)`. It draws an interval with the answer, at a confidence that is chosen beforehand; at a higher one
nothing more is known than the bounds. On request medians go by smooth sensitivity (`hush.mechanisms.smooth_noise`) or
by propose–test–release (`hush.mechanisms.propose_test_release`), which may refuse.

**Several quantiles** share ε evenly and are put in order afterwards, which is free and moves none of them further
from its target rank. (Halving, as of Kaplan, Schnapp and Stemmer 2022, splits ε by levels but adds up their errors,
and goes wrong among ties.)

**Without bounds** a median is taken over 2⁴⁹ grid points, ±2⁴⁸ steps: the price of not knowing is only a logarithm.
The largest value of unbounded data is refused: one person could be arbitrarily rich.

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
from hush.core.grid import as_column
from hush.core.rounding import ball, certified, fraction_down, short_down
from hush.mechanisms.base import choose, confidence_level, ordinary
from hush.mechanisms.column_quantile import Quantile
from hush.mechanisms.estimators.base import (
    USUAL,
    Bounds,
    Estimate,
    estimated,
    read_column,
    read_delta,
    require_bounds,
    wide_bounds,
)
from hush.mechanisms.propose_test_release import ProposeTestRelease
from hush.mechanisms.smooth_noise import NOISES, PURE, SmoothNoise
from hush.sensitivity.statistics import instability, rank, smooth_gap

ADD_REMOVE = Neighbours.ADD_REMOVE
_HALF = Fraction(1, 2)
_WITHOUT_BOUNDS = "Declare bounds, or ask for a private quantile such as q=0.99."


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
    confidence: Number = USUAL,
) -> Estimate:
    """Estimate the median.

    Parameters
    ----------
    method
        "exponential" (default); "smooth", with ``noise`` "polynomial" (the default), "cauchy", "laplace" or "gaussian";
        or "propose-test-release", with a proposed sensitivity ``eta``, which may answer `Refused`.
    confidence
        How often the interval holds that "exponential" draws with the answer.

    Examples
    --------
    >>> import hush
    >>> hush.median([1, 2, 3, 4, 100], bounds=(0, 1000), epsilon=10**6, step=1).value
    3
    """
    choose(method, ("exponential", "smooth", "propose-test-release"))
    if method == "exponential":
        return quantile(
            data, q=_HALF, bounds=bounds, epsilon=epsilon, neighbours=neighbours, step=step, confidence=confidence
        )
    relation = Neighbours.parse(neighbours)
    (lower, upper), unit = wide_bounds(bounds, step)
    rows, grid, first, last = read_column(data, (lower, upper), unit, relation, machine=True)
    x = np.sort(rows)
    position = rank(len(x), _HALF)
    middle = int(x[position - 1]) if len(x) else first
    if method == "smooth":
        require_bounds(bounds, "a median", "Declare bounds, or leave method at 'exponential'.")
        pure = noise is None or choose(noise, NOISES, "noise") in PURE
        law = SmoothNoise(
            epsilon=epsilon,
            delta=None if pure else read_delta(delta, len(x), relation),
            noise=noise or "polynomial",
            step=grid.step if unit is None else unit,
        )
        smooth_sensitivity = smooth_gap(x, position, first, last, law.beta) * grid.step
        value = law.release(middle * grid.step, smooth_sensitivity)
        clamped = builtins.min(builtins.max(value, float(lower)), float(upper))
        # The scale of the noise depends on the data, so no half-width can be shown.
        return estimated(law, clamped, f"smooth {law.noise}", lambda _: math.nan)
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
    law_of_noise = choose(noise, ("laplace", "gaussian"), "noise")
    if law_of_noise == "gaussian":
        # δ is the total too: 2e^ε·δ' + δ'² ≤ δ for each step's δ' = δ/(2e^ε + δ)
        slip = short_down(fraction_down(certified(lambda: ball(delta) / (2 * ball(half).exp() + ball(delta)))))
    law = ProposeTestRelease(epsilon=half, delta=slip, eta=proposed * step, noise=noise, step=answers or step)
    position = rank(len(x), _HALF)
    middle = int(x[position - 1]) if len(x) else 0
    value = law.release(middle * step, instability(x, position, proposed))
    # Rows have moved by at most a step.
    return estimated(law, value, f"propose-test-release {noise}", lambda c: law.error(c) + float(step))


def quantile(
    data: Any,
    q: Number,
    *,
    bounds: Bounds = None,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
    confidence: Number = USUAL,
) -> Estimate:
    """Estimate the q-quantile, with an interval that holds as often as ``confidence`` says.

    >>> import hush
    >>> hush.quantile([1, 2, 3, 4, 100], "0.5", bounds=(0, 1000), epsilon=10**6, step=1).value
    3
    """
    ends, unit = wide_bounds(bounds, step)
    law = Quantile(q=q, bounds=ends, epsilon=epsilon, neighbours=neighbours, step=unit, confidence=confidence)
    if law.neighbours is Neighbours.REPLACE:
        # The number of rows is public: a missing one counts as the middle of the bounds.
        data = as_column(data)
        if data.dtype.kind == "O" or (data.dtype.kind == "f" and np.isnan(data).any()):
            (low, high), grid = ends, Grid(law.step)
            data = grid.values(grid.integers(data, lower=low, upper=high, missing=(low + high) / 2))
    value, half = law.interval(data)
    # Beyond the confidence that was drawn at only the bounds are known.
    everything = builtins.max(value - float(law.lower), float(law.upper) - value)
    return estimated(law, value, "exponential", lambda c: half if c <= law.confidence else everything)


def quantiles(
    data: Any,
    q: Sequence[Number],
    *,
    bounds: Bounds = None,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
    confidence: Number = USUAL,
) -> Estimate:
    """Estimate several quantiles at once, in increasing order; ``epsilon`` is the price of all together.

    >>> import hush
    >>> found = hush.quantiles(list(range(101)), ["0.25", "0.75"], bounds=(0, 100), epsilon=10**6, step=1)
    >>> len(found.value)
    2
    """
    if not isinstance(q, (list, tuple)) or not q:
        raise InvalidValueError("q", got=q, allowed="a non-empty list of probabilities")
    levels = [probability(level, "q") for level in q]
    if levels != sorted(set(levels)):
        raise InvalidValueError("q", got=q, allowed="in increasing order, without repetitions")
    share, level = ordinary(epsilon, "epsilon") / len(levels), confidence_level(confidence)
    each = 1 - (1 - level) / len(levels)  # a union bound: all intervals hold together
    parts = [
        quantile(data, wish, bounds=bounds, epsilon=share, neighbours=neighbours, step=step, confidence=each)
        for wish in levels
    ]
    # Sorting does not increase the largest distance from the true quantiles, which are in order too.
    return Estimate(
        value=np.sort(np.array([part.value for part in parts])),
        event=ComposedEvent(parts=[(part.event, 1) for part in parts]),
        method="exponential",
        half_width=lambda c: builtins.max(part.half_width(each if c <= level else Fraction(1)) for part in parts),
    )


def min(  # noqa: A001 - the name the user expects, in a namespace of its own
    data: Any,
    *,
    bounds: Bounds = None,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
    confidence: Number = USUAL,
) -> Estimate:
    """Estimate the smallest value: a value of low rank, far enough inside the data for the noise.

    The interval is about that value.

    >>> import hush
    >>> -20 <= float(hush.min(list(range(100)) * 50, bounds=(-1000, 1000), epsilon=1000, step=1)) <= 20
    True
    """
    require_bounds(bounds, "the minimum", _WITHOUT_BOUNDS)
    return quantile(data, 0, bounds=bounds, epsilon=epsilon, neighbours=neighbours, step=step, confidence=confidence)


def max(  # noqa: A001 - the name the user expects, in a namespace of its own
    data: Any,
    *,
    bounds: Bounds = None,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
    confidence: Number = USUAL,
) -> Estimate:
    """Estimate the largest value: a value of high rank, far enough inside the data for the noise.

    The interval is about that value.

    >>> import hush
    >>> 80 <= float(hush.max(list(range(100)) * 50, bounds=(0, 1000), epsilon=1000, step=1)) <= 120
    True
    """
    require_bounds(bounds, "the maximum", _WITHOUT_BOUNDS)
    return quantile(data, 1, bounds=bounds, epsilon=epsilon, neighbours=neighbours, step=step, confidence=confidence)
