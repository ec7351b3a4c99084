r"""Texts that somebody else chose, made fit for a terminal or a page.

A private key is whatever a row holds, and an analyst's question is stored for the owner to read. A terminal obeys the
control characters in such a text (they move the cursor, rename the window, hide lines), and bidirectional marks show it
in another order than it has. So they are shown as escapes, and nothing else is changed.

>>> visible("\x1b[31mred\x07")
'\\x1b[31mred\\x07'
>>> script_json({"key": "</script>"})
'{"key": "\\u003c/script\\u003e"}'
"""

from __future__ import annotations

import json
import re
from typing import Any

_CONTROLS = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSEEN = re.compile(f"[{_CONTROLS}]")
_UNSEEN_IN_LINES = re.compile(f"(?!\n)[{_CONTROLS}]")
_IN_SCRIPT = re.compile(f"[<>&{_CONTROLS}]")


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return a text whose control characters, bidirectional marks and half surrogates are written as escapes.

    ``lines`` keeps line breaks. To do it twice changes nothing more.
    """
    return (_UNSEEN_IN_LINES if lines else _UNSEEN).sub(lambda found: _escape(found.group()), text)


def ascii_controls(text: str) -> str:
    r"""Return JSON that means the same and holds no control character: ``\u`` escapes stand for them."""
    return _UNSEEN_IN_LINES.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def script_json(value: Any) -> str:
    r"""Return JSON that can stand inside ``<script>``: nothing in it ends the element or begins another."""
    text = json.dumps(value, ensure_ascii=False)
    return _IN_SCRIPT.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
