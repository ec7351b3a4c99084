r"""Global, local and smooth sensitivity of the usual statistics, by name.

For data with values in [lower, upper], R = upper - lower:

    statistic            global, add/remove     global, replace        local (smooth) in what follows
    "count"              1                      1                      the same
    "sum"                max(|lower|, |upper|)  R                      replace: max(upper - min, max - lower)
    "mean"               R                      R/n (n public)         add/remove: at most R/n
    "histogram"          1                      ℓ₁ 2, ℓ₂ √2, ℓ∞ 1      the same
    "median", "quantile" R                      R                      the text above
    "min", "max"         R                      R                      order statistics 1 and n
    "ratio"              1                      1                      at most 1/n, 2/n for n in the denominator

A mean of k coordinates, each in the bounds, has k (ℓ₁), √k (ℓ₂) or 1 (ℓ∞) times the sensitivity. Without bounds every
one of them but counts is infinite, and no noise is enough (THEORY item 18). Irrational values are rounded up.

**Smooth bounds.** A constant is smooth. Under add/remove a mean has local sensitivity at most R/n: |y-μ|/(n+1) ≤
R/(n+1) for a new row, |x-μ|/(n-1) ≤ R/n for one that leaves; k steps away at most R/max(n-k, 1). The largest
e^(-βk)/max(n-k, 1) has k = 0 or k = n-1, its logarithm being convex in k. Under replace a sum's local sensitivity is
R one step away. Computed bounds decay at β - 2⁻²⁴ and are rounded up, which makes them β-smooth, rounding included
(the text above).

>>> global_sensitivity("mean", bounds=(0, 100), size=50, neighbours="replace")
Fraction(2, 1)
>>> global_sensitivity("max", bounds=None)
inf
>>> local_sensitivity("median", [1, 2, 4, 9, 9], bounds=(0, 10), step=1)
Fraction(5, 1)

**Sums and means of k coordinates**, in ℓ₁, ℓ₂ or ℓ∞. A row of k numbers, each between the bounds, R apart, moves all
coordinates at once. Of n rows x_i with mean m

* *replace*: row i goes to the furthest corner: |v_j| = max(upper - x_ij, x_ij - lower), over n for a mean;
* *add/remove*, mean: a row that joins moves it by at most max(upper - m_j, m_j - lower)/(n+1), one that leaves by
  |x_ij - m_j|/(n-1); to or from no rows at all, by R.

The local sensitivity is the largest norm of such a v. **Smooth.** Coordinate by coordinate a mean moves by at most
R/max(n-d, 1) at distance d (the text above), so the norm by k^{1/p} times that; under replace the local
sensitivity is at most k^{1/p}·R/n everywhere, and that one step away.

**Order statistics**: the median and every quantile, and the distance to instability. Let x₁ ≤ … ≤ x_n be whole numbers,
x_i = lower for i ≤ 0 and x_i = upper for i > n, and f(D) = x_m with m = ⌈qn⌉. Put

    B_k(D) = max { x_j - x_i : i ≤ m ≤ j, j - i = k+1 }.

**B_0 bounds the local sensitivity, and B_k(D) ≤ B_{k+1}(D') for neighbours**, under replace and under add/remove
alike. Inserting a row moves each x_i to a place in [x_{i-1}, x_i] and m by 0 or 1 (q ≤ 1); with m' = m the window
[j-k-1, j] of D' lies within [j-k-2, j] of D, with m' = m+1 the window [j-k, j+1] within [j-k-1, j+1]: one longer,
around m either way. Deleting is the mirror image. A replacement keeps m and moves each x_i within [x_{i-1}, x_{i+1}],
but all in one direction: again one longer (Nissim, Raskhodnikova, Smith 2007, for the median). Hence

* S(D) = max_k e^(-βk)·B_k(D) is a β-smooth upper bound of the local sensitivity, for both relations and every n, n =
  0 too;
* A_η(D) = min{k : B_k > η} = min{ j-i : i ≤ m ≤ j, x_j - x_i > η } - 1 moves by at most 1 between neighbours and is 0
  wherever some neighbour's median differs by more than η, as propose-test-release requires. Unbounded data are padded
  with ±∞.

**In O(n log n).** For each i ≤ m the best j maximises (x_j - x_i)e^(-βj), and grows with i: (x_j' - x_i)e^(-βj') -
(x_j - x_i)e^(-βj) rises with x_i for j < j'. So halving the rows i halves the columns j, all blocks of a level at once.

**Rounding.** S is computed in float64 logarithms, so a computed S̃ is only between S and (1+η)S. That is smooth all
the same: S̃(D) ≤ (1+η)S(D) ≤ (1+η)e^b S(D') ≤ e^(b + ln(1+η)) S̃(D'). So S is computed for b = β - 2⁻²⁴, with ln(1+η)
≤ 2⁻²⁵ proven: a log value is off by at most 2⁻⁴⁵ (logarithm) + b·k·2⁻⁵⁰, and b·k ≤ 2¹³ since S is never taken below
e⁻⁴⁰⁹⁶(upper - lower) (the larger of a smooth bound and a constant is smooth); near ties within 2⁻³⁰ are kept on both
sides when blocks are split.

>>> x = np.array([0, 4, 5, 7, 100])
>>> local_gap(x, 3, 0, 100)
2
>>> float(smooth_gap(x, 3, 0, 100, Fraction(1))) > 2
True
>>> instability(x, 3, 10)
1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import Grid, InvalidValueError, Neighbours, Number, exact, integer, probability
from hush.core.grid import as_array, present
from hush.core.rounding import ball, certified, flint, fraction_up, short_up

Integers = npt.NDArray[np.int64]
SLACK = Fraction(1, 2**24)
_LOGARITHM_ERROR = 2.0**-27
_TIE_WIDTH = 2.0**-30
_LARGEST_DECAY = 4096.0


def rank(size: int, q: Fraction) -> int:
    """Return ⌈q·n⌉, the position of the quantile among n sorted values; it moves by 0 or 1 when n grows by 1."""
    return -(-(q * size) // 1)


def padded(x: Integers, lower: int, upper: int) -> Integers:
    """Return lower, x₁ … x_n, upper."""
    return np.concatenate([[lower], np.clip(x, lower, upper), [upper]]).astype(np.int64)


def local_gap(x: Integers, m: int, lower: int, upper: int) -> int:
    """Return B₀: the larger of the gaps on both sides of x_m."""
    full = padded(x, lower, upper)
    gap_above = int(full[m + 1] - full[m]) if m <= len(x) else 0
    gap_below = int(full[m] - full[m - 1]) if m >= 1 else 0
    return max(gap_below, gap_above)


def smooth_gap(x: Integers, m: int, lower: int, upper: int, beta: Number) -> Fraction:
    """Return a β-smooth upper bound of the local sensitivity of x_m, for sorted x between lower < upper."""
    b = float(smooth_rate(beta))
    if int(upper) - int(lower) >= 2**62:
        raise InvalidValueError("step", got="too small a step", allowed="so large that the bounds are 2⁶² steps apart")
    full = padded(x, lower, upper)
    lower_rows, upper_rows = full[m::-1], full[m:]  # entry s is x_{m-s}, entry t is x_{m+t}; k = s + t - 1
    ceiling = math.log(int(upper) - int(lower))
    gap = local_gap(x, m, lower, upper)  # which is attained at k = 0
    best = max(ceiling - _LARGEST_DECAY, math.log(gap) if gap else -math.inf)
    # A window of k steps is worth at most upper - lower times e^(-bk): beyond this k none can exceed `best`.
    window = int((ceiling - best) / b) + 3
    lower_rows, upper_rows = lower_rows[:window], upper_rows[:window]
    best = max(best, _halving(lower_rows, upper_rows, b))
    # The proven error of the logarithms is added: S is rounded up, to the safe side.
    return fraction_up(certified(lambda: flint().arb.exp(flint().arb(best) + flint().arb(_LOGARITHM_ERROR)), bits=40))


def smooth_rate(beta: Number) -> Fraction:
    """Return b = β - 2⁻²⁴: a bound computed with the decay b is β-smooth, rounding included."""
    rate = exact(beta, "beta")
    if rate < Fraction(1, 10**5):
        raise InvalidValueError("beta", got=beta, allowed="at least 1e-5")
    return rate - SLACK


def _halving(lower_rows: Integers, upper_rows: Integers, b: float) -> float:
    """Return the largest log value, by halving the rows; a row is i = m-s, so the best t falls as s grows."""
    best = -math.inf
    first, last = np.array([0]), np.array([len(lower_rows) - 1])
    low, high = np.array([0]), np.array([len(upper_rows) - 1])
    while len(first):
        row = (first + last) // 2
        lengths = high - low + 1
        starts = np.cumsum(lengths) - lengths
        column = np.arange(int(lengths.sum())) + np.repeat(low - starts, lengths)
        of_row = np.repeat(row, lengths)
        with np.errstate(divide="ignore"):
            values = np.log((upper_rows[column] - lower_rows[of_row]).astype(np.float64))
        values -= b * np.maximum(of_row + column - 1, 0)
        top = np.maximum.reduceat(values, starts)
        best = max(best, float(top.max()))
        # Columns that tie with the best, float error included, stay on both sides of the split.
        near = values >= np.repeat(top, lengths) - _TIE_WIDTH
        # A row of zeros (all gaps closed) prefers the nearest column: rows further out then gain most there.
        lowest = np.minimum.reduceat(np.where(near, column, len(upper_rows)), starts)
        highest = np.maximum.reduceat(np.where(near, column, -1), starts)
        highest = np.where(np.isneginf(top), lowest, highest)
        inner, outer = row > first, row < last  # smaller s: larger columns; larger s: smaller columns
        first, last, low, high = (
            np.concatenate([first[inner], row[outer] + 1]),
            np.concatenate([row[inner] - 1, last[outer]]),
            np.concatenate([lowest[inner], low[outer]]),
            np.concatenate([high[inner], highest[outer]]),
        )
    return best


def instability(x: Integers, m: int, eta: int) -> int:
    """Return A_η for sorted whole numbers padded with ±∞: the number of rows to change before B₀ exceeds η.

    Two pointers: for every i ≤ m the first j ≥ m with x_j > x_i + η; sorted needles make it one sweep.
    """
    n = len(x)
    if n == 0:
        return 0
    best = min(m, n + 1 - m)  # windows that reach -∞ or +∞
    lower_rows, upper_rows = x[:m], x[max(m - 1, 0) :]
    if m >= 1:
        j = np.searchsorted(upper_rows, lower_rows + eta, side="right") + m
        inside = j <= n
        if inside.any():
            best = min(best, int((j[inside] - np.arange(1, m + 1)[inside]).min()))
    return best - 1 if best >= 1 else 0


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
    _check(statistic, norm)
    relation, wide = Neighbours.parse(neighbours), integer(dimension, "dimension", minimum=1)
    if statistic in {"count", "ratio", "histogram"}:
        return _alike(Fraction(1), relation.units_touched if statistic == "histogram" else wide, norm)
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
    return _alike(coordinate, wide, norm)


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

    For order statistics it is B₀ of the text above, equal to it under replace and an upper bound otherwise.
    For "ratio" the data are pairs (in the numerator, in the denominator) of booleans; for a "sum" or "mean" they may be
    rows of k numbers, and the sensitivity is in this ``norm`` (see above).
    """
    return smooth_sensitivity(
        statistic, data, beta=None, bounds=bounds, neighbours=neighbours, q=q, step=step, norm=norm
    )


def smooth_sensitivity(
    statistic: str,
    data: Any,
    *,
    beta: Number | None,
    bounds: Bounds = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    q: Number = Fraction(1, 2),
    step: Number | None = None,
    norm: str = "l1",
) -> Fraction | float:
    """Return a β-smooth upper bound of the local sensitivity, as an exact rational; a private number.

    For no ``beta`` it is the local sensitivity itself.

    >>> smooth_sensitivity("median", [1, 2, 3, 4, 5], beta="0.1", bounds=(0, 10)) >= 1
    True
    """
    relation = Neighbours.parse(neighbours)
    _check(statistic, norm)
    decay = None if beta is None else smooth_rate(beta)
    if statistic in {"count", "histogram"}:
        return global_sensitivity(statistic, neighbours=relation)
    if statistic == "ratio":
        try:
            pairs = np.asarray(data, dtype=bool).reshape(-1, 2)
        except Exception:  # noqa: BLE001 - any error of the data; its text may quote them
            raise InvalidValueError(
                "data", got=f"a value of type {type(data).__name__}", allowed="pairs of booleans, one a unit"
            ) from None
        size = int(np.count_nonzero(pairs[:, 1]))
        share = _shrinking(size, decay) if decay else Fraction(1, max(size, 1))
        return min(Fraction(1), relation.units_touched * share)
    if bounds is None:
        return math.inf
    lower, upper = read_bounds(bounds)
    grid = Grid.for_bounds(lower=lower, upper=upper) if step is None else Grid(step)
    first, last = grid.ends(lower, upper)
    if statistic not in {"sum", "mean"}:
        x = np.sort(grid.integers(present(data), lower=lower, upper=upper))
        # m: ⌈qn⌉, the first or the last; each moves by 0 or 1 when n grows by 1.
        usual = {"max": Fraction(1), "median": Fraction(1, 2)}
        position = min(1, len(x))
        if statistic != "min":
            position = rank(len(x), usual[statistic] if statistic in usual else probability(q, "q"))
        gap = local_gap(x, position, first, last) if beta is None else smooth_gap(x, position, first, last, beta)
        return gap * grid.step
    # Rows of several numbers, or a column; told apart by types only, never by numbers.
    if isinstance(data, (list, tuple)):
        nested = bool(data) and isinstance(data[0], (list, tuple, np.ndarray))
    else:
        nested = getattr(data, "ndim", 1) == 2
    rows = as_matrix(data) if nested else present(data)[:, None]
    steps = grid.integers(rows.ravel(), lower=lower, upper=upper, missing=(lower + upper) / 2)
    matrix: npt.NDArray[Any] = steps.reshape(rows.shape)
    local, n = local_rows(statistic, matrix, first, last, relation, norm), len(matrix)
    if decay is not None:
        # The size of a move between the bounds is what a neighbour's local sensitivity may be.
        widest = _alike(Fraction(last - first), matrix.shape[1], norm)
        if relation is Neighbours.REPLACE:
            local = max(local, widest / (1 if statistic == "sum" else max(n, 1)) * _decayed(decay, 1))
        elif statistic == "mean":
            local = widest * _shrinking(n, decay)
    return local * grid.step


def _check(statistic: str, norm: str) -> None:
    """Refuse a statistic without a formula, and an unknown norm."""
    if statistic not in STATISTICS:
        raise InvalidValueError(
            "statistic", got=statistic, allowed=", ".join(map(repr, STATISTICS)),
            hint="For any other function on a small universe there is FiniteFunction.",
        )  # fmt: skip
    if norm not in {"l1", "l2", "linf"}:
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


def _root(square: Fraction) -> Fraction:
    """Return √square, an irrational one rounded up."""
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    return root if root**2 == square else short_up(fraction_up(certified(lambda: ball(square).sqrt())))


def _alike(coordinate: Fraction, dimension: int, norm: str) -> Fraction:
    """Return the norm of a vector of equal coordinates."""
    if norm == "linf":
        return coordinate
    return coordinate * dimension if norm == "l1" else _root(coordinate**2 * dimension)


def _shrinking(n: int, decay: Fraction | int) -> Fraction:
    """Return max over k of e^(-decay·k)/max(n-k, 1), rounded up."""
    return max(Fraction(1, max(n, 1)), _decayed(decay, max(n - 1, 0)))


def _decayed(decay: Fraction | int, k: int) -> Fraction:
    """Return e^(-decay·k), rounded up; never below e⁻⁴⁰⁹⁶, which keeps it a small number to write."""
    exponent = min(decay * k, Fraction(4096))
    return fraction_up(certified(lambda: flint().arb.exp(-ball(exponent))))


def as_matrix(data: Any) -> npt.NDArray[Any]:
    """Return rows as a matrix; each number of a list is converted by itself, without a look at the others."""
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


def size_of(moves: Sequence[Any], norm: str) -> Fraction:
    """Return a vector's norm, an irrational one rounded up."""
    exact = [abs(Fraction(move)) for move in moves]
    if norm == "linf":
        return max(exact)
    return sum(exact, Fraction(0)) if norm == "l1" else _root(sum((move**2 for move in exact), Fraction(0)))


def local_rows(
    statistic: str, x: npt.NDArray[Any], first: int, last: int, neighbours: Neighbours | str, norm: str
) -> Fraction:
    """Return the local sensitivity of a "sum" or "mean" of rows in whole steps, in steps."""
    n, k = x.shape
    # Of a column only the least and the greatest value matter.
    rows = [[int(x.min())], [int(x.max())]] if k == 1 and n else x.tolist()
    if Neighbours.parse(neighbours) is Neighbours.REPLACE:
        furthest = max((size_of([max(last - v, v - first) for v in row], norm) for row in rows), default=Fraction(0))
        return furthest if statistic == "sum" else furthest / max(n, 1)
    if statistic == "sum":
        return _alike(Fraction(max(abs(first), abs(last))), k, norm)
    widest = _alike(Fraction(last - first), k, norm)
    if n == 0:
        return widest
    means = [Fraction(sum(column), n) for column in x.T.tolist()]
    joining = size_of([max(last - m, m - first) / (n + 1) for m in means], norm)
    if n == 1:
        return max(joining, widest)
    leaving = ([(v - m) / (n - 1) for v, m in zip(row, means, strict=True)] for row in rows)
    return max(joining, *(size_of(moves, norm) for moves in leaving))
