"""Answers about nobody: they must not look sure."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hush.curator.opening import protect


@pytest.mark.parametrize("aggregate", ["MEDIAN(x)", "QUANTILE(x, 0.9)", "MIN(x)", "MAX(x)"])
def test_a_quantile_of_nothing_may_be_anything(aggregate: str) -> None:
    frame = pa.table({"x": pa.array([], pa.float64()), "g": pa.array([], pa.string())})
    keys = [str(key) for key in range(200)]
    with protect(frame, bounds={"x": (0, 100, "0.01")}, values={"g": keys}, budget=10) as curator:
        (_, column) = curator.ask(f"SELECT g, {aggregate} AS v FROM data GROUP BY g", epsilon=10, fresh=True).columns
    # "Below all" and "above all" weigh 10 times as much as all points: half of the answers looking sure has P < 1e-50.
    assert sum(error >= 49.99 for error in column.errors) > 100


@pytest.mark.parametrize(
    ("aggregate", "least"), [("AVG(x)", 5), ("VARIANCE(x)", 100), ("STDDEV(x)", 5), ("CORR(x, y)", 1)]
)
def test_a_moment_of_nothing_is_not_sure(aggregate: str, least: float) -> None:
    # Half-widths are about (range)²/4, range/2 or 1; so small a one needs a noisy count of over 20 noise scales: 1e-8.
    empty = pa.array([], pa.float64())
    bounds = {"x": (0, 100), "y": (0, 100)}
    with protect(pa.table({"x": empty, "y": empty}), bounds=bounds, budget=1000) as curator:
        for _ in range(20):
            column = curator.ask(f"SELECT {aggregate} AS v FROM data", epsilon="0.5", fresh=True).columns[0]
            assert column.values[0] is not None
            assert column.errors[0] >= least


@pytest.mark.parametrize(
    ("aggregate", "rows", "reach"),
    [("AVG(x)", 0, 50), ("VAR_POP(x)", 0, 1250), ("VARIANCE(x)", 1, 1250), ("CORR(x, y)", 1, 1), ("AVG(x) + 1", 0, 50)],
)
def test_little_noise_knows_no_more_of_too_few_rows(aggregate: str, rows: int, reach: float) -> None:
    # The noisy count is off by a half or more with a probability below e^-100; the whole public range is possible then.
    values = pa.array([30.0] * rows, pa.float64())
    bounds = {"x": (0, 100), "y": (0, 100)}
    with protect(pa.table({"x": values, "y": values}), bounds=bounds, budget=10**6) as curator:
        column = curator.ask(f"SELECT {aggregate} AS v FROM data", epsilon=10**4, fresh=True).columns[0]
    assert column.errors[0] >= reach * 0.999


@pytest.mark.parametrize("aggregate", ["MEDIAN(x)", "QUANTILE(x, 0.9)", "MIN(x)", "MAX(x)"])
@pytest.mark.parametrize("value", [0.0, 100.0])
def test_values_at_a_bound_are_no_reason_for_doubt(aggregate: str, value: float) -> None:
    with protect(pa.table({"x": [value] * 5000}), bounds={"x": (0, 100, "0.01")}, budget=100) as curator:
        columns = [
            curator.ask(f"SELECT {aggregate} AS v FROM data", epsilon=2, fresh=True).columns[0] for _ in range(30)
        ]
    # What lies beyond wins once in 40 times for MIN and MAX, hardly ever for others: 15 of 30 have probability 1e-12.
    assert sum(column.values[0] == value and column.errors[0] == 0.01 for column in columns) > 15
