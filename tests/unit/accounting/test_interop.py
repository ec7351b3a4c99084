"""Events of Opacus and dp_accounting. The classes here have the names and fields of dp_accounting 0.6's own."""

from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest

from hush.accounting import (
    ComposedEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PoissonLaplaceEvent,
    UnknownEventError,
    ZCDPEvent,
    compose,
    from_dp_accounting,
    from_opacus,
)
from hush.core import InvalidValueError

Gaussian = make_dataclass("GaussianDpEvent", ["noise_multiplier"])
Laplace = make_dataclass("LaplaceDpEvent", ["noise_multiplier"])
Discrete = make_dataclass("DiscreteLaplaceDpEvent", ["noise_parameter", "sensitivity"])
Concentrated = make_dataclass("ZCDpEvent", ["rho", "xi"])
Sampled = make_dataclass("PoissonSampledDpEvent", ["sampling_probability", "event"])
Many = make_dataclass("SelfComposedDpEvent", ["event", "count"])
Composed = make_dataclass("ComposedDpEvent", ["events"])
Nothing = make_dataclass("NoOpDpEvent", [])


@dataclass
class SampledWithoutReplacementDpEvent:
    source_dataset_size: int
    sample_size: int
    event: Any


def test_a_training_run_of_opacus_costs_what_the_golden_value_says():
    """q=0.01, σ=4, 10,000 steps at δ=1e-5: 0.9468668007643805, certified on both sides."""
    bound = compose([from_opacus({"mechanism": "rdp", "history": [(4.0, 0.01, 10_000)]})]).epsilon("1e-5")
    assert bound.lower <= 0.946866800764475
    assert bound.upper >= 0.9468668007642858
    assert bound.upper == pytest.approx(0.9468668007643805, rel=1e-6)


def test_a_history_of_phases_composes():
    event = from_opacus({"mechanism": "prv", "history": [(1.1, 0.02, 100), (0.9, 0.02, 50)]})
    assert event == ComposedEvent(
        parts=[(PoissonGaussianEvent(rate=0.02, sigma=1.1), 100), (PoissonGaussianEvent(rate=0.02, sigma=0.9), 50)]
    )
    assert compose([from_opacus({"history": []})]).epsilon("1e-6") == 0


@pytest.mark.parametrize("state", [None, {}, {"history": "x"}, {"history": [(1, 2)]}, {"history": [(0, 0.1, 5)]}])
def test_a_state_that_is_none_is_refused(state):
    with pytest.raises(InvalidValueError):
        from_opacus(state)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (Gaussian(2.5), GaussianEvent(sigma=2.5)),
        (Laplace(2.0), LaplaceEvent(scale=2)),
        (Discrete(0.5, 2), DiscreteLaplaceEvent(parameter="0.5", sensitivity=2)),
        (Concentrated(0.1, 0.0), ZCDPEvent(rho="0.1")),
        (Sampled(0.01, Gaussian(1.0)), PoissonGaussianEvent(rate="0.01", sigma=1)),
        (Sampled(0.5, Laplace(1.0)), PoissonLaplaceEvent(rate="0.5", scale=1)),
        (Many(Gaussian(3.0), 7), ComposedEvent(parts=[(GaussianEvent(sigma=3), 7)])),
        (Nothing(), ComposedEvent(parts=[])),
        (Sampled(0.5, Nothing()), ComposedEvent(parts=[])),
        (Composed([Gaussian(3.0), Nothing()]), ComposedEvent(parts=[(GaussianEvent(sigma=3), 1)])),
    ],
)
def test_events_of_dp_accounting_have_counterparts(theirs, ours):
    assert compose([from_dp_accounting(theirs)]).description == compose([ours]).description


@pytest.mark.parametrize(
    "theirs",
    [
        SampledWithoutReplacementDpEvent(100, 10, Gaussian(1.0)),
        Sampled(0.1, Many(Gaussian(1.0), 3)),
        Concentrated(0.1, 0.2),
        object(),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(theirs):
    with pytest.raises(UnknownEventError, match="by hand"):
        from_dp_accounting(theirs)


def test_no_noise_is_no_event():
    with pytest.raises(InvalidValueError, match="noise_multiplier"):
        from_dp_accounting(Gaussian(0.0))
