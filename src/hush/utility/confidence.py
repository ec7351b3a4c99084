r"""Confidence bounds for a probability seen through coin tosses: Clopper and Pearson's, exact and on the safe side.

After s successes in n tosses the upper bound is the p at which s or fewer successes have probability β, the lower
bound the p at which s or more have: no approximation, so they hold for every n. The binomial tail is the regularised
incomplete beta function, P[Bin(n, p) ≥ s] = I_p(s, n-s+1), evaluated in ball arithmetic; the search ends on the outer
side.

>>> lower_bound(0, 100, miss=0.01), upper_bound(100, 100, miss=0.01)
(0.0, 1.0)
>>> 0.0294 < upper_bound(0, 100, miss=0.05) < 0.0296           # 1 - 0.05^(1/100)
True
"""

from __future__ import annotations

import math
from fractions import Fraction

from hush.core import Number, fraction_between, integer
from hush.core.balls import Ball, flint, precision

_ROUNDS = 14


def _at_least(successes: int, tosses: int, p: Fraction) -> Ball:
    """Return P[Bin(n, p) ≥ s] as a ball, for 1 ≤ s ≤ n."""
    with precision(128):
        x = flint().arb(p.numerator) / p.denominator
        return flint().arb(x).beta_lower(flint().arb(successes), flint().arb(tosses - successes + 1), 1)


def lower_bound(successes: int, tosses: int, *, miss: Number) -> float:
    """Return p₀ such that the true probability is at least p₀, with confidence 1 - miss."""
    s, n, beta = _read(successes, tosses, miss)
    if s == 0:
        return 0.0
    # A bracket from the normal approximation; its lower end counts only if it is certified.
    share = s / n
    width = 3 * math.sqrt(share * (1 - share) * -2 * math.log(float(beta)) / n) + 10 * -math.log(float(beta)) / n
    low, high = Fraction(max(share - width, 0.0)), Fraction(s, n)
    if low and not _at_least(s, n, low) < _ball(beta):
        low = Fraction(0)
    for _ in range(_ROUNDS):
        middle = Fraction(float((low + high) / 2))
        # The lower end moves only where the tail is certainly below β.
        low, high = (middle, high) if _at_least(s, n, middle) < _ball(beta) else (low, middle)
    return float(low)


def upper_bound(successes: int, tosses: int, *, miss: Number) -> float:
    """Return p₁ such that the true probability is at most p₁, with confidence 1 - miss."""
    s, n, _ = _read(successes, tosses, miss)
    return min(1.0, math.nextafter(1.0 - lower_bound(n - s, n, miss=miss), 2.0))


def _ball(value: Fraction) -> Ball:
    return flint().arb(value.numerator) / value.denominator


def _read(successes: int, tosses: int, miss: Number) -> tuple[int, int, Fraction]:
    n = integer(tosses, "tosses", minimum=1)
    return integer(successes, "successes", minimum=0, maximum=n), n, fraction_between(miss, "miss")
