"""Exact bounds on a sampler's law, read off the program itself.

A decision of a sampler is a monotone function of one uniform. Give it a word and nothing but zeros after it, and it
decides for the lower end of an interval of uniforms; with nothing but ones after it, for the upper end. Bisection over
all words then finds, on the real code path, how many words decide one way: the probability of that decision lies
between two rationals 2⁻ⁿ apart, and must agree with the true probability, which ball arithmetic gives to any precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import flint
from predictable_bits import PredictableBits

from hush.noise.bits import system_bits

ONES = 2**64 - 1
PRECISION = 400

Decision = Callable[[int, int], bool]
"""decide(word, fill): the decision for the uniform that begins with ``word`` and goes on with ``fill`` for ever."""


def first_false(decide: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest n in [low, high] with not decide(n), for a decision that turns once; high if none."""
    while low < high:
        middle = (low + high) // 2
        if decide(middle):
            low = middle + 1
        else:
            high = middle
    return low


def bracket(decide: Decision, bits: int) -> tuple[int, int]:
    """Return how many of the 2^bits words decide True surely, and possibly.

    Zeros followed by zeros for ever, and ones by ones, are left out: they are no real uniform.
    """
    size = 2**bits
    surely = first_false(lambda n: decide(n, ONES), 0, size - 1)
    possibly = first_false(lambda n: decide(n, 0), 1, size)
    for near in range(1, 40):  # no second turn next to the first
        assert surely - near < 0 or decide(surely - near, ONES)
        assert surely + near >= size - 1 or not decide(surely + near, ONES)
        assert possibly - near < 1 or decide(possibly - near, 0)
        assert possibly + near >= size or not decide(possibly + near, 0)
    return surely, possibly


def contains(bounds: tuple[int, int], bits: int, truth: Callable[[], Any]) -> bool:
    """Return whether the true probability, a ball made at high precision, lies within the bounds, which are tight."""
    surely, possibly = bounds
    with precise():
        scaled = truth() * flint.arb(2) ** bits
        return not surely > scaled and not scaled > possibly and possibly - surely <= 1


@contextmanager
def precise() -> Iterator[None]:
    """Work with balls of high precision inside."""
    before = flint.ctx.prec
    flint.ctx.prec = PRECISION
    try:
        yield
    finally:
        flint.ctx.prec = before


def arb(value: Fraction | int | str) -> Any:
    """Return a ball around a rational at the working precision."""
    value = Fraction(value)
    return flint.arb(value.numerator) / value.denominator


def script(*words: int, fill: int | None = None) -> PredictableBits:
    """Return a source that hands out these words."""
    return PredictableBits(words, fill)


def random_words(count: int) -> list[int]:
    """Return fresh random words; the claims tested with them hold for all words."""
    return [int(word) for word in system_bits().words(count)]
