"""A store: where entries lie, and the one lock that orders them.

The two stores speak the same SQL; what differs is how a connection is made, how the lock is taken and which of the
driver's errors means what. A :class:`Store` is used by one thread at a time (the ledger sees to it).

The lock orders writers over all processes and hosts. Holding it, a writer reads what is new, decides, and appends
with a write that is conditional on the head it decided on, all in one transaction. The commit is durable when it
returns.

Six tables, the same on SQLite and PostgreSQL. ``hush_entries`` is the chain. ``hush_head`` has one row: the last
entry's number and hash; it is what writers lock and what the conditional write compares. ``hush_answers`` holds the
bytes of answers for replay, each covered by a hash inside the chain. ``hush_repeats`` finds the charges of one question
again: an index of what stands in their entries, believed only after a look there. ``hush_bound`` remembers for a while
which request ids brought a paid answer again, so that they stand for nothing else. ``hush_meta`` says which version of
this schema it is.

A change of the tables is a new version: add statements to ``MIGRATIONS`` under the version they start *from*. They run
in one transaction, under the lock, when an owner's or a curator's process opens an older ledger. A ledger of a newer
version is refused. Entries themselves are never migrated: their vocabulary only grows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, ClassVar, Final, cast

from hush.ledger.entries import Entry, Head, Row
from hush.ledger.errors import LedgerDamagedError, LedgerError

_COLUMNS = "number, kind, data, analyst, request, about, weight, body, hash"
_PARKED = "kind IN ('requested', 'approved', 'declined')"
_APPROVED = """kind IN ('reserve', 'shared') AND replace(body, '"approved":', '') <> body"""
"""What finds the charges that an owner approved; quotes inside of a text are escaped in a body."""
_REMEMBERED = 1000
"""So many request ids of one analyst that brought paid answers again are remembered."""
_FROM = f"SELECT {_COLUMNS} FROM hush_entries WHERE number >= ? ORDER BY number"  # noqa: S608


class Store(ABC):
    """Entries on disk, behind one lock."""

    blob: ClassVar[str]
    integer: ClassVar[str]
    place: str
    """What names the store in messages and in default anchors; without any password."""

    @abstractmethod
    def run(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; errors come out as ledger errors."""

    @abstractmethod
    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run one statement and return how many rows it changed."""

    @abstractmethod
    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Generator[tuple[Any, ...]]:
        """Run a query and yield its rows without holding them all."""

    @abstractmethod
    def lock(self) -> None:
        """Begin a transaction that excludes every other writer."""

    @abstractmethod
    def commit(self) -> None:
        """Make the transaction durable."""

    @abstractmethod
    def rollback(self) -> None:
        """Forget the transaction; never fails."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection; never fails."""

    @abstractmethod
    def exists(self) -> bool:
        """Say whether the tables are there."""

    def ready(self) -> None:  # noqa: B027 - nothing to compare by default
        """Refuse when what was opened is no longer what lies there."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock; whatever was not committed inside is forgotten."""
        self.lock()
        try:
            yield
        finally:
            self.rollback()

    def prepare(self) -> None:
        """Make the tables (inside a lock)."""
        for statement in CREATE:
            self.change(statement.format(blob=self.blob, integer=self.integer))
        self.change("INSERT INTO hush_meta (name, value) VALUES (?, ?)", ("version", str(VERSION)))
        self.change("INSERT INTO hush_head (id, number, hash) VALUES (1, 0, ?)", (Head().hash,))

    def migrate(self) -> None:
        """Bring an older ledger's tables to this version; refuse a newer one."""
        if self._version() == VERSION:
            return
        with self.locked():
            version = self._version()
            if not 1 <= version <= VERSION:
                raise LedgerError(
                    f"The ledger at {self.place} has schema version {version}; this hush knows versions 1 to "
                    f"{VERSION}. Use the newer hush that wrote it."
                )
            for statement in statements(version, VERSION, MIGRATIONS):
                self.change(statement.format(blob=self.blob, integer=self.integer))
            self.change("UPDATE hush_meta SET value = ? WHERE name = ?", (str(VERSION), "version"))
            self.commit()

    def _version(self) -> int:
        rows = self.run("SELECT value FROM hush_meta WHERE name = ?", ("version",))
        try:
            return int(rows[0][0])
        except (IndexError, ValueError, TypeError) as error:
            raise LedgerDamagedError(f"The ledger at {self.place} does not say which version it is.") from error

    def head(self) -> Head:
        """Return the head as stored: what the conditional write compares."""
        rows = self.run("SELECT number, hash FROM hush_head WHERE id = 1")
        if len(rows) != 1:
            raise LedgerDamagedError(f"The ledger at {self.place} has lost its head.")
        return Head(number=rows[0][0], hash=rows[0][1])

    @contextmanager
    def entries(self) -> Iterator[Iterator[Row]]:
        """Read all entries in order; the query ends with the block, however it is left."""
        with closing(self.stream(_FROM, (1,))) as rows:
            yield cast("Iterator[Row]", rows)

    def tail(self, start: int) -> list[Row]:
        """Return the entries from a number on."""
        return cast("list[Row]", self.run(_FROM, (start,)))

    def entry(self, number: int) -> Entry | None:
        """Return one entry."""
        return self._one("number = ?", (number,))

    def previous(self, number: int, data: str) -> Entry | None:
        """Return the last entry before a number that may have changed an account of a data set."""
        condition = "number < ? AND about = 0 AND (data = ? OR kind = 'restored') ORDER BY number DESC LIMIT 1"
        return self._one(condition, (number, data))

    def charge_before(self, number: int, data: str, analyst: str) -> Entry | None:
        """Return an analyst's last charge on a data set before a number."""
        condition = "number < ? AND kind IN ('reserve', 'shared') AND data = ? AND analyst = ?"
        return self._one(f"{condition} ORDER BY number DESC LIMIT 1", (number, data, analyst))

    def parked(self) -> list[Entry]:
        """Return all requests and what was decided of them, oldest first."""
        rows = self.run(f"SELECT {_COLUMNS} FROM hush_entries WHERE {_PARKED} ORDER BY number")  # noqa: S608
        return [Entry.of(cast("Row", row)) for row in rows]

    def used_approvals(self) -> set[int]:
        """Return the requests that were approved, and charged."""
        rows = self.run(f"SELECT {_COLUMNS} FROM hush_entries WHERE {_APPROVED}")  # noqa: S608
        return {Entry.of(cast("Row", row)).read()["approved"] for row in rows}

    def reservation(self, analyst: str, request: str) -> Entry | None:
        """Return the charge that an analyst made under a request id: a reservation, or for a shared answer."""
        names = (analyst, request)
        return self._one("kind = 'reserve' AND analyst = ? AND request = ?", names) or self._one(
            "kind = 'shared' AND analyst = ? AND request = ? ORDER BY number LIMIT 1", names
        )

    def without_analyst(self, first: str, last: str) -> dict[str, tuple[int, str]]:
        """Return the reservations that nobody asked for and whose request ids lie between two.

        By its request id, each one's number and the kind of its outcome, which is empty if there is none yet.
        """
        rows = self.run(
            "SELECT charge.request, charge.number, outcome.kind FROM hush_entries charge LEFT JOIN hush_entries "
            "outcome ON outcome.about > 0 AND outcome.about = charge.number WHERE charge.kind = 'reserve' AND "
            "charge.analyst = '' AND charge.request >= ? AND charge.request <= ?",
            (first, last),
        )
        return {bytes(request).decode(): (number, bytes(kind or b"").decode()) for request, number, kind in rows}

    def act(self, identity: str) -> Entry | None:
        """Return the last act that was recorded under an identity."""
        return self._one("kind = 'act' AND request = ? ORDER BY number DESC LIMIT 1", (identity,))

    def repeats(self, question: str) -> list[Entry]:
        """Return the charges for one question, newest first."""
        rows = self.run(
            f"SELECT {_COLUMNS} FROM hush_entries WHERE number IN "  # noqa: S608
            "(SELECT number FROM hush_repeats WHERE question = ?) ORDER BY number DESC",
            (question,),
        )
        return [entry for entry in (Entry.of(cast("Row", row)) for row in rows) if entry.same_question == question]

    def bound(self, analyst: str, request: str) -> str | None:
        """Return the hash of the question that a request id was used for without a charge, if it was."""
        rows = self.run("SELECT question FROM hush_bound WHERE analyst = ? AND request = ?", (analyst, request))
        return None if not rows else rows[0][0].decode() if isinstance(rows[0][0], bytes) else rows[0][0]

    def bind(self, analyst: str, request: str, question: str) -> None:
        """Note which question a request id was used for, for a while (inside a lock)."""
        numbers = "SELECT COALESCE(MAX(number), 0) FROM hush_bound WHERE analyst = ?"
        number = self.run(numbers, (analyst,))[0][0] + 1
        self.change(
            "INSERT INTO hush_bound (analyst, request, question, number) VALUES (?, ?, ?, ?)",
            (analyst, request, question, number),
        )
        self.change("DELETE FROM hush_bound WHERE analyst = ? AND number <= ?", (analyst, number - _REMEMBERED))

    def outcome(self, number: int) -> Entry | None:
        """Return the outcome of a reservation."""
        return self._one("about > 0 AND about = ?", (number,))

    def _one(self, condition: str, parameters: Sequence[Any]) -> Entry | None:
        rows = self.run(f"SELECT {_COLUMNS} FROM hush_entries WHERE {condition}", parameters)  # noqa: S608
        return Entry.of(cast("Row", rows[0])) if rows else None

    def heaviest(self, data: str, analyst: str, limit: int) -> list[Entry]:
        """Return the reservations that took the largest shares of a budget."""
        condition, parameters = ("AND analyst = ?", (data, analyst)) if analyst else ("", (data,))
        rows = self.run(
            f"SELECT {_COLUMNS} FROM hush_entries WHERE kind = 'reserve' AND data = ? {condition} "  # noqa: S608
            f"ORDER BY weight DESC, number LIMIT {int(limit)}",
            parameters,
        )
        return [Entry.of(cast("Row", row)) for row in rows]

    def append(self, entry: Entry, *, after: Head) -> None:
        """Write an entry, on the condition that the head is still the one it was made for (inside a lock)."""
        marks = ", ".join("?" * len(entry.row))
        self.change(f"INSERT INTO hush_entries ({_COLUMNS}) VALUES ({marks})", self._stored(entry.row))  # noqa: S608
        if question := entry.same_question:
            self.change("INSERT INTO hush_repeats (number, question) VALUES (?, ?)", (entry.number, question))
        changed = self.change(
            "UPDATE hush_head SET number = ?, hash = ? WHERE id = 1 AND number = ? AND hash = ?",
            (entry.number, entry.hash, after.number, after.hash),
        )
        if changed != 1:
            raise LedgerDamagedError(f"The head of the ledger at {self.place} moved while it was locked.")

    @staticmethod
    def _stored(row: Row) -> tuple[Any, ...]:
        return tuple(value.decode() if isinstance(value, bytes) and at < 8 else value for at, value in enumerate(row))

    def keep_answer(self, number: int, answer: bytes) -> None:
        """Store an answer's bytes under its reservation's number."""
        self.change("INSERT INTO hush_answers (number, answer) VALUES (?, ?)", (number, answer))

    def answer(self, number: int) -> bytes | None:
        """Return a stored answer."""
        rows = self.run("SELECT answer FROM hush_answers WHERE number = ?", (number,))
        return bytes(rows[0][0]) if rows else None


VERSION: Final = 4

_REPEATS: Final[Sequence[str]] = (
    "CREATE TABLE hush_repeats (number {integer} PRIMARY KEY, question TEXT NOT NULL)",
    "CREATE INDEX hush_repeated ON hush_repeats (question, number)",
)

_BOUND: Final[Sequence[str]] = (
    # Not unique: before version 3 nothing bound the request id of a shared answer.
    "CREATE INDEX hush_shared_requests ON hush_entries (analyst, request) WHERE kind = 'shared'",
    "CREATE INDEX hush_acts ON hush_entries (request) WHERE kind = 'act'",
)

_WAITING: Final[Sequence[str]] = (
    f"CREATE INDEX hush_parked ON hush_entries (number) WHERE {_PARKED}",
    f"CREATE INDEX hush_approved ON hush_entries (number) WHERE {_APPROVED}",
    (
        "CREATE TABLE hush_bound (analyst TEXT NOT NULL, request TEXT NOT NULL, question TEXT NOT NULL,"
        " number BIGINT NOT NULL, PRIMARY KEY (analyst, request))"
    ),
)

CREATE: Final[Sequence[str]] = (
    "CREATE TABLE hush_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE hush_head (id INTEGER PRIMARY KEY CHECK (id = 1), number BIGINT NOT NULL, hash {blob} NOT NULL)",
    (
        "CREATE TABLE hush_entries (number {integer} PRIMARY KEY, kind TEXT NOT NULL, data TEXT NOT NULL,"
        " analyst TEXT NOT NULL, request TEXT NOT NULL, about BIGINT NOT NULL, weight BIGINT NOT NULL,"
        " body TEXT NOT NULL, hash {blob} NOT NULL)"
    ),
    "CREATE TABLE hush_answers (number {integer} PRIMARY KEY, answer {blob} NOT NULL)",
    # One reservation for each request id of an analyst, one outcome for each reservation.
    "CREATE UNIQUE INDEX hush_requests ON hush_entries (analyst, request) WHERE kind = 'reserve'",
    "CREATE UNIQUE INDEX hush_outcomes ON hush_entries (about) WHERE about > 0",
    *_REPEATS,
    *_BOUND,
    *_WAITING,
)

MIGRATIONS: Mapping[int, Sequence[str]] = {1: _REPEATS, 2: _BOUND, 3: _WAITING}
"""Statements that turn version n into version n + 1, by n."""


def statements(version: int, target: int, migrations: Mapping[int, Sequence[str]]) -> list[str]:
    """Return what turns one version into another."""
    return [statement for step in range(version, target) for statement in migrations[step]]
