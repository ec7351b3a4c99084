"""Rounding to the grid: exact, total, and never further apart than the sensitivity allows."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core import InvalidValueError
from hush.core.grid import add, as_array, on_grid, whole_step, whole_steps

STEPS = [Fraction(1), Fraction(1, 4), Fraction(1, 100), Fraction(3), Fraction(7, 3), Fraction(1, 2**40)]


@given(st.floats(-1e9, 1e9), st.floats(0, 100), st.sampled_from(STEPS[:5]))
def test_rounding_never_widens_a_gap_beyond_its_ceiling(x, gap, step):
    y = float(np.float64(x) + gap)
    steps = -(-abs(Fraction(y) - Fraction(x)) // step)
    assert abs(whole_step(y, step) - whole_step(x, step)) <= steps


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20), st.sampled_from(STEPS))
def test_the_fast_path_agrees_with_rationals(values, step):
    array = np.array(values)
    assert whole_steps(array, step).tolist() == [whole_step(value, step) for value in values]


@pytest.mark.parametrize("value", [0.49999999999999994, 0.5, -0.5, 1.5, 2.5, 0.015, 1e300, -0.0, 2.0**53])
def test_awkward_floats(value):
    for step in (Fraction(1), Fraction(1, 100), Fraction(1, 3)):
        assert whole_steps(np.array([value]), step)[0] == (Fraction(value) / step + Fraction(1, 2)).__floor__()


def test_half_to_even_would_break_the_bound():
    assert [round(Fraction(1, 2)), round(Fraction(3, 2))] == [0, 2]  # one apart, and two apart once rounded
    assert whole_steps(np.array([0.5, 1.5]), Fraction(1)).tolist() == [1, 2]


def test_what_is_no_number_counts_as_missing():
    strange = np.array(
        [None, "text", object(), float("nan"), Decimal("NaN"), Decimal("2.5"), Fraction(7, 2)], dtype=object
    )
    assert whole_steps(strange, Fraction(1)).tolist() == [0, 0, 0, 0, 0, 3, 4]


def test_nothing_wraps_round():
    huge = np.array([2**63 - 1, -(2**63)], dtype=np.int64)
    assert whole_steps(huge, Fraction(1, 4)).tolist() == [4 * (2**63 - 1), -4 * 2**63]
    assert add(huge, np.array([5, -5])).tolist() == [2**63 + 4, -(2**63) - 5]
    assert whole_steps(np.array([2**64 - 1], dtype=np.uint64), Fraction(1)).tolist() == [2**64 - 1]
    assert on_grid(np.array([2**62]), Fraction(8)).tolist() == [2**65]


def test_long_doubles_and_small_floats_are_numbers():
    assert as_array(np.array([1.5, np.inf], dtype=np.longdouble)).dtype == np.float64
    assert whole_steps(as_array(np.array([1.5, 2.5], dtype=np.longdouble)), Fraction(1, 2)).tolist() == [3, 5]
    assert whole_steps(np.array([1.5], dtype=np.float16), Fraction(1, 2)).tolist() == [3]


@pytest.mark.parametrize("bad", [["a"], [[1], [2, 3]], np.array(["2020-01-01"], dtype="datetime64[D]"), np.array([1j])])
def test_types_are_refused_by_type(bad):
    with pytest.raises(InvalidValueError):
        as_array(bad)
