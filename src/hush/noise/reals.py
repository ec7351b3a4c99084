r"""Rounded reals: the grid point that an ideal real draw rounds to.

Noise for smooth sensitivity is continuous: Laplace, Gaussian, heavy tails. A float64 is not a real, and its low
bits give the private value away (Mironov 2012). Here the draw is the *ideal real* Y = centre + scale·Z, known as an
interval that can be narrowed at will, and what is returned is the integer nearest to Y, with bits added until that
is certain. Rounding an ideal real is post-processing, so the guarantee proven for reals holds as it stands. Scales
are in grid steps.

Every law is a closed formula of uniform reals, with a sign S where it is symmetric:

    Laplace            density e^(-|z|)/2             Z = -ln U
    Gaussian           density ∝ e^(-z²/2)            Z = -ln U, accepted if U' < e^(-(Z-1)²/2)
    Cauchy, power γ    density ∝ 1/(1+|z|^γ)          with probability (γ-1)/γ: Z = U,  else Z = U^(-1/(γ-1));
                                                      accepted if U' < 1/(1+y^γ) for y = min(Z, 1/Z)
    polynomial, a      density ∝ (1+|z|)^-a           Z = U^(-1/(a-1)) - 1
    Student t, ν       density ∝ (1+z²/ν)^(-(ν+1)/2)  Z = √(ν(U^(-2/ν)-1))·cos 2πU'

The Gaussian rejects from an exponential: e^(-z²/2) = √e·e^(-z)·e^(-(z-1)²/2). The Cauchy rejects from min(1, z^-γ),
whose mass is 1 on [0, 1] and 1/(γ-1) beyond; the ratio is 1/(1+y^γ) ≥ 1/2 on both sides. P[Z > z] = (1+z)^(1-a) for
the polynomial. Student's t is the first coordinate of a bivariate t, whose radius has P[R > r] = (1+r²/ν)^(-ν/2)
(Bailey 1994).

**One draw** evaluates its formula in ball arithmetic from the start. **Many draws** evaluate it in float64 first,
each with an error bound carried along: for a word b ≥ 2⁴³ a logarithm of U is right to 2⁻⁴² (as in
`hush.noise.laplace`), exp, expm1, sqrt and cos are assumed right to 8 ulp, and each formula below propagates that
to first order with a factor of 2 to spare. A draw whose interval holds a rounding boundary, or whose acceptance is
in doubt, is evaluated again in ball arithmetic from the same words.

>>> rounded_gaussian("1e-9")
0
>>> rounded_laplace(3, size=2, centre="0.5").dtype
dtype('int64')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, exact, positive
from hush.core.rounding import Ball, ball, flint, nearest_float
from hush.noise.bits import BitSource, Size, Uniform, drawn, less, nearest, put, settle
from hush.noise.uniform import draw_bernoulli, draw_many_bernoulli

Floats = npt.NDArray[np.float64]
_FLOAT_FROM = np.uint64(2**43)
"""From this word on, the float64 level has its proven error bound."""
_LOG_ERROR = 2.0**-42
"""The largest error of ln U for the words above."""
_EXPONENT_MARGIN = Fraction(1, 100)
"""The least distance between an exponent and the limit at which its density has no finite integral."""


@dataclass(frozen=True, slots=True)
class RealLaw:
    """A standard law: Z as a function of uniforms U and U', and the probability that accepts it.

    ``exactly`` takes balls around U and U' and says which branch of a mixture is meant; it returns balls (Z, chance of
    acceptance), or (Z, None). ``floats`` takes arrays and returns (Z, its error, chance or None, relative error of
    the chance). ``branch`` is the probability of the second branch.
    """

    exactly: Callable[[Ball, Ball, bool], tuple[Ball, Ball | None]]
    floats: Callable[[Floats, Floats, npt.NDArray[np.bool_]], tuple[Floats, Floats, Floats | None, float]]
    signed: bool = True
    branch: Fraction = Fraction(0)


def laplace() -> RealLaw:
    """Density e^(-|z|)/2."""

    def floats(u: Floats, _v: Floats, _second: Any) -> tuple[Floats, Floats, None, float]:
        z = -np.log(u)
        return z, np.full_like(z, _LOG_ERROR), None, 0.0

    return RealLaw(lambda u, _v, _second: (-u.log(), None), floats)


def gaussian() -> RealLaw:
    """Density ∝ e^(-z²/2)."""

    def exactly(u: Ball, _v: Ball, _second: bool) -> tuple[Ball, Ball]:
        z = -u.log()
        return z, (-((z - 1) ** 2) / 2).exp()

    def floats(u: Floats, _v: Floats, _second: Any) -> tuple[Floats, Floats, Floats, float]:
        z = -np.log(u)  # at most 15, so (z-1)²/2 is off by less than 14·2⁻⁴² + 2⁻⁴⁴
        return z, np.full_like(z, _LOG_ERROR), np.exp(-((z - 1) ** 2) / 2), 2.0**-37

    return RealLaw(exactly, floats)


def cauchy(gamma: Fraction) -> RealLaw:
    """Density ∝ 1/(1+|z|^γ)."""
    root, g = nearest_float(gamma - 1), nearest_float(gamma)

    def exactly(u: Ball, _v: Ball, second: bool) -> tuple[Ball, Ball]:
        # ln min(Z, 1/Z), on which acceptance depends: Z = U ≤ 1 in the first branch, Z = 1/y ≥ 1 in the second.
        log_y = u.log() / ball(gamma - 1) if second else u.log()
        z = (-log_y).exp() if second else u
        return z, 1 / (1 + (ball(gamma) * log_y).exp())

    def floats(u: Floats, _v: Floats, second: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats, float]:
        log_y = np.log(u)
        log_y[second] /= root
        z = np.where(second, np.exp(-log_y), u)
        # z = e^(-ln y): an absolute error of ln y is a relative one of z; the other terms are those of / and exp.
        error = np.where(second, z * 2 * (_LOG_ERROR / root - log_y * 2.0**-50 + 2.0**-49), _LOG_ERROR)
        return z, error, 1 / (1 + np.exp(g * log_y)), 2 * (g * max(1.0, 1 / root) * _LOG_ERROR + 2.0**-48)

    return RealLaw(exactly, floats, branch=1 / gamma)


def polynomial(a: Fraction) -> RealLaw:
    """Density ∝ (1+|z|)^-a."""
    root = nearest_float(a - 1)

    def floats(u: Floats, _v: Floats, _second: Any) -> tuple[Floats, Floats, None, float]:
        x = -np.log(u) / root
        z = np.expm1(x)
        # d expm1(x)/dx = z + 1, times the error of x and of expm1, and a factor of 2 for the second order.
        return z, (z + 1) * 2 * (_LOG_ERROR / root + x * 2.0**-50 + 2.0**-49), None, 0.0

    return RealLaw(lambda u, _v, _second: ((-u.log() / ball(a - 1)).expm1(), None), floats)


def student(nu: Fraction) -> RealLaw:
    """Density ∝ (1+z²/ν)^(-(ν+1)/2)."""
    freedom = nearest_float(nu)

    def exactly(u: Ball, v: Ball, _second: bool) -> tuple[Ball, None]:
        radius = (ball(nu) * (-2 * u.log() / ball(nu)).expm1()).sqrt()
        return radius * (2 * v * flint().arb.pi()).cos(), None

    def floats(u: Floats, v: Floats, _second: Any) -> tuple[Floats, Floats, None, float]:
        x = -2 * np.log(u) / freedom
        m = np.expm1(x)
        # The error of m = expm1(x): the error of x times the derivative m + 1 (and 2 to spare), and 8 ulp of expm1.
        error = (m + 1) * 4 * (2 * _LOG_ERROR / freedom + x * 2.0**-50) + m * 2.0**-49
        radius = np.sqrt(freedom * m)
        # √ is steep near 0: there the error of the radius is at most √(5ν·error), elsewhere its derivative bounds it.
        steep = ~(m > 4 * error)
        of_radius = np.where(steep, 3 * np.sqrt(freedom * error), freedom * error / np.maximum(radius, 1e-300))
        return radius * np.cos(2 * np.pi * v), of_radius + radius * 2.0**-45, None, 0.0

    return RealLaw(exactly, floats, signed=False)


@overload
def rounded_laplace(scale: Number, size: None = None, *, centre: Number = 0) -> int: ...
@overload
def rounded_laplace(scale: Number, size: int | tuple[int, ...], *, centre: Number = 0) -> npt.NDArray[Any]: ...
def rounded_laplace(scale: Number, size: Size = None, *, centre: Number = 0) -> Any:
    """Draw the integer nearest to centre + scale·Z for an ideal Laplace real Z, density e^(-|z|)/2."""
    return _sample(laplace(), scale, size, centre)


@overload
def rounded_gaussian(sigma: Number, size: None = None, *, centre: Number = 0) -> int: ...
@overload
def rounded_gaussian(sigma: Number, size: int | tuple[int, ...], *, centre: Number = 0) -> npt.NDArray[Any]: ...
def rounded_gaussian(sigma: Number, size: Size = None, *, centre: Number = 0) -> Any:
    """Draw the integer nearest to centre + sigma·Z for an ideal standard normal real Z."""
    return _sample(gaussian(), positive(sigma, "sigma"), size, centre)


@overload
def rounded_cauchy(scale: Number, size: None = None, *, gamma: Number = 2, centre: Number = 0) -> int: ...
@overload
def rounded_cauchy(
    scale: Number, size: int | tuple[int, ...], *, gamma: Number = 2, centre: Number = 0
) -> npt.NDArray[Any]: ...
def rounded_cauchy(scale: Number, size: Size = None, *, gamma: Number = 2, centre: Number = 0) -> Any:
    """Draw the integer nearest to centre + scale·Z for an ideal real Z of density ∝ 1/(1+|z|^gamma).

    >>> rounded_cauchy(10, 3).shape
    (3,)
    """
    return _sample(cauchy(_above(gamma, "gamma", 1)), scale, size, centre)


@overload
def rounded_polynomial(scale: Number, size: None = None, *, a: Number, centre: Number = 0) -> int: ...
@overload
def rounded_polynomial(
    scale: Number, size: int | tuple[int, ...], *, a: Number, centre: Number = 0
) -> npt.NDArray[Any]: ...
def rounded_polynomial(scale: Number, size: Size = None, *, a: Number, centre: Number = 0) -> Any:
    """Draw the integer nearest to centre + scale·Z for an ideal real Z of density ∝ (1+|z|)^-a.

    >>> rounded_polynomial(10, 3, a=4).shape
    (3,)
    """
    return _sample(polynomial(_above(a, "a", 1)), scale, size, centre)


@overload
def rounded_student(scale: Number, size: None = None, *, nu: Number, centre: Number = 0) -> int: ...
@overload
def rounded_student(
    scale: Number, size: int | tuple[int, ...], *, nu: Number, centre: Number = 0
) -> npt.NDArray[Any]: ...
def rounded_student(scale: Number, size: Size = None, *, nu: Number, centre: Number = 0) -> Any:
    """Draw the integer nearest to centre + scale·Z for an ideal real Z of Student's t law of nu degrees.

    >>> rounded_student(10, 3, nu=3).shape
    (3,)
    """
    return _sample(student(_above(nu, "nu", 0)), scale, size, centre)


def _above(value: Number, parameter: str, limit: int) -> Fraction:
    """Return an exponent that keeps a margin from its limit: below it a typical draw would have thousands of digits."""
    least = limit + _EXPONENT_MARGIN
    number = exact(value, parameter)
    if number < least:
        raise InvalidValueError(parameter, got=value, allowed=f"at least {float(least)}")
    return number


def _sample(law: RealLaw, scale: Number, size: Size, centre: Number) -> Any:
    return drawn(size, draw_many, draw_one, law, positive(scale, "scale"), exact(centre, "centre"))


def draw_one(law: RealLaw, scale: Fraction, centre: Fraction, bits: BitSource) -> int:
    """Draw one integer from ``bits``."""
    while True:
        negative = law.signed and bool(bits.word() & 1)
        second = bool(law.branch) and draw_bernoulli(law.branch, bits)
        value = resolve(law, -scale if negative else scale, centre, second, (bits.word(), bits.word()), bits)
        if value is not None:
            return value


def resolve(
    law: RealLaw, scale: Fraction, centre: Fraction, second: bool, words: tuple[int, int], bits: BitSource
) -> int | None:
    """Return the rounded draw of uniforms that begin with ``words``, or None if it is rejected: the slow level."""
    u, v = (Uniform(bits, word, 64) for word in words)

    def attempt() -> tuple[int | None] | None:
        z, chance = law.exactly(u.ball(), v.ball(), second)
        accepted = True if chance is None else less(v.ball(), chance)
        if accepted is False:  # a rejection is settled without knowing the rounded value
            return (None,)
        value = nearest(ball(centre) + ball(scale) * z)
        return (value,) if accepted and value is not None else None

    outcome: tuple[int | None] = settle(attempt, [u, v])
    return outcome[0]


def draw_many(law: RealLaw, scale: Fraction, centre: Fraction, count: int, bits: BitSource) -> npt.NDArray[Any]:
    """Draw ``count`` integers from ``bits``."""
    values, rejected = _propose(law, scale, centre, count, bits)
    while len(rejected):
        again, still = _propose(law, scale, centre, len(rejected), bits)
        if again.dtype == object:
            values = values.astype(object)
        values[rejected] = again
        rejected = rejected[still]
    return values


def _propose(
    law: RealLaw, scale: Fraction, centre: Fraction, count: int, bits: BitSource
) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    negative = (bits.words(count) & np.uint64(1)).astype(np.bool_) if law.signed else np.zeros(count, dtype=np.bool_)
    second = draw_many_bernoulli(law.branch, count, bits) if law.branch else np.zeros(count, dtype=np.bool_)
    first_words, second_words = bits.words(count), bits.words(count)
    v = second_words.astype(np.float64) * 2.0**-64
    # A scale beyond all floats is infinite: then every draw is left to the slow level.
    stretch, middle = nearest_float(scale), nearest_float(centre)
    with np.errstate(all="ignore"):
        # Smaller words have no error bound. They are computed with a harmless word, and settled exactly below.
        u = np.maximum(first_words, _FLOAT_FROM).astype(np.float64) * 2.0**-64
        z, error, chance, doubt = law.floats(u, v, second)
        y = middle + np.where(negative, -stretch, stretch) * z
        nearest_steps = np.rint(y)
        # 2⁻⁵⁰ covers a stretch that is subnormal, off by 2⁻¹⁰⁷⁵, times the largest finite z.
        error = error * stretch + (np.abs(y) + 2 * abs(middle)) * 2.0**-48 + 2.0**-50
        sure = (np.abs(y - nearest_steps) < 0.5 - error) & (first_words >= _FLOAT_FROM)
        rejected = np.zeros(count, dtype=np.bool_)
        if chance is not None:
            rejected = (v > chance * (1 + doubt) + 2.0**-50) & (first_words >= _FLOAT_FROM)
            sure &= v + 2.0**-50 < chance * (1 - doubt)
    open_ = np.flatnonzero(~(sure | rejected))
    settled = [
        resolve(
            law,
            -scale if negative[position] else scale,
            centre,
            bool(second[position]),
            (int(first_words[position]), int(second_words[position])),
            bits,
        )
        for position in open_
    ]
    # `sure` is false for rejected draws and open ones: their floats, NaN perhaps, must not reach an integer.
    rejected[open_] = [value is None for value in settled]
    nearest_steps[~sure] = 0
    values = put(nearest_steps.astype(np.int64), open_, (value or 0 for value in settled))
    return values, np.flatnonzero(rejected)
