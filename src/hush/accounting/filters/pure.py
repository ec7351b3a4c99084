"""The filter of sums: Σε and Σδ.

**Theorem** (Rogers, Roth, Ullman, Vadhan 2016; for fixed parameters Dwork et al. 2006). Let an analyst choose each
mechanism, with its (εᵢ, δᵢ), after seeing all earlier outputs, and stop before Σεᵢ > ε or Σδᵢ > δ. Then the whole
interaction is (ε, δ)-DP. *Hypothesis*: given any outputs so far, step i is (εᵢ, δᵢ)-DP, its randomness fresh; (εᵢ,
δᵢ) is a function of those outputs alone. *Proof.* Such a step is a post-processing of: with probability δᵢ reveal
everything, else randomized response with εᵢ (Kairouz, Oh, Viswanath 2015). The chance of a reveal is at most E Σδᵢ ≤
δ; without one the loss of the transcript is at most Σεᵢ ≤ ε. ∎

For pure steps no filter does better when the losses may all point the same way; for many small steps the Rényi filter
admits far more.

>>> from hush.accounting.events import ApproximateDPEvent
>>> account = PureFilter.open(epsilon=1)
>>> tenth = account.price(ApproximateDPEvent(epsilon="0.1", delta=0))
>>> for _ in range(10):
...     account = account.admit(tenth)
>>> account.remaining().epsilon
Fraction(0, 1)
>>> account.admit(tenth, owner="alice")
Traceback (most recent call last):
...
hush.core.errors.BudgetExceededError: needs ε=0.1 but 0 of alice's 1 remains; lower epsilon, or ask the owner for more
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hush.accounting.events import Event
from hush.accounting.filters.base import Filter
from hush.accounting.prices import pure_price
from hush.core import InvalidValueError, Number, nonnegative, probability


@dataclass(frozen=True, slots=True, kw_only=True)
class PureFilter(Filter):
    """Adds up ε, and the δ of approximate steps, in exact rationals."""

    kind: ClassVar[str] = "pure"
    takes_gaussian: ClassVar[bool] = False

    @classmethod
    def open(cls, *, epsilon: Number, delta: Number = 0) -> PureFilter:
        """Open an account of (ε, δ); with δ = 0 only pure steps fit."""
        slip = probability(delta, "delta")
        return cls(epsilon=nonnegative(epsilon, "epsilon"), delta=slip, reserve=slip)

    def _check(self) -> None:
        if self.epsilon == 0 and self.delta == 0:
            raise InvalidValueError("epsilon", got=0, allowed="positive where delta is zero", hint="Nothing would fit.")
        if self.reserve != self.delta or self.delta == 1:
            raise InvalidValueError("delta", got=self.delta, allowed="below 1, and all of it in reserve")

    @property
    def limit(self) -> Fraction:
        """The budget's ε."""
        return self.epsilon

    def _loss(self, event: Event) -> tuple[Fraction, Fraction]:
        return pure_price(event)

    def _at_most(self, loss: Fraction) -> Fraction:
        return loss  # a pure step's loss is its ε: exact, nothing to search for

    def _at_least(self, loss: Fraction) -> Fraction:
        return loss
