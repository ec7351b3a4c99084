"""Inverse problems: the noise that a promise needs, the number of queries it allows, and its best split.

Every answer is a decimal (or a count) at which the certified accountant itself was asked, and said yes: the upper end
of ε(δ) is at most the target. It is the smallest (or largest) decimal of twelve digits with that property, so more ε
never gives more noise.

A *family* is an event class with one noise parameter, or any class with ``with_noise(noise, *, sensitivity)`` that
returns something with an ``event``: the mechanisms do.

>>> from hush.accounting import GaussianEvent, LaplaceEvent
>>> calibrate(LaplaceEvent, count=10, epsilon=1).scale
Fraction(10, 1)
>>> round(float(calibrate(GaussianEvent, epsilon=1, delta="1e-6").sigma_squared) ** 0.5, 6)
4.224679
>>> largest_count(LaplaceEvent(scale=10, sensitivity=1), epsilon=1)
10

A training run by stochastic gradients: 1,000 steps, each on a Poisson sample of one hundredth of the units.

>>> from hush.accounting import PoissonGaussianEvent
>>> run = calibrate(PoissonGaussianEvent, rate="0.01", count=1000, epsilon=1, delta="1e-6")
>>> round(float(run.sigma_squared) ** 0.5, 3)                                # the noise multiplier
1.563
>>> [float(event.scale) for event in best_split(LaplaceEvent, sensitivities=[1, 8], epsilon=1)]
[5.0, 10.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from hush.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PoissonLaplaceEvent,
    RandomizedResponseEvent,
)
from hush.accounting.events.base import as_event
from hush.accounting.guarantee import compose
from hush.accounting.prices import pure_price
from hush.core import InvalidValueError, Number, integer, nonnegative, positive, probability
from hush.core.errors import members
from hush.core.rounding import falling_root, short_up, smallest_decimal

_NOISE_DIGITS = 12
_SAMPLED_NOISE_DIGITS = 6
"""Digits of the noise of sampled events: their ε takes a hundred times as long to certify."""
_MAX_EVENTS = 10**15
_LOSS_POWERS = (1.0, 1.25, 1.5, 1.75, 2.0)
"""The powers p of a joint loss Σ(Δᵢ/nᵢ)^p that a split is tried for: from pure steps (1) to Gaussian ones (2)."""

_NOISE: dict[type[Any], str] = {
    GaussianEvent: "sigma",
    LaplaceEvent: "scale",
    DiscreteGaussianEvent: "sigma",
    DiscreteLaplaceEvent: "scale",
    PoissonGaussianEvent: "sigma",
    PoissonLaplaceEvent: "scale",
}
"""Event classes by the parameter that is their noise; that of randomized response is 1/ε."""
_SAMPLED = (PoissonGaussianEvent, PoissonLaplaceEvent)
"""Event classes that also need the share of the units that takes part in a step."""


def calibrate(
    family: type[Any],
    *,
    epsilon: Number,
    delta: Number = 0,
    count: int = 1,
    sensitivity: Number = 1,
    rate: Number | None = None,
) -> Any:
    """Return the family's member with the least noise at which ``count`` copies are together (ε, δ)-DP. Certified.

    Events on Poisson samples (:class:`.PoissonGaussianEvent`, a step of DP-SGD) need the sampling ``rate``; their noise
    has six digits, that of the others twelve.

    >>> import hush
    >>> round(float(hush.calibrate(hush.Gaussian, count=100, epsilon=1, delta="1e-6").sigma), 3)
    42.247
    """
    target, exact_delta = _target(epsilon, delta)
    times, exact_sensitivity = integer(count, "count", minimum=1), positive(sensitivity, "sensitivity")
    make = _maker(family, rate)
    digits = _NOISE_DIGITS if rate is None else _SAMPLED_NOISE_DIGITS
    noise = _least(
        lambda noise: [as_event(make(noise, exact_sensitivity), "family")], times, target, exact_delta, digits=digits
    )
    return make(noise, exact_sensitivity)


def largest_count(event: Any, *, epsilon: Number, delta: Number = 0) -> int:
    """Return the largest number of copies of an event (or mechanism) that are together (ε, δ)-DP, or 0. Certified.

    An estimate of ε says where to look; the accountant is asked there, and beyond.

    >>> largest_count(GaussianEvent(sigma=30), epsilon=1, delta="1e-6")
    50
    """
    target, exact_delta = _target(epsilon, delta)
    step = as_event(event, "event")
    if exact_delta == 0:
        loss, mass = pure_price(step)
        if mass or loss > target:
            return 0
        # Pure losses add up exactly, so the count is a quotient. A step without loss would fit without end.
        _check_count(target / loss if loss else _MAX_EVENTS, epsilon)
        return int(target // loss)
    single = compose([step])

    def needs(count: int) -> float:
        return (single * count).epsilon(exact_delta, strict=False).upper

    near = _likely_count(lambda count: (single * count).likely_epsilon(exact_delta), target)
    if isinstance(step, _SAMPLED):  # estimates are poor for rare samples: the accountant itself is asked a few times
        near = _likely_count(needs, target, near=near)
    # From the estimate: down in doubling strides until a count fits, or up until one does not; then bisection.
    # Every end that moves was certified, so a poor estimate costs time and nothing else.
    low, high, stride = near, near + 1, 1
    while low and not _within(needs(low), target):
        low, high, stride = max(0, low - stride), low, 2 * stride
    while high > near and _within(needs(high), target):
        low, high, stride = high, high + 2 * stride, 2 * stride
        _check_count(high, epsilon)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _within(needs(middle), target) else (low, middle)
    return low


def _likely_count(needs: Callable[[int], float], epsilon: Fraction, *, near: float = 1.0) -> int:
    """Return an estimate of the count that needs ε: quick, and not relied upon."""

    def whole(count: float) -> int:
        return max(1, round(min(count, _MAX_EVENTS)))

    if not epsilon:
        return 1
    count, _ = falling_root(lambda x: -_log_ratio(needs(whole(x)), epsilon), near, slope=1 / near, tolerance=0.01)
    return whole(count)


def _check_count(count: int | Fraction, epsilon: Number) -> None:
    if count >= _MAX_EVENTS:
        raise InvalidValueError("epsilon", got=epsilon, allowed=f"one that fewer than {_MAX_EVENTS:.0e} events exhaust")


def best_split(
    family: type[Any],
    *,
    sensitivities: Sequence[Number],
    epsilon: Number,
    delta: Number = 0,
    weights: Sequence[Number] | None = None,
    objective: str = "variance",
) -> list[Any]:
    """Return one member of the family per query, together (ε, δ)-DP, that share the budget best.

    ``objective="variance"`` makes Σ weightᵢ·noiseᵢ² least, ``"maximum"`` the largest weightᵢ·noiseᵢ. The privacy is
    certified. The split is optimal for Gaussian noise, whose joint loss depends on Σ(Δᵢ/σᵢ)² alone, for pure steps,
    whose loss is Σ Δᵢ/bᵢ, and for "maximum" always; else it is the best of a few between these two.

    With a joint loss of Σ(Δᵢ/nᵢ)^p the least Σ wᵢnᵢ² has nᵢ proportional to (Δᵢ^p/wᵢ)^{1/(p+2)}, by Lagrange.

    >>> import hush
    >>> from hush.accounting import LaplaceEvent
    >>> [float(event.scale) for event in hush.best_split(LaplaceEvent, sensitivities=[1, 8], epsilon=1)]
    [5.0, 10.0]
    """
    target, exact_delta = _target(epsilon, delta)
    values = members(sensitivities, "sensitivities", allowed="a list of positive numbers")
    exact_sensitivities = [positive(value, "sensitivities") for value in values]
    importance = (
        [Fraction(1)] * len(exact_sensitivities)
        if weights is None
        else [positive(value, "weights") for value in weights]
    )
    if not exact_sensitivities or len(importance) != len(exact_sensitivities):
        raise InvalidValueError("weights", got=len(importance), allowed="one for each of at least one sensitivity")
    if objective not in {"variance", "maximum"}:
        raise InvalidValueError("objective", got=objective, allowed="'variance' or 'maximum'")
    make = _maker(family)

    def scaled(shape: list[Fraction]) -> list[Fraction]:
        def noises(factor: Fraction) -> list[Fraction]:
            # Rounded up first, and certified as rounded: the events that are returned have exactly these noises.
            return [short_up(factor * share, digits=_NOISE_DIGITS) for share in shape]

        def events(factor: Fraction) -> list[Event]:
            return [
                as_event(make(noise, sensitivity), "family")
                for noise, sensitivity in zip(noises(factor), exact_sensitivities, strict=True)
            ]

        return noises(_least(events, 1, target, exact_delta))

    if objective == "maximum":
        best = scaled([1 / weight for weight in importance])  # all weightᵢ·noiseᵢ are equal at the optimum
    else:
        powers = (1.0,) if exact_delta == 0 else (2.0,) if family is GaussianEvent else _LOSS_POWERS
        shapes = [
            [
                _shape(sensitivity, weight, power)
                for sensitivity, weight in zip(exact_sensitivities, importance, strict=True)
            ]
            for power in powers
        ]
        # Each candidate is private by itself; the objective only chooses between them.
        best = min(
            (scaled(shape) for shape in shapes),
            key=lambda noises: sum(w * n**2 for w, n in zip(importance, noises, strict=True)),
        )
    return [make(noise, sensitivity) for noise, sensitivity in zip(best, exact_sensitivities, strict=True)]


def _shape(sensitivity: Fraction, weight: Fraction, power: float) -> Fraction:
    """Return (Δ^p/w)^{1/(p+2)} to twelve digits; it steers the split, not its privacy."""
    logarithm = power * _log(sensitivity) - _log(weight)
    return Fraction(f"{math.exp(logarithm / (power + 2)):.{_NOISE_DIGITS - 1}e}")


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _target(epsilon: Number, delta: Number) -> tuple[Fraction, Fraction]:
    target, exact_delta = nonnegative(epsilon, "epsilon"), probability(delta, "delta")
    if exact_delta == 1 or (target == 0 and exact_delta == 0):
        raise InvalidValueError("delta", got=delta, allowed="below 1, and positive where epsilon is zero")
    return target, exact_delta


def _within(upper: float, epsilon: Fraction) -> bool:
    return math.isfinite(upper) and Fraction(upper) <= epsilon  # a float is an exact rational: nothing is rounded


def _least(
    events: Callable[[Fraction], list[Event]],
    count: int,
    epsilon: Fraction,
    delta: Fraction,
    *,
    digits: int = _NOISE_DIGITS,
) -> Fraction:
    """Return the smallest decimal noise at which ``count`` repetitions of the events are certainly (ε, δ)-DP."""
    if delta == 0:  # pure promises are sums of exact rationals

        def fits(noise: Fraction) -> bool:
            prices = [pure_price(event) for event in events(noise)]
            return count * sum(loss for loss, _ in prices) <= epsilon and not any(mass for _, mass in prices)

        return smallest_decimal(fits, digits=digits)
    upper_ends: dict[Fraction, float] = {}

    def needs(noise: Fraction) -> float:
        """Return the certified ε of this noise at δ, computed once for each noise."""
        if noise not in upper_ends:
            upper_ends[noise] = (compose(events(noise)) * count).epsilon(delta, strict=False).upper
        return upper_ends[noise]

    def likely(noise: Fraction) -> float:
        return (compose(events(noise)) * count).likely_epsilon(delta)

    near = None
    if epsilon:  # estimates cost little, and say where the accountant is worth asking
        near = _guess(needs, _guess(likely, Fraction(1), epsilon, near=0.2), epsilon, near=10.0 ** (-1 - digits))
    return smallest_decimal(lambda noise: _within(needs(noise), epsilon), digits=digits, near=near)


def _guess(needs: Callable[[Fraction], float], start: Fraction, epsilon: Fraction, *, near: float) -> Fraction:
    """Return a noise close to the least one: a starting point that saves calls of the accountant."""

    def excess(noise: float) -> float:
        return _log_ratio(needs(short_up(Fraction(noise))), epsilon) if noise else math.inf

    noise, _ = falling_root(excess, float(start), slope=1 / float(start), tolerance=near)
    return short_up(Fraction(noise))


def _log_ratio(upper: float, epsilon: Fraction) -> float:
    return math.log(max(upper, 1e-300)) - _log(epsilon)


def _maker(family: type[Any], rate: Number | None = None) -> Callable[[Fraction, Fraction], Any]:
    sample: dict[str, Any] = {}
    if family in _SAMPLED:
        if rate is None:
            allowed = "the share of the units in a step's sample, such as '0.01'"
            raise InvalidValueError("rate", got=None, allowed=allowed)
        sample["rate"] = probability(rate, "rate")
    elif rate is not None:
        names = ", ".join(kind.__name__ for kind in _SAMPLED)
        raise InvalidValueError("rate", got=rate, allowed=f"only for {names}; leave it out")
    if hasattr(family, "with_noise"):
        return lambda noise, sensitivity: family.with_noise(noise, sensitivity=sensitivity)
    if family is RandomizedResponseEvent:
        return lambda noise, sensitivity: RandomizedResponseEvent(epsilon=sensitivity / noise)
    if family in _NOISE:
        parameter = _NOISE[family]
        return lambda noise, sensitivity: family(**{parameter: noise}, sensitivity=sensitivity, **sample)
    families: tuple[type[Any], ...] = (*_NOISE, RandomizedResponseEvent)
    names = ", ".join(kind.__name__ for kind in families)
    raise InvalidValueError("family", got=family, allowed=f"a mechanism with one noise parameter, or one of {names}")
