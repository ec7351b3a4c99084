"""The theorems of composition and of groups, for steps known by (ε, δ) alone.

**Sums and maxima: sequential and parallel composition.**

*Sequential* (Dwork, McSherry, Nissim, Smith 2006; adaptive too): the sums Σεᵢ and Σδᵢ. Exact rationals, nothing is
rounded.

*Parallel* (McSherry 2009): steps that each look at one of several disjoint parts cost their maximum, but only when
neighbouring data sets differ in one part. Replacing a unit can move it from one part to another, which changes two
parts, so it costs the two largest.

>>> basic([("0.1", 0)] * 10)
ApproximateDP(epsilon=Fraction(1, 1), delta=Fraction(0, 1))
>>> parallel([(1, 0), (1, 0)], neighbours="add-remove", partition="value").epsilon
Fraction(1, 1)
>>> parallel([(1, 0), (1, 0)], neighbours="replace", partition="value").epsilon
Fraction(2, 1)

**Advanced composition: ε grows with the square root of the number of steps, at the price of a little δ.**

A step that is (εᵢ, δᵢ)-DP simulates as: with probability δᵢ reveal everything, else randomized response with εᵢ, whose
privacy loss is ±εᵢ with mean εᵢ·tanh(εᵢ/2). The sum of the losses concentrates round the sum of the means (Hoeffding,
for martingales Azuma, so steps with *fixed* εᵢ may be chosen adaptively), and with T = 2·ln(1/δ')·Σεᵢ²

* Dwork, Rothblum, Vadhan 2010: √T + Σ εᵢ(e^{εᵢ}-1), with δ' + Σδᵢ in all;
* Kairouz, Oh, Viswanath 2015, Theorem 3.5: Σεᵢ, or √T + Σ εᵢ·tanh(εᵢ/2), or the same with ln(e + √Σεᵢ²/δ') in the place
  of ln(1/δ'), whichever is least, with 1-(1-δ')·Π(1-δᵢ) in all.

Here the *total* δ is given, and the slack δ' is the part of it that the steps do not use, so that theorems can be
compared.

>>> steps = [("0.1", 0)] * 100
>>> round(advanced(steps, delta="1e-6"), 4), round(advanced_improved(steps, delta="1e-6"), 4)
(6.3082, 5.7561)

**Group privacy.** A mechanism that protects one unit with (ε, δ) protects K units with (Kε, (e^{Kε}-1)/(e^ε-1)·δ):
along a chain of K neighbours the loss multiplies by e^ε at each link, and the geometric sum of the δ is attained. The
textbook K·e^{(K-1)ε}·δ bounds that sum by K times its largest term.

>>> tight, textbook = group(1, "1e-9", size=5), group_textbook(1, "1e-9", size=5)
>>> round(float(tight.delta * 10**9), 2), round(float(textbook.delta * 10**9), 1)
(85.79, 273.0)

**Optimal composition of (ε, δ) black boxes: the smallest ε that any analysis can promise for them.**

An (ε, δ)-DP step is a post-processing of: with probability δ reveal everything, else randomized response with ε
(Kairouz, Oh, Viswanath 2015), so the composition of those is the worst case, and the certified accountant composes
them: its ends enclose the optimum. (As an exact sum it is #P-hard for different ε: Murtagh, Vadhan 2016.)

>>> round(optimal_homogeneous("0.1", 0, count=100, delta="1e-6").upper, 12)
4.774567588108
>>> round(optimal_homogeneous_delta("0.5", 0, count=10, epsilon=2).upper, 12)
0.145466446441
>>> bound = optimal_heterogeneous([("0.1", 0), ("0.2", 0), (1, "1e-8")], delta="1e-6")
>>> bound.upper < 1.3 and bound.upper - bound.lower < 1e-14
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from hush.accounting.description import group_delta
from hush.core import (
    InvalidValueError,
    Neighbours,
    Number,
    fraction_between,
    integer,
    nonnegative,
    positive,
    probability,
)
from hush.core.rounding import (
    Ball,
    Bound,
    ball,
    certified,
    enclosure,
    flint,
    float_up,
    fraction_up,
)

if TYPE_CHECKING:
    from hush.accounting.guarantee import Guarantee


Pairs = Iterable[tuple[Number, Number] | tuple[Number, Number, int]]
"""Steps as (ε, δ), or as (ε, δ, count)."""


class ApproximateDP(NamedTuple):
    """An (ε, δ) guarantee with exact numbers; both are upper bounds."""

    epsilon: Fraction
    delta: Fraction


def tally(steps: Pairs) -> list[tuple[Fraction, Fraction, int]]:
    """Return the distinct (ε, δ) of the steps with their counts; refuse an empty list and bad numbers.

    >>> tally([("0.1", 0), ("0.1", 0), (1, "1e-6")])
    [(Fraction(1, 10), Fraction(0, 1), 2), (Fraction(1, 1), Fraction(1, 1000000), 1)]
    """
    parsed: dict[object, tuple[Fraction, Fraction]] = {}
    counts: dict[tuple[Fraction, Fraction], int] = {}
    for step in steps:
        if not isinstance(step, tuple) or len(step) not in {2, 3}:
            raise InvalidValueError("steps", got=step, allowed="pairs (epsilon, delta), or (epsilon, delta, count)")
        times = integer(step[2], "count", minimum=1) if len(step) == 3 else 1
        key = (*map(type, step[:2]), *step[:2])
        if key not in parsed:  # a million equal steps are read once
            parsed[key] = (nonnegative(step[0], "epsilon"), probability(step[1], "delta"))
        counts[parsed[key]] = counts.get(parsed[key], 0) + times
    if not counts:
        raise InvalidValueError("steps", got=[], allowed="at least one pair (epsilon, delta)")
    return [(epsilon, delta, count) for (epsilon, delta), count in counts.items()]


class Partition(Enum):
    """The rule that assigns a unit to a part of the data."""

    VALUE = "value"
    """By a value of its record: the patients of one region. Replacing the unit may move it."""
    INDEX = "index"
    """By the position of its record in a table of public size. Replacing the record leaves the position as it is."""
    UNIT = "unit"
    """By its identity alone: a hash of the patient number."""

    @classmethod
    def parse(cls, value: object) -> Partition:
        """Return the kind of partition named by ``value``."""
        for kind in cls:
            if value is kind or (isinstance(value, str) and value == kind.value):
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
    # The largest ε and the largest δ may belong to different parts: taken separately, they bound every pair of parts.
    touched = 1 if kind is Partition.INDEX else relation.units_touched
    pairs = tally(steps)
    epsilons = sorted((epsilon for epsilon, _, count in pairs for _ in range(min(count, touched))), reverse=True)
    deltas = sorted((delta for _, delta, count in pairs for _ in range(min(count, touched))), reverse=True)
    return ApproximateDP(sum(epsilons[:touched], Fraction(0)), min(sum(deltas[:touched], Fraction(0)), Fraction(1)))


def advanced(steps: Pairs, *, delta: Number) -> Bound:
    """Return ε at a total of ``delta`` by Dwork, Rothblum and Vadhan, rounded up."""
    pairs, total = tally(steps), fraction_between(delta, "delta")
    slack = total - sum((count * step_delta for _, step_delta, count in pairs), Fraction(0))
    if slack <= 0:
        raise nothing_left(delta, total - slack)
    squares = sum((count * epsilon**2 for epsilon, _, count in pairs), Fraction(0))
    if squares == 0:
        return Bound(lower=0.0, upper=0.0)

    def value() -> Ball:
        # √(2·ln(1/δ')·Σεᵢ²) + Σ εᵢ(e^{εᵢ}−1)
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
        third = (2 * ball(squares) * (flint().arb(1).exp() + ball(squares).sqrt() / slack).log()).sqrt()
        # The three bounds of Theorem 3.5; each holds, so the least does.
        return ball(plain).min(drift + hoeffding.min(third))

    return enclosure(certified(value))


def slack_of(pairs: list[tuple[Fraction, Fraction, int]], total: Fraction, got: object) -> Ball:
    """Return δ' with 1-(1-δ')·Π(1-δᵢ) = δ, as a ball; refuse when the steps' own δ leave nothing.

    Solved as δ' = (δ - s)/(1 - s) with s = 1-Π(1-δᵢ) = -expm1(Σ ln(1-δᵢ)), which is free of cancellation but for δ - s.
    """
    if any(step_delta >= total for _, step_delta, _ in pairs):
        raise nothing_left(got, max(step_delta for _, step_delta, _ in pairs))
    spent = -sum((count * (-ball(delta)).log1p() for _, delta, count in pairs if delta), flint().arb(0)).expm1()
    if spent >= ball(total):
        raise nothing_left(got, None)
    return (ball(total) - spent) / (1 - spent)


def nothing_left(got: object, spent: Fraction | None) -> InvalidValueError:
    """Return the refusal of a δ that the steps use up by themselves."""
    figure = "" if spent is None else f", which is {float(spent):.6g} or more"
    return InvalidValueError("delta", got=got, allowed=f"above what the steps spend by themselves{figure}, and below 1")


def group(epsilon: Number, delta: Number, *, size: int) -> ApproximateDP:
    """Return the tight guarantee for ``size`` units: (Kε, (e^{Kε}-1)/(e^ε-1)·δ), δ rounded up and at most 1."""
    unit_epsilon, exact_delta = nonnegative(epsilon, "epsilon"), probability(delta, "delta")
    units = integer(size, "size", minimum=1)
    grown = group_delta(unit_epsilon, exact_delta, units)
    exact = units == 1 or not exact_delta or not unit_epsilon
    return ApproximateDP(units * unit_epsilon, grown if exact else _at_most_one(grown))


def group_textbook(epsilon: Number, delta: Number, *, size: int) -> ApproximateDP:
    """Return the textbook guarantee for ``size`` units: (Kε, K·e^{(K-1)ε}·δ), δ rounded up and at most 1."""
    unit_epsilon, exact_delta = nonnegative(epsilon, "epsilon"), probability(delta, "delta")
    units = integer(size, "size", minimum=1)
    if exact_delta == 0 or units == 1:
        return ApproximateDP(units * unit_epsilon, exact_delta)
    factor = certified(lambda: units * ball((units - 1) * unit_epsilon).exp())
    return ApproximateDP(units * unit_epsilon, _at_most_one(fraction_up(factor) * exact_delta))


def _at_most_one(delta: Fraction) -> Fraction:
    """Return the smallest float above δ as a rational, at most 1: short, and on the safe side."""
    return Fraction(1) if delta >= 1 else Fraction(float_up(delta))


def optimal_homogeneous(epsilon: Number, delta0: Number = 0, *, count: int, delta: Number) -> Bound:
    """Return the ε of ``count`` steps of (``epsilon``, ``delta0``) at a total of ``delta``, with certified ends."""
    return optimal_heterogeneous([(positive(epsilon, "epsilon"), probability(delta0, "delta0"), count)], delta=delta)


def optimal_homogeneous_delta(epsilon0: Number, delta0: Number = 0, *, count: int, epsilon: Number) -> Bound:
    """Return the δ of ``count`` steps of (``epsilon0``, ``delta0``) at ``epsilon``, with certified ends."""
    step = positive(epsilon0, "epsilon0"), probability(delta0, "delta0"), count
    return optimal_heterogeneous_delta([step], epsilon=epsilon)


def optimal_heterogeneous(steps: Pairs, *, delta: Number) -> Bound:
    """Return the ε of different (ε, δ) steps at a total of ``delta``, with certified ends."""
    ends = _black_boxes(steps).epsilon(delta, strict=False)
    if ends.lower == math.inf:
        raise nothing_left(delta, None)
    return ends


def optimal_heterogeneous_delta(steps: Pairs, *, epsilon: Number) -> Bound:
    """Return the δ of different (ε, δ) steps at ``epsilon``, with certified ends."""
    return _black_boxes(steps).delta(epsilon, strict=False)


def _black_boxes(steps: Pairs) -> Guarantee:
    """Return the certified composition of steps that are known by their (ε, δ) alone."""
    from hush.accounting.events import ApproximateDPEvent
    from hush.accounting.guarantee import compose

    return compose([ApproximateDPEvent(epsilon=epsilon, delta=delta) * count for epsilon, delta, count in tally(steps)])
