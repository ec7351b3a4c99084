"""Means from local reports: of numbers, and of vectors.

**The mean of numbers that nobody may see: one report each, exact and pure ε-local.**

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

>>> round(LocalMean(epsilon=1, lower=-1, upper=1).variance(count=1), 3)
4.286

**The mean of vectors that nobody may see: each report is one number, from which a random vector is made anew.**

**The mechanism.** Let G(z) be a vector of d independent standard normal numbers, made from the report z, a number of 64
bits, by a public function. For a unit vector v let S_v be the reports with ⟨G(z), v⟩ ≥ γ, a share of q = 1-Φ(γ) of all.
Draw z with

    P[z] ∝ e^ε on S_v, 1 elsewhere,     so that P[z in S_v] = p = q·e^ε/(q·e^ε + 1 - q).

Then E⟨G, v⟩ = m = φ(γ)(p-q)/(q(1-q)), while all directions orthogonal to v stay standard normal: G(z)/m is an unbiased
estimate of v with squared error (d-1 + E⟨G,v⟩²)/m² - 1. γ is chosen to make that smallest. In law this is PrivUnitG
(Asi, Feldman, Talwar 2022: optimal up to a factor 1+o(1)), and sending the seed instead of the vector is lossless
(Feldman, Talwar 2021). A vector of length ℓ < 1 is first replaced by ±v/ℓ with probabilities (1±ℓ)/2, which keeps its
mean.

**Privacy.** Two reports' probabilities for the same v differ by exactly e^ε or not at all. Between two vectors v and v'
the normaliser N_v = e^ε|S_v| + 2⁶⁴ - |S_v| might differ too, by as much as |S_v| does. For a random function G, |S_v|
is q·2⁶⁴ with a standard deviation of √q·2³². Half spaces split 2⁶⁴ points in at most 2^{64(d+1)} ways, so over all v at
once |S_v| stays within √(90(d+1)) of these: a relative 2⁻¹⁵ for the largest d and ε allowed. AES with a public key
stands for the random function, the same kind of assumption that `hush.noise.bits` makes. What it may add is charged:
`event` states ε + 2⁻¹². Unconditionally the loss is at most 2ε. No real number is ever reported, so that there are no
low bits to read: floats decide only on which side of γ a seed lies, and any decision there would do.

>>> round(LocalVectorMean(epsilon=4, dimensions=100).squared_error(count=1), 1)
43.5
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hush import noise
from hush.accounting import ApproximateDPEvent
from hush.core import InvalidValueError, Number, exact, integer
from hush.core.grid import is_scalar
from hush.core.numbers import assign
from hush.core.rounding import ball
from hush.local.frequencies import report_numbers
from hush.mechanisms.base import ReadableRepr, confidence_level, ordinary
from hush.mechanisms.randomized_response import coins, shares
from hush.noise.bits import system_bits

_WIDE_REPORTS = 1024
_COIN_SIDES = 1 << 16
_VALUE_BITS = 52


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
        """The change of the mean report when the window moves by one."""
        return (self.odds - 1) * self.base * self.width

    def estimate(self, report: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the unbiased estimate of v in [-1, 1]."""
        m, w = self.reports, self.width
        start = (report - self.base * m * (m - 1) / 2) / self.slope - (w - 1) / 2
        return np.asarray(2 * start / (m - w) - 1)

    def variance(self, v: float) -> float:
        """Return the variance of the estimate for a value v; that of the random rounding of b included."""
        begin = (self.reports - self.width) * (v + 1) / 2
        low = min(math.floor(begin), self.reports - self.width - 1)
        law = np.full(self.reports, self.base)
        # The two whole beginnings b next to the real one, and how likely each is.
        for b, chance in ((low, low + 1 - begin), (low + 1, begin - low)):
            law[b : b + self.width] += chance * (self.odds - 1) * self.base
        return float(law @ (self.estimate(np.arange(self.reports)) - v) ** 2)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class LocalMean(ReadableRepr):
    """Reports a number from a public range; the mean of many people is estimated from the reports.

    Values outside the range are moved to its nearest end; anything but a number counts as the lower end.

    >>> from hush import local
    >>> local.mean(epsilon=1, lower=0, upper=100)
    LocalMean(epsilon=1, lower=0, upper=100)
    """

    epsilon: Fraction
    lower: Fraction
    upper: Fraction

    def __init__(self, *, epsilon: Number, lower: Number, upper: Number) -> None:
        low, high = exact(lower, "lower"), exact(upper, "upper")
        if low >= high:
            raise InvalidValueError("upper", got=upper, allowed=f"above the lower end, {lower}")
        assign(self, epsilon=ordinary(epsilon, "epsilon"), lower=low, upper=high)

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
        """The possible reports: 0 and 1 of the one-bit mechanism, then the points of the wide one."""
        return range(2 + self._choice[2].reports)

    def release(self, value: Any) -> Any:
        """Return one report, or an array of independent reports for a column."""
        alone = is_scalar(value)
        values = np.array([_unit(entry, self) for entry in ([value] if alone else list(value))], dtype=np.int64)
        sides, bit, wide = self._choice
        takes_wide = noise.uniform_integer(_COIN_SIDES, len(values)) < sides
        reports = np.empty(len(values), dtype=np.int64)
        for window, members, offset in ((bit, ~takes_wide, 0), (wide, takes_wide, 2)):
            m, w = window.reports, window.width
            scaled = values[members] * (m - w)  # at most 2⁵²·2¹⁰
            count = len(scaled)
            # The window begins at a whole number, rounded at random so that its mean is exact.
            begins = scaled >> _VALUE_BITS
            begins += noise.uniform_integer(1 << _VALUE_BITS, count) < (scaled & ((1 << _VALUE_BITS) - 1))
            holds = coins(self.epsilon, Fraction(m - w, w), count)
            inside = begins + noise.uniform_integer(w, count)
            outside = noise.uniform_integer(m - w, count)
            # Numbers from the window's beginning on skip it.
            outside = np.where(outside >= begins, outside + w, outside)
            reports[members] = offset + np.where(holds, inside, outside)
        return int(reports[0]) if alone else reports

    def estimate(self, reports: Any) -> float:
        """Return the unbiased estimate of the mean, within the range (0 reports: its middle)."""
        numbers = report_numbers(reports, len(self.reports))
        _, bit, wide = self._choice
        values = np.where(numbers < 2, bit.estimate(numbers), wide.estimate(numbers - 2))
        centre = float(values.mean()) if numbers.size else 0.0
        return float(self.lower) + (centre + 1) / 2 * float(self.upper - self.lower)

    def variance(self, *, count: int, value: Number | None = None) -> float:
        """Return the variance of the estimated mean of ``count`` reports: for one value of all, or the worst."""
        sides, bit, wide = self._choice
        half = float(self.upper - self.lower) / 2
        if value is not None:
            points = [float((exact(value, "value") - self.lower) / (self.upper - self.lower)) * 2 - 1]
        else:
            points = [0.0, 1.0, 1 / (wide.reports - wide.width)]
        share = sides / _COIN_SIDES
        worst = max(share * wide.variance(v) + (1 - share) * bit.variance(v) for v in points)
        return worst * half**2 / integer(count, "count", minimum=1)

    def error(self, confidence: Number = Fraction(19, 20), *, count: int) -> float:
        """Return a half-width that holds with at least this probability for the mean of the people who reported.

        Reports are bounded and independent, so Bernstein's inequality holds for every number of them.
        """
        n = integer(count, "count", minimum=1)
        log = math.log(2 / float(1 - confidence_level(confidence)))
        ends = [abs(window.estimate(np.array([0, window.reports - 1]))).max() for window in self._choice[1:]]
        largest, spread = float(max(ends) + 1) * float(self.upper - self.lower) / 2, self.variance(count=1)
        # Bernstein: P[|S| ≥ t] ≤ 2·exp(-t²/2(nσ² + t·M/3)), solved for t; raised by more than the float error.
        return (log * largest / 3 + math.sqrt((log * largest / 3) ** 2 + 2 * n * spread * log)) / n * (1 + 1e-12)


def _unit(value: Any, mechanism: LocalMean) -> int:
    """Return (v+1)/2 in units of 2⁻⁵². Never fails: an error would show the answer."""
    try:
        share = (exact(value, "value") - mechanism.lower) / (mechanism.upper - mechanism.lower)
    except Exception:  # noqa: BLE001 - any object may be an answer
        return 0
    units: int = round(max(Fraction(0), min(share, Fraction(1))) * 2**_VALUE_BITS)
    return units


@lru_cache(maxsize=256)
def _best(epsilon: float) -> tuple[int, _Window, _Window]:
    """Return the coin's sides and the two windows with the smallest worst variance."""
    odds = shares(Fraction(epsilon))
    bit = _Window(2, 1, odds)
    likely = _WIDE_REPORTS / (math.exp(epsilon / 2) + 1)
    widths = {min(max(1, round(likely) + step), _WIDE_REPORTS // 2) for step in range(-2, 3)}
    wide = min((_Window(_WIDE_REPORTS, width, odds) for width in widths), key=lambda window: window.variance(1.0))
    sides = np.arange(_COIN_SIDES + 1)
    worst = np.maximum(*(sides * wide.variance(v) + (_COIN_SIDES - sides) * bit.variance(v) for v in (0.0, 1.0)))
    return int(worst.argmin()), bit, wide


_EPSILON_OF_FUNCTION = Fraction(1, 2**12)
_PUBLIC_KEY = b"hush.local.vector_mean, public 1"
_LARGEST_EPSILON = 12
_NUMBERS_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True, init=False, repr=False)
class LocalVectorMean(ReadableRepr):
    """Reports a vector of length at most ``norm``; the mean of many people is estimated from the reports.

    Longer vectors are shortened to ``norm``; anything but a vector of numbers counts as zero.

    >>> from hush import local
    >>> local.vector_mean(epsilon=1, dimensions=3)
    LocalVectorMean(epsilon=1, dimensions=3, norm=1)
    """

    epsilon: Fraction
    dimensions: int
    norm: Fraction

    def __init__(self, *, epsilon: Number, dimensions: int, norm: Number = 1) -> None:
        budget = ordinary(epsilon, "epsilon")
        if budget > _LARGEST_EPSILON:
            raise InvalidValueError("epsilon", got=epsilon, allowed=f"at most {_LARGEST_EPSILON}")
        wide = integer(dimensions, "dimensions", minimum=2, maximum=10**4)
        assign(self, epsilon=budget, dimensions=wide, norm=ordinary(norm, "norm"))

    @property
    def event(self) -> ApproximateDPEvent:
        """Pure ε, plus 2⁻¹² for the difference of the public function from a random one."""
        return ApproximateDPEvent(epsilon=self.epsilon + _EPSILON_OF_FUNCTION, delta=0)

    @property
    def _moments(self) -> tuple[float, float]:
        epsilon = float(self.epsilon)
        return _moments(_threshold(epsilon, self.dimensions), epsilon)

    def release(self, vector: Any) -> Any:
        """Return one report, or an array of reports for several vectors (one per row)."""
        rows = np.asarray(vector)
        reports = self._report(self._directions(np.atleast_2d(rows)))
        return int(reports[0]) if rows.ndim == 1 else reports

    def _directions(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return random unit vectors; their means are the rows, shortened to the norm."""
        if rows.ndim != 2 or rows.shape[1] != self.dimensions:
            allowed = f"vectors of {self.dimensions} numbers"
            raise InvalidValueError("vector", got=f"shape {rows.shape}", allowed=allowed)
        # Row by row: what one person sends must not change the reports of the others.
        if rows.dtype.kind not in "biuf":
            rows = np.array([_numbers(row) for row in rows]).reshape(rows.shape)
        values = rows.astype(np.float64) / float(self.norm)
        values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, 0.0)
        # Scaled by the largest coordinate first: squares neither overflow nor vanish.
        largest = np.abs(values).max(axis=1, keepdims=True)
        scaled = values / np.where(largest > 0, largest, 1.0)
        scaled[largest[:, 0] == 0, 0] = 1.0  # a vector of zeros has any direction
        norms = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
        units, lengths = scaled / norms, np.minimum(norms * largest, 1.0)[:, 0]
        # A shorter vector is turned round with probability (1-ℓ)/2.
        turned = noise.uniform_integer(2**53, len(units)) >= np.floor((1 + lengths) / 2 * 2**53)
        return np.asarray(np.where(turned[:, None], -units, units))

    def _report(self, units: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
        """Draw for each unit vector: seeds are tried until one is taken, surely on S_v, else with probability e^-ε."""
        threshold, epsilon = _threshold(float(self.epsilon), self.dimensions), self.epsilon
        reports = np.zeros(len(units), dtype=np.uint64)
        waiting = np.arange(len(units))
        tries = max(1, min(64, _NUMBERS_AT_ONCE // (self.dimensions * max(1, len(waiting)))))
        while len(waiting):
            size = max(1, _NUMBERS_AT_ONCE // (self.dimensions * tries))
            refused = []
            for start in range(0, len(waiting), size):
                people = waiting[start : start + size]
                seeds = system_bits().words(len(people) * tries)
                scores = (
                    vectors_of(seeds, self.dimensions).reshape(len(people), tries, -1) * units[people][:, None]
                ).sum(-1)
                coins = noise.bernoulli_exp(lambda _bits: ball(epsilon), len(seeds)).reshape(scores.shape)
                accepted = (scores >= threshold) | coins
                served = accepted.any(axis=1)
                first = accepted.argmax(axis=1)
                reports[people[served]] = seeds.reshape(scores.shape)[np.arange(len(people)), first][served]
                refused.append(people[~served])
            waiting = np.concatenate(refused)
        return reports

    def estimate(self, reports: Any) -> npt.NDArray[np.float64]:
        """Return the unbiased estimate of the mean vector; zeros without reports."""
        seeds = np.asarray(reports, dtype=np.uint64).ravel()
        total = np.zeros(self.dimensions)
        size = max(1, _NUMBERS_AT_ONCE // self.dimensions)
        for start in range(0, len(seeds), size):
            total += vectors_of(seeds[start : start + size], self.dimensions).sum(axis=0)
        scale, _ = self._moments
        return total / (max(1, len(seeds)) * scale) * float(self.norm)

    def squared_error(self, *, count: int) -> float:
        """Return the expected squared distance of the estimate from the mean of ``count`` vectors of full length."""
        scale, square = self._moments
        each = (self.dimensions - 1 + square) / scale**2 - 1
        return each * float(self.norm) ** 2 / integer(count, "count", minimum=1)

    def error(self, confidence: Number = Fraction(19, 20), *, count: int) -> float:
        """Return a half-width of each coordinate, by the normal approximation with the worst variance."""
        scale, square = self._moments
        level = NormalDist().inv_cdf((1 + float(confidence_level(confidence))) / 2)
        variance = max(1.0, square) / scale**2 / integer(count, "count", minimum=1)
        return level * math.sqrt(variance) * float(self.norm)


def _numbers(row: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return a row as floats, zeros for anything but numbers. Never fails: an error would show the vector."""
    try:
        return row.astype(np.float64)
    except Exception:  # noqa: BLE001 - any object may be an answer
        return np.zeros(len(row))


def vectors_of(seeds: npt.NDArray[np.uint64], dimensions: int) -> npt.NDArray[np.float64]:
    """Return G(z) for each seed, one per row: AES under a public key, then Box and Muller's transform."""
    pairs = (dimensions + 1) // 2
    blocks = np.empty((len(seeds), pairs, 2), dtype="<u8")
    blocks[:, :, 0] = seeds[:, None]
    blocks[:, :, 1] = np.arange(pairs)
    cipher = Cipher(algorithms.AES(_PUBLIC_KEY), modes.ECB()).encryptor()  # noqa: S305 - every block differs
    words = np.frombuffer(cipher.update(blocks.tobytes()), dtype="<u8").reshape(len(seeds), pairs, 2)
    # Box, Muller: 53 random bits in [0, 1) each; log1p(-u) is finite since u < 1.
    uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    radius = np.sqrt(-2 * np.log1p(-uniform[:, :, 0]))
    angle = 2 * math.pi * uniform[:, :, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2).reshape(len(seeds), -1)[:, :dimensions]


@lru_cache(maxsize=256)
def _threshold(epsilon: float, dimensions: int) -> float:
    """Return the γ with the smallest squared error, by golden section."""

    def squared_error(gamma: float) -> float:
        scale, square = _moments(gamma, epsilon)
        return (dimensions - 1 + square) / scale**2

    low, high = 0.0, 6.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        lower, upper = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, upper) if squared_error(lower) < squared_error(upper) else (lower, high)
    return (low + high) / 2


def _moments(gamma: float, epsilon: float) -> tuple[float, float]:
    """Return the mean and the mean square of ⟨G, v⟩."""
    q = 0.5 * math.erfc(gamma / math.sqrt(2))
    density = math.exp(-gamma * gamma / 2) / math.sqrt(2 * math.pi)
    # P[accepted seed lies in S_v]; q is the share of S_v among all seeds.
    p = q / (q + (1 - q) * math.exp(-epsilon))
    mean = density * (p - q) / (q * (1 - q))
    return mean, 1 + gamma * mean
