"""The methods that are a few lines each: closed forms, the contour, the expansion, and two that change the composition.

Each offers certified ends of ln δ(ε), and of ε at a target, for the pairs of one direction (:mod:`.solve`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from hush.accounting.balls import ball, down, flint, precision, up
from hush.accounting.contour import Contour, Lattice, LogInterval
from hush.accounting.cumulant import Cumulant
from hush.accounting.description import Description
from hush.accounting.expansion import Expansion
from hush.accounting.pairs import GaussianPair
from hush.accounting.pairs.gaussian import gaussian_profile
from hush.accounting.saddle import Saddle
from hush.accounting.search import invert

if TYPE_CHECKING:
    from hush.accounting.balls import Ball
    from hush.accounting.solve import Direction

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
    fit = Saddle(direction.cumulant, largest=direction.largest).guess(target.lower)
    return (1.0, 1.0) if fit is None else fit


class ByContour:
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


class ByExpansion:
    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.expansion = Expansion(direction.description.pairs)

    def log_delta(self, epsilon: float) -> LogInterval:
        return self.expansion.log_delta(epsilon)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        guess, slope = _guess(self.direction, target)
        return invert(self.log_delta, target, guess=guess, slope=slope, largest=self.direction.largest)


def _less(contour: Contour, line: Any, epsilon: float, mu_squared: float, log_delta: float) -> float:
    """Return a lower end of ln δ(ε) from the smoothed curve a little further on."""
    reach = math.sqrt(2 * (7 - min(log_delta, 0.0)))
    shift = reach * math.sqrt(mu_squared) * (1 + 1e-9) + mu_squared
    value = contour.log_delta(line, epsilon + shift).lower
    spill = -0.5 * reach * reach
    return value + math.log1p(-math.exp(spill - value)) - 1e-13 * abs(value) if value > spill + 1e-9 else -math.inf


class Smoothed:
    r"""A contour that is made to decay: the composition with a weak Gaussian step besides.

    One more step never lowers δ, so the upper end is that of the larger composition. A Gaussian of parameter μ
    multiplies |M(c+iu)| by e^{-(u²-c(c+1))μ²/2}; the smallest μ is taken that brings the tail down at the last
    affordable node. It costs K an extra μ²z(z+1)/2, so ε about (c+1)μ²/2: with 2¹⁵ nodes some 1e-7 of ε or less.

    The lower end is of first order in μ: with Z ~ N(μ²/2, μ²) the extra loss, the larger composition has δ'(ε+s) =
    E δ(ε+s−Z) ≤ δ(ε) + P(Z > s), and P(Z > s) ≤ e^{-(s−μ²/2)²/2μ²}.
    """

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.excess = math.inf
        self._nodes = direction.cumulant.affordable() - 64

    def _contour(self, c: float, epsilon: float, log_delta: float, plain: Contour) -> tuple[Contour, float] | None:
        short, top = plain.shortfall(c, epsilon, log_delta, self._nodes)
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
        return Contour(larger), float(mu_squared)

    def log_delta(self, epsilon: float) -> LogInterval:
        self.excess = math.inf
        plain = Contour(self.direction.cumulant, largest=self.direction.largest)
        found = plain.saddle.saddle(epsilon)
        made = None if found is None else self._contour(found[0], epsilon, found[1], plain)
        line = None if made is None else made[0].fit_epsilon(epsilon)
        if made is None or line is None:
            return LogInterval(lower=-math.inf, upper=0.0)
        upper = made[0].log_delta(line, epsilon).upper
        self.excess = line.c * (line.c + 1) * made[1] / 2 if upper < 0 else math.inf
        return LogInterval(lower=_less(made[0], line, epsilon, made[1], upper), upper=upper)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        self.excess = math.inf
        plain = Contour(self.direction.cumulant, largest=self.direction.largest)
        found = plain.saddle.place(target.lower)
        made = None if found is None else self._contour(found[0], found[1], target.lower, plain)
        fit = None if made is None else made[0].fit_delta(target.lower)
        if made is None or fit is None:
            return 0.0, math.inf
        contour, (line, guess) = made[0], fit
        _, upper = invert(
            lambda x: contour.log_delta(line, x), target, guess=guess, slope=line.c, largest=math.inf, ends="upper"
        )
        self.excess = (line.c + 1) * made[1] / 2 / max(upper, 1e-300) if math.isfinite(upper) else math.inf
        if not math.isfinite(upper):
            return 0.0, upper
        lower, _ = invert(
            lambda x: LogInterval(
                lower=_less(contour, line, x, made[1], target.lower), upper=contour.log_delta(line, x).upper
            ),
            target,
            guess=upper,
            slope=line.c,
            largest=math.inf,
            ends="lower",
        )
        return lower, upper
