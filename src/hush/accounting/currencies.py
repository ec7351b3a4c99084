"""An event's price in each of the four currencies that add up: ε, Rényi divergence, ρ and μ².

Every function returns (loss, mass): what the event costs, and the probability that its loss is infinite. Both are exact
rationals where the event's own parameters are, else the next float above the true value. Masses are summed, which is at
least 1-Π(1-δᵢ). An event without the description asked for is refused.

Prices are for adaptive use. Mechanisms of bounded range that claim to be fixed in advance are priced like any others,
at no more than ε²/8-zCDP (Cesar, Rogers 2021), which holds however they are chosen.

>>> from hush.accounting.events import ApproximateDPEvent, GaussianEvent
>>> pure_price(ApproximateDPEvent(epsilon="0.1", delta="1e-9"))
(Fraction(1, 10), Fraction(1, 1000000000))
>>> gdp_price(GaussianEvent(sigma=30))
(Fraction(1, 900), Fraction(0, 1))
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hush.accounting.errors import DescriptionError
from hush.accounting.pairs import BoundedRangePair, DiscreteLaplacePair, GaussianPair, LaplacePair, ResponsePair
from hush.core import PrecisionError
from hush.core.balls import ball, flint, fraction_up, precision
from hush.core.rounding import PRECISIONS, float_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from hush.accounting.description import Description
    from hush.accounting.events import Event
    from hush.accounting.pairs import Pair
    from hush.core.balls import Ball

__all__ = ["Price", "gdp_price", "pure_price", "renyi_price", "zcdp_price"]

Price = tuple[Fraction, Fraction]
"""A loss and a mass."""

_GOOD = 48  # bits of a price that are worth another round of arithmetic


def pure_price(event: Event) -> Price:
    """Return ε and δ: exact for Laplace noise, responses and black boxes."""
    whole = event.description().adaptive()
    if whole.rho or whole.curves:
        raise _missing(event, "pure ε")
    total = Fraction(0)
    for pair, count in whole.pairs.items():
        loss = _largest(pair)
        if loss is None:
            raise _missing(event, "pure ε")
        total += count * loss
    return total, _mass(whole)


def renyi_price(event: Event, alpha: Fraction) -> Price:
    """Return the Rényi divergence of order α in the worse direction."""
    whole = event.description().adaptive()

    def value() -> Ball:
        summed = ball(whole.rho * alpha)
        for pair, count in whole.pairs.items():
            divergence = pair.renyi(alpha)
            if isinstance(pair, BoundedRangePair):
                divergence = divergence.min(ball(alpha) * pair.rho())
            summed += count * divergence
        for curve, count in whole.curves.items():
            summed += count * curve.at(alpha)
        return summed

    return _rounded(value, event, f"Rényi divergence of order {float(alpha):.6g}"), _mass(whole)


def zcdp_price(event: Event) -> Price:
    """Return ρ."""
    whole = event.description()
    if whole.curves:
        raise _missing(event, "ρ-zCDP")
    return _rounded(whole.zcdp, event, "ρ-zCDP"), _mass(whole)


def gdp_price(event: Event) -> Price:
    """Return μ²: exact for Gaussian noise, (2Φ⁻¹(e^ε/(1+e^ε)))² for pure steps, refused for the rest."""
    whole = event.description().adaptive()
    if whole.rho or whole.curves:
        raise _missing(event, "Gaussian DP")
    total = Fraction(0)
    for pair, count in whole.pairs.items():
        if isinstance(pair, GaussianPair):
            total += count * pair.mu_squared
            continue
        loss = _largest(pair)
        if loss is None:
            raise _missing(event, "Gaussian DP")
        # Φ⁻¹(1-q) = √2·erfc⁻¹(2q), with q = 1/(1+e^ε).
        total += count * _rounded(lambda e=loss: 8 * (2 / (1 + ball(e).exp())).erfcinv() ** 2, event, "Gaussian DP")  # type: ignore[misc]
    return total, _mass(whole)


def _largest(pair: Pair) -> Fraction | None:
    """Return the pair's largest loss in the worse direction: the exact parameter where it is one, else rounded up."""
    if isinstance(pair, (ResponsePair, LaplacePair, BoundedRangePair)):
        return pair.epsilon
    if isinstance(pair, DiscreteLaplacePair):
        return pair.parameter * pair.sensitivity
    worst = Fraction(0)
    for reverse in (False, True):
        with precision(PRECISIONS[0]):
            loss = pair.largest_loss(reverse=reverse)
            if loss is None or not loss.is_finite():
                return None
            worst = max(worst, Fraction(float_up(fraction_up(loss))))
    return worst


def _mass(whole: Description) -> Fraction:
    """Return Σδᵢ, at most 1."""
    return min(sum((count * lost.mass for lost, count in whole.infinite.items()), Fraction(0)), Fraction(1))


def _rounded(value: Callable[[], Ball], event: Event, what: str) -> Fraction:
    """Return the float above a non-negative ball, with more bits while they are worth it.

    Small losses are differences of nearly equal numbers; few bits would give a true price, but far too high.
    """
    best: Fraction | None = None
    for working in PRECISIONS:
        with precision(working):
            found = value()
            if found == flint().arb.pos_inf():
                raise _missing(event, what)
            if found.is_finite():
                upper = fraction_up(found)
                best = upper if best is None else min(best, upper)
                if found.rel_accuracy_bits() >= _GOOD:
                    break
    if best is None:
        raise PrecisionError(f"The {what} of {event!r} could not be computed; use more moderate parameters.")
    rounded = float_up(max(best, Fraction(0)))
    if rounded == float("inf"):
        raise _missing(event, what)
    return Fraction(rounded)


def _missing(event: Event, what: str) -> DescriptionError:
    return DescriptionError(
        f"A {event.type} event has no {what}; use an account of another kind, or another mechanism."
    )
