"""Apache Spark: an engine over the tables of its catalogue, and over files that it reads."""

from hush.engines.spark.engine import Spark, SparkTables

__all__ = ["Spark", "SparkTables"]
