"""Skellam noise as a dominating pair: against plain sums over its outputs, alone and composed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import hush
from hush.accounting import ApproximateDPEvent, SkellamEvent, event_from_json
from hush.accounting.pairs.skellam import SkellamPair, skellam_epsilon
from hush.core import InvalidValueError
from hush.core.rounding import ball, down, flint, up
from hush.distributed import SkellamShare


def laws(variance, sensitivity):
    """Return the two laws on enough integers."""
    reach = int(40 * math.sqrt(variance) + 80)
    k = np.arange(-reach, reach + 1)
    return special.ive(np.abs(k - sensitivity), variance), special.ive(np.abs(k), variance)


@pytest.mark.parametrize(("variance", "sensitivity", "epsilon"), [
    ("14.24", 1, 1.0), ("14.24", 1, -0.5), ("3", 2, 2.0), ("0.144", 1, 4.0), ("40", 3, 0.0), ("40", 3, -9.0),
])  # fmt: skip
def test_the_profile_is_the_sum_over_all_outputs(variance, sensitivity, epsilon):
    first, second = laws(float(variance), sensitivity)
    expected = np.maximum(first - math.exp(epsilon) * second, 0).sum()
    value = SkellamPair(variance=Fraction(variance), sensitivity=sensitivity).profile(ball(Fraction(epsilon)))
    assert down(value) == pytest.approx(expected, rel=1e-10)
    assert up(value) - down(value) < 1e-14


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 7.0, -0.3, -4.0])
def test_the_moment_is_the_sum_over_all_outputs(order):
    first, second = laws(5.0, 2)
    pair = SkellamPair(variance=Fraction(5), sensitivity=2)
    keep = (first > 1e-250) & (second > 1e-250)
    expected = np.exp((1 + order) * np.log(first[keep]) - order * np.log(second[keep])).sum()
    value = pair.moment(flint().acb(order)).real
    assert down(value) == pytest.approx(expected, rel=1e-9)
    if order > 0:
        log, error = pair.batch([pair], [3]).cumulant(np.array([order, order + 2j]))
        assert log[0].real == pytest.approx(3 * math.log(expected), abs=float(error[0]) + 1e-9)
        assert error.max() < 1e-9


@pytest.mark.parametrize(("variance", "sensitivity", "epsilon"), [("14.24", 1, 1.3), ("3", 2, 2.0), ("0.144", 1, 4.5)])
def test_two_releases_by_enumeration(variance, sensitivity, epsilon):
    first, second = laws(float(variance), sensitivity)
    expected = np.maximum(np.outer(first, first) - math.exp(epsilon) * np.outer(second, second), 0).sum()
    delta = hush.compose([SkellamEvent(variance=variance, sensitivity=sensitivity)] * 2).delta(epsilon)
    assert delta.lower <= expected * (1 + 1e-12)
    assert expected * (1 - 1e-12) <= delta.upper
    assert delta.upper - delta.lower < 1e-8 * expected


@pytest.mark.parametrize("variance", ["0.1", "1", "14.24", "300"])
def test_rho_holds_at_every_order(variance):
    pair = SkellamPair(variance=Fraction(variance), sensitivity=1)
    rho = up(pair.rho())
    orders = np.geomspace(1e-3, 150, 60)
    value, error = pair.batch([pair], [1]).cumulant(orders)
    assert ((value - error) / (orders * (orders + 1)) <= rho).all()
    if float(Fraction(variance)) > 10:
        assert rho * 2 * float(variance) < 1.1


def test_shares_are_charged_as_the_noise_that_they_are():
    share = SkellamShare(epsilon=1, delta="1e-6", parties=7, honest=5)
    assert share.event == SkellamEvent(variance=share.honest_variance)
    alone = hush.compose([share.event]).epsilon("1e-6")
    assert 0.999999 < alone.lower <= alone.upper <= 1
    ten = hush.compose([share.event] * 10).epsilon("1e-5").upper
    box = hush.compose([ApproximateDPEvent(epsilon=1, delta="1e-6")] * 10).epsilon("1.1e-5").upper
    assert ten < 0.4 * box
    assert event_from_json(share.event.to_json()) == share.event
    assert share.event.group(3) == SkellamEvent(variance=share.honest_variance, sensitivity=3)


def test_the_epsilon_of_a_variance_is_zero_where_any_is_enough():
    assert skellam_epsilon(variance=Fraction(10**4), sensitivity=1, delta=Fraction(1, 2)) == 0.0
    assert skellam_epsilon(variance=Fraction("14.24"), sensitivity=1, delta=Fraction(1001, 10**9)) == pytest.approx(
        1, abs=1e-3
    )


@pytest.mark.parametrize("options", [
    {"variance": 0}, {"variance": 10**7}, {"variance": 1, "sensitivity": 0}, {"variance": 1, "sensitivity": "1/2"},
])  # fmt: skip
def test_bad_input(options):
    with pytest.raises(InvalidValueError):
        SkellamEvent(**options)
