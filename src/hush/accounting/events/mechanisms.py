"""Mechanisms with a known output law, and mechanisms that are known by a parameter only.

Each event names the pair that dominates it (:mod:`hush.accounting.pairs`): Laplace noise, continuous or on the
integers, and answers chosen by randomized response, the exponential mechanism or permute-and-flip. Events with a pair
of their own stand beside it: Gaussian and Skellam noise, Poisson samples, shuffling, objective perturbation.

Of the others an (ε,δ), a ρ of zCDP or Rényi divergences are known: propose-test-release and partition selection too.

>>> LaplaceEvent(scale=2).pure_epsilon(), RandomizedResponseEvent(epsilon=1, choices=4).pure_epsilon()
(0.5, 1.0)
>>> ApproximateDPEvent(epsilon=1, delta="1e-6").group(5).delta      # (e⁵−1)/(e−1)·δ, about 85.79·δ
Fraction(...)
>>> ZCDPEvent(rho="0.5").renyi(4)
2.0
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from hush.accounting.description import Description, Lost, RenyiPoints, group_delta, read_order
from hush.accounting.events.base import VERSION, Event, whole_sensitivity
from hush.accounting.pairs.hyperbolic import BoundedRangePair, DiscreteLaplacePair, LaplacePair
from hush.core import InvalidValueError, Number, integer, nonnegative, positive, probability
from hush.core.numbers import assign
from hush.core.rounding import ball, fraction_up, precision


class _BlackBoxEvent(Event):
    """A mechanism that is known by its ε and its δ alone."""

    __slots__ = ()
    epsilon: Any
    delta: Any

    def description(self) -> Description:
        return Description.black_box(self.epsilon, self.delta)

    def group(self, size: int) -> Event:
        """Return (Kε, (e^{Kε}−1)/(e^ε−1)·δ)."""
        k = integer(size, "size", minimum=1)
        return ApproximateDPEvent(epsilon=self.epsilon * k, delta=group_delta(self.epsilon, self.delta, k))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ApproximateDPEvent(_BlackBoxEvent):
    """Any (``epsilon``, ``delta``)-DP mechanism; nothing else is known about it."""

    type: ClassVar[str] = "approx_dp"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, *, epsilon: Number, delta: Number = 0) -> None:
        assign(self, epsilon=nonnegative(epsilon, "epsilon"), delta=probability(delta, "delta"))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PartitionSelectionEvent(_BlackBoxEvent):
    """Keys chosen by the truncated geometric mechanism: exactly (ε,δ), for one unit's keys together.

    The mechanism of Desfontaines, Voss, Gipson, Mandayam (2022) meets the (ε,δ) constraint with equality, so the black
    box loses nothing. ``epsilon`` and ``delta`` are those of all the keys a unit may touch.

    >>> PartitionSelectionEvent(epsilon=1, delta="1e-6").delta
    Fraction(1, 1000000)
    """

    type: ClassVar[str] = "partition_selection"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, *, epsilon: Number, delta: Number) -> None:
        assign(self, epsilon=nonnegative(epsilon, "epsilon"), delta=probability(delta, "delta"))


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
        assign(self, parameter=a, sensitivity=whole_sensitivity(sensitivity))

    def description(self) -> Description:
        """Return the discrete Laplace pair; with sensitivity 1 it is randomized response."""
        if self.sensitivity == 1:  # losses are ±a only, with the masses of randomized response
            return Description.pure(self.parameter)
        return Description.of(DiscreteLaplacePair(parameter=self.parameter, sensitivity=self.sensitivity))


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
        if self.mode == "nonadaptive":  # kept apart: the optimum holds for equal ranges fixed in advance
            return Description(ranges={self.epsilon: 1})
        return Description.of(BoundedRangePair(epsilon=self.epsilon))


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
