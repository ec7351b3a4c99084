"""Searches on short decimals: the answer is the nearest decimal on its side, and a question without one ends."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core import PrecisionError
from hush.core.rounding import largest_decimal, smallest_decimal


@given(st.fractions(Fraction(1, 10**9), 10**9), st.integers(1, 14))
def test_decimals_are_the_nearest_on_their_side(edge, digits):
    low = largest_decimal(lambda x: x <= edge, digits=digits)
    high = smallest_decimal(lambda x: x >= edge, digits=digits)
    assert low <= edge <= high
    assert high - low <= low * Fraction(10) ** (1 - digits)


def test_a_question_without_an_answer_ends():
    with pytest.raises(PrecisionError):
        largest_decimal(lambda _: True, digits=3)
