r"""A contour that is made to decay: the composition with a weak Gaussian step besides.

One more step never lowers δ, so the upper end is that of the larger composition N = L + Z, Z ~ N(μ²/2, μ²). It
multiplies |M(c+iu)| by e^{-(u²-c(c+1))μ²/2}; the smallest μ is taken that brings the tail down at the last node.

The lower end, like the upper one, is of second order in μ, by the reasoning of :mod:`.convolution`. Given L = ε + y,
the excess E[(1−e^{-y-Z})₊] − (1−e^{-y})₊ is at most E(|Z| − |y|)₊, with Z of mean ±μ²/2: for y < 0 since 1−e^{-x} ≤ x,
for y > 0 since under Q (where Z has mean −μ²/2) it is E(e^{-y}−e^Z)₊ ≤ E(−y−Z)₊. That is at most (0.4μ + μ²/2)·
e^{-(|y|−b)₊²/2μ²}, b = μ²/2; and for τ² = μ²/2, E[e^{-(N−ε)²/2τ²} | y] = 3^{-1/2}·e^{-(y+b)²/3μ²}, where
(|y|−b)₊²/2μ² − (|y|+b)²/3μ² ≥ −4b²/μ² = −μ². So δ_N − δ_L ≤ √3·(0.4μ + μ²/2)·e^{μ²}·E e^{-(N−ε)²/2τ²}, which the
same nodes give.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

from hush.accounting.description import Description
from hush.accounting.pairs import GaussianPair
from hush.accounting.profile.contour import WIDER, Contour, Line
from hush.accounting.profile.cumulant import Cumulant
from hush.accounting.profile.method import NOTHING_KNOWN, LogInterval, invert


class SmoothedContour:
    """The contour of the composition with one weak Gaussian step more."""

    last_resort: ClassVar[bool] = True

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        self.cumulant = cumulant
        self.largest = largest
        self._nodes = WIDER * cumulant.affordable()

    def _contour(self, c: float, epsilon: float, log_delta: float, plain: Contour) -> tuple[Contour, float] | None:
        short, top = plain.shortfall(c, epsilon, log_delta, self._nodes - 64)
        if not math.isfinite(short):
            return None
        mu_squared = Fraction(2 * max(short + 1, 1) / (top * top))
        pairs = {**self.cumulant.pairs}
        weak = GaussianPair(mu_squared=mu_squared)
        pairs[weak] = pairs.get(weak, 0) + 1
        larger = Cumulant(
            Description(pairs=pairs),
            reverse=self.cumulant.reverse,
            base=self.cumulant,
            added=Description.of(weak),
        )
        return Contour(larger, nodes=self._nodes), float(mu_squared)

    @staticmethod
    def _ends(contour: Contour, line: Line, epsilon: float, mu_squared: float) -> LogInterval:
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
        plain = Contour(self.cumulant, largest=self.largest)
        found = plain.saddle.at_epsilon(epsilon)
        made = None if found is None else self._contour(found[0], epsilon, found[1], plain)
        line = None if made is None else made[0].fit_epsilon(epsilon)
        if made is None or line is None:
            return NOTHING_KNOWN
        return self._ends(made[0], line, epsilon, made[1])

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        plain = Contour(self.cumulant, largest=self.largest)
        found = plain.saddle.at_delta(target.lower)
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
