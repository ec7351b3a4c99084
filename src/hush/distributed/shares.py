r"""Shares of noise: each party adds a little, and together it is exactly the noise of a trusted curator.

Nobody is trusted to add the noise, so n parties each add a share. Of these, h are counted upon to be honest and to
finish; the others may drop out, or tell their shares to the adversary. The noise of the honest ones alone must suffice.

**Pure ε** (`LaplaceShare`). A share is the difference of two negative binomial variables of shape 1/h, with q =
e^{-ε/Δ}. The shares of any h parties add up to exactly discrete Laplace noise of scale Δ/ε; more shares only add
independent noise, which is post-processing. All n together have variance (n/h)·2q/(1-q)².

*Fewer honest parties than h.* With b of them the noise has shape β = b/h < 1, and is still private, at a higher price.
A negative binomial law of shape β ≤ 1 is a mixture of geometric laws, hence k ↦ P(G = n+k) is log-convex for every n,
and so is P(X = k) = Σ_n P(G = n)·P(G = n+k) for k ≥ 0, a sum of log-convex sequences. P also falls in |k|. Hence
P(x)/P(x+Δ) is largest at x = 0: ratios of neighbours fall for x ≥ 0, and for x < 0 the numerator is smaller and the
denominator larger. The privacy is therefore pure, with

    ε(β) = ln P(0)/P(Δ),     P(k) = (1-q)^{2β} · q^k · (β)_k/k! · ₂F₁(β, β+k; k+1; q²)

(Harrison, Manurangsi 2025 call the law generalised discrete Laplace). It is evaluated in ball arithmetic, rounded up.
For a vector of counters with ℓ₁ sensitivity Δ the losses add up. As ln P is convex in k ≥ 0, the loss g(k) = ln
P(0)/P(k) is concave with g(0) = 0: one person costs most when Δ is spread evenly over as many counters as they can
move, up to Δ·g(1), which is more than g(Δ). With β ≥ 1 nothing changes: discrete Laplace losses are linear.

**(ε, δ)** (`SkellamShare`). Skellam noise of variance v is shared as variance v/h each; v is the smallest that the
exact privacy curve allows (`hush.accounting.pairs.skellam`). With fewer honest parties the variance is smaller, and
so the price follows from the same curve.

>>> share = LaplaceShare(sensitivity=1, epsilon="1", parties=20, honest=14)
>>> isinstance(share.draw(), int), share.draw(size=3).shape
(True, (3,))
>>> [round(share.epsilon_if(honest=b), 3) for b in (14, 13, 7)]
[1.0, 1.069, 1.675]
>>> round(share.deviation, 3)                     # of all twenty shares together
1.622
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy.typing as npt

from hush import noise
from hush.accounting import ApproximateDPEvent, DiscreteLaplaceEvent, Event, SkellamEvent
from hush.accounting.pairs.skellam import MOST_VARIANCE, skellam_epsilon, skellam_variance
from hush.core import InvalidValueError, Number, fraction_between, integer, positive
from hush.core.numbers import assign
from hush.core.rounding import ball, certified, flint, up
from hush.noise.shares import read_share

_MOST_PARTIES = 10**6


def _counts(parties: int, honest: int | None) -> tuple[int, int]:
    total = integer(parties, "parties", minimum=1, maximum=_MOST_PARTIES)
    if honest is None:
        return total, total
    return total, integer(
        honest, "honest", minimum=1, maximum=total, hint="It is how many of the parties are counted upon."
    )


class _Share:
    """One party's share of noise."""

    __slots__ = ()
    variance: Any

    @property
    def deviation(self) -> float:
        """The standard deviation of all parties' shares together."""
        return math.sqrt(self.variance)


@dataclass(frozen=True, slots=True, init=False)
class LaplaceShare(_Share):
    """One party's share of discrete Laplace noise: pure ε as long as ``honest`` of the ``parties`` add theirs."""

    sensitivity: int
    """How much one person can change the sum of integers."""
    epsilon: Fraction
    parties: int
    honest: int
    """How many parties are counted upon neither to drop out nor to tell their share; all by default."""

    def __init__(self, *, sensitivity: int = 1, epsilon: Number, parties: int, honest: int | None = None) -> None:
        total, counted = _counts(parties, honest)
        assign(
            self,
            sensitivity=integer(sensitivity, "sensitivity", minimum=1, maximum=10**9),
            epsilon=positive(epsilon, "epsilon"),
            parties=total,
            honest=counted,
        )
        read_share(Fraction(1, counted), self.scale)  # its limits are told now, not when noise is needed

    @property
    def scale(self) -> Fraction:
        """The scale Δ/ε of the discrete Laplace noise that the honest shares add up to."""
        return self.sensitivity / self.epsilon

    @property
    def event(self) -> DiscreteLaplaceEvent:
        """The privacy event of the released sum while enough parties are honest."""
        return DiscreteLaplaceEvent(parameter=1 / self.scale, sensitivity=self.sensitivity)

    def draw(self, size: int | tuple[int, ...] | None = None) -> Any:
        """Draw one share, or an array of independent shares for a vector of counters."""
        return noise.laplace_share(Fraction(1, self.honest), self.scale, size)

    @property
    def variance(self) -> float:
        """The variance of all parties' shares together."""
        q, complement = math.exp(-1 / float(self.scale)), -math.expm1(-1 / float(self.scale))
        return self.parties / self.honest * 2 * q / complement**2

    def epsilon_if(self, *, honest: int, counters: int = 1) -> float:
        """Return the pure ε, rounded up, that holds with only ``honest`` honest parties; infinite for none.

        One person can move ``counters`` counters of a vector.
        """
        counted = integer(honest, "honest", minimum=0, maximum=self.parties)
        # A change is of whole numbers, so it reaches no more counters than Δ.
        moved = min(integer(counters, "counters", minimum=1), self.sensitivity)
        if counted >= self.honest:
            return up(ball(self.epsilon))
        if not counted:
            return math.inf
        beta = Fraction(counted, self.honest)
        # One person's change is spread over the counters as evenly as possible, the case that reveals most.
        least, more = divmod(self.sensitivity, moved)
        total = (moved - more) * Fraction(share_epsilon(self.scale, beta, least))
        if more:
            total += more * Fraction(share_epsilon(self.scale, beta, least + 1))
        return up(ball(total))


def share_epsilon(scale: Fraction, shape: Fraction, sensitivity: int) -> float:
    """Return ln P(0)/P(Δ) of generalised discrete Laplace noise of a shape below 1, rounded up."""

    def loss() -> Any:
        q, beta = (-1 / ball(scale)).exp(), ball(shape)
        arb = flint().arb

        def series(k: int) -> Any:
            return (q * q).hypgeom_2f1(beta, beta + k, arb(k + 1))

        # P(Δ)/P(0) = q^Δ · (β)_Δ/Δ! · ₂F₁(β, β+Δ; Δ+1; q²)/₂F₁(β, β; 1; q²)
        rising = (beta + sensitivity).lgamma() - beta.lgamma() - arb(sensitivity + 1).lgamma()
        return ball(sensitivity / scale) - rising + (series(0) / series(sensitivity)).log()

    return up(certified(loss, bits=48))


@dataclass(frozen=True, slots=True, init=False)
class SkellamShare(_Share):
    """One party's share of Skellam noise: (ε, δ) as long as ``honest`` of the ``parties`` add theirs.

    >>> share = SkellamShare(sensitivity=1, epsilon=1, delta="1e-6", parties=20, honest=14)
    >>> round(float(share.honest_variance), 2)
    14.24
    >>> round(share.epsilon_if(honest=7), 3) > 1
    True
    """

    sensitivity: int
    epsilon: Fraction
    delta: Fraction
    parties: int
    honest: int
    honest_variance: Fraction
    """The variance of the honest parties' shares together."""

    def __init__(
        self, *, sensitivity: int = 1, epsilon: Number, delta: Number, parties: int, honest: int | None = None
    ) -> None:
        total, counted = _counts(parties, honest)
        moves, price = integer(sensitivity, "sensitivity", minimum=1, maximum=10**6), positive(epsilon, "epsilon")
        chance = fraction_between(delta, "delta")
        if not Fraction(1, 1000) <= price / moves <= 50:
            raise InvalidValueError(
                "epsilon", got=epsilon, allowed="from 0.001 to 50 times the sensitivity", hint="Use LaplaceShare."
            )
        assign(self, sensitivity=moves, epsilon=price, delta=chance, parties=total, honest=counted)
        variance = skellam_variance(sensitivity=moves, epsilon=price, delta=chance)
        assign(self, honest_variance=variance)

    @property
    def event(self) -> Event:
        """The privacy event of the sum while enough parties are honest: the noise itself, which composes far better."""
        if self.honest_variance > MOST_VARIANCE or self.sensitivity > MOST_VARIANCE:
            # Too many outputs for the accountant to list: the (ε, δ) for which the variance was chosen still holds.
            return ApproximateDPEvent(epsilon=self.epsilon, delta=self.delta)
        return SkellamEvent(variance=self.honest_variance, sensitivity=self.sensitivity)

    def draw(self, size: int | tuple[int, ...] | None = None) -> int | npt.NDArray[Any]:
        """Draw one share, or an array of independent shares for a vector of counters."""
        return noise.skellam(self.honest_variance / self.honest, size)

    @property
    def variance(self) -> float:
        """The variance of all parties' shares together."""
        return float(self.honest_variance * self.parties / self.honest)

    def epsilon_if(self, *, honest: int) -> float:
        """Return the ε at the same δ, rounded up, that holds with only ``honest`` honest parties."""
        counted = integer(honest, "honest", minimum=0, maximum=self.parties)
        if counted >= self.honest:
            return up(ball(self.epsilon))
        if not counted:
            return math.inf
        variance = self.honest_variance * counted / self.honest
        return skellam_epsilon(variance=variance, sensitivity=self.sensitivity, delta=self.delta)
