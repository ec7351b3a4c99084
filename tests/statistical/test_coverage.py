"""Intervals hold: they contain the exact bounded answer as often as they say, for every aggregate in every situation.

The asked-for band is 93 to 97 %, and it is about the true coverage, of which 1,000 runs (2,000 in `make nightly`) show
a sample: a check fails only where the hits are so few or so many that no coverage in the band gives them with a
probability above 5e-7 on that side. False alarm: below 1e-6 each.

Nowhere may intervals hold less often than that. They may hold *more* often where nothing else is possible, and those
situations are listed apart (`AT_LEAST`): whole-number noise of less than a step, values that lie closer together than
the grid, answers moved into their public range, and so few rows that the answer is "anything".

How often a quantile's intervals miss depends, at large ε, on the few gaps around it
(`hush.mechanisms.grouped.quantile`): there the band is about the average over samples, and no sample may be far below.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from coverage_runs import Coverage, coverage, curator
from scipy.stats import binom

from hush.curator.curator import Curator
from hush.curator.opening import protect

RUNS = 2000 if "HUSH_CASES" in os.environ else 1000
WHOLE = "SELECT {} AS v FROM data"
GROUPED = "SELECT g, {} AS v FROM data GROUP BY g"
BESIDE = "SELECT {} AS v, {} FROM data"

AGGREGATES = {
    "COUNT(*)": "0.1",
    "COUNT(x)": "0.1",
    "COUNT(*) FILTER (WHERE x > 60)": "0.1",
    "COUNT(DISTINCT k)": "0.1",
    "SUM(x)": "0.1",
    "AVG(x)": "0.1",
    "AVG(z)": "0.1",
    "VARIANCE(x)": "0.5",
    "STDDEV(x)": "0.5",
    "SUM(x) / SUM(y)": "0.2",
    "CORR(x, y)": "2",
    "COVAR_SAMP(x, y)": "0.5",
    "REGR_SLOPE(y, x)": "2",
    "REGR_INTERCEPT(y, x)": "2",
    "REGR_R2(y, x)": "2",
    "GEOMETRIC_MEAN(CLIP(x, 1, 100))": "0.2",
    "100 * AVG(x) - SQRT(ABS(SUM(y)))": "0.5",
    "2 * COUNT(*) - 3": "1",
    "SUM(x) / 10 - (COUNT(*) - COUNT(x))": "0.3",
    "COUNT(*) FILTER (WHERE x > 60) * 1.0 / COUNT(*)": "0.2",
    "MEDIAN(x)": "0.1",
    "QUANTILE(x, 0.1)": "0.1",
    "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY z)": "0.2",
    "QUANTILE(x, 0.95)": "0.3",
    "MIN(x)": "0.2",
    "MAX(z)": "0.2",
}

SITUATIONS = {
    "a row a unit": {"rows": 20_000},
    "many rows a unit": {"rows": 20_000, "per_unit": 2, "max_rows": 2},
    "more rows than the bound": {"rows": 20_000, "per_unit": 5, "max_rows": 2},
}


@pytest.fixture(scope="module", params=SITUATIONS)
def situation(request) -> Iterator[object]:
    made = curator(**SITUATIONS[request.param])
    yield made
    made.close()


def assert_holds(found: Coverage, *, upper: bool = True) -> None:
    assert found.runs >= 0.9 * RUNS or not upper, found
    assert binom.ppf(5e-7, found.runs, 0.93) <= found.hits, found
    assert not upper or found.hits <= binom.isf(5e-7, found.runs, 0.97), found


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_intervals_cover(situation, aggregate: str) -> None:
    assert_holds(coverage(situation, WHOLE.format(aggregate), AGGREGATES[aggregate], RUNS)[()])


def test_units_are_covered(situation) -> None:
    assert_holds(coverage(situation, WHOLE.format("COUNT(DISTINCT id)"), "0.1", RUNS)[()])


SHARING = [
    ("SUM(x)", "COUNT(x)"),
    ("COUNT(x)", "AVG(x), SUM(x)"),
    ("COUNT(*)", "AVG(w)"),
    ("COUNT(w)", "AVG(w), COUNT(*)"),
    ("AVG(w)", "COUNT(*)"),
    ("SUM(w)", "COUNT(*)"),
    ("SUM(w) / COUNT(*)", "COUNT(*)"),
    ("VARIANCE(w)", "COUNT(*), AVG(w)"),
    ("SUM(z)", "AVG(x)"),
    ("SUM(s)", "COUNT(*), AVG(r)"),
    ("SUM(r)", "COUNT(*), AVG(r), AVG(s)"),
]
"""What is answered from statistics that it shares with others; r and s are like x and y, and never NULL."""


@pytest.mark.parametrize(("aggregate", "others"), SHARING)
def test_what_shares_statistics_is_covered(situation, aggregate: str, others: str) -> None:
    never_null = "(SELECT *, COALESCE(x, 0) AS r, COALESCE(y, 0) AS s FROM data)"
    asked = BESIDE.format(aggregate, others).replace("FROM data", f"FROM {never_null}")
    assert_holds(coverage(situation, asked, "0.2", RUNS)[()])


TWENTIETHS = ", ".join(f"QUANTILE(x, {part / 20:g})" for part in range(1, 20))


@pytest.mark.parametrize("delta", [None, "1e-6"])
@pytest.mark.parametrize("part", ["0.1", "0.5"])
def test_lists_of_quantiles_are_covered(part: str, delta: str | None) -> None:
    """They come from one noisy distribution, of Laplace noise or of Gaussian noise where units are in many groups."""
    gaussian = {} if delta is None else {"max_groups": 12, "unused": 8, "delta": delta}
    asked = GROUPED if gaussian else WHOLE
    with curator(20_000, per_unit=2, max_rows=2, **gaussian) as desk:
        question = asked.format(f"QUANTILE(x, {part})").replace(" FROM", f", {TWENTIETHS} FROM")
        mechanisms = [type(pick.mechanism).__name__ for pick in desk.plan(question, epsilon="2").plan.draws]
        assert mechanisms == ["GroupedDistribution"]
        for key, found in coverage(desk, question, "2", RUNS).items():
            assert_holds(found, upper=key in {(), ("d",)})


@pytest.mark.parametrize(
    "aggregate", ["COUNT(*)", "SUM(x)", "AVG(x)", "VARIANCE(x)", "COVAR_SAMP(x, y)", "SUM(x) / SUM(y)", "MEDIAN(x)"]
)
@pytest.mark.parametrize("keys", ["public", "private", "gaussian"])
def test_every_group_is_covered(keys: str, aggregate: str) -> None:
    """Groups of about 10, 200, 3,000 and 16,790 rows: none below, the large ones in the band."""
    how = {
        "public": {},
        "private": {"private": True, "delta": "1e-6"},
        "gaussian": {"max_groups": 12, "unused": 8, "delta": "1e-6"},
    }[keys]
    with curator(20_000, per_unit=2, max_rows=2, **how) as desk:
        found = coverage(desk, GROUPED.format(aggregate), "2", RUNS)
        if keys == "gaussian":
            _, plan = desk.plan(GROUPED.format(aggregate), epsilon="2")
            assert plan.draws or all(type(noise.law).__name__ == "GroupedGaussian" for noise in plan.noises)
    assert ("d",) in found
    for key, one in found.items():
        if one.runs >= 200:
            assert_holds(one, upper=key == ("d",) and aggregate != "MEDIAN(x)")


@pytest.mark.parametrize("epsilon", ["0.7", "0.8", "1", "1.3", "1.6"])
def test_counts_cover_where_a_step_is_much(epsilon: str) -> None:
    """No whole half-width holds in 93 to 97 % of cases at ε = 1; some cells have one and the others the next."""
    with curator(1000) as desk:
        for found in coverage(desk, GROUPED.format("COUNT(*)"), epsilon, RUNS).values():
            assert_holds(found)


@pytest.mark.parametrize("epsilon", ["1.6", "2", "2.38", "3"])
@pytest.mark.parametrize("per_unit", [2, 5])
@pytest.mark.parametrize("aggregate", ["COUNT(w)", "COUNT(*) FILTER (WHERE x > 50)", "COUNT_IF(k > 5)"])
def test_counts_of_some_of_a_unit_s_rows_cover_where_a_step_is_much(
    aggregate: str, per_unit: int, epsilon: str
) -> None:
    """Here noise is finer than a row, since units may be weighted down, and the answer the nearest whole number."""
    with curator(1000, per_unit=per_unit, max_rows=2) as desk:
        for found in coverage(desk, GROUPED.format(aggregate), epsilon, RUNS).values():
            assert_holds(found)


@pytest.mark.parametrize("confidence", ["0.8", "0.99"])
@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(x)", "AVG(x)", "SUM(x) / SUM(y)", "STDDEV(z)", "MEDIAN(x)"])
def test_intervals_cover_at_other_confidences(aggregate: str, confidence: str) -> None:
    """As often as they say, but for two fifths of what the confidence leaves."""
    with curator(20_000) as desk:
        found = coverage(desk, WHOLE.format(aggregate), "0.1", RUNS, confidence)[()]
    sure = float(confidence)
    low, high = sure - 0.4 * (1 - sure), sure + 0.4 * (1 - sure)
    assert binom.ppf(5e-7, found.runs, low) <= found.hits <= binom.isf(5e-7, found.runs, high), found


QUANTILES = ["MEDIAN(x)", "QUANTILE(x, 0.1)", "QUANTILE(z, 0.9)", "QUANTILE(x, 0.99)", "MIN(x)", "MAX(z)"]
PRICES = ["0.3", "0.5", "1", "2", "4"]
PRICED = [*zip(QUANTILES, ["0.3", "0.5"] * 3, strict=True), *zip(QUANTILES, ["1", "2", "4"] * 2, strict=True)]
"""Each quantile at a price with the band on both sides, and at one without; `make nightly` has all pairs."""


@pytest.fixture(scope="module")
def desks() -> Iterator[list[Curator]]:
    """Eight samples of one law."""
    with ExitStack() as stack:
        yield [stack.enter_context(curator(10_000, step="0.0001", seed=seed)) for seed in range(8)]


@pytest.mark.parametrize(
    ("aggregate", "epsilon"),
    list(product(QUANTILES, PRICES)) if "HUSH_CASES" in os.environ else PRICED,
)
def test_quantiles_cover_on_average_over_samples(desks: list[Curator], aggregate: str, epsilon: str) -> None:
    samples = [coverage(desk, WHOLE.format(aggregate), epsilon, RUNS // 5)[()] for desk in desks]
    hits, runs = (sum(getattr(one, name) for one in samples) for name in ("hits", "runs"))
    assert_holds(Coverage(hits, runs, 0.0, 0), upper=float(epsilon) <= 0.5)
    assert all(one.hits >= binom.ppf(1e-7, one.runs, 0.82) for one in samples), samples


AT_LEAST = [
    *((rows, aggregate, epsilon) for rows, epsilon in ((10, "1"), (100, "0.1")) for aggregate in AGGREGATES),
    (1000, "CORR(x, y)", "0.1"),
    (1000, "VARIANCE(z)", "0.1"),
    (1000, "MEDIAN(k)", "1"),
    (1000, "MEDIAN(x) - AVG(x)", "1"),
    (20_000, "MEDIAN(x)", "10"),
    (20_000, "COUNT(*)", "5"),
]


@pytest.mark.parametrize(("rows", "aggregate", "epsilon"), AT_LEAST)
def test_few_rows_never_look_sure(rows: int, aggregate: str, epsilon: str) -> None:
    with curator(rows) as desk:
        assert_holds(coverage(desk, WHOLE.format(aggregate), epsilon, RUNS)[()], upper=False)


def lattice(kind: str) -> tuple[np.ndarray, dict[str, object]]:
    """Return values that lie on a coarser lattice than the column's grid, and how the column is protected."""
    rng = np.random.default_rng(len(kind))
    match kind:
        case "whole numbers as decimals":
            return rng.integers(0, 20, 1500).astype(float), {"bounds": {"x": (0, 100)}}
        case "salaries in thousands":
            return np.exp(rng.normal(10.5, 0.5, 4000)) // 1000 * 1000.0, {"bounds": {"x": (0, 200_000, 1)}}
        case "two values":
            return np.repeat([0.0, 100.0], [520, 480]), {"bounds": {"x": (0, 100)}}
        case "half of them round":
            x = rng.uniform(0, 100, 3000)
            return np.where(rng.random(3000) < 0.5, np.round(x), x), {"bounds": {"x": (0, 100)}}
        case _:
            return rng.integers(0, 12, 9000).astype(float), {"bounds": {"x": (0, 100)}, "unit": "id", "max_rows": 3}


@pytest.mark.parametrize("aggregate", ["QUANTILE(x, 0.1)", "MEDIAN(x)", "QUANTILE(x, 0.8)"])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
@pytest.mark.parametrize(
    "kind",
    ["whole numbers as decimals", "salaries in thousands", "two values", "half of them round", "many rows a person"],
)
def test_a_coarser_lattice_never_looks_sure(kind: str, aggregate: str, epsilon: str) -> None:
    values, options = lattice(kind)
    table = pa.table({"x": values, "id": np.arange(len(values)) // 3})
    with protect(table, budget=10**9, **options) as desk:
        assert_holds(coverage(desk, WHOLE.format(aggregate), epsilon, RUNS // 4)[()], upper=False)


@pytest.mark.parametrize("epsilon", ["0.3", "1", "3", "10"])
@pytest.mark.parametrize(
    "ratio",
    [
        "SUM(x) / SUM(y)",
        "SUM(y) / SUM(z)",
        "COALESCE(SUM(z) / NULLIF(SUM(k), 0), 0)",
        "SUM(x) / COUNT(*)",
        "CASE WHEN SUM(y) > 20 THEN SUM(z) / SUM(y) ELSE SUM(z) / -SUM(y) END",
    ],
)
def test_a_divisor_that_is_lost_in_its_noise_never_looks_sure(ratio: str, epsilon: str) -> None:
    """Two people with six rows each, of which three count."""
    with curator(12, per_unit=6, max_rows=3) as desk:
        assert_holds(coverage(desk, WHOLE.format(ratio), epsilon, RUNS)[()], upper=False)
