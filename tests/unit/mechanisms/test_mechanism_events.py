"""Every mechanism's event can be written, read back and accounted for."""

import json

import pytest

from hush.accounting import ComposedEvent, compose, event_from_json
from hush.local import LocalHashing, SubsetSelection
from hush.mechanisms import (
    AboveThreshold,
    Exponential,
    Gaussian,
    Laplace,
    Mechanism,
    MetricExponential,
    PermuteAndFlip,
    ProposeTestRelease,
    Quantile,
    RandomizedResponse,
    SmoothNoise,
    TopK,
)

MECHANISMS = [
    Laplace(sensitivity=2, epsilon="0.5"), Gaussian(sensitivity=1, epsilon=1, delta="1e-6"),
    Gaussian(sensitivity=1, epsilon=1, delta="1e-6", coordinates=4), RandomizedResponse(epsilon="0.5", categories=4),
    SubsetSelection(epsilon="0.5", categories=9), LocalHashing(epsilon="0.5", categories=9), Exponential(epsilon="0.5"),
    PermuteAndFlip(epsilon="0.5"), TopK(k=3, epsilon="0.5"), AboveThreshold(threshold=0, epsilon="0.5"),
    MetricExponential.on_cycle(5, epsilon="0.5"), MetricExponential.on_integers(epsilon="0.5"),
    Quantile(bounds=(0, 1), epsilon="0.5"), SmoothNoise(epsilon="0.5", step=1),
    ProposeTestRelease(epsilon="0.25", delta="1e-6", eta=1, step=1),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_events(mechanism):
    assert isinstance(mechanism, Mechanism)
    event = mechanism.event
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event
    assert compose([event]).epsilon("1e-5") <= (1 if isinstance(mechanism, Gaussian) else 0.5) * (1 + 1e-9)
    hash(mechanism)


def test_they_compose():
    pure = [m for m in MECHANISMS if not isinstance(m, (Gaussian, ProposeTestRelease))]
    assert compose(pure).epsilon(0) == pytest.approx(0.5 * len(pure))
    assert ComposedEvent(parts=[m.event for m in pure]).pure_epsilon() == pytest.approx(0.5 * len(pure))
