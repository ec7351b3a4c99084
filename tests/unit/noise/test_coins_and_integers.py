"""Coins and uniform integers: every word is counted."""

from fractions import Fraction

import numpy as np
import pytest
from enumeration import ONES, arb, bracket, contains, random_words, script

from hush.core import InvalidValueError
from hush.noise import bernoulli_exp, permutation, uniform_integer, uniform_integers
from hush.noise.uniform import (
    draw_bernoulli,
    draw_bernoulli_exp,
    draw_bits,
    draw_many_bernoulli,
    draw_many_bernoulli_exp,
    draw_many_bits,
    draw_many_uniform_integers,
    draw_permutation,
    draw_uniform_integer,
    draw_uniform_integers,
)


def many(draw):
    return lambda p, bits: bool(draw(p, 1, bits)[0])


@pytest.mark.parametrize("draw", [draw_bernoulli, many(draw_many_bernoulli)])
@pytest.mark.parametrize("p", ["1/3", "0.1", "999/1000", "1e-30", "1e-19", str(Fraction(2**70 - 1, 2**70))])
def test_a_rational_coin(p, draw):
    chance = Fraction(p)
    assert contains(bracket(lambda word, fill: draw(chance, script(word, fill=fill)), 64), 64, lambda: arb(chance))
    # On the very threshold the further binary digits of p decide, word by word.
    digits = [(chance.numerator << 64 * n) // chance.denominator % 2**64 for n in (1, 2, 3)]
    if digits[2] not in {0, ONES}:
        assert draw(chance, script(*digits[:2], digits[2] - 1))
        assert not draw(chance, script(*digits[:2], digits[2] + 1))


@pytest.mark.parametrize("draw", [draw_bernoulli_exp, many(draw_many_bernoulli_exp)])
@pytest.mark.parametrize("x", ["1", "1/3", "1e-9", "20", "42", "44.9", "45", "60", "1e-25", "1000"])
def test_an_exponential_coin(x, draw):
    chance = Fraction(x)
    bounds = bracket(lambda word, fill: draw(chance, script(word, fill=fill)), 64)
    assert contains(bounds, 64, lambda: 1 / arb(chance).exp())


@pytest.mark.parametrize("draw", [draw_bernoulli_exp, many(draw_many_bernoulli_exp)])
def test_a_coin_for_a_real_given_by_intervals(draw):
    def root_two(_precision):
        return arb(2).sqrt()

    bounds = bracket(lambda word, fill: draw(root_two, script(word, fill=fill)), 64)
    assert contains(bounds, 64, lambda: 1 / arb(2).sqrt().exp())
    assert bernoulli_exp(lambda _precision: arb(10**9)) is False


def test_sure_coins():
    for word in (0, 1, 2**63, ONES):
        assert draw_bernoulli(Fraction(1), script(word))
        assert not draw_bernoulli(Fraction(0), script(word, 1))
        assert draw_many_bernoulli(Fraction(1), 1, script(word)).tolist() == [True]
        assert draw_many_bernoulli(Fraction(0), 1, script(word, 1)).tolist() == [False]
        assert draw_bernoulli_exp(Fraction(0), script(word))
        assert draw_many_bernoulli_exp(Fraction(0), 1, script(word)).tolist() == [True]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 100, 129, 256])
def test_every_pattern_gives_one_integer_or_another_try(n):
    """All 2^w patterns of the bits used: each integer has exactly one, the others draw again."""
    width = (n - 1).bit_length()
    for draw in (draw_uniform_integer, lambda n, bits: int(draw_many_uniform_integers(n, 1, bits)[0])):
        firsts = []
        for pattern in range(2**width):
            low, high = pattern << (64 - width), ((pattern + 1) << (64 - width)) - 1
            if pattern < n:
                assert draw(n, script(low, fill=0)) == draw(n, script(high, fill=0)) == pattern
                firsts.append(pattern)
            else:
                assert draw(n, script(high, 0)) == 0
                with pytest.raises(EOFError):
                    draw(n, script(high))
        assert firsts == list(range(n))


def test_integers_of_any_size():
    assert draw_uniform_integer(2**100, script(1, ONES)) == (1 << 36) + (2**36 - 1)
    for n in (2**63 - 1, 2**63, 2**63 + 1, 2**64, 2**200):
        draws = uniform_integer(n, 200)
        assert all(0 <= int(draw) < n for draw in draws)
        assert max(int(draw) for draw in draws) > n // 2  # fails once in 2²⁰⁰
        assert draws.dtype == (np.int64 if n <= 2**63 else object)


@pytest.mark.parametrize("dtype", [np.int64, np.uint16, object])
def test_as_many_words_give_each_integer_below_each_of_many_bounds(dtype):
    """Words below 2⁶⁴ mod n draw again; the others, a multiple of n, give 0 … n-1 in turn, from first to last."""
    bounds = [1, 2, 3, 5, 8, 100, 129, 256]
    rest = [2**64 % n for n in bounds]
    for at in range(300):
        again = [at < few for few in rest]
        for words in ([few + at for few in rest], [ONES - at] * 8):
            drawn = draw_uniform_integers(np.array(bounds, dtype=dtype), script(*words))
            assert drawn.tolist() == [word % n for word, n in zip(words, bounds, strict=True)]
        source = script(*[at] * 8, *[ONES] * sum(again))
        expected = [(ONES if more else at) % n for more, n in zip(again, bounds, strict=True)]
        assert draw_uniform_integers(np.array(bounds, dtype=dtype), source).tolist() == expected
        assert source.taken == 8 + sum(again)


def test_bounds_of_any_size():
    for bounds in ([2**63 - 1, 1, 2**62 + 1], [2**63, 3], [2**200, 1, 2**64], []):
        draws = uniform_integers(bounds)
        assert all(0 <= int(draw) < n for draw, n in zip(draws, bounds, strict=True))
        assert draws.dtype == (object if bounds and max(bounds) >= 2**63 else np.int64)
    # Word for word as single draws.
    assert draw_uniform_integers(np.array([2**100, 2**70], dtype=object), script(1, ONES, 2**63, 0)).tolist() == [
        draw_uniform_integer(2**100, script(1, ONES)),
        draw_uniform_integer(2**70, script(2**63, 0)),
    ]
    for bad in ([0], [3, -1], [1.5], np.array([1.0]), np.array([[1]]), [True], ["3"]):
        with pytest.raises(InvalidValueError, match="'bounds'"):
            uniform_integers(bad)


@pytest.mark.parametrize("width", [0, 1, 62, 63, 64, 65, 128, 200])
def test_many_integers_of_some_bits(width):
    columns = [random_words(20) for _ in range(-(-width // 64))]
    many = draw_many_bits(width, 20, script(*(word for column in columns for word in column)))
    assert many.dtype == (np.int64 if width < 64 else object)
    assert many.tolist() == [draw_bits(width, script(*(column[at] for column in columns))) for at in range(20)]


def test_permutations_of_every_pattern():
    orders = [tuple(draw_permutation(3, script(*words)).tolist()) for words in ((1, 2, 3), (3, 1, 2), (2, 3, 1))]
    assert orders == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    # Equal words are drawn again: order among them must not come from their places.
    assert draw_permutation(2, script(5, 5, 9, 4)).tolist() == [1, 0]
    assert permutation(0).tolist() == []
    assert permutation(1).tolist() == [0]
