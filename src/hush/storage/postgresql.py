"""Tables in a PostgreSQL database, for several hosts, in the schema that the search path names first.

Writers queue on a lock at READ COMMITTED, so a writer that gets it sees everything committed before. Durable commits
wait for the disk: a session with ``synchronous_commit`` off or local is set to on. A client that stops answering with
the lock in its hands is disconnected by the server after a minute, its transaction forgotten. When a connection breaks
during a commit nobody knows whether it happened: that is an error, and the caller must allow for both.

``postgresql://host/db?options=-csearch_path%3Dclinic`` names a schema.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from hush.core import HushError
from hush.storage import Options, Row, Storage, without_password

if TYPE_CHECKING:
    import psycopg


def driver() -> Any:
    """Return psycopg, or say how to get it."""
    try:
        import psycopg
    except ImportError as error:
        raise HushError("PostgreSQL needs psycopg: pip install 'hush[postgresql]'.") from error
    return psycopg


class PostgreSQLStorage(Storage):
    """Tables in PostgreSQL."""

    def __init__(self, url: str, options: Options) -> None:
        super().__init__(without_password(url), options)
        kept = "" if options.durable else "UNLOGGED"
        names = {"blob": "BYTEA", "integer": "BIGINT", "real": "DOUBLE PRECISION", "serial": "BIGSERIAL", "kept": kept}
        self.types = names
        self._url = url
        self._psycopg = driver()
        self._in_transaction = False
        self._has_lock_table = False
        self._connection = self._connect()

    def _connect(self) -> psycopg.Connection[Row]:
        self._pid = os.getpid()
        with self._translated():
            connection = self._psycopg.connect(self._url, autocommit=True, connect_timeout=10, client_encoding="utf8")
            try:
                if self.options.raw:
                    connection.adapters.register_loader("text", loader(bytes))
                connection.execute(f"SET lock_timeout = '{self.options.wait:g}s'")
                connection.execute("SET idle_in_transaction_session_timeout = '60s'")
                connection.execute("SET client_min_messages = warning")
                weak, forced = connection.execute(
                    "SELECT current_setting('synchronous_commit') IN ('off', 'local'), current_setting('fsync') = 'on'"
                ).fetchone()
                if weak or not self.options.durable:
                    connection.execute(f"SET synchronous_commit = {'on' if self.options.durable else 'off'}")
                if self.options.fsync and not forced:
                    error = RuntimeError("the server runs with fsync off, and could lose what it committed; turn it on")
                    raise self.options.failure("unavailable", self.place, error)  # noqa: TRY301
            except BaseException:
                connection.close()
                raise
        return cast("psycopg.Connection[Row]", connection)

    def ready(self) -> None:
        """Connect afresh after a fork or a broken connection."""
        if self._pid != os.getpid():
            # Closing the parent's connection here would end its session on the server.
            self._inherited = self._connection
            self._connection = self._connect()
        elif self._connection.closed:
            self._connection = self._connect()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        errors, failure = self._psycopg.errors, self.options.failure
        try:
            yield
        except (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected) as error:
            raise failure("busy", self.place, error) from error
        except errors.IntegrityError as error:
            raise failure("conflict", self.place, error) from error
        except (errors.UndefinedTable, errors.UndefinedColumn, errors.DataError) as error:
            raise failure("damaged", self.place, error) from error
        except self._psycopg.Error as error:
            raise failure("unavailable", self.place, error) from error

    def _run(self, statement: str, values: tuple[Any, ...]) -> Any:
        """Run a statement; where the connection turns out to be broken before a transaction, on a new one."""
        text = cast("Any", statement.replace("?", "%s"))
        try:
            return self._connection.execute(text, values)
        except self._psycopg.OperationalError:
            if self._in_transaction or not self._connection.closed:
                raise
        self.ready()
        return self._connection.execute(text, values)

    @contextmanager
    def _open_cursor(self, statement: str, values: tuple[Any, ...]) -> Iterator[Any]:
        with self._connection.transaction(), self._connection.cursor(name="hush_stream") as cursor:
            with self._translated():
                cursor.execute(cast("Any", statement.replace("?", "%s")), values)
            yield cursor

    def begin(self) -> None:
        """Begin a transaction, and queue on the lock."""
        self.change("BEGIN ISOLATION LEVEL READ COMMITTED")
        self._in_transaction = True
        try:
            table = self.options.lock_table
            self._has_lock_table = self._has_lock_table or (bool(table) and self.has_table(table))
            if self._has_lock_table:
                self.rows(f"SELECT id FROM {table} WHERE id = 1 FOR UPDATE")  # noqa: S608 - ours
            else:  # nobody has made the tables yet, or there is none to lock
                key = "hashtext(? || COALESCE(current_schema(), ''))"
                self.rows(f"SELECT pg_advisory_xact_lock({key})", self.options.lock)
        except BaseException:
            self.rollback()
            raise

    def commit(self) -> None:
        # A transaction in which something failed answers COMMIT with a rollback, and no error.
        with self.mutex, self._translated():
            status = self._run("COMMIT", ()).statusmessage
        if status != "COMMIT":
            raise self.options.failure("unavailable", self.place, RuntimeError("the server did not commit"))
        self._in_transaction = False

    def rollback(self) -> None:
        self._in_transaction = False
        if not self._connection.closed and self._connection.info.transaction_status:
            with suppress(self._psycopg.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        with self.mutex:
            if self._pid == os.getpid():
                with suppress(self._psycopg.Error):
                    self._connection.close()

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns.

        The catalogue itself is read. ``to_regclass`` answers from what a session remembers, and within a transaction
        that waited for the lock a session still remembers that there was nothing.
        """
        of_table = "pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON a.attrelid = c.oid"
        visible = "c.relname = ? AND pg_catalog.pg_table_is_visible(c.oid) AND a.attnum > 0 AND NOT a.attisdropped"
        return {row[0] for row in self.rows(f"SELECT a.attname FROM {of_table} WHERE {visible}", table)}  # noqa: S608


def loader(convert: Callable[[bytes], Any]) -> Any:
    """Return a loader of psycopg for values of a type, from the server's text in UTF-8."""
    from psycopg.adapt import Loader

    class Converted(Loader):
        def load(self, data: Any) -> Any:
            return convert(bytes(data))

    return Converted
