"""Acts beside budgets: who let whom in, with which role, and which policy came into force.

They are entries of the chain like charges are, so nobody can take one away or change it unseen. They move no budget.
An act has an identity, under which it is recorded once: whoever is not sure whether it was, records it again. What can
happen more than once under one identity, such as a policy that comes into force, is recorded when it differs from the
last time.

>>> from hush.ledger import Actor, Ledger
>>> ledger = Ledger.in_memory()
>>> added = OwnerAct(identity="a1", by="Dr Weiss", what="add-person", whom="alice", detail={"roles": "analyst"})
>>> ledger.record(added), ledger.record(added)
(True, False)
>>> print(ledger.acts(Actor.owner("Dr Weiss"))[-1])
added alice (roles: analyst)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from hush.core import InvalidValueError
from hush.core.values import dataclass
from hush.ledger.actors import label
from hush.ledger.book import Book
from hush.ledger.chain import Chain, Draft
from hush.ledger.entries import Entry
from hush.ledger.system import now

KIND = "act"
WORDS = {
    "add-person": "added",
    "remove-person": "removed",
    "change-roles": "changed the roles of",
    "make-link": "made a one-time link for",
    "make-token": "made a token for",
    "revoke-token": "revoked a token of",
    "set-password": "set the password of",
    "sign-out": "ended all sessions of",
    "restore-people": "restored the people of the service",
    "write-policy": "wrote the policy",
    "policy": "the policy came into force",
}
"""What can be done, and how it is told. It only grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerAct:
    """Something that somebody did around a service."""

    identity: str
    """Under which it is recorded once."""
    by: str
    what: str
    """One of `WORDS`."""
    whom: str = ""
    """Whom it concerns."""
    detail: Mapping[str, str] = field(default_factory=dict)
    when: str = ""
    """When it was done, where that was before it is recorded."""

    def __post_init__(self) -> None:
        label(self.identity, "identity")
        label(self.by, "by")
        if self.what not in WORDS:
            raise InvalidValueError("what", got=self.what, allowed=f"one of {', '.join(WORDS)}")


def record(chain: Chain, act: OwnerAct) -> bool:
    """Append an act to the chain, and return whether it was not there yet."""
    content: dict[str, Any] = {"act": act.what, "whom": act.whom, "of": dict(act.detail), "accounts": []}

    def make(book: Book) -> Draft:
        last = chain.store.act(act.identity)
        if last is not None and all(last.read().get(name) == value for name, value in content.items()):
            raise _RecordedError
        body = {"by": act.by, "when": act.when or now(), **content}
        return Entry.draft(KIND, body, after=book.head, request=act.identity), {}

    try:
        chain.append(make)
    except _RecordedError:
        return False
    return True


def in_words(detail: Mapping[str, Any]) -> str:
    """Return an act in words."""
    more = "; ".join(f"{name}: {value}" for name, value in detail.get("of", {}).items())
    what = WORDS.get(detail["act"], detail["act"])
    return f"{what} {detail.get('whom', '')}".strip() + (f" ({more})" if more else "")


class _RecordedError(Exception):
    """Leaves the transaction of an act that stands in the chain already."""
