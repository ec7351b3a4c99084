"""Quantiles where one unit counts in many groups: monthly delays of planes that fly all year."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hush import protect
from hush.accounting import compose
from hush.curator.curator import Curator
from hush.mechanisms.grouped import GroupedDistribution, GroupedQuantile

FLIGHTS = Path(__file__).parents[2] / "data" / "flights.npz"
BY_MONTH = "SELECT month, MEDIAN(delay) AS m FROM data GROUP BY month"
TENTHS = ", ".join(f"QUANTILE(delay, 0.{tenth}) AS q{tenth}" for tenth in range(1, 10))


@pytest.fixture(scope="module")
def flights() -> dict[str, np.ndarray]:
    with np.load(FLIGHTS) as stored:
        return dict(stored)


@pytest.fixture
def curator(flights: dict[str, np.ndarray]) -> Iterator[Curator]:
    """The whole budget is what the question costs."""
    with protect(
        pa.table(flights),
        unit="plane",
        bounds={"month": (1, 12), "delay": (-60, 300)},
        budget={"epsilon": 1, "delta": "1e-6"},
        max_rows=40,
        max_groups=12,
    ) as found:
        yield found


@pytest.mark.parametrize("limits", [{}, {"max_rows": 10}])
def test_monthly_medians_are_known_to_minutes(curator: Curator, flights: dict[str, np.ndarray], limits: dict) -> None:
    """Bars miss in 5 % of cases: that eight or more of twelve do has a probability below 2e-8."""
    rows = curator.ask(BY_MONTH, epsilon=1, **limits).table.to_pylist()
    truths = [float(np.median(flights["delay"][flights["month"] == row["month"]])) for row in rows]
    assert len(rows) == 12
    assert max(row["m_error"] for row in rows) <= 25
    assert sum(abs(row["m"] - truth) > row["m_error"] for row, truth in zip(rows, truths, strict=True)) < 8


def test_draws_of_many_groups_compose_by_their_bounded_range(curator: Curator) -> None:
    shown = curator.explain(BY_MONTH, epsilon=1)
    (pick,) = shown.plan.draws
    assert isinstance(pick.mechanism, GroupedQuantile)
    assert pick.mechanism.epsilon > 1.4  # the sum over a unit's groups, which is not what is paid
    assert compose(shown.events).epsilon("1e-6") <= 1
    assert any("values drawn from many groups" in note for note in shown.caveats)
    alone = curator.explain(BY_MONTH, epsilon=1, max_groups=1).plan.draws[0].mechanism
    assert alone.epsilon == 1


def test_without_a_delta_draws_add_up(flights: dict[str, np.ndarray]) -> None:
    table, bounds = pa.table(flights), {"month": (1, 12), "delay": (-60, 300)}
    with protect(table, unit="plane", bounds=bounds, budget=1, max_groups=12) as pure:
        (pick,) = pure.explain(BY_MONTH, epsilon=1).plan.draws
    assert pick.mechanism.epsilon == 1


def test_numbers_and_draws_share_what_a_question_is_worth(curator: Curator) -> None:
    shown = curator.explain(BY_MONTH.replace("MEDIAN", "COUNT(*) AS n, MEDIAN"), epsilon=1)
    assert compose(shown.events).epsilon("1e-6") <= 1
    assert sum(item.epsilon for item in shown.plan.items) == 1


def test_a_list_of_quantiles_is_one_release(curator: Curator) -> None:
    shown = curator.explain(f"SELECT month, {TENTHS} FROM data GROUP BY month", epsilon=1)
    (pick,) = shown.plan.draws
    assert isinstance(pick.mechanism, GroupedDistribution)
    assert len(pick.choices) == 9
    assert compose(shown.events).epsilon("1e-6") <= 1
    single = curator.explain("SELECT month, QUANTILE(delay, 0.5) AS q5 FROM data GROUP BY month", epsilon="0.111")
    assert shown.rows_off()["q5"] < single.rows_off()["q5"]
    assert "quantiles 0.1, 0.2, 0.3" in str(shown)
    rows = curator.ask(f"SELECT month, {TENTHS} FROM data GROUP BY month", epsilon=1, max_rows=10).table.to_pylist()
    assert all(row["q1"] - row["q1_error"] <= row["q9"] + row["q9_error"] for row in rows)


@pytest.mark.parametrize(
    ("output", "having", "apart"),
    [("QUANTILE(delay, 0.9) - QUANTILE(delay, 0.1) AS spread, ", "", {0.1, 0.9}), ("", " HAVING q4 > 0", {0.1})],
)
def test_quantiles_that_are_computed_with_have_noise_of_their_own(
    curator: Curator, output: str, having: str, apart: set[float]
) -> None:
    many = ", ".join(f"QUANTILE(delay, {part / 40:g}) AS q{part}" for part in range(1, 40))
    shown = curator.explain(f"SELECT month, {output}{many} FROM data GROUP BY month{having}", epsilon=1)
    kinds = {choice.fraction: type(pick.mechanism) for pick in shown.plan.draws for choice in pick.choices}
    assert {float(part) for part, kind in kinds.items() if kind is GroupedQuantile} == apart


def test_a_quantile_asked_for_twice_is_paid_once(curator: Curator) -> None:
    shown = curator.explain("SELECT MEDIAN(delay) AS a, QUANTILE(delay, 0.5) AS b FROM data", epsilon=1)
    assert len(shown.plan.draws) == 1
    row = curator.ask("SELECT MEDIAN(delay) AS a, QUANTILE(delay, 0.5) AS b FROM data", epsilon=1).table.to_pylist()[0]
    assert row["a"] == row["b"]


@pytest.mark.parametrize("law", ["count", "median"])
def test_a_question_for_the_whole_budget_can_be_asked(curator: Curator, law: str) -> None:
    """An account sets a part of δ aside, so it holds a little less than its (ε,δ) is worth."""
    question = BY_MONTH if law == "median" else "SELECT month, COUNT(*) AS m FROM data GROUP BY month"
    assert len(curator.ask(question, epsilon=1).table) == 12
