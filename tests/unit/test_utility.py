"""Planning, confidence bounds and plain words."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from hush.core import InvalidValueError
from hush.mechanisms import Gaussian, Laplace
from hush.utility import Question, crossover, expected_errors, lower_bound, plain, split, upper_bound, vector_noise

questions = st.lists(st.tuples(st.integers(1, 100), st.integers(1, 1000)), min_size=1, max_size=6)


@given(questions, st.sampled_from(["total", "maximum"]), st.floats(0.1, 5))
def test_a_split_adds_up_and_is_best(pairs, objective, epsilon):
    plan = [Question(sensitivity=s, size=n) for s, n in pairs]
    shares = split(plan, epsilon=epsilon, objective=objective)
    assert sum(shares) == Fraction(str(epsilon))
    assert min(shares) > 0
    measure = sum if objective == "total" else max
    even = [Fraction(str(epsilon)) / len(plan)] * len(plan)
    assert measure(expected_errors(plan, shares)) <= measure(expected_errors(plan, even)) * (1 + 1e-6)


def test_the_crossover_and_the_vector_mechanism():
    assert crossover(epsilon=1, delta="1e-6") == 9
    assert isinstance(vector_noise(dimension=8, epsilon=1, delta="1e-6", sensitivity="0.5", step="0.001"), Laplace)
    assert isinstance(vector_noise(dimension=10, epsilon=1, delta="1e-6", sensitivity="0.5", step="0.001"), Gaussian)
    found = vector_noise(dimension=3, epsilon=1, delta="1e-6", sensitivity="0.5")
    assert found.release([0.5, 0.25, 0.125]).shape == (3,)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 400), st.data(), st.sampled_from([0.05, 1e-6]))
def test_clopper_and_pearson(tosses, data, miss):
    s = data.draw(st.integers(0, tosses))
    low, high = lower_bound(s, tosses, miss=miss), upper_bound(s, tosses, miss=miss)
    exact_low = beta.ppf(miss, s, tosses - s + 1) if s else 0.0
    exact_high = beta.isf(miss, s + 1, tosses - s) if s < tosses else 1.0
    assert low <= exact_low * (1 + 1e-9)
    assert high >= exact_high * (1 - 1e-9)
    assert exact_low - low <= 2e-3
    assert high - exact_high <= 2e-3


def test_plain_words():
    assert "at most 100 in 100" not in plain(20)
    assert "50 in 100" in plain(0)
    assert math.isfinite(len(plain(10**4)))
    for bad in (
        {"epsilon": -1},
        {"epsilon": 1, "delta": 2},
        {"epsilon": 1, "prior": 1},
        {"epsilon": 1, "delta": "0.1", "size": 0},
    ):
        with pytest.raises(InvalidValueError):
            plain(**bad)
    with pytest.raises(InvalidValueError):
        split([], epsilon=1)
    with pytest.raises(InvalidValueError):
        split([Question(sensitivity=1)], epsilon=1, objective="best")
