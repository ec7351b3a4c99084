"""Laplace and Gaussian: construction both ways, honest errors, columns of every library, bad input."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting import compose
from hush.core import HushError, InvalidValueError
from hush.mechanisms import Additive, Gaussian, Laplace
from hush.mechanisms.gaussian import discrete_delta


def discrete_laplace_tail(scale: float, t: float) -> float:
    r = math.exp(-1 / scale)
    return 2 * r ** (math.floor(t) + 1) / (1 + r)


def discrete_gaussian_tail(sigma: float, t: float) -> float:
    k = np.arange(int(45 * sigma) + 2, dtype=float)
    w = np.exp(-(k**2) / (2 * sigma**2))
    return 2 * w[math.floor(t) + 1 :].sum() / (2 * w.sum() - 1)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 50), st.floats(0.01, 0.9999), st.integers(1, 50))
def test_the_laplace_half_width_is_honest_and_close(epsilon, confidence, count):
    m = Laplace(sensitivity=1, epsilon=epsilon)
    t = m.error(confidence, count=count)
    assert (1 - discrete_laplace_tail(float(m.scale), t)) ** count >= confidence - 1e-9
    each = 1 - confidence ** (1 / count)
    assert t <= float(m.scale) * math.log(1 / each) + 1 + 1e-6


@settings(max_examples=40, deadline=None)
@given(st.floats(0.2, 60), st.floats(0.05, 0.9999))
def test_the_gaussian_half_width_is_honest(sigma, confidence):
    m = Gaussian(sensitivity=1, sigma=round(sigma, 3))
    assert discrete_gaussian_tail(float(m.sigma), m.error(confidence)) <= 1 - confidence + 1e-9


@given(st.floats(0.5, 1000), st.floats(0.5, 0.999))
@settings(max_examples=10, deadline=None)
def test_for_error_keeps_its_word(error, confidence):
    assert Laplace.for_error(error, confidence=confidence).error(confidence) <= error
    assert Gaussian.for_error(error, confidence=confidence).error(confidence) <= error


def test_scales_are_exact():
    m = Laplace(sensitivity=3, epsilon="0.1")
    assert (m.scale, m.event.sensitivity, m.event.parameter) == (30, 3, Fraction(1, 30))
    assert Laplace(sensitivity=3, scale=30) == m
    assert Laplace.with_noise(30, sensitivity=3) == m
    assert compose([m.event]).epsilon(0) == pytest.approx(0.1)


def test_an_uneven_sensitivity_is_rounded_up():
    m = Laplace(sensitivity="0.25", epsilon=1, step="0.1")
    assert m.steps == 3
    assert m.scale == Fraction(3, 10)
    vector = Laplace(sensitivity="0.25", epsilon=1, step="0.1", coordinates=4)
    assert vector.steps == 6  # each of four coordinates may be rounded apart


def test_vectors_of_reals_need_to_say_how_many_move():
    with pytest.raises(InvalidValueError, match="coordinates"):
        Laplace(sensitivity=1, epsilon=1).release([0.5, 1.5])
    with pytest.raises(InvalidValueError, match="coordinates"):
        Gaussian(sensitivity=2, epsilon=1, delta="1e-6").release([1, 2])
    assert Laplace(sensitivity=1, epsilon=1, coordinates=2, step="0.5").release([0.5, 1.5]).shape == (2,)
    assert Gaussian(sensitivity=1, epsilon=1, delta="1e-6").release([1, 2]).dtype == np.int64
    wide = Gaussian(sensitivity=2, epsilon=1, delta="1e-6", coordinates=2)
    assert wide.release([1.5, 2.25]).shape == (2,)
    # The rounded law rounds value and noise together: 0.5 becomes 0 and 1 alike, not always the same.
    tiny = Gaussian(sensitivity=1, sigma="1e-6", coordinates=2, step=1)
    assert {tiny.release(0.5) for _ in range(64)} == {0, 1}  # false-alarm probability 2⁻⁶³
    assert {int(tiny.release([0.5])[0]) for _ in range(64)} == {0, 1}


@pytest.mark.parametrize("column", [
    pd.Series([1, 2, 3]), pl.Series([1, 2, 3]), pa.array([1, 2, 3]), pa.chunked_array([[1], [2, 3]]),
    [1, 2, 3], (1, 2, 3), range(1, 4), np.array([1, 2, 3], dtype=np.uint8), np.array([[1, 2, 3]]),
])  # fmt: skip
def test_columns_of_every_library(column):
    sure = Laplace(sensitivity=1, epsilon=10**6)
    out = sure.release(column)
    assert isinstance(out, np.ndarray)
    assert out.ravel().tolist() == [1, 2, 3]
    assert Gaussian(sensitivity=1, sigma="0.001").release(column).ravel().tolist() == [1, 2, 3]


def test_scalars_keep_their_kind():
    sure = Laplace(sensitivity=1, epsilon=10**6)
    assert sure.release(np.int64(4)) == 4
    assert isinstance(sure.release(4), int)
    assert sure.release(True) == 1
    assert sure.release(float("nan")) == 0
    assert isinstance(Laplace(sensitivity="0.5", epsilon=10**6).release(0.25), float)
    assert sure.release([]).tolist() == []
    assert sure.release(np.array(7)).shape == ()


@pytest.mark.parametrize("arguments", [
    {"sensitivity": 0, "epsilon": 1}, {"sensitivity": math.inf, "epsilon": 1}, {"sensitivity": math.nan, "epsilon": 1},
    {"sensitivity": 1}, {"sensitivity": 1, "epsilon": 0}, {"sensitivity": 1, "epsilon": -1},
    {"sensitivity": 1, "epsilon": 1, "scale": 1}, {"sensitivity": 1, "epsilon": 1, "step": 0},
    {"sensitivity": 1, "epsilon": 1, "coordinates": 0}, {"sensitivity": 1, "epsilon": "abc"},
])  # fmt: skip
def test_bad_laplace(arguments):
    with pytest.raises(HushError):
        Laplace(**arguments)


@pytest.mark.parametrize("arguments", [
    {"epsilon": 1}, {"delta": "1e-6"}, {"epsilon": 1, "delta": 0}, {"epsilon": 1, "delta": 1},
    {"epsilon": 1, "delta": "1e-6", "sigma": 1}, {"epsilon": -1, "delta": "1e-6"}, {"sigma": 0},
    {"epsilon": 1, "delta": "1e-6", "calibration": "magic"},
    {"epsilon": 1, "delta": "1e-6", "calibration": "classical"},
    {"epsilon": 50, "delta": "0.5", "calibration": "2/delta"},
    {"epsilon": 1, "delta": "0.99", "calibration": "1/delta"},
    {"epsilon": 0, "delta": "1e-6", "calibration": "2/delta"},
])  # fmt: skip
def test_bad_gaussian(arguments):
    with pytest.raises(HushError):
        Gaussian(sensitivity=1, **arguments)


@pytest.mark.parametrize("calibration", ["analytic", "classical", "2/delta", "1/delta"])
@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-6"), ("0.9", "1e-3"), ("0.5", "1e-9")])
@pytest.mark.parametrize("steps", [1, 5, 300])
def test_every_calibration_holds_for_the_discrete_law(calibration, epsilon, delta, steps):
    m = Gaussian(sensitivity=steps, epsilon=epsilon, delta=delta, calibration=calibration, step=1)
    assert discrete_delta(m.sigma, steps, Fraction(epsilon)) <= Fraction(delta)


def test_the_certified_accountant_agrees():
    m = Gaussian(sensitivity=1, epsilon=1, delta="1e-6")
    assert compose([m.event]).delta(1) <= 1e-6
    wide = Gaussian(sensitivity=2, epsilon=1, delta="1e-6", coordinates=3)
    assert compose([wide.event]).delta(1) <= 1e-6
    assert float(wide.sigma) == pytest.approx(2 * 4.22467889, rel=1e-6)


def test_zero_epsilon_works_for_the_analytic_one():
    m = Gaussian(sensitivity=1, epsilon=0, delta="0.1")
    assert compose([m.event]).delta(0) <= 0.1
    assert float(m.sigma) == pytest.approx(1 / (2 * 0.12566), rel=0.05)


def test_protocols_and_equality():
    assert isinstance(Laplace(sensitivity=1, epsilon=1), Additive)
    assert isinstance(Gaussian(sensitivity=1, sigma=1), Additive)
    assert Laplace(sensitivity=1, epsilon=1) == Laplace(sensitivity=1, epsilon="1.0")
    assert hash(Laplace(sensitivity=1, epsilon=1)) == hash(Laplace(sensitivity=1, epsilon=1))
    with pytest.raises(AttributeError):
        Laplace(sensitivity=1, epsilon=1).epsilon = 2
    assert Laplace(sensitivity=1, epsilon=1).bias == Gaussian(sensitivity=1, sigma=1).bias == 0
    with pytest.raises(InvalidValueError):
        Laplace(sensitivity=1, epsilon=1).error(1)
