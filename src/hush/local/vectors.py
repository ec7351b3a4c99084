r"""The mean of vectors that nobody may see: each report is one number, from which a random vector is made anew.

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

>>> mechanism = LocalVectorMean(epsilon=4, dimensions=3)
>>> 0 <= mechanism.release([1.0, 0.0, 0.0]) < 2**64
True
>>> round(LocalVectorMean(epsilon=4, dimensions=100).squared_error(count=1), 1)
43.5
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hush import noise
from hush.accounting import ApproximateDPEvent
from hush.core import InvalidValueError, Number, integer
from hush.core.balls import ball
from hush.core.values import dataclass
from hush.mechanisms.base import Setter, confidence_level, ordinary
from hush.noise.bits import system_bits

__all__ = ["LocalVectorMean", "vector_mean", "vectors_of"]

_CHARGED = Fraction(1, 2**12)
_PUBLIC_KEY = b"hush.local.vector_mean, public 1"
_LARGEST_EPSILON = 12
_CHUNK = 2**20


@dataclass(frozen=True, slots=True, init=False)
class LocalVectorMean(Setter):
    """Reports a vector of length at most ``norm`` so that the mean of many can be estimated.

    Longer vectors are shortened to ``norm``; what is no vector of numbers counts as zero.
    """

    epsilon: Fraction
    dimensions: int
    norm: Fraction

    def __init__(self, *, epsilon: Number, dimensions: int, norm: Number = 1) -> None:
        budget = ordinary(epsilon, "epsilon")
        if budget > _LARGEST_EPSILON:
            raise InvalidValueError("epsilon", got=epsilon, allowed=f"at most {_LARGEST_EPSILON}")
        wide = integer(dimensions, "dimensions", minimum=2, maximum=10**4)
        self._set(epsilon=budget, dimensions=wide, norm=ordinary(norm, "norm"))

    @property
    def event(self) -> ApproximateDPEvent:
        """Pure ε, and 2⁻¹² for what the public function may differ from a random one."""
        return ApproximateDPEvent(epsilon=self.epsilon + _CHARGED, delta=0)

    def release(self, vector: Any) -> Any:
        """Return one report, or an array of reports for several vectors (one per row)."""
        rows = np.asarray(vector) if not isinstance(vector, np.ndarray) else vector
        if rows.ndim == 1:
            return int(self._report(self._directions(rows[None, :]))[0])
        return self._report(self._directions(rows))

    def _directions(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return unit vectors whose means are the rows, within the norm."""
        if rows.ndim != 2 or rows.shape[1] != self.dimensions:
            allowed = f"vectors of {self.dimensions} numbers"
            raise InvalidValueError("vector", got=f"shape {rows.shape}", allowed=allowed)
        try:
            values = np.asarray(rows, dtype=np.float64) / float(self.norm)
        except (TypeError, ValueError):
            values = np.zeros(rows.shape)
        values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, 0.0)
        largest = np.abs(values).max(axis=1)
        safe = np.where(largest > 0, largest, 1.0)
        lengths = np.sqrt(((values / safe[:, None]) ** 2).sum(axis=1)) * safe
        units = np.zeros_like(values)
        units[:, 0] = 1.0
        np.divide(values / safe[:, None], (lengths / safe)[:, None], out=units, where=(largest > 0)[:, None])
        # A shorter vector is turned round with probability (1-ℓ)/2.
        turned = noise.uniform_integer(2**53, len(units)) >= np.floor((1 + np.minimum(lengths, 1.0)) / 2 * 2**53)
        return np.where(turned[:, None], -units, units)

    def _report(self, units: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
        """Draw for each unit vector: seeds are tried until one is taken, surely on S_v, else with probability e^-ε."""
        threshold, epsilon = _threshold(float(self.epsilon), self.dimensions), self.epsilon
        reports = np.zeros(len(units), dtype=np.uint64)
        left = np.arange(len(units))
        tries = max(1, min(64, _CHUNK // (self.dimensions * max(1, len(left)))))
        while len(left):
            size = max(1, _CHUNK // (self.dimensions * tries))
            rest = []
            for start in range(0, len(left), size):
                people = left[start : start + size]
                seeds = system_bits().words(len(people) * tries)
                scores = (
                    vectors_of(seeds, self.dimensions).reshape(len(people), tries, -1) * units[people][:, None]
                ).sum(-1)
                coins = noise.bernoulli_exp(lambda _bits: ball(epsilon), len(seeds)).reshape(scores.shape)
                taken = (scores >= threshold) | coins
                found = taken.any(axis=1)
                first = taken.argmax(axis=1)
                reports[people[found]] = seeds.reshape(scores.shape)[np.arange(len(people)), first][found]
                rest.append(people[~found])
            left = np.concatenate(rest)
        return reports

    def estimate(self, reports: Any) -> npt.NDArray[np.float64]:
        """Return the unbiased estimate of the mean vector; zeros without reports."""
        given = np.asarray(reports, dtype=np.uint64).ravel()
        total = np.zeros(self.dimensions)
        size = max(1, _CHUNK // self.dimensions)
        for start in range(0, len(given), size):
            total += vectors_of(given[start : start + size], self.dimensions).sum(axis=0)
        scale, _ = _moments(float(self.epsilon), self.dimensions)
        return total / (max(1, len(given)) * scale) * float(self.norm)

    def squared_error(self, *, count: int) -> float:
        """Return the expected squared distance of the estimate from the mean of ``count`` vectors of full length."""
        scale, square = _moments(float(self.epsilon), self.dimensions)
        each = (self.dimensions - 1 + square) / scale**2 - 1
        return each * float(self.norm) ** 2 / integer(count, "count", minimum=1)

    def error(self, confidence: Number = Fraction(19, 20), *, count: int) -> float:
        """Return a half-width of each coordinate, by the normal approximation with the worst variance."""
        scale, square = _moments(float(self.epsilon), self.dimensions)
        level = NormalDist().inv_cdf((1 + float(confidence_level(confidence))) / 2)
        variance = max(1.0, square) / scale**2 / integer(count, "count", minimum=1)
        return level * math.sqrt(variance) * float(self.norm)


def vector_mean(*, epsilon: Number, dimensions: int, norm: Number = 1) -> LocalVectorMean:
    """Return the local mechanism for the mean of vectors of at most this length."""
    return LocalVectorMean(epsilon=epsilon, dimensions=dimensions, norm=norm)


def vectors_of(seeds: npt.NDArray[np.uint64], dimensions: int) -> npt.NDArray[np.float64]:
    """Return G(z) for each seed, one per row: AES under a public key, then Box and Muller's transform."""
    pairs = (dimensions + 1) // 2
    blocks = np.empty((len(seeds), pairs, 2), dtype="<u8")
    blocks[:, :, 0] = seeds[:, None]
    blocks[:, :, 1] = np.arange(pairs)
    cipher = Cipher(algorithms.AES(_PUBLIC_KEY), modes.ECB()).encryptor()  # noqa: S305 - every block differs
    words = np.frombuffer(cipher.update(blocks.tobytes()), dtype="<u8").reshape(len(seeds), pairs, 2)
    uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    radius = np.sqrt(-2 * np.log1p(-uniform[:, :, 0]))
    angle = 2 * math.pi * uniform[:, :, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2).reshape(len(seeds), -1)[:, :dimensions]


@lru_cache(maxsize=256)
def _threshold(epsilon: float, dimensions: int) -> float:
    """Return the γ with the smallest squared error, by golden section."""

    def squared_error(gamma: float) -> float:
        scale, square = _moments_at(gamma, epsilon)
        return (dimensions - 1 + square) / scale**2

    low, high = 0.0, 6.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if squared_error(left) < squared_error(right) else (left, high)
    return (low + high) / 2


def _moments(epsilon: float, dimensions: int) -> tuple[float, float]:
    return _moments_at(_threshold(epsilon, dimensions), epsilon)


def _moments_at(gamma: float, epsilon: float) -> tuple[float, float]:
    """Return the mean and the mean square of ⟨G, v⟩."""
    q = 0.5 * math.erfc(gamma / math.sqrt(2))
    density = math.exp(-gamma * gamma / 2) / math.sqrt(2 * math.pi)
    p = q / (q + (1 - q) * math.exp(-epsilon))
    mean = density * (p - q) / (q * (1 - q))
    return mean, 1 + gamma * mean
