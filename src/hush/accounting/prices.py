"""An event's price in the four currencies that add up, ε, Rényi divergence, ρ and μ², and what they buy in (ε, δ).

Every function returns (loss, mass): the event's cost, and the probability that its loss is infinite. Both are exact
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

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from hush.accounting.description import Description
from hush.accounting.events import Event
from hush.accounting.pairs.base import Pair
from hush.core import Number, PrecisionError, fraction_between, nonnegative
from hush.core.errors import DescriptionError
from hush.core.rounding import (
    PRECISIONS,
    Ball,
    ball,
    flint,
    float_up,
    fraction_up,
    largest_decimal,
    precision,
    smallest_decimal,
    up,
)

Price = tuple[Fraction, Fraction]
"""A loss and a mass."""

_PRICE_BITS = 48  # bits of a price that are worth another round of arithmetic


def pure_loss(described: Description) -> Fraction | None:
    """Return the ε of pure DP, exact for Laplace noise, responses and black boxes; None where there is none."""
    if described.rho or described.curves:
        return None
    total = Fraction(0)
    for pair, count in described.pairs.items():
        loss = _largest(pair)
        if loss is None:
            return None
        total += count * loss
    return total


def pure_price(event: Event) -> Price:
    """Return ε and δ: exact for Laplace noise, responses and black boxes."""
    described = event.description()
    loss = pure_loss(described)
    if loss is None:
        raise _missing(event, "pure ε")
    return loss, _mass(described)


def renyi_price(event: Event, alpha: Fraction) -> Price:
    """Return the Rényi divergence of order α in the worse direction."""
    described = event.description()
    currency = f"Rényi divergence of order {float(alpha):.6g}"
    return _rounded(partial(described.renyi, alpha), event, currency), _mass(described)


def zcdp_price(event: Event) -> Price:
    """Return the ρ of zCDP, exact where the event's parameters give it, else rounded up."""
    described = event.description()
    if described.curves:
        raise _missing(event, "ρ-zCDP")
    return _rounded(described.zcdp, event, "ρ-zCDP"), _mass(described)


def gdp_price(event: Event) -> Price:
    """Return μ²: exact for Gaussian noise, (2Φ⁻¹(e^ε/(1+e^ε)))² for pure steps, refused for the rest."""
    described = event.description()
    if described.rho or described.curves:
        raise _missing(event, "Gaussian DP")
    total = Fraction(0)
    for pair, count in described.pairs.items():
        square = pair.gaussian()
        if square is None:
            # Not Gaussian, but pure: every ε-DP step is μ-GDP with the μ of `_pure_mu_squared`.
            loss = _largest(pair)
            if loss is None:
                raise _missing(event, "Gaussian DP")
            square = _rounded(lambda e=loss: _pure_mu_squared(ball(e)), event, "Gaussian DP")  # type: ignore[misc]
        total += count * square
    return total, _mass(described)


def _pure_mu_squared(epsilon: Ball) -> Ball:
    """Return (2Φ⁻¹(e^ε/(1+e^ε)))², the μ² of every ε-DP step: Φ⁻¹(1-q) = √2·erfc⁻¹(2q), with q = 1/(1+e^ε)."""
    return 8 * (2 / (1 + epsilon.exp())).erfcinv() ** 2


def _largest(pair: Pair) -> Fraction | None:
    """Return the pair's largest loss in the worse direction: the exact parameter where it is one, else rounded up."""
    exact = pair.exact_largest_loss()
    if exact is not None:
        return exact
    worst = Fraction(0)
    for reverse in (False, True):  # neighbours go both ways, so the worse direction is the price
        with precision(PRECISIONS[0]):
            loss = pair.largest_loss(reverse=reverse)
            if loss is None or not loss.is_finite():
                return None
            worst = max(worst, Fraction(float_up(fraction_up(loss))))  # a float above: short, and on the safe side
    return worst


def _mass(described: Description) -> Fraction:
    """Return Σδᵢ, at most 1."""
    total = Fraction(0)
    for lost, count in described.infinite.items():
        total += count * lost.mass
    return min(total, Fraction(1))


def _rounded(value: Callable[[], Ball], event: Event, currency: str) -> Fraction:
    """Return the float above a non-negative ball, with more bits while they are worth it.

    Small losses are differences of nearly equal numbers; few bits would give a true price, but far too high.
    """
    best: Fraction | None = None
    for working in PRECISIONS:
        with precision(working):
            price = value()
            if price == flint().arb.pos_inf():
                raise _missing(event, currency)
            if price.is_finite():
                upper = fraction_up(price)
                # Each upper end holds by itself, so the smallest of them does.
                best = upper if best is None else min(best, upper)
                if price.rel_accuracy_bits() >= _PRICE_BITS:
                    break
    if best is None:
        raise PrecisionError(f"The {currency} of {event!r} could not be computed; use more moderate parameters.")
    rounded = float_up(max(best, Fraction(0)))
    if rounded == float("inf"):
        raise _missing(event, currency)
    return Fraction(rounded)


def _missing(event: Event, currency: str) -> DescriptionError:
    return DescriptionError(
        f"A {event.type} event has no {currency}; use an account of another kind, or another mechanism."
    )


def certified_mu(description: Description) -> float:
    """Return √Σμᵢ², rounded up; refuse a composition without a known μ."""
    if description.rho or description.curves or description.infinite:
        raise DescriptionError(
            "No μ is known for this composition: zCDP, Rényi and (ε,δ) steps are not Gaussian-DP. "
            "Ask for .epsilon(delta) or .zcdp() instead, or for .gdp(delta=…), a summary of one point."
        )
    with precision(PRECISIONS[0]):
        total = flint().arb(0)
        for pair, count in description.pairs.items():
            square = pair.dominating_gaussian()
            if square is not None:
                total += count * ball(square)
                continue
            loss = _largest(pair)
            if loss is None:
                raise DescriptionError(
                    f"No μ is known for {type(pair).__name__}: its loss is unbounded, and no Gaussian dominates it. "
                    "Ask for .zcdp(), or for .gdp(delta=…), a summary of one point."
                )
            total += count * _pure_mu_squared(ball(loss))
        return up(total.sqrt())


def matching_mu(epsilon: float, delta: Fraction) -> float:
    """Return the μ at which the Gaussian mechanism's δ(ε) is ``delta``, rounded up."""
    if not math.isfinite(epsilon):
        return math.inf
    return float_up(smallest_decimal(lambda mu: not mu_allowed(mu**2, Fraction(epsilon), delta), digits=12))


def largest_mu(*, epsilon: Number, delta: Number) -> Fraction:
    """Return the largest μ of an (ε, δ)-DP Gaussian, rounded down to twelve significant digits. Certified.

    δ rises with μ, so there is a last decimal that is certainly allowed.
    """
    exact_epsilon, exact_delta = nonnegative(epsilon, "epsilon"), fraction_between(delta, "delta")
    # The question itself is certified at the μ that is returned, so rounding down is part of the search.
    return largest_decimal(lambda mu: mu_allowed(mu**2, exact_epsilon, exact_delta), digits=12)


def mu_allowed(mu_squared: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Is the Gaussian with this μ² certainly (ε, δ)-DP? A doubt that no precision settles counts as no.

    Balls are compared as balls: far out δ is e^{-10^9}, which as a quotient of whole numbers fills the memory.
    """
    from hush.accounting.pairs.gaussian import gaussian_profile

    for bits in PRECISIONS:
        with precision(bits):
            reached, limit = gaussian_profile(ball(mu_squared), ball(epsilon)), ball(delta)
            if reached <= limit:
                return True
            if reached > limit:
                return False
    return False


def conversion_cost(alpha: Fraction, log_delta: Ball) -> Ball:
    """Return the summand of the best conversion at this order, ln(1-1/α) - (ln δ + ln α)/(α-1), as a ball."""
    return (-ball(1 / alpha)).log1p() - (log_delta + ball(alpha).log()) / ball(alpha - 1)


def converted_delta(alpha: Fraction, gamma: Ball, epsilon: Fraction) -> Ball:
    """Return e^{(α-1)(γ-ε)}·(1-1/α)^{α-1}/α as a ball."""
    # (1-1/α)^{α-1} goes into the exponent as (α-1)·ln(1-1/α), by log1p, which keeps its digits for large α.
    exponent = ball(alpha - 1) * (gamma - ball(epsilon) + (-ball(1 / alpha)).log1p())
    return exponent.exp() / ball(alpha)


def float_cost(alpha: float, delta: Fraction) -> float:
    """Return the conversion's cost in floats, for the choice of an order only."""
    logarithm = math.log(delta.numerator) - math.log(delta.denominator)
    return math.log1p(-1 / alpha) - (logarithm + math.log(alpha)) / (alpha - 1)


def best_order(
    objective: Callable[[float], float],
    *,
    lowest: float = 1e-6,
    highest: float = 1e9,
    digits: int = 10,
    grid: int = 128,
    rounds: int = 60,
) -> Fraction:
    """Return a short rational α near the minimum of a float function of α on 1 + [lowest, highest].

    A scan in ln(α-1) finds the valley, golden section its floor. The result has ``digits`` significant digits of α-1.
    """
    low, high = math.log(lowest), math.log(highest)

    def at(position: float) -> float:
        value = objective(1 + math.exp(position))
        return value if value == value else math.inf  # noqa: PLR0124 - NaN is no minimum

    points = [low + (high - low) * i / grid for i in range(grid + 1)]
    values = [at(point) for point in points]
    best = values.index(min(values))
    first, last = points[max(best - 1, 0)], points[min(best + 1, grid)]
    ratio = (math.sqrt(5) - 1) / 2
    inner, outer = last - ratio * (last - first), first + ratio * (last - first)
    at_inner, at_outer = at(inner), at(outer)
    for _ in range(rounds):
        if at_inner <= at_outer:
            last, outer, at_outer = outer, inner, at_inner
            inner = last - ratio * (last - first)
            at_inner = at(inner)
        else:
            first, inner, at_inner = inner, outer, at_outer
            outer = first + ratio * (last - first)
            at_outer = at(outer)
    return 1 + Fraction(f"{math.exp((first + last) / 2):.{digits - 1}e}")
