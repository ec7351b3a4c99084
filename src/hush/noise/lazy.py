"""Lazily refined uniforms, and decisions in ball arithmetic.

The idea behind every sampler here. A uniform real U in [0, 1) has infinitely many bits, of which only the first n
are drawn: they say that U lies in [m/2ⁿ, (m+1)/2ⁿ]. A sampler computes some f(U) and needs a discrete fact about
it: its floor, its sign, which grid point is nearest. If the fact is the same for the whole interval, it is *known*,
and the bits not drawn can never matter; if not, 64 more bits are drawn and the interval shrinks. The result is
exactly what the ideal real U would have given, so its law is exactly the ideal law. It is not close to it: it is
it.

Two levels decide. The fast level is float64 with a proven bound on its error; it decides unless the interval,
widened by that bound, straddles the decision. The slow level is ball arithmetic (Arb, through python-flint): every
ball is proven to contain the true value, at any precision, so a wrong answer is impossible and more precision only
makes it decide sooner. (Arb's precision is a global setting. If another thread lowers it in the middle, balls grow
wider and stay right.)

A decision fails to settle only for U equal to one of countably many thresholds, an event of probability zero; the
chance that it takes more than n extra words shrinks like 2^(-64n).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hush.core.balls import Ball, ball, flint, precision
from hush.noise.bits import BitSource

_HALF = Fraction(1, 2)

Real = Callable[[int], Ball]
"""A real number: called with a precision in bits, returns a ball around itself."""


class Uniform:
    """A uniform real in [0, 1) of which the first ``bits`` binary digits, ``digits``, are drawn so far."""

    __slots__ = ("bits", "digits", "source")

    def __init__(self, source: BitSource, digits: int = 0, bits: int = 0) -> None:
        self.source = source
        self.digits = digits
        self.bits = bits

    def refine(self) -> None:
        """Draw 64 more binary digits."""
        self.digits = (self.digits << 64) | self.source.word()
        self.bits += 64

    def ball(self) -> Ball:
        """Return a ball around the interval of all reals that begin with these digits."""
        module = flint()
        middle = module.arb(2 * self.digits + 1, 1)
        return middle * module.arb(2) ** -(self.bits + 1)


def settle(attempt: Callable[[], Any], uniforms: list[Uniform], bits: int = 128) -> Any:
    """Call ``attempt`` with growing precision and ever more bits until it returns something other than None."""
    while True:
        with precision(bits):
            outcome = attempt()
        if outcome is not None:
            return outcome
        for uniform in uniforms:
            uniform.refine()
        bits += 96


def floor(value: Ball) -> int | None:
    """Return the floor of a ball if it is the same throughout, else None."""
    whole = value.floor().unique_fmpz()
    return None if whole is None else int(whole)


def nearest(value: Ball) -> int | None:
    """Return the integer nearest to a ball if it is the same throughout, else None."""
    return floor(value + ball(_HALF))


def less(left: Ball, right: Ball) -> bool | None:
    """Return whether left < right if the two balls do not overlap, else None."""
    if left < right:
        return True
    if left > right:
        return False
    return None
