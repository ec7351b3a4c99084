"""Mechanisms known by a parameter only: (ε,δ), zCDP, Rényi; propose-test-release, partition selection and shuffling.

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

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from hush.accounting.description import Description, Lost, RenyiPoints, group_delta
from hush.accounting.events.base import Event, only_parameters, read_order, registered, require
from hush.accounting.pairs import ResponsePair
from hush.accounting.pairs.shuffle import read_shuffle, shuffled_epsilon
from hush.core import InvalidValueError, Number, fraction_between, integer, nonnegative, positive, probability
from hush.core.balls import ball, fraction_up, precision
from hush.core.values import assign


def black_box(epsilon: Fraction, delta: Fraction) -> Description:
    """Return the pair that dominates every (ε,δ)-DP mechanism: lost with probability δ, else randomized response."""
    return Description(
        pairs={ResponsePair(epsilon=epsilon): 1} if epsilon else {},
        infinite={Lost(delta, epsilon): 1} if delta else {},
    )


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ApproximateDPEvent(Event):
    """Any (``epsilon``, ``delta``)-DP mechanism; nothing else is known about it."""

    type: ClassVar[str] = "approx_dp"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, *, epsilon: Number, delta: Number = 0) -> None:
        assign(self, epsilon=nonnegative(epsilon, "epsilon"), delta=probability(delta, "delta"))

    def description(self) -> Description:
        """Return the Kairouz–Oh–Viswanath pair."""
        return black_box(self.epsilon, self.delta)

    def group(self, size: int) -> ApproximateDPEvent:
        """Return (Kε, (e^{Kε}−1)/(e^ε−1)·δ)."""
        k = integer(size, "size", minimum=1)
        return ApproximateDPEvent(epsilon=self.epsilon * k, delta=group_delta(self.epsilon, self.delta, k))


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PartitionSelectionEvent(Event):
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

    def description(self) -> Description:
        """Return the (ε,δ) pair."""
        return black_box(self.epsilon, self.delta)

    def group(self, size: int) -> Event:
        """Return the group's (ε,δ)."""
        return ApproximateDPEvent(epsilon=self.epsilon, delta=self.delta).group(size)


@registered
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
        """Return the (ε,δ) pair of :meth:`total`."""
        return self.total().description()

    def group(self, size: int) -> Event:
        """Return the group's (ε,δ)."""
        return self.total().group(size)


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ZCDPEvent(Event):
    """Any ``rho``-zCDP mechanism (D_α ≤ ρα for every α > 1), but for a mass ``delta`` (approximate zCDP)."""

    type: ClassVar[str] = "zcdp"
    _names: ClassVar[tuple[str, ...]] = ("rho", "delta")
    rho_: Fraction
    delta: Fraction

    def __init__(self, *, rho: Number, delta: Number = 0) -> None:
        assign(self, rho_=nonnegative(rho, "rho"), delta=probability(delta, "delta"))

    def description(self) -> Description:
        """Return ρ, and the mass where nothing is promised."""
        return Description(rho=self.rho_, infinite={Lost(self.delta, None): 1} if self.delta else {})

    def group(self, size: int) -> Event:
        """Return K²ρ (Bun, Steinke 2016, Proposition 27); not for the approximate kind."""
        if self.delta:
            return Event.group(self, size)
        # The masses of approximate zCDP have no known growth in groups, so only the exact kind is squared.
        return ZCDPEvent(rho=self.rho_ * integer(size, "size", minimum=1) ** 2)

    def _parameters(self) -> dict[str, Any]:
        return {"rho": str(self.rho_), **({"delta": str(self.delta)} if self.delta else {})}


@registered
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
        """Return the curve that the points span."""
        return Description(curves={RenyiPoints(self.points): 1})

    def _parameters(self) -> dict[str, Any]:
        if len(self.points) == 1:
            return {"alpha": str(self.points[0][0]), "rdp": str(self.points[0][1])}
        return {"points": [[str(alpha), str(value)] for alpha, value in self.points]}

    @classmethod
    def _read(cls, data: Any) -> Event:
        content = only_parameters(cls.type, data, {"alpha", "rdp", "points"})
        if "points" in content:
            if not isinstance(content["points"], list) or any(len(point) != 2 for point in content["points"]):
                raise InvalidValueError("points", got=content["points"], allowed="a list of [order, divergence]")
            return cls(points=[(alpha, value) for alpha, value in content["points"]])
        require(content, cls.type, "alpha", "rdp")
        return cls(points=[(positive(content["alpha"], "alpha"), content["rdp"])])


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShuffledEvent(Event):
    """``reports`` reports of any ``local_epsilon``-local randomiser, shuffled; charged at this ``delta``."""

    type: ClassVar[str] = "shuffled"
    local_epsilon: Fraction
    reports: int
    delta: Fraction

    def __init__(self, *, local_epsilon: Number, reports: int, delta: Number) -> None:
        local, count = read_shuffle(local_epsilon, reports)
        assign(self, local_epsilon=local, reports=count, delta=fraction_between(delta, "delta"))

    @property
    def epsilon(self) -> float:
        """The ε, rounded up, at the event's δ (Feldman, McMillan, Talwar 2023)."""
        return shuffled_epsilon(self.local_epsilon, reports=self.reports, delta=self.delta).upper

    def description(self) -> Description:
        """Return the pair that dominates every (ε, δ)-DP mechanism."""
        return black_box(Fraction(self.epsilon), self.delta)
