"""Models from the command line: explained, charged, written, replayed."""

import json
from pathlib import Path

import pytest

from hush import learn
from hush.cli import run
from hush.cli.demo import write_hospital

SQL = "SELECT age, sex, cost FROM visits"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    write_hospital(folder, 1000)
    assert run(["ledger", "open", "--policy", str(folder / "hush.toml"), "--json"]) == 0
    return folder


def hush(capsys, folder: Path, *arguments: str, status: int = 0):
    capsys.readouterr()
    assert run([*arguments, "--policy", str(folder / "hush.toml"), "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_a_model_is_explained_fitted_written_and_replayed(clinic, capsys, tmp_path):
    how = ["fit", SQL, "--target", "cost", "--epsilon", "0.5"]
    said = hush(capsys, clinic, *how, "--explain")
    assert said["price"] == {"epsilon": "0.5", "delta": "0"}
    file = tmp_path / "cost.json"
    made = hush(capsys, clinic, *how, "--request", "mine", "--out", str(file))
    assert made["receipt"]
    assert learn.load(file).predict({"age": [40], "sex": ["f"]}).shape == (1,)
    again = hush(capsys, clinic, *how, "--request", "mine")
    assert again["released"] == made["released"]
    assert again["receipt"] == made["receipt"]


def test_a_summary_is_printed(clinic, capsys):
    policy = ["--policy", str(clinic / "hush.toml")]
    assert run(["fit", SQL, "--target", "cost", "--model", "linear", "--epsilon", "0.2", *policy]) == 0
    assert "estimate" in capsys.readouterr().out


def test_refusals_have_their_exit_status(clinic, capsys):
    refused = hush(capsys, clinic, "fit", SQL, "--target", "kost", "--epsilon", "1", status=2)
    assert "cost" in refused["error"]["message"]
    assert hush(capsys, clinic, "fit", SQL, "--target", "cost", "--epsilon", "1", "--out", "x.txt", status=2)["error"]
    beyond = hush(capsys, clinic, "fit", SQL, "--target", "cost", "--epsilon", "1000", status=3)
    assert beyond["error"]["code"] == "budget-exceeded"
