r"""The cache of an engine: results and tables of earlier questions, within a memory limit.

Results of statements are kept, which are a few exact integers a group, the shapes of statements that the engine
understands, and tables of bounded rows inside the engine (`BoundedTables`). What was used least recently goes first.
None of it changes an answer, a price or a refusal: it lives as long as its engine, which has one schema for life.

**Bounded rows.** Most of the work of a question about units with many rows is to find each unit's first groups. That
depends on the relation, the keys, the number of groups and the engine's hash key, and not on what is counted or summed.
So from the *second* question on the same groups on, the rows within the bounds are stored in a table (`StoredTable`),
and this question and the next read them instead; the first pays nothing for a table that nobody may ask for again.

A table is kept under everything that determines its rows, the files' identities too: a file that changes is read anew.
It has the columns that this question reads; of a single table also its other columns that are not texts, if there is
room. A stored column is used only if the relation, reduced to that column and the keys, is the same tree. The rows
times the width of a row must fit into the cache's limit before anything is stored; what DuckDB then reports for the
table is what the cache counts.

**Nothing shows but time.** If storing or reading a stored table fails, the question is answered from the tables. How
long an answer takes does tell that somebody asked about the same groups before (SECURITY.md, Time).
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hush.engines.errors import log
from hush.engines.sql.bounding import Reads, StoredRows, StoredTable
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.nodes import count, select
from hush.engines.sql.relations import Catalogue
from hush.engines.sql.render import Statement, plain, render
from hush.engines.sql.statements import Row, Statements
from hush.engines.sql.values import SqlType
from hush.query.errors import UnplannableError
from hush.query.expressions import Column
from hush.query.plan.stability import Units
from hush.query.relations import Filter, Relation, Scan, pruned, used
from hush.query.relations import columns as columns_of
from hush.query.types import Kind


class Cache:
    """Kept values by key, the least recently used first. Use it from any thread.

    A table of the engine is dropped with its value, whoever reads it: that question is answered without.
    """

    def __init__(self, limit: int, drop: Callable[[str], None]) -> None:
        self.limit = limit
        self._drop = drop
        self._items: OrderedDict[Hashable, tuple[Any, int, str]] = OrderedDict()
        """Values, their sizes, and the names of their tables."""
        self.size = 0
        """How many bytes are kept, as far as is known."""
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Any:
        """Return the value under a key, or None."""
        with self._lock:
            if key not in self._items:
                return None
            self._items.move_to_end(key)
            return self._items[key][0]

    def put(self, key: Hashable, value: Any, size: int, *, table: str = "") -> None:
        """Keep something if it fits; else drop its table."""
        with self._lock:
            if key in self._items:
                self._forget(*self._items.pop(key))
            self._items[key] = value, size, table
            self.size += size
            # what has just come goes first if it does not fit by itself, and never otherwise
            while self.size > self.limit:
                self._forget(*self._items.popitem(last=size > self.limit)[1])

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            while self._items:
                self._forget(*self._items.popitem()[1])

    def _forget(self, _: Any, size: int, table: str) -> None:
        self.size -= size
        if table:
            self._drop(table)


_MEMORY_OF_TABLES = "SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'IN_MEMORY_TABLE'"
_NUMBER, _TEXT, _DEMAND = 8, 48, 2**10
"""About how many bytes a number, a text and a `Demand` take."""
_ENOUGH = 2
"""A table is stored for every second question that finds none."""


@dataclass(slots=True)
class Demand:
    """How often questions on the same groups found no stored table, and the most rows that one would have."""

    misses: int = 0
    row_count: int | None = None
    """None as long as nobody has counted them."""


class BoundedTables:
    """The tables of bounded rows of one engine."""

    def __init__(self, cache: Cache, fetch: Callable[[Statement, Mapping[int, Any]], list[Row]]) -> None:
        self._cache = cache
        self._fetch = fetch
        self._making = threading.Lock()
        self._numbers = itertools.count(1)

    def rows(self, prepared: Statements, catalogue: Catalogue, stamps: Hashable) -> tuple[StoredRows | None, Demand]:
        """Return the stored rows for a plan, or None, and the demand for them, which notes how many there are."""
        exact_query, reads = prepared.plan.exact_query, prepared.rows.reads
        keys = [value for _, value in exact_query.keys]
        if exact_query.limits.units is Units.ALONE or not self._cache.limit:
            return None, Demand()
        groups = (  # all that fixes which rows are stored, and in which groups
            stamps,
            pruned(exact_query.relation, used(keys)),
            tuple(keys),
            None if prepared.rows.axes is None else tuple([axis.values for axis in prepared.rows.axes]),
            exact_query.limits.units,
            exact_query.limits.groups,
            prepared.rows.bounds,
        )
        demand = self._cache.get(("demand", groups))
        if demand is None:
            demand = Demand()
            self._cache.put(("demand", groups), demand, _DEMAND)
        table: StoredTable | None = self._cache.get(groups)
        if table is None or not table.has(exact_query.relation, reads.names, used(keys)):
            table = None
            demand.misses += 1
            # whoever comes while a table is being made does not wait for it
            if demand.misses % _ENOUGH == 0 and self._making.acquire(blocking=False):
                try:
                    table = self._store(prepared, catalogue, groups, demand)
                except Exception:  # the same question is answered without  # noqa: BLE001
                    log.debug("bounded rows could not be stored", exc_info=True)
                finally:
                    self._making.release()
        with suppress(UnplannableError):  # too long to be written: the question is answered without
            return None if table is None else StoredRows(table, reads, prepared.rows.salt), demand
        return None, demand

    def _store(
        self, prepared: Statements, catalogue: Catalogue, groups: Hashable, demand: Demand
    ) -> StoredTable | None:
        """Store a plan's bounded rows in a new table and return it; None if there is no room for it."""
        own, read = prepared.plan.exact_query.relation, prepared.rows.reads.names
        # first with columns that nobody has asked for yet, then, if there is no room, with those that were read
        for relation in (widened(own, catalogue), own):
            types = columns_of(relation)
            names = read if relation is own else read | {name for name in types if types[name].kind is not Kind.TEXT}
            reads = Reads(tuple(Column(label, types[label]) for label in sorted(names)), frozenset())
            fresh = prepared.rows.reading(reads, relation)
            table = StoredTable.of(f"bounded_{next(self._numbers)}", relation, fresh, names)
            if demand.row_count is None:  # no more than there are before the bounds
                every_row = render(select([count()], fresh.plain([])), DUCKDB, limited=False)
                demand.row_count = int(self._fetch(every_row, fresh.lists.parameters)[0][0])
            forms = [SqlType.TEXT, *table.keys.values(), *(value.form for _, value in table.columns.values())]
            width = sum([_TEXT if form is SqlType.TEXT else _NUMBER for form in forms])
            if demand.row_count * width > self._cache.limit:
                continue
            before = self._used()
            stored = render(table.query(fresh), DUCKDB, limited=False)
            created = stored._replace(text=DUCKDB.created("TABLE", table.place, stored.text))
            self._fetch(created, fresh.lists.parameters)
            self._cache.put(groups, table, max(0, self._used() - before), table=table.place)
            return table
        return None

    def _used(self) -> int:
        """Return how many bytes all tables take in memory."""
        usage = self._fetch(plain(_MEMORY_OF_TABLES), {})
        return int(usage[0][0]) if usage else 0


def widened(relation: Relation, catalogue: Catalogue) -> Relation:
    """Return a filtered table with all its columns that are not texts; any other relation as it is."""
    match relation:
        case Filter():
            return replace(relation, source=widened(relation.source, catalogue))
        case Scan():
            names = {label for label, _, _ in relation.columns} | {source for _, source, _ in relation.columns}
            stored = catalogue.types.get(relation.table, {})
            more = tuple(
                (label, label, type_)
                for label, type_ in catalogue.schema.tables[relation.table].columns.items()
                # texts are left out because they take most of the room
                if type_.kind is not Kind.TEXT and label in stored and label not in names
            )
            return replace(relation, columns=(*relation.columns, *more))
        case _:
            return relation
