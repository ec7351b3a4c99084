r"""The text of a policy: sections, keys with their lines, and errors that point to them.

The standard library's parser does not tell where a key stands. `locate` walks text that ``tomllib`` has already
accepted, so it needs to know only where keys, strings and brackets begin and end, not what is allowed.

>>> locate('[data.clinic]\nunit = "patient_id"\nbudget = { epsilon = 1 }')[("data", "clinic", "budget", "epsilon")]
3
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

from hush.core import HushError, InvalidValueError
from hush.core.errors import shown
from hush.core.numbers import exact
from hush.query.errors import did_you_mean

Path = tuple[str, ...]
T = TypeVar("T")
K = TypeVar("K")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"[ \t]*")


@dataclass(frozen=True, slots=True)
class Document:
    """The file: its name for messages, and the line of each key."""

    file: str
    lines: Mapping[Path, int]
    mistakes: list[HushError] | None = None
    """The list that collects mistakes; None if the first one is raised."""

    def tolerant(self, read: Callable[[], T], default: T) -> T:
        """Return the result of ``read``; if mistakes are collected, note a mistake and return the default instead."""
        try:
            return read()
        except PolicyError as error:
            if self.mistakes is None:
                raise
            self.mistakes.append(error)
            return default

    def each(self, entries: Iterable[tuple[str, K]], read: Callable[[str, K], T]) -> dict[str, T]:
        """Return the result of ``read`` by key; if mistakes are collected, keys with a mistake are left out."""
        results: dict[str, T] = {}
        for key, value in entries:
            self.tolerant(partial(_put, results, key, value, read), None)
        return results

    def error(self, path: Path, problem: str, hint: str = "") -> HushError:
        """Return an error at a key, or at the nearest one above it."""
        return PolicyError(self.file, self._line(path), problem, hint)

    def place(self, path: Path) -> str:
        """Return the place of a key, or of the nearest one above it: ``hush.toml:3``."""
        line = self._line(path)
        return self.file if line is None else f"{self.file}:{line}"

    def _line(self, path: Path) -> int | None:
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def _put(results: dict[str, T], key: str, value: K, read: Callable[[str, K], T]) -> None:
    results[key] = read(key, value)


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the file."""

    document: Document
    path: Path
    values: Mapping[str, Any]

    @classmethod
    def of(cls, document: Document, path: Path, values: object) -> Section:
        """Return a section; refuse a value that is not a table."""
        if not isinstance(values, Mapping):
            raise document.error(path, f"{'.'.join(path)} must be a table; got {shown(values)}.")
        return cls(document, path, values)

    @property
    def name(self) -> str:
        """The dotted name, for messages."""
        return ".".join(self.path)

    def error(self, key: str | None, problem: str, hint: str = "") -> HushError:
        """Return an error at one of the section's keys, or at the section."""
        return self.document.error(self.path if key is None else (*self.path, key), problem, hint)

    def only(self, allowed: Iterable[str]) -> None:
        """Refuse keys that nobody reads: a misspelt bound must not be passed over."""
        allowed = list(allowed)
        for key in self.values:
            self.document.tolerant(partial(self._check_key, key, allowed), None)

    def _check_key(self, key: str, allowed: list[str]) -> None:
        if key not in allowed:
            alternatives = f"Allowed are {', '.join(allowed)}." if allowed else ""
            raise self.error(
                key,
                f"unknown key '{key}' in {self.name or 'the file'}.",
                did_you_mean(key, allowed, otherwise=alternatives),
            )

    def section(self, key: str) -> Section:
        """Return a section inside this one; empty if it is not there."""
        return Section.of(self.document, (*self.path, key), self.values.get(key, {}))

    def sections(self) -> list[tuple[str, Section]]:
        """Return all sections inside this one, by name; names that differ in case alone are refused."""
        spellings: dict[str, str] = {}
        for key in self.values:
            if key.casefold() in spellings:
                raise self.error(
                    key, f"'{key}' and '{spellings[key.casefold()]}' differ in case alone.", "Rename one of them."
                )
            if not key.strip() or not key.isprintable() or len(key) > 100:
                raise self.error(key, "a name must be 1 to 100 printable characters.")
            spellings[key.casefold()] = key
        return [(key, self.section(key)) for key in self.values]

    def text(self, key: str, default: str | None = None, *, hint: str = "") -> str | None:
        """Return text that is not empty."""
        if key not in self.values:
            return default
        value = self.values[key]
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"{self.name}.{key} must be text that is not empty; got {shown(value)}.", hint)
        return value.strip()

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"{self.name}.{key} must be true or false; got {shown(value)}.")
        return value

    def whole(self, key: str, default: int, *, maximum: int, hint: str) -> int:
        """Return a whole number from 1 to ``maximum``."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
            raise self.error(
                key, f"{self.name}.{key} must be a whole number from 1 to {maximum}; got {shown(value)}.", hint
            )
        return value

    def number(self, key: str, allowed: str = "a finite number") -> Fraction | None:
        """Return an exact number, written as a number or as text."""
        if key not in self.values:
            return None
        try:
            return exact(self.values[key], key, allowed=allowed)
        except InvalidValueError:
            raise self.error(key, f"{self.name}.{key} must be {allowed}; got {shown(self.values[key])}.") from None


def locate(text: str) -> dict[Path, int]:
    """Return the line (from 1) on which each key or table header first stands."""
    return _Walker(text).walk()


class _Walker:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, int] = {}

    def walk(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip_blank_lines():
            if self.text[self.at] == "[":
                self.at += 2 if self.text.startswith("[[", self.at) else 1
                table = self._key(())
                self.at = self._end_of_line()
            else:
                self._pair(table)
        return self.found

    def _line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def _end_of_line(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end + 1

    def _skip_blank_lines(self) -> bool:
        """Go to the next character that is no blank or comment; return False at the end."""
        while self.at < len(self.text):
            if self.text[self.at] in " \t\r\n":
                self.at += 1
            elif self.text[self.at] == "#":
                self.at = self._end_of_line()
            else:
                return True
        return False

    def _key(self, table: Path) -> Path:
        """Read a dotted key, note each of its parts, and return its path."""
        path = table
        while True:
            self.at = self._blank()
            if self.text[self.at] in "\"'":
                start = self.at
                self._string()
                segment = self.text[start + 1 : self.at - 1]
            else:
                match = _BARE.match(self.text, self.at)
                segment = match.group() if match else ""
                self.at += max(len(segment), 1)
            path = (*path, segment)
            self.found.setdefault(path, self._line())
            self.at = self._blank()
            if not self.text.startswith(".", self.at):
                return path
            self.at += 1

    def _blank(self) -> int:
        match = _BLANK.match(self.text, self.at)
        return match.end() if match else self.at

    def _pair(self, table: Path) -> None:
        path = self._key(table)
        self.at = self._blank() + 1  # the equals sign
        self.at = self._blank()
        self._value(path)

    def _value(self, path: Path) -> None:
        # tomllib has accepted the text, so the first character tells the kind of value.
        start = self.text[self.at : self.at + 1]
        if start in {'"', "'"}:
            self._string()
        elif start == "[":
            self._items(path, "]")
        elif start == "{":
            self._items(path, "}")
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}\n#":
                self.at += 1

    def _items(self, path: Path, closing: str) -> None:
        """Walk an array or an inline table; the path of an array's item ends in its index."""
        self.at += 1
        index = 0
        while self._skip_blank_lines() and self.text[self.at] != closing:
            if self.text[self.at] == ",":
                self.at += 1
            elif closing == "}":
                self._pair(path)
            else:
                item_path = (*path, str(index))
                self.found.setdefault(item_path, self._line())
                self._value(item_path)
                index += 1
        self.at += 1

    def _string(self) -> None:
        quote = self.text[self.at]
        if self.text.startswith(quote * 3, self.at):
            self.at += 3
            while self.at < len(self.text) and not self.text.startswith(quote * 3, self.at):
                self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
            self.at += 3
            while self.text.startswith(quote, self.at):  # a long string may end in one or two quotes of its own
                self.at += 1
            return
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != quote:
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += 1


class PolicyError(HushError):
    """A mistake in hush.toml: its place, its kind, and a remedy."""

    code = "policy"

    def __init__(self, file: str, line: int | None, problem: str, hint: str = "") -> None:
        self.file = file
        self.line = line
        self.what = problem
        self.hint = hint
        location = file if line is None else f"{file}:{line}"
        super().__init__(f"{location}: {problem} {hint}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.file, self.line, self.what, self.hint))
