r"""From Rényi divergences to (ε,δ): what is used where no dominating pair is known.

For any z > 0, with K(z) = z·D_{1+z} (Canonne, Kamath, Steinke 2020, Proposition 12 and Corollary 13),

    δ(ε) ≤ e^{K(z) − zε} · κ(z),   κ(z) = z^z/(1+z)^{1+z} = sup_x (1−e^{-x})₊e^{-zx}.

Every z gives a valid bound; a search in floating point picks one and ball arithmetic evaluates it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hush.accounting.description import Description, RenyiPoints
from hush.accounting.pairs.base import Floats
from hush.core.balls import Ball, ball, flint, precision, up

_BITS = 128


def log_kappa(z: Floats) -> Floats:
    """Return ln κ(z) = −z·ln(1+1/z) − ln(1+z)."""
    return -z * np.log1p(1 / z) - np.log1p(z)


def _ball_kappa(z: Ball) -> Ball:
    return -z * (1 / z).log1p() - z.log1p()


def _search(objective: Callable[[Floats], Floats], limit: float) -> float:
    """Return a z in (0, limit] where the objective is about smallest: a grid in ln z, refined four times."""
    low, high = math.log(1e-9), math.log(min(1e12, limit))
    for _ in range(6):
        grid = np.linspace(low, high, 41)
        with np.errstate(all="ignore"):
            values = objective(np.exp(grid))
        best = int(np.argmin(np.where(np.isnan(values), np.inf, values)))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 40)])
    return min(math.exp(float(grid[best])), limit)


def _curve(description: Description, real: Callable[[Floats], Floats]) -> tuple[Callable[[Floats], Floats], float]:
    """Return a float estimate of K(z), and the largest z at which every curve is known."""
    rho = float(description.rho)
    limit = math.inf
    for curve in description.curves:
        if isinstance(curve, RenyiPoints):
            limit = min(limit, float(curve.points[-1][0] - 1))

    def estimate(z: Floats) -> Floats:
        summed = real(z) + rho * z * (z + 1)
        for curve, count in description.curves.items():
            values = []
            for item in z:
                order = 1 + Fraction(float(item))
                if isinstance(curve, RenyiPoints) and float(item) >= float(curve.points[-1][0] - 1):
                    order = curve.points[-1][0]
                values.append(float(curve.at(order).mid()) if curve.at(order).is_finite() else math.inf)
            summed = summed + count * z * np.array(values)
        return summed

    return estimate, limit


def _order(description: Description, z: float) -> Fraction:
    """Return an exact z; at the end of a curve of points, exactly the last known order."""
    exact = Fraction(z)
    for curve in description.curves:
        if isinstance(curve, RenyiPoints):
            exact = min(exact, curve.points[-1][0] - 1)
            for order, _ in curve.points:
                if abs(float(order - 1) - z) <= 1e-9 * z:
                    exact = min(exact, order - 1)
    return exact


def renyi_epsilon(description: Description, real: Callable[[Floats], Floats], log_delta: Ball) -> float:
    """Return an upper bound of ε at a δ given by its logarithm."""
    estimate, limit = _curve(description, real)
    target = float(log_delta.mid())
    candidates = [_search(lambda z: (estimate(z) + log_kappa(z) - target) / z, limit)]
    candidates += _corners(description)
    best = math.inf
    with precision(_BITS):
        for candidate in candidates:
            exact = _order(description, candidate)
            z = ball(exact)
            best = min(best, up(description.renyi(1 + exact) + (_ball_kappa(z) - log_delta) / z))
    return max(0.0, best)


def renyi_delta(description: Description, real: Callable[[Floats], Floats], epsilon: Fraction) -> Ball:
    """Return a ball whose upper end bounds δ(ε) from above."""
    estimate, limit = _curve(description, real)
    target = float(epsilon)
    candidates = [_search(lambda z: estimate(z) - z * target + log_kappa(z), limit)]
    candidates += _corners(description)
    best = flint().arb(1)
    for candidate in candidates:
        exact = _order(description, candidate)
        z = ball(exact)
        value = (z * (description.renyi(1 + exact) - ball(epsilon)) + _ball_kappa(z)).exp()
        if value.is_finite():
            best = best.min(value)
    return best


def _corners(description: Description) -> list[float]:
    """Return the orders at which a curve of points jumps: the optimum is often there."""
    found = {order - 1 for curve in description.curves if isinstance(curve, RenyiPoints) for order, _ in curve.points}
    return [float(z) for z in sorted(found)[:64]]
