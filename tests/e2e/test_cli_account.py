"""``hush account`` as a user runs it: its output and its exit status, once in a process of its own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import command as hush

from hush.cli import run

CASES = json.loads((Path(__file__).parents[1] / "data" / "accounting.json").read_text(encoding="utf-8"))
MECHANISMS = [{"type": "laplace", "scale": 10, "sensitivity": 1, "count": 100}]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mechanisms.json"
    path.write_text(json.dumps(MECHANISMS), encoding="utf-8")
    return path


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_golden_cases(case, tmp_path):
    path = tmp_path / "case.json"
    path.write_text(json.dumps(case), encoding="utf-8")
    option = "--delta" if case["query"] == "epsilon at delta" else "--epsilon"
    result = hush("account", path, option, repr(case["at"]), "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert set(answer) == {"lower", "upper"}
    assert answer["lower"] <= case["upper"]
    assert answer["upper"] <= case["value"] * (1 + 1e-6)
    # a bound that no mechanism attains may be undercut
    assert case["lower"] <= answer["upper"] or "adaptive-safe dominating pair" in case["description"]


def test_standard_input_and_table(file):
    result = hush("account", "-", "--delta", "1e-6", text=file.read_text(encoding="utf-8"))
    assert result.returncode == 0, result.stderr
    for word in ("basic", "advanced", "optimal", "zCDP", "Rényi", "certified", "1e-6"):
        assert word in result.stdout


def test_delta_in_words(file):
    result = hush("account", str(file), "--epsilon", "3")
    assert result.returncode == 0, result.stderr
    assert "≤ δ ≤" in result.stdout


def test_pure_epsilon(file):
    result = hush("account", str(file), "--delta", "0")
    assert result.returncode == 0, result.stderr
    assert "ε ≤ 10 " in result.stdout
    assert json.loads(hush("account", str(file), "--delta", "0", "--json").stdout)["upper"] == pytest.approx(10)


def test_chart(file, tmp_path):
    picture = tmp_path / "theorems.svg"
    result = hush("account", str(file), "--delta", "1e-6", "--chart", str(picture))
    assert result.returncode == 0, result.stderr
    assert picture.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("target", ["/no/such/folder/chart.svg", "chart.json", "chart"])
def test_a_chart_that_cannot_be_saved(file, target):
    result = hush("account", file, "--delta", "1e-6", "--chart", target, "--json")
    assert result.returncode == 2
    assert set(json.loads(result.stdout)) == {"error"}


BAD = {
    "no JSON": ("{", ["--delta", "1e-6"]),
    "empty": ("", ["--delta", "1e-6"]),
    "not a list": ("3", ["--delta", "1e-6"]),
    "empty list": ("[]", ["--delta", "1e-6"]),
    "unknown type": ('[{"type": "magic"}]', ["--delta", "1e-6"]),
    "no type": ("[{}]", ["--delta", "1e-6"]),
    "not an object": ("[1]", ["--delta", "1e-6"]),
    "negative": ('[{"type": "laplace", "scale": -1, "sensitivity": 1}]', ["--delta", "1e-6"]),
    "NaN": ('[{"type": "laplace", "scale": NaN, "sensitivity": 1}]', ["--delta", "1e-6"]),
    "neither": (json.dumps(MECHANISMS), []),
    "both": (json.dumps(MECHANISMS), ["--delta", "1e-6", "--epsilon", "1"]),
    "delta of zero for noise without bound": ('[{"type": "gaussian", "sigma": 1, "sensitivity": 1}]', ["--delta", "0"]),
    "delta above one": (json.dumps(MECHANISMS), ["--delta", "2"]),
    "delta is a word": (json.dumps(MECHANISMS), ["--delta", "small"]),
    "negative epsilon": (json.dumps(MECHANISMS), ["--epsilon", "-1"]),
    "deep": ("[" * 100_000, ["--delta", "1e-6"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_ends_with_one_message_and_status_two(name):
    text, options = BAD[name]
    machine = hush("account", "-", *options, "--json", text=text)
    assert machine.returncode == 2
    error = json.loads(machine.stdout)["error"]
    assert set(error) == {"code", "message"}
    assert error["message"]
    person = hush("account", "-", *options, text=text)
    assert (person.returncode, person.stdout) == (2, "")
    assert person.stderr.startswith("error:")


def test_a_person_gets_no_traceback():
    program = [sys.executable, "-m", "hush", "account", "-", "--delta", "1e-6"]
    result = subprocess.run(program, input="{", capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error:")
    assert "Traceback" not in result.stderr


def test_missing_file_and_unknown_option():
    result = hush("account", "/no/such/file.json", "--delta", "1e-6", "--json")
    assert result.returncode == 2
    assert "No such file" in json.loads(result.stdout)["error"]["message"]
    result = hush("account", "-", "--detla", "1e-6", "--json")
    assert result.returncode == 2
    assert json.loads(result.stdout)["error"]["code"] == "usage"
    assert hush("account", "-", "--detla", "1e-6").returncode == 2


def test_help_and_version():
    assert hush("--version").stdout.startswith("hush ")
    assert "account" in hush("--help").stdout
    text = hush("account", "--help").stdout
    for word in ("--delta", "--epsilon", "--json", "--chart", "mechanisms.json"):
        assert word in text


def test_the_table_in_the_documentation_is_what_the_command_prints(tmp_path, capsys, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "accounting.md").read_text(encoding="utf-8")
    path = tmp_path / "mechanisms.json"
    path.write_text(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1], encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "100")
    assert run(["account", str(path), "--delta", "1e-6"]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    told = re.search(r"\$ hush account mechanisms.json --delta 1e-6\n(.*?)```", page, re.DOTALL)[1].splitlines()
    assert told == printed
