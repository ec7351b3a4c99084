"""How many rows and cells of a source cannot be read as the policy says. Exact, so for the owner alone.

Nothing here goes into a log, a ledger or an answer: the numbers are facts about rows, and spend no budget because
nobody but the owner, who has the rows, is told. They say whether an encoding, a decimal mark or a type is misdeclared:
a column of which every cell is unread was not written as the policy believes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hush.engines.duckdb.delimited import Tally
from hush.engines.duckdb.loading import said
from hush.engines.duckdb.registering import OpenSources
from hush.engines.duckdb.sources import Source, declared_columns
from hush.engines.sql.build import Sql, binary, column, count, not_null, read, select
from hush.engines.sql.forcing import force
from hush.query.schema import Schema
from hush.query.types import Kind, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """What of one table cannot be read."""

    rows: int
    lines: Tally | None
    """How the lines of a text file were read."""
    cells: Mapping[str, int]
    """Cells of each declared column that hold something, and are NULL as its type or among its values."""
    without_unit: int | None
    """Rows without their unit; None where it is in another table, or every row is one."""


def count_unread(schema: Schema, name: str, source: Source) -> Unread:
    """Read a table whole, and count what cannot be read of it."""
    table = schema.tables[name]
    raw = replace(table, columns=dict.fromkeys(table.columns, Type(Kind.TEXT)))
    plain = replace(schema, tables={**schema.tables, name: raw})
    with OpenSources({name: source}, {name: declared_columns(plain, name)}) as opened:
        opened.register(plain)
        lines = opened.renew(name, plain) if source.lines else None
        types = opened.types[name]
        conditions: dict[str, Sql] = {}
        for label, type_ in table.columns.items():
            if label not in types:
                continue
            cell: Sql = column(label)
            written = said(cell, source, type_.kind) if types[label] == "VARCHAR" else cell
            forced = force(written, types[label], replace(type_, nullable=True)).sql
            conditions[label] = binary("AND", not_null(cell), Sql(f"({forced}) IS NULL"))
        unit = table.unit.column if table.unit is not None and not table.unit.hops else None
        if unit is not None and unit in types:
            conditions["\0"] = Sql(f"{column(unit)} IS NULL")
        counted = [count(), *(count(condition) for condition in conditions.values())]
        rows, *counts = opened.connection.execute(select(counted, read(opened.places[name], "t")).text).fetchall()[0]
    found = dict(zip(conditions, counts, strict=True))
    return Unread(rows=rows, lines=lines, without_unit=found.pop("\0", None), cells=found)
