"""Noise of all groups together: its scale and price for what neighbours change, and half-widths of several noises."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from hush.accounting import ApproximateDPEvent, ComposedEvent, DiscreteLaplaceEvent, ZCDPEvent, compose
from hush.mechanisms.grouped import (
    Contribution,
    GroupedGaussian,
    GroupedLaplace,
    GroupedMode,
    GroupedQuantile,
    sum_error,
    zcdp_budget,
)

DRAWS = 200_000


@pytest.mark.parametrize(("groups", "units"), [(1, 1), (3, 1), (1, 2), (3, 2)])
def test_noise_is_as_wide_as_neighbours_differ_and_is_charged_so(groups: int, units: int) -> None:
    """A unit changes each of its groups by 4; one that is replaced twice that, or twice as many groups."""
    contribution, rho = Contribution(groups=groups, units=units), Fraction(1, 7)
    laplace = GroupedLaplace.for_epsilon(Fraction(1, 2), sensitivity=4, contribution=contribution)
    assert laplace.scale == groups * units * 4 * 2
    assert laplace.epsilon == Fraction(1, 2)
    single = DiscreteLaplaceEvent(scale=laplace.scale, sensitivity=4)
    many = single if groups == 1 else ComposedEvent(parts=[(single, groups)])
    assert laplace.event == (many if units == 1 else ApproximateDPEvent(epsilon=Fraction(1, 2)))
    gaussian = GroupedGaussian.for_rho(rho, sensitivity=4, contribution=contribution)
    squared = groups * (units * 4) ** 2
    assert rho * (1 - Fraction(1, 10**9)) <= Fraction(squared) / (2 * gaussian.sigma**2) <= rho
    if groups * units > 1:
        assert gaussian.event == ZCDPEvent(rho=Fraction(squared) / (2 * gaussian.sigma**2))
    for fraction, moved in ((Fraction(1, 2), 1), (Fraction(1, 4), 3), (Fraction(9, 10), 9)):
        quantile = GroupedQuantile(fraction=fraction, points=9, epsilon=Fraction(1), contribution=contribution)
        assert quantile.span == 2 * moved  # one row moves a score by the larger of a and b - a, either way
        assert quantile.rate == Fraction(1, quantile.span * groups * units)
    mode = GroupedMode(values=9, epsilon=Fraction(1), rows=5, contribution=contribution)
    assert mode.rate == Fraction(1, 5 * groups * units)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.01", "1e-10"), ("5", "1e-3"), ("20", "1e-9")])
def test_a_divergence_stays_within_its_epsilon_and_delta(epsilon: str, delta: str) -> None:
    rho = zcdp_budget(Fraction(epsilon), Fraction(delta))
    assert 0.99 * float(epsilon) < compose([ZCDPEvent(rho=rho)]).epsilon(delta) <= float(epsilon)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
@pytest.mark.parametrize(
    "parts",
    [
        ((1, 10), (1, 10)),
        ((1, 10), (1, 10), (-1, 10)),
        ((Fraction(1, 1000), 5000), (Fraction(1, 1000), 5000), (Fraction(-1, 1000), 5000)),
        ((Fraction(1, 3), Fraction(1, 2)), (Fraction(1, 3), Fraction(1, 2)), (Fraction(1, 3), Fraction(1, 2))),
        ((2, 300), (5, 100), (5, 100), (5, 100)),
        ((1, 300), (5, 100), (5, 100), (Fraction(1, 7), 9000)),
        ((Fraction(1, 100), 10**6), (2500, 10)),
        ((Fraction(1, 100), 10**5), (2500, Fraction(1, 5))),
        ((1, Fraction(1, 3)), (-60, Fraction(1, 3))),
        ((3, 5000), (1, 9000)),
    ],
)
def test_the_least_width_of_laplace_noises(parts, confidence: float) -> None:
    """No more draws lie strictly inside than the confidence says, and no fewer inside or at the edge: 1e-7 each."""
    parts = [(Fraction(factor), GroupedLaplace(scale=Fraction(scale))) for factor, scale in parts]
    width = float(sum_error(parts, confidence))
    draws = np.abs(sum(float(factor) * law.draw(DRAWS).astype(float) for factor, law in parts))
    slack = 4e-3  # what the points summed over leave out: 3e-3 where the widest noise has the widest steps
    within, strictly = np.count_nonzero(draws <= width * (1 + 1e-9)), np.count_nonzero(draws < width * (1 - 1e-9))
    assert within >= binom.ppf(1e-7, DRAWS, confidence - slack)
    assert strictly <= binom.isf(1e-7, DRAWS, confidence + slack)


def test_two_gaussians_are_one() -> None:
    parts = [
        (Fraction(3), GroupedGaussian(sigma=Fraction(1000))),
        (Fraction(-4), GroupedGaussian(sigma=Fraction(1000))),
    ]
    assert float(sum_error(parts, 0.95)) == pytest.approx(1.959964 * 5000 + 3.5)


def test_what_counts_for_nothing_is_left_out() -> None:
    law = GroupedLaplace(scale=Fraction(10))
    assert sum_error([(Fraction(2), law), (Fraction(0), law)], 0.95) == 2 * law.error(0.95)


@pytest.mark.parametrize("size", [1, 40, 401])
@pytest.mark.parametrize("spread", ["1/50", "1/2", "3", "40", "99", "1000", "123456789/7"])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_imagined_noise_has_the_quantiles_of_its_law(kind: str, spread: str, size: int) -> None:
    """The i-th of n in order has at most (i + 1/2)/n of the law below it, and at least as much up to it."""
    law = GroupedLaplace(scale=Fraction(spread)) if kind == "laplace" else GroupedGaussian(sigma=Fraction(spread))
    drawn = np.sort(law.imagine(size))
    assert np.array_equal(drawn, np.rint(drawn))
    assert np.array_equal(drawn, -drawn[::-1])
    for at, value in enumerate(drawn[size // 2 :].astype(int).tolist(), start=size // 2):
        share = abs((2 * at + 1) / size - 1)
        assert law.within(value) >= share - 1e-4 * (float(Fraction(spread)) > 100) - 1e-9
        assert value == 0 or law.within(value - 1) <= share + 1e-4 * (float(Fraction(spread)) > 100) + 1e-9


def test_imagined_noises_have_orders_of_their_own() -> None:
    """Two orders of 400 correlate by less than 0.3: six standard deviations, false alarm below 1e-8."""
    law = GroupedLaplace(scale=Fraction(10))
    first, second = law.imagine(400), law.imagine(400)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.3
