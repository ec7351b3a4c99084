"""Connections to a PostgreSQL server, and one question's transaction on one of them.

A transaction is REPEATABLE READ and READ ONLY: all of a question's statements see the same rows, and nothing is left
behind. Its settings are its own: the time zone, how dates are written, a time limit for every statement, and a search
path on which there are only PostgreSQL's own functions.

The address never holds a password: that comes from the environment (PGPASSWORD), ~/.pgpass or a service file, where the
driver finds it, and hush never reads it.

>>> check_address("postgresql://curator@db.example/clinic")
'postgresql://curator@db.example/clinic'
>>> check_address("postgresql://curator:secret@db.example/clinic")
Traceback (most recent call last):
hush.engines.errors.SourceError: an engine's address holds no password; put it into ~/.pgpass or PGPASSWORD
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from hush.engines.errors import EngineError, SourceError, log
from hush.engines.server import ParameterisedText, Row

if TYPE_CHECKING:
    import psycopg

_IDLE = 4
"""How many connections wait for the next question."""
_BUSY = {"55P03", "57014", "53300", "57P03"}
"""Its words for a lock or a statement that took too long, for too many connections, and for a server that starts."""
_SETTINGS = (
    "search_path = pg_catalog, pg_temp",
    "TimeZone = 'UTC'",
    "DateStyle = 'ISO, YMD'",
    "standard_conforming_strings = on",
    "extra_float_digits = 1",
    "jit = off",
)


def check_address(address: str) -> str:
    """Return an address without a password; refuse one that has it, without repeating it."""
    try:
        parts = urlsplit(address)
        secret = bool(parts.password) or any(key == "password" for key, _ in parse_qsl(parts.query))
    except ValueError:
        raise SourceError("an engine's address is written postgresql://user@host/database") from None
    if secret:
        raise SourceError("an engine's address holds no password; put it into ~/.pgpass or PGPASSWORD")
    return address


def driver() -> Any:
    """Return psycopg, or say how to get it."""
    try:
        import psycopg
    except ImportError:
        raise SourceError("PostgreSQL needs psycopg: pip install 'hush[postgresql]'") from None
    return psycopg


class Server:
    """A server's address, and connections to it. Use it from any thread."""

    def __init__(self, address: str, *, timeout: float | None = None) -> None:
        self._address = check_address(address)
        self._psycopg = driver()
        self._milliseconds = 0 if timeout is None else max(1, int(timeout * 1000))
        self._idle: list[psycopg.Connection[Row]] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self.reason = ""
        """Why the last connection was not made, for the owner; nothing if it was."""

    def __repr__(self) -> str:
        return "Server()"  # not even where it is

    def connect(self) -> psycopg.Connection[Row]:
        """Return a connection of its own."""
        try:
            connection: psycopg.Connection[Row] = self._psycopg.connect(
                self._address, autocommit=True, connect_timeout=10, client_encoding="utf8", application_name="hush"
            )
        except Exception as error:  # it may name hosts and users  # noqa: BLE001
            self.reason = _reason(error)
            log.debug("the server cannot be reached: %s (%s)", type(error).__name__, self.reason)
            raise EngineError from None
        self.reason = ""
        connection.cursor_factory = self._psycopg.RawCursor
        connection.server_cursor_factory = self._psycopg.RawServerCursor
        connection.adapters.register_loader("numeric", _whole_loader())
        return connection

    @property
    def _opening(self) -> str:
        settings = [*_SETTINGS, f"statement_timeout = {self._milliseconds}", f"lock_timeout = {self._milliseconds}"]
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        return "; ".join([begin, *(f"SET LOCAL {setting}" for setting in settings)])

    @contextmanager
    def transaction(self) -> Iterator[PostgreSQLTransaction]:
        """Give a transaction that is read-only, and forgotten whatever happens."""
        connection = self._taken()
        try:
            connection = self._opened(connection, self._opening)
            yield PostgreSQLTransaction(connection)
        finally:
            with suppress(Exception):
                connection.execute("ROLLBACK")
            self._returned(connection)

    def resolve(self, statements: Sequence[ParameterisedText], check: str) -> Row:
        """Let the server resolve statements without running them, and return the row of a check.

        All of it is one message, so that a question is compiled by one round trip.
        """
        prepared = [f"PREPARE hush_resolved AS {item.text}; DEALLOCATE hush_resolved" for item in statements]
        text = "; ".join([self._opening, check, *prepared, "ROLLBACK"])
        connection = self._taken()
        self.reason = ""
        try:
            connection, cursor = self._sent(connection, text)
            while cursor.description is None and cursor.nextset():
                pass
            return cursor.fetchall()[0]
        except Exception as error:  # whatever it says is the owner's  # noqa: BLE001
            log.debug("engine failure: %s\n%s", error, text)
            if getattr(error, "sqlstate", None) in _BUSY:
                self.reason = "it is busy"
            with suppress(Exception):
                connection.execute("ROLLBACK")
            raise EngineError from None
        finally:
            self._returned(connection)

    def _sent(
        self, connection: psycopg.Connection[Row], text: str
    ) -> tuple[psycopg.Connection[Row], psycopg.Cursor[Row]]:
        """Send a text to a connection; one that broke while it waited is replaced."""
        try:
            return connection, connection.execute(text.encode())
        except self._psycopg.Error:
            if not connection.closed and not connection.broken:
                raise
        connection = self.connect()
        return connection, connection.execute(text.encode())

    def _opened(self, connection: psycopg.Connection[Row], opening: str) -> psycopg.Connection[Row]:
        """Return a connection on which a transaction began; one that broke while it waited is replaced."""
        try:
            connection.execute(opening.encode())
        except Exception:  # noqa: BLE001
            with suppress(Exception):
                connection.close()
            connection = self.connect()
            try:
                connection.execute(opening.encode())
            except Exception as error:  # noqa: BLE001
                log.debug("no transaction begins: %s", type(error).__name__)
                raise EngineError from None
        return connection

    def _taken(self) -> psycopg.Connection[Row]:
        with self._lock:
            if self._pid != os.getpid():  # a fork: the parent's sessions are not ours to end
                self._inherited, self._idle, self._pid = self._idle, [], os.getpid()
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
        return self.connect()

    def _returned(self, connection: psycopg.Connection[Row]) -> None:
        with self._lock:
            if not connection.closed and not connection.broken and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        with suppress(Exception):
            connection.close()

    def close(self) -> None:
        """Close the connections that wait."""
        with self._lock:
            while self._idle:
                with suppress(Exception):
                    self._idle.pop().close()


class PostgreSQLTransaction:
    """Statements of one question; every failure is an `EngineError`."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def fetch(self, statement: ParameterisedText, parameters: Mapping[int, list[Any]]) -> list[Row]:
        """Run a statement and return its rows."""
        with _failing(statement.text):
            values = statement.values(parameters)
            return self._connection.execute(statement.text.encode(), values or None).fetchall()

    def stream(
        self, statement: ParameterisedText, parameters: Mapping[int, list[Any]], size: int
    ) -> Iterator[list[Row]]:
        """Run a statement and give its rows so many at a time, from a cursor of the server."""
        cursor = self._connection.cursor("hush_groups")
        try:
            with _failing(statement.text):
                cursor.execute(statement.text.encode(), statement.values(parameters) or None)
            while True:
                with _failing(statement.text):
                    rows = cursor.fetchmany(size)
                if not rows:
                    break
                yield rows
        finally:
            with suppress(Exception):  # the transaction ends it, too
                cursor.close()


@contextmanager
def _failing(text: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever it says may tell of a row  # noqa: BLE001
        log.debug("engine failure: %s\n%s", error, text)
        raise EngineError from None


def _whole_loader() -> Any:
    from psycopg.adapt import Loader

    class Whole(Loader):
        """Loads numeric, of which only whole numbers leave the server."""

        def load(self, data: Any) -> int:
            return int(bytes(data))

    return Whole


_REASONS = (
    ("pg_hba", "its pg_hba.conf lets nobody in from here in this way"),
    ("does not exist", "it has no such database or role"),
    ("is not permitted to log in", "the role may not log in; ALTER ROLE … LOGIN lets it"),
    ("too many", "it has too many connections already"),
    ("ssl", "TLS did not come about; see sslmode and sslrootcert"),
    ("certificate", "TLS did not come about; see sslmode and sslrootcert"),
    ("translate host name", "no host has this name"),
    ("refused", "no server listens there"),
    ("no such file", "no server listens there"),
    ("timeout", "no server answers there"),
    ("unreachable", "no server answers there"),
)
"""What a driver's words come to, without the names in them."""


def _reason(error: Exception) -> str:
    """Return why a connection was not made, in words that name no host, user or database."""
    session = getattr(error, "pgconn", None)
    if getattr(session, "needs_password", False):
        return "it asks for a password, and the driver found none in PGPASSWORD, ~/.pgpass or a service file"
    words = str(error).lower()
    if getattr(session, "used_password", False) and "password" in words:
        return "it refused the password of PGPASSWORD, ~/.pgpass or a service file"
    return next((reason for sign, reason in _REASONS if sign in words), "see its log")
