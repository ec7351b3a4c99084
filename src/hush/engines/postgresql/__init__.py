"""PostgreSQL: an engine over the tables of a database."""

from hush.engines.postgresql.engine import OpenTables, PostgreSQL

__all__ = ["OpenTables", "PostgreSQL"]
