r"""ε and δ in plain words.

**ε as odds.** Whatever is released, the odds of a suspicion about one person change by a factor of at most e^ε: a
suspicion of p becomes at most e^ε·p/(1 - p + e^ε·p). At ε = 1 that takes 1 in 2 to 74 in 100 at most, and 1 in 100 to
3 in 100.

**δ as an accident.** A mechanism that publishes each row outright with probability δ is (0, δ)-DP. Among n people it
exposes somebody with probability 1-(1-δ)ⁿ, so δ must be far below 1/n.

>>> print(plain(1))
With ε = 1, a suspicion of 50 in 100 about one person becomes at most 74 in 100
and at least 26 in 100, whatever is published.
>>> print(plain(0.1, delta="1e-3", size=1000))
With ε = 0.1, a suspicion of 50 in 100 about one person becomes at most 53 in 100
and at least 47 in 100, whatever is published.
With δ = 0.001 this may fail: at worst somebody among 1000 people is exposed with a chance of 64 in 100.
δ should be below 1/1000; 0.0005 is a good choice.
>>> round(posterior(1, prior="0.01"), 4)
0.0267
"""

from __future__ import annotations

import math
from fractions import Fraction

from hush.core import Number, fraction_between, integer, nonnegative, probability
from hush.core.balls import ball, fraction_up
from hush.core.rounding import certified, float_up
from hush.mechanisms.estimators.base import propose_delta


def posterior(epsilon: Number, *, prior: Number = Fraction(1, 2)) -> float:
    """Return the largest probability that a suspicion of ``prior`` can become, rounded up."""
    p, at = fraction_between(prior, "prior"), nonnegative(epsilon, "epsilon")
    return min(1.0, float_up(fraction_up(certified(lambda: 1 / (1 + ball((1 - p) / p) * (-ball(at)).exp())))))


def exposure(delta: Number, size: int) -> float:
    """Return 1-(1-δ)ⁿ, rounded up: the chance that name-and-shame exposes somebody."""
    slip, n = probability(delta, "delta"), integer(size, "size", minimum=1)
    if slip in {0, 1}:
        return float(slip)
    return float_up(fraction_up(certified(lambda: -((1 - ball(slip)).log() * n).expm1())))


def plain(epsilon: Number, *, delta: Number = 0, size: int | None = None, prior: Number = Fraction(1, 2)) -> str:
    """Return what ε, and δ among ``size`` people, mean for one person."""
    at, slip, p = nonnegative(epsilon, "epsilon"), probability(delta, "delta"), fraction_between(prior, "prior")
    most, least = posterior(at, prior=p), 1 - posterior(at, prior=1 - p)
    text = (
        f"With ε = {float(at):g}, a suspicion of {_share(float(p))} about one person becomes at most "
        f"{_share(most)}\nand at least {_share(least, down=True)}, whatever is published."
    )
    if not slip:
        return text
    if size is None:
        return (
            f"{text}\nWith δ = {float(slip):g} this may fail with a chance of {float(slip):g}. "
            "δ should be far below one in the number of people; 1e-6 where that is private."
        )
    n = integer(size, "size", minimum=1)
    text += (
        f"\nWith δ = {float(slip):g} this may fail: at worst somebody among {n} people is exposed with a "
        f"chance of {_share(exposure(slip, n))}."
    )
    if slip * n >= 1:
        text += f"\nδ should be below 1/{n}; {float(propose_delta(max(n, 2))):g} is a good choice."
    return text


def _share(p: float, *, down: bool = False) -> str:
    """Return "x in 100", rounded up (or down); in more parts where a hundred are too few to tell it from 0 or 1."""
    parts = 100
    while True:
        x = math.floor(p * parts + 1e-9) if down else math.ceil(p * parts - 1e-9)
        if 0 < x < parts or parts >= 10**9 or p in {0.0, 1.0}:
            return f"{x} in {parts}"
        parts *= 10
