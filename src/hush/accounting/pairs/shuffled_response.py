r"""Shuffled binary randomized response, exactly: what is revealed is how many said yes.

n people answer truthfully with probability p = e^ε₀/(e^ε₀+1). Of the n-1 others m have answer 1, so that the yeses but
one are N_m = Bin(m, p) + Bin(n-1-m, 1-p), with masses f and tails F(k) = P(N_m ≥ k). N_m is log-concave, hence the
likelihood ratio of N_m + Bernoulli(p) and N_m + Bernoulli(1-p) rises, the worst sets are half lines, and for ε < ε₀

    δ_m(ε) = max_k  A·f(k-1) - (e^ε-1)·F(k),      A = p - e^ε(1-p).

The other direction is δ_{n-1-m}, by exchanging yes and no. An adversary knows m, so δ(ε) = max_m δ_m(ε).

**All m at once.** f is the Fourier transform of (1-p + p·e^{iω})^m (p + (1-p)e^{iω})^{n-1-m}, centred at the mean and
sampled at L ≥ 24σ+96 points. What is wrapped round lies t = 12σ+48 out: below 2·exp(-t²/2(σ²+t/3)) ≤ 2·exp(-72) by
Bernstein's inequality, and it is counted. A power's argument is right to (n+8) units in the last place of
its terms, of which the logarithm has modulus at most 8 in all after centring at the low frequencies that matter; as a
bound, each sample is charged 32(n+8)·2⁻⁵³ of its modulus, and the transform itself 16·log₂L·2⁻⁵³ of the root of the sum
of squares (Higham 2002, Theorem 24.2). The sum of these over a half line moves δ by at most (A + e^ε-1)·L times the
error of one mass.

>>> bound = shuffled_response_epsilon(1, reports=2000, delta="1e-6")
>>> 0.0861 < bound.lower <= bound.upper < 0.0862
True
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hush.core import InvalidValueError, Number, fraction_between, integer, positive
from hush.core.balls import ball, down, up
from hush.core.rounding import Bound, decimal_unit, largest_decimal

__all__ = [
    "LARGEST_EPSILON",
    "LEAST_REPORTS",
    "MOST_REPORTS",
    "largest_local_epsilon",
    "shuffled_response_delta",
    "shuffled_response_epsilon",
]

MOST_REPORTS = 20_000
"""Beyond this the sweep over all m takes too long; the stronger clone bound does for any number."""
LEAST_REPORTS = 1_000
LARGEST_EPSILON = 8
_CHUNK = 2**21
_UNIT = 2.0**-53


def shuffled_response_delta(epsilon0: Number, *, reports: int, epsilon: float) -> Bound:
    """Return the exact δ of shuffled binary randomized response at this ε, with its certified ends."""
    local, count = _read(epsilon0, reports)
    value, error = _largest(local, count, epsilon, range((count + 1) // 2, count))
    value_low, error_low = _largest(local, count, epsilon, range((count + 1) // 2))
    error = max(error, error_low)
    best = max(value, value_low)
    return Bound(lower=max(0.0, best - error), upper=min(1.0, best + error))


def shuffled_response_epsilon(epsilon0: Number, *, reports: int, delta: Number) -> Bound:
    """Return the exact ε of shuffled binary randomized response at this δ, with its certified ends."""
    local, count = _read(epsilon0, reports)
    target = down(ball(fraction_between(delta, "delta")))
    low, high = 0.0, local
    ends = [0, count // 2, count - 1]
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _largest(local, count, middle, ends)[0] > target else (low, middle)
    lower, upper = 0.0, local
    for width in (1e-6, 1e-4, 1e-2, 0.1, 1.0):
        if (
            upper == local
            and shuffled_response_delta(epsilon0, reports=reports, epsilon=high * (1 + width)).upper <= target
        ):
            upper = min(local, high * (1 + width))
        if not lower and shuffled_response_delta(epsilon0, reports=reports, epsilon=high * (1 - width)).lower >= target:
            lower = high * (1 - width)
    return Bound(lower=lower, upper=upper)


def largest_local_epsilon(*, reports: int, epsilon: Number, delta: Number) -> Fraction:
    """Return the largest ε₀, to 4 digits, whose shuffled binary responses are certified to be (ε, δ)-DP."""
    count = _read(1, reports)[1]
    budget, target = down(ball(positive(epsilon, "epsilon"))), down(ball(fraction_between(delta, "delta")))
    ends = [0, count // 2, count - 1]
    local = largest_decimal(
        lambda x: x <= LARGEST_EPSILON and _largest(float(x), count, budget, ends)[0] <= target, digits=4
    )
    while shuffled_response_delta(local, reports=count, epsilon=budget).upper > target:
        local -= decimal_unit(local, digits=4)
    return local


def _read(epsilon0: Number, reports: int) -> tuple[float, int]:
    local = positive(epsilon0, "epsilon0")
    if local > LARGEST_EPSILON:
        raise InvalidValueError("epsilon0", got=epsilon0, allowed=f"at most {LARGEST_EPSILON}")
    # Rounded up: the answers at a smaller ε₀ are those at a larger one with noise added to them.
    return up(ball(local)), integer(reports, "reports", minimum=LEAST_REPORTS, maximum=MOST_REPORTS)


def _largest(local: float, reports: int, epsilon: float, compositions: range | list[int]) -> tuple[float, float]:
    """Return the largest δ_m of some compositions, and a bound of its error."""
    if epsilon >= local:
        return 0.0, 0.0
    p, others = 1 / (1 + math.exp(-local)), reports - 1
    deviation = math.sqrt(others * p * (1 - p))
    length = 1 << max(6, math.ceil(math.log2(24 * deviation + 96)))
    omega = 2 * math.pi * np.arange(length // 2 + 1) / length
    # Logarithms of the two factors, each with the turn of its mean taken out: what is left is small where it matters.
    logs = [np.log(1 - x + x * np.exp(1j * omega)) - 1j * omega * x for x in (p, 1 - p)]
    a, rise = p - math.exp(epsilon) * (1 - p), math.expm1(epsilon)
    largest, worst = 0.0, 0.0
    rows = max(1, _CHUNK // length)
    members = np.asarray(compositions)
    for start in range(0, len(members), rows):
        m = members[start : start + rows, None]
        mean = m * p + (others - m) * (1 - p)
        # A whole number near the mean is the middle of the window.
        centre = np.rint(mean)
        powers = np.exp(m * logs[0] + (others - m) * logs[1] + 1j * omega * (mean - centre + length // 2))
        masses = np.fft.irfft(np.conj(powers), n=length, axis=1)
        tails = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1]
        deltas = a * masses[:, :-1] - rise * tails[:, 1:]
        moduli = np.abs(powers)
        sampled = 2 * moduli.sum(axis=1) / length * 32 * (others + 8) * _UNIT
        transform = 16 * math.log2(length) * _UNIT * np.sqrt((masses**2).sum(axis=1)) * math.sqrt(length)
        wrapped = 2 * math.exp(-72)
        summing = length * _UNIT
        each = float((sampled + transform).max()) + wrapped + summing
        worst = max(worst, (a + rise * length) * each)
        largest = max(largest, float(deltas.max()))
    return largest, worst
