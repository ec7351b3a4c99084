"""Privacy amplification by shuffling: the stronger clone bound, certified from both sides.

n people send reports, each ε₀-locally private, through a shuffler that hides who sent what. For any ε₀-local randomiser
the shuffled reports are no easier to tell apart than this pair (Feldman, McMillan, Talwar 2023, "Stronger privacy
amplification by shuffling"):

    C ~ Bin(n-1, 2/(e^ε₀+1)),   A ~ Bin(C, ½),   D ~ Bernoulli(p), p = e^ε₀/(e^ε₀+1),
    P: (A+D, C-A+1-D),          Q: the two numbers swapped.

Neighbours replace one person's answer. Given C = c the first number a has the likelihood ratio (pa + (1-p)(c+1-a)) /
((1-p)a + p(c+1-a)), which rises in a. So the worst set is a ≥ k with k the first whole number above θ(c+1), θ = (e^ε p
- (1-p)) / ((2p-1)(1+e^ε)), and with the tails T(c, j) = P(Bin(c, ½) ≥ j)

    δ_c(ε) = (p - e^ε(1-p))·T(c, k-1) + (1-p - e^ε p)·T(c, k),       δ(ε) = Σ_c P(C = c)·δ_c(ε).

**Certified.** All of it is ball arithmetic. From c to c+1 the tails follow by T(c+1, j) = T(c, j) + ½·b(c, j-1), from j
to j+1 by T(c, j+1) = T(c, j) - b(c, j), b the binomial masses, which follow by their ratios. The sum runs over the c
within some ten deviations of the mean. Beyond the last c the masses fall faster than geometrically, so that they add up
to at most m·ρ/(1-ρ), m the last mass and ρ its ratio to the next; and δ_c ≤ 1 there. Where a ball cannot tell whether
θ(c+1) is whole, it is so close that either k gives the same δ_c to 2⁻¹⁰⁰, which is added to the radius.

>>> bound = shuffled_epsilon(4, reports=10**4, delta="1e-6")
>>> round(bound.upper, 3), bound.upper - bound.lower < 1e-6
(0.411, True)

**Shuffled binary randomized response, exactly: the number of yeses is revealed.**

n people answer truthfully with probability p = e^ε₀/(e^ε₀+1). Of the n-1 others m have answer 1, so that the yeses but
one are N_m = Bin(m, p) + Bin(n-1-m, 1-p), with masses f and tails F(k) = P(N_m ≥ k). N_m is log-concave, hence the
likelihood ratio of N_m + Bernoulli(p) and N_m + Bernoulli(1-p) rises, the worst sets are half lines, and for ε < ε₀

    δ_m(ε) = max_k  A·f(k-1) - (e^ε-1)·F(k),      A = p - e^ε(1-p).

The other direction is δ_{n-1-m}, by exchanging yes and no. An adversary knows m, so δ(ε) = max_m δ_m(ε).

**All m at once.** f is the Fourier transform of (1-p + p·e^{iω})^m (p + (1-p)e^{iω})^{n-1-m}, centred at the mean and
sampled at L ≥ 24σ+96 points. Masses that wrap round lie t = 12σ+48 out: below 2·exp(-t²/2(σ²+t/3)) ≤ 2·exp(-72) by
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
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from hush.core import InvalidValueError, Number, fraction_between, integer, nonnegative, positive
from hush.core.rounding import Ball, Bound, ball, decimal_unit, down, flint, largest_decimal, precision, up
from hush.core.work import spend

_WORKING_BITS = 192
_LARGEST_LOCAL_EPSILON = 30
_MAX_SHUFFLED_REPORTS = 10**12


def shuffled_delta(epsilon0: Number, *, reports: int, epsilon: Number) -> Bound:
    """Return the δ at which shuffled reports are (``epsilon``, δ)-DP: an upper bound for every randomiser.

    ``lower`` and ``upper`` enclose the δ of the pair, which binary randomized response attains for two reports.
    """
    local, count = read_shuffle(epsilon0, reports)
    with precision(_WORKING_BITS):
        value = _delta(local, count, nonnegative(epsilon, "epsilon"))
        return Bound(lower=max(0.0, down(value)), upper=min(1.0, up(value)))


def shuffled_epsilon(epsilon0: Number, *, reports: int, delta: Number) -> Bound:
    """Return the ε at which shuffled reports are (ε, ``delta``)-DP: an upper bound for every randomiser."""
    local, count = read_shuffle(epsilon0, reports)
    target = fraction_between(delta, "delta")

    def reached(epsilon: float) -> Bound:
        return shuffled_delta(local, reports=count, epsilon=Fraction(epsilon))

    with precision(_WORKING_BITS):
        guess = _guess(local, count, float(target))
    lower, upper = _enclosed(reached, guess, largest=up(ball(local)), target=target)
    if not lower and reached(0.0).upper <= target:
        return Bound(lower=0.0, upper=0.0)
    while upper - lower > 2e-6 * min(upper, 0.5):  # after a poor guess
        middle = (lower + upper) / 2
        ends = reached(middle)
        if ends.upper <= target:
            upper = middle
        elif ends.lower >= target:
            lower = middle
        else:  # they do not tell: both ends hold as they are
            break
    return Bound(lower=lower, upper=upper)


def _enclosed(
    reached: Callable[[float], Bound], guess: float, *, largest: float, target: Fraction | float
) -> tuple[float, float]:
    """Return the ends of ε at a δ, the nearest of a few around a guess that are certified, else 0 and the largest.

    An upper end of ε is certified by the upper end of δ there, a lower one by the lower end.
    """
    lower, upper = 0.0, largest
    for width in (1e-6, 1e-4, 1e-2, 0.1, 0.5):
        above, below = guess * (1 + width), guess * (1 - width)
        if upper == largest and above < largest and reached(above).upper <= target:
            upper = above
        if not lower and below < upper and reached(below).lower >= target:
            lower = below
    return lower, upper


def read_shuffle(epsilon0: Number, reports: int) -> tuple[Fraction, int]:
    """Return a local ε and a number of reports within the limits of the bound."""
    local = positive(epsilon0, "epsilon0")
    if local > _LARGEST_LOCAL_EPSILON:
        raise InvalidValueError("epsilon0", got=epsilon0, allowed=f"at most {_LARGEST_LOCAL_EPSILON}")
    return local, integer(reports, "reports", minimum=1, maximum=_MAX_SHUFFLED_REPORTS)


def _delta(local: Fraction, reports: int, epsilon: Fraction) -> Ball:
    """Return a ball around δ(ε) of the pair."""
    arb = flint().arb
    if epsilon >= local:
        return arb(0)
    # The law of C ~ Bin(n-1, 2/(e^ε₀+1)) on the numbers that matter, from c to last.
    rate, other_reports = 2 / (ball(local).exp() + 1), reports - 1
    odds, mean = rate / (1 - rate), other_reports * float(rate)
    half_width = 9 * math.sqrt(mean * (1 - float(rate))) + 25
    c, last = max(0, math.floor(mean - half_width)), min(other_reports, math.ceil(mean + half_width))
    spend(4 * (last - c))
    log_mass = arb(other_reports + 1).lgamma() - arb(c + 1).lgamma() - arb(other_reports - c + 1).lgamma()
    mass = (log_mass + c * rate.log() + (other_reports - c) * (1 - rate).log()).exp() if other_reports else arb(1)
    p, e_epsilon = ball(local).exp() / (ball(local).exp() + 1), ball(epsilon).exp()
    theta = (e_epsilon * p - (1 - p)) / ((2 * p - 1) * (1 + e_epsilon))
    above, below = p - e_epsilon * (1 - p), 1 - p - e_epsilon * p
    nearly, both = float(theta), above + below
    j, slack = _first_above(theta, c + 1, nearly)
    j -= 1
    tail, atom = _half_tail(c, j)
    total, doubt = arb(0), arb(0) if slack is None else slack
    weight = mass
    below_first = arb(0)
    if c > 0:  # the masses below the first c fall at least geometrically; δ_c ≤ 1 there
        ratio = c / (odds * (other_reports - c + 1))
        below_first = weight * ratio / (1 - ratio)
    while True:
        if j <= c:
            total += weight * (both * tail - below * atom)
        if c == last:
            break
        # c → c+1 at the same j, then j → j+1 while θ(c+2) is past it.
        if j <= c:
            tail = tail + atom * j / (2 * (c - j + 1)) if j else tail
            atom = atom * (c + 1) / (2 * (c + 1 - j))
        else:
            tail, atom = _half_tail(c + 1, j)
        weight = weight * odds * (other_reports - c) / (c + 1)
        c += 1
        k, slack = _first_above(theta, c + 1, nearly)
        if slack is not None:
            doubt = doubt + slack
        while j < k - 1:
            tail, atom = tail - atom, atom * (c - j) / (j + 1)
            j += 1
    beyond = arb(0)
    if c < other_reports:
        ratio = odds * (other_reports - c) / (c + 1)
        beyond = weight * ratio / (1 - ratio)
    outside = (below_first + beyond).upper()
    return total + arb(0).union(outside) + doubt  # the c outside add between 0 and their mass


def _first_above(theta: Ball, times: int, nearly: float) -> tuple[int, Any]:
    """Return the first whole number above θ·times, and a doubt to be added where that is not certain.

    ``nearly`` is θ, below 2, rounded to a float; the product of floats is right to 2⁻⁵¹·times, so that its floor is
    certain where it is further than that from every whole number.
    """
    product = nearly * times
    below = math.floor(product)
    if 2.0**-50 * times < product - below < 1 - 2.0**-50 * times:
        return below + 1, None
    spend(16)
    value = theta * times
    certain = value.floor().unique_fmpz()
    if certain is not None:
        return int(certain) + 1, None
    return round(float(value)) + 1, flint().arb(0, 2.0**-100)


def _half_tail(c: int, j: int) -> tuple[Ball, Ball]:
    """Return P(Bin(c, ½) ≥ j) and P(Bin(c, ½) = j)."""
    arb = flint().arb
    if j > c:
        return arb(0), arb(0)
    log_atom = arb(c + 1).lgamma() - arb(j + 1).lgamma() - arb(c - j + 1).lgamma() - c * arb(2).log()
    atom = log_atom.exp()
    tail, term, i = arb(0), atom, j
    while i <= c:
        spend()
        tail += term
        i += 1
        term = term * (c - i + 1) / i
        # For i past the middle the terms fall, faster than geometrically: the rest is below term·ρ/(1-ρ).
        if 2 * i > c + 1 and term < atom * arb(2) ** -200:
            ratio = arb(c - i) / (i + 1)
            tail += arb(0).union((term / (1 - ratio)).upper())
            break
    return tail, atom


def _guess(local: Fraction, reports: int, target: float) -> float:
    """Return an estimate of ε: by floats, then by steps along ln δ, which is nearly a line there."""
    largest = float(local)
    low, high = 0.0, largest
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if _rough_delta(largest, reports, middle) > target else (low, middle)
    guess = high
    for _ in range(4):
        step = 1e-3 * guess
        around = [_rough_delta(largest, reports, guess + side * step) for side in (-1, 1)]
        value = float(_delta(local, reports, Fraction(guess)))
        if min(*around, value) <= 0 or around[0] <= around[1]:
            break
        slope = math.log(around[1] / around[0]) / (2 * step)
        moved = min(max(guess + math.log(target / value) / slope, guess / 2), (guess + largest) / 2)
        guess, last = moved, guess
        if abs(guess - last) < 1e-4 * guess:  # the next step would be a hundred times smaller
            break
    return guess


def _rough_delta(local: float, reports: int, epsilon: float) -> float:
    """Return an estimate of δ(ε), by normal tails of the binomial laws."""
    rate = 2 / (math.exp(local) + 1)
    other_reports = reports - 1
    mean, deviation = other_reports * rate, math.sqrt(other_reports * rate * (1 - rate))
    c = np.unique(np.rint(np.clip(mean + deviation * np.linspace(-6, 6, 33), 0, other_reports)))
    weights = np.exp(-((c - mean) ** 2) / (2 * deviation**2 + 1e-9))
    p, e = math.exp(local) / (math.exp(local) + 1), math.exp(epsilon)
    theta = (e * p - (1 - p)) / ((2 * p - 1) * (1 + e))
    k = np.floor(theta * (c + 1)) + 1
    tails = [
        np.array([math.erfc(x) / 2 for x in (j - 0.5 - c / 2) / np.sqrt(np.maximum(c, 1) / 2)]) for j in (k - 1, k)
    ]
    deltas = (p - e * (1 - p)) * tails[0] + (1 - p - e * p) * tails[1]
    return float((weights * deltas).sum() / weights.sum())


MOST_REPORTS = 20_000
"""Beyond this the sweep over all m takes too long; the stronger clone bound does for any number."""
LEAST_REPORTS = 1_000
LARGEST_EPSILON = 8
_MAX_VALUES_AT_ONCE = 2**21
_UNIT = 2.0**-53
"""The relative error of one rounded operation."""


def shuffled_response_delta(epsilon0: Number, *, reports: int, epsilon: float) -> Bound:
    """Return the exact δ of shuffled binary randomized response at this ε, with its certified ends."""
    local, count = _read(epsilon0, reports)
    value, error = _largest(local, count, epsilon, range((count + 1) // 2, count))
    value_low, error_low = _largest(local, count, epsilon, range((count + 1) // 2))
    error = max(error, error_low)
    best = max(value, value_low)
    return Bound(lower=max(0.0, best - error), upper=min(1.0, best + error))


def shuffled_response_epsilon(epsilon0: Number, *, reports: int, delta: Number) -> Bound:
    """Return certified bounds around the ε of shuffled binary randomized response at this δ."""
    local, count = _read(epsilon0, reports)
    target = down(ball(fraction_between(delta, "delta")))
    low, high = 0.0, local
    ends = [0, count // 2, count - 1]  # three compositions suffice for a guess; the ends below are for all m
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _largest(local, count, middle, ends)[0] > target else (low, middle)
    lower, upper = _enclosed(
        lambda x: shuffled_response_delta(epsilon0, reports=count, epsilon=x), high, largest=local, target=target
    )
    return Bound(lower=lower, upper=upper)


def largest_local_epsilon(*, reports: int, epsilon: Number, delta: Number) -> Fraction:
    """Return the largest ε₀, to 4 digits, at which shuffled binary responses are certified to be (ε, δ)-DP."""
    count = _read(1, reports)[1]
    budget, target = down(ball(positive(epsilon, "epsilon"))), down(ball(fraction_between(delta, "delta")))
    ends = [0, count // 2, count - 1]
    local = largest_decimal(
        lambda x: x <= LARGEST_EPSILON and _largest(float(x), count, budget, ends)[0] <= target, digits=4
    )
    # The search looked at three compositions only; the certificate is for all of them.
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
    p, other_reports = 1 / (1 + math.exp(-local)), reports - 1
    deviation = math.sqrt(other_reports * p * (1 - p))
    length = 1 << max(6, math.ceil(math.log2(24 * deviation + 96)))
    omega = 2 * math.pi * np.arange(length // 2 + 1) / length
    # Logarithms of the two factors, each with the turn of its mean taken out: what is left is small where it matters.
    logs = [np.log(1 - x + x * np.exp(1j * omega)) - 1j * omega * x for x in (p, 1 - p)]
    a, rise = p - math.exp(epsilon) * (1 - p), math.expm1(epsilon)
    largest, worst = 0.0, 0.0
    rows = max(1, _MAX_VALUES_AT_ONCE // length)
    spend(len(compositions) * length // 32)
    members = np.asarray(compositions)
    for start in range(0, len(members), rows):
        m = members[start : start + rows, None]
        mean = m * p + (other_reports - m) * (1 - p)
        # A whole number near the mean is the middle of the window.
        centre = np.rint(mean)
        powers = np.exp(m * logs[0] + (other_reports - m) * logs[1] + 1j * omega * (mean - centre + length // 2))
        masses = np.fft.irfft(np.conj(powers), n=length, axis=1)
        tails = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1]
        deltas = a * masses[:, :-1] - rise * tails[:, 1:]
        moduli = np.abs(powers)
        sampled = 2 * moduli.sum(axis=1) / length * 32 * (other_reports + 8) * _UNIT
        transform = 16 * math.log2(length) * _UNIT * np.sqrt((masses**2).sum(axis=1)) * math.sqrt(length)
        wrapped = 2 * math.exp(-72)
        summing = length * _UNIT
        # A bound for one mass; a tail sums at most `length` of them.
        each = float((sampled + transform).max()) + wrapped + summing
        worst = max(worst, (a + rise * length) * each)
        largest = max(largest, float(deltas.max()))
    return largest, worst
