"""Poisson subsampling: every unit takes part independently with probability ``rate``; add/remove neighbours.

>>> PoissonLaplaceEvent(rate="0.1", scale=1).pure_epsilon()            # ln(1 + q(e^ε − 1)), amplified
0.158...
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from hush.accounting.description import Description
from hush.accounting.events.base import Event, only_parameters, registered, require
from hush.accounting.events.noise import GaussianEvent, LaplaceEvent, read_variance, written_deviation
from hush.accounting.pairs import GaussianPair, LaplacePair, PoissonGaussianPair, PoissonLaplacePair
from hush.core import Number, positive, probability


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PoissonGaussianEvent(Event):
    """Gaussian noise on a Poisson sample of the units (DP-SGD's step); both directions are accounted for."""

    type: ClassVar[str] = "poisson_gaussian"
    rate: Fraction
    sigma_squared: Fraction
    sensitivity: Fraction

    def __init__(
        self,
        *,
        rate: Number,
        sigma: Number | None = None,
        sigma_squared: Number | None = None,
        sensitivity: Number = 1,
    ) -> None:
        object.__setattr__(self, "rate", probability(rate, "rate"))
        object.__setattr__(self, "sigma_squared", read_variance(sigma, sigma_squared))
        object.__setattr__(self, "sensitivity", positive(sensitivity, "sensitivity"))

    def description(self) -> Description:
        """Return the mixture pair; nothing for rate 0, the plain Gaussian for rate 1."""
        mu_squared = self.sensitivity**2 / self.sigma_squared
        if self.rate == 0:
            return Description()
        if self.rate == 1:
            return Description.of(GaussianPair(mu_squared=mu_squared))
        return Description.of(PoissonGaussianPair(rate=self.rate, mu_squared=mu_squared))

    def group(self, size: int) -> Event:
        """Return the unsampled noise for the whole group, which dominates any number of its members being sampled."""
        return GaussianEvent(sigma_squared=self.sigma_squared, sensitivity=self.sensitivity).group(size)

    def _parameters(self) -> dict[str, Any]:
        return {"q": str(self.rate), **written_deviation(self.sigma_squared), "sensitivity": str(self.sensitivity)}

    @classmethod
    def _read(cls, data: Any) -> Event:
        content = only_parameters(cls.type, data, {"q", "rate", "sigma", "sigma_squared", "sensitivity"})
        return cls(**_rated(cls.type, content))


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PoissonLaplaceEvent(Event):
    """Laplace noise on a Poisson sample of the units."""

    type: ClassVar[str] = "poisson_laplace"
    rate: Fraction
    scale: Fraction
    sensitivity: Fraction

    def __init__(self, *, rate: Number, scale: Number, sensitivity: Number = 1) -> None:
        object.__setattr__(self, "rate", probability(rate, "rate"))
        object.__setattr__(self, "scale", positive(scale, "scale"))
        object.__setattr__(self, "sensitivity", positive(sensitivity, "sensitivity"))

    def description(self) -> Description:
        """Return the mixture pair; nothing for rate 0, plain Laplace for rate 1."""
        epsilon = self.sensitivity / self.scale
        if self.rate == 0:
            return Description()
        if self.rate == 1:
            return Description.of(LaplacePair(epsilon=epsilon))
        return Description.of(PoissonLaplacePair(rate=self.rate, epsilon=epsilon))

    def group(self, size: int) -> Event:
        """Return the unsampled noise for the whole group, which dominates any number of its members being sampled."""
        return LaplaceEvent(scale=self.scale, sensitivity=self.sensitivity).group(size)

    def _parameters(self) -> dict[str, Any]:
        return {"q": str(self.rate), "scale": str(self.scale), "sensitivity": str(self.sensitivity)}

    @classmethod
    def _read(cls, data: Any) -> Event:
        return cls(**_rated(cls.type, only_parameters(cls.type, data, {"q", "rate", "scale", "sensitivity"})))


def _rated(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    if "q" in content:
        content["rate"] = content.pop("q")
    require(content, kind, "rate")
    return content
