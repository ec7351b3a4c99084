"""`hush.median(x)` and `SELECT MEDIAN(x)` are one mechanism: the same law, by enumeration, and the same bars."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pyarrow as pa
import pytest
from test_quantile_pairs import POINTS, law

import hush
from hush.curator.opening import protect
from hush.mechanisms import Quantile
from hush.mechanisms.grouped import Sparse
from hush.mechanisms.grouped.quantile import PointRuns

WORLDS = [list(data) for size in range(1, 5) for data in combinations_with_replacement(range(POINTS), size)]
QUESTIONS = {"MEDIAN(x)": "0.5", "QUANTILE(x, 0.25)": "0.25", "QUANTILE(x, 0.9)": "0.9", "MIN(x)": 0, "MAX(x)": 1}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("epsilon", ["0.4", "5"])
def test_every_small_column_has_the_same_law_in_a_question(question: str, epsilon: str) -> None:
    """All columns of up to four rows on a line of four points, each a group of one question."""
    rows = [(number, value) for number, data in enumerate(WORLDS) for value in data]
    frame = pa.table({"g": [number for number, _ in rows], "x": [value for _, value in rows]})
    bounds = {"g": (0, len(WORLDS) - 1), "x": (0, POINTS - 1)}
    with protect(frame, bounds=bounds, budget=100) as curator:
        desk, plan = curator.plan(f"SELECT g, {question} AS v FROM data GROUP BY g", epsilon=epsilon)
        exact = desk.engine.run(plan)
    assert [key for (key,) in exact.keys] == list(range(len(WORLDS)))
    alone = Quantile(q=QUESTIONS[question], bounds=(0, POINTS - 1), epsilon=epsilon, step=1)
    asked = plan.draws[0].mechanism
    assert asked == alone.mechanism
    assert asked.event == alone.event
    for data, histogram in zip(WORLDS, exact.histograms[0], strict=True):
        mine = alone.histogram(np.array(data), alone.mechanism)
        counted = np.repeat(histogram.bins, histogram.weights).tolist()
        assert np.repeat(mine.bins, mine.weights).tolist() == counted
        np.testing.assert_array_equal(law(asked, counted), law(alone.mechanism, data))


@pytest.mark.parametrize("q", ["0.5", "0.1", "0.999", 0, 1])
@pytest.mark.parametrize("epsilon", ["0.5", "3", "200"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_values_beyond_reach_need_only_be_counted(q: object, epsilon: str, neighbours: str) -> None:
    """The runs of points and their distances are those of the whole histogram."""
    rng = np.random.default_rng(7)
    alone = Quantile(q=q, bounds=(0, 10**6), epsilon=epsilon, neighbours=neighbours, step=1)
    mechanism, lumped = alone.mechanism, 0
    for rows in (10, 3000, 200_000):
        data = np.where(rng.random(rows) < 0.3, 250_000, rng.integers(0, 10**6, rows))
        some = alone.histogram(data, mechanism)
        every = Sparse.counted(data)
        lumped += len(some.bins) < len(every.bins)
        found = [PointRuns(mechanism, [one]) for one in (some, every)]
        assert [int(one.targets[0]) for one in found] == [mechanism.target(rows)] * 2
        for near, far in zip(*(one._least for one in found), strict=True):
            assert near.tolist() == far.tolist()
        ties = mechanism.ties
        for shift in {0, -mechanism.spread, mechanism.spread, *([] if ties is None else [ties.spread])}:
            for mine, theirs in zip(*(one.runs(shift) for one in found), strict=True):
                np.testing.assert_array_equal(mine, theirs)
    assert lumped


def test_the_bar_of_a_column_is_that_of_a_question() -> None:
    """Half-widths of both, drawn some hundred times: their means are alike, to six standard errors (1e-6 or less)."""
    data = np.random.default_rng(3).integers(0, 1001, 3000)
    with protect(pa.table({"x": data}), bounds={"x": (0, 1000)}, budget=10**6) as curator:
        asked = [
            curator.ask(f"SELECT MEDIAN(x) FROM data WHERE x <> {2000 + at}", epsilon=1, fresh=True)
            .columns[0]
            .errors[0]
            for at in range(100)
        ]
    alone = [hush.median(data, bounds=(0, 1000), epsilon=1, step=1).error() for _ in range(400)]
    spread = np.sqrt(np.var(asked) / len(asked) + np.var(alone) / len(alone))
    assert abs(np.mean(asked) - np.mean(alone)) <= 6 * spread


def test_beyond_the_confidence_that_was_drawn_only_the_bounds_are_known() -> None:
    found = hush.median(np.arange(1000), bounds=(0, 1000), epsilon=1, confidence="0.9")
    assert found.error("0.9") == found.error("0.5") < 100
    assert found.error("0.95") == max(found.value, 1000 - found.value)
    several = hush.quantiles(np.arange(1000), q=["0.2", "0.6"], bounds=(0, 1000), epsilon=1)
    assert several.error() < 200 < several.error(Fraction(99, 100))
