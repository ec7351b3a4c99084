"""Boxes part all tuples, each of them once: every box and every number in it, where chance has no part."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from hush.mechanisms.grouped import quantile
from hush.mechanisms.grouped.quantile import TupleKind, draw_tuples


def kinds_of(rng, runs: int, big: bool) -> list[TupleKind]:
    """Return pairs and triples of runs, some of them empty, with distances that often tie."""
    found = []
    for sides, times in ((2, 3), (3, 1)):
        begin = rng.integers(-5, 5, (sides, runs))
        end = begin + rng.integers(0, 3, (sides, runs))
        end[:, 0] += 1  # there is a tuple
        distance = rng.integers(0, 4, (sides, runs))
        parts = [part.astype(object) if big else part for part in (distance, begin, end)]
        found.append(TupleKind(distance=parts[0], begin=parts[1], end=parts[2], times=times))
    return found


def tuples_on_paper(kind: TupleKind, runs: list[int]) -> Counter:
    """Count tuples, each with its largest distance."""
    sides = [
        [(point, distances[run]) for run in runs for point in range(begins[run], ends[run])]
        for distances, begins, ends in zip(kind.distance, kind.begin, kind.end, strict=True)
    ]
    return Counter((tuple(p for p, _ in one), max(d for _, d in one)) for one in product(*sides))


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_every_tuple_is_in_one_box_of_its_distance(monkeypatch, seed: int, big: bool) -> None:
    rng = np.random.default_rng(seed)
    group = np.array([0, 0, 1, 1, 1, 1, 2])
    firsts = [0, 2, 6]
    kinds = kinds_of(rng, len(group), big)
    for kind in kinds:
        kind.end[:, firsts] = kind.begin[:, firsts] + 1  # in every group
    races, limits = [], []
    turn, inside = np.zeros(3, dtype=np.int64), np.zeros(9, dtype=np.int64)  # what is drawn

    def select_each(scores, _rate, **more):
        races.append({"scores": scores, **more})
        return turn

    def uniform_integers(bounds):
        limits.append(bounds)
        return inside

    monkeypatch.setattr(quantile, "select_each", select_each)
    monkeypatch.setattr(quantile, "uniform_integers", uniform_integers)
    draw_tuples(group, kinds, Fraction(1))
    race = races[0]
    many = np.array([race["weights"], *race["times"]])
    begins = np.append(0, np.cumsum(race["sizes"]))
    assert begins[-1] == len(race["scores"]) == 5 * len(group)
    for at in range(3):
        found = [Counter(), Counter()]
        inside[:] = 0
        turn[:] = begins[:-1]
        for box in range(begins[at], begins[at + 1]):
            turn[at] = box
            for numbers in product(*(range(size) for size in many[:, box])):
                inside.reshape(3, 3)[:, at] = numbers
                which, points = draw_tuples(group, kinds, Fraction(1))
                assert limits[-1].reshape(3, 3)[:, at].tolist() == many[:, box].tolist()
                sides = len(kinds[which[at]].distance)
                found[which[at]][tuple(int(side[at]) for side in points[:sides]), -race["scores"][box]] += 1
        runs = np.flatnonzero(group == at).tolist()
        for kind, counted in zip(kinds, found, strict=True):
            expected = tuples_on_paper(kind, runs)
            times = kind.times if len(kind.distance) == 2 else 1
            assert counted == Counter({one: times * count for one, count in expected.items()})
            assert expected
