"""Exact numbers: what a person writes is what is meant, and nothing else gets in."""

import contextlib
import sys
from dataclasses import FrozenInstanceError, dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core import (
    HushError,
    InvalidValueError,
    exact,
    fraction_between,
    integer,
    nonnegative,
    positive,
    probability,
)
from hush.core.numbers import assign

TENTHS = [
    "0.1",
    ".1",
    "1e-1",
    "+0.10",
    " 0.1 ",
    "1/10",
    " 1 / 10 ",
    0.1,
    Decimal("0.1"),
    Decimal("1E-1"),
    Fraction(1, 10),
]
NUMPY_TENTHS = [np.float16(0.1), np.float32(0.1), np.float64(0.1), np.longdouble("0.1"), np.str_("0.1")]


@pytest.mark.parametrize("value", TENTHS + NUMPY_TENTHS, ids=repr)
def test_a_tenth_is_a_tenth(value):
    assert exact(value, "x") == Fraction(1, 10)


REFUSED = [
    True,
    False,
    np.True_,
    None,
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "Infinity",
    "0x10",
    "1_000",
    "１",
    "٣",
    "1,5",
    "1e",
    "e5",
    ".",
    "1/0",
    "0/0",
    "1/-3",
    "1//3",
    "1e999999999",
    "1e-999999999",
    "1e5001",
    "9" * 100_000,
    "9" * 4500,
    "1/" + "9" * 4500,
    "1\x00",
    b"1",
    float("nan"),
    float("inf"),
    float("-inf"),
    np.float32("nan"),
    np.float64("inf"),
    np.longdouble("nan"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("1e999999"),
    Decimal("0." + "1" * 4500),
    1j,
    [1],
    (1,),
    {},
    object(),
    np.array(3),
    np.array([1.5]),
    np.timedelta64(3, "D"),
    np.timedelta64("NaT", "D"),
    np.datetime64(0, "s"),
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_no_number_is_refused_with_an_error_of_the_tree(value):
    with pytest.raises(
        InvalidValueError, match=r"^The 'epsilon' parameter must be a finite number\. Got .* instead\.$"
    ) as e:
        exact(value, "epsilon")
    assert e.value.parameter == "epsilon"
    assert len(str(e.value)) < 200


def test_the_interpreters_own_limit_on_digits_is_no_crash():
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with pytest.raises(InvalidValueError):
            exact("7" * 1000, "x")
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64])
def test_numpy_integers_become_python_integers(kind):
    """A Fraction of NumPy integers wraps: int8(100) squared is 16, so a σ of 100 would have become one of 4."""
    for number in (exact(kind(100), "x"), exact(Fraction(kind(100)), "x")):
        assert type(number.numerator) is int
        assert type(number.denominator) is int
        assert number**40 == 100**40
    assert type(integer(kind(100), "n")) is int


def test_print_options_do_not_change_a_number():
    before = np.get_printoptions()["legacy"]
    np.set_printoptions(legacy="1.13")
    try:
        assert float(exact(np.float64(1 / 3), "x")) == 1 / 3
        assert np.float32(float(exact(np.float32(1 / 3), "x"))) == np.float32(1 / 3)
    finally:
        np.set_printoptions(legacy=before)


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_reads_back(value):
    number = exact(value, "x")
    assert float(number) == value
    assert number == Fraction(repr(value)) == exact(np.float64(value), "x") == exact(repr(value), "x")


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_float32_reads_back(value):
    assert np.float32(float(exact(np.float32(value), "x"))) == np.float32(value)


@settings(deadline=None)
@given(st.fractions())
def test_fractions_pass_unchanged(value):
    assert exact(value, "x") == exact(f"{value.numerator}/{value.denominator}", "x") == value


@settings(deadline=None)
@given(st.text(max_size=12) | st.text("0123456789+-./eE_ ", max_size=12))
def test_any_text_is_a_number_or_an_error_of_the_tree(text):
    with contextlib.suppress(HushError):
        assert isinstance(exact(text, "x"), Fraction)


@pytest.mark.parametrize(
    ("check", "inside", "outside"),
    [
        (positive, ["5e-324", 1, "1e4000"], [0, -0.0, "-1", "-1e-4000"]),
        (nonnegative, [0, -0.0, "1e-4000"], ["-1e-4000", -1]),
        (probability, [0, 1, "1/3"], ["-1e-4000", 1 + Fraction(1, 10**50), 2]),
        (fraction_between, ["1e-4000", 1 - Fraction(1, 10**50)], [0, 1, -1, 2]),
    ],
)
def test_limits_are_exact(check, inside, outside):
    for value in inside:
        assert check(value, "p") == exact(value, "p")
    for value in outside:
        with pytest.raises(InvalidValueError, match="'p'"):
            check(value, "p")


@pytest.mark.parametrize(
    "value", [3.0, "3", True, np.True_, None, Fraction(3), Decimal(3), np.timedelta64(3, "D"), np.float64(3)]
)
def test_whole_numbers_are_integers_only(value):
    with pytest.raises(InvalidValueError, match="'n' parameter must be a whole number of at least 1 and at most 9"):
        integer(value, "n", minimum=1, maximum=9)


def test_whole_numbers_have_limits():
    assert integer(np.uint64(2**64 - 1), "n") == 2**64 - 1
    for value in (0, 10):
        with pytest.raises(InvalidValueError):
            integer(value, "n", minimum=1, maximum=9)
    with pytest.raises(InvalidValueError, match="of at most 9"):
        integer(10, "n", maximum=9)


@dataclass(frozen=True, slots=True)
class Doubled:
    number: int

    def __post_init__(self) -> None:
        assign(self, number=2 * self.number)


def test_fields_of_frozen_values_are_set_where_a_value_is_made_and_nowhere_else() -> None:
    value = Doubled(3)
    assert value.number == 6
    with pytest.raises(FrozenInstanceError):
        value.number = 7  # type: ignore[misc]
