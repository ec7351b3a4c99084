"""Where the state of a service lies, for all its workers: tables of `hush.storage`, and the error when they fail.

>>> storage = open_storage(":memory:", ["CREATE TABLE names (name TEXT PRIMARY KEY)"], durable=True)
>>> with storage.changing():
...     storage.change("INSERT INTO names VALUES (?)", "alice")
1
>>> storage.rows("SELECT name FROM names")
[('alice',)]
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from hush import storage
from hush.server.errors import StorageError
from hush.storage import Storage

__all__ = ["Storage", "open_storage"]

log = logging.getLogger("hush.server")


def open_storage(place: str | Path, schema: Sequence[str], *, durable: bool) -> Storage:
    """Open a SQLite file that only this account can read, or a database, and make the tables that it lacks."""
    opened = storage.open_storage(place, storage.Options(lock=str(durable), durable=durable, failure=_failure))
    with opened.changing():
        opened.make(schema)
    return opened


def _failure(kind: storage.Kind, place: str, error: Exception) -> Exception:
    """Return the error for analysts, and log its type without the text of the driver."""
    if kind == "conflict":
        return storage.ConflictError()
    log.warning("the state of the service at %s cannot be reached: %s", place, type(error).__name__)
    return StorageError(place, type(error).__name__)
