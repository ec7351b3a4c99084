"""Tables that several processes share: in a SQLite file, or in a PostgreSQL database for several hosts.

The ledger, the people of a service and its traffic lie in such tables. Both databases speak the same SQL here, with
``?`` for values and `types` for the types that differ. A transaction holds one lock over all processes, so what it
reads is still so when it writes, and its commit is durable when it returns. Nothing is cached in memory: what one
process revokes is revoked for all of them with their next statement.

>>> storage = open_storage(":memory:", Options(lock="names"))
>>> with storage.changing():
...     storage.make(["CREATE TABLE names (name TEXT PRIMARY KEY)"])
...     storage.change("INSERT INTO names VALUES (?)", "alice")
1
>>> storage.rows("SELECT name FROM names")
[('alice',)]

Processes that write here may die. A process number is used again, so it goes with the moment at which the process
started, where the system tells (Linux does).

>>> alive(this_process())
True
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hush.core import HushError

Row = tuple[Any, ...]
_BATCH = 1000
Kind = Literal["busy", "conflict", "damaged", "unavailable"]
"""Why a statement failed: somebody else holds the lock, a row breaks a rule of its table (a key that is taken), the
tables are not what they should be, or the disk or the server failed."""


class ConflictError(Exception):
    """A row breaks a rule of its table: a key that is taken, or a reference to a row that is not there."""


class UnavailableError(HushError):
    """The tables cannot be read or written."""

    code = "storage"


def _failure(kind: Kind, place: str, error: Exception) -> Exception:
    return ConflictError() if kind == "conflict" else UnavailableError(f"The tables at {place} failed ({error}).")


class Options(NamedTuple):
    """How tables are kept. The defaults are the safe ones."""

    lock: str
    """The name of PostgreSQL's advisory lock that writers queue on."""
    lock_table: str = ""
    """A table with a row ``id = 1``: once it is there, PostgreSQL's writers queue on that row instead."""
    durable: bool = True
    """Whether a commit waits for the disk."""
    raw: bool = False
    """Whether texts come as their UTF-8 bytes, the form in which a ledger hashes them."""
    fsync: bool = False
    """Whether to refuse a PostgreSQL server that runs with ``fsync`` off: a crash could undo its commits."""
    wait: float = 10.0
    """Seconds to wait for the lock."""
    failure: Callable[[Kind, str, Exception], Exception] = _failure
    """Returns the error to raise for a driver's error, given its kind and the place."""


class Storage(ABC):
    """One connection to the tables. Transactions may be used from any thread, one at a time."""

    types: Mapping[str, str]
    """How the database spells the types ``blob``, ``integer``, ``real``, ``serial``, and ``kept`` before TABLE."""

    def __init__(self, place: str, options: Options) -> None:
        self.place = place
        """Where it lies, as messages may show it: without any password."""
        self.options = options
        self.mutex = threading.RLock()

    @abstractmethod
    def _translated(self) -> AbstractContextManager[None]:
        """Raise `Options.failure` for the errors of the driver."""

    @abstractmethod
    def _run(self, statement: str, values: tuple[Any, ...]) -> Any:
        """Run a statement, and return its cursor."""

    @abstractmethod
    def _open_cursor(self, statement: str, values: tuple[Any, ...]) -> AbstractContextManager[Any]:
        """Run a query, with a cursor that does not hold all its rows."""

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """Run a statement and return its rows."""
        with self.mutex, self._translated():
            return list(self._run(statement, values).fetchall())

    def change(self, statement: str, *values: Any) -> int:
        """Run a statement and return the number of rows it changed; alone it is a transaction of its own."""
        with self.mutex, self._translated():
            return int(self._run(statement, values).rowcount)

    def stream(self, statement: str, *values: Any) -> Generator[Row]:
        """Run a query and yield its rows without holding them all."""
        with self._open_cursor(statement, values) as cursor:
            while True:
                with self._translated():
                    rows = cursor.fetchmany(_BATCH)
                if not rows:
                    return
                yield from rows

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction that excludes every other writer."""

    @abstractmethod
    def commit(self) -> None:
        """Make the transaction durable, and let go of the lock."""

    @abstractmethod
    def rollback(self) -> None:
        """Forget the transaction, if one is open; never fails."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; never fails."""

    @abstractmethod
    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; none where there is no such table."""

    def has_table(self, name: str) -> bool:
        """Return whether a table is there."""
        return bool(self.columns(name))

    @abstractmethod
    def ready(self) -> None:
        """Connect afresh after a fork or a broken connection; refuse a file that is not the one that was opened."""

    def free_bytes(self) -> int | None:
        """Return the room that is left on the disk; None where that is not known."""
        return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock; everything that was not committed inside is forgotten."""
        with self.mutex:
            self.begin()
            try:
                yield
            finally:
                self.rollback()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock; all changes inside are committed, or none."""
        with self.locked():
            yield
            self.commit()

    def make(self, statements: Sequence[str]) -> None:
        """Run statements of a schema, which name types as ``{blob}``."""
        for statement in statements:
            self.change(statement.format(**self.types))


def in_database(place: str | Path) -> bool:
    """Return whether a place is a PostgreSQL database.

    >>> in_database("postgresql://host/hush"), in_database("hush.people")
    (True, False)
    """
    return str(place).startswith(("postgresql://", "postgres://"))


def without_password(url: str) -> str:
    """Return a URL as it may be shown and recorded."""
    shown = re.sub(r"^([a-z]+://[^:/?#]*):[^/?#]*@", r"\1@", url)
    return re.sub(r"[?&]password=[^&#]*(&?)", lambda found: found[0][0] if found[1] else "", shown)


def open_storage(place: str | Path, options: Options) -> Storage:
    """Open a SQLite file that only this account can read, ``:memory:``, or a PostgreSQL database."""
    if in_database(place):
        from hush.storage.postgresql import PostgreSQLStorage

        return PostgreSQLStorage(str(place), options)
    from hush.storage.sqlite import SQLiteStorage

    return SQLiteStorage(None if str(place) == ":memory:" else Path(place).absolute(), options)


# Files and processes.


def sync_file(descriptor: int) -> None:
    """Return when the file's content is on the disk."""
    if sys.platform == "darwin":  # fsync leaves the data in the drive's cache there
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_directory(path: Path) -> None:
    """Return when the names in a directory are on the disk, where the system can do that at all."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _started(pid: int) -> str:
    """Return the kernel's start time of a process, or nothing where it cannot be told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    # The second field is the program's name in brackets, which may hold anything; the rest are numbers.
    return f"{boot}:{text.rpartition(')')[2].split()[19]}"


@lru_cache(maxsize=1)
def _process(pid: int) -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": pid, "started": _started(pid)}


def this_process() -> dict[str, Any]:
    """Return host, number and start of this process, which name it for ever; after a fork the child's."""
    return _process(os.getpid())


def alive(process: Mapping[str, Any]) -> bool | None:
    """Return whether a process still runs; None when it ran on another host or cannot be told."""
    if process.get("host") != socket.gethostname() or not isinstance(process.get("pid"), int):
        return None
    if process.get("started"):
        return bool(_started(process["pid"]) == process["started"])
    if os.name != "posix":  # elsewhere signal 0 is not a question
        return None
    try:
        os.kill(process["pid"], 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return None
    return True
