r"""Noisy Newton steps: fits where a unit has several rows, made of sums of integers alone.

Objective perturbation asks that neighbours differ by one row, for its proof is about a change of rank one. Here a unit
may add or remove up to k rows. What is released is ordinary sums with Gaussian noise (Ganesh, Haghifam, Steinke,
Thakurta 2023, "Faster differentially private convex optimization via second-order methods"):

1. **The second moments** A = Σ xᵢxᵢᵀ of the features, once.
2. **Gradients** gₜ = Σ ℓ'(yᵢ, xᵢ·θₜ)·xᵢ at the public θₜ, a few times. Each step moves θ by
   −[w(Â + λI)]⁻¹ g̃ₜ, with w a public guess of the loss's mean second derivative.

**Integers.** Features are rounded to 2⁻¹⁰, derivatives, which lie in [−1, 1], to 2⁻¹². So every sum is one of integers,
the same for each order of the rows.

**Sensitivity.** In units of the grid a row has ‖x‖ ≤ R, computed exactly from the rounded public maps. It adds a vector
of norm at most 2¹²·R to a gradient. To the upper triangle of A it adds xᵢxⱼ, i ≤ j, of squared norm ½[(Σxᵢ²)² + Σxᵢ⁴] ≤
R⁴. A unit adds at most k of these, so k times as much. Each release has its share of one μ², which adds up; the event
is that of one Gaussian.

**The ridge** λ is what noise alone can make of the smallest eigenvalue, 2√d deviations of an entry: below that Â says
nothing. It shortens steps where nothing is known, and stopping early keeps them short; the coefficients themselves are
not shrunk. (Shrinking them by λ, too, lost 0.02 to 0.08 of R² on three tables.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.core.values import dataclass
from hush.learn.budget import deviation
from hush.learn.design import Design
from hush.learn.looks import noisy
from hush.learn.schema import Codes, Floats

LOOKS, MOMENTS, STEPS = Fraction(12, 100), Fraction(28, 100), Fraction(60, 100)
"""How a fit shares its μ²: looks at the columns, second moments, all gradients together."""
_FEATURE, _DERIVATIVE = 2.0**10, 2.0**12
_CHUNK = 1 << 14
"""Rows at a time: products of features are at most 2²⁴, so that sums of so many are exact in floats."""


@dataclass(frozen=True, slots=True)
class NewtonDesign:
    """Rows with features rounded to the grid, of which a unit has at most ``rows``."""

    design: Design
    radius_squared: int
    """The largest squared norm of a row's features, in squared units of the grid."""
    rows: int

    @classmethod
    def of(cls, codes: Sequence[Codes], maps: Sequence[Floats], *, intercept: float, rows: int) -> NewtonDesign:
        """Round the public maps, and find how long a row can be."""
        rounded = [np.rint(part * _FEATURE) for part in maps]
        constant = round(intercept * _FEATURE)
        longest = sum(int((part * part).sum(axis=1).max()) for part in rounded) + constant**2
        return cls(Design(codes, rounded, intercept=float(constant)), longest, rows)

    @property
    def width(self) -> int:
        """How many coefficients there are."""
        return self.design.width

    def _features(self, chunk: slice) -> Floats:
        parts = [part[codes[chunk]] for codes, part in zip(self.design.codes, self.design.maps, strict=True)]
        rows = len(parts[0]) if parts else 0
        return np.hstack([np.full((rows, 1), self.design.intercept), *parts])

    def margins(self, theta: Floats) -> Floats:
        """Return x·θ for each row."""
        return self.design.margins(theta) / _FEATURE

    def moments(self, counted: npt.NDArray[np.bool_], mu_squared: Fraction) -> tuple[Floats, float]:
        """Return the noisy second moments of the rows that count, and the deviation of an entry's noise."""
        total = np.zeros((self.width, self.width), dtype=np.int64)
        for first in range(0, self.design.rows, _CHUNK):
            chunk = slice(first, first + _CHUNK)
            part = self._features(chunk)[counted[chunk]]
            total += (part.T @ part).astype(np.int64)
        sigma = deviation(mu_squared, Fraction(self.rows**2 * self.radius_squared**2))
        upper = np.triu_indices(self.width)
        entries = noisy(total[upper], sigma)
        result = np.zeros(total.shape)
        result[upper] = entries / _FEATURE**2
        return result + np.triu(result, 1).T, float(sigma) / _FEATURE**2

    def gradient(self, derivative: Floats, mu_squared: Fraction) -> tuple[Floats, float]:
        """Return the noisy sum of derivative times features, and the deviation of an entry's noise."""
        whole = np.rint(np.clip(derivative, -1.0, 1.0) * _DERIVATIVE).astype(np.int64)
        total = np.zeros(self.width, dtype=np.int64)
        total[0] = int(self.design.intercept) * int(whole.sum())
        for codes, part, place in zip(self.design.codes, self.design.maps, self.design.slices, strict=True):
            # Sums over a level are below 2⁵³ for fewer than 2⁴¹ rows, so that counting with weights is exact.
            level = np.bincount(codes, whole.astype(np.float64), minlength=part.shape[0]).astype(np.int64)
            total[place] = part.astype(np.int64).T @ level
        reach = Fraction(self.rows**2 * self.radius_squared) * int(_DERIVATIVE) ** 2
        sigma = deviation(mu_squared, reach)
        unit = _FEATURE * _DERIVATIVE
        return noisy(total, sigma) / unit, float(sigma) / unit


@dataclass(frozen=True, slots=True)
class Preconditioner:
    """The noisy second moments, ready to turn gradients into steps."""

    values: Floats
    vectors: Floats
    ridge: float

    @classmethod
    def of(cls, moments: Floats, sigma: float) -> Preconditioner:
        """Take eigenvalues once; what noise can have made is not below zero."""
        values, vectors = np.linalg.eigh(moments)
        return cls(np.maximum(values, 0.0), vectors, 2 * sigma * math.sqrt(len(values)))

    def step(self, gradient: Floats, weight: float) -> Floats:
        """Return [w(A + λI)]⁻¹ g."""
        return np.asarray(self.vectors @ ((self.vectors.T @ gradient) / (weight * (self.values + self.ridge))))

    def covariance(self, sigma: float, weight: float) -> Floats:
        """Return about the covariance of a step's noise."""
        scaled = self.vectors * (sigma / (weight * (self.values + self.ridge)))
        return np.asarray(scaled @ scaled.T)


def noisy_newton(
    rows: NewtonDesign,
    derivative: Callable[[Floats], Floats],
    *,
    start: Floats,
    counted: npt.NDArray[np.bool_],
    preconditioner: Preconditioner,
    weight: float,
    mu_squared: Fraction,
    steps: int,
) -> tuple[Floats, Floats]:
    """Return θ after some noisy steps, and about the covariance of its noise; ``derivative`` is ℓ' at margins."""
    theta, sigma = start, 0.0
    for _ in range(steps):
        slopes = np.where(counted, derivative(rows.margins(theta)), 0.0)
        gradient, sigma = rows.gradient(slopes, mu_squared / steps)
        theta = theta - preconditioner.step(gradient, weight)
    return theta, preconditioner.covariance(sigma, weight)


def newton_error(mu_squared: Fraction, unit_rows: int, columns: int, *, weight: float, rows: int) -> float:
    """Return about the noise's deviation in the effect of a level that so many rows have."""
    sigma = unit_rows * math.sqrt((columns + 1) / float(mu_squared * STEPS / 4))
    return sigma / (weight * rows)
