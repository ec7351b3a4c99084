"""Answers as tables: for terminals, notebooks, and plain text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from hush.report.columns import Column, shown, shown_error

if TYPE_CHECKING:
    from rich.console import Group

MAX_ROWS = 100


def cell(column: Column, at: int) -> str:
    """Return one cell with its error: ``1,204 ± 46``."""
    if column.errors is None:
        value = column.values[at]
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else shown(value)
    error = column.errors[at]
    if column.values[at] is None:
        return "NULL"
    return f"{shown(column.values[at], error)} ± {shown_error(error)}"


def rich_table(columns: Sequence[Column], *, notes: Sequence[str] = (), limit: int = MAX_ROWS) -> Group:
    """Return a table for the terminal, with its notes underneath at full width."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.markup import escape as markup
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(markup(column.name), justify="right" if column.kind.numeric else "left")
    size = len(columns[0].values) if columns else 0
    for at in range(min(size, limit)):
        table.add_row(*(markup(cell(column, at)) for column in columns))
    if size > limit:
        table.add_row(*(["…"] * len(columns)))
    return Group(table, *(f"[dim]{markup(note)}[/]" for note in notes))


def text_table(columns: Sequence[Column], *, limit: int = MAX_ROWS) -> str:
    """Return a table in plain characters."""
    size = min(len(columns[0].values) if columns else 0, limit)
    grid = [[column.name, *(cell(column, at) for at in range(size))] for column in columns]
    widths = [max(map(len, cells)) for cells in grid]
    lines = []
    for row in range(size + 1):
        parts = []
        for cells, width, column in zip(grid, widths, columns, strict=True):
            parts.append(cells[row].rjust(width) if column.kind.numeric else cells[row].ljust(width))
        lines.append("  ".join(parts).rstrip())
    if columns and len(columns[0].values) > limit:
        lines.append("…")
    return "\n".join(lines)


def html_table(columns: Sequence[Column], *, notes: Sequence[str] = (), limit: int = MAX_ROWS) -> str:
    """Return a table for notebooks; every text is escaped."""
    head = "".join(f"<th>{escape(column.name)}</th>" for column in columns)
    size = len(columns[0].values) if columns else 0
    rows = []
    for at in range(min(size, limit)):
        cells = "".join(
            f'<td style="text-align:{"right" if column.kind.numeric else "left"}">{escape(cell(column, at))}</td>'
            for column in columns
        )
        rows.append(f"<tr>{cells}</tr>")
    more = f"<p>… {size - limit} more rows</p>" if size > limit else ""
    foot = "".join(f"<p><small>{escape(note)}</small></p>" for note in notes)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}{foot}"
