"""Quantiles over more than 2²⁰ grid points: the candidates' scores are those of the whole grid, cut at -C."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.curator.opening import protect
from hush.mechanisms.grouped.quantile import PointRuns

POINTS = 10**11 + 1
QUESTIONS = ["MEDIAN(s)", "QUANTILE(s, 0.9)", "MIN(s)", "MAX(s)"]


def cents(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Salaries on a line up to 10⁹: nearly all in a few of its 2²⁰ bins, some far out, many alike."""
    near = np.exp(rng.normal(10, 1, rows))
    return np.where(rng.random(rows) < 0.02, rng.uniform(0, 1e9, rows), np.where(rng.random(rows) < 0.2, 30_000, near))


def score_on_paper(values: np.ndarray, item, weight: int, point: int, shift: int) -> int:
    """-max(b·L - t, t - b·U, 0), cut, from the values themselves."""
    below, upto = weight * np.count_nonzero(values < point), weight * np.count_nonzero(values <= point)
    whole, b = weight * len(values), item.mechanism.fraction.denominator
    match item.choices[0].kind.value:
        case "quantile":
            target = item.choices[0].fraction.numerator * whole
        case "min":
            target = min(item.mechanism.rank, whole // 2)
        case _:
            target = whole - min(item.mechanism.rank, whole // 2)
    target += shift
    return -int(min(max(b * below - target, target - b * upto, 0), item.mechanism.cut))


@pytest.mark.parametrize("epsilon", ["0.5", "20", "2000"])
@pytest.mark.parametrize("owned", [False, True])
def test_scores_are_those_of_the_whole_grid(owned: bool, epsilon: str) -> None:
    rng = np.random.default_rng(3)
    rows = 4000
    salary = np.round(cents(rng, rows) * 100) / 100
    group = rng.choice(np.array(["a", "b", None], dtype=object), rows)
    frame = pa.table({"id": np.arange(rows), "s": salary, "g": pa.array(group.tolist())})
    wide = {"s": (0, 10**9, "0.01")}
    with protect(frame, unit="id" if owned else None, bounds=wide, budget={"epsilon": 1, "delta": "1e-6"}) as curator:
        for question in QUESTIONS:
            sql = f"SELECT g, {question} AS v FROM data GROUP BY g"
            desk, how = curator.plan(sql, epsilon=epsilon)
            exact = desk.engine.run(how)
            (item,), (histograms,) = how.draws, exact.histograms
            assert item.histogram.refined
            assert item.histogram.points == POINTS
            for (key,), sparse in zip(exact.keys, histograms, strict=True):
                mine = np.round(salary[[one == key for one in group]] * 100).astype(np.int64)
                weight = item.choices[0].weight(how.exact_query.limits)
                assert int(sparse.weights.sum()) == weight * len(mine)
                assert sparse.cells is not None
                lines = PointRuns(item.mechanism, [sparse])
                for shift in (-item.mechanism.spread, item.mechanism.spread):
                    _, begin, end, distance = lines.runs(shift)
                    assert int((end - begin).sum()) == POINTS
                    for at in np.flatnonzero(end > begin)[:: max(1, len(begin) // 60)]:
                        for point in {int(begin[at]), int(end[at]) - 1}:
                            assert -distance[at] == score_on_paper(mine, item, weight, point, shift)


def test_answers_are_finer_than_a_bin() -> None:
    rng = np.random.default_rng(4)
    frame = pa.table({"s": np.exp(rng.normal(10, 1, 50_000))})
    with protect(frame, bounds={"s": (0, 10**9, "0.01")}, budget=10**6) as curator:
        column = curator.ask("SELECT MEDIAN(s) AS v FROM data", epsilon=10, fresh=True).columns[0]
    truth = float(np.median(frame["s"].to_numpy()))
    # A draw that misses its rank by 100 has probability e^-500; 100 ranks are about 220 here, a bin is 954 wide.
    assert abs(column.values[0] - truth) < 300
    assert column.errors[0] < 300


def test_a_small_file_may_hold_many_rows(tmp_path) -> None:
    """Numbers in a row take no room in a file, and much in a histogram."""
    path = tmp_path / "numbers.parquet"
    pq.write_table(
        pa.table({"x": np.arange(2**17)}),
        path,
        use_dictionary=False,
        column_encoding={"x": "DELTA_BINARY_PACKED"},
        compression="zstd",
    )
    assert path.stat().st_size < 2**17
    with protect(path, bounds={"x": (0, 10**8)}, budget=10**6) as curator:
        desk, how = curator.plan("SELECT MEDIAN(x) AS v FROM data", epsilon=1)
        assert how.draws[0].histogram.refined
        ((found,),) = desk.engine.run(how).histograms
        assert len(found.bins) < 2**14
