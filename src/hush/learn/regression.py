r"""Private regression with a curve per column, and nothing to tune.

Huber's loss on the scale of the residuals, by objective perturbation, twice:

1. **Centre and spread** of the target, from a noisy histogram of 64 cells. Where single cells drown in noise,
   neighbours are merged until they do not.
2. **A first fit** whose loss turns linear at one spread: robust, but too wide where the columns explain much.
3. **The residuals' size**: a noisy histogram of |residual| in cells that grow by √2. The width of the second fit is its
   70 % quantile, so that it follows what the first fit has explained.
4. **A second fit** with that width, its ridge centred at the first fit: what shrinks is the correction, not the curve.

With few rows (n̂μ below 100) one fit takes the budget of both and the target's spread for its width: what two fits
would share is too little for either.

Both fits and all looks are priced together (:mod:`hush.learn.budget`).

>>> import numpy as np
>>> x = np.arange(20_000) % 100
>>> model = Regression({"age": (0, 99)}, target=(0, 200), epsilon="1").fit(x[:, None], 2.0 * x)
>>> bool(np.all(np.abs(model.predict([[10.0], [90.0]]) - [20, 180]) < 10))
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hush.core import Number
from hush.learn.additive import AdditiveModel, Features
from hush.learn.budget import Shares, deviation, noisy, share_budget
from hush.learn.convex_fits import (
    HUBER,
    LOOKS,
    STEPS,
    Loss,
    noisy_newton,
)
from hush.learn.features import Design
from hush.learn.model import Regressor
from hush.learn.schema import Codes, Floats, ModelColumn

_LOOKS = Fraction(13, 100)
_FIRST, _SECOND = Fraction(35, 100), Fraction(52, 100)
_COLUMNS, _TARGET, _RESIDUALS = Fraction(58, 100), Fraction(19, 100), Fraction(23, 100)
"""How looks are shared: columns and rows, the target, the residuals."""
_NEWTON_STEPS = (2, 3)
_CELLS = 64
_EDGES = 2.0 ** np.arange(-5, 3.5, 0.5)
_QUANTILE = 0.7
_SCARCE = 100.0
"""Below this n̂μ one fit takes the budget of both."""


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
    basis
        ``"additive"`` (a curve per column) or ``"linear"`` (a straight line per number).
    rows
        How many rows one unit may have. With more than one, noisy Newton steps take the place of objective
        perturbation (:mod:`hush.learn.convex_fits`).
    """

    kind: ClassVar[str] = "regression"
    pure_variant: ClassVar[str] = "LinearModel"
    loss: ClassVar[Loss] = HUBER
    curvature: ClassVar[float] = 0.75
    held: ClassVar[float] = _QUANTILE  # 1 within the width, which holds this part of the residuals, and 0 beyond

    def __init__(
        self,
        schema: Any,
        epsilon: Number = "1",
        delta: Number = "1e-6",
        *,
        target: tuple[float, float] | str | None = None,
        basis: str = "additive",
        rows: int = 1,
    ) -> None:
        super().__init__(schema, epsilon, delta, target=target, basis=basis, rows=rows)

    def _shares(self) -> Shares:
        epsilon, delta = self._budget()
        return share_budget(epsilon, delta, looks=_LOOKS, fits=(_FIRST, _SECOND), two_sided=True)

    def _story(self) -> str:
        return (
            "Effect of a level that 1,000 rows have: noise of standard deviation "
            f"{self.error(rows=1000):.3g} or so times the residuals' 70 % quantile, more where columns go together."
        )

    def _fit_rows(self, codes: Sequence[Codes], target: Floats) -> Self:
        shares = self._shares()
        bounds = self._bounds()
        counted = ~np.isnan(target)
        y = np.clip(np.where(counted, target, bounds.lower), bounds.lower, bounds.upper)
        looks = self._look(codes, shares.looks * _COLUMNS)
        mu = math.sqrt(float(sum(shares.fits)))
        features = Features.choose(self._columns(), looks, mu, linear=self.basis == "linear")
        design = features.design(codes)
        centre, spread = self._scale(y[counted], bounds, shares.looks * _TARGET, looks.rows)
        if looks.rows * mu < _SCARCE:
            # `looks.rows` is noisy already, and `_joined` costs no more than two fits: the branch costs nothing.
            shares, start, width = _joined(shares), np.zeros(design.width), spread
            return self._finish(features, design, (y, counted), (centre, width), start, shares)
        first = self._perturbation(shares, 0, features.radius_squared, design.width)
        theta = first.release(design, (y - centre) / spread, counted, np.zeros(design.width), first.penalty())
        residuals = np.abs((y - centre) / spread - design.margins(theta))[counted]
        # The first fit is public by now, so that residuals of it are a look at the rows like any other.
        width = spread * _residual_width(residuals, shares.looks * _RESIDUALS)
        # The same curve in the new unit: coefficients were in spreads, and are to be in widths.
        return self._finish(features, design, (y, counted), (centre, width), theta * (spread / width), shares)

    def _finish(
        self,
        features: Features,
        design: Design,
        rows: tuple[Floats, npt.NDArray[np.bool_]],
        scale: tuple[float, float],
        start: Floats,
        shares: Shares,
    ) -> Self:
        """Run the last fit and keep its curves."""
        (y, counted), (centre, width) = rows, scale
        how = self._perturbation(shares, -1, features.radius_squared, design.width)
        penalty = how.penalty()
        theta = how.release(design, (y - centre) / width, counted, start, penalty)
        covariance = features.covariance(how, penalty, _QUANTILE * features.looks.rows)
        self._keep(features, [(theta, covariance)], width)
        self.intercepts_ = self.intercepts_ + centre
        return self

    def _fit_units(self, codes: Sequence[Codes], target: Floats) -> Self:
        # first at the target's spread, then narrower
        bounds, total, unit_rows = self._bounds(), self._total(), self._unit_rows()
        counted = ~np.isnan(target)
        y = np.clip(np.where(counted, target, bounds.lower), bounds.lower, bounds.upper)
        # A unit changes a count by up to its rows, so its μ² is their square times that of one row.
        look = total * LOOKS / unit_rows**2
        features, rows, preconditioner = self._newton_design(codes, counted, look * _COLUMNS)
        centre, width = self._scale(y[counted], bounds, look * _TARGET, features.looks.rows)
        theta, covariance = np.zeros(rows.width), np.zeros((rows.width, rows.width))
        for number, steps in enumerate(_NEWTON_STEPS):
            if number:
                residuals = np.abs((y - centre) / width - rows.margins(theta))[counted]
                narrower = width * _residual_width(residuals, look * _RESIDUALS)
                theta, width = theta * (width / narrower), narrower
            scaled = (y - centre) / width

            def slope(margins: Floats, scaled: Floats = scaled) -> Floats:
                return HUBER.derivative(margins, scaled)

            theta, covariance = noisy_newton(
                rows,
                slope,
                start=theta,
                counted=counted,
                preconditioner=preconditioner,
                weight=self.curvature,
                mu_squared=total * STEPS * steps / sum(_NEWTON_STEPS),
                steps=steps,
            )
        self._keep(features, [(theta, covariance)], width)
        self.intercepts_ = self.intercepts_ + centre
        return self

    @staticmethod
    def _scale(y: Floats, bounds: ModelColumn, mu_squared: Fraction, rows: float) -> tuple[float, float]:
        """Return the target's noisy centre and spread."""
        share = (y - bounds.lower) / (bounds.upper - bounds.lower)
        sigma = deviation(mu_squared)
        cells = np.minimum((share * _CELLS).astype(np.intp), _CELLS - 1)
        counts = noisy(np.bincount(cells, minlength=_CELLS), sigma)
        centre, spread = _centre_and_spread(counts, float(sigma), rows)
        width = bounds.upper - bounds.lower
        return bounds.lower + centre * width, spread * width

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Return the predicted target of each row, within its bounds."""
        bounds = self._bounds()
        return np.asarray(np.clip(self._margins(X)[:, 0], bounds.lower, bounds.upper))


def _joined(shares: Shares) -> Shares:
    """Return one fit in the place of two: its loss is stochastically at most the sum of theirs.

    With N₁ and N₂ independent, |√a·N₁ + √b·N₂| ≤ √a·|N₁| + √b·|N₂| has the law of √(a+b)·|N|, and 1 + curvature may be
    the product. So which of the two runs may follow from a private look, at the price of two.
    """
    total = (1 + shares.curvature) ** len(shares.fits) - 1
    return replace(shares, fits=(sum(shares.fits, Fraction(0)),), curvature=total)


def _centre_and_spread(counts: Floats, sigma: float, rows: float) -> tuple[float, float]:
    """Return mean and deviation, as shares of the range, from cells as fine as stand out of their noise.

    Cells below two deviations count as empty. What noise alone lets through, 2.3 % of cells at 2.37 deviations, must
    stay below a quarter of what is kept; what is kept must be five deviations of its own noise, and most of the rows.
    Else cells are merged by two. Where
    nothing stands out, it is the mean of all and a quarter of the range: a spread that is too small would hold the fit
    where the noise put it.
    """
    cells = len(counts)
    while cells >= 4:
        merged = counts.reshape(cells, -1).sum(axis=1)
        noise = sigma * math.sqrt(len(counts) / cells)
        kept = np.where(merged > 2 * noise, merged, 0.0)
        total = float(kept.sum())
        chance = max(4 * 0.023 * cells * 2.37, 5 * math.sqrt(np.count_nonzero(kept)))
        if total > max(0.6 * rows, chance * noise):
            middles = (np.arange(cells) + 0.5) / cells
            mean = float(kept @ middles) / total
            # 1/12 of a cell's squared width: what rows spread evenly within their cell add to the variance.
            return mean, math.sqrt(float(kept @ (middles - mean) ** 2) / total + 1 / (12 * cells**2))
        cells //= 2
    middles = (np.arange(len(counts)) + 0.5) / len(counts)
    # With few rows the larger divisor draws the mean to the middle; else noise could put it anywhere.
    seen = max(rows, 4 * sigma * math.sqrt(len(counts)))
    return min(max(0.5 + float(counts @ (middles - 0.5)) / seen, 0.0), 1.0), 0.25


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
