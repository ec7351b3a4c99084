"""The cheap ends hold: next to exact ones, and where δ is all but 1."""

from __future__ import annotations

from hush.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    compose,
    event_from_json,
)
from hush.accounting.guarantee import Guarantee
from hush.accounting.profile.tail_bounds import TailBounds


def guarantee(*parts: dict[str, object]) -> Guarantee:
    return compose([event_from_json(part) for part in parts])


def response(epsilon: str, count: int = 1) -> dict[str, object]:
    return {"type": "randomized_response", "epsilon": epsilon, "count": count}


def test_simple_ends_hold_next_to_exact_ones() -> None:
    """The cheap ends lie outside the certified ones, everywhere on the curve of a mix."""
    direction = guarantee({"type": "laplace", "scale": 2, "count": 4}, response("0.4", 3))._directions[0]
    simple = TailBounds(direction.cumulant, largest=direction.largest)
    for epsilon in (0.0, 0.3, 1.0, 2.5, 3.19):
        exact, cheap = direction.log_delta(epsilon), simple.log_delta(epsilon)
        assert cheap.lower <= exact.lower + 1e-12
        assert exact.upper <= cheap.upper + 1e-12


def test_near_certainty_next_to_very_wide_noise() -> None:
    wide = compose([DiscreteGaussianEvent(sigma_squared=7 * 10**12, sensitivity=3)]) * 10**9
    found = (wide + DiscreteLaplaceEvent(parameter="1.031", sensitivity=2**20)).delta(0)
    assert found.lower > 1 - 1e-15
