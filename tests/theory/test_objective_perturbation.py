"""The theorem of objective perturbation, exactly, in one dimension: no data set of a few rows comes above its δ.

Both output densities are known in closed form, φ_σ(b(θ))·H(θ), so δ(ε) = E(1−e^{ε−L})₊ is one integral over the noise b
of one side. θ(b) is found by interpolation on a fine grid that holds every kink, and the integral by a rule of 4,001
nodes over ±9 deviations: its error is below 1e-3, the step times the largest jump of the integrand.
"""

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest

from hush.accounting import ObjectivePerturbationEvent, compose
from hush.learn.convex_fits import HUBER, LOGISTIC

ROWS = {
    LOGISTIC: [(1.0, 0.0), (1.0, 1.0), (0.5, 0.0), (0.5, 1.0)],
    HUBER: [(1.0, -2.0), (1.0, 0.0), (1.0, 2.0), (0.5, 0.7)],
}
NAMES = {LOGISTIC: "logistic", HUBER: "huber"}
EPSILONS = (0.05, 0.2, 0.5, 1.0, 2.0)
SETTINGS = [("0.05", "2"), ("0.3", "1"), ("1", "0.5"), ("4", "3")]  # ridge and deviation
ERROR = 1e-3


def forward(loss, rows, ridge, theta):
    """Return b(θ) and the curvature of the objective at θ."""
    b, curvature = -ridge * theta, np.full_like(theta, ridge)
    for x, y in rows:
        margin, target = x * theta, np.full_like(theta, y)
        b = b - x * loss.derivative(margin, target)
        curvature = curvature + x * x * loss.second(margin, target)
    return b, curvature


def divergences(loss, rows, others, ridge, sigma):
    """Return δ(ε) of the outputs on ``rows`` against those on ``others``, at every ε."""
    kinks = [(y + side) / x for x, y in ROWS[loss] for side in (-1, 1)] if loss is HUBER else []
    far = (9 * sigma + 5) / ridge
    theta = np.unique(np.concatenate([np.linspace(-far, far, 4001), np.linspace(-12, 12, 4001), kinks]))
    there, _ = forward(loss, rows, ridge, theta)
    b = np.linspace(-9 * sigma, 9 * sigma, 4001)
    mass = np.exp(-b * b / (2 * sigma * sigma))
    mass /= mass.sum()
    point = np.interp(b, there[::-1], theta[::-1])
    here, curvature = forward(loss, rows, ridge, point)
    other, other_curvature = forward(loss, others, ridge, point)
    log_ratio = (other**2 - here**2) / (2 * sigma * sigma) + np.log(curvature / other_curvature)
    return [float(mass @ np.maximum(-np.expm1(e - log_ratio), 0.0)) for e in EPSILONS]


def worst(loss, *, determinant):
    """Return the largest excess of an exact δ over the stated one; without the determinant's term on request."""
    excess = -1.0
    sets = [rows for size in range(4) for rows in combinations_with_replacement(ROWS[loss], size)]
    for ridge, sigma in SETTINGS:
        event = ObjectivePerturbationEvent(
            mu_squared=1 / Fraction(sigma) ** 2,
            curvature=loss.smoothness / Fraction(ridge) if determinant else 0,
            two_sided=loss.two_sided,
        )
        stated = [compose([event]).delta(e).upper for e in EPSILONS]
        for rows in sets:
            for row in ROWS[loss]:
                for pair in (((*rows, row), rows), (rows, (*rows, row))):
                    exact = divergences(loss, *pair, float(ridge), float(sigma))
                    excess = max(excess, *(e - s for e, s in zip(exact, stated, strict=True)))
    return excess


@pytest.mark.parametrize("loss", NAMES, ids=NAMES.values())
def test_no_small_data_set_exceeds_the_stated_delta(loss):
    assert worst(loss, determinant=True) <= ERROR


@pytest.mark.parametrize("loss", NAMES, ids=NAMES.values())
def test_without_the_determinant_the_stated_delta_is_exceeded(loss):
    assert worst(loss, determinant=False) > 10 * ERROR


def test_the_exact_divergence_is_that_of_plain_gaussian_noise_where_the_loss_is_linear():
    """Far out on Huber's slope the row only moves b by 1: δ of a Gaussian, which checks the integral itself."""
    sigma = 2.0
    exact = divergences(HUBER, [(1.0, 1e9)], [], 1.0, sigma)
    for epsilon, value in zip(EPSILONS, exact, strict=True):
        mu = 1 / sigma
        normal = [math.erfc(-x / math.sqrt(2)) / 2 for x in (mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu)]
        assert value == pytest.approx(normal[0] - math.exp(epsilon) * normal[1], abs=1e-5)
