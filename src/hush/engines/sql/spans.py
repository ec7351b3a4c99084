r"""Between which magnitudes a float lies in every row, if it is not 0: (least, greatest), or None if nothing is known.

Engines whose floats raise beyond their range need it, so that no row can make arithmetic fail. It holds for every row
there could be, also for those that a condition is about to drop: it comes from columns that were clamped where they
were read, and from constants, and not from types. With floats x and y of spans (l, m) and (l', m'):

* x ± y is at most m + m'. If it is not 0 it is at least min(l, l')·2⁻⁵³: both are whole multiples of the last place of
  the smaller one, and so is their exact sum (Sterbenz); rounding keeps it.
* x·y lies within l·l' and m·m', and x/y within l/m' and m/l', each up to a rounding, for which a factor of 2 is spare.

>>> added((Fraction(1), Fraction(8)), (Fraction(2), Fraction(2)))[1], divided((Fraction(1), Fraction(8)), None)
(Fraction(10, 1), None)
"""

from __future__ import annotations

from fractions import Fraction

from hush.engines.sql.dialect import Span

_PLACE = Fraction(1, 2**53)
WHOLE: Span = (Fraction(1), Fraction(2**63))
"""Of whole numbers of 64 bits."""
NOTHING: Span = (Fraction(1), Fraction(1))
"""Of 0: any is true."""


def of_number(number: Fraction) -> Span:
    """Return the span of a constant, as the nearest float."""
    return (abs(number) / 2, abs(number) * 2) if number else NOTHING


def added(one: Span | None, other: Span | None) -> Span | None:
    """Return the span of a sum or difference."""
    return None if one is None or other is None else (min(one[0], other[0]) * _PLACE, one[1] + other[1])


def multiplied(one: Span | None, other: Span | None) -> Span | None:
    """Return the span of a product."""
    return None if one is None or other is None else (one[0] * other[0] / 2, one[1] * other[1] * 2)


def divided(one: Span | None, other: Span | None) -> Span | None:
    """Return the span of a quotient."""
    return None if one is None or other is None else (one[0] / other[1] / 2, one[1] / other[0] * 2)


def rounded_to(span: Span | None, step: Fraction) -> Span | None:
    """Return the span of what is rounded, up, down or to the nearest, to multiples of a step."""
    return None if span is None else (step / 2, span[1] + step)


def either(*spans: Span | None) -> Span | None:
    """Return the span of something that is one of several."""
    known = [span for span in spans if span is not None]
    if not known or len(known) < len(spans):
        return None
    return min(least for least, _ in known), max(most for _, most in known)
