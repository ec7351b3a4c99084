"""Every pair's double-precision cumulant against ball arithmetic, and both against the pair's own profile."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from hush.accounting.pairs.gaussian import DiscreteGaussianPair, GaussianPair
from hush.accounting.pairs.hyperbolic import BoundedRangePair, DiscreteLaplacePair, LaplacePair, ResponsePair
from hush.accounting.pairs.poisson import PoissonGaussianPair, PoissonLaplacePair
from hush.core.rounding import ball, down, flint, precision, up

# The choices below are fixed by these seeds: they pick parameters, never noise.
CHOICE = random.Random


def spread(choice, low, high):
    return Fraction(repr(math.exp(choice.uniform(math.log(low), math.log(high)))))


RATES = ["0.001", "0.01", "0.1", "0.5", "0.9", "0.999"]
MAKERS = {
    "gaussian": lambda c: GaussianPair(mu_squared=spread(c, 1e-12, 1e6)),
    "laplace": lambda c: LaplacePair(epsilon=spread(c, 1e-9, 1e3)),
    "response": lambda c: ResponsePair(epsilon=spread(c, 1e-9, 1e3), others=c.choice([0, 0, 1, 8, 1000])),
    "range": lambda c: BoundedRangePair(epsilon=spread(c, 1e-9, 1e3)),
    "discrete laplace": lambda c: DiscreteLaplacePair(
        parameter=spread(c, 1e-4, 30), sensitivity=c.choice([2, 3, 17, 1000])
    ),
    "discrete gaussian": lambda c: DiscreteGaussianPair(
        sigma_squared=spread(c, 1e-2, 1e6), sensitivity=c.choice([1, 2, 3, 10])
    ),
    "poisson gaussian": lambda c: PoissonGaussianPair(rate=Fraction(c.choice(RATES)), mu_squared=spread(c, 1e-4, 10)),
    "poisson laplace": lambda c: PoissonLaplacePair(rate=Fraction(c.choice(RATES)), epsilon=spread(c, 1e-3, 20)),
}
SAMPLED = {"poisson gaussian", "poisson laplace"}


@pytest.mark.parametrize("kind", MAKERS)
def test_the_error_bound_of_the_cumulant_holds(kind):
    choice = CHOICE(20261115)
    for _ in range(12 if kind in SAMPLED else 40):
        pair = MAKERS[kind](choice)
        reverse = choice.random() < 0.5 and not pair.symmetric
        c = math.exp(choice.uniform(math.log(1e-3), math.log(30 if kind in SAMPLED else 1e4)))
        us = [0.0] + [math.exp(choice.uniform(-7, 4.6 if kind in SAMPLED else 9.2)) for _ in range(3)]
        k, r = pair.batch([pair], [1], reverse=reverse).cumulant(np.array([complex(c, u) for u in us]))
        with precision(110 if kind in SAMPLED else 400):
            for u, value, error in zip(us, k, r, strict=True):
                z = flint().acb(c, u)
                true = pair.moment(-1 - z if reverse else z)
                wrong = down(abs(true * flint().acb(-value.real, -value.imag).exp() - 1))
                assert wrong <= math.expm1(min(error, 700.0)) * (1 + 1e-9)


@pytest.mark.parametrize("kind", MAKERS)
def test_the_tail_bound_holds(kind):
    choice = CHOICE(11)
    for _ in range(10 if kind in SAMPLED else 40):
        pair = MAKERS[kind](choice)
        c = math.exp(choice.uniform(math.log(1e-3), math.log(30 if kind in SAMPLED else 1e3)))
        low = math.exp(choice.uniform(-7, 4))
        lattice = pair.lattice()
        for high in [math.inf] + ([math.pi / float(lattice[1])] if lattice else []):
            if high <= low:
                continue
            bound = pair.batch([pair], [1]).log_tail(c, low, high)
            for _ in range(4):
                u = choice.uniform(low, min(high, 20 * low))
                with precision(110 if kind in SAMPLED else 400):
                    assert down(abs(pair.moment(flint().acb(c, u))).log()) <= bound + 1e-13 * abs(bound)


@pytest.mark.parametrize("kind", MAKERS)
def test_moments_normalise_and_both_directions_agree(kind):
    choice = CHOICE(3)
    for _ in range(5):
        pair = MAKERS[kind](choice)
        with precision(120):
            assert abs(pair.moment(flint().acb(0)) - 1) < 1e-12
            assert abs(pair.moment(flint().acb(-1)) - 1) < 1e-12
            if pair.symmetric:
                one, other = pair.moment(flint().acb(0.7)), pair.moment(flint().acb(-1.7))
                assert abs(one / other - 1) < 1e-12


@pytest.mark.parametrize("kind", MAKERS)
def test_profile_obeys_the_exchange_of_directions_and_is_convex(kind):
    """δ_PQ(ε) = 1 − e^ε + e^ε δ_QP(−ε), an identity between two closed forms; and δ is convex in e^ε."""
    choice = CHOICE(4)
    for _ in range(6):
        pair = MAKERS[kind](choice)
        if kind == "discrete gaussian" and pair.sigma_squared > 10**4:
            continue
        with precision(200):
            scale = float(pair.rho().sqrt())
            for x in (-1.5, -0.2, 0.0, 0.3, 1.1):
                e = ball(x * min(scale, 50.0))
                one = pair.profile(e)
                other = -e.expm1() + e.exp() * pair.profile(-e, reverse=True)
                assert abs(one - other) < 1e-25
            grid = [ball(min(scale, 20.0) * i / 8) for i in range(-8, 17)]
            values = [pair.profile(e) for e in grid]
            slopes = [(values[i + 1] - values[i]) / (grid[i + 1].exp() - grid[i].exp()) for i in range(len(grid) - 1)]
            assert all(slopes[i] <= slopes[i + 1] + 1e-25 for i in range(len(slopes) - 1))


@pytest.mark.parametrize(
    "pair",
    [
        GaussianPair(mu_squared=Fraction(1, 2)),
        LaplacePair(epsilon=Fraction(3, 2)),
        ResponsePair(epsilon=Fraction(3, 2), others=3),
        BoundedRangePair(epsilon=Fraction(2)),
        DiscreteLaplacePair(parameter=Fraction(1, 3), sensitivity=4),
        DiscreteGaussianPair(sigma_squared=Fraction(5), sensitivity=3),
        PoissonGaussianPair(rate=Fraction(1, 5), mu_squared=Fraction(1, 2)),
        PoissonLaplacePair(rate=Fraction(1, 5), epsilon=Fraction(2)),
    ],
    ids=lambda pair: type(pair).__name__,
)
def test_profile_and_moment_agree(pair):
    """∫(δ(x) − (1−e^x)₊)·e^{zx}dx = (M(z) − 1)/(z(z+1)): the profile's Laplace transform is the moment."""
    with precision(100):
        scale = min(float(pair.rho().sqrt()), 5.0)
        for reverse, z in itertools.product((False, True), (0.3, 2.0)):
            # Beyond the losses' range the integrand is 0, or negligible.
            reach = max(scale, scale**2) * 40
            ends = [pair.largest_loss(reverse=way) for way in (reverse, not reverse)]
            top, bottom = (reach if end is None else min(up(end), reach) for end in ends)
            steps = 4000
            h = (top + bottom) / steps
            total = 0.0
            for i in range(steps):
                x = (i + 0.5) * h - bottom
                rest = pair.profile(ball(x), reverse=reverse) + ball(min(x, 0.0)).expm1()
                total += float(rest.mid()) * math.exp(z * x) * h
            moment = pair.moment(flint().acb(-1 - z if reverse else z)).real
            assert total == pytest.approx(float(((moment - 1) / (z * (z + 1))).mid()), rel=1e-3)


def test_largest_loss_is_where_the_profile_ends():
    for kind in ("laplace", "response", "range", "discrete laplace", "poisson laplace"):
        pair = MAKERS[kind](CHOICE(9))
        for reverse in (False, True):
            with precision(200):
                top = pair.largest_loss(reverse=reverse)
                assert pair.profile(top * 1.0000001, reverse=reverse) < 1e-30
                assert pair.profile(top * 0.9999, reverse=reverse) > 0


def test_rho_bounds_every_order():
    choice = CHOICE(5)
    for kind, make in MAKERS.items():
        pair = make(choice)
        with precision(160):
            for alpha in (Fraction(1001, 1000), Fraction(2), Fraction(7), Fraction(40)):
                assert down(pair.renyi(alpha) / ball(alpha)) <= up(pair.rho()) * (1 + 1e-12), (kind, alpha)
