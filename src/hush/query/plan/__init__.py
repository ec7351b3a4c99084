"""Planning: from a question and a policy to statistics, bounds, noise and a price. No data, no engine.

`plan` plans a question at a price, or at the price that an accuracy needs.

**Expected errors** of outputs, as far as they are known before any data is read:

* Counts, sums, and what is made of them by adding, subtracting and constants: Σ aᵢ·(tᵢ + zᵢ) has the noise Σ aᵢ·zᵢ,
  whatever the truth is. An aggregate that is moved to its grid moves the sum by |aᵢ| times half a step at most.
* An average over n rows: m̂ - m = (z - (m - c)·w)/(n + w), z being the noise of Σ(x - c) and w that of n. The mean m is
  not known but lies between the bounds, and the half-width of z - (m - c)·w is largest at one of them: it is convex in
  m, the noises being symmetric and log-concave (Meyer and Reisner 1991). So the error is at most about that largest
  half-width over n, where n is large against its own noise.
* A quantile: how many rows the two points aim away from it, and how many rows it takes
  (`hush.mechanisms.grouped.quantile`); or how far off its rank is in a noisy distribution
  (`hush.mechanisms.grouped.distribution`).

Everything else depends on the data, and is known with the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

from hush.core import InvalidValueError, Number, fraction_between, positive
from hush.mechanisms.grouped import exact_share, sum_error
from hush.query.errors import TooSmallError, UnplannableError
from hush.query.expressions import Call, Expression, Literal, Op, Released
from hush.query.plan.draws import DrawnAggregate
from hush.query.plan.estimators import Linear, Moment, Parts, added, support
from hush.query.plan.plan import Plan, PlanTerms, at_price
from hush.query.question import AggregateKind, Question
from hush.query.released import aggregates_in, noisy
from hush.query.schema import Schema

__all__ = ["CONFIDENCE", "Plan", "UnplannableError", "confident", "plan"]

_LEAST, _MOST = Fraction(1, 10**9), 10**6  # the range in which the ε that an accuracy needs is searched
CONFIDENCE = 0.95
"""The default confidence of error bars."""
_LOWEST, _HIGHEST = 0.5, 0.999  # the least and greatest confidence for which error bars are simulated
_LARGEST_FACTOR = 10**250  # the largest factor with which half-widths stay finite as floats


def plan(
    question: Question,
    schema: Schema,
    *,
    epsilon: Number | None = None,
    accuracy: Number | tuple[Number, Number] | None = None,
    confidence: Number | None = None,
    **options: Any,
) -> Plan:
    """Plan a question at a price, or at the price that an accuracy needs. The ``options`` are those of `PlanTerms`.

    epsilon
        What the whole question costs, however many aggregates it has.
    accuracy
        Instead: (half-width, confidence) that every COUNT and SUM must reach, and what is made of them by adding and
        constants; or a number, at 0.95.
    confidence
        How often an error bar holds: that of ``accuracy``, else 0.95. The price does not depend on it.
    """
    planned = partial(at_price, question, schema, PlanTerms(**options))
    return at_epsilon_or_accuracy(planned, _errors, epsilon, accuracy, confidence)


def _errors(candidate: Plan) -> list[float]:
    """Return the errors that an accuracy is about; refuse an output with an error that is not known in advance."""
    errors = []
    for name, output in candidate.question.outputs:
        error = expected_error(candidate, output) if noisy(output) else None
        if error is not None:
            errors.append(error)
        elif decided(candidate, output) and known_error(candidate, output, candidate.confidence) is not None:
            raise UnplannableError(
                f"accuracy= cannot be promised for {name}: noise decides which rows are shown, and how far off "
                "these are depends on how many there are to choose from, which nobody knows in advance; give "
                "epsilon= instead, or leave out LIMIT, which costs nothing"
            )
        elif noisy(output) and isinstance(output, Call):
            raise computed_error(name)
    return errors


def computed_error(name: str) -> UnplannableError:
    """Return the refusal of an accuracy for an output that is no count or sum."""
    return UnplannableError(
        f"accuracy= is about counts, sums, and sums and differences of these, which {name} is not; "
        "give epsilon= instead, or ask for what it is computed from"
    )


AnyPlan = TypeVar("AnyPlan")


def at_epsilon_or_accuracy(
    planned: Callable[[Fraction, float], AnyPlan],
    errors_of: Callable[[AnyPlan], list[float]],
    epsilon: Number | None,
    accuracy: object,
    confidence: Number | None,
) -> AnyPlan:
    """Return the plan at a price, or at the smallest ε, to three digits, that reaches the accuracy in every error."""
    if (epsilon is None) == (accuracy is None):
        got, hint = "both" if accuracy is not None else "neither", "Say for instance epsilon 0.1, or accuracy 50."
        raise InvalidValueError("epsilon", got=got, allowed="given, or accuracy in its place", hint=hint)
    if epsilon is not None:
        return planned(positive(epsilon, "epsilon"), confident(confidence))
    pair = accuracy if isinstance(accuracy, tuple | list) else (accuracy, CONFIDENCE)
    if len(pair) != 2:
        raise InvalidValueError("accuracy", got=accuracy, allowed="a half-width, or (half-width, confidence)")
    width, promised = positive(pair[0], "accuracy"), confident(pair[1])

    def reached(price: Fraction) -> bool:
        try:
            errors = errors_of(planned(price, promised))
        except TooSmallError:
            return False
        if not errors:
            raise UnplannableError(
                "accuracy= needs a COUNT or SUM whose error is known in advance; give epsilon= instead"
            )
        return max(errors) <= width

    price = smallest(reached)
    if price is None:
        raise UnplannableError(f"no ε up to 10⁶ makes the error as small as ±{width}; ask for less accuracy")
    return planned(price, promised if confidence is None else confident(confidence))


def smallest(will_do: Callable[[Fraction], bool]) -> Fraction | None:
    """Return the smallest sufficient ε, to three digits; None if no ε up to 10⁶ suffices.

    >>> float(smallest(lambda epsilon: epsilon >= Fraction(1, 3)))
    0.3335
    """
    # errors shrink as ε grows: go up by factors of 8 until it suffices, then bisect
    low = high = _LEAST
    while not will_do(high):
        low, high = high, high * 8
        if high > _MOST:
            return None
    while high > low * Fraction(1001, 1000):
        # few digits, so that the price is short to write
        middle = Fraction(f"{float((low + high) / 2):.4g}")
        if not low < middle < high:
            break
        low, high = (low, middle) if will_do(middle) else (middle, high)
    return high


def confident(value: Number | None) -> float:
    """Return the requested confidence, or the default.

    >>> confident(None), confident("0.99")
    (0.95, 0.99)
    """
    confidence = CONFIDENCE if value is None else float(fraction_between(value, "confidence"))
    if not _LOWEST <= confidence <= _HIGHEST:
        raise InvalidValueError("confidence", got=value, allowed=f"from {_LOWEST} to {_HIGHEST}")
    return confidence


# errors in advance


def expected_error(plan: Plan, output: Expression) -> float | None:
    """Return the half-width of an output that is linear in counts and sums, else None.

    Where noise decides which rows are shown it is that of rows in which HAVING is settled; None if it depends on how
    many rows there are to choose from.
    """
    missing = _missing_in_advance(plan, output)
    return None if missing is None else known_error(plan, output, 1 - missing)


def _missing_in_advance(plan: Plan, output: Expression) -> float | None:
    """Return the error probability of an output's bar; None if it is known only with the answer."""
    outside = 1 - plan.confidence
    return plan.winners.known(outside) if plan.winners is not None and decided(plan, output) else outside


def decided(plan: Plan, output: Expression) -> bool:
    """Return whether the noise of an output helps to decide which rows are shown."""
    winners, aggregates = plan.winners, aggregates_in(output)
    return winners is not None and any(winners.deciding & support(plan.estimators[number]) for number in aggregates)


def known_error(plan: Plan, output: Expression, confidence: float) -> float | None:
    """Return the half-width at a confidence of an output that is linear in counts and sums, else None."""
    factors = linear_factors(plan, output)
    if factors is None:
        return None
    parts: list[tuple[Parts, Fraction]] = []
    moved = Fraction(0)
    for index, factor in factors.items():
        estimator = plan.estimators[index]
        assert isinstance(estimator, Linear)  # noqa: S101 - `_form` looked
        if len(factors) == 1:  # one aggregate keeps its own rounding to the grid, which may give a shorter half-width
            return float(abs(factor)) * float(estimator.widened(sum_error(plan.noise_of(estimator.parts), confidence)))
        parts.append((estimator.parts, factor))
        moved += abs(factor) * (estimator.rounding if estimator.on_grid else estimator.rounding + estimator.grid / 2)
    return float(sum_error(plan.noise_of(added(*parts)), confidence) + moved)


def shorter(plan: Plan, output: Expression) -> tuple[float, Fraction]:
    """Return by how much that half-width may be shorter, and how often, so that it holds as often as is said."""
    factors = linear_factors(plan, output)
    if factors is not None and len(factors) == 1:  # sums of several seldom have large steps
        ((index, factor),) = factors.items()
        estimator = plan.estimators[index]
        if isinstance(estimator, Linear) and estimator.widened(estimator.grid) == estimator.grid:
            less, share = exact_share(plan.noise_of(estimator.parts), plan.confidence, estimator.grid)
            return float(abs(factor)) * float(less), share
    return 0.0, Fraction(0)


def error_times_rows(plan: Plan, output: Expression) -> float | None:
    """Return an approximate bound on an average's half-width, times its number of rows; None for others."""
    estimator = plan.estimator(output)
    missing = _missing_in_advance(plan, output)
    if not isinstance(estimator, Moment) or estimator.kind is not AggregateKind.AVG or missing is None:
        return None
    (total,) = estimator.first
    step, widths = total.factor.step, []
    for end in total.ends:  # convex in the mean, so largest at an end of its range
        parts = added((total.parts, step), (estimator.count, -Fraction(end) * step))
        widths.append(float(sum_error(plan.noise_of(parts), 1 - missing)))
    return max(widths)


def rows_off(plan: Plan, output: Expression) -> float | None:
    """Return the expected rank error of a quantile, in rows; None for other outputs."""
    quantile = plan.estimator(output)
    if not isinstance(quantile, DrawnAggregate) or quantile.kind is not AggregateKind.QUANTILE:
        return None
    return plan.draw(quantile).rows_off(quantile)


def rows_needed(plan: Plan, output: Expression) -> float | None:
    """Return the number of rows with which a quantile is known for any data; with fewer it may be any value."""
    quantile = plan.estimator(output)
    if not isinstance(quantile, DrawnAggregate) or quantile.kind is not AggregateKind.QUANTILE:
        return None
    return plan.draw(quantile).rows_needed(quantile)


def errs(plan: Plan, output: Expression) -> bool:
    """Return whether an output will have a half-width: noisy numbers and quantiles do, a MODE does not."""
    estimator = plan.estimator(output)
    if isinstance(estimator, DrawnAggregate):
        return estimator.kind is not AggregateKind.MODE
    return noisy(output) and output.type.kind.numeric


def is_count(expression: Expression, plan: Plan) -> bool:
    """Return whether the output counts rows or units."""
    estimator = plan.estimator(expression)
    return isinstance(estimator, Linear) and estimator.counts


_Form = dict[int | None, Fraction]
"""Σ aᵢ·(aggregate i) + b: the aᵢ by aggregate, and b under None."""
_LINEAR = {Op.NEGATE, Op.TO_DECIMAL, Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE}
_ZERO = Fraction(0)


def linear_factors(plan: Plan, output: Expression) -> dict[int, Fraction] | None:
    """Return the factors of an output that is linear in counts and sums, by aggregate; else None."""
    form, factors = _form(plan, output), {}
    if form is None:
        return None
    for index, factor in form.items():
        if abs(factor) > _LARGEST_FACTOR and index is not None:
            return None
        if factor and index is not None:
            factors[index] = factor
    return factors


def _form(plan: Plan, expression: Expression) -> _Form | None:
    """Return an expression as a linear form of counts and sums; None where it is none."""
    if isinstance(expression, Literal) and isinstance(expression.value, Fraction):
        return {None: expression.value}
    if isinstance(expression, Released):
        return {expression.index: Fraction(1)} if isinstance(plan.estimator(expression), Linear) else None
    if not isinstance(expression, Call) or expression.op not in _LINEAR:
        return None
    first, last = (_form(plan, expression.arguments[place]) for place in (0, -1))  # the same of one argument
    if first is None or last is None:
        return None
    scale = Fraction(1)
    match expression.op:
        case Op.ADD | Op.SUBTRACT:
            sign = 1 if expression.op is Op.ADD else -1
            return {index: first.get(index, _ZERO) + sign * last.get(index, _ZERO) for index in first | last}
        case Op.NEGATE:
            scale = Fraction(-1)
        case Op.MULTIPLY if first.keys() <= {None}:
            first, scale = last, first.get(None, _ZERO)
        case Op.MULTIPLY if last.keys() <= {None}:
            scale = last.get(None, _ZERO)
        case Op.DIVIDE if last.keys() <= {None} and last.get(None):
            scale = 1 / last[None]
        case Op.MULTIPLY | Op.DIVIDE:
            return None
    return {index: factor * scale for index, factor in first.items()}
