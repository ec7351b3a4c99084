r"""Choices: answers that are picked, not perturbed — quantiles, MIN, MAX, MODE — by the exponential mechanism.

The engine gives each group's exact *histogram*: how much weight falls on each public bin. A row weighs
⌊W·min(1, rows/n)⌋ for a unit with n rows in the group, so a unit's weight in a group is at most M = W·rows, whatever its
rows are (n·⌊W·rows/n⌋ ≤ W·rows).

With L the weight below a candidate t, W the weight on it, A the weight above it and T all of it, candidate t is drawn with
probability proportional to e^{rate·score(t)}:

* **quantile** p = a/b: score = -max(b·L - a·T, a·T - b·(L+W), 0), zero where t is a p-quantile. A unit of weight w ≤ M
  moves the first term by (b-a)·w or -a·w, the second by a·w or -(b-a)·w or less, so the score changes by at most
  max(a, b-a)·M, up or down;
* **MIN** is the value of a low rank r: score = -max(L - r, r - (L+W), 0), which changes by at most M. **MAX** likewise from
  above. r is chosen from ε and the number of bins alone, large enough that the empty part of the range hardly ever
  wins;
* **MODE**: score = the weight of the value; a unit that comes only raises scores, by at most M.

If scores change within an interval of length S when one unit comes or goes, log-probabilities change within an
interval of length rate·S: the mechanism has *bounded range* ε = rate·S (Durfee, Rogers 2019), hence is ε-DP. S is
2·max(a, b-a)·M, 2M and M. A unit touches at most ``groups`` groups, so rate = ε/(S·groups·touched).

**Error bars** for quantiles are bought with a part of ε. Where values are locally evenly spread, the rank of the
answer is off by a two-sided exponential error of scale 1/rate, so off by more than τ = ln(20)/rate with probability 5 %.
How wide τ is in the column's own units depends on the density of the data, which is private: two further quantiles are
drawn, ±K away from the target rank, K = 10 of *their* error scales; half the distance between them times τ/K is the
half-width. MIN and MAX have one such flank, on the inner side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from hush.query.expressions import Expression
from hush.query.plan.errors import UnplannableError
from hush.query.plan.limits import Limits, Units
from hush.query.plan.statistics import Factor, Population
from hush.query.types import Value

MAX_BINS = 2**20
WEIGHT = 2**20
MAX_DENOMINATOR = 10**4
FLANK_SHARE = Fraction(1, 5)
FLANK_SCALES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LineHistogram:
    """Weight in bins of ``width`` neighbouring grid indices; bin 0 begins at the factor's first index."""

    population: Population
    factor: Factor
    width: int

    @classmethod
    def of(cls, population: Population, expression: Expression) -> LineHistogram:
        """Return the finest histogram of at most 2²⁰ bins."""
        factor = Factor.raw(expression)
        points = factor.last - factor.first + 1
        return cls(population=population, factor=factor, width=-(-points // MAX_BINS))

    @property
    def points(self) -> int:
        """How many grid points there are."""
        return self.factor.last - self.factor.first + 1

    @property
    def bins(self) -> int:
        """How many bins there are; the last may be narrower."""
        return -(-self.points // self.width)


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

    def span(self, limits: Limits) -> int:
        """Return S: the length of the interval in which all scores change when one unit comes or goes."""
        most = self.unit_weight(limits)
        if self.kind is ChoiceKind.MODE:
            return most
        if self.fraction is not None:
            a, b = self.fraction.numerator, self.fraction.denominator
            return 2 * max(a, b - a) * most
        return 2 * most

    def rate(self, epsilon: Fraction, limits: Limits) -> Fraction:
        """Return the rate at which all groups together are ε-DP."""
        return epsilon / (self.span(limits) * limits.cells)

    @property
    def flanks(self) -> int:
        """How many further quantiles are drawn for the error bar."""
        return {ChoiceKind.QUANTILE: 2, ChoiceKind.MODE: 0}.get(self.kind, 1)

    def shares(self) -> tuple[Fraction, Fraction]:
        """Return the parts of ε that buy the answer, and each of its flanks."""
        return 1 - self.flanks * FLANK_SHARE, FLANK_SHARE

    def rank_offset(self, rate: Fraction) -> int:
        """Return r for MIN and MAX: where e^{-rate·r} times all grid points is small. Public."""
        assert isinstance(self.histogram, LineHistogram)  # noqa: S101 - extremes lie on a line
        return math.ceil((math.log(self.histogram.points) + 3) / float(rate))
