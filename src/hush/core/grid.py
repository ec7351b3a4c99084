"""The public grid: private numbers are integers times a public step; and callers' columns on it.

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

**Columns.** A mechanism adds whole numbers of steps to whole numbers of steps. The way in and out:

* **In.** A number, or anything with NumPy's array interface (a list, an array, a pandas, Polars or Arrow column).
  x becomes ⌊x/g + ½⌋ for the step g, exactly: float64 only proposes, and values near a half are decided in
  rationals. *Half upwards, not half to even*: ⌊x + ½⌋ commutes with adding a whole number, so values at most d steps
  apart stay at most ⌈d⌉ apart. Half to even does not: ½ and 1½ are 1 apart and become 0 and 2.
* **Total.** No row makes it fail: NaN, None and values that are no numbers count as missing, which is 0;
  infinities count as the largest float. Only the *type* of a column may be refused (text, dates), for that is public.
* **Out.** A whole step (1, 5) gives Python integers or an integer array, any other step floats, each the float nearest
  to the exact grid point (infinite beyond the largest float). Arrays are NumPy's.

>>> whole_steps(np.array([0.5, 1.5, -0.5, np.nan]), Fraction(1)).tolist()
[1, 2, 0, 0]
>>> on_grid(7, Fraction(1, 4)), on_grid(7, Fraction(2))
(1.75, 14)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core.errors import InvalidValueError, OffGridError, shown
from hush.core.numbers import Number, assign, exact, integer, positive
from hush.core.rounding import nearest_float

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
        flat = [nearest_float(integer(k, "indices") * self.step) for k in array.ravel().tolist()]
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
        if array.dtype.kind in "biu" and max(abs(low), abs(high)) < 2**53:
            # Clamped to ±2⁵³ in their own type, whole numbers are exact as floats, which are rounded fast.
            if array.dtype == np.uint64:
                array = np.minimum(array, np.uint64(2**53))
            array = np.clip(array.astype(np.int64), -(2**53), 2**53).astype(np.float64)
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
        exact_value = present_number(value)
        return blank if exact_value is None else min(max(round(exact_value / self.step), first), last)


def _bounds(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    low, high = exact(lower, "lower"), exact(upper, "upper")
    if low > high:
        raise InvalidValueError("upper", got=upper, allowed=f"at least the lower bound {shown(low)}")
    return low, high


_NO_NUMBERS = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64, Mapping, AbstractSet)
_INT64_SAFE = 2**62
"""Below this, two whole numbers of steps can be added without leaving int64."""
_MAX_DECIMAL_EXPONENT = 5000
"""The largest power of ten of a Decimal that is written out; beyond it a number counts as the largest float, or 0."""
_HALF = Fraction(1, 2)
_LARGEST_FLOAT = Fraction(sys.float_info.max)


def is_scalar(value: object) -> bool:
    """Is this one number rather than a column? Asks for the type only."""
    return not (hasattr(value, "__array__") or isinstance(value, (list, tuple, range))) or np.isscalar(value)


def any_array(values: object, parameter: str) -> npt.NDArray[Any]:
    """Return anything with NumPy's array interface as an array of any type."""
    try:
        if isinstance(values, np.ma.MaskedArray):  # an ordinary array with missing values
            if values.dtype.kind == "f":
                return values.filled(np.nan)
            plain = np.asarray(values).astype(object)
            plain[np.ma.getmaskarray(values)] = None
            return plain
        return np.asarray(values)
    except Exception:  # noqa: BLE001 - any error of the column; its text may quote the data
        raise InvalidValueError(
            parameter, got=f"a value of type {type(values).__name__}", allowed="a rectangular array of numbers"
        ) from None


def require_column(values: object, parameter: str = "data") -> None:
    """Refuse a value that is no column, by type alone.

    Without this check a set or a generator would count as one row, and that row as no number.
    """
    if not isinstance(values, (list, tuple, range)) and not hasattr(values, "__array__"):
        raise InvalidValueError(
            parameter,
            got=f"a value of type {type(values).__name__}",
            allowed="a column: a list, or an array of NumPy, pandas, Polars or Arrow",
        )


def as_array(values: object, parameter: str = "value") -> npt.NDArray[Any]:
    """Return a column of numbers as a NumPy array; refuse other types, by type alone."""
    array = any_array(values, parameter)
    if array.dtype.kind not in "biufO":
        raise InvalidValueError(parameter, got=f"dtype {array.dtype}", allowed="a column of numbers or booleans")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:  # the platform's long double has no exact Python number
        with np.errstate(all="ignore"):
            return array.astype(np.float64)
    return array


def as_column(values: object, parameter: str = "data") -> npt.NDArray[Any]:
    """Return rows of data in one dimension; in a list, each row is read independently of the others.

    NumPy gives a list one type by looking at all of it: one 2.5 among whole numbers, one 5 among booleans, one word
    would change how every other row is read. So a list comes as objects, or as float64 where that changes no value.
    """
    require_column(values, parameter)
    if not isinstance(values, (list, tuple, range)):
        return one_column(as_array(values, parameter), parameter)
    rows = [value.item() if isinstance(value, np.generic) else value for value in values]
    if all(type(row) is float or (type(row) is int and -(2**53) <= row <= 2**53) for row in rows):
        return np.array(rows, dtype=np.float64)
    column: npt.NDArray[Any] = np.empty(len(rows), dtype=object)
    for position, row in enumerate(rows):  # one by one: a row that is itself a list must stay one object
        column[position] = row
    return column


def present(data: Any, parameter: str = "data") -> npt.NDArray[Any]:
    """Return a column's values in one dimension, without those that are missing."""
    array = as_column(data, parameter)
    if array.dtype.kind == "f":
        missing = np.isnan(array)
        return array[~missing] if missing.any() else array
    if array.dtype.kind == "O":
        numbers = [value for value in array.tolist() if present_number(value) is not None]
        array = np.empty(len(numbers), dtype=object)
        array[:] = numbers
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def row_grid(lower: Fraction, upper: Fraction, step: Fraction | None, *, halvings: int = 30) -> Grid:
    """Return the grid on which rows are read: 2⁻³⁰ of the width, or as fine as a declared step and containing it.

    It depends on the declaration and on nothing else. The type of a column would give its rows away: pandas, Polars
    and Arrow make floats of a column of whole numbers as soon as one of them is missing.
    """
    fine = Grid.for_bounds(lower=lower, upper=upper).step * 2 ** (30 - halvings)
    if step is None:
        return Grid(fine)
    # The smallest power of two that is at least ⌈step/fine⌉: the grid is no coarser than `fine`, and holds the step.
    return Grid(step / 2 ** (-(-step // fine) - 1).bit_length())


def one_column(array: npt.NDArray[Any], parameter: str = "data") -> npt.NDArray[Any]:
    """Return a column; refuse a matrix, in which one unit's row would count as several values."""
    if array.ndim > 1:
        raise InvalidValueError(parameter, got=f"{array.ndim} dimensions", allowed="one column: one value a unit")
    return array.ravel()


def whole_steps(array: npt.NDArray[Any], step: Fraction) -> npt.NDArray[Any]:
    """Return ⌊x/step + ½⌋ for every x, exactly: int64, or Python integers where they do not fit."""
    kind = array.dtype.kind
    if kind in "biu" and step.numerator == 1:
        return _scaled(array.astype(np.int64) if kind == "b" else array, step.denominator)
    if kind == "f" and array.dtype.itemsize <= 8 and Fraction(1, 2**900) < step < 2**900:
        return _from_floats(array.astype(np.float64), step)
    return _from_objects(array, step)


def _scaled(array: npt.NDArray[Any], factor: int) -> npt.NDArray[Any]:
    if largest_magnitude(array) * factor < _INT64_SAFE:
        return np.asarray(array.astype(np.int64) * factor)
    return np.asarray(array.astype(object) * factor)


def _from_floats(array: npt.NDArray[np.float64], step: Fraction) -> npt.NDArray[Any]:
    """Round floats.

    The quotient q carries a relative error below 2⁻⁵¹ (the step, the division), so only within |q|·2⁻⁵¹ of a half
    can its rounding be wrong; the fraction q - ⌊q⌋ is exact wherever it lies between ¼ and ¾. A step that is a power
    of two leaves no error and no doubt.
    """
    values = np.nan_to_num(array, nan=0.0, posinf=sys.float_info.max, neginf=-sys.float_info.max)
    with np.errstate(over="ignore", under="ignore"):
        quotient = values / (step.numerator / step.denominator)
        if not np.all(np.abs(quotient) < 2.0**49):
            return _from_objects(values, step)
        below = np.floor(quotient)
        fraction = quotient - below
    # Half upwards: ⌊q⌋ + [q - ⌊q⌋ ≥ ½] is ⌊q + ½⌋, without the rounding of q + ½.
    indices = below.astype(np.int64) + (fraction >= 0.5)
    power_of_two = step.numerator & (step.numerator - 1) == 0 and step.denominator & (step.denominator - 1) == 0
    if not power_of_two:
        doubtful = np.abs(fraction - 0.5) <= np.abs(quotient) * 2.0**-51 + 2.0**-52
        for where in zip(*np.nonzero(doubtful), strict=True):
            indices[where] = (Fraction(float(values[where])) / step + _HALF).__floor__()
    return indices


def _from_objects(array: npt.NDArray[Any], step: Fraction) -> npt.NDArray[Any]:
    return integers([whole_step(value, step) for value in array.ravel().tolist()], array.shape)


def integers(values: list[int], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return whole numbers as an array of this shape: int64, or Python integers where they do not fit."""
    small = all(-_INT64_SAFE < value < _INT64_SAFE for value in values)
    return np.array(values, dtype=np.int64 if small else object).reshape(shape)


def whole_step(value: Any, step: Fraction) -> int:
    """Return ⌊value/step + ½⌋ for one value of any kind; total."""
    return (number(value) / step + _HALF).__floor__()


def one_number(value: Any, parameter: str = "value") -> Fraction:
    """Return one number of any type, exactly; refuse columns and other types, by type alone."""
    value = value.as_py() if hasattr(value, "as_py") else value  # a scalar of Arrow
    if not is_scalar(value) and as_array(value, parameter).ndim == 0:
        value = as_array(value, parameter).item()
    if not is_scalar(value) or isinstance(value, _NO_NUMBERS):
        raise InvalidValueError(parameter, got=f"a value of type {type(value).__name__}", allowed="one number")
    return number(value)


def number(value: Any) -> Fraction:
    """Return a row's value as a rational: a float is its exact binary value, a missing value or a non-number is 0."""
    return present_number(value) or Fraction(0)


def present_number(value: Any) -> Fraction | None:
    """Return a row's value as a rational, infinities as the largest float; None for a missing value or a non-number."""
    try:
        if value is None or value != value:  # noqa: PLR0124 - NaN of every type differs from itself
            return None
        if value in {float("inf"), float("-inf")}:
            return _LARGEST_FLOAT if value > 0 else -_LARGEST_FLOAT
        return rational(value)
    except Exception:  # noqa: BLE001 - a row may hold any object; whether a release fails must depend on no row
        return None


def rational(value: Any) -> Fraction:
    """Return a finite number of any type; Decimal("1e999999999") and its like do not fill the memory.

    A binary float is taken as it is, not for the decimal it prints as.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return exact(value, "value")
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > _MAX_DECIMAL_EXPONENT:
        return Fraction(0) if value.adjusted() < 0 or not value else _LARGEST_FLOAT if value > 0 else -_LARGEST_FLOAT
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))  # of NumPy integers it would wrap round
    return Fraction(*value.as_integer_ratio())


def as_floats(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return numbers as floats, at most the largest float in size; no value makes it fail."""
    if array.dtype != object:
        return array.astype(np.float64)
    return np.array(
        [float(min(max(number(x), -_LARGEST_FLOAT), _LARGEST_FLOAT)) for x in array.tolist()], dtype=np.float64
    )


def add(indices: npt.NDArray[Any], noise: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Add two arrays of whole numbers: int64, or Python integers where they might not fit."""
    form = np.int64 if max(largest_magnitude(indices), largest_magnitude(noise)) < _INT64_SAFE else object
    return np.asarray(indices.astype(form, copy=False) + noise.astype(form, copy=False))


def largest_magnitude(array: npt.NDArray[Any]) -> int:
    """Return the largest magnitude of whole numbers, 0 of no numbers."""
    return max(abs(int(array.max())), abs(int(array.min()))) if array.size else 0


def on_grid(indices: int | npt.NDArray[Any], step: Fraction) -> Any:
    """Return indices·step: whole numbers for a whole step, otherwise the nearest floats."""
    if isinstance(indices, int):
        if step.denominator == 1:
            return indices * step.numerator
        return nearest_float(indices * step)
    if step.denominator == 1:
        return _scaled(indices, step.numerator)
    return Grid(step).values(indices)
