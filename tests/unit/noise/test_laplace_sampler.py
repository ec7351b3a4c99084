"""Discrete Laplace and geometric draws: the decisions of the program are the ideal ones, word for word."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from enumeration import ONES, arb, bracket, contains, random_words, script

from hush.noise import laplace
from hush.noise.laplace import draw_many, draw_one, geometric_law, invert_exactly

SCALES = ["0.3", "1", "20", "1000", "1e-6", "1/3", "7e5", "1048576", "1e-320"]
LAWS = [partial(geometric_law, symmetric=True), geometric_law]


def scalar(law, word, fill):
    return draw_one(law, script(word, fill=fill))


def vector(law, word, fill):
    return int(draw_many(law, 1, script(word, fill=fill))[0])


def truth(law, k):
    """Return P[|X| ≥ k] for Laplace, P[G ≥ k] for geometric."""
    r = (-1 / arb(law.scale)).exp()
    return 2 * r**k / (1 + r) if law.symmetric else r**k


def reaches(law, draw, k):
    """Return the decision |X| ≥ k as a function of the 63 bits below the sign."""
    return lambda b, fill: draw(law, b, fill) >= k


@pytest.mark.parametrize("draw", [scalar, vector])
@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize("scale", SCALES)
def test_the_law_lies_between_two_rationals(scale, make, draw):
    law = make(Fraction(scale))
    likely = {max(1, math.ceil(law.s * x)) for x in (1e-9, 0.01, 0.5, 1, 3, 10, 14)}
    for k in sorted(likely | {1, 2, 3}):
        assert contains(bracket(reaches(law, draw, k), 63), 63, lambda k=k: truth(law, k)), k


@pytest.mark.parametrize("mutate", [
    lambda law: law._replace(margin=0.0),
    lambda law: law._replace(kappa=law.kappa * (1 + 2.0**-41)),
    lambda law: law._replace(s=law.s * (1 + 2.0**-38)),
])  # fmt: skip
def test_a_sampler_that_trusts_its_floats_is_caught(mutate):
    law = mutate(geometric_law(Fraction(20), symmetric=True))
    caught = 0
    for k in range(1, 100, 7):
        try:
            caught += not contains(bracket(reaches(law, vector, k), 63), 63, lambda k=k: truth(law, k))
        except AssertionError:  # not even monotone
            caught += 1
    assert caught


@pytest.mark.parametrize("draw", [scalar, vector])
def test_all_outcomes_to_a_depth(draw):
    """Walk all 2¹² beginnings of a word: P[X = k] lies between what is certain and what is possible."""
    depth, law = 12, geometric_law(Fraction(1), symmetric=True)
    certain, possible = {}, {}
    for prefix in range(2**depth):
        low, high = prefix << (64 - depth), ((prefix + 1) << (64 - depth)) - 1
        # Only the interval at U = 0 has no lowest end; its smallest magnitude is what the highest word gives.
        ends = [draw(law, high, ONES)] if not prefix % 2 ** (depth - 1) else [draw(law, low, 0), draw(law, high, ONES)]
        if prefix % 2 ** (depth - 1) and ends[0] == ends[1]:
            certain[ends[0]] = certain.get(ends[0], 0) + 1
        reach = range(min(map(abs, ends)), max(map(abs, ends)) + 1)
        for k in reach if prefix % 2 ** (depth - 1) else range(abs(ends[0]), 100):
            signed = -k if prefix >> (depth - 1) else k
            possible[signed] = possible.get(signed, 0) + 1
    r = (-arb(1)).exp()
    for k in range(-12, 13):
        p = (1 - r) / (1 + r) * r ** abs(k) * 2**depth
        # Zero is reached with either sign.
        assert certain.get(k, 0) <= p <= possible.get(k, 0), k
        assert possible.get(k, 0) - certain.get(k, 0) <= 4


def test_zero_is_not_counted_twice_and_signs_are_fair():
    law = geometric_law(Fraction(1), symmetric=True)
    for word in random_words(300):
        assert scalar(law, word, 1) == -scalar(law, word ^ 2**63, 1)


@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize("scale", [*SCALES, "1e9", "1e15", "1e18", "1e25", "1e50", "1e400"])
def test_fast_level_and_fallback_agree_on_the_same_words(scale, make):
    law = make(Fraction(scale))
    every = law._replace(margin=math.inf)
    words = random_words(400) + [random_words(1)[0] >> shift for shift in range(1, 60)] + [2**63 + 1, 1, 2**63 - 2]
    for word in words:
        assert (
            scalar(law, word, 12345)
            == scalar(every, word, 12345)
            == vector(law, word, 12345)
            == vector(every, word, 12345)
        )


@pytest.mark.parametrize("b", [1, 2**20, 2**42, 2**43 - 1, 2**43, 2**43 + 1])
def test_few_leading_bits_go_to_the_fallback(b, monkeypatch):
    seen = []

    def spy(law, b, bits):
        seen.append(b)
        return invert_exactly(law, b, bits)

    monkeypatch.setattr(laplace, "invert_exactly", spy)
    law = geometric_law(Fraction(20), symmetric=True)
    ideal = math.floor(20 * -math.log(b * 2.0**-63 * (1 + math.exp(-1 / 20)) / 2))
    assert scalar(law, b, 7) == vector(law, b, 7)
    assert abs(scalar(law, b, 7) - ideal) <= 1
    assert (b in seen) == (b < 2**43)


def test_a_word_of_zeros_is_refined_without_a_warning():
    for law in (
        geometric_law(Fraction(20), symmetric=True),
        geometric_law(Fraction(20)),
        geometric_law(Fraction(10) ** 9, symmetric=True),
    ):
        assert scalar(law, 0, 2**63 + 5) == vector(law, 0, 2**63 + 5) > 20 * 43


def test_nothing_wraps_however_long_the_zeros():
    """At scale 2⁵² a uniform below 2^-3800 gives more than int64 holds: Python integers, not a wrapped number."""
    law = geometric_law(Fraction(2**52), symmetric=True)
    words = [0] * 60 + [2**63]
    one = draw_one(law, script(*words, fill=2**63))
    many = draw_many(law, 1, script(*words, fill=2**63))
    assert one > 2**63
    assert many.dtype == object
    assert many[0] == -draw_many(law, 1, script(2**63, *words[1:], fill=2**63))[0]
    assert abs(many[0] / one - 1) < 0.05


@pytest.mark.parametrize("scale", ["1048577", "1e9", "1e15", "1e18", str(2**52), str(2**60 + 1), "1e400"])
def test_large_scales_split_within_the_proven_range(scale):
    law = geometric_law(Fraction(scale), symmetric=True)
    assert 2**19 < law.high <= 2**20
    assert law.high * 2**law.low_bits == law.scale
    assert law.kappa == 2.0**-63


class Refined:
    """A low part and the word of its test, then twelve words of fill, then a low part that is accepted at once."""

    def __init__(self, low, word, fill, other):
        self.batches = [low, word]
        self.singles = [fill] * 12
        self.other = [other, 0]

    def words(self, _count):
        return np.array([self.batches.pop(0)], dtype=np.uint64)

    def word(self):
        return (self.batches or self.singles or self.other).pop(0)


@pytest.mark.parametrize("draw", [laplace._low, lambda law, bits: int(laplace._many_low(law, 1, bits)[0])])
@pytest.mark.parametrize("scale", ["1e9", "3e6", "1e24"])
def test_the_low_part_accepts_as_it_should(scale, draw, monkeypatch):
    """P[accept L] = e^(-L/s): the words that accept are counted by bisection on the code, for several L."""
    law = geometric_law(Fraction(scale))
    exactly = laplace.settle_exp

    def settle_and_drop_the_rest(x, word, bits):
        accepted = exactly(x, word, bits)
        bits.singles.clear()
        return accepted

    monkeypatch.setattr(laplace, "settle_exp", settle_and_drop_the_rest)
    shift = 64 - law.low_bits
    for low in (1, 2 ** (law.low_bits - 1), 2**law.low_bits - 1):

        def accepts(word, fill, low=low):
            return draw(law, Refined(low << shift, word, fill, 0)) == low

        assert contains(bracket(accepts, 64), 64, lambda low=low: (-arb(low) / arb(law.scale)).exp())
    assert draw(law, Refined(0, ONES - 1, 0, 1 << shift)) == 0


@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize("scale", ["1e9", "1e18", "1e30", "1e200"])
def test_vectors_and_single_draws_give_the_same_of_the_same_words(scale, make):
    """One that its words leave open would take others: each of 50 with probability 2⁻³⁷."""
    law = make(Fraction(scale))
    columns = [random_words(50) for _ in range(2 - -law.low_bits // 64)]
    columns[-1] = [word >> 1 for word in columns[-1]]  # so that all low parts are accepted
    many = draw_many(law, 50, script(*(word for column in columns for word in column), fill=9)).tolist()
    assert many == [draw_one(law, script(*words, fill=9)) for words in zip(*columns, strict=True)]
    assert all(type(value) is int for value in many)


@pytest.mark.parametrize("make", LAWS)
def test_a_split_draw_redraws_a_negative_zero(make):
    law = make(Fraction(10) ** 9)
    m = law.low_bits
    one_word = ONES - 2**63 - 1  # U just below 1: H = 0
    words = [2**63 | one_word, 0, 0, one_word, 5 << (64 - m), 0]
    expected = 5 if law.symmetric else 0
    assert draw_one(law, script(*words)) == expected if law.symmetric else draw_one(law, script(*words[:3])) == 0
    assert int(draw_many(law, 1, script(*words, fill=0))[0]) == expected


def test_arrays_and_scalars():
    assert isinstance(laplace.discrete_laplace(3), int)
    assert laplace.discrete_laplace(3, 0).shape == (0,)
    assert laplace.discrete_laplace(3, ()).shape == ()
    assert laplace.discrete_laplace(3, (2, 0, 3)).shape == (2, 0, 3)
    assert laplace.discrete_laplace(3, np.int64(4)).dtype == np.int64
    huge = laplace.discrete_laplace("1e30", 50)
    assert huge.dtype == object
    assert all(type(value) is int for value in huge)
    assert max(abs(value) for value in huge) > 2**70
    assert laplace.geometric("1e18", 20).min() >= 0
    assert set(laplace.discrete_laplace("1e-4000", 5).tolist()) == {0}
