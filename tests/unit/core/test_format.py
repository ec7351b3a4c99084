"""How figures are written: significant digits as Python writes them, one spelling of powers of ten, nothing lost."""

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.format import decimal, figure


def unpadded(text):
    """Python writes 1e-09; we write 1e-9."""
    return re.sub(r"e([+-])0+", r"e\1", text)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 15))
def test_figures_have_the_digits_of_python_s_own_format(value, digits):
    assert figure(value, digits=digits) == unpadded(f"{value:.{digits}g}").replace("-0", "0" if value == 0 else "-0")


@given(st.fractions(Fraction(1, 10**300), 10**300))
def test_six_digits_are_within_half_a_unit_of_the_last(value):
    assert abs(Fraction(figure(value)) - value) <= value * Fraction(1, 200_000)


@given(st.fractions())
def test_an_exact_decimal_reads_back_as_itself(value):
    assert Fraction(decimal(value)) == value


@pytest.mark.parametrize(("value", "text"), [
    (Fraction(0), "0"),
    (Fraction(-1, 4), "-0.25"),
    (Fraction(1, 10**4), "0.0001"),
    (Fraction(1, 10**5), "1e-5"),
    (Fraction(125, 10**12), "1.25e-10"),
    (Fraction(10**20), "1" + "0" * 20),
    (Fraction(2, 7), "2/7"),
    (Fraction(1, 10**60), "1/1" + "0" * 60),
])  # fmt: skip
def test_decimals(value, text):
    assert decimal(value) == text


@pytest.mark.parametrize(("value", "text"), [
    (Fraction(12345678, 10**8), "0.12345678"),
    (Fraction(1, 3), "0.333333"),
    (Fraction(1, 10**9), "1e-9"),
    (Fraction(1234567890123456789, 10**18), "1.23457"),
    (Fraction(40), "40"),
])  # fmt: skip
def test_a_short_decimal_is_shown_in_full_where_asked_for(value, text):
    assert figure(value, exact=True) == text


def test_what_is_no_finite_number():
    assert [figure(value) for value in (math.inf, -math.inf, math.nan)] == ["∞", "-∞", "nan"]


def test_a_number_that_rounds_up_to_the_next_power_of_ten():
    assert figure(Fraction(9999999, 10**7)) == "1"
    assert figure(Fraction(9999999, 10)) == "1e+6"
