"""The rules of entries, one by one: each forgery breaks one rule, and is refused for that rule."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from seams import chain_of

from hush.accounting import ApproximateDPEvent
from hush.ledger import Actor, Ledger, LedgerDamagedError, LedgerRolledBackError
from hush.ledger.anchors import usual_place
from hush.ledger.entries import Entry
from hush.ledger.rules import check
from hush.ledger.state import LedgerState

OWNER = Actor.owner("owner")
Change = Callable[[dict[str, Any]], None]


def ask(ledger: Ledger, request: str) -> Any:
    return ledger.reserve(request, analyst="alice", data="d", question="q", events=[ApproximateDPEvent(epsilon="0.1")])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with a data set (2), an analyst (3), two charges (4, 6), an outcome (5) and a raise (7)."""
    file = tmp_path / "hush.ledger"
    with Ledger.open(file, create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": 1}, actor=OWNER)
        ledger.add_analyst("alice", data="d", actor=OWNER)
        ledger.answered(ask(ledger, "q1"), b"1")
        ask(ledger, "q2")
        ledger.raise_budget("d", epsilon=2, actor=OWNER, reason="more")
    return file


def state(**figures: str) -> Change:
    def change(body: dict[str, Any]) -> None:
        body["accounts"][0]["state"] |= figures

    return change


def cheap(loss: str, epsilon: str) -> Change:
    def change(body: dict[str, Any]) -> None:
        body["price"] = [{"loss": loss, "delta": "0", "epsilon": epsilon}]
        body["accounts"][0]["state"] |= {"spent_loss": loss, "spent_epsilon": epsilon}

    return change


def restored(body: dict[str, Any]) -> None:
    body |= {"lost": "all", "anchor": "none", "anchored": None}


@pytest.mark.parametrize(
    ("number", "kind", "changes", "analyst", "why"),
    [
        (2, "data", [state(spent_loss="1/10")], "", "the account it opens is not fresh"),
        (2, "data", [state(spent_delta="1/10", delta="1/2", reserve="1/2")], "", "the account it opens is not fresh"),
        (4, "reserve", [cheap("1/1000", "1/10")], "alice", "its price is lower than its events cost"),
        (4, "reserve", [cheap("1/10", "1/1000")], "alice", "its price is lower than its events cost"),
        (4, "reserve", [state(spent_loss="0", spent_epsilon="0")], "alice", "the totals after it are not the totals"),
        (4, "reserve", [state(epsilon="100")], "alice", "the totals after it are not the totals"),
        (5, "answered", [], "bob", "it is the outcome of no reservation"),
        (7, "raise", [state(spent_loss="0", spent_epsilon="0")], "", "it changes what was spent"),
        (7, "raise", [state(epsilon="1/2")], "", "it lowers a budget"),
        (7, "restored", [restored], "", "it changes a budget"),
        (7, "restored", [restored, state(epsilon="1", spent_loss="0", spent_epsilon="0")], "", "it gives budget back"),
    ],
)
def test_a_forgery_is_refused(
    path: Path, number: int, kind: str, changes: list[Change], analyst: str, why: str
) -> None:
    with Ledger.open(path) as ledger, chain_of(ledger).store.entries() as rows:
        entries = [Entry.of(row) for row in rows]
    before = LedgerState()
    before.follow(islice((entry.row for entry in entries), number - 1))
    entry = entries[number - 1]
    check(before, entry, entries[3])
    body = deepcopy(entry.read())
    for change in changes:
        change(body)
    names = {"data": "d", "analyst": analyst, "request": entry.request, "about": entry.about, "weight": entry.weight}
    with pytest.raises(LedgerDamagedError, match=why):
        check(before, Entry.draft(kind, body, after=before.head, **names), entries[3])


def test_an_act_that_the_anchor_never_saw_is_refused(path: Path) -> None:
    anchor = usual_place(str(path))
    kept = anchor.read_bytes()
    with Ledger.open(path) as ledger:
        ledger.raise_budget("d", epsilon=3, actor=OWNER, reason="more")
    anchor.write_bytes(kept)
    with pytest.raises(LedgerRolledBackError, match="an act of an owner that the anchor never saw"):
        Ledger.open(path)


def test_an_old_entry_that_was_edited_brings_no_answer(path: Path) -> None:
    with Ledger.open(path) as ledger:
        raw = sqlite3.connect(path)
        raw.execute("UPDATE hush_entries SET body = replace(body, '1/10', '1/11') WHERE number = 4")
        raw.commit()
        raw.close()
        with pytest.raises(LedgerDamagedError, match="its hash does not match its content"):
            ask(ledger, "q1")
