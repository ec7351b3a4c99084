"""Counts of rows and cells that cannot be read as the policy says, and words of the policy that would read more.

All of these numbers are exact, so they are for the owner alone. Nothing here goes into a log, a ledger or an answer:
the numbers are facts about rows, and spend no budget because nobody but the owner, who has the rows, is told.

A column of which most cells are unread was not written as the policy believes. For such a column, other formats of
dates and other decimal marks are tried, and the one that reads most of its cells is proposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hush.engines.sql.forcing import force
from hush.engines.sql.nodes import Scalar, Select, column, count, select
from hush.engines.sql.nodes import read as stored_rows
from hush.engines.sql.relations import Catalogue, shared_key_counts
from hush.query.schema import Table
from hush.query.types import Kind, Type

Words = tuple[str, str]
"""A key of the policy and its value, such as ("format", "%d/%m/%Y")."""
Normalise = Callable[[Scalar, Type, str | None], Scalar]
"""A cell as the casts read it, from a column, its type and another decimal mark than the declared one."""


@dataclass(slots=True)
class Tally:
    """How a file was read. Exact facts about rows, so for the owner alone."""

    rows: int = 0
    short: int = 0
    """Rows with fewer fields than there are columns."""
    long: int = 0
    """Rows with more."""
    broken: int = 0
    """Lines with a quote that opens a field and does not close it."""
    replaced: int = 0
    """Characters that the encoding does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCells:
    """The cells of one column that hold something."""

    filled: int
    unread: int
    """Those that are NULL as the column's type, or among its values."""
    others: Mapping[Words, int] = field(default_factory=dict)
    """How many can be read with other words, of a column that is mistaken."""
    mistaken: bool
    """Whether the policy must be wrong about it: most texts are unread, or all cells where values are listed."""

    @property
    def proposals(self) -> list[Words]:
        """The words that read the most cells, if these are more than half; several if they read equally many."""
        best = max(self.others.values(), default=0)
        return [words for words, number in self.others.items() if number == best and 2 * best > self.filled]


class Unread(NamedTuple):
    """The rows and cells of one table that cannot be read."""

    rows: int
    cells: Mapping[str, ColumnCells]
    without_unit: int | None
    """Rows without their unit; None where it is in another table, or every row is one."""
    shared_keys: int
    """Keys by which other tables find their unit here, and that lead to several."""
    lines: Tally | None = None
    """How the lines of a text file were read."""
    encoding: str = ""
    """The encoding that the file seems to have, if that is another than the declared one."""


def count_cells(
    table: Table,
    catalogue: Catalogue,
    fetch: Callable[[Select], Sequence[Any]],
    *,
    normalise: Normalise = lambda cell, _type, _decimal: cell,
    decimals: Iterable[str] = (),
) -> Unread:
    """Count the rows of a table, its unread cells and its shared keys; ``fetch`` returns one row."""
    types, rows = catalogue.types[table.name], stored_rows(catalogue.tables[table.name], "t")

    def read(label: str, type_: Type, decimal: str | None = None) -> Scalar:
        cell: Scalar = column(label)
        cell = normalise(cell, type_, decimal) if types[label] == "VARCHAR" else cell
        # nullable, or what cannot be read would get the type's default instead of NULL
        return count(force(cell, types[label], replace(type_, nullable=True)).sql.not_null())

    columns = {label: type_ for label, type_ in table.columns.items() if label in types}
    unit = table.unit.column if table.unit is not None and not table.unit.hops else None
    missing = [count(column(unit).is_null())] if unit in types and unit is not None else []
    queries = [count(), *missing]
    for label, type_ in columns.items():
        queries += [count(column(label).not_null()), read(label, type_)]
    row_count, *numbers = fetch(select(queries, rows))
    without_unit = numbers.pop(0) if missing else None
    cells: dict[str, ColumnCells] = {}
    for label, type_ in columns.items():
        filled, readable = numbers.pop(0), numbers.pop(0)
        unread = filled - readable
        # a list may well name few of the values that there are, and numbers be NaN
        lenient = type_.values is not None or types[label] != "VARCHAR"
        mistaken = unread == filled > 0 if lenient else 2 * unread > filled
        cells[label] = ColumnCells(filled=filled, unread=unread, mistaken=mistaken)
        if cells[label].mistaken and types[label] == "VARCHAR":
            others: dict[Words, Scalar] = {}
            if type_.kind in {Kind.DATE, Kind.TIMESTAMP}:
                from hush.query.date_formats import USUAL

                others = {("format", words): read(label, replace(type_, format=words)) for words in USUAL}
            elif type_.kind.numeric:
                others = {("decimal", mark): read(label, type_, mark) for mark in decimals}
            tried = fetch(select(list(others.values()), rows)) if others else []
            cells[label] = replace(cells[label], others=dict(zip(others, tried, strict=True)))
    shared = sum([fetch(query)[0] for query in shared_key_counts(catalogue, table.name)])
    return Unread(rows=row_count, cells=cells, without_unit=without_unit, shared_keys=shared)
