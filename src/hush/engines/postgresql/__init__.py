"""PostgreSQL: an engine over the tables of a database."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hush.engines.postgresql.connection import PostgreSQLTables, readable_tables


def open_tables(
    address: str,
    tables: Mapping[str, str],
    declared: Mapping[str, Sequence[str]] | None = None,  # noqa: ARG001 - every table has a schema
    *,
    directory: Path | None = None,  # noqa: ARG001 - a database reads no files
    timeout: float | None = None,
) -> PostgreSQLTables:
    """Open tables of a database; ``tables`` has the name of each there."""
    return PostgreSQLTables(address, tables, timeout=timeout)


__all__ = ["PostgreSQLTables", "open_tables", "readable_tables"]
