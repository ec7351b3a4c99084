"""The queue of questions, which all workers share: who waits, who is at work, and who has cancelled.

It lies in a SQLite file beside the people's, or in their database, and may be lost at any time. A worker that was
killed locks nobody out: a ticket counts only while its process lives and its time has not run out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from hush.storage import Storage, alive, this_process

SCHEMA = (
    (
        "CREATE {kept} TABLE IF NOT EXISTS hush_tickets (id {serial} PRIMARY KEY, person TEXT NOT NULL, "
        "request TEXT NOT NULL, process TEXT NOT NULL, entered {real} NOT NULL, started {real}, until {real} NOT NULL, "
        "cancelled INTEGER NOT NULL DEFAULT 0)"
    ),
)
_CANCELLED, _CLOSED = 1, 2
"""Values of the column ``cancelled`` besides 0: the question is to end; its outcome is decided."""
_GRACE = 60.0
"""Seconds by which a ticket outlives its time limit at most, should its worker hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A question's position: in the queue, or at work. It says nothing of how far the work got."""

    request: str
    ahead: int
    """The number of questions that wait before it; 0 when it is at work."""
    running: bool
    seconds: float
    """How long it has been waiting, or at work."""


class QuestionQueue:
    """The queue of a service. Use it from any thread."""

    def __init__(self, storage: Storage, *, clock: Callable[[], float] = time.time) -> None:
        self._storage, self._clock = storage, clock

    def enter(self, person: str, request: str, *, limit: float, queue: int, each: int) -> int | None:
        """Return a new ticket; None if the queue or this person's share is full."""
        with self._storage.changing():
            now = self._clock()
            self._drop_dead("")
            counted = "SELECT COUNT(*), COUNT(CASE WHEN person = ? THEN 1 END) FROM hush_tickets"
            waiting, tickets = self._storage.rows(counted, person)[0]
            if waiting >= queue or tickets >= each:
                return None
            into = (
                "INSERT INTO hush_tickets (person, request, process, entered, until) VALUES (?, ?, ?, ?, ?) "
                "RETURNING id"
            )
            # The hour bounds how long a waiting ticket counts whose worker died on another host.
            row = self._storage.rows(into, person, request, _this_process(), now, now + 3600 + limit)
            return int(row[0][0])

    def start(self, ticket: int, *, limit: float) -> bool:
        """Let a ticket's question begin, unless the same person has another one at work on any worker."""
        with self._storage.changing():
            tickets = self._storage.rows("SELECT person FROM hush_tickets WHERE id = ?", ticket)
            if not tickets:
                return False
            person = tickets[0][0]
            self._drop_dead(person)
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
        """Mark a question as cancelled; return whether there is one with an outcome that is not decided."""
        with self._storage.changing():
            # The outcome of a closed ticket is decided: a cancel comes too late, and must not be confirmed.
            mark = "UPDATE hush_tickets SET cancelled = ? WHERE person = ? AND request = ? AND cancelled <> ?"
            return bool(self._storage.change(mark, _CANCELLED, person, request, _CLOSED))

    def cancelled(self) -> set[int]:
        """Return the cancelled tickets of this process."""
        query = "SELECT id FROM hush_tickets WHERE cancelled = ? AND process = ?"
        return {row[0] for row in self._storage.rows(query, _CANCELLED, _this_process())}

    def close_ticket(self, ticket: int) -> bool:
        """Accept no cancel for a question any more, because it leaves now; False if one came before."""
        with self._storage.changing():
            # Read and marked in one transaction: no cancel can come in between.
            if self._storage.rows("SELECT 1 FROM hush_tickets WHERE id = ? AND cancelled = ?", ticket, _CANCELLED):
                return False
            self._storage.change("UPDATE hush_tickets SET cancelled = ? WHERE id = ?", _CLOSED, ticket)
            return True

    def positions(self, person: str) -> list[Position]:
        """Return the positions of a person's questions."""
        now = self._clock()
        rows = self._storage.rows(
            "SELECT request, entered, started, (SELECT COUNT(*) FROM hush_tickets o WHERE o.started IS NULL AND "
            "o.id < t.id) FROM hush_tickets t WHERE person = ? ORDER BY id",
            person,
        )
        return [
            Position(
                request=request,
                ahead=0 if started else ahead,
                running=started is not None,
                seconds=round(now - (started or entered), 1),
            )
            for request, entered, started, ahead in rows
        ]

    def _drop_dead(self, person: str) -> None:
        """Delete the tickets of processes that died, and expired ones."""
        # An empty name stands for everybody.
        query = "SELECT id, process, until FROM hush_tickets WHERE process <> ? AND ? IN (person, '')"
        rows = self._storage.rows(query, _this_process(), person)
        living: dict[str, bool | None] = {}  # None: another host's process, which only its time limit ends
        for ticket, process, until in rows:
            if process not in living:
                living[process] = alive(json.loads(process))
            if living[process] is False or until < self._clock():
                self._storage.change("DELETE FROM hush_tickets WHERE id = ?", ticket)


def _this_process() -> str:
    return json.dumps(this_process(), sort_keys=True)
