"""Private logistic regression with a curve per column, and nothing to tune.

>>> import numpy as np
>>> x = np.arange(20_000) % 100
>>> model = LogisticRegression({"age": (0, 99)}, epsilon="1").fit(x[:, None], x > 60)
>>> model.predict([[10.0], [90.0]]).tolist()
[0, 1]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from hush.core import Number
from hush.learn.additive import AdditiveModel, Features
from hush.learn.budget import Shares, deviation, noisy, share_budget
from hush.learn.convex_fits import (
    LOGISTIC,
    LOOKS,
    STEPS,
    Loss,
    noisy_newton,
)
from hush.learn.features import Design
from hush.learn.model import Classifier
from hush.learn.schema import Codes, Floats

_LOOKS, _WEIGHT = Fraction(1, 10), Fraction(1, 50)
"""The share of the budget for looks, and the part of it for the total curvature, to see whether slopes stand out."""
_NEWTON_STEPS = 4


class LogisticRegression(Classifier, AdditiveModel):
    """Classification by objective perturbation on an additive or linear basis.

    Parameters
    ----------
    schema
        The public columns: ``{column: (lower, upper) or [values]}``.
    epsilon, delta
        What one fit may cost; neighbours differ by adding or removing one row.
    target
        The public classes. Rows with any other label count for nothing. More than two classes are fitted one against
        the rest, and share the budget equally.
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

    def __init__(
        self,
        schema: Any,
        epsilon: Number = "1",
        delta: Number = "1e-6",
        *,
        target: Sequence[Any] | str = (0, 1),
        basis: str = "additive",
        rows: int = 1,
    ) -> None:
        super().__init__(schema, epsilon, delta, target=target, basis=basis, rows=rows)

    def _shares(self) -> Shares:
        epsilon, delta = self._budget()
        classes = self._classes().levels
        fits = 1 if classes == 2 else classes
        return share_budget(epsilon, delta, looks=_LOOKS, fits=((1 - _LOOKS) / fits,) * fits, two_sided=False)

    def _story(self) -> str:
        sigma = self.error(rows=1000)
        return (
            "Effect of a level that 1,000 rows have: noise of standard deviation "
            f"{sigma:.3g} or so on the log-odds scale, more where columns go together."
        )

    def _fit_rows(self, codes: Sequence[Codes], labels: Codes) -> Self:
        shares = self._shares()
        classes = self._classes().levels
        counted = labels < classes
        mu = math.sqrt(float(shares.fits[0]))
        looks = self._look(codes, shares.looks * (1 - _WEIGHT))
        features = Features.choose(self._columns(), looks, mu, linear=self.basis == "linear")
        design = features.design(codes)
        weight_share = shares.looks * _WEIGHT / len(shares.fits)
        fits = []
        for number in range(len(shares.fits)):
            positive = labels == (1 if classes == 2 else number)
            how = self._perturbation(shares, number, features.radius_squared, design.width)
            penalty = how.penalty()
            theta = how.release(design, positive.astype(np.float64), counted, np.zeros(design.width), penalty)
            weight = _noisy_weight(design, theta, weight_share)
            fits.append((theta, features.covariance(how, penalty, weight)))
        self._keep(features, fits)
        return self

    def _fit_units(self, codes: Sequence[Codes], labels: Codes) -> Self:
        classes, total, unit_rows = self._classes().levels, self._total(), self._unit_rows()
        counted = labels < classes
        features, rows, preconditioner = self._newton_design(codes, counted, total * LOOKS / unit_rows**2)
        numbers = [1] if classes == 2 else list(range(classes))
        fits = []
        for number in numbers:
            positive = (labels == number).astype(np.float64)

            def slope(margins: Floats, positive: Floats = positive) -> Floats:
                return LOGISTIC.derivative(margins, positive)

            fits.append(
                noisy_newton(
                    rows,
                    slope,
                    start=np.zeros(rows.width),
                    counted=counted,
                    preconditioner=preconditioner,
                    weight=self.curvature,
                    mu_squared=total * STEPS / len(numbers),
                    steps=_NEWTON_STEPS,
                )
            )
        self._keep(features, fits)
        return self

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Return log-odds: one number per row for two classes, a column per class for more."""
        margins = self._margins(X)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return each class's probability; one-against-the-rest odds are scaled to add up to 1."""
        with np.errstate(over="ignore"):
            # An overflow is infinite, and 1/(1 + ∞) = 0 is right.
            chance = 1 / (1 + np.exp(-self._margins(X)))
        if chance.shape[1] == 1:
            return np.hstack([1 - chance, chance])
        total = np.maximum(chance.sum(axis=1, keepdims=True), 1e-300)
        return np.asarray(chance / total)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the most likely class of each row."""
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


def _noisy_weight(design: Design, theta: Floats, mu_squared: Fraction) -> float:
    """Return the noisy total of p(1−p), each term rounded to 2⁻²⁰: one row adds at most 2¹⁸ steps."""
    margins = design.margins(theta)
    terms = np.rint(LOGISTIC.second(margins, margins) * 2.0**20).astype(np.int64)
    # p(1-p) ≤ 1/4, so a row adds 2¹⁸ steps at most; the cut for 64 bits raises no sensitivity.
    total = noisy([min(int(terms.sum()), 2**62)], deviation(mu_squared, 2**36))
    return float(total[0]) / 2.0**20
