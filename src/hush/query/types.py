"""Types of columns and expressions: a kind, whether NULL may occur, and the public range of the values; intervals.

A type is a *promise that the engine enforces*: where a column is read, its value is forced into its declared type
(numbers clamped and rounded to the step, NaN and values outside the declared list turned into NULL), so ranges
derived from types hold for every row there could ever be. Numbers, dates and timestamps have ranges; dates count
days and timestamps microseconds since 1970, so a range is always a pair of rationals. ``values`` is a finite public
list of all values.

>>> Type(Kind.INTEGER, lower=Fraction(0), upper=Fraction(120), step=Fraction(1)).bounded
True

**Intervals** hold for floating-point evaluation: exact rationals, always rounded outward. Engines evaluate arithmetic
in float64. If the ends of the arguments' intervals are floats and the exact result lies in [L, U], then its rounding
lies in [fl(L), fl(U)], because rounding is monotone; so rounding L down and U up to the next float gives an interval
that no evaluation leaves. Whole numbers below 2⁵³ are floats, hence stay as they are. An end that would lie beyond the
largest float is infinite: such a value is not finite and becomes NULL.

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

import datetime as dt
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction

Value = Fraction | str | bool | dt.date | dt.datetime | None
"""A value of an expression: numbers are exact."""


class Kind(Enum):
    """The kind of values of a column or expression."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"

    @property
    def numeric(self) -> bool:
        """Whether arithmetic applies."""
        return self in {Kind.INTEGER, Kind.DECIMAL}

    @property
    def ranged(self) -> bool:
        """Whether values are ordered on a line and can have bounds."""
        return self not in {Kind.TEXT, Kind.BOOLEAN}


@dataclass(frozen=True, slots=True)
class Type:
    """The kind and the public range of a column or expression."""

    kind: Kind
    nullable: bool = True
    lower: Fraction | None = None
    upper: Fraction | None = None
    step: Fraction | None = None
    """Every value is a multiple of this, if it is known."""
    values: tuple[Value, ...] | None = None
    """All values there can be (without NULL), if they are listed in public."""
    lists_null: bool = False
    """Whether the policy, or the question, names NULL as one of the values, if NULL is still possible."""
    format: str = ""
    """The format of the dates of a stored text, as ``%d/%m/%Y``; nothing means ISO's 2024-12-31."""
    written: str = field(default="", compare=False, repr=False)
    """The type of a number in the question's dialect, which may decide the meaning of ``/``; not part of equality."""

    def __hash__(self) -> int:
        """Return a partial hash: long lists are slow to hash, and expressions are told apart by their names."""
        return hash(self.nullable)

    @property
    def bounded(self) -> bool:
        """Whether both ends of the range are known."""
        return self.lower is not None and self.upper is not None

    @property
    def null_is_key(self) -> bool:
        """Whether NULL has a group of its own among public keys."""
        return self.nullable and self.lists_null

    def or_null(self, *, named: bool = False) -> Type:
        """Return the same type with NULL allowed; ``named`` where the question itself says that there may be one."""
        return replace(self, nullable=True, lists_null=named or self.null_is_key)


UNKNOWN = "unknown"
"""The dialect type of a number, where it is not known."""


def written_in(types: Iterable[Type]) -> str:
    """Return the common dialect type of several types; ``UNKNOWN`` if they differ."""
    found = {type_.written for type_ in types}
    return found.pop() if len(found) == 1 else UNKNOWN


_EPOCH = dt.date(1970, 1, 1)
_EPOCH_TIME = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps here are without a zone
_MICROSECOND = dt.timedelta(microseconds=1)


def position(value: Value) -> Fraction:
    """Return where a value lies on its line: numbers themselves, days or microseconds since 1970.

    >>> position(dt.date(1970, 2, 1))
    Fraction(31, 1)
    """
    if isinstance(value, dt.datetime):
        return Fraction((value - _EPOCH_TIME) // _MICROSECOND)
    if isinstance(value, dt.date):
        return Fraction((value - _EPOCH).days)
    if isinstance(value, Fraction):
        return value
    raise TypeError(f"{type(value).__name__} values have no order here")


def at_position(kind: Kind, place: Fraction) -> Value:
    """Return the value at a place on the line of a kind; the inverse of `position`."""
    if kind is Kind.DATE:
        return _EPOCH + dt.timedelta(days=int(place))
    if kind is Kind.TIMESTAMP:
        return _EPOCH_TIME + int(place) * _MICROSECOND
    return place


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
        if other.lower == other.upper == 0:
            return Interval(Fraction(0), Fraction(0))  # always NULL
        if other.lower == 0:
            return self * Interval(Fraction(0), INFINITY)
        if other.upper == 0:
            return self * Interval(-INFINITY, Fraction(0))
        # the reciprocal of an infinity is 0
        ends = [1 / end if isinstance(end, Fraction) else Fraction(0) for end in (other.upper, other.lower)]
        return self * Interval(*ends)

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

    def nearest(self, step: Fraction | int = 1) -> Interval:
        """Round to the nearest multiples of a step, ties either way."""
        half = Fraction(1, 2)
        return Interval(
            Fraction(math.ceil(self.lower / step - half)) * step if isinstance(self.lower, Fraction) else self.lower,
            Fraction(math.floor(self.upper / step + half)) * step if isinstance(self.upper, Fraction) else self.upper,
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
