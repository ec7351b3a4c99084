r"""How dates stand in a text: ``%d/%m/%Y``, with the directives that every engine can read alike.

    %d %m            day and month, one or two digits
    %Y               year, four digits, 0001 to 9999
    %y               year, two digits: 69 to 99 are 1969 to 1999, and 00 to 68 are 2000 to 2068
    %H %M %S         hour (0 to 23), minute and second, one or two digits

Letters, spaces and ``. , / - : _`` between them stand for themselves. Where directives touch, as in ``%Y%m%d``, each of
the format has all its digits. Spaces and tabs around a date do not count.

**A format is a regular expression** that fits a text exactly if it is a moment of the calendar: 30 February does not
fit. So an engine needs no function of its own for dates, which would read or refuse other texts than that of the next
engine, and may fail: what fits is put into ISO's order and cast, and everything else is NULL. The expressions use what
RE2, POSIX, Java and Rust read alike, and no text fits in two ways.

>>> import re
>>> (reading,) = DateFormat.parse("%d/%m/%Y").readings(time=False)
>>> re.fullmatch(reading.valid, "29/2/2024") is not None, re.fullmatch(reading.valid, "29/02/2023") is not None
(True, False)
>>> re.sub(reading.parts, reading.order, "29/2/2024")
'2024-2-29'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, Self

from hush.core import InvalidValueError

_DIRECTIVES = "dmYyHMS"
_ALLOWED = (
    "a day (%d), a month (%m) and a year (%Y or %y), and perhaps a time (%H, %M, %S), each once, with letters, spaces "
    "and . , / - : _ between them, such as %d/%m/%Y or %d.%m.%Y %H:%M:%S"
)
_FORMAT = re.compile(r"(?:%[dmYyHMS]|[A-Za-z .,/:_-])*")
_DAYS = (
    "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d",
    "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%m-%y",
)  # fmt: skip
USUAL = tuple(day + time for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S"))
"""Formats that files often have."""
_CENTURY = "0[48]|[2468][048]|[13579][26]"  # two digits that four divides, but 00
_YEARS = {
    # the directive, the century that is written before it: all years, and leap years
    ("Y", ""): ("[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000", f"[0-9]{{2}}(?:{_CENTURY})|(?:{_CENTURY})00"),
    ("y", "20"): ("[0-5][0-9]|6[0-8]", "[024][048]|[135][26]|6[048]"),
    ("y", "19"): ("69|[7-9][0-9]", "[79][26]|8[048]"),
}


class DateReading(NamedTuple):
    """One way in which a text may be a date: the test, and how its parts become ISO's."""

    valid: str
    """The expression of the texts that are moments of the calendar."""
    parts: str
    """An expression with a group for each part; it fits all that ``valid`` fits."""
    order: str
    r"""ISO's text, with ``\1`` in place of the first group."""


_EXAMPLE = (
    ("2024|yyyy", "%Y"), ("31|dd", "%d"), ("12|mm", "%m"), ("24|yy", "%y"), ("23|hh", "%H"), ("59|mm", "%M"),
    ("59|ss", "%S"),
)  # fmt: skip


def format_like(example: str) -> str:
    """Return the format in which somebody writes 31 December 2024, perhaps with 23:59:59; nothing for ISO's.

    >>> format_like("31/12/2024"), format_like("dd.mm.yy hh:mm"), format_like("%m/%d/%Y"), format_like("2024-12-31")
    ('%d/%m/%Y', '%d.%m.%y %H:%M', '%m/%d/%Y', '')
    """
    text = example
    for written, directive in _EXAMPLE if "%" not in example else ():
        text = re.sub(written, directive, text, count=1, flags=re.IGNORECASE)
    return "" if re.fullmatch("%Y-%m-%d([ T]%H:%M(:%S)?)?", text) else DateFormat.parse(text).text


@dataclass(frozen=True, slots=True)
class DateFormat:
    """A format of dates in texts."""

    text: str

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return a format after checking its directives, without the spaces around it, which do not count."""
        letters = re.findall("%(.)", text) if isinstance(text, str) else []
        once = len(set(letters)) == len(letters) and {"d", "m"} <= set(letters) and len({"Y", "y"} & set(letters)) == 1
        times = "".join(sorted({"H", "M", "S"} & set(letters)))
        if not isinstance(text, str) or not _FORMAT.fullmatch(text) or not once or times not in {"", "HM", "HMS"}:
            unknown = next((f" %{letter} is not read." for letter in letters if letter not in _DIRECTIVES), "")
            raise InvalidValueError("format", got=text, allowed=_ALLOWED, hint=unknown.strip())
        return cls(text.strip(" "))

    def readings(self, *, time: bool) -> tuple[DateReading, ...]:
        """Return the ways in which a text is a date in this format, with its time or without; none fits two."""
        zero = "0" if re.search("%.%", self.text) else "0?"
        sixty = f"{zero}[0-9]|[1-5][0-9]"
        clock = {"H": f"{zero}[0-9]|1[0-9]|2[0-3]", "M": sixty, "S": sixty}
        months = f"{zero}[1-9]|1[0-2]"
        parts = self._written({"Y": "[0-9]{4}", "y": "[0-9]{2}"} | dict.fromkeys("dmHMS", "[0-9]{1,2}"))
        groups = {letter: rf"\{number}" for number, letter in enumerate(re.findall("%(.)", self.text), start=1)}
        # a time that is not there is midnight
        moment = f" {groups['H']}:{groups['M']}:{groups.get('S', '00')}" if time and "H" in groups else ""
        readings = []
        for (directive, century), (years, leap_years) in _YEARS.items():
            if directive in groups:
                # days that every month has, those of most months and of long months, and of leap years
                days = [
                    (f"{zero}[1-9]|1[0-9]|2[0-8]", months, years),
                    ("29|30", f"{zero}[13-9]|1[0-2]", years),
                    ("31", f"{zero}[13578]|1[02]", years),
                    ("29", f"{zero}2", leap_years),
                ]
                texts = [self._written({**clock, "d": day, "m": month, directive: year}) for day, month, year in days]
                order = f"{century}{groups[directive]}-{groups['m']}-{groups['d']}{moment}"
                readings.append(DateReading(valid=f"({'|'.join(texts)})", parts=parts, order=order))
        return tuple(readings)

    def _written(self, expressions: dict[str, str]) -> str:
        """Return the format with an expression in place of each directive."""
        pieces = re.findall("%(.)|([^%]+)", self.text)
        # of what may stand between them the dot alone means something to an expression
        cells = [f"({expressions[letter]})" if letter else words.replace(".", "[.]") for letter, words in pieces]
        return rf"[ \t]*{''.join(cells)}[ \t]*"
