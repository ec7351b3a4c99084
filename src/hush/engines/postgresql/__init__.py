"""PostgreSQL: an engine over the tables of a database."""

from hush.engines.postgresql.engine import PostgreSQL
from hush.engines.postgresql.tables import OpenTables

__all__ = ["OpenTables", "PostgreSQL"]
