"""Who acts: owners change budgets, analysts spend them.

The ledger records who did what and checks that the role allows it. It does not find out whether somebody is who they
say: that is the business of whoever calls (a server that authenticates, an operating system that guards the file).

>>> Actor.owner("Dr Weiss").require_owner("raise a budget")
>>> Actor.analyst("alice").require_owner("raise a budget")
Traceback (most recent call last):
...
hush.ledger.errors.NotAllowedError: alice may not raise a budget: that needs the owner role; ask the owner.
"""

from __future__ import annotations

from enum import Enum

from hush.core import InvalidValueError
from hush.core.values import dataclass
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
    """What an actor may do.

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
