"""The common part of engines on servers: the tables of a policy there, and a read-only transaction for each question.

Each engine's `connection` makes the connections, keeps them and opens them again.

Nothing is kept of a question for the next, since a server's table has no stamp by which to see that it changed. One
question is one transaction: all of its statements see the same rows, and nothing is written, for lists of public keys
and chosen keys are parameters. Functions of released values read no table, and are computed by an embedded DuckDB.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from hush.engines.duckdb.connection import DuckDBSession
from hush.engines.errors import EngineError
from hush.engines.protocol import Choose, Exact
from hush.engines.sql.keys import Lists
from hush.engines.sql.nodes import From, Scalar, Select, integer, select
from hush.engines.sql.relations import Catalogue
from hush.engines.sql.render import Statement, render
from hush.engines.sql.statements import Row, Statements
from hush.engines.sql_engine import PreparedRows, SqlConnection
from hush.engines.unread import Unread, count_cells
from hush.query.errors import UnplannableError
from hush.query.schema import Schema

AT_ONCE = 2**14
"""How many groups with private keys are looked at together."""
_UTC = "SET TimeZone = 'UTC'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """The rights that a role lacks, those it has beyond its needs, and the statements that give it its needs."""

    role: str
    missing: tuple[str, ...]
    surplus: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    complete: bool = True
    """Whether the server tells of surplus rights."""
    notes: tuple[str, ...] = ()
    """Warnings to the owner about views and row security."""

    @property
    def exact(self) -> bool:
        """Whether the role can read the needed columns, and do nothing else."""
        return not self.missing and not self.surplus


class Transaction(Protocol):
    """One snapshot of a server's tables, read-only; every failure is an `EngineError`."""

    def fetch(self, statement: Statement, parameters: Mapping[int, Any]) -> list[Row]:
        """Run a statement and return its rows."""

    def stream(self, statement: Statement, parameters: Mapping[int, Any], size: int) -> Iterator[list[Row]]:
        """Run a statement and yield its rows in batches of a size."""


class Server(Protocol):
    """The address of a server, and connections or sessions there."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction, which ends with the context."""

    def close(self) -> None:
        """End the connections."""


class StoredColumn(NamedTuple):
    """A column as a server stores it: its own name of the type, and the expression that reads it with a neutral type.

    None where hush does not read it. A unit, or a key to one, is read as a ``key``.
    """

    type: str
    cell: tuple[Scalar, str] | None
    key: tuple[Scalar, str] | None


class ServerConnection(SqlConnection):
    """Open tables of a server, the columns each has, and the statements that go there."""

    server: Server
    _stored: Mapping[str, Mapping[str, StoredColumn]]
    """The columns of each table, by their names."""

    def __init__(self) -> None:
        import duckdb

        # for a few released values: one thread is enough, and nothing outside is read
        self._calculator = duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": "false"})
        self._calculator.execute(_UTC)

    @abstractmethod
    def _rows(self, table: str) -> From:
        """Return the source of a table's rows."""

    def _labels(self, schema: Schema, table: str, keys: Collection[str]) -> Collection[str]:  # noqa: ARG002 - for some
        """Return the columns of a table that statements may read; ``keys`` are those that identify units."""
        return self._stored[table]

    @property
    def types(self) -> dict[str, dict[str, str]]:
        """The columns of each table with neutral types; those without one by the server's own name."""
        return {table: {label: type_ for label, (_, type_) in self._read(table).items()} for table in self._stored}

    def _read(self, table: str, keys: Collection[str] = ()) -> dict[str, tuple[Scalar | None, str]]:
        """Return the expression that reads each column, if there is one, and its type."""
        stored = self._stored[table].items()
        return {label: (its.key if label in keys else its.cell) or (None, its.type) for label, its in stored}

    def register(self, schema: Schema) -> Catalogue:
        """Return the query that stands for each table: it casts the server's types to those all engines share."""
        queries: dict[str, str | Select] = {}
        types: dict[str, dict[str, str]] = {}
        for table in self._stored:
            keys = schema.identifying(table)
            read, labels = self._read(table, keys), self._labels(schema, table, keys)
            types[table] = {label: type_ for label, (_, type_) in read.items()}
            cells = [cell.alias(label) for label, (cell, _) in read.items() if cell is not None and label in labels]
            # a table of which no column is read is still counted, and needs one column
            queries[table] = select(cells or [integer(1)], self._rows(table))
        return Catalogue(schema, queries, types, self.dialect)

    @abstractmethod
    def rights(self, needed: Mapping[str, Sequence[str]]) -> Rights:
        """Return the rights of the role that is connected; ``needed`` are the columns of each table that are read."""

    def unread(self, schema: Schema) -> dict[str, Unread]:
        """Return how many rows and cells of each table cannot be read. Exact facts about rows, for the owner alone."""
        catalogue = self.register(schema)
        return {
            table: count_cells(schema.tables[table], catalogue, lambda query: self.public(query)[0])
            for table in self._stored
        }

    def public(self, query: Select) -> list[Row]:
        with self.server.transaction() as transaction:
            return transaction.fetch(render(query, self.dialect, views=Lists().views, limited=False), {})

    def resolve(self, statements: Sequence[Statement], released: Statement | None = None) -> None:  # noqa: ARG002
        if max((len(statement.text) for statement in statements), default=0) > self.dialect.longest:
            raise UnplannableError("the question is too large for this engine; split it or simplify its expressions")
        try:
            self._let_resolve(statements)
        except EngineError:
            raise UnplannableError(
                "the engine cannot express this question; use simpler expressions (nothing was charged)"
            ) from None

    @abstractmethod
    def _let_resolve(self, statements: Sequence[Statement]) -> None:
        """Let the server resolve statements without running them."""

    def results(self, prepared: Statements) -> list[list[Row]]:
        with self.server.transaction() as transaction:
            return [transaction.fetch(statement, prepared.rows.lists.parameters) for statement in prepared.statements]

    def private(self, prepared: Statements, choose: Choose | None) -> Exact:
        """Choose groups from the stream of all, and compute the other statistics of the chosen ones."""
        main = prepared.main
        assert main is not None  # noqa: S101 - it counts the units by which keys are chosen
        units, groups_wanted = main.query.labels.index("units"), []
        with self.server.transaction() as transaction:
            for batch in transaction.stream(main, prepared.rows.lists.parameters, AT_ONCE):
                counts = np.array([int(row[units]) for row in batch], dtype=np.int64)
                picked = np.ones(len(batch), dtype=np.bool_) if choose is None else choose(counts)
                groups_wanted += [row for row, is_chosen in zip(batch, picked.tolist(), strict=True) if is_chosen]
            # by key, NULL last, so that the answer does not show the server's own order
            groups_wanted.sort(
                key=lambda row: [(cell is None, 0 if cell is None else cell) for cell in row[: len(prepared.rows.keys)]]
            )
            return prepared.chosen(groups_wanted, transaction.fetch)

    def coded(self, prepared: PreparedRows) -> Mapping[str, npt.NDArray[Any]]:
        labels = prepared.statement.query.labels
        with self.server.transaction() as transaction:
            rows = transaction.fetch(prepared.statement, prepared.lists.parameters)
        table = np.array(rows, dtype=np.int64).reshape(-1, len(labels))
        return {label: table[:, index] for index, label in enumerate(labels)}

    def compute(self, released: Statement, parameters: Mapping[int, Any]) -> list[Row]:
        with closing(DuckDBSession(self._calculator)) as session:
            return session.fetch(released, parameters)

    def close(self) -> None:
        self._calculator.close()
        self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
