r"""Counts, sums, means, variances and ratios.

Rows are clamped to the bounds and rounded to a fine grid, and sums are sums of whole numbers, so the sensitivity on
paper is that of the program. The grid depends on the bounds and a declared ``step``, the grid of a sum's *answer*,
alone (`hush.core.grid.row_grid`). It contains the step and is at least 2³⁰ times finer than the bounds (2¹⁶ for
variances), so that whole numbers, or cents with step="0.01", are read exactly, and all others move by less than one
step of it; errors include that, but for the sum of a private number of rows, n·2⁻²⁹ of the width.

NaN and None count as missing: under add/remove such a row is as if it were not there; under replace, where the number
of rows is public, it counts as the grid point nearest to zero (sum) or the middle of the bounds (mean, variance).

**Means under add/remove.** n is private. Releasing Σx and n would split ε. Instead release A = Σ(upper - x) and B =
Σ(x - lower): one row changes both, by amounts that add up to R = upper - lower exactly, so the *pair* has ℓ₁
sensitivity R and each gets the whole ε (`hush.mechanisms.grouped.noise` proves what such a pair costs; a question's
AVG is answered so, too). Then n = (A+B)/R and the mean is lower + R·B/(A+B). **Variances** likewise:
for t = (x - lower)/R the three Bernstein polynomials t², 2t(1-t), (1-t)² add up to 1, and their sums give n, Σt and
Σt². **Ratios** Σ(c∧s)/Σs: count s∧c and s∧¬c, disjoint cells of ℓ₁ sensitivity 1 (2 under replace).

**Means under replace.** n is public, so Δ = R/n and there is nothing to estimate: M/n for salaries in [0, M].

**Clipping privately.** With wide bounds the noise of a mean, (upper - lower)/nε, drowns it. So an eighth of ε goes to
the median m, a quarter to the upper quartile r of |x - m|, and rows are clipped to m ± 4r, within the bounds; the rest
of ε goes to the mean of what is clipped. For a normal law that is 4.6σ to each side: nothing is lost, and the noise is
as if the bounds had been known. A law with heavy tails is trimmed, which is a bias that the error does not show. By
default ("auto", add/remove) declared bounds are therefore kept unless clipping makes them 32 times narrower; and also
where r vanishes, since three quarters of the rows are then equal and the others would be lost. The choice depends on
released numbers only. Where the rows are too few to find r, it comes out wide, and the bounds are kept.

**Median of means** (THEORY item 16): every row is put into one of K groups by a coin of its own, the K group means
are K numbers of which a neighbour changes one, by any amount (groups go by position, so a replaced row stays in its
group), and their median is released by propose–test–release. It needs K ≥ 100 or so, a proposed η, and a δ.

>>> mean(np.linspace(49, 51, 2001), epsilon=1).method
'clipped'

**Vectors.** Every coordinate is clamped to [lower, upper], R apart, and put on the grid. Under replace n is public, and
the k sums have sensitivity kR in ℓ₁ and √k·R in ℓ₂. Under add/remove they are taken from the middle of the bounds,
which halves both, and a tenth of ε counts the rows. Laplace noise then has an ℓ₂ error of order k^1.5/nε and Gaussian
noise k√ln(1/δ)/nε. With σ₁ the Gaussian's σ at sensitivity 1, Gaussian wins from k > (σ₁ε)²/2 on, 9 at (1, 10⁻⁶), by √k
(THEORY item 17). `vector_noise` compares the variances of both as they are.

>>> [type(vector_noise(dimension=k, epsilon=1, delta="1e-6")).__name__ for k in (5, 30)]
['Laplace', 'Gaussian']
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise as noises
from hush.accounting import ApproximateDPEvent, ComposedEvent, Event
from hush.core import InvalidValueError, Neighbours, Number, integer, positive
from hush.core.grid import as_column, number, present, row_grid
from hush.mechanisms.base import choose, default_step, ordinary
from hush.mechanisms.column_quantile import Quantile
from hush.mechanisms.estimators.base import (
    Bounds,
    Estimate,
    estimated,
    read_column,
    read_delta,
    require_bounds,
    total,
    wide_bounds,
)
from hush.mechanisms.estimators.ordered import propose_median
from hush.mechanisms.gaussian import Gaussian
from hush.mechanisms.grouped import GroupedLaplace
from hush.mechanisms.grouped.base import integer_array
from hush.mechanisms.laplace import Laplace
from hush.sensitivity.statistics import as_matrix, global_sensitivity, read_bounds

ADD_REMOVE = Neighbours.ADD_REMOVE
_RADII_KEPT = 4
"""Rows are clipped to this many upper quartiles of |x - m| on each side of the median m."""
_WORTHWHILE_GAIN = 32
"""By default declared bounds are kept, unless clipping makes them this many times narrower."""
_COUNT_SHARE = Fraction(1, 10)
"""The share of ε that counts the rows of vectors under add/remove."""


def count(data: Any, *, epsilon: Number, neighbours: Neighbours | str = ADD_REMOVE) -> Estimate:
    """Count the rows that are not missing; in a column of booleans, the true ones.

    >>> import hush
    >>> abs(float(hush.count(range(1000), epsilon=100)) - 1000) < 3
    True
    """
    Neighbours.parse(neighbours)  # one row changes the count by at most 1 either way
    array = as_column(data)
    values = present(array)
    if array.dtype.kind == "b":
        true = int(np.count_nonzero(array))
    elif array.dtype == object:  # a column of booleans with missing ones comes as objects
        true = len([value for value in values.tolist() if value is not False and value is not np.False_])
    else:
        true = len(values)
    noise = Laplace(sensitivity=1, epsilon=epsilon)
    return estimated(noise, noise.release(true), "laplace", noise.error)


def sum(  # noqa: A001 - the name the user expects, in a namespace of its own
    data: Any,
    *,
    bounds: tuple[Number, Number] | None = None,
    epsilon: Number,
    delta: Number | None = None,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
    method: str = "laplace",
) -> Estimate:
    """Sum values clamped to ``bounds``, with Laplace noise, or Gaussian noise of (ε, δ).

    The answer is a multiple of ``step``: 1 gives whole numbers; by default about 2⁻³⁰ of the bounds' width.

    >>> import hush
    >>> 34.9 < float(hush.sum([35] * 1000, bounds=(0, 120), epsilon=100)) / 1000 < 35.1
    True
    """
    require_bounds(bounds, "a sum", "Declare bounds.")
    relation = Neighbours.parse(neighbours)
    ends, unit = wide_bounds(bounds, step)
    x, grid, first, last = read_column(data, ends, unit, relation, missing=0)
    sensitivity = max(abs(first), abs(last)) if relation is ADD_REMOVE else last - first
    value = total(x, max(abs(first), abs(last))) * grid.step
    answers = unit or grid.step
    noise: Laplace | Gaussian
    if choose(method, ("laplace", "gaussian")) == "laplace":
        noise = Laplace(sensitivity=max(sensitivity, 1) * grid.step, epsilon=epsilon, step=answers)
    else:
        slip = read_delta(delta, len(x), relation)
        noise = Gaussian(sensitivity=max(sensitivity, 1) * grid.step, epsilon=epsilon, delta=slip, step=answers)
    # Rounding moves the sum by half a step of the answers' grid. Under replace n is public, and the rounding of rows is
    # included too.
    moved = (0 if answers == grid.step else answers / 2) + (0 if relation is ADD_REMOVE else len(x) * grid.step)
    return estimated(noise, noise.release(value), method, lambda c: noise.error(c) + float(moved))


def bounded_mean(
    data: Any, bounds: tuple[Fraction, Fraction], epsilon: Number, relation: Neighbours, step: Fraction | None
) -> Estimate:
    """Return the mean of values clamped to bounds."""
    lower, upper = bounds
    x, grid, first, last = read_column(data, bounds, step, relation)
    n, width = len(x), last - first
    if relation is Neighbours.REPLACE:
        # Δ = width/n steps: the sum is noised on its own grid, and n is public.
        noise = Laplace(sensitivity=max(width, 1), epsilon=epsilon, step=1)
        noisy = noise.release(total(x, max(abs(first), abs(last))))
        scale = grid.step / max(n, 1)
        value = float(min(max(noisy * scale, lower), upper)) if n else float((lower + upper) / 2)
        return estimated(noise, value, "laplace", lambda c: noise.error(c) * float(scale) + float(grid.step))
    above = total((x.astype(object) if width >= 2**62 else x) - first, width)  # nothing wraps round
    # A row adds t to one half and w - t to the other: w in ℓ₁, charged as one number (`hush.mechanisms.grouped.noise`).
    pair = GroupedLaplace.for_epsilon(ordinary(epsilon, "epsilon"), sensitivity=max(width, 1))
    a, b = pair.release(integer_array([width * n - above, above])).tolist()
    low, step_ = first * grid.step, grid.step
    return _share(a, b, pair, lambda share: float(low + share * width * step_), moved=float(step_))


def variance(
    data: Any,
    *,
    bounds: tuple[Number, Number] | None = None,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
) -> Estimate:
    """Estimate the variance (divided by n) of values clamped to ``bounds``; never negative.

    Rows are read in steps g of at most 2⁻¹⁵ of the width, so that sums of squares stay small. Rounding moves the
    standard deviation, which is a distance from a constant, by at most g, and the error includes that.

    >>> import hush
    >>> 800 < float(hush.variance(list(range(100)) * 100, bounds=(0, 100), epsilon=100)) < 870
    True
    """
    require_bounds(bounds, "a variance", "Declare bounds.")
    relation = Neighbours.parse(neighbours)
    ends, unit = wide_bounds(bounds, step)
    x, grid, first, last = read_column(data, ends, unit, relation, halvings=16)
    width = max(last - first, 1)
    t = (x.astype(object) if width >= 2**31 else x) - first
    parts = [total(term, 2 * width**2) for term in (t * t, 2 * t * (width - t), (width - t) * (width - t))]
    # Each row adds t² + 2t(w-t) + (w-t)² = w² to the three sums together: w² in ℓ₁, twice that if it is replaced.
    noise = Laplace(sensitivity=width**2 * relation.units_touched, epsilon=epsilon, step=1)
    noisy = [noise.release(term) for term in parts]
    squared = float(grid.step * width) ** 2
    value = spread(*noisy) * squared

    def half_width(confidence: Fraction) -> float:
        low, high = (math.sqrt(v * squared) for v in spread_interval(noisy, noise.error(confidence, count=3)))
        low, high = max(low - float(grid.step), 0.0), high + float(grid.step)
        return max(value - low**2, high**2 - value)

    return estimated(noise, value, "laplace", half_width)


def std(
    data: Any,
    *,
    bounds: tuple[Number, Number] | None = None,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    step: Number | None = None,
) -> Estimate:
    """Estimate the standard deviation of values clamped to ``bounds``: the root of `variance`, at the same price.

    >>> import hush
    >>> estimate = hush.std(list(range(100)) * 100, bounds=(0, 100), epsilon=10)
    >>> abs(estimate.value - 28.866) <= 2 * estimate.error()
    True
    """
    squared = variance(data, bounds=bounds, epsilon=epsilon, neighbours=neighbours, step=step)
    value = math.sqrt(squared.value)

    def half_width(confidence: Fraction) -> float:
        # The root of an interval's ends; below zero there is no variance.
        error = squared.error(confidence)
        low, high = math.sqrt(max(squared.value - error, 0.0)), math.sqrt(squared.value + error)
        return max(value - low, high - value)

    return estimated(squared, value, "laplace", half_width)


def spread(squares: float, cross: float, opposite: float) -> float:
    """Return the variance of t in [0, 1], (squares·opposite - cross²/4)/n², from Σt², Σ2t(1-t) and Σ(1-t)²."""
    squares, cross, opposite = (max(float(term), 0.0) for term in (squares, cross, opposite))
    n = squares + cross + opposite
    return 0.25 if n <= 0 else min(max(squares / n * (opposite / n) - (cross / n) ** 2 / 4, 0.0), 0.25)


def spread_interval(parts: list[int], error: float) -> tuple[float, float]:
    """Return the least and greatest `spread` with every part within its error.

    It falls with the cross term. In the squares s it rises up to s = r + c + c²/2r and falls beyond, and likewise in
    the opposite squares r; so it is least at a corner, and greatest on an edge, at that peak or at an end.
    """
    (s0, s1), (c0, c1), (r0, r1) = [(max(noisy - error, 0.0), max(noisy + error, 0.0)) for noisy in parts]
    least = min(spread(s, c1, r) for s in (s0, s1) for r in (r0, r1))

    def peak(fixed: float, low: float, high: float) -> float:
        best = fixed + c0 + (c0 * c0 / (2 * fixed) if fixed > 0 else float("inf"))
        return min(max(best, low), high)

    edges = [(s, r) for s in (s0, s1) for r in (r0, r1, peak(s, r0, r1))]
    edges += [(peak(r, s0, s1), r) for r in (r0, r1)]
    return least, max(spread(s, c0, r) for s, r in edges)


def ratio(numerator: Any, denominator: Any, *, epsilon: Number, neighbours: Neighbours | str = ADD_REMOVE) -> Estimate:
    """Estimate Σ(c∧s)/Σs for two columns of booleans: the share of smokers (s) who have cancer (c).

    >>> import hush
    >>> smokers, cancer = [True] * 800 + [False] * 200, [True] * 80 + [False] * 920
    >>> 0.09 < float(hush.ratio(cancer, smokers, epsilon=10)) < 0.11
    True
    """
    relation = Neighbours.parse(neighbours)
    c, s = _booleans(numerator, "numerator"), _booleans(denominator, "denominator")
    if c.shape != s.shape:
        raise InvalidValueError("numerator", got="another number of rows", allowed="as long as the denominator")
    both, only = int(np.count_nonzero(c & s)), int(np.count_nonzero(~c & s))
    noise = GroupedLaplace.for_epsilon(ordinary(epsilon, "epsilon"), sensitivity=relation.units_touched)
    b, a = noise.release(integer_array([both, only])).tolist()
    return _share(a, b, noise, float)


def _booleans(values: Any, parameter: str) -> npt.NDArray[np.bool_]:
    array = as_column(values, parameter)
    if array.dtype.kind == "O":
        return np.array([number(value) != 0 for value in array.tolist()], dtype=np.bool_)
    return np.asarray(np.nan_to_num(array) != 0 if array.dtype.kind == "f" else array.astype(np.bool_))


def _share(a: int, b: int, noise: GroupedLaplace, scale: Callable[[float], float], *, moved: float = 0.0) -> Estimate:
    """Return an estimate of scale(B/(A+B)), with an interval by Fieller that includes ``moved``, the rounding of rows.

    With A = a - X and B = b - Y the share p has (1-p)b - pa = (1-p)Y - pX, so p is plausible where |b - p(a+b)| is at
    most the half-width of that noise (Fieller): `_lowest`. It is at most e = the larger of |X| and |Y|, and changes by
    at most 2e from one p to another, so that for larger a+b the plausible p are an interval.
    """

    def share(first: float, second: float) -> float:
        first, second = max(first, 0.0), max(second, 0.0)
        return 0.5 if first + second <= 0 else second / (first + second)

    value = scale(share(a, b))

    def half_width(confidence: Fraction) -> float:
        scale_, beta = float(noise.scale), float(1 - confidence)
        e = noise.error(1 - (1 - confidence) / 2)
        ends = (0.0, 1.0) if a + b <= 2 * (e + 1) else (_lowest(a, b, scale_, beta), 1 - _lowest(b, a, scale_, beta))
        return max(abs(scale(end) - value) for end in ends) + moved

    return estimated(noise, value, "laplace", half_width)


def _lowest(a: int, b: int, scale: float, beta: float) -> float:
    """Return the least p with b - p(a+b) ≤ t, where |(1-p)Y - pX| exceeds t with probability at most ``beta``."""

    def outside(p: float) -> bool:
        return mixed_tail(1 - p, p, scale, b - p * (a + b)) < beta * (1 - 1e-9)

    if not outside(0.0) or outside(1.0):
        return 0.0 if not outside(0.0) else 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-9:  # the lower end is returned: an interval that is too wide is the safe side
        middle = (low + high) / 2
        low, high = (middle, high) if outside(middle) else (low, middle)
    return low


def mixed_tail(u: float, v: float, scale: float, t: float) -> float:
    """Return an upper bound of P[|uX + vY| > t] for two discrete Laplace noises X, Y.

    For continuous ones with p = u·scale > q = v·scale it is (p² e^(-t/p) - q² e^(-t/q))/(p² - q²), and
    (1 + t/2p) e^(-t/p) for p = q. A discrete one is more peaked than a continuous one rounded, since
    P[|X| > k] = 2r^(k+1)/(1+r) is at most r^(k+1/2), and symmetric unimodal sums keep that order (Birnbaum 1948):
    rounding takes (u+v)/2 of t.

    >>> round(mixed_tail(1, 0, 10.0, 30.457), 5), round(mixed_tail(1, 1, 10.0, 42.13), 4), mixed_tail(1, 1, 10.0, 1)
    (0.05, 0.05, 1.0)
    """
    t -= (u + v) / 2
    if t <= 0:
        return 1.0
    p, q = scale * max(u, v), scale * min(u, v)
    if p - q < 1e-4 * p:
        return (1 + t / (2 * p)) * math.exp(-t / p)
    smaller = q * q * math.exp(-t / q) if q else 0.0
    return (p * p * math.exp(-t / p) - smaller) / (p * p - q * q)


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
    ends, unit = wide_bounds(bounds, step)
    if method == "median-of-means":
        group_count = integer(groups, "groups", minimum=3, maximum=10**6) | 1  # odd: the median is one of the means
        x, grid, *_ = read_column(data, ends, unit, relation, machine=True)
        # Rows are assigned to groups at random, independently of their values; a neighbour changes one of the means.
        group = noises.uniform_integer(group_count, len(x))
        sums, sizes = np.zeros(group_count, dtype=object), np.bincount(group, minlength=group_count)
        np.add.at(sums, group, x.astype(object))
        blank = round((ends[0] + ends[1]) / 2 / grid.step)
        means = [round(Fraction(int(s), int(k))) if k else blank for s, k in zip(sums, sizes, strict=True)]
        slip, ordered = read_delta(delta, len(x), relation), np.sort(np.array(means, dtype=np.int64))
        return propose_median(ordered, grid.step, epsilon, slip, eta, answers=unit)
    if method == "bounded" and bounds is not None:
        return bounded_mean(data, ends, epsilon, relation, unit)
    budget, (lower, upper) = ordinary(epsilon, "epsilon"), ends
    x, grid, first, last = read_column(data, ends, unit, relation)
    centre = Quantile(q="0.5", bounds=(first, last), epsilon=budget / 8, neighbours=relation, step=1)
    middle = centre.draw_point(x)
    scale = Quantile(q="0.75", bounds=(0, last - first), epsilon=budget / 4, neighbours=relation, step=1)
    radius = scale.draw_point(np.abs(x - middle))
    half_range = max(_RADII_KEPT * radius, 1) * grid.step
    low, high = max(middle * grid.step - half_range, lower), min(middle * grid.step + half_range, upper)
    vanished = radius * 2**16 < last - first and bounds is not None
    if method == "auto" and (vanished or (high - low) * _WORTHWHILE_GAIN > upper - lower):
        low, high, method = lower, upper, "bounded"
    else:
        method = "clipped"
    clipped_mean = bounded_mean(data, (low, high), budget * 5 / 8, relation, None)
    # The profile of the last noise depends on low and high, which earlier releases chose. Exact composition needs
    # profiles that are fixed in advance (THEORY item 9); pure ε covers them all.
    clipped = ApproximateDPEvent(epsilon=budget * 5 / 8, delta=0)
    return Estimate(
        value=clipped_mean.value,
        event=ComposedEvent(parts=[(centre.event, 1), (scale.event, 1), (clipped, 1)]),
        method=method,
        unit="value" if method == "bounded" else "of the clipped mean",
        half_width=clipped_mean.half_width,
    )


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
    matrix = as_matrix(data)
    n, k = matrix.shape
    grid = row_grid(lower, upper, None if step is None else ordinary(step, "step"))
    middle = (lower + upper) / 2
    first, last = grid.ends(lower, upper)
    centre = (first + last) // 2
    x = grid.integers(matrix.ravel(), lower=lower, upper=upper, missing=middle).reshape(n, k) - centre
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
