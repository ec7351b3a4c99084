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

**Mechanisms known by a parameter only: (ε,δ), zCDP, Rényi; propose-test-release, partition selection and shuffling.**

Local reports that went through a shuffler are charged as an (ε, δ) black box: ε is what the certified curve of the
shuffle gives at the event's own δ.

>>> ApproximateDPEvent(epsilon=1, delta="1e-6").group(5).delta      # (e⁵−1)/(e−1)·δ, about 85.79·δ
Fraction(...)
>>> ZCDPEvent(rho="0.5").renyi(4)
2.0
>>> round(ShuffledEvent(local_epsilon=2, reports=10_000, delta="1e-9").epsilon, 4)
0.1598
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from hush.accounting.description import Description, Lost, RenyiPoints, group_delta, read_order
from hush.accounting.events.base import VERSION, Event
from hush.accounting.pairs.base import Pair
from hush.accounting.pairs.gaussian import DiscreteGaussianPair, GaussianPair
from hush.accounting.pairs.hyperbolic import BoundedRangePair, DiscreteLaplacePair, LaplacePair
from hush.core import InvalidValueError, Number, fraction_between, integer, nonnegative, positive, probability
from hush.core.numbers import assign
from hush.core.rounding import ball, fraction_up, precision


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ApproximateDPEvent(Event):
    """Any (``epsilon``, ``delta``)-DP mechanism; nothing else is known about it."""

    type: ClassVar[str] = "approx_dp"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, *, epsilon: Number, delta: Number = 0) -> None:
        assign(self, epsilon=nonnegative(epsilon, "epsilon"), delta=probability(delta, "delta"))

    def description(self) -> Description:
        return Description.black_box(self.epsilon, self.delta)

    def group(self, size: int) -> Event:
        """Return (Kε, (e^{Kε}−1)/(e^ε−1)·δ)."""
        k = integer(size, "size", minimum=1)
        return ApproximateDPEvent(epsilon=self.epsilon * k, delta=group_delta(self.epsilon, self.delta, k))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PartitionSelectionEvent(ApproximateDPEvent):
    """Keys chosen by the truncated geometric mechanism: exactly (ε,δ), for one unit's keys together.

    The mechanism of Desfontaines, Voss, Gipson, Mandayam (2022) meets the (ε,δ) constraint with equality, so the black
    box loses nothing. ``epsilon`` and ``delta`` are those of all the keys a unit may touch.

    >>> PartitionSelectionEvent(epsilon=1, delta="1e-6").delta
    Fraction(1, 1000000)
    """

    type: ClassVar[str] = "partition_selection"

    def __init__(self, *, epsilon: Number, delta: Number) -> None:
        ApproximateDPEvent.__init__(self, epsilon=epsilon, delta=delta)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProposeTestReleaseEvent(Event):
    """Propose–test–release with a per-step ``epsilon`` and ``delta``; a refusal costs the same.

    With Laplace noise in both steps it is (2ε, δ)-DP; with Gaussian noise (2ε, 2e^ε·δ + δ²)-DP.

    >>> ProposeTestReleaseEvent(epsilon=1, delta="1e-6").delta
    Fraction(1, 1000000)
    """

    type: ClassVar[str] = "propose_test_release"
    epsilon: Fraction
    delta: Fraction
    noise: str

    def __init__(self, *, epsilon: Number, delta: Number, noise: str = "laplace") -> None:
        assign(self, epsilon=nonnegative(epsilon, "epsilon"), delta=probability(delta, "delta"))
        if noise not in {"laplace", "gaussian"}:
            raise InvalidValueError("noise", got=noise, allowed="'laplace' or 'gaussian'")
        assign(self, noise=noise)

    def total(self) -> ApproximateDPEvent:
        """Return the (ε,δ) of test and release together."""
        if self.noise == "laplace":
            return ApproximateDPEvent(epsilon=2 * self.epsilon, delta=self.delta)
        with precision(160):
            # 2e^ε·δ + δ², rounded up below.
            delta = 2 * ball(self.epsilon).exp() * ball(self.delta) + ball(self.delta) ** 2
            return ApproximateDPEvent(epsilon=2 * self.epsilon, delta=min(fraction_up(delta), Fraction(1)))

    def description(self) -> Description:
        return self.total().description()

    def group(self, size: int) -> Event:
        return self.total().group(size)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ZCDPEvent(Event):
    """Any ``rho``-zCDP mechanism (D_α ≤ ρα for every α > 1), but for a mass ``delta`` (approximate zCDP)."""

    type: ClassVar[str] = "zcdp"
    rho_: Fraction
    delta: Fraction

    def __init__(self, *, rho: Number, delta: Number = 0) -> None:
        assign(self, rho_=nonnegative(rho, "rho"), delta=probability(delta, "delta"))

    def description(self) -> Description:
        return Description(rho=self.rho_, infinite={Lost(self.delta, None): 1} if self.delta else {})

    def group(self, size: int) -> Event:
        """Return K²ρ (Bun, Steinke 2016, Proposition 27); not for the approximate kind."""
        if self.delta:
            return Event.group(self, size)
        # The masses of approximate zCDP have no known growth in groups, so only the exact kind is squared.
        return ZCDPEvent(rho=self.rho_ * integer(size, "size", minimum=1) ** 2)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "type": self.type,
            "rho": str(self.rho_),
            **({"delta": str(self.delta)} if self.delta else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RenyiEvent(Event):
    """Any mechanism with these Rényi divergences: ``points`` of (order, divergence); one point or a sampled curve.

    >>> RenyiEvent(points=[(2, "0.1"), (4, "0.2")]).to_json()["type"]
    'rdp'
    """

    type: ClassVar[str] = "rdp"
    points: tuple[tuple[Fraction, Fraction], ...]

    def __init__(self, *, points: Iterable[tuple[Number, Number]]) -> None:
        read = sorted((read_order(alpha), nonnegative(value, "rdp")) for alpha, value in points)
        if not read:
            raise InvalidValueError("points", got=points, allowed="at least one pair of an order and a divergence")
        assign(self, points=tuple(read))

    def description(self) -> Description:
        return Description(curves={RenyiPoints(self.points): 1})

    def to_json(self) -> dict[str, Any]:
        points = [[str(alpha), str(value)] for alpha, value in self.points]
        only = {"alpha": points[0][0], "rdp": points[0][1]}
        return {"version": VERSION, "type": self.type, **(only if len(points) == 1 else {"points": points})}

    @classmethod
    def _read(cls, data: Any) -> Event:
        names = ("alpha", "rdp", "points")
        content = cls._only(data, names, names[2:] if "points" in data else names[:2])
        if "points" in content:
            if not isinstance(content["points"], list) or any(len(point) != 2 for point in content["points"]):
                raise InvalidValueError("points", got=content["points"], allowed="a list of [order, divergence]")
            return cls(points=[(alpha, value) for alpha, value in content["points"]])
        return cls(points=[(positive(content["alpha"], "alpha"), content["rdp"])])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShuffledEvent(Event):
    """``reports`` reports of any ``local_epsilon``-local randomiser, shuffled; charged at this ``delta``."""

    type: ClassVar[str] = "shuffled"
    local_epsilon: Fraction
    reports: int
    delta: Fraction

    def __init__(self, *, local_epsilon: Number, reports: int, delta: Number) -> None:
        from hush.accounting.pairs.shuffle import read_shuffle

        local, count = read_shuffle(local_epsilon, reports)
        assign(self, local_epsilon=local, reports=count, delta=fraction_between(delta, "delta"))

    @property
    def epsilon(self) -> float:
        """The ε, rounded up, at the event's δ (Feldman, McMillan, Talwar 2023)."""
        from hush.accounting.pairs.shuffle import shuffled_epsilon

        return shuffled_epsilon(self.local_epsilon, reports=self.reports, delta=self.delta).upper

    def description(self) -> Description:
        return Description.black_box(Fraction(self.epsilon), self.delta)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LaplaceEvent(Event):
    """Laplace noise of a ``scale`` added to a value of ℓ₁ ``sensitivity``."""

    type: ClassVar[str] = "laplace"
    _grows: ClassVar[str] = "sensitivity"
    scale: Fraction
    sensitivity: Fraction

    def __init__(self, *, scale: Number, sensitivity: Number = 1) -> None:
        assign(self, scale=positive(scale, "scale"), sensitivity=positive(sensitivity, "sensitivity"))

    def description(self) -> Description:
        return Description.of(LaplacePair(epsilon=self.sensitivity / self.scale))


def read_variance(sigma: object, sigma_squared: object) -> Fraction:
    """Return σ² from ``sigma`` or ``sigma_squared``; exactly one must be given."""
    if (sigma is None) == (sigma_squared is None):
        raise InvalidValueError("sigma", got=sigma, allowed="given, or sigma_squared, but not both")
    return positive(sigma, "sigma") ** 2 if sigma_squared is None else positive(sigma_squared, "sigma_squared")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GaussianEvent(Event):
    """Gaussian noise of deviation ``sigma`` (or variance ``sigma_squared``) on a value of ℓ₂ ``sensitivity``."""

    type: ClassVar[str] = "gaussian"
    _grows: ClassVar[str] = "sensitivity"
    sigma_squared: Fraction
    sensitivity: Fraction

    def __init__(
        self, *, sigma: Number | None = None, sigma_squared: Number | None = None, sensitivity: Number = 1
    ) -> None:
        assign(
            self, sigma_squared=read_variance(sigma, sigma_squared), sensitivity=positive(sensitivity, "sensitivity")
        )

    def description(self) -> Description:
        return Description.of(GaussianPair(mu_squared=self.sensitivity**2 / self.sigma_squared))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DiscreteLaplaceEvent(Event):
    """Discrete Laplace noise P(x) ∝ e^{-a|x|}, a = ``parameter`` = 1/scale, on an integer of whole ``sensitivity``.

    >>> DiscreteLaplaceEvent(parameter="1/10").pure_epsilon()
    0.1
    """

    type: ClassVar[str] = "discrete_laplace"
    _grows: ClassVar[str] = "sensitivity"
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
            return Description.pure(self.parameter)
        return Description.of(DiscreteLaplacePair(parameter=self.parameter, sensitivity=self.sensitivity))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DiscreteGaussianEvent(Event):
    """Discrete Gaussian noise P(x) ∝ e^{-x²/2σ²} on an integer of whole ``sensitivity``; σ² is any rational."""

    type: ClassVar[str] = "discrete_gaussian"
    _grows: ClassVar[str] = "sensitivity"
    sigma_squared: Fraction
    sensitivity: int

    def __init__(
        self, *, sigma: Number | None = None, sigma_squared: Number | None = None, sensitivity: int = 1
    ) -> None:
        assign(self, sigma_squared=read_variance(sigma, sigma_squared), sensitivity=_whole(sensitivity))

    def description(self) -> Description:
        return Description.of(DiscreteGaussianPair(sigma_squared=self.sigma_squared, sensitivity=self.sensitivity))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SkellamEvent(Event):
    """Skellam noise, the difference of two Poisson variables, of a ``variance`` on an integer of ``sensitivity``.

    Vectors are covered with an ℓ₁ sensitivity of 1: then one of their integers changes, by 1.

    >>> SkellamEvent(variance=100).to_json()["type"]
    'skellam'
    """

    type: ClassVar[str] = "skellam"
    _grows: ClassVar[str] = "sensitivity"
    variance: Fraction
    sensitivity: int

    def __init__(self, *, variance: Number, sensitivity: int = 1) -> None:
        from hush.accounting.pairs.skellam import MOST_VARIANCE

        spread, moves = positive(variance, "variance"), _whole(sensitivity)
        if spread > MOST_VARIANCE or moves > MOST_VARIANCE:
            raise InvalidValueError("variance", got=variance, allowed=f"at most {MOST_VARIANCE}, as the sensitivity")
        assign(self, variance=spread, sensitivity=moves)

    def description(self) -> Description:
        from hush.accounting.pairs.skellam import SkellamPair

        return Description.of(SkellamPair(variance=self.variance, sensitivity=self.sensitivity))


def _whole(sensitivity: object) -> int:
    """Return a whole sensitivity; a JSON number 2.0 or string "2" is whole as well."""
    number = positive(sensitivity, "sensitivity", allowed="a whole number of at least 1")
    if number.denominator != 1:
        raise InvalidValueError("sensitivity", got=sensitivity, allowed="a whole number of at least 1")
    return number.numerator


class _SampledEvent(Event):
    """Noise on a Poisson sample of the units."""

    __slots__ = ()
    rate: Fraction

    @abstractmethod
    def _unsampled(self) -> Event:
        """Return the same noise on all units."""

    @abstractmethod
    def _pair(self) -> Pair:
        """Return the pair of the mixture."""

    def description(self) -> Description:
        if self.rate == 0:
            return Description()
        return self._unsampled().description() if self.rate == 1 else Description.of(self._pair())

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Event:
        content = dict(data)
        if "q" in content:
            content["rate"] = content.pop("q")
        return super()._read(content)

    def group(self, size: int) -> Event:
        """Return the unsampled noise for the whole group, which dominates any number of its members being sampled."""
        return self._unsampled().group(size)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PoissonGaussianEvent(_SampledEvent):
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

    def _unsampled(self) -> Event:
        return GaussianEvent(sigma_squared=self.sigma_squared, sensitivity=self.sensitivity)

    def _pair(self) -> Pair:
        from hush.accounting.pairs.poisson import PoissonGaussianPair

        return PoissonGaussianPair(rate=self.rate, mu_squared=self.sensitivity**2 / self.sigma_squared)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PoissonLaplaceEvent(_SampledEvent):
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

    def _unsampled(self) -> Event:
        return LaplaceEvent(scale=self.scale, sensitivity=self.sensitivity)

    def _pair(self) -> Pair:
        from hush.accounting.pairs.poisson import PoissonLaplacePair

        return PoissonLaplacePair(rate=self.rate, epsilon=self.sensitivity / self.scale)


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
        from hush.accounting.pairs.objective import ObjectivePerturbationPair

        return Description.of(
            ObjectivePerturbationPair(mu_squared=self.mu_squared, curvature=self.curvature, two_sided=self.two_sided)
        )


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
        return Description.pure(self.epsilon, others=self.choices - 2)

    def group(self, size: int) -> Event:
        """Return ``size``·ε by the triangle inequality: the answer may depend on the group in any way."""
        # Binary response of Kε dominates every Kε-DP mechanism; the number of choices is not used.
        return RandomizedResponseEvent(epsilon=self.epsilon * integer(size, "size", minimum=1))


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
    _grows: ClassVar[str] = "epsilon"
    epsilon: Fraction
    mode: str

    def __init__(self, *, epsilon: Number, mode: str = "adaptive") -> None:
        assign(self, epsilon=nonnegative(epsilon, "epsilon"))
        if mode not in {"adaptive", "nonadaptive"}:
            raise InvalidValueError("mode", got=mode, allowed="'adaptive' or 'nonadaptive'")
        assign(self, mode=mode)

    def description(self) -> Description:
        if self.epsilon == 0:
            return Description()
        return Description.of(BoundedRangePair(epsilon=self.epsilon, fixed=self.mode == "nonadaptive"))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PermuteAndFlipEvent(Event):
    """Permute-and-flip (McKenna, Sheldon 2020), known to be ε-DP and no more.

    It does not have range ε: with two candidates whose scores move from a tie to 2Δ apart, the log-ratios are −ε and
    ln(2 − e^{-ε}) > 0, a range above ε. So the bounded-range pair would be wrong, and pure ε is what is used.

    >>> PermuteAndFlipEvent(epsilon="0.5").pure_epsilon()
    0.5
    """

    type: ClassVar[str] = "permute_and_flip"
    _grows: ClassVar[str] = "epsilon"
    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        assign(self, epsilon=nonnegative(epsilon, "epsilon"))

    def description(self) -> Description:
        return Description.pure(self.epsilon)
