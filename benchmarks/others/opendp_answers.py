"""OpenDP's answers for `accuracy.py`: a worker, run in OpenDP's own environment.

The Context API on Polars frames with public keys, as its documentation recommends. The table holds the same rows many
times over, told apart by the column ``copy``: one release grouped by it is as many independent releases, since a row
is in one copy only. That the noise is no other than without the grouping is checked by the scales OpenDP reports.
"""

from __future__ import annotations

import json
import sys
import warnings

import opendp.prelude as dp
import polars as pl

warnings.simplefilter("ignore")
dp.enable_features("contrib")


def expressions(question: str, high: int):
    if question == "count" or question.startswith("groups"):
        return dp.len(signed=True)
    column = pl.col("gain" if question == "mean at an edge" else "age").fill_null(0)
    if question == "sum":
        return column.dp.sum((0, high))
    return column.dp.median(list(range(high + 1))) if question == "median" else column.dp.mean((0, high))


def main() -> None:
    asked = json.loads(sys.argv[1])
    frame = pl.scan_parquet(asked["table"])
    keys = {"count": ["copy"], "grouped mean": ["copy", "sex"]}
    results = []
    for question, loss, repeats in asked["questions"]:

        def query(by: list[str], question=question, loss=loss):
            contributions = 1
            if question.startswith("groups"):
                most = int(question.split()[1])
                contributions = [dp.polars.Bound(by=["copy"], num_groups=most, per_group=1)]
            context = dp.Context.compositor(
                data=frame,
                privacy_unit=dp.unit_of(contributions=contributions),
                privacy_loss=dp.loss_of(**loss),
                split_evenly_over=1,
                margins=[dp.polars.Margin(by=by, max_length=10**8, max_groups=10**6, invariant="keys" if by else None)],
            )
            what = expressions(question, asked["high"])
            return context.query().group_by(by).agg(what) if by else context.query().select(what)

        by = keys.get(question, ["copy"])
        summary = query(by).summarize().rows()
        law, scales = [row[-2] for row in summary], [row[-1] for row in summary]
        if not repeats:
            results.append({"answers": [], "scales": scales, "laws": law})
            continue
        if question != "grouped mean":
            assert scales == [row[-1] for row in query([]).summarize().rows()], question
        measurement = query(by).resolve()
        answers = []
        for _ in range(repeats):
            released = measurement(frame).collect()
            answers += [[row.get("sex"), row[released.columns[-1]]] for row in released.to_dicts()]
        results.append({"answers": answers, "scales": scales, "laws": law})
    print(json.dumps({"results": results}))


if __name__ == "__main__":
    main()
