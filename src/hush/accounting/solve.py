"""Which method answers: the exact closed form, the contour, the expansion, or the discretised law.

Each method offers certified ends of ln δ(ε) for the pairs of a composition in one direction; the infinite-loss mass is
added outside. Methods are tried from the cheapest, and the first whose width is within the goal is taken; else the best
upper end and the best lower end of all that were tried, for each is certified on its own.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from hush.accounting.atoms import Atoms
from hush.accounting.balls import ball, down, flint, precision, up
from hush.accounting.contour import LOG_TOLERANCE, Contour, Lattice, LogInterval
from hush.accounting.cumulant import Cumulant
from hush.accounting.description import Description
from hush.accounting.discretised import Discretised
from hush.accounting.expansion import Expansion
from hush.accounting.pairs import (
    BoundedRangePair,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    GaussianPair,
    LaplacePair,
    Pair,
    PoissonGaussianPair,
    ResponsePair,
)
from hush.accounting.pairs.gaussian import gaussian_profile
from hush.accounting.precise import Precise
from hush.accounting.sampled_step import SampledStep
from hush.accounting.search import invert
from hush.accounting.twofold import TwoFold
from hush.core import PrecisionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hush.accounting.balls import Ball

__all__ = ["Direction"]

_ON_LATTICES: set[type[Pair]] = {DiscreteGaussianPair, DiscreteLaplacePair, ResponsePair}
_CHEAP: set[type[Pair]] = {*_ON_LATTICES, BoundedRangePair, GaussianPair, LaplacePair}
"""Kinds whose cumulant costs the same at every node."""
GOAL = 1e-10
"""A relative width of ε or δ that ends the search for a better method."""
GOOD = 1e-7
"""A relative width that is not worth the cost of the last resort."""


class _Method(Protocol):
    def log_delta(self, epsilon: float) -> LogInterval: ...
    def epsilon(self, target: LogInterval) -> tuple[float, float]: ...


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
            self._largest = base._largest + _largest(added, reverse=reverse)  # noqa: SLF001
        self._methods: list[_Method] = []
        self._left: Iterator[_Method] | None = None

    @property
    def largest(self) -> float:
        """The largest loss, rounded up; infinite where there is no bound."""
        with precision(96):
            if self._largest is None:
                self._largest = _largest(self.description, reverse=self.reverse)
            return max(up(self._largest), 0.0)

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
        if set(map(type, pairs)) == {GaussianPair}:
            yield _Closed(self, gaussian=True)
            return
        if len(pairs) == 1 and next(iter(pairs.values())) == 1 and next(iter(pairs)).brief():
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
        if lattice is None and any(isinstance(pair, PoissonGaussianPair) for pair in pairs):
            yield _Relaxed(self, None, math.log(1e-9))
        if TwoFold.suits(pairs):
            yield TwoFold(self.cumulant, largest=self.largest)
        if SampledStep.suits(pairs):
            yield SampledStep(self.cumulant, largest=self.largest)
        if Atoms.suits(pairs):
            yield Atoms(self.cumulant, largest=self.largest)
        if set(map(type, pairs)) <= _CHEAP:
            yield _Smoothed(self)
        if _Without.suits(pairs):
            yield _Without(self)
        if Precise.suits(pairs):
            yield Precise(self.cumulant, largest=self.largest)
        yield Discretised(self.cumulant, largest=self.largest)

    def _good(self, *, relative: bool = False) -> float:
        """Return the width at which the last resort is spared: its cost grows with the number of different pairs.

        A ``relative`` width of δ is wider than that of ε by about εc, and rounding grows with the number of steps.
        """
        good = GOOD if len(self.description.pairs) <= 40 else 1e-4
        return max(good, 1e-6, 1e-11 * sum(self.description.pairs.values())) if relative else good

    def _close(self) -> bool:
        """Whether the smoothed contour's upper end, asked last, is within GOOD of the truth."""
        most = GOOD if len(self.description.pairs) <= 64 else 1e-3
        return any(isinstance(method, _Smoothed) and method.excess <= most for method in self._methods)

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        if epsilon >= self.largest:
            return LogInterval(lower=-math.inf, upper=-math.inf)
        # No loss is above the largest, so δ(ε) ≤ 1 − e^{ε−largest}; the difference of two floats rounds once.
        most = -math.expm1((epsilon - self.largest) * (1 + 1e-15))
        best = LogInterval(lower=-math.inf, upper=min(0.0, math.log(most) * (1 - 1e-15) + 1e-15) if most < 1 else 0.0)
        for method in self.methods():
            last = isinstance(method, _LATE)
            if last and (best.width <= self._good(relative=True) or self._close()):
                break
            found = method.log_delta(epsilon)
            best = LogInterval(lower=max(best.lower, found.lower), upper=min(best.upper, found.upper))
            if best.lower > best.upper + 1e-9:
                raise PrecisionError(f"The bounds on δ at ε={epsilon:.6g} contradict each other; please report this.")
            if best.lower > best.upper:  # by a rounding: the wider reading holds
                best = LogInterval(lower=best.upper, upper=best.lower)
            if best.width <= GOAL:
                break
        return best

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of the smallest ε ≥ 0 with ln δ(ε) at most the target."""
        lower, upper = 0.0, self.largest
        if not self.description.pairs or target.lower >= 0:
            return 0.0, 0.0
        for method in self.methods():
            spared = upper - lower <= self._good() * upper or self._close()
            if isinstance(method, _LATE) and math.isfinite(upper) and spared:
                break
            found = method.epsilon(target)
            lower, upper = max(lower, found[0]), min(upper, found[1])
            if math.isfinite(upper) and upper - lower <= GOAL * upper:
                break
        return lower, upper


def _largest(description: Description, *, reverse: bool) -> Ball:
    """Return the sum of the largest losses, infinite where one has no bound."""
    total = flint().arb(0)
    for pair, count in description.pairs.items():
        largest = pair.largest_loss(reverse=reverse)
        if largest is None:
            return flint().arb.pos_inf()
        total += count * largest
    return total


def _lattice(description: Description) -> Lattice | None:
    """Return the common lattice of all losses where there is one fine enough to walk over."""
    if not set(map(type, description.pairs)) <= _ON_LATTICES:
        return None
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
    def __init__(self, direction: Direction, lattice: Lattice | None, tolerance: float = LOG_TOLERANCE) -> None:
        self.contour = Contour(direction.cumulant, lattice=lattice, largest=direction.largest, tolerance=tolerance)
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


class _Relaxed(_ByContour):
    """One sampled Gaussian's moments fall slowly along the line, and are dear far up: aim lower."""


class _ByExpansion:
    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.expansion = Expansion(direction.description.pairs)

    def log_delta(self, epsilon: float) -> LogInterval:
        return self.expansion.log_delta(epsilon)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        guess, slope = _guess(self.direction, target)
        return invert(self.log_delta, target, guess=guess, slope=slope, largest=self.direction.largest)


class _Without:
    """A lower end from the composition without its Gaussian steps: leaving a step out never raises δ.

    Next to atoms, a Gaussian too weak for the contour moves δ by no more than about its μ.
    """

    def __init__(self, direction: Direction) -> None:
        rest = {
            pair: count for pair, count in direction.description.pairs.items() if not isinstance(pair, GaussianPair)
        }
        self.rest = Direction(Description(pairs=rest), reverse=direction.reverse)

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        rest = {pair: count for pair, count in pairs.items() if not isinstance(pair, GaussianPair)}
        return 0 < len(rest) < len(pairs) and (Expansion.suits(rest) or Atoms.suits(rest))

    def log_delta(self, epsilon: float) -> LogInterval:
        return LogInterval(lower=self.rest.log_delta(epsilon).lower, upper=0.0)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        return self.rest.epsilon(target)[0], math.inf


def _less(contour: Contour, line: Any, epsilon: float, mu_squared: float, log_delta: float) -> float:
    """Return a lower end of ln δ(ε) from the smoothed curve a little further on."""
    reach = math.sqrt(2 * (7 - min(log_delta, 0.0)))
    shift = reach * math.sqrt(mu_squared) * (1 + 1e-9) + mu_squared
    value = contour.log_delta(line, epsilon + shift).lower
    spill = -0.5 * reach * reach
    return value + math.log1p(-math.exp(spill - value)) - 1e-13 * abs(value) if value > spill + 1e-9 else -math.inf


class _Smoothed:
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

    def _contour(self, at: int, epsilon: float, log_delta: float, plain: Contour) -> tuple[Contour, float] | None:
        short, top = plain.shortfall(at, epsilon, log_delta, self._nodes)
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
        found = plain.saddle(epsilon)
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
        found = plain.place(target.lower)
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


_LATE = (_Relaxed, Discretised, Precise, SampledStep, TwoFold)
"""Methods that are spared where what is known is good."""
