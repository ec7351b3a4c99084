"""The Rényi filter: one order, fixed when the account is opened.

**Theorem.** Fix α > 1. Let an analyst choose each mechanism after seeing all earlier outputs, such that, given any
outputs h so far, step i for every pair of neighbours has a loss Lᵢ that is infinite with probability at most mᵢ(h) and

    E[e^{(α-1)Lᵢ} ; Lᵢ < ∞ | h] ≤ e^{(α-1)γᵢ(h)},

or is a post-processing of such a step. If Σγᵢ ≤ Γ and Σmᵢ ≤ m on every path, the whole interaction satisfies

    δ(ε) ≤ m + e^{(α-1)(Γ-ε)}·(1-1/α)^{α-1}/α    for every ε ≥ 0.

*Proof.* Let L be the sum of the losses, the loss of the transcript. Xₙ = exp((α-1)·Σ_{i≤n}(Lᵢ-γᵢ)) on the event that
all of L₁…Lₙ are finite, 0 otherwise, is a non-negative supermartingale, since γᵢ is known before Lᵢ is drawn. So E Xₙ
≤ 1, and Σγᵢ ≤ Γ gives E[e^{(α-1)L}; L < ∞] ≤ e^{(α-1)Γ}. The chance that some step is the first of infinite loss is
at most E Σmᵢ ≤ m. Now δ(ε) = E(1-e^{ε-L})₊ ≤ P(L = ∞) + E[(1-e^{ε-L})₊; L < ∞], and (1-e^{-u})₊ ≤
e^{(α-1)u}·(1-1/α)^{α-1}/α. Post-processed steps: let the analyst see the unprocessed outputs too, which only
increases δ. ∎

With m = 0 this is the filter of Feldman and Zrnic (2021, arXiv 2008.11193) with the conversion of Canonne, Kamath and
Steinke (2020). *Hypotheses to note.* The order is fixed before the first step; picking the best order at the end is not
covered. So is the split of δ into ``reserve`` (m) and the rest: had the analyst the choice between mass and loss on
each path, both could be spent on the same δ. γᵢ and mᵢ must hold for both directions of every pair of neighbours,
and depend on outputs, never on data.

The account holds Γ = ε - ln(1-1/α) + (ln(δ-m) + ln α)/(α-1), rounded down.

>>> account = RenyiFilter.open(epsilon=1, delta="1e-6")
>>> account.alpha
Fraction(...)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from hush.accounting.events import Event
from hush.accounting.filters.base import Filter
from hush.accounting.prices import renyi_price
from hush.accounting.theorems.conversions import best_order, conversion_cost, float_cost, order
from hush.core import HushError, InvalidValueError, Number, fraction_between, positive, probability
from hush.core.balls import ball, fraction_down
from hush.core.rounding import certified, float_down

RESERVE = Fraction(1, 4)
"""The part of δ kept for the masses of approximate steps unless the account says otherwise.

It costs about ln(4/3)/(α-1) of ε, one per cent at (1, 1e-6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenyiFilter(Filter):
    """Adds up Rényi divergences at one fixed order: the default for an (ε, δ) budget."""

    kind: ClassVar[str] = "renyi"
    takes_gaussian: ClassVar[bool] = True

    alpha: Fraction
    """The order, fixed for the life of the account."""

    @classmethod
    def open(
        cls,
        *,
        epsilon: Number,
        delta: Number,
        alpha: Number | None = None,
        reserve: Number | None = None,
        expected: Iterable[Event] | None = None,
    ) -> RenyiFilter:
        """Open an account of (ε, δ).

        ``expected`` is the mix of events that the account is likely to see; the order and the reserve are then chosen
        so that the mix can be repeated most often. Without it the order is the best for Gaussian-like steps, whose
        divergence is proportional to α, as that of every small step is. Both choices affect how much fits, never what
        is promised.
        """
        budget, slip = positive(epsilon, "epsilon"), fraction_between(delta, "delta")
        mix = None if expected is None else list(expected)
        if mix is not None and not (mix and all(isinstance(event, Event) for event in mix)):
            raise InvalidValueError("expected", got=mix, allowed="at least one event, and events only")
        if reserve is not None:
            kept = probability(reserve, "reserve")
        elif mix:
            kept = None
        else:
            kept = slip * RESERVE
        if alpha is not None:
            fixed = order(alpha)
            kept = kept if kept is not None else _balanced(budget, slip, fixed, mix or [])
            return cls(epsilon=budget, delta=slip, reserve=kept, alpha=fixed)
        if kept is not None and kept >= slip:
            raise InvalidValueError("reserve", got=reserve, allowed="below delta: the conversion needs the rest")
        fixed, kept = _choose(budget, slip, kept, mix)
        return cls(epsilon=budget, delta=slip, reserve=kept, alpha=fixed)

    def _check(self) -> None:
        object.__setattr__(self, "alpha", order(self.alpha))
        if not self.reserve < self.delta < 1:
            raise InvalidValueError("reserve", got=self.reserve, allowed="below delta, and delta below 1")
        if self.limit <= 0:
            raise InvalidValueError(
                "alpha",
                got=self.alpha,
                allowed=f"an order at which something fits into epsilon {self.epsilon} and delta {self.delta}",
                hint="Leave the order to hush, or open a pure account.",
            )

    @property
    def currency(self) -> str:
        """Divergence at this account's order."""
        return f"renyi:{self.alpha}"

    @property
    def limit(self) -> Fraction:
        """Γ, rounded down."""
        return _limit(self.epsilon, self.delta - self.reserve, self.alpha)

    def _loss(self, event: Event) -> tuple[Fraction, Fraction]:
        return renyi_price(event, self.alpha)


@lru_cache(maxsize=4096)
def _limit(epsilon: Fraction, delta: Fraction, alpha: Fraction) -> Fraction:
    """Return the largest float below ε minus the cost of the conversion."""
    room = certified(lambda: ball(epsilon) - conversion_cost(alpha, delta), bits=32)
    return Fraction(float_down(fraction_down(room)))


def _choose(
    epsilon: Fraction, delta: Fraction, reserve: Fraction | None, mix: list[Event] | None
) -> tuple[Fraction, Fraction]:
    """Return the order and the reserve under which most fits. Floats: they decide how much, not whether it is safe."""
    if not mix:
        kept = reserve if reserve is not None else delta * RESERVE

        def fewest(alpha: float) -> float:
            return (float_cost(alpha, delta - kept) - float(epsilon)) / alpha

        return best_order(fewest, highest=1e15, digits=4), kept

    def repeats(alpha: float) -> float:
        at = Fraction(alpha)
        kept = reserve if reserve is not None else _balanced(epsilon, delta, at, mix)
        loss, mass = _mix(mix, at)
        room = float(epsilon) - float_cost(alpha, delta - kept)
        return -min(room / loss if loss else math.inf, float(kept) / mass if mass else math.inf)

    # Something fits from about α-1 = ln(1/δ)/ε on, and a hundred times that is as good as a sum of ε.
    scale = (math.log(delta.denominator) - math.log(delta.numerator)) / float(epsilon)
    alpha = best_order(repeats, lowest=scale / 4, highest=100 * scale, digits=4, grid=24, rounds=16)
    if repeats(float(alpha)) >= 0:
        raise InvalidValueError("expected", got=mix, allowed="events that have a Rényi divergence at a useful order")
    return alpha, reserve if reserve is not None else _balanced(epsilon, delta, alpha, mix)


def _mix(mix: list[Event], alpha: Fraction) -> tuple[float, float]:
    """Return the loss and the mass of the mix in floats; infinite where it has no divergence of this order."""
    try:
        prices = [renyi_price(event, alpha) for event in mix]
    except HushError:
        return math.inf, 0.0
    return float(sum(loss for loss, _ in prices)), float(sum(mass for _, mass in prices))


def _balanced(epsilon: Fraction, delta: Fraction, alpha: Fraction, mix: list[Event]) -> Fraction:
    """Return the reserve at which the mix exhausts losses and masses together, to two digits of δ."""
    loss, mass = _mix(mix, alpha)
    if mass == 0:
        return Fraction(0)
    low, high = 0, 1024
    while high - low > 1:
        middle = (low + high) // 2
        kept = delta * middle / 1024
        room = float(epsilon) - float_cost(float(alpha), delta - kept)
        low, high = (middle, high) if float(kept) / mass < room / loss else (low, middle)
    return delta * high / 1024 if high < 1024 else delta * low / 1024
