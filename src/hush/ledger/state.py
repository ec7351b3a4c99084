"""The state of a ledger: the sum of its entries, held in memory.

A process reads and checks the whole chain once, when it opens the ledger, and from then on only what others have added
since. Its picture of every account therefore comes from entries whose hashes it has checked itself; an edit behind its
back changes nothing that it believes, and the next entry it is asked to follow does not fit. That is also why a charge
takes the same time on a long ledger as on a short one.

Reading is fast because nothing is added up: the last entry that mentions an account contains its state. While a long
chain is read, bodies are only remembered; at the end, one body per account is parsed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from hush.accounting.filters import Charge, Filter, filter_from_json
from hush.core import HushError
from hush.ledger.entries import ORIGIN, Entry, Head, Row, canonical, damaged, digest
from hush.ledger.entries import follow as follow_one

_OUTCOMES = frozenset({b"answered", b"failed"})

Key = tuple[str, str]
"""An account: the data set's name, and the analyst's, or nothing for the data set itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """The part of a data set's budget that is set aside for a standing question, and its next release."""

    number: int = 0
    """The entry that declared it."""
    data: str
    price: Charge
    """The price of one release, in the currency of the data set's account."""
    events: str
    """The hash of one release's events: no other release is paid from here."""
    releases: int
    next: int = 0
    """The number of the first release that may still be made: it only grows, so no period is released twice."""
    ended: bool = False

    @property
    def left(self) -> int:
        """How many releases are still paid for."""
        return 0 if self.ended else self.releases - self.next


def events_hash(events: Any) -> str:
    """Return the hash of a release's events."""
    return hashlib.sha256(canonical(events)).hexdigest()


class LedgerState:
    """The head, the ledger's id, and the accounts: a cache that can always be computed again from the chain."""

    __slots__ = ("_replaced", "_stood", "_summed", "accounts", "anchor", "head", "id", "pending", "standing")

    def __init__(self) -> None:
        self.head = Head()
        self.id = ""
        self.anchor = ""
        """The place of the anchor, as the ledger records it; ``none`` if it has none."""
        self.accounts: dict[Key, Filter | None] = {}
        """The state of every account; None for an analyst who is bound by the data set's budget alone."""
        self.pending: dict[int, Key] = {}
        """The account of each reservation without an outcome, by the reservation's number."""
        self.standing: dict[str, SetAside] = {}
        """The parts of budgets that are set aside for standing questions, by their names."""
        self._replaced: dict[Key, Filter | None] | None = None
        self._stood = self.standing
        self._summed: tuple[dict[str, SetAside], dict[str, Charge | None]] | None = None
        """A cache: the plans that were added up, and the sum set aside on each data set's account."""

    def committed(self, key: Key) -> Filter | None:
        """Return an account as it will stand when every standing question has made its releases.

        What is not set aside for them is what others may spend.
        """
        account = self.accounts[key]
        if account is None or not self.standing:
            return account
        # `move` makes a new dictionary for every change, so another object means that the sum is out of date.
        if self._summed is None or self._summed[0] is not self.standing:
            names = {plan.data for plan in self.standing.values()}
            self._summed = (self.standing, {name: self._aside(name) for name in names})
        charge = self._summed[1].get(key[0]) if not key[1] else None
        return account if charge is None else account.spend(charge)

    def _aside(self, data: str) -> Charge | None:
        """Return the sum set aside on a data set's budget; None if nothing is set aside."""
        charges = [plan.price.repeated(plan.left) for plan in self.standing.values() if plan.left and plan.data == data]
        epsilons = [charge.epsilon for charge in charges if charge.epsilon is not None]
        if not charges:
            return None
        return replace(
            charges[0],
            loss=sum((charge.loss for charge in charges), Fraction(0)),
            delta=sum((charge.delta for charge in charges), Fraction(0)),
            # One price without a finite ε makes the sum infinite.
            epsilon=sum(epsilons, Fraction(0)) if len(epsilons) == len(charges) else None,
        )

    def follow(self, row: Row) -> Entry:
        """Check one entry against the head, and take it over."""
        head = follow_one(self.head, row)
        entry = Entry.of(row)
        self.take(entry)
        self.head = head
        return entry

    def take(self, entry: Entry) -> None:
        """Take over the content of an entry that was checked or just made; its hash is not checked again."""
        if entry.kind in {"answered", "failed"}:
            self.move(entry, {})
            return
        content = entry.read()
        try:
            if entry.kind == "ledger":
                self.id = str(content["id"])
            if "anchor" in content:
                self.anchor = str(content["anchor"])
        except KeyError as error:
            raise damaged(entry.number, "its accounts cannot be read") from error
        self.move(entry, account_states(entry, content))

    def move(self, entry: Entry, accounts: Mapping[Key, Filter | None]) -> None:
        """Make an entry the head, given the accounts that it changes."""
        # Kept for `rewound`: checking an entry that the anchor lacks needs the state before it.
        self._replaced = {key: self.accounts[key] for key in accounts if key in self.accounts}
        self.accounts.update(accounts)
        self._stood = self.standing
        if entry.kind in {"standing", "ended"} or (entry.kind == "reserve" and not entry.analyst):
            self.standing = self._stands(entry)
        if entry.kind == "reserve":
            self.pending[entry.number] = (entry.data, entry.analyst)
        # `about` is 0 for all entries but outcomes, and no entry has the number 0.
        self.pending.pop(entry.about, None)
        self.head = entry.head

    def _stands(self, entry: Entry) -> dict[str, SetAside]:
        """Return all plans after an entry about a standing question."""
        content = entry.read()
        try:
            if entry.kind == "standing":
                name, priced = entry.request, content["price"]
                summed = priced.get("epsilon")
                price = Charge(
                    currency=priced["currency"],
                    loss=priced["loss"],
                    delta=priced["delta"],
                    epsilon=summed,
                )
                plan = SetAside(
                    number=entry.number,
                    data=entry.data,
                    price=price,
                    events=events_hash(content["events"]),
                    releases=content["releases"],
                )
            elif entry.kind == "ended":
                name = entry.request
                plan = replace(self.standing[name], ended=True)
            else:
                name = content["standing"]["name"]
                plan = replace(self.standing[name], next=content["standing"]["number"] + 1)
        except (KeyError, TypeError, AttributeError, HushError) as error:
            raise damaged(entry.number, "what it says of a standing question cannot be read") from error
        return {**self.standing, name: plan}

    def rewound(self) -> LedgerState | None:
        """Return the accounts as they were before the last charge, or None if only the whole chain can tell."""
        if self._replaced is None:
            return None
        before = LedgerState()
        before.id, before.anchor = self.id, self.anchor
        before.accounts = self.accounts | self._replaced
        before.standing = self._stood
        return before

    def follow_all(self, rows: Iterable[Row]) -> None:
        """Check a whole chain; the same as :meth:`follow` on every row, at a fraction of the time."""
        number, previous = self.head.number, self.head.hash
        # The last charge of each analyst on each data set, and the last one that left the data set's account alone.
        charges: dict[tuple[bytes, bytes, bytes], Row] = {}
        pending: dict[int, Row] = {}
        try:
            for row in rows:
                number += 1
                _, kind, data, analyst, _, about, _, _, hashed = row
                if row[0] != number or digest(previous, *row[:8]) != hashed:
                    follow_one(Head(number=number - 1, hash=previous), row)  # says what is wrong
                previous = hashed
                if kind == b"reserve" and analyst:
                    charges[data, analyst, kind] = pending[number] = row
                elif kind == b"shared":
                    charges[data, analyst, kind] = row
                elif kind in _OUTCOMES:
                    pending.pop(about, None)
                else:
                    # Few. An act of the owner may touch any account: settle what came before it, then take it over.
                    # So are releases of standing questions, which nobody asks for.
                    if kind == b"reserve":
                        pending[number] = row
                    self._settle(charges)
                    self.take(Entry.of(row))
        except TypeError as error:
            raise damaged(number, "a column has the wrong type") from error
        self._settle(charges)
        self.pending = {
            at: (entry.data, entry.analyst) for at, entry in ((at, Entry.of(row)) for at, row in pending.items())
        }
        self.head = Head(number=number, hash=previous)

    def _settle(self, charges: dict[tuple[bytes, bytes, bytes], Row]) -> None:
        """Take over the last charges in order, so that a data set's account comes from its very last charge."""
        # A row begins with its number. Charges of different analysts share the data set's account: the last one wins.
        for row in sorted(charges.values()):
            self.take(Entry.of(row))
        charges.clear()
        self._replaced = None  # many entries at once: the state before the last one was never held

    @property
    def empty(self) -> bool:
        """Whether there is no entry at all."""
        return self.head.hash == ORIGIN


def account_states(entry: Entry, content: Mapping[str, Any]) -> dict[Key, Filter | None]:
    """Return the accounts after an entry; None stands for an analyst without a budget of their own."""
    try:
        return {
            (str(item["data"]), str(item["analyst"])): None
            if item["state"] is None
            else filter_from_json(item["state"])
            for item in content["accounts"]
        }
    except (KeyError, TypeError, ValueError, HushError) as error:
        raise damaged(entry.number, "its accounts cannot be read") from error


def account_state(key: Key, account: Filter | None) -> dict[str, Any]:
    """Return one account in the form in which entries hold it."""
    return {"data": key[0], "analyst": key[1], "state": None if account is None else account.to_json()}
