r"""Statistics: the few exact integers a group that all aggregates are made from.

A statistic is a sum over the rows of its *population* (rows that pass the aggregate's FILTER and whose arguments are
not NULL) of an integer that lies in [-bound, bound] for every row there could be:

    Count       1                                                       bound 1
    Total       ∏ (index(x_j) - centre_j) - offset                      bound by its corners, see `Total.bound`

where index(x) = x/step, rounded and clamped between two public integers. Where units may be weighted down, and their
sums truncated, the step is a fraction of the column's own: 2²⁰ steps or more, so that what is cut off hardly matters.
Distinct units and distinct values are counted apart; both count something a unit can add at most once (units) or
``rows`` times (values).

**Averages** need Σx and n, and take them from two `Halves`, a = Σ(x-l) and b = Σ(x-u) for bounds l < u of width w: n =
(a-b)/w, and the mean is the middle plus (a+b)/2n. A row adds x-l to the one and takes u-x from the other, w altogether
in ℓ₁: both together have the sensitivity of one, so neither has to share ε. With Laplace noise of variance v on a/w
and b/w the mean errs by v·(2h² + 2d²)/n² in variance, where h = w/2 and d is how far the mean is from the middle; a sum
around the middle and a count, with half of ε each, by twice that, whatever d is. (The split that is best for a known d
errs by v·(h^{2/3} + d^{2/3})³/n², which is less only for d below h/7.) A sum in the same question is a + l·n; another
mean there is c + Σ(x-c)/n around the middle c of its own bounds with this n.

Where the count is an answer itself, AVG takes Σ(x-c), which changes by half the width at most, and that count. For
squares likewise: (x-c)² lies in [0, h²], so Σ((x-c)² - h²/2) changes by h²/2. A SUM whose population is counted anyway
is also taken as Σ(x-c) + c·n, because h² + c² ≤ (h + |c|)².

>>> from hush.query.expressions import Column
>>> from hush.query.types import Kind
>>> age = Type(Kind.INTEGER, lower=Fraction(0), upper=Fraction(120), step=Fraction(1))
>>> Factor.centred(Column("age", age))
Factor(expression=..., step=Fraction(1, 1), first=0, last=120, centre=60)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from hush.core import Grid
from hush.query.expressions import Expression, Literal
from hush.query.plan.errors import UnplannableError
from hush.query.types import Kind, Type

_INDEX = 2**51
"""Indices stay below this, where float64 counts every integer."""
_FINE = 2**20
_SPAN_OF_PRODUCTS = 2**29
"""A factor of a product spans at most this, so that the product of two stays within 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Which rows of a group a statistic runs over."""

    where: Expression | None = None
    not_null: tuple[Expression, ...] = ()

    @classmethod
    def of(cls, where: Expression | None, arguments: tuple[Expression, ...]) -> Population:
        """Return the population of an aggregate; arguments that cannot be NULL need no test."""
        tested = {argument: None for argument in arguments if argument.type.nullable}
        kept = where
        if isinstance(where, Literal) and where.value is True:
            kept = None
        return cls(where=kept, not_null=tuple(sorted(tested, key=repr)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """An expression as an integer between two public ones, minus a centre."""

    expression: Expression
    step: Fraction
    first: int
    last: int
    centre: int = 0

    @classmethod
    def raw(cls, expression: Expression, *, weighted: bool = False) -> Factor:
        """Return the expression's index on its grid; on a finer one where units are ``weighted`` down."""
        lower, upper, step = line(expression.type)
        while max(abs(lower), abs(upper)) / step > _INDEX:
            step *= 2
        first, last = -((-lower) // step), upper // step
        if first > last:
            first = last = round(lower / step)
        while weighted and 0 < last - first < _FINE and 2 * max(abs(first), abs(last)) <= _INDEX:
            step, first, last = step / 2, 2 * first, 2 * last
        return cls(expression=expression, step=step, first=first, last=last)

    @classmethod
    def centred(cls, expression: Expression, *, weighted: bool = False, of_product: bool = False) -> Factor:
        """Return the index around the middle of its range, on a coarser grid if it goes into a product."""
        factor = cls.raw(expression, weighted=weighted)
        while of_product and factor.last - factor.first > _SPAN_OF_PRODUCTS:
            step = factor.step * 2
            factor = replace(factor, step=step, first=-((-factor.first) // 2), last=factor.last // 2)
        return replace(factor, centre=(factor.first + factor.last) // 2)

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest value."""
        return self.first - self.centre, self.last - self.centre


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many rows the population has."""

    population: Population

    @property
    def bound(self) -> int:
        """A row counts once."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The sum over the population of a product of one or two factors, less a constant a row."""

    population: Population
    factors: tuple[Factor, ...]
    offset: int = 0

    @property
    def bound(self) -> int:
        """The largest magnitude of one row's integer, at least 1 (a constant column still gets noise).

        A product of factors that range over intervals takes its extremes at corners of the box; the square of one
        factor (the same factor twice) also at 0, if that lies between its ends.
        """
        low, high = self.range
        return max(abs(low), abs(high), 1)

    @property
    def range(self) -> tuple[int, int]:
        """The least and the greatest integer of one row."""
        if len(self.factors) == 2 and self.factors[0] == self.factors[1]:
            low, high = self.factors[0].ends
            corners = [low * low, high * high] + ([0] if low <= 0 <= high else [])
        else:
            corners = []
            for corner in product(*(factor.ends for factor in self.factors)):
                value = 1
                for end in corner:
                    value *= end
                corners.append(value)
        return min(corners) - self.offset, max(corners) - self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCount:
    """How many units have a row in the population: a unit counts once in each group."""

    population: Population

    @property
    def bound(self) -> int:
        """A unit counts once."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctCount:
    """How many values occur, where each unit shows at most ``rows`` of its values in each group.

    A unit's values are kept in the order of a hash of (unit, value). A unit that comes adds at most the values it
    shows, and takes none away.
    """

    population: Population
    expression: Expression

    @property
    def bound(self) -> int:
        """A value counts once."""
        return 1


Statistic = Count | Total | UnitCount | DistinctCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """Σ(x-l) and Σ(x-u) over a population: the mean and the number of rows for the sensitivity of one sum.

    A row adds the integers i ≥ 0 and i - span ≤ 0. A unit with n > rows of them has both sums weighted down by rows/n
    and truncated towards zero, so their magnitudes still add up to rows·span or less.
    """

    above: Total
    below: Total

    @classmethod
    def of(cls, population: Population, expression: Expression, *, weighted: bool) -> Halves | None:
        """Return the halves of a column, or None if its range is a single point; units may be ``weighted`` down."""
        raw = Factor.raw(expression, weighted=weighted)
        if raw.first == raw.last:
            return None
        above, below = replace(raw, centre=raw.first), replace(raw, centre=raw.last)
        return cls(
            above=Total(population=population, factors=(above,)), below=Total(population=population, factors=(below,))
        )

    @property
    def factor(self) -> Factor:
        """The column, counted from its lower bound."""
        return self.above.factors[0]

    @property
    def bound(self) -> int:
        """What one row changes in both sums together."""
        return self.factor.last - self.factor.first


Noised = Statistic | Halves
"""What is given noise at one price."""


def members(item: Noised) -> tuple[Statistic, ...]:
    """Return the statistics that are noised together."""
    return (item.above, item.below) if isinstance(item, Halves) else (item,)


def per_group(item: Noised, rows: int) -> int:
    """Return how much one unit can change in one group, in ℓ₁ over the members; rows is the limit within a group."""
    return 1 if isinstance(item, UnitCount) else rows * item.bound


def line(type_: Type) -> tuple[Fraction, Fraction, Fraction]:
    """Return lower, upper and step of a bounded type; refuse an unbounded one."""
    if type_.kind is Kind.BOOLEAN:
        return Fraction(0), Fraction(1), Fraction(1)
    if type_.lower is None or type_.upper is None:
        raise UnplannableError(
            "the values summed have no bounds; declare them in the policy, or use CLIP(x, lower, upper)"
        )
    if type_.step is not None:
        return type_.lower, type_.upper, type_.step
    if type_.kind in {Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP}:
        return type_.lower, type_.upper, Fraction(1)
    return type_.lower, type_.upper, Grid.for_bounds(lower=type_.lower, upper=type_.upper).step
