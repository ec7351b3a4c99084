r"""Additive models: one curve per column, fitted by objective perturbation (:mod:`hush.learn.convex_fits`).

The prediction is a constant plus one curve per column (Hastie, Tibshirani 1986), each curve a table over the column's
public levels. This module is what logistic regression and regression share: looks at the columns, features, the weight
of the intercept, curves and their noise bands.

**The intercept's weight.** Few rows at a small ε hold no more than their mean. The intercept's feature is s with
s² = 1 + k·min(4, (20/n̂μ)²) for k columns, so that where n̂μ is small the noise goes to the curves and spares the mean.

**Beyond the range.** The few rows beyond the range that the looks have found are fitted as if they were at its ends.
In predictions a curve goes on along its own slope there, where that stands out of its noise. That costs nothing.

**Bands.** The noise b moves the minimum by about H⁻¹b, H the curvature of the objective at the minimum, so its
covariance is about σ²H⁻². H is private. It is estimated from what was released: the noisy counts of all levels, taken
as if columns were independent, and the noisy total of the loss's second derivative. A band holds the *noise* of a
curve, centred at its mean, at the stated confidence; it does not hold the sampling error of the rows themselves
(:class:`hush.learn.LinearModel` has intervals with both).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hush.accounting import Event, GaussianEvent
from hush.core import InvalidValueError, Number, fraction_between, integer
from hush.core.chart import Chart
from hush.core.values import dataclass
from hush.learn.budget import Looks, Shares, gaussian_budget, read_budget, require_delta
from hush.learn.convex_fits import MOMENTS, STEPS, NewtonDesign, Perturbation, Preconditioner
from hush.learn.features import Design, Knots, choose_knots, column_map, how_many
from hush.learn.model import Model
from hush.learn.schema import Codes, Column, Floats

_SIGNIFICANT = 4.0
_CATEGORY = Fraction(1, 4)
"""The weight of a look at a category, which only bands need, next to 1 for a number, whose knots it places."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One column's curve: its levels, its values there, and the noise's half-width around each.

    >>> Shape("sex", ["f", "m"], np.array([0.1, -0.1]), np.array([0.02, 0.02]), 0.95).column
    'sex'
    """

    column: str
    levels: list[Any]
    values: Floats
    errors: Floats
    confidence: float

    def chart(self) -> Chart:
        """Draw the curve with its band."""
        numeric = all(isinstance(level, float) for level in self.levels)
        rows = [
            {self.column: level, "effect": value, "low": value - error, "high": value + error}
            for level, value, error in zip(self.levels, self.values.tolist(), self.errors.tolist(), strict=True)
        ]
        x = {"field": self.column, "type": "quantitative" if numeric else "nominal"}
        y = {"field": "effect", "type": "quantitative", "title": "effect"}
        band = {"y": {"field": "low", "type": "quantitative", "title": "effect"}, "y2": {"field": "high"}, "x": x}
        return Chart(
            {
                "title": {"text": f"Effect of {self.column}", "subtitle": f"band: noise at {self.confidence:.0%}"},
                "data": {"values": rows},
                "width": 420,
                "height": 220,
                "layer": [
                    {
                        "mark": {"type": "area" if numeric else "rule", "opacity": 0.3 if numeric else 1},
                        "encoding": band,
                    },
                    {"mark": "line" if numeric else {"type": "point", "filled": True}, "encoding": {"x": x, "y": y}},
                ],
            }
        )

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
    def choose(cls, columns: Sequence[Column], looks: Looks, mu: float, *, linear: bool) -> Features:
        """Choose knots and weights from noisy counts."""
        largest = 1 if linear else how_many(looks.rows, mu)
        knots = [
            choose_knots(counts, sigma, largest, looks.rows) if column.numeric else None
            for column, counts, sigma in zip(columns, looks.counts, looks.sigmas, strict=True)
        ]
        scarce = min(4.0, (20 / max(looks.rows * mu, 1e-9)) ** 2)
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
        square = np.outer(mean, mean)
        first = 1
        for part, share in zip(self.maps, shares, strict=True):
            block = slice(first, first + part.shape[1])
            square[block, block] = part[:-1].T @ (share[:, None] * part[:-1])
            first += part.shape[1]
        inverse = np.linalg.inv(max(weight, 0.0) * square + np.diag(penalty))
        return np.asarray(float(how.sigma) ** 2 * inverse @ inverse)


def _continuation(part: Floats, counts: Floats, knots: Knots, theta: Floats, covariance: Floats) -> Floats:
    """Return what the levels beyond a number's range add to their features, so that its curve goes on along its slope.

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
    slope = (weight * (levels - middle) / variance) @ part[:-1]
    if abs(float(slope @ theta)) < _SIGNIFICANT * math.sqrt(max(float(slope @ covariance @ slope), 0.0)):
        return np.zeros((len(levels), part.shape[1]))
    width = knots.high - knots.low
    beyond = np.clip(levels - knots.high, 0, width) - np.clip(knots.low - levels, 0, width)
    return np.outer(beyond, slope)


class AdditiveModel(Model):
    """What additive models share: their parameters, their price, and after a fit curves over each column's levels."""

    pure_variant: ClassVar[str]
    """The model to take where the budget has no δ."""

    def __init__(self, schema: Any, epsilon: Number, delta: Number, *, target: Any, basis: str, rows: int) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
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
        """What a fit costs, known before a row is read."""
        return self._shares().event if self._unit_rows() == 1 else GaussianEvent(sigma_squared=1 / self._total())

    def _unit_rows(self) -> int:
        return integer(self.rows, "rows", minimum=1, maximum=10**6)

    def _columns(self) -> tuple[Column, ...]:
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
        """Return what noisy Newton steps start from; ``look`` is what may be spent on looks at the columns."""
        total, unit_rows = self._total(), self._unit_rows()
        looks = self._look(codes, look)
        mu = math.sqrt(float(total * STEPS)) / unit_rows
        features = Features.choose(self._columns(), looks, mu, linear=self.basis == "linear")
        rows = NewtonDesign.of(codes, features.maps, intercept=features.intercept, rows=unit_rows)
        return features, rows, Preconditioner.of(*rows.moments(counted, total * MOMENTS))

    def _keep(self, features: Features, fits: Sequence[tuple[Floats, Floats]], scale: float = 1.0) -> None:
        """Turn each fit's coefficients and covariance into curves centred at their mean, and remember those."""
        self.intercepts_ = np.zeros(len(fits))
        self.curves_: list[list[Floats]] = [[] for _ in fits]
        self.curve_errors_: list[list[Floats]] = [[] for _ in fits]
        for number, (theta, covariance) in enumerate(fits):
            intercept = features.intercept * float(theta[0])
            first = 1
            for part, counts, knots in zip(features.maps, features.looks.counts, features.knots, strict=True):
                block = slice(first, first + part.shape[1])
                share = np.maximum(counts, 0.0)
                share = share / share.sum() if share.sum() > 0 else np.full(len(share), 1 / len(share))
                centre = share @ part[:-1]
                intercept += float(centre @ theta[block])
                away = part - centre
                away[-1] = 0.0  # a missing value counts as the mean
                if knots is not None:
                    away[:-1] += _continuation(part, counts, knots, theta[block], covariance[block, block])
                self.curves_[number].append(scale * away @ theta[block])
                variance = np.einsum("li,ij,lj->l", away[:-1], covariance[block, block], away[:-1])
                self.curve_errors_[number].append(scale * np.sqrt(np.maximum(variance, 0.0)))
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

    def shape(self, column: str, *, fit: int = 0, confidence: Number = Fraction(19, 20)) -> Shape:
        """Return a column's curve with the band of its noise; ``fit`` numbers the classes where there are several."""
        level = float(fraction_between(confidence, "confidence"))
        schema = self._schema()
        spec = schema[column]
        index = schema.names.index(column)
        width = NormalDist().inv_cdf((1 + level) / 2)
        values, errors = self._fitted("curves_")[fit][index][:-1], self._fitted("curve_errors_")[fit][index]
        levels = spec.points.tolist() if spec.values is None else [str(value) for value in spec.values]
        return Shape(column, levels, values, width * errors, level)
