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
        assert run(["check", "--rows", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["rows"]
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
    assert run(["check", "--rows"]) == 0
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
