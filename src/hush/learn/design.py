r"""Rows as codes, columns as public maps: margins, and sums over rows that are exact integers.

Column j has a public map φⱼ from its levels to features, a matrix with one row per level (zeros for *missing*). A
row's features are φ₁(code₁), φ₂(code₂), … and a constant s, the *intercept*, 1 unless a fit weighs it more. So
everything that a fit asks of the rows is

    margins     mᵢ = sθ₀ + Σⱼ (φⱼθⱼ)[codeᵢⱼ],
    gradients   Σᵢ dᵢ·xᵢ     from the sums of d over each level of each column,
    curvatures  Σᵢ wᵢ·xᵢxᵢᵀ  from the sums of w over each pair of levels of each pair of columns,

and only the sums over levels touch rows. They are sums of integers, hence the same for every order and every chunk of
the rows: d ∈ [−1, 1] is rounded to 2⁻⁵³, split into a high and a low half, and each half summed exactly (floats are
exact below 2⁵³, and chunks have 2¹⁶ rows).

>>> design = Design([np.array([0, 1, 1])], [np.eye(3)[:, :2]])
>>> design.sums(np.array([0.5, 0.25, 0.25])).tolist()       # intercept, level 0, level 1
[1.0, 0.5, 0.5]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from hush.learn.schema import Codes, Floats

_CHUNK = 1 << 16
_HIGH, _LOW = 2.0**26, 2.0**27
_WEIGHT = 2.0**20


class Design:
    """The rows of a fit: codes per column, and the columns' public maps."""

    def __init__(self, codes: Sequence[Codes], maps: Sequence[Floats], *, intercept: float = 1.0) -> None:
        self.intercept = intercept
        self.codes = [np.ascontiguousarray(column, dtype=np.intp) for column in codes]
        self.maps = [np.ascontiguousarray(part, dtype=np.float64) for part in maps]
        self.rows = len(self.codes[0]) if self.codes else 0
        edges = np.cumsum([1, *(part.shape[1] for part in self.maps)])
        self.width = int(edges[-1])
        self.slices = [slice(low, high) for low, high in pairwise(edges.tolist())]

    def _chunks(self) -> Iterator[slice]:
        return (slice(first, first + _CHUNK) for first in range(0, self.rows, _CHUNK))

    def margins(self, theta: Floats) -> Floats:
        """Return x·θ for each row, added up in the columns' order."""
        total = np.full(self.rows, self.intercept * theta[0])
        for codes, part, place in zip(self.codes, self.maps, self.slices, strict=True):
            total += (part @ theta[place])[codes]
        return total

    def reach(self, theta: Floats) -> float:
        """Return a bound of the sum of moduli that a margin is made of."""
        parts = (
            float(np.max(np.abs(part) @ np.abs(theta[place])))
            for part, place in zip(self.maps, self.slices, strict=True)
        )
        return self.intercept * abs(float(theta[0])) + sum(parts)

    def sums(self, derivative: Floats) -> Floats:
        """Return Σ dᵢ·xᵢ for |dᵢ| ≤ 1, each dᵢ rounded to 2⁻⁵³."""
        high_total = [np.zeros(part.shape[0], dtype=np.int64) for part in self.maps]
        low_total = [np.zeros(part.shape[0], dtype=np.int64) for part in self.maps]
        high_all = low_all = 0
        for chunk in self._chunks():
            scaled = derivative[chunk] * _HIGH
            high = np.rint(scaled)
            low = np.rint((scaled - high) * _LOW)
            high_all += int(high.sum())
            low_all += int(low.sum())
            for column, codes in enumerate(self.codes):
                levels = self.maps[column].shape[0]
                high_total[column] += np.bincount(codes[chunk], high, minlength=levels).astype(np.int64)
                low_total[column] += np.bincount(codes[chunk], low, minlength=levels).astype(np.int64)
        result = np.empty(self.width)
        result[0] = self.intercept * (high_all / _HIGH + low_all / (_HIGH * _LOW))
        for part, place, first, second in zip(self.maps, self.slices, high_total, low_total, strict=True):
            result[place] = part.T @ (first / _HIGH + second / (_HIGH * _LOW))
        return result

    def curvature(self, weight: Floats) -> Floats:
        """Return Σ wᵢ·xᵢxᵢᵀ for 0 ≤ wᵢ ≤ 1, each wᵢ rounded to 2⁻²⁰: it steers a step, and certifies nothing."""
        count = len(self.codes)
        sizes = [part.shape[0] for part in self.maps]
        single = [np.zeros(size) for size in sizes]
        double = {(i, j): np.zeros(sizes[i] * sizes[j]) for i in range(count) for j in range(i)}
        total = 0.0
        for chunk in self._chunks():
            w = np.rint(weight[chunk] * _WEIGHT)
            total += float(w.sum())
            for i in range(count):
                codes = self.codes[i][chunk]
                single[i] += np.bincount(codes, w, minlength=sizes[i])
                for j in range(i):
                    key = codes * sizes[j]
                    key += self.codes[j][chunk]
                    double[i, j] += np.bincount(key, w, minlength=sizes[i] * sizes[j])
        result = np.empty((self.width, self.width))
        result[0, 0] = self.intercept**2 * total
        for i in range(count):
            rows = self.slices[i]
            result[0, rows] = result[rows, 0] = self.intercept * (self.maps[i].T @ single[i])
            result[rows, rows] = self.maps[i].T @ (single[i][:, None] * self.maps[i])
            for j in range(i):
                block = self.maps[i].T @ double[i, j].reshape(sizes[i], sizes[j]) @ self.maps[j]
                result[rows, self.slices[j]] = block
                result[self.slices[j], rows] = block.T
        return result / _WEIGHT
