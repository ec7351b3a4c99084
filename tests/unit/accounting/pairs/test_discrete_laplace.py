"""Discrete Laplace noise: profile and moment against the sums that they are."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from hush.accounting.pairs.hyperbolic import DiscreteLaplacePair
from hush.core.rounding import ball, flint, precision


def test_discrete_laplace_closed_form_against_its_sum() -> None:
    """The profile is a sum over Δ + 1 losses."""
    for a, delta in ((Fraction(3, 10), 3), (Fraction(1, 7), 5), (Fraction(2), 2), (Fraction(1, 100), 40)):
        pair = DiscreteLaplacePair(parameter=a, sensitivity=delta)
        r = math.exp(-a)
        atoms = [
            (float(a * (2 * x - delta)), math.exp(-a * (delta - x)) / (1 + r) * (1 if x in {0, delta} else 1 - r))
            for x in range(delta + 1)
        ]
        for at in (-0.9, -0.31, 0.0, 0.17, 0.313, 0.55):
            with precision(128):
                profile = float(pair.profile(ball(at)).mid())
            assert profile == pytest.approx(sum(m * max(0.0, -math.expm1(at - l)) for l, m in atoms), abs=1e-14)


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
