"""Where entries lie: SQLite in a file or in memory, PostgreSQL by URL."""

from __future__ import annotations

import os
from pathlib import Path

from hush.core import InvalidValueError
from hush.ledger.stores.base import Store
from hush.ledger.stores.sqlite import SQLiteStore

__all__ = ["SQLiteStore", "Store", "open_store", "spellings"]


def spellings(url: str | Path) -> tuple[str, ...]:
    """Return the names of a place: its own first, without links and detours, then the one that was written.

    >>> spellings("/srv/clinic/../clinic/hush.ledger")
    ('/srv/clinic/hush.ledger', '/srv/clinic/../clinic/hush.ledger')
    """
    if isinstance(url, str) and url.startswith(("postgresql://", "postgres://")):
        from hush.ledger.stores.postgresql import without_password

        return (without_password(url),)
    if url == ":memory:":
        return ("memory",)
    return tuple(dict.fromkeys((os.path.realpath(url), str(Path(url).absolute()))))


def open_store(url: str | Path, *, create: bool) -> Store:
    """Return the store at a path, at ``:memory:`` or at a ``postgresql://`` URL."""
    if isinstance(url, str) and url.startswith(("postgresql://", "postgres://")):
        from hush.ledger.stores.postgresql import PostgreSQLStore

        return PostgreSQLStore(url)
    if isinstance(url, str) and "://" in url:
        raise InvalidValueError("ledger", got=url.split("://")[0] + "://…", allowed="a path or a postgresql:// URL")
    if url == ":memory:":
        return SQLiteStore(None)
    return SQLiteStore(Path(url).absolute(), create=create)
