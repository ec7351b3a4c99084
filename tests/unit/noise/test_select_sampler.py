"""Races: the flip between two items is where the ideal law puts it, and no race hangs."""

import importlib
from fractions import Fraction

import numpy as np
import pytest
from enumeration import ONES, arb, bracket, contains, random_words, script

from hush.core import InvalidValueError
from hush.noise import select, select_each
from hush.noise.race import draw_each, draw_order, order_exactly, prepare

CASES = [
    ([0, 0], "1", None), ([3, 5], "0.5", None), ([5, 3], "0.5", None), ([0, "1/3"], "2", None), ([0, 40], "1", None),
    ([0, 1], "1", [7, 2]), ([0, 1], "1", [1, 10**400]), ([2**64 - 1, 2**64 - 2], "1", None), ([0, "1e-400"], "1", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("scores", "rate", "weights", "race"),
    # Permute-and-flip has no weights.
    [(*case, race) for case in CASES for race in ("gumbel", "exponential") if race == "gumbel" or not case[2]],
)
def test_the_flip_point_lies_between_two_words(scores, rate, weights, race, monkeypatch):
    """Fix the uniform of item 1 and count the words of item 0 that win, by bisection on the program."""
    field = prepare(scores, rate, weights, race)
    gap = arb((Fraction(scores[0]) - Fraction(scores[1])) * Fraction(rate))
    m0, m1 = weights or (1, 1)

    def ordered(field, items, bits):
        """Let item 0 be refined first, so that the script knows whose words it hands out."""
        return order_exactly(field, sorted(items), bits)

    monkeypatch.setattr(importlib.import_module("hush.noise.race"), "order_exactly", ordered)
    for other in (2**63, 2**63 + 12345, 2**64 - 2**50, 2**41, 2**57, 2**64 - 2**40 + 3):

        def wins(word, fill, other=other):
            # Item 1 is exactly in the middle of its interval.
            return draw_order(field, 1, script(word, other, fill, 2**63, *[fill, 0] * 40)) == [0]

        def truth(other=other):
            uniform = arb(Fraction(2 * other + 1, 2**65))
            if race == "gumbel":
                return 1 - ((1 - uniform).log() * gap.exp() * m0 / m1).exp()
            return uniform * gap.exp()  # log U0 < log U1 + c(s0 - s1)

        flip = truth()
        if flip < 1 and flip * arb(2**64) > 1 and 1 - flip > arb(Fraction(1, 2**60)):
            assert contains(bracket(wins, 64), 64, truth), other


@pytest.mark.parametrize("race", ["gumbel", "exponential"])
def test_fast_level_and_fallback_agree_on_the_same_words(race):
    field = prepare([3, 1, 4, 1, 5, 9, 2, 6], "0.25", None, race)
    blind = field._replace(slack=np.full(8, np.inf))
    for _ in range(200):
        words = random_words(8)
        for count in (1, 3, 8):
            assert draw_order(field, count, script(*words, fill=5)) == draw_order(blind, count, script(*words, fill=5))


def test_short_words_and_words_near_one_are_settled_by_the_fallback():
    for race in ("gumbel", "exponential"):
        field = prepare([0, 0, 0], 1, None, race)
        for words in (
            [3, 2, 1],
            [2**64 - 3, 2**64 - 2, 2**64 - 9],
            [2**40, 2**41, 7],
            [2**64 - 2**54, 2**64 - 2**55, 9],
        ):
            expected = sorted(range(3), key=lambda at: words[at])
            assert draw_order(field, 3, script(*words, fill=2**63)) == expected


def test_several_races_at_once_are_those_one_by_one():
    """On the same words; 40 random draws of 4 races, then words that only the fallback can settle."""
    scores, weights, sizes = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3], [1, 9, 2, 6, 0, 3, 0, 7, 2, 5], [1, 4, 3, 2]
    field = prepare(scores, "0.25", weights, "gumbel")
    blind = field._replace(slack=np.full(10, np.inf))
    hard = [[2**63] * 10, [3, 2, 1, 5, 4, 9, 8, 7, 6, 0], [ONES - at for at in range(10)]]
    for words in [*(random_words(10) for _ in range(40)), *hard]:
        expected, begin = [], 0
        for size in sizes:
            part = slice(begin, begin + size)
            alone = prepare(scores[part], "0.25", weights[part], "gumbel")
            expected += [begin + at for at in draw_order(alone, 1, script(*words[part], fill=5))]
            begin += size
        for one in (field, blind):
            assert draw_each(one, np.array(sizes), script(*words, fill=5)).tolist() == expected
    products = [10**30, 0, 2**63 - 1, 1, 7, 2, 3, 10**12, 1, 1]
    for kind in (object, np.int64):  # products need not fit, whatever their factors are
        times = np.array([min(one, 2**63 - 1) for one in products] if kind is np.int64 else products, dtype=kind)
        field = prepare(scores, "0.25", weights, "gumbel", [times])
        product = [weight * many for weight, many in zip(weights, times.tolist(), strict=True)]
        same = prepare(scores, "0.25", product, "gumbel")
        for words in [*(random_words(10) for _ in range(40)), *hard]:
            for one in (field, field._replace(slack=np.full(10, np.inf))):
                found, expected = (draw_each(two, np.array(sizes), script(*words, fill=5)) for two in (one, same))
                assert found.tolist() == expected.tolist()
    for arguments, parameter in (
        ({"times": [[1, 1]]}, "times"),
        ({"times": [[1, 1, 1], [1, -1, 1]]}, "times"),
        ({"times": [[1, 0, 0]], "weights": [0, 1, 1]}, "weights"),
        ({"sizes": [2, 2]}, "sizes"),
        ({"sizes": [3, 0]}, "sizes"),
        ({"sizes": [2, 1], "weights": [0, 0, 1]}, "weights"),
    ):
        with pytest.raises(InvalidValueError) as refusal:
            select_each(**{"scores": [1, 2, 3], "rate": 1, "weights": [1, 1, 1], "sizes": [3], **arguments})
        assert refusal.value.parameter == parameter


def test_items_without_weight_never_run_and_never_hang():
    """With one runner whose word is near one, all upper ends were infinite and the race waited for log 0."""
    field = prepare([5, 3], 1, [0, 7], "gumbel")
    for word in (ONES, 2**64 - 2**50, 2**63, 2**42, 1):
        for other in (0, ONES, 2**63):
            assert draw_order(field, 1, script(other, word, fill=1)) == [1]
    assert {select([5, 3, 0], weights=[0, 7, 0]) for _ in range(2000)} == {1}
    assert sorted(select([9, 1, 2], count=2, weights=[0, 1, 1]).tolist()) == [1, 2]
    with pytest.raises(InvalidValueError, match="'count'"):
        select([9, 1, 2], count=3, weights=[0, 1, 1])


def test_keys_that_agree_as_floats_are_still_ordered():
    """Sorted by floats, two keys near 10¹⁷ tie, and an order once wrong stayed wrong for ever."""
    for race in ("gumbel", "exponential"):
        field = prepare([0, -(10**17), -(10**17) - 1], 1, None, race)
        for words in ([2**63] * 3, [2**63, 2**63, 2**62], [2**63, 2**62, 2**63], random_words(3)):
            order = draw_order(field, 3, script(*words, fill=9))
            assert order[0] == 0
            assert sorted(order) == [0, 1, 2]
    equal = prepare([0, 0], 1, None, "gumbel")
    # The same 64 bits; the next word decides.
    assert order_exactly(equal, [(0, 2**63), (1, 2**63)], script(2**62, 2**61)) == [1, 0]
    assert order_exactly(equal, [(0, 2**63), (1, 2**63)], script(2**61, 2**62)) == [0, 1]


@pytest.mark.parametrize("race", ["gumbel", "exponential"])
def test_gaps_of_any_size(race):
    assert select([0, 10**400], race=race) == 1
    assert select([0, 1], rate=10**400, race=race) == 1
    assert select(["1e-400", 0], rate="1e4000", race=race) == 0
    assert select([10**400, 0, 10**400 + 10**399], count=3, race=race).tolist() == [2, 0, 1]
    assert select([7, 7], rate=10**400, race=race) in {0, 1}
    assert select(np.array([2**64 - 1, 0], dtype=np.uint64), race=race) == 0
    assert select(np.array([-(2**63), 2**63 - 1]), race=race) == 1


def test_counts_and_types():
    assert select([4]) == 0
    assert isinstance(select([4, 5]), int)
    assert select([1, 2], count=0).tolist() == []
    assert sorted(select(range(50), count=50).tolist()) == list(range(50))
    # A float32 tenth is a tenth in an array as well.
    assert prepare(np.array([0.1, 0], dtype=np.float32), 1, None, "gumbel").rate == Fraction(1, 10)
    # float16 logarithms of narrow weights would be off by 2⁻¹¹.
    field = prepare([0, 0], 1, np.array([3, 100], dtype=np.int8), "gumbel")
    assert np.allclose(field.start, [-np.log(3.0), -np.log(100.0)], rtol=1e-15)


BAD = [
    ({"scores": []}, "scores"),
    ({"scores": [[1]]}, "scores"),
    ({"scores": None}, "scores"),
    ({"scores": [None]}, "scores"),
    ({"scores": [float("nan")]}, "scores"),
    ({"scores": [True]}, "scores"),
    ({"scores": [1], "rate": 0}, "rate"),
    ({"scores": [1], "rate": "-1"}, "rate"),
    ({"scores": [1], "rate": float("inf")}, "rate"),
    ({"scores": [1], "count": 2}, "count"),
    ({"scores": [1], "count": -1}, "count"),
    ({"scores": [1], "count": 1.0}, "count"),
    ({"scores": [1], "weights": [0]}, "weights"),
    ({"scores": [1], "weights": [-1]}, "weights"),
    ({"scores": [1], "weights": [1, 2]}, "weights"),
    ({"scores": [1], "weights": [0.5]}, "weights"),
    ({"scores": [1], "weights": []}, "weights"),
    ({"scores": [1, 2], "weights": [[1], [1, 2]]}, "weights"),
    ({"scores": [1], "weights": [1], "race": "exponential"}, "weights"),
    ({"scores": [1], "race": "cup"}, "race"),
]


@pytest.mark.parametrize(("arguments", "parameter"), BAD)
def test_bad_races(arguments, parameter):
    with pytest.raises(InvalidValueError) as refusal:
        select(**arguments)
    assert refusal.value.parameter == parameter
