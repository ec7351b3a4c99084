"""Answers as files and frames: CSV, JSON, parquet, Arrow, pandas, Polars.

Each noisy output ``x`` is followed by ``x_error``, the half-width of its interval.

A private key is whatever somebody wrote into a row, and a spreadsheet takes a cell that begins like a formula for one.
So in CSV a text that would, once what spreadsheets pass over at its beginning is gone, gets a leading apostrophe; and a
text that has anything but letters, digits and the plainest signs is quoted, so that no line break, tab, comma or
semicolon in it begins another cell. Python's own writer leaves carriage returns bare before 3.13, and semicolons at
all times.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

from hush.core.on_demand import optional
from hush.query.types import Kind
from hush.report.columns import AnswerColumn

_FORMULAS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""First characters of a formula; the last four are full-width signs, which spreadsheets may take for the first four."""
_BREAKS = frozenset("\t\r\n\0")
"""Characters that may end the cell or the line before."""
_PASSED_OVER = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
"""Categories of characters that a spreadsheet may drop before it looks: controls, marks without width, spaces."""
_PLAIN = re.compile(r"[\w.:/-]([\w .:/-]*[\w.:/-])?")


def flat(columns: Sequence[AnswerColumn]) -> dict[str, tuple[Any, ...]]:
    """Return the columns with their errors beside them."""
    result: dict[str, tuple[Any, ...]] = {}
    taken = {column.name for column in columns}
    for column in columns:
        result[column.name] = column.values
        if column.errors is not None:
            label = f"{column.name}_error"
            while label in taken:
                label += "_"
            taken.add(label)
            result[label] = column.errors
    return result


def arrow(columns: Sequence[AnswerColumn], metadata: Mapping[str, str] | None = None) -> Any:
    """Return a pyarrow.Table."""
    pa = optional("pyarrow", "arrow")
    types = {
        Kind.TEXT: pa.string(),
        Kind.BOOLEAN: pa.bool_(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
    }
    kinds = {column.name: column for column in columns}
    arrays = {}
    for label, values in flat(columns).items():
        column = kinds.get(label)
        form = types.get(column.kind) if column is not None else pa.float64()
        if form is None and all(value is None or (isinstance(value, int) and abs(value) < 2**63) for value in values):
            form = pa.int64()
        elif form is None:
            form, values = pa.float64(), tuple(None if value is None else float(value) for value in values)  # noqa: PLW2901
        arrays[label] = pa.array(list(values), type=form)
    table = pa.table(arrays)
    return table.replace_schema_metadata(dict(metadata)) if metadata else table


def to_csv(columns: Sequence[AnswerColumn]) -> str:
    """Return comma-separated lines with a header."""
    cells = flat(columns)
    lines = [cells.keys(), *zip(*cells.values(), strict=True)]
    return "".join(f"{','.join(map(cell, line))}\n" for line in lines)


def cell(value: Any) -> str:
    """Return one value as it stands between two commas; NULL is nothing, an empty text is a pair of quotes."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    text = value.replace("\0", "\ufffd")  # where some readers stop
    begin = next((at for at, sign in enumerate(value) if unicodedata.category(sign) not in _PASSED_OVER), len(value))
    if value[begin : begin + 1] in _FORMULAS or value[:1] in _BREAKS:
        text = f"'{text}"
    return text if _PLAIN.fullmatch(text) else '"' + text.replace('"', '""') + '"'


def rows(columns: Sequence[AnswerColumn]) -> list[list[Any]]:
    """Return the values row by row, ready for JSON."""
    plain = (bool, int, float, str, NoneType)
    cells = ([v if isinstance(v, plain) else str(v) for v in column.values] for column in columns)
    return [list(row) for row in zip(*cells, strict=True)]


def errors(columns: Sequence[AnswerColumn]) -> list[list[float | None]]:
    """Return the half-widths row by row, None for keys."""
    size = len(columns[0].values) if columns else 0
    parts = [column.errors if column.errors is not None else (None,) * size for column in columns]
    return [list(row) for row in zip(*parts, strict=True)]


def dumps(value: Any) -> str:
    """Return JSON, with NaN nowhere in it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
