r"""Statistics: the few exact integers a group that all aggregates are made from.

A statistic is a sum over the rows of its *population* (rows that pass the aggregate's FILTER and whose arguments are
not NULL) of an integer that lies in [-bound, bound] for every row there could be:

    Count       1, or 2²⁰ where rows are weighted down by others too    bound by itself
    Total       ∏ (index(x_j) - centre_j) - offset                      bound by its corners, see `Total.bound`

where index(x) = x/step, rounded and clamped between two public integers. Where units may be weighted down, and their
sums truncated, the step is a fraction of the column's own: 2²⁰ steps or more, so that what is cut off hardly matters.
Distinct units and distinct values are counted apart; both count something a unit can add at most once (units) or
``rows`` times (values). Distinct values are also summed, see `DistinctTotal`.

**Halves.** Counts, sums and averages of one column need Σx and n, and take them from two `Halves`, a = Σ(x-l) and
b = Σ(x-u) for bounds l < u of width w = 2h around the middle c: n = (a-b)/w and Σ(x-c) = (a+b)/2. A row adds x-l to the
one and takes u-x from the other, w altogether in ℓ₁: both together have the sensitivity of one, so neither has to share
ε. With noise of variance v on a/w and b/w, n errs by 2v and Σ(x-c)/h by 2v in variance, and the two are uncorrelated. A
count and a sum around the middle that share ε equally each err by 4v.

    n            2v                     in variance
    Σx           2v·(h² + c²)           which is v·w², as if it were asked alone, where l = 0
    mean         2v·(h² + d²)/n²        where d is how far it is from the middle

Where COUNT(*) is asked beside a column that may be NULL, a third sum z adds w for every row in which it is NULL. Still
a row changes one of (a, b) and z by w altogether, the number of all rows is (a-b+z)/w, and errs by 3v.

What is best depends on what else is asked (`hush.query.plan.aggregates`): a separate count, which others share, and
Σ(x-c), which changes by h at most. For squares likewise: (x-c)² lies in [0, h²], so Σ((x-c)² - h²/2) changes by h²/2. A
SUM whose population is counted anyway is Σ(x-c) + c·n, because h² + c² ≤ (h + |c|)².

>>> from hush.query.expressions import Column
>>> from hush.query.types import Kind
>>> age = Type(Kind.INTEGER, lower=Fraction(0), upper=Fraction(120), step=Fraction(1))
>>> Factor.centred(Column("age", age))
Factor(expression=..., step=Fraction(1, 1), first=0, last=120, centre=60)
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

from hush.core import Grid
from hush.core.values import dataclass
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Expression, Hashed, Op, hashed_once
from hush.query.functions import all_of, constant
from hush.query.functions.logic import conjuncts
from hush.query.functions.rules import describe
from hush.query.types import Kind, Type

_INDEX = 2**51
"""Indices stay below this, where float64 counts every integer."""
_FINE = 2**20
_SPAN_OF_PRODUCTS = 2**29
"""A factor of a product spans at most this, so that the product of two stays within 64 bits."""


def _not_null(condition: Expression) -> Expression | None:
    """Return what a condition demands to be not NULL, if it demands nothing else."""
    match condition:
        case Call(op=Op.NOT, arguments=(Call(op=Op.IS_NULL, arguments=(expression,)),)):
            return expression
        case _:
            return None


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class Population(Hashed):
    """Which rows of a group a statistic runs over."""

    where: Expression | None = None
    not_null: tuple[Expression, ...] = ()
    within: Population | None = None
    """A wider population whose other rows are counted, too, where somebody asks for them."""

    @property
    def everything(self) -> bool:
        """Whether it is every row of a group."""
        return self.where is None and not self.not_null

    @classmethod
    def of(cls, where: Expression | None, arguments: tuple[Expression, ...]) -> Population:
        """Return the population of an aggregate; arguments that cannot be NULL need no test.

        ``x IS NOT NULL`` in its FILTER is the same test, so that what is asked of the same rows is one population.
        """
        conditions = [] if where is None else [item for item in conjuncts(where) if item != constant(True)]
        given = {condition: _not_null(condition) for condition in conditions}
        tests = [*arguments, *(expression for expression in given.values() if expression is not None)]
        tested = {expression: None for expression in tests if expression.type.nullable}
        others = [condition for condition in conditions if given[condition] is None]
        where = all_of(others) if others else None
        return cls(where=where, not_null=tuple(sorted(tested, key=repr)))


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class Factor(Hashed):
    """An expression as an integer between two public ones, minus a centre."""

    expression: Expression
    step: Fraction
    first: int
    last: int
    centre: int = 0

    @classmethod
    def raw(cls, expression: Expression, *, weighted: bool = False) -> Factor:
        """Return the expression's index on its grid; on a finer one where units are ``weighted`` down."""
        lower, upper, step = line(expression.type, expression)
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
    def rounds(self) -> bool:
        """Whether values may lie between the points of the grid, half a step away from one at most."""
        type_ = self.expression.type
        if type_.kind is Kind.DECIMAL and type_.step is None:
            return True
        return type_.kind is not Kind.BOOLEAN and line(type_)[2] % self.step != 0

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest value."""
        return self.first - self.centre, self.last - self.centre


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Hashed):
    """How many rows the population has, each counted several times."""

    population: Population
    times: int = 1

    @classmethod
    def of(cls, population: Population, *, weighted: bool) -> Count:
        """Return the count; in small parts of a row where units are ``weighted`` down by more rows than these."""
        return cls(population=population, times=_FINE if weighted and not population.everything else 1)

    @property
    def bound(self) -> int:
        """What a row counts."""
        return self.times


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class Total(Hashed):
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


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCount(Hashed):
    """How many units have a row in the population: a unit counts once in each group."""

    population: Population

    @property
    def bound(self) -> int:
        """A unit counts once."""
        return 1


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctCount(Hashed):
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


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctTotal(Hashed):
    """The sum of the values that occur, each once, as integers around a centre: SUM(DISTINCT x).

    The values are those that `DistinctCount` counts: S = ⋃ S_u, where S_u are the at most ``rows`` values that unit u
    shows in the group, whatever other units there are. The sum is f(S) = Σ (index(v) - centre) over v in S. A unit that
    comes makes S grow by a subset of S_u, which has ``rows`` values at most, and each changes f by ``bound`` at most.
    So the sensitivity within a group is rows·bound, as that of a sum over rows. A value may be on a finer grid than its
    integer: values are told apart as they are, so that f does not depend on which of two equal indices is meant.
    """

    population: Population
    factor: Factor

    @property
    def expression(self) -> Expression:
        """Whose values are summed."""
        return self.factor.expression

    @property
    def bound(self) -> int:
        """The largest magnitude of one value's integer, at least 1."""
        return max(*map(abs, self.factor.ends), 1)


Distinct = DistinctCount | DistinctTotal
"""What is made of distinct values."""


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class Others(Hashed):
    """How many rows are in the wider population and not in this one, each counted ``times`` times."""

    population: Population
    times: int

    @property
    def bound(self) -> int:
        """What a row counts."""
        return self.times


Statistic = Count | Total | UnitCount | DistinctCount | DistinctTotal | Others


@hashed_once
@dataclass(frozen=True, slots=True, kw_only=True)
class Halves(Hashed):
    """Σ(x-l) and Σ(x-u) over a population: its sum and its number of rows for the sensitivity of one sum.

    A row adds the integers i ≥ 0 and i - span ≤ 0; one of the ``others``, if these are counted, adds span to them. In a
    unit with n > rows rows in the group all sums are weighted down by rows/n. At most these n rows are in them, so
    their magnitudes A, B and Z add up to rows·span at most. The first and the last are rounded down, the second is a
    negative number rounded down: ⌊A⌋ + ⌈B⌉ + ⌊Z⌋ is a whole number below A + B + Z + 1, hence rows·span or less. If all
    n rows are in A and B they add up to rows·span exactly, and the number of rows comes out exactly.
    """

    above: Total
    below: Total
    others: Others | None = None

    @classmethod
    def of(cls, population: Population, expression: Expression, *, weighted: bool) -> Halves | None:
        """Return the halves of a column, or None if its range is a single point; units may be ``weighted`` down.

        Where the population is ``within`` a wider one, its other rows are counted, too.
        """
        raw = Factor.raw(expression, weighted=weighted)
        if raw.first == raw.last:
            return None
        above, below = replace(raw, centre=raw.first), replace(raw, centre=raw.last)
        span = raw.last - raw.first
        return cls(
            above=Total(population=population, factors=(above,)),
            below=Total(population=population, factors=(below,)),
            others=None if population.within is None else Others(population=population, times=span),
        )

    @property
    def factor(self) -> Factor:
        """The column, counted from its lower bound."""
        return self.above.factors[0]

    @property
    def bound(self) -> int:
        """What one row changes in all sums together."""
        return self.factor.last - self.factor.first

    def count(self, *, whole: bool) -> tuple[tuple[Statistic, Fraction], ...]:
        """Return the number of rows, of the ``whole`` wider population or of this, as statistics with their factors."""
        unit = Fraction(1, self.bound)
        others = ((self.others, unit),) if whole and self.others is not None else ()
        return ((self.above, unit), (self.below, -unit), *others)


Noised = Statistic | Halves
"""What is given noise at one price."""


def members(item: Noised) -> tuple[Statistic, ...]:
    """Return the statistics that are noised together."""
    if not isinstance(item, Halves):
        return (item,)
    return (item.above, item.below) if item.others is None else (item.above, item.below, item.others)


def per_group(item: Noised, rows: int) -> int:
    """Return how much one unit can change in one group, in ℓ₁ over the members; rows is the limit within a group."""
    return 1 if isinstance(item, UnitCount) else rows * item.bound


def line(type_: Type, expression: Expression | None = None) -> tuple[Fraction, Fraction, Fraction]:
    """Return lower, upper and step of a bounded type; refuse an unbounded one, which an expression may have."""
    if type_.kind is Kind.BOOLEAN:
        return Fraction(0), Fraction(1), Fraction(1)
    if type_.lower is None or type_.upper is None:
        raise UnplannableError(
            f"the values summed have no bounds: {'one of them' if expression is None else describe(expression)}; "
            "declare them in the policy, or use CLIP(x, lower, upper)"
        )
    if type_.step is not None:
        return type_.lower, type_.upper, type_.step
    if type_.kind in {Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP}:
        return type_.lower, type_.upper, Fraction(1)
    return type_.lower, type_.upper, Grid.for_bounds(lower=type_.lower, upper=type_.upper).step
