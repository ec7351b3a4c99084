"""How a fit shares its budget: private looks at the columns, the fits themselves, and the noise on their minima.

Everything is measured by μ², the squared ratio of sensitivity to deviation, which adds up for Gaussian noise. A fit has
fixed shares of one total t: *looks* (noisy histograms and counts, plain Gaussian noise), one or more objective
perturbations, and for each of them 10⁻⁴ of its μ² for the noise on the minimum (:mod:`hush.learn.convex_fits`). t is
the largest four-digit decimal whose composition the accountant certifies to be (ε, δ).

The determinant's share c₀ = ln(1 + curvature) is a tenth of ε over all fits. More would buy a smaller ridge with more
noise; from a twentieth to a fifth nothing measurable changes.

The events depend on ε and δ alone, so the price is known before a row is read.

>>> tenth = Fraction(1, 10)
>>> shares = share_budget(Fraction(1), Fraction(1, 10**6), looks=tenth, fits=(1 - tenth,), two_sided=False)
>>> round(float(compose([shares.event]).epsilon("1e-6")), 3)
1.0

**Private looks: noisy counts of a column's levels, of the rows, and of a target's cells.**

Each row adds 1 to at most one level of each column, so a histogram of one column has sensitivity 1, and the noise is an
ideal Gaussian rounded to whole numbers: rounding is post-processing, so its price is the continuous Gaussian's.

>>> looks = Looks.take([np.array([0, 0, 1])], [2], mu_squared=Fraction(10**6), weights=[Fraction(1)])
>>> [np.round(counts, 0).tolist() for counts in looks.counts], round(looks.rows)
([[2.0, 1.0]], 3)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    ObjectivePerturbationEvent,
    compose,
)
from hush.core import HushError, InvalidValueError, Number, positive, probability
from hush.core.rounding import largest_decimal
from hush.learn.schema import Codes, Floats
from hush.noise import discrete_laplace, rounded_gaussian

DETERMINANT = Fraction(1, 10)
"""The share of ε that pays for the determinants."""
_LARGEST = Fraction(10**6)
_LARGEST_LOSS = 1.0
"""The largest price of the determinants of one fit, for any ε."""
OUTPUT = Fraction(1, 10**4)
"""The noise on a minimum, as a share of its fit's μ²."""


class NeedsDeltaError(HushError):
    """A budget without δ cannot pay for Gaussian noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The price of each step of a fit, as μ²."""

    looks: Fraction
    fits: tuple[Fraction, ...]
    curvature: Fraction
    """βR²/λ of each fit."""
    two_sided: bool

    @property
    def event(self) -> Event:
        """All steps together."""
        parts: list[Event] = [GaussianEvent(sigma_squared=1 / self.looks)]
        for fit in self.fits:
            parts.append(ObjectivePerturbationEvent(mu_squared=fit, curvature=self.curvature, two_sided=self.two_sided))
            parts.append(GaussianEvent(sigma_squared=1 / (OUTPUT * fit)))
        return ComposedEvent(parts=[(part, 1) for part in parts])


def read_budget(epsilon: Number, delta: Number) -> tuple[Fraction, Fraction]:
    """Return ε and δ as exact numbers; of an ε above a million, a million, which leaves no noise worth speaking of."""
    slip = probability(delta, "delta")
    if slip == 1:
        raise InvalidValueError("delta", got=delta, allowed="below 1")
    return min(positive(epsilon, "epsilon"), _LARGEST), slip


def require_delta(delta: Fraction, what: str, instead: str) -> None:
    """Refuse a budget without δ: these models exist with Gaussian noise only."""
    if delta == 0:
        raise NeedsDeltaError(f"{what} adds Gaussian noise, which needs a δ above 0; got δ=0. {instead}")


@lru_cache(maxsize=256)
def share_budget(
    epsilon: Fraction, delta: Fraction, *, looks: Fraction, fits: tuple[Fraction, ...], two_sided: bool
) -> Shares:
    """Return the largest certified total, shared in these proportions."""
    # A ridge that costs more would be no ridge: rows alone, without noise, ask for one of this size.
    loss = min(float(epsilon * DETERMINANT) / len(fits), _LARGEST_LOSS)
    # Any curvature is private at its own price: the event is made from this fraction, not from `loss`.
    curvature = Fraction(math.expm1(loss)).limit_denominator(10**6)
    curvature = max(curvature, Fraction(1, 10**6))

    def shared(total: Fraction) -> Shares:
        return Shares(
            looks=total * looks, fits=tuple(total * fit for fit in fits), curvature=curvature, two_sided=two_sided
        )

    return shared(_largest(lambda total: shared(total).event, epsilon, delta, digits=4))


@lru_cache(maxsize=256)
def gaussian_budget(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest μ² of Gaussian noise alone that is (ε, δ)-DP, to six digits."""
    return _largest(lambda total: GaussianEvent(sigma_squared=1 / total), epsilon, delta, digits=6)


def _largest(event: Callable[[Fraction], Event], epsilon: Fraction, delta: Fraction, *, digits: int) -> Fraction:
    """Return the largest decimal total with an event that is certified to be (ε, δ)."""

    def affordable(total: Fraction) -> bool:
        return compose([event(total)]).epsilon(delta, strict=False).upper <= epsilon

    return largest_decimal(affordable, digits=digits)


def deviation(mu_squared: Fraction, sensitivity_squared: Number = 1) -> Fraction:
    """Return a σ, rounded up to a multiple of 2⁻³⁰ of its size, with sensitivity²/σ² ≤ μ²."""
    square = positive(sensitivity_squared, "sensitivity_squared") / mu_squared
    scale = 60 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    unit = Fraction(2) ** scale
    # Rounded up twice: a larger σ is the safe side.
    root = math.isqrt(math.ceil(square * unit * unit)) + 1
    return Fraction(root) / unit


@dataclass(frozen=True, slots=True)
class IntegerNoise:
    """Noise on one vector of whole numbers for the whole budget: discrete Laplace without δ, else a rounded Gaussian.

    Its users have vectors with equal sensitivities Δ₂² and Δ₁, which is the ``sensitivity`` below.
    """

    epsilon: Fraction
    delta: Fraction

    @classmethod
    def of(cls, epsilon: Number, delta: Number) -> IntegerNoise:
        """Return the noise that a budget buys."""
        return cls(*read_budget(epsilon, delta))

    @property
    def event(self) -> Event:
        """The price: the whole budget."""
        if self.delta == 0:
            return ApproximateDPEvent(epsilon=self.epsilon)
        return GaussianEvent(sigma_squared=1 / gaussian_budget(self.epsilon, self.delta))

    def _parameter(self, sensitivity: int) -> Fraction:
        """Return the scale of the Laplace law, or the deviation of the Gaussian."""
        if self.delta == 0:
            return Fraction(sensitivity) / self.epsilon
        return deviation(gaussian_budget(self.epsilon, self.delta), sensitivity)

    def sigma(self, sensitivity: int) -> float:
        """Return the standard deviation of an entry."""
        return (1.0 if self.delta else math.sqrt(2)) * float(self._parameter(sensitivity))

    def draw(self, sensitivity: int, size: int, *, unit: int = 1) -> npt.NDArray[Any]:
        """Return independent noise for numbers in units of 1/``unit``."""
        parameter = self._parameter(sensitivity) * unit
        return rounded_gaussian(parameter, size) if self.delta else discrete_laplace(parameter, size)


_ROWS = Fraction(1, 2)
"""The weight of the number of rows, next to 1 for a column."""


def noisy(values: object, sigma: Fraction) -> Floats:
    """Return whole numbers with rounded Gaussian noise."""
    counts = np.asarray(values, dtype=np.int64)
    return np.asarray(counts + rounded_gaussian(sigma, counts.shape), dtype=np.float64)


def noisy_products(total: Floats, unit: int, noise: Callable[[int], npt.NDArray[Any]]) -> Floats:
    """Return sums of products, whole numbers in a unit, with noise on the upper triangle; the lower one mirrors it."""
    upper, result = np.triu_indices(len(total)), np.empty_like(total)
    result[upper] = result.T[upper] = (total[upper].astype(np.int64) + noise(len(upper[0]))) / unit
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Noisy counts of each column's levels, and of the rows."""

    counts: list[Floats]
    sigmas: list[float]
    """The deviation of each column's noise."""
    rows: float
    """The noisy number of rows, at least 1: the best mean of all totals."""

    @classmethod
    def take(
        cls, codes: Sequence[Codes], levels: Sequence[int], *, mu_squared: Fraction, weights: Sequence[Fraction]
    ) -> Looks:
        """Look at the levels of each column and at the number of rows, for this μ² together, shared by the weights."""
        unit = mu_squared / (sum(weights) + _ROWS)
        sigmas = [deviation(unit * weight) for weight in weights]
        counts = [
            noisy(np.bincount(column, minlength=size + 1), sigma)
            for column, size, sigma in zip(codes, levels, sigmas, strict=True)
        ]
        rows = float(noisy([len(codes[0]) if codes else 0], deviation(unit * _ROWS))[0])
        # Every column's counts, the missing ones among them, add up to the rows: weigh the totals by their precision.
        precision = [
            float(_ROWS),
            *(float(weight) / len(column) for weight, column in zip(weights, counts, strict=True)),
        ]
        totals = [rows, *(float(column.sum()) for column in counts)]
        estimate = float(np.dot(precision, totals)) / sum(precision)
        return cls(
            counts=[column[:-1] for column in counts],
            sigmas=[float(sigma_of_column) for sigma_of_column in sigmas],
            rows=max(estimate, 1.0),
        )
