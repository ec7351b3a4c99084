"""A quantile's two points are drawn together at the price of one: the loss between all neighbours of small data."""

from itertools import combinations_with_replacement

import numpy as np
import pyarrow as pa
import pytest

from hush.curator.opening import protect
from hush.curator.picking import Lines
from hush.engines.base import Sparse
from hush.query.plan.choices import END_WEIGHT

POINTS = 4


def law(item, data) -> np.ndarray:
    """Return the logarithms of the probabilities of all pairs, "below all" first and "above all" last."""
    bins, weights = np.unique(np.array(data, dtype=np.int64), return_counts=True)
    lines = Lines(item, [Sparse(bins=bins, weights=weights.astype(np.int64))])
    sides = []
    for shift in (-item.spread, item.spread):
        _, begin, end, distance = lines.runs(shift)
        of_point = np.repeat(distance, end - begin)
        assert len(of_point) == POINTS
        assert begin[0] == 0
        sides.append(np.array([distance[0], *of_point, distance[-1]], dtype=float))
    sides = [sides[0][:-1], sides[1][1:]]
    m = np.log([END_WEIGHT * POINTS, *[1] * POINTS])
    logs = m[:, None] + m[::-1] - float(item.rate) * np.maximum.outer(*sides)
    # pairs of points whose middle is a point; of what lies beyond, half is even and half odd
    lower, upper = np.arange(POINTS + 1), np.arange(1, POINTS + 2)
    beyond = (lower == 0)[:, None] | (upper == POINTS + 1)
    logs -= np.where(beyond, np.log(2), 0)
    logs = logs[(np.add.outer(lower, upper) % 2 == 0) | beyond]
    return logs - np.log(np.exp(logs - logs.max()).sum()) - logs.max()


@pytest.mark.parametrize("question", ["MEDIAN(x)", "QUANTILE(x, 0.25)", "QUANTILE(x, 0.9)", "MIN(x)", "MAX(x)"])
@pytest.mark.parametrize("epsilon", [0.3, 2, 30])
def test_the_loss_of_a_pair_is_within_epsilon(question: str, epsilon: float) -> None:
    with protect(pa.table({"x": [1]}), bounds={"x": (0, POINTS - 1)}, budget=1000) as curator:
        _, how = curator._plan(f"SELECT {question} FROM data", epsilon=epsilon)
    (item,) = how.picks
    most = 0.0
    for size in range(5):
        for data in combinations_with_replacement(range(POINTS), size):
            mine = law(item, data)
            for more in range(POINTS):
                loss = law(item, sorted([*data, more])) - mine
                most = max(most, float(loss.max() - loss.min()))  # the range, which is what is charged
    assert 0.5 * epsilon < most <= epsilon * (1 + 1e-9)
