"""The state of a ledger: the sum of its entries, held in memory.

A process reads and checks the whole chain once, when it opens the ledger, and from then on only what others have added
since. Its picture of every account therefore comes from entries whose hashes it has checked itself; an edit behind its
back changes nothing that it believes, and the next entry it is asked to follow does not fit. That is also why a charge
takes the same time on a long ledger as on a short one.

Reading is fast because nothing is added up: the last entry that mentions an account contains its state. While a long
chain is read, charges are only remembered; at the end, one body per account is parsed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hush.accounting.filters import Charge, Filter, filter_from_json, plus
from hush.core import HushError
from hush.ledger.entries import OUTCOMES, Entry, Head, Row, canonical, damaged, digest, follow

_OUTCOMES = frozenset({b"answered", b"failed"})

Key = tuple[str, str]
"""An account: the data set's name, and the analyst's, or nothing for the data set itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """The part of a data set's budget that is set aside for a declared stream, and its next release."""

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


@dataclass(slots=True)
class LedgerState:
    """The head, the ledger's id, and the accounts: a cache that can always be computed again from the chain."""

    head: Head = field(default_factory=Head)
    id: str = ""
    anchor: str = ""
    """The place of the anchor, as the ledger records it; ``none`` if it has none."""
    accounts: dict[Key, Filter | None] = field(default_factory=dict)
    """The state of every account; None for an analyst who is bound by the data set's budget alone."""
    pending: dict[int, Key] = field(default_factory=dict)
    """The account of each reservation without an outcome, by the reservation's number."""
    streams: dict[str, SetAside] = field(default_factory=dict)
    """The parts of budgets that are set aside for declared streams, by their names."""
    aside: dict[str, Charge] = field(default_factory=dict)
    """The sum that is set aside for them on each data set's account."""

    def committed(self, key: Key) -> Filter | None:
        """Return an account as it will stand when every declared stream has made its releases.

        What is not set aside for them is what others may spend.
        """
        account, aside = self.accounts[key], self.aside.get(key[0])
        return account if account is None or key[1] or aside is None else account.spend(aside)

    def charged(self, data: str, analyst: str, *, shared: bool = False) -> list[Key]:
        """Return the accounts that a charge must fit: the data set's, and the analyst's if there is one.

        For an answer that was released before, which is ``shared``, only the latter. A declared stream has no
        analyst.
        """
        own = [(data, analyst)] if analyst and self.accounts.get((data, analyst)) is not None else []
        return own if shared else [(data, ""), *own]

    def take(self, entry: Entry) -> None:
        """Take over the content of an entry that was checked or just made; its hash is not checked again."""
        if entry.kind in OUTCOMES:
            self.move(entry, {})
            return
        content = entry.read()
        if entry.kind == "ledger":
            if "id" not in content:
                raise damaged(entry.number, "its accounts cannot be read")
            self.id = str(content["id"])
        self.anchor = str(content.get("anchor", self.anchor))
        self.move(entry, account_states(entry, content))

    def move(self, entry: Entry, accounts: Mapping[Key, Filter | None]) -> None:
        """Make an entry the head, given the accounts that it changes."""
        self.accounts.update(accounts)
        if entry.kind in {"standing", "ended"} or (entry.kind == "reserve" and not entry.analyst):
            self.streams, self.aside = self.plans_after(entry), {}
            for plan in self.streams.values():
                if plan.left:
                    charge, before = plan.price.repeated(plan.left), self.aside.get(plan.data)
                    if before is not None:
                        loss, delta = before.loss + charge.loss, before.delta + charge.delta
                        charge = replace(before, loss=loss, delta=delta, epsilon=plus(before.epsilon, charge.epsilon))
                    self.aside[plan.data] = charge
        if entry.kind == "reserve":
            self.pending[entry.number] = (entry.data, entry.analyst)
        # `about` is 0 for all entries but outcomes, and no entry has the number 0.
        self.pending.pop(entry.about, None)
        self.head = entry.head

    def plans_after(self, entry: Entry) -> dict[str, SetAside]:
        """Return all plans after an entry about a declared stream."""
        content, name = entry.read(), entry.request
        try:
            if entry.kind == "standing":
                price = charge_from_json(content["price"]["currency"], content["price"])
                events, releases = events_hash(content["events"]), content["releases"]
                plan = SetAside(number=entry.number, data=entry.data, price=price, events=events, releases=releases)
            elif entry.kind == "ended":
                plan = replace(self.streams[name], ended=True)
            else:
                name = content["standing"]["name"]
                plan = replace(self.streams[name], next=content["standing"]["number"] + 1)
        except (KeyError, TypeError, AttributeError, HushError) as error:
            raise damaged(entry.number, "what it says of a declared stream cannot be read") from error
        return {**self.streams, name: plan}

    def follow(self, rows: Iterable[Row]) -> None:
        """Check entries by their hashes, from the head on, and take them over."""
        number, previous = self.head.number, self.head.hash
        # The last charge of each analyst on each data set, and the last one that left the data set's account alone.
        charges: dict[tuple[bytes, bytes, bytes], Row] = {}
        try:
            for row in rows:
                number += 1
                _, kind, data, analyst, _, about, _, _, hashed = row
                if row[0] != number or digest(previous, *row[:8]) != hashed:
                    follow(Head(number=number - 1, hash=previous), row)  # says what is wrong
                previous = hashed
                if kind == b"shared" or (kind == b"reserve" and analyst):
                    charges[data, analyst, kind] = row
                    if kind == b"reserve":
                        self.pending[number] = (data.decode(), analyst.decode())
                elif kind in _OUTCOMES:
                    self.pending.pop(about, None)
                else:
                    # Few. An act of the owner may touch any account: settle what came before it, then take it over.
                    # So may releases of declared streams, which nobody asks for.
                    self._settle(charges)
                    self.take(Entry.of(row))
        except TypeError as error:
            raise damaged(number, "a column has the wrong type") from error
        except UnicodeDecodeError as error:
            raise damaged(number, "its columns are not text") from error
        self._settle(charges)
        self.head = Head(number=number, hash=previous)

    def _settle(self, charges: dict[tuple[bytes, bytes, bytes], Row]) -> None:
        """Take over the last charges in order, so that a data set's account comes from its very last charge."""
        # A row begins with its number. Charges of different analysts share the data set's account: the last one wins.
        for row in sorted(charges.values()):
            entry = Entry.of(row)
            self.accounts.update(account_states(entry, entry.read()))
        charges.clear()


def account_states(entry: Entry, content: Mapping[str, Any]) -> dict[Key, Filter | None]:
    """Return the accounts after an entry; None stands for an analyst without a budget of their own."""
    states: dict[Key, Filter | None] = {}
    try:
        for item in content["accounts"]:
            state = None if item["state"] is None else filter_from_json(item["state"])
            states[str(item["data"]), str(item["analyst"])] = state
    except (KeyError, TypeError, ValueError, HushError) as error:
        raise damaged(entry.number, "its accounts cannot be read") from error
    return states


def account_state(key: Key, account: Filter | None) -> dict[str, Any]:
    """Return one account in the form in which entries hold it."""
    return {"data": key[0], "analyst": key[1], "state": None if account is None else account.to_json()}


def charge_to_json(charge: Charge) -> dict[str, str]:
    """Return a price as plain JSON values, exact; without ε where it is infinite."""
    price = {"loss": str(charge.loss), "delta": str(charge.delta)}
    return price if charge.epsilon is None else price | {"epsilon": str(charge.epsilon)}


def charge_from_json(currency: str, price: Mapping[str, Any]) -> Charge:
    """Return a stored price in an account's currency."""
    return Charge(currency=currency, loss=price["loss"], delta=price["delta"], epsilon=price.get("epsilon"))


def events_hash(events: Any) -> str:
    """Return the hash of a release's events."""
    return hashlib.sha256(canonical(events)).hexdigest()


def question_hash(data: str, question: str, events: list[Any]) -> str:
    """Return the hash of a question: of its data set, its text, and its events, which decide the price."""
    return hashlib.sha256(canonical({"data": data, "question": question, "events": events})).hexdigest()
