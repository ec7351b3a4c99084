"""Every test that SECURITY.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_what_the_security_page_names_exists() -> None:
    named = NAMED.findall((ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 40
    lacking = [
        f"{file}::{test}"
        for file, test in named
        if not re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert not lacking


def test_every_file_that_the_security_page_names_exists() -> None:
    files = re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert files
    assert all((ROOT / file).exists() for file in files)
