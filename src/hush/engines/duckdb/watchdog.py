"""Interrupts statements that take too long, with one thread for all: starting one each takes as long as planning.

>>> import time
>>> dog, late = Watchdog(0.01), []
>>> with dog.watching(lambda: late.append("interrupted")):
...     time.sleep(0.2)
>>> with dog.watching(lambda: late.append("not this one")):
...     pass
>>> dog.close(); late
['interrupted']
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Watchdog:
    """Calls whatever is watched for longer than ``timeout`` seconds; without one, nothing."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._changed = threading.Condition()
        self._watched: dict[object, tuple[float, Callable[[], object]]] = {}  # by deadline: all wait equally long
        self._thread: threading.Thread | None = None
        self._idle = False
        self._closed = False

    @contextmanager
    def watching(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Call ``interrupt`` if the context lasts too long."""
        if not self._timeout:
            yield
            return
        token = object()
        with self._changed:
            self._watched[token] = (time.monotonic() + self._timeout, interrupt)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="hush-watchdog", daemon=True)
                self._thread.start()
            elif self._idle:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(token, None)

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                if not self._watched:
                    self._idle = True
                    self._changed.wait()
                    self._idle = False
                    continue
                left = next(iter(self._watched.values()))[0] - time.monotonic()
                if left > 0:
                    self._changed.wait(left)  # whoever comes meanwhile has a later deadline
                else:
                    self._interrupt()

    def _interrupt(self) -> None:
        """Call the first; the thread itself keeps nothing of what it watches, which would outlive the interpreter."""
        _, interrupt = self._watched.pop(next(iter(self._watched)))
        with suppress(Exception):  # a connection that was closed meanwhile
            interrupt()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
