"""Estimators: total on every input, priced, with errors that hold; post-processing."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import hush.mechanisms as h
from hush.core import HushError, InvalidValueError
from hush.mechanisms.estimators.numeric import spread, spread_interval

SURE = 10**6
NASTY = [
    [], [math.nan], [None], [math.inf, -math.inf], [1e308, -1e308], [2**70], [-0.0], ["text", 3], [True, False],
    [Fraction(1, 3), Decimal(2), math.inf, 10**400, pd.NA], np.array([2**63 - 1]), [[1, 2], [3]], np.array(2.0),
]  # fmt: skip
CALLS = {
    "count": lambda d, **k: h.count(d, epsilon=1, **k),
    "sum": lambda d, **k: h.sum(d, bounds=(-2, 5), epsilon=1, **k),
    "gaussian sum": lambda d, **k: h.sum(d, bounds=(-2, 5), epsilon=1, delta="1e-6", method="gaussian", step=1, **k),
    "mean": lambda d, **k: h.mean(d, bounds=(-2, 5), epsilon=1, **k),
    "clipped mean": lambda d, **k: h.mean(d, epsilon=1, method="clipped", **k),
    "median of means": lambda d, **k: h.mean(
        d, bounds=(-2, 5), epsilon=1, delta="1e-6", method="median-of-means", eta=1, **k
    ),
    "variance": lambda d, **k: h.variance(d, bounds=(-2, 5), epsilon=1, **k),
    "median": lambda d, **k: h.median(d, bounds=(-2, 5), epsilon=1, **k),
    "unbounded median": lambda d, **k: h.median(d, epsilon=1, **k),
    "smooth median": lambda d, **k: h.median(d, bounds=(-2, 5), epsilon=1, method="smooth", **k),
    "ptr median": lambda d, **k: h.median(d, epsilon=1, delta="1e-6", method="propose-test-release", eta=1, **k),
    "quantiles": lambda d, **k: h.quantiles(d, q=["0.1", "0.9"], bounds=(-2, 5), epsilon=1, **k),
    "min": lambda d, **k: h.min(d, bounds=(-2, 5), epsilon=1, **k),
    "max": lambda d, **k: h.max(d, bounds=(-2, 5), epsilon=1, **k),
    "ratio": lambda d, **k: h.ratio(d, d, epsilon=1, **k),
    "histogram": lambda d, **k: h.histogram(d, bins=[-2, 0, 5], epsilon=1, **k),
    "mode": lambda d, **k: h.mode(d, categories=[1, 2, 3], epsilon=1, **k),
    "top_k": lambda d, **k: h.top_k(d, k=2, categories=3, epsilon=1, **k),
}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("name", CALLS)
def test_no_row_makes_an_estimator_fail(name, neighbours):
    for data in NASTY:
        column = data if isinstance(data, np.ndarray) else np.array(data, dtype=object)
        found = CALLS[name](column, neighbours=neighbours)
        assert found.event.pure_epsilon() >= 0
        found.error(0.9)
        repr(found)


@pytest.mark.parametrize(
    "column", [pd.Series([1.0, 3.0, math.nan]), pl.Series([1.0, 3.0, None]), pa.array([1.0, 3.0, None])]
)
def test_columns_of_every_library(column):
    assert h.count(column, epsilon=SURE).value == 2
    assert h.sum(column, bounds=(0, 4), epsilon=SURE).value == pytest.approx(4, abs=1e-3)
    assert float(h.mean(column, bounds=(0, 4), epsilon=SURE, method="bounded")) == pytest.approx(2, abs=1e-3)
    assert h.median(column, bounds=(0, 4), epsilon=SURE).value == pytest.approx(2, abs=1.1)


def test_counting_booleans_with_missing_ones():
    for column in (pd.array([True, False, None]), pl.Series([True, False, None]), pa.array([True, False, None])):
        assert h.count(column, epsilon=SURE).value == 1
    assert h.count([True, True, False], epsilon=SURE).value == 2
    assert h.count([0, 1, math.nan], epsilon=SURE).value == 2


def test_values_with_much_budget():
    data = np.array([1, 2, 2, 3, 10])
    assert h.sum(data, bounds=(0, 5), epsilon=SURE).value == pytest.approx(13, abs=1e-3)
    assert h.sum(data, bounds=(0, 5), epsilon=SURE, step=1).value == 13
    assert float(h.mean(data, bounds=(0, 10), epsilon=SURE)) == pytest.approx(3.6, abs=1e-3)
    assert float(h.mean(data, bounds=(0, 10), epsilon=SURE, neighbours="replace")) == pytest.approx(3.6, abs=1e-3)
    assert float(h.variance(data, bounds=(0, 10), epsilon=SURE)) == pytest.approx(data.var(), abs=1e-2)
    assert h.median(data, bounds=(0, 10), epsilon=SURE).value == 2
    assert h.quantiles(data, q=["0.2", "0.9"], bounds=(0, 10), epsilon=SURE).value.tolist() == pytest.approx(
        [1.5, 10], abs=0.51
    )
    assert h.ratio([1, 1, 0, 0], [1, 1, 1, 0], epsilon=SURE).value == pytest.approx(2 / 3)
    assert h.top_k(["a", "b", "b", "c"], k=1, categories=["a", "b", "c"], epsilon=SURE).value == ["b"]
    assert h.histogram(data, categories=4, epsilon=SURE).value.tolist() == [0, 1, 2, 1]
    assert h.histogram(
        data, categories=4, epsilon=1, delta="1e-3", neighbours="replace", method="gaussian"
    ).value.shape == (4,)


def test_the_mean_of_salaries_with_public_n():
    salaries = np.full(1000, 40_000)
    found = h.mean(salaries, bounds=(0, 100_000), epsilon=1, neighbours="replace")
    assert found.error(0.95) == pytest.approx(100 * math.log(20), rel=0.01)  # (M/n)·ln 20
    assert found.event.pure_epsilon() == pytest.approx(1)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("k", "method"), [(3, "laplace"), (40, "gaussian")])
def test_means_of_many_coordinates(k, method, neighbours):
    data = np.tile(np.linspace(0, 10, k), (3000, 1))
    found = h.vector_mean(data, bounds=(0, 10), epsilon=1, delta="1e-6", neighbours=neighbours)
    assert found.method == method
    assert np.abs(found.value - np.linspace(0, 10, k)).max() <= found.error(1 - Fraction(1, 10**6)) + 1e-3
    for nasty in (np.full((2, 3), np.nan), np.zeros((0, 3)), np.array([[math.inf, -math.inf]])):
        h.vector_mean(nasty, bounds=(0, 1), epsilon=1, neighbours=neighbours).error(0.9)
    with pytest.raises(InvalidValueError):
        h.vector_mean([1, 2], bounds=(0, 1), epsilon=1)


def test_prices():
    data = np.arange(100.0)
    assert h.mean(data, bounds=(0, 100), epsilon=1).event.pure_epsilon() == pytest.approx(1)
    assert h.quantiles(data, q=["0.1", "0.5", "0.9"], bounds=(0, 100), epsilon=1).event.pure_epsilon() == pytest.approx(
        1
    )
    assert h.top_k(data, k=3, categories=5, epsilon=1).event.pure_epsilon() == pytest.approx(1)
    refused = h.median(data, epsilon=1, delta="1e-6", method="propose-test-release", eta="0.001")
    assert refused.refused
    assert refused.event.total().epsilon == 1
    assert "Refused" in repr(refused)


@pytest.mark.parametrize("call", [
    lambda: h.max([1], epsilon=1), lambda: h.sum([1], epsilon=1), lambda: h.variance([1], epsilon=1),
    lambda: h.sum([1], bounds=(5, 5), epsilon=1), lambda: h.sum([1], bounds=(5, 1), epsilon=1),
    lambda: h.sum([1], bounds=(0, math.inf), epsilon=1), lambda: h.sum([1], bounds=(0, 1), epsilon=0),
    lambda: h.median([1], bounds=(0, 1), epsilon=1, method="magic"), lambda: h.mean([1], epsilon=1, method="magic"),
    lambda: h.sum(np.ones(10), bounds=(0, 1), epsilon=1, delta="0.1", method="gaussian", neighbours="replace"),
    lambda: h.count([1], epsilon=1, neighbours="sideways"), lambda: h.ratio([1], [1, 0], epsilon=1),
    lambda: h.histogram([1], epsilon=1), lambda: h.histogram([1], bins=[1], epsilon=1),
    lambda: h.histogram([1], bins=[2, 1], epsilon=1),
    lambda: h.mode([1], categories=[1, 1], epsilon=1), lambda: h.quantile([1], q=2, bounds=(0, 1), epsilon=1),
    lambda: h.quantiles([1], q=[], epsilon=1), lambda: h.quantiles([1], q=["0.9", "0.1"], epsilon=1),
    lambda: h.median([1], epsilon=1, method="propose-test-release"),
    lambda: h.sum(np.array(["a"]), bounds=(0, 1), epsilon=1),
    lambda: h.median([1], epsilon=1, method="smooth"),
])  # fmt: skip
def test_bad_input_is_refused_clearly(call):
    with pytest.raises(HushError):
        call()


def test_a_delta_of_one_in_n_is_refused_and_another_proposed():
    with pytest.raises(InvalidValueError, match=r"1/10.*take 0.07"):
        h.sum(np.ones(10), bounds=(0, 1), epsilon=1, delta="0.1", method="gaussian", neighbours="replace")


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 1000), min_size=3, max_size=3),
    st.floats(0, 100),
    st.lists(st.floats(-1, 1), min_size=3, max_size=3),
)
def test_the_interval_of_a_variance_holds_every_variance(parts, error, moves):
    low, high = spread_interval(parts, error)
    inside = spread(*(max(p + error * m, 0.0) for p, m in zip(parts, moves, strict=True)))
    assert low - 1e-9 <= inside <= high + 1e-9


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_mean_and_ratio_intervals_hold_as_often_as_they_say(share):
    """Between 95 % and 97.5 % of 1500 are allowed for: false alarm below 1e-6, with the rounding of small counts."""
    rows = np.arange(1000) < 1000 * share
    calls = {
        "mean": lambda: h.mean(rows * 100.0, bounds=(0, 100), epsilon="0.5"),
        "ratio": lambda: h.ratio(rows, np.ones(1000, bool), epsilon="0.2"),
    }
    for name, call in calls.items():
        truth = share * (100 if name == "mean" else 1)
        hits = sum(abs(e.value - truth) <= e.error(Fraction(19, 20)) for e in (call() for _ in range(1500)))
        assert binom.ppf(1e-7, 1500, 0.95) <= hits <= binom.isf(1e-7, 1500, 0.975), name


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=30), st.floats(0, 500))
def test_projection_onto_the_simplex(values, goal):
    out = h.nonnegative(values, total=goal)
    assert out.min() >= 0
    assert out.sum() == pytest.approx(goal, abs=1e-6)
    clipped = np.maximum(values, 0)
    if abs(clipped.sum() - goal) < 1e-9:
        assert np.square(out - values).sum() <= np.square(clipped - values).sum() + 1e-6


def test_post_processing():
    assert h.average([10, 14], variances=[1, 3]) == (11.0, 0.75)
    assert h.rounded([1.2, 2.7]).tolist() == [1, 3]
    with pytest.raises(InvalidValueError):
        h.average([1], variances=[1, 2])
    with pytest.raises(InvalidValueError):
        h.nonnegative([1], total=-1)
    assert h.propose_delta(1000) == Fraction(1, 2000)


def test_a_row_of_a_list_does_not_change_how_the_others_are_read():
    flags = [True, False] * 50
    for row, counts in ((5, 1), (2.5, 1), ("x", 0), (None, 0), (math.nan, 0), ([1], 0), (np.False_, 0)):
        assert h.count([*flags, row], epsilon=10**6).value == 50 + counts
    # The grid, and with it the type of the answer, must not tell whole numbers from one fraction among them.
    for rows in ([1, 2, 3], [1, 2, 2.5], [1, 2, None], [1, 2, "x"], [1, 2, 2**60]):
        assert h.sum(rows, bounds=(0, 10), epsilon=10**9).event == h.sum([], bounds=(0, 10), epsilon=10**9).event
        assert isinstance(h.sum(rows, bounds=(0, 10), epsilon=1).value, float)
    assert h.count(np.array([np.True_, np.False_, None], dtype=object), epsilon=10**6).value == 1
    assert h.vector_mean([[1, 2], [3, "x"]], bounds=(0, 10), epsilon=10**4).value.round(1).tolist() == [2, 3.5]


def test_a_decimal_too_long_to_write_is_a_large_number():
    rows = [Decimal("1e999999999"), Decimal("-1e999999999"), Decimal("1e-999999999"), "1e999999999"]
    assert h.count(rows, epsilon=10**6).value == 3
    assert h.sum(rows, bounds=(-1, 2), epsilon=10**9).value == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("reach", [2**63 - 1, 2**62])
def test_the_widest_integers_do_not_wrap_round(reach):
    found = h.mean(np.full(100, reach), bounds=(-reach, reach), epsilon=10**3, method="bounded")
    assert float(found) == pytest.approx(reach, rel=1e-3)
    spread = h.variance(np.array([reach, -reach] * 50), bounds=(-reach, reach), epsilon=10**3, step=1)
    assert float(spread) == pytest.approx(float(reach) ** 2, rel=0.01)
    with pytest.raises(HushError):  # by the bounds, whatever the rows
        h.median([], bounds=(-reach, reach), step=1, epsilon=1, method="smooth")


def test_propose_test_release_spends_the_delta_asked_for():
    found = h.median(np.arange(9), epsilon=1, delta="1e-6", method="propose-test-release", noise="gaussian", eta=1)
    total = found.event.total()
    assert total.epsilon == 1
    assert Fraction(99, 10**8) < total.delta <= Fraction(1, 10**6)


def test_the_error_of_a_clipped_mean_says_so():
    rows = np.random.default_rng(1).normal(50, 1, 1000)
    assert "of the clipped mean" in repr(h.mean(rows, bounds=(-1000, 1000), epsilon=1))
    assert h.mean(rows, bounds=(40, 60), epsilon=1).unit == "value"


def test_messages_do_not_quote_private_lengths():
    with pytest.raises(HushError) as refused:
        h.ratio([True] * 123, [True] * 124, epsilon=1)
    assert "12" not in str(refused.value)


def test_the_price_of_a_clipped_mean_does_not_depend_on_what_was_found():
    rows = np.arange(1000)
    events = {
        h.mean(part, bounds=(-(10**6), 10**6), epsilon=1).event for part in (rows, rows % 3, rows * 900, rows[:0])
    }
    assert len(events) == 1
    assert events.pop().pure_epsilon() == 1


def test_a_matrix_is_no_column():
    """A unit's row of two values would count as two, at the price of one."""
    for call in (CALLS["count"], CALLS["sum"], CALLS["mean"], lambda d: h.histogram(d, categories=3, epsilon=1)):
        for matrix in (np.zeros((4, 2)), pd.DataFrame({"a": [1, 2], "b": [0, 1]})):
            with pytest.raises(HushError):
                call(matrix)


WHOLE = {
    "sum": lambda d, **k: h.sum(d, bounds=(0, 10), epsilon=1, **k),
    "sum of steps": lambda d, **k: h.sum(d, bounds=(0, 10), epsilon=1, step=1, **k),
    "mean": lambda d, **k: h.mean(d, bounds=(0, 10), epsilon=1, method="bounded", **k),
    "variance": lambda d, **k: h.variance(d, bounds=(0, 10), epsilon=1, **k),
    "median": lambda d, **k: h.median(d, bounds=(0, 10), epsilon=1, **k),
    "smooth median": lambda d, **k: h.median(d, bounds=(0, 10), epsilon=1, method="smooth", **k),
    "max": lambda d, **k: h.max(d, bounds=(0, 10), epsilon=1, **k),
}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("name", WHOLE)
def test_the_type_of_a_column_changes_nothing(name, neighbours):
    """One missing row makes floats of whole numbers; the grid and the kind of answer must not tell."""
    rows = [1, 2, 2, 3, 9]
    columns = [
        np.array(rows), np.array(rows, dtype=np.uint8), np.array(rows, dtype=np.float32), rows, pd.Series(rows),
        pd.Series([1, 2, 2, None, 9]), pd.array([1, 2, None, 3, 9]), pl.Series([1, 2, 2, None, 9]), pa.array(rows),
        pa.array([1, 2, 2, 3, None]), np.ma.array(rows, mask=[0, 0, 1, 0, 0]),
    ]  # fmt: skip
    found = [WHOLE[name](column, neighbours=neighbours) for column in columns]
    assert len({estimate.event for estimate in found}) == 1
    assert len({type(estimate.value) for estimate in found}) == 1
    if name == "sum of steps":
        assert isinstance(found[0].value, int)


def test_a_coarse_step_is_the_grid_of_answers_and_its_rounding_is_in_the_error():
    data = np.full(1000, 0.4)
    for neighbours in ("add-remove", "replace"):
        total = h.sum(data, bounds=(0, 10), epsilon=10**6, step=5, neighbours=neighbours)
        assert total.value % 5 == 0
        assert abs(total.value - 400) <= total.error(0.999999)
        odd = h.sum(data[:931], bounds=(0, 10), epsilon=10**6, step=5, neighbours=neighbours)  # 372.4
        assert 2.5 <= odd.error(0.5) < 5.1
        assert abs(odd.value - 372.4) <= odd.error(0.999999)
        for call in (h.mean, h.variance):
            for step in (5, "0.3", None):
                found = call(np.tile([0.4, 9.9], 500), bounds=(0, 10), epsilon=10**4, step=step, neighbours=neighbours)
                truth = 5.15 if call is h.mean else 4.75**2
                assert abs(float(found) - truth) <= found.error(1 - Fraction(1, 10**7))
    many = h.vector_mean(np.full((1000, 2), 0.4), bounds=(0, 10), epsilon=100, step=5)
    assert np.abs(many.value - 0.4).max() <= many.error(1 - Fraction(1, 10**7))
    middle = h.median(
        np.repeat([0.4, 2.2, 2.3], 500), bounds=(0, 10), epsilon=100, step=5, delta="1e-6",
        method="propose-test-release", eta=1,
    )  # fmt: skip
    assert middle.value in {0, 5}
    assert abs(middle.value - 2.2) <= middle.error(1 - Fraction(1, 10**7))


def test_what_is_masked_is_missing():
    for kind in (float, int, bool, object):
        rows = np.ma.array(np.array([1, 0, 1, 1], dtype=kind), mask=[False, False, True, True])
        assert h.sum(rows, bounds=(0, 5), epsilon=SURE, step=1).value == 1
        assert h.count(rows, epsilon=SURE).value == (1 if kind is bool else 2)
        assert h.histogram(rows, categories=2, epsilon=SURE).value.tolist() == [1, 1]
        assert h.histogram(rows, bins=[0, 1, 2], epsilon=SURE).value.tolist() == [1, 1]


def test_std_is_the_root_of_the_variance():
    data = np.arange(1001) / 10
    estimate = h.std(data, bounds=(0, 100), epsilon=SURE)
    assert estimate.value == pytest.approx(data.std(), abs=0.01)
    assert abs(estimate.value - data.std()) <= estimate.error()


def test_a_number_of_bins_needs_public_bounds():
    assert h.histogram([0, 1, 2, 3, 4], bins=2, bounds=(0, 4), epsilon=SURE).value.tolist() == [2, 3]
    with pytest.raises(HushError, match="bounds"):
        h.histogram([1], bins=3, epsilon=1)
    with pytest.raises(HushError, match="bounds"):
        h.histogram([1], bins=[0, 1], bounds=(0, 1), epsilon=1)
