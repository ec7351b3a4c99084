r"""The Gaussian law and its discrete cousin.

Gaussian: P = N(Δ, σ²), Q = N(0, σ²) give K(z) = z(z+1)μ²/2 with μ = Δ/σ; compositions add μ².

Discrete Gaussian (Canonne, Kamath, Steinke 2020) on the integers, with a whole sensitivity Δ: completing the square,

    M(z) = e^{z(z+1)Δ²/2σ²} · Θ((1+z)Δ) / Θ(0),   Θ(t) = Σ_x e^{-(x-t)²/2σ²},

and by Poisson summation Θ(t) ∝ Σ_m e^{-2π²σ²m²} e^{2πimt}. Its losses (2x−Δ)Δ/2σ² form a lattice of span Δ/σ².

>>> from fractions import Fraction
>>> from hush.core.rounding import up
>>> round(up(GaussianPair(mu_squared=Fraction(1, 4)).moment(flint().acb(3)).real.log() / 3), 12)   # α μ²/2, α = 4
0.5
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hush.accounting.pairs.base import EVERYWHERE, UNIT, Batch, Complexes, Floats, LossCells, Pair, Range, total
from hush.accounting.pairs.loss_cells import discrete_gaussian_cells
from hush.core.rounding import Ball, ball, down, flint
from hush.core.work import spend


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianPair(Pair):
    """N(Δ, σ²) against N(0, σ²), by μ² = Δ²/σ²."""

    mu_squared: Fraction

    def __hash__(self) -> int:
        return hash((1, self.mu_squared.as_integer_ratio()))

    def moment(self, z: Ball) -> Ball:
        """Return e^{z(z+1)μ²/2}."""
        return (z * (z + 1) * ball(self.mu_squared / 2)).exp()

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:
        """Return None: the loss is itself Gaussian."""
        return None

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        """Return Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) (Balle, Wang 2018)."""
        return gaussian_profile(ball(self.mu_squared), epsilon)

    def renyi(self, alpha: Fraction) -> Ball:
        return ball(alpha * self.mu_squared / 2)

    def group(self, size: int) -> Pair:
        return GaussianPair(mu_squared=self.mu_squared * size**2)

    def gaussian(self) -> Fraction:
        return self.mu_squared

    def strength(self) -> Fraction:
        return self.mu_squared

    def rho(self) -> Ball:
        """Return μ²/2, exact and tight."""
        return ball(self.mu_squared / 2)

    @classmethod
    def batch(cls, pairs: Sequence[Any], counts: Sequence[int], *, reverse: bool = False) -> Batch:
        """Return one Gaussian: Gaussians compose to the Gaussian of the summed μ²."""
        return _GaussianBatch(pairs, counts)


def gaussian_profile(mu_squared: Ball, epsilon: Ball) -> Ball:
    """Return Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), as halves of erfc so that deep tails keep their digits."""
    mu = mu_squared.sqrt()
    root = flint().arb(2).sqrt()
    first = ((epsilon / mu - mu / 2) / root).erfc()
    second = ((epsilon / mu + mu / 2) / root).erfc()
    return (first - epsilon.exp() * second) / 2


class _GaussianBatch(Batch):
    """Every conversion, product and the sum are correctly rounded: μ² carries a relative error below 3 units."""

    def __init__(self, pairs: Sequence[GaussianPair], counts: Sequence[int]) -> None:
        self.mu_squared = math.fsum(float(pair.mu_squared) * count for pair, count in zip(pairs, counts, strict=True))

    def cumulant(self, z: Complexes) -> tuple[Complexes, Floats]:
        half = 0.5 * self.mu_squared
        product = z * (z + 1.0)
        return half * product, 16 * UNIT * half * np.abs(z) * np.abs(z + 1.0)

    def log_tail(self, c: float, low: float, high: float) -> float:
        # |M(c+iu)| = exp((c(c+1) − u²)μ²/2) falls with u.
        half = 0.5 * self.mu_squared
        return half * (c * (c + 1) - low * low) + 16 * UNIT * half * (c * (c + 1) + low * low)


_LEAST_VARIANCE = Fraction(1, 2500)
"""Noise that is narrower has an ε in the thousands, and nothing is said of its moment.

From σ = 1/50 on, the terms that the sums below leave out fall by half each time, and each sum has few terms.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussianPair(Pair):
    """The integer law ∝ e^{-(x-Δ)²/2σ²} against ∝ e^{-x²/2σ²}."""

    sigma_squared: Fraction
    sensitivity: int

    def __hash__(self) -> int:
        return hash((2, self.sigma_squared.as_integer_ratio(), self.sensitivity))

    def moment(self, z: Ball) -> Ball:
        """Return M(z) by the Poisson dual."""
        if self.sigma_squared < _LEAST_VARIANCE:
            return flint().acb(flint().arb.nan())
        delta, variance = self.sensitivity, ball(self.sigma_squared)
        gauss = z * (z + 1) * (ball(Fraction(delta * delta)) / (2 * variance))
        turn = 2 * flint().arb.pi() * (1 + z) * delta
        weight = 2 * flint().arb.pi() ** 2 * variance
        # |term m| = exp(Re gauss − weight·m² − m·Im(turn)); centre the sum on the largest.
        middle = math.floor(-float((turn.imag / (2 * weight)).mid()) + 0.5)
        bits = flint().ctx.prec
        # Terms fall like e^{-2π²σ²m²} with 2π² > 2·9.8; 0.7 > ln 2 nats for each bit of the working precision.
        last = 3 + math.isqrt(int(bits * 0.7 / (2 * 9.8 * float(self.sigma_squared))) + 1)
        total_, norm = flint().acb(0), flint().arb(0)
        for step in range(-last, last + 1):
            m = middle + step
            total_ += (gauss - weight * m * m + turn * flint().acb(0, 1) * m).exp()
            norm += (-weight * step * step).exp()
        # Beyond |step| > last the exponent is Re gauss + Im²/4w − w(m − m*)², |m − m*| ≥ last + 1/2; ratios < 1/2.
        peak = (gauss.real + turn.imag**2 / (4 * weight)).exp()
        omitted = 4 * (-weight * (ball(Fraction(2 * last + 1, 2)) ** 2)).exp()
        tail = flint().arb(0, 1) * (peak * omitted).abs_upper()
        norm += flint().arb(0, 1) * omitted.abs_upper()
        return (total_ + flint().acb(tail, tail)) / norm

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:
        """Return None: the losses fill a lattice without end."""
        return None

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        """Return Σ_{x>t} (P(x) − e^ε Q(x)), with t where the loss passes ε; the terms left out are bounded."""
        delta, variance = self.sensitivity, ball(self.sigma_squared)
        threshold = epsilon * variance / delta + ball(Fraction(delta, 2))
        # Terms where the sign is in doubt are nearly zero, and clipped at zero.
        first = math.floor(down(threshold))
        # Up to where e^{-x²/2σ²} is below 2^{-(bits + 64)}.
        last = 2 + math.isqrt(int(2 * float(self.sigma_squared) * 0.7 * (flint().ctx.prec + 64)) + 1)
        start = max(first, delta - last)
        spend(4 * last)
        summed = flint().arb(0)
        for x in range(start, delta + last + 1):
            mass = (-(ball(Fraction((x - delta) ** 2))) / (2 * variance)).exp()
            loss = ball(Fraction(delta * (2 * x - delta), 2)) / variance
            summed += mass * (-(epsilon - loss).expm1()).max(0)
        norm = flint().arb(0)
        for x in range(-last, last + 1):
            norm += (-(ball(Fraction(x * x))) / (2 * variance)).exp()
        # Left out on either side: at most Σ_{x>last} e^{-x²/2σ²} ≤ e^{-last²/2σ²}·(1 + σ²/last).
        omitted = (-(ball(Fraction(last * last))) / (2 * variance)).exp() * (2 + 2 * variance)
        summed += omitted * flint().arb(1, 1)  # between 0 and twice the bound: the omitted terms are positive
        return summed / (norm + flint().arb(0, 1) * omitted.abs_upper())

    def lattice(self) -> tuple[Fraction, Fraction]:
        span = self.sensitivity / self.sigma_squared
        return self.sensitivity * span / 2, span

    def brief(self) -> bool:
        return self.sigma_squared <= 25

    def atoms_suffice(self, count: int) -> bool:
        """Return whether the law is narrow enough: that of a wide discrete Gaussian has too many points."""
        return float(self.sigma_squared) * count < 2.5e9

    def cells(self, c: float, width: float, *, reverse: bool, noise: Range = EVERYWHERE) -> LossCells | None:
        return discrete_gaussian_cells(math.sqrt(float(self.sigma_squared)), self.sensitivity, c, width)

    def group(self, size: int) -> Pair:
        return DiscreteGaussianPair(sigma_squared=self.sigma_squared, sensitivity=self.sensitivity * size)

    def rho(self) -> Ball:
        """Return Δ²/2σ² (Canonne, Kamath, Steinke 2020, Theorem 4)."""
        return ball(self.sensitivity**2 / (2 * self.sigma_squared))

    def cumulant(self, z: Complexes, *, reverse: bool) -> tuple[Complexes, Floats]:
        """Return K̂ and R by the Poisson dual.

        In M(c+iu) = e^{z(z+1)μ²/2}·Σ_m e^{-2π²σ²m² + 2πim(1+z)Δ} / Σ_m e^{-2π²σ²m²} each term has modulus e^{c(c+1)μ²/2
        − (uμ + 2πσm)²/2}, so the sum runs over the few m nearest to −uμ/2πσ. Where the noise is narrow they cancel, and
        the error shows it.
        """
        # The terms m ≠ 0 have moduli e^{-2πσ(πσ m² − |m| u μ)} relative to m = 0; with uμ ≤ πσ/2 they sum to below
        # 2·Σ e^{-π²σ²(2m² − m)} ≤ 2.1·e^{-π²σ²}, which is nothing for σ² ≥ 9: K is the Gaussian's, but for that.
        variance, delta = float(self.sigma_squared), float(self.sensitivity)
        node = z.astype(np.complex128)
        if self.sigma_squared < _LEAST_VARIANCE:
            k, r = np.zeros(z.shape, dtype=np.complex128), np.full(z.shape, np.inf)
        elif variance >= 9 and float(np.max(np.abs(node.imag))) * delta <= 0.49 * math.pi * variance:
            half = delta * delta / (2 * variance)
            k = half * (node * (node + 1.0))
            r = 16 * UNIT * half * np.abs(node) * np.abs(node + 1.0) + 5 * math.exp(-(math.pi**2) * variance)
        else:
            k, r = _by_dual(self, node)
        return (k if z.dtype.kind == "c" else k.real), r

    def log_tail(self, c: float, low: float, high: float, *, reverse: bool) -> float:
        """Return the Gaussian's peak, less the decay of the theta function.

        The real theta function Σ_m e^{-(v-2πσm)²/2} falls on [0, πσ], symmetric and periodic.
        """
        sigma = math.sqrt(float(self.sigma_squared))
        mu = self.sensitivity / sigma
        peak = c * (c + 1) * mu * mu / 2
        # e^{peak}·θ(t)/θ(0) ≤ e^{peak}: the factor θ(t)/θ(0) is at most 1 for real t.
        if sigma < 0.25 or high * mu > 2 * math.pi * sigma - low * mu:
            return peak
        v = low * mu * (1 - 16 * UNIT)
        # From σ = 1/4 on the 49 terms are complete to e^{-700}; for smaller σ no decay is claimed.
        theta = sum(math.exp(-((v - 2 * math.pi * sigma * m) ** 2) / 2) for m in range(-24, 25))
        norm = sum(math.exp(-((2 * math.pi * sigma * m) ** 2) / 2) for m in range(-24, 25))
        log = math.log(theta) - math.log(norm) if theta > 0 else -v * v / 4
        return peak + min(log + 1e-12, 0.0)


def _by_dual(pair: DiscreteGaussianPair, z: Complexes) -> tuple[Complexes, Floats]:
    variance = float(pair.sigma_squared)
    sigma = math.sqrt(variance)
    delta = float(pair.sensitivity)
    weight = 2 * math.pi**2 * variance
    centre = np.rint(-z.imag * delta / (2 * math.pi * variance))
    last = 2 + math.ceil(3.0 / (2 * sigma))
    peak = z.real * (z.real + 1.0) * (delta * delta / (2 * variance))
    # Everything is divided by e^{peak}, which is |M| without interference: all terms are at most 1.
    summed = np.zeros(z.shape, dtype=np.complex128)
    size = np.zeros(z.shape)
    fraction = np.remainder((1.0 + z.real) * delta, 1.0)
    for step in range(-last, last + 1):
        m = centre + step
        exponent = -0.5 * (z.imag * delta / sigma + 2 * math.pi * sigma * m) ** 2
        modulus = np.exp(exponent)
        turn = m * fraction  # in whole turns; their whole part is dropped before the exponential
        summed += modulus * np.exp(2j * math.pi * (turn - np.rint(turn)))
        size += modulus * (
            8
            + 8 * np.abs(exponent)
            + 40 * np.abs(m) * (1 + (1 + z.real) * delta)
            + 40 * (np.abs(z.imag) * delta / sigma + 2 * math.pi * sigma * np.abs(m)) * np.sqrt(np.abs(exponent))
        )
    norm = sum(math.exp(-weight * m * m) for m in range(-last, last + 1))
    error = UNIT * (8 * size + 8 * norm) + 4 * math.exp(-weight * (last + 0.5) ** 2) * (1 + np.abs(summed))
    value = summed / norm
    value, ratio = total(value, error / norm)
    imaginary = (2 * z.real + 1) * z.imag * (delta * delta / (2 * variance))
    k = np.log(value) + peak + 1j * imaginary
    return k, ratio + UNIT * (16 * (np.abs(imaginary) + peak) + 8 * np.abs(k) + 8)
