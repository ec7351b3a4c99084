"""The errors of engines: an analyst sees the same text for every failure.

Whatever the engine complains about may tell of a row, so its words go to the owner's log and the analyst reads one
public sentence. That log is the logger ``hush`` at the level DEBUG: it is silent wherever nobody turned it on, since
what runs where an analyst sees its messages must not say more to them than its answers do.
"""

from __future__ import annotations

import logging
from typing import ClassVar

from hush.core import HushError

log = logging.getLogger("hush.engines")
"""For DEBUG alone."""


class EngineError(HushError):
    """The engine could not compute the answer; the question stays charged."""

    code: ClassVar[str] = "engine"
    exit_status: ClassVar[int] = 2

    def __init__(self) -> None:
        super().__init__("the engine could not compute this answer; its reason is in the owner's log, not here")


class SourceError(HushError):
    """A table's source cannot be read; found by the owner, before any question."""

    code: ClassVar[str] = "source"

    def __init__(self, message: str, *, table: str | None = None) -> None:
        self.table = table
        """The table of the source, where it is known."""
        super().__init__(message)
