"""Least squares with intervals: estimates, intervals that hold sampling *and* noise, p-values, for any columns.

The moments are Ĝ = G + E. Let w = (−β, 1) over regressors and target, and B the rows of Ĝ that belong to the regressors
and the constant. G's own rows times w are zero for the least-squares line of the rows, and the products of regressors
and residuals, of covariance r²A, for that of the population they were drawn from. So at the true w

    g(w) = Bw  ~  N(0, V(w)),    V(w) = s²(‖w‖²·[i=k] + wᵢwₖ·[i≠k]) + r²A,    r² = wᵀGw/(n−p),

as E has independent entries of variance s² on and above its diagonal; A and G are taken from Ĝ, negative eigenvalues
cut at 0. **A value b of a coefficient lies in the interval if some w with that b has gᵀV⁻¹g ≤ z²** (Anderson, Rubin
1949; for one coefficient of several: Guggenberger, Kleibergen, Mavroeidis, Chen 2012; for one ratio it is Fieller's).
This asks for no inverse of A, so it holds where A is nearly singular, or noise makes it so: then none is bounded. The
usual estimate ± z errors covers as little as 10 % there, for what makes an inverse stable shrinks the estimate.

V is quadratic in w. It is replaced by (wᵀΩw)·V₀, with V₀ = V(ŵ) at the estimate and wᵀΩw = tr(V₀⁻¹V(w))/p. Then all w
that are allowed are a cone wᵀKw ≤ 0, K = BᵀV₀⁻¹B − z²Ω, whose shadow on one coefficient is an interval: with K⁻¹ in the
units of (−β, 1), u and v its entries of (j, j) and (j, target) and t < 0 that of the target,

    b ∈ (−v ± √(v² − tu))/t,    if K has one negative eigenvalue and t < 0; else everything is allowed.

**Rare levels.** A level k of a category that few rows have would leave everything allowed: its coefficient might be
anything, and so might the noise that this adds to all others. But it is the distance of two groups' means: that of a
rare level is taken to be at most half of the target's range, |wₖ| ≤ |w of the target|. Then every w that is allowed
fulfils wᵀKw + ν(wₖ² − w²) ≤ 0 too, for any ν ≥ 0, and this cone has a bounded shadow where ν exceeds z²Ωₖₖ.

The p-value of b = 0 is that of the least gᵀV⁻¹g with wⱼ = 0. Estimates are A⁻¹c, eigenvalues of A raised to what noise
alone can make, 2s√p: they shrink where little is known.

**What an interval means.** The coefficient is that of the least-squares line through the *population* the rows were
drawn from, with the target and the columns clamped to their bounds. Like every interval of least squares it takes
residuals of one variance. The line through the same rows without noise lies in it as well, whatever the residuals are.
``benchmarks/coverage.py`` counts how often intervals hold.

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

>>> rows = {"x": [0.0, 1.0] * 5000, "y": [0.0, 2.0] * 5000}
>>> m: Moments = moments(rows, {"x": (0, 1), "y": (0, 2)}, epsilon="1")
>>> line: LeastSquares = m.regression("y", ["x"])
>>> slope: Coefficient = line.coefficients[1]
>>> bool(abs(m.correlation()[0, 1] - 1) < 0.05), line.names, abs(slope.estimate - 2) < 0.1
(True, ('(intercept)', 'x'), True)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np

from hush.accounting import Event
from hush.core import InvalidValueError, Number, fraction_between
from hush.learn.budget import IntegerNoise, noisy_products
from hush.learn.model import Model, Regressor
from hush.learn.schema import Codes, Floats, ModelColumn, ModelSchema

_NORMAL = NormalDist()
_ROUNDING = 2.0**-26
"""The error that rounding adds to a moment, per row; it shows only where there is nearly no noise."""
_RARE = 5.0
"""A level is rare if it has fewer rows than this number of deviations of their noise."""
_WITHIN = 8.0
"""ν in units of Ω: above z² at every usual confidence."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One line of a summary; the interval is that at 95 %."""

    name: str
    estimate: float
    low: float
    high: float
    p_value: float
    """How likely moments this far from a coefficient of zero are where it is zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastSquares:
    """A least-squares line made of moments; the first coefficient is the intercept."""

    target: str
    names: tuple[str, ...]
    values: Floats
    """The estimates, the intercept first, in the columns' own units."""
    score: Floats
    """BᵀV₀⁻¹B, and Ω, in the moments' units."""
    size: Floats
    units: Floats
    """Turns (−β, 1) in the moments' units into the columns' own."""

    @classmethod
    def of(cls, moments: Moments, target: str, columns: Sequence[str] | None = None) -> LeastSquares:
        """Fit a number of the moments' schema on some of its other columns."""
        schema = ModelSchema.parse(moments.schema)
        if schema[target].values is not None:
            raise InvalidValueError("target", got=target, allowed="a number of the schema, not a category")
        chosen = [name for name in schema.names if name != target] if columns is None else list(columns)
        if target in chosen or len(set(chosen)) != len(chosen):
            raise InvalidValueError("columns", got=chosen, allowed="different columns, the target not among them")
        names, places, levels, position = [], [0], [False], 1
        goal = 0
        for column in schema.columns:
            width = 1 if column.values is None else column.levels
            if column.name == target:
                goal = position
            elif column.name in chosen:
                # Of a category the first value is the reference: with the constant all would be one too many.
                skip = 0 if column.values is None else 1
                places += range(position + skip, position + width)
                levels += [column.values is not None] * (width - skip)
                names += [column.name] if column.values is None else [f"{column.name}={v}" for v in column.values[1:]]
            position += width
        for name in chosen:
            schema[name]  # an unknown name is refused here
        size, picked = len(places), [*places, goal]
        matrix = moments.matrix_[np.ix_(picked, picked)]
        degrees = max(moments.rows - size, 1.0)
        sigma = math.hypot(float(moments.sigma_), moments.rows * _ROUNDING)
        eigenvalues, vectors = np.linalg.eigh(matrix[:size, :size])
        beta = (vectors / np.maximum(eigenvalues, 2 * sigma * math.sqrt(size))) @ (vectors.T @ matrix[:size, size])
        rows, w = matrix[:size], np.append(-beta, 1.0)
        eigenvalues, vectors = np.linalg.eigh(matrix)
        possible = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
        noise = np.outer(w[:-1], w[:-1])
        np.fill_diagonal(noise, w @ w)
        inverse = np.linalg.inv(sigma**2 * noise + (w @ possible @ w) / degrees * possible[:size, :size])
        # Ω: of the noise Σᵢ V₀⁻¹ᵢᵢ‖w‖² and the other entries of V₀⁻¹ times wᵢwₖ, of sampling wᵀGw·tr(V₀⁻¹A)/(n−p).
        omega = sigma**2 * np.trace(inverse) * np.eye(size + 1)
        omega[:-1, :-1] += sigma**2 * (inverse - np.diag(np.diag(inverse)))
        rare = np.append(np.array(levels) & (np.diag(rows) < _RARE * sigma), False)
        within = np.diag(rare - rare.sum() * (np.arange(size + 1) == size)) * (_WITHIN * omega[-1, -1])
        omega += np.sum(inverse * possible[:size, :size]) / degrees * possible
        # From z to the columns' own units: z = (x − centre)/half, so βₓ = β·half_y/half_x; the constant takes the rest.
        centre, half = moments.scales()
        units = np.eye(size + 1)
        units[0, 0], units[0, size] = half[goal - 1], -centre[goal - 1]
        for row, position in enumerate(places[1:], 1):
            units[row, row] = half[goal - 1] / half[position - 1]
            units[0, row] = -units[row, row] * centre[position - 1]
        return cls(
            target=target,
            names=("(intercept)", *names),
            values=-(units @ w)[:-1],
            score=rows.T @ inverse @ rows + within / size,
            size=omega / size,
            units=units,
        )

    def interval(self, confidence: Number = Fraction(19, 20)) -> Floats:
        """Return the ends of each coefficient's interval, the intercept's first; infinite where nothing is known."""
        z = _NORMAL.inv_cdf((1 + float(fraction_between(confidence, "confidence"))) / 2)
        cone = self.score - z * z * self.size
        if np.count_nonzero(np.linalg.eigvalsh(cone) < 0) != 1:
            return np.tile([-np.inf, np.inf], (len(self.names), 1))
        inverse = self.units @ np.linalg.inv(cone) @ self.units.T
        u, v, t = np.diag(inverse)[:-1], inverse[:-1, -1], inverse[-1, -1]
        if t >= 0:
            return np.tile([-np.inf, np.inf], (len(self.names), 1))
        half = np.sqrt(np.maximum(v * v - t * u, 0.0)) / -t
        return np.stack([-v / t - half, -v / t + half], axis=1)

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        """All coefficients, with their intervals at 95 % and p-values."""
        result = []
        for name, value, (low, high), unit in zip(self.names, self.values, self.interval(), self.units, strict=False):
            free = np.linalg.svd(unit[None])[2][1:].T  # all w whose coefficient is zero
            root = np.linalg.inv(np.linalg.cholesky(free.T @ self.size @ free))
            least = float(np.linalg.eigvalsh(root @ free.T @ self.score @ free @ root.T)[0])
            p_value = math.erfc(math.sqrt(max(least, 0.0) / 2))
            result.append(Coefficient(name, float(value), float(low), float(high), p_value))
        return tuple(result)

    def __str__(self) -> str:
        lines = [("", "estimate", "from", "to", "p")]
        lines += [
            (c.name, f"{c.estimate:.5g}", f"{c.low:.4g}", f"{c.high:.4g}", f"{c.p_value:.2g}")
            for c in self.coefficients
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = "\n".join(
            "  ".join([name.ljust(widths[0]), *(text.rjust(w) for text, w in zip(texts, widths[1:], strict=True))])
            for name, *texts in lines
        )
        if all(map(math.isinf, self.interval().ravel())):
            table += "\nNoise leaves nothing to be known of these columns together; take fewer, or a larger epsilon."
        return table

    __repr__ = __str__


@dataclass(eq=False, repr=False)
class LinearModel(Regressor):
    """Linear regression for inference: coefficients with intervals, from one release of moments.

    >>> x = np.arange(20_000) % 100
    >>> model = LinearModel({"age": (0, 99)}, target=(0, 300), epsilon="1").fit({"age": x}, 50 + 2.0 * x)
    >>> low, high = model.interval(0.95)[0]
    >>> bool(high - low < 0.1)
    True
    """

    kind: ClassVar[str] = "linear_model"
    target: tuple[float, float] | str | None = field(default=None, kw_only=True)

    def _moments(self) -> Moments:
        columns = self._schema().columns
        name = "target"
        while any(column.name == name for column in columns):
            name += "_"
        return Moments(ModelSchema((*columns, replace(self._bounds(), name=name))), self.epsilon, self.delta)

    @property
    def event(self) -> Event:
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
        """Return the fit on all columns, or on the given columns, at no further price."""
        moments = self.moments()
        return LeastSquares.of(moments, ModelSchema.parse(moments.schema).names[-1], columns)

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
        line = self.summary()
        fit = dict(zip(line.names, line.values.tolist(), strict=True))
        total: Any = fit["(intercept)"]
        for column, values in zip(schema.columns, schema.split(X), strict=True):
            if column.values is None:
                x = np.clip(column.numbers(values), column.lower, column.upper)
                total = total + fit[column.name] * np.where(np.isnan(x), (column.lower + column.upper) / 2, x)
            else:
                effects = np.array([0.0, *(fit[f"{column.name}={value}"] for value in column.values[1:]), 0.0])
                total = total + effects[column.codes(values)]
        return np.asarray(np.clip(total, self._bounds().lower, self._bounds().upper))


_GRID = 2.0**12
SQUARE = 2**24
"""1 in the units of products."""
_CHUNK = 1 << 15


def feature_names(columns: Sequence[ModelColumn]) -> list[str]:
    """Return the names of z's entries after the constant: numbers by name, categories as ``name=value``."""
    return [
        name
        for column in columns
        for name in ([column.name] if column.values is None else [f"{column.name}={value}" for value in column.values])
    ]


def integer_rows(columns: Sequence[ModelColumn], parts: Sequence[Any], *, lowest: int = -1) -> Iterator[Floats]:
    """Yield chunks of z in units of 2⁻¹²: whole numbers within ±4096 in floats, with exact sums of products.

    ``lowest`` is what a number's lower bound becomes, -1 or 0; its upper bound becomes 1.
    """
    prepared: list[Floats | Codes] = []
    for column, values in zip(columns, parts, strict=True):
        if column.values is None:
            prepared.append(np.rint(np.nan_to_num(((1 - lowest) * column.shares(values) + lowest) * _GRID)))
        else:
            prepared.append(column.codes(values))
    rows = len(prepared[0]) if prepared else 0
    for first in range(0, rows, _CHUNK):
        chunk = slice(first, first + _CHUNK)
        blocks = [np.full((min(_CHUNK, rows - first), 1), _GRID)]
        for column, entry in zip(columns, prepared, strict=True):
            levels = None if column.values is None else np.arange(column.levels)
            blocks.append(entry[chunk, None] if levels is None else (entry[chunk, None] == levels) * _GRID)
        yield np.hstack(blocks)


class Moments(Model):
    """The noisy second moments of a table."""

    kind: ClassVar[str] = "moments"

    def _columns(self) -> tuple[ModelColumn, ...]:
        return self._schema().columns

    def _sensitivity(self) -> int:
        """½S(S+1): the squared ℓ₂ sensitivity of the upper triangle, and its ℓ₁ sensitivity."""
        size = len(self._columns()) + 1
        return size * (size + 1) // 2

    def _noise(self) -> IntegerNoise:
        return IntegerNoise.of(self.epsilon, self.delta)

    @property
    def event(self) -> Event:
        """The price of the release, known before a row is read."""
        return self._noise().event

    def _story(self) -> str:
        sigma = self._noise().sigma(self._sensitivity())
        return f"Each entry of Σzzᵀ, z scaled to [−1, 1], has noise of standard deviation {sigma:.4g}."

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
        noise, sensitivity = self._noise(), self._sensitivity()
        self.matrix_ = noisy_products(total, SQUARE, lambda size: noise.draw(sensitivity, size, unit=SQUARE))
        self.sigma_ = noise.sigma(sensitivity)
        return self

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
        scales: list[tuple[float, float]] = []
        for column in self._columns():
            number = ((column.lower + column.upper) / 2, (column.upper - column.lower) / 2)
            scales += [number] if column.values is None else [(0.0, 1.0)] * column.levels
        centre, half = np.array(scales).T
        return centre, half

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

    def regression(self, target: str, columns: Sequence[str] | None = None) -> LeastSquares:
        """Return least squares of a number on some columns (all others by default), with intervals, at no price."""
        return LeastSquares.of(self, target, columns)


def moments(rows: Any, schema: Any, epsilon: Number = "1", delta: Number = "1e-6") -> Moments:
    """Release the second moments of a table once; every model made from the moments is free."""
    return Moments(schema, epsilon, delta).fit(rows)
