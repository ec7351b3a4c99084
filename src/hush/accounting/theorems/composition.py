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
(Kairouz, Oh, Viswanath 2015), so the composition of those is the worst case, and it is exact:

    1 - δ_total(ε') = Π(1-δᵢ) · (1 - δ_RR(ε')),    δ_RR(ε') = Σ over outcomes with loss s > ε' of P(s)·(1 - e^{ε'-s}),

where the loss s is the sum of ±εᵢ and +εᵢ has probability e^{εᵢ}/(1+e^{εᵢ}). Between neighbouring losses δ_RR is A -
e^{ε'}B with A and B the masses above ε' on either data set, so ε' = ln((A-δ)/B) there: no search for a root, only for
the piece. Which piece it is, balls decide; a doubt is settled with more bits.

*Homogeneous*: A and B are tails of binomials, that is incomplete beta functions, for any number of steps.
*Heterogeneous*: #P-hard in general (Murtagh, Vadhan 2016). Losses are merged where they coincide, which is exact and
takes few terms when the εᵢ are few or have a common measure; beyond a limit of terms the same quantity comes from the
certified accountant, and the width of the result, ``upper - lower``, states its error.

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
    PrecisionError,
    fraction_between,
    integer,
    nonnegative,
    positive,
    probability,
)
from hush.core.rounding import (
    PRECISIONS,
    Ball,
    Bound,
    ball,
    certified,
    enclosure,
    flint,
    float_down,
    float_up,
    fraction_up,
    precision,
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
    spent = -_log_finite(pairs).expm1()
    if spent >= ball(total):
        raise nothing_left(got, None)
    return (ball(total) - spent) / (1 - spent)


def _log_finite(pairs: list[tuple[Fraction, Fraction, int]]) -> Ball:
    """Return ln Π(1-δᵢ)."""
    return sum((count * (-ball(delta)).log1p() for _, delta, count in pairs if delta), flint().arb(0))


def nothing_left(got: object, spent: Fraction | None) -> InvalidValueError:
    """Return the refusal of a δ that the steps use up by themselves."""
    figure = "" if spent is None else f", which is {float(spent):.6g} or more"
    return InvalidValueError("delta", got=got, allowed=f"above what the steps spend by themselves{figure}, and below 1")


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


MAX_TERMS = 500_000
"""The number of products that the exact heterogeneous sum may take before the certified accountant takes over."""
_EXACT_STEPS = 512  # Π(1-δᵢ) is formed as a rational up to this many steps with δ > 0


def optimal_homogeneous(epsilon: Number, delta0: Number = 0, *, count: int, delta: Number) -> Bound:
    """Return the ε of ``count`` steps of (``epsilon``, ``delta0``) at a total of ``delta``; exact, ends rounded out."""
    step_epsilon, step_delta = positive(epsilon, "epsilon"), probability(delta0, "delta0")
    steps, total = integer(count, "count", minimum=1), probability(delta, "delta")
    law = _Binomial(step_epsilon, steps)
    return _invert(law, [(step_epsilon, step_delta, steps)], total)


def optimal_homogeneous_delta(epsilon0: Number, delta0: Number = 0, *, count: int, epsilon: Number) -> Bound:
    """Return the δ of ``count`` steps of (``epsilon0``, ``delta0``) at ``epsilon``; exact, ends rounded outwards."""
    step_epsilon, step_delta = positive(epsilon0, "epsilon0"), probability(delta0, "delta0")
    steps, target = integer(count, "count", minimum=1), nonnegative(epsilon, "epsilon")
    return _forward(_Binomial(step_epsilon, steps), [(step_epsilon, step_delta, steps)], target)


def optimal_heterogeneous(steps: Pairs, *, delta: Number) -> Bound:
    """Return the ε of different (ε, δ) steps at a total of ``delta``: exact for few, certified for many."""
    pairs, total = tally(steps), probability(delta, "delta")
    law = _law(pairs)
    if law is not None:
        return _invert(law, pairs, total)
    certified_ends = _accountant(pairs).epsilon(total, strict=False)
    if not 0 < total < 1:
        return certified_ends
    # The advanced theorem is never below the optimum, so it caps what the accountant could not narrow down.
    return Bound(
        lower=certified_ends.lower, upper=min(certified_ends.upper, advanced_improved(pairs, delta=total).upper)
    )


def optimal_heterogeneous_delta(steps: Pairs, *, epsilon: Number) -> Bound:
    """Return the δ of different (ε, δ) steps at ``epsilon``: exact for few, certified for many."""
    pairs, target = tally(steps), nonnegative(epsilon, "epsilon")
    law = _law(pairs)
    if law is None:
        return _accountant(pairs).delta(target, strict=False)
    return _forward(law, pairs, target)


class _Binomial:
    """The losses of ``count`` randomized responses with equal ε: (2i - count)·ε with binomial i."""

    def __init__(self, epsilon: Fraction, count: int) -> None:
        self.epsilon, self.count = epsilon, count

    def loss(self, piece: int) -> Fraction:
        """Return the piece's upper end: the losses above zero in rising order."""
        return (2 * self._successes(piece) - self.count) * self.epsilon

    def masses(self, piece: int) -> tuple[Ball, Ball]:
        """Return (A, B): the probabilities of a loss of at least ``loss(piece)`` on either data set."""
        successes = self._successes(piece)
        if successes > self.count:
            return flint().arb(0), flint().arb(0)
        chance = 1 / (1 + (-ball(self.epsilon)).exp())
        a, b = flint().arb(successes), flint().arb(self.count - successes + 1)
        # P(Bin(k, p) ≥ j) = I_p(j, k-j+1)
        return chance.beta_lower(a, b, regularized=True), (1 - chance).beta_lower(a, b, regularized=True)

    def _successes(self, piece: int) -> int:
        return self.count // 2 + 1 + piece

    @property
    def pieces(self) -> int:
        """The number of losses above zero."""
        return self.count - self.count // 2


class _Discrete:
    """Finitely many losses above zero in rising order, with the masses above each formed once per precision."""

    def __init__(self, groups: list[tuple[int, int]], unit: Fraction) -> None:
        self._groups, self._unit = groups, unit
        self._tails: dict[int, tuple[list[Ball], list[Ball]]] = {}
        support = {0}
        for size, count in groups:
            support = {loss + (2 * i - count) * size for loss in support for i in range(count + 1)}
        self._losses = sorted(loss for loss in support if loss > 0)

    @property
    def pieces(self) -> int:
        return len(self._losses)

    def loss(self, piece: int) -> Fraction:
        return self._losses[piece] * self._unit

    def masses(self, piece: int) -> tuple[Ball, Ball]:
        if piece >= self.pieces:
            return flint().arb(0), flint().arb(0)
        working = flint().ctx.prec
        if working not in self._tails:
            self._tails[working] = self._sums()
        above, below = self._tails[working]
        return above[piece], below[piece]

    def _sums(self) -> tuple[list[Ball], list[Ball]]:
        law = {0: flint().arb(1)}
        for size, count in self._groups:
            epsilon = ball(size * self._unit)
            chance = 1 / (1 + (-epsilon).exp())
            atoms = [
                (flint().arb(math.comb(count, i)) * chance**i * (1 - chance) ** (count - i), (2 * i - count) * size)
                for i in range(count + 1)
            ]
            # Losses are whole multiples of the unit, so equal losses meet in one key and their masses add up.
            merged: dict[int, Ball] = {}
            for loss, mass in law.items():
                for atom, shift in atoms:
                    merged[loss + shift] = merged.get(loss + shift, flint().arb(0)) + mass * atom
            law = merged
        above, below = [flint().arb(0)], [flint().arb(0)]
        for loss in reversed(self._losses):
            above.append(above[-1] + law[loss])
            # On the other data set an outcome of loss s has probability e^{-s} times as large.
            below.append(below[-1] + law[loss] * (-ball(loss * self._unit)).exp())
        return above[:0:-1], below[:0:-1]


_Law = _Binomial | _Discrete


def _law(pairs: list[tuple[Fraction, Fraction, int]]) -> _Law | None:
    """Return the exact law of the losses, or None where it has too many terms."""
    counts: dict[Fraction, int] = {}
    for epsilon, _, count in pairs:
        if epsilon:
            counts[epsilon] = counts.get(epsilon, 0) + count
    if len(counts) == 1:  # equal ε: binomial tails, for any number of steps
        return _Binomial(*next(iter(counts.items())))
    unit = Fraction(1, math.lcm(*(epsilon.denominator for epsilon in counts))) if counts else Fraction(1)
    groups = [(int(epsilon / unit), count) for epsilon, count in counts.items()]
    terms, support, largest_sum = 0, 1, 0
    for size, count in groups:
        terms += support * (count + 1)
        largest_sum += size * count
        support = min(support * (count + 1), 2 * largest_sum + 1)  # distinct sums, or all integers up to the largest
        if terms > MAX_TERMS:
            return None
    return _Discrete(groups, unit)


def _forward(law: _Law, pairs: list[tuple[Fraction, Fraction, int]], epsilon: Fraction) -> Bound:
    low, high = 0, law.pieces
    while low < high:  # the first loss above ε'; losses are rationals, so the comparison is exact
        middle = (low + high) // 2
        low, high = (low, middle) if law.loss(middle) > epsilon else (middle + 1, high)

    def value() -> Ball:
        above, below = law.masses(low)
        loss = (above - ball(epsilon).exp() * below).nonnegative_part()
        # 1 − Π(1−δᵢ)·(1 − δ_RR): infinite losses, or a finite one above ε.
        return 1 - _log_finite(pairs).exp() * (1 - loss) if any(step_delta for _, step_delta, _ in pairs) else loss

    if any(step_delta == 1 for _, step_delta, _ in pairs):
        return Bound(lower=1.0, upper=1.0)
    if low == law.pieces and not any(step_delta for _, step_delta, _ in pairs):
        return Bound(lower=0.0, upper=0.0)
    result = enclosure(certified(value, bits=56))
    return Bound(lower=max(result.lower, 0.0), upper=min(result.upper, 1.0))


def _invert(law: _Law, pairs: list[tuple[Fraction, Fraction, int]], total: Fraction) -> Bound:
    if any(step_delta == 1 for _, step_delta, _ in pairs) and total < 1:
        raise nothing_left(total, Fraction(1))
    if total == 1:
        return Bound(lower=0.0, upper=0.0)
    exactly = _exact_target(pairs, total)
    largest_loss = sum((count * epsilon for epsilon, _, count in pairs), Fraction(0))
    if exactly == 0:
        return enclosure(ball(largest_loss))
    # More bits until every comparison of `_piece` is decided and the result has 56 correct bits.
    for working in PRECISIONS:
        with precision(working):
            target = ball(exactly) if exactly is not None else _target(pairs, total)
            epsilon_ball = _piece(law, target)
            if epsilon_ball is not None and (epsilon_ball.is_zero() or epsilon_ball.rel_accuracy_bits() >= 56):
                ends = enclosure(epsilon_ball)
                return Bound(
                    lower=min(ends.lower, float_down(largest_loss)), upper=min(ends.upper, float_up(largest_loss))
                )
    raise PrecisionError(
        "The optimal composition could not be certified: two pieces of its curve cannot be told apart."
    )


def _piece(law: _Law, target: Ball) -> Ball | None:
    """Return the ball of ε', 0 if δ_RR(0) is below the target, or None where the precision does not tell."""

    def settled(piece: int) -> bool | None:
        """Is δ_RR(loss(piece)) at most the target? At piece -1: δ_RR(0)."""
        above, below = law.masses(piece + 1)
        loss = ball(law.loss(piece)) if piece >= 0 else flint().arb(0)
        delta = above - loss.exp() * below
        return True if delta <= target else False if delta > target else None

    start = settled(-1)
    if start is None:
        return None
    if start:
        return flint().arb(0)
    low, high = 0, law.pieces - 1  # the last one is settled: nothing lies above it
    while low < high:
        middle = (low + high) // 2
        answer = settled(middle)
        if answer is None:
            return None
        low, high = (low, middle) if answer else (middle + 1, high)
    # On this piece δ_RR(ε') = A − e^{ε'}·B, solved for ε'.
    above, below = law.masses(low)
    return ((above - target) / below).log()


def _exact_target(pairs: list[tuple[Fraction, Fraction, int]], total: Fraction) -> Fraction | None:
    """Return δ_RR = 1-(1-δ)/Π(1-δᵢ) as a rational when that is cheap, else None; refuse when it is negative."""
    masses = [(step_delta, count) for _, step_delta, count in pairs if step_delta]
    if sum(count for _, count in masses) > _EXACT_STEPS:
        return None
    finite_mass = math.prod(((1 - step_delta) ** count for step_delta, count in masses), start=Fraction(1))
    if 1 - finite_mass > total:
        raise nothing_left(total, 1 - finite_mass)
    return 1 - (1 - total) / finite_mass


def _target(pairs: list[tuple[Fraction, Fraction, int]], total: Fraction) -> Ball:
    """Return δ_RR as a ball, from logarithms."""
    target = -((-ball(total)).log1p() - _log_finite(pairs)).expm1()
    if target < 0:
        raise nothing_left(total, None)
    return target


def _accountant(pairs: list[tuple[Fraction, Fraction, int]]) -> Guarantee:
    """Return the certified composition of the black boxes."""
    from hush.accounting.events import ApproximateDPEvent, ComposedEvent
    from hush.accounting.guarantee import compose

    parts = [(ApproximateDPEvent(epsilon=epsilon, delta=delta), count) for epsilon, delta, count in pairs]
    return compose([ComposedEvent(parts=parts)])
