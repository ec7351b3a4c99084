"""What owners see of a service: acts in the ledger's chain, failed sign-ins, and metrics.

**Acts** say who let whom in, with which role, and which policy came into force. The people's store and the ledger are
two stores, and no change spans both. So an act is first written down beside the change that it records, in the same
transaction; from there it goes into the ledger, under an identity that makes it go there once, and is then deleted
here. After a crash the next process completes the transfer: a worker at its start and after each act, or a command. As
long as there is no ledger, acts wait for it. ``hush ledger verify`` checks them with everything else, ``hush ledger
acts`` and the page Audit show them.

**Sign-ins that failed** are no acts: anybody can make them. They are counted, by the hour, in the people's store alone.
``hush people audit`` writes acts, charges and failures as lines of JSON, for programs that watch over several services.

**Metrics** are counts of requests, questions and outcomes, and durations rounded up to slots. Nothing in them depends
on a row more than what leaves anyway: there are no counts of rows, no names of people, no texts. All workers write
their counters into the state that they share; metrics have a port of their own, and are shown to owners' tokens alone.

>>> from hush.ledger import Actor, Ledger, Role
>>> from hush.server.auth.people import People, acting
>>> people, ledger = People(":memory:"), Ledger.in_memory()
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
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any

from hush.core import HushError
from hush.ledger import Actor, Ledger
from hush.server.auth.people import FailedSignIn, People
from hush.server.errors import StorageError
from hush.server.rate_limits import address_block
from hush.server.settings import ServiceSettings, open_storage
from hush.storage import Storage, this_process

SCHEMA = (
    (
        "CREATE {kept} TABLE IF NOT EXISTS hush_counters (process TEXT NOT NULL, name TEXT NOT NULL, "
        "value {real} NOT NULL, PRIMARY KEY (process, name))"
    ),
)
_WRITE = 1.0
"""Seconds between two writes of the counters."""
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
                if not self._counts:
                    timer = threading.Timer(_WRITTEN, self.write)
                    timer.daemon = True
                    timer.start()
                self._counts[failed] += 1

    def write(self) -> None:
        """Write the counts into the store of people."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
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


class Counters:
    """The counters of one worker."""

    def __init__(self, storage: Storage, *, tick: float) -> None:
        self._storage, self._tick = storage, tick or 0.1
        self._values: Counter[str] = Counter()
        self._written = 0.0

    def request(self, route: str, status: int) -> None:
        """Count a response."""
        self._values[f'hush_requests_total{{route="{route}",status="{status}"}}'] += 1
        if time.monotonic() - self._written > _WRITE:
            self.write()

    @contextmanager
    def question(self) -> Iterator[None]:
        """Count a question, its outcome and its duration in slots."""
        begun, outcome = time.monotonic(), "answered"
        try:
            yield
        except BaseException as error:
            outcome = error.code if isinstance(error, HushError) else "internal"
            raise
        finally:
            self._values[f'hush_questions_total{{outcome="{outcome}"}}'] += 1
            slot = self._tick
            while slot < time.monotonic() - begun:
                slot *= 2
            self._values[f'hush_question_seconds_bucket{{slot="{slot:g}"}}'] += 1

    def write(self) -> None:
        """Store this worker's counters, so that the page of metrics shows those of all workers."""
        self._written = time.monotonic()
        process = json.dumps(this_process(), sort_keys=True)
        kept = "ON CONFLICT (process, name) DO UPDATE SET value = excluded.value"
        into = f"INSERT INTO hush_counters VALUES (?, ?, ?) {kept}"  # noqa: S608 - ours
        with suppress(StorageError), self._storage.changing():  # else they are written the next time
            for name, value in self._values.items():
                self._storage.change(into, process, name, value)


def show_metrics(settings: ServiceSettings, port: int) -> ThreadingHTTPServer:
    """Show the metrics of all workers on a port of this machine, to tokens of owners that have the scope ``own``."""
    storage, people = open_storage(settings.shared_state, SCHEMA, durable=False), People(settings.people)
    failures = FailureCounts(people)

    class Handler(BaseHTTPRequestHandler):
        """Answers one request."""

        def do_GET(self) -> None:
            kind, _, secret = self.headers.get("authorization", "").partition(" ")
            person = people.token(secret.strip()) if kind.lower() == "bearer" else None
            allowed = person is not None and person.owns and self.path == "/metrics"
            if not allowed:
                failures.note("", self.client_address[0], "metrics")
            content = exposition(storage).encode() if allowed else b"Show a token of an owner, at /metrics.\n"
            self.send_response(200 if allowed else 401)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing: the log is the service's."""

        timeout = 10

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="hush-metrics", daemon=True).start()
    return server


def exposition(storage: Storage) -> str:
    """Return the counters of all processes, those of dead ones too, in Prometheus' text format."""
    totals = storage.rows("SELECT name, SUM(value) FROM hush_counters GROUP BY name ORDER BY name")
    return "".join(f"{name} {value:g}\n" for name, value in totals)
