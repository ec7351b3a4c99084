"""What goes on at the moment, for all workers together: questions in the queue, and how often somebody came.

It lies in a SQLite file beside the people's, or in their database, and may be lost at any time. A worker that was
killed leaves nothing behind that would lock anybody out: a ticket counts only as long as its process lives and its time
has not run out.

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
import time
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Self

from hush.core.values import dataclass
from hush.ledger.system import alive, this_process
from hush.server.storage import open_storage

_SCHEMA = (
    (
        "CREATE {kept} TABLE IF NOT EXISTS hush_tickets (id {serial} PRIMARY KEY, person TEXT NOT NULL, "
        "request TEXT NOT NULL, process TEXT NOT NULL, entered {real} NOT NULL, started {real}, until {real} NOT NULL, "
        "cancelled INTEGER NOT NULL DEFAULT 0)"
    ),
    "CREATE {kept} TABLE IF NOT EXISTS hush_flows (key TEXT PRIMARY KEY, content TEXT NOT NULL, until {real} NOT NULL)",
    "CREATE {kept} TABLE IF NOT EXISTS hush_rates (key TEXT PRIMARY KEY, idle {real} NOT NULL)",
    (
        "CREATE {kept} TABLE IF NOT EXISTS hush_counters (process TEXT NOT NULL, name TEXT NOT NULL, "
        "value {real} NOT NULL, PRIMARY KEY (process, name))"
    ),
)
_CANCELLED, _CLOSED = 1, 2
"""What the column ``cancelled`` says of a ticket besides 0: it is to end; its outcome is decided."""
_GRACE = 60.0
"""A ticket outlives its time limit by so many seconds at most, should its worker hang."""


class Rate(Enum):
    """How often somebody may do what: once in ``every`` seconds in the long run, and ``burst`` times at once."""

    def __init__(self, key: str, every: float, burst: int, what: str) -> None:
        self.key, self.every, self.burst, self.what = key, every, burst, what

    VISITS = "visit", 1 / 100, 1000, "requests"
    QUESTIONS = "ask", 1 / 10, 200, "questions"
    EXPLANATIONS = "explain", 1 / 40, 400, "explanations"
    TRIALS = "dummy", 1 / 5, 100, "trials"
    TRIES = "try", 1, 60, "tries"
    REQUESTS = "request", 60, 20, "requests"
    TOKENS = "token", 10, 50, "tokens"
    PASSWORDS = "password", 60, 5, "attempts"
    SIGN_INS_OF_AN_ADDRESS = "sign-in from", 6, 20, "attempts"
    SIGN_INS_OF_A_NAME = "sign-in as", 30, 20, "attempts"
    WELCOMES = "welcome from", 6, 20, "attempts"
    DOORS = "door", 0.5, 60, "connections"


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
        self._storage = open_storage(place, _SCHEMA, durable=False)
        self._clock = clock

    @classmethod
    def in_memory(cls, *, clock: Callable[[], float] = time.time) -> Self:
        """Return a store for one process."""
        return cls(":memory:", clock=clock)

    def close(self) -> None:
        """Let go of the file or the connection."""
        self._storage.close()

    # rates

    def visit(self, key: str, *, every: float, burst: int) -> float:
        """Count a visit, and return 0; or, if it comes too soon, after how many seconds it may come."""
        with self._storage.changing():
            now = self._clock()
            idle_until = self._storage.rows("SELECT idle FROM hush_rates WHERE key = ?", key)
            idle = (
                max(now, min(idle_until[0][0], now + burst * every)) if idle_until else now
            )  # a clock set back locks nobody out
            wait = idle + every - (now + burst * every)
            if wait > 1e-9:
                return wait
            into = "INSERT INTO hush_rates VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET idle = excluded.idle"
            self._storage.change(into, key, idle + every)
            if not idle_until:
                self._storage.change("DELETE FROM hush_rates WHERE idle < ?", now - 3600)
        return 0.0

    # the queue

    def enter(self, person: str, request: str, *, limit: float, queue: int, each: int) -> int | None:
        """Take a ticket; None if the queue, or this person's part of it, is full."""
        with self._storage.changing():
            now = self._clock()
            self._bury("")
            counted = "SELECT COUNT(*), COUNT(CASE WHEN person = ? THEN 1 END) FROM hush_tickets"
            waiting = self._storage.rows(counted, person)[0]
            if waiting[0] >= queue or waiting[1] >= each:
                return None
            into = (
                "INSERT INTO hush_tickets (person, request, process, entered, until) VALUES (?, ?, ?, ?, ?) "
                "RETURNING id"
            )
            row = self._storage.rows(into, person, request, _me(), now, now + 3600 + limit)
            return int(row[0][0])

    def start(self, ticket: int, *, limit: float) -> bool:
        """Let a ticket's question begin, unless another one of the same person is at work anywhere."""
        with self._storage.changing():
            tickets = self._storage.rows("SELECT person FROM hush_tickets WHERE id = ?", ticket)
            if not tickets:
                return False
            person = tickets[0][0]
            self._bury(person)
            if self._storage.rows("SELECT 1 FROM hush_tickets WHERE person = ? AND started IS NOT NULL", person):
                return False
            now = self._clock()
            begin = "UPDATE hush_tickets SET started = ?, until = ? WHERE id = ?"
            self._storage.change(begin, now, now + limit + _GRACE, ticket)
            return True

    def leave(self, ticket: int) -> None:
        """Hand a ticket back."""
        with self._storage.changing():
            self._storage.change("DELETE FROM hush_tickets WHERE id = ?", ticket)

    def cancel(self, person: str, request: str) -> bool:
        """Ask whichever worker has a question to end it; say whether there is one, whose outcome is not decided."""
        with self._storage.changing():
            mark = "UPDATE hush_tickets SET cancelled = ? WHERE person = ? AND request = ? AND cancelled <> ?"
            return bool(self._storage.change(mark, _CANCELLED, person, request, _CLOSED))

    def cancelled(self) -> set[int]:
        """Return the tickets of this process that are to end."""
        wanted = "SELECT id FROM hush_tickets WHERE cancelled = ? AND process = ?"
        return {row[0] for row in self._storage.rows(wanted, _CANCELLED, _me())}

    def close_ticket(self, ticket: int) -> bool:
        """Take no cancel for a question any more, because it leaves now; False if one came before."""
        with self._storage.changing():
            if self._storage.rows("SELECT 1 FROM hush_tickets WHERE id = ? AND cancelled = ?", ticket, _CANCELLED):
                return False
            self._storage.change("UPDATE hush_tickets SET cancelled = ? WHERE id = ?", _CLOSED, ticket)
            return True

    def places(self, person: str) -> list[Place]:
        """Return where somebody's questions stand."""
        now = self._clock()
        rows = self._storage.rows(
            "SELECT request, entered, started, (SELECT COUNT(*) FROM hush_tickets o WHERE o.started IS NULL AND "
            "o.id < t.id) FROM hush_tickets t WHERE person = ? ORDER BY id",
            person,
        )
        return [
            Place(
                request=request,
                ahead=0 if started else ahead,
                running=started is not None,
                seconds=now - (started or entered),
            )
            for request, entered, started, ahead in rows
        ]

    def _bury(self, person: str) -> None:
        """Take away the tickets of processes that died, and those whose time is over."""
        others = "SELECT id, process, until FROM hush_tickets WHERE process <> ? AND ? IN (person, '')"
        rows = self._storage.rows(others, _me(), person)
        verdicts: dict[str, bool | None] = {}
        for ticket, process, until in rows:
            if process not in verdicts:
                verdicts[process] = alive(json.loads(process))
            if verdicts[process] is False or until < self._clock():
                self._storage.change("DELETE FROM hush_tickets WHERE id = ?", ticket)

    # sign-ins that are under way at another place

    def begin_flow(self, key: str, content: str, *, seconds: float) -> None:
        """Keep something until somebody comes back with its key."""
        with self._storage.changing():
            now = self._clock()
            self._storage.change("DELETE FROM hush_flows WHERE until < ?", now)
            self._storage.change("INSERT INTO hush_flows VALUES (?, ?, ?)", key, content, now + seconds)

    def end_flow(self, key: str) -> str | None:
        """Return what was kept under a key, once, if its time has not run out."""
        with self._storage.changing():
            flows = self._storage.rows("DELETE FROM hush_flows WHERE key = ? RETURNING content, until", key)
        return str(flows[0][0]) if flows and flows[0][1] > self._clock() else None

    # counters

    def count(self, values: Mapping[str, float]) -> None:
        """Write down this process's counters."""
        into = "INSERT INTO hush_counters VALUES (?, ?, ?) ON CONFLICT (process, name) DO UPDATE SET value = "
        into += "excluded.value"
        with self._storage.changing():
            for name, value in values.items():
                self._storage.change(into, _me(), name, value)

    def counters(self) -> dict[str, float]:
        """Return the counters of all processes together, those of dead ones too."""
        return dict(self._storage.rows("SELECT name, SUM(value) FROM hush_counters GROUP BY name ORDER BY name"))


def _me() -> str:
    return json.dumps(this_process(), sort_keys=True)


def as_json(places: list[Place]) -> list[dict[str, Any]]:
    """Return where questions stand as plain JSON values."""
    return [
        {"request": place.request, "running": place.running, "ahead": place.ahead, "seconds": round(place.seconds, 1)}
        for place in places
    ]
