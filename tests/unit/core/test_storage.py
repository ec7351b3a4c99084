"""Who watches a large file being read is told its name and size, once, and nothing of how far the reader has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from hush.core import storage
from hush.core.storage import reading, watching_reads
from hush.curator.opening import protect


def test_only_large_files_are_told_of_and_only_to_who_watches() -> None:
    told: list[str] = []
    with reading("a.csv", 10**9):
        pass
    with watching_reads(told.append), reading("small.csv", 10**6):
        pass
    assert told == []
    with pytest.raises(ValueError, match="broken"), watching_reads(told.append), reading("a.csv", 2 * 10**9):
        raise ValueError("broken")
    assert told == ["reading a.csv (2,000 MB) …", ""]
    with reading("a.csv", 10**9):
        pass
    assert len(told) == 2


def test_what_is_told_of_a_file_does_not_depend_on_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_LEAST_ANNOUNCED_SIZE", 0)
    heard = []
    for text in ("id,c\n1,a\n2,b\n", 'id,c\n1,""\n2,"', "id,c\n\n\n\n\n1,ab\n"):
        path = tmp_path / "t.csv"
        path.write_text(text.ljust(16, "\n"), encoding="utf-8")
        told: list[str] = []
        with protect(path, budget=1) as curator, watching_reads(told.append):
            curator.ask("SELECT COUNT(*) AS n FROM data", epsilon="0.1")
        heard.append(told)
    assert heard[0] == ["reading t.csv (0 MB) …", ""]
    assert all(told == heard[0] for told in heard)
