"""How many rows one row of a private table may become through joins with public tables.

A unit's contribution is bounded after the joins, so the answer is safe whatever they make. The work is not: if one row
could become 10¹², a question that selects one person's rows and multiplies them would be answered at once or fail after
minutes, depending on that person alone, and for any ε. So a question is refused, before the charge, if the product of
what its public tables multiply by exceeds `MAX_FANOUT`. What a public table multiplies by is public: the largest number
of its rows with the same key, or all of them where the join has no equality.

Numbers are compared as DOUBLE in some joins, so keys that are one DOUBLE count as one key here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from hush.engines.sql.build import alias, call, column, count, grouped, select, try_cast
from hush.engines.sql.expressions import render
from hush.engines.sql.forms import Form
from hush.engines.sql.relations import Catalogue, RelationWriter
from hush.query.expressions import Expression
from hush.query.plan.errors import UnplannableError
from hush.query.relations import Filter, Join, PerUnit, Project, Relation, Scan, UnionAll, private

MAX_FANOUT = 10**4
_COUNTABLE = 10**7
"""Public relations that may have more rows are not counted key by key."""

Fetch = Callable[[str], list[tuple[Any, ...]]]
"""Runs a statement."""


def check_fanout(relation: Relation, catalogue: Catalogue, fetch: Fetch) -> None:
    """Refuse a question whose public tables multiply rows too much; reads public tables at most."""
    if _Fanout(catalogue, fetch).of(relation) > MAX_FANOUT:
        raise UnplannableError(
            f"joins with public tables would make more than {MAX_FANOUT} rows of one; "
            "join them on a key that few of their rows share"
        )


class _Fanout:
    def __init__(self, catalogue: Catalogue, fetch: Fetch) -> None:
        self._catalogue = catalogue
        self._fetch = fetch

    def of(self, relation: Relation) -> int:
        """Return how many rows one row of a private table becomes at most."""
        match relation:
            case Scan():
                return 1
            case Filter() | Project() | PerUnit():
                return self.of(relation.source)
            case UnionAll():
                return sum(self.of(source) for source in relation.sources)
            case Join():
                sides = (
                    (relation.left, [one for one, _ in relation.on]),
                    (relation.right, [two for _, two in relation.on]),
                )
                return prod(self.of(side) if private(side) else self._matches(side, keys) for side, keys in sides)

    def _matches(self, public: Relation, keys: Sequence[Expression]) -> int:
        """Return how many rows of a public relation have the same keys at most, and at least 1."""
        rows = self._rows(public)
        if not keys or not 1 < rows <= _COUNTABLE:
            return max(rows, 1)
        rendered = RelationWriter(self._catalogue).write(public, alone=True)
        values = [render(key, rendered.columns).finite() for key in keys]
        cells = [try_cast(value.sql, "DOUBLE") if value.form is Form.INTEGER else value.sql for value in values]
        named = [alias(cell, f"k{at}") for at, cell in enumerate(cells)]
        by = [column(f"k{at}", "t") for at in range(len(cells))]
        groups = grouped(select([alias(count(), "n")], select(named, rendered.query)), by)
        found = self._fetch(select([call("max", column("n", "t"))], groups).text)
        return max(found[0][0] or 0, 1)

    def _rows(self, public: Relation) -> int:
        """Return how many rows a public relation has at most."""
        match public:
            case Scan():
                rendered = RelationWriter(self._catalogue).write(public, alone=True)
                return int(self._fetch(select([count()], rendered.query).text)[0][0])
            case Filter() | Project() | PerUnit():
                return self._rows(public.source)
            case UnionAll():
                return sum(self._rows(source) for source in public.sources)
            case Join():
                return self._rows(public.left) * max(self._rows(public.right), 1)
