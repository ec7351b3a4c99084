r"""The winner's curse: error bars of rows that noise chose.

A bar that holds in 95 % of cases holds for a row that was named beforehand. A row that is shown *because* its noisy
number is large (``ORDER BY n DESC LIMIT 3``, ``HAVING n > 50``) had luck with its noise more often than not: of 70 like
groups the first three have bars that hold in 42 % of cases. So what noise decides gets bars that hold for what is
shown: of all rows shown, over many answers, at most α = 1 - confidence miss. Two things are done about it. They need
one fact: each group has noise of its own, independent of that of the others.

**ORDER BY … LIMIT.** Let H candidates pass HAVING (all groups, if there is none), and let R of them be shown. Bars at
the level α₁ = α·R/H miss in H·α₁ = α·R of the candidates on average, so in at most α·R of the rows shown, whatever the
rule is that picks R of H (Benjamini and Yekutieli 2005, with a fixed number of rows). H and R are settled by HAVING.
ORDER BY alone hides no row, and ORDER BY public keys needs no noise: neither changes anything.

**HAVING.** Let A be the set of released numbers for which HAVING holds, P(A) its probability in a group with the truth
θ. A group far below the threshold is shown rarely, but then it is *always* wrong: to hold for shown rows, a bar must
hold given A. Let d independent noises decide HAVING. HAVING is *settled* in a row if it holds in the whole box
of ± mᵢ around the released numbers, where mᵢ is so large that the density of noise i falls to α₁/(2d) of its maximum.

- Settled rows have bars of the level α₁·(1 - α₁/2)/2ᵈ.
- Other rows have bars of the level α₁/2·10⁻⁶/H, which end where no truth can be (a count is not below 0).

*Proof.* If a released point with a settled box lies within the box around θ, then A contains, in each coordinate, all
noise from 0 to mᵢ on one side, and P(A) ≥ Π P[0 ≤ Z ≤ mᵢ] ≥ (1 - α₁/2)/2ᵈ. So there are two kinds of θ. *Where P(A) is
at least that*, a bar misses given A with probability at most level/P(A) ≤ α₁. *Where it is less*, a settled point lies
outside the box: in some coordinate it is further than mᵢ from θ. Moved by mᵢ towards θ it still is in A, and its
probability grows by p(0)/p(mᵢ) ≥ 2d/α₁ or more, as noise is symmetric and log-concave. The move is one-to-one for each
of d coordinates, so settled points have the probability α₁/2·P(A) at most; the wide bars of the others miss with
probability α₁/2·10⁻⁶/H, at most α₁/2·P(A) unless P(A) < 10⁻⁶/H. Such groups are shown in one of a million answers.

With one number in HAVING (d = 1) that is a sum of several noises, m is the half-width at α₁/2: among all sets of one
probability half-lines grow least when they are widened (Bobkov 1996), so P(settled) ≤ 2·P[Z > m]·P(A). There the bar
of that number itself need be wide only to the side from which noise may have come: if HAVING holds for all larger
numbers, then θ above the released number has P(A) ≥ 1/2, and the settled bar serves upwards.

**What is left alone.** Noise that decides nothing: ``ORDER BY COUNT(*) DESC LIMIT 3`` says nothing of the draw that
made a median. Private keys, too: they are chosen by noise of their own, which is never shown.

Quantiles bring their own bars, drawn at a level that must be known beforehand. Where they decide, it is that of all
public keys, or of a thousand groups if the keys are not known; HAVING counts as settled where it holds in the whole
bar. That is as in the proof above, with the law that `hush.mechanisms.grouped.quantile` derives for the middle of two
points. Where there are more groups, or HAVING is not settled, such a bar reaches to the ends of the public range.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hush.query.plan.draws import DrawnAggregate
from hush.query.plan.estimators import Estimator, Linear, support
from hush.query.plan.keys import Domain, Listed
from hush.query.plan.stability import Statistic
from hush.query.question import Question
from hush.query.released import aggregates_in

RARE = 1e-6
"""The share of answers in which a shown group may have a truth further away than its bar reaches."""
_ASSUMED = 1000  # the assumed number of groups for quantiles that decide, where it is not known
_LEAST = 1e-14  # the smallest error probability: 1 minus a much smaller one is rounded to 1


class Winners(NamedTuple):
    """How noise decides which rows of an answer are shown."""

    having: tuple[int, ...]
    """The aggregates in HAVING."""
    forms: bool
    """Whether all are counts and sums that share no noise: each is one coordinate, even as a sum of several noises."""
    coordinates: int
    """d: how many independent noises decide HAVING."""
    ordered: bool
    """Whether LIMIT or OFFSET cuts rows that are ordered by noisy numbers."""
    deciding: frozenset[Statistic | DrawnAggregate]
    """Statistics and choices with noise that decides which rows are shown."""
    candidates: int | None
    """How many groups there are, where that is public."""
    limit: int | None
    offset: int

    @classmethod
    def of(
        cls, question: Question, estimators: tuple[Estimator, ...], public: tuple[Domain, ...] | None, *, combined: bool
    ) -> Winners | None:
        """Return how noise decides; None where it does not. ``combined`` keys are fewer than their lists say."""
        having = () if question.having is None else tuple(sorted(aggregates_in(question.having)))
        order = {aggregate for ordering in question.order for aggregate in aggregates_in(ordering.by)}
        # how many groups there are, where lists of values alone say so
        lists = [domain.values for domain in public or () if isinstance(domain, Listed)]
        size = math.prod(map(len, lists)) if len(lists) == len(question.keys) and not combined else None
        # a LIMIT of at least the number of groups hides no row
        cuts = question.offset > 0 or (question.limit is not None and (size is None or question.limit < size))
        ordered = bool(order) and cuts
        if not having and not ordered:
            return None
        supports = [support(estimators[aggregate]) for aggregate in having]
        together = frozenset[Statistic | DrawnAggregate]().union(*supports)
        apart = sum(map(len, supports)) == len(together)
        forms = apart and all(isinstance(estimators[aggregate], Linear) for aggregate in having)
        deciding = together.union(*(support(estimators[aggregate]) for aggregate in order)) if ordered else together
        return cls(
            having=having,
            forms=forms,
            coordinates=len(having) if forms else len(together),
            ordered=ordered,
            deciding=deciding,
            candidates=size,
            limit=question.limit,
            offset=question.offset,
        )

    def missing(self, outside: float, *, candidates: int, shown: int) -> float:
        """Return α₁: how often a candidate's bar may miss, given that it passed HAVING."""
        return outside * shown / candidates if self.ordered and 0 < shown < candidates else outside

    def settled(self, missing: float) -> float:
        """Return how often the bar of a row may miss where HAVING is settled."""
        return missing * (1 - missing / 2) / 2**self.coordinates if self.having else missing

    def unsettled(self, missing: float, candidates: int) -> float:
        """Return how often the bar of a row may miss where HAVING is not settled."""
        return max(missing / 2 * RARE / max(candidates, 1), _LEAST)

    def known(self, outside: float) -> float | None:
        """Return how often the bars of (settled) rows may miss, where that is known before any data is read."""
        if not self.ordered:
            return self.settled(outside)
        if self.having or self.candidates is None:
            return None
        return self._missing_of(self.candidates, outside)

    def prepared(self, outside: float) -> float:
        """Return how often the bar of a quantile that decides may miss, as it is drawn."""
        return self.settled(self._missing_of(_ASSUMED if self.candidates is None else self.candidates, outside))

    def _missing_of(self, candidates: int, outside: float) -> float:
        """Return α₁ where as many of the candidates are shown as LIMIT and OFFSET leave."""
        after_offset = max(candidates - self.offset, 0)
        shown = after_offset if self.limit is None else min(self.limit, after_offset)
        return self.missing(outside, candidates=candidates, shown=shown)
