"""PostgreSQL: an engine over the tables of a database."""

from hush.engines.postgresql.connection import PostgreSQLTables, readable_tables

open_tables = PostgreSQLTables

__all__ = ["PostgreSQLTables", "open_tables", "readable_tables"]
