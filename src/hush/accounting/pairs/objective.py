r"""Objective perturbation: the law that bounds the privacy loss of a minimum with one Gaussian vector in its objective.

The mechanism releases the minimum of J(θ) = Σᵢ ℓ(yᵢ, xᵢ·θ) + ½(θ−θ₀)ᵀΛ(θ−θ₀) + b·θ with b ~ N(0, σ²I), where Λ ⪰ λI,
‖xᵢ‖ ≤ R, |ℓ'| ≤ 1 and 0 ≤ ℓ'' ≤ β (derivatives in the second argument); θ₀ and Λ are public. Units have one row.

**Theorem.** Let μ = R/σ, c₀ = ln(1 + βR²/λ) and N be standard normal. For neighbours that differ by one row, in either
direction, the loss is stochastically at most

    one-sided  (ℓ' keeps its sign for each y, as the logistic loss does):   c₀ + max(0, μ²/2 + μN)
    two-sided  (any ℓ' in [−1, 1], as Huber's):                             c₀ + μ²/2 + μ|N|.

*Proof.* For fixed rows θ ↦ b = −Σℓ'xᵢ − Λ(θ−θ₀) is a bijection (J is strongly convex), Lipschitz both ways, so that θ
has the density φ_σ(b(θ))·det H(θ), H = Σℓ''xxᵀ + Λ almost everywhere. Let D have the row (x, y) that D' lacks, and c =
ℓ'(y, x·θ). The same θ comes from b under D and from b + cx under D', so the log-ratio of the two densities at θ is

    [‖b + cx‖² − ‖b‖²]/2σ² + ln(det H_D/det H_D') = [c²‖x‖² + 2c⟨b, x⟩]/2σ² + ln(1 + ℓ''·xᵀH_D'⁻¹x).

The determinant adds at most c₀; in the other direction, with b' under D', the bracket has −2c⟨b', x⟩ and the logarithm
enters negatively, so it is left out. The bracket is convex in c. On [0, 1] (or [−1, 0]) it is at most the larger of its
values at the ends: 0, and one that is N(m²/2, m²), m = ‖x‖/σ ≤ μ; on [−1, 1] at most m²/2 + m|N|. Both bounds rise
with m, stochastically. ∎ (Chaudhuri, Monteleoni, Sarwate 2011; Kifer, Smith, Thakurta 2012; Redberg, Koskela, Wang
2023 have the two-sided form with |ln(1−β/λ)| for the determinant. The one-sided form needs no factor 2.)

A loss that is stochastically at most L', for every past, may be replaced by L' in every sum, since (1−e^{ε−L})₊
rises with L; so the pair below is the law of L' under P, and serves in both directions. Its moment is, with w =
(z+½)μ/√2 and v = zμ/√2,

    one-sided  M(z) = e^{zc₀}·[Φ(−μ/2) + e^{z(z+1)μ²/2}·(1 − ½erfc w)]
    two-sided  M(z) = e^{z(c₀+μ²/2)}·e^{v²}·(2 − erfc v).

**ρ.** max(0, ·) and |·| are 1-Lipschitz, so L' − E L' is sub-Gaussian of variance μ²: K(z) ≤ z·E L' + z²μ²/2, and as
E L' ≥ μ²/2, ρ = E L'.

>>> from fractions import Fraction
>>> from hush.core.rounding import ball, up
>>> pair = ObjectivePerturbationPair(mu_squared=Fraction(1, 25), curvature=Fraction(1, 10), two_sided=False)
>>> up(pair.profile(ball(Fraction(1)))) < 1e-5
True
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.accounting.pairs.base import UNIT, Complexes, Floats, Pair
from hush.accounting.pairs.gaussian import gaussian_profile
from hush.core.errors import DescriptionError
from hush.core.rounding import Ball, ball, flint, precision, up
from hush.core.work import spend

_WORKING_BITS = 128


def _normal(x: Ball) -> Ball:
    """Return Φ(x)."""
    return (-x / flint().arb(2).sqrt()).erfc() / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePerturbationPair(Pair):
    """The bounding law of the loss: μ² = R²/σ², and ``curvature`` = βR²/λ with c₀ = ln(1 + curvature)."""

    mu_squared: Fraction
    curvature: Fraction
    two_sided: bool

    def _shift(self) -> Ball:
        """Return c₀, the bound on the determinant's part of the loss."""
        return ball(self.curvature).log1p()

    def moment(self, z: Ball) -> Ball:
        """Return M(z), in closed form."""
        mu, root = ball(self.mu_squared).sqrt(), flint().arb(2).sqrt()
        if self.two_sided:
            v = z * mu / root
            return (z * (self._shift() + mu * mu / 2) + v * v).exp() * (2 - v.erfc())
        w = (z + flint().arb(1) / 2) * mu / root
        # E of e^{zL'} where μ²/2 + μN > 0, and the atom at c₀ of mass Φ(−μ/2).
        beyond = (z * (z + 1) * (mu * mu / 2)).exp() * (1 - w.erfc() / 2)
        return (z * self._shift()).exp() * (_normal(-mu / 2) + beyond)

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:
        """Return None: the loss has a Gaussian tail."""
        return None

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        """Return E(1−e^{ε−L'})₊: that of half a Gaussian above the least loss, 1 − e^ε·E e^{-L'} below it."""
        mu = ball(self.mu_squared).sqrt()
        if not self.two_sided:
            beyond = epsilon - self._shift()
            below = 1 - 2 * beyond.exp() * _normal(-mu / 2)
            return (
                gaussian_profile(mu * mu, beyond)
                if beyond >= 0
                else below
                if beyond < 0
                else below.union(gaussian_profile(mu * mu, beyond))
            )
        beyond = epsilon - self._shift() - mu * mu / 2
        # L' is c₀ + μ²/2 + μ|N|: twice the half of a normal law above its least value.
        above = 2 * (_normal(-beyond / mu) - (beyond + mu * mu / 2).exp() * _normal(-beyond / mu - mu))
        below = 1 - 2 * (beyond + mu * mu / 2).exp() * _normal(-mu)
        # A ball that cannot tell on which side ε lies gets both values.
        return above if beyond >= 0 else below if beyond < 0 else above.union(below)

    def group(self, size: int) -> Pair:
        """Refuse: with several rows the loss depends on more than one coordinate of b."""
        if size == 1:
            return self
        raise DescriptionError(
            f"Objective perturbation says nothing of groups of {size}; ask the guarantee's .group() for an (ε,δ) bound."
        )

    def rho(self) -> Ball:
        """Return E L'."""
        mu, circle = ball(self.mu_squared).sqrt(), (2 * flint().arb.pi()).sqrt()
        if self.two_sided:
            return self._shift() + mu * mu / 2 + 2 * mu / circle
        return self._shift() + mu * mu / 2 * _normal(mu / 2) + mu * (-mu * mu / 8).exp() / circle

    def cumulant(self, z: Complexes, *, reverse: bool) -> tuple[Complexes, Floats]:
        """Return K̂ and R in balls at every node: a fit has one step of this kind, and Gaussian steps keep z short."""
        value, error = np.zeros(z.shape, dtype=np.complex128), np.zeros(z.shape)
        with precision(_WORKING_BITS):
            spend(20 * z.size)
            for position, node in enumerate(z.tolist()):
                point = flint().acb(node.real, node.imag) if isinstance(node, complex) else flint().acb(node)
                log = self.moment(point).log()
                if not log.is_finite():
                    value[position] = error[position] = np.inf
                    continue
                value[position] = complex(float(log.real.mid()), float(log.imag.mid()))
                # |e^{η} − 1| ≤ e^{|η|} − 1, so the ball's radius is R itself.
                error[position] = up(log.real.rad() + log.imag.rad())
        with np.errstate(invalid="ignore"):
            return (value if z.dtype.kind == "c" else value.real), error + 4 * UNIT * np.abs(value)
