r"""The contour in ball arithmetic, for where double precision drowns in cancellation.

Few subsampled Gaussians have a loss whose tilted law has two humps, one from rounds in which the unit was sampled and
one from rounds in which it was not; deep in the tail ε lies in the void between, and the integrand of :mod:`.contour`
cancels to a tiny part e^{-D} of its size. The trapezoid rule and its three bounds are those of that module:

    T = (h/2π)·Σ_j f(c+ijh),  f(z) = M(z)e^{-zε}/(z(z+1)),   δ ≤ T + cut,   δ ≥ T − cut − aliases,

but M is computed with enough bits for D, and P and U are chosen so that the cut and the aliases are below
e^{K(c)−cε−D}. D is raised until the ends agree.

**Moments on many nodes.** With A the sampled Gaussian's likelihood ratio, M(c+ijh) = Σ_t w_t·A_t^{p}·ρ_t^j over the
nodes t of the rule of :mod:`.pairs.poisson`, ρ_t = A_t^{±ih}; writing j = aB + b this is a product of two matrices of
balls, with entries w_t A_t^p ρ_t^{aB} and ρ_t^b. The rule's error is proved there: relative to M(c) it is at most
2C·e^{y²/2 + Uκy}/(e^{2πy/h_t}−1), and the nodes left out come to at most the edge terms over 1 − e^{-h_t·m}, where m is
the distance of the edges from 0 and from the tilted mean.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hush.accounting.balls import ball, down, flint, precision, up
from hush.accounting.contour import COARSE, GRID, Contour, LogInterval
from hush.accounting.conversion import log_kappa
from hush.accounting.pairs import PoissonGaussianPair
from hush.accounting.pairs.rounding import UNIT
from hush.accounting.search import invert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hush.accounting.balls import Ball
    from hush.accounting.cumulant import Cumulant
    from hush.accounting.pairs import Pair

__all__ = ["Precise"]

_DEPTHS = (40.0, 60.0, 90.0, 150.0, 260.0)
_MOST_NODES = 9000
_MOST_CELLS = 40_000_000
_ACCURACY = 1e-9


class Precise:
    """Certified ends for few different pairs whose moments decay along the contour."""

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        self.cumulant = cumulant
        self.largest = largest
        self._known: dict[tuple[float, float, int, int], list[Ball]] = {}

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether the moments in ball arithmetic are affordable."""
        return 0 < len(pairs) <= 6 and any(isinstance(pair, PoissonGaussianPair) for pair in pairs)

    # -- the line -------------------------------------------------------------------------------------------------

    def _abscissa(self, epsilon: float) -> tuple[float, float] | None:
        """Return the c of the grid at which K(c) − cε − 2 ln c is smallest, and K(c) − cε there."""
        start = Contour(self.cumulant, largest=self.largest).saddle(epsilon)
        if start is None:
            return None
        near = GRID[max(start[0] - 12, 0) : start[0] + 13]
        k, r = self.cumulant.at(near)
        with np.errstate(all="ignore"):
            height = np.where(r < 1, k - near * epsilon - np.log(near) - np.log1p(near), np.inf)
        at = int(np.argmin(height))
        if not math.isfinite(height[at]):
            return None
        return float(near[at]), float(k[at] - near[at] * epsilon)

    def _forward(self, c: float, epsilon: float) -> tuple[list[float], list[float]]:
        """Return abscissae c' > c with certified upper ends of K(c') + ln κ(c') − c'ε."""
        k, r = self.cumulant.line("real", lambda: COARSE)
        with np.errstate(all="ignore"):
            logs = k.real + r + log_kappa(COARSE) - COARSE * epsilon
            logs = logs + 64 * UNIT * (np.abs(k.real) + COARSE * epsilon + 1)
        good = np.isfinite(logs) & (c * 1.01 < COARSE)
        return [float(x) for x in COARSE[good]], [float(x) for x in logs[good]]

    def _fit(self, c: float, epsilon: float, peak: float, depth: float) -> tuple[float, int] | None:
        """Return P and the number of nodes at which the cut and the aliases are about e^{peak − depth}."""
        goal = peak - depth
        places, logs = self._forward(c, epsilon)
        needed = [(log - goal) / (place - c) for place, log in zip(places, logs, strict=True)]
        forward = min([*needed, self.largest - epsilon])
        period = max(-goal / c, forward) + 1 / c
        if not math.isfinite(period):
            return None
        period = 2.0 ** (math.ceil(8 * math.log2(period)) / 8)
        top = 1.0

        def excess(u: float) -> float:
            return self.cumulant.log_tail(c, u, math.inf) - c * epsilon - math.log(math.pi * u) - goal

        while excess(top) > 0:
            top *= 1.3
            if top * period > 2 * math.pi * _MOST_NODES:
                return None
        return period, max(16, math.ceil(top * period / (2 * math.pi)) + 1)

    # -- moments --------------------------------------------------------------------------------------------------

    def _moments(self, c: float, step: float, count: int, bits: int) -> list[Ball]:
        """Return M at c + ij·step, j = 0..count−1, as balls."""
        key = (c, step, count, bits)
        if key not in self._known:
            if len(self._known) >= 4:
                self._known.pop(next(iter(self._known)))
            reverse = self.cumulant.reverse
            acb = flint().acb
            product = [acb(1)] * count
            for pair, times in self.cumulant.pairs.items():
                if isinstance(pair, PoissonGaussianPair):
                    values = _sampled(pair, c, step, count, reverse)
                else:
                    nodes = [acb(ball(c), ball(step) * j) for j in range(count)]
                    values = [pair.moment(-1 - z if reverse else z) for z in nodes]
                product = [whole * value**times for whole, value in zip(product, values, strict=True)]
            self._known[key] = product
        return self._known[key]

    # -- the sum --------------------------------------------------------------------------------------------------

    def _at(self, epsilon: float, c: float, peak: float, depth: float) -> LogInterval | None:
        fit = self._fit(c, epsilon, peak, depth)
        if fit is None or not self._affordable(c, fit[0], fit[1], depth):
            return None
        period, count = fit
        # A complex product of balls may lose half a bit to their corners; rows and strides are short enough for 96.
        bits = int((depth + 60) * 1.45) + 96
        acb = flint().acb
        with precision(bits):
            step = 2 * math.pi / period
            # The step is this float exactly; P is 2π over it.
            exact = ball(step)
            period_ball = 2 * flint().arb.pi() / exact
            moments = self._moments(c, step, count, bits)
            e, total = ball(epsilon), flint().arb(0)
            for j, moment in enumerate(moments):
                z = acb(ball(c), exact * j)
                part = (moment * (-z * e).exp() / (z * (z + 1))).real
                total += part if j == 0 else 2 * part
            total *= exact / (2 * flint().arb.pi())
            cut = ball(self.cumulant.log_tail(c, count * step * (1 - 4 * UNIT), math.inf)) - ball(c) * e
            cut = cut.exp() / (flint().arb.pi() * exact * (count - 1))
            back = (-ball(c) * period_ball).exp()
            alias = back / (1 - back)
            if epsilon + up(period_ball) <= self.largest:
                alias += self._ahead(c, epsilon, period_ball)
            upper, lower = total + cut, total - cut - alias
            return LogInterval(
                lower=down(lower.lower().log()) if lower > 0 else -math.inf,
                upper=min(0.0, up(upper.abs_upper().log())) if upper.is_finite() and upper.abs_upper() > 0 else 0.0,
            )

    def _ahead(self, c: float, epsilon: float, period: Ball) -> Ball:
        """Return the smallest bound of the aliases from larger ε."""
        places, logs = self._forward(c, epsilon)
        best = flint().arb.pos_inf()
        for place, log in zip(places, logs, strict=True):
            fall = (ball(place) - ball(c)) * period
            best = best.min((ball(log) - fall).exp() / -(-fall).expm1())
        return best

    def _affordable(self, c: float, period: float, count: int, depth: float) -> bool:
        cells = 0.0
        for pair in self.cumulant.pairs:
            if isinstance(pair, PoissonGaussianPair):
                kappa = math.sqrt(float(pair.mu_squared))
                cells += count * _rule(kappa, c, 2 * math.pi / period * count, depth + 60, self.cumulant.reverse)[3]
        return cells <= _MOST_CELLS

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        best = LogInterval(lower=-math.inf, upper=0.0)
        placed = self._abscissa(epsilon)
        if placed is None or epsilon >= self.largest:
            return best
        deepest = placed[1] - self._least(epsilon) + 21
        for depth in _depths(deepest):
            found = self._at(epsilon, *placed, depth)
            if found is None:
                break
            best = LogInterval(lower=max(best.lower, found.lower), upper=min(best.upper, found.upper))
            if best.width <= _ACCURACY:
                break
        return best

    def _least(self, epsilon: float) -> float:
        """Return about the largest ln δ(ε) of a single pair: the composition's is no less."""
        with precision(128):
            return max(
                down(pair.profile(ball(epsilon), reverse=self.cumulant.reverse).abs_lower().log())
                for pair in self.cumulant.pairs
            )

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        guess = Contour(self.cumulant, largest=self.largest).guess(target.lower)
        if guess is None:
            return 0.0, math.inf
        return invert(self.log_delta, target, guess=guess[0], slope=guess[1], largest=self.largest)


def _depths(deepest: float) -> list[float]:
    """Return the depths to try, the last as deep as a single pair's δ calls for."""
    return [*(depth for depth in _DEPTHS if depth < deepest), min(max(deepest, 30.0), 400.0)]


def _rule(kappa: float, c: float, turn: float, nats: float, reverse: bool) -> tuple[float, float, float, int]:
    """Return the strip's half-width y, the step, the lower edge and the number of nodes of the rule for M."""
    power = c if reverse else 1 + c
    width = min(math.sqrt(2 * nats), 2.8 / kappa)
    if reverse:
        width = min(width, 2 * math.sqrt(8 / max(power, 1)) / kappa)
    step = 2 * math.pi / (turn * kappa + nats / width + width / 2 + 1)
    margin = math.sqrt(2 * nats) + 1
    low = -margin - (power * kappa if reverse else 0.0)
    high = margin + (0.0 if reverse else power * kappa)
    first = math.floor(low / step)
    return width, step, first * step, math.ceil(high / step) - first + 1


def _sampled(pair: PoissonGaussianPair, c: float, step: float, count: int, reverse: bool) -> list[Ball]:
    """Return E[A^{1+z}] (E[A^{-z}] in reverse) at z = c + ij·step by a product of matrices, errors inside the balls."""
    module = flint()
    arb, acb = module.arb, module.acb
    q, kappa = ball(pair.rate), ball(pair.mu_squared).sqrt()
    nats = 0.69 * (module.ctx.prec - 96)
    highest = step * count
    width, h, low, points = _rule(up(kappa), c, highest, nats, reverse)
    power = -ball(c) if reverse else 1 + ball(c)
    first = round(low / h)
    block = max(1, math.isqrt(count))
    strides = -(-count // block)
    exact = ball(step)
    left = [[None] * points for _ in range(strides)]
    right: list[list[Ball]] = []
    real, edges = arb(0), []
    for i in range(points):
        t = ball(h) * (first + i)
        log_a = (q * (kappa * t - kappa * kappa / 2).expm1()).log1p()
        size = (-t * t / 2 + power * log_a).exp()
        real += size
        if i in {0, points - 1}:
            edges.append(size)
        turn = acb(0, -exact * log_a if reverse else exact * log_a).exp()
        row = [acb(1)]
        for _ in range(block - 1):
            row.append(row[-1] * turn)
        right.append(row)
        stride, value = row[-1] * turn, acb(size)
        for a in range(strides):
            left[a][i] = value
            value = value * stride
    product = module.acb_mat(left) * module.acb_mat(right)
    scale = ball(h) / (2 * arb.pi()).sqrt()
    margin = ball(math.sqrt(2 * nats))
    cut = (edges[0] + edges[1]) / (-(-ball(h) * margin).expm1())
    y = ball(width)
    # 2C·e^{y²/2 + uκy}/(e^{2πy/h} − 1), at u = 0 for M(c) itself and at the highest u for all nodes.
    still = 2 * (y * y / 2).exp() / (2 * arb.pi() * y / ball(h)).expm1()
    if reverse:
        still *= ((kappa * y / 2).cos().log() * power).exp()
    mass = scale * (real + cut) / (1 - still)
    rest = mass * still * (ball(highest) * kappa * y).exp() + scale * cut
    if not rest.is_finite() or not still < 1:
        return [acb(arb.nan())] * count
    ring = arb(0, 1) * rest.abs_upper()
    around = acb(ring, ring)
    return [product[j // block, j % block] * scale + around for j in range(count)]
