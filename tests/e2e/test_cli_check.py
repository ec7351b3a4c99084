"""``hush check``: every mistake at once, and what cannot be read, for the owner's eyes."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from hush.cli import run

GOOD = """
[data.clinic]
unit = "id"
budget = { epsilon = "1" }
[data.clinic.tables.visits]
source = "visits.csv"
columns.cost = { type = "decimal", lower = 0, upper = 10 }
columns.sex = { type = "text", values = ["f", "m"] }
columns.day = "date"
[analysts.alice]
data = ["clinic"]
budget = { epsilon = "1" }
"""
BAD = """
ledgr = "x"
[data.clinic]
unit = "id"
budget = { epsilon = "0" }
neighbours = "nobody"
[data.clinic.tables.visits]
source = "visits.csv"
encoding = "no such"
columns.cost = { type = "decimal", lowr = 0 }
columns.sex = { type = "sex" }
columns.nothing = "integer"
[data.clinic.tables.others]
source = "others.csv"
columns.x = "integer"
[data.clinic.tables.again]
source = "./visits.csv"
columns.day = "date"
[data.empty]
budget = { epsilon = "1" }
[analysts.alice]
data = ["clinik"]
budget = { epsilon = "" }
"""
ROWS = 'id,cost,sex,day\n1,1.5,f,2024-01-01\n2,n/a,x,\n,3,m\n4,"4,m,2024-01-01,5\n5,\xe9,f,31.12.2024\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_bytes(ROWS.encode("latin-1"))
    return tmp_path


def test_a_policy_that_can_be_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hush.toml").write_text(GOOD, encoding="utf-8")
    assert run(["check"]) == 0
    told = capsys.readouterr().out
    assert told.endswith("The policy can be used.\n")
    assert "What an analyst will see" in told
    assert run(["check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"policy": "hush.toml", "tables": {"clinic": ["visits"]}, "mistakes": [], "notes": []}
    assert sorted(path.name for path in folder.iterdir()) == ["hush.toml", "visits.csv"]


def test_every_mistake_is_told_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hush.toml").write_text(BAD, encoding="utf-8")
    assert run(["check"]) == 2
    said = capsys.readouterr().out
    for line, words in (
        (2, "unknown key 'ledgr'"),
        (5, "epsilon must be a positive number"),
        (6, "neighbours must be"),
        (9, "encoding must be"),
        (10, "unknown key 'lowr'"),
        (11, "no type: 'sex'"),
        (12, "has no column 'nothing'"),
        (14, "there is no file"),
        (17, "reads the same rows"),
        (19, "has no tables"),
        (22, "'clinik', which is no data set"),
    ):
        assert any(f"hush.toml:{line}: " in part and words in part for part in said.splitlines()), (line, words, said)
    assert said.endswith("mistakes.\n")
    lines = [int(part.split(":")[1]) for part in said.splitlines()[:-1]]
    assert lines == sorted(lines)
    assert run(["check", "--json"]) == 2
    assert len(json.loads(capsys.readouterr().out)["mistakes"]) == len(lines)
    (folder / "hush.toml").write_text("[", encoding="utf-8")
    assert run(["check"]) == 2
    assert "not TOML" in capsys.readouterr().out


def test_what_cannot_be_read_is_counted(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "hush.toml").write_text(GOOD, encoding="utf-8")
    with caplog.at_level(logging.DEBUG):
        assert run(["check", "--rows", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    [found] = told["rows"]
    assert found == {
        "data": "clinic",
        "table": "visits",
        "rows": 5,
        "too_few_fields": 1,
        "too_many_fields": 1,
        "open_quotes": 1,
        "unknown_characters": 1,
        "without_unit": 1,
        "shared_keys": 0,
        "unread_cells": {"cost": 3, "sex": 1, "day": 1},
    }
    assert not caplog.records
    encoding, cost = (mistake["message"] for mistake in told["mistakes"])
    assert 'Write encoding = "windows-1252".' in encoding
    assert "columns.cost: 3 of 5 cells cannot be read as decimal" in cost
    assert run(["check", "--rows"]) == 2
    said = capsys.readouterr().out
    assert "clinic.visits: 5 rows" in said
    assert "3 cells of cost" in said
    assert "for nobody who asks questions" in said
    assert sorted(path.name for path in folder.iterdir()) == ["hush.toml", "visits.csv"]


def test_keys_that_several_units_share_are_a_mistake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = """[data.shop]
unit = "customer"
budget = { epsilon = "1" }
[data.shop.tables.orders]
source = "orders.csv"
columns.number = "integer"
[data.shop.tables.items]
source = "items.csv"
unit = "orders.customer via number"
columns.id = "integer"
[data.shop.tables.notes]
source = "notes.csv"
unit = "items via item = id"
columns.stars = "integer"
"""
    (folder / "hush.toml").write_text(policy, encoding="utf-8")
    (folder / "notes.csv").write_text("item,stars\n1,5\n", encoding="utf-8")
    unique = "number,customer\n1,7\n2,8\n2,8\n,7\n,8\n3,\n3,9\n", "number,id\n1,1\n1,2\n2,3\n"
    for orders, items, shared in (
        (*unique, [0, 0]),
        (unique[0] + "1,8\n2,9\n2,10\n", unique[1], [2, 0]),
        (unique[0], unique[1] + "2,1\n", [0, 1]),
    ):
        (folder / "orders.csv").write_text(orders, encoding="utf-8")
        (folder / "items.csv").write_text(items, encoding="utf-8")
        assert run(["check"]) == 0  # no row is read
        capsys.readouterr()
        assert run(["check", "--rows", "--json"]) == (2 if any(shared) else 0)
        told = json.loads(capsys.readouterr().out)
        assert [found["shared_keys"] for found in told["rows"]] == [*shared, 0]
        assert len(told["mistakes"]) == sum(map(bool, shared))
    assert run(["check", "--rows"]) == 2
    assert "1 keys by which other tables find their unit" in capsys.readouterr().out


def test_decimal_marks_are_counted_as_they_are_declared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "visits.csv").write_text("id;cost;sex;day\n1;1,5;f;\n2;1.5;m;\n", encoding="utf-8")
    for decimal, unread in ((".", 1), (",", 1)):
        policy = GOOD.replace('visits.csv"', f'visits.csv"\nseparator = ";"\ndecimal = "{decimal}"')
        (folder / "hush.toml").write_text(policy, encoding="utf-8")
        assert run(["check", "--rows", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"][0]["unread_cells"]["cost"] == unread


MESS = """
[data.clinic]
unit = "id"
budget = { epsilon = "100000" }
[data.clinic.tables.visits]
source = "visits.csv"
separator = ";"
columns.born = { type = "date" }
columns.seen = { type = "timestamp", lower = 2020-01-01, upper = 2030-12-31 }
columns.cost = { type = "decimal", lower = 0, upper = 10 }
columns.ward = { type = "text", values = ["Pädiatrie", "Chirurgie", "Augen"] }
[analysts.alice]
data = ["clinic"]
"""


def messy(encoding: str = "windows-1252") -> bytes:
    lines = [
        f"{number};{number % 28 + 1:02}.{number % 12 + 1:02}.{1930 + number % 90};"
        f"{number % 9 + 1}/{number % 28 + 1}/24 8:05;{number % 9},5;{('Pädiatrie', 'Chirurgie')[number % 2]}"
        for number in range(300)
    ]
    return "\r\n".join(["id;born;seen;cost;ward", *lines]).encode(encoding)


def test_columns_that_nobody_could_read_are_mistakes_with_what_to_write(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "visits.csv").write_bytes(messy())
    (folder / "hush.toml").write_text(MESS, encoding="utf-8")
    assert run(["check"]) == 0  # no row is read
    capsys.readouterr()
    assert run(["check", "--rows", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    proposed = {(found["column"], found["key"]): found["value"] for found in told["proposals"]}
    assert proposed == {
        (None, "encoding"): "windows-1252",
        (None, "decimal"): ",",
        ("born", "format"): "%d.%m.%Y",
        ("seen", "format"): "%m/%d/%y %H:%M",
    }
    assert run(["check", "--rows"]) == 2
    assert 'Write format = "%d.%m.%Y", which reads 300 of 300.' in capsys.readouterr().out
    right = MESS.replace('";"', '";"\nencoding = "windows-1252"\ndecimal = ","')
    for kind, words in (("date", "%d.%m.%Y"), ("timestamp", "%m/%d/%y %H:%M")):
        right = right.replace(f'type = "{kind}"', f'type = "{kind}", format = "{words}"')
    (folder / "hush.toml").write_text(right, encoding="utf-8")
    assert run(["check", "--rows"]) == 0
    assert run(["ledger", "open"]) == 0
    capsys.readouterr()
    sql = "SELECT COUNT(born) AS b, COUNT(seen) AS s, COUNT(cost) AS c, COUNT_IF(ward = 'Pädiatrie') AS w FROM visits"
    assert run(["ask", sql, "--epsilon", "10000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [[300, 300, 300, 150]]


def test_a_file_of_utf_8_that_is_declared_otherwise_is_a_mistake(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = GOOD.replace('visits.csv"', 'visits.csv"\nencoding = "windows-1252"')
    for rows, status in ((b"id,cost,sex,day\n1,1,f,\n", 0), ("id,cost,sex,day\n1,1,f,ä\n2,1,m,\n".encode(), 2)):
        (folder / "visits.csv").write_bytes(rows)
        (folder / "hush.toml").write_text(policy, encoding="utf-8")
        assert run(["check", "--rows"]) == status
    assert 'Write encoding = "utf-8".' in capsys.readouterr().out


@pytest.mark.parametrize(("line", "words"), [("1;2;f;\n", "3 of 3 rows have too few"), ("1,2,5,f,7\n", "too many")])
def test_fields_with_another_separator_are_a_mistake(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    (folder / "hush.toml").write_text(GOOD, encoding="utf-8")
    (folder / "visits.csv").write_text("id;cost;sex;day\n1;1;f;\n", encoding="utf-8")
    assert run(["check"]) == 2
    assert 'write separator = ";"' in capsys.readouterr().out
    (folder / "visits.csv").write_text("id,cost,sex,day\n" + line * 3, encoding="utf-8")
    assert run(["check"]) == 0
    assert run(["check", "--rows"]) == 2
    assert words in capsys.readouterr().out


def test_few_listed_values_and_few_unread_cells_are_no_mistake(folder: Path) -> None:
    lines = [f"{number},{'x' if number % 3 == 0 else 1},{'f' if number == 5 else 'x'},\n" for number in range(30)]
    (folder / "visits.csv").write_text("id,cost,sex,day\n" + "".join(lines), encoding="utf-8")
    (folder / "hush.toml").write_text(GOOD, encoding="utf-8")
    assert run(["check", "--rows"]) == 0
    (folder / "hush.toml").write_text(GOOD.replace('"f", "m"', '"F", "M"'), encoding="utf-8")
    assert run(["check", "--rows"]) == 2
