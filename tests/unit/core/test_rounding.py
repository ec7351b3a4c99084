"""Directed rounding and balls: every figure lies on the side that its name says."""

import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core import PrecisionError
from hush.core.rounding import (
    Bound,
    ball,
    certified,
    decimal_unit,
    down,
    enclosure,
    flint,
    float_down,
    float_up,
    fraction_down,
    fraction_up,
    precision,
    short_down,
    short_up,
    up,
)

FRACTIONS = st.fractions(max_denominator=10**40)
POSITIVE = st.fractions(Fraction(1, 10**30), 10**30)


@given(FRACTIONS)
def test_floats_are_the_nearest_on_their_side(value):
    low, high = float_down(value), float_up(value)
    assert Fraction(low) <= value <= Fraction(high)
    assert high in {low, math.nextafter(low, math.inf)}


def test_a_rational_beyond_every_float_goes_to_its_own_side():
    assert float_up(Fraction(10) ** 400) == math.inf
    assert float_down(Fraction(10) ** 400) == 1.7976931348623157e308


@given(FRACTIONS, st.sampled_from([53, 64, 300]))
def test_a_ball_and_all_its_ends_enclose_the_rational(value, bits):
    with precision(bits):
        around = ball(value)
        assert fraction_down(around) <= value <= fraction_up(around)
        assert Fraction(down(around)) <= fraction_down(around)
        assert fraction_up(around) <= Fraction(up(around))


def test_the_precision_is_put_back_even_after_an_error():
    before = flint().ctx.prec
    with pytest.raises(ZeroDivisionError), precision(999):
        1 / 0  # noqa: B018
    assert flint().ctx.prec == before


@given(POSITIVE, st.integers(1, 15))
def test_short_decimals_are_the_nearest_on_their_side(value, digits):
    unit = decimal_unit(value, digits=digits)
    low, high = short_down(value, digits=digits), short_up(value, digits=digits)
    assert low <= value <= high
    assert high - low in {0, unit}
    assert 10 ** (digits - 1) <= value / unit < 10**digits


def test_a_figure_that_no_precision_certifies_is_refused():
    with pytest.raises(PrecisionError):
        certified(lambda: flint().arb(1, 1))
    with pytest.raises(PrecisionError):
        short_up(Fraction(0))


def test_a_bound_is_its_upper_end_and_keeps_both_through_a_pickle():
    third = enclosure(certified(lambda: ball(Fraction(1, 3))))
    assert Fraction(third.lower) < Fraction(1, 3) < Fraction(third.upper)
    copy = pickle.loads(pickle.dumps(third))
    assert isinstance(copy, Bound)
    assert (copy.lower, copy.upper) == (third.lower, third.upper)
    assert Bound(lower=2.0, upper=1.0).lower == 1.0
