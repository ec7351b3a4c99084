"""THEORY, items 5 to 9: post-processing, groups, composition, parallel parts, adaptive budgets."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.accounting import (
    ApproximateDPEvent,
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    compose,
    theorems,
)
from hush.accounting.filters import GDPFilter, PureFilter, RenyiFilter, ZCDPFilter
from hush.core import BudgetExceededError
from hush.core.rounding import ball
from hush.core.rounding import fraction_down as down
from hush.core.rounding import fraction_up as up


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


# Item 5: post-processing and groups


LAWS = st.lists(st.integers(0, 9), min_size=6, max_size=6).filter(any).map(lambda w: np.array(w) / sum(w))
KERNELS = st.lists(LAWS, min_size=6, max_size=6).map(np.array)


@given(LAWS, LAWS, KERNELS, st.sampled_from([0, 0.1, 1, 3]))
def test_post_processing_never_increases_delta(p, q, kernel, epsilon):
    assert hockey_stick(p @ kernel, q @ kernel, epsilon) <= hockey_stick(p, q, epsilon) + 1e-12


def test_the_tight_group_bound_is_attained_and_the_textbook_is_three_times_as_large():
    """A key kept with p₀ = 0, pₙ = e^ε·pₙ₋₁ + δ is (ε, δ)-DP per unit, and reaches the group bound for K units."""
    epsilon, delta, size = 1.0, 1e-6, 5
    kept = [0.0]
    for _ in range(size):
        kept.append(math.exp(epsilon) * kept[-1] + delta)
    for one, other in itertools.pairwise(kept):
        p, q = np.array([other, 1 - other]), np.array([one, 1 - one])
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= delta * (1 + 1e-9)
    tight, textbook = theorems.group(1, "1e-6", size=size), theorems.group_textbook(1, "1e-6", size=size)
    assert kept[size] == pytest.approx(float(tight.delta), rel=1e-9)
    assert float(tight.delta) / delta == pytest.approx(85.79, abs=0.005)  # ✓
    assert float(textbook.delta) / delta == pytest.approx(273, abs=0.5)  # ✓


# Item 6: sequential composition


def test_sums_are_optimal_for_pure_steps_and_far_from_it_for_a_little_delta():
    steps = [("0.1", 0)] * 100
    assert theorems.basic(steps) == (10, 0)
    assert theorems.optimal_homogeneous("0.1", count=100, delta=0).upper == 10
    assert theorems.optimal_homogeneous("0.1", count=100, delta="1e-6").upper < 4.78


# Item 7: parallel composition


def test_two_cells_cost_two_when_a_unit_may_move_between_them():
    """Laplace noise of scale 1 on two counts: moving one unit changes both, so the loss reaches 2."""
    output = np.linspace(-3, 4, 701)
    before, after = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    loss = sum(
        np.abs(output - after[i]).min() * 0 + np.max(np.abs(output - after[i]) - np.abs(output - before[i]))
        for i in (0, 1)
    )
    assert loss == pytest.approx(2.0)  # ✓
    cells = [(1, 0), (1, 0)]
    assert theorems.parallel(cells, neighbours="replace", partition="value").epsilon == 2
    assert theorems.parallel(cells, neighbours="replace", partition="unit").epsilon == 2
    assert theorems.parallel(cells, neighbours="replace", partition="index").epsilon == 1
    assert theorems.parallel(cells, neighbours="add-remove", partition="value").epsilon == 1
    assert theorems.parallel(cells, neighbours="add-remove", partition="unit").epsilon == 1


def test_the_two_largest_parts_count():
    parts = [(3, "1e-9"), (1, "1e-6"), (2, 0), (1, "1e-7")]
    assert theorems.parallel(parts, neighbours="replace", partition="value") == (5, Fraction(11, 10**7))
    assert theorems.parallel(parts, neighbours="add-remove", partition="value") == (3, Fraction(1, 10**6))


def test_positions_shift_when_rows_come_and_go():
    with pytest.raises(ValueError, match="shifts the position"):
        theorems.parallel([(1, 0)], neighbours="add-remove", partition="index")


# Item 8: the ladder of theorems


@pytest.mark.parametrize(("epsilon", "count"), [("0.1", 100), ("0.01", 10_000), ("0.5", 30)])
def test_each_theorem_improves_on_the_one_before(epsilon, count):
    steps, delta = [(epsilon, 0)] * count, "1e-6"
    events = [RandomizedResponseEvent(epsilon=epsilon)] * count
    exactly = compose(events).epsilon(delta)
    optimal = theorems.optimal_homogeneous(epsilon, count=count, delta=delta)
    improved, advanced = theorems.advanced_improved(steps, delta=delta), theorems.advanced(steps, delta=delta)
    assert exactly.upper == pytest.approx(optimal.upper, rel=1e-9)
    assert optimal < improved < advanced


# Item 9: adaptive budgets


def adaptive_strategy():
    """Return the parts of the counter-example to privacy-loss filters, in balls.

    First randomized response with ε = 0.1. After the answer of loss +0.1 Laplace noise, as little of it as exact
    composition allows within (1, 1e-6); after the other answer a step that reveals everything with probability 1e-6.
    """
    plus = 1 / (1 + (-ball(Fraction(1, 10))).exp())
    delta = ball(Fraction(1, 10**6))
    # With P(+)·(1 - e^{(0.9-e)/2}) = δ, Laplace of largest loss e brings the composition to δ(1) = 1e-6 exactly.
    largest = ball(Fraction(9, 10)) - 2 * (1 - delta / plus).log()
    return plus, delta, largest


def test_an_exact_curve_per_path_is_no_filter():
    plus, delta, largest = adaptive_strategy()
    first = RandomizedResponseEvent(epsilon="0.1")
    laplace = LaplaceEvent(scale=1 / Fraction(math.floor(down(largest) * 10**15), 10**15), sensitivity=1)
    reveal = ApproximateDPEvent(epsilon=0, delta="1e-6")
    for path in ([first, laplace], [first, reveal]):  # each path alone is within (1, 1e-6)
        assert compose(path).delta(1).upper <= 1e-6 * (1 + 1e-6)
    # δ(1) of the strategy: losses 0.1 + Laplace on one branch; on the other -0.1 < 1, or infinite.
    true = plus * (1 - ((ball(Fraction(9, 10)) - largest) / 2).exp()) + (1 - plus) * delta
    assert float(down(true)) / 1e-6 == pytest.approx(1.475, abs=5e-4)  # ✓
    assert float(up(true)) / 1e-6 == pytest.approx(1.475, abs=5e-4)


@pytest.mark.parametrize("filter_", [
    PureFilter.open(epsilon=1, delta="1e-6"),
    RenyiFilter.open(epsilon=1, delta="1e-6"),
    RenyiFilter.open(epsilon=1, delta="1e-6", alpha=300, reserve="9e-7"),
    RenyiFilter.open(epsilon=1, delta="1e-6", alpha=3000, reserve="1e-9"),
    ZCDPFilter.open(epsilon=1, delta="1e-6"),
    GDPFilter.open(epsilon=1, delta="1e-6", reserve="5e-7"),
])  # fmt: skip
def test_filters_survive_that_strategy(filter_):
    """Each branch spends all that its filter lets it; the mixture stays within the budget."""
    after = filter_.admit(RandomizedResponseEvent(epsilon="0.1"))
    loss = after.remaining().epsilon
    mass = after.remaining().delta
    after.admit(LaplaceEvent(scale=1 / loss, sensitivity=1))
    after.admit(ApproximateDPEvent(epsilon=0, delta=mass))
    with pytest.raises(BudgetExceededError):
        after.admit(ApproximateDPEvent(epsilon=0, delta=mass * 2))
    plus = 1 / (1 + math.exp(-0.1))
    true = plus * max(0, 1 - math.exp((0.9 - float(loss)) / 2)) + (1 - plus) * float(mass)
    assert true <= 1e-6


class Adversary:
    """The worst analyst: at each point the loss so far is known, and the choice that makes δ(ε) largest is made.

    Steps are randomized responses and reveals; the expected (1-e^{ε-L})₊ is maximised over all adaptive strategies
    of a given length, whatever each branch can still afford.
    """

    def __init__(self, epsilon, responses, reveals):
        self.epsilon = epsilon
        self.responses = [(float(Fraction(e)), RandomizedResponseEvent(epsilon=e)) for e in responses]
        self.reveals = [(float(Fraction(m)), ApproximateDPEvent(epsilon=0, delta=m)) for m in reveals]
        self.memory = {}

    def delta(self, account, length, loss=0.0):
        key = (round(loss, 9), account.spent_loss, account.spent_delta, length)
        if key in self.memory:
            return self.memory[key]
        best = max(0.0, -math.expm1(self.epsilon - loss))
        if length:
            for e, event in self.responses:
                charge = account.price(event)
                if account.fits(charge):
                    after, chance = account.admit(charge), 1 / (1 + math.exp(-e))
                    up_, down_ = (self.delta(after, length - 1, loss + sign * e) for sign in (1, -1))
                    best = max(best, chance * up_ + (1 - chance) * down_)
            for m, event in self.reveals:
                charge = account.price(event)
                if account.fits(charge):
                    best = max(best, m + (1 - m) * self.delta(account.admit(charge), length - 1, loss))
        self.memory[key] = best
        return best


@pytest.mark.parametrize("open_", [
    lambda e, d: PureFilter.open(epsilon=e, delta=d),
    lambda e, d: RenyiFilter.open(epsilon=e, delta=d, alpha=4, reserve=Fraction(d) / 3),
    lambda e, d: RenyiFilter.open(epsilon=e, delta=d, alpha=12, reserve=Fraction(d) / 3),
    lambda e, d: RenyiFilter.open(epsilon=e, delta=d, alpha=12, reserve=0),
    lambda e, d: ZCDPFilter.open(epsilon=e, delta=d),
    lambda e, d: GDPFilter.open(epsilon=e, delta=d, reserve=Fraction(d) / 3),
], ids=["pure", "renyi-4", "renyi-12", "renyi-12-no-reserve", "zcdp", "gdp"])  # fmt: skip
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.05"), ("2", "0.01")])
def test_the_worst_adaptive_analyst_stays_within_the_budget(open_, epsilon, delta):
    adversary = Adversary(float(epsilon), ["0.2", "0.5"], [Fraction(delta) / 6])
    worst = adversary.delta(open_(epsilon, delta), 8)
    assert 0 < worst <= float(delta)


class PathwiseCurve:
    """What hush does not offer: an account that composes exact curves along the path taken so far."""

    spent_delta = 0

    def __init__(self, epsilon, delta, events=()):
        self.epsilon, self.delta, self.events = epsilon, delta, events

    @property
    def spent_loss(self):
        return tuple(sorted(map(repr, self.events)))

    def price(self, event):
        return event

    def fits(self, event):
        return compose([*self.events, event]).delta(self.epsilon).upper <= float(self.delta)

    def admit(self, event):
        return PathwiseCurve(self.epsilon, self.delta, (*self.events, event))


def test_the_same_analyst_breaks_an_account_of_exact_curves():
    adversary = Adversary(1.0, ["0.2", "0.5"], [Fraction(5, 600)])
    assert adversary.delta(PathwiseCurve(1, Fraction(5, 100)), 5) > 1.2 * 0.05


MIXES = {
    "gaussian": [GaussianEvent(sigma=30, sensitivity=1)] * 200,
    "laplace": [LaplaceEvent(scale=20, sensitivity=1)] * 200,
    "response": [RandomizedResponseEvent(epsilon="0.05")] * 200,
    "mixed": [LaplaceEvent(scale=30, sensitivity=1)] * 100 + [GaussianEvent(sigma=40, sensitivity=1)] * 100,
}


@pytest.mark.parametrize("name", MIXES)
def test_a_fixed_order_costs_a_few_per_cent(name):
    """The smallest budget whose filter admits the whole mix, against exact composition."""
    events = MIXES[name]
    exactly = compose(events).epsilon("1e-6").upper
    guess = RenyiFilter.open(epsilon=exactly, delta="1e-6", expected=events[::50], reserve=0)
    loss = sum(guess.price(event).loss for event in events)
    needed = theorems.renyi_to_epsilon(guess.alpha, loss, delta="1e-6")
    assert 1.03 < needed / exactly < 1.08
    account = RenyiFilter.open(epsilon=float(needed) * (1 + 1e-12), delta="1e-6", alpha=guess.alpha, reserve=0)
    for event in events:
        account = account.admit(event)
    with pytest.raises(BudgetExceededError):
        account.admit(events[0])


def test_adaptive_exponential_mechanisms_cost_no_more_than_an_eighth_of_epsilon_squared():
    for epsilon in ("0.1", "1", "3"):
        event = BoundedRangeEvent(epsilon=epsilon, mode="adaptive")
        price = ZCDPFilter.open(epsilon=100, delta="1e-6").price(event)
        assert float(price.loss) <= float(Fraction(epsilon)) ** 2 / 8 * (1 + 1e-12)
