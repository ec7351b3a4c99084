"""The engine: plans become statements, and statements exact integers, over any connection that speaks SQL.

What engines share is here: which statements a plan needs, within which bounds they are written, and how their rows
become integers. A `SqlConnection` does what an engine alone does (`hush.engines.duckdb.connection`,
`hush.engines.server`).

Every statement that a plan may need is written and resolved before the charge. Which of them run may depend on rows;
whether they can be written, are short enough and mean something to the engine must not.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hush.engines.protocol import Choose, CodedRows, Effort, Exact, Pace
from hush.engines.public_tables import public_axes, with_public_ranges
from hush.engines.sql.bounding import FreshRows, Reads
from hush.engines.sql.dialect import Dialect
from hush.engines.sql.keys import Lists, size
from hush.engines.sql.nodes import Select
from hush.engines.sql.relations import UNIT, Bounds, Catalogue, unit_type
from hush.engines.sql.render import Statement, render
from hush.engines.sql.statements import (
    Columns,
    Groups,
    Row,
    Statements,
    coded_statement,
    queries_of,
    released_statement,
)
from hush.engines.work import Cost, PublicRows, bounded, check_fanout, cost_of
from hush.query.expressions import Expression
from hush.query.plan.plan import Plan
from hush.query.relations import Relation
from hush.query.schema import Schema

if TYPE_CHECKING:
    from hush.query.plan.rows import RowPlan

_SALT = 10**18
"""Every salt has as many digits, so that no statement is longer for it."""


class PreparedRows(NamedTuple):
    """The statement that returns a question's coded rows, and the lists that it reads."""

    plan: RowPlan
    statement: Statement
    lists: Lists
    effort: Effort


class SqlConnection(ABC):
    """A connection to one engine. Every failure after the charge is an `EngineError`."""

    dialect: Dialect
    """How the engine spells SQL."""
    pace: Pace
    """How fast the engine is, rather too slow than too fast."""

    @abstractmethod
    def register(self, schema: Schema) -> Catalogue:
        """Return where the tables of a schema are, and the types of their columns."""

    def load(self) -> Mapping[str, int]:
        """Read the files that questions need, and return the rows of each table that was read now."""
        return {}

    def refresh(self, *, public: bool = False) -> None:  # noqa: B027 - a server's statements see tables as they are
        """Read again public tables, or all, that have changed; refuse those that cannot be read any more."""

    def stamp(self) -> Hashable:
        """Return a value that changes when a table does; None where that cannot be told."""
        return None

    @abstractmethod
    def public(self, query: Select) -> list[Row]:
        """Run a query over public tables."""

    @abstractmethod
    def resolve(self, statements: Sequence[Statement], released: Statement | None = None) -> None:
        """Let the engine resolve statements without running them, and refuse those that it cannot.

        ``released`` computes functions of released values, for which servers have another engine.
        """

    @abstractmethod
    def results(self, prepared: Statements) -> Sequence[list[Row]]:
        """Return the rows of all statements, which see one state of the tables."""

    @abstractmethod
    def private(self, prepared: Statements, choose: Choose | None) -> Exact:
        """Return the exact integers of the groups with private keys that are wanted."""

    @abstractmethod
    def coded(self, prepared: PreparedRows) -> Mapping[str, npt.NDArray[Any]]:
        """Return the columns of coded rows by name."""

    @abstractmethod
    def compute(self, released: Statement, parameters: Mapping[int, Any]) -> list[Row]:
        """Return functions of released values, which are all parameters: a row for each group."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class SqlEngine:
    """An engine over a connection. Use it from any thread.

    It never changes once it is made. `described`, `matches`, `render`, `prepare` and `prepare_rows` read public tables
    alone and cost nothing. `execute` and `rows` come after the charge; a failure there is an
    `hush.engines.errors.EngineError`, which says nothing of any row.
    """

    def __init__(self, schema: Schema, connection: SqlConnection) -> None:
        self.connection = connection
        # secret and new for each engine: nobody can choose rows by what their hashes will be
        self._salt = _SALT + secrets.randbelow(3 * _SALT)
        self._described: tuple[Hashable, Schema] | None = None
        self._catalogue = connection.register(schema)
        self._catalogue.check_formats()
        self._public_rows = PublicRows(self._catalogue, connection.public)

    def load(self) -> Mapping[str, int]:
        """Read the files that questions need, for the first time or because they changed.

        Return how many rows each table has that was read now: for the owner's log alone. From the first call on, no
        question reads a file that is held in memory: whoever loads does, before questions come and in the background.
        """
        rows = self.connection.load()
        if rows:
            self.described()
        return rows

    def described(self) -> Schema:
        """Return the schema, with the ranges of public tables as they are now. Reads public tables only."""
        self.connection.refresh(public=True)
        # a stamp of None never says that nothing changed, so ranges are read anew then
        stamp, known_schema = self.connection.stamp(), self._described
        if known_schema is None or stamp is None or known_schema[0] != stamp:
            known_schema = self._described = (stamp, with_public_ranges(self._catalogue, self.connection.public))
            self._public_rows = PublicRows(self._catalogue, self.connection.public)
        return known_schema[1]

    def matches(self, public: Relation, keys: Sequence[Expression]) -> int:
        """Return how many rows of a public relation agree on some expressions at most; counted when last described."""
        return self._public_rows.matches(public, keys)

    # answers

    def run(self, plan: Plan, choose: Choose | None = None) -> Exact:
        """Compute a plan's exact integers; of groups with private keys only those that are wanted."""
        return self.execute(self.prepare(plan), choose)

    def render(self, plan: Plan) -> Statements:
        """Return a plan's statements without having the engine resolve them: for its notes."""
        self.connection.refresh()  # a table that is gone is no reason to charge
        catalogue = self._catalogue
        public = PublicRows(catalogue, self.connection.public)
        spread = check_fanout(plan.exact_query.relation, public)
        axes, shown = public_axes(plan.exact_query, public)
        reads = Reads.of([*plan.exact_query.statistics, *[draw.choices[0] for draw in plan.draws]])
        lists = Lists()

        def write(bounds: Bounds) -> tuple[tuple[FreshRows, Any], Cost]:
            # everything is written anew for other bounds: how much of a text is read is part of each statement
            rows = FreshRows(plan.exact_query, catalogue, axes, self._salt, reads, lists=lists, bounds=bounds)
            main, distinct, histograms = queries = queries_of(plan, rows, lists)
            every = [*([] if main is None else [main]), *distinct.values(), *histograms]
            return (rows, queries), cost_of(plan.exact_query, rows, every)

        (rows, (main, distinct, histograms)), cost, notes = bounded(write, spread)

        rendered = partial(render, dialect=catalogue.dialect, views=lists.views)
        others = list(map(rendered, [*distinct.values(), *histograms]))
        keys, picks = [rows.known[key] for _, key in plan.exact_query.keys], len(plan.draws)
        effort = Effort(
            work=cost.work,
            statements=len(others) + (main is not None),
            rows=spread.expected,
            pace=self.connection.pace,
            statistics=len(plan.exact_query.statistics) + picks,
            picks=picks,
            groups=size(axes or ()),
        )
        return Statements(
            plan=plan,
            rows=rows,
            main=None if main is None else rendered(main),
            others=others,
            distinct=list(distinct),
            released=released_statement(plan.question, keys, catalogue.dialect),
            shown=shown,
            notes=notes,
            effort=effort,
        )

    def prepare(self, plan: Plan) -> Statements:
        """Return all statements that a plan may need, which the engine understands."""
        prepared = self.render(plan)
        released = prepared.released
        self.connection.resolve(prepared.statements, None if released is None else released.statement)
        return prepared

    def execute(self, prepared: Statements, choose: Choose | None = None) -> Exact:
        """Return the exact integers; where keys are private, those of the groups that are wanted.

        Without ``choose`` these are all that occur, which no answer may show.
        """
        if prepared.plan.exact_query.count_units:
            return self.connection.private(prepared, choose)
        axes = prepared.rows.axes or ()
        groups = Groups(keys=list(product(*[axis.values for axis in axes])), grouped=bool(axes))
        if not prepared.plan.events:  # public keys alone: nothing is paid, so no row is read
            return Exact(keys=groups.keys, units=None, statistics={}, histograms=()).only(prepared.shown)
        results = iter(self.connection.results(prepared))
        labels, rows = ([], []) if prepared.main is None else (prepared.main.query.labels, next(results))
        return groups.exact(prepared, labels, rows, results).only(prepared.shown)

    def compute(self, prepared: Statements, keys: Columns, aggregates: Columns) -> list[Row]:
        """Return functions of released values, a row for each group (`hush.query.released`); nothing else is read."""
        if prepared.released is None:
            return [()] * len((keys or aggregates)[0])
        return self.connection.compute(prepared.released.statement, prepared.released.parameters(keys, aggregates))

    # coded rows

    def prepare_rows(self, plan: RowPlan, unit_key: str | None = None) -> PreparedRows:
        """Return the statement of a plan's coded rows; refuse, before any charge, a plan that the engine cannot run.

        With a ``unit_key`` a unit has the same number whenever its rows are read with that key.
        """
        self.connection.refresh()
        spread = check_fanout(plan.question.relation, PublicRows(self._catalogue, self.connection.public))
        lists, kind = Lists(), unit_type(self._catalogue)

        def write(bounds: Bounds) -> tuple[Select, Cost]:
            query, rows = coded_statement(plan, self._catalogue, self._salt, lists, kind, bounds, unit_key)
            return query, cost_of(rows.exact_query, rows, [query])

        query, cost, _ = bounded(write, spread)
        statement = render(query, self._catalogue.dialect, views=lists.views)
        self.connection.resolve([statement])
        # as many statements as columns: they are counted in Python
        pace, columns = self.connection.pace, len(plan.columns)
        effort = Effort(work=cost.work, statements=columns, rows=spread.expected, pace=pace)
        return PreparedRows(plan=plan, statement=statement, lists=lists, effort=effort)

    def rows(self, prepared: PreparedRows) -> CodedRows:
        """Return the bounded rows of a question as integer codes. Call this after the charge."""
        columns = self.connection.coded(prepared)
        codes = {column.name: columns[f"c{index}"] for index, column in enumerate(prepared.plan.columns)}
        return CodedRows(codes=codes, units=columns[UNIT].astype(np.int64) if UNIT in columns else None)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
