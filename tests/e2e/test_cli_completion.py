"""Completion in shells, and what Ctrl-C says on commands that pay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

import hush
from hush.cli import COMMANDS, application, run
from hush.cli.demo import write_hospital
from hush.engines.sql_engine import SqlEngine

HERE = os.environ | {"PYTHONPATH": str(Path(hush.__file__).parents[1])}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a program of the name ``hush``."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "hush"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m hush "$@"\n')
    script.chmod(0o755)
    return folder


def _bash(program: Path, folder: Path, *words: str) -> list[str]:
    """Return what bash would offer for the last word."""
    typed = " ".join(f'"{word}"' for word in words)
    commands = f"""
        source <(hush completion bash)
        COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}
        _hush_completion hush
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = {"PATH": f"{program}:{os.environ['PATH']}"}
    command = ["bash", "--norc", "-c", commands]
    done = subprocess.run(command, env=HERE | path, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(program: Path, tmp_path: Path) -> None:
    (tmp_path / "hush.toml").write_text("[analysts.alice]\n[analysts.bob]\n", encoding="utf-8")
    assert _bash(program, tmp_path, "hush", "ex") == ["explain"]
    assert _bash(program, tmp_path, "hush", "ask", "--eps") == ["--epsilon"]
    assert _bash(program, tmp_path, "hush", "ask", "--as", "") == ["alice", "bob"]
    assert "verify" in _bash(program, tmp_path, "hush", "ledger", "")


@pytest.mark.parametrize(("shell", "form"), [("zsh", '"ask":"'), ("fish", "ask\t")])
def test_other_shells_get_their_forms(shell: str, form: str, capfd: pytest.CaptureFixture[str]) -> None:
    asked = {"_HUSH_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "hush as"}
    fish = {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    command, environment = [sys.executable, "-m", "hush"], HERE | asked | fish
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert form in done.stdout
    assert run(["completion", shell]) == 0
    assert "_HUSH_COMPLETE" in capfd.readouterr().out


def test_a_script_can_be_put_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["completion", "bash", "--install", "--json"]) == 0
    assert any("_HUSH_COMPLETE" in file.read_text() for file in tmp_path.rglob("hush.sh"))


def test_every_command_is_completed() -> None:
    app = application("ask", listed=True)
    assert {command.name for command in app.registered_commands} >= COMMANDS.keys() - {"ask"}


_PAYING = {
    "ask": ["ask", "SELECT COUNT(*) AS n FROM visits"],
    "marginals": ["marginals", "visits", "--by", "disease,sex"],
    "ranges": ["ranges", "SELECT age FROM visits"],
    "synth": ["synth", "SELECT disease, sex FROM visits"],
    "fit": ["fit", "SELECT age, cost FROM visits", "--target", "cost", "--model", "linear"],
    "bounds": ["bounds", "visits"],
}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clinic")
    write_hospital(folder, 1000)
    assert run(["ledger", "open", "--policy", str(folder / "hush.toml"), "--json"]) == 0
    return folder


@pytest.mark.parametrize("command", _PAYING)
def test_an_interrupt_says_that_the_charge_stays(
    command: str, clinic: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for reads_rows in ("execute", "compute", "rows"):
        monkeypatch.setattr(SqlEngine, reads_rows, interrupted)
    policy = ["--policy", str(clinic / "hush.toml")]
    assert run([*_PAYING[command], "--epsilon", "0.1", *policy]) == 130
    said = capsys.readouterr().err
    assert "interrupted after its charge, and stays charged" in said
    receipt = said.split("stays charged: ")[1].split()[0]
    assert run(["history", "--limit", "1", *policy]) == 0
    shown = capsys.readouterr().out
    assert receipt in shown
    assert "failed" in shown


def test_a_terminal_shows_that_something_is_done(clinic: Path) -> None:
    command = ["-m", "hush", *_PAYING["fit"], "--epsilon", "0.1", "--policy", str(clinic / "hush.toml")]
    child = pexpect.spawn(sys.executable, command, env=HERE | {"TERM": "xterm"}, encoding="utf-8", timeout=120)
    child.expect("fitting …")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
