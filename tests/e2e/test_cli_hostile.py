"""What others wrote reaches the terminal as text, through every command that shows it."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hush.cli import run
from hush.cli.output import _Formatter

KEY = "\x1b[31mRED\x1b]0;pwned\x07\u202e"
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
POLICY = """
[data.d]
unit = "id"
budget = { epsilon = 1000, delta = "1e-3" }
[data.d.tables.t]
source = "t.parquet"
columns.city = "text"
[analysts.a]
data = ["d"]
budget = { epsilon = 1000, delta = "1e-3" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    parquet.write_table(pa.table({"id": list(range(3000)), "city": [KEY] * 3000}), "t.parquet")
    Path("hush.toml").write_text(POLICY, encoding="utf-8")
    return tmp_path


def test_a_private_key(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The key has 3,000 units: at ε = 10 it is left out with a probability far below 1e-100."""
    ask = ["ask", f"SELECT city, COUNT(*) AS n FROM t WHERE city <> '{KEY[:5]}' GROUP BY city", "--epsilon", "10"]
    assert run(["ledger", "open"]) == 0
    assert run([*ask, "--chart", "c.html"]) == 0
    shown = capsys.readouterr().out
    assert r"\x1b[31mRED\x1b]0;pwned\x07\u202e" in shown
    assert not HARMFUL.search(shown)
    assert not HARMFUL.search((folder / "c.html").read_text(encoding="utf-8"))
    assert run([*ask, "--json"]) == 0
    printed = capsys.readouterr().out
    assert not HARMFUL.search(printed)
    assert json.loads(printed)["rows"][0][0] == KEY
    assert run(["history"]) == 0
    told = capsys.readouterr().out
    assert "x1b" in told
    assert not HARMFUL.search(told)
    assert run([ask[0], ask[1].replace("city <>", "citty <>"), "--epsilon", "1"]) == 2
    assert not HARMFUL.search(capsys.readouterr().err)


def test_log_lines() -> None:
    record = logging.LogRecord("hush", logging.WARNING, "", 0, "the engine says %s", (KEY,), None)
    assert not HARMFUL.search(_Formatter("%(message)s").format(record))
