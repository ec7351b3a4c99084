r"""Estimating frequencies from noisy reports: what all local oracles share.

In a local protocol every person reports through a mechanism of their own. For each category v a report either
*supports* v or not: with probability p if the person's answer is v, with probability q if it is not. So with N_v
supports among n

    f̂_v = (N_v/n - q)/(p - q),      Var f̂_v = [f p(1-p) + (1-f) q(1-q)] / n(p-q)²,

is unbiased (Wang, Blocki, Li, Jha 2017). N_v is a sum of n independent coins of variance at most σ² = max(p(1-p),
q(1-q)), so Bernstein's inequality P(|N/n - E| ≥ t) ≤ 2·exp(-nt²/(2σ² + 2t/3)) gives a half-width that holds for every
n, and Hoeffding's √(ln(2/β)/2n) another; the smaller is reported. Both fall as ε grows, but not to 0: they
bound the coins, not the truth.

>>> round(support_variance(0.75, 0.25, count=100), 4)
0.0075
>>> support_error(0.75, 0.25, count=10**4, confidence=0.95) < 0.03
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, integer
from hush.core.columns import any_array
from hush.mechanisms.base import confidence_level, least

_CERTAIN = 1000  # an ε at which every report is the truth, to the last bit of a float


def unbiased(supports: npt.NDArray[np.int64], count: int, p: float, q: float) -> npt.NDArray[np.float64]:
    """Return f̂ for every category; nan-free: without reports every frequency is estimated as 0."""
    if count == 0:
        return np.zeros(len(supports))
    return np.asarray((supports / count - q) / (p - q), dtype=np.float64)


def support_variance(p: float, q: float, *, count: int, frequency: float = 0.0) -> float:
    """Return Var f̂ for a category of this true frequency among ``count`` reports."""
    many = integer(count, "count", minimum=1)
    return (frequency * p * (1 - p) + (1 - frequency) * q * (1 - q)) / (many * (p - q) ** 2)


def support_error(p: float, q: float, *, count: int, confidence: Number, categories: int = 1) -> float:
    """Return a half-width that holds for f̂ of ``categories`` categories at once with at least this probability."""
    miss = float((1 - confidence_level(confidence)) / integer(categories, "categories", minimum=1))
    many = integer(count, "count", minimum=1)
    spread, log = max(p * (1 - p), q * (1 - q)), math.log(2 / miss)
    # n t² - (2/3) log·t - 2 σ² log = 0
    bernstein = (log / 3 + math.sqrt(log * log / 9 + 2 * many * spread * log)) / many
    return min(bernstein, math.sqrt(log / (2 * many))) / (p - q) * (1 + 1e-12)


Oracle = TypeVar("Oracle")


def oracle_for(
    make: Callable[[Fraction], Oracle],
    error: Callable[[Oracle], float],
    wanted: Number,
) -> Oracle:
    """Return the oracle with the smallest ε, to 12 digits, whose half-width is at most what is wanted."""
    floor = Fraction(error(make(Fraction(_CERTAIN))))
    return least(make, error, wanted, floor=floor, why="what so few reports allow even without noise: ask more people")


def codes(answers: object, categories: tuple[object, ...]) -> npt.NDArray[np.int64]:
    """Return each answer's position among the categories, -1 for an answer that is none of them; total."""
    position = {category: at for at, category in enumerate(categories)}
    flat = any_array(answers, "answers").ravel().tolist() if not isinstance(answers, (list, tuple)) else list(answers)

    def find(answer: object) -> int:
        try:
            return position.get(answer, -1)
        except Exception:  # noqa: BLE001 - any object may be an answer; whether this fails must depend on none
            return -1

    return np.array([find(answer) for answer in flat], dtype=np.int64)


def read_categories(categories: object) -> tuple[object, ...]:
    """Return the categories: a number k stands for 0 … k-1, a collection for itself."""
    if isinstance(categories, (int, np.integer)) and not isinstance(categories, bool):
        return tuple(range(integer(categories, "categories", minimum=2, maximum=2**24)))
    if not isinstance(categories, (list, tuple, range)):
        raise InvalidValueError("categories", got=categories, allowed="a number of at least 2, or a list of names")
    try:
        distinct = len(set(categories))
    except TypeError:
        distinct = -1
    if distinct != len(categories) or distinct < 2:
        raise InvalidValueError("categories", got=categories, allowed="at least two different names")
    return tuple(categories)


def shares(epsilon: Fraction) -> float:
    """Return e^ε as a float; what is too large for one is infinite."""
    try:
        return math.exp(float(epsilon))
    except OverflowError:
        return math.inf
