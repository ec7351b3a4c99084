"""The full check: every hash, every rule, every answer, and the totals accounted for afresh.

Opening a ledger checks the chain and the anchor. This also asks whether what was written is right, entry by entry: see
:mod:`hush.ledger.rules`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from hush.core.values import dataclass
from hush.ledger.book import Book
from hush.ledger.chain import Chain
from hush.ledger.entries import Entry, Row, damaged, follow
from hush.ledger.rules import check


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a check has found to be in order; anything else is an error.

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
    """Where the head is kept as well."""


def verify(chain: Chain) -> Report:
    """Check everything, or raise :class:`~hush.ledger.errors.LedgerDamagedError` at the first entry that is wrong."""
    counted = {"reserve": 0, "answered": 0, "failed": 0}
    book = Book()
    with chain.reading() as known, chain.store.entries() as rows:
        for entry in checked(book, rows, chain.store.entry):
            if entry.kind in counted:
                counted[entry.kind] += 1
            if entry.kind == "answered":
                stored = chain.store.answer(entry.about)
                if stored is None or hashlib.sha256(stored).hexdigest() != entry.read()["answer"]:
                    raise damaged(entry.number, "the answer stored with it is not the one that was given")
        if book.head.number < known.head.number:
            raise damaged(book.head.number + 1, "it disappeared while the ledger was being checked")
    return Report(
        entries=book.head.number,
        head=book.head.hash.hex(),
        charges=counted["reserve"],
        answered=counted["answered"],
        failed=counted["failed"],
        pending=counted["reserve"] - counted["answered"] - counted["failed"],
        accounts=len(book.accounts),
        anchor="none" if chain.anchor is None else chain.anchor.place,
    )


def checked(book: Book, rows: Iterable[Row], find: Callable[[int], Entry | None]) -> Iterable[Entry]:
    """Yield entries, each checked by its hash and by the rules against all before it.

    ``find`` returns an entry that was checked before, by its number.
    """
    open_charges: dict[int, Entry] = {}
    requests: set[tuple[str, str]] = set()
    for row in rows:
        follow(book.head, row)
        entry = Entry.of(row)
        paid = find(entry.paid_by) if entry.kind == "shared" else open_charges.pop(entry.about, None)
        check(book, entry, paid)
        book.take(entry)
        if entry.kind == "reserve":
            if (entry.analyst, entry.request) in requests:
                raise damaged(entry.number, "its request id was used before")
            requests.add((entry.analyst, entry.request))
            open_charges[entry.number] = entry
        yield entry
