"""Aggregates as functions of statistics, and which statistics a question needs altogether.

Each aggregate becomes an *estimator*: a function from the noisy statistics of a group to the answer. Estimators work on
arrays of any shape, so the same function gives the answer and, fed with simulated noise, its error.

Statistics are shared: COUNT(x), SUM(x) and AVG(x) together need two. AVG(x) alone needs two sums at the price of one
(`Halves`), and whatever else the question averages or sums over the same rows takes its count from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.query.expressions import Expression
from hush.query.plan.choices import Choice, ChoiceKind, LineHistogram, ValueHistogram
from hush.query.plan.domains import finite_values
from hush.query.plan.errors import UnplannableError
from hush.query.plan.statistics import (
    Count,
    DistinctCount,
    Factor,
    Halves,
    Noised,
    Population,
    Statistic,
    Total,
    UnitCount,
    line,
    members,
)
from hush.query.question import Aggregate, AggregateKind
from hush.query.types import Kind

Floats = npt.NDArray[np.float64]
Values = Mapping[Statistic, Floats]

_MOMENTS = {
    AggregateKind.VARIANCE,
    AggregateKind.VARIANCE_POPULATION,
    AggregateKind.STDDEV,
    AggregateKind.STDDEV_POPULATION,
}
_PAIRS = {AggregateKind.COVARIANCE, AggregateKind.COVARIANCE_POPULATION, AggregateKind.CORRELATION}
_SAMPLE = {AggregateKind.VARIANCE, AggregateKind.STDDEV, AggregateKind.COVARIANCE}
_ROOTS = {AggregateKind.STDDEV, AggregateKind.STDDEV_POPULATION}
_COUNTED = {AggregateKind.COUNT} | _MOMENTS | _PAIRS
_TINY = Fraction(1, 10**250)


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """A statistic itself, times its step: the answer's noise is the statistic's own."""

    statistic: Statistic
    step: Fraction = Fraction(1)
    rounding: Fraction = Fraction(0)
    """How far the answer is moved at most, to lie on the column's own grid."""

    def evaluate(self, values: Values) -> Floats:
        """Return the answers."""
        return values[self.statistic] * float(self.step)

    @property
    def parts(self) -> tuple[tuple[Statistic, Fraction], ...]:
        """The statistics that are added up, each with its factor."""
        return ((self.statistic, self.step),)


def counted(values: Values, count: Count | Halves) -> Floats:
    """Return the numbers of rows."""
    if isinstance(count, Halves):
        return np.asarray((values[count.above] - values[count.below]) / count.bound)
    return values[count]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedSum:
    """Σx = Σ(x-c) + c·n."""

    total: Total
    count: Count | Halves

    def evaluate(self, values: Values) -> Floats:
        """Return the answers."""
        factor = self.total.factors[0]
        return np.asarray((values[self.total] + factor.centre * counted(values, self.count)) * float(factor.step))

    @property
    def parts(self) -> tuple[tuple[Statistic, Fraction], ...]:
        """The statistics that are added up, each with its factor."""
        factor, count = self.total.factors[0], self.count
        if isinstance(count, Halves):
            share = Fraction(factor.centre, count.bound)
            return (count.above, (1 + share) * factor.step), (count.below, -share * factor.step)
        return (self.total, factor.step), (count, factor.centre * factor.step)

    @property
    def rounding(self) -> Fraction:
        """How far the answer is moved at most, to lie on the column's own grid."""
        factor = self.total.factors[0]
        own = line(factor.expression.type)[2]
        return max(own, factor.step) / 2 if isinstance(self.count, Halves) or factor.step < own else Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """c + Σ(x-c)/n, kept within the public bounds; halves have Σ(x-c) = (a+b)/2 around the exact middle c."""

    total: Total | Halves
    count: Count | Halves

    def evaluate(self, values: Values) -> Floats:
        """Return the answers."""
        return self._answer(self._raw(values))

    def plausible(self, values: Values, released: Values) -> Floats:
        """Return what the truth may be if ``values`` is what the statistics may be; see `around`."""
        _, low, high = self._line
        found = around(self._raw(values), self._raw(released), low, high)
        return self._answer(unless_empty(found, counted(released, self.count), 1, low, high))

    @property
    def _line(self) -> tuple[float, float, float]:
        """The centre, and the least and the greatest difference from it, in steps."""
        if isinstance(self.total, Halves):
            reach = self.total.bound / 2
            return self.total.factor.first + reach, -reach, reach
        factor = self.total.factors[0]
        return factor.centre, *factor.ends

    def _raw(self, values: Values) -> Floats:
        if isinstance(self.total, Halves):
            total = (values[self.total.above] + values[self.total.below]) / 2
        else:
            total = values[self.total]
        return np.asarray(total / np.maximum(counted(values, self.count), 1))

    def _answer(self, raw: Floats) -> Floats:
        centre, low, high = self._line
        factor = self.total.factor if isinstance(self.total, Halves) else self.total.factors[0]
        return np.asarray((centre + np.clip(raw, low, high)) * float(factor.step))


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Variance, covariance or correlation from centred sums of products."""

    kind: AggregateKind
    count: Count
    first: tuple[Total, ...]
    """Σ(x-c) for each argument."""
    second: tuple[Total, ...]
    """Σ of (x-c)(y-c) for (x,x), or (x,y), or (x,y), (x,x), (y,y)."""

    def evaluate(self, values: Values) -> Floats:
        """Return the answers; NaN where a correlation is undefined."""
        return self._answer(self._raw(values), values)

    def plausible(self, values: Values, released: Values) -> Floats:
        """Return what the truth may be if ``values`` is what the statistics may be; see `around`."""
        raw = self._raw(values)
        low, high = self._range
        if self.kind in _MOMENTS:
            raw = around(raw, self._raw(released), low, high)
        needed = 2 if self.kind in _SAMPLE or self.kind is AggregateKind.CORRELATION else 1
        return self._answer(unless_empty(raw, released[self.count], needed, low, high), values)

    @property
    def _range(self) -> tuple[float, float]:
        """The least and the largest result there can be: a variance is at most a quarter of the squared range."""
        if self.kind is AggregateKind.CORRELATION:
            return -1.0, 1.0
        (low, high), (left, right) = (total.factors[0].ends for total in (self.first[0], self.first[-1]))
        most = (high - low) * (right - left) / 4
        return (0.0 if self.kind in _MOMENTS else -most), most

    def _raw(self, values: Values) -> Floats:
        n = np.maximum(values[self.count], 1)
        means = [np.clip(values[total] / n, *total.factors[0].ends) for total in self.first]

        def central(product: Total, x: Floats, y: Floats) -> Floats:
            return np.asarray(values[product] / n + product.offset - x * y)

        x, y = means[0], means[-1]
        result = central(self.second[0], x, y)
        if self.kind is AggregateKind.CORRELATION:
            spread = np.maximum(central(self.second[1], x, x), 0) * np.maximum(central(self.second[2], y, y), 0)
            with np.errstate(all="ignore"):
                return np.clip(np.where(spread > 0, result / np.sqrt(spread), np.nan), -1, 1)
        return result

    def _answer(self, raw: Floats, values: Values) -> Floats:
        if self.kind is AggregateKind.CORRELATION:
            return raw
        scale = float(self.second[0].factors[0].step * self.second[0].factors[1].step)
        result = np.clip(raw, *self._range) if self.kind in _MOMENTS else raw
        if self.kind in _SAMPLE:
            n = np.maximum(values[self.count], 1)
            result = result * n / np.maximum(n - 1, 1)
        return np.asarray(np.sqrt(result) * np.sqrt(scale) if self.kind in _ROOTS else result * scale)


def around(plausible: Floats, released: Floats, low: float, high: float) -> Floats:
    """Return plausible truths around an answer that was moved into its public range, kept within that range.

    Moving the answer brings it closer to the truth, which lies in the range, but takes nothing from the noise: the
    plausible truths move along with it. Where they were cut at the range instead, an answer far outside of it would
    look sure.
    """
    return np.clip(np.clip(released, low, high) + plausible - released, low, high)


def unless_empty(plausible: Floats, counts: Floats, needed: int, low: float, high: float) -> Floats:
    """Return plausible truths, one a row; both ends of the public range where fewer rows were counted than are needed.

    Of no rows there is no truth, and however little noise there is, nothing is known of it.
    """
    ends = np.where(np.arange(plausible.shape[0]) % 2 == 0, low, high)[:, None]
    return np.where(counts < needed - 0.5, ends, plausible)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """A choice by the exponential mechanism."""

    choice: Choice


Estimator = Direct | ShiftedSum | Mean | Moment | Picked


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
    counts: dict[Population, Count | Halves] = {}
    for item in aggregates:
        population = _population(item)
        if item.kind in _COUNTED:
            counts[population] = Count(population=population)
        elif item.kind is AggregateKind.AVG and population not in counts:
            halves = Halves.of(population, item.arguments[0], weighted=weighted)
            counts[population] = halves or Count(population=population)
    return tuple(_compile(item, counts, needs) for item in aggregates), needs


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


_ONE, _QUARTER = Fraction(1), Fraction(1, 4)
_HALVES = Fraction(5, 2)
"""The variance of a mean is 2 + 2(d/h)² times that of a half, relative to its bounds; (d/h)² = 1/4 is typical."""


def _compile(aggregate: Aggregate, counts: Mapping[Population, Count | Halves], needs: Needs) -> Estimator:
    population, kind = _population(aggregate), aggregate.kind
    count = Count(population=population)
    match kind:
        case AggregateKind.COUNT:
            needs.want(count, _ONE)
            return Direct(statistic=count)
        case AggregateKind.COUNT_UNITS:
            units = UnitCount(population=population)
            needs.want(units, _ONE)
            return Direct(statistic=units)
        case AggregateKind.COUNT_DISTINCT:
            distinct = DistinctCount(population=population, expression=aggregate.arguments[0])
            needs.want(distinct, _ONE)
            return Direct(statistic=distinct)
        case AggregateKind.SUM if population not in counts:
            raw = Factor.raw(aggregate.arguments[0], weighted=needs.weighted)
            total = Total(population=population, factors=(raw,))
            needs.want(total, _ONE)
            own = line(raw.expression.type)[2]
            return Direct(statistic=total, step=raw.step, rounding=own / 2 if raw.step < own else Fraction(0))
        case AggregateKind.SUM | AggregateKind.AVG:
            return _sum_or_mean(aggregate, counts[population], needs)
        case _ if kind in _MOMENTS or kind in _PAIRS:
            return _moment(aggregate, population, count, needs)
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
    needs.choices.append(choice)
    return Picked(choice=choice)


def _sum_or_mean(aggregate: Aggregate, count: Count | Halves, needs: Needs) -> Estimator:
    is_sum, argument = aggregate.kind is AggregateKind.SUM, aggregate.arguments[0]
    if isinstance(count, Halves) and argument == count.factor.expression:
        needs.want(count, _ONE if is_sum else _HALVES)
        return ShiftedSum(total=count.above, count=count) if is_sum else Mean(total=count, count=count)
    total = Total(population=_population(aggregate), factors=(Factor.centred(argument, weighted=needs.weighted),))
    needs.want(total, _ONE)
    needs.want(count, _QUARTER)
    return (ShiftedSum if is_sum else Mean)(total=total, count=count)


def _moment(aggregate: Aggregate, population: Population, count: Count, needs: Needs) -> Moment:
    factors = tuple(
        Factor.centred(argument, weighted=needs.weighted, of_product=True) for argument in aggregate.arguments
    )
    x, y = factors[0], factors[-1]
    pairs = {
        AggregateKind.CORRELATION: ((x, y), (x, x), (y, y)),
        AggregateKind.COVARIANCE: ((x, y),),
        AggregateKind.COVARIANCE_POPULATION: ((x, y),),
    }.get(aggregate.kind, ((x, x),))
    first = tuple(Total(population=population, factors=(factor,)) for factor in factors)
    second = tuple(_around_the_middle(Total(population=population, factors=pair)) for pair in pairs)
    needs.want(count, _QUARTER)
    for total in first:
        needs.want(total, _QUARTER)
    for total in second:
        needs.want(total, _ONE)
    return Moment(kind=aggregate.kind, count=count, first=first, second=second)


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
