r"""Principal components from noisy second moments ("Analyze Gauss", Dwork, Talwar, Thakurta, Zhang 2014).

A row is x scaled to [0, 1] by its public bounds (categories one-hot), rounded to 2⁻¹². How long rows are is private:
a noisy histogram of ⌈‖x‖²⌉ (a twentieth of μ²) finds the length r² below which nearly all rows lie, and longer rows
are shortened to it. So one-hot columns, of which each row has one per category, cost what they are and not what their
number suggests. Then Σ(1, x)(1, x)ᵀ has sensitivity √(½[(1+r²)² + 1 + r²·min(1, r²)]) in its upper triangle, and what
is released is that matrix; components, variances and the mean follow.

*Shortening.* x is multiplied by √(r²/‖x‖²) and cut towards zero to 2⁻¹², which cannot lengthen it.

>>> rows = np.linspace(0, 1, 20_000)[:, None] * [1.0, 1.0, 0.0]
>>> model = PCA({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, components=1).fit(rows)
>>> bool(abs(abs(model.components_[0, 0]) - 0.5**0.5) < 0.05)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from hush.accounting import Event, GaussianEvent
from hush.core import InvalidValueError, integer
from hush.learn.budget import deviation, gaussian_budget, noisy, noisy_products, read_budget, require_delta
from hush.learn.linear import SQUARE, feature_names, integer_rows
from hush.learn.model import Model
from hush.learn.schema import Floats, ModelColumn
from hush.noise import rounded_gaussian

_LOOK = Fraction(1, 20)


@dataclass(eq=False, repr=False)
class PCA(Model):
    """Principal components of the columns, scaled to [0, 1] by their bounds."""

    kind: ClassVar[str] = "pca"
    components: int = field(default=2, kw_only=True)

    def _columns(self) -> tuple[ModelColumn, ...]:
        columns = self._schema().columns
        integer(self.components, "components", minimum=1, maximum=len(feature_names(columns)))
        return columns

    def _mu_squared(self) -> Fraction:
        epsilon, delta = read_budget(self.epsilon, self.delta)
        require_delta(delta, "PCA", "Give a delta, or take moments, which has a pure variant.")
        return gaussian_budget(epsilon, delta)

    @property
    def event(self) -> Event:
        return GaussianEvent(sigma_squared=1 / self._mu_squared())

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's names
        """Release the moments of the rows and their components, at the price of ``event``."""
        mu_squared, parts = self._mu_squared(), self._schema(X).split(X)
        columns = self._columns()
        rows = list(integer_rows(columns, parts, lowest=0))
        longest = _longest(rows, len(columns), mu_squared * _LOOK)
        total = _products(rows, longest, 1 + len(feature_names(columns)))
        # ½[(1+r²)² + 1 + Σxᵢ⁴], Σxᵢ⁴ ≤ min(r², r⁴).
        square = Fraction((1 + longest) ** 2 + 1 + longest, 2)
        sigma = deviation(mu_squared * (1 - _LOOK), square)
        matrix = noisy_products(total, SQUARE, lambda count: rounded_gaussian(sigma * SQUARE, count))
        count = max(float(matrix[0, 0]), 1.0)
        self.mean_ = matrix[0, 1:] / count
        variances, vectors = np.linalg.eigh(matrix[1:, 1:] / count - np.outer(self.mean_, self.mean_))
        order = np.argsort(variances)[::-1][: self.components]
        self.components_ = vectors[:, order].T
        self.explained_variance_ = np.maximum(variances[order], 0.0)
        return self

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the rows' coordinates along the components."""
        components = self._fitted("components_")
        chunks = integer_rows(self._columns(), self._schema().split(X), lowest=0)
        parts = [(chunk[:, 1:] / chunk[:, :1] - self.mean_) @ components.T for chunk in chunks]
        return np.vstack(parts) if parts else np.zeros((0, len(components)))

    def fit_transform(self, X: Any, y: Any = None) -> Floats:  # noqa: N803, ARG002
        """Refuse: coordinates of the rows that were fitted are as private as the rows."""
        got, allowed = "the rows to fit and to transform at once", "rows to fit, and then public rows to transform"
        hint = "Coordinates of protected rows are protected too: call fit, then transform on rows that may be seen."
        raise InvalidValueError("X", got=got, allowed=allowed, hint=hint)


def _squares(chunk: Floats) -> Floats:
    """Return each row's squared length without the constant, in units of 2⁻²⁴: sums of whole numbers, exact."""
    return np.asarray(np.square(chunk[:, 1:]).sum(axis=1))


def _longest(rows: Sequence[Floats], columns: int, mu_squared: Fraction) -> int:
    """Return a whole r² that nearly all rows' squared lengths are within, from a noisy histogram."""
    lengths = np.concatenate([np.zeros(0), *(np.ceil(_squares(chunk) / SQUARE) for chunk in rows)]).astype(np.intp)
    sigma = deviation(mu_squared)
    counts = noisy(np.bincount(np.minimum(lengths, columns), minlength=columns + 1), sigma)
    # From the top: the first length beyond which more rows lie than three deviations of the noise in that sum.
    beyond = np.cumsum(counts[::-1])[::-1]
    noise = float(sigma) * np.sqrt(np.arange(len(counts), 0, -1))
    there = np.flatnonzero(beyond > 3 * noise)
    return max(1, int(there[-1])) if there.size else columns


def _products(rows: Sequence[Floats], longest: int, size: int) -> Floats:
    """Return Σ(1, x)(1, x)ᵀ in units of 2⁻²⁴, long rows shortened."""
    total = np.zeros((size, size))
    for chunk in rows:
        square, limit = _squares(chunk)[:, None], longest * SQUARE
        factor = np.sqrt(limit / np.maximum(square, 1.0)) * (1 - 2.0**-50)
        # Shortened a little too much and rounded towards 0: no rounding error leaves a row longer than the limit.
        z = np.hstack([chunk[:, :1], np.where(square > limit, np.floor(chunk[:, 1:] * factor), chunk[:, 1:])])
        # Whole numbers of at most 2²⁴: floats add them up exactly for fewer than 2²⁹ rows.
        total += z.T @ z
    return total
