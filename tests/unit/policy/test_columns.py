"""Types come from the owner's words and from schemas, never from rows."""

from __future__ import annotations

import datetime as dt
import sqlite3
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hush
from hush.curator.curator import Curator
from hush.policy.columns import describe
from hush.query.types import Kind

listed = attrgetter("values")
CSV = "id,paid,visits,cost,day\n" + "".join(
    f"{at},{('true', 'false')[at % 2]},{at % 9},{at / 4},2024-01-{at % 28 + 1:02}\n" for at in range(400)
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text(CSV, encoding="utf-8")
    return path


def protect(source: object, **options: Any) -> Curator:
    return hush.protect(source, unit="id", budget=10**6, **options)


def value(curator: Curator, sql: str) -> Any:
    with curator:
        return curator.ask(sql, epsilon=10**4).value()  # noise beyond ±1/2 has a probability below e⁻⁵⁰⁰⁰


def test_types_of_a_text_file_are_said(table: Path) -> None:
    typed = protect(table, types={"paid": "boolean"})
    assert value(typed, "SELECT COUNT(*) AS n FROM data WHERE paid") == 200
    whole = protect(table, types={"visits": "integer"}, bounds={"visits": (0, 10)})
    assert whole.tables()["data"]["visits"].kind == "integer"
    assert value(whole, "SELECT SUM(visits) AS s FROM data") == sum(at % 9 for at in range(400))


def test_the_owners_words_say_the_type_where_a_file_has_none(table: Path) -> None:
    curator = protect(
        table,
        bounds={"visits": (0, 10, 1), "cost": (0, 100), "day": ("2024-01-01", "2024-12-31")},
        values={"paid": [True, False]},
    )
    kinds = {"paid": "boolean", "visits": "integer", "cost": "decimal", "day": "date"}
    assert curator.tables()["data"].types == kinds
    assert value(curator, "SELECT COUNT(*) AS n FROM data WHERE paid AND day < DATE '2024-01-15'") == sum(
        at % 2 == 0 and at % 28 < 14 for at in range(400)
    )


def test_rows_never_say_the_type(tmp_path: Path) -> None:
    """Whatever the rows hold, an undescribed column of a text file is text."""
    for cells in ("1\n2\n", "true\nfalse\n", "2024-01-01\n", "a\n"):
        path = tmp_path / "x.csv"
        path.write_text("id,x\n" + "".join(f"{at},{cell}\n" for at, cell in enumerate(cells.split())), encoding="utf-8")
        with protect(path) as curator:
            assert curator.tables()["data"].types == {"x": "text"}


def test_bounds_of_dates_in_every_spelling() -> None:
    spelt = [
        ("2024-01-01", "2024-12-31"),
        (dt.date(2024, 1, 1), dt.date(2024, 12, 31)),
        (dt.datetime(2024, 1, 1), pd.Timestamp("2024-12-31")),
        (np.datetime64("2024-01-01"), np.datetime64("2024-12-31")),
    ]
    for kind in ("DATE", "TIMESTAMP"):
        found = [describe({"day": kind}, bounds={"day": bounds})[0]["day"] for bounds in spelt]
        assert found == found[:1] * 4
        assert found[0].bounded
    with hush.protect(
        pa.table({"day": [dt.date(2024, 5, 1)] * 500}), budget=100, bounds={"day": ("2024-01-01", "2024-12-31")}
    ) as curator:
        middle = curator.ask("SELECT MEDIAN(day) AS m FROM data", epsilon=50).value()
        assert abs(middle - dt.date(2024, 5, 1)) < dt.timedelta(3)


def test_values_are_read_like_the_policys() -> None:
    found, _ = describe(
        {"n": "BIGINT", "c": "VARCHAR", "b": "BOOLEAN", "d": "DATE"},
        values={"n": np.array([3, 1]), "c": {"a", 7}, "b": [True, False, None], "d": ["2024-01-02"]},
    )
    assert listed(found["n"]) == (3, 1)
    assert (found["n"].lower, found["n"].upper, found["n"].step) == (1, 3, 1)
    assert set(listed(found["c"]) or ()) == {"a", "7"}
    assert listed(found["b"]) == (False, True)
    assert found["b"].lists_null
    assert listed(found["d"]) == (dt.date(2024, 1, 2),)


def test_decimals_are_rounded_where_they_are_summed() -> None:
    found, others = describe({"x": "DOUBLE", "t": "TIME"}, bounds={"x": (0, "0.3")})
    assert (found["x"].kind, found["x"].upper, found["x"].step) == (Kind.DECIMAL, Fraction(3, 10), None)
    assert others == {"t": "TIME"}


def test_sqlite_declares_types_that_are_forced(tmp_path: Path) -> None:
    path = tmp_path / "clinic.sqlite"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE visits (id INTEGER, paid BOOLEAN, cost DECIMAL(10, 2), day DATE, note TEXT, x)")
    rows = [(at, at % 2, at / 4, "2024-01-02", "n", at) for at in range(100)]
    base.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?)", [*rows, (100, "maybe", "dear", "soon", "", "")])
    base.commit()
    base.close()
    curator = protect(path, bounds={"cost": (0, 100), "x": (0, 100)})
    kinds = {"paid": "boolean", "cost": "decimal", "day": "date", "note": "text", "x": "decimal"}
    assert curator.tables()["data"].types == kinds
    assert value(curator, "SELECT COUNT(*) AS n FROM data WHERE paid") == 50
    with pytest.raises(hush.HushError, match=r"'note' is text.*types=\{\"note\": \"date\"\}"):
        protect(path, bounds={"note": ("2024-01-01", "2025-01-01")})


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("missing", [None, float("nan")], ids=["None", "nan"])
def test_empty_columns_of_objects_are_what_the_owner_says(rows: int, missing: object) -> None:
    empty = pd.Series([missing] * rows, dtype=object)
    frame = pd.DataFrame({"id": range(rows), "kind": empty, "size": empty, "other": empty})
    with hush.protect(
        frame, unit="id", values={"kind": ["a", "b"], "size": [1, 2]}, bounds={"other": (0, 9)}, budget=10**6
    ) as curator:
        assert curator.tables()["data"].types == {"kind": "text", "size": "integer", "other": "decimal"}
        found = curator.ask("SELECT kind, COUNT(*) AS n, SUM(other) AS s FROM data GROUP BY kind", epsilon=10**5)
        assert [(row["kind"], round(row["n"]), round(row["s"])) for row in found.rows()] == [("a", 0, 0), ("b", 0, 0)]
    with hush.protect(frame, unit="id", budget=1) as curator:
        assert curator.tables()["data"].types == dict.fromkeys(("kind", "size", "other"), "text")


def test_texts_as_the_values_of_numbers_are_refused_with_the_way_out() -> None:
    frame = pd.DataFrame({"id": [1, 2], "kind": [float("nan")] * 2})
    with pytest.raises(
        hush.HushError, match=r"kind\.values must be numbers, as the column is; got 'a'.*types=\{\"kind\": \"text\"\}"
    ):
        hush.protect(frame, unit="id", values={"kind": ["a", "b"]}, budget=1)
    with hush.protect(frame, unit="id", values={"kind": ["a"]}, types={"kind": "text"}, budget=1) as curator:
        assert curator.tables()["data"].types == {"kind": "text"}
