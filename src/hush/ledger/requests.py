"""Requests: expensive questions, and wishes for more budget, wait for the owner's decision.

A policy may say ``ask_first = { epsilon = "0.5" }`` of an analyst. A question above that ε is then not charged but
recorded as a request, with its text, its price and the analyst's reason. The owner approves or declines; both are
entries of the ledger. An approved request lets the same question be charged once. The owner sees the question and its
price, never an answer: there is none yet. Nothing here depends on rows.

An analyst may also ask for a larger budget: for a new total, so that the owner sees the old one beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hush.core import InvalidValueError, Number, positive
from hush.core.format import figure
from hush.ledger.actors import Actor, label, prose
from hush.ledger.budgets import LARGEST_EPSILON
from hush.ledger.chain import Chain
from hush.ledger.entries import Entry, now
from hush.ledger.errors import LedgerError, TooManyRequestsError
from hush.ledger.history import AccountView
from hush.ledger.state import Key, LedgerState

MOST_WAITING, MOST_WAITING_BYTES = 20, 2**18
"""How many requests of one analyst may wait for the owner, and how long their texts may be together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
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


def parked(chain: Chain, actor: Actor) -> list[ParkedQuestion]:
    """Return the requests that an actor may see, newest first."""
    with chain.reading():
        entries = chain.store.parked()
        used = chain.store.used_approvals()
    return [found for found in _parked(entries, used) if actor.sees(found.analyst)]


def _parked(entries: Iterable[Entry], used: Iterable[Any]) -> list[ParkedQuestion]:
    listed = list(entries)
    decisions = {entry.read()["of"]: entry for entry in listed if entry.kind != "requested"}
    taken = set(used)
    found = []
    for entry in reversed(listed):
        if entry.kind != "requested":
            continue
        content, decision = entry.read(), decisions.get(entry.number)
        told = {} if decision is None else decision.read()
        state = "waiting" if decision is None else "used" if entry.number in taken else decision.kind
        found.append(
            ParkedQuestion(
                number=entry.number,
                analyst=entry.analyst,
                data=entry.data,
                when=content["when"],
                question=content["question"],
                identity=content["identity"],
                epsilon=content["epsilon"],
                reason=content["reason"],
                state=state,
                by=told.get("by", ""),
                why=told.get("reason", ""),
                wanted=content.get("wanted"),
            )
        )
    return found


def ask_for_budget(
    chain: Chain, views: Iterable[AccountView], data: str, *, epsilon: Number, actor: Actor, reason: str
) -> int:
    """Record that an analyst asks for a new total of their budget, and return the request's number."""
    key, wanted = (label(data, "data"), actor.name), positive(epsilon, "epsilon")
    own = next((view for view in views if (view.data, view.analyst) == key), None)
    if own is None:
        raise LedgerError(f"{actor.name} has no budget of their own on {data!r}; ask the owner.")
    if wanted <= own.epsilon:
        raise InvalidValueError("epsilon", got=epsilon, allowed=f"more than the present budget, {figure(own.epsilon)}")
    if wanted > LARGEST_EPSILON:
        raise InvalidValueError("epsilon", got=epsilon, allowed="a number from 0 to 1e100")
    if reason:
        prose(reason, "reason", longest=2000)
    body: dict[str, Any] = {"by": key[1], "when": now(), "question": "", "identity": "budget", "epsilon": None}
    body |= {"wanted": str(wanted), "reason": reason, "accounts": []}
    with chain.locked() as state:
        for request in _parked(chain.store.parked(), ()):
            if request.state == "waiting" and request.wanted is not None and (request.data, request.analyst) == key:
                raise LedgerError(
                    f"A larger budget is asked for already (request {request.number}); the owner decides."
                )
        return _park(chain, state, key, body)


def _park(chain: Chain, state: LedgerState, key: Key, body: dict[str, Any]) -> int:
    """Record a request (inside the lock), and return its number; refuse more than an analyst may have waiting.

    Requests are free, and stay in the ledger for ever.
    """
    data, analyst = key
    chain.store.check_room()  # requests cost no budget, so only these limits keep them from filling the disk
    waiting = [one for one in _parked(chain.store.parked(), ()) if one.analyst == analyst and one.state == "waiting"]
    size = sum(len((one.question + one.reason).encode()) for one in waiting)
    size += len((body["question"] + body["reason"]).encode())
    if len(waiting) >= MOST_WAITING or size > MOST_WAITING_BYTES:
        raise TooManyRequestsError(
            f"{len(waiting)} requests of {analyst} wait for the owner, and with this one their texts have "
            f"{size:,} bytes; the limits are {MOST_WAITING} and {MOST_WAITING_BYTES:,}. It was not recorded, and "
            "nothing was charged. Wait until the owner has decided, or ask the owner to."
        )
    entry = Entry.draft("requested", body, after=state.head, data=data, analyst=analyst)
    chain.write(entry, {})
    return entry.number


def decide(
    chain: Chain, number: int, *, approve: bool, actor: Actor, reason: str, raise_budget: Callable[..., None]
) -> None:
    """Record the owner's decision on a waiting request; then raise the budget, if more budget was approved.

    Of two owners who decide at once the first one's word holds, and no budget is raised by a request that was declined.
    """
    body: dict[str, Any] = {"by": actor.name, "when": now(), "of": number, "accounts": []}
    if reason:
        body["reason"] = prose(reason, "reason", longest=2000)
    with chain.locked() as state:
        requests = _parked(chain.store.parked(), chain.store.used_approvals())
        found = next((request for request in requests if request.number == number), None)
        if found is None or found.state != "waiting":
            why = "is no request" if found is None else f"is {found.state} already"
            raise LedgerError(f"{number} {why}. See hush requests.")
        kind = "approved" if approve else "declined"
        chain.write(Entry.draft(kind, body, after=state.head, data=found.data, analyst=found.analyst), {})
    # A second entry, so it needs the lock anew: there is one write inside a lock. Another owner may have raised the
    # budget meanwhile, so compare it with the present state.
    if approve and found.raises(chain.state):
        raise_budget(found.data, found.analyst, epsilon=str(found.wanted), actor=actor, reason=reason)


def approval(
    chain: Chain, state: LedgerState, key: Key, limit: Fraction, wish: Mapping[str, str], epsilon: Fraction | None
) -> int | Parked:
    """Return the approved request that lets a question be charged, or record one that waits (inside the lock).

    ``wish`` has the question's text, its identity, and the analyst's reason.
    """
    data, analyst = key
    # An approval holds for one price: the same question at another ε is another request.
    price = None if epsilon is None else str(epsilon)
    for request in _parked(chain.store.parked(), chain.store.used_approvals()):
        same = (request.data, request.analyst, request.identity) == (data, analyst, wish["identity"])
        if not same or request.epsilon != price:
            continue
        number = request.number
        if request.state == "approved":
            return number
        if request.state == "waiting":
            return Parked(number=number, message=f"The question waits for the owner (request {number}).")
        if request.state == "declined":
            why = f": {request.why}" if request.why else ""
            return Parked(number=number, message=f"{request.by} has declined request {number}{why}.")
    # No request yet, or only used ones: an approval is good for one charge.
    body: dict[str, Any] = {"by": analyst, "when": now(), "epsilon": price, "accounts": [], **wish}
    number = _park(chain, state, key, body)
    return Parked(
        number=number,
        message=f"Questions above ε={figure(limit)} need the owner's approval. Request {number} is recorded and "
        "nothing was charged; ask again when it is approved.",
    )
