"""The filter of Gaussian differential privacy: Σμ².

**Theorem** (Koskela, Tobaben, Honkela 2023, arXiv 2210.17520). Let an analyst choose each mechanism after seeing all
earlier outputs, such that given any of them step i is μᵢ-GDP: no easier to tell from its neighbour than N(0, 1) from
N(μᵢ, 1). If Σμᵢ² ≤ μ² on every path, the interaction is μ-GDP. *Proof.* A μᵢ-GDP step is a post-processing of one
normal variable with mean 0 or μᵢ (Blackwell), and that of a Brownian motion, with drift 0 or 1, watched for a time
μᵢ². Let all steps watch one motion, one after the other; each knows how long it will watch before it starts, and
together they watch no longer than μ². So the interaction is a post-processing of the motion up to time μ², that is of
N(0 or μ, 1). ∎

*Hypothesis to note*: each step must be Gaussian-like as a whole, a single number μᵢ for its whole trade-off curve.
Gaussian noise is, exactly. A pure ε-DP step is, with μ = 2Φ⁻¹(e^ε/(1+e^ε)): its trade-off curve consists of the two
chords of that Gaussian's convex curve. Discrete Gaussian noise and subsampled noise are not, and are refused here; so
are zCDP and Rényi descriptions. An (ε, δ) step is that pure step, or with probability δ no protection at all; those δ
add up in the reserve.

The account holds the largest μ with Φ(μ/2-ε/μ) - e^ε·Φ(-μ/2-ε/μ) ≤ δ - reserve, rounded down. For Gaussian noise
alone this is exact: the filter admits what exact composition admits, and the analyst pays nothing for adaptivity.

>>> account = GDPFilter.open(epsilon=1, delta="1e-6", reserve=0)
>>> round(float(account.limit), 6)
0.056029
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from hush.accounting.events import Event
from hush.accounting.filters.base import Filter
from hush.accounting.filters.renyi import RESERVE
from hush.accounting.prices import gdp_price
from hush.accounting.theorems.gaussian import largest_mu
from hush.core import InvalidValueError, Number, fraction_between, nonnegative, probability


@dataclass(frozen=True, slots=True, kw_only=True)
class GDPFilter(Filter):
    """Adds up μ², exactly for Gaussian noise."""

    kind: ClassVar[str] = "gdp"
    takes_gaussian: ClassVar[bool] = False

    @classmethod
    def open(cls, *, epsilon: Number, delta: Number, reserve: Number | None = None) -> GDPFilter:
        """Open an account of (ε, δ); ``reserve`` of δ is kept for the masses of approximate steps (a quarter)."""
        slip = fraction_between(delta, "delta")
        kept = slip * RESERVE if reserve is None else probability(reserve, "reserve")
        return cls(epsilon=nonnegative(epsilon, "epsilon"), delta=slip, reserve=kept)

    def _check(self) -> None:
        if not self.reserve < self.delta < 1:
            raise InvalidValueError("reserve", got=self.reserve, allowed="below delta, and delta below 1")

    @property
    def limit(self) -> Fraction:
        """The largest μ², rounded down."""
        return _limit(self.epsilon, self.delta - self.reserve)

    def _loss(self, event: Event) -> tuple[Fraction, Fraction]:
        return gdp_price(event)


@lru_cache(maxsize=4096)
def _limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    return largest_mu(epsilon=epsilon, delta=delta) ** 2
