"""The owner's tutorial runs as it is written: its commands, in order, with its policy. (Its siblings are doctests.)"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from hush.cli import run

_TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
_OWNER = (_TUTORIALS / "owner.md").read_text("utf-8")


def test_the_owners_ten_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    for name in ("flights.csv", "airlines.csv"):
        shutil.copy(_TUTORIALS / "flights" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    (policy,) = re.findall(r"```toml\n(.*?)```", _OWNER, re.DOTALL)
    commands = [
        shlex.split(line)[1:]
        for block in re.findall(r"```sh\n(.*?)```", _OWNER, re.DOTALL)
        for line in block.splitlines()
    ]
    assert commands[0][0] == "init"
    assert run(commands[0]) == 0
    (tmp_path / "hush.toml").write_text(policy, "utf-8")
    for command in commands[1:]:
        assert run(command) == 0, (command, capsys.readouterr())
    said = capsys.readouterr().out
    assert "EWR" in said
    assert "alice" in said
