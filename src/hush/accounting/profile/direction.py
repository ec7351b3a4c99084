"""The choice of a method: the closed form, the contour, the expansion, or the grid.

Each method offers certified ends of ln δ(ε) for the pairs of a composition in one direction; the infinite-loss mass is
added outside. Methods are tried from the cheapest until the width is within the goal; the answer is the best upper end
and the best lower end of all methods tried, for each is certified on its own.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

from hush.accounting.description import Description
from hush.accounting.profile.closed_forms import ClosedForm, Expansion, RangeOptimum
from hush.accounting.profile.contour import Contour, Lattice, SmoothedContour
from hush.accounting.profile.convolution import Convolution
from hush.accounting.profile.cumulant import Cumulant, SaddlePoint
from hush.accounting.profile.lattices import common_measure
from hush.accounting.profile.method import LogInterval, Method
from hush.accounting.profile.tail_bounds import TailBounds
from hush.core import PrecisionError
from hush.core.rounding import Ball, precision, up

_MAX_WIDE_PAIRS = 200
"""The largest number of different pairs for the methods with very many nodes."""
_MAX_EXPANSION_STEPS = 24
"""The number of steps up to which the expansion is quicker than the contour."""
_TARGET_WIDTH = 1e-10
"""The relative width of ε or δ that ends the search for a better method."""
_ACCEPTED_WIDTH = 2e-7
"""The relative width at which the last resorts are not worth their cost."""
_LOG_SMALLEST_DELTA = -760.0
"""A δ below e^{-745} is no float: nothing is gained by knowing it better."""


class Direction:
    """The pairs of a description, P against Q or the reverse."""

    def __init__(
        self,
        description: Description,
        *,
        reverse: bool,
        base: Direction | None = None,
        added: Description | None = None,
    ) -> None:
        self.description = description
        self.reverse = reverse
        self.cumulant: Cumulant = Cumulant(
            description, reverse=reverse, base=None if base is None else base.cumulant, added=added
        )
        self._largest: Ball | None = None
        if base is not None and added is not None and base._largest is not None:  # noqa: SLF001 - of its own kind
            self._largest = base._largest + added.largest_loss(reverse=reverse)  # noqa: SLF001

    @property
    def largest(self) -> float:
        """The largest loss, rounded up; infinite where there is no bound."""
        with precision(96):
            if self._largest is None:
                self._largest = self.description.largest_loss(reverse=self.reverse)
            return max(up(self._largest), 0.0)

    @cached_property
    def methods(self) -> list[Method]:
        """The methods that suit, the cheapest first; :mod:`hush.accounting.profile` says why in this order."""
        pairs, cumulant, largest = self.description.pairs, self.cumulant, self.largest
        if all(pair.gaussian() is not None for pair in pairs):
            return [ClosedForm(cumulant, largest=largest)]
        if RangeOptimum.suits(pairs):
            return [RangeOptimum(cumulant, largest=largest)]
        lattice = _lattice(self.description)
        expansion: list[Method] = [Expansion(cumulant, largest=largest)] if Expansion.suits(pairs) else []
        expand_first = lattice is None and sum(pairs.values()) <= _MAX_EXPANSION_STEPS
        convolves = Convolution.suits(pairs)
        methods: list[Method] = [ClosedForm(cumulant, largest=largest)] if ClosedForm.suits(pairs) else []
        if expand_first:
            methods += expansion
        methods += [Contour(cumulant, largest=largest, lattice=lattice), TailBounds(cumulant, largest=largest)]
        if not expand_first:
            methods += expansion
        if convolves:
            methods += [Convolution(cumulant, largest=largest, deep=deep) for deep in (False, True)]
        # The last resorts ask for so many nodes that a sampled pair's cumulant would cost more than its convolution.
        if len(pairs) <= _MAX_WIDE_PAIRS and not (convolves and any(pair.sampled for pair in pairs)):
            methods.append(SmoothedContour(cumulant, largest=largest))
        return methods

    def likely_delta(self, epsilon: float) -> float:
        """Return an estimate of ln δ(ε)."""
        if epsilon >= self.largest:
            return -math.inf
        saddle = SaddlePoint(self.cumulant, largest=self.largest).at_epsilon(epsilon)
        return -math.inf if saddle is None else saddle[1]

    def likely_epsilon(self, log_delta: float) -> float:
        """Return an estimate of ε at this ln δ."""
        saddle = SaddlePoint(self.cumulant, largest=self.largest).at_delta(log_delta)
        return self.largest if saddle is None else min(saddle[1], self.largest)

    def log_delta(self, epsilon: float, *, floor: float = -math.inf) -> LogInterval:
        """Return certified ends of ln δ(ε); the search ends early once ln δ is known to be below ``floor``."""
        if epsilon >= self.largest:
            return LogInterval(lower=-math.inf, upper=-math.inf)
        # No loss is above the largest, so δ(ε) ≤ 1 − e^{ε−largest}; the difference of two floats rounds once.
        largest_delta = -math.expm1((epsilon - self.largest) * (1 + 1e-15))
        upper = min(0.0, math.log(largest_delta) * (1 - 1e-15) + 1e-15) if largest_delta < 1 else 0.0
        best = LogInterval(lower=-math.inf, upper=upper)
        for method in self.methods:
            if best.width <= _ACCEPTED_WIDTH and method.last_resort:
                break
            # The ends of every method hold, so the narrowest of all holds.
            ends = method.log_delta(epsilon)
            best = LogInterval(lower=max(best.lower, ends.lower), upper=min(best.upper, ends.upper))
            if best.lower > best.upper + 1e-9:
                raise PrecisionError(f"The bounds on δ at ε={epsilon:.6g} contradict each other; please report this.")
            if best.lower > best.upper:  # by a rounding: the wider reading holds
                best = LogInterval(lower=best.upper, upper=best.lower)
            if best.width <= _TARGET_WIDTH or best.upper < max(_LOG_SMALLEST_DELTA, floor):
                break
        return best

    def epsilon(self, target: LogInterval, *, floor: float = -1.0) -> tuple[float, float]:
        """Return certified ends of the smallest ε ≥ 0 with ln δ(ε) at most the target.

        The search ends early once ε is known to be at most ``floor``.
        """
        lower, upper = 0.0, self.largest
        if not self.description.pairs or target.lower >= 0:
            return 0.0, 0.0
        if upper <= floor:
            return lower, upper
        for method in self.methods:
            if math.isfinite(upper) and upper - lower <= _ACCEPTED_WIDTH * upper and method.last_resort:
                break
            low, high = method.epsilon(target)
            lower, upper = max(lower, low), min(upper, high)
            if upper <= floor or (math.isfinite(upper) and upper - lower <= _TARGET_WIDTH * upper):
                break
        return lower, upper


def _lattice(description: Description) -> Lattice | None:
    """Return the common lattice of all losses where there is one fine enough to walk over."""
    offset, span = Fraction(0), Fraction(0)
    for pair, count in description.pairs.items():
        lattice = pair.lattice()
        if lattice is None:
            return None
        offset += count * lattice[0]
        span = common_measure(span, lattice[1])
        if span.denominator.bit_length() > 512:  # spans without a useful common measure
            return None
    return Lattice(offset=offset, span=span) if span else None
