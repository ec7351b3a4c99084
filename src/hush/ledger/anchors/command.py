"""An anchor behind a command that the owner supplies: a notary, a write-once store, a colleague's server.

``command:PROGRAM ARGUMENT…`` is run without a shell as

* ``PROGRAM ARGUMENT… get``: print the mark that was last set, one line of JSON, or nothing if there is none; exit 0.
* ``PROGRAM ARGUMENT… set``: read one line of JSON from standard input, keep it durably, then exit 0.

The mark's fields are ``ledger``, ``before`` and ``entry``; ``entry.number`` counts up. Calls never overlap: they are
made under the ledger's lock. A command that wants to guard by itself refuses a ``set`` whose number is below the one
it has, for the same ledger. An exit status other than 0, or no answer within ten seconds, counts as a failure:
nothing is granted.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

from hush.core import InvalidValueError
from hush.ledger.anchors.base import Anchor, Mark, unreadable
from hush.ledger.entries import canonical
from hush.ledger.errors import LedgerUnavailableError

_SECONDS = 10


class CommandAnchor(Anchor):
    """A mark that somebody else keeps."""

    def __init__(self, url: str) -> None:
        self._command = shlex.split(url.removeprefix("command:"))
        if not self._command:
            raise InvalidValueError("anchor", got=url, allowed="command: followed by a program")
        self.place = url

    def _run(self, verb: str, text: bytes = b"") -> bytes:
        try:
            done = subprocess.run(
                [*self._command, verb], input=text, stdout=subprocess.PIPE, check=True, timeout=_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise LedgerUnavailableError(
                f"The anchor's command {self._command[0]!r} failed to {verb} the mark ({error}). Nothing is granted."
            ) from error
        return done.stdout

    def read(self) -> Mark | None:
        """Ask for the mark."""
        line = self._run("get").strip()
        if not line:
            return None
        try:
            content: Any = json.loads(line)
        except ValueError as error:
            raise unreadable(self.place) from error
        return Mark.from_json(content, self.place)

    def write(self, mark: Mark) -> None:
        """Hand the mark over."""
        self._run("set", canonical(mark.to_json()) + b"\n")
