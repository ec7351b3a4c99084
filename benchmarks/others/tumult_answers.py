"""Tumult's answers for `accuracy.py`: a worker, run in Tumult's own environment.

Tumult Analytics on Spark, a session in which one row may come or go. The table holds the same rows many times over,
told apart by the column ``copy``: one release grouped by it is as many independent releases, since a row is in one
copy only.

Tumult's ``average`` is its sum of deviations from the middle of the bounds and its count, with half of the budget
each. It computes the deviations row by row in Python, which takes minutes here, so unless ``whole_averages`` says
otherwise these two are asked of Tumult over deviations computed beforehand, and divided as ``average`` divides them,
after a check that Tumult reports the same noise for both ways.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from pyspark.sql import SparkSession
from tmlt.analytics import AddMaxRowsInMaxGroups, AddOneRow, KeySet, PureDPBudget, QueryBuilder, RhoZCDPBudget, Session


def main() -> None:
    asked = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        spark = (
            SparkSession.builder.master("local[*]")
            .config("spark.sql.shuffle.partitions", str(os.cpu_count()))
            .config("spark.driver.memory", "4g")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.warehouse.dir", place)
            .getOrCreate()
        )
        results = [answer(spark, asked, *question) for question in asked["questions"]]
        spark.stop()
    print(json.dumps({"results": results}))


def answer(spark, asked, question: str, loss: dict[str, float], repeats: int):
    kind, (size,) = (PureDPBudget if "epsilon" in loss else RhoZCDPBudget), loss.values()
    high, middle = asked["high"], asked["high"] // 2
    column = "gain" if question == "mean at an edge" else "age"
    frame = spark.read.parquet(asked["table"])
    change = AddOneRow()
    if question.startswith("groups"):
        change = AddMaxRowsInMaxGroups("copy", max_groups=int(question.split()[1]), max_rows_per_group=1)
    session = Session.from_dataframe(kind(float("inf")), "data", frame, protected_change=change)
    keys = {"copy": list(range(asked["copies"]))} | ({"sex": [0, 1]} if question == "grouped mean" else {})
    groups = QueryBuilder("data").groupby(KeySet.from_dict(keys))
    mean = question.startswith(("mean", "grouped"))
    if question == "count" or question.startswith("groups"):
        query = groups.count("v")
    elif question == "sum":
        query = groups.sum(column, 0, high, "v")
    elif question == "median":
        query = groups.median(column, 0, high, "v")
    else:
        query = groups.average(column, 0, high, "v")
    noise = _noise(session, query, kind(size))
    parts = [groups.sum(f"centred_{column}", -middle, high - middle, "v"), groups.count("v")]
    if mean:
        assert noise == [one for part in parts for one in _noise(session, part, kind(size / 2))], noise
    answers = []
    for _ in range(repeats):
        if mean and not asked["whole_averages"]:
            total, count = (
                {_key(row): row["v"] for row in session.evaluate(part, kind(size / 2)).collect()} for part in parts
            )
            answers += [[key[1], middle + total[key] / max(1, count[key])] for key in total]
        else:
            answers += [[_key(row)[1], row["v"]] for row in session.evaluate(query, kind(size)).collect()]
    return {"answers": answers, "scales": [scale for _, scale in noise], "laws": [law for law, _ in noise]}


def _key(row):
    return row["copy"], row.asDict().get("sex")


def _noise(session, query, budget) -> list[tuple[str, float]]:
    """Return what noise Tumult says it would add."""
    info = session._noise_info(query, budget)  # noqa: SLF001 - the only way it says
    laws = [(str(part["noise_mechanism"]), float(part["noise_parameter"])) for part in info]
    return [(law, parameter**0.5 if "GAUSSIAN" in law else parameter) for law, parameter in laws]  # σ² to σ


if __name__ == "__main__":
    main()
