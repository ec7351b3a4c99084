"""The commands of README run, in order, on the demo's files (with fewer patients)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hush.cli import run
from hush.cli.demo import write_hospital

_README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
_BLOCKS = re.findall(r"```sh\n(.*?)```", _README, re.DOTALL)
_COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for block in _BLOCKS
    for line in block.splitlines()
    if line.startswith("hush ") and not line.startswith("hush demo")  # the demos have tests of their own
]


def test_readme_shows_the_owners_first_hour() -> None:
    first_words = [" ".join(command[:2]) if command[0] in {"ledger", "stream"} else command[0] for command in _COMMANDS]
    assert first_words == [
        *("check", "explain", "ledger open", "ask", "budget", "history", "ledger verify"),
        *("marginals", "synth", "stream create", "stream advance", "fit"),
    ]


def test_the_commands_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hospital(tmp_path, 2000)
    monkeypatch.chdir(tmp_path)
    assert [(command, run(command)) for command in _COMMANDS] == [(command, 0) for command in _COMMANDS]
    assert {"tables", "synthetic.csv", "cost.json"} <= {path.name for path in tmp_path.iterdir()}
