"""Shares of noise: the price when fewer are honest, by exact sums over the law itself."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hush.accounting.pairs.skellam import skellam_delta
from hush.core import InvalidValueError
from hush.core.rounding import down, up
from hush.distributed import LaplaceShare, SkellamShare


def difference(shape, scale, reach):
    """Return P(X = k), k = -reach … reach, of a difference of two negative binomial variables, by convolution."""
    q = math.exp(-1 / scale)
    masses = np.empty(60 * reach)
    masses[0] = (1 - q) ** shape
    for k in range(1, len(masses)):
        masses[k] = masses[k - 1] * q * (shape + k - 1) / k
    return {k: float(masses[: len(masses) - abs(k)] @ masses[abs(k) :]) for k in range(-reach, reach + 1)}


@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
@pytest.mark.parametrize("honest", [9, 5, 1])
def test_the_price_of_fewer_honest_parties_is_the_largest_loss(honest, epsilon, sensitivity):
    share = LaplaceShare(sensitivity=sensitivity, epsilon=epsilon, parties=12, honest=10)
    law = difference(honest / 10, float(share.scale), 40)
    largest = max(abs(math.log(law[k] / law[k + sensitivity])) for k in range(-30, 30 - sensitivity))
    assert share.epsilon_if(honest=honest) == pytest.approx(largest, rel=1e-9)
    assert share.epsilon_if(honest=honest) > float(share.epsilon)


def test_golden_prices():
    share = LaplaceShare(epsilon=1, parties=100)
    assert [round(share.epsilon_if(honest=b), 3) for b in (90, 80, 70, 50)] == [1.099, 1.212, 1.342, 1.675]
    share = LaplaceShare(epsilon="0.1", parties=100)
    assert [round(share.epsilon_if(honest=b), 3) for b in (90, 50)] == [0.146, 0.606]
    assert share.epsilon_if(honest=0) == math.inf
    assert share.epsilon_if(honest=100) == pytest.approx(0.1)


@pytest.mark.parametrize(("epsilon", "variance"), [("0.5", 61.2), ("1", 14.24), ("4", 0.144)])
def test_skellam_needs_the_variance_that_the_exact_curve_says(epsilon, variance):
    share = SkellamShare(epsilon=epsilon, delta="1e-6", parties=7, honest=5)
    assert float(share.honest_variance) == pytest.approx(variance, rel=5e-3)
    assert up(skellam_delta(share.honest_variance, 1, share.epsilon)) <= 1e-6
    assert down(skellam_delta(share.honest_variance * Fraction(99, 100), 1, share.epsilon)) > 1e-6
    assert share.epsilon_if(honest=4) > float(share.epsilon)
    assert share.variance == pytest.approx(float(share.honest_variance) * 7 / 5)


@pytest.mark.parametrize(("variance", "sensitivity", "epsilon"), [("3", 1, "0.7"), ("14.24", 1, "1"), ("40", 4, "2")])
def test_the_skellam_curve_is_the_sum_over_all_outputs(variance, sensitivity, epsilon):
    """Against plain sums of the law, which is the convolution of two Poisson laws."""
    rate, reach = float(Fraction(variance)) / 2, 220
    poisson = np.exp(np.arange(reach) * math.log(rate) - rate - np.array([math.lgamma(k + 1) for k in range(reach)]))
    law = np.convolve(poisson, poisson[::-1])
    moved = np.concatenate([np.zeros(sensitivity), law[:-sensitivity]])
    expected = np.maximum(moved - math.exp(float(Fraction(epsilon))) * law, 0).sum()
    delta = skellam_delta(Fraction(variance), sensitivity, Fraction(epsilon))
    assert down(delta) == pytest.approx(expected, rel=1e-9)
    assert down(delta) <= up(delta) <= down(delta) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("variance", "sensitivity", "epsilon"), [("0.01", 1, "9"), ("0.01", 3, "31"), ("1e-3", 2, "20")]
)
def test_the_skellam_curve_far_out_is_enclosed(variance, sensitivity, epsilon):
    """Where the worst half line begins far beyond all that is ever drawn."""
    delta = skellam_delta(Fraction(variance), sensitivity, Fraction(epsilon))
    rate, e = float(Fraction(variance)) / 2, math.exp(float(Fraction(epsilon)))

    def mass(k):  # Σ_i P(N = i+|k|)·P(N = i), of which few terms matter at so small a rate
        return sum(
            math.exp(-2 * rate) * rate ** (2 * i + abs(k)) / math.factorial(i) / math.factorial(i + abs(k))
            for i in range(12)
        )

    expected = sum(max(0.0, mass(k - sensitivity) - e * mass(k)) for k in range(-60, 60))
    assert down(delta) <= expected * (1 + 1e-12)
    assert expected * (1 - 1e-12) <= up(delta)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "x", None, True, 10**9])
def test_bad_input(bad):
    for options in ({"parties": bad}, {"parties": 5, "honest": bad}, {"parties": 5, "sensitivity": bad}):
        if options.get("honest", 0) is None or (options.get("sensitivity") == 10**9):
            continue
        with pytest.raises(InvalidValueError):
            LaplaceShare(epsilon=1, **options)
    with pytest.raises(InvalidValueError):
        SkellamShare(epsilon="1e-9", delta="1e-6", parties=3)
