r"""Figures and texts as they are shown: significant digits, and no control characters that a terminal would obey.

**Figures.** Two uses, two functions. :func:`figure` is for people: a fixed number of significant digits of a number of
any size, so that a δ of 10⁻⁹ is not 0.000. :func:`decimal` is for text that is read back: the number itself, exactly,
as a decimal where it has a short one and as a ratio where it has not.

>>> figure(Fraction(1, 3)), figure(2.5e-9), figure(4.774567588, digits=3), figure(float("inf"))
('0.333333', '2.5e-9', '4.77', '∞')
>>> decimal(Fraction(1, 4)), decimal(Fraction(1, 10**9)), decimal(Fraction(1, 3)), decimal(Fraction(40))
('0.25', '1e-9', '1/3', '40')

**Texts that somebody else chose.** A private key is any text of a row, and an analyst's question is stored for the
owner to read. A terminal obeys the control characters in the text (they move the cursor, rename the window, hide
lines), bidirectional marks show it in another order than it has, and other format characters are not shown at all. So
all of these are shown as escapes, and nothing else is changed.

>>> visible("\x1b[31mred\x07")
'\\x1b[31mred\\x07'
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from unicodedata import category

from hush.core.rounding import decimal_unit

_SMALLEST_PLAIN = -4  # the power of ten of 0.0001, the smallest number written without a power, as Python does
_MAX_EXACT_DIGITS = 15
"""Significant digits of a decimal that :func:`figure` shows in full where ``exact`` is asked for."""
_MAX_DECIMAL_PLACES = 40
"""The largest number of decimal places that :func:`decimal` writes out."""


def figure(value: Fraction | float, *, digits: int = 6, exact: bool = False) -> str:
    """Return ``digits`` significant digits of a number, rounded to the nearest and half to even.

    With ``exact`` a number that is a decimal of at most fifteen digits is written in full: a price of 0.12345678 is
    shown as it was asked for, a third still as 0.333333.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "∞" if value > 0 else "-∞"
    number = Fraction(value)
    if number == 0:
        return "0"
    if exact:
        full = _scaled(abs(number), _MAX_EXACT_DIGITS)
        if full.denominator == 1:
            return _written(number, full.numerator, _MAX_EXACT_DIGITS)
    return _written(number, round(_scaled(abs(number), digits)), digits)


def decimal(value: Fraction) -> str:
    """Return a rational exactly: as a decimal of at most forty places, else as a ratio. It reads back as itself."""
    places = next((places for places in range(_MAX_DECIMAL_PLACES) if (value * 10**places).denominator == 1), None)
    if places is None or value == 0:
        return str(value)
    return _laid_out(value < 0, abs(value * 10**places).numerator, -places, plain_below=math.inf)


def percent(share: Fraction | float, *, taken: bool = False) -> str:
    """Return a share of a budget to a thousandth of a per cent, the steps in which shares are counted.

    A charge that was ``taken`` without reaching the next step took less than one.

    >>> percent(Fraction(1, 8)), percent(Fraction(0)), percent(Fraction(0), taken=True)
    ('12.5%', '0%', '<0.001%')
    """
    return "<0.001%" if taken and not share else f"{decimal(round(100 * Fraction(share), 3))}%"


def _scaled(value: Fraction, digits: int) -> Fraction:
    """Return a positive number in units of its ``digits``-th significant digit."""
    return value / decimal_unit(value, digits=digits)


def _written(number: Fraction, mantissa: int, digits: int) -> str:
    """Return mantissa·unit with the number's sign, where unit is that of its ``digits``-th significant digit."""
    unit = decimal_unit(abs(number), digits=digits)
    power = len(str(unit.numerator)) - len(str(unit.denominator))  # a power of ten: one of the two is 1
    return _laid_out(number < 0, mantissa, power, plain_below=digits)


def _laid_out(negative: bool, mantissa: int, power: int, *, plain_below: float) -> str:
    """Return ±mantissa·10^power, with a power of ten where the number is small, or has ``plain_below`` digits or more.

    Digits and thresholds are those of Python's ``g`` format; the power of ten is written without padding.
    """
    digits = str(mantissa)
    first = len(digits) - 1 + power  # the power of ten of the first digit
    digits = digits.rstrip("0")
    sign = "-" if negative else ""
    if not _SMALLEST_PLAIN <= first < plain_below:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{first:+d}"
    if first < 0:
        return f"{sign}0.{'0' * (-first - 1)}{digits}"
    integer_digits, decimals = digits[: first + 1].ljust(first + 1, "0"), digits[first + 1 :]
    return f"{sign}{integer_digits}.{decimals}" if decimals else f"{sign}{integer_digits}"


_UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
"""Unicode's categories of characters that steer or hide text: controls, formats, private use, half surrogates."""
_JOINERS = "\u200c\u200d"
"""Between letters of Persian and Hindi, and in emoji; the only format characters that plain words need."""


def visible(text: str, *, lines: bool = False, joiners: bool = True) -> str:
    r"""Return a text with escapes for control, format and private characters, and for half surrogates.

    ``lines`` keeps line breaks, ``joiners`` the two joiners of letters. A second call changes nothing more.
    """
    return _escaped(text, "\n" * lines + _JOINERS * joiners, _escape)


def ascii_controls(text: str) -> str:
    r"""Return JSON that means the same and holds no unseen character: ``\u`` escapes stand for them."""
    return _escaped(text, "\n", _json_escape)


def _escaped(text: str, plain: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():  # most texts are, and it is quick
        return text
    return "".join(escape(sign) if sign not in plain and category(sign) in _UNSEEN else sign for sign in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


class ToldInLines:
    """An object that is shown as lines of text, in a terminal and in a notebook."""

    __slots__ = ()

    def lines(self) -> list[str]:
        """Return the lines."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(map(visible, self.lines()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"
