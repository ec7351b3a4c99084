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
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import numpy.typing as npt

from hush.core.values import dataclass
from hush.engines.base import Choose, Exact
from hush.engines.duckdb.cache import Cache
from hush.engines.duckdb.session import Session
from hush.engines.errors import EngineError
from hush.engines.sql.keys import CHOSEN, NUMBER
from hush.engines.sql.main_statement import KEPT
from hush.engines.statements import Groups, Statements
from hush.query.types import Kind

_AT_ONCE = 2**20
_WANTED = "wanted"
_LEAST = 2**19
"""What a small table takes."""


class PrivateGroups:
    """The groups of questions with private keys, of one engine."""

    def __init__(self, cache: Cache, begin: Callable[[], Session], stamps: Callable[[], Hashable]) -> None:
        self._cache = cache
        self._begin = begin
        self._stamps = stamps
        self._lock = threading.Lock()
        self._made = 0

    def knows(self, compiled: Statements, stamps: Hashable) -> bool:
        """Return whether a plan can be answered from what is kept alone."""
        return not compiled.others and self._cache.get(_key(compiled, stamps)) is not None

    def execute(
        self, compiled: Statements, quick: dict[str, str], stamps: Hashable, choose: Choose | None
    ) -> tuple[Exact, int | None]:
        """Run a compiled plan, and return its exact integers and, if it was found out, how many rows are kept.

        ``stamps`` are those of the files when this question began. ``quick`` has, for some statements, one that
        computes the same in less time.
        """
        main = compiled.main
        assert main is not None  # noqa: S101 - it counts the units by which keys are chosen
        with self._begin() as session, self._table(session, compiled, quick, stamps) as table:
            wanted = _wanted(session, table, choose)
            session.register(_WANTED, {"at": wanted})
            order = ", ".join(f'"{key}" NULLS LAST' for key in compiled.keys)
            chosen = (
                f'SELECT row_number() OVER (ORDER BY {order}) - 1 AS "{NUMBER}", t.* '  # noqa: S608 - our own names
                f'FROM "{table.place}" AS t SEMI JOIN "{_WANTED}" AS w ON t.rowid = w."at"'
            )
            if compiled.others:
                session.execute(f'CREATE TEMP TABLE "{CHOSEN}" AS {chosen}')
                chosen = f'SELECT * FROM "{CHOSEN}"'  # noqa: S608
            rows = session.execute(f'{chosen} ORDER BY "{NUMBER}"')
            first = 1 + len(compiled.keys)
            groups = Groups(keys=[row[1:first] for row in rows], grouped=True)
            others = (_either(session, item.text, quick) for item in compiled.others)
            return groups.exact(compiled, [NUMBER, *main.labels], rows, others), table.kept

    @contextmanager
    def _table(
        self, session: Session, compiled: Statements, quick: dict[str, str], stamps: Hashable
    ) -> Iterator[_Table]:
        """Give the table of all groups; it stays as long as the context does."""
        held = self._cache.hold(_key(compiled, stamps))
        if held is None:
            with self._lock:
                self._made += 1
                place = f"groups_{self._made}"
            assert compiled.main is not None  # noqa: S101 - the caller looked
            try:
                _either(session, compiled.main.text, quick, f'CREATE TABLE "{place}" AS ')
                table, size = _measured(session, compiled, place)
                if size <= self._cache.limit // 4 and self._stamps() == stamps:
                    held = self._cache.put(_key(compiled, stamps), table, size, table=place)
                if held is None:
                    yield table
                    return
            finally:
                if held is None:
                    with suppress(EngineError):
                        session.execute(f'DROP TABLE IF EXISTS "{place}"')
        try:
            yield held.value
        finally:
            self._cache.release(held)


@dataclass(frozen=True, slots=True)
class _Table:
    place: str
    size: int
    """One more than the largest number of a row."""
    kept: int | None
    """How many rows the groups were made of, where rows are bounded."""


def _measured(session: Session, compiled: Statements, place: str) -> tuple[_Table, int]:
    """Return a table of groups, and about how many bytes it takes, rather too many than too few."""
    assert compiled.main is not None  # noqa: S101 - the caller looked
    labels, keys = compiled.main.labels, compiled.plan.extraction.keys
    texts = [
        f'sum(strlen("{label}"))'
        for label, (_, value) in zip(compiled.keys, keys, strict=True)
        if value.type.kind is Kind.TEXT
    ]
    sums = ["max(rowid) + 1", f'sum("{KEPT}")' if KEPT in labels else "0", *texts]
    found = session.execute(f'SELECT {", ".join(sums)} FROM "{place}"')[0]  # noqa: S608 - our own names
    size, kept, *lengths = (int(cell or 0) for cell in found)
    return _Table(place, size, kept if KEPT in labels else None), _LEAST + 16 * size * len(labels) + sum(lengths)


def _key(compiled: Statements, stamps: Hashable) -> Hashable:
    return ("groups", stamps, None if compiled.main is None else compiled.main.text)


def _either(session: Session, text: str, quick: dict[str, str], before: str = "") -> list[tuple[int, ...]]:
    """Run the quicker of two statements, or the other if that fails."""
    if text in quick:
        with suppress(EngineError):
            return session.execute(before + quick[text])
    return session.execute(before + text)


def _wanted(session: Session, table: _Table, choose: Choose | None) -> npt.NDArray[np.int64]:
    """Return which groups are wanted, by their row in the table."""
    found = [np.zeros(0, dtype=np.int64)]
    for start in range(0, table.size, _AT_ONCE):
        part = session.columns(
            f'SELECT rowid AS "at", CAST("units" AS BIGINT) AS "units" FROM "{table.place}" '  # noqa: S608
            f"WHERE rowid >= {start} AND rowid < {start + _AT_ONCE}"
        )
        found.append(part["at"] if choose is None else part["at"][choose(part["units"])])
    return np.concatenate(found)
