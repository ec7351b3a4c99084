"""Bytes of a small ledger flipped, nightly all of them: detected, or harmless to the totals; never more budget."""

from __future__ import annotations

import os
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest
from seams import chain_of

from hush.accounting import ApproximateDPEvent
from hush.core import HushError
from hush.ledger import Actor, Ledger

OWNER = Actor.owner("owner")
EVERY = int(os.environ.get("HUSH_EVERY_BYTE", "17"))
"""Which bytes are flipped: 1 for all of them."""


def small_ledger(path: Path) -> None:
    """Make a ledger in as few bytes as SQLite can, without an anchor: nothing but the chain protects it."""
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA page_size = 512")
    raw.execute("CREATE TABLE shape (x)")
    raw.execute("DROP TABLE shape")
    raw.commit()
    raw.close()
    with Ledger.open(path, create=OWNER, anchor="none") as ledger:
        ledger.create_data("d", {"epsilon": 1}, actor=OWNER)
        ledger.add_analyst("a", data="d", budget={"epsilon": "0.75"}, actor=OWNER)
        ticket = ledger.reserve("q", analyst="a", data="d", question="q", events=[ApproximateDPEvent(epsilon="0.5")])
        ledger.answered(ticket, b"42")


def totals(path: Path) -> list[Fraction]:
    """Return what is left, after trying to spend one part in a thousand more than there should be."""
    with Ledger.open(path) as ledger:
        left = [view.remaining.epsilon for view in ledger.budget(OWNER)]
        try:
            ledger.reserve("m", analyst="a", data="d", question="m", events=[ApproximateDPEvent(epsilon="0.251")])
        except HushError:
            return left
        return [Fraction(10**6)]


def flip_each(path: Path, file: Path, positions) -> tuple[int, list[int]]:
    """Flip one byte at a time; return how many flips were detected, and which gave budget away."""
    whole = {each: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}
    original = whole[file]
    detected, wrong = 0, []
    for at, bits in positions:
        for name, content in whole.items():
            if name != file:
                name.write_bytes(content)
        file.write_bytes(original[:at] + bytes([original[at] ^ bits]) + original[at + 1 :])
        try:
            left = totals(path)
        except HushError:
            detected += 1
        else:
            if left != [Fraction(1, 2), Fraction(1, 4)]:
                wrong.append(at)
        for extra in path.parent.iterdir():
            if extra.is_file():
                extra.unlink()
    for name, content in whole.items():
        name.write_bytes(content)
    return detected, wrong


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in memory if there is one: forced writes take no time there."""
    import tempfile

    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as name:
        monkeypatch.setenv("XDG_STATE_HOME", str(Path(name) / "state"))
        yield Path(name)


def test_every_byte_of_a_small_ledger(folder):
    path = folder / "hush.ledger"
    small_ledger(path)
    assert totals(path) == [Fraction(1, 2), Fraction(1, 4)]
    with Ledger.open(path) as ledger, chain_of(ledger).store.entries() as rows:
        content = sum(len(part) for row in rows for part in row if isinstance(part, bytes))
    size = path.stat().st_size
    detected, wrong = flip_each(path, path, ((at, 0xFF) for at in range(0, size, EVERY)))
    assert wrong == []
    assert EVERY * detected >= content, "every byte of every entry is covered"
    _, wrong = flip_each(path, path, ((at, 1 << at % 8) for at in range(0, size, 7 * EVERY)))
    assert wrong == []


def test_bytes_of_the_log_of_a_process_that_died(folder):
    """A damaged log makes SQLite forget its end without a word; the anchor remembers."""
    source = folder / "source"
    source.mkdir()
    path = source / "hush.ledger"
    ledger = Ledger.open(path, create=OWNER)
    ledger.create_data("d", {"epsilon": 1}, actor=OWNER)
    ledger.add_analyst("a", data="d", budget={"epsilon": "0.75"}, actor=OWNER)
    for at in range(5):
        ledger.reserve(f"q{at}", analyst="a", data="d", question="q", events=[ApproximateDPEvent(epsilon="0.1")])
    log = path.with_name(path.name + "-wal")
    size = log.stat().st_size
    wrong = []
    for at in range(0, size, max(size // 300, 1)):
        work = folder / "work"
        work.mkdir()
        shutil.copy(path, work)
        data = log.read_bytes()
        (work / log.name).write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        copy = work / path.name
        try:
            with Ledger.open(copy) as opened:  # the anchor is the one that the ledger names
                if opened.budget(OWNER)[0].remaining.epsilon != Fraction(1, 2):
                    wrong.append(at)
        except HushError:
            pass
        shutil.rmtree(work)
    ledger.close()
    assert wrong == []
