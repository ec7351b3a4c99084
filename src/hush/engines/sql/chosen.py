"""Rows of the groups that were chosen: private keys become numbers, and rows of other groups fall out.

This happens *after* the rows were bounded: which groups of a unit are kept depends on that unit's rows alone, and never
on which keys were chosen. The chosen keys and their numbers lie in a table of the session's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from hush.engines.sql.build import Query, alias, both, column, joined, matches, read, select

CHOSEN = "chosen"
"""The table of the chosen keys: ``number`` and the key columns; every key is there once."""
NUMBER = "number"


def numbered_by_choice(rows: Query, keys: Sequence[str]) -> Query:
    """Return the rows with a chosen key, which is now the number ``k``, and all their other columns."""
    labels = [label for label in rows.labels if label not in keys]
    same = both([matches(column(key, "t"), column(key, "c")) for key in keys])
    cells = [column(label, "t") for label in labels]
    return joined(select([alias(column(NUMBER, "c"), "k"), *cells], rows), read(CHOSEN, "c"), "inner", same)


def without_choice(main: str, keys: Sequence[str]) -> str:
    """Return a statement that lets the others be read, without running, before anything is chosen: a view of all."""
    columns = ", ".join(f'"{key}"' for key in keys)
    return f'CREATE TEMP VIEW "{CHOSEN}" AS SELECT 0 AS "{NUMBER}", {columns} FROM ({main}) AS t'  # noqa: S608
