r"""One sampled Gaussian beside steps that have an expansion: one integral between kinks, in ball arithmetic.

The profile F of Laplace, bounded-range, randomized-response and discrete Laplace steps is, by :mod:`.expansion`,

    F(x) = e^{x/2}·Σ_{y>x} Σ_j q_{y,j}·R_j(y−x):

analytic between its losses y, 0 from the largest one on, and 1 − e^x below the smallest. Conditioning on the noise t of
the sampled Gaussian, A = 1−q+q·e^{κt−κ²/2},

    δ(ε) = ∫ φ(t)·A(t)·F(ε − ln A(t)) dt,   in reverse   δ(ε) = ∫ φ(t)·F(ε + ln A(t)) dt.

The line is cut where ε ∓ ln A(t) = y, and Arb integrates each piece (Johansson 2018); on the piece where F is 1 − e^x
the integral is a combination of normal tails, and on that where F is 0 there is nothing. Forward, x falls with t from
ε − ln(1−q); in reverse it rises from ε + ln(1−q). Left of −T the integrand is at most φ(t), for A ≤ 1 there, and right
of T + κ (of T in reverse) its integral at most P(t > T + κ) ≤ Φ̄(T): that is what may be missing.

Gaussians that are not sampled are the case q = 1, with their summed μ².
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from hush.accounting.balls import ball, down, flint, precision, up
from hush.accounting.contour import Contour, LogInterval
from hush.accounting.expansion import Expansion, expanded
from hush.accounting.pairs import GaussianPair, PoissonGaussianPair
from hush.accounting.search import invert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hush.accounting.balls import Ball
    from hush.accounting.cumulant import Cumulant
    from hush.accounting.pairs import Pair

__all__ = ["SampledStep"]

_BITS = 192
_NATS = 45.0
_MOST_LOSSES = 64
_MOST_DEGREE = 24


class SampledStep:
    """δ(ε) of one sampled Gaussian and a short expansion."""

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        self.cumulant = cumulant
        self.largest = largest
        self.rate, self.mu_squared = Fraction(1), Fraction(0)
        rest = {}
        for pair, count in cumulant.pairs.items():
            if isinstance(pair, PoissonGaussianPair):
                self.rate, self.mu_squared = pair.rate, pair.mu_squared
            elif isinstance(pair, GaussianPair):
                self.mu_squared += count * pair.mu_squared
            else:
                rest[pair] = count
        with precision(2 * _BITS):
            self.terms: list[tuple[Fraction, list[Ball]]] = expanded(rest)

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether there is one sampled Gaussian, or plain ones alone, and the rest has a short expansion."""
        sampled = sum(count for pair, count in pairs.items() if isinstance(pair, PoissonGaussianPair))
        plain = sum(isinstance(pair, GaussianPair) for pair in pairs)
        rest = {p: n for p, n in pairs.items() if not isinstance(p, (GaussianPair, PoissonGaussianPair))}
        if not rest or sum(rest.values()) > _MOST_DEGREE or not (sampled == 1) ^ (plain > 0):
            return False
        return sampled <= 1 and Expansion.suits(rest) and Expansion.losses(rest) <= _MOST_LOSSES

    def _profile(self, x: Ball, count: int) -> Ball:
        """Return F(x) from its ``count`` largest losses: the analytic piece below the last of them."""
        total = flint().acb(0)
        for loss, coefficients in self.terms[:count]:
            total += _residues((ball(loss) - x) / 2, coefficients)
        return total * (x / 2).exp()

    def _delta(self, epsilon: Ball, reach: float) -> Ball:
        module = flint()
        arb, acb = module.arb, module.acb
        reverse = self.cumulant.reverse
        q, kappa = ball(self.rate), ball(self.mu_squared).sqrt()
        root, norm = arb(2).sqrt(), (2 * arb.pi()).sqrt()

        def above(t: Ball) -> Ball:
            return (t / root).erfc() / 2

        low = arb(-reach)
        high = arb(reach) if reverse else arb(reach) + kappa.mid()

        def place(loss: Fraction) -> Ball:
            """Return the t at which x is the loss, held to [low, high]."""
            inside = ((ball(loss) - epsilon if reverse else epsilon - ball(loss)).expm1()) / q + 1
            if not inside > 0:
                return low if inside < 0 else arb.nan()
            return (inside.log() / kappa + kappa / 2).max(low).min(high)

        rough = [place(loss) for loss, _ in self.terms]
        if any(not cut.is_finite() for cut in rough):
            return arb.nan()
        cuts = [cut.mid() for cut in rough]
        total, slack = arb(0), arb(0)
        for cut in rough:
            # A cut is known to within its radius; across it φ·A·F is continuous, and F at most 1 on either side.
            width = 2 + q * (kappa * cut).exp()
            slack += 4 * cut.rad() * (-cut * cut / 2).exp() * width
        for i in range(len(cuts) - 1):
            start, end = (cuts[i + 1], cuts[i]) if reverse else (cuts[i], cuts[i + 1])
            if not end > start:
                continue

            def integrand(t: Ball, _: bool, count: int = i + 1) -> Ball:
                a = 1 - q + q * (kappa * t - kappa * kappa / 2).exp()
                # ln A is analytic off the negative axis, where it returns a ball that is not finite.
                log = a.log() if a.real > 0 else acb(arb.nan())
                weight = (-t * t / 2).exp()
                return weight * (
                    self._profile(epsilon + log, count) if reverse else a * self._profile(epsilon - log, count)
                )

            total += acb.integral(integrand, acb(start), acb(end), rel_tol=arb(2) ** -44, abs_tol=arb(2) ** -1500).real
        total /= norm
        # Where x is below every loss, F = 1 − e^x.
        last, missing = cuts[-1], above(arb(reach))
        if reverse:
            grown = epsilon.exp()
            total += (1 - grown * (1 - q)) * (above(-last) - above(-low)) - grown * q * (
                above(kappa - last) - above(kappa - low)
            )
            missing *= 2
        else:
            if last < high:
                total += q * above(last - kappa) + ((1 - q) - epsilon.exp()) * above(last)
            missing += above(high - kappa - arb(2) ** -40)
        return total + missing.abs_upper() * arb(0.5, 0.5) + slack.abs_upper() * arb(0, 1)

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        nats = _NATS
        while True:
            with precision(_BITS):
                value = self._delta(ball(epsilon), math.sqrt(2 * nats) + 1)
                if value.is_finite() and value > 0 and value.rel_accuracy_bits() > 34:
                    return LogInterval(lower=down(value.lower().log()), upper=min(0.0, up(value.upper().log())))
                if nats > 1000 or not value.is_finite():
                    top = value.abs_upper() if value.is_finite() else flint().arb(1)
                    return LogInterval(lower=-math.inf, upper=min(0.0, up(top.log())) if top > 0 else -math.inf)
            nats *= 2.5

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        guess = Contour(self.cumulant, largest=self.largest).guess(target.lower)
        if guess is None:
            return 0.0, math.inf
        return invert(self.log_delta, target, guess=guess[0], slope=guess[1], largest=self.largest)


def _residues(half: Ball, coefficients: list[Ball]) -> Ball:
    """Return Σ_j q_j R_j(2·half) for a complex argument: R_j is 2^{j+1} times cosh or sinh less its first terms.

    That cancels for a small argument, which the ball shows; by then y^{j+1} is small beside the other terms.
    """
    whole = [half.sinh(), half.cosh()]
    total = flint().acb(0)
    power = flint().acb(1)
    for j, coefficient in enumerate(coefficients):
        # j even: odd powers from j+1 on, sinh; j odd: even powers from j+1 on, cosh.
        total += coefficient * whole[j % 2] * 2 ** (j + 1)
        # Powers half^j/j! are subtracted from the series of their own parity, for the terms after this one.
        whole[(j + 1) % 2] = whole[(j + 1) % 2] - power
        power = power * half / (j + 1)
    return total
