"""``hush budget``, ``hush history`` and ``hush ledger …`` as owners and analysts run them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hush.accounting import ApproximateDPEvent
from hush.ledger import Ledger

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def ready(hush):
    assert hush("ledger", "open")[0] == 0
    assert hush("ledger", "add-data", "clinic", "--epsilon", "2")[0] == 0
    assert hush("ledger", "add-analyst", "alice", "--data", "clinic", "--epsilon", "1")[0] == 0
    with Ledger.open("hush.ledger") as ledger:
        ticket = ledger.reserve(
            "q1",
            analyst="alice",
            data="clinic",
            question="SELECT COUNT(*)\nFROM visits",
            events=[ApproximateDPEvent(epsilon="0.25")],
        )
        ledger.answered(ticket, b"1203")
    return hush


def result(call):
    status, out, err = call
    assert status == 0, out + err
    return json.loads(out)


def test_budget(ready):
    accounts = result(ready("budget", "--json"))["accounts"]
    assert [(item["data"], item["analyst"]) for item in accounts] == [("clinic", None), ("clinic", "alice")]
    assert accounts[0]["budget"] == {"epsilon": "2", "delta": "0"}
    assert accounts[1]["remaining"] == {"epsilon": "0.75", "delta": "0", "share": 0.75}
    assert accounts[1]["spent"] == {"share": 0.25}
    detailed = result(ready("budget", "--json", "--details"))["accounts"]
    assert detailed[1]["spent"] == {"epsilon": "0.25", "delta": "0", "share": 0.25}
    assert accounts[1]["counts"] == {"error": "50", "confidence": "0.95", "left": 12}  # 0.75 / (ln 20 / 50) = 12.5
    more = result(ready("budget", "--json", "--error", "100", "--confidence", "0.9", "--as", "alice"))["accounts"]
    assert more[1]["counts"]["left"] == 32  # 0.75 / (ln 10 / 100) = 32.57
    status, out, _ = ready("budget")
    assert status == 0
    assert "counts at ±50" in out
    assert "alice" in out


def test_history(ready):
    releases = result(ready("history", "--json"))["releases"]
    assert [item["request"] for item in releases] == ["q1"]
    assert releases[0]["outcome"] == "answered"
    assert releases[0]["events"][0]["type"] == "approx_dp"
    assert releases[0]["share"] == pytest.approx(0.125)
    assert ready("ledger", "add-analyst", "bob", "--data", "clinic")[0] == 0  # bound by the data set's budget alone
    assert result(ready("history", "--json", "--as", "bob"))["releases"] == []
    assert "SELECT COUNT(*) FROM visits" in ready("history", "--limit", "5")[1]


def test_history_adds_up_to_what_the_budget_says(ready):
    lines = ready("history")[1].splitlines()
    assert lines[0].split() == ["no.", "when", "analyst", "data", "ε", "took", "outcome"]
    assert lines[1].endswith("0.25  12.5%  answered")
    assert lines[2].strip() == "SELECT COUNT(*) FROM visits"
    assert lines[-1].strip() == "the budget of clinic (ε=2): 12.5% is spent, 87.5% is left"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("history", "--as", "alicf"), "Did you mean 'alice'?"),
        (("budget", "--as", "zoe"), "It knows alice."),
        (("history", "--data", "clinics"), "Did you mean 'clinic'?"),
    ],
)
def test_names_that_nobody_has_are_refused(ready, arguments, words):
    status, _, err = ready(*arguments)
    assert status == 2
    assert words in " ".join(err.split())


def test_rights_and_errors(ready):
    status, out, _ = ready("ledger", "raise", "clinic", "--epsilon", "5", "--as", "alice", "--json")
    assert status == 2
    assert json.loads(out)["error"]["code"] == "not-allowed"
    status, _, err = ready("ledger", "raise", "clinic", "--epsilon", "1")
    assert status == 2
    assert "A budget can be raised" in err
    Path("bytes").write_bytes(b"\xff\xfe\n")
    for arguments, code in (
        (("budget", "--ledger", "nowhere"), "ledger-missing"),
        (("budget", "--ledger", "ftp://x"), "invalid-value"),
        (("budget", "--anchor", "none"), "ledger"),
        (("budget", "--error", "zero"), "invalid-value"),
        (("ledger", "add-data", "clinic", "--epsilon", "1"), "account-exists"),
        (("ledger", "add-data", "x", "--epsilon", "nan"), "invalid-value"),
        (("ledger", "add-data", "x", "--epsilon", "1", "--kind", "magic"), "invalid-value"),
        (("ledger", "add-analyst", "bob", "--data", "clinik"), "unknown-account"),
        (("ledger", "export", "hush.ledger"), "invalid-value"),
        (("ledger", "import", "missing.jsonl", "--reason", "r", "--lost", "none"), "invalid-value"),
        (("ledger", "import", "bytes", "--ledger", "new.ledger", "--reason", "r", "--lost", "none"), "invalid-value"),
        (("ledger", "restore", "--reason", "r", "--lost", "much"), "invalid-value"),
        (("ledger", "restore", "--reason", "r"), "usage"),
    ):
        status, out, _ = ready(*arguments, "--json")
        assert status == 2, arguments
        assert json.loads(out)["error"]["code"] == code, arguments
    assert result(ready("ledger", "verify", "--json"))["entries"] == 5


def test_raise_and_acts(ready):
    assert ready("ledger", "raise", "clinic", "--epsilon", "3")[0] == 0
    assert ready("ledger", "raise", "clinic", "--analyst", "alice", "--epsilon", "2")[0] == 0
    acts = result(ready("ledger", "acts", "--json"))["acts"]
    assert [act["kind"] for act in acts] == ["ledger", "data", "analyst", "raise", "raise"]
    assert "raise" in ready("ledger", "acts")[1]


def test_export_import_restore(ready, folder):
    assert ready("ledger", "export", "copy.jsonl")[0] == 0
    assert ready("ledger", "export")[1] == (folder / "copy.jsonl").read_text(encoding="utf-8")
    arguments = ("import", "copy.jsonl", "--ledger", "new.ledger", "--reason", "moved", "--lost", "none")
    assert ready("ledger", *arguments)[0] == 0
    old, new = (result(ready("budget", "--json", "--ledger", name)) for name in ("hush.ledger", "new.ledger"))
    assert old == new
    shutil.copy("hush.ledger", "backup")
    with Ledger.open("hush.ledger") as ledger:
        for at in range(2):
            events = [ApproximateDPEvent(epsilon="0.1")]
            ledger.reserve(f"x{at}", analyst="alice", data="clinic", question="q", events=events)
    shutil.copy("backup", "hush.ledger")
    status, out, _ = ready("budget", "--json")
    assert status == 2
    assert json.loads(out)["error"]["code"] == "ledger-rolled-back"
    assert ready("ledger", "restore", "--reason", "disk died", "--lost", "0.2,0")[0] == 0
    assert result(ready("budget", "--json"))["accounts"][1]["remaining"]["epsilon"] == "0.55"
    assert "Anchor" in ready("ledger", "verify")[1]


def test_a_real_process(ready, folder):
    del ready
    done = subprocess.run(
        [sys.executable, "-m", "hush", "ledger", "verify", "--json", "--policy", str(folder / "hush.toml")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["charges"] == 1


@pytest.mark.parametrize(
    "command", ["open", "add-data", "add-analyst", "raise", "verify", "acts", "export", "import", "restore"]
)
def test_every_command_has_help(hush, command):
    status, out, _ = hush("ledger", command, "--help")
    assert status == 0
    assert "--ledger" in out


def test_an_empty_place_is_not_the_usual_ledger(ready):
    assert ready("ledger", "acts")[0] == 0
    assert ready("ledger", "acts", "--ledger", "")[0] == 2


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("serve", ("X-Forwarded", "127.0.0.1:PORT/metrics", "under which the service is addressed")),
        ("ledger open", ("the old budget is not",)),
        ("bounds", ("to the analyst under whose name it is asked",)),
        ("check", ("Exact numbers", "too few or too many fields")),
    ],
)
def test_help_says_what_an_option_means(hush, command, words):
    text = " ".join(hush(*command.split(), "--help")[1].replace("│", " ").split())
    assert [word for word in words if word not in text] == []
