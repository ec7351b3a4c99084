r"""The exact privacy of Skellam noise on one integer.

Skellam noise of variance v has P(k) = e^{-v}·I_k(v), I the modified Bessel function, and is log-concave: the ratio
I_{k+1}/I_k falls in k (Amos 1974). So the loss ln P(x-Δ)/P(x) of a shift by Δ rises in x, the worst set of outputs is a
half line, and with the tails S(t) = P(X ≥ t) and t the first x whose loss exceeds ε

    δ(ε) = S(t-Δ) - e^ε·S(t).

S is summed in ball arithmetic. The terms come from two Bessel functions at the far end by the recurrence I_{k-1} =
I_{k+1} + (2k/v)·I_k, all of whose terms are positive; what lies beyond the end K is at most P(K)·r/(1-r), where r =
v/(h + √(v²+h²)) with h = K + ½ is an upper bound of I_{k+1}/I_k for all k ≥ K (Amos 1974).

>>> from hush.core.balls import up
>>> from fractions import Fraction
>>> round(up(skellam_delta(Fraction("14.24"), 1, Fraction(1))) * 1e6, 3)
1.001
>>> skellam_variance(sensitivity=1, epsilon=Fraction(1), delta=Fraction(1, 10**6)) < Fraction("14.25")
True
"""

from __future__ import annotations

import math
from fractions import Fraction

from hush.core.balls import Ball, ball, down, flint, precision, up
from hush.core.decimals import smallest_decimal

__all__ = ["skellam_delta", "skellam_variance"]

_BITS = 192


def skellam_delta(variance: Fraction, sensitivity: int, epsilon: Fraction) -> Ball:
    """Return a ball around the smallest δ at which Skellam noise of this variance is (ε, δ)-DP."""
    with precision(_BITS):
        masses = _masses(variance, sensitivity, epsilon)
        e_epsilon = ball(epsilon).exp()

        def mass(k: int) -> Ball:
            return masses[abs(k)] if abs(k) < len(masses) else flint().arb(0)

        # By bisection, as the loss rises: the first x with P(x-Δ) > e^ε P(x).
        low, high = -len(masses), len(masses) - 1
        while low < high:
            middle = (low + high) // 2
            if mass(middle - sensitivity) > e_epsilon * mass(middle):
                high = middle
            else:
                low = middle + 1
        beyond = _beyond(variance, masses)
        first = low
        shifted = sum((mass(k) for k in range(first - sensitivity, len(masses))), start=flint().arb(0)) + beyond
        plain = sum((mass(k) for k in range(first, len(masses))), start=flint().arb(0)) + beyond
        delta = shifted - e_epsilon * plain
        # Where a ball cannot tell whether the x before belongs to the half line, its gain may be missing.
        gain = mass(first - 1 - sensitivity) - e_epsilon * mass(first - 1)
        if not gain <= 0:
            delta += flint().arb(0).union(gain.upper())
        if first == len(masses) - 1:  # the half line may begin further out; then δ is between 0 and this tail
            return flint().arb(0).union(shifted.upper())
        return delta if not delta < 0 else flint().arb(0)


def _masses(variance: Fraction, sensitivity: int, epsilon: Fraction) -> list[Ball]:
    """Return P(0), P(1), …, up to an end beyond which nothing matters at this ε."""
    v = float(variance)
    # The loss at x is about asinh(x/v)·Δ: the half line begins near v·sinh(ε/Δ).
    begin = v * math.sinh(min(float(epsilon) / sensitivity, 50.0))
    end = math.ceil(min(begin, 1e7) + 40 * math.sqrt(v + begin) + 60 + 2 * sensitivity)
    arb, rate = flint().arb, ball(variance)
    upper, here = rate.bessel_i(arb(end + 1), scaled=True), rate.bessel_i(arb(end), scaled=True)
    masses = [here]
    for k in range(end, 0, -1):
        upper, here = here, upper + here * (2 * k) / rate
        masses.append(here)
    return masses[::-1]


def _beyond(variance: Fraction, masses: list[Ball]) -> Ball:
    """Return a ball around P(X > K) for the last K of the masses."""
    rate, half = ball(variance), ball(Fraction(2 * len(masses) - 1, 2))
    ratio = rate / (half + (rate * rate + half * half).sqrt())
    return flint().arb(0).union((masses[-1] * ratio / (1 - ratio)).upper())


def skellam_variance(*, sensitivity: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest variance, to 12 digits, at which Skellam noise is (ε, δ)-DP: rounded up.

    More variance is more noise added by the curator's own hand, which never hurts, so that δ falls in the variance.
    """
    return smallest_decimal(
        lambda variance: up(skellam_delta(variance, sensitivity, epsilon)) <= delta,
        digits=12,
    )


def skellam_epsilon(*, variance: Fraction, sensitivity: int, delta: Fraction) -> float:
    """Return the smallest ε, rounded up, at which Skellam noise of this variance is (ε, δ)-DP."""
    low, high = Fraction(0), Fraction(1)
    while up(skellam_delta(variance, sensitivity, high)) > delta:
        high *= 2
    while down(ball(high - low)) > 1e-12 * float(high):
        middle = (low + high) / 2
        if up(skellam_delta(variance, sensitivity, middle)) <= delta:
            high = middle
        else:
            low = middle
    return up(ball(high))
