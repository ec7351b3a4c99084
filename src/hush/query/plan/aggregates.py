r"""Aggregates as functions of statistics, and which statistics a question needs altogether.

Each aggregate becomes an *estimator* (`hush.query.plan.estimators`): a function from the noisy statistics of a group to
the answer. Statistics are shared: COUNT(x), SUM(x) and AVG(x) together need two sums at the price of one (`Halves`),
and so does COUNT(*) beside them; what else is averaged or summed over the same rows takes its count from there.

**Weights.** How much the answers depend on a statistic is a weight: the variance that it adds to the answers, each
relative to a typical value, over its own variance relative to its bound. In terms of the number of rows n and of
S = Σ(x-c)/h, c the middle of a column's bounds and h half their width:

    COUNT       n alone                                     weight 1
    AVG         c + h·S/n, relative to h                    S: 1, n: (d/h)² for a mean at c + d; 1/4 is typical
    SUM         h·S + c·n, relative to |c| + h, its bound   S: h²/(|c|+h)², n: c²/(|c|+h)²
    VARIANCE    from Σ(x-c)² too, which has weight 1        S: 16(d/h)², which is 0 … 4; 1/2 as n, a compromise
    CORR …      from Σ(x-c)(y-c) too, which has weight 1    S: 1/4 each, n: 1/4

A separate count and a separate S have these weights. Halves, whose n and S err by 2v each, v their own variance, have
twice the sum of both; and three times the weight of COUNT(*) where they count the other rows as well.

**Which source.** At the best split of ε the answers err by Σw_i^{1/3}, cubed (`hush.query.plan.plan`). So the best
source is the one with the least Σw_i^{1/3}, for each population by itself, except that one column's halves may count
the rows of a wider population as well. A SUM that shares its count with nothing is summed from zero, with weight 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
from hush.query.plan.draws import DrawKind, DrawnAggregate, LineHistogram, ValueHistogram
from hush.query.plan.estimators import (
    MOMENTS,
    PAIRS,
    ROUNDED,
    Centred,
    Drawn,
    Estimator,
    Linear,
    Mean,
    Moment,
    Parts,
    added,
)
from hush.query.plan.keys import finite_values
from hush.query.plan.stability import (
    Count,
    DistinctCount,
    DistinctTotal,
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
    choices: list[DrawnAggregate] = field(default_factory=list)

    def want(self, statistic: Noised, weight: Fraction) -> None:
        """Note a use of a statistic."""
        self.statistics[statistic] = self.statistics.get(statistic, Fraction(0)) + weight


def compile_aggregates(aggregates: tuple[Aggregate, ...], *, weighted: bool) -> tuple[tuple[Estimator, ...], Needs]:
    """Return an estimator for each aggregate, and the statistics they need; units may be ``weighted`` down."""
    needs = Needs(weighted=weighted)
    counted = sources([(aggregate, _population(aggregate)) for aggregate in aggregates], weighted=weighted)
    return tuple(_compile(aggregate, counted, needs) for aggregate in aggregates), needs


def check_sizes(needs: Needs) -> None:
    """Refuse factors that, alone or multiplied, overflow or underflow a float."""
    lines = [choice.histogram for choice in needs.choices if isinstance(choice.histogram, LineHistogram)]
    factors: list[tuple[Factor, ...]] = [(line.factor,) for line in lines]
    for statistic in (member for noised in needs.statistics for member in members(noised)):
        factors += [statistic.factors] if isinstance(statistic, Total) else []
        factors += [(statistic.factor,)] if isinstance(statistic, DistinctTotal) else []
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


def _compile(aggregate: Aggregate, counted: Mapping[Population, CountSource | None], needs: Needs) -> Estimator:
    population, kind = _population(aggregate), aggregate.kind
    weights = Weights.of(aggregate)
    match kind:
        case _ if weights is not None:
            return _counted(aggregate, weights, counted[population], needs)
        case AggregateKind.COUNT_UNITS:
            return _alone(UnitCount(population=population), needs, counts=True)
        case AggregateKind.COUNT_DISTINCT:
            return _alone(DistinctCount(population=population, expression=aggregate.arguments[0]), needs)
        case AggregateKind.SUM_DISTINCT:
            raw = Factor.raw(aggregate.arguments[0])
            summed = DistinctTotal(population=population, factor=raw)
            needs.want(summed, _ONE)
            return Linear(parts=((summed, raw.step),), grid=_grid(raw), rounding=_rounding(raw))
        case AggregateKind.AVG_DISTINCT:
            return _distinct_mean(aggregate.arguments[0], population, needs)
        case AggregateKind.MODE:
            choice = _mode(aggregate, population)
        case AggregateKind.QUANTILE:
            histogram = LineHistogram.of(population, aggregate.arguments[0])
            choice = DrawnAggregate(
                kind=DrawKind.QUANTILE, histogram=histogram, fraction=aggregate.fraction or Fraction(1, 2)
            )
        case _:
            histogram = LineHistogram.of(population, aggregate.arguments[0])
            choice = DrawnAggregate(kind=DrawKind(kind.value), histogram=histogram)
    if choice not in needs.choices:  # MEDIAN(x) and QUANTILE(x, 0.5) are one
        needs.choices.append(choice)
    return Drawn(choice=choice, number=needs.choices.index(choice))


def _alone(statistic: UnitCount | DistinctCount, needs: Needs, *, counts: bool = False) -> Linear:
    needs.want(statistic, _ONE)
    return Linear(parts=((statistic, _ONE),), counts=counts)


def _distinct_mean(argument: Expression, population: Population, needs: Needs) -> Mean:
    """Return the estimator of AVG(DISTINCT x): the centred sum of the distinct values over their number."""
    factor = Factor.centred(argument)
    total = DistinctTotal(population=population, factor=factor)
    count = DistinctCount(population=population, expression=argument)
    needs.want(total, _ONE)
    needs.want(count, _QUARTER)
    centred = Centred(factor=factor, centre=Fraction(factor.centre), parts=((total, _ONE),))
    return Mean(total=centred, count=((count, _ONE),))


def _counted(aggregate: Aggregate, weights: Weights, source: CountSource | None, needs: Needs) -> Estimator:
    """Return the estimator of an aggregate that is computed from a number of rows and sums over the rows."""
    # a SUM that shares its count with nothing: summed from zero, so it needs no count
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
    # Σx = Σ(x-c) + c·n
    parts = added((centred.parts, step), (source.count, centred.centre * step))
    return Linear(parts=parts, grid=_grid(centred.factor), rounding=_rounding(centred.factor))


def _rounding(factor: Factor) -> Fraction:
    return ROUNDED * factor.step / 2 if factor.rounds else Fraction(0)


def _grid(factor: Factor) -> Fraction:
    """Return the column's own grid, or the factor's, whichever is coarser: sums are given on it."""
    return max(line(factor.expression.type)[2], factor.step)


def _centred(argument: Expression, weights: Weights, source: CountSource, needs: Needs, *, of_product: bool) -> Centred:
    weight = weights.totals[argument]
    if isinstance(source.noised, Halves) and argument == source.noised.factor.expression:
        needs.want(source.noised, 2 * weight)
        return Centred.of_halves(source.noised)
    factor = Factor.centred(argument, weighted=needs.weighted, of_product=of_product)
    total = Total(population=source.population, factors=(factor,))
    needs.want(total, weight)
    return Centred.of_total(total)


def _moment(aggregate: Aggregate, weights: Weights, source: CountSource, needs: Needs) -> Moment:
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
    # values in [low, high], shifted by the middle, have half the sensitivity
    return Total(population=total.population, factors=total.factors, offset=(low + high) // 2)


def _mode(aggregate: Aggregate, population: Population) -> DrawnAggregate:
    argument: Expression = aggregate.arguments[0]
    values = finite_values(argument.type)
    if values is None:
        how = "BIN it, or declare" if argument.type.kind is not Kind.TEXT else "declare"
        raise UnplannableError(
            f"MODE picks from a public list of values, and this has none; {how} its values in the policy"
        )
    return DrawnAggregate(
        kind=DrawKind.MODE, histogram=ValueHistogram(population=population, expression=argument, values=values)
    )


_ONE, _HALF, _QUARTER = Fraction(1), Fraction(1, 2), Fraction(1, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much an aggregate depends on the number of rows, and on the sum of each argument."""

    count: Fraction
    totals: dict[Expression, Fraction]

    @classmethod
    def of(cls, aggregate: Aggregate) -> Weights | None:
        """Return the weights; None for an aggregate that is not computed from a count and sums."""
        kind, arguments = aggregate.kind, aggregate.arguments
        if kind is AggregateKind.COUNT:
            return cls(count=_ONE, totals={})
        if kind is AggregateKind.AVG:
            return cls(count=_QUARTER, totals={arguments[0]: _ONE})
        if kind is AggregateKind.SUM:
            factor = Factor.centred(arguments[0])
            # weights relative to the largest value squared, (|c|+h)²: see the table above
            largest = max(abs(factor.first), abs(factor.last), 1) ** 2
            half = Total(population=Population(), factors=(factor,)).bound
            return cls(count=Fraction(factor.centre**2, largest), totals={arguments[0]: Fraction(half * half, largest)})
        if kind in MOMENTS or kind in PAIRS:
            weight = _HALF if kind in MOMENTS else _QUARTER
            return cls(count=weight, totals=dict.fromkeys(arguments, weight))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountSource:
    """The noisy statistic from which the number of rows of a population is taken."""

    noised: Count | Halves
    whole: bool = False
    """Whether the halves' other rows are counted, too."""

    @property
    def population(self) -> Population:
        """The rows that are counted; sums that are divided by this count run over the very same."""
        if isinstance(self.noised, Count):
            return self.noised.population
        population = self.noised.above.population
        return population.within or population if self.whole else population

    @property
    def count(self) -> Parts:
        """The number of rows."""
        if isinstance(self.noised, Count):
            return ((self.noised, Fraction(1, self.noised.times)),)
        return self.noised.count(whole=self.whole)

    @property
    def spread(self) -> int:
        """The variance of the number of rows, divided by the variance of one noisy number."""
        return len(self.count)


@dataclass(slots=True)
class _Demand:
    """The weights of all aggregates over one population."""

    count: Fraction = Fraction(0)
    totals: dict[Expression, Fraction] = field(default_factory=dict)
    sums: int | None = 0
    """How many sums there are; None where something else needs a count."""

    def add(self, aggregate: Aggregate, weights: Weights) -> None:
        """Note an aggregate."""
        self.count += weights.count
        for argument, weight in weights.totals.items():
            self.totals[argument] = self.totals.get(argument, Fraction(0)) + weight
        if aggregate.kind is not AggregateKind.SUM:
            self.sums = None
        elif self.sums is not None:
            self.sums += 1

    def cost(self, *, without: Expression | None = None) -> float:
        """Return the cost Σw^{1/3} of the sums; the sum ``without`` cost comes with the count."""
        return sum(math.cbrt(weight) for argument, weight in self.totals.items() if argument != without)

    def halved(self, argument: Expression, others: Fraction = Fraction(0)) -> float:
        """Return the cost of this population with the halves of one argument; ``others`` is the weight of COUNT(*)."""
        return math.cbrt(2 * (self.totals[argument] + self.count) + 3 * others) + self.cost(without=argument)


def sources(
    aggregates: Iterable[tuple[Aggregate, Population]], *, weighted: bool
) -> dict[Population, CountSource | None]:
    """Return the source of the row count of each population; None where SUMs are taken from zero, without a count."""
    demands: dict[Population, _Demand] = {}
    for aggregate, population in aggregates:
        weights = Weights.of(aggregate)
        if weights is not None:
            demands.setdefault(population, _Demand()).add(aggregate, weights)
    by_population: dict[Population, CountSource | None] = {}
    costs: dict[Population, float] = {}
    for population, demand in demands.items():
        options: list[tuple[float, CountSource | None]] = []
        if demand.sums is not None:
            # each sum from zero has weight 1, whose cube root is 1
            options.append((float(demand.sums), None))
        else:
            count = Count.of(population, weighted=weighted)
            options.append((math.cbrt(demand.count) + demand.cost(), CountSource(noised=count)))
        for argument in demand.totals:
            halves = Halves.of(population, argument, weighted=weighted)
            if halves is not None:
                options.append((demand.halved(argument), CountSource(noised=halves)))
        costs[population], by_population[population] = min(options, key=_cost)
    for wider in [population for population in demands if not population.not_null]:
        _share_with_one(wider, demands, costs, by_population, weighted=weighted)
    return by_population


def _share_with_one(
    whole: Population,
    demands: dict[Population, _Demand],
    costs: dict[Population, float],
    chosen: dict[Population, CountSource | None],
    *,
    weighted: bool,
) -> None:
    """Let the halves of one column that may be NULL count all rows, if that costs less."""
    wanted = demands[whole]
    options: list[tuple[float, tuple[Population, Halves] | None]] = [(0.0, None)]
    for population, demand in demands.items():
        if population.where != whole.where or len(population.not_null) != 1:
            continue
        argument = population.not_null[0]
        if argument not in demand.totals:
            continue
        halves = Halves.of(replace(population, within=whole), argument, weighted=weighted)
        if halves is not None:
            together = demand.halved(argument, wanted.count) + wanted.cost()
            options.append((together - costs[population] - costs[whole], (population, halves)))
    _, best = min(options, key=_cost)
    if best is not None:
        population, halves = best
        chosen[population], chosen[whole] = CountSource(noised=halves), CountSource(noised=halves, whole=True)


def _cost(option: tuple[float, object]) -> float:
    """Return the cost to compare by: of options that cost the same, the first is taken."""
    # cube roots of floats differ in the last digits; a tie must not depend on them
    return round(option[0], 9)
