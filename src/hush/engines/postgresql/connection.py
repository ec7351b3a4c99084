"""PostgreSQL as an engine: connections, the transaction of a question, tables, and the rights of a role.

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

**Tables** (`PostgreSQLTables`) are read through a query that brings their columns into neutral types. Columns that the
role cannot read, or whose type hush does not know, are not there.

>>> qualified_name("clinic.visits"), qualified_name("visits"), qualified_name('"My.schema"."t"')
(('clinic', 'visits'), ('public', 'visits'), ('My.schema', 't'))

**Rights** (`PostgreSQLTables.rights`). hush needs to read the policy's columns, and nothing else. A curator's role that
can do more is a risk when somebody gets hold of it. So a superuser, a role that is exempt from row security, one that
may write, make objects or read other tables is told of, with the statements that give a role just what it needs.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from hush.core.work import interrupting
from hush.engines.errors import EngineError, SourceError, log
from hush.engines.postgresql.dialect import POSTGRESQL
from hush.engines.protocol import Pace
from hush.engines.server import Rights, ServerConnection, StoredColumn
from hush.engines.sql.nodes import From, Scalar, TableName, call, column
from hush.engines.sql.render import Statement, plain
from hush.engines.sql.statements import Row
from hush.query.errors import UnplannableError
from hush.query.schema import Schema
from hush.storage.postgresql import loader

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


class PostgreSQLServer:
    """A server's address, and connections to it. Use it from any thread."""

    def __init__(self, address: str, *, timeout: float | None = None) -> None:
        self._address = check_address(address)
        try:
            import psycopg
        except ImportError:
            raise SourceError("PostgreSQL needs psycopg: pip install 'hush[postgresql]'") from None
        self._psycopg = psycopg
        self._milliseconds = 0 if timeout is None else max(1, int(timeout * 1000))
        self._idle: list[psycopg.Connection[Row]] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self.reason = ""
        """Why the last connection was not made, for the owner; nothing if it was."""

    def __repr__(self) -> str:
        return "PostgreSQLServer()"  # not even where it is

    def connect(self) -> psycopg.Connection[Row]:
        """Return a connection of its own."""
        try:
            connection: psycopg.Connection[Row] = self._psycopg.connect(
                self._address, autocommit=True, connect_timeout=10, client_encoding="utf8", application_name="hush"
            )
        except Exception as error:  # it may name hosts and users  # noqa: BLE001
            self.reason = _reason(error)
            raise EngineError from None
        self.reason = ""
        # raw cursors leave $1 and % in a statement as they are, and do not rewrite its text
        connection.cursor_factory = self._psycopg.RawCursor
        connection.server_cursor_factory = self._psycopg.RawServerCursor
        # only whole numbers leave the server: sums come as numeric, which would be Decimal otherwise
        connection.adapters.register_loader("numeric", loader(int))
        return connection

    @property
    def _opening(self) -> str:
        # SET LOCAL ends with the transaction, so a connection keeps nothing for the next question
        settings = [*_SETTINGS, f"statement_timeout = {self._milliseconds}", f"lock_timeout = {self._milliseconds}"]
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        return "; ".join([begin, *(f"SET LOCAL {setting}" for setting in settings)])

    @contextmanager
    def transaction(self) -> Iterator[PostgreSQLTransaction]:
        """Give a read-only transaction, which is rolled back in any case."""
        with self._sent(self._opening) as cursor:
            yield PostgreSQLTransaction(cursor.connection)

    def resolve(self, statements: Sequence[Statement], check: str) -> Row:
        """Let the server resolve statements without running them, and return the row of a check.

        All of it is one message, so that a question is compiled by one round trip.
        """
        prepared = [f"PREPARE hush_resolved AS {statement.text}; DEALLOCATE hush_resolved" for statement in statements]
        with self._sent("; ".join([self._opening, check, *prepared, "ROLLBACK"])) as cursor:
            # the check is the only part of the message that returns rows
            while cursor.description is None and cursor.nextset():
                pass
            return cursor.fetchall()[0]

    @contextmanager
    def _sent(self, text: str) -> Iterator[psycopg.Cursor[Row]]:
        """Send a text that begins a transaction, which is rolled back in any case, and give its results."""
        connection = self._taken()
        self.reason = ""
        try:
            try:
                try:
                    cursor = connection.execute(text.encode())
                except self._psycopg.Error:
                    # the server answered with an error of the statement, which a new connection would repeat
                    if not connection.closed:
                        raise
                    connection = self.connect()  # the other one broke while it waited
                    cursor = connection.execute(text.encode())
            except Exception as error:  # whatever it says is the owner's  # noqa: BLE001
                log.debug("engine failure: %s\n%s", error, text)
                # not the question's fault: whoever asked is told to try again
                if getattr(error, "sqlstate", None) in _BUSY:
                    self.reason = "it is busy"
                raise EngineError from None
            yield cursor
        finally:
            self._returned(connection)

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
        # a failed ROLLBACK leaves a broken connection, which would fail the next question
        with suppress(Exception):
            if connection.info.transaction_status:  # 0 is outside of a transaction
                connection.execute("ROLLBACK")
        with self._lock:
            if not connection.closed and len(self._idle) < _IDLE:
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

    def fetch(self, statement: Statement, parameters: Mapping[int, Any]) -> list[Row]:
        with self._running(statement.text):
            return self._connection.execute(statement.text.encode(), statement.values(parameters) or None).fetchall()

    @contextmanager
    def _running(self, text: str) -> Iterator[None]:
        def cancel() -> None:
            # a message of its own to the server, for which nobody waits
            threading.Thread(target=self._connection.cancel, name="hush-cancel", daemon=True).start()

        try:
            with interrupting(cancel):
                yield
        except Exception as error:  # whatever it says may tell of a row  # noqa: BLE001
            log.debug("engine failure: %s\n%s", error, text)
            raise EngineError from None

    def stream(self, statement: Statement, parameters: Mapping[int, Any], size: int) -> Iterator[list[Row]]:
        # a named cursor stays in the server: the driver would fetch all groups at once otherwise
        cursor = self._connection.cursor("hush_groups")
        try:
            with self._running(statement.text):
                cursor.execute(statement.text.encode(), statement.values(parameters) or None)
                rows = cursor.fetchmany(size)
            while rows:
                yield rows
                with self._running(statement.text):
                    rows = cursor.fetchmany(size)
        finally:
            with suppress(Exception):  # the transaction ends it, too
                cursor.close()


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
"""The reasons for a failed connection, by words in the driver's message, without the names in it."""


def _reason(error: Exception) -> str:
    """Return why a connection was not made, in words that name no host, user or database."""
    session = getattr(error, "pgconn", None)
    if getattr(session, "needs_password", False):
        return "it asks for a password, and the driver found none in PGPASSWORD, ~/.pgpass or a service file"
    words = str(error).lower()
    if getattr(session, "used_password", False) and "password" in words:
        return "it refused the password of PGPASSWORD, ~/.pgpass or a service file"
    return next((reason for sign, reason in _REASONS if sign in words), "see its log")


_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
_PLAIN = {
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE", "bool": "BOOLEAN",
    "date": "DATE", "timestamp": "TIMESTAMP",
}  # fmt: skip
_TEXTS = {"text", "varchar", "bpchar", "name", "citext", "uuid"}
_WIDEST = 38
_COLUMNS = """
WITH RECURSIVE read (attnum, attname, type, modifier, first, given) AS (
  SELECT a.attnum, a.attname, a.atttypid, a.atttypmod, a.atttypid, a.atttypmod
  FROM pg_catalog.pg_attribute AS a
  JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0
    AND NOT a.attisdropped AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')
  UNION ALL
  SELECT r.attnum, r.attname, t.typbasetype, CASE WHEN r.modifier < 0 THEN t.typtypmod ELSE r.modifier END,
    r.first, r.given
  FROM read AS r
  JOIN pg_catalog.pg_type AS t ON t.oid = r.type
  WHERE t.typtype = 'd'
)
SELECT r.attname, t.typname, t.typtype::text, r.modifier, r.first::bigint, r.given
FROM read AS r
JOIN pg_catalog.pg_type AS t ON t.oid = r.type
WHERE t.typtype <> 'd'
ORDER BY r.attnum
"""
"""The columns that the role may read, with the types that domains stand for."""


_READABLE = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
ORDER BY n.nspname <> 'public', n.nspname, c.relname
"""


def readable_tables(address: str) -> dict[str, str]:
    """Return the tables that the role may read, each with its name as a policy writes it."""
    server = PostgreSQLServer(address)
    try:
        with server.transaction() as transaction:
            rows = transaction.fetch(plain(_READABLE), {})
    except EngineError:
        raise SourceError(f"the database cannot be reached: {server.reason or 'it ended the connection'}") from None
    finally:
        server.close()
    if not rows:
        raise SourceError("the database has no table that its role may read; it needs USAGE on the schema and SELECT")
    tables, names = {}, [name for _, name in rows]
    for parts in rows:
        # tables of one name in several schemas are told apart by these
        label = parts[1] if names.count(parts[1]) == 1 else "_".join(parts)
        tables[label] = ".".join([part if re.fullmatch(r"\w+", part) else POSTGRESQL.quoted(part) for part in parts])
    return tables


def qualified_name(source: str) -> tuple[str, str]:
    """Return schema and name of a table as a policy writes it."""
    parts = [(quoted or plain).replace('""', '"') for quoted, plain in _PART.findall(source.strip())]
    if not 1 <= len(parts) <= 2 or any("\0" in part for part in parts):
        raise SourceError(f"a table of a database is written schema.table; got {source!r}")
    return (parts[0], parts[1]) if len(parts) == 2 else ("public", parts[0])


def _column(name: str, type_: str, kind: str, modifier: int) -> StoredColumn:
    """Return a column as the server stores it, from the name, kind and modifier of its type."""
    cell: Scalar = column(name)
    if type_ in _PLAIN:
        read = key = cell, _PLAIN[type_]
    elif type_ in _TEXTS or kind == "e":
        read = key = call("stored_text", cell), "VARCHAR"
    elif type_ == "timestamptz":
        read = key = call("stored_instant", cell), "TIMESTAMP"
    elif type_ != "numeric":
        return StoredColumn(type_, None, None)
    else:
        # PostgreSQL packs both into the modifier, and adds 4; without a precision it is -1
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        if modifier >= 4 and precision <= _WIDEST and scale <= precision:
            read = key = call("stored_decimal", cell), f"DECIMAL({precision},{scale})"
        else:  # all digits of an identity count: as a float two units could become one
            read, key = (call("stored_numeric", cell), "DOUBLE"), (call("stored_digits", cell), "VARCHAR")
    return StoredColumn(type_, read, key)


class PostgreSQLTables(ServerConnection):
    """Tables of a database; ``tables`` has the name of each there."""

    dialect = POSTGRESQL
    pace = Pace(statement=0.05, row=6)
    server: PostgreSQLServer

    def __init__(
        self,
        address: str,
        tables: Mapping[str, str],
        declared: Mapping[str, Sequence[str]] | None = None,  # noqa: ARG002 - every table has a schema
        *,
        directory: Path | None = None,  # noqa: ARG002 - a database reads no files
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        self.server = PostgreSQLServer(address, timeout=timeout)
        self.names = {table: qualified_name(source) for table, source in tables.items()}
        self._stored: dict[str, dict[str, StoredColumn]] = {}
        self._types: dict[str, dict[str, tuple[int, int]]] = {}
        """The number of each column's own type, which may be a domain, and that type's modifier."""
        self._used: list[tuple[str, str, int, int]] = []
        """The columns that statements may read, with the quoted names of their tables, and their own types."""
        try:
            with self.server.transaction() as transaction:
                version = transaction.fetch(plain("SHOW server_version_num"), {})[0][0]
                self.version = int(version) // 10_000
                for table, name in self.names.items():
                    columns_read = transaction.fetch(plain(_COLUMNS, 1, 2), {1: name[0], 2: name[1]})
                    self._stored[table] = {row[0]: _column(*row[:4]) for row in columns_read}
                    self._types[table] = {row[0]: row[4:] for row in columns_read}
        except EngineError:
            self.close()
            why = self.server.reason or "it ended the connection"
            raise SourceError(f"the database cannot be reached: {why}") from None
        for table, columns in self._stored.items():
            if not columns:
                self.close()
                raise SourceError(
                    f"table {table!r} is not in the database under the name {'.'.join(self.names[table])}, capitals "
                    "as written, or its role may not read it: it needs USAGE on the schema and SELECT on the columns",
                    table=table,
                )

    def _rows(self, table: str) -> From:
        return TableName(self.names[table])

    def _labels(self, schema: Schema, table: str, keys: Collection[str]) -> Collection[str]:
        """Return the columns that the policy names, and remember them; one of a type that is not read is refused."""
        stored = self._stored[table]
        declared = schema.tables[table].columns if table in schema.tables else stored
        labels = [label for label in stored if label in declared or label in keys]
        for label in labels:
            if stored[label].cell is None:
                kind = stored[label].type
                shown_type = f"{kind[1:]}[]" if kind.startswith("_") else kind
                raise SourceError(
                    f"column {label!r} of table {table!r} has the type {shown_type}, which hush does not read; leave "
                    "it out of the policy, or read a view that casts it to a number, a text, a date or a timestamp",
                    table=table,
                )
        table_name = ".".join(map(POSTGRESQL.quoted, self.names[table]))
        self._used += [(table_name, label, *self._types[table][label]) for label in labels]
        return labels

    def rights(self, needed: Mapping[str, Sequence[str]]) -> Rights:
        with self.server.transaction() as transaction:
            role, superuser, exempt, administers, creates = transaction.fetch(plain(_ROLE), {})[0]
            readable = set(transaction.fetch(plain(_READS), {}))
            relations = transaction.fetch(plain(_RELATIONS), {})
        notes = []
        for space, name, is_view, is_secured, _ in relations:
            if is_view and (space, name) in self.names.values():
                notes.append(f"note: {space}.{name} is a view; each of its rows must come from rows of one unit alone")
            if is_secured and (space, name) in self.names.values():
                notes.append(
                    f"note: row security decides which rows of {space}.{name} are counted, and must not look at other "
                    "units' rows"
                )
        # two tables of the policy may be one of the server, so columns are compared by their full names
        needed_columns = {(*self.names[table], column) for table, columns in needed.items() for column in columns}
        powers = {
            "is a superuser": superuser,
            "is exempt from row security": exempt and not superuser,
            "may make roles, databases or replicas": administers and not superuser,
            "may make objects in the database": creates and not superuser,
        }
        surplus = [f"{role} {power}" for power, has in powers.items() if has]
        if writable := [f"{space}.{name}" for space, name, *_, is_writable in relations if is_writable]:
            surplus.append(f"{role} may change {_some(writable)}")
        if surplus_columns := sorted(map(".".join, readable - needed_columns)):
            surplus.append(f"{role} may read what the policy does not name: {_some(surplus_columns)}")
        quoted = POSTGRESQL.quoted
        spaces = dict.fromkeys(self.names[table][0] for table in needed)
        grants = [_CURATOR_ROLE, *(f"GRANT USAGE ON SCHEMA {quoted(space)} TO hush_curator;" for space in spaces)]
        for table, columns in needed.items():
            place, names = ".".join(map(quoted, self.names[table])), ", ".join(map(quoted, columns))
            grants.append(f"GRANT SELECT ({names}) ON {place} TO hush_curator;")
        missing = [f"{role} may not read {'.'.join(column)}" for column in sorted(needed_columns - readable)]
        return Rights(
            role=role, missing=tuple(missing), surplus=tuple(surplus), grants=tuple(grants), notes=tuple(notes)
        )

    def _let_resolve(self, statements: Sequence[Statement]) -> None:
        """Let the server resolve statements; a change in it since it was opened is told as that."""
        try:
            unchanged = self.same_after(statements)
        except EngineError:
            if self.server.reason:
                raise UnplannableError(
                    "the database cannot be reached, or is busy; ask again later (nothing was charged)"
                ) from None
            try:
                # without the statements: if that works, the question is at fault and not the tables
                unchanged = self.same_after([])
            except EngineError:
                unchanged = False
            if unchanged:
                raise
        if not unchanged:
            raise UnplannableError(
                "a table of this data set is not in the database as it was when it was opened: it was dropped, "
                "renamed or altered, or the role may not read it any more. The owner can open it anew (nothing was "
                "charged)"
            )

    def same_after(self, statements: Sequence[Statement]) -> bool:
        """Return whether the columns that are read are as they were, after the server has resolved statements."""
        return int(self.server.resolve(statements, POSTGRESQL.unchanged(self._used))[0]) == len(self._used)


_ROLE = """
SELECT rolname::text, rolsuper, rolbypassrls, rolcreaterole OR rolcreatedb OR rolreplication,
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
FROM pg_catalog.pg_roles WHERE rolname = CURRENT_USER
"""
_RELATIONS = """
SELECT n.nspname::text, c.relname::text, c.relkind IN ('v', 'm'), pg_catalog.row_security_active(c.oid),
       pg_catalog.has_schema_privilege(n.oid, 'USAGE')
       AND pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY 1, 2
"""
_READS = """
SELECT n.nspname::text, c.relname::text, a.attname::text FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND a.attnum > 0 AND NOT a.attisdropped AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
  AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
"""
_CURATOR_ROLE = "CREATE ROLE hush_curator LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;"
_SHOWN = 5


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
