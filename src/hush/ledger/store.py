"""The tables of a ledger, in a `hush.storage`, and the one lock that orders them.

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

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, cast

from hush.core import InvalidValueError
from hush.ledger.entries import Entry, Head, Row
from hush.ledger.errors import (
    RESTORE,
    LedgerBusyError,
    LedgerDamagedError,
    LedgerError,
    LedgerFullError,
    LedgerMissingError,
    LedgerUnavailableError,
    missing,
)
from hush.storage import Kind, Options, Storage, in_database, open_storage, without_password

_COLUMNS = "number, kind, data, analyst, request, about, weight, body, hash"
_CHARGED = "kind IN ('reserve', 'shared')"
_PARKED = "kind IN ('requested', 'approved', 'declined')"
_APPROVED = """kind IN ('reserve', 'shared') AND replace(body, '"approved":', '') <> body"""
"""The condition for charges that an owner approved; no text can imitate it, for its quotes are escaped in a body."""
_REMEMBERED = 1000
"""The number of request ids in ``hush_bound`` for each analyst; older ones are deleted."""
_INSERT = f"INSERT INTO hush_entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_TAIL = (
    f"SELECT entry.{_COLUMNS.replace(', ', ', entry.')}, head.number, head.hash FROM hush_head head "  # noqa: S608
    "LEFT JOIN hush_entries entry ON entry.number >= ? WHERE head.id = 1 ORDER BY entry.number"
)

LEAST_FREE = 64 * 2**20
"""With fewer bytes left on the disk nothing is charged."""


def failure(kind: Kind, place: str, error: Exception) -> LedgerError:
    """Return the error for a failure of the storage of a ledger or an anchor."""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    if kind == "busy":
        return LedgerBusyError(f"The ledger at {place} was locked for too long. Try again.")
    if kind == "unavailable":
        return LedgerUnavailableError(
            f"The ledger at {place} could not be reached, read or written ({reason}). Nothing is granted. Check the "
            "disk (space, rights) or the server, then try again."
        )
    return LedgerDamagedError(
        f"The ledger at {place} is not readable as a ledger ({reason}). No budget is given out. {RESTORE}"
    )


OPTIONS = Options(lock="hush ledger", lock_table="hush_head", raw=True, fsync=True, wait=30.0, failure=failure)


def spellings(url: str | Path) -> tuple[str, ...]:
    """Return the names of a place: its own first, without links and detours, then the one that was written.

    >>> spellings("/srv/clinic/../clinic/hush.ledger")
    ('/srv/clinic/hush.ledger', '/srv/clinic/../clinic/hush.ledger')
    """
    if in_database(url):
        return (without_password(str(url)),)
    if url == ":memory:":
        return ("memory",)
    return tuple(dict.fromkeys((os.path.realpath(url), str(Path(url).absolute()))))


def open_store(url: str | Path, *, create: bool) -> Store:
    """Return the store at a path, at ``:memory:`` or at a ``postgresql://`` URL."""
    if not in_database(url):
        if "://" in str(url):
            shown = str(url).split("://", maxsplit=1)[0] + "://…"
            raise InvalidValueError("ledger", got=shown, allowed="a path or a postgresql:// URL")
        if not create and url != ":memory:" and not Path(url).exists():
            raise LedgerMissingError(missing(str(Path(url).absolute())))
    return Store(open_storage(url, OPTIONS))


class Store:
    """Entries in the tables of a storage, which has the lock; used by one thread at a time (the chain sees to it)."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.place = storage.place
        """The ledger's name in messages and in default anchors; without any password."""

    def check_room(self, quota: Callable[[], None] | None = None) -> None:
        """Refuse a charge where the disk is nearly full, for the answer must be kept too; or where a quota is used up.

        ``quota`` is a function that refuses.
        """
        free = self.storage.free_bytes()
        if free is not None and free < LEAST_FREE:
            raise LedgerFullError(
                f"The disk of the ledger at {self.place} has {free // 2**20} MiB left, and charges need "
                f"{LEAST_FREE >> 20} MiB, so that what is paid for can be kept. Nothing was charged. Make room, then "
                "ask again."
            )
        if quota is not None:
            quota()

    def prepare(self) -> None:
        """Make the tables (inside a lock)."""
        self.storage.make(CREATE)
        self.storage.change("INSERT INTO hush_meta (name, value) VALUES (?, ?)", "version", str(VERSION))
        self.storage.change("INSERT INTO hush_head (id, number, hash) VALUES (1, 0, ?)", Head().hash)

    def migrate(self) -> None:
        """Bring an older ledger's tables to this version; refuse a newer one."""
        if self._version() == VERSION:
            return
        with self.storage.changing():
            # Read again under the lock: another process may have migrated the ledger meanwhile.
            version = self._version()
            if not 1 <= version <= VERSION:
                raise LedgerError(
                    f"The ledger at {self.place} has schema version {version}; this hush knows versions 1 to "
                    f"{VERSION}. Use the newer hush that wrote it."
                )
            for step in range(version, VERSION):
                self.storage.make(MIGRATIONS[step])
            self.storage.change("UPDATE hush_meta SET value = ? WHERE name = ?", str(VERSION), "version")

    def _version(self) -> int:
        rows = self.storage.rows("SELECT value FROM hush_meta WHERE name = ?", "version")
        try:
            return int(rows[0][0])
        except (IndexError, ValueError, TypeError) as error:
            raise LedgerDamagedError(f"The ledger at {self.place} does not say which version it is.") from error

    @contextmanager
    def entries(self) -> Iterator[Iterator[Row]]:
        """Read all entries in order; the query ends with the block, however it is left."""
        with closing(self.storage.stream(f"SELECT {_COLUMNS} FROM hush_entries ORDER BY number")) as rows:  # noqa: S608
            yield cast("Iterator[Row]", rows)

    def tail(self, start: int) -> tuple[list[Row], Head]:
        """Return the entries from a number on, and the stored head, which the conditional write compares."""
        rows = self.storage.rows(_TAIL, start)
        if not rows:
            raise LedgerDamagedError(f"The ledger at {self.place} has lost its head.")
        *_, number, hashed = rows[0]
        # The head's two columns are left out; there is one row without an entry where none follows.
        entries = [] if rows[0][0] is None else list(map(itemgetter(slice(9)), rows))
        return cast("list[Row]", entries), Head(number=number, hash=hashed)

    def find(self, condition: str, *values: Any) -> list[Entry]:
        """Return the entries that fulfil a condition of SQL."""
        rows = self.storage.rows(f"SELECT {_COLUMNS} FROM hush_entries WHERE {condition}", *values)  # noqa: S608
        return list(map(Entry.of, cast("list[Row]", rows)))

    def entry(self, number: int) -> Entry | None:
        """Return one entry."""
        return next(iter(self.find("number = ?", number)), None)

    def outcome(self, number: int) -> Entry | None:
        """Return the outcome of a reservation."""
        # "about > 0" is the condition of the unique index, which is used only by queries that repeat it.
        return next(iter(self.find("about > 0 AND about = ?", number)), None)

    def outcomes(self, first: int) -> dict[int, Entry]:
        """Return the outcomes of all reservations from a number on, by the reservations' numbers."""
        return {entry.about: entry for entry in self.find("about > 0 AND about >= ?", first)}

    def previous(self, number: int, data: str) -> Entry | None:
        """Return the last entry before a number that may have changed an account of a data set."""
        condition = "number < ? AND about = 0 AND (data = ? OR kind = 'restored') ORDER BY number DESC LIMIT 1"
        return next(iter(self.find(condition, number, data)), None)

    def charge_before(self, number: int, data: str, analyst: str) -> Entry | None:
        """Return an analyst's last charge on a data set before a number."""
        condition = f"number < ? AND {_CHARGED} AND data = ? AND analyst = ?"
        return next(iter(self.find(f"{condition} ORDER BY number DESC LIMIT 1", number, data, analyst)), None)

    def charges(self, data: str | None, analyst: str | None, limit: int | None) -> list[Entry]:
        """Return the newest charges: on one data set or all, of one analyst or all."""
        values = {column: value for column, value in (("data", data), ("analyst", analyst)) if value is not None}
        condition = " AND ".join([_CHARGED, *(f"{column} = ?" for column in values)])
        most = "" if limit is None else f" LIMIT {int(limit)}"
        return self.find(f"{condition} ORDER BY number DESC{most}", *values.values())

    def acts(self) -> list[Entry]:
        """Return everything but charges and their outcomes, oldest first."""
        return self.find(f"NOT {_CHARGED} AND about = 0 ORDER BY number")

    def parked(self) -> list[Entry]:
        """Return all requests and all decisions on requests, oldest first."""
        return self.find(f"{_PARKED} ORDER BY number")

    def used_approvals(self) -> set[int]:
        """Return the requests that were approved, and charged."""
        return {entry.read()["approved"] for entry in self.find(_APPROVED)}

    def reservation(self, analyst: str, request: str) -> Entry | None:
        """Return the charge that an analyst made under a request id: a reservation, or for a shared answer."""
        # Each kind has a partial index of its own.
        own = "SELECT number FROM hush_entries WHERE kind = '%s' AND analyst = ? AND request = ?"
        both = f"number IN ({own % 'reserve'} UNION ALL {own % 'shared'}) ORDER BY kind, number LIMIT 1"
        return next(iter(self.find(both, analyst, request, analyst, request)), None)

    def without_analyst(self, first: str, last: str) -> dict[str, tuple[int, str]]:
        """Return the reservations without an analyst that have a request id from ``first`` to ``last``.

        The result has, by request id, the reservation's number and its outcome's kind (empty without an outcome).
        """
        charges = (
            "SELECT charge.request, charge.number, outcome.kind FROM hush_entries charge LEFT JOIN hush_entries "
            "outcome ON outcome.about > 0 AND outcome.about = charge.number WHERE charge.kind = 'reserve' AND "
            "charge.analyst = '' AND charge.request >= ? AND charge.request <= ?"
        )
        rows = self.storage.rows(charges, first, last)
        return {bytes(request).decode(): (number, bytes(kind or b"").decode()) for request, number, kind in rows}

    def act(self, identity: str) -> Entry | None:
        """Return the last act that was recorded under an identity."""
        return next(iter(self.find("kind = 'act' AND request = ? ORDER BY number DESC LIMIT 1", identity)), None)

    def repeats(self, question: str) -> list[Entry]:
        """Return the charges that are listed for one question, newest first.

        The list is not covered by the hashes, the entries are: believe their `same_question`.
        """
        charges = "number IN (SELECT number FROM hush_repeats WHERE question = ?) ORDER BY number DESC"
        return self.find(charges, question)

    def bound(self, analyst: str, request: str) -> str | None:
        """Return the hash of the question that a request id was used for without a charge, if it was."""
        rows = self.storage.rows("SELECT question FROM hush_bound WHERE analyst = ? AND request = ?", analyst, request)
        return bytes(rows[0][0]).decode() if rows else None

    def bind(self, analyst: str, request: str, question: str) -> None:
        """Note which question a request id was used for, for a while (inside a lock)."""
        numbers = "SELECT COALESCE(MAX(number), 0) FROM hush_bound WHERE analyst = ?"
        number = self.storage.rows(numbers, analyst)[0][0] + 1
        insert = "INSERT INTO hush_bound (analyst, request, question, number) VALUES (?, ?, ?, ?)"
        self.storage.change(insert, analyst, request, question, number)
        self.storage.change("DELETE FROM hush_bound WHERE analyst = ? AND number <= ?", analyst, number - _REMEMBERED)

    def heaviest(self, data: str, analyst: str, limit: int) -> list[Entry]:
        """Return the reservations that took the largest shares of a budget."""
        condition, values = ("AND analyst = ?", [data, analyst]) if analyst else ("", [data])
        order = f"ORDER BY weight DESC, number LIMIT {int(limit)}"
        return self.find(f"kind = 'reserve' AND data = ? {condition} {order}", *values)

    def append(self, entry: Entry, *, after: Head, answer: bytes | None = None) -> None:
        """Write an entry, on the condition that the head is still the one it was made for (inside a lock).

        An answer is kept under its reservation's number: there is never an outcome without its answer, nor an answer
        without its outcome.
        """
        change = self.storage.change
        if answer is not None:
            change("INSERT INTO hush_answers (number, answer) VALUES (?, ?)", entry.about, answer)
        names = entry.number, entry.kind, entry.data, entry.analyst, entry.request
        change(_INSERT, *names, entry.about, entry.weight, entry.body.decode(), entry.hash)
        if question := entry.same_question:
            change("INSERT INTO hush_repeats (number, question) VALUES (?, ?)", entry.number, question)
        moved = "UPDATE hush_head SET number = ?, hash = ? WHERE id = 1 AND number = ? AND hash = ?"
        # The lock should exclude this. If it did not, two writers decided on the same head, and this one must give up.
        if change(moved, entry.number, entry.hash, after.number, after.hash) != 1:
            raise LedgerDamagedError(f"The head of the ledger at {self.place} moved while it was locked.")

    def answer(self, number: int) -> bytes | None:
        """Return a stored answer."""
        rows = self.storage.rows("SELECT answer FROM hush_answers WHERE number = ?", number)
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
