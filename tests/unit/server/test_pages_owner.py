"""What the owner's pages write and read: the policy as reviewed, files beside it, and nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import FormData

from hush.core import HushError
from hush.ledger import Role
from hush.server.auth.people import Person
from hush.server.pages.owner import EVERY_ROW, _saved, drafted, files_beside, read_columns

OLGA = Person(name="olga", roles=frozenset({Role.OWNER}))


def served(policy: Path) -> Any:
    """Return as much of a service as saving a policy needs."""
    return SimpleNamespace(settings=SimpleNamespace(policy=str(policy)), agree=lambda *_: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "members.csv").write_text("member,age\n1,secret-value\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("not a table", encoding="utf-8")
    return tmp_path


def test_files_beside_the_policy_alone_are_read(folder: Path) -> None:
    policy = str(folder / "hush.toml")
    assert files_beside(policy) == ["members.csv"]
    (table,) = read_columns(policy, "members.csv")
    assert [name for name, _ in table.columns] == ["member", "age"]
    for name in ("../members.csv", "/etc/passwd", "notes.txt", "https://example.org/a.csv", ""):
        with pytest.raises(HushError, match="beside the policy"):
            read_columns(policy, name)


def answers(**said: str) -> FormData:
    return FormData({"unit": "member", "epsilon": "1", "delta": "0", "data": "club", "analyst": "ada", **said})


def test_the_draft_says_what_the_owner_said_and_nothing_of_rows(folder: Path) -> None:
    tables = read_columns(str(folder / "hush.toml"), "members.csv")
    said = {"type members.age": "integer", "lower members.age": "0", "upper members.age": "120"}
    text = drafted(tables, answers(**said))
    assert 'columns.age = { type = "integer", lower = 0, upper = 120 }' in text
    assert "secret-value" not in text
    assert 'unit = "member"' in text
    assert "\nunit =" not in drafted(tables, answers(unit=EVERY_ROW))
    with pytest.raises(HushError, match="whose row"):
        drafted(tables, answers(unit=""))
    with pytest.raises(HushError, match="epsilon"):
        drafted(tables, answers(epsilon="much"))


def test_a_policy_with_a_mistake_changes_nothing(folder: Path) -> None:
    place = folder / "hush.toml"
    right = drafted(read_columns(str(place), "members.csv"), answers())
    _saved(served(place), OLGA, right, ledger=False)
    with pytest.raises(HushError):
        _saved(served(place), OLGA, right.replace('epsilon = "1"', 'epsilon = "-1"'), ledger=False)
    assert place.read_text(encoding="utf-8") == right
    assert sorted(file.name for file in folder.iterdir()) == ["hush.toml", "members.csv", "notes.txt"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('source = "members.csv"', 'source = "/etc/passwd"'),
        ('source = "members.csv"', 'source = "../members.csv"'),
        ('source = "members.csv"', 'source = "https://example.org/members.csv"'),
        ('engine = "duckdb"', 'engine = "postgresql://elsewhere/db"'),
        ("[data.club]", 'ledger = "/tmp/other"\n[data.club]'),
    ],
)
def test_the_page_opens_no_other_place(folder: Path, old: str, new: str) -> None:
    place = folder / "hush.toml"
    text = drafted(read_columns(str(place), "members.csv"), answers())
    assert old in text
    with pytest.raises(HushError):
        _saved(served(place), OLGA, text.replace(old, new, 1), ledger=False)
    assert not place.exists()
