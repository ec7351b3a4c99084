"""Metrics for owners: counts of requests, questions and outcomes, and durations rounded up to slots.

Nothing here depends on a row more than what leaves anyway: durations are those of slots, and there are no counts of
rows, no names of people, no texts. All workers write their counters into the store of what goes on; metrics have a port
of their own, and are shown to owners' tokens alone.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hush.core import HushError
from hush.server.audit import FailureCounts
from hush.server.auth.people import People
from hush.server.errors import StorageError
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
        except HushError as error:
            outcome = error.code
            raise
        except BaseException:
            outcome = "internal"
            raise
        finally:
            self._values[f'hush_questions_total{{outcome="{outcome}"}}'] += 1
            slot = self._tick
            while slot < time.monotonic() - begun:
                slot *= 2
            self._values[f'hush_question_seconds_bucket{{slot="{slot:g}"}}'] += 1

    def write(self) -> None:
        """Write the counters down, for all workers to be seen together."""
        self._written = time.monotonic()
        process = json.dumps(this_process(), sort_keys=True)
        into = (
            "INSERT INTO hush_counters VALUES (?, ?, ?) ON CONFLICT (process, name) DO UPDATE SET value = "
            "excluded.value"
        )
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
            allowed = person is not None and person.owner and "own" in person.scopes and self.path == "/metrics"
            if not allowed:
                failures.note("", self.client_address[0], "metrics")
            content = exposition(storage).encode() if allowed else b"Show a token of an owner, at /metrics.\n"
            self.send_response(200 if allowed else 401)
            for name, value in {"Content-Type": "text/plain; version=0.0.4", "Cache-Control": "no-store"}.items():
                self.send_header(name, value)
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
