"""Public columns: what a model may know of a table before it reads a row, and rows as integer codes.

A schema is ``{column: (lower, upper) or [values]}``, or ``(lower, upper)`` for numbers with the same bounds in all
columns. Bounds make a number, a list makes a category. Both come from the data's owner, never from the rows. Every
column has finitely many public *levels*, and a row is one code per column:

* a category's levels are its declared values; anything else is *missing*;
* a number's levels are the points of a public grid over its bounds. Values beyond a bound count as the bound, and NaN
  counts as missing. Whole bounds up to 512 apart get a grid that hits every whole number.

Coding is total. No value a row can hold makes it fail; only the number and the names of columns can.

>>> schema = Schema.parse({"age": (0, 120), "sex": ["f", "m"]})
>>> [codes.tolist() for codes in schema.codes({"age": [-5, 30.2, float("nan")], "sex": ["m", "x", None]})]
[[0, 30, 121], [1, 2, 2]]
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError
from hush.core.values import dataclass

Codes = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]

CELLS = 256
"""How many levels a number has where its bounds suggest no better grid."""
_WHOLE = 512
_FINE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A public column: a number with bounds (``values`` is None) or a category with values."""

    name: str
    lower: float = 0.0
    upper: float = 1.0
    values: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if self.values is None:
            if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
                raise InvalidValueError(
                    f"schema[{self.name!r}]",
                    got=(self.lower, self.upper),
                    allowed="(lower, upper), lower below upper",
                )
        elif not self.values or len(set(self.values)) != len(self.values):
            raise InvalidValueError(
                f"schema[{self.name!r}]", got=list(self.values), allowed="a list of at least one value, all different"
            )

    @classmethod
    def parse(cls, name: str, spec: object) -> Column:
        """Read ``(lower, upper)`` or a list of values."""
        if isinstance(spec, Column):
            return spec
        if isinstance(spec, tuple) and len(spec) == 2 and all(_is_number(bound) for bound in spec):
            return cls(name=name, lower=float(spec[0]), upper=float(spec[1]))
        if isinstance(spec, (list, tuple, range, np.ndarray)):
            return cls(name=name, values=tuple(_plain(value) for value in spec))
        raise InvalidValueError(
            f"schema[{name!r}]", got=spec, allowed="bounds as a tuple (lower, upper), or a list of values"
        )

    @property
    def numeric(self) -> bool:
        """Whether the column holds numbers."""
        return self.values is None

    @property
    def steps(self) -> int:
        """How many steps of the grid lie between a number's bounds."""
        span = self.upper - self.lower
        if self.lower.is_integer() and self.upper.is_integer() and 2 <= span <= _WHOLE:
            return int(span) * max(1, -(-_FINE // int(span)))
        return CELLS

    @property
    def levels(self) -> int:
        """How many codes there are, without the one for missing values, which comes last."""
        return self.steps + 1 if self.values is None else len(self.values)

    @property
    def points(self) -> Floats:
        """The value of each level of a number."""
        return np.linspace(self.lower, self.upper, self.levels)

    def codes(self, values: object) -> Codes:
        """Return each row's level; ``levels`` where it is missing."""
        if self.values is None:
            x = numbers(values)
            steps = (np.clip(x, self.lower, self.upper) - self.lower) * (self.steps / (self.upper - self.lower))
            missing = np.isnan(steps)
            code = np.rint(np.where(missing, 0.0, steps)).astype(np.intp)
            return np.where(missing, self.levels, np.minimum(code, self.steps))
        return _category_codes(values, self.values)

    def to_json(self) -> list[Any] | dict[str, float]:
        """Return bounds as an object, values as a list."""
        return {"lower": self.lower, "upper": self.upper} if self.values is None else list(self.values)


@dataclass(frozen=True, slots=True)
class Schema:
    """The public columns of a table, in order."""

    columns: tuple[Column, ...]

    @classmethod
    def parse(cls, spec: object) -> Schema:
        """Read ``{column: (lower, upper) or [values]}``."""
        if isinstance(spec, Schema):
            return spec
        if not isinstance(spec, Mapping) or not spec:
            raise InvalidValueError(
                "schema", got=spec, allowed="a mapping of at least one column to (lower, upper) or [values]"
            )
        return cls(tuple(Column.parse(str(name), part) for name, part in spec.items()))

    @classmethod
    def alike(cls, rows: Any, bounds: tuple[float, float]) -> Schema:
        """Return numbers with the same bounds for all columns of a table, whose number and names are public."""
        names = names_of(rows)
        if names is None:
            names = [f"x{number}" for number in range(_matrix(rows).shape[1])]
        return cls.parse({name: tuple(bounds) for name in names})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schema:
        """Read what ``to_json`` wrote."""
        return cls(tuple(column_from_json(name, part) for name, part in data.items()))

    def to_json(self) -> dict[str, Any]:
        """Return the schema as plain JSON."""
        return {column.name: column.to_json() for column in self.columns}

    def without(self, name: object) -> Schema:
        """Return the schema without a column; all of it where there is none of that name."""
        return Schema(tuple(column for column in self.columns if not isinstance(name, str) or column.name != name))

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [column.name for column in self.columns]

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise InvalidValueError("column", got=name, allowed=f"one of {', '.join(self.names)}")

    def codes(self, rows: object) -> list[Codes]:
        """Return the codes of each column for a table, a mapping of columns or a matrix in the schema's order."""
        return [column.codes(values) for column, values in zip(self.columns, self.split(rows), strict=True)]

    def split(self, rows: object) -> list[Any]:
        """Return the columns of ``rows`` in the schema's order."""
        table: Any = rows
        names = names_of(table)
        if names is not None:
            missing = [name for name in self.names if name not in names]
            if missing:
                raise InvalidValueError("X", got=f"columns {names}", allowed=f"a table that has {', '.join(missing)}")
            return [table[name] for name in self.names]
        matrix = _matrix(rows)
        wanted = len(self.columns)
        if matrix.shape[1] != wanted:
            raise InvalidValueError(
                "X",
                got=f"{matrix.shape[1]} columns",
                allowed=f"a table of {wanted} columns: {', '.join(self.names)}",
                hint=f"X has {matrix.shape[1]} features, but schema is expecting {wanted} features as input.",
            )
        return [matrix[:, number] for number in range(matrix.shape[1])]


def names_of(table: Any) -> list[str] | None:
    """Return the column names of a mapping, a data frame or an Arrow table; None for a matrix."""
    if isinstance(table, Mapping) and not hasattr(table, "toarray"):  # SciPy's dictionary of keys is no table
        return list(table)
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return None if names is None else list(names)


def _matrix(rows: Any) -> npt.NDArray[Any]:
    """Return rows without names as a matrix; refuse by shape and type, which are public."""
    if hasattr(rows, "toarray"):
        raise InvalidValueError(
            "X", got="a sparse matrix", allowed="dense: sparse input is not supported", hint="Use .toarray()."
        )
    matrix = rows if isinstance(rows, np.ndarray) else np.asarray(rows, dtype=object if _ragged(rows) else None)
    if matrix.ndim != 2:
        hint = "Reshape your data: one row per unit, one column per column of the schema."
        raise InvalidValueError("X", got=f"{matrix.ndim} dimensions", allowed="a table of rows and columns", hint=hint)
    if matrix.dtype.kind == "c":
        raise InvalidValueError("X", got=str(matrix.dtype), allowed="real: Complex data not supported")
    return matrix


def target_column(values: Any) -> npt.NDArray[Any]:
    """Return a target as a flat array; refuse none, and say that a matrix of one column is read as a column."""
    if values is None:
        hint = "This estimator requires y to be passed, but the target y is None."
        raise InvalidValueError("y", got=None, allowed="one target per row of X", hint=hint)
    array = _array(values)
    if not isinstance(values, (list, tuple)) and np.asarray(values).ndim == 2 and "sklearn" in sys.modules:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=3)
    return array


def column_from_json(name: str, part: Any) -> Column:
    """Read one column that ``to_json`` wrote."""
    if isinstance(part, Mapping):
        return Column(name=name, lower=float(part["lower"]), upper=float(part["upper"]))
    return Column(name=name, values=tuple(part))


def numbers(values: object) -> Floats:
    """Return a column as float64; what is no number is NaN. Nothing a row holds makes it fail."""
    array = _array(values)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    if array.dtype.kind in "OUS":
        return np.array([_number(value) for value in array.tolist()], dtype=np.float64)
    return np.full(array.shape, np.nan)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except Exception:  # noqa: BLE001 - an object in a row may raise anything
        return math.nan


def _array(values: object) -> npt.NDArray[Any]:
    """Return one column as a flat array, whatever library made it."""
    if hasattr(values, "to_numpy"):
        array = np.asarray(values.to_numpy(zero_copy_only=False) if hasattr(values, "chunks") else values.to_numpy())
    elif isinstance(values, (list, tuple)):
        array = np.empty(len(values), dtype=object)
        for index, value in enumerate(values):  # one by one: a value may itself be a list
            array[index] = value
    else:
        array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidValueError("column", got=f"{array.ndim} dimensions", allowed="one value per row")
    return array


def _category_codes(values: object, allowed: Sequence[Any]) -> Codes:
    """Return the place of each value among the allowed ones, else their number."""
    array = _array(values)
    if array.dtype.kind in "fiub" and all(_is_number(value) for value in allowed):
        numbers = np.array([float(value) for value in allowed])
        order = np.argsort(numbers)
        x = array.astype(np.float64)
        index = np.minimum(np.searchsorted(numbers[order], x), len(numbers) - 1)
        return np.where(numbers[order][index] == x, order[index], len(numbers)).astype(np.intp)
    places = {value: index for index, value in enumerate(allowed)}
    return np.array([_place(places, value) for value in array.tolist()], dtype=np.intp)


def _place(places: Mapping[Any, int], value: object) -> int:
    try:
        return places.get(value, len(places))
    except Exception:  # noqa: BLE001 - what cannot be hashed is no declared value
        return len(places)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating, np.bool_))


def _plain(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _ragged(rows: object) -> bool:
    """Whether a list of rows holds anything but numbers."""
    return isinstance(rows, (list, tuple)) and any(
        not _is_number(value) for row in rows if isinstance(row, (list, tuple)) for value in row
    )
