"""Guarantees: composing, asking, extremes, other currencies."""

from __future__ import annotations

import math
import pickle
import re
from fractions import Fraction

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    Bound,
    BoundedRangeEvent,
    DescriptionError,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    RandomizedResponseEvent,
    RenyiEvent,
    ZCDPEvent,
    compose,
)
from hush.core import InvalidValueError

MIX = [LaplaceEvent(scale=2) * 5, GaussianEvent(sigma=4) * 3, RandomizedResponseEvent(epsilon="0.3") * 2]


def assert_near(one, other, rel=1e-9):
    """Two certified intervals for the same number must overlap, and be narrow."""
    assert one.lower <= other.upper
    assert other.lower <= one.upper
    assert one.upper == pytest.approx(other.upper, rel=rel)


def test_a_bound_is_a_float_with_both_ends():
    bound = compose(MIX).epsilon("1e-6")
    assert isinstance(bound, float)
    assert bound.lower <= bound.upper == bound
    again = pickle.loads(pickle.dumps(bound))
    assert (again.lower, again.upper) == (bound.lower, bound.upper)
    assert isinstance(Bound(lower=2.0, upper=1.0).lower, float)


def test_adding_repeating_and_composing_are_one_thing():
    g = compose(MIX)
    assert_near((g * 3).epsilon("1e-6"), compose(MIX * 3).epsilon("1e-6"))
    assert_near((g + LaplaceEvent(scale=3)).epsilon("1e-6"), compose([*MIX, LaplaceEvent(scale=3)]).epsilon("1e-6"))
    assert g + g == g * 2
    assert sum([compose(MIX), compose(MIX)], start=compose([])) == g * 2
    assert compose([g, *MIX]) == g * 2

    class Mechanism:
        event = GaussianEvent(sigma=4)

    assert compose([Mechanism()]) == compose([GaussianEvent(sigma=4)])


def test_a_live_guarantee_inherits_its_nodes_and_stays_right():
    live = compose([LaplaceEvent(scale=Fraction(100 + i, 10)) for i in range(200)])
    live.epsilon("1e-8")
    for i in range(4):
        live += GaussianEvent(sigma=20 + i)
        live += LaplaceEvent(scale=30 + i)
        found = live.epsilon("1e-8")
        assert found.upper - found.lower <= 1e-9 * found.upper
    afresh = compose(
        [LaplaceEvent(scale=Fraction(100 + i, 10)) for i in range(200)]
        + [GaussianEvent(sigma=20 + i) for i in range(4)]
        + [LaplaceEvent(scale=30 + i) for i in range(4)]
    )
    assert_near(found, afresh.epsilon("1e-8"))


def test_nothing_costs_nothing():
    assert compose([]).epsilon("1e-6").upper == 0.0
    assert compose([]).epsilon(0).upper == 0.0
    assert compose([]).delta(0).upper == 0.0
    assert (compose(MIX) * 0).epsilon("1e-6").upper == 0.0


def test_pure_steps_sum_at_delta_zero():
    g = compose([LaplaceEvent(scale=10) * 10, RandomizedResponseEvent(epsilon="0.25")])
    assert 1.25 <= g.epsilon(0) <= math.nextafter(1.25, 2)
    assert math.nextafter(1.25, 0) <= g.epsilon(0).lower <= 1.25
    assert g.delta("1.25").upper == 0.0
    assert g.epsilon("1e-300").upper <= 1.25
    assert compose([GaussianEvent(sigma=1)]).epsilon(0).upper == math.inf


def test_infinite_loss_is_kept_apart():
    g = compose([ApproximateDPEvent(epsilon="0.5", delta="1e-6") * 4])
    assert g.epsilon("1e-6").lower == math.inf
    assert g.delta(2).upper == pytest.approx(4e-6, rel=1e-5)
    assert g.delta_infinite == pytest.approx(4e-6, rel=1e-5)
    assert g.epsilon("1e-3").upper <= 2.0
    assert g.pure_epsilon() == math.inf
    assert g.renyi(math.inf) == 2.0
    assert compose([ApproximateDPEvent(epsilon="0.5", delta="1e-6")]).epsilon("1e-6").upper == 0.5


@pytest.mark.parametrize("delta", [-1, 2, float("nan"), "x", None])
def test_bad_delta(delta):
    with pytest.raises(InvalidValueError):
        compose(MIX).epsilon(delta)


@pytest.mark.parametrize("epsilon", [-1, float("nan"), float("inf"), "x"])
def test_bad_epsilon(epsilon):
    with pytest.raises(InvalidValueError):
        compose(MIX).delta(epsilon)


EXTREMES = {
    "tiny sigma": ([GaussianEvent(sigma="1e-3")], "1e-300"),
    "huge sigma": ([GaussianEvent(sigma="1e6")], "1e-300"),
    "huge sigma, many": ([GaussianEvent(sigma="1e6") * 10**9], "1e-12"),
    "tiny epsilon": ([RandomizedResponseEvent(epsilon="1e-9") * 1000], "1e-10"),
    "huge epsilon": ([RandomizedResponseEvent(epsilon="1e4") * 3], "1e-10"),
    "huge laplace": ([LaplaceEvent(scale="1e-4") * 3], "1e-10"),
    "a billion laplace": ([LaplaceEvent(scale=10**5) * 10**9], "1e-300"),
    "a billion responses": ([RandomizedResponseEvent(epsilon="1e-4") * 10**9], "1e-10"),
    "a billion discrete": ([DiscreteGaussianEvent(sigma=10**4) * 10**9], "1e-10"),
    "a million sampled": ([PoissonGaussianEvent(rate="1e-3", sigma=1) * 10**6], "1e-8"),
    "mixed scales": (
        [LaplaceEvent(scale="1e-3"), GaussianEvent(sigma=1000) * 10**6, RandomizedResponseEvent(epsilon="1e-6") * 1000],
        "1e-20",
    ),
    "one strong, one weak": ([LaplaceEvent(scale=1), GaussianEvent(sigma=10**6)], "1e-6"),
    "deep lattice": ([DiscreteLaplaceEvent(parameter="0.3", sensitivity=3) * 20], "1e-300"),
    "large sensitivity": ([DiscreteLaplaceEvent(parameter="1e-3", sensitivity=1000) * 50], "1e-6"),
    "narrow discrete gaussian": ([DiscreteGaussianEvent(sigma="0.1") * 3], "1e-9"),
    "range": ([BoundedRangeEvent(epsilon="1e-3") * 10**6], "1e-30"),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_give_answers(name):
    events, delta = EXTREMES[name]
    g = compose(events)
    found = g.epsilon(delta)
    assert math.isfinite(found.upper)
    assert 0 <= found.lower <= found.upper
    # No mechanism attains the pair of bounded ranges: its ends are those of a mechanism and of a theorem.
    assert found.upper - found.lower <= (0.02 if name == "range" else 1e-7) * found.upper
    # The curve and its inverse agree. δ itself may be known less well: its relative error is that of ε times εc.
    back = g.delta(found.upper)
    assert back.lower <= float(Fraction(delta)) * (1 + 1e-12)


def test_a_deep_delta_of_a_large_composition_is_certified_or_wide_but_never_wrong():
    g = compose([GaussianEvent(sigma="0.01") * 10, LaplaceEvent(scale=1) * 10**6])
    found = g.delta(10**6)
    assert 0 <= found.lower <= found.upper <= 1


def test_currencies():
    g = compose([GaussianEvent(sigma=2) * 16])
    assert g.gdp() == 2.0
    assert g.zcdp() == 2.0
    assert 6.0 <= g.renyi(3) <= math.nextafter(6.0, 7)
    assert g.gdp(delta="1e-6") == pytest.approx(2.0, rel=1e-9)
    with pytest.raises(InvalidValueError, match="delta"):
        compose([LaplaceEvent(scale=1)]).gdp(delta=0)
    pure = compose([RandomizedResponseEvent(epsilon=1)])
    # The Gaussian with the same total variation: tanh(ε/2) = 2Φ(μ/2) − 1.
    assert math.erf(pure.gdp() / 2 / math.sqrt(2)) == pytest.approx(math.tanh(0.5), rel=1e-12)
    assert compose([GaussianEvent(sigma=1 / Fraction(pure.gdp()))]).delta(0).upper >= pure.delta(0).lower
    assert pure.zcdp() == pytest.approx(math.tanh(0.5))
    assert compose([BoundedRangeEvent(epsilon=1)]).zcdp() == 0.125
    with pytest.raises(DescriptionError, match="zcdp"):
        compose([DiscreteGaussianEvent(sigma=1)]).gdp()
    with pytest.raises(DescriptionError):
        compose([ZCDPEvent(rho=1)]).gdp()
    assert compose([RenyiEvent(points=[(10, 1)])]).zcdp() == math.inf


def test_groups():
    assert compose([LaplaceEvent(scale=6)]).group(3) == compose([LaplaceEvent(scale=6, sensitivity=3)])
    assert compose([GaussianEvent(sigma=6) * 4]).group(3) == compose([GaussianEvent(sigma=2) * 4])
    assert compose([ZCDPEvent(rho=1)]).group(3) == compose([ZCDPEvent(rho=9)])
    boxes = compose([ApproximateDPEvent(epsilon=1, delta="1e-9")])
    assert boxes.group(5).delta(5).upper == pytest.approx(85.79e-9, rel=1e-4)
    with pytest.raises(DescriptionError):
        compose([RenyiEvent(points=[(10, 1)])]).group(2)
    # Sound against the black-box formula applied to the single-unit curve.
    g = compose([LaplaceEvent(scale=5) * 3, GaussianEvent(sigma=3)])
    for e in (0.1, 0.3, 0.6):
        black_box = g.delta(e).upper * math.expm1(3 * e) / math.expm1(e)
        assert g.group(3).delta(3 * e).lower <= black_box * (1 + 1e-9)


def test_weaker_descriptions_mix_soundly():
    lap = LaplaceEvent(scale=2) * 5
    exact = compose([lap, GaussianEvent(sigma_squared=5)]).epsilon("1e-6")
    weak = compose([lap, ZCDPEvent(rho="0.1")]).epsilon("1e-6")
    assert weak.lower <= exact.upper
    assert weak.upper >= exact.upper
    points = compose([lap, RenyiEvent(points=[(a, Fraction(a, 10)) for a in range(2, 40)])]).epsilon("1e-6")
    assert points.upper >= exact.upper
    assert points.upper == pytest.approx(weak.upper, rel=0.02)


def test_exponential_mechanisms_chosen_beforehand_only_alone():
    fixed, free = BoundedRangeEvent(epsilon="0.1", mode="nonadaptive"), BoundedRangeEvent(epsilon="0.1")
    assert compose([fixed] * 50).epsilon("1e-6").upper == pytest.approx(1.5337, rel=1e-4)
    assert compose([free] * 50).epsilon("1e-6").upper == pytest.approx(1.65998, rel=1e-4)  # by ε²/8
    g = GaussianEvent(sigma=3)
    assert_near(compose([fixed, g]).epsilon("1e-6"), compose([free, g]).epsilon("1e-6"))
    two = compose([fixed * 3, BoundedRangeEvent(epsilon="0.2", mode="nonadaptive")]).epsilon("1e-6")
    assert_near(two, compose([free * 3, BoundedRangeEvent(epsilon="0.2")]).epsilon("1e-6"))


def test_repr_shows_significant_digits():
    assert repr(compose([GaussianEvent(sigma=10**6)])) == "<Guarantee of 1 step: ε=3.73...e-06 at δ=1e-6>".replace(
        "3.73...e-06", f"{compose([GaussianEvent(sigma=10**6)]).epsilon(1e-6):.6g}"
    )


def test_curve_and_chart():
    g = compose(MIX)
    curve = g.curve(points=12)
    assert [d.upper for _, d in curve] == sorted((d.upper for _, d in curve), reverse=True)
    svg = g.plot(compose([GaussianEvent(sigma=1)]), names=["mix", "one"]).svg
    assert re.findall('class="line s.*?<title>(.*?)</title>', svg) == ["mix", "one"]


@pytest.mark.parametrize("epsilon", ["0.05", "0.2", "0.3", "0.5", "5"])
def test_a_delta_below_every_float_is_still_positive(epsilon):
    """ln δ of one discrete Gaussian step of σ = 1000 falls like -ε²σ²/2, far below what a float holds."""
    guarantee = compose([DiscreteGaussianEvent(sigma=1000)])
    assert guarantee.delta(epsilon).upper > 0
    for direction in guarantee._directions:
        found = direction.log_delta(float(epsilon))
        assert found.lower <= found.upper
        assert abs(found.upper / (-((float(epsilon) * 1000) ** 2) / 2) - 1) < 0.05
