"""The methods that are a few lines each: closed forms, the contour, the expansion, and two that change the composition.

Each offers certified ends of ln δ(ε), and of ε at a target, for the pairs of one direction (:mod:`.solve`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from hush.accounting.contour import Contour, Lattice, LogInterval
from hush.accounting.cumulant import Cumulant
from hush.accounting.description import Description
from hush.accounting.expansion import Expansion
from hush.accounting.pairs import GaussianPair
from hush.accounting.pairs.gaussian import closed_profile
from hush.accounting.saddle import Saddle
from hush.accounting.search import invert
from hush.core.balls import ball, down, precision, up

if TYPE_CHECKING:
    from hush.accounting.solve import Direction
    from hush.core.balls import Ball

_WIDER = 8
"""How many times more nodes a line may have where fewer did not do."""

__all__ = ["ByContour", "ByExpansion", "Closed", "Method", "Smoothed"]


class Method(Protocol):
    """What every method offers."""

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        ...

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        ...


class Closed:
    """One pair, or Gaussians alone: the closed form in ball arithmetic."""

    def __init__(self, direction: Direction) -> None:
        self.direction = direction

    def _value(self, epsilon: Ball) -> Ball:
        return closed_profile(self.direction.description.pairs, epsilon, reverse=self.direction.reverse)

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
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
        """Return certified ends of ε at a target for ln δ."""
        guess, slope = _guess(self.direction, target)
        return invert(self.log_delta, target, guess=guess, slope=slope, largest=self.direction.largest)


def _guess(direction: Direction, target: LogInterval) -> tuple[float, float]:
    """Return about where ε lies and how steep ln δ is there, from the cumulant on the real axis."""
    fit = Saddle(direction.cumulant, largest=direction.largest).guess(target.lower)
    return (1.0, 1.0) if fit is None else fit


class ByContour:
    """The contour; ``wide`` with many more nodes than are worth it at first."""

    def __init__(self, direction: Direction, lattice: Lattice | None, *, wide: bool = False) -> None:
        self.wide = wide
        nodes = direction.cumulant.affordable() * (_WIDER if wide else 1)
        self.contour = Contour(direction.cumulant, lattice=lattice, largest=direction.largest, nodes=nodes)
        self.largest = direction.largest

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        line = self.contour.fit_epsilon(epsilon)
        if line is None:
            return LogInterval(lower=-math.inf, upper=0.0)
        return self.contour.log_delta(line, epsilon)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        fit = self.contour.fit_delta(target.lower)
        if fit is None:
            return 0.0, math.inf
        line, guess = fit
        return invert(
            lambda x: self.contour.log_delta(line, x), target, guess=guess, slope=line.c, largest=self.largest
        )


class ByExpansion:
    """The exact expansion."""

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.expansion = Expansion(direction.description.pairs)

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        return self.expansion.log_delta(epsilon)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        guess, slope = _guess(self.direction, target)
        return invert(self.log_delta, target, guess=guess, slope=slope, largest=self.direction.largest)


class Smoothed:
    r"""A contour that is made to decay: the composition with a weak Gaussian step besides.

    One more step never lowers δ, so the upper end is that of the larger composition N = L + Z, Z ~ N(μ²/2, μ²). It
    multiplies |M(c+iu)| by e^{-(u²-c(c+1))μ²/2}; the smallest μ is taken that brings the tail down at the last node.

    The lower end, like the upper one, is of second order in μ, by the reasoning of :mod:`.grid`. Given L = ε + y, the
    excess E[(1−e^{-y-Z})₊] − (1−e^{-y})₊ is at most E(|Z| − |y|)₊, with Z of mean ±μ²/2: for y < 0 since 1−e^{-x} ≤ x,
    for y > 0 since under Q (where Z has mean −μ²/2) it is E(e^{-y}−e^Z)₊ ≤ E(−y−Z)₊. That is at most (0.4μ + μ²/2)·
    e^{-(|y|−b)₊²/2μ²}, b = μ²/2; and for τ² = μ²/2, E[e^{-(N−ε)²/2τ²} | y] = 3^{-1/2}·e^{-(y+b)²/3μ²}, where
    (|y|−b)₊²/2μ² − (|y|+b)²/3μ² ≥ −4b²/μ² = −μ². So δ_N − δ_L ≤ √3·(0.4μ + μ²/2)·e^{μ²}·E e^{-(N−ε)²/2τ²}, which the
    same nodes give.
    """

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self._nodes = _WIDER * direction.cumulant.affordable()

    def _contour(self, c: float, epsilon: float, log_delta: float, plain: Contour) -> tuple[Contour, float] | None:
        short, top = plain.shortfall(c, epsilon, log_delta, self._nodes - 64)
        if not math.isfinite(short):
            return None
        mu_squared = Fraction(2 * max(short + 1, 1) / (top * top))
        pairs = {**self.direction.description.pairs}
        weak = GaussianPair(mu_squared=mu_squared)
        pairs[weak] = pairs.get(weak, 0) + 1
        larger = Cumulant(
            Description(pairs=pairs),
            reverse=self.direction.reverse,
            base=self.direction.cumulant,
            added=Description.of(weak),
        )
        return Contour(larger, nodes=self._nodes), float(mu_squared)

    @staticmethod
    def _ends(contour: Contour, line: Any, epsilon: float, mu_squared: float) -> LogInterval:
        """Return both ends of ln δ(ε) of the composition itself."""
        found = contour.log_delta(line, epsilon)
        if mu_squared > 1e-2 or not math.isfinite(found.lower):
            return LogInterval(lower=-math.inf, upper=found.upper)
        mu = math.sqrt(mu_squared)
        less = contour.log_density(line, epsilon, mu / math.sqrt(2) * (1 + 1e-15))
        less += math.log(math.sqrt(3) * (0.4 * mu + mu_squared / 2)) + mu_squared + 1e-12
        lower = found.lower + math.log1p(-math.exp(less - found.lower)) - 1e-15 if less < found.lower else -math.inf
        return LogInterval(lower=lower, upper=found.upper)

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        plain = Contour(self.direction.cumulant, largest=self.direction.largest)
        found = plain.saddle.saddle(epsilon)
        made = None if found is None else self._contour(found[0], epsilon, found[1], plain)
        line = None if made is None else made[0].fit_epsilon(epsilon)
        if made is None or line is None:
            return LogInterval(lower=-math.inf, upper=0.0)
        return self._ends(made[0], line, epsilon, made[1])

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        plain = Contour(self.direction.cumulant, largest=self.direction.largest)
        found = plain.saddle.place(target.lower)
        made = None if found is None else self._contour(found[0], found[1], target.lower, plain)
        fit = None if made is None else made[0].fit_delta(target.lower)
        if made is None or fit is None:
            return 0.0, math.inf
        (contour, mu_squared), (line, guess) = made, fit
        return invert(
            lambda x: self._ends(contour, line, x, mu_squared),
            target,
            guess=guess,
            slope=line.c,
            largest=math.inf,
        )
