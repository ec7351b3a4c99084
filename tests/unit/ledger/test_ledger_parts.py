"""The parts on their own: exact sums, names, prices, entries, anchors, processes, views."""

from __future__ import annotations

import math
import os
import sqlite3
import stat
import subprocess
import sys
from fractions import Fraction

import pytest
from seams import chain_of

import hush.ledger
from hush.accounting import GaussianEvent, LaplaceEvent
from hush.core import BudgetExceededError, HushError, InvalidValueError
from hush.ledger import Actor, Budget, Ledger, LedgerDamagedError, LedgerError, Role
from hush.ledger import anchors as anchor_file
from hush.ledger.anchors import CommandAnchor, FileAnchor, Mark, open_anchor
from hush.ledger.charging import Repeat
from hush.ledger.entries import Entry, Head, canonical, digest, follow
from hush.ledger.history import counts
from hush.ledger.store import open_store
from hush.storage import Options, alive, open_storage, this_process, without_password

OWNER = Actor.owner("owner")


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_public_names():
    assert sorted(hush.ledger.__all__) == hush.ledger.__all__
    assert all(hasattr(hush.ledger, name) for name in hush.ledger.__all__)


def test_budgets():
    assert Budget(epsilon="0.1").open().kind == "pure"
    assert Budget(epsilon=1, delta="1e-6").open().kind == "renyi"
    assert Budget(epsilon=1, delta="1e-6", alpha=12).open().currency == "renyi:12"
    assert Budget(epsilon=1, delta="1e-6", kind="pure").open().kind == "pure"
    for bad in ({"epsilon": -1}, {"epsilon": 1, "delta": 2}, {"epsilon": 1, "kind": "x"}, {"epsilon": True}):
        with pytest.raises(InvalidValueError):
            Budget(**bad)
    for bad in (1, "1", {}, {"delta": 1}, {"epsilon": 1, "sigma": 1}, None, {"epsilon": 1, "alpha": 2}):
        with pytest.raises(InvalidValueError):
            Budget.parse(bad).open()


def test_counts_by_the_laplace_formula():
    # ε = ln(20)/50 = 0.0599 a count: 16 fit into 1, by hand.
    account = Budget(epsilon=1).open()
    assert counts(account) == math.floor(1 / (math.log(20) / 50)) == 16
    assert counts(account, error=1, confidence="0.5") == math.floor(1 / math.log(2))
    assert counts(account, error="0.01") == 0
    many = counts(Budget(epsilon=1, delta="1e-6").open(), error=1000)
    assert many > counts(account, error=1000), "small steps compose better than they add"
    # What the number says is true: that many fit, and one more does not.
    for budget in (Budget(epsilon=1), Budget(epsilon=1, delta="1e-6")):
        account = budget.open()
        event = LaplaceEvent(scale=1 / Fraction(math.ceil(math.log(20) / 50 * 2**40) + 1, 2**40))
        for _ in range(counts(account)):
            account = account.admit(event)
        with pytest.raises(BudgetExceededError):
            account.admit(event)
    with pytest.raises(InvalidValueError):
        counts(account, error=0)
    with pytest.raises(InvalidValueError):
        counts(account, confidence=1)


def test_actors():
    assert Actor.owner("o").role is Role.OWNER
    with pytest.raises(InvalidValueError):
        Actor(name="x", role="owner")
    with pytest.raises(InvalidValueError):
        Actor.analyst("")


def test_entries_bind_every_column():
    entry = Entry.draft("reserve", {"x": 1}, after=Head(), data="d", analyst="a", request="r", about=0, weight=5)
    assert follow(Head(), entry.row) == entry.head
    for at in range(9):
        row = list(entry.row)
        row[at] = row[at] + (1 if isinstance(row[at], int) else b"x")
        with pytest.raises(LedgerDamagedError):
            follow(Head(), tuple(row))
    with pytest.raises(LedgerDamagedError):
        follow(Head(number=0, hash=b"\1" * 32), entry.row)
    # Moving a boundary between columns does not give the same hash: a line break in a column is refused.
    with pytest.raises(LedgerDamagedError):
        digest(bytes(32), 1, b"reserve", b"d\na", b"", b"r", 0, 5, b"{}")
    assert Entry.from_json(entry.to_json()) == entry
    assert canonical({"b": 1, "a": ["☃"]}) == b'{"a":["\\u2603"],"b":1}'


def mark(number, *, size=10):
    before = Head(number=number - 1, hash=bytes([number % 256]) * 32)
    return Mark(ledger="l", before=before, entry=Entry.draft("reserve", {"question": "q" * size}, after=before))


def test_an_anchor_in_a_file_survives_torn_writes(tmp_path):
    path = tmp_path / "folder" / "anchor"
    anchor = FileAnchor(path)
    assert anchor.read() is None
    for number, size in enumerate([10, 20_000, 10, 5_000, 100_000, 10], start=1):
        anchor.write(mark(number, size=size))
        assert FileAnchor(path).read() == mark(number, size=size) == anchor.read()
    before = path.read_bytes()
    anchor.begin(mark(7, size=9_000))()
    after = path.read_bytes()
    changed = [at for at in range(max(len(before), len(after))) if before[at : at + 1] != after[at : at + 1]]
    for cut in (changed[0] + 1, changed[len(changed) // 2], changed[-1]):
        path.write_bytes(after[:cut] + before[cut:])
        assert FileAnchor(path).read() in {mark(6), mark(7, size=9_000)} or cut == changed[-1]
    anchor.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_slot_is_overwritten_before_the_other_is_on_the_disk(tmp_path, monkeypatch):
    """Two processes, the first of which has not yet forced its mark when the second writes the next one."""
    path, calls = tmp_path / "anchor", []
    first, second = FileAnchor(path), FileAnchor(path)
    first.write(mark(1))
    put, force = os.pwrite, anchor_file.sync_file
    monkeypatch.setattr(os, "pwrite", lambda *arguments: calls.append("write") or put(*arguments))
    monkeypatch.setattr(anchor_file, "sync_file", lambda file: calls.append("force") or force(file))
    descriptor = first._put(mark(2))
    assert calls == ["write"]  # its own earlier mark is on the disk for certain
    assert second.read() == mark(2)
    second.write(mark(3))
    assert calls == ["write", "force", "write", "force"]
    first._force(descriptor)
    assert FileAnchor(path).read() == mark(3)


def test_anchors_by_name(tmp_path):
    assert open_anchor("none", ledger="x") is None
    assert isinstance(open_anchor(tmp_path / "a", ledger="x"), FileAnchor)
    assert isinstance(open_anchor("command:notary --fast", ledger="x"), CommandAnchor)
    assert not open_anchor(None, ledger="postgresql://h/d").exclusive
    for bad in ("", 7, "ftp://x", "command:"):
        with pytest.raises(InvalidValueError):
            open_anchor(bad, ledger="x")
    with pytest.raises(InvalidValueError):
        open_store("mysql://x", create=False)


def test_passwords_are_not_shown():
    assert without_password("postgresql://u:secret@h:5/d?password=secret&x=1") == "postgresql://u@h:5/d?x=1"
    assert without_password("postgresql:///d?host=/tmp&password=secret") == "postgresql:///d?host=/tmp"
    assert without_password("postgresql://u:@/d?password=secret") == "postgresql://u@/d"
    assert without_password("postgresql://u:p@ss@h/d#n") == "postgresql://u@h/d#n"
    assert without_password("postgresql://h:5432/d") == "postgresql://h:5432/d"


def test_a_missing_driver_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(HushError, match=r"pip install 'hush\[postgresql\]'"):
        Ledger.open("postgresql://nowhere/none")


def test_processes():
    me = this_process()
    assert alive(me) is True
    assert alive({**me, "host": "elsewhere"}) is None
    assert alive({**me, "started": "another boot:1"}) is False
    child = subprocess.run(
        [sys.executable, "-c", "import json; from hush.storage import this_process; print(json.dumps(this_process()))"],
        stdout=subprocess.PIPE,
        check=True,
    )
    import json

    assert alive(json.loads(child.stdout)) is False


def test_a_ledger_in_memory_stays_with_its_process():
    with Ledger.in_memory() as ledger:
        ledger.create_data("d", {"epsilon": 1}, actor=OWNER)
        assert ledger.verify().anchor == "none"
        chain_of(ledger).store.storage._pid = os.getpid() + 1
        with pytest.raises(LedgerError, match="stays with the process"):
            ledger.budget(OWNER)
        chain_of(ledger).store.storage._pid = os.getpid()


def test_a_ledger_file_is_for_its_owner_only(tmp_path):
    with Ledger.open(tmp_path / "hush.ledger", create=OWNER):
        assert stat.S_IMODE((tmp_path / "hush.ledger").stat().st_mode) == 0o600
    for bad in (tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(LedgerError):
            Ledger.open(bad, create=OWNER)


def test_prices_do_not_depend_on_what_was_spent(tmp_path):
    with Ledger.open(tmp_path / "hush.ledger", create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": 3, "delta": "1e-6"}, actor=OWNER)
        ledger.add_analyst("a", data="d", budget={"epsilon": 3, "delta": "1e-6"}, actor=OWNER)
        for at in range(4):
            events = [GaussianEvent(sigma=20), LaplaceEvent(scale=30)]
            ledger.reserve(f"q{at}", analyst="a", data="d", question="q", events=events)
        prices = {str(release.price) for release in ledger.history(OWNER)}
        assert len(prices) == 1
        assert len(ledger.history(OWNER, limit=2)) == 2
        assert ledger.history(OWNER, data="other") == []


LATE = """
import sys, threading, time
from hush.accounting import LaplaceEvent
from hush.ledger import Actor, Ledger, anchors
anchors._QUICK = float(sys.argv[2])
owner = Actor.owner("owner")
book = Ledger.open(sys.argv[1], create=owner)
book.create_data("d", {"epsilon": 9}, actor=owner)
book.add_analyst("a", data="d", actor=owner)
def ask():
    threading.main_thread().join()
    time.sleep(0.3)
    for name in "xyz":
        charge = book.reserve(name, analyst="a", data="d", question=name, events=[LaplaceEvent(scale=1)])
        book.answered(charge, b"")
        print(charge.number)
threading.Thread(target=ask).start()
"""


@pytest.mark.parametrize("quick", ["-1", "9"])
def test_charges_are_granted_after_the_main_thread_has_ended(tmp_path, quick):
    command = [sys.executable, "-c", LATE, str(tmp_path / "hush.ledger"), quick]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert len(done.stdout.split()) == 3, done.stderr


def test_a_quick_disk_needs_no_thread(tmp_path):
    anchor = FileAnchor(tmp_path / "a.anchor")
    anchor.begin(mark(1))()
    assert anchor._worker is None
    assert anchor.read() == mark(1)


@pytest.mark.parametrize("words", [{"question": None}, {"question": ""}, {"question": "x", "fresh": 1}])
def test_a_fingerprint_is_a_text(words):
    with pytest.raises(InvalidValueError):
        Repeat(**words)


def test_what_sqlite_says_is_damage_unless_it_is_known_not_to_be(tmp_path):
    kinds = []
    options = Options(lock="l", failure=lambda kind, _place, error: kinds.append(kind) or LedgerError(str(error)))
    storage = open_storage(tmp_path / "s.db", options)
    for code in (sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_INTERNAL, sqlite3.SQLITE_ABORT, sqlite3.SQLITE_FULL):
        error = sqlite3.OperationalError("x")
        error.sqlite_errorcode = code
        with pytest.raises(LedgerError), storage._translated():
            raise error
    assert kinds == ["damaged"] * 3 + ["unavailable"]
    storage.close()


def test_a_half_read_stream_may_outlive_its_storage(tmp_path):
    storage = open_storage(tmp_path / "s.db", Options(lock="l"))
    rows = storage.stream("SELECT 1 UNION ALL SELECT 2")
    next(rows)
    storage.close()
    rows.close()
