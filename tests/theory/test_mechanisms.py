"""Section 3: mechanisms. Enumeration where it is finite, certified numerics or fine quadrature otherwise."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from hush.accounting import theorems
from hush.core import InvalidValueError
from hush.mechanisms import (
    AboveThreshold,
    Exponential,
    Laplace,
    MetricExponential,
    PermuteAndFlip,
    ProposeTestRelease,
    RandomizedResponse,
    SmoothNoise,
    TopK,
)
from hush.mechanisms import max as private_max
from hush.sensitivity import FiniteFunction, smooth_sensitivity
from hush.sensitivity.statistics import instability, rank
from hush.utility import crossover, vector_noise


def log_ratio(p, q):
    return float(np.abs(np.log(np.asarray(p) / np.asarray(q))).max())


def hockey_stick(p, q, epsilon):
    return float(np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0).sum())


@pytest.mark.parametrize("truth", ["0.1", "0.5", "0.9"])
def test_item_11_randomized_response(truth):
    law, p = RandomizedResponse.with_truth(truth), float(truth)
    assert log_ratio(law.probabilities(0), law.probabilities(1)) == pytest.approx(math.log(1 + 2 * p / (1 - p)))
    assert float(law.epsilon) >= math.log(1 + 2 * p / (1 - p)) - 1e-12
    # The estimator is unbiased: the expected report of frequencies f is mapped back to f.
    f = np.array([0.3, 0.7])
    reports = f @ np.array([law.probabilities(0), law.probabilities(1)])
    a, b = law.support
    assert (reports - b) / (a - b) == pytest.approx(f)


def test_item_12_laplace():
    # P(|X| ≥ t) = e^{-t/b} for the continuous law, by quadrature; the seed's 2e^{-t/b} is twice that.
    b, t = 2.0, 3.0
    x = np.linspace(t, t + 80, 800_001)
    density = np.exp(-x / b) / (2 * b)
    tail = 2 * float(((density[1:] + density[:-1]) / 2 * np.diff(x)).sum())
    assert tail == pytest.approx(math.exp(-t / b), rel=1e-6)
    assert tail < 0.6 * 2 * math.exp(-t / b)
    assert Laplace(sensitivity=1, epsilon="0.1").error(0.99) == pytest.approx(10 * math.log(100), rel=1e-9)
    # Vector valued: shifts of ℓ₁ length 2 cost ε = 2/b however they are split, and one coordinate is the worst.
    r, reach = math.exp(-0.5), 40
    law = (1 - r) / (1 + r) * r ** np.abs(np.arange(-reach, reach + 1))
    shift = lambda k: np.roll(law, k)[3:-3]  # noqa: E731
    single = np.outer(shift(2), shift(0)), np.outer(shift(0), shift(0))
    double = np.outer(shift(1), shift(1)), np.outer(shift(0), shift(0))
    assert log_ratio(*single) == pytest.approx(1)
    assert log_ratio(*double) == pytest.approx(1)
    for epsilon in np.linspace(0, 1, 11):
        assert hockey_stick(*double, epsilon) <= hockey_stick(*single, epsilon) + 1e-12


def phi(x):
    return math.erfc(-x / math.sqrt(2)) / 2


def test_item_13_gaussian():
    right = phi(0.5 - 1) - math.exp(1) * phi(-0.5 - 1)
    assert right == pytest.approx(0.1269, abs=5e-5)
    x = np.linspace(-12, 12, 2_400_001)
    p, q = np.exp(-((x - 1) ** 2) / 2), np.exp(-(x**2) / 2)
    numeric = float(np.maximum(p - math.e * q, 0).sum()) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    assert numeric == pytest.approx(right, rel=1e-5)
    wrong = phi(0.5 - 1) - math.exp(-1) * phi(-0.5 - 1)  # the seed's sign
    assert abs(wrong - numeric) > 0.1
    assert float(theorems.gaussian.analytic(1, "1e-6")) == pytest.approx(4.2247, abs=5e-5)
    # Never pure: the loss has no bound.
    assert np.log(p[-1] / q[-1]) > 10


def test_item_13_the_classical_bounds_and_where_they_end():
    delta = lambda sigma, e: phi(0.5 / sigma - e * sigma) - math.exp(e) * phi(-0.5 / sigma - e * sigma)  # noqa: E731
    for d in (1e-9, 1e-4, 0.1, 0.5, 0.9):
        for e in (0.1, 1.0, 4.0, 6.38):
            assert delta(math.sqrt(2 * math.log(2 / d)) / e, e) <= d
    assert any(delta(math.sqrt(2 * math.log(2 / d)) / 6.6, 6.6) > d for d in np.linspace(0.3, 0.999, 200))
    one = lambda d: delta(math.sqrt(2 * math.log(1 / d)), 1.0) <= d  # noqa: E731
    assert one(0.9803)
    assert not one(0.98034)
    with pytest.raises(InvalidValueError):
        theorems.gaussian.one_over_delta(1, "0.981")
    with pytest.raises(InvalidValueError):
        theorems.gaussian.classical(1, "1e-6")


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize("monotonic", [False, True])
def test_item_14_choosing_is_private_by_enumeration(kind, monotonic):
    epsilon, worst = 1.3, 0.0
    law = kind(epsilon=epsilon, monotonic=monotonic)
    for scores in itertools.product(range(4), repeat=3):
        here = law.probabilities(list(scores))
        moves = itertools.product([0, 1] if monotonic else [-1, 0, 1], repeat=3)
        for move in moves:
            worst = max(worst, log_ratio(here, law.probabilities([s + m for s, m in zip(scores, move, strict=True)])))
    assert 0.5 * epsilon < worst <= epsilon + 1e-9


def test_item_14_bounded_range_of_the_exponential_mechanism_only():
    spread = lambda a, b: float(np.ptp(np.log(np.asarray(a) / np.asarray(b))))  # noqa: E731
    plain, flip = Exponential(epsilon=1), PermuteAndFlip(epsilon=1)
    widest = max(
        spread(plain.probabilities(list(s)), plain.probabilities([a + b for a, b in zip(s, m, strict=True)]))
        for s in itertools.product(range(3), repeat=3)
        for m in itertools.product([-1, 0, 1], repeat=3)
    )
    assert widest <= 1 + 1e-9
    assert spread(flip.probabilities([1, 1]), flip.probabilities([2, 0])) > 1.01


def test_item_14_the_metric_form_needs_a_constant_normaliser():
    ring = MetricExponential.on_cycle(7, epsilon=1)
    assert max(log_ratio(ring.probabilities(a), ring.probabilities((a + 1) % 7)) for a in range(7)) <= 1 + 1e-9
    # On a segment α = Δ/ε is *not* ε-DP: the normaliser depends on the data.
    weights = [np.exp(-np.abs(np.arange(12) - centre)) for centre in (0, 1)]
    laws = [w / w.sum() for w in weights]
    assert log_ratio(*laws) > 1.2
    segment = MetricExponential(points=range(12), metric=lambda a, b: abs(a - b), epsilon=1)
    assert max(log_ratio(segment.probabilities(a), segment.probabilities(a + 1)) for a in range(11)) <= 1


def test_item_14_top_k_is_peeling():
    # The order of a race equals repeated exponential mechanisms: P[(i, j)] = p_i·p_j/(1-p_i).
    law = TopK(k=2, epsilon=2)
    scores = [3, 1, 0]
    p = Exponential(epsilon=1).probabilities(scores)
    worst = 0.0
    for move in itertools.product([-1, 0, 1], repeat=3):
        q = Exponential(epsilon=1).probabilities([s + m for s, m in zip(scores, move, strict=True)])
        for i, j in itertools.permutations(range(3), 2):
            worst = max(worst, abs(math.log(p[i] * p[j] / (1 - p[i]) / (q[i] * q[j] / (1 - q[i])))))
    assert worst <= 2 + 1e-9
    draws = [tuple(law.release(scores)) for _ in range(20_000)]
    for i, j in itertools.permutations(range(3), 2):
        expected = p[i] * p[j] / (1 - p[i])
        # Hoeffding: two-sided, six cells, false-alarm probability below 1e-6.
        assert abs(draws.count((i, j)) / 20_000 - expected) <= math.sqrt(math.log(12 / 1e-6) / 40_000)


def test_sparse_vector_by_enumeration():
    """P[no, yes] and P[yes] of one stream, by summing over the threshold's and values' noise; c = 1."""
    law = AboveThreshold(threshold=0, epsilon=1)
    first, second = (float(s) for s in law.scales)
    reach = np.arange(-400, 401)
    pmf = lambda s: (1 - math.exp(-1 / s)) / (1 + math.exp(-1 / s)) * np.exp(-np.abs(reach) / s)  # noqa: E731
    rho, nu = pmf(first), pmf(second)
    above = np.concatenate([np.cumsum(nu[::-1])[::-1], [0.0]])  # P[ν ≥ x], x from -400

    def at_least(x):
        return above[np.clip(x + 400, 0, 801)]

    def law_of(values):
        yes = [at_least(reach - value) for value in values]
        outcomes, rest = [], np.ones(len(reach))
        for y in yes:
            outcomes.append(float((rho * rest * y).sum()))
            rest = rest * (1 - y)
        return np.array([*outcomes, float((rho * rest).sum())])

    worst = 0.0
    for values in itertools.product([-2, 0, 3], repeat=3):
        for move in itertools.product([-1, 1], repeat=3):
            worst = max(worst, log_ratio(law_of(values), law_of([v + m for v, m in zip(values, move, strict=True)])))
    assert worst <= 1 + 1e-6


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("power", ["2.5", "4.5", "8"])
def test_item_15_polynomial_noise_at_both_ends(epsilon, power):
    law = SmoothNoise(epsilon=epsilon, power=power, step=1)
    a, beta, c = float(law.power), float(law.beta), float(law.factor)
    y = np.concatenate([-np.logspace(-6, 9, 4000)[::-1], np.logspace(-6, 9, 4000)])
    worst = -1.0
    for growth in np.exp(np.linspace(-beta, beta, 41)):
        gap = min(1.0, growth)
        grid = np.concatenate([y, y + gap, [0.0, gap]])
        ratio = math.log(growth) - a * np.log1p(np.abs(grid) / c) + a * np.log1p(np.abs(grid - gap) / (c * growth))
        worst = max(worst, float(ratio.max()))
    assert epsilon * 0.97 < worst <= epsilon + 1e-9  # tight at an end, never above


@pytest.mark.parametrize(("noise", "delta"), [("cauchy", None), ("laplace", "1e-3"), ("gaussian", "1e-3")])
def test_item_15_the_other_noises(noise, delta):
    epsilon = 1.0
    law = SmoothNoise(epsilon=epsilon, delta=delta, noise=noise, step=1)
    beta, c = float(law.beta), float(law.factor)
    density = {
        "cauchy": lambda z: 1 / (1 + z * z) / math.pi,
        "laplace": lambda z: np.exp(-np.abs(z)) / 2,
        "gaussian": lambda z: np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    }[noise]
    reach = 4e5 if noise == "cauchy" else 60 * c
    y = np.linspace(-reach, reach, 1_600_001)
    for growth in (math.exp(-beta), 1.0, math.exp(beta)):
        gap = min(1.0, growth)
        p, q = density(y / c) / c, density((y - gap) / (c * growth)) / (c * growth)
        for one, other in ((p, q), (q, p)):
            excess = float(np.maximum(one - math.exp(epsilon) * other, 0).sum()) * (y[1] - y[0])
            assert excess <= (1e-3 if delta else 1e-9)


def test_item_15_the_figures_of_the_median():
    """1001 values of N(0, 1) on ±1000 at ε = 1: the mean error, exactly for each sample, is c·S·E|Z|."""
    rng, samples = np.random.default_rng(15), 20
    mean_size = {"polynomial": 1 / (4.5 - 2), "laplace": 1.0, "gaussian": math.sqrt(2 / math.pi)}
    found = dict.fromkeys(mean_size, 0.0)
    for _ in range(samples):
        data = rng.normal(size=1001)
        for noise, size in mean_size.items():
            law = SmoothNoise(epsilon=1, delta=None if noise == "polynomial" else "1e-6", noise=noise, step="1e-6")
            reach = smooth_sensitivity("median", data, beta=law.beta, bounds=(-1000, 1000), neighbours="replace")
            found[noise] += float(law.factor * reach) * size / samples
    assert found["polynomial"] == pytest.approx(0.0175, rel=0.4)
    assert found["laplace"] == pytest.approx(0.067, rel=0.4)
    assert found["gaussian"] > 100 * found["polynomial"]


def test_item_15_the_polynomial_is_the_best_of_them():
    typical = {}
    for noise in ("polynomial", "cauchy", "laplace", "gaussian"):
        law = SmoothNoise(
            epsilon=1, delta=None if noise in {"polynomial", "cauchy"} else "1e-6", noise=noise, step="1e-6"
        )
        # Values spaced evenly: S = max_k e^{-βk}(k+1)·gap.
        beta = float(law.beta)
        smooth = max(math.exp(-beta * k) * (k + 1) for k in range(2000))
        typical[noise] = law.error(0.5, smooth_sensitivity=Fraction(smooth).limit_denominator(10**6))
    assert min(typical, key=typical.get) == "polynomial"


# The data of THEORY item 16, in tenths: 501 zeros, one 5, 499 times 11; η = 10.
UNSAFE = np.array([0] * 501 + [5] + [11] * 499)
NEIGHBOUR = np.array([0] * 500 + [5] + [11] * 500)


def mistaken_distance(x, eta):
    """The seed's: how many rows must change before the median differs from *this* median by more than η."""
    n, m = len(x), (len(x) + 1) // 2
    here = x[m - 1]
    above = np.count_nonzero(x > here + eta)
    below = np.count_nonzero(x < here - eta)
    return min(n - m + 1 - above, m - below)


def passes(distance, law):
    """P[A + X > b/ε] for discrete Laplace X."""
    epsilon, threshold = float(law.epsilon), float(law.threshold)
    r, k = math.exp(-epsilon), math.floor(threshold - distance) + 1
    return r**k / (1 + r) if k >= 1 else 1 - r ** (1 - k) / (1 + r)


def test_item_16_the_mistaken_distance_is_not_private():
    law = ProposeTestRelease(epsilon=1, delta="1e-6", eta=10, step=1)
    wrong = [mistaken_distance(x, 10) for x in (UNSAFE, NEIGHBOUR)]
    assert wrong[0] <= 2
    assert wrong[1] > 400
    achieved = passes(wrong[1], law) - math.exp(2) * passes(wrong[0], law)
    assert achieved > 0.99998  # for a target of 1e-6
    ours = [instability(np.sort(x), 501, 10) for x in (UNSAFE, NEIGHBOUR)]
    assert abs(ours[0] - ours[1]) <= 1
    assert abs(passes(ours[0], law) - passes(ours[1], law)) < 1e-3


def test_item_16_the_seed_counts_from_one():
    law = ProposeTestRelease(epsilon=1, delta="1e-6", eta=1, step=1)
    assert passes(0, law) <= 1e-6 / 2
    assert passes(200, law) > 1 - 1e-9


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_item_16_propose_test_release_is_private_by_enumeration(kind):
    """Every pair of neighbours over a small universe, with a δ large enough to matter."""
    law = ProposeTestRelease(epsilon="0.4", delta="0.3", eta=2, step=1, noise=kind)
    total = 0.3 if kind == "laplace" else 2 * math.exp(0.4) * 0.3 + 0.3**2
    assert float(law.event.total().delta) == pytest.approx(total)
    universe, n = [0, 2, 9], 5
    median = FiniteFunction(lambda d: d[2], universe=universe, size=n, neighbours="replace")
    reach = np.arange(-120, 130)
    scale = float(law.eta * law.spread / law.epsilon)

    def edge(t):
        if kind == "gaussian":
            return np.vectorize(phi)(t / scale)
        return np.where(t < 0, np.exp(t / scale) / 2, 1 - np.exp(-np.abs(t) / scale) / 2)

    def outcome(data):
        x = np.array(data)
        distance = instability(x, rank(n, Fraction(1, 2)), 2)
        chance = law.probabilities(distance)[1]
        assert kind == "gaussian" or chance == pytest.approx(passes(distance, law))
        noise = edge(reach + 0.5 - data[2]) - edge(reach - 0.5 - data[2])
        return np.concatenate([[1 - chance], chance * noise])

    worst = 0.0
    for data in median.data_sets():
        here = outcome(data)
        for near in median.around(data):
            worst = max(worst, hockey_stick(here, outcome(near), 0.8))
    assert worst <= total + 1e-9


def test_item_16_median_of_means_needs_about_a_hundred_groups():
    """With equal group means all K must agree: A = (K-1)/2, which the threshold ln(2/δ)/ε must not exceed."""
    answered = {}
    for groups in (11, 31, 101, 201):
        law = ProposeTestRelease(epsilon="0.5", delta="1e-6", eta=1, step=1)
        answered[groups] = law.probabilities(instability(np.zeros(groups, dtype=int), (groups + 1) // 2, 1))[1]
    assert answered[11] < 1e-4
    assert answered[31] < 0.01
    assert answered[101] > 0.99
    assert answered[201] > 1 - 1e-9


def test_item_17_laplace_or_gaussian():
    assert crossover(epsilon=1, delta="1e-6") == 9
    sigma = float(theorems.gaussian.analytic(1, "1e-6"))
    for k in (1, 4, 16, 100, 400):
        laplace, gaussian = math.sqrt(2) * k, math.sqrt(k) * sigma
        assert laplace / gaussian == pytest.approx(math.sqrt(2 * k) / sigma)  # √k, not k as one seed says
    assert isinstance(vector_noise(dimension=5, epsilon=1, delta="1e-6", sensitivity="0.01"), Laplace)
    assert not isinstance(vector_noise(dimension=30, epsilon=1, delta="1e-6", sensitivity="0.01"), Laplace)


def test_item_18_the_largest_salary_is_refused():
    with pytest.raises(InvalidValueError, match=r"no noise hides them.*private quantile"):
        private_max([30_000, 52_000, 10**9], epsilon=1)
    assert 0 <= private_max([30_000, 52_000, 10**9], bounds=(0, 200_000), epsilon=1).value <= 200_000
