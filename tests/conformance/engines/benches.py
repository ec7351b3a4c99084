"""Engines over the tables of `worlds`, whose rows can be swapped: what the suite needs of an engine is a bench.

Under the portable order all engines keep the same groups of a unit: their order is that of an MD5 hash of the unit, the
key and the salt, as texts that all engines write alike.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from seams import change_catalogue, duckdb_engine, set_hash_key, write_in
from worlds import STORED, Rows, schema

from hush.engines.postgresql import PostgreSQLTables
from hush.engines.postgresql.dialect import PostgreSQLDialect
from hush.engines.protocol import Exact
from hush.engines.spark import SparkTables
from hush.engines.spark.dialect import SailDialect, SparkDialect
from hush.engines.sql.dialect import Dialect
from hush.engines.sql_engine import SqlEngine
from hush.query.plan import Plan
from hush.query.schema import Schema

POLICY = """
[data.clinic]
engine = "{address}"
unit = "id"
budget = {{ epsilon = "100", delta = "1e-6" }}
[data.clinic.tables.visits]
source = "{source}"
max_rows = 5
max_groups = {groups}
[data.clinic.tables.visits.columns]
city = {{ type = "text", values = ["a", "b", "c"] }}
name = {{ type = "text" }}
cost = {{ type = "decimal", lower = 0, upper = 50, step = "0.01" }}
[analysts.ann]
data = ["clinic"]
budget = {{ epsilon = "100", delta = "1e-6" }}
"""
"""A clinic's visits, wherever an engine has them."""
SALT = 1_234_567_890_123_456_789
ARROW = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "UBIGINT": pa.uint64(),
    "TIMESTAMP": pa.timestamp("us"),
}
SPARK_TYPES = {**ARROW, "UBIGINT": pa.decimal128(20, 0)}
POSTGRESQL_TYPES = {
    "BIGINT": "bigint",
    "DOUBLE": "double precision",
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "UBIGINT": "numeric(20,0)",
    "TIMESTAMP": "timestamp",
}


class PortableDuckDB(Dialect):
    """DuckDB's words, with the portable order."""

    def row_hash(self, *values: str, salt: int) -> str:
        parts = [f"COALESCE(REGEXP_REPLACE(CAST({value} AS VARCHAR), '\\.0$', ''), '-')" for value in values]
        return f"MD5({' || chr(58) || '.join([*parts, repr(str(salt))])})"


class PortablePostgreSQL(PostgreSQLDialect):
    """PostgreSQL's words, with the portable order."""

    def row_hash(self, *values: str, salt: int) -> str:
        parts = [f"COALESCE(REGEXP_REPLACE(CAST({value} AS text), '\\.0$', ''), '-')" for value in values]
        return f'(MD5({" || chr(58) || ".join([*parts, repr(str(salt))])}) COLLATE "C")'


class PortableSpark(SparkDialect):
    """Spark's words, with the portable order: floats are written as DuckDB writes them."""

    def row_hash(self, *values: str, salt: int) -> str:
        parts = [f"COALESCE({self._written(value)}, '-')" for value in values]
        return f"MD5(CONCAT_WS(':', {', '.join([*parts, repr(str(salt))])}))"

    def _written(self, value: str) -> str:
        java = f"CAST({value} AS STRING)"
        plain = f"CAST(TRY_CAST({java} AS DECIMAL(38,18)) AS STRING)"
        near = f"ABS(TRY_CAST({java} AS DOUBLE)) >= 1e-4D AND ABS(TRY_CAST({java} AS DOUBLE)) < 1e16D"
        trimmed = f"REGEXP_REPLACE(REGEXP_REPLACE({plain}, '0+\\u0024', ''), '[.]\\u0024', '')"
        far = f"REGEXP_REPLACE({java}, '([.]0)?E([0-9])', 'e+\\u00242')"
        far = f"REGEXP_REPLACE({far}, '([.]0)?E-', 'e-')"
        written = f"CASE WHEN {near} THEN {trimmed} WHEN {java} = '0.0' THEN '0' ELSE {far} END"
        return f"CASE WHEN TYPEOF({value}) = 'double' THEN {written} ELSE {java} END"


class PortableSail(PortableSpark, SailDialect):
    """Sail's words, with the portable order."""


class DuckDBBench:
    """Rows in DuckDB, added up inside the engine."""

    name = "duckdb"

    def __init__(self) -> None:
        empty = {
            table: pa.table({name: pa.array([], ARROW[kind]) for name, kind in columns.items()})
            for table, columns in STORED.items()
        }
        self.engine = duckdb_engine(schema(Random(0)), empty, threads=1)
        set_hash_key(self.engine, SALT)
        write_in(self.engine, PortableDuckDB())

    def fill(self, rows: Rows) -> None:
        self.engine.connection.forget()
        for index, (table, columns) in enumerate(STORED.items()):
            self.engine.connection._connection.execute(f'DELETE FROM "table_{index}"')
            if rows[table]:
                cells = zip(*rows[table], strict=True)
                frame = pa.table(
                    {
                        name: pa.array(list(cell), ARROW[kind])
                        for (name, kind), cell in zip(columns.items(), cells, strict=True)
                    }
                )
                self.engine.connection._connection.register("fresh", frame)
                self.engine.connection._connection.execute(f'INSERT INTO "table_{index}" SELECT * FROM fresh')

    def prepare(self, how: Plan, about: Schema) -> Any:
        change_catalogue(self.engine, schema=about)
        return self.engine.prepare(how)

    def execute(self, compiled: Any) -> Exact:
        return self.engine.execute(compiled)

    def close(self) -> None:
        self.engine.close()


class PostgreSQLBench:
    """Rows in a PostgreSQL database, read by a role that may do nothing else."""

    name = "postgresql"

    def __init__(self, address: str) -> None:
        import psycopg

        self._connection = psycopg.connect(address, autocommit=True)
        self._connection.execute("DROP SCHEMA IF EXISTS clinic CASCADE; CREATE SCHEMA clinic")
        for table, columns in STORED.items():
            cells = ", ".join(f'"{name}" {POSTGRESQL_TYPES[kind]}' for name, kind in columns.items())
            self._connection.execute(f'CREATE TABLE clinic."{table}" ({cells})')
        self._connection.execute(
            "DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN NOSUPERUSER NOBYPASSRLS; "
            "GRANT USAGE ON SCHEMA clinic TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA clinic TO reader"
        )
        address = address.replace("postgresql://postgres:@", "postgresql://reader@")
        self.engine = SqlEngine(
            schema(Random(0)), PostgreSQLTables(address, {table: f"clinic.{table}" for table in STORED}, timeout=60)
        )
        set_hash_key(self.engine, SALT)
        self.version = self.engine.connection.version
        write_in(self.engine, PortablePostgreSQL())

    def fill(self, rows: Rows) -> None:
        names = ", ".join(f'clinic."{table}"' for table in STORED)
        self._connection.execute(f"TRUNCATE {names}")
        for table in STORED:
            with self._connection.cursor().copy(f'COPY clinic."{table}" FROM STDIN') as copy:
                for row in rows[table]:
                    copy.write_row(row)

    def prepare(self, how: Plan, about: Schema) -> Any:
        change_catalogue(self.engine, schema=about)
        return self.engine.prepare(how)

    def execute(self, compiled: Any) -> Exact:
        return self.engine.execute(compiled)

    def close(self) -> None:
        self.engine.close()
        self._connection.close()


class SparkBench:
    """Rows in parquet files that Spark, or Sail, reads."""

    def __init__(self, address: str, folder: Path) -> None:
        self._folder = folder
        empty: Rows = {table: [] for table in STORED}
        self.fill(empty)
        self.engine = SqlEngine(
            schema(Random(0)),
            SparkTables(address, {table: f"parquet in microseconds:{folder}/{table}" for table in STORED}, timeout=300),
        )
        set_hash_key(self.engine, SALT)
        sail = self.engine.connection.server.sail
        self.name = "sail" if sail else "spark"
        write_in(self.engine, PortableSail() if sail else PortableSpark())

    def fill(self, rows: Rows) -> None:
        for table, columns in STORED.items():
            cells = list(zip(*rows[table], strict=True)) or [()] * len(columns)
            held = {
                name: pa.array(list(cell), SPARK_TYPES[kind])
                for (name, kind), cell in zip(columns.items(), cells, strict=True)
            }
            (self._folder / table).mkdir(exist_ok=True)
            pq.write_table(pa.table(held), self._folder / table / "rows.parquet")

    def prepare(self, how: Plan, about: Schema) -> Any:
        change_catalogue(self.engine, schema=about)
        return self.engine.prepare(how)

    def execute(self, compiled: Any) -> Exact:
        return self.engine.execute(compiled)

    def close(self) -> None:
        self.engine.close()
