r"""Choices: answers that are picked, not perturbed — quantiles, MIN, MAX, MODE — by the exponential mechanism.

The engine gives each group's exact *histogram*: how much weight falls on each public bin. A row weighs ⌊W·min(1,
rows/n)⌋ for a unit with n rows in the group, so a unit's weight in a group is at most M = W·rows, whatever its rows
are (n·⌊W·rows/n⌋ ≤ W·rows).

With L the weight below a candidate y, U the weight up to and on it and T all of it, candidate y has the score

    -max(b·L - t, t - b·U, 0), at least -C:

how far y is from the target t. It is drawn with probability proportional to m(y)·e^{rate·score(y)}; m is 1 for a grid
point.

* **quantile** p = a/b: t = a·T. A unit of weight w ≤ M moves the first term by (b-a)·w or -a·w, the second by a·w or
  -(b-a)·w or less, so the score changes by at most max(a, b-a)·M, up or down;
* **MIN** is the value of a low rank r, or of the middle rank if there are fewer than 2r: b = 1, t = min(r, ⌊T/2⌋). A
  unit moves t between 0 and w, as L and U: the score changes by at most M. **MAX** likewise, t = T - min(r, ⌊T/2⌋).
  r is chosen from ε and the number of grid points alone, so large that the empty part of the range hardly ever wins;
* **MODE**: score = the weight of the value; a unit that comes only raises scores, by at most M.

If scores change within an interval of length S when one unit comes or goes, log-probabilities change within an
interval of length rate·S: the mechanism has *bounded range* ε = rate·S (Durfee, Rogers 2019), hence is ε-DP. S is
2·max(a, b-a)·M, 2M and M. A unit touches at most ``groups`` groups, so rate = ε/(S·groups·touched).

**The cut.** max(·, -C) moves no score by more than it moved before. C is public, and so large that all points beyond
weigh e⁻²⁰ of one at the target. What lies that far off need not be known exactly: the engine counts in at most 2²⁰
bins, and counts again, in cells 2²⁰ times finer (single grid points, if there are no more than 2⁴⁰), only in bins that
reach within C of a target. So the law is that of the whole grid, from one statement that returns few rows.

**Two draws, one interval.** The lower one aims at t - k, the upper at t + k, half of ε each; the answer is the middle
between them, and half their distance is the half-width. Let v be the weight of a row in scores, r = e^{-rate·v}, and
let there be about as many grid points between any two neighbouring values around the target. Then a draw falls between
the j-th value and the next with probability proportional to r^{|j - t'/v|}, t' what it aims at. The value sought is
number ⌈t/v⌉ = t/v + g, 0 ≤ g < 1. The lower draw misses it with probability r^{k/v+g}/(r^g + r^{1-g}), the upper one
with r^{k/v+1-g}/(r^g + r^{1-g}), if k is a multiple of v: together r^{k/v}, whatever g is. So k = v·⌈ln(20)/(rate·v)⌉
makes 95 % or a little more, whatever the density of the data, which nobody needs to know. Distances between values
that differ at random make it a little less on average and much less on some data, so half a row is added. Compared
with one draw at all of ε the middle errs √2 times as much. Where r ≤ e⁻⁴⁰ both aim at t itself: the answer is a
p-quantile, of which there may be many.

**Few rows.** Two further candidates stand for "below all points" and "above all points", each with m = 20 times the
number of points. Where there are too few rows for the score to matter a draw falls on one of them, not anywhere: the
lower draw below and the upper above, or on wrong sides; the interval is everything then.
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
END_WEIGHT = 20
"""How many times as much as all points together "below all" and "above all" weigh."""
_ONE_IN = 20
"""One interval in so many misses."""
_CUT = 20.0
_SURE = 40
"""Draws that are off by a row with probability e⁻⁴⁰ or less aim at the target itself."""


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
    def draws(self) -> int:
        """How many draws share ε: two for an interval, one for a value of a list."""
        return 1 if self.kind is ChoiceKind.MODE else 2

    @property
    def denominator(self) -> int:
        """The factor of L and U in the score."""
        return 1 if self.fraction is None else self.fraction.denominator

    def spread(self, rate: Fraction, limits: Limits) -> int:
        """Return k, how far from the target the two draws aim. Public."""
        row = self.denominator * self.weight(limits)
        if rate * row >= _SURE:
            return 0
        return row * max(1, math.ceil(math.log(_ONE_IN) / float(rate * row))) + row // 2

    def cut(self, rate: Fraction) -> int:
        """Return C: the distance at which all candidates together weigh e⁻²⁰. Public."""
        return math.ceil((math.log(2 * END_WEIGHT + 1) + self._log_points + _CUT) / float(rate))

    def rank(self, rate: Fraction, limits: Limits) -> int:
        """Return r for MIN and MAX: at r - k what lies beyond wins against a single point once in 40 times. Public."""
        beyond = self._log_points + math.log(END_WEIGHT) + math.log(2 * _ONE_IN)
        return math.ceil(beyond / float(rate)) + self.spread(rate, limits)

    @property
    def _log_points(self) -> float:
        assert isinstance(self.histogram, LineHistogram)  # noqa: S101 - values of a list have no ranks
        return math.log(self.histogram.points)
