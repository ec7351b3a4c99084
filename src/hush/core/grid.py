"""The public grid: private numbers are integers times a public step.

A column's values are clamped to public bounds and rounded to multiples of a public step, so a row is an integer
between two public integers for every value: NaN, ±inf, −0, 2⁶³, a Decimal. Sums of integers are exact, in any
order and on any engine, so the sensitivity computed on paper is the sensitivity of the program; and noise drawn on
the same integers makes every answer to a question lie on one public grid. Floating-point sums have neither property
(Mironov 2012; Casacuberta, Shoup, Vadhan 2022, "Widespread underestimation of sensitivity").

Rounding is to the nearest multiple, ties to the even one, and exact: float64 division only proposes, and any value
whose quotient lies within the division's error of a tie is decided in rationals.

>>> cents = Grid(step="0.01")
>>> cents.integers([1.005, 9e99, float("nan"), -0.0, float("-inf")], lower=-1, upper=5).tolist()
[100, 500, 0, 0, -100]
>>> cents.value(101)
Fraction(101, 100)
>>> Grid.for_bounds(lower=0, upper=100).step
Fraction(1, 8388608)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core.errors import InvalidValueError, OffGridError, shown
from hush.core.numbers import Number, exact, integer, positive
from hush.core.values import assign

INT64_MAX = 2**63 - 1
_DEFAULT_STEP_BITS = 30  # an undeclared grid has between 2**29 and 2**30 steps across its bounds


@dataclass(frozen=True, slots=True)
class Grid:
    """All whole multiples of a public ``step``.

    >>> import hush
    >>> hush.Grid(step="0.01").integers([1.5, 99], lower=0, upper=5).tolist()
    [150, 500]
    """

    step: Fraction

    def __init__(self, step: Number) -> None:
        assign(self, step=positive(step, "step"))

    @classmethod
    def for_bounds(cls, *, lower: Number, upper: Number) -> Grid:
        """Return the default grid of a column with these bounds: a power of two, about 2⁻³⁰ of the width.

        The step is fine enough that rounding disappears in any noise, and coarse enough that 2³² rows between bounds of
        opposite signs (or from zero on) sum within int64.
        """
        low, high = _bounds(lower, upper)
        width = high - low
        if width == 0:
            width = max(abs(high), Fraction(1))
        ratio = width / 2**_DEFAULT_STEP_BITS
        # 2**e with 2**e >= ratio > 2**(e-1), found exactly from the bit lengths.
        exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
        while Fraction(2) ** exponent < ratio:
            exponent += 1
        while Fraction(2) ** (exponent - 1) >= ratio:
            exponent -= 1
        return cls(Fraction(2) ** exponent)

    def index(self, value: Number, parameter: str = "value") -> int:
        """Return k with k·step = value; refuse a value that lies off the grid."""
        quotient = exact(value, parameter) / self.step
        if quotient.denominator != 1:
            raise OffGridError(
                parameter,
                got=value,
                allowed=f"a multiple of the step {shown(self.step)}",
                hint=f"The nearest is {shown(round(quotient) * self.step)}.",
            )
        return quotient.numerator

    def round(self, value: Number, parameter: str = "value") -> int:
        """Return the index of the grid point nearest to ``value``, ties to the even index."""
        return round(exact(value, parameter) / self.step)

    def value(self, index: int) -> Fraction:
        """Return index·step."""
        return index * self.step

    def values(self, indices: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return index·step as float64, each the float nearest to the exact product."""
        array = np.asarray(indices)
        numerator, denominator = self.step.numerator, self.step.denominator
        if array.dtype.kind in "iu" and array.size:
            largest = max(abs(int(array.max())), abs(int(array.min())), 1)
            if largest * numerator <= 2**53 and denominator <= 2**53:
                # Both sides of the division are exact in float64, so IEEE 754 rounds the quotient correctly, once.
                return np.asarray((array.astype(np.int64) * numerator).astype(np.float64) / float(denominator))
        flat = [_nearest_float(integer(k, "indices") * self.step) for k in array.ravel().tolist()]
        return np.array(flat, dtype=np.float64).reshape(array.shape)

    def ends(self, lower: Fraction, upper: Fraction) -> tuple[int, int]:
        """Return ⌈lower/step⌉ and ⌊upper/step⌋: the first and last grid point within bounds, in steps."""
        return -((-lower) // self.step), upper // self.step

    def integers(
        self, values: npt.ArrayLike, *, lower: Number, upper: Number, missing: Number | None = None
    ) -> npt.NDArray[Any]:
        """Clamp to [lower, upper], round to the grid and return indices; total: no value makes it fail.

        NaN, None and other non-numbers become ``missing`` (by default the grid point of the interval nearest to zero).
        Values clamp by comparison, so infinities are just large. The indices are int64, or Python integers where the
        bounds need more. The interval is shrunk to the grid points inside it, so an index never stands for a value
        outside the bounds. Each row is rounded independently of the others: a list is never turned into an array
        of floats because one of its numbers is a float.
        """
        low, high = _bounds(lower, upper)
        first, last = self.ends(low, high)
        if first > last:
            raise InvalidValueError(
                "step", got=self.step, allowed=f"so small that a multiple lies between {shown(low)} and {shown(high)}"
            )
        blank = 0 if missing is None else self.round(missing, "missing")
        blank = min(max(blank, first), last)
        array = np.asarray(values, dtype=object if isinstance(values, list | tuple) else None)
        if array.dtype.kind in "iu" and self.step == 1 and max(abs(first), abs(last)) <= INT64_MAX:
            return _clamp_integers(array, first, last)
        if array.dtype.kind == "f" and array.dtype.itemsize <= 8 and max(abs(first), abs(last)) <= 2**49:
            return self._round_floats(array.astype(np.float64).ravel(), first, last, blank).reshape(array.shape)
        return self._round_objects(array, first, last, blank)

    def _round_floats(self, array: npt.NDArray[np.float64], first: int, last: int, blank: int) -> npt.NDArray[np.int64]:
        """Return the indices of float64 values, all below 2⁴⁹ in size.

        float(step) has relative error 2⁻⁵³ and the division adds 2⁻⁵³ more, so the quotient q of a value that is not
        clamped is within |q|·2⁻⁵¹ < 2⁻² of the true one; only where q lies that close to a tie can rint(q) be wrong.
        A step near the ends of float64's range breaks the relative bound and takes the exact path as a whole; a
        quotient that underflows is near zero either way, and far from a tie.
        """
        step = float(self.step)
        if not 1e-290 < step < 1e290:
            return self._round_objects(array, first, last, blank)
        with np.errstate(all="ignore"):
            # Clipped one step beyond the bounds: such a value is clamped below, so its rounding cannot matter.
            quotient = np.clip(array / step, first - 1.0, last + 1.0)
            nearest = np.rint(quotient)
            doubtful = np.abs(np.abs(quotient - nearest) - 0.5) <= np.abs(quotient) * 2.0**-51
        nearest[np.isnan(nearest)] = blank
        indices = np.clip(nearest, first, last).astype(np.int64)
        for position in np.flatnonzero(doubtful & np.isfinite(array)):
            indices[position] = self._round_one(float(array[position]), first, last, blank)
        return indices

    def _round_objects(self, array: npt.NDArray[Any], first: int, last: int, blank: int) -> npt.NDArray[Any]:
        flat = [self._round_one(value, first, last, blank) for value in array.ravel().tolist()]
        fits = max(abs(first), abs(last)) <= INT64_MAX
        out = np.empty(len(flat), dtype=np.int64 if fits else object)
        out[:] = flat
        return out.reshape(array.shape)

    def _round_one(self, value: Any, first: int, last: int, blank: int) -> int:
        """Round one value of any kind: the total function behind the fast paths."""
        try:
            if value is None or value != value:  # noqa: PLR0124 - NaN of every type differs from itself
                return blank
            if isinstance(value, Decimal):
                value = self._tame(value, max(abs(first), abs(last)))
            if value in {float("inf"), float("-inf")}:
                return last if value > 0 else first
            index = round(_rational(value) / self.step)
        except Exception:  # noqa: BLE001 - a row may hold any object; whether a question fails must depend on no row
            return blank
        return min(max(index, first), last)

    def _tame(self, value: Decimal, largest: int) -> Decimal | float:
        """Return the value, or ±inf if it is beyond all bounds, or 0 if it is far below a step.

        Decimal("1e999999999") as a fraction would fill the memory. 2^size exceeds both largest·step and 4/step, so
        10^size is beyond every bound and 10^-size rounds to zero.
        """
        size = largest.bit_length() + self.step.numerator.bit_length() + self.step.denominator.bit_length() + 2
        if value.is_infinite() or -size <= value.adjusted() <= size:
            return value
        return math.copysign(math.inf, value) if value and value.adjusted() > 0 else 0.0


def _bounds(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    low, high = exact(lower, "lower"), exact(upper, "upper")
    if low > high:
        raise InvalidValueError("upper", got=upper, allowed=f"at least the lower bound {shown(low)}")
    return low, high


def _rational(value: Any) -> Fraction:
    """Return a finite number of any type as it is (a binary float is not taken for the decimal it prints as)."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return exact(value, "values")
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(*value.as_integer_ratio())


def _clamp_integers(array: npt.NDArray[Any], first: int, last: int) -> npt.NDArray[np.int64]:
    """Clamp integers of any width; the comparison is made in the array's own type, so 2⁶³ cannot wrap round."""
    limits = np.iinfo(array.dtype)
    if first > limits.max or last < limits.min:
        return np.full(array.shape, first if first > limits.max else last, dtype=np.int64)
    clamped = np.clip(array, max(first, int(limits.min)), min(last, int(limits.max)))
    return np.asarray(clamped, dtype=np.int64)


def _nearest_float(value: Fraction) -> float:
    """Return the nearest float64; Python's integer division is correctly rounded. Too large becomes an infinity."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
