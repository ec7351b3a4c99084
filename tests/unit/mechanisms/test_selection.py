"""Choosing mechanisms: exact probabilities, totality, sessions, local oracles."""

import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from hush.core import HushError, InvalidValueError
from hush.local import LocalHashing, ProjectiveGeometry, SubsetSelection, frequency
from hush.mechanisms import (
    AboveThreshold,
    Exponential,
    MetricExponential,
    PermuteAndFlip,
    ProposeTestRelease,
    Quantile,
    RandomizedResponse,
    Refused,
    SmoothNoise,
    TopK,
)

MEDICAL = {"Diabetes": 24, "Hepatitis": 8, "Flu": 28, "HIV": 5}


def test_zero_epsilon_is_uniform_and_free():
    free = Exponential(epsilon=0)
    assert free.release(MEDICAL) in MEDICAL
    assert free.probabilities(MEDICAL).tolist() == [0.25] * 4
    assert free.event.pure_epsilon() == 0


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_scores_never_make_a_release_fail(kind):
    law = kind(epsilon=1)
    for scores in ([math.nan, 1.0, None], [math.inf, -math.inf, 0], [2**63, -(2**63)], [Fraction(1, 3), 0.25],
                   np.array([2**63 - 1, -(2**63)]), np.array([1.5, np.nan]), [True, False]):  # fmt: skip
        assert 0 <= law.release(scores) < len(scores)
    for bad in ([], [[1, 2]], "abc", ["a"]):
        with pytest.raises(HushError):
            law.release(bad)
    with pytest.raises(HushError):
        kind(epsilon=-1)
    with pytest.raises(HushError):
        kind(epsilon=1, monotonic="yes")


def test_permute_and_flip_is_never_worse():
    rng = np.random.default_rng(7)
    ratios = []
    for _ in range(60):
        scores = rng.integers(0, 12, rng.integers(2, 9))
        behind = scores.max() - scores
        flip = (PermuteAndFlip(epsilon=1).probabilities(scores) * behind).sum()
        plain = (Exponential(epsilon=1).probabilities(scores) * behind).sum()
        if plain > 0:
            ratios.append(flip / plain)
    assert max(ratios) <= 1 + 1e-12
    assert min(ratios) >= 0.5


def test_top_k():
    assert TopK(k=2, epsilon=10**6).release([5, 9, 1]) == [1, 0]
    assert sorted(TopK(k=3, epsilon=1).release([1, 1, 1])) == [0, 1, 2]
    assert TopK(k=4, epsilon=1).event.pure_epsilon() == pytest.approx(1)
    with pytest.raises(InvalidValueError):
        TopK(k=3, epsilon=1).release([1, 2])


def test_above_threshold():
    law = AboveThreshold(threshold=0, epsilon=10**4, count=1)
    assert law.release([-99, 99, 99]).tolist() == [False, True]
    stream = law.open()
    assert stream.ask(99)
    with pytest.raises(InvalidValueError, match="spent"):
        stream.ask(0)
    for count in (3, 10**6):
        first, second = AboveThreshold(threshold=0, epsilon=1, count=count).scales
        assert 1 / first + 2 * count / second == 1  # ε₁ + ε₂ = ε, exactly
    assert AboveThreshold(threshold=0, epsilon=1).release([]).tolist() == []


def test_metric_form():
    ring = MetricExponential.on_cycle(6, epsilon=2)
    p = ring.probabilities(0)
    assert p[0] / p[1] == pytest.approx(math.exp(2))
    assert ring.release(3) in range(6)
    segment = MetricExponential(points=range(4), metric=lambda a, b: abs(a - b), epsilon=2)
    assert segment.alpha == 1
    assert segment.release(2.6) in range(4)
    with pytest.raises(InvalidValueError):
        ring.release(17)
    with pytest.raises(InvalidValueError):
        MetricExponential(points=[], metric=lambda _a, _b: 0, epsilon=1)


@pytest.mark.parametrize("law", [
    RandomizedResponse(epsilon=1, categories=8), RandomizedResponse.with_truth("0.3", categories=8),
    SubsetSelection(epsilon=1, categories=8), LocalHashing(epsilon=1, categories=8),
])  # fmt: skip
def test_local_oracles_estimate_frequencies(law):
    true = np.repeat([0, 1, 2], [6000, 3000, 1000])
    estimate = law.estimate(law.release(true))
    # False-alarm probability at most 1e-6 by the half-width's own guarantee.
    width = law.error(1 - Fraction(1, 10**6), count=10_000, categories=8)
    assert np.abs(estimate - np.array([0.6, 0.3, 0.1, 0, 0, 0, 0, 0])).max() <= width
    assert law.variance(count=10_000) > 0
    law.release(None)
    law.release([float("nan"), "strange"])


def test_the_best_oracle_by_domain():
    assert isinstance(frequency(epsilon=3, categories=5), RandomizedResponse)
    chosen = frequency(epsilon=1, categories=64)
    assert isinstance(chosen, SubsetSelection)
    for other in (RandomizedResponse, LocalHashing):
        assert chosen.variance(count=100) < other(epsilon=1, categories=64).variance(count=100)
    assert isinstance(frequency(epsilon=1, categories=5000), ProjectiveGeometry)


def test_randomized_response_in_both_words():
    coin = RandomizedResponse.with_truth("0.5")
    assert float(coin.epsilon) == pytest.approx(math.log(3))
    assert coin.probabilities(0).tolist() == [0.75, 0.25]
    assert RandomizedResponse(epsilon=math.log(3)).probabilities(1) == pytest.approx([0.25, 0.75])
    for bad in ({"epsilon": 0}, {"epsilon": 1, "categories": 1}, {"epsilon": 1, "categories": ["a", "a"]}):
        with pytest.raises(HushError):
            RandomizedResponse(**bad)


def test_refused_is_a_value_of_its_own():
    assert not Refused
    assert pickle.loads(pickle.dumps(Refused)) is Refused
    law = ProposeTestRelease(epsilon="0.5", delta="1e-6", eta=1, step=1, noise="gaussian")
    assert law.event.total().epsilon == 1
    assert law.release(3, 10**6) is not Refused
    assert law.release(3, math.inf) is not Refused
    with pytest.raises(HushError):
        ProposeTestRelease(epsilon=2, delta="1e-6", eta=1, step=1, noise="gaussian")
    with pytest.raises(HushError):
        law.release(3, -1)


def test_smooth_noise_parameters():
    for noise in ("polynomial", "cauchy", "laplace", "gaussian"):
        delta = None if noise in {"polynomial", "cauchy"} else "1e-6"
        law = SmoothNoise(epsilon=1, delta=delta, noise=noise, step="0.01")
        assert law.error(0.95, smooth_sensitivity=1) > 0
        assert abs(law.release(5, "1e-12") - 5) < 0.02
        assert law.release(5, 0) == 5
    for bad in ({"noise": "polynomial", "delta": "1e-6"}, {"noise": "laplace"}, {"noise": "x"}, {"power": 2}):
        with pytest.raises(HushError):
            SmoothNoise(epsilon=1, step=1, **bad)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("q", [0, "0.25", "0.5", 1 / 3, 1])
def test_quantiles_take_anything(neighbours, q):
    law = Quantile(q=q, bounds=(-3, 5), epsilon=1, neighbours=neighbours, step="0.5")
    for data in ([], [math.nan], [math.inf, -math.inf, 2], [1], [1] * 500,
                 [None, "x", Fraction(1, 3), Decimal(3), math.inf] * 30,
                 list(range(1000)), np.array([2**63 - 1, 4])):  # fmt: skip
        assert -3 <= law.release(data) <= 5
    with pytest.raises(HushError):
        Quantile(q=2, bounds=(0, 1), epsilon=1)
    for bounds in ((1, 1), (2, 1), (0, math.inf), None, (0,)):
        with pytest.raises(HushError):
            Quantile(bounds=bounds, epsilon=1)


@pytest.mark.parametrize("confidence", [0, 1, 1 - Fraction(1, 10**13), "x"])
def test_an_interval_needs_a_confidence_that_can_be_drawn(confidence):
    with pytest.raises(HushError):
        Quantile(q="0.5", bounds=(0, 1), epsilon=1, confidence=confidence)


def test_messages_do_not_quote_private_values():
    calls = [
        lambda: MetricExponential(points=[1, 2], metric=lambda a, b: a - b, epsilon=1).release(7531),
        lambda: ProposeTestRelease(epsilon=1, delta="1e-6", eta=1, step=1).release(0, 7531.0),
        lambda: ProposeTestRelease(epsilon=1, delta="1e-6", eta=1, step=1).release(0, -7531),
    ]
    for call in calls:
        with pytest.raises(HushError) as refused:
            call()
        assert "753" not in str(refused.value)
        assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_all_the_integers_have_their_own_metric():
    """With d = |y - x|/10 the noise on whole numbers would be ten times too small, and its event free of charge."""
    with pytest.raises(HushError, match="on_integers"):
        MetricExponential(points=None, metric=lambda a, b: abs(a - b) / 10, sensitivity="0.1", epsilon=1)


def test_all_values_of_a_stream_are_compared_with_one_noisy_threshold() -> None:
    """So the numbers of "yes" of 40 values vary from stream to stream three times as much as those of coins would."""
    law = AboveThreshold(threshold=0, epsilon=1, count=40)
    streams = [law.open() for _ in range(1000)]
    assert np.var([sum(stream.ask(0) for _ in range(40)) for stream in streams]) > 18


def test_an_answer_of_no_category_is_reported_as_any() -> None:
    reports = RandomizedResponse(epsilon=10**4, categories=["a", "b", "c"]).release(["none of these"] * 3000)
    assert all(800 < np.count_nonzero(reports == name) < 1200 for name in "abc")
