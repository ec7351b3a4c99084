"""Outputs and their half-widths: expressions, HAVING, ORDER BY and LIMIT, evaluated over released numbers.

Everything here is post-processing. A half-width says how far off a shown number may be, at the confidence that was
asked for. An output that *is* a noisy count or sum, or made of such by adding and constants, has the half-width of its
noise's own law: the least whole number of steps that holds as often as the confidence says. Where integer noise would
hold much more often than that (a count at ε = 1 keeps within ± 3 in 97.3 % of cases, within ± 2 in 92.7 %), a fair
share of the cells, drawn anew each time, has one step less (`hush.mechanisms.grouped.noise`). Quantiles bring theirs
along. Everything else (averages, ratios, standard deviations, CASE over counts) gets its half-width by simulation:
fresh noise of the known laws is subtracted from the released statistics, the whole output expression is evaluated
again, and the half-width is the distance from the answer that the results keep. Where an output turns back, as ABS does
at 0, the half-widths of its aggregates say how far it can be.

Half-widths are made for the rows that are shown, and where noise decides which these are, at a confidence that holds
for them (`hush.query.plan.winners_curse`).

**Folds.** The simulated half-width of f(θ) is right where f goes one way as far as the noise tells. ABS does not: of a
sum whose noise hides its sign, the plausible |θ| are folded upon each other, so that they lie closer together than the
sum's errors do, and a truth of 0, at the end of what can be, is missed too often (SQRT(ABS(s)) held in 63 % of cases).
So where more than a tenth of what may miss lies beyond a fold, another interval is taken, which is right for every f: f
is made of k parts that have no folds, such as SUM(x) - SUM(y) in ABS(SUM(x) - SUM(y)). If each lies in its own
interval, at a level of α/k, then f lies between the ends that `hush.query.released` finds for them, and that fails with
a probability of α at most. Divisors near zero: `hush.query.released`.

**HAVING.** The construction and its proof are in `hush.query.plan.winners_curse`. Here are the boxes that it speaks of:
around the released numbers for whether HAVING is settled, around possible truths for wide bars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core.grid import largest_magnitude
from hush.curator.release import NoisyGroups
from hush.mechanisms.grouped import sum_error
from hush.mechanisms.grouped.noise import own_orders, shuffled_middles, with_shorter
from hush.query.expressions import Call, Expression, Released
from hush.query.functions.record import Array, as_array, key_array
from hush.query.plan import decided, errs, is_count, known_error, linear_factors, shorter
from hush.query.plan.draws import DrawnAggregate
from hush.query.plan.estimators import Linear, Moment, Parts, Plausible, support
from hush.query.plan.plan import Plan
from hush.query.plan.stability import Statistic
from hush.query.question import Aggregate, AggregateKind
from hush.query.released import (
    Ends,
    aggregates_in,
    beyond,
    enclose,
    evaluate,
    folds,
    least_widths,
    parts,
    possible_widths,
    shown,
    unsettled,
)
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, uniform

Floats = npt.NDArray[np.float64]
_BEYOND, _LEAST_BEYOND = 100, 20
"""How many simulated truths lie outside an interval: the usual number, and the least one for many groups."""
_TOGETHER = 2**14
"""How many numbers are simulated at once: a processor's cache holds a few arrays of this size."""
_CELLS = 400_000
_MOST_CELLS = 4_000_000
"""The most truths that are simulated for all groups together if noise decides which groups are shown.

Four times the number for a question without this choice is allowed, if that is more.
"""
_FAR_SHARE = 0.1
"""The share of the permitted misses that may lie beyond a fold before the wider interval is taken."""
_COUNTS = {AggregateKind.COUNT, AggregateKind.COUNT_UNITS, AggregateKind.COUNT_DISTINCT}
_SUMS = {AggregateKind.SUM, AggregateKind.SUM_DISTINCT}
Flags = npt.NDArray[np.bool_]

_NEVER_NEGATIVE = {*_COUNTS, AggregateKind.VARIANCE, AggregateKind.VARIANCE_POPULATION}

Compute = Callable[[Sequence[Sequence[Any]], Sequence[Sequence[Any]]], Sequence[tuple[Any, ...]]]
"""Evaluates functions of released values in an engine: takes the columns of keys and of aggregates, returns rows."""


@dataclass(slots=True, eq=False)
class GroupColumns:
    """The released groups of a plan as columns: keys, further keys from an engine, and each aggregate's answers."""

    plan: Plan
    """Its question reads the further keys that an engine computes."""
    released: NoisyGroups
    answers: list[list[Any]]
    """The released answers of each aggregate as they are shown, whole numbers without a rounding."""
    evaluated: Mapping[Expression, Expression]
    """For some expressions, the expression to evaluate in their place (`hush.query.released`)."""
    _truths: dict[int, Array] | None = None
    _finer: tuple[GroupColumns, npt.NDArray[np.int64]] | None = None
    """Where groups are added up: the finer ones, and which group each belongs to."""
    key_columns: list[Sequence[Any]] = field(init=False)
    """The values of each key, as they are shown."""
    keys: list[Array] = field(init=False)
    aggregates: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        question, rows = self.plan.question, self.released.keys
        self.key_columns = [*zip(*rows, strict=True)] if rows else [()] * len(question.keys)
        pairs = zip(self.key_columns, question.keys, strict=True)
        self.keys = [key_array(column, of.type.kind) for column, (_, of) in pairs]
        answered = zip(self.answers, question.aggregates, strict=True)
        self.aggregates = [as_array(values, aggregate.type.kind) for values, aggregate in answered]

    def values(self, expression: Expression) -> Sequence[Any]:
        """Return the values of an output."""
        expression = self.evaluated.get(expression, expression)
        if isinstance(expression, Released):
            if expression.source == "key":
                return self.key_columns[expression.index]
            return self.answers[expression.index]
        values: list[Any] = self.evaluated_at(expression).tolist()
        return values

    def evaluated_at(self, expression: Expression) -> Array:
        """Return the values of an output as an array, one for each group."""
        return np.broadcast_to(evaluate(expression, self.keys, self.aggregates), (len(self),))

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.released.keys)

    def take(self, places: Sequence[int]) -> GroupColumns:
        """Return some of the groups, in this order."""
        return GroupColumns(
            plan=self.plan,
            released=self.released.rows(places),
            answers=[[values[row] for row in places] for values in self.answers],
            evaluated=self.evaluated,
        )

    def widths(self, expression: Expression, places: npt.NDArray[np.int64], confidence: float) -> list[float | None]:
        """Return the half-widths of an output in some groups."""
        if not errs(self.plan, expression):
            return [None] * len(places)
        return widths_at(confidence, [expression], self.take(places.tolist()))[expression]

    def truths(self, draws: int) -> Mapping[int, Array]:
        """Return plausible truths of each aggregate, a row for each draw, in which every group has noise of its own.

        The draws that all groups share are run through in an order of each group's own.
        """
        if self._truths is None:
            size = len(self)
            self._truths = {}
            if draws and size:
                simulation = Simulation(self.plan, self.released, draws)
                every, orders = np.arange(size), own_orders(size, draws)
                for number, aggregate in enumerate(self.plan.question.aggregates):
                    if not aggregate.type.kind.numeric:
                        continue
                    # counts and sums that were added up: the sums of the finer groups' truths
                    added = self._finer if isinstance(self.plan.estimators[number], Linear) else None
                    if added is not None and number in (truths := added[0].truths(draws)):
                        self._truths[number] = np.zeros((draws, size))
                        np.add.at(self._truths[number].T, added[1], truths[number].T)
                    else:
                        outcomes = simulation[number].of(every)
                        self._truths[number] = np.take_along_axis(outcomes, orders, axis=1).T
        return self._truths

    def added_up(self, kept: Sequence[int]) -> GroupColumns:
        """Return coarser groups: each is the sum of the groups with equal values of the kept public keys."""
        from hush.query.answers.plan import added_up_plan

        numbers: dict[tuple[Any, ...], int] = {}
        keys = [tuple(key[index] for index in kept) for key in self.released.keys]
        group = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        first = np.unique(group, return_index=True)[1].tolist()
        # groups may be sums of different numbers of groups: the noise of the largest sum is taken for all
        times = int(np.bincount(group).max(initial=1))
        statistics = {}
        for measure, values in self.released.statistics.items():
            # in Python's integers where a partial sum might not fit
            few = largest_magnitude(values) * max(len(values), 1) < 2**62
            sums = np.zeros(len(numbers), dtype=np.int64) if few else np.array([0] * len(numbers), dtype=object)
            np.add.at(sums, group, values.astype(sums.dtype))
            statistics[measure] = sums
        released = NoisyGroups(keys=[self.released.keys[row] for row in first], statistics=statistics, picks={})
        plan = added_up_plan(self.plan, times)
        return GroupColumns(
            plan=plan,
            released=released,
            answers=estimates(plan, released),
            evaluated=self.evaluated,
            _finer=(self, group),
        )

    # intervals of truths

    def settled(self, missing: float) -> Flags:
        """Return the rows in which HAVING holds everywhere in the box around the released numbers."""
        winners, having, laws = self.plan.winners, self.plan.question.having, self.plan.laws
        assert winners is not None  # noqa: S101 - the caller looked
        assert having is not None  # noqa: S101 - the caller looked
        # the fraction of its maximum to which the density of noise must have fallen, per coordinate
        share = missing / (2 * winners.coordinates)
        if not winners.forms:
            return self._holds(having, self._boxes({measure: law.falls_to(share) for measure, law in laws.items()}))
        answers, around = self._numbers(), dict[int, Ends]()
        for number in winners.having:  # how far each count or sum may be moved without HAVING changing
            estimator = self.plan.estimators[number]
            assert isinstance(estimator, Linear)  # noqa: S101 - forms are
            parts = [(factor, laws[statistic]) for statistic, factor in estimator.parts]
            if len(parts) == 1:
                radius = abs(parts[0][0]) * parts[0][1].falls_to(share)
            elif winners.coordinates == 1:
                radius = sum_error(parts, 1 - missing / 2)
            else:  # the density of a sum of five noises or fewer is no more of its maximum than four times the tails
                radius = sum_error(parts, 1 - share / 4)
            moved = float(estimator.widened(Fraction(radius)) + estimator.grid)
            around[number] = answers[number] - moved, answers[number] + moved
        return self._holds(having, self._around(around))

    def ends(self, output: Expression, missing: float, settled: float | None = None) -> Ends:
        """Return the interval of an output's truth in rows for which noise may have decided HAVING.

        ``missing`` is how often these may be wrong, ``settled`` how often where HAVING is.
        """
        needed = aggregates_in(output)
        items = frozenset[object]().union(*(support(self.plan.estimators[number]) for number in needed))
        # a union bound: each of the statistics may miss an equal share
        certain = 1 - missing / max(len(items), 1)
        boxes = self._boxes(
            {measure: law.error(certain) for measure, law in self.plan.laws.items() if measure in items}
        )
        ends = []
        for number, aggregate in enumerate(self.plan.question.aggregates):
            low, high = boxes[number]
            if number in needed and aggregate.kind in _COUNTS | _SUMS:
                lower, upper = _limits(aggregate)
                low = low if lower is None else np.maximum(low, float(lower))
                high = high if upper is None else np.minimum(high, float(upper))
            ends.append((low, high))
        size = len(self)
        low, high = enclose(output, self.keys, ends, size)
        width = known_error(self.plan, output, 1 - missing)
        if width is None:
            return low, high
        centre = enclose(output, self.keys, self._around({}), size)[0]
        low, high = np.maximum(low, centre - width), np.minimum(high, centre + width)
        below, above = self._one_sided(output)
        narrow = known_error(self.plan, output, 1 - (missing if settled is None else settled))
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
        less = self._holds(having, self._around({index: (-infinite, answers)}))
        more = self._holds(having, self._around({index: (answers, infinite)}))
        return (less, more) if factors[index] > 0 else (more, less)

    def _holds(self, having: Expression, ends: list[Ends]) -> Flags:
        return np.asarray(enclose(having, self.keys, ends, len(self.released.keys))[0] == 1)

    def _numbers(self) -> list[Array]:
        """Return the answers as numbers; NaN for answers that are not numbers."""
        size = len(self)
        return [column if column.dtype == np.float64 else np.full(size, np.nan) for column in self.aggregates]

    def _around(self, ends: dict[int, Ends]) -> list[Ends]:
        """Return the ends of each aggregate; of those without ends, the answer as both."""
        return [ends.get(index, (answers, answers)) for index, answers in enumerate(self._numbers())]

    def _boxes(self, radii: dict[Statistic, int]) -> list[Ends]:
        """Return the interval of each aggregate if every released statistic is off by no more than its radius."""
        intervals: list[Ends] = []
        size = len(self)
        unknown = np.full(size, np.inf)
        for estimator, answers in zip(self.plan.estimators, self._numbers(), strict=True):
            ends = -unknown, unknown
            if isinstance(estimator, DrawnAggregate):
                half_widths = self.released.picks[estimator].half_widths
                half = np.array([np.inf if width is None else float(width) for width in half_widths])
                ends = answers - half, answers + half
            elif isinstance(estimator, Linear) and support(estimator) <= radii.keys():
                low, high = self._sum(estimator.parts, radii)
                moved = float(estimator.rounding + estimator.grid / 2)
                ends = low - moved, high + moved
            elif (
                isinstance(estimator, Moment)
                and estimator.kind is AggregateKind.AVG
                and support(estimator) <= radii.keys()
            ):
                # c + Σ(x-c)/n is monotone in sum and count each, so its extremes are at the corners; of fewer rows than
                # one there is no mean
                (total,), counts = estimator.first, [np.maximum(end, 1) for end in self._sum(estimator.count, radii)]
                corners = [end / count for end in self._sum(total.parts, radii) for count in counts]
                centre, step = float(total.centre), float(total.factor.step)
                lowest, highest = np.minimum.reduce(corners), np.maximum.reduce(corners)
                low, high = ((centre + np.clip(end, *total.ends)) * step for end in (lowest, highest))
                ends = low, high
            intervals.append((np.nan_to_num(ends[0], nan=-np.inf), np.nan_to_num(ends[1], nan=np.inf)))
        return intervals

    def _sum(self, parts: Parts, radii: dict[Statistic, int]) -> Ends:
        centre = sum(self.released.statistics[measure].astype(np.float64) * float(factor) for measure, factor in parts)
        radius = math.fsum(radii[measure] * abs(float(factor)) for measure, factor in parts)
        return np.asarray(centre - radius), np.asarray(centre + radius)


def group_columns(plan: Plan, released: NoisyGroups, compute: Compute) -> GroupColumns:
    """Return released groups as columns, with the functions of keys and answers that an engine evaluates."""
    answers, view = estimates(plan, released), shown(plan.question)
    if view.parts:
        columns_of_keys = [[key[index] for key in released.keys] for index in range(len(plan.question.keys))]
        further = compute(columns_of_keys, answers)
        released = released._replace(keys=[(*key, *more) for key, more in zip(released.keys, further, strict=True)])
        plan = replace(plan, question=view.question)
    return GroupColumns(plan, released, answers, view.values)


def estimate_outputs(read: GroupColumns) -> tuple[AnswerColumn, ...]:
    """Return the columns of an answer: outputs, HAVING, ORDER BY and LIMIT over the released groups."""
    question, evaluated, size = read.plan.question, read.evaluated, len(read)
    rows = np.arange(size)
    if question.having is not None:
        rows = rows[read.evaluated_at(evaluated.get(question.having, question.having)) == 1]
    candidates = len(rows)
    # sorts are stable, so the least important column goes first
    for term in reversed(question.order):
        values = read.evaluated_at(evaluated.get(term.by, term.by))
        empty = np.array([value is None or value != value for value in values[rows].tolist()], dtype=np.bool_)  # noqa: PLR0124
        full = sorted(rows[~empty].tolist(), key=values.__getitem__, reverse=term.descending)
        none = rows[empty].tolist()
        rows = np.array([*none, *full] if term.nulls_first else [*full, *none], dtype=int)
    stop = None if question.limit is None else question.offset + question.limit
    shown_rows = rows[question.offset : stop].tolist()
    if shown_rows != list(range(size)):
        read = read.take(shown_rows)
    # after the cut: half-widths are simulated for shown rows alone
    errors = half_widths(read, candidates)
    columns = []
    for name, expression in read.plan.question.outputs:
        kind, (lower, upper) = expression.type.kind, limits_of(expression, read.plan)
        column = AnswerColumn(
            name=name,
            kind=kind,
            values=uniform(read.values(expression), kind),
            errors=tuple(errors[expression]) if expression in errors else None,
            counts=is_count(expression, read.plan),
            lower=None if lower is None else float(lower),
            upper=None if upper is None else float(upper),
        )
        columns.append(column)
    return tuple(columns)


def limits_of(expression: Expression, plan: Plan) -> tuple[Fraction | None, Fraction | None]:
    """Return the limits of an output's truth, as far as they follow from question and policy."""
    if isinstance(expression, Released) and expression.source == "aggregate" and expression.type.kind.numeric:
        return _limits(plan.question.aggregates[expression.index])
    if isinstance(expression, Call) and expression.type.kind.numeric:
        # the type of a function holds for whatever is released: a root is at least 0
        return expression.type.lower, expression.type.upper
    return None, None


def _limits(aggregate: Aggregate) -> tuple[Fraction | None, Fraction | None]:
    """Return the limits of an aggregate's truth; its type has those that hold for the noisy answer as well."""
    argument = aggregate.arguments[0].type if aggregate.arguments else None
    if aggregate.kind in _NEVER_NEGATIVE:
        return Fraction(0), None
    if argument is not None and aggregate.kind in {AggregateKind.AVG, AggregateKind.AVG_DISTINCT}:
        return argument.lower, argument.upper
    if argument is not None and aggregate.kind in _SUMS:  # a sum of non-negative values is not below 0
        lower = Fraction(0) if argument.lower is not None and argument.lower >= 0 else None
        return lower, Fraction(0) if argument.upper is not None and argument.upper <= 0 else None
    return aggregate.type.lower, aggregate.type.upper


def with_intervals(columns: tuple[AnswerColumn, ...], ends: Sequence[tuple[str, str]]) -> tuple[AnswerColumn, ...]:
    """Return an answer in which some columns are an end of their error bar; NULL where the bar has no end."""
    answer_columns = {column.name: column for column in columns}
    for name, end in ends:
        column, sign = answer_columns[name], -1 if end == "low" else 1
        values = tuple(
            None if value is None or error is None else value + sign * error
            for value, error in zip(column.values, column.errors or (None,) * len(column.values), strict=True)
        )
        answer_columns[name] = AnswerColumn(name=name, kind=Kind.DECIMAL, values=values)
    return tuple(answer_columns.values())


# half-widths


def half_widths(rows: GroupColumns, candidates: int) -> dict[Expression, list[float | None]]:
    """Return the half-widths of every noisy output in the shown rows.

    ``candidates`` is the number of rows that passed HAVING, before ORDER BY and LIMIT chose among them.
    """
    plan = rows.plan
    noisy = [expression for _, expression in plan.question.outputs if errs(plan, expression)]
    by_noise = [expression for expression in noisy if decided(plan, expression)]
    errors = widths_at(plan.confidence, [expression for expression in noisy if expression not in by_noise], rows)
    if plan.winners is None or not by_noise:
        return errors
    row_count = len(rows)
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
    confidence: float, expressions: list[Expression], rows: GroupColumns
) -> dict[Expression, list[float | None]]:
    """Return half-widths that hold as often as a confidence says.

    Where the law of an output's noise is not known, plausible truths are simulated. Their half-width is the least that
    leaves at most 5 % of them outside, and 3 % on either side. A one-sided limit at a fixed share holds as often as it
    says for every ratio of noisy numbers (what is simulated is Fieller's pivot; the head of this module says what
    becomes of divisors near zero), whereas one that takes all 5 % on whichever side is left does not: the side depends
    on the noise. With at most 3 % on either side intervals hold in 94 to 97 % of cases, however skew they are. Likewise
    at other confidences.
    """
    plan, size = rows.plan, len(rows)
    errors: dict[Expression, list[float | None]] = {}
    simulated = []
    for output in expressions:
        choice = plan.estimator(output)
        if isinstance(choice, DrawnAggregate):
            # the half-widths that were drawn with quantiles, if they hold at this confidence; else wider ones
            if plan.draw(choice).confidences[choice] < confidence - 1e-12:
                errors[output] = _enclosed(output, rows, missing=1 - confidence, settled=1 - confidence)
            else:
                errors[output] = list(rows.released.picks[choice].half_widths)
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
    if not simulated:
        return errors
    outside = 1 - confidence
    simulation = Simulation(plan, rows.released, _draws(confidence, size, plan.confidence))
    with np.errstate(all="ignore"):
        for output in simulated:
            answers = rows.evaluated_at(output)
            # with a single part the interval needs no union bound, so it is taken in every group
            crossed = np.full(size, len(parts(output)[1]) == 1) if folds(output) else None
            widths = _simulated(simulation, output, rows, answers, outside, crossed)
            if crossed is not None and crossed.any():
                widths = np.where(crossed, np.maximum(widths, _between(output, rows, answers, outside)), widths)
            errors[output] = possible_widths(widths, answers, output.type)
    return errors


def _enclosed(expression: Expression, rows: GroupColumns, *, missing: float, settled: float) -> list[float | None]:
    """Return half-widths that reach both ends of the interval of the truth; None where the interval has no end."""
    size = len(rows)
    if not expression.type.kind.numeric:
        return [None] * size
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    if not isinstance(rows.plan.estimator(expression), DrawnAggregate):
        low, high = rows.ends(expression, missing, settled)
    answers = rows.evaluated_at(expression)
    return possible_widths(np.maximum(answers - low, high - answers), answers, expression.type)


def _draws(confidence: float, size: int, plain: float) -> int:
    """Return the number of simulated truths per group: 2,000 at 95 %, 400 if there are many groups.

    Where noise decides which rows are shown, the confidence is above the ``plain`` one, and the number is the least
    that this confidence needs.
    """
    maximum, least = math.ceil(_BEYOND / (1 - plain) - 1e-6), math.ceil(_LEAST_BEYOND / (1 - confidence) - 1e-6)
    return max(least, min(maximum, _CELLS // max(size, 1)))


def _simulated(
    simulation: Simulation,
    expression: Expression,
    rows: GroupColumns,
    answers: Array,
    outside: float,
    crossed: npt.NDArray[np.bool_] | None,
) -> Array:
    """Return the half-widths of an output, and mark in ``crossed`` the groups that may lie beyond a fold.

    Where a group's aggregate is unknown, its half-width is the distance to the farther bound.
    """
    needed, groups = sorted(aggregates_in(expression)), np.arange(len(answers))
    widths = np.zeros(len(answers))
    if isinstance(expression, Released) and (unknown := simulation[expression.index].unknown) is not None:
        low, high = simulation[expression.index].ends
        widths, groups = np.maximum(np.abs(answers - low), np.abs(high - answers)), np.flatnonzero(~unknown)
    together = max(1, _TOGETHER // simulation.draws)
    for start in range(0, len(groups), together):
        batch = groups[start : start + together]
        if isinstance(expression, Released):
            draws = simulation[expression.index].of(batch)
            widths[batch] = least_widths(draws - answers[batch, None], outside)
            continue
        truths = [np.zeros(0)] * (needed[-1] + 1)
        for number in needed:
            truths[number] = simulation[number].of(batch).T
        keys, aggregates = ([column[batch] for column in columns] for columns in (rows.keys, rows.aggregates))
        outcomes = np.atleast_2d(evaluate(expression, keys, truths))
        anything = unsettled(expression, keys, aggregates, truths)
        outcomes = np.where(anything, np.nan, outcomes) if anything.any() else outcomes
        widths[batch] = least_widths((outcomes - answers[batch]).T, outside)
        if crossed is not None:
            far = beyond(expression, keys, aggregates, truths)
            crossed[batch] |= np.mean(np.broadcast_to(far, outcomes.shape), axis=0) > _FAR_SHARE * outside
    return widths


def _between(expression: Expression, rows: GroupColumns, answers: Array, outside: float) -> Array:
    """Return half-widths of an output with folds, from the intervals of its parts without folds."""
    size, (folded, needed) = len(answers), parts(expression)
    widths = widths_at(1 - outside / len(needed), needed, rows)
    ends: list[Ends] = []
    for output in needed:
        half, centre = np.full(size, np.inf), np.zeros(size)  # what is no number may be anything
        if output.type.kind.numeric:
            half = np.array([np.inf if width is None else width for width in widths[output]])
            centre = rows.evaluated_at(output)
        ends.append((centre - half, centre + half))
    low, high = enclose(folded, rows.keys, ends, size)
    return np.asarray(np.maximum(answers - low, high - answers))


# answers of aggregates, and their plausible truths


def estimates(plan: Plan, released: NoisyGroups) -> list[list[Any]]:
    """Return each aggregate's answers: counts and sums exactly where they are whole, other numbers as floats."""
    floats = {statistic: values.astype(np.float64) for statistic, values in released.statistics.items()}
    answers: list[list[Any]] = []
    for estimator in plan.estimators:
        match estimator:
            case Linear():
                answers.append(_exactly(estimator, released))
            case DrawnAggregate():
                answers.append(released.picks[estimator].values)
            case Moment():  # a correlation is undefined where noise made a variance negative: nothing is known, 0 ± 1
                undefined = 0.0 if estimator.kind is AggregateKind.CORRELATION else None
                numbers = estimator.evaluate(floats).tolist()
                answers.append([undefined if math.isnan(value) else value for value in numbers])
    return answers


def _exactly(estimator: Linear, released: NoisyGroups) -> list[int | float]:
    """Return sums of whole numbers times rational factors, each moved to the nearest multiple of the grid.

    Whole numbers are exact, others the nearest floats, as a division of integers is.
    """
    factors = [factor / estimator.grid for _, factor in estimator.parts]
    denominator = math.lcm(*(factor.denominator for factor in factors))
    multipliers = [int(factor * denominator) for factor in factors]
    numbers = [released.statistics[statistic] for statistic, _ in estimator.parts]
    magnitude = max(map(largest_magnitude, numbers)) * sum(map(abs, multipliers))
    form = np.int64 if max(magnitude, denominator) < 2**61 else object  # Python's integers where sums would not fit
    products = [column.astype(form) * times for column, times in zip(numbers, multipliers, strict=True)]
    sums: Any = np.add.reduce(products)
    if denominator > 1:  # the nearest whole numbers; halves go to the even neighbour
        numerators = sums
        sums = numerators // denominator
        twice = 2 * (numerators - sums * denominator)
        sums = sums + ((twice > denominator) | ((twice == denominator) & (sums % 2 == 1)))
    times, parts = estimator.grid.as_integer_ratio()
    peak = max(largest_magnitude(sums), 1) * times  # even of zeros: no array is multiplied by more than it can hold
    if max(peak, parts) < 2**53:  # floats hold both, so that a division errs once
        quick: list[int | float] = (sums * times if parts == 1 else sums * times / parts).tolist()
        return quick
    exact = [value * times for value in sums.tolist()]
    return [number // parts if number % parts == 0 else number / parts for number in exact]


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """Plausible truths of each aggregate: the released numbers minus fresh noise, ``draws`` times.

    The same draws serve all groups; each group's interval uses only its own. The noise law of picks is not known, only
    their half-widths: the truth is taken to lie anywhere within, or as far beyond as the confidence leaves.
    """

    _plan: Plan
    _released: NoisyGroups
    draws: int
    _centre: dict[Statistic, Floats] = field(default_factory=dict)
    _noise: dict[Statistic, Floats] = field(default_factory=dict)
    """One noise of each statistic, for all aggregates that are made of it."""
    _plausible: dict[int, Plausible] = field(default_factory=dict)

    def __getitem__(self, aggregate: int) -> Plausible:
        if aggregate in self._plausible:
            return self._plausible[aggregate]
        estimator = self._plan.estimators[aggregate]
        if isinstance(estimator, DrawnAggregate):
            # uniform beyond ±1 as well: a share of 1 - confidence lies outside the half-width
            places = shuffled_middles(self.draws) / self._plan.draw(estimator).confidences[estimator]
            picks = self._released.picks[estimator]
            middle, width = (
                np.array([float(value) if isinstance(value, Fraction | float | int) else math.nan for value in column])
                for column in picks
            )
            plausible = Plausible(lambda groups: middle[groups][:, None] + width[groups][:, None] * places)
        else:
            statistics = support(estimator)
            for statistic, law in self._plan.laws.items():
                if statistic in statistics and statistic not in self._noise:
                    self._centre[statistic] = self._released.statistics[statistic].astype(np.float64)
                    self._noise[statistic] = law.imagine(self.draws)
            plausible = estimator.plausible(self._centre, self._noise)
        self._plausible[aggregate] = plausible
        return plausible
