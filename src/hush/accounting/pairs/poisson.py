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
    EVERYWHERE,
    UNIT,
    Complexes,
    Floats,
    LossCells,
    Pair,
    Range,
    by_tilt,
    expm1,
    log1p,
    total,
)
from hush.accounting.pairs.gaussian import GaussianPair
from hush.accounting.pairs.hyperbolic import LaplacePair
from hush.accounting.pairs.loss_cells import (
    laplace_cells,
    log_a,
    sampled_gaussian_cells,
    sampled_rough_cumulant,
    sampled_valley,
)
from hush.core.rounding import Ball, ball, flint, up
from hush.core.work import spend

_MARGIN = 10.0  # the sum is cut where φ has fallen by e^{-50}
_LARGEST_TILT = 400.0
"""The largest tilt, in deviations, at which moments are summed."""
_MAX_VALUES = 6_000_000
"""The largest number of (node, point of the rule) values of one evaluation."""
_MAX_PRODUCTS = 600_000_000
"""The largest number of complex products for a line of nodes."""
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

    def cells(self, c: float, width: float, *, reverse: bool, noise: Range = EVERYWHERE) -> LossCells | None:
        return sampled_gaussian_cells(*self._floats(), c, width, reverse=reverse, noise=noise)

    def valley(self, c: float) -> float | None:
        """Return the noise between the hump of the units left out and that of the units taken."""
        return sampled_valley(*self._floats(), c)

    def rough_cumulant(self, c: Floats, noise: Range) -> Floats:
        return sampled_rough_cumulant(*self._floats(), c, noise)

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
    lines = z.dtype.kind == "c" and points * z.size > _MAX_VALUES and evenly_spaced(z)
    if points > _MAX_VALUES // 4 or points * z.size > (_MAX_PRODUCTS if lines else 3 * _MAX_VALUES):
        # Too fine to be worth it: say nothing (|M(z)| ≤ M(Re z) is all that is claimed, by an infinite error).
        return np.zeros(z.shape, dtype=z.dtype), np.full(z.shape, np.inf)
    spend(points * z.size // 16)
    t: Floats = np.arange(first, last + 1, dtype=np.float64) * h
    log_a, log_error = _log_a(q, kappa, t)
    value = np.empty(z.shape, dtype=z.dtype)
    error = np.empty(z.shape)
    rows = max(1, (1 << 18) // points)
    # Trapezoid error relative to M(Re z), with e^{2πy/h} taken at y = width.
    grow = width * width / 2 - 2 * math.pi * width / h
    rule = _Rule(t, h, log_a, log_error, grow, kappa, width, reverse)
    if lines:
        return _line(p, rule)
    for chunk in (slice(start, start + rows) for start in range(0, z.size, rows)):
        value[chunk], error[chunk] = _rows(p[chunk], rule)
    return value, error


class _Rule(NamedTuple):
    """The trapezoid rule of one pair and direction."""

    t: Floats
    """Its nodes."""
    h: float
    log_a: Floats
    """ln A at the nodes, and a bound of its error."""
    log_error: Floats
    grow: float
    """The logarithm of its error relative to M(Re z), where Im p = 0."""
    kappa: float
    width: float
    reverse: bool


def _line(p: Complexes, rule: _Rule) -> tuple[Complexes, Floats]:
    """Return the same as :func:`_rows` for evenly spaced nodes on one line, by :func:`sums_on_a_line`."""
    scale, top, size, quadrature, rounding = _weighed(p, p.real[:1, None], rule)
    summed, wrong = sums_on_a_line(np.abs(p.imag), size[0], rule.log_a)
    if rule.reverse:
        summed = np.conj(summed)
    wrong = scale * (wrong + float(size[0] @ rule.log_error) * np.abs(p))
    value, ratio = total(scale * summed, quadrature + rounding + wrong)
    k = np.log(value) + top
    return k, ratio + UNIT * (8 * np.abs(k) + 8 * np.abs(top) + 8)


def _weighed(p: Complexes, c: Floats, rule: _Rule) -> tuple[float, Floats, Floats, Floats, Floats]:
    """Return the rule's factor, and for tilts c the largest exponents, the terms over these, and two errors of sums.

    They are those of the quadrature at p and of the rounding.
    """
    weight, tilted = -0.5 * rule.t * rule.t, c * rule.log_a
    exponent = weight + tilted
    top = exponent.max(axis=1, keepdims=True)
    scale = rule.h / math.sqrt(2 * math.pi)
    size = np.exp(exponent - top)
    cut = scale * (size[:, 0] + size[:, -1]) / -math.expm1(-rule.h * _MARGIN)
    tilt = rule.grow + np.abs(p.imag) * rule.kappa * rule.width
    if rule.reverse:
        tilt = tilt + p.real * math.log(math.cos(rule.kappa * rule.width / 2))
    quadrature = 4 * np.exp(np.minimum(tilt, 700.0)) * (scale * size.sum(axis=1) + cut) + cut
    # Rounding: exponent of each term, then a pairwise sum of n terms (below 32 units for n up to 2^30).
    units = UNIT * (64 + 8 * np.abs(weight) + 8 * np.abs(tilted) + 8 * np.abs(top))
    return scale, top[:, 0], size, quadrature, scale * (size * units).sum(axis=1)


def _rows(p: Complexes, rule: _Rule) -> tuple[Complexes, Floats]:
    t, h, log_a, log_error = rule[:4]
    weight, c = -0.5 * t * t, p.real[:, None]
    scale, peak, size, quadrature, rounding = _weighed(p, c, rule)
    rounding += scale * (size @ log_error) * np.abs(p)
    small = float(np.max(peak)) < 40 and h < 0.68 and float(np.max(np.abs(c))) * float(np.max(np.abs(log_a))) < 300
    if small:
        # M − 1 = E[A^p − 1]: the relative rounding is that of the small difference. Σ hφ = 1 to e^{-2π²/h²} < e^{-42}.
        v = (scale * np.exp(weight)) * expm1(p[:, None] * log_a)
        excess = v.sum(axis=1)
        fine = UNIT * 96 * np.abs(v).sum(axis=1) + scale * (
            np.exp(weight + np.maximum(c * log_a, 0)) @ log_error
        ) * np.abs(p)
        with np.errstate(over="ignore"):  # an infinite error claims nothing
            fine += quadrature * np.exp(peak) + 1e-18
            ratio = fine / np.maximum(np.abs(1 + excess) - fine, 1e-300)
        good = np.abs(1 + excess) > 0.3
        if good.all():
            k = log1p(excess)
            return k, ratio + 8 * UNIT * np.abs(k)
    turned = size if p.dtype.kind == "f" else size * np.exp(1j * (p.imag[:, None] * log_a))
    summed = scale * turned.sum(axis=1)
    value, ratio = total(summed, quadrature + rounding)
    k = np.log(value) + peak
    return k, ratio + UNIT * (8 * np.abs(k) + 8 * np.abs(peak) + 8)


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


def evenly_spaced(z: Complexes) -> bool:
    """Whether z runs evenly up a vertical line from the real axis."""
    if z.ndim != 1 or z.size < 64 or not bool((z.real == z.real[0]).all()) or z.imag[0] != 0:
        return False
    spaced = z.imag[1] * np.arange(z.size)
    return bool((np.abs(z.imag - spaced) <= 2 * UNIT * np.abs(spaced)).all())


def sums_on_a_line(u: Floats, size: Floats, log: Floats) -> tuple[Complexes, Floats]:
    r"""Return Σ_t size_t·e^{iu_j·L_t} at evenly spaced u_j, and bounds of the errors, by one matrix product.

    With j = aB + b, u_j = u_{aB} + u_b, and the sum is Σ_t (size_t·e^{iu_{aB}L_t})·e^{iu_bL_t}: as many multiplications
    as before, but in one matrix product, and only √n exponentials for each t.

    **Rounding.** u_{aB} + u_b differs from the given u_j by less than 4 units of it, and each product with L_t rounds
    once: the turn is off by at most 8 units of |u_j L_t|. A matrix product over n points, in any order of summation,
    is off by at most (n + 8) units of Σ_t size_t (Higham 2002, section 3.5, with 4 real products in a complex one).
    """
    block = math.isqrt(u.size) + 1
    starts = u[::block]
    total = np.zeros((len(starts), block), dtype=np.complex128)
    # Slices of t keep the matrices small.
    width = max(1, (1 << 20) // block)
    for first in range(0, size.size, width):
        points = slice(first, first + width)
        block_turns = size[points] * np.exp(1j * np.multiply.outer(starts, log[points]))
        inner_turns = np.exp(1j * np.multiply.outer(log[points], u[:block]))
        total += block_turns @ inner_turns
    mass = float(size.sum())
    turn = float(size @ np.abs(log))
    return total.ravel()[: u.size], UNIT * ((2 * size.size + 64) * mass + 8 * u * turn)


_LARGEST_EXPONENT = 600.0
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

    def cells(self, c: float, width: float, *, reverse: bool, noise: Range = EVERYWHERE) -> LossCells | None:
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
    value = np.empty(z.shape, dtype=z.dtype)
    error = np.empty(z.shape)
    rows = max(1, (1 << 18) // nodes.size)
    # The rule's error, on the Bernstein ellipse with the least bound.
    best = math.inf
    for r in _RADII:
        v, half_length = w * (r - 1 / r) / 2, w * (r + 1 / r) / 2
        if v < 3.0:
            log = turn * v + (power + 0.5) * (half_length + w) - power * math.log(math.cos(v / 2))
            best = min(best, log - 2 * count * math.log(r) - math.log(1 - r**-2) + math.log(32.0))
    for start in range(0, z.size, rows):
        powers = p[start : start + rows]
        exponent = log_weight + powers.real[:, None] * logs
        if float(exponent.max()) < 5 and float(np.max(np.abs(powers))) * float(np.abs(logs).max()) < 0.5:
            # M − 1 = E[A^p − 1]: the relative rounding is that of the small difference.
            v = np.exp(log_weight) * expm1(powers[:, None] * logs)
            excess, moduli = v.sum(axis=1), np.abs(v).sum(axis=1)
            fine = 96 * UNIT * moduli + 2 * (np.exp(log_weight) * log_error).sum() * np.abs(powers)
            fine += 4 * math.exp(min(best, 700.0))
            value[start : start + rows] = log1p(excess)
            error[start : start + rows] = fine / np.maximum(1 - moduli - fine, 1e-3) + 8 * UNIT * moduli
            continue
        # Scaled by the largest term, so that nothing overflows and the sum of moduli is at least 1.
        top = exponent.max(axis=1, keepdims=True)
        size = np.exp(exponent - top)
        turned = size if powers.dtype.kind == "f" else size * np.exp(1j * (powers.imag[:, None] * logs))
        summed = turned.sum(axis=1)
        mass = size.sum(axis=1)
        bad = 64 * UNIT * (size * (2 + np.abs(exponent) + np.abs(top))).sum(axis=1) + (size @ log_error) * np.abs(
            powers
        )
        bad += mass * math.exp(min(best, 700.0))
        sure, ratio = total(summed, bad)
        k = np.log(sure) + top[:, 0]
        value[start : start + rows] = k
        error[start : start + rows] = ratio + UNIT * (8 * np.abs(k) + 8)
    return value, error
