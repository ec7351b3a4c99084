"""The quantile mechanism draws the law on paper, also where the points beyond its window win the race."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hush.mechanisms import Quantile, quantile, rank

DRAWS = 6_000


def law_on_paper(data, law, points):
    t = law.q * len(data)
    scores = [-max(sum(x < y for x in data) - t, t - sum(x <= y for x in data), 0) for y in range(points)]
    weights = np.exp([float(law.rate * score) for score in scores])
    return weights / weights.sum()


@pytest.mark.parametrize("margin", [20.0, -2.7])
@pytest.mark.parametrize(
    ("data", "q"), [([2, 2, 3, 9, 9, 9, 10, 14, 14, 15, 1, 0], "0.5"), ([7] * 9 + [8, 1, 12], Fraction(1, 4))]
)
def test_the_law(monkeypatch, margin, data, q):
    # A negative margin leaves a window of a few ranks, so that the rejection beyond it is at work in every other draw.
    monkeypatch.setattr(rank, "_MARGIN", margin)
    law = Quantile(q=q, bounds=(0, 15), epsilon="0.7", step=1)
    drawn = np.bincount([law.release(np.array(data)) for _ in range(DRAWS)], minlength=16) / DRAWS
    # Hoeffding over 2·16 one-sided events: false-alarm probability below 1e-6.
    assert np.abs(drawn - law_on_paper(data, law, 16)).max() <= math.sqrt(math.log(32 / 1e-6) / (2 * DRAWS))


def test_no_data_draws_any_point():
    law = Quantile(bounds=(0, 3), epsilon=1, step=1)
    drawn = np.bincount([law.release([]) for _ in range(4000)], minlength=4) / 4000
    assert np.abs(drawn - 0.25).max() <= math.sqrt(math.log(8 / 1e-6) / 8000)
    assert quantile([], q="0.5", bounds=(0, 1), epsilon=1).unit == "ranks"
