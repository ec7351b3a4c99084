"""A curator that nobody closes leaves nothing behind: as in notebooks, which end without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import gc, os, sys
import pyarrow as pa
import hush
curator = hush.protect(pa.table({"x": [1, 2]}), budget=1)
curator.ask("SELECT COUNT(*) FROM data", epsilon=1)
there = [name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("hush-spill-")]
assert len(there) == 1, there
if sys.argv[1] == "fork":
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        assert os.listdir(os.environ["TMPDIR"]) == there, "the child took it away"
        del curator
    else:
        sys.exit()
elif sys.argv[1] == "collected":
    del curator
    gc.collect()
    assert os.listdir(os.environ["TMPDIR"]) == []
print("done")
"""


@pytest.mark.parametrize("end", ["exit", "collected", "fork"])
def test_a_curator_that_nobody_closes_leaves_nothing_behind(end: str, tmp_path: Path) -> None:
    if end == "fork" and not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", PROGRAM, end],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")
    if end != "fork":  # where what the child inherited must stay as it is
        assert "Exception ignored" not in done.stderr
    assert list(tmp_path.iterdir()) == []
