"""From Rényi and zero-concentrated guarantees to (ε, δ), and from one unit to a group.

Let L be the privacy loss, and E e^{(α-1)L} ≤ e^{(α-1)γ}: Rényi DP of order α > 1 (Mironov 2017). Then

    δ(ε) = E(1-e^{ε-L})₊ ≤ e^{(α-1)(γ-ε)} · (1-1/α)^{α-1}/α,

because (1-e^{-u})₊·e^{-(α-1)u} is largest where e^{-u} = 1-1/α (Canonne, Kamath, Steinke 2020, Proposition 12).
Solved for ε:

    ε(δ) = γ + ln(1-1/α) - (ln δ + ln α)/(α-1),

the best known conversion at one order (the exact optimum over all pairs, Asoodeh et al. 2021, keeps a second term
that matters only where (α-1)γ is of order one or less). The textbook's ε = γ + ln(1/δ)/(α-1) (Mironov) leaves out the
maximum. ρ-zCDP is γ = αρ at every order, so the best order may be chosen; the textbook's ρ + 2√(ρ·ln(1/δ)) (Bun,
Steinke 2016) is Mironov's conversion at its own best order.

Orders are chosen with floats, which decides how tight the result is, not whether it is true: the value at the chosen
order is formed with balls and rounded up.

>>> renyi_to_epsilon(10, 1, delta="1e-5")
1.918010636783972
>>> round(renyi_to_epsilon_textbook(10, 1, delta="1e-5"), 6)
2.279214
>>> zcdp_to_epsilon("0.5", delta="1e-6") < 5.221534444530223 < zcdp_to_epsilon_textbook("0.5", delta="1e-6")
True

**Group privacy.** A mechanism that protects one unit with (ε, δ) protects K units with (Kε, (e^{Kε}-1)/(e^ε-1)·δ):
along a chain of K neighbours the loss multiplies by e^ε at each link, and the geometric sum of the δ is attained. The
textbook K·e^{(K-1)ε}·δ bounds that sum by K times its largest term.

>>> tight, textbook = group(1, "1e-9", size=5), group_textbook(1, "1e-9", size=5)
>>> round(float(tight.delta * 10**9), 2), round(float(textbook.delta * 10**9), 1)
(85.79, 273.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from hush.accounting.description import group_delta
from hush.accounting.events.base import read_order
from hush.accounting.theorems.composition import ApproximateDP
from hush.core import Number, fraction_between, integer, nonnegative, probability
from hush.core.balls import Ball, ball, fraction_up
from hush.core.rounding import Bound, certified, enclosure, float_up


def conversion_cost(alpha: Fraction, delta: Fraction) -> Ball:
    """Return the summand of the best conversion at this order, ln(1-1/α) - (ln δ + ln α)/(α-1), as a ball."""
    return (-ball(1 / alpha)).log1p() - (ball(delta).log() + ball(alpha).log()) / ball(alpha - 1)


def renyi_to_epsilon(alpha: Number, gamma: Number, *, delta: Number) -> Bound:
    """Return ε at ``delta`` of (α, γ)-Rényi DP by the best known conversion; the value is rounded up."""
    exact_order, loss, exact_delta = read_order(alpha), nonnegative(gamma, "gamma"), fraction_between(delta, "delta")
    return _at_least_zero(lambda: ball(loss) + conversion_cost(exact_order, exact_delta))


def renyi_to_epsilon_textbook(alpha: Number, gamma: Number, *, delta: Number) -> Bound:
    """Return ε at ``delta`` of (α, γ)-Rényi DP by Mironov's γ + ln(1/δ)/(α-1), rounded up."""
    exact_order, loss, exact_delta = read_order(alpha), nonnegative(gamma, "gamma"), fraction_between(delta, "delta")
    return _at_least_zero(lambda: ball(loss) - ball(exact_delta).log() / ball(exact_order - 1))


def renyi_to_delta(alpha: Number, gamma: Number, *, epsilon: Number) -> Bound:
    """Return δ at ``epsilon`` of (α, γ)-Rényi DP by the best known conversion, rounded up and at most 1."""
    exact_order, loss, target = read_order(alpha), nonnegative(gamma, "gamma"), nonnegative(epsilon, "epsilon")
    bound = enclosure(certified(lambda: renyi_delta_ball(exact_order, ball(loss), target)))
    return Bound(lower=min(bound.lower, 1.0), upper=min(bound.upper, 1.0))


def renyi_delta_ball(alpha: Fraction, gamma: Ball, epsilon: Fraction) -> Ball:
    """Return e^{(α-1)(γ-ε)}·(1-1/α)^{α-1}/α as a ball."""
    # (1-1/α)^{α-1} goes into the exponent as (α-1)·ln(1-1/α), by log1p, which keeps its digits for large α.
    exponent = ball(alpha - 1) * (gamma - ball(epsilon) + (-ball(1 / alpha)).log1p())
    return exponent.exp() / ball(alpha)


def zcdp_to_epsilon(rho: Number, *, delta: Number) -> Bound:
    """Return ε at ``delta`` of ρ-zCDP by the best known conversion, at the best order; the value is rounded up."""
    cost, exact_delta = nonnegative(rho, "rho"), fraction_between(delta, "delta")
    if cost == 0:
        return Bound(lower=0.0, upper=0.0)
    # Any order gives a true bound: the float search decides how tight it is, the ball below whether it holds.
    chosen_order = best_order(lambda alpha: alpha * float(cost) + float_cost(alpha, exact_delta))
    return _at_least_zero(lambda: ball(chosen_order * cost) + conversion_cost(chosen_order, exact_delta))


def zcdp_to_epsilon_textbook(rho: Number, *, delta: Number) -> Bound:
    """Return ε at ``delta`` of ρ-zCDP by Bun and Steinke's ρ + 2√(ρ·ln(1/δ)), rounded up."""
    cost, exact_delta = nonnegative(rho, "rho"), fraction_between(delta, "delta")
    return _at_least_zero(lambda: ball(cost) + 2 * (-ball(cost) * ball(exact_delta).log()).sqrt())


def zcdp_to_delta(rho: Number, *, epsilon: Number) -> Bound:
    """Return δ at ``epsilon`` of ρ-zCDP by the best known conversion, rounded up and at most 1."""
    cost, target = nonnegative(rho, "rho"), nonnegative(epsilon, "epsilon")
    if cost == 0:
        return Bound(lower=0.0, upper=0.0)

    def exponent(alpha: float) -> float:
        return (alpha - 1) * (alpha * float(cost) - float(target) + math.log1p(-1 / alpha)) - math.log(alpha)

    chosen_order = best_order(exponent)  # a float search; the bound at this order is certified below
    bound = enclosure(certified(lambda: renyi_delta_ball(chosen_order, ball(chosen_order * cost), target)))
    return Bound(lower=min(bound.lower, 1.0), upper=min(bound.upper, 1.0))


def float_cost(alpha: float, delta: Fraction) -> float:
    """Return the conversion's cost in floats, for the choice of an order only."""
    logarithm = math.log(delta.numerator) - math.log(delta.denominator)
    return math.log1p(-1 / alpha) - (logarithm + math.log(alpha)) / (alpha - 1)


def best_order(
    objective: Callable[[float], float],
    *,
    lowest: float = 1e-6,
    highest: float = 1e9,
    digits: int = 10,
    grid: int = 128,
    rounds: int = 60,
) -> Fraction:
    """Return a short rational α near the minimum of a float function of α on 1 + [lowest, highest].

    A scan in ln(α-1) finds the valley, golden section its floor. The result has ``digits`` significant digits of α-1.
    """
    low, high = math.log(lowest), math.log(highest)

    def at(position: float) -> float:
        value = objective(1 + math.exp(position))
        return value if value == value else math.inf  # noqa: PLR0124 - NaN is no minimum

    points = [low + (high - low) * i / grid for i in range(grid + 1)]
    values = [at(point) for point in points]
    best = values.index(min(values))
    first, last = points[max(best - 1, 0)], points[min(best + 1, grid)]
    ratio = (math.sqrt(5) - 1) / 2
    inner, outer = last - ratio * (last - first), first + ratio * (last - first)
    at_inner, at_outer = at(inner), at(outer)
    for _ in range(rounds):
        if at_inner <= at_outer:
            last, outer, at_outer = outer, inner, at_inner
            inner = last - ratio * (last - first)
            at_inner = at(inner)
        else:
            first, inner, at_inner = inner, outer, at_outer
            outer = first + ratio * (last - first)
            at_outer = at(outer)
    return 1 + Fraction(f"{math.exp((first + last) / 2):.{digits - 1}e}")


def _at_least_zero(value: Callable[[], Ball]) -> Bound:
    """Return the value's enclosure; a negative ε with this δ implies ε = 0."""
    for bits in (56, 0):  # close to zero no number of relative bits can be promised, and none is needed
        try:
            bound = enclosure(certified(value, bits=bits))
        except ArithmeticError:
            continue
        return Bound(lower=max(bound.lower, 0.0), upper=max(bound.upper, 0.0))
    raise AssertionError  # bits=0 asks for a finite ball only


def _read_group(epsilon: Number, delta: Number, size: int) -> tuple[Fraction, Fraction, int]:
    """Return the guarantee for one unit and the number of units, as exact numbers."""
    return nonnegative(epsilon, "epsilon"), probability(delta, "delta"), integer(size, "size", minimum=1)


def group(epsilon: Number, delta: Number, *, size: int) -> ApproximateDP:
    """Return the tight guarantee for ``size`` units: (Kε, (e^{Kε}-1)/(e^ε-1)·δ), δ rounded up and at most 1."""
    unit_epsilon, exact_delta, units = _read_group(epsilon, delta, size)
    grown = group_delta(unit_epsilon, exact_delta, units)
    exact = units == 1 or not exact_delta or not unit_epsilon
    return ApproximateDP(units * unit_epsilon, grown if exact else _at_most_one(grown))


def group_textbook(epsilon: Number, delta: Number, *, size: int) -> ApproximateDP:
    """Return the textbook guarantee for ``size`` units: (Kε, K·e^{(K-1)ε}·δ), δ rounded up and at most 1."""
    unit_epsilon, exact_delta, units = _read_group(epsilon, delta, size)
    if exact_delta == 0 or units == 1:
        return ApproximateDP(units * unit_epsilon, exact_delta)
    factor = certified(lambda: units * ball((units - 1) * unit_epsilon).exp())
    return ApproximateDP(units * unit_epsilon, _at_most_one(fraction_up(factor) * exact_delta))


def _at_most_one(delta: Fraction) -> Fraction:
    """Return the smallest float above δ as a rational, at most 1: short, and on the safe side."""
    return Fraction(1) if delta >= 1 else Fraction(float_up(delta))
