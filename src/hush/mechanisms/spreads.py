r"""The variance of an ideal real rounded to the grid: what smooth noise, propose-test-release and vectors really add.

The noise is X = the whole number nearest to Y, for a real Y of scale s steps, symmetric about a value *on* the grid
(off it the answer's mean moves by no more than half a step). With T(t) = P[|Y| > t] we have P[|X| > k] = T(k + ½) and
E[X²] = Σ_{k≥0} (2k+1)·P[|X| > k]. So, in squared steps,

* Laplace, T(t) = e^{-t/s}: √r(1+r)/(1-r)², r = e^{-1/s};
* Gaussian: the sum itself up to s = 4, beyond it s² + 1/12, which is off by less than e^{-2π²s²}(4s²+1) (Poisson);
* polynomial ∝ (1+|z|)^{-a}, T(t) = (1 + t/s)^{1-a}: with c = s + ½ and Hurwitz' zeta
  s^{a-1}·(2ζ(a-2, c) + (1-2c)·ζ(a-1, c)), finite for a > 3 only;
* Cauchy ∝ 1/(1+|z|^γ): E[Y²] = s²·sin(π/γ)/sin(3π/γ), finite for γ > 3 only, and E[X²] ≤ (√E[Y²] + ½)².

>>> round(laplace_variance(Fraction(100))), round(gaussian_variance(Fraction(1)), 6), polynomial_variance(Fraction(1), Fraction(3))
(20000, 1.083333, inf)
>>> round(polynomial_variance(Fraction(1000), Fraction(6)) / 1000**2, 3)          # 2/(a-2)(a-3)
0.167
"""

from __future__ import annotations

import math
from fractions import Fraction

from hush.core.balls import Ball, ball, flint, fraction_up
from hush.core.rounding import certified, float_up

_SUMMED_SIGMA = 4


def laplace_variance(scale: Fraction) -> float:
    """Return the variance, in squared steps, of rounded Laplace noise of this scale in steps."""
    if scale > 10**6:  # √r(1+r)/(1-r)² = 2s² + 1/12 + O(s⁻²)
        return float_up(2 * scale**2 + Fraction(1, 12) + 1 / scale)

    def value() -> Ball:
        root = (-1 / (2 * ball(scale))).exp()
        return root * (1 + root**2) / (1 - root**2) ** 2

    return float_up(fraction_up(certified(value, bits=53)))


def gaussian_variance(scale: Fraction) -> float:
    """Return the variance, in squared steps, of rounded Gaussian noise of this σ in steps."""
    if scale >= _SUMMED_SIGMA:
        return float_up(scale**2 + Fraction(1, 12))
    root = ball(scale) * flint().arb(2).sqrt()
    # Beyond 40σ + 3 the tail is below 10⁻³⁰⁰.
    terms = ((2 * k + 1) * ((k + flint().arb("0.5")) / root).erfc() for k in range(int(40 * scale) + 3))
    return math.nextafter(float(sum(terms, flint().arb(0)).upper()), math.inf)


def polynomial_variance(scale: Fraction, a: Fraction) -> float:
    """Return the variance, in squared steps, of rounded polynomial noise; infinite for a ≤ 3."""
    if a <= 3:
        return math.inf
    if scale > 10**6:  # rounding adds at most half a step to the root mean square
        return float_up(fraction_up(_beyond(2 / ((a - 2) * (a - 3)), scale)))

    def value() -> Ball:
        s, power = ball(scale), ball(a)
        c = s + flint().arb("0.5")
        return s ** (power - 1) * (2 * (power - 2).zeta(c) + (1 - 2 * c) * (power - 1).zeta(c))

    return float_up(fraction_up(certified(value, bits=40)))


def cauchy_variance(scale: Fraction, gamma: Fraction) -> float:
    """Return an upper bound of the variance, in squared steps, of rounded Cauchy noise; infinite for γ ≤ 3."""
    if gamma <= 3:
        return math.inf

    def ideal() -> Ball:
        third = flint().arb.pi() / ball(gamma)
        return third.sin() / (3 * third).sin()

    return float_up(fraction_up(_beyond(fraction_up(certified(ideal, bits=40)), scale)))


def _beyond(square: Fraction, scale: Fraction) -> Ball:
    """Return (√(square)·scale + ½)²."""
    return certified(lambda: (ball(square).sqrt() * ball(scale) + flint().arb("0.5")) ** 2, bits=40)
