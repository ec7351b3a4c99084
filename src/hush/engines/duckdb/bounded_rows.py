r"""Bounded rows that are kept inside the engine for the next question on the same groups.

Most of the work of a question about units with many rows is to find each unit's first groups. That depends on the
relation, the keys, the number of groups and the engine's hash key, and not on what is counted or summed. So from the
*second* question on the same groups on, the rows within the bounds are stored in a table of their own (`Layout`), and
this question and the next read them instead; the first pays nothing for a table that nobody may ask for again.

**What it is kept under.** Everything that determines the rows: the files' identities (path, inode, size, time of
change), the relation reduced to what its conditions and the keys read, the keys, their public values, how units are
told and how many groups they have. The hash key lives as long as the engine. So a file that changes is read anew.

**Which columns.** All that questions on these groups have read; of a single table also its other columns that are not
texts, if there is room. A stored column is used only if the relation, reduced to that column and the keys, is the same
tree. A question that reads other columns is answered from the tables.

**Room.** The first question's statement says how many rows were kept; times the width of a row, that must fit into the
cache's limit before anything is stored. What DuckDB then reports for the table is what the cache counts.

**Nothing shows but time.** Answers, prices and refusals are the same with and without: if storing or reading a stored
table fails, the question is answered from the tables as if there were none. How long an answer takes does tell that
somebody asked about the same groups before (SECURITY.md, Time).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from hush.core.values import dataclass
from hush.engines.duckdb.cache import Cache, Item
from hush.engines.errors import EngineError, log
from hush.engines.sql.build import count
from hush.engines.sql.queries import select
from hush.engines.sql.relations import Catalogue, unit_type
from hush.engines.sql.rendered import names_in
from hush.engines.sql.rows import Fresh, Layout, Reads, Stored
from hush.engines.sql.values import Form, Value
from hush.engines.statements import Statements
from hush.query.errors import UnplannableError
from hush.query.expressions import Column
from hush.query.plan.limits import Units
from hush.query.relations import Filter, Join, Project, Relation, Scan, pruned
from hush.query.relations import columns as columns_of
from hush.query.types import Kind

_WIDTHS = {
    Form.INTEGER: 8, Form.WIDE: 16, Form.DOUBLE: 8, Form.TEXT: 48, Form.BOOLEAN: 1, Form.DATE: 4, Form.TIMESTAMP: 8,
}  # fmt: skip
_UNIT_WIDTHS = {"VARCHAR": 48, "HUGEINT": 16, "UUID": 16}
_REMEMBERED = 256
_ENOUGH = 2


@dataclass(slots=True)
class _Wish:
    """What questions on one set of groups have read so far."""

    relation: Relation
    names: frozenset[str]
    misses: int = 0
    rows: int | None = None
    """How many rows are kept, once it is known."""


@dataclass(frozen=True, slots=True)
class _Table:
    place: str
    layout: Layout
    relation: Relation


class BoundedTables:
    """The tables of bounded rows of one engine."""

    def __init__(self, cache: Cache, salt: int, execute: Callable[[str], list[tuple[int, ...]]]) -> None:
        self._cache = cache
        self._salt = salt
        self._execute = execute
        self._wishes: OrderedDict[Hashable, _Wish] = OrderedDict()
        self._lock = threading.Lock()
        self._busy = threading.Lock()
        self._made = 0

    @contextmanager
    def rows(self, compiled: Statements, catalogue: Catalogue, stamps: Hashable) -> Iterator[Stored | None]:
        """Give the stored rows for a plan, or None; they stay as long as the context does."""
        if compiled.plan.extraction.limits.units is Units.ALONE or not self._cache.limit:
            yield None
            return
        held = self._find(compiled, catalogue, _groups(compiled, stamps))
        if held is None:
            yield None
            return
        try:
            stored: Stored | None = None
            with suppress(UnplannableError):  # too long to be written: the question is answered without
                stored = Stored(held.value.layout, held.value.place, compiled.reads, self._salt)
            yield stored
        finally:
            self._cache.release(held)

    def learn(self, compiled: Statements, stamps: Hashable, rows: int) -> None:
        """Note how many rows the bounds keep."""
        with self._lock:
            wish = self._wishes.get(_groups(compiled, stamps))
            if wish is not None:
                wish.rows = rows

    def forget(self) -> None:
        """Forget which questions there were."""
        with self._lock:
            self._wishes.clear()

    def _find(self, compiled: Statements, catalogue: Catalogue, groups: Hashable) -> Item | None:
        held = self._cache.hold(groups)
        if held is not None:
            if _covers(held.value, compiled):
                return held
            self._cache.release(held)
        relation, names = compiled.plan.extraction.relation, compiled.reads.names
        with self._lock:
            wish = self._wishes.setdefault(groups, _Wish(relation, names))
            self._wishes.move_to_end(groups)
            if len(self._wishes) > _REMEMBERED:
                self._wishes.popitem(last=False)
            together = merged(wish.relation, relation)
            wish.names = names if together is None else wish.names | names
            wish.relation = together or relation
            wish.misses += 1
            if wish.misses < _ENOUGH:
                return None
            wish.misses = 0
        # whoever comes while a table is being made does not wait for it
        if not self._busy.acquire(blocking=False):
            return None
        try:
            return self._make(compiled, catalogue, groups, wish)
        except EngineError:
            return None
        except Exception:  # the same question is answered without  # noqa: BLE001
            log.debug("bounded rows could not be stored", exc_info=True)
            return None
        finally:
            self._busy.release()

    def _make(self, compiled: Statements, catalogue: Catalogue, groups: Hashable, wish: _Wish) -> Item | None:
        wide = widened(wish.relation, catalogue)
        plain = {label for label, type_ in columns_of(wide).items() if type_.kind is not Kind.TEXT}
        for relation, names in ((wide, wish.names | plain), (wish.relation, wish.names)):
            extraction = replace(compiled.plan.extraction, relation=relation)
            types = columns_of(relation)
            reads = Reads(tuple(Column(label, types[label]) for label in sorted(names)), frozenset(names))
            fresh = Fresh(
                extraction, catalogue, compiled.axes, self._salt, reads, lists=compiled.lists, bounds=compiled.bounds
            )
            layout = Layout.of(fresh, names)
            if wish.rows is None:  # no more than there are before the bounds
                wish.rows = self._execute(select([count()], fresh.plain([])).text)[0][0]
            if wish.rows * _row_width(layout, compiled, catalogue) > self._cache.limit:
                continue
            self._made += 1
            place = f"bounded_{self._made}"
            before = self._used()
            self._execute(f'CREATE TABLE "{place}" AS {layout.table_of(fresh).text}')
            size = max(0, self._used() - before)
            return self._cache.put(groups, _Table(place, layout, relation), size, table=place)
        return None

    def _used(self) -> int:
        """Return how many bytes all tables take in memory."""
        found = self._execute("SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'IN_MEMORY_TABLE'")
        return int(found[0][0]) if found else 0


def _row_width(layout: Layout, compiled: Statements, catalogue: Catalogue) -> int:
    """Return about how many bytes a stored row takes."""
    keys = 8 if compiled.axes else 48 * len(layout.keys)
    unit = "HUGEINT" if compiled.plan.extraction.limits.units is Units.NUMBERED else unit_type(catalogue) or "VARCHAR"
    return 4 + keys + _UNIT_WIDTHS.get(unit, 8) + sum(_width(value) for _, value in layout.columns.values())


def _width(value: Value) -> int:
    small = value.within is not None and max(map(abs, value.within)) < 2**30
    return 4 if small else _WIDTHS[value.form]


def _key_names(compiled: Statements) -> frozenset[str]:
    return frozenset(label for _, value in compiled.plan.extraction.keys for label in names_in(value))


def _groups(compiled: Statements, stamps: Hashable) -> Hashable:
    """Return everything that determines which rows are kept, and in which groups."""
    extraction = compiled.plan.extraction
    return (
        stamps,
        _reduced(extraction.relation, _key_names(compiled)),
        tuple(value for _, value in extraction.keys),
        None if compiled.axes is None else tuple(axis.values for axis in compiled.axes),
        extraction.limits.units,
        extraction.limits.groups,
        compiled.bounds,
    )


def _covers(table: _Table, compiled: Statements) -> bool:
    names = compiled.reads.names
    if not names <= table.layout.columns.keys():
        return False
    needed = names | _key_names(compiled)
    return _reduced(table.relation, needed) == _reduced(compiled.plan.extraction.relation, needed)


def _reduced(relation: Relation, names: frozenset[str]) -> Relation:
    """Return the relation with no more than the named columns, in an order of their own."""
    return _ordered(pruned(relation, names))


def _ordered(relation: Relation) -> Relation:
    match relation:
        case Scan():
            return replace(relation, columns=tuple(sorted(relation.columns, key=lambda column: column[0])))
        case Filter():
            return replace(relation, source=_ordered(relation.source))
        case Project():
            columns = tuple(sorted(relation.columns, key=lambda column: column[0]))
            return replace(relation, source=_ordered(relation.source), columns=columns)
        case Join():
            return replace(relation, left=_ordered(relation.left), right=_ordered(relation.right))
        case _:
            return relation


def merged(one: Relation, other: Relation) -> Relation | None:
    """Return the relation with the columns of both, if they differ in nothing else."""
    match one, other:
        case Scan(), Scan():
            columns = {column[0]: column for column in one.columns}
            agree = all(columns.setdefault(column[0], column) == column for column in other.columns)
            whole = replace(one, columns=tuple(columns.values()))
            return whole if agree and replace(other, columns=whole.columns) == whole else None
        case Filter(), Filter():
            source = merged(one.source, other.source)
            return replace(one, source=source) if source and one.condition == other.condition else None
        case Project(), Project():
            source = merged(one.source, other.source)
            made = dict(one.columns)
            agree = all(made.setdefault(label, value) == value for label, value in other.columns)
            return replace(one, source=source, columns=tuple(made.items())) if source and agree else None
        case Join(), Join():
            left, right = merged(one.left, other.left), merged(one.right, other.right)
            if left is None or right is None:
                return None
            whole_join = replace(one, left=left, right=right)
            return whole_join if replace(other, left=left, right=right) == whole_join else None
        case _:
            return one if one == other else None


def widened(relation: Relation, catalogue: Catalogue) -> Relation:
    """Return a filtered table with all its columns that are not texts; any other relation as it is."""
    match relation:
        case Filter():
            return replace(relation, source=widened(relation.source, catalogue))
        case Scan():
            known = {label for label, _, _ in relation.columns} | {source for _, source, _ in relation.columns}
            stored = catalogue.types.get(relation.table, {})
            more = tuple(
                (label, label, type_)
                for label, type_ in catalogue.schema.tables[relation.table].columns.items()
                if type_.kind is not Kind.TEXT and label in stored and label not in known
            )
            return replace(relation, columns=(*relation.columns, *more))
        case _:
            return relation
