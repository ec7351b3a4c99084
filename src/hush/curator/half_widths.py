"""Half-widths of a question's outputs: how far off each shown number may be, at the confidence that was asked for.

An output that *is* a noisy count or sum, or made of such by adding and constants, has the half-width of its noise's own
law: the least whole number of steps that holds as often as the confidence says. Where integer noise would hold much
more often than that (a count at ε = 1 keeps within ± 3 in 97.3 % of cases, within ± 2 in 92.7 %), a fair share of the
cells, drawn anew each time, has one step less (`hush.mechanisms.grouped.noise_sums`). Quantiles bring theirs along.
Everything else (averages, ratios, standard deviations, CASE over counts) gets its half-width by simulation: fresh noise
of the known laws is subtracted from the released statistics, the whole output expression is evaluated again, and the
half-width is the distance from the answer that the results keep. Where an output turns back, as ABS does at 0, the
half-widths of its aggregates say how far it can be.

Half-widths are made for the rows that are shown, and where noise decides which these are, at a confidence that holds
for them (`hush.query.plan.winners`).

**Folds.** The simulated half-width of f(θ) is right where f goes one way as far as the noise tells. ABS does not: of a
sum whose noise hides its sign, the plausible |θ| are folded upon each other, so that they lie closer together than the
sum's errors do, and a truth of 0, at the end of what can be, is missed too often (SQRT(ABS(s)) held in 63 % of cases).
So where more than a tenth of what may miss lies beyond a fold, another interval is taken, which is right for every f: f
is made of k parts that have no folds, such as SUM(x) - SUM(y) in ABS(SUM(x) - SUM(y)). If each lies in its own
interval, at a level of α/k, then f lies between the ends that `hush.query.released` finds for them, and that
fails with a probability of α at most.

>>> from hush.query.types import Kind
>>> size = Call(Op.ABS, (Released("aggregate", 0, Type(Kind.DECIMAL)),), Type(Kind.DECIMAL))
>>> beyond(size, [], [np.array([6.0])], [np.array([[5.0], [-7.0]])])
array([[False],
       [ True]])

**Divisors.** Let a and b be released, a₀ and b₀ the truths, and r = a₀/b₀. Whatever r is, W = a - r·b is noise of a
known law, free of the unknown a₀ and b₀ (Fieller 1954). A plausible truth (a', b') is what was released less fresh
noise, so that a' > r·b' as often as a fresh W lies below the one that happened. As long as b' > 0 that is the same as
a'/b' > r: the share of plausible ratios above r is uniform, and a limit that leaves a share α of them above it is
passed by r in a share α of cases at most. Where b' ≤ 0 < b, dividing turns the comparison round, and ratios that should
lie above the limit are found below. So such draws count as lying above *and* below every limit: the share above r is
then no less than that of a' > r·b', and the limits hold however small the divisor is. Where so many draws are of that
kind that no limit is left, nothing is known of the ratio, which Fieller's intervals say as well: they are unbounded
then.

>>> over, under = (Released("aggregate", at, Type(Kind.DECIMAL)) for at in range(2))
>>> ratio = Call(Op.DIVIDE, (over, under), Type(Kind.DECIMAL))
>>> unsettled(ratio, [], [np.array([6.0]), np.array([3.0])], [np.array([[5.0], [7.0]]), np.array([[4.0], [-1.0]])])
array([[False],
       [ True]])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.curator.release import Simulation
from hush.curator.settled import ShownRows
from hush.mechanisms.grouped.noise_sums import with_shorter
from hush.query.expressions import Call, Expression, Op, Released
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
        for one in expressions:
            answers = np.broadcast_to(evaluate(one, keys, aggregates), (size,))
            if isinstance(one, Released):
                widths = _of_aggregate(simulation, one.index, answers, outside)
            else:
                crossed = np.full(size, len(parts(one)[1]) == 1) if folds(one) else None
                widths = _of_expression(simulation, one, keys, aggregates, answers, outside, crossed)
                if crossed is not None and crossed.any():
                    widths = np.where(crossed, np.maximum(widths, _between(one, rows, answers, outside)), widths)
            errors[one] = possible_widths(widths, answers, one.type)
    return errors


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
        widths = np.full(len(moved), np.inf)
        some = anywhere < both
        widths[some] = _reach(np.where(undefined[some], np.inf, moved[some]), anywhere[some], both, one)
        return widths
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


_AT_ZERO = {Op.ABS, Op.MULTIPLY, Op.POWER, Op.SIGN}
"""What turns back, or may, where an argument changes its sign."""
_DIVISIONS = {Op.DIVIDE, Op.DIVIDE_WHOLE, Op.MODULO}
_FOLDS = _AT_ZERO | {Op.LEAST, Op.GREATEST, Op.MODULO, Op.CASE}


def folds(expression: Expression) -> bool:
    """Return whether an output may turn back somewhere."""
    if not isinstance(expression, Call):
        return False
    return _turns(expression) or any(map(folds, expression.arguments))


def parts(expression: Expression) -> tuple[Expression, list[Expression]]:
    """Return an output as an expression over parts without folds, which stand in the place of aggregates, and these."""
    found: list[Expression] = []

    def replaced(one: Expression) -> Expression:
        if not aggregates_in(one):
            return one
        if isinstance(one, Call) and (folds(one) or not one.type.kind.numeric):
            return Call(one.op, tuple(map(replaced, one.arguments)), one.type)
        if one not in found:
            found.append(one)
        return Released("aggregate", found.index(one), one.type)

    return replaced(expression), found


def beyond(expression: Expression, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]) -> Array:
    """Return which plausible truths lie beyond a fold, seen from the answers."""
    result = np.zeros(1, dtype=bool)
    if not isinstance(expression, Call):
        return result
    for argument in expression.arguments:
        result = result | beyond(argument, keys, answers, truths)
    if _turns(expression):
        for here, there in _sides(expression, keys, answers, truths):
            result = result | (here != there)
    return result


def _turns(expression: Call) -> bool:
    noisy = [bool(aggregates_in(argument)) for argument in expression.arguments]
    if expression.op is Op.MULTIPLY:
        return all(noisy)
    if expression.op is Op.CASE:
        return any(noisy[:-1:2])
    return expression.op in _FOLDS and any(noisy)


def _sides(
    expression: Call, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]
) -> list[tuple[Array, Array]]:
    """Return on which sides of its folds an expression is, in the answers and in plausible truths."""
    found = []
    whole = [evaluate(expression, keys, values) for values in (answers, truths)]
    for place, argument in enumerate(expression.arguments):
        if expression.op is Op.CASE and (place % 2 or place == len(expression.arguments) - 1):
            continue
        parts = [evaluate(argument, keys, values) for values in (answers, truths)]
        match expression.op:
            case Op.CASE:
                here, there = (part == 1 for part in parts)
            case Op.LEAST | Op.GREATEST:
                here, there = (part == values for part, values in zip(parts, whole, strict=True))
            case Op.MODULO:
                divisors = (evaluate(expression.arguments[1], keys, values) for values in (answers, truths))
                here, there = (np.trunc(part / divisor) for part, divisor in zip(parts, divisors, strict=True))
            case _:
                here, there = (np.sign(part) for part in parts)
        found.append((here, there))
    return found


def unsettled(
    expression: Expression, keys: Sequence[Array], answers: Sequence[Array], truths: Sequence[Array]
) -> Array:
    """Return in which plausible truths a divisor that counts has another sign than in the answers, or none."""
    if not isinstance(expression, Call):
        return np.zeros(1, dtype=bool)
    reasons = [unsettled(argument, keys, answers, truths) for argument in expression.arguments]
    if expression.op is Op.CASE:
        return _unsettled_case(expression, keys, truths, reasons)
    result = reasons[0] if reasons else np.zeros(1, dtype=bool)
    for one in reasons[1:]:
        result = result | one
    if expression.op in _DIVISIONS:
        divisor = expression.arguments[1]
        here, there = (np.sign(evaluate(divisor, keys, values)) for values in (answers, truths))
        result = result | (here != there)  # NULL is unlike everything
    return result


def _unsettled_case(expression: Call, keys: Sequence[Array], truths: Sequence[Array], found: list[Array]) -> Array:
    """Return it of the branch that is taken, and of the conditions."""
    result = found[-1]
    for at in range(len(expression.arguments) - 3, -1, -2):
        taken = evaluate(expression.arguments[at], keys, truths) == 1
        result = np.where(taken, found[at + 1], result) | found[at]
    return result
