"""Histograms of many groups in one: as a sequence they are what went in, whatever is taken of them."""

import numpy as np
import pytest

from hush.engines.protocol import Histograms, Sparse


def sparse(*bins: int, cells: bool = False) -> Sparse:
    numbers = np.array(bins, dtype=np.int64)
    return Sparse(bins=numbers, weights=10 * numbers + 1, cells=numbers + 2 if cells else None)


def same(one: Sparse, other: Sparse) -> bool:
    ones = np.ones(len(one.bins), dtype=np.int64)
    mine, theirs = (ones if item.cells is None else item.cells for item in (one, other))
    return bool(
        np.array_equal(one.bins, other.bins)
        and np.array_equal(one.weights, other.weights)
        and np.array_equal(mine, theirs)
    )


GROUPS = [sparse(), sparse(3, 5), sparse(1, cells=True), sparse(), sparse(0, 2, 9, cells=True), sparse(7)]


def test_a_sequence_of_histograms():
    every = Histograms.of(GROUPS)
    assert len(every) == 6
    assert Histograms.of(every) is every
    assert all(same(one, other) for one, other in zip(every, GROUPS, strict=True))
    assert same(every[-2], GROUPS[-2])
    assert every.groups.tolist() == [1, 1, 2, 4, 4, 4, 5]
    for wrong in (6, -7):
        with pytest.raises(IndexError):
            every[wrong]


@pytest.mark.parametrize("at", [[], [0], [4, 1], [5, 5, 0, 2, 4], [0, 1, 2, 3, 4, 5]])
def test_some_of_them_in_any_order(at):
    taken = Histograms.of(GROUPS).take(at)
    assert [same(one, GROUPS[place]) for one, place in zip(taken, at, strict=True)] == [True] * len(at)


def test_none_at_all():
    none = Histograms.of([])
    assert len(none) == len(none.take([])) == 0
    assert none.joined.bins.dtype == np.int64
    bare = Histograms(joined=sparse(3, 4), edges=np.array([0, 2]))
    assert bare[0].cells is None
