"""Which method answers: the exact closed form, the contour, the expansion, or the discretised law.

Each method offers certified ends of ln δ(ε) for the pairs of a composition in one direction; the infinite-loss mass is
added outside. Methods are tried from the cheapest, and the first whose width is within the goal is taken; else the best
upper end and the best lower end of all that were tried, for each is certified on its own.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from hush.accounting.balls import ball, down, flint, precision, up
from hush.accounting.contour import Contour, Lattice, LogInterval
from hush.accounting.cumulant import Cumulant
from hush.accounting.discretised import Discretised
from hush.accounting.expansion import Expansion
from hush.accounting.pairs import GaussianPair
from hush.accounting.pairs.gaussian import gaussian_profile
from hush.accounting.search import invert

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hush.accounting.balls import Ball
    from hush.accounting.description import Description

__all__ = ["Direction"]

GOAL = 1e-10
"""A relative width of ε or δ that ends the search for a better method."""
GOOD = 1e-7
"""A relative width that is not worth the cost of the last resort."""


class _Method(Protocol):
    def log_delta(self, epsilon: float) -> LogInterval: ...
    def epsilon(self, target: LogInterval) -> tuple[float, float]: ...


class Direction:
    """The pairs of a description, P against Q or the reverse."""

    def __init__(self, description: Description, *, reverse: bool, base: Direction | None = None) -> None:
        self.description = description
        self.reverse = reverse
        self.cumulant = Cumulant(description, reverse=reverse, base=base.cumulant if base else None)
        self._largest: float | None = None
        self._methods: list[_Method] = []
        self._left: Iterator[_Method] | None = None

    @property
    def largest(self) -> float:
        """The largest loss, rounded up; infinite where there is no bound."""
        if self._largest is None:
            with precision(96):
                total = flint().arb(0)
                for pair, count in self.description.pairs.items():
                    largest = pair.largest_loss(reverse=self.reverse)
                    if largest is None:
                        total = None
                        break
                    total += count * largest
                self._largest = math.inf if total is None else max(up(total), 0.0)
        return self._largest

    def methods(self) -> Iterator[_Method]:
        """Yield the methods that suit, the cheapest first, and remember them."""
        yield from self._methods
        if self._left is None:
            self._left = self._build()
        for method in self._left:
            self._methods.append(method)
            yield method

    def _build(self) -> Iterator[_Method]:
        pairs = self.description.pairs
        if pairs and all(isinstance(pair, GaussianPair) for pair in pairs):
            yield _Closed(self, gaussian=True)
            return
        if len(pairs) == 1 and next(iter(pairs.values())) == 1:
            yield _Closed(self, gaussian=False)
        lattice = _lattice(self.description)
        if lattice is not None:
            yield _ByContour(self, lattice)
        small = Expansion.suits(pairs)
        if small and lattice is None and sum(pairs.values()) <= 24:
            yield _ByExpansion(self)
        if lattice is None:
            yield _ByContour(self, None)
        if small and (lattice is not None or sum(pairs.values()) > 24):
            yield _ByExpansion(self)
        yield Discretised(self.cumulant, largest=self.largest)

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        best = LogInterval(lower=-math.inf, upper=0.0)
        if epsilon >= self.largest:
            return LogInterval(lower=-math.inf, upper=-math.inf)
        for method in self.methods():
            if isinstance(method, Discretised) and best.width <= GOOD:
                break
            found = method.log_delta(epsilon)
            best = LogInterval(lower=max(best.lower, found.lower), upper=min(best.upper, found.upper))
            if best.width <= GOAL:
                break
        return best

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of the smallest ε ≥ 0 with ln δ(ε) at most the target."""
        lower, upper = 0.0, self.largest
        if not self.description.pairs or target.lower >= 0:
            return 0.0, 0.0
        for method in self.methods():
            if isinstance(method, Discretised) and math.isfinite(upper) and upper - lower <= GOOD * upper:
                break
            found = method.epsilon(target)
            lower, upper = max(lower, found[0]), min(upper, found[1])
            if math.isfinite(upper) and upper - lower <= GOAL * upper:
                break
        return lower, upper


def _lattice(description: Description) -> Lattice | None:
    """Return the common lattice of all losses where there is one fine enough to walk over."""
    offset, span = Fraction(0), Fraction(0)
    for pair, count in description.pairs.items():
        found = pair.lattice()
        if found is None:
            return None
        offset += count * found[0]
        span = _common(span, found[1])
        if span.denominator.bit_length() > 512:
            return None
    return Lattice(offset=offset, span=span) if span else None


def _common(a: Fraction, b: Fraction) -> Fraction:
    """Return the greatest rational that divides both."""
    if not a:
        return b
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


class _Closed:
    """One pair, or Gaussians alone: the closed form in ball arithmetic."""

    def __init__(self, direction: Direction, *, gaussian: bool) -> None:
        self.direction = direction
        self.gaussian = gaussian

    def _value(self, epsilon: Ball) -> Ball:
        pairs = self.direction.description.pairs
        if self.gaussian:
            total = flint().arb(0)
            for pair, count in pairs.items():
                total += count * ball(pair.mu_squared)  # type: ignore[attr-defined]
            return gaussian_profile(total, epsilon)
        return next(iter(pairs)).profile(epsilon, reverse=self.direction.reverse)

    def log_delta(self, epsilon: float) -> LogInterval:
        bits = 128
        while True:
            with precision(bits):
                value = self._value(ball(epsilon))
                if value > 0 and value.rel_accuracy_bits() > 56:
                    log = value.log()
                    return LogInterval(lower=down(log), upper=up(log))
                if value.is_zero():
                    return LogInterval(lower=-math.inf, upper=-math.inf)
                if bits > 1 << 16:
                    top = value.abs_upper()
                    return LogInterval(lower=-math.inf, upper=min(0.0, up(top.log())) if top.is_finite() else 0.0)
            bits *= 4

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        guess, slope = _guess(self.direction, target)
        return invert(self.log_delta, target, guess=guess, slope=slope, largest=self.direction.largest)


def _guess(direction: Direction, target: LogInterval) -> tuple[float, float]:
    """Return about where ε lies and how steep ln δ is there, from the cumulant on the real axis."""
    fit = Contour(direction.cumulant, largest=direction.largest).guess(target.lower)
    return (1.0, 1.0) if fit is None else fit


class _ByContour:
    def __init__(self, direction: Direction, lattice: Lattice | None) -> None:
        self.contour = Contour(direction.cumulant, lattice=lattice, largest=direction.largest)
        self.largest = direction.largest

    def log_delta(self, epsilon: float) -> LogInterval:
        line = self.contour.fit_epsilon(epsilon)
        if line is None:
            return LogInterval(lower=-math.inf, upper=0.0)
        return self.contour.log_delta(line, epsilon)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        fit = self.contour.fit_delta(target.lower)
        if fit is None:
            return 0.0, math.inf
        line, guess = fit
        return invert(
            lambda x: self.contour.log_delta(line, x), target, guess=guess, slope=line.c, largest=self.largest
        )


class _ByExpansion:
    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.expansion = Expansion(direction.description.pairs)

    def log_delta(self, epsilon: float) -> LogInterval:
        return self.expansion.log_delta(epsilon)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        guess, slope = _guess(self.direction, target)
        return invert(self.log_delta, target, guess=guess, slope=slope, largest=self.direction.largest)
