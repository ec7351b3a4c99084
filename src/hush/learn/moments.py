r"""Second moments: one release of Σzzᵀ, from which regressions, correlations and components follow free.

A row becomes z: the constant 1, each number scaled to [−1, 1] by its public bounds and rounded to 2⁻¹², each category
one-hot; missing values are zeros. The release is the upper triangle of Σzzᵀ, sums of integers (in units of 2⁻²⁴), with
noise of one deviation on every entry (Dwork, Talwar, Thakurta, Zhang 2014, "Analyze Gauss"; Wang 2018).

**Sensitivity.** One row adds zᵢzⱼ, i ≤ j. Each column's block has squared norm at most 1, and so has the constant, so
Σzᵢ² ≤ S for S = columns + 1, and

    Σ_{i≤j} zᵢ²zⱼ² = ½[(Σzᵢ²)² + Σzᵢ⁴] ≤ ½S(S+1),    likewise Σ_{i≤j} |zᵢzⱼ| ≤ ½S(S+1).

The first prices Gaussian noise, the second discrete Laplace noise for a budget without δ.

**What follows.** Everything below is post-processing: means, covariances, correlations, least squares of any number
on any columns, with intervals that hold the sampling error *and* the noise (:mod:`hush.learn.linear`).

>>> m = moments({"x": [0.0, 1.0] * 5000, "y": [0.0, 2.0] * 5000}, {"x": (0, 1), "y": (0, 2)}, epsilon="1")
>>> bool(abs(m.correlation()[0, 1] - 1) < 0.05)
True
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from hush.accounting import ApproximateDPEvent, Event, GaussianEvent
from hush.core import Number
from hush.learn.budget import deviation, gaussian_budget, read_budget
from hush.learn.model import Model
from hush.learn.schema import Codes, Column, Floats, numbers
from hush.noise import discrete_laplace, rounded_gaussian

_GRID = 2.0**12
_CHUNK = 1 << 15


def feature_names(columns: Sequence[Column]) -> list[str]:
    """Return the names of z's entries after the constant: numbers by name, categories as ``name=value``."""
    return [
        name
        for column in columns
        for name in ([column.name] if column.values is None else [f"{column.name}={value}" for value in column.values])
    ]


def integer_rows(columns: Sequence[Column], parts: Sequence[Any]) -> Iterator[Floats]:
    """Yield chunks of z in units of 2⁻¹²: whole numbers within ±4096 in floats, whose sums of products are exact."""
    prepared: list[Floats | Codes] = []
    for column, values in zip(columns, parts, strict=True):
        if column.values is None:
            x = np.clip(numbers(values), column.lower, column.upper)
            scaled = (2 * (x - column.lower) / (column.upper - column.lower) - 1) * _GRID
            prepared.append(np.rint(np.where(np.isnan(scaled), 0.0, np.clip(scaled, -_GRID, _GRID))))
        else:
            prepared.append(column.codes(values))
    rows = len(prepared[0]) if prepared else 0
    for first in range(0, rows, _CHUNK):
        chunk = slice(first, first + _CHUNK)
        blocks = [np.full((min(_CHUNK, rows - first), 1), _GRID)]
        for column, entry in zip(columns, prepared, strict=True):
            if column.values is None:
                blocks.append(entry[chunk, None].astype(np.float64))
            else:
                blocks.append((entry[chunk, None] == np.arange(column.levels)) * _GRID)
        yield np.hstack(blocks)


class Moments(Model):
    """The noisy second moments of a table."""

    kind: ClassVar[str] = "moments"

    def __init__(self, schema: Any, epsilon: Number = "1", delta: Number = "1e-6") -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta

    def _columns(self) -> tuple[Column, ...]:
        return self._schema().columns

    def _sensitivity(self) -> int:
        """½S(S+1): the squared ℓ₂ sensitivity of the upper triangle, and its ℓ₁ sensitivity."""
        size = len(self._columns()) + 1
        return size * (size + 1) // 2

    @property
    def event(self) -> Event:
        """What the release costs, known before a row is read."""
        epsilon, delta = read_budget(self.epsilon, self.delta)
        if delta == 0:
            return ApproximateDPEvent(epsilon=epsilon)
        return GaussianEvent(sigma_squared=1 / gaussian_budget(epsilon, delta))

    def _story(self) -> str:
        return f"Each entry of Σzzᵀ, z scaled to [−1, 1], has noise of standard deviation {self._sigma():.4g}."

    def _sigma(self) -> float:
        """Return the deviation of each entry's noise in units of z."""
        epsilon, delta = read_budget(self.epsilon, self.delta)
        if delta == 0:
            return float(2**0.5 * self._sensitivity() / float(epsilon))
        return float(deviation(gaussian_budget(epsilon, delta), self._sensitivity()))

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's names
        """Release the moments of the rows, at the price of ``event``."""
        return self.fit_parts(self._schema(X).split(X))

    def fit_parts(self, parts: Sequence[Any]) -> Self:
        """Release the moments of rows given column by column."""
        columns = self._columns()
        size = 1 + len(feature_names(columns))
        total = np.zeros((size, size))
        for rows in integer_rows(columns, parts):
            total += rows.T @ rows  # whole numbers below 2⁵³: exact, in any order
        self.matrix_ = self._noisy(total)
        self.sigma_ = self._sigma()
        return self

    def _noisy(self, total: Floats) -> Floats:
        epsilon, delta = read_budget(self.epsilon, self.delta)
        upper = np.triu_indices(len(total))
        unit = int(_GRID) ** 2
        if delta == 0:
            noise = discrete_laplace(Fraction(self._sensitivity() * unit) / epsilon, len(upper[0]))
        else:
            sigma = deviation(gaussian_budget(epsilon, delta), self._sensitivity())
            noise = rounded_gaussian(sigma * unit, len(upper[0]))
        values = (total[upper].astype(np.int64) + noise) / unit
        result = np.empty_like(total)
        result[upper] = values
        result.T[upper] = values
        return result

    # -- what follows ---------------------------------------------------------------------------------------------

    @property
    def rows(self) -> float:
        """The noisy number of rows, at least 1."""
        return max(float(self._fitted("matrix_")[0, 0]), 1.0)

    def names(self) -> list[str]:
        """Return the names of the moments' columns."""
        return feature_names(self._columns())

    def scales(self) -> tuple[Floats, Floats]:
        """Return centre and half-width of each entry in its column's own units (0 and 1 for a category)."""
        centre, half = [], []
        for column in self._columns():
            for _ in range(1 if column.values is None else column.levels):
                number = column.values is None
                centre.append((column.lower + column.upper) / 2 if number else 0.0)
                half.append((column.upper - column.lower) / 2 if number else 1.0)
        return np.array(centre), np.array(half)

    def mean(self) -> Floats:
        """Return the columns' means in their own units."""
        centre, half = self.scales()
        return np.asarray(centre + half * self._fitted("matrix_")[0, 1:] / self.rows)

    def covariance(self) -> Floats:
        """Return the columns' covariance in their own units; negative eigenvalues, which noise makes, are cut at 0."""
        _, half = self.scales()
        matrix = self._fitted("matrix_")
        mean = matrix[0, 1:] / self.rows
        values, vectors = np.linalg.eigh(matrix[1:, 1:] / self.rows - np.outer(mean, mean))
        scaled = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return np.asarray(half[:, None] * scaled * half)

    def correlation(self) -> Floats:
        """Return the columns' correlations, within ±1; 0 where a column's noisy variance is 0."""
        covariance = self.covariance()
        deviations = np.sqrt(np.diag(covariance))
        inverse = np.where(deviations > 0, 1 / np.where(deviations > 0, deviations, 1.0), 0.0)
        return np.asarray(np.clip(inverse[:, None] * covariance * inverse, -1.0, 1.0))

    def regression(self, target: str, columns: Sequence[str] | None = None) -> Any:
        """Return least squares of a number on some columns (all others by default), with intervals, at no price."""
        from hush.learn.linear import LeastSquares

        return LeastSquares.of(self, target, columns)


def moments(rows: Any, schema: Any, epsilon: Number = "1", delta: Number = "1e-6") -> Moments:
    """Release the second moments of a table once; everything made of them is free."""
    return Moments(schema, epsilon, delta).fit(rows)
