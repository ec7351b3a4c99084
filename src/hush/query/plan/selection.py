r"""Private choice of group keys: the optimal truncated geometric mechanism, or a threshold on noisy counts.

**Geometric.** A key with n units (after bounding) is shown with probability p_n, where p_0 = 0 and

    p_n = min( e^ε·p_{n-1} + δ,   1 - e^{-ε}·(1 - p_{n-1} - δ),   1 ),

the largest probabilities that are (ε,δ)-DP for one more or one fewer unit (Desfontaines, Voss, Gipson, Mandayam 2022).
A unit shows at most ``groups`` keys and a neighbour changes ``touched`` units, so with k = groups·touched each key is
given ε/k and δ/k, and all keys together are (ε,δ)-DP.

**Exactness.** e^ε is replaced by a rational just below it and e^{-ε} by one just above, and p_n is rounded down to a
multiple of 2⁻¹²⁰. Each of these lowers p_n, which keeps both constraints p_n ≤ e^ε·p_{n-1} + δ and 1 - p_{n-1} ≤
e^ε·(1 - p_n) + δ; p_n ≥ p_{n-1} still holds, since p_{n-1} is itself such a multiple and the exact bounds are at least
p_{n-1}; the other two constraints follow from that. So the rational table is (ε,δ)-DP with no rounding left over, and
coins are tossed exactly by `hush.noise.bernoulli`.

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

import numpy as np
import numpy.typing as npt

from hush.core import PrecisionError
from hush.noise import bernoulli
from hush.query.plan.laws import Gaussian

_GRID = 2**120
_LONGEST = 10**7


@lru_cache(maxsize=64)
def keep_probabilities(epsilon: Fraction, delta: Fraction, keys: int) -> tuple[Fraction, ...]:
    """Return p_0, p_1, … up to the first that is 1; beyond it, all are 1. ``keys`` is how many a neighbour changes."""
    step, slip = epsilon / keys, delta / keys
    below, above = _exponential(step)
    now = Fraction(0)
    table = [now]
    while now < 1:
        raised = min(below * now + slip, 1 - above * (1 - now - slip), Fraction(1))
        now = max(now, Fraction(int(raised * _GRID), _GRID)) if raised < 1 else Fraction(1)
        if now == table[-1] or len(table) > _LONGEST:
            raise PrecisionError("the ε for choosing keys is too small to ever show one; raise epsilon or delta")
        table.append(now)
    return tuple(table)


def _exponential(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return a rational at most e^x and one at least e^-x: a Taylor sum of positive terms, each rounded down."""
    scaled = int(x * _GRID)
    term = total = _GRID
    for k in range(1, 40 + 8 * (int(x) + 1)):
        term = term * scaled // (_GRID * k)
        total += term
    below = Fraction(total, _GRID)
    return below, 1 / below


def threshold_for(sigma: Fraction, delta: Fraction, keys: int) -> int:
    """Return T: a key of one unit passes it with probability at most δ/keys."""
    goal = math.log(delta.numerator) - math.log(delta.denominator) - math.log(keys)
    z = 1.0
    while -z * z / 2 - math.log(z * math.sqrt(2 * math.pi)) > goal - 1e-9:
        z += 2.0**-10
    return 2 + math.ceil(float(sigma) * z * (1 + 1e-12))


def pass_threshold(units: npt.NDArray[np.int64], law: Gaussian, threshold: int) -> npt.NDArray[np.bool_]:
    """Return which keys pass; a key of nobody never does."""
    noise = law.draw(len(units))
    return np.asarray((units >= 1) & np.asarray(units + noise >= threshold, dtype=np.bool_))


def select_keys(units: npt.NDArray[np.int64], epsilon: Fraction, delta: Fraction, keys: int) -> npt.NDArray[np.bool_]:
    """Return which keys are shown, given the exact number of units that have each."""
    table = keep_probabilities(epsilon, delta, keys)
    capped = np.minimum(units, len(table) - 1)
    shown = np.zeros(len(units), dtype=np.bool_)
    for count in np.unique(capped).tolist():
        where = np.flatnonzero(capped == count)
        shown[where] = bernoulli(table[count], size=len(where))
    return shown
