r"""Splitting ε over what a question needs, and choosing the noise.

**Split.** With Laplace noise the variance of a statistic is proportional to 1/ε_i². Measured against its own bound
(that is: relative to a typical value of the same number of rows) every statistic has the same sensitivity, so the
total Σ w_i/ε_i² under Σε_i = ε is least for ε_i ∝ w_i^{1/3}, where w_i says how much the answers depend on the
statistic. With Gaussian noise the variance is proportional to 1/ρ_i, and ρ_i ∝ w_i^{1/2}. Shares are small whole
numbers, so that they add up to ε exactly.

**Laplace or Gaussian.** A neighbour changes a statistic by at most Δ₁ = cells·b in ℓ₁ and Δ₂ = touched·√groups·b in
ℓ₂, b the most that one unit changes in one group. Laplace noise of scale Δ₁/ε_i is ε_i-DP. Discrete Gaussian noise is
Δ₂²/2σ²-zCDP on vectors of integers (Canonne, Kamath, Steinke 2020, Theorem 4 and composition over coordinates), and
ρ-zCDP implies (ε,δ) for

    δ = e^{(α-1)(αρ-ε)}·(1-1/α)^α/(α-1),     any α > 1

(their Corollary 13). The whole question takes whichever noise gives the smaller weighted variance at its (ε,δ).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from hush.query.plan.laws import Gaussian

_FINE = 1000


def shares(weights: Sequence[Fraction], power: float) -> list[Fraction]:
    """Return parts of 1 proportional to weight^power, to about a tenth of a per cent, exactly adding up to 1."""
    whole = [max(1, round(_FINE * float(weight) ** power)) for weight in weights]
    return [Fraction(part, sum(whole)) for part in whole]


@lru_cache(maxsize=256)
def zcdp_budget(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a ρ, rounded down, such that ρ-zCDP implies (ε,δ)-DP; 0 if none was found."""
    target, log_delta = float(epsilon), math.log(delta.numerator) - math.log(delta.denominator)

    def rho(alpha: float) -> float:
        cost = math.log(alpha - 1) - alpha * math.log1p(-1 / alpha)
        return (target + (log_delta + cost) / (alpha - 1)) / alpha

    # any order gives a valid ρ; the best lies near 1 + ln(1/δ)/ε
    middle = 1 + 2 * max(1.0, -log_delta) / target
    orders = [1 + (middle - 1) * 2 ** (step / 32) for step in range(-160, 65)]
    best = max(map(rho, orders))
    if best <= 0:
        return Fraction(0)
    digits = 10 - math.floor(math.log10(best))
    return Fraction(math.floor(best * (1 - 1e-9) * 10**digits), 10**digits)


def gaussian_for(squared_sensitivity: int, rho: Fraction) -> Gaussian:
    """Return the noise with Δ₂²/2σ² ≤ ρ; σ is rounded up at twelve digits."""
    variance = Fraction(squared_sensitivity) / (2 * rho)
    scale = 10 ** max(0, 13 - len(str(int(variance))) // 2)
    root = math.isqrt(math.ceil(variance * scale * scale) - 1) + 1
    return Gaussian(sigma=Fraction(root, scale))
