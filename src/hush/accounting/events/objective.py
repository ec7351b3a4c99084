"""Objective perturbation: a minimum whose objective holds one Gaussian vector (:mod:`hush.accounting.pairs.objective`).

>>> event = ObjectivePerturbationEvent(mu_squared="1/25", curvature="1/10")
>>> event.to_json()
{'version': 1, 'type': 'objective_perturbation', 'mu_squared': '1/25', 'curvature': '1/10', 'two_sided': False}
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hush.accounting.description import Description
from hush.accounting.events.base import Event, registered
from hush.accounting.pairs import ObjectivePerturbationPair
from hush.core import InvalidValueError, Number, nonnegative, positive


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ObjectivePerturbationEvent(Event):
    """The minimum of a convex loss with noise b·θ, one row per unit, neighbours by adding or removing a row.

    ``mu_squared`` is R²/σ² for rows of norm at most R, derivatives of the loss within ±1 and b ~ N(0, σ²I).
    ``curvature`` is βR²/λ for a second derivative of at most β and a ridge of at least λ. ``two_sided`` is false only
    for losses whose derivative keeps its sign for each label, as the logistic loss does.
    """

    type: ClassVar[str] = "objective_perturbation"
    mu_squared: Fraction
    curvature: Fraction
    two_sided: bool

    def __init__(self, *, mu_squared: Number, curvature: Number, two_sided: bool = False) -> None:
        object.__setattr__(self, "mu_squared", positive(mu_squared, "mu_squared"))
        object.__setattr__(self, "curvature", nonnegative(curvature, "curvature"))
        if not isinstance(two_sided, bool):
            raise InvalidValueError("two_sided", got=two_sided, allowed="true or false")
        object.__setattr__(self, "two_sided", two_sided)

    def description(self) -> Description:
        """Return the bounding law of the loss."""
        return Description.of(
            ObjectivePerturbationPair(mu_squared=self.mu_squared, curvature=self.curvature, two_sided=self.two_sided)
        )
