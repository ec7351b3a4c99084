"""Where the state of a service lies, for all its workers: a SQLite file, or a PostgreSQL database for several hosts.

Both speak the same SQL here, with ``?`` for values. A change holds one lock over all processes (SQLite's write lock,
or an advisory lock of the database), so what it reads is still so when it writes. Nothing is kept in memory: what one
worker revokes is revoked for all of them with their next request.

>>> storage = open_storage(":memory:", ["CREATE TABLE names (name TEXT PRIMARY KEY)"], durable=True)
>>> with storage.changing():
...     storage.change("INSERT INTO names VALUES (?)", "alice")
1
>>> storage.rows("SELECT name FROM names")
[('alice',)]
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hush.ledger.stores.postgresql import driver, without_password
from hush.server.errors import StorageError

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger("hush.server")
_WAIT = 10.0
"""How long a change waits for those of others, in seconds."""


def in_database(place: str | Path) -> bool:
    """Return whether a place is a PostgreSQL database.

    >>> in_database("postgresql://host/hush"), in_database("hush.people")
    (True, False)
    """
    return str(place).startswith(("postgresql://", "postgres://"))


def open_storage(place: str | Path, schema: Sequence[str], *, durable: bool) -> Storage:
    """Open a SQLite file that only this account can read, or a database, and make what tables it lacks."""
    if in_database(place):
        return DatabaseStorage(str(place), schema, durable=durable)
    return FileStorage(place, schema, durable=durable)


def _unreachable(place: str, error: Exception) -> StorageError:
    """Return the error that whoever asks sees; the log says what is wrong, without the text of the driver."""
    log.warning("the state of the service at %s cannot be reached: %s", place, type(error).__name__)
    return StorageError(place, type(error).__name__)


class TakenError(Exception):
    """A row breaks a rule of its table: a name that is taken, or a person who is not there."""


class Storage(ABC):
    """Tables that all workers share. Use it from any thread."""

    place: str
    """What may be shown of where it lies."""
    _types: Mapping[str, str] = MappingProxyType({})
    """The words of the schema that differ."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @abstractmethod
    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement: outside of a change, as they are now."""

    @abstractmethod
    def change(self, statement: str, *values: Any) -> int:
        """Change rows, and return how many."""

    @abstractmethod
    def changing(self) -> Any:
        """Keep everybody else from changing anything while the context lasts; all of its changes hold, or none."""

    def make(self, schema: Sequence[str]) -> None:
        """Make tables that are not there yet, inside of a change."""
        for statement in schema:
            self.change(statement.format(**self._types))

    @abstractmethod
    def close(self) -> None:
        """Let go of the file or the connection."""


class FileStorage(Storage):
    """Tables in a SQLite file."""

    _types: Mapping[str, str] = MappingProxyType({"blob": "BLOB", "real": "REAL", "serial": "INTEGER", "kept": ""})

    def __init__(self, place: str | Path, schema: Sequence[str], *, durable: bool) -> None:
        super().__init__()
        self.place = str(place)
        if self.place != ":memory:":
            os.close(os.open(place, os.O_RDWR | os.O_CREAT, 0o600))
        self._connection = sqlite3.connect(place, isolation_level=None, check_same_thread=False, timeout=_WAIT)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        self._connection.execute("PRAGMA foreign_keys = ON")
        with self.changing():
            self.make(schema)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with self._lock, self._told():
            return self._connection.execute(statement, values).fetchall()

    def change(self, statement: str, *values: Any) -> int:
        """Change rows, and return how many."""
        with self._lock, self._told():
            return self._connection.execute(statement, values).rowcount

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise TakenError from error
        except sqlite3.OperationalError as error:
            raise _unreachable(self.place, error) from error

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the file's write lock."""
        with self._lock:
            self.change("BEGIN IMMEDIATE")
            try:
                yield
                self.change("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()


class DatabaseStorage(Storage):
    """Tables in a PostgreSQL database, in the schema that the search path names first."""

    _types: Mapping[str, str] = MappingProxyType(
        {"blob": "BYTEA", "real": "DOUBLE PRECISION", "serial": "BIGSERIAL", "kept": ""}
    )

    def __init__(self, url: str, schema: Sequence[str], *, durable: bool) -> None:
        super().__init__()
        self.place = without_password(url)
        self._url, self._durable = url, durable
        self._in_change = False
        self._driver = driver()
        self._connection = self._connected()
        if not durable:
            self._types = {**self._types, "kept": "UNLOGGED"}
        with self.changing():
            self.make(schema)

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        with self._told():
            connection = self._driver.connect(self._url, autocommit=True, connect_timeout=10, client_encoding="utf8")
            connection.execute(f"SET lock_timeout = '{_WAIT:g}s'")
            connection.execute("SET idle_in_transaction_session_timeout = '60s'")
            connection.execute("SET client_min_messages = warning")
            connection.execute(f"SET synchronous_commit = {'on' if self._durable else 'off'}")
        return connection  # type: ignore[no-any-return]

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._driver.IntegrityError as error:
            raise TakenError from error
        except self._driver.Error as error:
            raise _unreachable(self.place, error) from error

    def _run(self, statement: str, values: Sequence[Any]) -> Any:
        """Run a statement; where the connection turns out to be broken, on a new one."""
        written: Any = statement.replace("?", "%s")
        with self._told():
            try:
                return self._connection.execute(written, values)
            except self._driver.OperationalError:
                if self._in_change or not self._connection.closed:
                    raise
            self._connection = self._connected()
            return self._connection.execute(written, values)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with self._lock:
            return self._run(statement, values).fetchall()  # type: ignore[no-any-return]

    def change(self, statement: str, *values: Any) -> int:
        """Change rows, and return how many."""
        with self._lock:
            return int(self._run(statement, values).rowcount)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold an advisory lock of the database, for the tables of this schema."""
        with self._lock:
            self._run("SELECT 1", ())  # a connection that broke is found out before anything is changed
            self._in_change = True
            try:
                with self._told(), self._connection.transaction():
                    self._run("SELECT pg_advisory_xact_lock(hashtext(? || current_schema()))", (str(self._durable),))
                    yield
            finally:
                self._in_change = False

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._connection.close()
