"""Outputs: a question's expressions, HAVING, ORDER BY and LIMIT over what was released; half-widths of numbers.

An output that *is* a noisy count or sum has the half-width of its noise's own law: the least whole number of steps that
holds as often as the confidence says. Where integer noise would hold much more often than that (a count at ε = 1 keeps
within ± 3 in 97.3 % of cases, within ± 2 in 92.7 %), a fair share of the cells, drawn anew each time, has one step less
(`hush.query.plan.laws.exact_share`). Quantiles bring theirs along. Everything else (averages, ratios, standard
deviations, CASE over counts) gets its half-width by simulation: fresh noise of the known laws is subtracted from the
released statistics, the whole output expression is evaluated again, and the half-width is the distance from the answer
that the results keep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.curator.release import Released, estimates, simulate
from hush.noise import bernoulli
from hush.query.evaluate import Array, as_array, evaluate
from hush.query.expressions import Call, Expression
from hush.query.expressions import Released as Reference
from hush.query.plan.choices import ChoiceKind
from hush.query.plan.estimators import Linear, Picked
from hush.query.plan.plan import Plan
from hush.report.columns import Column, plain, uniform

_BEYOND, _LEAST_BEYOND = 100, 20
"""How many simulated truths lie outside an interval, and how many at least, where there are many groups."""
_CELLS = 400_000
_SIDE = 0.6
"""The share of them that may lie on one side."""


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
    noisy = [expression for _, expression in question.outputs if _has_error(expression, plan)]
    errors = {one: _direct_errors(one, plan, released, size) for one in noisy if _known(one, plan)}
    errors |= _simulated_errors([one for one in noisy if one not in errors], plan, released, keys, aggregates)
    columns = []
    for name, expression in question.outputs:
        values = _output(expression, released, exact, keys, aggregates, size)
        columns.append(
            Column(
                name=name,
                kind=expression.type.kind,
                values=uniform(values, expression.type.kind),
                errors=tuple(errors[expression]) if expression in errors else None,
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


def _direct_errors(expression: Expression, plan: Plan, released: Released, size: int) -> list[float | None]:
    """Return exact half-widths of an output that is one aggregate whose noise law is known."""
    assert isinstance(expression, Reference)  # noqa: S101 - the caller looked
    estimator = plan.estimators[expression.index]
    if isinstance(estimator, Linear):
        width, (less, share) = plan.expected_error(expression.index), plan.shorter(expression.index)
        if width is None or not share:
            return [width] * size
        return [width - less if short else width for short in bernoulli(share, size=size)]
    at = [item for item in plan.estimators[: expression.index] if isinstance(item, Picked)]
    return list(released.halves[len(at)])


def _draws(confidence: float, size: int) -> int:
    """Return how many truths are simulated for each of so many groups: 2,000 at 95 %, 400 if there are many."""
    most, least = (math.ceil(beyond / (1 - confidence) - 1e-6) for beyond in (_BEYOND, _LEAST_BEYOND))
    return max(least, min(most, _CELLS // max(size, 1)))


def _simulated_errors(
    expressions: list[Expression], plan: Plan, released: Released, keys: list[Array], aggregates: list[Array]
) -> dict[Expression, list[float | None]]:
    """Return the least half-widths that leave at most 5 % of the plausible truths outside, and 3 % on either side.

    A one-sided limit at a fixed share holds as often as it says for every ratio of noisy numbers (what is simulated is
    Fieller's pivot), whereas one that takes all 5 % on whichever side is left does not: the side depends on the noise.
    With at most 3 % on either side intervals hold in 94 to 97 % of cases, however skew they are. Likewise at other
    confidences.
    """
    if not expressions:
        return {}
    size, outside = len(released.keys), 1 - plan.confidence
    answers = {one: np.broadcast_to(evaluate(one, keys, aggregates), (size,)) for one in expressions}
    found: dict[Expression, list[Array]] = {one: [np.zeros(0)] for one in expressions}
    needed = {at for one in expressions for at in _aggregates_in(one)}
    with np.errstate(all="ignore"):
        for part, truths in simulate(plan, released, _draws(plan.confidence, size), needed):
            for one in expressions:
                others = np.atleast_2d(evaluate(one, [key[part] for key in keys], truths))
                found[one].append(_widths(others - answers[one][part], outside))
    return {one: _possible(np.concatenate(widths), answers[one], one) for one, widths in found.items()}


def _possible(widths: Array, answer: Array, expression: Expression) -> list[float | None]:
    """Return the half-widths, but no further than the truth can be; None where it can be anywhere."""
    lower, upper = expression.type.lower, expression.type.upper
    if lower is not None and upper is not None:
        widths = np.minimum(widths, np.maximum(answer - float(lower), float(upper) - answer))
    return [None if not math.isfinite(width) else float(width) for width in widths]


def _widths(moved: Array, outside: float) -> Array:
    moved = np.ascontiguousarray(moved.T)
    if np.isnan(moved).any():
        below, above = (np.where(np.isnan(moved), np.inf, sign * moved) for sign in (-1, 1))  # undefined: anywhere
    else:
        below, above = -moved, moved
    widths = _reach(np.maximum(below, above), 1 - outside)
    for side in (below, above):
        short = np.count_nonzero(side > widths[:, None], axis=1) > side.shape[1] - 1 - _place(side, 1 - _SIDE * outside)
        widths[short] = _reach(side[short], 1 - _SIDE * outside)
    return widths


def _reach(moved: Array, share: float) -> Array:
    """Return, in every row, the least of its numbers that no more than 1 - share of them exceed."""
    at = _place(moved, share)
    return np.asarray(np.partition(moved, at, axis=1)[:, at])


def _place(moved: Array, share: float) -> int:
    size: int = moved.shape[1]
    return math.ceil(share * (size - 1))
