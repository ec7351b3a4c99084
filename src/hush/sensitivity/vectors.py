r"""Local and smooth sensitivity of sums and means of k coordinates, in ℓ₁, ℓ₂ or ℓ∞.

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

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import Grid, InvalidValueError, Neighbours
from hush.core.balls import ball, flint, fraction_up
from hush.core.rounding import certified, short_up


def is_matrix(data: Any) -> bool:
    """Is this rows of several numbers rather than a column? Asks for the type and the first row's only."""
    if isinstance(data, (list, tuple)):
        return bool(data) and isinstance(data[0], (list, tuple, np.ndarray))
    return getattr(data, "ndim", 1) == 2


def rows_on_grid(data: Any, lower: Fraction, upper: Fraction, grid: Grid) -> npt.NDArray[Any]:
    """Return a matrix in whole steps; what is missing counts as the middle of the bounds."""
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
    found = size_of([max(last - m, m - first) / (n + 1) for m in means], norm)
    if n == 1:
        return max(found, size_of([last - first] * k, norm))
    leaving = ([(v - m) / (n - 1) for v, m in zip(row, means, strict=True)] for row in x.tolist())
    return max(found, *(size_of(moves, norm) for moves in leaving))
