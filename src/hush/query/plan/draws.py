"""Choices: answers that are picked, not perturbed (quantiles, MIN, MAX, MODE), and the histograms they are picked from.

The engine gives each group's exact *histogram*: how much weight falls on each public bin. The mechanisms that pick, and
what they cost, are `hush.mechanisms.grouped.quantile` and `hush.mechanisms.grouped.mode`. A quantile needs its
histogram point by point only near the target: an engine counts in at most 2²⁰ bins, and again, in finer cells, in bins
near it.

**How they are paid for.** A `Draw` is a mechanism with the choices that it makes. One choice is a draw of the
exponential mechanism in every group. Of a list of quantiles of one column all may be read off one noisy distribution
(`hush.mechanisms.grouped.distribution`), whose error does not grow with the list.

A draw that costs ε₀ has bounded range ε₀, hence is ε₀²/8-zCDP (Cesar, Rogers 2021). So n draws that a unit has a part
in, one a group and choice, cost n·ε₀ where only ε counts, and n·ε₀²/8 where the account takes Gaussian noise: with ρ
the zCDP of (ε,δ) each may cost ε₀ = √(8ρ/n) instead of ε/n, which is more from n = ε²/(8ρ) on, about 5. A unit that is
replaced changes the scores of a group twice, within 2·ε₀ where it does so in one group: groups·(2ε₀)²/8 is the most.
Which of all these is taken depends on the question and the price alone: the least sum of squared errors, in rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hush.mechanisms import grouped
from hush.query.expressions import Expression
from hush.query.plan.stability import Factor, Limits, Population, Units
from hush.query.question import AggregateKind
from hush.query.types import Value

DRAWN = {AggregateKind.QUANTILE, AggregateKind.MIN, AggregateKind.MAX, AggregateKind.MODE}
"""Aggregates that are picked from a histogram."""
MAX_BINS = 2**20
WEIGHT = 2**20
MAX_DENOMINATOR = 10**4
_ROOT = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class LineHistogram:
    """Weight in bins of ``width`` neighbouring grid indices; bin 0 begins at the factor's first index.

    Bins near the target are counted in cells of ``cell`` grid indices; width is a multiple of that.
    """

    population: Population
    factor: Factor
    width: int
    cell: int

    @classmethod
    def of(cls, population: Population, expression: Expression) -> LineHistogram:
        """Return the finest histogram of at most 2²⁰ bins, each of at most 2²⁰ cells."""
        factor = Factor.raw(expression)
        points = factor.last - factor.first + 1
        width = -(-points // MAX_BINS)
        cell = -(-width // MAX_BINS)
        return cls(population=population, factor=factor, width=-(-width // cell) * cell, cell=cell)

    @property
    def expression(self) -> Expression:
        """The expression with the values that are counted."""
        return self.factor.expression

    @property
    def points(self) -> int:
        """How many grid points there are."""
        return self.factor.last - self.factor.first + 1

    @property
    def refined(self) -> bool:
        """Whether bins near the target are counted again, more finely."""
        return self.cell < self.width


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueHistogram:
    """Weight of each of a public list of values; bin i is ``values[i]``."""

    population: Population
    expression: Expression
    values: Sequence[Value]


Histogram = LineHistogram | ValueHistogram


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnAggregate:
    """One pick in every group."""

    kind: AggregateKind
    histogram: Histogram
    fraction: Fraction = Fraction(0)
    """Which quantile it is: 0 for MIN, and 1 for MAX."""

    def weight(self, limits: Limits) -> int:
        """Return W, the weight of a row that is not weighted down."""
        return 1 if limits.units is Units.ALONE else WEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A mechanism, and the choices that it makes from one histogram."""

    confidences: Mapping[DrawnAggregate, float]
    """The choices, one or several quantiles of one column, each with how often its interval holds."""
    histogram: Histogram
    """The bins that are counted; for several quantiles without the finer cells of a single one."""
    mechanism: grouped.GroupedQuantile | grouped.GroupedMode | grouped.GroupedDistribution
    epsilon: Fraction
    """The share of the question's ε for these choices."""

    @property
    def choices(self) -> tuple[DrawnAggregate, ...]:
        """The choices, in the order of the question."""
        return tuple(self.confidences)

    def rows_off(self, choice: DrawnAggregate) -> float:
        """Return the expected error of a choice, in rows."""
        if isinstance(self.mechanism, grouped.GroupedDistribution):
            return self.mechanism.error(choice.fraction, self.confidences[choice])
        return self.mechanism.error(self.confidences[choice])

    def rows_needed(self, choice: DrawnAggregate) -> float:
        """Return the number of rows with which a quantile is known for any data."""
        assert not isinstance(self.mechanism, grouped.GroupedMode)  # noqa: S101 - the caller asks of quantiles
        if isinstance(self.mechanism, grouped.GroupedDistribution):
            return self.mechanism.rows_needed(choice.fraction, self.confidences[choice])
        return self.mechanism.rows_needed()

    def error(self) -> float:
        """Return the sum of squared errors, in rows."""
        return math.fsum(self.rows_off(choice) ** 2 for choice in self.confidences)


def planned_draws(
    shares: Mapping[DrawnAggregate, Fraction],
    confidences: Mapping[DrawnAggregate, float],
    alone: Collection[object],
    bounds: Limits,
    rho: Fraction | None = None,
) -> tuple[Draw, ...]:
    """Return how choices with their ``shares`` of ε are made: for pure ε, or for the ρ of zCDP that implies (ε,δ).

    Quantiles of one column are read off one distribution where that is better, but for those that need noise of their
    own (``alone``), because others are compared or computed with them.
    """
    rows, contribution = bounds.rows, bounds.contribution
    draws: dict[DrawnAggregate, Draw] = {}
    lists: dict[LineHistogram, list[DrawnAggregate]] = {}
    for choice, share in shares.items():
        # the ρ of all choices adds up, so each gets an equal part; of that, a draw in one group has bounded range
        # ε/groups, hence is (ε/groups)²/8-zCDP: ε = √(8·groups·ρ), rounded down
        epsilon, histogram, weight = share, choice.histogram, choice.weight(bounds)
        if rho is not None:
            squared = 8 * bounds.groups * rho / len(shares)
            epsilon = Fraction(math.isqrt(math.floor(squared * _ROOT**2)), _ROOT)
        mechanism: grouped.GroupedQuantile | grouped.GroupedMode
        if isinstance(histogram, LineHistogram):
            mechanism = grouped.GroupedQuantile(
                fraction=choice.fraction,
                points=histogram.points,
                epsilon=epsilon,
                confidence=confidences[choice],
                cell=histogram.cell,
                row_weight=weight,
                rows=rows,
                contribution=contribution,
            )
            if choice.kind is AggregateKind.QUANTILE and choice not in alone:
                lists.setdefault(histogram, []).append(choice)
        else:
            mechanism = grouped.GroupedMode(
                values=len(histogram.values), epsilon=epsilon, row_weight=weight, rows=rows, contribution=contribution
            )
        draws[choice] = Draw(
            confidences={choice: confidences[choice]}, histogram=histogram, mechanism=mechanism, epsilon=share
        )
    for histogram, choices in lists.items():
        if len(choices) == 1:
            continue
        # one noisy distribution at the price of the separate draws; it counts whole bins, so finer cells are of no use
        epsilon = sum((shares[choice] for choice in choices), Fraction(0))
        distribution = grouped.GroupedDistribution(
            bins=-(-histogram.points // histogram.width),
            rho=None if rho is None else rho * len(choices) / len(shares),
            laplace=epsilon if rho is None else None,
            points=histogram.points,
            cell=histogram.width,
            row_weight=choices[0].weight(bounds),
            rows=rows,
            contribution=contribution,
        )
        together = Draw(
            confidences={choice: confidences[choice] for choice in choices},
            histogram=replace(histogram, cell=histogram.width),
            mechanism=distribution,
            epsilon=epsilon,
        )
        if together.error() < math.fsum(draws[choice].error() for choice in choices):
            # in the place of the first, so that the order of draws follows the question
            draws[choices[0]] = together
            for choice in choices[1:]:
                del draws[choice]
    return tuple(draws.values())
