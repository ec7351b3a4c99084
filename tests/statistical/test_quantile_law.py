"""The quantile mechanism draws the law on paper, in questions and for columns (`tests/theory/test_one_quantile.py`)."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from noise_checks import LEAST, accepts, frequencies
from seams import with_parameters

from hush.curator.opening import protect
from hush.mechanisms import Quantile
from hush.mechanisms.grouped import Sparse, quantile
from hush.mechanisms.grouped.quantile import PointRuns, Ties

DRAWS = 6_000


@pytest.mark.parametrize("cut", [None, 3])
@pytest.mark.parametrize(
    ("data", "q"), [([2, 2, 3, 9, 9, 9, 10, 14, 14, 15, 1, 0], "0.5"), ([7] * 9 + [8, 1, 12], "0.25"), ([], "0.5")]
)
def test_the_law_of_a_single_point(cut, data, q):
    """P[y] ∝ e^(rate·score(y)), scores cut at -C. Chi-square over 16 points, false alarms 1e-7."""
    law = Quantile(q=q, bounds=(0, 15), epsilon="0.7", step=1)
    mechanism = law.mechanism
    mechanism = mechanism if cut is None else with_parameters(mechanism, cut=cut)
    (distance,) = distances_on_paper(mechanism, data, (0,))
    weights = np.exp(-float(mechanism.rate) * distance[1:-1])
    histogram = law.histogram(np.array(data, dtype=np.int64), mechanism)
    drawn = mechanism.release_points([histogram] * 40_000)
    assert accepts(frequencies(np.asarray(drawn, dtype=np.int64), weights / weights.sum()))


@pytest.mark.parametrize("fit", [quantile._LARGEST_MACHINE_SUM, 0])
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
    monkeypatch.setattr(quantile, "END_WEIGHT", ends)
    monkeypatch.setattr(quantile, "_LARGEST_MACHINE_SUM", fit)
    data = 6 * [2, 2, 3, 9, 9, 9, 10, 14, 14, 15, 1, 0]
    with protect(pa.table({"x": data}), bounds={"x": (0, 15)}, budget=1) as curator:
        desk, how = curator.plan(f"SELECT {question} FROM data", epsilon="1.4")
        item, ((sparse,),) = how.draws[0].mechanism, desk.engine.run(how).histograms
    if cut is not None:  # so near that it matters
        item = with_parameters(item, cut=cut)
    law = law_of_pairs(item, data, ends)
    drawn = PointRuns(item, [sparse] * (40_000 if fit else DRAWS)).draw()
    assert_law((drawn.low, drawn.high), law)
    assert law[1:-1, 1:-1].sum() > 0.2


TIES = Ties(spread=30, window=20, harmless=3, doubt=14, gamma=Fraction(3, 4))


@pytest.mark.parametrize("fit", [quantile._LARGEST_MACHINE_SUM, 0])
@pytest.mark.parametrize("doubt", [6, 14, 40])
def test_the_law_of_near_pairs_and_far_triples(monkeypatch, doubt, fit):
    """Near pairs, each four times, and far triples (y, x, z) with e^(-rate·max(d₁(y), d₂(x), d₃(z), γ(θ - X)))."""
    monkeypatch.setattr(quantile, "_LARGEST_MACHINE_SUM", fit)
    monkeypatch.setattr(quantile, "POINTS_PER_WEIGHT", 4)
    data, ties = 3 * [2, 2, 2, 3, 9, 9, 9, 9, 10, 15, 1, 0], dataclasses.replace(TIES, doubt=doubt)
    with protect(pa.table({"x": data}), bounds={"x": (0, 15)}, budget=1) as curator:
        desk, how = curator.plan("SELECT QUANTILE(x, 0.25) FROM data", epsilon="1.4")
        item, ((sparse,),) = how.draws[0].mechanism, desk.engine.run(how).histograms
    item = with_parameters(item, ties=ties)
    more = ties_on_paper(item, data) - doubt
    near = unscaled_pairs(item, data, quantile.END_WEIGHT, max(math.floor(more * ties.gamma), 0)) * 4
    low, middle, high = (
        np.minimum(np.maximum(one, math.floor(-more * ties.gamma)), item.cut)
        for one in distances_on_paper(item, data, (-ties.spread, 0, ties.spread))
    )
    weights = [np.array([4, *[1] * 16, 0]), np.array([0, *[1] * 16, 0]), np.array([0, *[1] * 16, 4])]
    far = np.einsum("i,j,k->ijk", *weights) * np.exp(
        -float(item.rate) * np.maximum(np.maximum(low[:, None, None], middle[:, None]), high)
    )
    share = far.sum() / (far.sum() + near.sum())
    assert 0.02 < share < 0.98
    drawn = PointRuns(item, [sparse] * (40_000 if fit else DRAWS)).draw()
    # Hoeffding, two-sided: false alarms below 1e-7; the other two below 4e-7
    assert abs(drawn.far.mean() - share) <= math.sqrt(math.log(2e7) / (2 * len(drawn.far)))
    assert_law((drawn.low[~drawn.far], drawn.high[~drawn.far]), near / near.sum())
    assert_law((drawn.low[drawn.far], drawn.middle[drawn.far]), far.sum(2) / far.sum())
    assert_law((drawn.middle[drawn.far], drawn.high[drawn.far]), far.sum(0) / far.sum())


def ties_on_paper(item, data):
    """Return X, unit of rank by unit of rank."""
    b, target = item.fraction.denominator, item.fraction.numerator * len(data)
    found, rank = 0, 0
    for value in sorted(set(data)):
        covered = range(rank, rank + b * data.count(value))
        rank += b * data.count(value)
        inside = sum(target - item.ties.window <= unit < target + item.ties.window for unit in covered)
        found += max(inside - item.ties.harmless, 0)
    return found


def distances_on_paper(item, data, shifts):
    """Return the distances of -1 … 16 from targets, on a line of 16 points; -1 is "below all" and 16 "above all"."""
    n, b = len(data), item.fraction.denominator
    inside = min(item.rank, n // 2)
    target = {0: inside, 1: n - inside}.get(item.fraction, item.fraction.numerator * n)
    found = []
    for aim in (target + shift for shift in shifts):
        of_points = [max(b * sum(x < y for x in data) - aim, aim - b * sum(x <= y for x in data), 0) for y in range(16)]
        found.append(np.minimum([max(aim, 0), *of_points, max(b * n - aim, 0)], item.cut))
    return found


def law_of_pairs(item, data, ends):
    """Return the probabilities of pairs of -1 … 16, on a line of 16 points."""
    law = unscaled_pairs(item, data, ends, 0)
    return law / law.sum()


def unscaled_pairs(item, data, ends, least):
    distances = [np.maximum(one, least) for one in distances_on_paper(item, data, (-item.spread, item.spread))]
    lower, upper = np.ones(18), np.ones(18)
    lower[[0, 17]], upper[[0, 17]] = [ends * 16, 0], [0, ends * 16]
    law = lower[:, None] * upper * np.exp(-float(item.rate) * np.maximum.outer(*distances))
    odd = np.add.outer(np.arange(18), np.arange(18)) % 2 == 1
    odd[[0, 17]] = odd[:, [0, 17]] = False
    law[odd] = 0
    law[[0, 17]] /= 2  # one of the parities of what lies beyond goes with a point, and with what lies beyond
    law[1:-1, [0, 17]] /= 2
    return law


def assert_law(pairs, law):
    """Chi-square over pairs, and over either point alone; the least likely are counted as one. False alarms: 3e-7."""
    places = [np.asarray(side, dtype=np.int64) + 1 for side in pairs]
    checks = []
    for at, p in ((places[0] * 18 + places[1], law.ravel()), (places[0], law.sum(1)), (places[1], law.sum(0))):
        order = np.argsort(p)
        many = int(np.searchsorted(np.cumsum(p[order]) * len(at), LEAST)) + 1
        many = max(many, int(np.searchsorted(p[order] * len(at), LEAST)))
        cell = np.zeros(len(p), dtype=np.int64)
        cell[order[many:]] = np.arange(1, len(p) - many + 1)
        checks.append(frequencies(cell[at], np.bincount(cell, weights=p)))
        assert not np.any(p[at] == 0)
    assert accepts(*checks)


@pytest.mark.parametrize("fit", [quantile._LARGEST_MACHINE_SUM, 0])
def test_groups_of_one_question_have_each_its_own_law(monkeypatch, fit):
    """Groups that differ, one of them empty, drawn at once and in turn. False alarms: 9e-7."""
    monkeypatch.setattr(quantile, "_LARGEST_MACHINE_SUM", fit)
    worlds = [6 * [2, 2, 3, 9, 9, 15], [], [0, 15]]
    with protect(pa.table({"x": [1]}), bounds={"x": (0, 15)}, budget=1) as curator:
        _, how = curator.plan("SELECT QUANTILE(x, 0.25) FROM data", epsilon="1.1")
    item = how.draws[0].mechanism
    groups = [
        Sparse(bins=bins, weights=many)
        for bins, many in (np.unique(np.array(data, dtype=np.int64), return_counts=True) for data in worlds)
    ]
    drawn = PointRuns(item, groups * (40_000 if fit else DRAWS)).draw()
    for at, data in enumerate(worlds):
        assert_law(
            (drawn.low[at :: len(worlds)], drawn.high[at :: len(worlds)]),
            law_of_pairs(item, data, quantile.END_WEIGHT),
        )


@pytest.mark.parametrize("groups", [1, 50])
def test_weights_that_64_bits_do_not_hold(groups):
    """Nearly all weight is on 7, and the cut leaves e⁻²⁰ for anything else. False alarms: 50·e⁻²⁰ < 2e-7."""
    with protect(pa.table({"x": [1]}), bounds={"x": (0, 15)}, budget=1) as curator:
        _, how = curator.plan("SELECT QUANTILE(x, 0.2501) FROM data", epsilon=1)
    item = how.draws[0].mechanism
    sparse = Sparse(bins=np.array([3, 7, 12]), weights=np.array([1, 2**60, 1]))
    found = item.release([sparse] * groups)
    assert (found.index.tolist(), found.half.tolist()) == ([7] * groups, [1] * groups)


def test_what_a_pair_says():
    """All pairs on lines of 1 to 7 points, against the words of the rule; answers and intervals stay on the line."""
    for last in range(7):
        low, high = (grid.ravel() for grid in np.mgrid[-1 : last + 1, 0 : last + 2])
        never = np.zeros(len(low), dtype=np.bool_)
        found = quantile.interval(quantile.DrawnPoints(low=low, high=high, middle=low, far=never), last, 1)
        for a, b, index, half in zip(low, high, found.index, found.half, strict=True):
            if a < 0 and b > last:
                expected = (last // 2, last - last // 2)
            elif a < 0 or b > last:
                point = b if a < 0 else a
                expected = (point, max(point, last - point, min(1, last)))
            else:
                expected = ((a + b) // 2, max(max(a, b) - (a + b) // 2, min(1, last)))
            assert (index, half) == expected
            assert 0 <= index <= last


def test_where_in_a_wide_cell_a_value_lies_is_not_known():
    """Beyond 2⁴⁰ points a cell has many; at this ε nothing but a draw of probability below e^-1000 misses the cell."""
    low, high = 10**17 // 3, 10**17 // 2
    frame = pa.table({"x": [low] * 500 + [high] * 900})
    with protect(frame, bounds={"x": (0, 10**17)}, budget=10**6) as curator:
        _, how = curator.plan("SELECT MEDIAN(x) FROM data", epsilon=30)
        cell = how.draws[0].histogram.cell
        assert cell > 1
        for share, truth in (("0.5", high), ("0.2501", low)):
            for at in range(20):
                found = curator.ask(
                    f"SELECT QUANTILE(x, {share}) FROM data WHERE x > {at}", epsilon=30, fresh=True
                ).columns[0]
                assert abs(found.values[0] - truth) <= found.errors[0]


@pytest.mark.parametrize("epsilon", ["1e-100", "1e-9", "1e9"])
def test_questions_at_any_price(epsilon):
    frame = pa.table({"id": [1, 1, 2, 3], "s": [1.0, 2.5, 1e8, 5.0]})
    with protect(frame, unit="id", bounds={"s": (0, 10**9, "0.01")}, max_rows=2, budget=10**10) as curator:
        answer = curator.ask(
            "SELECT MEDIAN(s), QUANTILE(s, 0.9999), MIN(s), MAX(s) FROM data", epsilon=epsilon, fresh=True
        )
        assert all(0 <= column.values[0] <= 10**9 for column in answer.columns)
