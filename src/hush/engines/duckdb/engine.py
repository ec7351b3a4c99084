"""DuckDB, embedded and locked up.

A connection is opened, the owner's sources are registered, and then it is closed to the world for good: no extensions,
no files but the registered ones, no settings, no Python variables. Memory and threads are limited, what does not fit
spills into a private directory, and a statement that takes too long is interrupted. Every failure becomes the one
public text of `EngineError`.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hush.core.storage import DEFAULT_CACHE, parse_size
from hush.core.values import dataclass
from hush.engines.base import Choose, CodedRows, Exact
from hush.engines.duckdb import few_rows as few
from hush.engines.duckdb.bounded_rows import BoundedTables
from hush.engines.duckdb.cache import Cache, HeldLists, KeyLists
from hush.engines.duckdb.few_rows_statement import FEW, EmbeddedStatements, FlatWriter
from hush.engines.duckdb.private_groups import PrivateGroups
from hush.engines.duckdb.registering import OpenSources
from hush.engines.duckdb.session import Session, Shapes, Watchdog
from hush.engines.duckdb.sources import declared_columns
from hush.engines.errors import EngineError, SourceError, log
from hush.engines.public_tables import public_axes, with_public_ranges
from hush.engines.sql.build import count
from hush.engines.sql.coded_rows import CodedStatement, coded_statement
from hush.engines.sql.keys import without_choice
from hush.engines.sql.main_statement import KEPT
from hush.engines.sql.queries import read, select
from hush.engines.sql.relations import Bounds, unit_type
from hush.engines.sql.rows import Fresh, Reads, Stored
from hush.engines.sql.values import MAX_TEXT
from hush.engines.statements import Groups, Statements, released_statement
from hush.engines.work import Cost, bounded, check_fanout, cost_of, cost_of_rows, likely_length
from hush.query.errors import UnplannableError
from hush.query.plan.plan import Plan
from hush.query.plan.rows import RowPlan
from hush.query.schema import Schema

if TYPE_CHECKING:
    pass

_CHANGED = "the file of table {!r} is no longer what it was; tell the owner (nothing was charged)"
_DISABLED = {"top_n_window_elimination", "join_filter_pushdown"}
"""Optimisers that are switched off, where this version of the engine has them."""
_AT_ONCE = 4
_SMALL = 2**23
"""Statements over fewer bytes than this run at once; larger ones would share the memory that one needs."""
_SALT = 10**18
"""Every salt has as many digits, so that no statement is longer for it."""
_CELL = 64
"""About what a cell of a result takes in Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRows:
    """The statement that hands out a question's coded rows, and the lists that it reads."""

    plan: RowPlan
    statement: CodedStatement
    lists: HeldLists


class DuckDB:
    """An engine over open sources, or over sources that it opens. Use it from any thread.

    ``memory``, ``threads`` (of sources that it opens) and ``timeout`` (in seconds, for one statement) limit every
    question; ``cache`` is how much may be kept of earlier ones, and at most a quarter of ``memory``.
    """

    def __init__(
        self,
        schema: Schema,
        sources: Mapping[str, object] | OpenSources,
        *,
        memory: str = "",
        threads: int | None = None,
        timeout: float | None = 600.0,
        cache: str = DEFAULT_CACHE,
    ) -> None:
        limit = parse_size(cache)
        if not isinstance(sources, OpenSources):
            declared = {table: declared_columns(schema, table) for table in sources if table in schema.tables}
            sources = OpenSources(sources, declared, memory=memory, threads=threads)
        self._opened = sources
        self._schema = schema
        self._watchdog = Watchdog(timeout)
        self._salt = _SALT + secrets.randbelow(3 * _SALT)
        self._sources = sources.sources
        self._lock = threading.Lock()
        self._described: tuple[Hashable, Schema] | None = None
        self._counted: tuple[Hashable, float] | None = None
        self._connection = sources.connection
        try:
            self._read = {table: None if source.lines else source.stamp() for table, source in self._sources.items()}
            self._catalogue = sources.register(schema)
            whole = self._connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
            optimizers = {row[0] for row in self._connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
            for setting in (
                f"disabled_optimizers = '{','.join(sorted(_DISABLED & optimizers))}'",
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
        self._private = PrivateGroups(self._cache, self._begin, self._stamps)
        self._shapes = Shapes()

    def stored(self, table: str) -> Mapping[str, str]:
        """Return the columns of a table as they are stored, with the engine's types."""
        return self._catalogue.types[table]

    def described(self) -> Schema:
        """Return the schema, with the ranges of public tables as they are now. Reads public tables only."""
        self._look_again(table for table, found in self._schema.tables.items() if found.public)
        stamps = self._stamps()
        known = self._described
        if known is None or known[0] != stamps:
            known = self._described = (stamps, with_public_ranges(self._catalogue, self._public))
        return known[1]

    def forget(self) -> None:
        """Forget what was kept of earlier questions."""
        self._cache.clear()
        self._bounded.forget()

    # answers

    def run(self, plan: Plan, choose: Choose | None = None) -> Exact:
        """Compute a plan's exact integers; of groups with private keys only those that are wanted."""
        return self.execute(self.compile(plan), choose)

    def write(self, plan: Plan) -> EmbeddedStatements:
        """Return all statements that a plan may need. Reads public tables alone.

        Which of them run depends on the data; whether they can be written, are short enough and mean something to the
        engine must not, so none is left for later.
        """
        self._look_again()  # a file that is gone is no reason to charge
        spread = check_fanout(plan.extraction.relation, self._catalogue, self._public)
        axes, shown = public_axes(plan.extraction, self._catalogue, self._public)
        choices = [pick.choice for pick in plan.picks]
        reads = Reads.of(plan.extraction, choices)
        lists = HeldLists(self._lists)

        def write(bounds: Bounds) -> tuple[EmbeddedStatements, Cost]:
            def fresh(reads: Reads) -> Fresh:
                return Fresh(plan.extraction, self._catalogue, axes, self._salt, reads, lists=lists, bounds=bounds)

            rows = fresh(reads)
            few_rows = fresh(replace(reads, summed=frozenset())) if reads.summed else rows
            flat = FlatWriter(plan.extraction, few_rows, lists, unit_type(self._catalogue)).statement(choices)
            released = released_statement(plan.question, [few_rows.known[key] for _, key in plan.extraction.keys])
            made = EmbeddedStatements.of(
                plan,
                axes=axes,
                shown=shown,
                reads=reads,
                rows=rows,
                bounds=bounds,
                lists=lists,
                released=released,
            )
            return replace(made, flat=flat), cost_of(made, flat.work)

        compiled, _, notes = bounded(write, spread, likely_length(plan, spread))
        return replace(compiled, notes=notes)

    def compile(self, plan: Plan) -> EmbeddedStatements:
        """Return all statements that a plan may need, which the engine understands."""
        compiled = self.write(plan)
        self._prepare(compiled)
        return compiled

    def compile_rows(self, plan: RowPlan, unit_key: str | None = None) -> CompiledRows:
        """Return the statement of a plan's coded rows. What the engine cannot do is refused here, before any charge.

        With a ``unit_key`` a unit has the same number whenever its rows are read with that key.
        """
        self._look_again()
        spread = check_fanout(plan.relation, self._catalogue, self._public)
        lists = HeldLists(self._lists)

        kind = unit_type(self._catalogue)

        def write(bounds: Bounds) -> tuple[CodedStatement, Cost]:
            made = coded_statement(plan, self._catalogue, self._salt, lists, kind, bounds, unit_key)
            return made, cost_of_rows(made.rows, made.work)

        statement, _, _ = bounded(write, spread, MAX_TEXT)
        try:
            self._execute(f"PREPARE statement AS {statement.text}")
        except EngineError:
            self._check_sources()
            raise UnplannableError(
                "the engine cannot express this question; use simpler expressions (nothing was charged)"
            ) from None
        return CompiledRows(plan=plan, statement=statement, lists=lists)

    def rows(self, compiled: CompiledRows) -> CodedRows:
        """Return the bounded rows of a question as integer codes. Call this after the ledger's reserve, never before.

        Nothing is kept of them here.
        """
        statement = compiled.statement
        with self._begin() as talk:
            columns = talk.columns(statement.text)
        codes = {
            column.name: np.ma.getdata(columns[label])
            for column, label in zip(compiled.plan.columns, statement.codes, strict=True)
        }
        units = None if statement.unit is None else np.ma.getdata(columns[statement.unit]).astype(np.int64)
        return CodedRows(codes=codes, units=units)

    def _look_again(self, tables: Iterable[str] | None = None) -> None:
        """Read text files that were not read yet, and look at all that have changed: their columns must be the same."""
        with self._lock:
            for table in self._sources if tables is None else tables:
                stamp = self._sources[table].stamp()
                if self._read[table] == stamp and self._opened.holds(table):
                    continue
                try:
                    self._opened.renew(table, self._schema)
                except Exception as error:  # noqa: BLE001 - each format's library has errors of its own
                    log.debug("the file of table %r cannot be read any more: %s", table, error)
                    raise SourceError(_CHANGED.format(table)) from None
                self._read[table] = stamp

    def _public(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement over public tables."""
        return self._fetch(text, self._stamps())

    def _prepare(self, compiled: EmbeddedStatements) -> None:
        """Let the engine resolve the statements without running them: what it cannot do is refused before the charge.

        Statements of one shape are looked at once (`hush.engines.duckdb.session`).
        """
        stamps, flat = self._stamps(), compiled.flat
        first = [statement.text for statement in (flat, compiled.released) if statement is not None]
        handed = self._shapes.unmet(stamps, first)
        rest = self._shapes.unmet(stamps, [statement.text for statement in compiled.statements])
        private = bool(rest) and compiled.plan.extraction.count_units
        try:
            texts = handed if private else handed + rest
            self._each(lambda text: self._execute(f"PREPARE statement AS {text}"), texts, _AT_ONCE)
            if private:
                with self._begin() as talk:
                    _resolve(talk, compiled)
        except EngineError:
            self._check_sources()
            raise UnplannableError(
                "the engine cannot express this question; use simpler expressions (nothing was charged)"
            ) from None
        self._shapes.meet(stamps, handed + rest)

    def _check_sources(self) -> None:
        """Refuse tables whose files no longer are what they were when they were opened."""
        for table, place in self._catalogue.tables.items():
            if self._sources[table].lines:
                continue
            try:
                rows = self._execute(f'DESCRIBE SELECT * FROM "{place}"')  # noqa: S608 - our own name
            except EngineError:
                rows = []
            if {row[0]: str(row[1]) for row in rows} != self._catalogue.types[table]:
                raise SourceError(_CHANGED.format(table))

    def execute(self, compiled: EmbeddedStatements, choose: Choose | None = None) -> Exact:
        """Run a compiled plan, on the rows that were there when it was compiled where these were copied."""
        private = compiled.plan.extraction.count_units
        groups = None if private else Groups.public(compiled.axes)
        if groups is not None and not compiled.plan.events:  # public keys alone: nothing is paid, so no row is read
            return Exact(keys=groups.keys, units=None, statistics={}, histograms=()).only(compiled.shown)
        exact = self._of_few(compiled, None if groups is None else groups.keys, choose)
        if groups is None:
            return self._execute_private(compiled, choose) if exact is None else exact
        if exact is None:
            results = iter(self._results(compiled))
            labels, rows = ([], []) if compiled.main is None else (compiled.main.labels, next(results))
            exact = groups.exact(compiled, labels, rows, results)
        return exact.only(compiled.shown)

    def compute(
        self, compiled: Statements, keys: Sequence[Sequence[Any]], aggregates: Sequence[Sequence[Any]]
    ) -> list[tuple[Any, ...]]:
        """Return the functions of what was released, a row for each group (`hush.query.released`).

        They are computed from the values of each key and of each aggregate; nothing else is read.
        """
        statement = compiled.released
        if statement is None:
            return [()] * len((keys or aggregates)[0])
        with self._begin() as talk:
            return talk.compute(statement.text, statement.parameters(keys, aggregates))

    def _of_few(
        self, compiled: EmbeddedStatements, public: Sequence[tuple[Any, ...]] | None, choose: Choose | None
    ) -> Exact | None:
        """Return the exact integers if the rows are few; None if they are many."""
        flat = compiled.flat
        if flat is None or not self._few():
            return None
        stamps = self._stamps()
        columns = self._cache.get((stamps, flat.text))
        if columns is None:
            with self._begin() as talk:
                columns = talk.columns(flat.text)
            if few.too_many(flat, columns):
                return None
            size = few.size(flat, columns)
            if size <= self._cache.limit // 4 and self._stamps() == stamps:
                self._cache.put((stamps, flat.text), columns, size + len(flat.text))
        return few.exact(compiled.plan, flat, columns, public, choose)

    def _execute_private(self, compiled: Statements, choose: Choose | None) -> Exact:
        stamps = self._stamps()
        with contextlib.ExitStack() as stack:
            quick: dict[str, str] = {}
            if not self._private.knows(compiled, stamps):
                stored = stack.enter_context(self._bounded.rows(compiled, self._catalogue, stamps))
                quick = {} if stored is None else self._quicker(compiled, stored)
            exact, kept = self._private.execute(compiled, quick, stamps, choose)
            if kept is not None:
                self._bounded.learn(compiled, stamps, kept)
            return exact

    def _results(self, compiled: Statements) -> list[list[tuple[Any, ...]]]:
        """Return the rows of all statements: kept, from stored bounded rows, or from the tables."""
        stamps = self._stamps()
        found = {item.text: self._cache.get((stamps, item.text)) for item in compiled.statements}
        if None in found.values():
            with self._bounded.rows(compiled, self._catalogue, stamps) as stored:
                quick = {} if stored is None else self._quicker(compiled, stored)
                missing = [text for text, rows in found.items() if rows is None]
                found.update(zip(missing, self._run(missing, stamps, quick), strict=True))
            self._learn(compiled, stamps, found)
        return [found[item.text] for item in compiled.statements]

    def _run(self, texts: Sequence[str], stamps: Hashable, quick: Mapping[str, str]) -> list[list[tuple[Any, ...]]]:
        return self._each(lambda text: self._fetch(text, stamps, quick.get(text)), texts)

    def _each(
        self, work: Callable[[str], list[tuple[Any, ...]]], texts: Sequence[str], least: int = 1
    ) -> list[list[tuple[Any, ...]]]:
        """Do the same with several statements; at once, where planning them takes longer than reading the tables.

        So many or fewer are not worth the threads.
        """
        if len(texts) <= least or self._bytes() > _SMALL:
            return [work(text) for text in texts]
        with ThreadPoolExecutor(_AT_ONCE, "hush-statement") as pool:
            return list(pool.map(work, texts))

    def _bytes(self) -> float:
        """Return how much there is to read at most."""
        return sum(source.size for source in self._sources.values())

    def _few(self) -> bool:
        """Return whether all tables together have few rows. A small file may unpack to many.

        Asked after the charge: it decides where rows are added up, and nothing else.
        """
        if self._bytes() > _SMALL:
            return False
        stamps, known = self._stamps(), self._counted
        if known is None or known[0] != stamps:
            known = self._counted = (stamps, self._rows())
        return known[1] <= FEW

    def _rows(self) -> float:
        """Return how many rows all tables have; infinitely many if they cannot be counted."""
        places = self._catalogue.tables.values()
        try:
            return sum(int(self._execute(select([count()], read(place, "s")).text)[0][0]) for place in places)
        except EngineError:
            return math.inf

    def _quicker(self, compiled: Statements, stored: Stored) -> dict[str, str]:
        """Return, for each statement, one that computes the same from stored rows."""
        try:
            other = compiled.over(stored)
        except UnplannableError:  # longer than those for fresh rows, which are short enough
            return {}
        return {mine.text: same.text for mine, same in zip(compiled.statements, other.statements, strict=True)}

    def _learn(self, compiled: Statements, stamps: Hashable, found: Mapping[str, list[tuple[Any, ...]]]) -> None:
        main = compiled.main
        if main is not None and KEPT in main.labels:
            at = main.labels.index(KEPT)
            self._bounded.learn(compiled, stamps, sum(row[at] for row in found[main.text]))

    def _stamps(self) -> Hashable:
        """Return what changes when a source's file changes, or how it is read."""
        return tuple(
            (None if source.lines else source.stamp(), self._read[table]) for table, source in self._sources.items()
        )

    def _fetch(self, text: str, stamps: Hashable, quick: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement, or a quicker one that returns the same; keep the result."""
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

    def _begin(self) -> Session:
        return Session(self._connection, self._watchdog)

    def _execute(self, text: str) -> list[tuple[Any, ...]]:
        with self._begin() as talk:
            return talk.execute(text)

    def _drop(self, place: str) -> None:
        import duckdb

        with contextlib.suppress(EngineError, duckdb.ConnectionException):  # closed: all tables are gone
            self._execute(f'DROP TABLE "{place}"')

    def close(self) -> None:
        """Close the connection and remove what was spilled."""
        self._watchdog.close()
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _resolve(talk: Session, compiled: Statements) -> None:
    """Let the engine resolve the main statement, and those that run once keys are chosen over a view of all keys."""
    assert compiled.main is not None  # noqa: S101 - it counts the units by which keys are chosen
    talk.execute(f"PREPARE statement AS {compiled.main.text}")
    if compiled.others:
        talk.execute(without_choice(compiled.main.text, compiled.keys))
    for at, text in enumerate(dict.fromkeys(statement.text for statement in compiled.others)):
        talk.execute(f"PREPARE later_{at} AS {text}")


__all__ = ["CompiledRows", "DuckDB"]
