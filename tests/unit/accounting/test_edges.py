"""Where an end once came out on the wrong side, broke, or never came: each with a truth worked out by hand."""

import math
from fractions import Fraction

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    PoissonGaussianEvent,
    RenyiEvent,
    compose,
)
from hush.accounting.pairs import DiscreteLaplacePair
from hush.accounting.profile.bounded_range import MOST_STEPS, range_delta
from hush.accounting.theorems import gaussian
from hush.core.balls import ball, flint, precision


@pytest.mark.parametrize("delta", ["1e-5", "1e-6", "3e-9", "0.3"])
def test_a_delta_short_of_the_infinite_mass_by_less_than_a_float_shows_is_never_enough(delta: str) -> None:
    guarantee = compose([ApproximateDPEvent(epsilon=1, delta=delta)])
    mass = Fraction(delta)
    assert guarantee.epsilon(mass - Fraction(1, 10**60)).upper == math.inf
    assert guarantee.epsilon(mass) == 1.0
    assert guarantee.epsilon(mass + Fraction(1, 10**60)).upper <= 1.0


def test_a_mass_too_long_to_be_told_from_delta_claims_nothing() -> None:
    many = compose([ApproximateDPEvent(epsilon=1, delta="1e-9")]) * 1000
    mass = 1 - (1 - Fraction(1, 10**9)) ** 1000
    short = many.epsilon(mass - Fraction(1, 10**400), strict=False)
    assert short.upper == math.inf


@pytest.mark.parametrize("epsilon", [10**4, 10**5, 10**8])
def test_the_analytic_gaussian_at_a_large_epsilon(epsilon: int) -> None:
    sigma = gaussian.analytic(epsilon, "1e-6")
    less = sigma * (1 - Fraction(1, 10**9))
    assert gaussian.gaussian_delta(epsilon=epsilon, mu=1 / sigma).upper <= 1e-6
    assert gaussian.gaussian_delta(epsilon=epsilon, mu=1 / less).lower > 1e-6


def test_many_rare_samples_of_sharp_noise() -> None:
    # One sampled step has a loss of about κ²/2 + ln q = 186 ± 20, no sampled step one below 0: δ(10) = 1 − (1−q)^n.
    found = (compose([PoissonGaussianEvent(rate="1e-6", sigma="0.05")]) * 100_000).delta(10, strict=False)
    assert found.lower <= -math.expm1(100_000 * math.log1p(-1e-6)) <= found.upper


@pytest.mark.parametrize(("parameter", "sensitivity"), [("0.3", 2), ("0.3", 50), ("0.0001", 5000), ("3", 5000)])
def test_the_moment_of_discrete_laplace_in_the_middle(parameter: str, sensitivity: int) -> None:
    pair = DiscreteLaplacePair(parameter=Fraction(parameter), sensitivity=sensitivity)
    with precision(128):
        r = (-ball(Fraction(parameter))).exp()
        # At z = −1/2 every loss counts alike: Σ√(PQ).
        truth = (-ball(Fraction(parameter)) * sensitivity / 2).exp() * (2 + (1 - r) * (sensitivity - 1)) / (1 + r)
        found = pair.moment(flint().acb(-0.5)).real
        assert found.overlaps(truth)
        assert found.rel_accuracy_bits() > 64


def test_near_certainty_next_to_very_wide_noise() -> None:
    wide = compose([DiscreteGaussianEvent(sigma_squared=7 * 10**12, sensitivity=3)]) * 10**9
    found = (wide + DiscreteLaplaceEvent(parameter="1.031", sensitivity=2**20)).delta(0)
    assert found.lower > 1 - 1e-15


def test_sharp_sampled_noise_next_to_renyi_points_costs_hardly_more_than_unsampled() -> None:
    # The order is sought for the sampled law; at that order the unsampled divergence may have to do.
    points = RenyiEvent(points=[(2, "0.03"), (8, "0.6"), (32, "1.8")])
    sampled = compose([points, PoissonGaussianEvent(rate="0.48", sigma="0.0078")])
    plain = compose([points, GaussianEvent(sigma="0.0078")])
    assert sampled.epsilon("1e-5").upper <= plain.epsilon("1e-5").upper * 1.001


def test_bounded_ranges_are_asked_on_the_safe_side_of_an_epsilon_that_is_no_float() -> None:
    # The float nearest to 1/10 lies above it, and has a smaller δ: the one below it answers.
    found, below, nearest = (
        range_delta(Fraction(1, 1000), MOST_STEPS + 1, epsilon).upper
        for epsilon in (Fraction(1, 10), Fraction(math.nextafter(0.1, 0.0)), Fraction(0.1))
    )
    assert found == below > nearest
