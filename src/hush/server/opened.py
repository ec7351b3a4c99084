"""One reading of a policy: its engines and its ledger, opened once for all analysts, and read again when it changes.

Curators are cheap: each request makes one for its analyst from what is open. When the policy's file changes, it is
opened anew beside the old one; the old one is closed when its last question has been answered. A file with a mistake
changes nothing: what was in force stays in force, and the mistake goes to the log and to the owner.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hush.core import HushError
from hush.curator.data_sets import OpenDataSet, open_data_set, read_policy, refuse_sharing
from hush.ledger import Actor, ParkedQuestion
from hush.policy.ledger import ledger_of, ledger_or_stand_in, streams_of
from hush.server import audit
from hush.server.errors import ForbiddenError, NoPolicyError
from hush.server.people import Person
from hush.server.questions import ServedCurator
from hush.server.settings import ServiceSettings

log = logging.getLogger("hush.server")
_LOOK = 0.5
"""So often the policy's file is looked at, in seconds."""


class OpenPolicy:
    """A policy with its engines and its ledger. Use it from any thread."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.digest = hashlib.sha256(Path(settings.policy).read_bytes()).hexdigest()
        """What names the policy in the ledger's chain."""
        self.policy = read_policy(settings.policy)
        refuse_sharing(self.policy)
        self.ledger, self.made = ledger_or_stand_in(self.policy, self.policy.data)
        self.data_sets: dict[str, OpenDataSet] = {}
        self._users = 0
        self._retired = False
        self._lock = threading.Lock()
        try:
            for name, data in self.policy.data.items():
                self.data_sets[name] = open_data_set(
                    self.policy, data, timeout=settings.limit, memory=settings.memory, threads=settings.threads or None
                )
        except BaseException:
            self._close()
            raise

    def curator(self, person: Person) -> ServedCurator:
        """Return a curator for whoever is signed in, and for nobody else."""
        if person.name not in self.policy.analysts:
            raise ForbiddenError(f"The policy does not name {person.name} as an analyst; ask the owner.")
        names = self.policy.analysts[person.name].data
        streams = streams_of(self.policy, person.name)
        return ServedCurator({name: self.data_sets[name] for name in names}, self.ledger, person.name, streams=streams)

    def requests(self, actor: Actor) -> list[ParkedQuestion]:
        """Return what waits, or waited, for the owner, as far as an actor may see it; nothing without a ledger."""
        return self.ledger.requests(actor) if self.made else []

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep it open as long as the context lasts."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                last = self._retired and not self._users
            if last:
                self._close()

    def retire(self) -> None:
        """Close it once nobody uses it."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
            idle = not self._users
        if idle:
            self._close()

    def _close(self) -> None:
        for data_set in self.data_sets.values():
            data_set.engine.close()
        self.ledger.close()


class CurrentPolicy:
    """The policy that is in force: the file as it was when it last could be read."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._stamp = _stamp(settings.policy)
        self._opened = OpenPolicy(settings) if Path(settings.policy).exists() else None
        """None as long as there is no policy: the owner makes it on the page."""
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._tell()
        self.mistake = ""
        """What is wrong with the file as it is now; nothing if it is in force."""

    @contextmanager
    def use(self) -> Iterator[OpenPolicy]:
        """Give what is in force, and keep it open as long as the context lasts. May read the policy again."""
        self._keep_up()
        with self._lock:
            opened = self._opened
            if opened is None:
                raise NoPolicyError
            holding = opened.in_use()
            holding.__enter__()
        try:
            yield opened
        finally:
            holding.__exit__(None, None, None)

    def _keep_up(self) -> None:
        with self._lock:
            if time.monotonic() - self._looked < _LOOK:
                return
            self._looked = time.monotonic()
            stamp = _stamp(self._settings.policy)
            waits = self._opened is not None and not self._opened.made and self._ledger_appeared(self._opened)
            if stamp == self._stamp and not waits:
                return
            self._stamp = stamp
            try:
                fresh = OpenPolicy(self._settings)
            except HushError as error:
                self.mistake = str(error)
                log.warning("the policy was changed and cannot be used, so the one before stays in force: %s", error)
                return
            before, self._opened, self.mistake = self._opened, fresh, ""
        if before is not None:
            before.retire()
        self._tell()
        log.info("the policy was read again")

    def _tell(self) -> None:
        """Have the policy that came into force stand in the ledger's chain."""
        opened = self._opened
        if opened is not None and opened.made:
            audit.policy_in_force(opened.ledger, opened.digest)

    def look_again(self) -> None:
        """Look at the file at the next use, however soon that is."""
        with self._lock:
            self._looked = 0.0

    @staticmethod
    def _ledger_appeared(opened: OpenPolicy) -> bool:
        place = ledger_of(opened.policy)
        return isinstance(place, Path) and place.exists()

    def close(self) -> None:
        """Close everything once nobody uses it."""
        with self._lock:
            if self._opened is not None:
                self._opened.retire()


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)  # noqa: PTH116 - a stamp, not a path
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
