"""What counts prove: fair games, exact intervals, and the runs that a violation needs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hush.audit.statistics import (
    GRID,
    Fortune,
    detectable,
    gaussian_mu,
    growth,
    interval,
    rough_growth,
    runs_needed,
    stake,
)


def test_intervals_are_those_of_clopper_and_pearson():
    for count, runs in ((0, 10), (3, 10), (10, 10), (184, 1000)):
        low, high = interval(count, runs, level=0.1)  # half of it for the first look
        expected = stats.binomtest(count, runs).proportion_ci(0.95, method="exact")
        assert low == pytest.approx(expected.low, abs=1e-4)
        assert high == pytest.approx(expected.high, abs=1e-4)


def test_levels_of_all_looks_add_up():
    assert sum(1 / (look * (look + 1)) for look in range(1, 10**5)) <= 1


def test_a_stake_is_the_best_one_and_none_where_no_bet_is_good():
    share = float(stake(0.5, 0.1, 1.0, 0.0))
    logs = [sum(_logs(0.5, 0.1, other)) for other in (share, share * 0.95, share * 1.05)]
    assert logs[0] >= max(logs[1:])
    assert float(stake(0.5, 0.5, 1.0, 0.0)) == 0
    assert float(growth(0.5, 0.1, 1.0, 0.0)[0]) == pytest.approx(logs[0])
    assert rough_growth(np.array([0.5]), np.array([0.1]), 1.0, 0.0)[0] == pytest.approx(logs[0], rel=0.25)


def _logs(p, q, share):
    for x in (0, 1):
        for y in (0, 1):
            weight = (p if x else 1 - p) * (q if y else 1 - q)
            yield weight * math.log1p(share * (x - math.e * y))


def test_a_true_claim_is_refuted_no_more_often_than_stated():
    """1,500 games of 400 runs at the border of the claim, level 20 %: 380 or more wins have probability below 1e-6."""
    choice = np.random.default_rng(3)
    won = 0
    for _ in range(1500):
        fortune = Fortune(delta=0.0)
        x, y = choice.random(400) < 0.5, choice.random(400) < 0.5 / math.e
        fortune.bet(x, y, p=0.53, q=0.17, point=(1.0, 0.0))
        won += fortune.won(0.2)
    assert 20 < won < 380


def test_the_lower_bound_is_near_the_truth_and_below_it():
    """True ε 2 with 20,000 runs; the bound is above 1.8 and, but for 1e-6, at most 2."""
    choice = np.random.default_rng(4)
    fortune = Fortune(delta=0.0)
    fortune.bet(choice.random(20_000) < 0.5, choice.random(20_000) < 0.5 * math.exp(-2), p=0.5, q=0.07, point=(1, 0))
    assert 1.8 < fortune.epsilon(1e-6) <= 2
    assert np.all(np.diff(GRID) > 0)


@pytest.mark.parametrize(
    ("claimed", "true", "asked"), [(1, 1.1, 13_000), (1, 1.25, 2300), (1, 1.5, 640), (1, 2, 200), (0.1, 0.2, 6200)]
)
def test_fewer_runs_are_needed_than_the_table_asks(claimed, true, asked):
    needed = runs_needed(claimed=claimed, true=true, level=0.05)
    assert needed < asked
    assert detectable(claimed=claimed, runs=needed, level=0.05) == pytest.approx(true, rel=3e-3)
    choice = np.random.default_rng(5)
    won = 0
    for _ in range(400):
        fortune = Fortune(delta=0.0)
        q = 0.5 * math.exp(-true)
        fortune.bet(choice.random(needed) < 0.5, choice.random(needed) < q, p=0.5, q=q, point=(claimed, 0.0))
        won += fortune.won(0.05)
    assert won >= 326  # of 400 at 90 %: fewer have probability below 1e-6


def test_mu_from_a_point_of_the_curve():
    p, q = stats.norm.cdf(1.0), stats.norm.cdf(-0.5)
    assert gaussian_mu((p, p), (q, q)) == pytest.approx(1.5)
    assert gaussian_mu((0.0, 1.0), (0.0, 1.0)) == 0
    assert detectable(claimed=1, runs=3, level=1e-6) == math.inf
