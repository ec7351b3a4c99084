"""PostgreSQL as an engine: the tables that a policy names, and one read-only transaction for each question.

A table is read through a query that brings its columns into neutral types: texts are compared by their bytes, whatever
collation the column has; instants are clocks in UTC; a numeric that has no precision is a float. Columns that the role
cannot read, or whose type hush does not know, are not there.

>>> qualified_name("clinic.visits"), qualified_name("visits"), qualified_name('"My.schema"."t"')
(('clinic', 'visits'), ('public', 'visits'), ('My.schema', 't'))
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

from hush.core.values import dataclass
from hush.engines.errors import EngineError, SourceError
from hush.engines.postgresql.connection import Server
from hush.engines.postgresql.dialect import POSTGRESQL
from hush.engines.server import ParameterisedText, ServerEngine, ServerTables, Transaction
from hush.engines.sql.dialect import Dialect


class PostgreSQL(ServerEngine):
    """An engine over open tables of a database. Use it from any thread."""

    words: Dialect = POSTGRESQL
    _tables: OpenTables

    def _begin(self) -> AbstractContextManager[Transaction]:
        return self._tables.server.transaction()


_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
_PLAIN = {
    "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE", "bool": "BOOLEAN",
    "date": "DATE", "timestamp": "TIMESTAMP",
}  # fmt: skip
_TEXTS = {"text", "varchar", "bpchar", "name", "citext", "uuid"}
_WIDEST = 38
_COLUMNS = """
SELECT a.attname, COALESCE(b.typname, t.typname), COALESCE(b.typtype, t.typtype)::text, a.atttypmod
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type AS b ON b.oid = t.typbasetype AND t.typtype = 'd'
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0
  AND NOT a.attisdropped AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
  AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')
ORDER BY a.attnum
"""


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
        f"WHEN {name} > 0 THEN FLOAT8 'Infinity' ELSE FLOAT8 '-Infinity' END"
    )


class OpenTables(ServerTables):
    """Tables of a database; ``tables`` says what each is called there."""

    words: ClassVar[Dialect] = POSTGRESQL

    def __init__(self, address: str, tables: Mapping[str, str], *, timeout: float | None = None) -> None:
        self.server = Server(address, timeout=timeout)
        self.names = {table: qualified_name(source) for table, source in tables.items()}
        self._stored: dict[str, dict[str, PostgreSQLColumn]] = {}
        try:
            with self.server.transaction() as transaction:
                version = transaction.fetch(ParameterisedText.of("SHOW server_version_num"), {})[0][0]
                self.version = int(version) // 10_000
                for table, name in self.names.items():
                    found = transaction.fetch(ParameterisedText.of(_COLUMNS), {1: name[0], 2: name[1]})  # type: ignore[dict-item]
                    self._stored[table] = {row[0]: PostgreSQLColumn(*row) for row in found}
        except EngineError:
            self.close()
            raise SourceError("the database cannot be reached; hush engine check says what is missing") from None
        for table, columns in self._stored.items():
            if not columns:
                self.close()
                raise SourceError(
                    f"table {table!r} is not in the database, or its role may not read it; see hush engine check",
                    table=table,
                )

    def _rows(self, table: str) -> str:
        return ".".join(map(POSTGRESQL.quoted, self.names[table]))

    def close(self) -> None:
        """Close the connections."""
        self.server.close()
