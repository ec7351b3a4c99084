"""A file without a schema: whatever its first record holds, the same questions are answered."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import hush
from hush.engines.errors import SourceError

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


def lines_of(first: str) -> str:
    return "\n".join(line for line in [FIRST[first], *(json.dumps(record) for record in RECORDS)] if line)


@pytest.mark.parametrize("first", FIRST)
def test_the_first_record_decides_nothing(first: str, tmp_path: Path) -> None:
    (tmp_path / "visits.ndjson").write_text(lines_of(first), encoding="utf-8")
    (tmp_path / "hush.toml").write_text(POLICY, encoding="utf-8")
    with hush.open(tmp_path / "hush.toml", create=True) as curator:
        answer = curator.ask("SELECT city, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY city", epsilon=10_000)
        assert answer.table.column("n").to_pylist() == [50, 0]
        assert answer.table.column("s").to_pylist() == [1500, 0]


@pytest.mark.parametrize("first", ["none", "fewer names", "a number", "broken"])
def test_a_command_prints_nothing_that_depends_on_the_first_record(first: str, tmp_path: Path) -> None:
    (tmp_path / "visits.ndjson").write_text(lines_of(first), encoding="utf-8")
    (tmp_path / "hush.toml").write_text(POLICY, encoding="utf-8")
    command = [sys.executable, "-m", "hush", "explain", "SELECT COUNT(*) AS n FROM visits", "--epsilon", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("suffix", [".ndjson", ".jsonl"])
@pytest.mark.parametrize("first", FIRST)
def test_columns_that_the_owner_names_are_there_whatever_the_first_record_is(
    first: str, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"visits{suffix}"
    path.write_text(lines_of(first), encoding="utf-8")
    named = {"bounds": {"age": (0, 120)}, "values": {"city": ["a", "b"]}, "types": {"paid": "boolean"}}
    with hush.protect(path, unit="id", budget="1e6", **named) as curator:
        answer = curator.ask("SELECT city, COUNT(*) AS n, COUNT(paid) AS p FROM data GROUP BY city", epsilon=10_000)
        assert answer.table.column("n").to_pylist() == [50, 0]
        assert answer.table.column("p").to_pylist() == [0, 0]


def test_a_named_column_counts_before_one_of_the_first_record_in_other_capitals(tmp_path: Path) -> None:
    path = tmp_path / "visits.json"
    path.write_text('[{"AGE": 1, "x": 1, "X": 2, "": 3}, {"age": 30}, {"age": 40}]', encoding="utf-8")
    with hush.protect(path, bounds={"age": (0, 120)}, budget="1e6") as curator:
        kinds = {name: column.kind for name, column in curator.tables()["data"].items()}
        assert kinds == {"x": "text", "age": "decimal"}
        assert curator.ask("SELECT COUNT(age) AS n FROM data", epsilon=10_000).value() == 2


def test_without_named_columns_a_file_without_records_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "visits.ndjson"
    path.write_text("7\n", encoding="utf-8")
    with pytest.raises(SourceError, match="must hold JSON records"):
        hush.protect(path, budget=1)


OTHERS = {
    "longer than any buffer": json.dumps({"age": 30, "city": "x" * (40 * 2**20)}),
    "half of a surrogate pair": '{"age": 30, "city": "\\ud800"}',
    "control characters": '{"age": 30, "city": "\x01"}',
    "not UTF-8": b'{"age": 30, "city": "\xff\xfe"}',
    "a long number": '{"age": ' + "9" * 5000 + "}",
    "no record": "[1, 2]",
    "broken": '{"age": 30, "city": "',
    "closed twice": '{"age": 30}}',
    "deep": '{"age": 30, "city": ' + "[" * 5000 + "]" * 5000 + "}",
}
PLACES = {"inside": 25, "last": 50}


def written(path: Path, odd: str | bytes, place: int) -> Path:
    rows = [json.dumps({"age": 30, "city": "a"}).encode() for _ in range(50)]
    rows.insert(place, odd if isinstance(odd, bytes) else odd.encode("utf-8", "surrogatepass"))
    whole = b"[" + b",\n".join(rows) + b"]" if path.suffix == ".json" else b"\n".join(rows)
    path.write_bytes(whole)
    return path


def counted(path: Path) -> list[list[int]]:
    """Return the exact numbers of rows and of a's, where one row is one unit."""
    with hush.protect(path, values={"city": ["a"]}, bounds={"age": (0, 120)}, budget=10) as curator:
        sql = "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE city = 'a') AS a FROM data"
        desk, how = curator.plan(sql, epsilon=1)
        return [values.tolist() for values in desk.engine.run(how).statistics.values()]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("odd", OTHERS)
def test_no_line_of_a_json_file_spoils_the_others(odd: str, place: str, tmp_path: Path) -> None:
    rows, matching = counted(written(tmp_path / "visits.ndjson", OTHERS[odd], PLACES[place]))
    assert rows[0] in {50, 51}
    assert matching == [50]


@pytest.mark.parametrize("odd", OTHERS)
def test_a_json_array_is_read_or_refused_where_it_is_opened(odd: str, tmp_path: Path) -> None:
    """No record that is JSON spoils the others; a file that is none costs nobody anything."""
    path = written(tmp_path / "visits.json", OTHERS[odd], PLACES["inside"])
    if odd in {"broken", "closed twice"}:
        with pytest.raises(SourceError):
            counted(path)
    elif odd == "deep":  # newer Pythons read it
        with suppress(SourceError):
            assert counted(path) == [[51], [50]]
    else:
        assert counted(path) == [[51], [50]]
