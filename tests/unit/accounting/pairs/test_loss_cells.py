"""Cells of a pair's loss have the pair's moment."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
import pytest

from hush.accounting.pairs.gaussian import DiscreteGaussianPair
from hush.accounting.pairs.hyperbolic import BoundedRangePair, LaplacePair
from hush.accounting.pairs.poisson import PoissonGaussianPair, PoissonLaplacePair
from hush.core.rounding import precision

PAIRS = [
    (PoissonGaussianPair(rate=Fraction(1, 50), mu_squared=Fraction(9, 4)), False),
    (PoissonGaussianPair(rate=Fraction(1, 50), mu_squared=Fraction(9, 4)), True),
    (PoissonLaplacePair(rate=Fraction(1, 50), epsilon=Fraction(2)), False),
    (PoissonLaplacePair(rate=Fraction(1, 50), epsilon=Fraction(2)), True),
    (LaplacePair(epsilon=Fraction(3, 2)), False),
    (BoundedRangePair(epsilon=Fraction(3, 2)), False),
    (DiscreteGaussianPair(sigma_squared=Fraction(10**8), sensitivity=3000), False),
]


@pytest.mark.parametrize(("pair", "reverse"), PAIRS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("c", [0.3, 4.0, 40.0])
def test_cells_have_the_pair_s_moment(pair: object, reverse: bool, c: float) -> None:
    """The sum of e^{ln p + cm} is M(c), from below, to within the cells' width; that of their q is no more than 1."""
    width = 1e-3 / (c + 1)
    found = pair.cells(c, width, reverse=reverse)  # type: ignore[arg-type]
    assert found is not None
    assert found.width <= width
    peak = float(found.logs.max())
    log = peak + math.log(float(np.exp(found.logs - peak).sum()))
    with precision(128):
        truth = float(pair.moment(flint.acb(-1 - c if reverse else c)).real.log())  # type: ignore[attr-defined]
    assert truth - 0.5 * (c * (c + 1)) * width**2 - 1e-11 <= log <= truth + 1e-11
    still = found.logs - (c + 1) * found.losses
    assert float(np.exp(still).sum()) <= 1 + 1e-11
