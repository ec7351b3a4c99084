"""The expansion by residues, and the closed form: one step's profile from both."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from hush.accounting.description import Description
from hush.accounting.pairs.hyperbolic import BoundedRangePair, DiscreteLaplacePair, LaplacePair, ResponsePair
from hush.accounting.profile.closed_forms import ClosedForm, Expansion
from hush.accounting.profile.direction import Direction
from hush.core.rounding import ball, down, precision, up


@pytest.mark.parametrize("share", [0, 0.3, 0.99])
@pytest.mark.parametrize(
    "pair",
    [
        LaplacePair(epsilon=Fraction(7, 10)),
        ResponsePair(epsilon=Fraction(3, 2), others=3),
        BoundedRangePair(epsilon=Fraction(2)),
        DiscreteLaplacePair(parameter=Fraction(1, 3), sensitivity=4),
    ],
    ids=lambda pair: type(pair).__name__,
)
def test_the_expansion_of_one_step_is_its_profile(pair, share):
    direction = Direction(Description.of(pair), reverse=False)
    epsilon = share * direction.largest
    with precision(256):
        truth = pair.profile(ball(epsilon)).log()
    for method in (Expansion, ClosedForm):
        ends = method(direction.cumulant, largest=direction.largest).log_delta(epsilon)
        assert ends.lower <= up(truth)
        assert down(truth) <= ends.upper
        assert math.isclose(ends.lower, ends.upper, rel_tol=1e-12, abs_tol=1e-14)
