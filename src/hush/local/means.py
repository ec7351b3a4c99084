r"""The mean of numbers that nobody may see: one report each, exact and pure ε-local.

**A window on a line.** Let the reports be 0, 1, …, M-1. A value chooses a window of w of them, beginning at b in 0 …
M-w; each report inside is e^ε times as likely as each outside,

    P[y | b] = e^ε·c inside, c outside,      c = 1/(M + w(e^ε-1)):

pure ε, for every M and w, and nothing is rounded. For a value v in [-1, 1] the beginning b is (M-w)(v+1)/2, rounded at
random to one of its two neighbours so that its mean is right. The mean of y is linear in b,

    E[y | b] = c·M(M-1)/2 + (e^ε-1)c·w·(b + (w-1)/2),

so a linear function of the report is an unbiased estimate of v.

* M = 2, w = 1 is Duchi, Jordan and Wainwright (2018): one bit, worst variance ((e^ε+1)/(e^ε-1))².
* M → ∞ with w/M = 1/(e^{ε/2}+1) is the piecewise mechanism of Wang et al. (2019), 4e^{ε/2}/3(e^{ε/2}-1)².
* Each person may toss a public coin between the two, which Wang et al. call hybrid. The variance of the first falls in
  v² and that of the second rises, so the coin that makes the worst value best is found on their variances.

`LocalMean` takes the best of these at its ε. Its worst variance on [-1, 1] is 4.286 at ε=1, 1.040 at ε=2, 0.216 at ε=4.

>>> mechanism = LocalMean(epsilon=1, lower=0, upper=100)
>>> mechanism.release(30) in mechanism.reports
True
>>> round(LocalMean(epsilon=1, lower=-1, upper=1).variance(count=1), 3)
4.286
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import ApproximateDPEvent
from hush.core import InvalidValueError, Number, exact, integer
from hush.core.balls import ball
from hush.core.columns import is_scalar
from hush.core.values import dataclass
from hush.mechanisms.base import Setter, confidence_level, ordinary
from hush.mechanisms.randomized_response import shares

__all__ = ["LocalMean", "mean"]

_REPORTS = 1024
_COIN = 1 << 16
_DIGITS = 52


@dataclass(frozen=True, slots=True)
class _Window:
    """One window mechanism: M reports, windows of w."""

    reports: int
    width: int
    odds: float

    @property
    def base(self) -> float:
        """The probability of a report outside the window."""
        return 1 / (self.reports + self.width * (self.odds - 1))

    @property
    def slope(self) -> float:
        """How much the mean report moves when the window moves by one."""
        return (self.odds - 1) * self.base * self.width

    def estimate(self, report: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the unbiased estimate of v in [-1, 1]."""
        m, w = self.reports, self.width
        start = (report - self.base * m * (m - 1) / 2) / self.slope - (w - 1) / 2
        return np.asarray(2 * start / (m - w) - 1)

    def variance(self, v: float) -> float:
        """Return the variance of the estimate for a value v; that of the random rounding of b included."""
        m, w, c = self.reports, self.width, self.base
        begin = (m - w) * (v + 1) / 2
        low = min(math.floor(begin), m - w - 1)
        second = 0.0
        for b, chance in ((low, low + 1 - begin), (low + 1, begin - low)):
            squares = c * (m - 1) * m * (2 * m - 1) / 6
            inside = (w - 1) * w * (2 * w - 1) / 6 + b * w * (w - 1) + w * b * b
            second += chance * (squares + (self.odds - 1) * c * inside)
        centre = c * m * (m - 1) / 2 + self.slope * (begin + (w - 1) / 2)
        return (second - centre**2) * (2 / (self.slope * (m - w))) ** 2


@dataclass(frozen=True, slots=True, init=False)
class LocalMean(Setter):
    """Reports a number from a public range so that the mean of many can be estimated.

    Values outside the range are moved to its nearest end; what is no number counts as the lower end.
    """

    epsilon: Fraction
    lower: Fraction
    upper: Fraction

    def __init__(self, *, epsilon: Number, lower: Number, upper: Number) -> None:
        low, high = exact(lower, "lower"), exact(upper, "upper")
        if low >= high:
            raise InvalidValueError("upper", got=upper, allowed=f"above the lower end, {lower}")
        self._set(epsilon=ordinary(epsilon, "epsilon"), lower=low, upper=high)

    @property
    def event(self) -> ApproximateDPEvent:
        """Pure ε."""
        return ApproximateDPEvent(epsilon=self.epsilon, delta=0)

    @property
    def _choice(self) -> tuple[int, _Window, _Window]:
        """The number of sides of 65536 on which the coin picks the wide window, the one-bit window, the wide window."""
        return _best(min(float(self.epsilon), 60.0))

    @property
    def reports(self) -> range:
        """What a report can be: 0 and 1 of the one-bit mechanism, then the points of the wide one."""
        return range(2 + self._choice[2].reports)

    def release(self, value: Any) -> Any:
        """Return one report, or an array of independent reports for a column."""
        if is_scalar(value):
            return int(self._report(np.array([_unit(value, self)]))[0])
        return self._report(np.array([_unit(entry, self) for entry in list(value)]))

    def _report(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Report values given as (v+1)/2 in units of 2⁻⁵²."""
        sides, bit, wide = self._choice
        takes_wide = noise.uniform_integer(_COIN, len(values)) < sides
        reports = np.empty(len(values), dtype=np.int64)
        for window, members, offset in ((bit, ~takes_wide, 0), (wide, takes_wide, 2)):
            reports[members] = offset + self._inside(window, values[members])
        return reports

    def _inside(self, window: _Window, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        m, w, epsilon, count = window.reports, window.width, self.epsilon, len(values)
        scaled = values * (m - w)  # at most 2⁵²·2¹⁰
        begins = scaled >> _DIGITS
        begins += noise.uniform_integer(1 << _DIGITS, count) < (scaled & ((1 << _DIGITS) - 1))
        holds = noise.bernoulli_exp(lambda _bits: (ball(Fraction(m - w, w)) * (-ball(epsilon)).exp() + 1).log(), count)
        inside = begins + noise.uniform_integer(w, count)
        outside = noise.uniform_integer(m - w, count)
        outside = np.where(outside >= begins, outside + w, outside)
        return np.asarray(np.where(holds, inside, outside))

    def estimate(self, reports: Any) -> float:
        """Return the unbiased estimate of the mean, within the range (0 reports: its middle)."""
        given = np.asarray(reports, dtype=np.int64).ravel()
        if given.size and not (given.min() >= 0 and given.max() < len(self.reports)):
            allowed = f"whole numbers from 0 to {len(self.reports) - 1}"
            raise InvalidValueError("reports", got="other numbers", allowed=allowed)
        _, bit, wide = self._choice
        values = np.where(given < 2, bit.estimate(given), wide.estimate(given - 2))
        centre = float(values.mean()) if given.size else 0.0
        return float(self.lower) + (centre + 1) / 2 * float(self.upper - self.lower)

    def variance(self, *, count: int, value: Number | None = None) -> float:
        """Return the variance of the estimated mean of ``count`` reports: for one value of all, or the worst."""
        sides, bit, wide = self._choice
        half = float(self.upper - self.lower) / 2
        if value is not None:
            points = [float((exact(value, "value") - self.lower) / (self.upper - self.lower)) * 2 - 1]
        else:
            points = [0.0, 1.0, 1 / (wide.reports - wide.width)]
        share = sides / _COIN
        worst = max(share * wide.variance(v) + (1 - share) * bit.variance(v) for v in points)
        return worst * half**2 / integer(count, "count", minimum=1)

    def error(self, confidence: Number = Fraction(19, 20), *, count: int) -> float:
        """Return a half-width that holds with at least this probability for the mean of the people who reported.

        Reports are bounded and independent, so Bernstein's inequality holds for every number of them.
        """
        n = integer(count, "count", minimum=1)
        log = math.log(2 / float(1 - confidence_level(confidence)))
        _, bit, wide = self._choice
        ends = np.abs([*bit.estimate(np.array([0, 1])), *wide.estimate(np.array([0, wide.reports - 1]))])
        half = float(self.upper - self.lower) / 2
        reach, spread = (float(ends.max()) + 1) * half, self.variance(count=1)
        return (log * reach / 3 + math.sqrt((log * reach / 3) ** 2 + 2 * n * spread * log)) / n * (1 + 1e-12)


def mean(*, epsilon: Number, lower: Number, upper: Number) -> LocalMean:
    """Return the local mechanism for the mean of numbers from a public range."""
    return LocalMean(epsilon=epsilon, lower=lower, upper=upper)


def _unit(value: Any, mechanism: LocalMean) -> int:
    """Return (v+1)/2 in units of 2⁻⁵²; total, for whether it fails must depend on no answer."""
    try:
        share = (exact(value, "value") - mechanism.lower) / (mechanism.upper - mechanism.lower)
    except Exception:  # noqa: BLE001 - any object may be an answer
        return 0
    units: int = round(max(Fraction(0), min(share, Fraction(1))) * 2**_DIGITS)
    return units


@lru_cache(maxsize=256)
def _best(epsilon: float) -> tuple[int, _Window, _Window]:
    """Return the coin's sides and the two windows with the smallest worst variance."""
    odds = shares(Fraction(epsilon))
    bit = _Window(2, 1, odds)
    likely = _REPORTS / (math.exp(epsilon / 2) + 1)
    widths = {min(max(1, round(likely) + step), _REPORTS // 2) for step in range(-2, 3)}
    wide = min((_Window(_REPORTS, width, odds) for width in widths), key=lambda window: window.variance(1.0))

    def worst(sides: int) -> float:
        share = sides / _COIN
        return max(share * wide.variance(v) + (1 - share) * bit.variance(v) for v in (0.0, 1.0))

    # A maximum of two lines: the best coin lies at an end or where they meet.
    rise = [wide.variance(v) - bit.variance(v) for v in (0.0, 1.0)]
    candidates = {0, _COIN}
    if rise[0] != rise[1]:
        meeting = (bit.variance(1.0) - bit.variance(0.0)) / (rise[0] - rise[1]) * _COIN
        if 0 < meeting < _COIN:
            candidates |= {math.floor(meeting), math.ceil(meeting)}
    return min(candidates, key=worst), bit, wide
