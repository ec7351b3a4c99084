"""Fair draws: uniform integers, uniform permutations, and biased coins.

An integer below n is drawn by taking as many bits as n−1 has and starting anew when they give n or more: each of
the n results is reached by exactly one bit pattern, so all are equally likely, and fewer than two tries are needed
on average. (Multiplying a word by n and keeping the high half is faster and slightly uneven.) Where each integer of
many has a bound of its own, each takes a word modulo its bound n and starts anew if the word is below 2⁶⁴ mod n: the
other words are a multiple of n in a row, so all remainders are equally likely, and where bounds are small hardly any
start anew.

A permutation sorts n distinct random words. Conditioned on the words being distinct every order is equally likely,
by symmetry; if two agree (probability below n²/2⁶⁵) all are drawn again.

>>> uniform_integer(1)
0
>>> uniform_integers([1, 1, 1])
array([0, 0, 0])
>>> sorted(permutation(4).tolist())
[0, 1, 2, 3]

**Coins**: Bernoulli(p) for rational p, and Bernoulli(e⁻ˣ) for rational or real x ≥ 0. The coin is heads when U < p. The
first 64 bits of U, a word w, settle this unless w equals t = ⌊2⁶⁴p⌋: for w < t the whole interval [w, w+1]/2⁶⁴ lies
below p, for w > t above it. Only when w = t (probability 2⁻⁶⁴) are more bits compared: with the further binary digits
of p if p is rational, in ball arithmetic if p = e⁻ˣ. No floating point takes part, and a draw's cost does not depend on
its outcome. For p = e⁻ˣ the integer t comes from a ball proven to contain e⁻ˣ.

>>> draw_bernoulli(Fraction(1), system_bits()), draw_bernoulli(Fraction(0), system_bits())
(True, False)
>>> bernoulli_exp(0)
True
>>> bernoulli("1/3", size=4).dtype
dtype('bool')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, integer, nonnegative, probability
from hush.core.rounding import Ball, ball, flint
from hush.noise.bits import BitSource, Real, Size, Uniform, drawn, floor, less, settle, system_bits

_WORD_RANGE = 2**64
"""The number of values that a word of 64 bits can have."""
_PRECISION = 160
"""64 bits of a floor and 96 to spare: a second attempt has a chance of about 2⁻⁹⁶."""


@overload
def bernoulli(p: Number, size: None = None) -> bool: ...
@overload
def bernoulli(p: Number, size: int | tuple[int, ...]) -> npt.NDArray[np.bool_]: ...
def bernoulli(p: Number, size: Size = None) -> Any:
    """Draw True with probability exactly ``p``, a number from 0 to 1."""
    return drawn(size, draw_many_bernoulli, draw_bernoulli, probability(p, "p"), dtype=np.bool_)


@overload
def bernoulli_exp(x: Number | Real, size: None = None) -> bool: ...
@overload
def bernoulli_exp(x: Number | Real, size: int | tuple[int, ...]) -> npt.NDArray[np.bool_]: ...
def bernoulli_exp(x: Number | Real, size: Size = None) -> Any:
    """Draw True with probability exactly e⁻ˣ.

    ``x`` is a number of at least zero, or a real given by intervals: a function that takes a precision in bits and
    returns a ``flint.arb`` around x; it is called with growing precision until the coin is settled.
    """
    exponent = x if callable(x) else nonnegative(x, "x")
    return drawn(size, draw_many_bernoulli_exp, draw_bernoulli_exp, exponent, dtype=np.bool_)


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


def _exp(x: Fraction | Real) -> Ball:
    return (-(x(flint().ctx.prec) if callable(x) else ball(x))).exp()


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
    threshold: int = settle(lambda: floor(_exp(x) * _WORD_RANGE), [], _PRECISION)
    return threshold


def settle_exp(x: Fraction | Real, word: int, bits: BitSource) -> bool:
    """Return whether U < e⁻ˣ, for a uniform U that begins with the 64 bits ``word``."""
    uniform = Uniform(bits, word, 64)
    heads: bool = settle(lambda: less(uniform.ball(), _exp(x)), [uniform], _PRECISION)
    return heads


@overload
def uniform_integer(n: int, size: None = None) -> int: ...
@overload
def uniform_integer(n: int, size: int | tuple[int, ...]) -> npt.NDArray[Any]: ...
def uniform_integer(n: int, size: Size = None) -> Any:
    """Draw an integer from 0 to n−1, each equally likely."""
    return drawn(size, draw_many_uniform_integers, draw_uniform_integer, integer(n, "n", minimum=1))


def uniform_integers(bounds: npt.NDArray[Any] | Sequence[int]) -> npt.NDArray[Any]:
    """Draw for each of several n an integer from 0 to n−1, each equally likely.

    Bounds below 2⁶³ give an int64 array, others one of Python integers.
    """
    limits = bounds if isinstance(bounds, np.ndarray) else np.array(bounds, dtype=object)
    try:
        if limits.dtype.kind not in "iu":
            limits = np.array([integer(n, "bounds") for n in limits], dtype=object)
        fits = limits.ndim == 1 and limits.min(initial=1) >= 1
    except InvalidValueError:
        fits = False
    if not fits:  # the bounds may be private: nothing is said of them
        raise InvalidValueError("bounds", got=type(bounds).__name__, allowed="a list of whole numbers of at least 1")
    return draw_uniform_integers(limits, system_bits())


def permutation(n: int) -> npt.NDArray[np.int64]:
    """Draw an order of 0 … n−1, each of the n! equally likely."""
    return draw_permutation(integer(n, "n", minimum=0), system_bits())


def draw_bits(count: int, bits: BitSource) -> int:
    """Draw an integer of ``count`` uniform bits."""
    value, have = 0, 0
    while have < count:
        take = min(64, count - have)
        value = (value << take) | (bits.word() >> (64 - take))
        have += take
    return value


def draw_many_bits(width: int, count: int, bits: BitSource) -> npt.NDArray[Any]:
    """Draw ``count`` integers of ``width`` uniform bits: int64 up to 63 bits, Python integers beyond."""
    if not width:
        return np.zeros(count, dtype=np.int64)
    if width < 64:
        return (bits.words(count) >> np.uint64(64 - width)).view(np.int64)
    values = bits.words(count).astype(object)
    for have in range(64, width, 64):
        take = min(64, width - have)
        values = (values << take) | (bits.words(count) >> np.uint64(64 - take)).astype(object)
    return np.asarray(values)


def draw_uniform_integer(n: int, bits: BitSource) -> int:
    """Draw one integer below n from ``bits``."""
    width = (n - 1).bit_length()
    while (value := draw_bits(width, bits)) >= n:
        pass
    return value


def draw_many_uniform_integers(n: int, count: int, bits: BitSource) -> npt.NDArray[Any]:
    """Draw ``count`` integers below n from ``bits``."""
    width = (n - 1).bit_length()
    values = draw_many_bits(width, count, bits)
    # Of 63 bits at most: n itself may be 2⁶³, which int64 does not hold.
    limit, comparable = (n, values) if values.dtype == object else (np.uint64(n), values.view(np.uint64))
    wrong = np.flatnonzero(comparable >= limit)
    while len(wrong):
        values[wrong] = draw_many_bits(width, len(wrong), bits)
        wrong = wrong[comparable[wrong] >= limit]
    return values


def draw_uniform_integers(bounds: npt.NDArray[Any], bits: BitSource) -> npt.NDArray[Any]:
    """Draw an integer below each of the bounds from ``bits``."""
    largest = int(bounds.max(initial=1))
    if largest >= 2**63:
        out: npt.NDArray[Any] = np.empty(len(bounds), dtype=object)
        out[:] = [draw_uniform_integer(int(n), bits) for n in bounds]
        return out
    limits = bounds.astype(np.uint64)
    # uint64 wraps round: -n is 2⁶⁴ - n, so its remainder is 2⁶⁴ mod n.
    words, uneven = bits.words(len(limits)), -limits % limits
    # The words from 2⁶⁴ mod n on are a multiple of n in number, so their remainders are equally likely.
    values, wrong = words % limits, np.flatnonzero(words < uneven)
    while len(wrong):
        words = bits.words(len(wrong))
        values[wrong] = words % limits[wrong]
        wrong = wrong[words < uneven[wrong]]
    return values.view(np.int64)


def draw_permutation(n: int, bits: BitSource) -> npt.NDArray[np.int64]:
    """Draw one order of 0 … n−1 from ``bits``."""
    while True:
        words = bits.words(n)
        order = np.argsort(words, kind="stable")
        ordered = words[order]
        if not np.any(ordered[1:] == ordered[:-1]):
            return order.astype(np.int64)
