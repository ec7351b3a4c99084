"""The theorems side by side: all true, in their order, with reasons where one does not apply."""

import math
import re

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    RenyiEvent,
    Row,
    ZCDPEvent,
    compare,
    comparison_chart,
    compose,
)
from hush.core import InvalidValueError

LISTS = {
    "laplace": [LaplaceEvent(scale=10)] * 100,
    "gaussian": [GaussianEvent(sigma=30)] * 100,
    "mixed": [LaplaceEvent(scale=10)] * 10
    + [GaussianEvent(sigma=30)] * 30
    + [RandomizedResponseEvent(epsilon="0.2")] * 5,
    "approximate": [ApproximateDPEvent(epsilon="0.1", delta="1e-8")] * 20 + [GaussianEvent(sigma=10)],
    "zcdp": [ZCDPEvent(rho="0.01")] * 3,
    "renyi": [RenyiEvent(points=[(20, "0.1")])] * 2,
}


def by_name(rows):
    return {row.theorem: row.epsilon for row in rows}


@pytest.mark.parametrize("name", LISTS)
def test_no_theorem_is_below_the_exact_value(name):
    events = LISTS[name]
    rows = compare(events, delta="1e-6")
    exactly = compose(events).epsilon("1e-6")
    assert rows[-1].theorem == "certified"
    assert rows[-1].epsilon == exactly.upper
    for row in rows:
        assert row.note
        assert row.epsilon is None or row.epsilon >= exactly.lower * (1 - 1e-9)


def test_the_ladder():
    found = by_name(compare(LISTS["laplace"], delta="1e-6"))
    ladder = ["basic", "advanced", "advanced, improved", "optimal for black boxes", "certified"]
    values = [found[name] for name in ladder]
    assert values == sorted(values, reverse=True)
    assert found["zCDP"] < found["zCDP, textbook"]
    assert found["Rényi"] < found["Rényi, textbook"]
    assert found["Rényi"] < found["zCDP"]


def test_gaussian_dp_is_exact_for_gaussian_noise():
    found = by_name(compare(LISTS["gaussian"], delta="1e-6"))
    assert found["Gaussian DP"] == pytest.approx(found["certified"], rel=1e-9)


def test_what_does_not_apply_says_why():
    rows = {row.theorem: row for row in compare(LISTS["renyi"], delta="1e-6")}
    assert rows["zCDP"].epsilon is None
    assert "no ρ-zCDP" in rows["zCDP"].note
    assert rows["Rényi"].epsilon is not None
    rows = {row.theorem: row for row in compare([ApproximateDPEvent(epsilon=1, delta="1e-5")] * 2, delta="1.5e-5")}
    assert rows["basic"].epsilon is None
    assert "own δ" in rows["basic"].note


def test_counts_are_read_without_unfolding_them():
    many = compare([ComposedEvent(parts=[(LaplaceEvent(scale=10**4), 10**6)])], delta="1e-6")
    assert by_name(many)["basic"] == 100


def test_nothing_to_compare():
    with pytest.raises(InvalidValueError):
        compare([], delta="1e-6")
    with pytest.raises(InvalidValueError):
        compare(LISTS["laplace"], delta=0)


def test_chart():
    rows = compare(LISTS["laplace"], delta="1e-6")
    shown = re.findall('<rect class="c.*?<title>(.*?)</title>', comparison_chart(rows).svg)
    assert shown == [f"{row.theorem}: {row.epsilon:.6g}" for row in rows if row.epsilon is not None]
    assert shown[-1].startswith("certified: ")


@pytest.mark.parametrize("epsilon", [0.0, math.inf])
def test_chart_where_no_theorem_helps_or_nothing_is_spent(epsilon):
    assert "certified" in comparison_chart([Row(theorem="certified", epsilon=epsilon, note="")]).svg
