"""Extremes and mixed scales: both ends near each other, and round an independent truth; else a clear error."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction

import flint
import numpy as np
import pytest
from scipy import integrate

from hush.accounting import UncertainError, compose, event_from_json
from hush.accounting.guarantee import Guarantee
from hush.accounting.pairs import (
    BoundedRangePair,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    LaplacePair,
    PoissonGaussianPair,
    PoissonLaplacePair,
)
from hush.accounting.profile.convolution import Convolution
from hush.accounting.profile.direction import Direction
from hush.accounting.profile.tail_bounds import TailBounds
from hush.core import InvalidValueError, PrecisionError
from hush.core.balls import ball, precision


def guarantee(*parts: dict[str, object]) -> Guarantee:
    return compose([event_from_json(part) for part in parts])


def sampled(q: str, sigma: str, count: int = 1) -> dict[str, object]:
    return {"type": "poisson_gaussian", "q": q, "sigma": sigma, "count": count}


def response(epsilon: str, count: int = 1) -> dict[str, object]:
    return {"type": "randomized_response", "epsilon": epsilon, "count": count}


def sampled_laplace(q: str, scale: str, count: int = 1) -> dict[str, object]:
    return {"type": "poisson_laplace", "q": q, "scale": scale, "count": count}


EPSILONS = {
    "a million sampled steps, δ = 1e-300": ([sampled("0.001", "1", 10**6), response("1")], "1e-300"),
    "three sampled Laplace steps": ([sampled_laplace("0.1", "1", 3)], "1e-6"),
    "three sampled Laplace steps, δ = 1e-300": ([sampled_laplace("0.1", "1", 3)], "1e-300"),
    "three sampled Gaussians, δ = 1e-100": ([sampled("0.01", "1", 3)], "1e-100"),
    "eighteen different responses": ([response(f"{0.05 + 0.0371 * i:.4f}") for i in range(18)], "1e-6"),
    "a wide discrete Laplace": ([{"type": "discrete_laplace", "scale": 2**20, "sensitivity": 2**20}], "1e-6"),
    "a weak Gaussian beside many atoms": (
        [{"type": "gaussian", "sigma": "1e6"}, response("0.1", 10**6)],
        "1e-6",
    ),
    "tiny responses beside sampled Laplace": (
        [response("9.98e-6", 100), sampled_laplace("0.0415", "0.907", 3)],
        "1e-15",
    ),
}
DELTAS = {
    "a void between humps": ([sampled("0.0134", "2", 7), response("0.653", 2)], "3"),
    "twenty-five different responses": ([response(f"{0.05 + 0.0371 * i:.4f}") for i in range(25)], "3"),
    "a weak Gaussian beside twenty responses": (
        [{"type": "gaussian", "sigma": "1e5"}, *[response(f"{0.05 + 0.0371 * i:.4f}") for i in range(20)]],
        "2",
    ),
    "two sampled Gaussians and Laplace": ([sampled("0.01", "1", 2), {"type": "laplace", "scale": 2}], "1"),
    "far beyond everything": ([sampled("0.01", "1", 2), {"type": "laplace", "scale": 2}], "10000"),
    "all but certain": ([{"type": "gaussian", "sigma": "0.0082", "count": 1000}, response("0.3", 7)], "100"),
}


@pytest.mark.parametrize(("parts", "delta"), EPSILONS.values(), ids=EPSILONS.keys())
def test_epsilon_at_the_extremes(parts: list[dict[str, object]], delta: str) -> None:
    found = guarantee(*parts).epsilon(delta)
    assert 0 <= found.lower <= found.upper < math.inf
    assert found.upper - found.lower <= 1e-6 * found.upper


@pytest.mark.parametrize(("parts", "epsilon"), DELTAS.values(), ids=DELTAS.keys())
def test_delta_at_the_extremes(parts: list[dict[str, object]], epsilon: str) -> None:
    found = guarantee(*parts).delta(epsilon)
    assert 0 <= found.lower <= found.upper <= 1
    assert found.upper - found.lower <= 4e-6 * found.upper or found.upper < 1e-300


def test_known_values_of_other_methods() -> None:
    """Figures that ball arithmetic on the contour certified to ten digits, by another program."""
    void = guarantee(sampled("0.0134", "2", 7), response("0.653", 2)).delta(3)
    assert void.lower <= 6.222911275486209e-33
    assert void.upper >= 6.222911275175897e-33
    three = guarantee(sampled("0.01", "1", 3)).epsilon("1e-100")
    assert three.lower <= 23.178307940901604
    assert three.upper >= 23.17830794090034


@pytest.mark.parametrize("at", [0.1, 0.9, 2.3, 4.4])
def test_different_responses_against_all_their_atoms(at: float) -> None:
    """Twelve responses: all 4,096 atoms in ball arithmetic; the grid, asked by itself, holds the truth."""
    epsilons = [Fraction(50 + 61 * i, 1000) for i in range(12)]
    direction = guarantee(*[response(str(e)) for e in epsilons])._both()[0]
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


PAIRS = [
    (PoissonGaussianPair(rate=Fraction(1, 50), mu_squared=Fraction(9, 4)), False),
    (PoissonGaussianPair(rate=Fraction(1, 50), mu_squared=Fraction(9, 4)), True),
    (PoissonLaplacePair(rate=Fraction(1, 50), epsilon=Fraction(2)), False),
    (PoissonLaplacePair(rate=Fraction(1, 50), epsilon=Fraction(2)), True),
    (LaplacePair(epsilon=Fraction(3, 2)), False),
    (BoundedRangePair(epsilon=Fraction(3, 2)), False),
    (DiscreteGaussianPair(sigma_squared=Fraction(10**8), sensitivity=3000), False),
]


@pytest.mark.parametrize(("pair", "reverse"), PAIRS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("c", [0.3, 4.0, 40.0])
def test_cells_have_the_pair_s_moment(pair: object, reverse: bool, c: float) -> None:
    """The sum of e^{ln p + cm} is M(c), from below, to within the cells' width; that of their q is no more than 1."""
    width = 1e-3 / (c + 1)
    found = pair.cells(c, width, reverse=reverse)  # type: ignore[arg-type]
    assert found is not None
    assert found.width <= width
    peak = float(found.logs.max())
    log = peak + math.log(float(np.exp(found.logs - peak).sum()))
    with precision(128):
        truth = float(pair.moment(flint.acb(-1 - c if reverse else c)).real.log())  # type: ignore[attr-defined]
    assert truth - 0.5 * (c * (c + 1)) * width**2 - 1e-11 <= log <= truth + 1e-11
    still = found.logs - (c + 1) * found.losses
    assert float(np.exp(still).sum()) <= 1 + 1e-11


def test_discrete_laplace_closed_form_against_its_sum() -> None:
    """The profile is a sum over Δ + 1 losses."""
    for a, delta in ((Fraction(3, 10), 3), (Fraction(1, 7), 5), (Fraction(2), 2), (Fraction(1, 100), 40)):
        pair = DiscreteLaplacePair(parameter=a, sensitivity=delta)
        r = math.exp(-a)
        atoms = [
            (float(a * (2 * x - delta)), math.exp(-a * (delta - x)) / (1 + r) * (1 if x in {0, delta} else 1 - r))
            for x in range(delta + 1)
        ]
        for at in (-0.9, -0.31, 0.0, 0.17, 0.313, 0.55):
            with precision(128):
                profile = float(pair.profile(ball(at)).mid())
            assert profile == pytest.approx(sum(m * max(0.0, -math.expm1(at - l)) for l, m in atoms), abs=1e-14)


def test_simple_ends_hold_next_to_exact_ones() -> None:
    """The cheap ends lie outside the certified ones, everywhere on the curve of a mix."""
    direction = guarantee({"type": "laplace", "scale": 2, "count": 4}, response("0.4", 3))._both()[0]
    simple = TailBounds(direction.cumulant, largest=direction.largest)
    for epsilon in (0.0, 0.3, 1.0, 2.5, 3.19):
        exact, cheap = direction.log_delta(epsilon), simple.log_delta(epsilon)
        assert cheap.lower <= exact.lower + 1e-12
        assert exact.upper <= cheap.upper + 1e-12


def test_an_answer_too_wide_is_refused_with_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the grid the accountant knows this δ only roughly: it says so, and ``strict=False`` gives it."""
    monkeypatch.setattr(Convolution, "suits", staticmethod(lambda _: False))
    rough = guarantee(sampled("0.000402", "0.541", 20))
    with pytest.raises(UncertainError) as caught:
        rough.delta(1)
    assert isinstance(caught.value, PrecisionError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.lower, again.upper, str(again)) == (caught.value.lower, caught.value.upper, str(caught.value))
    loose = rough.delta(1, strict=False)
    assert (loose.lower, loose.upper) == (caught.value.lower, caught.value.upper)
    assert "strict=False" in str(caught.value)


def test_weaker_descriptions_are_not_refused() -> None:
    """zCDP and Rényi points give an upper end; how far it is from some Gaussian's is no error."""
    assert guarantee({"type": "zcdp", "rho": "0.1"}).epsilon("1e-6").lower < 2.4
    assert guarantee({"type": "rdp", "alpha": 8, "rdp": "0.3"}).delta(2).lower >= 0


def test_exactly_the_lost_mass_is_left() -> None:
    """At δ equal to the mass of infinite loss, what is left must be pure: both ends say so."""
    found = guarantee({"type": "approx_dp", "epsilon": "1.5", "delta": "1e-6", "count": 3})
    lost = 1 - (1 - Fraction(1, 10**6)) ** 3
    answer = found.epsilon(lost)
    assert answer.lower == pytest.approx(4.5, rel=1e-15)
    assert answer.upper == pytest.approx(4.5, rel=1e-15)


def test_parts_by_row_number_are_refused_under_add_remove() -> None:
    part = {"type": "laplace", "scale": 1}
    with pytest.raises(InvalidValueError, match="shifts the position"):
        event_from_json({"type": "parallel", "events": [part], "neighbours": "add-remove", "partition": "index"})
    event = event_from_json({"type": "parallel", "events": [part] * 3, "neighbours": "replace", "partition": "index"})
    assert compose([event]).epsilon(0) == 1.0
    assert compose([event.group(2)]).epsilon(0) == 4.0
