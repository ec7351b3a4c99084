"""Rounding to a known side, on top of ball arithmetic.

A *ball* (``flint.arb``) is a number with a proven error bound, so whatever the working precision, its ends enclose the
true value. The precision is a setting of the whole process; should another thread change it in the middle of a
computation, the ball comes out wider, never wrong, and :func:`certified` tries again.

>>> third = ball(Fraction(1, 3))
>>> down(third) < Fraction(1, 3) < up(third)
True
>>> float_down(Fraction(1, 10)) < float_up(Fraction(1, 10))
True
>>> short_up(Fraction(10, 3), digits=4), short_down(Fraction(10, 3), digits=4)
(Fraction(1667, 500), Fraction(3333, 1000))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx, fmpq

from hush.accounting.bound import Bound
from hush.core import PrecisionError

PRECISIONS = (128, 256, 512, 1024, 2048, 4096)
"""Working precisions in bits, tried in turn."""


def ball(value: Fraction | int) -> arb:
    """Return a ball that contains ``value``."""
    return arb(fmpq(value.numerator, value.denominator))


def up(value: arb) -> Fraction:
    """Return a rational at or above every number of the ball."""
    return _rational(value.upper())


def down(value: arb) -> Fraction:
    """Return a rational at or below every number of the ball."""
    return _rational(value.lower())


def _rational(end: arb) -> Fraction:
    mantissa, exponent = end.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def float_up(value: Fraction) -> float:
    """Return the smallest float64 at or above ``value``; beyond the range of float64, infinity."""
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -_LARGEST
    if math.isinf(nearest) or Fraction(nearest) >= value:
        return nearest
    return math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """Return the largest float64 at or below ``value``."""
    return -float_up(-value)


_LARGEST = math.nextafter(math.inf, 0)


def enclosure(value: arb) -> Bound:
    """Return the ball's ends as floats, each rounded outwards."""
    return Bound(float_down(down(value)), float_up(up(value)))


def certified(compute: Callable[[], arb], *, bits: int = 64) -> arb:
    """Evaluate at growing precision until the result has ``bits`` correct bits."""
    for precision in PRECISIONS:
        with ctx.workprec(precision):
            value = compute()
            if value.is_finite() and value.rel_accuracy_bits() >= bits:
                return value
    raise PrecisionError(f"A figure could not be certified to {bits} bits within {PRECISIONS[-1]} bits of arithmetic.")


def short_up(value: Fraction, *, digits: int = 12) -> Fraction:
    """Return the smallest decimal of ``digits`` significant digits at or above a positive ``value``."""
    unit = decimal_unit(value, digits=digits)
    return -(-value // unit) * unit


def short_down(value: Fraction, *, digits: int = 12) -> Fraction:
    """Return the largest decimal of ``digits`` significant digits at or below a positive ``value``."""
    unit = decimal_unit(value, digits=digits)
    return value // unit * unit


def decimal_unit(value: Fraction, *, digits: int) -> Fraction:
    """Return 10^e such that a positive ``value`` lies in [10^(digits-1), 10^digits) units."""
    if value <= 0:
        raise PrecisionError(f"Significant digits need a positive number, not {value}.")
    exponent = len(str(value.numerator)) - len(str(value.denominator))  # the leading power of ten, or one too many
    if Fraction(10) ** exponent > value:
        exponent -= 1
    return Fraction(10) ** (exponent - digits + 1)
