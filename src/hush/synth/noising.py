r"""What a release pays, and the noise that it buys: Gaussian at a price of ρ, or Laplace at a price of ε.

A release measures several integer vectors. Each gets a share of the price and noise of one law:

    gaussian   σ² = Δ₂²/(2·share·ρ), zero-concentrated DP adds up (Bun, Steinke 2016; Canonne, Kamath, Steinke 2020)
    laplace    scale = Δ₁/(share·ε), pure DP adds up; for budgets without δ

Parameters are short rationals, rounded up, so a release never costs more than its shares; what it costs is computed
from the rounded ones.

**Shares.** Noise on n cells errs by c·n/√share (gaussian) or c·n/share (laplace) altogether. Over several vectors the
sum of these errors is least for shares ∝ n^(2/3), or ∝ n^(1/2).

>>> price = Price(law="gaussian", amount=Fraction(1, 2))
>>> price.parameter(Fraction(1, 4), squared=Fraction(1), absolute=Fraction(1))
Fraction(4, 1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from statistics import NormalDist

from hush.accounting.events import ApproximateDPEvent, Event, ZCDPEvent
from hush.core import InvalidValueError, positive
from hush.core.values import dataclass

_DIGITS = 12
_FINE = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a whole release may cost."""

    law: str
    amount: Fraction
    """ρ of zero-concentrated DP for Gaussian noise, ε for Laplace noise."""

    def __post_init__(self) -> None:
        if self.law not in {"gaussian", "laplace"}:
            raise InvalidValueError("law", got=self.law, allowed="'gaussian' or 'laplace'")
        positive(self.amount, "amount")

    def parameter(self, share: Fraction, *, squared: Fraction, absolute: Fraction) -> Fraction:
        """Return the noise's parameter for a vector of these sensitivities: Δ₂² and Δ₁."""
        part = share * self.amount
        return short_up(squared / (2 * part) if self.law == "gaussian" else absolute / part)

    def cost(self, parameter: Fraction, *, squared: Fraction, absolute: Fraction) -> Fraction:
        """Return what noise with this parameter costs."""
        return squared / (2 * parameter) if self.law == "gaussian" else absolute / parameter

    def event(self, cost: Fraction) -> Event:
        """Return a cost as an event of the accountant's vocabulary."""
        return ZCDPEvent(rho=cost) if self.law == "gaussian" else ApproximateDPEvent(epsilon=cost)

    def magnitude(self, share: float = 1.0) -> float:
        """Return the mean size of the noise on a count, of sensitivity 1, that takes a share of the price."""
        if self.law == "gaussian":
            return math.sqrt(2 / math.pi) / math.sqrt(2 * share * float(self.amount))
        return 1 / (share * float(self.amount))

    @property
    def power(self) -> float:
        """Shares of vectors with n cells are best proportional to n to this power."""
        return 2 / 3 if self.law == "gaussian" else 1 / 2


def shares(weights: Sequence[float], whole: Fraction) -> list[Fraction]:
    """Return parts of ``whole`` proportional to weights, that add up to no more than it."""
    largest = max(weights)
    parts = [max(1, math.floor(_FINE * weight / largest)) for weight in weights]
    return [whole * Fraction(part, sum(parts)) for part in parts]


def short_up(value: Fraction) -> Fraction:
    """Return a short rational that is no smaller: more noise, never less."""
    scale = 10 ** max(_DIGITS - len(str(ceil(value))), 0)
    return Fraction(ceil(value * scale), scale)


def quantile(law: str, confidence: float) -> float:
    """Return the half-width of noise of standard deviation 1; for sums of Laplace noise the larger of two laws'."""
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    return normal if law == "gaussian" else max(normal, -math.log(1 - confidence) / math.sqrt(2))
