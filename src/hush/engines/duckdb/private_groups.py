r"""Groups with private keys: they stay inside the engine until they are chosen.

There may be as many keys as rows, and few of them are ever shown. So the main statement's groups go into a table of the
engine, and only their numbers of units come out, as arrays, a million at a time. Whoever runs the plan says which of
these groups it wants (`Choose`); their keys and integers are fetched, and the remaining statements (`chosen`) compute
the quantiles and distinct values of these groups alone. What Python holds is bounded by the chosen groups and one
array.

**Nothing but the numbers of units decides.** A group is offered once, whatever its key is. The order in which groups
are offered is the engine's own; it decides nothing as long as draws are independent and alike for equal numbers. The
chosen ones come out in the order of their keys. Which rows of a unit count was decided before, over all keys.

**Kept.** A table that takes no more than a quarter of the cache's limit is kept for the same question, under the
statement and the files' identities; it holds all groups, so each answer chooses afresh. Others are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hush.engines.duckdb.cache import Cache
from hush.engines.duckdb.session import Session, text_of
from hush.engines.errors import EngineError
from hush.engines.protocol import Choose, Exact
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.keys import CHOSEN, NUMBER
from hush.engines.sql.nodes import (
    EVERYTHING,
    Between,
    Directed,
    Select,
    Star,
    TableName,
    alias,
    binary,
    call,
    cast,
    column,
    integer,
    joined,
    primitive,
    select,
    where,
    window,
)
from hush.engines.sql.statements import KEPT, Groups, Statements
from hush.query.types import Kind

_AT_ONCE = 2**20
_WANTED = "wanted"
_LEAST = 2**19
"""Bytes of a small table."""


class PrivateGroups:
    """The groups of questions with private keys, of one engine."""

    def __init__(self, cache: Cache, begin: Callable[[], Session], stamps: Callable[[], Hashable]) -> None:
        self._cache = cache
        self._begin = begin
        self._stamps = stamps
        self._lock = threading.Lock()
        self._made = 0

    def knows(self, prepared: Statements, stamps: Hashable) -> bool:
        """Return whether a plan can be answered from the cache alone."""
        return not prepared.others and self._cache.get(_key(prepared, stamps)) is not None

    def execute(
        self, prepared: Statements, quick: dict[str, str], stamps: Hashable, choose: Choose | None
    ) -> tuple[Exact, int | None]:
        """Run a prepared plan, and return its exact integers and, if it was found out, how many rows are kept.

        ``stamps`` are those of the files when this question began. ``quick`` has, for some statements, one that
        computes the same in less time.
        """
        main = prepared.main
        assert main is not None  # noqa: S101 - it counts the units by which keys are chosen
        with self._begin() as session, self._table(session, prepared, quick, stamps) as table:
            group_rows = _wanted(session, table, choose)
            session.register(_WANTED, {"at": group_rows})
            query = _chosen(table, prepared.rows.keys)
            if prepared.others:
                # the other statements find the chosen keys under this name
                session.execute(DUCKDB.created("TEMP TABLE", CHOSEN, text_of(query)))
                query = select([EVERYTHING], TableName(CHOSEN))
            rows = session.execute(text_of(replace(query, order=(column(NUMBER),))))
            first = 1 + len(prepared.rows.keys)
            groups = Groups(keys=[row[1:first] for row in rows], grouped=True)
            results = (_either(session, statement.text, quick) for statement in prepared.others)
            return groups.exact(prepared, [NUMBER, *main.labels], rows, results), table.kept

    @contextmanager
    def _table(
        self, session: Session, prepared: Statements, quick: dict[str, str], stamps: Hashable
    ) -> Iterator[_Table]:
        """Give the table of all groups; it stays as long as the context does."""
        entry = self._cache.hold(_key(prepared, stamps))
        if entry is None:
            with self._lock:
                self._made += 1
                name = f"groups_{self._made}"
            assert prepared.main is not None  # noqa: S101 - the caller looked
            try:
                _either(session, prepared.main.text, quick, name)
                table, size = _measured(session, prepared, name)
                # kept only if the files are still those that the question began with
                if size <= self._cache.limit // 4 and self._stamps() == stamps:
                    entry = self._cache.put(_key(prepared, stamps), table, size, table=name)
                if entry is None:
                    yield table
                    return
            finally:
                if entry is None:
                    # its name is never used again, so one that cannot be dropped does no harm
                    with suppress(EngineError):
                        session.execute(DUCKDB.dropped(name))
        try:
            yield entry.value
        finally:
            self._cache.release(entry)


@dataclass(frozen=True, slots=True)
class _Table:
    place: str
    size: int
    """One more than the largest number of a row."""
    kept: int | None
    """How many rows the groups were made of, where rows are bounded."""


def _measured(session: Session, prepared: Statements, name: str) -> tuple[_Table, int]:
    """Return a table of groups, and about how many bytes it takes, rather too many than too few."""
    assert prepared.main is not None  # noqa: S101 - the caller looked
    labels, keys = prepared.main.labels, prepared.plan.exact_query.keys
    texts = [
        call("sum", primitive("byte_length", column(label)))
        for label, (_, value) in zip(prepared.rows.keys, keys, strict=True)
        if value.type.kind is Kind.TEXT
    ]
    size_of_table = call("max", column("rowid")) + 1
    sums = [size_of_table, call("sum", column(KEPT)) if KEPT in labels else integer(0), *texts]
    sums_row = session.execute(text_of(select(sums, TableName(name))))[0]
    size, row_count, *lengths = (int(cell or 0) for cell in sums_row)
    return _Table(name, size, row_count if KEPT in labels else None), _LEAST + 16 * size * len(labels) + sum(lengths)


def _key(prepared: Statements, stamps: Hashable) -> Hashable:
    return ("groups", stamps, None if prepared.main is None else prepared.main.text)


def _either(session: Session, text: str, quick: dict[str, str], table: str | None = None) -> list[tuple[int, ...]]:
    """Run the quicker of two statements, or the other if that fails; store the rows in a place, or return them."""

    def run(statement: str) -> list[tuple[int, ...]]:
        return session.execute(statement if table is None else DUCKDB.created("TABLE", table, statement))

    if text in quick:
        # whatever went wrong with stored rows, the tables give the same integers
        with suppress(EngineError):
            return run(quick[text])
    return run(text)


def _chosen(table: _Table, keys: Sequence[str]) -> Select:
    """Return the groups that are wanted, numbered in the order of their keys."""
    # by key, so that the answer does not show the order in which the engine found the groups
    order = [Directed(column(key, "t"), descending=False, nulls_first=False) for key in keys]
    number = window("row_number", [], order) - 1
    rows = select([alias(number, NUMBER), Star("t")], TableName(table.place, "t"))
    return joined(rows, TableName(_WANTED, "w"), "semi", binary("=", column("rowid", "t"), column("at", "w")))


def _wanted(session: Session, table: _Table, choose: Choose | None) -> npt.NDArray[np.int64]:
    """Return which groups are wanted, by their row in the table."""
    batches = [np.zeros(0, dtype=np.int64)]
    for start in range(0, table.size, _AT_ONCE):
        # rowid finds the batch without sorting: the table is never changed once it is made
        cells = [alias(column("rowid"), "at"), alias(cast(column("units"), "BIGINT"), "units")]
        inside = Between(column("rowid"), integer(start), integer(start + _AT_ONCE - 1))
        batch = session.columns(text_of(where(select(cells, TableName(table.place)), inside)))
        batches.append(batch["at"] if choose is None else batch["at"][choose(batch["units"])])
    return np.concatenate(batches)
