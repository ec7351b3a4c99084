"""Local reports that went through a shuffler.

The event is charged as an (ε, δ) black box: ε is what the certified curve of the shuffle gives at the event's own δ.

>>> event = ShuffledEvent(local_epsilon=2, reports=10_000, delta="1e-9")
>>> event.to_json()["reports"]
10000
>>> round(event.epsilon, 4)
0.1598
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hush.accounting.description import Description
from hush.accounting.events.base import Event, registered
from hush.accounting.events.blackbox import black_box
from hush.accounting.pairs.shuffle import read_shuffle, shuffled_epsilon
from hush.core import Number, fraction_between

__all__ = ["ShuffledEvent"]


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShuffledEvent(Event):
    """``reports`` reports of any ``local_epsilon``-local randomiser, shuffled; charged at this ``delta``."""

    type: ClassVar[str] = "shuffled"
    local_epsilon: Fraction
    reports: int
    delta: Fraction

    def __init__(self, *, local_epsilon: Number, reports: int, delta: Number) -> None:
        local, count = read_shuffle(local_epsilon, reports)
        object.__setattr__(self, "local_epsilon", local)
        object.__setattr__(self, "reports", count)
        object.__setattr__(self, "delta", fraction_between(delta, "delta"))

    @property
    def epsilon(self) -> float:
        """The ε, rounded up, at the event's δ (Feldman, McMillan, Talwar 2023)."""
        return shuffled_epsilon(self.local_epsilon, reports=self.reports, delta=self.delta).upper

    def description(self) -> Description:
        """Return the pair that dominates every (ε, δ)-DP mechanism."""
        return black_box(Fraction(self.epsilon), self.delta)
