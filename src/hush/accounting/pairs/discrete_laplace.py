r"""Discrete Laplace noise: P(x) ∝ e^{-a|x-Δ|} against Q(x) ∝ e^{-a|x|} on the integers, a = 1/scale.

The losses a(|x| − |x−Δ|) are −aΔ for x ≤ 0, aΔ for x ≥ Δ and a(2x−Δ) between: a lattice of span 2a. With r = e^{-a} and
s = z + 1/2,

    M(z) = e^{-aΔ/2}·[2cosh(saΔ) + (1−r)·Σ_{x=1}^{Δ-1} e^{sa(2x-Δ)}] / (1+r),

and the sum is sinh(sa(Δ−1))/sinh(sa). With Δ = 1 this is randomized response with ε = a.

>>> from fractions import Fraction
>>> pair = DiscreteLaplacePair(parameter=Fraction(3, 10), sensitivity=3)
>>> abs(float(pair.moment(flint().acb(0)).real.mid()) - 1) < 1e-15
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.accounting.pairs.base import UNIT, Complexes, Floats, Pair, Terms, expm1, total
from hush.accounting.pairs.hyperbolic import sinhc
from hush.core.balls import Ball, ball, down, flint

_MAX_LISTED_SENSITIVITY = 64
"""The largest sensitivity at which the losses are listed one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplacePair(Pair):
    """Discrete Laplace with parameter a = 1/scale and a whole sensitivity of at least 2 (1 is randomized response)."""

    parameter: Fraction
    sensitivity: int

    def __hash__(self) -> int:
        return hash((6, self.parameter.as_integer_ratio(), self.sensitivity))

    def moment(self, z: Ball) -> Ball:
        """Return M(z), by the closed form, or term by term next to the zeros of sinh(sa)."""
        a, delta = ball(self.parameter), self.sensitivity
        s = z + flint().arb(1) / 2
        r = (-a).exp()
        below = (s * a).sinh()
        if (s * a).abs_upper() < 1:
            # At s = 0 too, where both sines vanish and the sum is Δ − 1.
            summed = (delta - 1) * sinhc(s * a * (delta - 1)) / sinhc(s * a)
        elif below.abs_lower() > flint().arb(2) ** -20 or delta > 4096:
            # Far from the zeros of sinh the quotient loses at most 20 bits; a large Δ may lose more near them. The
            # ball's radius shows the loss.
            summed = (s * a * (delta - 1)).sinh() / below
        else:
            step = (2 * s * a).exp()
            term, summed = (s * a * (2 - delta)).exp(), flint().acb(0)
            for _ in range(delta - 1):
                summed += term
                term *= step
        return (-a * delta / 2).exp() * (2 * (s * a * delta).cosh() + (1 - r) * summed) / (1 + r)

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:
        """Return aΔ."""
        return ball(self.parameter * self.sensitivity)

    def _tail(self, first: int) -> tuple[Ball, Ball]:
        """Return the masses of {x ≥ first} under P and under Q, 1 ≤ first ≤ Δ: sums of geometric series."""
        a, delta = ball(self.parameter), self.sensitivity
        r = (-a).exp()
        # Under P, below Δ: Σ_{x=f}^{Δ-1} r^{Δ-x}(1−r)/(1+r) = (r − r^{Δ-f+1})/(1+r).
        moved = (1 + r - (-a * (delta - first + 1)).exp()) / (1 + r)
        return moved, (-a * first).exp() / (1 + r)

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        """Return P(x ≥ f) − e^ε·Q(x ≥ f), with f the first x of a loss above ε (near the edge either f will do)."""
        a, delta = ball(self.parameter), self.sensitivity
        if epsilon >= a * delta:
            return flint().arb(0)
        if epsilon < -a * delta:
            return -epsilon.expm1()
        first = math.floor(down((epsilon / a + delta) / 2)) + 1
        best = flint().arb(0).max(-epsilon.expm1())
        # The worst event is the best half-line, so the largest of several candidates is the value.
        for x in {min(max(first + shift, 1), delta) for shift in (-1, 0, 1)}:
            moved, still = self._tail(x)
            best = best.max(moved - epsilon.exp() * still)
        return best

    def lattice(self) -> tuple[Fraction, Fraction]:
        """Return aΔ + 2a·ℤ."""
        return self.parameter * self.sensitivity, 2 * self.parameter

    def top_mass(self, *, reverse: bool = False) -> Ball | None:
        """Return 1/(1+r), the mass of all x ≥ Δ."""
        return 1 / (1 + (-ball(self.parameter)).exp())

    def exact_largest_loss(self) -> Fraction:
        """Return aΔ."""
        return self.parameter * self.sensitivity

    def terms(self) -> Terms | None:
        """Return the losses a(2x−Δ), x = 0…Δ, each with its mass times e^{-loss/2}."""
        if self.sensitivity > _MAX_LISTED_SENSITIVITY:
            return None
        a, delta, poly = self.parameter, self.sensitivity, flint().arb_poly
        r = (-ball(a)).exp()
        front = (-ball(a) * delta / 2).exp() / (1 + r)
        return {a * (2 * x - delta): poly([front * (1 if x in {0, delta} else 1 - r)]) for x in range(delta + 1)}

    def terms_shape(self) -> tuple[int, int] | None:
        """Return Δ + 1 losses, where they are few."""
        return None if self.sensitivity > _MAX_LISTED_SENSITIVITY else (self.sensitivity + 1, 0)

    def group(self, size: int) -> Pair:
        """Return ``size`` times the sensitivity."""
        return DiscreteLaplacePair(parameter=self.parameter, sensitivity=self.sensitivity * size)

    def rho(self) -> Ball:
        """Return e·tanh(e/2), e = aΔ: the ρ of every e-DP mechanism."""
        e = ball(self.parameter * self.sensitivity)
        return e * (e / 2).tanh()

    def cumulant(self, z: Complexes, *, reverse: bool) -> tuple[Complexes, Floats]:
        """Return K̂ and R by the closed form."""
        return _cumulant(float(self.parameter), self.sensitivity, z)

    def log_tail(self, c: float, low: float, high: float, *, reverse: bool) -> float:
        """As for Laplace: 2|cosh(saΔ)| falls until uaΔ = π/2, and |Σ| ≤ cosh(xa(Δ−1))/√(sinh²xa + sin²ua) besides."""
        x, a, delta = c + 0.5, float(self.parameter), self.sensitivity
        r = math.exp(-a)
        top = min(x * a * delta, 350.0)
        cosh = 0.5 * (1 + math.exp(-2 * x * a * delta))  # times e^{xaΔ}
        real = _geometric(a, delta, x)  # Σ at u = 0, times e^{-xaΔ}
        best = 2 * cosh + (1 - r) * real
        if high * a <= math.pi / 2 * (1 + 1e-12):
            inverse = math.exp(-2 * top)
            turn = math.pi / 2 / (a * delta)

            def spread(u: float) -> float:
                sine = math.hypot(math.sinh(min(x * a, 300.0)), math.sin(min(u * a, math.pi / 2)))
                top_ = 0.5 * (math.exp(-x * a) + math.exp(-x * a * (2 * delta - 1)))
                return min(real, top_ / sine if sine > 0 else real)

            best = 2 * cosh + (1 - r) * spread(max(low, turn))
            if low < turn:
                near = 2 * math.sqrt(max(cosh**2 - math.sin(low * a * delta) ** 2 * inverse, 0))
                best = max(best, near + (1 - r) * spread(low))
        log = c * a * delta + math.log(best / (1 + r))
        # Upwards by the rounding of every term above, generously.
        return log + 64 * UNIT * (8 + c * a * delta + abs(log))


def _geometric(a: float, delta: int, x: float) -> float:
    """Return e^{-xaΔ}·Σ_{y=1}^{Δ-1} e^{xa(2y-Δ)} for real x > 0, a little above."""
    q = math.exp(-2 * x * a)
    ratio = -math.expm1(-2 * x * a * (delta - 1)) / -math.expm1(-2 * x * a)
    return q * ratio * (1 + 64 * UNIT)


def _cumulant(a: float, delta: int, z: Complexes) -> tuple[Complexes, Floats]:
    """K = z·aΔ + ln{[1 + e^{-2saΔ} + (1−r)·S]/(1+r)}, S = Σ_{y=1}^{Δ-1} e^{-2say}: every term of modulus at most 1.

    S = q(1−q^{Δ-1})/(1−q) with q = e^{-2sa}; the absolute error of 1−q is amplified by 1/|1−q|², never worse than the
    real case since Re s ≥ 1/2. (1−r)/|1−q| is bounded by 1 for Re s ≥ 1/2.
    """
    s = z + 0.5
    decay = np.exp(-2 * s * a * delta)
    angle = -2 * s * a
    q = np.exp(angle)
    one_minus_q = -expm1(angle)
    last = np.exp(angle * (delta - 1))
    gap = -math.expm1(-a)
    summed = gap * q * (1 - last) / one_minus_q
    size = np.abs(summed)
    bracket = 1 + decay + summed
    away = np.abs(one_minus_q)
    units = (
        16
        + (16 + 16 * np.abs(s) * a * delta) * np.abs(decay)
        + gap * np.abs(q) * np.abs(last) * (16 + 16 * np.abs(s) * a * delta) / away
        + size * (32 + 16 * np.abs(s) * a / away)
        + gap * np.abs(q) * 16 / away
    )
    value, ratio = total(bracket / (1 + math.exp(-a)), UNIT * units)
    log = np.log(value)
    k = z * (a * delta) + log
    return k, ratio + UNIT * (16 * np.abs(z) * a * delta + 8 * np.abs(log) + 8)
