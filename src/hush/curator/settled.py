"""Rows that HAVING shows: in which of them noise cannot have decided, and how wide the bars of the others must be.

The construction and its proof are in `hush.query.plan.winners`. Here are the boxes that it speaks of: around what was
released for whether HAVING is settled, around what the truth may be for wide bars. `hush.query.plan.winners` says
what expressions can be within them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.core.values import dataclass
from hush.curator.release import ReleasedGroups
from hush.mechanisms.grouped import sum_error
from hush.query.expressions import Expression
from hush.query.plan.estimators import Linear, Mean, Parts, Picked
from hush.query.plan.expected import known_error, linear_factors
from hush.query.plan.plan import Plan
from hush.query.plan.statistics import Statistic
from hush.query.plan.winners import support
from hush.query.question import Aggregate, AggregateKind
from hush.query.released import Array, Ends, aggregates_in, enclose

_COUNTS = {AggregateKind.COUNT, AggregateKind.COUNT_UNITS, AggregateKind.COUNT_DISTINCT}
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ShownRows:
    """What was released of the rows that are shown: keys, and each aggregate's answers."""

    plan: Plan
    released: ReleasedGroups
    keys: Sequence[Array]
    aggregates: Sequence[Array]

    def settled(self, missing: float) -> Flags:
        """Return in which rows HAVING holds for all that noise could have made of them."""
        winners, having = self.plan.winners, self.plan.question.having
        assert winners is not None  # noqa: S101 - the caller looked
        assert having is not None  # noqa: S101 - the caller looked
        if winners.forms:
            ends = self._around({at: self._radius(at, missing) for at in winners.having})
        else:
            ends = self._boxes({item: law.falls_to(self._share(missing)) for item, law in self.plan.laws.items()})
        return self._holds(having, ends)

    def ends(self, output: Expression, *, missing: float, settled: float) -> Ends:
        """Return between which numbers an output's truth lies, in rows in which noise may have decided.

        ``missing`` is how often these may be wrong, ``settled`` how often where HAVING is settled.
        """
        needed = aggregates_in(output)
        items = frozenset[object]().union(*(support(self.plan.estimators[at]) for at in needed))
        certain = 1 - missing / max(len(items), 1)
        boxes = self._boxes({item: law.error(certain) for item, law in self.plan.laws.items() if item in items})
        ends = [
            _possible(aggregate, boxes[at]) if at in needed else boxes[at]
            for at, aggregate in enumerate(self.plan.question.aggregates)
        ]
        size = len(self.released.keys)
        low, high = enclose(output, self.keys, ends, size)
        width = known_error(self.plan, output, 1 - missing)
        if width is None:
            return low, high
        centre = enclose(output, self.keys, [(answers, answers) for answers in self._numbers()], size)[0]
        low, high = np.maximum(low, centre - width), np.minimum(high, centre + width)
        below, above = self._one_sided(output)
        narrow = known_error(self.plan, output, 1 - settled)
        assert narrow is not None  # noqa: S101 - it was known at the other confidence
        return np.where(below, np.maximum(low, centre - narrow), low), np.where(
            above, np.minimum(high, centre + narrow), high
        )

    def _one_sided(self, output: Expression) -> tuple[Flags, Flags]:
        """Return in which rows noise cannot have decided if the truth lies below an output, and if it lies above."""
        winners, having = self.plan.winners, self.plan.question.having
        factors = linear_factors(self.plan, output)
        nowhere = np.zeros(len(self.released.keys), dtype=bool)
        if winners is None or having is None or not winners.forms or len(winners.having) != 1 or factors is None:
            return nowhere, nowhere
        (index,) = winners.having
        if set(factors) != {index}:
            return nowhere, nowhere
        infinite = np.full(len(nowhere), np.inf)
        answers = self._numbers()[index]
        less = self._holds(having, self._around({}, {index: (-infinite, answers)}))
        more = self._holds(having, self._around({}, {index: (answers, infinite)}))
        return (less, more) if factors[index] > 0 else (more, less)

    def _holds(self, having: Expression, ends: list[Ends]) -> Flags:
        return np.asarray(enclose(having, self.keys, ends, len(self.released.keys))[0] == 1)

    def _numbers(self) -> list[Array]:
        """Return the answers as numbers; NaN where they are none."""
        size = len(self.released.keys)
        return [one if one.dtype == np.float64 else np.full(size, np.nan) for one in self.aggregates]

    def _around(self, radii: dict[int, float], ends: dict[int, Ends] | None = None) -> list[Ends]:
        """Return the answers of aggregates, each with so much around it."""
        found = [
            (answers - radii.get(at, 0.0), answers + radii.get(at, 0.0)) for at, answers in enumerate(self._numbers())
        ]
        for at, given in (ends or {}).items():
            found[at] = given
        return found

    def _share(self, missing: float) -> float:
        """Return to which part of its maximum noise must have fallen."""
        winners = self.plan.winners
        assert winners is not None  # noqa: S101 - the caller looked
        return missing / (2 * winners.coordinates)

    def _radius(self, aggregate: int, missing: float) -> float:
        """Return how far a count or sum may be moved without HAVING changing."""
        estimator, laws = self.plan.estimators[aggregate], self.plan.laws
        winners = self.plan.winners
        assert isinstance(estimator, Linear)  # noqa: S101 - forms are
        assert winners is not None  # noqa: S101 - the caller looked
        parts = [(factor, laws[item]) for item, factor in estimator.parts]
        if len(parts) == 1:
            radius = abs(parts[0][0]) * parts[0][1].falls_to(self._share(missing))
        elif winners.coordinates == 1:
            radius = sum_error(parts, 1 - missing / 2)
        else:  # the density of a sum of five noises or fewer is no more of its maximum than four times the tails
            radius = sum_error(parts, 1 - self._share(missing) / 4)
        return float(estimator.widened(Fraction(radius)) + estimator.grid)

    def _boxes(self, radii: dict[Statistic, int]) -> list[Ends]:
        """Return what aggregates can be if each statistic lies within its radius of what was released."""
        found: list[Ends] = []
        size = len(self.released.keys)
        unknown = np.full(size, np.inf)
        for estimator, answers in zip(self.plan.estimators, self._numbers(), strict=True):
            ends = -unknown, unknown
            if isinstance(estimator, Picked):
                halves = self.released.halves[estimator.number]
                half = np.array([np.inf if width is None else float(width) for width in halves])
                ends = answers - half, answers + half
            elif isinstance(estimator, Linear) and _all_in(estimator.parts, radii):
                low, high = self._sum(estimator.parts, radii)
                moved = float(estimator.rounding + estimator.grid / 2)
                ends = low - moved, high + moved
            elif isinstance(estimator, Mean) and _all_in((*estimator.total.parts, *estimator.count), radii):
                ends = self._mean(estimator, radii)
            found.append((np.nan_to_num(ends[0], nan=-np.inf), np.nan_to_num(ends[1], nan=np.inf)))
        return found

    def _sum(self, parts: Parts, radii: dict[Statistic, int]) -> Ends:
        centre = sum(self.released.statistics[item].astype(np.float64) * float(factor) for item, factor in parts)
        radius = math.fsum(radii[item] * abs(float(factor)) for item, factor in parts)
        return np.asarray(centre - radius), np.asarray(centre + radius)

    def _mean(self, estimator: Mean, radii: dict[Statistic, int]) -> Ends:
        """Return c + Σ(x-c)/n at the corners; of fewer rows than one there is no mean."""
        counts = [np.maximum(end, 1) for end in self._sum(estimator.count, radii)]
        corners = [total / count for total in self._sum(estimator.total.parts, radii) for count in counts]
        centre, step = float(estimator.total.centre), float(estimator.total.factor.step)
        ends = (np.clip(end, *estimator.total.ends) for end in (np.minimum.reduce(corners), np.maximum.reduce(corners)))
        low, high = ((centre + end) * step for end in ends)
        return low, high


def _all_in(parts: Parts, radii: dict[Statistic, int]) -> bool:
    return all(item in radii for item, _ in parts)


def _possible(aggregate: Aggregate, ends: Ends) -> Ends:
    """Return the ends within what a truth can be: counts are not below 0, nor sums of what never is."""
    low, high = ends
    if aggregate.kind in _COUNTS:
        return np.maximum(low, 0), np.maximum(high, 0)
    if aggregate.kind in {AggregateKind.SUM, AggregateKind.SUM_DISTINCT}:
        type_ = aggregate.arguments[0].type
        if type_.lower is not None and type_.lower >= 0:
            low, high = np.maximum(low, 0), np.maximum(high, 0)
        if type_.upper is not None and type_.upper <= 0:
            low, high = np.minimum(low, 0), np.minimum(high, 0)
    return low, high
