"""Additive noise: Laplace and Gaussian, continuous and on the integers.

>>> LaplaceEvent(scale=2).pure_epsilon(), GaussianEvent(sigma=4).renyi(8)
(0.5, 0.25)
>>> DiscreteGaussianEvent(sigma_squared="2").to_json()
{'version': 1, 'type': 'discrete_gaussian', 'sigma_squared': '2', 'sensitivity': 1}
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from hush.accounting.description import Description
from hush.accounting.events.base import Event, only_parameters, registered
from hush.accounting.pairs import (
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    GaussianPair,
    LaplacePair,
    ResponsePair,
    SkellamPair,
)
from hush.accounting.pairs.skellam import MOST_VARIANCE
from hush.core import InvalidValueError, Number, integer, positive


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LaplaceEvent(Event):
    """Laplace noise of a ``scale`` added to a value of ℓ₁ ``sensitivity``."""

    type: ClassVar[str] = "laplace"
    scale: Fraction
    sensitivity: Fraction

    def __init__(self, *, scale: Number, sensitivity: Number = 1) -> None:
        object.__setattr__(self, "scale", positive(scale, "scale"))
        object.__setattr__(self, "sensitivity", positive(sensitivity, "sensitivity"))

    def description(self) -> Description:
        """Return the Laplace pair with ε = sensitivity/scale."""
        return Description.of(LaplacePair(epsilon=self.sensitivity / self.scale))

    def group(self, size: int) -> Event:
        """Return the event with ``size`` times the sensitivity."""
        return LaplaceEvent(scale=self.scale, sensitivity=self.sensitivity * integer(size, "size", minimum=1))


def read_variance(sigma: object, sigma_squared: object) -> Fraction:
    """Return σ² from whichever of the two is given."""
    if (sigma is None) == (sigma_squared is None):
        raise InvalidValueError("sigma", got=sigma, allowed="given, or sigma_squared, but not both")
    return positive(sigma, "sigma") ** 2 if sigma_squared is None else positive(sigma_squared, "sigma_squared")


def written_deviation(variance: Fraction) -> dict[str, Any]:
    """Return sigma where it is rational, else sigma_squared: both read back exactly."""
    top, bottom = math.isqrt(variance.numerator), math.isqrt(variance.denominator)
    root = Fraction(top, bottom)
    return {"sigma": str(root)} if root * root == variance else {"sigma_squared": str(variance)}


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GaussianEvent(Event):
    """Gaussian noise of deviation ``sigma`` (or variance ``sigma_squared``) on a value of ℓ₂ ``sensitivity``."""

    type: ClassVar[str] = "gaussian"
    sigma_squared: Fraction
    sensitivity: Fraction

    def __init__(
        self, *, sigma: Number | None = None, sigma_squared: Number | None = None, sensitivity: Number = 1
    ) -> None:
        object.__setattr__(self, "sigma_squared", read_variance(sigma, sigma_squared))
        object.__setattr__(self, "sensitivity", positive(sensitivity, "sensitivity"))

    def description(self) -> Description:
        """Return the Gaussian pair with μ² = sensitivity²/σ²."""
        return Description.of(GaussianPair(mu_squared=self.sensitivity**2 / self.sigma_squared))

    def group(self, size: int) -> Event:
        """Return the event with ``size`` times the sensitivity."""
        return GaussianEvent(
            sigma_squared=self.sigma_squared, sensitivity=self.sensitivity * integer(size, "size", minimum=1)
        )

    def _parameters(self) -> dict[str, Any]:
        return {**written_deviation(self.sigma_squared), "sensitivity": str(self.sensitivity)}

    @classmethod
    def _read(cls, data: Any) -> Event:
        return cls(**_checked(cls.type, data))


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DiscreteLaplaceEvent(Event):
    """Discrete Laplace noise P(x) ∝ e^{-a|x|}, a = ``parameter`` = 1/scale, on an integer of whole ``sensitivity``."""

    type: ClassVar[str] = "discrete_laplace"
    parameter: Fraction
    sensitivity: int

    def __init__(self, *, parameter: Number | None = None, scale: Number | None = None, sensitivity: int = 1) -> None:
        if (parameter is None) == (scale is None):
            raise InvalidValueError("parameter", got=parameter, allowed="given, or scale, but not both")
        a = positive(parameter, "parameter") if scale is None else 1 / positive(scale, "scale")
        object.__setattr__(self, "parameter", a)
        object.__setattr__(self, "sensitivity", _whole(sensitivity))

    def description(self) -> Description:
        """Return the discrete Laplace pair; with sensitivity 1 it is randomized response."""
        if self.sensitivity == 1:
            return Description.of(ResponsePair(epsilon=self.parameter))
        return Description.of(DiscreteLaplacePair(parameter=self.parameter, sensitivity=self.sensitivity))

    def group(self, size: int) -> Event:
        """Return the event with ``size`` times the sensitivity."""
        return DiscreteLaplaceEvent(
            parameter=self.parameter, sensitivity=self.sensitivity * integer(size, "size", minimum=1)
        )

    @classmethod
    def _read(cls, data: Any) -> Event:
        return cls(**only_parameters(cls.type, data, {"parameter", "scale", "sensitivity"}))


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DiscreteGaussianEvent(Event):
    """Discrete Gaussian noise P(x) ∝ e^{-x²/2σ²} on an integer of whole ``sensitivity``; σ² is any rational."""

    type: ClassVar[str] = "discrete_gaussian"
    sigma_squared: Fraction
    sensitivity: int

    def __init__(
        self, *, sigma: Number | None = None, sigma_squared: Number | None = None, sensitivity: int = 1
    ) -> None:
        object.__setattr__(self, "sigma_squared", read_variance(sigma, sigma_squared))
        object.__setattr__(self, "sensitivity", _whole(sensitivity))

    def description(self) -> Description:
        """Return the discrete Gaussian pair."""
        return Description.of(DiscreteGaussianPair(sigma_squared=self.sigma_squared, sensitivity=self.sensitivity))

    def group(self, size: int) -> Event:
        """Return the event with ``size`` times the sensitivity."""
        return DiscreteGaussianEvent(
            sigma_squared=self.sigma_squared, sensitivity=self.sensitivity * integer(size, "size", minimum=1)
        )

    def _parameters(self) -> dict[str, Any]:
        return {**written_deviation(self.sigma_squared), "sensitivity": self.sensitivity}

    @classmethod
    def _read(cls, data: Any) -> Event:
        return cls(**_checked(cls.type, data))


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SkellamEvent(Event):
    """Skellam noise, the difference of two Poisson variables, of a ``variance`` on an integer of ``sensitivity``.

    Vectors are covered with an ℓ₁ sensitivity of 1: then one of their integers changes, by 1.
    """

    type: ClassVar[str] = "skellam"
    variance: Fraction
    sensitivity: int

    def __init__(self, *, variance: Number, sensitivity: int = 1) -> None:
        spread, moves = positive(variance, "variance"), _whole(sensitivity)
        if spread > MOST_VARIANCE or moves > MOST_VARIANCE:
            raise InvalidValueError("variance", got=variance, allowed=f"at most {MOST_VARIANCE}, as the sensitivity")
        object.__setattr__(self, "variance", spread)
        object.__setattr__(self, "sensitivity", moves)

    def description(self) -> Description:
        """Return the Skellam pair."""
        return Description.of(SkellamPair(variance=self.variance, sensitivity=self.sensitivity))

    def group(self, size: int) -> Event:
        """Return the event with ``size`` times the sensitivity."""
        return SkellamEvent(variance=self.variance, sensitivity=self.sensitivity * integer(size, "size", minimum=1))


def _whole(sensitivity: object) -> int:
    """Return a whole sensitivity; a JSON number 2.0 or string "2" is whole as well."""
    number = positive(sensitivity, "sensitivity", allowed="a whole number of at least 1")
    if number.denominator != 1:
        raise InvalidValueError("sensitivity", got=sensitivity, allowed="a whole number of at least 1")
    return number.numerator


def _checked(kind: str, data: Any) -> dict[str, Any]:
    return only_parameters(kind, data, {"sigma", "sigma_squared", "sensitivity"})
