"""A folder of its own to run commands in, and what they print."""

import pytest

from hush.cli import run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def hush(capsys):
    """Run a command; return its status and what it printed."""

    def call(*arguments):
        status = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call
