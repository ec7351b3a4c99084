"""The expansion in double precision: residues against their series, and against a closed form."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest

from hush.accounting.pairs import LaplacePair
from hush.accounting.profile.closed_forms import FloatExpansion, residues
from hush.core.rounding import ball, precision

BITS = 256


def laplace_profile(e: object, x: object) -> object:
    """Return δ of Laplace noise at any real x, as the larger of the two formulas."""
    return (-((x - e) / 2).expm1()).max(-x.expm1()).max(0) if x < e else flint.arb(0)


def test_residues_match_their_series() -> None:
    """r_j is 2^{j+1} times a Poisson probability of one parity."""
    y = np.array([0.0, 1e-9, 0.3, 2.0, 7.9, 8.1, 30.0, 79.9, 80.1, 200.0, 3000.0])
    found = residues(y, 24)
    for j in range(25):
        for place, value in zip(y, found[j + 1], strict=True):
            with precision(BITS):
                v = ball(float(place)) / 2
                term, total = (-v).exp(), flint.arb(0)
                for r in range(4000):
                    if r >= j + 1 and (r - j) % 2:
                        total += term
                    term = term * v / (r + 1)
                truth = float(total * 2 ** (j + 1))
            assert value == pytest.approx(truth, rel=3e-14, abs=0)


def test_residues_are_the_laplace_profile() -> None:
    """One Laplace step: the expansion is the closed form, also at negative arguments."""
    rest = FloatExpansion({LaplacePair(epsilon=Fraction(7, 10)): 1}, 1000)
    x = np.array([-5.0, -0.7, -0.2, 0.0, 0.5, 0.69999, 0.7, 3.0])
    value, error = rest.profile(x, 0.0)
    with precision(BITS):
        truth = np.array([float(laplace_profile(ball(Fraction(7, 10)), ball(float(t)))) for t in x])
    assert np.all(np.abs(value - truth) <= error + 1e-300)
    assert np.all(error <= 1e-12)
