"""The mode is drawn by the exponential mechanism over all values of a list, however few of them occur."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest
from noise_checks import accepts, frequencies

from hush.mechanisms.grouped import Histograms, Sparse, mode
from hush.mechanisms.grouped.mode import draw_listed

RATE = Fraction(1, 3)


def sparse(weights: dict[int, int]) -> Sparse:
    bins = sorted(weights)
    return Sparse(bins=np.array(bins, np.int64), weights=np.array([weights[at] for at in bins], np.int64))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_value_counts_once_with_its_own_weight(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """For every set of occupied values: each candidate wins in turn, and each draw of a second stage falls in turn.

    A candidate of score s that counts m times has the probability m·e^(rate·s)/Z, and each of n second draws 1/n of
    that. Summed over all ways to it, a value must have 1·e^(rate·weight)/Z.
    """
    every = range(size)
    for occupied in chain.from_iterable(combinations(every, many) for many in range(size + 1)):
        weights = {at: 7 * (at + 1) % 4 for at in occupied}  # 0 is one of them
        found: dict[int, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        for winner in range(len(occupied) + 1):
            turn, turns = 0, 1
            while turn < turns:
                seen: list[tuple[int, int]] = []
                many: list[int] = []

                def race(scores, rate, *, weights, sizes, at=winner, seen=seen):
                    assert rate == RATE
                    assert sizes.tolist() == [len(scores)]
                    seen.append((int(scores[at]), int(weights[at])))
                    return np.array([at])

                def second(bounds, at=turn, many=many):
                    many.extend(bounds.tolist())
                    return np.full(len(bounds), at)

                monkeypatch.setattr(mode, "uniform_integers", second)
                monkeypatch.setattr(mode, "select_each", race)
                (value,) = draw_listed(RATE, Histograms.of([sparse(weights)]), size).tolist()
                ((score, times),) = seen
                turns = many[0] if many else 1
                if times:  # where all are occupied nothing is left to draw from
                    found[value][score] += Fraction(times, turns)
                turn += 1
        assert found == {at: {weights.get(at, 0): Fraction(1)} for at in every}


def test_draws_have_the_law_in_every_group() -> None:
    """Groups of five shapes, mixed: each value is drawn as often as the law on paper says."""
    size, draws, rate = 7, 60_000, Fraction(1, 2)
    shapes = [{}, {0: 3}, {6: 2, 1: 4, 2: 1}, {at: at % 3 for at in range(7)}, {3: 5, 4: 5, 5: 0}]
    mixed = Histograms.of([sparse(shape) for shape in shapes]).take(list(range(5)) * draws)
    drawn = draw_listed(rate, mixed, size).reshape(-1, 5)
    for group, shape in enumerate(shapes):
        weights = np.exp([float(rate) * shape.get(at, 0) for at in range(size)])
        assert accepts(frequencies(drawn[:, group], weights / weights.sum())), shape


def test_memory_follows_what_is_occupied() -> None:
    """A million values in a hundred thousand groups are no more than the three hundred thousand bins that occur."""
    groups, size = 100_000, 1_000_000
    bins = np.tile(np.array([5, 77_777, 900_000]), groups)
    every = Histograms(
        joined=Sparse(bins=bins, weights=np.full(len(bins), 100)), edges=np.arange(groups + 1, dtype=np.int64) * 3
    )
    tracemalloc.start()
    try:
        found = draw_listed(Fraction(1), every, size)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1000 * len(bins)  # bytes; all candidates would take 8·10¹¹
    assert np.isin(found, [5, 77_777, 900_000]).all()  # another has 10⁶·e⁻¹⁰⁰ in each group: below 10⁻³²
