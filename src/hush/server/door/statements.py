r"""What a text says before anybody knows what it means: statements, first words, comments, cursors.

Every pattern goes forward alone: what is not closed reaches to the end, so that reading takes linear time.

>>> split("SELECT ';' -- ; \n; ; SELECT 2;")
["SELECT ';' -- ; \n", ' SELECT 2']
>>> first_word("/* a */ Begin work"), rest("SHOW  all ;")
('BEGIN', 'all')
"""

from __future__ import annotations

import re
from collections.abc import Collection

from hush.core.values import dataclass

TOKEN = re.compile(
    r"""'[^']*+(?:'|\Z)|"[^"]*+(?:"|\Z)|/\*(?P<block>.*?)(?:\*/|\Z)|--(?P<line>[^\n]*+)|(?P<end>;)""", re.DOTALL
)
"""What hides a semicolon or a comment, and both. What is not closed goes to the end: so reading takes linear time."""
_WORD = re.compile(r"(?>\s+|/\*.*?\*/|--[^\n]*\n)*+([A-Za-z]+)", re.DOTALL)
_EXPLAIN = re.compile(r"\A.*?\bEXPLAIN\b(\s*\([^)]*\)|\s+ANALYZE|\s+VERBOSE)*", re.IGNORECASE | re.DOTALL)
_NAME = r"""(?P<name>[\w$]+|"[^"]+")"""
_DECLARE = re.compile(
    rf"\s*DECLARE\s+{_NAME}(?:\s+(?:BINARY|INSENSITIVE|ASENSITIVE|NO\s+SCROLL|SCROLL))*\s+CURSOR"
    r"(?:\s+WITHOUT\s+HOLD|(?P<hold>\s+WITH\s+HOLD))?\s+FOR\b",
    re.IGNORECASE,
)
_FETCH = re.compile(
    rf"(?:NEXT\s+|FORWARD\s+)?(?:(?P<count>\d{{1,9}}|ALL)\s+)?(?:(?:FROM|IN)\s+)?{_NAME}", re.IGNORECASE
)
_DATABASE = re.compile(
    r"""'[^']*+(?:'|\Z)|/\*.*?(?:\*/|\Z)|--[^\n]*+|(?<![\w.$"])(?:hush|"hush")\s*+\.\s*+(?=(?P<data>\w++|"[^"]++")\s*+\.)|"[^"]*+(?:"|\Z)""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Declared:
    """A cursor that is declared: its name, whether it outlives its transaction, and what it is for."""

    name: str
    held: bool
    question: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """Rows that are wanted of a cursor: how many, or all."""

    name: str
    count: int | None


def first_word(text: str) -> str:
    """Return the first word of a statement, in capitals."""
    found = _WORD.match(text)
    return found[1].upper() if found else ""


def rest(text: str) -> str:
    """Return what follows the first word of a statement."""
    found = _WORD.match(text)
    return text[found.end() if found else 0 :].strip().removesuffix(";").rstrip()


def split(text: str) -> list[str]:
    """Return the statements of a text, without those that say nothing."""
    parts, start = [], 0
    for found in TOKEN.finditer(text):
        if found["end"]:
            parts.append(text[start : found.start()])
            start = found.end()
    parts.append(text[start:])
    return [part for part in parts if TOKEN.sub(_without_comment, part).strip()]


def _without_comment(found: re.Match[str]) -> str:
    return "" if found["block"] is not None or found["line"] is not None else found[0]


def without_database(statement: str, data_sets: Collection[str]) -> str:
    """Return a question whose tables are not named with the database's name before the data set's.

    >>> without_database("SELECT 'hush.clinic.x' FROM hush.clinic.visits", ["clinic"])
    "SELECT 'hush.clinic.x' FROM clinic.visits"
    """

    def shorter(name: re.Match[str]) -> str:
        return "" if name["data"] is not None and name["data"].strip('"') in data_sets else name[0]

    return _DATABASE.sub(shorter, statement)


def explained(text: str) -> str:
    """Return what EXPLAIN stands before."""
    return _EXPLAIN.sub("", text, count=1)


def declared(text: str) -> Declared | None:
    """Return the cursor that a statement declares.

    >>> declared("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 1")
    Declared(name='c', held=True, question=' SELECT 1')
    """
    said = _DECLARE.match(text)
    if said is None:
        return None
    return Declared(cursor_name(said["name"]), said["hold"] is not None, text[said.end() :])


def fetched(text: str) -> Fetched | None:
    """Return what FETCH or MOVE wants; rows go forward alone.

    >>> fetched("FETCH FORWARD 100 FROM c"), fetched("FETCH c"), fetched("FETCH ALL IN c"), fetched("FETCH LAST FROM c")
    (Fetched(name='c', count=100), Fetched(name='c', count=1), Fetched(name='c', count=None), None)
    """
    said = _FETCH.fullmatch(rest(text))
    if said is None:
        return None
    asked = said["count"] or "1"
    return Fetched(cursor_name(said["name"]), None if asked.upper() == "ALL" else int(asked))


def cursor_name(text: str) -> str:
    """Return the name of a cursor, of which capitals are not told apart."""
    return text.strip('"').lower()
