r"""Where each key of a TOML text stands, which the standard library's parser does not tell.

`locate` walks text that ``tomllib`` has already accepted, so it needs to know only where keys, strings and brackets
begin and end, not what is allowed.

>>> locate('[data.clinic]\nunit = "patient_id"\nbudget = { epsilon = 1 }')[("data", "clinic", "budget", "epsilon")]
3
"""

from __future__ import annotations

import re

Path = tuple[str, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"[ \t]*")


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
        """Go to the next character that says something; False at the end."""
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
                part = self.text[start + 1 : self.at - 1]
            else:
                match = _BARE.match(self.text, self.at)
                part = match.group() if match else ""
                self.at += max(len(part), 1)
            path = (*path, part)
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
        """Walk an array or an inline table; an item of an array is found under its place."""
        self.at += 1
        place = 0
        while self._skip_blank_lines() and self.text[self.at] != closing:
            if self.text[self.at] == ",":
                self.at += 1
            elif closing == "}":
                self._pair(path)
            else:
                item = (*path, str(place))
                self.found.setdefault(item, self._line())
                self._value(item)
                place += 1
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
