"""Uniform integers and uniform permutations.

An integer below n is drawn by taking as many bits as n−1 has and starting anew when they give n or more: each of
the n results is reached by exactly one bit pattern, so all are equally likely, and fewer than two tries are needed
on average. (Multiplying a word by n and keeping the high half is faster and slightly uneven.)

A permutation sorts n distinct random words. Conditioned on the words being distinct every order is equally likely,
by symmetry; if two agree (probability below n²/2⁶⁵) all are drawn again.

>>> uniform_integer(1)
0
>>> sorted(permutation(4).tolist())
[0, 1, 2, 3]
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from hush.core import integer
from hush.noise.bits import BitSource, system_bits
from hush.noise.sizes import Size, fill, shape_of


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


def draw_uniform_integer(n: int, bits: BitSource) -> int:
    """Draw one integer below n from ``bits``."""
    width = (n - 1).bit_length()
    while (value := draw_bits(width, bits)) >= n:
        pass
    return value


def draw_many_uniform_integers(n: int, count: int, bits: BitSource) -> npt.NDArray[Any]:
    """Draw ``count`` integers below n from ``bits``."""
    if n > 2**63:
        out: npt.NDArray[Any] = np.empty(count, dtype=object)
        out[:] = [draw_uniform_integer(n, bits) for _ in range(count)]
        return out
    if n == 1:
        return np.zeros(count, dtype=np.int64)
    shift = np.uint64(64 - (n - 1).bit_length())
    values = bits.words(count) >> shift
    wrong = np.flatnonzero(values >= np.uint64(n))
    while len(wrong):
        values[wrong] = bits.words(len(wrong)) >> shift
        wrong = wrong[values[wrong] >= np.uint64(n)]
    return values.astype(np.int64)


def draw_permutation(n: int, bits: BitSource) -> npt.NDArray[np.int64]:
    """Draw one order of 0 … n−1 from ``bits``."""
    while True:
        words = bits.words(n)
        order = np.argsort(words, kind="stable")
        ordered = words[order]
        if not np.any(ordered[1:] == ordered[:-1]):
            return order.astype(np.int64)
