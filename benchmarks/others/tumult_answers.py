"""Tumult's answers for `accuracy.py`: a worker, run in Tumult's own environment.

Tumult Analytics on Spark, a session in which one row may come or go. The table holds the same rows many times over,
told apart by the column ``copy``: one release grouped by it is as many independent releases, since a row is in one
copy only.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from pyspark.sql import SparkSession  # noqa: E402
from tmlt.analytics import (  # noqa: E402
    AddOneRow,
    KeySet,
    PureDPBudget,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)


def main() -> None:
    asked = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        spark = (
            SparkSession.builder.master("local[*]")
            .config("spark.sql.shuffle.partitions", str(os.cpu_count()))
            .config("spark.driver.memory", asked.get("memory", "4g"))
            .config("spark.ui.enabled", "false")
            .config("spark.sql.warehouse.dir", place)
            .getOrCreate()
        )
        print(json.dumps({"results": [answer(spark, asked, *question) for question in asked["questions"]]}))
        spark.stop()


def answer(spark, asked, question: str, loss: dict[str, float], repeats: int):
    kind = PureDPBudget if "epsilon" in loss else RhoZCDPBudget
    column = "gain" if question == "mean at an edge" else "age"
    frame = spark.read.parquet(asked["table"]).select("copy", "sex", column)
    session = Session.from_dataframe(kind(float("inf")), "data", frame, protected_change=AddOneRow())
    keys = {"copy": list(range(asked["copies"]))} | ({"sex": [0, 1]} if question == "grouped mean" else {})

    def build(builder):
        if question == "count":
            return builder.count("v")
        if question == "sum":
            return builder.sum(column, 0, asked["high"], "v")
        if question == "median":
            return builder.median(column, 0, asked["high"], "v")
        return builder.average(column, 0, asked["high"], "v")

    query = build(QueryBuilder("data").groupby(KeySet.from_dict(keys)))
    budget = kind(*loss.values())
    info = session._noise_info(query, budget)  # noqa: SLF001 - the scales, to compare laws and not draws alone
    answers = []
    for _ in range(repeats):
        rows = session.evaluate(query, budget).collect()
        answers += [[row["sex"] if question == "grouped mean" else None, row["v"]] for row in rows]
    return {
        "answers": answers,
        "scales": [float(part["noise_parameter"]) for part in info],
        "laws": [str(part["noise_mechanism"]) for part in info],
    }


if __name__ == "__main__":
    main()
