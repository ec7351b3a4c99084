"""Half-widths of a question's outputs: how far off each shown number may be, at the confidence that was asked for.

An output that *is* a noisy count or sum, or made of such by adding and constants, has the half-width of its noise's own
law: the least whole number of steps that holds as often as the confidence says. Where integer noise would hold much
more often than that (a count at ε = 1 keeps within ± 3 in 97.3 % of cases, within ± 2 in 92.7 %), a fair share of the
cells, drawn anew each time, has one step less (`hush.mechanisms.grouped.noise`). Quantiles bring theirs along.
Everything else (averages, ratios, standard deviations, CASE over counts) gets its half-width by simulation: fresh noise
of the known laws is subtracted from the released statistics, the whole output expression is evaluated again, and the
half-width is the distance from the answer that the results keep. Where an output turns back, as ABS does at 0, the
half-widths of its aggregates say how far it can be.

Half-widths are made for the rows that are shown, and where noise decides which these are, at a confidence that holds
for them (`hush.query.plan.winners_curse`).

**Folds.** The simulated half-width of f(θ) is right where f goes one way as far as the noise tells. ABS does not: of a
sum whose noise hides its sign, the plausible |θ| are folded upon each other, so that they lie closer together than the
sum's errors do, and a truth of 0, at the end of what can be, is missed too often (SQRT(ABS(s)) held in 63 % of cases).
So where more than a tenth of what may miss lies beyond a fold, another interval is taken, which is right for every f: f
is made of k parts that have no folds, such as SUM(x) - SUM(y) in ABS(SUM(x) - SUM(y)). If each lies in its own
interval, at a level of α/k, then f lies between the ends that `hush.query.released` finds for them, and that
fails with a probability of α at most. Divisors near zero: `hush.query.plausible`.

**HAVING.**
The construction and its proof are in `hush.query.plan.winners_curse`. Here are the boxes that it speaks of: around the
released numbers for whether HAVING is settled, around possible truths for wide bars.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.curator.release import NoisyGroups, Simulation
from hush.mechanisms.grouped import sum_error
from hush.mechanisms.grouped.noise import with_shorter
from hush.query.expressions import Expression, Released
from hush.query.plan.estimators import Drawn, Linear, Mean, Parts
from hush.query.plan.expected import decided, errs, known_error, linear_factors, shorter
from hush.query.plan.plan import Plan
from hush.query.plan.stability import Statistic
from hush.query.plan.winners_curse import support
from hush.query.plausible import allowed, beyond, folds, least_widths, parts, possible_widths, unsettled
from hush.query.question import Aggregate, AggregateKind
from hush.query.released import Array, Ends, aggregates_in, enclose, evaluate

_BEYOND, _LEAST_BEYOND = 100, 20
"""How many simulated truths lie outside an interval: the usual number, and the least one for many groups."""
_CELLS = 400_000
_MOST_CELLS = 4_000_000
"""The most truths that are simulated for all groups together if noise decides which groups are shown.

Four times the number for a question without this choice is allowed, if that is more.
"""
_FAR_SHARE = 0.1
"""The share of the permitted misses that may lie beyond a fold before the wider interval is taken."""


def half_widths(rows: ShownRows, candidates: int) -> dict[Expression, list[float | None]]:
    """Return the half-widths of every noisy output in the shown rows; ``candidates`` rows passed HAVING."""
    plan = rows.plan
    noisy = [expression for _, expression in plan.question.outputs if errs(plan, expression)]
    by_noise = [expression for expression in noisy if decided(plan, expression)]
    errors = widths_at(plan.confidence, [expression for expression in noisy if expression not in by_noise], rows)
    if plan.winners is None or not by_noise:
        return errors
    row_count = len(rows.released.keys)
    missing = plan.winners.missing(1 - plan.confidence, candidates=candidates, shown=row_count)
    # rows that noise cannot have decided need less widening than the others
    level = plan.winners.settled(missing)
    errors |= widths_at(1 - level, by_noise, rows)
    open_rows = np.flatnonzero(~rows.settled(missing)).tolist() if plan.winners.having else []
    if open_rows:
        wide = plan.winners.unsettled(missing, candidates)
        for output in by_noise:
            widths = _enclosed(output, rows, missing=wide, settled=level)
            for row in open_rows:
                errors[output][row] = widths[row]
    return errors


def widths_at(
    confidence: float, expressions: list[Expression], rows: ShownRows
) -> dict[Expression, list[float | None]]:
    """Return half-widths that hold as often as a confidence says."""
    plan, size = rows.plan, len(rows.released.keys)
    errors, simulated = {}, []
    for output in expressions:
        if _picked(output, plan):
            errors[output] = _drawn_widths(output, rows, confidence)
        elif (width := known_error(plan, output, confidence)) is not None:
            # the shorter share is computed for the confidence of the plan; at any other no cell is shortened
            less, share = shorter(plan, output) if confidence == plan.confidence else (0.0, Fraction(0))
            errors[output] = list(with_shorter(width, less, share, size))
        elif _draws(confidence, size, plan.confidence) > max(
            _MOST_CELLS // max(size, 1), 4 * _draws(plan.confidence, size, plan.confidence)
        ):  # too long
            errors[output] = _enclosed(output, rows, missing=1 - confidence, settled=1 - confidence)
        else:
            simulated.append(output)
    return errors | _simulated_errors(simulated, rows, confidence)


def _drawn_widths(expression: Expression, rows: ShownRows, confidence: float) -> list[float | None]:
    """Return the half-widths that were drawn with quantiles, if they hold at this confidence; else wider ones."""
    assert isinstance(expression, Released)  # noqa: S101 - the caller looked
    estimator = rows.plan.estimators[expression.index]
    assert isinstance(estimator, Drawn)  # noqa: S101 - the caller looked
    pick, index = rows.plan.draw(estimator.number)
    if pick.confidences[index] < confidence - 1e-12:
        return _enclosed(expression, rows, missing=1 - confidence, settled=1 - confidence)
    return list(rows.released.halves[estimator.number])


def _enclosed(expression: Expression, rows: ShownRows, *, missing: float, settled: float) -> list[float | None]:
    """Return half-widths that reach both ends of the interval of the truth; None where the interval has no end."""
    size = len(rows.released.keys)
    if not expression.type.kind.numeric or _picked(expression, rows.plan):
        ends = np.full(size, -np.inf), np.full(size, np.inf)
    else:
        ends = rows.ends(expression, missing=missing, settled=settled)
    if not expression.type.kind.numeric:
        return [None] * size
    answers = np.broadcast_to(evaluate(expression, rows.keys, rows.aggregates), (size,))
    return possible_widths(np.maximum(answers - ends[0], ends[1] - answers), answers, expression.type)


def _picked(expression: Expression, plan: Plan) -> bool:
    return (
        isinstance(expression, Released)
        and expression.source == "aggregate"
        and isinstance(plan.estimators[expression.index], Drawn)
    )


def _draws(confidence: float, size: int, plain: float) -> int:
    """Return the number of simulated truths per group: 2,000 at 95 %, 400 if there are many groups.

    Where noise decides which rows are shown, the confidence is above the ``plain`` one, and the number is the least
    that this confidence needs.
    """
    beyond = _BEYOND / (1 - plain), _LEAST_BEYOND / (1 - confidence)
    maximum, least = (math.ceil(draws - 1e-6) for draws in beyond)
    return max(least, min(maximum, _CELLS // max(size, 1)))


def _simulated_errors(
    expressions: list[Expression], rows: ShownRows, confidence: float
) -> dict[Expression, list[float | None]]:
    """Return the least half-widths that leave at most 5 % of the plausible truths outside, and 3 % on either side.

    A one-sided limit at a fixed share holds as often as it says for every ratio of noisy numbers (what is simulated is
    Fieller's pivot; the head of this module says what becomes of divisors near zero), whereas one that takes all 5 % on
    whichever side is left does not: the side depends on the noise. With at most 3 % on either side intervals hold in 94
    to 97 % of cases, however skew they are. Likewise at other confidences.
    """
    if not expressions:
        return {}
    keys, aggregates, size, outside = rows.keys, rows.aggregates, len(rows.released.keys), 1 - confidence
    simulation = Simulation(rows.plan, rows.released, _draws(confidence, size, rows.plan.confidence))
    errors = {}
    with np.errstate(all="ignore"):
        for output in expressions:
            answers = np.broadcast_to(evaluate(output, keys, aggregates), (size,))
            if isinstance(output, Released):
                widths = _of_aggregate(simulation, output.index, answers, outside)
            else:
                # with a single part the interval needs no union bound, so it is taken in every group
                crossed = np.full(size, len(parts(output)[1]) == 1) if folds(output) else None
                widths = _of_expression(simulation, output, keys, aggregates, answers, outside, crossed)
                if crossed is not None and crossed.any():
                    widths = np.where(crossed, np.maximum(widths, _between(output, rows, answers, outside)), widths)
            errors[output] = possible_widths(widths, answers, output.type)
    return errors


def _of_aggregate(simulation: Simulation, aggregate: int, answers: Array, outside: float) -> Array:
    """Return the half-widths of one aggregate; where a group is unknown, the distance to the farther bound."""
    truths = simulation[aggregate]
    low, high = truths.ends
    widths = np.maximum(np.abs(answers - low), np.abs(high - answers))
    groups = np.arange(len(answers)) if truths.unknown is None else np.flatnonzero(~truths.unknown)
    if truths.undefined:
        # where half of a few truths are undefined already, the others need not be simulated
        few = 2 * allowed(simulation.draws, outside)[0]
        for batch in simulation.parts(groups, few):
            undefined_counts = np.count_nonzero(np.isnan(truths.of(batch, slice(few))), axis=1)
            widths[batch[2 * undefined_counts >= few]] = np.inf  # as many as may lie outside, already
        groups = groups[np.isfinite(widths[groups])]
    for batch in simulation.parts(groups, simulation.draws):
        widths[batch] = least_widths(truths.of(batch, slice(None)) - answers[batch, None], outside)
    return widths


def _of_expression(
    simulation: Simulation,
    expression: Expression,
    keys: Sequence[Array],
    aggregates: Sequence[Array],
    answers: Array,
    outside: float,
    crossed: npt.NDArray[np.bool_] | None = None,
) -> Array:
    """Return the half-widths of an expression, and mark in ``crossed`` the groups that may lie beyond a fold."""
    needed = sorted(aggregates_in(expression))
    widths = np.zeros(len(answers))
    for batch in simulation.parts(np.arange(len(answers)), simulation.draws):
        truths = [np.zeros(0)] * (needed[-1] + 1)
        for number in needed:
            truths[number] = simulation[number].of(batch, slice(None)).T
        batch_keys = [key[batch] for key in keys]
        outcomes = np.atleast_2d(evaluate(expression, batch_keys, truths))
        anything = unsettled(expression, batch_keys, [column[batch] for column in aggregates], truths)
        outcomes = np.where(anything, np.nan, outcomes) if anything.any() else outcomes
        widths[batch] = least_widths((outcomes - answers[batch]).T, outside)
        if crossed is not None:
            far = beyond(expression, batch_keys, [column[batch] for column in aggregates], truths)
            crossed[batch] |= np.mean(np.broadcast_to(far, outcomes.shape), axis=0) > _FAR_SHARE * outside
    return widths


def _between(expression: Expression, rows: ShownRows, answers: Array, outside: float) -> Array:
    """Return half-widths of an output with folds, from the intervals of its parts without folds."""
    size, (folded, needed) = len(answers), parts(expression)
    widths = widths_at(1 - outside / len(needed), needed, rows)
    ends: list[Ends] = []
    for output in needed:
        half, centre = np.full(size, np.inf), np.zeros(size)  # what is no number may be anything
        if output.type.kind.numeric:
            half = np.array([np.inf if width is None else width for width in widths[output]])
            centre = np.broadcast_to(evaluate(output, rows.keys, rows.aggregates), (size,))
        ends.append((centre - half, centre + half))
    low, high = enclose(folded, rows.keys, ends, size)
    return np.asarray(np.maximum(answers - low, high - answers))


# rows that HAVING shows

_COUNTS = {AggregateKind.COUNT, AggregateKind.COUNT_UNITS, AggregateKind.COUNT_DISTINCT}
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The released columns of the shown rows: keys, and each aggregate's answers."""

    plan: Plan
    released: NoisyGroups
    keys: Sequence[Array]
    aggregates: Sequence[Array]

    def settled(self, missing: float) -> Flags:
        """Return the rows in which HAVING holds everywhere in the box around the released numbers."""
        winners, having = self.plan.winners, self.plan.question.having
        assert winners is not None  # noqa: S101 - the caller looked
        assert having is not None  # noqa: S101 - the caller looked
        if winners.forms:
            ends = self._around({number: self._radius(number, missing) for number in winners.having})
        else:
            ends = self._boxes({measure: law.falls_to(self._share(missing)) for measure, law in self.plan.laws.items()})
        return self._holds(having, ends)

    def ends(self, output: Expression, *, missing: float, settled: float) -> Ends:
        """Return the interval of an output's truth in rows for which noise may have decided HAVING.

        ``missing`` is how often these may be wrong, ``settled`` how often where HAVING is settled.
        """
        needed = aggregates_in(output)
        items = frozenset[object]().union(*(support(self.plan.estimators[number]) for number in needed))
        # a union bound: each of the statistics may miss an equal share
        certain = 1 - missing / max(len(items), 1)
        boxes = self._boxes(
            {measure: law.error(certain) for measure, law in self.plan.laws.items() if measure in items}
        )
        ends = [
            _possible(aggregate, boxes[number]) if number in needed else boxes[number]
            for number, aggregate in enumerate(self.plan.question.aggregates)
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
        """Return two flags per row: HAVING holds for all truths below the output, and for all truths above it."""
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
        """Return the answers as numbers; NaN for answers that are not numbers."""
        size = len(self.released.keys)
        return [column if column.dtype == np.float64 else np.full(size, np.nan) for column in self.aggregates]

    def _around(self, radii: dict[int, float], ends: dict[int, Ends] | None = None) -> list[Ends]:
        """Return an interval around each aggregate's answer, by its radius; ``ends`` replace some intervals."""
        intervals = [
            (answers - radii.get(index, 0.0), answers + radii.get(index, 0.0))
            for index, answers in enumerate(self._numbers())
        ]
        for index, interval in (ends or {}).items():
            intervals[index] = interval
        return intervals

    def _share(self, missing: float) -> float:
        """Return the fraction of its maximum to which the density of noise must have fallen, per coordinate."""
        winners = self.plan.winners
        assert winners is not None  # noqa: S101 - the caller looked
        return missing / (2 * winners.coordinates)

    def _radius(self, aggregate: int, missing: float) -> float:
        """Return how far a count or sum may be moved without HAVING changing."""
        estimator, laws = self.plan.estimators[aggregate], self.plan.laws
        winners = self.plan.winners
        assert isinstance(estimator, Linear)  # noqa: S101 - forms are
        assert winners is not None  # noqa: S101 - the caller looked
        parts = [(factor, laws[statistic]) for statistic, factor in estimator.parts]
        if len(parts) == 1:
            radius = abs(parts[0][0]) * parts[0][1].falls_to(self._share(missing))
        elif winners.coordinates == 1:
            radius = sum_error(parts, 1 - missing / 2)
        else:  # the density of a sum of five noises or fewer is no more of its maximum than four times the tails
            radius = sum_error(parts, 1 - self._share(missing) / 4)
        return float(estimator.widened(Fraction(radius)) + estimator.grid)

    def _boxes(self, radii: dict[Statistic, int]) -> list[Ends]:
        """Return the interval of each aggregate if every released statistic is off by no more than its radius."""
        intervals: list[Ends] = []
        size = len(self.released.keys)
        unknown = np.full(size, np.inf)
        for estimator, answers in zip(self.plan.estimators, self._numbers(), strict=True):
            ends = -unknown, unknown
            if isinstance(estimator, Drawn):
                halves = self.released.halves[estimator.number]
                half = np.array([np.inf if width is None else float(width) for width in halves])
                ends = answers - half, answers + half
            elif isinstance(estimator, Linear) and _all_in(estimator.parts, radii):
                low, high = self._sum(estimator.parts, radii)
                moved = float(estimator.rounding + estimator.grid / 2)
                ends = low - moved, high + moved
            elif isinstance(estimator, Mean) and _all_in((*estimator.total.parts, *estimator.count), radii):
                ends = self._mean(estimator, radii)
            intervals.append((np.nan_to_num(ends[0], nan=-np.inf), np.nan_to_num(ends[1], nan=np.inf)))
        return intervals

    def _sum(self, parts: Parts, radii: dict[Statistic, int]) -> Ends:
        centre = sum(self.released.statistics[measure].astype(np.float64) * float(factor) for measure, factor in parts)
        radius = math.fsum(radii[measure] * abs(float(factor)) for measure, factor in parts)
        return np.asarray(centre - radius), np.asarray(centre + radius)

    def _mean(self, estimator: Mean, radii: dict[Statistic, int]) -> Ends:
        """Return c + Σ(x-c)/n at the corners; of fewer rows than one there is no mean."""
        # a mean is monotone in sum and count each, so its extremes are at the corners
        counts = [np.maximum(end, 1) for end in self._sum(estimator.count, radii)]
        corners = [total / count for total in self._sum(estimator.total.parts, radii) for count in counts]
        centre, step = float(estimator.total.centre), float(estimator.total.factor.step)
        ends = (np.clip(end, *estimator.total.ends) for end in (np.minimum.reduce(corners), np.maximum.reduce(corners)))
        low, high = ((centre + end) * step for end in ends)
        return low, high


def _all_in(parts: Parts, radii: dict[Statistic, int]) -> bool:
    return all(statistic in radii for statistic, _ in parts)


def _possible(aggregate: Aggregate, ends: Ends) -> Ends:
    """Return the ends, clipped to possible truths: a count, or a sum of non-negative values, is not below 0."""
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
