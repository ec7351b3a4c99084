r"""Laplace, randomized response, bounded range, discrete Laplace: pairs written with cosh and sinh of s = z + 1/2.

With e the largest loss (Δ/b for Laplace noise of scale b):

* Laplace: M = e^{-e/2}·[cosh(se) + sinh(se)/2s]. Loss: atoms 1/2 at e and e^{-e}/2 at −e, density e^{(l-e)/2}/4
  between.
* Randomized response over 2 + n answers: M = [2e^{e/2}cosh(se) + n] / (e^e + 1 + n). With n = 0 it dominates every
  mechanism that is e-DP (Kairouz, Oh, Viswanath 2015).
* Bounded range (the exponential mechanism): M = sinh(se) / (2s·sinh(e/2)). Loss density e^{(l-e)/2}/2(1−e^{-e}) on
  [−e, e], the pair whose profile is (1−e^{(ε-e)/2})²/(1−e^{-e}), the largest that a mechanism of range e can have
  (Dong, Durfee, Rogers 2020); hence valid however the mechanisms are chosen.

All three are even in s, so symmetric, and entire in w = s² of order 1/2 with only negative zeros (those of cos y + sin
y/2y and sin y / y are real: eigenvalues of a self-adjoint problem), so M(w) = M(w₀)·Π(1+w/aⱼ)/(1+w₀/aⱼ) and ln M is
concave in w. Hence K(z)/(z(z+1)) = (K(w)−K(1/4))/(w−1/4) is largest as z → 0: **ρ is the Kullback–Leibler divergence**
K'(0) (for n > 0 the zeros need not be negative, and the value for n = 0 is used, which dominates).

>>> from fractions import Fraction
>>> from hush.core.rounding import up
>>> round(up(LaplacePair(epsilon=Fraction(1)).rho()), 12)             # e − 1 + e^{-e}
0.367879441171

**In double precision.** Each cumulant is K = z·e + ln(bracket) − ln(norm) with every exponential in the bracket of
modulus at most 1; where |se| is small it is ln(1 + excess), so that the rounding is relative to K and not to 1.

**Discrete Laplace**: P(x) ∝ e^{-a|x-Δ|} against Q(x) ∝ e^{-a|x|} on the integers, a = 1/scale. The losses a(|x| −
|x−Δ|) are −aΔ for x ≤ 0, aΔ for x ≥ Δ and a(2x−Δ) between: a lattice of span 2a. With r = e^{-a} and s = z + 1/2,

    M(z) = e^{-aΔ/2}·[2cosh(saΔ) + (1−r)·Σ_{x=1}^{Δ-1} e^{sa(2x-Δ)}] / (1+r),

and the sum is sinh(sa(Δ−1))/sinh(sa). With Δ = 1 this is randomized response with ε = a.

>>> pair = DiscreteLaplacePair(parameter=Fraction(3, 10), sensitivity=3)
>>> abs(float(pair.moment(flint().acb(0)).real.mid()) - 1) < 1e-15
True
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hush.accounting.pairs.base import (
    EVERYWHERE,
    UNIT,
    Batch,
    Complexes,
    Floats,
    LossCells,
    Pair,
    Range,
    Terms,
    expm1,
    log1p,
    total,
    upward,
)
from hush.accounting.pairs.loss_cells import laplace_cells
from hush.core.rounding import Ball, ball, down, flint


def sinhc(w: Ball) -> Ball:
    """Return sinh(w)/w, entire: sin(iw)/(iw)."""
    return (w * flint().acb(0, 1)).sinc()


@dataclass(frozen=True, slots=True, kw_only=True)
class _HyperbolicPair(Pair):
    """A pair with losses between −e and e, e = ``epsilon``, and M = e^{-e/2}·[a·cosh(se) + b·sinh(se)/s] + n."""

    epsilon: Fraction

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:
        return ball(self.epsilon)

    def exact_largest_loss(self) -> Fraction:
        return self.epsilon

    @classmethod
    def batch(cls, pairs: Sequence[Any], counts: Sequence[int], *, reverse: bool = False) -> Batch:
        return HyperbolicBatch(pairs, counts)

    @staticmethod
    @abstractmethod
    def weights(e: Floats, others: Floats) -> tuple[Floats | None, Floats | None, Floats | None]:
        """Return a, b and n of many pairs, a column each, right to 8 units; None where it is 0 for all."""

    @staticmethod
    @abstractmethod
    def log_moduli(e: Floats, others: Floats, c: float, low: float, high: float) -> Floats:
        """Return bounds of ln |M(c+iu)| of many pairs over low ≤ u ≤ high, but for their rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplacePair(_HyperbolicPair):
    """Laplace noise against itself moved by the sensitivity; ``epsilon`` = Δ/b."""

    def __hash__(self) -> int:
        return hash((3, self.epsilon.as_integer_ratio()))

    def moment(self, z: Ball) -> Ball:
        """Return e^{-e/2}(cosh se + sinh(se)/2s)."""
        e, s = ball(self.epsilon), z + ball(0.5)
        return (-e / 2).exp() * ((s * e).cosh() + e * sinhc(s * e) / 2)

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        """Return 1 − e^{(ε-e)/2} inside [−e, e], 1 − e^ε below and 0 above."""
        e = ball(self.epsilon)
        return (-((epsilon - e) / 2).expm1()).max(0).max(-epsilon.expm1())

    def top_mass(self, *, reverse: bool = False) -> Ball | None:
        return ball(0.5)

    def strength(self) -> Fraction:
        return self.epsilon

    def terms(self) -> Terms:
        """Return the two losses ±e, each with ½ ± 1/4s, times e^{-e/2}."""
        e, poly = self.epsilon, flint().arb_poly
        front = (-ball(e) / 2).exp()
        return {e: poly([front * ball(0.5), front / 4]), -e: poly([front * ball(0.5), -front / 4])}

    def cells(self, c: float, width: float, *, reverse: bool, noise: Range = EVERYWHERE) -> LossCells | None:
        """Return cells of the loss, and its two atoms."""
        return laplace_cells(float(self.epsilon), c, width)

    def group(self, size: int) -> Pair:
        return LaplacePair(epsilon=self.epsilon * size)

    def rho(self) -> Ball:
        """Return the KL divergence e − 1 + e^{-e}."""
        e = ball(self.epsilon)
        return e + (-e).expm1()

    @staticmethod
    def weights(e: Floats, others: Floats) -> tuple[Floats | None, Floats | None, Floats | None]:
        return np.ones((1, 1)), np.full((1, 1), 0.5), None  # the same for all: computed once for each node

    @staticmethod
    def log_moduli(e: Floats, others: Floats, c: float, low: float, high: float) -> Floats:
        """Bound |cosh(se)| + |sinh(se)|/2|s| over u ≥ low, with |cosh|² = cosh²(xe) − sin²(ue), x = c + 1/2.

        Up to ue = π/2 the first falls and |sinh(se)/s| ≤ e·cosh(xe); from there to 3π/4 |cosh|² ≤ cosh² − 1/2; beyond,
        cosh(xe)(1 + 1/2|s|). All is divided by cosh(xe), which enters as e^{xe}(1+e^{-2xe})/2.
        """
        x = c + 0.5
        cosh = 0.5 * (1 + np.exp(-2 * x * e))  # times e^{xe}
        inverse = np.minimum(1 / cosh**2 * np.exp(-2 * np.minimum(x * e, 350.0)), 1.0)  # 1/cosh²(xe)
        turn = math.pi / 2 / e
        spread = 0.5 / np.hypot(x, low)
        near = np.sqrt(np.maximum(1 - np.sin(np.minimum(low, turn) * e) ** 2 * inverse, 0)) + np.minimum(e / 2, spread)
        middle = np.sqrt(1 - 0.5 * inverse) + 0.5 / np.hypot(x, np.maximum(low, turn))
        far = 1 + 0.5 / np.hypot(x, np.maximum(low, 1.5 * turn))
        best = np.where(low < turn, np.maximum(near, np.maximum(middle, far)), np.maximum(middle, far))
        best = np.where(low >= 1.5 * turn, far, best)
        return np.asarray(c * e + np.log(cosh * best))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsePair(_HyperbolicPair):
    """Randomized response: losses ±ε, and 0 with weight ``others`` = n for the answers true on neither data set."""

    others: int = 0

    def __hash__(self) -> int:
        return hash((4, self.epsilon.as_integer_ratio(), self.others))

    def moment(self, z: Ball) -> Ball:
        """Return [2e^{e/2}cosh(se) + n]/(e^e + 1 + n)."""
        e, s = ball(self.epsilon), z + ball(0.5)
        return (2 * (e / 2).exp() * (s * e).cosh() + self.others) / (e.exp() + 1 + self.others)

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        """Return the sum over the three losses ε, 0, −ε."""
        e = ball(self.epsilon)
        norm = e.exp() + 1 + self.others
        top = e.exp() * (-(epsilon - e).expm1()).max(0)
        return (top + self.others * (-epsilon.expm1()).max(0) + (-(epsilon + e).expm1()).max(0)) / norm

    def lattice(self) -> tuple[Fraction, Fraction]:
        """Return {−ε, ε}, with 0 where there are other answers."""
        return self.epsilon, self.epsilon if self.others else 2 * self.epsilon

    def top_mass(self, *, reverse: bool = False) -> Ball | None:
        """Return the mass of the true answer."""
        return 1 / (1 + (1 + self.others) * (-ball(self.epsilon)).exp())

    def strength(self) -> Fraction | None:
        """Return ε where there are no other answers."""
        return None if self.others else self.epsilon

    def terms(self) -> Terms:
        """Return the losses ±ε and 0, each with its mass times e^{-x/2}."""
        e, poly = self.epsilon, flint().arb_poly
        neutral = self.others * (-ball(e) / 2).exp()
        front = 1 / (2 * (ball(e) / 2).cosh() + neutral)
        terms = {e: poly([front]), -e: poly([front])}
        if self.others:
            terms[Fraction(0)] = poly([front * neutral])
        return terms

    def group(self, size: int) -> Pair:
        """Return the pair of every mechanism that is ``size``·ε-DP."""
        return ResponsePair(epsilon=self.epsilon * size)

    def rho(self) -> Ball:
        """Return e·tanh(e/2), the KL divergence of the binary response."""
        e = ball(self.epsilon)
        return e * (e / 2).tanh()

    @staticmethod
    def weights(e: Floats, others: Floats) -> tuple[Floats | None, Floats | None, Floats | None]:
        norm = 1 + (1 + others) * np.exp(-e)
        return 2 / norm, None, others * np.exp(-e) / norm if others.any() else None

    @staticmethod
    def log_moduli(e: Floats, others: Floats, c: float, low: float, high: float) -> Floats:
        """|2cosh(se) + m|² = 4(cosh² xe − 1 + y²) + 4m·y·cosh xe + m², y = cos ue: convex in y, largest at an end."""
        x = c + 0.5
        decay = np.exp(-2 * x * e)
        cosh = 0.5 * (1 + decay)  # times e^{xe}
        shrink = np.exp(-np.minimum(x * e, 700.0))
        m = others * np.exp(-e / 2) * shrink
        inside = high * e <= (2 * math.pi - low * e) * (1 - 1e-12)
        ends = np.where(inside, np.cos(np.minimum(low * e, math.pi)) + 1e-15, 1.0)
        # The other end of y: cos(high·e) before half a turn, else −1.
        lowest = np.cos(np.minimum(high * e, math.pi))
        sinh2 = (0.5 * (1 - decay)) ** 2
        square = m * m + np.maximum(
            4 * (sinh2 + np.minimum(ends, 1.0) ** 2 * shrink**2) + 4 * m * ends * cosh,
            4 * (sinh2 + (np.abs(lowest) + 1e-15) ** 2 * shrink**2) + 4 * m * (lowest + 1e-15) * cosh,
        )
        # e^{-e/2+xe}·√square over (1 + (1+n)e^{-e}): M = e^{ce}·… with xe − e/2 = ce.
        return np.asarray(c * e + 0.5 * np.log(np.maximum(square, 1e-300)) - np.log1p((1 + others) * np.exp(-e)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRangePair(_HyperbolicPair):
    """The worst mechanism with log-ratios in a range of length ``epsilon``; ``fixed`` if it was chosen beforehand.

    Equal mechanisms fixed in advance have an optimum of their own (:mod:`hush.accounting.profile.closed_forms`). It is
    proved for them alone: next to others the dominating pair is used, which is valid in every composition.
    """

    fixed: bool = False

    def __hash__(self) -> int:
        return hash((5, self.epsilon.as_integer_ratio(), self.fixed))

    def adaptive(self) -> Pair:
        return replace(self, fixed=False)

    def moment(self, z: Ball) -> Ball:
        """Return sinhc(se)/sinhc(e/2)."""
        e, s = ball(self.epsilon), z + ball(0.5)
        return sinhc(s * e) / sinhc(flint().acb(e / 2))

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        """Return (1 − e^{(ε-e)/2})²/(1 − e^{-e}) inside [−e, e], 1 − e^ε below and 0 above."""
        e = ball(self.epsilon)
        inside = (-((epsilon.max(-e) - e) / 2).expm1()).max(0) ** 2 / (-(-e).expm1())
        return inside.max(-epsilon.expm1())

    def terms(self) -> Terms:
        """Return the two losses ±e, each with ±1/4s, over sinh(e/2)."""
        e, poly = self.epsilon, flint().arb_poly
        front = 1 / (4 * (ball(e) / 2).sinh())
        return {e: poly([0, front]), -e: poly([0, -front])}

    def cells(self, c: float, width: float, *, reverse: bool, noise: Range = EVERYWHERE) -> LossCells | None:
        """Return cells of the loss, which has no atoms."""
        return laplace_cells(float(self.epsilon), c, width, atoms=False)

    def attained(self) -> Pair:
        """Return the response with losses ±ε/2: a mechanism of this range, while no single one attains the whole pair.

        Nothing valid goes below it. The Rényi route knows bounded ranges better (ε²/8) than their dominating pair does.
        """
        return ResponsePair(epsilon=self.epsilon / 2)

    def group(self, size: int) -> Pair:
        """Return ``size`` times the range: log-ratios along a chain of neighbours add."""
        return replace(self, epsilon=self.epsilon * size)

    def renyi(self, alpha: Fraction) -> Ball:
        """Return the smaller of the pair's divergence and αε²/8, both valid for every mechanism of bounded range."""
        return Pair.renyi(self, alpha).min(ball(alpha) * self.rho())

    def rho(self) -> Ball:
        """Return ε²/8, which holds for every mechanism of bounded range (Cesar, Rogers 2021); the pair has ε²/6."""
        return ball(self.epsilon * self.epsilon / 8)

    @staticmethod
    def weights(e: Floats, others: Floats) -> tuple[Floats | None, Floats | None, Floats | None]:
        return None, 1 / -np.expm1(-e), None

    @staticmethod
    def log_moduli(e: Floats, others: Floats, c: float, low: float, high: float) -> Floats:
        """|sinh(se)/s|² = (sinh² xe + sin² ue)/(x²+u²) falls while ue ≤ π; beyond, at most cosh² xe/(x²+u²).

        With X = xe, θ = ue: the derivative's sign is that of sinθ·cosθ·(X²+θ²) − θ(sinh²X + sin²θ), and sinθcosθ ≤ θ,
        X ≤ sinh X, θcosθ ≤ sinθ on [0, π].
        """
        x = (c + 0.5) * e
        # Everything is divided by e^{2X}; sinh X = X·(sinhc) keeps its relative accuracy for small X.
        shrink = np.exp(-2 * np.minimum(x, 350.0))
        sinh2, cosh2 = (0.5 * np.expm1(-2 * x)) ** 2, (0.5 * (1 + np.exp(-2 * x))) ** 2
        start = np.minimum(low * e, math.pi)
        near = (sinh2 + np.sin(start) ** 2 * shrink) / (x * x + start * start)
        far = cosh2 / (x * x + np.maximum(low * e, math.pi) ** 2)
        square = np.where(low * e < math.pi, np.maximum(near, far), far)
        # M = e^{X-e/2}·√square·e/(1 − e^{-e}), and X − e/2 = ce.
        return np.asarray(c * e + 0.5 * np.log(square) - np.log(-np.expm1(-e) / e))


_MAX_VALUES_AT_ONCE = 1 << 17
"""The number of (pair, node) values computed at once; it bounds the memory of large compositions."""


class HyperbolicBatch(Batch):
    """Many Laplace pairs, responses or bounded ranges, of one of these kinds.

    Where |se| ≤ 1, M−1 is formed without cancellation and K = log1p(M−1); elsewhere K = ze + ln(bracket) with

        bracket = a·(1+D)/2 + b·(1−D)/2s + n·e^{-ze},  D = e^{-2se}.
    """

    def __init__(self, pairs: Sequence[Any], counts: Sequence[int]) -> None:
        self.kind = type(pairs[0])
        self.e = np.array([float(pair.epsilon) for pair in pairs], dtype=np.float64)[:, None]
        self.others = np.array([float(getattr(pair, "others", 0)) for pair in pairs])[:, None]
        self.counts = np.array([float(n) for n in counts])
        self.weights = self.kind.weights(self.e, self.others)

    def cumulant(self, z: Complexes) -> tuple[Complexes, Floats]:
        value = np.zeros(z.shape, dtype=z.dtype)
        error = np.zeros(z.shape)
        rows = max(1, _MAX_VALUES_AT_ONCE // max(1, z.size))
        for first in range(0, len(self.e), rows):
            some = slice(first, first + rows)
            weights = (weight if weight is None or len(weight) == 1 else weight[some] for weight in self.weights)
            k, r = self._rows(z, self.e[some], *weights)
            value += self.counts[some] @ k
            error += self.counts[some] @ r
            # Summing n terms of either sign: at most (n+2) units of the sum of moduli.
            error += (min(rows, len(self.e)) + 4) * UNIT * (self.counts[some] @ np.abs(k))
        return value, error * (1 + 1e-9)

    def _rows(
        self, z: Complexes, e: Floats, a: Floats | None, b: Floats | None, n: Floats | None
    ) -> tuple[Complexes, Floats]:
        near = np.abs(z + 0.5) * e <= 1.0
        # On the far side of the mask the near formula (and the reverse) may overflow; its values are discarded.
        with np.errstate(all="ignore"):
            if near.any():
                k1, r1 = _near(z, e, a, b)
                if near.all():
                    return k1, r1
            k2, r2 = _far(z, e, a, b, n)
        return (np.where(near, k1, k2), np.where(near, r1, r2)) if near.any() else (k2, r2)

    def log_tail(self, c: float, low: float, high: float) -> float:
        e = self.e[:, 0]
        logs = self.kind.log_moduli(e, self.others[:, 0], c, low, high)
        # The size of a logarithm's terms bounds its error in units.
        return upward(float(self.counts @ (logs + 64 * UNIT * (8 + c * e + np.abs(logs)))))


def _near(z: Complexes, e: Floats, a: Floats | None, b: Floats | None) -> tuple[Complexes, Floats]:
    """Return K = log1p(M−1) and R; n is the same in M and in M(0) = 1, and cancels."""
    parts = []
    if a is not None:
        # cosh(se) − cosh(e/2) = 2·sinh((z+1)e/2)·sinh(ze/2): no difference of nearly equal numbers.
        parts.append(2 * a * np.exp(-e / 2) * np.sinh((z + 1) * (e / 2)) * np.sinh(z * (e / 2)))
    if b is not None:
        parts.append(b * e * np.exp(-e / 2) * _sinhc_excess(z, e))
    excess, size = sum(parts[1:], start=parts[0]), sum(map(np.abs, parts[1:]), start=np.abs(parts[0]))
    k = log1p(excess)
    # e has a relative error of one unit and the excess is quadratic in it; each sinh, product and sum adds a few more.
    return k, UNIT * (64 * size + 16 * np.abs(excess)) / np.maximum(np.abs(1 + excess), 1e-3) + 8 * UNIT * np.abs(k)


def _far(z: Complexes, e: Floats, a: Floats | None, b: Floats | None, n: Floats | None) -> tuple[Complexes, Floats]:
    """Return K = ze + ln(bracket) and R."""
    s = z + 0.5
    decay, reach = np.exp(-2 * s * e), 16 + (16 * np.abs(s)) * e
    half, share = 0.0 if a is None else 0.5 * a, 0.0 if b is None else b * (0.5 / s)
    bracket = (half + share) + (half - share) * decay
    units = (half + np.abs(share)) * (16 + np.abs(decay) * reach)
    if n is not None:
        middle = n * np.exp(-z * e)
        bracket, units = bracket + middle, units + np.abs(middle) * reach
    size = np.abs(bracket)
    # A bracket that is lost in its error is replaced by the error, with R = ln 4: as in `total`.
    lost = ~(size > 4 * UNIT * units)
    log = np.log(np.where(lost, 4 * UNIT * units, bracket))
    r = np.where(lost, math.log(4), np.log1p(UNIT * units / np.where(lost, 1.0, size)))
    return z * e + log, r + UNIT * (16 * np.abs(z) * e + 8 * np.abs(log) + 8)


def _sinhc_excess(z: Complexes, e: Floats) -> Complexes:
    """Return sinhc(se) − sinhc(e/2) for |se| ≤ 1: z(z+1)e²·Σ hₙ/(2n+1)!, hₙ₊₁ = w hₙ + w₀ⁿ; ten terms leave 1e-21."""
    w, w0 = ((z + 0.5) * e) ** 2, (e / 2) ** 2
    h = np.ones(w.shape, dtype=w.dtype)
    power = np.ones(e.shape)
    summed = h / 6.0
    factorial = 6.0
    for n in range(2, 11):
        power = power * w0
        h = w * h + power
        factorial *= (2 * n) * (2 * n + 1)
        summed = summed + h / factorial
    return z * (z + 1.0) * (e * e) * summed


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
        """Return M(z), by the closed form."""
        a, delta = ball(self.parameter), self.sensitivity
        s = z + flint().arb(1) / 2
        r = (-a).exp()
        # sinh(sa(Δ−1))/sinh(sa); at s = 0, where both vanish, it is Δ − 1.
        summed = (delta - 1) * sinhc(s * a * (delta - 1)) / sinhc(s * a)
        return (-a * delta / 2).exp() * (2 * (s * a * delta).cosh() + (1 - r) * summed) / (1 + r)

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:
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
        return self.parameter * self.sensitivity

    def terms(self) -> Terms | None:
        """Return the losses a(2x−Δ), x = 0…Δ, each with its mass times e^{-loss/2}."""
        if self.sensitivity > _MAX_LISTED_SENSITIVITY:
            return None
        a, delta, poly = self.parameter, self.sensitivity, flint().arb_poly
        r = (-ball(a)).exp()
        front = (-ball(a) * delta / 2).exp() / (1 + r)
        return {a * (2 * x - delta): poly([front * (1 if x in {0, delta} else 1 - r)]) for x in range(delta + 1)}

    def group(self, size: int) -> Pair:
        return DiscreteLaplacePair(parameter=self.parameter, sensitivity=self.sensitivity * size)

    def rho(self) -> Ball:
        """Return e·tanh(e/2), e = aΔ: the ρ of every e-DP mechanism."""
        e = ball(self.parameter * self.sensitivity)
        return e * (e / 2).tanh()

    def cumulant(self, z: Complexes, *, reverse: bool) -> tuple[Complexes, Floats]:
        """K = z·aΔ + ln{[1 + e^{-2saΔ} + (1−r)·S]/(1+r)}, S = Σ_{y=1}^{Δ-1} e^{-2say}: every term of modulus at most 1.

        S = q(1−q^{Δ-1})/(1−q) with q = e^{-2sa}; the absolute error of 1−q is amplified by 1/|1−q|², never worse than
        the real case since Re s ≥ 1/2. (1−r)/|1−q| is bounded by 1 for Re s ≥ 1/2.
        """
        a, delta = float(self.parameter), self.sensitivity
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

    def log_tail(self, c: float, low: float, high: float, *, reverse: bool) -> float:
        """As for Laplace: 2|cosh(saΔ)| falls until uaΔ = π/2, and |Σ| ≤ cosh(xa(Δ−1))/√(sinh²xa + sin²ua) besides."""
        x, a, delta = c + 0.5, float(self.parameter), self.sensitivity
        r = math.exp(-a)
        top = min(x * a * delta, 350.0)
        cosh = 0.5 * (1 + math.exp(-2 * x * a * delta))  # times e^{xaΔ}
        # Σ_{y=1}^{Δ-1} e^{xa(2y-Δ)} at u = 0, times e^{-xaΔ}, a little above.
        real = math.expm1(-2 * x * a * (delta - 1)) / math.expm1(-2 * x * a) * math.exp(-2 * x * a) * (1 + 64 * UNIT)
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
