"""Rows as codes, columns as public maps: margins, and sums over rows that are exact integers.

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

**Features of a column: public maps from levels to a few numbers of squared norm at most 1.**

* A category is one-hot: one feature per declared value.
* A number has a straight line and *hats*. The line runs from −1 to 1 over the column's range; the hats are 1 at one
  knot, 0 at the others and linear between. A level's features are (3/8)·line and (59/64)·hats, and hats are t and 1−t
  with t a multiple of 2⁻²⁰, so the squares add up to at most 9/64 + (59/64)² < 1, in exact arithmetic.
* ``"linear"`` leaves the hats out: one feature per number.

So a row's features and the intercept s have R² = columns + s² at most, in integers. Nothing is clipped or scaled by the
rows. The line costs no norm worth speaking of, carries most of a monotone effect in one coefficient, and so with one
coefficient's noise; the hats bend it.

**Where the knots go** is read from a noisy histogram of the levels (:mod:`hush.learn.budget`). The range is the span of
all blocks of 1, 2, 4, … levels that stand three deviations above their noise. Levels below 1.5 deviations count as
empty; of the others the square root of the count is taken, and knots cut it into equal shares. Against equal counts
the root gives a spike (a column that is zero for nine rows of ten) less and its surroundings more.

**How many** there are grows with the cube root of n̂μ, the rows that noise leaves: a hat's bias falls as 1/m² and its
noise grows as m/(nμ). n̂ is the noisy number of rows; where there is next to no noise, μ > 1, it is all of them.

>>> numeric_map(5, Knots(low=0, high=4, places=(0, 4)))[:, 1].tolist()
[0.921875, 0.69140625, 0.4609375, 0.23046875, 0.0, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hush.core.work import check_wanted
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
        for first in range(0, self.rows, _CHUNK):
            check_wanted()
            yield slice(first, first + _CHUNK)

    def margins(self, theta: Floats) -> Floats:
        """Return x·θ for each row, added up in the columns' order."""
        total = np.full(self.rows, self.intercept * theta[0])
        for codes, part, block in zip(self.codes, self.maps, self.slices, strict=True):
            total += (part @ theta[block])[codes]
        return total

    def reach(self, theta: Floats) -> float:
        """Return a bound of the sum of moduli that a margin is made of."""
        parts = (
            float(np.max(np.abs(part) @ np.abs(theta[block])))
            for part, block in zip(self.maps, self.slices, strict=True)
        )
        return self.intercept * abs(float(theta[0])) + sum(parts)

    def sums(self, derivative: Floats) -> Floats:
        """Return Σ dᵢ·xᵢ for |dᵢ| ≤ 1, each dᵢ rounded to 2⁻⁵³."""
        totals = [np.zeros((2, part.shape[0]), dtype=np.int64) for part in self.maps]
        of_all = np.zeros(2, dtype=np.int64)
        for chunk in self._chunks():
            scaled = derivative[chunk] * _HIGH
            # Both halves are at most 2²⁶, and 2¹⁶ of them add up to 2⁴² at most, where floats are exact.
            high = np.rint(scaled)
            for half, part in enumerate((high, np.rint((scaled - high) * _LOW))):
                of_all[half] += int(part.sum())
                for total, codes in zip(totals, self.codes, strict=True):
                    total[half] += np.bincount(codes[chunk], part, minlength=total.shape[1]).astype(np.int64)
        result, units = np.empty(self.width), np.array([1 / _HIGH, 1 / (_HIGH * _LOW)])
        # Only here, after all rows were added, are sums rounded; `hush.learn.convex_fits` bounds that error.
        result[0] = self.intercept * (units @ of_all)
        for features, block, total in zip(self.maps, self.slices, totals, strict=True):
            result[block] = features.T @ (units @ total)
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


_QUANTUM = 2.0**20
_LINE, _HAT = 3 / 8, 59 / 64
_EMPTY, _OCCUPIED, _MOSTLY = 1.5, 3.0, 0.8
_MOST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Knots:
    """The range of a numeric column and the levels of its knots; no places for a straight line alone."""

    low: int
    high: int
    places: tuple[int, ...]


def numeric_map(levels: int, knots: Knots) -> Floats:
    """Return the map of a number: the line, then the hats; constant beyond the range."""
    places = np.arange(levels)
    # A range of one level would divide by 0; half a level makes the line a step.
    middle, half = (knots.low + knots.high) / 2, max((knots.high - knots.low) / 2, 0.5)
    line = np.rint(np.clip((places - middle) / half, -1.0, 1.0) * _QUANTUM) / _QUANTUM
    if not knots.places:
        return np.append(line, 0.0)[:, None]
    ends = np.array(knots.places)
    right = np.clip(np.searchsorted(ends, places), 0, len(ends) - 1)
    left = np.maximum(right - 1, 0)
    # Beyond the outer knots, and on them, one hat is 1 and all others 0.
    inside = (places > ends[0]) & (places < ends[-1])
    weight = np.where(inside, (places - ends[left]) / np.maximum(ends[right] - ends[left], 1), 1.0)
    # t and 1 - t are then exact floats, and t² + (1-t)² ≤ 1 holds without rounding errors.
    weight = np.rint(weight * _QUANTUM) / _QUANTUM
    hats = np.zeros((levels + 1, len(ends)))
    hats[places, np.where(places >= ends[-1], len(ends) - 1, right)] = weight
    hats[places[inside], left[inside]] = 1.0 - weight[inside]
    return np.hstack([np.append(_LINE * line, 0.0)[:, None], _HAT * hats])


def category_map(levels: int) -> Floats:
    """Return the map of a category: one feature per value, and zeros for a missing one."""
    return np.vstack([np.eye(levels), np.zeros((1, levels))])


def how_many(rows: float, mu: float) -> int:
    """Return the number of knots for a noisy number of rows and a fit of this μ."""
    return max(2, min(_MOST, round(0.85 * math.cbrt(max(rows * min(mu, 1.0), 1.0)))))


def choose_knots(counts: Floats, sigma: float, largest: int, rows: float = 0.0) -> Knots:
    """Return the knots for noisy counts of the levels; ``largest`` below 2 asks for the line alone.

    A span that holds less than four fifths of the noisy ``rows`` was found by noise, and all levels are taken instead.
    """
    low, high = _span(counts, sigma)
    if float(counts[low : high + 1].sum()) < _MOSTLY * rows:
        low, high = 0, len(counts) - 1
    if largest < 2:
        return Knots(low=low, high=high, places=())
    levels = np.arange(len(counts))
    root = np.sqrt(np.where((counts > _EMPTY * sigma) & (levels >= low) & (levels <= high), counts, 0.0))
    total = float(root.sum())
    inner: list[int] = []
    if total > 0 and largest > 2:
        marks = np.arange(1, largest - 1) / (largest - 1) * total
        # Sums up to the middle of each level's own share: up to its end, all knots would lean to one side.
        inner = np.clip(np.searchsorted(np.cumsum(root) - root / 2, marks), low, high).tolist()
    return Knots(low=low, high=high, places=tuple(sorted({low, high, *inner})))


def _span(counts: Floats, sigma: float) -> tuple[int, int]:
    """Return the first and last level of the blocks that are certainly occupied; all levels where there is none."""
    levels = len(counts)
    low, high = levels, -1
    size = 1
    while size <= levels // 2:
        blocks = counts[: levels // size * size].reshape(-1, size).sum(axis=1)
        # Independent noise of `size` levels adds up to √size deviations.
        occupied = np.flatnonzero(blocks > _OCCUPIED * sigma * math.sqrt(size))
        if occupied.size:
            first, last = int(occupied[0]) * size, int(occupied[-1]) * size + size - 1
            # A wide block widens the span only where it lies wholly outside of what narrower ones have shown.
            low = first if first + size - 1 < low else low
            high = last if last - size + 1 > high else high
        size *= 2
    return (low, high) if low < high else (0, levels - 1)
