"""Plans: charged once for what they declare, and for nothing else."""

import json

import pytest

from hush.accounting import BoundedRangeEvent, GaussianEvent, LaplaceEvent, Plan, RenyiFilter, compose
from hush.core import BudgetExceededError, HushError, InvalidValueError

STEPS = [GaussianEvent(sigma=30)] * 20 + [LaplaceEvent(scale=20)] * 20


def test_a_plan_is_exact_composition_and_admits_more_than_a_filter():
    exactly = compose(STEPS).epsilon("1e-6").upper
    plan = Plan.open(STEPS, epsilon=exactly * (1 + 1e-12), delta="1e-6")
    assert plan.guarantee.epsilon("1e-6").upper == pytest.approx(exactly, rel=1e-12)
    account = RenyiFilter.open(epsilon=exactly, delta="1e-6", reserve=0)
    assert sum(account.price(step).loss for step in STEPS) > account.limit
    with pytest.raises(BudgetExceededError, match="40 steps need ε="):
        Plan.open(STEPS, epsilon=exactly * 0.999, delta="1e-6")


def test_steps_run_in_order_and_add_nothing():
    plan = Plan.open(STEPS, epsilon=4, delta="1e-6")
    for step in STEPS:
        plan = plan.run(step)
    assert plan.finished
    with pytest.raises(BudgetExceededError, match="have run"):
        plan.run(STEPS[0])


def test_nothing_else_runs():
    plan = Plan.open(STEPS, epsilon=4, delta="1e-6")
    for other in (STEPS[-1], GaussianEvent(sigma=29), GaussianEvent(sigma=31), None, "0.1"):
        with pytest.raises(InvalidValueError, match="step 1"):
            plan.run(other)
    assert plan.done == 0


def test_pure_plans_are_exact():
    tenths = [LaplaceEvent(scale=10)] * 10
    assert Plan.open(tenths, epsilon=1).finished is False
    with pytest.raises(BudgetExceededError):
        Plan.open([*tenths, LaplaceEvent(scale=10**9)], epsilon=1)
    with pytest.raises(HushError):
        Plan.open([GaussianEvent(sigma=1)], epsilon=1)


def test_a_plan_never_relies_on_queries_that_are_fixed_in_advance():
    """Its queries may depend on answers, so bounded range counts as adaptive."""
    fixed = [BoundedRangeEvent(epsilon="0.2", mode="nonadaptive")] * 10
    free = [BoundedRangeEvent(epsilon="0.2", mode="adaptive")] * 10
    one = Plan.open(fixed, epsilon=2, delta="1e-6").guarantee.epsilon("1e-6")
    other = Plan.open(free, epsilon=2, delta="1e-6").guarantee.epsilon("1e-6")
    assert one.upper == pytest.approx(other.upper, rel=1e-9)


def test_state_round_trips_and_is_checked_again():
    plan = Plan.open(STEPS, epsilon=4, delta="1e-6").run(STEPS[0])
    data = json.loads(json.dumps(plan.to_json()))
    assert Plan.from_json(data) == plan
    for damage in (
        {**data, "done": 99},
        {**data, "done": True},
        {**data, "version": 2},
        {**data, "kind": "renyi"},
        {**data, "steps": 3},
        {**data, "steps": []},
        {**data, "steps": [{"type": "magic"}]},
        {**data, "extra": 1},
        None,
        [],
    ):
        with pytest.raises(InvalidValueError):
            Plan.from_json(damage)
    with pytest.raises(BudgetExceededError):
        Plan.from_json({**data, "epsilon": "0.1"})
