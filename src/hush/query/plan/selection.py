r"""Private choice of group keys: the optimal truncated geometric mechanism, or a threshold on noisy counts.

**Geometric.** A key with n units (after bounding) is shown with probability p_n, where p_0 = 0 and

    p_n = min( e^ε·p_{n-1} + δ,   1 - e^{-ε}·(1 - p_{n-1} - δ),   1 ),

the largest probabilities that are (ε,δ)-DP for one more or one fewer unit (Desfontaines, Voss, Gipson, Mandayam 2022).
A unit shows at most ``groups`` keys and a neighbour changes ``touched`` units, so with k = groups·touched each key is
given ε/k and δ/k, and all keys together are (ε,δ)-DP.

**Exactness.** e^ε is replaced by a rational just below it and e^{-ε} by one just above (beyond ε/k = 64 by those of
64), and p_n and δ/k are rounded down to multiples of 2⁻¹²⁰. Each of these lowers p_n, which keeps both constraints
p_n ≤ e^ε·p_{n-1} + δ and 1 - p_{n-1} ≤ e^ε·(1 - p_n) + δ; p_n ≥ p_{n-1} still holds, since p_{n-1} is itself such a
multiple and the exact bounds are at least p_{n-1}; the other two constraints follow from that. So the rational table is
(ε,δ)-DP with no rounding left over, and coins are tossed exactly by `hush.noise.bernoulli`.

**Threshold.** Splitting ε over k keys makes the above linear in k; noise grows with √k only. A key with n ≥ 1 units is
shown if n + Z ≥ T, Z discrete Gaussian. Between neighbours at most k counts differ, each by 1. Keys that both have are
post-processed Gaussian counts: k/2σ²-zCDP. A key that only one of them has there has n = 1, and is shown with
probability P[Z ≥ T-1] ≤ P[N(0,σ²) ≥ T-2] (Canonne, Kamath, Steinke 2020, Proposition 25). With T = 2 + ⌈σz⌉ and Mills'
bound e^{-z²/2}/(z√2π) ≤ δ/k this happens to one of the k keys with probability at most δ. Together:
δ-approximate k/2σ²-zCDP.

>>> table = keep_probabilities(Fraction(1), Fraction(1, 10**5), 1)
>>> next(n for n, p in enumerate(table) if p >= Fraction(1, 2))
12
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hush.core import PrecisionError
from hush.noise import bernoulli
from hush.query.plan.laws import Gaussian

_GRID = 2**120
LONGEST = 10**6
"""A longer table of probabilities is not made."""


@lru_cache(maxsize=64)
def keep_probabilities(epsilon: Fraction, delta: Fraction, keys: int) -> tuple[Fraction, ...]:
    """Return p_0, p_1, … up to the first that is 1; beyond it, all are 1. ``keys`` is how many a neighbour changes."""
    slip = int(delta / keys * _GRID)
    raised = _exponential(min(epsilon / keys, Fraction(64)))
    now, table = 0, [0]
    while now < _GRID:
        # ⌊p·e^ε⌋ + δ and 1 - ⌈(1 - p - δ)·e^{-ε}⌉, counted in 2⁻¹²⁰; neither is below p + δ
        above = _GRID + (now + slip - _GRID) * _GRID // raised
        now = min(now * raised // _GRID + slip, above, _GRID)
        if now == table[-1] or len(table) > LONGEST:
            raise PrecisionError("the ε for choosing keys is too small to ever show one; raise epsilon or delta")
        table.append(now)
    return tuple(Fraction(part, _GRID) for part in table)


def units_needed(epsilon: Fraction, delta: Fraction, keys: int) -> float:
    """Return with how many units a key is shown half of the time: δ'·(e^{nε'}-1)/(e^{ε'}-1) = 1/2; ∞ if never.

    The table is about twice as long. It depends on no data, so what cannot be computed is refused in planning.
    """
    step, slip = min(float(epsilon / keys), 64.0), float(delta / keys)
    needed = math.log1p(math.expm1(step) / (2 * slip)) / step
    return math.inf if delta * _GRID < 2 * keys or 2 * needed > 0.99 * LONGEST else needed


def _exponential(x: Fraction) -> int:
    """Return at most e^x, in 2⁻¹²⁰: a Taylor sum of positive terms, each rounded down."""
    scaled = int(x * _GRID)
    term = total = _GRID
    for k in range(1, 40 + 8 * (int(x) + 1)):
        term = term * scaled // (_GRID * k)
        total += term
    return total


def threshold_for(sigma: Fraction, delta: Fraction, keys: int) -> int:
    """Return T: a key of one unit passes it with probability at most δ/keys."""
    goal = math.log(delta.numerator) - math.log(delta.denominator) - math.log(keys)
    # the tail beyond z is at most e^(-z²/2)/(z√2π), which falls: the least z, to 2⁻¹⁰, at which that is small enough
    low, high = 1.0, 1.0 + math.sqrt(max(0.0, -2 * goal)) + 1
    while high - low > 2.0**-10:
        z = (low + high) / 2
        low, high = (z, high) if -z * z / 2 - math.log(z * math.sqrt(2 * math.pi)) > goal - 1e-9 else (low, z)
    return 2 + math.ceil(float(sigma) * high * (1 + 1e-12))


def pass_threshold(units: npt.NDArray[np.int64], law: Gaussian, threshold: int) -> npt.NDArray[np.bool_]:
    """Return which keys pass; a key of nobody never does."""
    noise = law.draw(len(units))
    return np.asarray((units >= 1) & np.asarray(units + noise >= threshold, dtype=np.bool_))


def select_keys(units: npt.NDArray[np.int64], epsilon: Fraction, delta: Fraction, keys: int) -> npt.NDArray[np.bool_]:
    """Return which keys are shown, given the exact number of units that have each."""
    table = keep_probabilities(epsilon, delta, keys)
    capped = np.minimum(units, len(table) - 1)
    # keys with equal numbers side by side; small integers are sorted quickest
    order = np.argsort(capped.astype(np.uint16) if len(table) <= 2**16 else capped, kind="stable")
    counts, starts = np.unique(capped[order], return_index=True)
    shown = np.zeros(len(units), dtype=np.bool_)
    for count, (start, stop) in zip(counts.tolist(), pairwise([*starts.tolist(), len(units)]), strict=True):
        shown[order[start:stop]] = bernoulli(table[count], size=stop - start)
    return shown
