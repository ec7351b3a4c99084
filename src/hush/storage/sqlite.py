"""Tables in one SQLite file.

*Durable*: a write-ahead log with ``synchronous=FULL``: a commit returns after the log, with its checksums, has been
forced to the disk. Directory entries are forced too: SQLite does so for its log, and the file itself is created by
hand. Where a file system cannot hold a write-ahead log SQLite falls back on its rollback journal, as durable and
slower.

*One at a time*: ``BEGIN IMMEDIATE`` takes the write lock before anything is read, so no writer decides on stale
figures.

*The right file*: a file that was moved away or replaced while it was open would silently take rows that nobody reads
again; `SQLiteStorage.ready` compares the file's identity with the one that was opened. A connection does not survive a
fork; the child opens its own.

SQLite locks do not work on most network file systems: several hosts share tables on PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hush.storage import Kind, Options, Storage, sync_directory

_PAUSE = 0.01
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
"""What says nothing of the tables; every other failure may be damage, also one of the driver itself."""


class SQLiteStorage(Storage):
    """Tables in a file, or in memory when ``path`` is None."""

    types: Mapping[str, str] = MappingProxyType(
        {"blob": "BLOB", "integer": "INTEGER", "real": "REAL", "serial": "INTEGER", "kept": ""}
    )

    def __init__(self, path: Path | None, options: Options) -> None:
        # The path itself is kept as it was written: a link that is turned elsewhere while it is open is noticed.
        self._path = path
        super().__init__("memory" if path is None else os.path.realpath(path), options)
        if path is not None and not path.exists():
            with self._translated():  # an empty file that only its owner can read, and its name in the directory
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
                sync_directory(path.parent)
        self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        self._pid = os.getpid()
        wait = self.options.wait
        with self._translated():
            connection = sqlite3.connect(
                ":memory:" if self._path is None else self._path,
                isolation_level=None,
                timeout=wait,
                check_same_thread=False,
                cached_statements=64,
            )
            try:
                self._file = self._identity()
                if self.options.raw:
                    connection.text_factory = bytes
                if self._path is not None:
                    _write_ahead(connection, wait)
                # With a rollback journal EXTRA also forces the removal of the journal; with a log it means FULL.
                connection.execute(f"PRAGMA synchronous = {'EXTRA' if self.options.durable else 'OFF'}")
                connection.execute("PRAGMA fullfsync = ON")  # where fsync alone does not reach the disk (macOS)
                connection.execute("PRAGMA checkpoint_fullfsync = ON")
                connection.execute("PRAGMA trusted_schema = OFF")  # nobody's triggers or functions run
                connection.execute("PRAGMA cell_size_check = ON")
                connection.execute("PRAGMA foreign_keys = ON")
            except BaseException:
                connection.close()
                raise
        self._end = weakref.finalize(self, _let_go, connection, self._pid)
        return connection

    def _identity(self) -> tuple[int, int] | None:
        status = None if self._path is None else self._path.stat()
        return None if status is None else (status.st_dev, status.st_ino)

    def ready(self) -> None:
        """Connect afresh after a fork; refuse a file that is not the one that was opened."""
        if self._pid != os.getpid():
            if self._path is None:
                error = RuntimeError("a store in memory stays with the process that made it; open a file to share it")
                raise self.options.failure("unavailable", self.place, error)
            # The parent's connection must not be closed here: closing would drop the parent's locks on the file.
            self._inherited = self._connection
            self._connection = self._connect()
        try:
            same = self._identity() == self._file
        except OSError:
            same = False
        if not same:
            replaced = RuntimeError("the file was moved or replaced while it was open")
            raise self.options.failure("damaged", self.place, replaced)

    def free_bytes(self) -> int | None:
        if self._path is None:
            return None
        return shutil.disk_usage(os.path.dirname(self.place)).free  # noqa: PTH120 - it is text

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError, OSError) as error:
            kind: Kind = "damaged"
            code = _code(error)
            if code in _BUSY:
                kind = "busy"
            elif code == sqlite3.SQLITE_CONSTRAINT:
                kind = "conflict"
            elif code in _FAILED or isinstance(error, OSError):
                kind = "unavailable"
            raise self.options.failure(kind, self.place, error) from error

    def _run(self, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    @contextmanager
    def _open_cursor(self, statement: str, values: tuple[Any, ...]) -> Iterator[sqlite3.Cursor]:
        with self._translated():
            cursor = self._run(statement, values)
        try:
            yield cursor
        finally:  # also when the reader stops early, or the storage was closed before
            with suppress(sqlite3.Error):
                cursor.close()

    def begin(self) -> None:
        self.change("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.change("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file; the last one out folds the log into it."""
        with self.mutex:
            self._end()

    def columns(self, table: str) -> set[str]:
        # As bytes, since a store may read its texts so; and a damaged name is none of ours.
        rows = self.rows("SELECT CAST(name AS BLOB) FROM pragma_table_info(?)", table)
        return {name.decode(errors="replace") for (name,) in rows}


def _let_go(connection: sqlite3.Connection, pid: int) -> None:
    """Close a connection, also one that nobody closed; but not one that a fork inherited."""
    if pid == os.getpid():
        with suppress(sqlite3.Error):
            connection.close()


def _code(error: Exception) -> int | None:
    if not isinstance(error, sqlite3.Error):
        return None
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
