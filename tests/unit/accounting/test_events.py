"""Events: valid when they exist, exact, and readable for ever."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    BoundedRangeEvent,
    ComposedEvent,
    DescriptionError,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelEvent,
    PartitionSelectionEvent,
    PermuteAndFlipEvent,
    PoissonGaussianEvent,
    PoissonLaplaceEvent,
    ProposeTestReleaseEvent,
    RandomizedResponseEvent,
    RenyiEvent,
    UnknownEventError,
    ZCDPEvent,
    compose,
    event_from_json,
)
from hush.accounting.prices import pure_price
from hush.core import InvalidValueError

EVERY = [
    LaplaceEvent(scale="1/3", sensitivity=2),
    GaussianEvent(sigma="0.1"),
    GaussianEvent(sigma_squared=2, sensitivity="0.5"),
    DiscreteLaplaceEvent(parameter="0.3", sensitivity=3),
    DiscreteLaplaceEvent(scale=3),
    DiscreteGaussianEvent(sigma_squared="7/3", sensitivity=2),
    RandomizedResponseEvent(epsilon=1),
    RandomizedResponseEvent(epsilon="0.2", choices=7),
    ApproximateDPEvent(epsilon=1, delta="1e-9"),
    BoundedRangeEvent(epsilon="0.2", mode="nonadaptive"),
    BoundedRangeEvent(epsilon="0.2"),
    PermuteAndFlipEvent(epsilon="0.2"),
    ZCDPEvent(rho="0.1"),
    ZCDPEvent(rho="0.1", delta="1e-9"),
    RenyiEvent(points=[(10, 1)]),
    RenyiEvent(points=[(2, "0.5"), (10, 1)]),
    PoissonGaussianEvent(rate="0.01", sigma=4),
    PoissonLaplaceEvent(rate="0.01", scale=4),
    ProposeTestReleaseEvent(epsilon=1, delta="1e-6"),
    ProposeTestReleaseEvent(epsilon=1, delta="1e-6", noise="gaussian"),
    PartitionSelectionEvent(epsilon=1, delta="1e-6"),
    ComposedEvent(parts=[(LaplaceEvent(scale=1), 3), GaussianEvent(sigma=2)]),
    GroupEvent(event=LaplaceEvent(scale=1), size=3),
    ParallelEvent(events=[LaplaceEvent(scale=1), LaplaceEvent(scale=2)], neighbours="replace"),
]


@pytest.mark.parametrize("event", EVERY, ids=lambda event: event.type)
def test_written_and_read_back_exactly(event):
    text = json.dumps(event.to_json())
    again = event_from_json(json.loads(text))
    assert again == event
    assert hash(again) == hash(event)
    assert json.loads(text)["version"] == 1


@pytest.mark.parametrize("event", EVERY, ids=lambda event: event.type)
def test_every_event_has_a_renyi_curve_or_says_infinity(event):
    value = event.renyi("1.5")
    assert value >= 0
    assert event.renyi(2) >= value
    assert event.renyi(math.inf) >= event.renyi(2)
    assert 0 <= event.delta_infinite < 1


def test_exact_parameters():
    assert LaplaceEvent(scale=0.1) == LaplaceEvent(scale="1/10") == LaplaceEvent(scale=Fraction(1, 10))
    assert GaussianEvent(sigma=3) == GaussianEvent(sigma_squared=9)


def test_numbers_and_counts_of_plain_json():
    event = event_from_json({"type": "discrete_gaussian", "sigma": 3.0, "sensitivity": 2.0, "count": 20})
    assert compose([event]).description.pairs == (
        compose([DiscreteGaussianEvent(sigma=3, sensitivity=2)] * 20).description.pairs
    )


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: LaplaceEvent(scale=-1), "scale"),
        (lambda: LaplaceEvent(scale=0), "scale"),
        (lambda: GaussianEvent(sigma=float("nan")), "sigma"),
        (GaussianEvent, "sigma"),
        (lambda: GaussianEvent(sigma=1, sigma_squared=1), "sigma"),
        (lambda: GaussianEvent(sigma=float("inf")), "sigma"),
        (lambda: DiscreteGaussianEvent(sigma=1, sensitivity="0.5"), "sensitivity"),
        (lambda: DiscreteLaplaceEvent(parameter=1, sensitivity=0), "sensitivity"),
        (lambda: RandomizedResponseEvent(epsilon=-1), "epsilon"),
        (lambda: RandomizedResponseEvent(epsilon=1, choices=1), "choices"),
        (lambda: ApproximateDPEvent(epsilon=1, delta=2), "delta"),
        (lambda: BoundedRangeEvent(epsilon=1, mode="maybe"), "mode"),
        (lambda: PoissonGaussianEvent(rate=2, sigma=1), "rate"),
        (lambda: RenyiEvent(points=[(1, 1)]), "alpha"),
        (lambda: RenyiEvent(points=[]), "points"),
        (lambda: ComposedEvent(parts=[1]), "parts"),
        (lambda: ParallelEvent(events=[LaplaceEvent(scale=1)], partition="colour"), "partition"),
        (lambda: GroupEvent(event=LaplaceEvent(scale=1), size=0), "size"),
        (lambda: LaplaceEvent(scale=1).renyi(1), "alpha"),
        (lambda: event_from_json({"type": "laplace", "scale": 1, "count": -1}), "count"),
        (lambda: event_from_json({"type": "laplace", "scal": 1}), "scal"),
        (lambda: event_from_json({"type": "poisson_gaussian", "sigma": 1}), "rate"),
        (lambda: compose([1]), "events"),
    ],
)
def test_bad_input_names_the_parameter(make, parameter):
    with pytest.raises(InvalidValueError) as caught:
        make()
    assert caught.value.parameter == parameter


def test_unknown_types_and_versions_are_refused_by_name():
    with pytest.raises(UnknownEventError, match="Did you mean: 'gaussian'"):
        event_from_json({"type": "gausian", "sigma": 1})
    with pytest.raises(UnknownEventError, match="newer hush"):
        event_from_json({"version": 2, "type": "gaussian", "sigma": 1})


def test_an_event_that_knows_nothing_of_groups_says_so():
    with pytest.raises(DescriptionError):
        GroupEvent(event=RenyiEvent(points=[(10, 1)]), size=2)


def test_parallel_costs_the_worst_part_or_the_worst_two():
    parts = [LaplaceEvent(scale=1), LaplaceEvent(scale=2), LaplaceEvent(scale=4)]
    assert ParallelEvent(events=parts).pure_epsilon() == 1.0
    assert ParallelEvent(events=parts, neighbours="replace", partition="index").pure_epsilon() == 1.0
    assert ParallelEvent(events=parts, neighbours="replace", partition="value").pure_epsilon() == 1.5
    mixed = ParallelEvent(events=[LaplaceEvent(scale=1), GaussianEvent(sigma=1)])
    assert mixed.renyi(3) == pytest.approx(max(LaplaceEvent(scale=1).renyi(3), GaussianEvent(sigma=1).renyi(3)))
    assert compose([mixed]).epsilon(1e-6) >= compose([GaussianEvent(sigma=1)]).epsilon(1e-6)


def test_permute_and_flip_is_not_of_bounded_range():
    """The counter-example in the docstring: two candidates, a tie against a difference of 2Δ."""
    e = 1.0
    tie, apart = (0.5, 0.5), (1 - 0.5 * math.exp(-e), 0.5 * math.exp(-e))
    ratios = [math.log(b / a) for a, b in zip(tie, apart, strict=True)]
    assert max(ratios) - min(ratios) > e + 0.4
    assert PermuteAndFlipEvent(epsilon=1).description() == RandomizedResponseEvent(epsilon=1).description()


def test_propose_test_release_and_groups_of_black_boxes():
    assert ProposeTestReleaseEvent(epsilon=1, delta="1e-6").total() == ApproximateDPEvent(epsilon=2, delta="1e-6")
    gaussian = ProposeTestReleaseEvent(epsilon=1, delta="1e-6", noise="gaussian").total()
    assert float(gaussian.delta) == pytest.approx(2 * math.e * 1e-6 + 1e-12)
    group = ApproximateDPEvent(epsilon=1, delta="1e-8").group(5)
    assert float(group.delta) == pytest.approx(85.79e-8, rel=1e-4)
    assert group.epsilon == 5


def test_parts_whose_epsilons_differ_by_less_than_a_float_shows_cost_the_larger():
    larger = 1 + Fraction(1, 10**30)
    for parts in ([1, larger], [larger, 1]):
        events = [LaplaceEvent(scale=1 / Fraction(parts[0])), RandomizedResponseEvent(epsilon=parts[1])]
        assert pure_price(ParallelEvent(events=events))[0] >= larger
