"""Noise that is imagined, to find out how far answers may be off; it never protects anything.

Of each of n equally likely ranges of a law the middle is taken, and they are put in random order. Several noises
imagined together are as if independent, but each has the quantiles of its law (a Latin hypercube; McKay, Beckman,
Conover 1979), so what is found varies less than with independent draws: at n = 400 an interval's true coverage has a
standard deviation of 0.9 % where two noises of a size matter, and next to none where one does, instead of 1.1 %.

>>> sorted(shuffled_middles(4).tolist())
[-0.75, -0.25, 0.25, 0.75]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hush.noise import permutation, uniform_integer

Floats = npt.NDArray[np.float64]


def middles(size: int) -> Floats:
    """Return 2u-1 for the middles u of ``size`` equal ranges of [0, 1]: P[|X| ≤ t] is asked to be its magnitude."""
    return np.arange(1 - size, size, 2) / size


def shuffled(values: Floats) -> Floats:
    """Return values in random order."""
    return values[permutation(len(values))]


def shuffled_middles(size: int) -> Floats:
    """Return the middles of ``size`` equal ranges of [-1, 1] in random order."""
    return shuffled(middles(size))


def own_orders(rows: int, draws: int) -> npt.NDArray[np.int64]:
    """Return an order of the draws for each row, so that rows that share their draws are as if independent.

    Row by row it is a·d + b modulo their number, which must be a prime, with random a and b: at each place any draw of
    a row is as likely as any other, whatever those of the other rows are.

    >>> sorted(own_orders(1, 3)[0].tolist())
    [0, 1, 2]
    """
    times, shift = uniform_integer(draws - 1, size=rows) + 1, uniform_integer(draws, size=rows)
    places = times[:, None].astype(np.int32) * np.arange(draws, dtype=np.int32) + shift[:, None].astype(np.int32)
    return np.asarray(places % np.int32(draws), dtype=np.int64)  # draws are few thousand, so products fit
