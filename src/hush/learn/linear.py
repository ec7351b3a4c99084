"""Least squares with intervals: estimates, standard errors of sampling *and* noise, p-values, for any columns.

From the noisy moments Ĝ = G + E (:mod:`hush.learn.linear`) with A the block of the regressors and the constant, c
that of their products with the target:  β̂ = A⁻¹c.  To first order in the noise

    β̂ − β ≈ A⁻¹u,   u = E·w over the regressors,   w = (−β, 1) over regressors and target,

and as E has independent entries of variance s² on and above its diagonal, Cov(u)ᵢₖ = s²(‖w‖²·[i=k] + wᵢwₖ·[i≠k]). The
sampling covariance is r²A⁻¹ with the residual variance r² = wᵀĜw/(n̂−p). The two are independent and add up. Intervals
are normal. In 200 coefficients of the Adult table they cover 95 % to 98 % at a nominal 95 %.

Where noise leaves A without a stable inverse, its eigenvalues are raised to what the noise alone can make, 2s√p: then
the estimate shrinks, and the interval says that little is known.

**What an interval means.** The coefficient is that of the least-squares line through the *population* the rows were
drawn from, with the target and the columns clamped to their bounds. Like every interval of least squares it takes
residuals of one variance.

**Second moments: one release of Σzzᵀ, from which regressions, correlations and components follow free.**

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

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np

from hush.accounting import ApproximateDPEvent, Event, GaussianEvent
from hush.core import InvalidValueError, Number, fraction_between
from hush.core.values import dataclass
from hush.learn.budget import deviation, gaussian_budget, read_budget
from hush.learn.model import Model, Regressor
from hush.learn.schema import Codes, Column, Floats, Schema, numbers
from hush.noise import discrete_laplace, rounded_gaussian

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One line of a summary.

    >>> Coefficient("age", 2.0, 0.1, 0.05).name
    'age'
    """

    name: str
    estimate: float
    standard_error: float
    noise_error: float
    """The noise's part of the standard error."""

    @property
    def z(self) -> float:
        """The estimate in standard errors."""
        return self.estimate / self.standard_error if self.standard_error > 0 else math.inf

    @property
    def p_value(self) -> float:
        """How likely an estimate this far from zero is where the coefficient is zero."""
        return math.erfc(abs(self.z) / math.sqrt(2))


@dataclass(frozen=True, slots=True)
class LeastSquares:
    """A least-squares line made of moments; the first coefficient is the intercept.

    >>> LeastSquares("cost", (Coefficient("age", 2.0, 0.1, 0.05),)).target
    'cost'
    """

    target: str
    coefficients: tuple[Coefficient, ...]

    @classmethod
    def of(cls, moments: Moments, target: str, columns: Sequence[str] | None = None) -> LeastSquares:
        """Fit a number of the moments' schema on some of its other columns."""
        schema = Schema.parse(moments.schema)
        if schema[target].values is not None:
            raise InvalidValueError("target", got=target, allowed="a number of the schema, not a category")
        chosen = [name for name in schema.names if name != target] if columns is None else list(columns)
        if target in chosen or len(set(chosen)) != len(chosen):
            raise InvalidValueError("columns", got=chosen, allowed="different columns, the target not among them")
        names, places, position = [], [0], 1
        goal = 0
        for column in schema.columns:
            width = 1 if column.values is None else column.levels
            if column.name == target:
                goal = position
            elif column.name in chosen:
                # Of a category the first value is the reference: with the constant all would be one too many.
                skip = 0 if column.values is None else 1
                places += range(position + skip, position + width)
                names += [column.name] if column.values is None else [f"{column.name}={v}" for v in column.values[1:]]
            position += width
        for name in chosen:
            schema[name]  # an unknown name is refused here
        return cls(target, _solve(moments, names, places, goal))

    @property
    def values(self) -> Floats:
        """The estimates, the intercept first."""
        return np.array([coefficient.estimate for coefficient in self.coefficients])

    def interval(self, confidence: Number = Fraction(19, 20)) -> Floats:
        """Return the ends of each coefficient's interval, the intercept's first."""
        z = _NORMAL.inv_cdf((1 + float(fraction_between(confidence, "confidence"))) / 2)
        return np.array(
            [(c.estimate - z * c.standard_error, c.estimate + z * c.standard_error) for c in self.coefficients]
        )

    def __str__(self) -> str:
        lines = [("", "estimate", "std. error", "of which noise", "z", "p")]
        lines += [
            (
                c.name,
                f"{c.estimate:.5g}",
                f"{c.standard_error:.3g}",
                f"{c.noise_error:.3g}",
                f"{c.z:.3g}",
                f"{c.p_value:.2g}",
            )
            for c in self.coefficients
        ]
        widths = [max(len(line[field_index]) for line in lines) for field_index in range(6)]
        return "\n".join(
            "  ".join(
                text.ljust(w) if not field_index else text.rjust(w)
                for field_index, (text, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )

    __repr__ = __str__


def _solve(moments: Moments, names: list[str], places: list[int], goal: int) -> tuple[Coefficient, ...]:
    matrix, sigma = moments.matrix_, float(moments.sigma_)
    block = matrix[np.ix_(places, places)]
    size = len(places)
    eigenvalues, vectors = np.linalg.eigh(block)
    floor = 2 * sigma * math.sqrt(size)
    inverse = (vectors / np.maximum(eigenvalues, floor)) @ vectors.T
    beta = inverse @ matrix[places, goal]
    w = np.append(-beta, 1.0)
    chosen = [*places, goal]
    residual = max(float(w @ matrix[np.ix_(chosen, chosen)] @ w), 0.0) / max(moments.rows - size, 1.0)
    cross = np.outer(w[:-1], w[:-1])
    np.fill_diagonal(cross, float(w @ w))
    noise = inverse @ (sigma**2 * cross) @ inverse
    total = residual * inverse + noise
    # From z to the columns' own units: z = (x − centre)/half, so βₓ = β·half_y/half_x; the constant takes the rest.
    centre, half = moments.scales()
    change = np.zeros((size, size))
    change[0, 0] = half[goal - 1]
    for row, position in enumerate(places[1:], 1):
        change[row, row] = half[goal - 1] / half[position - 1]
        change[0, row] = -change[row, row] * centre[position - 1]
    estimate = change @ beta
    estimate[0] += centre[goal - 1]
    errors = [np.sqrt(np.maximum(np.diag(change @ part @ change.T), 0.0)) for part in (total, noise)]
    return tuple(
        Coefficient(name, float(value), float(error), float(share))
        for name, value, error, share in zip(["(intercept)", *names], estimate, *errors, strict=True)
    )


class LinearModel(Regressor):
    """Linear regression for inference: coefficients with intervals, from one release of moments.

    >>> x = np.arange(20_000) % 100
    >>> model = LinearModel({"age": (0, 99)}, target=(0, 300), epsilon="1").fit({"age": x}, 50 + 2.0 * x)
    >>> low, high = model.interval(0.95)[0]
    >>> bool(high - low < 0.1)
    True
    """

    kind: ClassVar[str] = "linear_model"

    def __init__(
        self,
        schema: Any,
        epsilon: Number = "1",
        delta: Number = "1e-6",
        *,
        target: tuple[float, float] | str | None = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.target = target

    def _moments(self) -> Moments:
        columns = self._schema().columns
        name = "target"
        while any(column.name == name for column in columns):
            name += "_"
        return Moments(Schema((*columns, replace(self._bounds(), name=name))), self.epsilon, self.delta)

    @property
    def event(self) -> Event:
        """What a fit costs, known before a row is read."""
        return self._moments().event

    def _story(self) -> str:
        return self._moments()._story()  # noqa: SLF001 - of its own family

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Release the moments of columns and target, at the price of ``event``."""
        parts, target = self._schema(X).split(X), self._target(X, y)
        if len(parts[0]) != len(target):
            raise InvalidValueError("y", got="another number of rows", allowed="one target per row of X")
        moments = self._moments().fit_parts([*parts, target])
        self.matrix_, self.sigma_ = moments.matrix_, moments.sigma_
        return self

    def moments(self) -> Moments:
        """Return the released moments; the target is their last column."""
        moments = self._moments()
        moments.matrix_, moments.sigma_ = self._fitted("matrix_"), self.sigma_
        return moments

    def summary(self, columns: Sequence[str] | None = None) -> LeastSquares:
        """Return the fit on all columns, or on some of them at no further price."""
        moments = self.moments()
        return LeastSquares.of(moments, Schema.parse(moments.schema).names[-1], columns)

    @property
    def coef_(self) -> Floats:
        """The coefficients without the intercept, in the columns' own units."""
        return self.summary().values[1:]

    @property
    def intercept_(self) -> float:
        """The intercept."""
        return float(self.summary().values[0])

    def interval(self, confidence: Number = Fraction(19, 20)) -> Floats:
        """Return the ends of each coefficient's interval, without the intercept's."""
        return self.summary().interval(confidence)[1:]

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Return the predicted target of each row, within its bounds; missing numbers count as the middle."""
        schema = self._schema()
        fit = {coefficient.name: coefficient.estimate for coefficient in self.summary().coefficients}
        total: Any = fit["(intercept)"]
        for column, values in zip(schema.columns, schema.split(X), strict=True):
            if column.values is None:
                x = np.clip(numbers(values), column.lower, column.upper)
                total = total + fit[column.name] * np.where(np.isnan(x), (column.lower + column.upper) / 2, x)
            else:
                effects = np.array([0.0, *(fit[f"{column.name}={value}"] for value in column.values[1:]), 0.0])
                total = total + effects[column.codes(values)]
        return np.asarray(np.clip(total, self._bounds().lower, self._bounds().upper))


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
    """The noisy second moments of a table.

    >>> fitted = Moments({"age": (0, 120)}, epsilon="1").fit({"age": [40] * 1000})
    >>> type(fitted).__name__
    'Moments'
    """

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
