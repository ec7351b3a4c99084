"""What an owner may watch: how many requests, outcomes and questions, and how long they took, to the slot.

Nothing here depends on a row more than what leaves anyway: durations are those of slots, and there are no counts of
rows, no names of people, no texts. All workers write their counters into the store of what goes on; metrics have a port
of their own, and are shown to owners' tokens alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from hush.core import HushError
from hush.server.traffic import Traffic

_WRITE = 1.0
"""Counters are written down at most so often, in seconds."""


class Counters:
    """The counters of one worker."""

    def __init__(self, traffic: Traffic, *, tick: float) -> None:
        self._traffic, self._tick = traffic, tick or 0.1
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
        self._traffic.count(dict(self._values))


def exposition(traffic: Traffic) -> str:
    """Return all counters in Prometheus' text form."""
    return "".join(f"{name} {value:g}\n" for name, value in traffic.counters().items())
