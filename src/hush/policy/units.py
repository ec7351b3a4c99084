"""The unit of each row: a column, or a path over foreign keys.

``unit = "patient_id"`` of a data set holds for each of its private tables. A table may say otherwise:

- ``unit = "pid"``: the same unit under another column name;
- ``unit = "orders.customer_id via order_id"``: this table's ``order_id`` refers to a row of ``orders``; the unit is
  its ``customer_id``;
- ``unit = "orders.customer_id via order_ref = id"``: the same where the key has another name over there;
- ``unit = "items via item_id"``: the unit of the row of ``items``, however far away; this makes chains.

**Assumption**: a key over there leads to one unit, as a primary key does. Where none has the key, the row belongs to
nobody and is left out. ``hush check --rows`` tells the owner of keys that lead to several units. No question may: that
would tell the analyst of rows.

A row behind a key that several units share counts once for each of them. Let *V* be the pairs (row, unit). A unit that
leaves takes along its own rows over there, and rows here that lead to it alone. Then *V* loses the pairs of this unit,
and no other: another's pair (row, unit) needs but the row, which stays, and a row over there that is not this unit's.
So bounds for each unit make sensitivities that hold, whichever keys are shared (``tests/conformance/worlds.py``).

A shared row that leaves *as well* takes along the pairs of all its units: it is protected as that many units are. No
other way to count would mend this. Let Ada share the key i with the unit i, for m units, with a row here behind each.
Without Ada the m rows are those of m units; without Ada and the rows there are none. The first two worlds must differ
by one unit's bound if leaving rows behind is to be protected, the first and the third if taking them along is. Then the
counts m and 0 of unshared keys would differ by two units' bounds, and they do not. To give a row to the first of its
units, or to nobody, protects the second and not the first: Ada's absence would move m rows to m other units.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hush.policy.document import Section
from hush.query.errors import did_you_mean
from hush.query.schema import Hop, UnitPath

Header = Callable[[Path, Mapping[str, Any]], Sequence[str]]
"""Returns the column names of a file in the declared format; empty where they cannot be read."""

_NAME = r'(?:[^\s."=]+|"[^"]+")'
UNIT_PATH = re.compile(rf"({_NAME})(?:\.({_NAME}))?\s+via\s+({_NAME})(?:\s*=\s*({_NAME}))?", re.IGNORECASE)
_COLUMN = re.compile(rf"{_NAME}(?:\s+{_NAME})*")


def no_header(_file: Path, _reading: Mapping[str, Any]) -> Sequence[str]:
    """Tell nothing of a file's columns."""
    return []


def _bare(name: str) -> str:
    return name.strip('"')


_EMPTY = (
    'Name the column, or the row of another table that says it, as in "orders.customer_id via order_id"; '
    "delete the line to use the data set's unit."
)


class UnitPaths:
    """The unit paths of a data set's private tables, found one from another."""

    def __init__(
        self, unit: str | None, tables: dict[str, Section], data: Section, header: Callable[[Section], Sequence[str]]
    ) -> None:
        self.unit = unit
        self.tables = tables
        self._data = data
        self._header = header
        self._names = {name.casefold(): name for name in tables}
        self._found: dict[str, UnitPath | None] = {}

    def path(self, table: str, visited: tuple[str, ...] = ()) -> UnitPath | None:
        """Return the unit path of a table's rows; None if every row is a unit."""
        if table not in self._found:
            self._found[table] = self._read(table, (*visited, table))
        return self._found[table]

    def _read(self, table: str, visited: tuple[str, ...]) -> UnitPath | None:
        section = self.tables[table]
        text = section.text("unit", hint=_EMPTY)
        if text is None:
            return None if self.unit is None else UnitPath(column=self.unit)
        if self.unit is None:
            raise section.error(
                "unit", f"table {table} has a unit but its data set has none.", "Say unit = … for the data set."
            )
        match = UNIT_PATH.fullmatch(text)
        if match is None:
            if not _COLUMN.fullmatch(text) or re.search(r"\bvia\b", text, re.IGNORECASE) or "." in text:
                raise section.error(
                    "unit",
                    f"{section.name}.unit cannot be read: '{text[:60]}'.",
                    'Write a column, or "orders.customer_id via order_id".',
                )
            return UnitPath(column=_bare(text))
        target, column, reference, key = (None if group is None else _bare(group) for group in match.groups())
        return self._follow(section, str(target), column, str(reference), key, visited)

    def _follow(
        self,
        section: Section,
        target: str,
        column: str | None,
        reference: str,
        key: str | None,
        visited: tuple[str, ...],
    ) -> UnitPath:
        name = self._names.get(target.casefold())
        if name is None:
            raise section.error(
                "unit", f"there is no private table '{target}' in this data set.", did_you_mean(target, self.tables)
            )
        if name in visited:  # the tables on the way here
            raise section.error("unit", f"the units of {' and '.join(dict.fromkeys(visited))} lead round in a circle.")
        beyond = self.path(name, visited)
        if beyond is None:
            raise section.error("unit", f"table {name} has no unit to lead to.")
        if column is not None and (beyond.hops or beyond.column.casefold() != column.casefold()):
            self._check_column(name, beyond)
            actual = f"{name}.{beyond.column}" if not beyond.hops else f"{name} (by a path of its own)"
            raise section.error(
                "unit",
                f"the unit of table {name} is {actual}, not {name}.{column}.",
                f'Write "{name} via {reference}".',
            )
        hop = Hop(column=reference, table=name, key=key or reference)
        return UnitPath(column=beyond.column, hops=(hop, *beyond.hops))

    def _check_column(self, table: str, path: UnitPath) -> None:
        """Refuse a unit that the table's source does not have, where another table's path calls it otherwise."""
        columns = self._header(self.tables[table])
        if path.hops or not columns or path.column in columns:
            return
        where = self.tables[table] if "unit" in self.tables[table].values else self._data
        raise where.error(
            "unit",
            f"table {table} has no column '{path.column}'.",
            did_you_mean(path.column, columns, otherwise=f"It has {', '.join(columns[:20])}."),
        )
