r"""Gaussian calibration on the discrete law: how large σ must be for what is really drawn.

For integers ∝ e^(-k²/2σ²) and a shift of d steps the log-ratio at output x is (2x-d)d/2σ², so with t = εσ²/d + d/2

    δ(ε) = P[X > t-d] - e^ε·P[X > t]        (Canonne, Kamath, Steinke 2020, Theorem 7)

exactly. It is bounded from above in one of two ways, each with its rounding on that side:

* up to σ = 2048 steps the tails are summed in float64. All terms are positive, so a sum has a relative error below
  1e-11; the first tail is raised by that, the second lowered.
* beyond, each sum is compared with an integral: Σ_{k≥j} f(k) lies between ∫_j^∞ f and ∫_{j-1}^∞ f for falling f (j ≥
  1), and σ√(2π) ≤ Σ_k f(k) ≤ σ√(2π)(1 + 3e^{-2π²σ²}) by Poisson summation. This gives away about one step in σ.

>>> float(discrete_delta(Fraction(1), 1, Fraction(1))) > 0.12
True
>>> discrete_sigma(Fraction(1), Fraction(1, 10**6), 1, "analytic") >= CALIBRATIONS["analytic"](1, "1e-6")
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from hush.accounting import theorems
from hush.core import InvalidValueError
from hush.core.balls import Ball, ball, flint, fraction_down, fraction_up
from hush.core.rounding import certified, short_up

CALIBRATIONS: dict[str, Callable[..., Fraction]] = {
    "analytic": theorems.gaussian.analytic,
    "classical": theorems.gaussian.classical,
    "2/delta": theorems.gaussian.two_over_delta,
    "1/delta": theorems.gaussian.one_over_delta,
}
_SUMMED = 2048
_SLACK = 1e-11
_NOTHING = Fraction(1, 2**10000)  # far above 3e^(-2π²σ²) for σ > 2048


@lru_cache(maxsize=1024)
def discrete_sigma(epsilon: Fraction, delta: Fraction, steps: int, calibration: str) -> Fraction:
    """Return σ in steps: the named calibration, raised where needed until the discrete law's δ(ε) is at most δ.

    δ(ε) of a lattice law is not smooth in σ, so this is a search for *a* certified σ close above the named one.
    """
    sigma = CALIBRATIONS[calibration](epsilon, delta, sensitivity=steps)
    enough, short = sigma, sigma
    for attempt in range(60):
        if discrete_delta(enough, steps, epsilon) <= delta:
            break
        short, enough = enough, short_up(sigma * (1 + Fraction(2**attempt, 2**20)))
    else:
        raise InvalidValueError("step", got=steps, allowed="fine enough for this noise", hint="Declare a smaller step.")
    for _ in range(8 if enough > sigma else 0):
        middle = short_up((short + enough) / 2)
        if discrete_delta(middle, steps, epsilon) <= delta:
            enough = middle
        else:
            short = middle
    return enough


def discrete_delta(sigma: Fraction, steps: int, epsilon: Fraction) -> Fraction:
    """Return a certified upper bound of δ(ε) for the discrete Gaussian of this σ and a shift of ``steps``."""
    threshold = epsilon * sigma**2 / steps + Fraction(steps, 2)
    near, far = math.floor(threshold - steps) + 1, math.floor(threshold) + 1
    return _by_sums(sigma, near, far, epsilon) if sigma <= _SUMMED else _by_integrals(sigma, near, far, epsilon)


def _by_sums(sigma: Fraction, near: int, far: int, epsilon: Fraction) -> Fraction:
    s = sigma.numerator / sigma.denominator
    reach = int(39 * s) + 3
    k = np.arange(reach, dtype=np.float64)
    weights = np.exp(-(k * k) / (2 * s * s))
    total = 2 * weights.sum() - weights[0]

    def tail(j: int) -> float:
        """Sum the weights of k ≥ j."""
        if j > 0:
            return float(weights[j:].sum())
        return float(total - weights[1 - j :].sum())

    high = Fraction(tail(near) / total) * (1 + Fraction(_SLACK)) + Fraction(1, 10**300)
    low = tail(far) / total * (1 - _SLACK)
    # e^ε·P[X > t]: the lower end; where the tail has vanished from float64, nothing is subtracted.
    less = fraction_down(certified(lambda: ball(epsilon).exp())) * Fraction(low) if low > 1e-290 else Fraction(0)
    return max(high - less, Fraction(0))


def _by_integrals(sigma: Fraction, near: int, far: int, epsilon: Fraction) -> Fraction:
    def beyond(x: Fraction) -> Ball:
        return (ball(x) / flint().arb(2).sqrt()).erfc() / 2

    # P[X ≥ near] ≤ P[N ≥ near-1] also for near ≤ 0: it is 1 - P[X ≥ 1-near], and P[X ≥ m] ≥ P[N ≥ m]/(1+η).
    high = certified(lambda: beyond((near - 1) / sigma)) + ball(_NOTHING)
    low = certified(lambda: ball(epsilon).exp() * beyond(far / sigma))
    return max(fraction_up(high) - fraction_down(low) / (1 + _NOTHING), Fraction(0))
