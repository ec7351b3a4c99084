"""Reports through a shuffler: a little noise each, and strong privacy together.

If somebody who does not look inside removes the names of n reports and mixes them, each person hides among the others.
`shuffled` says how much that gives, certified from both sides: for any local randomiser by the stronger clone bound
(Feldman, McMillan, Talwar 2023), and for binary randomized response of at most 20,000 reports exactly.

>>> from hush import local
>>> reports: local.Shuffled = local.shuffled(local.frequency(epsilon=4, categories=50).event, reports=10**5)
>>> round(reports.epsilon(delta="1e-6"), 3)
0.118
>>> reports.event(delta="1e-6")
ShuffledEvent(local_epsilon=4, reports=100000, delta=1/1000000)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hush.accounting import Event
from hush.accounting.events.mechanisms import RandomizedResponseEvent, ShuffledEvent
from hush.accounting.pairs.shuffle import (
    LARGEST_EPSILON,
    LEAST_REPORTS,
    MOST_REPORTS,
    shuffled_delta,
    shuffled_epsilon,
    shuffled_response_epsilon,
)
from hush.core import InvalidValueError, Number, integer
from hush.core.rounding import Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """The privacy of shuffled reports."""

    local_epsilon: Fraction
    reports: int
    binary: bool
    """Whether every report is binary randomized response, for which an exact bound is known."""

    def epsilon(self, delta: Number) -> Bound:
        """Return the ε at which the shuffled reports are (ε, ``delta``)-DP when one person's answer is replaced."""
        general = shuffled_epsilon(self.local_epsilon, reports=self.reports, delta=delta)
        if self.binary and LEAST_REPORTS <= self.reports <= MOST_REPORTS and self.local_epsilon <= LARGEST_EPSILON:
            exact = shuffled_response_epsilon(self.local_epsilon, reports=self.reports, delta=delta)
            # Both are upper bounds of the same ε, so the smaller one holds.
            return exact if exact.upper < general.upper else general
        return general

    def delta(self, epsilon: Number) -> Bound:
        """Return the δ at which the shuffled reports are (``epsilon``, δ)-DP when one person's answer is replaced."""
        return shuffled_delta(self.local_epsilon, reports=self.reports, epsilon=epsilon)

    def event(self, delta: Number) -> ShuffledEvent:
        """Return the privacy event, for an accountant or a ledger."""
        return ShuffledEvent(local_epsilon=self.local_epsilon, reports=self.reports, delta=delta)


def shuffled(event: Event, *, reports: int) -> Shuffled:
    """Return the privacy of ``reports`` shuffled reports, each made by a local mechanism of this ``event``."""
    pure = event.pure_epsilon() if isinstance(event, Event) else math.inf
    if not 0 < pure < math.inf:
        raise InvalidValueError(
            "event", got=event, allowed="the event of a pure local mechanism", hint="local.frequency(…).event is one."
        )
    # The exact bound is about the number of ones, which is all that shuffled binary reports show.
    binary = isinstance(event, RandomizedResponseEvent) and event.choices == 2
    declared = getattr(event, "epsilon", None)
    # `pure` is a float that was rounded up; the declared ε is the same number without that rounding.
    exact = declared if isinstance(declared, Fraction) and declared <= Fraction(pure) else Fraction(pure)
    return Shuffled(local_epsilon=exact, reports=integer(reports, "reports", minimum=1), binary=binary)
