"""What `hush.protect` is given: frames of many kinds as tables, and what the owner says of their columns.

A frame, a path, records (a list of dicts), columns (a dict of lists) or a NumPy array with named fields is one table. A
dict whose values are frames or paths is several, all of them protected. A pandas index is a column if it is the unit.

>>> sorted(protected_frames([{"id": 1, "age": 30}, {"id": 2, "age": 41}], "data", "id")["data"].column_names)
['age', 'id']
>>> sorted(protected_frames({"visits": "visits.csv", "patients": "patients.csv"}, "data", "id"))
['patients', 'visits']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np

from hush.core import InvalidValueError
from hush.core.on_demand import optional
from hush.core.values import dataclass
from hush.curator.data_sets import schema_types, untyped_columns
from hush.engines.errors import SourceError
from hush.engines.opening import Source, json_columns
from hush.policy.python_columns import describe
from hush.query.errors import QuestionError, did_you_mean
from hush.query.types import Type


def protected_frames(source: object, table: str, unit: object) -> dict[str, Any]:
    """Return the tables that are protected, by name, each as something that a `Source` is made of."""
    if isinstance(source, Mapping) and source and all(map(_is_table, source.values())):
        if unit is None:
            hint = "Name the column that says in each of them whose row it is."
            raise InvalidValueError("unit", got=unit, allowed="given where several tables are protected", hint=hint)
        wrong = next((name for name in source if not isinstance(name, str) or not name.strip()), None)
        if wrong is not None:
            raise InvalidValueError("source", got=wrong, allowed="tables under names that are texts")
        return {name: _indexed(frame, unit) for name, frame in source.items()}
    return {table: _indexed(_framed(source), unit)}


def _is_table(value: object) -> bool:
    """Return whether a value of a dict is a table, and not a column."""
    if isinstance(value, str | Path | Source):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype.names is not None
    records = isinstance(value, list | tuple) and bool(value) and all(isinstance(row, Mapping) for row in value)
    return records or hasattr(value, "columns") or (hasattr(value, "schema") and hasattr(value, "__arrow_c_stream__"))


def _framed(source: object) -> Any:
    """Return records, columns and arrays as Arrow tables, and everything else as it is."""
    if isinstance(source, np.ndarray):
        if source.dtype.names is None:
            hint = "Name its columns: pandas.DataFrame(array, columns=[…]), or a structured array."
            raise SourceError(f"an array without names of columns cannot be asked about. {hint}")
        return _arrow({name: source[name].tolist() for name in source.dtype.names})
    if isinstance(source, list | tuple) and source and all(isinstance(row, Mapping) for row in source):
        names = list(dict.fromkeys(name for row in source for name in row))
        return _arrow({name: [row.get(name) for row in source] for name in names})
    if isinstance(source, Mapping) and source and not any(map(_is_table, source.values())):
        plain = next(
            (name for name, cells in source.items() if isinstance(cells, bytes) or not _has_cells(cells)), None
        )
        if plain is not None:
            raise SourceError(f"the column {str(plain)!r} is no list; a dict holds a list for each column, or frames")
        return _arrow({name: list(cells) for name, cells in source.items()})
    return source


def _has_cells(value: object) -> bool:
    return isinstance(value, Iterable) and isinstance(value, Sized)


def _arrow(columns: Mapping[Any, list[Any]]) -> Any:
    pa = optional("pyarrow", "arrow")
    arrays = {}
    for name, cells in columns.items():
        if any(isinstance(cell, str) for cell in cells):  # pandas writes NaN for a text that is missing
            cells = [None if isinstance(cell, float) and cell != cell else cell for cell in cells]  # noqa: PLR0124, PLW2901
        try:
            arrays[str(name)] = pa.array(cells)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise SourceError(f"the column {str(name)!r} mixes values of several types; make it one type") from None
    try:
        return pa.table(arrays)
    except (pa.ArrowException, ValueError):
        raise SourceError("the columns have different lengths; give a value of each column for every row") from None


def _indexed(frame: Any, unit: object) -> Any:
    """Return a pandas frame with its index as a column where that is the unit."""
    frame = _framed(frame)
    if not isinstance(unit, str) or type(frame).__module__.split(".")[0] != "pandas" or not hasattr(frame, "index"):
        return frame
    levels = [name if name is not None else "index" for name in getattr(frame.index, "names", [])]
    return frame.rename_axis(levels).reset_index() if unit in levels and unit not in frame.columns else frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What the owner says of one table's columns."""

    unit: str | None
    bounds: Mapping[str, Sequence[Any]] | None
    values: Mapping[str, Sequence[Any]] | None
    types: Mapping[str, str] | None

    def named(self, source: Source) -> list[str]:
        """Return the columns of a source that has no schema and no header: what is named, and the first record."""
        if source.format != "json" or source.path is None:
            return []
        mappings = (self.bounds, self.values, self.types)
        given = [self.unit, *(name for mapping in mappings if isinstance(mapping, Mapping) for name in mapping)]
        return json_columns(source.path, [name for name in dict.fromkeys(given) if isinstance(name, str)])

    def columns(
        self, source: Source, table: str, stored: Mapping[str, Mapping[str, str]]
    ) -> tuple[dict[str, Type], dict[str, str]]:
        """Return a table's columns with their types, and those that are not supported; refuse what it does not have."""
        held = stored[table]
        if self.unit is not None and (not isinstance(self.unit, str) or self.unit not in held):
            allowed = f"a column of the table: {', '.join(held)}"
            raise InvalidValueError("unit", got=self.unit, allowed=allowed)
        return describe(
            schema_types(source, table, held),
            unit=self.unit,
            untyped=untyped_columns(source, table, held),
            bounds=self.bounds,
            values=self.values,
            types=self.types,
        )


def described_tables(
    private: Mapping[str, Source],
    *,
    unit: str | None,
    bounds: Mapping[str, Sequence[Any]] | None,
    values: Mapping[str, Sequence[Any]] | None,
    types: Mapping[str, str] | None,
) -> dict[str, Described]:
    """Return what the owner says of each table: of one everything, of several what names it or a column that it has."""
    given = {"bounds": bounds, "values": values, "types": types}
    if len(private) == 1:
        return {name: Described(unit=unit, **given) for name in private}  # type: ignore[arg-type]
    from hush.engines.opening import open_sources

    with open_sources(private) as opened:
        held = {name: set(columns) for name, columns in opened.types.items()}
    words: dict[str, dict[str, dict[str, Any]]] = {name: {parameter: {} for parameter in given} for name in private}
    for parameter, mapping in given.items():
        if mapping is not None and not isinstance(mapping, Mapping):
            raise InvalidValueError(parameter, got=mapping, allowed="words about columns, by their names")
        for key, said in (mapping or {}).items():
            table, dot, column = str(key).partition(".")
            tables = [table] if dot and table in private else [name for name in private if key in held[name]]
            label = column if dot and table in private else key
            if not tables:
                known = [name for columns in held.values() for name in columns]
                raise QuestionError(f"No table has a column '{key}' to describe.", did_you_mean(str(key), known))
            for name in tables:
                words[name][parameter][label] = said
    return {name: Described(unit=unit, **words[name]) for name in private}
