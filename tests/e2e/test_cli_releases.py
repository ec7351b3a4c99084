"""Whole releases from the command line: tables, synthetic rows, streams."""

import json
from pathlib import Path

import pytest

from hush.cli import run
from hush.cli.demo import write_hospital


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    write_hospital(folder, 1000)
    policy = folder / "hush.toml"
    text = policy.read_text()
    policy.write_text(text.replace('epsilon = "3"', 'epsilon = "30"').replace('epsilon = "10"', 'epsilon = "100"'))
    assert run(["ledger", "open", "--policy", str(policy), "--json"]) == 0
    return folder


def hush(capsys, folder: Path, *arguments: str, status: int = 0):
    capsys.readouterr()
    assert run([*arguments, "--policy", str(folder / "hush.toml"), "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_tables_are_written_with_a_report(clinic, capsys, tmp_path):
    by = ["marginals", "visits", "--by", "disease,sex", "--epsilon", "1"]
    said = hush(capsys, clinic, *by, "--explain")
    made = hush(capsys, clinic, *by, "--out", str(tmp_path / "tables"))
    assert made["tables"][0]["error"] == pytest.approx(said["tables"][0]["error"])
    assert [Path(file).suffix for file in made["files"]] == [".csv", ".html", ".hush"]
    assert made["price"] == {"epsilon": "1", "delta": "0"}
    assert "Diabetes" in Path(made["files"][0]).read_text()


def test_synthetic_rows_are_written(clinic, capsys, tmp_path):
    sql = "SELECT disease, sex FROM visits"
    said = hush(capsys, clinic, "synth", sql, "--epsilon", "1", "--explain")
    assert "deviations" in said
    file = tmp_path / "rows.csv"
    made = hush(capsys, clinic, "synth", sql, "--epsilon", "1", "--rows", "500", "--out", str(file))
    lines = file.read_text().splitlines()
    assert lines[0] == "disease,sex"
    assert len(lines) == 501
    assert made["quality"]["mean_error"] > 0
    refused = hush(capsys, clinic, "synth", sql, "--epsilon", "1", "--out", "x.txt", status=2)
    assert refused["error"]["code"] == "invalid-value"
    assert hush(capsys, clinic, "synth", sql, "--epsilon", "1000", status=3)["error"]["code"] == "budget-exceeded"


def test_a_stream_from_its_making_to_its_end(clinic, capsys):
    sql = "SELECT day, COUNT(*) AS n FROM visits GROUP BY day"
    options = ["--name", "daily", "--horizon", "1 year", "--epsilon", "1"]
    assert hush(capsys, clinic, "stream", "create", sql, *options, "--explain")["periods"] <= 366
    assert hush(capsys, clinic, "stream", "create", sql, *options)["receipt"]
    first = hush(capsys, clinic, "stream", "advance", "daily", "--through", "2025-01-05")
    again = hush(capsys, clinic, "stream", "advance", "daily", "--through", "2025-01-05")
    assert first["released"] == again["released"] == first["new"]
    assert again["new"] == 0
    shown = hush(capsys, clinic, "stream", "show", "daily")
    assert shown["columns"] == ["day", "n", "week", "total"]
    (view,) = hush(capsys, clinic, "stream", "list")["streams"]
    assert (view["name"], view["pays"], view["released"]) == ("daily", "once", first["released"])
    assert hush(capsys, clinic, "stream", "stop", "daily")["ended"]
    refused = hush(capsys, clinic, "stream", "advance", "daily", "--through", "2025-02-05", status=2)
    assert refused["error"]["code"] == "stream"


def test_for_people_too(clinic, capsys):
    policy = ["--policy", str(clinic / "hush.toml")]
    assert run(["marginals", "visits", "--by", "disease,sex", "--epsilon", "0.5", "--explain", *policy]) == 0
    assert "each ±" in capsys.readouterr().out
    assert run(["synth", "SELECT disease, sex FROM visits", "--epsilon", "0.5", *policy]) == 0
    assert "synthetic rows" in capsys.readouterr().out


def test_ranges_of_a_column(clinic, capsys, tmp_path):
    command = ["ranges", "SELECT age FROM visits", "--epsilon", "1"]
    assert hush(capsys, clinic, *command, "--explain")["errors"]["one cell"] > 0
    made = hush(capsys, clinic, *command, "--out", str(tmp_path / "ages.csv"))
    assert [row["part"] for row in made["quantiles"]] == [0.1, 0.25, 0.5, 0.75, 0.9]
    assert made["receipt"]
    assert (tmp_path / "ages.csv").read_text().startswith("age,")
    assert hush(capsys, clinic, "ranges", "SELECT sex FROM visits", "--epsilon", "1", status=2)["error"]
