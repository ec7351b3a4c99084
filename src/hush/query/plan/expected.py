"""How far off outputs will be, as far as that is known before any data is read.

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
from hush.query.plan.choices import ChoiceKind
from hush.query.plan.estimators import Linear, Mean, Parts, Picked, added
from hush.query.plan.plan import Plan
from hush.query.released import aggregates_in, noisy

_Form = tuple[dict[int, Fraction], Fraction]
"""Σ aᵢ·(aggregate i) + b, as the aᵢ and b."""
_LARGEST = 10**250
"""Half-widths are doubles; beyond this factor they might be none."""


def expected_error(plan: Plan, output: Expression) -> float | None:
    """Return the half-width of an output that is linear in counts and sums, else None.

    Where noise decides which rows are shown it is that of rows in which HAVING is settled; None if it depends on how
    many rows there are to choose from.
    """
    missing = missing_in_advance(plan, output)
    return None if missing is None else known_error(plan, output, 1 - missing)


def missing_in_advance(plan: Plan, output: Expression) -> float | None:
    """Return how often an output's bar may miss; None if that is known with the answer only."""
    outside = 1 - plan.confidence
    return plan.winners.known(outside) if plan.winners is not None and decided(plan, output) else outside


def decided(plan: Plan, output: Expression) -> bool:
    """Return whether the noise of an output has a part in which rows are shown."""
    return plan.winners is not None and plan.winners.touch(plan.estimators, aggregates_in(output))


def known_error(plan: Plan, output: Expression, confidence: float) -> float | None:
    """Return the half-width at a confidence of an output that is linear in counts and sums, else None."""
    factors = linear_factors(plan, output)
    if factors is None:
        return None
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
        on_grid = all((part / estimator.grid).denominator == 1 for _, part in estimator.parts)
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
    """Return what the half-width of an average is at most, about, times the number of rows."""
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
        for end in estimator.total.ends
    )


def rows_off(plan: Plan, output: Expression) -> float | None:
    """Return how many rows a quantile will be off."""
    quantile = _quantile(plan, output)
    if quantile is None:
        return None
    mechanism, fraction, confidence = quantile
    if isinstance(mechanism, GroupedDistribution):
        return mechanism.error(fraction, confidence)
    return mechanism.error(confidence)


def rows_needed(plan: Plan, output: Expression) -> float | None:
    """Return of how many rows a quantile is known for sure, however they lie; of fewer it may be anything."""
    quantile = _quantile(plan, output)
    if quantile is None:
        return None
    mechanism, fraction, confidence = quantile
    if isinstance(mechanism, GroupedDistribution):
        return mechanism.rows_needed(fraction, confidence)
    return mechanism.rows_needed()


def errs(plan: Plan, output: Expression) -> bool:
    """Return whether an output will have a half-width: noisy numbers do, and quantiles; what MODE picks has none."""
    estimator = _estimator(plan, output)
    if isinstance(estimator, Picked):
        return estimator.choice.kind is not ChoiceKind.MODE
    return noisy(output) and output.type.kind.numeric


def _estimator(plan: Plan, output: Expression) -> object:
    if isinstance(output, Released) and output.source == "aggregate":
        return plan.estimators[output.index]
    return None


def _quantile(plan: Plan, output: Expression) -> tuple[GroupedQuantile | GroupedDistribution, Fraction, float] | None:
    """Return the mechanism of a quantile, which one it is and its confidence; None for other outputs."""
    estimator = _estimator(plan, output)
    if not isinstance(estimator, Picked) or estimator.choice.kind is not ChoiceKind.QUANTILE:
        return None
    pick, place = plan.pick(estimator.number)
    if isinstance(pick.mechanism, GroupedMode):
        return None
    return pick.mechanism, pick.choices[place].quantile, pick.confidences[place]


def _half_width(plan: Plan, parts: Parts, confidence: float) -> Fraction:
    return sum_error([(factor, plan.laws[item]) for item, factor in parts], confidence)


def linear_factors(plan: Plan, output: Expression) -> dict[int, Fraction] | None:
    """Return the aggregates that an output is a sum of, with their factors; None if it is nothing of that kind."""
    found = _form(plan, output)
    if found is None or any(abs(factor) > _LARGEST for factor in found[0].values()):
        return None
    return {index: factor for index, factor in found[0].items() if factor}


def _form(plan: Plan, expression: Expression) -> _Form | None:
    if isinstance(expression, Literal) and isinstance(expression.value, Fraction):
        return {}, expression.value
    if isinstance(expression, Released):
        return ({expression.index: Fraction(1)}, Fraction(0)) if _linear(plan, expression) else None
    if not isinstance(expression, Call) or expression.op not in _LINEAR:
        return None
    found = [_form(plan, argument) for argument in expression.arguments]
    forms = [form for form in found if form is not None]
    if len(forms) < len(found):
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
