r"""DuckDB, embedded and locked up.

A connection is opened, the owner's sources are registered, and then it is closed to the world for good: no extensions,
no files but the registered ones, no settings, no Python variables. Memory and threads are limited, what does not fit
spills into a private directory, statements that are too slow are interrupted by a timer, and every failure becomes the
one public text of `EngineError`.

**Statements that the engine is known to understand**, whatever numbers stand in them. To resolve a statement before the
charge takes as long as a good part of answering a question about few rows. So the cache keeps the shapes of statements
that were resolved (`hush.engines.sql.dialect.ShapeDialect`), with the files' identities: a table that is no longer what
it was is looked at again.

**Groups with private keys** stay inside the engine until they are chosen: there may be as many as rows, and few are
ever shown. They go into a table of the session, and only their numbers of units come out, as arrays, a million at a
time, each group once, for whoever runs the plan to choose by (`Choose`). The order of offers is the engine's own; it
decides nothing as long as draws are independent and alike for equal numbers. The chosen ones come out in the order of
their keys. Which rows of a unit count was decided before, over all keys.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hush.core.storage import parse_size
from hush.core.work import interrupting
from hush.engines.duckdb.cache import BoundedTables, Cache, Demand
from hush.engines.duckdb.files import OpenSources
from hush.engines.errors import EngineError, SourceError, log
from hush.engines.protocol import Choose, Exact, Pace
from hush.engines.sql.dialect import DUCKDB, SHAPE
from hush.engines.sql.keys import Lists
from hush.engines.sql.nodes import Select, Star, TableName, call, column, columns_of, count, integer, select
from hush.engines.sql.relations import Catalogue
from hush.engines.sql.render import Statement, render, text_of
from hush.engines.sql.statements import ROW_COUNT, Row, Statements
from hush.engines.sql_engine import PreparedRows, SqlConnection
from hush.query.errors import UnplannableError
from hush.query.schema import Schema

if TYPE_CHECKING:
    import duckdb


_CHANGED = "the file of table {!r} is no longer what it was; tell the owner (nothing was charged)"
_DISABLED = {"top_n_window_elimination", "join_filter_pushdown"}
"""Optimisers that are switched off, where this version of the engine has them."""
_MEMORY_LIMIT = "SELECT current_setting('memory_limit')"
_OPTIMIZERS = "SELECT name FROM duckdb_optimizers()"
_CELL = 64
"""About how many bytes a cell of a result takes in Python."""


class DuckDBConnection(SqlConnection):
    """Open sources, and the cache of earlier questions about them. Use it from any thread."""

    dialect = DUCKDB
    pace = Pace()

    def __init__(self, sources: OpenSources, timeout: float | None, cache: str) -> None:
        self._limit = parse_size(cache)
        self._opened = sources
        self._timeout = timeout
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
        self._bounded = BoundedTables(self._cache, self._run)
        return self._catalogue

    def forget(self) -> None:
        """Clear the cache of earlier questions."""
        self._cache.clear()

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

    def public(self, query: Select) -> list[Row]:
        statement = render(query, DUCKDB, limited=False)
        return self._cached([statement], Lists(), lambda: [self._run(statement, {})])[0]

    def resolve(self, statements: Sequence[Statement], released: Statement | None = None) -> None:
        """Let the engine resolve statements without running them, and refuse before the charge those that it cannot.

        Statements of one shape are looked at once.
        """
        stamp, unmet = self.stamp(), dict[Hashable, str]()
        for statement in (*statements, *([] if released is None else [released])):
            shape = ("shape", stamp, render(statement.query, SHAPE).text)
            if self._cache.get(shape) is None:
                unmet[shape] = statement.text
        if not unmet:
            return
        try:
            with self._begin() as session:
                for number, text in enumerate(unmet.values()):
                    # PREPARE resolves names and types, and reads no row
                    session.execute(f"PREPARE statement_{number} AS {text}")
        except EngineError:
            raise UnplannableError(
                "the engine cannot express this question; use simpler expressions (nothing was charged)"
            ) from None
        for key, text in unmet.items():
            self._cache.put(key, value=True, size=_CELL + len(text))

    def compute(self, released: Statement, parameters: Mapping[int, Any]) -> list[Row]:
        return self._run(released, parameters)

    def coded(self, prepared: PreparedRows) -> Mapping[str, npt.NDArray[Any]]:
        with self._begin() as session:
            columns = session.columns(prepared.statement, prepared.lists.parameters)
        return {label: np.ma.getdata(column) for label, column in columns.items()}

    def private(self, prepared: Statements, choose: Choose | None) -> Exact:
        """Return the exact integers of the groups with private keys that are wanted."""
        main, parameters = prepared.main, prepared.rows.lists.parameters
        assert main is not None  # noqa: S101 - it counts the units by which keys are chosen
        over_stored, demand = self._over_stored_rows(prepared)
        with self._begin() as session:
            _run_with_fallback(main, over_stored, partial(session.store, _GROUPS, parameters=parameters))
            row_count = call("sum", column(ROW_COUNT)) if ROW_COUNT in main.query.labels else integer(0)
            ((groups, rows),) = session.execute(text_of(select([count(), row_count], TableName(_GROUPS))))
            demand.row_count = int(rows or 0) if ROW_COUNT in main.query.labels else None
            batches = [np.zeros(0, dtype=np.int64)]
            for start in range(0, groups, _AT_ONCE):
                # rowid finds the batch without sorting: the table is never changed once it is made
                cells = [column("rowid").alias("at"), column("units").cast("BIGINT").alias("units")]
                inside = column("rowid").between(integer(start), integer(start + _AT_ONCE - 1))
                part = select(cells, TableName(_GROUPS)).where(inside)
                batch = session.columns(render(part, DUCKDB, limited=False), {})
                batches.append(batch["at"] if choose is None else batch["at"][choose(batch["units"])])
            session.register(_WANTED, {"at": np.concatenate(batches)})
            query = select([Star("t")], TableName(_GROUPS, "t"))
            query = query.joined(TableName(_WANTED, "w"), "semi", column("rowid", "t").equals(column("at", "w")))
            # by key, so that the answer does not show the order in which the engine found the groups
            query = replace(query, order=tuple(columns_of(prepared.rows.keys)))
            return prepared.chosen(
                session.execute(text_of(query)),
                lambda statement, chosen: _run_with_fallback(
                    statement, over_stored, partial(session.fetch, parameters=chosen)
                ),
            )

    def results(self, prepared: Statements) -> list[list[Row]]:
        """Return the rows of all statements: from the cache, from stored bounded rows, or from the tables."""
        main, lists = prepared.main, prepared.rows.lists

        def computed() -> list[list[Row]]:
            over_stored, demand = self._over_stored_rows(prepared)
            with self._begin() as session:
                fetch = partial(session.fetch, parameters=lists.parameters)
                results = [_run_with_fallback(statement, over_stored, fetch) for statement in prepared.statements]
                if main is not None and ROW_COUNT in main.query.labels:
                    index = main.query.labels.index(ROW_COUNT)
                    demand.row_count = sum([row[index] for row in results[0]])
                return results

        return self._cached(prepared.statements, lists, computed)

    def _over_stored_rows(self, prepared: Statements) -> tuple[OverStoredRows, Demand]:
        """Return, for each statement, one that computes the same from stored rows, if there are any."""
        stored, demand = self._bounded.rows(prepared, self._catalogue, self.stamp())
        with suppress(UnplannableError):  # longer than those for fresh rows, which are short enough
            if stored is not None:
                texts = [statement.text for statement in prepared.statements]
                return dict(zip(texts, prepared.over(stored), strict=True)), demand
        return {}, demand

    def stamp(self) -> Hashable:
        return tuple(
            (None if source.lines else source.stamp(), self._read[table]) for table, source in self._sources.items()
        )

    def _cached(
        self, statements: Sequence[Statement], lists: Lists, compute: Callable[[], list[list[Row]]]
    ) -> list[list[Row]]:
        """Return the rows of statements, cached by an earlier question or computed."""
        stamps = self.stamp()
        key = (stamps, tuple([statement.text for statement in statements]), tuple(lists.known))
        results: list[list[Row]] | None = self._cache.get(key)
        if results is None:
            results = compute()
            cells = sum([1 + len(rows) * (1 + len(rows[0])) for rows in results if rows])
            size = _CELL * (1 + cells) + sum([len(statement.text) for statement in statements])
            # a file that changed meanwhile gives rows that the stamps do not describe: they are not kept
            if size <= self._cache.limit // 4 and self.stamp() == stamps:
                self._cache.put(key, results, size)
        return results

    def _begin(self) -> contextlib.closing[DuckDBSession]:
        return contextlib.closing(DuckDBSession(self._connection, self._timeout))

    def _run(self, statement: Statement, parameters: Mapping[int, Any]) -> list[Row]:
        with self._begin() as session:
            return session.fetch(statement, parameters)

    def execute(self, text: str) -> list[Row]:
        """Run a statement."""
        with self._begin() as session:
            return session.execute(text)

    def _drop(self, table: str) -> None:
        import duckdb

        with suppress(EngineError, duckdb.ConnectionException):  # closed: all tables are gone
            self.execute(DUCKDB.dropped(table))

    def close(self) -> None:
        self._opened.close()


_AT_ONCE = 2**20
_GROUPS, _WANTED = "groups", "wanted"
OverStoredRows = Mapping[str, Statement]
"""Statements over stored rows, by the text of the statement that computes the same from the tables."""


def _run_with_fallback(
    statement: Statement, over_stored: OverStoredRows, run: Callable[[Statement], list[Row]]
) -> list[Row]:
    """Run a statement over stored rows, which is quicker, if there is one; over the tables if not, or if it fails."""
    if statement.text in over_stored:
        # whatever went wrong with stored rows, the tables give the same integers
        with suppress(EngineError):
            return run(over_stored[statement.text])
    return run(statement)


class DuckDBSession:
    """Runs statements one after the other, on a connection that others use too.

    Temporary tables, registered arrays and what is prepared are its own. A statement may take ``timeout`` seconds.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, timeout: float | None = None) -> None:
        self._cursor = connection.cursor()
        self._timeout = timeout

    @contextmanager
    def _running(self, text: str) -> Iterator[None]:
        # one that comes too late can meet the next statement of the same question alone
        timer = threading.Timer(self._timeout or 0, self._cursor.interrupt)
        timer.daemon = True
        try:
            if self._timeout:
                timer.start()
            with interrupting(self._cursor.interrupt):
                yield
        except Exception as error:  # whatever it says may tell of a row  # noqa: BLE001
            log.debug("engine failure: %s\n%s", error, text)
            raise EngineError from None
        finally:
            timer.cancel()

    def execute(self, text: str, parameters: list[Any] | None = None) -> list[Row]:
        """Run a statement, over lists as parameters, and return its rows."""
        with self._running(text):
            return self._cursor.execute(text, parameters).fetchall()

    def fetch(self, statement: Statement, parameters: Mapping[int, Any]) -> list[Row]:
        """Run a statement over the lists that are its parameters, and return its rows."""
        return self.execute(statement.text, statement.values(parameters))

    def store(self, table: str, statement: Statement, parameters: Mapping[int, Any]) -> list[Row]:
        """Store a statement's rows in a table of the session."""
        return self.fetch(statement._replace(text=DUCKDB.created("TEMP TABLE", table, statement.text)), parameters)

    def columns(self, statement: Statement, parameters: Mapping[int, Any]) -> dict[str, Any]:
        """Run a statement and return its columns as arrays, masked where there are NULLs."""
        with self._running(statement.text):
            return self._cursor.execute(statement.text, statement.values(parameters)).fetchnumpy()

    def register(self, name: str, columns: Mapping[str, npt.NDArray[np.int64]]) -> None:
        """Make arrays of one length a table of the session."""
        with self._running(f"register {name}"):
            self._cursor.register(name, dict(columns))

    def close(self) -> None:
        """End it."""
        self._cursor.close()
