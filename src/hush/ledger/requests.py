"""Requests: questions dearer than an owner lets pass unseen, and more budget, wait until the owner has decided.

A policy may say ``ask_first = { epsilon = "0.5" }`` of an analyst. A dearer question is then not charged but recorded
as a request, with its text, its price and the analyst's reason. The owner approves or declines; both are entries of the
ledger. An approved request lets the same question be charged once. The owner sees the question and its price, never an
answer: there is none yet. Nothing here depends on rows.

An analyst may also ask for a larger budget: for a new total, so that the owner sees the old one beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from fractions import Fraction
from typing import Any

from hush.core import InvalidValueError, Number, positive
from hush.core.format import figure
from hush.core.values import dataclass
from hush.ledger.actors import Actor, label, prose
from hush.ledger.book import Book, Key
from hush.ledger.budgets import LARGEST_EPSILON
from hush.ledger.chain import Chain, Draft
from hush.ledger.entries import Entry
from hush.ledger.errors import LedgerError
from hush.ledger.reading import AccountView
from hush.ledger.repeats import Paid, Repeat, RunningError, find
from hush.ledger.system import now


class ApprovalNeededError(LedgerError):
    """The owner has to approve the question first; it is recorded as a request, and nothing was charged."""

    code = "approval-needed"

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number
        """The request's number in the ledger."""


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
    """What makes it the same question as another."""
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

    def raises(self, book: Book) -> bool:
        """Return whether its approval raises an account. One that is not open yet is opened as the policy then says."""
        account = book.accounts.get((self.data, self.analyst))
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


def _waiting(chain: Chain, number: int, actor: Actor) -> ParkedQuestion:
    """Return a request that waits; refuse a number that is none, or one that was decided."""
    found = {request.number: request for request in parked(chain, actor)}.get(number)
    if found is None or found.state != "waiting":
        state = "is no request" if found is None else f"is {found.state} already"
        raise LedgerError(f"{number} {state}. See hush requests.")
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
    for request in parked(chain, Actor.analyst(key[1])):
        if request.state == "waiting" and request.wanted is not None and request.data == key[0]:
            raise LedgerError(f"A larger budget is asked for already (request {request.number}); the owner decides.")
    body: dict[str, Any] = {"by": key[1], "when": now(), "question": "", "identity": "budget", "epsilon": None}
    body |= {"wanted": str(wanted), "reason": reason, "accounts": []}
    entry = chain.append(
        lambda book: (Entry.draft("requested", body, after=book.head, data=key[0], analyst=key[1]), {})
    )
    return entry.number


def decide(
    chain: Chain, number: int, *, approve: bool, actor: Actor, reason: str, raise_budget: Callable[..., None]
) -> None:
    """Record what the owner decided of a request that waits; then raise the budget, if that is what it is about.

    Of two owners who decide at once the first one's word holds, and no budget is raised by a request that was declined.
    """
    found = _waiting(chain, number, actor)
    body: dict[str, Any] = {"by": actor.name, "when": now(), "of": number, "accounts": []}
    if reason:
        body["reason"] = prose(reason, "reason", longest=2000)
    kind = "approved" if approve else "declined"

    def make(book: Book) -> Draft:
        for entry in chain.store.parked():  # under the lock: another owner may have been quicker
            if entry.kind != "requested" and entry.read()["of"] == number:
                raise LedgerError(f"{number} is {entry.kind} already. See hush requests.")
        return Entry.draft(kind, body, after=book.head, data=found.data, analyst=found.analyst), {}

    chain.append(make)
    if approve and found.raises(chain.book):
        raise_budget(found.data, found.analyst, epsilon=str(found.wanted), actor=actor, reason=reason)


def approval(
    chain: Chain,
    key: Key,
    limit: Fraction,
    request: str,
    question: str,
    repeat: Repeat | None,
    *,
    hashed: str,
    epsilon: Fraction | None,
    reason: str,
    fits: Callable[[Book, Entry | None], object],
) -> int | None:
    """Return the approved request that lets a question be charged; None if it needs none; or record a request.

    What was paid for before needs none. ``fits`` refuses what the budget does not hold, perhaps given another analyst's
    answer that is shared: no approval could let that pass, so it does not wait for one.
    """
    data, analyst = key
    if (epsilon is not None and epsilon <= limit) or chain.store.reservation(analyst, request) is not None:
        return None
    paid: Paid | None = None
    if repeat is not None and not repeat.fresh:
        with suppress(RunningError), chain.reading():
            paid = find(chain.store, repeat, data=data, analyst=analyst, ungranted=())
        if paid is not None and paid.own(analyst):
            return None
    with chain.reading() as book:
        fits(book, None if paid is None else paid.source)
    identity = hashed if repeat is None else repeat.question
    price = None if epsilon is None else str(epsilon)
    for made in parked(chain, Actor.analyst(analyst)):
        if (made.data, made.identity, made.epsilon) != (data, identity, price):
            continue
        if made.state == "approved":
            return made.number
        if made.state == "waiting":
            raise ApprovalNeededError(f"The question waits for the owner (request {made.number}).", made.number)
        if made.state == "declined":
            why = f": {made.why}" if made.why else ""
            raise ApprovalNeededError(f"{made.by} has declined request {made.number}{why}.", made.number)
    body = {"by": analyst, "when": now(), "question": question, "identity": identity, "epsilon": price}
    body |= {"reason": reason, "accounts": []}  # type: ignore[dict-item]
    entry = chain.append(lambda book: (Entry.draft("requested", body, after=book.head, data=data, analyst=analyst), {}))
    raise ApprovalNeededError(
        f"Questions above ε={figure(limit)} need the owner's approval. Request {entry.number} is recorded and "
        "nothing was charged; ask again when it is approved.",
        entry.number,
    )
