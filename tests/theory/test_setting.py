"""Sections 4 and 5: utility both ways, the differencing attack, and the three-row smoking table."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hush.mechanisms import Laplace, Quantile, RandomizedResponse, count
from hush.utility import alpha_at, beta_at, laplace_for, largest_error, measure, plain, posterior, useful


def test_item_19_one_query_both_ways():
    m = Laplace(sensitivity=1, epsilon="0.1")
    alpha = alpha_at(m, beta="0.01")
    assert alpha == pytest.approx(10 * math.log(100), rel=1e-9)
    assert useful(m, alpha=alpha, beta="0.01")
    assert beta_at(m, alpha=46) == pytest.approx(math.exp(-4.6), rel=0.05)
    assert float(laplace_for(alpha=alpha, beta="0.01").epsilon) == pytest.approx(0.1, rel=1e-6)


def test_item_19_a_set_of_queries_measured():
    queries = 20
    m = laplace_for(alpha=60, beta="0.1", queries=queries)
    assert useful(m, alpha=60, beta="0.1", queries=queries)
    found = measure(lambda: np.abs(m.release(np.zeros(queries, dtype=np.int64))).max(), truth=0, alpha=60, runs=400)
    assert found.failures / 400 < 0.1 + math.sqrt(math.log(1e6) / 800)  # Hoeffding, false-alarm probability 1e-6
    assert found.beta >= found.failures / 400


def test_item_19_a_synthetic_data_set():
    data = np.array([1, 2, 2, 3, 9])
    synthetic = np.array([1, 2, 3, 3, 8])
    queries = [lambda d, t=t: np.count_nonzero(d <= t) for t in range(10)]
    assert largest_error(queries, data, synthetic) == 1
    assert largest_error([], data, synthetic) == 0


def test_item_19_the_rank_error_of_a_quantile_holds():
    law, data = Quantile(bounds=(0, 1000), epsilon=1, step=1), np.arange(1000)
    width = law.error(1 - Fraction(1, 10**7))
    for _ in range(10):  # false-alarm probability at most 1e-6
        assert abs(law.release(data) - 500) <= width + 1


def test_item_20_the_differencing_attack():
    """All but one record known: exact answers give the last one away, private ones do not."""
    known, secret = [True, False, True, True], True
    exact = sum([*known, secret]) - sum(known)
    assert exact == secret
    guesses = [count(np.array([*known, secret]), epsilon="0.1").value - sum(known) > 0.5 for _ in range(2000)]
    # An ε-DP answer lets nobody guess right more often than e^ε/(1+e^ε): 52.5 %. Hoeffding at 1e-6: 6 % more.
    right = sum(guesses) / len(guesses)
    assert right <= math.exp(0.1) / (1 + math.exp(0.1)) + math.sqrt(math.log(1e6) / (2 * 2000))


def test_item_20_the_three_row_table_reveals_alice():
    """Secure computation hides the inputs, not what y = 2/3 says about Alice to who knows one of the others."""
    smokes = {"alice": 1, "bob": 0, "carol": 1}
    y = Fraction(sum(smokes.values()), 3)
    consistent = [a for a in (0, 1) for c in (0, 1) if Fraction(a + smokes["bob"] + c, 3) == y]
    assert consistent == [1]  # Bob, who does not smoke, learns that Alice does
    noisy = Laplace(sensitivity=1, epsilon=1)
    # The same knowledge before a private answer: odds move by at most e.
    chances = {a: noisy.probabilities(60)[60 + (2 - (a + 0 + 1))] for a in (0, 1)}
    assert abs(math.log(chances[1] / chances[0])) <= 1 + 1e-9


def test_plain_words():
    assert posterior(1) == pytest.approx(math.e / (1 + math.e))
    assert posterior(math.log(3), prior="0.5") == pytest.approx(0.75)
    assert "74 in 100" in plain(1)
    assert "exposed with a chance of 64 in 100" in plain(1, delta="0.001", size=1000)
    assert "1e-6" in plain(1, delta="1e-7")
    response = RandomizedResponse(epsilon=1)
    p, q = response.support
    assert p / (p + q) <= posterior(1) + 1e-12
