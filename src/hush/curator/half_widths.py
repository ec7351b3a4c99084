"""Half-widths of a question's outputs: how far off each shown number may be, at the confidence that was asked for.

An output that *is* a noisy count or sum, or made of such by adding and constants, has the half-width of its noise's own
law: the least whole number of steps that holds as often as the confidence says. Where integer noise would hold much
more often than that (a count at ε = 1 keeps within ± 3 in 97.3 % of cases, within ± 2 in 92.7 %), a fair share of the
cells, drawn anew each time, has one step less (`hush.mechanisms.grouped.noise_sums`). Quantiles bring theirs along.
Everything else (averages, ratios, standard deviations, CASE over counts) gets its half-width by simulation: fresh noise
of the known laws is subtracted from the released statistics, the whole output expression is evaluated again, and the
half-width is the distance from the answer that the results keep. Where an output turns back, as ABS does at 0, the
half-widths of its aggregates say how far it can be (`hush.curator.folds`).

Half-widths are made for the rows that are shown, and where noise decides which these are, at a confidence that holds
for them (`hush.query.plan.winners`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.curator.folds import beyond, folds, parts, unsettled
from hush.curator.release import Simulation
from hush.curator.settled import ShownRows
from hush.mechanisms.grouped.noise_sums import with_shorter
from hush.query.expressions import Expression, Released
from hush.query.plan.estimators import Picked
from hush.query.plan.expected import decided, errs, known_error, shorter
from hush.query.plan.plan import Plan
from hush.query.released import Array, Ends, aggregates_in, enclose, evaluate
from hush.query.types import Type

_BEYOND, _LEAST_BEYOND = 100, 20
"""How many simulated truths lie outside an interval, and how many at least, where there are many groups."""
_CELLS = 400_000
_MOST_CELLS = 4_000_000
"""So many truths are simulated for all groups of a selection together, or four times as many as without one."""
_FAR_SHARE = 0.1
"""So much of what may miss may lie beyond a fold before anything is done about it."""
SIDE = 0.6
"""The share of them that may lie on one side."""


def half_widths(rows: ShownRows, candidates: int) -> dict[Expression, list[float | None]]:
    """Return the half-widths of every noisy output in the rows that are shown, of so many that passed HAVING."""
    plan = rows.plan
    noisy = [expression for _, expression in plan.question.outputs if errs(plan, expression)]
    by_noise = [expression for expression in noisy if decided(plan, expression)]
    errors = widths_at(plan.confidence, [one for one in noisy if one not in by_noise], rows)
    if plan.winners is None or not by_noise:
        return errors
    shown = len(rows.released.keys)
    missing = plan.winners.missing(1 - plan.confidence, candidates=candidates, shown=shown)
    level = plan.winners.settled(missing)
    errors |= widths_at(1 - level, by_noise, rows)
    open_rows = np.flatnonzero(~rows.settled(missing)).tolist() if plan.winners.having else []
    if open_rows:
        wide = plan.winners.unsettled(missing, candidates)
        for one in by_noise:
            widths = _enclosed(one, rows, missing=wide, settled=level)
            for at in open_rows:
                errors[one][at] = widths[at]
    return errors


def widths_at(
    confidence: float, expressions: list[Expression], rows: ShownRows
) -> dict[Expression, list[float | None]]:
    """Return half-widths that hold as often as a confidence says."""
    plan, size = rows.plan, len(rows.released.keys)
    errors, simulated = {}, []
    for one in expressions:
        if _picked(one, plan):
            errors[one] = _drawn_widths(one, rows, confidence)
        elif (width := known_error(plan, one, confidence)) is not None:
            less, share = shorter(plan, one) if confidence == plan.confidence else (0.0, Fraction(0))
            errors[one] = list(with_shorter(width, less, share, size))
        elif _draws(confidence, size, plan.confidence) > max(
            _MOST_CELLS // max(size, 1), 4 * _draws(plan.confidence, size, plan.confidence)
        ):  # too long
            errors[one] = _enclosed(one, rows, missing=1 - confidence, settled=1 - confidence)
        else:
            simulated.append(one)
    return errors | _simulated_errors(simulated, rows, confidence)


def _drawn_widths(expression: Expression, rows: ShownRows, confidence: float) -> list[float | None]:
    """Return the half-widths that were drawn with quantiles, if they were to hold so often."""
    assert isinstance(expression, Released)  # noqa: S101 - the caller looked
    estimator = rows.plan.estimators[expression.index]
    assert isinstance(estimator, Picked)  # noqa: S101 - the caller looked
    pick, place = rows.plan.pick(estimator.number)
    if pick.confidences[place] < confidence - 1e-12:
        return _enclosed(expression, rows, missing=1 - confidence, settled=1 - confidence)
    return list(rows.released.halves[estimator.number])


def _enclosed(expression: Expression, rows: ShownRows, *, missing: float, settled: float) -> list[float | None]:
    """Return half-widths that reach to whatever the truth may be; None where that is anything."""
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
        and isinstance(plan.estimators[expression.index], Picked)
    )


def _draws(confidence: float, size: int, plain: float) -> int:
    """Return how many truths are simulated for each of so many groups: 2,000 at 95 %, 400 if there are many.

    Where noise decides what is shown, at a confidence above the ``plain`` one, no more than it takes.
    """
    beyond = _BEYOND / (1 - plain), _LEAST_BEYOND / (1 - confidence)
    most, least = (math.ceil(draws - 1e-6) for draws in beyond)
    return max(least, min(most, _CELLS // max(size, 1)))


def _simulated_errors(
    expressions: list[Expression], rows: ShownRows, confidence: float
) -> dict[Expression, list[float | None]]:
    """Return the least half-widths that leave at most 5 % of the plausible truths outside, and 3 % on either side.

    A one-sided limit at a fixed share holds as often as it says for every ratio of noisy numbers (what is simulated is
    Fieller's pivot; `hush.curator.folds` says what becomes of divisors near zero), whereas one that takes all 5 % on
    whichever side is left does not: the side depends on the noise. With at most 3 % on either side intervals hold in 94
    to 97 % of cases, however skew they are. Likewise at other confidences.
    """
    if not expressions:
        return {}
    keys, aggregates, size, outside = rows.keys, rows.aggregates, len(rows.released.keys), 1 - confidence
    simulation = Simulation(rows.plan, rows.released, _draws(confidence, size, rows.plan.confidence))
    found = {}
    with np.errstate(all="ignore"):
        for one in expressions:
            answers = np.broadcast_to(evaluate(one, keys, aggregates), (size,))
            if isinstance(one, Released):
                widths = _of_aggregate(simulation, one.index, answers, outside)
            else:
                crossed = np.full(size, len(parts(one)[1]) == 1) if folds(one) else None
                widths = _of_expression(simulation, one, keys, aggregates, answers, outside, crossed)
                if crossed is not None and crossed.any():
                    widths = np.where(crossed, np.maximum(widths, _between(one, rows, answers, outside)), widths)
            found[one] = possible_widths(widths, answers, one.type)
    return found


def _of_aggregate(simulation: Simulation, aggregate: int, answers: Array, outside: float) -> Array:
    """Return the half-widths of one aggregate: where nothing is known of a group, as far as the farther end."""
    truths = simulation[aggregate]
    low, high = truths.ends
    widths = np.maximum(np.abs(answers - low), np.abs(high - answers))
    some = np.arange(len(answers)) if truths.unknown is None else np.flatnonzero(~truths.unknown)
    if truths.undefined:
        few = 2 * _allowed(simulation.draws, outside)[0]
        for part in simulation.parts(some, few):
            found = np.count_nonzero(np.isnan(truths.of(part, slice(few))), axis=1)
            widths[part[2 * found >= few]] = np.inf  # as many as may lie outside, already
        some = some[np.isfinite(widths[some])]
    for part in simulation.parts(some, simulation.draws):
        widths[part] = least_widths(truths.of(part, slice(None)) - answers[part, None], outside)
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
    """Return the half-widths, and write down which groups may lie beyond a fold."""
    needed = sorted(aggregates_in(expression))
    widths = np.zeros(len(answers))
    for part in simulation.parts(np.arange(len(answers)), simulation.draws):
        truths = [np.zeros(0)] * (needed[-1] + 1)
        for at in needed:
            truths[at] = simulation[at].of(part, slice(None)).T
        here = [key[part] for key in keys]
        others = np.atleast_2d(evaluate(expression, here, truths))
        anything = unsettled(expression, here, [one[part] for one in aggregates], truths)
        others = np.where(anything, np.nan, others) if anything.any() else others
        widths[part] = least_widths((others - answers[part]).T, outside)
        if crossed is not None:
            far = beyond(expression, here, [one[part] for one in aggregates], truths)
            crossed[part] |= np.mean(np.broadcast_to(far, others.shape), axis=0) > _FAR_SHARE * outside
    return widths


def _between(expression: Expression, rows: ShownRows, answers: Array, outside: float) -> Array:
    """Return half-widths up to the ends of what an output can be if each part without folds lies in its interval."""
    size, (folded, needed) = len(answers), parts(expression)
    widths = widths_at(1 - outside / len(needed), needed, rows)
    ends: list[Ends] = []
    for one in needed:
        half, centre = np.full(size, np.inf), np.zeros(size)  # what is no number may be anything
        if one.type.kind.numeric:
            half = np.array([np.inf if width is None else width for width in widths[one]])
            centre = np.broadcast_to(evaluate(one, rows.keys, rows.aggregates), (size,))
        ends.append((centre - half, centre + half))
    low, high = enclose(folded, rows.keys, ends, size)
    return np.asarray(np.maximum(answers - low, high - answers))


def possible_widths(widths: Array, answer: Array, type_: Type) -> list[float | None]:
    """Return the half-widths, but no further than the truth can be; None where it can be anywhere."""
    lower, upper = type_.lower, type_.upper
    if lower is not None and upper is not None:
        widths = np.minimum(widths, np.maximum(answer - float(lower), float(upper) - answer))
    return [width if math.isfinite(width) else None for width in widths.tolist()]


def least_widths(moved: Array, outside: float) -> Array:
    """Return, for every row of distances, the least width that leaves few enough outside, on both sides and on each.

    How far the farthest few lie on either side is all that matters. Where the truth is undefined it lies anywhere: as
    far as can be, on both sides.
    """
    both, one = _allowed(moved.shape[1], outside)
    undefined = np.isnan(moved)
    if undefined.any():
        anywhere = np.count_nonzero(undefined, axis=1)
        found = np.full(len(moved), np.inf)
        some = anywhere < both
        found[some] = _reach(np.where(undefined[some], np.inf, moved[some]), anywhere[some], both, one)
        return found
    return _reach(moved, np.zeros(len(moved), dtype=np.int64), both, one)


def _allowed(draws: int, outside: float) -> tuple[int, int]:
    """Return how many draws are too many outside an interval, on both sides together and on each."""
    both, one = (draws - math.ceil((1 - share) * (draws - 1)) for share in (outside, SIDE * outside))
    return both, one


def _reach(moved: Array, anywhere: Array, both: int, one: int) -> Array:
    """Return the least of a row's distances that fewer than ``both`` exceed, and fewer than ``one`` on each side.

    Where the truth may be ``anywhere`` it lies infinitely far above, and counts as far below as well.
    """
    draws = moved.shape[1]
    moved.sort(axis=1)  # all of it: processors sort quicker than they find the ends
    below, above = -moved[:, :both], moved[:, draws - both :]
    farthest = np.abs(moved) if 2 * both > draws else np.concatenate([below, above], axis=1)
    farthest.partition(farthest.shape[1] - both, axis=1)
    lower = np.where(anywhere < one, below[np.arange(len(moved)), np.maximum(one - 1 - anywhere, 0)], np.inf)
    return np.asarray(np.maximum(np.maximum(farthest[:, -both], above[:, both - one]), lower) + 0.0)  # never -0.0
