"""The quantile mechanism draws the law on paper, also where the points beyond its window win the race."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from hush.curator import picking
from hush.curator.opening import protect
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


@pytest.mark.parametrize("fit", [picking._FIT, 0])
@pytest.mark.parametrize(
    ("question", "cut", "ends"),
    [
        ("MEDIAN(x)", None, 20),
        ("MEDIAN(x)", 12, 0),
        ("QUANTILE(x, 0.25)", None, 1),
        ("MIN(x)", 9, 0),
        ("MAX(x)", None, 20),
    ],
)
def test_the_law_of_a_question(monkeypatch, question, cut, ends, fit):
    """P[y, z] ∝ m(y)·m(z)·e^(-rate·max(d₁(y), d₂(z))) if y + z is even, distances cut at C.

    Below all points, for y, and above all, for z, m is ends·points, half of it even and half odd. Where nothing is said
    to fit into 64 bits, Python's integers give the same law.
    """
    monkeypatch.setattr(picking, "END_WEIGHT", ends)
    monkeypatch.setattr(picking, "_FIT", fit)
    data = 6 * [2, 2, 3, 9, 9, 9, 10, 14, 14, 15, 1, 0]
    with protect(pa.table({"x": data}), bounds={"x": (0, 15)}, budget=1) as curator:
        desk, how = curator._plan(f"SELECT {question} FROM data", epsilon="1.4")
        (item,), ((sparse,),) = how.picks, desk.engine.run(how).histograms
    if cut is not None:  # so near that it matters
        item = dataclasses.replace(item, cut=cut)
    n, b = len(data), item.choice.denominator
    inside = min(item.rank, n // 2)
    target = {"min": inside, "max": n - inside}.get(item.choice.kind.value)
    if target is None:
        target = item.choice.fraction.numerator * n
    distances = [
        [  # of "below all" and "above all" too
            min(max(b * sum(x < y for x in data) - aim, aim - b * sum(x <= y for x in data), 0), item.cut)
            for y in range(-1, 17)
        ]
        for aim in (target - item.spread, target + item.spread)
    ]
    lower, upper = np.ones(18), np.ones(18)
    lower[[0, 17]], upper[[0, 17]] = [ends * 16, 0], [0, ends * 16]
    law = lower[:, None] * upper * np.exp(-float(item.rate) * np.maximum.outer(*map(np.array, distances)))
    odd = np.add.outer(np.arange(18), np.arange(18)) % 2 == 1
    odd[[0, 17]] = odd[:, [0, 17]] = False
    law[odd] = 0
    law[[0, 17]] /= 2  # one of the parities of what lies beyond goes with a point, and with what lies beyond
    law[1:-1, [0, 17]] /= 2
    law /= law.sum()
    drawn = np.zeros((18, 18))
    for low, high in zip(*picking.Lines(item, [sparse] * DRAWS).draw(), strict=True):
        drawn[low + 1, high + 1] += 1 / DRAWS
    # Hoeffding over 2·18·18 one-sided events, and as many for sums over rows and columns: false alarms below 1e-6.
    far = math.sqrt(math.log(4 * 18 * 18 / 1e-6) / (2 * DRAWS))
    assert np.abs(drawn - law).max() <= far
    for axis in (0, 1):
        assert np.abs(drawn.sum(axis=axis) - law.sum(axis=axis)).max() <= far
    assert law[1:-1, 1:-1].sum() > 0.2


@pytest.mark.parametrize("epsilon", ["1e-100", "1e-9", "1e9"])
def test_questions_at_any_price(epsilon):
    frame = pa.table({"id": [1, 1, 2, 3], "s": [1.0, 2.5, 1e8, 5.0]})
    with protect(frame, unit="id", bounds={"s": (0, 10**9, "0.01")}, max_rows=2, budget=10**10) as curator:
        answer = curator.ask("SELECT MEDIAN(s), QUANTILE(s, 0.9999), MIN(s), MAX(s) FROM data", epsilon=epsilon)
        assert all(0 <= column.values[0] <= 10**9 for column in answer.columns)
