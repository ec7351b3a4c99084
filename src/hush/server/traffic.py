"""What goes on at the moment, for all workers together: questions in the queue, and how often somebody came.

It lies in a SQLite file beside the people's, which may be lost at any time. A worker that was killed leaves nothing
behind that would lock anybody out: a ticket counts only as long as its process lives and its time has not run out.

**Rates** are exact across workers. A *generic cell rate algorithm* keeps one number for each key: the moment at which
the key would be idle again. Somebody may come as long as that moment is at most ``burst`` intervals ahead, and each
visit moves it one interval further.

>>> moments = iter([0, 0, 0, 1])
>>> traffic = Traffic.in_memory(clock=lambda: next(moments))
>>> [traffic.visit("alice", every=1, burst=2) for _ in range(4)]
[0.0, 0.0, 1.0, 0.0]
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from hush.core.values import dataclass
from hush.ledger.system import alive, this_process
from hush.server.people import sqlite

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tickets (
    id INTEGER PRIMARY KEY AUTOINCREMENT, person TEXT NOT NULL, request TEXT NOT NULL, process TEXT NOT NULL,
    entered REAL NOT NULL, started REAL, until REAL NOT NULL, cancelled INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE IF NOT EXISTS rates (key TEXT PRIMARY KEY, idle REAL NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS counters (
    process TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (process, name)) STRICT;
"""
_GRACE = 60.0
"""A ticket outlives its time limit by so many seconds at most, should its worker hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a question stands: in the queue, or at work. It says nothing of how far the work got."""

    request: str
    ahead: int
    """How many questions wait before it; 0 when it is at work."""
    running: bool
    seconds: float
    """How long it has been waiting, or at work."""


class Traffic:
    """The present of a service. Use it from any thread."""

    def __init__(self, place: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        self._connection = sqlite(place, _SCHEMA, durable=False)
        self._lock = threading.RLock()
        self._clock = clock

    @classmethod
    def in_memory(cls, *, clock: Callable[[], float] = time.time) -> Self:
        """Return a store for one process."""
        return cls(":memory:", clock=clock)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            finally:
                self._connection.execute("COMMIT")

    # rates

    def visit(self, key: str, *, every: float, burst: int) -> float:
        """Count a visit, and return 0; or, if it comes too soon, after how many seconds it may come."""
        with self._changing() as connection:
            now = self._clock()
            found = connection.execute("SELECT idle FROM rates WHERE key = ?", (key,)).fetchone()
            idle = max(now, min(found[0], now + burst * every)) if found else now  # a clock set back locks nobody out
            wait = idle + every - (now + burst * every)
            if wait > 1e-9:
                return wait
            connection.execute("INSERT OR REPLACE INTO rates VALUES (?, ?)", (key, idle + every))
            if not found:
                connection.execute("DELETE FROM rates WHERE idle < ?", (now - 3600,))
        return 0.0

    # the queue

    def enter(self, person: str, request: str, *, limit: float, queue: int, each: int) -> int | None:
        """Take a ticket; None if the queue, or this person's part of it, is full."""
        with self._changing() as connection:
            now = self._clock()
            self._bury(connection, "")
            waiting = connection.execute("SELECT COUNT(*), TOTAL(person = ?) FROM tickets", (person,)).fetchone()
            if waiting[0] >= queue or waiting[1] >= each:
                return None
            row = (person, request, _me(), now, now + 3600 + limit)
            into = "INSERT INTO tickets (person, request, process, entered, until) VALUES (?, ?, ?, ?, ?)"
            return connection.execute(into, row).lastrowid

    def start(self, ticket: int, *, limit: float) -> bool:
        """Let a ticket's question begin, unless another one of the same person is at work anywhere."""
        with self._changing() as connection:
            person = connection.execute("SELECT person FROM tickets WHERE id = ?", (ticket,)).fetchone()
            if person is None:
                return False
            self._bury(connection, person[0])
            busy = "SELECT 1 FROM tickets WHERE person = ? AND started IS NOT NULL"
            if connection.execute(busy, person).fetchone():
                return False
            now = self._clock()
            begin = "UPDATE tickets SET started = ?, until = ? WHERE id = ?"
            connection.execute(begin, (now, now + limit + _GRACE, ticket))
            return True

    def leave(self, ticket: int) -> None:
        """Hand a ticket back."""
        with self._changing() as connection:
            connection.execute("DELETE FROM tickets WHERE id = ?", (ticket,))

    def cancel(self, person: str, request: str) -> bool:
        """Ask whichever worker has a question to end it; say whether there is one."""
        with self._changing() as connection:
            mark = "UPDATE tickets SET cancelled = 1 WHERE person = ? AND request = ?"
            return bool(connection.execute(mark, (person, request)).rowcount)

    def cancelled(self) -> set[int]:
        """Return the tickets of this process that are to end."""
        with self._lock:
            wanted = "SELECT id FROM tickets WHERE cancelled AND process = ?"
            return {row[0] for row in self._connection.execute(wanted, (_me(),)).fetchall()}

    def places(self, person: str) -> list[Place]:
        """Return where somebody's questions stand."""
        now = self._clock()
        with self._lock:
            rows = self._connection.execute(
                "SELECT request, entered, started, (SELECT COUNT(*) FROM tickets o WHERE o.started IS NULL AND o.id < "
                "t.id) FROM tickets t WHERE person = ? ORDER BY id",
                (person,),
            ).fetchall()
        return [
            Place(
                request=request,
                ahead=0 if started else ahead,
                running=started is not None,
                seconds=now - (started or entered),
            )
            for request, entered, started, ahead in rows
        ]

    def _bury(self, connection: sqlite3.Connection, person: str) -> None:
        """Take away the tickets of processes that died, and those whose time is over."""
        rows = connection.execute(
            "SELECT id, process, until FROM tickets WHERE process <> ? AND ? IN (person, '')", (_me(), person)
        ).fetchall()
        verdicts: dict[str, bool | None] = {}
        for ticket, process, until in rows:
            if process not in verdicts:
                verdicts[process] = alive(json.loads(process))
            if verdicts[process] is False or until < self._clock():
                connection.execute("DELETE FROM tickets WHERE id = ?", (ticket,))

    # counters

    def count(self, values: Mapping[str, float]) -> None:
        """Write down this process's counters."""
        with self._changing() as connection:
            into = "INSERT OR REPLACE INTO counters VALUES (?, ?, ?)"
            connection.executemany(into, [(_me(), name, value) for name, value in values.items()])

    def counters(self) -> dict[str, float]:
        """Return the counters of all processes together, those of dead ones too."""
        with self._lock:
            rows = self._connection.execute("SELECT name, SUM(value) FROM counters GROUP BY name ORDER BY name")
            return dict(rows.fetchall())


def _me() -> str:
    return json.dumps(this_process(), sort_keys=True)


def as_json(places: list[Place]) -> list[dict[str, Any]]:
    """Return where questions stand as plain JSON values."""
    return [
        {"request": place.request, "running": place.running, "ahead": place.ahead, "seconds": round(place.seconds, 1)}
        for place in places
    ]
