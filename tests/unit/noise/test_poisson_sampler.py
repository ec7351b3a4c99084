"""Poisson, Skellam and negative binomial draws: the decisions of the program are the ideal ones, word for word."""

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from enumeration import ONES, arb, bracket, contains, precise, random_words, script

from hush import noise
from hush.core import InvalidValueError
from hush.noise.shares import _invert as invert_fast
from hush.noise.shares import draw_many, invert_jump, negative_binomial_law, poisson_law

RATES = ["1e-9", "0.01", "1/3", "1", "7.5", "300", "16384"]


def drawn(law, word, fill):
    return int(draw_many(law, 1, script(word, fill=fill))[0])


def at_most(rate, k):
    """Return P[N ≤ k] by a sum of its own, not by the incomplete gamma function."""
    term = total = (-arb(rate)).exp()
    for i in range(1, k + 1):
        term = term * arb(rate) / i
        total += term
    return total


@pytest.mark.parametrize("rate", RATES)
def test_the_law_lies_between_two_rationals(rate):
    law = poisson_law(Fraction(rate))
    mean = float(Fraction(rate))
    for k in sorted({0, 1, 2, *(max(0, round(mean + z * math.sqrt(mean))) for z in (-6, -2, 0, 1, 5))}):
        bounds = bracket(lambda word, fill, k=k: drawn(law, word, fill) <= k, 64)
        assert contains(bounds, 64, lambda k=k: at_most(rate, k)), k


def test_a_table_that_is_off_by_one_is_caught():
    law = poisson_law(Fraction(3))
    wrong = law._replace(thresholds=law.thresholds + np.uint64(1))
    bounds = bracket(lambda word, fill: drawn(wrong, word, fill) <= 2, 64)
    assert not contains(bounds, 64, lambda: at_most(3, 2))


def test_the_ends_of_the_table_are_settled_exactly():
    law = poisson_law(Fraction(300))
    assert law.first > 0
    assert drawn(law, 0, 5) < law.first + 40
    assert drawn(law, ONES, 5) >= law.first + len(law.thresholds) - 1
    assert drawn(law, int(law.thresholds[50]), 0) == law.first + 50
    assert drawn(law, int(law.thresholds[50]), ONES) == law.first + 51


def test_large_rates_are_sums_of_table_draws():
    law = poisson_law(Fraction(10**6))
    assert law.repeats == math.ceil(10**6 / 2**14)
    with precise():
        assert law.rate() * law.repeats == flint.arb(10**6) or abs(float(law.rate() * law.repeats) - 10**6) < 1e-9


@pytest.mark.parametrize("scale", ["0.02", "0.3", "1", "20", "1e4", "1e9"])
@pytest.mark.parametrize("shape", ["1/14", "1", "5/2"])
def test_fast_jumps_and_the_fallback_agree_on_the_same_words(scale, shape):
    law = negative_binomial_law(Fraction(shape), Fraction(scale), signed=False)
    first = [word >> 1 for word in random_words(300)] + [1, 2**42, 2**43, 2**63 - 1]
    second = [*random_words(300), 2**64 - 2, 2**63, 2**43, 7]
    fast = invert_fast(law, np.array(first, dtype=np.uint64), np.array(second, dtype=np.uint64), script(fill=12345))
    for b, v, value in zip(first, second, fast.tolist(), strict=True):
        assert value == invert_jump(law, b, v, script(fill=12345))


def test_a_jump_turns_where_the_bracket_does():
    """For a fixed first uniform the jump exceeds k exactly if V ≤ p^k."""
    law, b = negative_binomial_law(Fraction(1, 2), Fraction(20), signed=False), 3 * 2**61

    def exceeds(k):
        def decide(word, fill):
            value = invert_fast(
                law, np.array([b], dtype=np.uint64), np.array([word], dtype=np.uint64), script(fill=fill)
            )
            return int(value[0]) > k

        return decide

    # The first uniform goes on with the same fill as the second, so that p itself moves by less than 2⁻⁶⁰.
    for k in (1, 2, 5, 20):
        surely, possibly = bracket(exceeds(k), 64)
        u = (2 * b + 1) / 2**64
        c = math.log(-math.expm1(-1 / 20))
        truth = (-math.expm1(u * c)) ** k
        assert abs(surely / 2**64 - truth) < 1e-12
        assert abs(possibly - surely) < 2**12


@pytest.mark.parametrize("honest", [1, 2, 14])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_shares_convolve_to_the_discrete_laplace_law(honest, epsilon):
    """The masses of a share, convolved with themselves, are those of discrete Laplace noise, to 1e-15."""
    q = math.exp(-float(Fraction(epsilon)))
    size = 2 ** math.ceil(math.log2(120 / float(Fraction(epsilon)) + 64))
    # The generating function of a difference of two shares at e^{iω}, sampled; its h-th power is that of the sum.
    omega = 2 * np.pi * np.arange(size) / size
    share = np.abs((1 - q) / (1 - q * np.exp(1j * omega))) ** (2 / honest)
    masses = np.fft.ifft(share).real
    assert masses.min() > -1e-16
    total = np.fft.ifft(np.fft.fft(masses) ** honest).real
    k = np.minimum(np.arange(size), size - np.arange(size))
    laplace = (1 - q) / (1 + q) * q**k
    assert np.abs(total - laplace).max() < 1e-15


def test_bad_input():
    for bad in (0, -1, "x", math.nan, True, None, 10**60):
        with pytest.raises(InvalidValueError):
            noise.poisson(bad)
        with pytest.raises(InvalidValueError):
            noise.skellam(bad)
        with pytest.raises(InvalidValueError):
            noise.laplace_share(bad, 1)
        with pytest.raises(InvalidValueError):
            noise.laplace_share(1, bad)
    assert noise.poisson(3, size=0).shape == (0,)
    assert isinstance(noise.negative_binomial("1/2", 5), int)
