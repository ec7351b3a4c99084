"""From Rényi and zero-concentrated guarantees to (ε, δ).

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
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hush.accounting.description import read_order
from hush.accounting.prices import best_order, conversion_cost, converted_delta, float_cost
from hush.core import Number, fraction_between, nonnegative
from hush.core.rounding import Ball, Bound, ball, certified, enclosure


def renyi_to_epsilon(alpha: Number, gamma: Number, *, delta: Number) -> Bound:
    """Return ε at ``delta`` of (α, γ)-Rényi DP by the best known conversion; the value is rounded up."""
    exact_order, loss, exact_delta = read_order(alpha), nonnegative(gamma, "gamma"), fraction_between(delta, "delta")
    return _at_least_zero(lambda: ball(loss) + conversion_cost(exact_order, ball(exact_delta).log()))


def renyi_to_epsilon_textbook(alpha: Number, gamma: Number, *, delta: Number) -> Bound:
    """Return ε at ``delta`` of (α, γ)-Rényi DP by Mironov's γ + ln(1/δ)/(α-1), rounded up."""
    exact_order, loss, exact_delta = read_order(alpha), nonnegative(gamma, "gamma"), fraction_between(delta, "delta")
    return _at_least_zero(lambda: ball(loss) - ball(exact_delta).log() / ball(exact_order - 1))


def renyi_to_delta(alpha: Number, gamma: Number, *, epsilon: Number) -> Bound:
    """Return δ at ``epsilon`` of (α, γ)-Rényi DP by the best known conversion, rounded up and at most 1."""
    exact_order, loss, target = read_order(alpha), nonnegative(gamma, "gamma"), nonnegative(epsilon, "epsilon")
    bound = enclosure(certified(lambda: converted_delta(exact_order, ball(loss), target)))
    return Bound(lower=min(bound.lower, 1.0), upper=min(bound.upper, 1.0))


def zcdp_to_epsilon(rho: Number, *, delta: Number) -> Bound:
    """Return ε at ``delta`` of ρ-zCDP by the best known conversion, at the best order; the value is rounded up."""
    cost, exact_delta = nonnegative(rho, "rho"), fraction_between(delta, "delta")
    if cost == 0:
        return Bound(lower=0.0, upper=0.0)
    # Any order gives a true bound: the float search decides how tight it is, the ball below whether it holds.
    chosen_order = best_order(lambda alpha: alpha * float(cost) + float_cost(alpha, exact_delta))
    return _at_least_zero(lambda: ball(chosen_order * cost) + conversion_cost(chosen_order, ball(exact_delta).log()))


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
    bound = enclosure(certified(lambda: converted_delta(chosen_order, ball(chosen_order * cost), target)))
    return Bound(lower=min(bound.lower, 1.0), upper=min(bound.upper, 1.0))


def _at_least_zero(value: Callable[[], Ball]) -> Bound:
    """Return the value's enclosure; a negative ε with this δ implies ε = 0."""
    for bits in (56, 0):  # close to zero no number of relative bits can be promised, and none is needed
        try:
            bound = enclosure(certified(value, bits=bits))
        except ArithmeticError:
            continue
        return Bound(lower=max(bound.lower, 0.0), upper=max(bound.upper, 0.0))
    raise AssertionError  # bits=0 asks for a finite ball only
