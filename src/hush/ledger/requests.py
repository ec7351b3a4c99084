"""Requests: expensive questions, and wishes for more budget, wait for the owner's decision.

A policy may say ``ask_first = { epsilon = "0.5" }`` of an analyst. A question above that ε is then not charged but
recorded as a request, with its text, its price and the analyst's reason. The owner approves or declines; both are
entries of the ledger. An approved request lets the same question be charged once. The owner sees the question and its
price, never an answer: there is none yet. Nothing here depends on rows.

An analyst may also ask for a larger budget: for a new total, so that the owner sees the old one beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from hush.core import InvalidValueError, Number
from hush.core.format import figure
from hush.ledger.budgets import Budget
from hush.ledger.chain import Chain
from hush.ledger.entries import Actor, reasons
from hush.ledger.errors import LedgerError, TooManyRequestsError
from hush.ledger.state import Key, LedgerState
from hush.ledger.store import Store

MOST_WAITING, MOST_WAITING_BYTES = 20, 2**18
"""How many requests of one analyst may wait for the owner, and how long their texts may be together."""


class Parked(NamedTuple):
    """A question that was not charged, because the owner decides first, or has declined it.

    >>> Parked(number=7, message="It waits for the owner.").number
    7
    """

    number: int
    """The request's number in the ledger."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedQuestion:
    """A question, or a wish for more budget, that waits, or waited, for the owner.

    >>> from hush.ledger import Actor, Ledger
    >>> Ledger.in_memory().requests(Actor.owner("Dr Weiss"))                  # nothing waits
    []
    """

    number: int
    analyst: str
    data: str
    when: str
    question: str
    identity: str
    """The fingerprint of the question: equal for the same question."""
    epsilon: str | None
    """Its price, as exact text; None where it has no ε of its own."""
    reason: str
    state: str
    """``waiting``, ``approved``, ``declined``, or ``used``: it was approved, and charged."""
    by: str = ""
    """Who decided."""
    why: str = ""
    """The owner's reason."""
    wanted: str | None = None
    """The new total of the analyst's ε, as exact text, where more budget is asked for; None for a question."""

    def raises(self, state: LedgerState) -> bool:
        """Return whether its approval raises an account. One that is not open yet is opened as the policy then says."""
        account = state.accounts.get((self.data, self.analyst))
        return self.wanted is not None and account is not None and account.epsilon < Fraction(self.wanted)

    def __str__(self) -> str:
        """Return the request in a line."""
        price = "without an ε of its own" if self.epsilon is None else f"ε={self.epsilon}"
        if self.wanted is not None:
            price = f"a budget of ε={self.wanted}"
        decided = f" by {self.by}" if self.by else ""
        reasons = "".join(f"; {text}" for text in (self.reason, self.why) if text)
        asked = "" if self.wanted is not None else f": {' '.join(self.question.split())}"
        return f"{self.number}  {self.state}{decided}  {self.analyst} on {self.data}, {price}{asked}{reasons}"


def listed(store: Store) -> list[ParkedQuestion]:
    """Return all requests, newest first."""
    entries, used = store.parked(), store.used_approvals()
    decisions = {entry.read()["of"]: entry for entry in entries if entry.kind != "requested"}
    requests = []
    for entry in reversed(entries):
        if entry.kind != "requested":
            continue
        content, decision = entry.read(), decisions.get(entry.number)
        told = {} if decision is None else decision.read()
        facts = {name: content[name] for name in ("when", "question", "identity", "epsilon", "reason")}
        facts |= {"by": told.get("by", ""), "why": told.get("reason", ""), "wanted": content.get("wanted")}
        state = "waiting" if decision is None else "used" if entry.number in used else decision.kind
        names = {"analyst": entry.analyst, "data": entry.data}
        requests.append(ParkedQuestion(number=entry.number, state=state, **names, **facts))
    return requests


def ask_for_budget(chain: Chain, key: Key, present: Fraction | None, epsilon: Number, reason: str) -> int:
    """Record that an analyst asks for a new total instead of the ``present`` ε; return the request's number."""
    (data, analyst), wanted = key, Fraction(Budget(epsilon=epsilon).epsilon)
    if present is None:
        raise LedgerError(f"{analyst} has no budget of their own on {data!r}; ask the owner.")
    if wanted <= present:
        raise InvalidValueError("epsilon", got=epsilon, allowed=f"more than the present budget, {figure(present)}")
    reasons(reason)
    wish = {"question": "", "identity": "budget", "epsilon": None, "wanted": str(wanted), "reason": reason}
    with chain.locked():
        for request in listed(chain.store):
            if request.state == "waiting" and request.wanted is not None and (request.data, request.analyst) == key:
                why = f"A larger budget is asked for already (request {request.number}); the owner decides."
                raise LedgerError(why)
        return _park(chain, key, wish)


def _park(chain: Chain, key: Key, wish: Mapping[str, Any]) -> int:
    """Record a request (inside the lock), and return its number; refuse more than an analyst may have waiting.

    Requests are free, and stay in the ledger for ever.
    """
    data, analyst = key
    chain.store.check_room()  # requests cost no budget, so only these limits keep them from filling the disk
    waiting = [other for other in listed(chain.store) if other.analyst == analyst and other.state == "waiting"]
    size = sum(len((other.question + other.reason).encode()) for other in waiting)
    size += len((wish["question"] + wish["reason"]).encode())
    if len(waiting) >= MOST_WAITING or size > MOST_WAITING_BYTES:
        raise TooManyRequestsError(
            f"{len(waiting)} requests of {analyst} wait for the owner, and with this one their texts have "
            f"{size:,} bytes; the limits are {MOST_WAITING} and {MOST_WAITING_BYTES:,}. It was not recorded, and "
            "nothing was charged. Wait until the owner has decided, or ask the owner to."
        )
    return chain.record("requested", analyst, wish, data=data, analyst=analyst)


def decide(chain: Chain, number: int, *, approve: bool, actor: Actor, reason: str) -> ParkedQuestion:
    """Record the owner's decision on a waiting request, and return the request as it was.

    Of two owners who decide at once the first one's word holds, and no budget is raised by a request that was declined.
    """
    decision = {"of": number, **reasons(reason)}
    with chain.locked():
        waiting = next((request for request in listed(chain.store) if request.number == number), None)
        if waiting is None or waiting.state != "waiting":
            why = "is no request" if waiting is None else f"is {waiting.state} already"
            raise LedgerError(f"{number} {why}. See hush requests.")
        kind = "approved" if approve else "declined"
        chain.record(kind, actor.name, decision, data=waiting.data, analyst=waiting.analyst)
    return waiting


def approval(
    chain: Chain, key: Key, limit: Fraction, wish: Mapping[str, str], epsilon: Fraction | None
) -> int | Parked:
    """Return the approved request that lets a question be charged, or record one that waits (inside the lock).

    ``wish`` has the question's text, its identity, and the analyst's reason.
    """
    # An approval holds for one price: the same question at another ε is another request.
    price = None if epsilon is None else str(epsilon)
    wanted = (*key, wish["identity"], price)
    for request in listed(chain.store):
        number = request.number
        if (request.data, request.analyst, request.identity, request.epsilon) != wanted or request.state == "used":
            continue
        if request.state == "approved":
            return number
        if request.state == "waiting":
            return Parked(number, f"The question waits for the owner (request {number}).")
        why = f": {request.why}" if request.why else ""
        return Parked(number, f"{request.by} has declined request {number}{why}.")
    # No request yet, or only used ones: an approval is good for one charge.
    number = _park(chain, key, {**wish, "epsilon": price})
    needed = f"Questions above ε={figure(limit)} need the owner's approval."
    return Parked(
        number, f"{needed} Request {number} is recorded and nothing was charged; ask again when it is approved."
    )
