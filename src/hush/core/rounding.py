"""Directed rounding: every figure that leaves exact or ball arithmetic says on which side of the truth it lies.

A rational becomes a float (:func:`float_up`) or a short decimal (:func:`short_up`) at or above it, or at or below it. A
computation in balls becomes a figure of stated accuracy (:func:`certified`), or a float that knows both its certified
ends (:class:`Bound`). A monotone yes-or-no question becomes the last decimal of all at which it holds
(:func:`largest_decimal`), or the first (:func:`smallest_decimal`). Both ask the question itself at the number they
return, so a certified question gives a certified number.

>>> third = certified(lambda: ball(Fraction(1, 3)))
>>> fraction_down(third) < Fraction(1, 3) < fraction_up(third)
True
>>> short_up(Fraction(10, 3), digits=4), short_down(Fraction(10, 3), digits=4)
(Fraction(1667, 500), Fraction(3333, 1000))
>>> largest_decimal(lambda x: x * x <= 2, digits=6), smallest_decimal(lambda x: x * x >= 2, digits=6)
(Fraction(141421, 100000), Fraction(70711, 50000))

**Balls** are real and complex numbers that carry a proven error bound (Arb, through python-flint). A ball is a midpoint
and a radius, and every operation returns a ball that contains the true result. What leaves this module is a float or a
rational on a stated side of the truth. python-flint is imported when first used, so that ``import hush`` is quick.

The working precision is a setting of the whole process. Should another thread change it in the middle of a
computation, balls come out wider, never wrong; :func:`certified` tries again.

>>> up(ball(Fraction(1, 3))) > 1 / 3 >= down(ball(Fraction(1, 3)))
True
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache, partial
from typing import Any, Self

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
    mantissa, exponent = map(int, value.upper().man_exp())
    size = mantissa.bit_length() + exponent
    if size > _MAX_EXPONENT:
        raise PrecisionError("A figure is too large to be written down; use more moderate parameters.")
    if mantissa and size < -_MAX_EXPONENT:  # as near to zero as is ever needed, and still above the value
        return Fraction(1, 1 << _MAX_EXPONENT) if mantissa > 0 else Fraction(0)
    return Fraction(mantissa) * Fraction(2) ** exponent


def fraction_down(value: Ball) -> Fraction:
    """Return the exact rational at the lower end of a finite real ball."""
    return -fraction_up(-value)


PRECISIONS = (128, 256, 512, 1024, 2048, 4096)
"""Working precisions in bits, tried in turn."""


class Bound(float):
    """A float that is a certified upper bound, and knows the certified lower bound too.

    >>> width = Bound(lower=0.9, upper=1.0)
    >>> width, width + 1, width.lower
    (1.0, 2.0, 0.9)
    """

    __slots__ = ("lower",)
    lower: float

    def __new__(cls, *, lower: float, upper: float) -> Self:
        """Return the bound; a lower end above the upper one (both rounded) is drawn down to it."""
        self = super().__new__(cls, upper)
        self.lower = min(lower, upper)
        return self

    @property
    def upper(self) -> float:
        """The certified upper end, as a plain float."""
        return float(self)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(Bound, lower=self.lower, upper=self.upper), ()


def enclosure(value: Ball) -> Bound:
    """Return the ball's ends as floats, each rounded outwards."""
    return Bound(lower=down(value), upper=up(value))


def certified(compute: Callable[[], Ball], *, bits: int = 64) -> Ball:
    """Return the result at the first precision that gives it ``bits`` correct bits."""
    for working in PRECISIONS:
        with precision(working):
            value = compute()
            if value.is_finite() and value.rel_accuracy_bits() >= bits:
                return value
    raise PrecisionError(f"A figure could not be certified to {bits} bits within {PRECISIONS[-1]} bits of arithmetic.")


def nearest_float(value: Fraction) -> float:
    """Return the nearest float; Python's integer division is correctly rounded. Too large becomes an infinity."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def float_up(value: Fraction) -> float:
    """Return the smallest float that is not below an exact rational."""
    nearest = nearest_float(value)
    if math.isinf(nearest):
        return math.inf if nearest > 0 else -sys.float_info.max
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """Return the largest float that is not above an exact rational."""
    return -float_up(-value)


def short_up(value: Fraction, *, digits: int = 12) -> Fraction:
    """Return the smallest decimal of ``digits`` significant digits at or above a positive ``value``."""
    unit = decimal_unit(value, digits=digits)
    return -(-value // unit) * unit  # -(-x // u) is ⌈x/u⌉


def short_down(value: Fraction, *, digits: int = 12) -> Fraction:
    """Return the largest decimal of ``digits`` significant digits at or below a positive ``value``."""
    unit = decimal_unit(value, digits=digits)
    return value // unit * unit


def decimal_unit(value: Fraction, *, digits: int) -> Fraction:
    """Return the unit 10^e in which a positive ``value`` has ``digits`` digits before its point."""
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


_MAX_POWER_OF_TEN = 4096  # a search looks at numbers from 10^-4096 to 10^4096


def largest_decimal(holds: Callable[[Fraction], bool], *, digits: int, near: Fraction | None = None) -> Fraction:
    """Return the largest decimal of ``digits`` digits at which ``holds``, true for small numbers, is true.

    ``near`` is a guess that saves questions when it is close.
    """
    return _border(holds, digits, near)[0]


def smallest_decimal(holds: Callable[[Fraction], bool], *, digits: int, near: Fraction | None = None) -> Fraction:
    """Return the smallest decimal of ``digits`` digits at which ``holds``, true for large numbers, is true."""
    return _border(lambda value: not holds(value), digits, near)[1]


def _border(early: Callable[[Fraction], bool], digits: int, near: Fraction | None) -> tuple[Fraction, Fraction]:
    """Return the last decimal of ``digits`` digits at which ``early`` is true, and the next one, at which it is not."""
    unit, first, last = _bracket(early, digits, near)
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if early(middle * unit) else (first, middle)
    return first * unit, last * unit


def _bracket(early: Callable[[Fraction], bool], digits: int, near: Fraction | None) -> tuple[Fraction, int, int]:
    """Return (unit, first, last) with ``early`` true at first·unit and false at last·unit, inside one decade."""
    if near is not None and near > 0:
        unit = decimal_unit(near, digits=digits)
        centre, floor, ceiling = int(near // unit), 10 ** (digits - 1), 10**digits
        # Wider and wider around the guess, inside its decade; a guess that is far off costs ten questions at most.
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
        if abs(outside) > _MAX_POWER_OF_TEN:
            raise PrecisionError(
                f"No number between 1e-{_MAX_POWER_OF_TEN} and 1e{_MAX_POWER_OF_TEN} answers the question."
            )
        if early(Fraction(10) ** outside) != (sign > 0):
            break
        inside, stride = outside, 2 * stride
    low, high = sorted((inside, outside))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if early(Fraction(10) ** middle) else (low, middle)
    return low


def falling_root(
    f: Callable[[float], float], guess: float, *, slope: float, largest: float = math.inf, tolerance: float = 1e-14
) -> tuple[float, float]:
    """Return an estimate of the zero of a falling function on [0, largest], and −f' there: secants inside a bracket.

    ``slope`` is a first guess at −f'. The search ends where |f| is below the ``tolerance``.
    """
    low, high = 0.0, largest
    x = min(guess, largest * (1 - 1e-12)) if guess > 0 else 0.0
    x_last, y_last = math.nan, math.nan
    zero_seen = False
    for turn in range(200):
        y = f(x)
        zero_seen = zero_seen or x == 0.0
        if y > 0:
            low = x
        else:
            high = x
            if x == 0.0:
                break
        secant = (y_last - y) / (x - x_last) if x != x_last else math.nan
        if math.isfinite(secant) and secant > 0:
            slope = secant
        if abs(y) < tolerance or (math.isfinite(high) and high - low <= 4e-16 * high):
            break
        x_last, y_last = x, y
        step = x + y / slope if math.isfinite(y) else math.nan
        # Next: the secant's step, inside the bracket. Every fifth turn, and where it leads outside, a bisection,
        # geometric where the ends are far apart. Zero itself is tried once, since the answer may be 0.
        if not math.isfinite(high):
            x = step if low < step <= 16 * x else 2 * x + 1e-12
        elif low < step < high and turn % 5 != 4:
            x = step
        elif low == 0.0 and not zero_seen:
            x = 0.0
        elif low == 0.0:
            x = high / 16
        else:
            x = math.sqrt(low * high) if high > 4 * low else 0.5 * (low + high)
        if x in {low, high} and x != 0.0:
            break
    return x, slope
