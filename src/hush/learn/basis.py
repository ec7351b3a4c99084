r"""Features of a column: public maps from levels to a few numbers of squared norm at most 1.

* A category is one-hot: one feature per declared value.
* A number has a straight line and *hats*. The line runs from −1 to 1 over the column's range; the hats are 1 at one
  knot, 0 at the others and linear between. A level's features are (3/8)·line and (59/64)·hats, and hats are t and 1−t
  with t a multiple of 2⁻²⁰, so the squares add up to at most 9/64 + (59/64)² < 1, in exact arithmetic.
* ``"linear"`` leaves the hats out: one feature per number.

So a row's features and the intercept s have R² = columns + s² at most, in integers. Nothing is clipped or scaled by the
rows. The line costs no norm worth speaking of, carries most of a monotone effect in one coefficient, and so with one
coefficient's noise; the hats bend it.

**Where the knots go** is read from a noisy histogram of the levels (:mod:`hush.learn.looks`). The range is the span of
all blocks of 1, 2, 4, … levels that stand three deviations above their noise. Levels below 1.5 deviations count as
empty; of the others the square root of the count is taken, and knots cut it into equal shares. Against equal counts
the root gives a spike (a column that is zero for nine rows of ten) less and its surroundings more.

**How many** there are grows with the cube root of n̂μ, the rows that noise leaves: a hat's bias falls as 1/m² and its
noise grows as m/(nμ). n̂ is the noisy number of rows.

>>> numeric_map(5, Knots(low=0, high=4, places=(0, 4)))[:, 1].tolist()
[0.921875, 0.69140625, 0.4609375, 0.23046875, 0.0, 0.0]
"""

from __future__ import annotations

import math

import numpy as np

from hush.core.values import dataclass
from hush.learn.schema import Column, Floats

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


def one_hot(levels: int) -> Floats:
    """Return the map of a category: a row per value, and zeros for missing."""
    return np.vstack([np.eye(levels), np.zeros((1, levels))])


def numeric_map(levels: int, knots: Knots) -> Floats:
    """Return the map of a number: the line, then the hats; constant beyond the range."""
    places = np.arange(levels)
    middle, half = (knots.low + knots.high) / 2, max((knots.high - knots.low) / 2, 0.5)
    line = np.rint(np.clip((places - middle) / half, -1.0, 1.0) * _QUANTUM) / _QUANTUM
    if not knots.places:
        return np.append(line, 0.0)[:, None]
    return np.hstack([np.append(_LINE * line, 0.0)[:, None], _HAT * _hats(levels, np.array(knots.places))])


def _hats(levels: int, knots: np.ndarray[tuple[int], np.dtype[np.int_]]) -> Floats:
    places = np.arange(levels)
    result = np.zeros((levels + 1, len(knots)))
    right = np.clip(np.searchsorted(knots, places), 0, len(knots) - 1)
    left = np.maximum(right - 1, 0)
    inside = (places > knots[0]) & (places < knots[-1])
    weight = np.where(inside, (places - knots[left]) / np.maximum(knots[right] - knots[left], 1), 1.0)
    weight = np.rint(weight * _QUANTUM) / _QUANTUM
    result[places, np.where(places >= knots[-1], len(knots) - 1, right)] = weight
    result[places[inside], left[inside]] = 1.0 - weight[inside]
    return result


def column_map(column: Column, knots: Knots | None) -> Floats:
    """Return a column's map."""
    return one_hot(column.levels) if knots is None else numeric_map(column.levels, knots)


def how_many(rows: float, mu: float) -> int:
    """Return the number of knots for so many noisy rows and a fit of this μ."""
    return max(2, min(_MOST, round(0.85 * math.cbrt(max(rows * mu, 1.0)))))


def choose_knots(counts: Floats, sigma: float, most: int, rows: float = 0.0) -> Knots:
    """Return the knots for noisy counts of the levels; ``most`` below 2 asks for the line alone.

    A span that holds less than four fifths of the noisy ``rows`` was found by noise, and all levels are taken instead.
    """
    low, high = _span(counts, sigma)
    if float(counts[low : high + 1].sum()) < _MOSTLY * rows:
        low, high = 0, len(counts) - 1
    if most < 2:
        return Knots(low=low, high=high, places=())
    levels = np.arange(len(counts))
    root = np.sqrt(np.where((counts > _EMPTY * sigma) & (levels >= low) & (levels <= high), counts, 0.0))
    total = float(root.sum())
    inner: list[int] = []
    if total > 0 and most > 2:
        marks = np.arange(1, most - 1) / (most - 1) * total
        inner = np.clip(np.searchsorted(np.cumsum(root) - root / 2, marks), low, high).tolist()
    return Knots(low=low, high=high, places=tuple(sorted({low, high, *inner})))


def _span(counts: Floats, sigma: float) -> tuple[int, int]:
    """Return the first and last level of the blocks that are certainly occupied; all levels where there is none."""
    levels = len(counts)
    low, high = levels, -1
    size = 1
    while size <= levels // 2:
        blocks = counts[: levels // size * size].reshape(-1, size).sum(axis=1)
        occupied = np.flatnonzero(blocks > _OCCUPIED * sigma * math.sqrt(size))
        if occupied.size:
            first, last = int(occupied[0]) * size, int(occupied[-1]) * size + size - 1
            # A wide block widens the span only where it lies wholly outside of what narrower ones have shown.
            low = first if first + size - 1 < low else low
            high = last if last - size + 1 > high else high
        size *= 2
    return (low, high) if low < high else (0, levels - 1)
