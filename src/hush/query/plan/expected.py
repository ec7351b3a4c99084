"""Expected errors of outputs, as far as they are known before any data is read.

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

from fractions import Fraction

from hush.mechanisms.grouped import GroupedDistribution, GroupedMode, GroupedQuantile, sum_error
from hush.query.expressions import Call, Expression, Literal, Op, Released
from hush.query.plan.draws import DrawKind
from hush.query.plan.estimators import Drawn, Linear, Mean, Parts, added
from hush.query.plan.plan import Plan
from hush.query.released import aggregates_in, noisy

_Form = tuple[dict[int, Fraction], Fraction]
"""Σ aᵢ·(aggregate i) + b, as the aᵢ and b."""
_LARGEST = 10**250
"""The largest factor with which half-widths stay finite as floats."""


def expected_error(plan: Plan, output: Expression) -> float | None:
    """Return the half-width of an output that is linear in counts and sums, else None.

    Where noise decides which rows are shown it is that of rows in which HAVING is settled; None if it depends on how
    many rows there are to choose from.
    """
    missing = missing_in_advance(plan, output)
    return None if missing is None else known_error(plan, output, 1 - missing)


def missing_in_advance(plan: Plan, output: Expression) -> float | None:
    """Return the error probability of an output's bar; None if it is known only with the answer."""
    outside = 1 - plan.confidence
    return plan.winners.known(outside) if plan.winners is not None and decided(plan, output) else outside


def decided(plan: Plan, output: Expression) -> bool:
    """Return whether the noise of an output helps to decide which rows are shown."""
    return plan.winners is not None and plan.winners.touch(plan.estimators, aggregates_in(output))


def known_error(plan: Plan, output: Expression, confidence: float) -> float | None:
    """Return the half-width at a confidence of an output that is linear in counts and sums, else None."""
    factors = linear_factors(plan, output)
    if factors is None:
        return None
    # one aggregate keeps its own rounding to the grid, which may give a shorter half-width
    if len(factors) == 1:
        ((index, factor),) = factors.items()
        error = plan.half_width(index, confidence)
        return None if error is None else float(abs(factor)) * error
    parts: list[tuple[Parts, Fraction]] = []
    moved = Fraction(0)
    for index, factor in factors.items():
        estimator = plan.estimators[index]
        assert isinstance(estimator, Linear)  # noqa: S101 - `_form` looked
        parts.append((estimator.parts, factor))
        on_grid = all((times / estimator.grid).denominator == 1 for _, times in estimator.parts)
        moved += abs(factor) * (estimator.rounding if on_grid else estimator.rounding + estimator.grid / 2)
    return float(_half_width(plan, added(*parts), confidence) + moved)


def shorter(plan: Plan, output: Expression) -> tuple[float, Fraction]:
    """Return by how much that half-width may be shorter, and how often, so that it holds as often as is said."""
    factors = linear_factors(plan, output)
    if factors is None or len(factors) != 1:  # sums of several seldom have large steps
        return 0.0, Fraction(0)
    ((index, factor),) = factors.items()
    less, share = plan.shorter(index)
    return float(abs(factor)) * less, share


def error_times_rows(plan: Plan, output: Expression) -> float | None:
    """Return an approximate bound on an average's half-width, times its number of rows; None for others."""
    estimator = _estimator(plan, output)
    missing = missing_in_advance(plan, output)
    if not isinstance(estimator, Mean) or missing is None:
        return None
    step = estimator.total.factor.step
    return max(
        float(
            _half_width(
                plan, added((estimator.total.parts, step), (estimator.count, -Fraction(end) * step)), 1 - missing
            )
        )
        # convex in the mean, so largest at an end of its range
        for end in estimator.total.ends
    )


def rows_off(plan: Plan, output: Expression) -> float | None:
    """Return the expected rank error of a quantile, in rows."""
    quantile = _quantile(plan, output)
    if quantile is None:
        return None
    mechanism, fraction, confidence = quantile
    if isinstance(mechanism, GroupedDistribution):
        return mechanism.error(fraction, confidence)
    return mechanism.error(confidence)


def rows_needed(plan: Plan, output: Expression) -> float | None:
    """Return the number of rows with which a quantile is known for any data; with fewer it may be any value."""
    quantile = _quantile(plan, output)
    if quantile is None:
        return None
    mechanism, fraction, confidence = quantile
    if isinstance(mechanism, GroupedDistribution):
        return mechanism.rows_needed(fraction, confidence)
    return mechanism.rows_needed()


def errs(plan: Plan, output: Expression) -> bool:
    """Return whether an output will have a half-width: noisy numbers and quantiles do, a MODE does not."""
    estimator = _estimator(plan, output)
    if isinstance(estimator, Drawn):
        return estimator.choice.kind is not DrawKind.MODE
    return noisy(output) and output.type.kind.numeric


def is_count(expression: Expression, plan: Plan) -> bool:
    """Return whether the output counts rows or units."""
    if not isinstance(expression, Released) or expression.source == "key":
        return False
    estimator = plan.estimators[expression.index]
    return isinstance(estimator, Linear) and estimator.counts


def _estimator(plan: Plan, output: Expression) -> object:
    if isinstance(output, Released) and output.source == "aggregate":
        return plan.estimators[output.index]
    return None


def _quantile(plan: Plan, output: Expression) -> tuple[GroupedQuantile | GroupedDistribution, Fraction, float] | None:
    """Return the mechanism of a quantile, which one it is and its confidence; None for other outputs."""
    estimator = _estimator(plan, output)
    if not isinstance(estimator, Drawn) or estimator.choice.kind is not DrawKind.QUANTILE:
        return None
    pick, index = plan.draw(estimator.number)
    if isinstance(pick.mechanism, GroupedMode):
        return None
    return pick.mechanism, pick.choices[index].quantile, pick.confidences[index]


def _half_width(plan: Plan, parts: Parts, confidence: float) -> Fraction:
    return sum_error([(factor, plan.laws[statistic]) for statistic, factor in parts], confidence)


def linear_factors(plan: Plan, output: Expression) -> dict[int, Fraction] | None:
    """Return the factors of an output that is linear in counts and sums, by aggregate; else None."""
    form = _form(plan, output)
    if form is None or any(abs(factor) > _LARGEST for factor in form[0].values()):
        return None
    return {index: factor for index, factor in form[0].items() if factor}


def _form(plan: Plan, expression: Expression) -> _Form | None:
    if isinstance(expression, Literal) and isinstance(expression.value, Fraction):
        return {}, expression.value
    if isinstance(expression, Released):
        return ({expression.index: Fraction(1)}, Fraction(0)) if _linear(plan, expression) else None
    if not isinstance(expression, Call) or expression.op not in _LINEAR:
        return None
    all_forms = [_form(plan, argument) for argument in expression.arguments]
    forms = [form for form in all_forms if form is not None]
    if len(forms) < len(all_forms):
        return None
    match expression.op, forms:
        case Op.NEGATE, [form]:
            return _sum((form, Fraction(-1)))
        case Op.TO_DECIMAL, [form]:
            return form
        case Op.ADD, [one, other]:
            return _sum((one, Fraction(1)), (other, Fraction(1)))
        case Op.SUBTRACT, [one, other]:
            return _sum((one, Fraction(1)), (other, Fraction(-1)))
        case Op.MULTIPLY, [one, (no, factor)] if not no:
            return _sum((one, factor))
        case Op.MULTIPLY, [(no, factor), other] if not no:
            return _sum((other, factor))
        case Op.DIVIDE, [one, (no, divisor)] if not no and divisor:
            return _sum((one, 1 / divisor))
    return None


_LINEAR = {Op.NEGATE, Op.TO_DECIMAL, Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE}


def _linear(plan: Plan, expression: Released) -> bool:
    return isinstance(_estimator(plan, expression), Linear)


def _sum(*terms: tuple[_Form, Fraction]) -> _Form:
    factors: dict[int, Fraction] = {}
    constant = Fraction(0)
    for (form, more), times in terms:
        for index, factor in form.items():
            factors[index] = factors.get(index, Fraction(0)) + times * factor
        constant += times * more
    return factors, constant
