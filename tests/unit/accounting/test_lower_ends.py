"""A lower end is only what is proved: no theorem that bounds a composition from above may lie below it."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PermuteAndFlipEvent,
    RandomizedResponseEvent,
    RenyiEvent,
    ZCDPEvent,
    compose,
)


def by_zcdp(rho: float, epsilon: float) -> float:
    """Return δ(ε) by ρ-zCDP: the least over orders of e^{(α-1)(αρ - ε)}·(1 - 1/α)^α/(α - 1) (Canonne et al. 2020)."""
    orders = [1 + 10 ** (at / 200) for at in range(-600, 1200)]
    return min(
        math.exp(min((a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a) - math.log(a - 1), 0.0)) for a in orders
    )


@pytest.mark.parametrize("mode", ["adaptive", "nonadaptive"])
@pytest.mark.parametrize(
    ("count", "width"),
    [
        (1, "1"),
        (2, "0.5"),
        (10, "0.3"),
        (100, "0.05"),
        (2486, "0.001"),
        (3001, "0.002"),
        (10**5, "1e-3"),
    ],
)
def test_bounded_ranges(mode: str, count: int, width: str) -> None:
    """A mechanism of range ε is ε²/8-zCDP and ε-DP, whoever chooses the next (Cesar, Rogers 2021)."""
    guarantee = compose(BoundedRangeEvent(epsilon=width, mode=mode) * count)
    rho = count * float(width) ** 2 / 8
    for factor in (0.25, 1, 2, 4, 6):
        epsilon = Fraction(factor * math.sqrt(2 * rho)).limit_denominator(10**6)
        delta = guarantee.delta(epsilon)
        assert delta.lower <= delta.upper <= by_zcdp(rho, float(epsilon)) * (1 + 1e-9)
        if mode == "adaptive" and 1e-200 < delta.upper < 1:
            back = guarantee.epsilon(Fraction(delta.upper))
            assert back.lower <= float(epsilon) * (1 + 1e-6) + 1e-7
            assert back.upper >= back.lower
    assert guarantee.delta(count * Fraction(width)).upper <= 1e-300


def test_the_figure_that_was_wrong() -> None:
    delta = compose(BoundedRangeEvent(epsilon="0.001") * 2486).delta("0.1")
    assert delta.upper <= 7.49e-7
    assert 1e-7 < delta.lower < delta.upper
    fixed = compose(BoundedRangeEvent(epsilon="0.001", mode="nonadaptive") * 2486).delta("0.1")
    assert delta.lower <= fixed.upper  # whoever may choose may also not
    assert fixed.lower <= delta.upper


@pytest.mark.parametrize(
    "other", [LaplaceEvent(scale=5) * 3, GaussianEvent(sigma=20), ApproximateDPEvent(epsilon="0.1", delta="1e-9")]
)
@pytest.mark.parametrize("mode", ["adaptive", "nonadaptive"])
def test_bounded_ranges_beside_others(mode: str, other) -> None:
    """The lower end stays below what randomized responses of half the range, which are such mechanisms, may cost."""
    ranges = compose(BoundedRangeEvent(epsilon="0.02", mode=mode) * 300) + other
    pure = compose(RandomizedResponseEvent(epsilon="0.01") * 300) + other
    for epsilon in ("0.1", "0.5", "1"):
        assert pure.delta(epsilon, strict=False).lower <= ranges.delta(epsilon).upper
        assert ranges.delta(epsilon).lower <= pure.delta(epsilon, strict=False).upper * (1 + 1e-9)
    assert ranges.epsilon("1e-6").lower <= pure.epsilon("1e-6", strict=False).upper * (1 + 1e-6)


STEPS = {
    "pure": (RandomizedResponseEvent(epsilon="0.1"), 0.1 * math.tanh(0.05)),
    "flip": (PermuteAndFlipEvent(epsilon="0.1"), 0.1 * math.tanh(0.05)),
    "gaussian": (GaussianEvent(sigma=10), 1 / 200),
    "zcdp": (ZCDPEvent(rho="0.005"), 0.005),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("count", [1, 30, 1000])
def test_other_kinds_lie_below_their_divergence_too(name: str, count: int) -> None:
    event, rho = STEPS[name]
    guarantee = compose(event * count)
    for factor in (0.5, 1.5, 3, 5):
        epsilon = Fraction(factor * math.sqrt(2 * rho * count)).limit_denominator(10**6)
        assert guarantee.delta(epsilon).lower <= by_zcdp(rho * count, float(epsilon)) * (1 + 1e-9)


@pytest.mark.parametrize("alpha", ["2", "8", "40"])
def test_renyi_points_lie_below_their_own_conversion(alpha: str) -> None:
    event = RenyiEvent(points=[(alpha, "0.01")])
    guarantee = compose(event * 20)
    order, loss = float(alpha), 0.2
    for epsilon in ("0.3", "1", "3"):
        log = (order - 1) * (loss - float(epsilon)) + order * math.log1p(-1 / order) - math.log(order - 1)
        assert guarantee.delta(epsilon).lower <= math.exp(min(log, 0.0)) * (1 + 1e-9)
