r"""How much of one unit is kept, and what that proves about neighbours.

Every row of a private relation belongs to exactly one unit (`hush.query.relations`), so whatever joins and
subqueries did below, contributions are bounded once, at the end:

1. rows whose unit is NULL, that fail a filter or whose key is outside the public keys are dropped;
2. of each unit's groups the first ``groups`` are kept, in the order of a keyed hash of (unit, key), ties broken by
   the key. The order looks at one unit's own rows only, so no unit can push another's rows out;
3. within a (unit, group), a sum s over n > ``rows`` rows is weighted down to s·rows/n, truncated towards zero. If each
   row lies in [-B, B] then \|s\| ≤ n·B, so \|s·rows/n\| ≤ rows·B, and truncation only shrinks it.

So a unit adds at most rows·B to each of at most ``groups`` coordinates of a statistic, whatever the other units are.
Adding or removing a unit therefore changes the exact integer vector by at most groups·rows·B in ℓ₁, √groups·rows·B in
ℓ₂ and rows·B in ℓ∞. Replacing a unit is one removal and one addition: twice as much in every norm (`touched`).

**One row, one unit.** A table without a unit path, read once and neither joined nor grouped, and a per-unit subquery
without keys have one row a unit: one group, one row, and no bounding step at all. A table without a unit path that is
joined with a public one has its rows numbered where it is read; the number tells rows apart, and never enters the
order of step 2, since numbers shift when a row goes. That the public side has one row for each key does not help: a
join compares numbers of different types as doubles, and then 1,024 whole numbers near 2⁶³ are equal to one double.

**Few keys.** Where there are fewer public keys than ``max_groups``, they are the bound: a row has one key, so no unit
is in more groups than there are keys, and none is left out.

**Several tables.** A question over several private tables takes the largest ``max_rows`` and ``max_groups`` among
them: what is counted is the unit's rows *after* the joins, and the owner has declared that much to be typical. A table
that is only looked at (by EXISTS, IN or a SEMI join), or aggregated to one row per unit, makes no rows, and its limits
do not count. Where a subquery has one row per unit and key, and the question groups by these keys, a unit has one row
in a group. All of this only lowers the limits, which the engine enforces whatever the rows are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

from hush.core import InvalidValueError, integer
from hush.core.values import dataclass
from hush.mechanisms.grouped import Contribution
from hush.query.errors import UnplannableError
from hush.query.expressions import Column, Expression
from hush.query.relations import (
    Constants,
    Filter,
    Join,
    PerUnit,
    Project,
    Relation,
    Scan,
    UnionAll,
    WindowKind,
    WithWindows,
    columns,
    private,
    relations_in,
    scans,
    tables,
)
from hush.query.schema import Schema

MAX_ROWS = 2**20
MAX_GROUPS = 2**20


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

    @property
    def contribution(self) -> Contribution:
        """In how many groups neighbours differ, as mechanisms take it."""
        return Contribution(groups=self.groups, units=self.touched)

    @property
    def cells(self) -> int:
        """How many groups a neighbour may change."""
        return self.contribution.cells

    def rungs(self) -> list[TighterLimits]:
        """Return a few tighter limits that a question might ask for: 1 and the root of each, and 1 of both.

        >>> bounds = Limits(units=Units.COLUMN, rows=40, groups=12, touched=1)
        >>> [(rung.max_rows, rung.max_groups) for rung in bounds.rungs()]
        [(6, 12), (1, 12), (40, 3), (40, 1), (1, 1)]
        """
        if self.units is Units.ALONE:
            return []
        rows = [(math.isqrt(self.rows), self.groups), (1, self.groups)]
        groups = [(self.rows, math.isqrt(self.groups)), (self.rows, 1)]
        pairs = dict.fromkeys(pair for pair in [*rows, *groups, (1, 1)] if pair != (self.rows, self.groups))
        return [TighterLimits(max_rows=most, max_groups=many) for most, many in pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class TighterLimits:
    """What a question itself asks for; None leaves it to the policy."""

    max_rows: int | None = None
    max_groups: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_groups"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, integer(value, name, minimum=1))

    def within(self, rows: int, groups: int) -> tuple[int, int]:
        """Return the limits of a question, given those of the policy."""
        for name, asked, declared in (("max_rows", self.max_rows, rows), ("max_groups", self.max_groups, groups)):
            if asked is not None and asked > declared:
                allowed = f"at most {declared}, which is what the policy declares"
                hint = "A question may tighten the policy's limits, never widen them; leave it out, or ask the owner."
                raise InvalidValueError(name, got=asked, allowed=allowed, hint=hint)
        return self.max_rows or rows, self.max_groups or groups


AS_DECLARED = TighterLimits()
"""What the policy declares."""


def limits(
    relation: Relation,
    schema: Schema,
    *,
    keys: int | None,
    by: Sequence[Expression] = (),
    tighter: TighterLimits = AS_DECLARED,
) -> Limits:
    """Return the bounds for a question over ``relation`` with so many ``keys`` at most; None if that is not known.

    ``by`` are the keys themselves.
    """
    if not private(relation):
        raise UnplannableError("this reads public tables only; ask about at least one private table")
    read = [schema.tables[name] for name in sorted(tables(relation)) if not schema.tables[name].public]
    touched = schema.neighbours.units_touched
    owned = [table for table in read if table.unit is not None]
    if owned and len(owned) != len(read):
        missing = next(table.name for table in read if table.unit is None)
        raise UnplannableError(
            f"tables {owned[0].name!r} and {missing!r} do not protect the same unit; declare a unit for {missing!r}"
        )
    _check_unions(relation)
    if not owned:
        _check_repeats(relation)
    if one_row_per_unit(relation, owned=bool(owned)):
        return Limits(units=Units.ALONE, rows=1, groups=1, touched=touched)
    rows = max(table.max_rows for table in read)
    groups = max(table.max_groups for table in read)
    if not (1 <= rows <= MAX_ROWS and 1 <= groups <= MAX_GROUPS):
        raise UnplannableError(f"max_rows and max_groups must lie between 1 and {MAX_ROWS}; correct the policy")
    rows, groups = tighter.within(rows, groups)
    typical = _typical(relation, schema)
    rows, groups = min(rows, typical[0]), min(groups, typical[1])
    if _keyed(relation, frozenset(key.name for key in by if isinstance(key, Column))):
        rows = 1
    kind = Units.COLUMN if owned else Units.NUMBERED
    if keys is not None:
        groups = max(1, min(groups, keys))
    return Limits(units=kind, rows=rows, groups=groups, touched=touched)


def one_row_per_unit(relation: Relation, *, owned: bool) -> bool:
    """Return whether the shape of the relation proves that no unit has two rows in it."""
    match relation:
        case Scan():
            return not owned and not relation.public
        case Filter():
            return most_by_number(relation) == 1 or one_row_per_unit(relation.source, owned=owned)
        case Project() | WithWindows():
            return one_row_per_unit(relation.source, owned=owned)
        case PerUnit():
            return not relation.keys
        case UnionAll():
            # tables that have rows as units are read once each (`_check_repeats`), so their rows are different units
            return not owned and all(one_row_per_unit(source, owned=owned) for source in relation.sources)
        case Join():
            return one_row_per_unit(relation.left, owned=owned) and (
                not relation.kind.widens
                or (private(relation.right) and one_row_per_unit(relation.right, owned=owned))
                or _one_row(relation.right, frozenset())
            )
        case Constants():
            return False


def most_by_number(relation: Filter, by: frozenset[str] = frozenset()) -> int | None:
    """Return how many rows a unit keeps at most by ``ROW_NUMBER() OVER (PARTITION BY unit …) <= 3``, if that is said.

    With columns ``by``, of each combination of these: the window may then be parted by some of them as well. The engine
    parts every window by the unit, and numbers are 1, 2, … without gaps, so the numbers up to k are k rows.
    """
    known = columns(relation)
    source, called = relation.source, {name: name for name in known}
    while isinstance(source, Filter | Project):
        if isinstance(source, Project):  # what columns below are called in the condition
            shown = [(name, value.name) for name, value in source.columns if isinstance(value, Column)]
            called = {inner: called[name] for name, inner in shown if name in called}
        source = source.source
    if not isinstance(source, WithWindows) or not private(source):
        return None
    ends = [
        known[called[name]].upper
        for name, window in source.windows
        if name in called
        and window.kind is WindowKind.ROW_NUMBER
        and all(isinstance(part, Column) and called.get(part.name) in by for part in window.partition)
    ]
    found = [max(int(end), 1) for end in ends if end is not None]
    return min(found, default=None)


def _on_columns(relation: Join) -> frozenset[str]:
    """Return the columns of the right side that a join compares."""
    return frozenset(key.name for _, key in relation.on if isinstance(key, Column))


def _one_row(relation: Relation, on: frozenset[str]) -> bool:
    """Return whether the shape of a public relation proves that no two of its rows agree on some columns."""
    match relation:
        case Filter():
            return _one_row(relation.source, on)
        case Project():
            return _one_row(relation.source, _named_below(relation, on))
        case PerUnit():
            return not private(relation) and {name for name, _ in relation.keys} <= on
        case _:
            return False


def _named_below(relation: Project, names: frozenset[str]) -> frozenset[str]:
    """Return what columns of a projection are called in its source, where they are columns there."""
    return frozenset(value.name for name, value in relation.columns if name in names and isinstance(value, Column))


def _keyed(relation: Relation, by: frozenset[str]) -> bool:
    """Return whether a unit has one row at most for each combination of some columns."""
    match relation:
        case Filter():
            return most_by_number(relation, by) == 1 or _keyed(relation.source, by)
        case WithWindows():
            return _keyed(relation.source, by)
        case Project():
            return _keyed(relation.source, _named_below(relation, by))
        case PerUnit():
            return {name for name, _ in relation.keys} <= by
        case Join():
            return not relation.kind.widens and _keyed(relation.left, by)
        case _:
            return False


def _typical(relation: Relation, schema: Schema) -> tuple[int, int]:
    """Return how many rows in a group, and groups, a unit has by what the policy declares of the tables that make them.

    Where a public table joins, its rows decide how many there are, so all tables count that the question reads.
    """
    match relation:
        case Scan():
            table = schema.tables[relation.table]
            return (table.max_rows, table.max_groups) if not table.public and table.unit is not None else (1, 1)
        case Filter():
            rows, groups = _typical(relation.source, schema)
            most = most_by_number(relation)
            return (rows, groups) if most is None else (min(rows, most), min(groups, most))
        case Project() | WithWindows():
            return _typical(relation.source, schema)
        case PerUnit():
            return _typical(relation.source, schema) if relation.keys else (1, 1)
        case UnionAll():
            parts = [_typical(source, schema) for source in relation.sources]
            alone = sum(part == (1, 1) for part in parts)  # one row of each
            return max(alone, *(rows for rows, _ in parts)), max(alone, *(groups for _, groups in parts))
        case Join() if not relation.kind.widens:
            return _typical(relation.left, schema)
        case Join():
            if private(relation.left) and private(relation.right):
                one, other = _typical(relation.left, schema), _typical(relation.right, schema)
                return max(one[0], other[0]), max(one[1], other[1])
            if _one_row(relation.right, _on_columns(relation)):
                return _typical(relation.left, schema)
            return MAX_ROWS, MAX_GROUPS
        case Constants():
            return 1, 1


def _check_unions(relation: Relation) -> None:
    """Refuse a union of private and public rows: the public ones would belong to nobody."""
    for part in relations_in(relation):
        if isinstance(part, UnionAll) and len({private(source) for source in part.sources}) > 1:
            raise UnplannableError("UNION ALL of private and public rows; join the public table instead")


def _check_repeats(relation: Relation) -> None:
    """Where rows are units, refuse what would need to know that two rows are the same unit."""
    for part in relations_in(relation):
        if isinstance(part, Join) and private(part.left) and private(part.right):
            raise UnplannableError("a join of private tables needs a unit; declare it in the policy")
    seen: set[str] = set()
    for scan in scans(relation):
        if not scan.public and scan.table in seen:
            raise UnplannableError(
                f"table {scan.table!r} is read twice but has no unit; declare its unit in the policy"
            )
        seen.add(scan.table)
