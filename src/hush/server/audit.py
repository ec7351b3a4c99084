"""Acts of owners, in the ledger's chain: who let whom in, with which role, and which policy came into force.

The people's store and the ledger are two stores, and no change spans both. So an act is first written down beside the
change that it records, in the same transaction; from there it goes into the ledger, under an identity that makes it go
there once, and is then deleted here. After a crash the next process completes the transfer: a worker at its start and
after each act, or a command. As long as there is no ledger, acts wait for it.

``hush ledger verify`` checks them with everything else, ``hush ledger acts`` and the page Audit show them.

Sign-ins that failed are no acts: anybody can make them. They are counted, by the hour, in the people's store alone.
``hush people audit`` writes acts, charges and failures as lines of JSON, for programs that watch over several services.

>>> from hush.ledger import Actor, Ledger, Role
>>> from hush.server.auth.people import People, acting
>>> people, ledger = People.in_memory(), Ledger.in_memory()
>>> with acting("weiss"):
...     people.add("alice", roles=[Role.ANALYST])
>>> record(people, ledger), record(people, ledger)
(1, 0)
>>> [f"{act.by} {act}" for act in ledger.acts(Actor.owner("weiss"))][-1]
'weiss added alice (roles: analyst)'
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import IO, Any

from hush.ledger import Actor, Ledger, OwnerAct
from hush.server.auth.people import FailedSignIn, People
from hush.server.errors import StorageError
from hush.server.rate_limits import address_block

_WRITTEN = 5.0
"""Seconds between two writes of failed sign-ins: a flood must not keep the disk busy."""
_MOST = 1000
"""How many different failures are counted apart between two writes; further ones are counted together."""


class FailureCounts:
    """Failed sign-ins of one worker that are not written down yet."""

    def __init__(self, people: People) -> None:
        self._people = people
        self._counts: Counter[FailedSignIn] = Counter()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def note(self, name: str, address: str, way: str) -> None:
        """Count one failed sign-in."""
        hour = datetime.now(UTC).strftime("%Y-%m-%dT%H:00:00Z")
        with suppress(StorageError):
            # A name that nobody has is not stored: it may be a password in the wrong field.
            person = name if name and self._people.person(name) else ""
            failed = FailedSignIn(hour, person, address_block(address)[:100], way)
            with self._lock:
                if len(self._counts) >= _MOST and failed not in self._counts:
                    failed = failed._replace(person="", address="others")
                self._counts[failed] += 1
                if self._timer is None:
                    self._timer = threading.Timer(_WRITTEN, self.write)
                    self._timer.daemon = True
                    self._timer.start()

    def write(self) -> None:
        """Write the counts into the store of people."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        if counts:
            with suppress(StorageError):
                self._people.fail(counts)


def export(people: People, ledger: Ledger | None, file: IO[str]) -> int:
    """Write acts, charges and failed sign-ins as lines of JSON, oldest first; return the number of lines."""
    lines: list[dict[str, Any]] = [
        {"kind": "failed-sign-in", "when": failed.hour, **failed._asdict(), "number": number}
        for failed, number in people.failures().items()
    ]
    if ledger is not None:
        owner = Actor.owner("audit")
        lines += [{**asdict(act), "kind": "act", "act": act.kind, "text": str(act)} for act in ledger.acts(owner)]
        lines += [{"kind": "charge", **asdict(charge)} for charge in ledger.history(owner)]
    else:
        lines += [{"kind": "act", **asdict(act), "text": "waits for the ledger"} for act in people.outbox()]
    lines.sort(key=lambda line: str(line["when"]))
    for line in lines:
        file.write(json.dumps(line, ensure_ascii=True, sort_keys=True, default=str) + "\n")
    return len(lines)


def record(people: People, ledger: Ledger) -> int:
    """Move all waiting acts from the outbox into the ledger, and return their number."""
    # Before the outbox is read: an act that comes meanwhile sets it again.
    people.acted = False
    waiting = people.outbox()
    for act in waiting:
        # First the ledger, then the outbox: after a crash the act comes again, and its identity keeps it single.
        ledger.record(act)
        people.recorded(act)
    return len(waiting)


def policy_in_force(ledger: Ledger, digest: str) -> bool:
    """Record which policy is in force, by its SHA-256, unless it is the one that was recorded last."""
    return ledger.record(OwnerAct(identity="policy", by="policy file", what="policy", detail={"sha256": digest}))
