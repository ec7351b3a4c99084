"""Who acts: owners change budgets, analysts spend them.

The ledger records who did what and checks that the role allows it. It does not find out whether somebody is who they
say: that is the caller's task (a server that authenticates, an operating system that guards the file).

**Acts beside budgets**: who let whom in, with which role, and which policy came into force. They are entries of the
chain like charges are, so nobody can take one away or change it unseen. They move no budget. An act has an identity,
under which it is recorded once: after a doubt whether it was, it is recorded again. What can happen more than once
under one identity, such as a policy that comes into force, is recorded when it differs from the last time.

>>> from hush.ledger import Actor, Ledger
>>> ledger = Ledger.in_memory()
>>> added = OwnerAct(identity="a1", by="Dr Weiss", what="add-person", whom="alice", detail={"roles": "analyst"})
>>> ledger.record(added), ledger.record(added)
(True, False)
>>> print(ledger.acts(Actor.owner("Dr Weiss"))[-1])
added alice (roles: analyst)
>>> Actor.owner("Dr Weiss").require_owner("raise a budget")
>>> Actor.analyst("alice").require_owner("raise a budget")
Traceback (most recent call last):
...
hush.ledger.errors.NotAllowedError: alice may not raise a budget: that needs the owner role; ask the owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from hush.core import InvalidValueError
from hush.ledger.errors import NotAllowedError

_LONGEST = 200


def label(value: object, parameter: str) -> str:
    """Return a name or an id: printable text of 1 to 200 characters on one line, without spaces around it."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= _LONGEST
        or value != value.strip()
        or not value.isprintable()
        or not _encodable(value)
    ):
        raise InvalidValueError(parameter, got=value, allowed=f"1 to {_LONGEST} printable characters on one line")
    return value


def prose(value: object, parameter: str, *, longest: int = 1_000_000) -> str:
    """Return a text of any kind of characters that can be stored."""
    if not isinstance(value, str) or not value.strip() or len(value) > longest or not _encodable(value):
        raise InvalidValueError(parameter, got=value, allowed=f"a text of 1 to {longest} characters")
    return value


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair is no character
        return False
    return True


class Role(Enum):
    """The role of an actor: owners change budgets, analysts spend them.

    >>> Role("owner")
    <Role.OWNER: 'owner'>
    """

    OWNER = "owner"
    ANALYST = "analyst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody in a role."""

    name: str
    role: Role

    def __post_init__(self) -> None:
        label(self.name, "name")
        if not isinstance(self.role, Role):
            raise InvalidValueError("role", got=self.role, allowed="Role.OWNER or Role.ANALYST")

    @classmethod
    def owner(cls, name: str) -> Actor:
        """Somebody who may open, raise and restore, and sees everything."""
        return cls(name=name, role=Role.OWNER)

    @classmethod
    def analyst(cls, name: str) -> Actor:
        """Somebody who may spend their own budget, and sees their own questions."""
        return cls(name=name, role=Role.ANALYST)

    def require_owner(self, act: str) -> None:
        """Refuse an act that only an owner may do."""
        if self.role is not Role.OWNER:
            raise NotAllowedError(f"{self.name} may not {act}: that needs the owner role; ask the owner.")

    def sees(self, analyst: str) -> bool:
        """Say whether the actor may read an analyst's questions."""
        return self.role is Role.OWNER or self.name == analyst


WORDS = {
    "add-person": "added",
    "remove-person": "removed",
    "change-roles": "changed the roles of",
    "make-link": "made a one-time link for",
    "make-token": "made a token for",
    "revoke-token": "revoked a token of",
    "set-password": "set the password of",
    "sign-out": "ended all sessions of",
    "bind-identity": "bound an account at the provider to",
    "unbind-identity": "took the account at the provider from",
    "suspend-person": "suspended",
    "set-factor": "set up the second factor of",
    "drop-factor": "turned off the second factor of",
    "restore-people": "restored the people of the service",
    "write-policy": "wrote the policy",
    "read-rows": "looked at the first rows of a file",
    "propose": "proposed",
    "confirm": "confirmed the proposal of",
    "policy": "the policy came into force",
}
"""The kinds of acts, and their words in reports; no kind is ever removed, because old entries name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerAct:
    """Something that somebody did around a service."""

    identity: str
    """The act is recorded once under this identity."""
    by: str
    what: str
    """One of `WORDS`."""
    whom: str = ""
    """Whom it concerns."""
    detail: Mapping[str, str] = field(default_factory=dict)
    when: str = ""
    """The time of the act, if it was earlier than its record; empty for the time of the record."""

    def __post_init__(self) -> None:
        label(self.identity, "identity")
        label(self.by, "by")
        if self.what not in WORDS:
            raise InvalidValueError("what", got=self.what, allowed=f"one of {', '.join(WORDS)}")


def in_words(detail: Mapping[str, Any]) -> str:
    """Return an act in words."""
    more = "; ".join(f"{name}: {value}" for name, value in detail.get("of", {}).items())
    what = WORDS.get(detail["act"], detail["act"])
    return f"{what} {detail.get('whom', '')}".strip() + (f" ({more})" if more else "")
