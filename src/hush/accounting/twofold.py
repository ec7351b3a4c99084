r"""Two subsampled Gaussians: one integral, by certified adaptive quadrature in ball arithmetic.

Deep in the tail two sampled Gaussians leave the contour of :mod:`.contour` nothing but cancellation; conditioning on
the noise t of the first does not cancel: everything is positive. With A = 1−q+q·e^{κt−κ²/2} and δ₂ the closed form of
the second pair (:meth:`.PoissonGaussianPair.profile`),

    δ(ε) = ∫ φ(t)·A(t)·δ₂(ε − ln A(t)) dt,   in reverse   δ(ε) = ∫ φ(t)·δ₂'(ε + ln A(t)) dt.

δ₂ is analytic where its own threshold t₂ is finite, that is for t < the t at which w = 1 + (e^ε/A − 1)/q₂ = 0 (in
reverse w = 1 + (e^{-ε}/A − 1)/q₂), with t₂ = (ln w)/κ₂ + κ₂/2; Arb's integration (Johansson 2018) is asked up to the
point t_c at which t₂ = −b, and its result is a ball that holds the integral.

**Right of t_c.** δ₂(x) − (1−e^x) = e^x·Q(t < t₂) − P(t < t₂) lies between 0 and Φ(t₂) ≤ Φ(−b), as e^x Q is at most N's
share there: where w < 1, e^x < 1. So ∫_{t_c}^∞ φ·(A − e^ε) = q·Φ̄(t_c−κ) + (1−q−e^ε)·Φ̄(t_c) is low by at
most Φ(−b)·P(t > t_c). In reverse δ₂' ≤ Φ(t₂) ≤ Φ(−b): nothing is added but that.

**Left of T < 0.** A ≤ 1 there, and δ₂ ≤ 1: at most Φ(T) is lost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hush.accounting.balls import ball, down, flint, precision, up
from hush.accounting.contour import Contour, LogInterval
from hush.accounting.pairs import PoissonGaussianPair
from hush.accounting.search import invert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hush.accounting.balls import Ball
    from hush.accounting.cumulant import Cumulant
    from hush.accounting.pairs import Pair

__all__ = ["TwoFold"]

_BITS = 160
_NATS = 45.0


class TwoFold:
    """δ(ε) of two sampled Gaussians, equal or not."""

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        both = [pair for pair, count in cumulant.pairs.items() for _ in range(count)]
        self.first, self.second = both[0], both[1]
        self.cumulant = cumulant
        self.largest = largest

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether there are two sampled Gaussians and nothing else."""
        return sum(pairs.values()) == 2 and all(isinstance(pair, PoissonGaussianPair) for pair in pairs)

    def _delta(self, epsilon: Ball, reach: float) -> Ball:
        """Return a ball around δ; the ends of integration are ``reach`` deviations out."""
        module = flint()
        arb, acb = module.arb, module.acb
        reverse = self.cumulant.reverse
        q, kappa = ball(self.first.rate), ball(self.first.mu_squared).sqrt()  # type: ignore[attr-defined]
        q2, kappa2 = ball(self.second.rate), ball(self.second.mu_squared).sqrt()  # type: ignore[attr-defined]
        root = arb(2).sqrt()
        grown = (-epsilon if reverse else epsilon).exp()

        def above(t: Ball) -> Ball:
            return (t / root).erfc() / 2

        b = ball(reach)
        # A(t_c) = e^{±ε}/(1 − q₂ + q₂e^{-bκ₂-κ₂²/2}), and t_c from it.
        inside = (grown / (1 - q2 + q2 * (-b * kappa2 - kappa2 * kappa2 / 2).exp()) - 1) / q + 1
        left = arb(-reach)
        if not inside > 0 and not inside < 0:
            return arb.nan()
        end = (inside.log() / kappa + kappa / 2).mid() if inside > 0 else left
        end = max(left, end)

        def integrand(t: Ball, analytic: bool) -> Ball:
            a = 1 - q + q * (kappa * t - kappa * kappa / 2).exp()
            w = (grown / a - 1) / q2 + 1
            if analytic and not w.real > 0:
                return acb(arb.nan())
            t2 = (w.log() + kappa2 * kappa2 / 2) / kappa2
            front = (-t * t / 2).exp() / 2
            if reverse:
                x = a / grown
                return front * ((1 - x * (1 - q2)) * (-t2 / root).erfc() - x * q2 * ((kappa2 - t2) / root).erfc())
            x = grown / a
            return front * a * (q2 * ((t2 - kappa2) / root).erfc() + ((1 - q2) - x) * (t2 / root).erfc())

        total = arb(0)
        if end > left:
            total = acb.integral(integrand, acb(left), acb(end), rel_tol=arb(2) ** -44, abs_tol=arb(2) ** -1500).real
            total /= (2 * arb.pi()).sqrt()
        # Everything from t_c on has t₂ ≤ −b, but for the rounding of t_c: a thousandth of a deviation is in hand.
        beyond = above(b - ball(0.001))
        if not reverse:
            right = q * above(end - kappa)
            total += right + ((1 - q) - grown) * above(end)
            beyond *= right + (1 - q) * above(end)
        # Between 0 and Φ(−b)·… + Φ(T).
        missing = (beyond + above(b)).abs_upper()
        return total + missing * arb(0.5, 0.5)

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        with precision(_BITS):
            e = ball(epsilon)
            # The composition's δ is at least that of one of the two: enough to know how far out to go.
            least = max(
                down(pair.profile(e, reverse=self.cumulant.reverse).log()) if not self.cumulant.reverse else -700.0
                for pair in (self.first, self.second)
            )
            reach = math.sqrt(2 * (min(max(-least, 1.0), 2000.0) + _NATS)) + 1
            value = self._delta(e, reach)
            if not value.is_finite():
                return LogInterval(lower=-math.inf, upper=0.0)
            top = value.abs_upper()
            return LogInterval(
                lower=down(value.lower().log()) if value > 0 else -math.inf,
                upper=min(0.0, up(top.log())) if top > 0 else -math.inf,
            )

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        guess = Contour(self.cumulant, largest=self.largest).guess(target.lower)
        if guess is None:
            return 0.0, math.inf
        return invert(self.log_delta, target, guess=guess[0], slope=guess[1], largest=self.largest)
