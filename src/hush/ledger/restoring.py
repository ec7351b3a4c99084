"""Export, import, restore: copies of a ledger, and the owner's act that makes a copy count.

An export is one JSON object a line: the entries exactly as they are chained, and the answers. Importing it rebuilds
the same chain and the same totals, after checking every hash and every rule.

A copy may lack the newest charges, whose answers are out in the world. Nobody but the owner can say how much that
was, so both imports and restores demand it: ``none`` (this is the newest copy), ``all`` (unknown: every account
counts as used up; the owner can then raise budgets deliberately), or an ε, or (ε, δ), that is charged to every
account. The act is an entry of its own.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from hush.accounting.events import ApproximateDPEvent
from hush.core import InvalidValueError, Number, nonnegative, probability
from hush.ledger.actors import Actor, prose
from hush.ledger.anchors import Mark
from hush.ledger.book import Book, account_state
from hush.ledger.chain import WITNESS, Chain
from hush.ledger.entries import Entry, Head, Row, canonical
from hush.ledger.errors import LedgerDamagedError, LedgerError
from hush.ledger.rules import written_off
from hush.ledger.stores import Store, open_store
from hush.ledger.system import now
from hush.ledger.verifying import checked

Lost = str | Number | tuple[Number, Number]
"""What a copy does not show: "none", "all", an ε, or an (ε, δ)."""

FORMAT = 1


def restore(url: str | Path, *, actor: Actor, reason: str, lost: Lost, anchor: str | Path | None) -> Chain:
    """Open a copy that its anchor does not vouch for, record the owner's act, and set the anchor to it."""
    actor.require_owner("restore a ledger")
    chain = Chain.open(url, anchor=anchor, create=None, trust=True)
    try:
        with chain.store.entries() as rows:
            for _ in checked(Book(), rows, chain.store.entry):
                pass
        _record(chain, actor=actor, reason=reason, lost=lost)
    except BaseException:
        chain.close()
        raise
    return chain


def import_(
    file: IO[str], url: str | Path, *, actor: Actor, reason: str, lost: Lost, anchor: str | Path | None
) -> Chain:
    """Build a ledger from an export at a place that has none, and record the owner's act."""
    actor.require_owner("import a ledger")
    prose(reason, "reason", longest=2000)
    losses(lost)
    store = open_store(url, create=True)
    try:
        with store.locked():
            if store.exists():
                raise LedgerError(f"There is a ledger at {store.place} already; import into a new place.")
            store.prepare()
            _fill(store, file)
            store.commit()
    finally:
        store.close()
    return restore(url, actor=actor, reason=reason, lost=lost, anchor=anchor)


def _fill(store: Store, file: IO[str]) -> None:
    book = Book()
    answers: dict[int, bytes] = {}
    before = Head()
    for entry in checked(book, _lines(file, answers), store.entry):
        store.append(entry, after=before)
        before = entry.head
        if entry.kind == "answered" and entry.about in answers:
            store.keep_answer(entry.about, answers.pop(entry.about))


def losses(lost: Lost) -> Any:
    """Return what was lost as entries hold it: "none", "all", or the events of a black box."""
    if isinstance(lost, str) and lost in {"none", "all"}:
        return lost
    allowed = "none, all, an epsilon, or a pair of epsilon and delta"
    if isinstance(lost, tuple) and len(lost) != 2:
        raise InvalidValueError("lost", got=lost, allowed=allowed)
    epsilon, delta = lost if isinstance(lost, tuple) else (lost, 0)
    gone = ApproximateDPEvent(
        epsilon=nonnegative(epsilon, "lost", allowed=allowed), delta=probability(delta, "lost", allowed=allowed)
    )
    return [gone.to_json()] if gone.epsilon or gone.delta else "none"


def _record(chain: Chain, *, actor: Actor, reason: str, lost: Lost) -> None:
    """Append the act and set the anchor, prepared first, as for every act of an owner: no crash is in the way."""
    why, gone = prose(reason, "reason", longest=2000), losses(lost)
    anchor = chain.anchor
    with chain.store.locked():
        book = chain.book
        if chain.store.head() != book.head:
            raise LedgerError("Somebody else is writing to the ledger; stop everything that uses it, then restore.")
        accounts = [
            account_state(key, written_off(account, gone))
            for key, account in sorted(book.accounts.items())
            if account is not None and gone != "none"
        ]
        found = _mark(chain)
        body = {
            "by": actor.name,
            "when": now(),
            "reason": why,
            "lost": gone,
            "anchor": "none" if anchor is None else anchor.place if anchor.exclusive else WITNESS,
            "anchored": None if found is None else {"ledger": found.ledger, "entries": found.entry.number},
            "accounts": accounts,
        }
        entry = Entry.draft("restored", body, after=book.head)
        if anchor is not None:
            anchor.reset(Mark(ledger=book.id, before=book.head, entry=entry, place=chain.store.place))
        chain.forget_usual(anchor)
        chain.store.append(entry, after=book.head)
        chain.store.commit()
    chain.refresh()


def _mark(chain: Chain) -> Mark | None:
    try:
        return None if chain.anchor is None else chain.anchor.read()
    except LedgerDamagedError:
        return None


def export(chain: Chain, file: IO[str]) -> int:
    """Write a header, then every entry and answer, a line each."""
    with chain.reading() as book, chain.store.entries() as rows:
        _line(file, {"hush-ledger": FORMAT, "id": book.id, "entries": book.head.number})
        for row in itertools.islice(rows, book.head.number):
            entry = Entry.of(row)
            answer = chain.store.answer(entry.about) if entry.kind == "answered" else None
            if answer is not None:  # before its entry, so that a reader has both at once
                _line(file, {"answer": base64.b64encode(answer).decode("ascii"), "about": entry.about})
            _line(file, {**entry.to_json(), "body": entry.read()})
        return book.head.number


def _line(file: IO[str], value: Any) -> None:
    file.write(json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True) + "\n")


def _lines(file: IO[str], answers: dict[int, bytes]) -> Iterator[Row]:
    """Yield the entries of an export; answers are put aside as they come."""
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
                yield Entry.from_json({**item, "body": canonical(item["body"]).decode("ascii")}).row
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InvalidValueError(
                "file", got=f"line {at}", allowed="lines written by hush ledger export", hint="This line is not one."
            ) from error
    if count != expected or not count:  # a chain that was cut short is a chain: only the first line knows
        raise InvalidValueError(
            "file", got=f"{count} entries", allowed=f"a whole export, of {expected or 'some'} entries"
        )
