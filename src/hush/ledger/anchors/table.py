"""An anchor in a table of another PostgreSQL database: one mark for all hosts that share a ledger.

``postgresql://host/database#name``: the name tells several ledgers' anchors apart (by default ``hush``). Give the
ledger's and the anchor's database to different administrators, or the anchor shows no more than the ledger does.
"""

from __future__ import annotations

import json
from typing import Any

from hush.ledger.anchors.base import Anchor, Mark, unreadable
from hush.ledger.entries import canonical
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
