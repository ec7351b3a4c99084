r"""Poisson noise, and Skellam noise, its difference, exactly, by inverting a table of the distribution function.

**The laws.** For a rate λ > 0,

    Poisson   P[N = k] = e^(-λ) λ^k / k!                           k = 0, 1, 2, …
    Skellam   X = N₁ - N₂, independent Poisson of rate λ each      variance 2λ

Both are closed under sums: shares of λ/h drawn by h parties add up to exactly the law of λ (Skellam 1946; as noise
for private sums: Agarwal, Kairouz, Liu 2021).

**Inversion.** Let F(k) = P[N ≤ k] and T_k = ⌊2⁶⁴F(k)⌋. The first 64 bits of a uniform U, a word w, say that U lies in
[w, w+1]/2⁶⁴. For w > T_k the whole interval lies above F(k), hence N > k; for w < T_k it lies below, hence N ≤ k. So
the number of thresholds below w is N unless w equals a threshold, or lies outside the table: then, in about 2⁻⁵⁰ of
draws, more bits are drawn and compared with F in ball arithmetic, F(k) = Γ(k+1, λ)/k!. The thresholds themselves are
floors of balls that contain 2⁶⁴F(k), at a precision that makes them certain. No floating point takes part.

**Large rates.** A table holds about 20√λ thresholds. Past λ = 2¹⁴ the draw is the sum of m draws of rate λ/m.

The rate may be a real that is no rational (`hush.noise.negative_binomial` needs a logarithm): it is then given by
balls of any precision.

>>> poisson("1e-30")
0
>>> skellam(8, size=(2, 3)).shape
(2, 3)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, positive
from hush.core.balls import Ball, ball, flint
from hush.noise.bits import BitSource, Size, Uniform, fill, floor, less, put, settle, shape_of, system_bits

_LARGEST_TABLE_RATE = 2**14
_LARGEST_RATE = 2**40
_WORD_RANGE = 2**64
_TABLE_PRECISION = 320  # bits: the sum of a table's masses loses few of them, and 64 have to be certain


@overload
def poisson(rate: Number, size: None = None) -> int: ...
@overload
def poisson(rate: Number, size: int | tuple[int, ...]) -> npt.NDArray[Any]: ...
def poisson(rate: Number, size: Size = None) -> int | npt.NDArray[Any]:
    """Draw k ≥ 0 with probability exactly e^(-rate)·rate^k/k!, for a rational rate up to 2⁴⁰."""
    law, shape = poisson_law(_rate(rate, "rate")), shape_of(size)
    if shape is None:
        return int(draw_many(law, 1, system_bits())[0])
    return fill(shape, lambda count: draw_many(law, count, system_bits()))


@overload
def skellam(variance: Number, size: None = None) -> int: ...
@overload
def skellam(variance: Number, size: int | tuple[int, ...]) -> npt.NDArray[Any]: ...
def skellam(variance: Number, size: Size = None) -> int | npt.NDArray[Any]:
    """Draw the difference of two independent Poisson variables, each with half the variance as its rate."""
    law, shape = poisson_law(_rate(variance, "variance") / 2), shape_of(size)

    def draw(count: int) -> npt.NDArray[Any]:
        both = draw_many(law, 2 * count, system_bits())
        difference: npt.NDArray[Any] = both[:count] - both[count:]
        return difference

    return int(draw(1)[0]) if shape is None else fill(shape, draw)


def _rate(value: Number, parameter: str) -> Fraction:
    rate = positive(value, parameter)
    if rate > _LARGEST_RATE:
        raise InvalidValueError(parameter, got=value, allowed=f"at most {_LARGEST_RATE}")
    return rate


class PoissonLaw(NamedTuple):
    """A rate prepared for drawing: a draw is the sum of ``repeats`` draws from a table."""

    rate: Callable[[], Ball]
    """The table's rate as a ball, at the working precision."""
    repeats: int
    first: int
    """The k of the first threshold."""
    thresholds: npt.NDArray[np.uint64]


@lru_cache(maxsize=256)
def poisson_law(rate: Fraction) -> PoissonLaw:
    """Prepare a rational rate."""
    # Rates add up under independent sums: the sum of m draws of rate λ/m has exactly the law of λ.
    repeats = max(1, math.ceil(rate / _LARGEST_TABLE_RATE))
    return law_of_real(partial(ball, rate / repeats), float(rate / repeats), repeats)


def law_of_real(rate: Callable[[], Ball], nearly: float, repeats: int = 1) -> PoissonLaw:
    """Prepare a rate given by balls; ``nearly`` only says where the table begins, and may be a little wrong."""
    # F is about 2⁻⁶⁴ nine standard deviations below the mean. Draws below the table are settled exactly, so a wrong
    # beginning costs time and nothing else.
    first = max(0, math.floor(nearly - 9.5 * math.sqrt(nearly) - 10))
    context = flint().ctx
    before, precision = context.prec, _TABLE_PRECISION
    try:
        while True:
            context.prec = precision
            thresholds = _thresholds(rate(), first)
            if thresholds is not None:
                return PoissonLaw(rate, repeats, first, np.array(thresholds, dtype=np.uint64))
            precision *= 2
    finally:
        context.prec = before


def _thresholds(rate: Ball, first: int) -> list[int] | None:
    """Return ⌊2⁶⁴F(k)⌋ from k = first until F is above 1 - 2⁻⁶⁴; None where a floor is not certain."""
    below = _distribution(first, rate)
    mass = (rate.log() * first - rate - flint().arb(first + 1).lgamma()).exp()
    thresholds, k = [], first
    while True:
        threshold = floor(below * _WORD_RANGE)
        if threshold is None:
            return None
        thresholds.append(min(threshold, _WORD_RANGE - 1))  # a ball that reaches 1 may have the floor 2⁶⁴
        if threshold >= _WORD_RANGE - 1:
            return thresholds
        k += 1
        mass = mass * rate / k  # P[N = k] = P[N = k-1]·λ/k
        below = below + mass


def _distribution(k: int, rate: Ball) -> Ball:
    """Return F(k) = Γ(k+1, λ)/k!."""
    return rate.gamma_upper(k + 1, regularized=1)


def draw_many(law: PoissonLaw, count: int, bits: BitSource) -> npt.NDArray[Any]:
    """Draw ``count`` integers from ``bits``."""
    if law.repeats == 1:
        return _from_table(law, count, bits)
    total = _from_table(law, count, bits)
    for _ in range(law.repeats - 1):
        total = total + _from_table(law, count, bits)
    return total


def _from_table(law: PoissonLaw, count: int, bits: BitSource) -> npt.NDArray[Any]:
    words = bits.words(count)
    # searchsorted counts the thresholds below each word; equality, and either end of the table, decides nothing.
    positions = np.searchsorted(law.thresholds, words)
    inside = np.minimum(positions, len(law.thresholds) - 1)
    doubtful = law.thresholds[inside] == words
    doubtful |= positions == len(law.thresholds)
    if law.first:
        doubtful |= positions == 0
    values: npt.NDArray[Any] = positions.astype(np.int64) + law.first
    unsettled = np.flatnonzero(doubtful)
    return put(values, unsettled, (invert_exactly(law, int(words[i]), int(values[i]), bits) for i in unsettled))


def invert_exactly(law: PoissonLaw, word: int, guess: int, bits: BitSource) -> int:
    """Return the smallest k with U < F(k), for U beginning with ``word``: the slow level."""
    uniform = Uniform(bits, word, 64)

    def is_at_most(k: int) -> bool:
        if k < 0:
            return False
        answer: bool = settle(lambda: less(uniform.ball(), _distribution(k, law.rate())), [uniform], _TABLE_PRECISION)
        return answer

    # U < F(k) is monotone in k: down to the last k where it fails, or up to the first where it holds.
    k = guess
    while is_at_most(k):
        k -= 1
    while not is_at_most(k + 1):
        k += 1
    return k + 1
