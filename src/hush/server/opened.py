"""One reading of a policy: its engines and its ledger, opened once for all analysts, and read again when it changes.

Curators are cheap: each request makes one for its analyst from what is open. When the policy's file changes, it is
opened anew beside the old one; the old one is closed when its last question has been answered. A file with a mistake
changes nothing: what was in force stays in force, and the mistake goes to the log and to the owner.

**Nobody's request waits for a file.** How long it takes to read a CSV file depends on its cells: on a stray quote. So
files are read before a policy comes into force, which at the start is before the first request, and a thread of its own
reads the policy and the files again when they change. Up to then questions are answered from the rows as they were.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hush.core import HushError
from hush.core.storage import parse_size
from hush.curator.curator import Curator
from hush.curator.data_sets import OpenDataSet, open_data_set, read_policy, refuse_sharing
from hush.curator.pipeline import Outlet
from hush.curator.session import Session
from hush.engines.protocol import DEFAULT_ROWS
from hush.ledger import Actor, ParkedQuestion
from hush.ledger.errors import LedgerFullError
from hush.policy.ledger import ledger_of, ledger_or_stand_in, streams_of
from hush.server import audit
from hush.server.auth.people import Person
from hush.server.errors import ForbiddenError, NoPolicyError
from hush.server.settings import ServiceSettings
from hush.storage import in_database

log = logging.getLogger("hush.server")
_LOOK = 0.5
"""Seconds between two checks of the policy's file."""
_RETRY = 60.0
"""Seconds after which an unreadable file is tried again."""


class OpenPolicy:
    """A policy with its engines and its ledger. Use it from any thread."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.digest = hashlib.sha256(Path(settings.policy).read_bytes()).hexdigest()
        """The SHA-256 of the policy's file, which identifies it in the ledger's chain."""
        self.policy = read_policy(settings.policy)
        refuse_sharing(self.policy)
        self.ledger, self.made = ledger_or_stand_in(self.policy, self.policy.data)
        self.ledger.limit_room(self.check_room)
        self._quota = parse_size(settings.quota, "quota") if settings.quota else 0
        places = (ledger_of(self.policy), settings.people)
        self._places = [Path(path).resolve() for path in places if not in_database(path)]
        """The ledger and the store of people; files beside them with the same first part of the name belong to them."""
        self.data_sets: dict[str, OpenDataSet] = {}
        self._users = 0
        self._retired = False
        self._lock = threading.Lock()
        try:
            for name, data in self.policy.data.items():
                self.data_sets[name] = open_data_set(
                    self.policy, data, timeout=settings.limit, memory=settings.memory, threads=settings.threads or None
                )
            self.load()
        except BaseException:
            self._close()
            raise

    def load(self) -> None:
        """Read the files that were not read yet, and those that have changed."""
        for data_set in self.data_sets.values():
            for table, rows in data_set.engine.load().items():
                declared = data_set.sizes.get(table, DEFAULT_ROWS)
                if rows > declared and not data_set.schema.tables[table].public:
                    log.warning(
                        "table %s has more rows than the %d that the policy declares; when answers leave may then tell "
                        "something of the rows: write rows = … in [data.%s.tables.%s]",
                        table,
                        declared,
                        data_set.schema.data,
                        table,
                    )

    def curator(self, person: Person, outlet: Outlet | None = None) -> Curator:
        """Return a curator for a person who is signed in; one without an outlet is for free operations alone."""
        if person.name not in self.policy.analysts:
            raise ForbiddenError(f"The policy does not name {person.name} as an analyst; ask the owner.")
        names = self.policy.analysts[person.name].data
        streams = streams_of(self.policy, person.name)
        data_sets = {name: self.data_sets[name] for name in names}
        return Curator(Session(data_sets, self.ledger, person.name, streams=streams), outlet)

    def check_room(self) -> None:
        """Refuse a charge when the service has used its quota of the disk."""
        if not self._quota:
            return
        files = [path for root in self._places for path in root.parent.glob(f"{root.name}*")]
        files += [path for folder in files if folder.is_dir() for path in folder.rglob("*")]
        used = sum(path.stat().st_size for path in files if path.is_file())
        if used >= self._quota:
            raise LedgerFullError(
                f"Ledger, streams and people take {used:,} bytes of the disk, and the quota of this service is "
                f"{self._quota:,}. Nothing was charged. The owner raises it: hush serve --quota."
            )

    def requests(self, actor: Actor) -> list[ParkedQuestion]:
        """Return the requests to the owner that an actor may see, waiting and decided; none without a ledger."""
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
        self._looking = threading.Lock()
        self._retry_at = 0.0
        self._tell()
        self.mistake = ""
        """The mistake in the present file; empty if the file is in force."""
        self._closed = threading.Event()
        threading.Thread(target=_watch, args=(weakref.ref(self), self._closed), name="hush-policy", daemon=True).start()

    @contextmanager
    def use(self) -> Iterator[OpenPolicy]:
        """Give the policy in force, and keep it open as long as the context lasts."""
        with self._lock:
            opened = self._opened
            if opened is None:
                raise NoPolicyError
            # Entered under the lock: else the policy could be retired and closed before it counts as used.
            holding = opened.in_use()
            holding.__enter__()
        try:
            yield opened
        finally:
            holding.__exit__(None, None, None)

    def load_again(self) -> None:
        """Read data files again that have changed; an unreadable one keeps its former rows."""
        if time.monotonic() < self._retry_at:
            return
        try:
            with self.use() as opened:
                opened.load()
        except NoPolicyError:
            return
        except HushError as error:
            self._retry_at = time.monotonic() + _RETRY
            log.warning("a file has changed and cannot be read, so questions are about its former rows: %s", error)

    def look_again(self) -> None:
        """Read the policy again if it has changed, and return when it is in force."""
        with self._looking:
            stamp = _stamp(self._settings.policy)
            # The owner may have made the ledger after the policy was opened without one.
            waits = self._opened is not None and not self._opened.made and self._ledger_appeared(self._opened)
            if stamp == self._stamp and not waits:
                return
            # Before it is read: a file with a mistake is not read again until it changes.
            self._stamp = stamp
            try:
                fresh = OpenPolicy(self._settings)
            except HushError as error:
                self.mistake = str(error)
                log.warning("the policy was changed and cannot be used, so the one before stays in force: %s", error)
                return
            with self._lock:
                before, self._opened, self.mistake = self._opened, fresh, ""
        if before is not None:
            before.retire()
        self._tell()
        log.info("the policy was read again")

    def _tell(self) -> None:
        """Record the policy that came into force in the ledger's chain."""
        opened = self._opened
        if opened is not None and opened.made:
            audit.policy_in_force(opened.ledger, opened.digest)

    @staticmethod
    def _ledger_appeared(opened: OpenPolicy) -> bool:
        ledger_path = ledger_of(opened.policy)
        return isinstance(ledger_path, Path) and ledger_path.exists()

    def close(self) -> None:
        """Close everything once nobody uses it."""
        self._closed.set()
        with self._looking, self._lock:
            if self._opened is not None:
                self._opened.retire()


def _watch(policy: weakref.ref[CurrentPolicy], closed: threading.Event) -> None:
    """Check the policy and its files for changes, as long as the `CurrentPolicy` is in use."""
    while not closed.wait(_LOOK) and (current := policy()) is not None:
        try:
            current.look_again()
            current.load_again()
        except Exception:
            log.exception("the policy could not be looked at")
        # This thread must not keep alive a policy that nobody else uses.
        del current


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)  # noqa: PTH116 - a stamp, not a path
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino
