"""Outputs: a question's expressions, HAVING, ORDER BY and LIMIT, evaluated over released numbers.

Everything here is post-processing. How far off each number may be is said by `hush.curator.error_bars`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core.columns import largest_magnitude
from hush.curator.error_bars import ShownRows, half_widths, widths_at
from hush.curator.release import NoisyGroups, Simulation, estimates
from hush.mechanisms.grouped.base import Integers
from hush.mechanisms.grouped.noise import own_orders
from hush.query.answers.plan import ComposedPlan, added_up_plan
from hush.query.expressions import Call, Expression, Released
from hush.query.plan.estimators import Linear
from hush.query.plan.expected import errs, is_count
from hush.query.plan.plan import Plan
from hush.query.question import AggregateKind
from hush.query.released import Array, Ends, as_array, evaluate, key_array, shown
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, uniform

_NEVER_NEGATIVE = {
    AggregateKind.COUNT,
    AggregateKind.COUNT_UNITS,
    AggregateKind.COUNT_DISTINCT,
    AggregateKind.VARIANCE,
    AggregateKind.VARIANCE_POPULATION,
}
_WITHIN = {
    AggregateKind.AVG,
    AggregateKind.AVG_DISTINCT,
    AggregateKind.QUANTILE,
    AggregateKind.MIN,
    AggregateKind.MAX,
    AggregateKind.MODE,
}
"""Aggregates that lie between the bounds of their argument."""

Compute = Callable[[Sequence[Sequence[Any]], Sequence[Sequence[Any]]], Sequence[tuple[Any, ...]]]
"""Evaluates functions of released values in an engine: takes the columns of keys and of aggregates, returns rows."""


@dataclass(slots=True, eq=False)
class GroupColumns:
    """The released groups of a plan as columns: keys, further keys from an engine, and each aggregate's answers."""

    plan: Plan
    """Its question reads the further keys that an engine computes."""
    released: NoisyGroups
    keys: list[Array]
    aggregates: list[Array]
    exact: list[list[Any]]
    """Each aggregate's answers as they are shown; whole numbers are exact."""
    evaluated: Mapping[Expression, Expression]
    """For some expressions, the expression to evaluate in their place (`hush.query.released`)."""
    _truths: dict[int, Array] | None = None
    _finer: tuple[GroupColumns, npt.NDArray[np.int64]] | None = None
    """Where groups are added up: the finer ones, and which group each belongs to."""

    @property
    def outputs(self) -> list[Expression]:
        """The question's outputs."""
        return [expression for _, expression in self.plan.question.outputs]

    def values(self, expression: Expression) -> Sequence[Any]:
        """Return the values of an output."""
        expression = self.evaluated.get(expression, expression)
        if isinstance(expression, Released):
            if expression.source == "key":
                return [key[expression.index] for key in self.released.keys]
            return self.exact[expression.index]
        size = len(self.released.keys)
        values: list[Any] = np.broadcast_to(evaluate(expression, self.keys, self.aggregates), (size,)).tolist()
        return values

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.released.keys)

    def ends(self, expression: Expression, missing: float) -> Ends:
        """Return the interval of an output's truth, which misses it with probability ``missing`` at most."""
        return self.rows().ends(expression, missing=missing, settled=missing)

    def rows(self) -> ShownRows:
        """Return all groups, for half-widths."""
        return ShownRows(self.plan, self.released, self.keys, self.aggregates)

    def take(self, places: Sequence[int]) -> GroupColumns:
        """Return some of the groups, in this order."""
        return GroupColumns(
            plan=self.plan,
            released=self.released.rows(places),
            keys=[column[places] for column in self.keys],
            aggregates=[column[places] for column in self.aggregates],
            exact=[[values[row] for row in places] for values in self.exact],
            evaluated=self.evaluated,
        )

    def widths(self, expression: Expression, places: npt.NDArray[np.int64], confidence: float) -> list[float | None]:
        """Return the half-widths of an output in some groups."""
        if not errs(self.plan, expression):
            return [None] * len(places)
        columns = self if len(places) == len(self.released.keys) and (np.diff(places) == 1).all() else None
        groups = self.take(places.tolist()) if columns is None else columns
        return widths_at(confidence, [expression], groups.rows())[expression]

    def truths(self, draws: int) -> Mapping[int, Array]:
        """Return plausible truths of each aggregate, a row for each draw, in which every group has noise of its own.

        The draws that all groups share are run through in an order of each group's own.
        """
        if self._truths is None:
            size = len(self.released.keys)
            self._truths = {}
            if draws and size:
                simulation = Simulation(self.plan, self.released, draws)
                every, orders = np.arange(size), own_orders(size, draws)
                for number, aggregate in enumerate(self.plan.question.aggregates):
                    if aggregate.type.kind.numeric:
                        outcomes = self._added(number, draws)
                        if outcomes is None:
                            outcomes = np.take_along_axis(simulation[number].of(every, slice(None)), orders, axis=1).T
                        self._truths[number] = outcomes
        return self._truths

    def _added(self, aggregate: int, draws: int) -> Array | None:
        """Return the sums of finer groups' plausible truths, for counts and sums."""
        if self._finer is None or not isinstance(self.plan.estimators[aggregate], Linear):
            return None
        finer, group = self._finer
        truths = finer.truths(draws).get(aggregate)
        if truths is None:
            return None
        sums = np.zeros((draws, len(self.released.keys)))
        np.add.at(sums.T, group, truths.T)
        return sums

    def added_up(self, kept: Sequence[int]) -> GroupColumns:
        """Return coarser groups: each is the sum of the groups with equal values of the kept public keys."""
        numbers: dict[tuple[Any, ...], int] = {}
        keys = [tuple(key[index] for index in kept) for key in self.released.keys]
        group = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        first = np.unique(group, return_index=True)[1].tolist()
        # groups may be sums of different numbers of groups: the noise of the largest sum is taken for all
        times = int(np.bincount(group).max(initial=1))
        statistics = {
            measure: _summed(values, group, len(numbers)) for measure, values in self.released.statistics.items()
        }
        released = NoisyGroups(
            keys=[self.released.keys[row] for row in first], statistics=statistics, picks=(), halves=()
        )
        plan = added_up_plan(self.plan, times)
        exact = estimates(plan, released)
        return GroupColumns(
            plan=plan,
            released=released,
            keys=[column[first] for column in self.keys],
            aggregates=_answers(plan, exact),
            exact=exact,
            evaluated=self.evaluated,
            _finer=(self, group),
        )


def _summed(values: Integers, group: npt.NDArray[np.int64], groups: int) -> Integers:
    """Return the sums of whole numbers by group, in Python's integers where they might not fit."""
    # no partial sum can then overflow an int64
    few = largest_magnitude(values) * max(len(values), 1) < 2**62
    sums = np.zeros(groups, dtype=np.int64) if few else np.array([0] * groups, dtype=object)
    np.add.at(sums, group, values.astype(sums.dtype))
    return sums


def _answers(plan: Plan, exact: list[list[Any]]) -> list[Array]:
    return [
        as_array(values, aggregate.type.kind) for values, aggregate in zip(exact, plan.question.aggregates, strict=True)
    ]


def group_columns(plan: Plan, released: NoisyGroups, compute: Compute) -> GroupColumns:
    """Return released groups as columns, with the functions of keys and answers that an engine evaluates."""
    exact, view = estimates(plan, released), shown(plan.question)
    if view.parts:
        columns_of_keys = [[key[index] for key in released.keys] for index in range(len(plan.question.keys))]
        further = compute(columns_of_keys, exact)
        released = replace(released, keys=[(*key, *more) for key, more in zip(released.keys, further, strict=True)])
        plan = replace(plan, question=view.question)
    keys = [
        key_array([key[index] for key in released.keys], expression.type.kind)
        for index, (_, expression) in enumerate(plan.question.keys)
    ]
    return GroupColumns(plan, released, keys, _answers(plan, exact), exact, view.values)


def estimate_outputs(read: GroupColumns) -> tuple[AnswerColumn, ...]:
    """Return the columns of an answer: outputs, HAVING, ORDER BY and LIMIT over the released groups."""
    size = len(read.released.keys)
    row_numbers, candidates = _chosen(read, size)
    if row_numbers != list(range(size)):
        read = read.take(row_numbers)
    # after the cut: half-widths are simulated for shown rows alone
    errors = half_widths(read.rows(), candidates)
    return tuple(
        AnswerColumn(
            name=name,
            kind=expression.type.kind,
            values=uniform(read.values(expression), expression.type.kind),
            errors=tuple(errors[expression]) if expression in errors else None,
            counts=is_count(expression, read.plan),
            **limits_of(expression, read.plan),
        )
        for name, expression in read.plan.question.outputs
    )


def _chosen(read: GroupColumns, size: int) -> tuple[list[int], int]:
    """Return which groups are shown, in order, and how many passed HAVING."""
    question, evaluated = read.plan.question, read.evaluated

    def value(one: Expression) -> Array:
        return np.broadcast_to(evaluate(evaluated.get(one, one), read.keys, read.aggregates), (size,))

    rows = np.arange(size)
    if question.having is not None:
        rows = rows[value(question.having) == 1]
    candidates = len(rows)
    # the sort is stable, so the least important column goes first
    for term in reversed(question.order):
        values = value(term.by)
        rows = _sorted(rows, values, descending=term.descending, nulls_first=term.nulls_first)
    stop = None if question.limit is None else question.offset + question.limit
    return rows[question.offset : stop].tolist(), candidates


def _sorted(rows: Any, values: Array, *, descending: bool, nulls_first: bool) -> Any:
    """Sort rows stably, NULL at the end that was asked for."""

    def empty(value: Any) -> bool:
        return value is None or (isinstance(value, float) and math.isnan(value))

    full = [row for row in rows if not empty(values[row])]
    none = [row for row in rows if empty(values[row])]
    ordered = sorted(full, key=lambda at: values[at], reverse=descending)  # stable either way
    return np.array([*none, *ordered] if nulls_first else [*ordered, *none], dtype=int)


def limits_of(expression: Expression, plan: Plan) -> dict[str, float]:
    """Return the limits of an output's truth that follow from question and policy; empty where none do."""
    if not expression.type.kind.numeric:
        return {}
    if isinstance(expression, Call):  # the type of a function holds for whatever is released: a root is at least 0
        ends = {"lower": expression.type.lower, "upper": expression.type.upper}
        return {end: float(limit) for end, limit in ends.items() if limit is not None}
    if not isinstance(expression, Released) or expression.source == "key":
        return {}
    aggregate = plan.question.aggregates[expression.index]
    arguments = aggregate.arguments[0].type if aggregate.arguments else None
    lower, upper = None, None
    if aggregate.kind in _NEVER_NEGATIVE:
        lower = Fraction(0)
    elif aggregate.kind is AggregateKind.CORRELATION:
        lower, upper = Fraction(-1), Fraction(1)
    elif arguments is not None and aggregate.kind in _WITHIN:
        lower, upper = arguments.lower, arguments.upper
    elif arguments is not None and aggregate.kind in {AggregateKind.SUM, AggregateKind.SUM_DISTINCT}:
        lower = Fraction(0) if arguments.lower is not None and arguments.lower >= 0 else None
        upper = Fraction(0) if arguments.upper is not None and arguments.upper <= 0 else None
    ends = {"lower": lower, "upper": upper}
    return {end: float(limit) for end, limit in ends.items() if limit is not None}


def composed_columns(plan: ComposedPlan, read: Mapping[int, GroupColumns]) -> tuple[AnswerColumn, ...]:
    """Return the columns of a question over answers, from the released groups of its inner questions."""
    from hush.query.answers.evaluate import Composer

    return tuple(
        AnswerColumn(
            name=column.name,
            kind=column.kind,
            values=uniform(column.values, column.kind),
            errors=column.errors,
            counts=column.counts,
        )
        for column in Composer(plan, read).columns()
    )


def with_intervals(columns: tuple[AnswerColumn, ...], ends: Sequence[tuple[str, str]]) -> tuple[AnswerColumn, ...]:
    """Return an answer in which some columns are an end of their error bar; NULL where the bar has no end."""
    signs = {name: -1 if end == "low" else 1 for name, end in ends}
    answer_columns = []
    for column in columns:
        if column.name not in signs:
            answer_columns.append(column)
            continue
        errors = column.errors or (None,) * len(column.values)
        values = tuple(
            None if value is None or error is None else value + signs[column.name] * error
            for value, error in zip(column.values, errors, strict=True)
        )
        answer_columns.append(AnswerColumn(name=column.name, kind=Kind.DECIMAL, values=values, errors=None))
    return tuple(answer_columns)
