"""Laws of atoms, alone, beside a rest against the full sum, and next to noise too weak for the contour."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from scipy import special

from hush.accounting import compose, event_from_json
from hush.accounting.pairs.gaussian import DiscreteGaussianPair
from hush.accounting.pairs.hyperbolic import ResponsePair
from hush.accounting.profile.lattices import groups
from hush.core.rounding import ball, precision

BITS = 256


class Draw:
    """Numbers that look drawn at random but are the same in every run (Lehmer's generator)."""

    def __init__(self, seed: int) -> None:
        self.state = 48271 * (seed + 1)

    def between(self, low: int, high: int) -> int:
        for _ in range(3):
            self.state = self.state * 48271 % 2147483647
        return low + self.state % (high - low + 1)


def atoms_of(kind: str, draw: Draw) -> tuple[dict[str, object], list[tuple[object, object]]]:
    """Return an event and its losses with their masses, as balls."""
    arb = flint.arb
    if kind == "randomized_response":
        e = Fraction(draw.between(50, 2000), 1000)
        top = 1 / (1 + (-ball(e)).exp())
        return {"type": kind, "epsilon": str(e)}, [(ball(e), top), (-ball(e), 1 - top)]
    if kind == "discrete_laplace":
        a, sensitivity = Fraction(draw.between(100, 1500), 1000), draw.between(1, 3)
        r = (-ball(a)).exp()
        atoms = [
            (
                ball(a * (2 * x - sensitivity)),
                (-ball(a) * (sensitivity - x)).exp() / (1 + r) * (1 if x in {0, sensitivity} else 1 - r),
            )
            for x in range(sensitivity + 1)
        ]
        return {"type": kind, "parameter": str(a), "sensitivity": sensitivity}, atoms
    variance, sensitivity = Fraction(draw.between(300, 4000), 1000), draw.between(1, 3)
    reach = 130
    weights = {x: (-ball(Fraction(x * x)) / (2 * ball(variance))).exp() for x in range(-reach, reach + 1)}
    norm = sum(weights.values(), arb(0))
    atoms = [
        (ball(sensitivity * (2 * (x + sensitivity) - sensitivity) / (2 * variance)), weights[x] / norm)
        for x in range(-reach, reach + 1)
    ]
    return {"type": kind, "sigma_squared": str(variance), "sensitivity": sensitivity}, atoms


def laplace_profile(e: object, x: object) -> object:
    """Return δ of Laplace noise at any real x, as the larger of the two formulas."""
    return (-((x - e) / 2).expm1()).max(-x.expm1()).max(0) if x < e else flint.arb(0)


@pytest.mark.parametrize("seed", range(12))
def test_atoms_against_the_full_sum(seed: int) -> None:
    """Random mixes of two or three atomic steps, with and without Laplace noise, at several ε."""
    draw = Draw(seed)
    kinds = ["randomized_response", "discrete_laplace", "discrete_gaussian"]
    with precision(BITS):
        parts = [atoms_of("discrete_gaussian", draw)] + [atoms_of(kinds[draw.between(0, 1)], draw) for _ in range(2)]
        events = [event_from_json(event) for event, _ in parts]
        scale = Fraction(draw.between(500, 5000), 1000) if seed % 2 else None
        if scale is not None:
            events.append(event_from_json({"type": "laplace", "scale": str(scale), "sensitivity": 1}))
        whole = compose(events)
        for epsilon in (0.0, 0.3, 2.0, 9.0, 20.0):
            at, truth = ball(epsilon), flint.arb(0)
            for combination in itertools.product(*(atoms for _, atoms in parts)):
                loss = sum((loss for loss, _ in combination), flint.arb(0))
                x = at - loss
                inner = laplace_profile(1 / ball(scale), x) if scale is not None else (-x.expm1()).max(0)
                mass = combination[0][1] * combination[1][1] * combination[2][1]
                truth += mass * inner
            found = whole.delta(epsilon)
            assert ball(found.lower) <= truth * (1 + ball(1e-50))
            assert ball(found.upper) >= truth * (1 - ball(1e-50))
            assert found.upper - found.lower <= 1e-6 * found.upper


def test_weak_gaussian_beside_atoms() -> None:
    """A Gaussian too weak for the contour hardly changes the curve of the atoms."""
    events = [
        event_from_json({"type": "randomized_response", "epsilon": "1.854"}),
        event_from_json({"type": "gaussian", "sigma": "200000", "sensitivity": 1}),
    ]
    found = compose(events).delta("0.5")
    assert found.upper - found.lower <= 1e-9 * found.upper
    alone = compose(events[:1]).delta("0.5")
    assert alone.lower <= found.upper <= alone.upper * (1 + 1e-5)
    tail = compose(events).epsilon("1e-100")
    assert 1.854 < tail.lower <= tail.upper < 1.8545


def test_weak_gaussian_beside_an_expansion() -> None:
    """Laplace, response and a Gaussian too weak for the contour, down to δ = 1e-300."""
    events = [
        *[event_from_json({"type": "laplace", "scale": "3", "sensitivity": 1})] * 2,
        *[event_from_json({"type": "randomized_response", "epsilon": "0.37"})] * 2,
        event_from_json({"type": "gaussian", "sigma": "100000", "sensitivity": 1}),
    ]
    whole, without = compose(events), compose(events[:-1])
    for delta in ("1e-3", "1e-12", "1e-300"):
        found = whole.epsilon(delta)
        assert found.upper - found.lower <= 1e-7 * found.upper
        assert without.epsilon(delta).lower <= found.upper <= without.epsilon(delta).upper + 5e-4


def test_a_million_discrete_gaussians_beside_responses() -> None:
    """Half a million lattice points and an incommensurable response: both ends within 1e-6."""
    noise = compose([event_from_json({"type": "discrete_gaussian", "sigma": "30", "sensitivity": 1})]) * 10**6
    found = (noise + event_from_json({"type": "randomized_response", "epsilon": "0.777"})).epsilon("1e-5")
    assert found.upper - found.lower <= 1e-6 * found.upper


def test_tilted_law_is_a_law() -> None:
    """The tilted masses of a thousand responses are the tilted binomial's, within the stated distance."""
    pair, count, c = ResponsePair(epsilon=Fraction(3, 100)), 1000, 4.0
    (group,) = groups({pair: count})
    law = group.tilted(c)
    assert law is not None
    p = 1 / (1 + math.exp(-0.03 * (2 * c + 1)))
    index = np.rint((law.losses / 0.03 + count) / 2)
    logs = (
        special.gammaln(count + 1)
        - special.gammaln(index + 1)
        - special.gammaln(count - index + 1)
        + index * math.log(p)
        + (count - index) * math.log1p(-p)
    )
    assert np.abs(law.masses - np.exp(logs)).sum() < 1e-10
    assert law.error < 1e-9


def test_groups_keep_incommensurable_lattices_apart() -> None:
    """A half and a quarter share a lattice; an unrelated variance has its own."""
    made = groups(
        {
            ResponsePair(epsilon=Fraction(1, 2)): 1,
            ResponsePair(epsilon=Fraction(1, 4)): 2,
            DiscreteGaussianPair(sigma_squared=Fraction(96721, 62500), sensitivity=2): 1,
        }
    )
    assert len(made) == 2
