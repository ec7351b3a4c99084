"""An analyst's day on the command line: tables, trying out, asking again, seeing again."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hush.cli import COMMANDS, application, run
from hush.cli.demo import write_hospital
from hush.cli.shell import ShellSession
from hush.curator.opening import open_policy
from hush.curator.pipeline import Program

COUNT = "SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease"


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_hospital(tmp_path, 300)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    capsys.readouterr()
    assert run(list(arguments)) == status
    out = capsys.readouterr()
    return out.out + out.err


@pytest.mark.usefixtures("clinic")
def test_a_question_is_tried_asked_asked_again_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tables = said(capsys, "tables")
    assert "protects each patient_id" in tables
    assert "decimal from 0 to 5000 in steps of 0.01" in tables
    assert json.loads(said(capsys, "tables", "visits", "--json"))["tables"][0]["name"] == "visits"
    assert "visits" in said(capsys, "tables", "visit", status=2)
    Path("question.sql").write_text(COUNT)
    tried = said(capsys, "ask", "-f", "question.sql", "--epsilon", "1", "--dummy")  # there is no ledger yet
    assert "MADE-UP ROWS" in tried
    assert "no ledger" in said(capsys, "ask", "-f", "question.sql", "--epsilon", "1", status=2)
    said(capsys, "ledger", "open")
    paid = json.loads(said(capsys, "ask", "-f", "question.sql", "--epsilon", "1", "--json"))
    again = json.loads(said(capsys, "ask", COUNT.lower(), "--epsilon", "1.0", "--format", "json"))
    assert again["rows"] == paid["rows"]
    assert (paid["repeated"], bool(again["repeated"])) == (None, True)
    fresh = json.loads(said(capsys, "ask", COUNT, "--epsilon", "1", "--fresh", "--json"))
    assert fresh["receipt"] != paid["receipt"]
    shown = json.loads(said(capsys, "show", paid["receipt"], "--as", "alice", "--json"))
    assert (shown["rows"], shown["errors"]) == (paid["rows"], paid["errors"])
    assert "no receipt 999" in said(capsys, "show", "999", status=2)
    assert "one of the two" in said(capsys, "ask", COUNT, "-f", "question.sql", status=2)


@pytest.mark.usefixtures("clinic")
def test_an_answer_in_every_form(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said(capsys, "ledger", "open")
    asked = ("ask", COUNT, "--epsilon", "1")
    assert "Diabetes" in said(capsys, *asked)
    assert said(capsys, *asked, "--format", "csv").startswith("disease,n,n_error")
    assert said(capsys, *asked, "--format", "markdown").startswith("| disease | n |")
    assert "choose one" in said(capsys, *asked, "--format", "csv", "--json", status=2)
    written = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", written)
    assert run([*asked, "--format", "parquet"]) == 0
    monkeypatch.undo()
    assert pq.read_table(io.BytesIO(written.buffer.getvalue())).column_names == ["disease", "n", "n_error"]


def test_the_table_of_commands_says_what_the_commands_say(capsys: pytest.CaptureFixture[str]) -> None:
    """Help is told without importing the commands, so their names and words stand in a table."""
    for name, (_, words) in COMMANDS.items():
        app = application(name)
        found = {command.name: command.short_help for command in app.registered_commands}
        found |= {group.name: group.short_help or group.typer_instance.info.help for group in app.registered_groups}
        assert found[name] == words
    listed = said(capsys, "--help")
    assert all(name in listed for name in COMMANDS)
    assert "Did you mean 'ask'" in said(capsys, "akk", status=2)


@pytest.mark.usefixtures("clinic")
def test_a_shell_asks_one_question_after_another(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said(capsys, "ledger", "open")
    lines = [
        "\\epsilon 0.25",
        "SELECT COUNT(*) AS n",
        "FROM visits;",
        "select count(*) as n from visits",
        "",
        "\\explain SELECT COUNT(*) FROM visits;",
        "\\dummy SELECT COUNT(*) FROM visits",
        "\\tables",
        "\\budget",
        "\\history",
        "\\show 4",
        "SELECT nothing FROM visits;",
        "\\what",
        "\\quit",
        "SELECT SUM(cost) FROM visits;",
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    told = said(capsys, "shell", "--as", "alice")
    for words in (
        "price ε=0.25",
        "nothing was charged; fresh=True",
        "enough for it about",
        "MADE-UP ROWS",
        "protects each patient_id",
        "alice's budget (",
        "There is no column 'nothing'",
        "\\explain SELECT",
    ):
        assert words in " ".join(told.split())
    with open_policy("hush.toml", analyst="alice") as curator:
        assert len(curator.history()) == 1
        session = ShellSession(curator, "0.1")
        assert {"visits", "disease", "\\explain", "MEDIAN(", "DATE_TRUNC("} <= set(session.words())
        pressed = []

        def interrupted(*_: object) -> None:
            pressed.append(1)
            raise KeyboardInterrupt

        monkeypatch.setattr(Program, "compute", interrupted)
        capsys.readouterr()
        assert session.told(session.ask, "SELECT COUNT(*) FROM visits WHERE age > 3")
        assert "interrupted after its charge, and stays charged" in capsys.readouterr().err
        assert curator.history()[0].outcome == "failed"
    assert pressed
