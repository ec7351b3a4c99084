"""How a choice is protected: by one draw of the exponential mechanism in every group."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hush.accounting.events import Event
from hush.query.plan.choices import Choice, ChoiceKind, Ties
from hush.query.plan.events import choice_event
from hush.query.plan.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """How one choice is protected. Spread, cut and rank are 0 for MODE, and ``rank`` for quantiles too."""

    choice: Choice
    rate: Fraction
    spread: int
    """k: the two points aim so far below and above the target."""
    cut: int
    """C: scores end at -C."""
    rank: int
    """r: MIN and MAX aim at the r-th value."""
    ties: Ties | None
    """When the outer points aim further away; None if they never do."""
    epsilon: Fraction
    event: Event
    confidence: float
    """How often its interval holds."""

    @classmethod
    def of(cls, choice: Choice, epsilon: Fraction, bounds: Limits, confidence: float) -> Pick:
        """Return how a choice is protected at a price, with intervals of a confidence."""
        rate = choice.rate(epsilon, bounds)
        on_line = choice.kind is not ChoiceKind.MODE
        extreme = choice.kind in {ChoiceKind.MIN, ChoiceKind.MAX}
        return cls(
            choice=choice,
            rate=rate,
            spread=choice.spread(rate, bounds, confidence) if on_line else 0,
            cut=choice.cut(rate) if on_line else 0,
            rank=choice.rank(rate, bounds, confidence) if extreme else 0,
            ties=choice.ties(rate, bounds, confidence) if on_line else None,
            epsilon=epsilon,
            event=choice_event(epsilon, bounds),
            confidence=confidence,
        )

    @property
    def reach(self) -> int:
        """How far from the target the histogram must be known point by point."""
        near = self.cut + self.spread
        return near if self.ties is None else max(near, self.cut + self.ties.spread, self.ties.window)
