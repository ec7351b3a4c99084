"""A sheet of SVG: texts, lines and boxes that carry classes and no colours of their own.

Colours stand in ``chart.css``, light and dark. A page that has this style sheet shows the bare SVG, which holds neither
``style`` attributes nor a ``<style>`` element, so that a strict content security policy lets it pass. `Sheet.file` puts
the style sheet inside, for notebooks and files.

Texts are escaped, and control characters in them are shown as escapes: keys are whatever somebody wrote into a row.

>>> sheet = Sheet(width=100, height=40)
>>> sheet.text(5, 20, "<b>", "title")
>>> "&lt;b&gt;" in sheet.page("a title") and "style" not in sheet.page("a title")
True
>>> "<style>" in sheet.file("a title")
True
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files

from hush.core.visible import visible

_LETTER = dict.fromkeys("iljI|", 0.3) | dict.fromkeys("tfr .,:;()'", 0.4) | dict.fromkeys("mwMW", 0.95)
"""How wide letters are, as parts of the type's size, in the wider of the usual fonts."""
_WIDE = {"W", "F"}
_ELLIPSIS = "…"


@cache
def style_sheet() -> str:
    """Return the colours of charts, light and dark, for a page that shows them."""
    return (files("hush.report") / "chart.css").read_text(encoding="utf-8")


def text_width(text: str, size: float = 11.5) -> float:
    """Return about how wide a text is drawn, in pixels; rather too wide than too narrow."""
    return sum(map(_letter_width, text)) * size


def _letter_width(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in _WIDE:
        return 1.0
    return _LETTER.get(letter, 0.74 if letter.isupper() else 0.62)


def cut(text: str, width: float, size: float = 11.5) -> str:
    """Return a text that fits, its end left out where it is too long.

    >>> cut("Hypercholesterolaemia", 60)
    'Hyperch…'
    """
    if text_width(text, size) <= width:
        return text
    room = width - text_width(_ELLIPSIS, size)
    kept, used = [], 0.0
    for letter in text:
        used += _letter_width(letter) * size
        if used > room:
            break
        kept.append(letter)
    return "".join(kept).rstrip() + _ELLIPSIS


def wrapped(text: str, width: float, *, lines: int, size: float = 11.5) -> list[str] | None:
    """Return a text in at most so many lines that fit, broken between words; None if it does not fit.

    >>> wrapped("chronic heart failure", 60, lines=3)
    ['chronic', 'heart', 'failure']
    >>> wrapped("chronic heart failure", 60, lines=2) is None
    True
    """
    rows: list[str] = []
    for word in text.split() or [text]:
        if rows and text_width(f"{rows[-1]} {word}", size) <= width:
            rows[-1] += f" {word}"
        else:
            rows.append(word)
    fits = len(rows) <= lines and all(text_width(row, size) <= width for row in rows)
    return rows if fits else None


def number(value: float) -> str:
    """Return a coordinate, to a tenth of a pixel."""
    return f"{round(value, 1):g}"


@dataclass(slots=True, kw_only=True)
class Sheet:
    """An SVG picture while it is drawn."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)
    """Attributes ``data-…`` of the picture, for a script that moves its parts."""

    def add(self, name: str, classes: str, tooltip: str = "", **attributes: float | str) -> None:
        """Draw one element; its ``tooltip`` is shown where a pointer rests on it."""
        written = "".join(
            f' {key.replace("_", "-")}="{escape(value) if isinstance(value, str) else number(value)}"'
            for key, value in attributes.items()
        )
        inner = f"><title>{escape(visible(tooltip))}</title></{name}>" if tooltip else "/>"
        self.parts.append(f'<{name} class="{classes}"{written}{inner}')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        classes: str = "",
        *,
        anchor: str = "start",
        turn: float = 0,
        whole: str = "",
    ) -> None:
        """Write a text; ``whole`` is what was cut short."""
        place = f' transform="rotate({number(turn)} {number(x)} {number(y)})"' if turn else ""
        css = f' class="{classes}"' if classes else ""
        tooltip = f"<title>{escape(visible(whole))}</title>" if whole and whole != text else ""
        end = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(
            f'<text x="{number(x)}" y="{number(y)}"{css}{end}{place}>{tooltip}{escape(visible(text))}</text>'
        )

    def lines(self, x: float, y: float, rows: Sequence[str], *, anchor: str = "middle", whole: str = "") -> None:
        """Write a text in several lines; ``whole`` is what may have been cut short."""
        whole = "" if " ".join(rows) == whole else whole
        for index, row in enumerate(rows):
            self.text(x, y + 14 * index, row, anchor=anchor, whole=whole)

    def page(self, title: str, *, classes: str = "") -> str:
        """Return the picture for a page that has the style sheet."""
        return self._svg(title, "".join(self.parts), classes=classes)

    def file(self, title: str) -> str:
        """Return the picture with its style sheet inside, on paper of its own, for notebooks and files."""
        paper = f'<style>{style_sheet()}</style><rect class="paper" width="100%" height="100%"/>'
        size = f' width="{number(self.width)}" height="{number(self.height)}"'
        return self._svg(title, paper + "".join(self.parts), size)

    def _svg(self, title: str, inner: str, size: str = "", *, classes: str = "") -> str:
        data = "".join(f' data-{name}="{escape(value)}"' for name, value in self.data.items())
        css = f"hush-chart {classes}".strip()
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{css}" role="img" aria-label="{escape(visible(title))}"'
            f' viewBox="0 0 {number(self.width)} {number(self.height)}"{size}{data}>{inner}</svg>'
        )
