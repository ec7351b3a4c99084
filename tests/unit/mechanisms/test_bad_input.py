"""Bad input: every estimator and mechanism against every kind of nonsense.

Either an error of hush's own, decided by types and parameters and never by what a row holds, or an answer.
"""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hush.mechanisms as h
from hush.core import HushError, InvalidValueError
from hush.local import LocalHashing, LocalMean, ProjectiveGeometry, SubsetSelection


class Odd:
    """An object that breaks whatever is done to it, and would tell a secret."""

    __hash__ = None

    def __array__(self, *_args, **_options):
        raise RuntimeError("secret")

    def __eq__(self, _other):
        raise RuntimeError("secret")


BOUNDED = {"bounds": (-2, 5), "epsilon": 1}
PTR = {"method": "propose-test-release", "eta": 1, "delta": "1e-6"}
ESTIMATORS = {
    "count": (h.count, {"epsilon": 1}),
    "sum": (h.sum, BOUNDED),
    "gaussian sum": (h.sum, BOUNDED | {"method": "gaussian", "delta": "1e-3"}),
    "mean": (h.mean, BOUNDED),
    "bounded mean": (h.mean, BOUNDED | {"method": "bounded"}),
    "clipped mean": (h.mean, {"epsilon": 1}),
    "median of means": (h.mean, BOUNDED | {"method": "median-of-means", "eta": 1, "delta": "1e-6"}),
    "variance": (h.variance, BOUNDED),
    "median": (h.median, BOUNDED),
    "smooth median": (h.median, BOUNDED | {"method": "smooth"}),
    "smooth laplace": (h.median, BOUNDED | {"method": "smooth", "noise": "laplace", "delta": "1e-6"}),
    "ptr median": (h.median, BOUNDED | PTR),
    "quantile": (h.quantile, BOUNDED | {"q": "0.3"}),
    "quantiles": (h.quantiles, BOUNDED | {"q": ["0.3", "0.5"]}),
    "min": (h.min, BOUNDED),
    "max": (h.max, BOUNDED),
    "ratio": (lambda data, **options: h.ratio(data, data, **options), {"epsilon": 1}),
    "histogram": (h.histogram, {"categories": 3, "epsilon": 1}),
    "histogram of names": (h.histogram, {"categories": ["a", 1], "epsilon": 1}),
    "gaussian histogram": (h.histogram, {"categories": 3, "epsilon": 1, "method": "gaussian", "delta": "1e-3"}),
    "histogram of bins": (h.histogram, {"bins": [0, 1, 2], "epsilon": 1}),
    "mode": (h.mode, {"categories": 3, "epsilon": 1}),
    "top_k": (h.top_k, {"k": 2, "categories": 3, "epsilon": 1}),
}
TOTAL = {  # columns of numbers, or of objects: answered whatever a row holds
    "nan": [math.nan], "infinities": [math.inf, -math.inf], "nothing": [], "None": [None], "words": ["a", "b"],
    "objects": np.array([1, "x", None, 2.5, object()], dtype=object), "masked": np.ma.array([1, 2], mask=[0, 1]),
    "booleans": np.array([True, False]), "huge": [10**400, -(10**400), 1], "fractions": [Fraction(1, 3)],
    "decimals": [Decimal(1), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")], "complex rows": [1j, 2],
    "0-d": np.array(2.0), "ragged": [[1, 2], [3]], "dates in a list": [dt.date(2020, 1, 1)],
    "pandas": pd.array([1, None]), "pandas words": pd.Series(["a", None]), "polars": pl.Series([1, None]),
    "arrow": pa.array([1, None]), "chunks": pa.chunked_array([[1], [2]]), "a row that breaks": [Odd()],
    "arrays as rows": [np.array([1, 2]), 3], "half floats": np.array([1.5, np.nan], dtype=np.float16),
    "long doubles": np.array([1.5, np.inf], dtype=np.longdouble), "zero": [-0.0], "unsigned": np.array([2**64 - 1]),
}  # fmt: skip
NO_COLUMN = {
    "a number": 3, "None": None, "a word": "abc", "bytes": b"abc", "a dict": {"a": 1}, "a set": {1, 2},
    "a generator": (i for i in range(3)), "an object": object(), "a breaking column": Odd(),
    "a matrix": np.zeros((2, 2)), "a frame": pd.DataFrame({"a": [1], "b": [2]}), "no rows": np.zeros((0, 2)),
}  # fmt: skip
NO_NUMBERS = {
    "words": np.array(["a"]), "complex": np.array([1j]), "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "polars words": pl.Series(["a"]), "records": np.array([(1, 2)], dtype=[("a", int), ("b", int)]),
}  # fmt: skip
COUNTS_NAMES = {"histogram", "histogram of names", "gaussian histogram", "mode", "top_k"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_any_row_is_taken_and_any_other_thing_refused(name, neighbours):
    call, options = ESTIMATORS[name]
    for data in TOTAL.values():
        found = call(data, neighbours=neighbours, **options)
        found.error(0.9)
        repr(found)
    for data in NO_COLUMN.values():
        with pytest.raises(InvalidValueError):
            call(data, neighbours=neighbours, **options)
    for data in NO_NUMBERS.values():
        if name in COUNTS_NAMES:
            call(data, neighbours=neighbours, **options)
        else:
            with pytest.raises(InvalidValueError):
                call(data, neighbours=neighbours, **options)


def test_matrices():
    for data in ([[1, 2], [math.nan, "x"]], np.zeros((0, 3)), [[Odd(), 1]], pd.DataFrame({"a": [1, None]}),
                 np.ma.array([[1, 2]], mask=[[0, 1]]), [[10**400, None]]):  # fmt: skip
        h.vector_mean(data, delta="1e-6", **BOUNDED).error(0.9)
    for data in (
        [],
        [1, 2],
        [[1, 2], [3]],
        np.zeros(3),
        np.zeros((3, 0)),
        "abc",
        None,
        [[]],
        np.array([["a"]]),
        [Odd()],
    ):
        with pytest.raises(InvalidValueError):
            h.vector_mean(data, delta="1e-6", **BOUNDED)


JUNK = [
    math.nan, math.inf, -math.inf, "abc", b"1", [], {}, object(), True, 1j, -1, "nan", np.array([1, 2]), Decimal("NaN"),
    "", (), "1/0", lambda: 0, Odd(),
]  # fmt: skip
EXTREME = [0, 10**400, "1e400", "1e-400"]
BOUNDS = [
    (5, 1), (1, 1), (math.nan, 1), (0, math.nan), (0, math.inf), (-math.inf, 0), ("a", "b"), (0,), (0, 1, 2), 5, "ab",
    {}, np.array([0, 1]), (None, None), (0, 1j), ([], []), (True, 2), {0, 1}, (-(10**400), 10**400), (0, "1e-400"),
]  # fmt: skip
NUMBERED = {
    "epsilon",
    "neighbours",
    "method",
    "noise",
    "delta",
    "eta",
    "k",
    "q",
    "categories",
    "bins",
    "step",
    "groups",
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_refuses_nonsense(name):
    call, options = ESTIMATORS[name]
    data = np.arange(10.0)
    extra = {"neighbours"}
    if "bounds" in options:
        extra |= {"step"}
    if name == "median of means":
        extra |= {"groups"}
    for parameter in (NUMBERED & options.keys()) | extra:
        for value in JUNK:
            if parameter == "bins" and isinstance(value, np.ndarray):
                continue  # edges 1 and 2
            with pytest.raises(HushError) as refused:
                call(data, **(options | {parameter: value}))
            assert "secret" not in str(refused.value)
        for value in EXTREME:  # a long way off: refused, or taken at its word
            try:
                call(data, **(options | {parameter: value})).error(0.9)
            except HushError:
                assert parameter != "q" or name == "quantiles" or value not in {0, "1e-400"}
    if "bounds" in options:
        for bounds in BOUNDS:
            with pytest.raises(InvalidValueError):
                call(data, **(options | {"bounds": bounds}))


@pytest.mark.parametrize("name", [name for name, (_, options) in ESTIMATORS.items() if "delta" in options])
def test_a_delta_of_one_in_n_is_refused_where_n_is_public(name):
    call, options = ESTIMATORS[name]
    data = np.arange(50.0)
    for delta in ("0.02", "0.5"):
        with pytest.raises(InvalidValueError, match="1/50"):
            call(data, neighbours="replace", **(options | {"delta": delta}))
    call(data, neighbours="replace", **(options | {"delta": "0.01"}))


def gap(a, b):
    return abs(a - b)


MECHANISMS = {
    "laplace": (h.Laplace, {"sensitivity": 1, "epsilon": 1}),
    "gaussian": (h.Gaussian, {"sensitivity": 1, "epsilon": 1, "delta": "1e-6", "calibration": "analytic"}),
    "response": (h.RandomizedResponse, {"epsilon": 1, "categories": 3}),
    "subset": (SubsetSelection, {"epsilon": 1, "categories": 8}),
    "hashing": (LocalHashing, {"epsilon": 1, "categories": 8}),
    "projective": (ProjectiveGeometry, {"epsilon": 1, "categories": 8}),
    "local mean": (LocalMean, {"epsilon": 1, "lower": 0, "upper": 1}),
    "exponential": (h.Exponential, {"sensitivity": 1, "epsilon": 1}),
    "flip": (h.PermuteAndFlip, {"sensitivity": 1, "epsilon": 1}),
    "top": (h.TopK, {"k": 2, "sensitivity": 1, "epsilon": 1}),
    "metric": (h.MetricExponential, {"points": range(4), "metric": gap, "epsilon": 1, "normaliser": "any"}),
    "threshold": (h.AboveThreshold, {"threshold": 3, "epsilon": 1, "count": 2}),
    "smooth": (h.SmoothNoise, {"epsilon": 1, "noise": "laplace", "delta": "1e-6", "step": 1}),
    "propose": (h.ProposeTestRelease, {"epsilon": 1, "delta": "1e-6", "eta": 1, "noise": "laplace", "step": 1}),
    "quantile": (h.Quantile, {"q": "0.5", "bounds": (0, 9), "epsilon": 1, "step": 1}),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_mechanism_is_made_of_nonsense(name):
    kind, options = MECHANISMS[name]
    for parameter in options.keys() - {"metric", "points", "bounds", "lower"}:
        for value in JUNK:
            if parameter == "threshold" and isinstance(value, int):
                continue
            with pytest.raises(HushError):
                kind(**(options | {parameter: value}))
    for parameter, values in {"points": JUNK, "metric": [3, "abc"], "bounds": BOUNDS}.items():
        for value in values if parameter in options else ():
            with pytest.raises(HushError):
                kind(**(options | {parameter: value}))


@pytest.mark.parametrize("name", MECHANISMS)
def test_confidences(name):
    kind, options = MECHANISMS[name]
    needs = {
        "response": {"count": 9}, "subset": {"count": 9}, "hashing": {"count": 9}, "projective": {"count": 9},
        "local mean": {"count": 9}, "exponential": {"candidates": 3},
        "flip": {"candidates": 3}, "top": {"candidates": 3}, "threshold": {"queries": 3},
        "smooth": {"smooth_sensitivity": 1},
    }.get(name, {})  # fmt: skip
    law = kind(**options)
    assert law.error("0.5", **needs) <= law.error(0.95, **needs) <= law.error("0.999999", **needs)
    for bad in [*JUNK, 0, 1, 2]:
        with pytest.raises(HushError):
            law.error(bad, **needs)
    for parameter in needs:
        for bad in JUNK:
            with pytest.raises(HushError):
                law.error(0.9, **(needs | {parameter: bad}))


SCALARS = [0, 2.5, True, Fraction(1, 3), Decimal(2), np.float32(1), np.int8(3), np.array(2.0), math.nan, math.inf, None,
           10**400, Decimal("1e999999"), pa.scalar(3), pd.NA]  # fmt: skip
NO_SCALARS = ["abc", "3", b"1", 1j, np.complex64(1), {}, {1}, np.datetime64("2020-01-01"), np.timedelta64(1, "s")]


@pytest.mark.parametrize("law", [
    h.Laplace(sensitivity=1, epsilon=1), h.Laplace(sensitivity="0.5", epsilon=1), h.Gaussian(sensitivity=1, sigma=2),
    h.Gaussian(sensitivity=1, sigma=2, coordinates=2),
])  # fmt: skip
def test_what_additive_mechanisms_take(law):
    for value in SCALARS:
        assert np.ndim(law.release(value)) == 0
    for value in [*NO_SCALARS, np.array(["a"]), np.array([1j]), [[1, 2], [3]]]:
        with pytest.raises(InvalidValueError):
            law.release(value)
    assert np.shape(law.release(np.zeros((2, 3), dtype=int))) == (2, 3)
    assert np.shape(law.release(np.zeros(0, dtype=int))) == (0,)


@pytest.mark.parametrize("release", [
    lambda v: h.SmoothNoise(epsilon=1, step="0.5").release(v, 1),
    lambda v: h.ProposeTestRelease(epsilon=1, delta="1e-6", eta=1, step="0.5").release(v, 10**6),
])  # fmt: skip
def test_smooth_noise_and_propose_test_release_take_one_number(release):
    """A vector would need the smooth sensitivity of a vector; taken for a number, it would count as a missing one."""
    for value in SCALARS:
        assert isinstance(release(value), float)
    for value in [*NO_SCALARS, [1, 2], np.array([1.0, 2.0]), pd.Series([1.0]), [[1]]]:
        with pytest.raises(InvalidValueError):
            release(value)
    assert abs(release(pa.scalar(10**6)) - 10**6) < 10**5  # false-alarm probability below 1e-9


def test_scores():
    for law in (h.Exponential(epsilon=1), h.PermuteAndFlip(epsilon=1), h.TopK(k=1, epsilon=1)):
        for scores in ([1, None], [math.nan, math.inf], [10**400, 1], np.array([True, False]), pd.Series([1, None]),
                       np.ma.array([1, 2], mask=[0, 1]), pa.array([1, None]), pl.Series([1.5, 2]), {"a": 1, "b": None},
                       [Odd(), 1], [Fraction(1, 3), Decimal(2)]):  # fmt: skip
            law.release(scores)
            assert law.probabilities(scores).sum() == pytest.approx(1)
            assert law.bias(scores) <= 0
        for scores in ([], None, 3, "abc", ["a"], [[1, 2]], np.zeros((2, 2)), np.array(3.0), np.array([1j]), {}, Odd()):
            for ask in (law.release, law.probabilities, law.bias, law.variance):
                with pytest.raises(InvalidValueError):
                    ask(scores)


def test_messages_say_what_got_limit_and_next_step():
    with pytest.raises(InvalidValueError, match=r"'epsilon' parameter must be a positive finite number. Got 'abc'"):
        h.count([1], epsilon="abc")
    with pytest.raises(InvalidValueError, match=r"'data' parameter must be a column: a list, or an array.*type set"):
        h.count({1, 2}, epsilon=1)
    with pytest.raises(InvalidValueError, match=r"'method' parameter must be 'laplace' or 'gaussian'. Got 'magic'"):
        h.sum([1], method="magic", **BOUNDED)
    with pytest.raises(InvalidValueError, match=r"lower below upper. Got \(5, 1\)"):
        h.sum([1], bounds=(5, 1), epsilon=1)
