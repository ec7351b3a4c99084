"""DuckDB, embedded: the engine for files and frames, and what it alone has."""

from hush.engines.duckdb.engine import CompiledRows, DuckDB

__all__ = ["CompiledRows", "DuckDB"]
