r"""Poisson-subsampled noise: each unit takes part with probability q, then Gaussian or Laplace noise is added.

Under add/remove neighbours the pair is P = (1−q)·N + q·N(Δ), Q = N (Zhu, Dong, Wang 2022, Theorem 11), not symmetric.
With A = 1 − q + q·(density ratio), forward M(z) = E_Q[A^{1+z}], and the reverse direction is M(−1−z) = E_Q[A^{-z}].

**Gaussian.** With κ = Δ/σ, A(t) = 1−q+q·e^{κt-κ²/2} and t standard normal: the trapezoid rule of step h on the line.
f(t) = φ(t)A(t)^p is analytic for |Im t| < π/κ; there |arg A| ≤ κ|Im t|, |φ(t+iy)| = φ(t)e^{y²/2}, and A(t)·cos(κy/2) ≤
|A(t+iy)| ≤ A(t). So ∫|f(t+iy)|dt ≤ e^{y²/2 + |Im p|κ|y|}·C·M(Re z), with C = 1 for Re p ≥ 0 and cos(κy/2)^{Re p} else,
and the rule's error is at most 2·that/(e^{2πy/h} − 1) (Trefethen, Weideman 2014, Theorem 5.1), for any y < π/κ.
Cutting the sum: ln f has slope −t + Re(p)·κω with 0 ≤ ω ≤ 1, so beyond the largest (or before the smallest) of 0 and
Re(p)κ by m it falls by a factor e^{-hm} at least from each node to the next.

>>> from fractions import Fraction
>>> from hush.core.rounding import up
>>> pair = PoissonGaussianPair(rate=Fraction(1, 2), mu_squared=Fraction(1))
>>> abs(up(pair.moment(flint().acb(1)).real) - (1 + 0.25 * (2.718281828459045 - 1))) < 1e-12   # 1 + q²(e^{μ²} − 1)
True

**Laplace.** Under Q the Laplace loss l has atoms 1/2 at −e and e^{-e}/2 at e and the density e^{-(l+e)/2}/4 between
them. With A(l) = 1−q+q·e^l the pair's loss is ln A(l), and M(z) = E_Q[A^{1+z}]:

    M(z) = ½A(−e)^p + ½e^{-e}A(e)^p + ¼∫_{-e}^{e} e^{-(l+e)/2} A(l)^p dl,   p = 1+z (reverse direction: p = −z).

The integral is taken by Gauss–Legendre with n nodes on panels of half-width w ≤ 1/2. On the Bernstein ellipse of
parameter r round a panel, |Im l| ≤ w(r−1/r)/2 =: v and |Re l − centre| ≤ w(r+1/r)/2; there |arg A| ≤ v, and |A| lies
between cos(v/2)·A(Re l) and A(Re l), where A(Re l) changes by at most e^{w(r+1/r)/2} from the panel's centre. The
rule's error is at most (64/15)·w·max|f|·r^{-2n}/(1−r^{-2}) (Trefethen 2008, Theorem 4.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from hush.accounting.pairs.base import (
    UNIT,
    Complexes,
    Floats,
    LossCells,
    Pair,
    by_tilt,
    expm1,
    log1p,
    total,
)
from hush.accounting.pairs.gaussian import GaussianPair
from hush.accounting.pairs.hyperbolic import LaplacePair
from hush.accounting.pairs.loss_cells import laplace_cells, log_a, sampled_gaussian_cells
from hush.core.rounding import Ball, ball, flint, up
from hush.core.work import spend

_MARGIN = 10.0  # the sum is cut where φ has fallen by e^{-50}
_LARGEST_TILT = 400.0
"""The largest tilt, in deviations, at which moments are summed."""
_MAX_VALUES = 6_000_000
"""The largest number of (node, point of the rule) values of one evaluation."""
_MAX_BALL_TERMS = 100_000  # of a moment in ball arithmetic: a second or two


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonGaussianPair(Pair):
    """(1−q)N(0, σ²) + qN(Δ, σ²) against N(0, σ²); ``rate`` = q strictly between 0 and 1, ``mu_squared`` = Δ²/σ²."""

    rate: Fraction
    mu_squared: Fraction
    symmetric = False
    sampled = True

    def __hash__(self) -> int:
        return hash((7, self.rate.as_integer_ratio(), self.mu_squared.as_integer_ratio()))

    def moment(self, z: Ball) -> Ball:
        """Return E[A^{1+z}] by the trapezoid rule, its error inside the ball."""
        module = flint()
        q, kappa = ball(self.rate), ball(self.mu_squared).sqrt()
        p = 1 + z
        power, turn = up(abs(p.real)), up(abs(p.imag))
        negative = not p.real >= 0
        k = up(kappa)
        bits = module.ctx.prec
        nats = 0.7 * bits + 8
        # The strip's half-width y: as wide as φ's growth e^{y²/2} is paid for by e^{-2πy/h}, inside |Im t| < π/κ.
        width = min(math.sqrt(2 * nats), 2.8 / k)
        if negative:
            # cos(κy/2)^{Re p} must not grow beyond e^4 or so.
            width = min(width, 2 * math.sqrt(8 / max(power, 1)) / k)
        h = 2 * math.pi / (turn * k + nats / width + width / 2 + 1)
        margin = math.sqrt(2 * nats) + 1
        low = -margin - (power * k if negative else 0)
        high = margin + (0 if negative else power * k)
        summed, real = module.acb(0), module.arb(0)
        step = ball(h)
        edges = []
        shift = -kappa * kappa / 2
        first, last = math.floor(low / h), math.ceil(high / h)
        if last - first > _MAX_BALL_TERMS:
            return module.acb(module.arb.nan())
        spend(4 * (last - first + 1))
        for j in range(first, last + 1):
            t = step * j
            log_a = (q * (kappa * t + shift).expm1()).log1p()
            weight = -t * t / 2
            size = (weight + p.real * log_a).exp()
            real += size
            summed += size * module.acb(0, p.imag * log_a).exp()
            if j in {first, last}:
                edges.append(size)
        scale = step / (2 * module.arb.pi()).sqrt()
        # Beyond an edge the terms fall by e^{-h·margin} at least: a geometric series.
        cut = (edges[0] + edges[1]) / (-(-step * ball(margin)).expm1())
        y = ball(width)
        grow = (y * y / 2 + abs(p.imag) * kappa * y).exp()
        if negative:
            grow *= ((kappa * y / 2).cos().log() * p.real).exp()
        ratio = 2 * grow / (2 * module.arb.pi() * y / step).expm1()
        # The same at u = 0: the share by which the rule on the real axis may fall short of M(Re z).
        still = (
            2
            * (y * y / 2).exp()
            * (grow / (y * y / 2 + abs(p.imag) * kappa * y).exp())
            / (2 * module.arb.pi() * y / step).expm1()
        )
        mass = scale * (real + cut) / (1 - still)
        radius = module.arb(0, 1) * (mass * ratio + scale * cut).abs_upper()
        return summed * scale + module.acb(radius, radius)

    def renyi(self, alpha: Fraction) -> Ball:
        """Return the divergence, or the unsampled Gaussian's, which is no smaller, where it has too many terms."""
        divergence = Pair.renyi(self, alpha)
        return divergence if divergence.is_finite() else ball(alpha * self.mu_squared / 2)

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:
        """Return None forward, −ln(1−q) in reverse."""
        return -(-ball(self.rate)).log1p() if reverse else None

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        """Return the closed form: the loss is monotone in t, so the worst event is a half-line."""
        q, kappa = ball(self.rate), ball(self.mu_squared).sqrt()
        root = flint().arb(2).sqrt()

        def above(t: Ball) -> Ball:
            return (t / root).erfc() / 2

        def where(log_a: Ball) -> Ball:
            return ((log_a.expm1() / q).log1p() + kappa * kappa / 2) / kappa

        if not reverse:
            if not epsilon > (-q).log1p():
                return -epsilon.expm1()
            t = where(epsilon)
            return q * above(t - kappa) + ((1 - q) - epsilon.exp()) * above(t)
        if not -epsilon > (-q).log1p():
            return flint().arb(0)
        t = where(-epsilon)
        # P' = N, Q' = mixture, loss −ln A > ε where A < e^{-ε}: t below.
        return (1 - epsilon.exp() * (1 - q)) * above(-t) - epsilon.exp() * q * above(kappa - t)

    def dominating_gaussian(self) -> Fraction:
        """Return the μ² of the unsampled Gaussian: sampling only helps."""
        return self.mu_squared

    def _floats(self) -> tuple[float, float]:
        """Return q and κ."""
        return float(self.rate), math.sqrt(float(self.mu_squared))

    def cells(self, c: float, width: float, *, reverse: bool) -> LossCells | None:
        return sampled_gaussian_cells(*self._floats(), c, width, reverse=reverse)

    def group(self, size: int) -> Pair:
        """Return the unsampled noise for the whole group: it dominates any number of its members being sampled."""
        return GaussianPair(mu_squared=self.mu_squared * size**2)

    def rho(self) -> Ball:
        """Return Δ²/2σ²: sampling never hurts (joint convexity), and no smaller ρ serves every order."""
        return ball(self.mu_squared / 2)

    def cumulant(self, z: Complexes, *, reverse: bool) -> tuple[Complexes, Floats]:
        """Return K̂ and R by the trapezoid rule, up to the largest tilt."""
        q, kappa = self._floats()
        return by_tilt(lambda nodes: _gaussian_cumulant(q, kappa, nodes, reverse), z, _LARGEST_TILT / kappa)

    def log_tail(self, c: float, low: float, high: float, *, reverse: bool) -> float:
        r"""Bound ln|M(c+iu)| over u ≥ low by moments where u is small, and by the shifted path beyond.

        With D the difference of two independent losses tilted by c, |M(c+iu)/M(c)|² = E cos(uD) ≤ 1 − u²V + u⁴E₄/24, V
        half of E D² (the variance) and E₄ = E D⁴. The bound falls up to u₁ = √(12V/E₄), from where on the shifted path
        serves. Many rare samples need this: their moduli leave 1 by less than the shifted path's cells can resolve. V
        and E₄ come from the trapezoid rule, whose error is e^{-40} times the size of (ln A)⁴ on the strip; they are
        taken 1e-6 to the safe side.
        """
        q, kappa = self._floats()
        top, kurtosis, variance = _spread(self, c, reverse)
        turn = math.sqrt(12 * variance / kurtosis) if kurtosis > 0 else 0.0
        if not (math.isfinite(top) and low < turn):
            return _log_tail(q, kappa, c, low, reverse)
        near = top + 0.5 * math.log1p(-low * low * variance + low**4 * kurtosis / 24)
        return max(near, _log_tail(q, kappa, c, turn, reverse))


def _range(kappa: float, power: float) -> tuple[float, float]:
    peak = power * kappa
    return min(0.0, peak) - _MARGIN, max(0.0, peak) + _MARGIN


def _log_a(q: float, kappa: float, t: Floats) -> tuple[Floats, Floats]:
    """Return ln A(t) and a bound of its error: relative rounding, and that of the argument times ω = dlnA/d(arg)."""
    argument = kappa * t - kappa * kappa / 2
    log = log_a(q, argument)
    with np.errstate(over="ignore"):
        omega = q / (q + (1 - q) * np.exp(-argument))
    # ln(1−q+…) inherits q's relative error, and 1 − q·(…) that of a small 1−q: bounded through 1/(1−q).
    sensitivity = np.where(argument < 0, 1 / (1 - q), 1.0)
    return log, 8 * UNIT * (np.abs(log) + omega * (1 + np.abs(kappa * t) + kappa * kappa) + q * sensitivity)


def _gaussian_cumulant(q: float, kappa: float, z: Complexes, reverse: bool) -> tuple[Complexes, Floats]:
    p = -z if reverse else 1.0 + z
    turn = float(np.max(np.abs(p.imag)))
    low = min(_range(kappa, float(x))[0] for x in (p.real.min(), p.real.max()))
    high = max(_range(kappa, float(x))[1] for x in (p.real.min(), p.real.max()))
    # As in ``moment``: a strip so wide, and a step h so fine, that the rule's error is about e^{-40}.
    width = min(9.0, 2.8 / kappa)
    if reverse:
        width = min(width, 2 * math.sqrt(8 / max(float(np.max(np.abs(p.real))), 1.0)) / kappa)
    h = 2 * math.pi / (turn * kappa + 40 / width + width / 2)
    first, last = math.floor(low / h), math.ceil(high / h)
    points = last - first + 1
    if points > _MAX_VALUES // 4 or points * z.size > 3 * _MAX_VALUES:
        # Too fine to be worth it: say nothing (|M(z)| ≤ M(Re z) is all that is claimed, by an infinite error).
        return np.zeros(z.shape, dtype=z.dtype), np.full(z.shape, np.inf)
    spend(points * z.size // 16)
    t: Floats = np.arange(first, last + 1, dtype=np.float64) * h
    log_a, log_error = _log_a(q, kappa, t)
    weight = -0.5 * t * t
    # Trapezoid error relative to M(Re z), with e^{2πy/h} taken at y = width.
    tilt = width * width / 2 - 2 * math.pi * width / h + np.abs(p.imag) * kappa * width
    if reverse:
        tilt = tilt + p.real * math.log(math.cos(kappa * width / 2))
    rule = _Rule(
        log_weight=weight + math.log(h / math.sqrt(2 * math.pi)),
        weight_error=8 * UNIT * (1 + np.abs(weight)),
        log_a=log_a,
        log_error=log_error,
        cut=1 / -math.expm1(-h * _MARGIN),
        normal=h < 0.68,  # Σ hφ = 1 to e^{-2π²/h²} < e^{-42}
    )
    return _sums(p, rule, tilt)


class _Rule(NamedTuple):
    """A quadrature of E[A^p]: a sum of A^p at its nodes."""

    log_weight: Floats
    """The logarithms of the weights, and bounds of their errors."""
    weight_error: Floats
    log_a: Floats
    """ln A at the nodes, and bounds of its error."""
    log_error: Floats
    cut: float
    """The largest mass beyond the first and the last node, in terms of these two."""
    normal: bool
    """Whether the weights add up to 1, to 1e-18."""


def _sums(p: Complexes, rule: _Rule, tilt: Floats) -> tuple[Complexes, Floats]:
    """Return K̂ and R of E[A^p]; ``tilt`` is the logarithm of the rule's error relative to M at the real part of p."""
    value, error = np.empty(p.shape, dtype=p.dtype), np.empty(p.shape)
    rows = max(1, (1 << 18) // rule.log_a.size)
    for chunk in (slice(start, start + rows) for start in range(0, p.size, rows)):
        power = p[chunk]
        tilted = power.real[:, None] * rule.log_a
        exponent = rule.log_weight + tilted
        # Scaled by the largest term, so that nothing overflows and the sum of moduli is at least 1.
        top = exponent.max(axis=1)
        size = np.exp(exponent - top[:, None])
        beyond = rule.cut * (size[:, 0] + size[:, -1])
        quadrature = 4 * np.exp(np.minimum(tilt[chunk], 700.0)) * (size.sum(axis=1) + beyond) + beyond
        if rule.normal and float(top.max()) < 40 and float(np.abs(tilted).max()) < 300:
            # M − 1 = E[A^p − 1]: the relative rounding is that of the small difference.
            terms = np.exp(rule.log_weight) * expm1(power[:, None] * rule.log_a)
            excess = terms.sum(axis=1)
            fine = UNIT * 96 * np.abs(terms).sum(axis=1) + 1e-18
            fine += (np.exp(rule.log_weight + np.maximum(tilted, 0)) @ rule.log_error) * np.abs(power)
            with np.errstate(over="ignore"):  # an infinite error claims nothing
                fine += quadrature * np.exp(top)
                ratio = fine / np.maximum(np.abs(1 + excess) - fine, 1e-300)
            if (np.abs(1 + excess) > 0.3).all():
                value[chunk] = log1p(excess)
                error[chunk] = ratio + 8 * UNIT * np.abs(value[chunk])
                continue
        turned = size if p.dtype.kind == "f" else size * np.exp(1j * (power.imag[:, None] * rule.log_a))
        # Rounding: exponent of each term, then a pairwise sum of n terms (below 32 units for n up to 2^30).
        units = rule.weight_error + UNIT * (64 + 8 * np.abs(tilted) + 8 * np.abs(top)[:, None])
        rounding = (size * units).sum(axis=1) + (size @ rule.log_error) * np.abs(power)
        summed, ratio = total(turned.sum(axis=1), quadrature + rounding)
        value[chunk] = np.log(summed) + top
        error[chunk] = ratio + UNIT * (8 * np.abs(value[chunk]) + 8 * np.abs(top) + 8)
    return value, error


@lru_cache(maxsize=256)
def _spread(pair: PoissonGaussianPair, c: float, reverse: bool) -> tuple[float, float, float]:
    """Return an upper bound of ln M(c), E D⁴ rounded up and the variance rounded down, of the loss tilted by c."""
    q, kappa = pair._floats()  # noqa: SLF001 - its own module
    k, r = pair.cumulant(np.array([complex(c)]), reverse=reverse)
    power = -c if reverse else 1 + c
    if not math.isfinite(r[0]):
        return math.inf, math.inf, 0.0
    low, high = _range(kappa, power)
    t = np.linspace(low, high, max(257, math.ceil((high - low) * 8 * max(1.0, kappa))))
    log_a, _ = _log_a(q, kappa, t)
    logs = -0.5 * t * t + power * log_a
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    centred = log_a - float(weights @ log_a)
    variance, fourth = float(weights @ centred**2), float(weights @ centred**4)
    # For independent copies of a law, E D⁴ = 2·(fourth central moment + 3·variance²).
    return float(k[0].real + r[0]), 2 * (fourth + 3 * variance**2) * (1 + 1e-6), variance * (1 - 1e-6)


def _log_tail(q: float, kappa: float, c: float, low: float, reverse: bool) -> float:
    """Shift the path to t+iy: |e^{iu ln A}| becomes e^{-u·arg A(t+iy)} ≤ e^{-low·arg A}; sum cell by cell, rounding up.

    With θ = κy ≤ π/2, |A(t+iy)| and arg A(t+iy) both rise with t, so each cell is bounded by its ends.
    """
    power = -c if reverse else 1 + c
    first, last = _range(kappa, power)
    first -= 2.0
    t = np.linspace(first, last, 1601)
    step = float(t[1] - t[0])
    # φ is largest in a cell at its point nearest to 0.
    edge = np.where(t[:-1] * t[1:] <= 0, 0.0, np.minimum(np.abs(t[:-1]), np.abs(t[1:])))
    log_phi = -0.5 * edge * edge
    argument = np.minimum(kappa * t - kappa * kappa / 2, 700.0)
    growth = q * np.exp(argument)
    best = math.inf
    # Every shift y gives a valid bound; the least of a few is taken.
    for share in (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.55, 0.8, 1.0):
        y = share * min(math.pi / 2 / kappa, 12.0)
        theta = kappa * y
        a_real, a_imaginary = 1 - q + growth * math.cos(theta), growth * math.sin(theta)
        log_size, angle = np.log(np.hypot(a_real, a_imaginary)), np.arctan2(a_imaginary, a_real)
        size = log_size[:-1] if reverse else log_size[1:]
        logs = log_phi + power * size - low * angle[:-1]
        peak = float(logs.max())
        inner = peak + math.log(float(np.exp(logs - peak).sum()) * step)
        # Beyond the ends |A|^p ≤ the real line's times cos(θ/2)^{min(p,0)}, and the slope there is at least the margin.
        spread = power * math.log(math.cos(theta / 2)) if reverse else 0.0
        ends = max(
            -0.5 * first * first + power * math.log(1 - q + growth[0]),
            -0.5 * last * last
            + power * (math.log(1 - q + growth[-1]) if argument[-1] < 700 else float(kappa * last - kappa * kappa / 2)),
        )
        log = np.logaddexp(inner, ends + spread + math.log(2 / _MARGIN)) + y * y / 2 - 0.5 * math.log(2 * math.pi)
        best = min(best, float(log) + 1e-12 * (abs(peak) + abs(power) + 1))
    return best


_LARGEST_EXPONENT = 30000.0
"""The largest tilt times loss at which moments are summed."""
_RADII = (1.3, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0)
"""Parameters r of Bernstein ellipses; the best bound of all is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonLaplacePair(Pair):
    """A share ``rate`` = q of Laplace noise moved by Δ against Laplace noise; ``epsilon`` = Δ/b."""

    rate: Fraction
    epsilon: Fraction
    symmetric = False
    sampled = True

    def __hash__(self) -> int:
        return hash((8, self.rate.as_integer_ratio(), self.epsilon.as_integer_ratio()))

    def moment(self, z: Ball) -> Ball:
        """Return E[A^{1+z}] with the quadrature's error inside the ball."""
        module = flint()
        q, e, p = ball(self.rate), ball(self.epsilon), 1 + z
        power, turn = up(abs(p.real)), up(abs(p.imag))

        def log_a(loss: Ball) -> Ball:
            return (q * loss.expm1()).log1p()

        atoms = ((p * log_a(-e)).exp() + (p * log_a(e) - e).exp()) / 2
        # Panels short enough that A^p turns by a fraction of a radian on each.
        panels = max(1, math.ceil(float(self.epsilon) * (1 + (power + turn) / 4)))
        w = e / panels
        nodes = 16 + module.ctx.prec // 6
        spend(4 * panels * nodes)
        summed = module.acb(0)
        roots = _legendre(nodes, module.ctx.prec)
        worst = module.arb(0)
        half = up(w)
        for j in range(panels):
            centre = w * (2 * j + 1) - e
            for x, weight in roots:
                node = centre + w * x
                summed += w * weight * (p * log_a(node) - (node + e) / 2).exp()
            worst = worst.max((p.real * log_a(centre) - (centre + e) / 2).exp())
        # The rule's error on the Bernstein ellipse with the least bound; v < π keeps A away from zero on it.
        bound = None
        for r in _RADII:
            v, half_length = half * (r - 1 / r) / 2, half * (r + 1 / r) / 2
            if v >= 3.0:
                continue
            log = turn * v + (power + 0.5) * half_length + power * -math.log(math.cos(v / 2))
            log += -2 * nodes * math.log(r) - math.log(1 - r**-2) + math.log(5.0)
            bound = log if bound is None else min(bound, log)
        rule_error = panels * w * worst * ball(bound if bound is not None else math.inf).exp()
        ring = module.arb(0, 1) * rule_error.abs_upper()
        return atoms + (summed + module.acb(ring, ring)) / 4

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:
        """Return ln(1−q+qe^e) forward, −ln(1−q+qe^{-e}) in reverse."""
        q, e = ball(self.rate), ball(self.epsilon)
        return -(q * (-e).expm1()).log1p() if reverse else (q * e.expm1()).log1p()

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        """Return the closed form: P(l > t) − e^ε Q(l > t) with t where the loss passes ε (reverse: below)."""
        q, e = ball(self.rate), ball(self.epsilon)

        def above(t: Ball) -> tuple[Ball, Ball]:
            """Return the masses of {loss > t} under moved and unmoved Laplace noise, −e ≤ t < e."""
            return 1 - ((t - e) / 2).exp() / 2, (-(t + e) / 2).exp() / 2

        # At both ends of the loss's range the formula runs continuously into 1 − e^ε and 0 (beyond, it is negative).
        if not reverse:
            inside = epsilon.expm1() / q
            if not inside > (-e).expm1():
                return -epsilon.expm1()
            moved, still = above(inside.log1p().min(e))
            return (q * moved + ((1 - q) - epsilon.exp()) * still).max(0)
        inside = (-epsilon).expm1() / q
        if not inside > (-e).expm1():
            return flint().arb(0)
        if not inside < e.expm1():
            return -epsilon.expm1()
        moved, still = above(inside.log1p())
        return ((1 - still) - epsilon.exp() * ((1 - q) * (1 - still) + q * (1 - moved))).max(0)

    def top_mass(self, *, reverse: bool = False) -> Ball | None:
        """Return q/2 + (1−q)e^{-e}/2 forward, 1/2 in reverse."""
        if reverse:
            return flint().arb(1) / 2
        q, e = ball(self.rate), ball(self.epsilon)
        return (q + (1 - q) * (-e).exp()) / 2

    def cells(self, c: float, width: float, *, reverse: bool) -> LossCells | None:
        """Return cells of the Laplace loss, and its two atoms."""
        return laplace_cells(float(self.epsilon), c, width, rate=float(self.rate), reverse=reverse)

    def group(self, size: int) -> Pair:
        """Return the unsampled noise for the whole group: it dominates any number of its members being sampled."""
        return LaplacePair(epsilon=self.epsilon * size)

    def rho(self) -> Ball:
        """Return the KL divergence of the unsampled pair, e − 1 + e^{-e}: sampling never hurts."""
        e = ball(self.epsilon)
        return e + (-e).expm1()

    def cumulant(self, z: Complexes, *, reverse: bool) -> tuple[Complexes, Floats]:
        """Return K̂ and R by quadrature, up to the largest tilt."""
        q, e = float(self.rate), float(self.epsilon)
        return by_tilt(lambda nodes: _laplace_cumulant(q, e, nodes, reverse), z, _LARGEST_EXPONENT / e)

    def log_tail(self, c: float, low: float, high: float, *, reverse: bool) -> float:
        r"""Bound the atoms as they are, and integrate the density g(l) = ¼e^{-(l+e)/2}A^{Re p} by parts.

        Against e^{iu·ln A}, with G = g/(ln A)' = g·A/(q·e^l), |∫| ≤ (|G(−e)| + |G(e)| + ∫|G'|)/u, and G' changes sign
        at most once, since ln G = −3l/2 + (Re p + 1)·ln A + const. is convex or concave: ∫|G'| ≤ G(−e) + G(e) + 2·max
        G.
        """
        q, e = float(self.rate), float(self.epsilon)
        power = -c if reverse else 1 + c
        low_a = math.log1p(q * math.expm1(-e))
        high_a = math.log1p(q * math.expm1(e)) if e < 700 else math.log(q) + e
        atoms = np.logaddexp(power * low_a, power * high_a - e) - math.log(2)
        ls = np.linspace(-e, e, 257)
        a = np.log1p(q * np.expm1(np.minimum(ls, 700)))
        logs = -1.5 * ls - e / 2 + (power + 1) * a - math.log(4 * q)
        # Between grid points ln G moves by at most (|power| + 2.5)·step.
        top = float(logs.max()) + (abs(power) + 2.5) * 2 * e / 256
        density = top + math.log(6.0) - math.log(max(low, 1e-300))
        log_total = float(np.logaddexp(atoms, density))
        k, r = _laplace_cumulant(q, e, np.array([complex(c)]), reverse)
        return min(log_total, float(k[0].real + r[0])) + 1e-12 * (1 + abs(log_total))


@cache
def _legendre(n: int, bits: int) -> tuple[tuple[Any, Any], ...]:
    """Return the Gauss–Legendre nodes and weights as balls of this precision."""
    module = flint()
    before = module.ctx.prec
    module.ctx.prec = bits + 16
    try:
        return tuple(module.arb.legendre_p_root(n, k, True) for k in range(n))
    finally:
        module.ctx.prec = before


@cache
def _legendre_floats(n: int) -> tuple[Floats, Floats]:
    roots = _legendre(n, 64)
    return np.array([float(x.mid()) for x, _ in roots]), np.array([float(weight.mid()) for _, weight in roots])


def _laplace_cumulant(q: float, e: float, z: Complexes, reverse: bool) -> tuple[Complexes, Floats]:
    p = -z if reverse else 1.0 + z
    power, turn = float(np.max(np.abs(p.real))), float(np.max(np.abs(p.imag)))
    count = 16
    panels = max(1, math.ceil(e * (1 + (power + turn) / 4)))
    if panels * count * z.size > 50_000_000:
        return np.zeros(z.shape, dtype=z.dtype), np.full(z.shape, np.inf)
    spend(panels * z.size)
    # The two atoms are appended to the quadrature's nodes, so that one sum over ``nodes`` is all of E[A^p].
    x, weights = _legendre_floats(count)
    w = e / panels
    centres = (2 * np.arange(panels) + 1) * w - e
    nodes = (centres[:, None] + w * x).ravel()
    weight = np.tile(w * weights / 4, panels)
    nodes = np.concatenate([nodes, [-e, e]])
    log_weight = np.concatenate([np.log(weight) - (nodes[:-2] + e) / 2, [math.log(0.5), math.log(0.5) - e]])
    logs = log_a(q, nodes)
    # Error of ln A: its own rounding and q's (amplified by 1/(1−q)), and that of l times ω = dlnA/dl.
    omega = np.minimum(1.0, q / (1 - q) * np.exp(np.minimum(nodes, 700.0)))
    log_error = 16 * UNIT * (np.abs(logs) / (1 - q) + omega * (np.abs(nodes) + e))
    # The rule's error, on the Bernstein ellipse with the least bound.
    best = math.inf
    for r in _RADII:
        v, half_length = w * (r - 1 / r) / 2, w * (r + 1 / r) / 2
        if v < 3.0:
            log = turn * v + (power + 0.5) * (half_length + w) - power * math.log(math.cos(v / 2))
            best = min(best, log - 2 * count * math.log(r) - math.log(1 - r**-2) + math.log(32.0))
    rule = _Rule(
        log_weight=log_weight,
        weight_error=16 * UNIT * (4 + np.abs(log_weight) + e),
        log_a=logs,
        log_error=log_error,
        cut=0.0,  # the atoms are the ends of the law
        normal=True,
    )
    return _sums(p, rule, np.full(p.shape, best))
