r"""Choosing an index by a race: the exponential mechanism and permute-and-flip, exactly.

**The race.** Give item i the key κ_i and take the smallest. With s_i exact scores, d_i = max s - s_i ≥ 0 and a rate
c > 0:

    "gumbel"        κ_i = ln E_i + c·d_i - ln m_i        P[i wins] ∝ m_i·e^(c·s_i)
    "exponential"   κ_i = c·d_i - E_i                    permute-and-flip

where the E_i are independent standard exponentials and m_i a multiplicity (how many equal candidates item i stands
for). The first is the race of exponentials with rates m_i·e^(-c·d_i): the first to ring is i with probability
proportional to its rate, and the first k to ring are k draws without replacement (Yellott 1977). The second is the
larger of score plus exponential noise, which McKenna and Sheldon's permute-and-flip equals in law (Ding, Kifer,
Steinke, Wang 2021).

**The fast level.** Each item takes one word b. For Gumbel, V in [b, b+1]/2⁶⁴ and E = -log1p(-V); for exponential, E
= -log U likewise: the small E, or the large, that win are then the ones known best. For b ≥ 2⁴³ (and V ≤ 1-2⁻⁸,
Gumbel):

* V has relative error below 2⁻⁴³ + 2⁻⁵³ and, from 1/2 on, below 2⁻⁵². E moves by V/((1-V)E) ≤ 2⁶ times that from
  1/2 on and by at most 1.5 times below, and log1p adds 8 ulp: E is right to a relative 2⁻⁴², ln E to 2⁻⁴¹
  absolutely;
* likewise -log U is right to 2⁻⁴² absolutely;
* c·d_i and the logarithms of integers are right to 2⁻⁴⁹ relatively (8 ulp), and adding them up costs 2⁻⁵¹ of their
  sum. Where m_i is a product of up to four numbers, those of 64 bits are multiplied in floats, which is right to a
  relative 2⁻⁵⁰ (three products, four numbers rounded), so that the logarithm moves by 2⁻⁵⁰; those of any size add their
  logarithms.

So κ_i lies within 2⁻⁴⁰ + (c·d_i + ln m_i)·2⁻⁴⁸ of its float. Beyond those ranges only one end of an interval is
known, and the other is infinite; the same where c·d_i exceeds 10³⁰⁰. Items of multiplicity 0 do not run. Items whose
interval lies above the k-th smallest upper end have lost; if the intervals of the others do not overlap, their order is
certain.

**The slow level** orders the items left over by ball arithmetic, with ever more bits of their uniforms.

>>> select([0, 0, 1000], rate=1)
2
>>> select([5, 3], weights=[0, 7])
1
>>> sorted(select([1, 2, 3], count=3).tolist())
[0, 1, 2]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, exact, integer, positive
from hush.core.rounding import Ball, ball, flint
from hush.noise.bits import BitSource, Uniform, settle, system_bits

Race = Literal["gumbel", "exponential"]
_FLOAT_FROM = np.uint64(2**43)
"""From this word on, the float64 level has its proven error bound."""
_FLOAT_UNTIL = 1 - 2.0**-8
"""Up to this V, a Gumbel key has its proven error bound."""
_LARGEST_HANDICAP = Fraction(10**300)
"""Handicaps above this, which no float may hold, are replaced by it."""


@overload
def select(
    scores: npt.ArrayLike | Sequence[Number],
    rate: Number = 1,
    *,
    count: None = None,
    weights: npt.ArrayLike | None = None,
    race: Race = "gumbel",
) -> int: ...
@overload
def select(
    scores: npt.ArrayLike | Sequence[Number],
    rate: Number = 1,
    *,
    count: int,
    weights: npt.ArrayLike | None = None,
    race: Race = "gumbel",
) -> npt.NDArray[np.int64]: ...
def select(
    scores: npt.ArrayLike | Sequence[Number],
    rate: Number = 1,
    *,
    count: int | None = None,
    weights: npt.ArrayLike | None = None,
    race: Race = "gumbel",
) -> int | npt.NDArray[np.int64]:
    """Draw an index with probability exactly proportional to weight·e^(rate·score).

    Parameters
    ----------
    scores
        One exact number an item: integers, or anything that stands for a rational.
    rate
        A positive rational.
    count
        How many to draw without replacement, in the order drawn; None draws one and returns it.
    weights
        A whole number of at least zero an item: how many equal candidates it stands for. For "gumbel" only.
    race
        "gumbel" for the exponential mechanism, "exponential" for permute-and-flip.
    """
    field = prepare(scores, rate, weights, race)
    if count is None:
        return draw_order(field, 1, system_bits())[0]
    runners = int(np.count_nonzero(field.runs))
    winners = draw_order(field, integer(count, "count", minimum=0, maximum=runners), system_bits())
    return np.array(winners, dtype=np.int64)


def select_each(
    scores: npt.ArrayLike | Sequence[Number],
    rate: Number,
    *,
    weights: npt.ArrayLike,
    sizes: npt.ArrayLike,
    times: Sequence[npt.ArrayLike] = (),
) -> npt.NDArray[np.int64]:
    """Draw one index in each of several lists that follow one another, with probability as `select` has it.

    ``sizes`` are the lists' lengths; indices count from the beginning of the first list. Where ``times`` has
    further factors, at most three, an item stands for as many candidates as their product with its weight, which need
    not fit into 64 bits.

    >>> select_each([5, 3, 9, 7, 8], 1, weights=[0, 7, 0, 0, 2], sizes=[2, 3])
    array([1, 4])
    """
    field = prepare(scores, rate, weights, "gumbel", times)
    lengths = _whole(sizes, "sizes")
    if lengths.min() < 1 or lengths.sum() != len(field.behind):
        allowed = "whole numbers of at least 1 that add up to the length of scores"
        raise InvalidValueError("sizes", got=_kind(sizes), allowed=allowed)
    return draw_each(field, lengths.astype(np.int64), system_bits())


class Field(NamedTuple):
    """The items of a race: exact handicaps c·d_i, their floats, and the multiplicities."""

    rate: Fraction
    behind: npt.NDArray[Any]
    """d_i, as integers."""
    weights: tuple[npt.NDArray[Any], ...]
    """The factors of m_i."""
    runs: npt.NDArray[np.bool_]
    """m_i > 0."""
    start: npt.NDArray[np.float64]
    """c·d_i - ln m_i, with 10³⁰⁰ for any larger c·d_i."""
    slack: npt.NDArray[np.float64]
    race: Race


def prepare(scores: Any, rate: Number, weights: Any, race: Race, times: Sequence[Any] = ()) -> Field:
    """Validate a race and compute the part that is not random."""
    if race not in {"gumbel", "exponential"}:
        raise InvalidValueError("race", got=race, allowed="'gumbel' or 'exponential'")
    speed = positive(rate, "rate")
    behind, speed = _behind(scores, speed)
    # c·d_i in float64, right to a relative 2⁻⁵¹ (or an absolute 2⁻⁶⁰), and 10³⁰⁰ at most.
    if behind.dtype == object:
        handicap = np.array([float(min(speed * gap, _LARGEST_HANDICAP)) for gap in behind])
    else:
        with np.errstate(over="ignore"):
            handicap = np.minimum(behind * float(min(speed, _LARGEST_HANDICAP)), float(_LARGEST_HANDICAP))
    factors = [] if weights is None else [_many(weights, "weights", behind.shape)]
    if factors and race != "gumbel":
        raise InvalidValueError("weights", got=_kind(weights), allowed="left out for race='exponential'")
    factors += [_many(factor, "times", behind.shape) for factor in times]
    runs, logs = _logs(factors, len(behind))
    if not runs.any():
        raise InvalidValueError("weights", got=_kind(weights), allowed="not all 0")
    # The bound on a key's error, as the module's docstring proves it.
    slack = (handicap + logs) * 2.0**-48 + 2.0**-40
    return Field(speed, behind, tuple(factors), runs, handicap - logs, slack, race)


def _many(values: Any, parameter: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    multiplicities = _whole(values, parameter)
    if multiplicities.shape != shape or multiplicities.min() < 0:
        raise InvalidValueError(parameter, got=_kind(values), allowed="one whole number of at least 0 an item")
    return multiplicities


def _logs(factors: Sequence[npt.NDArray[Any]], size: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Return which items' factors are all positive, and the logarithm of their product."""
    product = np.ones(size)
    for factor in factors:
        # At most four numbers of 64 bits: no float overflows. Longer integers only say here whether they are positive.
        product *= factor > 0 if factor.dtype == object else factor
    logs = np.log(np.maximum(product, 1))
    for factor in factors:
        if factor.dtype == object:  # integers of any size
            logs += [math.log(max(m, 1)) for m in factor]
    return product > 0, logs


def _row(values: Any, parameter: str) -> npt.NDArray[Any]:
    array = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    if array.ndim != 1 or not array.size:
        raise InvalidValueError(parameter, got=_kind(values), allowed="a non-empty list of numbers")
    return array


def _kind(values: Any) -> str:
    """Return the type and the shape of an argument for a message; its contents may be private."""
    shape = np.shape(values) if isinstance(values, np.ndarray) else (len(values),) if hasattr(values, "__len__") else ()
    return f"{type(values).__name__} of shape {shape}"


def _whole(values: Any, parameter: str) -> npt.NDArray[Any]:
    array = _row(values, parameter)
    if array.dtype.kind in "iu":
        return array
    try:
        return np.array([integer(value, parameter) for value in array], dtype=object)
    except InvalidValueError:
        raise InvalidValueError(parameter, got=_kind(values), allowed="whole numbers only") from None


def _behind(scores: Any, rate: Fraction) -> tuple[npt.NDArray[Any], Fraction]:
    """Return d_i = max s - s_i as integers, and the rate in their unit."""
    array = _row(scores, "scores")
    if array.dtype.kind in "iu" and int(array.max()) - int(array.min()) < 2**62 and int(array.max()) < 2**62:
        signed = array.astype(np.int64)
        return signed.max() - signed, rate
    try:
        rationals = [exact(score, "scores") for score in array]
    except InvalidValueError:
        raise InvalidValueError("scores", got=_kind(scores), allowed="finite numbers only") from None
    # A common denominator makes the differences integers, so scores are subtracted without rounding.
    unit = math.lcm(*(score.denominator for score in rationals))
    scaled = [score.numerator * (unit // score.denominator) for score in rationals]
    best = max(scaled)
    gaps = np.array([best - score for score in scaled], dtype=object)
    return gaps.astype(np.int64) if max(gaps) < 2**62 else gaps, rate / unit


def draw_order(field: Field, count: int, bits: BitSource) -> list[int]:
    """Return the first ``count`` items of one race drawn from ``bits``."""
    if not count:
        return []
    words = bits.words(len(field.behind))
    low, high = _keys(field, words)
    # At least `count` keys are certainly no larger than the count-th smallest upper end: all above it have lost.
    candidates = np.flatnonzero((low <= np.partition(high, count - 1)[count - 1]) & field.runs)
    candidates = candidates[np.argsort(low[candidates], kind="stable")]
    # The order is certain if no interval overlaps the next. One overlap sends all of them to the slow level.
    if not np.all(high[candidates][:-1] < low[candidates][1:]):
        return order_exactly(field, [(int(runner), int(words[runner])) for runner in candidates], bits)[:count]
    return [int(runner) for runner in candidates[:count]]


def draw_each(field: Field, sizes: npt.NDArray[np.int64], bits: BitSource) -> npt.NDArray[np.int64]:
    """Return the winner of each of several races; the items of one race follow those of the race before."""
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    if not np.logical_or.reduceat(field.runs, begins).all():
        raise InvalidValueError("weights", got=_kind(field.runs), allowed="not all 0 in any list")
    words = bits.words(len(field.behind))
    low, high = _keys(field, words)
    # In each race, keys that lie above the smallest upper end have lost.
    candidates = (low <= np.repeat(np.minimum.reduceat(high, begins), sizes)) & field.runs
    items, runners = np.flatnonzero(candidates), np.add.reduceat(candidates, begins, dtype=np.int64)
    first = np.cumsum(runners) - runners
    winners = np.asarray(items[first])
    for race in np.flatnonzero(runners > 1):
        close = items[first[race] : first[race] + runners[race]]
        winners[race] = order_exactly(field, [(int(runner), int(words[runner])) for runner in close], bits)[0]
    return winners


def _keys(field: Field, words: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the lower and upper ends of the intervals in which the keys are known to lie."""
    short = words < _FLOAT_FROM
    uniform = np.maximum(words, _FLOAT_FROM).astype(np.float64) * 2.0**-64
    if field.race == "gumbel":
        # The key grows with V. Near 1 its float at the limit is a lower end, and there is no upper one.
        near_one = uniform > _FLOAT_UNTIL
        keys = np.log(-np.log1p(-np.minimum(uniform, _FLOAT_UNTIL))) + field.start
        low, high = keys - field.slack, keys + field.slack
        high[near_one] = np.inf
    else:
        keys = field.start + np.log(np.minimum(uniform, 1.0))
        low, high = keys - field.slack, keys + field.slack
    # Both keys grow with the word, so for a short word the float is an upper end only.
    low[short] = -np.inf
    # A handicap that was cut at 10³⁰⁰ is a lower end only; items of multiplicity 0 must not bound the others.
    high[(field.start > 1e299) | ~field.runs] = np.inf
    return low, high


def order_exactly(field: Field, items: list[tuple[int, int]], bits: BitSource) -> list[int]:
    """Order items, each given with the first word of its uniform, by ball arithmetic: the slow level."""
    uniforms = {runner: Uniform(bits, word, 64) for runner, word in items}

    def key(runner: int) -> Ball:
        handicap = ball(field.rate) * int(field.behind[runner])
        if field.race == "exponential":
            return handicap + uniforms[runner].ball().log()
        weight = math.prod(int(weights[runner]) for weights in field.weights)
        return (-(1 - uniforms[runner].ball()).log()).log() + handicap - flint().arb(weight).log()

    def attempt() -> list[int] | None:
        keys = {runner: key(runner) for runner in uniforms}
        # The midpoints are compared as they are: as floats, close or large keys would tie and the loop never end.
        order = sorted(uniforms, key=lambda runner: keys[runner].mid())
        certain = all(keys[a] < keys[b] for a, b in pairwise(order))
        return order if certain else None

    order: list[int] = settle(attempt, list(uniforms.values()))
    return order
