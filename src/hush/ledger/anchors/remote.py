"""Anchors that somebody else keeps: a table of another PostgreSQL database, or a command that the owner supplies.

``postgresql://host/database#name`` is one mark for all hosts that share a ledger. The name tells several ledgers'
anchors apart (by default ``hush``). Give the ledger's and the anchor's database to different administrators, or the
anchor shows no more than the ledger does.

``command:PROGRAM ARGUMENT…`` (a notary, a write-once store, a colleague's server) is run without a shell as

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
from hush.ledger.stores.postgresql import PostgreSQLStore

_CREATE = "CREATE TABLE IF NOT EXISTS hush_anchors (name TEXT PRIMARY KEY, mark TEXT NOT NULL)"


class TableAnchor(Anchor):
    """A mark in a row."""

    def __init__(self, url: str) -> None:
        base, _, name = url.partition("#")
        self._name = name or "hush"
        self._store = PostgreSQLStore(base)
        self.place = f"{self._store.place}#{self._name}"
        self._made = False

    def read(self) -> Mark | None:
        """Return the row's mark."""
        self._store.ready()
        if self._store.run("SELECT to_regclass('hush_anchors') IS NULL")[0][0]:
            return None
        rows = self._store.run("SELECT mark FROM hush_anchors WHERE name = ?", (self._name,))
        if not rows:
            return None
        try:
            content: Any = json.loads(rows[0][0])
        except ValueError as error:
            raise unreadable(self.place) from error
        return Mark.from_json(content, self.place)

    def write(self, mark: Mark) -> None:
        """Replace the row; the statement commits by itself, durably."""
        self._store.ready()
        text = canonical(mark.to_json()).decode()
        if not self._made:
            # IF NOT EXISTS alone fails where two sessions say it at once.
            self._store.run("SELECT pg_advisory_lock(hashtext('hush anchors'))")
            try:
                self._store.change(_CREATE)
            finally:
                self._store.run("SELECT pg_advisory_unlock(hashtext('hush anchors'))")
            self._made = True
        if not self._store.change("UPDATE hush_anchors SET mark = ? WHERE name = ?", (text, self._name)):
            self._store.change("INSERT INTO hush_anchors (mark, name) VALUES (?, ?)", (text, self._name))

    def close(self) -> None:
        """Close the connection."""
        self._store.close()


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
