"""Exact numbers: each number means the decimal that its author wrote.

Privacy parameters are rationals. ``"0.1"``, ``0.1``, ``Decimal("0.1")``, ``Fraction(1, 10)`` and
``numpy.float32(0.1)`` all mean one tenth: a float stands for the shortest decimal that reads back as that float,
which is what Python prints and what its author typed. Nothing is rounded here, so there is no safe side to choose.

>>> exact(0.1, "epsilon") == exact("0.1", "epsilon") == Fraction(1, 10)
True
>>> positive("1e-7", "delta")
Fraction(1, 10000000)
>>> positive(float("nan"), "epsilon")
Traceback (most recent call last):
...
hush.core.errors.InvalidValueError: The 'epsilon' parameter must be a positive finite number. Got nan instead.

"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np

from hush.core.errors import InvalidValueError

Number = int | float | str | Fraction | Decimal
"""The types of a number from outside (NumPy scalars are accepted too)."""

MAX_DIGITS = 4200
"""The one limit on numbers from outside: neither numerator nor denominator may have more decimal digits.

``"1e999999999"`` would fill the memory with zeros, and Python writes and reads no number of more than 4,300 digits.
A number within this limit can be shown, stored and read again.
"""
_MAX_BITS = MAX_DIGITS * 93 // 28  # 93/28 is below log₂ 10: no number within these bits has more digits

_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_RATIO = re.compile(r"[+-]?\d+\s*/\s*\d+", re.ASCII)
_NOT_NUMBERS = (bool, np.bool_, np.timedelta64)  # Python or NumPy counts these among the integers


def _parse(text: str) -> Fraction | None:
    """Return a decimal or a ratio as a number; None for any other text, such as "nan"."""
    text = text.strip()
    if len(text) > 2 * MAX_DIGITS + 3:  # a sign, a stroke, and a little room
        return None
    if _RATIO.fullmatch(text):
        text = "".join(text.split())
    elif not _DECIMAL.fullmatch(text):
        return None
    exponent = re.split("[eE]", text)[1:]
    if exponent and (len(exponent[0]) > 6 or abs(int(exponent[0])) > MAX_DIGITS):
        return None
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):  # more digits than sys.get_int_max_str_digits(), or "1/0"
        return None


def exact(value: object, parameter: str, *, allowed: str = "a finite number") -> Fraction:
    """Return the rational that ``value`` stands for; refuse NaN, infinities, bools and everything that is no number."""
    if type(value) is Fraction and type(value.numerator) is int and type(value.denominator) is int:
        return value  # computed, not read: exact masses of many steps may be longer than anything that is written
    number = None
    if isinstance(value, _NOT_NUMBERS):
        pass
    elif isinstance(value, Rational):
        # int(): a Fraction of NumPy integers would wrap round in its own arithmetic.
        number = Fraction(int(value.numerator), int(value.denominator))
    elif isinstance(value, float):
        number = _parse(float.__repr__(value))
    elif isinstance(value, np.floating):
        # Like repr of a float, the shortest decimal that reads back as it, whatever numpy.set_printoptions says.
        number = _parse(np.format_float_scientific(value))
    elif isinstance(value, Decimal | str):
        number = _parse(str(value))
    if number is None or max(number.numerator.bit_length(), number.denominator.bit_length()) > _MAX_BITS:
        raise InvalidValueError(parameter, got=value, allowed=allowed)
    return number


def positive(value: object, parameter: str, *, allowed: str = "a positive finite number") -> Fraction:
    """Return an exact number above zero."""
    number = exact(value, parameter, allowed=allowed)
    if number.numerator <= 0:
        raise InvalidValueError(parameter, got=value, allowed=allowed)
    return number


def nonnegative(value: object, parameter: str, *, allowed: str = "a finite number of at least zero") -> Fraction:
    """Return an exact number that is zero or more.

    >>> nonnegative(0, "epsilon")
    Fraction(0, 1)
    """
    number = exact(value, parameter, allowed=allowed)
    if number.numerator < 0:
        raise InvalidValueError(parameter, got=value, allowed=allowed)
    return number


def probability(value: object, parameter: str, *, allowed: str = "a number from 0 to 1") -> Fraction:
    """Return an exact number in [0, 1].

    >>> probability("1e-6", "delta")
    Fraction(1, 1000000)
    """
    number = exact(value, parameter, allowed=allowed)
    if not 0 <= number.numerator <= number.denominator:
        raise InvalidValueError(parameter, got=value, allowed=allowed)
    return number


def fraction_between(value: object, parameter: str, *, allowed: str = "a number strictly between 0 and 1") -> Fraction:
    """Return an exact number in the open interval (0, 1).

    >>> fraction_between("0.95", "confidence")
    Fraction(19, 20)
    """
    number = exact(value, parameter, allowed=allowed)
    if not 0 < number.numerator < number.denominator:
        raise InvalidValueError(parameter, got=value, allowed=allowed)
    return number


def integer(
    value: object, parameter: str, *, minimum: int | None = None, maximum: int | None = None, hint: str = ""
) -> int:
    """Return a whole number within limits; ``3.0`` and ``"3"`` are not whole numbers here, ``numpy.int64(3)`` is.

    >>> integer(3, "count", minimum=1)
    3
    """
    allowed = "a whole number"
    if minimum is not None:
        allowed += f" of at least {minimum}"
    if maximum is not None:
        allowed += f"{' and' if minimum is not None else ' of'} at most {maximum}"
    if isinstance(value, _NOT_NUMBERS) or not isinstance(value, (int, np.integer)):
        raise InvalidValueError(parameter, got=value, allowed=allowed, hint=hint)
    number = int(value)
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise InvalidValueError(parameter, got=value, allowed=allowed, hint=hint)
    return number


def assign(value: object, /, **fields: Any) -> None:
    """Set fields of a frozen dataclass, in its own ``__init__`` or ``__post_init__``."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)
