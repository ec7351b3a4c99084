"""The named theorems: golden values, order between them, safe sides, refusals."""

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hush.accounting import theorems
from hush.core import InvalidValueError

CASES = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[2] / "data" / "accounting.json").read_text(encoding="utf-8"))
}
EPSILONS = st.sampled_from(["0.01", "0.05", "0.1", "0.3", "1", "1.7"])
DELTAS = st.sampled_from(["0", "1e-9", "1e-7"])


def assert_encloses(bound, value):
    """The value was itself rounded to a float, hence one unit in the last place to either side."""
    assert math.nextafter(bound.lower, 0) <= value <= math.nextafter(bound.upper, math.inf)
    assert bound.upper - bound.lower <= 1e-12 * bound.upper


def brute_force(epsilons, at):
    """δ of randomized responses from all sign patterns."""
    total = 0.0
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        loss = sum(s * e for s, e in zip(signs, epsilons, strict=True))
        mass = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True))
        total += mass * max(0.0, -math.expm1(at - loss))
    return total


@pytest.mark.parametrize("name", ["rr_k1", "rr_k100", "rr_k10_eps2", "kov_k10"])
def test_optimal_homogeneous_meets_the_golden_values(name):
    case = CASES[name]
    (step,) = case["mechanisms"]
    own = step.get("delta", 0)
    if case["query"] == "epsilon at delta":
        bound = theorems.optimal_homogeneous(step["epsilon"], own, count=step["count"], delta=case["at"])
    else:
        bound = theorems.optimal_homogeneous_delta(step["epsilon"], own, count=step["count"], epsilon=case["at"])
    assert_encloses(bound, case["value"])


def test_optimal_heterogeneous_meets_the_golden_value():
    case = CASES["mv_k6"]
    steps = [(step["epsilon"], step["delta"]) for step in case["mechanisms"]]
    assert_encloses(theorems.optimal_heterogeneous(steps, delta=case["at"]), case["value"])


@pytest.mark.parametrize(("name", "call"), [
    ("rdp_a10_e1", lambda at: theorems.renyi_to_epsilon(10, 1, delta=at)),
    ("zcdp_rho0.5", lambda at: theorems.zcdp_to_epsilon("0.5", delta=at)),
    ("gauss_s1_eps1", lambda at: theorems.gaussian.gaussian_delta(epsilon=at, mu=1)),
    ("gauss_s1_eps12_deep", lambda at: theorems.gaussian.gaussian_delta(epsilon=at, mu=1)),
])  # fmt: skip
def test_conversions_meet_the_golden_values(name, call):
    assert_encloses(call(CASES[name]["at"]), CASES[name]["value"])


@given(st.lists(st.sampled_from([0.1, 0.25, 0.3, 0.7, 1.1]), min_size=1, max_size=7), st.floats(0, 4))
@settings(max_examples=60, deadline=None)
def test_heterogeneous_is_the_sum_over_sign_patterns(epsilons, at):
    bound = theorems.optimal_heterogeneous_delta([(e, 0) for e in epsilons], epsilon=at)
    expected = brute_force(epsilons, at)
    assert bound.lower <= expected + 1e-14
    assert expected - 1e-14 <= bound.upper


@given(st.lists(st.tuples(EPSILONS, DELTAS), min_size=1, max_size=12), st.sampled_from(["1e-3", "1e-5"]))
@settings(max_examples=60, deadline=None)
def test_no_theorem_beats_the_optimum_and_the_optimum_inverts(steps, delta):
    best = theorems.optimal_heterogeneous(steps, delta=delta)
    total = theorems.basic(steps)
    assert best.lower <= float(total.epsilon) * (1 + 1e-15)
    improved, textbook = theorems.advanced_improved(steps, delta=delta), theorems.advanced(steps, delta=delta)
    assert best.lower <= improved <= textbook * (1 + 1e-12)
    if best.upper > 0:
        assert theorems.optimal_heterogeneous_delta(steps, epsilon=Fraction(best.upper)).lower <= float(Fraction(delta))
    if best.lower > 1e-9:
        below = theorems.optimal_heterogeneous_delta(steps, epsilon=best.lower * (1 - 1e-9))
        assert below.upper >= float(Fraction(delta))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 1000, 10**6, 10**9])
def test_homogeneous_agrees_with_scipy_and_takes_any_number_of_steps(count):
    epsilon = Fraction(1, math.isqrt(count))
    at = 2.0
    first = math.floor((at / float(epsilon) + count) / 2) + 1
    chance = 1 / (1 + math.exp(-float(epsilon)))
    expected = stats.binom.sf(first - 1, count, chance) - math.exp(at) * stats.binom.sf(first - 1, count, 1 - chance)
    bound = theorems.optimal_homogeneous_delta(epsilon, count=count, epsilon=at)
    assert bound.upper == pytest.approx(max(expected, 0), rel=1e-6, abs=1e-13)
    back = theorems.optimal_homogeneous(epsilon, count=count, delta="1e-6")
    assert theorems.optimal_homogeneous_delta(epsilon, count=count, epsilon=Fraction(back.upper)).lower <= 1e-6


def test_homogeneous_at_its_edges():
    assert theorems.optimal_homogeneous(1, "1e-6", count=1, delta="1e-6").upper == 1.0
    assert theorems.optimal_homogeneous("0.1", count=3, delta="0.9") == 0
    assert theorems.optimal_homogeneous("0.1", count=3, delta=0).upper == float_above(Fraction(3, 10))
    assert theorems.optimal_homogeneous_delta(1, "0.1", count=2, epsilon=2).upper == pytest.approx(0.19)
    assert theorems.optimal_homogeneous_delta(1, count=2, epsilon=2) == 0
    with pytest.raises(InvalidValueError, match="above what the steps spend"):
        theorems.optimal_homogeneous(1, "1e-6", count=2, delta="1e-6")
    with pytest.raises(InvalidValueError, match="above what the steps spend"):
        theorems.optimal_homogeneous(1, "1e-6", count=10**6, delta="1e-6")
    tiny = theorems.optimal_homogeneous("0.1", count=100, delta="1e-300")
    assert 9.9 < tiny.upper <= 10


def float_above(value):
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def test_many_different_steps_go_to_the_certified_accountant():
    steps = [(Fraction(i, 99991), 0) for i in range(1, 400, 7)]
    bound = theorems.optimal_heterogeneous(steps, delta="1e-6")
    assert 0 < bound.lower <= bound.upper < float(theorems.basic(steps).epsilon)
    assert bound.upper - bound.lower < 1e-6
    assert theorems.optimal_heterogeneous_delta(steps, epsilon=Fraction(bound.upper)).lower <= 1e-6


def test_group_is_tight_and_the_textbook_is_above_it():
    tight, textbook = theorems.group(1, "1e-9", size=5), theorems.group_textbook(1, "1e-9", size=5)
    assert tight.epsilon == textbook.epsilon == 5
    assert float(tight.delta) == pytest.approx(math.expm1(5) / math.expm1(1) * 1e-9, rel=1e-12)
    assert float(textbook.delta) == pytest.approx(5 * math.exp(4) * 1e-9, rel=1e-12)
    assert theorems.group(1, 0, size=10**6) == (10**6, 0)
    assert theorems.group(0, "0.1", size=3) == (0, Fraction(3, 10))
    assert theorems.group(5000, "1e-9", size=2).delta == 1


@given(st.fractions(min_value=Fraction(1, 1000), max_value=5), st.integers(2, 20))
def test_group_delta_is_rounded_up(epsilon, size):
    delta = Fraction(1, 10**12)
    low = sum(math.exp(float(i * epsilon)) for i in range(size)) * 1e-12
    assert float(theorems.group(epsilon, delta, size=size).delta) >= min(low * (1 - 1e-13), 1)
    assert theorems.group(epsilon, delta, size=size).delta <= theorems.group_textbook(epsilon, delta, size=size).delta


def test_conversions_are_ordered_and_invert():
    for rho in ("1e-6", "0.01", "0.5", "20"):
        for delta in ("1e-3", "1e-9", "1e-300"):
            best = theorems.zcdp_to_epsilon(rho, delta=delta)
            assert best <= theorems.zcdp_to_epsilon_textbook(rho, delta=delta)
            if best > 0:
                assert theorems.zcdp_to_delta(rho, epsilon=float(best)) <= float(Fraction(delta)) * (1 + 1e-9)
    for alpha in ("1.01", "2", "32", "1e6"):
        best = theorems.renyi_to_epsilon(alpha, "0.3", delta="1e-6")
        assert best <= theorems.renyi_to_epsilon_textbook(alpha, "0.3", delta="1e-6")
        if best > 0:
            assert theorems.renyi_to_delta(alpha, "0.3", epsilon=float(best)) <= 1e-6 * (1 + 1e-9)
    assert theorems.renyi_to_delta(2, 100, epsilon=0) == 1
    assert theorems.zcdp_to_epsilon(0, delta="1e-6") == 0


@pytest.mark.parametrize("sigma", [0.5, 2, 30])
def test_conversions_hold_for_the_gaussian_they_must_cover(sigma):
    """A Gaussian is Δ²/2σ²-zCDP, so its exact ε is below every conversion."""
    rho, mu = Fraction(1) / (2 * Fraction(sigma) ** 2), 1 / Fraction(sigma)
    exactly = theorems.gaussian.gaussian_delta(epsilon=float(theorems.zcdp_to_epsilon(rho, delta="1e-6")), mu=mu)
    assert exactly.upper < 1e-6


@pytest.mark.parametrize("call", [
    lambda: theorems.basic([]),
    lambda: theorems.basic([("nan", 0)]),
    lambda: theorems.basic([(-1, 0)]),
    lambda: theorems.basic([(1, 2)]),
    lambda: theorems.basic([1, 2]),
    lambda: theorems.advanced([(1, "1e-6")], delta="1e-6"),
    lambda: theorems.advanced_improved([(1, "1e-6")], delta="1e-6"),
    lambda: theorems.advanced([(1, 0)], delta=0),
    lambda: theorems.advanced([(1, 0)], delta=1),
    lambda: theorems.optimal_homogeneous(0, count=1, delta="1e-6"),
    lambda: theorems.optimal_homogeneous(1, count=0, delta="1e-6"),
    lambda: theorems.optimal_homogeneous(1, count=True, delta="1e-6"),
    lambda: theorems.renyi_to_epsilon(1, 1, delta="1e-6"),
    lambda: theorems.renyi_to_epsilon(2, -1, delta="1e-6"),
    lambda: theorems.zcdp_to_epsilon(1, delta=float("nan")),
    lambda: theorems.group(1, 0, size=0),
    lambda: theorems.parallel([(1, 0)], neighbours="swap", partition="value"),
    lambda: theorems.parallel([(1, 0)], neighbours="replace", partition="colour"),
])  # fmt: skip
def test_bad_input_is_refused(call):
    with pytest.raises(InvalidValueError):
        call()


def test_many_equal_steps_are_read_once():
    assert theorems.basic([("0.00001", 0)] * 10**5).epsilon == 1


@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-12"])
@pytest.mark.parametrize("epsilon", ["0.05", "0.5", "0.99", "3"])
def test_gaussian_calibrations_hold_and_the_analytic_is_least(epsilon, delta):
    least = theorems.gaussian.analytic(epsilon, delta)
    reached = theorems.gaussian.gaussian_delta(epsilon=epsilon, mu=1 / least)
    assert reached.upper <= float(Fraction(delta)) * (1 + 1e-15)
    smaller = theorems.gaussian.gaussian_delta(epsilon=epsilon, mu=1 / (least * Fraction(1 - 1e-10)))
    assert smaller.lower > float(Fraction(delta))
    names = [theorems.gaussian.two_over_delta, theorems.gaussian.one_over_delta]
    if Fraction(epsilon) < 1:
        names.append(theorems.gaussian.classical)
    for calibrate in names:
        assert least <= calibrate(epsilon, delta)
        assert calibrate(epsilon, delta, sensitivity=3) == pytest.approx(3 * calibrate(epsilon, delta), rel=1e-11)


def test_gaussian_extremes_and_normal_law():
    for epsilon, delta in ((0, "1e-6"), ("1e-9", "1e-6"), (10**4, "1e-300"), ("0.1", "0.5"), (0, "0.999999")):
        sigma = theorems.gaussian.analytic(epsilon, delta)
        assert theorems.gaussian.gaussian_delta(epsilon=epsilon, mu=1 / sigma).upper <= float(Fraction(delta)) * 1.0001
    mu = 0.7
    expected = stats.norm.cdf(mu / 2 - 1 / mu) - np.e * stats.norm.cdf(-mu / 2 - 1 / mu)
    assert theorems.gaussian.gaussian_delta(epsilon=1, mu=mu).upper == pytest.approx(expected, rel=1e-10)


def test_classical_gaussian_bounds_are_refused_where_they_fail():
    """THEORY, item 13: each named bound within its range, and no further."""
    gaussian = theorems.gaussian
    assert gaussian.one_over_delta(1, "0.98032") > 0
    with pytest.raises(InvalidValueError, match="one for which this bound is true"):
        gaussian.one_over_delta(1, "0.98034")
    for delta in ("0.5", "0.1", "1e-6", "1e-300"):
        assert gaussian.two_over_delta("6.38", delta) > 0
    with pytest.raises(InvalidValueError):
        gaussian.two_over_delta("6.4", "0.5")
    with pytest.raises(InvalidValueError, match="below 1"):
        gaussian.classical(1, "1e-6")
    assert float(gaussian.analytic(1, "1e-6")) == pytest.approx(4.2247, abs=5e-5)  # ✓
