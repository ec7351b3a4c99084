"""Mechanisms with a known output law: noise added, an answer chosen, a minimum of a noisy objective.

Each event names the pair that dominates it (:mod:`hush.accounting.pairs`). Additive noise is Laplace or Gaussian,
continuous or on the integers, or Skellam. Under Poisson subsampling every unit takes part independently with
probability ``rate``, and neighbours differ by one unit more or less. An answer is chosen by randomized response, the
exponential mechanism or permute-and-flip.

>>> LaplaceEvent(scale=2).pure_epsilon(), GaussianEvent(sigma=4).renyi(8)
(0.5, 0.25)
>>> DiscreteGaussianEvent(sigma_squared="2").to_json()
{'version': 1, 'type': 'discrete_gaussian', 'sigma_squared': '2', 'sensitivity': 1}
>>> PoissonLaplaceEvent(rate="0.1", scale=1).pure_epsilon()            # ln(1 + q(e^ε − 1)), amplified
0.158...
>>> RandomizedResponseEvent(epsilon=1, choices=4).pure_epsilon()
1.0
>>> ObjectivePerturbationEvent(mu_squared="1/25", curvature="1/10").to_json()
{'version': 1, 'type': 'objective_perturbation', 'mu_squared': '1/25', 'curvature': '1/10', 'two_sided': False}
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from hush.accounting import pairs
from hush.accounting.description import Description
from hush.accounting.events.base import Event, only_parameters, registered, require
from hush.core import InvalidValueError, Number, integer, nonnegative, positive, probability
from hush.core.values import assign


class _NoiseEvent(Event):
    """Noise on a value of some ``sensitivity``."""

    __slots__ = ()
    sensitivity: Any

    def group(self, size: int) -> Event:
        """Return the event with ``size`` times the sensitivity."""
        return replace(self, sensitivity=self.sensitivity * integer(size, "size", minimum=1))  # type: ignore[type-var]


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LaplaceEvent(_NoiseEvent):
    """Laplace noise of a ``scale`` added to a value of ℓ₁ ``sensitivity``."""

    type: ClassVar[str] = "laplace"
    scale: Fraction
    sensitivity: Fraction

    def __init__(self, *, scale: Number, sensitivity: Number = 1) -> None:
        assign(self, scale=positive(scale, "scale"), sensitivity=positive(sensitivity, "sensitivity"))

    def description(self) -> Description:
        """Return the Laplace pair with ε = sensitivity/scale."""
        return Description.of(pairs.LaplacePair(epsilon=self.sensitivity / self.scale))


def read_variance(sigma: object, sigma_squared: object) -> Fraction:
    """Return σ² from ``sigma`` or ``sigma_squared``; exactly one must be given."""
    if (sigma is None) == (sigma_squared is None):
        raise InvalidValueError("sigma", got=sigma, allowed="given, or sigma_squared, but not both")
    return positive(sigma, "sigma") ** 2 if sigma_squared is None else positive(sigma_squared, "sigma_squared")


def written_deviation(variance: Fraction) -> dict[str, Any]:
    """Return sigma where it is rational, else sigma_squared: both read back exactly."""
    top, bottom = math.isqrt(variance.numerator), math.isqrt(variance.denominator)
    root = Fraction(top, bottom)  # √(n/d) of a reduced fraction is rational exactly if n and d are squares
    return {"sigma": str(root)} if root * root == variance else {"sigma_squared": str(variance)}


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GaussianEvent(_NoiseEvent):
    """Gaussian noise of deviation ``sigma`` (or variance ``sigma_squared``) on a value of ℓ₂ ``sensitivity``."""

    type: ClassVar[str] = "gaussian"
    _names: ClassVar[tuple[str, ...]] = ("sigma", "sigma_squared", "sensitivity")
    sigma_squared: Fraction
    sensitivity: Fraction

    def __init__(
        self, *, sigma: Number | None = None, sigma_squared: Number | None = None, sensitivity: Number = 1
    ) -> None:
        assign(
            self, sigma_squared=read_variance(sigma, sigma_squared), sensitivity=positive(sensitivity, "sensitivity")
        )

    def description(self) -> Description:
        """Return the Gaussian pair with μ² = sensitivity²/σ²."""
        return Description.of(pairs.GaussianPair(mu_squared=self.sensitivity**2 / self.sigma_squared))

    def _parameters(self) -> dict[str, Any]:
        return {**written_deviation(self.sigma_squared), "sensitivity": str(self.sensitivity)}


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DiscreteLaplaceEvent(_NoiseEvent):
    """Discrete Laplace noise P(x) ∝ e^{-a|x|}, a = ``parameter`` = 1/scale, on an integer of whole ``sensitivity``.

    >>> DiscreteLaplaceEvent(parameter="1/10").pure_epsilon()
    0.1
    """

    type: ClassVar[str] = "discrete_laplace"
    _names: ClassVar[tuple[str, ...]] = ("parameter", "scale", "sensitivity")
    parameter: Fraction
    sensitivity: int

    def __init__(self, *, parameter: Number | None = None, scale: Number | None = None, sensitivity: int = 1) -> None:
        if (parameter is None) == (scale is None):
            raise InvalidValueError("parameter", got=parameter, allowed="given, or scale, but not both")
        a = positive(parameter, "parameter") if scale is None else 1 / positive(scale, "scale")
        assign(self, parameter=a, sensitivity=_whole(sensitivity))

    def description(self) -> Description:
        """Return the discrete Laplace pair; with sensitivity 1 it is randomized response."""
        if self.sensitivity == 1:  # losses are ±a only, with the masses of randomized response
            return Description.of(pairs.ResponsePair(epsilon=self.parameter))
        return Description.of(pairs.DiscreteLaplacePair(parameter=self.parameter, sensitivity=self.sensitivity))


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DiscreteGaussianEvent(_NoiseEvent):
    """Discrete Gaussian noise P(x) ∝ e^{-x²/2σ²} on an integer of whole ``sensitivity``; σ² is any rational."""

    type: ClassVar[str] = "discrete_gaussian"
    _names: ClassVar[tuple[str, ...]] = ("sigma", "sigma_squared", "sensitivity")
    sigma_squared: Fraction
    sensitivity: int

    def __init__(
        self, *, sigma: Number | None = None, sigma_squared: Number | None = None, sensitivity: int = 1
    ) -> None:
        assign(self, sigma_squared=read_variance(sigma, sigma_squared), sensitivity=_whole(sensitivity))

    def description(self) -> Description:
        """Return the discrete Gaussian pair."""
        return Description.of(
            pairs.DiscreteGaussianPair(sigma_squared=self.sigma_squared, sensitivity=self.sensitivity)
        )

    def _parameters(self) -> dict[str, Any]:
        return {**written_deviation(self.sigma_squared), "sensitivity": self.sensitivity}


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SkellamEvent(_NoiseEvent):
    """Skellam noise, the difference of two Poisson variables, of a ``variance`` on an integer of ``sensitivity``.

    Vectors are covered with an ℓ₁ sensitivity of 1: then one of their integers changes, by 1.

    >>> SkellamEvent(variance=100).to_json()["type"]
    'skellam'
    """

    type: ClassVar[str] = "skellam"
    variance: Fraction
    sensitivity: int

    def __init__(self, *, variance: Number, sensitivity: int = 1) -> None:
        from hush.accounting.pairs.skellam import MOST_VARIANCE

        spread, moves = positive(variance, "variance"), _whole(sensitivity)
        if spread > MOST_VARIANCE or moves > MOST_VARIANCE:
            raise InvalidValueError("variance", got=variance, allowed=f"at most {MOST_VARIANCE}, as the sensitivity")
        assign(self, variance=spread, sensitivity=moves)

    def description(self) -> Description:
        """Return the Skellam pair."""
        return Description.of(pairs.SkellamPair(variance=self.variance, sensitivity=self.sensitivity))


def _whole(sensitivity: object) -> int:
    """Return a whole sensitivity; a JSON number 2.0 or string "2" is whole as well."""
    number = positive(sensitivity, "sensitivity", allowed="a whole number of at least 1")
    if number.denominator != 1:
        raise InvalidValueError("sensitivity", got=sensitivity, allowed="a whole number of at least 1")
    return number.numerator


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PoissonGaussianEvent(Event):
    """Gaussian noise on a Poisson sample of the units (DP-SGD's step); both directions are accounted for.

    >>> import hush
    >>> step = PoissonGaussianEvent(rate="0.01", sigma="1.1")
    >>> round((hush.compose([step]) * 1000).epsilon(delta="1e-6"), 2)
    1.75
    """

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
        assign(
            self,
            rate=probability(rate, "rate"),
            sigma_squared=read_variance(sigma, sigma_squared),
            sensitivity=positive(sensitivity, "sensitivity"),
        )

    def description(self) -> Description:
        """Return the mixture pair; nothing for rate 0, the plain Gaussian for rate 1."""
        mu_squared = self.sensitivity**2 / self.sigma_squared
        if self.rate == 0:
            return Description()
        if self.rate == 1:
            return Description.of(pairs.GaussianPair(mu_squared=mu_squared))
        return Description.of(pairs.PoissonGaussianPair(rate=self.rate, mu_squared=mu_squared))

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
        assign(
            self,
            rate=probability(rate, "rate"),
            scale=positive(scale, "scale"),
            sensitivity=positive(sensitivity, "sensitivity"),
        )

    def description(self) -> Description:
        """Return the mixture pair; nothing for rate 0, plain Laplace for rate 1."""
        epsilon = self.sensitivity / self.scale
        if self.rate == 0:
            return Description()
        if self.rate == 1:
            return Description.of(pairs.LaplacePair(epsilon=epsilon))
        return Description.of(pairs.PoissonLaplacePair(rate=self.rate, epsilon=epsilon))

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


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ObjectivePerturbationEvent(Event):
    """The minimum of a convex loss with noise b·θ, one row per unit, neighbours by adding or removing a row.

    ``mu_squared`` is R²/σ² for rows of norm at most R, derivatives of the loss within ±1 and b ~ N(0, σ²I).
    ``curvature`` is βR²/λ for a second derivative of at most β and a ridge of at least λ. ``two_sided`` is false only
    for a loss with a derivative of one sign for each label, as the logistic loss has.
    """

    type: ClassVar[str] = "objective_perturbation"
    mu_squared: Fraction
    curvature: Fraction
    two_sided: bool

    def __init__(self, *, mu_squared: Number, curvature: Number, two_sided: bool = False) -> None:
        assign(self, mu_squared=positive(mu_squared, "mu_squared"), curvature=nonnegative(curvature, "curvature"))
        if not isinstance(two_sided, bool):
            raise InvalidValueError("two_sided", got=two_sided, allowed="true or false")
        assign(self, two_sided=two_sided)

    def description(self) -> Description:
        """Return the bounding law of the loss."""
        return Description.of(
            pairs.ObjectivePerturbationPair(
                mu_squared=self.mu_squared, curvature=self.curvature, two_sided=self.two_sided
            )
        )


def pure(epsilon: Fraction, *, others: int = 0) -> Description:
    """Return the randomized-response pair, which dominates every ε-DP mechanism."""
    if epsilon == 0:
        return Description()
    return Description.of(pairs.ResponsePair(epsilon=epsilon, others=others))


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RandomizedResponseEvent(Event):
    """The truth with probability e^ε/(e^ε+k−1), else one of the other of k = ``choices`` answers."""

    type: ClassVar[str] = "randomized_response"
    epsilon: Fraction
    choices: int

    def __init__(self, *, epsilon: Number, choices: int = 2) -> None:
        assign(
            self,
            epsilon=nonnegative(epsilon, "epsilon"),
            choices=integer(choices, "choices", minimum=2, maximum=10**15),
        )

    def description(self) -> Description:
        """Return the response pair: losses ±ε, and 0 for the answers that are neither's truth."""
        return pure(self.epsilon, others=self.choices - 2)

    def group(self, size: int) -> Event:
        """Return ``size``·ε by the triangle inequality: the answer may depend on the group in any way."""
        # Binary response of Kε dominates every Kε-DP mechanism; the number of choices is not used.
        return RandomizedResponseEvent(epsilon=self.epsilon * integer(size, "size", minimum=1))


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BoundedRangeEvent(Event):
    """A mechanism with log-ratios in a range of length at most ``epsilon``.

    The exponential mechanism ∝ e^{ε·score/2Δ} is one, and ∝ e^{ε·score/Δ} where a unit moves all scores the same way.

    ``mode`` says whether the mechanism was fixed in advance. For k equal ones fixed in advance the exact optimum is
    known (Dong, Durfee, Rogers 2020). ``"adaptive"`` (the default) uses the dominating pair, which is valid for any
    use; the guarantee's ``zcdp()`` uses ε²/8, valid adaptively too. In a composition with other kinds of mechanism a
    non-adaptive one is treated as adaptive.

    >>> BoundedRangeEvent(epsilon="0.5").pure_epsilon()
    0.5
    """

    type: ClassVar[str] = "exponential_br"
    epsilon: Fraction
    mode: str

    def __init__(self, *, epsilon: Number, mode: str = "adaptive") -> None:
        assign(self, epsilon=nonnegative(epsilon, "epsilon"))
        if mode not in {"adaptive", "nonadaptive"}:
            raise InvalidValueError("mode", got=mode, allowed="'adaptive' or 'nonadaptive'")
        assign(self, mode=mode)

    def description(self) -> Description:
        """Return the bounded-range pair, or the range itself where it was fixed in advance."""
        if self.epsilon == 0:
            return Description()
        if self.mode == "nonadaptive":  # kept apart: the optimum holds for equal ranges fixed in advance
            return Description(ranges={self.epsilon: 1})
        return Description.of(pairs.BoundedRangePair(epsilon=self.epsilon))

    def group(self, size: int) -> Event:
        """Return ``size``·ε: log-ratios along a chain of neighbours add, and so do their ranges."""
        return BoundedRangeEvent(epsilon=self.epsilon * integer(size, "size", minimum=1), mode=self.mode)


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PermuteAndFlipEvent(Event):
    """Permute-and-flip (McKenna, Sheldon 2020), known to be ε-DP and no more.

    It does not have range ε: with two candidates whose scores move from a tie to 2Δ apart, the log-ratios are −ε and
    ln(2 − e^{-ε}) > 0, a range above ε. So the bounded-range pair would be wrong, and pure ε is what is used.

    >>> PermuteAndFlipEvent(epsilon="0.5").pure_epsilon()
    0.5
    """

    type: ClassVar[str] = "permute_and_flip"
    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        assign(self, epsilon=nonnegative(epsilon, "epsilon"))

    def description(self) -> Description:
        """Return the randomized-response pair, which dominates every ε-DP mechanism."""
        return pure(self.epsilon)

    def group(self, size: int) -> Event:
        """Return ``size``·ε."""
        return PermuteAndFlipEvent(epsilon=self.epsilon * integer(size, "size", minimum=1))
