r"""Entries, who makes them, and the chain that holds them together.

An entry is one line of columns and a body in canonical JSON. Its hash covers the hash of the entry before it and every
column it has, so changing, removing, inserting or reordering anything changes every hash after it:

    hashₙ = SHA-256( hashₙ₋₁ ‖ number \n kind \n data \n analyst \n request \n about \n weight \n body )

No column contains a line break (a body is JSON in ASCII), and the count of line breaks is checked, so two different
entries never have the same preimage. The last hash, the *head*, stands for the whole history.

The kinds are an append-only vocabulary:

========== ==========================================================================================
ledger     the first entry: the ledger's id and where its anchor is
data       a data set with its lifetime budget
analyst    an analyst with a budget on a data set
raise      a larger budget for a data set or an analyst
standing   a declared stream: a part of the data set's budget is set aside for its releases
ended      a declared stream makes no further release; what is still set aside for it is free again
reserve    a charge, made before any data is read: who, when, question, events, price; without an
           analyst it is a release of a declared stream, paid from what was set aside
shared     a charge to an analyst alone, for an answer that another one's reservation has paid for
requested  a question that waits for the owner, with its price; nothing is charged
approved   the owner lets a requested question be charged, once
declined   the owner does not
answered   the outcome of a reservation: the hash of the answer
failed     the other outcome; the charge stays
act        something around a service: who let whom in, which policy came into force
restored   the owner put a copy in place, or imported one, and said what it lost
========== ==========================================================================================

Every entry that moves a budget contains the state of that account after it, exactly, so the last entry of an account
says all: reading a ledger adds nothing up, and the running totals are covered by the hash like all else.

**Who acts**: owners change budgets, analysts spend them. The ledger records who did what and checks that the role
allows it. It does not find out whether somebody is who they say: that is the caller's task (a server that
authenticates, an operating system that guards the file).

>>> Actor.owner("Dr Weiss").require_owner("raise a budget")
>>> Actor.analyst("alice").require_owner("raise a budget")
Traceback (most recent call last):
...
hush.ledger.errors.NotAllowedError: alice may not raise a budget: that needs the owner role; ask the owner.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from hush.core import InvalidValueError
from hush.ledger.errors import RESTORE, LedgerDamagedError, NotAllowedError

Row = tuple[int, bytes, bytes, bytes, bytes, int, int, bytes, bytes]
"""An entry as the store holds it: number, kind, data, analyst, request, about, weight, body, hash."""

ORIGIN = bytes(32)
"""The hash that the first entry uses in place of a previous entry's hash."""

CHARGES = frozenset({"reserve", "shared", "answered", "failed"})
"""The kinds that can only spend; all others are acts of an owner."""

OUTCOMES = frozenset({"answered", "failed"})
"""The kinds that move no budget, and are about a reservation."""

_BREAKS = 7
_LONGEST = 200
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


class Head(NamedTuple):
    """The last entry's number and hash."""

    number: int = 0
    hash: bytes = ORIGIN


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the chain."""

    number: int
    kind: str
    data: str
    analyst: str
    request: str
    about: int
    """For an outcome, the number of its reservation."""
    weight: int
    """For a reservation, its share of the data set's budget at the time, in parts of 10¹²; `heaviest` sorts by it."""
    body: bytes
    hash: bytes

    @classmethod
    def draft(
        cls,
        kind: str,
        body: dict[str, Any],
        *,
        after: Head,
        data: str = "",
        analyst: str = "",
        request: str = "",
        about: int = 0,
        weight: int = 0,
    ) -> Entry:
        """Return the entry that follows ``after``."""
        number, text = after.number + 1, canonical(body)
        columns = (number, kind.encode(), data.encode(), analyst.encode(), request.encode(), about, weight, text)
        return cls(number, kind, data, analyst, request, about, weight, text, digest(after.hash, *columns))

    @classmethod
    def of(cls, row: Row) -> Entry:
        """Return the entry in a row, which may be damaged."""
        number, kind, data, analyst, request, about, weight, body, hashed = row
        try:
            texts = kind.decode(), data.decode(), analyst.decode(), request.decode()
            return cls(number, *texts, about, weight, body, bytes(hashed))
        except (UnicodeDecodeError, AttributeError, TypeError, ValueError) as error:
            raise damaged(number, "its columns are not text") from error

    @property
    def row(self) -> Row:
        """The columns, as stored."""
        texts = self.kind.encode(), self.data.encode(), self.analyst.encode(), self.request.encode()
        return (self.number, *texts, self.about, self.weight, self.body, self.hash)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain JSON values."""
        return asdict(self) | {"body": self.body.decode("ascii"), "hash": self.hash.hex()}

    @classmethod
    def from_json(cls, content: Any) -> Entry:
        """Return the entry that was written; its hash is still to be checked."""
        number, about, weight = numbers = content["number"], content["about"], content["weight"]
        texts = content["kind"], content["data"], content["analyst"], content["request"]
        # Not isinstance: JSON's true is an int in Python, and would have the preimage of 1.
        if set(map(type, numbers)) != {int} or set(map(type, texts)) != {str}:
            raise TypeError(content)
        return cls(number, *texts, about, weight, content["body"].encode("ascii"), bytes.fromhex(content["hash"]))

    @property
    def same_question(self) -> str:
        """The fingerprint that all charges for the same question share; empty for entries of other kinds."""
        if self.kind not in {"reserve", "shared"} or b'"same_question"' not in self.body:
            return ""
        return str(self.read().get("same_question", ""))

    @property
    def paid_by(self) -> int:
        """The number of the reservation that paid for an outcome or for a shared answer; 0 if there is none."""
        source = self.about if self.kind != "shared" else self.read().get("of")
        return source if isinstance(source, int) else 0

    @property
    def head(self) -> Head:
        """The head of a ledger that ends here."""
        return Head(number=self.number, hash=self.hash)

    def read(self) -> dict[str, Any]:
        """Return the body's content."""
        try:
            content = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise damaged(self.number, "its body is not JSON") from error
        if not isinstance(content, dict):
            raise damaged(self.number, "its body is not an object")
        return content


def now() -> str:
    """Return the present moment in UTC, to the microsecond.

    >>> len(now()), now()[-1]
    (27, 'Z')
    """
    return moment(datetime.now(UTC))


def moment(when: datetime) -> str:
    """Return a moment in UTC as entries have it: the texts sort as the moments do."""
    return when.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def canonical(value: Any) -> bytes:
    r"""Return the one way to write a JSON value: sorted keys, no spaces, ASCII.

    >>> canonical({"b": [1, None], "a": "ε"})
    b'{"a":"\\u03b5","b":[1,null]}'
    """
    return _encode(value).encode("ascii")


def digest(previous: bytes, *columns: Any) -> bytes:
    """Return the hash of an entry, given its columns without their hash, after the entry with the hash ``previous``."""
    preimage = b"%b%d\n%b\n%b\n%b\n%b\n%d\n%d\n%b" % (previous, *columns)
    # Counted after the previous hash, which is binary and may contain the byte of a line break.
    if preimage.count(b"\n", len(previous)) != _BREAKS:
        raise damaged(columns[0], "a column contains a line break")
    return hashlib.sha256(preimage).digest()


def follow(head: Head, row: Row) -> Head:
    """Return the head after one more entry, or refuse an entry that does not follow."""
    try:
        number, hashed = row[0], row[8]
        if number == head.number + 1 and digest(head.hash, *row[:8]) == hashed:
            return Head(number=number, hash=hashed)
    except TypeError as error:  # damage can turn a column into another type
        raise damaged(head.number + 1, "a column has the wrong type") from error
    if number != head.number + 1:
        raise damaged(head.number + 1, f"entry {number!r} stands in its place")
    raise damaged(number, "its hash does not match its content")


def damaged(number: object, why: str) -> LedgerDamagedError:
    """Return the error about one entry."""
    return LedgerDamagedError(
        f"Entry {number} of the ledger cannot be trusted: {why}. No budget is given out. {RESTORE}"
    )


def label(value: object, parameter: str) -> str:
    """Return a name or an id: printable text of 1 to 200 characters on one line, without spaces around it."""
    # Half of a surrogate pair, which cannot be stored, is not printable.
    if isinstance(value, str) and 0 < len(value) <= _LONGEST and value == value.strip() and value.isprintable():
        return value
    raise InvalidValueError(parameter, got=value, allowed=f"1 to {_LONGEST} printable characters on one line")


def prose(value: object, parameter: str, *, longest: int = 1_000_000) -> str:
    """Return a text of any kind of characters that can be stored."""
    if isinstance(value, str) and value.strip() and len(value) <= longest:
        with suppress(UnicodeEncodeError):  # half of a surrogate pair is no character
            value.encode()
            return value
    raise InvalidValueError(parameter, got=value, allowed=f"a text of 1 to {longest} characters")


def reasons(reason: str) -> dict[str, str]:
    """Return the part of an act's body that says why, if a reason is given."""
    return {"reason": prose(reason, "reason", longest=2000)} if reason else {}


def receipt_number(receipt: str | int) -> int:
    """Return the number on a receipt.

    >>> receipt_number("56")
    56
    """
    text = str(receipt)
    if isinstance(receipt, bool) or not (text.isascii() and text.isdecimal()) or not 0 < len(text) <= 18:
        raise InvalidValueError("receipt", got=receipt, allowed="the number on a receipt, such as 56")
    return int(text)


class Role(StrEnum):
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
