r"""The text of a policy: sections, keys with their lines, and errors that point to them.

The standard library's parser does not tell where a key stands. `locate` goes through text that ``tomllib`` has already
accepted, so it needs to know only where keys, strings and brackets begin and end, not what is allowed.

>>> locate('[data.clinic]\nunit = "patient_id"\nbudget = { epsilon = 1 }')[("data", "clinic", "budget", "epsilon")]
3
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from hush.core import HushError, InvalidValueError
from hush.core.errors import shown
from hush.core.numbers import exact
from hush.query.errors import QuestionError, did_you_mean

STREAM_SECTIONS = ("streams", "standing")
"""The name of the section of declared streams: today, and before."""
Path = tuple[str, ...]
T = TypeVar("T")
K = TypeVar("K")
_TOKEN = re.compile(
    r'''"""(?:\\[\s\S]|[^\\])*?"""(?:"{0,2})|\'\'\'[\s\S]*?\'\'\'(?:'{0,2})|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|'''  # texts
    r"""#[^\n]*|\n|[\[\]{}=,.]|[^\s"'#\[\]{}=,.]+"""
)


@dataclass(frozen=True)
class Document:
    """The file: its name for messages, and its text. Arguments of `protect` and answers have no file."""

    file: str = ""
    text: str = ""
    mistakes: list[HushError] | None = None
    """The list that collects mistakes; None if the first one is raised."""

    @cached_property
    def lines(self) -> Mapping[Path, int]:
        """The line of each key, which messages alone need."""
        return locate(self.text)

    def note(self, mistake: HushError) -> None:
        """Raise a mistake, unless mistakes are collected."""
        if self.mistakes is None:
            raise mistake
        self.mistakes.append(mistake)

    def each(self, entries: Iterable[tuple[str, K]], read: Callable[[str, K], T]) -> dict[str, T]:
        """Return the result of ``read`` by key; if mistakes are collected, keys with a mistake are left out."""
        results: dict[str, T] = {}
        for key, value in entries:
            try:
                results[key] = read(key, value)
            except PolicyError as error:
                self.note(error)
        return results

    def error(self, path: Path, problem: str, hint: str = "") -> HushError:
        """Return an error at a key, or at the nearest one above it."""
        if not self.file:  # words in no file begin a sentence, unless they begin with the column's name
            return QuestionError(problem if problem.startswith(path[0]) else problem[:1].upper() + problem[1:], hint)
        return PolicyError(self.file, self._line(path), problem, hint)

    def place(self, path: Path) -> str:
        """Return the place of a key, or of the nearest one above it: ``hush.toml:3``."""
        line = self._line(path)
        return self.file if line is None else f"{self.file}:{line}"

    def _line(self, path: Path) -> int | None:
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the file. If mistakes are collected, a value with a mistake is read as its default."""

    document: Document
    path: Path
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The dotted name, for messages."""
        return ".".join(self.path)

    def error(self, key: str | None, problem: str, hint: str = "") -> HushError:
        """Return an error at one of the section's keys, or at the section."""
        return self.document.error(self.path if key is None else (*self.path, key), problem, hint)

    def wrong(self, key: str, allowed: str, hint: str = "") -> HushError:
        """Return an error about a value that is not allowed."""
        subject = ".".join((*self.path, key))
        return self.error(key, f"{subject} must be {allowed}; got {shown(self.values.get(key))}.", hint)

    def only(self, allowed: Iterable[str]) -> None:
        """Refuse keys that nobody reads: a misspelt bound must not be passed over."""
        allowed = list(allowed)
        for key in self.values:
            if key not in allowed:
                hint = did_you_mean(key, allowed, otherwise=f"Allowed are {', '.join(allowed)}.")
                self.document.note(self.error(key, f"unknown key '{key}' in {self.name or 'the file'}.", hint))

    def check_names(self, noun: str, longest: int) -> None:
        """Refuse keys that are no names, or differ in case alone."""
        spellings: dict[str, str] = {}
        for key in self.values:
            if (twin := spellings.setdefault(key.casefold(), key)) != key:
                problem = f"'{key}' and '{twin}' differ in case alone."
                self.document.note(self.error(key, problem, "Rename one of them."))
            if not key.strip() or not key.isprintable() or len(key) > longest:
                self.document.note(self.error(key, f"{noun} must be 1 to {longest} printable characters."))

    def section(self, key: str) -> Section:
        """Return a section inside this one; empty if it is not there."""
        path, values = (*self.path, key), self.values.get(key, {})
        if not isinstance(values, Mapping):
            self.document.note(self.wrong(key, "a table"))
            values = {}
        return Section(self.document, path, values)

    def sections(self, key: str) -> list[tuple[str, Section]]:
        """Return all sections inside one that is inside this one, by name."""
        outer = self.section(key)
        outer.check_names("a name", 100)
        return [(name, outer.section(name)) for name in outer.values]

    def holds(self, key: str, *, good: bool, allowed: str, hint: str = "") -> bool:
        """Return whether a value is good, and note a mistake if not."""
        if not good:
            self.document.note(self.wrong(key, allowed, hint))
        return good

    def text(self, key: str, *, hint: str = "") -> str | None:
        """Return text that is not empty."""
        value = self.values.get(key)
        good = value is None or (isinstance(value, str) and bool(value.strip()))
        good = self.holds(key, good=good, allowed="text that is not empty", hint=hint)
        return str(value).strip() if good and value is not None else None

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.values.get(key, default)
        return value if self.holds(key, good=isinstance(value, bool), allowed="true or false") else default

    def whole(self, key: str, default: int, *, maximum: int, hint: str) -> int:
        """Return a whole number from 1 to ``maximum``."""
        value, allowed = self.values.get(key, default), f"a whole number from 1 to {maximum}"
        good = type(value) is int and 1 <= value <= maximum
        return value if self.holds(key, good=good, allowed=allowed, hint=hint) else default

    def parsed(self, key: str, parse: Callable[[Any], T], default: T) -> T:
        """Return the value that ``parse`` reads; its refusal becomes a mistake at the key."""
        if key in self.values:
            try:
                return parse(self.values[key])
            except InvalidValueError as error:
                self.document.note(self.wrong(key, error.allowed, error.hint))
        return default

    def number(self, key: str, allowed: str, holds: Callable[[Fraction], bool]) -> Fraction | None:
        """Return an exact number, written as a number or as text, for which ``holds`` is true."""

        def read(value: object) -> Fraction:
            number = exact(value, key, allowed=allowed)
            if not holds(number):
                raise InvalidValueError(key, got=value, allowed=allowed)
            return number

        return self.parsed(key, read, None)


def locate(text: str) -> dict[Path, int]:
    """Return the line (from 1) on which each key, table header or item of an array first stands."""
    lines: dict[Path, int] = {}
    table: Path = ()
    path: Path = ()
    naming, line = True, 1  # whether keys are read, and not values
    outer: list[tuple[Path, int]] = []  # open arrays, with the number of the item that comes; -1 for inline tables
    for match in _TOKEN.finditer(text):
        word = match.group()
        if word == "\n":
            line += 1
            if not outer:
                path, naming = table, True
            continue
        if outer and outer[-1][1] >= 0 and word[0] not in ",]#":  # an item of an array has a path of its own
            path = (*outer[-1][0], str(outer[-1][1]))
            lines.setdefault(path, line)
        if word == "[" and naming and not outer:
            path = ()  # a header
        elif word in {"[", "{"}:
            outer.append((path, 0 if word == "[" else -1))
            naming = word == "{"
        elif word in {"]", "}"}:
            if outer:
                outer.pop()
            else:
                table = path
            naming = False
        elif word == ",":
            path, number = outer[-1]
            outer[-1] = path, number + 1 if number >= 0 else number
            naming = number < 0
        elif word == "=":
            naming = False
        elif naming and word != "." and word[0] != "#":
            path = (*path, word[1:-1] if word[0] in "\"'" else word)
            lines.setdefault(path, line)
        line += word.count("\n")
    return lines


class PolicyError(HushError):
    """A mistake in hush.toml: its place, its kind, and a remedy."""

    def __init__(self, file: str, line: int | None, problem: str, hint: str = "") -> None:
        self.file = file
        self.line = line
        self.what = problem
        self.hint = hint
        location = file if line is None else f"{file}:{line}"
        super().__init__(f"{location}: {problem} {hint}".rstrip())
