r"""Discrete Gaussian noise, exactly, by rejection from a staircase of integers.

**The law.** For a rational variance parameter v = σ² > 0, P[X = k] ∝ p(k) = e^(-k²/2v) on the integers (Canonne,
Kamath, Steinke 2020). It suffices to draw a magnitude k ≥ 0 with weight q(0) = 1/2, q(k) = p(k) for k ≥ 1, and a
fair sign.

**The staircase.** Cut 0, 1, 2, … into 255 blocks of W = 2^w integers, block j beginning at jW, and a tail from K =
255·W on; w is chosen so that 16 ≤ σ/W < 32, or 0 if σ is smaller. Take an integer λ and integers h_j ≥ λ·max q over
block j for the blocks, and give what is missing to 2⁶³ to the tail: Σh_j + h_tail = 2⁶³. Propose:

1. a block or the tail, with probability h/2⁶³ *exactly*: an alias table of integers (Walker 1977), 256 columns of
   2⁵⁵, is read with 63 bits of one word, whose last bit is the sign;
2. in a block, an offset of w uniform bits, giving k, which is accepted with probability λ·q(k)/h_j ≤ 1.

Every k in a block is proposed with probability h_j/(2⁶³W) and accepted with λq(k)/h_j: together λ/(2⁶³W)·q(k), the
same constant times q(k) for all k. That is the whole proof. The h_j are computed in float64, but *any* h_j that are
large enough are right; they are rounded up by more than exp can err (relative 2⁻⁴⁰, where 4 ulp are assumed), and
the only irrational number, q(k), is met in the acceptance test alone. So all v with one v' = 4W²·⌈v/4W²⌉ share the
heights, and the table, of v', where w > 0: q is nowhere smaller for v' than for v, and less than 1 % are rejected more.

**The tail** (probability below 2⁻³⁵) proposes k = K + i with i geometric of scale v/K, g = e^(-K/v). As p(K+i) =
p(K)·g^i·e^(-i²/2v), accepting with probability λ·p(k)/(W·h_tail·(1-g)·g^i) keeps the same constant λ/(2⁶³W). This
is at most 1 if W·h_tail·(1-g) ≥ λ·p(K). With ρ = v/W², p(K) = e^(-255²/2ρ) and W·(1-g) = W·(1 - e^(-255/ρW)): the one
grows with ρ, the other falls with ρ and grows with W. So it is checked when the table is made, for its own ρ' ≥ ρ and W
= 1. The tail is decided in ball arithmetic.

**Accepting.** A second word holds the offset in its low w bits and begins the uniform U of the test with the
others; if w > 55, the other bits of the offset have words of their own. In order: U below the smallest acceptance
probability of the block, rounded down (an integer table) accepts; this is the fate of 95 % of proposals at large σ and
nearly all at small σ. The rest compute λq(k)/h_j in float64, the exponent k²/2v in units of W so that nothing over- or
underflows: as x²·W²/2v with x = k/W < 255, which is rounded once, so the exponent is right to a relative 2⁻⁴⁹. exp is
right to 8 ulp, so where the exponent is below 64 the quotient is right to a relative 2⁻⁴². Elsewhere it is tiny, λe⁻⁶⁴
< 2⁻²⁸ with h_j ≥ 1, and right to a relative 2⁻³⁹ as long as exp does not underflow, so the absolute error is below 2⁻⁶⁰
in every case. U is compared with a margin of 2⁻⁴⁰ relative and 2⁻⁶⁰ absolute; what falls inside is settled by ball
arithmetic with ever more bits of U.

**Integers of any size.** All blocks end below 255·2^w, so for w ≤ 55 a vector is made of int64, all at once. Beyond
(σ from 2⁶⁰ on) it is a loop of single draws, which are Python integers.

>>> discrete_gaussian("0.001")
0
>>> discrete_gaussian(5, size=4).dtype
dtype('int64')
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, positive
from hush.core.rounding import ball
from hush.noise.bits import BitSource, Size, Uniform, drawn, join, less, put, settle
from hush.noise.laplace import draw_one as draw_geometric
from hush.noise.laplace import geometric_law
from hush.noise.uniform import draw_bits

BLOCKS = 255
_TAIL_BLOCK = BLOCKS  # the tail's index in the table, behind the blocks 0 … 254
_COLUMN_HEIGHT = 2**55
_TOTAL_HEIGHT = 256 * _COLUMN_HEIGHT  # 2⁶³
_TAIL_SHARE = 2.0**-36  # of the total height, left for the tail and for rounding heights up
_SHARED_VARIANCE_STEP = 4  # v/W² is rounded up to a multiple of this, so that nearby variances share a table
_OFFSET_BITS = 55  # of the second word, at most; 255 blocks of 2⁵⁵ end below 2⁶³
_MAX_SINGLE_DRAWS = 24  # up to this many draws a loop of single draws is faster than a vector
_PROPOSALS_PER_EXTRA = 32  # one extra proposal for each 32 draws: about 3 %, and fewer are rejected, nearly always


@overload
def discrete_gaussian(sigma: Number | None = None, size: None = None, *, variance: Number | None = None) -> int: ...
@overload
def discrete_gaussian(
    sigma: Number | None = None, size: int | tuple[int, ...] = ..., *, variance: Number | None = None
) -> npt.NDArray[Any]: ...
def discrete_gaussian(sigma: Number | None = None, size: Size = None, *, variance: Number | None = None) -> Any:
    """Draw k with probability exactly proportional to e^(-k²/2σ²).

    Give ``sigma``, or the parameter σ² as ``variance``: any rational either way. (σ² is the law's parameter; its true
    variance is at most that, and about σ²·(1 - 8π²σ²·e^(-2π²σ²)) once σ is above 1.)
    """
    if (sigma is None) == (variance is None):
        raise InvalidValueError("sigma", got=sigma, allowed="given, or else 'variance', and not both")
    v = positive(sigma, "sigma") ** 2 if variance is None else positive(variance, "variance")
    return drawn(size, draw_many, draw_one, staircase(v))


class Staircase(NamedTuple):
    """The tables of one variance parameter."""

    variance: Fraction
    width_bits: int
    scale: int
    """λ."""
    heights: tuple[int, ...]
    """h_0 … h_254 and h_tail; they add up to 2⁶³."""
    threshold: npt.NDArray[np.uint64]
    alias: npt.NDArray[np.intp]
    rate: npt.NDArray[np.float64]
    """λ/h_j."""
    sure: npt.NDArray[np.uint64]
    """A second word below this accepts; 0 for the tail."""
    half_precision: float
    """W²/(2v), for the float64 level."""


_Heights = tuple[int, tuple[int, ...], npt.NDArray[np.uint64], npt.NDArray[np.intp], npt.NDArray[np.float64]]
"""The tables that staircases with the same heights share: the fields from ``scale`` to ``rate``."""


@lru_cache(maxsize=256)
def staircase(variance: Fraction) -> Staircase:
    """Return the tables of one variance parameter; the last 256 parameters and the last 256 heights are cached."""
    width_bits = 0
    while variance >= 32**2 * 4**width_bits:
        # 4^w ≤ v/256 with w as large as possible; bit_length brings w close at once.
        width_bits += max(1, ((variance // 4**width_bits).bit_length() - 11) // 2)
    width = 2**width_bits
    scaled = variance / width**2  # in (0, 1024); from 256 on where w > 0
    rounded_up = Fraction(math.ceil(scaled / _SHARED_VARIANCE_STEP) * _SHARED_VARIANCE_STEP)
    scale, heights, threshold, alias, rate = _heights(rounded_up if width_bits else scaled, single=not width_bits)
    half = _half_precision(scaled)
    # q falls with k, so the smallest acceptance probability of block j is that of its last integer, jW + W - 1.
    last = np.arange(BLOCKS, dtype=np.float64) + (1 - 1 / width)
    with np.errstate(under="ignore"):
        bottom = np.exp(-half * last**2)
    if width == 1:
        bottom[0] = 0.5  # block 0 is the integer 0 alone, and q(0) = 1/2
    # Rounded down by 2⁻⁴⁰, more than all of this can err, and by what the offset may add to the word.
    lowest = (2.0**64 * (rate[:_TAIL_BLOCK] * bottom) * (1 - 2.0**-40)).astype(np.uint64)
    offset = np.uint64(2 ** min(width_bits, _OFFSET_BITS))
    sure = np.append(np.maximum(lowest, offset) - offset, np.uint64(0))
    return Staircase(variance, width_bits, scale, heights, threshold, alias, rate, sure, half)


@lru_cache(maxsize=256)
def _heights(scaled: Fraction, *, single: bool) -> _Heights:
    """Return heights for v/W² up to this, and their table; ``single`` says that W = 1."""
    with np.errstate(under="ignore"):
        # q falls with k, so its maximum over block j is at the first integer, jW.
        top = np.exp(-_half_precision(scaled) * np.arange(BLOCKS, dtype=np.float64) ** 2)
    if single:
        top[0] = 0.5
    # λ only has to leave room for the tail; _check_tail proves that it does.
    scale = int(_TOTAL_HEIGHT / float(top.sum()) * (1 - _TAIL_SHARE))
    # Rounded up, by more than exp and the product can err: a height that is too large only rejects more.
    heights = [math.ceil(scale * high * (1 + 2.0**-40)) + 1 for high in top.tolist()]
    heights.append(_TOTAL_HEIGHT - sum(heights))
    _check_tail(scaled, scale, heights[_TAIL_BLOCK])
    threshold, alias = _alias(heights)
    table = np.array(threshold, dtype=np.uint64), np.array(alias, dtype=np.intp)
    return scale, tuple(heights), *table, np.array([scale / height for height in heights])


def _half_precision(scaled: Fraction) -> float:
    """Return W²/2v, rounded once and at most 10¹²: at 10¹² every weight but q(0) has underflowed already."""
    return scaled.denominator / (2 * scaled.numerator) if scaled > Fraction(1, 10**12) else 1e12


def _check_tail(scaled: Fraction, scale: int, height: int) -> None:
    """Prove with balls that the tail's height covers its weight; the floats that made the table need no trust."""

    def attempt() -> bool | None:
        peak = (-ball(Fraction(BLOCKS**2) / (2 * scaled))).exp()
        step = 1 - (-ball(BLOCKS / scaled)).exp()
        return less(scale * peak, height * step)  # λ·p(K) < h_tail·(1-g) for W = 1, the hardest case

    if height <= 0 or not settle(attempt, []):
        raise AssertionError("the staircase does not cover its tail")  # unreachable for any variance


def _alias(heights: list[int]) -> tuple[list[int], list[int]]:
    """Return Walker's table: column c of size 2⁵⁵ gives c below threshold[c], and alias[c] from there on."""
    unplaced = list(heights)
    threshold, alias = [_COLUMN_HEIGHT] * len(unplaced), list(range(len(unplaced)))
    small = [c for c, height in enumerate(unplaced) if height < _COLUMN_HEIGHT]
    large = [c for c, height in enumerate(unplaced) if height >= _COLUMN_HEIGHT]
    # All in integers: the heights add up to 256 columns, so while one column is short another has more than enough.
    while small:
        short, donor = small.pop(), large.pop()
        threshold[short], alias[short] = unplaced[short], donor
        unplaced[donor] -= _COLUMN_HEIGHT - unplaced[short]
        (small if unplaced[donor] < _COLUMN_HEIGHT else large).append(donor)
    return threshold, alias


def draw_one(stairs: Staircase, bits: BitSource) -> int:
    """Draw one integer from ``bits``."""
    while True:
        word = bits.word()  # 8 bits for the column, 55 for the height in it, and the sign
        column, height = word >> 56, (word >> 1) & (_COLUMN_HEIGHT - 1)
        alias = int(stairs.alias[column])  # looked up whether it is used or not: each draw takes the same time
        block = column if height < stairs.threshold[column] else alias
        if block == _TAIL_BLOCK:
            magnitude, accepted = _draw_tail(stairs, bits)
        else:
            magnitude, accepted = _draw_in_block(stairs, block, bits)
        if accepted:
            # -0 and 0 are one integer: together they have weight 2·q(0) = p(0).
            return -magnitude if word & 1 else magnitude


def _draw_in_block(stairs: Staircase, block: int, bits: BitSource) -> tuple[int, bool]:
    w = stairs.width_bits
    near = min(w, _OFFSET_BITS)
    word = bits.word()
    offset = (word & (2**near - 1)) | (draw_bits(w - near, bits) << near)
    magnitude = join(block, offset, w, negative=False)
    # The table knows no half weight of 0 inside a wide block, so 0 is decided below.
    if word < int(stairs.sure[block]) and (magnitude or not w):
        return magnitude, True
    steps = magnitude / 2**w  # Python divides integers of any size, and rounds once
    chance = float(stairs.rate[block]) * math.exp(-stairs.half_precision * steps * steps)
    if not magnitude:
        chance /= 2
    # U lies in [low, low + 2^(near-64)]; it is compared with the chance less, then plus, a bound on the float's error.
    low = (word >> near) * 2.0 ** (near - 64)
    if low + 2.0 ** (near - 64) < chance * (1 - 2.0**-40) - 2.0**-60:
        return magnitude, True
    if low > chance * (1 + 2.0**-40) + 2.0**-60:
        return magnitude, False
    return magnitude, accept_exactly(stairs, block, magnitude, word >> near, 64 - near, bits)


def accept_exactly(stairs: Staircase, block: int, k: int, digits: int, drawn: int, bits: BitSource) -> bool:
    """Return whether U < λq(k)/h_j for U beginning with the given bits: the slow level."""
    uniform = Uniform(bits, digits, drawn)

    def attempt() -> bool | None:
        # q(k), with the half weight of 0; both sides are multiplied by h_j, so nothing is divided.
        weight = (-ball(Fraction(k * k) / (2 * stairs.variance))).exp() / (1 if k else 2)
        return less(uniform.ball() * stairs.heights[block], stairs.scale * weight)

    accepted: bool = settle(attempt, [uniform])
    return accepted


def _draw_tail(stairs: Staircase, bits: BitSource) -> tuple[int, bool]:
    width = 2**stairs.width_bits
    start = BLOCKS * width
    excess = draw_geometric(geometric_law(stairs.variance / start), bits)
    uniform = Uniform(bits, bits.word(), 64)

    def attempt() -> bool | None:
        step = 1 - (-ball(start / stairs.variance)).exp()
        peak = (-ball(Fraction(start * start) / (2 * stairs.variance))).exp()
        # What remains of p(K+i)/(p(K)·g^i): the geometric proposal has the factor g^i already.
        falling = (-ball(Fraction(excess * excess) / (2 * stairs.variance))).exp()
        return less(uniform.ball() * width * stairs.heights[_TAIL_BLOCK] * step, stairs.scale * peak * falling)

    return start + excess, settle(attempt, [uniform])


def draw_many(stairs: Staircase, count: int, bits: BitSource) -> npt.NDArray[Any]:
    """Draw ``count`` integers from ``bits``: the first ``count`` accepted proposals."""
    wide = stairs.width_bits > _OFFSET_BITS
    if wide or count <= _MAX_SINGLE_DRAWS:
        none = np.zeros(count, dtype=object if wide else np.int64)
        return put(none, range(count), (draw_one(stairs, bits) for _ in range(count)))
    proposed, rejected = _propose(stairs, count + count // _PROPOSALS_PER_EXTRA, bits)
    values = np.delete(proposed, rejected)[:count]
    if len(values) == count:
        return values
    return np.concatenate([values, draw_many(stairs, count - len(values), bits)])  # int64 and objects are objects


def _propose(stairs: Staircase, count: int, bits: BitSource) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Return ``count`` signed proposals, and the positions of the rejected ones."""
    words, second = bits.words(2 * count).reshape(2, count)
    column = (words >> np.uint64(56)).astype(np.intp)
    height = (words >> np.uint64(1)) & np.uint64(_COLUMN_HEIGHT - 1)
    block = np.where(height < stairs.threshold[column], column, stairs.alias[column])
    w = stairs.width_bits
    offset = (second & np.uint64(2**w - 1)).view(np.int64)
    magnitude: npt.NDArray[Any] = (block.astype(np.int64) << w) | offset
    doubtful = second >= stairs.sure[block]  # the tail's entry is 0, so all of the tail is doubtful
    if w:  # 0 has half the weight that the table assumes
        doubtful |= magnitude == 0
    positions = np.flatnonzero(doubtful)
    accepted, beyond = _decide(stairs, block[positions], magnitude[positions], second[positions] >> np.uint64(w), bits)
    magnitude = put(magnitude, positions[list(beyond)], beyond.values())
    np.negative(magnitude, out=magnitude, where=(words & np.uint64(1)).astype(np.bool_))
    return magnitude, positions[~accepted]


def _decide(
    stairs: Staircase,
    blocks: npt.NDArray[np.intp],
    k: npt.NDArray[np.int64],
    digits: npt.NDArray[np.uint64],
    bits: BitSource,
) -> tuple[npt.NDArray[np.bool_], dict[int, int]]:
    """Settle proposals that the integer table left open; return which are accepted, and magnitudes from the tail.

    ``digits`` are the 64 - w first bits of each uniform.
    """
    w = stairs.width_bits
    steps = k.astype(np.float64) * 2.0**-w
    with np.errstate(under="ignore"):
        chance = stairs.rate[blocks] * np.exp(-stairs.half_precision * steps * steps)
    chance[k == 0] /= 2
    low = digits.astype(np.float64) * 2.0 ** (w - 64)
    # The same margins as for a single draw; a chance that is NaN is neither above nor below, so it is unsure.
    accepted = low + 2.0 ** (w - 64) < chance * (1 - 2.0**-40) - 2.0**-60
    unsure = ~accepted & ~(low > chance * (1 + 2.0**-40) + 2.0**-60)
    unsure |= blocks == _TAIL_BLOCK
    beyond = {}
    for position in np.flatnonzero(unsure).tolist():
        block = int(blocks[position])
        if block == _TAIL_BLOCK:
            beyond[position], accepted[position] = _draw_tail(stairs, bits)
        else:
            accepted[position] = accept_exactly(stairs, block, int(k[position]), int(digits[position]), 64 - w, bits)
    return accepted, beyond
