r"""Statements that the engine is known to understand, whatever numbers stand in them.

Before a question is charged, the engine resolves its statements, so that what it cannot express costs nothing. That
takes as long as a good part of answering a question about few rows, and it would find the same again for every
statement that differs in its numbers alone: which types and functions meet decides, and the numbers of our statements
(`hush.engines.sql.build`) are of a type that their spelling tells. Texts and dates are part of a shape as they are,
and so are the files' identities: a table that is no longer what it was is looked at again.

>>> shape_of('''SELECT "x2" + 12 AS "c1", '7' FROM "t" WHERE "y" > 1.5e-06 AND CAST("y" AS INT128) < 2''')
'SELECT "x2" + # AS "c1", \'7\' FROM "t" WHERE "y" > #.# AND CAST("y" AS INT128) < #'
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable

_MOST = 512
_PARTS = re.compile(r"""((?:"[^"]*"|'[^']*'|[A-Za-z_]\w*|[^\w"']+)+)|\d[\d.]*(?:e[+-]?\d+)?""")
"""All that lies between two numbers, or a number; a doubled quote is the end of one part and the begin of another."""


def shape_of(text: str) -> str:
    """Return a statement with its numbers left out: # for an integer, #.# for a number with a fraction or exponent."""
    return _PARTS.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    between: str | None = match[1]
    if between is not None:
        return between
    return "#" if match[0].isdigit() else "#.#"


class Shapes:
    """The shapes met last. Use it from any thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def unmet(self, stamps: Hashable, texts: Iterable[str]) -> list[str]:
        """Return one statement of each shape that was not met while the files were what they are."""
        keys = {(stamps, shape_of(text)): text for text in dict.fromkeys(texts)}
        with self._lock:
            for key in keys.keys() & self._known.keys():
                self._known.move_to_end(key)
            return [text for key, text in keys.items() if key not in self._known]

    def meet(self, stamps: Hashable, texts: Iterable[str]) -> None:
        """Note that the engine understands these statements."""
        with self._lock:
            for text in texts:
                self._known[stamps, shape_of(text)] = None
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
