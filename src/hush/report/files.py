"""Answers as files and frames: CSV, JSON, parquet, Arrow, pandas, Polars.

Each noisy output ``x`` is followed by ``x_error``, the half-width of its interval. Texts that a spreadsheet would take for a
formula are written with a leading apostrophe in CSV.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from hush.core import HushError
from hush.query.types import Kind
from hush.report.columns import Column

_RISKY = ("=", "+", "-", "@", "\t", "\r")


def flat(columns: Sequence[Column]) -> dict[str, tuple[Any, ...]]:
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


def arrow(columns: Sequence[Column], metadata: Mapping[str, str] | None = None) -> Any:
    """Return a pyarrow.Table."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise HushError("this needs pyarrow; install it with: pip install 'hush[arrow]'") from error
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
        if form is None:
            small = all(value is None or (isinstance(value, int) and abs(value) < 2**63) for value in values)
            form = pa.int64() if small else pa.float64()
            if not small:
                arrays[label] = pa.array([None if value is None else float(value) for value in values], type=form)
                continue
        arrays[label] = pa.array(list(values), type=form)
    table = pa.table(arrays)
    return table.replace_schema_metadata(dict(metadata)) if metadata else table


def to_csv(columns: Sequence[Column]) -> str:
    """Return comma-separated lines with a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    cells = flat(columns)
    writer.writerow(_safe(label) for label in cells)
    writer.writerows([_safe(value) for value in row] for row in zip(*cells.values(), strict=True))
    return out.getvalue()


def _safe(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_RISKY):
        return "'" + value
    return "" if value is None else value


def rows(columns: Sequence[Column]) -> list[list[Any]]:
    """Return the values row by row, ready for JSON."""
    return [list(row) for row in zip(*([_json(v) for v in column.values] for column in columns), strict=True)]


def errors(columns: Sequence[Column]) -> list[list[float | None]]:
    """Return the half-widths row by row, None for keys."""
    size = len(columns[0].values) if columns else 0
    parts = [column.errors if column.errors is not None else (None,) * size for column in columns]
    return [list(row) for row in zip(*parts, strict=True)]


def _json(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def dumps(value: Any) -> str:
    """Return JSON, with NaN nowhere in it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
