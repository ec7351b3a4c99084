"""The way of a question through a service: its turn, its time, and the moment at which its outcome leaves.

*Turns.* A worker computes a few questions at once and lets the others wait, in the order in which they came. Nobody has
two at work at the same time, on whichever worker. The queue is bounded, and so is everybody's part of it.

*Slots.* How long a question computes depends on the rows it reads. So whatever happens after the charge happens at
public moments: counted from the charge, after tick, 2·tick, 4·tick, … seconds, and at the time limit. At the first of
them that the computation does not miss, and not before,

1. the outcome is written into the ledger (whose entries have a time, and which analysts may read),
2. the answer or the error leaves,
3. the turn ends, and the next question begins.

An observer learns at most which slot it was: one of log₂(limit/tick)+2 values, where without slots it is a time to the
microsecond. Slots do not average out, as random delays would.

*Time limit.* A question that is not ready at its limit is ended there: it stays charged, and the error is the one of
every failure. What it may still compute is thrown away.

*Leaving.* Should the asker go while a question is at work, because a connection breaks or the service ends, it keeps
its turn up to its slot all the same, and its outcome is recorded there.

*Cancelling* never shows how far a question got. What becomes of it follows from when the cancel came, and from slots:

*   before the charge: it ends at once, and nothing is charged;
*   before the slot at which it would have left: it ends as cancelled at the next slot, charged, and what was computed
    is thrown away, whether or not it was ready;
*   later: it has left, and there is nothing to cancel.

One place decides, `Questions._end`, and at slots only: first whether a cancel came, then whether the result is there. A
ticket of which the outcome is decided takes no cancel any more (`Traffic.close_ticket`), so whoever was told that a
question is cancelled gets no answer to it.

The price of a question, and every refusal before the charge, depends on question and policy alone and needs no slot.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from hush.curator.access import log
from hush.curator.curator import Curator
from hush.engines.errors import EngineError
from hush.ledger import Reservation
from hush.server.errors import BusyError, CancelledError, StorageError, TooManyError
from hush.server.traffic import Rate, Traffic

Result = TypeVar("Result")
_TURN: contextvars.ContextVar[Turn | None] = contextvars.ContextVar("turn", default=None)
_LOOK = 0.1
"""So often a worker looks whether others ended or cancelled something, in seconds."""
_PATIENCE = 10.0
"""A thread waits so many seconds beyond the time limit for a decision."""
_FAILED = "no answer could be computed"


def slot(elapsed: float, tick: float, limit: float) -> float:
    """Return the first public moment that is not before ``elapsed``.

    >>> [slot(elapsed, 0.1, 30) for elapsed in (0, 0.1, 0.11, 0.3, 26, 31)]
    [0.1, 0.1, 0.2, 0.4, 30, 30]
    """
    if not tick:
        return elapsed
    moment = tick
    while moment < elapsed:
        moment *= 2
    return min(moment, limit)


class Turn:
    """One question at work. Its thread computes and says when it is ready; the worker's loop decides, at slots."""

    def __init__(
        self, ticket: int, *, tick: float, limit: float, cancelled: Callable[[], bool], begun: Callable[[], None]
    ) -> None:
        self.ticket = ticket
        self.tick, self.limit = tick, limit
        self.cancelled = cancelled
        self.charged_at: float | None = None
        self.reservation: Reservation | None = None
        self._begun = begun
        self._curator: ServedCurator | None = None
        self._decided = threading.Lock()
        self._outcome = ""
        self._ready_after: float | None = None
        self._over = threading.Event()

    def check_cancelled(self) -> None:
        """Refuse to charge, or to read rows, for somebody who does not want it any more."""
        if self.cancelled():
            raise CancelledError(charged=False)

    def charged(self, curator: ServedCurator, reservation: Reservation) -> None:
        """Remember when the charge was made: slots are counted from there."""
        self._curator, self.reservation = curator, reservation
        self.reads()

    def reads(self) -> None:
        """Remember when rows began to be read, after a charge or within an earlier one: slots count from there."""
        with self._decided:
            self._outcome, self._ready_after = "", None
            self._over.clear()
            self.charged_at = time.monotonic()
        self._begun()

    def end(self, outcome: str) -> bool:
        """Decide how the question ends, once; say whether this call decided it."""
        with self._decided:
            if self._outcome:
                return False
            self._outcome = outcome
            self._over.set()
            return True

    @property
    def ended_from_outside(self) -> bool:
        """Whether the question was cancelled or too late."""
        return self._outcome in {"late", "cancelled"}

    def ready_at(self, moment: float) -> bool:
        """Whether the result was there at a slot, counted from the charge."""
        return self._ready_after is not None and self._ready_after <= moment and self._ready_after < self.limit

    def wait_for_slot(self) -> bool:
        """Say that the result is there, and return when its slot has come; False if the question ended otherwise."""
        assert self.charged_at is not None  # noqa: S101 - waits after the charge alone
        elapsed = self._ready_after = time.monotonic() - self.charged_at
        if not self.tick and elapsed < self.limit:
            return self.end("done")
        if not self._over.wait(self.limit + _PATIENCE):  # the loop that decides is gone, and so is whoever asked
            self.end("done")
        return self._outcome == "done"

    def record_failure(self) -> None:
        """Write into the ledger that there is no answer, for a question that was ended from outside."""
        if self._curator is not None and self.reservation is not None:
            self._curator.fail(self.reservation)


def this_turn() -> Turn | None:
    """Return the turn of the question that this thread is at work on, if it has one."""
    return _TURN.get()


class ServedCurator(Curator):
    """A curator whose questions keep to the slots of a service. It shares engines and ledger with others."""

    def charge(self, *arguments: Any, **options: Any) -> Reservation:
        """Charge, and note when."""
        turn = _TURN.get()
        if turn is not None:
            turn.check_cancelled()
        reservation = super().charge(*arguments, **options)
        if turn is not None and reservation.answer is None:
            turn.charged(self, reservation)
        return reservation

    def keep(
        self, reservation: Reservation, compute: Callable[[], Result], to_bytes: Callable[[Result], bytes]
    ) -> Result:
        """Compute what was charged for, and at the next slot record it; a failure shows one public sentence."""
        turn = _TURN.get()
        if turn is None:
            return super().keep(reservation, compute, to_bytes)
        failure: BaseException | None = None
        try:
            result = compute()
            stored = to_bytes(result)
        except BaseException as error:  # noqa: BLE001 - it is looked at when the slot has come
            failure = error
        if not turn.wait_for_slot():  # whoever ended it records that
            raise EngineError
        if failure is None:
            self._ledger.answered(reservation, stored)
            return result
        self.fail(reservation)
        if not isinstance(failure, EngineError):
            log.debug("a question failed after its charge", exc_info=failure)
        raise EngineError

    def measured(self, compute: Callable[[], Result]) -> Result:
        """Compute something within an earlier charge, and return it at the next slot, as an answer would be."""
        turn = _TURN.get()
        if turn is None:
            return super().measured(compute)
        turn.check_cancelled()
        turn.reads()
        failure: BaseException | None = None
        try:
            result = compute()
        except BaseException as error:  # noqa: BLE001 - it is looked at when the slot has come
            failure = error
        if not turn.wait_for_slot():
            raise EngineError
        if failure is None:
            return result
        log.debug("a release failed after its charge", exc_info=failure)
        raise EngineError

    def fail(self, reservation: Reservation) -> None:
        """Record that a question has no answer."""
        self._ledger.failed(reservation, _FAILED)

    def close(self) -> None:
        """Do nothing: the service closes what its curators share."""


class Questions:
    """The questions of one worker."""

    def __init__(
        self, traffic: Traffic, *, tick: float, limit: float, at_once: int = 2, queue: int = 256, each: int = 32
    ) -> None:
        self._traffic = traffic
        self._tick, self._limit = tick, limit
        self._at_once, self._queue, self._each = at_once, queue, each
        self._waiting: deque[tuple[Turn, asyncio.Future[None]]] = deque()
        self._running: set[int] = set()
        self._looking: asyncio.TimerHandle | None = None
        self._ends: set[asyncio.Task[str]] = set()

    @property
    def idle(self) -> bool:
        """Whether nothing waits or is at work."""
        return not self._waiting and not self._running

    async def run(self, person: str, request: str, work: Callable[[], Result]) -> Result:
        """Let a question have its turn, in a thread of its own; return or raise at its slot."""
        ticket = self._traffic.enter(person, request, limit=self._limit, queue=self._queue, each=self._each)
        if ticket is None:
            raise BusyError
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(begun.set)

        turn = Turn(ticket, tick=self._tick, limit=self._limit, cancelled=lambda: self._cancelled(ticket), begun=wake)
        started: asyncio.Future[None] = loop.create_future()
        self._waiting.append((turn, started))
        at_work: asyncio.Task[Result] | None = None

        def leave(_: object = None) -> None:
            self._waiting = deque(pair for pair in self._waiting if pair[0] is not turn)
            self._running.discard(ticket)
            self._traffic.leave(ticket)
            self._look()
            if at_work is not None and not at_work.cancelled():
                at_work.exception()  # nobody may be there to hear of it

        try:
            self._look()
            await started
            at_work = loop.create_task(self._at_work(turn, begun, work))
            return await asyncio.shield(at_work)  # should the asker go, it ends in its time all the same
        finally:
            if at_work is None or at_work.done():
                leave()
            else:
                at_work.add_done_callback(leave)

    async def _at_work(self, turn: Turn, begun: asyncio.Event, work: Callable[[], Result]) -> Result:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def deliver(result: Result | None, error: BaseException | None) -> None:
            if not done.done():
                done.set_exception(error) if error is not None else done.set_result(result)  # type: ignore[arg-type]

        def compute() -> None:
            _TURN.set(turn)
            result, error = None, None
            try:
                result = work()
            except BaseException as failure:  # noqa: BLE001 - whatever it is, the asker's request must end
                error = failure
            if turn.charged_at is None:
                turn.end("done")
            if turn.ended_from_outside:  # what is said then, and when, is decided
                return
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(deliver, result, error)

        threading.Thread(target=compute, name="hush-question", daemon=True).start()
        ended = loop.create_task(self._end(turn, begun))
        self._ends.add(ended)
        ended.add_done_callback(self._ends.discard)
        done.add_done_callback(lambda _: ended.cancel())  # and not before: should the asker go, the answer is kept
        either: set[asyncio.Future[Any]] = {done, ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            return done.result()
        outcome = ended.result()
        await asyncio.to_thread(turn.record_failure)
        if outcome == "cancelled":
            raise CancelledError(charged=turn.reservation is not None)
        raise EngineError

    async def _end(self, turn: Turn, begun: asyncio.Event) -> str:
        """Decide at slots how a turn ends; return when it was cancelled or is too late."""
        while True:
            await begun.wait()  # what comes before the charge is bounded by what may be asked
            begun.clear()
            moment, outcome = 0.0, ""
            while not outcome:
                assert turn.charged_at is not None  # noqa: S101 - that is what was waited for
                moment = min(max(self._tick, 2 * moment) if self._tick else moment + _LOOK, self._limit)
                await asyncio.sleep(max(0.0, turn.charged_at + moment - time.monotonic()))
                outcome = self._outcome(turn, moment)
            if turn.end(outcome) and outcome != "done":
                return outcome

    def _outcome(self, turn: Turn, moment: float) -> str:
        """Return what a slot decides: a cancel that came before it, whether or not the result is there, goes first."""
        if self._cancelled(turn.ticket):
            return "cancelled"
        ready = turn.ready_at(moment)
        if not ready and moment < self._limit:
            return ""
        with suppress(StorageError):  # a cancel that nobody can read did not come
            if not self._traffic.close_ticket(turn.ticket):
                return "cancelled"
        return "done" if ready else "late"

    def _cancelled(self, ticket: int) -> bool:
        with suppress(StorageError):
            return ticket in self._traffic.cancelled()
        return False

    def _look(self) -> None:
        """Let those begin whose turn it is."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        gone = self._traffic.cancelled() if self._waiting else set()
        for turn, started in list(self._waiting):
            if turn.ticket in gone:
                self._waiting.remove((turn, started))
                if not started.done():
                    started.set_exception(CancelledError(charged=False))
            elif len(self._running) < self._at_once and self._traffic.start(turn.ticket, limit=self._limit):
                self._waiting.remove((turn, started))
                self._running.add(turn.ticket)
                if not started.done():
                    started.set_result(None)
        if self._waiting:
            self._looking = asyncio.get_running_loop().call_later(_LOOK, self._look)


def check_rate(traffic: Traffic, rate: Rate, whom: str, *, what: str = "") -> None:
    """Refuse somebody who comes too often."""
    seconds = traffic.visit(f"{rate.key} {whom}", every=rate.every, burst=rate.burst)
    if seconds:
        raise TooManyError(seconds, what or rate.what)
