"""How many rows one row of a private table may become through joins with public tables.

A unit's contribution is bounded after the joins, so the answer is safe whatever they make. The work is not: if one row
could become 10¹², a question that selects one person's rows and multiplies them would be answered at once or fail after
minutes, depending on that person alone, and for any ε. So a question is refused, before the charge, if the product of
what its public tables multiply by exceeds `MAX_FANOUT`. What a public table multiplies by is public: the largest number
of its rows with the same key, or all of them where the join has no equality.

A unit may have many rows to begin with, so a product below that is no bound for a unit. Where the rows of one that has
`STORED` rows in every table might become more than a unit may have after a join (`hush.engines.work`), the join counts
them, and leaves such a unit out (`checked`). Elsewhere, as in a join on a public table's own key, nothing is counted.

Numbers are compared as DOUBLE in some joins, so keys that are one DOUBLE count as one key here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from math import prod
from typing import Any

from hush.engines.sql.build import alias, call, column, count, grouped, select
from hush.engines.sql.expressions import render
from hush.engines.sql.relations import MOST_PAIRS, Catalogue, RelationWriter
from hush.engines.sql.values import Form
from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
from hush.query.relations import (
    Constants,
    Filter,
    Join,
    PerUnit,
    Project,
    Relation,
    Scan,
    UnionAll,
    WithWindows,
    private,
    tables,
)

MAX_FANOUT = 10**4
STORED = 10**5
"""What one unit can cost is said for one that has so many rows in a table."""
_COUNTABLE = 10**7
"""Public relations that may have more rows are not counted key by key."""

Fetch = Callable[[str], list[tuple[Any, ...]]]
"""Runs a statement."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What joins make of the rows of one unit that has `STORED` rows, or one where a row is a unit."""

    rows: int
    """How many there are in the end at most."""
    checked: frozenset[int]
    """The joins with public tables that have to count, by their number: a join comes before those inside of it."""


def check_fanout(relation: Relation, catalogue: Catalogue, fetch: Fetch) -> Spread:
    """Refuse a question whose public tables multiply rows too much; reads public tables at most."""
    fanout = _Fanout(catalogue, fetch)
    if fanout.of(relation) > MAX_FANOUT:
        raise UnplannableError(
            f"joins with public tables would make more than {MAX_FANOUT} rows of one; "
            "join them on a key that few of their rows share"
        )
    checked: set[int] = set()
    owned = any(catalogue.schema.tables[name].unit is not None for name in tables(relation))  # else rows are units
    rows = fanout.spread(relation, STORED if owned else 1, checked, count_from(0))
    return Spread(rows, frozenset(checked))


def public_rows(relation: Relation, catalogue: Catalogue, fetch: Fetch) -> int:
    """Return how many rows a public relation has at most; reads public tables."""
    return _Fanout(catalogue, fetch).rows(relation)


class _Fanout:
    def __init__(self, catalogue: Catalogue, fetch: Fetch) -> None:
        self._catalogue = catalogue
        self._fetch = fetch

    def of(self, relation: Relation) -> int:
        """Return how many rows one row of a private table becomes at most."""
        match relation:
            case Scan() | Constants():
                return 1
            case Filter() | Project() | PerUnit() | WithWindows():
                return self.of(relation.source)
            case UnionAll():
                return sum(self.of(source) for source in relation.sources)
            case Join():
                if not relation.kind.widens and relation.on and relation.where is None:
                    return self.of(relation.left)  # looked up, not paired
                sides = (
                    (relation.left, [one for one, _ in relation.on]),
                    (relation.right, [two for _, two in relation.on]),
                )
                return prod(self.of(side) if private(side) else self._matches(side, keys) for side, keys in sides)

    def spread(self, relation: Relation, stored: int, checked: set[int], numbers: Iterator[int]) -> int:
        """Return how many rows a unit has at most, and add the joins that must count; 1 for public relations."""
        match relation:
            case Scan():
                return 1 if relation.public else stored
            case Constants():
                return 1
            case Filter() | Project() | PerUnit() | WithWindows():
                return self.spread(relation.source, stored, checked, numbers)
            case UnionAll():
                return sum(self.spread(source, stored, checked, numbers) for source in relation.sources)
            case Join():
                number = next(numbers)
                left, right = (self.spread(side, stored, checked, numbers) for side in (relation.left, relation.right))
                if private(relation.left) and private(relation.right):
                    return MOST_PAIRS if relation.kind.widens else min(left, MOST_PAIRS)
                if not private(relation):
                    return 1
                mine = private(relation.left)
                keys = [theirs if mine else ours for ours, theirs in relation.on]
                if not relation.kind.widens and relation.on and relation.where is None:
                    return left
                rows = (left if mine else right) * self._matches(relation.right if mine else relation.left, keys)
                if rows > MOST_PAIRS:
                    checked.add(number)
                return min(rows if relation.kind.widens else left, MOST_PAIRS)

    def _matches(self, public: Relation, keys: Sequence[Expression]) -> int:
        """Return how many rows of a public relation have the same keys at most, and at least 1."""
        rows = self.rows(public)
        if not keys or not 1 < rows <= _COUNTABLE:
            return max(rows, 1)
        rendered = RelationWriter(self._catalogue).write(public, alone=True)
        values = [render(key, rendered.columns).finite() for key in keys]
        cells = [value.double().sql if value.form is Form.INTEGER else value.sql for value in values]
        named = [alias(cell, f"k{at}") for at, cell in enumerate(cells)]
        by = [column(f"k{at}", "t") for at in range(len(cells))]
        groups = grouped(select([alias(count(), "n")], select(named, rendered.query)), by)
        found = self._fetch(select([call("max", column("n", "t"))], groups).text)
        return max(found[0][0] or 0, 1)

    def rows(self, public: Relation) -> int:
        """Return how many rows a public relation has at most."""
        match public:
            case Scan():
                rendered = RelationWriter(self._catalogue).write(public, alone=True)
                return int(self._fetch(select([count()], rendered.query).text)[0][0])
            case PerUnit() if not public.keys:
                return 1
            case Filter() | Project() | PerUnit() | WithWindows():
                return self.rows(public.source)
            case Constants():
                return len(public.rows)
            case UnionAll():
                return sum(self.rows(source) for source in public.sources)
            case Join() if not public.kind.widens:
                return self.rows(public.left)
            case Join():
                return self.rows(public.left) * self._matches(public.right, [theirs for _, theirs in public.on])
