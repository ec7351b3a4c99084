"""What whole releases share: how they are priced, charged and measured, and what is kept of them.

A release is kept as bytes: what is public of it, its *head*, and its measurements. The ledger keeps them; a service
sends them. From both everything that it shows can be made again, without the policy and without the data. So it can be
seen again by its receipt when the policy has changed, and a client makes of it the very object that a local curator
returns. The head depends on question and policy alone; measurements are noisy.

>>> price = Money(epsilon=Fraction(1), delta=Fraction(0))
>>> head = ReleaseHead(kind="model", price=price, caveats=(), question="SELECT age FROM visits")
>>> again, measurements = unpacked(packed(head, b"measured"))
>>> again == head, measurements, unpacked(b"measured by an earlier version")
(True, b'measured', (None, b'measured by an earlier version'))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any, Self, TypeVar

from hush.accounting.events import Event
from hush.core import positive
from hush.core.values import dataclass
from hush.curator.access import Access, Order, PlannedRows
from hush.curator.answer import Answer, Money
from hush.curator.coding import Coding
from hush.engines.base import CodedRows
from hush.mechanisms.grouped import zcdp_budget
from hush.query.errors import QuestionError
from hush.query.plan.wording import gaussian_price
from hush.report.columns import AnswerColumn
from hush.synth import Price

Released = TypeVar("Released")
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
        return {
            "release": self.kind,
            "price": self.price.itemised_json(),
            "caveats": list(self.caveats),
            "question": self.question,
            "columns": None if self.coding is None else self.coding.to_json(),
            "details": dict(self.details),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the head that `to_json` wrote."""
        columns = content["columns"]
        return cls(
            kind=content["release"],
            price=Money.from_json(content["price"]),
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


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeRelease:
    """What every kind of release that is no model has: its head, its measurements, its receipt."""

    head: ReleaseHead
    kept: bytes = field(repr=False)
    """The measurements, as they are stored with the receipt."""
    receipt: str = ""
    remaining: Money | None = None

    @property
    def price(self) -> Money:
        """What it cost."""
        return self.head.price

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader must know."""
        return self.head.caveats

    @property
    def question(self) -> str:
        """The SQL that names its rows."""
        return self.head.question

    @property
    def coding(self) -> Coding:
        """Its columns."""
        assert self.head.coding is not None  # noqa: S101 - a model alone has none
        return self.head.coding

    def to_bytes(self) -> bytes:
        """Return what everything that it shows is made of."""
        return packed(self.head, self.kept)

    def _receipt_json(self) -> dict[str, Any]:
        """Return how it was paid as plain JSON values."""
        return {
            "price": self.price.to_json(),
            "remaining": None if self.remaining is None else self.remaining.to_json(),
            "receipt": self.receipt,
            "caveats": list(self.caveats),
        }

    def _table(self, columns: tuple[AnswerColumn, ...], confidence: float) -> Answer:
        """Return columns of it as an answer."""
        return Answer(
            columns=columns,
            confidence=confidence,
            price=self.price,
            remaining=self.remaining,
            receipt=self.receipt,
            caveats=self.caveats,
            question=self.question,
        )


def noted(lines: Iterable[str], caveats: Iterable[str]) -> str:
    """Return the lines of an explanation with what a reader must know below them."""
    return "\n".join([*lines, *(f"  note: {caveat}" for caveat in caveats)])


def price_of(planned: PlannedRows, epsilon: object) -> tuple[Fraction, Price]:
    """Return ε, and the noise that it buys: Gaussian where the accounts take it, else Laplace."""
    if epsilon is None:
        raise QuestionError("A release needs its price.", "Say epsilon=…, or --epsilon.")
    asked = positive(epsilon, "epsilon")
    rho = zcdp_budget(asked, planned.delta) if planned.delta and planned.gaussian else Fraction(0)
    return asked, Price(law="gaussian", amount=rho) if rho else Price(law="laplace", amount=asked)


def release_caveats(planned: PlannedRows, coding: Coding, price: Price) -> tuple[str, ...]:
    """Return what a reader of a release must know."""
    limits, found = planned.plan.limits, []
    if limits.units.name != "ALONE":
        found.append(f"of each unit at most {limits.rows} row{'s' if limits.rows > 1 else ''} count")
    dropped = [column.name for column in coding.columns if column.coded.type.nullable and not column.coded.null]
    if dropped:
        found.append(f"rows without a value in {', '.join(dropped)} are left out")
    grouped = [f"{column.name} (by {column.width})" for column in coding.columns if column.width > 1]
    if grouped:
        found.append(f"neighbouring values are one: {', '.join(grouped)}")
    if price.law == "gaussian":
        found.append(gaussian_price(planned.delta))
    return tuple(found)


def release(
    access: Access,
    planned: PlannedRows,
    events: Sequence[Event],
    measure: Callable[[CodedRows], bytes],
    made: Callable[..., Released],
    *,
    head: ReleaseHead,
    text: str,
    order: Order,
    options: object = None,
) -> Released:
    """Charge events, measure rows, and return what ``made`` makes of a head and measurements.

    ``options`` is what decides besides the head, if there is such: with others it is another release.
    """
    kept = access.release_rows(
        planned,
        events,
        lambda rows: packed(head, measure(rows)),
        text=text,
        public=head.to_json() if options is None else (head.to_json(), options),
        order=order,
        epsilon=head.price.epsilon,
    )
    told = replace(head, caveats=(*head.caveats, *kept.notes))
    return made(told, unpacked(kept.measurements)[1], receipt=kept.receipt, remaining=kept.remaining)
