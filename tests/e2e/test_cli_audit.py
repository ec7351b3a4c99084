"""``hush audit`` as a user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hush.cli import run
from hush.cli.audit import program

LIBRARY = """
import hush

def honest(rows):
    return hush.Laplace(sensitivity=1, epsilon=1).release(len(rows))

def leaking(rows):
    return hush.Laplace(sensitivity=1, epsilon=1).release(5 * len(rows))
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "audited_library.py").write_text(LIBRARY, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_violation_has_exit_status_5_and_can_be_seen_again(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["audit", "audited_library:leaking", "--epsilon", "1", "--json"]
    assert run([*arguments, "--save-pair", "pair.json", "--chart", "curve.svg"]) == 5
    report = json.loads(capsys.readouterr().out)
    assert report["violation"]["epsilon"] > 1
    assert (library / "curve.svg").read_text("utf-8").startswith("<svg")
    assert run([*arguments, "--rows", "pair.json"]) == 5


@pytest.mark.usefixtures("library")
def test_nothing_found_has_exit_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "audited_library:honest", "--epsilon", "1", "--seconds", "1", "--level", "1e-6"]) == 0
    assert "would have been found nine times in ten" in capsys.readouterr().out


def test_a_program_is_audited_without_a_shell(library: Path) -> None:
    assert run(["audit", "--command", "wc -l {rows}", "--epsilon", "1", "--rows", str(_pairs(library))]) == 5
    assert run(["audit", "--command", "wc -l; touch x", "--epsilon", "1"]) == 2
    assert not (library / "x").exists()


def test_what_a_program_prints_is_its_outcome(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    printed = program(["echo", "{rows};", "$HOME", "1.5", "`touch x`"], rows)([1])["printed"]
    assert printed == [f"{rows};", "$HOME", 1.5, "`touch", "x`"]
    assert program(["cat", "{rows}"], rows)([{"a": 1, "b": None}])["printed"] == ["a", "b", 1]
    assert program(["sleep", "60"], rows, limit=0.1)([])["status"] == "no answer in time"
    assert program(["false"], rows)([])["status"] == 1


def _pairs(folder: Path) -> Path:
    path = folder / "pairs.json"
    path.write_text("[[[1, 2], [1]]]", "utf-8")
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epsilon", "1", "--catalogue", "audited_library:honest"],
        ["audited_library:honest"],
        ["audited_library:none", "--epsilon", "1"],
        ["no_such_module:f", "--epsilon", "1"],
        ["audited_library", "--epsilon", "1"],
        ["audited_library:honest", "--epsilon", "-1"],
        ["audited_library:honest", "--epsilon", "1", "--bounds", "1"],
        ["audited_library:honest", "--epsilon", "1", "--rows", "none.json"],
        ["audited_library:honest", "--epsilon", "1", "--neighbours", "far"],
    ],
)
@pytest.mark.usefixtures("library")
def test_mistakes_are_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", *arguments]) == 2
    assert "must be" in capsys.readouterr().err


def test_ctrl_c_prints_the_report_so_far(library: Path) -> None:
    command = [sys.executable, "-m", "hush", "audit", "audited_library:honest", "--epsilon", "1", "--level", "1e-6"]
    with subprocess.Popen(command, cwd=library, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopped by hand" in out


@pytest.mark.parametrize("option", ["--replay", "--one-run"])
def test_a_file_of_a_function_must_be_there(library: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    (library / "missing").mkdir()
    (library / "missing" / "__init__.py").write_text("open('imported', 'w')", "utf-8")
    assert run(["audit", option, "missing.py", "--epsilon", "1"]) == 2
    assert "must be a Python file. Got 'missing.py'" in " ".join(capsys.readouterr().err.split())
    assert not (library / "imported").exists()


@pytest.mark.parametrize("target", ["script.py", "script.py:release"])
def test_a_file_is_no_target_and_is_not_run(library: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    (library / "script.py").write_text("open('imported', 'w')", "utf-8")
    assert run(["audit", target, "--epsilon", "1"]) == 2
    assert "module:function" in capsys.readouterr().err
    assert not (library / "imported").exists()
