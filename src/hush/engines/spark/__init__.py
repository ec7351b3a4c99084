"""Apache Spark: an engine over the tables of its catalogue, and over files that it reads."""

from hush.engines.spark.connection import SparkTables

open_tables = SparkTables

__all__ = ["SparkTables", "open_tables"]
