"""Intervals hold: they contain the exact bounded answer in 93 to 97 % of runs, for every aggregate.

The exact answer is the estimator applied to the exact statistics. The claim is about the true coverage, of which 2,000
runs show a sample: a check fails only where the hits are so few or so many that no coverage from 93 to 97 % gives them
with a probability above 5e-7 on that side. False alarm: below 1e-6 each. Integer noise cannot reach 95 % exactly: its
scales are chosen so large that the steps do not matter.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from hush.curator.answer import build
from hush.curator.opening import protect
from hush.curator.release import Released, estimates, release

RUNS = 2000
ROWS = 20_000


@pytest.fixture(scope="module")
def curator():
    rng = np.random.default_rng(5)
    x = rng.normal(50, 12, ROWS)
    frame = pa.table(
        {
            "id": np.arange(ROWS) // 2,
            "x": x,
            "y": x * 0.5 + rng.normal(0, 10, ROWS),
            "g": rng.choice(["a", "b"], ROWS),
        }
    )
    made = protect(
        frame,
        unit="id",
        bounds={"x": (0, 100, "0.01"), "y": (0, 100, "0.01")},
        values={"g": ["a", "b"]},
        budget=10**9,
        max_rows=2,
    )
    yield made
    made.close()


QUESTIONS = {
    "count": ("COUNT(*)", "0.05"),
    "count of units": ("COUNT(DISTINCT id)", "0.05"),
    "sum": ("SUM(x)", "0.1"),
    "sum beside a count": ("SUM(x)", "0.1"),
    "average": ("AVG(x)", "0.1"),
    "ratio": ("SUM(x) / SUM(y)", "0.2"),
    "variance": ("VARIANCE(x)", "0.5"),
    "deviation": ("STDDEV(x)", "0.5"),
    "covariance": ("COVAR_SAMP(x, y)", "0.5"),
    "correlation": ("CORR(x, y)", "2"),
    "filtered": ("COUNT(*) FILTER (WHERE x > 60)", "0.05"),
    "median": ("MEDIAN(x)", "0.5"),
    "quantile": ("QUANTILE(x, 0.9)", "1"),
}


def coverage(curator, expression: str, epsilon: str, runs: int = RUNS) -> float:
    extra = ", COUNT(x) AS n" if expression == "SUM(x)" else ""
    desk, how = curator._plan(
        f"SELECT {expression} AS v{extra} FROM data", (), epsilon=epsilon, accuracy=None, delta=None, data=None
    )
    exact = desk.engine.run(how)
    if how.picks:
        truth = true_quantile(exact, how)
    else:
        noiseless = Released(keys=exact.keys, statistics=dict(exact.statistics), picks=(), scales=())
        assert estimates(how, noiseless)
        truth = float(build(how, noiseless)[0].values[0])
    hits = 0
    for _ in range(runs):
        column = build(how, release(how, exact))[0]
        hits += abs(float(column.values[0]) - truth) <= column.errors[0]
    return hits / runs


def true_quantile(exact, how) -> float:
    (pick,), (histogram,) = how.picks, exact.histograms[0]
    factor = pick.choice.histogram.factor
    cumulative = np.cumsum(histogram.weights)
    at = np.searchsorted(cumulative, float(pick.choice.fraction) * cumulative[-1])
    return float((factor.first + int(histogram.bins[at])) * factor.step)


@pytest.mark.parametrize("name", QUESTIONS)
def test_intervals_cover(curator, name: str) -> None:
    expression, epsilon = QUESTIONS[name]
    if name == "sum":
        expression = "SUM(x) + 0"
    hits = round(coverage(curator, expression, epsilon) * RUNS)
    assert binom.ppf(5e-7, RUNS, 0.93) <= hits <= binom.isf(5e-7, RUNS, 0.97), hits
