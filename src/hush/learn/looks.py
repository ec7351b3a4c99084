"""Private looks: noisy counts of a column's levels, of the rows, and of a target's cells.

Each row adds 1 to at most one level of each column, so a histogram of one column has sensitivity 1, and the noise is an
ideal Gaussian rounded to whole numbers: rounding is post-processing, so its price is the continuous Gaussian's.

>>> looks = Looks.take([np.array([0, 0, 1])], [2], mu_squared=Fraction(10**6))
>>> [np.round(counts, 0).tolist() for counts in looks.counts], round(looks.rows)
([[2.0, 1.0]], 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hush.core.values import dataclass
from hush.learn.budget import deviation
from hush.learn.schema import Codes, Floats
from hush.noise import rounded_gaussian

_ROWS = Fraction(1, 2)
"""The weight of the number of rows, next to 1 for a column."""


def noisy(values: object, sigma: Fraction) -> Floats:
    """Return whole numbers with rounded Gaussian noise."""
    counts = np.asarray(values, dtype=np.int64)
    return np.asarray(counts + rounded_gaussian(sigma, counts.shape), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Noisy counts of each column's levels, and of the rows."""

    counts: list[Floats]
    sigmas: list[float]
    """The deviation of each column's noise."""
    rows: float
    """The noisy number of rows, at least 1: the best mean of all totals."""

    @classmethod
    def take(
        cls, codes: Sequence[Codes], levels: Sequence[int], *, mu_squared: Fraction, weights: Sequence[Fraction] = ()
    ) -> Looks:
        """Look at the levels of each column and at the number of rows, for this μ² together, shared by the weights."""
        wanted = list(weights) or [Fraction(1)] * len(codes)
        unit = mu_squared / (sum(wanted) + _ROWS)
        sigmas = [deviation(unit * weight) for weight in wanted]
        counts = [
            noisy(np.bincount(column, minlength=size + 1), sigma)
            for column, size, sigma in zip(codes, levels, sigmas, strict=True)
        ]
        rows = float(noisy([len(codes[0]) if codes else 0], deviation(unit * _ROWS))[0])
        # Every column's counts, the missing ones among them, add up to the rows: weigh the totals by their precision.
        precision = [
            float(_ROWS),
            *(float(weight) / len(column) for weight, column in zip(wanted, counts, strict=True)),
        ]
        totals = [rows, *(float(column.sum()) for column in counts)]
        estimate = float(np.dot(precision, totals)) / sum(precision)
        return cls(
            counts=[column[:-1] for column in counts], sigmas=[float(one) for one in sigmas], rows=max(estimate, 1.0)
        )
