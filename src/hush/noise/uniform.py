"""Uniform integers and uniform permutations.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, integer
from hush.noise.bits import BitSource, Size, fill, shape_of, system_bits


@overload
def uniform_integer(n: int, size: None = None) -> int: ...
@overload
def uniform_integer(n: int, size: int | tuple[int, ...]) -> npt.NDArray[Any]: ...
def uniform_integer(n: int, size: Size = None) -> int | npt.NDArray[Any]:
    """Draw an integer from 0 to n−1, each equally likely."""
    limit, shape = integer(n, "n", minimum=1), shape_of(size)
    if shape is None:
        return draw_uniform_integer(limit, system_bits())
    return fill(shape, lambda count: draw_many_uniform_integers(limit, count, system_bits()))


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
