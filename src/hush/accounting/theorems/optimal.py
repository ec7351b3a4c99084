"""Optimal composition of (ε, δ) black boxes: the smallest ε that any analysis can promise for them.

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
from fractions import Fraction
from typing import TYPE_CHECKING

from hush.accounting.theorems.advanced import advanced_improved, nothing_left
from hush.accounting.theorems.basic import Pairs, tally
from hush.core import Number, PrecisionError, integer, nonnegative, positive, probability
from hush.core.balls import Ball, ball, flint, precision
from hush.core.rounding import PRECISIONS, Bound, certified, enclosure, float_down, float_up

if TYPE_CHECKING:
    from hush.accounting.guarantee import Guarantee

MAX_TERMS = 500_000
"""The number of products that the exact heterogeneous sum may take before the certified accountant takes over."""
_EXACT_STEPS = 512  # Π(1-δᵢ) is formed as a rational up to this many steps with δ > 0


def optimal_homogeneous(epsilon: Number, delta0: Number = 0, *, count: int, delta: Number) -> Bound:
    """Return the ε of ``count`` steps of (``epsilon``, ``delta0``) at a total of ``delta``; exact, ends rounded out."""
    one, own = positive(epsilon, "epsilon"), probability(delta0, "delta0")
    steps, total = integer(count, "count", minimum=1), probability(delta, "delta")
    law = _Binomial(one, steps)
    return _invert(law, [(one, own, steps)], total)


def optimal_homogeneous_delta(epsilon0: Number, delta0: Number = 0, *, count: int, epsilon: Number) -> Bound:
    """Return the δ of ``count`` steps of (``epsilon0``, ``delta0``) at ``epsilon``; exact, ends rounded outwards."""
    one, own = positive(epsilon0, "epsilon0"), probability(delta0, "delta0")
    steps, at = integer(count, "count", minimum=1), nonnegative(epsilon, "epsilon")
    return _forward(_Binomial(one, steps), [(one, own, steps)], at)


def optimal_heterogeneous(steps: Pairs, *, delta: Number) -> Bound:
    """Return the ε of different (ε, δ) steps at a total of ``delta``: exact for few, certified for many."""
    pairs, total = tally(steps), probability(delta, "delta")
    law = _law(pairs)
    if law is not None:
        return _invert(law, pairs, total)
    found = _accountant(pairs).epsilon(total, strict=False)
    if not 0 < total < 1:
        return found
    # The advanced theorem is never below the optimum, so it caps what the accountant could not narrow down.
    return Bound(lower=found.lower, upper=min(found.upper, advanced_improved(pairs, delta=total).upper))


def optimal_heterogeneous_delta(steps: Pairs, *, epsilon: Number) -> Bound:
    """Return the δ of different (ε, δ) steps at ``epsilon``: exact for few, certified for many."""
    pairs, at = tally(steps), nonnegative(epsilon, "epsilon")
    law = _law(pairs)
    if law is None:
        return _accountant(pairs).delta(at, strict=False)
    return _forward(law, pairs, at)


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
        """How many losses are above zero."""
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
    if len(counts) == 1:
        return _Binomial(*next(iter(counts.items())))
    unit = Fraction(1, math.lcm(*(epsilon.denominator for epsilon in counts))) if counts else Fraction(1)
    groups = [(int(epsilon / unit), count) for epsilon, count in counts.items()]
    terms, support, reach = 0, 1, 0
    for size, count in groups:
        terms += support * (count + 1)
        reach += size * count
        support = min(support * (count + 1), 2 * reach + 1)  # distinct sums, or all the integers within reach
        if terms > MAX_TERMS:
            return None
    return _Discrete(groups, unit)


def _forward(law: _Law, pairs: list[tuple[Fraction, Fraction, int]], at: Fraction) -> Bound:
    low, high = 0, law.pieces
    while low < high:  # the first loss above ε'
        middle = (low + high) // 2
        low, high = (low, middle) if law.loss(middle) > at else (middle + 1, high)

    def value() -> Ball:
        above, below = law.masses(low)
        loss = (above - ball(at).exp() * below).nonnegative_part()
        kept = sum((count * (-ball(own)).log1p() for _, own, count in pairs if own), flint().arb(0)).exp()
        return 1 - kept * (1 - loss) if any(own for _, own, _ in pairs) else loss

    if any(own == 1 for _, own, _ in pairs):
        return Bound(lower=1.0, upper=1.0)
    if low == law.pieces and not any(own for _, own, _ in pairs):
        return Bound(lower=0.0, upper=0.0)
    result = enclosure(certified(value, bits=56))
    return Bound(lower=max(result.lower, 0.0), upper=min(result.upper, 1.0))


def _invert(law: _Law, pairs: list[tuple[Fraction, Fraction, int]], total: Fraction) -> Bound:
    if any(own == 1 for _, own, _ in pairs) and total < 1:
        raise nothing_left(total, Fraction(1))
    if total == 1:
        return Bound(lower=0.0, upper=0.0)
    exactly = _exact_target(pairs, total)
    most = sum((count * epsilon for epsilon, _, count in pairs), Fraction(0))
    if exactly == 0:
        return enclosure(ball(most))
    for working in PRECISIONS:
        with precision(working):
            target = ball(exactly) if exactly is not None else _target(pairs, total)
            epsilon_ball = _piece(law, target)
            if epsilon_ball is not None and (epsilon_ball.is_zero() or epsilon_ball.rel_accuracy_bits() >= 56):
                found = enclosure(epsilon_ball)
                return Bound(lower=min(found.lower, float_down(most)), upper=min(found.upper, float_up(most)))
    raise PrecisionError(
        "The optimal composition could not be certified: two pieces of its curve cannot be told apart."
    )


def _piece(law: _Law, target: Ball) -> Ball | None:
    """Return the ball of ε', 0 if δ_RR(0) is below the target, or None where the precision does not tell."""

    def settled(piece: int) -> bool | None:
        """Is δ_RR(loss(piece)) at most the target? At piece -1: δ_RR(0)."""
        above, below = law.masses(piece + 1)
        at = ball(law.loss(piece)) if piece >= 0 else flint().arb(0)
        delta = above - at.exp() * below
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
    above, below = law.masses(low)
    return ((above - target) / below).log()


def _exact_target(pairs: list[tuple[Fraction, Fraction, int]], total: Fraction) -> Fraction | None:
    """Return δ_RR = 1-(1-δ)/Π(1-δᵢ) as a rational when that is cheap, else None; refuse when it is negative."""
    slips = [(own, count) for _, own, count in pairs if own]
    if sum(count for _, count in slips) > _EXACT_STEPS:
        return None
    kept = math.prod(((1 - own) ** count for own, count in slips), start=Fraction(1))
    if 1 - kept > total:
        raise nothing_left(total, 1 - kept)
    return 1 - (1 - total) / kept


def _target(pairs: list[tuple[Fraction, Fraction, int]], total: Fraction) -> Ball:
    """Return δ_RR as a ball, from logarithms."""
    kept = sum((count * (-ball(own)).log1p() for _, own, count in pairs if own), flint().arb(0))
    target = -((-ball(total)).log1p() - kept).expm1()
    if target < 0:
        raise nothing_left(total, None)
    return target


def _accountant(pairs: list[tuple[Fraction, Fraction, int]]) -> Guarantee:
    """Return the certified composition of the black boxes."""
    from hush.accounting.events import ApproximateDPEvent, ComposedEvent
    from hush.accounting.guarantee import compose

    parts = [(ApproximateDPEvent(epsilon=epsilon, delta=delta), count) for epsilon, delta, count in pairs]
    return compose([ComposedEvent(parts=parts)])
