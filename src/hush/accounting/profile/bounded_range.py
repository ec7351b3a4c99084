r"""The non-adaptive optimum for equal mechanisms of bounded range (Dong, Durfee, Rogers 2020, Theorem 5).

k mechanisms of range ε fixed in advance are no worse than k generalised randomized responses with losses t and t − ε
for one t in [0, ε]: with p_t = (e^{-t}−e^{-ε})/(1−e^{-ε}),

    δ(ε_g) = max_t Σ_i C(k,i) p_t^{k-i} (1−p_t)^i (e^{kt−iε} − e^{ε_g})₊,

and the maximum is attained at one of t_l = (ε_g + (l+1)ε)/(k+1), l = 0…k−1, moved into [0, ε]. This does not hold when
the mechanisms are chosen as answers come in; then the dominating pair of :mod:`hush.accounting.pairs.hyperbolic` does.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hush.accounting.description import Description
from hush.accounting.pairs import BoundedRangePair
from hush.accounting.pairs.base import UNIT, Floats
from hush.accounting.profile.direction import Direction
from hush.accounting.profile.method import LogInterval, invert
from hush.core.rounding import float_down, float_up

MAX_STEPS = 3000
"""The largest number of steps for the k² terms of the formula; beyond, the dominating pair is used."""


def _log_delta(width: float, count: int, target: float) -> LogInterval:
    """Return the ends of ln δ: the formula at every t_l, in logarithms, with its rounding."""
    steps = np.arange(count + 1, dtype=np.float64)
    logs = np.array(
        [math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1) for i in range(count + 1)]
    )
    thresholds = np.unique(np.clip((target + (np.arange(-1, count + 1) + 1) * width) / (count + 1), 0.0, width))
    best_low, best_high = -math.inf, -math.inf
    # Some rows of the k × k table at a time: it need not fit into memory.
    rows = max(1, 200_000 // (count + 1))
    for start in range(0, len(thresholds), rows):
        low, high = _rows(thresholds[start : start + rows, None], steps, logs, width, count, target)
        best_low, best_high = max(best_low, low), max(best_high, high)
    return LogInterval(lower=best_low, upper=min(best_high, 0.0))


def _rows(t: Floats, i: Floats, choose: Floats, width: float, count: int, target: float) -> tuple[float, float]:
    """Return both ends of the largest ln δ over some t (a column), summed over all i (a row)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        norm = -math.expm1(-width)
        log_p = -t + np.log(np.maximum(-np.expm1(t - width), 0.0)) - math.log(norm)
        log_q = np.log(-np.expm1(-t)) - math.log(norm)
        weights = choose + np.where(i == count, 0.0, (count - i) * log_p) + np.where(i == 0, 0.0, i * log_q)
        gap = count * t - i * width - target
        terms = np.where(
            gap > 0, weights + target + np.log(np.expm1(np.minimum(np.maximum(gap, 1e-300), 700.0))), -np.inf
        )
        # The effect of the gap's own rounding: the term's slope is e^{weights + target + gap}.
        slip = 8 * UNIT * (count * t + i * width + target)
        extra = np.where(gap > -slip, weights + target + gap + np.log(slip), -np.inf)
        size = (
            np.where(np.isfinite(weights), np.abs(weights), 0.0) + np.abs(choose) + 4 * count * t + 4 * i * width + 64
        )
    top = np.maximum(terms.max(axis=1), -1e300)
    summed = np.exp(terms - top[:, None])
    value = summed.sum(axis=1)
    # lgamma is good to a few units of its value, which can be as large as k·ln k.
    with np.errstate(over="ignore"):  # where no term is positive: then nothing is claimed
        slack = np.exp(extra - top[:, None]).sum(axis=1)
    error = (summed * (32 * UNIT * (size + 4 * count * math.log(count + 2)))).sum(axis=1) + slack
    with np.errstate(divide="ignore"):
        high = np.max(np.log(value + error) + top)
        low = np.max(np.where(value > error, np.log(np.maximum(value - error, 1e-300)) + top, -np.inf))
    return float(low) - 1e-15 * abs(float(low)), float(high) + 1e-15 * abs(float(high))


def range_delta(width: Fraction, count: int, epsilon: Fraction) -> LogInterval:
    """Return certified ends of ln δ(ε)."""
    if epsilon >= width * count:
        return LogInterval(lower=-math.inf, upper=-math.inf)
    if count > MAX_STEPS:
        # δ falls: for the upper end, from the float below.
        upper = Direction(Description.of(BoundedRangePair(epsilon=width)) * count, reverse=False).log_delta(
            float_down(epsilon)
        )
        return LogInterval(lower=-math.inf, upper=upper.upper)
    return _log_delta(float(width), count, float(epsilon))


def range_epsilon(width: Fraction, count: int, target: LogInterval) -> tuple[float, float]:
    """Return certified ends of ε at a target for ln δ."""
    pair = Direction(Description.of(BoundedRangePair(epsilon=width)) * count, reverse=False)
    low, high = pair.epsilon(target)
    if count > MAX_STEPS:
        return 0.0, high
    largest = float_up(width * count)
    slope = max(1.0, -target.lower / max(high, 1e-300))
    # The dominating pair's ε is an upper end too: the optimum for fixed queries cannot exceed it.
    ends = invert(lambda x: _log_delta(float(width), count, x), target, guess=0.8 * low, slope=slope, largest=largest)
    return ends[0], min(ends[1], high)
