"""Biased coins: Bernoulli(p) for rational p, and Bernoulli(e⁻ˣ) for rational or real x ≥ 0.

The coin is heads when U < p. The first 64 bits of U, a word w, settle this unless w equals t = ⌊2⁶⁴p⌋: for w < t
the whole interval [w, w+1]/2⁶⁴ lies below p, for w > t above it. Only when w = t (probability 2⁻⁶⁴) are more bits
compared: with the further binary digits of p if p is rational, in ball arithmetic if p = e⁻ˣ. No floating point
takes part, and a draw's cost does not depend on its outcome. For p = e⁻ˣ the integer t comes from a ball proven to
contain e⁻ˣ.

>>> draw_bernoulli(Fraction(1), system_bits()), draw_bernoulli(Fraction(0), system_bits())
(True, False)
>>> bernoulli_exp(0)
True
>>> bernoulli("1/3", size=4).dtype
dtype('bool')
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from hush.core import Number, nonnegative, probability
from hush.core.balls import ball
from hush.noise.bits import BitSource, Real, Size, Uniform, fill, floor, less, settle, shape_of, system_bits

_WORD_RANGE = 2**64
"""The number of values that a word of 64 bits can have."""


@overload
def bernoulli(p: Number, size: None = None) -> bool: ...
@overload
def bernoulli(p: Number, size: int | tuple[int, ...]) -> npt.NDArray[np.bool_]: ...
def bernoulli(p: Number, size: Size = None) -> bool | npt.NDArray[np.bool_]:
    """Draw True with probability exactly ``p``, a number from 0 to 1."""
    chance, shape = probability(p, "p"), shape_of(size)
    if shape is None:
        return draw_bernoulli(chance, system_bits())
    return fill(shape, lambda count: draw_many_bernoulli(chance, count, system_bits()), dtype=np.bool_)


@overload
def bernoulli_exp(x: Number | Real, size: None = None) -> bool: ...
@overload
def bernoulli_exp(x: Number | Real, size: int | tuple[int, ...]) -> npt.NDArray[np.bool_]: ...
def bernoulli_exp(x: Number | Real, size: Size = None) -> bool | npt.NDArray[np.bool_]:
    """Draw True with probability exactly e⁻ˣ.

    ``x`` is a number of at least zero, or a real given by intervals: a function that takes a precision in bits and
    returns a ``flint.arb`` around x; it is called with growing precision until the coin is settled.
    """
    shape = shape_of(size)
    exponent = x if callable(x) else nonnegative(x, "x")
    if shape is None:
        return draw_bernoulli_exp(exponent, system_bits())
    return fill(shape, lambda count: draw_many_bernoulli_exp(exponent, count, system_bits()), dtype=np.bool_)


def draw_bernoulli(p: Fraction, bits: BitSource) -> bool:
    """Draw one coin from ``bits``."""
    remaining = p
    while True:
        # The quotient is the next 64 binary digits of p, the remainder (over the denominator) the digits after them.
        threshold, remainder = divmod(remaining.numerator * _WORD_RANGE, remaining.denominator)
        word = bits.word()
        if word != threshold:
            return word < threshold
        # U and p agree so far. The digits that follow are compared in the same way, so no digit of p is ignored.
        remaining = Fraction(remainder, remaining.denominator)


def draw_many_bernoulli(p: Fraction, count: int, bits: BitSource) -> npt.NDArray[np.bool_]:
    """Draw ``count`` coins from ``bits``."""
    threshold, remainder = divmod(p.numerator * _WORD_RANGE, p.denominator)
    further = Fraction(remainder, p.denominator)
    return _compare(bits.words(count), threshold, lambda: draw_bernoulli(further, bits))


def draw_bernoulli_exp(x: Fraction | Real, bits: BitSource) -> bool:
    """Draw one coin of probability e⁻ˣ from ``bits``."""
    word = bits.word()
    threshold = _threshold(x)
    return word < threshold if word != threshold else settle_exp(x, word, bits)


def draw_many_bernoulli_exp(x: Fraction | Real, count: int, bits: BitSource) -> npt.NDArray[np.bool_]:
    """Draw ``count`` coins of probability e⁻ˣ from ``bits``."""
    threshold = _threshold(x)
    return _compare(bits.words(count), threshold, lambda: settle_exp(x, threshold, bits))


def _compare(words: npt.NDArray[np.uint64], threshold: int, tie: Callable[[], bool]) -> npt.NDArray[np.bool_]:
    if threshold >= _WORD_RANGE:  # p = 1: always heads, and 2⁶⁴ is no uint64
        return np.ones(len(words), dtype=np.bool_)
    heads = words < np.uint64(threshold)
    for position in np.flatnonzero(words == np.uint64(threshold)):
        heads[position] = tie()
    return heads


def _exp(x: Fraction | Real, precision: int) -> Any:
    return (-(x(precision) if callable(x) else ball(x))).exp()


def _threshold(x: Fraction | Real) -> int:
    """Return ⌊2⁶⁴e⁻ˣ⌋ exactly."""
    if callable(x):
        return _find_threshold(x)
    # Past this 2⁶⁴e⁻ˣ < 1; it also keeps the exponent within what a ball holds comfortably.
    return 0 if x >= 45 else _WORD_RANGE if x == 0 else _cached_threshold(x)


@lru_cache(maxsize=4096)
def _cached_threshold(x: Fraction) -> int:
    return _find_threshold(x)


def _find_threshold(x: Fraction | Real) -> int:
    """Raise the precision until the floor is certain (for a real x that is exactly 0: never; give 0 as a number)."""
    precision = 160  # 64 bits of the floor and 96 to spare: a second attempt has a chance of about 2⁻⁹⁶

    def attempt() -> int | None:
        nonlocal precision
        word = floor(_exp(x, precision) * _WORD_RANGE)
        precision += 96
        return word

    threshold: int = settle(attempt, [], precision)
    return threshold


def settle_exp(x: Fraction | Real, word: int, bits: BitSource) -> bool:
    """Return whether U < e⁻ˣ, for a uniform U that begins with the 64 bits ``word``."""
    uniform = Uniform(bits, word, 64)
    precision = 160

    def attempt() -> bool | None:
        nonlocal precision
        heads = less(uniform.ball(), _exp(x, precision))
        precision += 96
        return heads

    heads: bool = settle(attempt, [uniform], precision)
    return heads
