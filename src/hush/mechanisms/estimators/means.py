"""Means: of a column, and of vectors; and which noise suits a vector.

**Means: within bounds, with bounds found privately, or as a median of means.**

**Clipping privately.** With wide bounds the noise of a mean, (upper - lower)/nε, drowns it. So an eighth of ε goes to
the median m, a quarter to the upper quartile r of |x - m|, and rows are clipped to m ± 4r, within the bounds; the
rest of ε goes to the mean of what is clipped (`hush.mechanisms.estimators.numeric`). For a normal law that is 4.6σ to
each side: nothing is lost, and the noise is as if the bounds had been known. A law with heavy tails is trimmed, which
is a bias that the error does not show. By default ("auto", add/remove) declared bounds are therefore kept unless
clipping makes them 32 times narrower; and also where r vanishes, since three quarters of the rows are then equal and
the others would be lost. The choice depends on released numbers only. Where the rows are too few to find r, it comes
out wide, and the bounds are kept.

**Median of means** (THEORY item 16): every row is put into one of K groups by a coin of its own, the K group means
are K numbers of which a neighbour changes one, by any amount (groups go by position, so a replaced row stays in its
group), and their median is released by propose–test–release. It needs K ≥ 100 or so, a proposed η, and a δ.

>>> data = np.linspace(49, 51, 2001)
>>> 49.5 < float(mean(data, bounds=(-1000, 1000), epsilon=10)) < 50.5
True
>>> mean(data, epsilon=1).method
'clipped'

**Means of k coordinates at once, with Laplace or Gaussian noise, whichever is smaller.**

Every coordinate is clamped to [lower, upper], R apart, and put on the grid. Under replace n is public, and the k sums
have sensitivity kR in ℓ₁ and √k·R in ℓ₂. Under add/remove they are taken from the middle of the bounds, which halves
both, and a tenth of ε counts the rows. Laplace noise then has an ℓ₂ error of order k^1.5/nε and Gaussian noise
k√ln(1/δ)/nε: Gaussian wins by √k, from about 9 coordinates on at (1, 10⁻⁶) (`vector_noise`).

>>> points = np.tile([1.0, 5.0, 9.0], (400, 1))
>>> found = vector_mean(points, bounds=(0, 10), epsilon=1000)
>>> found.value.round(1).tolist(), found.method
([1.0, 5.0, 9.0], 'laplace')

**Choose Laplace or Gaussian noise for a vector, whichever is smaller.**

For k coordinates, each of sensitivity Δ, Laplace noise needs b = kΔ/ε and has variance 2b² in each; Gaussian noise
needs σ for √k·Δ. With σ₁ the Gaussian's σ at sensitivity 1, Gaussian wins from k > (σ₁ε)²/2 on: 9 at (1, 10⁻⁶).
It wins by √k, not k (THEORY item 17). The variances of both mechanisms are compared as they are.

>>> [type(vector_noise(dimension=k, epsilon=1, delta="1e-6")).__name__ for k in (5, 30)]
['Laplace', 'Gaussian']
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise as noises
from hush.accounting import ApproximateDPEvent, ComposedEvent, Event
from hush.core import InvalidValueError, Neighbours, Number, integer, positive
from hush.core.columns import as_array, as_column, number, present, row_grid, row_steps
from hush.mechanisms.base import choose, default_step, ordinary
from hush.mechanisms.column_quantile import Quantile
from hush.mechanisms.estimators.base import Estimate, read_delta, total
from hush.mechanisms.estimators.numeric import bounded_mean
from hush.mechanisms.estimators.ordered import Bounds, machine_steps, point, propose_median, wide_bounds
from hush.mechanisms.gaussian import Gaussian
from hush.mechanisms.laplace import Laplace
from hush.sensitivity.statistics import global_sensitivity, read_bounds

_RADII_KEPT = 4
_WORTHWHILE_GAIN = 32


def mean(
    data: Any,
    *,
    bounds: Bounds = None,
    epsilon: Number,
    delta: Number | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    step: Number | None = None,
    method: str | None = None,
    eta: Number | None = None,
    groups: int = 201,
) -> Estimate:
    """Estimate the mean.

    "auto" spends three eighths of ε on finding the data, also where the bounds are then kept: with bounds that are
    tight, "bounded" has 1.6 times less noise. Of "clipped" the error is that of the mean of the clipped rows, and its
    unit says so: how far clipping has moved the mean is not known.

    Parameters
    ----------
    method
        "bounded" (needs bounds), "clipped", "auto" (the default under add/remove: bounds are kept unless clipping makes
        them 32 times narrower; under replace the default is "bounded"), or "median-of-means" (needs ``eta``).
        Without bounds the default is "clipped".

    Examples
    --------
    >>> import hush
    >>> 49.5 < float(hush.mean([50] * 10_000, bounds=(0, 100), epsilon=10)) < 50.5
    True
    """
    relation = Neighbours.parse(neighbours)
    if method is None:
        method = "clipped" if bounds is None else "auto" if relation is Neighbours.ADD_REMOVE else "bounded"
    choose(method, ("bounded", "clipped", "auto", "median-of-means"))
    if method == "median-of-means":
        return _median_of_means(data, bounds, epsilon, delta, relation, step, eta, groups)
    if bounds is None and method == "bounded":
        method = "clipped"
    if method == "bounded":
        return bounded_mean(data, wide_bounds(bounds, step)[0], epsilon, relation, step)
    budget = ordinary(epsilon, "epsilon")
    (lower, upper), unit = wide_bounds(bounds, step)
    grid = row_grid(lower, upper, unit)
    centre = Quantile(q="0.5", bounds=(lower, upper), epsilon=budget / 8, neighbours=relation, step=grid.step)
    middle = number(point(centre, data))
    column = present(data) if relation is Neighbours.ADD_REMOVE else as_column(data)
    index = row_steps(column, grid, lower=lower, upper=upper, missing=(lower + upper) / 2)
    away = np.abs(index - int(middle / grid.step))  # in steps
    width = (upper - lower) // grid.step
    scale = Quantile(q="0.75", bounds=(0, width), epsilon=budget / 4, neighbours=relation, step=1)
    radius = point(scale, away)
    half_range = max(_RADII_KEPT * radius, 1) * grid.step
    low, high = max(middle - half_range, lower), min(middle + half_range, upper)
    vanished = radius * 2**16 < width and bounds is not None
    if method == "auto" and (vanished or (high - low) * _WORTHWHILE_GAIN > upper - lower):
        low, high, method = lower, upper, "bounded"
    else:
        method = "clipped"
    clipped_mean = bounded_mean(data, (low, high), budget * 5 / 8, relation, None)
    # The profile of the last noise depends on low and high, which earlier releases chose. Exact composition needs
    # profiles that are fixed in advance (THEORY item 9); pure ε covers them all.
    last = ApproximateDPEvent(epsilon=budget * 5 / 8, delta=0)
    return Estimate(
        value=clipped_mean.value,
        event=ComposedEvent(parts=[(centre.event, 1), (scale.event, 1), (last, 1)]),
        method=method,
        unit="value" if method == "bounded" else "of the clipped mean",
        half_width=clipped_mean.half_width,
    )


def _median_of_means(
    data: Any,
    bounds: Bounds,
    epsilon: Number,
    delta: Number | None,
    relation: Neighbours,
    step: Number | None,
    eta: Number | None,
    groups: int,
) -> Estimate:
    """Release the median of the groups' means; a neighbour changes one of the K means, by any amount."""
    group_count = integer(groups, "groups", minimum=3, maximum=10**6) | 1  # odd: the median is one of the means
    (lower, upper), unit = wide_bounds(bounds, step)
    x, grid = machine_steps(data, lower, upper, unit, relation)
    # Rows are assigned to groups at random, independently of their values.
    group = noises.uniform_integer(group_count, len(x))
    sums, sizes = np.zeros(group_count, dtype=object), np.bincount(group, minlength=group_count)
    np.add.at(sums, group, x.astype(object))
    middle = (lower + upper) / 2 / grid.step
    means = [round(Fraction(int(s), int(k))) if k else round(number(middle)) for s, k in zip(sums, sizes, strict=True)]
    slip = read_delta(delta, len(x), relation)
    ordered = np.sort(np.array(means, dtype=np.int64))
    return propose_median(ordered, grid.step, epsilon, slip, eta, answers=unit)


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

    >>> import hush
    >>> hush.vector_mean([[1, 5, 9]] * 1000, bounds=(0, 10), epsilon=1000).value.round(1).tolist()
    [1.0, 5.0, 9.0]
    """
    relation, (lower, upper) = Neighbours.parse(neighbours), read_bounds(bounds)
    matrix = _matrix(data)
    n, k = matrix.shape
    grid = row_grid(lower, upper, None if step is None else ordinary(step, "step"))
    middle = (lower + upper) / 2
    first, last = grid.ends(lower, upper)
    centre = (first + last) // 2
    x = row_steps(matrix.ravel(), grid, lower=lower, upper=upper, missing=middle).reshape(n, k) - centre
    budget, slip = ordinary(epsilon, "epsilon"), read_delta(delta, n, relation)
    private = relation is Neighbours.ADD_REMOVE
    sensitivity = max(last - centre, centre - first, 1) if private else max(last - first, 1)
    law = vector_noise(
        dimension=k,
        epsilon=budget * (1 - _COUNT_SHARE) if private else budget,
        delta=slip,
        sensitivity=sensitivity,
        step=1,
    )
    # Centring halves the largest coordinate, and with it the sensitivity under add/remove.
    sums = [int(law.release(total(x[:, j], sensitivity))) for j in range(k)]
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
        each = 1 - (1 - confidence) / 2  # a union bound over the sums and the count
        off = counter.error(each)
        if off >= size:
            return high - low
        # |s/n - ŝ/n̂| ≤ |s-ŝ|/n + |ŝ|·|1/n - 1/n̂| with n ≥ n̂ - off.
        spread = max(abs(value) for value in sums)
        return (law.error(each, count=k) / (size - off) + spread * off / size / (size - off) + 1) * scale

    return Estimate(
        value=means,
        event=ComposedEvent(parts=events),
        method=type(law).__name__.lower(),
        half_width=half_width,
    )


def _matrix(data: Any) -> npt.NDArray[Any]:
    """Return rows as a matrix; each number is converted by itself, without a look at the others."""
    if not isinstance(data, (list, tuple)):
        matrix = as_array(data, "data")
    else:
        lengths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else 0 for row in data}
        matrix = np.empty((len(data), lengths.pop() if len(lengths) == 1 else 0), dtype=object)
        for index, row in enumerate(data if matrix.shape[1] else ()):
            for to, value in enumerate(row):
                matrix[index, to] = value
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise InvalidValueError(
            "data", got=f"a value of type {type(data).__name__}", allowed="a matrix, one row of k ≥ 1 numbers a unit"
        )
    return matrix


def vector_noise(
    *,
    dimension: int,
    epsilon: Number,
    delta: Number,
    sensitivity: Number = 1,
    step: Number | None = None,
) -> Laplace | Gaussian:
    """Return the mechanism with the smaller variance for ``dimension`` numbers, each changed by up to ``sensitivity``.

    A whole sensitivity on a grid with the whole numbers is taken to mean a vector of whole numbers.
    """
    k, coordinate = integer(dimension, "dimension", minimum=1), positive(sensitivity, "sensitivity")
    root = global_sensitivity("count", dimension=k, norm="l2")
    unit = default_step(coordinate, step)
    on_whole_grid = unit.numerator == 1 and (coordinate / unit).denominator == 1 and coordinate.denominator == 1
    laplace = Laplace(sensitivity=coordinate * k, epsilon=epsilon, step=unit, coordinates=None if on_whole_grid else k)
    gaussian = Gaussian(sensitivity=coordinate * Fraction(root), epsilon=epsilon, delta=delta, step=unit, coordinates=k)
    return laplace if laplace.variance <= gaussian.variance else gaussian
