"""Choices: answers that are picked, not perturbed (quantiles, MIN, MAX, MODE), and the histograms they are picked from.

The engine gives each group's exact *histogram*: how much weight falls on each public bin. The mechanisms that pick, and
what they cost, are `hush.mechanisms.grouped.quantile` and `hush.mechanisms.grouped.mode`. A quantile needs its
histogram point by point only near the target: an engine counts in at most 2²⁰ bins, and again, in finer cells, in bins
near it. A `Pick` is a choice with the mechanism that makes it: one draw of the exponential mechanism in every group.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from hush.accounting.events import Event
from hush.mechanisms.grouped import GroupedMode, GroupedQuantile
from hush.query.expressions import Expression
from hush.query.plan.errors import UnplannableError
from hush.query.plan.limits import Limits, Units
from hush.query.plan.statistics import Factor, Population
from hush.query.types import Value

MAX_BINS = 2**20
WEIGHT = 2**20
MAX_DENOMINATOR = 10**4


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
    values: tuple[Value, ...]


Histogram = LineHistogram | ValueHistogram


class ChoiceKind(Enum):
    """What is picked."""

    QUANTILE = "quantile"
    MIN = "min"
    MAX = "max"
    MODE = "mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One pick in every group."""

    kind: ChoiceKind
    histogram: Histogram
    fraction: Fraction | None = None

    def __post_init__(self) -> None:
        if self.fraction is not None and not (0 < self.fraction < 1 and self.fraction.denominator <= MAX_DENOMINATOR):
            raise UnplannableError(
                f"a quantile's fraction must lie between 0 and 1, with at most 4 decimals; got {self.fraction}"
            )

    def weight(self, limits: Limits) -> int:
        """Return W, the weight of a row that is not weighted down."""
        return 1 if limits.units is Units.ALONE else WEIGHT

    def unit_weight(self, limits: Limits) -> int:
        """Return M, the most that one unit weighs in one group."""
        return self.weight(limits) * limits.rows

    @property
    def quantile(self) -> Fraction:
        """Which quantile it is: 0 for MIN and 1 for MAX."""
        if self.fraction is not None:
            return self.fraction
        return Fraction(0) if self.kind is ChoiceKind.MIN else Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A choice and the mechanism that makes it."""

    choice: Choice
    mechanism: GroupedQuantile | GroupedMode
    confidence: float
    """How often its interval holds."""

    @classmethod
    def of(cls, choice: Choice, epsilon: Fraction, bounds: Limits, confidence: float) -> Pick:
        """Return how a choice is protected at a price, with intervals of a confidence."""
        histogram, weight = choice.histogram, choice.weight(bounds)
        mechanism: GroupedQuantile | GroupedMode
        if isinstance(histogram, LineHistogram):
            mechanism = GroupedQuantile(
                fraction=choice.quantile,
                points=histogram.points,
                epsilon=epsilon,
                confidence=confidence,
                cell=histogram.cell,
                row_weight=weight,
                rows=bounds.rows,
                contribution=bounds.contribution,
            )
        else:
            mechanism = GroupedMode(
                values=len(histogram.values),
                epsilon=epsilon,
                row_weight=weight,
                rows=bounds.rows,
                contribution=bounds.contribution,
            )
        return cls(choice=choice, mechanism=mechanism, confidence=confidence)

    @property
    def epsilon(self) -> Fraction:
        """What the choice takes of the question's ε."""
        return self.mechanism.epsilon

    @property
    def event(self) -> Event:
        """What an accountant needs."""
        return self.mechanism.event
