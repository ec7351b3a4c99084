"""Nobody trusted: shares of noise add up to the curator's, and shuffled reports are as private as the bound says."""

import itertools
import math
import os
from fractions import Fraction

import numpy as np
import pytest

from hush import local
from hush.accounting.pairs.shuffle import shuffled_delta, shuffled_epsilon
from hush.core.rounding import ball, flint, precision
from hush.distributed import LaplaceShare, price_of_trust


@pytest.mark.parametrize("honest", [2, 3, 7, 100])
def test_the_coefficients_of_shares_multiply_to_ones(honest):
    """((1-q)/(1-qt))^(1/h) to the power h: the series of (1-x)^(-1/h), as fractions, to the power h is 1, 1, 1, …"""
    terms = [Fraction(1)]
    for k in range(1, 25):
        terms.append(terms[-1] * (Fraction(1, honest) + k - 1) / k)
    poly = flint().fmpq_poly([flint().fmpq(term.numerator, term.denominator) for term in terms])
    power = flint().fmpq_poly([1])
    for _ in range(honest):
        power = flint().fmpq_poly([(power * poly)[k] for k in range(25)])
    assert [power[k] for k in range(25)] == [1] * 25


@pytest.mark.parametrize(("epsilon", "honest"), [("0.5", 4), ("1", 3), ("1", 14), ("4", 9)])
def test_shares_convolve_to_the_discrete_laplace_law(epsilon, honest):
    """The law of one share, two-sided, to the power h, in ball arithmetic: within 10⁻¹⁵ of the curator's noise."""
    share = LaplaceShare(epsilon=epsilon, parties=honest)
    reach = math.ceil(60 * float(share.scale))
    with precision(256):
        q, shape = (-1 / ball(share.scale)).exp(), ball(Fraction(1, honest))
        masses = [(1 - q) ** shape]
        for k in range(1, 2 * reach):
            masses.append(masses[-1] * q * (shape + k - 1) / k)
        up_side, down_side = flint().arb_poly(masses), flint().arb_poly(masses[::-1])
        one = (up_side * down_side).coeffs()
        middle = len(masses) - 1
        law = flint().arb_poly(one[middle - reach : middle + reach + 1]) ** honest
        centre = honest * reach
        worst = max(
            abs(float(law[centre + k] - (1 - q) / (1 + q) * q ** abs(k))) for k in range(-reach // 2, reach // 2 + 1)
        )
    assert worst < 1e-15


def channels(epsilon0, draws):
    """Yield ε₀-local channels, one row for each input: k-ary responses and extremal ones, of 2 to 5 outputs.

    A channel all of whose columns hold only two values, in the ratio e^ε₀, is extremal; any ε₀-local channel is a
    post-processing of such (Kairouz, Oh, Viswanath 2016).
    """
    e = math.exp(epsilon0)
    for k in (2, 3, 4, 5):
        yield np.where(np.eye(k, dtype=bool), e, 1.0) / (e + k - 1)
    generator = np.random.default_rng(16)
    for outputs in np.repeat((2, 3, 4, 5), draws):
        pattern = np.where(generator.random((3, outputs)) < 0.5, 1.0, e)
        # Weights of the columns that make every row sum to 1: by least squares, kept where they are positive.
        weights, *_ = np.linalg.lstsq(pattern, np.ones(3), rcond=None)
        if (weights > 1e-9).all() and np.allclose(pattern @ weights, 1, atol=1e-13):
            yield pattern * weights


def histograms(channel, inputs):
    """Return the law of the counts of each output over some people's inputs, as an array over all but the last."""
    size, outputs = len(inputs) + 1, channel.shape[1]
    law = np.zeros((size,) * (outputs - 1))
    law[(0,) * (outputs - 1)] = 1.0
    for person in inputs:
        law = with_person(law, channel[person])
    return law


def with_person(law, row):
    """Add one more report with these probabilities of its outputs."""
    total = law * row[-1]
    for axis in range(law.ndim):
        total += np.roll(law, 1, axis=axis) * row[axis]  # the last place is still empty, so that nothing wraps round
    return total


def grown(law):
    return np.pad(law, [(0, 1)] * law.ndim)


@pytest.mark.parametrize("epsilon0", ["0.5", "1.5", "3"])
def test_the_stronger_clone_bound_is_never_violated(epsilon0):
    """Every composition of the other people's inputs, up to six reports: exact laws against the bound.

    Floats are right to 10⁻¹³ here, which is allowed for.
    """
    local_epsilon = float(epsilon0)
    epsilons = [Fraction(epsilon0) * Fraction(share, 8) for share in (0, 1, 3, 6)]
    bounds = {
        (n, i): shuffled_delta(epsilon0, reports=n, epsilon=epsilon).upper
        for n in range(2, 7)
        for i, epsilon in enumerate(epsilons)
    }
    cases, closest = 0, 0.0
    for channel in channels(local_epsilon, min(500, int(os.environ.get("HUSH_CASES", "25")))):
        # Each row is a law, and no two differ by more than the channel may.
        assert np.allclose(channel.sum(axis=1), 1, atol=1e-12)
        assert (channel.max(axis=0) / channel.min(axis=0)).max() < math.exp(local_epsilon) * (1 + 1e-9)
        kinds = range(len(channel))
        for n in range(2, 7):
            for others in itertools.combinations_with_replacement(kinds, n - 1):
                law = grown(histograms(channel, others))
                first, second = (with_person(law, channel[kind]) for kind in (0, 1))
                for i, epsilon in enumerate(epsilons):
                    ratio = math.exp(epsilon)
                    delta = max(
                        np.maximum(first - ratio * second, 0).sum(), np.maximum(second - ratio * first, 0).sum()
                    )
                    assert delta <= bounds[n, i] + 1e-13
                    closest = max(closest, delta / bounds[n, i])
                    cases += 1
    assert cases >= 4_000  # of each ε₀; three of them make more than 10⁴
    assert closest == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("epsilon0", [0.1, 1, 2.5, 6])
def test_two_binary_responses_attain_the_bound(epsilon0):
    p = 1 / (1 + math.exp(-epsilon0))
    channel = np.array([[p, 1 - p], [1 - p, p]])
    law = grown(histograms(channel, [0]))
    first, second = (with_person(law, channel[kind]) for kind in (0, 1))
    for share in (0.1, 0.5, 0.9):
        ratio = math.exp(epsilon0 * share)
        delta = max(np.maximum(first - ratio * second, 0).sum(), np.maximum(second - ratio * first, 0).sum())
        bound = shuffled_delta(epsilon0, reports=2, epsilon=epsilon0 * share)
        assert bound.lower * (1 - 1e-9) <= delta <= bound.upper * (1 + 1e-9)


@pytest.mark.parametrize(("reports", "epsilon0", "golden"), [
    (10**4, 1, 0.0432), (10**4, 2, 0.114), (10**4, 4, 0.411),
    (10**5, 1, 0.0124), (10**5, 2, 0.0332), (10**5, 4, 0.118),
    (10**6, 1, 0.0035), (10**6, 2, 0.0095), (10**6, 4, 0.0343),
])  # fmt: skip
def test_golden_values_of_shuffling(reports, epsilon0, golden):
    bound = shuffled_epsilon(epsilon0, reports=reports, delta="1e-6")
    assert bound.upper == pytest.approx(golden, rel=0.02 if golden < 0.01 else 0.004)
    assert bound.upper - bound.lower <= 1e-6


def test_shuffled_binary_responses_are_known_exactly():
    binary = local.frequency(epsilon=1, categories=2).event
    bound = local.shuffled(binary, reports=10**4).epsilon(delta="1e-6")
    assert 0.0356 < bound.lower <= bound.upper <= 0.036
    general = shuffled_epsilon(1, reports=10**4, delta="1e-6")
    assert bound.upper < general.lower


def test_the_price_of_trust_at_ten_thousand_people():
    rows = {row.model: row.deviation for row in price_of_trust(epsilon=1, people=10**4)}
    assert rows["central"] == pytest.approx(1.36, abs=0.005)
    assert rows["aggregated, 10% lost"] == pytest.approx(1.43, abs=0.005)
    assert rows["aggregated, 33% lost"] == pytest.approx(1.66, abs=0.005)
    assert rows["shuffled"] <= 6.5
    assert rows["local"] <= 96
