"""Advanced composition: ε grows with the square root of the number of steps, at the price of a little δ.

A step that is (εᵢ, δᵢ)-DP simulates as: with probability δᵢ reveal everything, else randomized response with εᵢ, whose
privacy loss is ±εᵢ with mean εᵢ·tanh(εᵢ/2). The sum of the losses concentrates round the sum of the means (Hoeffding,
for martingales Azuma, so steps with *fixed* εᵢ may be chosen adaptively), and with T = 2·ln(1/δ')·Σεᵢ²

* Dwork, Rothblum, Vadhan 2010: √T + Σ εᵢ(e^{εᵢ}-1), with δ' + Σδᵢ in all;
* Kairouz, Oh, Viswanath 2015, Theorem 3.5: Σεᵢ, or √T + Σ εᵢ·tanh(εᵢ/2), or the same with ln(e + √Σεᵢ²/δ') in the place
  of ln(1/δ'), whichever is least, with 1-(1-δ')·Π(1-δᵢ) in all.

Here the *total* δ is given and the slack δ' is what the steps leave of it, so that theorems can be compared.

>>> steps = [("0.1", 0)] * 100
>>> round(advanced(steps, delta="1e-6"), 4), round(advanced_improved(steps, delta="1e-6"), 4)
(6.3082, 5.7561)
"""

from __future__ import annotations

from fractions import Fraction

from hush.accounting.theorems.basic import Pairs, tally
from hush.core import InvalidValueError, Number, fraction_between
from hush.core.balls import Ball, ball, flint
from hush.core.rounding import Bound, certified, enclosure


def advanced(steps: Pairs, *, delta: Number) -> Bound:
    """Return ε at a total of ``delta`` by Dwork, Rothblum and Vadhan, rounded up."""
    pairs, total = tally(steps), fraction_between(delta, "delta")
    slack = total - sum((count * own for _, own, count in pairs), Fraction(0))
    if slack <= 0:
        raise nothing_left(delta, total - slack)
    squares = sum((count * epsilon**2 for epsilon, _, count in pairs), Fraction(0))
    if squares == 0:
        return Bound(lower=0.0, upper=0.0)

    def value() -> Ball:
        drift = sum((count * ball(epsilon) * ball(epsilon).expm1() for epsilon, _, count in pairs), flint().arb(0))
        return (-2 * ball(slack).log() * ball(squares)).sqrt() + drift

    return enclosure(certified(value))


def advanced_improved(steps: Pairs, *, delta: Number) -> Bound:
    """Return ε at a total of ``delta`` by Theorem 3.5 of Kairouz, Oh and Viswanath, rounded up."""
    pairs, total = tally(steps), fraction_between(delta, "delta")
    squares = sum((count * epsilon**2 for epsilon, _, count in pairs), Fraction(0))
    if squares == 0:
        certified(lambda: slack_of(pairs, total, delta), bits=1)
        return Bound(lower=0.0, upper=0.0)

    def value() -> Ball:
        slack = slack_of(pairs, total, delta)
        drift = sum((count * ball(epsilon) * (ball(epsilon) / 2).tanh() for epsilon, _, count in pairs), flint().arb(0))
        plain = sum((count * epsilon for epsilon, _, count in pairs), Fraction(0))
        hoeffding = (-2 * slack.log() * ball(squares)).sqrt()
        other = (2 * ball(squares) * (flint().arb(1).exp() + ball(squares).sqrt() / slack).log()).sqrt()
        return ball(plain).min(drift + hoeffding.min(other))

    return enclosure(certified(value))


def slack_of(pairs: list[tuple[Fraction, Fraction, int]], total: Fraction, shown: object) -> Ball:
    """Return δ' with 1-(1-δ')·Π(1-δᵢ) = δ, as a ball; refuse when the steps' own δ leave nothing.

    Solved as δ' = (δ - s)/(1 - s) with s = 1-Π(1-δᵢ) = -expm1(Σ ln(1-δᵢ)), which is free of cancellation but for δ - s.
    """
    if any(own >= total for _, own, _ in pairs):
        raise nothing_left(shown, max(own for _, own, _ in pairs))
    logarithm = sum((count * (-ball(own)).log1p() for _, own, count in pairs if own), flint().arb(0))
    spent = -logarithm.expm1()
    if spent >= ball(total):
        raise nothing_left(shown, None)
    return (ball(total) - spent) / (1 - spent)


def nothing_left(shown: object, spent: Fraction | None) -> InvalidValueError:
    """Return the refusal of a δ that the steps use up by themselves."""
    figure = "" if spent is None else f", which is {float(spent):.6g} or more"
    return InvalidValueError(
        "delta", got=shown, allowed=f"above what the steps spend by themselves{figure}, and below 1"
    )
