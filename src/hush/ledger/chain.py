"""The chain in use: open it, keep up with others, append to it, in the order that survives every crash.

This is the one place that writes a ledger or an anchor; :mod:`hush.ledger.anchors` says in which order and why.

**A lost ledger is never a fresh budget.** A ledger is made by one explicit act of an owner, never by using it. What
happens when one is opened depends on what lies at its place and on what the anchors know: docs/ledger.md has the table.
A place is what its path leads to, however it is spelled. An anchor is found by the place, by the ledger's own record,
or, when both moved, by the ledger's id. What no anchor of this machine can know (another home, another host) the policy
knows: it names its ledger's id (`hush.policy.ledger`).
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hush.accounting.filters import Filter
from hush.ledger.anchors import Anchor, FileAnchor, Mark, find_marks, known_at, open_anchor, set_aside, usual_place
from hush.ledger.entries import CHARGES, OUTCOMES, Actor, Entry, Head, damaged, now
from hush.ledger.errors import (
    RESTORE,
    LedgerError,
    LedgerMissingError,
    LedgerRolledBackError,
    LedgerUnavailableError,
    missing,
)
from hush.ledger.rules import check
from hush.ledger.state import Key, LedgerState, account_state
from hush.ledger.store import Store, open_store, spellings
from hush.storage import in_database

Accounts = Mapping[Key, Filter | None]
WITNESS = "witness"
"""Recorded as the anchor of a ledger on PostgreSQL if each host keeps a mark of its own."""


_LIVE: weakref.WeakSet[Chain] = weakref.WeakSet()
_FORKING = threading.RLock()
_HELD: list[Any] = []
"""The mutexes that a fork in progress has acquired."""


def _before_fork() -> None:
    """Acquire the mutex of every open ledger, so that a child process inherits none that another thread holds."""
    # One fork at a time: `_HELD` has the mutexes of one fork.
    _FORKING.acquire()
    for chain in list(_LIVE):
        chain.mutex.acquire()
        _HELD.append(chain.mutex)


def _after_fork() -> None:
    while _HELD:
        _HELD.pop().release()
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


class Chain:
    """A store, its anchor, and the state that this process has read and checked."""

    def __init__(self, store: Store, spellings: Sequence[str] = ()) -> None:
        self.store = store
        self.anchor: Anchor | None = None
        self._spellings = spellings or (store.place,)
        self.state = LedgerState()
        self.mutex = store.storage.mutex
        """Keeps this process's threads out of each other's way."""
        _LIVE.add(self)

    @classmethod
    def open(
        cls, url: str | Path, *, anchor: str | Path | None, create: Actor | None, anew: str = "", trust: bool = False
    ) -> Chain:
        """Open a ledger and check every entry; with ``create``, an owner makes one where there is none.

        ``anew`` is the owner's reason to begin anew where a ledger was lost. ``trust`` leaves out the comparison with
        the anchor: for the owner's act of restoring, which ends in a new mark.
        """
        if create is not None:
            create.require_owner("make a ledger")
        names = spellings(url)
        try:
            store = open_store(url, create=create is not None)
        except LedgerMissingError:
            _refuse_lost(names)
            raise
        chain = cls(store, names)
        with ExitStack() as undo:
            undo.callback(chain.close)
            if not store.storage.has_table("hush_entries"):
                if create is None:
                    _refuse_lost(names)
                    raise LedgerMissingError(missing(store.place))
                chain._create(create, anchor, anew)
            elif anew:
                raise LedgerError(f"There is a ledger at {store.place}; nothing is begun anew where one is.")
            store.migrate()
            with store.entries() as rows:
                chain.state.follow(rows)
            if not chain.state.head.number:
                raise damaged(1, "it is missing")
            chain.anchor = chain._choose(anchor, trust=trust)
            if not trust:
                with chain.reading():
                    pass
            undo.pop_all()
        return chain

    def close(self) -> None:
        """Close the store and the anchor."""
        with self.mutex:
            self.store.storage.close()
            if self.anchor is not None:
                self.anchor.close()

    def _create(self, owner: Actor, wanted: str | Path | None, anew: str) -> None:
        in_memory = self.store.place == "memory"
        anchor = open_anchor("none" if in_memory else wanted, ledger=self.store.place)
        with self.store.storage.locked():
            if self.store.storage.has_table("hush_entries"):  # somebody else was faster
                return
            if not in_memory:
                self._make_room(anchor if wanted is not None else None, anew)
            identity = secrets.token_hex(16)
            place = "none" if anchor is None else anchor.place if anchor.exclusive else WITNESS
            body = {"id": identity, "by": owner.name, "when": now(), "anchor": place, "accounts": []}
            entry = Entry.draft("ledger", body | ({"reason": anew} if anew else {}), after=Head())
            self.store.prepare()
            # The anchor first. If a crash comes before the commit, its mark has entry 1 alone, and `_make_room` and
            # `known_at` do not take that for a lost ledger.
            if anchor is not None:
                anchor.write(Mark(ledger=identity, before=Head(), entry=entry, place=self.store.place))
            self.forget_usual(anchor)
            self.store.append(entry, after=Head())
            self.store.storage.commit()
        if anchor is not None:
            anchor.close()

    def _make_room(self, chosen: Anchor | None, anew: str) -> None:
        """Refuse to make a ledger where one was lost, unless it is begun anew; set the anchors of others aside."""
        mark = None if chosen is None else chosen.read()
        # Entry 1 alone is the mark of an attempt that crashed before its commit: no budget was opened by it.
        if chosen is not None and mark is not None and mark.entry.number > 1:
            raise LedgerRolledBackError(
                f"The anchor at {chosen.place} knows a ledger of {mark.entry.number} entries, but at "
                f"{self.store.place} there is none. A new one would forget what was spent. Put the newest copy in its "
                "place; for another ledger, choose another anchor."
            )
        if not anew:
            _refuse_lost(self._spellings)
        for path in map(usual_place, self._spellings):
            set_aside(path)

    def forget_usual(self, anchor: Anchor | None) -> None:
        """Delete marks in the state directory that another anchor has replaced: they would be found before it."""
        known = [usual_place(self.store.place)]
        if anchor is None or anchor.exclusive:
            known += [path for path, _ in find_marks(self.state.id)]
        for path in known:
            if anchor is None or anchor.place != str(path):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise LedgerUnavailableError(f"The old anchor at {path} could not be removed ({error}).") from error

    def _choose(self, wanted: str | Path | None, *, trust: bool) -> Anchor | None:
        """Return the anchor: as asked for, else at the usual place, else as the ledger names it, else by its id."""
        recorded, place = self.state.anchor, self.store.place
        if wanted == "none" and recorded != "none" and not trust:
            raise LedgerError(
                f"The ledger at {place} has an anchor ({recorded}); it cannot be opened without. An owner who wants to "
                "give it up records that: hush ledger restore --anchor none --reason TEXT --lost none."
            )
        if wanted is not None or place == "memory":
            return open_anchor(wanted or "none", ledger=place)
        exclusive = not in_database(place)
        # The usual place comes before the ledger's own record: it depends on the path alone, so it shows that another
        # ledger, with a record of its own, was put in this one's place.
        for path in map(usual_place, self._spellings):
            if path.exists():
                return FileAnchor(path, exclusive=exclusive)
        if recorded == "none":
            return None
        named = None if recorded == WITNESS else open_anchor(recorded, ledger=place)
        if named is not None and not (isinstance(named, FileAnchor) and self._gone(named)):
            return named
        if exclusive or not trust:  # a copy of a ledger on a server has a witness of its own
            for path, _ in find_marks(self.state.id):
                return FileAnchor(path, exclusive=exclusive)
        # A new witness may begin empty, and restoring sets a new mark. Any other anchor that is gone is returned as it
        # is: `_compare` then refuses the ledger, because there is no mark.
        return open_anchor(None, ledger=place) if named is None or trust else named

    def _gone(self, anchor: FileAnchor) -> bool:
        """Return whether the anchor file that a ledger names is missing, or has the mark of another ledger."""
        with suppress(LedgerError):  # what cannot be read is refused later
            mark = anchor.read()
            return mark is None or mark.ledger != self.state.id
        return not os.access(anchor.place, os.F_OK)

    @contextmanager
    def locked(self) -> Iterator[LedgerState]:
        """Hold the lock; first read and check the entries that other processes have written."""
        # The mutex keeps out threads of this process, the storage's lock other processes and hosts. Always in this
        # order, so that two threads cannot wait for each other.
        with self.mutex:
            self.store.storage.ready()
            with self.store.storage.locked():
                self._keep_up()
                yield self.state

    @contextmanager
    def reading(self) -> Iterator[LedgerState]:
        """Keep this process's other threads out while entries are read; other processes may go on.

        The entries that they have written until now are read and checked first.
        """
        with self.mutex:
            with self.locked():
                pass
            yield self.state

    def write(self, entry: Entry, accounts: Accounts, *, answer: bytes | None = None) -> None:
        """Append an entry, given the accounts that it changes: once inside `locked`, and durable when it returns."""
        state, anchor, wait = self.state, self.anchor, None
        mark = Mark(ledger=state.id, before=state.head, entry=entry, place=self.store.place)
        if anchor is not None and anchor.exclusive:
            # A charge can only spend, so `_ahead` accepts one that the anchor lost in a power failure: both disks may
            # be written at the same time. An act may raise a budget, so the anchor must have it first.
            if entry.kind in CHARGES:
                wait = anchor.begin(mark)
            else:
                anchor.write(mark)
        try:
            self.store.append(entry, after=state.head, answer=answer)
            self.store.storage.commit()  # which also lets go of the lock
            state.move(entry, accounts)
        finally:
            # Also after a failed commit, to close the anchor's file. Before it returns nothing may be granted.
            if wait is not None:
                wait()
        if anchor is not None and not anchor.exclusive:
            # A witness. The commit released the lock: another process of this host may have written a later mark.
            with self.store.storage.locked():
                seen = anchor.read()
                if seen is None or seen.entry.number < entry.number:
                    anchor.write(mark)

    def record(
        self, kind: str, by: str, content: Mapping[str, Any], accounts: Accounts = MappingProxyType({}), **names: Any
    ) -> int:
        """Append somebody's act (once inside `locked`), given the accounts that it changes; return its number.

        ``names`` are those of `Entry.draft`: the data set, the analyst, the request.
        """
        states = [account_state(key, account) for key, account in accounts.items()]
        body = {"by": by, "when": now(), "accounts": states, **content}
        entry = Entry.draft(kind, body, after=self.state.head, **names)
        self.write(entry, accounts)
        return entry.number

    def _keep_up(self) -> None:
        mark = None if self.anchor is None else self.anchor.read()
        known = self.state.head
        # From the last known entry on, not after it: it must still be there with the same hash. Otherwise the file was
        # exchanged or rolled back while this process had it open.
        rows, head = self.store.tail(known.number)
        if known.number:
            if not rows or rows[0][0] != known.number or rows[0][8] != known.hash:
                raise damaged(known.number, "it was read before, and is no longer there as it was")
            del rows[0]
        if rows:
            self.state.follow(rows)
        if head != self.state.head:
            raise damaged(self.state.head.number, "it is the last one, but not the one that the ledger calls its head")
        if self.anchor is not None:
            self._compare(self.anchor, mark)

    def _compare(self, anchor: Anchor, mark: Mark | None) -> None:
        """Compare the ledger's head with the anchor's mark; repair the traces of a crash, refuse other differences."""
        head = self.state.head
        if mark is None:
            # 1. No mark. An exclusive anchor gets one before the first entry is committed, so it was removed, or the
            # wrong place was named. A witness may be new: this host has not opened the ledger before.
            if anchor.exclusive:
                raise self._refused(anchor, "there is no mark at all")
            self._see(anchor)
        elif mark.ledger != self.state.id:
            # 2. The ledger was exchanged for another one, or the wrong anchor was named.
            raise self._refused(anchor, "the mark belongs to another ledger")
        elif mark.entry.head == head:
            # 3. Both end with the same entry: the usual case.
            return
        elif mark.before == head and anchor.exclusive:
            # 4. The anchor is one entry ahead: a crash came after the anchor's write and before the commit. The mark
            # holds the whole entry. A witness is written after the commit, so for one this is outcome 5.
            self._complete(mark.entry)
        elif mark.entry.number >= head.number:
            # 5. The ledger lacks anchored entries (an older copy), or its last entry is another one (a fork).
            lost = mark.entry.number - head.number
            why = f"its last {lost} entries are missing" if lost else "its last entry is not the anchored one"
            raise self._refused(anchor, why)
        else:
            # 6. The ledger is ahead: usual for a witness; else the anchor's disk lost its last write. `_ahead` refuses
            # everything that the order of writes cannot explain; the rest is written to the anchor.
            self._ahead(anchor, mark)
            self._see(anchor)

    def _complete(self, entry: Entry) -> None:
        """Append the entry that the anchor has and the ledger lacks: after a crash, or after somebody took it away."""
        if entry.kind in OUTCOMES:  # it moves no budget, and its answer is gone
            return  # the next write replaces the mark
        self.store.append(entry, after=self.state.head)
        self.store.storage.commit()
        # The commit ended the transaction and released the lock; the caller of `locked` still needs both.
        self.store.storage.begin()
        self._keep_up()

    def _ahead(self, anchor: Anchor, mark: Mark) -> None:
        """Accept entries that the anchor lacks, if the order of writes can explain them; refuse all others."""
        head, anchored = self.state.head, self.store.entry(mark.entry.number)
        if anchored is None or anchored.hash != mark.entry.hash:
            why = f"its history differs from the anchored one at entry {mark.entry.number} or before"
            raise self._refused(anchor, why)
        # Other hosts write without this witness, so it may be any number of entries behind.
        if not anchor.exclusive:
            return
        last, unseen = self.store.entry(head.number), head.number - mark.entry.number
        # Every write compares first, so entry n+2 is never begun while the anchor lacks n+1.
        if last is None or unseen > 1:
            raise self._refused(anchor, f"it has {unseen} entries that the anchor never saw")
        # An act is on the anchor's disk before it is committed: this one was not written by hush.
        if last.kind not in CHARGES:
            raise self._refused(anchor, "it has an act of an owner that the anchor never saw")
        # It may be forged by somebody who can write the ledger: accept it only if it spends what it says.
        before = LedgerState()
        with self.store.entries() as rows:
            before.follow(itertools.islice(rows, mark.entry.number))
        check(before, last, self.store.entry(last.paid_by))

    def _see(self, anchor: Anchor) -> None:
        """Write the ledger's last entry to the anchor."""
        last, before = self.store.entry(self.state.head.number), self.store.entry(self.state.head.number - 1)
        if last is None or last.head != self.state.head:
            raise damaged(self.state.head.number, "it is no longer there")
        end = Head() if before is None else before.head
        anchor.write(Mark(ledger=self.state.id, before=end, entry=last, place=self.store.place))

    def _refused(self, anchor: Anchor, why: str) -> LedgerRolledBackError:
        return LedgerRolledBackError(
            f"The ledger at {self.store.place} does not agree with its anchor at {anchor.place}: {why}. It was rolled "
            f"back to an older copy, forked, or moved. No budget is given out. {RESTORE}"
        )


def _refuse_lost(spellings: Sequence[str]) -> None:
    """Refuse a place without a ledger if an anchor in the state directory knows of one there."""
    for path, mark in known_at(spellings):
        raise LedgerRolledBackError(
            f"The anchor at {path} knows a ledger of {mark.entry.number} entries, but at {spellings[0]} there is none. "
            "A new one would forget what was spent. Put the newest copy in its place; to begin anew on purpose: "
            "hush ledger open --new REASON, which is recorded."
        )
