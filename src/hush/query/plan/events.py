"""What a plan charges, written in the vocabulary of `hush.accounting.events`.

* **Laplace** noise on a vector over groups: under add/remove a unit changes at most ``groups`` coordinates, each by
  at most b, independently noised: the composition of ``groups`` scalar mechanisms of sensitivity b, which is never
  worse than pure ε and better in Rényi terms. Under replace one coordinate may change by 2b or two by b each; the
  pure ε covers all.
* **Gaussian**: Δ₂²/2σ² of zero-concentrated DP, whatever the shape of the change; with one coordinate the discrete law
  itself.
* **Choices**: bounded range in each of at most ``groups`` groups under add/remove, else pure ε.
* **Keys**: (ε,δ), met with equality by the geometric mechanism; approximate zCDP by the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hush.accounting.events import (
    ApproximateDPEvent,
    BoundedRangeEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    PartitionSelectionEvent,
    ZCDPEvent,
)
from hush.query.plan.laws import Laplace, Law
from hush.query.plan.limits import Limits


def noise_event(law: Law, step: int, bounds: Limits, epsilon: Fraction) -> Event:
    """Return the event of one noisy statistic; ``step`` is the most one unit changes in one group."""
    if isinstance(law, Laplace):
        if bounds.touched > 1:
            return ApproximateDPEvent(epsilon=epsilon)
        return _repeated(DiscreteLaplaceEvent(scale=law.scale, sensitivity=step), bounds.groups)
    if bounds.cells == 1:
        return DiscreteGaussianEvent(sigma=law.sigma, sensitivity=step)
    return ZCDPEvent(rho=Fraction(bounds.touched**2 * bounds.groups * step * step) / (2 * law.sigma**2))


def choice_event(epsilons: Sequence[Fraction], bounds: Limits) -> Event:
    """Return the event of picks made with these ε."""
    if bounds.touched > 1:
        return ApproximateDPEvent(epsilon=sum(epsilons, Fraction(0)))
    return ComposedEvent(parts=[(BoundedRangeEvent(epsilon=part / bounds.groups), bounds.groups) for part in epsilons])


def selection_event(epsilon: Fraction, delta: Fraction) -> Event:
    """Return the event of choosing keys."""
    return PartitionSelectionEvent(epsilon=epsilon, delta=delta)


def _repeated(event: Event, count: int) -> Event:
    return event if count == 1 else ComposedEvent(parts=[(event, count)])
