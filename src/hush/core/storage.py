"""Files and memory: the words in which an owner says how rows are stored, and what goes wrong where a file is written.

A policy checks these words with their line, and an engine acts on them. A file that cannot be written where the caller
said is the caller's to mend, and is said so.

>>> text_encoding("Windows-1252"), text_encoding("latin-1"), text_encoding("UTF-8"), text_encoding("base64")
('cp1252', 'iso8859-1', 'utf-8', None)
>>> parse_size("256 MB"), parse_size("1.5GiB"), parse_size("0")
(256000000, 1610612736, 0)
>>> with writing("no/such/folder/answer.csv"):
...     raise FileNotFoundError(2, "No such file or directory")
Traceback (most recent call last):
...
hush.core.errors.InvalidValueError: The 'path' parameter must be a file that can be written. Got ... instead. ...

Whoever waits at a terminal while a large file is read is told its name and its size, and nothing that depends on what
is in it, such as how far the reader has come: how long each part takes depends on rows.

>>> with watching_reads(print):
...     with reading("visits.csv", 184_000_000):
...         pass
reading visits.csv (184 MB) …
<BLANKLINE>
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from hush.core.errors import InvalidValueError

SEPARATORS = (",", ";", "\t", "|", ":")
"""What may stand between the fields of a CSV file."""
DECIMALS = (".", ",")
"""What may stand before the decimals of its numbers."""
ENCODINGS = "'utf-8', 'windows-1252', 'latin-1' or 'utf-16'"
"""How its characters may be stored, among others."""
READING = ("separator", "encoding", "decimal", "quotes", "timezone")
"""What an owner may say of how a file is written."""
DEFAULT_CACHE = "256MB"
"""How much memory an engine may use to keep results for the next question, where the owner does not say."""

_ODD_CODECS = {"idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
_BYTES = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip


def text_encoding(name: object) -> str | None:
    """Return an encoding by the name under which Python knows it; None if it is none in which files are written."""
    if not isinstance(name, str):
        return None
    try:
        known = codecs.lookup(name.strip()).name
        "a".encode(known)
    except (LookupError, ValueError):
        return None
    return None if known.replace("_", "-") in _ODD_CODECS else known


def parse_size(text: str, parameter: str = "cache") -> int:
    """Return how many bytes a size such as 256MB or 1.5 GiB is."""
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _BYTES:
        raise InvalidValueError(parameter, got=text, allowed="a size such as '256MB' or '1GiB'; '0' keeps nothing")
    return int(float(match[1]) * _BYTES[match[2].upper()])


def path_of(value: object, parameter: str = "path") -> Path:
    """Return a path that was given as a text or a path.

    >>> path_of("kept").name
    'kept'
    """
    if not isinstance(value, str | Path):
        raise InvalidValueError(parameter, got=value, allowed="the path of a file, as text or pathlib.Path")
    return Path(value)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn what the system says while a file is written into a message about its path."""
    try:
        yield
    except OSError as error:
        folder = Path(path).parent
        hint = f"{error.strerror or 'It cannot be'}."
        if not folder.is_dir():
            hint = f"There is no folder {str(folder)!r}; make it first."
        raise InvalidValueError("path", got=str(path), allowed="a file that can be written", hint=hint) from None


_WATCHER: ContextVar[Callable[[str], None] | None] = ContextVar("_WATCHER", default=None)
_LARGE = 10_000_000
"""Files below so many bytes are read before anybody wonders."""


@contextmanager
def watching_reads(told: Callable[[str], None]) -> Iterator[None]:
    """Tell somebody, as long as the context lasts, when a large file is read; "" when that is over."""
    token = _WATCHER.set(told)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@contextmanager
def reading(name: str, size: float) -> Iterator[None]:
    """Tell whoever watches that a file of so many bytes is read."""
    told = _WATCHER.get()
    if told is None or size < _LARGE:
        yield
        return
    told(f"reading {name} ({size / 1e6:,.0f} MB) …")
    try:
        yield
    finally:
        told("")
