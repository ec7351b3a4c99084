r"""Order statistics: local and smooth sensitivity of the median and every quantile, and the distance to instability.

Let x₁ ≤ … ≤ x_n be whole numbers, x_i = lower for i ≤ 0 and x_i = upper for i > n, and f(D) = x_m with m = ⌈qn⌉. Put

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
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, exact
from hush.core.balls import flint, fraction_up
from hush.core.rounding import certified

Integers = npt.NDArray[np.int64]
SLACK = Fraction(1, 2**24)
_LOGARITHM_ERROR = 2.0**-27
_TIE_WIDTH = 2.0**-30
_LARGEST_DECAY = 4096.0
_LARGEST_DENSE_SIDE = 512


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
    best = max(ceiling - _LARGEST_DECAY, _probe(lower_rows, upper_rows, b))
    # A window of k steps is worth at most upper - lower times e^(-bk): beyond this k none can exceed `best`.
    window = int((ceiling - best) / b) + 3
    lower_rows, upper_rows = lower_rows[:window], upper_rows[:window]
    best = max(
        best,
        _dense(lower_rows, upper_rows, b)
        if len(lower_rows) * len(upper_rows) <= _LARGEST_DENSE_SIDE**2
        else _halving(lower_rows, upper_rows, b),
    )
    # The proven error of the logarithms is added: S is rounded up, to the safe side.
    return fraction_up(certified(lambda: flint().arb.exp(flint().arb(best) + flint().arb(_LOGARITHM_ERROR)), bits=40))


def smooth_rate(beta: Number) -> Fraction:
    """Return b = β - 2⁻²⁴: a bound computed with the decay b is β-smooth, rounding included."""
    rate = exact(beta, "beta")
    if rate < Fraction(1, 10**5):
        raise InvalidValueError("beta", got=beta, allowed="at least 1e-5")
    return rate - SLACK


def _probe(lower_rows: Integers, upper_rows: Integers, b: float) -> float:
    """Return a value that is attained, from a few windows around the middle, to bound the search."""
    best = -math.inf
    s = 0
    while s < max(len(lower_rows), len(upper_rows)):
        for i, j in ((s, s), (s, s + 1), (s + 1, s)):
            left_index, to = min(i, len(lower_rows) - 1), min(j, len(upper_rows) - 1)
            gap = int(upper_rows[to]) - int(lower_rows[left_index])
            if gap > 0:
                best = max(best, math.log(gap) - b * max(left_index + to - 1, 0))
        s = 2 * s + 1
    return best


def _dense(lower_rows: Integers, upper_rows: Integers, b: float) -> float:
    gaps = upper_rows[None, :] - lower_rows[:, None]
    with np.errstate(divide="ignore"):
        values = np.log(gaps.astype(np.float64))
    k = np.arange(len(lower_rows))[:, None] + np.arange(len(upper_rows))[None, :] - 1
    values -= b * np.maximum(k, 0)
    return float(values.max())


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
