"""The filter of approximate zero-concentrated differential privacy: Σρ and Σδ.

**Theorem** (Whitehouse, Ramdas, Rogers, Wu 2023, "Fully-adaptive composition in differential privacy"). Let an
analyst choose each mechanism after seeing all earlier outputs, such that given any of them step i is mᵢ-approximately
ρᵢ-zCDP, where ρᵢ and mᵢ are functions of those outputs alone. If Σρᵢ ≤ ρ and Σmᵢ ≤ m on every path, the interaction
is m-approximately ρ-zCDP. *Proof*: that of the Rényi filter holds at every order α at once, with γᵢ = αρᵢ and Γ = αρ.

So here the order of the conversion may be chosen at the end, and the account holds

    ρ = max over α of (ε - ln(1-1/α) + (ln(δ-m) + ln α)/(α-1)) / α,

rounded down at an order near the best: any order gives a true bound. Since a divergence is at most αρᵢ, the Rényi
filter at that order admits whatever this one does. What this one has for it is a currency that needs no order to be
read: ρ adds up across accounts and over the years.

>>> account = ZCDPFilter.open(epsilon=1, delta="1e-6", reserve=0)
>>> round(float(account.limit), 5)
0.02436
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from hush.accounting.events import Event
from hush.accounting.filters.base import Filter
from hush.accounting.filters.renyi import RESERVE
from hush.accounting.prices import zcdp_price
from hush.accounting.theorems.conversions import best_order, conversion_cost, float_cost
from hush.core import InvalidValueError, Number, fraction_between, positive, probability
from hush.core.balls import ball, fraction_down
from hush.core.rounding import certified, float_down


@dataclass(frozen=True, slots=True, kw_only=True)
class ZCDPFilter(Filter):
    """Adds up ρ, and the masses of approximate steps."""

    kind: ClassVar[str] = "zcdp"
    takes_gaussian: ClassVar[bool] = True

    @classmethod
    def open(cls, *, epsilon: Number, delta: Number, reserve: Number | None = None) -> ZCDPFilter:
        """Open an account of (ε, δ); ``reserve`` of δ is kept for the masses of approximate steps (a quarter)."""
        slip = fraction_between(delta, "delta")
        kept = slip * RESERVE if reserve is None else probability(reserve, "reserve")
        return cls(epsilon=positive(epsilon, "epsilon"), delta=slip, reserve=kept)

    def _check(self) -> None:
        if not self.reserve < self.delta < 1:
            raise InvalidValueError("reserve", got=self.reserve, allowed="below delta, and delta below 1")
        if self.limit <= 0:
            raise InvalidValueError("epsilon", got=self.epsilon, allowed="large enough that something fits")

    @property
    def limit(self) -> Fraction:
        """The largest ρ that is (ε, δ - reserve)-DP, rounded down."""
        return _limit(self.epsilon, self.delta - self.reserve)

    def _loss(self, event: Event) -> tuple[Fraction, Fraction]:
        return zcdp_price(event)


@lru_cache(maxsize=4096)
def _limit(epsilon: Fraction, delta: Fraction) -> Fraction:
    alpha = best_order(lambda at: (float_cost(at, delta) - float(epsilon)) / at, highest=1e15)
    room = certified(lambda: (ball(epsilon) - conversion_cost(alpha, delta)) / ball(alpha), bits=32)
    return Fraction(float_down(fraction_down(room)))
