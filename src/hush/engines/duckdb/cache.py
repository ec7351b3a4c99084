"""What an engine keeps of earlier questions, within a memory limit.

Results of statements are kept, which are a few exact integers a group, and tables inside the engine: of bounded rows
(`hush.engines.duckdb.bounded_rows`) and of groups with private keys (`hush.engines.duckdb.private_groups`). What was
used least recently goes first. None of it changes an answer or a price: an engine that keeps nothing returns the same
integers, later.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class Item:
    """Something that is kept."""

    value: Any
    size: int
    table: str | None = None
    """The engine's table to be dropped with it."""
    users: int = 0
    gone: bool = False


class Cache:
    """Kept things by key, the least recently used first. Use it from any thread."""

    def __init__(self, limit: int, drop: Callable[[str], None]) -> None:
        self.limit = limit
        self._drop = drop
        self._items: OrderedDict[Hashable, Item] = OrderedDict()
        self._size = 0
        self._lock = threading.RLock()

    @property
    def size(self) -> int:
        """How many bytes are kept, as far as is known."""
        return self._size

    def get(self, key: Hashable) -> Any:
        """Return what is kept under a key, or None."""
        with self._lock:
            item = self._items.get(key)
            if item is None:
                return None
            self._items.move_to_end(key)
            return item.value

    def put(self, key: Hashable, value: Any, size: int, *, table: str | None = None) -> Item | None:
        """Keep something if it fits, and return it held (see `hold`) if it is a table."""
        item = Item(value, size, table, users=0 if table is None else 1)
        with self._lock:
            if size > self.limit:
                self._forget(Item(value, 0, table))
                return None
            old = self._items.pop(key, None)
            if old is not None:
                self._forget(old)
            self._items[key] = item
            self._size += size
            for other in list(self._items):
                if self._size <= self.limit:
                    break
                if self._items[other] is not item:
                    self._forget(self._items.pop(other))
        return item

    def hold(self, key: Hashable) -> Item | None:
        """Return what is kept under a key; its table stays until `release`."""
        with self._lock:
            item = self._items.get(key)
            if item is not None:
                self._items.move_to_end(key)
                item.users += 1
            return item

    def release(self, item: Item) -> None:
        """Give back what was held."""
        with self._lock:
            item.users -= 1
            if item.gone and not item.users and item.table is not None:
                self._drop(item.table)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            while self._items:
                self._forget(self._items.popitem()[1])

    def _forget(self, item: Item) -> None:
        self._size -= item.size
        item.gone = True
        if item.table is not None and not item.users:
            self._drop(item.table)
