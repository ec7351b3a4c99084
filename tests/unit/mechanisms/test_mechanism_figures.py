"""What every mechanism says about its own error, each figure computed a second time from the law itself."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import hush
from hush.core import HushError, InvalidValueError
from hush.local import LocalHashing, SubsetSelection
from hush.mechanisms import (
    AboveThreshold,
    Exponential,
    Gaussian,
    Laplace,
    MetricExponential,
    PermuteAndFlip,
    ProposeTestRelease,
    RandomizedResponse,
    SmoothNoise,
    TopK,
)
from hush.mechanisms.grouped.noise import GroupedGaussian, GroupedLaplace, SummedNoise


def gap(a, b):
    return abs(a - b)


NAMES = [
    AboveThreshold, Exponential, Gaussian, Laplace, MetricExponential, PermuteAndFlip, ProposeTestRelease,
    RandomizedResponse, SmoothNoise, TopK,
]  # fmt: skip

# How to make one from a wanted error, what to ask its error with, and a step down in ε to show that less is too little.
WANTED = {
    "laplace": (Laplace, 46, {"sensitivity": 1, "confidence": "0.99"}, {}),
    "laplace of reals": (Laplace, 2, {"sensitivity": "0.3", "coordinates": 4, "count": 3}, {"count": 3}),
    "response": (RandomizedResponse, "0.05", {"count": 5000, "categories": 5}, {"count": 5000}),
    "subset": (SubsetSelection, "0.1", {"count": 5000, "categories": 20}, {"count": 5000}),
    "exponential": (Exponential, 7, {"candidates": 9, "sensitivity": "0.5"}, {"candidates": 9}),
    "flip": (PermuteAndFlip, 7, {"candidates": 9, "monotonic": True}, {"candidates": 9}),
    "top": (TopK, 40, {"candidates": 9, "k": 3}, {"candidates": 9}),
    "metric": (MetricExponential, 3, {"points": range(9), "metric": gap}, {}),
    "threshold": (AboveThreshold, 60, {"threshold": "2.5", "queries": 30}, {"queries": 30}),
    "smooth": (SmoothNoise, 2, {"smooth_sensitivity": "0.1", "step": "0.01"}, {"smooth_sensitivity": "0.1"}),
    "propose": (ProposeTestRelease, 2, {"delta": "1e-6", "eta": "0.1", "step": "0.01"}, {}),
    "propose, gaussian": (
        ProposeTestRelease, 9, {"delta": "1e-6", "eta": "0.1", "step": "0.01", "noise": "gaussian"}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMES)
def test_every_mechanism_offers_the_same(kind):
    for name in ("release", "event", "error", "variance", "bias", "with_noise", "for_error"):
        assert getattr(kind, name, None) is not None, name
        assert getattr(kind, name).__doc__


@pytest.mark.parametrize("name", WANTED)
def test_for_error_keeps_its_word_and_wastes_nothing(name):
    kind, wanted, arguments, asked = WANTED[name]
    level = {"confidence": arguments["confidence"]} if "confidence" in arguments else {}
    made = kind.for_error(wanted, **arguments)
    assert made.error(**level, **asked) <= float(Fraction(wanted))
    fields = {f: getattr(made, f) for f in kind.__dataclass_fields__ if f not in {"epsilon", "scale", "truth"}}
    fields = {f: v for f, v in fields.items() if f not in {"beta", "factor"} and not (f == "delta" and v == 0)}
    less = kind(epsilon=made.epsilon * (1 - Fraction(1, 10**9)), **fields)
    assert less.error(**level, **asked) > float(Fraction(wanted))


def test_for_error_refuses_what_no_epsilon_reaches():
    calls = [
        lambda: Laplace.for_error("0.5", sensitivity="1.5", step=1),
        lambda: Gaussian.for_error("0.5", sensitivity=2, step=1, coordinates=2),
        lambda: LocalHashing.for_error("0.001", count=100, categories=10),
        lambda: AboveThreshold.for_error(2, threshold=0, queries=1),
        lambda: SmoothNoise.for_error("0.5", smooth_sensitivity=1, step=1),
        lambda: ProposeTestRelease.for_error("0.1", delta="1e-6", eta=1, step="0.01", noise="gaussian"),
        lambda: Exponential.for_error(1, candidates=1),
        lambda: MetricExponential.for_error(1, points=[3], metric=gap),
        lambda: TopK.for_error(-1, candidates=3, k=2),
        lambda: PermuteAndFlip.for_error(math.nan, candidates=3),
    ]
    for call in calls:
        with pytest.raises(InvalidValueError):
            call()


def test_with_noise_has_that_noise():
    assert Laplace.with_noise(3, sensitivity=6).epsilon == 2
    assert Gaussian.with_noise(3, sensitivity=1).sigma == 3
    assert RandomizedResponse.with_noise("0.4", categories=3) == RandomizedResponse.with_truth("0.6", categories=3)
    assert 1 / Exponential.with_noise(7, sensitivity=3).rate == 7
    assert 1 / PermuteAndFlip.with_noise(7, monotonic=True).rate == 7
    assert 1 / TopK.with_noise(7, k=3).rate == 7
    assert MetricExponential.with_noise(7, points=range(3), metric=gap).alpha == 7
    above = AboveThreshold.with_noise(7, threshold=0, count=3, sensitivity="0.5")
    assert above.scales[1] * above.step == 7
    assert Fraction(699, 100) < SmoothNoise.with_noise(7, step="0.1").factor <= 7
    for noise in ("laplace", "gaussian"):
        law = ProposeTestRelease.with_noise(90, delta="1e-6", eta=2, noise=noise, step=1)
        assert law.eta * law.spread / law.epsilon == 90


def test_noise_that_cannot_be_had_is_refused_and_no_sensitivity_is_guessed():
    with pytest.raises(InvalidValueError, match="below 1 for Gaussian noise"):
        ProposeTestRelease.with_noise(2, delta="1e-6", eta=2, noise="gaussian", step=1)
    with pytest.raises(TypeError, match="sensitivity"):
        Laplace.with_noise(3)
    with pytest.raises(InvalidValueError, match="candidates"):
        Exponential.for_error(3)


SCORES = [[3, 1], [0, 0, 0], [24, 8, 28, 5], [Fraction(1, 3), 0.25, -2], [5, 5, 5, 4, 0, -9], [1]]


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize("scores", SCORES)
def test_bias_and_variance_of_a_choice(kind, scores):
    law = kind(epsilon="0.7")
    p, s = law.probabilities(scores), np.array([float(x) for x in scores])
    assert law.bias(scores) == pytest.approx(p @ s - s.max(), abs=1e-12)
    assert law.variance(scores) == pytest.approx(p @ s**2 - (p @ s) ** 2, abs=1e-9)
    k = len(scores)
    assert law.bias(candidates=k) <= law.bias(scores) <= 0
    assert law.variance(scores) <= law.variance(candidates=k)
    miss = 0.1  # the chance of falling further behind than `error` says
    assert p[s < s.max() - law.error(1 - Fraction(1, 10), candidates=k)].sum() <= miss


@pytest.mark.parametrize("k", [2, 3, 10, 500])
def test_the_worst_bias_is_attained_by_equal_gaps_and_by_nothing_more(k):
    law = Exponential(epsilon="0.7")
    worst, rate = law.bias(candidates=k), float(law.rate)
    gap_ = (1 - worst * rate) / rate  # rate·G = 1 + x, with x = -worst·rate
    assert law.bias([gap_] + [0] * (k - 1)) == pytest.approx(worst, rel=1e-9)
    for other in (gap_ * 0.9, gap_ * 1.1):
        assert law.bias([other] + [0] * (k - 1)) > worst
    rng = np.random.default_rng(k)
    for _ in range(20):
        assert law.bias(list(-rng.exponential(gap_, k))) >= worst


def test_no_epsilon_no_bound():
    free = Exponential(epsilon=0)
    assert free.bias(candidates=3) == -math.inf
    assert free.variance(candidates=3) == math.inf
    assert free.bias([3, 0, 0]) == pytest.approx(-2)
    assert free.bias(candidates=1) == free.variance(candidates=1) == 0
    for bad in ({}, {"scores": [1, 2], "candidates": 2}, {"candidates": 0}):
        with pytest.raises(HushError):
            free.bias(**bad)


@pytest.mark.parametrize("scores", [[3, 1, 0], [3, 1, 0, 3, -2], [10**200, 0, 1, -(10**200)]])
def test_top_k_by_enumeration(scores):
    law = TopK(k=2, epsilon=3)
    first = Exponential(epsilon="1.5")
    chance, total = {}, {}
    for i in range(len(scores)):
        rest = [j for j in range(len(scores)) if j != i]
        then = first.probabilities([scores[j] for j in rest])
        for j, p in zip(rest, then, strict=True):
            chance[i, j] = first.probabilities(scores)[i] * p
            total[i, j] = sum(min(max(scores[at], -(10**150)), 10**150) for at in (i, j))
    inside = [sum(p for pair, p in chance.items() if i in pair) for i in range(len(scores))]
    assert law.probabilities(scores) == pytest.approx(inside, abs=1e-12)
    assert law.probabilities(scores).sum() == pytest.approx(2)
    best = max(total.values())
    mean = math.fsum(p * float(total[pair] - best) for pair, p in chance.items())
    assert law.bias(scores) == pytest.approx(mean, rel=1e-9)
    spread = math.fsum(p * (float(total[pair] - best) - mean) ** 2 for pair, p in chance.items())
    assert law.variance(scores) == pytest.approx(spread, rel=1e-9)
    assert law.bias(candidates=len(scores)) <= law.bias(scores) <= 0
    with pytest.raises(InvalidValueError, match="sets"):
        TopK(k=10, epsilon=1).bias(range(40))


def test_the_distance_of_a_metric_choice():
    ring = MetricExponential.on_cycle(9, epsilon=1)
    away = np.array([min(y, 9 - y) for y in range(9)])
    p = ring.probabilities(0)
    for confidence in (Fraction(1, 2), Fraction(9, 10), Fraction(999, 1000)):
        width = ring.error(confidence)
        assert p[away > width].sum() <= 1 - confidence < p[away >= width].sum()
    assert ring.bias(4) == pytest.approx(-(p @ away))
    assert ring.variance(4) == pytest.approx(p @ away**2 - (p @ away) ** 2)
    segment = MetricExponential(points=range(9), metric=gap, epsilon=2)
    for value in (0, 3, 8, 2.4):
        q, far = segment.probabilities(value), np.abs(np.arange(9) - value)
        assert q[far > far.min() + segment.error("0.9")].sum() <= 0.1
        assert segment.bias(value) == pytest.approx(far.min() - q @ far)
        assert segment.variance(value) == pytest.approx(q @ far**2 - (q @ far) ** 2)
    assert MetricExponential(points=["only"], metric=lambda _a, _b: 0, epsilon=1).error() == 0


def test_the_metric_form_on_the_integers_is_laplace():
    assert MetricExponential.on_integers(epsilon="0.4") == Laplace(sensitivity=1, epsilon="0.4")


@pytest.mark.parametrize(("sensitivity", "threshold", "step"), [(1, 0, 1), ("0.5", "0.3", "0.25"), (2, "0.5", 1)])
def test_above_threshold_is_as_accurate_as_it_says(sensitivity, threshold, step):
    queries, miss = 6, 0.2
    law = AboveThreshold(threshold=threshold, epsilon=4, sensitivity=sensitivity, step=step)
    reach = np.arange(-400, 401)
    pmf = lambda s: (1 - math.exp(-1 / s)) / (1 + math.exp(-1 / s)) * np.exp(-np.abs(reach) / s)  # noqa: E731
    rho, nu = (pmf(float(s)) for s in law.scales)
    assert law.variance == pytest.approx((rho + nu) @ reach**2 * float(Fraction(step)) ** 2)
    assert law.bias == 0
    # A wrong answer needs |ρ| + max|ν| above α, less what rounding has moved; all noises together, exactly.
    steps = (Fraction(law.error(1 - Fraction(miss), queries=queries)) - law.rounding) / law.step
    inside = np.array([nu[np.abs(reach) <= float(steps) - abs(r)].sum() for r in reach])
    assert 1 - rho @ inside**queries <= miss
    assert law.rounding == (0 if threshold == 0 else Fraction(1, 2) if step == 1 else Fraction(1, 20) + Fraction(1, 8))


def rounded(tail, scale, reach):
    """The law of |X|, X the whole number nearest to Y, from P[|Y| > t] = tail(t/scale)."""
    edges = np.concatenate([[1.0], tail((np.arange(reach) + 0.5) / scale), [0.0]])
    return -np.diff(edges), np.arange(reach + 1)


TAILS = {
    "laplace": lambda t: np.exp(-t),
    "gaussian": np.vectorize(lambda t: math.erfc(t / math.sqrt(2))),
    "polynomial": lambda t: (1 + t) ** -7.0,
}


@pytest.mark.parametrize("noise", TAILS)
@pytest.mark.parametrize("smooth", ["0.001", "0.05", "2"])
def test_the_variance_of_smooth_noise(noise, smooth):
    delta, power = (None, 8) if noise == "polynomial" else ("0.01", None)
    law = SmoothNoise(epsilon=2, delta=delta, noise=noise, power=power, step="0.1")
    scale = float(law.factor * Fraction(smooth) / law.step)
    p, k = rounded(TAILS[noise], scale, 200_000)
    exact = float(p @ k.astype(float) ** 2)
    # Of the Gaussian s² + 1/12 is told, which exceeds the variance by the first term of Poisson's series at most.
    more = math.exp(-2 * (math.pi * scale) ** 2) * (4 * scale**2 + math.pi**-2) if noise == "gaussian" else 0.0
    assert exact * (1 - 1e-6) <= law.variance(smooth) * 100 <= (exact + more) * (1 + 1e-6)
    assert law.bias == 0
    assert p[k * 0.1 > law.error("0.9", smooth_sensitivity=smooth)].sum() <= 0.1


def test_the_variance_of_cauchy_noise_is_a_bound_and_mostly_infinite():
    assert SmoothNoise(epsilon=1, noise="cauchy", step=1).variance(1) == math.inf
    assert math.isnan(SmoothNoise(epsilon=1, noise="cauchy", step=1).bias)
    assert SmoothNoise(epsilon=1, power=3, step=1).variance(1) == math.inf
    law = SmoothNoise(epsilon=1, noise="cauchy", power=6, step="0.25")
    scale = float(law.factor * 4)
    y = np.linspace(-2000, 2000, 4_000_001)
    density = 1 / (1 + np.abs(y) ** 6)
    exact = float((density * np.rint(y * scale) ** 2).sum() / density.sum()) / 16
    assert exact <= law.variance(1) <= exact * 1.05
    assert law.bias == 0


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_an_answer_of_propose_test_release(noise):
    law = ProposeTestRelease(epsilon="0.5", delta="0.01", eta="0.3", step="0.2", noise=noise)
    scale = float(law.eta * law.spread / law.epsilon / law.step)
    p, k = rounded(TAILS[noise], scale, 20_000)
    assert law.variance == pytest.approx(p @ k.astype(float) ** 2 * 0.04, rel=1e-6)
    assert law.bias == 0
    assert p[k * 0.2 > law.error("0.9")].sum() <= 0.1
    for distance in (0, 3, 20, math.inf):
        refused, answered = law.probabilities(distance)
        assert refused + answered == pytest.approx(1)
        if noise == "laplace":
            k_ = np.arange(-3000, 3001)
            pmf = math.tanh(0.25) * np.exp(-0.5 * np.abs(k_))
            above = 1.0 if distance == math.inf else float(pmf[k_ + distance > float(law.threshold)].sum())
            assert answered == pytest.approx(above, rel=1e-9)
    assert law.probabilities(law.distance_needed("0.9"))[1] >= 0.9
    assert law.probabilities(0)[1] <= 0.01


@pytest.mark.parametrize("sigma", ["0.3", "1", "2.5", "9", "40"])
@pytest.mark.parametrize("coordinates", [1, 3])
def test_gaussian_probabilities(sigma, coordinates):
    law = Gaussian(sensitivity=1, sigma=sigma, coordinates=coordinates)
    k = np.arange(-600, 601)
    p = law.probabilities(600)
    assert p.sum() == pytest.approx(1, rel=1e-12)
    # Of the rounded law σ² + 1/12 is told, which exceeds the variance by the first term of Poisson's series at most.
    s = float(Fraction(sigma))
    more = math.exp(-2 * (math.pi * s) ** 2) * (4 * s * s + math.pi**-2) if coordinates > 1 else 0.0
    exact = float(p @ k.astype(float) ** 2)
    assert exact * (1 - 1e-9) <= law.variance <= (exact + more) * (1 + 1e-9)
    assert np.array_equal(p, p[::-1])
    if coordinates == 1:
        assert p[601] / p[600] == pytest.approx(math.exp(-1 / (2 * s * s)))
    else:
        assert p[600] == pytest.approx(math.erf(0.5 / s / math.sqrt(2)))
    for confidence in (Fraction(1, 2), Fraction(99, 100)):
        assert p[np.abs(k) > law.error(confidence)].sum() <= 1 - confidence
    assert law.probabilities(2) == pytest.approx(p[598:603])


@pytest.mark.parametrize("law", [
    Laplace(sensitivity="0.5", epsilon=1, step=2), Laplace(sensitivity=1, epsilon=3, step=3),
    Gaussian(sensitivity="0.5", sigma=1, step=2), Gaussian(sensitivity="0.7", sigma=1, step=2, coordinates=2),
])  # fmt: skip
@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(95, 100)])
def test_half_widths_include_the_rounding_to_a_coarse_step(law, confidence):
    """A value as far from the grid as can be: the noise sits on the grid, the error is counted from the value."""
    step, k = float(law.step), np.arange(-200, 201)
    for offset in (0.0, 0.25, 0.5):
        if isinstance(law, Gaussian) and not law.discrete:  # the value is not rounded, the noisy value is
            s = float(law.sigma / law.step)
            edge = lambda t: math.erfc(-(t - offset) / s / math.sqrt(2)) / 2  # noqa: E731, B023
            p = np.array([edge(j + 0.5) - edge(j - 0.5) for j in k])
        else:
            p = law.probabilities(200)
        assert p[np.abs(k - offset) * step > law.error(confidence)].sum() <= 1 - confidence


@pytest.mark.parametrize("kind", [RandomizedResponse, SubsetSelection, LocalHashing])
def test_local_oracles_are_unbiased_and_their_variance_is_that_of_coins(kind):
    law = kind(epsilon=1, categories=6)
    p, q = law.support
    for n, f in itertools.product((1, 7, 50), (0.0, 0.3, 1.0)):
        true = round(f * n)
        f_ = true / n
        exact = (true * p * (1 - p) + (n - true) * q * (1 - q)) / n**2 / (p - q) ** 2
        assert law.variance(count=n, frequency=f_) == pytest.approx(exact)
    assert law.bias == 0


def test_errors_next_to_certainty_are_finite() -> None:
    """A confidence that no float can tell from 1 has an error all the same."""
    nearly = 1 - Fraction(1, 10**18)
    for data in ([number % 10 for number in range(1000)], [1, 2, 3] * 100):
        estimate = hush.mean(data, bounds=(0, 10), epsilon=1)
        assert estimate.error(0.9999) < estimate.error(nearly) < 10
    for law in (GroupedLaplace(scale=Fraction(10)), GroupedGaussian(sigma=Fraction(20))):
        summed = SummedNoise(law=law, times=400)
        assert summed.error(0.9999) < summed.error(nearly) < 10_000
