"""What earlier versions wrote can be read, checked, replayed and gone on with.

``tests/data/versions`` has a folder for each version, written by its own code (see ``make.py`` there).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import pytest
from seams import chain_of

import hush
from hush.accounting import LaplaceEvent, event_from_json
from hush.core import BudgetExceededError
from hush.ledger import Actor, Ledger, LedgerRolledBackError, RequestUnansweredError
from hush.policy.file import Policy

VERSIONS = Path(__file__).parents[2] / "data" / "versions"
OWNER = Actor.owner("owner")


@pytest.fixture(params=sorted(path.name for path in VERSIONS.iterdir() if path.is_dir() and path.name[0].isdigit()))
def folder(request, tmp_path):
    return Path(shutil.copytree(VERSIONS / request.param, tmp_path / "clinic"))


@pytest.fixture
def said(folder):
    """What was said when the files were written."""
    return json.loads((folder / "said.json").read_text(encoding="utf-8"))


def test_stored_answers_say_what_they_said(folder, said):
    names = sorted(path.stem for path in (folder / "answers").iterdir())
    assert names == sorted(said.keys() - {"ledger", "anchored"})
    for name in names:
        data = (folder / "answers" / f"{name}.json").read_bytes()
        answer = hush.Answer.from_bytes(data)
        words = ("columns", "rows", "errors", "confidence", "caveats")
        assert {word: answer.to_json()[word] for word in words} == {word: said[name][word] for word in words}
        now, then = answer.to_json()["price"], said[name]["price"]  # 1e-09 is written 1e-9 by now
        assert {key: Fraction(text) for key, text in now.items()} == {key: Fraction(text) for key, text in then.items()}
        assert hush.Answer.from_bytes(answer.to_bytes()) == answer


def test_a_policy_is_read(folder):
    policy = Policy.read(folder / "hush.toml")
    assert {name: list(policy.schema(name).tables) for name in policy.data} == {
        "clinic": ["visits", "cities"],
        "survey": ["people"],
    }
    assert str(policy.data["clinic"].budget.delta) == "1/10000000"


def test_a_ledger_without_an_anchor_opens_anywhere_and_goes_on(folder, said):
    with Ledger.open(folder / "hush.ledger") as ledger:
        assert asdict(ledger.verify()) == said["ledger"]["report"]
        views = [[view.data, view.analyst, str(view.epsilon), str(view.delta)] for view in ledger.budget(OWNER)]
        assert views == said["ledger"]["accounts"]
        history = [[release.number, release.analyst, release.question] for release in ledger.history(OWNER)]
        assert history == said["ledger"]["history"]
    with hush.open(folder / "hush.toml", analyst="alice") as curator:
        before = curator.budget()
        count = "SELECT COUNT(*) AS n FROM visits"
        replayed = curator.ask(count, epsilon="0.1", request="count-1")
        assert replayed.to_json()["rows"] == said["count"]["rows"]
        assert curator.budget() == before
        with pytest.raises(BudgetExceededError):
            curator.ask(count, epsilon="0.9")
        new = curator.ask(count, epsilon="0.1")
        assert int(new.receipt) > said["ledger"]["report"]["entries"]
    with Ledger.open(folder / "hush.ledger") as ledger:
        assert ledger.verify().charges == said["ledger"]["report"]["charges"] + 1


def open_anchored(folder):
    """Open the ledger whose anchor was in the usual place of the machine it was made on."""
    (anchor,) = (folder / "state" / "hush" / "anchors").iterdir()
    return Ledger.open(folder / "anchored.ledger", anchor=anchor)


def test_a_ledger_with_an_anchor_and_accounts_of_every_kind(folder, said):
    with open_anchored(folder) as ledger:
        report = asdict(ledger.verify())
        known = said["anchored"]["report"]
        assert {**report, "anchor": ""} == {**known, "anchor": ""}
        with pytest.raises(RequestUnansweredError, match="no answer could be computed"):
            replay(ledger, "failed")
        with pytest.raises(RequestUnansweredError, match="no answer"):
            replay(ledger, "pending")
        assert replay(ledger, "sum-LaplaceEvent").answer == b"sum-LaplaceEvent"
        for data in ("sum", "renyi", "zcdp", "gdp"):
            ledger.reserve(f"new-{data}", analyst="alice", data=data, question="?", events=LaplaceEvent(scale=50))
    with open_anchored(folder) as ledger:
        assert ledger.verify().charges == known["charges"] + 4


def test_a_ledger_that_was_moved_with_its_anchors(folder, monkeypatch):
    """Its record names a path of another machine; the anchor is found by the ledger's id."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    with Ledger.open(folder / "anchored.ledger") as ledger:
        ledger.verify()
        ledger.reserve("new", analyst="alice", data="gdp", question="?", events=LaplaceEvent(scale=50))
    (folder / "anchored.ledger").unlink()
    with pytest.raises(LedgerRolledBackError, match="A new one would forget what was spent"):
        Ledger.open(folder / "anchored.ledger", create=OWNER)


def replay(ledger, request):
    """Ask again for what the ledger has, as it was asked."""
    with chain_of(ledger).reading():
        entry = chain_of(ledger).store.reservation("alice", request)
    asked = entry.read()
    events = [event_from_json(event) for event in asked["events"]]
    return ledger.reserve(request, analyst="alice", data=entry.data, question=asked["question"], events=events)


def test_an_export_is_imported(folder, said, tmp_path):
    with (folder / "export.jsonl").open(encoding="utf-8") as file:
        place, anchor = tmp_path / "imported.ledger", tmp_path / "anchor"
        ledger = Ledger.import_(file, place, actor=OWNER, reason="moved", lost="none", anchor=anchor)
    with ledger:
        assert ledger.verify().charges == said["ledger"]["report"]["charges"]


def test_the_present_version_can_still_be_written(tmp_path):
    script = [sys.executable, str(VERSIONS / "make.py"), str(tmp_path / "clinic")]
    subprocess.run(script, check=True, capture_output=True, text=True)
    said = json.loads((tmp_path / "clinic" / "said.json").read_text(encoding="utf-8"))
    assert sorted(path.stem for path in (tmp_path / "clinic" / "answers").iterdir()) == sorted(
        said.keys() - {"ledger", "anchored"}
    )
