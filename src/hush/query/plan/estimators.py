"""Estimators: functions from the noisy statistics of a group to an answer.

They work on arrays of any shape, so the same function gives the answer and, fed with simulated noise, its error. What
is linear in the statistics (counts and sums) is kept as its factors instead, and computed exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.query.plan.choices import Choice
from hush.query.plan.statistics import Factor, Halves, Statistic, Total
from hush.query.question import AggregateKind

Floats = npt.NDArray[np.float64]
Values = Mapping[Statistic, Floats]
Parts = tuple[tuple[Statistic, Fraction], ...]
"""Statistics that are added up, each with its factor."""

MOMENTS = {
    AggregateKind.VARIANCE,
    AggregateKind.VARIANCE_POPULATION,
    AggregateKind.STDDEV,
    AggregateKind.STDDEV_POPULATION,
}
PAIRS = {AggregateKind.COVARIANCE, AggregateKind.COVARIANCE_POPULATION, AggregateKind.CORRELATION}
_SAMPLE = {AggregateKind.VARIANCE, AggregateKind.STDDEV, AggregateKind.COVARIANCE}
_ROOTS = {AggregateKind.STDDEV, AggregateKind.STDDEV_POPULATION}


def added(*pairs: tuple[Parts, Fraction]) -> Parts:
    """Return sums of parts, each times a factor, as parts: every statistic once."""
    found: dict[Statistic, Fraction] = {}
    for parts, times in pairs:
        for statistic, factor in parts:
            found[statistic] = found.get(statistic, Fraction(0)) + factor * times
    return tuple((statistic, factor) for statistic, factor in found.items() if factor)


def combined(values: Values, parts: Parts) -> Floats:
    """Return Σ factor·statistic."""
    (first, times), *others = parts
    found = values[first] * float(times)
    for statistic, factor in others:
        found = found + values[statistic] * float(factor)
    return np.asarray(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A count or sum: Σ factor·statistic, moved to the nearest multiple of ``grid``."""

    parts: Parts
    grid: Fraction = Fraction(1)
    counts: bool = False
    """Whether it is a number of rows or units. Then the truth lies on the grid, too."""

    def evaluate(self, values: Values) -> Floats:
        """Return the answers, as they are before they are moved to the grid."""
        return combined(values, self.parts)

    def widened(self, half_width: Fraction) -> Fraction:
        """Return the half-width of the answers, given that of the noise, in which they move by half a step at most.

        Where the truth t lies on the grid, noise z below (k + 1/2)·grid moves the answer k steps away or less.
        """
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
        """Return the sum that a total is."""
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

    def mean(self, values: Values, count: Parts) -> Floats:
        """Return the mean difference from the centre; as if of one row where there are fewer."""
        return np.asarray(combined(values, self.parts) / np.maximum(combined(values, count), 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """c + Σ(x-c)/n, kept within the public bounds."""

    total: Centred
    count: Parts

    def evaluate(self, values: Values) -> Floats:
        """Return the answers."""
        return self._answer(self.total.mean(values, self.count))

    def plausible(self, values: Values, released: Values) -> Floats:
        """Return what the truth may be if ``values`` is what the statistics may be; see `around`."""
        low, high = self.total.ends
        found = around(self.total.mean(values, self.count), self.total.mean(released, self.count), low, high)
        return self._answer(unless_empty(found, combined(released, self.count), 1, low, high))

    def _answer(self, raw: Floats) -> Floats:
        centre, step = float(self.total.centre), float(self.total.factor.step)
        return np.asarray((centre + np.clip(raw, *self.total.ends)) * step)


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
        return self._answer(self._raw(values), values)

    def plausible(self, values: Values, released: Values) -> Floats:
        """Return what the truth may be if ``values`` is what the statistics may be; see `around`."""
        raw = self._raw(values)
        low, high = self._range
        if self.kind in MOMENTS:
            raw = around(raw, self._raw(released), low, high)
        needed = 2 if self.kind in _SAMPLE or self.kind is AggregateKind.CORRELATION else 1
        return self._answer(unless_empty(raw, combined(released, self.count), needed, low, high), values)

    @property
    def _factors(self) -> tuple[Factor, Factor]:
        return self.second[0].factors[0], self.second[0].factors[1]

    @property
    def _range(self) -> tuple[float, float]:
        """The least and the largest result there can be: a variance is at most a quarter of the squared range."""
        if self.kind is AggregateKind.CORRELATION:
            return -1.0, 1.0
        x, y = self._factors
        most = (x.last - x.first) * (y.last - y.first) / 4
        return (0.0 if self.kind in MOMENTS else -most), most

    def _mean(self, values: Values, total: Centred, factor: Factor) -> Floats:
        """Return the mean difference from the centre of a product's factor, in its steps."""
        ratio = total.factor.step / factor.step
        shift = float(total.centre * ratio - factor.centre)
        return np.clip(total.mean(values, self.count) * float(ratio) + shift, *factor.ends)

    def _raw(self, values: Values) -> Floats:
        n = np.maximum(combined(values, self.count), 1)
        x, y = (
            self._mean(values, total, factor)
            for total, factor in zip((self.first[0], self.first[-1]), self._factors, strict=True)
        )

        def central(product: Total, x: Floats, y: Floats) -> Floats:
            return np.asarray(values[product] / n + product.offset - x * y)

        result = central(self.second[0], x, y)
        if self.kind is AggregateKind.CORRELATION:
            spread = np.maximum(central(self.second[1], x, x), 0) * np.maximum(central(self.second[2], y, y), 0)
            with np.errstate(all="ignore"):
                return np.clip(np.where(spread > 0, result / np.sqrt(spread), np.nan), -1, 1)
        return result

    def _answer(self, raw: Floats, values: Values) -> Floats:
        if self.kind is AggregateKind.CORRELATION:
            return raw
        x, y = self._factors
        scale = float(x.step * y.step)
        result = np.clip(raw, *self._range) if self.kind in MOMENTS else raw
        if self.kind in _SAMPLE:
            n = np.maximum(combined(values, self.count), 1)
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


Estimator = Linear | Mean | Moment | Picked
