r"""Discrete Laplace and geometric noise, exactly, by inverting the distribution function.

**The laws.** With r = e^(-1/s) for a rational scale s > 0,

    discrete Laplace   P[X = k] = (1-r)/(1+r) · r^|k|    k = …, -1, 0, 1, …
    geometric          P[G = k] = (1-r) · r^k            k = 0, 1, 2, …

(Ghosh, Roughgarden, Sundararajan 2009; Inusah and Kozubowski 2006.)

**Inversion.** For U uniform on (0, 1), G = ⌊-s ln U⌋ since P[-s ln U ≥ k] = r^k. For the magnitude of X, P[|X| ≥ k]
= 2r^k/(1+r) for k ≥ 1, so |X| = ⌊-s ln(U(1+r)/2)⌋: the bracket is at least k exactly if U ≤ 2r^k/(1+r), and never
negative. An independent fair sign, ignored at 0, makes it X.

**The fast level.** The top bit of a word is the sign; the other 63 are b, saying that U lies in [b, b+1]/2⁶³.
Compute w = -s·log(b·κ) in float64, with κ = 2⁻⁶³(1+r)/2 (Laplace) or 2⁻⁶³ (geometric). For b ≥ 2⁴³:

* b·κ differs from the true U(1+r)/2 by a relative error below 2⁻⁴³ (bits not drawn) + 8·2⁻⁵³ (one each for converting
  b, 1+r and the product; 4, being halved by r/(1+r) ≤ 1/2, for exp, assumed right to 4 ulp; less than one for -1/s,
  as x·e⁻ˣ < 1/2), so its logarithm by less than 1.01·2⁻⁴³;
* log itself is assumed right to 8 ulp, and |log(bκ)| < 16, so it adds at most 2⁻⁴⁵;
* rounding s and the product adds a relative 2⁻⁵¹, at most 2⁻⁴⁷.

Together |w - true| < s·2⁻⁴². Hence ⌊w⌋ is right whenever w is further than s·2⁻⁴² from an integer. (NumPy's and
every libm's log and exp are within 4 ulp; `tests/unit/noise/test_assumptions.py` measures them on the machine at
hand.)

**The slow level** (b < 2⁴³, or w near an integer: about 2⁻²⁰ of draws) evaluates the same bracket in ball
arithmetic and adds bits until its floor is certain.

**Large scales.** Past s = 2²⁰ the bound s·2⁻⁴² would decide too little, so the draw is split. A geometric variable
is memoryless: for M = 2^m, G = M·H + L where H is geometric with scale s/M and L, independent, has P[L = l] ∝
e^(-l/s) on 0 … M-1. Choose m so that s/M lies in (2¹⁹, 2²⁰]. L is drawn as m uniform bits and accepted with
probability e^(-L/s) > 1 - 2⁻¹⁹: a word below 2⁶⁴(1-2⁻¹⁸) accepts at once, the others are settled exactly. Then X is
a sign times G, drawn again when a negative sign meets G = 0, which leaves P[X = k] ∝ r^|k| (Canonne, Kamath,
Steinke 2020). Vectors are drawn in the same way at any scale; past s = 2⁵⁶ H and the words of L are put together as
Python integers.

>>> discrete_laplace("0.000001")
0
>>> discrete_laplace(20, size=(2, 3)).shape
(2, 3)
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from hush.core import Number, positive
from hush.core.rounding import ball
from hush.noise.bits import BitSource, Size, Uniform, drawn, floor, join, put, settle
from hush.noise.uniform import draw_bits, draw_many_bits, settle_exp

_MAGNITUDE_MASK = 2**63 - 1
_SIGN_BIT = 2**63
_FLOAT_FROM = 2**43  # from this b on, the float64 level has its proven error bound
_SPLIT_ABOVE = 2**20
_OBJECTS_ABOVE = 2**56
_ACCEPT_BELOW = 2**64 - 2**46  # 2⁶⁴(1 - 2⁻¹⁸), below 2⁶⁴e^(-L/s) for every L


@overload
def discrete_laplace(scale: Number, size: None = None) -> int: ...
@overload
def discrete_laplace(scale: Number, size: int | tuple[int, ...]) -> npt.NDArray[Any]: ...
def discrete_laplace(scale: Number, size: Size = None) -> Any:
    """Draw k with probability exactly proportional to e^(-|k|/scale), for any rational scale."""
    return drawn(size, draw_many, draw_one, geometric_law(positive(scale, "scale"), symmetric=True))


@overload
def geometric(scale: Number, size: None = None) -> int: ...
@overload
def geometric(scale: Number, size: int | tuple[int, ...]) -> npt.NDArray[Any]: ...
def geometric(scale: Number, size: Size = None) -> Any:
    """Draw k ≥ 0 with probability exactly proportional to e^(-k/scale), for any rational scale.

    >>> geometric(2) >= 0
    True
    """
    return drawn(size, draw_many, draw_one, geometric_law(positive(scale, "scale")))


class GeometricLaw(NamedTuple):
    """A scale prepared for drawing: ``high`` is s/M, the scale of the part drawn by inversion; M = 2^``low_bits``."""

    scale: Fraction
    symmetric: bool
    low_bits: int
    high: Fraction
    s: float
    kappa: float
    margin: float


@lru_cache(maxsize=1024)
def geometric_law(scale: Fraction, *, symmetric: bool = False) -> GeometricLaw:
    """Prepare a scale for geometric draws, or for discrete Laplace ones, which are ``symmetric``."""
    low_bits = 0
    while scale / 2**low_bits > _SPLIT_ABOVE:
        # bit_length brings m close at once; the loop then moves by single steps.
        low_bits += max(1, (scale // 2**low_bits).bit_length() - 21)
    high = scale / 2**low_bits
    s = high.numerator / high.denominator  # rounded once
    # The zero of a split draw is settled by drawing again, so only an unsplit Laplace needs the factor (1+r)/2.
    # Below s = 2⁻¹⁰, r < e⁻¹⁰²⁴ is far below the rounding of 1 + r; exp is spared an underflow.
    r = (math.exp(-1 / s) if s > 2**-10 else 0.0) if symmetric and not low_bits else 1.0
    return GeometricLaw(scale, symmetric, low_bits, high, s, 2.0**-63 * ((1 + r) / 2), s * 2.0**-42)


def draw_one(law: GeometricLaw, bits: BitSource) -> int:
    """Draw one integer from ``bits``."""
    while True:
        word = bits.word()
        b = word & _MAGNITUDE_MASK
        w = -law.s * math.log(b * law.kappa) if b >= _FLOAT_FROM else 0.0  # which is doubtful, as every whole number is
        high = math.floor(w) if abs(w - round(w)) > law.margin else invert_exactly(law, b, bits)
        low = _low(law, bits) if law.low_bits else 0
        negative = law.symmetric and word >= _SIGN_BIT
        # A split draw that is -0 begins anew, or 0 would have twice its weight. Unsplit, (1+r)/2 allows for it.
        if high or low or not negative or not law.low_bits:
            return join(high, low, law.low_bits, negative=negative)


def draw_many(law: GeometricLaw, count: int, bits: BitSource) -> npt.NDArray[Any]:
    """Draw ``count`` integers from ``bits``."""
    words = bits.words(count)
    values = _invert_many(law, (words & np.uint64(_MAGNITUDE_MASK)).view(np.int64), bits)
    if law.low_bits:
        if law.scale > _OBJECTS_ABOVE or values.max() >= 2 ** (62 - law.low_bits):
            values = values.astype(object)  # at smaller scales once in e⁶⁴ draws, but then it must not wrap
        values = (values << law.low_bits) + _many_low(law, count, bits)
    if not law.symmetric:
        return values
    negative = words.view(np.int64) < 0
    again = np.flatnonzero(negative & (values == 0)) if law.low_bits else ()
    values = np.negative(values, out=values, where=negative)
    return put(values, again, (draw_one(law, bits) for _ in again)) if len(again) else values


def _invert_many(law: GeometricLaw, b: npt.NDArray[np.int64], bits: BitSource) -> npt.NDArray[Any]:
    """Invert a chunk; each array operation runs in place, since the memory traffic is most of the cost."""
    w = b.astype(np.float64)
    w *= law.kappa
    with np.errstate(divide="ignore", invalid="ignore"):  # b = 0
        np.log(w, out=w)
        w *= -law.s
        distance = np.rint(w)
        np.subtract(w, distance, out=distance)
    np.abs(distance, out=distance)
    # Written so that NaN (b = 0) is doubtful too.
    doubtful = ~(distance > law.margin)
    doubtful |= b < _FLOAT_FROM
    positions = np.flatnonzero(doubtful)
    w[positions] = 0
    values: npt.NDArray[Any] = w.astype(np.int64)  # truncation is the floor, w being at least 0
    if not len(positions):
        return values
    return put(values, positions, (invert_exactly(law, int(b[position]), bits) for position in positions))


def invert_exactly(law: GeometricLaw, b: int, bits: BitSource) -> int:
    """Return ⌊-s ln(U(1+r)/2)⌋ (or without the factor) for U beginning with the 63 bits b: the slow level."""
    uniform = Uniform(bits, b, 63)

    def attempt() -> int | None:
        inside = uniform.ball()
        if law.symmetric and not law.low_bits:
            inside = inside * (1 + (-1 / ball(law.scale)).exp()) / 2
        return floor(-ball(law.high) * inside.log())

    value: int = settle(attempt, [uniform])
    return value


def _low(law: GeometricLaw, bits: BitSource) -> int:
    """Draw L in 0 … M-1 with P[L = l] ∝ e^(-l/s)."""
    while True:
        value = draw_bits(law.low_bits, bits)
        word = bits.word()
        if word < _ACCEPT_BELOW or settle_exp(value / law.scale, word, bits):
            return value


def _many_low(law: GeometricLaw, count: int, bits: BitSource) -> npt.NDArray[Any]:
    values = draw_many_bits(law.low_bits, count, bits)
    words = bits.words(count)
    for position in np.flatnonzero(words >= np.uint64(_ACCEPT_BELOW)):
        if not settle_exp(int(values[position]) / law.scale, int(words[position]), bits):
            values[position] = _low(law, bits)
    return values
