"""A file without a schema: whatever its first record holds, the same questions are answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hush

POLICY = """
[data.clinic]
unit = "id"
budget = { epsilon = "1e6" }
[data.clinic.tables.visits]
source = "visits.ndjson"
columns.age = { type = "integer", lower = 0, upper = 120 }
columns.city = { type = "text", values = ["a", "b"] }
[analysts.alice]
data = ["clinic"]
budget = { epsilon = "1e6" }
"""
RECORDS = [{"id": at, "age": 30, "city": "a"} for at in range(50)]
FIRST = {
    "none": None,
    "fewer names": '{"id": 99}',
    "other names": '{"x": 1, "y": 2}',
    "an object in a column": '{"id": 99, "age": {"a": [1]}, "city": ["a"]}',
    "empty": "{}",
    "long": json.dumps({"id": 99, "city": "x" * 2**21}),
    "a number": "7",
    "null": "null",
    "a list": "[1, 2]",
    "a list of records": '[{"id": 99}]',
    "broken": '{"id": 99, "age": ',
    "text": '"[{"',
}


@pytest.mark.parametrize("first", FIRST)
def test_the_first_record_decides_nothing(first: str, tmp_path: Path) -> None:
    lines = [FIRST[first], *(json.dumps(record) for record in RECORDS)]
    (tmp_path / "visits.ndjson").write_text("\n".join(line for line in lines if line), encoding="utf-8")
    (tmp_path / "hush.toml").write_text(POLICY, encoding="utf-8")
    with hush.open(tmp_path / "hush.toml") as curator:
        answer = curator.ask("SELECT city, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY city", epsilon=10_000)
        assert answer.table.column("n").to_pylist() == [50, 0]
        assert answer.table.column("s").to_pylist() == [1500, 0]
