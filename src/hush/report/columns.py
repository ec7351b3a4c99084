"""Columns of an answer: values, and half-widths of their intervals where they are noisy."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hush.core.format import visible
from hush.query.types import Kind

_ALL = 0.95
"""An error bar that covers this share of the possible range says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerColumn:
    """One output.

    ``errors`` is None for keys and others that have no error of their own. Dates err by days, times by seconds.
    """

    name: str
    kind: Kind
    values: tuple[Any, ...]
    errors: tuple[float | None, ...] | None = None
    counts: bool = False
    """Whether the values count rows or units, so that the truth is not negative."""
    lower: float | None = None
    upper: float | None = None
    """Between which limits the truth lies, by question and policy alone, where that is known."""

    @property
    def noisy(self) -> bool:
        """Whether the values carry errors."""
        return self.errors is not None

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Between which limits the truth lies; None where there is no limit."""
        return (0.0 if self.lower is None and self.counts else self.lower), self.upper

    def possible(self, value: float) -> float:
        """Return the number nearest to a value that the truth can be."""
        lower, upper = self.limits
        value = value if lower is None else max(value, lower)
        return value if upper is None else min(value, upper)

    def interval(self, row: int) -> tuple[float, float] | None:
        """Return the numbers that the truth can be: those that the error bar reaches and that are possible at all.

        >>> visits = AnswerColumn(name="n", kind=Kind.INTEGER, values=(3, 40), errors=(10.0, 10.0), counts=True)
        >>> visits.interval(0), visits.interval(1)
        ((0.0, 13.0), (30.0, 50.0))
        """
        value, error = self.values[row], None if self.errors is None else self.errors[row]
        if value is None or error is None or not self.kind.numeric:
            return None
        # An interval that lies beyond a limit becomes the limit itself, and is never empty.
        return self.possible(float(value) - error), self.possible(float(value) + error)

    def tells(self, row: int) -> bool:
        """Return whether a noisy cell says anything: whether its error bar leaves out something that is possible.

        Where both limits are known, a bar that covers all but a twentieth of what lies between them says nothing.
        Elsewhere a bar that covers 0 does: the cell cannot be told from an empty one. A cell without an error bar,
        where others have one, says nothing either. Keys, dates and exact numbers always tell.

        >>> mean = AnswerColumn(name="m", kind=Kind.DECIMAL, values=(27.0, 24.0), errors=(27.0, 0.2), lower=0, upper=50)
        >>> mean.tells(0), mean.tells(1)
        (False, True)
        """
        if self.errors is None or not self.kind.numeric or self.errors[row] == 0:
            return True
        reach = self.interval(row)
        if reach is None:
            return False
        low, high = reach
        lower, upper = self.limits
        if lower is not None and upper is not None:
            return high - low < _ALL * (upper - lower)
        return low > 0 or high < 0


_AS_THEY_ARE = {Kind.INTEGER: int, Kind.TEXT: str, Kind.BOOLEAN: bool, Kind.DATE: dt.date}
"""Types that `plain` leaves alone; as a rule all values of a column have one type."""


def plain(value: Any) -> Any:
    """Return a value as Python's own: whole numbers as int, others as float, dates as they are."""
    if isinstance(value, bool) or value is None or isinstance(value, str | dt.date):
        return value
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def uniform(values: Sequence[Any], kind: Kind) -> tuple[Any, ...]:
    """Return values of one Python type: all int, or all float if one value is not whole."""
    types = set(map(type, values))
    if kind is Kind.DECIMAL and types <= {float, int, Fraction}:
        floats = tuple(map(float, values))
        if all(map(math.isfinite, floats)):
            return floats
    elif types == {_AS_THEY_ARE.get(kind)}:
        return tuple(values)
    cleaned = [plain(value) for value in values]
    if kind is Kind.BOOLEAN:
        return tuple(None if value is None else bool(value) for value in cleaned)
    if not kind.numeric:
        return tuple(cleaned)
    if kind is Kind.INTEGER:
        # From 2⁵³ on a float stands for several whole numbers.
        whole = [int(v) if isinstance(v, float) and v.is_integer() and abs(v) < 2**53 else v for v in cleaned]
        if all(value is None or isinstance(value, int) for value in whole):
            return tuple(whole)
    return tuple(None if value is None else float(value) for value in cleaned)


def shown(value: Any, error: float | None = None) -> str:
    """Return a number with as many digits as its error makes meaningful, other values as visible text.

    >>> shown(1204.4, 46.0), shown(3.5e22, 1.2e20), shown(2.1e-9, 3e-10)
    ('1,204', '3.500e+22', '2.10e-09')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return visible(str(value))
    if value and _long(max(abs(value), error or 0)):
        if not error:
            return f"{value:.6g}"
        # As many as reach to the second significant digit of the error.
        places = max(0, math.floor(math.log10(abs(value))) - math.floor(math.log10(error)) + 1)
        if places <= _FLOAT or isinstance(value, float):
            return f"{value:.{min(places, _FLOAT)}e}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.{_digits(error)}f}" if error else f"{value:,.6g}"


def shown_error(error: float | None) -> str:
    """Return a half-width with two significant digits.

    >>> shown_error(46.0), shown_error(0.123), shown_error(1e-9), shown_error(2.6e15)
    ('46', '0.12', '1.0e-09', '2.6e+15')
    """
    if error is None:
        return "?"
    if error == 0:
        return "0"
    if _long(error):
        return f"{error:.1e}"
    return f"{error:,.0f}" if error.is_integer() else f"{error:,.{_digits(error)}f}"


_LARGE, _SMALL = 1e15, 1e-6
_FLOAT = 15
"""The decimals that a float64 has; a whole number may have more."""


def _long(size: float) -> bool:
    """Return whether a number is better written with a power of ten."""
    return size >= _LARGE or size < _SMALL


def _digits(error: float) -> int:
    """Return how many decimals make two significant digits of an error."""
    return min(max(0, 1 - math.floor(math.log10(error))), 12) if error < _LARGE else 0
