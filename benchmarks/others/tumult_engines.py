"""Tumult's processor time and answers for `engines.py`: a worker, run in Tumult's own environment.

The same table and the same bounds: a unit counts in 3 groups with 5 rows each. The number of rows and the sum are two
questions to Tumult, with half of the budget each. A small table is asked first, so that Spark is warm. Processor time
is that of all processes of this session: Python, its JVM, and the workers in Python that Spark starts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)

TICKS = os.sysconf("SC_CLK_TCK")


def spent() -> float:
    """Return the CPU seconds of this session's processes, and of those that ended."""
    ticks, session = 0, os.getsid(0)
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS


def main() -> None:
    asked = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.sql.shuffle.partitions", "8")
            .config("spark.driver.memory", "4g")
            .config("spark.ui.enabled", "false")
            .config("spark.local.dir", place)
            .config("spark.sql.warehouse.dir", place)
            .getOrCreate()
        )
        answer(spark, asked, asked["warm"])
        before = spent()
        counts, sums = answer(spark, asked, asked["table"])
        seconds = spent() - before
        spark.stop()
    print(json.dumps({"cpu": seconds, "counts": counts, "sums": sums}))


def answer(spark, asked, table: str) -> list[dict[str, float]]:
    """Return the number of rows of every city, and the sum."""
    session = Session.from_dataframe(
        PureDPBudget(float("inf")), "data", spark.read.parquet(table), protected_change=AddRowsWithID("user_id")
    )
    bounded = (
        QueryBuilder("data")
        .enforce(MaxGroupsPerID("city", asked["groups"]))
        .enforce(MaxRowsPerGroupPerID("city", asked["rows"]))
        .groupby(KeySet.from_dict({"city": asked["cities"]}))
    )
    queries = bounded.count("v"), bounded.sum("cost", 0, asked["most"], "v")
    half = PureDPBudget(asked["epsilon"] / 2)
    return [{row["city"]: float(row["v"]) for row in session.evaluate(query, half).collect()} for query in queries]


if __name__ == "__main__":
    main()
