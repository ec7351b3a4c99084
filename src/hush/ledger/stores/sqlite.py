"""The ledger in one SQLite file.

*Durable*: a write-ahead log with ``synchronous=FULL``: a commit returns after the log, with its checksums, has been
forced to the disk. Directory entries are forced too: SQLite does so for its log, and the ledger's own file is created
by hand. Where a file system cannot hold a write-ahead log SQLite falls back on its rollback journal, as durable and
slower.

*One at a time*: ``BEGIN IMMEDIATE`` takes the write lock before anything is read, so no writer decides on stale
figures.

*The right file*: a file that was moved away or replaced while it was open would silently take charges that nobody reads
again, so each use compares the file's identity with the one that was opened. A connection does not survive a fork; the
child opens its own.

SQLite locks do not work on most network file systems: several hosts share a ledger on PostgreSQL.
"""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from hush.ledger.errors import (
    RESTORE,
    LedgerBusyError,
    LedgerDamagedError,
    LedgerError,
    LedgerMissingError,
    LedgerUnavailableError,
    missing,
)
from hush.ledger.stores.base import Store
from hush.ledger.system import sync_directory

_WAIT = 30.0
_PAUSE = 0.01
_BATCH = 1000
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_FAILED = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_NOLFS,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_TOOBIG,
}


class SQLiteStore(Store):
    """Entries in a file, or in memory when ``path`` is None."""

    blob: ClassVar[str] = "BLOB"
    integer: ClassVar[str] = "INTEGER"

    def __init__(self, path: Path | None, *, create: bool = False, wait: float = _WAIT) -> None:
        self._path = path
        self._wait = wait
        # The path itself is kept as it was written: a link that is turned elsewhere while it is open is noticed.
        self.place = "memory" if path is None else os.path.realpath(path)
        if path is not None and not path.exists():
            if not create:
                raise LedgerMissingError(missing(str(path)))
            _touch(path)
        self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        self._pid = os.getpid()
        with self._translated():
            connection = sqlite3.connect(
                ":memory:" if self._path is None else self._path,
                isolation_level=None,
                timeout=self._wait,
                check_same_thread=False,
                cached_statements=64,
            )
            try:
                self._file = self._identity()
                connection.text_factory = bytes
                if self._path is not None:
                    _write_ahead(connection, self._wait)
                # With a rollback journal EXTRA also forces the removal of the journal; with a log it means FULL.
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA fullfsync = ON")  # where fsync alone does not reach the disk (macOS)
                connection.execute("PRAGMA checkpoint_fullfsync = ON")
                connection.execute("PRAGMA trusted_schema = OFF")  # nobody's triggers or functions run
                connection.execute("PRAGMA cell_size_check = ON")
            except BaseException:
                connection.close()
                raise
        self._end = weakref.finalize(self, _let_go, connection, self._pid)
        return connection

    def _identity(self) -> tuple[int, int]:
        if self._path is None:
            return (0, 0)
        found = self._path.stat()
        return (found.st_dev, found.st_ino)

    def ready(self) -> None:
        """Refuse a file that is not the one that was opened; after a fork, connect afresh."""
        if self._pid != os.getpid():
            if self._path is None:
                raise LedgerError(
                    "A ledger in memory stays with the process that made it; open one on disk to share it."
                )
            # The parent's connection must not be closed here: closing would drop the parent's locks on the file.
            self._inherited = self._connection
            self._connection = self._connect()
        try:
            same = self._identity() == self._file
        except OSError:
            same = False
        if not same:
            raise LedgerDamagedError(f"The ledger at {self.place} was moved or replaced while it was open. {RESTORE}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = _code(error)
            if code in _BUSY:
                raise LedgerBusyError(
                    f"The ledger at {self.place} was locked for more than {self._wait:g} s. Try again."
                ) from error
            if code in _FAILED:
                raise LedgerUnavailableError(
                    f"The ledger at {self.place} could not be read or written ({error}). Nothing is granted. Check the "
                    "disk (space, rights), then try again."
                ) from error
            raise LedgerDamagedError(
                f"The ledger at {self.place} is not readable as a ledger ({error}). No budget is given out. {RESTORE}"
            ) from error
        except (UnicodeDecodeError, OverflowError, MemoryError) as error:  # what damage can do to the driver itself
            raise LedgerDamagedError(f"The ledger at {self.place} is not readable as a ledger. {RESTORE}") from error
        except OSError as error:
            raise LedgerUnavailableError(f"The ledger at {self.place} could not be opened ({error}).") from error

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        with self._translated():
            return self._connection.execute(sql, parameters).fetchall()

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        with self._translated():
            return self._connection.execute(sql, parameters).rowcount

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Generator[tuple[Any, ...]]:
        """Run a query and yield its rows."""
        with self._translated():
            cursor = self._connection.execute(sql, parameters)
        try:
            while True:
                with self._translated():
                    rows = cursor.fetchmany(_BATCH)
                if not rows:
                    return
                yield from rows
        finally:  # also when the reader stops early
            with suppress(sqlite3.Error):
                cursor.close()

    def lock(self) -> None:
        """Take the write lock."""
        self.run("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Force the transaction to the disk."""
        self.run("COMMIT")

    def rollback(self) -> None:
        """Forget the transaction, if one is open."""
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file; the last one out folds the log into it."""
        self._end()

    def exists(self) -> bool:
        """Say whether the tables are there."""
        return bool(self.run("SELECT 1 FROM sqlite_master WHERE name = 'hush_entries'"))


def _let_go(connection: sqlite3.Connection, pid: int) -> None:
    """Close a connection, also that of a ledger that nobody closed; but not one that a fork inherited."""
    if pid == os.getpid():
        with suppress(sqlite3.Error):
            connection.close()


def _touch(path: Path) -> None:
    """Create an empty file that only its owner can read, and force its name into the directory."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        sync_directory(path.parent)
    except OSError as error:
        raise LedgerUnavailableError(f"A ledger could not be made at {path} ({error.strerror}).") from error


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def _write_ahead(connection: sqlite3.Connection, wait: float) -> None:
    """Have changes written to a log first.

    Where several processes do this to a new file at once, SQLite does not wait for the others as it does elsewhere, but
    says that the file is busy.
    """
    until = time.monotonic() + wait
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > until:
                raise
            time.sleep(_PAUSE)
        else:
            return
