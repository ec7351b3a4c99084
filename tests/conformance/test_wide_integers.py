"""Integers of more than 64 bits are moved to the bounds like any other, and none makes a question fail."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import hush

STORED = {
    "UBIGINT": str(2**64 - 1),
    "HUGEINT": str(2**127 - 1),
    "UHUGEINT": str(2**128 - 1),
    "DOUBLE": "1e300",
    "VARCHAR": "'99999999999999999999999'",
    "DECIMAL(38,0)": "9" * 38,
}
BOUNDS = [
    (0, 100),
    (0, 2**62),
    (0, 2**63 - 1),
    (-(2**63), 2**63 - 1),
    (0, 2**63),
    (-5, 2**64 - 1),
    (0, 2**63 - 1, 1000),
]


@pytest.mark.parametrize("stored", STORED)
def test_an_integer_beyond_its_bound_is_moved_there(stored: str, tmp_path: Path) -> None:
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute(f"CREATE TABLE data AS SELECT CAST({STORED[stored]} AS {stored}) AS x FROM range(1000)")
    for bounds in BOUNDS:
        with hush.protect(path, bounds={"x": bounds}, types={"x": "integer"}, budget=10**6) as curator:
            sql = "SELECT COUNT(x) AS n, AVG(x) AS mean FROM data WHERE x > 99"
            (row,) = curator.ask(sql, epsilon=10_000).rows()
        assert row["n"] == 1000
        upper = min(bounds[1], 2**64 - 1) if stored == "UBIGINT" else bounds[1]
        assert row["mean"] == pytest.approx(upper, rel=1e-4)


def test_without_bounds_what_does_not_fit_64_bits_is_null() -> None:
    table = pa.table({"x": pa.array([5, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64())})
    with hush.protect(table, budget=10**6) as curator:
        assert curator.ask("SELECT COUNT(x) AS n FROM data", epsilon=10_000).value() == 2


def test_an_integer_with_bounds_beyond_64_bits_is_a_decimal_column() -> None:
    table = pa.table({"x": pa.array([5], pa.uint64()), "y": pa.array([5], pa.uint64())})
    with hush.protect(table, bounds={"x": (0, 2**64)}, values={"y": [5, 2**63]}, budget=1) as curator:
        kinds = {name: column.kind for name, column in curator.tables()["data"].items()}
        assert kinds == {"x": "decimal", "y": "decimal"}
