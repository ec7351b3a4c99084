r"""The stability of a question: how far its exact integers move when one unit comes, goes or is replaced.

This module is the whole argument: who bounds what, why that is enough, and the code that computes each bound. Engines
enforce the bounds on rows and groups; mechanisms take the sensitivities. Steps 1 to 3 are `limits`, steps 4 and 5
`sensitivity`.

**1. Unit → rows.** Every row of a private relation belongs to exactly one unit: filters and expressions read one row,
joins of private tables include the unit, subqueries aggregate within one (`hush.query.relations`). So a unit that comes
adds rows of its own, and changes no row of another unit. How many rows it adds is *not* bounded by the joins: one row
may meet many.

**2. Rows → bounded contributions.** Whatever joins and subqueries did below, contributions are bounded once, at the
end, by an order and by weights that look at the unit's own rows only:

a. rows whose unit is NULL, that fail a filter or whose key is outside the public keys are dropped;
b. of each unit's groups the first ``groups`` are kept, in the order of a keyed hash of (unit, key), ties broken by
   the key. The order looks at one unit's own rows only, so no unit can push another's rows out;
c. within a (unit, group), a sum s over n > ``rows`` rows is weighted down to s·rows/n, truncated towards zero. If each
   row lies in [-B, B] then \|s\| ≤ n·B, so \|s·rows/n\| ≤ rows·B, and truncation only shrinks it.

**3. Which limits** (`limits`). ``rows`` and ``groups`` are the policy's max_rows and max_groups, or tighter ones of the
question. The engine enforces them whatever the rows are, so a smaller limit is always safe, and the following only
lowers them:

- *One row, one unit.* A table without a unit path, read once and neither joined nor grouped, and a per-unit subquery
  without keys have one row a unit: one group, one row, and no bounding step at all. A table without a unit path that is
  joined with a public one has its rows numbered where it is read; the number tells rows apart, and never enters the
  order of step 2b, since numbers shift when a row goes. That the public side has one row for each key does not help: a
  join compares numbers of different types as doubles, and then 1,024 whole numbers near 2⁶³ are equal to one double.
- *Few keys.* Where there are fewer public keys than ``max_groups``, they are the bound: a row has one key, so no unit
  is in more groups than there are keys, and none is left out. An engine counts those that a public table has.
- *Public tables that multiply rows.* A join makes as many rows of one as there are matches in the public table, which
  an engine counts (`Matches`), without the rows that a NULL keeps from matching. So ``rows`` is multiplied by the most
  public rows that agree on what is joined and on the group's key, and ``groups``, where a key has a public column, by
  ``rows`` and by the most keys that one row meets. 2²⁰ is enough for all: engines leave out units with more rows after
  a join, and a note says so.
- *Several tables.* A question over several private tables takes the largest ``max_rows`` and ``max_groups`` among them:
  what is counted is the unit's rows *after* the joins, and the owner has declared that number to be typical. A table
  that is only looked at (by EXISTS, IN or a SEMI join), or aggregated to one row per unit, makes no rows, and its
  limits do not count. Where a subquery has one row per unit and key, and the question groups by these keys, a unit has
  one row in a group.

**4. A row → a statistic.** A statistic is a sum over the rows of its *population* (rows that pass the aggregate's
FILTER and whose arguments are not NULL) of an integer that lies in [-bound, bound] for every row there could be:

    Count       1, or 2²⁰ where rows are weighted down by others too    bound by itself
    Total       ∏ (index(x_j) - centre_j) - offset                      bound by its corners, see `Total.bound`

where index(x) = x/step, rounded and clamped between two public integers. Where units may be weighted down, and their
sums truncated, the step is a fraction of the column's own: 2²⁰ steps or more, so that what is cut off hardly matters.
Distinct units and distinct values are counted apart; both count something a unit can add at most once (units) or
``rows`` times (values). Distinct values are also summed, see `Distinct`.

**5. A unit → the vector over all groups** (`sensitivity`). By 2 and 4 a unit adds at most rows·B to each of at most
``groups`` coordinates of a statistic, whatever the other units are. Adding or removing a unit therefore changes the
exact integer vector by at most groups·rows·B in ℓ₁, √groups·rows·B in ℓ₂ and rows·B in ℓ∞. Replacing a unit is one
removal and one addition: twice as much in every norm (`Limits.touched`).

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

What is best depends on what else is asked (`hush.query.plan.estimators`): a separate count, which others share, and
Σ(x-c), which changes by h at most. For squares likewise: (x-c)² lies in [0, h²], so Σ((x-c)² - h²/2) changes by h²/2. A
SUM whose population is counted anyway is Σ(x-c) + c·n, because h² + c² ≤ (h + |c|)².

>>> from hush.query.expressions import Column
>>> from hush.query.types import Kind
>>> age = Type(Kind.INTEGER, lower=Fraction(0), upper=Fraction(120), step=Fraction(1))
>>> Factor.centred(Column("age", age))
Factor(expression=..., step=Fraction(1, 1), first=0, last=120, centre=60)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

from hush.core import Grid, InvalidValueError
from hush.mechanisms.grouped import Contribution
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Column, Expression, Op, columns_in, with_columns
from hush.query.functions import all_of, constant
from hush.query.functions.logic import COMPARISONS, conjuncts
from hush.query.functions.record import describe
from hush.query.plan.keys import with_public_conditions
from hush.query.relations import (
    Constants,
    Filter,
    Join,
    JoinKind,
    PerUnit,
    Project,
    Relation,
    Scan,
    UnionAll,
    WindowKind,
    WithWindows,
    columns,
    private,
    walk,
    with_values,
)
from hush.query.schema import Schema
from hush.query.types import Kind, Type

MAX_ROWS = 2**20
MAX_GROUPS = 2**20
_INDEX = 2**51  # indices stay below this, where float64 counts every integer
FINE = 2**20
"""Into how many parts a value is divided where units are weighted down."""
_SPAN_OF_PRODUCTS = 2**29  # a factor of a product spans at most this, so that the product of two stays within 64 bits

Matches = Callable[[Relation, Sequence[Expression]], int]
"""Says how many rows of a public relation agree on some expressions at most, and at least 1."""


def uncounted(_public: Relation, _keys: Sequence[Expression]) -> int:
    """Refuse a join with a public table: without an engine nobody knows how many rows it makes of one."""
    raise UnplannableError("a join with public rows needs an engine that counts how many of them match a row")


# limits: how much of one unit counts (steps 1 to 3)


class Units(Enum):
    """How rows of the relation find their unit."""

    ALONE = "every row is a unit of its own"
    NUMBERED = "every row of a table is a unit, told apart by a number given where it is read"
    COLUMN = "the unit is a column"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The contribution bounds of one question."""

    units: Units
    rows: int
    groups: int
    touched: int
    """Units that a neighbour changes: 1 for add/remove, 2 for replace."""
    matches: int = 1
    """How many rows joins with public tables make of one, at most."""

    @property
    def contribution(self) -> Contribution:
        """The number of groups in which neighbours differ, for the mechanisms."""
        return Contribution(groups=self.groups, units=self.touched)

    def rungs(self) -> list[tuple[int, int]]:
        """Return a few tighter limits that a question might ask for: 1 and the root of each, and 1 of both.

        >>> Limits(units=Units.COLUMN, rows=40, groups=12, touched=1).rungs()
        [(6, 12), (1, 12), (40, 3), (40, 1), (1, 1)]
        """
        if self.units is Units.ALONE:
            return []
        rows = [(math.isqrt(self.rows), self.groups), (1, self.groups)]
        groups = [(self.rows, math.isqrt(self.groups)), (self.rows, 1)]
        return list(dict.fromkeys(pair for pair in [*rows, *groups, (1, 1)] if pair != (self.rows, self.groups)))


def limits(
    relation: Relation,
    schema: Schema,
    *,
    keys: int | None,
    matches: Matches,
    by: Sequence[Expression] = (),
    max_rows: int | None = None,
    max_groups: int | None = None,
) -> Limits:
    """Return the contribution bounds of a question; ``keys`` is the largest number of its keys, None if unknown.

    ``by`` are the keys themselves; ``matches`` counts rows of public tables; ``max_rows`` and ``max_groups`` are limits
    that the question sets itself.
    """
    parts = list(walk(relation))
    scanned = [part for part in parts if isinstance(part, Scan)]
    names = [scan.table for scan in scanned if not scan.public]
    if not names:
        raise UnplannableError("this reads public tables only; ask about at least one private table")
    read = [schema.tables[name] for name in sorted(set(names))]
    owned = [table for table in read if table.unit is not None]
    if owned and len(owned) != len(read):
        missing = next(table.name for table in read if table.unit is None)
        raise UnplannableError(
            f"tables {owned[0].name!r} and {missing!r} do not protect the same unit; declare a unit for {missing!r}"
        )
    for part in parts:
        # the public rows of a union with private ones would belong to nobody
        if isinstance(part, UnionAll) and len({private(source) for source in part.sources}) > 1:
            raise UnplannableError("UNION ALL of private and public rows; join the public table instead")
        # where rows are units, private tables are not joined, and read once each
        if isinstance(part, Join) and not owned and private(part.left) and private(part.right):
            raise UnplannableError("a join of private tables needs a unit; declare it in the policy")
    if not owned and len(read) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UnplannableError(
            f"every row of {twice!r} is a unit, so the table can be read only once in a question: two copies of a row "
            "would pass for two units; use FILTER or CASE instead of UNION ALL, or declare its unit in the policy"
        )
    touched = schema.neighbours.units_touched
    if one_row_per_unit(relation, owned=bool(owned)):
        return Limits(units=Units.ALONE, rows=1, groups=1, touched=touched)
    rows = max(table.max_rows for table in read)
    groups = max(table.max_groups for table in read)
    if not (1 <= rows <= MAX_ROWS and 1 <= groups <= MAX_GROUPS):
        raise UnplannableError(f"max_rows and max_groups must lie between 1 and {MAX_ROWS}; correct the policy")
    narrowed = relation if len(names) == len(scanned) else with_public_conditions(relation)
    unit_rows = _unit_rows(narrowed, schema, by, matches)
    declared = replace(unit_rows, rows=max(rows, unit_rows.rows), groups=max(groups, unit_rows.groups))
    declared_by = (
        "the policy declares" if unit_rows.matches == 1 else "the policy and the rows of public tables make it"
    )
    tighter = {"max_rows": (max_rows, declared.multiplied_rows), "max_groups": (max_groups, declared.multiplied_groups)}
    for name, (wanted, most) in tighter.items():
        if wanted is not None and wanted > most:
            hint = "A question may tighten the policy's limits, never widen them; leave it out, or ask the owner."
            raise InvalidValueError(name, got=wanted, allowed=f"at most {most}, which is what {declared_by}", hint=hint)
    rows = min(max_rows or declared.multiplied_rows, unit_rows.multiplied_rows)
    groups = min(max_groups or declared.multiplied_groups, unit_rows.multiplied_groups)
    names_of_keys = frozenset(key.name for key in by if isinstance(key, Column))
    if rows > 1 and one_row_per_unit(relation, owned=bool(owned), by=names_of_keys):
        rows = 1
    if keys is not None:
        # a row has one key, so a unit is in no more groups than there are keys
        groups = max(1, min(groups, keys))
    kind = Units.COLUMN if owned else Units.NUMBERED
    return Limits(units=kind, rows=rows, groups=groups, touched=touched, matches=unit_rows.matches)


def one_row_per_unit(relation: Relation, *, owned: bool, by: frozenset[str] = frozenset()) -> bool:
    """Return whether the shape of the relation proves that no unit has two rows in it that agree on columns ``by``.

    Of a public relation: whether it has one row at most.
    """

    def one_row(source: Relation, by: frozenset[str] = by) -> bool:
        return one_row_per_unit(source, owned=owned, by=by)

    match relation:
        case Scan():
            return not owned and not relation.public
        case Filter():  # numbers say something of private rows alone: of public ones `most_by_number` says nothing
            return most_by_number(relation, by) == 1 or one_row(relation.source)
        case Project():
            below = {value.name for name, value in relation.columns if name in by and isinstance(value, Column)}
            return one_row(relation.source, frozenset(below))
        case WithWindows():
            return one_row(relation.source)
        case PerUnit():
            return {name for name, _ in relation.keys} <= by
        case UnionAll():
            # tables that have rows as units are read once each (see `limits`), so their rows are different units
            return not owned and private(relation) and all(map(one_row, relation.sources))
        case Join():
            # a pair for each row of the left side, at most: names of columns differ, so ``by`` serves both sides
            right = one_row(relation.right, by if private(relation.right) else frozenset())
            return private(relation) and one_row(relation.left) and (not relation.kind.widens or right)
        case Constants():
            return len(relation.rows) == 1


def most_by_number(relation: Filter, by: frozenset[str] = frozenset()) -> int | None:
    """Return how many rows a unit keeps at most by ``ROW_NUMBER() OVER (PARTITION BY unit …) <= 3``, if that is said.

    With columns ``by``, of each combination of these: the window may then be parted by some of them as well. The engine
    parts every window by the unit, and numbers are 1, 2, … without gaps, so the numbers up to k are k rows.
    """
    types = columns(relation)
    source, called = relation.source, {name: name for name in types}
    while isinstance(source, Filter | Project):
        if isinstance(source, Project):  # what columns below are called in the condition
            renamed = [(name, value.name) for name, value in source.columns if isinstance(value, Column)]
            called = {inner: called[name] for name, inner in renamed if name in called}
        source = source.source
    if not isinstance(source, WithWindows) or not private(source):
        return None
    ends = [
        types[called[name]].upper
        for name, window in source.windows
        if name in called
        and window.kind is WindowKind.ROW_NUMBER
        and all(isinstance(key, Column) and called.get(key.name) in by for key in window.partition)
    ]
    # ``number <= 0`` keeps no row; a limit is 1 at least
    row_limits = [max(int(end), 1) for end in ends if end is not None]
    return min(row_limits, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnitRows:
    """A unit's rows in each of its groups, as the owner declared them, and how joins with public rows multiply them."""

    rows: int = 1
    """How many rows a unit has in a group before they are multiplied."""
    groups: int = 1
    """In how many groups a unit is before its rows are multiplied."""
    matches: int = 1
    """How many rows are made of one."""
    matches_in_group: int = 1
    """How many of the rows made of one are in the same group."""
    groups_per_row: int = 1
    """In how many groups the rows made of one are."""
    groups_per_group: int = 1
    """In how many groups the rows made of one group's are, however many rows it has."""

    @property
    def multiplied_rows(self) -> int:
        """How many rows a unit has in a group."""
        return min(self.rows * self.matches_in_group, MAX_ROWS)

    @property
    def multiplied_groups(self) -> int:
        """In how many groups a unit is: each row of a group may meet other keys."""
        of_each = 1 if self.groups_per_row == 1 else min(self.rows * self.groups_per_row, self.groups_per_group)
        return min(self.groups * of_each, MAX_GROUPS)


Keys = Sequence[Expression | None]
"""Keys in terms of a relation's columns; None for one that is computed from several rows below."""


def _unit_rows(relation: Relation, schema: Schema, by: Keys, matches: Matches) -> _UnitRows:
    """Return a unit's rows by the declared limits of the tables that make rows, and by the rows of public tables."""
    match relation:
        case Scan():
            table = schema.tables[relation.table]
            if table.public or table.unit is None:
                return _UnitRows()
            return _UnitRows(rows=table.max_rows, groups=table.max_groups)
        case Constants():
            return _UnitRows()
        case Filter():
            source = _unit_rows(relation.source, schema, by, matches)
            limit = most_by_number(relation)
            if limit is None:
                return source
            return _UnitRows(
                rows=min(source.multiplied_rows, limit),
                groups=min(source.multiplied_groups, limit),
                matches=min(source.matches, limit),
            )
        case Project() | PerUnit():
            if isinstance(relation, PerUnit) and not relation.keys:
                return _UnitRows()
            named = dict(relation.columns if isinstance(relation, Project) else relation.keys)
            return _unit_rows(relation.source, schema, [_below(key, named) for key in by], matches)
        case WithWindows():
            named = {name: Column(name, type_) for name, type_ in columns(relation.source).items()}
            return _unit_rows(relation.source, schema, [_below(key, named) for key in by], matches)
        case UnionAll():
            # the rows of its largest part, or of all where each has one or public rows multiply
            parts = [_unit_rows(source, schema, by, matches) for source in relation.sources]
            if max(part.matches for part in parts) > 1:
                return _UnitRows(
                    rows=sum(part.multiplied_rows for part in parts),
                    groups=sum(part.multiplied_groups for part in parts),
                    matches=sum(part.matches for part in parts),
                )
            single = sum((part.rows, part.groups) == (1, 1) for part in parts)
            return _UnitRows(
                rows=max(single, *(part.rows for part in parts)), groups=max(single, *(part.groups for part in parts))
            )
        case Join() if not relation.kind.widens:
            return _unit_rows(relation.left, schema, by, matches)
        case Join():
            return _joined_unit_rows(relation, schema, by, matches)


def _below(key: Expression | None, named: Mapping[str, Expression]) -> Expression | None:
    """Return a key in terms of the columns below; None where a window or an aggregate is in it."""
    return with_columns(key, named) if key is not None and columns_in(key) <= named.keys() else None


def _joined_unit_rows(relation: Join, schema: Schema, by: Keys, matches: Matches) -> _UnitRows:
    """Return a unit's rows in a join, which a public side multiplies as in step 3."""
    # rows that a LEFT JOIN finds no partner for are a group of their own
    partnerless = 1 if relation.kind is JoinKind.LEFT else 0
    if private(relation.left) and private(relation.right):
        # the larger declaration is that of the pairs
        left, right = (_unit_rows(side, schema, by, matches) for side in (relation.left, relation.right))
        right_groups = right.groups_per_group + (partnerless if right.groups_per_row > 1 else 0)
        return _UnitRows(
            rows=max(left.rows, right.rows),
            groups=max(left.groups, right.groups),
            matches=left.matches * right.matches,
            matches_in_group=left.matches_in_group * right.matches_in_group,
            groups_per_row=left.groups_per_row * right.groups_per_row,
            groups_per_group=left.groups_per_group * right_groups,
        )
    if private(relation.left):
        private_side, public_side, joined_on = relation.left, relation.right, [right for _, right in relation.on]
    else:
        private_side, public_side, joined_on = relation.right, relation.left, [left for left, _ in relation.on]
    unit_rows = _unit_rows(private_side, schema, by, matches)
    if one_row_per_unit(public_side, owned=True):
        return unit_rows
    public_columns, private_columns = columns(public_side).keys(), columns(private_side).keys()
    # keys of public columns alone tell public rows apart; one that is mixed with others may have a value for each row
    public_keys = [key for key in by if key is not None and columns_in(key) and columns_in(key) <= public_columns]
    mixed = any(key is None or (columns_in(key) & public_columns and columns_in(key) & private_columns) for key in by)
    terms = [] if relation.where is None else conjuncts(relation.where)
    compared = [side for term in terms if isinstance(term, Call) and term.op in COMPARISONS for side in term.arguments]
    public_compared = [side for side in compared if columns_in(side) and columns_in(side) <= public_columns]
    public_rows = with_values(public_side, [*joined_on, *public_compared])
    matches_per_row = matches(public_rows, joined_on)
    if matches_per_row == 1:
        return unit_rows
    unit_rows = replace(unit_rows, matches=unit_rows.matches * matches_per_row)
    if not public_keys and not mixed:
        return replace(unit_rows, matches_in_group=unit_rows.matches_in_group * matches_per_row)
    matches_per_key = matches(public_rows, [*joined_on, *public_keys])
    unit_rows = replace(unit_rows, matches_in_group=unit_rows.matches_in_group * matches_per_key)
    if mixed:
        groups_per_row = unit_rows.groups_per_row * matches_per_row
        return replace(unit_rows, groups_per_row=groups_per_row, groups_per_group=MAX_GROUPS)
    if len(public_keys) == len(by):
        # no private column tells groups apart, so units are in no more groups than there are keys
        unit_rows = replace(unit_rows, groups=1, groups_per_row=unit_rows.groups_per_row * unit_rows.groups)
    named_on = [(f"on{index}", value) for index, value in enumerate(joined_on)]
    named_keys = [(f"key{index}", key) for index, key in enumerate(public_keys)]
    keys_of_matches = PerUnit(source=public_rows, keys=(*named_on, *named_keys), aggregates=())
    distinct_keys = PerUnit(source=public_rows, keys=tuple(named_keys), aggregates=())
    keys_per_row = matches(keys_of_matches, [Column(name, value.type) for name, value in named_on])
    return replace(
        unit_rows,
        groups_per_row=unit_rows.groups_per_row * keys_per_row,
        groups_per_group=unit_rows.groups_per_group * (matches(distinct_keys, ()) + partnerless),
    )


# statistics: what one row adds, and one unit (steps 4 and 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The rows of a group that a statistic sums over."""

    where: Expression | None = None
    not_null: tuple[Expression, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether it is every row of a group."""
        return self.where is None and not self.not_null

    @classmethod
    def of(cls, where: Expression | None, arguments: tuple[Expression, ...]) -> Population:
        """Return the population of an aggregate; arguments that cannot be NULL need no test.

        ``x IS NOT NULL`` in its FILTER is the same test, so that what is asked of the same rows is one population.
        """
        tests, further = list(arguments), []
        for condition in [] if where is None else conjuncts(where):
            match condition:
                case Call(op=Op.NOT, arguments=(Call(op=Op.IS_NULL, arguments=(expression,)),)):
                    tests.append(expression)
                case _ if condition != constant(True):
                    further.append(condition)
        tested = dict.fromkeys(expression for expression in tests if expression.type.nullable)
        return cls(where=all_of(further) if further else None, not_null=tuple(sorted(tested, key=repr)))


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
        lower, upper, step = line(expression.type, expression)
        # a coarser grid, until indices are exact as float64
        while max(abs(lower), abs(upper)) / step > _INDEX:
            step *= 2
        first, last = -((-lower) // step), upper // step
        # the bounds lie between two grid points: one point stands for the column
        if first > last:
            first = last = round(lower / step)
        # weighted sums are truncated to whole steps: with finer steps that loses less
        while weighted and 0 < last - first < FINE and 2 * max(abs(first), abs(last)) <= _INDEX:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number of rows of the population, or of its rows that are not in a narrower one."""

    population: Population
    without: Population | None = None
    bound: int = 1
    """How many times a row is counted: in small parts, where units are weighted down by more rows than these."""


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
        first, last = self.factors[0], self.factors[-1]
        low, high = first.ends
        corners = [low, high]
        if len(self.factors) == 2:
            corners = [low * low, high * high] + ([0] if low <= 0 <= high else [])
            if first != last:
                one, other = last.ends
                corners = [low * one, low * other, high * one, high * other]
        return min(corners) - self.offset, max(corners) - self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCount:
    """How many units have a row in the population: a unit counts once in each group."""

    population: Population
    bound = 1
    """A unit counts once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """How many values occur, or the sum of the values that occur, each once: SUM(DISTINCT x).

    Each unit shows at most ``rows`` of its values in each group, in the order of a hash of (unit, value). S = ⋃ S_u,
    where S_u are the values that unit u shows, whatever other units there are. A unit that comes makes S grow by a
    subset of S_u, which has ``rows`` values at most, and takes none away. So the number of values changes by ``rows``
    at most. The sum is f(S) = Σ (index(v) - centre) over v in S, of which each value changes ``bound`` at most: the
    sensitivity within a group is rows·bound, as that of a sum over rows. A value may be on a finer grid than its
    integer: values are told apart as they are, so that f does not depend on which of two equal indices is meant.
    """

    population: Population
    expression: Expression
    factor: Factor | None = None
    """The integers that are summed; None where the values are counted."""

    @property
    def bound(self) -> int:
        """The largest magnitude of one value's integer, at least 1; a value counts once."""
        return 1 if self.factor is None else max(*map(abs, self.factor.ends), 1)


Statistic = Count | Total | UnitCount | Distinct


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """Σ(x-l) and Σ(x-u) over a population: its sum and its number of rows for the sensitivity of one sum.

    A row adds the integers i ≥ 0 and i - span ≤ 0; one of the ``others``, if these are counted, adds span to them. In a
    unit with n > rows rows in the group all sums are weighted down by rows/n. At most these n rows are in them, so
    their magnitudes A, B and Z add up to rows·span at most. The first and the last are rounded down, the second is a
    negative number rounded down: ⌊A⌋ + ⌈B⌉ + ⌊Z⌋ is a whole number below A + B + Z + 1, hence rows·span or less. If all
    n rows are in A and B they add up to rows·span exactly, and the number of rows comes out exactly.
    """

    above: Total
    below: Total
    others: Count | None = None

    @classmethod
    def of(
        cls, population: Population, expression: Expression, *, weighted: bool, wider: Population | None = None
    ) -> Halves | None:
        """Return a column's sums above its lower and below its upper bound; None if it has only one possible value.

        Where units are ``weighted``, rows of a unit with too many of them count less. Of a ``wider`` population the
        other rows are counted, too.
        """
        raw = Factor.raw(expression, weighted=weighted)
        if raw.first == raw.last:
            return None
        above, below = replace(raw, centre=raw.first), replace(raw, centre=raw.last)
        others = None
        if wider is not None:
            others = Count(population=wider, without=population, bound=raw.last - raw.first)
        return cls(
            above=Total(population=population, factors=(above,)),
            below=Total(population=population, factors=(below,)),
            others=others,
        )

    @property
    def factor(self) -> Factor:
        """The column minus its lower bound, in steps."""
        return self.above.factors[0]

    @property
    def bound(self) -> int:
        """The largest change of all sums together by one row, in ℓ₁."""
        return self.factor.last - self.factor.first

    def count(self, *, wider: bool = False) -> tuple[tuple[Statistic, Fraction], ...]:
        """Return the number of rows, of the ``wider`` population or of this, as statistics with their factors."""
        unit = Fraction(1, self.bound)
        further = ((self.others, unit),) if wider and self.others is not None else ()
        return ((self.above, unit), (self.below, -unit), *further)


Noised = Statistic | Halves
"""A statistic, or statistics that are noised together at one price."""


def members(noised: Noised) -> tuple[Statistic, ...]:
    """Return the statistics that are noised together."""
    if not isinstance(noised, Halves):
        return (noised,)
    return (noised.above, noised.below) if noised.others is None else (noised.above, noised.below, noised.others)


def sensitivity(noised: Noised, limits: Limits) -> int:
    """Return how far one unit moves a statistic in one group, in ℓ₁ over all numbers noised together (step 5).

    The mechanisms are given this and `Limits.contribution`, from which the change over all groups follows.
    """
    # a unit counts once in a group, however many rows it has there; all else is a sum over at most ``rows`` weights
    return 1 if isinstance(noised, UnitCount) else limits.rows * noised.bound


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
