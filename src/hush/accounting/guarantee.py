"""Guarantees: what a composition of events promises, in every currency, with certified ends.

>>> from hush.accounting import GaussianEvent, LaplaceEvent, compose
>>> g = compose([GaussianEvent(sigma=30)] * 1000)
>>> g.epsilon(delta="1e-6")
5.18903664082188...
>>> (g + LaplaceEvent(scale=2) * 5).epsilon("1e-6").lower <= (g + LaplaceEvent(scale=2) * 5).epsilon("1e-6")
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from hush.accounting.description import Description
from hush.accounting.errors import UncertainError
from hush.accounting.events.base import Event, read_order
from hush.accounting.pairs import GaussianPair, Pair
from hush.accounting.prices import certified_mu, matching_mu
from hush.accounting.profile.bounded_range import MOST_STEPS, range_delta, range_epsilon
from hush.accounting.profile.direction import Direction
from hush.accounting.profile.method import LogInterval
from hush.accounting.profile.tail_bounds import renyi_delta, renyi_epsilon
from hush.accounting.trade_off import PROFILE_POINTS, read_names, trade_off_chart, trade_off_points
from hush.core import InvalidValueError, Number, PrecisionError, integer, nonnegative, probability
from hush.core.balls import Ball, ball, down, precision, up
from hush.core.chart import Chart
from hush.core.errors import members
from hush.core.rounding import Bound, float_down, float_up

_BITS = 128
_LARGEST = 10**300
TOLERANCE = 1e-6
"""How far apart, relatively, the ends of an answer may be."""
_FLOOR = 1e-7
"""Ends of ε that are nearer than this are near enough."""
_SMALLEST = 1e-300
"""A δ below this is as good as zero."""
_ROUNDING = 2.0**-50
"""A few units in the last place of ε."""
_MOST_EXACT = 200
"""Steps with a mass of infinite loss whose sum is formed as an exact rational."""
_CHART_POINTS = 80
_CHART_FLOOR = 1e-12
"""The smallest δ of a chart."""


def _describe(source: object) -> Description:
    if isinstance(source, Guarantee):
        return source.description
    if isinstance(source, Event):
        return source.description()
    inner = getattr(source, "event", None)
    if isinstance(inner, Event):
        return inner.description()
    raise InvalidValueError("events", got=source, allowed="events, mechanisms with an .event, or guarantees")


def compose(events: Iterable[object]) -> Guarantee:
    """Return the guarantee of all of these together; events, mechanisms with an ``.event``, and guarantees.

    The steps' privacy profiles must be fixed in advance; what is *asked* may depend on earlier answers. Where the next
    ε or mechanism is chosen after seeing answers, use a filter instead.

    >>> import hush
    >>> steps = hush.compose([hush.Gaussian(sensitivity=1, sigma=30).event] * 1000)
    >>> round(steps.epsilon(delta="1e-6"), 1)
    5.2
    """
    if isinstance(events, (Event, Guarantee)):
        events = [events]
    events = members(events, "events", allowed="a list of events, mechanisms or guarantees")
    counted: dict[int, tuple[object, int]] = {}
    for event in events:
        # A list such as [event] * 1000 holds one object many times: describe it once.
        earlier = counted.get(id(event))
        counted[id(event)] = (event, 1 if earlier is None else earlier[1] + 1)
    return Guarantee(Description.total((_describe(event), count) for event, count in counted.values()))


class Guarantee:
    """What a composition guarantees; immutable. Add events or guarantees, multiply by a count, ask.

    >>> import hush
    >>> guarantee = hush.compose([hush.Laplace(sensitivity=1, epsilon="0.1").event] * 10)
    >>> round(guarantee.epsilon(delta=0), 6), guarantee.delta(epsilon=1) == 0
    (1.0, True)
    """

    __slots__ = ("_directions", "_lost", "description")
    description: Description
    _directions: tuple[Direction, ...] | None
    _lost: Ball | None

    def __init__(self, description: Description) -> None:
        self.description = description
        self._directions = None
        self._lost = None

    # -- composing ------------------------------------------------------------------------------------------------

    def __add__(self, other: object) -> Guarantee:
        added = _describe(other)
        total = Guarantee(self.description + added)
        # What is known of this guarantee is handed on, so that the sum costs only what is new.
        if self._lost is not None:
            with precision(_BITS):
                total._lost = self._lost + (1 - self._lost) * added.delta_infinite()
        if self._directions is not None and not added.ranges and not self.description.ranges:
            total._directions = total._direct(self._directions, added)
        return total

    __radd__ = __add__

    def __mul__(self, count: int) -> Guarantee:
        return Guarantee(self.description * integer(count, "count", minimum=0))

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guarantee) and self.description.key() == other.description.key()

    def __hash__(self) -> int:
        return hash(self.description.key())

    def group(self, size: int) -> Guarantee:
        """Return a guarantee for ``size`` units at once, from each step's own behaviour in groups.

        Each step is replaced by its own group's (noise of K times the sensitivity; K²ρ; (Kε, (e^{Kε}−1)/(e^ε−1)·δ) for
        a black box) and these are composed: the chain of neighbours passes through every step at once.
        """
        return Guarantee(self.description.group(integer(size, "size", minimum=1)))

    # -- (ε, δ) ---------------------------------------------------------------------------------------------------

    def _direct(self, old: tuple[Direction, ...] = (), added: Description | None = None) -> tuple[Direction, ...]:
        described = self.description.adaptive()
        kinds: set[type[Pair]] = set(map(type, described.pairs))
        count = 1 if all(kind.symmetric for kind in kinds) else 2
        return tuple(
            Direction(described, reverse=bool(i), base=old[i] if i < len(old) else None, added=added)
            for i in range(count)
        )

    def _infinite(self) -> Ball:
        """Return the probability that some loss is infinite."""
        if self._lost is None:
            self._lost = self.description.delta_infinite()
        return self._lost

    def _both(self) -> tuple[Direction, ...]:
        if self._directions is None:
            self._directions = self._direct()
        return self._directions

    def epsilon(self, delta: Number, *, strict: bool = True) -> Bound:
        """Return the smallest ε at which the composition is (ε, δ)-DP: certified upper end, with ``.lower``.

        At δ = 0 it is the pure ε. Infinite, never wrong, where no ε does (the mass of infinite loss exceeds δ).

        The ends are within 1e-6 of ε (or 1e-7 of each other), else :class:`.UncertainError` is raised, which carries
        both; ``strict=False`` returns them however wide, for whom a sound upper end is enough. Compositions that hold
        something known by a weaker description (zCDP, Rényi points, bounded ranges) are exempt: there the upper end is
        the best that the descriptions give, and the lower one what some mechanism that fits them costs.
        """
        target = probability(delta, "delta", allowed="a number from 0 (pure) to 1")
        described = self.description
        with precision(_BITS):
            lost = self._infinite()
            if target >= 1:
                return Bound(lower=0.0, upper=0.0)
            if target == 0:
                pure = described.pure_epsilon()
                return Bound(lower=down(pure), upper=up(pure))
            left = (ball(target) - lost) / (1 - lost)
            if not left > 0:
                # Exactly, where it can be told: a δ short of that mass by less than a float shows is short of it.
                mass = _mass(described)
                if lost > ball(target) if mass is None else mass > target:
                    return Bound(lower=math.inf, upper=math.inf)
                # Exactly the mass of infinite loss is left for δ: what is left must be pure.
                pure = described.finite().pure_epsilon()
                return Bound(lower=down(pure) if mass == target else 0.0, upper=math.inf if mass is None else up(pure))
            log = left.log()
            goal = LogInterval(lower=down(log), upper=up(log))
            lower, upper = self._epsilon(goal, log)
        if math.isnan(upper) or math.isnan(lower):
            raise PrecisionError(f"ε at δ={float(target):.3g} could not be certified; ask for a larger δ.")
        bound = Bound(lower=max(lower, 0.0), upper=max(upper, 0.0))
        width = bound.upper - bound.lower
        if strict and self._exact and not (width <= max(TOLERANCE * bound.upper, _FLOOR)):
            raise UncertainError(f"ε at δ={float(target):.3g}", bound.lower, bound.upper)
        return bound

    def likely_epsilon(self, delta: Number) -> float:
        """Return about ε at this δ, in well under a millisecond: it steers searches and promises nothing.

        >>> from hush.accounting import GaussianEvent
        >>> abs(compose([GaussianEvent(sigma=30)] * 1000).likely_epsilon("1e-6") - 5.189) < 0.1
        True
        """
        target = float(probability(delta, "delta"))
        if target in {0.0, 1.0} or not self.description.paired or not self.description.pairs:
            return float(self.epsilon(delta, strict=False))
        return max(direction.likely_epsilon(math.log(target)) for direction in self._both())

    @property
    def _exact(self) -> bool:
        """Whether the ends are meant to meet: everything has a dominating pair, which some mechanism attains."""
        return self.description.paired and not self.description.loose

    def _epsilon(self, goal: LogInterval, log: Ball) -> tuple[float, float]:
        described = self.description
        if not described.paired:
            floor = Guarantee(_gaussian_floor(described))
            return max(d.epsilon(goal)[0] for d in floor._both()), self._renyi_epsilon(log)
        if len(described.ranges) == 1 and not described.pairs and max(described.ranges.values()) <= MOST_STEPS:
            ((width, count),) = described.ranges.items()
            return range_epsilon(width, count, goal)
        # The likely worse direction first: of the other it need only be shown that it is no worse.
        lower, upper = 0.0, 0.0
        directions = self._both()
        if len(directions) > 1:
            directions = tuple(sorted(directions, key=lambda direction: -direction.likely_epsilon(goal.lower)))
        for direction in directions:
            low, high = direction.epsilon(goal, floor=lower)
            lower, upper = max(lower, low), max(upper, high)
        if described.loose:
            floor = Guarantee(_gaussian_floor(described))
            lower = max(d.epsilon(goal)[0] for d in floor._both())
            other = Guarantee(described.ranges_by_divergence())
            upper = min(upper, other._renyi_epsilon(log))
        return lower, upper

    def _renyi_epsilon(self, log: Ball) -> float:
        """Return the upper end of ε by divergences.

        A direction says where to look; the divergence there is the worse of both, so each answer holds for both.
        """
        described = self.description.adaptive()
        return min(renyi_epsilon(described, direction.cumulant.real, log) for direction in self._both())

    def _renyi_delta(self, epsilon: Fraction) -> float:
        """Return the upper end of ln δ by divergences."""
        described = self.description.adaptive()
        with precision(_BITS):
            values = [renyi_delta(described, direction.cumulant.real, epsilon) for direction in self._both()]
            return min(0.0, *(up(value.log()) for value in values))

    def delta(self, epsilon: Number, *, strict: bool = True) -> Bound:
        """Return the smallest δ at which the composition is (ε, δ)-DP: certified upper end, with ``.lower``.

        The ends are within 1e-6 of δ, or their logarithms within 1e-6 of ln δ (far out ε and ln δ are proportional),
        or no wider apart than a rounding of ε explains, or below 1e-300; else :class:`.UncertainError`, as for
        :meth:`epsilon`.
        """
        exact = nonnegative(epsilon, "epsilon")
        if exact > _LARGEST:
            raise InvalidValueError("epsilon", got=epsilon, allowed="at most 1e300")
        # The curve falls: below for the upper end of δ, above for its lower end, if ε is no float.
        with precision(_BITS):
            lost = self._infinite()
            high = self._log_delta(exact)
            upper = lost + (1 - lost) * ball(high.upper).exp() if high.upper > -math.inf else lost
            lower = lost + (1 - lost) * ball(high.lower).exp() if high.lower > -math.inf else lost
            bound = Bound(lower=max(0.0, down(lower)), upper=min(1.0, up(upper)))
        if strict and self._exact and not _near(bound, float(exact)):
            raise UncertainError(f"δ at ε={float(exact):.6g}", bound.lower, bound.upper)
        return bound

    def _log_delta(self, epsilon: Fraction) -> LogInterval:
        below, above = _floats(epsilon)
        described = self.description
        if not described.paired:
            floor = Guarantee(_gaussian_floor(described))
            lower = max(d.log_delta(above).lower for d in floor._both())
            return LogInterval(lower=lower, upper=self._renyi_delta(epsilon))
        if len(described.ranges) == 1 and not described.pairs and max(described.ranges.values()) <= MOST_STEPS:
            ((width, count),) = described.ranges.items()
            return range_delta(width, count, epsilon)
        lower, upper = -math.inf, -math.inf
        if not described.pairs and not described.ranges:
            return LogInterval(lower=lower, upper=upper)
        directions = self._both()
        if len(directions) > 1:
            directions = tuple(sorted(directions, key=lambda direction: -direction.likely_delta(below)))
        for direction in directions:
            value = direction.log_delta(below, floor=lower)
            low = value.lower if above == below else direction.log_delta(above, floor=lower).lower
            lower, upper = max(lower, low), max(upper, value.upper)
        if described.loose:
            floor = Guarantee(_gaussian_floor(described))
            lower = max(d.log_delta(above).lower for d in floor._both())
            other = Guarantee(described.ranges_by_divergence())
            upper = min(upper, other._renyi_delta(epsilon))
        return LogInterval(lower=lower, upper=upper)

    # -- other currencies -----------------------------------------------------------------------------------------

    def renyi(self, alpha: Number) -> float:
        """Return the Rényi divergence of order ``alpha``, rounded up; it holds but for ``delta_infinite``."""
        with precision(_BITS):
            if alpha == math.inf:
                return up(self.description.finite().pure_epsilon())
            return max(0.0, up(self.description.renyi(read_order(alpha))))

    def pure_epsilon(self) -> float:
        """Return the pure ε, rounded up; infinite where there is none."""
        with precision(_BITS):
            return up(self.description.pure_epsilon())

    @property
    def delta_infinite(self) -> float:
        """The probability, rounded up, that some loss is infinite."""
        with precision(_BITS):
            return min(1.0, up(self.description.delta_infinite()))

    def zcdp(self) -> float:
        """Return a certified ρ: the composition is ρ-zCDP but for ``delta_infinite``; infinite where it is not.

        The sum of each step's smallest known ρ: μ²/2 for Gaussian noise, continuous or discrete; the KL divergence for
        Laplace noise and randomized response; ε²/8 for bounded range.
        """
        with precision(_BITS):
            return up(self.description.zcdp())

    def gdp(self, delta: Number | None = None) -> float:
        """Return a certified μ such that the composition is μ-GDP, rounded up.

        Gaussian noise has μ = Δ/σ, and sampling only helps; any ε-DP step has 2Φ⁻¹(e^ε/(1+e^ε)), since the trade-off
        curve of randomized response has its corner there and is linear elsewhere, while the Gaussian's is convex.
        Composition adds squares. With ``delta``, return instead the μ of the Gaussian mechanism that has the same ε at
        that δ: a summary of one point, not a guarantee.
        """
        if delta is not None:
            return matching_mu(self.epsilon(delta, strict=False), probability(delta, "delta"))
        return certified_mu(self.description)

    def trade_off(self, alpha: Number) -> float:
        """Return f(α) of f-DP, rounded down: the least share of misses of any test with false alarms ``alpha``.

        See :mod:`hush.accounting.trade_off` for the test that is meant, and the proof.

        >>> from hush.accounting import GaussianEvent
        >>> round(compose([GaussianEvent(sigma=1)]).trade_off("0.05"), 2)        # Φ(Φ⁻¹(0.95) − 1) = 0.7405
        0.74
        """
        return self.trade_off_curve([alpha])[0][1]

    def trade_off_curve(
        self, alphas: Sequence[Number] | None = None, *, points: int = 101
    ) -> list[tuple[float, float]]:
        """Return (α, f(α)) of :meth:`trade_off` at the given α, or at ``points`` of them from 0 to 1."""
        return trade_off_points([(e, d.upper) for e, d in self.curve(points=PROFILE_POINTS)], alphas, points=points)

    # -- pictures -------------------------------------------------------------------------------------------------

    def curve(self, epsilons: Sequence[Number] | None = None, *, points: int = 60) -> list[tuple[float, Bound]]:
        """Return (ε, δ) along the curve: at the given ε, or at points spread over δ from about 0.1 to 1e-12."""
        if epsilons is None:
            top = self.epsilon(1e-12, strict=False).upper
            if not math.isfinite(top):
                top = self.epsilon(min(0.5, 2 * self.delta_infinite + 1e-9), strict=False).upper
            top = top if math.isfinite(top) and top > 0 else 1.0
            epsilons = [top * i / (points - 1) for i in range(points)]
        return [(float(nonnegative(e, "epsilon")), self.delta(e, strict=False)) for e in epsilons]

    def chart(self, *others: Guarantee, names: Sequence[str] | None = None, kind: str = "profile") -> Chart:
        """Return a chart of the (ε, δ) curve, or with ``kind="trade-off"`` of f-DP's; others' curves go beside it."""
        guarantees = [self, *others]
        if kind == "profile":
            return profile_chart(guarantees, names=read_names(names, len(guarantees)))
        if kind == "trade-off":
            curves = [guarantee.trade_off_curve() for guarantee in guarantees]
            return trade_off_chart(curves, names=read_names(names, len(guarantees)))
        raise InvalidValueError("kind", got=kind, allowed="'profile' or 'trade-off'")

    plot = chart

    def __repr__(self) -> str:
        kinds = [*self.description.pairs.values(), *self.description.ranges.values(), *self.description.curves.values()]
        steps = sum(kinds) + (1 if self.description.rho else 0)
        try:
            shown = f"ε={self.epsilon(1e-6, strict=False):.6g} at δ=1e-6"
        except ArithmeticError:
            shown = "ε not certified at δ=1e-6"
        return f"<Guarantee of {steps} step{'' if steps == 1 else 's'}: {shown}>"


def _near(delta: Bound, epsilon: float) -> bool:
    """Whether the ends of δ are as near as promised; δ falls by at most 1 where ε rises by 1."""
    width = delta.upper - delta.lower
    if delta.upper <= _SMALLEST or width <= max(TOLERANCE * delta.upper, _ROUNDING * epsilon):
        return True
    return delta.lower > 0 and math.log(delta.upper / delta.lower) <= TOLERANCE * -math.log(delta.upper)


def _mass(description: Description) -> Fraction | None:
    """Return the probability that some loss is infinite as an exact rational, None where that is too long."""
    left = Fraction(1)
    if sum(description.infinite.values()) > _MOST_EXACT:
        return None
    for lost, count in description.infinite.items():
        left *= (1 - lost.mass) ** count
    return 1 - left


def _floats(value: Fraction) -> tuple[float, float]:
    """Return the floats next below and above an exact number (equal where it is a float)."""
    return float_down(value), float_up(value)


def _gaussian_floor(description: Description) -> Description:
    """Replace what is known by a bound alone by a mechanism that satisfies it: nothing valid can go below that.

    A Gaussian for zCDP and Rényi; for a pair that no mechanism attains, one that does (:meth:`.Pair.attained`).
    """
    described = description.adaptive()
    attained: dict[Pair, int] = {}
    for pair, count in described.pairs.items():
        example = pair.attained()
        attained[example] = attained.get(example, 0) + count
    if described.rho:
        gaussian = GaussianPair(mu_squared=2 * described.rho)
        attained[gaussian] = attained.get(gaussian, 0) + 1
    for curve, count in described.curves.items():
        mu_squared = curve.gaussian()
        if mu_squared:
            gaussian = GaussianPair(mu_squared=mu_squared)
            attained[gaussian] = attained.get(gaussian, 0) + count
    return Description(pairs=attained)


def profile_chart(guarantees: Sequence[Guarantee], *, names: Sequence[str]) -> Chart:
    """Return the (ε, δ) curves of several guarantees in one picture, δ on a logarithmic scale."""
    tops = [
        guarantee.epsilon(max(_CHART_FLOOR, min(0.5, 2 * guarantee.delta_infinite)), strict=False).upper
        for guarantee in guarantees
    ]
    widest = max((top for top in tops if math.isfinite(top)), default=1.0) or 1.0
    rows = []
    for guarantee, name in zip(guarantees, names, strict=True):
        for i in range(_CHART_POINTS + 1):
            epsilon = widest * i / _CHART_POINTS
            delta = guarantee.delta(epsilon, strict=False).upper
            if delta < _CHART_FLOOR * 1e-6:
                break
            rows.append({"guarantee": name, "epsilon": epsilon, "delta": delta})
    several = len(guarantees) > 1
    encoding = {
        "x": {"field": "epsilon", "type": "quantitative", "title": "ε", "scale": {"nice": False}},
        "y": {
            "field": "delta",
            "type": "quantitative",
            "title": "δ",
            "scale": {"type": "log", "domain": [_CHART_FLOOR, 1]},
            "axis": {"format": ".0e", "values": [10.0**-k for k in range(0, 13, 2)]},
        },
        "tooltip": [
            {"field": "epsilon", "type": "quantitative", "title": "ε", "format": ".4g"},
            {"field": "delta", "type": "quantitative", "title": "δ", "format": ".4g"},
        ],
    }
    if several:
        encoding["color"] = {
            "field": "guarantee",
            "type": "nominal",
            "title": None,
            "sort": list(names),
            "legend": {"orient": "top-right", "fillColor": "white", "padding": 6},
        }
    return Chart(
        {
            "title": {"text": "What is promised", "subtitle": "every point (ε, δ) on or above a curve holds"},
            "width": 520,
            "height": 300,
            "data": {"values": rows},
            "mark": {"type": "line", "strokeWidth": 2, "clip": True, "interpolate": "linear"},
            "encoding": encoding,
        }
    )
