"""What one row holds decides nothing about how the others are read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

import hush
from hush.core import Neighbours
from hush.engines.duckdb import DuckDB
from hush.query.schema import Schema, Table
from hush.query.types import Kind, Type

pytestmark = pytest.mark.usefixtures("both_ways")

PIECES = [
    "1",
    "22",
    "a",
    "é",
    "\\",
    "'",
    " ",
    "\t",
    ";",
    "|",
    "#",
    "/",
    "-",
    "NULL",
    "\\N",
    "{",
    "[",
    "\x00",
    "\x01",
    "\u2028",
] + [",", ",,", ",,,"] * 4
ODD = ['9,"q",z\n', "9,q\rq,z\n", "9,q\x1f,z\n", '"\n', '9,"q\n', '\r\n9,"q",z\r\n']
TEXTS = Schema(
    data="d",
    tables={"t": Table(name="t", columns={label: Type(Kind.TEXT) for label in "xyz"})},
    neighbours=Neighbours.ADD_REMOVE,
)


def rows(path: Path) -> Counter[tuple[object, ...]]:
    with DuckDB(TEXTS, {"t": path}) as engine:
        engine._look_again()
        return Counter(engine._execute("SELECT * FROM table_0"))


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("seed", range(5))
def test_no_line_of_a_csv_file_changes_how_others_are_read(odd: str, seed: int, tmp_path: Path) -> None:
    """Random lines, most of them almost rows of three fields, read with and without one that has quotes."""
    rng = Random(seed)
    lines = ["x,y,z\n"]
    for _ in range(400):
        fields = ["".join(rng.choices(PIECES, k=rng.randrange(3))) for _ in range(rng.choice([2, 3, 3, 3, 4]))]
        lines.append(",".join(fields) + rng.choice(["", "", ",", ",,", " "]) + "\n")
    path = tmp_path / "data.csv"
    path.write_text("".join(lines), encoding="utf-8", newline="")
    before = rows(path)
    at = rng.randrange(1, len(lines))
    path.write_text("".join([*lines[:at], odd, *lines[at:]]), encoding="utf-8", newline="")
    after = rows(path)
    assert sum(before.values()) > 100
    assert not before - after
    assert sum((after - before).values()) <= odd.count("\r") + 1


def test_texts_are_compared_by_their_bytes_whatever_the_table_says(tmp_path: Path) -> None:
    """COLLATE NOCASE made 'smith' and 'SMITH' one key, shown as the first one stored, and one person out of two."""
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE t (id VARCHAR COLLATE NOCASE, name VARCHAR COLLATE NOCASE)")
        base.execute("INSERT INTO t SELECT 'P', 'SMITH' FROM range(1)")
        base.execute("INSERT INTO t SELECT 'p' || (i // 2), 'smith' FROM range(1000) t(i)")
        base.execute("INSERT INTO t VALUES ('p', 'smith')")
    budget = {"epsilon": 10**6, "delta": "1e-3"}
    with hush.protect(f"{path}#t", unit="id", max_rows=2, budget=budget) as curator:
        found = curator.ask("SELECT name, COUNT(*) AS n FROM data GROUP BY name", epsilon=10).rows()
        assert [row["name"] for row in found] in (["smith"], ["SMITH", "smith"])
        assert abs(found[-1]["n"] - 1001) < 100
    names = ["smith", "SMITH", "Smith"]
    with hush.protect(f"{path}#t", unit="id", max_rows=2, values={"name": names}, budget=budget) as curator:
        sql = "SELECT name, COUNT(*) AS n, COUNT(DISTINCT id) AS people FROM data GROUP BY name"
        answer = curator.ask(sql, epsilon=10_000).to_pandas()
    # the noise has a scale of 1/1000 or less: another count has a probability below e^-100
    assert answer["n"].tolist() == [1001, 1, 0]
    assert answer["people"].tolist() == [501, 1, 0]


def test_decimal_keys_are_all_found_where_null_is_one() -> None:
    """Numbers on a grid are keys by their place on it, also beside NULL: 0.3·3 is not 0.9 in binary."""
    values = pa.table({"x": [index / 10 for index in range(31)] + [None]})
    with hush.protect(values, bounds={"x": (0, 3, "0.1")}, budget=10**6) as curator:
        sql = "SELECT CASE WHEN x > 0.45 THEN x * 3 END AS k, COUNT(*) AS n FROM data GROUP BY 1"
        found = curator.ask(sql, epsilon=1000).to_pandas()
    assert found["n"].sum() == 32
    assert found[found["k"].isna()]["n"].tolist() == [6]
