"""Estimators: functions from the noisy statistics of a group to an answer.

They work on arrays of any shape, so the same function gives the answer and, fed with simulated noise, its error. What
is linear in the statistics (counts and sums) is kept as its factors instead, and computed exactly.

**Plausible truths** are what was released less fresh noise of the known laws. A sum Σ factor·statistic is linear: its
truth is Σ factor·released less Σ factor·noise, so each side is added up once, and only their difference is made for
every group and every draw (`Truths`). Groups are rows and draws are columns, next to each other in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.query.plan.draws import DrawnAggregate
from hush.query.plan.stability import Factor, Halves, Statistic, Total
from hush.query.question import AggregateKind

Floats = npt.NDArray[np.float64]
Groups = slice | npt.NDArray[np.int64]
"""A selection of groups, by their places."""
Values = Mapping[Statistic, Floats]
Parts = tuple[tuple[Statistic, Fraction], ...]
"""Statistics that are added up, each with its factor."""

MOMENTS = {AggregateKind.VARIANCE, AggregateKind.VARIANCE_POPULATION}
PAIRS = {AggregateKind.COVARIANCE, AggregateKind.COVARIANCE_POPULATION, AggregateKind.CORRELATION}
_SAMPLE = {AggregateKind.VARIANCE, AggregateKind.COVARIANCE}


def added(*pairs: tuple[Parts, Fraction]) -> Parts:
    """Return sums of parts, each times a factor, as parts: every statistic once."""
    factors: dict[Statistic, Fraction] = {}
    for parts, times in pairs:
        for statistic, factor in parts:
            factors[statistic] = factors.get(statistic, Fraction(0)) + factor * times
    return tuple((statistic, factor) for statistic, factor in factors.items() if factor)


def combined(values: Values, parts: Parts) -> Floats:
    """Return Σ factor·statistic."""
    (first, times), *further = parts
    total = values[first] * float(times)
    for statistic, factor in further:
        total = total + values[statistic] * float(factor)
    return np.asarray(total)


@dataclass(frozen=True, slots=True)
class Plausible:
    """Plausible true values in every group: many draws for each."""

    of: Callable[[Groups, slice], Floats]
    """Returns a slice of draws for some groups, one row per group; the slice starts at an even draw."""
    unknown: npt.NDArray[np.bool_] | None = None
    """Groups with too few rows to know anything, if their draws are the two ``ends`` by turns."""
    ends: tuple[float, float] = (0.0, 0.0)
    undefined: bool = False
    """Whether draws can be NaN, because the true value may be undefined."""


@dataclass(frozen=True, slots=True)
class Truths:
    """Plausible true values of Σ factor·statistic: one released number per group minus one noise value per draw."""

    released: Floats
    noise: Floats

    @classmethod
    def of_parts(cls, parts: Parts, released: Values, noise: Values) -> Truths:
        """Return the plausible true values of Σ factor·statistic."""
        return cls(combined(released, parts), combined(noise, parts))

    def __call__(self, groups: Groups, draws: slice) -> Floats:
        """Return some draws for some groups, a row each."""
        return np.asarray(self.released[groups][:, None] - self.noise[draws])


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
        return Plausible(Truths.of_parts(self.parts, released, noise))

    def widened(self, half_width: Fraction) -> Fraction:
        """Return the half-width of the answers, given that of the noise, in which they move by half a step at most.

        Where the truth t lies on the grid, noise z below (k + 1/2)·grid moves the answer k steps away or less.
        """
        half_width += self.rounding
        # the answer is on the grid already: nothing is rounded
        if all((factor / self.grid).denominator == 1 for _, factor in self.parts):
            return half_width
        widened = half_width + self.grid / 2
        return widened // self.grid * self.grid if self.counts else widened


@dataclass(frozen=True, slots=True, kw_only=True)
class Centred:
    """Σ(x-c) in the steps of a factor: a total of its own, or the mean of two halves."""

    factor: Factor
    centre: Fraction
    parts: Parts

    @classmethod
    def of_total(cls, total: Total) -> Centred:
        """Return the centred sum of a total."""
        factor = total.factors[0]
        return cls(factor=factor, centre=Fraction(factor.centre), parts=((total, Fraction(1)),))

    @classmethod
    def of_halves(cls, halves: Halves) -> Centred:
        """Return the sum around the exact middle of the range: (Σ(x-l) + Σ(x-u))/2."""
        half = Fraction(1, 2)
        middle = Fraction(halves.factor.first + halves.factor.last, 2)
        return cls(factor=halves.factor, centre=middle, parts=((halves.above, half), (halves.below, half)))

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest difference from the centre."""
        return float(self.factor.first - self.centre), float(self.factor.last - self.centre)


def ratio(sums: Floats, counts: Floats) -> Floats:
    """Return sums over counts, where a count below 1 is taken as 1."""
    return np.asarray(sums / np.maximum(counts, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """c + Σ(x-c)/n, kept within the public bounds."""

    total: Centred
    count: Parts

    def evaluate(self, values: Values) -> Floats:
        """Return the answers."""
        raw = ratio(combined(values, self.total.parts), combined(values, self.count))
        return self._answer(np.clip(raw, *self.total.ends))

    def plausible(self, released: Values, noise: Values) -> Plausible:
        """Return plausible true values; see `around`."""
        low, high = self.total.ends
        sums = Truths.of_parts(self.total.parts, released, noise)
        counts = Truths.of_parts(self.count, released, noise)
        answers = ratio(sums.released, counts.released)
        # a count below 1/2 rounds to 0: the group may be empty, and then has no mean
        unknown = counts.released < 0.5
        rounding = 0.5 if self.total.factor.rounds else 0.0  # in steps, as everything before `_answer`

        def of(groups: Groups, draws: slice) -> Floats:
            truths = around(ratio(sums(groups, draws), counts(groups, draws)), answers[groups], low, high)
            if rounding:
                # rounding to the grid moves the mean by half a step at most: away from the answer is the worst case
                truths += rounding * np.where(truths < np.clip(answers[groups], low, high)[:, None], -1, 1)
            return self._answer(unless_empty(truths, unknown[groups], low, high))

        return Plausible(of, unknown, (float(self._answer(np.array(low))), float(self._answer(np.array(high)))))

    def _answer(self, raw: Floats) -> Floats:
        centre, step = float(self.total.centre), float(self.total.factor.step)
        return np.asarray((centre + raw) * step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Variance, covariance or correlation from centred sums of products."""

    kind: AggregateKind
    count: Parts
    first: tuple[Centred, ...]
    """Σ(x-c) for each argument. The centre and the grid may be others than those of the products."""
    second: tuple[Total, ...]
    """Σ of (x-c)(y-c) for (x,x), or (x,y), or (x,y), (x,x), (y,y)."""

    def evaluate(self, values: Values) -> Floats:
        """Return the answers; NaN where a correlation is undefined."""
        n = np.maximum(combined(values, self.count), 1)
        sums = (combined(values, total.parts) for total in self.first)
        return self._answer(self._raw()(n, sums, (values[product].copy() for product in self.second)), n)

    def plausible(self, released: Values, noise: Values) -> Plausible:
        """Return plausible true values; see `around`."""
        counts = Truths.of_parts(self.count, released, noise)
        sums = [Truths.of_parts(total.parts, released, noise) for total in self.first]
        products = [Truths(released[product], noise[product]) for product in self.second]
        needed = 2 if self.kind in _SAMPLE or self.kind is AggregateKind.CORRELATION else 1
        # a sample variance or a correlation needs two rows
        unknown = counts.released < needed - 0.5
        (low, high), raw = self._range, self._raw()
        answers = raw(
            np.maximum(counts.released, 1),
            (each.released.copy() for each in sums),
            (each.released.copy() for each in products),
        )

        def of(groups: Groups, draws: slice) -> Floats:
            n = counts(groups, draws)
            np.maximum(n, 1, out=n)
            truths = raw(n, (each(groups, draws) for each in sums), (each(groups, draws) for each in products))
            if self.kind in MOMENTS:
                truths = around(truths, answers[groups], low, high)
            return self._answer(unless_empty(truths, unknown[groups], low, high), n)

        if self.kind in _SAMPLE:  # the ends depend on the number of rows
            return Plausible(of)
        each = np.ones(())
        ends = float(self._answer(each * low, each)), float(self._answer(each * high, each))
        return Plausible(of, unknown, ends, undefined=self.kind is AggregateKind.CORRELATION)

    @property
    def _factors(self) -> tuple[Factor, Factor]:
        return self.second[0].factors[0], self.second[0].factors[1]

    @property
    def _range(self) -> tuple[float, float]:
        """The least and the largest result there can be: a variance is at most a quarter of the squared range."""
        if self.kind is AggregateKind.CORRELATION:
            return -1.0, 1.0
        x, y = self._factors
        largest = (x.last - x.first) * (y.last - y.first) / 4
        return (0.0 if self.kind in MOMENTS else -largest), largest

    def _mean(self, total: Centred, factor: Factor) -> Callable[[Floats, Floats], Floats]:
        """Return a function (sums, n) → mean of x around a product factor's centre, in that factor's steps."""
        exact = total.factor.step / factor.step
        times, shift = float(exact), float(total.centre * exact - factor.centre)
        low, high = (float(end) for end in factor.ends)

        def mean(sums: Floats, n: Floats) -> Floats:
            sums /= n
            if times != 1:
                sums *= times
            if shift:
                sums += shift
            return np.clip(sums, low, high, out=sums)

        return mean

    def _raw(self) -> Callable[[Floats, Iterator[Floats], Iterator[Floats]], Floats]:
        """Return a function (counts ≥ 1, sums, products) → estimate, before clipping.

        Sums and products are made when they are needed and changed in place, so that few are in memory at a time.
        """
        means = [self._mean(total, factor) for total, factor in zip(self.first, self._factors, strict=False)]
        offsets = [float(product.offset) for product in self.second]

        def raw(n: Floats, sums: Iterator[Floats], products: Iterator[Floats]) -> Floats:
            def central(offset: float, both: Floats) -> Floats:
                found = next(products)
                found /= n
                found += offset
                found -= both
                return found

            found = [mean(each, n) for mean, each in zip(means, sums, strict=True)]
            x, y = found[0], found[-1]
            result = central(offsets[0], x * y)
            if self.kind is not AggregateKind.CORRELATION:
                return result
            x *= x
            y *= y
            spread = central(offsets[1], x)
            np.maximum(spread, 0, out=spread)
            spread *= np.maximum(central(offsets[2], y), 0, out=y)
            # without spread in x or y a correlation is undefined
            np.copyto(spread, np.nan, where=spread == 0)
            np.sqrt(spread, out=spread)
            result /= spread
            return np.clip(result, -1, 1, out=result)

        return raw

    def _answer(self, raw: Floats, n: Floats) -> Floats:
        if self.kind is AggregateKind.CORRELATION:
            return raw
        x, y = self._factors
        scale = float(x.step * y.step)
        result = np.clip(raw, *self._range) if self.kind in MOMENTS else raw
        if self.kind in _SAMPLE:
            # Bessel's correction
            result = result * n / np.maximum(n - 1, 1)
        return np.asarray(result * scale)


def around(plausible: Floats, released: Floats, low: float, high: float) -> Floats:
    """Shift plausible truths (one row per group) along with an answer clipped to its public range, and clip them.

    Moving the answer brings it closer to the truth, which lies in the range, but takes nothing from the noise: the
    plausible truths move along with it. Where they were cut at the range instead, an answer far outside of it would
    look sure.
    """
    plausible += (np.clip(released, low, high) - released)[:, None]
    return np.clip(plausible, low, high, out=plausible)


def unless_empty(plausible: Floats, unknown: npt.NDArray[np.bool_], low: float, high: float) -> Floats:
    """Put both ends of the public range, by turns, into the rows of groups that have fewer rows than are needed.

    Of no rows there is no truth, and however little noise there is, nothing is known of it.
    """
    if unknown.any():
        plausible[unknown, 0::2] = low
        plausible[unknown, 1::2] = high
    return plausible


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A choice by the exponential mechanism."""

    choice: DrawnAggregate
    number: int
    """Its place among the plan's picks."""


Estimator = Linear | Mean | Moment | Drawn
