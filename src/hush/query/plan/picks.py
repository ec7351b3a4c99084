"""How a choice is protected: by one draw of the exponential mechanism in every group."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hush.accounting.events import Event
from hush.mechanisms.grouped import GroupedMode, GroupedQuantile
from hush.query.plan.choices import Choice, LineHistogram
from hush.query.plan.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A choice and the mechanism that makes it."""

    choice: Choice
    mechanism: GroupedQuantile | GroupedMode
    confidence: float
    """How often its interval holds."""

    @classmethod
    def of(cls, choice: Choice, epsilon: Fraction, bounds: Limits, confidence: float) -> Pick:
        """Return how a choice is protected at a price, with intervals of a confidence."""
        histogram, weight = choice.histogram, choice.weight(bounds)
        mechanism: GroupedQuantile | GroupedMode
        if isinstance(histogram, LineHistogram):
            mechanism = GroupedQuantile(
                fraction=choice.quantile,
                points=histogram.points,
                epsilon=epsilon,
                confidence=confidence,
                cell=histogram.cell,
                row_weight=weight,
                rows=bounds.rows,
                contribution=bounds.contribution,
            )
        else:
            mechanism = GroupedMode(
                values=len(histogram.values),
                epsilon=epsilon,
                row_weight=weight,
                rows=bounds.rows,
                contribution=bounds.contribution,
            )
        return cls(choice=choice, mechanism=mechanism, confidence=confidence)

    @property
    def epsilon(self) -> Fraction:
        """What the choice takes of the question's ε."""
        return self.mechanism.epsilon

    @property
    def event(self) -> Event:
        """What an accountant needs."""
        return self.mechanism.event
