"""Tables of public keys inside the engine, which rows are joined with to number them.

A list is made when a question first needs it, and kept for the next like everything else (`hush.engines.duckdb.cache`):
within the cache's limit, the least recently used goes first. A question that uses it holds it meanwhile; one that is
too large to be kept goes with its question. Names are never used twice, since kept results are found by the text of
their statements.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Any

from hush.engines.duckdb.cache import Cache, Item
from hush.engines.sql.build import Sql, read
from hush.engines.sql.keys import Axis
from hush.engines.sql.values import Form
from hush.query.types import Value

if TYPE_CHECKING:
    import duckdb

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
            pairs = [(_in_form(value, form), at) for at, value in enumerate(axis.values)]
            pairs = [(value, at) for value, at in pairs if value is not None or axis.values[at] is None]
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
        self._held: dict[tuple[tuple[Value, ...], Form], str] = {}
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


def _in_form(value: Value, form: Form) -> Any:
    """Return a public value as the engine holds it; None if no value of that form equals it."""
    if not isinstance(value, Fraction):
        return value
    if form is Form.INTEGER:
        return int(value) if value.denominator == 1 and -(2**63) <= value < 2**63 else None
    try:
        return float(value)
    except OverflowError:
        return None
