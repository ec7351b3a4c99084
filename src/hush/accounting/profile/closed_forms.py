r"""Closed forms in ball arithmetic: Gaussians alone, one step of any pair, and few steps by their residues.

Gaussians add up to one, whose profile is known, as is that of one step of some pairs (:class:`ClosedForm`).

**Expansion** of few Laplace, randomized-response and bounded-range steps (:class:`Expansion`). With s = z + 1/2 each of
these moments is a short sum of e^{sx}·q(1/s), x a loss and q a polynomial: so is a product of them. For one term,
closing the contour of :mod:`.contour` to the left,

    (1/2πi) ∫ e^{s(x−ε)} s^{-j} / (s²−1/4) ds = 0 for x ≤ ε, and for x > ε
    R_j(x−ε) = 2^{j+1} Σ_{i≥0} (y/2)^{j+1+2i}/(j+1+2i)!

with y = x − ε (the residues at ±1/2 less the Taylor polynomial at 0), and δ(ε) = e^{ε/2}·Σ_{x>ε} Σ_j q_{x,j} R_j(x−ε).
The coefficients alternate in sign. Cancellation shows in the ball's radius, and more bits make up for it.

**Bounded ranges fixed in advance** (Dong, Durfee, Rogers 2020, Theorem 5). k mechanisms of range ε fixed in advance are
no worse than k generalised randomized responses with losses t and t − ε for one t in [0, ε]: with p_t =
(e^{-t}−e^{-ε})/(1−e^{-ε}),

    δ(ε_g) = max_t Σ_i C(k,i) p_t^{k-i} (1−p_t)^i (e^{kt−iε} − e^{ε_g})₊,

and the maximum is attained at one of t_l = (ε_g + (l+1)ε)/(k+1), l = 0…k−1, moved into [0, ε]. This does not hold when
the mechanisms are chosen as answers come in; then the dominating pair of :mod:`hush.accounting.pairs.hyperbolic` does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from hush.accounting.pairs.base import UNIT, Floats, Pair, Terms
from hush.accounting.pairs.gaussian import gaussian_profile
from hush.accounting.pairs.hyperbolic import BoundedRangePair
from hush.accounting.profile.cumulant import Cumulant
from hush.accounting.profile.method import LogInterval, Method
from hush.core.rounding import Ball, ball, down, flint, precision, up

_MAX_EXPANSION_TERMS = 60_000
_MAX_EXPANSION_BITS = 8192


def _times(first: Terms, second: Terms) -> Terms:
    product: Terms = {}
    for x, p in first.items():
        for y, q in second.items():
            coefficient = product.get(x + y)
            product[x + y] = p * q if coefficient is None else coefficient + p * q
    return product


def _power(terms: Terms, count: int) -> Terms:
    """Return the terms of the count-th power; two-term sums by the binomial theorem."""
    if len(terms) == 2:
        (x, p), (y, q) = terms.items()
        unit = flint().arb_poly([1])
        powers_p, powers_q = [unit], [unit]
        for _ in range(count):
            powers_p.append(powers_p[-1] * p)
            powers_q.append(powers_q[-1] * q)
        return {
            (count - i) * x + i * y: powers_p[count - i] * powers_q[i] * flint().arb(math.comb(count, i))
            for i in range(count + 1)
        }
    result: Terms = {Fraction(0): flint().arb_poly([1])}
    base = terms
    while count:
        if count & 1:
            result = _times(result, base)
        count >>= 1
        if count:
            base = _times(base, base)
    return result


def _log_ends(value: Ball, *, last: bool) -> LogInterval | None:
    """Return the ends of ln δ from a ball around δ; None where more bits would help, and this is not the ``last`` try.

    The upper end of a wide ball holds, and nothing is claimed below it.
    """
    if value.is_zero():
        return LogInterval(lower=-math.inf, upper=-math.inf)
    if value > 0 and value.rel_accuracy_bits() > 56:
        log = value.log()
        return LogInterval(lower=down(log), upper=up(log))
    top = value.abs_upper()
    return LogInterval(lower=-math.inf, upper=min(0.0, up(top.log())) if top.is_finite() else 0.0) if last else None


class Expansion(Method):
    """δ(ε) of a small composition, to any accuracy."""

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        super().__init__(cumulant, largest=largest)
        self._bits = 256
        self._known: dict[int, list[tuple[Fraction, list[Ball]]]] = {}

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether the expansion is short enough to be worth writing out."""
        losses, degree = 1, 1
        for pair, count in pairs.items():
            terms = pair.terms()
            if terms is None or count > 2000:
                return False
            losses *= (len(terms) - 1) * count + 1
            degree += max(polynomial.degree() for polynomial in terms.values()) * count
            if losses * degree > _MAX_EXPANSION_TERMS:
                return False
        return True

    def _expanded(self, bits: int) -> list[tuple[Fraction, list[Ball]]]:
        """Return the losses x, from the largest, each with the coefficients of q_x."""
        if bits not in self._known:
            product: Terms = {Fraction(0): flint().arb_poly([1])}
            for pair, count in self.cumulant.pairs.items():
                terms = pair.terms()
                assert terms is not None  # noqa: S101 - suits() was asked
                product = _times(product, _power(terms, count))
            self._known[bits] = [(x, product[x].coeffs()) for x in sorted(product, reverse=True)]
        return self._known[bits]

    def _delta(self, epsilon: Fraction, bits: int) -> Ball:
        total = flint().arb(0)
        for x, coefficients in self._expanded(bits):
            if x <= epsilon:
                break
            total += _ball_residues(ball(x - epsilon) / 2, coefficients, bits)
        return total * (ball(epsilon) / 2).exp()

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε); bits are added until the relative width is below 1e-15."""
        exact = Fraction(epsilon)
        while True:
            with precision(self._bits):
                ends = _log_ends(self._delta(exact, self._bits), last=self._bits >= _MAX_EXPANSION_BITS)
                if ends is not None:
                    return ends
            self._bits *= 2


def _ball_residues(half: Ball, coefficients: list[Ball], bits: int) -> Ball:
    """Return Σ_j q_j R_j(2·half), by suffix sums of half^r/r! over r of one parity."""
    degree = len(coefficients)
    least_terms = degree + 2
    term = flint().arb(1)
    powers = [term]
    tiny = flint().arb(2) ** (-bits)
    r = 0
    first = None
    while True:
        r += 1
        term = term * half / r
        powers.append(term)
        if first is None and r == degree:
            first = term
        # On until the terms fall by half each time, and are small next to the first one that is used.
        if r >= least_terms and 2 * half < r and (term < tiny * first if first is not None else True):
            break
        if r > 100_000:
            return flint().arb.nan()
    # The two parities' remainders: ratios below (half/r)² < 1/4.
    remainder = flint().arb(0, 1) * (2 * term).abs_upper()
    suffix = [remainder, remainder]
    total = flint().arb(0)
    for r in range(len(powers) - 1, 0, -1):
        suffix[r % 2] = suffix[r % 2] + powers[r]
        j = r - 1
        if j < degree:
            total += coefficients[j] * suffix[r % 2] * flint().arb(2) ** (j + 1)
    return total


_MAX_CLOSED_FORM_BITS = 1 << 16


class ClosedForm(Method):
    """One pair, or Gaussians alone: the closed form in ball arithmetic."""

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether there is one step alone with a quick profile, or nothing but Gaussians."""
        if all(pair.gaussian() is not None for pair in pairs):
            return True
        return list(pairs.values()) == [1] and next(iter(pairs)).brief()

    def log_delta(self, epsilon: float) -> LogInterval:
        bits = 128
        while True:
            with precision(bits):
                ends = _log_ends(self._delta(ball(epsilon)), last=bits > _MAX_CLOSED_FORM_BITS)
                if ends is not None:
                    return ends
            bits *= 4

    def _delta(self, epsilon: Ball) -> Ball:
        pairs = self.cumulant.pairs
        squares = [(pair.gaussian(), count) for pair, count in pairs.items()]
        if all(square is not None for square, _ in squares):
            total = sum((count * ball(square) for square, count in squares if square is not None), flint().arb(0))
            return gaussian_profile(total, epsilon)
        return next(iter(pairs)).profile(epsilon, reverse=self.cumulant.reverse)


_MAX_RANGES = 3000
"""The largest number of steps for the k² terms of the formula; beyond, the dominating pair is used."""


class RangeOptimum(Method):
    """Equal mechanisms of bounded range, fixed in advance and alone."""

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether there is nothing else, and not too many steps."""
        fixed = all(isinstance(pair, BoundedRangePair) and pair.fixed for pair in pairs)
        return len(pairs) == 1 and fixed and max(pairs.values()) <= _MAX_RANGES

    def log_delta(self, epsilon: float) -> LogInterval:
        ((pair, count),) = self.cumulant.pairs.items()
        assert isinstance(pair, BoundedRangePair)  # noqa: S101 - suits() was asked
        return _log_range_delta(float(pair.epsilon), count, epsilon)


def _log_range_delta(width: float, count: int, target: float) -> LogInterval:
    """Return the ends of ln δ: the formula at every t_l, in logarithms, with its rounding."""
    steps = np.arange(count + 1, dtype=np.float64)
    logs = np.array(
        [math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1) for i in range(count + 1)]
    )
    thresholds = np.unique(np.clip((target + (np.arange(-1, count + 1) + 1) * width) / (count + 1), 0.0, width))
    best_low, best_high = -math.inf, -math.inf
    # Some rows of the k × k table at a time: it need not fit into memory.
    rows = max(1, 200_000 // (count + 1))
    for start in range(0, len(thresholds), rows):
        low, high = _range_rows(thresholds[start : start + rows, None], steps, logs, width, count, target)
        best_low, best_high = max(best_low, low), max(best_high, high)
    return LogInterval(lower=best_low, upper=min(best_high, 0.0))


def _range_rows(t: Floats, i: Floats, choose: Floats, width: float, count: int, target: float) -> tuple[float, float]:
    """Return both ends of the largest ln δ over some t (a column), summed over all i (a row)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        norm = -math.expm1(-width)
        log_p = -t + np.log(np.maximum(-np.expm1(t - width), 0.0)) - math.log(norm)
        log_q = np.log(-np.expm1(-t)) - math.log(norm)
        weights = choose + np.where(i == count, 0.0, (count - i) * log_p) + np.where(i == 0, 0.0, i * log_q)
        gap = count * t - i * width - target
        terms = np.where(
            gap > 0, weights + target + np.log(np.expm1(np.minimum(np.maximum(gap, 1e-300), 700.0))), -np.inf
        )
        # The effect of the gap's own rounding: the term's slope is e^{weights + target + gap}.
        slip = 8 * UNIT * (count * t + i * width + target)
        extra = np.where(gap > -slip, weights + target + gap + np.log(slip), -np.inf)
        size = (
            np.where(np.isfinite(weights), np.abs(weights), 0.0) + np.abs(choose) + 4 * count * t + 4 * i * width + 64
        )
    top = np.maximum(terms.max(axis=1), -1e300)
    summed = np.exp(terms - top[:, None])
    value = summed.sum(axis=1)
    # lgamma is good to a few units of its value, which can be as large as k·ln k.
    with np.errstate(over="ignore"):  # where no term is positive: then nothing is claimed
        slack = np.exp(extra - top[:, None]).sum(axis=1)
    error = (summed * (32 * UNIT * (size + 4 * count * math.log(count + 2)))).sum(axis=1) + slack
    with np.errstate(divide="ignore"):
        high = np.max(np.log(value + error) + top)
        low = np.max(np.where(value > error, np.log(np.maximum(value - error, 1e-300)) + top, -np.inf))
    return float(low) - 1e-15 * abs(float(low)), float(high) + 1e-15 * abs(float(high))
