"""Reservations: charges that are on the disk, what became of them, and their answers once more.

A charge is made before data is read, against every budget above it: all of them, or none. Its outcome, an answer or a
failure, is an entry of its own, recorded once. Whoever asks again under the same request id gets the answer of then,
free of charge; a charge without an answer stays charged. An entry that is used again is first checked against the one
before it, so that nobody can slip an answer in.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hush.accounting.events import Event
from hush.accounting.filters import Charge, Filter
from hush.core import InvalidValueError
from hush.core.values import dataclass
from hush.ledger.book import Book, Key
from hush.ledger.budgets import price, share, under
from hush.ledger.chain import Chain, Draft
from hush.ledger.entries import ORIGIN, Entry, damaged, digest
from hush.ledger.errors import LedgerError, RequestConflictError, RequestUnansweredError, UnknownAccountError
from hush.ledger.rules import charge_to_json, charged


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A charge that is on the disk. With it, and only with it, data may be read.

    >>> Reservation(number=4, request="q1", analyst="alice", data="clinic", question_hash="ab").replayed
    False
    """

    number: int
    """The entry's number in the ledger: the receipt."""
    request: str
    analyst: str
    data: str
    question_hash: str
    answer: bytes | None = None
    """The stored answer, if this was answered before: the data set was charged nothing, and nothing may be drawn."""
    when: str = ""
    """When the stored answer was paid for."""
    shared: bool = False
    """Whether another analyst's answer was just charged to this one's account."""

    @property
    def replayed(self) -> bool:
        """Whether the answer comes from an earlier time."""
        return self.answer is not None


def replayed(chain: Chain, reservation: Entry, hashed: str, ungranted: set[bytes]) -> Reservation:
    """Return the answer of a charge that was made before, free; ``ungranted`` are charges that nobody has used yet."""
    content = trusted(chain, reservation).read()
    if content.get("question_hash") != hashed:
        raise used_before(reservation)
    unanswered = Reservation(
        number=reservation.number,
        request=reservation.request,
        analyst=reservation.analyst,
        data=reservation.data,
        question_hash=hashed,
    )
    outcome = chain.store.outcome(reservation.number)
    if outcome is None and reservation.hash in ungranted:  # paid for, never used: the disk failed in between
        ungranted.remove(reservation.hash)
        return unanswered
    if outcome is None:
        raise RequestUnansweredError(
            f"The request {reservation.request!r} was charged on {content['when']} and has no answer: it is still "
            "running, or its process died. It stays charged. Ask again under a new request id."
        )
    result = trusted(chain, outcome).read()
    if outcome.kind == "failed":
        raise RequestUnansweredError(
            f"The request {reservation.request!r} was charged on {content['when']} and failed: "
            f"{result['reason']}. It stays charged. Ask again under a new request id."
        )
    answer = chain.store.answer(reservation.number)
    if answer is None or hashlib.sha256(answer).hexdigest() != result["answer"]:
        raise damaged(outcome.number, "the answer stored with it is not the one that was given")
    return replace(unanswered, answer=answer, when=content["when"])


def used_before(charge: Entry) -> RequestConflictError:
    """Return the error about a request id that stands for another question."""
    return RequestConflictError(
        f"The request id {charge.request!r} was used on {charge.read()['when'][:10]} for another question or price. "
        "Use a new id for a new question; nothing was charged."
    )


def check_bound(chain: Chain, analyst: str, request: str, hashed: str) -> None:
    """Refuse a request id that brought the paid answer of another question again, free of charge."""
    if chain.store.bound(analyst, request) not in {None, hashed}:
        raise RequestConflictError(
            f"The request id {request!r} was used before for another question or price. "
            "Use a new id for a new question; nothing was charged."
        )


def bind(chain: Chain, analyst: str, request: str, hashed: str) -> None:
    """Note which question a request id was used for, unless a charge says so."""
    with chain.locked():
        if chain.store.reservation(analyst, request) is None and chain.store.bound(analyst, request) is None:
            chain.store.bind(analyst, request, hashed)
            chain.store.commit()


def trusted(chain: Chain, entry: Entry) -> Entry:
    """Return an old entry that is about to be used again, after checking it against the one before."""
    before = chain.store.entry(entry.number - 1)
    if digest(ORIGIN if before is None else before.hash, *entry.row[:8]) != entry.hash:
        raise damaged(entry.number, "its hash does not match its content")
    return entry


def record_outcome(
    chain: Chain, kind: str, reservation: Reservation, body: dict[str, Any], answer: bytes | None
) -> None:
    """Record what became of a reservation, once."""
    if not isinstance(reservation, Reservation) or reservation.replayed:
        raise InvalidValueError("reservation", got=reservation, allowed="a new reservation of this ledger")

    def make(book: Book) -> Draft:
        reserved = chain.store.entry(reservation.number)
        if (
            reserved is None
            or (reserved.kind, reserved.data, reserved.analyst, reserved.request)
            != ("reserve", reservation.data, reservation.analyst, reservation.request)
            or reserved.read()["question_hash"] != reservation.question_hash
        ):
            raise InvalidValueError("reservation", got=reservation, allowed="a reservation of this ledger")
        if chain.store.outcome(reservation.number) is not None:
            raise LedgerError(f"The outcome of the request {reservation.request!r} is recorded already.")
        return Entry.draft(
            kind,
            body,
            after=book.head,
            data=reserved.data,
            analyst=reserved.analyst,
            request=reserved.request,
            about=reserved.number,
        ), {}

    chain.append(make, answer=answer)


class ReplayError(Exception):
    """Leaves the transaction of a request that was made before."""


_WHOLE = 10**12


class TooMuchError(Exception):
    """Leaves the transaction of a charge that does not fit."""

    def __init__(self, account: Filter, charge: Charge, key: Key) -> None:
        super().__init__(key)
        self.account = account
        self.charge = charge
        self.key = key


Charged = tuple[dict[Key, Filter | None], list[dict[str, str]], int]
"""The accounts after a charge, its prices, and its weight."""


def charge(
    book: Book,
    data: str,
    analyst: str,
    events: Sequence[Event],
    prices: Mapping[Key, Charge],
    lowered: Mapping[Key, tuple[Fraction, Fraction]],
    *,
    shared: bool = False,
) -> Charged:
    """Return the accounts after the charge, its prices, and its weight; or refuse it as a whole.

    What is ``shared`` was released before: it costs the data set nothing, and the analyst what they learn by it.
    Without an analyst it is a release of a standing question, which is paid from what was set aside for it.
    """
    keys = charged(book, data, analyst, shared=shared)
    weight = 0
    after: dict[Key, Filter | None] = dict.fromkeys(keys)
    paid: dict[Key, Charge] = {}
    for key in reversed(keys):  # the analyst's own budget first: its message is the one to act on
        account = book.accounts[key]
        room = book.committed(key) if analyst else account  # what is set aside is for standing questions alone
        if account is None or room is None:
            raise damaged(book.head.number, f"the account {key} has no state")
        paid[key] = prices[key] if key in prices else price(account, events)
        if not room.fits(paid[key]):
            raise TooMuchError(room, paid[key], key)
        if key in lowered:
            smaller = under(room, *lowered[key])
            cost = paid[key] if smaller.currency == account.currency else price(smaller, events)
            if not smaller.fits(cost):
                raise TooMuchError(smaller, cost, key)
        after[key] = account.admit(paid[key])
        if not key[1]:  # the last one, the data set's
            weight = min(-int(-share(account, paid[key]) * _WHOLE // 1), 2**62)
    return after, [charge_to_json(paid[key]) for key in keys], weight


def known(book: Book, data: str, analyst: str = "") -> None:
    """Refuse names that have no account; of data sets, name the nearest (who else may ask is nobody's business)."""
    if (data, "") not in book.accounts:
        names = [key[0] for key in book.accounts if not key[1]]
        raise UnknownAccountError(f"There is no data set {data!r} in the ledger{_nearest(data, names)}")
    if (data, analyst) not in book.accounts:
        raise UnknownAccountError(f"{analyst!r} may not ask about {data!r}; the owner can add them.")


def _nearest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"; did you mean {close[0]!r}?" if close else "."
