"""Files and memory: settings for reading text files, sizes in bytes, and errors of writing.

A policy checks these settings and reports the line of a bad one, and an engine applies them. A file that cannot be
written is an error of the caller's path, with a message about that path.

>>> text_encoding("Windows-1252"), text_encoding("latin-1"), text_encoding("UTF-8"), text_encoding("base64")
('cp1252', 'iso8859-1', 'utf-8', None)
>>> parse_size("256 MB"), parse_size("1.5GiB"), parse_size("0")
(256000000, 1610612736, 0)
>>> with writing("no/such/folder/answer.csv"):
...     raise FileNotFoundError(2, "No such file or directory")
Traceback (most recent call last):
...
hush.core.errors.InvalidValueError: The 'path' parameter must be a file that can be written. Got ... instead. ...

While a large file is read, a terminal shows its name and its size, and nothing that depends on its contents. Progress
would: the time of each part depends on rows.

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
"""The characters allowed between the fields of a CSV file."""
DECIMALS = (".", ",")
"""The characters allowed as a decimal separator."""
ENCODINGS = "'utf-8', 'windows-1252', 'latin-1' or 'utf-16'"
"""The usual encodings, for messages."""
READING = ("separator", "encoding", "decimal", "quotes", "timezone")
"""The settings of a text file that an owner may declare."""
DEFAULT_CACHE = "256MB"
"""The default size of an engine's cache of results."""

_ODD_CODECS = {"idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
_BYTES = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip


def text_encoding(name: object) -> str | None:
    """Return Python's name of an encoding; None if it is unknown, or no encoding of text files."""
    if not isinstance(name, str):
        return None
    try:
        codec = codecs.lookup(name.strip()).name
        "a".encode(codec)  # codecs such as base64 encode bytes, and refuse a text
    except (LookupError, ValueError):
        return None
    return None if codec.replace("_", "-") in _ODD_CODECS else codec


def parse_size(text: str, parameter: str = "cache") -> int:
    """Return the number of bytes of a size in text form, for example 256MB or 1.5 GiB."""
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _BYTES:
        raise InvalidValueError(parameter, got=text, allowed="a size such as '256MB' or '1GiB'; '0' keeps nothing")
    return int(float(match[1]) * _BYTES[match[2].upper()])


def path_of(value: object, parameter: str = "path") -> Path:
    """Return a path from a text or a path; refuse other types.

    >>> path_of("kept").name
    'kept'
    """
    if not isinstance(value, str | Path):
        raise InvalidValueError(parameter, got=value, allowed="the path of a file, as text or pathlib.Path")
    return Path(value)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn an OSError raised inside the block into an error about the path."""
    try:
        yield
    except OSError as error:
        folder = Path(path).parent
        hint = f"{error.strerror or 'It cannot be'}."
        if not folder.is_dir():
            hint = f"There is no folder {str(folder)!r}; make it first."
        raise InvalidValueError("path", got=str(path), allowed="a file that can be written", hint=hint) from None


_WATCHER: ContextVar[Callable[[str], None] | None] = ContextVar("_WATCHER", default=None)
_LEAST_ANNOUNCED_SIZE = 10_000_000
"""The size in bytes from which the reading of a file is announced; smaller files are read at once."""


@contextmanager
def watching_reads(show: Callable[[str], None]) -> Iterator[None]:
    """Call ``show`` with a message when a large file is read inside the block, and with "" when that is over."""
    token = _WATCHER.set(show)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@contextmanager
def reading(name: str, size: float) -> Iterator[None]:
    """Announce the reading of a file of ``size`` bytes to the watcher, if the file is large."""
    show = _WATCHER.get()
    if show is None or size < _LEAST_ANNOUNCED_SIZE:
        yield
        return
    show(f"reading {name} ({size / 1e6:,.0f} MB) …")
    try:
        yield
    finally:
        show("")
