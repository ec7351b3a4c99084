r"""Additive models: one curve per column, fitted by objective perturbation (:mod:`hush.learn.convex_fits`).

The prediction is a constant plus one curve per column (Hastie, Tibshirani 1986), each curve a table over the column's
public levels. This module is what logistic regression and regression share: looks at the columns, features, the weight
of the intercept, and curves.

**The intercept's weight.** Few rows at a small ε hold no more than their mean. The intercept's feature is s with
s² = 1 + k·min(4, (20/n̂μ)²) for k columns, so that where n̂μ is small the noise goes to the curves and spares the mean.

**Beyond the range.** The few rows beyond the range that the looks have found are fitted as if they were at its ends.
In predictions a curve goes on along its own slope there, where that stands out of its noise. That costs nothing.

**No bands.** The noise b moves the minimum by about H⁻¹b, H the curvature of the objective at the minimum. H is
private, and it depends on how columns go together, which nothing here has released. It is guessed, as if columns were
independent, to tell whether a slope stands out; that is no ground for a band: such bands held .17 to .79 of the time
where 95 % was said. :class:`hush.learn.LinearModel` has intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hush.accounting import Event, GaussianEvent
from hush.core import InvalidValueError, Number, integer
from hush.core.chart import Chart, ChartLine, bar_chart, line_chart
from hush.core.svg import ChartAxis, ChartBar
from hush.learn.budget import Looks, Shares, gaussian_budget, read_budget, require_delta
from hush.learn.convex_fits import MOMENTS, STEPS, Loss, NewtonDesign, Perturbation, Preconditioner, newton_error
from hush.learn.features import Design, Knots, choose_knots, column_map, how_many
from hush.learn.model import Model, require_equal_rows
from hush.learn.schema import Codes, Floats, ModelColumn

_SIGNIFICANT = 4.0
_CATEGORY = Fraction(1, 4)
"""The weight of a look at a category, which only centres its curve. A look at a number places knots, and weighs 1."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One column's curve: its levels, and its values there.

    >>> Shape("sex", ["f", "m"], np.array([0.1, -0.1])).column
    'sex'
    """

    column: str
    levels: list[Any]
    values: Floats

    def chart(self) -> Chart:
        """Draw the curve."""
        title, values = f"Effect of {self.column}", [float(value) for value in self.values]
        y = ChartAxis.around("effect", min(0.0, *values), max(0.0, *values))
        if all(isinstance(level, float) for level in self.levels):
            curve = ChartLine(name=self.column, points=[*zip(self.levels, values, strict=True)])
            return line_chart(
                [curve], ChartAxis.between(self.column, min(self.levels), max(self.levels)), y, title=title
            )
        labels = [str(level) for level in self.levels]
        bars = [ChartBar(row=row, end=value, tooltip=f"{labels[row]}: {value:.4g}") for row, value in enumerate(values)]
        return bar_chart(labels, bars, y, title=title)

    plot = chart


@dataclass(frozen=True, slots=True)
class Features:
    """The public maps of all columns, chosen from private looks, and the weight of the intercept."""

    maps: list[Floats]
    knots: list[Knots | None]
    intercept: float
    radius_squared: Fraction
    looks: Looks

    @classmethod
    def choose(cls, columns: Sequence[ModelColumn], looks: Looks, mu: float, *, linear: bool) -> Features:
        """Choose knots and weights from noisy counts."""
        # One knot asks `choose_knots` for the line alone.
        largest = 1 if linear else how_many(looks.rows, mu)
        knots = [
            choose_knots(counts, sigma, largest, looks.rows) if column.numeric else None
            for column, counts, sigma in zip(columns, looks.counts, looks.sigmas, strict=True)
        ]
        scarce = min(4.0, (20 / max(looks.rows * mu, 1e-9)) ** 2)
        # A multiple of 1/8, so that s² in R² is exact as a fraction and as a float.
        eighths = round(8 * math.sqrt(1 + len(columns) * scarce))
        return cls(
            [column_map(column, knot) for column, knot in zip(columns, knots, strict=True)],
            knots,
            eighths / 8,
            len(columns) + Fraction(eighths, 8) ** 2,
            looks,
        )

    def design(self, codes: Sequence[Codes]) -> Design:
        """Return rows with these features."""
        return Design(codes, self.maps, intercept=self.intercept)

    def covariance(self, how: Perturbation, penalty: Floats, weight: float) -> Floats:
        """Return about the covariance of the coefficients' noise; ``weight`` is the total second derivative."""
        shares = [np.maximum(counts, 0.0) for counts in self.looks.counts]
        shares = [counts / max(float(counts.sum()), 1.0) for counts in shares]
        means = [part[:-1].T @ share for part, share in zip(self.maps, shares, strict=True)]
        mean = np.concatenate([[self.intercept], *means])
        # Off the blocks, columns are taken as independent: E[xᵢxⱼ] = E[xᵢ]·E[xⱼ].
        square = np.outer(mean, mean)
        first = 1
        for part, share in zip(self.maps, shares, strict=True):
            block = slice(first, first + part.shape[1])
            square[block, block] = part[:-1].T @ (share[:, None] * part[:-1])
            first += part.shape[1]
        # The minimum moves by H⁻¹b, so its covariance is σ²·H⁻¹H⁻¹.
        inverse = np.linalg.inv(max(weight, 0.0) * square + np.diag(penalty))
        return np.asarray(float(how.sigma) ** 2 * inverse @ inverse)


def _continuation(part: Floats, counts: Floats, knots: Knots, theta: Floats, covariance: Floats) -> Floats:
    """Return the features of levels beyond a number's range, where its curve goes on along its slope.

    The slope is that of the line through the curve's values in the range, weighed by the noisy counts. The curve goes
    on where the slope is four deviations of its noise or more, and for no more than the width of the range.
    """
    levels = np.arange(len(counts))
    weight = np.where((levels >= knots.low) & (levels <= knots.high), np.maximum(counts, 0.0), 0.0)
    weight = weight / max(float(weight.sum()), 1e-300)
    middle = float(weight @ levels)
    variance = float(weight @ (levels - middle) ** 2)
    if variance <= 0:
        return np.zeros((len(levels), part.shape[1]))
    # The weights of a least-squares slope, applied to features: slope·θ is linear in θ, so its noise is known.
    slope = (weight * (levels - middle) / variance) @ part[:-1]
    if abs(float(slope @ theta)) < _SIGNIFICANT * math.sqrt(max(float(slope @ covariance @ slope), 0.0)):
        return np.zeros((len(levels), part.shape[1]))
    width = knots.high - knots.low
    # Levels past the end, positive above and negative below the range, at most as many as the range has.
    beyond = np.clip(levels - knots.high, 0, width) - np.clip(knots.low - levels, 0, width)
    return np.outer(beyond, slope)


class AdditiveModel(Model):
    """The base of additive models: their parameters, their price, and after a fit curves over each column's levels."""

    pure_variant: ClassVar[str]
    """The model to take where the budget has no δ."""
    loss: ClassVar[Loss]
    curvature: ClassVar[float]
    """A usual mean of the loss's second derivative, for Newton steps: more than half of the largest, or steps stray."""
    held: ClassVar[float]
    """The mean second derivative that an error in advance supposes."""

    def __init__(self, schema: Any, epsilon: Number, delta: Number, *, target: Any, basis: str, rows: int) -> None:
        super().__init__(schema, epsilon, delta)
        self.target = target
        self.basis = basis
        self.rows = rows

    def _budget(self) -> tuple[Fraction, Fraction]:
        """Return ε and a δ above 0."""
        epsilon, delta = read_budget(self.epsilon, self.delta)
        instead = f"Give a delta, or take {self.pure_variant}, which has a pure variant."
        require_delta(delta, type(self).__name__, instead)
        return epsilon, delta

    def _shares(self) -> Shares:
        """Return how looks and fits share the budget where a unit has one row."""
        raise NotImplementedError

    def _total(self) -> Fraction:
        """Return the budget μ² of noisy Newton steps, where a unit may have several rows."""
        return gaussian_budget(*self._budget())

    @property
    def event(self) -> Event:
        """The price of a fit, known before a row is read."""
        return self._shares().event if self._unit_rows() == 1 else GaussianEvent(sigma_squared=1 / self._total())

    def _perturbation(self, shares: Shares, number: int, radius_squared: Fraction, width: int) -> Perturbation:
        """Return one of the fits."""
        price = shares.fits[number]
        return Perturbation(
            loss=self.loss, radius_squared=radius_squared, mu_squared=price, curvature=shares.curvature, width=width
        )

    def error(self, *, rows: int) -> float:
        """Return about the deviation of the noise in the effect of a level with this number of rows.

        It is meant on the scale of log-odds, or in widths of residuals.
        """
        columns = len(self._columns())
        if self._unit_rows() > 1:
            return newton_error(self._total(), self._unit_rows(), columns, weight=self.curvature, rows=rows)
        how = self._perturbation(self._shares(), -1, Fraction(columns + 1), 1)
        return float(how.sigma) / (self.held * rows + float(how.ridge))

    def _target(self, rows: Any, values: Any) -> Any:
        """Return the target of rows, as the fits take it."""
        raise NotImplementedError

    def _fit_rows(self, codes: Sequence[Codes], target: Any) -> Self:
        """Fit rows by objective perturbation."""
        raise NotImplementedError

    def _fit_units(self, codes: Sequence[Codes], target: Any) -> Self:
        """Fit rows where a unit has several, by noisy Newton steps."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Fit the curves to rows and their targets, at the price of ``event``."""
        codes, target = self._schema(X).codes(X), self._target(X, y)
        require_equal_rows(codes, target)
        return self._fit_units(codes, target) if self._unit_rows() > 1 else self._fit_rows(codes, target)

    def _unit_rows(self) -> int:
        return integer(self.rows, "rows", minimum=1, maximum=10**6)

    def _columns(self) -> tuple[ModelColumn, ...]:
        if self.basis not in {"additive", "linear"}:
            raise InvalidValueError("basis", got=self.basis, allowed="'additive' or 'linear'")
        return self._schema().columns

    def _look(self, codes: Sequence[Codes], mu_squared: Fraction) -> Looks:
        columns = self._columns()
        weights = [Fraction(1) if column.numeric else _CATEGORY for column in columns]
        return Looks.take(codes, [column.levels for column in columns], mu_squared=mu_squared, weights=weights)

    def _newton_design(
        self, codes: Sequence[Codes], counted: npt.NDArray[np.bool_], look: Fraction
    ) -> tuple[Features, NewtonDesign, Preconditioner]:
        """Return the rows that noisy Newton steps start from; ``look`` is the price of looks at the columns."""
        total, unit_rows = self._total(), self._unit_rows()
        looks = self._look(codes, look)
        # A unit has several rows, so the noise is as if each row had that much less of μ.
        mu = math.sqrt(float(total * STEPS)) / unit_rows
        features = Features.choose(self._columns(), looks, mu, linear=self.basis == "linear")
        rows = NewtonDesign.of(codes, features.maps, intercept=features.intercept, rows=unit_rows)
        return features, rows, Preconditioner.of(*rows.moments(counted, total * MOMENTS))

    def _keep(self, features: Features, fits: Sequence[tuple[Floats, Floats]], scale: float = 1.0) -> None:
        """Turn each fit's coefficients and covariance into curves centred at their mean, and remember those."""
        self.intercepts_ = np.zeros(len(fits))
        self.curves_: list[list[Floats]] = [[] for _ in fits]
        for number, (theta, covariance) in enumerate(fits):
            intercept = features.intercept * float(theta[0])
            first = 1
            for part, counts, knots in zip(features.maps, features.looks.counts, features.knots, strict=True):
                block = slice(first, first + part.shape[1])
                share = np.maximum(counts, 0.0)
                # With no count above 0 all levels weigh the same: nothing is known of the column.
                share = share / share.sum() if share.sum() > 0 else np.full(len(share), 1 / len(share))
                centre = share @ part[:-1]
                intercept += float(centre @ theta[block])
                away = part - centre
                away[-1] = 0.0  # a missing value counts as the mean
                if knots is not None:
                    away[:-1] += _continuation(part, counts, knots, theta[block], covariance[block, block])
                self.curves_[number].append(scale * away @ theta[block])
                first += part.shape[1]
            self.intercepts_[number] = scale * intercept

    def _margins(self, rows: object) -> Floats:
        """Return the additive predictions, a column per fit."""
        fits = self._fitted("curves_")
        codes = self._schema().codes(rows)
        total = np.tile(self.intercepts_, (len(codes[0]), 1))
        for number, curves in enumerate(fits):
            for curve, column in zip(curves, codes, strict=True):
                total[:, number] += curve[column]
        return total

    @property
    def intercept_(self) -> Floats:
        """The prediction where every column is at its mean effect, one per fit."""
        return np.asarray(self._fitted("intercepts_"))

    @property
    def coef_(self) -> Floats:
        """All effects: a row per fit, a column for each level of each of the schema's columns, in their order."""
        return np.array([np.concatenate([curve[:-1] for curve in curves]) for curves in self._fitted("curves_")])

    def shape(self, column: str, *, fit: int = 0) -> Shape:
        """Return a column's curve; ``fit`` numbers the classes where there are several."""
        schema = self._schema()
        spec = schema[column]
        index = schema.names.index(column)
        curves = self._fitted("curves_")
        integer(fit, "fit", minimum=0, maximum=len(curves) - 1)
        levels = spec.points.tolist() if spec.values is None else [str(value) for value in spec.values]
        return Shape(column, levels, curves[fit][index][:-1])
