"""The scheduler: every worker looks every `LOOK` seconds whether a release of a declared stream is due.

Which worker makes it is decided by the ledger's lock (`hush.ledger.streams`). The release takes its turn and its slot
as a question does: its outcome is recorded at a public moment after its charge, and readers see it from then on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from hush.core import HushError
from hush.curator.declared_streams import Publisher, declare_all
from hush.engines.errors import EngineError
from hush.ledger.entries import now
from hush.ledger.streams import StreamPeriod
from hush.server.errors import NoPolicyError
from hush.server.opened import OpenPolicy
from hush.server.questions import Turn
from hush.server.service import Service

log = logging.getLogger("hush.server")
LOOK = 2.0
"""The seconds between two looks of a worker."""
AGAIN = 60.0
"""The seconds after which a refused declaration is tried again, and the next release after a failed one."""
_NOBODY = "streams\n"
"""The name under which releases wait in the queue; no person can have it."""


class Scheduler:
    """Makes the releases that are due, as long as a worker lives."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._logged: dict[str, str] = {}
        self._refused: dict[str, float] = {}
        """The times of refused declarations: they are tried again after `AGAIN` seconds."""
        self._failed: dict[str, float] = {}
        """The times of failed releases: the next one waits `AGAIN` seconds, as it would fail alike and be charged."""
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task that looks for due releases."""
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        """Stop the task, after the release at work is finished."""
        self._ending.set()
        if self._task is not None:
            await self._task

    async def _look(self) -> None:
        while not self._ending.is_set():
            try:
                await self.release_due()
            except HushError as error:
                self._warn("", error)
            except Exception as error:  # whatever it is, the next look may do better
                log.error("looking for due releases failed: %s", type(error).__name__)  # noqa: TRY400 - no values
                log.debug("its trace", exc_info=error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), LOOK)

    async def release_due(self) -> int:
        """Declare the streams of the policy, make every release that is due, and return how many were made."""
        try:
            names, refused = await self._service.with_policy(self._due)
        except NoPolicyError:
            return 0
        for name, error in refused.items():
            self._warn(name, error)
        count = 0
        for name in names:
            try:
                while not self._ending.is_set():  # what is due and was not begun can wait for the next worker
                    stream_release = await self._service.questions.run(_NOBODY, f"stream {name}", self._release(name))
                    if stream_release is None:
                        break
                    count += 1
                    if stream_release.state == "failed":
                        self._failed[name] = time.monotonic()
                        break
            except EngineError as error:  # it took longer than a question may
                self._failed[name] = time.monotonic()
                self._warn(name, error)
            except HushError as error:
                self._warn(name, error)
        return count

    def _due(self, opened: OpenPolicy) -> tuple[list[str], Mapping[str, HushError]]:
        """Return the streams with a due release; declare those of the policy that are not yet."""
        if not opened.made:
            return [], {}
        publisher = Publisher(opened.data_sets, opened.ledger)
        soon = time.monotonic() - AGAIN
        declared = opened.policy.streams.items()
        refused = declare_all(
            publisher, [declaration for name, declaration in declared if self._refused.get(name, soon) <= soon]
        )
        self._refused |= dict.fromkeys(refused, time.monotonic())
        publisher.streams.close_dead()
        clock = now()
        streams = [stream for stream in publisher.streams.listed() if self._failed.get(stream.name, soon) <= soon]
        return [stream.name for stream in streams if stream.due(clock) is not None or stream.over(clock)], refused

    def _release(self, name: str) -> Callable[[Turn], StreamPeriod | None]:
        def release(turn: Turn) -> StreamPeriod | None:
            with self._service.policy.use() as opened:
                return Publisher(opened.data_sets, opened.ledger, turn).release_due(name)

        return release

    def _warn(self, name: str, error: HushError) -> None:
        """Log a refusal, once as long as it stays the same."""
        if self._logged.get(name) != str(error):
            self._logged[name] = str(error)
            log.warning("stream %s: %s", name or "-", error)
