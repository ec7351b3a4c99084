"""A whole release as bytes: what is public of it, and its measurements. The ledger keeps them; a service sends them.

From both everything that a release shows can be made again, without the policy and without the data. So a release can
be seen again by its receipt when the policy has changed, and a client makes of it the very object that a local curator
returns. The head depends on question and policy alone; measurements are noisy.

>>> price = Money(epsilon=Fraction(1), delta=Fraction(0))
>>> head = ReleaseHead(kind="model", price=price, caveats=(), question="SELECT age FROM visits")
>>> again, measurements = unpacked(packed(head, b"measured"))
>>> again == head, measurements, unpacked(b"measured by an earlier version")
(True, b'measured', (None, b'measured by an earlier version'))
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import Any, Self

from hush.core.values import dataclass
from hush.curator.answer import Money
from hush.curator.coding import Coding

_MAGIC = b"hush release 1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseHead:
    """What is public of a release."""

    kind: str
    """``marginals``, ``synthetic``, ``ranges`` or ``model``."""
    price: Money
    caveats: tuple[str, ...]
    question: str
    """The SQL that names its rows."""
    coding: Coding | None = None
    """Its columns; None for a model, which has its own schema."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What this kind has besides, as plain JSON values."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        items = [[what, str(epsilon), str(delta)] for what, epsilon, delta in self.price.items]
        return {
            "release": self.kind,
            "price": {"epsilon": str(self.price.epsilon), "delta": str(self.price.delta), "items": items},
            "caveats": list(self.caveats),
            "question": self.question,
            "columns": None if self.coding is None else self.coding.to_json(),
            "details": dict(self.details),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the head that `to_json` wrote."""
        price, columns = content["price"], content["columns"]
        items = tuple((what, Fraction(epsilon), Fraction(delta)) for what, epsilon, delta in price["items"])
        return cls(
            kind=content["release"],
            price=Money(epsilon=Fraction(price["epsilon"]), delta=Fraction(price["delta"]), items=items),
            caveats=tuple(content["caveats"]),
            question=content["question"],
            coding=None if columns is None else Coding.from_json(columns),
            details=content["details"],
        )


def packed(head: ReleaseHead, measurements: bytes) -> bytes:
    """Return a release as bytes; equal ones have equal bytes."""
    encoded = json.dumps(head.to_json(), separators=(",", ":"), ensure_ascii=False).encode()
    return b"".join([_MAGIC, len(encoded).to_bytes(8, "big"), encoded, measurements])


def unpacked(data: bytes) -> tuple[ReleaseHead | None, bytes]:
    """Return the head and the measurements that `packed` wrote; without a head what was kept before there were any."""
    if not data.startswith(_MAGIC):
        return None, data
    begin = len(_MAGIC) + 8
    end = begin + int.from_bytes(data[len(_MAGIC) : begin], "big")
    return ReleaseHead.from_json(json.loads(data[begin:end])), data[end:]
