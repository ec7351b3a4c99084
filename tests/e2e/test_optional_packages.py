"""Every optional package can be deleted with its lines of one table: the demo runs, and all other commands load."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parents[2] / "src" / "hush"
_COMMANDS, _NAMES, _SERVERS = "cli/__init__.py", "__init__.py", "engines/registry.py"
OPTIONAL = {
    "engines/postgresql": (_SERVERS, r'"hush\.engines\.postgresql"'),
    "engines/spark": (_SERVERS, r'"hush\.engines\.spark"'),
    "server": (_COMMANDS, '"(serve|people)": '),
    "server/pgwire": ("", ""),
    "server/mcp.py": ("", ""),
    "client": (_NAMES, r"from hush\.client import "),
    "synth": (_COMMANDS, '"(marginals|synth|ranges|stream|fit|serve)": '),
    "learn": (_COMMANDS, '"(fit|serve)": '),
    "local": (_COMMANDS, '"local": '),
    "distributed": (_COMMANDS, '"(party|aggregate)": '),
    "audit": (_COMMANDS, '"audit": '),
}
"""The table that names a package, and its lines there; the two protocols are named where a service opens them.

A service offers synthetic rows and models, so its line goes with theirs.
"""
_PROGRAM = """
import sys
import hush
from hush.cli import COMMANDS, application, run

assert hush.__file__.startswith(sys.argv[1])
assert all(application(command) for command in COMMANDS)
if "serve" in COMMANDS:
    from hush.server import table, workers
    assert table()
sys.exit(run(["demo", "--folder", "clinic", "--patients", "1000"]))
"""


@pytest.mark.parametrize("package", OPTIONAL)
def test_a_package_can_be_deleted(package: str, tmp_path: Path) -> None:
    copied = shutil.copytree(_SOURCE, tmp_path / "hush")  # compiled modules, where there are any, save most of the time
    deleted_place = copied / package
    shutil.rmtree(deleted_place) if deleted_place.is_dir() else deleted_place.unlink()
    table, lines = OPTIONAL[package]
    if table:
        text = (copied / table).read_text("utf-8")
        shorter, deleted = re.subn(rf"^    .*{lines}.*\n", "", text, flags=re.MULTILINE)
        assert deleted == lines.count("|") + 1
        (copied / table).write_text(shorter, "utf-8")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "hush ask" in ended.stdout
    assert (tmp_path / "clinic" / "hush.toml").is_file()
