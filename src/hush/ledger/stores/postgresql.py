"""The ledger in a PostgreSQL database, for several hosts.

Writers queue on a row lock (``SELECT … FOR UPDATE`` of the head) at READ COMMITTED, so whoever gets the lock sees
everything committed before. Commits wait for the disk: a session with ``synchronous_commit`` off or local is set to on,
and a server with ``fsync`` off is refused. A client that stops answering with the lock in its hands is disconnected
by the server after a minute, its transaction forgotten. When a connection breaks during a commit nobody knows whether
it happened; no grant is given, and if it did happen, it stays charged.

A database holds one ledger per schema: ``postgresql://host/db?options=-csearch_path%3Dclinic`` names the schema.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, cast

from hush.ledger.errors import LedgerBusyError, LedgerDamagedError, LedgerError, LedgerUnavailableError
from hush.ledger.stores.base import Store

if TYPE_CHECKING:
    import psycopg

_BATCH = 2000


def driver() -> Any:
    """Return psycopg, or say how to get it."""
    try:
        import psycopg
    except ImportError as error:
        raise LedgerError("PostgreSQL needs psycopg: pip install 'hush[postgresql]'.") from error
    return psycopg


def without_password(url: str) -> str:
    """Return what may be shown and recorded of a URL."""
    shown = re.sub(r"^([a-z]+://[^:/?#]*):[^/?#]*@", r"\1@", url)
    return re.sub(r"[?&]password=[^&#]*(&?)", lambda found: found[0][0] if found[1] else "", shown)


class PostgreSQLStore(Store):
    """Entries in PostgreSQL."""

    blob: ClassVar[str] = "BYTEA"
    integer: ClassVar[str] = "BIGINT"

    def __init__(self, url: str) -> None:
        self._url = url
        self.place = without_password(url)
        self._psycopg = driver()
        self._connection = self._connect()

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        self._pid = os.getpid()
        with self._translated():
            connection = self._psycopg.connect(self._url, autocommit=True, connect_timeout=10, client_encoding="utf8")
            try:
                connection.adapters.register_loader("text", _raw_loader())
                connection.execute("SET lock_timeout = '30s'")
                connection.execute("SET idle_in_transaction_session_timeout = '60s'")
                settings = {
                    name: connection.execute(f"SHOW {name}").fetchone()[0] for name in ("synchronous_commit", "fsync")
                }
                if settings["synchronous_commit"] in {b"off", b"local"}:
                    connection.execute("SET synchronous_commit = on")
            except BaseException:
                connection.close()
                raise
        if settings["fsync"] != b"on":
            connection.close()
            raise LedgerUnavailableError(
                f"The server at {self.place} runs with fsync off: a charge could be lost after its answer was given. "
                "Turn fsync on."
            )
        return cast("psycopg.Connection[tuple[Any, ...]]", connection)

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
        errors = self._psycopg.errors
        try:
            yield
        except (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected) as error:
            raise LedgerBusyError(f"The ledger at {self.place} was locked for too long. Try again.") from error
        except (errors.UndefinedTable, errors.UndefinedColumn, errors.DataError, errors.IntegrityError) as error:
            raise LedgerDamagedError(
                f"The tables at {self.place} are not those of a ledger ({str(error).splitlines()[0]})."
            ) from error
        except self._psycopg.Error as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise LedgerUnavailableError(
                f"The ledger at {self.place} could not be reached or written ({reason}). Nothing is granted. "
                "Check the server, then try again."
            ) from error

    @staticmethod
    def _text(sql: str) -> Any:
        return cast("Any", sql.replace("?", "%s"))

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        with self._translated():
            return self._connection.execute(self._text(sql), parameters).fetchall()

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        with self._translated():
            return self._connection.execute(self._text(sql), parameters).rowcount

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Generator[tuple[Any, ...]]:
        """Run a query and yield its rows, some thousands at a time."""
        with self._connection.transaction(), self._connection.cursor(name="hush_stream") as cursor:
            with self._translated():
                cursor.execute(self._text(sql), parameters)
            while True:
                with self._translated():
                    rows = cursor.fetchmany(_BATCH)
                if not rows:
                    return
                yield from rows

    def lock(self) -> None:
        """Take the row lock of the head."""
        self.change("BEGIN ISOLATION LEVEL READ COMMITTED")
        try:
            if self.exists():
                self.run("SELECT id FROM hush_head WHERE id = 1 FOR UPDATE")
            else:  # nobody has made the tables yet: queue on a lock that needs none
                self.run("SELECT pg_advisory_xact_lock(hashtext('hush ledger'))")
        except BaseException:
            self.rollback()
            raise

    def commit(self) -> None:
        """Make the transaction durable."""
        with self._translated():
            # A transaction in which something failed answers COMMIT with a rollback, and no error.
            if self._connection.execute("COMMIT").statusmessage != "COMMIT":
                raise LedgerUnavailableError(
                    f"The ledger at {self.place} did not commit. Nothing is granted. Try again."
                )

    def rollback(self) -> None:
        """Forget the transaction, if one is open."""
        if not self._connection.closed and self._connection.info.transaction_status:
            with suppress(self._psycopg.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        if self._pid == os.getpid():
            with suppress(self._psycopg.Error):
                self._connection.close()

    def exists(self) -> bool:
        """Say whether the tables are there.

        The catalogue itself is read. ``to_regclass`` answers from what a session remembers, and within a transaction
        that waited for the lock a session still remembers that there was nothing.
        """
        visible = "relname = 'hush_entries' AND pg_catalog.pg_table_is_visible(oid)"
        return self.run(f"SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE {visible})")[0][0] is True  # noqa: S608


def _raw_loader() -> Any:
    """Return a loader that gives text as its UTF-8 bytes, the form in which it is hashed."""
    from psycopg.adapt import Loader

    class Raw(Loader):
        def load(self, data: Any) -> bytes:
            return bytes(data)

    return Raw
