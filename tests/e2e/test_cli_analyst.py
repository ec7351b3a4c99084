"""An analyst's day on the command line: tables, trying out, asking again, seeing again."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hush.cli import run
from hush.cli.demo import write_hospital

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
