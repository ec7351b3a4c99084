"""Errors of a curator itself.

::

    HushError
    ├── ClosedError     the curator was closed
    └── ForkedError     the curator was in use when this process was forked off
"""

from __future__ import annotations

from hush.core import HushError


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
