"""Files of other programs: Excel, Stata, SPSS and SAS, every cell as the text that stands for it.

A sheet has no types but those of its cells, and a variable of a statistics program has one that missing values change
on the way. So both are read like CSV: all texts, forced into the declared types by total casts, and no row can change
how another one is read. Dates are written as ISO 8601, whole numbers without a point, missing values are NULL. Value
labels are left aside: a 1 that stands for "yes" is 1.

A sheet's first row names its columns; ``book.xlsx#Sheet2`` names the sheet, else it is the only one. The packages are
those of ``hush[files]``; where one is missing, the error says how to install it.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hush.engines.errors import SourceError, log

PROGRAMS = {
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".dta": "stata",
    ".sav": "spss",
    ".zsav": "spss",
    ".sas7bdat": "sas",
    ".xpt": "sas",
}
"""The format of a file by the ending of its name."""
_NAMES = {"excel": "Excel", "stata": "Stata", "spss": "SPSS", "sas": "SAS"}
_READERS = {
    ".dta": "read_dta",
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


def package(name: str, extra: str, files: str) -> Any:
    """Return a package that an extra of hush brings; where it is missing, say how to install it.

    >>> package("json", "files", "JSON files").__name__
    'json'
    >>> package("no_such_package", "files", "Excel files")
    Traceback (most recent call last):
        ...
    hush.engines.errors.SourceError: to read Excel files, no_such_package is needed: pip install 'hush[files]'
    """
    try:
        return import_module(name)
    except ImportError:
        raise SourceError(f"to read {files}, {name} is needed: pip install 'hush[{extra}]'") from None


def sheets(path: Path) -> list[str]:
    """Return the sheets of a workbook."""
    book = _book(path)
    try:
        return list(book.sheetnames)
    finally:
        book.close()


def sheet_of(path: Path, table: str | None, usual: str) -> str:
    """Return which sheet of a workbook is meant; without a name, the usual one or the only one there is."""
    names = sheets(path)
    sheet = table or (names[0] if len(names) == 1 else usual)
    for name in names:
        if name.casefold() == sheet.casefold():
            return name
    raise SourceError(f"{path.name} has the sheets {', '.join(names)}; name one: '{path.name}#SHEET'")


def program_columns(path: Path, file_format: str, table: str | None, usual: str) -> list[str]:
    """Return the names of the columns, which are schema: a sheet's first row, or the names of variables."""
    if file_format != "excel":
        _, meta = _statistics(path, file_format, metadataonly=True)
        return _distinct(path, meta.column_names)
    book = _book(path)
    try:
        rows = book[sheet_of(path, table, usual)].iter_rows(max_row=1, values_only=True)
        return _distinct(path, [_text(cell) or "" for cell in next(iter(rows), ())])
    finally:
        book.close()


def program_rows(path: Path, file_format: str, table: str | None, usual: str) -> Mapping[str, list[str | None]]:
    """Return all rows as columns of text."""
    names = program_columns(path, file_format, table, usual)
    if file_format != "excel":
        columns, _ = _statistics(path, file_format)
        return {name: [_text(cell) for cell in columns[name]] for name in names}
    book = _book(path)
    try:
        rows = book[sheet_of(path, table, usual)].iter_rows(min_row=2, max_col=len(names), values_only=True)
        texts = [[_text(cell) for cell in row] for row in rows]
    except Exception as error:  # whatever the package makes of a broken file
        raise _unreadable(path, file_format, error) from error
    finally:
        book.close()
    filled = [row + [None] * (len(names) - len(row)) for row in texts if any(cell is not None for cell in row)]
    return {name: [row[index] for row in filled] for index, name in enumerate(names)}


def _book(path: Path) -> Any:
    openpyxl = package("openpyxl", "files", "Excel files")
    try:
        return openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # whatever the package makes of a broken file
        raise _unreadable(path, "excel", error) from error


def _statistics(path: Path, file_format: str, *, metadataonly: bool = False) -> tuple[Any, Any]:
    pyreadstat = package("pyreadstat", "files", f"{_NAMES[file_format]} files")
    read = getattr(pyreadstat, _READERS[path.suffix.lower()])
    try:
        columns, meta = read(str(path), metadataonly=metadataonly, output_format="dict")
    except Exception as error:  # whatever the package makes of a broken file
        raise _unreadable(path, file_format, error) from error
    return columns, meta


def _unreadable(path: Path, file_format: str, error: Exception) -> SourceError:
    log.debug("%s cannot be read: %s", path.name, error)
    return SourceError(
        f"{path.name} is not {'an' if file_format == 'excel' else 'a'} {_NAMES[file_format]} file that can be read"
    )


def _distinct(path: Path, names: Sequence[str]) -> list[str]:
    """Return names of columns, those that are empty by their number; refuse two that are one."""
    labels = [name.strip() or f"column_{number}" for number, name in enumerate(names, start=1)]
    if not labels or len({label.casefold() for label in labels}) != len(labels):
        raise SourceError(f"{path.name} needs a distinct name for each column; capitals do not count")
    return labels


def _text(cell: Any) -> str | None:
    """Return the text of a cell; None, which is NULL, for an empty one.

    >>> [_text(cell) for cell in (3.0, 0.25, float("nan"), True, dt.datetime(2024, 5, 1), dt.date(2024, 5, 1), " ")]
    ['3', '0.25', None, 'true', '2024-05-01', '2024-05-01', ' ']
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, dt.datetime):
        midnight = cell.time() == dt.time() and cell.tzinfo is None
        return cell.date().isoformat() if midnight else cell.isoformat(sep=" ")
    if isinstance(cell, dt.date | dt.time):
        return cell.isoformat()
    if hasattr(cell, "item"):
        return _text(cell.item())
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell).encode("utf-8", "replace").decode() or None
