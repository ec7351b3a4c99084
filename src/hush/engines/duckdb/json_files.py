"""JSON files: an array of records, or one record after the other, read as columns of text.

JSON stores no reliable types, so every value becomes the text that stands for it. Where a record ends can be told only
by reading it: a file that is no JSON is refused as a whole, where the owner opens it, and no question fails by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hush.engines.duckdb.sources import FIRST_RECORD, UNREADABLE, opened_text
from hush.engines.errors import SourceError

_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_BETWEEN = re.compile(r"[\s,]*")


def json_names(path: Path) -> list[str]:
    """Return the names in a JSON file's first record; the file is an array, or records one after the other."""
    try:
        with opened_text(path) as lines:
            start = lines.read(FIRST_RECORD).lstrip().removeprefix("[").lstrip()
        record, _ = json.JSONDecoder().raw_decode(start)
    except (*UNREADABLE, ValueError, RecursionError):
        record = None
    names = [name for name in record if name.strip() and name.isprintable()] if isinstance(record, dict) else []
    if not names:
        raise SourceError(f"{path.name} must hold JSON records, the first within its first megabyte")
    return names


def json_rows(path: Path, columns: Sequence[str]) -> Mapping[str, list[str | None]]:
    """Return the records of a JSON file, an array or one after the other, as columns of text.

    Where a record ends can be told only by reading it, so a file that is no JSON is refused as a whole; the owner
    learns that here, where the file is opened, and no question fails by it. What is JSON is read whatever it holds:
    half of a surrogate pair, control characters, numbers of any length, records nested too deep to be read, which are
    rows of NULL. Numbers keep their own words.
    """
    decoder = json.JSONDecoder(strict=False, parse_float=str, parse_int=str, parse_constant=str)
    cells: dict[str, list[str | None]] = {name: [] for name in columns}
    try:
        with opened_text(path) as file:
            text = file.read()
        at = _skipped(text, 0)
        array = text.startswith("[", at)
        at = _skipped(text, at + array)
        while at < len(text) and not (array and text[at] == "]"):
            row, at = _record(decoder, text, at, columns)
            for name, cell in zip(columns, row, strict=True):
                cells[name].append(cell)
            at = _skipped(text, at)
        whole = text[at:].rstrip() == ("]" if array else "")
    except (*UNREADABLE, ValueError, RecursionError):
        whole = False
    if not whole:
        raise SourceError(f"{path.name} is not JSON that can be read; if it has a record on each line, name it .ndjson")
    return cells


def _record(decoder: json.JSONDecoder, text: str, at: int, columns: Sequence[str]) -> tuple[Sequence[str | None], int]:
    """Return the cells of the record that begins at a place, and where it ends."""
    try:
        record, end = decoder.raw_decode(text, at)
        return [_as_text(record.get(name)) if isinstance(record, dict) else None for name in columns], end
    except RecursionError:
        return [None] * len(columns), _end_of_nested(text, at)


def _end_of_nested(text: str, at: int) -> int:
    """Return where a record ends, by counting brackets outside of texts, however deep they are."""
    depth = 0
    for token in _BRACKETS.finditer(text, at):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    raise ValueError("a bracket is left open")


def _skipped(text: str, at: int) -> int:
    """Return where the next record begins."""
    found = _BETWEEN.match(text, at)
    return at if found is None else found.end()


def _as_text(value: Any) -> str | None:
    """Return a JSON value as the text that stands for it; what UTF-8 cannot say is replaced."""
    if value is None:
        return None
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else json.dumps(value)


def json_columns(path: Path, named: Sequence[str]) -> list[str]:
    """Return the columns of a JSON file: those that the owner names, and what else its first record has.

    For the owner alone, who has the file. Named columns are there whatever the first record is, and where one differs
    from a name of the record in capitals only, it is the one that counts.
    """
    try:
        held = json_names(path)
    except SourceError:
        if not named:
            raise
        held = []
    taken = {name.casefold() for name in named}
    others = {name.casefold(): name for name in reversed(held) if name.casefold() not in taken}
    kept = [name for name in held if name in named or others.get(name.casefold()) == name]
    return [*kept, *(name for name in named if name not in held)]
