"""What an engine keeps of earlier questions, within a memory limit.

Results of statements are kept, which are a few exact integers a group, and tables inside the engine: of bounded rows
(`hush.engines.duckdb.bounded_rows`) and of groups with private keys (`hush.engines.duckdb.private_groups`). What was
used least recently goes first. None of it changes an answer or a price: an engine that keeps nothing returns the same
integers, later.

**Tables of public keys** (`KeyLists`), which rows are joined with to number them, are made when a question first needs
them, and kept like everything else. A question that uses one holds it meanwhile; one that is too large to be kept goes
with its question. Names are never used twice, since kept results are found by the text of their statements.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any

from hush.core.values import dataclass
from hush.engines.sql.build import Sql
from hush.engines.sql.keys import Axis, in_form
from hush.engines.sql.queries import read
from hush.engines.sql.values import Form
from hush.query.types import Value

if TYPE_CHECKING:
    import duckdb


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


_TABLE, _VALUE = 2**13, 128
"""About what a table takes in memory, and what a value takes there and in Python."""


class KeyLists:
    """The lists of one engine; ``connect`` gives a connection to it."""

    def __init__(self, cache: Cache, connect: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._cache = cache
        self._connect = connect
        self._numbers = count()
        self._lock = threading.Lock()

    def hold(self, axis: Axis, form: Form) -> Item:
        """Return a list's table as an item that stays until it is released."""
        key = (KeyLists, axis.values, form)
        with self._lock:  # made once, however many ask for it
            held = self._cache.hold(key)
            if held is not None:
                return held
            place = f"list_{next(self._numbers):015d}"  # always as long: a statement's length tells of no other
            # values that are one number to the engine get one number here: a row must never fall into two groups
            pairs = [(in_form(value, form), at) for at, value in enumerate(axis.values)]
            pairs = [(value, at) for value, at in pairs if value is not None or axis.values[at] is None]
            if form is Form.WIDE:  # as text, for the driver would hand over some of them as floats
                pairs = [(None if value is None else str(value), at) for value, at in pairs]
            with closing(self._connect()) as connection:
                connection.execute(
                    f'CREATE TABLE "{place}" AS SELECT k, min(c) AS c FROM (SELECT '  # noqa: S608 - our own words
                    f"unnest(CAST($1 AS {form.value}[])) AS k, unnest(CAST($2 AS INTEGER[])) AS c) GROUP BY k",
                    [[value for value, _ in pairs], [at for _, at in pairs]],
                )
            size = _TABLE + _VALUE * len(axis.values)
            if size <= self._cache.limit:
                held = self._cache.put(key, place, size, table=place)
            return held or Item(place, 0, place, users=1, gone=True)

    def release(self, items: list[Item]) -> None:
        """Give back what was held."""
        while items:
            self._cache.release(items.pop())


class HeldLists:
    """The lists of one question: they stay as long as this object does."""

    def __init__(self, lists: KeyLists) -> None:
        self._lists = lists
        self._held: dict[tuple[Sequence[Value], Form], str] = {}
        self._items: list[Item] = []
        weakref.finalize(self, lists.release, self._items).atexit = False

    def __call__(self, axis: Axis, form: Form, label: str) -> Sql:
        """Return a table that holds an axis's values k, in a form, and their numbers c, to select from under a name."""
        place = self._held.get((axis.values, form))
        if place is None:
            item = self._lists.hold(axis, form)
            self._items.append(item)
            place = self._held[axis.values, form] = item.value
        return read(place, label)
