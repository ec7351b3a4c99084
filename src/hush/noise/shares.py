r"""Laws that add up, so that many may share in them: Poisson, Skellam, negative binomial noise, exactly.

**The laws.** For a rate λ > 0,

    Poisson   P[N = k] = e^(-λ) λ^k / k!                           k = 0, 1, 2, …
    Skellam   X = N₁ - N₂, independent Poisson of rate λ each      variance 2λ

Both are closed under sums: shares of λ/h drawn by h parties add up to exactly the law of λ (Skellam 1946; as noise
for private sums: Agarwal, Kairouz, Liu 2021).

**Inversion of a table.** Let F(k) = P[N ≤ k] and T_k = ⌊2⁶⁴F(k)⌋. The first 64 bits of a uniform U, a word w, say that
U lies in [w, w+1]/2⁶⁴. For w > T_k the whole interval lies above F(k), hence N > k; for w < T_k it lies below, hence N
≤ k. So the number of thresholds below w is N unless w equals a threshold, or lies outside the table: then, in about
2⁻⁵⁰ of draws, more bits are drawn and compared with F in ball arithmetic, F(k) = Γ(k+1, λ)/k!. The thresholds
themselves are floors of balls that contain 2⁶⁴F(k), at a precision that makes them certain. No floating point takes
part.

**Large rates.** A table holds about 20√λ thresholds. Past λ = 2¹⁴ the draw is the sum of m draws of rate λ/m.

The rate may be a real that is no rational (the negative binomial law needs a logarithm): it is then given by
balls of any precision.

>>> poisson("1e-30")
0
>>> skellam(8, size=(2, 3)).shape
(2, 3)

**Negative binomial noise** of any rational shape: shares that add up to exactly discrete Laplace noise. With q =
e^(-1/s) for a rational scale s > 0 and a shape r > 0,

    P[G = k] = (1-q)^r · q^k · r(r+1)…(r+k-1)/k!           k = 0, 1, 2, …

has the generating function ((1-q)/(1-qt))^r. Shapes add up under sums, and shape 1 is the geometric law. The
difference of two independent geometric variables is discrete Laplace of scale s, so the differences of h pairs of
shape 1/h add up to *exactly* that law (Goryczka, Xiong 2017; Bagdasaryan et al. 2022).

**A compound Poisson law.** ln((1-q)/(1-qt))^r = λ·(ln(1-qt)/ln(1-q) - 1) with λ = -r·ln(1-q): G is the sum of N jumps,
N Poisson of rate λ, the jumps logarithmic, P[L = k] = -q^k/(k·ln(1-q)) for k ≥ 1. A difference of two such sums is a
sum of Poisson(2λ) jumps, each with a fair sign. N is drawn as above.

**A jump** (Kemp 1981). For independent uniforms U, V and c = ln(1-q), put p = 1 - e^(Uc) and

    L = 1 + ⌊ln V / ln p⌋.

Given U, L is geometric, P[L = k] = p^(k-1)(1-p). The substitution y = 1 - e^(uc) gives ∫₀¹ p^(k-1)(1-p) du = ∫₀^q
y^(k-1) dy / (-c) = q^k/(-ck): the law wanted.

**The fast level.** U has 63 bits b and V has 64 bits v (the top bit of the first word is the sign). For b, v ≥ 2⁴³:

* x = Uc is right to a relative 2⁻⁴³ (bits not drawn) + 2⁻⁴⁹ (c to 8 ulp, two roundings);
* ln p moves by |x|/(e^|x|-1) ≤ 1 times the relative change of x. It is computed as log(-expm1(x)) above x = -0.7 and
  as log1p(-exp(x)) below, to 16 ulp. Relative to |ln p| this is at most (|x|+2)·2⁻⁴²: for x above -0.7, |ln p| ≥ 0.68;
  below, |ln p| ≥ e^x, and e^(-x)·|x|/(e^|x|-1) ≤ 2|x|;
* ln V is right to 2⁻⁴³ + 2⁻⁴⁷ absolutely, |ln V| being at most 15.

So w = ln V/ln p is within 2⁻⁴¹·(1/|ln p| + w·(|c|+3)) of the truth, and ⌊w⌋ is right where w is further than that
from every integer. (NumPy's log, expm1 and exp are within 4 ulp; `tests/unit/noise/test_assumptions.py` measures them.)

**The slow level** evaluates the same bracket in ball arithmetic, with ever more bits of U and V.

>>> negative_binomial(shape="1/3", scale="0.001")
0
>>> share = laplace_share(shape="1/14", scale=10, size=5)
>>> share.dtype
dtype('int64')
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, positive
from hush.core.rounding import Ball, ball, flint
from hush.noise.bits import BitSource, Size, Uniform, drawn, floor, less, put, settle

_LARGEST_TABLE_RATE = 2**14
_LARGEST_RATE = 2**40
_WORD_RANGE = 2**64
_TABLE_PRECISION = 320  # bits: the sum of a table's masses loses few of them, and 64 have to be certain


@overload
def poisson(rate: Number, size: None = None) -> int: ...
@overload
def poisson(rate: Number, size: int | tuple[int, ...]) -> npt.NDArray[Any]: ...
def poisson(rate: Number, size: Size = None) -> Any:
    """Draw k ≥ 0 with probability exactly e^(-rate)·rate^k/k!, for a rational rate up to 2⁴⁰."""
    return drawn(size, draw_many, None, poisson_law(_rate(rate, "rate")))


@overload
def skellam(variance: Number, size: None = None) -> int: ...
@overload
def skellam(variance: Number, size: int | tuple[int, ...]) -> npt.NDArray[Any]: ...
def skellam(variance: Number, size: Size = None) -> Any:
    """Draw the difference of two independent Poisson variables, each with half the variance as its rate."""

    def differences(law: PoissonLaw, count: int, bits: BitSource) -> npt.NDArray[Any]:
        both = draw_many(law, 2 * count, bits)
        return np.asarray(both[:count] - both[count:])

    return drawn(size, differences, None, poisson_law(_rate(variance, "variance") / 2))


def _rate(value: Number, parameter: str) -> Fraction:
    rate = positive(value, parameter)
    if rate > _LARGEST_RATE:
        raise InvalidValueError(parameter, got=value, allowed=f"at most {_LARGEST_RATE}")
    return rate


class PoissonLaw(NamedTuple):
    """A rate prepared for drawing: a draw is the sum of ``repeats`` draws from a table."""

    rate: Callable[[], Ball]
    """The table's rate as a ball, at the working precision."""
    repeats: int
    first: int
    """The k of the first threshold."""
    thresholds: npt.NDArray[np.uint64]


@lru_cache(maxsize=256)
def poisson_law(rate: Fraction) -> PoissonLaw:
    """Prepare a rational rate."""
    # Rates add up under independent sums: the sum of m draws of rate λ/m has exactly the law of λ.
    repeats = max(1, math.ceil(rate / _LARGEST_TABLE_RATE))
    return law_of_real(partial(ball, rate / repeats), float(rate / repeats), repeats)


def law_of_real(rate: Callable[[], Ball], nearly: float, repeats: int = 1) -> PoissonLaw:
    """Prepare a rate given by balls; ``nearly`` only says where the table begins, and may be a little wrong."""
    # F is about 2⁻⁶⁴ nine standard deviations below the mean. Draws below the table are settled exactly, so a wrong
    # beginning costs time and nothing else.
    first = max(0, math.floor(nearly - 9.5 * math.sqrt(nearly) - 10))
    thresholds = settle(lambda: _thresholds(rate(), first), [], _TABLE_PRECISION)
    return PoissonLaw(rate, repeats, first, np.array(thresholds, dtype=np.uint64))


def _thresholds(rate: Ball, first: int) -> list[int] | None:
    """Return ⌊2⁶⁴F(k)⌋ from k = first until F is above 1 - 2⁻⁶⁴; None where a floor is not certain."""
    below = _distribution(first, rate)
    mass = (rate.log() * first - rate - flint().arb(first + 1).lgamma()).exp()
    thresholds, k = [], first
    while True:
        threshold = floor(below * _WORD_RANGE)
        if threshold is None:
            return None
        thresholds.append(min(threshold, _WORD_RANGE - 1))  # a ball that reaches 1 may have the floor 2⁶⁴
        if threshold >= _WORD_RANGE - 1:
            return thresholds
        k += 1
        mass = mass * rate / k  # P[N = k] = P[N = k-1]·λ/k
        below = below + mass


def _distribution(k: int, rate: Ball) -> Ball:
    """Return F(k) = Γ(k+1, λ)/k!."""
    return rate.gamma_upper(k + 1, regularized=1)


def draw_many(law: PoissonLaw, count: int, bits: BitSource) -> npt.NDArray[Any]:
    """Draw ``count`` integers from ``bits``."""
    total = _from_table(law, count, bits)
    for _ in range(law.repeats - 1):
        total = total + _from_table(law, count, bits)
    return total


def _from_table(law: PoissonLaw, count: int, bits: BitSource) -> npt.NDArray[Any]:
    words = bits.words(count)
    # searchsorted counts the thresholds below each word; equality, and either end of the table, decides nothing.
    positions = np.searchsorted(law.thresholds, words)
    inside = np.minimum(positions, len(law.thresholds) - 1)
    doubtful = law.thresholds[inside] == words
    doubtful |= positions == len(law.thresholds)
    if law.first:
        doubtful |= positions == 0
    values: npt.NDArray[Any] = positions.astype(np.int64) + law.first
    unsettled = np.flatnonzero(doubtful)
    return put(values, unsettled, (invert_exactly(law, int(words[i]), int(values[i]), bits) for i in unsettled))


def invert_exactly(law: PoissonLaw, word: int, guess: int, bits: BitSource) -> int:
    """Return the smallest k with U < F(k), for U beginning with ``word``: the slow level."""
    uniform = Uniform(bits, word, 64)

    def is_at_most(k: int) -> bool:
        if k < 0:
            return False
        answer: bool = settle(lambda: less(uniform.ball(), _distribution(k, law.rate())), [uniform], _TABLE_PRECISION)
        return answer

    # U < F(k) is monotone in k: down to the last k where it fails, or up to the first where it holds.
    k = guess
    while is_at_most(k):
        k -= 1
    while not is_at_most(k + 1):
        k += 1
    return k + 1


_SIGN_BIT = np.uint64(2**63)
_MAGNITUDE_MASK = np.uint64(2**63 - 1)
_FLOAT_FROM = 2**43  # from these b and v on, the float64 level has its proven error bound
_SMALLEST_SCALE, _LARGEST_SCALE = Fraction(1, 10**5), Fraction(2**50)
_LARGEST_SHAPE = 2**10


@overload
def negative_binomial(shape: Number, scale: Number, size: None = None) -> int: ...
@overload
def negative_binomial(shape: Number, scale: Number, size: int | tuple[int, ...]) -> npt.NDArray[Any]: ...
def negative_binomial(shape: Number, scale: Number, size: Size = None) -> Any:
    """Draw k ≥ 0 from exactly the negative binomial law of this shape, with q = e^(-1/scale)."""
    law = negative_binomial_law(*read_share(shape, scale), signed=False)
    return drawn(size, draw_many_binomial, None, law)


@overload
def laplace_share(shape: Number, scale: Number, size: None = None) -> int: ...
@overload
def laplace_share(shape: Number, scale: Number, size: int | tuple[int, ...]) -> npt.NDArray[Any]: ...
def laplace_share(shape: Number, scale: Number, size: Size = None) -> Any:
    """Draw the difference of two negative binomial variables: shapes that add up to 1 sum to discrete Laplace."""
    law = negative_binomial_law(*read_share(shape, scale), signed=True)
    return drawn(size, draw_many_binomial, None, law)


def read_share(shape: Number, scale: Number) -> tuple[Fraction, Fraction]:
    """Return the shape and the scale as exact numbers; refuse those beyond the limits of the sampler."""
    r, s = positive(shape, "shape"), positive(scale, "scale")
    if r > _LARGEST_SHAPE:
        raise InvalidValueError("shape", got=shape, allowed=f"at most {_LARGEST_SHAPE}")
    if not _SMALLEST_SCALE <= s <= _LARGEST_SCALE:
        raise InvalidValueError("scale", got=scale, allowed="from 1e-5 to 2^50")
    return r, s


class NegativeBinomialLaw(NamedTuple):
    """A shape and a scale prepared for drawing."""

    scale: Fraction
    signed: bool
    jumps: PoissonLaw
    c: float
    """ln(1 - q)."""
    slow: bool
    """Whether every jump is drawn in ball arithmetic: scales at which c is no ordinary float."""


@lru_cache(maxsize=256)
def negative_binomial_law(shape: Fraction, scale: Fraction, *, signed: bool) -> NegativeBinomialLaw:
    """Prepare a shape and a scale."""
    # The rate of jumps is -r·ln(1-q); a difference of two variables has twice as many, each with a fair sign.
    power = -2 * shape if signed else -shape
    s = float(scale)
    # Either formula avoids cancellation in 1 - q on its side of s = 1.
    c = math.log(-math.expm1(-1 / s)) if s > 1 else math.log1p(-math.exp(-1 / s))
    jumps = law_of_real(lambda: ball(power) * _log_rest(scale), float(power) * c)
    return NegativeBinomialLaw(scale, signed, jumps, c, s < 2**-6)


def _log_rest(scale: Fraction) -> Ball:
    """Return c = ln(1-q) as a ball; with twice the precision, for q may be within 2⁻⁵⁰ of 1."""
    return (-((-1 / ball(scale)).expm1())).log()


def draw_many_binomial(law: NegativeBinomialLaw, count: int, bits: BitSource) -> npt.NDArray[Any]:
    """Draw ``count`` integers from ``bits``."""
    numbers = draw_many(law.jumps, count, bits)
    total = int(numbers.sum())
    values: npt.NDArray[Any] = np.zeros(count, dtype=np.int64)
    if not total:
        return values
    jumps = draw_jumps(law, total, bits)
    # Jumps are independent of their numbers, so the first jumps may go to the first draw, and so on.
    owners = np.repeat(np.arange(count), numbers.astype(np.int64))
    # No draw has more than all jumps together: below 2⁶² their sum cannot wrap round.
    if jumps.dtype == object or total * int(np.abs(jumps).max()) >= 2**62:
        values, jumps = values.astype(object), jumps.astype(object)
    np.add.at(values, owners, jumps)
    return values


def draw_jumps(law: NegativeBinomialLaw, count: int, bits: BitSource) -> npt.NDArray[Any]:
    """Draw ``count`` logarithmic jumps, with fair signs if the law is signed."""
    words, further = bits.words(count), bits.words(count)
    b = words & _MAGNITUDE_MASK
    jumps = _invert(law, b, further, bits)
    return np.where(words >= _SIGN_BIT, -jumps, jumps) if law.signed else jumps


def _invert(
    law: NegativeBinomialLaw, b: npt.NDArray[np.uint64], v: npt.NDArray[np.uint64], bits: BitSource
) -> npt.NDArray[Any]:
    if law.slow:
        settled = np.zeros(len(b), dtype=np.int64)
        return put(settled, range(len(b)), (invert_jump(law, int(x), int(y), bits) for x, y in zip(b, v, strict=True)))
    with np.errstate(divide="ignore", invalid="ignore"):
        x = b.astype(np.float64) * (2.0**-63 * law.c)
        log_p = np.where(x > -0.7, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))
        w = np.log(v.astype(np.float64) * 2.0**-64) / log_p
        # The bound of the module's docstring; ln p is negative, so -1/ln p is 1/|ln p|.
        margin = 2.0**-41 * (w * (abs(law.c) + 3) - 1 / log_p)
        # Written so that NaN is doubtful too.
        doubtful = ~(np.abs(w - np.rint(w)) > margin)
    doubtful |= (b < np.uint64(_FLOAT_FROM)) | (v < np.uint64(_FLOAT_FROM))
    positions = np.flatnonzero(doubtful)
    w[positions] = 0
    jumps: npt.NDArray[Any] = w.astype(np.int64) + 1
    return put(jumps, positions, (invert_jump(law, int(b[i]), int(v[i]), bits) for i in positions))


def invert_jump(law: NegativeBinomialLaw, b: int, v: int, bits: BitSource) -> int:
    """Return 1 + ⌊ln V/ln p⌋ for uniforms that begin with the 63 bits b and the 64 bits v: the slow level."""
    first, second = Uniform(bits, b, 63), Uniform(bits, v, 64)

    def attempt() -> int | None:
        log_p = (-((first.ball() * _log_rest(law.scale)).expm1())).log()
        jump = floor(second.ball().log() / log_p)
        return None if jump is None or jump < 0 else jump  # wide balls of ln V and ln p may hold a ratio below 0

    jump: int = settle(attempt, [first, second], 192)
    return jump + 1
