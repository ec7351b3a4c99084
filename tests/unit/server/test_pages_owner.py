"""What the owner's pages write and read: the policy as reviewed, files beside it, and nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from hush.core import HushError
from hush.curator.owner import NewTable
from hush.policy.draft import EVERY_ROW
from hush.server import app
from hush.server.auth.people import People
from hush.server.auth.sessions import CSRF_FIELD
from hush.server.pages import owner as pages
from hush.server.pages.owner import MOST_COLUMNS, _findings, _saved, files_beside, read_columns
from hush.server.routes import Fields
from hush.server.settings import ServiceSettings


def served(policy: Path) -> Any:
    """Return as much of a service as saving a policy needs."""
    return SimpleNamespace(name="olga", settings=SimpleNamespace(policy=str(policy)), agree=lambda *_: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "members.csv").write_text("member,age\n1,secret-value\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("not a table", encoding="utf-8")
    return tmp_path


def test_files_beside_the_policy_alone_are_read(folder: Path) -> None:
    policy = str(folder / "hush.toml")
    (folder / "notes.txt.gz").write_bytes(b"")
    assert files_beside(policy) == ["members.csv"]
    (folder / "drugs.xlsx").write_bytes(b"")  # all that hush init reads
    assert files_beside(policy) == ["drugs.xlsx", "members.csv"]
    (table,) = read_columns(policy, "members.csv")
    assert list(table.columns) == ["member", "age"]
    for name in ("../members.csv", "/etc/passwd", "notes.txt", "https://example.org/a.csv", ""):
        with pytest.raises(HushError, match="beside the policy"):
            read_columns(policy, name)


def drafted(tables: list[NewTable], form: Fields) -> str:
    return pages.drafted(tables, form).to_toml()


def answers(**said: str) -> Fields:
    return Fields({"unit": "member", "epsilon": "1", "delta": "0", "data": "club", "analyst": "ada", **said})


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
    _saved(served(place), right, ledger=False)
    with pytest.raises(HushError):
        _saved(served(place), right.replace('epsilon = "1"', 'epsilon = "-1"'), ledger=False)
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
        _saved(served(place), text.replace(old, new, 1), ledger=False)
    assert not place.exists()


def test_a_messy_file_is_read_as_the_owner_says(tmp_path: Path) -> None:
    rows = "".join(f"{number};{number % 28 + 1}.12.2020;1,5;Pädiatrie\n" for number in range(20))
    (tmp_path / "visits.csv").write_bytes(f"id;day;cost;ward\n{rows}".encode("windows-1252"))
    place = str(tmp_path / "hush.toml")
    said = {"unit": "id", "type visits.day": "date", "type visits.cost": "decimal", "values visits.ward": "Pädiatrie"}
    said |= {"max_rows visits": "40", "max_groups visits": "3", "delta": "1e-6"}
    tables = read_columns(place, "visits.csv")
    assert tables[0].preview()[0] == ["0", "1.12.2020", "1,5", "P\ufffddiatrie"]
    text = drafted(tables, answers(**said))
    assert 'delta = "1e-6"' in text
    assert "max_groups = 3\nmax_rows = 40" in text
    found = _findings(place, text)
    assert found["better"] == {"encoding": "windows-1252", "format visits.day": "%d.%m.%Y"}
    assert len(found["mistakes"]) == 3  # the ward's values are spelt otherwise in the wrong encoding
    assert all(mistake.startswith("hush.toml:") for mistake in found["mistakes"])
    with pytest.raises(HushError, match="not in the encoding"):
        _saved(served(Path(place)), text, ledger=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["visits.csv"]
    tables = read_columns(place, "visits.csv", encoding="windows-1252")
    text = drafted(tables, answers(**said, dates="31.12.2024"))
    assert _findings(place, text) == {"mistakes": [], "better": {}, "proposed": [], "unread": []}
    _saved(served(Path(place)), text, ledger=True)
    assert (tmp_path / "hush.ledger").exists()
    for key, wrong in (("dates", "yesterday"), ("max_rows visits", "many"), ("max_groups visits", "0")):
        with pytest.raises(HushError, match=key.partition(" ")[0].replace("dates", "format")):
            drafted(tables, answers(**{**said, key: wrong}))


def test_rows_are_shown_to_an_owner_alone_and_only_before_there_is_a_policy(
    tmp_path: Path, settings: ServiceSettings, people: People
) -> None:
    new = tmp_path / "new"
    new.mkdir()
    (new / "members.csv").write_text("member,age\n1,secret-value\n", encoding="utf-8")
    fresh = app(replace(settings, policy=str(new / "hush.toml")))
    with TestClient(fresh, base_url="http://localhost", follow_redirects=False) as browser:
        for name, status in (("alice", 403), ("olga", 200)):
            browser.cookies.clear()
            browser.cookies.set("hush", people.begin_session(name))
            found = re.search(r'name="form_token" value="(\w+)"', browser.get("/account").text)
            assert found is not None
            form = {CSRF_FIELD: found[1], "file": "members.csv"}
            told = browser.post("/data", data=form)
            assert (told.status_code, "secret-value" in told.text) == (status, status == 200)
        (new / "hush.toml").write_text("[data.x]", encoding="utf-8")
        told = browser.post("/data", data=form)
        assert told.status_code == 422
        assert "secret-value" not in told.text


@pytest.fixture
def owner(tmp_path: Path, settings: ServiceSettings, people: People) -> Iterator[tuple[Path, Callable[..., Response]]]:
    """A folder without a policy, and an owner who sends forms."""
    folder = tmp_path / "new"
    folder.mkdir()
    fresh = app(replace(settings, policy=str(folder / "hush.toml")))
    with TestClient(fresh, base_url="http://localhost", follow_redirects=False) as browser:
        browser.cookies.set("hush", people.begin_session("olga"))
        token = re.search(r'name="form_token" value="(\w+)"', browser.get("/account").text)
        assert token is not None
        yield folder, lambda path, form: browser.post(path, data={CSRF_FIELD: token[1], **form})


def test_a_file_of_the_most_columns_has_room_in_the_forms_and_a_wider_one_is_refused_at_once(
    owner: tuple[Path, Callable[..., Response]],
) -> None:
    folder, send = owner
    names = [f"measurement number {number}" for number in range(MOST_COLUMNS + 1)]
    for name, count in (("wide", MOST_COLUMNS), ("wider", MOST_COLUMNS + 1)):
        (folder / f"{name}.csv").write_text(",".join(names[:count]) + "\n" + ",".join(["1"] * count) + "\n")
    refused = send("/data", {"file": "wider.csv"})
    assert refused.status_code == 422
    assert all(word in refused.text for word in ("501 columns", "at most 500 columns", "hush init"))
    assert len(refused.text) < 20_000
    form = {"file": "wide.csv"}
    page = send("/data", form)
    assert page.status_code == 200
    fields = re.findall(r'name="((?:type|lower|upper|values) [^"]+)"', page.text)
    assert len(fields) == 4 * MOST_COLUMNS
    said = {"type": "integer", "lower": "0", "upper": "100", "values": ""}
    form |= {field: said[field.partition(" ")[0]] for field in fields}
    form |= {"unit": EVERY_ROW, "epsilon": "1", "delta": "0", "data": "wide", "analyst": "ada"}
    text = drafted(read_columns(str(folder / "hush.toml"), "wide.csv"), Fields(form))
    assert text.count("columns.") == MOST_COLUMNS
    # both forms are read whole, and refused for what stands last in them: all rows of so many columns take long
    for path, last in (("/data", {**form, "unit": ""}), ("/data/policy", {"policy": f"{text}\n[a mistake"})):
        refused = send(path, last)
        assert (refused.status_code, "too large" in refused.text) == (422, False)
        reasons = ("that says whose row it is", "<p>hush.toml:535: this is not TOML")
        assert any(reason in refused.text for reason in reasons)
    if os.environ.get("HUSH_HOSTILE") == "1":  # nightly
        assert send("/data", form).status_code == 200
        saved = send("/data/policy", {"policy": text, "ledger": "1"})
        assert (saved.status_code, "Saved." in saved.text) == (200, True)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("values members.age", "young\nold", "values of age"),
        ("values members.age", "x" * 200_000, "values of age"),
        ("type members.age", 'integer"\nx=1', "age.type is no type"),
        ("lower members.age", "5", "text column has no lower"),
        ("max_rows members", "9" * 5000, "max_rows"),
        ("max_rows members", "\u0663", "max_rows"),
    ],
)
def test_what_no_form_of_ours_sends_is_refused_clearly(
    owner: tuple[Path, Callable[..., Response]], field: str, value: str, told: str
) -> None:
    folder, send = owner
    (folder / "members.csv").write_text("member,age\n1,2\n", encoding="utf-8")
    answers = {"unit": "member", "epsilon": "1", "delta": "0", "data": "club", "analyst": "ada"}
    refused = send("/data", {"file": "members.csv", **answers, field: value})
    assert refused.status_code == 422
    assert told in refused.text
    assert str(folder) not in refused.text


def test_a_word_may_be_called_as_a_parameter(tmp_path: Path) -> None:
    with pytest.raises(HushError):
        read_columns(str(tmp_path / "hush.toml"), "members.csv", name="x", policy="y")
