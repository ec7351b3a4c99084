"""A limit on the work before a charge, counted in steps of arithmetic and not by a clock.

A service sets the limit round reading, planning and pricing a question. A loop with a length that the caller decides
counts its steps here before it takes them. So a refusal depends on the input alone, and is the same on a slow machine
and on a fast one. A step is about a microsecond. Without a limit, as in a program of one's own, nothing is counted.

Abandoned work ends at the same places: at regular intervals the thread asks whether anybody still wants the result.
Code after a charge asks without counting (`check_wanted`), and an engine's statements are interrupted (`interrupting`,
`Work.interrupt`).

>>> with limited(100):
...     spend(60)
...     spend(60)
Traceback (most recent call last):
...
hush.core.work.TooMuchWorkError: This needs more work than is done before a charge: more than 100 steps. ...
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar

from hush.core.errors import HushError

_STEPS_BETWEEN_CHECKS = 50_000
"""The number of steps between two checks whether the work is still wanted."""


class TooMuchWorkError(HushError):
    """Reading, planning or pricing would take more work than is allowed; nothing was charged."""

    def __init__(self, limit: float) -> None:
        super().__init__(
            f"This needs more work than is done before a charge: more than {limit:,} steps. Nothing was charged. "
            "Ask for less at once: fewer parts, columns or prices, smaller numbers of reports."
        )


class Work:
    """The work of one thread: steps counted, their limit, and statements that can be interrupted."""

    __slots__ = ("_ended", "_interrupts", "_lock", "check", "limit", "look_at", "spent")

    def __init__(self, limit: float, check: Callable[[], None]) -> None:
        self.limit, self.check = limit, check
        self.spent, self.look_at = 0, _STEPS_BETWEEN_CHECKS
        self._interrupts: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        self._ended = False

    def interrupt(self) -> None:
        """Interrupt the statements at work; call this from any thread when nobody wants them any more."""
        with self._lock:
            self._ended = True
            for interrupt in self._interrupts:
                with suppress(Exception):  # a connection that was closed meanwhile
                    interrupt()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Let a statement be interrupted inside the block."""
        with self._lock:
            self._interrupts.append(interrupt)
        try:
            if self._ended:
                self.check()
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)

    def spend(self, steps: int) -> None:
        """Count steps, and ask now and then whether they are wanted."""
        self.spent += steps
        if self.spent > self.limit:
            raise TooMuchWorkError(self.limit)
        if self.spent >= self.look_at:
            self.look_at = self.spent + _STEPS_BETWEEN_CHECKS
            self.check()


_WORK: ContextVar[Work | None] = ContextVar("work", default=None)


def spend(steps: int = 1) -> None:
    """Count steps that are about to be taken; raises where they are too many, or nobody wants them any more."""
    work = _WORK.get()
    if work is not None:
        work.spend(steps)


def check_wanted() -> None:
    """Raise if nobody wants this thread's result any more; for loops after a charge, where no steps are counted."""
    work = _WORK.get()
    if work is not None:
        work.check()


def interrupting(interrupt: Callable[[], object]) -> AbstractContextManager[None]:
    """Let ``interrupt`` be called if this thread's work is abandoned inside the block."""
    work = _WORK.get()
    return nullcontext() if work is None else work.interrupting(interrupt)


@contextmanager
def limited(limit: float, check: Callable[[], None] = lambda: None) -> Iterator[Work]:
    """Limit the work inside the block; ``check`` raises once nobody wants it."""
    token = _WORK.set(work := Work(limit, check))
    try:
        yield work
    finally:
        _WORK.reset(token)


def lift(check: Callable[[], None]) -> None:
    """Let the rest of the block take as many steps as it needs, because it is paid for; ``check`` as above."""
    work = _WORK.get()
    if work is not None:
        work.limit, work.check = math.inf, check
