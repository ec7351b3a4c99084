"""δ(ε) as a contour integral, with certified ends (THEORY, item 10).

For a composition with cumulant K, and any c > 0,

    δ(ε) = (1/2π) ∫ e^{K(z) − zε} k(z) du,   z = c + iu,

where k(z) = 1/(z(z+1)) is the Laplace transform of (1−e^{-x})₊ and u runs over the line; or, where every loss lies on
a lattice of span d with the first point above ε at ε + g, u runs over one period |u| ≤ π/d and

    k(z) = d·Σ_{n≥0} e^{-z(g+nd)}(1−e^{-(g+nd)}) = d·e^{-zg}·[A + B·e^{-zd}] / ((1−e^{-zd})(1−e^{-(z+1)d})),

A = 1−e^{-g}, B = e^{-g}−e^{-d}, both non-negative: no cancellation on the real axis.

**Trapezoid rule.** With step h = 2π/P (on a lattice P is a multiple of d), Poisson summation gives the rule's value
exactly: T = Σ_m δ(ε+mP)·e^{cmP}. Every term is non-negative, so **T ≥ δ(ε)**: the rule itself is an upper bound. For
the lower end, the terms m < 0 are at most e^{-cP}/(1−e^{-cP}) since δ ≤ 1, and those with m > 0 at most
κ(c')·e^{K(c')−c'ε−(c'−c)P}/(1−e^{-(c'-c)P}) for any c' > c, since δ(x) ≤ κ(c')e^{K(c')−c'x} (:mod:`.tail_bounds`);
they vanish where ε + P exceeds the largest loss.

**Cut.** Leaving out |u| ≥ U = (J+1)h costs at most sup_{u≥U}|M(c+iu)|·e^{-cε}/(π·Jh), because Σ_{j>J} h/(jh)² ≤ 1/(Jh);
on a lattice the period is finite, |k| falls on it, and (1/π)(π/d − U + h)·sup|M|·|k(U)| bounds the rest.

**Rounding.** K̂ comes with a bound R: each term carries a relative error of at most e^R − 1, a few units for the
exponent's size, and the pairwise sum adds less than 32 units of the sum of moduli.

c (:mod:`.cumulant`) and P are taken from fixed geometric grids, so that compositions that differ by an event share
their nodes.

**A contour that is made to decay: the composition with a weak Gaussian step besides.**

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
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from hush.accounting.description import Description
from hush.accounting.pairs.base import UNIT, Complexes, Floats, expm1
from hush.accounting.pairs.gaussian import GaussianPair
from hush.accounting.profile.cumulant import COARSE, LOG_TOLERANCE, Cumulant, SaddlePoint, log_kappa
from hush.accounting.profile.method import NOTHING_KNOWN, FittedMethod, LogInterval

_MAX_CUT_NODES = 1 << 15
"""The number of nodes up to which a cut of the period is looked for; beyond, the whole period is taken."""
_MAX_HALF_PERIOD_NODES = 1 << 21
_WIDER = 8
"""The factor of further nodes for a line that is made to decay."""
_LOG_LARGEST_TAIL_SHARE = math.log(0.3)
"""The logarithm of the largest share of δ that the cut-off tail may take: beyond, the line is of no use."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """All losses of a composition lie in ``offset`` + ``span``·ℤ, exactly."""

    offset: Fraction
    span: Fraction

    def gap(self, epsilon: Fraction) -> Fraction:
        """Return the distance from ε to the first lattice point above it, in (0, span]."""
        steps = (epsilon - self.offset) / self.span
        return self.span * (math.floor(steps) + 1 - steps)


@dataclass(slots=True)
class Line:
    """Nodes c + ijh, j = 0..J, with K, its error R, and a bound of the tail beyond them."""

    c: float
    period: float
    z: Complexes
    k: Complexes
    r: Floats
    log_tail: float


class Contour(FittedMethod):
    """The integral on a line of at most ``nodes`` nodes, or on a period of the losses' common ``lattice``.

    Without a number of nodes it takes what the composition affords.
    """

    def __init__(
        self, cumulant: Cumulant, *, largest: float, lattice: Lattice | None = None, nodes: int | None = None
    ) -> None:
        super().__init__(cumulant, largest=largest)
        self.nodes = cumulant.affordable() if nodes is None else nodes
        self.lattice = lattice

    @cached_property
    def saddle(self) -> SaddlePoint:
        """The choice of c; on a lattice, c·d = 60 leaves only the nearest point in the sum."""
        last = math.inf if self.lattice is None else 60 / float(self.lattice.span)
        return SaddlePoint(self.cumulant, largest=self.largest, last=last)

    def fitted(self, c: float, epsilon: float, log_delta: float) -> Callable[[float], LogInterval] | None:
        line = self.line(c, epsilon, log_delta)
        return None if line is None else partial(self.ends, line)

    def line(self, c: float, epsilon: float, log_delta: float) -> Line | None:
        """Return the line for the abscissa c: P and J make every error about 1e-15 of δ where the nodes allow it."""
        goal = log_delta + LOG_TOLERANCE
        period = self.saddle.period(c, epsilon, log_delta)
        if self.lattice is not None:
            return self._circle(c, epsilon, period, log_delta)
        # Rounded up on a geometric grid, four to an octave, so that like compositions share their nodes.
        period = 2.0 ** (math.ceil(4 * math.log2(period)) / 4)
        h = 2 * math.pi / period
        # The cut: double U until the bound on the tail is small enough; give up where the nodes run out.
        offset = c * epsilon + goal
        allowed = self.nodes
        farthest = allowed * h

        def excess(top: float) -> float:
            return self.cumulant.log_tail(c, top, math.inf) - math.log(math.pi * top) - offset

        if excess(farthest) > -LOG_TOLERANCE + _LOG_LARGEST_TAIL_SHARE:
            return None
        nodes = 16
        while nodes < allowed and excess(nodes * h) > 0:
            nodes *= 2
        nodes = min(nodes, allowed)
        # Doubling may overshoot by half: a few smaller counts are tried.
        for share in (0.6, 0.75, 0.875):
            fewer = int(nodes * share)
            if nodes > 16 and excess(fewer * h) <= 0:
                nodes = fewer
                break
        key = (c, period, nodes)
        z = c + 1j * h * np.arange(nodes)
        k, r = self.cumulant.line(key, lambda: z)
        tail = self.cumulant.log_tail(c, nodes * h, math.inf) - math.log(math.pi * (nodes - 1) * h)
        return Line(c, period, z, k, r, tail)

    def _circle(self, c: float, epsilon: float, period: float, log_delta: float) -> Line | None:
        assert self.lattice is not None  # noqa: S101 - for the type checker
        span = float(self.lattice.span)
        # P is ``count`` spans. Rounded up on a geometric grid, so that like compositions share their nodes.
        count = max(3, math.ceil(period / span) + 1)
        if count > 64:
            count = math.ceil(2.0 ** (math.ceil(4 * math.log2(count)) / 4))
        count |= 1  # odd, so that no node is its own conjugate
        period = count * span
        h = 2 * math.pi / period
        half = (count - 1) // 2
        offset = c * epsilon + log_delta + LOG_TOLERANCE
        edge = math.pi / span

        def beyond(nodes: int) -> float:
            low = nodes * h
            bound = math.log(self._kernel_bound(c, low) * (edge - low + h) / math.pi)
            return self.cumulant.log_tail(c, low, edge) + bound

        # Stop early where the moment has fallen far enough; else take the whole period, without a cut.
        nodes = 32
        while nodes < half and nodes <= _MAX_CUT_NODES and beyond(nodes) > offset:
            nodes *= 2
        full = nodes >= half or nodes > _MAX_CUT_NODES
        if full:
            if half > _MAX_HALF_PERIOD_NODES or half > 8 * self.cumulant.affordable():
                return None
            nodes = half + 1
        z = c + 1j * h * np.arange(nodes)
        k, r = self.cumulant.line((c, period, nodes), lambda: z)
        tail = -math.inf if full else beyond(nodes)
        return Line(c, period, z, k, r, tail)

    def _kernel_bound(self, c: float, low: float) -> float:
        """Bound |k(z)| on [low, π/d] for any gap: (A+B)/(…) with A + B ≤ 1 − e^{-d}, and both factors grow with u."""
        assert self.lattice is not None  # noqa: S101 - for the type checker
        d = float(self.lattice.span)

        def away(x: float) -> float:
            shrink = math.exp(-min(x * d, 700.0))
            return math.sqrt(
                math.expm1(-min(x * d, 700.0)) ** 2 + 4 * shrink * math.sin(min(low * d / 2, math.pi / 2)) ** 2
            )

        return d * -math.expm1(-d) / (away(c) * away(c + 1)) * (1 + 1e-12) + 1e-300

    # -- the sum --------------------------------------------------------------------------------------------------

    def _kernel(self, z: Complexes, epsilon: Fraction) -> tuple[Complexes, Floats]:
        """Return k(z) and the relative error of its computation, in units."""
        if self.lattice is None:
            return 1 / (z * (z + 1)), np.full(z.shape, 16.0)
        d = float(self.lattice.span)
        gap = self.lattice.gap(epsilon)
        # The gaps are subtracted as rationals, so that neither loses its digits next to a lattice point.
        g, gap_below = float(gap), float(self.lattice.span - gap)
        a, b = -math.expm1(-g), -math.exp(-g) * math.expm1(-gap_below)
        turn = np.exp(-z * d)
        top = a + b * turn
        first, second = -expm1(-z * d), -expm1(-(z + 1) * d)
        value = d * np.exp(-z * g) * top / (first * second)
        size = np.abs(z + 1) * d
        units = 64 + 16 * size + (a + b * np.abs(turn) * (1 + size)) * 16 / np.maximum(np.abs(top), 1e-300)
        return value, units + 16 * size * (1 / np.abs(first) + 1 / np.abs(second))

    def log_density(self, line: Line, epsilon: float, tau: float) -> float:
        """Return an upper end of ln E e^{-(L−ε)²/2τ²}.

        The kernel τ√(2π)·e^{z²τ²/2} takes the place of k(z). The aliases are positive here too, so the rule is above
        the truth, and the cut falls at least as fast.
        """
        z, c = line.z, line.c
        exponent = line.k - z * epsilon + 0.5 * (tau * z) ** 2
        peak = float(exponent[0].real)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            size = np.exp(exponent.real - peak + line.r) * (2 + 64 * UNIT * (np.abs(z) * epsilon + np.abs(exponent)))
        total = float(size.sum()) * tau / math.sqrt(2 * math.pi) * 2 * math.pi / line.period
        # Beyond U: |M| as in the other kernel's bound, times πU·(its share), and ∫_U e^{-τ²u²/2}du ≤ 1/(τ²U).
        top = float(z[-1].imag)
        tail = line.log_tail + math.log(math.pi * top) - c * epsilon + 0.5 * tau * tau * (c * c - top * top)
        tail += math.log(2 * tau / math.sqrt(2 * math.pi) * (1 / (tau * tau * top) + 2 * math.pi / line.period))
        if not (math.isfinite(total) and total > 0):
            return math.inf
        return float(np.logaddexp(peak + math.log(total), tail)) + 1e-9

    def ends(self, line: Line, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε) from the nodes of a line."""
        z, c = line.z, line.c
        step = 2 * math.pi / line.period
        kernel, units = self._kernel(z, Fraction(epsilon))
        exponent = line.k - z * epsilon
        peak = float(exponent[0].real)
        # Nodes off the real axis stand for their conjugates too.
        weights = np.full(z.shape, 2.0)
        weights[0] = 1.0
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            terms = np.exp(exponent - peak) * kernel * weights
            size = np.abs(terms)
            # A node that is lost in its error (R large) counts with its whole bound e^{K̂+R}; a node without a bound
            # (R infinite) makes the sum infinite, and the answer trivial.
            rounding_errors = size * np.expm1(np.minimum(line.r, 1.0))
            lost = np.exp(exponent.real - peak + line.r) * np.abs(kernel) * weights
            relative = UNIT * (units + 16 * np.abs(z) * epsilon + 8 * np.abs(exponent) + 8 * abs(peak))
            rounding = float(np.where(line.r <= 1.0, rounding_errors, lost + size).sum()) * (1 + 1e-9)
            rounding += float((size * relative).sum()) + 64 * UNIT * float(size.sum())
        total = float(terms.real.sum())
        if not (math.isfinite(total) and math.isfinite(rounding)):
            return NOTHING_KNOWN
        scale = step / (2 * math.pi)
        tail = math.exp(min(line.log_tail - c * epsilon - peak, 700.0)) if line.log_tail > -math.inf else 0.0
        margin = scale * rounding * (1 + 1e-6) + tail * (1 + 1e-12)
        value = scale * total
        slack = 8 * UNIT * (abs(peak) + 1)
        upper = value + margin  # the aliases are positive, so the upper end needs no allowance for them
        # Each alias in logarithms, relative to e^{peak}.
        backward = -c * line.period - peak
        alias = math.exp(min(backward, 700.0)) / max(-math.expm1(-c * line.period), 1e-300)
        if epsilon + line.period <= self.largest:
            alias += self._forward(c, line.period, epsilon, peak)
        lower = value - margin - alias * (1 + 1e-9)
        return LogInterval(
            lower=peak + math.log(lower) - slack if lower > 0 else -math.inf,
            upper=min(peak + math.log(upper) + slack, 0.0) if upper > 0 else math.inf,
        )

    def _forward(self, c: float, period: float, epsilon: float, peak: float) -> float:
        """Return the bound on the aliases m > 0, relative to e^{peak}: the best c' of a few next to c and the grid."""
        close, k, r = self.saddle.ahead(c)
        first = int(np.searchsorted(COARSE, c * 1.01))
        beyond = np.concatenate([close, COARSE[first:]])
        values = np.concatenate([k, self.saddle.coarse[first:]])
        with np.errstate(all="ignore"):
            error = np.concatenate([r, self.saddle.coarse_error[first:]])
            error = error + UNIT * 64 * (np.abs(values) + beyond * (epsilon + period))
            logs = values + error - beyond * epsilon + log_kappa(beyond) - (beyond - c) * period - peak
            logs = logs - np.log(-np.expm1(-(beyond - c) * period))
        logs = logs[np.isfinite(logs)]
        return math.exp(min(float(logs.min()), 700.0)) if logs.size else math.inf


class SmoothedContour(FittedMethod):
    """The contour of the composition with one weak Gaussian step added."""

    last_resort = True

    def fitted(self, c: float, epsilon: float, log_delta: float) -> Callable[[float], LogInterval] | None:
        nodes = _WIDER * self.cumulant.affordable()
        top = (nodes - 64) * 2 * math.pi / self.saddle.period(c, epsilon, log_delta)
        # The nats by which the tail beyond the last node, u = top, misses its goal: e^{-u²μ²/2} has to make up for
        # them, and for a nat more.
        short = self.cumulant.log_tail(c, top, math.inf) - math.log(math.pi * top)
        short -= log_delta + LOG_TOLERANCE + c * epsilon
        if not math.isfinite(short):
            return None
        mu_squared = Fraction(2 * max(short + 1, 1) / (top * top))
        weak = Description.of(GaussianPair(mu_squared=mu_squared))
        larger = Cumulant(
            Description(pairs=self.cumulant.pairs) + weak, reverse=self.cumulant.reverse, base=self.cumulant, added=weak
        )
        contour = Contour(larger, largest=math.inf, nodes=nodes)
        saddle = contour.saddle.at_epsilon(epsilon)
        line = None if saddle is None else contour.line(saddle[0], epsilon, saddle[1])
        return None if line is None else lambda x: self._ends(contour, line, x, float(mu_squared))

    @staticmethod
    def _ends(contour: Contour, line: Line, epsilon: float, mu_squared: float) -> LogInterval:
        """Return both ends of ln δ(ε) of the composition itself."""
        ends = contour.ends(line, epsilon)
        # One more step never lowers δ: the upper end holds as it is. The lower end loses the excess.
        if mu_squared > 1e-2 or not math.isfinite(ends.lower):
            return LogInterval(lower=-math.inf, upper=ends.upper)
        mu = math.sqrt(mu_squared)
        excess = contour.log_density(line, epsilon, mu / math.sqrt(2) * (1 + 1e-15))
        excess += math.log(math.sqrt(3) * (0.4 * mu + mu_squared / 2)) + mu_squared + 1e-12
        lower = ends.lower + math.log1p(-math.exp(excess - ends.lower)) - 1e-15 if excess < ends.lower else -math.inf
        return LogInterval(lower=lower, upper=ends.upper)
