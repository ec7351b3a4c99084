"""Copies of text files: the same rows as the file, never stale, never another user's, never open to others."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hush.curator.opening import open_policy, protect
from hush.engines.duckdb import kept_copies, registering
from hush.engines.errors import SourceError

SURE = 10**6
BOUNDS = {"x": (0, 1000, "0.01")}
QUESTION = "SELECT COUNT(*) AS n, COUNT(x) AS k, SUM(x) AS s, COUNT(*) FILTER (WHERE c = 'ä, b') AS q FROM data"
ROWS = 50


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which files were read as text."""
    seen: list[str] = []
    load = registering.load

    def counting(*args: object) -> object:
        seen.append(str(args[1]))
        return load(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(registering, "load", counting)
    return seen


def write(path: Path, value: float = 1.25, *, age: float = 10) -> None:
    """Write a file whose last change lies some seconds back; the clock of its state cannot be set, so tests wait."""
    lines = "".join(f'{row},{value if row % 5 else ""},"ä, b"\n' for row in range(ROWS))
    path.write_text(f"id,x,c\n{lines}", encoding="utf-8")
    then = time.time() - age
    os.utime(path, (then, then))


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_copies, "_SETTLED", 0)


def asked(path: Path, keep: Path, **more: object) -> list[float]:
    with protect(path, bounds=BOUNDS, budget=10**9, keep=keep, **more) as curator:  # type: ignore[arg-type]
        answer = curator.ask(QUESTION, epsilon=SURE)
    return [float(answer[name][0]) for name in ("n", "k", "s", "q")]


def exact(value: float = 1.25) -> list[float]:
    known = sum(1 for row in range(ROWS) if row % 5)
    return pytest.approx([ROWS, known, known * value, ROWS], abs=0.5)  # type: ignore[return-value]


def test_the_second_process_reads_the_copy(tmp_path: Path, reads: list[str]) -> None:
    path, keep = tmp_path / "t.csv", tmp_path / "kept"
    write(path)
    assert asked(path, keep) == exact()
    assert len(reads) == 1
    assert asked(path, keep) == exact()
    assert len(reads) == 1
    (copy,) = keep.iterdir()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert keep.stat().st_mode & 0o777 == 0o700


def test_a_changed_file_is_read_again_even_if_its_size_and_time_are_the_same(tmp_path: Path, reads: list[str]) -> None:
    path, keep = tmp_path / "t.csv", tmp_path / "kept"
    write(path)
    asked(path, keep)
    status = path.stat()
    with path.open("r+b") as file:  # in place: the inode stays too
        data = file.read().replace(b"1.25", b"2.75")
        file.seek(0)
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert asked(path, keep) == exact(2.75)
    assert len(reads) == 2


def test_a_process_that_stays_open_sees_the_change(tmp_path: Path, reads: list[str]) -> None:
    path, keep = tmp_path / "t.csv", tmp_path / "kept"
    write(path)
    with protect(path, bounds=BOUNDS, budget=10**9, keep=keep) as curator:
        for value in (1.25, 3.5):
            write(path, value)
            answer = curator.ask("SELECT SUM(x) AS s FROM data", epsilon=SURE, fresh=True)
            assert float(answer["s"][0]) == pytest.approx(40 * value, abs=0.5)
    assert len(reads) == 2


def test_other_words_about_the_file_are_another_copy(tmp_path: Path, reads: list[str]) -> None:
    path, keep = tmp_path / "t.csv", tmp_path / "kept"
    write(path)
    asked(path, keep)
    assert asked(path, keep, quotes=False)[0] == pytest.approx(ROWS, abs=0.5)
    assert asked(path, keep, types={"c": "text", "x": "text"} | {"x": "decimal"})[0] == pytest.approx(ROWS, abs=0.5)
    assert len(reads) >= 2


def test_a_file_that_changed_just_now_is_not_kept(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_copies, "_SETTLED", 3_600_000_000_000)
    path, keep = tmp_path / "t.csv", tmp_path / "kept"
    write(path)
    for _ in range(2):
        assert asked(path, keep) == exact()
    assert len(reads) == 2
    assert not keep.exists()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_what_others_may_write_or_read_is_left_alone(tmp_path: Path, reads: list[str]) -> None:
    path, keep = tmp_path / "t.csv", tmp_path / "kept"
    write(path)
    asked(path, keep)
    keep.chmod(0o755)
    assert asked(path, keep) == exact()
    keep.chmod(0o700)
    (copy,) = keep.iterdir()
    copy.chmod(0o644)
    assert asked(path, keep) == exact()
    assert len(reads) == 3
    other = tmp_path / "other.parquet"
    copy.rename(other)
    copy.symlink_to(other)
    assert asked(path, keep) == exact()
    assert len(reads) == 4


def test_a_copy_that_is_none_is_replaced(tmp_path: Path, reads: list[str]) -> None:
    path, keep = tmp_path / "t.csv", tmp_path / "kept"
    write(path)
    asked(path, keep)
    (copy,) = keep.iterdir()
    copy.write_bytes(b"no parquet")
    assert asked(path, keep) == exact()
    assert asked(path, keep) == exact()
    assert len(reads) == 2


def damage(copy: Path) -> None:
    """Change bytes in the middle of a file."""
    data = bytearray(copy.read_bytes())
    middle = len(data) // 3
    data[middle : middle + 40] = bytes(255 - byte for byte in data[middle : middle + 40])
    with copy.open("r+b") as file:
        file.write(data)


def test_a_copy_that_is_damaged_in_its_middle_is_replaced_before_the_charge(tmp_path: Path, reads: list[str]) -> None:
    path, keep = tmp_path / "t.csv", tmp_path / "kept"
    write(path)
    asked(path, keep)
    (copy,) = keep.iterdir()
    damage(copy)
    for _ in range(2):
        assert asked(path, keep) == exact()
    assert len(reads) == 2
    assert len(list(keep.iterdir())) == 1


def test_a_copy_that_is_damaged_while_a_process_reads_it_is_replaced(tmp_path: Path, reads: list[str]) -> None:
    path, keep = tmp_path / "t.csv", tmp_path / "kept"
    write(path)
    asked(path, keep)
    with protect(path, bounds=BOUNDS, budget=10**9, keep=keep) as curator:
        for times in (1, 2):
            answer = curator.ask(QUESTION, epsilon=SURE, fresh=True)
            assert [float(answer[name][0]) for name in ("n", "k", "s", "q")] == exact()
            assert len(reads) == times
            (copy,) = keep.iterdir()
            damage(copy)


def test_what_cannot_be_written_is_not_kept_and_the_owner_is_told(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine's own error, as of a full disk: it writes where a folder is."""
    path, keep = tmp_path / "t.csv", tmp_path / "kept"
    write(path)
    (tmp_path / "taken").mkdir()
    monkeypatch.setattr(registering.OpenSources, "_copy_file", lambda *_: tmp_path / "taken")
    for _ in range(2):
        assert asked(path, keep) == exact()
    assert len(reads) == 2
    assert not list(keep.iterdir())
    assert "cannot be kept" in caplog.text


def test_a_policy_says_keep(tmp_path: Path, reads: list[str]) -> None:
    write(tmp_path / "t.csv")
    (tmp_path / "hush.toml").write_text(
        '[data.d]\nbudget = { epsilon = "1e9" }\n[data.d.tables.t]\nsource = "t.csv"\nkeep = true\n'
        'columns.x = { type = "decimal", lower = 0, upper = 1000, step = "0.01" }\n[analysts.me]\ndata = ["d"]\n'
        'budget = { epsilon = "1e9" }\n',
        encoding="utf-8",
    )
    for number in range(2):
        with open_policy(tmp_path / "hush.toml", create=not number) as curator:
            answer = curator.ask("SELECT SUM(x) AS s FROM t", epsilon=SURE, fresh=True)
            assert float(answer["s"][0]) == pytest.approx(50, abs=0.5)
    assert len(reads) == 1
    assert (tmp_path / "hush.kept").is_dir()


def test_only_text_files_are_kept(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"x": [1.0]}), tmp_path / "t.parquet")
    with pytest.raises(SourceError, match="leave keep out"):
        protect(tmp_path / "t.parquet", budget=1, keep=tmp_path / "kept")
