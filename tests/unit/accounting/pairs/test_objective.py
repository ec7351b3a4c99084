"""The bounding law of objective perturbation: closed forms against the law itself, and certified errors."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hush.accounting import DescriptionError, GaussianEvent, ObjectivePerturbationEvent, compose, event_from_json
from hush.accounting.pairs.objective import ObjectivePerturbationPair
from hush.core import InvalidValueError
from hush.core.rounding import ball, down, flint, precision, up

PAIRS = [
    ObjectivePerturbationPair(mu_squared=Fraction(mu), curvature=Fraction(curvature), two_sided=sides)
    for mu in ("0.0005", "0.05", "0.8", "4")
    for curvature in ("0", "0.01", "0.6")
    for sides in (False, True)
]


def law(pair, nodes=400_001):
    """Return losses and their probabilities: the definition, on a fine grid of the normal variable."""
    n = np.linspace(-12, 12, nodes)
    mass = np.exp(-n * n / 2)
    mu, shift = math.sqrt(pair.mu_squared), math.log1p(pair.curvature)
    loss = mu * mu / 2 + mu * np.abs(n) if pair.two_sided else np.maximum(mu * mu / 2 + mu * n, 0)
    return shift + loss, mass / mass.sum()


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_closed_forms_are_those_of_the_law(pair):
    loss, mass = law(pair)
    for epsilon in (0.0, 0.05, 0.3, 1.0, 4.0):
        value = float(mass @ np.maximum(-np.expm1(epsilon - loss), 0.0))
        assert up(pair.profile(ball(epsilon))) == pytest.approx(value, rel=1e-4, abs=1e-9)
    for z in (0.5, 2.0, 1 + 3j):
        value = complex(mass @ np.exp(z * loss))
        point = flint().acb(complex(z).real, complex(z).imag)
        assert complex(pair.moment(point)) == pytest.approx(value, rel=1e-6)
    assert up(pair.rho()) == pytest.approx(float(mass @ loss), rel=1e-6)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_rho_bounds_every_order(pair):
    with precision(160):
        rho = pair.rho()
        for z in (1e-6, 0.01, 0.5, 3.0, 50.0, 1e4):
            assert pair.moment(flint().acb(z)).real.log() <= rho * z * (z + 1) + 1e-20


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_cumulant_and_its_tail_are_certified(pair):
    z = np.array([complex(c, u) for c in (1e-3, 0.7, 30.0, 1e4) for u in (0.0, 0.1, 5.0, 900.0)])
    k, r = pair.batch([pair], [3]).cumulant(z)
    with precision(600):
        for node, value, error in zip(z.tolist(), k, r, strict=True):
            true = pair.moment(flint().acb(node.real, node.imag)) ** 3
            wrong = down(abs(true * flint().acb(-value.real, -value.imag).exp() - 1))
            assert wrong <= math.expm1(min(error, 700.0)) * (1 + 1e-9)
            tail = pair.batch([pair], [3]).log_tail(node.real, node.imag, math.inf)
            assert down(abs(true).log()) <= tail + 1e-12 * abs(tail)


@pytest.mark.parametrize("sides", [False, True])
def test_composed_with_gaussian_noise_it_is_the_sum_of_both_losses(sides):
    event = ObjectivePerturbationEvent(mu_squared="0.05", curvature="0.1", two_sided=sides)
    composed = compose([event, GaussianEvent(sigma_squared=100), event])
    (loss, mass), n = law(next(iter(event.description().pairs)), 801), np.linspace(-12, 12, 801)
    weight = np.exp(-n * n / 2) / np.exp(-n * n / 2).sum()
    gaussian = 0.005 + 0.1 * n
    total = (loss[:, None] + loss[None, :])[:, :, None]
    chance = mass[:, None] * mass[None, :]
    for epsilon in (0.5, 1.0):
        value = sum(
            float((chance * np.maximum(-np.expm1(epsilon - total[:, :, 0] - g), 0.0)).sum()) * w
            for g, w in zip(gaussian[::16], weight[::16] / weight[::16].sum(), strict=True)
        )
        bound = composed.delta(epsilon)
        assert bound.upper - bound.lower <= 1e-9 * bound.upper
        assert bound.upper == pytest.approx(value, rel=2e-3)


def test_written_and_read_back():
    event = ObjectivePerturbationEvent(mu_squared="1/25", curvature="1/10", two_sided=True)
    assert event_from_json(event.to_json()) == event


def test_it_says_nothing_of_groups_and_refuses_what_makes_no_sense():
    event = ObjectivePerturbationEvent(mu_squared=1, curvature=1)
    with pytest.raises(DescriptionError, match="groups of 2"):
        event.group(2)
    with pytest.raises(DescriptionError):
        event.description().group(2)
    for wrong in ({"mu_squared": 0}, {"curvature": -1}, {"two_sided": "no"}):
        with pytest.raises(InvalidValueError):
            ObjectivePerturbationEvent(**{"mu_squared": 1, "curvature": 1, **wrong})
