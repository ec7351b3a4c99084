"""Inverse problems: certified, least, monotone."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    RandomizedResponseEvent,
    best_split,
    calibrate,
    compose,
    largest_count,
    theorems,
)
from hush.core import HushError, InvalidValueError


def test_calibrated_gaussian_is_the_analytic_one():
    event = calibrate(GaussianEvent, epsilon=1, delta="1e-6")
    assert float(event.sigma_squared) ** 0.5 == pytest.approx(float(theorems.gaussian.analytic(1, "1e-6")), rel=1e-9)
    hundred = calibrate(GaussianEvent, count=100, epsilon=1, delta="1e-6")
    assert float(hundred.sigma_squared) == pytest.approx(100 * float(event.sigma_squared), rel=1e-9)


@pytest.mark.parametrize("family", [GaussianEvent, LaplaceEvent, DiscreteGaussianEvent, DiscreteLaplaceEvent])
@pytest.mark.parametrize(("count", "epsilon", "delta"), [(1, "1", "1e-6"), (50, "0.5", "1e-9")])
def test_calibration_is_certified_and_least(family, count, epsilon, delta):
    event = calibrate(family, count=count, epsilon=epsilon, delta=delta)
    reached = (compose([event]) * count).epsilon(delta)
    assert reached.upper <= float(Fraction(epsilon))
    assert reached.upper >= float(Fraction(epsilon)) * (1 - 1e-6)


def test_pure_calibration_is_exact():
    assert calibrate(LaplaceEvent, epsilon="0.1").scale == 10
    assert calibrate(LaplaceEvent, count=7, epsilon=1, sensitivity="0.5").scale == Fraction(7, 2)
    third = calibrate(LaplaceEvent, epsilon="0.3").scale
    assert third >= Fraction(10, 3)
    assert third - Fraction(10, 3) < Fraction(1, 10**11)
    assert calibrate(DiscreteLaplaceEvent, epsilon="0.1", sensitivity=3).parameter == Fraction(1, 30)
    assert calibrate(RandomizedResponseEvent, count=2, epsilon="0.5").epsilon == Fraction(1, 4)
    assert calibrate(RandomizedResponseEvent, epsilon="0.5", sensitivity=3).epsilon == Fraction(1, 2)


@given(st.fractions(Fraction(1, 100), 5, max_denominator=1000), st.fractions(Fraction(1, 100), 5, max_denominator=1000))
@settings(max_examples=15, deadline=None)
def test_more_epsilon_never_needs_more_noise(one, other):
    low, high = sorted((one, other))
    assert calibrate(LaplaceEvent, epsilon=high).scale <= calibrate(LaplaceEvent, epsilon=low).scale
    more, less = (calibrate(GaussianEvent, epsilon=e, delta="1e-6").sigma_squared for e in (low, high))
    assert less <= more


class Toy:
    """A mechanism of a higher layer: it knows its event, and how to be made from its noise."""

    def __init__(self, event):
        self.event = event

    @classmethod
    def with_noise(cls, noise, *, sensitivity):
        return cls(LaplaceEvent(scale=noise, sensitivity=sensitivity))


def test_mechanisms_take_part():
    made = calibrate(Toy, epsilon=1, count=4, sensitivity=2)
    assert isinstance(made, Toy)
    assert made.event.scale == 8
    assert largest_count(made, epsilon=1) == 4
    assert [toy.event.scale for toy in best_split(Toy, sensitivities=[1, 8], epsilon=1)] == [5, 10]


def test_largest_count():
    assert largest_count(LaplaceEvent(scale=10), epsilon=1) == 10
    assert largest_count(LaplaceEvent(scale=10), epsilon="0.05") == 0
    event = GaussianEvent(sigma=30)
    most = largest_count(event, epsilon=1, delta="1e-6")
    assert (compose([event]) * most).epsilon("1e-6").upper <= 1
    assert (compose([event]) * (most + 1)).epsilon("1e-6").upper > 1
    assert largest_count(LaplaceEvent(scale=10), epsilon=1, delta="1e-6") >= 10


def test_best_split_beats_the_even_one():
    reaches = [1, 5, 20]
    for family, delta, noise in (
        (LaplaceEvent, 0, lambda e: float(e.scale)),
        (LaplaceEvent, "1e-6", lambda e: float(e.scale)),
        (GaussianEvent, "1e-6", lambda e: float(e.sigma_squared) ** 0.5),
    ):
        split = best_split(family, sensitivities=reaches, epsilon=1, delta=delta)
        bound = compose(split).epsilon(delta).upper if delta else sum(float(e.pure_epsilon()) for e in split)
        assert bound <= 1 + 1e-9
        even = [calibrate(family, count=3, epsilon=1, delta=delta, sensitivity=reach) for reach in reaches]
        assert sum(noise(e) ** 2 for e in split) <= sum(noise(e) ** 2 for e in even) * (1 + 1e-9)


def test_best_split_for_the_largest_error_makes_errors_equal():
    split = best_split(
        GaussianEvent, sensitivities=[1, 5], weights=[2, 1], epsilon=1, delta="1e-6", objective="maximum"
    )
    one, two = (float(event.sigma_squared) ** 0.5 for event in split)
    assert 2 * one == pytest.approx(two, rel=1e-9)
    assert compose(split).epsilon("1e-6").upper <= 1


def test_weights_move_noise_to_what_matters_less():
    split = best_split(LaplaceEvent, sensitivities=[1, 1], weights=[8, 1], epsilon=1)
    assert [float(event.scale) for event in split] == pytest.approx([1.5, 3.0], rel=1e-9)


@pytest.mark.parametrize("call", [
    lambda: calibrate(GaussianEvent, epsilon=1),
    lambda: calibrate(GaussianEvent, epsilon=0),
    lambda: calibrate(GaussianEvent, epsilon=1, delta=1),
    lambda: calibrate(GaussianEvent, epsilon=1, delta="1e-6", count=0),
    lambda: calibrate(GaussianEvent, epsilon=1, delta="1e-6", sensitivity=0),
    lambda: calibrate(GaussianEvent, epsilon="nan", delta="1e-6"),
    lambda: calibrate(PoissonGaussianEvent, epsilon=1, delta="1e-6"),
    lambda: calibrate(int, epsilon=1, delta="1e-6"),
    lambda: calibrate(DiscreteGaussianEvent, epsilon=1, delta="1e-6", sensitivity="0.5"),
    lambda: largest_count(3, epsilon=1),
    lambda: best_split(GaussianEvent, sensitivities=[], epsilon=1, delta="1e-6"),
    lambda: best_split(GaussianEvent, sensitivities=[1], weights=[1, 2], epsilon=1, delta="1e-6"),
    lambda: best_split(GaussianEvent, sensitivities=[1], objective="mean", epsilon=1, delta="1e-6"),
])  # fmt: skip
def test_bad_input_is_refused(call):
    with pytest.raises(HushError):
        call()


def test_a_count_beyond_every_limit_is_refused():
    with pytest.raises(InvalidValueError):
        largest_count(LaplaceEvent(scale=10**20), epsilon=1)


@pytest.mark.parametrize(("rate", "count"), [("0.01", 100), ("0.2", 20)])
def test_sampled_noise_is_enough_and_the_last_digit_is_needed(rate, count):
    event = calibrate(PoissonGaussianEvent, rate=rate, count=count, epsilon=1, delta="1e-6")
    sigma = Fraction(math.isqrt(event.sigma_squared.numerator), math.isqrt(event.sigma_squared.denominator))
    assert (compose([event]) * count).epsilon("1e-6") <= 1
    less = PoissonGaussianEvent(rate=rate, sigma=sigma * (1 - Fraction(2, 10**5)))
    assert (compose([less]) * count).epsilon("1e-6") > 1
    assert largest_count(event, epsilon=1, delta="1e-6") == count


def test_rate_belongs_to_sampled_events():
    with pytest.raises(InvalidValueError, match="rate"):
        calibrate(PoissonGaussianEvent, epsilon=1, delta="1e-6")
    with pytest.raises(InvalidValueError, match="rate"):
        calibrate(GaussianEvent, rate="0.1", epsilon=1, delta="1e-6")
