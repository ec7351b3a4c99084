"""Every estimator under both relations: the exact privacy loss between all neighbouring data sets of a small universe.

The mechanisms' releases are replaced by ones that write down what they were given and answer from a script that does
not look at the data, so that later steps see what they would see of a released answer. From what was written down
follows the exact loss of each step: Σ|Δ|/scale for Laplace noise, the largest log-ratio of the probabilities for a
choice or a quantile, and the premises of the theorem for smooth noise, propose-test-release and Gaussian noise. Steps
add up (THEORY item 6). Rows lie within and beyond the bounds, or are missing. Nothing is random, so nothing can fail by
chance.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import hush.mechanisms as h
from hush import noise as noises
from hush.core import Grid
from hush.core.grid import present, whole_step
from hush.mechanisms.grouped import GroupedLaplace, GroupedMode, Sparse
from hush.mechanisms.grouped.quantile import PointRuns

EPSILON = Fraction(3, 2)
UNIVERSE = [0, 1, 3, 7.5, None]
PAIRS = [(False, False), (False, True), (True, True), (True, False)]
POINTS = [(0, 0), (3, 3), (0, 9), (None, 1)]


class Recorder:
    """Writes down what each mechanism is given, and answers from a script."""

    def __init__(self, monkeypatch):
        self.steps, self.script = [], ()
        for kind in (h.Laplace, h.Gaussian, GroupedLaplace):
            monkeypatch.setattr(kind, "release", lambda law, value: self.additive(law, value))  # noqa: PLW0108 - a function, to be bound
        for kind in (h.Exponential, h.PermuteAndFlip, h.TopK):
            monkeypatch.setattr(kind, "release", lambda law, scores: self.choice(law, scores))  # noqa: PLW0108 - a function, to be bound
        monkeypatch.setattr(h.Quantile, "interval", lambda law, data: self.interval(law, data))  # noqa: PLW0108 - a function, to be bound
        monkeypatch.setattr(h.Quantile, "draw_point", lambda law, values: self.rank(law, values)[0])
        monkeypatch.setattr(GroupedMode, "release", lambda law, histograms: self.mode(law, *histograms))
        monkeypatch.setattr(h.SmoothNoise, "release", lambda law, value, smooth: self.note(law, (value, smooth), 1.0))
        monkeypatch.setattr(h.ProposeTestRelease, "release", lambda law, f, a: self.note(law, (f, a), 1.0))
        monkeypatch.setattr(noises, "uniform_integer", lambda many, size: np.arange(size) * 7 % 5 % many)

    def note(self, law, seen, answer):
        self.steps.append((law, seen))
        return answer

    def additive(self, law, value):
        vector = [Fraction(v) for v in np.atleast_1d(np.asarray(value, dtype=object)).tolist()]
        return self.note(law, vector, 9 if np.ndim(value) == 0 else np.full(np.shape(value), 9))

    def choice(self, law, scores):
        return self.note(law, list(map(int, scores)), [0, 1][: law.k] if isinstance(law, h.TopK) else 0)

    def interval(self, law, data):
        index, half = self.rank(law, present(data))
        return float(index * law.step), float(half * law.step)

    def rank(self, law, values):
        (first, last), at = law.ends, len(self.steps)
        where = self.script[min(at, len(self.script) - 1)]
        steps = Grid(law.step).integers(values, lower=law.lower, upper=law.upper)
        histogram = Sparse.counted(steps - first)
        return self.note(law, histogram, (first + int(where * (last - first)), 1))

    def mode(self, law, histogram):
        weights = np.zeros(law.values, dtype=np.int64)
        weights[histogram.bins] = histogram.weights
        return self.note(law, weights, np.array([0]))

    def run(self, call, data, neighbours, script):
        self.steps, self.script = [], script
        call(data, neighbours)
        return self.steps


def quantile_loss(law, one, other):
    """Return what the loss is at most: rate times the length of the interval in which all scores change.

    A candidate's score is the worst of its points' distances and of what ties add, so it changes within the interval in
    which these do. Its law point by point is in `test_quantile_pairs`.
    """
    mechanism = law.mechanism
    sides = [PointRuns(mechanism, [histogram]) for histogram in (one, other)]
    shifts = [-mechanism.spread, mechanism.spread] + (
        [] if mechanism.ties is None else [-mechanism.ties.spread, 0, mechanism.ties.spread]
    )
    changes = [int(a[0]) - int(b[0]) for a, b in zip(*(side._least for side in sides), strict=True)]
    for shift in shifts:
        runs = []
        for side in sides:
            _, begin, end, distance = side.runs(shift)
            runs.append((begin[end > begin], distance[end > begin]))
        marks = np.union1d(runs[0][0], runs[1][0])
        mine, theirs = (distance[np.searchsorted(begin, marks, side="right") - 1] for begin, distance in runs)
        changes += (mine - theirs).tolist()
    return float(mechanism.rate) * (max(changes) - min(changes))


def orders(law, scores):
    """The probability of every outcome of a choice: of a candidate, or of an ordered choice of several."""
    if not isinstance(law, h.TopK):
        return law.probabilities(scores)
    weights = np.exp(float(law.rate) * (np.array(scores) - max(scores)))
    found = []
    for order in itertools.permutations(range(len(scores)), law.k):
        left, chance = weights.sum(), 1.0
        for i in order:
            chance, left = chance * weights[i] / left, left - weights[i]
        found.append(chance)
    return np.array(found)


def smooth_loss(law, one, other):
    """0, if what the theorem needs holds: |f - f'| ≤ min(S, S') and S, S' within a factor e^β."""
    (f, s), (g, t) = one, other
    assert abs(Fraction(f) - Fraction(g)) <= min(s, t)
    assert abs(math.log(s / t)) <= float(law.beta) + 1e-12
    return float(law.epsilon)


def propose_loss(law, one, other):
    (f, a), (g, b) = one, other
    assert abs(a - b) <= 1
    assert abs(Fraction(f) - Fraction(g)) <= law.eta or a == b == 0
    return 2 * float(law.epsilon)


def loss(steps, others):
    """The loss of two runs with the same answers, step by step; all that is public must be the same."""
    assert [law for law, _ in steps] == [law for law, _ in others]
    total, squares = 0.0, {}
    for (law, one), (_, other) in zip(steps, others, strict=True):
        if isinstance(law, GroupedLaplace):
            total += float(sum(abs(a - b) for a, b in zip(one, other, strict=True)) / law.scale)
        elif isinstance(law, GroupedMode):
            logs = [
                float(law.rate) * weights - np.log(np.exp(float(law.rate) * weights).sum()) for weights in (one, other)
            ]
            total += float(np.abs(logs[0] - logs[1]).max())
        elif isinstance(law, h.Laplace):
            moved = sum(abs(whole_step(a, law.step) - whole_step(b, law.step)) for a, b in zip(one, other, strict=True))
            total += float(moved * law.step / law.scale)
        elif isinstance(law, h.Gaussian):
            if law.discrete:
                one, other = ([whole_step(v, law.step) * law.step for v in side] for side in (one, other))  # noqa: PLW2901
                assert sum(a != b for a, b in zip(one, other, strict=True)) <= 1
            squares[law] = squares.get(law, 0) + sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
        elif isinstance(law, h.Quantile):
            total += quantile_loss(law, one, other)
        elif isinstance(law, h.SmoothNoise):
            total += smooth_loss(law, one, other)
        elif isinstance(law, h.ProposeTestRelease):
            total += propose_loss(law, one, other)
        else:
            total += float(np.abs(np.log(orders(law, one) / orders(law, other))).max())
    for law, square in squares.items():
        reach = law.event.sensitivity * (law.step if law.discrete else 1)  # what σ was calibrated to
        assert square <= reach**2
        total += float(law.epsilon)
    return total


def neighbours_of(universe, size, relation):
    """All pairs of neighbouring data sets; a row that comes comes last, its place being its own affair."""
    if relation == "replace":
        for rows in itertools.product(universe, repeat=size):
            for at, row in itertools.product(range(size), universe):
                yield rows, (*rows[:at], row, *rows[at + 1 :])
    else:
        for many in range(size):
            for rows in itertools.product(universe, repeat=many):
                for row in universe:
                    yield rows, (*rows, row)


def column(function, universe=UNIVERSE, *, size=3, least=0.0, **options):
    call = lambda rows, relation: function(  # noqa: E731
        np.array(rows, dtype=object), neighbours=relation, epsilon=EPSILON, **options
    )
    return call, universe, size, least


def both(rows, relation):
    return h.ratio([c for c, _ in rows], [s for _, s in rows], epsilon=EPSILON, neighbours=relation)


def points(rows, relation, delta="1e-9"):
    matrix = np.array(rows, dtype=object).reshape(len(rows), 2)
    return h.vector_mean(matrix, bounds=(0, 3), epsilon=EPSILON, delta=delta, neighbours=relation)


B = {"bounds": (0, 3)}
PTR = {"method": "propose-test-release", "delta": "1e-6", "eta": 1}
# What is called, on which rows, and how much of ε the worst neighbours must reach at least.
ESTIMATORS = {
    "count": column(h.count, least=1.0),
    "sum": column(h.sum, **B, least=1.0),
    "sum of either sign": column(h.sum, [-7, *UNIVERSE], bounds=(-2, 3), least=1.0),
    "sum in coarse steps": column(h.sum, **B, step=2, least=1.0),
    "gaussian sum": column(h.sum, **B, method="gaussian", delta="1e-6", least=1.0),
    "gaussian sum in coarse steps": column(h.sum, **B, method="gaussian", delta="1e-6", step=2, least=1.0),
    "bounded mean": column(h.mean, **B, method="bounded", least=1.0),
    "auto mean": column(h.mean, **B, method="auto", least=0.6, size=2),
    "clipped mean": column(h.mean, least=0.5, size=2),
    "median of means": column(h.mean, **B, method="median-of-means", eta=1, delta="1e-6", groups=3, least=1.0),
    "variance": column(h.variance, **B, least=0.4),
    "median": column(h.median, **B, least=0.4),
    "median on few points": column(h.median, **B, step=1, least=0.4),
    "smooth median": column(h.median, **B, method="smooth", least=1.0),
    "ptr median": column(h.median, **B, **PTR, least=1.0),
    "quantile": column(h.quantile, **B, q="0.25", least=0.3),
    "quantiles": column(h.quantiles, **B, q=["0.25", "0.9"], step="0.5", least=0.3),
    "min": column(h.min, **B, least=0.3),
    "max": column(h.max, **B, least=0.3),
    "histogram": column(h.histogram, categories=4, least=1.0),
    "histogram of bins": column(h.histogram, bins=[0, 1, 4], least=1.0),
    "gaussian histogram": column(h.histogram, categories=4, method="gaussian", delta="1e-6", least=1.0),
    "mode": column(h.mode, categories=[0, 1, 3], least=0.4),
    "exponential mode": column(h.mode, categories=[0, 1, 3], method="exponential", least=0.4),
    "top_k": column(h.top_k, categories=[0, 1, 3], k=2, least=0.4),
    "ratio": (both, PAIRS, 3, 1.0),
    "vector mean": (points, POINTS, 2, 0.85),
    "gaussian vector mean": (lambda rows, relation: points(rows, relation, "0.4"), POINTS, 2, 0.85),
}
SCRIPTS = [(0,), (Fraction(1, 2),), (1,), (0, Fraction(1, 2)), (Fraction(1, 2), Fraction(1, 2**20)), (1, 0)]


def worst_loss(recorder, name, declared, relation):
    call, universe, size, _ = ESTIMATORS[name]
    scripts = SCRIPTS if name in {"auto mean", "clipped mean"} else [(0,)]
    worst = 0.0
    for script in scripts:
        seen = {}
        for pair in neighbours_of(universe, size, relation):
            for rows in pair:
                if rows not in seen:
                    seen[rows] = recorder.run(call, rows, declared, script)
            worst = max(worst, loss(*(seen[rows] for rows in pair)))
    return worst


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_loss_between_all_neighbours_is_at_most_epsilon(monkeypatch, name, relation):
    found = worst_loss(Recorder(monkeypatch), name, relation, relation)
    assert ESTIMATORS[name][3] * float(EPSILON) * (1 - 1e-6) <= found <= float(EPSILON) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["histogram", "ratio", "variance", "sum of either sign", "mode"])
def test_the_wrong_relation_is_found_out(monkeypatch, name):
    """Made for rows that come and go, asked of rows that are replaced: the loss exceeds ε (THEORY item 2)."""
    assert worst_loss(Recorder(monkeypatch), name, "add-remove", "replace") > 1.1 * float(EPSILON)
