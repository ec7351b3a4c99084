"""Random adaptive analysts: what the filter promises is never less than what was released, composed exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting import ApproximateDPEvent, GaussianEvent, LaplaceEvent, RandomizedResponseEvent, compose
from hush.core import BudgetExceededError, HushError
from hush.ledger import Actor, Budget, Ledger
from hush.ledger.budgets import price
from hush.ledger.rules import written_off

OWNER = Actor.owner("owner")

tenths = st.integers(1, 30).map(lambda n: Fraction(n, 10))
pure_events = st.one_of(
    st.builds(LaplaceEvent, scale=tenths), st.builds(lambda epsilon: ApproximateDPEvent(epsilon=epsilon / 4), tenths)
)
events = st.one_of(
    st.builds(lambda scale: LaplaceEvent(scale=10 * scale), tenths),
    st.builds(lambda sigma: GaussianEvent(sigma=10 * sigma), tenths),
    st.builds(lambda n: RandomizedResponseEvent(epsilon=Fraction(n, 20)), st.integers(1, 10)),
    st.builds(lambda n: ApproximateDPEvent(epsilon=Fraction(n, 20), delta=Fraction(n, 10**8)), st.integers(1, 9)),
)


def opened(budget, alice=None):
    ledger = Ledger.in_memory()
    ledger.create_data("d", budget, actor=OWNER)
    ledger.add_analyst("alice", data="d", budget=alice, actor=OWNER)
    return ledger


def ask(ledger, at, event):
    ledger.reserve(f"q{at}", analyst="alice", data="d", question=f"question {at}", events=[event])


@settings(max_examples=60, deadline=None)
@given(epsilon=tenths, steps=st.lists(pure_events, min_size=1, max_size=25))
def test_a_pure_budget_is_a_sum_to_the_last_digit(epsilon, steps):
    with opened({"epsilon": epsilon}) as ledger:
        total, released = Fraction(0), []
        for at, event in enumerate(steps):
            cost = 1 / event.scale if isinstance(event, LaplaceEvent) else event.epsilon
            if total + cost <= epsilon:
                ask(ledger, at, event)
                total += cost
                released.append(event)
            else:
                with pytest.raises(BudgetExceededError, match="lower epsilon, or ask the owner for more"):
                    ask(ledger, at, event)
            assert ledger.budget(OWNER)[0].remaining.epsilon == epsilon - total
        if released:
            assert compose(released).epsilon(delta="1e-9").lower <= epsilon
        ledger.verify()


@settings(max_examples=25, deadline=None)
@given(kind=st.sampled_from(["renyi", "zcdp", "gdp", "pure"]), data=st.data())
def test_an_approximate_budget_is_never_exceeded(kind, data):
    """The next event is drawn after seeing what became of the last one: all that an adaptive analyst can do."""
    delta = Fraction(1, 10**6)
    budget = Budget(epsilon=data.draw(tenths), delta=delta, kind=kind)
    with opened(budget, {"epsilon": 2, "delta": "1e-5"}) as ledger:
        released = []
        for at in range(data.draw(st.integers(1, 15))):
            event = data.draw(events)
            mine = ledger.budget(OWNER)
            try:
                fits = all(view.account.fits(price(view.account, [event])) for view in mine)
            except HushError:  # no price in this currency: Gaussian noise in a sum of ε
                with pytest.raises(HushError):
                    ask(ledger, at, event)
                continue
            if fits:
                ask(ledger, at, event)
                released.append(event)
            else:
                most = "Most was spent by" if released else ""
                with pytest.raises(BudgetExceededError, match=f"takes .*, but .* is left.*; (lower|group) .*{most}"):
                    ask(ledger, at, event)
        if released:
            together = compose(released)
            for view in ledger.budget(OWNER):
                assert together.epsilon(delta=view.delta).lower <= view.epsilon
                assert view.spent.share <= 1
        ledger.verify()


@pytest.mark.parametrize("kind", ["pure", "renyi", "zcdp", "gdp"])
@pytest.mark.parametrize("steps", [1, 4])
def test_an_account_written_off_gives_nothing_back_when_it_is_raised(kind, steps):
    fresh = Budget(epsilon=1, delta="1e-6", kind=kind).open()
    true = fresh
    for _ in range(steps):  # what the lost entries may have released, admitted by its sum
        true = true.admit(ApproximateDPEvent(epsilon=Fraction(1, steps)))
    gone = written_off(fresh, "all").raised(epsilon=3)
    assert gone.spent_loss >= true.spent_loss
    assert gone.remaining().epsilon <= true.raised(epsilon=3).remaining().epsilon == 2


def test_prices_of_any_length_can_be_verified():
    ledger = opened({"epsilon": 1})
    steps = [ApproximateDPEvent(epsilon=Fraction(1, 10**1800 + odd)) for odd in (1, 3)]
    ledger.reserve("q", analyst="alice", data="d", question="q", events=steps)
    assert ledger.verify().charges == 1


def test_what_fits_still_fits_when_it_is_rounded_as_it_is_kept():
    account = Budget(epsilon=Fraction(1, 3), delta="1e-6").open()
    charge = account.price(ApproximateDPEvent(epsilon=Fraction(1, 3) - Fraction(1, 3**1400)))
    assert charge.loss > account.limit
    assert account.spend(charge).spent_epsilon > account.epsilon  # a ledger's verification would refuse it
    assert not account.fits(charge)
