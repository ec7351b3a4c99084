"""Discrete Gaussian draws: the table adds up exactly, and every acceptance probability is the ideal one."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from enumeration import arb, bracket, contains, precise, random_words, script

from hush.noise import discrete_gaussian, gaussian
from hush.noise.gaussian import BLOCKS, draw_many, draw_one, staircase

SMALL = ["1e-6", "0.3", "1", "5", "31.9", "32", "63.99", "500"]
SIGMAS = [*SMALL, "1e9", "1e12", "7e17", "1.3e18", "1e27", "1e155", "1e400"]
COLUMN = 2**55


def stairs_of(sigma):
    return staircase(Fraction(sigma) ** 2)


def scalar(stairs, block, offset, digits, fill):
    """Return whether k = block·W + offset is accepted by the uniform that begins with the digits."""
    near = min(stairs.width_bits, 55)
    word = (digits << near) | (offset & (2**near - 1))
    far = [part << 64 - bits for part, bits in far_parts(offset >> near, stairs.width_bits - near)]
    k, accepted = gaussian._draw_in_block(stairs, block, script(word, *far, fill=fill))
    assert k == (block << stairs.width_bits) + offset
    return accepted


def far_parts(value, bits):
    """Split an offset as `draw_bits` will ask for it: 64 bits at a time, the highest first."""
    parts = []
    while bits:
        take = min(64, bits)
        parts.append(((value >> (bits - take)) & (2**take - 1), take))
        bits -= take
    return parts


def vector(stairs, block, offset, digits, fill):
    if stairs.width_bits > 55:  # such vectors are loops of single draws
        return scalar(stairs, block, offset, digits, fill)
    word = (digits << stairs.width_bits) | offset
    values, rejected = gaussian._propose(stairs, 1, script(word_for(stairs, block), word, fill=fill))
    assert values[0] == (block << stairs.width_bits) + offset
    return not len(rejected)


def word_for(stairs, block):
    """Return a first word that proposes the block, with a positive sign."""
    return (block << 56) | 0 if stairs.threshold[block] else next(
        (column << 56) | (COLUMN - 1) << 1 for column in range(256) if stairs.alias[column] == block
    )  # fmt: skip


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_alias_table_adds_up_exactly(sigma):
    stairs = stairs_of(sigma)
    weight = [0] * 256
    for column in range(256):
        kept = int(stairs.threshold[column])
        assert 0 <= kept <= COLUMN
        weight[column] += kept
        weight[int(stairs.alias[column])] += COLUMN - kept
    assert tuple(weight) == stairs.heights
    assert sum(weight) == 2**63
    assert 0 < weight[BLOCKS] < 2**28


@pytest.mark.parametrize("sigma", ["5", "500", "1e12", "7e17", "1e27"])
def test_the_program_reads_the_table_as_written(sigma, monkeypatch):
    """In every column the word below the threshold gives the column, and the word at it the alias."""
    stairs = stairs_of(sigma)
    monkeypatch.setattr(gaussian, "_draw_tail", lambda stairs, _bits: (BLOCKS << stairs.width_bits, True))
    for column in range(256):
        kept = int(stairs.threshold[column])
        for rest, block in ((kept - 1, column), (kept, int(stairs.alias[column]))):
            if 0 <= rest < COLUMN and stairs.rate[block] * math.exp(-stairs.half_precision * block**2) > 1e-30:
                for sign in (0, 1):
                    word = (column << 56) | (rest << 1) | sign
                    expected = (-1) ** sign * block << stairs.width_bits
                    assert draw_one(stairs, script(word, fill=0)) == expected
                    if stairs.width_bits <= 55:
                        values, rejected = gaussian._propose(stairs, 1, script(word, fill=0))
                        assert (values.tolist(), len(rejected)) == ([expected], 0)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_heights_cover_their_blocks(sigma):
    """λ·max q ≤ h_j, in balls: an acceptance probability above 1 would bend the law."""
    stairs = stairs_of(sigma)
    for block in (*range(0, BLOCKS, 6), BLOCKS - 1):
        k = block << stairs.width_bits
        peak = (-arb(Fraction(k * k) / (2 * stairs.variance))).exp() / (2 if not k and not stairs.width_bits else 1)
        assert stairs.scale * peak <= stairs.heights[block]


@pytest.mark.parametrize("draw", [scalar, vector])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_acceptance_lies_between_two_rationals(sigma, draw):
    """P[accept k] = λ·q(k)/h_j, so that P[propose and accept k] = q(k)·λ/(2⁶³·W) for every k alike."""
    stairs = stairs_of(sigma)
    w = stairs.width_bits
    digits = 64 - min(w, 55)
    for block in (0, 1, 2, 17, 40, 100, 200, 254):
        for offset in {0, 1 % 2**w, 2**w // 3, 2**w - 1}:
            k = (block << w) + offset

            def truth(k=k, block=block):
                weight = (-arb(Fraction(k * k) / (2 * stairs.variance))).exp() / (1 if k else 2)
                return stairs.scale * weight / stairs.heights[block]

            if arb(Fraction(k * k) / (2 * stairs.variance)) > 3000:
                # The chance is below e⁻²⁹⁰⁰: any 64 digits but zeros reject.
                assert not draw(stairs, block, offset, 1, 0)
                continue
            bounds = bracket(lambda n, fill, block=block, offset=offset: draw(stairs, block, offset, n, fill), digits)
            assert contains(bounds, digits, truth), (block, offset)


def test_heights_that_are_shared_cover_all_that_share_them():
    """W·h_tail·(1-g) ≥ λ·p(K), and λ·q ≤ h_j at the beginning of blocks, for the least and the greatest v of each."""
    for most in range(260, 1025, 4):
        scale, heights, *_ = gaussian._heights(Fraction(most), single=False)
        for less in ("0.001", "3.999"):
            assert staircase((most - Fraction(less)) * 4**7).heights == heights
        for scaled, width in product((Fraction(most) - 4, Fraction(most)), (2, 2**60)):
            with precise():
                step = 1 - (-arb(Fraction(BLOCKS) / (scaled * width))).exp()
                peak = (-arb(Fraction(BLOCKS**2) / (2 * scaled))).exp()
                assert width * heights[BLOCKS] * step > scale * peak
                for block in (0, 1, 31, 90, BLOCKS - 1):
                    assert scale * (-arb(Fraction(block**2) / (2 * scaled))).exp() <= heights[block]


def test_the_law_of_small_sigma_in_full():
    """σ = 1: exact rational bounds on P[X = k] for all |k| ≤ 12, from the program's table and its decisions."""
    stairs = stairs_of(1)
    low, high = {}, {}
    for k in range(13):
        surely, possibly = bracket(lambda n, fill, k=k: scalar(stairs, k, 0, n, fill), 64)
        # k = 0 is reached with both signs.
        weight = Fraction(stairs.heights[k] * (1 if k else 2), 2**64)
        low[k], high[k] = weight * Fraction(surely, 2**64), weight * Fraction(possibly, 2**64)
    rest = Fraction(1, 2**100)  # beyond 12: less than 2·Σ e^(-k²/2) < 2⁻¹⁰⁰
    total_low = low[0] + 2 * sum(low[k] for k in range(1, 13))
    total_high = high[0] + 2 * sum(high[k] for k in range(1, 13)) + rest
    with precise():
        norm = sum((-arb(k * k) / 2).exp() for k in range(-30, 31))
        for k in range(13):
            p = (-arb(k * k) / 2).exp() / norm
            lower, upper = low[k] / total_high, high[k] / total_low
            assert arb(lower) < p < arb(upper)
            assert upper - lower < Fraction(1, 2**60)


@pytest.mark.parametrize("sigma", ["0.3", "5", "31.9", "32", "63.99", "500", "1e9"])
def test_the_tail_keeps_the_same_constant(sigma, monkeypatch):
    stairs = stairs_of(sigma)
    start, width = BLOCKS << stairs.width_bits, 2**stairs.width_bits
    g = (-arb(start / stairs.variance)).exp()
    for excess in (0, 1, 3 * width, 20 * width):
        monkeypatch.setattr(
            gaussian, "draw_geometric", lambda law, _bits, e=excess: e if law.scale * start == stairs.variance else -1
        )

        def truth(excess=excess):
            k = start + excess
            p = (-arb(Fraction(k * k) / (2 * stairs.variance))).exp()
            return stairs.scale * p / (width * stairs.heights[BLOCKS] * (1 - g) * g**excess)

        def accepts(word, fill, excess=excess):
            magnitude, accepted = gaussian._draw_tail(stairs, script(word, fill=fill))
            assert magnitude == start + excess
            return accepted

        if arb(Fraction(start * start) / (2 * stairs.variance)) > 3000:
            assert not accepts(1, 0)
        else:
            assert contains(bracket(accepts, 64), 64, truth)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_table_float_level_and_fallback_agree_on_the_same_words(sigma):
    stairs = stairs_of(sigma)
    without_table = stairs._replace(sure=np.zeros(256, dtype=np.uint64))
    exactly = without_table._replace(rate=np.full(256, np.nan))
    near = min(stairs.width_bits, 55)
    blocks = range(0, 200, 3) if stairs.variance > 100 else range(3)
    for block in blocks:
        for word in random_words(4):
            offset = (word ^ (word >> 17) ^ random_words(1)[0]) % 2**stairs.width_bits
            tables = (stairs, without_table, exactly)
            fates = {draw(table, block, offset, word >> near, 77) for draw in (scalar, vector) for table in tables}
            assert len(fates) == 1


@pytest.mark.parametrize("sigma", ["500", "1e9", "1e12"])
def test_vectors_and_single_draws_give_the_same_of_the_same_words(sigma, monkeypatch):
    """Each draw of a vector, given its own words, is what a single draw makes of them, sign and all.

    One that its words leave open would take others: of 50 doubtful ones in a thousand, each with probability 2⁻²⁹.
    """
    stairs = stairs_of(sigma)
    monkeypatch.setattr(gaussian, "_draw_tail", lambda stairs, _bits: (BLOCKS << stairs.width_bits, True))
    columns = [random_words(1000) for _ in range(2)]
    values, rejected = gaussian._propose(stairs, 1000, script(*columns[0], *columns[1], fill=9))
    for at, value in enumerate(values.tolist()):
        # A single draw that is rejected begins anew: with words for block 0 and offset 1, which accept at once.
        one = draw_one(stairs, script(*(column[at] for column in columns), 0, 1, fill=9))
        assert one == (1 if at in rejected else value)


def test_a_tail_that_does_not_fit_makes_python_integers(monkeypatch):
    """At σ = 7e17 all blocks end below 2⁶³, and the tail begins there: nothing wraps."""
    stairs = stairs_of("7e17")
    assert stairs.width_bits <= gaussian._OFFSET_BITS
    word = word_for(stairs, BLOCKS)
    monkeypatch.setattr(gaussian, "_draw_tail", lambda _stairs, _bits: (2**70, True))
    words = [word, word | 1, *[0] * 41, *[5] * 43, *[0] * 43]  # of 43 proposals, one of them to spare
    many = draw_many(stairs, 42, script(*words, fill=0))
    assert many.dtype == object
    assert many[:2].tolist() == [2**70, -(2**70)]
    assert draw_many(stairs, 1, script(word, fill=0)).tolist() == [2**70]
    assert draw_many(stairs, 42, script(*[0] * 43, *[5] * 43, *[0] * 43)).dtype == np.int64


def test_variance_or_sigma():
    assert isinstance(discrete_gaussian(variance="1/3"), int)
    assert discrete_gaussian(2, (2, 2)).shape == (2, 2)
    assert discrete_gaussian(sigma=2, size=0).shape == (0,)
    assert discrete_gaussian("1e20", 3).dtype == object
    assert discrete_gaussian("1e-4000") == 0
    assert staircase(Fraction(2)) is staircase(Fraction(2))
