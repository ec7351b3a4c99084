"""Commands as people type them, run in this process: a process of its own costs half a second each time."""

from __future__ import annotations

import io
import os
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from hush.cli import run


class Ended(NamedTuple):
    """What a command left, under the names of `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


def command(*arguments: str, cwd: str | Path = ".", text: str | None = None) -> Ended:
    """Run a command in a folder, with its standard input."""
    out, err = io.StringIO(), io.StringIO()
    plain = patch.dict(os.environ, COLUMNS="140", NO_COLOR="1")
    with plain, chdir(cwd), patch("sys.stdin", io.StringIO(text)), redirect_stdout(out), redirect_stderr(err):
        status = run(list(map(str, arguments)))
    return Ended(status, out.getvalue(), err.getvalue())
