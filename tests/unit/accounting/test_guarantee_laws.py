"""Laws that hold for every composition."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hush.accounting import (
    ApproximateDPEvent,
    BoundedRangeEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    RandomizedResponseEvent,
    ZCDPEvent,
    compose,
)

numbers = st.integers(2, 60).map(lambda n: Fraction(n, 10))
deltas = st.sampled_from(["1e-3", "1e-6", "1e-12", "1e-40"])
# Each law grows with its argument: larger numbers, less privacy.
GROWING = {
    "laplace": lambda x: LaplaceEvent(scale=2 / x),
    "gaussian": lambda x: GaussianEvent(sigma=4 / x),
    "response": lambda x: RandomizedResponseEvent(epsilon=x / 4),
    "range": lambda x: BoundedRangeEvent(epsilon=x / 4),
    "discrete laplace": lambda x: DiscreteLaplaceEvent(parameter=x / 10, sensitivity=2),
    "black box": lambda x: ApproximateDPEvent(epsilon=x / 4, delta=x / 10**9),
    "zcdp": lambda x: ZCDPEvent(rho=x / 20),
    "sampled": lambda x: PoissonGaussianEvent(rate=x / 100, sigma=2),
}
events = st.tuples(st.sampled_from(sorted(set(GROWING) - {"sampled"})), numbers).map(lambda t: GROWING[t[0]](t[1]))
lists = st.lists(st.tuples(events, st.integers(1, 30)), min_size=1, max_size=4)


def ledger(steps):
    return compose([event * count for event, count in steps])


@settings(max_examples=25, deadline=None)
@given(lists, deltas, st.randoms(use_true_random=False))
def test_order_does_not_matter(steps, delta, shuffle):
    mixed = list(steps)
    shuffle.shuffle(mixed)
    one, other = ledger(steps).epsilon(delta), ledger(mixed).epsilon(delta)
    assert one.lower <= other.upper
    assert other.lower <= one.upper


@settings(max_examples=25, deadline=None)
@given(lists, deltas)
def test_ends_are_ordered_and_a_part_costs_no_more_than_the_whole(steps, delta):
    whole = ledger(steps).epsilon(delta)
    assert 0 <= whole.lower <= whole.upper
    part = ledger(steps[:1]).epsilon(delta)
    # Black boxes of zCDP are converted, not exact: compare upper with upper, else lower with upper.
    assert part.lower <= whole.upper


@settings(max_examples=25, deadline=None)
@given(lists, deltas)
def test_delta_of_epsilon_is_no_more_than_delta(steps, delta):
    g = ledger(steps)
    found = g.epsilon(delta)
    if found.upper < 1e300:
        assert g.delta(found.upper).lower <= float(Fraction(delta)) * (1 + 1e-12)
        assert g.delta(found.lower * 0.999).upper >= float(Fraction(delta)) * (1 - 1e-9) or found.lower == 0


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(set(GROWING) - {"sampled"})), numbers, numbers, st.integers(1, 40), deltas)
@example("sampled", Fraction(1), Fraction(3), 20, "1e-6")  # one is enough: each of its figures takes a second
@example("sampled", Fraction(2), Fraction(2), 3, "1e-12")
def test_monotone_in_the_parameter_and_in_the_count(kind, one, other, count, delta):
    small, large = sorted((one, other))
    a = compose([GROWING[kind](small) * count]).epsilon(delta)
    b = compose([GROWING[kind](large) * count]).epsilon(delta)
    c = compose([GROWING[kind](small) * (count + 1)]).epsilon(delta)
    assert a.lower <= b.upper
    assert a.lower <= c.upper


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([1, 2, 3, 5]), st.sampled_from([1, 2]), st.integers(1, 10), deltas)
def test_discrete_gaussian_is_close_to_the_gaussian_once_wide(sigma, sensitivity, count, delta):
    discrete = compose([DiscreteGaussianEvent(sigma=10 * sigma, sensitivity=10 * sensitivity) * count]).epsilon(delta)
    smooth = compose([GaussianEvent(sigma=sigma, sensitivity=sensitivity) * count]).epsilon(delta)
    assert abs(discrete / smooth - 1) < 0.05


@settings(max_examples=30, deadline=None)
@given(numbers, st.integers(11, 400).map(lambda n: Fraction(n, 10)))
def test_real_axis_is_renyi(x, alpha):
    """K(α−1)/(α−1) against the closed forms of the Rényi divergence (Mironov 2017), evaluated here in floats."""
    a, e = float(alpha), float(x)
    gaussian = GaussianEvent(sigma=x).renyi(alpha)
    assert math.isclose(gaussian, a / 2 / e**2, rel_tol=1e-12)
    laplace = LaplaceEvent(scale=1 / x).renyi(alpha)
    top, bottom = math.log(a / (2 * a - 1)) + (a - 1) * e, math.log((a - 1) / (2 * a - 1)) - a * e
    assert math.isclose(laplace, (top + math.log1p(math.exp(bottom - top))) / (a - 1), rel_tol=1e-9)
    response = RandomizedResponseEvent(epsilon=x).renyi(alpha)
    p = 1 / (1 + math.exp(-e))
    first, second = a * math.log(p) + (1 - a) * math.log1p(-p), a * math.log1p(-p) + (1 - a) * math.log(p)
    assert math.isclose(response, (first + math.log1p(math.exp(second - first))) / (a - 1), rel_tol=1e-9)


@settings(max_examples=20, deadline=None)
@given(lists, st.integers(2, 4), st.floats(0.05, 1.0))
def test_group_privacy_follows_from_the_single_unit(steps, size, e):
    """The group's exact curve lies below the black-box bound from the single unit's curve."""
    g = ledger([step for step in steps if not isinstance(step[0], ZCDPEvent)])
    single = g.delta(e).upper
    assert g.group(size).delta(size * e).lower <= min(1.0, single * math.expm1(size * e) / math.expm1(e)) * (1 + 1e-9)
