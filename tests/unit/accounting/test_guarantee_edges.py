"""Guarantees at their edges: answers too wide to give, and a δ next to the mass of infinite loss."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    UncertainError,
    compose,
    event_from_json,
)
from hush.accounting.guarantee import Guarantee
from hush.accounting.profile.convolution import Convolution
from hush.core import PrecisionError


def guarantee(*parts: dict[str, object]) -> Guarantee:
    return compose([event_from_json(part) for part in parts])


def sampled(q: str, sigma: str, count: int = 1) -> dict[str, object]:
    return {"type": "poisson_gaussian", "q": q, "sigma": sigma, "count": count}


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


@pytest.mark.parametrize("delta", ["1e-5", "1e-6", "3e-9", "0.3"])
def test_a_delta_short_of_the_infinite_mass_by_less_than_a_float_shows_is_never_enough(delta: str) -> None:
    guarantee = compose([ApproximateDPEvent(epsilon=1, delta=delta)])
    mass = Fraction(delta)
    assert guarantee.epsilon(mass - Fraction(1, 10**60)).upper == math.inf
    assert guarantee.epsilon(mass) == 1.0
    assert guarantee.epsilon(mass + Fraction(1, 10**60)).upper <= 1.0


def test_a_mass_too_long_to_be_told_from_delta_claims_nothing() -> None:
    many = compose([ApproximateDPEvent(epsilon=1, delta="1e-9")]) * 1000
    mass = 1 - (1 - Fraction(1, 10**9)) ** 1000
    short = many.epsilon(mass - Fraction(1, 10**400), strict=False)
    assert short.upper == math.inf


def test_an_epsilon_that_is_no_float_is_asked_on_the_safe_side() -> None:
    # The float nearest to 1/10 lies above it, and has a smaller δ: the one below it answers.
    steps = guarantee({"type": "laplace", "scale": "100", "count": 50})
    (direction,) = steps._directions
    below, nearest = (direction.log_delta(epsilon).upper for epsilon in (math.nextafter(0.1, 0.0), 0.1))
    assert steps._log_delta(Fraction(1, 10)).upper == below > nearest
