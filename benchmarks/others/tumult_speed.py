"""Tumult's times for `peers.py`: a worker, run in Tumult's own environment."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddOneRow,
    AddRowsWithID,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)


def main() -> None:
    asked = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        spark = (
            SparkSession.builder.master("local[*]")
            .config("spark.sql.shuffle.partitions", str(max(8, os.cpu_count() or 1)))
            .config("spark.driver.memory", "10g")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.warehouse.dir", place)
            .getOrCreate()
        )
        if asked["table"]:
            frame, unit = spark.read.parquet(asked["table"]).select("user_id", "city"), AddRowsWithID("user_id")
        else:
            frame, unit = spark.createDataFrame([(at, 1) for at in range(1000)], ["id", "x"]), AddOneRow()
        session = Session.from_dataframe(PureDPBudget(float("inf")), "data", frame, protected_change=unit)
        times = []
        for at in range(asked["repeats"]):
            start = time.perf_counter()
            if asked["table"]:
                bounded = (
                    QueryBuilder("data").enforce(MaxGroupsPerID("city", 3)).enforce(MaxRowsPerGroupPerID("city", 5))
                )
                query = bounded.groupby(KeySet.from_dict({"city": asked["cities"]})).count()
            else:
                query = QueryBuilder("data").filter(f"x > {at}").sum("x", 0, 2)
            session.evaluate(query, PureDPBudget(1)).collect()
            times.append(time.perf_counter() - start)
        spark.stop()
    print(json.dumps({"times": times}))


if __name__ == "__main__":
    main()
