"""Declared streams from the command line: explained, declared, run by cron, read, stopped; also when it is killed."""

from __future__ import annotations

import datetime as dt
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hush.cli import run
from hush.cli.demo import write_hospital
from hush.curator import declared_streams
from hush.ledger import Ledger

TODAY = dt.datetime.now(dt.UTC).date()
FIRST = (TODAY - dt.timedelta(days=1)).isoformat()
SECTION = f"""
[standing.daily]
sql = "SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease"
epsilon = "0.1"
every = "day"
first = {FIRST}
releases = 5
"""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.setattr(declared_streams, "TICK", 0.001)
    write_hospital(tmp_path, 300)
    policy = tmp_path / "hush.toml"
    policy.write_text(policy.read_text("utf-8") + SECTION, encoding="utf-8")
    assert run(["ledger", "open", "--policy", str(policy), "--json"]) == 0
    capsys.readouterr()
    return policy


def hush(capsys: pytest.CaptureFixture[str], policy: Path, *arguments: str, status: int = 0) -> Any:
    capsys.readouterr()
    assert run(["stream", *arguments, "--policy", str(policy), "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_from_the_policy_to_the_last_word(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (told,) = hush(capsys, clinic, "declare", "--explain")["streams"]
    assert (told["name"], told["releases"], told["fits"]) == ("daily", 5, True)
    assert hush(capsys, clinic, "list") == {"streams": [], "undeclared": ["daily"]}
    made = hush(capsys, clinic, "run")
    assert [(release["period"], release["state"]) for release in made["released"]] == [
        (FIRST, "made"),
        (TODAY.isoformat(), "made"),
    ]
    assert hush(capsys, clinic, "run") == {"released": [], "refused": {}}
    assert run(["budget", "--policy", str(clinic), "--json"]) == 0
    (first, *_) = json.loads(capsys.readouterr().out)["accounts"]
    assert (first["spent"]["share"] > 0, first["set_aside"] > 0) == (True, True)
    assert sum((first["spent"]["share"], first["set_aside"], first["remaining"]["share"])) == pytest.approx(1)
    assert run(["budget", "--policy", str(clinic)]) == 0
    assert "set" in capsys.readouterr().out
    (view,) = hush(capsys, clinic, "list")["streams"]
    assert [release["state"] for release in view["releases"]] == ["made", "made", "planned", "planned", "planned"]
    answer = hush(capsys, clinic, "show", "daily", FIRST)
    assert answer["receipt"] == str(view["releases"][0]["receipt"])
    assert answer["columns"] == ["disease", "n"]
    assert hush(capsys, clinic, "show", "daily")["receipt"] == str(view["releases"][1]["receipt"])
    assert hush(capsys, clinic, "show", "daily", "2020-01-01", status=2)["error"]["code"] == "unknown-stream"
    assert hush(capsys, clinic, "stop", "daily", "--reason", "enough") == {"name": "daily", "ended": True, "freed": 3}
    assert hush(capsys, clinic, "stop", "daily", status=2)["error"]["code"] == "ledger"
    assert run(["ledger", "verify", "--policy", str(clinic), "--json"]) == 0
    capsys.readouterr()
    for command in (["list"], ["run"], ["declare", "--explain"], ["show", "daily"]):
        assert run(["stream", *command, "--policy", str(clinic)]) == 0
    shown = capsys.readouterr().out
    assert "daily: every day, 2 made, ended" in shown
    assert "Nothing is due." in shown


def test_declared_with_options_refused_and_read_by_analysts(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--sql", "SELECT COUNT(*) AS n FROM visits", "--every", "week", "--first", FIRST, "--releases", "40"]
    refused = hush(capsys, clinic, "declare", "big", *words, "--epsilon", "1", status=3)
    assert "40 releases at ε=1 each do not fit" in refused["error"]["message"]
    assert " would. Lower epsilon" in refused["error"]["message"]
    for wrong in (["--late", "never", "--epsilon", "1"], [], ["--data", "nowhere", "--epsilon", "1"]):
        assert hush(capsys, clinic, "declare", "big", *words, *wrong, status=2)["error"]["code"] == "invalid-value"
    assert hush(capsys, clinic, "declare", "dayly", status=2)["error"]["code"] == "invalid-value"
    options = ["--total-epsilon", "0.5", "--late", "skip"]
    assert hush(capsys, clinic, "declare", "weekly", *words, *options, "--readers", "nobody", status=2)
    more = clinic.read_text("utf-8").replace("[standing.daily]", '[analysts.bob]\ndata = ["clinic"]\n[standing.daily]')
    clinic.write_text(more, encoding="utf-8")
    options += ["--readers", "bob"]
    assert hush(capsys, clinic, "declare", "weekly", *words, *options)["streams"][0]["name"] == "weekly"
    hush(capsys, clinic, "run", "weekly")
    assert hush(capsys, clinic, "list", "--as", "alice")["streams"][0]["name"] == "daily"
    hush(capsys, clinic, "show", "weekly", "--as", "alice", status=2)


def test_check_reads_the_sql_of_a_policy(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--policy", str(clinic), "--json"]) == 0
    clinic.write_text(
        clinic.read_text("utf-8").replace("SELECT disease, COUNT(*)", "SELECT diseases, COUNT(*)"), "utf-8"
    )
    capsys.readouterr()
    assert run(["check", "--policy", str(clinic), "--json"]) == 2
    assert "standing.daily.sql: There is no column" in capsys.readouterr().out


def test_other_words_in_the_policy_are_refused_and_the_rest_goes_on(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hush(capsys, clinic, "declare")
    clinic.write_text(clinic.read_text("utf-8").replace('epsilon = "0.1"\nevery', 'epsilon = "0.2"\nevery'), "utf-8")
    told = hush(capsys, clinic, "run", status=2)
    assert "with other words (price)" in told["refused"]["daily"]["message"]
    assert len(told["released"]) == 2  # as it was declared


SLOW = """
import sys
from hush.cli import run
from hush.curator import declared_streams
declared_streams.TICK = 600.0
run(sys.argv[1:])
"""


def test_two_runs_at_once_and_one_that_is_killed(clinic: Path) -> None:
    """A run that is killed after its charge leaves a failed release; those of others are made once."""
    words = ["stream", "run", "--policy", str(clinic), "--json"]
    killed = subprocess.Popen([sys.executable, "-c", SLOW, *words], stdout=subprocess.DEVNULL)
    with Ledger.open(clinic.parent / "hush.ledger") as ledger:
        while not any(plan.aside.next for plan in ledger.streams.listed()):
            assert killed.poll() is None
            time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    runs = [subprocess.Popen([sys.executable, "-m", "hush", *words], stdout=subprocess.PIPE) for _ in range(2)]
    released = [json.loads(each.communicate()[0])["released"] for each in runs]
    made = [release["period"] for told in released for release in told]
    assert made == [TODAY.isoformat()]
    with Ledger.open(clinic.parent / "hush.ledger") as ledger:
        plan = ledger.streams.find("daily")
        states = [release.state for release in ledger.streams.periods(plan)]
        assert states == ["failed", "made", "planned", "planned", "planned"]
        assert ledger.verify().charges == 2


def test_long_names_leave_the_other_columns_of_the_history_whole(
    clinic: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hush(capsys, clinic, "run")
    monkeypatch.setenv("COLUMNS", "70")
    assert run(["history", "--policy", str(clinic)]) == 0
    told = capsys.readouterr().out
    assert "…" not in told
    assert told.count("answered") == told.count("standing daily") == 2
