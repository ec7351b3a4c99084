"""DuckDB, embedded: the engine for files and frames, with its caches."""

from hush.engines.duckdb.connection import DuckDBConnection, duckdb_engine

__all__ = ["DuckDBConnection", "duckdb_engine"]
