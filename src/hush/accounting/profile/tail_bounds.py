"""Ends that cost next to nothing and hold for every composition: far tails, near certainty, and the largest loss.

* **Far out**, δ(ε) ≤ κ(c)·e^{K(c) − cε} for every c > 0 (below): the upper end where δ is too small
  for a float, and a start for every other method.
* **Near 1.** 1 − δ(ε) = E min(1, e^{ε−L}) ≤ e^{sε}·E e^{-sL} = e^{sε + K(−s)} for 0 ≤ s ≤ 1, as min(1, y) ≤ y^s: the
  lower end where millions of steps make δ all but 1. K(−1/2) is asked for alone, in ball arithmetic.
* **At the top.** Where every pair has an atom at its largest loss, of mass pᵢ, their sum is an atom of mass p = Πpᵢ at
  the largest loss of all, and δ(ε) ≥ p·(1 − e^{ε − largest}): the lower end for δ far below p.

**From Rényi divergences to (ε,δ)**, where no dominating pair is known. For any z > 0, with K(z) = z·D_{1+z} (Canonne,
Kamath, Steinke 2020, Proposition 12 and Corollary 13),

    δ(ε) ≤ e^{K(z) − zε} · κ(z),   κ(z) = z^z/(1+z)^{1+z} = sup_x (1−e^{-x})₊e^{-zx}.

Every z gives a valid bound; a search in floating point picks one and ball arithmetic evaluates it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property

import numpy as np

from hush.accounting.description import Description, RenyiPoints
from hush.accounting.pairs.base import UNIT, Floats
from hush.accounting.prices import conversion_cost, converted_delta
from hush.accounting.profile.cumulant import COARSE, log_kappa
from hush.accounting.profile.method import LogInterval, Method
from hush.core.rounding import Ball, ball, down, flint, precision, up

_WORKING_BITS = 128
_MAX_PAIRS = 200
"""The largest number of different pairs for which K(−1/2) is computed in ball arithmetic."""


class TailBounds(Method):
    """Certified ends in closed form."""

    @cached_property
    def _chernoff(self) -> tuple[Floats, Floats]:
        """Points c, each with a certified upper bound of K(c) + ln κ(c): one bound of δ for each point."""
        k, r = self.cumulant.line("real", lambda: COARSE)
        with np.errstate(all="ignore"):
            logs = k.real + r + log_kappa(COARSE)
            # Upwards: every c gives an upper bound of δ, as long as K(c) is not too small.
            logs = logs + 64 * UNIT * (np.abs(k.real) + 1)
        good = np.isfinite(logs)
        return COARSE[good], logs[good]

    @cached_property
    def _halfway(self) -> float:
        """An upper end of K(−1/2)."""
        if len(self.cumulant.pairs) > _MAX_PAIRS:
            return 0.0
        with precision(_WORKING_BITS):
            half = flint().acb(-0.5)
            total = sum((n * pair.moment(half).real.log() for pair, n in self.cumulant.pairs.items()), flint().arb(0))
            return up(total) if total.is_finite() else 0.0

    @cached_property
    def _edge(self) -> tuple[float, Ball | None]:
        """A lower end of ln p, and the largest loss."""
        if not math.isfinite(self.largest):
            return -math.inf, None
        with precision(_WORKING_BITS):
            total = flint().arb(0)
            for pair, count in self.cumulant.pairs.items():
                mass = pair.top_mass(reverse=self.cumulant.reverse)
                if mass is None:
                    return -math.inf, None
                total += count * mass.log()
            largest = Description(pairs=self.cumulant.pairs).largest_loss(reverse=self.cumulant.reverse)
            return down(total), largest

    def log_delta(self, epsilon: float) -> LogInterval:
        c, logs = self._chernoff
        upper = float((logs - c * epsilon * (1 - 4 * UNIT)).min(initial=0.0))  # δ ≤ 1 at any rate
        lower = -math.inf
        with precision(_WORKING_BITS):
            mass, largest = self._edge
            if largest is not None:  # the atom at the largest loss: δ ≥ p·(1 − e^{ε − largest})
                share = -(ball(epsilon) - largest).expm1()
                if share > 0:
                    lower = down(ball(mass) + share.log())
            if upper > -1e-3:
                # 1 − δ ≤ e^{ε/2 + K(−1/2)}
                log_complement = ball(epsilon) / 2 + ball(self._halfway)
                if log_complement < 0:
                    lower = max(lower, down((-log_complement.exp()).log1p()))
        return LogInterval(lower=lower, upper=upper)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        c, logs = self._chernoff
        with np.errstate(all="ignore"):
            ends = (logs - target.lower) / c
            ends = ends + 16 * UNIT * (np.abs(logs) + abs(target.lower)) / c
        upper = max(float(ends.min(initial=math.inf)), 0.0)
        lower = 0.0
        with precision(_WORKING_BITS):
            goal = ball(target.upper)
            mass, largest = self._edge
            if largest is not None and goal < ball(mass):
                # p·(1 − e^{ε − largest}) = δ, solved for ε.
                lower = max(lower, down(largest + (-(goal - ball(mass)).exp()).log1p()))
            if target.upper < 0 and self._halfway < 0:
                # e^{ε/2 + K(−1/2)} = 1 − δ, solved for ε.
                half_epsilon = (-goal.expm1()).log() - ball(self._halfway)
                lower = max(lower, down(2 * half_epsilon))
        return lower, upper


def _search(objective: Callable[[Floats], Floats], limit: float) -> float:
    """Return a z in (0, limit] near the minimum of the objective: a grid in ln z, refined five times."""
    low, high = math.log(1e-9), math.log(min(1e12, limit))
    for _ in range(6):
        grid = np.linspace(low, high, 41)
        with np.errstate(all="ignore"):
            values = objective(np.exp(grid))
        best = int(np.argmin(np.where(np.isnan(values), np.inf, values)))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 40)])
    return min(math.exp(float(grid[best])), limit)


def _orders(
    description: Description, real: Callable[[Floats], Floats], objective: Callable[[Floats, Floats], Floats]
) -> list[Fraction]:
    """Return exact orders: the best by floats, and those at which a curve of points jumps, where the optimum often is.

    ``objective`` is a function of z, the order less 1, and of K(z). At the end of a curve of points the order is
    exactly the last known one.
    """
    points = [curve.points for curve in description.curves if isinstance(curve, RenyiPoints)]
    corners = sorted({order for curve in points for order, _ in curve})
    last = min((curve[-1][0] for curve in points), default=None)

    def known(z: float) -> Fraction:
        order = 1 + Fraction(z)
        return order if last is None else min(order, last)

    def estimate(z: Floats) -> Floats:
        summed = real(z) + float(description.rho) * z * (z + 1)
        for curve, count in description.curves.items():
            summed = summed + count * z * np.array([up(curve.at(known(node))) for node in z.tolist()])
        return objective(z, summed)

    near = _search(estimate, math.inf if last is None else float(last - 1))
    return [known(near), *(order for order in corners[:64] if last is None or order <= last)]


def renyi_epsilon(description: Description, real: Callable[[Floats], Floats], log_delta: Ball) -> float:
    """Return an upper bound of ε at a δ given by its logarithm."""
    target = float(log_delta.mid())
    orders = _orders(description, real, lambda z, k: (k + log_kappa(z) - target) / z)
    with precision(_WORKING_BITS):
        # Every order gives a valid ε, each rounded up: the least is valid too.
        return max(0.0, min(up(description.renyi(order) + conversion_cost(order, log_delta)) for order in orders))


def renyi_delta(description: Description, real: Callable[[Floats], Floats], epsilon: Fraction) -> Ball:
    """Return a ball; its upper end is an upper bound of δ(ε)."""
    orders = _orders(description, real, lambda z, k: k - z * float(epsilon) + log_kappa(z))
    best = flint().arb(1)
    for order in orders:
        value = converted_delta(order, description.renyi(order), epsilon)
        if value.is_finite():
            best = best.min(value)
    return best
