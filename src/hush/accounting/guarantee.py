"""Guarantees: the privacy of a composition of events in every currency, with certified ends.

>>> from hush.accounting import GaussianEvent, LaplaceEvent, compose
>>> g = compose([GaussianEvent(sigma=30)] * 1000)
>>> g.epsilon(delta="1e-6")
5.18903664082188...
>>> (g + LaplaceEvent(scale=2) * 5).epsilon("1e-6").lower <= (g + LaplaceEvent(scale=2) * 5).epsilon("1e-6")
True

**Trade-off curves (f-DP)**: the errors of every test for the presence of one unit in the data. Somebody sees a release
and guesses whether a unit took part. The guess errs in two ways: α is the share of false alarms, β the share of misses.
f(α) is the least β of all tests with at most α; f(α) = 1 − α is blind guessing.

Every pair (ε, δ) that holds bounds β from below, by 1 − δ − e^ε·α and by e^−ε·(1 − δ − α) (Wasserman & Zhou, "A
statistical framework for differential privacy", JASA 2010). The whole curve δ(ε) is worth exactly as
much as f: f(α) = sup over ε ≥ 0 of max(0, 1 − δ(ε) − e^ε·α, e^−ε·(1 − δ(ε) − α)) (Dong, Roth & Su, "Gaussian
differential privacy", JRSS B 2022, section 2.3).

The supremum is taken over some points of the curve, with certified upper ends of δ. Each bound holds, so the greatest
holds, and it is at most the true f: the curve never claims more privacy than there is.

Rounding: where a bound is positive, e^ε·α and δ are below 1, so that a term is off by at most a few units of 2^−53;
eight of them are taken off.

>>> trade_off_points([(0.0, 0.25), (1.0, 0.0)], ["0.1", "0.5"])
[(0.1, 0.728...), (0.5, 0.2499...)]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property

from hush.accounting.description import FIGURE_BITS, Described, Description
from hush.accounting.events.base import Event, as_event
from hush.accounting.pairs.base import Pair
from hush.accounting.pairs.gaussian import GaussianPair
from hush.accounting.prices import certified_mu, matching_mu, pure_loss
from hush.accounting.profile.closed_forms import RangeOptimum
from hush.accounting.profile.direction import Direction
from hush.accounting.profile.method import LogInterval
from hush.accounting.profile.tail_bounds import renyi_delta, renyi_epsilon
from hush.core import InvalidValueError, Number, PrecisionError, fraction_between, integer, nonnegative, probability
from hush.core.chart import Chart, ChartAxis, ChartLine, line_chart
from hush.core.errors import UncertainError, members
from hush.core.rounding import Ball, Bound, ball, down, float_down, float_up, precision, up

PROFILE_POINTS = 60
"""The number of points of δ(ε) in the supremum."""
_LARGEST_EXPONENT = 700.0
"""Above it e^ε is no float, and bounds by it say nothing."""
_TERM_ROUNDING = 8 * 2.0**-53
_MAX_CURVE_POINTS = 10_000


def trade_off_points(
    profile: Sequence[tuple[float, float]], alphas: Sequence[Number] | None = None, *, points: int = 101
) -> list[tuple[float, float]]:
    """Return (α, f(α)) from points (ε, δ) that hold, f rounded down."""
    if alphas is None:
        last = integer(points, "points", minimum=2, maximum=_MAX_CURVE_POINTS) - 1
        alphas = [Fraction(i, last) for i in range(last + 1)]
    # Any subset of the points gives a true lower bound of f, so those beyond the range of floats are dropped.
    useful = [(math.exp(epsilon), delta) for epsilon, delta in profile if epsilon < _LARGEST_EXPONENT]
    curve = []
    for alpha in (float(probability(value, "alpha")) for value in alphas):
        bounds = (max(1 - delta - factor * alpha, (1 - delta - alpha) / factor) for factor, delta in useful)
        # downwards: a smaller f claims less privacy
        curve.append((alpha, max(0.0, max(bounds, default=0.0) - _TERM_ROUNDING)))
    return curve


def trade_off_chart(
    curves: Sequence[Sequence[tuple[float, float]]],
    *,
    names: Sequence[str],
    title: str = "What a test can tell",
    subtitle: str = "the nearer to the dashed line, the more private",
    measured: Sequence[ChartLine] = (),
) -> Chart:
    """Return a chart of trade-off curves, with the line of blind guessing and the measured points."""
    lines = [ChartLine(name=name, points=curve) for curve, name in zip(curves, names, strict=True)]
    blind = ChartLine(name="blind guessing", points=[(0.0, 1.0), (1.0, 0.0)], dashed=True)
    x, y = ChartAxis.between("false alarms, α", 0, 1), ChartAxis.between("misses, at least", 0, 1)
    return line_chart([*lines, *measured, blind], x, y, title=title, subtitle=subtitle, width=420)


_LARGEST_EPSILON = 10**300
TOLERANCE = 1e-6
"""The largest relative distance between the ends of an answer."""
_EPSILON_TOLERANCE = 1e-7
"""The absolute distance between the ends of ε that is always accepted."""
_NEGLIGIBLE_DELTA = 1e-300
"""A δ below this is as good as zero."""
_ROUNDING = 2.0**-50
"""A few units in the last place of ε."""
_MAX_EXACT_MASSES = 200
"""The largest number of masses of infinite loss that are combined as an exact rational."""
_CHART_POINTS = 80
_CHART_FLOOR = 1e-12
"""The smallest δ of a chart."""


def _describe(source: object) -> Description:
    return source.description if isinstance(source, Guarantee) else as_event(source, "events").description()


def compose(events: Iterable[object]) -> Guarantee:
    """Return the guarantee of the composition of events, mechanisms with an ``.event``, and guarantees.

    The steps' privacy profiles must be fixed in advance; the *queries* may depend on earlier answers. Where the next
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


class Guarantee(Described):
    """The privacy of a composition; immutable. Add events or guarantees, multiply by a count, ask for ε or δ.

    >>> import hush
    >>> guarantee = hush.compose([hush.Laplace(sensitivity=1, epsilon="0.1").event] * 10)
    >>> round(guarantee.epsilon(delta=0), 6), guarantee.delta(epsilon=1) == 0
    (1.0, True)
    """

    def __init__(self, description: Description) -> None:
        self.description = description

    def described(self) -> Description:
        """Return the canonical form of all steps."""
        return self.description

    # -- composing ------------------------------------------------------------------------------------------------

    def __add__(self, other: object) -> Guarantee:
        added = _describe(other)
        total = Guarantee(self.description + added)
        # Figures already computed for this guarantee are handed on, so that the sum costs only the added steps.
        computed = vars(self)
        if "_lost" in computed:
            with precision(FIGURE_BITS):
                # 1 − (1−a)(1−b) = a + (1−a)·b: the probability that a loss is infinite in either part.
                total._lost = self._lost + (1 - self._lost) * added.delta_infinite()
        if "_directions" in computed:
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
        described = self.description
        kinds: set[type[Pair]] = set(map(type, described.pairs))
        count = 1 if all(kind.symmetric for kind in kinds) else 2
        return tuple(
            Direction(described, reverse=bool(i), base=old[i] if i < len(old) else None, added=added)
            for i in range(count)
        )

    @cached_property
    def _lost(self) -> Ball:
        """The probability that some loss is infinite."""
        return self.description.delta_infinite()

    @cached_property
    def _directions(self) -> tuple[Direction, ...]:
        return self._direct()

    def _floor(self) -> tuple[Direction, ...]:
        """Return a composition of mechanisms that satisfies the description: a floor for every valid bound.

        A Gaussian for zCDP and Rényi; for a pair that no mechanism attains, one that does (:meth:`.Pair.attained`).
        """
        described = self.description
        examples = [(pair.attained(), count) for pair, count in described.pairs.items()]
        squares = [(2 * described.rho, 1), *((curve.gaussian(), count) for curve, count in described.curves.items())]
        examples += [(GaussianPair(mu_squared=square), count) for square, count in squares if square]
        return Guarantee(Description.total((Description.of(pair), count) for pair, count in examples))._directions  # noqa: SLF001

    def epsilon(self, delta: Number, *, strict: bool = True) -> Bound:
        """Return the smallest ε at which the composition is (ε, δ)-DP: certified upper end, with ``.lower``.

        At δ = 0 it is the pure ε. Infinite, never wrong, where no ε does (the mass of infinite loss exceeds δ).

        The ends are within 1e-6 of ε (or 1e-7 of each other), else :class:`.UncertainError` is raised, which carries
        both; ``strict=False`` returns them however wide, for whom a sound upper end is enough. Compositions that hold
        something known by a weaker description (zCDP, Rényi points, bounded ranges) are exempt: there the upper end is
        the best that the descriptions give, and the lower one is the cost of a mechanism that fits them.
        """
        target = probability(delta, "delta", allowed="a number from 0 (pure) to 1")
        described = self.description
        with precision(FIGURE_BITS):
            lost = self._lost
            if target >= 1:
                return Bound(lower=0.0, upper=0.0)
            if target == 0:
                pure = described.pure_epsilon()
                return Bound(lower=down(pure), upper=up(pure))
            # δ = lost + (1 − lost)·δ', with δ' the δ of the composition given that no loss is infinite.
            conditional = (ball(target) - lost) / (1 - lost)
            if not conditional > 0:
                # Decided in rationals where that is cheap: a ball cannot tell a δ from a mass that it nearly equals.
                mass = _mass(described)
                if lost > ball(target) if mass is None else mass > target:
                    return Bound(lower=math.inf, upper=math.inf)
                # δ is exactly the mass of infinite loss, so the finite losses must be pure.
                pure = described.finite().pure_epsilon()
                return Bound(lower=down(pure) if mass == target else 0.0, upper=math.inf if mass is None else up(pure))
            log = conditional.log()
            goal = LogInterval(lower=down(log), upper=up(log))
            lower, upper = self._epsilon(goal, log)
        if math.isnan(upper) or math.isnan(lower):
            raise PrecisionError(f"ε at δ={float(target):.3g} could not be certified; ask for a larger δ.")
        bound = Bound(lower=max(lower, 0.0), upper=max(upper, 0.0))
        width = bound.upper - bound.lower
        if strict and self._exact and not (width <= max(TOLERANCE * bound.upper, _EPSILON_TOLERANCE)):
            raise UncertainError(f"ε at δ={float(target):.3g}", bound.lower, bound.upper)
        return bound

    def likely_epsilon(self, delta: Number) -> float:
        """Return an estimate of ε at this δ, in well under a millisecond: for searches, without a guarantee.

        >>> from hush.accounting import GaussianEvent
        >>> abs(compose([GaussianEvent(sigma=30)] * 1000).likely_epsilon("1e-6") - 5.189) < 0.1
        True
        """
        target = float(probability(delta, "delta"))
        if target in {0.0, 1.0} or not self.description.paired or not self.description.pairs:
            return float(self.epsilon(delta, strict=False))
        return max(direction.likely_epsilon(math.log(target)) for direction in self._directions)

    @property
    def _exact(self) -> bool:
        """Whether the ends are meant to meet: everything has a dominating pair, which some mechanism attains."""
        return self.description.paired and not self._loose

    @property
    def _loose(self) -> bool:
        """Whether the pairs give upper bounds and no lower ones."""
        return self.description.loose and not RangeOptimum.suits(self.description.pairs)

    def _epsilon(self, goal: LogInterval, log: Ball) -> tuple[float, float]:
        described = self.description
        if not described.paired:
            return max(direction.epsilon(goal)[0] for direction in self._floor()), self._renyi_epsilon(log)
        # The likely worse direction first: the other then only has to be proved no worse.
        lower, upper = 0.0, 0.0
        directions = self._directions
        if len(directions) > 1:
            directions = tuple(sorted(directions, key=lambda direction: -direction.likely_epsilon(goal.lower)))
        for direction in directions:
            low, high = direction.epsilon(goal, floor=lower)
            lower, upper = max(lower, low), max(upper, high)
        if self._loose:
            lower = max(direction.epsilon(goal)[0] for direction in self._floor())
            # Both upper ends hold: by the dominating pairs, and by ε²/8-zCDP for the bounded ranges.
            by_divergence = Guarantee(described.ranges_by_divergence())
            upper = min(upper, by_divergence._renyi_epsilon(log))
        return lower, upper

    def _renyi_epsilon(self, log: Ball) -> float:
        """Return the upper end of ε by divergences.

        A direction suggests an order; the divergence is the worse of both directions, so each answer holds for both.
        """
        return min(renyi_epsilon(self.description, direction.cumulant.real, log) for direction in self._directions)

    def _renyi_delta(self, epsilon: Fraction) -> float:
        """Return the upper end of ln δ by divergences."""
        with precision(FIGURE_BITS):
            values = [renyi_delta(self.description, direction.cumulant.real, epsilon) for direction in self._directions]
            return min(0.0, *(up(value.log()) for value in values))

    def delta(self, epsilon: Number, *, strict: bool = True) -> Bound:
        """Return the smallest δ at which the composition is (ε, δ)-DP: certified upper end, with ``.lower``.

        The ends are within 1e-6 of δ, or their logarithms within 1e-6 of ln δ (far out ε and ln δ are proportional),
        or no wider apart than a rounding of ε explains, or below 1e-300; else :class:`.UncertainError`, as for
        :meth:`epsilon`.
        """
        exact = nonnegative(epsilon, "epsilon")
        if exact > _LARGEST_EPSILON:
            raise InvalidValueError("epsilon", got=epsilon, allowed="at most 1e300")
        # δ falls with ε: the float below ε gives the upper end of δ, the float above it the lower end.
        with precision(FIGURE_BITS):
            lost = self._lost
            high = self._log_delta(exact)
            upper = lost + (1 - lost) * ball(high.upper).exp() if high.upper > -math.inf else lost
            lower = lost + (1 - lost) * ball(high.lower).exp() if high.lower > -math.inf else lost
            bound = Bound(lower=max(0.0, down(lower)), upper=min(1.0, up(upper)))
        if strict and self._exact and not _near(bound, float(exact)):
            raise UncertainError(f"δ at ε={float(exact):.6g}", bound.lower, bound.upper)
        return bound

    def _log_delta(self, epsilon: Fraction) -> LogInterval:
        below, above = float_down(epsilon), float_up(epsilon)
        described = self.description
        if not described.paired:
            lower = max(direction.log_delta(above).lower for direction in self._floor())
            return LogInterval(lower=lower, upper=self._renyi_delta(epsilon))
        lower, upper = -math.inf, -math.inf
        pure = pure_loss(described) if len(described.pairs) <= 1 else None
        if pure is not None and epsilon >= pure:  # decided in rationals, which a float may miss
            return LogInterval(lower=lower, upper=upper)
        directions = self._directions
        if len(directions) > 1:
            directions = tuple(sorted(directions, key=lambda direction: -direction.likely_delta(below)))
        for direction in directions:
            value = direction.log_delta(below, floor=lower)
            low = value.lower if above == below else direction.log_delta(above, floor=lower).lower
            lower, upper = max(lower, low), max(upper, value.upper)
        if self._loose:
            lower = max(direction.log_delta(above).lower for direction in self._floor())
            by_divergence = Guarantee(described.ranges_by_divergence())
            upper = min(upper, by_divergence._renyi_delta(epsilon))
        return LogInterval(lower=lower, upper=upper)

    # -- other currencies -----------------------------------------------------------------------------------------

    def zcdp(self) -> float:
        """Return a certified ρ: the composition is ρ-zCDP but for ``delta_infinite``; infinite where it is not.

        The sum of each step's smallest known ρ: μ²/2 for Gaussian noise, continuous or discrete; the KL divergence for
        Laplace noise and randomized response; ε²/8 for bounded range.
        """
        with precision(FIGURE_BITS):
            return up(self.description.zcdp())

    def gdp(self, delta: Number | None = None) -> float:
        """Return a certified μ of Gaussian DP, rounded up.

        Gaussian noise has μ = Δ/σ, and sampling only helps; any ε-DP step has 2Φ⁻¹(e^ε/(1+e^ε)), since the trade-off
        curve of randomized response has its corner there and is linear elsewhere, while the Gaussian's is convex.
        Composition adds squares. With ``delta``, return instead the μ of the Gaussian mechanism that has the same ε at
        that δ: a summary of one point, not a guarantee.
        """
        if delta is not None:
            return matching_mu(self.epsilon(delta, strict=False), fraction_between(delta, "delta"))
        return certified_mu(self.description)

    def trade_off(self, alpha: Number) -> float:
        """Return f(α) of f-DP, rounded down: the least share of misses of any test with false alarms ``alpha``.

        See :mod:`hush.accounting.guarantee` for the test that is meant, and the proof.

        >>> from hush.accounting import GaussianEvent
        >>> round(compose([GaussianEvent(sigma=1)]).trade_off("0.05"), 2)        # Φ(Φ⁻¹(0.95) − 1) = 0.7405
        0.74
        """
        return self.trade_off_curve([alpha])[0][1]

    def trade_off_curve(
        self, alphas: Sequence[Number] | None = None, *, points: int = 101
    ) -> list[tuple[float, float]]:
        """Return (α, f(α)) of :meth:`trade_off` at the given α, or at ``points`` values of α from 0 to 1."""
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
        """Return a chart of the (ε, δ) curve, or of f-DP's with ``kind="trade-off"``; ``others`` go beside it."""
        if kind not in {"profile", "trade-off"}:
            raise InvalidValueError("kind", got=kind, allowed="'profile' or 'trade-off'")
        guarantees = [self, *others]
        if names is None:
            names = ["this"] if not others else [f"guarantee {i + 1}" for i in range(len(guarantees))]
        elif len(names) != len(guarantees):
            raise InvalidValueError(
                "names", got=list(names), allowed=f"one name for each of {len(guarantees)} guarantees"
            )
        if kind == "profile":
            return profile_chart(guarantees, names=names)
        return trade_off_chart([guarantee.trade_off_curve() for guarantee in guarantees], names=names)

    plot = chart

    def __repr__(self) -> str:
        kinds = [*self.description.pairs.values(), *self.description.curves.values()]
        steps = sum(kinds) + (1 if self.description.rho else 0)
        try:
            summary = f"ε={self.epsilon(1e-6, strict=False):.6g} at δ=1e-6"
        except ArithmeticError:
            summary = "ε not certified at δ=1e-6"
        return f"<Guarantee of {steps} step{'' if steps == 1 else 's'}: {summary}>"


def _near(delta: Bound, epsilon: float) -> bool:
    """Whether the ends of δ are as near as promised; δ falls by at most 1 where ε rises by 1."""
    width = delta.upper - delta.lower
    if delta.upper <= _NEGLIGIBLE_DELTA or width <= max(TOLERANCE * delta.upper, _ROUNDING * epsilon):
        return True
    return delta.lower > 0 and math.log(delta.upper / delta.lower) <= TOLERANCE * -math.log(delta.upper)


def _mass(description: Description) -> Fraction | None:
    """Return the probability of an infinite loss as an exact rational; None where that would be too long."""
    finite = Fraction(1)
    if sum(description.infinite.values()) > _MAX_EXACT_MASSES:
        return None
    for lost, count in description.infinite.items():
        finite *= (1 - lost.mass) ** count
    return 1 - finite


def profile_chart(guarantees: Sequence[Guarantee], *, names: Sequence[str]) -> Chart:
    """Return the (ε, δ) curves of several guarantees in one picture, δ on a logarithmic scale."""
    tops = [
        guarantee.epsilon(max(_CHART_FLOOR, min(0.5, 2 * guarantee.delta_infinite)), strict=False).upper
        for guarantee in guarantees
    ]
    widest = max((top for top in tops if math.isfinite(top)), default=1.0) or 1.0
    curves = []
    for guarantee, top, name in zip(guarantees, tops, names, strict=True):
        end = widest if guarantee.delta_infinite >= _CHART_FLOOR else min(top, widest)
        epsilons = [end * i / _CHART_POINTS for i in range(_CHART_POINTS + 1)]
        points = [(epsilon, guarantee.delta(epsilon, strict=False).upper) for epsilon in epsilons]
        curves.append(ChartLine(name=name, points=points))
    powers = [(10.0**-k, f"1e-{k}" if k else "1") for k in range(0, 13, 2)]
    delta = ChartAxis(name="δ", low=_CHART_FLOOR, high=1.0, ticks=powers, logarithmic=True)
    subtitle = "every point (ε, δ) on or above a curve holds"
    return line_chart(
        curves, ChartAxis.between("ε", 0.0, widest, about=8), delta, title="What is promised", subtitle=subtitle
    )
