"""Plain DuckDB as the oracle: the same rows and the same statement, without hush.

Every test of this folder asks both, and compares with the functions below. Numbers of hush carry the noise of a very
large ε and lie on a grid, so they need only be near; keys and texts must be equal.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa

from hush.curator.answer import Answer


@contextmanager
def plain_duckdb(tables: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database with these tables, and with what hush adds to the language or leaves undefined."""
    with duckdb.connect(":memory:") as connection:
        setting = "SELECT count(*) FROM duckdb_settings() WHERE name = 'error_on_division_by_zero'"
        if connection.execute(setting).fetchall()[0][0]:  # before 2.0 there was no such error
            connection.execute("SET error_on_division_by_zero = false")
        connection.execute(
            "CREATE MACRO clip(x, low, high) AS CASE WHEN x IS NOT NULL THEN GREATEST(low, LEAST(x, high)) END"
        )
        for name, rows in tables.items():
            connection.register("fresh", rows)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM fresh")
        yield connection


def answered(answer: Answer) -> list[tuple[object, ...]]:
    """Return an answer's rows without its errors."""
    return [tuple(cell for name, cell in row.items() if not name.endswith("_error")) for row in answer.rows()]


def as_exact(value: object) -> object:
    """Return a value by which rows of both sides are told apart: numbers as floats, unless they are whole."""
    if isinstance(value, Decimal | float) and not isinstance(value, bool):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date()  # truncated moments are dates
    return value


def same(ours: object, theirs: object) -> bool:
    """Return whether two exact values are the same: the last digits of a library's functions may differ."""
    mine, other = as_exact(ours), as_exact(theirs)
    if isinstance(mine, float) and isinstance(other, float | int):
        # a key of float32 numbers on a grid is listed as the decimal that they stand for: 0.1, and not 0.10000000149
        return math.isclose(mine, other, rel_tol=1e-13, abs_tol=1e-300) or float(np.float32(mine)) == other
    if isinstance(mine, str) and other == f"{mine}.0":
        return True  # a whole number is written as one, however it was computed (docs/sql.md)
    return type(mine) is type(other) and mine == other if isinstance(mine, bool) else mine == other


def near(ours: object, theirs: object, *, absolute: float = 2e-4, relative: float = 1e-6) -> bool:
    """Return whether a noisy number is what it should be, but for noise at a very large ε and a fine grid."""
    return ours is not None and math.isclose(float(ours), float(theirs), rel_tol=relative, abs_tol=absolute)


def same_cell(ours: object, theirs: object, *, absolute: float, relative: float) -> bool:
    """Return whether a cell is the other: a text, a day or a missing value exactly, a number but for its noise."""
    if isinstance(ours, str | dt.date) or ours is None or theirs is None:
        return ours == theirs
    return near(ours, theirs, absolute=absolute, relative=relative)


def assert_same_rows(
    ours: list[tuple[object, ...]], theirs: list[tuple[object, ...]], *, absolute: float = 1e-3, relative: float = 1e-6
) -> None:
    """Fail unless both have the same rows in the same order, numbers but for their noise."""
    assert len(ours) == len(theirs), (ours, theirs)
    for mine, other in zip(ours, theirs, strict=True):
        for a, b in zip(mine, other, strict=True):
            assert same_cell(a, b, absolute=absolute, relative=relative), (mine, other)
