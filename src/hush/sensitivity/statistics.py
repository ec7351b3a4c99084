"""Global, local and smooth sensitivity of the usual statistics, by name.

For data with values in [lower, upper], R = upper - lower:

    statistic            global, add/remove     global, replace        local (smooth) in what follows
    "count"              1                      1                      the same
    "sum"                max(|lower|, |upper|)  R                      replace: max(upper - min, max - lower)
    "mean"               R                      R/n (n public)         add/remove: at most R/n
    "histogram"          1                      ℓ₁ 2, ℓ₂ √2, ℓ∞ 1      the same
    "median", "quantile" R                      R                      `hush.sensitivity.order`
    "min", "max"         R                      R                      order statistics 1 and n
    "ratio"              1                      1                      at most 1/n, 2/n for n in the denominator

A mean of k coordinates, each in the bounds, has k (ℓ₁), √k (ℓ₂) or 1 (ℓ∞) times the sensitivity. Without bounds every
one of them but counts is infinite, and no noise is enough (THEORY item 18). Irrational values are rounded up.

**Smooth bounds.** A constant is smooth. Under add/remove a mean has local sensitivity at most R/n: |y-μ|/(n+1) ≤
R/(n+1) for a new row, |x-μ|/(n-1) ≤ R/n for one that leaves; k steps away at most R/max(n-k, 1). The largest
e^(-βk)/max(n-k, 1) has k = 0 or k = n-1, its logarithm being convex in k. Under replace a sum's local sensitivity is
R one step away. Computed bounds decay at β - 2⁻²⁴ and are rounded up, which makes them β-smooth, rounding included
(`hush.sensitivity.order`).

>>> global_sensitivity("mean", bounds=(0, 100), size=50, neighbours="replace")
Fraction(2, 1)
>>> global_sensitivity("max", bounds=None)
inf
>>> local_sensitivity("median", [1, 2, 4, 9, 9], bounds=(0, 10), step=1)
Fraction(5, 1)

**Local and smooth sensitivity of sums and means of k coordinates, in ℓ₁, ℓ₂ or ℓ∞.**

A row of k numbers, each between the bounds, R apart, moves all coordinates at once. Of n rows x_i with mean m

* *replace*: row i goes to the furthest corner: |v_j| = max(upper - x_ij, x_ij - lower), over n for a mean;
* *add/remove*, mean: a row that joins moves it by at most max(upper - m_j, m_j - lower)/(n+1), one that leaves by
  |x_ij - m_j|/(n-1); to or from no rows at all, by R.

The local sensitivity is the largest norm of such a v. **Smooth.** Coordinate by coordinate a mean moves by at most
R/max(n-d, 1) at distance d (`hush.sensitivity.statistics`), so the norm by k^{1/p} times that; under replace the local
sensitivity is at most k^{1/p}·R/n everywhere, and that one step away.

>>> import numpy as np
>>> float(local_rows("mean", np.array([[0, 10], [5, 5]]), 0, 10, "replace", "l1"))
10.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import Grid, InvalidValueError, Neighbours, Number, exact, integer, probability
from hush.core.balls import ball, flint, fraction_up
from hush.core.columns import present
from hush.core.rounding import certified, short_up
from hush.sensitivity.order import local_gap, rank, smooth_gap, smooth_rate

STATISTICS = ("count", "sum", "mean", "histogram", "median", "quantile", "min", "max", "ratio")
Bounds = tuple[Number, Number] | None


def global_sensitivity(
    statistic: str,
    *,
    bounds: Bounds = None,
    size: int | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    dimension: int = 1,
    norm: str = "l1",
) -> Fraction | float:
    """Return the global sensitivity, rounded up; infinite where bounds are needed and not given.

    ``size`` is n, for a mean under replace; ``dimension`` and ``norm`` ("l1", "l2", "linf") are for vectors.
    """
    known(statistic)
    relation, wide = Neighbours.parse(neighbours), integer(dimension, "dimension", minimum=1)
    _known_norm(norm)
    if statistic in {"count", "ratio"}:
        return _vector(Fraction(1), wide, norm)
    if statistic == "histogram":
        return _vector(Fraction(1), relation.units_touched, norm)
    if bounds is None:
        return math.inf
    lower, upper = read_bounds(bounds)
    width = upper - lower
    if statistic == "sum":
        coordinate = max(abs(lower), abs(upper)) if relation is Neighbours.ADD_REMOVE else width
    elif statistic == "mean" and relation is Neighbours.REPLACE and size is not None:
        coordinate = width / integer(size, "size", minimum=1)
    else:
        coordinate = width
    return _vector(coordinate, wide, norm)


def local_sensitivity(
    statistic: str,
    data: Any,
    *,
    bounds: Bounds = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    q: Number = Fraction(1, 2),
    step: Number | None = None,
    norm: str = "l1",
) -> Fraction | float:
    """Return the local sensitivity at ``data``: a private number, for analysis and for mechanisms, never to be shown.

    For order statistics it is B₀ of `hush.sensitivity.order`, equal to it under replace and an upper bound otherwise.
    For "ratio" the data are pairs (in the numerator, in the denominator) of booleans; for a "sum" or "mean" they may be
    rows of k numbers, and the sensitivity is in this ``norm`` (`hush.sensitivity.statistics`).
    """
    known(statistic)
    _known_norm(norm)
    relation = Neighbours.parse(neighbours)
    if statistic in {"count", "histogram"}:
        return global_sensitivity(statistic, neighbours=relation)
    if statistic == "ratio":
        return _ratio(data, 0, relation)
    if bounds is None:
        return math.inf
    lower, upper = read_bounds(bounds)
    if statistic in {"sum", "mean"} and is_matrix(data):
        rows, grid, first, last = _matrix(data, lower, upper, step)
        return local_rows(statistic, rows, first, last, relation, norm) * grid.step
    x, grid = _on_grid(data, lower, upper, step)
    first, last = grid.ends(lower, upper)
    if statistic in {"sum", "mean"}:
        return _local_linear(statistic, x, first, last, relation) * grid.step
    return local_gap(np.sort(x), _position(statistic, len(x), q), first, last) * grid.step


def smooth_sensitivity(
    statistic: str,
    data: Any,
    *,
    beta: Number,
    bounds: Bounds = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    q: Number = Fraction(1, 2),
    step: Number | None = None,
    norm: str = "l1",
) -> Fraction | float:
    """Return a β-smooth upper bound of the local sensitivity, as an exact rational; a private number.

    >>> smooth_sensitivity("median", [1, 2, 3, 4, 5], beta="0.1", bounds=(0, 10)) >= 1
    True
    """
    known(statistic)
    _known_norm(norm)
    relation, decay = Neighbours.parse(neighbours), smooth_rate(beta)
    if statistic in {"count", "histogram"}:
        return global_sensitivity(statistic, neighbours=relation)
    if statistic == "ratio":
        return _ratio(data, decay, relation)
    if bounds is None:
        return math.inf
    lower, upper = read_bounds(bounds)
    if statistic in {"sum", "mean"} and is_matrix(data):
        x, grid, first, last = _matrix(data, lower, upper, step)
        local = local_rows(statistic, x, first, last, relation, norm)
        widest = size_of([last - first] * x.shape[1], norm)
        return _smooth_linear(statistic, len(x), local, widest, relation, decay) * grid.step
    x, grid = _on_grid(data, lower, upper, step)
    first, last = grid.ends(lower, upper)
    if statistic in {"sum", "mean"}:
        local = _local_linear(statistic, x, first, last, relation)
        return _smooth_linear(statistic, len(x), local, Fraction(last - first), relation, decay) * grid.step
    return smooth_gap(np.sort(x), _position(statistic, len(x), q), first, last, beta) * grid.step


def known(statistic: str) -> None:
    """Refuse a statistic without a formula."""
    if statistic not in STATISTICS:
        raise InvalidValueError(
            "statistic", got=statistic, allowed=", ".join(map(repr, STATISTICS)),
            hint="For any other function on a small universe there is FiniteFunction.",
        )  # fmt: skip


def _known_norm(norm: str) -> None:
    if norm not in ("l1", "l2", "linf"):
        raise InvalidValueError("norm", got=norm, allowed="'l1', 'l2' or 'linf'")


def read_bounds(bounds: Any) -> tuple[Fraction, Fraction]:
    """Return lower < upper; refuse everything else."""
    allowed = "a pair (lower, upper) of finite numbers within ±1e150, lower below upper"
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InvalidValueError("bounds", got=bounds, allowed=allowed)
    lower, upper = exact(bounds[0], "bounds", allowed=allowed), exact(bounds[1], "bounds", allowed=allowed)
    if lower >= upper or max(abs(lower), abs(upper)) > 10**150 or upper - lower < Fraction(1, 10**150):
        raise InvalidValueError("bounds", got=bounds, allowed=allowed)
    return lower, upper


def _vector(coordinate: Fraction, dimension: int, norm: str) -> Fraction:
    if norm == "linf" or dimension == 1:
        return coordinate
    if norm == "l1":
        return coordinate * dimension
    root = math.isqrt(dimension)
    if root * root == dimension:
        return coordinate * root
    return short_up(coordinate * fraction_up(certified(lambda: flint().arb.sqrt(flint().arb(dimension)))))


def _on_grid(data: Any, lower: Fraction, upper: Fraction, step: Number | None) -> tuple[Any, Grid]:
    grid = Grid.for_bounds(lower=lower, upper=upper) if step is None else Grid(step)
    return grid.integers(present(data), lower=lower, upper=upper), grid


def _matrix(data: Any, lower: Fraction, upper: Fraction, step: Number | None) -> tuple[Any, Grid, int, int]:
    grid = Grid.for_bounds(lower=lower, upper=upper) if step is None else Grid(step)
    return rows_on_grid(data, lower, upper, grid), grid, *grid.ends(lower, upper)


def _smooth_linear(
    statistic: str, size: int, local: Fraction, widest: Fraction, relation: Neighbours, decay: Fraction
) -> Fraction:
    """Return a smooth bound in steps of a sum or a mean; ``widest`` is the size of a move between the bounds."""
    if relation is Neighbours.ADD_REMOVE:
        return local if statistic == "sum" else widest * _shrinking(size, decay)
    return max(local, widest / (1 if statistic == "sum" else max(size, 1)) * _decayed(decay, 1))


def _position(statistic: str, n: int, q: Number) -> int:
    """Return m; ⌈qn⌉, the first or the last: each moves by 0 or 1 when n grows by 1."""
    if statistic == "min":
        return min(1, n)
    if statistic == "max":
        return n
    return rank(n, Fraction(1, 2) if statistic == "median" else probability(q, "q"))


def _local_linear(statistic: str, x: Any, first: int, last: int, relation: Neighbours) -> Fraction:
    n = len(x)
    total = sum(x.tolist())
    if relation is Neighbours.REPLACE:
        change = Fraction(max(last - int(x.min()), int(x.max()) - first)) if n else Fraction(0)
        return change if statistic == "sum" else change / max(n, 1)
    if statistic == "sum":
        return Fraction(max(abs(first), abs(last)))
    if n == 0:
        return Fraction(last - first)
    mean = Fraction(total, n)
    joins = max(last - mean, mean - first) / (n + 1)
    leaves = max(int(x.max()) - mean, mean - int(x.min())) / (n - 1) if n > 1 else Fraction(last - first)
    return max(joins, leaves)


def _ratio(data: Any, decay: Fraction | int, relation: Neighbours) -> Fraction:
    try:
        pairs = np.asarray(data, dtype=bool).reshape(-1, 2)
    except Exception:  # noqa: BLE001 - any error of the data; its text may quote them
        raise InvalidValueError(
            "data", got=f"a value of type {type(data).__name__}", allowed="pairs of booleans, one a unit"
        ) from None
    size = int(np.count_nonzero(pairs[:, 1]))
    return min(Fraction(1), relation.units_touched * (_shrinking(size, decay) if decay else Fraction(1, max(size, 1))))


def _shrinking(n: int, decay: Fraction | int) -> Fraction:
    """Return max over k of e^(-decay·k)/max(n-k, 1), rounded up."""
    return max(Fraction(1, max(n, 1)), _decayed(decay, max(n - 1, 0)))


def _decayed(decay: Fraction | int, k: int) -> Fraction:
    """Return e^(-decay·k), rounded up; never below e⁻⁴⁰⁹⁶, which keeps it a small number to write."""
    exponent = min(decay * k, Fraction(4096))
    return fraction_up(certified(lambda: flint().arb.exp(-ball(exponent))))


def is_matrix(data: Any) -> bool:
    """Return whether the data are rows of several numbers, not a column; reads types only, never numbers."""
    if isinstance(data, (list, tuple)):
        return bool(data) and isinstance(data[0], (list, tuple, np.ndarray))
    return getattr(data, "ndim", 1) == 2


def rows_on_grid(data: Any, lower: Fraction, upper: Fraction, grid: Grid) -> npt.NDArray[Any]:
    """Return a matrix in whole steps; a missing number counts as the middle of the bounds."""
    try:
        matrix = np.array([list(row) for row in np.asarray(data, dtype=object)], dtype=object)
        matrix = matrix.reshape(np.shape(data))
    except Exception:  # noqa: BLE001 - any error of the data; its text may quote them
        matrix = np.empty(0)
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise InvalidValueError(
            "data", got=f"a value of type {type(data).__name__}", allowed="a matrix, one row a unit"
        )
    flat = grid.integers(matrix.ravel().tolist(), lower=lower, upper=upper, missing=(lower + upper) / 2)
    return np.asarray(flat, dtype=object).reshape(matrix.shape)


def size_of(moves: Sequence[Any], norm: str) -> Fraction:
    """Return a vector's norm, an irrational one rounded up."""
    exact = [abs(Fraction(move)) for move in moves]
    if norm == "l1":
        return sum(exact, Fraction(0))
    if norm == "linf":
        return max(exact, default=Fraction(0))
    square = sum((move**2 for move in exact), Fraction(0))
    if not square:
        return square
    return short_up(fraction_up(certified(lambda: flint().arb.sqrt(ball(square)))))


def local_rows(
    statistic: str, x: npt.NDArray[Any], first: int, last: int, neighbours: Neighbours | str, norm: str
) -> Fraction:
    """Return the local sensitivity of a "sum" or "mean" of rows in whole steps, in steps."""
    n, k = x.shape
    if Neighbours.parse(neighbours) is Neighbours.REPLACE:
        corners = [[max(last - v, v - first) for v in row] for row in x.tolist()]
        furthest = max((size_of(moves, norm) for moves in corners), default=Fraction(0))
        return furthest if statistic == "sum" else furthest / max(n, 1)
    if statistic == "sum":
        return size_of([max(abs(first), abs(last))] * k, norm)
    if n == 0:
        return size_of([last - first] * k, norm)
    means = [Fraction(sum(column), n) for column in x.T.tolist()]
    joining = size_of([max(last - m, m - first) / (n + 1) for m in means], norm)
    if n == 1:
        return max(joining, size_of([last - first] * k, norm))
    leaving = ([(v - m) / (n - 1) for v, m in zip(row, means, strict=True)] for row in x.tolist())
    return max(joining, *(size_of(moves, norm) for moves in leaving))
