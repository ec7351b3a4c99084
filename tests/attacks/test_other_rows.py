"""What one row holds decides nothing about how the others are read."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from seams import duckdb_engine, run_in

import hush
from hush.core import Neighbours
from hush.engines.duckdb.sources import Source
from hush.query.schema import Schema, Table
from hush.query.types import Kind, Type

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


def loaded(path: Path, *, quotes: bool = True) -> Counter[tuple[object, ...]]:
    with duckdb_engine(TEXTS, {"t": Source.of(path, quotes=quotes)}) as engine:
        engine.connection.refresh()
        return Counter(run_in(engine, "SELECT * FROM table_0"))


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
    before = loaded(path)
    at = rng.randrange(1, len(lines))
    path.write_text("".join([*lines[:at], odd, *lines[at:]]), encoding="utf-8", newline="")
    after = loaded(path)
    assert sum(before.values()) > 100
    assert not before - after
    assert sum((after - before).values()) <= odd.count("\r") + 1


@pytest.mark.parametrize("seed", range(10))
def test_what_one_person_wrote_makes_one_record(seed: int, tmp_path: Path) -> None:
    """A text with separators, quotes and line breaks, as a writer of CSV quotes it, is one row and touches no other."""
    rng, path = Random(seed), tmp_path / "data.csv"

    def written(rows: list[list[str]]) -> Counter[tuple[object, ...]]:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["x", "y", "z"], *rows])
        return loaded(path)

    cells = ["a", "", ",", '"', '""', "\n", "\r\n", '",', ',"', '"\n', "\n9,8,7\n", 'q"\n"']
    people = [["".join(rng.choices(cells, k=rng.randrange(3))) for _ in "xyz"] for _ in range(50)]
    somebody = ["".join(rng.choices(cells, k=6)) for _ in "xyz"]
    at = rng.randrange(50)
    before, after = written(people), written([*people[:at], somebody, *people[at:]])
    assert sum(before.values()) == 50
    assert after - before == Counter([tuple(cell or None for cell in somebody)])


@pytest.mark.parametrize("odd", [*ODD, '9,8,"\n', '"9,8,7\n'])
def test_without_quoting_no_line_touches_another(odd: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    lines = [f'{at},"{at},"\n' if at % 3 else f'"{at},{at}",1\n' for at in range(100)]
    path.write_text("".join(["x,y,z\n", *lines]), encoding="utf-8", newline="")
    before = loaded(path, quotes=False)
    path.write_text("".join(["x,y,z\n", *lines[:50], odd, *lines[50:]]), encoding="utf-8", newline="")
    assert sum(before.values()) == 100
    assert not before - loaded(path, quotes=False)


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
        found = curator.ask("SELECT name, COUNT(*) AS n FROM data GROUP BY name", epsilon=10, fresh=True).rows()
        assert [row["name"] for row in found] in (["smith"], ["SMITH", "smith"])
        assert abs(found[-1]["n"] - 1001) < 100
    names = ["smith", "SMITH", "Smith"]
    with hush.protect(f"{path}#t", unit="id", max_rows=2, values={"name": names}, budget=budget) as curator:
        sql = "SELECT name, COUNT(*) AS n, COUNT(DISTINCT id) AS people FROM data GROUP BY name"
        answer = curator.ask(sql, epsilon=10_000, fresh=True).to_pandas()
    # the noise has a scale of 1/1000 or less: another count has a probability below e^-100
    assert answer["n"].tolist() == [1001, 1, 0]
    assert answer["people"].tolist() == [501, 1, 0]


def test_decimal_keys_are_all_found_where_null_is_one() -> None:
    """Numbers on a grid are keys by their place on it, also beside NULL: 0.3·3 is not 0.9 in binary."""
    values = pa.table({"x": [index / 10 for index in range(31)] + [None]})
    with hush.protect(values, bounds={"x": (0, 3, "0.1")}, budget=10**6) as curator:
        sql = "SELECT CASE WHEN x > 0.45 THEN x * 3 END AS k, COUNT(*) AS n FROM data GROUP BY 1"
        found = curator.ask(sql, epsilon=1000, fresh=True).to_pandas()
    assert found["n"].sum() == 32
    assert found[found["k"].isna()]["n"].tolist() == [6]
