"""The canonical form of a composition: dominating pairs with counts, and weaker descriptions where there is no pair.

Events translate themselves into this one form, in which equal things are merged with a count, so that a thousand equal
mechanisms cost no more to account for than one.

>>> from fractions import Fraction
>>> from hush.accounting.pairs.hyperbolic import LaplacePair
>>> one = Description.of(LaplacePair(epsilon=Fraction(1, 2)))
>>> (one + one * 3).pairs
{LaplacePair(epsilon=Fraction(1, 2)): 4}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol

from hush.accounting.pairs.base import Pair
from hush.accounting.pairs.hyperbolic import BoundedRangePair, ResponsePair
from hush.core import InvalidValueError, Number, exact
from hush.core.errors import DescriptionError
from hush.core.rounding import Ball, ball, flint, fraction_up, precision, up


@dataclass(frozen=True, slots=True)
class Lost:
    """A mass of infinite loss, and the ε of the black box it came with (None: of nothing that groups)."""

    mass: Fraction
    epsilon: Fraction | None

    def __hash__(self) -> int:
        return hash(self.mass.as_integer_ratio())


class Curve(Protocol):
    """A bound on the Rényi divergence at every order, where nothing more is known; hashable."""

    def at(self, alpha: Fraction) -> Ball:
        """Return the bound at order α (an infinite ball where there is none)."""
        ...

    def gaussian(self) -> Fraction:
        """Return the μ² of a Gaussian that satisfies the curve: a floor for every valid conversion."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class RenyiPoints:
    """Rényi divergences known at some orders; below a known order its value holds too, for D_α rises with α."""

    points: tuple[tuple[Fraction, Fraction], ...]

    def at(self, alpha: Fraction) -> Ball:
        """Return the smallest value known at an order of at least α."""
        values = [value for order, value in self.points if order >= alpha]
        return ball(min(values)) if values else flint().arb.pos_inf()

    def gaussian(self) -> Fraction:
        """Return the largest μ² with αμ²/2 ≤ value at every point."""
        return min(2 * value / order for order, value in self.points)


@dataclass(frozen=True, slots=True)
class Description:
    """A composition, in canonical form.

    ``pairs`` have dominating pairs; ``infinite`` are masses where the loss is infinite, each with the ε of the (ε,δ)
    step it belongs to (None where it belongs to no such step), which its growth in groups depends on; ``rho`` is the
    summed zCDP parameter of what is known by zCDP alone; ``curves`` are known by Rényi divergences alone.
    """

    pairs: Mapping[Pair, int] = field(default_factory=dict)
    infinite: Mapping[Lost, int] = field(default_factory=dict)
    rho: Fraction = Fraction(0)
    curves: Mapping[Curve, int] = field(default_factory=dict)

    @classmethod
    def of(cls, pair: Pair) -> Description:
        """Return the description of one pair."""
        return cls(pairs={pair: 1})

    @classmethod
    def pure(cls, epsilon: Fraction, *, others: int = 0) -> Description:
        """Return the randomized-response pair, which dominates every ε-DP mechanism; nothing for ε = 0."""
        return cls.of(ResponsePair(epsilon=epsilon, others=others)) if epsilon else cls()

    @classmethod
    def black_box(cls, epsilon: Fraction, delta: Fraction) -> Description:
        """Return the pair that dominates every (ε,δ)-DP mechanism: lost with probability δ, else randomized response.

        (Kairouz, Oh, Viswanath 2015.)
        """
        pairs: dict[Pair, int] = {ResponsePair(epsilon=epsilon): 1} if epsilon else {}
        return cls(pairs=pairs, infinite={Lost(delta, epsilon): 1} if delta else {})

    @classmethod
    def total(cls, parts: Iterable[tuple[Description, int]]) -> Description:
        """Return the composition of descriptions, each with its count, in one pass."""
        bags: dict[str, dict[Any, int]] = {"pairs": {}, "infinite": {}, "curves": {}}
        rho = Fraction(0)
        for description, count in parts:
            for name, bag in bags.items():
                for key, times in getattr(description, name).items():
                    bag[key] = bag.get(key, 0) + times * count
            if description.rho:
                rho += description.rho * count
        return cls(**bags, rho=rho)

    def __add__(self, other: Description) -> Description:
        return Description.total([(self, 1), (other, 1)])

    def __mul__(self, count: int) -> Description:
        return Description.total([(self, count)]) if count else Description()

    def key(self) -> object:
        """Return a hashable form: equal compositions have equal keys in any order."""
        bags = (self.pairs, self.infinite, self.curves)
        return (*(frozenset(bag.items()) for bag in bags), self.rho)

    @property
    def paired(self) -> bool:
        """Whether everything in it has a dominating pair."""
        return not self.rho and not self.curves

    def adaptive(self) -> Description:
        """Return the description in which mechanisms fixed in advance count as chosen while answers come in."""
        pairs = [(Description.of(pair.adaptive()), count) for pair, count in self.pairs.items()]
        return Description.total([(replace(self, pairs={}), 1), *pairs])

    @property
    def loose(self) -> bool:
        """Whether it has a pair that no mechanism attains: then the pairs give upper bounds and no lower ones."""
        return any(pair.attained() != pair for pair in self.pairs)

    def ranges_by_divergence(self) -> Description:
        """Return the description in which bounded ranges count by their ρ = ε²/8 instead of by their pairs."""
        ranges = {pair: count for pair, count in self.pairs.items() if isinstance(pair, BoundedRangePair)}
        remaining = {pair: count for pair, count in self.pairs.items() if pair not in ranges}
        # A mechanism of range ε is ε²/8-zCDP (Cesar, Rogers 2021).
        rho = sum((pair.epsilon**2 * count / 8 for pair, count in ranges.items()), self.rho)
        return replace(self, pairs=remaining, rho=rho)

    def finite(self) -> Description:
        """Return the description without its masses of infinite loss."""
        return replace(self, infinite={})

    def group(self, size: int) -> Description:
        """Return the description for ``size`` units at once: each step's own group, composed."""
        if self.curves or any(lost.epsilon is None for lost in self.infinite):
            raise DescriptionError("Rényi points and approximate zCDP say nothing about groups; compose without them.")
        pairs = [(Description.of(pair.group(size)), count) for pair, count in self.pairs.items()]
        infinite = []
        for lost, count in self.infinite.items():
            epsilon = lost.epsilon or Fraction(0)
            grown = Lost(group_delta(epsilon, lost.mass, size), epsilon * size)
            infinite.append((Description(infinite={grown: 1}), count))
        # ρ grows with the square (Bun, Steinke 2016, Proposition 27)
        return Description.total([*pairs, *infinite, (Description(rho=self.rho * size**2), 1)])

    def delta_infinite(self) -> Ball:
        """Return the probability that some loss is infinite, 1 − Π(1−δᵢ)^{kᵢ}."""
        # In logarithms: tiny masses would lose their digits in 1 − (1−δ₁)(1−δ₂)….
        log = flint().arb(0)
        for lost, count in self.infinite.items():
            if lost.mass >= 1:
                return flint().arb(1)
            log += count * (-ball(lost.mass)).log1p()
        return -log.expm1()

    def renyi(self, alpha: Fraction) -> Ball:
        """Return the Rényi divergence of order α, given that no loss is infinite."""
        # Divergences of one order add up under composition (Mironov 2017); ρ-zCDP is αρ at every order.
        summed = ball(self.rho * alpha)
        for pair, count in self.pairs.items():
            summed += count * pair.renyi(alpha)
        for curve, count in self.curves.items():
            summed += count * curve.at(alpha)
        return summed

    def pure_epsilon(self) -> Ball:
        """Return the largest loss, infinite where there is no bound."""
        if self.rho or self.curves or self.infinite:
            return flint().arb.pos_inf()
        return self.largest_loss(reverse=False).max(self.largest_loss(reverse=True))

    def largest_loss(self, *, reverse: bool) -> Ball:
        """Return the sum of the pairs' largest losses in one direction, infinite where one has no bound."""
        summed = flint().arb(0)
        for pair, count in self.pairs.items():
            # Rounded once where the loss is a rational: a hundred tenths are ten.
            exactly = pair.exact_largest_loss() if count > 1 else None
            if exactly is not None:
                summed += ball(count * exactly)
                continue
            largest = pair.largest_loss(reverse=reverse)
            if largest is None:
                return flint().arb.pos_inf()
            summed += count * largest
        return summed

    def zcdp(self) -> Ball:
        """Return the ρ of zCDP, given that no loss is infinite; infinity if any part is a curve of Rényi points."""
        # ρ adds up under composition (Bun, Steinke 2016). A curve of points says nothing above its last order.
        if self.curves:
            return flint().arb.pos_inf()
        return sum((count * pair.rho() for pair, count in self.pairs.items()), start=ball(self.rho))


FIGURE_BITS = 128
"""The precision of figures that are then rounded up to floats."""


class Described:
    """The base of events and guarantees: their figures in every currency, as floats that were rounded up."""

    __slots__ = ()

    def described(self) -> Description:
        """Return the description."""
        raise NotImplementedError

    @property
    def delta_infinite(self) -> float:
        """The probability that some loss is infinite; Rényi divergences and ρ hold otherwise."""
        with precision(FIGURE_BITS):
            return min(1.0, up(self.described().delta_infinite()))

    def renyi(self, alpha: Number) -> float:
        """Return the Rényi divergence of order ``alpha`` in the worse direction, but for ``delta_infinite``.

        Infinite where there is none at this order; at ``alpha = inf`` it is the pure ε.
        """
        with precision(FIGURE_BITS):
            if alpha in {math.inf, "inf"}:
                return up(self.described().finite().pure_epsilon())
            return max(0.0, up(self.described().renyi(read_order(alpha))))

    def pure_epsilon(self) -> float:
        """Return the smallest known ε of pure ε-DP; infinite where there is none."""
        with precision(FIGURE_BITS):
            return up(self.described().pure_epsilon())


def read_order(alpha: object) -> Fraction:
    """Return a Rényi order, above 1."""
    order = exact(alpha, "alpha", allowed="a number above 1")
    if order <= 1:
        raise InvalidValueError("alpha", got=alpha, allowed="a number above 1")
    return order


def group_delta(epsilon: Fraction, delta: Fraction, size: int) -> Fraction:
    """Return (e^{Kε}−1)/(e^ε−1)·δ, rounded up at 128 bits, at most 1: the tight δ of a group of K at Kε."""
    if epsilon == 0 or size == 1 or delta == 0:
        return min(size * delta, Fraction(1))
    with precision(160):
        # Rounded up, and to 1 where the ball does not prove that it is below 1.
        grown = (ball(epsilon) * size).expm1() / ball(epsilon).expm1() * ball(delta)
        return fraction_up(grown) if grown < 1 else Fraction(1)
