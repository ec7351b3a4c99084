"""Public columns: the bounds and values that a model knows before it reads a row, and rows as integer codes.

A schema is ``{column: (lower, upper) or [values]}``, or ``(lower, upper)`` for numbers with the same bounds in all
columns. Bounds make a number, a list makes a category. Both come from the data's owner, never from the rows. Every
column has finitely many public *levels*, and a row is one code per column:

* a category's levels are its declared values; anything else is *missing*. Numbers are compared as numbers, whatever
  type holds them: 1, 1.0, True, ``Decimal(1)`` and NumPy's are one value, and 0.3 is ``Decimal("0.3")`` (`plain`);
* a number's levels are the points of a public grid over its bounds. Values beyond a bound count as the bound, and NaN
  counts as missing. Whole bounds up to 512 apart get a grid that hits every whole number. Bounds may be dates or times.

Coding is total. No value a row can hold makes it fail; only the number and the names of columns can.

>>> schema = ModelSchema.parse({"age": (0, 120), "sex": ["f", "m"]})
>>> [codes.tolist() for codes in schema.codes({"age": [-5, 30.2, float("nan")], "sex": ["m", "x", None]})]
[[0, 30, 121], [1, 2, 2]]
"""

from __future__ import annotations

import datetime as dt
import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError
from hush.core.grid import any_array

Codes = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]

CELLS = 256
"""How many levels a number has where its bounds suggest no better grid."""
_WHOLE = 512
_FINE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelColumn:
    """A public column: a number with bounds (``values`` is None) or a category with values."""

    name: str
    lower: float = 0.0
    upper: float = 1.0
    values: tuple[Any, ...] | None = None
    unit: str | None = None
    """Of dates and times NumPy's unit, "D" or "us": bounds and levels count these since 1970."""

    def __post_init__(self) -> None:
        if self.values is None:
            if not (self.lower < self.upper and math.isfinite(self.upper - self.lower)):
                allowed = "(lower, upper), lower below upper"
                raise InvalidValueError(f"schema[{self.name!r}]", got=(self.lower, self.upper), allowed=allowed)
        elif (
            not self.values
            or not all(isinstance(value, (str, int, float)) and value == value for value in self.values)  # noqa: PLR0124
            or len(set(self.values)) != len(self.values)
        ):
            allowed = "a list of at least one value, all different texts, numbers or dates"
            raise InvalidValueError(f"schema[{self.name!r}]", got=list(self.values), allowed=allowed)

    @classmethod
    def parse(cls, name: str, spec: object) -> ModelColumn:
        """Read ``(lower, upper)`` or a list of values."""
        if isinstance(spec, ModelColumn):
            return spec
        if isinstance(spec, tuple) and len(spec) == 2:
            if all(_is_number(bound) for bound in spec):
                return cls(name=name, lower=_number(spec[0]), upper=_number(spec[1]))
            if all(isinstance(bound, (dt.date, np.datetime64)) for bound in spec):
                unit = "D" if all(np.datetime64(bound).dtype == "datetime64[D]" for bound in spec) else "us"
                low, high = (_number(bound, unit) for bound in spec)
                return cls(name=name, lower=low, upper=high, unit=unit)
        if isinstance(spec, (list, tuple, range, np.ndarray)):
            return cls(name=name, values=tuple(plain(value) for value in spec))
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

    def numbers(self, values: object) -> Floats:
        """Return a column as float64, NaN for cells without a number. No content of a row makes it fail."""
        array = _array(values)
        if array.dtype.kind in "fiub":
            return array.astype(np.float64)
        if array.dtype.kind == "M" and self.unit:
            return np.where(np.isnat(array), np.nan, array.astype(f"datetime64[{self.unit}]").astype(np.float64))
        return np.array([_number(value, self.unit) for value in array.tolist()], dtype=np.float64)

    def shares(self, values: object) -> Floats:
        """Return where each row's number lies between the bounds, from 0 to 1; NaN where it is missing."""
        clamped = np.clip(self.numbers(values), self.lower, self.upper)
        return np.asarray((clamped - self.lower) / (self.upper - self.lower))

    def codes(self, values: object) -> Codes:
        """Return each row's level; ``levels`` where it is missing."""
        if self.values is None:
            steps = self.shares(values) * self.steps
            missing = np.isnan(steps)
            return np.where(missing, self.levels, np.rint(np.where(missing, 0.0, steps)).astype(np.intp))
        array, places = _array(values), {value: index for index, value in enumerate(self.values)}
        if array.dtype.kind == "O":  # objects may not compare with one another
            return np.array([_place(places, value) for value in array], dtype=np.intp)
        distinct, number = np.unique(array, return_inverse=True)
        return np.array([_place(places, value) for value in distinct], dtype=np.intp)[number]

    def to_json(self) -> list[Any] | dict[str, Any]:
        """Return bounds as an object, values as a list."""
        if self.values is not None:
            return list(self.values)
        return {"lower": self.lower, "upper": self.upper} | ({"unit": self.unit} if self.unit else {})


@dataclass(frozen=True, slots=True)
class ModelSchema:
    """The public columns of a table, in order."""

    columns: tuple[ModelColumn, ...]

    @classmethod
    def parse(cls, spec: object) -> ModelSchema:
        """Read ``{column: (lower, upper) or [values]}``."""
        if isinstance(spec, ModelSchema):
            return spec
        if not isinstance(spec, Mapping) or not spec:
            raise InvalidValueError(
                "schema", got=spec, allowed="a mapping of at least one column to (lower, upper) or [values]"
            )
        return cls(tuple(ModelColumn.parse(str(name), part) for name, part in spec.items()))

    @classmethod
    def alike(cls, rows: Any, bounds: tuple[float, float]) -> ModelSchema:
        """Return a schema with the same bounds for all columns of a table; their number and names are public."""
        names = names_of(rows)
        if names is None:
            names = [f"x{number}" for number in range(_matrix(rows).shape[1])]
        return cls.parse({name: tuple(bounds) for name in names})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelSchema:
        """Read a schema that ``to_json`` wrote."""
        return cls(tuple(column_from_json(name, part) for name, part in data.items()))

    def to_json(self) -> dict[str, Any]:
        """Return the schema as plain JSON."""
        return {column.name: column.to_json() for column in self.columns}

    def without(self, name: object) -> ModelSchema:
        """Return the schema without a column; the same schema where it has no column of that name."""
        return ModelSchema(tuple(column for column in self.columns if not isinstance(name, str) or column.name != name))

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [column.name for column in self.columns]

    def __getitem__(self, name: str) -> ModelColumn:
        columns = {column.name: column for column in self.columns}
        if name not in columns:
            raise InvalidValueError("column", got=name, allowed=f"one of {', '.join(columns)}")
        return columns[name]

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
            parts = [_array(table[name]) for name in self.names]
            if len({len(part) for part in parts}) > 1:
                raise InvalidValueError("X", got="columns of different lengths", allowed="one value per row and column")
            return parts
        matrix, wanted = _matrix(rows), len(self.columns)
        width = matrix.shape[1]
        if width != wanted:
            allowed = f"a table of {wanted} columns: {', '.join(self.names)}"
            hint = f"X has {width} features, but schema is expecting {wanted} features as input."
            raise InvalidValueError("X", got=f"{width} columns", allowed=allowed, hint=hint)
        return [*matrix.T]


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
    matrix: npt.NDArray[Any] = rows
    if not isinstance(rows, np.ndarray):
        lists = [row for row in rows if isinstance(row, (list, tuple))] if isinstance(rows, (list, tuple)) else []
        numbers = all(_is_number(value) for row in lists for value in row)
        matrix = np.asarray(rows, dtype=None if numbers else object)
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


def column_from_json(name: str, part: Any) -> ModelColumn:
    """Read one column that ``to_json`` wrote."""
    if isinstance(part, Mapping):
        return ModelColumn(name=name, lower=float(part["lower"]), upper=float(part["upper"]), unit=part.get("unit"))
    return ModelColumn(name=name, values=tuple(part))


def plain(value: Any) -> Any:
    """Return a value as files hold it and as values are compared: exact numbers as int or the nearest float.

    Dates and times are ISO text; a time at midnight is its date, for data frames hold dates so.

    >>> from decimal import Decimal
    >>> plain(Fraction(3, 10)), plain(Decimal(2)), plain(np.float32(0.1)), plain(np.datetime64("2026-01-02"))
    (0.3, 2, 0.1, '2026-01-02')
    """
    if isinstance(value, np.datetime64):
        value = None if np.isnat(value) else value.astype("datetime64[us]").item()
    if isinstance(value, np.floating):
        return float(str(value))  # the shortest decimal: a narrower float's 0.1 is 0.1
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (Fraction, Decimal)):
        return int(value) if value == value // 1 else float(value)
    if isinstance(value, (dt.date, dt.datetime)):
        return str(value).removesuffix(" 00:00:00")
    return value


def _number(value: Any, unit: str | None = None) -> float:
    try:
        if unit and isinstance(value, (str, dt.date, np.datetime64)):
            time = np.datetime64(value).astype(f"datetime64[{unit}]")
            return math.nan if np.isnat(time) else float(time.astype(np.int64))
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # noqa: BLE001 - an object in a row may raise anything
        return math.nan


def _array(values: Any) -> npt.NDArray[Any]:
    """Return one column of any library as a flat array."""
    if isinstance(values, (list, tuple)):
        array: npt.NDArray[Any] = np.empty(len(values), dtype=object)
        for index, value in enumerate(values):  # one by one: a value may itself be a list
            array[index] = value
    else:
        array = any_array(values, "column")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidValueError("column", got=f"{array.ndim} dimensions", allowed="one value per row")
    return array


def _place(places: Mapping[Any, int], value: object) -> int:
    """Return the place of a value; a number that is written as text is looked for as a number, too, and vice versa."""
    try:
        label = plain(value)
        if label in places:
            return places[label]
        if isinstance(label, str):
            return places.get(plain(Decimal(label)), len(places))
        return places.get(str(int(label) if label == label // 1 else label), len(places))
    except Exception:  # noqa: BLE001 - what cannot be hashed or read is no declared value
        return len(places)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Fraction, Decimal, np.integer, np.floating, np.bool_))
