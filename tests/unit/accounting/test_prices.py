"""Prices: sums over repeated events, the worse direction of neighbours, and limits without their reserve."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from hush.accounting import ApproximateDPEvent, ComposedEvent, LaplaceEvent, PoissonLaplaceEvent
from hush.accounting.filters import GDPFilter, RenyiFilter, ZCDPFilter
from hush.accounting.prices import gdp_price, pure_price, renyi_price, zcdp_price


@pytest.mark.parametrize("price", [pure_price, gdp_price, zcdp_price, lambda event: renyi_price(event, Fraction(4))])
def test_what_is_repeated_costs_as_often(price) -> None:
    single = ApproximateDPEvent(epsilon="0.1", delta="1e-9")
    loss, mass = price(single)
    many_losses, many_masses = price(ComposedEvent(parts=[(single, 5)]))
    assert float(many_losses) == pytest.approx(5 * float(loss))
    assert many_losses >= 5 * loss * (1 - Fraction(1, 2**40))
    assert (mass, many_masses) == (Fraction(1, 10**9), Fraction(5, 10**9))


def test_the_worse_direction_of_neighbours_is_the_price() -> None:
    """Of a sampled Laplace mechanism a unit that comes shows up to ln(1 + q(e^ε - 1)), one that goes less."""
    loss, _ = pure_price(PoissonLaplaceEvent(rate="0.1", scale=1, sensitivity=2))
    assert float(loss) == pytest.approx(math.log1p(0.1 * math.expm1(2)), rel=1e-12)


def test_a_pure_step_in_gaussian_terms() -> None:
    """Kairouz, Oh and Viswanath's randomized response at ε is as hard to tell as N(0, 1) and N(μ, 1)."""
    loss, _ = gdp_price(LaplaceEvent(scale=1))
    right = 0.5 * math.erfc(-math.sqrt(float(loss)) / 2 / math.sqrt(2))
    assert right == pytest.approx(math.e / (1 + math.e), rel=1e-12)


@pytest.mark.parametrize("kind", [RenyiFilter, ZCDPFilter, GDPFilter])
def test_what_is_reserved_for_masses_is_not_there_for_losses(kind) -> None:
    order = {"alpha": 20} if kind is RenyiFilter else {}
    half = kind.open(epsilon=1, delta="2e-6", reserve="1e-6", **order)
    assert half.limit == kind.open(epsilon=1, delta="1e-6", reserve=0, **order).limit
    assert half.limit < kind.open(epsilon=1, delta="2e-6", reserve=0, **order).limit
