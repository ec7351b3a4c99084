"""Intervals that hold for floating-point evaluation: exact rationals, always rounded outward.

Engines evaluate arithmetic in float64. If the ends of the arguments' intervals are floats and the exact result lies
in [L, U], then its rounding lies in [fl(L), fl(U)], because rounding is monotone; so rounding L down and U up to the
next float gives an interval that no evaluation leaves. Whole numbers below 2⁵³ are floats, hence stay as they are.
An end that would lie beyond the largest float is infinite: such a value is not finite and becomes NULL.

Functions that libraries do not round correctly (exp, ln, power) are widened by a relative 2⁻⁴⁸, 32 units in the last
place, far more than any mathematical library in use errs.

The engine clamps what is finally summed to its range once more, so an error here could bias an answer but never
break a sensitivity.

>>> tenth = Interval.at(Fraction(1, 10))
>>> tenth.lower < Fraction(1, 10) < tenth.upper
True
>>> (Interval(Fraction(0), Fraction(120)) / Interval.at(Fraction(10))).floor() * Interval.at(Fraction(10))
Interval(lower=Fraction(0, 1), upper=Fraction(120, 1))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

INFINITY = math.inf
_WHOLE = 2**53
_LARGEST = Fraction(1.7976931348623157e308)
_SLACK = Fraction(1, 2**48)

End = Fraction | float
"""A rational, or an infinity."""


def round_down(value: End) -> End:
    """Return the largest float64 that is not above ``value``."""
    return -round_up(-value)


def round_up(value: End) -> End:
    """Return the smallest float64 that is not below ``value``."""
    if not isinstance(value, Fraction) or (value.denominator == 1 and abs(value.numerator) <= _WHOLE):
        return value
    if value > _LARGEST:
        return INFINITY
    if value < -_LARGEST:
        return -_LARGEST
    near = Fraction(value.numerator / value.denominator)
    return near if near >= value else Fraction(math.nextafter(float(near), INFINITY))


def _times(a: End, b: End) -> End:
    """Multiply, with 0·∞ = 0: an infinite end stands for finite values without a known bound."""
    if a == 0 or b == 0:
        return Fraction(0)
    return a * b


def _over(a: End, b: End) -> End:
    """Divide by something that is not zero; anything over an infinity tends to zero."""
    if not isinstance(b, Fraction):
        return Fraction(0)
    return a / b if isinstance(a, Fraction) else a * (1 if b > 0 else -1)


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from ``lower`` to ``upper``; infinite ends are not known."""

    lower: End = -INFINITY
    upper: End = INFINITY

    @classmethod
    def of(cls, lower: Fraction | None, upper: Fraction | None) -> Interval:
        """Return the interval of float64 values that a declared range stands for."""
        return cls(-INFINITY if lower is None else lower, INFINITY if upper is None else upper).outward()

    @classmethod
    def at(cls, value: Fraction) -> Interval:
        """Return the floats a constant may be read as."""
        return cls(value, value).outward()

    @property
    def ends(self) -> tuple[Fraction | None, Fraction | None]:
        """The two ends as rationals, None where not known."""
        return (
            self.lower if isinstance(self.lower, Fraction) else None,
            self.upper if isinstance(self.upper, Fraction) else None,
        )

    @property
    def bounded(self) -> bool:
        """Whether both ends are known."""
        return isinstance(self.lower, Fraction) and isinstance(self.upper, Fraction)

    @property
    def magnitude(self) -> End:
        """The largest absolute value."""
        return max(self.upper, -self.lower)

    def outward(self) -> Interval:
        """Return the smallest interval with float64 ends around this one."""
        return Interval(round_down(self.lower), round_up(self.upper))

    def holds_zero(self) -> bool:
        """Return whether zero lies inside."""
        return self.lower <= 0 <= self.upper

    def hull(self, other: Interval) -> Interval:
        """Return the smallest interval around both."""
        return Interval(min(self.lower, other.lower), max(self.upper, other.upper))

    def meet(self, other: Interval) -> Interval | None:
        """Return the intersection; None if it is empty."""
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        return Interval(lower, upper) if lower <= upper else None

    def __neg__(self) -> Interval:
        return Interval(-self.upper, -self.lower)

    def __abs__(self) -> Interval:
        if self.holds_zero():
            return Interval(Fraction(0), self.magnitude)
        return self if self.lower > 0 else -self

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.lower + other.lower, self.upper + other.upper).outward()

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        ends = [_times(a, b) for a in (self.lower, self.upper) for b in (other.lower, other.upper)]
        return Interval(min(ends), max(ends)).outward()

    def __truediv__(self, other: Interval) -> Interval:
        """Divide; a divisor that may come arbitrarily near to zero leaves nothing known but the sign."""
        if other.lower < 0 < other.upper:
            return Interval()
        if other.lower == 0 or other.upper == 0:
            if other.lower == other.upper:
                return Interval(Fraction(0), Fraction(0))  # always NULL
            sign = Interval(Fraction(0), INFINITY) if other.lower == 0 else Interval(-INFINITY, Fraction(0))
            far = other.upper if other.lower == 0 else other.lower
            near_far = [_over(a, far) for a in (self.lower, self.upper)]
            ends = [*near_far, *(_times(a, b) for a in (self.lower, self.upper) for b in (sign.lower, sign.upper))]
            return Interval(min(ends), max(ends)).outward()
        ends = [_over(a, b) for a in (self.lower, self.upper) for b in (other.lower, other.upper)]
        return Interval(min(ends), max(ends)).outward()

    def monotone(self, function: Callable[[Fraction], Fraction]) -> Interval:
        """Return the image under an increasing exact function."""
        lower = function(self.lower) if isinstance(self.lower, Fraction) else self.lower
        upper = function(self.upper) if isinstance(self.upper, Fraction) else self.upper
        return Interval(lower, upper)

    def floor(self) -> Interval:
        """Round down to whole numbers."""
        return self.monotone(lambda x: Fraction(math.floor(x)))

    def ceil(self) -> Interval:
        """Round up to whole numbers."""
        return self.monotone(lambda x: Fraction(math.ceil(x)))

    def nearest(self) -> Interval:
        """Round to the nearest whole numbers, ties either way."""
        half = Fraction(1, 2)
        return Interval(
            Fraction(math.ceil(self.lower - half)) if isinstance(self.lower, Fraction) else self.lower,
            Fraction(math.floor(self.upper + half)) if isinstance(self.upper, Fraction) else self.upper,
        )

    def library(self, function: Callable[[float], float]) -> Interval:
        """Return the image under an increasing function of a mathematical library, with room for its errors."""
        return Interval(_library(function, self.lower, -1), _library(function, self.upper, 1))

    def power(self, exponent: int) -> Interval:
        """Raise to a whole power of at least zero."""
        if exponent == 0:
            return Interval(Fraction(1), Fraction(1))
        base = abs(self) if exponent % 2 == 0 else self
        return Interval(_power(base.lower, exponent, -1), _power(base.upper, exponent, 1))


def _power(end: End, exponent: int, direction: int) -> End:
    """Return end**exponent: exact where that is a float (libraries then return it), else with the library's slack."""
    if isinstance(end, Fraction) and (end.numerator.bit_length() + end.denominator.bit_length()) * exponent <= 2048:
        power = end**exponent
        if round_up(power) == power:
            return power
    return _library(lambda x: math.pow(x, exponent), end, direction)


def _library(function: Callable[[float], float], end: End, direction: int) -> End:
    """Return function(end) moved outward by the slack; infinite where it overflows or is undefined."""
    try:
        value = function(float(end))
    except OverflowError:
        value = INFINITY if end > 0 else -INFINITY
    except ValueError:
        value = -INFINITY
    if not math.isfinite(value):
        return value if value == direction * INFINITY else -direction * _LARGEST
    if end in {0, 1}:  # exp(0), ln(1) and powers of 0 and 1 are exact everywhere
        return Fraction(value)
    moved = Fraction(value) + direction * abs(Fraction(value)) * _SLACK
    return round_up(moved) if direction > 0 else round_down(moved)
