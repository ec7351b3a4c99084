"""``hush init``: what it takes from schemas, and what it leaves to the owner."""

from __future__ import annotations

import json
import sqlite3
import tomllib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.cli import run
from hush.policy.file import Policy


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    base = sqlite3.connect(tmp_path / "shop.sqlite")
    base.execute("CREATE TABLE orders (order_id INTEGER, customer INTEGER, paid BOOLEAN, day DATE, sum DECIMAL(10, 2))")
    base.execute('CREATE TABLE lines (order_id INTEGER, piece TEXT, "odd one" INTEGER)')
    base.executemany(
        "INSERT INTO orders VALUES (?, ?, ?, ?, ?)", [(1, 1, 1, "2024-01-01", 3), (2, 2, 0, "2024-01-02", 4)]
    )
    base.commit()
    base.close()
    return tmp_path


def test_types_come_from_sqlites_declarations(folder: Path) -> None:
    assert run(["init", "shop.sqlite", "--unit", "customer", "--epsilon", "1"]) == 0
    text = (folder / "hush.toml").read_text(encoding="utf-8")
    for line in (
        'columns.order_id = { type = "integer" }',
        'columns.paid = { type = "boolean" }',
        'columns.day = { type = "date" }',
        'columns.sum = { type = "decimal", step = "0.01" }',
        'columns.piece = { type = "text" }',
    ):
        assert line in text
    assert "keeps no types" not in text


def test_tables_without_the_unit_are_warned_of_and_left_open(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "shop.sqlite", "--unit", "customer", "--epsilon", "1000"]) == 0
    assert "table lines has no column customer" in capsys.readouterr().err
    text = (folder / "hush.toml").read_text(encoding="utf-8")
    assert '# unit = "orders.customer via order_id"\nunit = ""\n' in text
    with pytest.raises(hush.HushError, match=r"hush\.toml:\d+: data\.mydata\.tables\.lines\.unit must be text"):
        Policy.read("hush.toml")
    filled = text.replace('# unit = "orders.customer via order_id"\nunit = ""', 'unit = "orders.customer via order_id"')
    (folder / "hush.toml").write_text(filled, encoding="utf-8")
    with hush.open("hush.toml", create=True) as curator:
        assert curator.explain("SELECT COUNT(*) AS n FROM lines", epsilon="0.1").price.epsilon
        found = curator.ask("SELECT COUNT(*) AS n FROM orders WHERE paid AND day < DATE '2024-01-02'", epsilon=900)
        assert found.value() == 1  # noise beyond ±1/2 has a probability below e⁻⁸⁰⁰
    assert run(["init", "shop.sqlite", "--unit", "customer", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["without_unit"] == ["lines"]


def test_a_unit_that_no_table_has_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "shop.sqlite", "--unit", "custommer"]) == 2
    assert "customer" in capsys.readouterr().err
    assert not (folder / "hush.toml").exists()


@pytest.mark.parametrize(("header", "separator"), [("id;age", ";"), ('id|"a;b;c"|age', "|"), ("id\tage", "\\t")])
def test_the_separator_of_the_first_line_is_proposed(folder: Path, header: str, separator: str) -> None:
    (folder / "visits.csv").write_text(f"{header}\n1,30,2,4\n", encoding="utf-8")
    assert run(["init", "visits.csv", "--unit", "id"]) == 0
    text = (folder / "hush.toml").read_text(encoding="utf-8")
    assert f'source = "visits.csv"\nseparator = "{separator}"\n' in text
    assert 'columns.age = { type = "text" }' in text


def test_one_column_may_be_another_separator(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "visits.csv").write_text("id:age\n1:30\n", encoding="utf-8")
    assert run(["init", "visits.csv"]) == 0
    assert "--separator" in capsys.readouterr().err
    assert run(["init", "visits.csv", "--separator", ":", "--unit", "id", "--force"]) == 0
    assert 'columns.age = { type = "text" }' in (folder / "hush.toml").read_text(encoding="utf-8")


def test_a_folder_that_is_not_there_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "shop.sqlite", "--output", str(folder / "no" / "hush.toml")]) == 2
    assert "--output" in capsys.readouterr().err


def test_a_folder_is_all_its_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inside = folder / "data"
    inside.mkdir()
    with duckdb.connect(str(inside / "clinic.duckdb")) as base:
        base.execute("CREATE TABLE visits AS SELECT 1 AS customer, 2 AS age")
    (folder / "shop.sqlite").rename(inside / "shop.sqlite")
    (inside / "regions.csv").write_text("region,name\n1,North\n", encoding="utf-8")
    (inside / "readme.txt").write_text("nothing of it", encoding="utf-8")
    assert run(["init", "data", "--unit", "customer", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tables"] == ["lines", "orders", "regions", "visits"]
    assert sorted(found["without_unit"]) == ["lines", "regions"]
    (folder / "empty").mkdir()
    assert run(["init", "empty", "--force"]) == 2
    assert "folder with files that hold tables" in capsys.readouterr().err


def test_empty_places_say_what_belongs_there(folder: Path) -> None:
    """One after the other, until the policy can be read."""
    place = folder / "hush.toml"
    assert run(["init", "shop.sqlite", "--unit", "customer"]) == 0
    text = place.read_text(encoding="utf-8")
    for words, before, after in (
        (r'data\.mydata\.budget\.epsilon is still empty.*epsilon = "1"', 'epsilon = ""', 'epsilon = "4"'),
        (r'lines\.unit must be text.*"orders\.customer_id via order_id"', 'unit = ""', "public = true"),
        (r"a public table has no max_groups\. Delete this line", "max_groups = 1\n", ""),
        (r"a public table has no max_rows\. Delete this line", "max_rows = 1\n", ""),
    ):
        with pytest.raises(hush.HushError, match=rf"hush\.toml:\d+: .*{words}"):
            Policy.read(place)
        text = text.replace(before, after, 1)
        place.write_text(text, encoding="utf-8")
    assert Policy.read(place).schema("mydata").tables["lines"].public


def test_how_a_file_is_written_is_proposed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the first line and the schema, and from no row."""
    (folder / "visits.csv").write_bytes("id;größe\n1;1,5\n".encode("windows-1252"))
    (folder / "late.csv").write_bytes("id;x\n1;é\n".encode("latin-1"))
    (folder / "wide.tsv").write_bytes("id\tx\n1\té\n".encode("utf-16"))
    times = pa.array([0], pa.timestamp("us", "Europe/Berlin"))
    pq.write_table(pa.table({"id": [1], "seen": times}), folder / "times.parquet")
    files = ["visits.csv", "late.csv", "wide.tsv", "times.parquet"]
    assert run(["init", *files, "--unit", "id", "--epsilon", "1", "--no-input", "--separator", ";"]) == 0
    text = (folder / "hush.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)["data"]["mydata"]["tables"]
    assert [found[name].get("encoding") for name in ("visits", "late", "wide", "times")] == [
        "windows-1252", "utf-8", "utf-16", None,
    ]  # fmt: skip
    assert (found["visits"]["decimal"], found["wide"]["decimal"]) == (",", ".")
    assert "größe" in found["visits"]["columns"]
    assert found["times"]["timezone"] == "Europe/Berlin"
    more = ["--encoding", "latin-1", "--decimal", ",", "--timezone", "Europe/Paris", "--force"]
    assert run(["init", "visits.csv", "--separator", ";", *more]) == 0
    text = (folder / "hush.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)["data"]["mydata"]["tables"]["visits"]
    assert [found[key] for key in ("separator", "encoding", "decimal", "timezone")] == [
        ";", "latin-1", ",", "Europe/Paris",
    ]  # fmt: skip
    capsys.readouterr()
    assert run(["init", "visits.csv", "--encoding", "nothing", "--force", "--json"]) == 2
    assert "windows-1252" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_tables_of_one_name_are_both_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("visits.csv", "visits.tsv", "other.csv"):
        (folder / name).write_text("id\n1\n", encoding="utf-8")
    assert run(["init", "."]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "both called visits" in said
    assert "visits.csv and visits.tsv" in said
    assert "other.csv" not in said
