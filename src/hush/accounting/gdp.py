"""Gaussian differential privacy (Dong, Roth, Su 2022): certified μ of a composition.

>>> from fractions import Fraction
>>> from hush.accounting.pairs import GaussianPair
>>> from hush.accounting.description import Description
>>> certified_mu(Description.of(GaussianPair(mu_squared=Fraction(1, 4))) * 16)
2.0
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hush.accounting.errors import DescriptionError
from hush.accounting.pairs import GaussianPair, PoissonGaussianPair
from hush.accounting.pairs.gaussian import gaussian_profile
from hush.core.balls import ball, flint, precision, up

if TYPE_CHECKING:
    from fractions import Fraction

    from hush.accounting.description import Description

__all__ = ["certified_mu", "matching_mu"]

_BITS = 128


def certified_mu(description: Description) -> float:
    """Return √Σμᵢ², rounded up; refuse what has no μ."""
    whole = description.adaptive()
    if whole.rho or whole.curves or whole.infinite:
        raise DescriptionError(
            "No μ is known for this composition: zCDP, Rényi and (ε,δ) steps are not Gaussian-DP. "
            "Ask for .epsilon(delta) or .zcdp() instead, or for .gdp(delta=…), a summary of one point."
        )
    with precision(_BITS):
        total = flint().arb(0)
        for pair, count in whole.pairs.items():
            if isinstance(pair, (GaussianPair, PoissonGaussianPair)):
                total += count * ball(pair.mu_squared)
                continue
            one, other = pair.largest_loss(), pair.largest_loss(reverse=True)
            if one is None or other is None:
                raise DescriptionError(
                    f"No μ is known for {type(pair).__name__}: its loss is unbounded, and no Gaussian dominates it. "
                    "Ask for .zcdp(), or for .gdp(delta=…), a summary of one point."
                )
            worst = one.max(other)
            mu = 2 * flint().arb(2).sqrt() * (2 / (1 + worst.exp())).erfcinv()
            total += count * mu * mu
        return up(total.sqrt())


def matching_mu(epsilon: float, delta: Fraction) -> float:
    """Return the μ at which the Gaussian mechanism's δ(ε) is ``delta``."""
    if not math.isfinite(epsilon):
        return math.inf
    low, high = 0.0, 1.0
    with precision(_BITS):
        point, goal = ball(epsilon), ball(delta)

        def above(mu: float) -> bool:
            return bool(gaussian_profile(ball(mu) ** 2, point) > goal)

        while not above(high) and high < 1e12:
            low, high = high, 2 * high
        for _ in range(60):
            middle = 0.5 * (low + high)
            if middle in {low, high}:
                break
            low, high = (low, middle) if above(middle) else (middle, high)
    return high
