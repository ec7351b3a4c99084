r"""LIKE in time that grows with the text's length alone.

The engine's own matcher is linear where a pattern has no more than parts between ``%``, or where a ``_`` comes before
every ``%``. In other patterns it tries every place of one part for every place of the one before: 180 characters take
older versions 18 seconds, in which nothing can interrupt them. A pattern with its own escape character takes that way
too. These become regular expressions, which the engine hands to RE2, an automaton: linear whatever text and pattern
are.

>>> linear("a%b"), linear("a_%"), linear("%a_b%")
(True, True, False)
>>> expression_of([("5", False), ("%", True), ("_", False), ("%", False)])
'5%..*'
"""

from __future__ import annotations

from collections.abc import Sequence

from hush.engines.sql.primitives import like as plain_like
from hush.engines.sql.primitives import like_escaped
from hush.engines.sql.values import Form, Value, as_text
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Literal
from hush.query.functions.logic import without_escapes

_SPECIAL = frozenset(r"\.+*?()|[]{}^$")
"""What means something in a regular expression, and itself after a backslash."""


def like(expression: Call, arguments: list[Value]) -> Value:
    """Return LIKE, by a matcher that is linear."""
    pattern, *escape = (item.value for item in expression.arguments[1:] if isinstance(item, Literal))
    if not isinstance(pattern, str):
        raise UnplannableError("LIKE needs a pattern that is written out")
    pattern = pattern.replace("\0", "")
    if not escape and linear(pattern):
        return Value(plain_like(as_text(arguments[0]), as_text(arguments[1])), Form.BOOLEAN)
    plain = without_escapes(pattern, str(escape[0]) if escape else "")
    if plain is None:
        raise UnplannableError("a pattern of LIKE ends with its ESCAPE character")
    found = like_escaped(as_text(arguments[0]), plain, expression_of(plain))
    return Value(found, Form.BOOLEAN)


def linear(pattern: str) -> bool:
    """Return whether the engine matches a pattern without going back: no ``_`` comes after a ``%``."""
    return "_" not in pattern[pattern.find("%") :] if "%" in pattern else True


def expression_of(characters: Sequence[tuple[str, bool]]) -> str:
    """Return the regular expression of a pattern: its characters, and whether each stands for itself."""
    parts = []
    for character, meant in characters:
        if meant or character not in "%_":
            parts.append("\\" + character if character in _SPECIAL else character)
        elif character == "_":
            parts.append(".")
        elif parts[-1:] != [".*"]:
            parts.append(".*")
    return "".join(parts)
