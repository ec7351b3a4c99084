"""Mechanisms of bounded range fixed in advance."""

import math
from fractions import Fraction

from hush.accounting.profile.bounded_range import MAX_STEPS, range_delta


def test_bounded_ranges_are_asked_on_the_safe_side_of_an_epsilon_that_is_no_float() -> None:
    # The float nearest to 1/10 lies above it, and has a smaller δ: the one below it answers.
    found, below, nearest = (
        range_delta(Fraction(1, 1000), MAX_STEPS + 1, epsilon).upper
        for epsilon in (Fraction(1, 10), Fraction(math.nextafter(0.1, 0.0)), Fraction(0.1))
    )
    assert found == below > nearest
