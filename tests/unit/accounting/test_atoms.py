"""Few steps: atoms, the grid and long lines, against full sums and quadrature."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from scipy import integrate, special

from hush.accounting import compose, event_from_json
from hush.accounting.description import Description
from hush.accounting.pairs import DiscreteGaussianPair, LaplacePair, PoissonGaussianPair, ResponsePair
from hush.accounting.pairs.poisson_gaussian import evenly_spaced, sums_on_a_line
from hush.accounting.profile.conditioning import Conditioning
from hush.accounting.profile.convolution import Convolution
from hush.accounting.profile.direction import Direction
from hush.accounting.profile.expansion import FloatExpansion, residues
from hush.accounting.profile.tilted_lattice import groups
from hush.core.balls import ball, precision

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
            assert found.upper - found.lower <= 2e-7 * found.upper


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


def test_residues_match_their_series() -> None:
    """r_j is 2^{j+1} times a Poisson probability of one parity."""
    y = np.array([0.0, 1e-9, 0.3, 2.0, 7.9, 8.1, 30.0, 79.9, 80.1, 200.0, 3000.0])
    found = residues(y, 24)
    for j in range(25):
        for place, value in zip(y, found[j + 1], strict=True):
            with precision(BITS):
                v = ball(float(place)) / 2
                term, total = (-v).exp(), flint.arb(0)
                for r in range(4000):
                    if r >= j + 1 and (r - j) % 2:
                        total += term
                    term = term * v / (r + 1)
                truth = float(total * 2 ** (j + 1))
            assert value == pytest.approx(truth, rel=3e-14, abs=0)


def test_residues_are_the_laplace_profile() -> None:
    """One Laplace step: the expansion is the closed form, also at negative arguments."""
    rest = FloatExpansion({LaplacePair(epsilon=Fraction(7, 10)): 1}, 1000)
    x = np.array([-5.0, -0.7, -0.2, 0.0, 0.5, 0.69999, 0.7, 3.0])
    value, error = rest.profile(x, 0.0)
    with precision(BITS):
        truth = np.array([float(laplace_profile(ball(Fraction(7, 10)), ball(float(t)))) for t in x])
    assert np.all(np.abs(value - truth) <= error + 1e-300)
    assert np.all(error <= 1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.0])
def test_two_sampled_gaussians_down_to_e_minus_133(epsilon: float) -> None:
    """Against Arb's certified integral over the noise of the first, from δ = 1e-10 to 1e-133: no tilt, no grid."""
    event = event_from_json({"type": "poisson_gaussian", "q": "0.0281", "sigma": "3.744"})
    direction = compose([event, event])._both()[0]
    (pair,) = direction.description.pairs
    with precision(192):
        q, kappa = ball(pair.rate), ball(pair.mu_squared).sqrt()
        at, root = ball(epsilon), flint.arb(2).sqrt()

        def integrand(t: object, analytic: bool) -> object:
            a = 1 - q + q * (kappa * t - kappa * kappa / 2).exp()
            w = (at.exp() / a - 1) / q + 1
            if analytic and not w.real > 0:
                return flint.acb(flint.arb.nan())
            t2 = (w.log() + kappa * kappa / 2) / kappa
            tail = q * ((t2 - kappa) / root).erfc() + (1 - q - at.exp() / a) * (t2 / root).erfc()
            return (-t * t / 2).exp() / 2 * a * tail

        reach = 2 * math.sqrt(epsilon * 150) + 12
        end = ((at.exp() / (1 - q) - 1) / q + 1).log() / kappa + kappa / 2
        # Up to just before the threshold's pole; beyond, the first step alone exceeds ε and what the second takes back.
        stop = end.mid() - flint.arb("0.001")
        tiny = flint.arb(2) ** -1500
        truth = flint.acb.integral(
            integrand, flint.acb(-reach), flint.acb(stop), rel_tol=flint.arb(2) ** -44, abs_tol=tiny
        ).real
        truth = truth / (2 * flint.arb.pi()).sqrt()
        # Right of it 0 ≤ δ₂ ≤ 1.
        missing = q * ((stop - kappa) / root).erfc() / 2 + (1 - q) * (stop / root).erfc() / 2
        low, high = float(truth.log()), float((truth + missing).log())
    found = Convolution(direction.cumulant, largest=direction.largest).log_delta(epsilon)
    assert found.width < 1e-5
    assert found.lower <= high + 1e-9
    assert low <= found.upper + 1e-9


@pytest.mark.parametrize("reverse", [False, True])
def test_two_different_sampled_gaussians(reverse: bool) -> None:
    """Against SciPy's quadrature, both directions."""
    events = [
        event_from_json({"type": "poisson_gaussian", "q": q, "sigma": s}) for q, s in (("0.1", "1"), ("0.3", "2"))
    ]
    direction = compose(events)._both()[int(reverse)]
    (first, second) = direction.description.pairs
    q, kappa = 0.1, 1.0

    def integrand(t: float) -> float:
        a = 1 - q + q * math.exp(kappa * t - kappa * kappa / 2)
        x = 0.2 + math.log(a) if reverse else 0.2 - math.log(a)
        weight = math.exp(-t * t / 2) / math.sqrt(2 * math.pi) * (1.0 if reverse else a)
        return weight * max(float(second.profile(ball(x), reverse=reverse)), 0.0)

    assert float(first.rate) == q
    with precision(128):
        truth, _ = integrate.quad(integrand, -12, 12, limit=400, epsabs=1e-13)
    found = Convolution(direction.cumulant, largest=direction.largest).log_delta(0.2)
    assert found.width < 1e-6
    assert math.exp(found.lower) <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-9) <= math.exp(found.upper)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.55])
def test_sampled_step_beside_an_expansion(epsilon: float, reverse: bool) -> None:
    """One sampled Gaussian, a Laplace and a response step: against SciPy's quadrature between the kinks."""
    pair = PoissonGaussianPair(rate=Fraction(1, 8), mu_squared=Fraction(3, 4))
    rest = {LaplacePair(epsilon=Fraction(1, 3)): 1, ResponsePair(epsilon=Fraction(3, 10)): 1}
    direction = Direction(Description(pairs={pair: 1, **rest}), reverse=reverse)
    kappa, top = math.sqrt(0.75), 1 / (1 + math.exp(-0.3))

    def laplace(x: float) -> float:
        return max(0.0, -math.expm1((x - 1 / 3) / 2), -math.expm1(x)) if x < 1 / 3 else 0.0

    def integrand(t: float) -> float:
        a = 1 - 0.125 + 0.125 * math.exp(kappa * t - kappa * kappa / 2)
        x = epsilon + math.log(a) if reverse else epsilon - math.log(a)
        inner = top * laplace(x - 0.3) + (1 - top) * laplace(x + 0.3)
        return math.exp(-t * t / 2) / math.sqrt(2 * math.pi) * inner * (1.0 if reverse else a)

    kinks = []
    for loss in (19 / 30, 1 / 30, -1 / 30, -19 / 30):
        inside = math.expm1(loss - epsilon if reverse else epsilon - loss) / 0.125 + 1
        if inside > 0:
            kinks.append(math.log(inside) / kappa + kappa / 2)
    truth, _ = integrate.quad(integrand, -11, 11, points=kinks, limit=400, epsabs=1e-15, epsrel=1e-11)
    found = Convolution(direction.cumulant, largest=direction.largest).log_delta(epsilon)
    assert found.width < 1e-6
    assert math.exp(found.lower) <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-9) <= math.exp(found.upper)


def test_long_lines_match_the_direct_sum() -> None:
    """The matrix product is within its own bound of the sum term by term."""
    u, log = 0.37 * np.arange(200), np.linspace(-0.3, 2.0, 1500)
    size = np.exp(-((log - 0.4) ** 2))
    value, bound = sums_on_a_line(u, size, log)
    direct = (size * np.exp(1j * np.multiply.outer(u, log))).sum(axis=1)
    assert np.all(np.abs(value - direct) <= bound)
    assert evenly_spaced(0.5 + 1j * u)
    assert not evenly_spaced(0.5 + 1j * u**2)


def test_weak_gaussian_beside_atoms() -> None:
    """A Gaussian too weak for the contour is integrated atom by atom."""
    events = [
        event_from_json({"type": "randomized_response", "epsilon": "1.854"}),
        event_from_json({"type": "gaussian", "sigma": "200000", "sensitivity": 1}),
    ]
    direction = compose(events)._both()[0]
    assert Conditioning.suits(direction.description.pairs)
    found = compose(events).delta("0.5")
    assert found.upper - found.lower <= 1e-9 * found.upper
    alone = compose(events[:1]).delta("0.5")
    assert alone.lower <= found.upper <= alone.upper * (1 + 1e-5)
    tail = compose(events).epsilon("1e-100")
    assert 1.854 < tail.lower <= tail.upper < 1.8545


def test_weak_gaussian_beside_an_expansion() -> None:
    """Laplace, response and a Gaussian too weak for the contour: one integral between kinks, down to δ = 1e-300."""
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


def test_nothing_is_above_the_largest_loss() -> None:
    """At the very end of the range δ is bounded by what is left of it."""
    whole = compose([event_from_json({"type": "randomized_response", "epsilon": "1e-9"})]) * 10**9
    assert whole.delta(1) <= 1e-15
