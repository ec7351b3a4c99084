"""Checks of a sample against a law, each a p-value: small means that the sample cannot come from the law.

A test rejects below ``ALPHA`` = 10⁻⁷, which is therefore its false-alarm probability for each check (chi-square
approximations are used only where every cell expects at least 100 draws; the others are exact or conservative). No test
makes more than ten checks, so none alarms falsely with probability above 10⁻⁶.

The very same functions are run on deliberately broken samplers (`test_noise_mutants`), which they must reject.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats

ALPHA = 1e-7
DRAWS = 1_000_000
LEAST = 100

Survival = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
"""P[X ≥ k] for an array of whole numbers k."""


def laplace_survival(scale: float) -> Survival:
    """P[X ≥ k] of the discrete Laplace law: r^k/(1+r) for k ≥ 1, by symmetry below."""

    def survival(k):
        above = np.exp(-np.maximum(k, 1) / scale) / (1 + math.exp(-1 / scale))
        below = 1 - np.exp(-np.maximum(1 - k, 1) / scale) / (1 + math.exp(-1 / scale))
        return np.where(k >= 1, above, below)

    return survival


def geometric_survival(scale: float) -> Survival:
    """P[G ≥ k] = e^(-k/scale)."""
    return lambda k: np.exp(-np.maximum(k, 0) / scale)


def gaussian_survival(sigma: float) -> Survival:
    """P[X ≥ k] of the discrete Gaussian law: by summing it, or by the midpoint rule, right to 1/(24σ²), above 10⁴."""
    if sigma > 1e4:
        return lambda k: stats.norm.sf((k - 0.5) / sigma)
    reach = math.ceil(40 * sigma) + 2
    points = np.arange(-reach, reach + 1)
    weights = np.exp(-(points**2) / (2 * sigma**2))
    tails = np.append(np.cumsum(weights[::-1])[::-1] / weights.sum(), 0.0)
    return lambda k: tails[np.clip(k + reach, 0, len(tails) - 1).astype(int)]


def rounded_survival(sf: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> Survival:
    """P[X ≥ k] for a real rounded to the nearest integer."""
    return lambda k: sf(k - 0.5)


def shape(draws: npt.NDArray[np.int64], survival: Survival, cells: int = 60) -> float:
    """Chi-square over cells of about equal probability, cut at whole numbers that the sample suggests no part of."""
    low, high = -1.0, 1.0
    while survival(np.array([low]))[0] < 1 - 1e-4:
        low *= 2
    while survival(np.array([high]))[0] > 1e-4:
        high *= 2
    points = np.unique(np.rint(np.linspace(low, high, 200_001)))
    tails = survival(points)
    at = np.searchsorted(-tails, -np.linspace(1, 0, cells + 1)[1:-1])
    edges = np.unique(points[np.minimum(at, len(points) - 1)])
    while True:
        reach = np.concatenate([[1.0], survival(edges), [0.0]])
        expected = -np.diff(reach) * len(draws)
        thin = int(np.argmin(expected))
        if expected[thin] >= LEAST or len(edges) < 2:
            break
        edges = np.delete(edges, min(thin, len(edges) - 1))
    counts = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)
    return float(stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(edges)))


def tails(draws: npt.NDArray[np.int64], survival: Survival) -> float:
    """Exact binomial tests of the numbers beyond six far points, the smallest p-value times their number."""
    worst = 1.0
    for sign in (1, -1):
        for rare in (1e-3, 1e-4, 1e-5):
            edge = 1.0
            while _beyond(survival, edge, sign) > rare:
                edge = math.ceil(edge * 1.02 + 0.5)
            chance = _beyond(survival, edge, sign)
            if chance > 0:
                count = int(np.count_nonzero(sign * draws >= edge))
                worst = min(worst, float(stats.binomtest(count, len(draws), min(1.0, chance)).pvalue))
    return min(1.0, 6 * worst)


def _beyond(survival: Survival, edge: float, sign: int) -> float:
    """P[X ≥ edge], or P[X ≤ -edge] for a negative sign."""
    if sign > 0:
        return float(survival(np.array([edge]))[0])
    return float(1 - survival(np.array([1 - edge]))[0])


def symmetry(draws: npt.NDArray[np.int64]) -> float:
    """Positive and negative draws are equally many (exact), and their magnitudes of one law (Kolmogorov-Smirnov)."""
    positive, negative = draws[draws > 0], -draws[draws < 0]
    if not len(positive) + len(negative):
        return 1.0
    signs = stats.binomtest(len(positive), len(positive) + len(negative)).pvalue
    if min(len(positive), len(negative)) < LEAST:
        return float(signs)
    # On lattices the two-sample test is conservative.
    magnitudes = stats.ks_2samp(positive, negative, method="asymp").pvalue
    return min(1.0, 2 * float(min(signs, magnitudes)))


def low_bits(draws: npt.NDArray[np.int64], bits: int = 8) -> float:
    """Draws of a wide law (scale well above 2^bits) are uniform modulo 2^bits."""
    counts = np.bincount(draws & (2**bits - 1), minlength=2**bits)
    return float(stats.chisquare(counts).pvalue)


def independence(draws: npt.NDArray[np.int64]) -> float:
    """Consecutive draws are independent: chi-square of the pairs over the thirds of the sample's own ranks."""
    codes = np.digitize(draws, np.unique(np.quantile(draws, [1 / 3, 2 / 3])), right=True)
    table = np.zeros((3, 3))
    np.add.at(table, (codes[0:-1:2], codes[1::2]), 1)
    table = table[table.sum(axis=1) > 3000][:, table.sum(axis=0) > 3000]
    return float(stats.chi2_contingency(table, correction=False).pvalue) if min(table.shape) > 1 else 1.0


def coincidences(draws: npt.NDArray[np.int64], collision: float) -> float:
    """The number of equal pairs is not above what the collision probability Σp² explains.

    For a law so wide that few draws meet (n·Σp² below 10⁻³) that number is Poisson to three digits of its variance.
    """
    _, counts = np.unique(draws, return_counts=True)
    pairs = float(np.sum(counts * (counts - 1.0) / 2))
    return float(stats.poisson.sf(pairs - 1, len(draws) * (len(draws) - 1) / 2 * collision))


def frequencies(draws: npt.NDArray[np.int64], probabilities: npt.NDArray[np.float64]) -> float:
    """Chi-square of draws 0 … n-1 against their probabilities; an impossible draw rejects at once."""
    counts = np.bincount(draws, minlength=len(probabilities))
    possible = probabilities > 0
    if counts[: len(probabilities)][~possible].any() or len(counts) > len(probabilities):
        return 0.0
    if np.count_nonzero(possible) == 1:
        return 1.0
    expected = probabilities[possible] * len(draws)
    assert expected.min() >= LEAST, "too few draws for chi-square"
    return float(stats.chisquare(counts[possible], expected).pvalue)


def accepts(*p_values: float) -> bool:
    """Return whether no check rejects."""
    assert 0 < len(p_values) <= 10
    return min(p_values) >= ALPHA
