"""DuckDB, embedded and locked up.

A connection is opened, the owner's sources are registered, and then it is closed to the world for good: no extensions,
no files but the registered ones, no settings, no Python variables. Memory and threads are limited, what does not fit
spills into a private directory, and a statement that takes too long is interrupted. Every failure becomes the one
public text of `EngineError`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core.storage import DEFAULT_CACHE, parse_size
from hush.engines.duckdb.cache import BoundedTables, Cache, HeldLists, KeyLists
from hush.engines.duckdb.files import OpenSources
from hush.engines.duckdb.private_groups import PrivateGroups
from hush.engines.duckdb.session import Session, Shapes, Watchdog, text_of
from hush.engines.duckdb.sources import declared_columns
from hush.engines.errors import EngineError, SourceError, log
from hush.engines.protocol import TIMEOUT, Choose, Exact, Pace
from hush.engines.sql.bounding import StoredRows
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.keys import CHOSEN
from hush.engines.sql.nodes import EVERYTHING, Select, TableName, count, select
from hush.engines.sql.relations import Catalogue
from hush.engines.sql.render import Statement
from hush.engines.sql.statements import KEPT, ReleasedStatement, Row, Statements
from hush.engines.sql_engine import PreparedRows, SqlConnection, SqlEngine
from hush.query.errors import UnplannableError
from hush.query.schema import Schema

_CHANGED = "the file of table {!r} is no longer what it was; tell the owner (nothing was charged)"
_DISABLED = {"top_n_window_elimination", "join_filter_pushdown"}
"""Optimisers that are switched off, where this version of the engine has them."""
_MEMORY_LIMIT = "SELECT current_setting('memory_limit')"
_OPTIMIZERS = "SELECT name FROM duckdb_optimizers()"
_CELL = 64
"""About how many bytes a cell of a result takes in Python."""


def duckdb_engine(
    schema: Schema,
    sources: Mapping[str, object] | OpenSources,
    *,
    memory: str = "",
    threads: int | None = None,
    timeout: float | None = TIMEOUT,
    cache: str = DEFAULT_CACHE,
) -> SqlEngine:
    """Return an engine over open sources, or over sources that it opens.

    ``memory``, ``threads`` (of sources that it opens) and ``timeout`` (in seconds, for one statement) limit every
    question; ``cache`` is how much may be kept of earlier ones, and at most a quarter of ``memory``.
    """
    if not isinstance(sources, OpenSources):
        declared = {table: declared_columns(schema, table) for table in sources if table in schema.tables}
        # JSON has no schema, so the policy names the columns of its files
        sources = OpenSources(sources, declared, memory=memory, threads=threads)
    connection = DuckDBConnection(sources, timeout=timeout, cache=cache)
    try:
        return SqlEngine(schema, connection)
    except BaseException:
        connection.close()
        raise


class DuckDBConnection(SqlConnection):
    """Open sources, and the cache of earlier questions about them. Use it from any thread."""

    dialect = DUCKDB
    pace = Pace()

    def __init__(self, sources: OpenSources, *, timeout: float | None = TIMEOUT, cache: str = DEFAULT_CACHE) -> None:
        self._limit = parse_size(cache)
        self._opened = sources
        self._watchdog = Watchdog(timeout)
        self._sources = sources.sources
        self._lock = threading.Lock()
        self._loaded = False
        self._connection = sources.connection

    def register(self, schema: Schema) -> Catalogue:
        """Make the sources readable, and lock the connection up."""
        self._schema = schema
        self._read = {table: None if source.lines else source.stamp() for table, source in self._sources.items()}
        self._catalogue = self._opened.register(schema)
        # asked of the engine, which has a limit of its own where the owner set none
        memory = self._connection.execute(_MEMORY_LIMIT).fetchall()[0][0]
        optimizers = {row[0] for row in self._connection.execute(_OPTIMIZERS).fetchall()}
        # the lock comes last: after it no setting can be changed, not even by us
        for setting in (
            f"disabled_optimizers = '{','.join(sorted(_DISABLED & optimizers))}'",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self._connection.execute(f"SET {setting}")
        self._cache = Cache(min(self._limit, parse_size(memory, "memory") // 4), self._drop)
        self._lists = KeyLists(self._cache, self._connection.cursor)
        self._bounded = BoundedTables(self._cache, self.execute)
        self._private = PrivateGroups(self._cache, self._begin, self.stamp)
        self._shapes = Shapes()
        return self._catalogue

    def forget(self) -> None:
        """Clear the cache of earlier questions."""
        self._cache.clear()
        self._bounded.forget()

    def load(self) -> dict[str, int]:
        """Read text files and other copies, now and again when they have changed, so that no question has to."""
        first, self._loaded = not self._loaded, True
        tables = [table for table in self._sources if self._look_at(table) or first]
        counts = {table: select([count()], TableName(self._opened.places[table])) for table in tables}
        return {table: int(self.execute(text_of(query))[0][0]) for table, query in counts.items()}

    def refresh(self, *, public: bool = False) -> None:
        """Read text files that were not read yet, and look at all that have changed: their columns must be the same.

        What is held in memory stays as it is where somebody else loads it: to read it takes longer or shorter by what
        is in its cells, and this is before the charge, in the time of whoever asks.
        """
        for table, source in self._sources.items():
            if (not public or self._schema.tables[table].public) and not (self._loaded and source.copied):
                self._look_at(table)

    def _look_at(self, table: str) -> bool:
        """Read a table again, or for the first time, if it has changed, and say whether it has."""
        if self._read[table] == self._sources[table].stamp():  # nobody waits for another table to be read
            return False
        with self._lock:
            # looked at again, for another thread may have read the table while this one waited for the lock
            stamp = self._sources[table].stamp()
            if self._read[table] == stamp:
                return False
            try:
                self._opened.renew(table, self._schema)
            except Exception as error:  # noqa: BLE001 - each format's library has errors of its own
                log.debug("the file of table %r cannot be read any more: %s", table, error)
                raise SourceError(_CHANGED.format(table)) from None
            self._read[table] = stamp
            return True

    def lists(self) -> HeldLists:
        """Return lists for a new question."""
        return HeldLists(self._lists)

    def public(self, query: Select) -> list[Row]:
        """Run a query over public tables."""
        return self._fetch(text_of(query), self.stamp())

    def resolve(
        self, statements: Sequence[Statement], released: ReleasedStatement | None = None, keys: Select | None = None
    ) -> None:
        """Let the engine resolve statements without running them, and refuse before the charge those that it cannot.

        Statements of one shape are looked at once. Where keys are private, those that read the chosen ones are resolved
        over a view of all.
        """
        stamp = self.stamp()
        unmet = self._shapes.unmet(stamp, [*statements, *([] if released is None else [released])])
        if not unmet:
            return
        try:
            with self._begin() as session:
                if keys is not None:
                    session.execute(DUCKDB.created("TEMP VIEW", CHOSEN, text_of(keys)))
                for number, text in enumerate(unmet.values()):
                    # PREPARE resolves names and types, and reads no row
                    session.execute(f"PREPARE statement_{number} AS {text}")
        except EngineError:
            # a file that was changed is told as that, and not as a question that is too hard
            self._check_sources()
            raise UnplannableError(
                "the engine cannot express this question; use simpler expressions (nothing was charged)"
            ) from None
        self._shapes.meet(unmet)

    def _check_sources(self) -> None:
        """Refuse tables with files that have other columns than when they were opened."""
        for table, name in self._opened.places.items():
            if self._sources[table].lines:
                continue
            try:
                rows = self.execute(f"DESCRIBE {text_of(select([EVERYTHING], TableName(name)))}")
            except EngineError:
                rows = []
            if {row[0]: str(row[1]) for row in rows} != self._catalogue.types[table]:
                raise SourceError(_CHANGED.format(table))

    def compute(
        self, statement: ReleasedStatement, keys: Sequence[Sequence[Any]], aggregates: Sequence[Sequence[Any]]
    ) -> list[Row]:
        """Return functions of released values, a row for each group; nothing else is read."""
        with self._begin() as session:
            return session.execute(statement.text, statement.parameters(keys, aggregates))

    def coded(self, prepared: PreparedRows) -> Mapping[str, npt.NDArray[Any]]:
        """Return the columns of coded rows by name."""
        with self._begin() as session:
            columns = session.columns(prepared.statement.text)
        return {label: np.ma.getdata(column) for label, column in columns.items()}

    def private(self, prepared: Statements, choose: Choose | None) -> Exact:
        """Return the exact integers of the groups with private keys that are wanted."""
        stamps = self.stamp()
        with contextlib.ExitStack() as stack:
            quick: dict[str, str] = {}
            # where all groups are kept already, no table of bounded rows is looked for or made
            if not self._private.knows(prepared, stamps):
                stored = stack.enter_context(self._bounded.rows(prepared, self._catalogue, stamps))
                quick = {} if stored is None else self._quicker(prepared, stored)
            exact, row_count = self._private.execute(prepared, quick, stamps, choose)
            if row_count is not None:
                self._bounded.learn(prepared, stamps, row_count)
            return exact

    def results(self, prepared: Statements) -> list[list[Row]]:
        """Return the rows of all statements: kept, from stored bounded rows, or from the tables."""
        stamps = self.stamp()
        results = {statement.text: self._cache.get((stamps, statement.text)) for statement in prepared.statements}
        if None in results.values():
            with self._bounded.rows(prepared, self._catalogue, stamps) as stored:
                quick = {} if stored is None else self._quicker(prepared, stored)
                missing = [text for text, rows in results.items() if rows is None]
                results.update({text: self._fetch(text, stamps, quick.get(text)) for text in missing})
            self._learn(prepared, stamps, results)
        return [results[statement.text] for statement in prepared.statements]

    def _quicker(self, prepared: Statements, stored: StoredRows) -> dict[str, str]:
        """Return, for each statement, one that computes the same from stored rows."""
        try:
            quicker = prepared.over(stored)
        except UnplannableError:  # longer than those for fresh rows, which are short enough
            return {}
        return {mine.text: quick.text for mine, quick in zip(prepared.statements, quicker, strict=True)}

    def _learn(self, prepared: Statements, stamps: Hashable, results: Mapping[str, list[Row]]) -> None:
        main = prepared.main
        if main is not None and KEPT in main.labels:
            column = main.labels.index(KEPT)
            self._bounded.learn(prepared, stamps, sum(row[column] for row in results[main.text]))

    def stamp(self) -> Hashable:
        """Return a value that changes when a source's file does, or how it is read."""
        return tuple(
            (None if source.lines else source.stamp(), self._read[table]) for table, source in self._sources.items()
        )

    def _fetch(self, text: str, stamps: Hashable, quick: str | None = None) -> list[Row]:
        """Run a statement, or a quicker one that returns the same; keep the result."""
        rows: list[Row] | None = self._cache.get((stamps, text))
        if rows is not None:
            return rows
        if quick is not None:
            try:
                rows = self.execute(quick)
            except EngineError:
                rows = None
        if rows is None:
            rows = self.execute(text)
        size = _CELL * len(rows) * (1 + len(rows[0])) if rows else _CELL
        # a file that changed meanwhile gives rows that the stamps do not describe: they are not kept
        if size <= self._cache.limit // 4 and self.stamp() == stamps:
            self._cache.put((stamps, text), rows, size + len(text))
        return rows

    def _begin(self) -> Session:
        return Session(self._connection, self._watchdog)

    def execute(self, text: str) -> list[Row]:
        """Run a statement."""
        with self._begin() as session:
            return session.execute(text)

    def _drop(self, table: str) -> None:
        import duckdb

        with contextlib.suppress(EngineError, duckdb.ConnectionException):  # closed: all tables are gone
            self.execute(DUCKDB.dropped(table))

    def close(self) -> None:
        """Close the connection and remove its temporary files."""
        self._watchdog.close()
        self._opened.close()
