"""Outputs: a question's expressions, HAVING, ORDER BY and LIMIT over what was released.

Everything here is post-processing. How far off each number may be is said by `hush.curator.half_widths`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core.values import dataclass
from hush.curator.half_widths import half_widths, widths_at
from hush.curator.release import ReleasedGroups, Simulation, estimates
from hush.curator.settled import ShownRows
from hush.mechanisms.grouped.base import Integers, largest_magnitude
from hush.mechanisms.grouped.noise import own_orders
from hush.query.expressions import Call, Expression, Released
from hush.query.plan.composed import added_up_plan
from hush.query.plan.estimators import Linear
from hush.query.plan.expected import errs
from hush.query.plan.plan import Plan
from hush.query.question import AggregateKind
from hush.query.released import Array, as_array, evaluate, key_array, shown
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
"""Aggregates that lie between the bounds of what they are made of."""

Compute = Callable[[Sequence[Sequence[Any]], Sequence[Sequence[Any]]], Sequence[tuple[Any, ...]]]
"""Computes functions of what was released, in an engine: from each key's and each aggregate's values by group."""


@dataclass(slots=True, eq=False)
class ReadGroups:
    """What a plan released, as columns: keys, and what an engine computes of them, and each aggregate's answers."""

    plan: Plan
    """Its question reads the further keys that an engine computes."""
    released: ReleasedGroups
    keys: list[Array]
    aggregates: list[Array]
    exact: list[list[Any]]
    """Each aggregate's answers as they are shown; whole numbers are exact."""
    evaluated: Mapping[Expression, Expression]
    """What to evaluate for the values of some expressions (`hush.query.released`)."""
    _truths: dict[int, Array] | None = None
    _finer: tuple[ReadGroups, npt.NDArray[np.int64]] | None = None
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

    def rows(self) -> ShownRows:
        """Return all groups, for half-widths."""
        return ShownRows(self.plan, self.released, self.keys, self.aggregates)

    def take(self, places: Sequence[int]) -> ReadGroups:
        """Return some of the groups, in this order."""
        return ReadGroups(
            plan=self.plan,
            released=self.released.rows(places),
            keys=[column[places] for column in self.keys],
            aggregates=[column[places] for column in self.aggregates],
            exact=[[values[at] for at in places] for values in self.exact],
            evaluated=self.evaluated,
        )

    def widths(self, expression: Expression, places: npt.NDArray[np.int64], confidence: float) -> list[float | None]:
        """Return the half-widths of an output in some groups."""
        if not errs(self.plan, expression):
            return [None] * len(places)
        chosen = self if len(places) == len(self.released.keys) and (np.diff(places) == 1).all() else None
        groups = self.take(places.tolist()) if chosen is None else chosen
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
                for at, aggregate in enumerate(self.plan.question.aggregates):
                    if aggregate.type.kind.numeric:
                        found = self._added(at, draws)
                        if found is None:
                            found = np.take_along_axis(simulation[at].of(every, slice(None)), orders, axis=1).T
                        self._truths[at] = found
        return self._truths

    def _added(self, aggregate: int, draws: int) -> Array | None:
        """Return the sums of finer groups' plausible truths, for counts and sums."""
        if self._finer is None or not isinstance(self.plan.estimators[aggregate], Linear):
            return None
        finer, group = self._finer
        truths = finer.truths(draws).get(aggregate)
        if truths is None:
            return None
        found = np.zeros((draws, len(self.released.keys)))
        np.add.at(found.T, group, truths.T)
        return found

    def added_up(self, kept: Sequence[int]) -> ReadGroups:
        """Return fewer groups, of which each is the sum of those that agree on some public keys."""
        known: dict[tuple[Any, ...], int] = {}
        keys = [tuple(key[place] for place in kept) for key in self.released.keys]
        group = np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
        first = np.unique(group, return_index=True)[1].tolist()
        times = int(np.bincount(group).max(initial=1))
        statistics = {item: _summed(values, group, len(known)) for item, values in self.released.statistics.items()}
        released = ReleasedGroups(
            keys=[self.released.keys[at] for at in first], statistics=statistics, picks=(), halves=()
        )
        plan = added_up_plan(self.plan, times)
        exact = estimates(plan, released)
        return ReadGroups(
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
    few = largest_magnitude(values) * max(len(values), 1) < 2**62
    found = np.zeros(groups, dtype=np.int64) if few else np.array([0] * groups, dtype=object)
    np.add.at(found, group, values.astype(found.dtype))
    return found


def _answers(plan: Plan, exact: list[list[Any]]) -> list[Array]:
    return [
        as_array(values, aggregate.type.kind) for values, aggregate in zip(exact, plan.question.aggregates, strict=True)
    ]


def read_groups(plan: Plan, released: ReleasedGroups, compute: Compute) -> ReadGroups:
    """Return what was released as columns, with what an engine computes of it."""
    exact, view = estimates(plan, released), shown(plan.question)
    if view.parts:
        columns_of_keys = [[key[at] for key in released.keys] for at in range(len(plan.question.keys))]
        further = compute(columns_of_keys, exact)
        released = replace(released, keys=[(*key, *more) for key, more in zip(released.keys, further, strict=True)])
        plan = replace(plan, question=view.question)
    keys = [
        key_array([key[at] for key in released.keys], expression.type.kind)
        for at, (_, expression) in enumerate(plan.question.keys)
    ]
    return ReadGroups(plan, released, keys, _answers(plan, exact), exact, view.values)


def estimate_outputs(plan: Plan, released: ReleasedGroups, compute: Compute) -> tuple[AnswerColumn, ...]:
    """Evaluate the outputs, HAVING, ORDER BY and LIMIT over what was released."""
    read = read_groups(plan, released, compute)
    size = len(read.released.keys)
    chosen, candidates = _chosen(read, size)
    if chosen != list(range(size)):
        read = read.take(chosen)
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


def _chosen(read: ReadGroups, size: int) -> tuple[list[int], int]:
    """Return which groups are shown, in order, and how many passed HAVING."""
    question, evaluated = read.plan.question, read.evaluated

    def value(one: Expression) -> Array:
        return np.broadcast_to(evaluate(evaluated.get(one, one), read.keys, read.aggregates), (size,))

    rows = np.arange(size)
    if question.having is not None:
        rows = rows[value(question.having) == 1]
    candidates = len(rows)
    for item in reversed(question.order):
        values = value(item.by)
        rows = _sorted(rows, values, descending=item.descending, nulls_first=item.nulls_first)
    stop = None if question.limit is None else question.offset + question.limit
    return rows[question.offset : stop].tolist(), candidates


def _sorted(rows: Any, values: Array, *, descending: bool, nulls_first: bool) -> Any:
    """Sort rows stably, NULL at the end that was asked for."""

    def empty(value: Any) -> bool:
        return value is None or (isinstance(value, float) and math.isnan(value))

    full = [at for at in rows if not empty(values[at])]
    none = [at for at in rows if empty(values[at])]
    ordered = sorted(full, key=lambda at: values[at], reverse=descending)  # stable either way
    return np.array([*none, *ordered] if nulls_first else [*ordered, *none], dtype=int)


def limits_of(expression: Expression, plan: Plan) -> dict[str, float]:
    """Return between which limits an output's truth lies, where question and policy tell."""
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


def is_count(expression: Expression, plan: Plan) -> bool:
    """Return whether the output counts rows or units."""
    if not isinstance(expression, Released) or expression.source == "key":
        return False
    estimator = plan.estimators[expression.index]
    return isinstance(estimator, Linear) and estimator.counts


def with_intervals(columns: tuple[AnswerColumn, ...], ends: Sequence[tuple[str, str]]) -> tuple[AnswerColumn, ...]:
    """Return an answer in which some columns are an end of their error bar; NULL where the bar has no end."""
    found = {name: -1 if end == "low" else 1 for name, end in ends}
    made = []
    for column in columns:
        if column.name not in found:
            made.append(column)
            continue
        errors = column.errors or (None,) * len(column.values)
        values = tuple(
            None if value is None or error is None else value + found[column.name] * error
            for value, error in zip(column.values, errors, strict=True)
        )
        made.append(AnswerColumn(name=column.name, kind=Kind.DECIMAL, values=values, errors=None))
    return tuple(made)
