"""Sums, maxima and multiples: sequential and parallel composition, and groups.

*Sequential* (Dwork, McSherry, Nissim, Smith 2006; adaptive too): the sums Σεᵢ and Σδᵢ. Exact rationals, nothing is
rounded.

*Parallel* (McSherry 2009): steps that each look at one of several disjoint parts cost their maximum, but only when
neighbouring data sets differ in one part. Replacing a unit can move it from one part to another, which changes two
parts, so it costs the two largest.

*Group*: what protects one unit with (ε, δ) protects K units with (Kε, (e^{Kε}-1)/(e^ε-1)·δ): along a chain of K
neighbours the loss multiplies by e^ε at each link, and the geometric sum of the δ is attained. The textbook
K·e^{(K-1)ε}·δ bounds that sum by K times its largest term.

>>> basic([("0.1", 0)] * 10)
ApproximateDP(epsilon=Fraction(1, 1), delta=Fraction(0, 1))
>>> parallel([(1, 0), (1, 0)], neighbours="add-remove", partition="value").epsilon
Fraction(1, 1)
>>> parallel([(1, 0), (1, 0)], neighbours="replace", partition="value").epsilon
Fraction(2, 1)
>>> tight, textbook = group(1, "1e-9", size=5), group_textbook(1, "1e-9", size=5)
>>> round(float(tight.delta * 10**9), 2), round(float(textbook.delta * 10**9), 1)
(85.79, 273.0)
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from hush.core import InvalidValueError, Neighbours, Number, integer, nonnegative, probability
from hush.core.balls import ball, fraction_up
from hush.core.rounding import certified, float_up

Pairs = Iterable[tuple[Number, Number] | tuple[Number, Number, int]]
"""Steps as (ε, δ), or as (ε, δ, how often)."""


class ApproximateDP(NamedTuple):
    """An (ε, δ) guarantee with exact numbers; both are upper bounds."""

    epsilon: Fraction
    delta: Fraction


def tally(steps: Pairs) -> list[tuple[Fraction, Fraction, int]]:
    """Return the distinct (ε, δ) of the steps with how often each occurs; refuse an empty list and bad numbers.

    >>> tally([("0.1", 0), ("0.1", 0), (1, "1e-6")])
    [(Fraction(1, 10), Fraction(0, 1), 2), (Fraction(1, 1), Fraction(1, 1000000), 1)]
    """
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


class Partition(Enum):
    """What decides to which part of the data a unit belongs."""

    VALUE = "value"
    """What its one record holds: the patients of one region. Replacing the unit may move it."""
    INDEX = "index"
    """The position of its record in a table of public size. Replacing the record leaves the position as it is."""
    UNIT = "unit"
    """Who the unit is, by a rule that looks at nothing else: a hash of the patient number."""

    @classmethod
    def parse(cls, value: object) -> Partition:
        """Return the kind of partition named by ``value``."""
        if isinstance(value, cls):
            return value
        for kind in cls:
            if value == kind.value:
                return kind
        raise InvalidValueError("partition", got=value, allowed=", ".join(repr(kind.value) for kind in cls))


def basic(steps: Pairs) -> ApproximateDP:
    """Return (Σεᵢ, Σδᵢ), which holds for steps chosen adaptively as well. A δ of one or more says nothing: it is 1."""
    pairs = tally(steps)
    epsilon = sum((count * epsilon for epsilon, _, count in pairs), Fraction(0))
    delta = sum((count * delta for _, delta, count in pairs), Fraction(0))
    return ApproximateDP(epsilon, min(delta, Fraction(1)))


def parallel(steps: Pairs, *, neighbours: Neighbours | str, partition: Partition | str) -> ApproximateDP:
    """Return the cost of one step on each of several disjoint parts that together hold every unit at most once.

    ============  ================  ==================================
    partition     add-remove        replace
    ============  ================  ==================================
    value         the largest       the two largest: the unit may move
    unit          the largest       the two largest: another unit comes
    index         refused           the largest: the position stays
    ============  ================  ==================================

    Under add-remove a partition by position is refused: when a row goes, all later rows move up, through every part.

    Where a unit may move, each (εᵢ, δᵢ) must hold both when a unit joins or leaves part i and when one is replaced
    inside it. All records of a unit must lie in one part; if they do not, compose sequentially.
    """
    relation, kind = Neighbours.parse(neighbours), Partition.parse(partition)
    if kind is Partition.INDEX and relation is Neighbours.ADD_REMOVE:
        raise InvalidValueError(
            "partition",
            got=kind.value,
            allowed="'value' or 'unit' when units are added or removed",
            hint="A row that comes or goes shifts the position of every later row, so all parts may change.",
        )
    touched = 1 if kind is Partition.INDEX else relation.units_touched
    pairs = tally(steps)
    epsilons = sorted((epsilon for epsilon, _, count in pairs for _ in range(min(count, touched))), reverse=True)
    deltas = sorted((delta for _, delta, count in pairs for _ in range(min(count, touched))), reverse=True)
    return ApproximateDP(sum(epsilons[:touched], Fraction(0)), min(sum(deltas[:touched], Fraction(0)), Fraction(1)))


def group(epsilon: Number, delta: Number, *, size: int) -> ApproximateDP:
    """Return the tight guarantee for ``size`` units: (Kε, (e^{Kε}-1)/(e^ε-1)·δ), δ rounded up and at most 1."""
    one, slip, units = nonnegative(epsilon, "epsilon"), probability(delta, "delta"), integer(size, "size", minimum=1)
    if slip == 0 or units == 1:
        return ApproximateDP(units * one, slip)
    if one == 0:
        return ApproximateDP(Fraction(0), min(units * slip, Fraction(1)))
    factor = certified(lambda: ball(units * one).expm1() / ball(one).expm1())
    return ApproximateDP(units * one, _at_most_one(fraction_up(factor) * slip))


def group_textbook(epsilon: Number, delta: Number, *, size: int) -> ApproximateDP:
    """Return the textbook guarantee for ``size`` units: (Kε, K·e^{(K-1)ε}·δ), δ rounded up and at most 1."""
    one, slip, units = nonnegative(epsilon, "epsilon"), probability(delta, "delta"), integer(size, "size", minimum=1)
    if slip == 0 or units == 1:
        return ApproximateDP(units * one, slip)
    factor = certified(lambda: units * ball((units - 1) * one).exp())
    return ApproximateDP(units * one, _at_most_one(fraction_up(factor) * slip))


def _at_most_one(delta: Fraction) -> Fraction:
    """Return the smallest float above δ as a rational, at most 1: short, and on the safe side."""
    return Fraction(1) if delta >= 1 else Fraction(float_up(delta))
