"""``hush local``, ``hush party``, ``hush aggregate`` and ``hush demo distributed`` as people run them."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("folder")

NAMES = ("a", "b", "c")


@pytest.fixture
def opened(hush, folder):
    """A session of three parties with three counters each, whose noise is nil."""
    publics = {name: json.loads(hush("party", "key", f"{name}.key", "--json")[1])["public"] for name in (*NAMES, "agg")}
    for i, name in enumerate(NAMES):
        (folder / f"{name}.csv").write_text(f"{i},{10 * i}\n{-i}\n")
    parties = [word for name in NAMES for word in ("--party", f"{name}={publics[name]}")]
    common = ("--key", "agg.key", "--epsilon", "1000", "--length", "3")
    status, out, err = hush("aggregate", "open", "week-9", *parties, *common, "--out", "session.json", "--json")
    assert status == 0, err
    assert json.loads(out)["survivors"] == 3
    return publics


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "hush", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
    )


def run_session(*, seconds=60, ledger=(), names=NAMES):
    """Run the aggregator and parties as processes; return each one's status, output and errors."""
    port = free_port()
    server = start(
        *("aggregate", "run", "session.json", "--key", "agg.key", "--listen", f"127.0.0.1:{port}"),
        *("--seconds", seconds, "--transcript", "transcript.jsonl"),
    )
    first = server.stdout.readline()
    assert f"Listening on 127.0.0.1:{port} for 3 parties" in first
    parties = {
        name: start(
            *("party", "join", "session.json", "--name", name, "--key", f"{name}.key", "--values", f"{name}.csv"),
            *("--connect", f"127.0.0.1:{port}", "--json", *(ledger if name == "a" else ())),
        )
        for name in names
    }
    ends = {}
    for name, process in {"agg": server, **parties}.items():
        out, err = process.communicate(timeout=120)
        ends[name] = process.returncode, out, err
    return ends


def error(end):
    return json.loads(end[1])["error"]["message"]


@pytest.mark.usefixtures("opened")
def test_a_secure_sum_with_a_receipt_in_a_ledger(hush, folder):
    assert hush("ledger", "open")[0] == 0
    assert hush("ledger", "add-data", "clinic", "--epsilon", "2000")[0] == 0
    assert hush("ledger", "add-analyst", "alice", "--data", "clinic", "--epsilon", "2000")[0] == 0
    ledger = ("--ledger", "hush.ledger", "--data", "clinic", "--as", "alice")
    ends = run_session(ledger=ledger)
    assert [end[0] for end in ends.values()] == [0, 0, 0, 0], ends
    assert "3, 30, -3" in ends["agg"][1]
    results = [json.loads(ends[name][1]) for name in NAMES]
    assert all(result["values"] == [3, 30, -3] and result["survivors"] == list(NAMES) for result in results)
    notes = [json.loads(line) for line in (folder / "transcript.jsonl").read_text().splitlines()]
    kinds = "advertise roster share pieces mask survivors confirm confirmations reveal result"
    assert {note["kind"] for note in notes} == set(kinds.split())
    history = json.loads(hush("history", "--json")[1])
    assert "SECURE SUM 'week-9'" in json.dumps(history)
    accounts = json.loads(hush("budget", "--json")[1])["accounts"]
    assert "1000" in json.dumps(accounts)

    # The same session a second time would be a second release: every party refuses before its vector leaves.
    ends = run_session(ledger=ledger, seconds=60)
    assert [end[0] for end in ends.values()] == [2, 2, 2, 2], ends
    assert all("was taken part in before" in error(ends[name]) for name in NAMES)
    assert "only 0 of 3 parties are left at step 'mask'" in ends["agg"][2]
    assert json.loads(hush("budget", "--json")[1])["accounts"] == accounts


@pytest.mark.usefixtures("opened")
def test_too_few_parties_release_nothing(hush):
    assert hush("ledger", "open")[0] == 0
    assert hush("ledger", "add-data", "clinic", "--epsilon", "2000")[0] == 0
    assert hush("ledger", "add-analyst", "alice", "--data", "clinic", "--epsilon", "2000")[0] == 0
    before = json.loads(hush("budget", "--json")[1])
    ends = run_session(
        seconds=5, names=("a", "b"), ledger=("--ledger", "hush.ledger", "--data", "clinic", "--as", "alice")
    )
    assert [end[0] for end in ends.values()] == [2, 2, 2], ends
    # On a busy machine the time may be over before the two are there; nothing is released then either.
    assert re.search("only [0-2] of 3 parties are left", ends["agg"][2])
    assert re.search("no sum was received|no aggregator answers", error(ends["a"]))
    assert "the sums of" not in ends["agg"][1]
    assert json.loads(hush("budget", "--json")[1]) == before  # nothing left this party, so nothing was charged


@pytest.mark.usefixtures("opened")
def test_a_budget_that_does_not_suffice_keeps_the_vector_here(hush):
    assert hush("ledger", "open")[0] == 0
    assert hush("ledger", "add-data", "clinic", "--epsilon", "2")[0] == 0
    assert hush("ledger", "add-analyst", "alice", "--data", "clinic", "--epsilon", "1")[0] == 0
    ends = run_session(ledger=("--ledger", "hush.ledger", "--data", "clinic", "--as", "alice"))
    assert ends["a"][0] != 0
    assert "only 2 of 3 parties are left at step 'mask'" in ends["agg"][2]
    assert "no sum was received" in error(ends["b"])


@pytest.mark.parametrize(("change", "message"), [
    ({"--key": "b.key"}, "private key of 'a'"),
    ({"--key": "a.csv"}, "hush party key"),
    ({"--name": "nobody"}, "a party of session"),
    ({"--values": "short.csv"}, "3 counters"),
    ({"--values": "words.csv"}, "whole numbers"),
    ({"--values": "missing.csv"}, "whole numbers"),
    ({"--connect": "nowhere"}, "127.0.0.1:7000"),
    ({"--connect": "127.0.0.1:1"}, "no aggregator answers"),
    ({"--ledger": "x.ledger"}, "--data and --as"),
])  # fmt: skip
@pytest.mark.usefixtures("opened")
def test_what_a_party_cannot_do(hush, folder, change, message):
    (folder / "short.csv").write_text("1\n2\n")
    (folder / "words.csv").write_text("1\nsecret-word\n3\n")
    options = {"--name": "a", "--key": "a.key", "--values": "a.csv", "--connect": "127.0.0.1:1"} | change
    status, out, err = hush("party", "join", "session.json", *(word for pair in options.items() for word in pair))
    assert status in {1, 2}
    assert not out
    assert message in err
    assert "secret-word" not in err
    assert not list(folder.glob("*.taken"))


def test_sessions_and_keys_that_cannot_be(opened, hush, folder):
    status, _, err = hush("aggregate", "run", "session.json", "--key", "a.key", "--listen", "127.0.0.1:0")
    assert (status, "aggregator" in err) == (2, True)
    assert hush("party", "key", "a.key")[0] == 2
    assert oct((folder / "a.key").stat().st_mode)[-3:] == "600"
    party = ("--party", f"a={opened['a']}", "--party", f"b={opened['b']}")
    common = ("--key", "agg.key", "--epsilon", "1", "--out", "other.json")
    for wrong in (
        ("--party", "a=zz", *party[2:]), party[:2], (*party, "--dropouts", "1"), (*party, "--colluding", "1"),
        ("--party", f"a={opened['agg']}", *party[2:]),
    ):  # fmt: skip
        status, _, err = hush("aggregate", "open", "x", *wrong, *common)
        assert (status, err.startswith("error: ")) == (2, True), wrong
    assert not (folder / "other.json").exists()
    content = json.loads((folder / "session.json").read_text())
    for change in ({"epsilon": "x"}, {"dropouts": 9}, {"extra": 1}, {"parties": []}, {"version": 2}):
        (folder / "bad.json").write_text(json.dumps(content | change))
        status, _, err = hush("aggregate", "run", "bad.json", "--key", "agg.key", "--listen", "127.0.0.1:0")
        assert (status, err.startswith("error: ")) == (2, True), change


def test_a_survey(hush, folder, monkeypatch):
    status, out, _ = hush(
        *(
            "local",
            "make-form",
            "Do you smoke?",
            "--categories",
            "yes,no",
            "--epsilon",
            "8",
            "--out",
            "form.json",
            "--json",
        )
    )
    assert status == 0
    assert json.loads(out)["mechanism"] == "RandomizedResponse"
    lines = []
    for answer in ["yes"] * 6 + ["no"] * 4:
        status, out, _ = hush("local", "report", "form.json", answer)
        assert status == 0
        assert json.loads(out)["form"]
        lines.append(out)
    other = '{"form":"0000000000000000","report":1}\n'
    garbage = ['{"report":1}\n', "nonsense\n", lines[0].replace('"report":', '"report":7'), other]
    (folder / "reports.jsonl").write_text("".join(lines + garbage))
    status, out, _ = hush("local", "estimate", "form.json", "reports.jsonl", "--chart", "chart.svg", "--json")
    shown = json.loads(out)
    assert status == 0
    assert (shown["reports"], shown["refused"]) == (10, 4)
    # At ε = 8 a report is false with probability 1/2982: eight or more of ten false ones never happen.
    assert abs(shown["rows"][0][1] - 0.6) < 0.8
    assert (folder / "chart.svg").read_text().startswith("<svg")
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(lines)))
    status, out, _ = hush("local", "estimate", "form.json", "-")
    assert status == 0
    assert "10 reports" in out


def test_a_survey_of_numbers(hush, folder):
    assert hush("local", "make-form", "Age?", "--bounds", "0,120", "--epsilon", "4", "--out", "form.json")[0] == 0
    reports = "".join(hush("local", "report", "form.json", "40")[1] for _ in range(20))
    (folder / "reports.jsonl").write_text(reports)
    status, out, _ = hush("local", "estimate", "form.json", "reports.jsonl", "--json", "--confidence", "0.99999999")
    shown = json.loads(out)
    assert status == 0
    assert abs(shown["rows"][0][1] - 40) <= shown["errors"][0][1]


@pytest.mark.parametrize("arguments", [
    ("make-form", "q", "--epsilon", "1"),
    ("make-form", "q", "--epsilon", "0", "--categories", "a,b"),
    ("make-form", "q", "--epsilon", "1", "--categories", "a"),
    ("make-form", "q", "--epsilon", "1", "--bounds", "5"),
    ("make-form", "q", "--epsilon", "1", "--bounds", "5,1"),
    ("report", "form.json", "maybe"),
    ("report", "missing.json", "yes"),
    ("report", "broken.json", "yes"),
    ("estimate", "form.json", "missing.jsonl"),
    ("estimate", "form.json", "empty.jsonl"),
    ("estimate", "form.json", "reports.jsonl", "--confidence", "2"),
])  # fmt: skip
def test_surveys_that_cannot_be(hush, folder, arguments):
    assert hush("local", "make-form", "q", "--categories", "yes,no", "--epsilon", "1", "--out", "form.json")[0] == 0
    (folder / "broken.json").write_text('{"version": 1}')
    (folder / "empty.jsonl").write_text("nothing\n")
    (folder / "reports.jsonl").write_text(hush("local", "report", "form.json", "yes")[1])
    status, out, err = hush("local", *arguments)
    assert status in {1, 2}
    assert not out
    assert err.startswith("error: ")


def test_the_tour(hush, folder):
    status, out, err = hush("demo", "distributed", "--json", "--folder", folder / "tour")
    assert status == 0, err
    shown = json.loads(out)
    assert shown["models"][0]["model"] == "central"
    # Fifty standard deviations: never, for any of these noises.
    runs = [row for row in shown["models"] if row["run"] is not None]
    assert len(runs) == 4
    assert all(abs(row["run"] - shown["truth"]) < 50 * row["deviation"] for row in runs)
    assert shown["smokers"]["exact"] == [2, 3]
    assert (folder / "tour" / "price-of-trust.svg").read_text().startswith("<svg")
