"""Errors of the owner's policy file, and of a curator itself.

::

    HushError
    ├── PolicyError     hush.toml cannot be used; the message starts with file:line
    ├── ClosedError     the curator was closed
    └── ForkedError     the curator was in use when this process was forked off
"""

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


class ClosedError(HushError):
    """The curator was closed, by ``close()`` or at the end of its ``with`` block."""

    code = "closed"

    def __init__(self) -> None:
        super().__init__("This curator is closed. Open another with hush.open or hush.protect.")


class ForkedError(HushError):
    """Another thread was using the curator when this process was forked off; its engine stayed with the parent."""

    code = "forked"

    def __init__(self) -> None:
        super().__init__(
            "This curator was in use by another thread when this process was forked off, and its engine stayed behind. "
            "Open another one here, with hush.open or hush.protect."
        )
