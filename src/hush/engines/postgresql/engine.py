"""PostgreSQL as an engine: statements in its dialect, one read-only transaction for each question."""

from __future__ import annotations

from contextlib import AbstractContextManager

from hush.engines.postgresql.dialect import POSTGRESQL
from hush.engines.postgresql.tables import OpenTables
from hush.engines.server import ServerEngine, Transaction
from hush.engines.sql.dialect import Dialect
from hush.query.schema import Schema


class PostgreSQL(ServerEngine):
    """An engine over open tables of a database. Use it from any thread."""

    words: Dialect = POSTGRESQL

    def __init__(self, schema: Schema, tables: OpenTables) -> None:
        super().__init__(schema, tables.register(schema))
        self._tables = tables

    def _begin(self) -> AbstractContextManager[Transaction]:
        return self._tables.server.transaction()

    def close(self) -> None:
        """Close the connections."""
        super().close()
        self._tables.close()
