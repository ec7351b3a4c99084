"""The way of a question through a service: its turn, its time, and the moment at which its outcome leaves.

*Turns.* A worker computes a few questions at once and lets the others wait, in the order in which they came. Nobody has
two at work at the same time, on whichever worker. The queue is bounded, and so is everybody's part of it.

*Slots.* How long a question computes depends on the rows it reads. So whatever happens after the charge happens at
public moments: counted from the charge, after s, 2·s, 4·s, … seconds, and at the time limit. The first slot s follows
from public figures alone: the statements that the question became, the public tables that it joins, how many rows its
tables have as the policy declares (`rows`), and the service's shortest slot, ``tick`` (`hush.engines.protocol.Effort`).
At the first slot that the computation does not miss, and not before,

1. the outcome is written into the ledger (whose entries have a time, and which analysts may read),
2. the answer or the error leaves,
3. the turn ends, and the next question begins.

*What that tells.* As long as the work is done by s, the moment tells nothing of the rows: s was known before. The
figures are generous, so work is late where tables are much larger than declared, where most texts are very long, or
where the machine is slow. Then an observer learns which of the log₂(limit/s)+2 slots it was: with a tick of 0.1 s and a
limit of 30 s that is one of 10, so less than 3.4 bits for each question that is late, and nothing for the others. An
analyst who knows all rows but one person's can try to have a question end close to a slot beyond s, and learn by it
whether that person has rows; the owner's log names every answer that missed its first slot, and what to declare. Slots
do not average out, as random delays would: the first one hides all durations below it, however often it is measured.

*Time limit.* A question that is not ready at its limit is ended there: it stays charged, and the error is the one of
every failure. What it still computes stops (`hush.core.work`), and is thrown away.

*Leaving.* Should the asker go while a question is at work, because a connection breaks or the service ends, it keeps
its turn up to its slot all the same, and its outcome is recorded there.

*Cancelling* never shows how far a question got. What becomes of it follows from when the cancel came, and from slots:

*   before the charge: it ends at once, and nothing is charged;
*   before the slot at which it would have left: it ends as cancelled at the next tick, charged, and what was computed
    is thrown away, whether or not it was ready; up to that slot it was not known to anybody;
*   later: it has left, and there is nothing to cancel.

One place decides, `Questions._end`: at ticks whether a cancel came, and at slots then whether the result is there. A
ticket with a decided outcome takes no cancel any more (`QuestionQueue.close_ticket`), so an analyst who was told that a
question is cancelled gets no answer to it.

*The queue* lies in a SQLite file beside the people's, or in their database; all workers share it, and it may be lost at
any time. A worker that was killed locks nobody out: a ticket counts only while its process lives and its time has not
run out.

The price of a question, and every refusal before the charge, depends on question and policy alone and needs no slot.
Planning may look at the statistics that a file keeps of its rows, which takes microseconds more or less; so the charge
itself is made in steps of a twentieth of a second.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from hush.core.work import Work, lift, limited
from hush.curator.session import Outlet
from hush.engines.errors import EngineError
from hush.server.errors import BusyError, CancelledError, StorageError
from hush.server.settings import ServiceSettings
from hush.storage import Storage, alive, this_process

log = logging.getLogger("hush.curator")
Result = TypeVar("Result")
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
_LOOK = 0.1
"""Seconds between two checks for ended or cancelled questions of other workers."""
_PLANNED = 0.05
"""The step of charges, in seconds: a charge is made a whole number of steps after its question's turn began."""
_PATIENCE = 10.0
"""Seconds beyond the time limit for which a thread waits for a decision."""
MOST_WORK = 5_000_000
"""The most steps of work before a charge, and for free operations: some five seconds."""


class QuestionQueue:
    """The queue of a service. Use it from any thread."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def enter(self, person: str, request: str, *, limit: float, queue: int, each: int) -> int | None:
        """Return a new ticket; None if the queue or this person's share is full."""
        with self._storage.changing():
            now = time.time()
            self._drop_dead("")
            counted = "SELECT COUNT(*), COUNT(CASE WHEN person = ? THEN 1 END) FROM hush_tickets"
            waiting, tickets = self._storage.rows(counted, person)[0]
            if waiting >= queue or tickets >= each:
                return None
            columns = "(person, request, process, entered, until)"
            into = f"INSERT INTO hush_tickets {columns} VALUES (?, ?, ?, ?, ?) RETURNING id"  # noqa: S608 - ours
            # The hour bounds how long a waiting ticket counts whose worker died on another host.
            row = self._storage.rows(into, person, request, _this_process(), now, now + 3600 + limit)
            return int(row[0][0])

    def start(self, ticket: int, *, limit: float) -> bool:
        """Let a ticket's question begin, unless the same person has another one at work on any worker."""
        with self._storage.changing():
            tickets = self._storage.rows("SELECT person FROM hush_tickets WHERE id = ?", ticket)
            if not tickets:
                return False
            self._drop_dead(tickets[0][0])
            now = time.time()
            alone = "NOT EXISTS (SELECT 1 FROM hush_tickets WHERE person = ? AND started IS NOT NULL)"
            begin = f"UPDATE hush_tickets SET started = ?, until = ? WHERE id = ? AND {alone}"  # noqa: S608 - ours
            return bool(self._storage.change(begin, now, now + limit + _GRACE, ticket, tickets[0][0]))

    def leave(self, ticket: int) -> None:
        """Hand a ticket back."""
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

    def positions(self, person: str) -> list[dict[str, Any]]:
        """Return the positions of a person's questions, for how long each, and how many wait before it.

        Nothing is said of how far the work got.
        """
        now = time.time()
        rows = self._storage.rows(
            "SELECT request, entered, started, (SELECT COUNT(*) FROM hush_tickets o WHERE o.started IS NULL AND "
            "o.id < t.id) FROM hush_tickets t WHERE person = ? ORDER BY id",
            person,
        )
        return [
            {
                "request": request,
                "ahead": 0 if started else ahead,
                "running": started is not None,
                "seconds": round(now - (started or entered), 1),
            }
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
            if living[process] is False or until < time.time():
                self._storage.change("DELETE FROM hush_tickets WHERE id = ?", ticket)


def _this_process() -> str:
    return json.dumps(this_process(), sort_keys=True)


class Turn(Outlet):
    """A question while it is computed: the `hush.curator.session.Outlet` that holds its outcome until the next slot.

    Its thread computes and says when it is ready; the worker's loop decides, at slots.
    """

    def __init__(
        self, ticket: int, settings: ServiceSettings, cancelled: Callable[[], bool], begun: Callable[[], None]
    ) -> None:
        self.ticket = ticket
        self.tick, self.limit = settings.tick, settings.limit
        self.first = settings.tick
        """The first slot, which follows from public figures; 0 without slots."""
        self.cancelled = cancelled
        self._since = time.monotonic()
        self.charged_at: float | None = None
        """When rows began to be read, after a charge or within an earlier one: slots are counted from there."""
        self.fail: Callable[[], None] | None = None
        """Writes into the ledger that there is no answer; None unless this question was charged."""
        self._begun = begun
        self._decided = threading.Lock()
        self._outcome = ""
        self.ready_after = math.inf
        """When the result was there, counted from the charge."""
        self._over = threading.Event()
        self.work: Work | None = None

    def before_charge(self) -> None:
        """Wait for the public moment of the charge: an engine looks at the statistics of files when it plans."""
        step = min(self.tick / 2, _PLANNED)
        if step:
            # Up to the next whole step since the turn began: how long planning took is rounded away.
            time.sleep(step - (time.monotonic() - self._since) % step)
        self.check_cancelled()

    def check_cancelled(self) -> None:
        """Refuse to charge, or to read rows, for an asker who cancelled."""
        if self.cancelled():
            raise CancelledError(charged=False)

    def after_charge(self) -> None:
        """Lift the limit of work: its refusal would wrongly say that nothing was charged."""
        lift(self.check_wanted)

    def begin(self, seconds: float, fail: Callable[[], None] | None) -> None:
        """Count slots from now on. The first one is after ``seconds``, which follow from public figures."""
        # Without ``fail`` nothing was charged just now, so a cancel can still end the question free of charge.
        if fail is None:
            self.check_cancelled()
        self.fail = fail
        with self._decided:
            self.first = min(max(self.tick, seconds), self.limit) if self.tick else 0.0
            # A turn may read rows several times: each time it counts its slots anew.
            self._outcome, self.ready_after = "", math.inf
            self._over.clear()
            self.charged_at = time.monotonic()
        lift(self.check_wanted)
        self._begun()

    def check_wanted(self) -> None:
        """Stop the computation of a question that was cancelled or too late."""
        if self.ended_from_outside:
            raise EngineError

    def end(self, outcome: str) -> bool:
        """Set the outcome of the question, once; return whether this call set it."""
        with self._decided:
            if self._outcome:
                return False
            self._outcome = outcome
            self._over.set()
        if self.ended_from_outside and self.work is not None:
            self.work.interrupt()
        return True

    @property
    def ended_from_outside(self) -> bool:
        """Whether the question was cancelled or too late."""
        return self._outcome in {"late", "cancelled"}

    def wait(self) -> bool:
        """Note that the result is there, and return when its slot has come; False if the question ended otherwise."""
        assert self.charged_at is not None  # noqa: S101 - waits after the charge alone
        elapsed = self.ready_after = time.monotonic() - self.charged_at
        # Without slots an outcome leaves as soon as it is ready.
        if not self.tick and elapsed < self.limit:
            return self.end("done")
        if not self._over.wait(self.limit + _PATIENCE):  # the loop that decides is gone, and so is the asker
            self.end("done")
        return self._outcome == "done"


class Questions:
    """The questions of one worker."""

    def __init__(self, tickets: QuestionQueue, settings: ServiceSettings) -> None:
        self._tickets, self._settings, self._limit = tickets, settings, settings.limit
        self._waiting: deque[tuple[Turn, asyncio.Future[None]]] = deque()
        self._running: set[int] = set()
        self._looking: asyncio.TimerHandle | None = None
        self._left: set[int] = set()
        """Tickets that are to be handed back."""

    @property
    def idle(self) -> bool:
        """Whether nothing waits or is at work."""
        return not self._waiting and not self._running

    async def run(self, person: str, request: str, work: Callable[[Turn], Result]) -> Result:
        """Let a question have its turn, in a thread of its own; return or raise at its slot."""
        self._hand_back()
        settings = self._settings
        ticket = self._tickets.enter(person, request, limit=self._limit, queue=settings.queue, each=settings.each)
        if ticket is None:
            raise BusyError
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(begun.set)

        turn = Turn(ticket, settings, cancelled=lambda: self._cancelled(ticket), begun=wake)
        started: asyncio.Future[None] = loop.create_future()
        self._waiting.append((turn, started))

        def leave(at_work: asyncio.Task[Result] | None = None) -> None:
            self._waiting = deque(pair for pair in self._waiting if pair[0] is not turn)
            self._running.discard(ticket)
            self._left.add(ticket)
            self._look_again()
            if at_work is not None and not at_work.cancelled():
                at_work.exception()  # nobody may be there to hear of it

        try:
            self._look()
            await started
        except BaseException:
            leave()
            raise
        at_work = loop.create_task(self._at_work(turn, begun, work))
        at_work.add_done_callback(leave)
        return await asyncio.shield(at_work)  # should the asker go, it ends in its time all the same

    async def _at_work(self, turn: Turn, begun: asyncio.Event, work: Callable[[Turn], Result]) -> Result:
        result: Future[Result] = Future()
        began = time.monotonic()

        def wanted() -> None:
            turn.check_cancelled()
            if time.monotonic() - began > self._limit:
                raise BusyError(f"It was not priced within {self._limit:g} s; ask for less. Nothing was charged.")

        def compute() -> None:
            try:
                with limited(MOST_WORK, wanted) as turn.work:
                    deliver = partial(result.set_result, work(turn))
            except BaseException as failure:  # noqa: BLE001 - whatever it is, the asker's request must end
                error = failure if isinstance(failure, Exception) else EngineError()
                deliver = partial(result.set_exception, error)
            # No rows were read, so the outcome cannot depend on them, and needs no slot.
            if turn.charged_at is None:
                turn.end("done")
            if not turn.ended_from_outside:  # else what is said then, and when, is decided
                deliver()

        done = asyncio.wrap_future(result)
        threading.Thread(target=compute, name="hush-question", daemon=True).start()
        ended = asyncio.create_task(self._end(turn, begun))
        either: set[asyncio.Future[Any]] = {done, ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            ended.cancel()
            return done.result()
        outcome = ended.result()
        if turn.fail is not None:
            await asyncio.to_thread(turn.fail)
        if outcome == "cancelled":
            raise CancelledError(charged=turn.fail is not None)
        raise EngineError

    async def _end(self, turn: Turn, begun: asyncio.Event) -> str:
        """Decide at slots how a turn ends; return when it was cancelled or is too late."""
        while True:
            await begun.wait()  # what comes before the charge is bounded by what may be asked
            begun.clear()
            slot, moment, outcome = 0.0, 0.0, ""
            while not outcome:
                assert turn.charged_at is not None  # noqa: S101 - that is what was waited for
                # Slots double up to the time limit; without slots the loop only looks for cancels and for the limit.
                slot = min(max(turn.first, 2 * slot) if turn.first else slot + _LOOK, self._limit)
                while moment < slot and not outcome:
                    # Between slots only cancels count: nothing may depend on whether the result is ready.
                    moment = min(moment + max(turn.tick, _LOOK), slot)
                    await asyncio.sleep(max(0.0, turn.charged_at + moment - time.monotonic()))
                    outcome = self._outcome(turn, moment, at_slot=moment == slot)
            if moment > turn.first > 0 and outcome != "cancelled":
                log.warning(
                    "an answer was not there %.3g s after its charge, when it should have left, and left after %.3g s: "
                    "that may tell something of the rows; declare in the policy how many rows tables have (rows = …), "
                    "or let hush serve answer later (--tick)",
                    turn.first,
                    moment,
                )
            # After "done" the same turn may begin again, so the loop waits for its next charge.
            if turn.end(outcome) and outcome != "done":
                return outcome

    def _outcome(self, turn: Turn, moment: float, *, at_slot: bool) -> str:
        """Return the outcome at a moment, empty for none yet; an earlier cancel counts even if the result is ready."""
        if self._cancelled(turn.ticket):
            return "cancelled"
        ready = turn.ready_after <= moment and turn.ready_after < self._limit
        if not at_slot or (not ready and moment < self._limit):
            return ""
        with suppress(StorageError):  # a cancel that nobody can read did not come
            if not self._tickets.close_ticket(turn.ticket):
                return "cancelled"
        return "done" if ready else "late"

    def _cancelled(self, ticket: int) -> bool:
        with suppress(StorageError):
            return ticket in self._tickets.cancelled()
        return False

    def _hand_back(self) -> None:
        """Hand tickets back now, or later if the store fails: its failure must not spoil a finished answer."""
        with suppress(StorageError):
            for ticket in list(self._left):
                self._tickets.leave(ticket)
                self._left.discard(ticket)

    def _look_again(self) -> None:
        """Start waiting questions now, or try again later if the store cannot be reached."""
        self._hand_back()
        try:
            self._look()
        except StorageError:
            self._looking = asyncio.get_running_loop().call_later(_LOOK, self._look_again)

    def _look(self) -> None:
        """Start the waiting questions that may run now, and end cancelled ones."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        gone = self._tickets.cancelled() if self._waiting else set()
        for turn, started in list(self._waiting):
            if turn.ticket in gone:
                self._waiting.remove((turn, started))
                if not started.done():
                    started.set_exception(CancelledError(charged=False))
            # `start` refuses as long as the same person has a question at work on any worker.
            elif len(self._running) < self._settings.at_once and self._tickets.start(turn.ticket, limit=self._limit):
                self._waiting.remove((turn, started))
                self._running.add(turn.ticket)
                if not started.done():
                    started.set_result(None)
        if self._waiting:
            self._looking = asyncio.get_running_loop().call_later(_LOOK, self._look_again)
