"""DuckDB, embedded and locked up.

A connection is opened, the owner's sources are registered, and then it is closed to the world for good: no extensions,
no files but the registered ones, no settings, no Python variables. Memory and threads are limited, what does not fit
spills into a private directory, and a statement that takes too long is interrupted. Every failure becomes the one
public text of `EngineError`.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
import threading
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hush.core import HushError
from hush.engines.axes import public_axes
from hush.engines.base import Exact, Sparse
from hush.engines.bounded import BoundedTables
from hush.engines.cache import DEFAULT, Cache, parse_size
from hush.engines.compiled import Compiled, Statement
from hush.engines.errors import EngineError, SourceError, log
from hush.engines.fanout import check_fanout
from hush.engines.groups import Groups, aligned, pad
from hush.engines.lists import HeldLists, KeyLists
from hush.engines.registering import register, renew
from hush.engines.sources import Source
from hush.engines.sql.extraction import KEPT, ExtractionWriter
from hush.engines.sql.relations import Catalogue
from hush.engines.sql.rows import Fresh, Reads, Stored
from hush.query.plan.errors import UnplannableError
from hush.query.plan.plan import Plan
from hush.query.plan.statistics import Statistic
from hush.query.schema import Schema

if TYPE_CHECKING:
    import duckdb

_CHANGED = "the file of table {!r} is no longer what it was; tell the owner (nothing was charged)"
_CELL = 64
"""About what a cell of a result takes in Python."""


class DuckDB:
    """An engine over registered tables. Use it from any thread.

    ``memory``, ``threads`` and ``timeout`` (in seconds, for one statement) limit every question; ``cache`` is how much
    may be kept of earlier ones, and at most a quarter of ``memory``.
    """

    def __init__(
        self,
        schema: Schema,
        sources: Mapping[str, object],
        *,
        memory: str = "",
        threads: int | None = None,
        timeout: float | None = 600.0,
        cache: str = DEFAULT,
    ) -> None:
        import duckdb

        limit = parse_size(cache)
        self._schema = schema
        self._timeout = timeout
        self._salt = secrets.randbits(62)
        self._sources = {table: Source.of(origin) for table, origin in sources.items()}
        self._lock = threading.Lock()
        self._spill = tempfile.mkdtemp(prefix="hush-spill-")
        config: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
            "temp_directory": self._spill,
        }
        if memory:
            config["memory_limit"] = memory
        if threads:
            config["threads"] = threads
        self._connection: duckdb.DuckDBPyConnection = duckdb.connect(":memory:", config=config)
        try:
            self._catalogue = register(self._connection, schema, self._sources)
            self._read = {table: source.stamp() for table, source in self._sources.items()}
            whole = self._connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
            for setting in (
                "TimeZone = 'UTC'",
                "disabled_optimizers = 'top_n_window_elimination'",
                "enable_external_access = false",
                "lock_configuration = true",
            ):
                self._connection.execute(f"SET {setting}")
        except BaseException:
            self.close()
            raise
        self._cache = Cache(min(limit, parse_size(whole, "memory") // 4), self._drop)
        self._lists = KeyLists(self._cache, self._connection.cursor)
        self._bounded = BoundedTables(self._cache, self._salt, self._execute)

    def stored(self, table: str) -> Mapping[str, str]:
        """Return the columns of a table as they are stored, with the engine's types."""
        return self._catalogue.types[table]

    def use(self, schema: Schema) -> None:
        """Describe the same tables anew, once their stored columns are known."""
        self.forget()
        self._schema = schema
        self._catalogue = Catalogue(schema, self._catalogue.tables, self._catalogue.types)

    def forget(self) -> None:
        """Forget what was kept of earlier questions."""
        self._cache.clear()
        self._bounded.forget()

    # answers

    def run(self, plan: Plan) -> Exact:
        """Compute a plan's exact integers."""
        return self.execute(self.compile(plan))

    def compile(self, plan: Plan) -> Compiled:
        """Return the statements of a plan. Reads public tables at most."""
        self._look_again()  # a file that is gone is no reason to charge
        check_fanout(plan.extraction.relation, self._catalogue, self._public)
        axes, shown = public_axes(plan.extraction, self._catalogue, self._public)
        reads = Reads.of(plan.extraction, [pick.choice for pick in plan.picks])
        lists = HeldLists(self._lists)
        rows = Fresh(plan.extraction, self._catalogue, axes, self._salt, reads, lists=lists)
        compiled = Compiled.of(plan, axes, shown, reads, ExtractionWriter(plan.extraction, rows, self._salt), lists)
        self._bind(compiled)
        return compiled

    def _look_again(self) -> None:
        """Take note of text files that have changed."""
        import duckdb

        with self._lock:
            for table, source in self._sources.items():
                stamp = source.stamp()
                if source.format in {"csv", "tsv"} and self._read[table] != stamp:
                    try:
                        renew(self._connection, self._catalogue.tables[table], source)
                    except (duckdb.Error, HushError) as error:
                        log.warning("the file of table %r cannot be read any more: %s", table, error)
                        raise SourceError(_CHANGED.format(table)) from None
                    self._read[table] = stamp

    def _public(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement over public tables."""
        return self._fetch(text, self._stamps())

    def _bind(self, compiled: Compiled) -> None:
        """Let the engine read the statements without running them: what it cannot do is refused before the charge."""
        try:
            for statement in compiled.statements:
                self._execute(f"EXPLAIN {statement.text}")
        except EngineError:
            self._check_sources()
            raise UnplannableError(
                "the engine cannot express this question; use simpler expressions (nothing was charged)"
            ) from None

    def _check_sources(self) -> None:
        """Refuse tables whose files no longer are what they were when they were opened."""
        for table, place in self._catalogue.tables.items():
            try:
                rows = self._execute(f'DESCRIBE SELECT * FROM "{place}"')  # noqa: S608 - our own name
            except EngineError:
                rows = []
            if {row[0]: str(row[1]) for row in rows} != self._catalogue.types[table]:
                raise SourceError(_CHANGED.format(table))

    def execute(self, compiled: Compiled) -> Exact:
        """Run a compiled plan."""
        extraction = compiled.plan.extraction
        groups = Groups(compiled.axes, grouped=bool(extraction.keys))
        results = iter(self._results(compiled))
        statistics: dict[Statistic, list[int]] = {}
        units = None
        if compiled.main is not None:
            labels, rows = compiled.main.labels, next(results)
            places = groups.place(compiled.keys, rows)
            if extraction.count_units:
                units = aligned(places, rows, labels.index("units"), groups)
            for index, item in enumerate(extraction.statistics):
                if f"s{index}" in labels:
                    statistics[item] = aligned(places, rows, labels.index(f"s{index}"), groups)
        for index, statement in compiled.distinct:
            rows = next(results)
            places = groups.place(compiled.keys, rows)
            statistics[extraction.statistics[index]] = aligned(places, rows, statement.labels.index("s"), groups)
        histograms = tuple(self._histogram(item, next(results), compiled.keys, groups) for item in compiled.histograms)
        keys = groups.keys()
        for values in statistics.values():
            pad(values, len(keys))
        if compiled.shown is not None:
            keys = [keys[at] for at in compiled.shown]
            statistics = {item: [values[at] for at in compiled.shown] for item, values in statistics.items()}
            histograms = tuple([bins[at] for at in compiled.shown] for bins in histograms)
        return Exact(
            keys=keys,
            units=None if units is None else np.array(pad(units, len(keys)), dtype=np.int64),
            statistics=statistics,
            histograms=histograms,
        )

    def _results(self, compiled: Compiled) -> list[list[tuple[Any, ...]]]:
        """Return the rows of all statements: kept, from stored bounded rows, or from the tables."""
        stamps = self._stamps()
        found = {item.text: self._cache.get((stamps, item.text)) for item in compiled.statements}
        if None in found.values():
            with self._bounded.rows(compiled, self._catalogue, stamps) as stored:
                quick = {} if stored is None else self._quicker(compiled, stored)
                for text in [text for text, rows in found.items() if rows is None]:
                    found[text] = self._fetch(text, stamps, quick.get(text))
            self._learn(compiled, stamps, found)
        return [found[item.text] for item in compiled.statements]

    def _quicker(self, compiled: Compiled, stored: Stored) -> dict[str, str]:
        """Return, for each statement, one that computes the same from stored rows."""
        try:
            writer = ExtractionWriter(compiled.plan.extraction, stored, self._salt)
            other = Compiled.of(compiled.plan, compiled.axes, compiled.shown, compiled.reads, writer, compiled.lists)
        except UnplannableError:
            return {}
        return {mine.text: same.text for mine, same in zip(compiled.statements, other.statements, strict=True)}

    def _learn(self, compiled: Compiled, stamps: Hashable, found: Mapping[str, list[tuple[Any, ...]]]) -> None:
        main = compiled.main
        if main is not None and KEPT in main.labels:
            at = main.labels.index(KEPT)
            self._bounded.learn(compiled, stamps, sum(row[at] for row in found[main.text]))

    def _histogram(
        self, statement: Statement, rows: list[tuple[Any, ...]], keys: Sequence[str], groups: Groups
    ) -> list[Sparse]:
        places = groups.place(keys, rows)
        at = len(keys)  # then come the bin, its number of cells where bins differ, and the weight
        table = np.array([(place, *row[at:]) for place, row in zip(places, rows, strict=True)], dtype=np.int64)
        table = table.reshape(-1, 1 + len(statement.labels) - at)
        table = table[np.lexsort((table[:, 1], table[:, 0]))]
        edges = np.searchsorted(table[:, 0], np.arange(len(groups) + 1))
        return [
            Sparse(
                bins=table[start:stop, 1],
                weights=table[start:stop, -1],
                cells=table[start:stop, 2] if "cells" in statement.labels else None,
            )
            for start, stop in pairwise(edges.tolist())
        ]

    def _stamps(self) -> Hashable:
        """Return what changes when a source's file changes."""
        return tuple(source.stamp() for source in self._sources.values())

    def _fetch(self, text: str, stamps: Hashable, quick: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement, or a quicker one that returns the same; keep the result for the next question."""
        rows: list[tuple[Any, ...]] | None = self._cache.get((stamps, text))
        if rows is not None:
            return rows
        if quick is not None:
            try:
                rows = self._execute(quick)
            except EngineError:
                rows = None
        if rows is None:
            rows = self._execute(text)
        size = _CELL * len(rows) * (1 + len(rows[0])) if rows else _CELL
        if size <= self._cache.limit // 4 and self._stamps() == stamps:
            self._cache.put((stamps, text), rows, size + len(text))
        return rows

    def _execute(self, text: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.cursor()
        timer = None
        if self._timeout:
            timer = threading.Timer(self._timeout, cursor.interrupt)
            timer.daemon = True
            timer.start()
        try:
            return cursor.execute(text).fetchall()
        except Exception as error:  # whatever it says may tell of a row  # noqa: BLE001
            log.warning("engine failure: %s\n%s", error, text)
            raise EngineError from None
        finally:
            if timer is not None:
                timer.cancel()
            cursor.close()

    def _drop(self, place: str) -> None:
        import duckdb

        with contextlib.suppress(EngineError, duckdb.ConnectionException):  # closed: all tables are gone
            self._execute(f'DROP TABLE "{place}"')

    def close(self) -> None:
        """Close the connection and remove what was spilled."""
        self._connection.close()
        shutil.rmtree(self._spill, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["DuckDB"]
