"""Whose rows these are: a column, or a path over foreign keys.

``unit = "patient_id"`` of a data set holds for each of its private tables. A table may say otherwise:

- ``unit = "pid"``: the same unit under another column name;
- ``unit = "orders.customer_id via order_id"``: this table's ``order_id`` refers to a row of ``orders``, whose
  ``customer_id`` is the unit;
- ``unit = "orders.customer_id via order_ref = id"``: the same where the key has another name over there;
- ``unit = "items via item_id"``: whatever unit the row of ``items`` has, however far away; this makes chains.

**Assumption**: the key is the other table's primary key, so that a row has one unit. Where two rows over there share a
key, a row here counts once for each of their units; where none has it, the row belongs to nobody and is left out.
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
"""Returns the names of the columns of a file, written as the policy says; none where they cannot be told."""

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

    def path(self, table: str, seen: tuple[str, ...] = ()) -> UnitPath | None:
        """Return where a table's rows find their unit; None if every row is one."""
        if table not in self._found:
            self._found[table] = self._read(table, (*seen, table))
        return self._found[table]

    def _read(self, table: str, seen: tuple[str, ...]) -> UnitPath | None:
        section = self.tables[table]
        written = section.text("unit", hint=_EMPTY)
        if written is None:
            return None if self.unit is None else UnitPath(column=self.unit)
        if self.unit is None:
            raise section.error(
                "unit", f"table {table} has a unit but its data set has none.", "Say unit = … for the data set."
            )
        match = UNIT_PATH.fullmatch(written)
        if match is None:
            if not _COLUMN.fullmatch(written) or re.search(r"\bvia\b", written, re.IGNORECASE) or "." in written:
                raise section.error(
                    "unit",
                    f"{section.name}.unit cannot be read: '{written[:60]}'.",
                    'Write a column, or "orders.customer_id via order_id".',
                )
            return UnitPath(column=_bare(written))
        other, column, own, key = (None if part is None else _bare(part) for part in match.groups())
        return self._follow(section, str(other), column, str(own), key, seen)

    def _follow(
        self, section: Section, other: str, column: str | None, own: str, key: str | None, seen: tuple[str, ...]
    ) -> UnitPath:
        name = self._names.get(other.casefold())
        if name is None:
            raise section.error(
                "unit", f"there is no private table '{other}' in this data set.", did_you_mean(other, self.tables)
            )
        if name in seen:
            raise section.error("unit", f"the units of {' and '.join(dict.fromkeys(seen))} lead round in a circle.")
        beyond = self.path(name, seen)
        if beyond is None:
            raise section.error("unit", f"table {name} has no unit to lead to.")
        if column is not None and (beyond.hops or beyond.column.casefold() != column.casefold()):
            self._check_column(name, beyond)
            there = f"{name}.{beyond.column}" if not beyond.hops else f"{name} (by a path of its own)"
            raise section.error(
                "unit", f"the unit of table {name} is {there}, not {name}.{column}.", f'Write "{name} via {own}".'
            )
        hop = Hop(column=own, table=name, key=key or own)
        return UnitPath(column=beyond.column, hops=(hop, *beyond.hops))

    def _check_column(self, table: str, path: UnitPath) -> None:
        """Refuse a unit that the table's source does not have, where another table's path calls it otherwise."""
        held = self._header(self.tables[table])
        if path.hops or not held or path.column in held:
            return
        where = self.tables[table] if "unit" in self.tables[table].values else self._data
        raise where.error(
            "unit",
            f"table {table} has no column '{path.column}'.",
            did_you_mean(path.column, held, otherwise=f"It has {', '.join(held[:20])}."),
        )
