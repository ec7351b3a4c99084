r"""The exponential mechanism in metric form: a point y with probability ∝ e^(-d(y, f(D))/α).

With Δ the largest distance between neighbours' values, d(y, f(D)) moves by at most Δ, so the weights move by e^(Δ/α)
and the normaliser by as much again: α = 2Δ/ε is ε-DP. If the normaliser is the same for every value, only the weights
move, and α = Δ/ε is enough (THEORY item 14). That is a fact to be proven, not a hope, so it is proven at
construction:

* on a finite space, by computing the sorted distances from every point: if all these lists are equal, so are the sums
  of e^(-d/α) for every α. (On a cycle they are; on a segment they are not, and ``normaliser="constant"`` is refused.)
* on all the integers with d = |y - x|, by translation: that is the discrete Laplace law, of `Laplace`.

**Utility.** It is the exponential mechanism with the score -d, and its figures are those of the distance: with y the
answer and d₀ the distance of the nearest point (0 for a value in the space), P[d(y, f) > d₀ + t] ≤ (k-1)e^(-t/α) for k
points, since the normaliser is at least the nearest point's weight. Where the normaliser is constant the law of the
distance is the same around every point, and `error` is its exact quantile. ``bias(value)`` is d₀ - E[d] ≤ 0 and
``variance(value)`` is Var[d].

>>> ring = MetricExponential.on_cycle(12, epsilon=1)
>>> ring.error(0.95), round(ring.bias(3), 3)
(3.0, -0.836)
>>> MetricExponential(points=[0, 1, 2], metric=lambda a, b: abs(a - b), epsilon=1, normaliser="constant")
Traceback (most recent call last):
...
hush.core.errors.InvalidValueError: The 'normaliser' parameter must be 'any' here...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import ApproximateDPEvent, BoundedRangeEvent
from hush.core import InvalidValueError, Number, integer, nonnegative
from hush.core.numbers import assign
from hush.core.rounding import ball, certified, float_up, up
from hush.mechanisms.base import HALF_A_STEP, Calibrated, choose, confidence_level, ordinary, unquoted
from hush.mechanisms.laplace import Laplace
from hush.mechanisms.selection import chances, moments

_LARGEST_SPACE = 4096  # points for which all distances are computed


@dataclass(frozen=True, slots=True, init=False, repr=False)
class MetricExponential(Calibrated):
    """Releases a point of a metric space near the true one.

    Parameters
    ----------
    points
        The space; for all the integers there is `on_integers`.
    metric
        d(y, x), an exact number of at least 0, symmetric, with the triangle inequality.
    sensitivity
        The largest d(f(D), f(D')) over neighbours.
    normaliser
        "any", or "constant" where Σ e^(-d/α) is the same around every point; that is checked, and halves the noise.

    Examples
    --------
    >>> import hush
    >>> hush.MetricExponential.on_cycle(12, epsilon=1).alpha
    Fraction(1, 1)
    """

    points: tuple[Any, ...]
    metric: Callable[[Any, Any], Number] = field(repr=False)
    sensitivity: Fraction
    epsilon: Fraction
    normaliser: str

    def __init__(
        self,
        *,
        points: Sequence[Any],
        metric: Callable[[Any, Any], Number],
        epsilon: Number,
        sensitivity: Number = 1,
        normaliser: str = "any",
    ) -> None:
        choose(normaliser, ("any", "constant"), "normaliser")
        if not isinstance(points, (Sequence, AbstractSet)) or isinstance(points, (str, bytes)):
            hint = "For all the integers there is on_integers()."
            raise InvalidValueError("points", got=points, allowed="a list of points", hint=hint)
        if not callable(metric):
            raise InvalidValueError("metric", got=metric, allowed="a function of two points")
        space = tuple(points)
        if not 1 <= len(space) <= _LARGEST_SPACE:
            raise InvalidValueError("points", got=f"{len(space)} points", allowed=f"from 1 to {_LARGEST_SPACE} points")
        budget, largest = ordinary(epsilon, "epsilon"), ordinary(sensitivity, "sensitivity")
        assign(self, points=space, metric=metric, sensitivity=largest, epsilon=budget, normaliser=normaliser)
        if normaliser == "constant":
            self._prove()

    @classmethod
    def on_cycle(cls, size: int, *, epsilon: Number, sensitivity: Number = 1) -> MetricExponential:
        """Return the mechanism on 0 … size-1 around a cycle (hours, weekdays, angles)."""
        around = integer(size, "size", minimum=1, maximum=_LARGEST_SPACE)
        return cls(
            points=range(around),
            metric=lambda a, b: min((a - b) % around, (b - a) % around),
            epsilon=epsilon,
            sensitivity=sensitivity,
            normaliser="constant",
        )

    @classmethod
    def on_integers(cls, *, epsilon: Number, sensitivity: int = 1) -> Laplace:
        """Return the mechanism on all the integers with d = |y - x|: the discrete Laplace law."""
        return Laplace(sensitivity=integer(sensitivity, "sensitivity", minimum=1), epsilon=epsilon)

    @classmethod
    def _at(cls, epsilon: Fraction, parameters: Mapping[str, Any]) -> Self:
        made = cls(epsilon=epsilon, **{**parameters, "normaliser": "any"})
        assign(made, normaliser=parameters.get("normaliser", "any"))  # proven once, by `_limit`: ε has no part in it
        return made

    def _prove(self) -> None:
        # Equal multisets of distances make Σ e^(-d/α) the same around every point, for every α.
        first = sorted(self._distances(self.points[0]))
        if any(sorted(self._distances(point)) != first for point in self.points):
            hint = "The distances from one point are not those from another: the normaliser depends on the data."
            raise InvalidValueError("normaliser", got=self.normaliser, allowed="'any' here", hint=hint)

    def _noise_scale(self) -> Fraction:
        return self.alpha

    def _limit(self, **_asked: Any) -> str:
        if len(self.points) < 2:
            raise InvalidValueError("points", got="one point", allowed="at least two: a single one is never wrong")
        if choose(self.normaliser, ("any", "constant"), "normaliser") == "constant":
            self._prove()
        return HALF_A_STEP

    @property
    def alpha(self) -> Fraction:
        """The length α of the exponent."""
        return self.sensitivity * (1 if self.normaliser == "constant" else 2) / self.epsilon

    @property
    def event(self) -> BoundedRangeEvent | ApproximateDPEvent:
        """Range ε; with a constant normaliser the log-ratios lie in [-ε, ε], which is pure ε and no narrower range."""
        if self.normaliser == "any":
            return BoundedRangeEvent(epsilon=self.epsilon)
        return ApproximateDPEvent(epsilon=self.epsilon, delta=0)

    def _distances(self, centre: Any) -> list[Fraction]:
        allowed = "a distance of at least zero"
        return [unquoted(nonnegative, self.metric(point, centre), "metric", allowed) for point in self.points]

    def _scores(self, value: Any) -> npt.NDArray[Any]:
        if self.normaliser == "constant" and value not in self.points:
            raise InvalidValueError("value", got="a value outside the space", allowed="one of the mechanism's points")
        return np.array([-distance for distance in self._distances(value)], dtype=object)

    def release(self, value: Any) -> Any:
        """Return a point near ``value``."""
        return self.points[noise.select(self._scores(value), 1 / self.alpha)]

    def probabilities(self, value: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each point, given the true value."""
        return chances(self._scores(value), 1 / self.alpha)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """Return α: with at least this probability the answer is at most α further away than the nearest point."""
        miss = 1 - confidence_level(confidence)
        rivals = len(self.points) - 1
        if not rivals:
            return 0.0
        if self.normaliser == "any":
            # Each of the n - 1 other points beyond α·ln((n-1)/β) has at most β/(n-1) of the nearest one's probability.
            return up(certified(lambda: ball(rivals / miss).log() * ball(self.alpha), bits=40))
        # Distances are alike around every point: their law around the first one is that around any, from the far end.
        away = self._distances(self.points[0])
        masses = chances(-np.array(away, dtype=object), 1 / self.alpha).tolist()
        beyond = 0.0
        for distance, p in sorted(zip(away, masses, strict=True), reverse=True):
            beyond += p
            if beyond * (1 + 1e-12) > miss:  # the sum of at most 4096 floats is right to 10⁻¹²
                return float_up(distance)
        return float_up(min(away))

    def bias(self, value: Any) -> float:
        """Return d₀ - E[d], the nearest point's distance less the mean distance of the answer."""
        return self._moments(value)[0]

    def variance(self, value: Any) -> float:
        """Return the variance of the answer's distance from ``value``."""
        return self._moments(value)[1]

    def _moments(self, value: Any) -> tuple[float, float]:
        return moments(self.probabilities(value), self._scores(value).tolist())
