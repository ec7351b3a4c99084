"""Ball arithmetic: real and complex numbers that carry a proven error bound (Arb, through python-flint).

A ball is a midpoint and a radius, and every operation returns a ball that contains the true result. What leaves this
module is a float or a rational on a stated side of the truth. python-flint is imported when first used, so that
``import hush`` is quick.

The working precision is a setting of the whole process. Should another thread change it in the middle of a
computation, balls come out wider, never wrong; :func:`hush.core.rounding.certified` tries again.

>>> up(ball(Fraction(1, 3))) > 1 / 3 >= down(ball(Fraction(1, 3)))
True
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import Any

Ball = Any
"""A flint ``arb`` or ``acb``; the compiled module has no static types."""


@cache
def flint() -> Any:
    """Return the flint module, imported on first need."""
    import flint as module

    return module


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with this many bits inside the block."""
    context = flint().ctx
    before = context.prec
    context.prec = bits
    try:
        yield
    finally:
        context.prec = before


def ball(value: Fraction | float) -> Ball:
    """Return the ball around an exact rational, or the exact value of a float or integer."""
    arb = flint().arb
    if isinstance(value, Fraction):
        if value.denominator == 1:
            return arb(value.numerator)
        return arb(value.numerator) / value.denominator
    return arb(value)


def up(value: Ball) -> float:
    """Return a float that is not below any point of a real ball (NaN balls give +inf)."""
    if value.is_nan():
        return math.inf
    top = value.upper()
    nearest = float(top)
    if math.isnan(nearest):
        return math.inf
    return nearest if flint().arb(nearest) >= top else math.nextafter(nearest, math.inf)


def down(value: Ball) -> float:
    """Return a float that is not above any point of a real ball (NaN balls give −inf)."""
    if value.is_nan():
        return -math.inf
    bottom = value.lower()
    nearest = float(bottom)
    if math.isnan(nearest):
        return -math.inf
    return nearest if flint().arb(nearest) <= bottom else math.nextafter(nearest, -math.inf)


def fraction_up(value: Ball) -> Fraction:
    """Return the exact rational at the upper end of a finite real ball."""
    mantissa, exponent = value.upper().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def fraction_down(value: Ball) -> Fraction:
    """Return the exact rational at the lower end of a finite real ball."""
    return -fraction_up(-value)
