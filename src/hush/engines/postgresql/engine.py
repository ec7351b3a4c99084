"""PostgreSQL as an engine: the tables that a policy names, and one read-only transaction for each question.

A table is read through a query that brings its columns into neutral types: texts are compared by their bytes, whatever
collation the column has; instants are clocks in UTC; a numeric that has no precision is a float. Columns that the role
cannot read, or whose type hush does not know, are not there.

>>> qualified_name("clinic.visits"), qualified_name("visits"), qualified_name('"My.schema"."t"')
(('clinic', 'visits'), ('public', 'visits'), ('My.schema', 't'))
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from hush.core.values import dataclass
from hush.engines.errors import EngineError, SourceError
from hush.engines.postgresql.connection import Server
from hush.engines.postgresql.dialect import POSTGRESQL
from hush.engines.server import ParameterisedText, ServerEngine, ServerTables, Transaction
from hush.engines.sql.dialect import Dialect
from hush.query.errors import UnplannableError
from hush.query.schema import Schema


class PostgreSQL(ServerEngine):
    """An engine over open tables of a database. Use it from any thread."""

    words: Dialect = POSTGRESQL
    _tables: OpenTables

    def _begin(self) -> AbstractContextManager[Transaction]:
        return self._tables.server.transaction()

    def _let_resolve(self, statements: Sequence[ParameterisedText]) -> None:
        """Let the server resolve statements; what has changed in it since it was opened is told as that."""
        try:
            same = self._tables.same_after(statements)
        except EngineError:
            if self._tables.server.reason:
                raise UnplannableError(
                    "the database cannot be reached, or is busy; ask again later (nothing was charged)"
                ) from None
            try:
                same = self._tables.same_after([])
            except EngineError:
                same = False
            if same:
                raise
        if not same:
            raise UnplannableError(
                "a table of this data set is not in the database as it was when it was opened: it was dropped, "
                "renamed or altered, or the role may not read it any more. The owner can open it anew (nothing was "
                "charged)"
            )


_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
_PLAIN = {
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE", "bool": "BOOLEAN",
    "date": "DATE", "timestamp": "TIMESTAMP",
}  # fmt: skip
_TEXTS = {"text", "varchar", "bpchar", "name", "citext", "uuid"}
_WIDEST = 38
_COLUMNS = """
WITH RECURSIVE read (attnum, attname, type, modifier, first, given) AS (
  SELECT a.attnum, a.attname, a.atttypid, a.atttypmod, a.atttypid, a.atttypmod
  FROM pg_catalog.pg_attribute AS a
  JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0
    AND NOT a.attisdropped AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')
  UNION ALL
  SELECT r.attnum, r.attname, t.typbasetype, CASE WHEN r.modifier < 0 THEN t.typtypmod ELSE r.modifier END,
    r.first, r.given
  FROM read AS r
  JOIN pg_catalog.pg_type AS t ON t.oid = r.type
  WHERE t.typtype = 'd'
)
SELECT r.attname, t.typname, t.typtype::text, r.modifier, r.first::bigint, r.given
FROM read AS r
JOIN pg_catalog.pg_type AS t ON t.oid = r.type
WHERE t.typtype <> 'd'
ORDER BY r.attnum
"""
"""The columns that the role may read, with the types that domains stand for."""
_SAME = """
SELECT COUNT(*) FROM (VALUES {rows}) AS w (place, name, type, modifier)
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = pg_catalog.to_regclass(w.place) AND a.attname = w.name
WHERE a.atttypid = w.type AND a.atttypmod = w.modifier AND NOT a.attisdropped
  AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')
"""
"""How many of some columns are as they were."""


def qualified_name(source: str) -> tuple[str, str]:
    """Return schema and name of a table as a policy writes it."""
    parts = [(quoted or plain).replace('""', '"') for quoted, plain in _PART.findall(source.strip())]
    if not 1 <= len(parts) <= 2 or any("\0" in part for part in parts):
        raise SourceError(f"a table of a database is written schema.table; got {source!r}")
    return (parts[0], parts[1]) if len(parts) == 2 else ("public", parts[0])


@dataclass(frozen=True, slots=True)
class PostgreSQLColumn:
    """A column as the server stores it."""

    name: str
    type: str
    kind: str
    modifier: int
    first: int
    """The number of its own type, which may be a domain, and that type's modifier."""
    given: int

    def read(self, *, identifies: bool = False) -> tuple[str, str] | None:
        """Return how it is read and as which neutral type; a unit, or a key to one, ``identifies``."""
        name = POSTGRESQL.quoted(self.name)
        if self.type in _PLAIN:
            return name, _PLAIN[self.type]
        if self.type in _TEXTS or self.kind == "e":
            return f'(CAST({name} AS text) COLLATE "C")', "VARCHAR"
        if self.type == "timestamptz":
            return f"({name} AT TIME ZONE 'UTC')", "TIMESTAMP"
        if self.type != "numeric":
            return None
        if self.modifier >= 4:
            precision, scale = (self.modifier - 4) >> 16, (self.modifier - 4) & 0x7FF
            if precision <= _WIDEST and scale <= precision:
                return f"NULLIF({name}, 'NaN')", f"DECIMAL({precision},{scale})"
        if identifies:
            return f'(CAST(TRIM_SCALE({name}) AS text) COLLATE "C")', "VARCHAR"
        return _float_of(name), "DOUBLE"


def _float_of(name: str) -> str:
    """Return any numeric as a float; one that is too large is infinite, and one that is too small 0."""
    return (
        f"CASE WHEN {name} = 'NaN' THEN NULL WHEN ABS({name}) < 1e-300 THEN FLOAT8 '0' "
        f"WHEN ABS({name}) < 1e300 THEN CAST({name} AS double precision) "
        f"WHEN {name} > 0 THEN FLOAT8 'Infinity' WHEN {name} < 0 THEN FLOAT8 '-Infinity' END"
    )


class OpenTables(ServerTables):
    """Tables of a database; ``tables`` says what each is called there."""

    words: ClassVar[Dialect] = POSTGRESQL

    def __init__(self, address: str, tables: Mapping[str, str], *, timeout: float | None = None) -> None:
        self.server = Server(address, timeout=timeout)
        self.names = {table: qualified_name(source) for table, source in tables.items()}
        self._stored: dict[str, dict[str, PostgreSQLColumn]] = {}
        self._used: list[tuple[str, PostgreSQLColumn]] = []
        """The columns that statements may read, with the quoted names of their tables."""
        try:
            with self.server.transaction() as transaction:
                version = transaction.fetch(ParameterisedText.of("SHOW server_version_num"), {})[0][0]
                self.version = int(version) // 10_000
                for table, name in self.names.items():
                    found = transaction.fetch(ParameterisedText.of(_COLUMNS), {1: name[0], 2: name[1]})  # type: ignore[dict-item]
                    self._stored[table] = {row[0]: PostgreSQLColumn(*row) for row in found}
        except EngineError:
            self.close()
            why = self.server.reason or "it ended the connection"
            raise SourceError(f"the database cannot be reached: {why}") from None
        for table, columns in self._stored.items():
            if not columns:
                self.close()
                raise SourceError(
                    f"table {table!r} is not in the database under the name {'.'.join(self.names[table])}, capitals "
                    "as written, or its role may not read it: it needs USAGE on the schema and SELECT on the columns",
                    table=table,
                )

    def _rows(self, table: str) -> str:
        return ".".join(map(POSTGRESQL.quoted, self.names[table]))

    def _labels(self, schema: Schema, table: str, keys: frozenset[str]) -> Collection[str]:
        """Return the columns that the policy names, and remember them; one of a type that is not read is refused."""
        stored = self._stored[table]
        declared = schema.tables[table].columns if table in schema.tables else stored
        labels = [label for label in stored if label in declared or label in keys]
        for label in labels:
            if stored[label].read() is None:
                kind = stored[label].type
                shown = f"{kind[1:]}[]" if kind.startswith("_") else kind
                raise SourceError(
                    f"column {label!r} of table {table!r} has the type {shown}, which hush does not read; leave it "
                    "out of the policy, or read a view that casts it to a number, a text, a date or a timestamp",
                    table=table,
                )
        self._used += [(self._rows(table), stored[label]) for label in labels]
        return labels

    def same_after(self, statements: Sequence[ParameterisedText]) -> bool:
        """Return whether the columns that are read are as they were, after the server has resolved statements."""
        if not self._used:
            check = "SELECT 0"
        else:
            rows = ", ".join(
                f"({POSTGRESQL.text(whole)}, {POSTGRESQL.text(column.name)}, {column.first}, {column.given})"
                for whole, column in self._used
            )
            check = _SAME.format(rows=rows)
        return int(self.server.resolve(statements, check)[0]) == len(self._used)

    def close(self) -> None:
        """Close the connections."""
        self.server.close()
