"""Extremes and mixed scales: both ends near each other, and round an independent truth."""

from __future__ import annotations

import math

import pytest

from hush.accounting import (
    PoissonGaussianEvent,
    compose,
    event_from_json,
)
from hush.accounting.guarantee import Guarantee


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


def test_nothing_is_above_the_largest_loss() -> None:
    """At the very end of the range δ is bounded by what is left of it."""
    whole = compose([event_from_json({"type": "randomized_response", "epsilon": "1e-9"})]) * 10**9
    assert whole.delta(1) <= 1e-15


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


def test_many_rare_samples_of_sharp_noise() -> None:
    # One sampled step has a loss of about κ²/2 + ln q = 186 ± 20, no sampled step one below 0: δ(10) = 1 − (1−q)^n.
    found = (compose([PoissonGaussianEvent(rate="1e-6", sigma="0.05")]) * 100_000).delta(10, strict=False)
    assert found.lower <= -math.expm1(100_000 * math.log1p(-1e-6)) <= found.upper
