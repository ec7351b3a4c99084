"""The public grid: total, exact, and blind to the company a row keeps."""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core import Grid, InvalidValueError, OffGridError

STEPS = ["0.01", "1", "1/3", "0.1", "1e-300", "5e-324", "1e300", "7", "1/1024", "1e-4000"]


def ideal(value: float, step: Fraction, low: Fraction, high: Fraction) -> int:
    """Clamp and round in rationals, with nothing clever."""
    first, last = math.ceil(low / step), math.floor(high / step)
    if math.isinf(value):
        return last if value > 0 else first
    return min(max(round(Fraction(value) / step), first), last)


@settings(deadline=None)
@given(
    st.lists(st.floats(allow_nan=False) | st.integers(-400, 400).map(lambda k: k / 200), min_size=1, max_size=8),
    st.sampled_from(STEPS),
    st.floats(-1e12, 1e12),
    st.floats(0, 1e12),
)
def test_arrays_lists_and_objects_round_alike_and_exactly(values, step, low, width):
    grid = Grid(step)
    lower, upper = Fraction(str(low)), Fraction(str(low)) + Fraction(str(width))
    if math.ceil(lower / grid.step) > math.floor(upper / grid.step):
        with pytest.raises(InvalidValueError, match="'step'"):
            grid.integers(values, lower=lower, upper=upper)
        return
    expected = [ideal(value, grid.step, lower, upper) for value in values]
    for given_as in (np.array(values), values, tuple(values), np.array(values, dtype=object)):
        assert grid.integers(given_as, lower=lower, upper=upper).tolist() == expected


@settings(deadline=None)
@given(st.integers(-(2**40), 2**40), st.sampled_from(["0.01", "1/3", "0.1", "7", "1/1024", "0.3"]), st.integers(-2, 2))
def test_next_to_a_tie_the_float_path_is_still_exact(k, step, ulps):
    grid = Grid(step)
    value = float((k + Fraction(1, 2)) * grid.step)
    for _ in range(abs(ulps)):
        value = math.nextafter(value, math.copysign(math.inf, ulps))
    bound = 2**48 * grid.step
    assert grid.integers(np.array([value]), lower=-bound, upper=bound)[0] == round(Fraction(value) / grid.step)


HOSTILE = [
    (float("nan"), 2),
    (None, 2),
    (Decimal("NaN"), 2),
    (Decimal("sNaN"), 2),
    (np.float16("nan"), 2),
    ("abc", 2),
    ("", 2),
    (object(), 2),
    ([1], 2),
    ({}, 2),
    (1j, 2),
    (dt.date(2020, 1, 1), 2),
    (np.datetime64("NaT", "D"), 2),
    (b"3", 2),
    (float("inf"), 9),
    (float("-inf"), -5),
    (Decimal("Infinity"), 9),
    (Decimal("-Infinity"), -5),
    (np.longdouble("inf"), 9),
    (Decimal("1e999999999"), 9),
    (Decimal("-1e999999999"), -5),
    (Decimal("1e-999999999"), 0),
    (Decimal("-0E+999999"), 0),
    (Decimal("0.5"), 0),
    (Decimal("1.5"), 2),
    (2**63, 9),
    (-(2**70), -5),
    (2**64 - 1, 9),
    (-0.0, 0),
    (5e-324, 0),
    (1e308, 9),
    (np.int8(-128), -5),
    (np.uint64(2**64 - 1), 9),
    (np.int64(3), 3),
    (np.float32(2.5), 2),
    (np.longdouble("3.25"), 3),
    (Fraction(7, 2), 4),
    ("3.5", 4),
    ("1e999999999", 2),
    (True, 1),
    (np.True_, 1),
]


@pytest.mark.parametrize(("value", "index"), HOSTILE, ids=lambda value: type(value).__name__)
def test_no_row_makes_it_fail(value, index):
    assert Grid(1).integers([value, 4], lower=-5, upper=9, missing=2).tolist() == [index, 4]


def test_a_row_whose_comparisons_raise_is_missing():
    class Rude:
        def __ne__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None

    assert Grid(1).integers([Rude()], lower=0, upper=5, missing=3).tolist() == [3]


def test_a_row_does_not_depend_on_its_company():
    """NumPy would make floats of [2⁵³+1, 0.5], and so one person's 0.5 would change another's value."""
    for company in (0.5, -1, None, "x", 2**64, Decimal(1)):
        for big in (2**53 + 1, 2**62 + 1, 2**63 + 1):
            assert Grid(1).integers([big, company], lower=-1, upper=2**70)[0] == big


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize(("lower", "upper"), [(-5, 9), (0, 300), (-(2**63), 2**63 - 1), (200, 10**6), (-(10**6), -200)])
def test_integers_of_every_width_clamp_without_wrapping(kind, lower, upper):
    limits = np.iinfo(kind)
    values = np.array([limits.min, limits.max, 3, 100], dtype=kind)
    expected = [min(max(int(value), lower), upper) for value in values]
    indices = Grid(1).integers(values, lower=lower, upper=upper)
    assert indices.tolist() == expected
    halves = Grid("1/2").integers(values, lower=lower, upper=upper)
    assert halves.tolist() == [2 * value for value in expected]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_floats_of_every_width(kind):
    values = np.array(["nan", "inf", "-inf", "-0.0", "2.5", "3.5", "1e4"], dtype=kind)
    assert Grid(1).integers(values, lower=-7, upper=20, missing=-3).tolist() == [-3, 20, -7, 0, 2, 4, 20]


def test_shapes_are_kept():
    grid = Grid("0.5")
    for shape in ((), (0,), (3,), (2, 0), (2, 2, 1)):
        for dtype in (np.float64, np.int64, object):
            values = np.zeros(shape, dtype=dtype)
            assert grid.integers(values, lower=0, upper=1).shape == shape
            assert grid.values(np.zeros(shape, dtype=np.int64)).shape == shape
    assert grid.integers(1.25, lower=0, upper=9).tolist() == 2


def test_bounds_are_never_exceeded():
    grid = Grid("0.3")
    indices = grid.integers([float("-inf"), float("inf"), None], lower="-1", upper="1")
    assert [grid.value(k) for k in indices.tolist()] == [Fraction("-0.9"), Fraction("0.9"), 0]
    assert Grid(1).integers([None], lower=3, upper=5).tolist() == [3]
    assert Grid(1).integers([None], lower=3, upper=5, missing=99).tolist() == [5]
    wide = Grid(1).integers([10**30, -(10**30)], lower=-(10**20), upper=10**20)
    assert wide.tolist() == [10**20, -(10**20)]


@settings(deadline=None)
@given(st.integers(-(2**70), 2**70), st.sampled_from(STEPS))
def test_values_are_the_nearest_floats(k, step):
    grid = Grid(step)
    product = k * grid.step
    try:
        nearest = product.numerator / product.denominator
    except OverflowError:
        nearest = math.copysign(math.inf, k)
    array = np.array([k], dtype=np.int64 if abs(k) < 2**63 else object)
    assert grid.values(array).tolist() == [nearest]
    assert grid.index(product) == k
    assert grid.round(product) == k


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint64])
def test_values_of_narrow_indices_do_not_wrap(kind):
    assert Grid(3).values(np.array([100], dtype=kind)).tolist() == [300.0]
    assert Grid("1e6").values(np.array([100], dtype=kind)).tolist() == [1e8]


@pytest.mark.parametrize("indices", [[1.5], ["3"], [None], [True], [float("nan")]])
def test_indices_are_whole_numbers(indices):
    with pytest.raises(InvalidValueError, match="'indices'"):
        Grid(1).values(np.array(indices, dtype=object))


@pytest.mark.parametrize("step", [0, "-1", float("nan"), float("inf"), None, "x", True, "0e5"])
def test_a_bad_step(step):
    with pytest.raises(InvalidValueError, match="The 'step' parameter must be a positive finite number"):
        Grid(step)


def test_off_the_grid():
    with pytest.raises(OffGridError, match=r"'price' parameter must be a multiple of the step 1/100.*nearest is 1/2\."):
        Grid("0.01").index("0.504", "price")
    with pytest.raises(OffGridError):
        Grid("1e-4100").index("1e-4110")


def test_bad_bounds():
    with pytest.raises(InvalidValueError, match="'upper' parameter must be at least the lower bound 2"):
        Grid(1).integers([1], lower=2, upper=1)
    with pytest.raises(InvalidValueError, match="'upper'"):
        Grid(1).integers([1], lower="1e4100", upper=1)
    with pytest.raises(InvalidValueError, match="'lower'"):
        Grid(1).integers([1], lower=float("nan"), upper=1)
    with pytest.raises(InvalidValueError, match=r"'step'.*between 1/4 and 1/2"):
        Grid(1).integers([1], lower="0.25", upper="0.5")


@settings(deadline=None)
@given(st.fractions(-(10**12), 10**12), st.fractions(0, 10**12))
def test_the_default_grid_has_about_a_billion_steps(lower, width):
    step = Grid.for_bounds(lower=lower, upper=lower + width).step
    scale = width or max(abs(lower), Fraction(1))
    assert 2**29 < scale / step <= 2**30
    assert (step.numerator & (step.numerator - 1)) == 0
    assert (step.denominator & (step.denominator - 1)) == 0
