"""What `protect` takes: several tables, records, arrays, an index as unit, folders, and files of other programs."""

from __future__ import annotations

import builtins
import datetime as dt
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest
from pyarrow import csv, feather, parquet

import hush
from hush import protect
from hush.core import HushError, InvalidValueError
from hush.engines.errors import SourceError
from hush.query.errors import QuestionError

ROWS = 300
FRAME = pd.DataFrame({"id": range(ROWS), "age": [row % 90 for row in range(ROWS)]})
BOUNDS = {"age": (0, 120)}
SURE = 10**6


def counted(source: object, **options: Any) -> dict[str, float]:
    """Return the number of rows, and the sum of ages, at a price at which both are exact."""
    with protect(source, **{"bounds": BOUNDS, "budget": 10**9, **options}) as curator:
        return curator.ask("SELECT COUNT(*) AS n, SUM(age) AS s FROM data", epsilon=SURE).table.to_pylist()[0]


def expected(times: int = 1) -> pytest.approx:
    return pytest.approx({"n": times * ROWS, "n_error": 0, "s": times * int(FRAME["age"].sum()), "s_error": 0}, abs=1)


@pytest.mark.parametrize(
    "source",
    [
        FRAME.to_dict("records"),
        tuple(FRAME.to_dict("records")),
        FRAME.to_dict("list"),
        {name: FRAME[name].to_numpy() for name in FRAME},
        FRAME.to_records(index=False),
        np.array([tuple(row) for row in FRAME.to_numpy()], dtype=[("id", "i8"), ("age", "i8")]),
    ],
    ids=["records", "tuple of records", "dict of lists", "dict of arrays", "record array", "structured array"],
)
def test_records_columns_and_arrays_are_tables(source: object) -> None:
    assert counted(source) == expected()
    assert counted(source, unit="id") == expected()


def test_an_index_may_be_the_unit() -> None:
    assert counted(FRAME.set_index("id"), unit="id") == expected()
    assert counted(FRAME.drop(columns="id"), unit="index") == expected()
    levels = FRAME.assign(day=1).set_index(["day", "id"])
    assert counted(levels, unit="id") == expected()
    with pytest.raises(InvalidValueError, match="unit"):
        counted(FRAME.set_index("id"), unit="person")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (np.zeros((3, 2)), "names of columns"),
        ([{"age": 1}, {"age": "x"}], "mixes values"),
        ({"age": [1, 2], "id": [1]}, "different lengths"),
    ],
)
def test_what_is_no_table_is_refused_in_a_sentence(source: object, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        counted(source)


def test_several_tables_share_a_unit() -> None:
    visits = pa.table({"id": [row // 2 for row in range(2 * ROWS)], "cost": [10] * (2 * ROWS)})
    tables = {"patients": FRAME, "visits": visits}
    options: dict[str, Any] = {"unit": "id", "max_rows": 2, "budget": 10**9}
    with protect(tables, bounds={"age": (0, 120), "visits.cost": (0, 100)}, **options) as curator:
        asked = curator.ask("SELECT COUNT(*) AS n FROM visits", epsilon=SURE).table.to_pylist()[0]
        both = curator.ask(
            "SELECT SUM(cost) AS s FROM visits JOIN patients USING (id) WHERE age < 45", epsilon=SURE
        ).table.to_pylist()[0]
    assert asked["n"] == pytest.approx(2 * ROWS, abs=1)
    assert both["s"] == pytest.approx(20 * sum(age < 45 for age in FRAME["age"]), abs=1)
    with pytest.raises(InvalidValueError, match="unit"):
        protect(tables, budget=1)
    with pytest.raises(QuestionError, match="No table has a column 'price'"):
        protect(tables, bounds={"price": (0, 1)}, **options)
    with pytest.raises(SourceError, match="count twice"):
        protect({"a": visits, "b": visits}, **options)
    with pytest.raises(SourceError, match="nothing of them would be protected"):
        protect(tables, public={"other": visits}, **options)


def split(folder: Path, form: str, *, hive: bool = False) -> None:
    for number in range(3):
        part = FRAME.iloc[100 * number : 100 * number + 100]
        place = folder / f"year=20{number}" if hive else folder
        place.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pandas(part, preserve_index=False)
        if form == "parquet":
            parquet.write_table(table, place / f"part{number}.parquet")
        elif form == "csv":
            csv.write_csv(table, place / f"part{number}.csv")
        else:
            part.to_json(place / f"part{number}.ndjson", orient="records", lines=True)


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_a_folder_and_a_pattern_are_one_table(tmp_path: Path, form: str) -> None:
    split(tmp_path / "visits", form)
    (tmp_path / "visits" / "_SUCCESS").touch()
    (tmp_path / "visits" / ".hidden.txt").touch()
    assert counted(tmp_path / "visits") == expected()
    assert counted(str(tmp_path / "visits" / f"*.{form}")) == expected()
    assert counted(str(tmp_path / "visits" / f"part0.{form}"))["n"] == pytest.approx(100, abs=1)


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("first", [True, False])
def test_the_folder_of_rows_without_a_value_is_null(tmp_path: Path, form: str, first: bool) -> None:
    split(tmp_path / "visits", form, hive=True)
    (tmp_path / "visits" / ("year=200" if first else "year=202")).rename(
        tmp_path / "visits" / "year=__HIVE_DEFAULT_PARTITION__"
    )
    with protect(tmp_path / "visits", bounds=BOUNDS, budget=10**9) as curator:
        sql = "SELECT COUNT(*) AS n, COUNT(year) AS y FROM data WHERE year IS NULL OR year LIKE '20%'"
        (row,) = curator.ask(sql, epsilon=1000).rows()
        assert (round(row["n"]), round(row["y"])) == (300, 200)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_folders_named_like_columns_are_columns(tmp_path: Path, form: str) -> None:
    split(tmp_path / "visits", form, hive=True)
    years = ["200", "201", "202"]
    with protect(tmp_path / "visits", bounds=BOUNDS, values={"year": years}, budget=10**9) as curator:
        answer = curator.ask("SELECT year, COUNT(*) AS n FROM data GROUP BY year", epsilon=SURE).table.to_pylist()
    assert [(row["year"], row["n"]) for row in answer] == [(year, pytest.approx(100, abs=1)) for year in years]


def test_folders_that_are_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no files"):
        counted(tmp_path)
    split(tmp_path, "parquet")
    split(tmp_path / "more", "csv")
    with pytest.raises(SourceError, match=r"several kinds \(.csv, .parquet\)"):
        counted(tmp_path)
    (tmp_path / "again.parquet").hardlink_to(tmp_path / "part0.parquet")
    with pytest.raises(SourceError, match="count twice"):
        counted(str(tmp_path / "*.parquet"))
    (tmp_path / "again.parquet").unlink()
    parquet.write_table(pa.table({"id": [1], "age": ["x"]}), tmp_path / "part9.parquet")
    with pytest.raises(SourceError, match=r"same columns and types, and part9.parquet"):
        counted(str(tmp_path / "*.parquet"))
    (tmp_path / "more" / "part0.csv").write_text("id,years\n1,2\n")
    with pytest.raises(SourceError, match="same first line"):
        counted(tmp_path / "more")


def test_a_file_of_a_folder_is_not_another_table(tmp_path: Path) -> None:
    split(tmp_path / "visits", "parquet")
    for other in (tmp_path / "visits" / "part1.parquet", str(tmp_path / "visits" / "part[12].parquet")):
        with pytest.raises(SourceError, match="nothing of them would be protected"):
            counted(tmp_path / "visits", public={"known": other})


POLICY = """
[data.clinic]
unit = "id"
budget = {{ epsilon = "1e9" }}
[data.clinic.tables.visits]
source = "visits"
columns.age = {{ type = "integer", lower = 0, upper = 120 }}
{more}
[analysts.alice]
data = ["clinic"]
budget = {{ epsilon = "1e9" }}
"""
AGAIN = """
[data.other]
budget = { epsilon = "1" }
[data.other.tables.some]
source = "visits/part1.csv"
columns.age = { type = "integer", lower = 0, upper = 120 }
"""


def test_a_policy_names_a_folder_and_no_file_of_it_again(tmp_path: Path) -> None:
    split(tmp_path / "visits", "csv")
    (tmp_path / "hush.toml").write_text(POLICY.format(more=""), encoding="utf-8")
    with hush.open(tmp_path / "hush.toml", create=True) as curator:
        asked = curator.ask("SELECT COUNT(*) AS n FROM visits", epsilon=SURE)
    assert asked.table["n"][0].as_py() == pytest.approx(ROWS, abs=1)
    (tmp_path / "hush.toml").write_text(POLICY.format(more=AGAIN), encoding="utf-8")
    with pytest.raises(HushError, match="two budgets"):
        hush.open(tmp_path / "hush.toml")


def test_a_changed_file_of_a_folder_is_read_again(tmp_path: Path) -> None:
    split(tmp_path, "csv")
    with protect(tmp_path, bounds=BOUNDS, budget=10**9) as curator:
        first = curator.ask("SELECT COUNT(*) AS n FROM data", epsilon=SURE).table["n"][0].as_py()
        (tmp_path / "part2.csv").write_text("id,age\n1,2\n")
        asked = curator.ask("SELECT COUNT(*) AS n FROM data WHERE age >= 0", epsilon=SURE)
    assert first == pytest.approx(ROWS, abs=1)
    assert asked.table["n"][0].as_py() == pytest.approx(201, abs=1)


def workbook(path: Path) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "visits"
    sheet.append(["id", "age", "day"])
    for row in FRAME.itertuples(index=False):
        sheet.append([row.id, row.age, dt.date(2024, 1, 1 + row.id % 28)])
    sheet.append([None, None, None])
    book.create_sheet("notes").append(["text"])
    book.save(path)
    return path


@pytest.mark.parametrize("form", ["xlsx", "dta", "sav", "xpt"])
def test_files_of_other_programs_are_tables(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"visits.{form}"
    if form == "xlsx":
        workbook(path)
    else:
        writers = {"dta": pyreadstat.write_dta, "sav": pyreadstat.write_sav, "xpt": pyreadstat.write_xport}
        writers[form](FRAME, str(path))
    source = f"{path}#visits" if form == "xlsx" else path
    assert counted(source, bounds={"age": (0, 120, 1)}) == expected()


def test_a_sheet_is_named_and_its_dates_are_dates(tmp_path: Path) -> None:
    path = workbook(tmp_path / "book.xlsx")
    with pytest.raises(SourceError, match=r"sheets visits, notes; name one: 'book.xlsx#SHEET'"):
        counted(path)
    bounds = {"day": ("2024-01-01", "2024-01-28")}
    with protect(f"{path}#visits", bounds=bounds, budget=10**9) as curator:
        days = curator.ask("SELECT COUNT(*) AS n FROM data WHERE day <= DATE '2024-01-14'", epsilon=SURE)
    assert days.table["n"][0].as_py() == pytest.approx(sum(row % 28 < 14 for row in range(ROWS)), abs=1)
    (tmp_path / "broken.xlsx").write_bytes(b"no book")
    with pytest.raises(SourceError, match="not an Excel file"):
        counted(tmp_path / "broken.xlsx")


@pytest.mark.parametrize("form", ["xlsx", "sav", "json", "sqlite", "feather", "records"])
def test_a_missing_package_is_a_sentence_with_the_command(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Any = tmp_path / f"t.{form}"
    if form == "xlsx":
        workbook(path)
    elif form == "sav":
        pyreadstat.write_sav(FRAME, str(path))
    elif form == "json":
        FRAME.to_json(path, orient="records")
    elif form == "sqlite":
        with sqlite3.connect(path) as base:
            FRAME.to_sql("t", base, index=False)
    elif form == "feather":
        feather.write_feather(pa.Table.from_pandas(FRAME), str(path))
    else:
        path = FRAME.to_dict("records")
    held = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".", maxsplit=1)[0] in {"pyarrow", "openpyxl", "pyreadstat"}:
            raise ImportError(name)
        return held(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr("hush.engines.duckdb.sources.import_module", without)
    monkeypatch.setattr(sys.modules["hush.core.on_demand"], "import_module", without)
    with pytest.raises(HushError, match=r"pip install 'hush\[(arrow|files)\]'"):
        protect(path, budget=1, bounds={"age": (0, 120)})


def test_a_missing_text_in_records_of_pandas_is_null() -> None:
    records = [{"x": 1.0, "c": "a"}] * 30 + [{"x": 1.0, "c": float("nan")}] * 20
    with protect(records, values={"c": ["a", "b"]}, budget=10**9) as curator:
        answer = curator.ask("SELECT COUNT(*) AS n, COUNT(c) AS k FROM data", epsilon=SURE)
    assert [round(answer[name][0]) for name in ("n", "k")] == [50, 30]


def test_several_tables_may_be_dicts_of_columns() -> None:
    tables = {"visits": {"who": [1, 1, 2], "cost": [5, 6, 7]}, "stays": {"who": [1, 2], "bed": [1, 1]}}
    with protect(tables, unit="who", bounds={"cost": (0, 10), "bed": (0, 1)}, budget="1e6") as curator:
        for table in tables:
            answer = curator.ask(f"SELECT COUNT(DISTINCT who) AS n FROM {table}", epsilon="1e5")
            assert answer.rows()[0]["n"] == 2
