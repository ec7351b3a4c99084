"""Export, import, restore: copies of a ledger, and the owner's act that makes a copy count.

An export is one JSON object a line: the entries exactly as they are chained, and the answers. Importing it rebuilds
the same chain and the same totals, after checking every hash and every rule.

A copy may lack the newest charges, whose answers are out in the world. Nobody but the owner can say how much that
was, so both imports and restores demand it: ``none`` (this is the newest copy), ``all`` (unknown: every account
counts as used up; the owner can then raise budgets deliberately), or an ε, or (ε, δ), that is charged to every
account. The act is an entry of its own.

*Verifying* is the full check: every hash, every rule, every answer, and the totals accounted for afresh. Opening a
ledger checks the chain and the anchor; this also asks whether what was written is right, entry by entry
(`hush.ledger.rules`).
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hush.accounting.events import ApproximateDPEvent
from hush.core import InvalidValueError, Number, nonnegative, probability
from hush.ledger.anchors import Mark
from hush.ledger.chain import WITNESS, Chain
from hush.ledger.entries import Actor, Entry, Head, Row, canonical, damaged, follow, now, prose
from hush.ledger.errors import LedgerDamagedError, LedgerError
from hush.ledger.rules import check, written_off
from hush.ledger.state import LedgerState, account_state
from hush.ledger.store import open_store

Lost = str | Number | tuple[Number, Number]
"""The privacy loss of releases that a copy lacks: "none", "all", an ε, or an (ε, δ)."""

FORMAT = 1


def restore(url: str | Path, *, actor: Actor, reason: str, lost: Lost, anchor: str | Path | None) -> Chain:
    """Open a copy that does not agree with its anchor, record the owner's act, and set the anchor to it."""
    actor.require_owner("restore a ledger")
    chain = Chain.open(url, anchor=anchor, create=None, trust=True)
    with ExitStack() as undo:
        undo.callback(chain.close)
        with chain.store.entries() as rows:
            for _ in checked(LedgerState(), rows, chain.store.entry):
                pass
        why, gone = prose(reason, "reason", longest=2000), losses(lost)
        kept = chain.anchor
        with chain.store.storage.locked():
            state, mark = chain.state, None
            if chain.store.tail(state.head.number)[1] != state.head:
                raise LedgerError("Somebody else is writing to the ledger; stop everything that uses it, then restore.")
            accounts = [
                account_state(key, written_off(account, gone))
                for key, account in sorted(state.accounts.items())
                if account is not None and gone != "none"
            ]
            with suppress(LedgerDamagedError):  # an anchor that cannot be read is one reason to restore
                mark = None if kept is None else kept.read()
            body = {
                "by": actor.name,
                "when": now(),
                "reason": why,
                "lost": gone,
                "anchor": "none" if kept is None else kept.place if kept.exclusive else WITNESS,
                "anchored": None if mark is None else {"ledger": mark.ledger, "entries": mark.entry.number},
                "accounts": accounts,
            }
            entry = Entry.draft("restored", body, after=state.head)
            # The anchor first: after a crash before the commit, an exclusive anchor is one entry ahead, and the next
            # opener appends the act from its mark (`Chain._complete`).
            if kept is not None:
                kept.write(Mark(ledger=state.id, before=state.head, entry=entry, place=chain.store.place))
            chain.forget_usual(kept)
            chain.store.append(entry, after=state.head)
            chain.store.storage.commit()
        with chain.reading():
            pass
        undo.pop_all()
    return chain


def import_(
    file: IO[str], url: str | Path, *, actor: Actor, reason: str, lost: Lost, anchor: str | Path | None
) -> Chain:
    """Build a ledger from an export at a place that has none, and record the owner's act."""
    actor.require_owner("import a ledger")
    # Refuse wrong arguments before anything is made; `restore` below checks them again.
    prose(reason, "reason", longest=2000)
    losses(lost)
    new = None if "://" in str(url) or Path(url).exists() else Path(url)
    store = open_store(url, create=True)
    try:
        with store.storage.locked():
            if store.storage.has_table("hush_entries"):
                raise LedgerError(f"There is a ledger at {store.place} already; import into a new place.")
            store.prepare()
            answers: dict[int, bytes] = {}
            before = Head()
            for entry in checked(LedgerState(), _lines(file, answers), store.entry):
                answer = answers.pop(entry.about, None) if entry.kind == "answered" else None
                store.append(entry, after=before, answer=answer)
                before = entry.head
            store.storage.commit()
        new = None  # committed: the file stays, even if the act below cannot be recorded
    finally:
        store.storage.close()
        if new is not None:  # it holds nothing, and would be in the way of the next attempt
            for end in ("", "-wal", "-shm", "-journal"):
                Path(f"{new}{end}").unlink(missing_ok=True)
    return restore(url, actor=actor, reason=reason, lost=lost, anchor=anchor)


def losses(lost: Lost) -> Any:
    """Return the stated loss in the form that entries hold: "none", "all", or a list of one (ε, δ) event."""
    if isinstance(lost, str) and lost in {"none", "all"}:
        return lost
    allowed = "none, all, an epsilon, or a pair of epsilon and delta"
    if isinstance(lost, tuple) and len(lost) != 2:
        raise InvalidValueError("lost", got=lost, allowed=allowed)
    epsilon, delta = lost if isinstance(lost, tuple) else (lost, 0)
    epsilon, delta = nonnegative(epsilon, "lost", allowed=allowed), probability(delta, "lost", allowed=allowed)
    return [ApproximateDPEvent(epsilon=epsilon, delta=delta).to_json()] if epsilon or delta else "none"


def export(chain: Chain, file: IO[str]) -> int:
    """Write a header, then every entry and answer, a line each."""
    with chain.reading() as state, chain.store.entries() as rows:
        _line(file, {"hush-ledger": FORMAT, "id": state.id, "entries": state.head.number})
        # The first line states the count, so entries that others append meanwhile are left out.
        for row in itertools.islice(rows, state.head.number):
            entry = Entry.of(row)
            answer = chain.store.answer(entry.about) if entry.kind == "answered" else None
            if answer is not None:  # before its entry, so that a reader has both at once
                _line(file, {"answer": base64.b64encode(answer).decode("ascii"), "about": entry.about})
            _line(file, {**entry.to_json(), "body": entry.read()})
        return state.head.number


def _line(file: IO[str], value: Any) -> None:
    file.write(canonical(value).decode("ascii") + "\n")


def _lines(file: IO[str], answers: dict[int, bytes]) -> Iterator[Row]:
    """Yield the entries of an export, and collect its answers in ``answers``."""
    expected, count = 0, 0
    for at, line in enumerate(file, start=1):
        try:
            item = json.loads(line)
            if at == 1:
                expected = {FORMAT: item["entries"]}[item["hush-ledger"]]  # another format ends here
            elif "answer" in item:
                answers[item["about"]] = base64.b64decode(item["answer"], validate=True)
            else:
                count += 1
                # The hash covers the canonical text of a body, and a file may have been formatted in another way.
                yield Entry.from_json({**item, "body": canonical(item["body"]).decode("ascii")}).row
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            allowed, hint = "lines written by hush ledger export", "This line is not one."
            raise InvalidValueError("file", got=f"line {at}", allowed=allowed, hint=hint) from error
    if count != expected or not count:  # a chain that was cut short is a chain: only the first line knows
        allowed = f"a whole export, of {expected or 'some'} entries"
        raise InvalidValueError("file", got=f"{count} entries", allowed=allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The counts of a ledger that passed every check; a check that fails raises an error instead.

    >>> from hush.ledger import Ledger
    >>> Ledger.in_memory().verify().entries
    1
    """

    entries: int
    head: str
    charges: int
    answered: int
    failed: int
    pending: int
    accounts: int
    anchor: str
    """The place of the anchor, or ``none``."""


def verify(chain: Chain) -> Verification:
    """Check everything, or raise :class:`~hush.ledger.errors.LedgerDamagedError` at the first entry that is wrong."""
    counted = {"reserve": 0, "answered": 0, "failed": 0}
    state = LedgerState()
    with chain.reading() as known, chain.store.entries() as rows:
        for entry in checked(state, rows, chain.store.entry):
            if entry.kind in counted:
                counted[entry.kind] += 1
            if entry.kind == "answered":
                stored = chain.store.answer(entry.about)
                if stored is None or hashlib.sha256(stored).hexdigest() != entry.read()["answer"]:
                    raise damaged(entry.number, "the answer stored with it is not the one that was given")
        # More entries are in order: other processes may append while this one checks.
        if state.head.number < known.head.number:
            raise damaged(state.head.number + 1, "it disappeared while the ledger was being checked")
    charges = counted.pop("reserve")
    return Verification(
        entries=state.head.number,
        head=state.head.hash.hex(),
        charges=charges,
        **counted,
        pending=charges - sum(counted.values()),
        accounts=len(state.accounts),
        anchor="none" if chain.anchor is None else chain.anchor.place,
    )


def checked(state: LedgerState, rows: Iterable[Row], find: Callable[[int], Entry | None]) -> Iterable[Entry]:
    """Yield entries, each checked by its hash and by the rules against all before it.

    ``find`` returns an entry that was checked before, by its number.
    """
    open_charges: dict[int, Entry] = {}
    requests: set[tuple[str, str]] = set()
    for row in rows:
        follow(state.head, row)
        entry = Entry.of(row)
        # Taken out of the open charges: a second outcome of the same reservation finds none, and is refused.
        paid = find(entry.paid_by) if entry.kind == "shared" else open_charges.pop(entry.about, None)
        check(state, entry, paid)
        state.take(entry)
        if entry.kind == "reserve":
            if (entry.analyst, entry.request) in requests:
                raise damaged(entry.number, "its request id was used before")
            requests.add((entry.analyst, entry.request))
            open_charges[entry.number] = entry
        yield entry
