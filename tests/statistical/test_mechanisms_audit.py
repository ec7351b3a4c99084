"""A black-box audit: from draws alone, how large must ε be at least?

For two neighbouring inputs and a few events S fixed in advance, Clopper and Pearson bound P[M(D)∈S] from below and
P[M(D')∈S] from above; ε is then at least ln((p-δ)/q). All bounds of one audit hold together with probability 1 -
10⁻⁶, so a sound mechanism fails this test with at most that probability. Audits of one mechanism use 10⁵ draws or
more, and 4·10⁴ where each draw is a call; `make nightly` makes 10⁵ there too.
"""

import math
import os

import numpy as np
import pytest

from hush import noise
from hush.local import LocalHashing, SubsetSelection
from hush.mechanisms import (
    AboveThreshold,
    Exponential,
    Gaussian,
    Laplace,
    MetricExponential,
    PermuteAndFlip,
    ProposeTestRelease,
    Quantile,
    RandomizedResponse,
    Refused,
    SmoothNoise,
    TopK,
)
from hush.mechanisms.grouped import Sparse
from hush.noise.bits import system_bits
from hush.noise.race import draw_order, prepare
from hush.utility import lower_bound, upper_bound

ALPHA = 1e-6
HALF = 50_000
CALLS = HALF if "HUSH_CASES" in os.environ else 20_000


def audited(one, other, events, delta=0.0):
    """Return the largest ε that the draws rule out being undercut."""
    miss, n = ALPHA / (4 * len(events)), (len(one), len(other))
    best = 0.0
    for event in events:
        a, b = int(np.count_nonzero(event(one))), int(np.count_nonzero(event(other)))
        for (s, m), (t, k) in (((a, n[0]), (b, n[1])), ((b, n[1]), (a, n[0]))):
            p, q = lower_bound(s, m, miss=miss) - delta, upper_bound(t, k, miss=miss)
            if p > 0:
                best = max(best, math.log(p / q))
    return best


def below(*thresholds):
    return [lambda x, t=t: x <= t for t in thresholds] + [lambda x, t=t: x > t for t in thresholds]


def test_laplace_reaches_its_epsilon_and_no_more():
    law = Laplace(sensitivity=1, epsilon=1)
    one, other = law.release(np.zeros(10**6, dtype=np.int64)), law.release(np.ones(10**6, dtype=np.int64))
    found = audited(one, other, below(0))
    assert 0.9 < found <= 1


def test_laplace_of_reals_on_a_fine_grid():
    law = Laplace(sensitivity="0.3", epsilon=1, coordinates=1)
    one, other = law.release(np.full(HALF * 2, 0.05)), law.release(np.full(HALF * 2, 0.35))
    assert 0.8 < audited(one, other, below(0.05)) <= 1


def test_gaussian():
    law = Gaussian(sensitivity=1, epsilon=1, delta="1e-3", coordinates=1)
    one, other = law.release(np.zeros(10**6, dtype=np.int64)), law.release(np.ones(10**6, dtype=np.int64))
    assert audited(one, other, below(-6, -2), delta=1e-3) <= 1
    wide = Gaussian(sensitivity=1, epsilon=1, delta="1e-3", coordinates=2, step=1)
    vectors = [wide.release(np.tile(v, (HALF, 1))) @ np.array([0.6, 0.8]) for v in ([0, 0], [1, 0])]
    assert audited(*vectors, below(-4, 4), delta=1e-3) <= 1


@pytest.mark.parametrize("law", [RandomizedResponse(epsilon=1, categories=3), RandomizedResponse.with_truth("0.4")])
def test_randomized_response(law):
    one, other = law.release(np.zeros(HALF * 2, dtype=int)), law.release(np.ones(HALF * 2, dtype=int))
    assert 0.9 * float(law.epsilon) < audited(one, other, [lambda x: x == 0, lambda x: x == 1]) <= float(law.epsilon)


def test_local_oracles():
    subset = SubsetSelection(epsilon=1, categories=6)
    one, other = (np.array([0 in r and 1 not in r for r in subset.release(np.full(HALF, v))]) for v in (0, 1))
    assert 0.8 < audited(one, other, [lambda x: x]) <= 1
    hashing = LocalHashing(epsilon=1, categories=6)
    supports = []
    for v in (0, 1):
        a, b, cell = hashing.release(np.full(HALF * 2, v)).T
        at = [(a * w + b) % (2**31 - 1) % hashing.cells == cell for w in (0, 1)]
        supports.append(at[0] & ~at[1])
    assert 0.8 < audited(*supports, [lambda x: x]) <= 1


@pytest.fixture
def prepared(monkeypatch):
    """Prepare a race once for all its draws, for speed; each draw is a race of its own."""
    fields = {}

    def select(scores, rate=1, *, count=None, race="gumbel"):
        key = (tuple(scores.tolist()), rate, race)
        if key not in fields:
            fields[key] = prepare(scores, rate, None, race)
        order = draw_order(fields[key], count or 1, system_bits())
        return order[0] if count is None else np.array(order)

    monkeypatch.setattr(noise, "select", select)


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_choosing(kind):
    law = kind(epsilon=1)
    sides = [np.array([law.release(scores) for _ in range(CALLS)]) for scores in (np.array([1, 1]), np.array([2, 0]))]
    assert 0.2 < audited(*sides, [lambda x: x == 0, lambda x: x == 1]) <= 1


def test_above_threshold():
    law = AboveThreshold(threshold=0, epsilon=1)
    sides = [np.array([law.open().ask(v) for _ in range(CALLS)]) for v in (-1, 0)]
    assert audited(*sides, [lambda x: x, lambda x: ~x]) <= 1


def test_quantile():
    mechanism = Quantile(bounds=(0, 10), epsilon=1, step=1).mechanism
    sides = [mechanism.release([Sparse.counted([0] * 20 + [9] * nines)] * HALF).index for nines in (20, 21)]
    assert 0.2 < audited(*sides, below(0, 8)) <= 1


def test_a_single_point_of_a_quantile():
    mechanism = Quantile(bounds=(0, 10), epsilon=1, step=1).mechanism
    sides = [mechanism.release_points([Sparse.counted(data)] * HALF) for data in ([0, 0, 9], [0, 0, 9, 9])]
    assert 0.2 < audited(*sides, below(0, 8)) <= 1


@pytest.mark.usefixtures("prepared")
def test_top_k():
    law = TopK(k=2, epsilon=1)
    sides = [
        np.array([law.release(scores) for _ in range(CALLS)]) @ np.array([3, 1])
        for scores in (np.array([1, 1, 0]), np.array([0, 0, 1]))
    ]
    # The bound found is 0.29 with a deviation of 0.02: 0.18 is five below, a false alarm in 10⁶ or fewer.
    assert 0.18 < audited(*sides, [lambda x: x == 1, lambda x: x == 3, lambda x: x >= 6]) <= 1


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(
    ("law", "least"),
    [
        (MetricExponential.on_cycle(3, epsilon=1), 0.8),
        (MetricExponential(points=[0, 1], metric=lambda a, b: abs(a - b), epsilon=1), 0.35),
    ],
)
def test_metric_exponential(law, least):
    sides = [np.array([law.release(v) for _ in range(CALLS)]) for v in (0, 1)]
    assert least < audited(*sides, [lambda x: x == 0, lambda x: x == 1]) <= 1


@pytest.fixture
def batched(monkeypatch):
    """Draw noise of one law many at a time, for speed; the mechanisms take one after the other."""
    for name in ("rounded_polynomial", "rounded_cauchy", "rounded_laplace", "rounded_gaussian"):
        store, original = {}, getattr(noise, name)

        def draw(*args, store=store, original=original, **options):
            key = (args, tuple(options.items()))
            if not store.get(key):
                store[key] = original(*args, HALF, **options).tolist()
            return store[key].pop()

        monkeypatch.setattr(noise, name, draw)


@pytest.mark.usefixtures("batched")
@pytest.mark.parametrize(
    ("kind", "delta"), [("polynomial", None), ("cauchy", None), ("laplace", "0.05"), ("gaussian", "0.05")]
)
def test_smooth_noise(kind, delta):
    law = SmoothNoise(epsilon=1, delta=delta, noise=kind, step="0.25")
    grown = math.floor(math.exp(float(law.beta)) * 10**6) / 10**6
    sides = [np.array([law.release(value, smooth) for _ in range(CALLS)]) for value, smooth in ((0, 1), (1, grown))]
    assert audited(*sides, below(-3, 0, 4), delta=float(delta or 0)) <= 1


@pytest.mark.usefixtures("batched")
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_propose_test_release(kind):
    law = ProposeTestRelease(epsilon="0.5", delta="0.05", eta=1, step=1, noise=kind)
    total, near = law.event.total(), int(law.threshold)
    sides = [
        np.array([math.inf if (out := law.release(v, d)) is Refused else out for _ in range(CALLS)])
        for v, d in ((0, near), (1, near + 1))
    ]
    assert audited(*sides, [*below(0), np.isinf], delta=float(total.delta)) <= float(total.epsilon)


def test_the_audit_itself_finds_a_fault():
    """Noise at half the scale is caught."""
    law = Laplace(sensitivity=1, scale="0.5")
    one, other = law.release(np.zeros(HALF * 2, dtype=np.int64)), law.release(np.ones(HALF * 2, dtype=np.int64))
    assert audited(one, other, below(0)) > 1.5
