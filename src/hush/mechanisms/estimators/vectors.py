r"""Means of k coordinates at once, with Laplace or Gaussian noise, whichever is smaller.

Every coordinate is clamped to [lower, upper], R apart, and put on the grid. Under replace n is public, and the k sums
have sensitivity kR in ℓ₁ and √k·R in ℓ₂. Under add/remove they are taken from the middle of the bounds, which halves
both, and a tenth of ε counts the rows. Laplace noise then has an ℓ₂ error of order k^1.5/nε and Gaussian noise
k√ln(1/δ)/nε: Gaussian wins by √k, from about 9 coordinates on at (1, 10⁻⁶) (`hush.mechanisms.vector_noise`).

>>> points = np.tile([1.0, 5.0, 9.0], (400, 1))
>>> found = vector_mean(points, bounds=(0, 10), epsilon=1000)
>>> found.value.round(1).tolist(), found.method
([1.0, 5.0, 9.0], 'laplace')
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting import ComposedEvent, Event
from hush.core import InvalidValueError, Neighbours, Number
from hush.core.columns import as_array, row_grid, row_steps
from hush.mechanisms.base import ordinary
from hush.mechanisms.estimators.base import Estimate, read_delta, total
from hush.mechanisms.laplace import Laplace
from hush.mechanisms.vector_noise import vector_noise
from hush.sensitivity.statistics import read_bounds

_COUNT_SHARE = Fraction(1, 10)


def vector_mean(
    data: Any,
    *,
    bounds: tuple[Number, Number],
    epsilon: Number,
    delta: Number | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    step: Number | None = None,
) -> Estimate:
    """Estimate the mean of the rows of a matrix, all coordinates within ``bounds``.

    A missing coordinate counts as the middle of the bounds. The error is for all coordinates at once.
    """
    relation, (lower, upper) = Neighbours.parse(neighbours), read_bounds(bounds)
    matrix = _matrix(data)
    n, k = matrix.shape
    grid = row_grid(lower, upper, None if step is None else ordinary(step, "step"))
    middle = (lower + upper) / 2
    first, last = -((-lower) // grid.step), upper // grid.step
    centre = (first + last) // 2
    x = row_steps(matrix.ravel(), grid, lower=lower, upper=upper, missing=middle).reshape(n, k) - centre
    budget, slip = ordinary(epsilon, "epsilon"), read_delta(delta, n, relation)
    private = relation is Neighbours.ADD_REMOVE
    reach = max(last - centre, centre - first, 1) if private else max(last - first, 1)
    law = vector_noise(
        dimension=k,
        epsilon=budget * (1 - _COUNT_SHARE) if private else budget,
        delta=slip,
        sensitivity=reach,
        step=1,
    )
    sums = [int(law.release(total(x[:, j], reach))) for j in range(k)]
    events: list[Event] = [law.event]
    size = float(n)
    if private:
        counter = Laplace(sensitivity=1, epsilon=budget * _COUNT_SHARE)
        size = max(float(counter.release(n)), 1.0)
        events.append(counter.event)
    scale, low, high = float(grid.step), float(lower), float(upper)
    size = max(size, 1.0)
    means = np.clip((np.array(sums, dtype=np.float64) / size + centre) * scale, low, high)

    def half_width(confidence: Fraction) -> float:
        if not private:
            return law.error(confidence, count=k) / size * scale + scale
        part = 1 - (1 - confidence) / 2
        off = counter.error(part)
        if off >= size:
            return high - low
        # |s/n - ŝ/n̂| ≤ |s-ŝ|/n + |ŝ|·|1/n - 1/n̂| with n ≥ n̂ - off.
        spread = max(abs(value) for value in sums)
        return (law.error(part, count=k) / (size - off) + spread * off / size / (size - off) + 1) * scale

    return Estimate(
        value=means,
        event=ComposedEvent(parts=events),
        method=type(law).__name__.lower(),
        unit="value",
        half_width=half_width,
    )


def _matrix(data: Any) -> npt.NDArray[Any]:
    """Return rows as a matrix; what becomes of a number depends on that number alone."""
    if not isinstance(data, (list, tuple)):
        matrix = as_array(data, "data")
    else:
        lengths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else 0 for row in data}
        matrix = np.empty((len(data), lengths.pop() if len(lengths) == 1 else 0), dtype=object)
        for at, row in enumerate(data if matrix.shape[1] else ()):
            for to, value in enumerate(row):
                matrix[at, to] = value
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise InvalidValueError(
            "data", got=f"a value of type {type(data).__name__}", allowed="a matrix, one row of k ≥ 1 numbers a unit"
        )
    return matrix
