"""What a plan charges, written in the vocabulary of `hush.accounting.events`.

* **Laplace** noise on a vector over groups: under add/remove a unit changes at most ``groups`` coordinates, each by
  at most b, independently noised: the composition of ``groups`` scalar mechanisms of sensitivity b, which is never
  worse than pure ε and better in Rényi terms. Under replace one coordinate may change by 2b or two by b each; the
  pure ε covers all.
* **Laplace on halves** (`statistics.Halves`): coordinates of a group change by i and j with i + j ≤ b. One coordinate
  that changes by s = i + j is at least as revealing, so this is charged as one of sensitivity b. Proof: with r =
  e^{-1/scale}, clamping x to [0, s] loses nothing about centre 0 against s; T, the clamped number, has under centre 0
  the masses 1/(1+r), then r^t·(1-r)/(1+r), and r^s/(1+r) at its ends 0 and s. Of two coordinates, clamped to [0, i]
  and [0, j], the sum V says all: both T and V = t mean a likelihood ratio of r^{2t-s}. V has less mass than T at 0
  and s, by a factor 1+r, and at least as much between: each 0 < t < s has two pairs or more with one number at an end,
  of mass r^t·(1-r)/(1+r)² or more each, and 2/(1+r)² ≥ 1/(1+r). So the likelihood ratio of T has the same mean, 1, and
  more spread: a difference of masses with signs +, -, + makes every convex function's mean larger (Karlin, Novikoff
  1963), and with it every divergence. Of three coordinates with i + j + k ≤ b the first two are in this way less
  revealing than one that changes by i + j (beside whatever is independent of them), and this one and the third than
  one that changes by b.
* **Gaussian**: Δ₂²/2σ² of zero-concentrated DP, whatever the shape of the change; with one coordinate the discrete law
  itself.
* **Choices**: bounded range in each of at most ``groups`` groups under add/remove, else pure ε.
* **Keys**: (ε,δ), met with equality by the geometric mechanism; approximate zCDP by the threshold.
"""

from __future__ import annotations

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


def noise_event(law: Law, step: int, bounds: Limits, epsilon: Fraction, *, coordinates: int) -> Event:
    """Return the event of ``coordinates`` statistics noised together; one unit changes ``step`` in one group."""
    if isinstance(law, Laplace):
        if bounds.touched > 1:
            return ApproximateDPEvent(epsilon=epsilon)
        return _repeated(DiscreteLaplaceEvent(scale=law.scale, sensitivity=step), bounds.groups)
    if bounds.cells == coordinates == 1:
        return DiscreteGaussianEvent(sigma=law.sigma, sensitivity=step)
    return ZCDPEvent(rho=Fraction(bounds.touched**2 * bounds.groups * step * step) / (2 * law.sigma**2))


def choice_event(epsilon: Fraction, bounds: Limits) -> Event:
    """Return the event of a pick in every group."""
    if bounds.touched > 1:
        return ApproximateDPEvent(epsilon=epsilon)
    return _repeated(BoundedRangeEvent(epsilon=epsilon / bounds.groups), bounds.groups)


def selection_event(epsilon: Fraction, delta: Fraction) -> Event:
    """Return the event of choosing keys."""
    return PartitionSelectionEvent(epsilon=epsilon, delta=delta)


def _repeated(event: Event, count: int) -> Event:
    return event if count == 1 else ComposedEvent(parts=[(event, count)])
