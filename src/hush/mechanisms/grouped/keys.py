r"""Private selection of keys: a key of a private column is shown if enough units have it.

That a key occurs at all may be a secret: somebody's rare disease, a name. Two mechanisms choose by the number of units
of each key, the optimal truncated geometric one (`KeySelection`) and a threshold on noisy counts (`KeyThreshold`).

**Geometric.** A key with n units (after bounding) is shown with probability p_n, where p_0 = 0 and

    p_n = min( e^ε·p_{n-1} + δ,   1 - e^{-ε}·(1 - p_{n-1} - δ),   1 ),

the largest probabilities that are (ε,δ)-DP for one more or one fewer unit (Desfontaines, Voss, Gipson, Mandayam 2022).
A neighbour changes the number of units of at most k = ``keys`` keys (`Contribution.cells`), so each key is given ε/k
and δ/k, and all keys together are (ε,δ)-DP.

**Exactness.** e^ε is replaced by a rational just below it and e^{-ε} by one just above (beyond ε/k = 64 by those of
64), and p_n and δ/k are rounded down to multiples of 2⁻¹²⁰. Each of these lowers p_n, which keeps both constraints
p_n ≤ e^ε·p_{n-1} + δ and 1 - p_{n-1} ≤ e^ε·(1 - p_n) + δ; p_n ≥ p_{n-1} still holds, since p_{n-1} is itself such a
multiple and the exact bounds are at least p_{n-1}; the other two constraints follow from that. So the rational table is
(ε,δ)-DP with no rounding left over, and coins are tossed exactly by `hush.noise.uniform`.

**Threshold.** Splitting ε over k keys makes the above linear in k; noise grows with √k only. A key with n ≥ 1 units is
shown if n + Z ≥ T, Z discrete Gaussian. Between neighbours at most k counts differ, each by 1. Keys that both have are
post-processed Gaussian counts: k/2σ²-zCDP. A key that only one of them has there has n = 1, and is shown with
probability P[Z ≥ T-1] ≤ P[N(0,σ²) ≥ T-2] (Canonne, Kamath, Steinke 2020, Proposition 25). With T = 2 + ⌈σz⌉ and
P[N(0,1) > z] ≤ δ/k this happens to one of the k keys with probability at most δ. Together: δ-approximate k/2σ²-zCDP.

>>> chosen = KeySelection(epsilon=1, delta="1e-5")
>>> chosen.error(0.5), chosen.error(0.95)                      # units with which a key is shown so often
(12, 14)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import Event, PartitionSelectionEvent, ZCDPEvent
from hush.core import InvalidValueError, Number, PrecisionError, fraction_between, integer
from hush.core.numbers import assign
from hush.core.rounding import ball, certified, fraction_down
from hush.mechanisms.base import ReadableRepr, confidence_level, normal_quantile, ordinary
from hush.mechanisms.grouped.base import Contribution
from hush.mechanisms.grouped.noise import GroupedGaussian

_DENOMINATOR = 2**120  # probabilities are whole multiples of 1 over this
LONGEST = 10**6
"""The longest table of probabilities that is computed."""
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class KeySelection(ReadableRepr):
    """Shows keys with the largest probabilities that (ε,δ)-DP allows, by the number of units of each key.

    Parameters
    ----------
    epsilon, delta
        The guarantee of all keys together.
    keys
        How many keys a neighbour can change: those that one unit has, at most, and twice that under replace.

    Examples
    --------
    >>> import hush
    >>> import numpy as np
    >>> hush.KeySelection(epsilon=1, delta="1e-5").release(np.array([0, 1000])).tolist()
    [False, True]
    """

    epsilon: Fraction
    delta: Fraction
    keys: int

    def __init__(self, *, epsilon: Number, delta: Number, keys: int = 1) -> None:
        assign(
            self,
            epsilon=ordinary(epsilon, "epsilon"),
            delta=fraction_between(delta, "delta"),
            keys=integer(keys, "keys", minimum=1),
        )

    @property
    def event(self) -> Event:
        """The privacy event: (ε,δ), met with equality."""
        return PartitionSelectionEvent(epsilon=self.epsilon, delta=self.delta)

    @property
    def probabilities(self) -> tuple[Fraction, ...]:
        """p_0, p_1, … up to the first that is 1."""
        return keep_probabilities(self.epsilon, self.delta, self.keys)

    def release(self, units: Any) -> Flags:
        """Return which keys are shown, given the exact number of units that have each."""
        counts = _counts(units)
        table = self.probabilities
        capped = np.minimum(counts, len(table) - 1)
        # keys with equal numbers side by side; small integers are sorted quickest
        order = np.argsort(capped.astype(np.uint16) if len(table) <= 2**16 else capped, kind="stable")
        distinct, starts = np.unique(capped[order], return_index=True)
        flags = np.zeros(len(counts), dtype=np.bool_)
        for count, (start, stop) in zip(distinct.tolist(), pairwise([*starts.tolist(), len(counts)]), strict=True):
            flags[order[start:stop]] = noise.bernoulli(table[count], size=stop - start)
        return flags

    def error(self, confidence: Number = Fraction(19, 20)) -> int:
        """Return the least number of units with which a key is shown with at least this probability."""
        level = confidence_level(confidence)
        return next(units for units, probability in enumerate(self.probabilities) if probability >= level)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyThreshold:
    """Shows a key if its number of units plus Gaussian noise reaches a threshold."""

    sigma: Fraction
    delta: Fraction
    keys: int
    """The number of keys that a neighbour can change."""

    @classmethod
    def for_rho(cls, rho: Fraction, *, delta: Fraction, keys: int) -> KeyThreshold:
        """Return the choice that is ρ-zCDP but for δ."""
        law = GroupedGaussian.for_rho(rho, contribution=Contribution(groups=keys))
        return cls(sigma=law.sigma, delta=delta, keys=keys)

    @property
    def threshold(self) -> int:
        """T: a key of one unit passes it with probability at most δ/keys."""
        # The 2 is that of P[Z ≥ T-1] ≤ P[N ≥ T-2].
        return 2 + math.ceil(self.sigma * normal_quantile(min(self.delta / self.keys, Fraction(1, 2))))

    @property
    def event(self) -> Event:
        """The privacy event: approximate zCDP."""
        return ZCDPEvent(rho=Fraction(self.keys) / (2 * self.sigma**2), delta=self.delta)

    def release(self, units: Any) -> Flags:
        """Return which keys pass; a key of nobody never does."""
        counts = _counts(units)
        noisy = counts + GroupedGaussian(sigma=self.sigma).draw(len(counts))
        return np.asarray((counts >= 1) & np.asarray(noisy >= self.threshold, dtype=np.bool_))

    def error(self, confidence: Number = Fraction(19, 20)) -> int:
        """Return the number of units with which a key is shown with about this probability: T + zσ."""
        level = float(confidence_level(confidence))
        return max(1, self.threshold + math.ceil(NormalDist().inv_cdf(level) * float(self.sigma)))


def _counts(units: Any) -> npt.NDArray[np.int64]:
    """Return the numbers of units; the error for anything but whole numbers names the type only."""
    counts = np.asarray(units)
    if counts.ndim != 1 or (counts.dtype.kind not in "iu" and counts.size):
        raise InvalidValueError("units", got=f"a value of type {type(units).__name__}", allowed="a column of counts")
    return np.asarray(np.clip(counts, 0, 2**62), dtype=np.int64)


@lru_cache(maxsize=64)
def keep_probabilities(epsilon: Fraction, delta: Fraction, keys: int) -> tuple[Fraction, ...]:
    """Return p_0, p_1, … up to the first that is 1; beyond it all are 1. A neighbour changes ``keys`` keys."""
    slip = int(delta / keys * _DENOMINATOR)
    # A smaller ε is safe: beyond 64 the table is that of 64.
    step = min(epsilon / keys, Fraction(64))
    raised = int(fraction_down(certified(lambda: ball(step).exp(), bits=240)) * _DENOMINATOR)
    now, table = 0, [0]
    while now < _DENOMINATOR:
        # ⌊p·e^ε⌋ + δ and 1 - ⌈(1 - p - δ)·e^{-ε}⌉ in multiples of 2⁻¹²⁰: both are rounded down, the safe side.
        above = _DENOMINATOR + (now + slip - _DENOMINATOR) * _DENOMINATOR // raised
        now = min(now * raised // _DENOMINATOR + slip, above, _DENOMINATOR)
        if now == table[-1] or len(table) > LONGEST:
            raise PrecisionError("the ε for choosing keys is too small to ever show one; raise epsilon or delta")
        table.append(now)
    return tuple(Fraction(multiple, _DENOMINATOR) for multiple in table)


def units_needed(epsilon: Fraction, delta: Fraction, keys: int) -> float:
    """Return the number of units n of a key shown half of the time: δ'·(e^{nε'}-1)/(e^{ε'}-1) = 1/2; ∞ if never.

    The table is about twice as long. It depends on no data, so a table that is too long is refused in planning.
    """
    step, slip = min(float(epsilon / keys), 64.0), float(delta / keys)
    needed = math.log1p(math.expm1(step) / (2 * slip)) / step
    return math.inf if delta * _DENOMINATOR < 2 * keys or 2 * needed > 0.99 * LONGEST else needed
