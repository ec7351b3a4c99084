"""The error of a policy: hush.toml cannot be used. The message starts with file:line."""

from __future__ import annotations

from hush.core import HushError


class PolicyError(HushError):
    """Something in hush.toml is not allowed: where, what, and what to write instead."""

    code = "policy"

    def __init__(self, file: str, line: int | None, what: str, hint: str = "") -> None:
        self.file = file
        self.line = line
        self.what = what
        self.hint = hint
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {what} {hint}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.file, self.line, self.what, self.hint))
