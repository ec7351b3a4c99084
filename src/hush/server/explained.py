"""A short-lived cache of explanations, kept apart for each person.

A page explains the same question at every turn: when it is opened, when its slider is let go, when it is asked.
Planning takes milliseconds each time, and gives the same. So a worker remembers the last explanations, each for

*   the person it was given to, and nobody else: two people may see different schemas, and that an explanation comes
    quickly must not tell what others asked;
*   the policy in force and the very words of the request;
*   the budgets as they were, which are part of what is explained. They are shown to this person anyway;
*   a minute, because public tables can change.

Nothing here depends on a protected row.

>>> cache = ExplanationCache()
>>> cache.get("alice", "key", lambda: ["planned"]), cache.get("alice", "key", lambda: ["planned anew"])
(['planned'], ['planned'])
>>> cache.get("bob", "key", lambda: ["bob's own"])
["bob's own"]
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Explained = TypeVar("Explained")
_EACH = 8
"""How many explanations are kept for one person …"""
_PEOPLE = 32
"""… and for how many people: some 6 MB, or 60 MB if every explanation has the largest number of prices."""
_SECONDS = 60.0


class ExplanationCache(Generic[Explained]):
    """The last explanations of each person, in one worker. Use it from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._people: OrderedDict[str, OrderedDict[Hashable, tuple[float, Explained]]] = OrderedDict()
        self._lock = threading.Lock()
        self._clock = clock

    def get(self, person: str, key: Hashable, explain: Callable[[], Explained]) -> Explained:
        """Return the stored explanation of a person and key, or compute and store it. Refusals are not stored."""
        with self._lock:
            explanations = self._people.get(person)
            entry = None if explanations is None else explanations.get(key)
        if entry is not None and self._clock() - entry[0] < _SECONDS:
            return entry[1]
        # Outside of the lock, so that nobody waits for another person's planning.
        explained = explain()
        with self._lock:
            explanations = self._people.setdefault(person, OrderedDict())
            self._people.move_to_end(person)
            explanations[key] = (self._clock(), explained)
            explanations.move_to_end(key)
            if len(explanations) > _EACH:
                explanations.popitem(last=False)
            if len(self._people) > _PEOPLE:
                self._people.popitem(last=False)
        return explained
