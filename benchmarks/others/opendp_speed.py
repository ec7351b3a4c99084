"""OpenDP's times for `peers.py`: a worker, run in OpenDP's own environment.

The default ``keep="sample"`` fails in this version, so each person's first cities are kept instead of random ones.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import opendp.prelude as dp
import polars as pl

warnings.simplefilter("ignore")
dp.enable_features("contrib")


def large(table: str, cities: list[str]) -> int:
    context = dp.Context.compositor(
        data=pl.scan_parquet(table),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["city"], max_length=10**8, max_groups=len(cities))],
    )
    bounded = context.query().truncate_per_group(5, by=["city"]).truncate_num_groups(3, by=["city"], keep="first")
    asked = bounded.group_by("city").agg(dp.len(signed=True)).with_keys(pl.LazyFrame({"city": cities}))
    return len(asked.release().collect())


def small(frame: pl.LazyFrame, at: int) -> float:
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=1000)],
    )
    return context.query().filter(pl.col("x") > at).select(pl.col("x").fill_null(0).dp.sum((0, 2))).release().collect()


def main() -> None:
    asked = json.loads(sys.argv[1])
    times = []
    if asked["table"]:
        for _ in range(asked["repeats"]):
            start = time.perf_counter()
            assert large(asked["table"], asked["cities"]) == len(asked["cities"])
            times.append(time.perf_counter() - start)
    else:
        frame = pl.LazyFrame({"id": list(range(1000)), "x": [1] * 1000})
        for at in range(asked["repeats"]):
            start = time.perf_counter()
            small(frame, at)
            times.append(time.perf_counter() - start)
    print(json.dumps({"times": times}))


if __name__ == "__main__":
    main()
