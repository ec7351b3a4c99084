"""The common part of whole releases: how they are priced, charged, measured and stored.

A release is kept as bytes: what is public of it, its *head*, and its measurements. The ledger keeps them; a service
sends them. From both everything that it shows can be made again, without the policy and without the data. So it can be
seen again by its receipt when the policy has changed, and a client makes of it the very object that a local curator
returns. The head depends on question and policy alone; measurements are noisy. No kept release but a stream
(`hush.curator.streams`) touches rows again, so no change of the policy can make it tell more than it told; and a new
release is found among the kept ones by a fingerprint of the policy, the plan and the events (`release`).

>>> price = Money(epsilon=Fraction(1), delta=Fraction(0))
>>> head = ReleaseHead(kind="model", price=price, caveats=(), question="SELECT age FROM visits")
>>> again, measurements = unpacked(packed(head, b"measured"))
>>> again == head, measurements, unpacked(b"measured by an earlier version")
(True, b'measured', (None, b'measured by an earlier version'))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from hush.accounting.events import Event
from hush.core import InvalidValueError, positive
from hush.curator.answer import Answer, Money
from hush.curator.coding import Coding
from hush.curator.data_sets import OpenDataSet
from hush.curator.pipeline import charge, publish
from hush.curator.session import Accounts, AnalystSession, MadeUpError
from hush.curator.terms import Order
from hush.engines.protocol import CodedRows
from hush.ledger import Charge
from hush.ledger.budgets import Outlook, Spending
from hush.mechanisms.grouped import zcdp_budget
from hush.query.errors import QuestionError
from hush.query.plan.plan import gaussian_price
from hush.query.question import fingerprint
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, shown
from hush.synth import Price

if TYPE_CHECKING:
    from hush.query.plan.rows import RowPlan

Planned = TypeVar("Planned")
Released = TypeVar("Released")
_MAGIC = b"hush release 1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRows:
    """The rows of a whole release: named and bounded, nothing read yet. Public."""

    data_set: OpenDataSet
    plan: RowPlan
    accounts: Accounts
    """The accounts that the release must fit."""

    def caveats(self, counted: str = "") -> list[str]:
        """Return caveats about rows that do not count: beyond the limit of a unit, or without a value."""
        limits = self.plan.limits
        rows = f"at most {limits.rows} row{'s' if limits.rows > 1 else ''} count"
        caveats = [] if limits.units.name == "ALONE" else [f"of each unit {counted or rows}"]
        names = [column.name for column in self.plan.columns if column.type.nullable and not column.null]
        return [*caveats, f"rows without a value in {', '.join(names)} are left out"] if names else caveats


def plan_rows(
    session: AnalystSession, question: str, *, max_rows: int | None = None, data: str | None = None
) -> PlannedRows:
    """Plan the rows of a whole release or a model: SELECT columns FROM …, without aggregates. Reads no data.

    ``max_rows`` says how many rows of one unit count; None for the policy's number.
    """
    from hush.query.plan.rows import plan_rows
    from hush.query.sql import parse_rows

    if session.made_up:
        raise MadeUpError
    if not isinstance(question, str):
        raise InvalidValueError("question", got=question, allowed="SQL as text")
    with session.in_use():
        data_set, parsed = session.parse(lambda schema: parse_rows(question, schema), data)
        rows = plan_rows(parsed, data_set.schema, max_rows=max_rows, matches=data_set.engine.matches)
        return PlannedRows(data_set=data_set, plan=rows, accounts=session.accounts(data_set.schema.data))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseHead:
    """The public part of a release: kind, price, caveats, question and columns."""

    kind: str
    """``marginals``, ``synthetic``, ``family``, ``ranges`` or ``model``."""
    price: Money
    caveats: tuple[str, ...]
    question: str
    """The SQL that names its rows."""
    coding: Coding | None = None
    """Its columns; None for a model, which has its own schema."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of this kind of release, as plain JSON values."""

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
    """Return a release as bytes; equal releases have equal bytes."""
    encoded = json.dumps(head.to_json(), separators=(",", ":"), ensure_ascii=False).encode()
    return b"".join([_MAGIC, len(encoded).to_bytes(8, "big"), encoded, measurements])


def unpacked(data: bytes) -> tuple[ReleaseHead | None, bytes]:
    """Return the head and the measurements that `packed` wrote; the head is None in releases of older versions."""
    if not data.startswith(_MAGIC):
        return None, data
    begin = len(_MAGIC) + 8
    end = begin + int.from_bytes(data[len(_MAGIC) : begin], "big")
    return ReleaseHead.from_json(json.loads(data[begin:end])), data[end:]


@dataclass(frozen=True, kw_only=True)
class Headed:
    """The common part of explanations and releases: price, caveats, question and columns of their head."""

    head: ReleaseHead

    @property
    def price(self) -> Money:
        """The price that is charged."""
        return self.head.price

    @property
    def caveats(self) -> tuple[str, ...]:
        """The facts that a reader of the release must know, in words."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact in words, or an error with the words before and after it."""

    label: str = ""
    words: str
    error: float | None = None
    after: str = ""

    def told(self, rounded: Callable[[float], str] = shown) -> str:
        """Return the fact without its label."""
        return self.words if self.error is None else f"{self.words}{rounded(self.error)}{self.after}"

    def __str__(self) -> str:
        return f"{self.label}: {self.told()}" if self.label else self.told()


@dataclass(frozen=True, kw_only=True)
class ReleaseExplanation(Headed, Generic[Planned]):
    """The price of a release, its rows and its expected errors. Nothing was read or charged."""

    rows: PlannedRows = field(repr=False)
    text: str
    """The words that the ledger records, with the options of the release."""
    events: tuple[Event, ...]
    """The events that an accountant would charge."""
    plan: Planned = field(repr=False)
    """The planned noise, or the model."""
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The fields that this kind of release adds to the JSON."""
    facts: tuple[Fact, ...] = ()
    """The price, then the expected errors."""

    @property
    def event(self) -> Event:
        """The event of a model."""
        return self.events[0]

    @property
    def outlook(self) -> Outlook | None:
        """The share that the release would take of the budget that binds."""
        return self.rows.accounts.outlook(self.events)

    def errors(self) -> dict[Any, float]:
        """Return half-widths or deviations: by table, by column, or by the length of an interval."""
        return errors_in(self.details)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        budget = None if (outlook := self.outlook) is None else outlook.to_json()
        return {"price": self.price.to_json(), "budget": budget, **self.details, "caveats": list(self.caveats)}

    def lines(self) -> list[str]:
        """Return the price, and below it the expected errors, the share of the budget and the caveats."""
        price, *errors = self.facts
        budget = [] if (outlook := self.outlook) is None else [f"budget: {outlook}"]
        details = [*map(str, errors), *budget, *(f"note: {caveat}" for caveat in self.caveats)]
        return [str(price), *(f"  {line}" for line in details)]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def errors_in(details: Mapping[str, Any]) -> dict[Any, float]:
    """Return the errors in the JSON of an explained release."""
    if "tables" in details:
        return {tuple(table["columns"]): table["error"] for table in details["tables"]}
    return dict(details.get("deviations") or details.get("errors") or {})


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeRelease(Headed):
    """The base of all releases except models: head, measurements and receipt."""

    kept: bytes = field(repr=False)
    """The measurements, as they are stored with the receipt."""
    receipt: str = ""
    remaining: Money | None = None
    spending: Spending | None = None
    """The share that it took of the budget that bound it, and the share that is left."""

    @classmethod
    def made(cls, head: ReleaseHead, measurements: bytes, **paid: Any) -> Self:
        """Return the release that measurements make; ``paid`` are receipt, remaining budget and spending."""
        return cls(head=head, kept=measurements, **paid)

    def to_bytes(self) -> bytes:
        """Return the release as bytes: head and measurements, from which it can be made again."""
        return packed(self.head, self.kept)

    def _counts(
        self, keys: Iterable[AnswerColumn], values: Iterable[float], errors: Iterable[float] | None, confidence: float
    ) -> Answer:
        """Return counts under their keys as an answer with the price and the receipt of this release."""
        half_widths = None if errors is None else tuple(errors)
        counts = AnswerColumn(name="n", kind=Kind.DECIMAL, values=tuple(values), errors=half_widths, counts=True)
        return Answer(
            columns=(*keys, counts),
            confidence=confidence,
            price=self.price,
            remaining=self.remaining,
            spending=self.spending,
            receipt=self.receipt,
            caveats=self.caveats,
            question=self.question,
        )


def amount_of(epsilon: object) -> Fraction:
    """Return ε; refuse a release without a price."""
    if epsilon is None:
        raise QuestionError("A release needs its price.", "Say epsilon=…, or --epsilon.")
    return positive(epsilon, "epsilon")


def price_of(accounts: Accounts, epsilon: object) -> tuple[Fraction, Price]:
    """Return ε, and the noise that it buys: Gaussian where the accounts take it, else Laplace."""
    amount = amount_of(epsilon)
    # Gaussian noise has a finite price only with a δ, and only in accounts that price zCDP
    rho = zcdp_budget(amount, accounts.delta) if accounts.delta and accounts.take_gaussian else Fraction(0)
    return amount, Price(law="gaussian", amount=rho) if rho else Price(law="laplace", amount=amount)


def head_of(
    kind: str, planned: PlannedRows, purpose: str, epsilon: Fraction, price: Price, coding: Coding, **details: Any
) -> ReleaseHead:
    """Return the head of a release; its caveats are rows that do not count, merged values, and what its price means."""
    caveats = planned.caveats()
    grouped = [f"{column.name} (by {column.width})" for column in coding.columns if column.width > 1]
    if grouped:
        caveats.append(f"neighbouring values are one: {', '.join(grouped)}")
    if price.law == "gaussian":
        caveats.append(gaussian_price(planned.accounts.delta))
    return ReleaseHead(
        kind=kind,
        price=Money.single(purpose, epsilon),
        caveats=tuple(caveats),
        question=planned.plan.question.text,
        coding=coding,
        details=details,
    )


def release(
    session: AnalystSession,
    explained: ReleaseExplanation[Any],
    measure: Callable[[CodedRows], bytes],
    made: Callable[..., Released],
    order: Order,
    *,
    options: object = None,
) -> Released:
    """Charge its events, measure rows, and return the release that ``made`` builds from head and measurements.

    The charge is durable before any row is read. ``measure`` must be as private as the events say, and may fail only in
    ways that depend on no row; what it returns is stored with the receipt. Asked again, or under the same request id,
    the stored bytes come back, free of charge. ``options`` are further choices that change the release: with other
    options it has another fingerprint.
    """
    head, data_set, rows = explained.head, explained.rows.data_set, explained.rows.plan
    # caveats are prose: other words for them do not make another release
    public = {name: value for name, value in head.to_json().items() if name != "caveats"}
    with session.in_use():
        # as for questions, refused before the charge or not at all
        statement = data_set.engine.prepare_rows(rows)
        identity = fingerprint(
            "release",
            explained.text,
            data_set.identity,
            data_set.schema,
            rows.question,
            rows.limits,
            [event.to_json() for event in explained.events],
            public if options is None else (public, options),
        )
        decision = charge(
            session,
            data_set,
            explained.events,
            text=explained.text,
            same=identity,
            request=order.request,
            fresh=order.fresh,
            epsilon=head.price.epsilon,
        )
        if isinstance(decision, Charge):
            seconds = statement.effort.seconds(data_set.sizes)
            stored = publish(
                session, decision, lambda: packed(head, measure(data_set.engine.rows(statement))), bytes, seconds
            )
        else:
            stored = decision.answer
        spending = session.ledger.spending(decision.number)
        remaining = session.accounts(data_set.schema.data, again=True).remaining
    # an earlier release has the head of its own day: the policy may have other columns by now
    earlier, measurements = unpacked(stored)
    head = earlier or head
    if not isinstance(decision, Charge):
        note = f"paid for on {decision.when[:10]}, and nothing was charged now; fresh=True (--fresh) releases anew"
        head = replace(head, caveats=(*head.caveats, note))
    return made(head, measurements, receipt=str(decision.number), remaining=remaining, spending=spending)
