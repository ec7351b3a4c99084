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

from hush.core.errors import PrecisionError

_MAX_EXPONENT = 1 << 16
"""The largest power of two, upwards or downwards, that is written out as a rational."""
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
    nearest = float(top)  # rounded to nearest, so it may lie below: then the next float up is taken
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
    mantissa, exponent = (int(number) for number in value.upper().man_exp())
    size = mantissa.bit_length() + exponent
    if size > _MAX_EXPONENT:
        raise PrecisionError("A figure is too large to be written down; use more moderate parameters.")
    if mantissa and size < -_MAX_EXPONENT:  # as near to zero as is ever needed, and still above the value
        return Fraction(1, 1 << _MAX_EXPONENT) if mantissa > 0 else Fraction(0)
    return Fraction(mantissa) * Fraction(2) ** exponent


def fraction_down(value: Ball) -> Fraction:
    """Return the exact rational at the lower end of a finite real ball."""
    return -fraction_up(-value)
