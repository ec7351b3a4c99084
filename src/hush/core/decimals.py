"""Where a monotone yes-or-no question changes its answer, on short decimals.

Both functions ask the question itself at the number they return, so a certified question gives a certified number, and
the answer is monotone wherever the question is: it is the first or last decimal of all, not wherever a float search
happened to stop.

>>> largest_decimal(lambda x: x * x <= 2, digits=6)
Fraction(141421, 100000)
>>> smallest_decimal(lambda x: x * x >= 2, digits=6)
Fraction(70711, 50000)
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from hush.core.errors import PrecisionError
from hush.core.rounding import decimal_unit

_REACH = 4096  # powers of ten to either side of 1 that are looked at


def largest_decimal(holds: Callable[[Fraction], bool], *, digits: int, near: Fraction | None = None) -> Fraction:
    """Return the largest decimal of ``digits`` digits at which ``holds``, true for small numbers, is true.

    ``near`` is a guess that saves questions when it is close.
    """
    unit, first, last = _bracket(holds, digits, near)
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if holds(middle * unit) else (first, middle)
    return first * unit


def smallest_decimal(holds: Callable[[Fraction], bool], *, digits: int, near: Fraction | None = None) -> Fraction:
    """Return the smallest decimal of ``digits`` digits at which ``holds``, true for large numbers, is true."""
    unit, first, last = _bracket(lambda x: not holds(x), digits, near)
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if holds(middle * unit) else (middle, last)
    return last * unit


def _bracket(early: Callable[[Fraction], bool], digits: int, near: Fraction | None) -> tuple[Fraction, int, int]:
    """Return (unit, first, last) with ``early`` true at first·unit and false at last·unit, inside one decade."""
    if near is not None and near > 0:
        unit = decimal_unit(near, digits=digits)
        centre, floor, ceiling = int(near // unit), 10 ** (digits - 1), 10**digits
        for width in (2, 64, 4096, 10**6, 10**9):
            first, last = max(centre - width, floor), min(centre + width, ceiling)
            if early(first * unit) and not early(last * unit):
                return unit, first, last
    decade = _decade(early)
    return Fraction(10) ** (decade - digits + 1), 10 ** (digits - 1), 10**digits


def _decade(early: Callable[[Fraction], bool]) -> int:
    """Return e with ``early`` true at 10^e and false at 10^(e+1), stepping outwards in doubling strides."""
    sign = 1 if early(Fraction(1)) else -1
    inside, stride = 0, 1
    while True:
        outside = inside + sign * stride
        if abs(outside) > _REACH:
            raise PrecisionError(f"No number between 1e-{_REACH} and 1e{_REACH} answers the question.")
        if early(Fraction(10) ** outside) != (sign > 0):
            break
        inside, stride = outside, 2 * stride
    low, high = sorted((inside, outside))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if early(Fraction(10) ** middle) else (low, middle)
    return low
