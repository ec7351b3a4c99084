"""Steps given as (ε, δ) pairs: the only thing the composition theorems know about a mechanism.

>>> tally([("0.1", 0), ("0.1", 0), (1, "1e-6")])
[(Fraction(1, 10), Fraction(0, 1), 2), (Fraction(1, 1), Fraction(1, 1000000), 1)]
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from hush.core import InvalidValueError, Number, integer, nonnegative, probability

Pairs = Iterable[tuple[Number, Number] | tuple[Number, Number, int]]
"""Steps as (ε, δ), or as (ε, δ, how often)."""


class ApproximateDP(NamedTuple):
    """An (ε, δ) guarantee with exact numbers; both are upper bounds."""

    epsilon: Fraction
    delta: Fraction


def tally(steps: Pairs) -> list[tuple[Fraction, Fraction, int]]:
    """Return the distinct (ε, δ) of the steps with how often each occurs; refuse an empty list and bad numbers."""
    seen: dict[object, tuple[Fraction, Fraction]] = {}
    counts: dict[tuple[Fraction, Fraction], int] = {}
    for step in steps:
        if not isinstance(step, tuple) or len(step) not in {2, 3}:
            raise InvalidValueError("steps", got=step, allowed="pairs (epsilon, delta), or (epsilon, delta, count)")
        times = integer(step[2], "count", minimum=1) if len(step) == 3 else 1
        key = (*map(type, step[:2]), *step[:2])
        if key not in seen:  # a million equal steps are read once
            seen[key] = (nonnegative(step[0], "epsilon"), probability(step[1], "delta"))
        counts[seen[key]] = counts.get(seen[key], 0) + times
    if not counts:
        raise InvalidValueError("steps", got=[], allowed="at least one pair (epsilon, delta)")
    return [(epsilon, delta, count) for (epsilon, delta), count in counts.items()]
