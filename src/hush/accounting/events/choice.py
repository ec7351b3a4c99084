"""Choosing an answer: randomized response, the exponential mechanism, permute-and-flip.

>>> RandomizedResponseEvent(epsilon=1, choices=4).pure_epsilon()
1.0
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hush.accounting.description import Description
from hush.accounting.events.base import Event, registered
from hush.accounting.pairs import BoundedRangePair, ResponsePair
from hush.core import InvalidValueError, Number, integer, nonnegative


def pure(epsilon: Fraction, *, others: int = 0) -> Description:
    """Return what is known of every ε-DP mechanism: it is dominated by randomized response."""
    if epsilon == 0:
        return Description()
    return Description.of(ResponsePair(epsilon=epsilon, others=others))


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RandomizedResponseEvent(Event):
    """The truth with probability e^ε/(e^ε+k−1), else one of the other of k = ``choices`` answers."""

    type: ClassVar[str] = "randomized_response"
    epsilon: Fraction
    choices: int

    def __init__(self, *, epsilon: Number, choices: int = 2) -> None:
        object.__setattr__(self, "epsilon", nonnegative(epsilon, "epsilon"))
        object.__setattr__(self, "choices", integer(choices, "choices", minimum=2, maximum=10**15))

    def description(self) -> Description:
        """Return the response pair: losses ±ε, and 0 for the answers that are neither's truth."""
        return pure(self.epsilon, others=self.choices - 2)

    def group(self, size: int) -> Event:
        """Return ``size``·ε by the triangle inequality: the answer may depend on the group in any way."""
        return RandomizedResponseEvent(epsilon=self.epsilon * integer(size, "size", minimum=1))


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BoundedRangeEvent(Event):
    """A mechanism whose log-ratios span a range of at most ``epsilon``.

    The exponential mechanism ∝ e^{ε·score/2Δ} is one, and ∝ e^{ε·score/Δ} where a unit moves all scores the same way.

    ``mode`` says whether the mechanism was fixed in advance. For k equal ones fixed in advance the exact optimum is
    known (Dong, Durfee, Rogers 2020). ``"adaptive"`` (the default) uses the dominating pair, which is valid for any
    use; the guarantee's ``zcdp()`` uses ε²/8, valid adaptively too. In a composition with other kinds of mechanism a
    non-adaptive one is treated as adaptive.
    """

    type: ClassVar[str] = "exponential_br"
    epsilon: Fraction
    mode: str

    def __init__(self, *, epsilon: Number, mode: str = "adaptive") -> None:
        object.__setattr__(self, "epsilon", nonnegative(epsilon, "epsilon"))
        if mode not in {"adaptive", "nonadaptive"}:
            raise InvalidValueError("mode", got=mode, allowed="'adaptive' or 'nonadaptive'")
        object.__setattr__(self, "mode", mode)

    def description(self) -> Description:
        """Return the bounded-range pair, or the range itself where it was fixed in advance."""
        if self.epsilon == 0:
            return Description()
        if self.mode == "nonadaptive":
            return Description(ranges={self.epsilon: 1})
        return Description.of(BoundedRangePair(epsilon=self.epsilon))

    def group(self, size: int) -> Event:
        """Return ``size``·ε: log-ratios along a chain of neighbours add, and so do their ranges."""
        return BoundedRangeEvent(epsilon=self.epsilon * integer(size, "size", minimum=1), mode=self.mode)


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PermuteAndFlipEvent(Event):
    """Permute-and-flip (McKenna, Sheldon 2020), known to be ε-DP and no more.

    It does not have range ε: with two candidates whose scores move from a tie to 2Δ apart, the log-ratios are −ε and
    ln(2 − e^{-ε}) > 0, a range above ε. So the bounded-range pair would be wrong, and pure ε is what is used.
    """

    type: ClassVar[str] = "permute_and_flip"
    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", nonnegative(epsilon, "epsilon"))

    def description(self) -> Description:
        """Return the randomized-response pair, which dominates every ε-DP mechanism."""
        return pure(self.epsilon)

    def group(self, size: int) -> Event:
        """Return ``size``·ε."""
        return PermuteAndFlipEvent(epsilon=self.epsilon * integer(size, "size", minimum=1))
