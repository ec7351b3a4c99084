r"""The exact privacy of Skellam noise on one integer (:mod:`hush.accounting.pairs.skellam` has the mathematics).

>>> from hush.core.balls import up
>>> from fractions import Fraction
>>> round(up(skellam_delta(Fraction("14.24"), 1, Fraction(1))) * 1e6, 3)
1.001
>>> skellam_variance(sensitivity=1, epsilon=Fraction(1), delta=Fraction(1, 10**6)) < Fraction("14.25")
True
"""

from __future__ import annotations

from fractions import Fraction

from hush.accounting.pairs.skellam import skellam_profile
from hush.core.balls import Ball, ball, down, precision, up
from hush.core.rounding import smallest_decimal

__all__ = ["skellam_delta", "skellam_epsilon", "skellam_variance"]

_BITS = 192


def skellam_delta(variance: Fraction, sensitivity: int, epsilon: Fraction) -> Ball:
    """Return a ball around the smallest δ at which Skellam noise of this variance is (ε, δ)-DP."""
    with precision(_BITS):
        return skellam_profile(variance, sensitivity, ball(epsilon))


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
