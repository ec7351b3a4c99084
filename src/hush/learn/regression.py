r"""Logistic regression and regression with one curve per column, by objective perturbation (:mod:`.convex_fits`).

The prediction is a constant plus one curve per column (Hastie, Tibshirani 1986), each curve a table over the column's
public levels. Nothing is to be tuned.

**The intercept's weight.** Few rows at a small ε hold no more than their mean. The intercept's feature is s with
s² = 1 + k·min(4, (20/n̂μ)²) for k columns, so that where n̂μ is small the noise goes to the curves and spares the mean.

**Beyond the range.** The few rows beyond the range that the looks have found are fitted as if they were at its ends.

**No bands.** The noise b moves the minimum by about H⁻¹b, H the curvature of the objective at the minimum. H is
private, and it depends on how columns go together, which nothing here has released. A guess of H, as if columns were
independent, gave bands that held .17 to .79 of the time where 95 % was said. :class:`hush.learn.LinearModel` has
intervals.

>>> import numpy as np
>>> x = np.arange(20_000) % 100
>>> model = LogisticRegression({"age": (0, 99)}, epsilon="1").fit(x[:, None], x > 60)
>>> model.predict([[10.0], [90.0]]).tolist()
[0, 1]

**Regression.** Huber's loss on the scale of the residuals, by objective perturbation, twice:

1. **Centre and spread** of the target, from a noisy histogram of 64 cells. Where single cells drown in noise,
   neighbours are merged until they do not.
2. **A first fit** whose loss turns linear at one spread: robust, but too wide where the columns explain much.
3. **The residuals' size**: a noisy histogram of |residual| in cells that grow by √2. The width of the second fit is its
   70 % quantile, so that it follows what the first fit has explained.
4. **A second fit** with that width, its ridge centred at the first fit: what shrinks is the correction, not the curve.

With few rows (n̂μ below 100) one fit takes the budget of both and the target's spread for its width: what two fits
would share is too little for either.

Both fits and all looks are priced together (:mod:`hush.learn.budget`).

>>> model = Regression({"age": (0, 99)}, target=(0, 200), epsilon="1").fit(x[:, None], 2.0 * x)
>>> bool(np.all(np.abs(model.predict([[10.0], [90.0]]) - [20, 180]) < 10))
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from hush.accounting import Event, GaussianEvent
from hush.core import integer
from hush.core.chart import Chart, ChartAxis, ChartBar, ChartLine, bar_chart, line_chart
from hush.learn.budget import Looks, Shares, deviation, gaussian_budget, noisy, read_budget, require_delta, share_budget
from hush.learn.convex_fits import (
    HUBER,
    LOGISTIC,
    LOOKS,
    MOMENTS,
    STEPS,
    Loss,
    NewtonDesign,
    Perturbation,
    inverse_moments,
    sigmoid,
)
from hush.learn.features import Design, category_map, choose_knots, how_many, numeric_map
from hush.learn.model import Classifier, Model, Regressor, counted_rows
from hush.learn.schema import Codes, Floats, ModelColumn
from hush.mechanisms.base import choose

_CATEGORY = Fraction(1, 4)
"""The weight of a look at a category, which only centres its curve. A look at a number places knots, and weighs 1."""
_LOOKS = Fraction(1, 10)
"""Of `LogisticRegression`: the share of the budget for looks."""
_NEWTON_STEPS = 4
_ALL_LOOKS = Fraction(13, 100)
_FIRST, _SECOND = Fraction(35, 100), Fraction(52, 100)
"""Of `Regression`: the shares of the budget for looks, for the first fit and for the second."""
_COLUMNS, _TARGET, _RESIDUALS = Fraction(58, 100), Fraction(19, 100), Fraction(23, 100)
"""How looks are shared: columns and rows, the target, the residuals."""
_STEPS_OF_FITS = (2, 3)
_CELLS = 64
_EDGES = 2.0 ** np.arange(-5, 3.5, 0.5)
_QUANTILE = 0.7
_SCARCE = 100.0
"""Below this n̂μ one fit takes the budget of both."""


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
    intercept: float
    radius_squared: Fraction
    looks: Looks

    @classmethod
    def choose(cls, columns: Sequence[ModelColumn], looks: Looks, mu: float, *, linear: bool) -> Features:
        """Choose knots and weights from noisy counts."""
        # One knot asks `choose_knots` for the line alone.
        largest = 1 if linear else how_many(looks.rows, mu)
        maps = [
            numeric_map(column.levels, choose_knots(counts, sigma, largest, looks.rows))
            if column.numeric
            else category_map(column.levels)
            for column, counts, sigma in zip(columns, looks.counts, looks.sigmas, strict=True)
        ]
        scarce = min(4.0, (20 / max(looks.rows * mu, 1e-9)) ** 2)
        # A multiple of 1/8, so that s² in R² is exact as a fraction and as a float.
        eighths = round(8 * math.sqrt(1 + len(columns) * scarce))
        return cls(maps, eighths / 8, len(columns) + Fraction(eighths, 8) ** 2, looks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """The fits that follow the looks at the columns."""

    features: Features
    rows: Design | NewtonDesign
    look: Fraction
    """The price of all looks at the rows."""
    count: int
    minimum: Callable[[int, Floats, Floats], Floats]
    """Returns the noisy minimum of a fit: of its number, a target, and a start, where the ridge is centred."""


@dataclass(eq=False, repr=False)
class AdditiveModel(Model):
    """The base of additive models: their parameters, their price, and after a fit curves over each column's levels."""

    target: Any = field(default=None, kw_only=True)
    basis: str = field(default="additive", kw_only=True)
    rows: int = field(default=1, kw_only=True)
    pure_variant: ClassVar[str]
    """The model to take where the budget has no δ."""
    loss: ClassVar[Loss]
    curvature: ClassVar[float]
    """A usual mean of the loss's second derivative, for Newton steps: more than half of the largest, or steps stray."""
    held: ClassVar[float]
    """The mean second derivative that an error in advance supposes."""
    effect_unit: ClassVar[str]
    """The scale of the effects."""

    def _budget(self) -> tuple[Fraction, Fraction]:
        """Return ε and a δ above 0."""
        epsilon, delta = read_budget(self.epsilon, self.delta)
        instead = f"Give a delta, or take {self.pure_variant}, which has a pure variant."
        require_delta(delta, type(self).__name__, instead)
        return epsilon, delta

    def _shares(self) -> Shares:
        """Return how looks and fits share the budget where a unit has one row."""
        raise NotImplementedError

    def _outputs(self) -> int:
        """Return how many curves a column has."""
        return 1

    def _steps(self) -> tuple[int, ...]:
        """Return the numbers of noisy Newton steps of all fits, where a unit may have several rows."""
        raise NotImplementedError

    @property
    def event(self) -> Event:
        if self._unit_rows() == 1:
            return self._shares().event
        return GaussianEvent(sigma_squared=1 / gaussian_budget(*self._budget()))

    def error(self, *, rows: int) -> float:
        """Return about the deviation of the noise in the effect of a level with this number of rows.

        It is meant on the scale of log-odds, or in widths of residuals.
        """
        columns, unit_rows = len(self._columns()), self._unit_rows()
        if unit_rows > 1:
            price = gaussian_budget(*self._budget()) * STEPS / _NEWTON_STEPS
            return unit_rows * math.sqrt((columns + 1) / float(price)) / (self.curvature * rows)
        shares = self._shares()
        ridge = self.loss.smoothness * (columns + 1) / shares.curvature
        return math.sqrt((columns + 1) / shares.fits[-1]) / (self.held * rows + float(ridge))

    def _story(self) -> str:
        return (
            "Effect of a level that 1,000 rows have: noise of standard deviation "
            f"{self.error(rows=1000):.3g} or so {self.effect_unit}, more where columns go together."
        )

    def _unit_rows(self) -> int:
        return integer(self.rows, "rows", minimum=1, maximum=10**6)

    def _columns(self) -> tuple[ModelColumn, ...]:
        choose(self.basis, ("additive", "linear"), "basis")
        return self._schema().columns

    def _after_looks(self, shares: Shares, _rows: float) -> Shares:
        """Return how fits share the budget, once the noisy number of rows is known."""
        return shares

    def _fits(self, codes: Sequence[Codes], part: Fraction) -> Fits:
        """Look at the columns, for ``part`` of the price of all looks, and return the fits that follow."""
        columns, unit_rows = self._columns(), self._unit_rows()
        if unit_rows == 1:
            shares = self._shares()
            look, mu = shares.looks, math.sqrt(float(sum(shares.fits)) / self._outputs())
        else:
            total = gaussian_budget(*self._budget())
            # A unit changes a count by up to its rows, so its μ² is their square times that of one row; and the noise
            # of the steps is as if each row had that much less of μ.
            look, mu = total * LOOKS / unit_rows**2, math.sqrt(float(total * STEPS)) / unit_rows
        weights = [Fraction(1) if column.numeric else _CATEGORY for column in columns]
        looks = Looks.take(codes, [column.levels for column in columns], mu_squared=look * part, weights=weights)
        features = Features.choose(columns, looks, mu, linear=self.basis == "linear")
        if unit_rows == 1:
            rows = Design(codes, features.maps, intercept=features.intercept)
            shares = self._after_looks(shares, looks.rows)

            def perturbed(number: int, target: Floats, start: Floats) -> Floats:
                fit = Perturbation(
                    loss=self.loss,
                    radius_squared=features.radius_squared,
                    mu_squared=shares.fits[number],
                    curvature=shares.curvature,
                    width=rows.width,
                )
                return fit.release(rows, target, start)

            return Fits(features=features, rows=rows, look=look, count=len(shares.fits), minimum=perturbed)
        design = NewtonDesign.of(codes, features.maps, intercept=features.intercept, rows=unit_rows)
        inverse, steps = inverse_moments(*design.moments(total * MOMENTS)) / self.curvature, self._steps()
        price = total * STEPS / sum(steps)

        def newton(number: int, target: Floats, start: Floats) -> Floats:
            return design.minimum(self.loss, target, start, inverse=inverse, steps=steps[number], mu_squared=price)

        return Fits(features=features, rows=design, look=look, count=len(steps), minimum=newton)

    def _keep(self, features: Features, fits: Sequence[Floats], scale: float = 1.0, centre: float = 0.0) -> None:
        """Turn each fit's coefficients into curves centred at their mean, and remember those."""
        self.intercepts_ = np.zeros(len(fits))
        self.curves_: list[list[Floats]] = [[] for _ in fits]
        for number, theta in enumerate(fits):
            intercept = features.intercept * float(theta[0])
            first = 1
            for part, counts in zip(features.maps, features.looks.counts, strict=True):
                block = slice(first, first + part.shape[1])
                share = np.maximum(counts, 0.0)
                # With no count above 0 all levels weigh the same: nothing is known of the column.
                share = share / share.sum() if share.sum() > 0 else np.full(len(share), 1 / len(share))
                mean = share @ part[:-1]
                intercept += float(mean @ theta[block])
                away = part - mean
                away[-1] = 0.0  # a missing value counts as the mean
                self.curves_[number].append(scale * away @ theta[block])
                first += part.shape[1]
            self.intercepts_[number] = scale * intercept + centre

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


class LogisticRegression(Classifier, AdditiveModel):
    """Classification by objective perturbation on an additive or linear basis.

    Parameters
    ----------
    schema
        The public columns: ``{column: (lower, upper) or [values]}``.
    epsilon, delta
        What one fit may cost; neighbours differ by adding or removing one row.
    target
        The public classes, by default 0 and 1. Rows with any other label count for nothing. More than two classes are
        fitted one against the rest, and share the budget equally.
    basis
        ``"additive"`` (a curve per column) or ``"linear"`` (a straight line per number).
    rows
        How many rows one unit may have. With more than one, noisy Newton steps take the place of objective
        perturbation (:mod:`hush.learn.convex_fits`).
    """

    kind: ClassVar[str] = "logistic_regression"
    pure_variant: ClassVar[str] = "NaiveBayes"
    loss: ClassVar[Loss] = LOGISTIC
    curvature: ClassVar[float] = 0.15
    held: ClassVar[float] = 0.15
    effect_unit: ClassVar[str] = "on the log-odds scale"

    def _shares(self) -> Shares:
        fits = self._outputs()
        return share_budget(*self._budget(), looks=_LOOKS, fits=((1 - _LOOKS) / fits,) * fits, two_sided=False)

    def _outputs(self) -> int:
        classes = self._classes().levels
        return 1 if classes == 2 else classes

    def _steps(self) -> tuple[int, ...]:
        return (_NEWTON_STEPS,) * self._outputs()

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Fit the curves to rows and their classes, at the price of ``event``."""
        labels, classes = self._target(X, y), self._classes().levels
        codes, labels = counted_rows(self._schema(X).codes(X), labels, labels < classes)
        fits = self._fits(codes, Fraction(1))
        curves = []
        for number in range(self._outputs()):
            positive = labels == (1 if classes == 2 else number)
            curves.append(fits.minimum(number, positive.astype(np.float64), np.zeros(fits.rows.width)))
        self._keep(fits.features, curves)
        return self

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Return log-odds: one number per row for two classes, a column per class for more."""
        margins = self._margins(X)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return each class's probability; one-against-the-rest odds are scaled to add up to 1."""
        chance = sigmoid(self._margins(X))
        if chance.shape[1] == 1:
            return np.hstack([1 - chance, chance])
        total = np.maximum(chance.sum(axis=1, keepdims=True), 1e-300)
        return np.asarray(chance / total)


class Regression(Regressor, AdditiveModel):
    """Regression by objective perturbation on an additive or linear basis.

    Parameters
    ----------
    schema
        The public columns: ``{column: (lower, upper) or [values]}``.
    epsilon, delta
        What one fit may cost; neighbours differ by adding or removing one row.
    target
        The public bounds of the target, or the name of one of the schema's columns. Values beyond a bound count as
        the bound, missing ones for nothing.
    basis, rows
        As of :class:`LogisticRegression`.
    """

    kind: ClassVar[str] = "regression"
    pure_variant: ClassVar[str] = "LinearModel"
    loss: ClassVar[Loss] = HUBER
    curvature: ClassVar[float] = 0.75
    held: ClassVar[float] = _QUANTILE  # 1 within the width, which holds this part of the residuals, and 0 beyond
    effect_unit: ClassVar[str] = "times the residuals' 70 % quantile"

    def _shares(self) -> Shares:
        return share_budget(*self._budget(), looks=_ALL_LOOKS, fits=(_FIRST, _SECOND), two_sided=True)

    def _steps(self) -> tuple[int, ...]:
        return _STEPS_OF_FITS

    def _after_looks(self, shares: Shares, rows: float) -> Shares:
        """Return one fit in the place of two for scarce rows: its loss is stochastically at most the sum of theirs.

        With N₁ and N₂ independent, |√a·N₁ + √b·N₂| ≤ √a·|N₁| + √b·|N₂| has the law of √(a+b)·|N|, and 1 + curvature
        may be the product. So which of the two runs may follow from a private look, at the price of two.
        """
        if rows * math.sqrt(float(sum(shares.fits))) >= _SCARCE:
            return shares
        total = (1 + shares.curvature) ** len(shares.fits) - 1
        return replace(shares, fits=(sum(shares.fits, Fraction(0)),), curvature=total)

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Fit the curves to rows and their target, at the price of ``event``: at its spread first, then narrower."""
        target, bounds = self._target(X, y), self._bounds()
        codes, target = counted_rows(self._schema(X).codes(X), target, ~np.isnan(target))
        target = np.clip(target, bounds.lower, bounds.upper)
        fits = self._fits(codes, _COLUMNS)
        centre, width = _centre_and_spread(target, bounds, fits.look * _TARGET, fits.features.looks.rows)
        theta = np.zeros(fits.rows.width)
        for number in range(fits.count):
            if number:
                # The first fit is public by now, so that residuals of it are a look at the rows like any other.
                residuals = np.abs((target - centre) / width - fits.rows.margins(theta))
                narrower = width * _residual_width(residuals, fits.look * _RESIDUALS)
                # The same curve in the new unit: coefficients were in spreads, and are to be in widths.
                theta, width = theta * (width / narrower), narrower
            theta = fits.minimum(number, (target - centre) / width, theta)
        self._keep(fits.features, [theta], width, centre)
        return self

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Return the predicted target of each row, within its bounds."""
        bounds = self._bounds()
        return np.asarray(np.clip(self._margins(X)[:, 0], bounds.lower, bounds.upper))


def _centre_and_spread(target: Floats, bounds: ModelColumn, mu_squared: Fraction, rows: float) -> tuple[float, float]:
    """Return the target's noisy mean and deviation, from cells of its range as fine as stand out of their noise.

    Cells below two deviations count as empty. What noise alone lets through, 2.3 % of cells at 2.37 deviations, must
    stay below a quarter of what is kept; what is kept must be five deviations of its own noise, and most of the rows.
    Else cells are merged by two. Where nothing stands out, it is the mean of all and a quarter of the range: a spread
    that is too small would hold the fit where the noise put it.
    """
    span, exact_sigma = bounds.upper - bounds.lower, deviation(mu_squared)
    places = np.minimum(((target - bounds.lower) / span * _CELLS).astype(np.intp), _CELLS - 1)
    counts, sigma = noisy(np.bincount(places, minlength=_CELLS), exact_sigma), float(exact_sigma)
    cells = _CELLS
    while cells >= 4:
        merged = counts.reshape(cells, -1).sum(axis=1)
        noise = sigma * math.sqrt(_CELLS / cells)
        kept = np.where(merged > 2 * noise, merged, 0.0)
        total = float(kept.sum())
        chance = max(4 * 0.023 * cells * 2.37, 5 * math.sqrt(np.count_nonzero(kept)))
        if total > max(0.6 * rows, chance * noise):
            middles = (np.arange(cells) + 0.5) / cells
            mean = float(kept @ middles) / total
            # 1/12 of a cell's squared width: what rows spread evenly within their cell add to the variance.
            spread = math.sqrt(float(kept @ (middles - mean) ** 2) / total + 1 / (12 * cells**2))
            return bounds.lower + mean * span, spread * span
        cells //= 2
    middles = (np.arange(_CELLS) + 0.5) / _CELLS
    # With few rows the larger divisor draws the mean to the middle; else noise could put it anywhere.
    seen = max(rows, 4 * sigma * math.sqrt(_CELLS))
    mean = min(max(0.5 + float(counts @ (middles - 0.5)) / seen, 0.0), 1.0)
    return bounds.lower + mean * span, span / 4


def _residual_width(residuals: Floats, mu_squared: Fraction) -> float:
    """Return the noisy 70 % quantile of the residuals' moduli, in spreads; 1 where noise hides it."""
    sigma = deviation(mu_squared)
    cells = np.searchsorted(_EDGES, residuals)
    counts = noisy(np.bincount(cells, minlength=len(_EDGES) + 1), sigma)
    kept = np.where(counts > float(sigma), counts, 0.0)
    if kept.sum() <= 6 * float(sigma):
        return 1.0
    index = int(np.searchsorted(np.cumsum(kept) / kept.sum(), _QUANTILE))
    # Cell i ends at edge i; the last cell has no end of its own.
    return float(_EDGES[min(index, len(_EDGES) - 1)])
