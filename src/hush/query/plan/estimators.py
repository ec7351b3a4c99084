r"""Aggregates as functions of statistics (*estimators*), and which statistics a question needs altogether.

An estimator is a function from the noisy statistics of a group to an answer. They work on arrays of any shape, so the
same function gives the answer and, fed with simulated noise, its error. What is linear in the statistics (counts and
sums) is kept as its factors instead, and computed exactly.

**Plausible truths** are what was released less fresh noise of the known laws. A sum Σ factor·statistic is linear: its
truth is Σ factor·released less Σ factor·noise, so each side is added up once, and only their difference is made for
every group and every draw (`Truths`). Groups are rows and draws are columns, next to each other in memory.

**Statistics** are shared: COUNT(x), SUM(x) and AVG(x) together need two sums at the price of one (`Halves`),
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
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
from hush.query.plan.draws import MAX_DENOMINATOR, DrawnAggregate, LineHistogram, ValueHistogram
from hush.query.plan.keys import finite_values
from hush.query.plan.stability import (
    FINE,
    Count,
    Distinct,
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
Groups = npt.NDArray[np.int64]
"""A selection of groups, by their places."""
Values = Mapping[Statistic, Floats]
Parts = tuple[tuple[Statistic, Fraction], ...]
"""Statistics that are added up, each with its factor."""

MOMENTS = {AggregateKind.VARIANCE, AggregateKind.VARIANCE_POPULATION}
PAIRS = {AggregateKind.COVARIANCE, AggregateKind.COVARIANCE_POPULATION, AggregateKind.CORRELATION}
ADDITIVE = {AggregateKind.COUNT, AggregateKind.SUM, AggregateKind.AVG} | MOMENTS | PAIRS
"""Aggregates of a count and sums over rows: the value for a union of groups follows from the sums of its groups."""
_SAMPLE = {AggregateKind.VARIANCE, AggregateKind.COVARIANCE}
_CLIPPED = {AggregateKind.AVG} | MOMENTS
"""Moments that are moved to the nearest end of their public range."""


def added(*pairs: tuple[Parts, Fraction]) -> Parts:
    """Return sums of parts, each times a factor, as parts: every statistic once."""
    factors: defaultdict[Statistic, Fraction] = defaultdict(Fraction)
    for parts, times in pairs:
        for statistic, factor in parts:
            factors[statistic] += factor * times
    return tuple((statistic, factor) for statistic, factor in factors.items() if factor)


def combined(values: Values, parts: Parts) -> Floats:
    """Return Σ factor·statistic."""
    (first, times), *further = parts
    total = values[first] * float(times)
    for statistic, factor in further:
        total = total + values[statistic] * float(factor)
    return np.asarray(total)


class Plausible(NamedTuple):
    """Plausible true values in every group: many draws for each."""

    of: Callable[[Groups], Floats]
    """Returns the draws for some groups, one row per group."""
    unknown: npt.NDArray[np.bool_] | None = None
    """Groups with too few rows to know anything, if their draws are the two ``ends`` by turns."""
    ends: tuple[float, float] = (0.0, 0.0)


ROUNDED = 2**20
"""Error bars of sums cover the rounding of this number of rows to a grid of 2³⁰ steps: 2⁻¹¹ of the range.

Many more rows are needed before rounding shows beside the noise.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A count or sum: Σ factor·statistic, moved to the nearest multiple of ``grid``."""

    parts: Parts
    grid: Fraction = Fraction(1)
    counts: bool = False
    """Whether it is a number of rows or units. Then the truth, as a whole number, lies on the grid."""
    rounding: Fraction = Fraction(0)
    """How far the values of all rows may be moved to their grid, together: half a step each, for `ROUNDED` rows."""

    def plausible(self, released: Values, noise: Values) -> Plausible:
        """Return plausible true values around the answers before these are rounded to the grid."""
        centre, draws = combined(released, self.parts), combined(noise, self.parts)
        return Plausible(lambda groups: np.asarray(centre[groups][:, None] - draws))

    @property
    def on_grid(self) -> bool:
        """Whether the sum is on the grid as it is, so that nothing is rounded."""
        return {(factor / self.grid).denominator for _, factor in self.parts} <= {1}

    def widened(self, half_width: Fraction) -> Fraction:
        """Return the half-width of the answers from that of the noise: rounding to the grid adds half a step at most.

        Where the truth t lies on the grid, noise z below (k + 1/2)·grid moves the answer k steps away or less.
        """
        half_width += self.rounding
        if self.on_grid:
            return half_width
        widened = half_width + self.grid / 2
        return widened // self.grid * self.grid if self.counts else widened


class Centred(NamedTuple):
    """Σ(x-c) in the steps of a factor: a total of its own, or the mean of two halves."""

    factor: Factor
    centre: Fraction
    parts: Parts

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest difference from the centre."""
        return float(self.factor.first - self.centre), float(self.factor.last - self.centre)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A mean, variance, covariance or correlation from centred sums, and sums of products."""

    kind: AggregateKind
    count: Parts
    first: tuple[Centred, ...]
    """Σ(x-c) for each argument. The centre and the grid may be others than those of the products."""
    second: tuple[Total, ...] = ()
    """Σ of (x-c)(y-c) for (x,x), or (x,y), or (x,y), (x,x), (y,y); none for a mean."""
    ends: tuple[float, float]
    """The least and the largest result there can be, in steps."""
    centre: Fraction = Fraction(0)
    scale: Fraction
    """The result is the sum of the centre and the result in steps, times this. Exact, until its size is checked."""

    @property
    def inputs(self) -> list[Parts]:
        """The count, the sums and the sums of products."""
        return [self.count, *(total.parts for total in self.first), *(((product, _ONE),) for product in self.second)]

    def evaluate(self, values: Values) -> Floats:
        """Return the answers; NaN where a correlation is undefined."""
        numbers = [combined(values, parts) for parts in self.inputs]
        raw = self._raw(numbers)
        return self._answer(np.clip(raw, *self.ends) if self.kind in _CLIPPED else raw, numbers[0])

    def plausible(self, released: Values, noise: Values) -> Plausible:
        """Return plausible true values."""
        numbers = [combined(released, parts) for parts in self.inputs]
        draws = [combined(noise, parts) for parts in self.inputs]
        # a count below 1/2 rounds to 0, and of no rows there is no mean; sample variances and correlations need two
        unknown = numbers[0] < (1.5 if self.kind in _SAMPLE or self.kind is AggregateKind.CORRELATION else 0.5)
        low, high = self.ends
        answers = self._raw(numbers)
        # rounding to the grid moves the mean by half a step at most; in steps, as everything before `_answer`
        rounding = 0.5 if self.kind is AggregateKind.AVG and self.first[0].factor.rounds else 0.0

        def of(groups: Groups) -> Floats:
            inputs = [number[groups][:, None] - drawn for number, drawn in zip(numbers, draws, strict=True)]
            truths, answer = self._raw(inputs), answers[groups][:, None]
            if self.kind in _CLIPPED:
                # moving an answer to the end of its public range brings it closer to the truth, which lies there, but
                # takes nothing from the noise: plausible truths move along; if they were cut instead, an answer far
                # outside would look sure
                inside = np.clip(answer, low, high)
                truths = np.clip(truths + (inside - answer), low, high)
                # away from the answer is the worst case
                truths = truths + rounding * np.where(truths < inside, -1, 1) if rounding else truths
            if unknown[groups].any():
                # of no rows there is no truth, and however little noise there is, nothing is known: both ends by turns
                truths[unknown[groups], 0::2] = low
                truths[unknown[groups], 1::2] = high
            return self._answer(truths, inputs[0])

        if self.kind in _SAMPLE:  # the ends depend on the number of rows
            return Plausible(of)
        lowest, highest = ((float(self.centre) + end) * float(self.scale) for end in self.ends)
        return Plausible(of, unknown, (lowest, highest))

    def _raw(self, inputs: list[Floats]) -> Floats:
        """Return the estimate from a count, sums and products, before clipping."""
        n = np.maximum(inputs[0], 1)
        sums, products = inputs[1 : 1 + len(self.first)], inputs[1 + len(self.first) :]
        if self.kind is AggregateKind.AVG:
            return np.asarray(sums[0] / n)
        means = []
        for total, summed, factor in zip(self.first, sums, self.second[0].factors, strict=False):
            # around the centre of the products' factor, in that factor's steps
            times = total.factor.step / factor.step
            mean = summed / n * float(times) + float(total.centre * times - factor.centre)
            means.append(np.clip(mean, *factor.ends))
        x, y = means[0], means[-1]
        central: list[Floats] = [
            product / n + float(total.offset) - one * other
            for total, product, (one, other) in zip(self.second, products, ((x, y), (x, x), (y, y)), strict=False)
        ]
        if self.kind is not AggregateKind.CORRELATION:
            return central[0]
        spread = np.maximum(central[1], 0) * np.maximum(central[2], 0)
        # without spread in x or y a correlation is undefined
        return np.asarray(np.clip(central[0] / np.sqrt(np.where(spread == 0, np.nan, spread)), -1, 1))

    def _answer(self, raw: Floats, count: Floats) -> Floats:
        result = np.asarray((float(self.centre) + raw) * float(self.scale))
        # Bessel's correction
        return result * np.maximum(count, 1) / np.maximum(count - 1, 1) if self.kind in _SAMPLE else result


Estimator = Linear | Moment | DrawnAggregate


def support(estimator: Estimator) -> frozenset[Statistic | DrawnAggregate]:
    """Return the numbers with noise of their own that an aggregate is made of."""
    if isinstance(estimator, DrawnAggregate):
        return frozenset([estimator])
    inputs = [estimator.parts] if isinstance(estimator, Linear) else estimator.inputs
    return frozenset(statistic for parts in inputs for statistic, factor in parts if factor)


_TINY = Fraction(1, 10**250)


@dataclass(slots=True)
class Needs:
    """All statistics and choices of a question, each with how much the answers depend on it."""

    weighted: bool
    """Whether units with many rows are weighted down."""
    statistics: defaultdict[Noised, Fraction] = field(default_factory=partial(defaultdict, Fraction))
    choices: list[DrawnAggregate] = field(default_factory=list)


def compile_aggregates(aggregates: tuple[Aggregate, ...], *, weighted: bool) -> tuple[tuple[Estimator, ...], Needs]:
    """Return an estimator for each aggregate, and the statistics they need; units may be ``weighted`` down.

    Refuse factors that, alone or multiplied, overflow or underflow a float.
    """
    needs = Needs(weighted=weighted)
    populations: list[Population] = []
    counted: dict[Population, list[Aggregate]] = {}
    for aggregate in aggregates:
        population = Population.of(aggregate.where, aggregate.arguments)
        populations.append(population)
        if aggregate.kind in ADDITIVE:
            counted.setdefault(population, []).append(aggregate)
    sources = _sources(counted, weighted=weighted)
    estimators: list[Estimator] = []
    for aggregate, population in zip(aggregates, populations, strict=True):
        if aggregate.kind in ADDITIVE:
            estimators.append(_counted(aggregate, population, sources[population], needs))
        else:
            estimators.append(_compile(aggregate, population, needs))
    products: list[tuple[Factor, ...]] = []
    for choice in needs.choices:
        products += [(choice.histogram.factor,)] if isinstance(choice.histogram, LineHistogram) else []
    for noised in needs.statistics:
        statistic = members(noised)[0]
        if isinstance(statistic, Total):
            products.append(statistic.factors)
        elif isinstance(statistic, Distinct) and statistic.factor is not None:
            products.append((statistic.factor,))
    for factors in products:
        step, largest = Fraction(1), 1
        for factor in factors:
            step *= factor.step
            largest = max(largest, abs(factor.first), abs(factor.last))
        if not (step >= _TINY and step * largest**2 <= 1 / _TINY):
            raise UnplannableError(
                "the bounds of these values are too large or too fine to compute with; "
                "CLIP the values to a smaller range, or divide them by a constant"
            )
    return tuple(estimators), needs


def _compile(aggregate: Aggregate, population: Population, needs: Needs) -> Estimator:
    """Return the estimator of an aggregate of distinct units or values, or of a choice."""
    if aggregate.kind is AggregateKind.COUNT_UNITS:
        units = UnitCount(population=population)
        needs.statistics[units] += _ONE
        return Linear(parts=((units, _ONE),), counts=True)
    (argument,) = aggregate.arguments
    match aggregate.kind:
        case AggregateKind.COUNT_DISTINCT:
            distinct = Distinct(population=population, expression=argument)
            needs.statistics[distinct] += _ONE
            return Linear(parts=((distinct, _ONE),))
        case AggregateKind.SUM_DISTINCT:
            raw = Factor.raw(argument)
            summed = Distinct(population=population, expression=argument, factor=raw)
            needs.statistics[summed] += _ONE
            return _sum(((summed, raw.step),), raw)
        case AggregateKind.AVG_DISTINCT:  # the centred sum of the distinct values over their number
            factor = Factor.centred(argument)
            summed = Distinct(population=population, expression=argument, factor=factor)
            distinct = Distinct(population=population, expression=argument)
            needs.statistics[summed] += _ONE
            needs.statistics[distinct] += _QUARTER
            centred = Centred(factor=factor, centre=Fraction(factor.centre), parts=((summed, _ONE),))
            return _mean(centred, ((distinct, _ONE),))
        case AggregateKind.MODE:
            values = finite_values(argument.type)
            if not values:
                how = "BIN it, or declare" if argument.type.kind is not Kind.TEXT else "declare"
                raise UnplannableError(
                    "MODE picks from a public list of values, and this has none, or the conditions leave none of it; "
                    f"{how} its values in the policy, or widen the conditions"
                )
            listed = ValueHistogram(population=population, expression=argument, values=values)
            choice = DrawnAggregate(kind=AggregateKind.MODE, histogram=listed)
        case AggregateKind.QUANTILE | AggregateKind.MIN | AggregateKind.MAX as kind:
            histogram = LineHistogram.of(population, argument)
            extremes = {AggregateKind.MIN: Fraction(0), AggregateKind.MAX: _ONE}
            fraction = extremes.get(kind, aggregate.fraction or _HALF)
            if kind not in extremes and not (0 < fraction < 1 and fraction.denominator <= MAX_DENOMINATOR):
                raise UnplannableError(
                    f"a quantile's fraction must lie between 0 and 1, with at most 4 decimals; got {fraction}"
                )
            choice = DrawnAggregate(kind=kind, histogram=histogram, fraction=fraction)
        case kind:
            raise UnplannableError(f"there is no estimator for {kind.value}")
    if choice not in needs.choices:  # MEDIAN(x) and QUANTILE(x, 0.5) are one
        needs.choices.append(choice)
    return choice


def _counted(aggregate: Aggregate, population: Population, source: CountSource | None, needs: Needs) -> Estimator:
    """Return the estimator of an aggregate that is computed from a number of rows and sums over the rows."""
    kind, arguments = aggregate.kind, aggregate.arguments
    # a SUM that shares its count with nothing: summed from zero, so it needs no count
    if source is None:
        raw = Factor.raw(arguments[0], weighted=needs.weighted)
        total = Total(population=population, factors=(raw,))
        needs.statistics[total] += _ONE
        return _sum(((total, raw.step),), raw)
    weights = _weights(aggregate)
    needs.statistics[source.noised] += weights[None] * len(source.count)
    if kind is AggregateKind.COUNT:
        return Linear(parts=source.count, counts=True)
    products = kind in MOMENTS or kind in PAIRS
    sums = tuple(_centred(argument, weights[argument], source, needs, of_product=products) for argument in arguments)
    if kind is AggregateKind.AVG:
        return _mean(sums[0], source.count)
    if kind is AggregateKind.SUM:  # Σx = Σ(x-c) + c·n
        step = sums[0].factor.step
        return _sum(added((sums[0].parts, step), (source.count, sums[0].centre * step)), sums[0].factor)
    factors = [Factor.centred(argument, weighted=needs.weighted, of_product=True) for argument in arguments]
    x, y = factors[0], factors[-1]
    second = []
    for pair in ((x, y), (x, x), (y, y)) if kind is AggregateKind.CORRELATION else ((x, y),):
        total = Total(population=source.population, factors=pair)
        # values in [low, high], shifted by the middle, have half the sensitivity
        total = replace(total, offset=sum(total.range) // 2)
        needs.statistics[total] += _ONE
        second.append(total)
    # by Cauchy-Schwarz and Popoviciu: a variance is at most a quarter of the squared range
    largest, scale = (x.last - x.first) * (y.last - y.first) / 4, x.step * y.step
    ends = (0.0 if kind in MOMENTS else -largest, largest)
    if kind is AggregateKind.CORRELATION:
        ends, scale = (-1.0, 1.0), _ONE
    return Moment(kind=kind, count=source.count, first=sums, second=tuple(second), ends=ends, scale=scale)


def _mean(total: Centred, count: Parts) -> Moment:
    """Return an average of the values that a sum around a centre adds up."""
    centre, scale = total.centre, total.factor.step
    return Moment(kind=AggregateKind.AVG, count=count, first=(total,), ends=total.ends, centre=centre, scale=scale)


def _sum(parts: Parts, factor: Factor) -> Linear:
    """Return a sum of a column's values, given on the column's own grid or the factor's, whichever is coarser."""
    grid = max(line(factor.expression.type)[2], factor.step)
    return Linear(parts=parts, grid=grid, rounding=ROUNDED * factor.step / 2 if factor.rounds else Fraction(0))


def _centred(argument: Expression, weight: Fraction, source: CountSource, needs: Needs, *, of_product: bool) -> Centred:
    """Return Σ(x-c) over the rows that are counted: from the halves that count them, or of its own."""
    noised = source.noised
    if isinstance(noised, Halves) and argument == noised.factor.expression:
        needs.statistics[noised] += 2 * weight
        # around the exact middle of the range: (Σ(x-l) + Σ(x-u))/2
        middle = Fraction(noised.factor.first + noised.factor.last, 2)
        return Centred(factor=noised.factor, centre=middle, parts=((noised.above, _HALF), (noised.below, _HALF)))
    factor = Factor.centred(argument, weighted=needs.weighted, of_product=of_product)
    total = Total(population=source.population, factors=(factor,))
    needs.statistics[total] += weight
    return Centred(factor=factor, centre=Fraction(factor.centre), parts=((total, _ONE),))


_ONE, _HALF, _QUARTER = Fraction(1), Fraction(1, 2), Fraction(1, 4)

_Weights = Mapping[Expression | None, Fraction]
"""How much answers depend on the sum of each argument, and, under None, on the number of rows."""


def _weights(aggregate: Aggregate) -> _Weights:
    kind, arguments = aggregate.kind, aggregate.arguments
    if kind is AggregateKind.COUNT:
        return {None: _ONE}
    if kind is AggregateKind.AVG:
        return {None: _QUARTER, arguments[0]: _ONE}
    if kind is AggregateKind.SUM:
        factor = Factor.centred(arguments[0])
        # weights relative to the largest value squared, (|c|+h)²: see the table above
        largest = max(abs(factor.first), abs(factor.last), 1) ** 2
        half = Total(population=Population(), factors=(factor,)).bound
        return {None: Fraction(factor.centre**2, largest), arguments[0]: Fraction(half * half, largest)}
    return dict.fromkeys((None, *arguments), _HALF if kind in MOMENTS else _QUARTER)


@dataclass(frozen=True, slots=True)
class CountSource:
    """The noisy statistic from which the number of rows of a population is taken."""

    noised: Count | Halves
    population: Population
    """The rows that are counted; sums that are divided by this count run over the very same."""
    count: Parts
    """The number of rows. Its variance is that of one noisy number, times the number of parts."""


def _sources(
    counted: Mapping[Population, Sequence[Aggregate]], *, weighted: bool
) -> dict[Population, CountSource | None]:
    """Return the source of the row count of each population; None where SUMs are taken from zero, without a count."""
    chosen: dict[Population, CountSource | None] = {}
    demands: dict[Population, defaultdict[Expression | None, Fraction]] = {}
    costs: dict[Population, int] = {}
    for population, aggregates in counted.items():
        weights = demands[population] = defaultdict(Fraction)
        # each sum from zero has weight 1, whose cube root is 1
        options: list[tuple[int, CountSource | None]] = [(len(aggregates) * _UNIT, None)]
        for aggregate in aggregates:
            for argument, weight in _weights(aggregate).items():
                weights[argument] += weight
            if aggregate.kind is not AggregateKind.SUM:
                options = []
        if not options:
            times = FINE if weighted and not population.everything else 1
            separate = Count(population=population, bound=times)
            options = [(_cost(weights), CountSource(separate, population, ((separate, Fraction(1, times)),)))]
        for argument in weights:
            halves = None if argument is None else Halves.of(population, argument, weighted=weighted)
            if halves is not None:
                options.append((_cost(weights, argument), CountSource(halves, population, halves.count())))
        # of sources that cost the same the first is taken
        costs[population], chosen[population] = min(options, key=itemgetter(0))
    for wider, wanted in demands.items():
        # the halves of one column that may be NULL may count all rows, if that costs less
        shared: list[tuple[int, dict[Population, CountSource]]] = [(0, {})]
        for population, weights in demands.items():
            if wider.not_null or population.where != wider.where or len(population.not_null) != 1:
                continue
            (argument,) = population.not_null
            if argument not in weights:
                continue
            halves = Halves.of(population, argument, weighted=weighted, wider=wider)
            if halves is not None:
                cost = _cost(weights, argument, others=wanted[None]) + _cost({**wanted, None: Fraction(0)})
                both = {
                    population: CountSource(halves, population, halves.count()),
                    wider: CountSource(halves, wider, halves.count(wider=True)),
                }
                shared.append((cost - costs[population] - costs[wider], both))
        chosen |= min(shared, key=itemgetter(0))[1]
    return chosen


_UNIT = 10**9  # costs are whole numbers: a tie must not depend on the last digits of cube roots


def _cost(weights: _Weights, halved: Expression | None = None, others: Fraction = Fraction(0)) -> int:
    """Return the cost Σw^{1/3}; where halves of one argument count the rows, and ``others`` of COUNT(*), with them."""
    terms = dict(weights)
    if halved is not None:
        terms[halved] = 2 * (terms[halved] + terms.pop(None)) + 3 * others
    return round(sum(map(math.cbrt, terms.values())) * _UNIT)
