"""Noisy distributions: what neighbours change in a whole tree, by enumeration; one noise a node; honest intervals."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from hush.accounting import ApproximateDPEvent, ZCDPEvent
from hush.core import InvalidValueError
from hush.mechanisms.grouped import Contribution, GroupedDistribution, Sparse, distribution
from hush.mechanisms.grouped.noise import squared_sensitivity

MEDIAN = [(Fraction(1, 2), 0.95)]
BINS, ROWS = 5, 2


def nodes(law: GroupedDistribution, groups: tuple[tuple[int, ...], ...]) -> Counter[tuple[int, int, int]]:
    """Return the exact weight of every node of the trees of all groups, given each group's rows by their bins."""
    return Counter(
        (group, level, row // law.children**level)
        for group, rows in enumerate(groups)
        for row in rows
        for level in range(law.levels)
    )


def distances(law: GroupedDistribution, one: object, other: object) -> tuple[int, int]:
    """Return how far the trees of two data sets are apart, in ℓ₁ and in ℓ₂, squared."""
    mine, theirs = nodes(law, one), nodes(law, other)
    apart = [mine[node] - theirs[node] for node in mine.keys() | theirs.keys()]
    return sum(map(abs, apart)), sum(change * change for change in apart)


def units(groups: int) -> list[tuple[tuple[int, ...], ...]]:
    """Return everything that one unit can be: at most two rows in each of so many groups."""
    within = [rows for many in range(ROWS + 1) for rows in combinations_with_replacement(range(BINS), many)]
    return list(product(within, repeat=groups))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("replaced", [False, True])
def test_no_unit_moves_the_tree_further_than_is_charged(groups: int, replaced: bool) -> None:
    """Every unit that comes or goes, and every one that replaces another, over all trees of a tiny line."""
    contribution = Contribution(groups=groups, units=2 if replaced else 1)
    gaussian = GroupedDistribution(bins=BINS, rho=Fraction(1), rows=ROWS, contribution=contribution)
    object.__setattr__(gaussian, "children", 2)  # a tree of three levels on five bins
    object.__setattr__(gaussian, "levels", 3)
    every, nothing = units(groups), ((),) * groups
    pairs = product(every, every) if replaced and groups == 1 else ((unit, nothing) for unit in every)
    if replaced and groups == 2:
        pairs = product(every[::7], every[::5])
    found = [distances(gaussian, one, other) for one, other in pairs]
    most_l1 = gaussian.levels * contribution.cells * gaussian.span
    most_l2 = gaussian.levels * squared_sensitivity(gaussian.span, contribution)
    assert max(l1 for l1, _ in found) <= most_l1
    assert max(l2 for _, l2 in found) <= most_l2
    if not replaced:  # the bounds are reached: by two rows in one bin of every group
        assert max(found) == (most_l1, most_l2)


@pytest.mark.parametrize("groups", [1, 3])
def test_events_are_what_the_noise_of_all_levels_costs(groups: int) -> None:
    contribution = Contribution(groups=groups)
    gaussian = GroupedDistribution(bins=1000, rho=Fraction(1, 40), rows=4, contribution=contribution)
    changed = gaussian.levels * groups * 4**2
    assert gaussian.event == ZCDPEvent(rho=Fraction(changed) / (2 * gaussian.noise.sigma**2))
    assert Fraction(1, 41) < Fraction(changed) / (2 * gaussian.noise.sigma**2) <= Fraction(1, 40)
    laplace = GroupedDistribution(bins=1000, laplace=Fraction(1), rows=4, contribution=contribution)
    assert laplace.noise.scale == laplace.levels * groups * 4
    replaced = GroupedDistribution(bins=1000, laplace=Fraction(1), contribution=Contribution(groups=groups, units=2))
    (event, times), *_ = replaced.event.parts
    assert (event, times) == (ApproximateDPEvent(epsilon=Fraction(1, replaced.levels)), replaced.levels)


def test_a_node_has_one_noise_for_all_quantiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two draws for one node would tell more than was paid for."""
    drawn: list[int] = []

    def counting(_: object, size: int) -> np.ndarray:
        drawn.append(size)
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(distribution.GroupedLaplace, "draw", counting)
    law = GroupedDistribution(bins=100, laplace=Fraction(1))
    parts = [(Fraction(tenth, 10), 0.95) for tenth in range(1, 10)]
    law.release([Sparse.counted([50] * 10)] * 3, parts)
    assert len(drawn) == law.levels
    assert drawn[0] == 3 * -(-100 // law.children ** (law.levels - 1))
    assert sum(drawn) <= 3 * sum(-(-100 // law.children**level) for level in range(law.levels))


def test_noise_does_not_depend_on_what_is_asked_together() -> None:
    """All quantiles of a group see one tree: where one interval is everything, so are the others of an empty group."""
    law = GroupedDistribution(bins=1000, rho=Fraction(1, 1000))
    empty = Sparse(bins=np.zeros(0, np.int64), weights=np.zeros(0, np.int64))
    for found in law.release([empty] * 200, [(Fraction(1, 4), 0.95), (Fraction(3, 4), 0.95)]):
        assert np.mean(found.half >= 400) > 0.9


@pytest.mark.parametrize("bins", [1, 2, 3, 64, 65, 1000, 2**20])
def test_at_a_large_price_quantiles_are_exact(bins: int) -> None:
    rows = np.arange(0, bins, max(1, bins // 50))
    law = GroupedDistribution(bins=bins, laplace=Fraction(10**6))
    for part in (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)):
        (found,) = law.release([Sparse.counted(rows)], [(part, 0.95)])
        exact = rows[math.ceil(part * len(rows)) - 1]
        gap = max(1, bins // 50)  # where a rank falls between two rows any point between them will do
        assert exact - 1 <= found.index[0] <= exact + gap, (bins, part)


def test_bins_of_many_points_reach_to_the_end_of_the_line() -> None:
    law = GroupedDistribution(bins=10, points=95, cell=10, laplace=Fraction(10**6))
    (found,) = law.release([Sparse.counted([9] * 5)], MEDIAN)
    assert (found.index.tolist(), found.half.tolist()) == ([92], [2])  # 90 … 94


@pytest.mark.parametrize("step", [1, 50])
def test_intervals_hold_on_lattices_and_lines(step: int) -> None:
    """Of 2,000 groups at least 93 % hold; fewer than seen with probability below 5e-7."""
    rng = np.random.default_rng(7)
    rows = np.clip(rng.normal(4000, 900, 3000), 0, 9999).astype(int) // step * step
    law = GroupedDistribution(bins=10_000, rho=Fraction(1, 40))
    parts = [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]
    for part, found in zip(parts, law.release([Sparse.counted(rows)] * 2000, [(p, 0.95) for p in parts]), strict=True):
        exact = np.sort(rows)[math.ceil(part * len(rows)) - 1]
        holds = np.count_nonzero(np.abs(found.index - exact) <= found.half)
        assert holds >= 1801, (part, holds)  # binom.ppf(5e-7, 2000, 0.93)


def test_groups_are_told_apart_and_stay_in_order() -> None:
    law = GroupedDistribution(bins=100, laplace=Fraction(10**6))
    groups = [Sparse.counted([place] * 3) for place in range(100)]
    (found,) = law.release(groups, MEDIAN)
    assert found.index.tolist() == list(range(100))
    assert law.release([], MEDIAN)[0].index.tolist() == []


def test_weights_beyond_64_bits_are_added_exactly() -> None:
    law = GroupedDistribution(bins=4, laplace=Fraction(10**6), row_weight=2**20, rows=1)
    heavy = Sparse(bins=np.array([0, 1, 2, 3]), weights=np.array([2**62, 2**62, 2**62 - 1, 2**40]))
    (found,) = law.release([heavy, heavy], MEDIAN)
    assert found.index.tolist() == [1, 1]


def test_one_price_is_given() -> None:
    for prices in ({}, {"rho": Fraction(1), "laplace": Fraction(1)}):
        with pytest.raises(InvalidValueError):
            GroupedDistribution(bins=4, **prices)
