"""Rounding to a known side, on top of ball arithmetic.

Whatever the working precision, the ends of a ball enclose the true value. The precision is a setting of the whole
process; should another thread change it in the middle of a computation, the ball comes out wider, never wrong, and
:func:`certified` tries again.

>>> from hush.accounting.balls import ball, fraction_up
>>> third = certified(lambda: ball(Fraction(1, 3)))
>>> fraction_down(third) < Fraction(1, 3) < fraction_up(third)
True
>>> short_up(Fraction(10, 3), digits=4), short_down(Fraction(10, 3), digits=4)
(Fraction(1667, 500), Fraction(3333, 1000))
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hush.accounting.balls import down, fraction_up, precision, up
from hush.accounting.bound import Bound
from hush.core import PrecisionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hush.accounting.balls import Ball

__all__ = ["PRECISIONS", "certified", "decimal_unit", "enclosure", "fraction_down", "short_down", "short_up"]

PRECISIONS = (128, 256, 512, 1024, 2048, 4096)
"""Working precisions in bits, tried in turn."""


def fraction_down(value: Ball) -> Fraction:
    """Return the exact rational at the lower end of a finite real ball."""
    return -fraction_up(-value)


def enclosure(value: Ball) -> Bound:
    """Return the ball's ends as floats, each rounded outwards."""
    return Bound(lower=down(value), upper=up(value))


def certified(compute: Callable[[], Ball], *, bits: int = 64) -> Ball:
    """Evaluate at growing precision until the result has ``bits`` correct bits."""
    for working in PRECISIONS:
        with precision(working):
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
    # Bit lengths give the exponent to within one (log10 2 is below 0.30103), comparisons the rest.
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    exponent = bits * 30103 // 100000 - 1
    while Fraction(10) ** (exponent + 1) <= value:
        exponent += 1
    while Fraction(10) ** exponent > value:
        exponent -= 1
    return Fraction(10) ** (exponent - digits + 1)
