"""Outputs: a question's expressions, HAVING, ORDER BY and LIMIT over what was released.

Everything here is post-processing. How far off each number may be is said by `hush.curator.half_widths`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from hush.curator.half_widths import half_widths
from hush.curator.release import ReleasedGroups, estimates
from hush.curator.settled import ShownRows
from hush.query.evaluate import Array, as_array, evaluate, key_array
from hush.query.expressions import Call, Expression, Released
from hush.query.plan.estimators import Linear
from hush.query.plan.plan import Plan
from hush.query.question import AggregateKind
from hush.query.released import Shown, shown
from hush.report.columns import AnswerColumn, uniform

_NEVER_NEGATIVE = {
    AggregateKind.COUNT,
    AggregateKind.COUNT_UNITS,
    AggregateKind.COUNT_DISTINCT,
    AggregateKind.VARIANCE,
    AggregateKind.VARIANCE_POPULATION,
}
_WITHIN = {AggregateKind.AVG, AggregateKind.QUANTILE, AggregateKind.MIN, AggregateKind.MAX, AggregateKind.MODE}
"""Aggregates that lie between the bounds of what they are made of."""

Compute = Callable[[Sequence[Sequence[Any]], Sequence[Sequence[Any]]], Sequence[tuple[Any, ...]]]
"""Computes functions of what was released, in an engine: from each key's and each aggregate's values by group."""


def estimate_outputs(plan: Plan, released: ReleasedGroups, compute: Compute) -> tuple[AnswerColumn, ...]:
    """Evaluate the outputs, HAVING, ORDER BY and LIMIT over what was released."""
    exact, view = estimates(plan, released), shown(plan.question)
    if view.parts:
        columns_of_keys = [[key[at] for key in released.keys] for at in range(len(plan.question.keys))]
        further = compute(columns_of_keys, exact)
        released = replace(released, keys=[(*key, *more) for key, more in zip(released.keys, further, strict=True)])
        plan = replace(plan, question=view.question)
    question = plan.question
    size = len(released.keys)
    keys = [
        key_array([key[at] for key in released.keys], expression.type.kind)
        for at, (_, expression) in enumerate(question.keys)
    ]
    aggregates = [
        as_array(values, aggregate.type.kind) for values, aggregate in zip(exact, question.aggregates, strict=True)
    ]
    chosen, candidates = _chosen(plan, view, keys, aggregates, size)
    if chosen != list(range(size)):
        released, size = released.rows(chosen), len(chosen)
        keys, aggregates = ([column[chosen] for column in columns] for columns in (keys, aggregates))
        exact = [[values[at] for at in chosen] for values in exact]
    errors = half_widths(ShownRows(plan, released, keys, aggregates), candidates)
    columns = []
    for name, expression in question.outputs:
        values = _output(view.values.get(expression, expression), released, exact, keys, aggregates, size)
        columns.append(
            AnswerColumn(
                name=name,
                kind=expression.type.kind,
                values=uniform(values, expression.type.kind),
                errors=tuple(errors[expression]) if expression in errors else None,
                counts=_is_count(expression, plan),
                **_limits(expression, plan),
            )
        )
    return tuple(columns)


def _chosen(plan: Plan, view: Shown, keys: list[Array], aggregates: list[Array], size: int) -> tuple[list[int], int]:
    """Return which groups are shown, in order, and how many passed HAVING."""
    question = plan.question
    rows = np.arange(size)
    if question.having is not None:
        kept = (
            np.broadcast_to(evaluate(view.values.get(question.having, question.having), keys, aggregates), (size,)) == 1
        )
        rows = rows[kept]
    candidates = len(rows)
    for item in reversed(question.order):
        values = np.broadcast_to(evaluate(view.values.get(item.by, item.by), keys, aggregates), (size,))
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


def _output(
    expression: Expression,
    released: ReleasedGroups,
    exact: list[list[Any]],
    keys: list[Array],
    aggregates: list[Array],
    size: int,
) -> Sequence[Any]:
    if isinstance(expression, Released):
        if expression.source == "key":
            return [key[expression.index] for key in released.keys]
        return exact[expression.index]
    values: list[Any] = np.broadcast_to(evaluate(expression, keys, aggregates), (size,)).tolist()
    return values


def _limits(expression: Expression, plan: Plan) -> dict[str, float]:
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
    elif arguments is not None and aggregate.kind is AggregateKind.SUM:
        lower = Fraction(0) if arguments.lower is not None and arguments.lower >= 0 else None
        upper = Fraction(0) if arguments.upper is not None and arguments.upper <= 0 else None
    ends = {"lower": lower, "upper": upper}
    return {end: float(limit) for end, limit in ends.items() if limit is not None}


def _is_count(expression: Expression, plan: Plan) -> bool:
    """Return whether the output counts rows or units."""
    if not isinstance(expression, Released) or expression.source == "key":
        return False
    estimator = plan.estimators[expression.index]
    return isinstance(estimator, Linear) and estimator.counts
