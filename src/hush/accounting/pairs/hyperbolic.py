r"""Laplace, randomized response and bounded range: three pairs written with cosh and sinh of s = z + 1/2.

With e the largest loss (Δ/b for Laplace noise of scale b):

* Laplace: M = e^{-e/2}·[cosh(se) + sinh(se)/2s]. Loss: atoms 1/2 at e and e^{-e}/2 at −e, density e^{(l-e)/2}/4
between. * Randomized response over 2 + n answers: M = [2e^{e/2}cosh(se) + n] / (e^e + 1 + n). With n = 0 it dominates
every   mechanism that is e-DP (Kairouz, Oh, Viswanath 2015).
* Bounded range (the exponential mechanism): M = sinh(se) / (2s·sinh(e/2)). Loss density e^{(l-e)/2}/2(1−e^{-e}) on
  [−e, e], the pair whose profile is (1−e^{(ε-e)/2})²/(1−e^{-e}), the largest that a mechanism of range e can have
  (Dong, Durfee, Rogers 2020); hence valid however the mechanisms are chosen.

All three are even in s, so symmetric, and entire in w = s² of order 1/2 with only negative zeros (those of cos y + sin
y/2y and sin y / y are real: eigenvalues of a self-adjoint problem), so M(w) = M(w₀)·Π(1+w/aⱼ)/(1+w₀/aⱼ) and ln M is
concave in w. Hence K(z)/(z(z+1)) = (K(w)−K(1/4))/(w−1/4) is largest as z → 0: **ρ is the Kullback–Leibler divergence**
K'(0) (for n > 0 the zeros need not be negative, and the value for n = 0 is used, which dominates).

>>> from fractions import Fraction
>>> from hush.core.balls import up
>>> round(up(LaplacePair(epsilon=Fraction(1)).rho()), 12)             # e − 1 + e^{-e}
0.367879441171
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.accounting.pairs.base import EVERYWHERE, Batch, LossCells, Pair, Range, Terms
from hush.accounting.pairs.hyperbolic_batches import LaplaceBatch, RangeBatch, ResponseBatch
from hush.accounting.pairs.loss_cells import laplace_cells
from hush.core.balls import Ball, ball, flint


def _half() -> Ball:
    return flint().arb(1) / 2


def sinhc(w: Ball) -> Ball:
    """Return sinh(w)/w, entire: by its series where the ball comes near zero."""
    if w.abs_upper() < 1:
        square, term, summed = w * w, flint().acb(1), flint().acb(1)
        bits = flint().ctx.prec
        for n in range(1, bits // 2 + 8):
            term = term * square / ((2 * n) * (2 * n + 1))
            summed += term
        rest = flint().arb(0, 1) * (2 * term.abs_upper())
        return summed + flint().acb(rest, rest)
    return w.sinh() / w


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplacePair(Pair):
    """Laplace noise against itself moved by the sensitivity; ``epsilon`` = Δ/b."""

    epsilon: Fraction

    def __hash__(self) -> int:
        # A Fraction's own hash takes a modular power; its two integers will do.
        return hash((3, self.epsilon.as_integer_ratio()))

    def moment(self, z: Ball) -> Ball:
        """Return e^{-e/2}(cosh se + sinh(se)/2s)."""
        e, s = ball(self.epsilon), z + _half()
        return (-e / 2).exp() * ((s * e).cosh() + e * sinhc(s * e) / 2)

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:  # noqa: ARG002
        """Return Δ/b."""
        return ball(self.epsilon)

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:  # noqa: ARG002
        """Return 1 − e^{(ε-e)/2} inside [−e, e], 1 − e^ε below and 0 above."""
        e = ball(self.epsilon)
        return (-((epsilon - e) / 2).expm1()).max(0).max(-epsilon.expm1())

    def top_mass(self, *, reverse: bool = False) -> Ball | None:  # noqa: ARG002
        """Return 1/2."""
        return _half()

    def exact_largest_loss(self) -> Fraction:
        """Return Δ/b."""
        return self.epsilon

    def strength(self) -> Fraction:
        """Return Δ/b."""
        return self.epsilon

    def terms(self) -> Terms:
        """Return the two losses ±e, each with ½ ± 1/4s, times e^{-e/2}."""
        e, poly = self.epsilon, flint().arb_poly
        front = (-ball(e) / 2).exp()
        return {e: poly([front * _half(), front / 4]), -e: poly([front * _half(), -front / 4])}

    def terms_shape(self) -> tuple[int, int]:
        """Return two losses of degree 1."""
        return 2, 1

    def cells(
        self,
        c: float,
        width: float,
        *,
        reverse: bool,  # noqa: ARG002
        noise: Range = EVERYWHERE,  # noqa: ARG002
    ) -> LossCells | None:
        """Return cells of the loss, and its two atoms."""
        return laplace_cells(float(self.epsilon), c, width)

    def group(self, size: int) -> Pair:
        """Return ``size`` times the sensitivity."""
        return LaplacePair(epsilon=self.epsilon * size)

    def rho(self) -> Ball:
        """Return the KL divergence e − 1 + e^{-e}."""
        e = ball(self.epsilon)
        return e + (-e).expm1()

    @classmethod
    def batch(cls, pairs: Sequence[Pair], counts: Sequence[int], *, reverse: bool = False) -> Batch:  # noqa: ARG003
        """Return the vectorised cumulant."""
        return LaplaceBatch([float(p.epsilon) for p in pairs], counts)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsePair(Pair):
    """Randomized response: losses ±ε, and 0 with weight ``others`` = n for the answers that are neither's truth."""

    epsilon: Fraction
    others: int = 0

    def __hash__(self) -> int:
        # A Fraction's own hash takes a modular power; its two integers will do.
        return hash((4, self.epsilon.as_integer_ratio(), self.others))

    def moment(self, z: Ball) -> Ball:
        """Return [2e^{e/2}cosh(se) + n]/(e^e + 1 + n)."""
        e, s = ball(self.epsilon), z + _half()
        return (2 * (e / 2).exp() * (s * e).cosh() + self.others) / (e.exp() + 1 + self.others)

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:  # noqa: ARG002
        """Return ε."""
        return ball(self.epsilon)

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:  # noqa: ARG002
        """Return the sum over the three losses ε, 0, −ε."""
        e = ball(self.epsilon)
        norm = e.exp() + 1 + self.others
        top = e.exp() * (-(epsilon - e).expm1()).max(0)
        return (top + self.others * (-epsilon.expm1()).max(0) + (-(epsilon + e).expm1()).max(0)) / norm

    def lattice(self) -> tuple[Fraction, Fraction]:
        """Return {−ε, ε}, with 0 where there are other answers."""
        return self.epsilon, self.epsilon if self.others else 2 * self.epsilon

    def top_mass(self, *, reverse: bool = False) -> Ball | None:  # noqa: ARG002
        """Return the mass of the true answer."""
        return 1 / (1 + (1 + self.others) * (-ball(self.epsilon)).exp())

    def exact_largest_loss(self) -> Fraction:
        """Return ε."""
        return self.epsilon

    def strength(self) -> Fraction | None:
        """Return ε where there are no other answers."""
        return None if self.others else self.epsilon

    def terms(self) -> Terms:
        """Return the losses ±ε and 0, each with its mass times e^{-x/2}."""
        e, poly = self.epsilon, flint().arb_poly
        other = self.others * (-ball(e) / 2).exp()
        front = 1 / (2 * (ball(e) / 2).cosh() + other)
        terms = {e: poly([front]), -e: poly([front])}
        if self.others:
            terms[Fraction(0)] = poly([front * other])
        return terms

    def terms_shape(self) -> tuple[int, int]:
        """Return two losses, or three where there are other answers."""
        return 3 if self.others else 2, 0

    def group(self, size: int) -> Pair:
        """Return the pair of every mechanism that is ``size``·ε-DP."""
        return ResponsePair(epsilon=self.epsilon * size)

    def rho(self) -> Ball:
        """Return e·tanh(e/2), the KL divergence of the binary response."""
        e = ball(self.epsilon)
        return e * (e / 2).tanh()

    @classmethod
    def batch(cls, pairs: Sequence[Pair], counts: Sequence[int], *, reverse: bool = False) -> Batch:  # noqa: ARG003
        """Return the vectorised cumulant."""
        return ResponseBatch(
            [float(p.epsilon) for p in pairs],  # type: ignore[attr-defined]
            counts,
            np.array([[float(p.others)] for p in pairs]),  # type: ignore[attr-defined]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRangePair(Pair):
    """The worst mechanism whose log-ratios span a range of ``epsilon``."""

    epsilon: Fraction

    def __hash__(self) -> int:
        # A Fraction's own hash takes a modular power; its two integers will do.
        return hash((5, self.epsilon.as_integer_ratio()))

    def moment(self, z: Ball) -> Ball:
        """Return sinhc(se)/sinhc(e/2)."""
        e, s = ball(self.epsilon), z + _half()
        return sinhc(s * e) / sinhc(flint().acb(e / 2))

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:  # noqa: ARG002
        """Return ε."""
        return ball(self.epsilon)

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:  # noqa: ARG002
        """Return (1 − e^{(ε-e)/2})²/(1 − e^{-e}) inside [−e, e], 1 − e^ε below and 0 above."""
        e = ball(self.epsilon)
        inside = (-((epsilon.max(-e) - e) / 2).expm1()).max(0) ** 2 / (-(-e).expm1())
        return inside.max(-epsilon.expm1())

    def exact_largest_loss(self) -> Fraction:
        """Return ε."""
        return self.epsilon

    def terms(self) -> Terms:
        """Return the two losses ±e, each with ±1/4s, over sinh(e/2)."""
        e, poly = self.epsilon, flint().arb_poly
        front = 1 / (4 * (ball(e) / 2).sinh())
        return {e: poly([0, front]), -e: poly([0, -front])}

    def terms_shape(self) -> tuple[int, int]:
        """Return two losses of degree 1."""
        return 2, 1

    def cells(
        self,
        c: float,
        width: float,
        *,
        reverse: bool,  # noqa: ARG002
        noise: Range = EVERYWHERE,  # noqa: ARG002
    ) -> LossCells | None:
        """Return cells of the loss, which has no atoms."""
        return laplace_cells(float(self.epsilon), c, width, atoms=False)

    def attained(self) -> Pair:
        """Return the response with losses ±ε/2: a mechanism of this range, while no single one attains the whole pair.

        Nothing valid goes below it. The Rényi route knows bounded ranges better (ε²/8) than their dominating pair does.
        """
        return ResponsePair(epsilon=self.epsilon / 2)

    def group(self, size: int) -> Pair:
        """Return ``size`` times the range: log-ratios along a chain of neighbours add."""
        return BoundedRangePair(epsilon=self.epsilon * size)

    def renyi(self, alpha: Fraction) -> Ball:
        """Return the smaller of the pair's divergence and αε²/8, both valid for every mechanism of bounded range."""
        return Pair.renyi(self, alpha).min(ball(alpha) * self.rho())

    def rho(self) -> Ball:
        """Return ε²/8, which holds for every mechanism of bounded range (Cesar, Rogers 2021); the pair has ε²/6."""
        return ball(self.epsilon * self.epsilon / 8)

    @classmethod
    def batch(cls, pairs: Sequence[Pair], counts: Sequence[int], *, reverse: bool = False) -> Batch:  # noqa: ARG003
        """Return the vectorised cumulant."""
        return RangeBatch([float(p.epsilon) for p in pairs], counts)  # type: ignore[attr-defined]
