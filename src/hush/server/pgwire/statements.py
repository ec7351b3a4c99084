r"""Splitting SQL text without a parser: statements, first words, comments, cursors.

Every pattern goes forward alone: what is not closed reaches to the end, so that reading takes linear time.

>>> split("SELECT ';' -- ; \n; ; SELECT 2;")
["SELECT ';' -- ; \n", ' SELECT 2']
>>> first_word("/* a */ Begin work"), rest("SHOW  all ;")
('BEGIN', 'all')
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

TOKEN = re.compile(
    r"""'[^']*+(?:'|\Z)|"[^"]*+(?:"|\Z)|/\*(?P<block>.*?)(?:\*/|\Z)|--(?P<line>[^\n]*+)|(?P<end>;)""", re.DOTALL
)
"""Quoted texts, comments and semicolons. An unclosed quote or comment reaches to the end of the text."""
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
    """A declared cursor: its name, whether it outlives its transaction, and its statement."""

    name: str
    held: bool
    question: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """A FETCH or MOVE: the name of the cursor, and the number of rows; None for all."""

    name: str
    count: int | None


def first_word(text: str) -> str:
    """Return the first word of a statement, in capitals."""
    match = _WORD.match(text)
    return match[1].upper() if match else ""


def rest(text: str) -> str:
    """Return a statement without its first word and its semicolon."""
    match = _WORD.match(text)
    return text[match.end() if match else 0 :].strip().removesuffix(";").rstrip()


def split(text: str) -> list[str]:
    """Return the statements of a text, without empty ones."""
    parts, start = [], 0
    for token in TOKEN.finditer(text):
        if token["end"]:
            parts.append(text[start : token.start()])
            start = token.end()
    parts.append(text[start:])
    return [statement for statement in parts if TOKEN.sub(_without_comment, statement).strip()]


def _without_comment(found: re.Match[str]) -> str:
    return "" if found["block"] is not None or found["line"] is not None else found[0]


def without_database(statement: str, data_sets: Collection[str]) -> str:
    """Return a question without the database's name before the names of data sets.

    >>> without_database("SELECT 'hush.clinic.x' FROM hush.clinic.visits", ["clinic"])
    "SELECT 'hush.clinic.x' FROM clinic.visits"
    """

    def shorter(name: re.Match[str]) -> str:
        return "" if name["data"] is not None and name["data"].strip('"') in data_sets else name[0]

    return _DATABASE.sub(shorter, statement)


def explained(text: str) -> str:
    """Return the statement after EXPLAIN and its options."""
    return _EXPLAIN.sub("", text, count=1)


def declared(text: str) -> Declared | None:
    """Return the cursor that a statement declares.

    >>> declared("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 1")
    Declared(name='c', held=True, question=' SELECT 1')
    """
    match = _DECLARE.match(text)
    if match is None:
        return None
    return Declared(cursor_name(match["name"]), match["hold"] is not None, text[match.end() :])


def fetched(text: str) -> Fetched | None:
    """Return the cursor and the number of rows of a FETCH or MOVE; None for a move backwards.

    >>> fetched("FETCH FORWARD 100 FROM c"), fetched("FETCH c"), fetched("FETCH ALL IN c"), fetched("FETCH LAST FROM c")
    (Fetched(name='c', count=100), Fetched(name='c', count=1), Fetched(name='c', count=None), None)
    """
    match = _FETCH.fullmatch(rest(text))
    if match is None:
        return None
    count = match["count"] or "1"
    return Fetched(cursor_name(match["name"]), None if count.upper() == "ALL" else int(count))


def cursor_name(text: str) -> str:
    """Return the name of a cursor in lower case and without quotes."""
    return text.strip('"').lower()
