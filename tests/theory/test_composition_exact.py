"""Composition against computations that share nothing with the accountant: enumeration, convolution, quadrature."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erfc, log_ndtr

from hush.accounting import (
    ApproximateDPEvent,
    BoundedRangeEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PoissonLaplaceEvent,
    RandomizedResponseEvent,
    compose,
)

SLACK = 3e-12  # what the brute force itself may be wrong by, relative


# -- laws of the privacy loss, written down afresh: {loss: mass}, and closed forms for one continuous step -------------


def response(e, k=2):
    norm = math.exp(e) + k - 1
    law = {e: math.exp(e) / norm, -e: 1 / norm}
    return law | ({0.0: (k - 2) / norm} if k > 2 else {})


def discrete_laplace(a, delta):
    law = {}
    for x in range(-int(60 / a) - delta, int(60 / a) + 2 * delta):
        loss = round(abs(x) - abs(x - delta)) * a
        law[loss] = law.get(loss, 0.0) + math.tanh(a / 2) * math.exp(-a * abs(x - delta))
    return law


def discrete_gaussian(variance, delta):
    reach = int(14 * math.sqrt(variance)) + 6
    weights = {x: math.exp(-x * x / 2 / variance) for x in range(-reach, reach + 1)}
    norm = math.fsum(weights.values())
    return {(2 * x + delta) * delta / 2 / variance: w / norm for x, w in weights.items()}


def convolve(laws):
    total = {0.0: 1.0}
    for law in laws:
        new = {}
        for (x, p), (y, q) in itertools.product(total.items(), law.items()):
            key = round(x + y, 11)
            new[key] = new.get(key, 0.0) + p * q
        total = new
    return total


def stick(law, e):
    return math.fsum(p * -math.expm1(e - x) for x, p in law.items() if x > e)


def gaussian_stick(mu, e):
    return float(np.exp(log_ndtr(mu / 2 - e / mu)) - np.exp(e + log_ndtr(-mu / 2 - e / mu)))


def laplace_stick(eps, e):
    return 0.0 if e >= eps else -math.expm1(e) if e <= -eps else -math.expm1((e - eps) / 2)


def range_stick(eps, e):
    return 0.0 if e >= eps else -math.expm1(e) if e <= -eps else math.expm1((e - eps) / 2) ** 2 / -math.expm1(-eps)


def sampled_stick(q, kappa, e, reverse=False):
    def above(t):
        return 0.5 * float(erfc(t / math.sqrt(2)))

    if reverse:
        return -math.expm1(e) + math.exp(e) * sampled_stick(q, kappa, -e)
    if e <= math.log1p(-q):
        return -math.expm1(e)
    t = (math.log((math.expm1(e) + q) / q) + kappa**2 / 2) / kappa
    return q * above(t - kappa) + (1 - q - math.exp(e)) * above(t)


def assert_inside(bound, true, absolute=1e-15):
    assert bound.lower <= true * (1 + SLACK) + absolute
    assert bound.upper >= true * (1 - SLACK) - absolute


epsilons = st.integers(1, 40).map(lambda n: Fraction(n, 20))


@settings(max_examples=40, deadline=None)
@given(st.lists(epsilons, min_size=1, max_size=7), st.floats(0, 0.95))
def test_randomized_responses_by_enumeration(values, share):
    e = round(share * float(sum(values)), 6)
    law = convolve([response(float(v)) for v in values])
    bound = compose([RandomizedResponseEvent(epsilon=v) for v in values]).delta(e)
    assert_inside(bound, stick(law, e))
    assert bound.upper - bound.lower <= 1e-9 * bound.upper


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(epsilons, st.sampled_from([0, Fraction(1, 10**6), Fraction(1, 100)])), min_size=1, max_size=5),
    st.floats(0, 0.9),
)
def test_black_boxes_by_enumeration(boxes, share):
    e = round(share * float(sum(v for v, _ in boxes)), 6)
    lost = 1 - math.prod(1 - float(d) for _, d in boxes)
    law = convolve([response(float(v)) for v, _ in boxes])
    true = lost + (1 - lost) * stick(law, e)
    assert_inside(compose([ApproximateDPEvent(epsilon=v, delta=d) for v, d in boxes]).delta(e), true)


lattice_events = st.one_of(
    epsilons.map(lambda v: (RandomizedResponseEvent(epsilon=v), response(float(v)))),
    epsilons.map(lambda v: (RandomizedResponseEvent(epsilon=v, choices=5), response(float(v), 5))),
    st.tuples(st.integers(2, 12), st.integers(1, 4)).map(
        lambda t: (
            DiscreteLaplaceEvent(parameter=Fraction(t[0], 10), sensitivity=t[1]),
            discrete_laplace(t[0] / 10, t[1]),
        )
    ),
    st.tuples(st.sampled_from([Fraction(1, 16), Fraction(1, 2), Fraction(4), Fraction(25, 2)]), st.integers(1, 3)).map(
        lambda t: (
            DiscreteGaussianEvent(sigma_squared=t[0], sensitivity=t[1]),
            discrete_gaussian(float(t[0]), t[1]),
        )
    ),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(lattice_events, min_size=1, max_size=3), st.floats(0, 4))
def test_lattice_laws_by_convolution(steps, e):
    e = round(e, 6)
    bound = compose([event for event, _ in steps]).delta(e)
    assert_inside(bound, stick(convolve([law for _, law in steps]), e), absolute=1e-14)


one_continuous = st.one_of(
    st.sampled_from([Fraction(1, 50), Fraction(1, 2), Fraction(2)]).map(
        lambda mu: (GaussianEvent(sigma=1 / mu), lambda e: gaussian_stick(float(mu), e))
    ),
    epsilons.map(lambda v: (LaplaceEvent(scale=1 / v), lambda e: laplace_stick(float(v), e))),
    epsilons.map(lambda v: (BoundedRangeEvent(epsilon=v), lambda e: range_stick(float(v), e))),
)


@settings(max_examples=40, deadline=None)
@given(one_continuous, st.lists(lattice_events, min_size=1, max_size=2), st.floats(0, 3))
def test_one_continuous_step_among_lattice_laws(step, others, e):
    """Conditioning on the lattice part, δ(ε) = Σ p·δ₁(ε − l), with δ₁ the closed form at any real argument."""
    e = round(e, 6)
    event, profile = step
    law = convolve([law for _, law in others])
    true = math.fsum(p * profile(e - x) for x, p in law.items())
    bound = compose([event, *(event for event, _ in others)]).delta(e)
    assert_inside(bound, true, absolute=1e-13)
    if true > 1e-9:
        assert bound.upper <= true * (1 + 1e-5)


@pytest.mark.parametrize(("q", "sigma"), [("0.1", "1"), ("0.5", "2"), ("0.01", "0.7")])
def test_two_sampled_gaussian_steps_by_quadrature(q, sigma):
    kappa, rate = 1 / float(sigma), float(q)
    t = np.linspace(-14, 16, 48001)  # the stick has a kink: its error falls like h²
    log_a = np.log1p(rate * np.expm1(kappa * t - kappa**2 / 2))
    base = np.exp(-t * t / 2) / math.sqrt(2 * math.pi) * (t[1] - t[0])
    g = compose([PoissonGaussianEvent(rate=q, sigma=sigma) * 2])
    for e in (1.0,):
        forward = math.fsum(
            w * sampled_stick(rate, kappa, e - x) for w, x in zip(base * np.exp(log_a), log_a, strict=True)
        )
        backward = math.fsum(
            w * sampled_stick(rate, kappa, e + x, reverse=True) for w, x in zip(base, log_a, strict=True)
        )
        bound = g.delta(e)
        assert_inside(bound, max(forward, backward), absolute=1e-13)
        assert bound.upper <= max(forward, backward) * (1 + 1e-5)


def test_one_sampled_gaussian_step_is_the_worse_direction():
    bound = compose([PoissonGaussianEvent(rate="0.1", sigma=1)]).delta("0.05")
    true = max(sampled_stick(0.1, 1.0, 0.05), sampled_stick(0.1, 1.0, 0.05, reverse=True))
    assert bound.upper == pytest.approx(true, rel=1e-12)


def test_sampling_everything_is_no_sampling_and_nothing_costs_nothing():
    plain, all_of_it = compose([GaussianEvent(sigma=2) * 7]), compose([PoissonGaussianEvent(rate=1, sigma=2) * 7])
    assert plain.epsilon("1e-6").upper == all_of_it.epsilon("1e-6").upper
    assert compose([PoissonGaussianEvent(rate=0, sigma=2)]).epsilon(0).upper == 0.0


def test_two_laplace_steps_by_quadrature():
    """δ₂(ε) = ½δ₁(ε−e) + ½e^{-e}δ₁(ε+e) + ∫ ¼e^{(l-e)/2} δ₁(ε−l) dl; trapezoid on pieces between the kinks."""
    for e1, e2 in ((1.0, 1.0), (0.5, 2.0), (0.3, 0.7)):
        for at in (0.1, 0.9 * (e1 + e2)):
            kinks = sorted({-e1, e1, *(x for x in (at - e2, at + e2) if -e1 < x < e1)})
            smooth = 0.0
            for a, b in itertools.pairwise(kinks):
                x, w = np.polynomial.legendre.leggauss(40)
                l = (a + b) / 2 + (b - a) / 2 * x
                smooth += (
                    (b - a)
                    / 2
                    * math.fsum(
                        wi * 0.25 * math.exp((li - e1) / 2) * laplace_stick(e2, at - li)
                        for wi, li in zip(w, l, strict=True)
                    )
                )
            true = 0.5 * laplace_stick(e2, at - e1) + 0.5 * math.exp(-e1) * laplace_stick(e2, at + e1) + smooth
            bound = compose([LaplaceEvent(scale=1 / Fraction(str(e1))), LaplaceEvent(scale=1 / Fraction(str(e2)))])
            assert_inside(bound.delta(at), true, absolute=1e-15)


def test_many_weak_laplace_steps_lie_between_their_neighbours():
    """The law on a grid: its upper end must not fall below the exact expansion, which still reaches 60 steps."""
    from hush.accounting.profile.closed_forms import Expansion
    from hush.accounting.profile.convolution import Convolution
    from hush.accounting.profile.direction import Direction

    for scale, count, at in ((100, 60, 0.2), (3, 4, 0.9), (20, 40, 0.9)):
        d = Direction(compose([LaplaceEvent(scale=scale) * count]).description, reverse=False)
        exact = Expansion(d.cumulant, largest=d.largest).log_delta(at)
        rough = Convolution(d.cumulant, largest=d.largest).log_delta(at)
        assert rough.lower <= exact.upper
        assert exact.lower <= rough.upper <= exact.upper + 1e-3


def test_sampled_laplace_agrees_with_its_law_on_a_grid():
    from hush.accounting.profile.convolution import Convolution
    from hush.accounting.profile.direction import Direction

    for reverse in (False, True):
        d = Direction(compose([PoissonLaplaceEvent(rate="0.2", scale=1) * 300]).description, reverse=reverse)
        fine = d.methods[0].log_delta(6.0)
        rough = Convolution(d.cumulant, largest=d.largest).log_delta(6.0)
        assert fine.upper - fine.lower < 1e-6
        assert rough.lower <= fine.upper
        assert fine.lower <= rough.upper <= fine.upper + 1e-4
