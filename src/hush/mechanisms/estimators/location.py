r"""Means: within bounds, with bounds found privately, or as a median of means.

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
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from hush import noise as noises
from hush.accounting import ApproximateDPEvent, ComposedEvent
from hush.core import Neighbours, Number, integer
from hush.core.columns import as_column, number, present, row_grid, row_steps
from hush.mechanisms.base import choose, ordinary
from hush.mechanisms.column_quantile import Quantile
from hush.mechanisms.estimators.base import Estimate, read_delta
from hush.mechanisms.estimators.numeric import bounded_mean
from hush.mechanisms.estimators.ordered import Bounds, machine_steps, point, propose_median, wide_bounds

_FENCE = 4
_WORTH = 32


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
    reach = max(_FENCE * radius, 1) * grid.step
    low, high = max(middle - reach, lower), min(middle + reach, upper)
    vanished = radius * 2**16 < width and bounds is not None
    if method == "auto" and (vanished or (high - low) * _WORTH > upper - lower):
        low, high, method = lower, upper, "bounded"
    else:
        method = "clipped"
    rest = bounded_mean(data, (low, high), budget * 5 / 8, relation, None)
    # How many steps apart low and high are, and so the profile of its noise, depends on what was released before; exact
    # composition needs profiles fixed in advance (THEORY item 9), and pure ε covers them all.
    last = ApproximateDPEvent(epsilon=budget * 5 / 8, delta=0)
    return Estimate(
        value=rest.value,
        event=ComposedEvent(parts=[(centre.event, 1), (scale.event, 1), (last, 1)]),
        method=method,
        unit="value" if method == "bounded" else "of the clipped mean",
        half_width=rest.half_width,
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
    """Release the median of the groups' means: K numbers of which a neighbour changes one, by any amount."""
    many = integer(groups, "groups", minimum=3, maximum=10**6) | 1
    (lower, upper), unit = wide_bounds(bounds, step)
    x, grid = machine_steps(data, lower, upper, unit, relation)
    group = noises.uniform_integer(many, len(x))
    sums, sizes = np.zeros(many, dtype=object), np.bincount(group, minlength=many)
    np.add.at(sums, group, x.astype(object))
    middle = (lower + upper) / 2 / grid.step
    means = [round(Fraction(int(s), int(k))) if k else round(number(middle)) for s, k in zip(sums, sizes, strict=True)]
    slip = read_delta(delta, len(x), relation)
    ordered = np.sort(np.array(means, dtype=np.int64))
    return propose_median(ordered, grid.step, epsilon, slip, eta, answers=unit)
