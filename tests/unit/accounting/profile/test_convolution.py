"""Few steps on a grid: against full sums of atoms and SciPy's quadrature."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import flint
import pytest
from scipy import integrate

from hush.accounting import compose, event_from_json
from hush.accounting.description import Description
from hush.accounting.guarantee import Guarantee
from hush.accounting.pairs.hyperbolic import LaplacePair, ResponsePair
from hush.accounting.pairs.poisson import PoissonGaussianPair, PoissonLaplacePair
from hush.accounting.profile.convolution import Convolution
from hush.accounting.profile.direction import Direction
from hush.core.rounding import ball, precision


def guarantee(*parts: dict[str, object]) -> Guarantee:
    return compose([event_from_json(part) for part in parts])


def response(epsilon: str, count: int = 1) -> dict[str, object]:
    return {"type": "randomized_response", "epsilon": epsilon, "count": count}


def sampled_laplace(q: str, scale: str, count: int = 1) -> dict[str, object]:
    return {"type": "poisson_laplace", "q": q, "scale": scale, "count": count}


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.0])
def test_two_sampled_gaussians_down_to_e_minus_133(epsilon: float) -> None:
    """Against Arb's certified integral over the noise of the first, from δ = 1e-10 to 1e-133: no tilt, no grid."""
    event = event_from_json({"type": "poisson_gaussian", "q": "0.0281", "sigma": "3.744"})
    direction = compose([event, event])._directions[0]
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
    direction = compose(events)._directions[int(reverse)]
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


@pytest.mark.parametrize("at", [0.1, 0.9, 2.3, 4.4])
def test_different_responses_against_all_their_atoms(at: float) -> None:
    """Twelve responses: all 4,096 atoms in ball arithmetic; the grid, asked by itself, holds the truth."""
    epsilons = [Fraction(50 + 61 * i, 1000) for i in range(12)]
    direction = guarantee(*[response(str(e)) for e in epsilons])._directions[0]
    found = Convolution(direction.cumulant, largest=direction.largest).log_delta(at)
    with precision(128):
        truth = flint.arb(0)
        tops = [1 / (1 + (-ball(e)).exp()) for e in epsilons]
        for signs in itertools.product((1, -1), repeat=12):
            loss = sum((s * e for s, e in zip(signs, epsilons, strict=True)), Fraction(0))
            if loss > Fraction(at):
                mass = flint.arb(1)
                for s, p in zip(signs, tops, strict=True):
                    mass *= p if s > 0 else 1 - p
                truth += mass * -(ball(Fraction(at) - loss)).expm1()
        log = float(truth.log())
    assert found.lower <= log <= found.upper
    assert found.width < 1e-5


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("at", [0.02, 0.1, 0.2])
def test_two_sampled_laplace_steps_against_quadrature(at: float, reverse: bool) -> None:
    """Condition on the first step's loss: its two atoms and its density, by SciPy between the kinks."""
    pair = PoissonLaplacePair(rate=Fraction(1, 5), epsilon=Fraction(4, 5))
    direction = Direction(guarantee(sampled_laplace("0.2", "1.25", 2)).description, reverse=reverse)
    assert list(direction.description.pairs) == [pair]
    q, e = 0.2, 0.8

    def rest(loss: float) -> float:
        with precision(64):
            return max(float(pair.profile(ball(at - loss), reverse=reverse)), 0.0)

    def share(l: float) -> float:
        a = 1 - q + q * math.exp(l)
        return rest(-math.log(a)) if reverse else a * rest(math.log(a))

    kinks = []
    for end in (-e, e):
        edge = math.log(1 - q + q * math.exp(end))
        level = math.exp(-at - edge if reverse else at - edge)
        if level > 1 - q:
            kinks.append(math.log((level - 1 + q) / q))
    kinks = [k for k in kinks if -e < k < e]
    smooth, _ = integrate.quad(
        lambda l: 0.25 * math.exp(-(l + e) / 2) * share(l), -e, e, points=kinks or None, epsabs=1e-14, epsrel=1e-12
    )
    truth = 0.5 * share(-e) + 0.5 * math.exp(-e) * share(e) + smooth
    found = Convolution(direction.cumulant, largest=direction.largest).log_delta(at)
    assert math.exp(found.lower) <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-9) <= math.exp(found.upper)
    assert found.width < 1e-6
