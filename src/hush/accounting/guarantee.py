"""Guarantees (interim): Rényi conversion only."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from hush.accounting.balls import ball, precision, up
from hush.accounting.bound import Bound
from hush.accounting.conversion import renyi_delta, renyi_epsilon
from hush.accounting.cumulant import Cumulant
from hush.accounting.description import Description
from hush.accounting.events import Event
from hush.accounting.events.base import read_order
from hush.core import InvalidValueError, Number, integer, nonnegative, probability

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Guarantee", "compose"]


def _describe(item: object) -> Description:
    if isinstance(item, Guarantee):
        return item.description
    if isinstance(item, Event):
        return item.description()
    inner = getattr(item, "event", None)
    if isinstance(inner, Event):
        return inner.description()
    raise InvalidValueError("events", got=item, allowed="events, mechanisms with an .event, or guarantees")


def compose(events: Iterable[object]) -> Guarantee:
    """Return the guarantee of all of these together."""
    return Guarantee(Description.total((_describe(item), 1) for item in events))


class Guarantee:
    """What a composition of events guarantees."""

    def __init__(self, description: Description) -> None:
        self.description = description

    def epsilon(self, delta: Number) -> Bound:
        """Return the smallest ε at δ."""
        d = probability(delta, "delta")
        whole = self.description.adaptive()
        with precision(128):
            pure = up(whole.pure_epsilon())
            lost = whole.delta_infinite()
            if d == 0 or not ball(d) > lost:
                return Bound(lower=0.0, upper=pure)
            log = ((ball(d) - lost) / (1 - lost)).log()
            upper = min(pure, max(renyi_epsilon(whole, Cumulant(whole, reverse=r).real, log) for r in (False, True)))
        return Bound(lower=0.0, upper=upper)

    def delta(self, epsilon: Number) -> Bound:
        """Return the smallest δ at ε."""
        e = nonnegative(epsilon, "epsilon")
        whole = self.description.adaptive()
        with precision(128):
            lost = whole.delta_infinite()
            upper = max(
                up(1 - (1 - lost) * (1 - renyi_delta(whole, Cumulant(whole, reverse=r).real, e))) for r in (False, True)
            )
        return Bound(lower=0.0, upper=min(1.0, upper))

    def renyi(self, alpha: Number) -> float:
        """Return the Rényi divergence of order alpha, rounded up."""
        if alpha == math.inf:
            return self.pure_epsilon()
        with precision(96):
            return max(0.0, up(self.description.renyi(read_order(alpha))))

    def pure_epsilon(self) -> float:
        """Return the sum of the pure ε, rounded up."""
        with precision(96):
            return up(self.description.pure_epsilon())

    @property
    def delta_infinite(self) -> float:
        """The probability that some loss is infinite."""
        with precision(96):
            return min(1.0, up(self.description.delta_infinite()))

    def __add__(self, other: object) -> Guarantee:
        return Guarantee(self.description + _describe(other))

    def __mul__(self, count: int) -> Guarantee:
        return Guarantee(self.description * integer(count, "count", minimum=0))

    __rmul__ = __mul__
    __radd__ = __add__

    @property
    def _unused(self) -> Fraction:
        return Fraction(0)
