"""The smallest ε that will do, to three digits.

>>> float(smallest(lambda epsilon: epsilon >= Fraction(1, 3)))
0.3335
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

_LEAST, _MOST = Fraction(1, 10**9), 10**6


def smallest(will_do: Callable[[Fraction], bool]) -> Fraction | None:
    """Return the smallest ε, to three digits, of those from which on all will do; None if there is none up to 10⁶."""
    low = high = _LEAST
    while not will_do(high):
        low, high = high, high * 8
        if high > _MOST:
            return None
    while high > low * Fraction(1001, 1000):
        middle = Fraction(f"{float((low + high) / 2):.4g}")
        if not low < middle < high:
            break
        low, high = (low, middle) if will_do(middle) else (middle, high)
    return high
