"""Answers as tables: for terminals, notebooks, and plain text.

Keys and names are texts that others chose, so control characters in them are shown, not obeyed. Cells that say nothing
(`AnswerColumn.tells`) are marked with a small ring and written faintly; a note tells what the mark means.

>>> n = AnswerColumn(name="n", kind=Kind.INTEGER, values=(28, 2), errors=(3.0, 3.0), counts=True)
>>> print(text_table([n]))
       n
28 ± 3
 2 ± 3 °
>>> marks([n])
('° says nothing: its ± covers 0, or all that is possible',)
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from hush.core.format import visible
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, shown, shown_error

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from hush.core.chart import Chart

MAX_ROWS = 100
MARK = "°"
"""Stands behind a cell that says nothing."""
_LONG, _LONGEST = 24, 60
_QUIET = ";opacity:.5"
_LEFT, _NARROW, _RIGHT = "text-align:left", "text-align:left;white-space:nowrap", "text-align:right;white-space:nowrap"


def cell(column: AnswerColumn, at: int) -> str:
    """Return one cell with its error: ``1,204 ± 46``."""
    value = column.values[at]
    if isinstance(value, bool):
        return str(value).lower()
    if column.errors is None:
        return str(value) if isinstance(value, int) else shown(value)
    error = column.errors[at]
    if value is None:
        return "NULL"
    unit = {Kind.DATE: " days", Kind.TIMESTAMP: " s"}.get(column.kind, "") if error is not None else ""
    return f"{shown(value, error)} ± {shown_error(error)}{unit}{'' if column.tells(at) else ' ' + MARK}"


def marks(columns: Sequence[AnswerColumn]) -> tuple[str, ...]:
    """Return the note that explains the marks of a table, if it has any."""
    marked = any(
        value is not None and not column.tells(row)
        for column in columns
        if column.noisy and column.kind.numeric
        for row, value in enumerate(column.values)
    )
    return (f"{MARK} says nothing: its ± covers 0, or all that is possible",) if marked else ()


def beside(table: str, drawn: Chart) -> str:
    """Return the HTML of a table with its chart beside it, or under it where there is no room."""
    data = base64.b64encode(drawn.svg.encode()).decode()
    image = f'<img alt="{escape(drawn.words)}" src="data:image/svg+xml;base64,{data}" style="max-width:100%">'
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start">'
        f'<div style="flex:1 1 20em;max-width:36em;overflow-x:auto">{table}</div><div>{image}</div></div>'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """An answer for the terminal: a table if it fits, else row by row, with notes underneath at full width."""

    columns: tuple[AnswerColumn, ...]
    notes: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the answer. No console takes a key for markup or an emoji; NULL is dim, unlike a text that reads so."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        size = len(self.columns[0].values) if self.columns else 0
        table, width, cells = Table(box=SIMPLE_HEAD, pad_edge=False), 2, list[list[Text]]()
        for column in self.columns:
            texts = _cells(column, range(min(size, MAX_ROWS)))
            faint = [value is None or not column.tells(at) for at, value in enumerate(column.values[:MAX_ROWS])]
            cells.append([Text(text, style="dim" * dim) for text, dim in zip(texts, faint, strict=True)])
            # the least width at which the table can be read: numbers in one line, texts in a few
            name, numeric = Text(visible(column.name)), column.kind.numeric
            longest = max([len(name), *map(len, texts)])
            width += 3 + (longest if numeric else min(longest, _LONG))
            shape: dict[str, Any] = {"justify": "right", "no_wrap": True} if numeric else {"max_width": 2 * _LONG}
            table.add_column(name, **shape)
        for row in zip(*cells, strict=True):
            if width <= options.max_width:
                table.add_row(*row)
            else:
                record = Table.grid(padding=(0, 2))
                for column, text in zip(self.columns, row, strict=True):
                    record.add_row(Text(visible(column.name), style="bold"), text)
                yield record
                yield ""
        if width <= options.max_width:
            yield table
        if size > MAX_ROWS:
            yield f"[dim]… {size - MAX_ROWS:,} more rows[/]"
        for note in self.notes:
            yield Text(visible(note), style="dim")


def text_table(columns: Sequence[AnswerColumn]) -> str:
    """Return a table in plain characters; long texts are cut."""
    rows = len(columns[0].values) if columns else 0
    size = min(rows, MAX_ROWS)
    grid = []
    for column in columns:
        texts = _cells(column, range(size))
        if column.kind is Kind.TEXT:
            texts = [text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…" for text in texts]
        grid.append([visible(column.name), *texts])
    widths = [max(map(len, cells)) for cells in grid]
    lines = []
    for row in range(size + 1):
        parts = []
        for cells, width, column in zip(grid, widths, columns, strict=True):
            parts.append(cells[row].rjust(width) if column.kind.numeric else cells[row].ljust(width))
        lines.append("  ".join(parts).rstrip())
    if rows > size:
        lines.append(f"… {rows - size:,} more rows")
    return "\n".join(lines)


def _cells(column: AnswerColumn, rows: range) -> list[str]:
    """Return the cells of a column as texts; if some end with a mark, the others end with spaces in its place."""
    texts = [cell(column, row) for row in rows]
    if not any(text.endswith(f" {MARK}") for text in texts) or not column.noisy:
        return texts
    return [text if text.endswith(MARK) else f"{text}  " for text in texts]


def html_table(columns: Sequence[AnswerColumn], *, notes: Sequence[str] = (), more: Sequence[str] = ()) -> str:
    """Return a table for notebooks, with notes below and ``more`` of them behind a click; every text is escaped."""
    styles = [_RIGHT if column.kind.numeric else _LEFT if column.kind is Kind.TEXT else _NARROW for column in columns]
    names = [escape(visible(column.name)) for column in columns]
    head = "".join(f'<th style="{style}">{name}</th>' for name, style in zip(names, styles, strict=True))
    size = len(columns[0].values) if columns else 0
    rows = []
    for at in range(min(size, MAX_ROWS)):
        cells = "".join(
            f'<td style="{style}{"" if column.tells(at) else _QUIET}">{_html_cell(column, at)}</td>'
            for column, style in zip(columns, styles, strict=True)
        )
        rows.append(f"<tr>{cells}</tr>")
    cut = f"<p>… {size - MAX_ROWS:,} more rows</p>" if size > MAX_ROWS else ""
    foot = f"<p><small>{_html_lines(notes)}</small></p>" if notes else ""
    if more:
        count = f"{len(more)} more note{'s' if len(more) > 1 else ''}"
        foot += f"<details><summary><small>{count}</small></summary><p><small>{_html_lines(more)}</small></p></details>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{cut}{foot}"


def _html_lines(notes: Sequence[str]) -> str:
    return "<br>".join(escape(visible(note)) for note in notes)


def _html_cell(column: AnswerColumn, at: int) -> str:
    """Return a cell that shows its error quieter than its value."""
    if column.values[at] is None:
        return "<em>NULL</em>"
    value, sign, error = cell(column, at).partition(" ± ")
    return f'{escape(value)}<span style="opacity:.65"> ± {escape(error)}</span>' if sign else escape(value)
