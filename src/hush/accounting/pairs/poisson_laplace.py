r"""Poisson-subsampled Laplace noise.

Under Q the Laplace loss l has atoms 1/2 at −e and e^{-e}/2 at e and the density e^{-(l+e)/2}/4 between them. With A(l)
= 1−q+q·e^l the pair's loss is ln A(l), and M(z) = E_Q[A^{1+z}]:

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
from functools import cache
from typing import Any

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
from hush.accounting.pairs.hyperbolic import LaplacePair
from hush.accounting.pairs.loss_cells import laplace_cells
from hush.core.balls import Ball, ball, flint, up
from hush.core.work import spend

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
        return by_tilt(lambda nodes: _cumulant(q, e, nodes, reverse), z, _LARGEST_EXPONENT / e)

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
        k, r = _cumulant(q, e, np.array([complex(c)]), reverse)
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


def _cumulant(q: float, e: float, z: Complexes, reverse: bool) -> tuple[Complexes, Floats]:
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
    log_a = np.where(
        nodes > 30,
        nodes + math.log(q) + np.log1p((1 - q) / q * np.exp(-np.abs(nodes))),
        np.log1p(q * np.expm1(np.minimum(nodes, 31))),
    )
    # Error of ln A: its own rounding and q's (amplified by 1/(1−q)), and that of l times ω = dlnA/dl.
    omega = np.minimum(1.0, q / (1 - q) * np.exp(np.minimum(nodes, 700.0)))
    log_error = 16 * UNIT * (np.abs(log_a) / (1 - q) + omega * (np.abs(nodes) + e))
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
        exponent = log_weight + powers.real[:, None] * log_a
        if float(exponent.max()) < 5 and float(np.max(np.abs(powers))) * float(np.abs(log_a).max()) < 0.5:
            # M − 1 = E[A^p − 1]: the relative rounding is that of the small difference.
            v = np.exp(log_weight) * expm1(powers[:, None] * log_a)
            excess, moduli = v.sum(axis=1), np.abs(v).sum(axis=1)
            fine = 96 * UNIT * moduli + 2 * (np.exp(log_weight) * log_error).sum() * np.abs(powers)
            fine += 4 * math.exp(min(best, 700.0))
            value[start : start + rows] = log1p(excess)
            error[start : start + rows] = fine / np.maximum(1 - moduli - fine, 1e-3) + 8 * UNIT * moduli
            continue
        # Scaled by the largest term, so that nothing overflows and the sum of moduli is at least 1.
        top = exponent.max(axis=1, keepdims=True)
        size = np.exp(exponent - top)
        turned = size if powers.dtype.kind == "f" else size * np.exp(1j * (powers.imag[:, None] * log_a))
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
