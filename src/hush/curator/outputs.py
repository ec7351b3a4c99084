"""Outputs: a question's expressions, HAVING, ORDER BY and LIMIT over what was released; half-widths of numbers.

An output that *is* a noisy count or sum has the half-width of its noise's own law: the least whole number of steps that
holds with 95 %, which integer noise can exceed (a count at ε = 1 holds within ± 3 in 97.3 % of cases, within ± 2 in
92.7 %). Quantiles bring theirs along. Everything else (averages, ratios, standard deviations, CASE over counts) gets
its half-width by simulation: fresh noise of the known laws is subtracted from the released statistics, the whole output
expression is evaluated again, and the half-width is the distance from the answer that the results keep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.curator.release import Released, estimates, simulate
from hush.query.evaluate import Array, as_array, evaluate
from hush.query.expressions import Call, Expression
from hush.query.expressions import Released as Reference
from hush.query.plan.choices import ChoiceKind
from hush.query.plan.estimators import Linear, Picked
from hush.query.plan.plan import CONFIDENCE, Plan
from hush.report.columns import Column, plain, uniform

_DRAWS = 2000
_CELLS = 400_000
_SIDE = 0.03


def build(plan: Plan, released: Released) -> tuple[Column, ...]:
    """Evaluate the outputs, HAVING, ORDER BY and LIMIT over what was released."""
    question = plan.question
    exact = estimates(plan, released)
    size = len(released.keys)
    keys = [
        as_array([key[at] for key in released.keys], expression.type.kind)
        for at, (_, expression) in enumerate(question.keys)
    ]
    aggregates = [
        as_array(values, aggregate.type.kind) for values, aggregate in zip(exact, question.aggregates, strict=True)
    ]
    chosen = _chosen(plan, keys, aggregates, size)
    needed = {
        at for _, expression in question.outputs if not _known(expression, plan) for at in _aggregates_in(expression)
    }
    simulated: list[Array] = []
    columns = []
    for name, expression in question.outputs:
        values = _output(expression, plan, released, exact, keys, aggregates, size)
        errors = None
        if _has_error(expression, plan):
            direct = _direct_errors(expression, plan, released, size)
            if direct is None:
                if not simulated:
                    draws = max(400, min(_DRAWS, _CELLS // max(size, 1)))
                    simulated = list(simulate(plan, released, draws, needed))
                direct = _simulated_errors(expression, keys, aggregates, simulated, size)
            errors = direct
        columns.append(
            Column(
                name=name,
                kind=expression.type.kind,
                values=uniform(values, expression.type.kind),
                errors=None if errors is None else tuple(errors),
                counts=_is_count(expression, plan),
            ).rows(chosen)
        )
    return tuple(columns)


def _chosen(plan: Plan, keys: list[Array], aggregates: list[Array], size: int) -> list[int]:
    question = plan.question
    rows = np.arange(size)
    if question.having is not None:
        kept = np.broadcast_to(evaluate(question.having, keys, aggregates), (size,)) == 1
        rows = rows[kept]
    for item in reversed(question.order):
        values = np.broadcast_to(evaluate(item.by, keys, aggregates), (size,))
        rows = _sorted(rows, values, descending=item.descending, nulls_first=item.nulls_first)
    stop = None if question.limit is None else question.offset + question.limit
    return [int(at) for at in rows[question.offset : stop]]


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
    plan: Plan,
    released: Released,
    exact: list[list[Any]],
    keys: list[Array],
    aggregates: list[Array],
    size: int,
) -> Sequence[Any]:
    if isinstance(expression, Reference):
        if expression.source == "key":
            return [plain(key[expression.index]) for key in released.keys]
        return exact[expression.index]
    del plan
    values = np.broadcast_to(evaluate(expression, keys, aggregates), (size,))
    return [plain(value) for value in values.tolist()]


def _aggregates_in(expression: Expression) -> set[int]:
    """Return the numbers of the aggregates that an output is made of."""
    match expression:
        case Reference():
            return {expression.index} if expression.source == "aggregate" else set()
        case Call():
            return {at for argument in expression.arguments for at in _aggregates_in(argument)}
        case _:
            return set()


def _known(expression: Expression, plan: Plan) -> bool:
    """Return whether an output's half-width needs no simulation of whole answers."""
    return (
        isinstance(expression, Reference)
        and expression.source == "aggregate"
        and isinstance(plan.estimators[expression.index], Linear | Picked)
    )


def _is_count(expression: Expression, plan: Plan) -> bool:
    """Return whether the output counts rows or units."""
    if not isinstance(expression, Reference) or expression.source == "key":
        return False
    estimator = plan.estimators[expression.index]
    return isinstance(estimator, Linear) and estimator.counts


def _has_error(expression: Expression, plan: Plan) -> bool:
    """Return whether the output has a half-width: noisy numbers, and dates that are quantiles.

    A value picked from a list has none: it is right or wrong.
    """
    if not _aggregates_in(expression):
        return False
    if isinstance(expression, Reference):
        estimator = plan.estimators[expression.index]
        if isinstance(estimator, Picked):
            return estimator.choice.kind is not ChoiceKind.MODE
    return expression.type.kind.numeric


def _direct_errors(expression: Expression, plan: Plan, released: Released, size: int) -> list[float | None] | None:
    """Return exact half-widths where the output is one aggregate whose noise law is known; None to simulate."""
    if not isinstance(expression, Reference) or not _known(expression, plan):
        return None
    estimator = plan.estimators[expression.index]
    if isinstance(estimator, Linear):
        return [plan.expected_error(expression.index, CONFIDENCE)] * size
    at = [item for item in plan.estimators[: expression.index] if isinstance(item, Picked)]
    return list(released.halves[len(at)])


def _simulated_errors(
    expression: Expression, keys: list[Array], aggregates: list[Array], simulated: list[Array], size: int
) -> list[float | None]:
    """Return the least half-widths that leave at most 5 % of the plausible truths outside, and 3 % on either side.

    A one-sided limit at a fixed share holds as often as it says for every ratio of noisy numbers (what is simulated is
    Fieller's pivot), whereas one that takes all 5 % on whichever side is left does not: the side depends on the noise.
    With at most 3 % on either side intervals hold in 94 to 97 % of cases, however skew they are.
    """
    answer = np.broadcast_to(evaluate(expression, keys, aggregates), (size,))
    if not size:
        return []
    others = evaluate(expression, keys, simulated)
    with np.errstate(all="ignore"):
        moved = np.broadcast_to(others, (others.shape[0] if others.ndim > 1 else 1, size)) - answer
    moved = np.ascontiguousarray(moved.T)
    if np.isnan(moved).any():
        below, above = (np.where(np.isnan(moved), np.inf, sign * moved) for sign in (-1, 1))  # undefined: anywhere
    else:
        below, above = -moved, moved
    widths = _reach(np.maximum(below, above), CONFIDENCE)
    for side in (below, above):
        short = np.count_nonzero(side > widths[:, None], axis=1) > side.shape[1] - 1 - _place(side, 1 - _SIDE)
        widths[short] = _reach(side[short], 1 - _SIDE)
    lower, upper = expression.type.lower, expression.type.upper
    if lower is not None and upper is not None:  # no further than the truth can be
        widths = np.minimum(widths, np.maximum(answer - float(lower), float(upper) - answer))
    return [None if not math.isfinite(width) else float(width) for width in widths]


def _reach(moved: Array, share: float) -> Array:
    """Return, in every row, the least of its numbers that no more than 1 - share of them exceed."""
    at = _place(moved, share)
    return np.asarray(np.partition(moved, at, axis=1)[:, at])


def _place(moved: Array, share: float) -> int:
    size: int = moved.shape[1]
    return math.ceil(share * (size - 1))
