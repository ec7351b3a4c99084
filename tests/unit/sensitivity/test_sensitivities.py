"""Sensitivities against brute force, and β-smoothness between neighbours."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core import HushError, InvalidValueError
from hush.sensitivity import FiniteFunction, distance, global_sensitivity, local_sensitivity, smooth_sensitivity
from hush.sensitivity.statistics import _halving as halving
from hush.sensitivity.statistics import instability, local_gap, padded, rank, smooth_gap

UNIVERSE = [0, 1, 3, 7]
RELATIONS = ["add-remove", "replace"]


def order_statistic(q):
    return lambda d: (0, *d)[rank(len(d), q)]


def dense(lower_rows, upper_rows, b):
    """Return the largest ln(gap) - b·k over all pairs of a row below and a row above."""
    with np.errstate(divide="ignore"):
        values = np.log((upper_rows[None, :] - lower_rows[:, None]).astype(np.float64))
    k = np.arange(len(lower_rows))[:, None] + np.arange(len(upper_rows))[None, :] - 1
    return float((values - b * np.maximum(k, 0)).max())


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("statistic", "function"), [
    ("sum", sum), ("median", order_statistic(Fraction(1, 2))), ("max", lambda d: max(d, default=0)),
    ("mean", lambda d: Fraction(sum(d), len(d)) if d else Fraction(7, 2)),
])  # fmt: skip
def test_local_and_global_bound_brute_force(neighbours, statistic, function):
    size = 4
    oracle = FiniteFunction(function, universe=UNIVERSE, size=size, neighbours=neighbours)
    given_ = {"bounds": (0, 7), "neighbours": neighbours}
    assert oracle.global_sensitivity() <= global_sensitivity(statistic, size=size, **given_)
    for data in oracle.data_sets():
        if len(data) < size or neighbours == "replace":
            assert oracle.local_sensitivity(data) <= local_sensitivity(statistic, data, step=1, **given_)


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)])
def test_smooth_sensitivity_of_quantiles_is_exact_under_replace(q):
    oracle = FiniteFunction(order_statistic(q), universe=range(8), size=4, neighbours="replace")
    for data in list(oracle.data_sets())[::7]:
        x = np.array(data)
        assert oracle.local_sensitivity(data) == local_gap(x, rank(4, q), 0, 7)
        exact = oracle.smooth_sensitivity(data, 0.7)
        assert exact <= float(smooth_gap(x, rank(4, q), 0, 7, "0.7")) <= exact * (1 + 1e-6)


rows = st.lists(st.integers(0, 1000), max_size=30)


@settings(max_examples=150, deadline=None)
@given(rows, st.integers(0, 1000), st.data(), st.sampled_from([Fraction(1, 2), Fraction(1, 3), Fraction(1)]))
def test_beta_smoothness_between_neighbours(data, row, choice, q):
    beta = choice.draw(st.sampled_from(["0.01", "0.2", "1.5"]))
    neighbour = [*data, row]
    if data and choice.draw(st.booleans()):
        neighbour = [row, *data[1:]]
    bounds = [
        smooth_gap(np.sort(np.array(d, dtype=np.int64)), rank(len(d), q), 0, 1000, beta) for d in (data, neighbour)
    ]
    assert max(bounds) <= min(bounds) * Fraction(math.exp(float(beta))) * (1 + Fraction(1, 10**12))
    # and each bounds the change itself
    values = [padded(np.sort(np.array(d, dtype=np.int64)), 0, 1000)[rank(len(d), q)] for d in (data, neighbour)]
    assert abs(int(values[0]) - int(values[1])) <= min(bounds)


@settings(max_examples=100, deadline=None)
@given(rows, st.integers(0, 1000), st.booleans(), st.integers(0, 300))
def test_the_distance_to_instability_is_lipschitz(data, row, replace, eta):
    neighbour = [row, *data[1:]] if replace and data else [*data, row]
    found = [
        instability(np.sort(np.array(d, dtype=np.int64)), rank(len(d), Fraction(1, 2)), eta) for d in (data, neighbour)
    ]
    assert abs(found[0] - found[1]) <= 1
    medians = [
        padded(np.sort(np.array(d, dtype=np.int64)), -(10**6), 10**6)[rank(len(d), Fraction(1, 2))]
        for d in (data, neighbour)
    ]
    if abs(int(medians[0]) - int(medians[1])) > eta:
        assert found == [0, 0]


def test_the_distance_against_brute_force():
    oracle = FiniteFunction(
        order_statistic(Fraction(1, 2)), universe=[-100, 0, 2, 5, 100], size=5, neighbours="replace"
    )
    for data in list(oracle.data_sets())[::3]:
        brute = oracle.distance_to_instability(data, 4)
        assert instability(np.array(data), 3, 4) == brute


@settings(max_examples=60, deadline=None)
@given(rows, st.sampled_from([0.003, 0.1, 2.0]), st.integers(0, 10))
def test_halving_agrees_with_looking_everywhere(data, beta, tenth):
    x = np.sort(np.array(data, dtype=np.int64))
    m = rank(len(x), Fraction(tenth, 10))
    full = padded(x, 0, 1000)
    assert halving(full[m::-1], full[m:], beta) == pytest.approx(dense(full[m::-1], full[m:], beta))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.sampled_from(RELATIONS),
    st.sampled_from(["mean", "ratio", "sum"]),
)
def test_other_smooth_bounds_are_smooth(flags, neighbours, statistic):
    data = [(f, True) for f in flags] if statistic == "ratio" else [7 * f for f in flags]
    other = (False, True) if statistic == "ratio" else 3
    near = [other, *data[1:]] if neighbours == "replace" else [*data, other]
    arguments = {} if statistic == "ratio" else {"bounds": (0, 7), "step": 1}
    a, b = (smooth_sensitivity(statistic, d, beta="0.3", neighbours=neighbours, **arguments) for d in (data, near))
    assert max(a, b) <= min(a, b) * Fraction(math.exp(0.3)) * (1 + Fraction(1, 10**12))
    assert a >= local_sensitivity(statistic, data, neighbours=neighbours, **arguments)


def test_vectors_histograms_and_no_bounds():
    assert global_sensitivity("histogram") == 1
    assert global_sensitivity("histogram", neighbours="replace") == 2
    assert float(global_sensitivity("histogram", neighbours="replace", norm="l2")) == pytest.approx(math.sqrt(2))
    assert global_sensitivity("mean", bounds=(0, 10), size=5, neighbours="replace", dimension=9, norm="l2") == 6
    for statistic in ("sum", "mean", "max", "median"):
        assert global_sensitivity(statistic) == math.inf
    for bad in ({"statistic": "skewness"}, {"statistic": "sum", "bounds": (1, 1)}, {"statistic": "sum", "norm": "l3"}):
        with pytest.raises(InvalidValueError):
            global_sensitivity(**bad)
    with pytest.raises(InvalidValueError):
        distance("cosine")
    with pytest.raises(InvalidValueError):
        smooth_sensitivity("median", [1], beta=0, bounds=(0, 1))
    with pytest.raises(InvalidValueError):
        FiniteFunction(sum, universe=range(100), size=10)


def test_missing_rows_of_any_kind_are_left_out():
    rows = [1.0, 2.0, 4.0]
    found = [
        smooth_sensitivity("mean", [*rows, *more], bounds=(0, 10), beta="0.1")
        for more in ([], [math.nan] * 9, [math.nan] * 9 + [None], ["x"])
    ]
    assert len(set(found)) == 1


CORNERS = [(0, 0), (0, 3), (3, 0), (3, 3), (1, 2)]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_rows_of_several_numbers_against_brute_force(statistic, norm, neighbours):
    """Exact where no data set is empty, the mean of which is anything; and β-smooth between all neighbours."""

    def function(rows):
        total = [sum(column) for column in zip(*rows, strict=True)] or [0, 0]
        return total if statistic == "sum" else [Fraction(t, max(len(rows), 1)) for t in total]

    oracle = FiniteFunction(function, universe=CORNERS, size=4, neighbours=neighbours, metric=norm)
    options = {"bounds": (0, 3), "neighbours": neighbours, "norm": norm, "step": 1}
    smooth = {}
    for data in oracle.data_sets():
        rows = np.array(data, dtype=object).reshape(len(data), 2)
        found = float(local_sensitivity(statistic, rows, **options))
        smooth[data] = float(smooth_sensitivity(statistic, rows, beta="0.3", **options))
        truth = float(oracle.local_sensitivity(data))
        assert smooth[data] >= found * (1 - 1e-12) >= truth * (1 - 1e-9)
        if neighbours == "replace" or (2 <= len(data) <= 3 and statistic == "mean"):
            assert found == pytest.approx(truth, rel=1e-9)
    for here, bound in smooth.items():
        assert all(bound <= math.exp(0.3) * smooth[near] * (1 + 1e-12) for near in oracle.around(here))


def test_bad_rows_of_several_numbers():
    for data in ([[1, 2], [3]], [["a", object()], [1]], np.zeros((2, 0)), np.zeros((2, 2, 2))):
        with pytest.raises(HushError):
            local_sensitivity("mean", data, bounds=(0, 3))
    assert local_sensitivity("mean", [[None, "x"], [math.inf, math.nan]], bounds=(0, 3)) > 0
    with pytest.raises(HushError):
        local_sensitivity("mean", [[1, 2]], bounds=(0, 3), norm="l3")
    for data in ([1, 2, 3], ["a"], None):
        with pytest.raises(HushError):
            local_sensitivity("ratio", data)
