"""Aggregates as functions of statistics, and which statistics a question needs altogether.

Each aggregate becomes an *estimator*: a function from the noisy statistics of a group to the answer. Estimators work on
arrays of any shape, so the same function gives the answer and, fed with simulated noise, its error.

Statistics are shared: COUNT(x), SUM(x) and AVG(x) together need two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.query.expressions import Expression
from hush.query.plan.choices import Choice, ChoiceKind, LineHistogram, ValueHistogram
from hush.query.plan.domains import finite_values
from hush.query.plan.errors import UnplannableError
from hush.query.plan.statistics import Count, DistinctCount, Factor, Population, Statistic, Total, UnitCount
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
_COUNTED = {AggregateKind.AVG, AggregateKind.COUNT} | _MOMENTS | _PAIRS


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """A statistic itself, times its step: the answer's noise is the statistic's own."""

    statistic: Statistic
    step: Fraction = Fraction(1)

    def evaluate(self, values: Values) -> Floats:
        """Return the answers."""
        return values[self.statistic] * float(self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedSum:
    """Σx = Σ(x-c) + c·n."""

    total: Total
    count: Count

    def evaluate(self, values: Values) -> Floats:
        """Return the answers."""
        factor = self.total.factors[0]
        return (values[self.total] + factor.centre * values[self.count]) * float(factor.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """c + Σ(x-c)/n, kept within the public bounds."""

    total: Total
    count: Count

    def evaluate(self, values: Values) -> Floats:
        """Return the answers."""
        return self._answer(self._raw(values))

    def plausible(self, values: Values, released: Values) -> Floats:
        """Return what the truth may be if ``values`` is what the statistics may be; see `around`."""
        return self._answer(around(self._raw(values), self._raw(released), *self.total.factors[0].ends))

    def _raw(self, values: Values) -> Floats:
        return np.asarray(values[self.total] / np.maximum(values[self.count], 1))

    def _answer(self, raw: Floats) -> Floats:
        factor = self.total.factors[0]
        return np.asarray((factor.centre + np.clip(raw, *factor.ends)) * float(factor.step))


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
        if self.kind in _MOMENTS:
            raw = around(raw, self._raw(released), 0.0, self._most)
        return self._answer(raw, values)

    @property
    def _most(self) -> float:
        """The largest variance there can be."""
        low, high = self.first[0].factors[0].ends
        return (high - low) ** 2 / 4

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
        result = np.clip(raw, 0, self._most) if self.kind in _MOMENTS else raw
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """A choice by the exponential mechanism."""

    choice: Choice


Estimator = Direct | ShiftedSum | Mean | Moment | Picked


@dataclass(slots=True)
class Needs:
    """All statistics and choices of a question, each with how much the answers depend on it."""

    statistics: dict[Statistic, Fraction] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)

    def want(self, statistic: Statistic, weight: Fraction) -> None:
        """Note a use of a statistic."""
        self.statistics[statistic] = self.statistics.get(statistic, Fraction(0)) + weight


def compile_aggregates(aggregates: tuple[Aggregate, ...]) -> tuple[tuple[Estimator, ...], Needs]:
    """Return an estimator for each aggregate, and what they need together."""
    needs = Needs()
    counted = {_population(item) for item in aggregates if item.kind in _COUNTED}
    return tuple(_compile(item, counted, needs) for item in aggregates), needs


def _population(aggregate: Aggregate) -> Population:
    return Population.of(aggregate.where, aggregate.arguments)


_ONE, _QUARTER = Fraction(1), Fraction(1, 4)


def _compile(aggregate: Aggregate, counted: set[Population], needs: Needs) -> Estimator:
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
        case AggregateKind.SUM if population not in counted:
            raw = Factor.raw(aggregate.arguments[0])
            total = Total(population=population, factors=(raw,))
            needs.want(total, _ONE)
            return Direct(statistic=total, step=raw.step)
        case AggregateKind.SUM | AggregateKind.AVG:
            total = Total(population=population, factors=(Factor.centred(aggregate.arguments[0]),))
            needs.want(total, _ONE)
            needs.want(count, _QUARTER)
            return (ShiftedSum if kind is AggregateKind.SUM else Mean)(total=total, count=count)
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


def _moment(aggregate: Aggregate, population: Population, count: Count, needs: Needs) -> Moment:
    factors = tuple(Factor.centred(argument, of_product=True) for argument in aggregate.arguments)
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
