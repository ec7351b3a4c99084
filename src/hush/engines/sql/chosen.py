"""Rows of the groups that were chosen: private keys become numbers, and rows of other groups fall out.

This happens *after* the rows were bounded: which groups of a unit are kept depends on that unit's rows alone, and never
on which keys were chosen. The chosen keys and their numbers lie in a table of the session's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from hush.engines.sql.build import alias, both, column, joined, name, select

CHOSEN = "chosen"
"""The table of the chosen keys: ``number`` and the key columns; every key is there once."""
NUMBER = "number"


def numbered_by_choice(rows: exp.Select, keys: Sequence[str]) -> exp.Select:
    """Return the rows with a chosen key, which is now the number ``k``, and all their other columns."""
    labels = [item.alias_or_name for item in rows.expressions if item.alias_or_name not in keys]
    same = both([exp.NullSafeEQ(this=column(key, "t"), expression=column(key, "c")) for key in keys])
    table = exp.Table(this=name(CHOSEN), alias=exp.TableAlias(this=name("c")))
    cells = [alias(column(label, "t"), label) for label in labels]
    return joined(select([alias(column(NUMBER, "c"), "k"), *cells], rows), table, "inner", same)


def without_choice(main: str, keys: Sequence[str]) -> str:
    """Return a statement that lets the others be read, without running, before anything is chosen: a view of all."""
    columns = ", ".join(f'"{key}"' for key in keys)
    return f'CREATE TEMP VIEW "{CHOSEN}" AS SELECT 0 AS "{NUMBER}", {columns} FROM ({main}) AS t'  # noqa: S608
