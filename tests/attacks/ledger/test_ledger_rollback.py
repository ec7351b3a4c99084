"""Backups put back, entries taken away, histories exchanged: refused, or put right, and an owner's way out of each."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from hush.accounting import ApproximateDPEvent
from hush.core import BudgetExceededError, HushError
from hush.ledger import (
    Actor,
    Ledger,
    LedgerDamagedError,
    LedgerError,
    LedgerRolledBackError,
    LedgerUnavailableError,
    NotAllowedError,
    RequestUnansweredError,
)
from hush.ledger.anchors import usual_place
from hush.ledger.entries import Entry, Head
from hush.ledger.store import open_store

OWNER = Actor.owner("owner")


def ask(ledger, request, epsilon="0.1"):
    return ledger.reserve(
        request, analyst="alice", data="d", question="q", events=[ApproximateDPEvent(epsilon=epsilon)]
    )


def left(path, **options):
    with Ledger.open(path, **options) as ledger:
        return ledger.budget(OWNER)[0].remaining.epsilon


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "hush.ledger"
    with Ledger.open(file, create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": 1}, actor=OWNER)
        ledger.add_analyst("alice", data="d", actor=OWNER)
        ask(ledger, "q1")
    return file


def copy_of(path: Path) -> Path:
    assert not path.with_name(path.name + "-wal").exists()
    return Path(shutil.copy(path, path.with_suffix(".copy")))


def test_rollback_to_a_backup_is_refused(path):
    backup = copy_of(path)
    with Ledger.open(path) as ledger:
        for at in range(2, 5):
            ask(ledger, f"q{at}")
    shutil.copy(backup, path)
    with pytest.raises(LedgerRolledBackError, match=r"its last 3 entries are missing.*hush ledger restore"):
        Ledger.open(path)
    with pytest.raises(NotAllowedError):
        Ledger.restore(path, actor=Actor.analyst("alice"), reason="want more", lost="none")
    with Ledger.restore(path, actor=OWNER, reason="the disk died", lost="0.3") as ledger:
        assert ledger.budget(OWNER)[0].remaining.epsilon == Fraction(6, 10)
        act = ledger.acts(OWNER)[-1]
        assert (act.kind, act.by, act.detail["reason"]) == ("restored", "owner", "the disk died")
        assert act.detail["anchored"]["entries"] == 7
    assert left(path) == Fraction(6, 10)


def test_rollback_by_one_charge_is_put_right(path):
    """The anchor has the last entry whole, so taking just that one away achieves nothing."""
    backup = copy_of(path)
    for _ in range(3):
        with Ledger.open(path) as ledger:
            if len(ledger.history(OWNER)) == 1:
                ask(ledger, "q2", "0.7")
        shutil.copy(backup, path)
        assert left(path) == Fraction(2, 10)
    with Ledger.open(path) as ledger, pytest.raises(BudgetExceededError):
        ask(ledger, "q3", "0.7")


def test_rollback_by_one_outcome_leaves_it_pending(path):
    with Ledger.open(path) as ledger:
        ticket = ask(ledger, "q2")
        ledger.answered(ticket, b"x")
    with sqlite3.connect(path) as raw:
        raw.execute("DELETE FROM hush_entries WHERE number = 6")
        raw.execute("UPDATE hush_head SET number = 5, hash = (SELECT hash FROM hush_entries WHERE number = 5)")
    raw.close()
    with Ledger.open(path) as ledger:
        assert ledger.history(OWNER)[0].outcome == "pending"
        with pytest.raises(RequestUnansweredError):
            ask(ledger, "q2")
        ask(ledger, "q3")
    assert left(path) == Fraction(7, 10)


def test_a_deleted_ledger_is_not_begun_afresh(path):
    path.unlink()
    with pytest.raises(LedgerRolledBackError, match="A new one would forget what was spent"):
        Ledger.open(path, create=OWNER)
    for other in ("none", path.with_name("another-anchor")):
        with pytest.raises(LedgerRolledBackError, match="to begin anew on purpose: hush ledger open --new"):
            Ledger.open(path, create=OWNER, anchor=other)
    usual_place(str(path)).unlink()
    with Ledger.open(path, create=OWNER) as ledger:
        assert ledger.budget(OWNER) == []


def test_an_anchor_can_be_moved_by_the_owner(path):
    other = path.with_name("another-anchor")
    with pytest.raises(LedgerRolledBackError):
        Ledger.open(path, anchor=other)
    with Ledger.restore(path, actor=OWNER, reason="another disk", lost="none", anchor=other) as ledger:
        ask(ledger, "q2")
    backup = copy_of(path)
    with Ledger.open(path) as ledger:
        assert ledger.verify().anchor == str(other)
        ask(ledger, "q3")
        ask(ledger, "q4")
    shutil.copy(backup, path)
    with pytest.raises(LedgerRolledBackError):
        Ledger.open(path)


def test_an_exchanged_ledger_is_refused(path, tmp_path):
    other = tmp_path / "other.ledger"
    with Ledger.open(other, create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": 100}, actor=OWNER)
    shutil.move(other, path)
    with pytest.raises(LedgerRolledBackError, match="belongs to another ledger"):
        Ledger.open(path)


def test_a_moved_ledger_still_finds_its_anchor_and_a_fork_is_refused(path, tmp_path):
    fork = tmp_path / "elsewhere" / "hush.ledger"
    fork.parent.mkdir()
    shutil.copy(path, fork)
    with Ledger.open(fork) as ledger:  # the same anchor, by the ledger's own record
        ask(ledger, "fork-1")
        ask(ledger, "fork-2")
    with pytest.raises(LedgerRolledBackError):
        Ledger.open(path)
    with Ledger.open(fork) as ledger:
        ask(ledger, "fork-3")


def test_a_fork_of_equal_length_is_refused(path):
    backup = copy_of(path)
    with Ledger.open(path) as ledger:
        ask(ledger, "a2")
        ask(ledger, "a3")
    anchor = usual_place(str(path))
    kept = anchor.read_bytes()
    shutil.copy(backup, path)
    anchor.unlink()
    with Ledger.restore(path, actor=OWNER, reason="fork", lost="none") as ledger:
        ask(ledger, "b3")
    anchor.write_bytes(kept)
    with pytest.raises(LedgerRolledBackError):
        Ledger.open(path)


def test_a_missing_or_unreadable_anchor_is_refused_until_the_owner_acts(path):
    anchor = usual_place(str(path))
    kept = anchor.read_bytes()
    anchor.unlink()
    with pytest.raises(LedgerRolledBackError, match="there is no mark at all"):
        Ledger.open(path)
    anchor.write_bytes(b"nonsense")
    with pytest.raises(LedgerDamagedError, match="cannot be read"):
        Ledger.open(path)
    with Ledger.restore(path, actor=OWNER, reason="new disk", lost="none") as ledger:
        ask(ledger, "q2")
    assert left(path) == Fraction(8, 10)
    anchor.write_bytes(kept)
    with pytest.raises(LedgerRolledBackError):
        Ledger.open(path)


def test_an_anchored_ledger_cannot_be_opened_without(path):
    with pytest.raises(LedgerError, match="cannot be opened without"):
        Ledger.open(path, anchor="none")
    with Ledger.restore(path, actor=OWNER, reason="no anchor wanted", lost="none", anchor="none"):
        pass
    assert not usual_place(str(path)).exists()
    assert left(path) == Fraction(9, 10)


def test_a_file_replaced_under_a_running_process_is_noticed(path):
    backup = copy_of(path)
    with Ledger.open(path) as ledger:
        ask(ledger, "q2")
        backup.rename(path)
        with pytest.raises(HushError):
            ask(ledger, "q3")


def test_edits_by_sql_are_refused(path):
    for statement in (
        'UPDATE hush_entries SET body = replace(body, \'"epsilon":"1"\', \'"epsilon":"9"\')',
        "UPDATE hush_entries SET analyst = 'bob' WHERE kind = 'reserve'",
        "UPDATE hush_entries SET weight = 0 WHERE kind = 'reserve'",
        "DELETE FROM hush_entries WHERE number = 2",
        "DELETE FROM hush_entries WHERE number = 4",
        "DELETE FROM hush_entries",
        "DELETE FROM hush_head",
        "DELETE FROM hush_meta",
        "UPDATE hush_head SET number = 3",
        "UPDATE hush_entries SET number = number + 1 WHERE number = 4",
        "DROP TABLE hush_head",
        "DROP TABLE hush_entries",
    ):
        kept = path.read_bytes()
        raw = sqlite3.connect(path)
        raw.execute(statement)
        raw.commit()
        raw.close()
        with pytest.raises(HushError):
            Ledger.open(path)
        path.write_bytes(kept)
    assert left(path) == Fraction(9, 10)


def rewritten(path: Path, *, without: str) -> None:
    """Forge a chain in which every hash fits: what somebody with write access to the file can do."""
    store = open_store(path, create=False)
    with store.entries() as rows:
        entries = [Entry.of(row) for row in rows]
    store.storage.begin()
    store.storage.rows("DELETE FROM hush_entries")
    head = Head()
    store.storage.change("UPDATE hush_head SET number = 0, hash = ?", head.hash)
    for old in entries:
        if old.kind == without:
            continue
        entry = Entry.draft(
            old.kind, old.read(), after=head, data=old.data, analyst=old.analyst, request=old.request, about=old.about
        )
        store.append(entry, after=head)
        head = entry.head
    store.storage.commit()
    store.storage.close()


def test_a_chain_written_anew_is_refused_by_the_anchor(path):
    with Ledger.open(path) as ledger:
        ask(ledger, "q2")
    rewritten(path, without="reserve")
    with pytest.raises(LedgerRolledBackError):
        Ledger.open(path)


def test_whoever_writes_ledger_and_anchor_can_forge_both(path):
    """The limit of what an anchor can do, stated in the documentation."""
    rewritten(path, without="reserve")
    usual_place(str(path)).unlink()
    with Ledger.restore(path, actor=OWNER, reason="forged", lost="none") as ledger:
        assert ledger.budget(OWNER)[0].remaining.epsilon == 1


def forge(path: Path, kind: str, change) -> None:
    """Append an entry to the ledger alone, with a hash that fits."""
    store = open_store(path, create=False)
    store.storage.begin()
    last = store.entry(store.tail(1)[1].number)
    body = last.read()
    change(body)
    entry = Entry.draft(kind, body, after=last.head, data="d", analyst="alice", request="forged", weight=last.weight)
    store.append(entry, after=last.head)
    store.storage.commit()
    store.storage.close()


def test_forged_entries_cannot_give_budget(path):
    kept = path.read_bytes()

    def spent(body, total):
        body["accounts"][0]["state"] |= {"spent_loss": total, "spent_epsilon": total}

    def refund(body):
        spent(body, "0")

    def cheap(body):
        body["price"] = [{"loss": "1/1000", "delta": "0", "epsilon": "1/1000"}]
        spent(body, "101/1000")

    def richer(body):
        body["accounts"][0]["state"]["epsilon"] = "100"

    for kind, change in (("reserve", refund), ("reserve", cheap), ("reserve", richer), ("raise", richer)):
        forge(path, kind, change)
        with pytest.raises(HushError):
            Ledger.open(path)
        path.write_bytes(kept)

    def restored(body):
        body |= {"by": "owner", "when": body["when"], "reason": "forged", "lost": "all", "anchor": "none"}
        body |= {"anchored": None, "accounts": body["accounts"][:1]}
        spent(body, "1")  # nothing is given back, so that the larger budget alone is wrong
        richer(body)

    forge(path, "restored", restored)
    with pytest.raises(HushError, match="it changes a budget"):  # also where the owner lets the copy count
        Ledger.restore(path, actor=OWNER, reason="a copy", lost="none")
    path.write_bytes(kept)

    def honest(body):
        spent(body, "1/5")

    forge(path, "reserve", honest)  # a charge by the rules: it can only spend
    assert left(path) == Fraction(8, 10)


def test_a_changed_answer_is_not_replayed(path):
    with Ledger.open(path) as ledger:
        ledger.answered(ask(ledger, "q2"), b"1203")
    raw = sqlite3.connect(path)
    raw.execute("UPDATE hush_answers SET answer = x'00'")
    raw.commit()
    raw.close()
    with Ledger.open(path) as ledger:
        with pytest.raises(LedgerDamagedError, match="not the one that was given"):
            ask(ledger, "q2")
        with pytest.raises(LedgerDamagedError, match="not the one that was given"):
            ledger.verify()


def test_an_anchor_behind_a_command(tmp_path):
    notary = tmp_path / "notary.py"
    notary.write_text(
        "import sys, pathlib\n"
        f"kept = pathlib.Path({str(tmp_path / 'kept')!r})\n"
        "if sys.argv[1] == 'get':\n"
        "    print(kept.read_text() if kept.exists() else '', end='')\n"
        "else:\n"
        "    kept.write_text(sys.stdin.read())\n",
        encoding="utf-8",
    )
    path, anchor = tmp_path / "hush.ledger", f"command:{sys.executable} {notary}"
    with Ledger.open(path, create=OWNER, anchor=anchor) as ledger:
        ledger.create_data("d", {"epsilon": 1}, actor=OWNER)
        ledger.add_analyst("alice", data="d", actor=OWNER)
        backup = copy_of_open(path)
        ask(ledger, "q1")
        ask(ledger, "q2")
    shutil.copy(backup, path)
    with pytest.raises(LedgerRolledBackError):
        Ledger.open(path)  # the ledger itself says where its anchor is
    notary.write_text("import sys; sys.exit(1)", encoding="utf-8")
    with pytest.raises(LedgerUnavailableError, match="Nothing is granted"):
        Ledger.open(path, anchor=anchor)


def copy_of_open(path: Path) -> Path:
    """Copy a ledger that is in use, the way the documentation says."""
    backup = path.with_suffix(".backup")
    source, target = sqlite3.connect(path), sqlite3.connect(backup)
    source.backup(target)
    source.close()
    target.close()
    return backup


def test_the_anchor_file_survives_any_flipped_byte(path):
    """One damaged slot leaves the other; what it says is one entry older, and the ledger is ahead by a charge."""
    anchor = usual_place(str(path))
    kept, whole = anchor.read_bytes(), left(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    written = [at for at, byte in enumerate(kept) if byte]  # the rest of the two blocks is never read
    for at in written[::3] + list(range(5, len(kept), 500)):
        anchor.write_bytes(kept[:at] + bytes([kept[at] ^ 0xFF]) + kept[at + 1 :])
        with contextlib.suppress(HushError):
            assert left(path) == whole
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            pytest.fail("a damaged anchor must not change the ledger")
