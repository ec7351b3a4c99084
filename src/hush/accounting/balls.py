"""Ball arithmetic: real and complex numbers that carry a proven error bound (Arb, through python-flint).

A ball is a midpoint and a radius, and every operation returns a ball that contains the true result. What leaves this
module is a float on a stated side of the truth. python-flint is imported when first used, so that ``import hush`` is
quick.

>>> from fractions import Fraction
>>> up(ball(Fraction(1, 3))) > 1 / 3 >= down(ball(Fraction(1, 3)))
True
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Ball = Any
"""A flint ``arb`` or ``acb``; the compiled module has no static types."""


@cache
def flint() -> Any:
    """Return the flint module, imported once."""
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
    module = flint()
    if isinstance(value, Fraction):
        if value.denominator == 1:
            return module.arb(value.numerator)
        return module.arb(value.numerator) / module.arb(value.denominator)
    return module.arb(value)


def complex_ball(real: Fraction | float | Ball, imaginary: Fraction | float | Ball = 0) -> Ball:
    """Return a complex ball from two real parts."""
    module = flint()
    parts = [ball(x) if isinstance(x, (Fraction, float, int)) else x for x in (real, imaginary)]
    return module.acb(parts[0], parts[1])


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


def float_up(value: Fraction) -> float:
    """Return the smallest float that is not below an exact rational."""
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -1.7976931348623157e308
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """Return the largest float that is not above an exact rational."""
    return -float_up(-value)


def fraction_up(value: Ball) -> Fraction:
    """Return the exact rational at the upper end of a finite real ball."""
    mantissa, exponent = value.upper().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
