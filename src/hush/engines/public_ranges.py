"""What public tables say of themselves: between which values their columns lie.

The owner declares bounds of private columns, because the data must not decide them. A public table has no secrets, so
what its policy leaves open is looked up: the least and the greatest value of each number, date and time, as it is read
(finite, within the calendar). Where there is none, any range is true.

The file may change after it was looked at. The range then is the question's all the same: it is part of the types in
the plan, and the engine forces every value that it reads into it (`hush.engines.sql.forms.force`), so sensitivities
hold for whatever is there; only what lies outside is taken for the nearest end until the next question looks again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hush.engines.sql.build import Sql, call, column, read, select
from hush.engines.sql.forcing import force
from hush.engines.sql.relations import Catalogue
from hush.query.schema import Schema, Table
from hush.query.types import Kind, Type, position

Fetch = Callable[[str], list[tuple[Any, ...]]]
"""Runs a statement over public tables."""

_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


def with_public_ranges(catalogue: Catalogue, fetch: Fetch) -> Schema:
    """Return the catalogue's schema, in which public columns without bounds have those of their values."""
    tables = dict(catalogue.schema.tables)
    for label, table in tables.items():
        if table.public:
            tables[label] = _described(table, catalogue, fetch)
    return replace(catalogue.schema, tables=tables)


def _described(table: Table, catalogue: Catalogue, fetch: Fetch) -> Table:
    stored = catalogue.types[table.name]
    known: dict[str, Type] = dict(table.columns)
    cells: list[Sql] = []
    open_: list[str] = []
    for label, type_ in known.items():
        if type_.kind.ranged and not type_.bounded and type_.values is None and label in stored:
            known[label] = _with_step(type_, stored[label])
            value = force(column(label, "s"), stored[label], known[label]).sql
            cells += [call("min", value), call("max", value)]
            open_.append(label)
    if not open_:
        return table
    (ends,) = fetch(select(cells, read(catalogue.tables[table.name], "s")).text)
    for at, label in enumerate(open_):
        known[label] = _within(known[label], *ends[2 * at : 2 * at + 2])
    return replace(table, columns=known)


def _with_step(type_: Type, physical: str) -> Type:
    """Return a type with the step that the engine's type has: DECIMAL(9, 2) counts in hundredths."""
    decimals = _DECIMAL.fullmatch(physical)
    if type_.kind is not Kind.DECIMAL or type_.step is not None or decimals is None or int(decimals[2]) > 15:
        return type_
    return replace(type_, step=Fraction(1, 10 ** int(decimals[2])))


def _within(type_: Type, least: Any, most: Any) -> Type:
    if least is None:
        nearest = type_.lower if type_.lower is not None else type_.upper if type_.upper is not None else Fraction(0)
        return replace(type_, lower=nearest, upper=nearest)
    lower, upper = _place(least), _place(most)  # forced, hence within the bound that there is
    return replace(
        type_,
        lower=lower if type_.lower is None else type_.lower,
        upper=upper if type_.upper is None else type_.upper,
    )


def _place(value: Any) -> Fraction:
    return Fraction(str(value)) if isinstance(value, int | float) else position(value)
