"""Aggregates as functions of statistics, and which statistics a question needs altogether.

Each aggregate becomes an *estimator* (`hush.query.plan.estimators`): a function from the noisy statistics of a group to
the answer. Statistics are shared: COUNT(x), SUM(x) and AVG(x) together need two sums at the price of one (`Halves`),
and so does COUNT(*) beside them; what else is averaged or summed over the same rows takes its count from there
(`hush.query.plan.sharing`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from hush.query.expressions import Expression
from hush.query.plan.choices import Choice, ChoiceKind, LineHistogram, ValueHistogram
from hush.query.plan.domains import finite_values
from hush.query.plan.errors import UnplannableError
from hush.query.plan.estimators import (
    MOMENTS,
    PAIRS,
    ROUNDED,
    Centred,
    Estimator,
    Linear,
    Mean,
    Moment,
    Picked,
    added,
)
from hush.query.plan.sharing import Source, Weights, sources
from hush.query.plan.statistics import (
    DistinctCount,
    Factor,
    Halves,
    Noised,
    Population,
    Total,
    UnitCount,
    line,
    members,
)
from hush.query.question import Aggregate, AggregateKind
from hush.query.types import Kind

_TINY = Fraction(1, 10**250)


@dataclass(slots=True)
class Needs:
    """All statistics and choices of a question, each with how much the answers depend on it."""

    weighted: bool
    statistics: dict[Noised, Fraction] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)

    def want(self, statistic: Noised, weight: Fraction) -> None:
        """Note a use of a statistic."""
        self.statistics[statistic] = self.statistics.get(statistic, Fraction(0)) + weight


def compile_aggregates(aggregates: tuple[Aggregate, ...], *, weighted: bool) -> tuple[tuple[Estimator, ...], Needs]:
    """Return an estimator for each aggregate, and what they need together; units may be ``weighted`` down."""
    needs = Needs(weighted=weighted)
    counted = sources([(item, _population(item)) for item in aggregates], weighted=weighted)
    return tuple(_compile(item, counted, needs) for item in aggregates), needs


def check_sizes(needs: Needs) -> None:
    """Refuse numbers that, or whose products, no float can hold: the answer could not be computed."""
    lines = [choice.histogram for choice in needs.choices if isinstance(choice.histogram, LineHistogram)]
    factors: list[tuple[Factor, ...]] = [(line.factor,) for line in lines]
    for statistic in (member for item in needs.statistics for member in members(item)):
        factors += [statistic.factors] if isinstance(statistic, Total) else []
    for product in factors:
        step = math.prod((factor.step for factor in product), start=Fraction(1))
        largest = step * max(1, *(abs(end) for factor in product for end in (factor.first, factor.last))) ** 2
        if not (step >= _TINY and largest <= 1 / _TINY):
            raise UnplannableError(
                "the bounds of these values are too large or too fine to compute with; "
                "CLIP the values to a smaller range, or divide them by a constant"
            )


def _population(aggregate: Aggregate) -> Population:
    return Population.of(aggregate.where, aggregate.arguments)


_ONE = Fraction(1)


def _compile(aggregate: Aggregate, counted: Mapping[Population, Source | None], needs: Needs) -> Estimator:
    population, kind = _population(aggregate), aggregate.kind
    weights = Weights.of(aggregate)
    match kind:
        case _ if weights is not None:
            return _counted(aggregate, weights, counted[population], needs)
        case AggregateKind.COUNT_UNITS:
            return _alone(UnitCount(population=population), needs, counts=True)
        case AggregateKind.COUNT_DISTINCT:
            return _alone(DistinctCount(population=population, expression=aggregate.arguments[0]), needs)
        case AggregateKind.MODE:
            choice = _mode(aggregate, population)
        case AggregateKind.QUANTILE:
            histogram = LineHistogram.of(population, aggregate.arguments[0])
            choice = Choice(
                kind=ChoiceKind.QUANTILE, histogram=histogram, fraction=aggregate.fraction or Fraction(1, 2)
            )
        case _:
            histogram = LineHistogram.of(population, aggregate.arguments[0])
            choice = Choice(kind=ChoiceKind(kind.value), histogram=histogram)
    if choice not in needs.choices:  # MEDIAN(x) and QUANTILE(x, 0.5) are one
        needs.choices.append(choice)
    return Picked(choice=choice, number=needs.choices.index(choice))


def _alone(statistic: UnitCount | DistinctCount, needs: Needs, *, counts: bool = False) -> Linear:
    needs.want(statistic, _ONE)
    return Linear(parts=((statistic, _ONE),), counts=counts)


def _counted(aggregate: Aggregate, weights: Weights, source: Source | None, needs: Needs) -> Estimator:
    """Return the estimator of what is made of a number of rows, and sums over them."""
    if source is None:
        raw = Factor.raw(aggregate.arguments[0], weighted=needs.weighted)
        total = Total(population=_population(aggregate), factors=(raw,))
        needs.want(total, _ONE)
        return Linear(parts=((total, raw.step),), grid=_grid(raw), rounding=_rounding(raw))
    needs.want(source.noised, weights.count * source.spread)
    if aggregate.kind is AggregateKind.COUNT:
        return Linear(parts=source.count, counts=True)
    if aggregate.kind in MOMENTS or aggregate.kind in PAIRS:
        return _moment(aggregate, weights, source, needs)
    argument = aggregate.arguments[0]
    centred = _centred(argument, weights, source, needs, of_product=False)
    if aggregate.kind is AggregateKind.AVG:
        return Mean(total=centred, count=source.count)
    step = centred.factor.step
    parts = added((centred.parts, step), (source.count, centred.centre * step))
    return Linear(parts=parts, grid=_grid(centred.factor), rounding=_rounding(centred.factor))


def _rounding(factor: Factor) -> Fraction:
    return ROUNDED * factor.step / 2 if factor.rounds else Fraction(0)


def _grid(factor: Factor) -> Fraction:
    """Return the column's own grid, or the factor's, whichever is coarser: sums are given on it."""
    return max(line(factor.expression.type)[2], factor.step)


def _centred(argument: Expression, weights: Weights, source: Source, needs: Needs, *, of_product: bool) -> Centred:
    weight = weights.totals[argument]
    if isinstance(source.noised, Halves) and argument == source.noised.factor.expression:
        needs.want(source.noised, 2 * weight)
        return Centred.of_halves(source.noised)
    factor = Factor.centred(argument, weighted=needs.weighted, of_product=of_product)
    total = Total(population=source.population, factors=(factor,))
    needs.want(total, weight)
    return Centred.of_total(total)


def _moment(aggregate: Aggregate, weights: Weights, source: Source, needs: Needs) -> Moment:
    factors = tuple(
        Factor.centred(argument, weighted=needs.weighted, of_product=True) for argument in aggregate.arguments
    )
    x, y = factors[0], factors[-1]
    pairs = {
        AggregateKind.CORRELATION: ((x, y), (x, x), (y, y)),
        AggregateKind.COVARIANCE: ((x, y),),
        AggregateKind.COVARIANCE_POPULATION: ((x, y),),
    }.get(aggregate.kind, ((x, x),))
    first = tuple(_centred(argument, weights, source, needs, of_product=True) for argument in aggregate.arguments)
    second = tuple(_around_the_middle(Total(population=source.population, factors=pair)) for pair in pairs)
    for total in second:
        needs.want(total, _ONE)
    return Moment(kind=aggregate.kind, count=source.count, first=first, second=second)


def _around_the_middle(total: Total) -> Total:
    low, high = total.range
    return Total(population=total.population, factors=total.factors, offset=(low + high) // 2)


def _mode(aggregate: Aggregate, population: Population) -> Choice:
    argument: Expression = aggregate.arguments[0]
    values = finite_values(argument.type)
    if values is None:
        how = "BIN it, or declare" if argument.type.kind is not Kind.TEXT else "declare"
        raise UnplannableError(
            f"MODE picks from a public list of values, and this has none; {how} its values in the policy"
        )
    return Choice(
        kind=ChoiceKind.MODE, histogram=ValueHistogram(population=population, expression=argument, values=values)
    )
