"""The least Gaussian noise for an (ε, δ): the exact answer, and the classical bounds within their limits.

With μ = Δ/σ the Gaussian mechanism has exactly (Balle, Wang 2018)

    δ(ε) = Φ(μ/2 - ε/μ) - e^{ε}·Φ(-μ/2 - ε/μ),

for every ε ≥ 0; it is never pure. The classical calibrations are offered by name:

* :func:`classical`: σ = cΔ/ε with c² above 9/4 and 2·ln(1.25/δ), for ε below 1 (Dwork, Roth 2014, Theorem A.1);
* :func:`two_over_delta`: σ = Δ√(2·ln(2/δ))/ε, which fails for large ε (from about 6.39 on);
* :func:`one_over_delta`: σ = Δ√(2·ln(1/δ))/ε, which fails for δ near 1 (at ε = 1 above 0.98033).

Each of them is checked against the exact formula before it is returned, so outside the range where it is true it is
refused, and never unsafe. All results are rounded up to twelve significant digits.

>>> float(analytic(1, "1e-6")), float(classical("0.5", "1e-6"))
(4.22467888934, 10.5976050539)
>>> round(gaussian_delta(epsilon=1, mu=1).upper, 12)
0.126936737507
"""

from __future__ import annotations

from fractions import Fraction

from hush.accounting.pairs.gaussian import gaussian_profile
from hush.accounting.prices import largest_mu, mu_allowed
from hush.core import InvalidValueError, Number, fraction_between, nonnegative, positive
from hush.core.rounding import (
    Ball,
    Bound,
    ball,
    certified,
    enclosure,
    fraction_up,
    short_up,
)


def gaussian_delta(*, epsilon: Number, mu: Number) -> Bound:
    """Return the exact δ of a Gaussian mechanism with μ = Δ/σ at ``epsilon``; ends rounded outwards."""
    exact_epsilon, ratio = nonnegative(epsilon, "epsilon"), positive(mu, "mu")
    return enclosure(certified(lambda: gaussian_profile(ball(ratio**2), ball(exact_epsilon)), bits=56))


def analytic(epsilon: Number, delta: Number, *, sensitivity: Number = 1) -> Fraction:
    """Return the smallest σ that is (ε, δ)-DP, by the exact formula."""
    # μ is rounded down and σ = Δ/μ up: both towards more noise.
    return short_up(positive(sensitivity, "sensitivity") / largest_mu(epsilon=epsilon, delta=delta))


def classical(epsilon: Number, delta: Number, *, sensitivity: Number = 1) -> Fraction:
    """Return Dwork and Roth's σ = cΔ/ε with c² > max(9/4, 2·ln(1.25/δ)); for 0 < ε < 1."""
    exact_epsilon, exact_delta = positive(epsilon, "epsilon"), fraction_between(delta, "delta")
    if exact_epsilon >= 1:
        raise InvalidValueError(
            "epsilon", got=epsilon, allowed="below 1 for the classical bound", hint="The analytic bound has no limit."
        )
    factor = max(_root(Fraction(5, 4), exact_delta), Fraction(3, 2))
    # The theorem asks for strictly more than c, so the last digit goes up once more where nothing was rounded.
    return _checked(factor * (1 + Fraction(1, 10**11)), exact_epsilon, exact_delta, sensitivity)


def two_over_delta(epsilon: Number, delta: Number, *, sensitivity: Number = 1) -> Fraction:
    """Return σ = Δ√(2·ln(2/δ))/ε; refused where the exact formula says that it is not enough."""
    exact_epsilon, exact_delta = positive(epsilon, "epsilon"), fraction_between(delta, "delta")
    return _checked(_root(Fraction(2), exact_delta), exact_epsilon, exact_delta, sensitivity)


def one_over_delta(epsilon: Number, delta: Number, *, sensitivity: Number = 1) -> Fraction:
    """Return σ = Δ√(2·ln(1/δ))/ε; refused where the exact formula says that it is not enough."""
    exact_epsilon, exact_delta = positive(epsilon, "epsilon"), fraction_between(delta, "delta")
    return _checked(_root(Fraction(1), exact_delta), exact_epsilon, exact_delta, sensitivity)


def _root(constant: Fraction, delta: Fraction) -> Fraction:
    """Return √(2·ln(constant/δ)), rounded up."""

    def value() -> Ball:
        square: Ball = 2 * ball(constant / delta).log()
        return square.sqrt()

    return fraction_up(certified(value))


def _checked(factor: Fraction, epsilon: Fraction, delta: Fraction, sensitivity: Number) -> Fraction:
    # Checked for Δ = 1 with μ = 1/σ; scaling by Δ, rounded up, leaves μ as it is or smaller.
    scale = short_up(factor / epsilon)
    if not mu_allowed(1 / scale**2, epsilon, delta):
        raise InvalidValueError(
            "delta",
            got=delta,
            allowed=f"one for which this bound is true at epsilon {epsilon}",
            hint="The noise it gives is too small here; the analytic bound is right for every epsilon and delta.",
        )
    return short_up(scale * positive(sensitivity, "sensitivity"))
